"""How soon after a command's arrival the head can be over a block: overhead and arm time from whether blocks
were caught.

A read has to wait until its block comes round. If that is too soon for the drive (command overhead, then the
arm), the block is missed and comes one revolution later. So ideal latencies (from submission until the
block's end passes, by its angle, without what the command took longer) fill exactly one revolution from the
*reach* on: the soonest that can be caught. The reach is the lower edge of that revolution; the soonest caught
and the latest missed enclose it. Reaches of the same drive differ only by arm time, so that overhead and
transfer cancel in differences.

Invariant: an estimate tolerates a share of wrong rows (outliers, blocks that a cache answered) and says how
many there were.

Source: the minimum time between reads of Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI
disk drive parameters" (SIGMETRICS '95), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64

FEWEST_ROWS = 6
MOST_WRONG = 0.1
LATE_TURNS = 0.85  # a command takes less longer than its mechanics than this, or is an outlier


@dataclass(frozen=True, slots=True)
class Reach:
    """The edge lies between `low_ns` and `high_ns`; `wrong` of `count` rows contradict it."""

    low_ns: float
    high_ns: float
    count: int
    wrong: int

    @property
    def ns(self) -> float:
        """The middle."""
        return (self.low_ns + self.high_ns) / 2

    @property
    def half_ns(self) -> float:
        """Half of the width."""
        return (self.high_ns - self.low_ns) / 2


def ideal_ns(latency_ns: F64, submit_phase: F64, block_phase: F64, period_ns: float) -> F64:
    """Latencies as the mechanics alone would have had them.

    The block's end passes a known part of a revolution after submission, and again every revolution; the pass
    that was caught is the last one before the completion."""
    first = np.mod(block_phase - submit_phase, 1.0)
    turns = np.floor(latency_ns / period_ns - first + (1.0 - LATE_TURNS))
    return np.asarray((first + np.maximum(turns, 0.0)) * period_ns, np.float64)


def reach_of(ideal: F64, period_ns: float) -> Reach | None:
    """The edge below which no latency lies, and none a revolution above it; None where that cannot be
    said."""
    ideal = ideal[np.isfinite(ideal)]
    if len(ideal) < FEWEST_ROWS:
        return None
    caught, missed = np.sort(ideal), np.sort(ideal - period_ns)
    # An edge at e contradicts latencies below e, and latencies of a revolution more than e.
    edges = np.unique(np.concatenate([caught, missed]))
    middle = (edges[1:] + edges[:-1]) / 2
    if len(middle) == 0:
        return None
    wrong = np.searchsorted(caught, middle) + len(missed) - np.searchsorted(missed, middle)
    least = int(wrong.min())
    if least > MOST_WRONG * len(ideal):
        return None
    best = np.flatnonzero(wrong == least)
    pick = int(best[np.argmax(edges[best + 1] - edges[best])])
    return Reach(float(edges[pick]), float(edges[pick + 1]), len(ideal), least)
