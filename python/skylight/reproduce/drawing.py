"""Parts of figures that several rows share: axes, markers, head positions.

Colours, sizes and fonts are the report's defaults; nothing is set here. Markers differ in shape as well as in
colour. The caption states how points were thinned out for the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.reproduce.emulated_drives import Milliseconds, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MARKERS = 600


def log_axis(axes: Axes, which: Literal["x", "y"], what: str) -> None:
    """A logarithmic axis with plain decimal labels."""
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
    """Which of `count` points are drawn, and a sentence that says so. The step is odd, so that points of two
    alternating kinds are both drawn."""
    step = -(-count // MOST_MARKERS)
    step += step > 1 and step % 2 == 0
    return np.arange(0, count, step), f" One in {step} is drawn." if step > 1 else ""


def scatter(axes: Axes, sets: Mapping[str, Milliseconds], of: str) -> str:
    """Latencies (ms) in their order, a marker and a colour per set; returns the sentence about thinning."""
    said = ""
    for number, (label, values) in enumerate(sets.items()):
        at, words = thinned(len(values))
        said = words or said
        axes.plot(
            at + 1, values[at], MARKERS[number % 6], color=f"C{number % 6}", markersize=2.6, label=label
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
    """A figure of latencies (ms) in their order; `top` cuts the axis, and the caption counts the points
    above."""
    drawing, axes = new_axes()
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
    """The axis of head positions, the OD on top as in the paper."""
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
    """A figure of the head position over the time since `since_ns` or since the first access of each path."""
    drawing, axes = new_axes()
    scale = {"ms": 1.0, "s": 1e-3}[unit]
    for number, (label, trace) in enumerate(paths):
        times, places = trace.path(tracks, parked_at)
        begin = times[0]
        if since_ns is not None:  # the head stays in place until the first access
            begin = since_ns / 1e6
            times, places = np.concatenate([[begin], times]), np.concatenate([places[:1], places])
        axes.plot((times - begin) * scale, places, color=f"C{number}", linewidth=1.1, label=label)
    head_axis(axes)
    axes.set_xlabel(f"time ({unit})")
    if len(paths) > 1:
        axes.legend()
    alt = f"Head position against time: {', '.join(label for label, _ in paths)}."
    return Figure(name, title, caption, alt, drawing)
