"""Are the zones that a lazy host-aware drive declares its bands? Asked with one filling of its cache.

Such a drive cleans nothing while it is left alone, so each look at its bands takes a cache full of writes:
looking for edges anywhere (`journaled`) takes two or more. But it declares where its zones lie. So a grid of
blocks is laid over nine zones, three near each of the first, the middle and the last address, and into their
neighbours, dense where the declared edges are. In each of the nine a block is written before everything else,
and behind it as much as a later write needs, so that one zone cleaned lets one write in. Then decoys, then
the grid, then single pieces elsewhere until the nine are native again, with a look after each that is slow.
What went home with the first block of a zone then begins and ends at the zone's edges, or the zones are not
the bands.

Invariants: zones of the grid are full before, the others empty; no write begins at a write pointer, so all go
to the cache; between two looks less is let in than the decoys give back.
Source: Skylight (FAST '15), section 4.7, Test 9; Wu et al., Evaluating Host-Aware SMR Drives (HotStorage
'16), section 2: a zone is cleaned as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64, IoBatch, Op, Stop
from skylight.infer.stalls import SLOW
from skylight.probe.band_size import cleaned_or_cached
from skylight.probe.band_size.cache_parts import DEPTH, PLACES, spread
from skylight.probe.band_size.cleaned_or_cached import BLOCK, Fresh
from skylight.probe.band_size.journaled import MIB, MUCH_AFTER, Band, Region, bands_of
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import HOST_AWARE, ZonesSeen

NAME = "declared"
"""What the names of its steps begin with."""
EACH, APART = 3, 3
"""Zones at a place, and from one to the next, so that neighbours of one are not those of another."""
FEWEST_ZONES = 4 * EACH * APART
"""Usable zones below which the drive is not asked this way: the nine with their neighbours, and some for what
fills the cache."""
INSIDE, BESIDE, EDGE = 24, 6, 3
"""Points over a zone, over half of each neighbour, and to each side of an edge, a mebibyte apart. Chosen:
with three copies 1,300 blocks, half of what the smallest caches hold."""
COPIES = 3
MOST_PIECE, LEAST_PIECE, PIECE_SHARE, UNKNOWN_PIECE = 8 << 20, 64 << 10, 256, 2 << 20
"""Bytes of a piece: this share of the cache, if its size is known. Decoys, pieces of the nine and the grid
together then take a third of it."""
DECOYS, LOOK_EVERY, LOOK_SHARE = 48, 16, 32
"""Decoys, as large as a piece, and pieces from look to look. Chosen: a third of the decoys."""
BULK = 0.8
"""Of the cache, if its size is known: so much is written before a look is due that no slow write asks for."""
MOST_CLEANED, LATE_LOOKS, LATE_PIECES = 0.75, 3, 4
"""Share of the nine that is waited for; and how many looks more, with how many pieces before each, the others
are given: a reading may be an outlier."""
MOST_LOOKS = 4_000
"""A drive that stalls for a map after every hundred writes is looked at some thousand times."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a zone holds, by the target's own word (bytes), and the bands around blocks of nine zones, those
    whose edges were seen."""

    zone_bytes: int
    bands: list[Band]


def find(steps: Steps) -> Declared | None:
    """The bands of a target that can be asked this way."""
    zones = steps.zones(f"{NAME}-zones")
    if zones is None or not is_asked(zones, steps):
        return None
    return Declared(zones.zone_bytes, looked_at(steps, zones))


def looked_at(steps: Steps, zones: ZonesSeen) -> list[Band]:
    """The bands around blocks of nine of these zones."""
    return _Round(steps, zones).run()


def is_asked(zones: ZonesSeen, steps: Steps) -> bool:
    """Whether these zones are: the drive may clean only when its cache is full, and all of a zone holds
    data."""
    whole = zones.capacity_bytes == zones.zone_bytes and zones.zone_bytes % MIB == 0
    enough = zones.usable >= FEWEST_ZONES and steps.size == zones.usable * zones.zone_bytes
    lazy = steps.known.word("cleaning_type") != "aggressive"
    return zones.model == HOST_AWARE and whole and enough and lazy


def nine(count: int) -> list[tuple[str, int]]:
    """The zones that are looked at, of so many.

    >>> nine(100)
    [('od', 0), ('od', 3), ('od', 6), ('md', 47), ('md', 50), ('md', 53), ('id', 93), ('id', 96), ('id', 99)]
    """
    begins = (0, count // 2 - APART, count - 1 - APART * (EACH - 1))
    return [
        (place, begin + APART * k) for place, begin in zip(PLACES, begins, strict=True) for k in range(EACH)
    ]


def region_of(place: str, zone: int, zone_bytes: int, size: int, piece: int) -> Region:
    """The grid about a zone: all over it and half of its neighbours, and dense at its edges; not where the
    piece behind its first block lies."""
    begin, end = zone * zone_bytes, (zone + 1) * zone_bytes
    first = begin + zone_bytes // MIB // 2 * MIB
    near = np.arange(-EDGE, EDGE) * MIB
    half = np.linspace(0, zone_bytes // 2, BESIDE, endpoint=False)
    coarse = np.concatenate([np.linspace(0, zone_bytes, INSIDE, endpoint=False), -half, zone_bytes + half])
    points = np.concatenate([begin + near, end + near, begin + coarse.astype(np.int64) // MIB * MIB, [first]])
    points = np.unique(points.astype(np.int64))
    behind = (points > first) & (points <= first + MUCH_AFTER + piece)
    return Region(place, first, points[~behind & (points >= 0) & (points + MIB <= size)])


def _free_zones(count: int, wanted: list[int]) -> I64:
    """The zones of which the grid about those that are wanted has nothing, evenly and in an order that
    follows nothing."""
    is_free = np.ones(count, bool)
    is_free[[zone + k for zone in wanted for k in (-1, 0, 1) if 0 <= zone + k < count]] = False
    free = np.flatnonzero(is_free)
    return np.asarray(free[spread(len(free), len(free), 1).astype(np.int64)], np.int64)


class _Round:
    """One filling of the cache, and the looks before and after it."""

    def __init__(self, steps: Steps, zones: ZonesSeen) -> None:
        self._steps = steps
        self._zone_bytes = zones.zone_bytes
        fill = steps.known.number("cache_fill_bytes")
        piece = UNKNOWN_PIECE if fill is None else int(2.0 ** np.floor(np.log2(fill / PIECE_SHARE)))
        # Twice the piece and what is before it lie in a zone from its middle on.
        most = int(2.0 ** np.floor(np.log2(zones.zone_bytes / 4)))
        self._piece = int(np.clip(piece, LEAST_PIECE, min(MOST_PIECE, most)))
        wanted = nine(zones.usable)
        size = steps.size
        self._regions = [
            region_of(place, zone, self._zone_bytes, size, self._piece) for place, zone in wanted
        ]
        self._firsts = np.array([region.first for region in self._regions], np.int64)
        self._free = _free_zones(zones.usable, [zone for _, zone in wanted])
        self._turn_ns = steps.known.number("rotation_ns")
        self._next = 0
        self._until: Stop | None = None

    def run(self) -> list[Band]:
        """The bands."""
        steps = self._steps
        state = steps.reset(f"{NAME}-erase", slow=False)
        blocks = [cleaned_or_cached.copies(region.points, COPIES) for region in self._regions]
        grid = np.concatenate(blocks)
        if not all(steps.written(region.points.astype(np.uint64), MIB) for region in self._regions):
            return []
        readings = [
            cleaned_or_cached.read_enough(steps, f"{NAME}-{what}", grid) for what in ("fresh", "again")
        ]
        one, again = (cleaned_or_cached.middle_of(each, self._turn_ns) for each in readings)
        fresh = Fresh.of(one, again, self._turn_ns)
        own = np.flatnonzero(np.isin(grid, self._firsts))
        # What is asked in between is read once.
        noise_ns = Fresh.of(readings[0][0], readings[1][0], self._turn_ns).noise_ns
        before = replace(fresh, delay_ns=fresh.delay_ns[own], noise_ns=noise_ns)
        self._write(grid)
        if not self._fill(before, emptied=state is State.NEW):
            return []
        after = cleaned_or_cached.read_enough(steps, f"{NAME}-after", grid)
        weights = fresh.weights(cleaned_or_cached.middle_of(after, self._turn_ns))
        ends = np.cumsum([len(part) for part in blocks])[:-1]
        summed: list[F64] = [part.reshape(-1, COPIES).sum(axis=1) for part in np.split(weights, ends)]
        return list(bands_of(self._regions, summed, steps.size).values())

    def _write(self, grid: I64) -> None:
        """The nine blocks, each with a piece behind it; decoys; the rest of the grid."""
        steps, piece = self._steps, self._piece
        offsets = np.stack([self._firsts, self._firsts + MUCH_AFTER], axis=1).ravel()
        sizes = np.tile(np.array([BLOCK, piece], np.uint32), len(self._firsts))
        writes = np.full(len(offsets), int(Op.WRITE), np.uint8)
        steps.run(f"{NAME}-first", IoBatch(writes, offsets.astype(np.uint64), sizes))
        log = steps.run(f"{NAME}-decoys", IoBatch.writes(self._pieces(DECOYS), piece))
        self._until = Stop(round(SLOW * float(np.median(log.latency_ns))))
        rest = steps.rng(NAME).permutation(grid[~np.isin(grid, self._firsts)])
        steps.run(f"{NAME}-grid", IoBatch.writes(rest, BLOCK), depth=DEPTH)

    def _pieces(self, count: int) -> I64:
        """Where the next pieces go: one to each free zone, behind where it begins; then behind these."""
        free = len(self._free)
        index = np.arange(self._next, self._next + count, dtype=np.int64)
        index = index[index // free < self._zone_bytes // self._piece - 1]
        self._next += len(index)
        return self._free[index % free] * self._zone_bytes + (1 + index // free) * self._piece

    def _fill(self, before: Fresh, *, emptied: bool) -> bool:
        """Writes pieces until the nine were cleaned; False if most of them never were."""
        steps, late = self._steps, 0
        bulk = self._bulk() if emptied else 0
        for _ in range(MOST_LOOKS):
            count = LATE_PIECES if late else max(bulk - self._next, LOOK_EVERY, self._next // LOOK_SHARE)
            pieces = self._pieces(count)
            if not len(pieces):
                break
            log = steps.run(f"{NAME}-fill", IoBatch.writes(pieces, self._piece), until=self._until)
            self._next -= len(pieces) - len(log)
            twice = cleaned_or_cached.read(steps, f"{NAME}-check", np.repeat(self._firsts, 2))
            cleaned = float(np.mean(before.weights(twice[1::2]) > 0))
            late += cleaned >= MOST_CLEANED
            if cleaned == 1.0 or late > LATE_LOOKS:
                break
        return late > 0

    def _bulk(self) -> int:
        """Pieces that go into an empty cache before it can be full."""
        known = self._steps.known
        fill, quantum = known.number("cache_fill_bytes"), known.number("journal_quantum_bytes")
        if fill is None:
            return 0
        slots = -(-self._piece // quantum) * quantum if quantum else self._piece
        return int(BULK * fill / slots)
