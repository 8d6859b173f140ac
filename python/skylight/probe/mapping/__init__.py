"""Test 10, block mapping: does cleaning put a band back where it was (static) or somewhere else (dynamic)?

`measure` has a dozen bands cleaned and reads, before and after, at what angle they lie beside blocks that
never move (`skylight.probe.mapping.measure`).

Confidence: how much likelier the bands that moved and that stayed are under one mapping than under the
other. A band that moved comes to lie at its old angle with the share of a revolution that counts as the same;
one that stayed is misread one time in twenty. Odds below 100 are unknown.

Source: Skylight (FAST '15), section 4.8, Test 10 and Figure 17; docs/figures.md, row S10a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding
from skylight.probe import Cost, Figure
from skylight.probe.journal.write_through import written_through
from skylight.probe.mapping.figures import draw
from skylight.probe.mapping.findings import FINDINGS, MAPPING
from skylight.probe.mapping.measure import FEWEST, MOST_NOISE, Seen, before_and_after
from skylight.probe.procedure import ProcedureTest, Replay, Steps, is_not_shingled, is_shingled

USUAL_IOS, MOST_S, LIKELY_S = 10_000, 28_800.0, 60.0
"""Chosen, the most: as long as the test of bands may take, for both fill the cache of a lazy drive; one of
250 GiB with entries of 144 KiB takes five hours."""


def conclude(seen: Seen | None, rows: Sequence[str]) -> Finding:
    """The finding from what was seen."""
    if seen is None:
        return MAPPING.unknown("The drive could not be made to clean the bands that were written.", rows)
    if seen.noise > MOST_NOISE:
        return MAPPING.unknown(
            f"Two readings of the fresh drive differ by {100 * seen.noise:.0f} % of a revolution, too much"
            " for a verdict.",
            rows,
        )
    cleaned = seen.cleaned
    count, moved = int(cleaned.sum()), int((seen.moved & cleaned).sum())
    start = f"Of {count} bands that were seen to be cleaned {moved} lie at another angle than before"
    if count < FEWEST:
        return MAPPING.unknown(f"Only {count} of {len(cleaned)} bands were seen to be cleaned.", rows)
    if not seen.is_decided:
        return MAPPING.unknown(f"{start}, which fits neither mapping well.", rows)
    word, how = ("static", "rewritten in place") if seen.odds > 0 else ("dynamic", "moved by cleaning")
    confidence = 1 / (1 + math.exp(-abs(seen.odds)))
    return MAPPING.found(word, confidence, f"{start}: they are {how}.", rows)


@dataclass(slots=True)
class Trial:
    """Whether bands were written, and what then changed; None if they could not be made to be cleaned."""

    made: bool = False
    bands: Seen | None = None


class Mapping(ProcedureTest[Trial]):
    """Test 10 of the suite; see the module's page."""

    name = "mapping"
    title = "Block mapping"
    findings = FINDINGS
    needs: tuple[str, ...] = ("drive_type", "rotation", "cleaning", "band_size")
    summary = (
        "Has a dozen bands cleaned and compares, by the angle at which they pass under the head, where"
        " they lie before and after."
    )
    rests_on_type = True
    begin = Trial

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this; a lazy drive with one journal is filled once."""
        return Cost(USUAL_IOS, MOST_S, self.bytes_of_cache(facts), LIKELY_S)

    def procedure(self, steps: Steps, seen: Trial) -> None:
        """On a shingled drive that may be written to and whose rotation is known."""
        rotation_ns = steps.known.number("rotation_ns")
        if rotation_ns is None or not is_shingled(steps):
            return
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            seen.made = True
            through, _, _ = written_through(steps, report, around=True)
            seen.bands = before_and_after(through, rotation_ns)

    def verdict(self, seen: Trial, steps: Replay) -> list[Finding]:
        """`mapping` of a shingled drive; nothing for one that does not clean."""
        known = steps.known
        if is_not_shingled(known):
            return []
        if not seen.made:
            what = "the rotation is not known" if known.number("rotation_ns") is None else "none were made"
            return [MAPPING.unknown(f"Where a band lies shows after writes, by its angle, and {what}.")]
        return [conclude(seen.bands, steps.names)]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """The angles before and after, as Figure 17."""
        return draw(evidence, findings)
