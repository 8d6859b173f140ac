"""Figures of logs: latency against read number with the floor and one revolution above it, and the folded
phase.

The colours, sizes and fonts are the report's defaults in force while these are drawn; nothing is set here.
Marks differ in shape as well as in colour. Of a long log only some reads are drawn, evenly spread.

Source: Skylight (FAST '15) Figure 8 for the latencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import dashed_line, new_axes
from skylight.probe.fragmented_reads.analysis import Home, Place
from skylight.units import format_capacity, format_count, format_duration, format_size

if TYPE_CHECKING:
    pass

MOST_MARKS = 2400
SHOWN_TRACKS = 6
TOP_QUANTILE = 0.99
MIB = 1 << 20


def draw(places: Sequence[Place]) -> list[Figure]:
    """The figures that the logs allow."""
    figures = []
    for place in places:
        figures.append(_latencies(place))
        if not place.trouble and place.home is not None:
            figures.append(_angles(place, place.home))
    return figures


def _latencies(place: Place) -> Figure:
    drawing, axes = new_axes()
    every = max(1, -(-place.count // MOST_MARKS))
    every += 1 - every % 2  # odd, so that both of two alternating reads are drawn
    shown = np.arange(0, place.count, every)
    latency_ms = place.latency_ns / 1e6
    halves = [
        (shown[shown % 2 == part], word, mark) for part, word, mark in ((0, "even", "o"), (1, "odd", "s"))
    ]
    for number, (at, word, mark) in enumerate(halves):
        axes.plot(at, latency_ms[at], mark, color=f"C{number}", markersize=2, label=f"{word} reads")
    top = float(np.quantile(latency_ms, TOP_QUANTILE))
    words = ""
    if place.floor_ns is not None and place.home is not None:
        floor, turn = place.floor_ns / 1e6, place.home.fit.turn / 1e6
        dashed_line(axes, floor, f"floor, {format_duration(place.floor_ns)}", above=False)
        higher = format_duration(place.floor_ns + turn * 1e6)
        dashed_line(axes, floor + turn, f"one revolution above, {higher}")
        top = max(top, floor + turn)
        words = (
            " Marks fill one revolution evenly above the floor: the wait for the platter. The floor is the"
            " arm time between native blocks and blocks elsewhere."
        )
    axes.set_ylim(0, max(1.2 * top, 1e-3))
    axes.set_xlabel("read, in the order issued")
    axes.set_ylabel("latency (ms)")
    axes.set_xlim(0, place.count)
    axes.legend(loc="upper right", ncols=2)
    above = int(np.count_nonzero(latency_ms > axes.get_ylim()[1]))
    slowest = format_duration(float(place.latency_ns.max()))
    more = f" {format_count(above)} slower reads lie above the axis, up to {slowest}." if above else ""
    more += f" One read in {every} is drawn." if every > 1 else ""
    size = format_size(int(place.step.rows.size[0]))
    where = f"{place.name}, at {format_capacity(place.first_byte)}"
    return Figure(
        f"fragmented-latency-{place.name}",
        f"Latency of reads: {where}",
        f"Each mark is one read of {size}, one after the other.{words}{more}",
        f"Scatter of read latency; median {format_duration(float(np.median(place.latency_ns)))}.",
        drawing,
    )


def _angles(place: Place, home: Home) -> Figure:
    drawing, axes = new_axes()
    turn = home.fit.turn
    reads = int(SHOWN_TRACKS * home.marks.reads) + 1
    last = min(place.count, place.count // 2 + reads * home.stride)
    rows = np.arange(max(0, last - reads * home.stride), last)
    x = (place.step.rows.offset[rows].astype(np.int64) - place.first_byte) / MIB
    angle = np.mod((place.done_ns[rows] - place.done_ns[rows[0]]) / turn, 1.0)
    in_order = rows % home.stride == home.first
    labels = ("blocks at home", "blocks elsewhere") if home.alone else ("blocks in order", "the other blocks")
    axes.plot(x[in_order], angle[in_order], "o", color="C0", markersize=2, label=labels[0])
    if home.stride > 1:
        axes.plot(x[~in_order], angle[~in_order], "s", color="C1", markersize=1.2, alpha=0.5, label=labels[1])
        axes.legend(loc="upper right", ncols=2)
    axes.set_xlabel(f"address beyond {format_capacity(place.first_byte)} (MiB)")
    axes.set_ylabel("angle at completion (revolutions)")
    axes.set_ylim(0, 1)
    size = ""
    if place.track_bytes is not None:
        track = format_size(round(place.track_bytes))
        size = f" They rise by one revolution and a skew every {track}, a track."
    return Figure(
        f"fragmented-angles-{place.name}",
        f"Where blocks pass the head: {place.name}",
        "Completion times folded over one revolution, against the address, for a part of the log. Blocks that"
        f" lie in order make slanting lines.{size} Blocks elsewhere do not: their angles follow the order in"
        " which they were written.",
        "Scatter of angle against address: parallel rising lines of blocks at home, others in between.",
        drawing,
    )
