"""Do completions go on from one another by a like part of a revolution, whatever their addresses and whatever
came between? So does a log on a platter, and nothing else.

Steps from completion to completion, folded over a revolution, are even on the circle for writes in place (the
angle of a random block follows the angle of another) and for whatever knows no angle but starts after a
random wait. A log starts where it ended, so its steps are few values and jitter. One value where entries take
one part of a revolution; two or more where entries are longer than a track, so that some cross one skew and
some two. The mean phase vector of two values half a revolution apart is nothing, that of their doubles is 1,
so vectors of steps taken once to four times over are looked at.

The question is whether the order of the completions means anything: the mean vectors of the steps are held
against those of the same completions in shuffled orders (Hotelling's T squared, with the mean and the
covariance of the shuffles). So it holds however uneven completions lie on the revolution, be it because few
blocks were written or because many ended where the same band was cleaned. The steps are asked alone, with
their doubles, and with all four multiples, and the chance is the smallest of the three, times three. A log
whose every entry takes whole revolutions, to the last sector, ends at one angle in any order and is not
detected.

A command that stalled (a band was cleaned, a sector retried) ends at an angle that has to do with the stall:
the step to it is left out, and shuffles leave it where it is.

Sources: Anderson, "An Introduction to Multivariate Statistical Analysis", chapter 5 (T squared of a new
observation); Good, "Permutation Tests", chapter 3 (orders that are as likely); Bonferroni for the three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.infer.robust import BOOTSTRAP_SEED
from skylight.infer.tail_probability import ratio_tail

Bools = NDArray[np.bool_]
Complex = NDArray[np.complex128]

SHUFFLES = 400
MULTIPLES = (1, 2, 4)  # how many multiples of the steps the shuffled orders are asked about
LARGEST_P = 1e-6
FEWEST_STEPS = 16


@dataclass(frozen=True, slots=True)
class Advance:
    """How alike the steps from completion to completion are, modulo a revolution.

    `length` is that of the longest mean phase vector (1 all alike, 0 even), which is that of the steps taken
    `times` over; `p_value` the chance of vectors so far from those of shuffled orders; `count` says of how
    many steps."""

    length: float
    times: int
    p_value: float
    count: int

    @property
    def steady(self) -> bool:
        """True when each command completed a like part of a revolution after the one before, beyond doubt."""
        return self.p_value <= LARGEST_P


NO_ADVANCE = Advance(0.0, 1, 1.0, 0)


def advance(complete_ns: NDArray[np.generic], period_ns: float, stalled: Bools | None = None) -> Advance:
    """The steps between successive completions that did not stall, folded over a revolution.

    >>> turns = np.cumsum(np.resize([0.45, 1.95, 3.45, 0.95], 60))
    >>> found = advance((turns * 1e7).astype(np.uint64), 1e7)
    >>> round(found.length, 6), found.times, found.steady
    (1.0, 2, True)
    """
    if period_ns <= 0 or len(complete_ns) == 0:
        return NO_ADVANCE
    since_ns = complete_ns.astype(np.int64) - np.int64(complete_ns[0])
    kept = np.ones(len(since_ns), bool) if stalled is None else ~stalled
    to = np.flatnonzero(kept[1:]) + 1
    if len(to) < FEWEST_STEPS:
        return NO_ADVANCE
    phase = np.exp(2j * np.pi / period_ns * since_ns)
    means = _means(phase[None, :], to)[0]
    lengths = np.abs(means)
    shuffled = _means(_shuffles(phase, kept), to)
    p_values = [_chance(means[:count], shuffled[:, :count]) for count in MULTIPLES]
    best = int(np.argmax(lengths))
    return Advance(float(lengths[best]), best + 1, min(1.0, len(p_values) * min(p_values)), len(to))


def _shuffles(phase: Complex, kept: Bools) -> Complex:
    """Shuffled orders of the phases that are kept, a row each; the others stay where they are."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    orders = np.tile(phase, (SHUFFLES, 1))
    orders[:, kept] = rng.permuted(orders[:, kept], axis=1)
    return orders


def _means(phase: Complex, to: NDArray[np.intp]) -> Complex:
    """Mean phase vectors of one, two .. multiples of the steps to these rows, for each row of phases."""
    step = phase[:, to] * np.conj(phase[:, to - 1])
    power, means = step, [step.mean(axis=1)]
    for _ in range(max(MULTIPLES) - 1):
        power = power * step
        means.append(power.mean(axis=1))
    return np.stack(means, axis=1)


def _chance(seen: Complex, shuffled: Complex) -> float:
    """The chance that one more shuffled order gives vectors as far from the others as those that were seen.

    Means over so many steps are close to normal; with the covariance taken from the shuffles, the distance is
    a ratio of variances."""
    parts = np.concatenate([shuffled.real, shuffled.imag], axis=1)
    apart = np.concatenate([seen.real, seen.imag]) - parts.mean(axis=0)
    spread = np.cov(parts, rowvar=False)
    if np.linalg.matrix_rank(spread, hermitian=True) < len(apart):
        return 1.0  # completions at one angle or two: no order differs from another
    orders, freedom = len(parts), len(apart)
    squared = float(apart @ np.linalg.solve(spread, apart)) * orders / (orders + 1)
    # Both counts of degrees of freedom are even, as this form of the tail has them.
    ratio = squared * (orders - freedom) / (freedom * (orders - 1))
    return ratio_tail(ratio, freedom // 2, (orders - freedom) // 2)
