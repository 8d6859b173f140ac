"""The least time that any policy of the H-Buffer could take, from what the drive's own work costs.

For each row of ``bench/hbuffer.py`` the bound adds up work that no policy saves, each part measured on the
emulated drive with nothing else going on:

* *commands*: the commands at their times, the writes, with their lengths, as one stream to empty zones near
  by, and the reads from home. But what was written so shortly before that no zone could be rewritten in the
  idle time between is read from that stream: log and cache have data in the order in which it was written.
* *cleaning*: each zone that was written out of order is rewritten at least once behind its last write: by the
  host as a whole, or by a host-aware drive from the first piece on, whichever costs less in its part of the
  drive. All the time that passes behind the last write of zones is taken off, as if the host were idle.
* *streams*: data of a stream goes home directly, and costs what so many streams cost above one, or it is
  written to the log and moved, at the cost of moving one stream. The best share of direct streams is taken.

These are bounds of policies, which decide where writes go and what is cleaned when; another mechanism could
do better. What is assumed and not shown: that no policy makes a read cheaper than it is at home, and that
streams disturb each other no less beside a log.

What invalidates results: nothing on the machine; every time is the model's, every choice has a fixed seed.

``bench/hbuffer_bounds.py TABLE [--drive NAME ..] [--workload NAME ..]``, where TABLE is what
``bench/hbuffer.py --json`` printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hbuffer import (
    BLOCK,
    BUFFER_ZONES,
    DRIVES,
    MEMORY_BYTES,
    SECTOR,
    STATIC,
    WORKLOADS,
    Host,
    Work,
    measured,
    prepared,
)
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.errors import SkylightError, UsageError
from skylight.evidence import F64, I64, Bools, Op

NEIGHBOURS = 8
"""Zones whose cleaning is measured together: the difference of twice as many and as many, so that what a pass
costs once is left out. Chosen."""
SITES = 33
"""Parts of the drive in which cleaning is measured; between them it is interpolated. Chosen."""
PARTS = (1 / 16, 1 / 4, 1 / 2, 1.0)
"""How much of a zone lies behind the piece whose cleaning by the drive is measured; between them it is
interpolated, from nothing for nothing."""
SHARES = (0.0, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the streams that go directly."""
READ_THROUGH = 256
"""Sectors between two places that are read along: as in `crates/layer/src/hbuffer/reading.rs`."""
HEADS = (
    "workload",
    "commands, s",
    "streams",
    "cleaning",
    "bound",
    "best static",
    "of it, %",
    "adaptive, %",
)


@dataclass(frozen=True)
class Bound:
    """The least time of a row, s, by what it is for, beside what the table has."""

    drive: str
    workload: str
    commands_s: float
    streams_s: float
    cleaning_s: float
    best_static_s: float
    adaptive_s: float

    @property
    def total_s(self) -> float:
        """The bound."""
        return self.commands_s + self.streams_s + self.cleaning_s


def part_of(work: Work, rows: Bools) -> Work:
    """Some of the commands, on the same zones."""
    return Work(work.op[rows], work.offset[rows], work.size[rows], work.arrive_ns[rows], work.full_zones)


def _total_s(profile: str, work: Work, policy: str) -> float:
    """Time of commands and of all cleaning behind them."""
    return measured(profile, "", work, policy).total_s


def one_stream(host: Host, work: Work) -> Work:
    """The same commands with the writes end to end, in the empty zones that lie nearest to the others."""
    is_write = work.op == int(Op.WRITE)
    sizes = work.size[is_write].astype(np.uint64)
    ends = np.cumsum(sizes, dtype=np.uint64)
    zones = int(ends[-1]) // host.zone_bytes + 1
    is_free = np.ones(int(host.size_bytes // host.zone_bytes), bool)
    is_free[work.full_zones] = False
    free = np.flatnonzero(np.convolve(is_free, np.ones(zones, int), "valid") == zones)
    if not len(free):
        raise UsageError(f"no {zones} zones in a row are empty")
    middle = np.median(work.full_zones) if len(work.full_zones) else 0
    first = int(free[np.argmin(np.abs(free - middle))])
    offset = work.offset.copy()
    offset[is_write] = np.uint64(first * host.zone_bytes) + ends - sizes
    return Work(work.op, offset, work.size, work.arrive_ns, work.full_zones)


def _pieces(read: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Reads for sectors of the drive in any order: the first sector and how many."""
    places = sorted(read)
    first = end = places[0]
    for place in places:
        if place - end > READ_THROUGH:
            yield first, end - first
            first = place
        end = place + 1
    yield first, end - first


def reads_of_fresh_data(work: Work, stream: Work, idle_s: F64, zone_s: float) -> Work:
    """The commands of `stream`, in which each read goes where its data can be at best.

    `idle_s` is the idle time before each command since the first, `zone_s` what rewriting a zone takes.
    """
    written: dict[int, tuple[int, int]] = {}
    rows: list[tuple[int, int, int]] = []
    commands = zip(work.op, work.offset // SECTOR, work.size // SECTOR, stream.offset // SECTOR, strict=True)
    for row, (op, start, count, place) in enumerate(commands):
        sectors = range(int(start), int(start) + int(count))
        if op == int(Op.WRITE):
            written.update((sector, (row, int(place) + at)) for at, sector in enumerate(sectors))
            rows.append((row, int(place), int(count)))
            continue
        places = []
        for sector in sectors:
            since, there = written.get(sector, (-1, 0))
            is_fresh = since >= 0 and idle_s[row] - idle_s[since] < zone_s
            places.append(there if is_fresh else sector)
        rows.extend((row, first, length) for first, length in _pieces(places))
    of, at, length = (np.array(column) for column in zip(*rows, strict=True))
    return Work(
        work.op[of], at.astype(np.uint64) * SECTOR, (length * SECTOR).astype(np.uint32), work.arrive_ns[of],
        work.full_zones,
    )  # fmt: skip


def commands_s(profile: str, host: Host, work: Work) -> float:
    """Time of the commands alone."""
    stream = one_stream(host, work)
    if not np.any(work.op == int(Op.READ)):
        return _total_s(profile, stream, "direct")
    drive = prepared(profile, stream, "direct", BUFFER_ZONES, MEMORY_BYTES)
    took_s = drive.run(stream.op, stream.offset, stream.size, stream.arrive_ns) / 1e9
    arrive_s = stream.arrive_ns / 1e9
    idle_s, now_s = np.empty(len(took_s)), 0.0
    for row, (arrives, took) in enumerate(zip(arrive_s, took_s, strict=True)):
        idle_s[row] = max(arrives - now_s, 0.0)
        now_s = max(now_s, arrives) + took
    zone = int(work.offset[0]) // host.zone_bytes
    fresh = reads_of_fresh_data(work, stream, np.cumsum(idle_s), _one_zone_s(profile, "direct", zone, 0.5))
    return _total_s(profile, fresh, "direct")


def streams_s(profile: str, host: Host, work: Work) -> float:
    """What streams cost above writing all as one, directly or through the log."""
    zone = (work.offset // np.uint64(host.zone_bytes)).astype(np.int64)
    in_order = (work.op == int(Op.WRITE)) & ~np.isin(zone, work.full_zones)
    zones = np.unique(zone[in_order])
    if not len(zones):
        return 0.0
    work = Work(work.op, work.offset, work.size, work.arrive_ns, np.empty(0, np.int64))
    stream = one_stream(host, part_of(work, in_order))
    moving_s = measured(profile, "", stream, "buffer").migration_s
    costs = []
    for share in SHARES:
        rows = in_order & np.isin(zone, zones[: round(share * len(zones))])
        direct = part_of(work, rows)
        if not len(direct.op):
            costs.append(moving_s)
            continue
        above_s = _total_s(profile, direct, "direct") - _total_s(profile, one_stream(host, direct), "direct")
        moved = work.size[in_order & ~rows].sum(dtype=np.int64) / work.size[in_order].sum(dtype=np.int64)
        costs.append(max(above_s, 0.0) + float(moved) * moving_s)
    return min(costs)


@cache
def _one_zone_s(profile: str, policy: str, first: int, part: float) -> float:
    """Time to clean one of some full neighbours with a lone piece; this part of the zone lies behind it."""
    text, origin = read_profile(profile)
    host = Host(_native.BufferedDrive(text, origin, "direct", BUFFER_ZONES, MEMORY_BYTES))
    into = min(int((1 - part) * host.zone_bytes) // BLOCK * BLOCK, host.zone_bytes - BLOCK)

    def total_s(zones: int) -> float:
        at = (first + np.arange(zones, dtype=np.uint64)) * np.uint64(host.zone_bytes) + np.uint64(into)
        return _total_s(profile, host.work(Op.WRITE, at, BLOCK, full=True), policy)

    return (total_s(2 * NEIGHBOURS) - total_s(NEIGHBOURS)) / NEIGHBOURS


def zone_costs_s(profile: str, host: Host, zones: I64, parts: F64) -> F64:
    """The least that cleaning costs, by zone, if this part of each lies behind its first piece."""
    last = int(host.size_bytes // host.zone_bytes) - 2 * NEIGHBOURS
    near, far = min(int(zones.min()), last), min(int(zones.max()), last)
    sites = sorted({int(site) for site in np.linspace(near, far, SITES if far - near > 1024 else 2)})
    by_host: F64 = np.interp(zones, sites, [_one_zone_s(profile, "direct", site, 0.5) for site in sites])
    if "host-managed" in read_profile(profile)[0]:
        return np.asarray(by_host, np.float64)
    by_drive = np.empty((len(sites), len(zones)))
    for row, site in zip(by_drive, sites, strict=True):
        seen = [_one_zone_s(profile, "drive-cache", site, part) for part in PARTS]
        row[:] = np.interp(parts, (0.0, *PARTS), (0.0, *seen))
    there = [np.interp(zone, sites, by_drive[:, index]) for index, zone in enumerate(zones)]
    return np.minimum(by_host, np.array(there, np.float64))


def cleaning_s(profile: str, host: Host, work: Work) -> float:
    """What cleaning has to be done behind the last command."""
    zone = (work.offset // np.uint64(host.zone_bytes)).astype(np.int64)
    rows = np.flatnonzero((work.op == int(Op.WRITE)) & np.isin(zone, work.full_zones))
    if not len(rows):
        return 0.0
    zones, at = np.unique(zone[rows], return_inverse=True)
    last, first = np.zeros(len(zones), np.int64), np.full(len(zones), host.zone_bytes, np.int64)
    np.maximum.at(last, at, rows)
    np.minimum.at(first, at, (work.offset[rows] % np.uint64(host.zone_bytes)).astype(np.int64))
    costs = zone_costs_s(profile, host, zones, 1 - first / host.zone_bytes)
    # Of zones last written from some command on, what is left when all the time from there on is used.
    arrive_s = work.arrive_ns.astype(np.float64) / 1e9
    order = np.argsort(-last)
    left = np.cumsum(costs[order]) - (arrive_s[-1] - arrive_s[last[order]])
    return max(float(left.max()), 0.0)


def bound(profile: str, name: str, table: Sequence[dict[str, object]]) -> Bound:
    """The bound of a row of the table."""
    text, origin = read_profile(profile)
    host = Host(_native.BufferedDrive(text, origin, "direct", BUFFER_ZONES, MEMORY_BYTES))
    work = WORKLOADS[name](host)
    total = {
        row["policy"]: row["total_s"] for row in table if (row["drive"], row["workload"]) == (profile, name)
    }
    took = {str(policy): float(str(seconds)) for policy, seconds in total.items()}
    return Bound(
        profile, name,
        commands_s=commands_s(profile, host, work),
        streams_s=streams_s(profile, host, work),
        cleaning_s=cleaning_s(profile, host, work),
        best_static_s=min(took[policy] for policy in STATIC),
        adaptive_s=took["adaptive"],
    )  # fmt: skip


def main() -> int:
    """Prints the table of bounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--drive", action="append", choices=DRIVES)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    options = parser.parse_args()
    table = json.loads(options.table.read_text())["results"]
    for profile in options.drive or DRIVES:
        print(f"`{profile}`\n")
        print(f"| {' | '.join(HEADS)} |")
        print("|" + " --- |" * len(HEADS))
        for name in options.workload or WORKLOADS:
            row = bound(profile, name, table)
            numbers = (
                row.commands_s,
                row.streams_s,
                row.cleaning_s,
                row.total_s,
                row.best_static_s,
            )
            shares = (100 * row.total_s / row.best_static_s, 100 * row.adaptive_s / row.best_static_s)
            print(f"| {name} | " + " | ".join(f"{number:,.1f}" for number in numbers)
                  + " | " + " | ".join(f"{share:.0f}" for share in shares) + " |", flush=True)  # fmt: skip
        print()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SkylightError as error:
        print(f"bench/hbuffer_bounds.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code if hasattr(error, "exit_code") else 3)
