"""Devices that are no disks and have latencies of their own: whatever these are, none is called shingled.

nbdkit's memory behind its rate and delay filters, and one whose commands take a random time each, are loop
devices of this system; compressed memory and a RAM disk are those of a guest's kernel.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from loop_mount import as_device
from serving import PATIENCE_S, SKYLIGHT, wait_for
from skylight.probe.drive_type.landing import land
from skylight.probe.drive_type.observed import Observed
from zoned_guest.boot import Said, Step
from zoned_guest.shared import Guest

NeedTool = Callable[[str], str]

RANDOM = "sleep 0.0$(printf %03d $(od -An -N1 -tu1 /dev/urandom))"
"""Up to 26 ms, evenly, whatever the address: as long as a slow disk takes."""
DEVICES = {
    "rate": ("--filter=rate", "memory", "2G", "rate=80M"),
    "bursts": ("--filter=rate", "memory", "2G", "rate=40M", "burstiness=8"),
    "delay": ("--filter=delay", "memory", "2G", "delay-read=3ms", "delay-write=9ms"),
    "both": ("--filter=delay", "--filter=rate", "memory", "2G", "rate=80M", "delay-write=20ms"),
    "random": (
        "eval", "get_size=echo 2G", f"pread={RANDOM}; head -c $3 /dev/zero",
        f"pwrite={RANDOM}; cat > /dev/null", "flush=exit 0", "can_write=exit 0", "can_flush=exit 0",
    ),
}  # fmt: skip
BY_DEFAULT = "delay"


@contextmanager
def served(name: str, folder: Path, need_tool: NeedTool) -> Iterator[str]:
    """The device; its server ends with it."""
    socket = folder / "s"
    words = [need_tool("nbdkit"), "--foreground", "--unix", str(socket), *DEVICES[name]]
    with subprocess.Popen(words) as server:
        try:
            wait_for(lambda: socket.exists() or server.poll() is not None, "nbdkit listens")
            with as_device(f"nbd+unix:///?socket={socket}", folder, need_tool) as device:
                yield device
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def drive_type(findings: str) -> str:
    """What was found, printed with its reason."""
    found = json.loads(findings)["findings"]["drive_type"]
    print(f"{found['value']}, {found['confidence']:.2f}: {found['why']}")
    return str(found["value"])


@pytest.mark.parametrize("engine", ["own", pytest.param("fio", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == BY_DEFAULT else pytest.mark.long) for each in DEVICES]
)
def test_a_slow_device_is_not_called_shingled(name: str, engine: str, need_tool: NeedTool) -> None:
    need_tool("fio")
    with tempfile.TemporaryDirectory() as folder, served(name, Path(folder), need_tool) as device:
        command = [*SKYLIGHT, "probe", device, "--quick", "--engine", engine, "--destroy-data", "--json"]
        done = subprocess.run(
            [*command, "--out", f"{folder}/out"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert drive_type(done.stdout) in ("unknown", "not-rotating")


def test_a_reason_names_the_reads_that_are_slow() -> None:
    """A rate that bursts answers most reads at once; their median says nothing of why they are no disk's."""
    reads_ns = np.array([160_000] * 70 + [40_000_000] * 58)
    seen = Observed(reads_ns=reads_ns)
    assert land(seen, "device").why.startswith("Reads take 17.8 ms on average, as slow as a rotating disk's")


MEMORY = {"compressed memory": "/dev/zram0", "RAM disk": "/dev/ram0"}
SIZE_MIB = 512


def steps(is_long: bool) -> list[Step]:
    del is_long
    made: list[Step] = [
        {"name": "zram", "tool": ["modprobe", "zram"]},
        {"name": "size", "tool": ["sh", "-ec", f"echo {SIZE_MIB}M > /sys/block/zram0/disksize"]},
        {"name": "brd", "tool": ["modprobe", "brd", "rd_nr=1", f"rd_size={SIZE_MIB << 10}"]},
    ]
    probes: list[Step] = [
        {"name": name, "waiting": [path, "--quick", "--engine", "own"]} for name, path in MEMORY.items()
    ]
    return [*made, *probes, {"name": "gone", "tool": ["modprobe", "--remove", "zram", "brd"]}]


GUEST = Guest("memory", steps, tools=())


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_not_called_shingled(name: str, guests: dict[str, dict[str, Said]]) -> None:
    said = guests[GUEST.name]
    for step in ("zram", "size", "brd", name, "gone"):
        assert said[step].code == 0, said[step]
    assert drive_type(said[name].out) == "not-rotating"
