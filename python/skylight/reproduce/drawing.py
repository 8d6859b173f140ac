"""Pieces of the figures that several rows share: axes, marks, head positions.

The colours, sizes and fonts are the report's defaults in force while these are drawn; nothing is set here.
Marks differ in shape as well as in colour. What is thinned out for the page is said in the caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from skylight.probe import Figure
from skylight.reproduce.lab import Milliseconds, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

MARKS = ("o", "s", "^", "D", "v", "P")
MOST_MARKS = 600


def new() -> tuple[Drawing, Axes]:
    """An empty drawing with one pair of axes."""
    from matplotlib.figure import Figure as NewDrawing

    drawing = NewDrawing()
    return drawing, drawing.add_subplot()


def log_axis(axes: Axes, which: Literal["x", "y"], what: str) -> None:
    """A logarithmic axis with numbers as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if which == "x" else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(f"{what}, logarithmic)")


def thinned(count: int) -> tuple[NDArray[np.intp], str]:
    """Which of `count` marks are drawn, and the words for it. The step is odd, so that of marks that take
    turns both kinds are drawn."""
    step = -(-count // MOST_MARKS)
    step += step > 1 and step % 2 == 0
    return np.arange(0, count, step), f" One in {step} is drawn." if step > 1 else ""


def scatter(axes: Axes, sets: Mapping[str, Milliseconds], of: str, *, offset: int = 1) -> str:
    """Latencies (ms) in their order, a mark and a colour for each set; returns the words for thinning."""
    said = ""
    for number, (label, values) in enumerate(sets.items()):
        at, words = thinned(len(values))
        said = words or said
        axes.plot(
            at + offset, values[at], MARKS[number % 6], color=f"C{number % 6}", markersize=2.6, label=label
        )
    axes.set_xlabel(of)
    axes.set_ylabel("latency (ms)")
    if len(sets) > 1:
        axes.legend()
    return said


def latencies(
    name: str,
    title: str,
    sets: Mapping[str, Milliseconds],
    of: str,
    caption: str,
    *,
    log: bool = False,
    top: float | None = None,
) -> Figure:
    """A figure of latencies (ms) in their order; `top` cuts the axis and the caption says what is above."""
    drawing, axes = new()
    said = scatter(axes, sets, of)
    values = np.concatenate(list(sets.values()))
    if log:
        log_axis(axes, "y", "latency (ms")
    else:
        axes.set_ylim(0, top or 1.1 * float(values.max()))
        above = 0 if top is None else int(np.count_nonzero(values > top))
        if above:
            verb = "lies" if above == 1 else "lie"
            said += f" {above} {verb} above the axis, up to {values.max():.0f} ms."
    alt = "; ".join(f"{label}: median {np.median(part):.2f} ms" for label, part in sets.items())
    return Figure(name, title, caption + said, f"Scatter of latencies. {alt}.", drawing)


def head_axis(axes: Axes) -> None:
    """The axis of head positions: the OD on top, as the paper draws it."""
    axes.set_ylim(1.04, -0.04)
    axes.set_yticks([0.0, 0.5, 1.0], ["OD", "MD", "ID"])
    axes.set_ylabel("head position")


def head_path(
    name: str,
    title: str,
    paths: Sequence[tuple[str, Trace]],
    tracks: int,
    caption: str,
    *,
    unit: str = "ms",
    since_ns: int | None = None,
    parked_at: float = 1.0,
) -> Figure:
    """A figure of where the head was, in time since `since_ns` or the first access of each path."""
    drawing, axes = new()
    scale = {"ms": 1.0, "s": 1e-3}[unit]
    for number, (label, trace) in enumerate(paths):
        times, places = trace.path(tracks, parked_at)
        begin = times[0]
        if since_ns is not None:  # until the first access it stayed where it was
            begin = since_ns / 1e6
            times, places = np.concatenate([[begin], times]), np.concatenate([places[:1], places])
        axes.plot((times - begin) * scale, places, color=f"C{number}", linewidth=1.1, label=label)
    head_axis(axes)
    axes.set_xlabel(f"time ({unit})")
    if len(paths) > 1:
        axes.legend()
    alt = f"Head position against time: {', '.join(label for label, _ in paths)}."
    return Figure(name, title, caption, alt, drawing)
