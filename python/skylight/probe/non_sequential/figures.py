"""Figure of the test of non-sequential writes: throughput over time.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figure 2.
"""

from __future__ import annotations

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes, plain_numbers
from skylight.probe.non_sequential.measure import Seen

BINS = 400


def draw(seen: Seen) -> list[Figure]:
    """The figure; none where nothing was written."""
    if len(seen.log) < 2:
        return []
    end_s = np.concatenate([[0.0], np.cumsum(seen.latency_ns) / 1e9])
    edges = np.linspace(0.0, end_s[-1], BINS + 1)
    done = np.interp(edges, end_s, np.arange(len(end_s)))
    rate = np.diff(done) * seen.size_bytes / (edges[1] - edges[0]) / 1e6
    drawing, axes = new_axes()
    axes.plot(edges[1:] / 60, np.maximum(rate, rate[rate > 0].min(initial=1.0)), linewidth=1.1)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_xlabel("time (min)")
    axes.set_ylabel("throughput (MB/s)")
    spell = seen.spell
    alt = f"Throughput over time, {rate.max():.3g} MB/s at most"
    caption = "Non-sequential writes to some zones without a pause; the scale is logarithmic."
    if spell is not None:
        axes.axvspan(end_s[spell.first] / 60, end_s[spell.end] / 60, color="C3", alpha=0.15)
        alt += f"; slow from minute {end_s[spell.first] / 60:.1f} to {end_s[spell.end] / 60:.1f}"
        caption += " In the shaded stretch the persistent cache is full: writes wait for zones to be cleaned."
    return [Figure("non-sequential", "Sustained non-sequential writes", caption, f"{alt}.", drawing)]
