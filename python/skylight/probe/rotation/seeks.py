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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, IoLog
from skylight.infer.adjacent_tracks import MOST_HEADS, NextTrack, next_track
from skylight.infer.minimum_access_time import Reach
from skylight.infer.robust import NORMAL_MEDIAN
from skylight.infer.track_phases import Tracks, centred, phasors
from skylight.infer.tracks_in_bands import next_in_bands
from skylight.probe.rotation.track_fit import Turn, ideals, in_chunks, reaches

Pair = tuple[int, int]
FEWEST_TRACKS = 6
WHOLE_TURNS = 0.9
MOST_SHIFT_TURNS, BESIDE = 0.08, 3
"""How far the middles of so many whole tracks may seem off the raster of as many before them. Chosen: reads
of a forty-eighth of a track leave the ends of a single one so far apart once in a thousand."""
COARSE_NS = 150_000.0  # a reach no finer than this says nothing about neighbours


def whole_tracks(tracks: Tracks) -> list[int]:
    """The pieces that are whole tracks: those of the longest run, or all where runs are short, as in bands of
    a few tracks each. A run no longer than the highest cylinder may lie in one, and then shows no step."""
    longest = longest_run(tracks)
    return longest if len(longest) > MOST_HEADS else _all_whole(tracks)


def _all_whole(tracks: Tracks) -> list[int]:
    return [int(piece) for piece in np.flatnonzero(tracks.turns() >= WHOLE_TURNS)]


def are_in_short_bands(tracks: Tracks) -> bool:
    """Whether whole tracks lie in runs too short to say how tracks are walked."""
    return len(longest_run(tracks)) < FEWEST_TRACKS


def longest_run(tracks: Tracks) -> list[int]:
    """The whole tracks of the longest of the runs."""
    return max(runs(tracks), key=len)


def runs(tracks: Tracks) -> list[list[int]]:
    """The whole tracks in runs of addresses in which one begins wherever the one before has ended. Where none
    does, a band may end, and the next may lie anywhere."""
    whole = np.flatnonzero(tracks.turns() >= WHOLE_TURNS)
    middle = (tracks.begin[whole] + tracks.end[whole]) / 2 * tracks.slope
    off = np.concatenate([[0.0], np.cumsum(centred(np.diff(middle)))])[: len(whole)]
    # Medians, for what one piece seems off it may be for a stray read.
    cuts = [
        at
        for at in range(1, len(whole))
        if abs(np.median(off[at : at + BESIDE]) - np.median(off[max(at - BESIDE, 0) : at])) > MOST_SHIFT_TURNS
    ]
    return [[int(piece) for piece in run] for run in np.split(whole, cuts)]


def in_one_run(tracks: Tracks, pieces: I64) -> NDArray[np.bool_]:
    """The pairs of pieces (rows) that lie in one run."""
    run = np.full(len(tracks.begin), -1)
    for number, some in enumerate(runs(tracks)):
        run[some] = number
    return np.asarray((run[pieces[:, 0]] == run[pieces[:, 1]]) & (run[pieces[:, 0]] >= 0), np.bool_)


def next_pairs(tracks: Tracks) -> list[tuple[int, int]]:
    """Whole tracks that follow each other in address."""
    whole = set(whole_tracks(tracks))
    return [(piece, piece + 1) for piece in sorted(whole) if piece + 1 in whole]


def apart_pairs(tracks: Tracks) -> list[tuple[int, int]]:
    """The first and the middle whole track of the longest run, or of all where runs are short, with each of
    the others but the next: what looks like a cylinder from one of them is not also one from the other."""
    whole = whole_tracks(tracks)
    among = whole if are_in_short_bands(tracks) else longest_run(tracks)
    pairs = []
    for base in (among[0], among[len(among) // 2]) if among else ():
        at = whole.index(base)
        pairs += [(base, other) for number, other in enumerate(whole) if abs(number - at) > 1]
    return pairs


def step_of(tracks: Tracks, following: dict[Pair, float], apart: dict[Pair, float]) -> NextTrack | None:
    """The step to the next track of a surface from arm times (ns) between pieces, of which some follow each
    other: as the longest run shows it, or else as all bands do. Its pairs are of pieces."""
    # A pair that seems to take less than none was misread: the angles of one of its pieces are wrong.
    times = {pair: ns for pair, ns in (following | apart).items() if ns > 0}
    if not times:
        return None
    pieces, times_ns = np.array(list(times)), np.array(list(times.values()))
    in_longest = np.isin(pieces, longest_run(tracks)).all(axis=1)
    if in_longest.any() and not are_in_short_bands(tracks):
        found = _step_in_run(tracks, pieces[in_longest], times_ns[in_longest])
        if found is not None or in_longest.all():
            return found
    is_next = np.array([pair in following for pair in times])
    shows = is_next | ~in_one_run(tracks, pieces)
    return next_in_bands(pieces[shows, 0], pieces[shows, 1], times_ns[shows], is_next[shows])


def _step_in_run(tracks: Tracks, pieces: I64, times_ns: F64) -> NextTrack | None:
    number = track_numbers(tracks)[pieces]
    found = next_track(number[:, 0], number[:, 1], times_ns)
    if found is None:
        return None
    by_number = {
        tuple(map(int, pair)): tuple(map(int, piece)) for pair, piece in zip(number, pieces, strict=True)
    }
    return replace(found, pairs=tuple((by_number[pair][0], by_number[pair][1]) for pair in found.pairs))


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


def stretches_ns(log: IoLog, tracks: Tracks, turn: Turn, count: int) -> tuple[F64, F64]:
    """The reaches of single stretches of `count` hops of two kinds that take turns, ns; of each kind those
    that are known well enough."""
    found = [bracketed(reach) for reach in hop_reaches(log, tracks, turn, count)]
    first, second = (np.array([reach.ns for reach in found[kind::2] if reach is not None]) for kind in (0, 1))
    return first, second


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
