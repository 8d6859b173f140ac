"""Stalls that come every so many commands, from the first period on: maps that are merged, cache bands that
fill.

A period is accepted only where *every* place it predicts holds a stall, at least three times. Of rare ones
(`period`) it has to be so often that scattered stalls would hardly line up by themselves: the chance is
bounded by the number of periods and offsets that could have been seen times the probability that as many
predicted places are all slow, with the rate of slow commands that the period does not explain (and one more,
so that no stall at all is not taken for certainty). Of plain ones (`slow_period`), several times the median,
the shortest is taken; a slow outlier now and then (up to one in a hundred) makes no whole row of them.

Invariant: a result names positions of the input only; no randomness.

Source: Skylight (FAST '15) section 4.3, the 240th write of Figures 4 and 5; section 4.6 (cache bands that
fill).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_HITS = 3
SHORTEST = 4
MOST_CHANCE = 1e-3
MOST_PARTS = 16
SEEN_PART = 0.3
SLOW = 3.0  # times the median
STARTS = 24


@dataclass(frozen=True, slots=True)
class Period:
    """Stalls at `offset`, `offset + every`, ... of the commands; `chance` bounds that it is an accident."""

    every: int
    offset: int
    hits: int
    unexplained: int
    chance: float

    def places(self, count: int) -> NDArray[np.int64]:
        """The commands of `count` that the period names."""
        return np.arange(self.offset, count, self.every, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SlowPeriod:
    """Every `every`-th command from number `first` (from 0) on was slow; `slow_ns` is the median of these,
    `hits` their number."""

    every: int
    first: int
    slow_ns: float
    hits: int


def _places(slow: NDArray[np.bool_], first: int, every: int) -> NDArray[np.int64] | None:
    """The commands that a period names, if there are enough and all of them are slow."""
    if every < SHORTEST:
        return None
    named = np.arange(first, len(slow), every, dtype=np.int64)
    return named if len(named) >= FEWEST_HITS and bool(slow[named].all()) else None


def slow_period(latency_ns: NDArray[np.int64]) -> SlowPeriod | None:
    """The shortest period of commands that take several times the median; None if there is none."""
    if len(latency_ns) < 2:
        return None
    slow = latency_ns > SLOW * float(np.median(latency_ns))
    at = np.flatnonzero(slow)
    found: SlowPeriod | None = None
    for number, first in enumerate(at[:STARTS]):
        longest = (len(slow) - 1 - first) // (FEWEST_HITS - 1)
        for every in at[number + 1 :] - first:
            if every > longest or (found is not None and every >= found.every):
                break
            # One that begins later than its period has a place missing before it.
            named = _places(slow, int(first), int(every)) if first <= every else None
            if named is not None:
                slow_ns = float(np.median(latency_ns[named]))
                found = SlowPeriod(int(every), int(first), slow_ns, len(named))
                break
    return found


def period(slow: NDArray[np.bool_], known_slow: NDArray[np.bool_] | None = None) -> Period | None:
    """The period of the slow commands, or None where none is sure.

    `known_slow` counts the commands that are slow in any one of several repeats, of which `slow` holds those
    slow in all: it only sets the rate of accidents.

    >>> slow = np.zeros(1000, bool)
    >>> slow[[239, 479, 500, 719, 959]] = True
    >>> found = period(slow)
    >>> (found.every, found.offset, found.hits, found.unexplained)
    (240, 239, 4, 1)
    """
    at = np.flatnonzero(slow)
    best: Period | None = None
    for first_number, first in enumerate(at[: len(at) - FEWEST_HITS + 1]):
        for second in at[first_number + 1 :]:
            every = int(second - first)
            named = _places(slow, int(first), every) if first < every else None
            if named is not None and (best is None or len(named) > best.hits):
                best = _judged(slow, known_slow, every, int(first), len(named))
    if best is None or best.chance > MOST_CHANCE or _half_seen(slow, best):
        return None
    return best


def _half_seen(slow: NDArray[np.bool_], found: Period) -> bool:
    """Whether a part of the period names places of which most, but not all, are slow: then the true period is
    shorter and some of its stalls were too short to see."""
    for part in range(2, MOST_PARTS + 1):
        if found.every % part:
            continue
        every = found.every // part
        named = np.arange(found.offset % every, len(slow), every)
        between = named[(named - found.offset) % found.every != 0]
        if len(between) and np.mean(slow[between]) >= SEEN_PART:
            return True
    return False


def _judged(
    slow: NDArray[np.bool_], known_slow: NDArray[np.bool_] | None, every: int, offset: int, hits: int
) -> Period:
    count = len(slow)
    unexplained = int(np.count_nonzero(slow)) - hits
    rate = (unexplained + 1) / count
    if known_slow is not None:
        alone = (int(np.count_nonzero(known_slow)) - hits + 1) / count
        rate = min(rate, max(alone, 0.0) ** 2 + 1.0 / count)
    # offsets and periods of which as many places fit in the run: about (count / hits)^2 / 2
    tried = (count / hits) ** 2 / 2
    return Period(every, offset, hits, unexplained, min(1.0, tried * rate**hits))
