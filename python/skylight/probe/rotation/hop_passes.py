"""Arm times between pairs of tracks from the passes over them: a wide one, a fine one around the edge that
the wide one shows, and one more over the pairs whose edge was not in the window of the fine one.

The wide pass has a read in 60 us, and where commands take longer by chance it is off by more than the fine
window begins before it. Pairs that take less than most others are lost there first, and those distinguish
a step of the arm from a head switch: so they are read again in a window that is wider on both sides.

Invariant: pure functions of logs; a pair without an edge in any window has no time.

Source: docs/tests/rotation.md, "What is done to the drive".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skylight.evidence import IoLog
from skylight.infer.track_phases import Tracks
from skylight.probe.rotation import seeks
from skylight.probe.rotation.plan_steps import FINE, ONCE_MORE
from skylight.probe.rotation.track_fit import Turn

Pair = seeks.Pair
PAIRS_OF: dict[str, Callable[[Tracks], list[Pair]]] = {"next": seeks.next_pairs, "apart": seeks.apart_pairs}
"""The pairs that each step hops between."""


@dataclass(frozen=True, slots=True)
class HopPasses:
    """What gives a step's log by its name, the step, the tracks that it hops between, the rotation, the reach
    within a track (ns), and the reads of a pair in the wide pass; in the others `times` as many."""

    log: Callable[[str], IoLog]
    name: str
    tracks: Tracks
    turn: Turn
    same_ns: float
    count: int
    times: int

    def all_ns(self) -> dict[Pair, float]:
        """Arm times of all passes."""
        fine = self.fine_ns()
        # The last pass asked for those that the fine one does not show.
        left = [pair for pair in self._pairs() if pair not in fine]
        return fine | self._times_ns(self.name + ONCE_MORE, left, self.count * self.times)

    def rough_ns(self, pairs: list[Pair]) -> dict[Pair, float]:
        """Arm times by the wide pass."""
        return self._times_ns(self.name, pairs, self.count)

    def fine_ns(self) -> dict[Pair, float]:
        """Arm times by the fine pass, where it found the edge that the wide one saw."""
        pairs = self._pairs()
        rough = self.rough_ns(pairs)
        fine = self._times_ns(self.name + FINE, pairs, self.count * self.times)
        return {
            pair: ns for pair, ns in fine.items() if pair in rough and abs(ns - rough[pair]) < seeks.COARSE_NS
        }

    def _pairs(self) -> list[Pair]:
        return PAIRS_OF[self.name](self.tracks)

    def _times_ns(self, name: str, pairs: list[Pair], count: int) -> dict[Pair, float]:
        """Arm times between the tracks of each pair, where they are known well enough."""
        found = seeks.hop_reaches(self.log(name), self.tracks, self.turn, count)
        return {
            pair: reach.ns - self.same_ns
            for pair, reach in zip(pairs, found, strict=False)
            if reach is not None and reach.half_ns <= seeks.COARSE_NS
        }
