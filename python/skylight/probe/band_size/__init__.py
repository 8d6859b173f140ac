"""Test 9, band size: how much a shingled drive rewrites at once, at the first, middle and last address.

What is cleaned together is a band. Two ways lead there, by the kind of cache (`cache_parts.kind_of`): where
one band is cleaned at a time, blocks around it are written, cleaning is made to run, and reads show which of
them went home (`journaled`, `declared_zones` where a lazy drive declares zones, and `random_order` where no
band can be made the first); where the cache has parts that are cleaned as one, writes to one part stall once
a band (`cache_parts`). The first is the paper's; the second is exact where the first cannot be had: on lazy
drives, without filling the whole cache.

Source: Skylight (FAST '15), section 4.7, Test 9 and Figure 15; docs/figures.md, row S9a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding
from skylight.probe import Cost, Figure
from skylight.probe.band_size import cache_parts, declared_zones, journaled, random_order, verdict
from skylight.probe.band_size.cache_parts import Kind, PartBand
from skylight.probe.band_size.declared_zones import Declared
from skylight.probe.band_size.figures import draw
from skylight.probe.band_size.findings import BAND_SIZE, FINDINGS
from skylight.probe.band_size.journaled import Band
from skylight.probe.band_size.random_order import Fit
from skylight.probe.journal.write_through import written_through
from skylight.probe.procedure import ProcedureTest, Replay, Steps, is_not_shingled, is_shingled
from skylight.probe.rotation.findings import STRIPED

USUAL_IOS, MOST_S, LIKELY_S = 60_000, 28_800.0, 300.0


@dataclass(slots=True)
class Seen:
    """What the procedure came to: whether it began, the kind of cache (None if the drive cannot be erased),
    and its bands as each kind of cache shows them."""

    begun: bool = False
    kind: Kind | None = None
    declared: Declared | None = None
    bands: list[Band] = field(default_factory=list)
    part_bands: list[PartBand] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)


class BandSize(ProcedureTest[Seen]):
    """Test 9 of the suite; see the module's page."""

    name = "band_size"
    title = "Band size"
    findings = FINDINGS
    needs: tuple[str, ...] = ("drive_type", "cache_location", "cleaning", "cache_size")
    summary = (
        "Writes single blocks all over a region, has the drive clean, and finds which blocks were cleaned"
        " together; or finds after how many bytes a part of the cache stalls for cleaning. At the first, the"
        " middle and the last address."
    )
    rests_on_type = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this; a lazy drive with one journal is filled twice, and once more where edges were
        misread."""
        return Cost(USUAL_IOS, MOST_S, self.bytes_of_cache(facts, 3), LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Finds out the kind of cache of a shingled drive and then its bands; the target is erased before."""
        if not is_shingled(steps):
            return
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            seen.begun = True
            through, _, _ = written_through(steps, report, around=True)
            state = through.reset("erase", slow=False)
            seen.kind, cache_part = cache_parts.kind_of(through, state)
            if seen.kind == "cache-bands" and cache_part is not None:
                seen.part_bands = cache_parts.cache_band_bands(through, cache_part)
            elif seen.kind == "zones":
                seen.part_bands = cache_parts.zone_bands(through)
            elif seen.kind == "journal":
                seen.declared = declared_zones.find(through)
                if seen.declared is None:
                    seen.bands, at_random = journaled.find(through)
                    # In whatever order it cleans, what went home at once shows too; not where many bands were
                    # seen that contradict each other, as of two drives behind one another.
                    lazy = steps.known.word("cleaning_type") == "lazy"
                    at_random |= not lazy and 2 * len(seen.bands) < len(journaled.firsts(steps.size))
                    seen.fits = random_order.find(through) if at_random else []

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """`band_bytes` of a shingled drive; nothing for one that has no bands."""
        if is_not_shingled(steps.known):
            return []
        found, tracks = _of(seen, steps), steps.known.get("track_bytes")
        if found.known and tracks is not None and tracks.way == STRIPED:
            why = f"Addresses go to several disks in turn, so each has but a part of a band. {found.why}"
            return [BAND_SIZE.unknown(why, steps.names)]
        return [found]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """The reads around one band, as Figure 15; or the stalls of one part of the cache."""
        return draw(evidence, findings)


def _of(seen: Seen, steps: Replay) -> Finding:
    """The finding, as of one disk."""
    if not seen.begun:
        return BAND_SIZE.unknown("Bands show in writes only, and none were made.")
    if seen.kind is None:
        why = "Whether the cache is a journal or has parts was not seen."
        return BAND_SIZE.unknown(why, steps.names)
    if seen.declared is not None:
        return verdict.of_zones(seen.declared, steps.names)
    if seen.fits:
        return verdict.of_fits(seen.fits, steps.names)
    if seen.kind == "journal":
        return verdict.of_bands(seen.bands, steps.size, steps.names)
    return verdict.of_cache_parts(seen.part_bands, steps.names)
