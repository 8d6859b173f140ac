"""From the log of a step of test 1 to what it is judged by: latencies, and how completions follow addresses.

Invariant: a log alone decides, with the size of a place and the rotation that reads follow.

Source: Skylight (FAST '15) section 4.3, Test 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skylight.evidence import I64, U64, IoLog, Op
from skylight.infer import phase
from skylight.infer.phase import Coherence
from skylight.infer.robust import tick_of
from skylight.probe.drive_type.plan import ROUND_IOS, Plan
from skylight.probe.drive_type.write_latencies import Writes
from skylight.probe.drive_type.writes_after_random_reads import STALL_NS, Mixed


def writes_of(
    name: str,
    log: IoLog,
    region: int,
    *,
    flushed: bool,
    place_bytes: int = 0,
    turning: Coherence | None = None,
) -> Writes:
    """Latency of a step of writes; with `flushed`, of each write together with its FLUSH. With `place_bytes`
    also how completions follow the address; of a quick answer, which may be given on a busy host, around the
    rotation `turning` that reads follow."""
    writes = log.only(Op.WRITE)
    complete_ns = flushed_complete_ns(log, writes) if flushed else writes.complete_ns
    writes = writes.rows(slice(len(complete_ns)))
    latency_ns = complete_ns.astype(np.int64) - writes.submit_ns.astype(np.int64)
    tied = phase.NONE
    if place_bytes:
        if turning is None:
            tied = phase.coherence(complete_ns, writes.offset // np.uint64(place_bytes), ROUND_IOS)
        else:
            tied = _tied(writes, complete_ns if flushed else None, place_bytes, turning.period_ns)
    tick_ns = tick_of(log.submit_ns, log.complete_ns)
    paces_ns = np.diff(writes.submit_ns.astype(np.int64))
    pace_ns = float(np.median(paces_ns)) if len(paces_ns) else 0.0
    return Writes(name, region, flushed, latency_ns, tied, tick_ns, pace_ns)


def flushed_complete_ns(log: IoLog, writes: IoLog) -> U64:
    """When each write and the FLUSH behind it were done. A step may end at a write that waited for bands to
    be cleaned, before its FLUSH was sent: the two together would have taken no less, so such a wait counts as
    it is. Any other write without a FLUSH is left out."""
    flushed_ns = log.only(Op.FLUSH).complete_ns[: len(writes)]
    last = writes.rows(slice(len(flushed_ns), None))
    return np.concatenate([flushed_ns, last.complete_ns[last.latency_ns >= STALL_NS]])


def _tied(writes: IoLog, flushed_ns: U64 | None, place_bytes: int, near_ns: float) -> Coherence:
    """How completions follow the address on a host that may be busy. Where a FLUSH follows each write either
    may be what waits for the platter; the other adds what the host and the way to the drive take, and a FLUSH
    by fio has no time of its own. So that counts which follows it better, at twice the chance."""
    place = writes.offset // np.uint64(place_bytes)
    alone = phase.undelayed(writes.complete_ns, writes.latency_ns, place, ROUND_IOS, near_ns=near_ns)
    if flushed_ns is None:
        return alone
    pair_ns = flushed_ns.astype(np.int64) - writes.submit_ns.astype(np.int64)
    flushed = phase.undelayed(flushed_ns, pair_ns, place, ROUND_IOS, near_ns=near_ns)
    better = max(flushed, alone, key=lambda each: each.share)
    return replace(better, p_value=min(1.0, 2 * better.p_value))


def read_signs(plan: Plan, log: IoLog) -> tuple[I64, Coherence]:
    """Latency of the first read at each place, which no cache of the drive can hold, whatever look-ahead
    does; and how completions follow the places."""
    place = log.offset // np.uint64(plan.place_bytes)
    _, first = np.unique(place, return_index=True)
    if plan.quick:
        signs = phase.undelayed(log.complete_ns, log.latency_ns, place, ROUND_IOS)
    else:
        signs = phase.coherence(log.complete_ns, place, ROUND_IOS)
    return log.latency_ns[np.sort(first)], signs


def mixed_of(name: str, log: IoLog, turning: Coherence, *, flushed: bool) -> Mixed:
    """The writes of a step with a random read before each; with `flushed`, each with its FLUSH."""
    writes = log.only(Op.WRITE)
    done_ns = flushed_complete_ns(log, writes) if flushed else writes.complete_ns
    count = len(done_ns)
    latency_ns = done_ns[:count].astype(np.int64) - writes.submit_ns[:count].astype(np.int64)
    tick_ns = tick_of(log.submit_ns, log.complete_ns)
    return Mixed(name, log.only(Op.READ).latency_ns, latency_ns, done_ns[:count], turning, tick_ns)
