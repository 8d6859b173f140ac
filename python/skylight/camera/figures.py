"""The head-position graph, as the paper draws it: position against time, OD to ID.

Invariants: frames of low confidence are left out of the line; drawn from what was found alone.

Source: Skylight (FAST '15), Figures 5, 9, 11, 16 and 19.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skylight.camera.frame_rate import Rate
from skylight.camera.graph_files import frame_times_s
from skylight.camera.seek_detection import LEAST_CONFIDENCE, Reading
from skylight.camera.track_head import Track
from skylight.errors import KeepError

GRAPH_NAME = "head.png"
SIZE_INCHES = (9.0, 3.6)
DPI = 130
# Blue and vermilion of Okabe and Ito's palette, which the colour-blind tell apart.
LINE, DOUBTFUL = "#0072b2", "#d55e00"
# Phases of a cleaning and dwells at places are named in the graph while there is room for so many.
MOST_NAMES = 8


def graph(path: Path, found: Track, rate: Rate, reading: Reading) -> None:
    """Draws the graph into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = drawing.add_subplot()
    times_s = frame_times_s(found, rate)
    if times_s is None:
        at, unit, scale = (
            found.clip.times_s[: found.frames],
            "s of the clip; the rate of capture is unknown",
            1.0,
        )
    else:
        scale, unit = (1e3, "ms") if times_s[-1] < 10 else (1.0, "s")
        at = times_s
    shown = np.where(found.confidence >= LEAST_CONFIDENCE, found.position, np.nan)
    axes.plot(at * scale, shown, color=LINE, linewidth=1.1, marker=".", markersize=2.5, markeredgewidth=0)
    doubtful = np.flatnonzero(found.confidence < LEAST_CONFIDENCE)
    if len(doubtful):
        marks = np.full(len(doubtful), -0.06)
        axes.plot(at[doubtful] * scale, marks, "|", color=DOUBTFUL, markersize=5, label="low confidence")
        axes.legend(loc="upper right", bbox_to_anchor=(1, 1.12), frameon=False, fontsize=8)
    for place in reading.places if len(reading.places) <= MOST_NAMES else ():
        axes.axhline(place, color="#b8b2a6", linewidth=0.6, zorder=0)
    for number, phase in enumerate(reading.cleaning):
        middle = np.interp((phase.start + phase.end) / 2, np.arange(found.frames), at) * scale
        beside = [
            one.position for one in reading.cleaning[max(0, number - 1) : number + 2] if one is not phase
        ]
        # Below the line at the OD, where there is no room above, and between two lines that come from above.
        lower = phase.position < 0.15 or (len(beside) == 2 and phase.position > max(beside))
        axes.annotate(
            phase.name, (middle, phase.position), (0, -11 if lower else 7), textcoords="offset points",
            ha="center", va="center", fontsize=8,
        )  # fmt: skip
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("head position")
    by_extremes = "extremes" in found.scale
    ends = ("outermost\nseen", "innermost\nseen") if by_extremes else ("OD", "ID")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], [f"{ends[0]}  0", "0.25", "0.5", "0.75", f"{ends[1]}  1"])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    axes.set_ylim(max(high, 1.0) + 0.1, min(low, 0.0) - 0.1)
    axes.set_xlim(float(at[0]) * scale, float(at[-1]) * scale)
    axes.grid(visible=True, color="#eeeae2", linewidth=0.7)
    axes.set_axisbelow(True)
    captured = "" if rate.capture_hz is None else f", shot at {rate.capture_hz:g} frames/s"
    axes.set_title(f"Head position in {found.clip.path.name}{captured}", loc="left", fontsize=10)
    FigureCanvasAgg(drawing)
    try:
        drawing.savefig(path, dpi=DPI, metadata={"Software": None})
    except OSError as error:
        raise KeepError(f"{path}: cannot be written: {error.strerror}; choose another -o DIR") from error
