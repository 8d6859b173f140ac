"""Where blocks lie around the platter: the turn to a few parts in a million, and tracks from phases.

A block passes under the head at one phase of the turn, whatever the arm did before. So the phase at which a
read completes is the angle of the block's end, plus what the command took longer than the mechanics need. In
reads of scattered blocks, in random order, the phase rises with the address by one turn a track, and jumps by
the skew where a track or a band ends:

* `refined` makes a rough period exact: neighbouring blocks agree in phase at any two times, so the period is
  the one at which the phases of neighbours, read at unrelated times, agree best;
* `fit_tracks` cuts the addresses into pieces that rise with one common slope, each with a level of its own.
  The slope gives the track size, the pieces are tracks, and the levels say at which angle each track lies. No
  skew, layout or band size is assumed: the levels are free, and the cuts are where evidence asks for them.

Invariants: phases are in turns; only differences of phases mean anything. What commands take longer moves
every level by the same, so that differences of angles stay right.

Sources: completions against angle as in Skylight section 4.3 and Worthington, Ganger, Patt and Wilkes,
"On-line extraction of SCSI disk drive parameters" (SIGMETRICS '95); cuts after Jackson et al., "An algorithm
for optimal partitioning of data on an interval" (2005), with a penalty as of the Bayesian information
criterion.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Ints = NDArray[np.intp]

SHORT_WINDOW, LONG_WINDOW = 0.35, 0.7  # turns within which phases must rise evenly
LEAST_SIGMA = 1e-3  # turns: 10 us at 10 ms; no log is finer
OUTLIER_TURNS = 0.12
MOST_SIGMA = 0.05  # turns; jitter of 3 % and 200 us is 0.02 of the fastest turn
ROUGH = 3e-3  # how far off a period may be that is to be refined
CUT_PENALTY_PER_LOG = 2.0  # two parameters a cut, and twice the criterion's half log n
LONGEST_PIECE_TURNS = 1.25
CELLS = 1 << 15  # of a table held at once


@dataclass(frozen=True, slots=True)
class Tracks:
    """Pieces of the address space with one slope: `slope` in turns a byte, and for each piece its first and
    last address looked at, its level (phase at address 0 of the line through it) and its reads."""

    slope: float
    slope_error: float
    begin: F64
    end: F64
    level: F64
    count: Ints
    sigma: float

    @property
    def track_bytes(self) -> float:
        """Bytes that pass in one turn."""
        return 1.0 / self.slope

    def piece(self, x: F64) -> Ints:
        """The piece that each address lies in; -1 between pieces or outside."""
        at = np.searchsorted(self.begin, x, side="right") - 1
        inside = (at >= 0) & (x <= self.end[np.maximum(at, 0)])
        return np.where(inside, at, -1)

    def phase(self, x: F64) -> F64:
        """Phase of each address, turns, 0 to 1; not a number outside the pieces."""
        at = self.piece(x)
        value = np.mod(self.level[np.maximum(at, 0)] + self.slope * x, 1.0)
        return np.where(at >= 0, value, np.nan)

    def turns(self) -> F64:
        """How far each piece reaches, in turns."""
        return np.asarray((self.end - self.begin) * self.slope, np.float64)


def centred(phase: F64) -> F64:
    """Phases as -0.5 to 0.5 turns."""
    return np.asarray(phase - np.round(phase), np.float64)


def phase_of(at_ns: NDArray[np.generic], zero_ns: int, period_ns: float) -> F64:
    """Phase of times, turns, 0 to 1."""
    since = at_ns.astype(np.int64) - zero_ns
    return np.asarray(np.mod(since / period_ns, 1.0), np.float64)


def refined(period_ns: float, at_ns: NDArray[np.generic], x: F64, near_bytes: float) -> float:
    """The period near `period_ns` at which neighbours (closer than `near_bytes`) agree best.

    Goes from short times between neighbours to long ones, so that no turn is ever miscounted."""
    order = np.argsort(x, kind="stable")
    time, where = (at_ns.astype(np.int64) - int(at_ns.min()))[order].astype(np.float64), x[order]
    apart, close = np.diff(time), np.diff(where) < near_bytes
    apart = apart[close]
    if len(apart) < 8:
        return period_ns
    hz = 1.0 / period_ns
    reach = ROUGH * hz
    span = np.percentile(np.abs(apart), 10)
    while True:
        used = apart[np.abs(apart) <= span]
        steps = min(401, 2 * int(np.ceil(reach * span / 0.05)) + 41)
        tried = np.linspace(hz - reach, hz + reach, steps)
        score = np.abs(np.exp(2j * np.pi * np.outer(tried, used)).sum(axis=1))
        hz = float(tried[int(np.argmax(score))])
        if span >= np.abs(apart).max():
            return float(1.0 / hz)
        reach = min(reach, 0.3 / span)
        span *= 4


def fit_tracks(x: F64, phase: F64, low: float, high: float) -> Tracks | None:
    """Tracks of `low` to `high` bytes under reads at addresses `x` that completed at `phase` (turns).

    None where the phases follow no slope."""
    if len(x) < 24:
        return None
    order = np.argsort(x, kind="stable")
    where, turn = x[order].astype(np.float64), phase[order]
    slope = _coarse_slope(where, turn, 1.0 / high, 1.0 / low)
    if slope is None:
        return None
    kept = _without_outliers(where, turn, slope)
    where, turn = where[kept], turn[kept]
    if len(where) < 24:
        return None
    slope = _slope_by_cuts(where, turn, slope)
    starts = _cuts(where, turn, slope)
    for _ in range(3):
        slope, _ = _common_slope(where, turn, slope, starts)
        before, starts = starts, _cuts(where, turn, slope)
        if np.array_equal(before, starts):
            break
    slope, error = _common_slope(where, turn, slope, starts)
    found = _tracks(where, turn, slope, error, starts)
    return found if found.sigma <= MOST_SIGMA else None


def _coherences(where: F64, turn: F64, slopes: F64, window: float) -> F64:
    """For each slope, how well phases less it agree within windows of some turns: 1 all, 0 by chance."""
    rows = len(where)
    found = np.empty(len(slopes))
    step = max(1, CELLS // rows)
    for first in range(0, len(slopes), step):
        rising = slopes[first : first + step, None] * where
        window_of = np.floor(rising / window)
        begins = np.ones(rising.shape, bool)
        np.greater(window_of[:, 1:], window_of[:, :-1], out=begins[:, 1:])
        starts = np.flatnonzero(begins)  # each slope's first row among them
        angle = (2 * np.pi * (turn - rising)).ravel()
        squares = np.add.reduceat(np.cos(angle), starts) ** 2 + np.add.reduceat(np.sin(angle), starts) ** 2
        count = np.diff(np.append(starts, angle.size))
        of_slope = starts // rows
        pairs = np.bincount(of_slope, count * (count - 1.0))
        agreeing = np.bincount(of_slope, squares - count)
        found[first : first + step] = np.where(pairs >= rows, agreeing / np.maximum(pairs, 1.0), 0.0)
    return found


def _coarse_slope(where: F64, turn: F64, low: float, high: float) -> float | None:
    where = where - where[0]
    tried = np.geomspace(low, high, max(2, int(np.ceil(np.log(high / low) / 0.025))))
    scores = _coherences(where, turn, tried, SHORT_WINDOW)
    if scores.max() < 0.4:
        return None
    # The correct slope also explains windows twice as long; a steeper one only short ones.
    good = tried[scores >= 0.85 * scores.max()]
    near = np.unique(np.concatenate([slope * np.linspace(0.96, 1.04, 9) for slope in good]))
    return float(near[int(np.argmax(_coherences(where, turn, near, LONG_WINDOW)))])


def _without_outliers(where: F64, turn: F64, slope: float) -> NDArray[np.bool_]:
    """Rows whose phase some neighbours on one side share: cached blocks and slow commands stand alone."""
    rest = turn - slope * where
    near = np.zeros(len(rest), np.int64)
    for step in (1, 2, 3, 4):
        agree = np.abs(centred(rest[step:] - rest[:-step])) < OUTLIER_TURNS
        near[step:] += agree
        near[:-step] += agree
    return near >= 3


def _sigma(where: F64, turn: F64, slopes: F64) -> float:
    """Scatter of phases from row to row (turns), with the slope that leaves least."""
    step = np.abs(centred(np.diff(turn - slopes[:, None] * where)))
    spread = float(np.median(step, axis=1).min()) / 0.6745
    return max(LEAST_SIGMA, spread / sqrt(2.0))


def _cuts(where: F64, turn: F64, slope: float) -> Ints:
    """First rows of the pieces: least scatter about the pieces' levels, plus a penalty for each piece."""
    _, last = _partition(where, turn, np.array([slope]))
    starts, row = [], len(where)
    while row > 0:
        row = int(last[row])
        starts.append(row)
    return np.array(starts[::-1], np.intp)


def _partition(where: F64, turn: F64, slopes: F64) -> tuple[F64, Ints]:
    """For each slope, the least cost of all rows; for the first slope, where the last piece up to each row
    begins."""
    rows = len(where)
    scale = 1.0 / (2 * np.pi * _sigma(where, turn, slopes)) ** 2
    penalty = CUT_PENALTY_PER_LOG * np.log(rows)
    angle = 2 * np.pi * (turn - slopes[:, None] * where)
    first = np.searchsorted(where, where - LONGEST_PIECE_TURNS / slopes.min())
    wide = int((np.arange(1, rows + 1) - first).max())  # rows of the longest piece
    ahead = ((0, 0), (wide + 1, 0))
    along = [np.pad(np.cumsum(part, axis=1), ahead) for part in (np.cos(angle), np.sin(angle))]
    best = np.full((len(slopes), wide + rows + 1), np.inf)  # row r is column r + wide
    best[:, wide] = 0.0
    last = np.zeros(rows + 1, np.intp)
    step = max(1, CELLS // (wide * len(slopes)))
    for row in range(1, rows + 1):
        at = (row - 1) % step
        if at == 0:
            pieces = scale * _piece_costs(along, row, min(step, rows + 1 - row), wide, first)
        cost = best[:, row : row + wide] + pieces[at]
        best[:, row + wide] = cost.min(axis=1) + penalty
        last[row] = row - wide + cost[0].argmin()
    return best[:, -1], last


def _piece_costs(along: list[F64], row: int, count: int, wide: int, first: Ints) -> F64:
    """For each of `count` rows from `row` on, slope, and piece of at most `wide` rows that ends before the
    row: how many rows the piece has, less how far their phases agree; infinite where it is too long.

    `along` holds the running sums of cosines and sines, with `wide` + 1 zeros in front."""
    cost = np.zeros((count, len(along[0]), wide))
    for sums in along:
        begins = np.lib.stride_tricks.sliding_window_view(sums[:, row : row + wide + count - 1], wide, axis=1)
        apart = sums[:, row + wide : row + wide + count].T[:, :, None] - begins.swapaxes(0, 1)
        cost += np.square(apart, out=apart)
    sizes = np.arange(wide, 0, -1.0)
    ends = np.arange(row, row + count)
    allowed = np.where(ends[:, None] - sizes < first[ends - 1][:, None], np.inf, sizes)
    return np.subtract(allowed[:, None, :], np.sqrt(cost, out=cost), out=cost)


def _slope_by_cuts(where: F64, turn: F64, slope: float) -> float:
    """The slope near a coarse one whose pieces cost least, on the first rows."""
    rows = min(len(where), 240)
    tried = slope * np.linspace(0.9, 1.1, 21)
    costs, _ = _partition(where[:rows], turn[:rows], tried)
    return float(tried[int(np.argmin(costs))])


def _common_slope(where: F64, turn: F64, slope: float, starts: Ints) -> tuple[float, float]:
    """The slope within pieces by least squares, and its standard error."""
    count = np.diff(np.append(starts, len(where)))
    piece = np.repeat(np.arange(len(starts)), count)
    rest = turn - slope * where
    level = np.angle(np.add.reduceat(np.exp(2j * np.pi * rest), starts)) / (2 * np.pi)
    off = centred(rest - level[piece])
    mean_x = np.add.reduceat(where, starts) / count
    mean_off = np.add.reduceat(off, starts) / count
    from_x, from_off = where - mean_x[piece], off - mean_off[piece]
    fine = np.abs(from_off) < OUTLIER_TURNS
    weight = float((from_x[fine] ** 2).sum())
    if weight <= 0:
        return slope, slope
    change = float((from_x * from_off)[fine].sum()) / weight
    spread = float(np.sqrt(np.mean((from_off - change * from_x)[fine] ** 2)))
    return slope + change, max(spread, LEAST_SIGMA) / float(np.sqrt(weight))


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
