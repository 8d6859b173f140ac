"""Rare stalls that come every so many commands: which period, and could it be chance.

A period is accepted only where *every* place it predicts holds a stall, at least three times, and so often
that scattered stalls would hardly line up by themselves. The chance is bounded by the number of periods and
offsets that could have been seen times the probability that as many predicted places are all slow, with the
rate of slow commands that the period does not explain (and one more, so that no stall at all is not taken for
certainty).

Invariant: a result names positions of the input only; no randomness.

Source: Skylight (FAST '15) section 4.3, the 240th write of Figure 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_HITS = 3
SHORTEST = 4
MOST_CHANCE = 1e-3
MOST_PARTS = 6
SEEN_PART = 0.3


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
    count = len(slow)
    at = np.flatnonzero(slow)
    best: Period | None = None
    for first_number, first in enumerate(at[: len(at) - FEWEST_HITS + 1]):
        for second in at[first_number + 1 :]:
            every = int(second - first)
            if every < SHORTEST or first >= every:
                continue
            named = np.arange(first, count, every)
            if len(named) < FEWEST_HITS or not bool(slow[named].all()):
                continue
            if best is not None and len(named) <= best.hits:
                continue
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
