"""Places the axes of a figure so that its numbers, names and legend fit around them.

What for: matplotlib's constrained layout measures every text of a figure twice, then drawing measures those
of the axes once more. That was two fifths of the CPU time of the figures of a report. Most figures have one
pair of axes, whose margins follow from a few widths.

Invariant: widths are those of matplotlib's own font. The page shows another, so that a width is an estimate,
here and in matplotlib's layouts alike.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.font_manager import FontProperties

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Drawing

__all__ = ["MEASURING", "POINTS_PER_INCH", "place"]

POINTS_PER_INCH = 72
"""Dots per inch of matplotlib's SVG: a dot is a point."""

MEASURING = RendererSVG(1, 1, io.StringIO())  # type: ignore[no-untyped-call]  # matplotlib gives no types
"""A renderer that only measures text; matplotlib remembers the sizes with it."""

_LINE = 1.2  # height of a line of text in its size, as matplotlib's `linespacing`
_EDGE = 3.0  # points between a figure's contents and its edges, as in constrained layout

# A text beyond the edge follows its margin only in part, so that the rest is looked at again. One that begins
# in the last fifth of the axes is left with at most 0.2**4 of what it lacked.
_ROUNDS = 4
_NEAR = 0.5  # points


@dataclass(slots=True)
class _Margins:
    """Points between the axes and the edges of the figure."""

    left: float
    right: float
    bottom: float
    top: float

    def apply(self, axes: Axes, width: float, height: float) -> None:
        """Puts the axes inside, on a figure of that size in points."""
        axes.set_position(
            (
                self.left / width,
                self.bottom / height,
                max(width - self.left - self.right, 1.0) / width,
                max(height - self.bottom - self.top, 1.0) / height,
            )
        )


@cache
def _width(line: str, size: float) -> float:
    """Width of a line of text in a size, both in points."""
    width, _, _ = MEASURING.get_text_width_height_descent(  # type: ignore[no-untyped-call]  # as above
        line, FontProperties(size=size), False
    )
    return float(width)


def _size(of: Literal["xtick.labelsize", "ytick.labelsize", "legend.fontsize"]) -> float:
    """Points of a size of text that is in force, which may be a word."""
    return FontProperties(size=matplotlib.rcParams[of]).get_size_in_points()


def _numbers(axis: Axis) -> tuple[np.ndarray, Sequence[str]]:
    """Where along the visible axis its numbers stand, from 0 to 1, and the numbers."""
    places = np.asarray(axis.get_majorticklocs(), float)
    labels = axis.get_major_formatter().format_ticks(list(places))
    ends = np.asarray(axis.get_transform().transform(axis.get_view_interval()), float)
    shares = (np.asarray(axis.get_transform().transform(places), float) - ends[0]) / (ends[1] - ends[0])
    # The tolerance is for rounding alone: matplotlib shows a number at the very end of an axis.
    visible = (shares > -1e-6) & (shares < 1 + 1e-6)
    return shares[visible], [label for label, shown in zip(labels, visible, strict=True) if shown]


def _lines(text: str) -> list[str]:
    """The lines of a text; none of an empty one."""
    return text.split("\n") if text else []


def _name_points(axis: Axis) -> float:
    """Height of the name of an axis with what keeps it apart from the numbers; 0 where there is no name."""
    lines = len(_lines(axis.get_label_text()))
    return lines * float(axis.label.get_fontsize()) * _LINE + axis.labelpad if lines else 0.0


def _below_points(axis: Axis) -> float:
    """Height of what stands below the numbers: the name, and beside it the power of ten of small numbers."""
    power = _size("xtick.labelsize") * _LINE + _EDGE if axis.get_major_formatter().get_offset() else 0.0
    return max(_name_points(axis), power)


def _is_simple(drawing: Drawing) -> bool:
    """Whether the figure has one pair of axes without a title, named at the left and below."""
    if len(drawing.axes) != 1 or drawing.texts or drawing.legends:
        return False
    (axes,) = drawing.axes
    return (
        not any(axes.get_title(side) for side in ("left", "center", "right"))
        and not axes.child_axes
        and axes.xaxis.get_label_position() == "bottom"
        and str(axes.yaxis.get_label_position()) == "left"  # the stubs know an x axis alone
    )


def _margins(axes: Axes) -> _Margins:
    """The margins that the numbers, names and legend of the axes need, in points."""
    pad = float(matplotlib.rcParams["xtick.major.size"]) + float(matplotlib.rcParams["xtick.major.pad"])
    _, labels = _numbers(axes.xaxis)
    number_size = _size("xtick.labelsize")
    deep = pad + max((len(_lines(label)) for label in labels), default=0) * number_size * _LINE
    legend = axes.get_legend()
    above = number_size / 2
    if legend is not None:
        apart = 2 * legend.borderaxespad * _size("legend.fontsize")
        above = max(above, legend.get_window_extent(MEASURING).height + apart)
    offset = axes.yaxis.get_major_formatter().get_offset()
    if offset:
        above += number_size * _LINE
    below = deep + _below_points(axes.xaxis)
    return _Margins(_EDGE, _EDGE + number_size, below + _EDGE, above + _EDGE)


def place(drawing: Drawing, width_inches: float, height_inches: float) -> None:
    """Sets the size of a figure, in inches, and lays it out where that is simple; any other figure keeps
    matplotlib's layout. The figure is drawn at ``POINTS_PER_INCH``."""
    drawing.set_size_inches(width_inches, height_inches)
    drawing.set_dpi(POINTS_PER_INCH)
    if not _is_simple(drawing):
        return
    drawing.set_layout_engine("none")
    (axes,) = drawing.axes
    width, height = width_inches * POINTS_PER_INCH, height_inches * POINTS_PER_INCH
    margins = _margins(axes)
    # The height decides which numbers stand along it, they the left margin, and the width the numbers below.
    margins.apply(axes, width, height)
    pad = float(matplotlib.rcParams["ytick.major.size"]) + float(matplotlib.rcParams["ytick.major.pad"])
    size = _size("ytick.labelsize")
    _, labels = _numbers(axes.yaxis)
    wide = pad + max((_width(line, size) for label in labels for line in _lines(label)), default=0.0)
    margins.left += wide + _name_points(axes.yaxis)
    margins.apply(axes, width, height)
    _make_room(axes, margins, width, height)
    margins.apply(axes, width, height)
    inside_width = width - margins.left - margins.right
    inside_height = height - margins.bottom - margins.top
    # Where the names stand is known, so that matplotlib does not measure all numbers again to find out.
    axes.yaxis.set_label_coords(-(wide + axes.yaxis.labelpad) / inside_width, 0.5)
    deep = margins.bottom - _EDGE - _below_points(axes.xaxis)
    axes.xaxis.set_label_coords(0.5, -(deep + axes.xaxis.labelpad) / inside_height)


def _make_room(axes: Axes, margins: _Margins, width: float, height: float) -> None:
    """Widens the margins for numbers below that reach over the ends, and for texts beyond the axes."""
    size = _size("xtick.labelsize")
    inside = width - margins.left - margins.right
    margins.right = _EDGE
    for share, label in zip(*_numbers(axes.xaxis), strict=True):
        half = max(_width(line, size) for line in _lines(label)) / 2 if label else 0.0
        margins.left = max(margins.left, half - share * inside + _EDGE)
        margins.right = max(margins.right, half - (1 - share) * inside + _EDGE)
    margins.apply(axes, width, height)
    for _ in range(_ROUNDS):
        boxes = [text.get_window_extent(MEASURING) for text in axes.texts if text.get_text()]
        left = _EDGE - min((box.x0 for box in boxes), default=_EDGE)
        right = max((box.x1 for box in boxes), default=0.0) + _EDGE - width
        top = max((box.y1 for box in boxes), default=0.0) + _EDGE - height
        if max(left, right, top) <= _NEAR:
            return
        margins.left += max(0.0, left)
        margins.right += max(0.0, right)
        margins.top += max(0.0, top)
        margins.apply(axes, width, height)
