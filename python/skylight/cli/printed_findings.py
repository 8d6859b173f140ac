"""What `skylight probe` prints of a target: the verdict, what matters most, and all findings on request.

Invariants: the verdict stands below all that explains it, where the terminal ends; no line is wider than the
terminal from 60 columns on; nothing is concluded here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from skylight.cli.console import headline, line, output_width, pairs, paragraph, table
from skylight.errors import SkylightError, Undetermined
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.probe.suite import SuiteResult
from skylight.units import format_percent

if TYPE_CHECKING:
    from skylight.report.words import Verdict

__all__ = ["check_expected", "csv_text", "print_all", "print_findings", "print_result"]

TABLE_FROM = 110
"""Columns from which a reason has room beside its finding: narrower, it stands below."""

# A wider one is hard to follow from one end of a line to the other.
WIDEST_TABLE = 200
_CSV_HEADER = ("target", "finding", "part", "value", "unit", "low", "high", "confidence", "why")


class Unexpected(SkylightError):
    """A target is of another kind than `--expect` says."""


def _kind(result: SuiteResult) -> str | None:
    """The kind of drive that the headline names; None where it is not surer than what a report calls sure."""
    from skylight.report.what_to_expect import SURE_ENOUGH

    seen = _verdict(result)
    return seen.drive_type if (seen.confidence or 0.0) >= SURE_ENOUGH else None


def check_expected(results: Sequence[SuiteResult], kind: str) -> None:
    """Raises unless every target is of that kind: ``cmr``, ``smr`` or ``not-rotating``."""
    found = [(result.target.name, _kind(result)) for result in results]
    others = [f"{name} is {word}" for name, word in found if word not in (None, kind)]
    if others:
        raise Unexpected(f"expected {kind}: {', '.join(others)}")
    unknown = [name for name, word in found if word is None]
    if unknown:
        raise Undetermined(
            f"expected {kind}: the drive type of {', '.join(unknown)} could not be determined surely enough"
        )


def _verdict(result: SuiteResult) -> Verdict:
    from skylight.report.declared import is_raw_shingled
    from skylight.report.words import verdict

    found = {finding.name: finding for finding in result.findings}
    return verdict(found, result.target.declared, raw=is_raw_shingled(result.target))


def print_result(result: SuiteResult, *, why: bool) -> None:
    """Prints the notes and, with ``why``, every finding; then the verdict and what matters most."""
    from skylight.report.brief import brief
    from skylight.report.declared_hints import hints

    line()
    if why:
        print_findings(result.findings)
        line()
    for note in dict.fromkeys(result.notes):
        paragraph(f"note: {note}")
    seen = _verdict(result)
    sure = "" if seen.confidence is None else f" {format_percent(seen.confidence)} sure."
    headline(f"{seen.headline}{sure}")
    if seen.kind == UNKNOWN:
        paragraph(seen.lead, indent=2)
        for hint in hints(result.target.declared):
            paragraph(f"declared: {hint}", indent=2)
    rows = brief(Known(result.findings))
    if rows:
        pairs(rows)


def print_all(results: Sequence[SuiteResult]) -> None:
    """Prints the verdict of each of several targets, once all are measured."""
    line()
    pairs(
        [
            (result.target.name, seen.short + _sure(seen))
            for result in results
            for seen in (_verdict(result),)
        ],
        indent=0,
    )


def _sure(seen: Verdict) -> str:
    return "" if seen.confidence is None else f", {format_percent(seen.confidence)} sure"


def print_findings(findings: Sequence[Finding]) -> None:
    """Prints every finding with its reason: a table where there is room for one, else one below the other."""
    from skylight.report.values import finding_rows
    from skylight.report.words import sentence

    rows = finding_rows(findings)
    sure = [format_percent(row.confidence) if row.known else "none" for row in rows]
    if output_width() >= TABLE_FROM:
        cells = [
            (row.title, row.value, each, sentence(row.why)) for row, each in zip(rows, sure, strict=True)
        ]
        header, most = ("Property", "Found", "Confidence", "Why"), output_width() // 4
        table(header, cells, right=(2,), widest=WIDEST_TABLE, most=most)
        return
    for row, each in zip(rows, sure, strict=True):
        paragraph(f"{row.title}: {row.value}" + (f" ({each})" if row.known else ""))
        if row.why:
            paragraph(sentence(row.why), indent=4)


def _parts(value: Value) -> Iterator[tuple[str, object]]:
    """A value as named numbers or words; the name is empty where there is only one."""
    yield from value.items() if isinstance(value, dict) else [("", value)]


def csv_text(results: Sequence[SuiteResult]) -> str:
    """The findings of all targets as CSV (RFC 4180): a line for each value, and for each part of one that has
    several."""
    from skylight.report.values import unit_of_part

    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(_CSV_HEADER)
    for result in results:
        for found in result.findings:
            low, high = found.interval or ("", "")
            for part, value in _parts(found.value):
                unit = unit_of_part(part, found.unit) or ""
                sure = round(found.confidence, 4)
                writer.writerow(
                    (result.target.name, found.name, part, value, unit, low, high, sure, found.why)
                )
    return out.getvalue()
