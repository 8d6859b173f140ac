"""The shortest time of a command that waits for its place to come round, from commands in random phases.

Such a command takes its shortest time and a wait that is anything up to a revolution. So times fill one
revolution evenly, from the shortest on. They are smeared: by what a command takes longer, never shorter, and
by the tick of the clock to both sides. Where the way to the end of what is timed has a switch of track more
in it at some places than at others, two such revolutions lie over each other, a switch apart, and how much of
each follows from how long the data is.

`differences` compares the shortest of two kinds of commands that end at the same moments, so that both are
smeared alike and what delays them cancels. It weighs each difference by how likely it makes all times.

Invariants: pure functions of times in revolutions; weights sum to one; a share of times that nothing explains
(other clients, merges) is part of the model, not left out by a limit.

Source: the likelihood of a uniform distribution with smeared edges is that of a mixture; for the noise of
ticks Widrow and Kollar, "Quantization Noise" (2008), chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64

STEP = 0.005
"""Revolutions from one candidate to the next: a tenth of what a time has to be known to."""
SPREADS = (0.002, 0.01, 0.02, 0.04, 0.08)
"""Deviations of a half-normal delay that are tried, revolutions: no jitter, to 3 % of a long access."""
STRAY, EARLY, LATE = 0.004, 2.0, 5.0
"""Chance of a time that nothing explains, from `EARLY` revolutions before the edge to `LATE` behind it;
chosen: outliers, and blocks that a cache answered."""
BELOW, ABOVE = 0.5, 0.4  # revolutions around the lowest times in which the edge is sought
LOWEST_PART = 0.05
GRID = np.arange(-1.5, 1.5, 1e-3)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Candidates at even distances, and how likely each is; they sum to one."""

    at: F64
    weight: F64


def _smear(tick: float, spread: float) -> F64:
    """Distribution function of what times are off by, over `GRID`: the ticks at both ends, and a delay."""
    ticks = np.maximum(0.0, 1.0 - np.abs(GRID) / max(tick, 1e-3))
    delay = np.where(GRID >= 0, np.exp(-0.5 * np.square(GRID / spread)), 0.0)
    both = np.convolve(ticks / ticks.sum(), delay / delay.sum())[len(GRID) // 2 :][: len(GRID)]
    return np.asarray(np.cumsum(both))


def _density(past: F64, smear: F64, late: float) -> F64:
    """How likely times are so far past the edge, a share of them `late` by whole revolutions."""
    even = np.interp(past, GRID, smear, 0, 1) - np.interp(past - 1, GRID, smear, 0, 1)
    behind = np.where((past >= 0) & (past < LATE), 1 / LATE, 0.0)
    stray = np.where((past >= -EARLY) & (past < LATE), 1 / (EARLY + LATE), 1e-6)
    return np.asarray((1 - late - STRAY) * even + late * behind + STRAY * stray)


def _binned(times: F64) -> tuple[F64, F64]:
    """Times to half a step, and how many there are of each: as good, and quicker to weigh."""
    at, count = np.unique(np.round(times / (STEP / 2)), return_counts=True)
    return at * (STEP / 2), count.astype(np.float64)


def _late(times: F64) -> float:
    """The share of times that are late by revolutions, one at least."""
    past = times - np.quantile(times, LOWEST_PART)
    return float((np.count_nonzero(past > 1.6) + 1) / (len(times) + 2))


def _weights(log_likelihood: F64) -> F64:
    shifted = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(shifted / shifted.sum())


def _of_one(times: F64, tick: float) -> tuple[Weighed, float]:
    """The edge of times that take one way, and the likeliest spread of delays."""
    at = np.arange(-BELOW, ABOVE, STEP) + np.quantile(times, LOWEST_PART)
    where, count = _binned(times)
    each = [
        count @ np.log(_density(where[:, None] - at, _smear(tick, spread), _late(times)))
        for spread in SPREADS
    ]
    best = max(range(len(SPREADS)), key=lambda index: float(each[index].max()))
    return Weighed(at, _weights(np.logaddexp.reduce(each, axis=0))), SPREADS[best]


def _of_two(times: F64, tick: float, spread: float, less: float, extra: float, switch: float) -> Weighed:
    """The first edge of times of which a share has a switch more: that part of a track which the data, the
    edge `less` the other parts, is longer than whole tracks."""
    steps, count_at = max(round(switch / STEP), 1), int((BELOW + ABOVE) / STEP)
    first = np.quantile(times, LOWEST_PART) - BELOW
    all_at = first + STEP * np.arange(count_at + steps)
    where, count = _binned(times)
    density = _density(where[:, None] - all_at, _smear(tick, spread), _late(times))
    at = all_at[:count_at]
    more = in_tracks(at - less - extra, switch) % 1.0
    mixed = (1 - more) * density[:, :count_at] + more * density[:, steps : steps + count_at]
    return Weighed(at, _weights(count @ np.log(mixed)))


def in_tracks(taken: F64, switch: float) -> F64:
    """How many tracks are passed in some revolutions, with the fewest switches that can be in them.

    >>> in_tracks(np.array([0.5, 1.0, 1.1, 2.5]), 0.2).round(2)
    array([0.5, 1. , 1. , 2.1])
    """
    whole = np.floor(np.maximum(taken, 0.0) / (1 + switch))
    return np.asarray(np.minimum(np.maximum(taken, 0.0) - whole * switch, whole + 1))


def differences(longer: F64, shorter: F64, tick: float, switch: float, extra: float) -> Weighed:
    """How much longer the shortest of one kind of times is than the shortest of the other, revolutions. The
    longer kind passes tracks meanwhile, but for about `extra`, with a `switch` at the end of each; it begins
    anywhere on a track."""
    one, spread = _of_one(shorter, tick)
    less = float((one.at * one.weight).sum())
    other = _of_two(longer, tick, spread, less, extra, switch)
    weight = np.convolve(other.weight, one.weight[::-1])
    return Weighed(other.at[0] - one.at[-1] + STEP * np.arange(len(weight)), weight)
