"""A drive whose data is kept: equal before and after, also after a kill at any moment and a restore."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from device_targets import loop, tool
from skylight import _native
from skylight.cli.app import run as run_cli
from skylight.engines import preserve as preserve_module
from skylight.engines import restore_guard
from skylight.engines import undo_log as journal_module
from skylight.engines.device import DeviceEngine, state_dir
from skylight.engines.preserve import JOURNAL, PreservingEngine, restore
from skylight.engines.undo_log import Header, Journal, Kept
from skylight.errors import KeepError, TargetError, UsageError
from skylight.evidence import U8, U32, U64, IoBatch, Op

MIB = 1 << 20
SIZE = 64 * MIB
KILLS = 6

# Overwrites random blocks of a file until it is killed. Arguments: file, journal, seed, "guard" or not.
CHILD = """
import sys
from pathlib import Path
import numpy as np
from skylight.engines.preserve import PreservingEngine
from skylight.evidence import IoBatch
engine = PreservingEngine.keeping(sys.argv[1], Path(sys.argv[2]))
rng = np.random.default_rng(int(sys.argv[3]))
while True:
    where = rng.integers(0, engine.size // 4096 - 16, 50).astype(np.uint64) * np.uint64(4096)
    engine.run(IoBatch.writes(where, int(rng.integers(1, 16)) * 4096), depth=4)
    if sys.argv[4] == "unguarded" and engine._guard is not None:
        engine._guard.dismiss()
        engine._guard = None
    print("ready", flush=True)
"""


@pytest.fixture
def target(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of random bytes."""
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    path = tmp_path / "disk.img"
    path.write_bytes(rng.bytes(SIZE))
    yield path
    for note in (tmp_path / "state").glob("*.preserve"):  # a guard that goes on trying ends
        note.unlink()


def batch(rng: np.random.Generator, ios: int = 40) -> IoBatch:
    """Writes here and there, some of the same blocks."""
    where = rng.integers(0, SIZE // 4096 - 64, ios).astype(np.uint64) * np.uint64(4096)
    return IoBatch.writes(np.concatenate([where, where[:5]]), int(rng.integers(1, 64)) * 4096)


def test_what_was_overwritten_is_back_when_it_closes(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    before = target.read_bytes()
    engine = PreservingEngine.keeping(str(target), tmp_path / "out" / JOURNAL)
    assert engine.describe().declared["preserved"] is True
    assert not state_dir().exists(), "nothing is kept before the first write"
    for _ in range(4):
        engine.run(batch(rng), depth=4)
    assert target.read_bytes() != before and (tmp_path / "out" / JOURNAL).exists()
    assert len(list(state_dir().glob("*.preserve"))) == 1
    engine.close()
    assert target.read_bytes() == before
    assert engine.restored is not None and engine.restored.bytes_put > 0
    assert not (tmp_path / "out" / JOURNAL).exists() and not list(state_dir().glob("*.preserve"))


@pytest.mark.parametrize("how", ["guard", "next run", "restore"])
def test_what_was_overwritten_is_back_after_a_kill(
    target: Path, tmp_path: Path, rng: np.random.Generator, how: str
) -> None:
    before = target.read_bytes()
    for kill in range(KILLS if how == "restore" else 2):
        journal = tmp_path / f"out-{kill}" / JOURNAL
        seed, after_s = int(rng.integers(1 << 30)), float(rng.uniform(0, 0.4))
        print(f"{how}: seed {seed}, killed after {after_s:.3f} s")
        words = [sys.executable, "-c", CHILD, str(target), str(journal), str(seed)]
        words.append("guarded" if how == "guard" else "unguarded")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        if how == "guard":
            until = time.monotonic() + 60
            # The journal goes first, and the note of where it was last.
            while (journal.exists() or list(state_dir().glob("*.preserve"))) and time.monotonic() < until:
                time.sleep(0.05)
        elif how == "next run":
            PreservingEngine.keeping(str(target), tmp_path / "again" / JOURNAL).close()
        else:
            assert run_cli(["restore", str(journal.parent)]) == 0
        assert target.read_bytes() == before
        assert not journal.exists() and not list(state_dir().glob("*.preserve"))


def left(target: Path, folder: Path, rng: np.random.Generator) -> Path:
    """The journal of a run that ended without putting anything back."""
    engine = PreservingEngine.keeping(str(target), folder / JOURNAL)
    engine.run(batch(rng))
    assert engine._journal is not None and engine._guard is not None
    engine._journal.close()
    engine._journal = None
    engine._guard.dismiss()
    engine._guard = None
    engine.close()
    return folder / JOURNAL


def test_a_torn_end_belongs_to_no_overwrite(target: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    before = target.read_bytes()
    journal = left(target, tmp_path / "out", rng)
    with journal.open("ab") as file:
        file.write(journal.read_bytes()[-5000:])
    restore(journal)
    assert target.read_bytes() == before


def test_a_damaged_piece_is_said_and_the_rest_is_back(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    journal = left(target, tmp_path / "out", rng)
    content = bytearray(journal.read_bytes())
    content[-20_000] ^= 1
    journal.write_bytes(content)
    with pytest.raises(
        TargetError, match=r"a part of the journal is damaged.* delete .*preserved.journal and .*\.preserve"
    ):
        restore(journal)
    assert journal.exists()
    content[5] ^= 1
    journal.write_bytes(content)
    with pytest.raises(UsageError, match=r"delete it and .*\.preserve"):
        DeviceEngine.open(str(target), destroy_data=True)


def test_a_torn_end_may_hold_a_copy_of_a_journal(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    before = target.read_bytes()
    copy = left(target, tmp_path / "first", rng)
    content = copy.read_bytes()
    restore(copy)
    journal = left(target, tmp_path / "out", rng)
    with journal.open("ab") as file:
        file.write(bytes(100) + content)
    restore(journal)
    assert target.read_bytes() == before


def overwritten(target: Path, before: bytes) -> int:
    """The first block that a run overwrote."""
    now = np.frombuffer(target.read_bytes(), np.uint8)
    return int(np.flatnonzero(now != np.frombuffer(before, np.uint8))[0]) // 4096 * 4096


def test_an_unreadable_block_is_written_anew(
    target: Path, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = target.read_bytes()
    journal = left(target, tmp_path / "out", rng)
    cut_short, read = b"cut short".ljust(4096, b"!"), journal_module._read
    with target.open("r+b") as file:
        file.seek(overwritten(target, before))
        file.write(cut_short)

    def failing(descriptor: int, aligned: mmap.mmap, offset: int, length: int) -> bytes:
        got = read(descriptor, aligned, offset, length)
        if cut_short in got:
            raise OSError(errno.ENODATA, "")
        return got

    monkeypatch.setattr(journal_module, "_read", failing)
    done = restore(journal)
    assert done.bytes_healed == 4096 and "written anew" in done.words
    assert target.read_bytes() == before


def test_an_unwritable_block_does_not_stop_the_rest(
    target: Path, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = target.read_bytes()
    journal = left(target, tmp_path / "out", rng)
    at, write = overwritten(target, before), os.pwritev

    def failing(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset <= at < offset + len(buffers[0]):
            raise OSError(errno.EIO, "")
        return write(descriptor, buffers, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", failing)
        with pytest.raises(TargetError, match=rf"4 KiB of the old data cannot be written .*byte {at}\)"):
            restore(journal)
    now = target.read_bytes()
    assert now[:at] == before[:at] and now[at + 4096 :] == before[at + 4096 :]
    restore(journal)
    assert target.read_bytes() == before and not journal.exists()


def test_kept_are_whole_physical_blocks(target: Path, tmp_path: Path) -> None:
    header = Header(str(target), "key", False, SIZE, 512)
    kept = Journal(tmp_path / "journal", header)
    asked = np.array([[0, 512], [4096, 512], [8192, 4096], [SIZE - 512, 512]], np.uint64)
    first, lengths = kept._whole_blocks(*asked.T)
    kept.close()
    assert first.tolist() == [0, 3584, 7680, SIZE - 512]
    assert lengths.tolist() == [3584, 4096, 8192, 512]


def test_what_is_still_in_flight_is_left_to_the_guard(
    target: Path, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = target.read_bytes()
    engine = PreservingEngine.keeping(str(target), tmp_path / "out" / JOURNAL)
    engine.run(batch(rng))
    host = engine._host

    class Interrupted:
        """Of the writes that it sends, one never ends."""

        def __getattr__(self, name: str) -> object:
            return getattr(host, name)

        def run(self, op: U8, offset: U64, size: U32, depth: int) -> None:
            submit, complete = host.run(op, offset, size, depth)
            complete[3] = 0
            error = _native.HostError("interrupted")
            error.kind, error.times = "interrupted", (submit, complete)
            raise error

    engine._host = Interrupted()  # type: ignore[assignment]  # what it lacks is the real one's
    with pytest.raises(KeyboardInterrupt):
        engine.run(batch(rng))
    with pytest.raises(TargetError, match=r"still in flight.* is kept in .*preserved\.journal"):
        engine.close()
    assert target.read_bytes() != before and (tmp_path / "out" / JOURNAL).exists()
    assert list(state_dir().glob("*.preserve")), "the guard waits for the end of this process"
    restore(tmp_path / "out" / JOURNAL)
    assert target.read_bytes() == before


def test_the_journal_of_a_live_run_is_left_alone(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    engine = PreservingEngine.keeping(str(target), tmp_path / "out" / JOURNAL)
    engine.run(batch(rng))
    with pytest.raises(UsageError, match="is at work with it"):
        restore(tmp_path / "out" / JOURNAL)
    with pytest.raises(UsageError):
        PreservingEngine.keeping(str(target), tmp_path / "second" / JOURNAL)
    assert (tmp_path / "out" / JOURNAL).exists()
    engine.close()


@pytest.mark.parametrize("size", [SIZE, SIZE + MIB])
def test_a_journal_stays_where_its_target_was_exchanged(
    target: Path, tmp_path: Path, rng: np.random.Generator, size: int
) -> None:
    before = target.read_bytes()
    journal = left(target, tmp_path / "out", rng)
    mine = target.rename(tmp_path / "mine.img")
    theirs = rng.bytes(size)
    target.write_bytes(theirs)
    with pytest.raises(UsageError, match="other data is" if size == SIZE else "is not .* whose data"):
        PreservingEngine.keeping(str(target), tmp_path / "second" / JOURNAL)
    assert target.read_bytes() == theirs and journal.exists() and list(state_dir().glob("*.preserve"))
    restore(journal, str(mine))
    assert mine.read_bytes() == before and not journal.exists() and not list(state_dir().glob("*.preserve"))


def test_a_drive_without_a_serial_number_is_known_by_what_it_holds(
    target: Path, tmp_path: Path, need_root: None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = target.read_bytes()
    with loop(target) as device:
        with monkeypatch.context() as patched:  # its key, which the next boot changes
            patched.setattr(preserve_module, "key_of", lambda path, key: "loop-of-an-earlier-boot")
            journal = left(Path(device.path), tmp_path / "out", rng)
        with pytest.raises(UsageError, match=r"no serial number .* with --on"):
            restore(journal)
        with pytest.raises(UsageError, match="an earlier boot"):
            DeviceEngine.open(device.path, destroy_data=True)
        assert journal.exists()
        assert restore(journal, device.path).bytes_put > 0
        assert not journal.exists() and not list(state_dir().glob("*.preserve"))
    assert target.read_bytes() == before


def test_a_guard_puts_back_the_settings_of_a_drive_with_a_file_system(
    target: Path, tmp_path: Path, need_root: None
) -> None:
    with loop(target) as device:
        tool("mkfs.ext4", "-q", "-F", device.path)
        engine = PreservingEngine.keeping(device.path, tmp_path / "out" / JOURNAL)
        scheduler = Path(f"/sys/block/{device.name}/queue/scheduler")
        scheduler.write_text("mq-deadline", encoding="ascii")
        note = engine.note_path
        assert note is not None
        with engine.settings(write_cache=True, look_ahead=True):
            assert "[none]" in scheduler.read_text(encoding="ascii")
            kept = note.read_bytes()
        engine.close()
        scheduler.write_text("none", encoding="ascii")
        note.write_bytes(kept)  # as a kill leaves it
        restore_guard.put_back(device.path, note, None)
        assert "[mq-deadline]" in scheduler.read_text(encoding="ascii") and not note.exists()


def test_the_journal_of_a_partition_is_not_its_disks(
    tmp_path: Path, need_root: None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    disk, journal = tmp_path / "parts.img", tmp_path / "out" / JOURNAL
    disk.write_bytes(before := rng.bytes(2 * SIZE + MIB))
    where = rng.integers(0, 4000, 40).astype(np.uint64) * np.uint64(4096)
    with loop(disk) as device, ExitStack() as stack:
        for number in (1, 2):
            start = MIB + (number - 1) * SIZE
            tool("addpart", device.path, str(number), str(start // 512), str(SIZE // 512))
            stack.callback(tool, "delpart", device.path, str(number))
        first, second = (f"{device.path}p{number}" for number in (1, 2))
        live = PreservingEngine.keeping(first, journal)
        live.run(IoBatch.writes(where, 4096))
        with pytest.raises(UsageError, match="is at work with it"):
            DeviceEngine.open(second, destroy_data=True)
        assert live._journal is not None and live._guard is not None
        live._journal.close()
        live._guard.dismiss()
        live._journal = live._guard = None
        live.close()
        for other in (second, device.path):
            with pytest.raises(UsageError, match=r"is not .* whose data"):
                PreservingEngine.keeping(other, tmp_path / "second" / JOURNAL)
        assert journal.exists()
        engine = DeviceEngine.open(first, destroy_data=True)
        assert engine.left is not None and engine.left.bytes_put > 0 and not journal.exists()
        engine.close()
    assert disk.read_bytes() == before


def test_what_others_wrote_since_is_left_alone(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    before = bytearray(target.read_bytes())
    journal = left(target, tmp_path / "out", rng)
    now = np.frombuffer(target.read_bytes(), np.uint8)
    at = int(np.flatnonzero(now != np.frombuffer(before, np.uint8))[0]) // 4096 * 4096
    with target.open("r+b") as file:
        file.seek(at)
        file.write(b"somebody else's".ljust(512, b"!"))
    before[at : at + 512] = b"somebody else's".ljust(512, b"!")
    assert restore(journal).bytes_of_others == 512
    assert target.read_bytes() == before


def test_a_note_without_its_journal_stops_the_next_run(
    target: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    left(target, tmp_path / "out", rng).unlink()
    with pytest.raises(UsageError, match=r"kept its data in .*, which is gone; find it, or delete"):
        DeviceEngine.open(str(target), destroy_data=True)
    DeviceEngine.open(str(target)).close()


def test_another_drive_is_refused(target: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    journal = left(target, tmp_path / "out", rng)
    other = tmp_path / "other.img"
    other.write_bytes(bytes(SIZE))
    with pytest.raises(UsageError, match="is not the drive of"):
        restore(journal, str(other))
    assert other.read_bytes() == bytes(SIZE)


def test_nothing_is_written_without_a_journal(target: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    before = target.read_bytes()
    (tmp_path / "file").touch()
    engine = PreservingEngine.keeping(str(target), tmp_path / "file" / JOURNAL)
    with pytest.raises(KeepError, match="cannot keep what would be overwritten"):
        engine.run(batch(rng))
    engine.close()
    assert target.read_bytes() == before


def test_what_cannot_be_put_back_is_not_sent(target: Path, tmp_path: Path) -> None:
    engine = PreservingEngine.keeping(str(target), tmp_path / "out" / JOURNAL)
    assert engine.trim() is False and engine.erase() is False
    with pytest.raises(UsageError, match="contradict"):
        engine.erase_offer("sanitize")
    with pytest.raises(UsageError, match="cannot be put back"):
        engine.run(IoBatch.make(Op.TRIM, [0], 4096))
    engine.close()


def test_extents_are_kept_once() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, kept, seen = np.random.default_rng(seed), Kept(), np.zeros(1000, np.bool_)
    for _ in range(300):
        offsets = rng.integers(0, 900, rng.integers(1, 6)).astype(np.uint64)
        lengths = rng.integers(1, 60, len(offsets)).astype(np.uint64)
        asked = np.zeros(1000, np.bool_)
        for at, length in zip(offsets.tolist(), lengths.tolist(), strict=True):
            asked[at : at + length] = True
        fresh = np.zeros(1000, np.int_)
        for at, length in kept.new(offsets, lengths):
            fresh[at : at + length] += 1
        assert np.array_equal(fresh, (asked & ~seen).astype(np.int_))
        seen |= asked


def test_a_probe_leaves_a_file_as_it_was(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = target.read_bytes()
    out = tmp_path / "out"
    assert run_cli(["probe", str(target), "--preserve", "--quick", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "put back (--preserve)" in said and "TRIM of the whole" not in said
    assert target.read_bytes() == before and not (out / JOURNAL).exists()


@pytest.mark.parametrize(("more", "why"), [
    (["--destroy-data"], "goes without --destroy-data"), (["--reset", "trim"], "cannot be put back"),
    (["--engine", "fio"], "goes without"), (["--only", "cache_size"], None),
])  # fmt: skip
def test_what_preserving_leaves_out(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], why: str | None
) -> None:
    code = run_cli(["probe", str(target), "--preserve", "--out", str(tmp_path / "out"), *more])
    said = capsys.readouterr()
    if why is None:  # what it builds on is measured, and it is not
        assert code == 0 and "left out, since they write more than 4 GiB" in " ".join(said.out.split())
    else:
        assert code == 2 and why in said.err


def test_a_file_system_is_kept(
    target: Path, tmp_path: Path, need_tool: Callable[[str], str], rng: np.random.Generator
) -> None:
    subprocess.run([need_tool("mkfs.ext4"), "-q", "-F", str(target)], check=True)
    before = target.read_bytes()
    with pytest.raises(UsageError, match="holds"):
        DeviceEngine.open(str(target), destroy_data=True)
    engine = PreservingEngine.keeping(str(target), tmp_path / "out" / JOURNAL)
    engine.run(batch(rng, 400))
    engine.close()
    assert target.read_bytes() == before
    os.sync()
