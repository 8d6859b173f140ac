"""Turns of a hybrid serpentine that nothing else shows: track after track, a little too soon for a step.

Where heads have no skew of their own and the arm takes as long for a hundred tracks as for one, groups of
tracks look like cylinders from nearly everywhere. One hop in a group's tracks is a switch of heads without a
step, and it is shorter. So each track is asked for a little sooner after the one before than a step takes: it
is missed, and comes a turn later, but for that hop, which is then tried again.

Invariant: reads only, one a track; None where no hop is shorter than a step.

Source: docs/geometry.md, "The layout".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skylight.geometry.clock import I64, Platter, circular_median
from skylight.geometry.holds import jumps
from skylight.geometry.zones import ZoneRun

CHUNK_TRACKS = 256
SKEW_TRACKS = 24
SOONER_NOISES, SOONER_PART = 4.0, 0.1
TRIES, MOST_CANDIDATES = 5, 4


def first_turn(
    platter: Platter, zone: ZoneRun, soonest_ns: float, step_ns: float, noise_ns: float, most: int
) -> int | None:
    """The number of the first track, up to `most`, that is reached sooner than by a step from the one before.

    `soonest_ns` is what two reads of one track are apart at the least, `step_ns` what a step takes more, and
    `noise_ns` what that may be off."""
    track = zone.grid.track
    firsts = [zone.begin + track * (number + 1) for number in range(SKEW_TRACKS)]
    skew = circular_median(jumps(platter, "turn_skew", firsts, track))
    sooner_ns = max(SOONER_NOISES * noise_ns, SOONER_PART * step_ns)
    delay = (soonest_ns + step_ns - sooner_ns) / platter.clock.period_ns
    if step_ns <= sooner_ns or delay >= 1.0:
        return None
    for begin in range(0, most, CHUNK_TRACKS):
        numbers = np.arange(begin, min(begin + CHUNK_TRACKS, most) + 1)
        caught = numbers[1:][_caught(platter, zone, numbers, skew, delay)]
        for number in caught[:MOST_CANDIDATES]:
            again = np.tile([number - 1, number], TRIES)
            hops = _caught(platter, zone, again, skew, delay)[0::2]
            if np.count_nonzero(hops) > TRIES // 2:
                return int(number)
    return None


def _caught(platter: Platter, zone: ZoneRun, numbers: I64, skew: float, delay: float) -> NDArray[np.bool_]:
    """Which tracks but the first, read in this order, were reached a `delay` (turns) after the one before."""
    track = zone.grid.track
    x: list[int] = []
    angle = 0.0
    for number in numbers.tolist():
        at = min(int(np.ceil(np.mod(angle - number * skew, 1.0) * track)), track - 1)
        x.append(zone.begin + number * track + at)
        angle = number * skew + at / track + delay
    log = platter.log("turns", x)
    took = np.diff(log.complete_ns.astype(np.int64)).astype(np.float64) / platter.clock.period_ns
    return np.asarray(took < delay + 0.5, np.bool_)
