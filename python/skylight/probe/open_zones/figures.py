"""Figure of the test of open zones: throughput of writes against the number of zones.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figure 1.
"""

from __future__ import annotations

from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes, plain_numbers
from skylight.probe.open_zones.measure import Burst, Seen
from skylight.units import format_counted

_EDGE = (
    "Each point is a burst of writes, one to each zone in turn. Where a line falls off a cliff, the drive"
    " cannot keep one zone more open, and writes metadata for every zone that it opens instead."
    " Write to fewer zones at a time."
)
_LIMIT = (
    "Each point is a burst of writes, one to each zone in turn. The drive refuses a command to open more"
    " zones than the dashed line says; a write beyond that opens its zone, and the drive closes another for"
    " it. Where a line goes on level, that costs nothing."
)


def _throughput(bursts: list[Burst]) -> tuple[list[int], list[float]]:
    """Numbers of zones, and bytes over time with each, MB/s, of bursts that got beyond their first round."""
    whole = [one for one in bursts if len(one.latency_ns) > one.zones]
    by_zones = {one.zones: one.size_bytes * 1e3 / one.mean_ns for one in whole}
    counts = sorted(by_zones)
    return counts, [by_zones[count] for count in counts]


def draw(seen: Seen, edge: float | None) -> list[Figure]:
    """The figure, with the edge or the limit where that was found; none where nothing was written."""
    if not seen.final:
        return []
    drawing, axes = new_axes()
    said = []
    for number, (kind, size) in enumerate(dict.fromkeys((one.kind, one.size_bytes) for one in seen.final)):
        own = [one for one in seen.final if (one.kind, one.size_bytes) == (kind, size)]
        if kind == "sequential" and size == seen.search[0].tried.size_bytes:
            own += [one.tried for one in seen.search if one.tried.flush_every is None]
        counts, rates = _throughput(own)
        if not counts:
            continue
        label = f"{kind.replace('_', '-')}, {size >> 10} KiB"
        axes.plot(counts, rates, MARKERS[number] + "-", color=f"C{number}", label=label)
        said.append(f"{label}: {rates[0]:.3g} to {rates[-1]:.3g} MB/s")
    if edge is not None:
        label = f"{format_counted(round(edge), 'zone')} {'may be open' if seen.refused else 'at full speed'}"
        axes.axvline(edge, color="C5", linestyle="--", linewidth=1, label=label)
        said.append(label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.set_xlabel("zones written in turn")
    axes.set_ylabel("throughput (MB/s)")
    axes.legend()
    caption = _LIMIT if seen.refused else _EDGE
    return [Figure("open-zones", "Writes over a number of zones", caption, "; ".join(said), drawing)]
