"""The engine that lets fio do the I/O: what fio did is what was asked, the jobs can be run again, and nothing
of it outlives the probe."""

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_targets import MIB, child, said, sparse
from skylight.cli.app import run
from skylight.engines.device import DeviceFailed, DeviceInterrupted
from skylight.engines.fio import FioEngine, Ran, _stopped, job_text, jobs_of, one_by_one, overlapping
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.probe.session import Session
from skylight.recording import Recording

MS = 1_000_000

CHILD = """
import sys
from pathlib import Path
from skylight.engines.fio import FioEngine
from skylight.evidence import IoBatch
engine = FioEngine.over(sys.argv[1], Path(sys.argv[2]), destroy_data=True)
print("ready", flush=True)
while True:
    engine.run(IoBatch.flushed_writes([4096 * (n % 10000) for n in range(32000)], 4096))
"""


@pytest.fixture
def target(tmp_path: Path, need_tool: Callable[[str], str]) -> Path:
    need_tool("fio")
    path = tmp_path / "pci-0:1.img"
    path.write_bytes(bytes(range(256)) * (64 * MIB // 256))
    return path


@pytest.fixture
def engine(target: Path, tmp_path: Path) -> Iterator[FioEngine]:
    made = FioEngine.over(str(target), tmp_path / "jobs", destroy_data=True)
    yield made
    made.close()


def ran(*lines: tuple[int, int, int, int, int], error: int = 0, runtime_ms: int = 0) -> Ran:
    """A run of fio with these lines of its log: ms, latency, direction, size, offset."""
    return Ran(np.array(lines, np.int64).reshape(-1, 5), runtime_ms, error, "")


@pytest.mark.parametrize("depth", [1, 8])
def test_fio_does_what_was_asked(engine: FioEngine, depth: int) -> None:
    where = np.random.default_rng(depth).permutation(64 * MIB // 4096)[:300].astype(np.uint64) * 4096
    io = IoBatch.reads(where, 4096)
    io.op[::3] = int(Op.WRITE)
    io.offset[5] = io.offset[6]  # twice the same place
    io.op[6] = io.op[5]
    log = engine.run(io, depth=depth)
    for column in ("op", "offset", "size"):
        assert np.array_equal(getattr(log, column), getattr(io, column))
    assert (log.latency_ns > 0).all() and (np.diff(log.submit_ns.astype(np.int64)) >= 0).all()
    assert int(log.complete_ns.max()) <= time.monotonic_ns()
    again = engine.run(io, depth=depth)
    assert int(again.submit_ns[0]) >= int(log.complete_ns.max())


def test_writes_reach_the_target_and_flushes_have_times(engine: FioEngine, target: Path) -> None:
    before = target.read_bytes()
    log = engine.run(IoBatch.flushed_writes([0, MIB], 8192))
    assert log.op.tolist() == [1, 2, 1, 2]
    assert (log.submit_ns[1:] >= log.complete_ns[:-1]).all(), "one at a time"
    after = target.read_bytes()
    assert after[:8192] != before[:8192] and after[MIB : MIB + 8192] != before[MIB : MIB + 8192]
    assert after[8192:MIB] == before[8192:MIB] and after[MIB + 8192 :] == before[MIB + 8192 :]


def test_a_flush_alone_is_done(engine: FioEngine) -> None:
    log = engine.run(IoBatch.make(Op.FLUSH, [0], 0))
    assert log.op.tolist() == [2] and engine.counters()["flushes"] == 1


def test_jobs_run_again_with_fio_alone(
    engine: FioEngine, target: Path, tmp_path: Path, need_tool: Callable[[str], str]
) -> None:
    engine.name_jobs("drive_type-reads of it")
    where = np.arange(50, dtype=np.uint64) * 8192
    engine.run(IoBatch.reads(where, 4096), depth=4)
    names = sorted(path.name for path in (tmp_path / "jobs").iterdir())
    assert names == [f"00001-drive_type-reads-of-it.{end}" for end in ("fio", "iolog")]
    assert "file, 67108864 bytes" in (tmp_path / "jobs" / names[0]).read_text()

    def repeated(**drive: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [need_tool("fio"), names[0]], cwd=tmp_path / "jobs", env={**os.environ, **drive}, text=True,
            capture_output=True, check=False,
        )  # fmt: skip

    assert "failed parsing replay_redirect" in repeated().stderr, "it says on which drive, or nothing is done"
    gone = tmp_path / "gone"
    assert repeated(SKYLIGHT_DRIVE=str(gone)).returncode != 0 and not gone.exists()
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir() if "_lat" not in path.name) == names
    done = repeated(SKYLIGHT_DRIVE=str(target))
    assert done.returncode == 0, done.stderr
    log = np.loadtxt(
        tmp_path / "jobs/00001-drive_type-reads-of-it_lat.1.log", np.int64, delimiter=",", usecols=4
    )
    assert sorted(log.tolist()) == where.tolist()


def test_a_stop_ends_the_job_at_a_slow_command(engine: FioEngine) -> None:
    io = IoBatch.reads(np.arange(2000, dtype=np.uint64) * 4096, 4096)
    log = engine.run(io, until=Stop(1_000))
    assert 1 <= len(log) < len(io) and int(log.latency_ns[-1]) >= 1_000
    assert len(engine.run(io, until=Stop(1_000, 2, 2))) == 64, "fio cannot count: its run is completed"


def test_what_may_not_or_cannot_be_done_is_refused(target: Path, tmp_path: Path) -> None:
    reader = FioEngine.over(str(target), tmp_path / "jobs")
    before = target.read_bytes()
    with pytest.raises(UsageError, match="--destroy-data"):
        reader.run(IoBatch.writes([0], 4096))
    with pytest.raises(UsageError, match="no WRITE_FUA"):
        reader.run(IoBatch.make(Op.WRITE_FUA, [0], 4096))
    with pytest.raises(UsageError, match="behind its end"):
        reader.run(IoBatch.reads([64 * MIB], 4096))
    assert len(reader.run(IoBatch.reads([0], 4096))) == 1
    reader.close()
    assert target.read_bytes() == before and len(list((tmp_path / "jobs").glob("*.fio"))) == 1


def test_any_name_will_do(target: Path, tmp_path: Path) -> None:
    spaced = target.rename(tmp_path / "a disk,:${HOME}.img")
    reader = FioEngine.over(str(spaced), tmp_path / "jobs")
    assert len(reader.run(IoBatch.reads([0], 4096))) == 1
    reader.close()


def test_what_was_opened_is_written_though_its_name_is_anothers(engine: FioEngine, target: Path) -> None:
    engine.run(IoBatch.writes([0], 4096))
    opened = target.rename(target.with_name("opened.img"))
    before = opened.read_bytes()
    target.write_bytes(before)
    engine.run(IoBatch.writes([MIB], 4096))
    assert target.read_bytes() == before
    assert opened.read_bytes()[MIB : MIB + 4096] != before[MIB : MIB + 4096]


def test_a_name_that_changes_while_it_is_opened_is_refused(target: Path, tmp_path: Path) -> None:
    open_as_ever = FioEngine.open

    def swapped(path: str, **options: Any) -> FioEngine:
        engine = open_as_ever(path, **options)
        target.rename(target.with_name("opened.img"))
        target.write_bytes(bytes(64 * MIB))
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FioEngine, "open", swapped)
        with pytest.raises(TargetError, match="is no longer the drive that was opened"):
            FioEngine.over(str(target), tmp_path / "jobs", destroy_data=True)


def test_a_drive_that_vanished_is_an_error_and_nothing_takes_its_place(
    engine: FioEngine, target: Path, tmp_path: Path
) -> None:
    engine.run(IoBatch.writes([0], 4096))
    target.unlink()
    os.close(engine._held)  # as a drive that is pulled out, what was open cannot be opened again
    with pytest.raises(TargetError):
        engine.run(IoBatch.writes([0], 4096))
    engine._held = -1
    alone = subprocess.run(
        ["fio", "00001-batch.fio"], cwd=tmp_path / "jobs", env={**os.environ, "SKYLIGHT_DRIVE": str(target)},
        capture_output=True, check=False,
    )  # fmt: skip
    assert alone.returncode != 0 and not target.exists()
    assert {path.suffix for path in (tmp_path / "jobs").iterdir()} <= {".fio", ".iolog", ".json", ".log"}


def test_fio_that_cannot_be_started_is_a_failure(engine: FioEngine) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        with pytest.raises(TargetError, match="fio cannot be started: No such file"):
            engine.run(IoBatch.reads([0], 4096))


def test_a_signal_at_the_start_of_fio_ends_it(engine: FioEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[subprocess.Popen[str]]()
    start = subprocess.Popen

    def signalled(*words: Any, **options: Any) -> Any:
        started.append(start(*words, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", signalled)
    with pytest.raises(DeviceInterrupted):
        engine.run(IoBatch.reads([0], 4096))
    assert started[0].poll() is not None and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_jobs_are_numbered_on_from_those_that_are_kept(target: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    for name in ("00007-x.fio", "100000-x.fio", "mine.fio"):
        (tmp_path / "jobs" / name).touch()
    reader = FioEngine.over(str(target), tmp_path / "jobs")
    for _ in range(2):
        reader.run(IoBatch.reads([0], 4096))
    reader.close()
    assert {path.name for path in (tmp_path / "jobs").glob("*-batch.fio")} == {
        "100001-batch.fio", "100002-batch.fio",
    }  # fmt: skip


def test_a_target_that_fails_is_a_failure_with_its_place(engine: FioEngine, target: Path) -> None:
    os.truncate(target, 32 * MIB)
    with pytest.raises(
        DeviceFailed, match=r"reading 4,096 bytes at 50,331,648 failed: .*; the job is "
    ) as caught:
        engine.run(IoBatch.reads([0, 48 * MIB, 4096], 4096))
    assert caught.value.log.offset.tolist() == [0]


def test_fio_that_does_not_start_is_a_failure_of_one_line(engine: FioEngine, tmp_path: Path) -> None:
    def broken(*words: Any) -> str:
        return job_text(*words) + "nonsense=1\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skylight.engines.fio.job_text", broken)
        with pytest.raises(TargetError, match=r"fio failed: .*; the job is .*\.fio"):
            engine.run(IoBatch.reads([0], 4096))


def test_fio_ends_with_the_process_that_started_it(target: Path, tmp_path: Path) -> None:
    def alive() -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "cwd").readlink() == tmp_path / "jobs" and (
                    entry / "comm"
                ).read_text() == "fio\n":
                    found.append(entry.name)
            except OSError:
                continue
        return found

    with child(CHILD, str(target), str(tmp_path / "jobs")) as process:
        assert said(process) == "ready"
        until = time.monotonic() + 30
        while not alive() and time.monotonic() < until:
            time.sleep(0.02)
        assert alive()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        until = time.monotonic() + 3  # the job takes longer
        while alive() and time.monotonic() < until:
            time.sleep(0.02)
        assert alive() == []


@pytest.mark.parametrize("engine_name", ["own", "fio"])
def test_a_quick_probe_of_a_file_claims_no_rotation(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine_name: str
) -> None:
    """Reads alone: no rotating disk shows behind a file in memory, whoever reads it."""
    out = tmp_path / "out"
    words = ["probe", str(target), "--quick", "--engine", engine_name, "--json", "--out", str(out)]
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)["findings"]["drive_type"]
    assert found["value"] in ("not-rotating", "unknown")
    assert (out / "recording/fio").exists() == (engine_name == "fio")
    other = "own" if engine_name == "fio" else "fio"
    assert run([*words, "--engine", other, "--resume"]) == 2
    assert "engine fio; resume it likewise" in capsys.readouterr().err


def test_pieces_of_jobs_grow_up_to_half_a_minute(tmp_path: Path) -> None:
    """Each command takes 10 ms here."""
    pieces = []

    class Jobs:
        repeatable, can_write, size = False, False, 1 << 40

        def describe(self) -> TargetFacts:
            return facts

        def name_jobs(self, name: str) -> None: ...

        def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
            pieces.append(len(io))
            submit_ns = np.arange(len(io), dtype=np.uint64) * np.uint64(10 * MS)
            return IoLog.of(io, submit_ns, submit_ns + np.uint64(10 * MS))

    facts = TargetFacts("device", "/dev/x", 1 << 40, 512)
    with Recording.create(tmp_path / "r", facts, {}, 1).part("rotation") as writer:
        steps = Session(Jobs(), writer, test="rotation", seed=1)  # type: ignore[arg-type]  # what reads need
        steps.run("reads", IoBatch.reads(np.zeros(12_000, np.uint64), 4096))
    assert pieces == [512, 1024, 2048, 4096, 2048, 2272]


def test_an_emulated_drive_has_no_fio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert run(["probe", "sim:emulated-smr-1", "--engine", "fio", "--out", out]) == 2
    assert "is emulated" in capsys.readouterr().err


def test_flushes_take_what_is_between_two_logged_commands() -> None:
    io = IoBatch.flushed_writes([0, 4096, 8192], 4096)
    lines = [(ms, 1 * MS, 1, 4096, 4096 * n) for n, ms in enumerate((1, 12, 23))]
    times = one_by_one(io, ran(*lines, runtime_ms=33))
    assert times is not None
    submit, complete = times
    assert (complete - submit).tolist() == [MS, 10 * MS, MS, 10 * MS, MS, 10 * MS]
    # No flush, so little between them that the log does not show it.
    quick = one_by_one(io, ran(*((0, 1000, 1, 4096, 4096 * n) for n in range(3))))
    assert quick is not None and (quick[1] - quick[0]).tolist() == [1000, 0, 1000, 0, 1000, 0]


def test_a_log_of_other_commands_is_no_evidence() -> None:
    io = IoBatch.reads([0, 4096], 4096)
    line = (0, 1000, 0, 4096, 0)
    for other in ((0, 1000, 0, 4096, 8192), (0, 1000, 1, 4096, 4096), (0, 1000, 0, 512, 4096)):
        assert one_by_one(io, ran(line, other)) is None
        assert overlapping(io, ran(line, other)) is None
    assert one_by_one(io, ran(line, line, line)) is None


def test_an_error_is_no_stop_however_slow_a_command_was() -> None:
    io, until = IoBatch.reads([0, 4096], 4096), Stop(1 * MS)
    slow = (2, 2 * MS, 0, 4096, 0)
    assert _stopped(ran(slow, error=errno.ETIMEDOUT), until)
    assert not _stopped(ran(slow, error=errno.EIO), until)
    assert not _stopped(ran((0, 1000, 0, 4096, 0), error=errno.ETIMEDOUT), until)
    assert not _stopped(ran(slow, error=errno.ETIMEDOUT), Stop(1 * MS, 2, 2))
    times = one_by_one(io, ran(slow, error=errno.EIO))
    assert times is not None and len(times[0]) == 1


def test_rows_that_overlap_are_found_in_the_log_by_what_they_are() -> None:
    io = IoBatch.reads([0, 4096, 0, 8192], 4096)
    log = ran((5, 1 * MS, 0, 4096, 8192), (6, 6 * MS, 0, 4096, 0), (7, 6 * MS, 0, 4096, 4096))
    times = overlapping(io, log)
    assert times is not None
    assert (times[1] - times[0]).tolist() == [6 * MS, 6 * MS], "the third of them is missing"
    whole = overlapping(io, ran(*log.log.tolist(), (9, 2 * MS, 0, 4096, 0)))
    assert whole is not None
    assert (whole[1] - whole[0]).tolist() == [6 * MS, 6 * MS, 2 * MS, 1 * MS]


def test_a_batch_is_cut_where_fio_has_no_time_for_a_flush() -> None:
    op = np.array([Op.WRITE, Op.FLUSH, Op.FLUSH, Op.WRITE, Op.WRITE], np.uint8)
    io = IoBatch(op, np.zeros(5, np.uint64), np.where(op == int(Op.FLUSH), 0, 4096).astype(np.uint32))
    assert jobs_of(io, 1, 100) == [(0, 2), (2, 5)]
    assert jobs_of(io, 2, 100) == [(0, 1), (1, 2), (2, 3), (3, 5)]
    assert jobs_of(io, 1, 2) == [(0, 2), (2, 4), (4, 5)]
    assert jobs_of(IoBatch.reads([], 4096), 1, 100) == []


def test_a_sparse_file_stays_as_it_is_when_read(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    need_tool("fio")
    path = sparse(tmp_path / "holes.img", 64 * MIB)
    reader = FioEngine.over(str(path), tmp_path / "jobs")
    reader.run(IoBatch.reads([0, MIB], 4096))
    reader.close()
    assert (path.stat().st_size, path.stat().st_blocks) == (64 * MIB, 0)
