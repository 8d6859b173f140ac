"""Figures of the report: one house style, and matplotlib SVG made fit to live inside a page.

What for: a test's ``draw()`` says *what* to show; this module says how it looks and turns it into SVG for
the report. Every figure is laid out twice, once for a wide page and once for a telephone, so that its text
is never scaled below reading size.

Invariants:
- Same input, same bytes: a fixed hash salt, no date, no creator, text kept as text (no glyph paths of a
  local font).
- No reference to anything outside the page: no namespace addresses, no document type, no fonts.
- The colours are the page's custom properties, so a figure follows light and dark mode. The six series
  colours are distinguished with the common kinds of colour blindness (after Okabe and Ito, "Color Universal
  Design", 2008).

A test draws with the defaults in force: ``Figure()`` without a size, colours "C0" to "C5" and "gray". A
size, a font or a colour of its own would not follow the page.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib
from cycler import cycler
from markupsafe import Markup, escape
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.ticker import (
    AutoLocator,
    FuncFormatter,
    LogFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    ScalarFormatter,
)

from skylight.evidence import Evidence
from skylight.findings import Finding
from skylight.probe import Figure, Test
from skylight.report.figure_layout import MEASURING, place

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["RenderedFigure", "render_drawn", "render_figures", "save_figure"]

# The page's custom properties, by the colour that stands for each while matplotlib draws.
_COLOURS = {
    "#1c2126": "--fig-ink",
    "#59636e": "--fig-muted",
    "#e6e3dc": "--fig-grid",
    "#dbe9f4": "--fig-band",
    "#fffffe": "--card",
    "#0072b2": "--s1",
    "#d55e00": "--s2",
    "#009e73": "--s3",
    "#a0508a": "--s4",
    "#8a6d00": "--s5",
    "#4a5560": "--s6",
    # what matplotlib or a careless draw() uses by name
    "#000000": "--fig-ink",
    "#ffffff": "--card",
    "#808080": "--fig-muted",
}
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#a0508a", "#8a6d00", "#4a5560")
_INK, _MUTED, _GRID = "#1c2126", "#59636e", "#e6e3dc"

# Any: the type of the keys differs between versions of matplotlib.
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    # The one that comes with matplotlib: it measures alike everywhere, and no other is looked for.
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": _MUTED,
    "axes.edgecolor": _MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=list(_SERIES)),
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "patch.linewidth": 0.0,
    "text.color": _INK,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.major.width": 0.7,
}

# Width and height in inches. At 72 units an inch the page shows both at about 1.4 pixels a unit: 9 points
# read as 12.5 px.
_SIZES = {"wide": (8.8, 3.9), "narrow": (3.6, 3.7)}

_NARROW_NUMBERS = 4  # steps of an x axis with long numbers on a narrow figure
_NARROW_LABEL = 46  # characters of an axis' name that a narrow figure has room for

_PROLOG = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_SVG_TAG = re.compile(r"<svg [^>]*?viewBox=\"(?P<box>[^\"]*)\"[^>]*>")
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_GLOBAL_STYLE = re.compile(r"\s*<defs>\s*<style type=\"text/css\">[^<]*</style>\s*</defs>")
_ID = re.compile(r" id=\"([^\"]*)\"")
_REFERENCE = re.compile(r"href=\"#([^\"]*)\"|url\(#([^)]*)\)")
_FONT_FAMILY = re.compile(r"(?:font-family: [^;\"]*;? ?)")
_HEX = re.compile(r"#[0-9a-f]{6}\b")
_SPACE = re.compile(r"\n\s*")
_TAG = re.compile(r"<[^>]*>")
_PLACE = re.compile(r" (?:d|x|y|width|height|transform)=\"[^\"]*\"")
_LONG_NUMBER = re.compile(r"-?\b\d+\.\d{3,}\b")
_NO_TURN = re.compile(r" transform=\"rotate\(-?0 [^\"]*\)\"")
_MARK = re.compile(r"<use href=\"([^\"]*)\" x=\"([^\"]*)\" y=\"([^\"]*)\" style=\"([^\"]*)\"/>")
_MARKS = re.compile(rf"(?:{_MARK.pattern}){{2,}}")


@dataclass(frozen=True)
class RenderedFigure:
    """A figure ready for the page: its words, and the SVG for a wide and for a narrow one."""

    title: str
    caption: str
    wide: Markup
    narrow: Markup


def _short(number: str, digits: int) -> str:
    """A coordinate to so many digits: a hundredth of a unit is a seventieth of a pixel.

    >>> _short("33.018599", 2), _short("280.000001", 1), _short("-0.001", 2)
    ('33.02', '280', '0')
    """
    text = f"{float(number):.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _short_numbers(place: re.Match[str]) -> str:
    """An attribute that says where, with no digit that no one can see."""
    return _LONG_NUMBER.sub(lambda number: _short(number[0], 2), place[0])


def _marks_together(run: re.Match[str], number: Iterator[int]) -> str:
    """Marks of one shape and look as the markers of an unseen line, a few bytes each; those that lie on each
    other to a tenth of a unit are one. ``number`` numbers the markers of a figure."""
    places: dict[tuple[str, str], dict[str, None]] = {}
    for shape, x, y, style in _MARK.findall(run[0]):
        places.setdefault((shape, style), {})[f"{_short(x, 1)},{_short(y, 1)}"] = None
    out = []
    for (shape, style), points in places.items():
        name = f"{shape.removeprefix('#')}-{next(number)}"
        out.append(
            f'<marker id="{name}" overflow="visible" markerUnits="userSpaceOnUse"><use href="{shape}"'
            f' style="{style}"/></marker><polyline points="{" ".join(points)}"'
            f' style="fill: none; stroke: none; marker: url(#{name})"/>'
        )
    return "".join(out)


def _for_the_page(svg: str, alt: str) -> Markup:
    """Matplotlib's SVG file as an element of the page: no prolog, no outside names, the page's colours and
    font, and no digit that no one can see."""
    svg = _PROLOG.sub("", svg, count=1)
    svg = _METADATA.sub("", svg)
    svg = _GLOBAL_STYLE.sub("", svg)
    label = escape(alt)
    svg = _SVG_TAG.sub(
        lambda m: f'<svg viewBox="{m["box"]}" role="img" aria-label="{label}" style="stroke-linejoin:round">',
        svg,
        count=1,
    )
    svg = svg.replace("xlink:href=", "href=")
    referenced = {one or other for one, other in _REFERENCE.findall(svg)}
    svg = _ID.sub(lambda m: m[0] if m[1] in referenced else "", svg)
    svg = _FONT_FAMILY.sub("", svg)
    svg = _HEX.sub(lambda m: f"var({_COLOURS[m[0]]})" if m[0] in _COLOURS else m[0], svg)
    # a blank line keeps the words of a path apart; markup between tags needs none
    svg = _SPACE.sub(" ", svg).replace("> <", "><").strip()
    number = itertools.count()
    svg = _MARKS.sub(lambda run: _marks_together(run, number), _NO_TURN.sub("", svg))
    return Markup(_TAG.sub(lambda tag: _PLACE.sub(_short_numbers, tag[0]), svg))


LEGEND_COLUMNS = 4
"""More names of two words do not fit beside each other over the axes."""


def _legends_above(figure: Figure, width: str) -> None:
    """Puts each legend above its axes, where it hides no mark; one below the other on a narrow page."""
    for axes in figure.figure.axes:
        if axes.get_legend() is None:
            continue
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=1 if width == "narrow" else min(len(labels), LEGEND_COLUMNS),
            markerscale=1.5,
            borderpad=0.2,
            borderaxespad=0.3,
            handlelength=1.2,
            handletextpad=0.4,
            labelspacing=0.3,
        )


def _fitting_labels(figure: Figure, width: str) -> None:
    """On a narrow page the names of long axes in two lines: what is longer than the figure is cut off."""
    if width == "narrow":
        for axes in figure.figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_label_text(fill(axis.get_label_text(), _NARROW_LABEL))


def _plain_numbers(figure: Figure, width: str) -> None:
    """Numbers as people write them: thousands apart, and on logarithmic axes no mathematics.

    On a narrow page few of them where they are long, so that they do not run into each other.
    """
    for axes in figure.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            plain = axis.get_scale() == "linear" and isinstance(axis.get_major_formatter(), ScalarFormatter)
            if plain and max(map(abs, axis.get_view_interval())) >= 1000:
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
            long = axis is axes.xaxis and max(map(abs, axis.get_view_interval())) >= 10_000
            if long and width == "narrow" and isinstance(axis.get_major_locator(), AutoLocator):
                axis.set_major_locator(MaxNLocator(_NARROW_NUMBERS))
            if axis.get_scale() == "log" and isinstance(axis.get_major_formatter(), LogFormatter):
                low, high = sorted(axis.get_view_interval())
                wide = high > 100 * max(low, 1e-300)
                axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
                axis.set_minor_formatter(NullFormatter())


class _Canvas(FigureCanvasSVG):
    """A canvas whose figures are laid out by one renderer, which only measures text and remembers its sizes.
    Without it matplotlib begins an SVG file for each layout, and measures all text again."""

    def get_renderer(self) -> RendererSVG:
        """The renderer to lay out by."""
        return MEASURING


def _save(figure: Figure, salt: str, width: str) -> str:
    """The SVG file of a figure, as matplotlib writes it."""
    _legends_above(figure, width)
    _fitting_labels(figure, width)
    _plain_numbers(figure, width)
    place(figure.figure, *_SIZES[width])
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        # savefig() would lay out and draw twice, the first time for nothing
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas = _Canvas(figure.figure)
        canvas.print_svg(out, metadata=nothing)  # type: ignore[no-untyped-call]  # matplotlib gives no types
    return out.getvalue()


def render_figures(
    test: Test, evidence: Evidence, findings: Sequence[Finding], salt: str
) -> list[RenderedFigure]:
    """All figures of a test, in the house style. ``salt`` keeps the ids of one page's figures apart."""
    return render_drawn(lambda: test.draw(evidence, findings), salt)


def render_drawn(draw: Callable[[], list[Figure]], salt: str) -> list[RenderedFigure]:
    """All figures that ``draw`` gives, in the house style: drawn once, laid out once for each width."""
    saved: dict[str, list[Markup]] = {}
    with matplotlib.rc_context({**_STYLE, "figure.figsize": _SIZES["wide"]}):
        figures = draw()
        for width in _SIZES:
            saved[width] = []
            for number, figure in enumerate(figures):
                svg = _save(figure, f"{salt}/{number}/{width}", width)
                saved[width].append(_for_the_page(svg, figure.alt))
    return [
        RenderedFigure(figure.title, figure.caption, wide, narrow)
        for figure, wide, narrow in zip(figures, saved["wide"], saved["narrow"], strict=True)
    ]


def save_figure(draw: Callable[[], Drawing], path: Path) -> None:
    """Writes one figure as an SVG file of its own, in the colours and sizes of the house style on white."""
    with matplotlib.rc_context({**_STYLE, "savefig.facecolor": "white", "svg.hashsalt": path.stem}):
        draw().savefig(path, format="svg", metadata={"Date": None, "Creator": None})
