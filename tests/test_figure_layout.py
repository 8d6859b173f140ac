"""The numbers, names, legend and texts of a figure stand inside it, and its axes are about as large as in
matplotlib's own layout."""

from collections.abc import Callable

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from skylight.probe.figure_parts import plain_numbers
from skylight.report.figure_layout import POINTS_PER_INCH, place

SIZES = ((8.8, 3.9), (3.6, 3.7))
NEAR_POINTS = 1.5  # the two renderers round widths and the depth of letters differently


def _long_numbers(axes: Axes) -> None:
    axes.plot([0.0, 4_000_000.0], [0.0, 123_456.0], label="a line")
    axes.set_ylabel("latency (ms)")
    axes.set_xlabel("in the order\nof the writes")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.3)


def _words(axes: Axes) -> None:
    axes.plot([0.0, 1.0], [0.0, 1.0], "o")
    axes.set_xticks([0.0, 1.0], ["one at a time,\nwith the cache off", "the other, the cache full"])
    axes.set_yticks([0.0, 1.0], ["addresses down", "addresses up"])
    axes.set_xlim(0.0, 1.0)


def _text_beyond(axes: Axes) -> None:
    axes.plot([1.0, 1000.0], [1.0, 1000.0])
    axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.annotate("a quantum of 864 KiB", (400.0, 500.0))
    axes.annotate("high", (1.0, 1.0), (0, 12), "axes fraction", "offset points", ha="center", va="bottom")


def _small_numbers(axes: Axes) -> None:
    axes.plot([0.0, 1e-7], [0.0, 3e-7])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("draw", [_long_numbers, _words, _text_beyond, _small_numbers])
def test_all_of_a_figure_stands_inside_it(draw: Callable[[Axes], None], size: tuple[float, float]) -> None:
    figure = Drawing(layout="constrained", dpi=POINTS_PER_INCH, figsize=size)
    axes = figure.add_subplot()
    draw(axes)
    figure.draw_without_rendering()  # as matplotlib lays it out
    theirs = axes.get_position().frozen()
    place(figure, *size)
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    near = NEAR_POINTS / POINTS_PER_INCH
    assert box.x0 > -near and box.y0 > -near
    assert box.x1 < size[0] + near and box.y1 < size[1] + near
    ours = axes.get_position()
    assert ours.width * ours.height > 0.93 * theirs.width * theirs.height
    for axis in (axes.xaxis, axes.yaxis):  # the name does not stand on the numbers
        numbers = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        name = axis.label.get_window_extent()
        assert not axis.get_label_text() or not any(name.overlaps(number) for number in numbers)


def test_a_figure_of_two_pairs_of_axes_keeps_the_layout_of_matplotlib() -> None:
    figure = Drawing(layout="constrained")
    figure.subplots(2, 1)
    place(figure, *SIZES[0])
    assert type(figure.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"
