"""`make bench`: speed of the simulator, memory of its map, and the device engine compared with fio.

Rates are commands per second of user CPU of one thread, so that a busy machine changes them little; the ratio
is against the project's target. A comparison with a peer measures both in this run. `--json` prints the rows
as JSON; exit code 1 when a row misses.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skylight import _native
from skylight.engines.device import DeviceEngine
from skylight.engines.sim import SimEngine, read_profile
from skylight.evidence import IoBatch

BLOCK_BYTES = 4096
ROUNDS = 3
FILLING_WRITES = 9_200_000
LAYER_COMMANDS = 1_500_000
RANDOM_DRIVES = 40
# A drive of each translation layer; no shipped profile is all flash.
LAYERS = {
    "conventional": "st4000nc001",
    "set-associative": "emulated-smr-1",
    "fully-associative": "emulated-smr-3",
    "journaled": "st5000as0011",
    "ssd": None,
}
# The drives with zones.
ZONED = {"host-managed": "wsh722020al", "host-aware": "st8000as0022"}
ZONE_BYTES = 256 << 20
# Zones written in turns, from one that is not conventional on.
STREAMS = 100
FIRST_STREAM = 1_000
# Random writes that the persistent cache of the host-aware drive takes, one each, before it has to clean.
AWARE_WRITES = 30_000
# Asked of the device engine: median latency over that of fio's io_uring engine.
ADDED_US = 15.0
# The cleaning orders besides FIFO, which the journaled profile has.
ORDERS = ("greedy", "random")


@dataclass(frozen=True)
class Row:
    """A measured figure and its target; `good` is whether it meets the target."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float
    good: bool


def user_seconds(work: Callable[[], object]) -> float:
    """User CPU time of `work` on this thread."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
    work()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime - before


def wall_seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of `work`."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def random_blocks(size_bytes: int, count: int) -> NDArray[np.uint64]:
    """Byte offsets of random blocks."""
    rng = np.random.Generator(np.random.PCG64(7))
    return rng.integers(0, size_bytes // BLOCK_BYTES, count).astype(np.uint64) * np.uint64(BLOCK_BYTES)


def rate(name: str, drive: str, batch_of: Callable[[int], IoBatch], floor: float) -> Row:
    """The best of a few rounds, each on a new drive, compared with the target rate."""
    best = 0.0
    for _ in range(ROUNDS):
        engine = SimEngine.open(drive)
        batch = batch_of(engine.size)
        seconds = user_seconds(partial(engine.run, batch))
        best = max(best, len(batch) / seconds / 1e6)
    ratio = best / floor
    return Row(name, best, "M commands/s", f"{floor:g} M/s asked", ratio, ratio >= 1)


def simulator_rows() -> list[Row]:
    """All rates, times and memory figures."""

    def sequential(size: int) -> IoBatch:
        count = 3_000_000
        return IoBatch.reads(np.arange(count, dtype=np.uint64) * np.uint64(128 << 10), 128 << 10)

    rows = [
        rate(
            "random 4 KiB reads, st4000nc001, depth 1",
            "st4000nc001",
            lambda size: IoBatch.reads(random_blocks(size, 3_000_000), BLOCK_BYTES),
            10,
        ),
        rate("sequential 128 KiB reads, st4000nc001", "st4000nc001", sequential, 10),
        rate(
            f"random 4 KiB writes, emulated-smr-1, its cache filling ({FILLING_WRITES / 1e6:.1f} M)",
            "emulated-smr-1",
            lambda size: IoBatch.writes(random_blocks(size, FILLING_WRITES), BLOCK_BYTES),
            4,
        ),
    ]
    return [*rows, *layer_rows(), whole_drive_row(), start_row(), map_row()]


def new_drive(name: str | None, order: str | None = None) -> _native.SimDrive:
    """A packaged drive, with another order of cleaning if one is given, or the first random one that is all
    flash."""
    text, origin = read_profile(name) if name else (_native.random_profile(1, "ssd"), "a random ssd")
    if order:
        fifo = 'cleaning_order = "fifo"'
        if text.count(fifo) != 1:
            raise SystemExit(f"bench/speed.py: the profile {name} has no line {fifo} to derive others from")
        text = text.replace(fifo, f'cleaning_order = "{order}"')
    return _native.SimDrive(text, origin, 1)


def layer_row(
    title: str, drive_of: Callable[[], _native.SimDrive], io: IoBatch, depth: int, *, cached: bool = False
) -> Row:
    """4 KiB commands, the volatile cache off unless `cached`: the best of some rounds, a new drive each."""
    best = 0.0
    for _ in range(ROUNDS):
        drive = drive_of()
        drive.set_write_cache(cached)
        seconds = user_seconds(partial(drive.run, io.op, io.offset, io.size, depth))
        best = max(best, len(io) / seconds / 1e6)
    return Row(f"{title}, depth {depth}", best, "M commands/s", "2 M/s asked", best / 2, best >= 2)


def layer_rows() -> list[Row]:
    """Random 4 KiB commands on every layer; the writes make the journaled drive clean for most of the run, in
    every order that it knows."""
    rows = []
    for layer, name in LAYERS.items():
        offset = random_blocks(new_drive(name).size_bytes, LAYER_COMMANDS)
        for op, batch_of in (("reads", IoBatch.reads), ("writes", IoBatch.writes)):
            for depth in (1, 31):
                title, io = f"{layer}, random 4 KiB {op}", batch_of(offset, BLOCK_BYTES)
                rows.append(layer_row(title, partial(new_drive, name), io, depth))
    name = LAYERS["journaled"]
    io = IoBatch.writes(random_blocks(new_drive(name).size_bytes, LAYER_COMMANDS), BLOCK_BYTES)
    for order in ORDERS:
        for depth in (1, 31):
            title = f"journaled, cleaned in {order} order, random 4 KiB writes"
            rows.append(layer_row(title, partial(new_drive, name, order), io, depth))
    return [*rows, *zoned_rows()]


def zoned_rows() -> list[Row]:
    """4 KiB commands on drives with zones: writes in order to zones in turns, random reads of them,
    and random writes into the persistent cache of the host-aware drive."""
    index = np.arange(LAYER_COMMANDS, dtype=np.uint64)
    streams = np.uint64(STREAMS)
    zone = np.uint64(FIRST_STREAM) + index % streams
    in_order = zone * np.uint64(ZONE_BYTES) + index // streams * np.uint64(BLOCK_BYTES)
    written = random_blocks(LAYER_COMMANDS // STREAMS * BLOCK_BYTES, LAYER_COMMANDS)
    writes = IoBatch.writes(in_order, BLOCK_BYTES)
    rows = []
    for model, name in ZONED.items():
        for depth, cached in itertools.product((1, 31), (False, True)):
            title = f"{model}, 4 KiB writes in order to {STREAMS} zones" + ", volatile cache" * cached
            rows.append(layer_row(title, partial(new_drive, name), writes, depth, cached=cached))

        def full(name: str = name) -> _native.SimDrive:
            drive = new_drive(name)
            drive.run(writes.op, writes.offset, writes.size, 1)
            return drive

        reads = IoBatch.reads(zone * np.uint64(ZONE_BYTES) + written, BLOCK_BYTES)
        for depth in (1, 31):
            rows.append(layer_row(f"{model}, random 4 KiB reads of {STREAMS} zones", full, reads, depth))
    aware = partial(new_drive, ZONED["host-aware"])
    filling = IoBatch.writes(random_blocks(aware().size_bytes, AWARE_WRITES), BLOCK_BYTES)
    for depth in (1, 31):
        rows.append(layer_row("host-aware, random 4 KiB writes, its cache filling", aware, filling, depth))
    return rows


def whole_drive_row() -> Row:
    """CPU of one sequential read of a whole 5 TB drive in 1 MiB commands, look-ahead on."""
    best = float("inf")
    for _ in range(ROUNDS):
        drive = new_drive("st5000as0011")
        drive.set_look_ahead(True)
        offset = np.arange(drive.size_bytes >> 20, dtype=np.uint64) << np.uint64(20)
        io = IoBatch.reads(offset, 1 << 20)
        best = min(best, user_seconds(partial(drive.run, io.op, io.offset, io.size, 1)))
    return Row("st5000as0011 read whole, 1 MiB commands", best, "s", "2 s asked", best / 2, best <= 2)


def start_row() -> Row:
    """Time until the largest of some random drives is ready."""
    drives = []
    for seed in range(RANDOM_DRIVES):
        text = _native.random_profile(seed, None)
        sizes: list[int] = []

        def start(text: str = text, sizes: list[int] = sizes) -> None:
            sizes.append(_native.SimDrive(text, "random", 1).size_bytes)

        # Wall-clock time, because the resolution of user CPU is far coarser than this duration.
        took = min(wall_seconds(start) for _ in range(ROUNDS))
        drives.append((sizes[0], took * 1000))
    size, took = max(drives)
    name = f"start of a random drive of {size / 1e12:.1f} TB, the largest of {RANDOM_DRIVES}"
    return Row(name, took, "ms", "50 ms asked", took / 50, took < 50)


def map_row() -> Row:
    """Bytes of memory for each cached block after the writes that fill the cache."""
    engine = SimEngine.open("emulated-smr-1")
    engine.run(IoBatch.writes(random_blocks(engine.size, FILLING_WRITES), BLOCK_BYTES))
    counters = engine.counters()
    each = counters["cache_map_bytes"] / (counters["cache_live_bytes"] / BLOCK_BYTES)
    return Row("memory of the map for a cached block", each, "bytes", "16 allowed", each / 16, each <= 16)


def fio_median_us(path: Path) -> float:
    """Median latency, submission to completion, of fio's io_uring engine, random 4 KiB reads at depth 1."""
    command = [
        "fio", "--name=peer", f"--filename={path}", "--ioengine=io_uring", "--direct=1", "--rw=randread",
        "--bs=4k", "--iodepth=1", "--number_ios=20000", "--output-format=json",
        "--lat_percentiles=1", "--clat_percentiles=0",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(result.stdout)["jobs"][0]["read"]
    return float(job["lat_ns"]["percentile"]["50.000000"]) / 1000


def device_rows(folder: Path) -> list[Row]:
    """Our device engine against fio on the same file: median latency, medians of alternating rounds; and what
    ours adds to that of fio."""
    path = folder / "bench.img"
    path.write_bytes(os.urandom(1 << 20) * 256)
    ours, theirs = [], []
    engine = DeviceEngine.open(str(path), destroy_data=False)
    batch = IoBatch.reads(random_blocks(engine.size, 20_000), BLOCK_BYTES)
    for _ in range(ROUNDS):
        ours.append(float(np.median(engine.run(batch).latency_ns)) / 1000)
        theirs.append(fio_median_us(path))
    engine.close()
    value, peer = float(np.median(ours)), float(np.median(theirs))
    name = "random 4 KiB read of a file through the device engine, median"
    added = value - peer
    return [
        Row(name, value, "us", f"fio {peer:.1f} us in the same run", value / peer, value <= 1.25 * peer),
        Row(
            "of that more than fio",
            added,
            "us",
            f"{ADDED_US:.0f} us allowed",
            added / ADDED_US,
            added < ADDED_US,
        ),
    ]


def machine() -> str:
    """The machine and versions of this run."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} processors, load {load:.1f} at the start"


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    where = machine()
    rows = simulator_rows()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        rows += device_rows(Path(folder))
    if options.json:
        print(json.dumps({"machine": where, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(where)
        for row in rows:
            mark = "ok  " if row.good else "MISS"
            print(f"{mark} {row.name}: {row.value:.2f} {row.unit} ({row.against}; ratio {row.ratio:.2f})")
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
