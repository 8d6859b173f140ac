"""Arm times between a few tracks: within one, to the next, and to those some tracks away.

Invariant: as of `rotation.analysis`, of which this is the part that the steps of short hops say.

Source: docs/tests/rotation.md, "How it decides".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from skylight.evidence import F64, IoLog
from skylight.infer.adjacent_tracks import OPEN, NextTrack
from skylight.infer.minimum_access_time import Reach
from skylight.infer.track_phases import Tracks
from skylight.probe.rotation import seeks
from skylight.probe.rotation.findings import SEEK_RIGHT
from skylight.probe.rotation.hop_passes import HopPasses, Pair
from skylight.probe.rotation.plan_steps import (
    APART_READS,
    IN_TURNS,
    NEXT_READS,
    ONCE_MORE,
    SAME_AGAIN,
    SAME_PIECES,
    SAME_READS,
    TURN_READS,
)
from skylight.probe.rotation.track_fit import Turn

FEWEST_STRETCHES = 8
MOST_TURNS_OFF = SEEK_RIGHT.part / 4
"""How far an edge in turns may be off, as a part of the step: else both are looked for in wider windows."""
MOST_OPEN = SEEK_RIGHT.part / 3
"""How far likely ways of walking may lie from their mean, as a part of that; else a second place is asked.
Chosen: other errors are as large, and pairs near a mean may all be of the later way (drive 103933 drawn)."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """The mean of what single stretches of pairs take longer than those within a track, and how far they are
    from each other beside what those are and what angles leave open (pairs of more than one time), ns."""

    ns: float
    spread_ns: float


class StepTimes(ABC):
    """See the module's page. `_log` gives the log of a step by its name."""

    _log: Callable[[str], IoLog]

    @property
    @abstractmethod
    def near(self) -> Tracks | None:
        """Some dozens of tracks at the start."""

    @property
    @abstractmethod
    def turn(self) -> Turn | None:
        """The rotation."""

    @property
    @abstractmethod
    def times(self) -> int:
        """How many times as many reads fine steps have."""

    def _pooled(self, name: str, pairs: int, reads: int) -> Reach | None:
        if self.near is None or self.turn is None:
            return None
        return seeks.pooled_reaches(self._log(name), self.near, self.turn, reads // pairs)[0]

    @cached_property
    def same_wide(self) -> Reach | None:
        """The reach within a track, roughly."""
        return self._pooled("same-wide", SAME_PIECES, SAME_READS)

    @cached_property
    def same_narrow(self) -> Reach | None:
        """The reach within a track, finer: None where the edge was not in the window that was looked at."""
        return seeks.bracketed(self._pooled("same", SAME_PIECES, SAME_READS))

    @cached_property
    def same(self) -> Reach | None:
        """The reach within a track: overhead and the transfer of a block."""
        if len(self._log(SAME_AGAIN)):
            return seeks.bracketed(self._pooled(SAME_AGAIN, SAME_PIECES, SAME_READS))
        return self.same_narrow

    @cached_property
    def following(self) -> dict[Pair, float]:
        """Arm times between tracks that follow each other in address, ns."""
        return {} if (passes := self._passes("next", NEXT_READS)) is None else passes.all_ns()

    @cached_property
    def apart(self) -> dict[Pair, float]:
        """Arm times from the first and the last of some dozens of tracks to the others, ns."""
        return {} if (passes := self._passes("apart", APART_READS)) is None else passes.all_ns()

    def rough_times(self, name: str, pairs: list[Pair], count: int) -> F64:
        """Arm times of pairs by the first pass over a wide range, the median where it has none, ns."""
        times = {} if (passes := self._passes(name, count)) is None else passes.rough_ns(pairs)
        middle = float(np.median(list(times.values()))) if times else np.nan
        return np.array([times.get(pair, middle) for pair in pairs])

    def not_seen(self, name: str, pairs: list[Pair], count: int) -> list[int]:
        """The numbers of the pairs whose edge the second pass did not show."""
        found = {} if (passes := self._passes(name, count)) is None else passes.fine_ns()
        return [number for number, pair in enumerate(pairs) if pair not in found]

    def _passes(self, name: str, count: int) -> HopPasses | None:
        """The passes over a step's pairs; None before the start and the reach within a track are known."""
        if self.near is None or self.turn is None or self.same is None:
            return None
        return HopPasses(self._log, name, self.near, self.turn, self.same.ns, count, self.times)

    @cached_property
    def neighbours(self) -> NextTrack | None:
        """The step to the next track of a surface; its pairs are of pieces."""
        return None if self.near is None else seeks.step_of(self.near, self.following, self.apart)

    @cached_property
    def in_turns(self) -> tuple[Reach, Reach] | None:
        """The reach within a track and that between those, measured in turns and more finely: how late the
        host is counts in both alike, though it may be later in one minute than in another."""
        return self._turns(self._turns_step)

    @cached_property
    def turns_miss_edges(self) -> bool:
        """Whether the edges of these were not in the windows that were looked at, or at the end of one: in
        the minute before, the host may have been later or less late."""
        if (found := self._turns(IN_TURNS)) is None:
            return len(self._log(IN_TURNS)) > 0
        same, other = found
        return max(same.half_ns, other.half_ns) > MOST_TURNS_OFF * (other.ns - same.ns)

    @property
    def _turns_step(self) -> str:
        again = IN_TURNS + ONCE_MORE
        return again if len(self._log(again)) else IN_TURNS

    def _turns(self, name: str) -> tuple[Reach, Reach] | None:
        if self.near is None or self.turn is None:
            return None
        count = TURN_READS * self.times
        same, other = seeks.pooled_reaches(self._log(name), self.near, self.turn, count, 2)
        return None if same is None or other is None else (same, other)

    @cached_property
    def by_stretches(self) -> Stretches | None:
        """The step by single stretches of the pairs in turns; None where too few of them show an edge."""
        if self.near is None or self.turn is None or self.in_turns is None:
            return None
        log, count = self._log(self._turns_step), TURN_READS * self.times
        same, other = seeks.stretches_ns(log, self.near, self.turn, count)
        if min(len(same), len(other)) < FEWEST_STRETCHES:
            return None
        # Angles of two tracks are known to what their reads leave open, which within one counts for nothing.
        angle_ns = self.turn.period_ns * self.near.sigma * sqrt(2.0 / float(np.median(self.near.count)))
        spread_ns2 = float(np.var(other) - np.var(same)) - angle_ns**2
        return Stretches(float(np.mean(other) - np.mean(same)), sqrt(max(spread_ns2, 0.0)))

    @property
    def is_open(self) -> bool:
        """Whether the step to the next track is a mean of ways of walking that differ by much of what is
        right."""
        near = self.neighbours
        return near is not None and near.walk == OPEN and near.open_ns > MOST_OPEN * near.ns

    @property
    def off_pairs_ns(self) -> float:
        """How much longer than the pairs that were measured in turns the arm takes, by the steps before."""
        near, known = self.neighbours, self.following | self.apart
        times = [known[pair] for pair in near.pairs if pair in known] if near is not None else []
        return near.ns - float(np.mean(times)) if near is not None and times else 0.0
