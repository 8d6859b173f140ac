"""Do all blocks follow the one rotation that was found?

Neighbouring blocks pass the head at nearly the same angle, so the times between their reads are whole
revolutions but for a little. Of an array whose disks turn at different speeds that holds for the stripes of
one disk and not for those of the others: pairs that fail lie together in the addresses. Noise of a host or of
a drive fails pairs anywhere, because reads are in random order. Of disks one behind the other all pairs fail
at the places of another one.

Invariants: pure functions of logs. Pairs share no read, so that one late read fails one pair alone.

Source: Wald and Wolfowitz, "On a test whether two samples are from the same population", Annals of
Mathematical Statistics 1940 (runs); Mardia and Jupp, "Directional Statistics", 2000, 6.3.1 (Rayleigh).
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64, IoLog
from skylight.infer.host_clock import tick_ns
from skylight.infer.track_phases import centred, phasors

NEAR_BYTES = 16 << 10
FAILS_TURNS = 0.125
"""Farther apart than this, neighbours do not follow the rotation: by chance three pairs of four are."""
FAILS_TICKS = 1.5
"""The same in ticks of the clock: neighbours to both sides of a tick are one apart. Where a revolution is
nearly a whole number of ticks, blocks at some angles always are, and these lie together in the addresses."""
FEWEST_FAILING = 20
LEAST_RUNS_SIGMA = 5.0
"""How far below its mean, in standard deviations, the number of runs may be by chance: 3 in ten million. Of
12 random drives and eight foreign devices it was 2.4 below at most, and 11.7 of stripes over disks of two
speeds."""
WAITED_TURNS = 0.1
"""A read that takes less than this more than the quickest may come from a cache, and says nothing of a
rotation: blocks that were written before lie side by side in one. Chosen: what flash takes, at most."""
WAITS_TURNS = 0.25
"""Reads that take less on average are none of a disk: they say nothing of its rotation."""
BY_CHANCE, SURE = 0.01, 20.0
"""Rayleigh's chance from which on phases may be of no rotation; and how far beyond chance (the logarithm)
they should have been, had they followed it as well as elsewhere."""


def _pairs(log: IoLog, period_ns: float) -> F64:
    """How far neighbours of a step of reads in random order, both of which waited for the platters, are apart
    in phase, revolutions, by address."""
    order = np.argsort(log.offset, kind="stable")
    where, at_ns = log.offset[order].astype(np.int64), log.complete_ns[order].astype(np.int64)
    waited_ns = log.latency_ns[order].astype(np.float64)
    waited = waited_ns - waited_ns.min(initial=np.inf) >= WAITED_TURNS * period_ns
    count = len(log) // 2 * 2
    gap = where[1:count:2] - where[0:count:2]
    kept = (gap > 0) & (gap < NEAR_BYTES) & waited[1:count:2] & waited[0:count:2]
    return centred((at_ns[1:count:2] - at_ns[0:count:2])[kept] / period_ns)


def is_by_parts(log: IoLog, period_ns: float) -> bool:
    """Whether some parts of the addresses follow the rotation and others do not."""
    apart = _pairs(log, period_ns)
    if not len(apart):
        return False
    middle = float(np.angle(phasors(apart).mean())) / (2 * np.pi)
    ticks_turns = FAILS_TICKS * tick_ns(log.submit_ns, log.complete_ns) / period_ns
    fails = np.abs(centred(apart - middle)) > max(FAILS_TURNS, ticks_turns)
    failing, following = int(fails.sum()), int((~fails).sum())
    if min(failing, following) < FEWEST_FAILING:
        return False
    runs = 1 + int(np.count_nonzero(fails[1:] != fails[:-1]))
    mean = 1 + 2 * failing * following / (failing + following)
    variance = (mean - 1) * (mean - 2) / (failing + following - 1)
    return bool(runs - mean < -LEAST_RUNS_SIGMA * variance**0.5)


def turns_otherwise(log: IoLog, reference: IoLog, period_ns: float) -> bool:
    """Whether reads of one place wait as on a disk, but follow no rotation of this period, though as many of
    the reference would have."""
    apart = _pairs(log, period_ns)
    if not len(apart) or float(log.latency_ns.mean()) < WAITS_TURNS * period_ns:
        return False
    there, here = (_length(each) ** 2 * len(apart) for each in (apart, _pairs(reference, period_ns)))
    return here > SURE and float(np.exp(-there)) > BY_CHANCE


def _length(apart: F64) -> float:
    """The length of the mean vector of phases: 1 if all agree; 0 of none."""
    return float(np.abs(phasors(apart).mean())) if len(apart) else 0.0
