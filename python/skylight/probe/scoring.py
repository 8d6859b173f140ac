"""Scores the findings of a probe against what is true of the drive.

The truth is a JSON object of the shape that `skylight drives truth --json` prints: for each property its
value, the `interval` that counts as right (a table of intervals for a value that is a table, null for words,
which must be equal; as wide as the property's declaration says) and whether it is `measurable`. This module
never makes a truth: it is handed one, after the findings are there.

| found | truth | outcome |
|---|---|---|
| in the interval, or equal | has the property | right |
| outside | has the property | wrong |
| unknown, or not there | measurable | unknown |
| a table without all parts, those it has in their intervals | has the property | unknown |
| unknown, or not there | not measurable | right |
| a value | a drive without the property | wrong |

Source: docs/tests/findings.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skylight.findings import Finding, Value
from skylight.probe.suite import PROPERTIES

Outcome = Literal["right", "wrong", "unknown"]

SCORED = tuple(found for found in PROPERTIES.values() if found.right is not None)
"""The properties that a truth may hold; findings of others are not scored."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How one property of one drive was found, and in which way."""

    name: str
    outcome: Outcome
    found: Value | None
    true: Value | None
    confidence: float
    way: str = ""


def score(findings: Iterable[Finding], truth: Mapping[str, Any]) -> list[Mark]:
    """Marks every property that the drive has or that was claimed of it, in the order of `SCORED`.

    >>> found = Finding("map_merge_every", 240, "writes", None, 0.9, "measured")
    >>> true = {"map_merge_every": {"value": 240, "interval": [240, 240], "measurable": True}}
    >>> [(mark.name, mark.outcome) for mark in score([found], true)]
    [('map_merge_every', 'right')]
    """
    by_name = {finding.name: finding for finding in findings}
    marks = []
    for name in (found.name for found in SCORED):
        finding, row = by_name.get(name), truth.get(name)
        claimed = finding is not None and finding.known
        if row is None and not claimed:
            continue
        value = finding.value if finding is not None and claimed else None
        outcome = _outcome(value, row)
        confidence = finding.confidence if finding is not None else 0.0
        true, way = None if row is None else row["value"], "" if finding is None else finding.way
        marks.append(Mark(name, outcome, value, true, confidence, way))
    return marks


def holds(findings: Iterable[Finding], truth: Mapping[str, Any]) -> dict[str, bool]:
    """Of each number that was found with an interval and is true of the drive: does its interval hold the
    truth, or some of one that has a range? What is out of reach is left out, as is a value that is a table:
    its interval is of one number.

    >>> found = Finding("rotation_ns", 100, "ns", (99, 101), 0.9, "measured")
    >>> holds([found], {"rotation_ns": {"value": 102, "interval": [90, 110], "measurable": True}})
    {'rotation_ns': False}
    """
    held = {}
    for finding in findings:
        row = truth.get(finding.name)
        if finding.interval is None or not finding.known or row is None or not row["measurable"]:
            continue
        true = row["value"]
        if isinstance(true, int | float):
            least, most = row.get("range", (true, true))
            held[finding.name] = finding.interval[0] <= most and least <= finding.interval[1]
    return held


def _outcome(value: Value | None, row: Mapping[str, Any] | None) -> Outcome:
    if row is None:
        return "wrong"
    if value is None:
        return "unknown" if row["measurable"] else "right"
    true = row["value"]
    if isinstance(value, dict) and isinstance(true, dict) and 0 < len(value.keys() & true.keys()) < len(true):
        claimed = {key: true[key] for key in value.keys() & true.keys()}
        return "unknown" if _is_right(value, claimed, row["interval"]) else "wrong"
    return "right" if _is_right(value, true, row["interval"]) else "wrong"


def _is_right(value: Any, true: Any, interval: Any) -> bool:
    """A table is right when each part of it is; a number when it lies in its interval; a word when equal."""
    if isinstance(true, dict):
        if not isinstance(value, dict):
            return False
        ranges = interval if isinstance(interval, dict) else {}
        return all(_is_right(value.get(key), part, ranges.get(key)) for key, part in true.items())
    if interval is None:
        return bool(value == true)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    low, high = interval
    return bool(low <= value <= high)
