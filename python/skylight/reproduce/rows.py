"""Rows and checks: what is compared, and when it passes.

A row of the paper has one or more checks. Each check has a band, written once in `tolerances.py`; a
measurement yields figures by the check's name. Judging joins the two.

Invariants:
- A check passes when its figure lies in the band, ends included, or equals the band's word. A figure that
  could not be measured is a miss.
- A figure without a band is a bug, not a property of a drive, and is refused.

Source: docs/reproduce.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from skylight.probe import Figure
from skylight.units import format_counted

SMALLEST_DIGITS = 4
SMALLEST = 10.0**-SMALLEST_DIGITS
"""Smaller numbers are shown as nearly 0."""

Lab = TypeVar("Lab")

Ours = float | str | None
"""A figure: a number, a word, or None if it could not be measured."""

Draw = Callable[[], list[Figure]]
"""Draws the figures of a row from its measurement; called once per page width."""


def nothing_drawn() -> list[Figure]:
    """No figures."""
    return []


@dataclass(frozen=True, slots=True)
class Band:
    """The required value of a figure: from `lo` to `hi`, or the word that both are. `name` is the check and
    its unit, `paper` the printed value."""

    row: str
    name: str
    paper: str
    lo: float | str
    hi: float | str

    def contains(self, ours: Ours) -> bool:
        """Whether a figure lies in the band."""
        if isinstance(self.lo, str) or isinstance(self.hi, str) or isinstance(ours, str):
            return ours == self.lo == self.hi
        return ours is not None and self.lo <= ours <= self.hi

    @property
    def text(self) -> str:
        """The band as text."""
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
        """Whether our figure lies in the band."""
        return self.band.contains(self.ours)

    @property
    def ours_text(self) -> str:
        """Our figure as text."""
        if self.ours is None:
            return "not found"
        return self.ours if isinstance(self.ours, str) else number_text(self.ours)

    def to_json(self) -> dict[str, object]:
        """The JSON of a check; an open end of a band is null."""
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
    """The result of measuring a row: figures by the name of their check, a function that draws them, notes
    without a band, and whether it was skipped, since what it compares with is not here; the notes say why."""

    figures: Mapping[str, Ours]
    draw: Draw = nothing_drawn
    notes: tuple[str, ...] = ()
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class RowSpec:
    """A row: its statement, its section of the paper (empty if it is not of the paper), its measurement, and
    the tests of the suite that it reads, by drive (an empty tuple means all)."""

    id: str
    title: str
    source: str
    measure: Callable[[Any], Measured]
    """Measures it in the lab of its run: `lab.Lab`, or `swd.tool.Tool`."""
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A measured and judged row."""

    spec: RowSpec
    checks: tuple[Check, ...]
    measured: Measured

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def missed(self) -> bool:
        """Whether a check did not pass of a row that was measured."""
        return not (self.passed or self.measured.skipped)

    def words(self, passed: bool) -> str:
        """The result of the row or of a check of it."""
        return "skipped" if self.measured.skipped else "pass" if passed else "miss"

    def to_json(self) -> dict[str, object]:
        """The JSON of a row; one that was skipped neither passed nor missed."""
        if self.measured.skipped:
            return {"id": self.spec.id, "pass": None, "skipped": "; ".join(self.measured.notes), "checks": []}
        checks = [check.to_json() for check in self.checks]
        return {"id": self.spec.id, "pass": self.passed, "checks": checks}


def judge(spec: RowSpec, measured: Measured, bands: Iterable[Band]) -> Row:
    """Joins the bands of a row with the figures of the same names."""
    own = [band for band in bands if band.row == spec.id]
    strange = set(measured.figures) - {band.name for band in own}
    if strange or not own:
        raise ValueError(f"{spec.id}: no band for {sorted(strange) or 'this row'}")
    return Row(spec, tuple(Check(band, measured.figures.get(band.name)) for band in own), measured)


OnRow = Callable[[RowSpec, int, int], None]
"""Called at the start of a row: the row, the number of rows done, and the number of rows."""


def judge_each(specs: Sequence[RowSpec], lab: object, on_row: OnRow, bands: Sequence[Band]) -> list[Row]:
    """Measures rows one after the other in the lab of their run, and judges each."""
    rows: list[Row] = []
    for done, spec in enumerate(specs):
        on_row(spec, done, len(specs))
        rows.append(judge(spec, spec.measure(lab), bands))
    return rows


class NotAtHand(Exception):
    """Why a row is skipped, in one line: what it compares with is not on this machine."""


class NotMeasured(Exception):
    """Why a row has no figures, in one line."""


def noted(
    measure: Callable[[Lab], Measured], reasons: tuple[type[Exception], ...] = (NotMeasured,)
) -> Callable[[Lab], Measured]:
    """Makes a missing prerequisite a note instead of a failure."""

    @wraps(measure)
    def measured(lab: Lab) -> Measured:
        try:
            return measure(lab)
        except NotAtHand as reason:
            return Measured({}, notes=(str(reason),), skipped=True)
        except reasons as reason:
            return Measured(
                {}, notes=(" ".join(str(reason).split()),)
            )  # a tool's message may have several lines

    return measured


def document(rows: Sequence[Row]) -> dict[str, object]:
    """The JSON document of a run."""
    return {"rows": [row.to_json() for row in rows]}


def headline(rows: Sequence[Row]) -> str:
    """The result as a sentence."""
    measured = [row for row in rows if not row.measured.skipped]
    if rows and not measured:
        return f"Nothing of the paper was measured: {format_counted(len(rows), 'row')} skipped."
    checks = [check for row in measured for check in row.checks]
    passed, passed_rows = sum(check.passed for check in checks), sum(row.passed for row in measured)
    of = f"{passed_rows} of {format_counted(len(measured), 'row')}"
    skipped = len(rows) - len(measured)
    more = f" {format_counted(skipped, 'row')} skipped." if skipped else ""
    return f"{of} of the paper reproduced, {passed} of {format_counted(len(checks), 'check')}.{more}"


def number_text(value: float) -> str:
    """A number with four significant digits, at most four decimals, and thousands separators."""
    if not math.isfinite(value):
        return "none"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    if abs(value) < SMALLEST:
        return "nearly 0"
    return f"{round(float(f'{value:.4g}'), SMALLEST_DIGITS):,}"


def _finite(value: Ours) -> Ours:
    return None if isinstance(value, float) and not math.isfinite(value) else value
