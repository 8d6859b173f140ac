"""Open zones: how many zones at a time does a zoned drive write to at full speed, and what does one more
cost?

A drive keeps the write pointers of open zones at hand. Writing to one zone more than it has room for closes
another, whose metadata it has to write first. `measure` writes bursts to growing numbers of zones and finds
where a write begins to cost a multiple; then it measures both kinds of writes and two sizes around that edge.
A host-managed drive declares a limit; there zones are opened explicitly until it refuses.

Confidence of the edge: how often bootstrap resamples of the rounds on either side of it, no further from it
than is right, judge as the search did. What the drive declares of its zones is as sure as that it behaves so:
writes to the zones went through as the report of zones lets expect.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.2 and Figure 1; ZBC-2,
clause 4.4.3 (zone resources).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.priors import DECLARED
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, share
from skylight.infer.zone_throughput import PAST_EDGE
from skylight.probe import Cost, Figure
from skylight.probe.cleaning.verdict import chance_within
from skylight.probe.known_state import with_state
from skylight.probe.open_zones import measure
from skylight.probe.open_zones.figures import draw
from skylight.probe.open_zones.findings import (
    CAPACITY_BYTES,
    EDGE,
    EDGE_RIGHT,
    FINDINGS,
    MODEL,
    PENALTY,
    ZONE_BYTES,
)
from skylight.probe.open_zones.measure import PAST_EDGE_WAITING, Comparison, Seen
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.zoned import HOST_MANAGED, ZonesSeen

MOST_IOS, MOST_S, LIKELY_S, MOST_BYTES = 800_000, 14_400.0, 600.0, 96 << 30
LEAST_ZONES = 8
LEAST_CONFIDENCE = 0.5


class OpenZones(ProcedureTest[Seen]):
    """The test of open zones; see the module's page."""

    name = "open_zones"
    title = "Open zones"
    findings = FINDINGS
    summary = (
        "Writes bursts to growing numbers of zones in turn: how many the drive serves at full speed, and what"
        " sequential and non-sequential writes cost past that."
    )
    rests_on_type = False
    answers_quickly = True
    writes_in_order = True
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """The bound; what it takes depends on the edge."""
        return Cost(MOST_IOS, MOST_S, MOST_BYTES, LIKELY_S, LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """On a zoned target that may be written to."""
        zones = seen.zones = steps.zones("zones") if steps.can_write else None
        if zones is None or zones.usable < LEAST_ZONES:
            return
        seen.state = steps.reset("erase", slow=False)  # a full cache would be cleaned in the bursts
        measure.try_limit(steps, seen, zones)
        with steps.settings("settings", write_cache=True, look_ahead=False):
            measure.search(steps, seen, zones)
            measure.final_bursts(steps, seen, zones)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """What the target declares, the edge, and its cost."""
        zones = seen.zones
        if zones is None:
            return []
        if zones.usable < LEAST_ZONES:
            why = f"The drive has {zones.usable} neighbouring zones with a write pointer, too few to try."
            return [*_declared(zones, steps), EDGE.unknown(why, steps.names)]
        found = [_edge(seen, zones, steps), *_penalty(seen, steps)]
        return [*_declared(zones, steps), *with_state(found, seen.state)]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Throughput against the number of zones, as Figure 1."""
        return draw(self.seen(evidence, findings), Known(findings).number(EDGE.name))


def _declared(zones: ZonesSeen, steps: Replay) -> list[Finding]:
    """What the report of zones says; it is the drive's own word."""
    rows = steps.names[:1]
    why = f"The drive reports {zones.zones:,} zones, {zones.conventional:,} of them conventional."
    found = [
        MODEL.found(zones.model, 1.0, why, rows, way=DECLARED),
        ZONE_BYTES.found(zones.zone_bytes, 1.0, why, rows, way=DECLARED),
    ]
    if zones.usable == 0:
        return [*found, CAPACITY_BYTES.unknown(f"{why} None has a write pointer.", rows)]
    return [*found, CAPACITY_BYTES.found(zones.capacity_bytes, 1.0, why, rows, way=DECLARED)]


def _edge(seen: Seen, zones: ZonesSeen, steps: Replay) -> Finding:
    """The number of zones at full speed."""
    if zones.model == HOST_MANAGED and seen.opened is not None:
        if not seen.refused:
            why = f"The drive let {seen.opened:,} zones be opened, all that were tried, and refused none."
            return EDGE.unknown(why, steps.names, (float(seen.opened), float(zones.zones)))
        why = f"The drive let {seen.opened:,} zones be opened and refused the next."
        return EDGE.found(seen.opened, 1.0, why, ("open",), way="refused")
    if seen.outside is None:
        more = f"{PAST_EDGE_WAITING:g}" if seen.waiting else f"{PAST_EDGE:g}"
        why = f"Up to {seen.inside:,} zones a write never costs {more} times what it costs with fewer."
        return EDGE.unknown(why, steps.names)
    last = _last(seen)
    inside = last[seen.inside].tried if seen.inside in last else seen.search[0].against
    why = (
        f"With {seen.inside:,} zones a write of 4 KiB takes {inside.cost_ns / 1e6:.2f} ms in the mean,"
        f" with {seen.outside:,} zones {last[seen.outside].tried.cost_ns / 1e6:.2f} ms."
    )
    sure = _sure(seen)
    if sure < LEAST_CONFIDENCE:
        return EDGE.unknown(f"{why} Writes drawn from these again do not differ so.", _rows(seen, steps))
    interval = (float(seen.inside - seen.hidden), float(seen.outside - 1))
    return EDGE.found(seen.inside, sure, why, _rows(seen, steps), interval)


def _rows(seen: Seen, steps: Replay) -> list[str]:
    """The steps of the bursts on either side of the edge."""
    return [
        name for name in steps.names for count in (seen.inside, seen.outside)
        if name == f"sequential-4k-{count}" or name.startswith(f"sequential-4k-{count}-")
    ]  # fmt: skip


def _last(seen: Seen) -> dict[int, Comparison]:
    """The last comparison of each number of zones, of those with FLUSHes once there are any; none of that
    which the search begins with, which is only held against."""
    return {one.tried.zones: one for one in seen.search if one.tried.flush_every == seen.flush_every}


def _sure(seen: Seen) -> float:
    """How often resampled rounds are judged as the search judged them, at a number near enough to the edge on
    either side that it is right if they were; and how surely rounds inside, as they vary, hide no more zones
    beyond the edge than is right. Never, where the last comparison beside the edge or the control says
    otherwise."""
    draw = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    last, shares = _last(seen), list[float]()
    outside = seen.outside or seen.inside
    # Where the middle of what rounds inside may hide is further off than is right, it is not
    # known. These are whole zones, rounded up.
    if not seen.stays or (seen.hidden - 1) / 2 > EDGE_RIGHT.part * seen.inside:
        return 0.0
    near = {
        False: (seen.inside / (1 + EDGE_RIGHT.part), seen.inside),
        True: (outside, max(outside, seen.inside * (1 + EDGE_RIGHT.part))),
    }
    for past, beside in ((False, seen.inside), (True, outside)):
        if beside not in last:
            continue
        if last[beside].is_past != past:
            return 0.0
        low, high = near[past]
        agree = []
        for count in [count for count in last if low <= count <= high]:
            judged, excess_ns = last[count].resampled(draw, RESAMPLES)
            agree.append(share(int(np.count_nonzero(judged == past))))
            if count == seen.inside and seen.zone_ns > 0:
                shares.append(
                    chance_within(EDGE_RIGHT.part, float(np.std(excess_ns)) / seen.zone_ns / seen.inside)
                )
        shares.append(max(agree))
    return min(shares)


def _penalty(seen: Seen, steps: Replay) -> list[Finding]:
    """How much slower bytes are written half past the edge than at it, by kind and size."""
    if seen.outside is None or not seen.final:
        return []
    value: dict[str, int | float | bool | str] = {}
    for kind, size in dict.fromkeys((one.kind, one.size_bytes) for one in seen.final):
        costs = {one.zones: one.mean_ns for one in seen.final if (one.kind, one.size_bytes) == (kind, size)}
        if seen.inside in costs and len(costs) > 1 and max(costs) > seen.inside:
            value[f"{kind}_{size >> 10}_kib"] = round(costs[max(costs)] / costs[seen.inside], 2)
    if not value:
        return []
    past = max(one.zones for one in seen.final)
    why = f"Mean time of a write to {past:,} zones in turn over that to {seen.inside:,}."
    return [PENALTY.found(value, _sure(seen), why, _rows(seen, steps))]
