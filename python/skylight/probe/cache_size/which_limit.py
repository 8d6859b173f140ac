"""Which limit ended a fill of a cache in which no two writes share an entry: its places, or its map.

Invariant: pure functions of fills.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.probe.band_size.cache_parts import DEPTH
from skylight.probe.cache_size.fill import Fill

SAME = 0.03
"""As many, give or take: two counts of one limit differ by an entry's writes at most."""


def told_apart(fills: Sequence[Fill], larger: Sequence[Fill]) -> tuple[int | None, int | None]:
    """Places and map entries, by writes that take a place and a map entry each, and larger ones that take
    several places: these are as many as before where the map was full, and take as many places as before
    where the places were. Else both limits were met, the map's first."""
    if fills[-1].quanta != 1 or not larger or not larger[-1].ended:
        return None, None
    writes, in_larger = (sum(fill.writes for fill in each) for each in (fills, larger))
    places, slack = sum(fill.places for fill in larger), DEPTH * larger[-1].quanta
    if places <= (1 + SAME) * writes + slack:
        return writes, None
    return (None if in_larger >= (1 - SAME) * writes else places), writes


def lone_writes(fills: Sequence[Fill]) -> int | None:
    """Writes of one place and one map entry each until cleaning, whichever of both ended the fill; None where
    it did not end, or went on with larger ones."""
    ended = bool(fills) and fills[-1].ended and fills[-1].quanta == 1
    return sum(fill.writes for fill in fills) if ended else None
