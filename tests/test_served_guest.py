"""Served drives as disks of a guest: QEMU's virtio disk, and the NBD client of its kernel.

Each is served in model time and probed in the guest with --quick, which must find nothing but what the same
drive is in virtual time, and on a quiet machine (the long set) all of it. The guest's processor is emulated:
each command takes some 0.4 ms more there.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from serving import Served
from skylight.engines.sim import SimEngine
from skylight.probe.suite import SuiteOptions, run_suite
from zoned_guest.boot import Said, Step
from zoned_guest.shared import Guest

# A drive that must not be called shingled, and one that may. By default the machine runs other tests at the
# same time, which can hide a rotation; the user network adds milliseconds that vary then, so by default the
# kernel's client shows that data is kept, no more.
BY_DEFAULT = (("virtio", "st4000nc001"), ("virtio", "emulated-smr-1"))
KEPT = "emulated-smr-2"
DRIVES = ("st4000nc001", "emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st5000as0011", "st8000as0011")
ALL = tuple((way, drive) for way in ("virtio", "nbd") for drive in DRIVES)
ENGINES = ("own", "fio")
FINDINGS = ("drive_type", "cache_medium")
# A disk that syncs more slowly than the model's drive writes would be seen too.
MEMORY = "/dev/shm"
HOST = "10.0.2.2"
"""The host in QEMU's user network (its documentation of `-netdev user`); it reaches 127.0.0.1 alone there."""
PORTS: dict[str, int] = {}
"""Where drives are served to NBD clients, while they are."""

DECLARE = "echo 'write through' > /sys/block/nbd0/queue/write_cache"
"""As `skylight serve --attach` does of a drive that is served without a volatile cache; QEMU's virtio disk is
told so on its command line. Without that a flash cache is like memory that ignores FLUSH (docs/serve.md)."""

KEEP = """
head -c 8388608 /dev/urandom > /tmp/kept
dd if=/tmp/kept of=/dev/nbd0 bs=1M oflag=direct conv=fsync status=none
dd if=/dev/nbd0 bs=1M count=8 iflag=direct status=none | cmp - /tmp/kept
blockdev --getsize64 /dev/nbd0
"""


def attached(is_long: bool) -> tuple[tuple[str, str], ...]:
    return ALL if is_long else BY_DEFAULT


def drives_of(way: str, is_long: bool) -> list[str]:
    drives = [drive for by, drive in attached(is_long) if by == way]
    return drives if way == "virtio" or KEPT in drives else [*drives, KEPT]


@contextmanager
def disks(folder: Path, is_long: bool) -> Iterator[Sequence[str]]:
    """Serves the drives; QEMU's words for the virtio disks, and for the network of the others."""
    del folder  # a socket's path is short
    words = ["-nic", "user,model=virtio-net-pci"]
    with ExitStack() as stack:

        def serve(drive: str, *options: str) -> Served:
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
            return stack.enter_context(
                Served(own, drive, "--timing", "model", "--write-cache", "off", *options)
            )

        for number, drive in enumerate(drives_of("virtio", is_long)):
            served = serve(drive)
            words += [
                "-drive",
                f"file=nbd:unix:{served.socket},format=raw,if=none,id=served{number},cache=none",
            ]
            words += ["-device", f"virtio-blk-pci,drive=served{number},write-cache=off"]
        for drive in drives_of("nbd", is_long):
            served = serve(drive, "--nbd", "tcp:127.0.0.1:0")
            assert served.process.stdout is not None
            at = next(line for line in served.process.stdout if line.startswith("serving"))
            PORTS[drive] = int(at.rsplit(":", 1)[1])
        yield words


def steps(is_long: bool) -> list[Step]:
    engines = ENGINES if is_long else ENGINES[:1]

    def probes(way: str, drive: str, device: str) -> list[Step]:
        words = [device, "--quick", "--engine"]
        return [{"name": f"{way} {drive} {engine}", "waiting": [*words, engine]} for engine in engines]

    made: list[Step] = [
        {"name": "modules", "tool": ["modprobe", "--all", "virtio_blk", "virtio_net", "nbd"]},
        {"name": "address", "tool": ["ip", "address", "add", "10.0.2.15/24", "dev", "eth0"]},
        {"name": "link", "tool": ["ip", "link", "set", "eth0", "up"]},
    ]
    for number, drive in enumerate(drives_of("virtio", is_long)):
        made += probes("virtio", drive, f"/dev/vd{chr(ord('a') + number)}")
    for drive in drives_of("nbd", is_long):
        client = ["nbd-client", HOST, str(PORTS[drive]), "/dev/nbd0", "-block-size", "512"]
        made.append({"name": f"attach {drive}", "tool": client})
        made.append({"name": f"declare {drive}", "tool": ["sh", "-ec", DECLARE]})
        if ("nbd", drive) in attached(is_long):
            made += probes("nbd", drive, "/dev/nbd0")
        if drive == KEPT:
            made.append({"name": "kept", "tool": ["sh", "-ec", KEEP]})
        made.append({"name": f"detach {drive}", "tool": ["nbd-client", "-d", "/dev/nbd0"]})
    return made


GUEST = Guest("served", steps, tools=("nbd-client", "ip", "fio"), hardware=disks)


@pytest.fixture(scope="module")
def said(need_tool: Callable[[str], str], guests: dict[str, dict[str, Said]]) -> dict[str, Said]:
    for name in GUEST.tools:
        need_tool(name)
    return guests[GUEST.name]


def test_the_client_of_the_kernel_gets_back_what_it_wrote(said: dict[str, Said]) -> None:
    for name in ("modules", "address", "link", f"attach {KEPT}", f"declare {KEPT}", "kept", f"detach {KEPT}"):
        assert said[name].code == 0, said[name]
    assert int(said["kept"].out) == SimEngine.open(KEPT).size


def answers(
    way: str, drive: str, engine: str, said: dict[str, Said], folder: Path
) -> tuple[dict[str, object], dict[str, object]]:
    """What the probe in the guest found and what one in virtual time does."""
    before = [f"attach {drive}", f"declare {drive}"] if way == "nbd" else []
    for name in ("modules", "address", "link", *before):
        assert said[name].code == 0, said[name]
    probed = said[f"{way} {drive} {engine}"]
    assert probed.code == 0, probed.err
    there = json.loads(probed.out)["findings"]
    result = run_suite(SimEngine.open(drive), folder, SuiteOptions(quick=True))
    here = {finding.name: finding.value for finding in result.findings}
    return {name: there[name]["value"] for name in FINDINGS}, {name: here[name] for name in FINDINGS}


@pytest.mark.parametrize(("way", "drive"), BY_DEFAULT)
def test_a_quick_probe_in_a_guest_finds_nothing_that_is_not_so(
    way: str, drive: str, said: dict[str, Said], tmp_path: Path
) -> None:
    """A host that pauses, as one that runs other tests does, may hide what a drive is, but not change it."""
    there, here = answers(way, drive, "own", said, tmp_path)
    hidden = [name for name in FINDINGS if there[name] == "unknown"]
    print(f"{drive} by {way}: unknown on this machine now: {', '.join(hidden) or 'nothing'}")
    assert there == here | dict.fromkeys(hidden, "unknown")


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("way", "drive"), ALL)
def test_a_quick_probe_in_a_guest_finds_what_one_in_virtual_time_finds(
    way: str, drive: str, engine: str, said: dict[str, Said], tmp_path: Path
) -> None:
    """Wants a machine that does nothing else: model time is the host's."""
    there, here = answers(way, drive, engine, said, tmp_path)
    assert there == here, said[f"{way} {drive} {engine}"].out
