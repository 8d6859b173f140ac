"""How long the arm takes between tracks whose angles are known: from sectors that are just caught or missed.

A read that comes too soon for the arm waits a turn more. So reads back and forth between two tracks, each
planned to come round a chosen part of a turn after the one before, tell the soonest that can be caught: a
first pass over the whole turn, two more around what the one before found. What is the same for any two tracks
(the command, the transfer) is measured within one track and taken off.

Invariant: reads only. A time that the reads contradict is not a number.

Source: `skylight.infer.reach`, after the minimum time between reads of Worthington, Ganger, Patt and Wilkes
(SIGMETRICS '95).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import IoLog
from skylight.geometry.clock import F64, I64, Platter, circular_median
from skylight.infer.reach import ideal_ns
from skylight.infer.turning import phase_of
from skylight.probe.rotation import places

READS = 11  # of each pass
PASSES = ("rough", "fine", "finest")
MORE_PASSES = ("again", "again_2")  # as narrow as the last one, where the host is often late
LEVEL_ROUNDS = 3
NARROWER = 2.4  # reads' distances of the pass before that a pass looks at
LEVEL_READS = 2
FEWEST_ROWS = 8
CAUGHT_WEIGHT = 4  # of a read that was caught too soon, in reads that were missed too late
MOST_CAUGHT, MOST_LATE = 0.05, 0.3
CHUNK_HOPS = 5  # hops, a second or so, over which a spindle keeps its speed


@dataclass(frozen=True, slots=True)
class Track:
    """A track: its first sector and how many it has."""

    first: int
    sectors: int


Hop = tuple[Track, Track]


class Arm:
    """Arm times through a platter's reads."""

    def __init__(self, platter: Platter) -> None:
        """Nothing is read yet."""
        self._platter = platter
        self._same_ns = 0.0

    @property
    def noise_ns(self) -> float:
        """What a time may be off, at the least: half of what two reads of the last pass are apart."""
        clock = self._platter.clock
        return clock.period_ns * ((NARROWER / READS) ** 2 / READS / 2 + 0.3 * clock.sigma)

    def measure_same(self, tracks: Sequence[Track]) -> float:
        """The soonest read of the same track after another, ns; taken off all others."""
        self._same_ns = 0.0
        found = self.times("same", [(track, track) for track in tracks])
        self._same_ns = float(np.nanmedian(found))
        return self._same_ns

    def times(self, name: str, hops: Sequence[Hop]) -> F64:
        """Arm time of each hop, ns; not a number where it cannot be told."""
        if not hops:
            return np.empty(0)
        levels = self._levels(name, hops)
        period_ns = self._platter.clock.period_ns
        begin, width = np.zeros(len(hops)), 1.0
        logs: list[IoLog] = []
        for which in (*PASSES, *(MORE_PASSES if self._platter.clock.busy_host else ())):
            logs.append(self._pass(f"{name}_{which}", hops, levels, begin, width))
            best = self._reaches(logs, hops)
            if not np.isfinite(best).any():
                break
            width = max(width * NARROWER / READS, (NARROWER / READS) ** (len(PASSES) - 1))
            begin = np.where(np.isfinite(best), best, np.nanmedian(best)) / period_ns - width / 2
        return best - self._same_ns

    def _levels(self, name: str, hops: Sequence[Hop]) -> dict[int, float]:
        """Phase at which the first sector of each track would be complete."""
        tracks = {track.first: track for hop in hops for track in hop}
        if len(tracks) == 0:
            return {}
        order = sorted(tracks)
        x = [order[0] + 1]
        for turn in range(LEVEL_READS):
            x += [first + (1 + turn) * tracks[first].sectors // (LEVEL_READS + 1) for first in order]
        reads = self._platter.read(f"{name}_levels", x)
        level: dict[int, list[float]] = {first: [] for first in order}
        for number, (at, phase) in enumerate(zip(reads.x.tolist(), reads.phase.tolist(), strict=True)):
            first = order[number % len(order)]
            level[first].append(phase - (at - first) / tracks[first].sectors)
        return {
            first: float(np.angle(np.exp(2j * np.pi * np.array(found)).sum()) / (2 * np.pi))
            for first, found in level.items()
        }

    def _pass(
        self, name: str, hops: Sequence[Hop], levels: dict[int, float], begin: F64, width: float
    ) -> IoLog:
        """Reads back and forth, whose sectors pass `begin` to `width` more after the read before (turns)."""
        rng = self._platter.steps.rng(name)
        x: list[int] = []
        angle = 0.0
        for number, hop in enumerate(hops):
            delays = begin[number] + width * rng.permutation((np.arange(READS) + rng.random()) / READS)
            for row in range(READS + 1):
                track = hop[row % 2]
                angle += 0.0 if row == 0 else float(delays[row - 1])
                ahead = np.mod(angle - levels[track.first], 1.0)
                at = min(int(np.ceil(ahead * track.sectors)), track.sectors - 1)
                angle = levels[track.first] + at / track.sectors
                x.append(track.first + at)
        return self._platter.log(name, x)

    def _reaches(self, logs: Sequence[IoLog], hops: Sequence[Hop]) -> F64:
        """The reach of each hop from the reads of all passes together, ns."""
        clock = self._platter.clock
        tracks = [hop[row % 2] for hop in hops for row in range(READS + 1)]
        log = IoLog.joined(list(logs))
        first = np.tile(np.array([track.first for track in tracks]), len(logs))
        sectors = np.tile(np.array([track.sectors for track in tracks]), len(logs))
        number = np.arange(len(log))
        model = ((log.offset // np.uint64(self._platter.unit)).astype(np.int64) - first) / sectors
        took = log.latency_ns.astype(np.float64)
        late = phase_of(log.complete_ns, 0, clock.period_ns) - clock.stretch * took / clock.period_ns - model
        level = _levelled(late, first, number // (CHUNK_HOPS * (READS + 1)))
        submit = phase_of(log.submit_ns, 0, clock.period_ns)
        ideal = ideal_ns(took, submit, np.mod(model + level, 1.0), clock.period_ns)
        hop = number % len(tracks) // (READS + 1)
        key = np.where(number % (READS + 1) == 0, -1, hop)
        if clock.busy_host:
            return np.array([soonest_ns(ideal[key == one], clock.period_ns) for one in range(len(hops))])
        found = places.reaches(ideal, key, len(hops), clock.period_ns)
        return np.array([np.nan if reach is None else reach.ns for reach in found])


def soonest_ns(ideal: F64, period_ns: float) -> float:
    """The soonest that can be caught, ns, where commands may reach the drive late: what was caught could be,
    what was missed may have come too late. Not a number where even so too many rows contradict it.

    `ideal` are latencies as the mechanics alone would have had them (`skylight.infer.reach`)."""
    ideal = ideal[np.isfinite(ideal)]
    if len(ideal) < FEWEST_ROWS:
        return np.nan
    caught, missed = np.sort(ideal), np.sort(ideal - period_ns)
    edges = np.unique(np.concatenate([caught, missed]))
    middle = (edges[1:] + edges[:-1]) / 2
    below = np.searchsorted(caught, middle)
    above = len(missed) - np.searchsorted(missed, middle)
    wrong = CAUGHT_WEIGHT * below + above
    best = int(np.argmin(wrong))
    if below[best] > MOST_CAUGHT * len(ideal) or above[best] > MOST_LATE * len(ideal):
        return np.nan
    return float(middle[best])


def _levelled(late: F64, track: I64, chunk: I64) -> F64:
    """The phase of each row's track, as a sum of one of the track and one of the chunk of rows: a track lies
    still, the spindle drifts from chunk to chunk."""
    of_track, of_chunk = np.zeros(len(late)), np.zeros(len(late))
    groups = [np.flatnonzero(track == each) for each in np.unique(track)]
    chunks = [np.flatnonzero(chunk == each) for each in np.unique(chunk)]
    for _ in range(LEVEL_ROUNDS):
        for rows in groups:
            of_track[rows] = circular_median(late[rows] - of_chunk[rows])
        for rows in chunks:
            of_chunk[rows] = circular_median(late[rows] - of_track[rows])
    return of_track + of_chunk
