"""Sizes of a cache in cache parts (`skylight.probe.band_size.cache_parts`): what one cache part takes, times
how many there are.

* Cache bands serve every n-th data band. With the one of the first band full, one block is written to each
  band behind it: the first that stalls is band n, and n cache bands are the cache.
* A zone takes so much before its first stall. With it full, addresses further on are asked for: the first
  that does not stall is in the next zone; the capacity has so many zones. What it takes is not seen where it
  may hold what another host wrote: then its logs are counted (`used_zone_logs`).

Random writes over the whole drive fill cache parts unevenly, so the first stalls when some 95 % of the cache
are used (Skylight, Table 2: 9,175,056 writes, a day at depth 1). No finding needs that.

Source: Skylight (FAST '15), section 4.6 and Table 2; docs/figures.md, row S8b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skylight.evidence import IoBatch, Stop
from skylight.probe.band_size.cache_parts import INTO_BAND, CachePart, first_edge, logged, spread
from skylight.probe.cache_size import used_zone_logs
from skylight.probe.cache_size.used_zone_logs import AGAIN_INTO_BAND, SPARE_BYTES, TRIES, Unsettled
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

BLOCK = 4096
MOST_CACHE_BANDS = 1_000_000
PARTS = (2, 3)  # of a count that are asked for: a scan that passes by a band twice is rare
TIMES_WITHIN = 2
"""How often an address in a zone has to stall after the write that made it a candidate. Chosen: of delays of
a tenth of all writes one in a hundred passes."""
TIMES_OUTSIDE, MOST_ROUNDS_WITHIN = 2, 6
"""How often the zone has to be full still, for an address to be in another: that shows in one write, which
other clients may delay; and how often it is filled for that at most, where delays pass for its being full.
Chosen: as above."""
BOUND_ROUNDS, BOUND_ENOUGH = 5, 3
"""Rounds that ask whether a full zone stalls for writes to it alone, and how many have to say so: of stalls
of a tenth of all writes, three of five do in one case of a hundred."""
SEARCHES = 3
"""For a zone's end, where the one found is not that. Chosen: other clients hide it from one search in some
hundred."""
MOST_BEHIND = 8
"""Writes of which one does not stall, where each empties a log. Chosen: of what was written at single places
a log holds as many bands as it has pieces, those of the last scan two or three."""


@dataclass(frozen=True, slots=True)
class CacheParts:
    """`count` cache parts that each take `part_bytes` until they stall and are `whole_bytes` large, if that
    shows; `band` is what one stall gives back. `checks` is how often the count was seen. Of zones that held
    `older` data their logs were counted (`used_zone_logs`)."""

    count: int
    part_bytes: int
    whole_bytes: int | None
    band: int
    stalls: int
    checks: int
    older: bool = False


def cache_bands(steps: Steps, cache_part: CachePart) -> CacheParts | None:
    """All cache bands, from the one of the first address; None if it is not seen how many there are."""
    band = first_edge(steps, cache_part)
    if band is None:
        return None
    most = min(MOST_CACHE_BANDS, steps.size // band - 1)
    places = np.arange(1, most, dtype=np.uint64) * np.uint64(band)
    index = cache_part.first_held(places)
    if index is None:
        return None
    count = index + 1
    if count < 2 or cache_part.period * cache_part.size > band + cache_part.size:
        return None  # what serves every band, or takes more than one, is no cache band
    count = _fewest(cache_part, count, band)
    checks = 1
    for number in (1, 2, 3):
        address = number * count * band
        if address + cache_part.size <= steps.size:
            if not cache_part.holds(address):
                return None
            checks += 1
    return CacheParts(count, cache_part.period * cache_part.size, band, band, cache_part.found.count, checks)


def _fewest(cache_part: CachePart, count: int, band: int) -> int:
    """The count, or a part of it: a scan that passed by the first data band that shares the cache band, as
    another client's delay beside its stall may make it, ends at a multiple of its number."""
    for part in PARTS:
        while count % part == 0 and count > part and cache_part.holds(count // part * band):
            count //= part
    return count


def _first_within(cache_part: CachePart, addresses: list[int]) -> int | None:
    """The first of these addresses that is of the cache part, or None; those before cost a piece each.

    A stall may give back more than one band. So the cache part is written to until it stalls, and then
    filled; and that it was full while others were asked for is seen by the next write to it, or it is done
    again. A slow write whose address is quick when it is asked for again was delayed by something else: the
    addresses up to there are done with, so a busy drive gets through them too."""
    limit_ns = cache_part.found.limit_ns
    begin, tries = 0, 0
    while begin < len(addresses) and tries < TRIES:
        tries += 1
        if not cache_part.refill():
            continue
        where = np.array(addresses[begin:], np.uint64) + np.uint64(INTO_BAND)
        log = cache_part.steps.run(
            f"{cache_part.name}-scan", IoBatch.writes(where, cache_part.size), until=Stop(limit_ns)
        )
        if int(log.latency_ns[-1]) < limit_ns:
            if int(cache_part.put(1).latency_ns[0]) >= limit_ns:
                return None
            continue
        place = begin + len(log) - 1
        within = _is_within(cache_part, addresses[place] + AGAIN_INTO_BAND)
        if within:
            return addresses[place]
        if within is False:
            begin, tries = place + 1, 0
    if begin == len(addresses):
        return None
    raise Unsettled


def _is_within(cache_part: CachePart, address: int) -> bool | None:
    """Whether writes to an address stall when the cache part is full, and empty it; None where it was not
    seen full. Another zone may be full of what was written in search of this one's end."""
    limit_ns, inside, outside = cache_part.found.limit_ns, 0, 0
    for _ in range(MOST_ROUNDS_WITHIN):
        if not cache_part.refill():
            continue
        stalled = cache_part.asked_ns(address) >= limit_ns
        if stalled and not _emptied(cache_part, address):
            return None
        if int(cache_part.put(1).latency_ns[0]) >= limit_ns:
            outside += 1
        elif stalled:
            inside += 1
        if inside == TIMES_WITHIN or outside == TIMES_OUTSIDE:
            return inside == TIMES_WITHIN
    return None


def _emptied(cache_part: CachePart, address: int) -> bool:
    """Writes to an address until one finds space; False if none does."""
    return any(cache_part.asked_ns(address) < cache_part.found.limit_ns for _ in range(MOST_BEHIND))


def _is_bound(cache_part: CachePart, end: int) -> bool:
    """Whether the full zone stalls for a write to it after one behind its end that did not, several times, be
    it right behind or anywhere: stalls that others bring about, and merges of a map, come anywhere, and what
    follows right behind is still of the zone if delays hid its end, and the search went past."""
    size = cache_part.steps.size
    if size - end < 2 * SPARE_BYTES:
        return False  # what stalls everywhere is one cache, or others bring it about
    next_zone = min(2 * end, size)
    return all(_stalls_behind(cache_part, end, to) for to in (next_zone, size) if to - end >= 2 * SPARE_BYTES)


def _stalls_behind(cache_part: CachePart, end: int, to: int) -> bool:
    """Whether it does so for writes from its end to an address. What is behind its end may be full as
    well, of what was written in search of it: then it is emptied, by as many stalls as empty this one."""
    behind = spread(to - end - SPARE_BYTES, BOUND_ROUNDS, SPARE_BYTES, phase=0.3) + np.uint64(end)
    bound = 0
    for address in behind:
        if not cache_part.refill():
            continue
        emptied = _emptied(cache_part, int(address))
        bound += emptied and int(cache_part.put(1).latency_ns[0]) >= cache_part.found.limit_ns
    return bound >= BOUND_ENOUGH


def zones(steps: Steps) -> CacheParts | None:
    """All zones, from the first; None if it is not seen how large they are."""
    try:
        return _zones(steps)
    except Unsettled:
        return None


def _zones(steps: Steps) -> CacheParts | None:
    """All zones, from the first."""
    # Rewriting would leave a log of the zone in use, and other zones as they were.
    lazy = steps.known.word("cleaning_type") != "aggressive"
    older = steps.reset("zone-erase", slow=not lazy) is State.UNKNOWN
    if older and not lazy:
        return None
    cache_part, logs = used_zone_logs.counted(steps) if older else (logged(steps, 0, steps.size, "zone"), 0)
    if cache_part is None:
        return None
    first_within = used_zone_logs.first_within if older else _first_within
    is_bound = used_zone_logs.is_bound if older else _is_bound
    band, filled = cache_part.band_writes * cache_part.size, cache_part.found.first * cache_part.size
    for _ in range(1 if older else SEARCHES):
        end = _end_of_first(cache_part, band, first_within)
        if end is None:
            return None
        if is_bound(cache_part, end):
            count, taken = -(-steps.size // end), logs * band if older else filled
            return CacheParts(count, taken, None, band, cache_part.found.count, 1, older)
    return None


def _end_of_first(
    cache_part: CachePart, band: int, first_within: Callable[[CachePart, list[int]], int | None]
) -> int | None:
    """Where the first zone ends, give or take a band; None where no address is in it.

    It is come upon from above, since only an address within it costs a band to fill again, and what is
    written must stay within it: halving, then in steps of about the root of what is left, then band by
    band."""
    last = cache_part.steps.size // band - 1
    halves = [last // 2**power for power in range(1, last.bit_length())]
    inside = first_within(cache_part, [number * band for number in halves])
    if inside is None:
        return None
    low, high = inside // band, 2 * (inside // band) + 2
    for step in (max(math.isqrt(high - low), 1), 1):
        numbers = range(min(high - step, last - 1), low, -step)
        inside = first_within(cache_part, [number * band for number in numbers]) if numbers else None
        if inside is not None:
            low, high = inside // band, inside // band + step
        else:
            high = low + step
    return high * band
