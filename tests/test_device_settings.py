"""The write cache of a drive: switched for a test, put back after it, after an error, at exit, after a kill.

The drive is a loop device; its sysfs is a tree of plain files, in which it looks like a SATA disk.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from device_targets import child, loop, said, sparse
from skylight.cli.app import run as _run
from skylight.engines.device import DeviceEngine, DeviceFailed
from skylight.engines.drive_lock import DriveLock
from skylight.engines.restore_guard import put_back
from skylight.errors import KeepError, TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.recording import Recording

pytestmark = pytest.mark.usefixtures("need_root")

# Switches the cache off by hand, says so, waits for a line, and ends without leaving the context.
CHILD = """
import sys
from skylight.engines.device import DeviceEngine
engine = DeviceEngine.open(sys.argv[1], destroy_data=True, root=sys.argv[2])
context = engine.settings(write_cache=False, look_ahead=False)
print(context.__enter__().write_cache, flush=True)
if sys.argv[3] == "unguarded":
    engine._guard.dismiss()
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[3] == "error":
    raise SystemExit("an error nobody caught")
"""


@dataclass(frozen=True)
class Disk:
    """A loop device that sysfs calls a SATA disk."""

    path: str
    root: Path
    state: Path

    @property
    def file(self) -> Path:
        return self.root / "sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type"

    @property
    def cache_type(self) -> str:
        return self.file.read_text(encoding="ascii").strip()

    @property
    def notes(self) -> list[str]:
        return sorted(path.name for path in self.state.glob("*.restore"))

    def open(self, *, destroy_data: bool = True) -> DeviceEngine:
        return DeviceEngine.open(self.path, destroy_data=destroy_data, root=str(self.root))


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n", encoding="ascii")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with loop(sparse(tmp_path / "disk.img")) as device:
        number = os.stat(device.path).st_rdev
        root = tmp_path / "root"
        node = root / "sys/devices/sdq"
        put(node / "dev", f"{os.major(number)}:{os.minor(number)}")
        put(node / "device/model", "ST8000AS0002-1NA")
        put(node / "serial", "Z840 1")
        put(node / "queue/rotational", "1")
        put(node / "queue/write_cache", "write back")
        link = root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
        link.parent.mkdir(parents=True)
        link.symlink_to(node)
        put(root / "proc/self/mountinfo", "")
        put(root / "proc/swaps", "Filename Type Size Used Priority")
        (root / "sys/block").mkdir()
        made = Disk(device.path, root, tmp_path / "state")
        put(made.file, "write back")
        monkeypatch.setenv("SKYLIGHT_STATE", str(made.state))
        yield made
        for note in made.notes:  # a guard that goes on trying ends
            (made.state / note).unlink()


def wait_for_guard(disk: Disk) -> None:
    """Returns when a guard has put everything back, or had time enough for it."""
    until = time.monotonic() + 60
    while disk.notes and time.monotonic() < until:
        time.sleep(0.05)


def test_the_cache_is_off_inside_and_back_after(disk: Disk) -> None:
    engine = disk.open()
    assert engine.describe().declared["model"] == "ST8000AS0002-1NA"
    assert engine.describe().declared["rotational"] is True
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert (report.write_cache, report.look_ahead) == (False, None)
        assert report.note.startswith("read look-ahead: the drive cannot be asked for it: ")
        assert "scheduler" not in report.params(), "this one has none"
        assert disk.cache_type == "write through"
        assert disk.notes == ["ST8000AS0002-1NA-Z840_1.restore"]
    assert disk.cache_type == "write back"
    assert disk.notes == []
    engine.close()


def test_a_cache_that_is_as_wanted_is_left_alone(disk: Disk) -> None:
    put(disk.file, "none")
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert report.write_cache is False
        assert (disk.cache_type, disk.notes) == ("none", [])
    with engine.settings(write_cache=True, look_ahead=False) as report:
        assert (report.write_cache, disk.cache_type) == (True, "write back")
    assert disk.cache_type == "none"
    engine.close()


def vanish(disk: Disk) -> None:
    """The drive is pulled out: its settings are gone."""
    disk.file.unlink()


def test_a_drive_that_vanished_keeps_its_own_error(disk: Disk) -> None:
    engine = disk.open()
    with (
        pytest.raises(TargetError, match="read of 4096 bytes") as caught,
        engine.settings(write_cache=False, look_ahead=False),
    ):
        vanish(disk)
        raise TargetError("read of 4096 bytes at offset 0 failed")
    assert any("its write cache could not be set to 'write back'" in note for note in caught.value.__notes__)
    assert len(disk.notes) == 1, "the next run tries again"
    engine.close()


def test_a_drive_that_vanished_after_the_last_io_is_a_failure_of_the_target(disk: Disk) -> None:
    engine = disk.open()
    with (
        pytest.raises(TargetError, match="its write cache could not be set to 'write back' again") as caught,
        engine.settings(write_cache=False, look_ahead=False),
    ):
        vanish(disk)
    assert caught.value.exit_code == 3
    assert not disk.file.exists()
    (note,) = disk.notes
    assert str(caught.value).endswith(f"or delete {disk.state / note} to leave the setting as it is")
    engine.close()


def test_the_guard_goes_on_where_restoring_failed(disk: Disk) -> None:
    engine = disk.open()
    with pytest.raises(TargetError), engine.settings(write_cache=False, look_ahead=False):
        vanish(disk)
    guard = engine._guard
    assert guard is not None
    engine.close()
    assert guard._process.poll() is None and len(disk.notes) == 1
    put(disk.file, "write through")
    wait_for_guard(disk)
    assert (disk.cache_type, disk.notes) == ("write back", [])


def test_a_probe_of_a_drive_that_vanishes_ends_with_3_and_can_go_on(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command, on a target whose reads fail once its settings are gone."""

    def opened(spec: str, *, destroy_data: bool, **given: object) -> DeviceEngine:
        del spec, given
        return disk.open(destroy_data=destroy_data)

    def pulled(engine: DeviceEngine, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        if disk.file.exists() and io.op[0] == Op.WRITE:
            vanish(disk)
            raise DeviceFailed(f"{disk.path}: write of 4096 bytes at offset 0 failed: No such device")
        return run(engine, io, depth=depth, until=until)

    run = DeviceEngine.run
    monkeypatch.setattr("skylight.cli.probe.open_target", opened)
    monkeypatch.setattr(DeviceEngine, "run", pulled)
    out = str(tmp_path / "out")
    assert _run(["probe", disk.path, "--destroy-data", "--json", "--out", out]) == 3
    said = capsys.readouterr().err.splitlines()
    (line,) = (line for line in said if not line.startswith("progress: "))
    assert re.search(r"No such device; it was in \S+ of drive_type; also: ", line)
    put(disk.file, "write through")
    evidence = Recording.open(Path(out) / "recording").evidence("drive_type")
    assert evidence is not None and evidence.step("reads") is not None
    monkeypatch.setattr(DeviceEngine, "run", run)
    wait_for_guard(disk)
    assert _run(["probe", disk.path, "--destroy-data", "--json", "--out", out, "--resume"]) == 0
    assert (disk.cache_type, disk.notes) == ("write back", [])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_inside_puts_it_back(disk: Disk, error: type[BaseException]) -> None:
    engine = disk.open()
    with pytest.raises(error), engine.settings(write_cache=False, look_ahead=False):
        raise error
    assert (disk.cache_type, disk.notes) == ("write back", [])
    engine.close()


def test_closing_the_engine_puts_it_back(disk: Disk) -> None:
    engine = disk.open()
    context = engine.settings(write_cache=False, look_ahead=False)
    context.__enter__()
    engine.close()
    assert (disk.cache_type, disk.notes) == ("write back", [])
    context.__exit__(None, None, None)
    assert (disk.cache_type, disk.notes) == ("write back", [])


@pytest.mark.parametrize("end", ["return", "error"])
def test_the_end_of_the_process_puts_it_back(disk: Disk, end: str) -> None:
    with child(CHILD, disk.path, str(disk.root), end) as process:
        assert (said(process), said(process)) == ("False", "ready")
        assert disk.cache_type == "write through"
        process.communicate("\n", timeout=30)
    assert (disk.cache_type, disk.notes) == ("write back", [])


def test_after_a_kill_the_guard_puts_it_back(disk: Disk) -> None:
    with child(CHILD, disk.path, str(disk.root), "return") as process:
        assert (said(process), said(process)) == ("False", "ready")
        assert (disk.cache_type, len(disk.notes)) == ("write through", 1)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    wait_for_guard(disk)
    assert (disk.cache_type, disk.notes) == ("write back", [])


def test_after_a_kill_of_both_the_next_run_puts_it_back(disk: Disk) -> None:
    with child(CHILD, disk.path, str(disk.root), "unguarded") as process:
        assert (said(process), said(process)) == ("False", "ready")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    assert (disk.cache_type, len(disk.notes)) == ("write through", 1)
    disk.open(destroy_data=False).close()
    assert disk.cache_type == "write through", "a run that may not change anything leaves it"
    disk.open().close()
    assert (disk.cache_type, disk.notes) == ("write back", [])


def test_a_drive_without_a_serial_number_is_noted_for_this_start_only(disk: Disk) -> None:
    (disk.root / "sys/devices/sdq/serial").unlink()
    put(disk.root / "sys/devices/sdq/size", "196608")
    boot_id = disk.root / "proc/sys/kernel/random/boot_id"
    put(boot_id, "b007")
    engine = disk.open()
    context = engine.settings(write_cache=False, look_ahead=False)
    context.__enter__()
    assert disk.notes == ["sdq-ST8000AS0002-1NA-196608-b007.restore"]
    put(boot_id, "b008")
    other = DeviceEngine.open(disk.path, root=str(disk.root))
    assert other.note_path is not None and other.note_path.name.endswith("-b008.restore")
    other.close()
    context.__exit__(None, None, None)
    assert (disk.cache_type, disk.notes) == ("write back", [])
    engine.close()


def test_the_guard_ends_with_the_engine(disk: Disk) -> None:
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False):
        guard = engine._guard
        assert guard is not None and guard._process.poll() is None
    with engine.settings(write_cache=False, look_ahead=False):
        assert engine._guard is guard, "one is enough"
    engine.close()
    assert guard._process.poll() is not None


def test_without_a_guard_a_run_goes_on(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(disk.root / "none"))
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert (report.write_cache, len(disk.notes)) == (False, 1)
        assert "; no guard could be started (No such file or directory): " in report.note
    assert (disk.cache_type, disk.notes) == ("write back", [])
    engine.close()


def test_a_guard_without_a_note_changes_nothing(disk: Disk) -> None:
    put(disk.file, "write through")
    put_back(disk.path, disk.state / "none.restore", str(disk.root))
    assert disk.cache_type == "write through"


def test_the_scheduler_is_switched_off_and_back(disk: Disk) -> None:
    file = disk.root / "sys/devices/sdq/queue/scheduler"
    put(file, "none [mq-deadline]")
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert (report.scheduler, report.params()["scheduler"]) == (False, False)
        assert file.read_text() == "none"
    assert file.read_text() == "mq-deadline"
    assert (disk.cache_type, disk.notes) == ("write back", [])
    engine.close()


@pytest.mark.parametrize("name", ["dm-3", "md127", "loop7"])
def test_no_scheduler_of_a_device_on_others_says_nothing(disk: Disk, name: str) -> None:
    node = disk.root / "sys/devices" / name
    (disk.root / "sys/devices/sdq").rename(node)
    put(node / "queue/scheduler", "[none] mq-deadline")
    (link,) = (disk.root / "sys/dev/block").iterdir()
    link.unlink()
    link.symlink_to(node)
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert report.scheduler is None and "scheduler" not in report.params()
    assert engine._reorders("on") is True, "its own reorders them whatever lies below"
    engine.close()


def test_the_queue_is_as_deep_as_the_tests_and_put_back(disk: Disk) -> None:
    file = disk.root / "sys/devices/sdq/device/queue_depth"
    put(file, "1")
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert (report.queue_depth, report.params()["queue_depth"]) == (31, 31)
        assert file.read_text() == "31"
    assert file.read_text() == "1"
    engine.close()


def test_a_drive_has_one_run_that_changes_it(disk: Disk) -> None:
    """Also under a second name, for which the kernel knows no exclusive user."""
    lock = disk.state / "ST8000AS0002-1NA-Z840_1.lock"
    engine = disk.open()
    with engine.settings(write_cache=False, look_ahead=False):
        assert lock.exists()
        with pytest.raises(UsageError, match=r"^/dev/sdz: another run changes the settings of this drive"):
            DriveLock("/dev/sdz", lock)
    engine.close()
    assert not lock.exists()
    lock.touch()  # what a killed run leaves
    DriveLock("/dev/sdz", lock).release()
    assert not lock.exists()


def test_a_note_of_an_earlier_boot_is_said_and_changes_nothing(disk: Disk) -> None:
    boot_id = disk.root / "proc/sys/kernel/random/boot_id"
    put(boot_id, "b007")
    with child(CHILD, disk.path, str(disk.root), "unguarded") as process:
        assert (said(process), said(process)) == ("False", "ready")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    put(boot_id, "b008")
    with pytest.raises(
        UsageError, match=r"its write cache was 'write back' and is now 'write through'; set them by hand"
    ):
        disk.open()
    assert (disk.cache_type, len(disk.notes)) == ("write through", 1)
    put(disk.file, "write back")
    disk.open().close()
    assert (disk.cache_type, disk.notes) == ("write back", [])


def test_trim_is_of_the_open_drive_whatever_its_path_names(disk: Disk, tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "other.img")) as other:
        name = tmp_path / "drive"
        name.symlink_to(disk.path)
        engine = DeviceEngine.open(str(name), destroy_data=True, root=str(disk.root))
        engine.run(IoBatch.writes([0], 1 << 20))
        with open(other.path, "r+b") as device:
            device.write(b"precious")
        name.unlink()
        name.symlink_to(other.path)
        assert engine.trim() is True
        engine.close()
        with open(other.path, "rb") as kept, open(disk.path, "rb") as lost:
            assert (kept.read(8), any(lost.read(1 << 20))) == (b"precious", False)


def test_a_file_has_no_note(disk: Disk, tmp_path: Path) -> None:
    engine = DeviceEngine.open(str(sparse(tmp_path / "plain.img")), destroy_data=True)
    assert engine.note_path is None
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert "no switch" in report.note and disk.notes == []
    engine.close()


def test_a_damaged_note_is_named(disk: Disk) -> None:
    put(disk.state / "ST8000AS0002-1NA-Z840_1.restore", "half a no")
    with pytest.raises(UsageError, match=r"restore: is not a restore note .*; delete it"):
        disk.open()
    assert disk.cache_type == "write back"


def test_without_leave_no_setting_is_changed(disk: Disk) -> None:
    engine = disk.open(destroy_data=False)
    with engine.settings(write_cache=False, look_ahead=False) as report:
        assert report.write_cache is True
        assert "opened read-only" in report.note
        assert (disk.cache_type, disk.notes) == ("write back", [])
    engine.close()


def test_a_drive_without_a_switch_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    with loop(sparse(tmp_path / "disk.img")) as device:
        engine = DeviceEngine.open(device.path, destroy_data=True)
        with engine.settings(write_cache=False, look_ahead=False) as report:
            assert "write cache: this target has no switch for it" in report.note
            engine.run(IoBatch.writes([0], 4096))
        engine.close()


def test_a_note_that_cannot_be_kept_ends_the_run_before_the_switch(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "taken", "a file")
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "taken" / "state"))
    engine = disk.open()
    with (
        pytest.raises(KeepError, match="cannot keep the restore note"),
        engine.settings(write_cache=False, look_ahead=False),
    ):
        pytest.fail("must not get here")
    assert disk.cache_type == "write back"
    engine.close()
