"""Figures of test `cache_location`: fragmented reads of three regions, and the arm's way over the addresses.

Colours, sizes and fonts are the report's; marks differ in shape as well as in colour.

Source: Skylight (FAST '15) Figure 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.findings import Finding
from skylight.probe import Figure
from skylight.probe.cache_location.verdict import Seen, typical
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.units import format_duration

if TYPE_CHECKING:
    pass

_PLACE_WORDS = {"od": "the OD", "md": "the MD", "id": "the ID", "many": "many places", "none": "no such way"}


def draw(seen: Seen, findings: Sequence[Finding]) -> list[Figure]:
    """The figures that the evidence allows."""
    figures = [_fragmented(seen)] if seen.fragmented else []
    if seen.profile and "low-low" in seen.cached and "low-high" in seen.cached:
        figures.append(_profile(seen, findings))
    return figures


def _fragmented(seen: Seen) -> Figure:
    drawing, axes = new_axes()
    means = []
    for number, (region, latency_ns) in enumerate(seen.fragmented.items()):
        at = np.arange(1, len(latency_ns) + 1)
        label = f"{region} addresses, mean {format_duration(int(latency_ns.mean()))}"
        axes.plot(at, latency_ns / 1e6, MARKERS[number], color=f"C{number}", markersize=3, label=label)
        means.append(label)
    every = np.concatenate(list(seen.fragmented.values()))
    axes.set_ylim(0, 1.3 * float(np.percentile(every, 99)) / 1e6)
    axes.set_xlabel("read, in the order of the addresses")
    axes.set_ylabel("latency (ms)")
    axes.legend(loc="upper right")
    caption = (
        "Every other block of a small region was rewritten and lies in the persistent cache; the region is"
        " read in order, so the head goes to the cache and back with every read. The farther the region from"
        " the cache, the higher its marks; all alike where there are many caches, near zero for every other"
        " read where the cache is flash."
    )
    return Figure("cache-location-reads", "Fragmented reads", caption, "; ".join(means) + ".", drawing)


def _profile(seen: Seen, findings: Sequence[Finding]) -> Figure:
    drawing, axes = new_axes()
    shares = np.array(sorted(seen.profile))
    ways = np.array([typical(seen.profile[share]) for share in shares]) / 1e6
    axes.plot(100 * shares, ways, "o-", color="C0", label="cached and native blocks alternately")
    near, far = (typical(seen.cached[pair]) / 1e6 for pair in ("low-low", "low-high"))
    axes.axhline(near, color="C5", linestyle="--", linewidth=1, label="cached blocks of near addresses")
    axes.axhline(far, color="C1", linestyle=":", linewidth=1.4, label="cached blocks of far addresses")
    axes.set_ylim(0, 1.2 * max(float(ways.max()), far))
    axes.set_xlabel("address of the native block (% of the drive)")
    axes.set_ylabel("latency, trimmed mean (ms)")
    axes.legend(loc="lower right")
    verdict = next((str(item.value) for item in findings if item.name == "cache_location"), "unknown")
    caption = (
        "Arm time between the cache and native data, and half a revolution of wait. A line that rises with"
        " the address shows a cache at the OD, one that falls at the ID, a valley in the middle."
        " Where cached blocks of far addresses lie as far apart as those addresses, there are many caches."
        f" Verdict: {_PLACE_WORDS.get(verdict, verdict)}."
    )
    alt = f"From {ways[0]:.1f} ms at the first addresses to {ways[-1]:.1f} ms at the last; verdict {verdict}."
    return Figure("cache-location-profile", "Distance of the cache", caption, alt, drawing)
