"""Targets that fail and people who press Ctrl-C: one line, the log so far kept, even while an I/O hangs."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from device_targets import MIB, SIZE, child, frozen, loop, mounted, said, sparse, tell, tool
from skylight.engines.device import DeviceEngine, DeviceFailed
from skylight.errors import TargetError
from skylight.evidence import IoBatch, IoLog

pytestmark = pytest.mark.usefixtures("need_root")

# Runs a long batch after a line on stdin; tells in JSON how it ended. Arguments: path, "r" or "w", rows.
CHILD = """
import json, sys, time
import numpy as np
from skylight.engines.device import DeviceEngine, DeviceInterrupted
from skylight.evidence import IoBatch
path, way, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
engine = DeviceEngine.open(path, destroy_data=way == "w")
offsets = np.arange(rows, dtype=np.uint64) % 4096 * 4096
batch = IoBatch.writes(offsets, 4096) if way == "w" else IoBatch.reads(offsets, 4096)
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
try:
    log = engine.run(batch, depth=4)
except DeviceInterrupted as error:
    log, ended = error.log, "interrupted"
else:
    ended = "complete"
print(json.dumps({"ended": ended, "rows": len(log), "seconds": time.monotonic() - start}), flush=True)
"""


def check(log: IoLog, asked: int) -> None:
    """A log cut short: some rows, every one with its times."""
    assert 0 < len(log) < asked
    assert (log.submit_ns > 0).all() and (log.latency_ns > 0).all()


def long_batch(rows: int = 4_000_000) -> IoBatch:
    return IoBatch.reads(np.arange(rows, dtype=np.uint64) % (SIZE // 4096) * 4096, 4096)


@pytest.mark.parametrize("depth", [1, 16])
def test_a_backing_file_that_is_cut_while_it_is_read(tmp_path: Path, depth: int) -> None:
    path = sparse(tmp_path / "disk.img")
    with loop(path) as device:
        engine = DeviceEngine.open(device.path)
        batch = long_batch()
        timer = threading.Timer(0.5, os.truncate, (path, 8 * MIB))
        timer.start()
        with pytest.raises(
            DeviceFailed, match=r"read of 4096 bytes at offset \d+ \(LBA \d+\) failed: "
        ) as caught:
            engine.run(batch, depth=depth)
        timer.join()
        assert str(caught.value).startswith(f"{device.path}: ")
        assert "Input/output error" in str(caught.value)
        assert caught.value.exit_code == 3
        check(caught.value.log, 4_000_000)
        engine.close()


def test_a_device_that_shrinks(tmp_path: Path) -> None:
    path = sparse(tmp_path / "disk.img")
    with loop(path) as device:
        engine = DeviceEngine.open(device.path)
        os.truncate(path, 65 * MIB)
        tool("losetup", "--set-capacity", device.path)
        with pytest.raises(TargetError, match="the target has shrunk to 68157440 bytes"):
            engine.run(IoBatch.reads([0], 4096))
        engine.close()


def test_a_plain_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "disk.img")
    engine = DeviceEngine.open(str(path))
    batch = long_batch()
    timer = threading.Timer(0.5, os.truncate, (path, MIB))
    timer.start()
    with pytest.raises(DeviceFailed, match="the target has shrunk to 1048576 bytes") as caught:
        engine.run(batch)
    timer.join()
    check(caught.value.log, 4_000_000)
    engine.close()


@pytest.mark.parametrize("way", ["r", "w"])
def test_ctrl_c_keeps_what_was_done(tmp_path: Path, way: str) -> None:
    with loop(sparse(tmp_path / "disk.img")) as device, child(CHILD, device.path, way, "20000000") as process:
        assert said(process) == "ready"
        tell(process)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        result = json.loads(said(process))
        assert result["ended"] == "interrupted"
        assert 0 < result["rows"] < 20_000_000
        assert process.wait(timeout=30) == 0


def test_ctrl_c_while_an_io_hangs(tmp_path: Path) -> None:
    """A write hangs in the kernel: the disk is a file on a file system that is frozen."""
    with (
        loop(sparse(tmp_path / "outer.img", 256 * MIB)) as outer,
        mounted(outer.path, tmp_path / "mnt") as point,
    ):
        inner = point / "disk.img"
        tool("fallocate", "--length", str(SIZE), str(inner))
        with loop(inner) as device, child(CHILD, device.path, "w", "64") as process:
            assert said(process) == "ready"
            with frozen(point):
                tell(process)
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
                sent = time.monotonic()
                result = json.loads(said(process))
                answered = time.monotonic() - sent
            assert result["ended"] == "interrupted"
            assert result["rows"] == 0
            assert answered < 5, "an answer must not wait for the drive"
            assert process.wait(timeout=30) == 0


def test_another_signal_handlers_exception_is_its_own(tmp_path: Path) -> None:
    class Alarm(Exception):
        """What the handler raises."""

    def ring(_number: int, _frame: object) -> None:
        raise Alarm

    engine = DeviceEngine.open(str(sparse(tmp_path / "disk.img")))
    batch = long_batch()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Alarm):
            engine.run(batch)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(engine.run(IoBatch.reads([0], 4096))) == 1, "and the engine can be used again"
    engine.close()


def test_two_threads_cannot_share_a_device(tmp_path: Path) -> None:
    engine = DeviceEngine.open(str(sparse(tmp_path / "disk.img")))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            engine.run(long_batch(400_000))
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test shows it
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert engine.size == SIZE, "what does not change can be asked meanwhile"
    for thread in threads:
        thread.join()
    assert [str(error).split(": ")[1] for error in failed] == ["already runs a batch; wait for it to end"]
    engine.close()
