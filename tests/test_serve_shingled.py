"""A raw shingled disk, served: read modes, which write destroyed what, over restarts, and through the kernel.

The last tests attach it by nbdfuse and a loop device: ext4, which writes where it likes, is caught at a
destroyed block; archives written band by band are not.
"""

import calendar
import errno
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from burn_in.disk import attached
from conftest import lacking
from loop_mount import need_fuse
from nbd_client import WRITE_ZEROES, NbdClient, NbdError
from serving import SKYLIGHT, Served, need_native, run

SECTOR = 512
TRACK = 1000
SMALL = """\
schema = 1
name = "small-swd"
capacity = "{capacity}"
[mechanics]
rpm = 7200
head_switch = "0.8 ms"
write_settle = "0.1 ms"
seek = {{ fitted = {{ constant = "0.7 ms", root = "18.5 us", linear = "40 ns" }} }}
[geometry]
surfaces = 1
layout = "cylinder"
track_skew = "{skew}"
head_skew = "{skew}"
zone = [{zones}]
[interface]
queue_depth = 31
command_overhead = "0.15 ms"
{interface}
[layer]
kind = "swd"
width_tracks = {k}
{layer}
"""
FLAT = f"{{ tracks = 1_000, sectors_per_track = {TRACK} }}"
DEEP = ", ".join(f"{{ tracks = 300, sectors_per_track = {2200 - 120 * zone} }}" for zone in range(10))


def small(folder: Path, k: int = 4, interface: str = "", layer: str = "", deep: bool = False) -> Path:
    """A disk of 0.25 GB whose tracks begin at one angle, or of 1.9 GB with zones and skews."""
    capacity, skew, zones = ("1800 MiB", "0.9 ms", DEEP) if deep else ("244 MiB", "0 ms", FLAT)
    text = SMALL.format(capacity=capacity, skew=skew, zones=zones, k=k, interface=interface, layer=layer)
    path = folder / "swd.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _native() -> None:
    need_native()
    from skylight import _native

    if not hasattr(_native, "serve_control"):
        lacking("the native module was built before it could serve raw shingled disks: run make setup")


def readable(client: NbdClient, sector: int) -> bool:
    """Whether a sector can be read by itself; the error of one that cannot is EIO."""
    try:
        client.read(sector * SECTOR, SECTOR)
    except NbdError as error:
        assert error.errno == errno.EIO
        return False
    return True


def sectors(byte: bytes, count: int) -> bytes:
    """So many sectors of a byte."""
    return byte * (count * SECTOR)


def shingled(disk: Served) -> dict[str, object]:
    """What the status says of the disk."""
    from skylight import _native

    found: dict[str, object] = json.loads(_native.serve_status(disk.control))["drive"]["shingled"]
    return found


def set_mode(disk: Served, mode: str) -> None:
    """Changes the read mode."""
    from skylight import _native

    assert _native.serve_control(disk.control, "read-mode", mode) == f"read mode {mode}"


@pytest.mark.parametrize("timing", ["none", "model"])
def test_every_mode_says_what_was_overwritten(tmp_path: Path, timing: str) -> None:
    log = tmp_path / "log"
    options = ("--timing", timing, "--read-mode", "development", "--log", str(log))
    with Served(tmp_path, small(tmp_path, k=3), *options) as disk:
        client = disk.client()
        client.write(0, sectors(b"a", 5 * TRACK))
        since = time.time()
        client.write((TRACK + 8) * SECTOR, sectors(b"b", 8))
        # Sectors 8 to 15 of the next two tracks are gone, and no others.
        gone = {track * TRACK + 8 + number for track in (2, 3) for number in range(8)}
        near = [track * TRACK + number for track in range(5) for number in (0, 6, 7, 8, 9, 15, 16, 17, 999)]
        assert [sector for sector in near if not readable(client, sector)] == [s for s in near if s in gone]
        with pytest.raises(NbdError):
            client.read(2 * TRACK * SECTOR, 16 * SECTOR)
        assert client.read(2 * TRACK * SECTOR, 8 * SECTOR) == sectors(b"a", 8)
        # The two tracks behind the five that were written first, too.
        assert shingled(disk)["overwritten_sectors"] == 16 + 2 * TRACK
        assert shingled(disk)["refused_reads"] == 7

        assert "read mode data" in run([*SKYLIGHT, "control", str(disk.image), "--read-mode", "data"])
        assert client.read(2 * TRACK * SECTOR, 24 * SECTOR) == sectors(b"a", 8) + sectors(b"b", 8) + sectors(
            b"a", 8
        )
        set_mode(disk, "performance")
        assert client.read(3 * TRACK * SECTOR, 24 * SECTOR) == sectors(b"a", 8) + bytes(8 * SECTOR) + sectors(
            b"a", 8
        )
        # Zeros are writes; a sector that is written is whole, and destroys in turn.
        set_mode(disk, "development-performance")
        client.call(WRITE_ZEROES, (2 * TRACK + 8) * SECTOR, 4 * SECTOR)
        assert client.read(2 * TRACK * SECTOR, 12 * SECTOR) == sectors(b"a", 8) + bytes(4 * SECTOR)
        assert not readable(client, 4 * TRACK + 8) and readable(client, 4 * TRACK + 12)
        _, said = disk.stop()
    lines = [line for line in said.splitlines() if "read error" in line]
    assert len(lines) == 8 and all(line.partition("skylight: ")[2] in log.read_text() for line in lines)
    first = re.search(
        r"sectors 2008 to 2008 were overwritten by write 4 at (\S+)Z, which wrote sector 1008", said
    )
    assert first is not None
    when = time.strptime(first.group(1).partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    assert since - 1 <= calendar.timegm(when) <= time.time()


@pytest.mark.parametrize("options", [("none",), ("model",), ("none", "--delay-read", "1")])
def test_a_structured_reply_tells_the_first_sector_that_is_gone(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with Served(tmp_path, small(tmp_path, k=2), "--timing", *options, "--read-mode", "development") as disk:
        disk.client().write(0, sectors(b"a", 5 * TRACK))
        disk.client().write((TRACK + 8) * SECTOR, sectors(b"b", 8))
        client = NbdClient(disk.socket, structured=True)
        gone = (2 * TRACK + 8) * SECTOR
        # Short, longer than what is done in one go, and from the middle of what is gone.
        for start, count in ((2 * TRACK, 64), (0, 5 * TRACK), (2 * TRACK + 11, 2)):
            with pytest.raises(NbdError) as caught:
                client.read_structured(start * SECTOR, count * SECTOR)
            assert (caught.value.errno, caught.value.offset) == (errno.EIO, max(gone, start * SECTOR))
        assert client.read_structured(TRACK * SECTOR, 16 * SECTOR) == sectors(b"a", 8) + sectors(b"b", 8)
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_overwritten_stays_so(tmp_path: Path, number: signal.Signals) -> None:
    profile = small(tmp_path, interface='write_cache = "8 MiB"\nwrite_cache_on = true')
    with Served(tmp_path, profile) as disk:
        client = disk.client()
        # A write above 1 MiB is done, and counted, in parts.
        client.write(0, sectors(b"a", 3 * TRACK))
        client.write(0, sectors(b"b", 8))
        disk.stop(number)
    info = json.loads(run([*SKYLIGHT, "image", "info", str(disk.image), "--json"]))["shingled"]
    assert (info["overwritten_sectors"], info["writes"], info["width_tracks"]) == (16 + 3 * 1000, 3, 4)
    assert info["zones"] == [{"tracks": 1000, "sectors_per_track": TRACK}]
    with Served(tmp_path, profile) as disk:
        client = disk.client()
        assert [readable(client, sector) for sector in (7, 8, 1007, 1008, 2000, 2007, 2008)] == [
            True, True, False, True, False, False, True,
        ]  # fmt: skip
        _, said = disk.stop()
    assert "sectors 1007 to 1007 were overwritten by write 3 at" in said


def test_block_status_tells_it(tmp_path: Path) -> None:
    with Served(tmp_path, small(tmp_path, k=2)) as disk:
        disk.client().write(8 * SECTOR, sectors(b"a", 8))
        told = json.loads(run(["nbdinfo", "--json", "--map=x-skylight:overwritten", disk.uri]))
    found = [(extent["offset"] // SECTOR, extent["length"] // SECTOR, extent["type"]) for extent in told[:3]]
    assert found == [(0, TRACK + 8, 0), (TRACK + 8, 8, 1), (TRACK + 16, found[2][1], 0)]


def test_refusals_are_one_line(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        done = subprocess.run([*SKYLIGHT, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    place = ["--nbd", f"unix:{tmp_path / 's'}"]
    image = str(tmp_path / "x.img")
    for words in (["--read-mode", "data"], ["--shingle-width", "3"]):
        said = refused("serve", "st4000nc001", "--image", str(tmp_path / words[1]), *place, *words)
        assert "need a raw shingled drive" in said
    with Served(tmp_path, small(tmp_path), "--shingle-width", "2", image="x.img") as disk:
        assert "small-swd-k2" in disk.said[0]
        assert shingled(disk)["width_tracks"] == 2
        assert "say what to change" in refused("control", image)
        disk.stop()
    assert "is an image of drive small-swd-k2, not of small-swd" in refused(
        "serve", str(tmp_path / "swd.toml"), "--image", image, *place
    )
    assert "needs the name of the drive" in refused(
        "serve", "-", "--image", image, *place, "--shingle-width", "3"
    )


def test_ext4_is_caught_at_a_destroyed_block(tmp_path: Path, need_root: None) -> None:
    need_fuse()
    log = tmp_path / "commands"
    options = ("--read-mode", "development", "--write-cache", "on", "--log", str(log))
    with Served(tmp_path, small(tmp_path, k=4, deep=True), *options) as disk:
        with attached(disk.socket, tmp_path / "fuse", tmp_path / "fuse.log") as device:
            failed = use_ext4(device, tmp_path / "mnt", tmp_path)
            assert failed, "a file system that writes where it likes was never caught"
            print(f"caught: {failed}")
            refused = shingled(disk)
            assert int(str(refused["refused_reads"])) > 0
        _, said = disk.stop()
    lines = [line for line in said.splitlines() if "read error" in line]
    print("\n".join(lines[:5]))
    named = re.compile(
        r"sectors \d+ to \d+ were overwritten by write \d+ at \S+Z, which wrote sector \d+ of the medium"
    )
    assert lines and all(named.search(line) for line in lines)
    # The first read of a destroyed block is the first that failed: what was read before was whole.
    answers = [line.split() for line in log.read_text().splitlines() if "read error" not in line]
    first = next(index for index, words in enumerate(answers) if words[1] == "read" and words[5] != "ok")
    assert answers[first][5] == "EIO" and int(str(refused["overwritten_reads"])) == int(
        str(refused["refused_reads"])
    )
    assert all(words[5] == "ok" for words in answers[:first])


def use_ext4(device: str, mount_point: Path, folder: Path) -> str:
    """Makes a file system and uses it; the step that failed, and how."""
    mount_point.mkdir()
    source = folder / "source"
    source.mkdir()
    for number in range(40):
        (source / f"file-{number}").write_bytes(os.urandom(200_000 + 37_000 * number))
    for command in (
        ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device],
        ["mount", "-t", "ext4", device, str(mount_point)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            return f"{command[0]}: {done.stderr.strip()}"
    try:
        for round_ in range(4):
            copy = subprocess.run(
                ["cp", "-r", str(source), str(mount_point / f"copy-{round_}")],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("3\n")
            compare = subprocess.run(
                ["diff", "-r", str(source), str(mount_point / f"copy-{round_}")],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            if copy.returncode or compare.returncode:
                return (copy.stderr + compare.stderr + compare.stdout).strip()
    finally:
        subprocess.run(["umount", str(mount_point)], check=False, timeout=120, capture_output=True)
    check = subprocess.run(
        ["e2fsck", "-f", "-n", device], capture_output=True, text=True, timeout=120, check=False
    )
    return (check.stderr + check.stdout).strip() if check.returncode else ""


def test_archives_written_band_by_band_are_never_caught(tmp_path: Path, need_root: None) -> None:
    need_fuse()
    layer = "band_tracks = 16"
    with Served(tmp_path, small(tmp_path, k=4, deep=True, layer=layer), "--write-cache", "on") as disk:
        with attached(disk.socket, tmp_path / "fuse", tmp_path / "fuse.log") as device:
            write_bands(device, tmp_path)
            told = shingled(disk)
        disk.stop()
    assert (
        int(str(told["overwritten_sectors"])) > 0 and told["overwritten_reads"] == told["refused_reads"] == 0
    )
    info = json.loads(run([*SKYLIGHT, "image", "info", str(disk.image), "--json"]))["shingled"]
    assert info["efficiency"] == 16 / 19 and info["band_tracks"] == 16
    assert {band["guard_sectors"] * 16 for band in info["bands"]} == {3 * info_band for info_band in {
        band["band_sectors"] for band in info["bands"]
    }}  # fmt: skip


def write_bands(device: str, folder: Path) -> None:
    """Archives of 8 MiB to bands in any order, one of them twice; all are read back."""
    band = 16 * 2200 * SECTOR
    archives: dict[int, bytes] = {}
    for number, place in enumerate((5, 2, 9, 3, 2, 1)):
        source = folder / f"archive-{number}"
        source.mkdir()
        for name in range(8):
            (source / f"{name}").write_bytes(os.urandom(1_000_000 - 999 * number))
        path = folder / f"{number}.tar"
        run(["tar", "-b", "128", "-cf", str(path), "-C", str(source), "."])
        # One write after the other, as a shingled disk wants them.
        offset = place * band // 65536 * 65536
        copy = ["dd", f"if={path}", f"of={device}", "bs=64k", f"seek={offset}", "oflag=direct,seek_bytes"]
        run([*copy, "conv=notrunc", "status=none"])
        archives[offset] = path.read_bytes()
    for offset, data in archives.items():
        back = ["dd", f"if={device}", "bs=64k", f"skip={offset}", "iflag=direct,skip_bytes", "status=none"]
        done = subprocess.run(
            [*back, f"count={len(data) // 65536}"], capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0 and done.stdout == data, done.stderr
