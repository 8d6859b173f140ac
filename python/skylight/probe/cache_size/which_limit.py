"""Which limit ended a fill of a cache: its places, or its map; where no two writes share an entry, and where
blocks do.

Invariant: pure functions of fills.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.probe.band_size.cache_parts import DEPTH
from skylight.probe.cache_size.fill_check import BLOCK, Fill
from skylight.probe.known_state import MOST_REWRITTEN

SAME = 0.03
"""As many, give or take: two counts of one limit differ by an entry's writes at most."""
LOWEST_WATERMARK = 0.8
"""Of what there is, the least part in use at which drives begin to clean. Chosen: the paper's two at 0.94 and
0.91."""


def told_apart(fills: Sequence[Fill], larger: Sequence[Fill]) -> tuple[int | None, int | None]:
    """Places and map entries, by writes that take an entry of the map each and a place or, the last of them,
    several; and larger ones that all take several places: these are as many as before where the map was full,
    and take as many places as before where the places were. Else both limits were met, the map's first."""
    if not fills or not fills[-1].ended or not larger or not larger[-1].ended:
        return None, None
    writes, in_larger = (sum(fill.writes for fill in each) for each in (fills, larger))
    used, places = (sum(fill.places for fill in each) for each in (fills, larger))
    slack = DEPTH * larger[-1].quanta
    if places <= (1 + SAME) * used + slack:
        # Where the first fill went on with large writes: as many places, by plainly fewer writes.
        agree = places >= (1 - SAME) * used - slack and in_larger < (1 - 2 * SAME) * writes - DEPTH
        return (used if fills[-1].quanta == 1 or agree else None), None
    return (None if in_larger >= (1 - SAME) * writes else places), writes


def is_emptied(places: int, quantum: int, times: int = 1) -> bool:
    """Whether rewriting, `times` times in a row, passes through all places of a cache, `places` of which were
    in use when it began to clean: then what another host wrote is home.

    >>> is_emptied(46_000, 280 << 10), is_emptied(460_000, 280 << 10), is_emptied(360_000, 280 << 10, 2)
    (True, False, True)
    """
    return places * quantum <= LOWEST_WATERMARK * times * MOST_REWRITTEN


def lone_writes(fills: Sequence[Fill]) -> int | None:
    """Writes of one place and one map entry each until cleaning, whichever of both ended the fill; None where
    it did not end, or went on with larger ones."""
    ended = bool(fills) and fills[-1].ended and fills[-1].quanta == 1
    return sum(fill.writes for fill in fills) if ended else None


def places_in_time(blocks: Fill, least_ns: float) -> float | None:
    """How many places blocks took at most, of which a FLUSH ends some together: each place that they took
    passed the head in `least_ns` at least, and they had so long; None where that was not kept.

    >>> fill = Fill("map", 4096, 0, 3100, 3100, True, 1.0, 0.0, 1.0, group=31, took_ns=2_000_000)
    >>> places_in_time(fill, 2_000.0), places_in_time(fill, 100.0)
    (1100.0, 3100.0)
    """
    if not blocks.took_ns or least_ns <= 0:
        return None
    groups = -(-blocks.writes // max(blocks.group, 1))
    return min(float(blocks.writes), blocks.took_ns / least_ns + groups)


def places_used(blocks: Fill, quantum: int, *, flushed: bool) -> float:
    """How many places a fill with blocks used at most."""
    if blocks.most_places is not None:
        return blocks.most_places
    if flushed:
        # How a volatile cache packs them is not seen: at worst each takes a place. Behind which of the group
        # that a FLUSH ends cleaning began does not show either.
        return blocks.writes + blocks.group - 1
    an_entry = max(round(blocks.writes_an_entry), 1)
    return blocks.writes / an_entry * -(-an_entry * BLOCK // quantum)


def least_places(blocks: Fill, quantum: int) -> float:
    """How many places a fill with blocks used at least: no more share an entry than wait, or leave a volatile
    cache, together; held ones are more, of which none is known but that they fill a place."""
    shared = quantum / BLOCK if blocks.most_places is not None else min(quantum / BLOCK, DEPTH)
    return blocks.writes / shared


def share_places(blocks: Fill, quantum: int, *, flushed: bool) -> bool:
    """Whether blocks took plainly fewer places than map entries: else a fill with them cannot tell one limit
    from the other."""
    return places_used(blocks, quantum, flushed=flushed) < (1 - 2 * SAME) * blocks.writes


def most_left(part: float, places: int, *, lone: bool) -> float:
    """How many places that part of some blocks leaves at most, if all of them had used up the places.

    A volatile cache may leave the places above a watermark to others than what it hands on, so of what large
    writes find left these are no sign; `lone` blocks are handed on as well."""
    if lone:
        return places * (1 - (1 - SAME) * part) + DEPTH
    return places * (1 - LOWEST_WATERMARK * part) * (1 + 2 * SAME) + DEPTH


def left_places(mixed: Sequence[Fill], blocks: int, places: int) -> bool | None:
    """Whether a part of the blocks that ended a fill leaves more places to other writes than if all of them
    had used up the places: then another limit ended it, the map's. None where the fill of both says nothing.

    >>> half = Fill("mixed-0", 4096, 0, 5_000, 5_000, False, 0.0, 0.0, 1.0)
    >>> quanta = Fill("mixed-1", 1 << 20, 1, 4_500, 4_500, True, 8.0, 0.0, 1.0)
    >>> left_places((half, quanta), 10_000, 5_200), left_places((half, quanta), 10_000, 8_000)
    (True, False)
    >>> lone = Fill("mixed-1", 4096, 1, 4_500, 4_500, True, 8.0, 0.0, 1.0)
    >>> left_places((half, lone), 10_000, 8_000), left_places((half, lone), 10_000, 9_000)
    (True, False)
    """
    if len(mixed) < 2 or not mixed[-1].quanta:
        return None
    before, after = sum(fill.writes for fill in mixed if not fill.quanta), mixed[-1].places
    more = after > most_left(before / blocks, places, lone=mixed[-1].size == BLOCK)
    # What was slow before it ended may have used up the places sooner.
    sure = not mixed[-1].slow if more else mixed[-1].ended
    return more if sure else None


def outnumber(blocks: Fill, writes: int) -> bool:
    """Whether blocks, up to where they may have met a limit, are plainly more than the writes of another
    fill, so that a map with entries for these blocks did not end that one.

    >>> quick = Fill("map-0", 4096, 0, 75_000, 75_000, False, 0.0, 0.0, 1.0)
    >>> slow = Fill("map-0", 4096, 0, 75_000, 75_000, False, 0.0, 0.0, 1.0, slow=True, slow_after=60_000)
    >>> outnumber(quick, 58_000), outnumber(slow, 58_000), outnumber(slow, 53_000)
    (True, False, True)
    """
    return blocks.earliest > (1 + 2 * SAME) * writes


def limits_by_larger(
    larger: list[Fill], deep: list[Fill], quantum: int, in_map: int, *, flushed: bool
) -> tuple[int | None, int | None]:
    """As `limits`, where writes of one quantum ended with `in_map` entries in use: places, or of the map.
    Only a fill with larger writes that met a limit shows which."""
    places, by_larger = limits(larger, deep, quantum, flushed=flushed)
    return places, by_larger if larger and larger[-1].ended else in_map


def limits(
    fills: list[Fill], deep: list[Fill], quantum: int, *, flushed: bool = False
) -> tuple[int | None, int | None]:
    """Places and map entries in use when cleaning began, from a fill with whole quanta and one with
    blocks."""
    met = bool(fills) and fills[-1].ended
    places = sum(fill.places for fill in fills) if met else None
    writes = sum(fill.writes for fill in fills)
    if deep and deep[-1].newest:
        # A drive that cleans the newest where the map is full cleaned the first for slots: these are counted.
        emptied = places is not None and is_emptied(places, quantum)
        return places, (deep[-1].writes if emptied else None)
    if not deep or not deep[-1].ended:
        # What may have been the map full would have ended the fill with whole quanta as well.
        unlimited = bool(deep) and outnumber(deep[-1], writes) and not deep[-1].always_slow
        if places is None or not unlimited:
            return None, None
        # Blocks that met no limit took no more places than there are.
        return (places if least_places(deep[-1], quantum) <= (1 + 2 * SAME) * places + DEPTH else None), None
    blocks = deep[-1]
    if places is not None and least_places(blocks, quantum) > (1 + 2 * SAME) * places + DEPTH:
        return None, None  # blocks took more places than whole quanta are said to have ended with
    used = places_used(blocks, quantum, flushed=flushed)
    if places is None and used > (1 - 2 * SAME) * sum(fill.places for fill in fills):
        return None, None  # as many places were never seen to be there
    if places is not None:
        slack = max(SAME * blocks.writes, 2 * DEPTH)
        earliest = writes - fills[-1].writes + fills[-1].earliest
        if blocks.earliest - slack <= writes and earliest <= blocks.writes + slack:
            return None, blocks.writes  # the fill ended where the map was full
        if writes - earliest > max(SAME * writes, 4 * DEPTH):
            # Where it ended is not known well enough for places; but these may be what the blocks used up.
            least = sum(fill.places for fill in fills[:-1]) + fills[-1].earliest * max(fills[-1].quanta, 1)
            return None, (None if used >= (1 - 2 * SAME) * least else blocks.writes)
    # A lone write may take the places above a watermark, what leaves a volatile cache need not.
    cached = blocks.most_places is not None or (flushed and blocks.group > 1)
    watermark = LOWEST_WATERMARK if cached else 1.0
    if places is not None and used >= (1 - 2 * SAME) * watermark * places:
        return places, None  # places ran out first
    return places, blocks.writes
