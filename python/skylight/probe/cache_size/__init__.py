"""Tests 6 to 8, persistent cache size: how much a shingled drive takes before it has to clean.

What there is to count depends on the kind of cache (`skylight.probe.band_size.rooms`): cache bands and zones
are counted one by one after one was filled (`rooms`), which costs thousands of writes and not millions; a
journal is filled, with writes of whole quanta and with blocks (`journal`).

Invariants: `measure` and `infer` run the same procedure, live and over the evidence; a limit that was not
met is unknown, never a number.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8, Figure 14, Table 2; FACTS rows S6a to S8b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe import Cost, Figure
from skylight.probe.band_size import rooms as kinds
from skylight.probe.band_size.rooms import Kind
from skylight.probe.cache_size import journal, rooms, verdict
from skylight.probe.cache_size.figures import draw
from skylight.probe.cache_size.journal import Journal
from skylight.probe.cache_size.rooms import Rooms
from skylight.probe.procedure import CutShort, Replay, Steps, on_shingled
from skylight.probe.session import Session

USUAL_IOS, USUAL_SECONDS, CACHE_PART = 3_000_000, 7_200.0, 100


@dataclass(frozen=True, slots=True)
class Seen:
    """What the procedure came to."""

    kind: Kind | None
    rooms: Rooms | None = None
    journal: Journal | None = None


def procedure(steps: Steps) -> Seen:
    """Finds out the kind of cache and then its size; the target is erased before."""
    if not steps.erase("erase"):
        return Seen(None)
    kind, room = kinds.kind_of(steps)
    if kind == "cache-bands" and room is not None:
        return Seen(kind, rooms=rooms.cache_bands(steps, room))
    if kind == "zones":
        return Seen(kind, rooms=rooms.zones(steps))
    if not steps.erase("lone-erase"):
        return Seen(None)
    return Seen(kind, journal=journal.measured(steps))


def conclude(seen: Seen, known: Known, rows: Sequence[str]) -> list[Finding]:
    """The findings from what was seen."""
    if seen.kind is None:
        return verdict.nothing(
            "The drive cannot be erased, so how much of its cache is in use is not known.", rows
        )
    if seen.journal is not None:
        return verdict.of_journal(seen.journal, known, rows)
    if seen.rooms is None:
        return verdict.nothing(
            "One part of the cache stalls evenly, but how many parts there are was not seen.", rows
        )
    if seen.kind == "zones":
        return verdict.of_zones(seen.rooms, rows)
    return verdict.of_cache_bands(seen.rooms, rows)


class CacheSize:
    """Tests 6 to 8 of the suite; see the module's page."""

    name = "cache_size"
    title = "Persistent cache size"
    needs: tuple[str, ...] = ("drive_type", "rotation", "journal", "cache_location")
    summary = (
        "Fills the persistent cache until the drive has to clean: with large writes for its size, with 4 KiB"
        " writes that wait together for its map; where the cache has parts that fill on their own, fills"
        " one and"
        " counts them."
    )

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """At most this on most drives; the largest caches take longer."""
        if not writes:
            return Cost(0, 0.0, 0)
        return Cost(USUAL_IOS, USUAL_SECONDS, facts.size_bytes // CACHE_PART)

    def measure(self, session: Session) -> None:
        """Runs the procedure on a shingled drive that may be written to."""
        on_shingled(session, procedure)

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """The sizes of a shingled drive; nothing for one without a persistent cache."""
        if known.word("drive_type") in ("cmr", "not-rotating"):
            return []
        if not evidence.steps:
            return verdict.nothing("The size of a cache shows in writes only, and none were made.", ())
        steps = Replay(evidence, known)
        try:
            seen = procedure(steps)
        except CutShort as cut:
            return verdict.nothing(f"The test was cut short before {cut}; go on with --resume.", steps.names)
        return conclude(seen, known, steps.names)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Entries of the fills against what was written, around the start of cleaning."""
        return draw(evidence, findings)
