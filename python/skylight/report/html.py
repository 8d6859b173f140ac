"""The HTML report: one file that is complete in itself.

What for: the page a person reads after a probe. It is written whole or not at all, opens from a disk
without a network, and follows light and dark mode and the width of the window with style sheets alone.

Invariants:
- Autoescape is on for every template; only style sheets, the two scripts of the zoomable plots and the SVG
  made by ``svg_figures`` are placed as they are.
- Nothing is fetched: no script, font or image from elsewhere, no address outside the page; the only links are
  relative ones to the recording. A Content-Security-Policy in the page forbids all fetching, and every
  script but those two, which it names by their SHA-256.
- Without scripts the page says and shows everything but the zoomable plots.
- The same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skylight import __version__
from skylight.errors import KeepError
from skylight.probe.suite import SuiteResult
from skylight.recording import write_whole
from skylight.report import REPORT_NAME
from skylight.report.report_contents import DASH, TargetView, compare, target_view
from skylight.report.words import sentence
from skylight.units import format_percent, join_units

__all__ = ["policy", "render_report", "write_file", "write_report"]

_NUMBERS = (
    "No",
    "One",
    "Two",
    "Three",
    "Four",
    "Five",
    "Six",
    "Seven",
    "Eight",
    "Nine",
    "Ten",
    "Eleven",
    "Twelve",
)


def _environment() -> Environment:
    """The templates, strict: a name that is missing is a fault, not an empty place."""
    environment = Environment(
        loader=PackageLoader("skylight.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda shown: join_units(shown) if type(shown) is str else shown,
    )
    environment.filters["percent"] = format_percent
    environment.filters["sentence"] = sentence
    return environment


def _headline(views: Sequence[TargetView]) -> str:
    """The first sentence of a comparing report."""

    def words(number: int) -> str:
        return _NUMBERS[number] if number < len(_NUMBERS) else str(number)

    shingled = sum(view.verdict.kind.startswith("smr") for view in views)
    if shingled == len(views):
        return f"{words(len(views))} drives, all of them shingled."
    if not shingled:
        return f"{words(len(views))} drives, none of them found to be shingled."
    return f"{words(len(views))} drives, {words(shingled).lower()} of them shingled."


def _text(*place: str) -> str:
    """A file that comes with this package, as text."""
    return resources.files("skylight.report").joinpath(*place).read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy of a page that fetches nothing and runs these scripts alone (Content
    Security Policy Level 3, 6.1 and 6.7.2.4)."""
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii") for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none';"
        " form-action 'none'"
    )


def render_report(results: Sequence[tuple[SuiteResult, Path]], page_dir: Path) -> str:
    """The page for one or more results, each with the directory of its recording; ``page_dir`` is where it
    will lie."""
    views = [target_view(result, recording, page_dir, n) for n, (result, recording) in enumerate(results, 1)]
    drawn = any(test.plot for view in views for test in view.tests)
    scripts = [_text("vendored", "uPlot.iife.min.js"), _text("templates", "plots.js")] if drawn else []
    names = ", ".join(view.name for view in views)
    one = views[0].verdict.headline if len(views) == 1 else "Drives compared."
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            targets=views,
            comparison=compare(views),
            headline=_headline(views),
            title=f"{one} {names}",
            subtitle=names,
            dash=DASH,
            css=Markup(_text("templates", "report.css")),
            plot_css=Markup(_text("vendored", "uPlot.min.css")),
            policy=policy(scripts),
            scripts=[Markup(script) for script in scripts],
            licence=Markup(_text("vendored", "uPlot.LICENSE")),
            version=__version__,
        )
    )
    return page.strip() + "\n"


def write_file(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` whole or not at all; raises ``KeepError`` with the reason."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise KeepError(
            f"{path}: cannot be written: {error.strerror}; free some space or choose another --out"
        ) from error


def write_report(results: Sequence[tuple[SuiteResult, Path]], page_dir: Path) -> Path:
    """Render the report into ``page_dir``; the path of the page."""
    path = page_dir / REPORT_NAME
    write_file(path, render_report(results, page_dir))
    return path
