"""What a host adds to the times of commands: the tick of its clock, and its gap between commands.

A clock as coarse as a millisecond says of no single command when it was submitted. Over many commands it
does: they come at any time within a tick, so that the mean of differences is that of a fine clock.

Invariant: pure functions of columns of times, ns.

Source: the error of a quantity that is rounded to a step and spread evenly over it is uniform, Widrow and
Kollar, "Quantization Noise" (2008), chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import IoLog

TICK_DEVIATION = 12**-0.5
"""Standard deviation of a time that is rounded to a tick, in ticks."""
COARSE_NS = 100_000.0
"""A tick from which on a clock does not say when a command was submitted: chosen, half of what jitter delays
commands by."""
COARSEST_NS = 1e7  # a jiffy of a kernel that ticks a hundred times a second
LONGEST_GAP_NS = 2e6  # a host that takes so much longer than usual was not woken in time


@dataclass(frozen=True, slots=True)
class Host:
    """The mean gap from a completion to the next submission, and the tick of the clock, ns."""

    gap_ns: float
    tick_ns: float

    @property
    def coarse(self) -> bool:
        """Whether the clock is too coarse to say when a command was submitted."""
        return self.tick_ns >= COARSE_NS


FINE_HOST = Host(0.0, 1.0)
"""No gap, and a clock of a nanosecond."""


def tick_ns(*columns: NDArray[np.generic]) -> float:
    """The tick of the clock that some times were read from, ns: the largest that all are multiples of, unless
    no clock is so coarse."""
    found = [np.gcd.reduce(column.astype(np.int64)) for column in columns if len(column)]
    tick = float(np.gcd.reduce(found)) if found else 1.0
    return tick if 0 < tick <= COARSEST_NS else 1.0


def host_of(log: IoLog) -> Host:
    """The host of a log of commands one at a time."""
    tick = tick_ns(log.submit_ns, log.complete_ns)
    if len(log) < 2:
        return Host(0.0, tick)
    gaps_ns = log.submit_ns[1:].astype(np.int64) - log.complete_ns[:-1].astype(np.int64)
    kept = gaps_ns[gaps_ns <= np.median(gaps_ns) + max(LONGEST_GAP_NS, tick)]
    return Host(float(kept.mean()), tick)
