"""Verifies a track grid at a place with a few reads on both sides of the boundaries that it predicts.

The last sector of a track and the first of the next differ in phase by a skew; two neighbouring sectors of
one track do not. A pair of reads therefore shows whether a boundary lies exactly where the grid predicts it;
a wrong grid is right by chance once in as many cases as a track has sectors. Pairs come alternately from two
tracks that begin about half a revolution apart, so that no read waits a whole revolution; pairs are added
until the result is likely enough.

Invariant: no sector is read twice in a row, and the later sector of a pair is read before the earlier one, so
neither look-ahead nor the buffer of the drive answers a read.

Source: Wald's sequential probability ratio test; docs/geometry.md, "Verifying a grid".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64
from skylight.geometry.clock import Platter, circular_median
from skylight.geometry.track_size import Grid
from skylight.infer.track_phases import centred

SURE = 9.0  # log-likelihood ratio: one in 8,000
MOST_ROUNDS = 8
CAP, OTHER = 5.0, 3.5  # largest log-likelihood of one pair for a boundary, and against it
MOST_AGAINST = 0.2
MOST_APART = 24
LAST_READS, NEAREST_READS = 3, 3


@dataclass(frozen=True, slots=True)
class Skews:
    """Observed skews (revolutions), most frequent first, and the number of tracks after which a track begins
    about half a revolution later."""

    seen: F64
    apart: int

    @staticmethod
    def of(seen: F64) -> Skews:
        """Chooses the number of tracks for the most frequent skew."""
        tracks = np.arange(1, MOST_APART + 1)
        off_half = np.abs(centred(np.asarray(tracks * float(seen[0]) - 0.5, np.float64)))
        return Skews(seen, int(tracks[int(np.argmin(off_half + 0.004 * tracks))]))


def phase_jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
    """For each first sector of a track, its phase minus that of the sector before it and the width of a
    sector; revolutions, -0.5 to 0.5. Tracks are read in alternating pairs."""
    order: list[int] = []
    for number in range(0, len(firsts), 2):
        pair = firsts[number : number + 2]
        order += [*pair, *(first - 1 for first in pair)]
    reads = platter.read(name, [order[0] + 2, *order])
    phase = dict(zip(reads.x.tolist(), reads.phase.tolist(), strict=True))
    return centred(np.array([phase[first] - phase[first - 1] - 1 / track for first in firsts]))


def verify_grid(platter: Platter, grid: Grid, sector: float, direction: int, skews: Skews) -> bool:
    """Whether the grid is valid on the tracks that begin after a sector (`direction` 1) or before it (-1).
    The track that begins at the sector itself is skipped, because it may belong to another grid too."""
    begin = grid.at(sector)
    if direction < 0 and begin < sector:
        begin += grid.track
    step = direction * grid.track
    ratios: list[float] = []
    sigma = 1.6 * platter.clock.sigma
    for number in range(MOST_ROUNDS):
        one = begin + step * (number + 1)
        pair = [first for first in (one, one + step * skews.apart) if 2 < first < platter.sectors - 4]
        if not pair:
            break
        for jump in phase_jumps(platter, "holds", pair, grid.track):
            off = float(np.abs(centred(jump - skews.seen)).min())
            there = min((off / sigma) ** 2 / 2, OTHER)
            ratios.append(min((jump / sigma) ** 2 / 2, CAP) - there)
        if sum(ratios) < -SURE or (sum(ratios) > SURE and _agree(ratios)):
            break
    if sum(ratios) <= 0 or not _agree(ratios):
        return False
    # An edge one or two tracks away shows only in the nearest boundary.
    return ratios[0] >= 0 or track_begins(platter, grid, begin + step, skews)


def _agree(ratios: list[float]) -> bool:
    """Whether few enough pairs contradict the boundaries. One of four may be a late read, so more pairs are
    read."""
    return sum(ratio < 0 for ratio in ratios) <= MOST_AGAINST * len(ratios)


def track_begins(platter: Platter, grid: Grid, first: int, skews: Skews) -> bool:
    """Whether a track begins at a sector, from that boundary alone; repeated reads outvote a late one."""
    other = first + grid.track * skews.apart
    other = other if other < platter.sectors - 4 else first - grid.track * skews.apart
    found = [phase_jumps(platter, "nearest", [first, other], grid.track)[0] for _ in range(NEAREST_READS)]
    jump = circular_median(np.array(found))
    return bool(np.abs(centred(jump - skews.seen)).min() < abs(float(centred(np.array(jump)))))


def last_track_start(platter: Platter, grid: Grid, near: int, skews: Skews) -> int | None:
    """The first sector of the grid's last track, at most one track from the predicted one; None if the grid
    continues or ended before."""
    firsts = [near + grid.track * number for number in range(-1, 3)]
    if firsts[-1] >= platter.sectors - 4:
        return None
    found = np.array([phase_jumps(platter, "last", firsts, grid.track) for _ in range(LAST_READS)])
    off = np.abs(centred(found[:, :, None] - skews.seen)).min(axis=2)
    there = np.median(off - np.abs(found), axis=0) < 0
    count = int(np.argmin(there)) if not there.all() else len(firsts)
    return firsts[count - 1] if 0 < count < len(firsts) else None


def observed_skews(platter: Platter, grid: Grid, tracks: int) -> Skews | None:
    """The skews at successive track boundaries; None if the boundaries show none."""
    few = [grid.first + grid.track * number for number in range(1, 7)]
    usual = float(np.median(np.mod(phase_jumps(platter, "skews", few, grid.track), 1.0)))
    apart = Skews.of(np.array([usual])).apart
    firsts: list[int] = []
    for number in range(0, tracks, 2 * apart):
        for inner in range(apart):
            firsts += [grid.first + grid.track * (7 + number + inner + more) for more in (0, apart)]
    found = np.mod(
        phase_jumps(platter, "skews", [first for first in firsts if first < platter.sectors], grid.track), 1
    )
    centres = _clusters(found, 2.5 * platter.clock.sigma)
    return Skews.of(centres) if len(centres) else None


def _clusters(values: F64, width: float) -> F64:
    """Medians of groups of values, most frequent first; isolated values are ignored."""
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
