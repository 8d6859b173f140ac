"""Findings: what a test concludes, with its confidence and the reason in a sentence.

A value may be `UNKNOWN`: evidence that does not carry a verdict is a right answer, a wrong verdict with
confidence is the worst one. `confidence` is computed from the evidence (each test's page says how), never a
constant.

Source: DESIGN, "Command line" (JSON of a probe) and its table of findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skylight.evidence import TargetFacts

UNKNOWN = "unknown"
SCHEMA = 1

Value = str | int | float | dict[str, int | float | bool | str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of a target.

    `value` is in `unit` (None for a word), `interval` what the evidence allows (same unit), `confidence` 0 to
    1, `why` one sentence with the measured numbers, `rows` the names of the evidence steps it rests on."""

    name: str
    value: Value
    unit: str | None
    interval: tuple[float, float] | None
    confidence: float
    why: str
    rows: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """False when the value is unknown."""
        return self.value != UNKNOWN

    def to_json(self) -> dict[str, object]:
        """As the JSON of a probe holds it."""
        return {
            "value": self.value,
            "unit": self.unit,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": round(self.confidence, 4),
            "why": self.why,
        }


def findings_json(target: TargetFacts, findings: Iterable[Finding]) -> dict[str, object]:
    """The JSON object of a probe: schema, target, findings by name."""
    return {
        "schema": SCHEMA,
        "target": target.to_json(),
        "findings": {finding.name: finding.to_json() for finding in findings},
    }
