"""Robust summaries of latencies: median and interquartile range, fixed or varying, and how sure that is.

Outliers must not matter: up to a few per cent of a drive's commands are slow for reasons of their own
(retries, map merges), so only quartiles decide. A *fixed* latency has an interquartile range of at most
`FIXED_SPREAD` of its median, a *varying* one of at least `VARYING_SPREAD`; between them nothing is claimed.

Where the limits come from: a log that misses its place waits a revolution, and the difference of two
consecutive jitters shows in each latency. At 15,000 rpm (a revolution of 4 ms), 3 % jitter and 0-200 us of
noise give an interquartile range of 1.35 * sqrt(2) * sqrt((0.03 * 4 ms)^2 + (0.2 ms)^2 / 12) = 0.25 ms, 6.4 %
of the median. A wait for a random angle has one of half a revolution, at least 30 % of a median that holds
half a revolution, a short seek and the overhead.

A coarse clock counts in *ticks*: a latency of one value shows as two neighbouring ones, so a spread of a tick
is none; and evenness is asked of latencies that are spread over their tick.

Source: Skylight section 4.3 (fixed or varying); bootstrap after Efron and Tibshirani, "An Introduction to the
Bootstrap"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64

FIXED_SPREAD = 0.12
VARYING_SPREAD = 0.22
FINEST_TICK_NS, COARSEST_TICK_NS = 10_000, 10_000_000  # a coarser common part of all times is no clock's
RESAMPLES = 400
BOOTSTRAP_SEED = 20150216  # any constant: it only makes the same evidence give the same confidence


@dataclass(frozen=True, slots=True)
class Spread:
    """Count and quartiles of latencies, and the tick of the clock, ns."""

    count: int
    q1_ns: float
    median_ns: float
    q3_ns: float
    tick_ns: int = 0

    @property
    def iqr_ns(self) -> float:
        """Interquartile range, ns."""
        return self.q3_ns - self.q1_ns

    @property
    def relative(self) -> float:
        """Interquartile range as a share of the median."""
        return self.iqr_ns / self.median_ns if self.median_ns > 0 else float("inf")

    @property
    def fixed(self) -> bool:
        """True for one value give or take jitter."""
        return self.relative <= FIXED_SPREAD or self.iqr_ns <= self.tick_ns

    @property
    def varying(self) -> bool:
        """True for a spread that no jitter explains."""
        return self.relative >= VARYING_SPREAD and not self.fixed

    @staticmethod
    def of(latency_ns: NDArray[np.generic], tick_ns: int = 0) -> Spread:
        """The summary of at least one latency."""
        q1_ns, median_ns, q3_ns = np.percentile(latency_ns.astype(np.float64), [25, 50, 75]).tolist()
        return Spread(len(latency_ns), q1_ns, median_ns, q3_ns, tick_ns)


NORMAL_MEDIAN = 0.6745
"""Of a standard deviation: half of normal errors are no larger."""


FIRST_VALUES = 64
"""Values that are looked at first for a common part. Chosen: those of a fine clock have none among so few."""


def common_part(*columns: NDArray[np.generic], enough: int = 1) -> int:
    """The largest number that all values of some columns are multiples of; 0 without any. Or a multiple of it
    that is not larger than `enough`.

    >>> common_part(np.array([30, 12]), np.array([], np.int64), np.array([42]))
    6
    """
    part = 0
    for rows in (slice(FIRST_VALUES), slice(FIRST_VALUES, None)):
        for column in columns:
            if not 0 < part <= enough:
                part = int(np.gcd.reduce(column[rows].astype(np.int64), initial=part))
    return part


def tick_of(*times_ns: NDArray[np.uint64]) -> int:
    """The tick of the clock that gave these times, ns; 0 of a clock too fine to matter.

    >>> tick_of(np.array([5_000_000, 12_000_000, 13_000_000], np.uint64))
    1000000
    """
    tick = common_part(*times_ns)
    return tick if FINEST_TICK_NS <= tick <= COARSEST_TICK_NS else 0


def within_tick(latency_ns: NDArray[np.generic], tick_ns: int) -> NDArray[np.float64]:
    """Latencies spread over their tick: as they may have been, by a draw that is always the same."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    return np.asarray(
        latency_ns.astype(np.float64) + tick_ns * (rng.random(len(latency_ns)) - 0.5), np.float64
    )


def middle(values: NDArray[np.generic]) -> float:
    """The median of at least one value: for a few of them ten times as fast as numpy's.

    >>> middle(np.array([4, 1, 2, 9]))
    3.0
    """
    ordered = np.sort(values, axis=None)
    half, odd = divmod(len(ordered), 2)
    return float(ordered[half]) if odd else (float(ordered[half - 1]) + float(ordered[half])) / 2


def centre(values: NDArray[np.generic]) -> float:
    """The mean of the middle four fifths of at least one value: outliers do not matter to it, nor does the
    tick of a clock, which leaves a median at one of two neighbouring values.

    >>> centre(np.array([2, 3] * 9 + [0, 90]))
    2.5
    """
    ordered = np.sort(values, axis=None).astype(np.float64)
    cut = len(ordered) // 10
    return float(ordered[cut : len(ordered) - cut].mean())


def confidence_that(latency_ns: I64, holds: Callable[[I64], bool]) -> float:
    """How often `holds` is true of bootstrap resamples of the latencies: (true + 1) / (resamples + 2)."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    drawn = latency_ns[rng.integers(0, len(latency_ns), size=(RESAMPLES, len(latency_ns)))]
    return share(sum(holds(row) for row in drawn))


def share(hits: int, of: int = RESAMPLES) -> float:
    """A share of resamples that never claims certainty (Laplace's rule)."""
    return (hits + 1) / (of + 2)


def median_slope(y: F64, x: F64, sure: float) -> tuple[float, float, float]:
    """The median slope between any two of some points, and the least and the most that it may be, this sure.

    Sources: Theil, "A rank-invariant method of linear and polynomial regression analysis" (1950); Sen,
    "Estimates of the regression coefficient based on Kendall's tau" (1968), for the interval. As in
    `scipy.stats.theilslopes`, which takes most of a second to import.

    >>> median_slope(np.array([0.0, 1.0, 2.0, 9.0]), np.arange(4.0), 0.6)
    (2.0, 1.0, 4.0)
    """
    later = x[:, None] > x
    slopes = np.sort((y[:, None] - y)[later] / (x[:, None] - x)[later])
    pairs = _ordered_pairs(len(y)) - sum(_ordered_pairs(_repeats(each)).sum() for each in (x, y))
    open_pairs = NormalDist().inv_cdf((1.0 + sure) / 2.0) * math.sqrt(pairs / 18.0)
    least = max(round((len(slopes) - open_pairs) / 2.0) - 1, 0)
    most = min(round((len(slopes) + open_pairs) / 2.0), len(slopes) - 1)
    return float(np.median(slopes)), float(slopes[least]), float(slopes[most])


def _repeats(values: F64) -> I64:
    return np.asarray(np.unique(values, return_counts=True)[1], np.int64)


def _ordered_pairs(count: Any) -> Any:
    return count * (count - 1) * (2 * count + 5)


def ranks(values: NDArray[np.generic]) -> F64:
    """The rank of each value from 1 on, of equal ones their mean.

    >>> ranks(np.array([7, 3, 7]))
    array([2.5, 1. , 2.5])
    """
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2.0)[which], np.float64)


def folded_spread(latency_ns: NDArray[np.generic], period_ns: float) -> float:
    """The shortest arc that holds half of the latencies, folded over a period: 0 all in one place, 0.5 even.

    A log that misses its place, or one more revolution, is late by whole revolutions: folded, its latencies
    are one.
    """
    folded = np.sort(np.mod(latency_ns.astype(np.float64), period_ns) / period_ns)
    half = (len(folded) + 1) // 2
    twice = np.concatenate([folded, folded + 1.0])
    return float(np.min(twice[half - 1 : half - 1 + len(folded)] - folded))


def uneven_spread(latency_ns: NDArray[np.generic], period_ns: float) -> float:
    """Kuiper's distance between latencies folded over a period and an even spread: 0 even, 1 all in one
    place.

    For an even spread of n independent values it stays below about 2 / sqrt(n) in 99 of 100 samples.
    """
    folded = np.sort(np.mod(latency_ns.astype(np.float64), period_ns) / period_ns)
    count = len(folded)
    above = np.arange(1, count + 1) / count - folded
    below = folded - np.arange(count) / count
    return float(above.max() + below.max())


def never_falling(value: F64, weight: F64) -> F64:
    """The values nearest to some of which none is below the one before, by pooling neighbours that fall.

    >>> never_falling(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    array([1. , 2.5, 2.5, 4. ])
    """
    pools: list[list[float]] = []
    for each, heavy in zip(value, weight, strict=True):
        pools.append([float(each), float(heavy), 1.0])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            last, before = pools.pop(), pools.pop()
            total = last[1] + before[1]
            mean = (last[0] * last[1] + before[0] * before[1]) / total
            pools.append([mean, total, last[2] + before[2]])
    return np.concatenate([np.full(int(size), mean) for mean, _, size in pools])
