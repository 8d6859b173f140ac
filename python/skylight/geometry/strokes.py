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
from math import inf, log
from statistics import median

import numpy as np

from skylight.geometry.clock import F64

MOST_HEADS = 20
ROUNDED = 8  # sectors: sizes of surfaces are rounded to 4 KiB
STEPS = (0, -ROUNDED, ROUNDED, -1, 1, -2 * ROUNDED, 2 * ROUNDED)
"""How far from a forecast the size of tracks is tried, sectors."""
MOST_OFF = 0.004
RECENT = 6 * MOST_HEADS  # strokes that are looked at for a pattern: an early one missed does not matter long
FEWEST = 3  # strokes past the first zone by which the number of heads is told
RISE = 0.003
MOST_UNEVEN = 0.001  # part by which strokes of different zones differ in tracks
MOST_WHOLE, FEWEST_SINGLE = 0.8, 0.1  # of runs: whole strokes, and strokes that stand alone
MOST_BLURRED = 0.1  # part of a stroke: runs that differ by more may be any number of such strokes


@dataclass(frozen=True, slots=True)
class Pattern:
    """Heads, tracks of a stroke, and the sizes of the strokes so far, one each."""

    heads: int
    tracks: int
    sizes: tuple[int, ...]

    def following(self) -> int | None:
        """The size of tracks of the next stroke: its surface's density in the zones so far, times what the
        strokes of its zone so far say of that, or the last two zones."""
        zone, place = divmod(len(self.sizes), self.heads)
        if zone < 2:
            return _forecast(self.sizes, self.heads, len(self.sizes))
        density, means = densities(self.sizes, self.heads)
        order = density if zone % 2 == 0 else density[::-1]
        own = np.array(self.sizes[zone * self.heads :], np.float64)
        mean = float((own / order[:place]).mean()) if place else 2 * means[-1] - means[-2]
        return round(float(mean * order[place]) / ROUNDED) * ROUNDED


def densities(sizes: Sequence[int], heads: int) -> tuple[F64, F64]:
    """Sizes of each surface's tracks as parts of their zone's mean, and the mean of each whole zone."""
    rows = np.array(sizes[: len(sizes) // heads * heads], np.float64).reshape(-1, heads)
    rows[1::2] = rows[1::2, ::-1]
    means = rows.mean(axis=1)
    return np.median(rows / means[:, None], axis=0), means


def expanded(runs: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
    """The usual number of tracks of a stroke, and the size of each; of runs (tracks, size) in which
    neighbouring strokes of one size are one run."""
    usual = _usual([tracks for tracks, _ in runs])
    sizes: list[int] = []
    for tracks, size in runs:
        sizes += [size] * max(1, round(tracks / usual))
    return usual, sizes


def _usual(tracks: Sequence[int]) -> int:
    """The least number of tracks of a run of which most are a multiple or nearly; else the commonest."""
    counts = Counter(max(number, 1) for number in tracks)
    for least in sorted(counts):
        near = {count: often for count, often in counts.items() if abs(count - least) <= _uneven(least)}
        if sum(near.values()) < FEWEST_SINGLE * len(tracks) or _uneven(max(counts)) > MOST_BLURRED * least:
            continue
        whole = sum(
            often
            for count, often in counts.items()
            if abs(count - least * round(count / least)) <= _uneven(count)
        )
        if whole >= MOST_WHOLE * len(tracks):
            return max(near, key=lambda count: near[count])
    return counts.most_common(1)[0][0]


def _uneven(tracks: int) -> float:
    """By how much runs of about so many tracks may differ and yet be as many strokes."""
    return max(2.0, MOST_UNEVEN * tracks)


def stroke_tracks(runs: Sequence[tuple[int, int]]) -> int:
    """The tracks of the next stroke: those of the last one, since the strokes of a zone have the same, or the
    usual number where the last run is no whole strokes near it."""
    usual = expanded(runs)[0]
    last = runs[-1][0]
    tracks, rest = divmod(last, max(1, round(last / usual)))
    return tracks if rest == 0 and abs(tracks - usual) <= _uneven(usual) else usual


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
    return round(sizes[mirror] * median(shares) / ROUNDED) * ROUNDED


def pattern(runs: Sequence[tuple[int, int]]) -> Pattern | None:
    """The number of heads with which the last strokes foretell each other best; None where none does, or
    where sizes only fall."""
    if len(runs) < 2:
        return None
    tracks, sizes = expanded(runs)
    if not rises(sizes):
        return None
    costs = {heads: _cost(sizes, heads) for heads in range(2, MOST_HEADS + 1)}
    heads = min(costs, key=lambda number: costs[number])  # of equals the least: a multiple repeats as well
    return Pattern(heads, tracks, tuple(sizes)) if np.isfinite(costs[heads]) else None


def _cost(sizes: Sequence[int], heads: int) -> float:
    """What it takes to tell the sizes of the last strokes if there are so many heads: of each by how much its
    forecast is off, in the logarithm, or what neighbours differ by where there is no forecast. Infinite where
    forecasts are too few, or off by more than sizes are rounded."""
    begin = max(0, len(sizes) - RECENT)
    usual = float(np.abs(np.diff(sizes[begin:])).mean())
    count, total, beyond = 0, 0.0, 0.0
    for index in range(len(sizes) - 1, begin - 1, -1):
        size = _forecast(sizes, heads, index)
        off = usual if size is None else abs(sizes[index] - size)
        total += log(1 + 2 * off / ROUNDED)
        if size is not None:
            count += 1
            beyond += off / max(MOST_OFF * sizes[index], ROUNDED)
            if beyond > len(sizes) - begin:
                return inf
    return total if count >= FEWEST and beyond <= count else inf
