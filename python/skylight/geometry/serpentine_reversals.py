"""Reversals of a hybrid serpentine that no other measurement shows: track by track, with hops slightly
shorter or slightly longer than a step takes.

If heads have no skew of their own and the arm takes as long for a hundred tracks as for one, groups of tracks
look like cylinders in almost every measurement. One hop per group is a head switch without a step, and takes
less time. So each track is read slightly sooner after the one before than a step takes: every hop misses its
sector and waits a revolution, except the head switch, which is then repeated. A head switch may also take
longer: then each track is read slightly later than a step takes, and the head switch is the hop that misses.

The host does not control the interval exactly: a read completes late by a random amount that grows with its
duration, and delays the next submission. A hop therefore starts from a second read of its track, which comes
soon and is hardly late, and is judged by its actual interval, from its submission to the pass of its sector,
not by the planned one. The time of a step is measured with such hops as well.

Invariant: reads only, two per track and criterion; None if no hop differs from a step.

Source: docs/geometry.md, "The layout"; `skylight.infer.minimum_access_time` for reads that are just caught
or missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.geometry.clock import GOLDEN, Platter, circular_median
from skylight.geometry.density_pattern import MOST_HEADS
from skylight.geometry.recording_zones import ZoneRun
from skylight.geometry.verify import phase_jumps
from skylight.infer.minimum_access_time import ideal_ns
from skylight.infer.track_phases import centred, phase_of

CHUNK_TRACKS = 256
SKEW_TRACKS = 24
FIRST_HOPS, WIDTH_NOISES, LEAST_WIDTH = 128, 4.0, 0.02
SOONER_PART, SOONER_GAPS = 0.05, 4.0
IN_TIME = 0.9  # share of hops that meet the limit
MOST_WRONG = 0.2
TRIES, LEAST_CAUGHT = 16, 3
LEAST_GROUP = 2


@dataclass(frozen=True, slots=True)
class Reversal:
    """Tracks per group, and the number of heads if the hops between groups determine it."""

    tracks: int
    heads: int | None


@dataclass(frozen=True, slots=True)
class Hops:
    """Hops in the order of their reads: actual interval (revolutions), planned interval, and whether the
    sector was caught."""

    lead: F64
    planned: F64
    caught: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HopCriterion:
    """What no step does: catch a sector within `limit` (revolutions) or, if `later`, miss one after more than
    it; and the interval to plan so that most hops meet the limit."""

    limit: float
    planned: float
    later: bool

    def of(self, hops: Hops) -> NDArray[np.bool_]:
        """Which hops meet the criterion."""
        if self.later:
            return np.asarray(~hops.caught & (hops.lead > self.limit), np.bool_)
        return np.asarray(hops.caught & (hops.lead < self.limit), np.bool_)


class TrackHopper:
    """Hops between tracks of a zone."""

    def __init__(self, platter: Platter, zone: ZoneRun) -> None:
        """Measures the skew of the first tracks."""
        self._platter, self._zone = platter, zone
        track = zone.grid.track
        firsts = [zone.begin + track * (number + 1) for number in range(SKEW_TRACKS)]
        self._skew = circular_median(phase_jumps(platter, "turn_skew", firsts, track))

    def hops(self, numbers: I64, planned: F64) -> Hops:
        """Hops from each track of a list to the next, with `planned` intervals (revolutions)."""
        track = self._zone.grid.track
        x: list[int] = []
        angle, row_of = 0.0, np.repeat(numbers, 2)
        for row, number in enumerate(row_of.tolist()):
            # The first read of a track ends a hop; the second follows soon, and the next hop starts from it.
            angle += self._platter.clock.min_access if row % 2 else float(planned[max(row // 2 - 1, 0)])
            at = min(int(np.ceil(np.mod(angle - number * self._skew, 1.0) * track)), track - 1)
            x.append(self._zone.begin + number * track + at)
            angle = number * self._skew + at / track
        log = self._platter.log("turns", x)
        clock = self._platter.clock
        took = log.latency_ns.astype(np.float64)
        model = row_of * self._skew + (np.array(x) - self._zone.begin - row_of * track) / track
        late = (
            phase_of(log.complete_ns, 0, clock.period_ns)
            - clock.lateness_share * took / clock.period_ns
            - model
        )
        level = self._levels(row_of, late)
        submit = phase_of(log.submit_ns, 0, clock.period_ns)
        ideal = ideal_ns(took, submit, np.mod(model + level, 1.0), clock.period_ns) / clock.period_ns
        lead = np.mod(model + level - submit, 1.0)[2::2]
        return Hops(lead, planned[: len(lead)], np.asarray(ideal[2::2] - lead < 0.5, np.bool_))

    def _levels(self, number: I64, late: F64) -> F64:
        """The phase offset of all tracks plus a small slope over the track number, which is the error of the
        skew and is corrected here."""
        first = number - number[0]
        if np.ptp(number) >= SKEW_TRACKS:
            step = float(np.median(centred(late[2:] - late[:-2])))
            left = centred(late - step * first - circular_median(late - step * first))
            near = np.abs(left) < 4 * np.median(np.abs(left)) + 1e-6
            more, base = np.polyfit(first[near], left[near], 1)
            level = circular_median(late - step * first) + base + (step + more) * first
            self._skew += step + float(more)
            return np.asarray(level, np.float64)
        return np.full(len(late), circular_median(late))


def first_reversal(
    platter: Platter, zone: ZoneRun, soonest_ns: float, step_ns: float, noise_ns: float, most: int
) -> Reversal | None:
    """The first track, up to `most`, that a hop from the track before reaches sooner, or later, than a step
    does; its multiples are reversals too, except where the arm steps to the next group.

    `soonest_ns` is the minimum time between two reads of one track, `step_ns` the additional time of a step,
    and `noise_ns` its error."""
    period_ns = platter.clock.period_ns
    middle = (soonest_ns + step_ns) / period_ns
    width = max(2 * WIDTH_NOISES * noise_ns / period_ns, LEAST_WIDTH)
    if middle + width >= 1.0 or most < 2:
        return None
    hopper = TrackHopper(platter, zone)
    numbers = np.arange(min(FIRST_HOPS, most) + 1)
    # Deterministic, because a replay of the recording needs the same plan.
    spread = middle + width * (np.mod(numbers * GOLDEN, 1.0) - 0.5)
    first = hopper.hops(numbers, spread)
    step = _step(first)
    if step is None:
        return None
    apart = max(SOONER_PART * step_ns / period_ns, SOONER_GAPS * width / len(numbers))
    off = first.lead - first.planned
    sooner = HopCriterion(step - apart, step - apart - float(np.quantile(off, IN_TIME)), later=False)
    later = HopCriterion(step + apart, step + apart - float(np.quantile(off, 1 - IN_TIME)), later=True)
    tracks = (zone.end - zone.begin) // zone.grid.track
    for criterion in (sooner, later):
        if not soonest_ns / period_ns < criterion.planned < 1.0 - apart:
            continue
        for begin in range(0, most, CHUNK_TRACKS):
            numbers = np.arange(begin, min(begin + CHUNK_TRACKS, most) + 1)
            seen = hopper.hops(numbers, np.full(len(numbers), criterion.planned))
            for number in numbers[1:][criterion.of(seen)].tolist():
                if _is_reversal(hopper, number, criterion):
                    return _reversal_at(hopper, number, tracks, criterion)
    return None


def _reversal_at(hopper: TrackHopper, number: int, tracks: int, criterion: HopCriterion) -> Reversal:
    """The groups of a zone of some tracks, given a reversal, which ends one group or several."""
    parts = [part for part in range(LEAST_GROUP, number // 2 + 1) if number % part == 0]
    group = next((part for part in parts if _is_reversal(hopper, part, criterion)), number)
    most = min(MOST_HEADS, tracks // group - 1)
    steps = [number for number in range(2, most + 1) if not _is_reversal(hopper, group * number, criterion)]
    return Reversal(group, _heads_of(steps, most))


def _heads_of(steps: list[int], most: int) -> int | None:
    """The number of heads: every `heads`-th hop between groups up to `most` is a step, and no other."""
    heads = steps[0] if steps else 0
    return heads if heads and steps == list(range(heads, most + 1, heads)) else None


def _step(hops: Hops) -> float | None:
    """The time of a step, revolutions: shorter hops miss and longer ones catch, with few exceptions."""
    order = np.argsort(hops.lead)
    lead, caught = hops.lead[order], hops.caught[order]
    wrong = np.concatenate([[0], np.cumsum(caught)]) + np.concatenate([np.cumsum(~caught[::-1])[::-1], [0]])
    best = int(np.argmin(wrong))
    if wrong[best] > MOST_WRONG * len(lead) or not 0 < best < len(lead):
        return None
    return float(lead[best - 1] + lead[best]) / 2


def _is_reversal(hopper: TrackHopper, number: int, criterion: HopCriterion) -> bool:
    """Whether the hop between a track and the one before, repeated back and forth, meets the criterion."""
    numbers = np.resize(np.array([number - 1, number]), TRIES + 1)
    seen = hopper.hops(numbers, np.full(len(numbers), criterion.planned))
    return int(np.count_nonzero(criterion.of(seen))) >= LEAST_CAUGHT
