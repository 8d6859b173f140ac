"""Parts of figures that several tests share: axes, markers, a dashed line with its meaning.

Colours, sizes and fonts are the report's defaults in force while a figure is drawn; no test sets its own.
Markers differ in shape as well as in colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skylight.evidence import F64, I64, Bools

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Drawing

MARKERS = ("o", "s", "^", "D", "v", "P")


def new_axes() -> tuple[Drawing, Axes]:
    """An empty drawing with one pair of axes."""
    from matplotlib.figure import Figure as NewDrawing

    drawing = NewDrawing()
    return drawing, drawing.add_subplot()


def plain_numbers(axis: Axis) -> None:
    """Decimal labels on a logarithmic axis: the report's figures hold no formulas."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def dashed_line(axes: Axes, height: float, text: str = "", *, above: bool = True) -> None:
    """A dashed line across, with its meaning above or below the right end."""
    axes.axhline(height, color="C5", linestyle="--", linewidth=1)
    axes.annotate(
        text, (1.0, height), xycoords=("axes fraction", "data"), xytext=(-2, 3 if above else -3),
        textcoords="offset points", ha="right", va="bottom" if above else "top",
    )  # fmt: skip


def cached_or_cleaned(axes: Axes, at: I64, height: F64, cleaned: Bools) -> None:
    """Blocks that are still in the persistent cache, and blocks that were cleaned."""
    for number, (label, rows) in enumerate((("in the cache", ~cleaned), ("cleaned", cleaned))):
        axes.plot(at[rows], height[rows], MARKERS[number], color=f"C{number}", markersize=4, label=label)
