"""The beginning: whether completions follow a rotation, its period, what reads scatter by, and roughly how
long tracks are at the first address.

Two steps: rounds of four neighbouring sectors at scattered places tell that there is a rotation, and which,
as in the suite's second test; reads in random order over a few MiB tell it to a part in a million, and the
tracks from how fast the phase rises with the address.

Invariant: reads only; None where nothing turns.

Source: `skylight.infer.phase` and `skylight.infer.turning`, which do the inference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skylight.evidence import IoLog
from skylight.geometry.clock import Clock, Platter
from skylight.infer import phase
from skylight.infer.turning import ROUGH, Tracks, agreement, centred, phase_of, refined
from skylight.probe.rotation import places
from skylight.probe.rotation.analysis import PLACES_PER_ROUND, ROUND_IOS, ROUNDS, VISITS

REGION_BYTES = 256 << 20
FIRST_BYTES, FIRST_READS = 8 << 20, 768
BLOCK_BYTES = 4096
LEAST_BYTES = 64 << 20
SOONEST_PART = 0.02
REACH_MARGIN = 0.03  # turns, beyond the scatter
LEAST_SIGMA = 2e-3  # turns
MOST_PARTS = 4  # of a turn that may be taken for it
WHOLE_PART = 0.5  # of how well the parts agree: modulo several turns it is nothing
WILD_SIGMAS = 6.0  # farther off lies what a host was late by, not what commands scatter by


def find_clock(platter: Platter) -> Tracks | None:
    """Sets the platter's clock and gives the tracks at the first address, of which only the size is exact to
    a per cent; None where completions follow no rotation."""
    if platter.steps.size < LEAST_BYTES:
        return None
    blocks = BLOCK_BYTES // min(platter.unit, BLOCK_BYTES)
    turning = platter.log("turn", _rounds(platter, blocks))
    seen = places.rough_turn(turning, VISITS * blocks * platter.unit, ROUND_IOS)
    if not seen.rotates:
        return None
    rng = platter.steps.rng("first")
    chosen = rng.choice(FIRST_BYTES // (blocks * platter.unit), size=FIRST_READS, replace=False)
    log = platter.log("first", chosen * blocks)
    turn = places.exact_turn(replace(seen, period_ns=whole_turn(seen.period_ns, log)), log)
    tracks = places.place_of(log, turn, places.LEAST_TRACK_BYTES, places.MOST_TRACK_BYTES)
    if tracks is None:
        return None
    platter.clock = _clock(log, tracks, turn.period_ns, turn.error)
    return tracks


def whole_turn(period_ns: float, log: IoLog) -> float:
    """The turn, where a part of it was taken for it: what comes round once a turn comes round twice in two
    halves, and hosts that are late by about half a turn make the halves agree better than the whole.

    Neighbouring blocks agree over any times modulo the turn and modulo its parts; modulo several turns they
    do not."""
    x = log.offset.astype(np.float64)
    best_ns, agreed = period_ns, 0.0
    for turns in range(1, MOST_PARTS + 1):
        if turns * period_ns > 60e9 / phase.SLOWEST_RPM * (1 + ROUGH):
            break
        exact_ns = refined(turns * period_ns, log.complete_ns, x, places.NEAR_BYTES)
        now = agreement(exact_ns, log.complete_ns, x, places.NEAR_BYTES)
        if turns == 1 or now > WHOLE_PART * agreed:
            best_ns, agreed = (turns * period_ns, max(agreed, now))
    return best_ns


def _rounds(platter: Platter, blocks: int) -> list[int]:
    """Rounds of four neighbouring blocks at each of some places, interleaved at random, backwards."""
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
    """What reads scatter by, how much of their time they are late by, and how soon they come."""
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
    late = centred(angle - tracks.phase(log.offset.astype(np.float64)))
    took = log.latency_ns / period_ns - late
    inside = np.isfinite(late) & (np.abs(late) < 0.25) & (took < 3.0)
    seen = np.isfinite(late)
    whole, at = late[seen], took[seen]
    late, took = late[inside], took[inside]
    slow = took > np.median(took)
    rise = float(np.median(late[slow]) - np.median(late[~slow]))
    stretch = max(rise / float(np.median(took[slow]) - np.median(took[~slow])), 0.0)
    rest = late - stretch * took
    sigma = max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), LEAST_SIGMA)
    reach = float(np.quantile(took, SOONEST_PART)) + 2 * sigma + REACH_MARGIN
    wild = float(np.mean(np.abs(whole - stretch * at - np.median(rest)) > WILD_SIGMAS * sigma))
    return Clock(period_ns, error, float(np.mod(reach, 1.0)), sigma, stretch, wild)
