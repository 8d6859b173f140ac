"""Figure of tests 6 to 8: what writes take as the cache fills, and where cleaning starts.

The colours, sizes and fonts are the report's defaults in force while this is drawn.

Source: Skylight (FAST '15), section 4.6: the start of cleaning shows as a drop of the rate; Table 2 and
Figure 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import Evidence, IoLog
from skylight.findings import Finding
from skylight.infer.stalls import entries
from skylight.probe import Figure
from skylight.probe.durable_writes import settled
from skylight.probe.figure_parts import MARKERS, new_axes, plain_numbers
from skylight.units import format_count, format_size

if TYPE_CHECKING:
    pass

POINTS = 600
FILLS = (("fill", "whole quanta"), ("large", "many quanta"), ("map", "small, waiting together"))


def _joined(evidence: Evidence, name: str) -> IoLog:
    """All of a fill, part after part; not what was done for a known state before them."""
    mine = (f"{name}-usual", f"{name}-lone", f"{name}-0-deep", f"{name}-1-deep")
    parts = [step for step in evidence.steps if step.name.startswith(mine) and "-erase" not in step.name]
    return IoLog.joined([settled(step.rows) for step in parts if len(step.rows)])


def _fill_figure(evidence: Evidence) -> Figure | None:
    drawing, axes = new_axes()
    told = []
    for number, (name, label) in enumerate(FILLS):
        log = _joined(evidence, name)
        if len(log) < 2:
            continue
        done, count = entries(log.complete_ns)
        took = np.diff(done, prepend=np.int64(log.submit_ns[0])) / 1e6
        size = format_size(int(log.size[-1]))
        # An even choice of entries, and all of the last ones, where cleaning starts.
        shown = np.unique(
            np.concatenate([np.linspace(0, len(done) - 1, POINTS), np.arange(len(done))[-40:]]).astype(int)
        )
        axes.plot(
            count[shown],
            took[shown],
            MARKERS[number],
            color=f"C{number}",
            markersize=3,
            label=f"{label} ({size})",
        )
        told.append(f"{format_count(int(count[-1]))} writes of {size}")
    if not told:
        return None
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.set_xlabel("writes done (logarithmic)")
    axes.set_ylabel("from entry to entry (ms, logarithmic)")
    axes.legend(loc="upper left", markerscale=1.5, handletextpad=0.2)
    caption = (
        "Each mark is one entry of the journal: the writes that were answered together, against what it took"
        " after the entry before. Level rows are appended to the cache; where a row jumps up and stays, the"
        " cache or its map is full and the drive cleans before it takes more. Single marks above a row are"
        " merges of the map and slow outliers. Writes of whole quanta run out of slots; small ones that wait"
        " together need few slots and fill the map."
    )
    return Figure(
        "cache-size-fill",
        "Filling the cache",
        caption,
        f"Time an entry takes while filling: {'; '.join(told)}.",
        drawing,
    )


def _rooms_figure(evidence: Evidence) -> Figure | None:
    runs = [step for step in evidence.steps if len(step.rows) > 1]
    logs = [step.rows for step in runs if step.name == "zone" or step.name.startswith("zone-")]
    logs = logs or [step.rows for step in runs if step.name == "over"]
    if not logs:
        return None
    log = IoLog.joined(logs)
    written = np.cumsum(log.size.astype(np.int64)) / (1 << 20)
    drawing, axes = new_axes()
    axes.plot(written, log.latency_ns / 1e6, "o", color="C0", markersize=2.5)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_xlabel("written to one part of the cache (MiB)")
    axes.set_ylabel("latency (ms, logarithmic)")
    caption = (
        "Each mark is one write near the first address, in the order issued. The first high mark is where"
        " this part of the cache, a cache band or a zone, is full; from then on it stalls each time that what"
        " was cleaned is used up. How many such parts there are is asked separately, with writes elsewhere"
        " while this one is full."
    )
    return Figure(
        "cache-size-part",
        "Filling one part of the cache",
        caption,
        f"Latency of {len(log)} writes to one part of the cache.",
        drawing,
    )


def draw(evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
    """The figures that the evidence allows."""
    del findings
    figure = _fill_figure(evidence) or _rooms_figure(evidence)
    return [] if figure is None else [figure]
