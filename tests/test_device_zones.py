"""Zone commands to devices that have no zones, claim some, or are in use: one line, and nothing is done.

The devices are loop devices; where one claims zones, its sysfs is a tree of plain files. Devices with zones
are in tests/test_zones_guest.py.
"""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from device_targets import Loop, loop, mounted, sparse
from skylight.cli.app import run
from skylight.cli.endpoint_note import control_of, is_served, note_of
from skylight.engines.device import DeviceEngine
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, Op, TargetFacts
from skylight.probe.zoned import non_sequential_of

pytestmark = pytest.mark.usefixtures("need_root")

HOST_AWARE_PAGE = bytes([0, 0xB1, 0, 0x3C, 0x17, 0x0C, 0, 0, 0x10])
ZONE_BYTES = 256 << 20
ACTIONS = (Op.OPEN_ZONE, Op.CLOSE_ZONE, Op.FINISH_ZONE, Op.RESET_ZONE, Op.APPEND)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Loop]:
    with loop(sparse(tmp_path / "disk.img")) as made:
        yield made


def sysfs(root: Path, device: Loop) -> Path:
    """A tree in which the device is a disk of its own; its directory."""
    number = os.stat(device.path).st_rdev
    node = root / "sys/devices/sdq"
    for name in ("queue", "device"):
        (node / name).mkdir(parents=True)
    (node / "dev").write_text(f"{os.major(number)}:{os.minor(number)}\n", encoding="ascii")
    link = root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(node)
    (root / "sys/block").mkdir()
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("", encoding="ascii")
    (root / "proc/swaps").write_text("Filename\n", encoding="ascii")
    return node


@pytest.mark.parametrize("op", ACTIONS, ids=lambda op: op.name)
def test_a_batch_with_a_zone_command_is_refused_before_its_first_row(device: Loop, op: Op) -> None:
    engine = DeviceEngine.open(device.path, destroy_data=True)
    assert engine.zone_layout() is None
    before = device.changes
    rows = IoBatch.writes([0, 4096], 4096)
    rows.op[1] = int(op)
    with pytest.raises(UsageError, match=r"has no zones; name a host-managed or host-aware disk"):
        engine.run(rows)
    assert engine.counters()["writes"] == 0
    engine.close()
    assert device.changes == before


@pytest.mark.parametrize("op", ACTIONS, ids=lambda op: op.name)
def test_without_leave_no_zone_changes(device: Loop, op: Op) -> None:
    engine = DeviceEngine.open(device.path)
    with pytest.raises(UsageError, match=r"not allowed because the target was opened read-only"):
        engine.run(IoBatch.make(op, [0], 4096))
    engine.close()


@pytest.mark.parametrize("model", ["host-managed", "host-aware"])
def test_a_device_that_claims_zones_and_reports_none(device: Loop, tmp_path: Path, model: str) -> None:
    node = sysfs(tmp_path / "root", device)
    if model == "host-managed":
        (node / "queue/zoned").write_text("host-managed\n", encoding="ascii")
    else:
        (node / "device/vpd_pgb1").write_bytes(HOST_AWARE_PAGE)
    engine = DeviceEngine.open(device.path, destroy_data=True, root=str(tmp_path / "root"))
    for ask in (engine.report_zones, lambda: engine.run(IoBatch.make(Op.RESET_ZONE, [0], 4096))):
        with pytest.raises(TargetError) as raised:
            ask()
        line = str(raised.value)
        assert line.startswith(f"{device.path}: ") and re.search("failed: [A-Z]", line)
        assert "os error" not in line
        assert line.count("\n") == 0
    engine.close()


def test_the_verb_leaves_a_mounted_device_alone(
    device: Loop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mounted(device.path, tmp_path / "mnt") as point:
        before = device.changes
        for words in (("reset", "--all", "--destroy-data"), ("open", "--zone", "0"), ("finish", "--zone", "0",
                      "--destroy-data")):  # fmt: skip
            assert run(["zones", device.path, *words]) == 2
            out, err = capsys.readouterr()
            assert out == "" and err.count("\n") == 1
            assert f"{device.name} is mounted at {point}; run umount" in err
        assert device.changes == before
    assert run(["zones", device.path, "reset", "--all", "--destroy-data"]) == 2
    assert "holds a file system (ext4)" in capsys.readouterr().err


def test_the_verb_says_that_a_device_has_no_zones(device: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zones", device.path]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"skylight: {device.path}: has no zones; name a host-managed or host-aware drive")


def test_the_note_of_a_killed_server_of_a_device_says_nothing(
    device: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    note, control = note_of(Path(device.path)), control_of(Path(device.path))
    note.parent.mkdir()
    note.write_text(json.dumps({"pid": 1, "endpoints": [], "control": str(control)}), encoding="utf-8")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(os.fspath(control))
        assert run(["zones", device.path]) == 2
        assert "has no zones" in capsys.readouterr().err
        server.listen()
        assert is_served(Path(device.path))
    control.unlink()
    assert run(["zones", device.path]) == 2
    assert "has no zones" in capsys.readouterr().err


def test_a_server_that_accepts_nobody_is_waited_for_no_longer_than_that(
    device: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skylight.cli.endpoint_note.PATIENCE_S", 1)
    note, control = note_of(Path(device.path)), control_of(Path(device.path))
    note.parent.mkdir()
    note.write_text(json.dumps({"pid": 1, "endpoints": [], "control": str(control)}), encoding="utf-8")
    family = socket.AF_UNIX, socket.SOCK_STREAM
    with socket.socket(*family) as server, ExitStack() as waiting:
        server.bind(os.fspath(control))
        server.listen(0)
        with pytest.raises(BlockingIOError):
            while True:
                client = waiting.enter_context(socket.socket(*family))
                client.setblocking(False)
                client.connect(os.fspath(control))
        begun = time.monotonic()
        with pytest.raises(BlockingIOError):
            is_served(Path(device.path))
        assert 0.9 < time.monotonic() - begun < 10


class CountingHost:
    """A host-aware drive of 20 zones, two of them conventional, that counts the reports it is asked for."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self.reports = 0

    def zone_layout(self) -> dict[str, object]:
        limits = {"max_open": 8, "max_active": None, "recommended_non_sequential": None}
        return {"model": "host-aware", "zone_bytes": ZONE_BYTES, "zones": 20, **limits}

    def report_zones(self, from_bytes: int, most: int) -> dict[str, np.ndarray]:
        del from_bytes, most
        self.reports += 1
        start = np.arange(20, dtype=np.uint64) * np.uint64(ZONE_BYTES)
        size, flag = np.full(20, ZONE_BYTES, np.uint64), np.zeros(20, np.bool_)
        kind = np.where(np.arange(20) < 2, 1, 3).astype(np.uint8)
        return {
            "start_bytes": start, "size_bytes": size, "capacity_bytes": size, "write_pointer_bytes": start,
            "kind": kind, "condition": np.ones(20, np.uint8), "reset_recommended": flag,
            "non_sequential": flag,
        }  # fmt: skip

    def non_sequential_zones(self) -> int:
        return 7


def test_zones_are_counted_without_a_report_of_all(tmp_path: Path) -> None:
    """What is fixed about them takes a report, but one alone: a poll asks whether there are any."""
    host, facts = CountingHost(), TargetFacts("device", str(tmp_path / "drive"), 20 * ZONE_BYTES, 4096, {})
    engine = DeviceEngine(host, facts, can_write=False)  # type: ignore[arg-type]  # the part with zones
    assert [non_sequential_of(engine) for _ in range(5)] == [7] * 5
    layout = engine.zone_layout()
    assert layout is not None and layout.conventional_zones == 2
    assert host.reports == 1
