"""Where writes land that a volatile cache answers which ignores FLUSH, by writes with FUA.

A write with FUA waits for the medium where that is obeyed (`skylight.probe.fua_writes`), so with a random
read before each it shows what plain writes show without a volatile cache: an advance from one to the next is
a log on a platter, and a wait for neither the arm nor an angle is flash. Asked only of a drive whose other
signs leave it open, or which of these two it is: a volatile cache takes more writes than a small persistent
cache behind it has room for, so that waits for bands are all that plain ones show.

Invariant: what other signs show stands; writes in place are not looked for here, reading back shows these.

Source: docs/tests/drive-type.md, "How it decides".
"""

from __future__ import annotations

from dataclasses import replace

from skylight.infer.priors import CHOSEN
from skylight.probe import fua_writes
from skylight.probe.drive_type.landing import Landing, Where, land, rotation
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.plan import Plan
from skylight.probe.drive_type.write_latencies import slow_flush
from skylight.probe.fua_writes import ForcedWrites
from skylight.units import format_duration

NAME = "writes-after-reads-forced"
OPEN: tuple[Where, ...] = ("unknown", "either")
"""What other signs say where these are asked."""


def is_open(seen: Observed, kind: str) -> bool:
    """Whether plain writes were answered by something that FLUSH does not empty, and nothing shows what is
    behind it. Zones have to be filled before they are written to out of order, so these are not asked."""
    if seen.zoned or rotation(seen) is None or not len(seen.flush_ns) or slow_flush(seen.flush_ns):
        return False
    return land(seen, kind).where in OPEN


def forced(plan: Plan, rotation_ns: float) -> Plan | None:
    """The plan with FUA in all writes; None where that is not obeyed."""
    if not fua_writes.obeyed(plan.steps, rotation_ns):
        return None
    return replace(plan, steps=ForcedWrites(plan.steps))


def landed(seen: Observed, kind: str) -> Landing:
    """Where writes to a target of this kind were seen to land, by those with FUA where else it is open."""
    found, mixed, turning = land(seen, kind), seen.forced, rotation(seen)
    if found.where not in OPEN or mixed is None or turning is None:
        return found
    start = (
        f"On a disk that follows a rotation of {format_duration(turning.period_ns)} plain writes end in a"
        " volatile write cache that FLUSH does not empty, and those with FUA take longer:"
    )
    rows = ("reads", "flush", fua_writes.FORCED, NAME)
    if mixed.logged:
        why = f"{start} they go on where the one before ended, so to a log on the platter."
        return Landing("log", mixed.logged_confidence, why, rows)
    if mixed.level:
        sure = (
            turning.confidence
            * (1 - turning.p_value)
            * mixed.level_confidence
            * (1 - CHOSEN["forced, no medium"])
        )
        why = f"{start} they go to a flash cache, since they wait neither for the arm nor for an angle."
        return Landing("flash", sure, why, rows)
    return found
