"""The pieces of a batch that a stop may end, for a target that runs what it is given to its end.

Invariants: at depth 1 the command that reaches the stop of a test is the last one, as tests that ask for it
rely on: a write behind the one that stalled is another experiment. Commands of earlier pieces count towards a
stop. A bound on time, and a queue, which would run empty at every stop, are looked at every `PIECE_IOS`.

Source: `skylight.evidence.Stop`.
"""

from __future__ import annotations

from skylight.evidence import IoLog, Stop

PIECE_IOS = 16
"""Times the depth: I/Os that may run past a stop where it need not be exact. Chosen."""


def piece_ios(until: Stop, depth: int, logs: list[IoLog]) -> int:
    """How many I/Os may be run next, behind those of these logs."""
    is_bound_alone = until.alone_ns == until.latency_ns  # no test asked for it (`Bound.stop`)
    if depth > 1 or is_bound_alone:
        return PIECE_IOS * depth
    if until.count == 1:
        return 1
    return min(PIECE_IOS, until.after(_recent(until, logs)).count)


def is_reached(until: Stop, logs: list[IoLog]) -> bool:
    """Whether the last of these logs reaches the stop; those before it did not."""
    least_ns = min(until.latency_ns, until.alone_ns or until.latency_ns)
    if not (logs[-1].latency_ns >= least_ns).any():
        return False
    return until.reached(_recent(until, logs))


def _recent(until: Stop, logs: list[IoLog]) -> IoLog:
    """At least as many I/Os as the stop looks back on: no log is empty."""
    return IoLog.joined(logs[-until.within :])
