"""Findings of films beside those of timing: what agrees stands, what contradicts is unknown.

Film and timing look at one drive from two sides. A contradiction says that one of them is wrong, or that the
film is of another drive, and not which: so both findings of it are unknown, with both reasons.

Invariants: agreement makes nothing surer than the surer of the two; a property that timing shows the drive
cannot have is left out where films do not show it either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from skylight.camera.seek_detection import PLACE_SHARE
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe import film_findings
from skylight.probe.cleaning.findings import TYPE
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.procedure import is_not_shingled
from skylight.probe.rotation.findings import SEEK, SEEK_RIGHT

OF_SHINGLED = (film_findings.PHASES.name, film_findings.MAP_LOCATION.name, film_findings.SHINGLING.name)
"""What only a shingled drive has."""


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each name, in the order they first come; those of one name must all agree."""
    by_name: dict[str, list[Finding]] = {}
    for one in findings:
        by_name.setdefault(one.name, []).append(one)
    return [_one(each) for each in by_name.values()]


def beside_timing(timing: Iterable[Finding], films: Iterable[Finding]) -> list[Finding]:
    """All findings of a recording and of films of the same drive."""
    timing = list(timing)
    known = Known(timing)
    seen = [
        one
        for one in films
        if one.known or not (is_not_shingled(known) and (one.name in OF_SHINGLED or known.get(one.name)))
    ]
    together = {one.name: one for one in joined([*timing, *seen])}
    for one, two in _contradictions(Known(timing), Known(seen)):
        why = f"film and timing contradict each other: {_said(one)}; {_said(two)}"
        for each in (one, two):
            together[each.name] = _unknown(each, why)
    return list(together.values())


def _contradictions(timing: Known, films: Known) -> list[tuple[Finding, Finding]]:
    """Pairs of different findings that cannot both be right."""
    kind, cleans, phases = (
        timing.get(DRIVE_TYPE.name),
        timing.get(TYPE.name),
        films.get(film_findings.PHASES.name),
    )
    pairs = []
    if kind is not None and is_not_shingled(timing):
        shown = (films.get(name) for name in OF_SHINGLED)
        pairs += [(kind, one) for one in shown if one is not None and one.known]
    if cleans is not None and cleans.value == "lazy" and phases is not None and phases.known:
        pairs.append((cleans, phases))
    seek, arm = timing.get(SEEK.name), films.get(film_findings.ARM.name)
    for way in ("third", "full"):
        two = timing.part(SEEK.name, way), films.part(film_findings.ARM.name, way)
        if seek is None or arm is None or two[0] is None or two[1] is None:
            continue
        # Each is right within the same share of the truth.
        if abs(two[0] - two[1]) > SEEK_RIGHT.part * (two[0] + two[1]):
            return [*pairs, (seek, arm)]
    return pairs


def _one(findings: list[Finding]) -> Finding:
    """What findings of one property say together."""
    known = sorted((one for one in findings if one.known), key=lambda one: -one.confidence)
    if len(known) < 2:
        return known[0] if known else findings[0]
    why = "; ".join(one.why for one in known)
    if not all(_agree(one, two) for one, two in combinations(known, 2)):
        said = "; ".join(_said(one) for one in known)
        return _unknown(known[0], f"they contradict each other: {said}")
    tables = [one.value for one in known if isinstance(one.value, dict)]
    if not all(table.keys() <= tables[0].keys() for table in tables):
        # A part that one of them lacks is as sure as the other is.
        whole = {key: part for table in reversed(tables) for key, part in table.items()}
        return replace(known[0], value=whole, confidence=known[-1].confidence, why=why)
    return replace(known[0], why=why)


def _agree(one: Finding, two: Finding) -> bool:
    """Whether two values are the same, as far as both have one."""
    if not isinstance(one.value, dict) or not isinstance(two.value, dict):
        return one.value == two.value
    pairs = [(one.value[key], two.value[key]) for key in one.value.keys() & two.value.keys()]
    return all(_near(first, second, one.unit) for first, second in pairs)


def _near(one: float | str, two: float | str, unit: str | None) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return one == two
    within = SEEK_RIGHT.part * (one + two) if unit == "ns" else PLACE_SHARE
    return abs(one - two) <= within


def _said(one: Finding) -> str:
    value = one.value
    words = ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else value
    return f"{one.name} is {words}, as {one.why}"


def _unknown(one: Finding, why: str) -> Finding:
    return replace(one, value=UNKNOWN, interval=None, confidence=0.0, why=why)
