"""The figure of the write rates: a mark for each way of writing, on a logarithmic scale.

Source: Skylight (FAST '15) section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.findings import Finding, Known
from skylight.probe import Figure
from skylight.units import format_rate

WAYS = {
    "one_at_a_time": "one at\na time,\ncache off",
    "31_waiting": "31\nwaiting,\ncache off",
    "write_cache_on": "one at\na time,\ncache on",
}
CLIFF = "one at\na time,\npersistent\ncache full"
"""In lines that four of them have room for beside each other on a phone."""


def draw(findings: Sequence[Finding]) -> list[Figure]:
    """The figure, or none where nothing was measured."""
    found = next((one for one in findings if one.name == "random_write_rate"), None)
    if found is None or not isinstance(found.value, dict):
        return []
    rates = [(label, float(found.value[way])) for way, label in WAYS.items() if way in found.value]
    cliff = Known(findings).part("full_cache_rates", "random_per_s")
    if cliff is not None:
        rates.append((CLIFF, cliff))
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing()
    axes = drawing.add_subplot()
    axes.plot(range(len(rates)), [each for _, each in rates], "o", color="C0", markersize=7)
    for number, (_, each) in enumerate(rates):
        words = format_rate(each)
        axes.annotate(words, (number, each), (0, 8), textcoords="offset points", ha="center", va="bottom")
    axes.set_xlim(-0.5, len(rates) - 0.5)
    axes.set_xticks(np.arange(len(rates)), [label for label, _ in rates])
    axes.set_yscale("log")
    axes.set_ylim(min(each for _, each in rates) / 3, max(each for _, each in rates) * 3)
    axes.set_ylabel("random 4 KiB writes a second")
    words = "; ".join(f"{label.replace(chr(10), ' ')}: {format_rate(each)} a second" for label, each in rates)
    caption = (
        "Each mark is a way of writing random 4 KiB blocks over the whole drive; the scale is logarithmic."
        " Where the second and third stand far above the first, the drive packs waiting writes together:"
        " leave its write cache on, or keep its queue full."
        + (" The last is what is left once writes wait for bands to be cleaned." if cliff is not None else "")
    )
    return [Figure("write-rates", "What a queue and the write cache are worth", caption, words, drawing)]
