"""Statistics of ranks, as `scipy.stats` has them: to import that takes as much time as half of a short probe.

Invariant: pure functions; the results are those of SciPy.
Source: Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 1968.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from skylight.evidence import F64

NORMAL = NormalDist()
"""The standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Slope:
    """The median slope between points, and the ends of its interval."""

    median: float
    least: float
    most: float


def theil_sen(y: F64, x: F64, sure: float) -> Slope:
    """The Theil-Sen slope of points, and the interval that holds it so surely, by Sen's equation 2.6; at
    least two points, not all at one `x`. Where too many are equal the interval is not a number.

    >>> theil_sen(np.array([1.0, 3.0, 5.0, 61.0, 9.0]), np.arange(5.0), 0.95)
    Slope(median=2.0, least=-52.0, most=56.0)
    """
    over, more = x[:, None] - x, y[:, None] - y
    slopes = np.sort(more[over > 0] / over[over > 0])
    count = len(y)
    left = count * (count - 1) * (2 * count + 5) - _repeated(x) - _repeated(y)
    if left < 0:
        return Slope(float(np.median(slopes)), float("nan"), float("nan"))
    apart = -NORMAL.inv_cdf((1.0 - sure) / 2.0) * float(np.sqrt(left / 18.0))
    least = max(int(np.round((len(slopes) - apart) / 2.0)) - 1, 0)
    most = min(int(np.round((len(slopes) + apart) / 2.0)), len(slopes) - 1)
    return Slope(float(np.median(slopes)), float(slopes[least]), float(slopes[most]))


def _repeated(values: F64) -> int:
    """What equal values take from the variance of Kendall's tau."""
    counts = np.unique(values, return_counts=True)[1]
    return int(sum(count * (count - 1) * (2 * count + 5) for count in counts.tolist()))


def ranks(values: F64) -> F64:
    """Ranks from 1 on; equal values have the mean of theirs.

    >>> ranks(np.array([5.0, 1.0, 5.0, 9.0]))
    array([2.5, 1. , 2.5, 4. ])
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2.0)[which], np.float64)
