"""Figures of the cleaning test: when cleaning begins, which blocks were cleaned, which writes wait for it.

Marks differ in shape as well as in colour; colours, sizes and fonts are the report's defaults.

Source: Skylight (FAST '15) Figure 11 (when cleaning begins) and Figure 12 (reads after a pause).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import Evidence
from skylight.infer import cached_or_native
from skylight.probe import Figure
from skylight.probe.cleaning import band_time, set_associative, trials
from skylight.probe.figure_parts import cached_or_cleaned, dashed_line, new_axes, plain_numbers
from skylight.units import format_duration, format_size

if TYPE_CHECKING:
    from skylight.probe.cleaning.trials import Trial
    from skylight.probe.cleaning.verdict import Seen


def draw(seen: Seen, evidence: Evidence) -> list[Figure]:
    """The figures of what was seen; `evidence` has the latencies."""
    ground = seen.ground
    if ground is None or not seen.trials:
        return []
    figures = [_start(seen.trials)]
    told = band_time.best(seen.rounds)
    if told is not None:
        figures.append(_bands(evidence, told, ground))
    if seen.cache_bands.stalls:
        figures.append(_stalls(seen.cache_bands, evidence))
    return figures


def _start(seen: list[Trial]) -> Figure:
    drawing, axes = new_axes()
    groups = (
        ("nothing cleaned", "o", [t for t in seen if not t.begun]),
        ("read had to wait", "^", [t for t in seen if t.late and not t.cleaned]),
        ("block was cleaned", "s", [t for t in seen if t.cleaned]),
    )
    for number, (label, mark, group) in enumerate(groups):
        if group:
            at = [t.pause_s for t in group]
            axes.plot(at, [t.anchor_ns / 1e6 for t in group], mark, color=f"C{number}", label=label)
    low_s, high_s = trials.bracket(seen)
    if math.isfinite(high_s):
        axes.axvline(math.sqrt(max(low_s, 1e-3) * high_s), color="C5", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.set_xlabel("idle time before the read (s, logarithmic)")
    axes.set_ylabel("latency of the read (ms, logarithmic)")
    axes.legend(loc="upper left")
    words = (
        f"The dashed line is where cleaning begins: not before {format_duration(low_s * 1e9)}, and by"
        f" {format_duration(high_s * 1e9)}."
        if math.isfinite(high_s)
        else f"Nothing was cleaned in up to {format_duration(max(t.pause_s for t in seen) * 1e9)}."
    )
    caption = (
        "Each mark is one trial: a few blocks are written, the drive is left alone for the time on the"
        " horizontal axis, and a block elsewhere is read. While the drive cleans, that read waits for the"
        f" step in progress to end. {words}"
    )
    alt = f"Scatter of read latency against idle time in {len(seen)} trials. {words}"
    return Figure("cleaning-start", "When cleaning begins", caption, alt, drawing)


def _bands(evidence: Evidence, told: band_time.Round, ground: trials.Ground) -> Figure:
    drawing, axes = new_axes()
    log = evidence.log(f"{told.name}-look")
    look_ns = log.latency_ns[2::2]  # the first row is the read that may wait, then approach and look in turn
    rotation_ns, flash = ground.rotation_ns, ground.flash
    home = cached_or_native.at_home(look_ns, rotation_ns, flash=flash, limit_ns=ground.limit_ns)
    number = np.arange(1, len(look_ns) + 1)
    cached_or_cleaned(axes, number, look_ns / 1e6, home)
    dashed_line(axes, rotation_ns / 1e6)
    axes.set_xlabel("block, in the order written")
    axes.set_ylabel("latency of the read across it (ms)")
    axes.set_ylim(0, 1.25 * float(np.percentile(look_ns, 99)) / 1e6)
    axes.legend(loc="upper right", ncols=2)
    caption = (
        f"Single blocks in {len(home)} bands were written, the drive was left alone for"
        f" {format_duration(told.pause_s * 1e9)}, and each block was read together with its neighbours. A"
        " block at its own place is read in one revolution (dashed), one in the cache"
        f" {'at once' if flash else 'later'}. {told.count} were cleaned in"
        f" {format_duration(told.work_s * 1e9)} after cleaning began."
    )
    alt = f"Scatter of read latency by block; {told.count} of {len(home)} blocks were cleaned."
    return Figure("cleaning-bands", "Blocks cleaned after a pause", caption, alt, drawing)


def _stalls(seen: set_associative.Seen, evidence: Evidence) -> Figure:
    drawing, axes = new_axes()
    steps = (
        (set_associative.OVER_LARGE, set_associative.LARGE, "o"),
        (set_associative.OVER_SMALL, set_associative.SMALL, "s"),
    )
    for index, (name, size, mark) in enumerate(steps):
        latency_ns = trials.writes_ns(evidence.log(name))
        written = (1 + np.arange(len(latency_ns))) * size / trials.MIB
        label = f"writes of {format_size(size)}"
        axes.plot(written, latency_ns / 1e6, mark, color=f"C{index}", markersize=3, label=label)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_xlabel("written to one place (MiB)")
    axes.set_ylabel("latency (ms, logarithmic)")
    axes.legend(loc="center right")
    every = format_size((0 if seen.large is None else seen.large.period) * set_associative.LARGE)
    caption = (
        "Writes over and over in one place fill one cache band; the write that finds it full waits until"
        f" it is cleaned. That happens every {every} whatever the size of the writes, so it is a size of the"
        " drive and not a number of writes."
    )
    alt = f"Scatter of write latency against data written; the slow writes are {every} apart."
    return Figure("cleaning-stalls", "Writes that wait for cleaning", caption, alt, drawing)
