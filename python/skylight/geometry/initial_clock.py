"""The initial clock: whether completions follow a rotation, its period, the scatter of reads, and the rough
track length at the first address.

Two steps. Rounds of four neighbouring sectors at scattered offsets detect a rotation and its period, as in
the suite's second test. Reads in random order over a few MiB refine the period to a part in a million and
yield the track length from the rise of the phase with the address.

Invariant: reads only; None for a target without rotation.

Source: `skylight.infer.phase` and `skylight.infer.track_phases`, which do the inference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skylight.evidence import IoLog
from skylight.geometry.clock import Clock, Platter
from skylight.infer import phase
from skylight.infer.track_phases import ROUGH, Tracks, agreement, centred, phase_of, refined
from skylight.probe.rotation import track_fit
from skylight.probe.rotation.plan_steps import PLACES_PER_ROUND, ROUND_IOS, ROUNDS, VISITS

REGION_BYTES = 256 << 20
FIRST_BYTES, FIRST_READS = 8 << 20, 768
BLOCK_BYTES = 4096
LEAST_BYTES = 64 << 20
SOONEST_PART = 0.02
ACCESS_MARGIN = 0.03  # revolutions, beyond the scatter
LEAST_SIGMA = 2e-3  # revolutions
MOST_PARTS = 4  # smallest fraction of a revolution, 1/4, that may be mistaken for the whole
WHOLE_PART = 0.5  # of the agreement of the fractions; there is none modulo several revolutions
OUTLIER_SIGMAS = 6.0  # larger deviations are delays of the host, not scatter of commands


def find_clock(platter: Platter) -> Tracks | None:
    """Sets the platter's clock and returns the tracks at the first address, their size to within 1 %; None if
    completions follow no rotation."""
    if platter.steps.size < LEAST_BYTES:
        return None
    blocks = BLOCK_BYTES // min(platter.unit, BLOCK_BYTES)
    turning = platter.log("turn", _rounds(platter, blocks))
    seen = track_fit.rough_turn(turning, VISITS * blocks * platter.unit, ROUND_IOS)
    if not seen.rotates:
        return None
    rng = platter.steps.rng("first")
    chosen = rng.choice(FIRST_BYTES // (blocks * platter.unit), size=FIRST_READS, replace=False)
    log = platter.log("first", chosen * blocks)
    rotation = track_fit.exact_turn(replace(seen, period_ns=whole_rotation(seen.period_ns, log)), log)
    tracks = track_fit.place_of(log, rotation, track_fit.LEAST_TRACK_BYTES, track_fit.MOST_TRACK_BYTES)
    if tracks is None:
        return None
    platter.clock = _clock(log, tracks, rotation.period_ns, rotation.error)
    return tracks


def whole_rotation(period_ns: float, log: IoLog) -> float:
    """The whole rotation, if a fraction of it was found: completions also repeat modulo half a rotation, and
    a host that is late by about half a rotation makes the halves agree better than the whole.

    The phases of neighbouring blocks agree modulo the rotation and its fractions, but not modulo several
    rotations."""
    x = log.offset.astype(np.float64)
    best_ns, agreed = period_ns, 0.0
    for count in range(1, MOST_PARTS + 1):
        if count * period_ns > 60e9 / phase.SLOWEST_RPM * (1 + ROUGH):
            break
        exact_ns = refined(count * period_ns, log.complete_ns, x, track_fit.NEAR_BYTES)
        now = agreement(exact_ns, log.complete_ns, x, track_fit.NEAR_BYTES)
        if count == 1 or now > WHOLE_PART * agreed:
            best_ns, agreed = (count * period_ns, max(agreed, now))
    return best_ns


def _rounds(platter: Platter, blocks: int) -> list[int]:
    """Rounds of four neighbouring blocks, in descending order, at randomly interleaved offsets."""
    rng = platter.steps.rng("turn")
    region = min(REGION_BYTES, platter.steps.size) // (VISITS * blocks * platter.unit)
    chosen = rng.choice(region, size=ROUNDS * PLACES_PER_ROUND, replace=False)
    sectors: list[int] = []
    for group in chosen.reshape(ROUNDS, -1):
        order = rng.permutation(np.repeat(group, VISITS))
        for row, place in enumerate(order):
            visit = int(np.count_nonzero(order[:row] == place))
            sectors.append((int(place) * VISITS + VISITS - 1 - visit) * blocks)
    return sectors


def _clock(log: IoLog, tracks: Tracks, period_ns: float, error: float) -> Clock:
    """The scatter of reads, their lateness as a share of their time, and the minimum access time."""
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
    late = centred(angle - tracks.phase(log.offset.astype(np.float64)))
    took = log.latency_ns / period_ns - late
    inside = np.isfinite(late) & (np.abs(late) < 0.25) & (took < 3.0)
    seen = np.isfinite(late)
    whole, at = late[seen], took[seen]
    late, took = late[inside], took[inside]
    slow = took > np.median(took)
    rise = float(np.median(late[slow]) - np.median(late[~slow]))
    lateness_share = max(rise / float(np.median(took[slow]) - np.median(took[~slow])), 0.0)
    rest = late - lateness_share * took
    sigma = max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), LEAST_SIGMA)
    min_access = float(np.quantile(took, SOONEST_PART)) + 2 * sigma + ACCESS_MARGIN
    outlier_share = float(
        np.mean(np.abs(whole - lateness_share * at - np.median(rest)) > OUTLIER_SIGMAS * sigma)
    )
    return Clock(period_ns, error, float(np.mod(min_access, 1.0)), sigma, lateness_share, outlier_share)
