"""Writes to the zones of a zoned drive: how many zones it serves at full speed, and when it blocks.

| function | answers |
|---|---|
| `edge` | from which number of zones on do writes cost a multiple |
| `falls` | in how many steps does a throughput fall, with level stretches between them |
| `slow_spells` | which stretches of a long run of writes are at a small part of its pace |
| `more_often` | from which write on do slow ones come more often, for good |

A drive that merges a map, or whose volatile cache is full, delays one write in many; a drive whose persistent
cache is full waits for a zone to be cleaned at nearly every write. So a spell is not known by its slowest
write but by a pace that stays low: the excess of its writes over `PACES` times the usual adds up, and what
adds up to less than `LEAST_SPELL_NS` is a stall (a cumulative sum, as in `skylight.infer.stalls`).

Invariant: pure functions of counts, costs and latencies.

Sources: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), sections 3.2 (Figure 1) and 3.3
(Figure 2); Page, "Continuous inspection schemes", Biometrika 1954.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, Bools

PAST_EDGE = 4.0
"""Past the edge a write costs so many times what it cost before: chosen, because seeks over twice as many
zones, and stalls that come now and then, cost less, and one write in ten that waits for a zone's metadata
costs more (on an ST8000AS0022, 0.2 ms a write with 120 zones and 5.9 ms with 140)."""
STEEP = 0.8
"""A throughput that falls to less than this share from one count to the next is on a step; the recorded level
stretches differ by a twentieth, the steps by a quarter and more."""

PACES = 10.0
"""A write that takes longer than this many times the usual adds to a spell, any other takes from it: the
geometric middle between a usual pace and one a hundred times slower, which is the least that blocking
cleaning costs."""
LEAST_SPELL_NS = 10_000_000_000
"""Excess that makes a spell, and that ends it when as much is made up: ten merges of a map, and a few zones
cleaned."""
MORE_OFTEN = 2.0
"""Times as often as before that slow writes come from there on. Chosen: merges of a map come as often all
along, and a wait for one zone adds to them at least as often where zones are as small as the writes allow."""
MOST_CHANCE = 1e-4
"""That slow writes which come at random begin to come as often, anywhere in the log. Chosen."""
CHUNK_WRITES = 500
"""Writes whose mean is one value of the pace: more than two periods of the merges known (240 writes)."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The last number of zones that the drive serves at full speed, the first that was tried beyond it, and
    how many times as much a write costs there."""

    last: int
    beyond: int
    times: float


def edge(zones: Sequence[int], cost_ns: Sequence[float]) -> Edge | None:
    """The edge in the mean cost of a write (ns) against the number of zones (ascending); None without one.

    >>> edge([20, 60, 100, 120, 140, 180], [155, 178, 204, 223, 5_900, 12_900])
    Edge(last=120, beyond=140, times=26.457399103139014)
    >>> edge([20, 60, 100], [155, 178, 204]) is None
    True
    """
    for number in range(1, len(zones)):
        times = cost_ns[number] / cost_ns[number - 1]
        if times >= PAST_EDGE:
            return Edge(zones[number - 1], zones[number], times)
    return None


def falls(throughput: Sequence[float]) -> list[tuple[int, int]]:
    """The steps down of a throughput: index of the last value before each, and of the last value of it.

    >>> falls([224.0, 137.0, 69.3, 68.8, 38.5, 29.9])
    [(0, 2), (3, 5)]
    """
    steps: list[tuple[int, int]] = []
    for index in range(1, len(throughput)):
        if throughput[index] < STEEP * throughput[index - 1]:
            begins = steps.pop()[0] if steps and steps[-1][1] == index - 1 else index - 1
            steps.append((begins, index))
    return steps


@dataclass(frozen=True, slots=True)
class Spell:
    """A slow spell: index of its first write and of the first after it, and how long its writes took."""

    first: int
    end: int
    took_ns: int

    @property
    def writes(self) -> int:
        """How many writes it has."""
        return self.end - self.first


def usual_pace_ns(latency_ns: I64) -> float:
    """The pace at which most writes are done: the median of the means of chunks, so that regular stalls count
    and rare ones do not; ns a write."""
    whole = len(latency_ns) // CHUNK_WRITES * CHUNK_WRITES
    if whole == 0:
        return float(latency_ns.mean()) if len(latency_ns) else 0.0
    return float(np.median(latency_ns[:whole].reshape(-1, CHUNK_WRITES).mean(axis=1)))


def slow_spells(latency_ns: I64) -> list[Spell]:
    """The slow spells of lone writes, in their order; that of the end may go on beyond it.

    >>> latency = np.full(4_000, 15_000_000)
    >>> latency[100::240] = 450_000_000
    >>> latency[3_000:3_100] = 2_200_000_000
    >>> slow_spells(latency)
    [Spell(first=3000, end=3100, took_ns=220000000000)]
    """
    excess: F64 = latency_ns.astype(np.float64) - PACES * usual_pace_ns(latency_ns)
    found: list[Spell] = []
    at = 0
    while (spell := _next_spell(latency_ns, excess, at)) is not None:
        found.append(spell)
        at = spell.end
    return found


def _next_spell(latency_ns: I64, excess: F64, at: int) -> Spell | None:
    """The first spell from a write on: where the sum of the excess has risen by the least, back to where it
    was lowest before, on to its peak."""
    total = np.concatenate([[0.0], np.cumsum(excess[at:])])
    risen = np.flatnonzero(total - np.minimum.accumulate(total) >= LEAST_SPELL_NS)
    if not len(risen):
        return None
    begins = at + int(np.argmin(total[: risen[0]]))
    end = _peak(excess, begins)
    return Spell(begins, end, int(latency_ns[begins:end].sum()))


def _peak(excess: F64, begins: int) -> int:
    """The write after the peak of the sum from a write on, before the sum falls by the least below it."""
    total: NDArray[np.float64] = np.cumsum(excess[begins:])
    highest = np.maximum.accumulate(total)
    fallen = np.flatnonzero(highest - total >= LEAST_SPELL_NS)
    upto = total[: fallen[0]] if len(fallen) else total
    return begins + int(np.argmax(upto)) + 1


def more_often(is_slow: Bools) -> int | None:
    """The slow write from which on they come `MORE_OFTEN` times as often as before, to the end; None where
    they do not. A drive that cleans one zone for many writes delays few of them, but goes on to.

    Likelihood of two rates against one, at the slow write that makes it largest (of events at random: those
    that come regularly scatter less).

    >>> is_slow = np.zeros(10_000, bool)
    >>> is_slow[::400] = True
    >>> more_often(is_slow) is None
    True
    >>> is_slow[6_000::40] = True
    >>> more_often(is_slow)
    6000
    """
    at = np.flatnonzero(is_slow)
    if len(at) < 2:
        return None
    before, behind = np.arange(len(at)), len(at) - np.arange(len(at))
    passed, left = at, len(is_slow) - at
    rate = len(at) / len(is_slow)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(before > 0, before * np.log(before / np.maximum(passed, 1) / rate), 0.0)
        gain = first + behind * np.log(behind / left / rate)
    often = behind / left >= MORE_OFTEN * np.maximum(before, 1) / np.maximum(passed, 1)
    gain = np.where(often & (passed > 0), gain, -np.inf)
    best = int(np.argmax(gain))
    return int(at[best]) if len(at) * math.exp(-max(float(gain[best]), 0.0)) <= MOST_CHANCE else None
