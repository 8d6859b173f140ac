"""Figures of the cleaning-order test: the parades, and Test 5.

Source: Skylight (FAST '15) Figure 13.
"""

from __future__ import annotations

import numpy as np

from skylight.probe import Figure
from skylight.probe.cleaning_order.measure import MARKS, Parade, Seen, Test5
from skylight.probe.figure_parts import cached_or_cleaned, dashed_line, new_axes
from skylight.units import format_duration


def draw(seen: Seen) -> list[Figure]:
    """The figures of what was seen."""
    figures = []
    if seen.parades:
        figures.append(_parades(seen.parades))
    if seen.test5 is not None and seen.ground is not None:
        figures.append(_test5(seen.test5, seen.ground.rotation_ns, flash=seen.ground.flash))
    return figures


def _parades(parades: list[Parade]) -> Figure:
    drawing, axes = new_axes()
    for row, seen in enumerate(parades):
        number = 1 + np.flatnonzero(seen.told)
        for index, (mark, rows) in enumerate((("o", ~seen.order), ("s", seen.order))):
            label = ("in the cache", "cleaned")[index] if row == 0 else None
            where = np.full(int(np.count_nonzero(rows)), row)
            axes.plot(number[rows], where, mark, color=f"C{index}", label=label)
    axes.set_yticks(range(len(parades)), [f"addresses {seen.name.partition('-')[0]}" for seen in parades])
    axes.set_ylim(-0.7, len(parades) - 0.1)
    axes.set_xlabel("band, in the order written")
    axes.set_xticks(range(5, MARKS + 1, 5))
    axes.legend(loc="upper right", ncols=2)
    caption = (
        "Blocks were written into bands far apart, up the address space and, another time, down it, and the"
        " drive was left alone until about half were clean. First in, first out shows as an unbroken run of"
        " cleaned bands from the left in both rows."
    )
    counts = ", ".join(f"{int(np.count_nonzero(seen.order))} of {len(seen.order)}" for seen in parades)
    alt = f"Two rows of probe blocks, one a band in the order written; cleaned are {counts}."
    return Figure("cleaning-order", "Which bands were cleaned first", caption, alt, drawing)


def _test5(seen: Test5, rotation_ns: float, *, flash: bool) -> Figure:
    drawing, axes = new_axes()
    number = np.arange(1, len(seen.look_ns) + 1)
    cached_or_cleaned(axes, number, seen.look_ns / 1e6, seen.cleaned)
    dashed_line(axes, rotation_ns / 1e6)
    for edge in (seen.linear, seen.linear + seen.scattered):
        axes.axvline(edge + 0.5, color="gray", linewidth=1)
    axes.set_ylim(0, 1.3 * float(np.percentile(seen.look_ns, 99)) / 1e6)
    axes.set_xlabel("block, in the order written")
    axes.set_ylabel("latency of the read across it (ms)")
    axes.legend(loc="upper right", ncols=2)
    right = len(seen.look_ns) - seen.linear - seen.scattered
    caption = (
        f"{seen.linear} blocks of a region of 256 MiB (left), {seen.scattered} all over the drive (middle),"
        f" {right} other blocks of the region (right), then {format_duration(seen.pause_s * 1e9)} of rest,"
        " then each is read together with its neighbours. A cleaned block is read in one revolution (dashed),"
        f" one in the cache {'at once' if flash else 'later'}. If the blocks on the right are clean and some"
        " in the middle are not, cleaning gathers all that the cache holds of a band, and goes by the oldest"
        " block."
    )
    cleaned = int(np.count_nonzero(seen.cleaned))
    alt = f"Scatter of read latency by block in three parts; {cleaned} of {len(seen.cleaned)} were cleaned."
    return Figure("cleaning-test5", "Cleaning by the oldest block", caption, alt, drawing)
