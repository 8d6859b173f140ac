"""Figures of test 1: latency of the writes in order, and of the reads.

The colours, sizes and fonts are the report's defaults in force while these are drawn; nothing is set here.
Marks differ in shape as well as in colour.

Source: Skylight (FAST '15) Figure 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import I64
from skylight.probe import Figure
from skylight.probe.drive_type.landing import rotation
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.write_latencies import Writes
from skylight.probe.figure_parts import MARKERS, dashed_line, new_axes
from skylight.units import ROTATION_DIGITS, format_duration, format_rotation, format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_FROM = 30.0  # a spread of the middle 98 % by more than this factor is drawn on a logarithmic axis


def _latency_axis(axes: Axes, latency_ns: I64, period_ns: float) -> str:
    """Scales the latency axis so that it shows the bulk and the revolution (0: none); returns the words for
    it."""
    low, high = np.percentile(latency_ns, [1, 99])
    high = max(high, period_ns)
    if high > LOG_FROM * max(low, 1.0):
        axes.set_yscale("log")
        axes.set_ylabel("latency (ms, logarithmic)")
        return "logarithmic"
    top = 1.25 * float(high) / 1e6
    axes.set_ylim(0, max(top, 1e-3))
    axes.set_ylabel("latency (ms)")
    return "linear"


def _left_out(latency_ns: I64, axes: Axes) -> str:
    above = int(np.count_nonzero(latency_ns / 1e6 > axes.get_ylim()[1]))
    slowest = format_duration(int(latency_ns.max()))
    if above == 1:
        return f" Above the axis lies a slower one, {slowest}."
    return f" Above the axis lie {above} slower ones, up to {slowest}." if above else ""


def _write_label(writes: Writes) -> str:
    return f"within {format_size(writes.region_bytes)}{', with FLUSH' if writes.flushed else ''}"


def _draw_writes(seen: Observed, groups: list[Writes]) -> Figure:
    drawing, axes = new_axes()
    first = 0
    for number, writes in enumerate(groups):
        at = np.arange(first + 1, first + 1 + len(writes.latency_ns))
        mark, colour = MARKERS[number % len(MARKERS)], f"C{number % 5}"
        axes.plot(at, writes.latency_ns / 1e6, mark, color=colour, markersize=3, label=_write_label(writes))
        first += len(at)
    every = np.concatenate([writes.latency_ns for writes in groups])
    turning = rotation(seen)
    scale = _latency_axis(axes, every, 0.0 if turning is None else turning.period_ns)
    if turning is not None:
        period_ns = turning.period_ns
        dashed_line(axes, period_ns / 1e6, f"one revolution, {format_duration(period_ns, ROTATION_DIGITS)}")
    axes.set_xlabel("write, in the order issued")
    axes.set_xlim(0, first + 1)
    if len(groups) > 1:
        axes.legend(loc="upper left", ncols=len(groups), markerscale=1.5, handletextpad=0.2)
        axes.set_ylim(top=axes.get_ylim()[1] * (3 if scale == "logarithmic" else 1.15))
    medians = "; ".join(
        f"{_write_label(writes)}: median {format_duration(writes.spread.median_ns)}" for writes in groups
    )
    caption = (
        "Each mark is one random 4 KiB write, one at a time, in the order issued. Marks in a flat line are"
        " appended to a log (a shingled drive's persistent cache); marks spread evenly over a revolution are"
        " written in place; marks far below a revolution never touched the platter. The axis is"
        f" {scale}.{_left_out(every, axes)}"
    )
    return Figure(
        "drive-type-writes",
        "Latency of random writes",
        caption,
        f"Scatter of write latency; {medians}.",
        drawing,
    )


def _draw_reads(seen: Observed) -> Figure:
    drawing, axes = new_axes()
    sets = [(seen.reads_ns, "all over what is read")]
    if len(seen.back_ns):
        sets.append((seen.back_ns, "of what was just written"))
    for number, (latency_ns, label) in enumerate(sets):
        ordered = np.sort(latency_ns) / 1e6
        share = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
        axes.plot(ordered, share, MARKERS[number], color=f"C{number}", markersize=3, label=label)
    every = np.concatenate([latency_ns for latency_ns, _ in sets])
    low, high = np.percentile(every, [1, 99])
    wide = high > LOG_FROM * max(low, 1.0)
    if wide:
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, 1.1 * float(every.max()) / 1e6)
    axes.set_xlabel(f"latency (ms{', logarithmic' if wide else ''})")
    axes.set_ylabel("share of reads this fast (%)")
    axes.set_ylim(0, 103)
    if len(sets) > 1:
        axes.legend(loc="lower right")
    caption = (
        "Random 4 KiB reads, the first at each place, sorted: a rotating disk climbs evenly over several"
        " milliseconds (seek, then a wait of up to one revolution); anything else climbs at once. Whether"
        f" completions follow a rotation is computed from their times: {_rotation_words(seen)}"
    )
    alt = f"Cumulative share of read latency; median {format_duration(float(np.median(seen.reads_ns)))}."
    return Figure("drive-type-reads", "Latency of random reads", caption, alt, drawing)


def _rotation_words(seen: Observed) -> str:
    turning = rotation(seen)
    if turning is None:
        return "they do not."
    return (
        f"they do, one of {format_rotation(turning.period_ns)}; the address explains"
        f" {100 * turning.share:.0f} % of the phases beyond chance."
    )


def draw(seen: Observed) -> list[Figure]:
    """The figures that the evidence allows."""
    groups = [writes for writes in (seen.wide, *seen.ladder) if writes is not None]
    figures = [_draw_writes(seen, groups)] if groups else []
    if len(seen.reads_ns):
        figures.append(_draw_reads(seen))
    return figures
