"""Lone writes that stall: the map merges among them.

Invariant: pure functions of latencies.
Source: Skylight (FAST '15) section 4.3, the 325 ms of the 240th write.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

BULK = 95  # per cent of writes that no merge delays, whatever the period
LEAST_STALL_NS = 100_000
SPREADS = 3.0
TURN_PART = 0.6  # on a disk a merge costs a whole turn at least, a step to another track less


def slow_ones(latency_ns: I64, turn_ns: float | None) -> NDArray[np.bool_]:
    """Which writes took longer than the bulk and its spread allow; `turn_ns` where the cache is on disk."""
    if not len(latency_ns):
        return np.zeros(0, bool)
    low, bulk = np.percentile(latency_ns, [50, BULK])
    least = LEAST_STALL_NS if turn_ns is None else TURN_PART * turn_ns
    return np.asarray(latency_ns > bulk + (max(least, SPREADS * (bulk - low)) if turn_ns is None else least))


def before_cleaning(latency_ns: I64, latency_limit_ns: int, count: int, within: int) -> int:
    """How many writes were done before cleaning set in: before the first of the stalls that ended the run."""
    slow = np.flatnonzero(latency_ns[-within:] >= latency_limit_ns)
    if len(slow) < count:
        return len(latency_ns)
    return int(len(latency_ns) - min(within, len(latency_ns)) + slow[0])
