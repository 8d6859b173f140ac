"""Does a grid of tracks still hold somewhere? A few reads on both sides of boundaries that it foretells.

The last sector of a track and the first of the next differ in phase by a skew; two neighbouring sectors of
one track do not. So pairs of reads tell whether a boundary lies exactly where a grid says, which for a wrong
grid is as likely as one in the sectors of a track. Pairs of two tracks that begin about half a turn apart are
read in turns, so that no read waits a whole turn; pairs are added until one side is likely enough.

Invariant: no sector is read twice in a row, and the later sector of a pair is read before the earlier one: a
drive's look-ahead or buffer answers neither.

Source: Wald's sequential test of the likelihood ratio; docs/geometry.md, "Does it hold?".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.geometry.clock import F64, Platter, circular_median
from skylight.geometry.survey import Grid
from skylight.infer.turning import centred

SURE = 9.0  # of the log of the likelihood ratio: one in 8,000
MOST_ROUNDS = 8
CAP, OTHER = 5.0, 3.5  # most that one pair says for a boundary, and against it
MOST_AGAINST = 0.2
MOST_APART = 24
LAST_READS, NEAREST_READS = 3, 3


@dataclass(frozen=True, slots=True)
class Skews:
    """Skews that were seen (turns), the commonest first, and the tracks after which the start of a track has
    moved about half a turn."""

    seen: F64
    apart: int

    @staticmethod
    def of(seen: F64) -> Skews:
        """With the best number of tracks for the commonest skew."""
        tracks = np.arange(1, MOST_APART + 1)
        turned = np.abs(centred(np.asarray(tracks * float(seen[0]) - 0.5, np.float64)))
        return Skews(seen, int(tracks[int(np.argmin(turned + 0.004 * tracks))]))


def jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
    """For each first sector of a track, how far its phase lies past that of the sector before it, more than a
    sector's width; turns, -0.5 to 0.5. Two and two are read in turns."""
    order: list[int] = []
    for number in range(0, len(firsts), 2):
        pair = firsts[number : number + 2]
        order += [*pair, *(first - 1 for first in pair)]
    reads = platter.read(name, [order[0] + 2, *order])
    phase = dict(zip(reads.x.tolist(), reads.phase.tolist(), strict=True))
    return centred(np.array([phase[first] - phase[first - 1] - 1 / track for first in firsts]))


def holds(platter: Platter, grid: Grid, place: float, way: int, skews: Skews) -> bool:
    """Whether the grid holds on the tracks that begin after a place (`way` 1), or before it (-1): a track
    that begins at the very place may do so in another grid too."""
    begin = grid.at(place)
    if way < 0 and begin < place:
        begin += grid.track
    step = way * grid.track
    ratios: list[float] = []
    sigma = 1.6 * platter.clock.sigma
    for number in range(MOST_ROUNDS):
        one = begin + step * (number + 1)
        pair = [first for first in (one, one + step * skews.apart) if 2 < first < platter.sectors - 4]
        if not pair:
            break
        for jump in jumps(platter, "holds", pair, grid.track):
            off = float(np.abs(centred(jump - skews.seen)).min())
            there = min((off / sigma) ** 2 / 2, OTHER)
            ratios.append(min((jump / sigma) ** 2 / 2, CAP) - there)
        if sum(ratios) < -SURE or (sum(ratios) > SURE and _agree(ratios)):
            break
    if sum(ratios) <= 0 or not _agree(ratios):
        return False
    # An edge a track or two away speaks in the nearest boundary alone.
    return ratios[0] >= 0 or begins(platter, grid, begin + step, skews)


def _agree(ratios: list[float]) -> bool:
    """Whether hardly any pair speaks against a boundary: one of four may be a read that came late, and asks
    for more of them."""
    return sum(ratio < 0 for ratio in ratios) <= MOST_AGAINST * len(ratios)


def begins(platter: Platter, grid: Grid, first: int, skews: Skews) -> bool:
    """Whether a track begins at a sector, by that boundary alone and as often as a late read needs."""
    other = first + grid.track * skews.apart
    other = other if other < platter.sectors - 4 else first - grid.track * skews.apart
    found = [jumps(platter, "nearest", [first, other], grid.track)[0] for _ in range(NEAREST_READS)]
    jump = circular_median(np.array(found))
    return bool(np.abs(centred(jump - skews.seen)).min() < abs(float(centred(np.array(jump)))))


def last_start(platter: Platter, grid: Grid, near: int, skews: Skews) -> int | None:
    """The last first sector of a track of the grid, at most a track from one that it foretells; None where
    the grid goes on or ended before."""
    firsts = [near + grid.track * number for number in range(-1, 3)]
    if firsts[-1] >= platter.sectors - 4:
        return None
    found = np.array([jumps(platter, "last", firsts, grid.track) for _ in range(LAST_READS)])
    off = np.abs(centred(found[:, :, None] - skews.seen)).min(axis=2)
    there = np.median(off - np.abs(found), axis=0) < 0
    count = int(np.argmin(there)) if not there.all() else len(firsts)
    return firsts[count - 1] if 0 < count < len(firsts) else None


def seen_skews(platter: Platter, grid: Grid, tracks: int) -> Skews | None:
    """The skews at some successive ends of tracks; None where the ends show none."""
    few = [grid.first + grid.track * number for number in range(1, 7)]
    usual = float(np.median(np.mod(jumps(platter, "skews", few, grid.track), 1.0)))
    apart = Skews.of(np.array([usual])).apart
    firsts: list[int] = []
    for number in range(0, tracks, 2 * apart):
        for inner in range(apart):
            firsts += [grid.first + grid.track * (7 + number + inner + more) for more in (0, apart)]
    found = np.mod(
        jumps(platter, "skews", [first for first in firsts if first < platter.sectors], grid.track), 1
    )
    centres = _clusters(found, 2.5 * platter.clock.sigma)
    return Skews.of(centres) if len(centres) else None


def _clusters(values: F64, width: float) -> F64:
    """Middles of groups of values, the most frequent first; values that stand alone count for none."""
    left, centres, counts = np.sort(values), [], []
    while len(left):
        near = np.abs(centred(left[:, None] - left[None, :])) < width
        best = int(np.argmax(near.sum(axis=1)))
        middle = left[best] + float(np.median(centred(left[near[best]] - left[best])))
        mine = np.abs(centred(left - middle)) < 1.6 * width
        if mine.sum() < 2:
            break
        if abs(centred(np.array(middle))) > width:
            centres.append(float(np.mod(middle, 1.0)))
            counts.append(int(mine.sum()))
        left = left[~mine]
    return np.array([centre for centre, count in zip(centres, counts, strict=True) if count >= 2])
