"""Figures of test `journal`: lone writes in order, time against size alone and in company, blocks read back.

Colours, sizes and fonts are the report's; marks differ in shape as well as in colour.

Source: Skylight (FAST '15) Figures 5, 6 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import I64, Evidence
from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.probe.journal.map_merges import Merges
from skylight.probe.journal.verdict import Seen
from skylight.units import format_duration, format_size

if TYPE_CHECKING:
    pass

KIB = 1024.0


def draw(seen: Seen, evidence: Evidence) -> list[Figure]:
    """The figures that the evidence allows."""
    if not seen.footprints.runs:
        return []
    figures = [_sizes(seen)]
    if seen.ladder:
        figures.append(_ladder(seen))
    if seen.merges is not None and seen.merges.writes:
        figures.append(_in_order(seen.merges))
    back = [(name, evidence.log(f"{name}-read").latency_ns) for name in ("alone", "together")]
    if all(len(latency_ns) for _, latency_ns in back):
        figures.append(_read_back(dict(back)))
    return figures


def _sizes(seen: Seen) -> Figure:
    drawing, axes = new_axes()
    sizes = sorted(seen.footprints.runs)
    middle = [
        float(np.median(np.concatenate([run.latency_ns[2:] for run in seen.footprints.runs[size]]))) / 1e6
        for size in sizes
    ]
    axes.plot(np.array(sizes) / KIB, middle, "o", color="C0")
    axes.set_xscale("log", base=2)
    ticks = [4**power for power in range(1, 9) if sizes[0] / KIB <= 4**power <= 2 * sizes[-1] / KIB]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("size of a lone write (KiB, logarithmic)")
    axes.set_ylabel("latency, median (ms)")
    axes.set_ylim(0, 1.15 * max(middle))
    words = "no first step stands out"
    if seen.quantum is not None:
        words = f"the first step is behind {format_size(seen.quantum.low)}, the quantum"
        axes.axvline(seen.quantum.low / KIB, color="C5", linestyle="--", linewidth=1)
        axes.annotate(
            f"quantum, {format_size(seen.quantum.low)}", (seen.quantum.low / KIB, 0), xytext=(4, 6),
            textcoords="offset points",
        )  # fmt: skip
    caption = (
        "Each mark is the median latency of writes of one size, one at a time. A journal of quanta shows a"
        f" flat line and then steps; a plain log climbs with every block. Here {words}."
    )
    return Figure("journal-sizes", "Latency of lone writes against their size", caption, f"{words}.", drawing)


def _ladder(seen: Seen) -> Figure:
    drawing, axes = new_axes()
    sizes = np.array([size for size, _ in seen.ladder]) / KIB
    spread = np.array([np.percentile(latency_ns, [10, 50, 90]) for _, latency_ns in seen.ladder]) / 1e6
    axes.vlines(sizes, spread[:, 0], spread[:, 2], color="C5", linewidth=1)
    axes.plot(sizes, spread[:, 1], "s", color="C1")
    axes.set_ylim(0, 1.15 * float(spread[:, 2].max()))
    axes.set_xlabel("size of a write (KiB)")
    axes.set_ylabel("latency (ms)")
    caption = (
        "Writes that all wait at once (31 of them), against their size; marks are medians, bars hold the"
        " middle 80 %. All go into one entry of the journal, so latency rises by a quantum each time that 31"
        " writes no longer fit into the quanta before, and scatters once they no longer fit into one entry."
    )
    alt = f"Latency at queue depth 31 from {sizes[0]:.0f} to {sizes[-1]:.0f} KiB."
    return Figure("journal-queue", "Latency of waiting writes against their size", caption, alt, drawing)


def _in_order(merges: Merges) -> Figure:
    drawing, axes = new_axes()
    latency_ms = merges.latency_ns / 1e6
    numbers = np.arange(1, len(latency_ms) + 1)
    axes.plot(numbers, latency_ms, "o", color="C0", markersize=2, label="lone write")
    words = "no period stands out"
    if merges.period is not None:
        places = merges.period.places(len(latency_ms))
        axes.plot(places + 1, latency_ms[places], "^", color="C1", markersize=5, label="with a map merge")
        words = f"every {merges.period.every:,}th carries a map merge"
        axes.legend(loc="upper right")
    if float(latency_ms.max()) > 30 * float(np.median(latency_ms)):
        axes.set_yscale("log")
        axes.set_ylabel("latency (ms, logarithmic)")
    else:
        axes.set_ylim(0, 1.1 * float(latency_ms.max()))
        axes.set_ylabel("latency (ms)")
    axes.set_xlabel("write, in the order issued")
    caption = (
        "Each mark is one 4 KiB write, one at a time. In the flat line each is one entry of the"
        " journal; stalls at even distances are merges of its map, for which the head moves to where the map"
        f" is stored. Here {words}."
    )
    return Figure(
        "journal-merges", "Lone writes in order", caption, f"Latency of writes in order; {words}.", drawing
    )


def _read_back(back: dict[str, I64]) -> Figure:
    drawing, axes = new_axes()
    labels = {"alone": "written one at a time", "together": "written all waiting"}
    middle = {}
    for mark, (name, latency_ns) in zip("os", back.items(), strict=True):
        colour = "C0" if name == "alone" else "C1"
        axes.plot(np.arange(1, len(latency_ns) + 1), latency_ns / 1e6, mark, color=colour, label=labels[name])
        middle[name] = format_duration(int(np.median(latency_ns[1:])))
    axes.set_ylim(0, 1.2 * max(float(np.percentile(values, 95)) for values in back.values()) / 1e6)
    axes.set_xlabel("block, in the order written")
    axes.set_ylabel("latency of reading it back (ms)")
    axes.legend(loc="upper right")
    caption = (
        "Blocks read back at once in the order written. Blocks of different entries lie an entry apart, so"
        f" the head waits that part of a revolution ({middle['alone']}); blocks of one entry lie next to each"
        f" other, so each is just missed and a whole revolution is lost ({middle['together']})."
    )
    alt = f"Read-back latency: {middle['alone']} after lone writes, {middle['together']} after waiting ones."
    return Figure("journal-read-back", "Blocks read back in the order written", caption, alt, drawing)
