"""A workload on dm-zoned in the guest: `python -m zoned_guest.dm_zoned JOB`.

The zones are null_blk's, joined by dm-linear. Those of dm-zoned's metadata keep their bytes in memory and
the others keep none, so that hundreds of zones of a real size fit a small guest. The kernel's block events
say what dm-zoned was asked and what it sent to its zones; they go to a file, with a mark between the
phases.

A job is a JSON file: the bytes of a zone, how many of the metadata, of the other conventional and of the
sequential zones; the chunks of dm-zoned that are full beforehand, each in the next of the sequential zones;
and files for the rows (`<QIB` each: offset, size, whether it writes) and for the events.

The metadata is version 1 of `struct dmz_super` (Linux drivers/md/dm-zoned-metadata.c) with a map and
bitmaps behind it, written here: Debian has no package of `dmzadm`, and full zones need not be written
first.
"""

import fcntl
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

BLOCK = 4096
SECTOR = 512
MAP_ENTRIES = BLOCK // 8
RESERVED = 16
"""Sequential zones that dm-zoned keeps for reclaim: the default of `dmzadm`."""
BLKFINISHZONE = 0x40101288
"""_IOW(0x12, 136, struct blk_zone_range) of include/uapi/linux/blkzoned.h."""
LARGEST_BYTES = 1 << 20
"""Of a row."""
STUCK_SECONDS = 90.0
"""Longer than any zone takes to clean, including the 10 s after which dm-zoned considers itself idle."""
POLL_SECONDS = 1.0
CONFIG = Path("/sys/kernel/config/nullb")
TRACING = Path("/sys/kernel/tracing")
EVENTS = ("block_bio_queue", "block_bio_complete")
TRACE_KIB = 262_144
ZONES, DISK = "skylight-zones", "skylight-disk"


def tool(*words: object, given: str | None = None) -> str:
    """Runs a program; what it says. Raises CalledProcessError."""
    return subprocess.run(
        [str(word) for word in words], input=given, capture_output=True, text=True, check=True
    ).stdout


@contextmanager
def null_block(name: str, **settings: int) -> Iterator[Path]:
    """A null_blk with these settings."""
    folder = CONFIG / name
    folder.mkdir()
    try:
        for key, value in {"blocksize": BLOCK, "zoned": 1, "irqmode": 0, **settings, "power": 1}.items():
            (folder / key).write_text(f"{value}\n")
        yield Path("/dev") / name
    finally:
        (folder / "power").write_text("0\n")
        folder.rmdir()


@contextmanager
def mapped(name: str, table: str) -> Iterator[Path]:
    """A device of the device mapper."""
    tool("dmsetup", "create", name, "--noudevsync", given=table)
    try:
        minor = tool("dmsetup", "info", "-c", "--noheadings", "-o", "minor", name).strip()
        yield Path(f"/dev/dm-{minor}")
    finally:
        tool("dmsetup", "remove", "--noudevsync", "--retry", name)


def metadata(
    zone_bytes: int, zones: int, set_zones: int, mapped_to: Mapping[int, int]
) -> tuple[bytes, bytes]:
    """The fields of a super block that are sizes, and what lies behind it: a map in which some chunks are in
    a zone, and bitmaps in which these are full."""
    chunks = zones - 2 * set_zones - RESERVED
    map_blocks = -(-chunks // MAP_ENTRIES)
    bitmap_bytes = zone_bytes // BLOCK // 8
    blocks = 1 + map_blocks + zones * bitmap_bytes // BLOCK
    if blocks * BLOCK > set_zones * zone_bytes:
        raise ValueError(
            f"the metadata of {zones} zones takes {blocks} blocks, more than {set_zones} zones have"
        )
    mapping = bytearray(b"\xff" * (map_blocks * BLOCK))
    bitmaps = bytearray(zones * bitmap_bytes)
    for chunk, zone in mapped_to.items():
        struct.pack_into("<I", mapping, 8 * chunk, zone)
        bitmaps[zone * bitmap_bytes : (zone + 1) * bitmap_bytes] = b"\xff" * bitmap_bytes
    fields = struct.pack("<IIIII", blocks, RESERVED, chunks, map_blocks, len(bitmaps) // BLOCK)
    return fields, bytes(mapping + bitmaps)


def super_block(fields: bytes, block: int) -> bytes:
    """A super block at a place: its generation is 1, and so is the checksum's start."""
    generation = 1
    head = struct.pack("<IIQQ", int.from_bytes(b"DBZD", "little"), 1, generation, block) + fields
    whole = head.ljust(BLOCK, b"\0")
    checksum = zlib.crc32(whole, generation ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return (head + struct.pack("<I", checksum)).ljust(BLOCK, b"\0")


def make(device: Path, job: Mapping[str, Any]) -> None:
    """Writes both sets of the metadata, and finishes the zones that are full."""
    zone, metas, cache = job["zone_bytes"], job["meta"], job["cache"]
    to = {chunk: metas + cache + index for index, chunk in enumerate(job["full_chunks"])}
    fields, body = metadata(zone, metas + cache + job["sequential"], metas // 2, to)
    with device.open("r+b") as disk:
        for full in to.values():
            fcntl.ioctl(disk, BLKFINISHZONE, struct.pack("<QQ", full * zone // SECTOR, zone // SECTOR))
        for start in (0, metas // 2 * zone):
            disk.seek(start)
            disk.write(super_block(fields, start // BLOCK) + body)
        disk.flush()
        os.fsync(disk.fileno())


def number_of(device: Path) -> int:
    """The kernel's number of a device: 12 bits, 20 bits."""
    at = device.stat().st_rdev
    return os.major(at) << 20 | os.minor(at)


@contextmanager
def traced(devices: Sequence[Path], out: Path) -> Iterator[None]:
    """The block events of devices go to a file."""
    keep = " || ".join(f"dev == {number_of(device)}" for device in devices)
    (TRACING / "buffer_size_kb").write_text(str(TRACE_KIB))
    for event in EVENTS:
        (TRACING / "events/block" / event / "filter").write_text(keep)
        (TRACING / "events/block" / event / "enable").write_text("1")
    with out.open("wb") as file, subprocess.Popen(["cat", TRACING / "trace_pipe"], stdout=file) as reader:
        try:
            yield
            # What is still in the kernel's buffer; the reader takes it at once.
            before = -1
            while before != (before := out.stat().st_size):
                time.sleep(POLL_SECONDS)
        finally:
            for event in EVENTS:
                (TRACING / "events/block" / event / "enable").write_text("0")
            reader.terminate()


def mark(phase: str) -> None:
    """A line in the file of the events."""
    (TRACING / "trace_marker").write_text(f"skylight {phase}\n")


def reclaimed(cache_zones: int) -> None:
    """Waits until dm-zoned, which cleans when it is idle, has moved everything to sequential zones. It is
    asked to clean again and again: where it had cleaned while it was busy, Linux 6.1 went on only then."""
    before, since = -1, time.monotonic()
    while True:
        status = tool("dmsetup", "status", DISK)
        found = re.search(r"(\d+)/(\d+) random", status)
        if found is None:
            raise ValueError(f"dm-zoned's status is {status!r}")
        free = int(found[1])
        if free == cache_zones:
            return
        if free != before:
            before, since = free, time.monotonic()
        if time.monotonic() > since + STUCK_SECONDS:
            raise TimeoutError(f"dm-zoned cleaned nothing for {STUCK_SECONDS:.0f} s: {status}")
        time.sleep(POLL_SECONDS)
        tool("dmsetup", "message", DISK, "0", "reclaim")


def run(job: dict[str, Any]) -> None:
    """Makes the devices and runs the phases."""
    zone, metas, cache, sequential = (job[key] for key in ("zone_bytes", "meta", "cache", "sequential"))
    mib = zone >> 20
    tool("modprobe", "null_blk", "nr_devices=0")
    tool("modprobe", "dm-zoned")
    for kind, place in (("configfs", "/sys/kernel/config"), ("tracefs", TRACING)):
        if not os.path.ismount(place):
            tool("mount", "-t", kind, kind, place)
    with ExitStack() as stack:
        keeps = stack.enter_context(
            # It has at least one zone with a write pointer, which is not used; and a volatile write cache, or
            # dm-zoned's flushes would not be sent.
            null_block(
                "nullb0",
                size=(metas + 1) * mib,
                zone_size=mib,
                zone_nr_conv=metas,
                memory_backed=1,
                cache_size=1,
            )
        )
        bare = stack.enter_context(
            null_block("nullb1", size=(cache + sequential) * mib, zone_size=mib, zone_nr_conv=cache)
        )
        sectors = zone // SECTOR
        table = f"0 {metas * sectors} linear {keeps} 0\n"
        table += f"{metas * sectors} {(cache + sequential) * sectors} linear {bare} 0\n"
        zones = stack.enter_context(mapped(ZONES, table))
        make(zones, job)
        chunks = cache + sequential - RESERVED
        disk = stack.enter_context(mapped(DISK, f"0 {chunks * sectors} zoned {zones}\n"))
        stack.enter_context(traced((zones, disk), Path(job["events"])))
        with Path(job["events"]).with_suffix(".devices").open("w") as file:
            json.dump({"zones": number_of(zones), "disk": number_of(disk)}, file)
        phases(job, disk, cache)


def phases(job: dict[str, Any], disk: Path, cache: int) -> None:
    """The rows one at a time, then dm-zoned is idle until it has cleaned."""
    handle = os.open(disk, os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, LARGEST_BYTES) as memory:
            view = memoryview(memory)
            mark("work")
            for at, size, writes in struct.iter_unpack("<QIB", Path(job["rows"]).read_bytes()):
                if writes:
                    os.pwrite(handle, view[:size], at)
                else:
                    os.preadv(handle, [view[:size]], at)
            mark("after")
            reclaimed(cache)
            os.fsync(handle)
            mark("end")
            view.release()
    finally:
        os.close(handle)


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text()))
