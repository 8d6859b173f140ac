"""From logs to places: the revolution, the tracks around a few addresses, and latencies as the mechanics had
them.

A *place* is a short run of addresses whose tracks have been fitted, so that it is known at which angle each
of its blocks lies. Steps that go between places are compared with those angles.

A clock as coarse as a millisecond says when a read was submitted no better than that. The angle of the block
before says it: the host submits its next read a short gap after that block passed. So behind such a clock
latencies count from that pass and the mean gap, and the clock has to tell whole revolutions only.

Invariants: pure functions of logs, used by `measure` to plan and by `infer` to judge alike. Angles of two
steps, or of two stretches of one, are never compared without aligning them first: a spindle drifts.

Source: as `skylight.infer.track_phases` and `skylight.infer.minimum_access_time`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, IoLog
from skylight.infer import phase
from skylight.infer.host_clock import FINE_HOST, Host, host_of, tick_ns
from skylight.infer.minimum_access_time import Reach, edges_of, ideal_ns, reach_of
from skylight.infer.phase import SLOWEST_RPM, Coherence
from skylight.infer.remembered import remembered
from skylight.infer.striped import stripe_of
from skylight.infer.track_phases import Tracks, agreement, centred, fit_tracks, phase_of, refined, settled
from skylight.infer.track_size_change import tracks_at

LEAST_TRACK_BYTES, MOST_TRACK_BYTES = 64 << 10, 8 << 20
NEAR_BYTES = 16 << 10
AS_WELL = 0.8  # of the agreement at a part of a revolution: at the whole it is as good, at two there is none
EARLY_PART = 0.1  # the part of completions taken to be hardly later than the mechanics
ALIGN_ROWS = 64  # rows, a second or so, over which a spindle keeps its speed to a part in 100,000
EVEN_TURNS = 0.5  # a completion behind a coarse clock seems as early as late


@dataclass(frozen=True, slots=True)
class Turn:
    """The rotation: its period, the evidence that there is one, a bound on how far off the period is (how far
    halves of the reads disagree), and its standard error (both relative); with the host that saw it."""

    period_ns: float
    seen: Coherence
    error: float
    standard_error: float
    host: Host = FINE_HOST


def rough_turn(log: IoLog, place_bytes: int, round_ios: int) -> Coherence:
    """Whether completions follow a rotation, and roughly which."""
    return phase.coherence(log.complete_ns, log.offset // np.uint64(place_bytes), round_ios)


@remembered
def exact_turn(seen: Coherence, log: IoLog) -> Turn:
    """The period to a few parts in a million, from a step of reads in random order over a few MiB."""
    x = log.offset.astype(np.float64)
    seen = _whole(seen, log)
    period_ns = refined(seen.period_ns, log.complete_ns, x, NEAR_BYTES)
    half = len(log) // 2
    parts = [refined(seen.period_ns, log.complete_ns[rows], x[rows], 2 * NEAR_BYTES)
             for rows in (slice(0, half), slice(half, None))]  # fmt: skip
    bound = max(abs(part / period_ns - 1) for part in parts)
    period_ns, error = settled(period_ns, log.complete_ns, x, NEAR_BYTES)
    return Turn(period_ns, seen, bound, error, host_of(log))


def _whole(seen: Coherence, log: IoLog) -> Coherence:
    """A rotation that is no part of a longer one: at a whole revolution neighbours agree as well as at a
    half, and at two they do not. A few places that lie half a revolution apart may show but the half."""
    x = log.offset.astype(np.float64)
    at_part = agreement(
        refined(seen.period_ns, log.complete_ns, x, NEAR_BYTES), log.complete_ns, x, NEAR_BYTES
    )
    longest_ns = 60e9 / SLOWEST_RPM
    for times in range(int(longest_ns // seen.period_ns), 1, -1):
        period_ns = refined(times * seen.period_ns, log.complete_ns, x, NEAR_BYTES)
        if agreement(period_ns, log.complete_ns, x, NEAR_BYTES) >= AS_WELL * at_part:
            return replace(seen, period_ns=period_ns)
    return seen


def place_of(log: IoLog, turn: Turn, low: float, high: float) -> Tracks | None:
    """The tracks under a step of reads in random order over a few of them."""
    if len(log) == 0:
        return None
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), turn.period_ns)
    tick_turns = tick_ns(log.complete_ns) / turn.period_ns
    return fit_tracks(log.offset.astype(np.float64), angle, low, high, tick_turns)


def tracks_under(log: IoLog, turn: Turn, tracks: Tracks, at: float) -> Tracks:
    """Those of the tracks under a step that have the size of that under an address."""
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), turn.period_ns)
    tick_turns = tick_ns(log.complete_ns) / turn.period_ns
    return tracks_at(log.offset.astype(np.float64), angle, tracks, at, tick_turns)


def stripe_under(log: IoLog, turn: Turn, tracks: Tracks) -> int | None:
    """The stripes that the blocks of a step lie in, if they do."""
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), turn.period_ns)
    return stripe_of(log.offset.astype(np.float64), angle, tracks)


def aligned(log: IoLog, model: F64, group: NDArray[np.integer], period_ns: float) -> tuple[F64, F64]:
    """Phase of the pass of each row's block, and of each submission.

    `model` is the block's phase in a frame of its own for each group. In each group the early completions say
    where that frame stands."""
    zero_ns = int(log.complete_ns[0])
    late = phase_of(log.complete_ns, zero_ns, period_ns) - model
    base = np.full(len(log), np.nan)
    for number in np.unique(group):
        rows = np.flatnonzero((group == number) & np.isfinite(late))
        if len(rows) == 0:
            continue
        middle = np.angle(np.exp(2j * np.pi * late[rows]).sum()) / (2 * np.pi)
        base[rows] = middle + np.quantile(centred(late[rows] - middle), EARLY_PART)
    return np.mod(model + base, 1.0), phase_of(log.submit_ns, zero_ns, period_ns)


def ideals(log: IoLog, model: F64, group: NDArray[np.integer], turn: Turn) -> F64:
    """Latency of each row as the mechanics alone would have had it, ns; not a number where none is known."""
    period_ns, gap_ns = turn.period_ns, turn.host.gap_ns
    block, submit = aligned(log, model, group, period_ns)
    if not turn.host.coarse:
        return ideal_ns(log.latency_ns.astype(np.float64), submit, block, period_ns)
    since_ns, before = np.full(len(log), np.nan), np.full(len(log), np.nan)
    since_ns[1:] = np.diff(log.complete_ns.astype(np.int64)).astype(np.float64) - gap_ns
    before[1:] = block[:-1] + gap_ns / period_ns
    return ideal_ns(since_ns, before, block, period_ns, EVEN_TURNS)


def in_chunks(rows: int) -> NDArray[np.intp]:
    """Numbers of stretches short enough to be aligned as one."""
    return np.arange(rows) // ALIGN_ROWS


def reaches(ideal: F64, key: NDArray[np.integer], count: int, period_ns: float) -> list[Reach | None]:
    """The reach of the rows of each key from 0 to `count` - 1; rows of a negative key are left out."""
    groups = [ideal[key == number] for number in range(count)]
    edges = edges_of(groups, period_ns)
    return [reach_of(group, period_ns, edges) for group in groups]
