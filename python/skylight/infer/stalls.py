"""Stalls of cleaning among writes: which are they, and how far apart?

A drive whose cache is cleaned piece by piece stalls whenever so many bytes were written again, to the write.
Outliers come at random and merges of a map at their own count, so a stall of cleaning is not known by how
long it lasts but by the company it keeps: a row of slow writes at one distance, none missing, to the end.

Sources: Skylight (FAST '15), section 4.6: cleaning shows as a drop of the rate to near zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

SLOW = 2.2
"""Times the median: a lone write waits for a turn at most beside what it takes; a band is many turns."""
FEWEST_HITS = 5
LAST_STARTS = 48
ALIKE = 0.4
"""A stall is at least so much of the median one: it is the same work each time."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """A row of stalls: index of the first, writes from one to the next, how many, and their median latency;
    `usual_ns` is the median of the rest; so many stalls follow each other at once (`run`)."""

    first: int
    period: int
    count: int
    stall_ns: float
    usual_ns: float
    run: int = 1

    @property
    def limit_ns(self) -> int:
        """What tells a stall from the usual."""
        return int(max(ALIKE * self.stall_ns, SLOW * self.usual_ns))


def periodic(latency_ns: I64, fewest: int = FEWEST_HITS, shortest: int = 2) -> Stalls | None:
    """The row of stalls that the latencies end with, or None.

    >>> latency = np.full(100, 10)
    >>> latency[[20, 33, 46, 59, 72, 85, 98, 60]] = 90
    >>> found = periodic(latency)
    >>> (found.first, found.period, found.count)
    (20, 13, 7)
    >>> periodic(np.full(100, 10)) is None
    True
    """
    count = len(latency_ns)
    if count < 2 * fewest:
        return None
    usual = float(np.median(latency_ns))
    slow = np.flatnonzero(latency_ns >= SLOW * usual)
    if not fewest <= len(slow) <= count // 2:
        return None
    is_slow = np.zeros(count, bool)
    is_slow[slow] = True
    over = np.where(is_slow, latency_ns - usual, 0.0)
    best: tuple[float, int, int] | None = None
    for number, start in enumerate(tried := slow[-LAST_STARTS:]):
        for period in np.unique(tried[number + 1 :] - start):
            row = np.arange(start % period, count, period)
            missing = np.flatnonzero(~is_slow[row])
            row = row[missing[-1] + 1 :] if len(missing) else row
            if period < shortest or len(row) < fewest:
                continue
            unlike = np.flatnonzero(latency_ns[row] < ALIKE * np.median(latency_ns[row]))
            row = row[unlike[-1] + 1 :] if len(unlike) else row
            if len(row) < fewest:
                continue
            best = max(best or (0.0, 0, 0), (float(over[row].sum()), -int(period), int(row[0])))
    return None if best is None else _settled(latency_ns, best[2], -best[1])


def _settled(latency_ns: I64, first: int, period: int) -> Stalls:
    row = np.arange(first, len(latency_ns), period)
    stall = float(np.median(latency_ns[row]))
    rest = np.ones(len(latency_ns), bool)
    rest[row] = False
    usual = float(np.median(latency_ns[rest]))
    slow = latency_ns >= max(ALIKE * stall, SLOW * usual)
    between = slow[first : first + (len(row) - 1) * period]
    run = max(round(float(np.count_nonzero(between)) / (len(row) - 1)), 1)
    before = first
    while before > 0 and first - before < run and slow[before - 1]:
        before -= 1
    return Stalls(before, period, len(row), stall, usual, run)
