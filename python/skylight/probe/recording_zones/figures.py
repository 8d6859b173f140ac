"""Figures of test 11: throughput along the drive, and track sizes of strokes.

The colours, sizes and fonts are the report's defaults in force while these are drawn; nothing is set here.
Marks differ in shape as well as in colour.

Source: Skylight (FAST '15) Figures 17 and 18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.probe.recording_zones.serpentine_pass_search import Walk
from skylight.probe.recording_zones.speed import Profile
from skylight.probe.recording_zones.track_sizes import Pattern
from skylight.probe.recording_zones.zone_table import RecordingZones

if TYPE_CHECKING:
    pass

GIB = 1 << 30
BAND = "#dbe9f4"  # the report's colour for a stretch


def draw(profile: Profile | None, found: Walk | None, zones: RecordingZones | None = None) -> list[Figure]:
    """The figures that the evidence allows."""
    figures = [] if profile is None else [_throughput(profile, zones)]
    if found is not None and found.pattern is not None:
        figures.append(_strokes(found, found.pattern))
    return figures


def _zone_words(zones: RecordingZones | None) -> str:
    """What the caption says of zones."""
    if zones is None or len(zones.levels) < 2:
        return ""
    count = f"{zones.count}" if zones.exact else f"at least {zones.count}"
    return (
        f" Every other recording zone is shaded, {count} of them in all: within one, tracks are equally long."
    )


def _throughput(profile: Profile, zones: RecordingZones | None) -> Figure:
    drawing, axes = new_axes()
    for number, level in enumerate(zones.levels if zones is not None and len(zones.levels) > 1 else ()):
        if number % 2 == 0:
            axes.axvspan(level.first / GIB, level.last / GIB, color=BAND, linewidth=0)
    axes.plot(profile.at / GIB, profile.speed / 1e6, "o", color="C0", markersize=4)
    axes.set_xlabel("address (GiB)")
    axes.set_ylabel("throughput (MB/s)")
    axes.set_ylim(0, 1.1 * float(profile.speed.max()) / 1e6)
    axes.set_xlim(-0.01 * float(profile.at[-1]) / GIB, 1.01 * float(profile.at[-1]) / GIB)
    ends = profile.ends
    caption = (
        "Each mark is a burst of sequential 1 MiB reads with look-ahead on. Outer tracks hold more and pass"
        f" in the same time: {ends['od'] / 1e6:.0f} MB/s at the first address, {ends['id'] / 1e6:.0f} at the"
        " last. Marks that scatter up and down show surfaces that differ, or bands that end within a burst."
        + _zone_words(zones)
    )
    alt = f"Throughput falls from {ends['od'] / 1e6:.0f} to {ends['id'] / 1e6:.0f} MB/s along the addresses."
    return Figure("zones-throughput", "Throughput along the drive", caption, alt, drawing)


def _strokes(found: Walk, pattern: Pattern) -> Figure:
    drawing, axes = new_axes()
    at = np.array([stroke.at for stroke in found.strokes]) / GIB
    size = np.array([stroke.track_bytes for stroke in found.strokes]) / 1024
    zone = np.arange(len(at)) // pattern.count
    axes.step(at, size, where="mid", color="gray", linewidth=1)
    for number in range(int(zone.max()) + 1):
        rows = zone == number
        label = f"zone {number + 1}"
        axes.plot(at[rows], size[rows], MARKERS[number % len(MARKERS)], color=f"C{number % 5}", label=label)
        if number:
            edge = (at[rows][0] + at[zone == number - 1][-1]) / 2
            axes.axvline(edge, color="C5", linestyle="--", linewidth=1)
    axes.set_xlabel("address (GiB)")
    axes.set_ylabel("track size (KiB)")
    axes.legend(loc="upper right")
    caption = (
        f"Each mark is one serpentine pass over one surface. {pattern.count} surfaces of different"
        f" density make {pattern.count} plateaus; at each dashed line the order of the surfaces reverses, and"
        " the same plateaus come back mirrored, a little lower."
    )
    alt = f"{pattern.count} plateaus of track size, then the same mirrored."
    return Figure("zones-strokes", "Plateaus of the surfaces", caption, alt, drawing)
