"""A survey: the exact first sector of a track near a sector, and the exact number of sectors per track.

A comb of reads over a little more than one track finds both roughly. Rounds of a few reads, placed to halve
the likelihood, then locate the boundary to the sector; the next boundary, one track on, is located likewise.
Their distance is the track size, which is confirmed at a boundary several tracks on.

Invariant: the result is exact or None. A survey across an irregular boundary (an edge of a zone, a defect)
returns None; another sector nearby may succeed.

Source: docs/geometry.md, "The idea".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64
from skylight.geometry.clock import Platter, Reads
from skylight.geometry.track_boundary import Guess, search, weights

COMB_REVOLUTIONS, COMB_READS = 1.4, 32
FINEST = 0.005  # relative step between candidate track sizes: over a comb, 0.007 revolutions
PLACES = 48
ASKED, ANCHORS = 6, 4
MOST_ROUNDS = 9
SURE = 0.998
LARGEST_COST = 3.0  # per read: half the square of a deviation of 2.4 times the scatter
CONFIRM_TRACKS = 12


@dataclass(frozen=True, slots=True)
class Grid:
    """Tracks of `track` sectors, one of which begins at `first`."""

    track: int
    first: int

    def at(self, sector: float) -> int:
        """The first sector of the track that a sector would lie on."""
        return self.first + int((sector - self.first) // self.track) * self.track

    def agrees(self, other: Grid) -> bool:
        """Whether both predict the same boundaries."""
        return self.track == other.track and (self.first - other.first) % self.track == 0


def survey(
    platter: Platter, place: int, low: float, high: float, skews: F64, confirm: int = CONFIRM_TRACKS
) -> Grid | None:
    """The grid around sector `place`, of tracks of `low` to `high` sectors; confirmed `confirm` tracks on."""
    guess, reads = _comb(platter, place, low, high, skews)
    if guess is None:
        return None
    doubt = FINEST + 0.5 / guess.track + platter.clock.sigma
    tracks = guess.track * (1 + np.linspace(-doubt, doubt, 5))
    near = np.unique(np.concatenate([skews, [guess.skew]]))
    width = guess.track / PLACES + 2 * guess.track / COMB_READS
    first = pinned(platter, reads, int(guess.first - width), int(guess.first + width), tracks, near)
    if first is None:
        return None
    low, high = (first + int(guess.track * (1 + part * doubt)) for part in (-2, 2))
    following = pinned(platter, reads, low, high + 1, tracks, near)
    if following is None:
        return None
    return confirmed(platter, Grid(following - first, first), near, confirm)


def _comb(platter: Platter, place: int, low: float, high: float, skews: F64) -> tuple[Guess | None, Reads]:
    span = COMB_REVOLUTIONS * high
    start = min(max(place - int(span / 2), 0), platter.sectors - int(span) - 1)
    x = start + np.linspace(0, span, COMB_READS).astype(np.int64)
    order = platter.ordered(x, x / ((low + high) / 2))
    reads = platter.read("comb", np.concatenate([order[-1:] - 1, order]))
    tracks = np.geomspace(low, high, max(2, int(np.ceil(np.log(high / low) / FINEST)) + 1))
    guess = search(reads, tracks, skews, platter.clock.sigma, PLACES)
    if guess.cost > LARGEST_COST:
        return None, reads
    while guess.first < reads.x.min() + 0.15 * guess.track:
        guess = Guess(guess.track, guess.first + guess.track, guess.skew, guess.cost)
    return guess, reads


def pinned(platter: Platter, before: Reads, low: int, high: int, tracks: F64, skews: F64) -> int | None:
    """The sector from `low` to `high` at which a track begins; reads in rounds until one is likely enough."""
    track = float(np.median(tracks))
    firsts = np.arange(low, high + 1)
    reads = before.near(low - 0.9 * track, high + 0.9 * track)
    rng = platter.steps.rng("pin")
    weight = np.full(len(firsts), 1.0 / len(firsts))
    for number in range(MOST_ROUNDS):
        asked = _round(firsts, weight, track, number, rng)
        order = platter.ordered(asked, asked / track)
        more = platter.read("pin", np.concatenate([order[-1:] + 1, order]))
        reads = Reads.joined([reads, more])
        weight = weights(reads, firsts, tracks, skews, platter.clock.sigma)
        best = int(np.argmax(weight))
        if weight[best] > SURE and number > 0:
            inside = 0 < best < len(firsts) - 1
            return int(firsts[best]) if inside else None
    return None


def _round(firsts: I64, weight: F64, track: float, number: int, rng: np.random.Generator) -> I64:
    """Sectors at quantiles of the likelihood, and some about half a revolution away on both tracks."""
    cumulated = np.cumsum(weight)
    parts = (np.arange(ASKED) + 0.5) / ASKED
    at = firsts[np.minimum(np.searchsorted(cumulated, parts), len(firsts) - 1)]
    if np.ptp(at) < 4:  # both sides of the most likely
        best = int(firsts[int(np.argmax(weight))])
        at = best + np.array([-1, 0, -2, 1, -1, 0])
    middle = float(np.median(at))
    away = track * (0.3 + 0.3 * rng.random(ANCHORS)) * np.where(np.arange(ANCHORS) % 2 == 0, 1, -1)
    del number
    return np.concatenate([at, np.rint(middle + away).astype(np.int64)])


def confirmed(platter: Platter, grid: Grid, skews: F64, tracks: int) -> Grid | None:
    """The grid if a boundary `tracks` tracks on lies where it predicts; if that boundary lies nearby, the
    grid with the track size that explains it."""
    directions = (1, -1) if grid.first + (tracks + 2) * grid.track < platter.sectors else (-1, 1)
    for direction in directions:
        aim = grid.first + direction * tracks * grid.track
        if not grid.track < aim < platter.sectors - grid.track:
            continue
        found = pinned(
            platter, Reads(np.empty(0, np.int64), np.empty(0)), aim - tracks, aim + tracks,
            np.array([float(grid.track)]), skews,
        )  # fmt: skip
        if found is not None and (found - grid.first) % tracks == 0:
            return Grid(abs(found - grid.first) // tracks, grid.first)
    return None
