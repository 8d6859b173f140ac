"""The truth about the drive of a profile: what a probe should find, in the form of findings.

The drive's values are worked out from its profile (`crates/drive/src/truth`). Units, and how near an answer
must come, are those of the declarations (`skylight.findings.Property`). A number that differs from place to
place has a `range`, from the least to the most that is true: each of these may be found.

Source: docs/random-drives.md, "The truth".
"""

from __future__ import annotations

import json
from typing import Any

from skylight import _native
from skylight.findings import Right, Value
from skylight.probe.suite import PROPERTIES

Interval = list[int] | dict[str, list[int]] | None


def true_findings(text: str, origin: str, conditions: str | None = None) -> dict[str, dict[str, Any]]:
    """The findings of a truth, by name."""
    findings: dict[str, dict[str, Any]] = truth_document(text, origin, conditions)["findings"]
    return findings


def truth_document(text: str, origin: str, conditions: str | None = None) -> dict[str, Any]:
    """The truth about the drive of a profile, measured under conditions, in the form of a probe's JSON.
    `origin` is what errors call the profile.

    >>> from skylight.engines.sim import read_profile
    >>> true_findings(*read_profile("emulated-smr-1"))["rotation_ns"]["interval"]
    [10159323, 10179661]
    """
    document: dict[str, Any] = json.loads(_native.profile_truth(text, origin, conditions))
    rows: dict[str, dict[str, Any]] = document["findings"]
    for name, row in rows.items():
        found = PROPERTIES[name]
        of = rows[found.right.of]["value"] if found.right is not None and found.right.of else None
        interval = None if found.right is None else _interval(found.right, row["value"], of)
        if found.right is not None and "range" in row:
            least, most = (found.right.interval(number, of) for number in row["range"])
            interval = [least[0], most[1]]
        rows[name] = {"value": row["value"], "unit": found.unit, "interval": interval, **row}
    return document


def _interval(right: Right, value: Value, of: int | None) -> Interval:
    """The answers that count as right where this is true; of a word none, of a table those of its numbers."""
    if isinstance(value, str):
        return None
    if isinstance(value, dict):
        numbers = {key: int(part) for key, part in value.items() if not isinstance(part, bool)}
        return {key: list(right.interval(part, of, key=key)) for key, part in numbers.items()}
    return list(right.interval(int(value), of))
