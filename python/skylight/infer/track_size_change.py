"""Tracks of one size, where those under a few reads have two: a recording zone ends among them, or the data
goes on on a surface of another density.

One slope through tracks of two sizes is that of neither. So the reads are cut in two wherever a piece begins,
each part is fitted alone, and the cut that leaves least is taken where it leaves less than one slope does, by
more than what a slope and a place more explain by chance (twice the penalty of a cut within tracks, as of
`skylight.infer.track_phases`).

Invariant: pure; the tracks that were given where no cut explains more.

Source: Jackson et al., "An algorithm for optimal partitioning of data on an interval" (2005), for the cost.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64
from skylight.infer.remembered import remembered
from skylight.infer.track_phases import CUT_PENALTY_PER_LOG, LEAST_SIGMA, Tracks, centred, fit_tracks

FEWEST_ROWS = 24  # that a slope of its own is fitted to
SMALLER, LARGER = 0.75, 1.3
"""What sizes are looked for, as multiples of that of all reads: zones and surfaces differ by less."""
CAP = 9.0  # a read counts no more than three standard deviations
MOST_CUTS = 2  # one on either side of the address


@remembered
def tracks_at(x: F64, phase: F64, tracks: Tracks, at: float, tick_turns: float = 0.0) -> Tracks:
    """Tracks of the size of that under an address `at`, of reads at addresses `x` that completed at `phase`
    (revolutions) by a clock with a tick of `tick_turns` revolutions; `tracks` were fitted to all of them."""
    for _ in range(MOST_CUTS):
        cut, sides = _best_cut(x, phase, tracks, tick_turns)
        if sides is None:
            break
        is_here = x < cut if at < cut else x >= cut
        x, phase, tracks = x[is_here], phase[is_here], sides[int(at >= cut)]
    return tracks


def _best_cut(
    x: F64, phase: F64, tracks: Tracks, tick_turns: float
) -> tuple[float, tuple[Tracks, Tracks] | None]:
    """The address at which the size changes, and the tracks before and behind; none where it does not."""
    low, high = SMALLER * tracks.track_bytes, LARGER * tracks.track_bytes
    found: list[tuple[float, tuple[Tracks, Tracks]]] = []
    for cut in tracks.begin[1:]:
        before = x < cut
        if min(np.count_nonzero(before), np.count_nonzero(~before)) < FEWEST_ROWS:
            continue
        sides = [fit_tracks(x[rows], phase[rows], low, high, tick_turns) for rows in (before, ~before)]
        if sides[0] is not None and sides[1] is not None:
            found.append((float(cut), (sides[0], sides[1])))
    best: tuple[float, tuple[Tracks, Tracks] | None] = (0.0, None)
    least = np.inf
    for cut, (one, other) in found:
        sigma = max(min(one.sigma, other.sigma), LEAST_SIGMA)
        rows = x < cut
        here = _cost(x[rows], phase[rows], one, sigma) + _cost(x[~rows], phase[~rows], other, sigma)
        here += 2 * _penalty(len(x))
        if here < min(least, _cost(x, phase, tracks, sigma)):
            least, best = here, (cut, (one, other))
    return best


def _penalty(rows: int) -> float:
    """What a piece more has to explain, in squares of standard deviations."""
    return 2 * CUT_PENALTY_PER_LOG * float(np.log(rows))


def _cost(x: F64, phase: F64, tracks: Tracks, sigma: float) -> float:
    """What tracks leave of some reads, and their pieces; reads between pieces count as far off."""
    off = np.square(centred(phase - tracks.phase(x)) / sigma)
    off = np.where(np.isfinite(off), np.minimum(off, CAP), CAP)
    return float(off.sum()) + _penalty(len(x)) * len(tracks.begin)
