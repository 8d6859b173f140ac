"""Findings as text: values, units and intervals as people write them.

Invariant: a number is shown as it was found, rounded to what a person reads; nothing is estimated here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skylight.findings import Finding
from skylight.report.words import finding_title, value_words
from skylight.units import format_count, format_duration, format_rate, format_size

__all__ = ["DASH", "FindingRow", "finding_row", "finding_rows", "unit_of_part"]

LEAST_DIGITS, MOST_DIGITS = 3, 5
"""Significant digits of a duration; five tell 10.037 from 10.038 ms, and no use is known for more."""

_SINGULARS = {"writes": "write", "entries": "entry", "zones": "zone", "revolutions": "revolution"}
"""Of the units that count; those of quantities are abbreviations."""

DASH = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A line of the findings table."""

    name: str
    title: str
    value: str
    interval: str
    confidence: float
    known: bool
    why: str


def _digits(finding: Finding) -> int:
    """Digits of a duration that its interval bears out: from three, as elsewhere, to five."""
    if finding.interval is None or isinstance(finding.value, str | dict):
        return LEAST_DIGITS
    off = (finding.interval[1] - finding.interval[0]) / 2
    if off <= 0 or finding.value <= 0:
        return LEAST_DIGITS
    return max(LEAST_DIGITS, min(MOST_DIGITS, 1 + math.floor(math.log10(finding.value / off))))


def _number(value: float, unit: str | None, digits: int = LEAST_DIGITS) -> str:
    """A measured number in its unit, as people write it."""
    if unit == "ns":
        return format_duration(value, digits)
    if unit in ("B", "bytes"):
        return format_size(round(value))
    if unit == "bytes/s":
        return f"{format_rate(value / 1e6)} MB/s"
    if unit == "writes/s":
        return f"{format_rate(value)} a second"
    if unit == "times":
        return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} times"
    whole = float(value).is_integer() or abs(value) >= 1000
    text = format_count(round(value)) if whole else f"{value:.4g}"
    counted = _SINGULARS.get(unit, unit) if unit and value == 1 else unit
    return f"{text} {counted}" if counted else text


def _part(value: float | str, unit: str | None) -> str:
    """A part of a finding that has several, as text."""
    return value if isinstance(value, str) else _number(value, unit)


_KEYS = {"od": "OD", "md": "MD", "id": "ID", "p50": "half of them", "p99": "1 % of them", "ns": "for"}
_UNITS = {"every": "writes", "ns": "ns"}
"""Of parts whose whole name is what they count in."""


def _key(name: str) -> str:
    """The name of a part of a finding, as people write it."""
    if name in _KEYS:
        return _KEYS[name]
    for end in ("_bytes_per_s", "_per_s", "_bytes", "_ns"):
        name = name.removesuffix(end)
    return name.replace("non_seq", "non-seq").replace("_", " ").replace(" kib", " KiB")


def _named(name: str, part: float | bool | str, unit: str | None) -> str:
    """A part of a finding with its name; a count needs none, and what is true or not is its name."""
    if isinstance(part, bool):
        return _key(name) if part else f"not {_key(name)}"
    text = _part(part, unit_of_part(name, unit))
    return text if name == "count" else f"{_key(name)} {text}"


def unit_of_part(name: str, unit: str | None) -> str | None:
    """The unit of a part of a finding: what its name ends with, none for a count, else the finding's."""
    ends = {"_bytes_per_s": "bytes/s", "_per_s": "writes/s", "_bytes": "bytes", "_ns": "ns"}
    own = next((each for end, each in ends.items() if name.endswith(end)), unit)
    return None if name in ("count", "at_least") else _UNITS.get(name, own)


def _value(finding: Finding, digits: int) -> str:
    """A finding's value as text, a duration with this number of significant digits."""
    words = value_words(finding.name, finding.value)
    if words is not None:
        return words
    if isinstance(finding.value, dict):
        return ", ".join(_named(name, part, finding.unit) for name, part in finding.value.items())
    if isinstance(finding.value, str):
        return finding.value
    return _number(finding.value, finding.unit, digits)


def _interval(finding: Finding) -> str:
    """A finding's interval as text; one too narrow for the digits of its ends by its half."""
    if finding.interval is None:
        return DASH
    least, most = finding.interval
    ends = [_number(end, finding.unit) for end in (least, most)]
    if ends[0] != ends[1]:
        (number, _, unit), unit_of_most = ends[0].partition(" "), ends[1].partition(" ")[2]
        # A unit that both ends have is said once; a duration such as 3 h 19 min is a number with several.
        once = unit == unit_of_most and not any(letter.isdigit() for letter in unit)
        return f"{number if once else ends[0]} to {ends[1]}"
    return ends[0] if least == most else f"± {_number((most - least) / 2, finding.unit)}"


def finding_row(finding: Finding, beside: Finding | None = None) -> FindingRow:
    """A finding as a line of text; its duration with the digits of the finding that it stands beside."""
    return FindingRow(
        finding.name,
        finding_title(finding.name),
        _value(finding, _digits(beside or finding)),
        _interval(finding),
        finding.confidence,
        finding.known,
        finding.why,
    )


def finding_rows(findings: Sequence[Finding]) -> tuple[FindingRow, ...]:
    """All findings as lines; a reason is said once and then referred to."""
    first: dict[str, str] = {}
    rows = []
    for row in map(finding_row, findings):
        said = first.setdefault(row.why, row.title)
        rows.append(row if said == row.title or not row.why else replace(row, why=f"see {said}"))
    return tuple(rows)
