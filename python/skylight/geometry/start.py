"""The beginning: whether completions follow a rotation, its period, what reads scatter by, and roughly how
long tracks are at the first address.

Two steps: rounds of four neighbouring sectors at scattered places tell that there is a rotation, and which,
as in the suite's second test; reads in random order over a few MiB tell it to a part in a million, and the
tracks from how fast the phase rises with the address.

Invariant: reads only; None where nothing turns.

Source: `skylight.infer.phase` and `skylight.infer.turning`, which do the inference.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import IoLog
from skylight.geometry.clock import Clock, Platter
from skylight.infer.turning import Tracks, centred, phase_of
from skylight.probe.rotation import places
from skylight.probe.rotation.analysis import PLACES_PER_ROUND, ROUND_IOS, ROUNDS, VISITS

REGION_BYTES = 256 << 20
FIRST_BYTES, FIRST_READS = 8 << 20, 768
BLOCK_BYTES = 4096
LEAST_BYTES = 64 << 20
SOONEST_PART = 0.02
REACH_MARGIN = 0.03  # turns, beyond the scatter
LEAST_SIGMA = 2e-3  # turns


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
    turn = places.exact_turn(seen, log)
    tracks = places.place_of(log, turn, places.LEAST_TRACK_BYTES, places.MOST_TRACK_BYTES)
    if tracks is None:
        return None
    platter.clock = _clock(log, tracks, turn.period_ns, turn.error)
    return tracks


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
    phase = phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
    late = centred(phase - tracks.phase(log.offset.astype(np.float64)))
    took = log.latency_ns / period_ns - late
    inside = np.isfinite(late) & (np.abs(late) < 0.25) & (took < 3.0)
    late, took = late[inside], took[inside]
    slow = took > np.median(took)
    rise = float(np.median(late[slow]) - np.median(late[~slow]))
    stretch = max(rise / float(np.median(took[slow]) - np.median(took[~slow])), 0.0)
    rest = late - stretch * took
    sigma = max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), LEAST_SIGMA)
    reach = float(np.quantile(took, SOONEST_PART)) + 2 * sigma + REACH_MARGIN
    return Clock(period_ns, error, float(np.mod(reach, 1.0)), sigma, stretch)
