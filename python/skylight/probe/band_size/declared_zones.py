"""Are the zones that a lazy host-aware drive declares its bands? Asked with one filling of its cache.

Such a drive cleans nothing while it is left alone, so each look at its bands takes a cache full of writes:
looking for edges anywhere (`journaled`) takes two or more. But it declares where its zones lie. So a grid of
blocks is laid over nine zones, three near each of the first, the middle and the last address, and into their
neighbours, dense where the declared edges are. In each of the nine a block is written before everything else;
then decoys, then the grid; then the cache is filled until the nine are native again (`forced_zone_cleaning`).
What went home with the first block of a zone then begins and ends at the zone's edges, or the zones are not
the bands.

Invariants: zones of the grid are full before, the others empty; between two looks less is let in than the
decoys give back.
Source: Skylight (FAST '15), section 4.7, Test 9; Wu et al., Evaluating Host-Aware SMR Drives (HotStorage
'16), section 2: a zone is cleaned as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64, IoBatch
from skylight.probe.band_size import cleaned_or_cached
from skylight.probe.band_size.cache_parts import DEPTH, PLACES
from skylight.probe.band_size.cleaned_or_cached import BLOCK, Fresh
from skylight.probe.band_size.forced_zone_cleaning import ZoneFiller, is_asked, middle_of_zone
from skylight.probe.band_size.journaled import MIB, MUCH_AFTER, Band, Region, bands_of
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import ZonesSeen

NAME = "declared"
"""What the names of its steps begin with."""
EACH, APART = 3, 3
"""Zones at a place, and from one to the next, so that neighbours of one are not those of another."""
INSIDE, BESIDE, EDGE = 24, 6, 3
"""Points over a zone, over half of each neighbour, and to each side of an edge, a mebibyte apart. Chosen:
with three copies 1,300 blocks, half of what the smallest caches hold."""
COPIES = 3
DECOYS = 48
"""Chosen: three times the pieces between two looks near the end."""
MOST_CLEANED = 0.75
"""Share of the nine that is waited for: a reading may be an outlier."""


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


def nine(count: int) -> list[tuple[str, int]]:
    """The zones that are looked at, of `count` zones.

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
    first = int(middle_of_zone(np.array(zone), zone_bytes))
    near = np.arange(-EDGE, EDGE) * MIB
    half = np.linspace(0, zone_bytes // 2, BESIDE, endpoint=False)
    coarse = np.concatenate([np.linspace(0, zone_bytes, INSIDE, endpoint=False), -half, zone_bytes + half])
    points = np.concatenate([begin + near, end + near, begin + coarse.astype(np.int64) // MIB * MIB, [first]])
    points = np.unique(points.astype(np.int64))
    behind = (points > first) & (points <= first + MUCH_AFTER + piece)
    return Region(place, first, points[~behind & (points >= 0) & (points + MIB <= size)])


def looked_at(steps: Steps, zones: ZonesSeen) -> list[Band]:
    """The bands around blocks of nine of these zones: one filling of the cache, and looks before and after
    it."""
    wanted = nine(zones.usable)
    taken = np.unique([zone + k for _, zone in wanted for k in (-1, 0, 1)])
    filler = ZoneFiller(steps, NAME, zones, taken)
    regions = [region_of(place, zone, zones.zone_bytes, steps.size, filler.piece) for place, zone in wanted]
    firsts = np.array([region.first for region in regions], np.int64)
    blocks = [cleaned_or_cached.copies(region.points, COPIES) for region in regions]
    grid = np.concatenate(blocks)
    state = steps.reset(f"{NAME}-erase", slow=False)
    if not all(steps.written(region.points.astype(np.uint64), MIB) for region in regions):
        return []
    turn_ns = steps.known.number("rotation_ns")
    readings = [cleaned_or_cached.read_enough(steps, f"{NAME}-{what}", grid) for what in ("fresh", "again")]
    one, again = (cleaned_or_cached.middle_of(each, turn_ns) for each in readings)
    fresh = Fresh.of(one, again, turn_ns)
    # What is asked in between is read once.
    noise_ns = Fresh.of(readings[0][0], readings[1][0], turn_ns).noise_ns
    own = np.flatnonzero(np.isin(grid, firsts))
    before = replace(fresh, delay_ns=fresh.delay_ns[own], noise_ns=noise_ns)
    filler.first(firsts)
    filler.decoys(DECOYS)
    rest = steps.rng(NAME).permutation(grid[~np.isin(grid, firsts)])
    steps.run(f"{NAME}-grid", IoBatch.writes(rest, BLOCK), depth=DEPTH)

    def cleaned() -> float:
        twice = cleaned_or_cached.read(steps, f"{NAME}-check", np.repeat(firsts, 2))
        return float(np.mean(before.weights(twice[1::2]) > 0))

    if not filler.fill(cleaned, MOST_CLEANED, emptied=state is State.NEW):
        return []
    after = cleaned_or_cached.middle_of(cleaned_or_cached.read_enough(steps, f"{NAME}-after", grid), turn_ns)
    return _bands(regions, blocks, fresh.weights(after), steps.size)


def _bands(regions: list[Region], blocks: list[I64], weights: F64, size: int) -> list[Band]:
    """The bands whose edges show, from the weight of each block."""
    ends = np.cumsum([len(part) for part in blocks])[:-1]
    summed: list[F64] = [part.reshape(-1, COPIES).sum(axis=1) for part in np.split(weights, ends)]
    return list(bands_of(regions, summed, size).values())
