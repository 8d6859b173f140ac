"""Drives on block devices (`--on`, `--cache-on`, `--timing native`): what is refused, and what is kept.

The devices are loop devices over files of the test, or over a drive that the test serves.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from loop_mount import as_file
from native_disk import NeedTool, checksum, empty_device, loop_device
from nbd_client import NbdClient, NbdError
from serving import SKYLIGHT, SMALL, Served, need_native, run, small_profile

MIB = 1 << 20
SIZE = 256 * MIB
# With room for the log and the checkpoints of the small drive.
ROOM = 512 * MIB
FLASH = """\
kind = "set-associative"
band = "512 KiB"
cache = "4 MiB"
cache_medium = "flash"
[flash]
read = "0.1 ms"
write = "0.2 ms"
bandwidth = "400 MB"
"""

pytestmark = pytest.mark.usefixtures("native", "need_root")


@pytest.fixture(scope="module")
def native() -> None:
    need_native()


@pytest.fixture
def device(tmp_path: Path, need_tool: NeedTool) -> Iterator[Path]:
    with empty_device(tmp_path, "disk", ROOM, need_tool) as made:
        yield made


@contextmanager
def on(folder: Path, drive: Path | str, *options: str) -> Iterator[Served]:
    """A served drive on a device that `options` name."""
    with Served(folder, drive, *options, image=None) as served:
        yield served


def refused(drive: Path | str, *options: object) -> str:
    """The one line with which a drive is not served; exit code 2."""
    command = [*SKYLIGHT, "serve", str(drive), *map(str, options), "--nbd", "tcp:localhost:0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def fill(client: NbdClient, rng: np.random.Generator, count: int = 200) -> dict[int, bytes]:
    """Random blocks all over a drive, by number, written and flushed."""
    blocks = {int(block): rng.bytes(4096) for block in rng.integers(0, SIZE // 4096, count)}
    for block, data in blocks.items():
        client.write(block * 4096, data)
    client.flush()
    return blocks


def holds(client: NbdClient, blocks: dict[int, bytes]) -> bool:
    """Whether all of these read back."""
    return all(client.read(block * 4096, 4096) == data for block, data in blocks.items())


def test_what_is_on_a_device_stays_until_it_is_given_up(
    device: Path, tmp_path: Path, need_tool: NeedTool, rng: np.random.Generator
) -> None:
    drive, other = small_profile(tmp_path, "set-associative"), small_profile(tmp_path, "conventional")
    assert "--destroy-data makes one" in refused(drive, "--on", device), "even where there are only zeros"
    with device.open("r+b") as file:
        file.write(rng.bytes(MIB))
    before = checksum(device)
    assert "holds no image of this drive" in refused(drive, "--on", device)
    assert "holds no image of this drive" in refused(drive, "--image", device)
    assert "is not a skylight image" in refused("-", "--on", device)
    assert checksum(device) == before, "what was refused wrote nothing"
    with on(tmp_path, drive, "--on", str(device), "--destroy-data") as served:
        blocks = fill(served.client(), rng)
        assert "in use" in refused(drive, "--on", device)
        status = json.loads(run([*SKYLIGHT, "status", str(device), "--json"]))
        assert status["requests"]["commands"]["write"] == len(blocks)
        assert served.stop()[0] == 0
    assert not list(Path("/dev").glob("*.serve.json")), "the note of a device is no device"
    made = checksum(device)
    assert "is an image of drive small, not of" in refused("emulated-smr-1", "--on", device)
    assert checksum(device) == made
    # Our own image needs no leave, and given one is kept all the same.
    for options in ([], ["--destroy-data"]):
        with on(tmp_path, drive, "--on", str(device), *options) as served:
            assert holds(served.client(), blocks)
            assert served.stop()[0] == 0
    with on(tmp_path, other, "--on", str(device), "--destroy-data") as served:
        fill(served.client(), rng)
        assert served.stop()[0] == 0
    assert "is an image of drive small, not of" in refused(drive, "--on", device), "it is the other one now"


def test_a_device_that_others_use_is_refused(device: Path, tmp_path: Path, need_tool: NeedTool) -> None:
    drive = small_profile(tmp_path, "set-associative")
    options = ("--on", device, "--destroy-data")
    run([need_tool("mkfs.ext4"), "-q", "-F", str(device)])
    before = checksum(device)
    assert "file system (ext4); if nothing on it is needed" in refused(drive, *options)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    run([need_tool("mount"), "-o", "ro,noload", str(device), str(mounted)])
    try:
        assert f"is mounted at {mounted}; run umount" in refused(drive, *options)
    finally:
        run([need_tool("umount"), str(mounted)])
    with device.open("rb"):
        assert "which has it open" in refused(drive, *options)
    with loop_device(device, need_tool):
        assert "backing file of" in refused(drive, *options)
    assert checksum(device) == before
    run([need_tool("blockdev"), "--setro", str(device)])
    try:
        assert "is read-only" in refused(drive, *options)
    finally:
        # The number of a loop device keeps it, whatever file it is given next.
        run([need_tool("blockdev"), "--setrw", str(device)])


def test_a_device_that_is_none_or_too_small_is_refused(tmp_path: Path, need_tool: NeedTool) -> None:
    drive = small_profile(tmp_path, "set-associative")
    missing, plain = tmp_path / "missing", tmp_path / "plain"
    plain.write_bytes(b"some text")
    assert "is no block device" in refused(drive, "--on", missing)
    assert "is no block device" in refused(drive, "--on", plain, "--destroy-data")
    assert not missing.exists()
    assert plain.read_bytes() == b"some text"
    with empty_device(tmp_path, "short", 64 * MIB, need_tool) as short:
        before = checksum(short)
        assert "use a larger one" in refused(drive, "--on", short, "--destroy-data")
        assert checksum(short) == before


@pytest.mark.parametrize("write_cache", ["on", "off"])
def test_a_drive_on_a_device_outlives_its_server(
    write_cache: str, device: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    drive = small_profile(tmp_path, "set-associative")
    blocks: dict[int, bytes] = {}
    options = ["--on", str(device), "--write-cache", write_cache, "--timing", "native", "--destroy-data"]
    for round_number in range(2):
        with on(tmp_path, drive, *options) as served:
            assert any("recovered" in line for line in served.said) == (round_number > 0)
            client = served.client()
            assert holds(client, blocks)
            blocks |= fill(client, rng)
            served.stop(signal.SIGKILL)
    assert "good" in run([*SKYLIGHT, "image", "check", str(device)])
    compacted = json.loads(run([*SKYLIGHT, "image", "compact", str(device), "--json"]))
    assert compacted["after_bytes"] > 0
    info = json.loads(run([*SKYLIGHT, "image", "info", str(device), "--json"]))
    assert (info["drive"], info["clean"]) == ("small", True)
    with on(tmp_path, "-", "--on", str(device)) as served:
        assert holds(served.client(), blocks)


def flash_profile(folder: Path) -> Path:
    """The small drive with its cache on flash."""
    path = folder / "flash.toml"
    path.write_text(SMALL.format(layer=FLASH, write_cache="0 B"), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["files", "devices"])
def test_a_flash_cache_elsewhere(
    kind: str, tmp_path: Path, need_tool: NeedTool, rng: np.random.Generator
) -> None:
    drive, leave = flash_profile(tmp_path), []
    with ExitStack() as stack:
        if kind == "files":
            main, cache, wrong = (tmp_path / name for name in ("main.img", "cache.img", "wrong.img"))
            place = "--image"
        else:
            sizes = (("main", ROOM), ("cache", 8 * MIB), ("wrong", 8 * MIB))
            main, cache, wrong = (
                stack.enter_context(empty_device(tmp_path, name, size, need_tool)) for name, size in sizes
            )
            place, leave = "--on", ["--destroy-data"]
            short = stack.enter_context(empty_device(tmp_path, "short", 2 * MIB, need_tool))
            assert "use a larger one" in refused(drive, place, main, "--cache-on", short, *leave)
            assert "holds no image" in refused(drive, place, main, "--cache-on", cache)
        where = [place, str(main), "--cache-on", str(cache)]
        conventional = small_profile(tmp_path, "conventional")
        assert "no flash cache" in refused(conventional, *where, *leave)
        blocks: dict[int, bytes] = {}
        for _ in range(2):
            with on(tmp_path, drive, *where, *leave) as served:
                assert holds(served.client(), blocks)
                blocks |= fill(served.client(), rng)
                served.stop(signal.SIGKILL)
        with on(tmp_path, drive, *where) as served:
            assert holds(served.client(), blocks)
            assert served.status()["drive"]["image"]["cache_live_bytes"] > 0
            assert served.stop()[0] == 0
        # Without the cache, or with something else, the image is not opened, and nothing is changed.
        if kind == "files":
            wrong.write_bytes(bytes(8 * MIB))
        before = checksum(main), checksum(cache), checksum(wrong)
        assert "keeps its flash on another" in refused(drive, place, main)
        assert "is not the flash of" in refused(drive, place, main, "--cache-on", wrong, *leave)
        assert (checksum(main), checksum(cache), checksum(wrong)) == before
        for verb in ("info", "check", "compact"):
            assert run([*SKYLIGHT, "image", verb, str(main), "--cache-on", str(cache)])
        with on(tmp_path, "-", *where) as served:
            assert holds(served.client(), blocks)


def test_an_image_that_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    drive, main, cache = flash_profile(tmp_path), tmp_path / "main.img", tmp_path / "cache.img"
    cache.write_bytes(b"somebody's")
    assert "is not empty" in refused(drive, "--image", main, "--cache-on", cache)
    assert not main.exists()
    assert cache.read_bytes() == b"somebody's"


def test_native_timing_over_a_served_disk_and_its_end(
    tmp_path: Path, need_tool: NeedTool, rng: np.random.Generator
) -> None:
    """The raw disk is st4000nc001 in model time: one read for one read, and when it goes, the drive fails."""
    below, above = tmp_path / "below", tmp_path / "above"
    below.mkdir()
    above.mkdir()
    with ExitStack() as stack:
        disk = stack.enter_context(Served(below, "st4000nc001", "--timing", "model"))
        file = stack.enter_context(as_file(disk.uri, below, need_tool))
        raw = stack.enter_context(loop_device(file, need_tool, "--direct-io=on", "-b", "4096"))
        options = ["--on", str(raw), "--destroy-data", "--timing", "native", "--write-cache", "on"]
        with on(above, "emulated-smr-1", *options) as served:
            client = served.client()
            blocks = {int(block): rng.bytes(4096) for block in rng.integers(0, client.size // 4096, 8)}
            for block, data in blocks.items():
                client.write(block * 4096, data)
            client.flush()
            assert holds(client, blocks)
            reads = disk.status()["requests"]["commands"]["read"]
            for block in rng.integers(0, client.size // 4096, 20):
                assert client.read(int(block) * 4096, 4096) in (bytes(4096), blocks.get(int(block)))
            assert disk.status()["requests"]["commands"]["read"] == reads + 20, "one for one"
            assert served.status()["drive"]["timing"] == "native"
            disk.stop(signal.SIGKILL)
            with pytest.raises(NbdError) as failed:
                client.read(0, 4096)
            assert failed.value.errno == 5
            with pytest.raises(NbdError) as failed:
                client.write(0, bytes(4096), fua=True)
            assert failed.value.errno == 5
            client.close()
            code, said = served.stop()
            assert code == 3, said
            assert str(raw) in said.splitlines()[-1], said
