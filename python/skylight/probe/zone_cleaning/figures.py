"""Figures of the test of zone cleaning.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figures 3 and 4.
"""

from __future__ import annotations

from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.probe.zone_cleaning.measure import GROWTH, PLACES, STATES, Seen, update_bytes


def draw(seen: Seen) -> list[Figure]:
    """The figures; none where no trial was seen to its end."""
    if not any(one.zone_ns is not None for one in seen.trials):
        return []
    return [each for each in (_ratios(seen), _count_or_size(seen)) if each is not None]


def _ratios(seen: Seen) -> Figure | None:
    """Mean cleaning time against the update ratio."""
    zones = seen.zones
    if zones is None:
        return None
    drawing, axes = new_axes()
    said = []
    size = update_bytes(zones)
    for state in STATES:
        for number, place in enumerate(PLACES):
            own = sorted(
                (100 * one.ios * one.size_bytes / zones.capacity_bytes, one.zone_ns / 1e9)
                for one in seen.trials
                if (one.state, one.place, one.size_bytes) == (state, place, size) and one.zone_ns is not None
            )
            if not own:
                continue
            at, times = zip(*own, strict=True)
            axes.plot(
                at, times, MARKERS[number] + ("-" if state == "empty" else "--"), color=f"C{number}",
                markerfacecolor="none" if state == "full" else None, label=f"{state}, {place}",
            )  # fmt: skip
            said.append(f"{state}, {place}: {times[0]:.2g} to {times[-1]:.2g} s")
    axes.set_xlabel("update ratio (%)")
    axes.set_ylabel("mean time to clean a zone (s)")
    axes.set_ylim(bottom=0)
    axes.legend()
    caption = (
        "Each point is a trial: zones updated at one place to one ratio, then left alone. In an empty zone"
        " what lies before the data has to be filled, in a full one what lies after it written again."
    )
    return Figure("zone-cleaning", "Time to clean a zone", caption, "; ".join(said), drawing)


def _count_or_size(seen: Seen) -> Figure | None:
    """More writes beside larger ones."""
    own = [one for one in seen.trials if one.state == "empty"][-3:]
    times = [one.zone_ns for one in own]
    if len(own) < 3 or own[1].ios != GROWTH * own[0].ios or None in times:
        return None
    drawing, axes = new_axes()
    labels = [f"{one.ios:,} of\n{one.size_bytes >> 10} KiB" for one in own]
    seconds = [(time or 0.0) / 1e9 for time in times]
    bars = axes.bar(range(3), seconds, color="C0", width=0.55)
    axes.bar_label(bars, [f"{each:.2f}" for each in seconds], padding=2)
    axes.set_xticks(range(3), labels)
    axes.set_ylabel("mean time to clean a zone (s)")
    caption = "The second and the third bar hold the same data, as more writes and as larger ones."
    alt = "; ".join(
        f"{label.replace(chr(10), ' ')}: {each:.2f} s" for label, each in zip(labels, seconds, strict=True)
    )
    return Figure("zone-cleaning-ios", "More writes or larger ones", caption, alt, drawing)
