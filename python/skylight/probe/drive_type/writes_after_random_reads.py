"""Writes with a random read before each: does the drive append them to a log on a platter, or keep them where
no head has to go?

The read takes the arm away and lets a random part of a revolution pass. A log on a platter is written where
it ended: from one write's completion to the next it advances by the same part of a revolution, or by one of a
few, whatever came between (`skylight.infer.log_phase_step`). Writes to flash take as long as ever, so that
their latencies pile up: they wait neither for the arm nor for an angle. Writes in place do neither. A write
that stalled, because a band was cleaned or a sector retried, tells of none of these and is left out.

A pile is at least half of the writes within a tenth of a revolution. A wait for an angle is even over a
revolution, or more even still after seeks, so that hardly ever so many fall together; the chance is that of
the fullest of the windows that begin at a write.

Invariant: no writes are both a log and flash.

Source: Skylight (FAST '15) section 4.3 (fixed latencies), turned into a test that random waits cannot feign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U64
from skylight.infer.log_phase_step import LARGEST_P, NO_ADVANCE, Advance, advance
from skylight.infer.phase import Coherence
from skylight.infer.robust import Spread, confidence_that, within_tick
from skylight.infer.tail_probability import binomial_tail

PAIRS, MORE_PAIRS = 192, 576
DOUBTFUL_P = 0.01
"""Chance of steps as alike below which more writes are looked at: with four times as many, that of a log is
below the limit, and of a hundred disks written in place one gets so many writes in vain."""
FEWEST_PAIRS = 16  # of which quartiles mean something; how many tell, the chances say
AWAY_TURNS = 0.3  # waits even over a revolution have an interquartile range of half a revolution
LEVEL_TURNS = 0.1  # flash and jitter spread over less than a tenth of a revolution
LEVEL_SHARE = 0.5
STALL_NS = 100_000_000  # slower than any single seek and wait: a band being cleaned, a retry
STALL_TURNS = 10  # or than the longest entry of a journal on a slow disk


@dataclass(frozen=True)
class Mixed:
    """Latency of random reads and of the writes after each, completion of these (ns), the rotation, and the
    tick of the clock (ns)."""

    name: str
    reads_ns: I64
    latency_ns: I64
    complete_ns: U64
    turning: Coherence
    tick_ns: int = 0

    @cached_property
    def steps(self) -> Advance:
        """The advance from write to write, modulo the revolution; none if the reads did not take the drive a
        random part of a revolution away."""
        if not self._apart:
            return NO_ADVANCE
        # Of a revolution that is nearly some ticks long the multiples would be alike for the clock's sake.
        complete_ns = within_tick(self.complete_ns, self.tick_ns) if self.tick_ns else self.complete_ns
        return advance(complete_ns, self.turning.period_ns, self._stalled)

    @property
    def all_ns(self) -> I64:
        """Latency of the reads and the writes: behind a volatile cache the reads wait for what is cleaned."""
        return np.concatenate([self.reads_ns, self.latency_ns])

    @property
    def flushed(self) -> bool:
        """Whether a FLUSH followed each write."""
        return self.name.endswith("-flushed")

    @property
    def logged(self) -> bool:
        """True for a log on a platter."""
        return self.steps.steady and not self.level

    @property
    def doubtful(self) -> bool:
        """True where nothing is plain, but more writes may show a log: where its entries are longer than
        tracks, their steps take several values, each of them seldom."""
        return not self.level and LARGEST_P < self.steps.p_value <= DOUBTFUL_P

    @cached_property
    def level(self) -> bool:
        """True for writes that waited neither for the arm nor for an angle."""
        return self._apart and self._is_level(self._moving_ns) and self.level_p_value <= LARGEST_P

    @property
    def quarter_ns(self) -> float:
        """What a quarter of the reads take at most: the way to the drive, the arm, and part of a
        revolution."""
        return float(np.percentile(self.reads_ns, 25))

    @property
    def outlasts(self) -> bool:
        """True for writes that wait for no angle, and yet take longer than a quarter of the reads, which do.
        A volatile cache answers before; these wait for a medium, so for flash. More writes that stay as fast
        would say less: a cache that takes them so slowly is written out meanwhile."""
        return self.level and float(np.median(self._moving_ns)) >= self.quarter_ns

    @property
    def level_p_value(self) -> float:
        """The chance of such a pile if the latencies were even over a revolution; at most, for a pile may
        begin at any of them."""
        count = len(self._moving_ns)
        others = self._pile(self._moving_ns) - 1
        chance = (self._level_ns + self.tick_ns) / self.turning.period_ns
        return min(1.0, count * binomial_tail(others, count - 1, chance))

    @property
    def level_confidence(self) -> float:
        """How many bootstrap resamples are level, and the chance of it."""
        return confidence_that(self._moving_ns, self._is_level) * (1.0 - self.level_p_value)

    @property
    def logged_confidence(self) -> float:
        """How sure the advance is: its chance, and the rotation it is folded over."""
        return (1.0 - self.steps.p_value) * self.turning.confidence * (1.0 - self.turning.p_value)

    @property
    def _stalled(self) -> NDArray[np.bool_]:
        return self.latency_ns >= max(STALL_NS, STALL_TURNS * self.turning.period_ns)

    @cached_property
    def _moving_ns(self) -> I64:
        """Latencies of the writes that did not stall."""
        moving: I64 = self.latency_ns[~self._stalled]
        return moving

    @property
    def _apart(self) -> bool:
        """Whether the reads took the drive a random part of a revolution away."""
        if min(len(self.reads_ns), len(self._moving_ns)) < FEWEST_PAIRS:
            return False
        return Spread.of(self.reads_ns).iqr_ns >= AWAY_TURNS * self.turning.period_ns

    @property
    def _level_ns(self) -> float:
        """How far apart latencies of flash are: no closer than the clock tells."""
        return max(LEVEL_TURNS * self.turning.period_ns, self.tick_ns)

    def _pile(self, latency_ns: I64) -> int:
        """The most latencies so near each other, from one of them on."""
        ordered = np.sort(latency_ns)
        ends = np.searchsorted(ordered, ordered + self._level_ns, side="right")
        return int((ends - np.arange(len(ordered))).max())

    def _is_level(self, latency_ns: I64) -> bool:
        return self._pile(latency_ns) >= LEVEL_SHARE * len(latency_ns)
