"""Where a track ends: the likelihood of a boundary at each sector, from phases around it.

Within a track the phase rises by one revolution per track length; where the next track begins it jumps by the
skew. A track size, a first sector and a skew therefore predict the phases of all reads nearby up to a common
offset, and the misfit rates all three.

Invariant: pure functions. Costs are negative log-likelihoods with large errors capped, so that slow commands
do not matter.

Source: DIG: Gim and Won, "Extract and infer quickly: obtaining sector geometry of modern hard disk drives"
(ACM TOS 6(2), 2010), whose angular prediction this makes statistical.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64
from skylight.geometry.clock import Reads, misfit

CAP = 14.0
CELLS = 1 << 21  # table entries kept in memory at once


@dataclass(frozen=True, slots=True)
class Guess:
    """The best candidate: sectors per track, first sector of a track, skew (revolutions), cost per read."""

    track: float
    first: float
    skew: float
    cost: float


def model(x: I64, track: float, first: float, skew: float) -> F64:
    """Phases of sectors up to a common offset, revolutions."""
    return np.asarray(x / track + skew * np.floor((x - first) / track), np.float64)


def search(reads: Reads, tracks: F64, skews: F64, sigma: float, places: int) -> Guess:
    """The best of the given track sizes and skews, with `places` first sectors spread evenly over a track."""
    start = int(reads.x.min())
    x = (reads.x - start).astype(np.float64)
    best = Guess(0.0, 0.0, 0.0, np.inf)
    for track in tracks:
        firsts = track * np.arange(places) / places
        crossed = np.floor((x[None, :] - firsts[:, None]) / track)
        flat = reads.phase - x / track
        left = flat[None, None, :] - skews[:, None, None] * crossed[None, :, :]
        cost = misfit(left, sigma, CAP)
        at = int(np.argmin(cost))
        if cost.flat[at] < best.cost:
            skew, first = np.unravel_index(at, cost.shape)
            best = Guess(float(track), start + float(firsts[first]), float(skews[skew]), float(cost.flat[at]))
    return Guess(best.track, best.first, best.skew, best.cost / len(reads))


def weights(reads: Reads, firsts: I64, tracks: F64, skews: F64, sigma: float) -> F64:
    """Probability that each sector of `firsts` begins a track, over all sizes and skews; sums to one.

    Reads should lie within one track of it on both sides."""
    x = reads.x[None, :] - int(firsts[0])
    behind = (reads.x[None, :] >= firsts[:, None]).astype(np.float64)
    costs = np.full(len(firsts), np.inf)
    for track in tracks:
        flat = reads.phase[None, :] - x / track
        for skew in skews:
            costs = np.minimum(costs, misfit(flat - skew * behind, sigma, CAP))
    weight = np.exp(-(costs - costs.min()))
    return np.asarray(weight / weight.sum(), np.float64)
