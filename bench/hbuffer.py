"""Policies of the H-Buffer against workloads, in virtual time.

A host with a buffer sends commands to an emulated drive with zones, one at a time, its volatile cache on
(`skylight._native.BufferedDrive`). Zones that a workload reads or writes at random were written before, as on
a disk in use; streams begin in empty zones. The time of a run is that of its commands and of all cleaning
that is left when the last of them is done, the host's and the drive's; time in which the host is idle is not
in it. Write amplification is what went to the platters over what the host wrote.

What invalidates results: nothing on the machine; every time is the model's, every choice has a fixed seed.

``bench/hbuffer.py [--drive NAME ..] [--policy NAME ..] [--workload NAME ..] [--zones N] [--memory BYTES]
[--json]``; exit code 1 when the adaptive policy misses what is asked of it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from skylight import _native
from skylight.engines.sim import read_profile
from skylight.errors import SkylightError, UsageError
from skylight.evidence import I64, U8, U32, U64, Op
from skylight.reproduce.from_fio_logs import data_folder

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BLOCK = 4 * KIB
SECTOR = 512
DRIVES = ("st8000as0022", "wsh722020al")
STATIC = ("direct", "drive-cache", "buffer")
BUFFER_ZONES = 100
"""Of the paper's case study (section 5)."""
MEMORY_BYTES = GIB
"""Memory for cleaning. Chosen: little for a host of an 8 TB drive."""
FILL_BYTES = 4 * MIB
SEED = 1
SLOWER, FASTER = 1.05, 0.8
"""What is asked of the adaptive policy: at most this times the best of the others everywhere, and at most
this times the best static one somewhere."""


@dataclass(frozen=True)
class Work:
    """Commands of a host: columns, and the home zones that were written before."""

    op: U8
    offset: U64
    size: U32
    arrive_ns: U64
    full_zones: I64


@dataclass(frozen=True)
class Result:
    """One policy under one workload on one drive."""

    drive: str
    workload: str
    policy: str
    write_s: float
    migration_s: float
    idle_migration_s: float
    amplification: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    longest_ms: float
    direct: float
    drive_cache: float
    buffer: float

    @property
    def total_s(self) -> float:
        """Time of the host's commands and of the cleaning after them."""
        return self.write_s + self.migration_s


class Host:
    """The address space that a workload is made for."""

    def __init__(self, drive: _native.BufferedDrive) -> None:
        """Takes the sizes of a buffered drive."""
        self.size_bytes, self.zone_bytes = drive.size_bytes, drive.zone_bytes

    def work(self, op: object, offset: object, size: object, arrive_ns: object = 0, *, full: bool) -> Work:
        """Columns of one length; the zones that are touched were written before if `full`."""
        at = np.asarray(offset, np.uint64)
        ops, sizes, arrives = (
            np.broadcast_to(np.asarray(column, dtype), at.shape).copy()
            for column, dtype in ((op, np.uint8), (size, np.uint32), (arrive_ns, np.uint64))
        )
        touched = np.concatenate([at, at + sizes - 1]) // np.uint64(self.zone_bytes)
        zones = np.unique(touched).astype(np.int64) if full else np.empty(0, np.int64)
        return Work(ops, at, sizes, arrives, zones)


def _rng(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([SEED, *name.encode()]))


def stream_offsets(host: Host, streams: int, size: int, total: int) -> U64:
    """Writes to streams in turn, each in a zone of its own."""
    rounds = total // (streams * size)
    zone, at = np.tile(np.arange(streams), rounds), np.repeat(np.arange(rounds), streams) * size
    return (zone * host.zone_bytes + at).astype(np.uint64)


def streams(count: int, size: int = 64 * KIB, total: int = 2 * GIB) -> Callable[[Host], Work]:
    """Writes to `count` streams in turn."""
    return lambda host: host.work(Op.WRITE, stream_offsets(host, count, size, total), size, full=False)


def _random_blocks(host: Host, name: str, zones: int, count: int) -> U64:
    return (_rng(name).integers(0, zones * (host.zone_bytes // BLOCK), count) * BLOCK).astype(np.uint64)


def random_writes(zones: int | None, count: int) -> Callable[[Host], Work]:
    """Writes of 4 KiB anywhere in `zones` zones, or in all."""

    def made(host: Host) -> Work:
        among = zones or host.size_bytes // host.zone_bytes
        return host.work(Op.WRITE, _random_blocks(host, f"random/{among}", among, count), BLOCK, full=True)

    return made


def mixed(zones: int) -> Callable[[Host], Work]:
    """70 % reads, 30 % writes of 4 KiB anywhere in `zones` zones."""

    def made(host: Host) -> Work:
        count = 60_000
        op = np.where(_rng("mixed/op").random(count) < 0.7, int(Op.READ), int(Op.WRITE))
        return host.work(op, _random_blocks(host, "mixed", zones, count), BLOCK, full=True)

    return made


def _streams_and_random(host: Host) -> Work:
    """Of the writes, 70 % of 64 KiB to 20 streams and 30 % of 4 KiB anywhere in 64 full zones."""
    count, streams, zones, size = 40_000, 20, 64, 64 * KIB
    is_random = _rng("both/which").random(count) < 0.3
    at = _random_blocks(host, "both", zones, count)
    number = np.cumsum(~is_random) - 1
    at[~is_random] = ((zones + number % streams) * host.zone_bytes + number // streams * size)[
        ~is_random
    ].astype(np.uint64)
    work = host.work(Op.WRITE, at, np.where(is_random, BLOCK, size), full=True)
    return Work(work.op, work.offset, work.size, work.arrive_ns, np.arange(zones))


def _bursts(host: Host) -> Work:
    """20 bursts of 1,000 writes of 4 KiB anywhere in 32 zones, a minute apart."""
    bursts, writes = 20, 1_000
    arrive = np.repeat(np.arange(bursts, dtype=np.uint64) * np.uint64(60_000_000_000), writes)
    return host.work(Op.WRITE, _random_blocks(host, "bursts", 32, bursts * writes), BLOCK, arrive, full=True)


def _gunzip(name: str) -> bytes:
    path = data_folder() / "traces" / name
    try:
        return gzip.decompress(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read; set SKYLIGHT_DATA to the folder of the traces") from error


def _cloudphysics(host: Host) -> Work:
    """vscsiStats version 1: a virtual disk of 31 GiB, two hours, at its own times and addresses."""
    layout = np.dtype(
        [("serial", "<u4"), ("bytes", "<u4"), ("entries", "<u4"), ("command", "<u2"), ("version", "<u2"),
         ("lbn", "<u8"), ("us", "<u8")]
    )  # fmt: skip
    rows = np.frombuffer(_gunzip("cloudphysics-sample.vscsi.gz"), layout)
    rows = rows[np.isin(rows["command"], (0x28, 0x2A)) & (rows["bytes"] > 0)]
    op = np.where(rows["command"] == 0x28, int(Op.READ), int(Op.WRITE))
    arrive = (rows["us"] - rows["us"].min()) * np.uint64(1_000)
    return host.work(op, rows["lbn"] * np.uint64(SECTOR), rows["bytes"], arrive, full=True)


def _tpcc(host: Host) -> Work:
    """DiskSim ASCII: 16 devices, laid side by side; the times are squeezed, so all comes at once."""
    text = _gunzip("tpcc-small.trace.gz").decode("ascii")
    rows = np.array([line.split()[:5] for line in text.splitlines() if line.strip()], np.float64)
    rows = rows.astype(np.int64)
    device = np.unique(rows[:, 1], return_inverse=True)[1]
    share = host.size_bytes // (int(device.max()) + 1) // SECTOR
    at = (device * share + rows[:, 2] % (share - int(rows[:, 3].max()))) * SECTOR
    op = np.where(rows[:, 4] == 0, int(Op.WRITE), int(Op.READ))
    return host.work(op, at, rows[:, 3] * SECTOR, full=True)


WORKLOADS: Final[dict[str, Callable[[Host], Work]]] = {
    "20 streams": streams(20),
    "200 streams": streams(200),
    "4 KiB, 8 zones": random_writes(8, 100_000),
    "4 KiB, 256 zones": random_writes(256, 100_000),
    "4 KiB, whole drive": random_writes(None, 4_000),
    "mixed 70/30": mixed(256),
    "streams and random": _streams_and_random,
    "bursts": _bursts,
    "cloudphysics": _cloudphysics,
    "tpcc": _tpcc,
    **{f"Figure 6, {size} KiB": streams(200, size * KIB, 4 * GIB) for size in (4, 8, 16, 32, 64, 128, 256)},
}
"""By name, in the order of the table."""


def prepared(profile: str, work: Work, policy: str, zones: int, memory: int) -> _native.BufferedDrive:
    """A drive whose zones were written as a workload wants them, with a policy that has seen nothing."""
    text, origin = read_profile(profile)
    drive = _native.BufferedDrive(text, origin, "direct", zones, memory)
    if len(work.full_zones):
        step = np.arange(0, drive.zone_bytes, FILL_BYTES, dtype=np.uint64)
        at = (work.full_zones.astype(np.uint64)[:, None] * np.uint64(drive.zone_bytes) + step).ravel()
        drive.run(
            np.full(len(at), int(Op.WRITE), np.uint8), at, np.full(len(at), FILL_BYTES, np.uint32),
            np.zeros(len(at), np.uint64),
        )  # fmt: skip
        drive.finish()
    drive.start_over(policy)
    return drive


def measured(
    profile: str, name: str, work: Work, policy: str, zones: int = BUFFER_ZONES, memory: int = MEMORY_BYTES
) -> Result:
    """One run."""
    drive = prepared(profile, work, policy, zones, memory)
    before = drive.counters()["media_written_bytes"]
    took = drive.run(work.op, work.offset, work.size, work.arrive_ns)
    drive.finish()
    counters = drive.counters()
    is_write = work.op == int(Op.WRITE)
    written = max(int(work.size[is_write].sum(dtype=np.int64)), 1)
    p50, p99, p999 = np.percentile(took[is_write], (50, 99, 99.9)) / 1e6
    share = {path: counters[f"{path}_bytes"] / written for path in ("direct", "drive_cache", "buffer")}
    return Result(
        profile, name, policy,
        write_s=counters["foreground_ns"] / 1e9,
        migration_s=counters["cleaning_after_ns"] / 1e9,
        idle_migration_s=counters["idle_cleaning_ns"] / 1e9,
        amplification=(counters["media_written_bytes"] - before) / written,
        p50_ms=float(p50), p99_ms=float(p99), p999_ms=float(p999),
        longest_ms=float(took[is_write].max()) / 1e6,
        **share,
    )  # fmt: skip


def misses(results: Sequence[Result]) -> list[str]:
    """Where the adaptive policy is not what is asked of it."""
    found, gained = [], {}
    for drive, workload in dict.fromkeys((result.drive, result.workload) for result in results):
        total = {r.policy: r.total_s for r in results if (r.drive, r.workload) == (drive, workload)}
        ours = total.pop("adaptive", None)
        if ours is None or not total:
            continue
        best = min(total, key=lambda policy: total[policy])
        if ours > SLOWER * total[best]:
            found.append(f"{drive}, {workload}: adaptive takes {ours / total[best]:.2f} of {best}")
        static = [total[policy] for policy in STATIC if policy in total]
        if static:
            gained[drive, workload] = ours / min(static)
    if gained and min(gained.values()) > FASTER:
        where = min(gained, key=lambda key: gained[key])
        found.append(f"nowhere {1 - FASTER:.0%} faster than the best static policy; at most {where}")
    return found


HEADS = ("workload", "policy", "total, s", "write", "migration", "in idle time", "WA",
         "p50, ms", "p99", "p99.9", "longest", "direct/cache/buffer, %")  # fmt: skip


def cells(result: Result) -> tuple[str, ...]:
    """A row of the table."""
    numbers = (result.total_s, result.write_s, result.migration_s, result.idle_migration_s)
    waits = (result.p50_ms, result.p99_ms, result.p999_ms, result.longest_ms)
    shares = "/".join(f"{100 * part:.0f}" for part in (result.direct, result.drive_cache, result.buffer))
    return (
        result.workload, result.policy, *(f"{number:,.1f}" for number in numbers),
        f"{result.amplification:.3g}", *(f"{wait:,.3g}" if wait < 1000 else f"{wait:,.0f}" for wait in waits),
        shares,
    )  # fmt: skip


def markdown(results: Sequence[Result]) -> str:
    """A table for each drive."""
    parts = []
    for drive in dict.fromkeys(result.drive for result in results):
        rows = [HEADS, tuple("---" for _ in HEADS)]
        rows += [cells(result) for result in results if result.drive == drive]
        parts.append(f"`{drive}`\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(parts)


def main() -> int:
    """Makes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drive", action="append", choices=DRIVES)
    parser.add_argument("--policy", action="append", choices=_native.BufferedDrive.POLICIES)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    parser.add_argument("--zones", type=int, default=BUFFER_ZONES)
    parser.add_argument("--memory", type=int, default=MEMORY_BYTES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: list[Result] = []
    for profile in options.drive or DRIVES:
        text, origin = read_profile(profile)
        host = Host(_native.BufferedDrive(text, origin, "direct", options.zones, options.memory))
        for name in options.workload or WORKLOADS:
            work = WORKLOADS[name](host)
            for policy in options.policy or _native.BufferedDrive.POLICIES:
                results.append(measured(profile, name, work, policy, options.zones, options.memory))
                print(" ".join((profile, *cells(results[-1]))), file=sys.stderr, flush=True)
    found = misses(results)
    if options.json:
        rows = [asdict(result) | {"total_s": result.total_s} for result in results]
        print(json.dumps({"results": rows, "misses": found}, indent=1))
    else:
        print(markdown(results))
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SkylightError as error:
        print(f"bench/hbuffer.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code if hasattr(error, "exit_code") else 3)
