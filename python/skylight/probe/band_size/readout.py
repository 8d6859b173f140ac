"""Has a block been cleaned? Seen by where it passes under the head, beside a block that never moved.

Each block is read right behind its *partner*, 64 KiB further on, which is never written and so always native.
As long as the block lies natively too, it is read as much later than its partner as on the fresh drive: less
than a revolution, wherever the heads came from. In the persistent cache it lies anywhere: another angle, and
most often a seek. Cleaned, it is as it was at first. The partner comes first, so that look-ahead finds
nothing.

A band is then the longest likely stretch of cleaned blocks around one that was cleaned: how much later each
block was read than at first is compared with how well two readings of the fresh drive agree.

Invariant: a single reading never decides; its weight is bounded, for it may be an outlier.
Source: Skylight (FAST '15), section 4.7, Test 9: consecutive reads at a fixed stride with identical latency
identify a cleaned band; the partner makes that hold whatever tracks and stride are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64, IoBatch, IoLog
from skylight.probe.procedure import Steps

BLOCK = 4096
PARTNER_BYTES = 64 << 10
COPIES_APART = 4 * BLOCK
TURN_NS = 60e9 / 5_400  # how wide a cached block may fall, if no test has found the rotation
LEAST_NOISE_NS = 20_000.0
MOST_WEIGHT = 4.0
CACHED_TURNS = 3.0


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


@dataclass(frozen=True, slots=True)
class Fresh:
    """Two readings of the fresh drive: where blocks lie natively, and how well readings agree."""

    delay_ns: F64
    noise_ns: float
    rotation_ns: float

    @staticmethod
    def of(first_ns: F64, second_ns: F64, rotation_ns: float | None) -> Fresh:
        """The earlier of the two is nearer to the mechanics, which nothing is faster than."""
        apart = np.abs(second_ns - first_ns)
        noise = max(1.5 * float(np.median(apart)), LEAST_NOISE_NS)
        return Fresh((first_ns + second_ns) / 2, noise, rotation_ns or TURN_NS)

    def weights(self, delay_ns: F64) -> F64:
        """Logarithm of how much more likely each is for a block that is native than for one in the cache."""
        off = (delay_ns - self.delay_ns) / self.noise_ns
        native = np.log(0.4 / self.noise_ns) - 0.5 * np.minimum(np.abs(off), 1e3) ** 2
        cached = -np.log(CACHED_TURNS * self.rotation_ns)
        return np.asarray(np.clip(native - cached, -MOST_WEIGHT, MOST_WEIGHT), np.float64)


def stretch(weights: F64, sure: int) -> tuple[int, int]:
    """The most likely stretch of native points around the one that is: first and behind the last."""
    above = np.concatenate([[0.0], np.cumsum(weights[sure + 1 :])])
    below = np.concatenate([[0.0], np.cumsum(weights[:sure][::-1])])
    return sure - int(np.argmax(below)), sure + 1 + int(np.argmax(above))
