"""Throughput along the drive from bursts of sequential reads.

Invariant: pure functions of a log; a burst's speed is a median, so that a slow command does not count.
Source: Skylight (FAST '15) section 4.9, Test 11.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, IoLog

BURSTS, BURST_READS, READ_BYTES = 49, 24, 1 << 20


@dataclass(frozen=True, slots=True)
class Profile:
    """Where bursts began (bytes), their speed (bytes/s), and how far halves of a burst disagree."""

    at: F64
    speed: F64
    spread: float

    @property
    def ends(self) -> dict[str, float]:
        """Speed at the first, the middle and the last burst."""
        middle = len(self.speed) // 2
        return {"od": float(self.speed[0]), "md": float(self.speed[middle]), "id": float(self.speed[-1])}


def profile_of(log: IoLog) -> Profile | None:
    """The profile from a step of bursts; None where it holds no whole burst."""
    count = len(log) // BURST_READS
    if count < 3:
        return None
    done = log.complete_ns[: count * BURST_READS].astype(np.float64).reshape(count, BURST_READS)
    size = log.size[: count * BURST_READS].astype(np.float64).reshape(count, BURST_READS)
    half = BURST_READS // 2
    spent_s = (done[:, half:] - done[:, :-half]) / 1e9
    if np.any(spent_s <= 0):
        return None
    speeds = half * size[:, :half] / spent_s
    speed = np.median(speeds, axis=1)
    early, late = np.median(speeds[:, : half // 2], axis=1), np.median(speeds[:, half // 2 :], axis=1)
    at = log.offset[: count * BURST_READS : BURST_READS].astype(np.float64)
    return Profile(at, speed, float(np.median(np.abs(early / late - 1))))
