"""Arm times from reaches: the step to the next track, and the curve over the whole stroke.

The reach of a block from another track, less the reach within a track, is arm time: overhead and transfer
cancel. Two things stand between that and `seek_ns`:

* the track that comes next in address may lie on another surface: `skylight.infer.adjacent_tracks` tells;
* addresses do not say at which radius they lie. `fit_curve` needs none: times from the outermost and from the
  innermost place to the others depend on one radius each, and distances add up.

Invariants: pure functions; a value that the times do not determine is None.

Source: the curve's form, a constant, a root and a linear part, after Ruemmler and Wilkes, "An introduction to
disk drive modeling" (1994).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, IoLog
from skylight.infer.minimum_access_time import Reach
from skylight.infer.robust import NORMAL_MEDIAN
from skylight.infer.track_phases import Tracks, centred, phasors
from skylight.probe.rotation.track_fit import Turn, ideals, in_chunks, reaches

FEWEST_TRACKS = 6
WHOLE_TURNS = 0.9
MOST_SHIFT_TURNS, BESIDE = 0.08, 3
"""How far the middles of so many whole tracks may seem off the raster of as many before them. Chosen: reads
of a forty-eighth of a track leave the ends of a single one so far apart once in a thousand."""
COARSE_NS = 150_000.0  # a reach no finer than this says nothing about neighbours


def whole_tracks(tracks: Tracks) -> list[int]:
    """The pieces that are whole tracks: those of the longest run, or all where runs are short, as in bands of
    a few tracks each."""
    longest = _longest_run(tracks)
    if len(longest) >= FEWEST_TRACKS:
        return longest
    return [int(piece) for piece in np.flatnonzero(tracks.turns() >= WHOLE_TURNS)]


def are_in_short_bands(tracks: Tracks) -> bool:
    """Whether whole tracks lie in runs too short to say how tracks are walked."""
    return len(_longest_run(tracks)) < FEWEST_TRACKS


def _longest_run(tracks: Tracks) -> list[int]:
    """The whole tracks of the longest run of addresses in which one begins wherever the one before has ended.
    Where none does, a band may end, and the next may lie anywhere."""
    whole = np.flatnonzero(tracks.turns() >= WHOLE_TURNS)
    middle = (tracks.begin[whole] + tracks.end[whole]) / 2 * tracks.slope
    off = np.concatenate([[0.0], np.cumsum(centred(np.diff(middle)))])[: len(whole)]
    # Medians, for what one piece seems off it may be for a stray read.
    cuts = [
        at
        for at in range(1, len(whole))
        if abs(np.median(off[at : at + BESIDE]) - np.median(off[max(at - BESIDE, 0) : at])) > MOST_SHIFT_TURNS
    ]
    return [int(piece) for piece in max(np.split(whole, cuts), key=len)]


def next_pairs(tracks: Tracks) -> list[tuple[int, int]]:
    """Whole tracks that follow each other in address."""
    whole = set(whole_tracks(tracks))
    return [(piece, piece + 1) for piece in sorted(whole) if piece + 1 in whole]


def apart_pairs(tracks: Tracks) -> list[tuple[int, int]]:
    """The first and the middle whole track with each of the others but the next: what looks like a cylinder
    from one of them is not also one from the other."""
    whole = whole_tracks(tracks)
    pairs = []
    for base in (0, len(whole) // 2):
        others = [other for number, other in enumerate(whole) if abs(number - base) > 1]
        pairs += [(whole[base], other) for other in others]
    return pairs


def hop_reaches(log: IoLog, tracks: Tracks, turn: Turn, count: int) -> list[Reach | None]:
    """The reach of each pair of a step of hops, `count` reads a pair."""
    if len(log) == 0:
        return []
    model = tracks.phase(log.offset.astype(np.float64))
    ideal = ideals(log, model, in_chunks(len(log)), turn)
    rows = np.arange(len(log))
    key = np.where(rows % count == 0, -1, rows // count)
    return reaches(ideal, key, len(log) // count, turn.period_ns)


def pooled_reaches(log: IoLog, tracks: Tracks, turn: Turn, count: int, kinds: int = 1) -> list[Reach | None]:
    """The reach of all hops of each kind together; kinds take turns, `count` reads each."""
    if len(log) == 0:
        return [None] * kinds
    model = tracks.phase(log.offset.astype(np.float64))
    ideal = ideals(log, model, in_chunks(len(log)), turn)
    rows = np.arange(len(log))
    key = np.where(rows % count == 0, -1, rows // count % kinds)
    return reaches(ideal, key, kinds, turn.period_ns)


def star_reaches(log: IoLog, hub: Tracks, others: list[Tracks], turn: Turn, count: int) -> list[Reach | None]:
    """The reach between the hub and each other place."""
    if len(log) == 0:
        return []
    x = log.offset.astype(np.float64)
    rows = np.arange(len(log))
    key, at_hub = rows // count, rows % 2 == 1
    model = np.where(at_hub, hub.phase(x), 0.0)
    for number, other in enumerate(others):
        mine = (key == number) & ~at_hub
        model[mine] = other.phase(x[mine])
    ideal = ideals(log, model, 2 * key + at_hub, turn)
    key[0] = -1
    return reaches(ideal, key, len(log) // count, turn.period_ns)


def bracketed(reach: Reach | None) -> Reach | None:
    """A reach with reads on both sides of its edge; None where all were caught, or all missed."""
    return reach if reach is not None and reach.half_ns <= COARSE_NS else None


def track_numbers(tracks: Tracks) -> I64:
    """The number of each piece's track in the order of addresses: pieces that a stray read cut count once.
    Whole tracks tell where tracks begin; the first piece may be a part of one."""
    whole = tracks.turns() >= WHOLE_TURNS
    begins = tracks.begin[whole] if whole.any() else tracks.begin
    origin = float(np.angle(phasors(begins * tracks.slope).sum())) / (2 * np.pi)
    number = np.floor((tracks.begin + tracks.end) / 2 * tracks.slope - origin)
    return np.asarray(number - number[0], np.int64)


@dataclass(frozen=True, slots=True)
class Curve:
    """A seek curve over the stroke: `constant + root * sqrt(x) + linear * x`, ns, for a share x of the tracks
    between the two ends; the shares of the places it was fitted to, its residual, and the range of the third
    that fits nearly as well."""

    constant_ns: float
    root_ns: float
    linear_ns: float
    share: F64
    residual_ns: float
    third_ns: tuple[float, float]

    def ns(self, x: F64 | float) -> F64:
        """Arm time over a share of the stroke."""
        part = np.asarray(x, np.float64)
        return np.asarray(self.constant_ns + self.root_ns * np.sqrt(part) + self.linear_ns * part, np.float64)


STEPS = 801


def fit_curve(from_outer: F64, from_inner: F64, full_ns: float, noise_ns: float) -> Curve | None:
    """The curve from arm times of each place from both ends (nan where not known) and over all; `noise_ns` is
    what one such time may be off."""
    seen = np.isfinite(from_outer) & np.isfinite(from_inner)
    if int(seen.sum()) < 4 or not full_ns > 0:
        return None
    outer, inner = from_outer[seen], from_inner[seen]
    grid = np.linspace(0.0, 1.0, STEPS)
    shares = [
        (constant, bend) for constant in np.linspace(0.0, 0.5, 26) for bend in np.linspace(0.0, 1.0, 26)
    ]
    cost = np.array([_misfit(outer, inner, full_ns, grid, *each, noise_ns)[0] for each in shares])
    best = shares[int(np.argmin(cost))]
    _, at = _misfit(outer, inner, full_ns, grid, *best, noise_ns)
    near = [each for each, value in zip(shares, cost, strict=True) if value <= cost.min() * 1.15 + 4.0]
    third = [_share_ns(full_ns, *each) for each in near]
    constant, bend = best
    curve = Curve(
        constant_ns=constant * full_ns,
        root_ns=bend * (1 - constant) * full_ns,
        linear_ns=(1 - bend) * (1 - constant) * full_ns,
        share=np.full(len(seen), np.nan),
        residual_ns=0.0,
        third_ns=(min(third), max(third)),
    )
    curve.share[seen] = grid[at]
    off = np.concatenate([curve.ns(grid[at]) - outer, curve.ns(1 - grid[at]) - inner])
    return Curve(
        curve.constant_ns, curve.root_ns, curve.linear_ns, curve.share,
        float(np.median(np.abs(off)) / NORMAL_MEDIAN), curve.third_ns,
    )  # fmt: skip


def _share_ns(full_ns: float, constant: float, bend: float, part: float = 1 / 3) -> float:
    rest = bend * np.sqrt(part) + (1 - bend) * part
    return float(full_ns * (constant + (1 - constant) * rest))


def _misfit(
    outer: F64, inner: F64, full_ns: float, grid: F64, constant: float, bend: float, noise_ns: float
) -> tuple[float, NDArray[np.intp]]:
    """Squared misfit of all places in units of the noise, each at its best share of the stroke; large ones
    count no more than nine."""
    rest = bend * np.sqrt(grid) + (1 - bend) * grid
    curve = full_ns * (constant + (1 - constant) * rest)
    back = curve[::-1]
    # The squares of both differences, but for those of the times: they are the same at every share.
    table = np.stack([curve**2 + back**2, curve, back])
    weight = np.stack([np.ones(len(outer)), -2 * outer, -2 * inner], axis=1)
    at = (weight @ table).argmin(axis=1)
    off = ((curve[at] - outer) ** 2 + (back[at] - inner) ** 2) / noise_ns**2
    return float(np.minimum(off, 18.0).sum()), at
