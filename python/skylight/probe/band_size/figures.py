"""Figures of test 9: which blocks around one were cleaned with it; or where writes stall for cleaning.

The colours, sizes and fonts are the report's defaults in force while these are drawn.

Source: Skylight (FAST '15) Figure 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import F64, Evidence, IoLog
from skylight.findings import Finding
from skylight.probe import Figure
from skylight.probe.band_size.cleaned_or_cached import delays
from skylight.probe.band_size.declared_zones import NAME as DECLARED
from skylight.probe.band_size.journaled import MIB, REACH
from skylight.probe.figure_parts import new_axes, plain_numbers
from skylight.units import format_size

if TYPE_CHECKING:
    pass

SHOWN_PERIODS = 8
SHOWN_ZONES = 1.1  # to each side of the block: its own and a part of the next


def _band(findings: Sequence[Finding], place: str) -> int | None:
    for finding in findings:
        if finding.name == "band_bytes" and isinstance(finding.value, dict):
            size = finding.value.get(place)  # a range of a drive has none of these places
            return None if size is None else int(size)
    return None


def _near(log: IoLog, middle: int, reach: float) -> tuple[F64, F64]:
    """Distance of the blocks from the middle address (MiB), and how much later than its partner each came
    (ms)."""
    offset = log.offset[1::2].astype(np.int64)
    delay = delays(log) / 1e6
    near = np.abs(offset - middle) <= reach
    return (offset[near] - middle) / MIB, delay[near]


def _draw_readout(evidence: Evidence, findings: Sequence[Finding], look: str) -> Figure | None:
    middle, reach = evidence.target.size_bytes // 2 // MIB * MIB, float(REACH)
    if look == DECLARED:  # as many zones before the one in the middle as behind it
        offset = evidence.log(f"{look}-after").offset
        middle = int(np.median(offset)) // MIB * MIB if len(offset) else middle
        reach = max(reach, SHOWN_ZONES * (_band(findings, "md") or 0))
    fresh_at, fresh = _near(evidence.log(f"{look}-fresh"), middle, reach)
    at, after = _near(evidence.log(f"{look}-after"), middle, reach)
    if len(at) == 0 or len(fresh) != len(at):
        return None
    drawing, axes = new_axes()
    axes.plot(fresh_at, fresh, "o", color="gray", markersize=3, fillstyle="none", label="on the fresh drive")
    axes.plot(at, after, "s", color="C0", markersize=2.5, label="after cleaning")
    axes.set_ylim(0, 1.25 * max(2 * float(np.median(fresh)), float(np.percentile(after, 97))))
    axes.set_xlabel("address, from the middle of the drive (MiB)")
    axes.set_ylabel("delay behind the partner block (ms)")
    axes.legend(loc="upper right", markerscale=1.5, handletextpad=0.2)
    size = _band(findings, "md")
    found = f" The band there is {format_size(size)}." if size else ""
    caption = (
        "Each mark is one block, read right behind a partner 64 KiB away that never left its native place."
        " All blocks were written; then the drive cleaned for a while. Where a square lies in its circle the"
        " block is back at its native place; the blocks around zero that are, all together, are one band. The"
        f" others are still in the persistent cache, at any angle.{found}"
    )
    alt = f"Read delay of {len(at)} blocks around the middle address, before writing and after cleaning."
    return Figure("band-size-cleaned", "Blocks cleaned together", caption, alt, drawing)


def _draw_stalls(log: IoLog, findings: Sequence[Finding]) -> Figure | None:
    if len(log) == 0:
        return None
    band = _band(findings, "od")
    written = np.cumsum(log.size.astype(np.int64)) / MIB
    latency = log.latency_ns / 1e6
    drawing, axes = new_axes()
    axes.plot(written, latency, "o", color="C0", markersize=2.5)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_ylabel("latency (ms, logarithmic)")
    axes.set_xlabel("written to one part of the cache (MiB)")
    if band is not None:
        first = written[int(np.argmax(latency))] if len(latency) else 0.0
        axes.set_xlim(max(0.0, first - SHOWN_PERIODS * band / MIB), first + SHOWN_PERIODS * band / MIB)
    found = f": {format_size(band)}" if band else ""
    caption = (
        f"Each mark is one write of {format_size(int(log.size[0]))} near the first address, in the order"
        " issued. The slow ones wait for cleaning, which gives back one band of the cache at a time, so from"
        f" one to the next it is a band{found}."
    )
    alt = f"Latency of {len(log)} writes against bytes written; slow ones come at an even distance."
    return Figure("band-size-stalls", "Stalls for cleaning", caption, alt, drawing)


def draw(evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
    """The figure that the evidence allows."""
    look = next((look for look in ("coarse", DECLARED) if evidence.step(f"{look}-after") is not None), None)
    if look is not None:
        figure = _draw_readout(evidence, findings, look)
    else:
        logs = [step.rows for step in evidence.steps if step.name == "od" or step.name.startswith("od-")]
        figure = _draw_stalls(
            IoLog.joined([log for log in logs if len(log)]) if logs else evidence.log("over"), findings
        )
    return [] if figure is None else [figure]
