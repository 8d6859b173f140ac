"""Tests 6 to 8, persistent cache size: how much a shingled drive takes before it has to clean.

What there is to count depends on the kind of cache (`skylight.probe.band_size.cache_parts`): cache bands and
zones are counted one by one after one was filled (`count_cache_parts`), which costs thousands of writes and
not millions; a journal is filled, with writes of whole quanta and with blocks (`journal`).

Where a volatile cache ignores FLUSH, all writes have FUA if that is obeyed (`skylight.probe.fua_writes`);
else parts are counted with reads around each write (`skylight.probe.destage_by_read`), and a journal is not,
for its quantum does not show.

Invariant: a limit that was not met is unknown, never a number.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8, Figure 14, Table 2; docs/figures.md, rows S6a to S8b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe import Cost, Figure, destage_by_read, fua_writes
from skylight.probe.band_size import cache_parts as kinds
from skylight.probe.band_size.cache_parts import Kind
from skylight.probe.cache_size import count_cache_parts, journal, verdict
from skylight.probe.cache_size.count_cache_parts import CacheParts
from skylight.probe.cache_size.figures import draw
from skylight.probe.cache_size.findings import FINDINGS
from skylight.probe.cache_size.journal import FILLS, Journal
from skylight.probe.destage_by_read import ReadAround
from skylight.probe.durable_writes import FlushedSteps, volatile
from skylight.probe.fua_writes import ForcedWrites
from skylight.probe.known_state import State
from skylight.probe.procedure import (
    ProcedureTest,
    Replay,
    Steps,
    is_not_shingled,
    is_shingled,
    no_surer_than_medium,
)

MOST_IOS, MOST_S, LIKELY_S = 3_000_000, 28_800.0, 800.0


@dataclass(slots=True)
class Seen:
    """What the procedure came to: whether it began, the kind of cache (None if no known state was reached, or
    if writes do not tell it), and its size as each kind of cache shows it."""

    begun: bool = False
    ignores_flush: bool = False
    kind: Kind | None = None
    cache_parts: CacheParts | None = None
    journal: Journal | None = None


def conclude(seen: Seen, known: Known, rows: Sequence[str]) -> list[Finding]:
    """The findings from what was seen."""
    if seen.ignores_flush and seen.kind is None:
        return verdict.nothing("A volatile cache ignores FLUSH, so what is on the medium is not known.", rows)
    if seen.kind is None:
        return verdict.nothing(
            "The drive could not be brought to a known state, or writes do not show what kind of cache it"
            " has, so how much of it is in use is not known.",
            rows,
        )
    if seen.kind == "journal" and seen.journal is not None:
        return verdict.of_journal(seen.journal, known, rows)
    if seen.cache_parts is None:
        return verdict.nothing(
            "One part of the cache stalls evenly, but how many parts there are was not seen.", rows
        )
    if seen.kind == "zones":
        return verdict.of_zones(seen.cache_parts, rows)
    return verdict.of_cache_bands(seen.cache_parts, rows, known)


class CacheSize(ProcedureTest[Seen]):
    """Tests 6 to 8 of the suite; see the module's page."""

    name = "cache_size"
    title = "Persistent cache size"
    findings = FINDINGS
    needs: tuple[str, ...] = ("drive_type", "rotation", "journal", "cache_location")
    summary = (
        "Fills the persistent cache until the drive has to clean: with large writes for its size, with 4 KiB"
        " writes that wait together for its map; where the cache has parts that fill on their own, fills one"
        " and counts them."
    )
    rests_on_type = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: a cache filled twice, and once more to tell its two limits apart."""
        return Cost(MOST_IOS, MOST_S, self.bytes_of_cache(facts, FILLS), LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Finds out the kind of cache of a shingled drive and then its size, each from a known state."""
        if not is_shingled(steps):
            return
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            seen.begun = True
            cache = volatile(steps, reported=report.write_cache)
            seen.ignores_flush = cache == "ignores-flush"
            if seen.ignores_flush and fua_writes.obeyed(steps, patient=True):
                steps, cache, seen.ignores_flush = ForcedWrites(steps), "off", False
            elif seen.ignores_flush:
                if not destage_by_read.empties(steps):
                    return
                steps = ReadAround(steps)
            self._measure(steps if cache == "off" else FlushedSteps(steps), seen)

    @staticmethod
    def _measure(steps: Steps, seen: Seen) -> None:
        state = steps.reset("erase")
        kind, cache_part = kinds.kind_of(steps, state)
        if kind == "cache-bands" and cache_part is not None:
            seen.kind, seen.cache_parts = kind, count_cache_parts.cache_bands(steps, cache_part)
        elif kind is None or state is State.UNKNOWN or (kind == "journal" and seen.ignores_flush):
            return
        elif kind == "zones":
            seen.kind, seen.cache_parts = kind, count_cache_parts.zones(steps)
        elif steps.reset("lone-erase") is not State.UNKNOWN:
            seen.kind, seen.journal = kind, journal.measured(steps)
            seen.journal = journal.with_mixed_fill(steps, seen.journal)
            if seen.journal.quantum is None and kinds.may_be_zones(steps.known):
                seen.cache_parts = count_cache_parts.zones(steps)
                seen.kind = kind if seen.cache_parts is None else "zones"

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The sizes of a shingled drive; nothing for one without a persistent cache."""
        if is_not_shingled(steps.known):
            return []
        if not seen.begun:
            return verdict.nothing("The size of a cache shows in writes only, and none were made.", ())
        return no_surer_than_medium(conclude(seen, steps.known, steps.names), steps.known)

    def unfinished(self, seen: Seen, steps: Replay) -> list[Finding]:
        """No size is known, unless but one thing was left to be found; that there is a map at all was not
        seen."""
        if seen.journal is not None:
            return self.verdict(seen, steps)
        return verdict.nothing(steps.why_cut, steps.names)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Entries of the fills against what was written, around the start of cleaning."""
        return draw(evidence, findings)
