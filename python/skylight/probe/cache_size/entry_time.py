"""What a lone entry of a journal on disk takes, from its first sector to its last, on a drive that cannot be
erased.

Blocks are written one at a time, with a pause before each: all parts of a revolution in turn. An entry
begins where the one before ended, give or take a gap, so the pauses alone decide for how long the head waits,
and the shortest write just catches the beginning of its entry. The control is pairs of reads, the second of a
block a little before the first, with a pause between: the shortest just catches its block, and the arm is
there (a drive that reads ahead has not gone far behind the shortest pause). What the write takes longer is
the entry, out-of-band data and quantum and the switches of track in them, with whatever a write settles
longer.

That is too coarse for the time of the out-of-band data, since entries switch tracks at other points each
time, and serves to tell how many whole revolutions an entry is long (`entry_lengths`), which phases leave
open.

Invariant: reads that do not wait for an angle come from no platter, and nothing is said.
Source: Skylight (FAST '15), section 4.3.1: entries follow each other on the medium.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import I64, IoBatch, IoLog
from skylight.infer.host_clock import tick_ns
from skylight.probe.cache_size.fill_check import BLOCK, Places
from skylight.probe.journal.out_of_band_time import SETTLE_NS
from skylight.probe.procedure import Steps

PAUSED = "paused"
CYCLES, PAIRS = 192, 96
MISSED_CYCLES = 3.0
"""Of so many parts of a revolution the shortest of all may be longer than need be: with phases in turn it is
one, and a drive that is busy spoils some. Chosen."""
BACK_BYTES = 32 << 10
"""From the first block of a pair to the one before it: more than one command reads, less than a track."""
PHASE = 0.61
"""Where the places lie between those of other steps (`spread`)."""
FILLED_BYTES = 1 << 30
"""Filled for reads where zones stand empty: they differ by their angle alone. Chosen: hundreds of tracks."""
LEAST_WAIT = 0.5
"""Revolutions by which reads have to differ: those from a platter do by one."""

Interval = tuple[float, float]


def measured(steps: Steps, places: Places, rotation_ns: float) -> Interval | None:
    """At least and at most what an entry takes, ns; None where that does not show."""
    where = places.where(CYCLES, BLOCK, PHASE)
    writes = [IoBatch.writes(where[number : number + 1], BLOCK) for number in range(CYCLES)]
    wrote = _paused(steps, "write", writes, rotation_ns)
    firsts = steps.rng(f"{PAUSED}-pairs").integers(1, _read_bytes(steps, places) // BACK_BYTES, PAIRS)
    firsts *= BACK_BYTES
    steps.written(firsts.astype(np.uint64) - np.uint64(BACK_BYTES), BACK_BYTES + BLOCK)
    reads = [IoBatch.reads([int(first) - BACK_BYTES], BLOCK) for first in firsts]
    read = _paused(
        steps, "read", reads, rotation_ns, [IoBatch.reads([int(first)], BLOCK) for first in firsts]
    )
    if len(wrote) < CYCLES or len(read) < PAIRS:
        return None
    tick = tick_ns(wrote.submit_ns, wrote.complete_ns, read.submit_ns, read.complete_ns)
    return entry_ns(wrote.latency_ns, read.latency_ns, rotation_ns, tick)


def _read_bytes(steps: Steps, places: Places) -> int:
    """Reads go to so much of the target: to all of it, or to a few zones, which are filled for them."""
    return min(steps.size, max(places.zone_bytes, FILLED_BYTES)) if places.zone_bytes else steps.size


def _paused(
    steps: Steps, name: str, asked: list[IoBatch], rotation_ns: float, before: list[IoBatch] | None = None
) -> IoLog:
    """Commands, each behind a pause, all parts of a revolution in turn, and that behind another command where
    one is to come before it."""
    turns = steps.rng(f"{PAUSED}-{name}").permutation(len(asked)) / len(asked)
    logs = []
    for number, (turn, io) in enumerate(zip(turns, asked, strict=True)):
        if before is not None:
            steps.run(f"{PAUSED}-{name}-before", before[number])
        steps.pause(f"{PAUSED}-{name}", float(turn * rotation_ns / 1e9))
        logs.append(steps.run(f"{PAUSED}-{name}-lone", io))
    return IoLog.joined(logs)


def entry_ns(write_ns: I64, read_ns: I64, rotation_ns: float, tick: float) -> Interval | None:
    """The same from latencies of writes and of reads.

    >>> waits = np.arange(96) / 96 * 8e6
    >>> low, high = entry_ns(20_000_000 + waits, 2_000_000 + waits, 8e6, 0.0)
    >>> round(low), round(high)
    (17575000, 18250000)
    """
    if float(np.percentile(read_ns, 90) - read_ns.min()) < LEAST_WAIT * rotation_ns:
        return None
    apart = float(write_ns.min()) - float(read_ns.min())
    write_ns_open, read_ns_open = (MISSED_CYCLES / each * rotation_ns for each in (CYCLES, PAIRS))
    low, high = apart - write_ns_open - tick - SETTLE_NS, apart + read_ns_open + tick
    return (max(low, 0.0), high) if high > 0 else None
