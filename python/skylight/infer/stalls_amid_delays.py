"""The period of stalls amid delays that are as long: those of other clients of a disk, or of a busy host.

The limit that the bulk of all commands sets (`skylight.infer.stalls.slow_ones`) is too high where delays are
in that bulk, and too low where stalls take longer than any of many delays. So the limit is moved, down to
what most commands take and up to the longest, and at each the period is looked for of which nearly all places
are slow, more of them than chance brings about.

A log that goes on along its tracks stalls at distances that are nearly even, of which a long one fits many
stalls. But then commands at other places of such a period stall as often, or nearly: what comes once in so
many commands has one place in a period, and no other is slow more often than by chance.

Invariant: pure functions of latencies; limits that contradict each other find nothing.
Source: Skylight (FAST '15), section 4.3 (the 240th write of Figures 4 and 5).
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import I64, Bools
from skylight.infer.stalls import (
    FEWEST_RARE,
    LEAST_STALL_NS,
    MOST_CHANCE,
    SHORTEST_RARE,
    TURN_PART,
    RarePeriod,
)
from skylight.infer.tail_probability import binomial_tail

LOWER = (90, 80, 70, 50)
"""Per cent of the commands that no delay reaches, tried in turn. Chosen: of a disk that others use for half
of its time most commands wait."""
HIGHER, MOST_HIGHER = 1.5, 12
"""By how much limits above the first lie beyond the one before, and how many there are. Chosen: stalls of one
kind differ by as much."""
HITS_PART = 0.8
"""Of the places of a period, those that are slow at least: a stall that caught its revolution is short."""


def period_amid_delays(
    latency_ns: I64, again_ns: I64, first_ns: float, rotation_ns: float | None
) -> RarePeriod | None:
    """The period of stalls of writes that were repeated in the same order, or were not (`again_ns` is empty);
    `first_ns` is the limit at which none was found. None where limits find other ones."""
    found: list[RarePeriod] = []
    if not len(latency_ns):
        return None
    for limit_ns in _limits(latency_ns, first_ns, rotation_ns):
        slow = np.asarray(latency_ns > limit_ns, np.bool_)
        if len(again_ns):
            slow &= again_ns > limit_ns
        period = _regular(slow)
        if period is not None:
            found.append(period)
    return found[0] if len({(each.every, each.offset) for each in found}) == 1 else None


def _limits(latency_ns: I64, first_ns: float, rotation_ns: float | None) -> list[float]:
    """Below and above the limit that was tried first, ns."""
    least_ns = LEAST_STALL_NS if rotation_ns is None else TURN_PART * rotation_ns
    lower = [float(np.percentile(latency_ns, percent)) + least_ns for percent in LOWER]
    middle_ns = float(np.median(latency_ns))
    higher = [middle_ns + (first_ns - middle_ns) * HIGHER**step for step in range(1, MOST_HIGHER + 1)]
    return [*lower, *higher]


def _regular(slow: Bools) -> RarePeriod | None:
    """The period of which nearly all places are slow, and no others beside them more often than by chance.

    >>> slow = np.zeros(2400, bool)
    >>> slow[7::240] = slow[100:2000:17] = True
    >>> slow[487] = False
    >>> (found := _regular(slow)).every, found.offset, found.hits, found.missed
    (240, 7, 9, 1)
    """
    count, total = len(slow), int(np.count_nonzero(slow))
    if total < FEWEST_RARE:
        return None
    best: RarePeriod | None = None
    # The last period may be cut: it has a place more at some of the offsets.
    for every in range(SHORTEST_RARE, count // (_fewest_places(total, count) - 1) + 1):
        found = _with_period(slow, total, every)
        if found is not None and (best is None or found.chance < best.chance):
            best = found
    return best


def _ways(count: int, places: int) -> float:
    """About how many periods and offsets with that number of places there are, at all the limits."""
    return (count / places) ** 2 / 2 * (len(LOWER) + MOST_HIGHER)


def _fewest_places(total: int, count: int) -> int:
    """With fewer places all of them may be slow by chance."""
    places = FEWEST_RARE
    while places < count // SHORTEST_RARE:
        rate = (max(total - places, 0) + 1) / count
        if _ways(count, places) * rate**places <= MOST_CHANCE:
            break
        places += 1
    return places


def _with_period(slow: Bools, total: int, every: int) -> RarePeriod | None:
    """The stalls with that period, if most of its places are slow, and those at no other offset are."""
    count = len(slow)
    whole, rest = divmod(count, every)
    by_offset = np.count_nonzero(slow[: whole * every].reshape(whole, every), axis=0)
    by_offset[:rest] += slow[whole * every :]
    offset = int(np.argmax(by_offset))
    hits, places = int(by_offset[offset]), whole + (offset < rest)
    if hits < max(HITS_PART * places, FEWEST_RARE):
        return None
    rate = (total - hits + 1) / count
    chance = min(1.0, _ways(count, places) * binomial_tail(hits, places, rate))
    next_hits = int(np.partition(by_offset, -2)[-2])
    beside = every * binomial_tail(next_hits, places, rate)
    if chance > MOST_CHANCE or beside <= MOST_CHANCE:
        return None
    return RarePeriod(every, offset, hits, total - hits, chance, missed=places - hits)
