"""Cache location: at which diameter a persistent cache on disk lies, or that there are many.

Reading what the cache holds and what lies at its native place in turn makes the arm go to and fro, so the
time shows how far the two are apart. Three signs are taken, each a mean of latencies whose waits for the
revolution are spread by reading blocks in random order:

* *fragmented reads* (the paper's Test 2): every other block of a small region at low, middle and high
  addresses is rewritten and the region read in order; their means are shown beside the verdict;
* *cache to cache*: blocks cached for low addresses in turn with those cached for high ones. In one cache they
  are near each other; in many they are as far apart as the addresses;
* *profile*: cached blocks in turn with native ones at 16 addresses from first to last. The distance falls
  towards the cache: rising with the address says OD, falling ID, low in the middle MD.

A cache in flash lies at no diameter, and a drive without one has none: then earlier findings answer.

Invariant: a verdict needs a profile that follows one hypothesis and no other; anything else is unknown.
Source: Skylight (FAST '15) section 4.4, Test 2 and Figure 8; docs/figures.md, row S2a.
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.priors import follows
from skylight.probe import Axis, Cost, Figure
from skylight.probe.cache_location.figures import draw
from skylight.probe.cache_location.findings import FINDINGS, LOCATION
from skylight.probe.cache_location.measure import CYCLES, FRAGMENTS, PLACES, TRIES, WRITES, measure
from skylight.probe.cache_location.verdict import REGIONS, Seen, judge
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.durable_writes import most_written, volatile
from skylight.probe.fua_writes import ForcedWrites, obeyed
from skylight.probe.procedure import ProcedureTest, Replay, Steps, is_shingled

MOST_S, LIKELY_S = 1_200.0, 40.0


def _without_disk_cache(known: Known) -> Finding | None:
    """What earlier findings say of drives that have no cache on disk; None where the test is needed."""
    kind, medium = known.get("drive_type"), known.get("cache_medium")
    if kind is not None and kind.value == "cmr" and medium is not None and medium.value != "none":
        return LOCATION.unknown("where a drive that is not shingled has its cache is not looked for")
    if kind is not None and kind.value in ("cmr", "not-rotating"):
        said = DRIVE_TYPE.words.get(str(kind.value), str(kind.value))
        why = f"the drive is {said} and has no persistent cache on disk"
        return LOCATION.found("none", kind.confidence, why, way=follows("drive_type"))
    if medium is not None and medium.value in ("flash", "none"):
        why = "the persistent cache is flash, at no diameter"
        return LOCATION.found("none", medium.confidence, why, way=follows("cache_medium"))
    return None


class CacheLocation(ProcedureTest[Seen]):
    """Test 2 of the paper; see the module's page."""

    name = "cache_location"
    title = "Cache location"
    findings = FINDINGS
    axis: Axis = "address"
    needs: tuple[str, ...] = ("drive_type", "rotation")
    summary = (
        "Blocks in the persistent cache are read in turn with blocks at their native places, at low to high"
        " addresses: the arm's travel time shows at which diameter the cache lies."
    )
    rests_on_type = True
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: a look for a volatile cache, fragmented reads of three regions, the profile, and
        cache to cache."""
        regions = len(REGIONS)
        reads = 2 * FRAGMENTS * regions + 2 * CYCLES * (PLACES + regions)
        written = regions * (FRAGMENTS + TRIES * WRITES)
        return Cost(reads + written, MOST_S, regions * (8 << 20) + most_written(), LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Writes fragments and reads them; nothing where no cache on disk can be."""
        if not is_shingled(steps) or _without_disk_cache(steps.known) is not None:
            return
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            # What waits in volatile memory for a cache that is full is not in that cache.
            zoned = steps.zones("zoned") is not None
            hidden = not zoned and volatile(steps, reported=report.write_cache) == "ignores-flush"
            measure(ForcedWrites(steps) if hidden and obeyed(steps) else steps, seen)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The one finding."""
        known = steps.known
        plain = _without_disk_cache(known)
        if plain is not None:
            return [plain]
        if known.word("drive_type") != "smr":
            why = "the drive type is unknown, so it is not known whether there is a cache at all"
            return [LOCATION.unknown(why)]
        return [judge(seen, known)]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Latency of fragmented reads (Figure 8), and the profile over the addresses."""
        return draw(self.seen(evidence, findings), findings)
