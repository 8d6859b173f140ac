"""Figures of the test of non-sequential writes: throughput over time, and zones with non-sequential data.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figure 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import F64
from skylight.infer.zone_throughput import Spell
from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes, plain_numbers
from skylight.probe.non_sequential.measure import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 400


def draw(seen: Seen) -> list[Figure]:
    """The figures; none where nothing was written, and none of the zones where they were not counted."""
    if len(seen.log) < 2:
        return []
    end_s = np.concatenate([[0.0], np.cumsum(seen.latency_ns) / 1e9])
    return [_throughput(seen, end_s), *([_zones(seen, end_s)] if seen.counts else [])]


def _throughput(seen: Seen, end_s: F64) -> Figure:
    """Throughput over time."""
    edges = np.linspace(0.0, end_s[-1], BINS + 1)
    done = np.interp(edges, end_s, np.arange(len(end_s)))
    rate = np.diff(done) * seen.size_bytes / (edges[1] - edges[0]) / 1e6
    drawing, axes = new_axes()
    axes.plot(edges[1:] / 60, np.maximum(rate, rate[rate > 0].min(initial=1.0)), linewidth=1.1)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_xlabel("time (min)")
    axes.set_ylabel("throughput (MB/s)")
    alt = f"Throughput over time, {rate.max():.3g} MB/s at most"
    caption = "Non-sequential writes to some zones without a pause; the scale is logarithmic."
    if seen.spell is not None:
        first, end = _shade(axes, seen.spell, end_s)
        alt += f"; slow from minute {first:.1f} to {end:.1f}"
        caption += " In the shaded stretch the persistent cache is full: writes wait for zones to be cleaned."
    return Figure("non-sequential", "Sustained non-sequential writes", caption, f"{alt}.", drawing)


def _zones(seen: Seen, end_s: F64) -> Figure:
    """Zones with non-sequential data over time."""
    written, zones = np.array([(0, 0), *seen.counts], np.int64).T
    drawing, axes = new_axes()
    axes.plot(end_s[written] / 60, zones, marker="o", markersize=3, linewidth=1.1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (min)")
    axes.set_ylabel("non-sequential zones")
    if seen.spell is not None:
        _shade(axes, seen.spell, end_s)
    caption = (
        "Zones with data in the persistent cache, as the drive reports them between writes: each zone that"
    )
    caption += " is cleaned is one less, until it is written to again."
    alt = f"Zones with non-sequential data over time, {zones.max():,} at most, {zones[-1]:,} at the end."
    return Figure("non-sequential-zones", "Zones with non-sequential data", caption, alt, drawing)


def _shade(axes: Axes, spell: Spell, end_s: F64) -> tuple[float, float]:
    """Shades a slow spell; the minutes at which it begins and ends."""
    first, end = float(end_s[spell.first] / 60), float(end_s[spell.end] / 60)
    axes.axvspan(first, end, color="C3", alpha=0.15)
    return first, end
