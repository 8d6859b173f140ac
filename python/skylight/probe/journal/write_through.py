"""Writes that reach the medium although a volatile cache stays on: each is followed by a FLUSH.

What a target says of its cache is not what it does: a bridge may hide a cache, and a cache may answer a FLUSH
at once. Two FLUSHes behind a write tell: the second has nothing to do, so if the first takes longer, it wrote
something out (`volatile`, by the rounds of `skylight.probe.durable_writes`). Under such a cache
`WriteThrough` stands in for the target's steps: a lone write takes until its FLUSH is answered, and what is
written at depth is flushed as a whole.

Invariants: a target without a volatile cache is not flushed; `WriteThrough` gives the logs of the writes
alone, each completed when its FLUSH was.

Source: Skylight (FAST '15) section 2 (volatile cache); ATA8-ACS, FLUSH CACHE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Op, SettingsReport, Stop
from skylight.probe import destage_by_read, fua_writes
from skylight.probe.destage_by_read import ReadAround
from skylight.probe.durable_writes import (
    IN_ROUNDS,
    LEAST_BLOCK,
    MOST_WITHIN,
    ROUNDS,
    FlushedBatch,
    Rounds,
    Run,
    StandIn,
    elsewhere,
    large_rounds,
    longer_on_average,
    rounds,
    settled,
    with_room,
)
from skylight.probe.fua_writes import FASTEST_TURN_NS, ForcedWrites
from skylight.probe.journal.entry_space import LEAST_TURN
from skylight.probe.procedure import Steps

Volatile = Literal["none", "flushed", "partly", "late", "hidden"]
"""No volatile cache; one that FLUSH empties; in flash, one that has written most of a block by the time a
FLUSH comes, or all of it; one that is on, and that FLUSH does not empty."""

APART_BYTES = 64 << 10
IN_MORE_ROUNDS, COARSE_ROUNDS = "rounds-coarse", 512
"""By a clock of a millisecond the mean of 512 differences is known to 25 us; flash takes 170 to write."""
MOST = 75  # per cent of the commands: the rest met something


@dataclass(frozen=True, slots=True)
class Places:
    """Where the looks at a volatile cache write, a block each, and where the reads between go: these reach
    the medium, so that each leaves the head at an angle of its own."""

    written: U64
    read: U64

    @staticmethod
    def all_over(steps: Steps, block: int) -> Places:
        """On a target on which data lie everywhere."""
        apart = min(APART_BYTES, steps.size // (ROUNDS + 1) // block * block)
        at = block + apart * np.arange(ROUNDS, dtype=np.uint64)
        return Places(at, elsewhere(steps, IN_ROUNDS, ROUNDS, block))


def volatile(
    steps: Steps, report: SettingsReport, *, on_platter: bool, places: Places | None = None
) -> tuple[Volatile, float]:
    """What the volatile cache does that should be off, measured with a few writes; and what a command takes
    that finds nothing to do, give or take its jitter (ns).

    `on_platter` says that the persistent cache is on a disk: a write that takes no longer than a FLUSH with
    nothing to do is then in a volatile one."""
    block = max(LEAST_BLOCK, steps.block_bytes)
    anywhere = places is None  # else large writes would end outside these
    places = places or Places.all_over(steps, block)
    if anywhere:
        steps.quiet()  # a FLUSH would wait for what was written before
    io = rounds(places.written, places.read, block)
    seen = Rounds.of(with_room(steps, IN_ROUNDS, io) if anywhere else steps.run(IN_ROUNDS, io))
    empty_ns = float(np.percentile(seen.second_ns, MOST)) if len(seen.second_ns) else 0.0
    rotation_ns = steps.known.number("rotation_ns")
    in_flash = anywhere and steps.known.word("cache_medium") == "flash"
    if seen.wrote_out(rotation_ns or 0.0):
        left_ns = float(np.median(seen.first_ns - seen.second_ns))
        return "partly" if in_flash and left_ns < empty_ns else "flushed", empty_ns
    if seen.coarse and rotation_ns is not None and not on_platter:
        at = np.resize(places.written, COARSE_ROUNDS)
        io = rounds(at, elsewhere(steps, IN_MORE_ROUNDS, COARSE_ROUNDS, block), block)
        if Rounds.of(with_room(steps, IN_MORE_ROUNDS, io)).wrote_out_on_average(rotation_ns):
            return "partly" if in_flash else "flushed", empty_ns
    if on_platter and rotation_ns is not None and len(seen.write_ns):
        write_ns = float(np.median(seen.write_ns))
        if write_ns < float(np.median(seen.second_ns)) + LEAST_TURN * rotation_ns:
            return "hidden", empty_ns
    said_on = report.write_cache is True
    # Flash alone takes longer for a block than a FLUSH does that has nothing to do.
    absorbed = said_on or not longer_on_average(seen.write_ns - seen.second_ns, 0.0)
    least_ns = FASTEST_TURN_NS if rotation_ns is None else rotation_ns
    if in_flash and absorbed and large_rounds(steps).wrote_out(least_ns):
        return "late", empty_ns
    return "hidden" if said_on else "none", empty_ns


class WriteThrough(StandIn):
    """Each lone write is followed by a FLUSH, and takes until that is answered. Behind what is written at
    depth comes one FLUSH, as a step of its own."""

    def __init__(self, steps: Steps, *, empties: bool) -> None:
        """Over a target's steps; whether it was seen that a FLUSH `empties` the cache."""
        super().__init__(steps)
        self.empties = empties

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        if depth > 1:
            log = run(name, io, depth=depth, until=until)
            self._steps.run(f"{name}-flush", IoBatch.make(Op.FLUSH, [0], 0))
            return log
        if until is not None:  # of each pair the FLUSH is the slow one
            until = Stop(until.latency_ns, until.count, min(max(2 * until.within - 1, 1), MOST_WITHIN))
        log = run(name, FlushedBatch(io, 1), until=until)
        if len(log) % 2:  # a write that ended it is done when its FLUSH is
            last = self._steps.run(f"{name}-flush", IoBatch.make(Op.FLUSH, [0], 0))
            log = IoLog.joined([log, last])
        return settled(log)


def written_through(
    steps: Steps, report: SettingsReport, *, around: bool = False, places: Places | None = None
) -> tuple[Steps, Volatile, float]:
    """The target, each of whose writes is flushed where a volatile cache stays on; with what `volatile`
    found. A cache of which nothing shows that FLUSH empties it may do so before the FLUSH comes; if that
    shows, and reads `around` writes empty it, they do: then what a write takes has a read in it. Where FLUSH
    does nothing, or comes late, and FUA is obeyed, all writes have FUA, and the cache is as good as off; not
    where reads may be `around` writes and no journal is known, for a cache band takes thousands of writes,
    each of which would wait."""
    on_platter = steps.known.word("cache_medium") == "disk"
    found, empty_ns = volatile(steps, report, on_platter=on_platter, places=places)
    if found == "none":
        return steps, found, empty_ns
    if found in ("partly", "late") and fua_writes.obeyed(steps, late_flushes=True):
        return ForcedWrites(steps), "none", empty_ns
    if found == "hidden" and places is None:
        journal = steps.known.number("journal_quantum_bytes") is not None
        if around and not journal and destage_by_read.empties(steps):
            return WriteThrough(ReadAround(steps), empties=True), found, empty_ns
        if fua_writes.obeyed(steps, patient=True):
            return ForcedWrites(steps), "none", empty_ns
        if around and journal and destage_by_read.empties(steps):
            return WriteThrough(ReadAround(steps), empties=True), found, empty_ns
    return WriteThrough(steps, empties=found != "hidden"), "flushed" if found == "partly" else found, empty_ns
