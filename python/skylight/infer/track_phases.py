"""Where blocks lie around the platter: the revolution to a few parts in a million, and tracks from phases.

A block passes under the head at one phase of the revolution, whatever the arm did before. So the phase at
which a read completes is the angle of the block's end, plus what the command took longer than the mechanics
need. In reads of scattered blocks, in random order, the phase rises with the address by one revolution a
track, and jumps by the skew where a track or a band ends:

* `refined` makes a rough period exact: neighbouring blocks agree in phase at any two times, so the period is
  the one at which the phases of neighbours, read at unrelated times, agree best;
* `fit_tracks` cuts the addresses into pieces that rise with one common slope, each with a level of its own.
  The slope gives the track size, the pieces are tracks, and the levels say at which angle each track lies. No
  skew, layout or band size is assumed: the levels are free, and the cuts are where evidence asks for them.

Invariants: phases are in revolutions; only differences of phases mean anything. What commands take longer
moves every level by the same, so that differences of angles stay right.

Sources: completions against angle as in Skylight section 4.3 and Worthington, Ganger, Patt and Wilkes,
"On-line extraction of SCSI disk drive parameters" (SIGMETRICS '95); cuts after Jackson et al., "An algorithm
for optimal partitioning of data on an interval" (2005), with a penalty as of the Bayesian information
criterion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, U64
from skylight.infer.host_clock import TICK_DEVIATION
from skylight.infer.remembered import remembered
from skylight.infer.robust import NORMAL_MEDIAN
from skylight.infer.track_borders import track_by_borders
from skylight.segmentation import agreed_pieces, cut_pieces

Ints = NDArray[np.intp]
Complex = NDArray[np.complex128]

SHORT_WINDOW, LONG_WINDOW = 0.35, 0.7  # revolutions within which phases must rise evenly
LEAST_SIGMA = 1e-3  # revolutions: 10 us at 10 ms; no log is finer
OUTLIER_TURNS = 0.12  # beside what the tick of the clock adds
MOST_SIGMA = 0.05
"""Revolutions, beside what the tick of the clock adds; jitter of 3 % and 200 us is 0.02 of the fastest."""
FEWEST_PAIRS = 8
PEAK = 0.1  # revolutions over the longest time: farther off lies no longer the same peak
ROUGH = 3e-3  # how far off a period may be that is to be refined
SLOPE_ROOM = 0.1  # by which a slope may leave the coarse one, and the range it was looked for in
CUT_PENALTY_PER_LOG = 2.0  # two parameters a cut, and twice the criterion's half log n
LONGEST_PIECE_TURNS = 1.25
LEAST_JUMP, JUMP_ERRORS = 0.015, 3.0
"""By how much of a revolution, and by how many errors, levels have to differ for a track to end between them.
A switch takes half a millisecond at least, 0.035 of the longest revolutions; a third of the cuts that noise
with long tails, as of other clients, makes within tracks are by 0.003 to 0.006 (drive 97045 drawn)."""
FEWEST_ROWS = 3  # of a piece that lies within another: so few are blocks that came late
LOCKED = 0.5
"""Of what a tick scatters: chosen, between nothing, as where a revolution is a whole number of ticks, and
all."""
NOISE_TURNS = 0.03  # what a read beyond its tick counts at most: jitter, no stray
LOCKED_ERRORS = 4.0
"""How much larger errors are there than of reads that scatter independently. Chosen: of 110 made-up places
with a clock of four ticks a revolution nine in ten were within three of these, seven a fifth off."""
BORDER_ERRORS = 3.0
"""Standard errors that the size by borders may be off that by angles: chance exceeds them once in 370."""
TICK_STEPS = 200
"""Steps towards the slope between ticks: what is left falls with one over their number, to a hundredth of a
tick."""
CELLS = 1 << 14  # of a table held at once


@dataclass(frozen=True, slots=True)
class Tracks:
    """Pieces of the address space with one slope: `slope` in revolutions a byte, and for each piece its first
    and last address looked at, its level (phase at address 0 of the line through it) and its reads."""

    slope: float
    slope_error: float
    begin: F64
    end: F64
    level: F64
    count: Ints
    sigma: float

    @property
    def track_bytes(self) -> float:
        """Bytes that pass in one revolution."""
        return 1.0 / self.slope

    def piece(self, x: F64) -> Ints:
        """The piece that each address lies in; -1 between pieces or outside."""
        at = np.searchsorted(self.begin, x, side="right") - 1
        inside = (at >= 0) & (x <= self.end[np.maximum(at, 0)])
        return np.where(inside, at, -1)

    def phase(self, x: F64) -> F64:
        """Phase of each address, revolutions, 0 to 1; not a number outside the pieces."""
        at = self.piece(x)
        value = np.mod(self.level[np.maximum(at, 0)] + self.slope * x, 1.0)
        return np.where(at >= 0, value, np.nan)

    def turns(self) -> F64:
        """How far each piece reaches, in revolutions."""
        return np.asarray((self.end - self.begin) * self.slope, np.float64)


def centred(phase: F64) -> F64:
    """Phases as -0.5 to 0.5 revolutions."""
    return np.asarray(phase - np.round(phase), np.float64)


def phase_of(at_ns: NDArray[np.generic], zero_ns: int, period_ns: float) -> F64:
    """Phase of times, revolutions, 0 to 1."""
    since = at_ns.astype(np.int64) - zero_ns
    return np.asarray(np.mod(since / period_ns, 1.0), np.float64)


def _apart(at_ns: NDArray[np.generic], x: F64, near_bytes: float) -> F64:
    """Times between neighbours closer than `near_bytes`, ns, by address."""
    order = np.argsort(x, kind="stable")
    time, where = (at_ns.astype(np.int64) - int(at_ns.min()))[order].astype(np.float64), x[order]
    apart, close = np.diff(time), np.diff(where) < near_bytes
    return np.asarray(apart[close], np.float64)


def refined(period_ns: float, at_ns: NDArray[np.generic], x: F64, near_bytes: float) -> float:
    """The period near `period_ns` at which neighbours (closer than `near_bytes`) agree best.

    Goes from short times between neighbours to long ones, so that no revolution is ever miscounted."""
    apart = _apart(at_ns, x, near_bytes)
    if len(apart) < FEWEST_PAIRS:
        return period_ns
    hz = 1.0 / period_ns
    reach = ROUGH * hz
    span = np.percentile(np.abs(apart), 10)
    while True:
        used = apart[np.abs(apart) <= span]
        steps = min(401, 2 * int(np.ceil(reach * span / 0.05)) + 41)
        tried = np.linspace(hz - reach, hz + reach, steps)
        score = np.abs(phasors(np.outer(tried, used)).sum(axis=1))
        hz = float(tried[int(np.argmax(score))])
        if span >= np.abs(apart).max():
            return float(1.0 / hz)
        reach = min(reach, 0.3 / span)
        span *= 4


def agreement(period_ns: float, at_ns: NDArray[np.generic], x: F64, near_bytes: float) -> float:
    """How well neighbours agree in phase at a period: 1 all, 0 by chance; 0 of too few."""
    apart = _apart(at_ns, x, near_bytes)
    return float(np.abs(phasors(apart / period_ns).mean())) if len(apart) >= FEWEST_PAIRS else 0.0


def settled(period_ns: float, at_ns: NDArray[np.generic], x: F64, near_bytes: float) -> tuple[float, float]:
    """The period of `refined` between the steps of its search, and its standard error (relative).

    Where the mean vector is longest its slope is zero (Newton's steps), and how much the terms of that slope
    scatter says how well it is known, whatever their distribution; neighbouring terms share a read, so their
    products count too (the sandwich estimator with one lag). A period that would leave the peak is not
    taken; its error is then that of the search."""
    apart = _apart(at_ns, x, near_bytes)
    if len(apart) < FEWEST_PAIRS:
        return period_ns, 1.0
    begin = hz = 1.0 / period_ns
    widest = PEAK / float(np.abs(apart).max())
    for _ in range(3):
        slope, bend = _slope_at(hz, apart)
        if bend <= 0 or abs(hz - slope.sum() / bend - begin) > widest:
            return period_ns, widest * period_ns
        hz -= float(slope.sum()) / bend
    slope, bend = _slope_at(hz, apart)
    variance = float((slope**2).sum() + 2 * (slope[1:] * slope[:-1]).sum())
    return 1.0 / hz, float(np.sqrt(max(variance, 0.0))) / bend / hz


def _slope_at(hz: float, apart: F64) -> tuple[F64, float]:
    """Each pair's part of the slope of the mean vector's length at a frequency, and how it bends."""
    vector = np.exp(2j * np.pi * hz * apart)
    off = np.angle(vector * np.conj(vector.sum()))
    return np.sin(off) * apart, float((2 * np.pi * np.cos(off) * apart**2).sum())


@remembered
def fit_tracks(x: F64, phase: F64, low: float, high: float, tick_turns: float = 0.0) -> Tracks | None:
    """Tracks of `low` to `high` bytes under reads at addresses `x` that completed at `phase` (revolutions),
    by a clock with a tick of `tick_turns` revolutions.

    None where the phases follow no slope."""
    if len(x) < 24:
        return None
    order = np.argsort(x, kind="stable")
    where, turn = x[order].astype(np.float64), phase[order]
    slope = _coarse_slope(where, turn, 1.0 / high, 1.0 / low)
    if slope is None:
        return None
    kept = _without_outliers(where, turn, slope, OUTLIER_TURNS + tick_turns)
    where, turn = where[kept], turn[kept]
    if len(where) < 24:
        return None
    least = hypot(LEAST_SIGMA, TICK_DEVIATION * tick_turns)
    # Where neighbours agree far better than the tick lets them, all revolutions have it at the same angles.
    locked_turns = tick_turns if _scatter(where, turn, np.array([slope])) < LOCKED * least else 0.0
    least = max(least, locked_turns / 2)  # what neighbours share does not average
    slope = _slope_by_cuts(where, turn, slope, least)
    # Without the rows that the tick alone moved far, any slope near the right one would be left as it is.
    off_turns = OUTLIER_TURNS + tick_turns / 2
    starts = _cuts(where, turn, slope, least)
    for _ in range(3):
        slope, _ = _common_slope(where, turn, slope, starts, off_turns)
        slope = _between_ticks(where, turn, slope, starts, locked_turns)
        if not (1 - SLOPE_ROOM) / high <= slope <= (1 + SLOPE_ROOM) / low:
            return None
        before, starts = starts, _cuts(where, turn, slope, least)
        if np.array_equal(before, starts):
            break
    found = _joined_tracks(where, turn, slope, starts, off_turns, locked_turns)
    if TICK_DEVIATION * tick_turns > LEAST_SIGMA:
        found = _with_borders(found, LOCKED_ERRORS if locked_turns else 1.0)
    return found if found.sigma <= hypot(MOST_SIGMA, TICK_DEVIATION * tick_turns) else None


def _joined_tracks(
    where: F64, turn: F64, slope: float, starts: Ints, off_turns: float, locked_turns: float
) -> Tracks:
    """Tracks from pieces near one slope, with those joined that are parts of one track."""
    pieces = len(starts) + 1
    while len(starts) < pieces:
        pieces = len(starts)
        # A slope a little off makes room for cuts within tracks, and they for it: each join shows more.
        slope, _ = _common_slope(where, turn, slope, starts, off_turns)
        slope = _between_ticks(where, turn, slope, starts, locked_turns)
        left, starts = _joined(where, turn, slope, starts)
        where, turn = where[left], turn[left]
    slope, error = _common_slope(where, turn, slope, starts, off_turns)
    slope = _between_ticks(where, turn, slope, starts, locked_turns)
    error *= LOCKED_ERRORS if locked_turns else 1.0
    return _tracks(where, turn, slope, error, starts)


def _with_borders(tracks: Tracks, times: float) -> Tracks:
    """Tracks of a size that their borders show as well, where ticks of a clock are what angles scatter by.
    The error of borders counts `times` times, for a tick at one angle in all revolutions may hide a skew.
    Those given where the two contradict each other: then borders are not those of tracks."""
    slope, error = tracks.slope, tracks.slope_error
    by_borders = track_by_borders(tracks.begin, tracks.end, tracks.track_bytes)
    if by_borders is None:
        return tracks
    other, other_error = 1.0 / by_borders[0], times * by_borders[1] / by_borders[0] ** 2
    if abs(other - slope) > BORDER_ERRORS * hypot(error, other_error):
        return tracks
    weight, other_weight = error**-2, other_error**-2
    whole = weight + other_weight
    better = (weight * slope + other_weight * other) / whole
    # What is known of each track is the angle at its middle.
    level = tracks.level + (slope - better) * (tracks.begin + tracks.end) / 2
    return replace(tracks, slope=better, slope_error=whole**-0.5, level=level)


def _coarse_slope(where: F64, turn: F64, low: float, high: float) -> float | None:
    where = where - where[0]
    tried = np.geomspace(low, high, max(2, int(np.ceil(np.log(high / low) / 0.025))))
    scores = np.concatenate(
        [
            _coherences(some * where, phasors(turn - some * where), SHORT_WINDOW)
            for some in _columns(tried, len(where))
        ]
    )
    if scores.max() < 0.4:
        return None
    # The correct slope also explains windows twice as long; a steeper one only short ones.
    good = tried[scores >= 0.85 * scores.max()]
    return max(_best_near(where, turn, some) for some in _columns(good, len(where)))[1]


def _columns(slopes: F64, rows: int) -> list[F64]:
    """Slopes as columns, as many in each as make a table with so many rows."""
    step = max(1, CELLS // rows)
    return [slopes[first : first + step, None] for first in range(0, len(slopes), step)]


def _best_near(where: F64, turn: F64, slopes: F64) -> tuple[float, float]:
    """How well the best slope near some explains long windows, and which it is."""
    near = np.linspace(0.96, 1.04, 9)
    vectors = phasors(turn - near[0] * slopes * where)
    on = phasors(-(near[1] - near[0]) * slopes * where)  # from each of these to the next
    scores = np.empty((len(near), len(slopes)))
    for number, part in enumerate(near):
        scores[number] = _coherences(part * slopes * where, vectors, LONG_WINDOW)
        vectors *= on
    best, which = np.unravel_index(int(np.argmax(scores)), scores.shape)
    return float(scores[best, which]), float(slopes[which, 0] * near[best])


def phasors(turns: F64) -> Complex:
    """Phase vectors of phases (revolutions): four times as fast as the exponential of a complex number."""
    angle = 2 * np.pi * turns
    found = np.empty(turns.shape, np.complex128)
    np.cos(angle, out=found.real)
    np.sin(angle, out=found.imag)
    return found


def _coherences(rising: F64, vectors: Complex, window: float) -> F64:
    """For each row, a slope, how well phase vectors less it agree within windows of some revolutions: 1 all,
    0 by chance. `rising` are the revolutions by which phases rise with such a slope."""
    rows = rising.shape[1]
    window_of = np.floor(rising / window)
    begins = np.ones(rising.shape, bool)
    np.greater(window_of[:, 1:], window_of[:, :-1], out=begins[:, 1:])
    starts = np.flatnonzero(begins)  # each slope's first row among them
    sums = np.add.reduceat(vectors.ravel(), starts)
    squares = sums.real**2 + sums.imag**2
    count = np.diff(np.append(starts, rising.size))
    of_slope = starts // rows
    pairs = np.bincount(of_slope, count * (count - 1.0))
    agreeing = np.bincount(of_slope, squares - count)
    return np.where(pairs >= rows, agreeing / np.maximum(pairs, 1.0), 0.0)


def _without_outliers(where: F64, turn: F64, slope: float, apart: float) -> NDArray[np.bool_]:
    """Rows whose phase some neighbours on one side share, to so many revolutions: cached blocks and slow
    commands stand alone."""
    rest = turn - slope * where
    near = np.zeros(len(rest), np.int64)
    for step in (1, 2, 3, 4):
        agree = np.abs(centred(rest[step:] - rest[:-step])) < apart
        near[step:] += agree
        near[:-step] += agree
    return near >= 3


def _scatter(where: F64, turn: F64, slopes: F64) -> float:
    """Scatter of phases from row to row (revolutions), with the slope that leaves least."""
    step = np.sort(np.abs(centred(np.diff(turn - slopes[:, None] * where))), axis=1)
    middle = step.shape[1] // 2
    spread = float(((step[:, middle] + step[:, -1 - middle]) / 2).min()) / NORMAL_MEDIAN
    return spread / sqrt(2.0)


def _cuts(where: F64, turn: F64, slope: float, least: float) -> Ints:
    """First rows of the pieces whose phases agree most, less a penalty for each piece."""
    slopes = np.array([slope])
    cosines, sines, firsts = _columns_of(where, turn, slopes)
    starts = cut_pieces(cosines[0], sines[0], firsts, _penalty(where, turn, slopes, least))
    return starts.astype(np.intp)


def _joined(where: F64, turn: F64, slope: float, starts: Ints) -> tuple[Ints, Ints]:
    """Rows that are left, and first rows of pieces among them, once parts of one track are joined: neighbours
    at one level, and those with few rows between, which came late and are left out."""
    pieces = _tracks(where, turn, slope, 0.0, starts)
    rows, levels = list[Ints](), list[float]()
    for here, level in zip(np.split(np.arange(len(where)), starts[1:]), pieces.level, strict=True):
        for back in range(1, len(rows) + 1):
            if sum(map(len, rows[len(rows) - back + 1 :])) > FEWEST_ROWS:
                break
            before, shift = rows[-back], float(centred(np.array(level - levels[-back])))
            error = pieces.sigma * sqrt(1 / len(before) + 1 / len(here))
            is_short = (where[here[-1]] - where[before[0]]) * slope <= LONGEST_PIECE_TURNS
            if is_short and abs(shift) <= max(LEAST_JUMP, JUMP_ERRORS * error):
                whole = np.concatenate([before, here])
                levels[-back:] = [levels[-back] + shift * len(here) / len(whole)]
                rows[-back:] = [whole]
                break
        if not rows or rows[-1][-1] != here[-1]:
            rows.append(here)
            levels.append(float(level))
    first = np.cumsum([0, *(len(each) for each in rows[:-1])])
    return np.concatenate(rows).astype(np.intp), first.astype(np.intp)


def _most_agreed(where: F64, turn: F64, slopes: F64, least: float) -> F64:
    """For each slope, how far the phases of its best pieces agree, less a penalty for each piece."""
    return agreed_pieces(*_columns_of(where, turn, slopes), _penalty(where, turn, slopes, least))


def _penalty(where: F64, turn: F64, slopes: F64, least: float) -> float:
    """How much more phases have to agree for one piece more, in rows that agree wholly; they scatter by
    `least` at least (revolutions)."""
    sigma = max(least, _scatter(where, turn, slopes))
    return float(CUT_PENALTY_PER_LOG * np.log(len(where)) * (2 * np.pi * sigma) ** 2)


def _columns_of(where: F64, turn: F64, slopes: F64) -> tuple[F64, F64, U64]:
    """Cosines and sines of the phases less each slope, a row a slope; and for each address the first one at
    which a piece that ends with it may begin."""
    angle = 2 * np.pi * (turn - slopes[:, None] * where)
    firsts = np.searchsorted(where, where - LONGEST_PIECE_TURNS / slopes.min())
    return np.cos(angle), np.sin(angle), firsts.astype(np.uint64)


def _slope_by_cuts(where: F64, turn: F64, slope: float, least: float) -> float:
    """The slope near a coarse one whose pieces agree best, on the first rows."""
    rows = min(len(where), 240)
    tried = slope * np.linspace(1 - SLOPE_ROOM, 1 + SLOPE_ROOM, 21)
    return float(tried[int(np.argmax(_most_agreed(where[:rows], turn[:rows], tried, least)))])


def _common_slope(where: F64, turn: F64, slope: float, starts: Ints, off_turns: float) -> tuple[float, float]:
    """The slope within pieces by least squares of rows that are off by no more than so many revolutions, and
    its standard error."""
    count = np.diff(np.append(starts, len(where)))
    piece = np.repeat(np.arange(len(starts)), count)
    rest = turn - slope * where
    level = np.angle(np.add.reduceat(np.exp(2j * np.pi * rest), starts)) / (2 * np.pi)
    off = centred(rest - level[piece])
    mean_x = np.add.reduceat(where, starts) / count
    mean_off = np.add.reduceat(off, starts) / count
    from_x, from_off = where - mean_x[piece], off - mean_off[piece]
    fine = np.abs(from_off) < off_turns
    weight = float((from_x[fine] ** 2).sum())
    if weight <= 0:
        return slope, slope
    change = float((from_x * from_off)[fine].sum()) / weight
    spread = float(np.sqrt(np.mean((from_off - change * from_x)[fine] ** 2)))
    return slope + change, max(spread, LEAST_SIGMA) / float(np.sqrt(weight))


def _between_ticks(where: F64, turn: F64, slope: float, starts: Ints, tick_turns: float) -> float:
    """The slope near one at which rows are within half a tick of their pieces, as nearly as can be; the one
    that was given without a tick.

    Where a revolution is a whole number of ticks, a clock reads each block at the same tick again. Phases are
    a staircase, and least squares through four stairs is off by a sixteenth: what a stair holds is an
    interval, not a value. So only what is beyond it moves the line (a quadratic loss without a middle)."""
    if not tick_turns:
        return slope
    count = np.diff(np.append(starts, len(where)))
    piece = np.repeat(np.arange(len(starts)), count)
    from_x = where - (np.add.reduceat(where, starts) / count)[piece]
    weight = float((from_x**2).sum())
    rest = turn - slope * from_x
    level = np.angle(np.add.reduceat(np.exp(2j * np.pi * rest), starts)) / (2 * np.pi)
    for _ in range(TICK_STEPS if weight > 0 else 0):
        off = centred(turn - slope * from_x - level[piece])
        beyond = off - np.clip(off, -tick_turns / 2, tick_turns / 2)
        beyond = np.clip(np.where(np.abs(beyond) > OUTLIER_TURNS, 0.0, beyond), -NOISE_TURNS, NOISE_TURNS)
        level = level + np.add.reduceat(beyond, starts) / count
        slope += float((from_x * beyond).sum()) / weight
    return slope


def _tracks(where: F64, turn: F64, slope: float, error: float, starts: Ints) -> Tracks:
    count = np.diff(np.append(starts, len(where)))
    ends = np.append(starts[1:], len(where)) - 1
    rest = turn - slope * where
    level = np.angle(np.add.reduceat(np.exp(2j * np.pi * rest), starts)) / (2 * np.pi)
    off = centred(rest - np.repeat(level, count))
    return Tracks(
        slope=slope,
        slope_error=error,
        begin=where[starts],
        end=where[ends],
        level=level + np.add.reduceat(off, starts) / count,
        count=count.astype(np.intp),
        sigma=float(np.sqrt(np.mean(off**2))),
    )
