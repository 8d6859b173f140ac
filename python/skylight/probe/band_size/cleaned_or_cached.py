"""Has a block been cleaned? Seen by where it passes under the head, beside a block that never moved.

Each block is read right behind its *partner*, 64 KiB further on, which is never written and so always native.
As long as the block lies natively too, it is read as much later than its partner as on the fresh drive: less
than a revolution, wherever the heads came from. In the persistent cache it lies anywhere: another angle, and
most often a seek. Cleaned, it is as it was at first. The partner comes first, so that look-ahead finds
nothing.

A band is then the longest likely stretch of cleaned blocks around one that was cleaned: how much later each
block was read than at first is compared with how well two readings of the fresh drive agree.

A client or a slow link that comes between the two costs whole revolutions and leaves the angle as it is: so a
native block may also come one or more of them later, seldom. A coarse clock blurs both.

Invariant: a single reading never decides; its weight is bounded, for it may be an outlier.
Source: Skylight (FAST '15), section 4.7, Test 9: consecutive reads at a fixed stride with identical latency
identify a cleaned band; the partner makes that hold whatever tracks and stride are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64, IoBatch, IoLog
from skylight.infer.host_clock import DIFFERENCE_DEVIATION, readings_needed
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.procedure import Steps

BLOCK = 4096
PARTNER_BYTES = 64 << 10
COPIES_APART = 4 * BLOCK
TURN_NS = 60e9 / 5_400  # how wide a cached block may fall, if no test has found the rotation
LEAST_NOISE_NS = 20_000.0
MOST_WEIGHT = 4.0
CACHED_TURNS = 3.0
LATE_SHARE = 0.1  # chosen: of the readings of native blocks, those that may come whole revolutions later
MOST_LATE_TURNS = 8  # chosen: what a few reads of another client take
SPREAD = ((0.5, 1.5), (0.6, 1.2))
"""Shares of the differences of two readings, and how many of those a normal noise deviates by. The second
is for means of a few readings by a coarse clock, of which half may be equal."""
MOST_APART = 6.0
"""Times the noise of readings that two of one block may differ by. Chosen: without outliers none do."""
BY_CHANCE = 1e-3
"""Chosen: a band looked for once more costs minutes, one that was misread is a wrong answer."""
COARSE_ERROR, MOST_TIMES = 0.02, 6
"""Of a revolution: what the tick of the clock may leave open of a delay, and how often blocks are read for
that at most. Chosen: a tick of a fifth of a revolution then hides one native block in a hundred, and not one
in seven, and no reading takes more than six times as long."""


def copies(points: I64, count: int) -> I64:
    """Blocks at and behind each point, below its partner: as many chances to see where it lies."""
    return np.asarray((points[:, None] + np.arange(count) * COPIES_APART).ravel(), np.int64)


def batch(blocks: I64) -> IoBatch:
    """Reads of blocks, each behind its partner."""
    partner = blocks - blocks % PARTNER_BYTES + PARTNER_BYTES
    both = np.stack([partner, blocks], axis=1).ravel()
    return IoBatch.reads(both, BLOCK)


def delays(log: IoLog) -> F64:
    """How much later each block was read than its partner, ns."""
    done = log.complete_ns.astype(np.int64)[: len(log) // 2 * 2]
    return np.asarray(done[1::2] - done[0::2], np.float64)


def read(steps: Steps, name: str, blocks: I64) -> F64:
    """Reads blocks and says how much later than its partner each came, ns."""
    return delays(steps.run(name, batch(blocks)))


def tick_ns(delay_ns: F64) -> float:
    """The tick of the clock by which delays were taken, ns: all are whole ticks.

    >>> tick_ns(np.array([3e6, 11e6, 9e6]))
    1000000.0
    """
    return float(np.gcd.reduce(delay_ns.astype(np.int64))) if len(delay_ns) else 0.0


def times(delay_ns: F64, rotation_ns: float | None) -> int:
    """How many times blocks have to be read by the clock of these delays.

    >>> times(np.array([3e6, 4e6]), 11.1e6), times(np.array([3e6, 4e6]), 5e6)
    (4, 6)
    >>> times(np.array([3.1e6, 4e6]), 5e6)
    1
    """
    enough = readings_needed(tick_ns(delay_ns), rotation_ns or TURN_NS, COARSE_ERROR)
    return int(np.clip(np.ceil(enough), 1, MOST_TIMES))


def read_enough(steps: Steps, name: str, blocks: I64) -> list[F64]:
    """Reads blocks as often as the clock asks for."""
    first = read(steps, name, blocks)
    more = times(first, steps.known.number("rotation_ns")) - 1
    return [first, *(read(steps, name, blocks) for _ in range(more))]


def _within_a_turn(off_ns: F64, rotation_ns: float | None) -> F64:
    """What differences are beside whole revolutions, ns; all of them where no test has found a revolution."""
    return off_ns if rotation_ns is None else off_ns - np.round(off_ns / rotation_ns) * rotation_ns


def middle_of(readings: Sequence[F64], rotation_ns: float | None) -> F64:
    """The delay of each block over several readings: of whole revolutions the median, of the angle the mean,
    from which the ticks of a clock go."""
    every = np.stack(readings)
    middle = np.median(every, axis=0)
    return np.asarray(middle + _within_a_turn(every - middle, rotation_ns).mean(axis=0), np.float64)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Two readings of the fresh drive: where blocks lie natively, and how well readings agree; one
    revolution, None if no test has found it."""

    delay_ns: F64
    noise_ns: float
    rotation_ns: float | None
    astray: float = 0.0
    """The share of readings that a busy host made late: so often a native block looks like a cached one."""

    @staticmethod
    def of(first_ns: F64, second_ns: F64, rotation_ns: float | None) -> Fresh:
        """What both readings have in common; of two that lie whole revolutions apart, the earlier."""
        blur = DIFFERENCE_DEVIATION * tick_ns(np.concatenate([first_ns, second_ns]))
        if rotation_ns is not None:
            late = np.round((second_ns - first_ns) / rotation_ns) * rotation_ns
            first_ns, second_ns = first_ns + np.minimum(late, 0.0), second_ns - np.maximum(late, 0.0)
        spread = [part * float(np.quantile(np.abs(second_ns - first_ns), share)) for share, part in SPREAD]
        noise = max(*spread, LEAST_NOISE_NS, blur)
        return Fresh((first_ns + second_ns) / 2, noise, rotation_ns)

    def weights(self, delay_ns: F64) -> F64:
        """Logarithm of how much more likely each is for a block that is native than for one in the cache."""
        late = delay_ns - self.delay_ns
        native = self._density(late)
        if self.rotation_ns is not None:
            turns = np.round(late / self.rotation_ns)
            turns = np.where(np.abs(turns) <= MOST_LATE_TURNS, turns, 0.0)
            whole = self._density(late - turns * self.rotation_ns)
            native = np.logaddexp(np.log(1 - LATE_SHARE) + native, np.log(LATE_SHARE / CACHED_TURNS) + whole)
        cached = -np.log(CACHED_TURNS * (self.rotation_ns or TURN_NS))
        if self.astray > 0:
            native = np.logaddexp(np.log(1 - self.astray) + native, np.log(self.astray) + cached)
        return np.asarray(np.clip(native - cached, -MOST_WEIGHT, MOST_WEIGHT), np.float64)

    def _density(self, off_ns: F64) -> F64:
        """Logarithm of the density of being off by so much."""
        off = np.minimum(np.abs(off_ns / self.noise_ns), 1e3)
        return np.asarray(np.log(0.4 / self.noise_ns) - 0.5 * off**2, np.float64)


def _angle_apart(one_ns: F64, other_ns: F64, rotation_ns: float | None) -> F64:
    """By how much two readings of each block differ, whole revolutions aside, ns."""
    return np.asarray(np.abs(_within_a_turn(other_ns - one_ns, rotation_ns)), np.float64)


def unsettled(one_ns: F64, other_ns: F64, rotation_ns: float | None) -> I64:
    """The blocks of which two readings differ by more than readings do: the host made one of a pair late, and
    where the block lies natively is not known."""
    noise_ns = Fresh.of(one_ns, other_ns, rotation_ns).noise_ns
    apart = _angle_apart(one_ns, other_ns, rotation_ns)
    return np.asarray(np.flatnonzero(apart > MOST_APART * noise_ns), np.int64)


def have_moved(one_ns: F64, other_ns: F64, third_ns: F64, rotation_ns: float | None) -> bool:
    """Whether blocks of which two readings differ moved between these: then the third agrees with the second.
    Of readings that a host made late it agrees with the first as often.

    >>> one, other = np.full(40, 2e6), np.full(40, 6e6)
    >>> have_moved(one, other, other, 10e6)
    True
    >>> have_moved(one, other, np.where(np.arange(40) % 2, one, other), 10e6)
    False
    """
    second = _angle_apart(other_ns, third_ns, rotation_ns) < _angle_apart(one_ns, third_ns, rotation_ns)
    return binomial_tail(int(second.sum()), len(second), 0.5) < BY_CHANCE


def nearest_two(one_ns: F64, other_ns: F64, third_ns: F64, rotation_ns: float | None) -> tuple[F64, F64]:
    """Of three readings of each block the two that are nearest to each other, ns.

    >>> one, other, third = np.array([5e6]), np.array([9e6]), np.array([5.1e6])
    >>> nearest_two(one, other, third, 10e6)
    (array([5000000.]), array([5100000.]))
    """
    pairs = ((one_ns, other_ns), (one_ns, third_ns), (other_ns, third_ns))
    apart = np.stack([_angle_apart(*pair, rotation_ns) for pair in pairs])
    best = apart.argmin(axis=0)
    first, second = (np.stack([pair[side] for pair in pairs]) for side in (0, 1))
    each = np.arange(len(one_ns))
    return np.asarray(first[best, each], np.float64), np.asarray(second[best, each], np.float64)


def stretch(weights: F64, sure: int) -> tuple[int, int]:
    """The most likely stretch of native points around the one that is: first and behind the last."""
    above = np.concatenate([[0.0], np.cumsum(weights[sure + 1 :])])
    below = np.concatenate([[0.0], np.cumsum(weights[:sure][::-1])])
    return sure - int(np.argmax(below)), sure + 1 + int(np.argmax(above))
