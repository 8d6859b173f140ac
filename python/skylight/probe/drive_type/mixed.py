"""Writes with a random read before each: does the drive append them to a log on a platter, or keep them where
no head has to go?

The read takes the arm away and lets a random part of a turn pass. A log on a platter is written where it
ended: from one write's completion to the next it has advanced by the same part of a turn, whatever came
between. Writes to flash take as long as ever: they wait neither for the arm nor for an angle. Writes in place
do neither.

Source: Skylight (FAST '15) section 4.3 (fixed latencies), turned into a test that random waits cannot feign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U64
from skylight.infer.phase import Advance, Coherence, advance
from skylight.infer.robust import Spread, confidence_that

I64 = NDArray[np.int64]

PAIRS = 192
FEWEST_PAIRS = 32
AWAY_TURNS = 0.3  # waits even over a turn have an interquartile range of half a turn
LEVEL_TURNS = 0.1  # a wait for an angle is even over a turn; flash and jitter spread over less than a tenth


@dataclass(frozen=True)
class Mixed:
    """Latency of random reads and of the writes after each, completion of these (ns), and the rotation."""

    name: str
    reads_ns: I64
    latency_ns: I64
    complete_ns: U64
    turning: Coherence

    @cached_property
    def steps(self) -> Advance:
        """The advance from write to write, modulo the turn."""
        return advance(self.complete_ns, self.turning.period_ns)

    @property
    def logged(self) -> bool:
        """True for a log on a platter."""
        return self._enough and self.steps.steady

    @property
    def level(self) -> bool:
        """True for writes that waited neither for the arm nor for an angle."""
        return self._enough and not self.steps.steady and self._is_level(self.latency_ns)

    @property
    def level_confidence(self) -> float:
        """How many bootstrap resamples are level."""
        return confidence_that(self.latency_ns, self._is_level)

    @property
    def logged_confidence(self) -> float:
        """How sure the advance is: its chance, and the rotation it is folded over."""
        return (1.0 - self.steps.p_value) * self.turning.confidence * (1.0 - self.turning.p_value)

    @property
    def _enough(self) -> bool:
        """Whether there are writes enough, and the reads took the drive a random part of a turn away."""
        if len(self.latency_ns) < FEWEST_PAIRS:
            return False
        return Spread.of(self.reads_ns).iqr_ns >= AWAY_TURNS * self.turning.period_ns

    def _is_level(self, latency_ns: I64) -> bool:
        return Spread.of(latency_ns).iqr_ns <= LEVEL_TURNS * self.turning.period_ns
