"""Test 10, block mapping: does cleaning put a band back where it was (static) or somewhere else (dynamic)?

`measure` has a dozen bands cleaned and reads, before and after, at what angle they lie beside blocks that
never move (`skylight.probe.mapping.measure`).

Confidence: how much likelier the bands that moved and that stayed are under one mapping than under the
other. A band that moved comes to lie at its old angle with the share of a turn that counts as the same; one
that stayed is misread one time in twenty. Odds below 100 are unknown.

Invariant: `measure` and `infer` run the same procedure, live and over the evidence.
Source: Skylight (FAST '15), section 4.8, Test 10 and Figure 17; FACTS row S10a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe import Cost, Figure
from skylight.probe.mapping.figures import draw
from skylight.probe.mapping.measure import MOST_NOISE, Seen, procedure
from skylight.probe.procedure import CutShort, Replay, on_shingled
from skylight.probe.session import Session

NAME = "mapping"
USUAL_IOS, USUAL_SECONDS = 10_000, 1_200.0
FEWEST = 4
MISREAD = 0.05  # of the bands that stayed: an outlier in most readings, a track's edge
LEAST_ODDS = math.log(100)


def _unknown(why: str, rows: Sequence[str]) -> Finding:
    return Finding(NAME, UNKNOWN, None, None, 0.0, why, tuple(rows))


def conclude(seen: Seen | None, rows: Sequence[str]) -> Finding:
    """The finding from what was seen."""
    if seen is None:
        return _unknown("The drive could not be made to clean the bands that were written.", rows)
    if seen.noise > MOST_NOISE:
        return _unknown(
            f"Two readings of the fresh drive differ by {seen.noise:.0%} of a turn, too much to tell.", rows
        )
    cleaned = seen.cleaned
    count, moved = int(cleaned.sum()), int((seen.moved & cleaned).sum())
    start = f"Of {count} bands that were seen to be cleaned {moved} lie at another angle than before"
    if count < FEWEST:
        return _unknown(f"Only {count} of {len(cleaned)} bands were seen to be cleaned.", rows)
    stayed = count - moved
    by_chance = min(2 * seen.limit, 0.5)
    static = stayed * math.log(1 - MISREAD) + moved * math.log(MISREAD)
    # Neighbours move by like distances: that all of them come to their old angle is one chance, not many.
    chances = min(stayed, 1) if seen.neighbours else stayed
    dynamic = chances * math.log(by_chance) + moved * math.log(1 - by_chance)
    odds = abs(static - dynamic)
    if odds < LEAST_ODDS:
        return _unknown(f"{start}, which fits neither mapping well.", rows)
    word, how = ("static", "rewritten in place") if static > dynamic else ("dynamic", "moved by cleaning")
    confidence = 1 / (1 + math.exp(-odds))
    return Finding(NAME, word, None, None, confidence, f"{start}: they are {how}.", tuple(rows))


class Mapping:
    """Test 10 of the suite; see the module's page."""

    name = NAME
    title = "Block mapping"
    needs: tuple[str, ...] = ("drive_type", "rotation", "cleaning", "band_size")
    summary = (
        "Has a dozen bands cleaned and compares, by the angle at which they pass under the head, where"
        " they lie before and after."
    )

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """At most this on most drives; a lazy drive with one journal is filled once."""
        if not writes:
            return Cost(0, 0.0, 0)
        return Cost(USUAL_IOS, USUAL_SECONDS, min(8 << 30, facts.size_bytes))

    def measure(self, session: Session) -> None:
        """Runs the procedure on a shingled drive that may be written to and whose rotation is known."""
        turn_ns = session.known.number("rotation_ns")
        if turn_ns is not None:
            on_shingled(session, partial(procedure, turn_ns=turn_ns))

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """`mapping` of a shingled drive; nothing for one that does not clean."""
        if known.word("drive_type") in ("cmr", "not-rotating"):
            return []
        turn_ns = known.number("rotation_ns")
        if not evidence.steps or turn_ns is None:
            what = "the rotation is not known" if turn_ns is None else "none were made"
            return [_unknown(f"Where a band lies shows after writes, by its angle, and {what}.", ())]
        steps = Replay(evidence, known)
        try:
            return [conclude(procedure(steps, turn_ns), steps.names)]
        except CutShort as cut:
            return [_unknown(f"The test was cut short before {cut}; go on with --resume.", steps.names)]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """The angles before and after, as Figure 17."""
        return draw(evidence, findings)
