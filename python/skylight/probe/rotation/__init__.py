"""Test 2, rotation: one revolution, the size of tracks, and how long the arm takes. Reads only.

A block passes under the head at one angle. Reads in random order over a few MiB give the revolution to a few
parts in a million, and the angle of blocks against their address: it rises by one revolution a track, so its
slope is the size of a track (`skylight.infer.track_phases`). Once the angle of every block of some tracks is
known, so is the soonest that the head can be over a block of another track: blocks that pass sooner are
missed and cost a revolution more (`skylight.infer.minimum_access_time`). Less the same on one track, that is
arm time: to the next track of a surface (`skylight.infer.adjacent_tracks` tells it from a head switch), and
over the stroke, for which the places farthest from each other are looked for, since layouts may put
addresses at any radius.

Invariant: only reads are issued (a drive that is probed with leave to write is erased first where it can be,
so that no block lies in a cache).

Source: Skylight (FAST '15) sections 4.1 and 4.4 (seeks and missed revolutions as signs of place);
Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS '95).
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.byte_range import ByteRange
from skylight.evidence import EMPTY_LOG, Evidence, TargetFacts
from skylight.findings import Finding
from skylight.probe import Axis, Cost, Figure
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.rotation import figures, plan
from skylight.probe.rotation.analysis import Analysis
from skylight.probe.rotation.findings import FINDINGS
from skylight.probe.rotation.plan import Seen
from skylight.probe.rotation.verdict import judge

MOST_S, LIKELY_S = 1_800.0, 130.0


class Rotation(ProcedureTest[Seen]):
    """Test 2 of the suite; see the module's page."""

    name = "rotation"
    title = "Rotation, tracks and seeks"
    findings = FINDINGS
    axis: Axis = "address"
    needs: tuple[str, ...] = ("drive_type",)
    summary = (
        "Single-block reads show the angle at which blocks lie: one revolution, the size of tracks at three"
        " locations, and from blocks that are just caught or just missed how long the arm takes."
    )
    rests_on_type = False
    runs_in_a_file = True
    writes_in_order = True
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: every step with all its reads."""
        del facts
        return Cost(plan.MOST_IOS, MOST_S, 0, LIKELY_S, LIKELY_S)

    cost_of_reads = cost

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Reads, step by step, as long as each step can build on the one before."""
        plan.measure(steps, seen)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """Rotation, track sizes and arm times."""
        why = "Completions of reads follow no rotation."
        if seen.unreadable:
            why = "Zones there could not be filled, or hold no whole blocks: not all can be read."
        elif not len(seen.logs.get("turn", ())):
            why = "Nothing was measured."
        in_range = ByteRange.declared_by(steps.target.declared) is not None
        return judge(_analysis(seen, steps.size), steps.known, without=why, in_range=in_range)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Angles against addresses, latencies against angles, and the seek curve."""
        seen = self.seen(evidence, findings)
        return figures.draw(_analysis(seen, evidence.target.size_bytes), evidence)


def _analysis(seen: Seen, size_bytes: int) -> Analysis:
    """What the reads say; of none, that they say nothing."""
    if seen.analysis is not None:
        return seen.analysis
    return Analysis(lambda _: EMPTY_LOG, plan.IO_BYTES, size_bytes)
