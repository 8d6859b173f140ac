"""Arm times between tracks whose angles are known, from sectors that are just caught or just missed.

A read whose sector passes before the arm arrives waits one more revolution. Reads alternate between two
tracks, each at a chosen rotational distance from the read before, to find the shortest distance that is still
caught: the first round covers a whole revolution, two more narrow the result of the round before. The part
that any two tracks share (command, transfer) is measured within one track and subtracted.

Invariant: reads only. A time that the reads contradict is NaN.

Source: `skylight.infer.minimum_access_time`, after the minimum time between reads of Worthington, Ganger,
Patt and Wilkes (SIGMETRICS '95).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64, IoLog
from skylight.geometry.clock import Platter, circular_median
from skylight.infer.minimum_access_time import ideal_ns
from skylight.infer.track_phases import phase_of
from skylight.probe.rotation import track_fit

READS = 11  # per round
ROUNDS = ("rough", "fine", "finest")
EXTRA_ROUNDS = ("again", "again_2")  # as narrow as the last round, for hosts that are often late
LEVEL_ROUNDS = 3
NARROWER = 2.4  # width of a round, in read spacings of the round before
LEVEL_READS = 2
FEWEST_ROWS = 8
CAUGHT_WEIGHT = 4  # one read caught early counts like this number of reads missed late
MOST_CAUGHT, MOST_LATE = 0.05, 0.3
CHUNK_HOPS = 5  # hops, about a second, over which the spindle speed is constant


@dataclass(frozen=True, slots=True)
class Track:
    """A track: its first sector and its number of sectors."""

    first: int
    sectors: int


Hop = tuple[Track, Track]


class Arm:
    """Measures arm times through a platter's reads."""

    def __init__(self, platter: Platter) -> None:
        """Reads nothing yet."""
        self._platter = platter
        self._same_ns = 0.0

    @property
    def noise_ns(self) -> float:
        """Smallest possible error of a time: half the spacing of two reads of the last round."""
        clock = self._platter.clock
        return clock.period_ns * ((NARROWER / READS) ** 2 / READS / 2 + 0.3 * clock.sigma)

    def measure_same(self, tracks: Sequence[Track]) -> float:
        """Minimum time between two reads of one track, ns; subtracted from all other times."""
        self._same_ns = 0.0
        found = self.times("same", [(track, track) for track in tracks])
        self._same_ns = float(np.nanmedian(found))
        return self._same_ns

    def times(self, name: str, hops: Sequence[Hop]) -> F64:
        """Arm time of each hop, ns; NaN where it cannot be determined."""
        if not hops:
            return np.empty(0)
        levels = self._levels(name, hops)
        period_ns = self._platter.clock.period_ns
        begin, width = np.zeros(len(hops)), 1.0
        logs: list[IoLog] = []
        for which in (*ROUNDS, *(EXTRA_ROUNDS if self._platter.clock.busy_host else ())):
            logs.append(self._round(f"{name}_{which}", hops, levels, begin, width))
            best = self._minimum_ns(logs, hops)
            if not np.isfinite(best).any():
                break
            width = max(width * NARROWER / READS, (NARROWER / READS) ** (len(ROUNDS) - 1))
            begin = np.where(np.isfinite(best), best, np.nanmedian(best)) / period_ns - width / 2
        return best - self._same_ns

    def _levels(self, name: str, hops: Sequence[Hop]) -> dict[int, float]:
        """Phase at which the first sector of each track would complete."""
        tracks = {track.first: track for hop in hops for track in hop}
        if len(tracks) == 0:
            return {}
        order = sorted(tracks)
        x = [order[0] + 1]
        for read in range(LEVEL_READS):
            x += [first + (1 + read) * tracks[first].sectors // (LEVEL_READS + 1) for first in order]
        reads = self._platter.read(f"{name}_levels", x)
        level: dict[int, list[float]] = {first: [] for first in order}
        for number, (at, phase) in enumerate(zip(reads.x.tolist(), reads.phase.tolist(), strict=True)):
            first = order[number % len(order)]
            level[first].append(phase - (at - first) / tracks[first].sectors)
        return {
            first: float(np.angle(np.exp(2j * np.pi * np.array(found)).sum()) / (2 * np.pi))
            for first, found in level.items()
        }

    def _round(
        self, name: str, hops: Sequence[Hop], levels: dict[int, float], begin: F64, width: float
    ) -> IoLog:
        """Alternating reads, each `begin` to `begin + width` revolutions after the read before."""
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

    def _minimum_ns(self, logs: Sequence[IoLog], hops: Sequence[Hop]) -> F64:
        """Minimum access time of each hop from the reads of all rounds, ns."""
        clock = self._platter.clock
        tracks = [hop[row % 2] for hop in hops for row in range(READS + 1)]
        log = IoLog.joined(list(logs))
        first = np.tile(np.array([track.first for track in tracks]), len(logs))
        sectors = np.tile(np.array([track.sectors for track in tracks]), len(logs))
        number = np.arange(len(log))
        model = ((log.offset // np.uint64(self._platter.unit)).astype(np.int64) - first) / sectors
        took = log.latency_ns.astype(np.float64)
        late = (
            phase_of(log.complete_ns, 0, clock.period_ns)
            - clock.lateness_share * took / clock.period_ns
            - model
        )
        level = _levelled(late, first, number // (CHUNK_HOPS * (READS + 1)))
        submit = phase_of(log.submit_ns, 0, clock.period_ns)
        ideal = ideal_ns(took, submit, np.mod(model + level, 1.0), clock.period_ns)
        hop = number % len(tracks) // (READS + 1)
        key = np.where(number % (READS + 1) == 0, -1, hop)
        if clock.busy_host:
            return np.array([soonest_ns(ideal[key == one], clock.period_ns) for one in range(len(hops))])
        found = track_fit.reaches(ideal, key, len(hops), clock.period_ns)
        return np.array([np.nan if reach is None else reach.ns for reach in found])


def soonest_ns(ideal: F64, period_ns: float) -> float:
    """Minimum access time, ns, when commands may reach the drive late: a caught read proves that its time
    suffices, a missed read may only have come late. NaN if too many rows contradict the result.

    `ideal` are the latencies that the mechanics alone would have (`skylight.infer.minimum_access_time`)."""
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
    """The phase of each row's track: a constant of the track plus one of the chunk of rows, because the
    spindle drifts from chunk to chunk."""
    of_track, of_chunk = np.zeros(len(late)), np.zeros(len(late))
    groups = [np.flatnonzero(track == each) for each in np.unique(track)]
    chunks = [np.flatnonzero(chunk == each) for each in np.unique(chunk)]
    for _ in range(LEVEL_ROUNDS):
        for rows in groups:
            of_track[rows] = circular_median(late[rows] - of_chunk[rows])
        for rows in chunks:
            of_chunk[rows] = circular_median(late[rows] - of_track[rows])
    return of_track + of_chunk
