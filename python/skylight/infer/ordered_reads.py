"""What reads in address order say when they miss the platter's angle: rotation, tracks, and where blocks lie.

One read at a time, look-ahead off: a block that lies where its neighbour lay one reading before passes whole
revolutions and a small step later. So the times between reads of one class (every read, every second, ...)
fall into clusters one revolution apart (`turn_of`); the step is the block's share of the track, and it jumps
by the skew where a track begins, every so many reads: the track's size (`marks_of`). Where every second block
lies elsewhere, a read's latency is the way there or back plus a wait that is even over a revolution: its
quantiles, each less its share of a revolution, are estimates of that way (`floors`).

Invariants: pure functions, times in one unit in and out; None where the times do not carry an answer. A
revolution is claimed only when different numbers of revolutions are seen *and* the angle advances from read
to read: completions on a timer's tick do the first, not the second.

Source: Skylight (FAST '15) section 4.4, Test 2 and Figure 8; docs/tests/fragmented-reads.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64

SHORTEST_TURN_NS, LONGEST_TURN_NS = 3.7e6, 17e6
"""16,000 and 3,500 rpm."""
PERIODS, SCANNED = 2000, 600
COHERENT = 0.9
NEARLY = 0.02
FEWEST = 64
LEAST_SHARE = 0.05
SURE_STEP = 10.0
FIT_ROUNDS = 5
NEAR_MADS = 6.0
MAD = 1.4826
JUMP_SIGMAS = 8.0
FEWEST_TRACKS = 4
SEEN_TRACKS = 0.6
SAME_TRACK = 0.05
SHARES = np.linspace(0.05, 0.90, 18)
WINDOW = 512
EVEN = 0.15
MODE_BINS = 500
MODE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class TurnFit:
    """Times between reads of one class as whole revolutions plus a step; all in the unit of the times.

    `left` is what revolutions and step leave of each time, `near` which of them the fit was made of."""

    turn: float
    turn_error: float
    step: float
    step_error: float
    turns: F64
    left: F64
    near: NDArray[np.bool_]

    @property
    def sigma(self) -> float:
        """Scatter of the times about the fit, robust."""
        return MAD * float(np.median(np.abs(self.left[self.near])))


@dataclass(frozen=True, slots=True)
class Marks:
    """Where tracks begin: reads of the class on a track, the skew, the share of tracks seen to begin so."""

    reads: float
    skew: float
    seen: float
    count: int


def fit_turns(apart: F64, turn: float, step: float, near: float) -> TurnFit:
    """Least squares of revolution and step over the times within `near` of a first guess of both."""
    turns = np.round((apart - step) / turn)
    plain = np.abs(apart - turns * turn - step) < near
    table = np.stack([turns[plain], np.ones(plain.sum())], axis=1)
    (fitted, constant), *_ = np.linalg.lstsq(table, apart[plain], rcond=None)
    scatter = np.std(apart[plain] - table @ [fitted, constant]) / np.sqrt(plain.sum())
    spread = float(np.std(turns[plain]))
    error = scatter / spread if spread > 0 else np.inf
    constant_error = float(np.hypot(scatter, error * float(turns[plain].mean())))
    left = apart - turns * fitted - constant
    return TurnFit(float(fitted), float(error), float(constant), constant_error, turns, left, plain)


def coherence(apart: F64, turn: float | F64) -> F64:
    """How closely times agree modulo each period: 1 all in one place, about 1 / sqrt(n) even."""
    angle = np.outer(2 * np.pi / np.atleast_1d(turn), apart)
    return np.asarray(np.hypot(np.cos(angle).mean(axis=1), np.sin(angle).mean(axis=1)))


def usual_step(apart: F64, turn: float) -> float:
    """The angle that times have in common, revolutions from -0.5 to 0.5."""
    phase = 2 * np.pi * apart / turn
    return float(np.arctan2(np.median(np.sin(phase)), np.median(np.cos(phase)))) / (2 * np.pi)


def rough_turn(apart: F64) -> tuple[float, float]:
    """The longest period with which times (ns) agree best, and their coherence: parts of a revolution fit
    too."""
    some = apart[:: max(1, len(apart) // SCANNED)]
    periods = np.geomspace(SHORTEST_TURN_NS, LONGEST_TURN_NS, PERIODS)
    found = np.concatenate([coherence(some, part) for part in np.array_split(periods, 16)])
    good = np.flatnonzero(found >= found.max() - NEARLY)
    around = np.abs(periods / periods[good[-1]] - 1) < 0.1
    best = np.flatnonzero(around)[np.argmax(found[around])]
    return float(periods[best]), float(found[best])


def turn_of(apart: F64) -> TurnFit | None:
    """The revolution in times (ns) between reads of one class; None where they show none."""
    if len(apart) < FEWEST:
        return None
    turn, coherent = rough_turn(apart)
    if coherent < COHERENT:
        return None
    fit = fit_turns(apart, turn, usual_step(apart, turn) * turn, turn / 8)
    for _ in range(FIT_ROUNDS):
        if not np.isfinite(fit.turn_error) or fit.near.sum() < FEWEST:
            return None
        near = max(NEAR_MADS * fit.sigma, 1e-4 * fit.turn)
        fit = fit_turns(apart, fit.turn, fit.step, near)
    usual = float(np.median(fit.turns[fit.near])) if fit.near.any() else 0.0
    other = np.mean(fit.turns[fit.near] != usual) if fit.near.any() else 0.0
    return fit if other >= LEAST_SHARE and np.isfinite(fit.turn_error) else None


def advances(fit: TurnFit) -> bool:
    """Whether the angle steps on from read to read, which no timer's tick does."""
    return 0 < SURE_STEP * fit.step_error < fit.step < fit.turn / 2


def track_marks(left: F64, least: float, most: float) -> tuple[int, float]:
    """Reads from jump to jump (the most frequent count) and the median jump, of those between two limits."""
    jumps = np.flatnonzero((left > least) & (left < most))
    if len(jumps) < 2:
        return 0, 0.0
    return int(np.bincount(np.diff(jumps)).argmax()), float(np.median(left[jumps]))


def marks_of(fit: TurnFit) -> Marks | None:
    """Where tracks begin; None unless jumps are regular and agree with the step, which is one read's share of
    the track. Jumps of one size are looked at first: other delays are of any size."""
    least = max(JUMP_SIGMAS * fit.sigma, 0.5 * fit.step)
    late = np.sort(fit.left[(fit.left > least) & (fit.left < fit.turn / 2)])
    if len(late) < FEWEST_TRACKS:
        return None
    reach = NEAR_MADS * fit.sigma
    held = np.searchsorted(late, late + 2 * reach) - np.arange(len(late))
    first = int(np.argmax(held))
    of_one_size = (float(late[first]) - 1e-9, float(late[first] + 2 * reach))
    return _marks(fit, *of_one_size) or _marks(fit, least, fit.turn / 2)


def _marks(fit: TurnFit, least: float, most: float) -> Marks | None:
    """Where tracks begin, by the jumps between two limits."""
    usual, skew = track_marks(fit.left, least, most)
    if usual < 2:
        return None
    jumps = np.flatnonzero((fit.left > least) & (fit.left < most))
    whole = np.diff(jumps)
    whole = whole[np.abs(whole - usual) <= 1]
    expected = len(fit.left) / usual
    if len(whole) < FEWEST_TRACKS - 1 or len(whole) + 1 < SEEN_TRACKS * expected:
        return None
    reads = float(whole.mean())
    if abs(fit.step * reads / fit.turn - 1) > SAME_TRACK:
        return None
    return Marks(reads, skew, min((len(whole) + 1) / expected, 1.0), len(whole) + 1)


def floors(latency: F64, turn: float, window: int) -> F64:
    """The latency without a wait of each window of reads, in the unit of both.

    Latencies are even over one revolution above it, so each quantile less its share of a revolution is an
    estimate of it; the median over the 5th to the 90th is robust against retries and background work."""
    return np.asarray(np.median(floor_estimates(latency, turn, window), axis=0))


def floor_estimates(latency: F64, turn: float, window: int) -> F64:
    """The estimates behind `floors`: a row for each quantile, a column for each window."""
    whole = latency[: len(latency) // window * window].reshape(-1, window)
    return np.asarray(np.quantile(whole, SHARES, axis=1) - (SHARES * turn)[:, None])


def uneven(latency: F64, turn: float) -> float:
    """How far latencies are from even over a revolution: what the estimates of a window's floor differ by, as
    a share of a revolution (median window); about 0 for even ones."""
    estimates = floor_estimates(latency, turn, WINDOW)
    return float(np.median(np.ptp(estimates, axis=0))) / turn


def angle_modes(apart: F64, turn: float) -> list[tuple[float, float]]:
    """The usual steps between blocks, in revolutions from 0 to 1, each with its share; commonest first.

    A histogram of the angles, smoothed; a mode is a peak with its slopes."""
    phase = np.mod(apart / turn, 1.0)
    counts, _ = np.histogram(phase, bins=MODE_BINS, range=(0.0, 1.0))
    kernel = np.hanning(13)
    smooth = np.convolve(np.tile(counts, 3), kernel / kernel.sum(), "same")[MODE_BINS : 2 * MODE_BINS]
    found: list[tuple[float, float]] = []
    free = np.ones(MODE_BINS, bool)
    while free.any():
        peak = int(np.argmax(np.where(free, smooth, -1)))
        reach = _slopes(smooth, peak, free)
        free[reach] = False
        share = float(counts[reach].sum()) / len(apart)
        if share < MODE_SHARE:
            break
        offset = np.mod(phase - (peak + 0.5) / MODE_BINS + 0.5, 1.0) - 0.5
        inside = np.abs(offset) <= 0.5 * len(reach) / MODE_BINS
        found.append((float(np.mod((peak + 0.5) / MODE_BINS + np.median(offset[inside]), 1.0)), share))
    return sorted(found, key=lambda mode: -mode[1])


def _slopes(smooth: F64, peak: int, free: NDArray[np.bool_]) -> I64:
    """The bins of a peak, down to where the histogram rises again or is empty, on both sides."""
    reach = [peak]
    for way in (1, -1):
        at = peak
        while len(reach) < len(smooth):
            after = (at + way) % len(smooth)
            if not free[after] or smooth[after] > smooth[at] or smooth[after] <= 0 or after in reach:
                break
            reach.append(after)
            at = after
    return np.array(reach)


def within(error: float, width: float) -> float:
    """The chance that a normal error of twice the standard one stays within a width, in one unit."""
    return erf(width / (sqrt(2.0) * 2.0 * error)) if error > 0 else 1.0
