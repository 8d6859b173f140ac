"""Horizontal zones whose surfaces differ in density: many short runs of tracks, foretold from the ones
before.

Such a disk walks a whole zone on one surface, then on the next, and the next zone in the opposite order.
Each stroke has as many tracks as the others of its zone, and its own size of tracks: that of its surface,
which is in the same proportion to its neighbours in every zone. So once a few strokes were found the slow
way, the next edge and the next size are foretold, and only confirmed.

Invariant: pure functions; a forecast is a guess that is read for, never a result.

Source: Skylight (FAST '15), section 4.9 and Figure 18 (horizontal zones, plateaus of surfaces); Krevat,
Tucek and Ganger (HotOS '11) for surfaces of different density.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MOST_HEADS = 20
STEPS = (0, -8, 8, -1, 1, -16, 16)
"""How far from a forecast the size of tracks is tried, sectors: sizes of surfaces are rounded to 4 KiB."""
MOST_OFF = 0.004
FEWEST = 3  # strokes past the first zone by which the number of heads is told
RISE = 0.003


@dataclass(frozen=True, slots=True)
class Pattern:
    """Heads, tracks of a stroke, and the sizes of the strokes so far, one each."""

    heads: int
    tracks: int
    sizes: tuple[int, ...]

    def following(self) -> int | None:
        """The size of tracks of the next stroke."""
        return _forecast(self.sizes, self.heads, len(self.sizes))


def expanded(runs: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
    """The usual number of tracks of a run, and the size of each stroke; of runs (tracks, size) in which
    neighbouring strokes of one size are one run."""
    usual = Counter(tracks for tracks, _ in runs).most_common(1)[0][0]
    sizes: list[int] = []
    for tracks, size in runs:
        sizes += [size] * max(1, round(tracks / usual))
    return usual, sizes


def rises(sizes: Sequence[int]) -> bool:
    """Whether the sizes of tracks grow somewhere: that no taper does."""
    return any(after > before * (1 + RISE) for before, after in pairwise(sizes))


def _forecast(sizes: Sequence[int], heads: int, index: int) -> int | None:
    """The size of a stroke from those before it: its surface's in the zone before, less the taper."""
    zone, place = divmod(index, heads)
    if zone == 0:
        return None
    mirror = (zone - 1) * heads + heads - 1 - place
    if place > 0:
        shares = [sizes[zone * heads + n] / sizes[(zone - 1) * heads + heads - 1 - n] for n in range(place)]
    elif zone > 1:
        shares = [
            sizes[(zone - 1) * heads + n] / sizes[(zone - 2) * heads + heads - 1 - n] for n in range(heads)
        ]
    else:
        return None
    return round(sizes[mirror] * float(np.median(shares)) / 8) * 8


def pattern(runs: Sequence[tuple[int, int]]) -> Pattern | None:
    """The least number of heads with which the strokes so far foretell each other; None where none does,
    or where sizes only fall."""
    if len(runs) < 2:
        return None
    tracks, sizes = expanded(runs)
    if not rises(sizes):
        return None
    for heads in range(2, MOST_HEADS + 1):
        off = [
            abs(size / forecast - 1)
            for index, size in enumerate(sizes)
            if (forecast := _forecast(sizes, heads, index)) is not None
        ]
        if len(off) >= FEWEST and float(np.mean(off)) <= MOST_OFF:
            return Pattern(heads, tracks, tuple(sizes))  # a multiple of the heads would repeat as well
    return None
