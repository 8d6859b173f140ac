"""A served drive with zones behind a host buffer: an ordinary disk, which keeps what is written anywhere.

Every server is the command itself, in a process of its own.
"""

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nbd_client import TRIM, WRITE_ZEROES, NbdClient
from serving import SKYLIGHT, SMALL, Served, need_native, rounds, run, small_profile, wait_for
from skylight.cli.serve import HBUFFER_POLICIES, status_words
from test_serve_kill import Promises, kill_under_load

MIB = 1 << 20
ZONE = 4 * MIB
"""The drives have 64 of these."""
LOG_ZONES = 5
"""Few, so that the log goes round."""
PLACES = 2
"""Zones of checkpoints: the conventional ones, or the first two."""
SPARES = 2
ROUNDS = 5
"""Of 80 changes: the first makes the log go round on a host that is not busy."""
SIZE = (64 - PLACES - LOG_ZONES - SPARES) * ZONE
NeedTool = Callable[[str], str]

MANAGED = 'kind = "zoned"\nmodel = "host-managed"\nzone_size = "4 MiB"\nmax_open_zones = 8'
AWARE = """\
kind = "zoned"
model = "host-aware"
zone_size = "4 MiB"
conventional_zones = 2
max_open_zones = 8
recommended_non_sequential_zones = 4
[layer.host_aware]
open_zones = 8
open_time = "0.1 ms"
settle = "1 ms"
settle_per_write = "0.1 ms"
scan_every = "10 ms"
scan_per_zone = "0.01 ms"
zone_metadata = "4 KiB"
cache_location = "id"
quantum = "32 KiB"
entry_gap = "8 KiB"
entry_max = "256 KiB"
places = 100
place_watermark = 0.9
map_entries = 400
map_watermark = 0.9
map_merge_every = 20
map_merge = "64 KiB"
map_copies = 2
chunk = "256 KiB"
cleaning = "aggressive"
idle = "0.5 s"
"""

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture(scope="module")
def native() -> None:
    need_native()


def zoned(folder: Path, model: str = "managed", write_cache: str = "1 MiB") -> Path:
    """A drive of 64 zones."""
    path = folder / f"{model}.toml"
    layer = MANAGED if model == "managed" else AWARE
    path.write_text(SMALL.format(layer=layer, write_cache=write_cache), encoding="utf-8")
    return path


def buffered(policy: str, *options: str) -> list[str]:
    return ["--hbuffer", policy, "--hbuffer-zones", str(LOG_ZONES), *options]


class Disk:
    """What a disk is to hold, written through a client."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.holds, self.rng = bytearray(size), rng

    def extent(self, most: int) -> tuple[int, int]:
        """Whole sectors, anywhere."""
        sectors = int(self.rng.integers(1, most // 512 + 1))
        return int(self.rng.integers(0, len(self.holds) // 512 - sectors)) * 512, sectors * 512

    def change(self, client: NbdClient) -> None:
        """A write or zeros."""
        offset, size = self.extent([4096, 65536, 3 * MIB][int(self.rng.integers(3))])
        if self.rng.random() < 0.1:
            client.call(WRITE_ZEROES, offset, size)
            data = bytes(size)
        else:
            data = self.rng.bytes(size)
            client.write(offset, data, fua=bool(self.rng.random() < 0.1))
        self.holds[offset : offset + size] = data

    def check(self, client: NbdClient) -> None:
        """Reads all of it."""
        for offset in range(0, len(self.holds), MIB):
            assert client.read(offset, MIB) == self.holds[offset : offset + MIB], f"at {offset}"


def test_the_policies_are_those_of_the_native_module() -> None:
    from skylight import _native

    assert tuple(_native.BufferedDrive.POLICIES) == HBUFFER_POLICIES


@pytest.mark.parametrize(
    ("model", "policy"),
    [("managed", policy) for policy in ("direct", "buffer", "adaptive")]
    + [("aware", policy) for policy in ("drive-cache", "open-zones", "non-sequential", "adaptive")],
)
def test_it_holds_what_was_written_anywhere(
    model: str, policy: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    disk = Disk(SIZE, rng)
    with Served(tmp_path, zoned(tmp_path, model), *buffered(policy)) as served:
        client = served.client()
        assert client.size == SIZE
        # A stream, so that there is something to be in order.
        data = rng.bytes(2 * ZONE)
        for offset in range(0, len(data), MIB):
            client.write(8 * ZONE + offset, data[offset : offset + MIB])
        disk.holds[8 * ZONE : 8 * ZONE + len(data)] = data
        # What the drive's own cache takes anywhere needs no log.
        by_log = policy != "drive-cache"
        # How soon the log goes round depends on how busy the host is: a zone closes by time as well.
        for _ in range(ROUNDS):
            for _ in range(80):
                disk.change(client)
            found = served.status()["drive"]["hbuffer"]
            if not by_log or found["cleaning"]["rewritten_zones"] > 0:
                break
        client.flush()
        disk.check(client)
        found = served.status()["drive"]["hbuffer"]
        assert found["policy"] == policy
        written = served.status()["requests"]["bytes"]
        assert sum(found["paths"].values()) == written["write"] + written["write_zeroes"]
        assert (found["paths"]["buffer_bytes"] > 0) == by_log
        assert by_log or found["paths"]["drive_cache_bytes"] > 0
        # The adaptive policy sends first writes to the buffer until it knows how many zones there are.
        assert policy == "adaptive" or (found["paths"]["direct_bytes"] > 0) == (policy != "buffer")
        assert found["fill"]["zones"] == LOG_ZONES
        assert (found["cleaning"]["rewritten_zones"] > 0) == by_log, "the log went round"
        code, said = served.stop()
        assert code == 0, said
    with Served(tmp_path, "-", "--hbuffer", policy) as served:
        disk.check(served.client())
        assert served.status()["drive"]["hbuffer"]["fill"]["zones"] == LOG_ZONES, "as it was made"


@pytest.mark.parametrize("timing", ["none", "model"])
@pytest.mark.parametrize("write_cache", ["on", "off"])
@pytest.mark.parametrize("model", ["managed", "aware"])
def test_killed_under_load(
    model: str, write_cache: str, timing: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    promises = Promises(cached=write_cache == "on")
    drive = zoned(tmp_path, model)
    options = buffered("adaptive", "--timing", timing, "--write-cache", write_cache)
    for _ in range(rounds("SKYLIGHT_KILLS", 2)):
        with Served(tmp_path, drive, *options) as served:
            promises.check(served.client())
            kill_under_load(served, promises, rng)
    assert len(promises.sent) > 10, "hardly anything was asked before the kills"
    with Served(tmp_path, "-", *options) as served:
        promises.check(served.client())
        code, said = served.stop()
        assert code == 0, said


def test_fio_finds_what_it_wrote_after_a_kill(tmp_path: Path, need_tool: NeedTool, seed: int) -> None:
    fio = [need_tool("fio"), "--name=verify", "--ioengine=nbd", "--rw=randrw", "--rwmixread=70", "--bs=4k"]
    fio += ["--size=128m", "--io_size=64m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"]
    fio += [f"--randseed={seed}", "--output-format=json"]

    def checked(served: Served, *options: str) -> int:
        said = run([*fio, f"--uri={served.uri}", *options], cwd=tmp_path)
        job = json.loads(said[said.index("{") :])["jobs"][0]
        assert job["error"] == 0
        return int(job["read"]["io_bytes"])

    with Served(tmp_path, zoned(tmp_path), *buffered("adaptive")) as served:
        checked(served, "--do_verify=0", "--end_fsync=1")
        assert served.status()["drive"]["hbuffer"]["paths"]["buffer_bytes"] > 10 * MIB
        os.kill(served.process.pid, signal.SIGKILL)
    with Served(tmp_path, "-", *buffered("adaptive")) as served:
        assert checked(served, "--verify_only=1") > 10 * MIB, "it read back what it wrote"


def test_copies_come_back(tmp_path: Path, need_tool: NeedTool, rng: np.random.Generator) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    data = bytearray(SIZE)
    for start in range(0, SIZE, 3 * MIB):
        if rng.random() < 0.5:
            length = int(rng.integers(1, 3 * MIB // 512)) * 512
            data[start : start + length] = rng.bytes(length)[: SIZE - start]
    source.write_bytes(data)
    checksum = hashlib.sha256(data).hexdigest()
    with Served(tmp_path, zoned(tmp_path, "aware"), *buffered("adaptive")) as served:
        place = f"nbd+unix:///?socket={served.socket}"
        for there, here in (
            ([need_tool("nbdcopy"), str(source), served.uri], [need_tool("nbdcopy"), served.uri, str(back)]),
            (
                [need_tool("qemu-img"), "convert", "-n", "-f", "raw", "-O", "raw", str(source), place],
                [need_tool("qemu-img"), "convert", "-f", "raw", "-O", "raw", place, str(back)],
            ),
        ):
            run(there)
            run(here)
            assert hashlib.sha256(back.read_bytes()[:SIZE]).hexdigest() == checksum
            back.unlink()


def test_what_was_never_written_is_a_hole(tmp_path: Path, need_tool: NeedTool) -> None:
    with Served(tmp_path, zoned(tmp_path, "aware"), *buffered("direct")) as served:
        client = served.client()
        client.write(10 * ZONE, bytes([1]) * MIB)
        client.write(12 * ZONE + MIB, bytes([2]) * 4096)
        found = json.loads(run([need_tool("nbdinfo"), "--json", "--map", served.uri]))
        data = [(extent["offset"], extent["length"]) for extent in found if extent["type"] == 0]
        assert data == [(10 * ZONE, MIB), (12 * ZONE + MIB, 4096)]
        assert sum(extent["length"] for extent in found) == SIZE
        client.call(TRIM, 10 * ZONE, 3 * ZONE)
        found = json.loads(run([need_tool("nbdinfo"), "--json", "--map", served.uri]))
        assert all(extent["type"] != 0 for extent in found), "a trim of whole zones empties them"


def test_idle_time_is_for_cleaning(tmp_path: Path, rng: np.random.Generator) -> None:
    with Served(tmp_path, zoned(tmp_path), *buffered("buffer")) as served:
        client = served.client()
        for zone in range(4):
            client.write(zone * ZONE + MIB, rng.bytes(4096))
        assert served.status()["drive"]["hbuffer"]["paths"]["buffer_bytes"] == 4 * 4096
        wait_for(lambda: not served.status()["drive"]["hbuffer"]["fill"]["dirty_zones"], "all is cleaned")
        words = status_words(served.status())
        assert "host buffer (buffer) with 100 % buffered" in words
        assert "4 zones cleaned" in words


def test_a_zone_that_is_overwritten_again_waits_for_its_silence_and_is_cleaned(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    # Longer than rewriting a zone of 4 MiB is taken to last, so that the policy notes it.
    pause_s = 0.5
    with Served(tmp_path, zoned(tmp_path), *buffered("adaptive")) as served:
        client = served.client()

        def dirty_zones() -> int:
            return int(served.status()["drive"]["hbuffer"]["fill"]["dirty_zones"])

        for offset in range(0, ZONE, MIB):
            client.write(offset, rng.bytes(MIB))
        wait_for(lambda: not dirty_zones(), "the zone is full, and nothing of it is in the log")
        client.write(MIB, rng.bytes(4096))
        time.sleep(pause_s)
        overwritten = time.monotonic()
        client.write(MIB, rng.bytes(4096))
        # The first answers in idle time are that nothing may go yet; no command comes after them.
        wait_for(lambda: not dirty_zones(), "the zone is cleaned, though nothing more was sent")
        assert time.monotonic() - overwritten > 2 * pause_s, "twice its pause"


def refused(*arguments: str) -> str:
    """What a command that is wrongly used says; one line, exit code 2."""
    done = subprocess.run([*SKYLIGHT, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    where = ["--image", str(tmp_path / "disk.img"), "--nbd", f"unix:{tmp_path / 'other'}"]
    plain = str(small_profile(tmp_path, "conventional"))
    assert "has no zones" in refused("serve", plain, *where, "--hbuffer", "direct")
    assert not (tmp_path / "disk.img").exists()
    assert "--hbuffer POLICY" in refused("serve", plain, *where, "--hbuffer-zones", "5")
    drive = str(zoned(tmp_path))
    assert "whole ones" in refused("serve", drive, *where, "--hbuffer", "direct", "--hbuffer-zones", "70")
    with Served(tmp_path, drive, *buffered("direct")) as served:
        served.client().write(0, bytes([1]) * 4096)
        served.stop()
    assert "log of 5 zones" in refused("serve", "-", *where, "--hbuffer", "direct", "--hbuffer-zones", "6")


@pytest.mark.parametrize("place", [0, ZONE + MIB, 3 * ZONE], ids=["start", "conventional", "sequential"])
def test_data_of_others_is_left_alone(place: int, tmp_path: Path) -> None:
    drive = zoned(tmp_path, "aware")
    with Served(tmp_path, drive) as served:
        served.client().write(place, bytes([7]) * 4096)
        served.stop()
    where = ["--image", str(tmp_path / "disk.img"), "--nbd", f"unix:{tmp_path / 'other'}"]
    said = refused("serve", "-", *where, "--hbuffer", "adaptive")
    assert "no host buffer wrote" in said or "were written" in said
    with Served(tmp_path, "-") as served:
        assert served.client().read(place, 4096) == bytes([7]) * 4096


def test_zones_can_be_looked_at_and_not_changed(tmp_path: Path) -> None:
    with Served(tmp_path, zoned(tmp_path), *buffered("direct")) as served:
        served.client().write(0, bytes([1]) * 4096)
        report = json.loads(run([*SKYLIGHT, "zones", str(served.image), "--json"]))
        assert len(report["zones"]) == 64
        done = subprocess.run(
            [*SKYLIGHT, "zones", str(served.image), "reset", "--zone", "7"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 3 and "not permitted" in done.stderr
