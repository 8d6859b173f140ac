"""Horizontal zones whose surfaces differ in density: many short runs of tracks, each predicted from the runs
before.

Such a disk uses a whole zone on one surface, then on the next, and the next zone in the opposite order. A
*pass*, all tracks of a zone on one surface, has as many tracks as the other passes of its zone, and a track
size proportional to the density of its surface in every zone. Once a few passes were found by searching, the
next edge and the next size are predicted and only confirmed.

Invariant: pure functions; a prediction is always verified by reads, never a result.

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

from skylight.evidence import F64

MOST_HEADS = 20
ROUNDED = 8  # sectors: sizes of surfaces are rounded to 4 KiB
STEPS = (0, -ROUNDED, ROUNDED, -1, 1, -2 * ROUNDED, 2 * ROUNDED)
"""Deviations from a predicted track size that are tried, sectors."""
MOST_OFF = 0.004
RECENT = (
    6 * MOST_HEADS
)  # passes that are searched for a pattern, so that an early missed pass is soon forgotten
FEWEST = 3  # passes beyond the first zone needed to determine the number of heads
RISE = 0.003
MOST_UNEVEN = 0.001  # relative difference in tracks between passes of different zones
MOST_WHOLE, FEWEST_SINGLE = 0.8, 0.1  # share of runs: whole numbers of passes, and single passes
MOST_BLURRED = 0.1  # share of a pass: if runs differ by more, their number of passes is ambiguous


@dataclass(frozen=True, slots=True)
class Pattern:
    """Heads, tracks per pass, and the track size of each pass so far."""

    heads: int
    tracks: int
    sizes: tuple[int, ...]

    def following(self) -> int | None:
        """The track size of the next pass: the density of its surface, times the zone's mean from its passes
        so far or else extrapolated from the last two zones."""
        zone, place = divmod(len(self.sizes), self.heads)
        if zone < 2:
            return _predicted_size(self.sizes, self.heads, len(self.sizes))
        density, means = densities(self.sizes, self.heads)
        order = density if zone % 2 == 0 else density[::-1]
        own = np.array(self.sizes[zone * self.heads :], np.float64)
        mean = float((own / order[:place]).mean()) if place else 2 * means[-1] - means[-2]
        return round(float(mean * order[place]) / ROUNDED) * ROUNDED


def densities(sizes: Sequence[int], heads: int) -> tuple[F64, F64]:
    """Track sizes of each surface relative to the mean of their zone, and the mean of each whole zone."""
    rows = np.array(sizes[: len(sizes) // heads * heads], np.float64).reshape(-1, heads)
    rows[1::2] = rows[1::2, ::-1]
    means = rows.mean(axis=1)
    return np.median(rows / means[:, None], axis=0), means


def expanded(runs: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
    """The usual number of tracks of a pass, and the track size of each pass. In `runs` (tracks, size),
    successive passes of one size are one run."""
    usual = _usual([tracks for tracks, _ in runs])
    sizes: list[int] = []
    for tracks, size in runs:
        sizes += [size] * max(1, round(tracks / usual))
    return usual, sizes


def _usual(tracks: Sequence[int]) -> int:
    """The smallest number of tracks of a run of which most runs are nearly a multiple; else the most
    frequent."""
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
    """By how much runs of about `tracks` tracks may differ and still be equal numbers of passes."""
    return max(2.0, MOST_UNEVEN * tracks)


def pass_tracks(runs: Sequence[tuple[int, int]]) -> int:
    """The tracks of the next pass: as many as in the last run, because the passes of a zone have equally
    many; the usual number if the last run is not close to a whole number of passes."""
    usual = expanded(runs)[0]
    last = runs[-1][0]
    tracks, rest = divmod(last, max(1, round(last / usual)))
    return tracks if rest == 0 and abs(tracks - usual) <= _uneven(usual) else usual


def rises(sizes: Sequence[int]) -> bool:
    """Whether track sizes increase somewhere, which they never do in a taper."""
    return any(after > before * (1 + RISE) for before, after in pairwise(sizes))


def _predicted_size(sizes: Sequence[int], heads: int, index: int) -> int | None:
    """The track size of a pass from those before it: that of its surface in the zone before, reduced by the
    taper."""
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
    """The number of heads with which the last passes predict each other best; None if no number does, or if
    sizes only fall."""
    if len(runs) < 2:
        return None
    tracks, sizes = expanded(runs)
    if not rises(sizes):
        return None
    costs = {heads: _cost(sizes, heads) for heads in range(2, MOST_HEADS + 1)}
    heads = min(costs, key=lambda number: costs[number])  # the smallest of equals, since multiples repeat too
    return Pattern(heads, tracks, tuple(sizes)) if np.isfinite(costs[heads]) else None


def _cost(sizes: Sequence[int], heads: int) -> float:
    """Description length of the sizes of the last passes for a number of heads: the logarithm of the
    prediction error of each, or of the mean difference of neighbours if there is no prediction. Infinite if
    predictions are too few, or wrong by more than sizes are rounded."""
    begin = max(0, len(sizes) - RECENT)
    usual = float(np.abs(np.diff(sizes[begin:])).mean())
    count, total, beyond = 0, 0.0, 0.0
    for index in range(len(sizes) - 1, begin - 1, -1):
        size = _predicted_size(sizes, heads, index)
        off = usual if size is None else abs(sizes[index] - size)
        total += log(1 + 2 * off / ROUNDED)
        if size is not None:
            count += 1
            beyond += off / max(MOST_OFF * sizes[index], ROUNDED)
            if beyond > len(sizes) - begin:
                return inf
    return total if count >= FEWEST and beyond <= count else inf
