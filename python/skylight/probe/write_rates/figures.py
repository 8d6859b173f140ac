"""The figure of the write rates: one bar a way of writing, on a logarithmic scale.

Source: Skylight (FAST '15) section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.findings import Finding
from skylight.probe import Figure

WAYS = {
    "one_at_a_time": "one at a time,\ncache off",
    "31_waiting": "31 waiting,\ncache off",
    "write_cache_on": "one at a time,\ncache on",
}


def draw(findings: Sequence[Finding]) -> list[Figure]:
    """The figure, or none where nothing was measured."""
    found = next((one for one in findings if one.name == "random_write_rate"), None)
    if found is None or not isinstance(found.value, dict):
        return []
    rates = [(label, float(found.value[way])) for way, label in WAYS.items() if way in found.value]
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing()
    axes = drawing.add_subplot()
    bars = axes.bar(range(len(rates)), [each for _, each in rates], color="C0", width=0.55)
    axes.bar_label(bars, [f"{each:,.0f}" for _, each in rates], padding=2)
    axes.set_xticks(np.arange(len(rates)), [label for label, _ in rates])
    axes.set_yscale("log")
    axes.set_ylim(min(each for _, each in rates) / 3, max(each for _, each in rates) * 3)
    axes.set_ylabel("random 4 KiB writes a second")
    words = "; ".join(f"{label.replace(chr(10), ' ')}: {each:,.0f} a second" for label, each in rates)
    caption = (
        "Each bar is a way of writing random 4 KiB blocks over the whole drive; the scale is logarithmic."
        " Where the second and third stand far above the first, the drive packs waiting writes together:"
        " leave its write cache on, or keep its queue full."
    )
    return [Figure("write-rates", "What a queue and the write cache are worth", caption, words, drawing)]
