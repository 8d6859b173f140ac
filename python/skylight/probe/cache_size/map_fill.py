"""A fill of the map of a host-aware drive: blocks that leave its volatile cache together, how many it took
until cleaning, and how many places these took at most.

A waiting write of such a drive has an entry of the journal of its own, and a volatile cache hands writes on
as soon as the medium is free, so what comes before a FLUSH leaves in as many entries as revolutions pass
while it comes. A long read holds it back: the heads are busy with that until all of a group is in the
volatile cache, which then leaves as a whole. So each group is a read of what lies in one zone in order,
blocks out of order in another zone, and a FLUSH. A group has as many blocks as fill one place: more are no
closer together.

How many places a group takes is bounded by its time. A group that is one write of nearly a quantum takes one
place; what another group takes longer is time in which places pass the head, each a quantum at least.

Invariants: a zone is written to by few groups, so one that was cleaned for a group stays clean; no two blocks
are neighbours, so each has an entry of the map of its own.
Source: Skylight (FAST '15), section 4.6, Test 7; docs/zoned.md (entries of a host-aware drive).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64, U64, IoBatch, IoLog, Op, Stop
from skylight.infer.stalls import USUAL_PERCENT, beyond, slow_from
from skylight.probe.band_size.cache_parts import DEPTH, spread
from skylight.probe.cache_size.fill_check import ABOVE, BLOCK, MOST_GONE, Clean, Fill, limit_ns, out_of_order
from skylight.probe.cache_size.fill_procedure import MOST_SMALL_S
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

NAME = "map"
AREA_BYTES, READ_PART, LEAST_READ_BYTES = 32 << 20, 0.75, 4 << 20
"""Reads are of so much of a zone, or of all of a smaller one, and each of three quarters of it at most,
from another place on. Chosen: 24 MiB take a tenth of a second, in which a volatile cache takes 200 blocks
and more; 4 MiB a revolution or more, which no block outlasts; and places that differ by a few tracks let a
read end at any angle."""
WRITE_BYTES = 1 << 20
CYCLES, LOOKS = 48, 8
"""Groups that show what one place takes, and groups of two queues' blocks that show how fast these are
taken. Chosen: the median of 48 waits for a place is known to a tenth of a revolution."""
NO_USUAL_NS = 5_000_000_000
"""What takes so long on a drive that is clean shows nothing. Chosen: a merge of the map takes a second."""
ASIDE, HELD_DEPTH = 2, 3
"""Commands at a time: a read and one other; in the fill two others, as one write in some hundreds is late,
and those behind it would come when the read has ended. Not more: the next group's would leave with this
one."""
ONE_PART = 0.9
"""Of a quantum, what takes one place for sure: its size is known to a few per cent."""
LATE = 8.0
"""Times the median, what a block takes that waits for the medium. Chosen: a volatile cache takes one in half
a millisecond at most, and a read takes a hundred times as long."""
HELD = 0.9
"""Of a read's time, that in which the blocks of a group come: some reads end sooner."""
GROUPS = 100
"""A group is at most such a part of all blocks so far, so cleaning is found to half a per cent. Chosen:
what lies behind a watermark is divided out by a number that leaves less room than one per cent at one
end."""
PIECE_GROUPS, PIECES = 4, 16
"""So many groups at least, and such a part of all blocks so far, come before the drive is asked for its
zones."""
AROUND = 2
"""A group that is slow while the median of it and of as many before as behind it is not met a merge of the
map or an outlier."""


def held(read_at: U64, read_bytes: int, blocks: U64, group: int, size: int = BLOCK) -> IoBatch:
    """Groups of `group` writes, each behind a read and before a FLUSH.

    >>> io = held(np.array([0, 512], np.uint64), 8192, np.arange(4, dtype=np.uint64) * np.uint64(8192), 2)
    >>> io.op.tolist(), io.size.tolist()
    ([0, 1, 1, 2, 0, 1, 1, 2], [8192, 4096, 4096, 0, 8192, 4096, 4096, 0])
    """
    groups = len(read_at)
    op = np.full((groups, group + 2), int(Op.WRITE), np.uint8)
    op[:, 0], op[:, -1] = int(Op.READ), int(Op.FLUSH)
    offset = np.zeros((groups, group + 2), np.uint64)
    offset[:, 0], offset[:, 1:-1] = read_at, blocks.reshape(groups, group)
    sizes = np.full((groups, group + 2), size, np.uint32)
    sizes[:, 0], sizes[:, -1] = read_bytes, 0
    return IoBatch(op.ravel(), offset.ravel(), sizes.ravel())


def cycles(log: IoLog) -> I64:
    """From FLUSH to FLUSH, of the first from its read; ns."""
    # A host may see one late and the next in time.
    done = np.maximum.accumulate(log.complete_ns[log.op == int(Op.FLUSH)].astype(np.int64))
    return np.diff(done, prepend=np.int64(log.submit_ns[0])) if len(done) else np.zeros(0, np.int64)


def cut_off(log: IoLog) -> I64:
    """What the group took that was ended before its FLUSH, if one was; ns."""
    last = np.flatnonzero(log.op == int(Op.FLUSH))
    if not len(log) or (len(last) and last[-1] + 1 == len(log)):
        return np.zeros(0, np.int64)
    began = log.complete_ns[last].max() if len(last) else log.submit_ns[0]
    return np.array([int(log.complete_ns.max()) - int(began)], np.int64)


def smoothed(cycle_ns: I64) -> F64:
    """Each the median of those around it.

    >>> smoothed(np.array([1, 1, 9, 1, 1, 5, 5, 5])).tolist()
    [1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0]
    """
    if not len(cycle_ns):
        return np.zeros(0)
    around = np.pad(cycle_ns, AROUND, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(around, 2 * AROUND + 1), axis=1)


def most_places(cycle_ns: I64, slow_ns: float, one_ns: float, quantum_ns: float) -> float:
    """Places that groups took at most, by their times: `one_ns` is what one of a single place takes, and each
    further place passes the head for `quantum_ns`. Of a slow group between others that are not, `slow_ns`
    counts: it waited for something else.

    >>> most_places(np.array([10, 10, 90, 14, 10, 10]), 30, 10, 4)
    12.0
    >>> most_places(np.array([10, 10, 90, 90, 90, 90]), 30, 10, 4)
    86.0
    """
    took = np.where(smoothed(cycle_ns) > slow_ns, cycle_ns, np.minimum(cycle_ns, slow_ns))
    return len(took) + max(float(np.sum(took - one_ns)), 0.0) / quantum_ns


def at_once(latency_ns: I64) -> int:
    """How many blocks a volatile cache takes before one waits: of some groups (rows) the most, as a write may
    be late by itself.

    >>> at_once(np.array([[1, 1, 9, 9], [9, 1, 1, 9], [1, 1, 1, 9]]))
    3
    """
    waits = latency_ns > LATE * np.median(latency_ns)
    return int(np.max(np.where(waits.any(axis=1), waits.argmax(axis=1), latency_ns.shape[1])))


class Blocks:
    """Where the blocks of a fill go: each group into another zone but the first, which is read; every second
    block of a zone at most, in an order that follows nothing."""

    def __init__(self, size_bytes: int, zone_bytes: int) -> None:
        """Of a target of this size, of two zones at least."""
        zones = size_bytes // zone_bytes - 1
        self._zone_bytes = zone_bytes
        self._zones = spread(zones, zones, 1) + np.uint64(1)
        self._in_zone = (zone_bytes - BLOCK) // (2 * BLOCK)
        self._used = np.zeros(zones, np.int64)
        self._groups = 0

    def groups_left(self, group: int) -> int:
        """How many groups of `group` blocks surely find space yet."""
        return int((self._in_zone - self._used.max()) // group) * len(self._used)

    def take(self, group: int, groups: int) -> U64:
        """The blocks of the next groups, `group` each."""
        where = []
        for _ in range(groups):
            number = self._groups % len(self._used)
            self._groups += 1
            first = int(self._used[number])
            self._used[number] += group
            place = spread(self._in_zone, group, 1, begin=first)
            base = self._zones[number] * np.uint64(self._zone_bytes) + np.uint64(BLOCK)
            where.append(base + place * np.uint64(2 * BLOCK))
        return np.concatenate(where)


@dataclass(frozen=True, slots=True)
class Pace:
    """On a drive that does not clean: bytes of a read, blocks of a group that comes during it, and what a
    group of one place takes (ns)."""

    read_bytes: int
    group: int
    one_ns: float


class HeldFill:
    """The fill, on a drive whose volatile cache is on."""

    def __init__(self, steps: Steps, zone_bytes: int, quantum: int, quantum_ns: float) -> None:
        """On a drive with such zones and quanta, which pass the head in `quantum_ns` at least."""
        self._steps, self._zone_bytes = steps, zone_bytes
        self._quantum, self._quantum_ns = quantum, quantum_ns
        area = min(AREA_BYTES, zone_bytes)
        self._area = area // WRITE_BYTES * WRITE_BYTES
        self._rng = steps.rng(NAME)
        self._touched: set[int] = set()

    def fill(self, alone: int, most: int) -> list[Fill]:
        """Until cleaning, until `most` blocks, or for as long as other small writes may take; `alone` filled
        the cache one by one. Empty where no known state was reached, or zones are too few or too small."""
        if self._steps.size < 2 * self._zone_bytes or self._quantum > self._zone_bytes // 2:
            return []
        pace = self._pace()
        if pace is None or self._begin(NAME) is State.UNKNOWN:
            return []
        blocks = Blocks(self._steps.size, self._zone_bytes)
        stop_ns, done, places, left_ns = 0, 0, 0.0, round(MOST_SMALL_S * 1e9)
        before: list[I64] = []
        while done < most and left_ns > 0:
            group = max(min(pace.group, max(done, alone) // GROUPS), DEPTH)
            groups = min(max(PIECE_GROUPS, done // PIECES // group), blocks.groups_left(group))
            if not groups:
                break
            in_quanta = group * BLOCK / self._quantum
            slow_ns = limit_ns(self._steps, pace.one_ns + in_quanta * self._quantum_ns)
            stop_ns = max(stop_ns, slow_ns)
            log = self._groups(blocks.take(group, groups), group, pace, Stop(stop_ns))
            if not (count := int(np.count_nonzero(log.op == int(Op.WRITE)))):
                break
            took = np.concatenate([cycles(log), cut_off(log)])
            clean = self._clean()
            late_ns = self._late_ns(slow_ns, before)
            first = slow_from(took, late_ns)[0] if clean.zones else len(took)
            places += most_places(took[:first], slow_ns, pace.one_ns, self._quantum_ns)
            if clean.zones:
                # Cleaning began for some block of the first slow group.
                begun = done + min(first * group + group // 2, count)
                clear = group * float(np.sum(np.maximum(beyond(took[first:], late_ns), 0.0)))
                return [_ended(begun, done + count, clear, clean, (group, places, pace.one_ns))]
            before.append(took)
            done, left_ns = done + count, left_ns - log.span_ns
            stop_ns = max(stop_ns, round(ABOVE * int(log.latency_ns.max())))
        return [Fill(NAME, BLOCK, 0, done, done, False, 0.0, pace.one_ns, 1.0, most_places=places)]

    def _late_ns(self, slow_ns: int, before: list[I64]) -> int:
        """Which groups waited for cleaning: those that took longer than what one is to take, and than those
        usually did behind which no zone was clean. Other clients delay the blocks of a long group one by one,
        and the group by all of that."""
        took = np.concatenate(before) if before else np.zeros(0, np.int64)
        if not len(took):
            return slow_ns
        usual_ns = float(np.percentile(took, USUAL_PERCENT))
        return max(slow_ns, limit_ns(self._steps, usual_ns))

    def _groups(self, blocks: U64, group: int, pace: Pace, until: Stop) -> IoLog:
        io = held(self._read_at(len(blocks) // group, pace.read_bytes), pace.read_bytes, blocks, group)
        log = self._steps.run(f"{NAME}-0-deep", io, depth=HELD_DEPTH, until=until)
        written = log.offset[log.op == int(Op.WRITE)] // np.uint64(self._zone_bytes)
        self._touched |= set(np.unique(written).tolist())
        return log

    def _clean(self) -> Clean:
        touched, flagged = len(self._touched), self._steps.non_sequential(f"{NAME}-begun")
        return Clean(0 if flagged is None else max(touched - flagged, 0), touched)

    def _read_at(self, groups: int, read_bytes: int) -> U64:
        places = (self._area - read_bytes) // BLOCK + 1
        return (self._rng.integers(0, places, groups) * BLOCK).astype(np.uint64)

    def _begin(self, name: str) -> State:
        """A clean drive, with data in order in the first zone."""
        state = self._steps.reset(f"{name}-erase")
        where = np.arange(self._area // WRITE_BYTES, dtype=np.uint64) * np.uint64(WRITE_BYTES)
        self._steps.run(f"{name}-to-read", IoBatch.flushed_writes(where, WRITE_BYTES))
        return state

    def _pace(self) -> Pace | None:
        """Measured on a clean drive."""
        self._begin(f"{NAME}-usual")
        zone, most = self._zone_bytes, int(READ_PART * self._area) // BLOCK * BLOCK
        group = max(self._quantum // BLOCK, DEPTH)
        blocks = Blocks(self._steps.size, zone).take(group, LOOKS)
        io = held(self._read_at(LOOKS, most), most, blocks, group)
        many = self._steps.run(f"{NAME}-deep-usual", io, depth=ASIDE, until=Stop(NO_USUAL_NS))
        if len(many) < len(io):
            return None
        done = many.complete_ns.astype(np.int64).reshape(LOOKS, group + 2)
        # A read waits for the FLUSH before it.
        read_ns = float(np.median(done[1:, 0] - done[:-1, -1]))
        block_ns = max(float(np.median(np.diff(done[:, 1:-1], axis=1))), 1.0)
        group = at_once(many.latency_ns.reshape(done.shape)[:, 1:-1])
        # The way to the data is the same for shorter reads, so that these last longer than that part.
        part = min(group * block_ns / (HELD * read_ns), 1.0)
        read_bytes = max(int(part * most) // BLOCK * BLOCK, min(LEAST_READ_BYTES, most))
        size = int(ONE_PART * self._quantum) // BLOCK * BLOCK or BLOCK
        ones = out_of_order(self._steps.size - zone, zone, CYCLES, size) + np.uint64(zone)
        io = held(self._read_at(CYCLES, read_bytes), read_bytes, ones, 1, size)
        one = self._steps.run(f"{NAME}-one-usual", io, depth=ASIDE, until=Stop(NO_USUAL_NS))
        if len(one) < len(io):
            return None
        group = max(min(group, int(HELD * read_ns / block_ns)), DEPTH)
        took = cycles(one)[1:]
        usual = took[took < limit_ns(self._steps, float(np.median(took)))]
        return Pace(read_bytes, group, float(np.mean(usual)))


def _ended(begun: int, made: int, clear: float, clean: Clean, of: tuple[int, float, float]) -> Fill:
    """A fill that ended with cleaning, unless more was cleaned than was written since. `of` are blocks of a
    group, places at most, and what a group of one place takes."""
    group, places, one_ns = of
    beyond = max(made - begun, 0)
    just = clean.zones <= (MOST_GONE + beyond / max(begun, 1)) * clean.of
    return Fill(
        NAME, BLOCK, 0, begun, begun, just, clear, one_ns, 1.0, beyond, group=group, most_places=places
    )
