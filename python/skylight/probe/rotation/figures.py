"""Figures of test 2: angles of blocks against addresses, latencies against angles, the seek curve.

The colours, sizes and fonts are the report's defaults in force while these are drawn; nothing is set here.
Marks differ in shape as well as in colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import F64, Evidence
from skylight.infer.track_phases import Tracks, phase_of
from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.probe.rotation import track_fit
from skylight.probe.rotation.analysis import Analysis
from skylight.probe.rotation.seeks import Curve
from skylight.units import format_duration, format_size

if TYPE_CHECKING:
    pass

SHOWN_TRACKS = 6
MIB = 1 << 20


def draw(found: Analysis, evidence: Evidence) -> list[Figure]:
    """The figures that the evidence allows."""
    figures = []
    if found.near is not None:
        figures.append(_angles(found, found.near, evidence))
    if found.near is not None and found.same_wide is not None:
        figures.append(_catching(found, found.near, evidence))
    if found.curve is not None and found.ends is not None:
        figures.append(_seek_curve(found, found.curve, found.ends))
    return figures


def _angles(found: Analysis, near: Tracks, evidence: Evidence) -> Figure:
    drawing, axes = new_axes()
    log = evidence.log("od")
    period_ns = 1.0 if found.turn is None else found.turn.period_ns
    x = log.offset.astype(np.float64)
    shown = x <= near.begin[0] + SHOWN_TRACKS / near.slope
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
    axes.plot(x[shown] / MIB, angle[shown], "o", color="C0", markersize=3, label="a read")
    for number in range(min(SHOWN_TRACKS, len(near.begin))):
        at = np.linspace(near.begin[number], near.end[number], 200)
        line = near.phase(at)
        line[1:][np.diff(line) < 0] = np.nan
        axes.plot(at / MIB, line, color="C1", linewidth=1, label="fitted tracks" if number == 0 else None)
    axes.set_xlabel("address (MiB)")
    axes.set_ylabel("angle at completion (revolutions)")
    axes.set_ylim(0, 1)
    axes.legend(loc="upper right")
    size = format_size(round(near.track_bytes))
    caption = (
        "Each mark is one read in random order: at which angle of the platter it completed. Blocks of a track"
        f" rise by one revolution every {size}, the size of a track; where a line breaks off the next track"
        " begins, later by the skew."
    )
    alt = f"Scatter of angle against address: parallel rising lines, one revolution in {size}."
    return Figure("rotation-angles", "Where blocks lie around the platter", caption, alt, drawing)


def _catching(found: Analysis, near: Tracks, evidence: Evidence) -> Figure:
    drawing, axes = new_axes()
    period_ns = 1.0 if found.turn is None else found.turn.period_ns
    sets = [("same-wide", "on the same track", "o"), ("next", "on the next track in address", "^")]
    for number, (name, label, mark) in enumerate(sets):
        log = evidence.log(name)
        if len(log) == 0:
            continue
        model = near.phase(log.offset.astype(np.float64))
        block, submit = track_fit.aligned(log, model, track_fit.in_chunks(len(log)), period_ns)
        ahead = np.mod(block - submit, 1.0)[:600]
        latency = log.latency_ns[:600] / period_ns
        axes.plot(ahead, latency, mark, color=f"C{number}", markersize=3, label=label)
    axes.set_xlabel("angle from the head to the block when it was asked for (revolutions)")
    axes.set_ylabel("latency (revolutions)")
    axes.set_ylim(0, 2.3)
    axes.set_xlim(0, 1)
    axes.legend(loc="upper right")
    same = "" if found.same is None else f", here {format_duration(found.same.ns)}"
    caption = (
        "Each mark is one read. On the lower line the block is caught as it comes round, on the upper one it"
        " was missed and came a revolution later. Where the marks change lines is the soonest that the drive"
        f" can be ready: on the same track its overhead{same}; on another also the arm's step or the head"
        " switch."
    )
    alt = "Latency against angle ahead: two parallel lines one revolution apart; reads change between them."
    return Figure("rotation-caught", "Caught or missed", caption, alt, drawing)


def _seek_curve(found: Analysis, curve: Curve, ends: tuple[int, int]) -> Figure:
    drawing, axes = new_axes()
    by_hub = dict(found.stars)
    part = np.linspace(0, 1, 300)
    axes.plot(100 * part, curve.ns(part) / 1e6, color="C5", linestyle="--", label="fitted curve")
    marks: list[tuple[F64, F64, str, str]] = [
        (curve.share, by_hub[ends[0]], "from one end", "o"),
        (1 - curve.share, by_hub[ends[1]], "from the other", "^"),
    ]
    for number, (share, times, label, mark) in enumerate(marks):
        axes.plot(100 * share, times / 1e6, mark, color=f"C{number}", markersize=4, label=label)
    axes.set_xlabel("share of the tracks that the arm passes (%)")
    axes.set_ylabel("arm time (ms)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 101)
    axes.legend(loc="lower right")
    third, full = (format_duration(float(curve.ns(share))) for share in (1 / 3, 1.0))
    caption = (
        "Each mark is the arm time between one end of the arm's travel and a place on the drive, from"
        " reads that were just caught or just missed. A place has one radius, so its two marks, from both"
        f" ends, must lie on one curve: {third} over a third of the travel, {full} over all of it."
    )
    alt = f"Arm time against distance, rising to {full} over the full stroke."
    return Figure("rotation-seeks", "The seek curve", caption, alt, drawing)
