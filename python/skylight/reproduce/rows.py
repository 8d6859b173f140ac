"""Rows and checks: what is compared with what, and when it passes.

What for: a row of the paper has one or more checks. Each check has a band, written down once in `bands.py`;
measuring yields figures by the check's name. Judging joins the two.

Invariants:
- A check passes when its figure lies in the band, ends included, or is the band's word. A figure that could
  not be measured is a miss.
- A figure without a band is a fault of ours, not of a drive: it is refused.

Source: docs/reproduce.md, "What comes out".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skylight.probe import Figure

SMALLEST_DIGITS = 4
SMALLEST = 10.0**-SMALLEST_DIGITS
"""Nobody reads a number below: it is as good as nothing."""

Ours = float | str | None
"""A figure: a number, a word, or nothing where it could not be measured."""

Draw = Callable[[], list[Figure]]
"""Draws the figures of a row from what was measured; called once a page width."""


def nothing_drawn() -> list[Figure]:
    """No figures."""
    return []


@dataclass(frozen=True, slots=True)
class Band:
    """What a figure must be: from `lo` to `hi`, or the word that both are. `name` says what is checked and
    its unit, `paper` what is printed there."""

    row: str
    name: str
    paper: str
    lo: float | str
    hi: float | str

    def holds(self, ours: Ours) -> bool:
        """Whether a figure lies in the band."""
        if isinstance(self.lo, str) or isinstance(self.hi, str) or isinstance(ours, str):
            return ours == self.lo == self.hi
        return ours is not None and self.lo <= ours <= self.hi

    @property
    def text(self) -> str:
        """The band in words."""
        if isinstance(self.lo, str) or isinstance(self.hi, str):
            return str(self.lo)
        if self.lo == self.hi:
            return number_text(self.lo)
        if math.isinf(self.hi):
            return f"{number_text(self.lo)} or more"
        return f"{number_text(self.lo)} to {number_text(self.hi)}"


@dataclass(frozen=True, slots=True)
class Check:
    """A band and our figure."""

    band: Band
    ours: Ours

    @property
    def passed(self) -> bool:
        """Whether ours lies in the band."""
        return self.band.holds(self.ours)

    @property
    def ours_text(self) -> str:
        """Our figure in words."""
        if self.ours is None:
            return "not found"
        return self.ours if isinstance(self.ours, str) else number_text(self.ours)

    def to_json(self) -> dict[str, object]:
        """As the JSON of reproduce holds it; an open end of a band is null."""
        return {
            "name": self.band.name,
            "paper": self.band.paper,
            "ours": _finite(self.ours),
            "lo": _finite(self.band.lo),
            "hi": _finite(self.band.hi),
            "pass": self.passed,
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """What measuring a row gave: figures by the name of their check, what draws them, and what is worth
    saying beside them without a band."""

    figures: Mapping[str, Ours]
    draw: Draw = nothing_drawn
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowSpec:
    """A row: what it is about, where the paper says so, how to measure it, and which tests of the suite on
    which drives it reads (none named: all of them)."""

    id: str
    title: str
    source: str
    measure: Callable[[Any], Measured]
    """Measures it in the lab of its run: `lab.Lab`, or `swd.tool.Tool`."""
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A row that was measured and judged."""

    spec: RowSpec
    checks: tuple[Check, ...]
    measured: Measured

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, object]:
        """As the JSON of reproduce holds it."""
        checks = [check.to_json() for check in self.checks]
        return {"id": self.spec.id, "pass": self.passed, "checks": checks}


def judge(spec: RowSpec, measured: Measured, bands: Iterable[Band]) -> Row:
    """The row of a spec: each of its bands with the figure of that name."""
    own = [band for band in bands if band.row == spec.id]
    strange = set(measured.figures) - {band.name for band in own}
    if strange or not own:
        raise ValueError(f"{spec.id}: no band for {sorted(strange) or 'this row'}")
    return Row(spec, tuple(Check(band, measured.figures.get(band.name)) for band in own), measured)


def document(rows: Sequence[Row]) -> dict[str, object]:
    """The JSON document of a run."""
    return {"rows": [row.to_json() for row in rows]}


def headline(rows: Sequence[Row]) -> str:
    """The result in a sentence."""
    held = sum(row.passed for row in rows)
    checks = [check for row in rows for check in row.checks]
    passed = sum(check.passed for check in checks)
    of = f"{held} of {len(rows)} rows" if len(rows) > 1 else f"{held} of 1 row"
    return f"{of} of the paper reproduced, {passed} of {len(checks)} checks."


def number_text(value: float) -> str:
    """A number with four digits that count, none of them below a ten-thousandth, and thousands apart."""
    if not math.isfinite(value):
        return "none"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    if abs(value) < SMALLEST:
        return "nearly 0"
    return f"{round(float(f'{value:.4g}'), SMALLEST_DIGITS):,}"


def _finite(value: Ours) -> Ours:
    return None if isinstance(value, float) and not math.isfinite(value) else value
