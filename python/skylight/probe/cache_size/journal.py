"""Sizes of a journaled cache: how many places, how large, and how many entries its map holds.

Two limits end a journal's patience, places and map entries. Which one a fill meets follows from another fill:
writes of whole quanta waste nothing and need a map entry each; writes of 4 KiB that wait together share a
place and still need a map entry each. So

* the *quantum* is the largest write that takes no longer than the smallest, to a block;
* fills with writes of so many quanta count the places;
* a fill with 4 KiB writes at depth counts map entries, unless it used up as many places as there are; how a
  volatile cache packs them shows in what a part of them leaves to others, and if they used up the places,
  they are held back, so that it packs them better (`held_blocks`);
* places that were counted as often as map entries are map entries: then the writes are made larger.

Lone writes of 4 KiB need not fill the cache: each takes a place and a map entry, so they are as many as the
fewer of both.

Invariant: every fill begins on a clean drive, and its addresses are all different. If it is not as new and
cleans only what it must, what was written first has to be home after the fill: else older data was in the
cache, and the fill says nothing.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8, Figure 14 and Table 2; docs/figures.md, rows S6a
to S8a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, IoBatch, IoLog
from skylight.infer.host_clock import tick_ns
from skylight.infer.stalls import entries
from skylight.probe.band_size.cache_parts import DEPTH, PLACES
from skylight.probe.cache_size import entry_time
from skylight.probe.cache_size.fill_check import BLOCK, Fill, Places, told_bytes, turn_ns
from skylight.probe.cache_size.fill_procedure import (
    BLOCK_CALIBRATION,
    CALIBRATION,
    MAP_WRITES,
    MOST_WRITES,
    SMALL_WRITES,
    filled,
    lone_rest,
    pace_of,
)
from skylight.probe.cache_size.held_blocks import LOOKS, QUEUES, LongGroups, held_steps
from skylight.probe.cache_size.map_fill import HeldFill
from skylight.probe.cache_size.which_limit import (
    SAME,
    is_emptied,
    left_places,
    limits,
    limits_by_larger,
    lone_writes,
    most_left,
    outnumber,
    places_in_time,
    share_places,
    told_apart,
)
from skylight.probe.durable_writes import FlushedSteps
from skylight.probe.fua_writes import ForcedWrites
from skylight.probe.journal.quantum_steps import StepBounds
from skylight.probe.known_state import State
from skylight.probe.procedure import ProcedureTest, Steps, bisected

LONE_WRITES = 24
LARGEST_QUANTUM = 16 << 20
LEAST_STEP = 0.06  # of a lone write's latency: a quantum is a good part of a revolution
EDGE = 0.10  # how far from a quantum that is known its edge is looked for
CLEAR = 5.0  # standard errors between one quantum and two
SAME_ERRORS = 2.0  # standard errors within which two times are the same, by twenty to one
MOST_QUANTA, ENTRY_SLACK = 64, 0.85
LARGEST_WRITE = 32 << 20

LONE_ENTRIES, READ_BACK = 200, 48
LONG_ENTRIES, LONG_QUANTA, ENTRY_SURE = 80, (2, 4), 0.95
RATE_QUANTA, WRITES_AN_ENTRY, FEWEST_ENTRIES = 64, 10, 3

LEAST_MORE = 1.3
"""Times as many blocks as there are places that ended a fill, for half of them to say which limit did.
Chosen: the map then has entries for more lone blocks than a part of the blocks would leave places to."""
MIXED_PART = 3 / 4
"""Of the blocks that ended a fill, those that leave room to lone ones. Chosen: a lone block takes a
revolution or more, so few are to be needed, and still enough to be counted to a few per cent."""
FILLS = 3
"""How often the cache may be filled: the bound of the test."""
MOST_HELD_AFTER, MOST_HELD = 500_000, 800_000
HELD_AFTER_S, HELD_S = 2_000.0, 4_000.0
"""Blocks that used up the places, behind which others are held back, and how many of these there are at
most; and what both may take. Chosen: both, each with its part that leaves room, are within the bound of the
test."""
SHARED = 1.5
"""Blocks that wait and are done together, from which on they share entries. Chosen: lone entries that a
coarse clock shows at one time are few, and of a queue a drive that packs takes many."""
PACED_PART = 4
"""Of the writes that filled a cache, the part that shows its pace before it cleans. Chosen: far from full,
and of a cache of some hundred places still a few entries."""
NEARBY = 0.05
"""By how much tracks of the cache may be longer than those of the addresses at its side of the disk. Chosen:
the cache of the recorded drive is 0.3 % of it."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What entries take that follow each other at once: `quantum_ns` for each quantum, with the switches of
    track that come with it, and `start_ns` for what comes before the first: out-of-band data and the gap, on
    flash two commands besides."""

    quantum_ns: float
    start_ns: float


@dataclass(frozen=True, slots=True)
class Entries:
    """Lone blocks on an erased drive: when writes were done, and reads of the first of them (ns). `longer`
    is when lone writes of several quanta were done, each an entry, by how many these are; `whole_ns` what an
    entry takes, where the time of its out-of-band data alone is not known at all."""

    done_ns: F64
    read_ns: F64
    longer: dict[int, F64]
    whole_ns: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """What was measured. `places` and `map_entries` are what was in use when cleaning began; None where that
    limit was not met."""

    quantum: int | None
    quantum_ns: float
    lone_ns: float
    fills: tuple[Fill, ...]
    places: int | None
    map_entries: int | None
    rate: Rate | None = None
    entries: Entries | None = None
    largest: int = 1
    """Quanta of the largest writes that are one entry for sure."""
    alone: int | None = None
    """Writes after which a fill of lone places and one of blocks both ended, whichever limit that was."""
    quantum_error_ns: float = 0.0
    """The standard error of `quantum_ns`."""

    @property
    def open_part(self) -> float:
        """By which part of the places that were counted more may have been in use: those of the group of
        writes amid which cleaning began, of which a FLUSH shows the end alone."""
        ended = [fill for fill in self.fills if fill.quanta and fill.ended]
        if not ended or not self.places:
            return 0.0
        return (ended[-1].group - 1) * ended[-1].quanta / self.places

    @property
    def lone_writes(self) -> int | None:
        """Lone 4 KiB writes until cleaning."""
        counted = [count for count in (self.places, self.map_entries, self.alone) if count is not None]
        return min(counted) if counted else None

    @property
    def in_map(self) -> int:
        """Entries of the map that were in use at once at least, before cleaning began."""
        names = [fill.name.partition("-")[0] for fill in self.fills]
        each = (
            sum(fill.writes for fill, of in zip(self.fills, names, strict=True) if of == name)
            for name in names
        )
        return max(each, default=0)


@dataclass(frozen=True, slots=True)
class Lone:
    """Latency of lone writes of one size: median and its standard error (ns)."""

    median_ns: float
    error_ns: float

    @staticmethod
    def of(log: IoLog) -> Lone:
        """Robust: from the quartiles, which a coarse clock rounds alike, and the median too."""
        low, median, high = np.percentile(log.latency_ns, [25, 50, 75])
        rounded_ns = tick_ns(log.submit_ns, log.complete_ns) / 12**0.5
        return Lone(float(median), max(1.25 * float(high - low) / 1.35 / max(len(log), 1) ** 0.5, rounded_ns))


class Quanta:
    """Lone writes of growing size: where they begin to take a quantum more."""

    def __init__(self, steps: Steps, places: Places) -> None:
        """The drive is to be clean."""
        self._steps, self._places = steps, places
        self._known: dict[int, Lone] = {}
        self._sizes = 0

    def lone(self, size: int) -> Lone:
        """Latency of lone writes of `size` bytes."""
        if size not in self._known:
            self._sizes += 1
            where = self._places.where(LONE_WRITES, max(size, 1 << 20), self._sizes * 0.137 % 1)
            self._known[size] = Lone.of(self._steps.run("lone", IoBatch.writes(where, size)))
        return self._known[size]

    def again(self, size: int) -> Lone:
        """The same, measured once more."""
        self._known.pop(size, None)
        return self.lone(size)

    def edge(self, low: int, high: int) -> int | None:
        """The largest size that takes as long as `low`, to a block, if `high` takes plainly longer."""
        short, long = self.lone(low), self.lone(high)
        apart = long.median_ns - short.median_ns
        if apart < CLEAR * (short.error_ns + long.error_ns):
            return None
        # What lies beyond the edge may be several quanta on, or another entry: any plain step is the edge.
        step = min(apart / 2, max(CLEAR * (short.error_ns + long.error_ns), LEAST_STEP * short.median_ns))
        limit = short.median_ns + step
        return bisected(low, high, lambda size: self.lone(size).median_ns < limit, BLOCK)[0]

    def quantum(self) -> int | None:
        """Bytes; None if it does not show."""
        known = self._steps.known.number("journal_quantum_bytes")
        if known is not None:
            low = max(int(known * (1 - EDGE)) // BLOCK * BLOCK, BLOCK)
            high = -(-int(known * (1 + EDGE)) // BLOCK) * BLOCK
            found = self.edge(low, high) if high - low > BLOCK else None
            # A drive that begins to write amid an entry shows no edges in lone writes; then the known one has
            # to do.
            if found is None or found == round(known) or not low < found < high - BLOCK:
                return round(known)
            return found if self._plain(found, known, low) else round(known)
        size = 2 * BLOCK
        while size <= LARGEST_QUANTUM:
            first, here = self.lone(BLOCK), self.lone(size)
            errors = CLEAR * (first.error_ns + here.error_ns)
            if here.median_ns - first.median_ns > max(errors, LEAST_STEP * first.median_ns):
                found = self.edge(size // 2, size)
                if found is None or not self._is_edge(2 * found):
                    return None
                return found if self._may_be_a_quantum(found) else None
            size *= 2
        return None

    def _plain(self, found: int, known: float, low: int) -> bool:
        """Whether an edge is surer than the one that is known: what lies between both takes as long as `low`,
        where it is to be short, and plainly longer, where it is to be long. Both are measured once more: a
        drive that writes out what came before becomes quicker meanwhile, so that larger writes look short."""
        between = max(found, round(known) // BLOCK * BLOCK)
        short, other = self.again(low), self.again(between)
        longer_ns, errors_ns = other.median_ns - short.median_ns, other.error_ns + short.error_ns
        return longer_ns < SAME_ERRORS * errors_ns if found >= known else longer_ns > CLEAR * errors_ns

    def _may_be_a_quantum(self, found: int) -> bool:
        """Whether the step behind an edge takes about what passes the head in a quantum of that size: longer
        is another entry, whose ends lie at even distances as well. Nothing says so of flash."""
        known = self._steps.known
        if known.word("cache_medium") != "disk":
            return True
        bounds = StepBounds.of(found, known, known.number("rotation_ns"))
        step_ns = self.lone(found + BLOCK).median_ns - self.lone(found).median_ns
        return bounds is None or bounds.least_ns <= step_ns <= bounds.most_ns

    def _is_edge(self, size: int) -> bool:
        """Whether the second quantum ends where twice the first does."""
        within = max(size // 32 // BLOCK, 1) * BLOCK
        found = self.edge(size - within, size + within)
        return found is not None and abs(found - size) <= BLOCK


def measured(steps: Steps) -> Journal:
    """Runs all of it; the drive is cleaned before each part. Where older data may be left and bands are
    cleaned in an order of their own, larger writes come next: they use up the places before the map, and for
    want of places drives clean the oldest. How many these are says whether rewriting twice leaves blocks
    nothing older."""
    places_of = Places(steps.size, told_bytes(steps, "told-zones"))
    if places_of.zone_bytes:
        # What is written is out of order in any zone: from here on none is filled ahead of its writes.
        steps.written(np.zeros(1, np.uint64), BLOCK)
    quanta = Quanta(steps, places_of)
    quantum = quanta.quantum()
    if quantum is None:
        return Journal(None, 0.0, 0.0, (), None, None)
    lone, two = quanta.lone(BLOCK), quanta.lone(2 * quantum)
    quantum_ns, error_ns = two.median_ns - lone.median_ns, float(np.hypot(two.error_ns, lone.error_ns))
    rate = _rate(steps, places_of.aside, quantum)
    lone_entries = _entries(steps, places_of.aside, quantum)
    largest = _largest(steps, quanta, quantum, places_of.zone_bytes)
    flushed = isinstance(steps, FlushedSteps)
    large = (largest * quantum, largest, MOST_WRITES)
    fills = filled(steps, places_of, "fill", ((quantum, 1, SMALL_WRITES), large))
    writes = sum(fill.writes for fill in fills)
    larger = list[Fill]()
    if fills and fills[-1].scattered and largest == 1:
        fills = _refilled(steps, places_of, fills, (quantum, 1, SMALL_WRITES))
    if fills and fills[-1].scattered and largest > 1:
        larger = filled(steps, places_of, "large", (large,))
        deep = _map_fill(steps, places_of, quantum, quantum_ns, larger, rewritings=2)
        places, in_map = limits(larger, deep or [], quantum, flushed=flushed)
        alone = in_map
        if deep is None:
            fills = _refilled(steps, places_of, fills, (quantum, 1, SMALL_WRITES))
            (places, in_map), alone = told_apart(fills, larger), lone_writes(fills)
    elif (deep := _map_fill(steps, places_of, quantum, quantum_ns, fills)) is None or _too_few(deep, writes):
        places, in_map, larger = _by_larger(steps, places_of, fills, quantum, large)
        alone = lone_writes(fills)
    else:
        places, in_map = limits(fills, deep, quantum, flushed=flushed)
        alone = in_map
        if places is None and in_map is not None:
            larger = filled(steps, places_of, "large", (large,)) if largest > 1 else []
            if larger:
                places, in_map = limits_by_larger(larger, deep, quantum, in_map, flushed=flushed)
            if not (larger and larger[-1].ended) and not share_places(deep[-1], quantum, flushed=flushed):
                in_map = None
    fills += larger + (deep or [])
    return Journal(
        quantum, quantum_ns, lone.median_ns, tuple(fills), places, in_map, rate, lone_entries, largest, alone,
        error_ns,
    )  # fmt: skip


def _refilled(steps: Steps, places: Places, fills: list[Fill], part: tuple[int, int, int]) -> list[Fill]:
    """A fill that ended where bands are cleaned in an order of their own, made again: if it ends after as
    many writes, each rewriting emptied the cache, and both count all of it. Else the first one.

    A log that rewriting does not pass through was full when the first fill ended, and is when the second
    begins: what was rewritten took the place of what was cleaned for it."""
    first = sum(fill.writes for fill in fills[:-1]) + fills[-1].earliest
    again = filled(steps, places, "refill", (part,), emptied=True)
    writes = sum(fill.writes for fill in again)
    if not again or not again[-1].ended or abs(writes - first) > SAME * first + 2 * DEPTH:
        return fills
    return again


def with_mixed_fill(steps: Steps, seen: Journal) -> Journal:
    """The same, once the places or the map are seen to have ended a fill of blocks behind a volatile cache,
    which does not show how it packs them. If the places did, blocks that a read holds back may share them
    better, so that these do not."""
    blocks = next((fill for fill in seen.fills if not fill.quanta), None)
    open_limit = seen.places is not None and seen.map_entries is None and isinstance(steps, FlushedSteps)
    if not open_limit or blocks is None or not blocks.ended or seen.quantum is None or not seen.places:
        return seen
    places = Places(steps.size, told_bytes(steps, "mixed-zones"))
    if places.zone_bytes:
        return seen
    left = _leaves_places(steps, places, seen, blocks, "mixed")
    if left:
        return replace(seen, map_entries=blocks.writes)
    if left is None or blocks.writes > MOST_HELD_AFTER or blocks.took_ns > HELD_AFTER_S * 1e9:
        return seen
    groups = places.aside.writes(0, 2 * LOOKS * DEPTH, BLOCK)
    held = held_steps(steps, groups, seen.places * seen.quantum) or LongGroups(steps)
    pace = pace_of(held, places, "held", BLOCK, 0, max(seen.places // PACED_PART, 2 * DEPTH))
    most = min(MOST_HELD, int(HELD_S * 1e9 / max(pace.write_ns, 1.0)))
    together = filled(held, places, "held", ((BLOCK, 0, most),), paces=[pace])
    if not together or not together[-1].ended or not outnumber(together[-1], blocks.writes):
        return seen
    if SAME * together[-1].writes < QUEUES * DEPTH:
        return seen  # a group is too coarse for so few
    if not _leaves_places(held, places, seen, together[-1], "held-mixed"):
        return seen
    fills = tuple(fill for fill in seen.fills if fill.quanta) + tuple(together)
    return replace(seen, fills=fills, map_entries=together[-1].writes)


def _leaves_places(steps: Steps, places: Places, seen: Journal, blocks: Fill, name: str) -> bool | None:
    """Whether a part of the blocks that ended a fill leaves plainly more than as large a part of the places
    to others, so that these had not run out; None where that is not seen. Plainly more blocks than places
    leave the map room for as many lone ones; else what is left is counted by writes that take many places and
    one entry of the map each."""
    if seen.places is None or seen.quantum is None:
        return None
    few = max(seen.places // PACED_PART, 2 * DEPTH)
    if blocks.writes >= LEAST_MORE * seen.places:
        begin = round(MIXED_PART * blocks.writes)
        pace = pace_of(steps, places, name, BLOCK, 0, few)
        mixed = filled(steps, places, name, ((BLOCK, 0, begin),), paces=[pace])
        if mixed and not (mixed[-1].ended or mixed[-1].slow):
            most = math.ceil(most_left(begin / blocks.writes, seen.places, lone=True)) + DEPTH
            mixed.append(lone_rest(steps, places, name, mixed[-1].writes, most))
        return left_places(mixed, blocks.writes, seen.places)
    half, size = blocks.writes // 2, seen.largest * seen.quantum
    most = math.ceil(most_left(half / blocks.writes, seen.places, lone=False) / seen.largest) + DEPTH
    written = sum(fill.size * (fill.writes + fill.beyond) for fill in seen.fills)
    if seen.largest == 1 or written + most * size > ProcedureTest.bytes_of_cache(steps.target, FILLS):
        return None
    paces = [
        pace_of(steps, places, name, BLOCK, 0, few),
        pace_of(steps, places, f"{name}-rest", size, max(min(CALIBRATION, few // seen.largest), DEPTH)),
    ]
    mixed = filled(steps, places, name, ((BLOCK, 0, half), (size, seen.largest, most)), paces=paces)
    return left_places(mixed, blocks.writes, seen.places)


def _too_few(blocks: Sequence[Fill], writes: int) -> bool:
    """Whether there was no time for as many blocks as `writes` of whole quanta, so that they met no limit and
    do not show which one these met."""
    return bool(blocks) and not blocks[-1].ended and not blocks[-1].slow and not outnumber(blocks[-1], writes)


def _map_fill(
    steps: Steps,
    places: Places,
    quantum: int,
    quantum_ns: float,
    fills: Sequence[Fill],
    rewritings: int = 1,
) -> list[Fill] | None:
    """A fill with blocks that share entries: those that wait together; of a host-aware drive, where a waiting
    write has an entry of its own, those that leave the volatile cache together; `fills` are those with whole
    quanta. None where there is no such cache, or no two blocks that wait are done together: then the fill
    would be another one with lone writes. A drive that can only be rewritten is so as often before it."""
    flushed, alone = isinstance(steps, FlushedSteps), sum(fill.writes for fill in fills)
    if not places.zone_bytes:
        pace = pace_of(steps, places, "map", BLOCK, 0, max(alone // PACED_PART, 2 * DEPTH))
        if not flushed and pace.writes_an_entry < SHARED:
            return None
        used = sum(fill.places for fill in fills)
        # The pace had a rewriting too; of many writes its few blocks are a part that does not matter.
        paced = int(SAME * alone >= BLOCK_CALIBRATION)
        emptied = bool(fills) and fills[-1].ended and is_emptied(used, quantum, rewritings + paced)
        for number in range(1, rewritings):
            steps.reset(f"map-erase-{number}-before")
        deep = filled(steps, places, "map", ((BLOCK, 0, MAP_WRITES),), paces=[pace], emptied=emptied)
        if flushed and deep and steps.known.word("cache_medium") == "disk":
            least_ns = _least_ns(steps, quantum, quantum_ns)
            deep[-1] = replace(deep[-1], most_places=places_in_time(deep[-1], least_ns))
        return deep
    held = HeldFill(steps, places.zone_bytes, quantum, _least_ns(steps, quantum, quantum_ns))
    if flushed:
        return held.fill(alone, MAP_WRITES)
    with steps.settings("map-settings", write_cache=True, look_ahead=False) as settings:
        return held.fill(alone, MAP_WRITES) if settings.write_cache else None


def _least_ns(steps: Steps, quantum: int, quantum_ns: float) -> float:
    """The least time in which a quantum passes the head: on the longest track that is known where the cache
    lies, or anywhere. What lone writes take longer, `quantum_ns`, may have a lost revolution in it."""
    known = steps.known
    where = known.word("cache_location")
    places = (where,) if where in PLACES else PLACES
    tracks = [size for place in places if (size := known.part("track_bytes", place))]
    if not tracks:
        return quantum_ns
    return min(quantum_ns, (1 - NEARBY) * quantum / max(tracks) * turn_ns(steps))


def _by_larger(
    steps: Steps, places: Places, fills: list[Fill], quantum: int, large: tuple[int, int, int]
) -> tuple[int | None, int | None, list[Fill]]:
    """Places and map entries in use when cleaning began, and the fill that tells them apart where no blocks
    share an entry: its writes take several places each, and one entry of the map."""
    if not fills or not fills[-1].ended:
        return None, None, []
    size, quanta, count = large
    if quanta == 1:
        size, quanta = quantum + BLOCK, 2  # the second place is all but empty
        if (steps.known.number("journal_entry_max_bytes") or 0.0) * ENTRY_SURE < size:
            return None, None, []
    used = sum(fill.places for fill in fills)
    pace_writes = max(min(CALIBRATION, used // (PACED_PART * quanta)), DEPTH)
    larger = filled(steps, places, "large", ((size, quanta, count),), pace_writes)
    return *told_apart(fills, larger), larger


def _entries(steps: Steps, places: Places, quantum: int) -> Entries | None:
    """Lone blocks, the first of them read back before more are written, and lone writes of a few quanta where
    entries may be as long; None for a cache that is not on disk."""
    if steps.known.word("cache_medium") != "disk" or steps.reset("entries-erase") is State.UNKNOWN:
        return None
    io = places.writes(0, LONE_ENTRIES, BLOCK)
    first = steps.run("entries-written", io.part(0, READ_BACK))
    back = steps.run("entries-read", IoBatch.reads(io.offset[:READ_BACK], BLOCK))
    more = steps.run("entries-more", io.part(READ_BACK, LONE_ENTRIES))
    done_ns = np.concatenate([first.complete_ns, more.complete_ns]).astype(np.float64)
    most = steps.known.number("journal_entry_max_bytes") or 0.0
    longer = {}
    for quanta in LONG_QUANTA:
        if quanta * quantum <= ENTRY_SURE * most and steps.reset(f"entries-{quanta}-erase"):
            log = steps.run(f"entries-{quanta}", places.writes(0, LONG_ENTRIES, quanta * quantum))
            longer[quanta] = log.complete_ns.astype(np.float64)
    whole_ns, turn_ns = None, steps.known.number("rotation_ns")
    out_of_band = steps.known.get("out_of_band_ns")
    if isinstance(steps, ForcedWrites):
        out_of_band = None  # what FUA adds to a write is not known
    if turn_ns is not None and out_of_band is not None and out_of_band.interval is None:
        steps.reset("paused-erase")
        whole_ns = entry_time.measured(steps, places, turn_ns)
    return Entries(done_ns, back.complete_ns.astype(np.float64), longer, whole_ns)


def _rate(steps: Steps, places: Places, quantum: int) -> Rate | None:
    """What a quantum takes, from entries of fewer and of more; None if all hold as many.

    Writes have to be so large that those that wait fill more than one entry: else each entry begins when the
    one before has ended, a revolution late."""
    entry = steps.known.number("journal_entry_max_bytes")
    if entry is None or steps.reset("rate-erase") is State.UNKNOWN:
        return None
    sizes = {
        quantum,
        quantum * (int(entry / 2 / quantum) + 1),
        max(int(entry / WRITES_AN_ENTRY) // BLOCK * BLOCK, BLOCK),
    }
    paced = []
    for size in sorted(sizes):
        count = max(int(RATE_QUANTA * quantum / size), 2 * DEPTH if size < quantum else FEWEST_ENTRIES + 2)
        took = _paced(steps, places, size, count)
        if took is not None:
            paced.append((-(-took[1] * size // quantum), took[0]))
    if not paced:
        return None
    few, many = min(paced), max(paced)
    if many[0] == few[0] or many[1] <= few[1]:
        return None
    quantum_ns = (many[1] - few[1]) / (many[0] - few[0])
    return Rate(quantum_ns, max(few[1] - few[0] * quantum_ns, 0.0))


def _paced(steps: Steps, places: Places, size: int, count: int) -> tuple[float, int] | None:
    """From entry to entry (ns) and writes in one, of entries as full as most; None if there are few."""
    log = steps.run("rate", places.writes(0, count, size), depth=DEPTH)
    done, at = entries(log.complete_ns)
    took, writes = np.diff(done), np.diff(at)
    if len(writes) < FEWEST_ENTRIES:
        return None
    full = round(float(np.median(writes)))
    same = took[writes == full]
    return (float(np.median(same)), full) if len(same) >= FEWEST_ENTRIES else None


def _largest(steps: Steps, quanta: Quanta, quantum: int, zone_bytes: int) -> int:
    """How many quanta a write may have and still be one entry: what is known of entries, with some slack, if
    it takes as much longer than one quantum as its quanta should, give or take a lost revolution. What is
    longer than a zone begins one, and goes there, not into the cache."""
    entry = steps.known.get("journal_entry_max_bytes")
    if entry is None or not isinstance(entry.value, int | float):
        return 1
    longest = min(LARGEST_WRITE, zone_bytes - BLOCK) if zone_bytes else LARGEST_WRITE
    sure = ENTRY_SLACK * entry.value if entry.interval is None else entry.interval[0]
    count = int(min(sure / quantum, MOST_QUANTA, longest // quantum))
    lost_ns = turn_ns(steps) if steps.known.word("cache_medium") == "disk" else 0.0
    one, two = quanta.lone(quantum), quanta.lone(2 * quantum)
    if two.median_ns - one.median_ns < CLEAR * (one.error_ns + two.error_ns):
        return max(count, 1)
    while count > 1:
        many = quanta.lone(count * quantum)
        expected = one.median_ns + (count - 1) * (two.median_ns - one.median_ns)
        if count == 2 or many.median_ns < 1.25 * expected + lost_ns:
            return count
        count //= 2
    return 1
