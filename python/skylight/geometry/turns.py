"""Turns of a hybrid serpentine that nothing else shows: track after track, a little too soon for a step, or a
little later than it takes.

Where heads have no skew of their own and the arm takes as long for a hundred tracks as for one, groups of
tracks look like cylinders from nearly everywhere. One hop in a group's tracks is a switch of heads without a
step, and it is shorter. So each track is asked for a little sooner after the one before than a step takes: it
is missed, and comes a turn later, but for that hop, which is then tried again. A switch may be longer, too:
then each track is asked for a little later, and that hop is the one that is missed.

How much sooner is not in the host's hand: a read completes late by chance, the more the longer it took, and
the next one leaves as much later. Therefore a hop starts from a second read of its track, which comes soon
and so is hardly late; and each hop is judged by the time it really had, from its submission to the pass of
its sector, not by the time it was planned to have. What a step takes is taken from such hops as well.

Invariant: reads only, two a track and sense; None where no hop differs from a step.

Source: docs/geometry.md, "The layout"; `skylight.infer.reach` for reads that are just caught or missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.geometry.clock import F64, GOLDEN, I64, Platter, circular_median
from skylight.geometry.holds import jumps
from skylight.geometry.strokes import MOST_HEADS
from skylight.geometry.zones import ZoneRun
from skylight.infer.reach import ideal_ns
from skylight.infer.turning import centred, phase_of

CHUNK_TRACKS = 256
SKEW_TRACKS = 24
FIRST_HOPS, WIDTH_NOISES, LEAST_WIDTH = 128, 4.0, 0.02
SOONER_PART, SOONER_GAPS = 0.05, 4.0
IN_TIME = 0.9  # of hops that are planned to come too soon for a step
MOST_WRONG = 0.2
TRIES, LEAST_CAUGHT = 16, 3
LEAST_GROUP = 2


@dataclass(frozen=True, slots=True)
class Turn:
    """Tracks of a group, and the number of heads where the hops between groups tell it."""

    tracks: int
    heads: int | None


@dataclass(frozen=True, slots=True)
class Hops:
    """Hops in the order they were made: the time each had (turns), what was planned, and whether it was
    caught."""

    lead: F64
    planned: F64
    caught: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Odd:
    """What no step does: to be caught in less than a limit (turns), or `later`, to be missed in more; and
    what is to be planned for most hops to lie there."""

    limit: float
    planned: float
    later: bool

    def of(self, hops: Hops) -> NDArray[np.bool_]:
        """Which hops do it."""
        if self.later:
            return np.asarray(~hops.caught & (hops.lead > self.limit), np.bool_)
        return np.asarray(hops.caught & (hops.lead < self.limit), np.bool_)


class Walker:
    """Hops between tracks of a zone."""

    def __init__(self, platter: Platter, zone: ZoneRun) -> None:
        """Measures the skew of its first tracks."""
        self._platter, self._zone = platter, zone
        track = zone.grid.track
        firsts = [zone.begin + track * (number + 1) for number in range(SKEW_TRACKS)]
        self._skew = circular_median(jumps(platter, "turn_skew", firsts, track))

    def hops(self, numbers: I64, planned: F64) -> Hops:
        """Hops from each track to the next in a list, each with a time that is `planned` (turns)."""
        track = self._zone.grid.track
        x: list[int] = []
        angle, row_of = 0.0, np.repeat(numbers, 2)
        for row, number in enumerate(row_of.tolist()):
            # The first read of a track is the hop; the second comes soon, and the next hop starts from it.
            angle += self._platter.clock.reach if row % 2 else float(planned[max(row // 2 - 1, 0)])
            at = min(int(np.ceil(np.mod(angle - number * self._skew, 1.0) * track)), track - 1)
            x.append(self._zone.begin + number * track + at)
            angle = number * self._skew + at / track
        log = self._platter.log("turns", x)
        clock = self._platter.clock
        took = log.latency_ns.astype(np.float64)
        model = row_of * self._skew + (np.array(x) - self._zone.begin - row_of * track) / track
        late = phase_of(log.complete_ns, 0, clock.period_ns) - clock.stretch * took / clock.period_ns - model
        level = self._levels(row_of, late)
        submit = phase_of(log.submit_ns, 0, clock.period_ns)
        ideal = ideal_ns(took, submit, np.mod(model + level, 1.0), clock.period_ns) / clock.period_ns
        lead = np.mod(model + level - submit, 1.0)[2::2]
        return Hops(lead, planned[: len(lead)], np.asarray(ideal[2::2] - lead < 0.5, np.bool_))

    def _levels(self, number: I64, late: F64) -> F64:
        """The phase by which all tracks are late, and a little more with each: what the skew was off by,
        which is put right."""
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


def first_turn(
    platter: Platter, zone: ZoneRun, soonest_ns: float, step_ns: float, noise_ns: float, most: int
) -> Turn | None:
    """The first track, up to `most`, that is reached sooner than by a step from the one before, or later, as
    is every other as far on but where the arm steps to the next group.

    `soonest_ns` is what two reads of one track are apart at the least, `step_ns` what a step takes more, and
    `noise_ns` what that may be off."""
    period_ns = platter.clock.period_ns
    middle = (soonest_ns + step_ns) / period_ns
    width = max(2 * WIDTH_NOISES * noise_ns / period_ns, LEAST_WIDTH)
    if middle + width >= 1.0 or most < 2:
        return None
    walker = Walker(platter, zone)
    numbers = np.arange(min(FIRST_HOPS, most) + 1)
    # No chance: what was planned is needed again when a recording is read.
    spread = middle + width * (np.mod(numbers * GOLDEN, 1.0) - 0.5)
    first = walker.hops(numbers, spread)
    step = _step(first)
    if step is None:
        return None
    apart = max(SOONER_PART * step_ns / period_ns, SOONER_GAPS * width / len(numbers))
    off = first.lead - first.planned
    sooner = Odd(step - apart, step - apart - float(np.quantile(off, IN_TIME)), later=False)
    later = Odd(step + apart, step + apart - float(np.quantile(off, 1 - IN_TIME)), later=True)
    tracks = (zone.end - zone.begin) // zone.grid.track
    for odd in (sooner, later):
        if not soonest_ns / period_ns < odd.planned < 1.0 - apart:
            continue
        for begin in range(0, most, CHUNK_TRACKS):
            numbers = np.arange(begin, min(begin + CHUNK_TRACKS, most) + 1)
            seen = walker.hops(numbers, np.full(len(numbers), odd.planned))
            for number in numbers[1:][odd.of(seen)].tolist():
                if _turns(walker, number, odd):
                    return _whole(walker, number, tracks, odd)
    return None


def _whole(walker: Walker, number: int, tracks: int, odd: Odd) -> Turn:
    """The groups of a zone of some tracks, of which the turn at a track is the end of one or of several."""
    parts = [part for part in range(LEAST_GROUP, number // 2 + 1) if number % part == 0]
    group = next((part for part in parts if _turns(walker, part, odd)), number)
    most = min(MOST_HEADS, tracks // group - 1)
    steps = [turn for turn in range(2, most + 1) if not _turns(walker, group * turn, odd)]
    return Turn(group, _heads(steps, most))


def _heads(steps: list[int], most: int) -> int | None:
    """The heads: every so many-th hop between groups is a step to the next group, and none else to `most`."""
    heads = steps[0] if steps else 0
    return heads if heads and steps == list(range(heads, most + 1, heads)) else None


def _step(hops: Hops) -> float | None:
    """What a step takes, turns: less was missed and more was caught, but for a few hops."""
    order = np.argsort(hops.lead)
    lead, caught = hops.lead[order], hops.caught[order]
    wrong = np.concatenate([[0], np.cumsum(caught)]) + np.concatenate([np.cumsum(~caught[::-1])[::-1], [0]])
    best = int(np.argmin(wrong))
    if wrong[best] > MOST_WRONG * len(lead) or not 0 < best < len(lead):
        return None
    return float(lead[best - 1] + lead[best]) / 2


def _turns(walker: Walker, number: int, odd: Odd) -> bool:
    """Whether the hop to a track from the one before, and back, is another one than a step, now and again."""
    numbers = np.resize(np.array([number - 1, number]), TRIES + 1)
    seen = walker.hops(numbers, np.full(len(numbers), odd.planned))
    return int(np.count_nonzero(odd.of(seen))) >= LEAST_CAUGHT
