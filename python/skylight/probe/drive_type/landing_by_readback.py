"""Where blocks lie that were written through a cache which hides how they were written.

Where writes are answered at once and FLUSH finds nothing to do, their latency says nothing of the medium:
flash takes them so, and so does a volatile cache that ignores FLUSH. But blocks can be read. Two blocks of
each of some places are written at different times, with more data in between than a volatile cache holds, and
with more or less of it around the place, so that in a log the two come to lie any distance apart, also where
each part of the addresses has its own, and where writes are sorted by address. Then all are read:

* *home*: the two blocks of a place pass under the head at one angle (`skylight.infer.phase`), as blocks side
  by side do; in a log they lie as far apart as they were written;
* *log*: they wait for a platter but share no angle, although blocks at their places do on the same drive;
* *flash*: they are read alike, and without waiting for a platter.

Before that the drive gets many short rests, until the last blocks written are read from the medium: a
volatile cache writes out what it holds, but a drive that cleans bands when it is idle finds no time, and what
it brings home would look as if it had been written there. Places of which a block is still answered by a
cache, or was not written before writes stalled, are left out.

What is written last may stay in a cache that answers for as long as one rests, while what came before it has
gone home. Memory that keeps copies of what it wrote out does so as well as flash. So more is read than such
memory holds; blocks that are still read without waiting for a platter then are in flash.

Invariant: each block is read once, in descending order within a place, so no read buffer answers.

Source: as `skylight.infer.phase`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from skylight.evidence import I64, U64, IoBatch, IoLog, Op
from skylight.infer import phase
from skylight.infer.phase import Coherence
from skylight.probe.drive_type.plan import (
    PLACES,
    PLACES_PER_ROUND,
    STALLING,
    SUSTAINED_REGION_BYTES,
    Plan,
)
from skylight.probe.drive_type.write_latencies import LARGE_BYTES, took_too_long

UNIT_BLOCKS = 4  # of a place; the first is written early, the third late
RESTS, REST_S = 100, 0.15
"""Rests before it is asked whether the cache has written out; no drive known cleans within one of them."""
REST_ROUNDS, ASKED = 8, 8
"""How often that is asked at most, and by how many blocks. The largest volatile caches hold 256 MiB, which a
drive writes out in a minute or two, where each write waits for a seek and for other clients."""
LONGEST_WAIT_NS = 400_000_000_000
"""Of all reads between rests, a quarter of the bound of the test: then writing out waits for bands to be
cleaned."""
WAITING = 0.5  # of the time of reads all over the target: faster ones wait for no arm
ALIKE_TURNS = 0.4  # between the quickest tenth and the slowest quarter: waits for an angle spread over 0.65
AROUND_BYTES = 4 << 20  # no band is smaller
MOST_AROUND = PLACES * (AROUND_BYTES // LARGE_BYTES // 2)  # large writes: two MiB around a place at most
LEAST_TARGET_BYTES = 4 * SUSTAINED_REGION_BYTES  # in which few places are written again in between
OTHERS, OTHER_BYTES = 1_024, 1 << 20
"""Reads of other blocks, and their size: 1 GiB, four times what the largest volatile caches hold."""
MOST_READS = 2 * PLACES + REST_ROUNDS * (RESTS + ASKED) + OTHERS
FEWEST_PLACES = 24  # read from a platter, both blocks
CACHED = 0.25  # of the time of reads all over the target: faster ones are answered by a cache
AT_HOME, IN_LOG = 0.75, 0.5
"""Of how far neighbouring blocks of the drive share an angle: blocks at home do as far, but for chance, and
those of a log hardly, though a part of a cache that took little in between holds the two of a place near each
other."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """How blocks written apart in time are read: latency (ns), how they follow their place around the
    rotation; how long reads of the target's other blocks take (median, ns), its rotation as those follow it,
    and of how many places both blocks were read from a platter."""

    latency_ns: I64
    tied: Coherence
    usual_ns: float
    turning: Coherence
    places: int
    late_ns: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Of the blocks written last, where more was read before than memory holds; else none."""

    def _unseen(self, latency_ns: I64) -> bool:
        """Whether reads are alike, and wait for no platter."""
        quickest, median, slowest = np.percentile(latency_ns, [10, 50, 75]).tolist()
        return bool(
            median < WAITING * self.usual_ns and slowest - quickest < ALIKE_TURNS * self.turning.period_ns
        )

    @property
    def all_unseen(self) -> bool:
        """Whether all of them are read so, and not those written last alone."""
        return len(self.latency_ns) > 0 and self._unseen(self.latency_ns)

    @property
    def where(self) -> Literal["home", "log", "flash", "unknown"]:
        """Where they lie."""
        if len(self.latency_ns) < 2 * FEWEST_PLACES:
            return "unknown"
        if self.all_unseen:
            return "flash"
        if len(self.late_ns) >= FEWEST_PLACES and self._unseen(self.late_ns):
            return "flash"
        if self.places < FEWEST_PLACES:
            return "unknown"
        if not self.tied.period_ns:
            return "unknown"
        part = self.tied.share / self.turning.share
        if part <= IN_LOG:
            return "log"
        return "home" if self.tied.rotates and part >= AT_HOME else "unknown"


def places(plan: Plan) -> U64:
    """Some places all over the target, in random order."""
    rng = plan.steps.rng("read-back-places")
    count = PLACES // PLACES_PER_ROUND * PLACES_PER_ROUND
    reach = plan.reach - AROUND_BYTES
    chosen = rng.choice(reach // (UNIT_BLOCKS * plan.io_bytes), size=count, replace=False)
    return chosen.astype(np.uint64) * np.uint64(UNIT_BLOCKS * plan.io_bytes)


def write_early(plan: Plan) -> IoLog:
    """Writes the first block of each place, in random order with large writes around some of them: until
    they plainly wait for bands to be cleaned."""
    rng, where = plan.steps.rng("writes-early"), places(plan)
    slots = AROUND_BYTES // LARGE_BYTES
    times = rng.permutation(np.arange(len(where)) % (slots // 2))  # the same in all, whatever is drawn
    begin = np.repeat(where // np.uint64(AROUND_BYTES) * np.uint64(AROUND_BYTES), times)
    # No slot is that of the place itself, which has one of the first few of its own.
    own = np.repeat(where % np.uint64(AROUND_BYTES) // np.uint64(LARGE_BYTES), times)
    slot = (own + rng.integers(1, slots, len(own)).astype(np.uint64)) % np.uint64(slots)
    around = begin + slot * np.uint64(LARGE_BYTES)
    order = rng.permutation(len(where) + len(around))
    size = np.repeat(np.array([plan.io_bytes, LARGE_BYTES], np.uint32), [len(where), len(around)])[order]
    offset = np.concatenate([where, around])[order]
    io = IoBatch(np.full(len(order), int(Op.WRITE), np.uint8), offset, size)
    log, params = IoLog.joined([]), plan.params(plan.reach)
    while len(log) < len(io) and not (STALLING.reached(log) or took_too_long(log.latency_ns)):
        rest = plan.until_crowded("writes-early", io.part(len(log), len(io)), params)
        log = IoLog.joined([log, rest])
    return log


def write_late(plan: Plan) -> IoLog:
    """Writes the third block of each place, then the last of each."""
    order = plan.steps.rng("writes-late").permutation(places(plan))
    where = np.concatenate([order + np.uint64(back * plan.io_bytes) for back in (2, UNIT_BLOCKS - 1)])
    io = IoBatch.writes(where, plan.io_bytes)
    return plan.steps.run("writes-late", io, until=STALLING, params=plan.params(plan.reach))


def rest(plan: Plan, usual_ns: float) -> tuple[I64, bool]:
    """Leaves the drive alone again and again, never for long, until what was written last is not answered by
    a cache. The latencies of the reads between, if they waited too long; otherwise none. Then, whether a
    cache still answers."""
    where = plan.steps.rng("rest").integers(0, plan.reach // plan.io_bytes, (REST_ROUNDS, RESTS))
    asked = plan.steps.rng("rest-asked").permutation(places(plan)) + np.uint64(
        (UNIT_BLOCKS - 1) * plan.io_bytes
    )
    waited: list[I64] = []
    for number, blocks in enumerate(where.tolist()):
        for block in blocks:
            plan.steps.pause("rest", REST_S)
            log = plan.steps.run("rest-read", IoBatch.reads([block * plan.io_bytes], plan.io_bytes))
            waited.append(log.latency_ns)
            if sum(int(each.sum()) for each in waited) > LONGEST_WAIT_NS:
                return np.concatenate(waited), True
        ask = IoBatch.reads(asked[number * ASKED : (number + 1) * ASKED], plan.io_bytes)
        log = plan.steps.run("rest-asked", ask)
        if np.count_nonzero(log.latency_ns < CACHED * usual_ns) <= 1:
            return np.empty(0, np.int64), False
    return np.empty(0, np.int64), True


def read_others(plan: Plan) -> None:
    """Reads more of what was not written than memory holds."""
    begin = (plan.reach // 3 + SUSTAINED_REGION_BYTES) // OTHER_BYTES * OTHER_BYTES
    where = begin + np.arange(OTHERS, dtype=np.uint64) * np.uint64(OTHER_BYTES)
    plan.steps.run("read-others", IoBatch.reads(where[where + OTHER_BYTES <= plan.reach], OTHER_BYTES))


def read_all(
    plan: Plan, written: Sequence[IoLog], usual_ns: float, turning: Coherence, *, kept: bool
) -> ReadBack:
    """Reads both blocks of each place, in rounds of places in random order, the later block first. What
    counts are places that each of some logs wrote to. Where a cache has `kept` what was written last, that
    says more once memory has read other data."""
    if kept:
        read_others(plan)
    rng, unit = plan.steps.rng("read-back"), UNIT_BLOCKS * plan.io_bytes
    offsets = []
    for group in places(plan).reshape(-1, PLACES_PER_ROUND):
        order = rng.permutation(np.repeat(np.arange(PLACES_PER_ROUND), 2))
        visit = np.array([np.count_nonzero(order[:row] == place) for row, place in enumerate(order)])
        offsets.append(group[order] + ((1 - visit) * 2 * plan.io_bytes).astype(np.uint64))
    io = IoBatch.reads(np.concatenate([np.empty(0, np.uint64), *offsets]), plan.io_bytes)
    log = plan.steps.run("read-back", io, params=plan.params(plan.reach)).only(Op.READ)
    place = log.offset // np.uint64(unit)
    cached = place[log.latency_ns < CACHED * usual_ns]
    wanted = ~np.isin(place, cached)
    for each in written:
        wanted &= np.isin(place, each.offset[each.size == plan.io_bytes] // np.uint64(unit))
    tied = phase.coherence(log.complete_ns, place, 2 * PLACES_PER_ROUND, wanted, at_ns=turning.period_ns)
    late_ns = log.latency_ns[kept & (log.offset % np.uint64(unit) != 0)]
    return ReadBack(log.latency_ns, tied, usual_ns, turning, int(wanted.sum()) // 2, late_ns)
