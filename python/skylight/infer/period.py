"""Which of a series of commands are slow at a fixed period: cache bands that fill, maps that are merged.

A command is *slow* when it takes several times the median. A period is a distance and a first slow command
from which on every command at that distance is slow, to the end of the series. A slow outlier now and then
(up to one in a hundred) makes a few commands slow but no whole comb of them.

Source: Skylight (FAST '15), Figure 5 (every 240th write) and section 4.6 (cache bands that fill).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

SLOW = 3.0  # times the median
SHORTEST = 4
FEWEST_TEETH = 3
STARTS = 24


@dataclass(frozen=True, slots=True)
class Period:
    """Every `every`-th command from number `first` (from 0) on was slow; `slow_ns` is the median of these,
    `teeth` their number."""

    every: int
    first: int
    slow_ns: float
    teeth: int


def slow_period(latency_ns: I64, *, slow: float = SLOW, fewest: int = FEWEST_TEETH) -> Period | None:
    """The shortest period of slow commands; None if there is none with at least `fewest` of them."""
    if len(latency_ns) < 2:
        return None
    is_slow = latency_ns > slow * float(np.median(latency_ns))
    at = np.flatnonzero(is_slow)
    found: Period | None = None
    for number, first in enumerate(at[:STARTS]):
        for every in at[number + 1 :] - first:
            teeth = np.arange(first, len(latency_ns), every)
            if len(teeth) < fewest or (found is not None and every >= found.every):
                break
            # A comb that begins later than its period has a tooth missing before it.
            if every >= SHORTEST and first <= every and is_slow[teeth].all():
                found = Period(int(every), int(first), float(np.median(latency_ns[teeth])), len(teeth))
                break
    return found
