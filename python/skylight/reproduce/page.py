"""The page of a run: every row with its checks and figures, in the style of the report.

Invariants: like the report's page, it is one self-contained file, written whole or not at all; the same rows
yield the same bytes. `reproduce.json` beside it holds the output of `--json`.

Source: docs/reproduce.md; `skylight.report.html` for the style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skylight import __version__
from skylight.report.html import policy, write_file
from skylight.report.json import document_text
from skylight.report.svg_figures import RenderedFigure, render_drawn
from skylight.report.words import sentence
from skylight.reproduce.rows import Check, Row, document, headline

PAGE_NAME = "reproduce.html"
JSON_NAME = "reproduce.json"


@dataclass(frozen=True, slots=True)
class _RowView:
    """A row as the template sees it."""

    id: str
    title: str
    source: str
    result: str
    passed_checks: int
    checks: tuple[tuple[Check, str], ...]
    notes: tuple[str, ...]
    figures: tuple[RenderedFigure, ...]


def _view(row: Row) -> _RowView:
    figures = render_drawn(row.measured.draw, f"reproduce/{row.spec.id}")
    passed_checks = sum(check.passed for check in row.checks)
    return _RowView(
        row.spec.id,
        row.spec.title,
        row.spec.source,
        row.words(row.passed),
        passed_checks,
        tuple((check, row.words(check.passed)) for check in row.checks),
        row.measured.notes,
        tuple(figures),
    )


def render_page(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The page of a run; `notes` are problems outside the rows."""
    environment = Environment(
        loader=PackageLoader("skylight.reproduce"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = sentence
    css = resources.files("skylight.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    page = environment.get_template("reproduce.html.j2").render(
        headline=headline(rows),
        rows=[_view(row) for row in rows],
        notes=list(notes),
        css=Markup(css),
        policy=policy(()),
        version=__version__,
    )
    return page.strip() + "\n"


def keep(rows: Sequence[Row], notes: Sequence[str], folder: Path) -> Path:
    """Writes the page and the JSON into a folder, and returns the path of the page."""
    write_file(folder / JSON_NAME, document_text(document(rows)))
    page = folder / PAGE_NAME
    write_file(page, render_page(rows, notes))
    return page
