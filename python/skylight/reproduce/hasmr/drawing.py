"""The figures of the rows, in the manner of the paper's, with the recordings laid over them.

Colours, sizes and fonts are the report's defaults; markers differ in shape as well as in colour.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figures 1 to 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skylight.evidence import F64, I64
from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes, plain_numbers
from skylight.reproduce.drawing import thinned
from skylight.reproduce.hasmr import real_drive_recordings

KIB = 1 << 10


def box_figure(sweep: Mapping[tuple[str, int], Mapping[int, I64]]) -> list[Figure]:
    """Figure 1: throughput of each write against the number of zones, one drawing a size; the recorded
    medians as markers."""
    return [_boxes(sweep, size) for size in sorted({size for _, size in sweep})]


def _boxes(sweep: Mapping[tuple[str, int], Mapping[int, I64]], size: int) -> Figure:
    drawing, axes = new_axes()
    own = {kind: runs for (kind, each), runs in sweep.items() if each == size}
    for number, (kind, runs) in enumerate(own.items()):
        at = np.array(list(runs)) + (-4 if number == 0 else 4)
        rates = [real_drive_recordings.mbps(size * KIB, latency) for latency in runs.values()]
        axes.boxplot(
            rates, positions=at, widths=6, showfliers=False, manage_ticks=False,
            boxprops={"color": f"C{number}"}, medianprops={"color": f"C{number}"},
            whiskerprops={"color": f"C{number}"}, capprops={"color": f"C{number}"},
        )  # fmt: skip
        axes.plot([], [], color=f"C{number}", label=kind)
    real = real_drive_recordings.bursts("seq_contiguous", size) if real_drive_recordings.there() else {}
    if real:
        medians = [np.median(real_drive_recordings.mbps(size * KIB, run.latency_ns)) for run in real.values()]
        axes.plot(list(real), medians, MARKERS[2], color="C2", label="sequential, the real drive's median")
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_ylabel("throughput of a write (MB/s)")
    axes.set_xlabel("zones")
    axes.legend()
    caption = (
        "Each box holds the middle half of the writes of a burst over that number of zones, the line in it"
        " their median; the scale is logarithmic."
    )
    alt = f"Box plots of throughput against 20 to 200 zones, writes of {size} KiB."
    return Figure(f"open-zones-{size}", f"Writes of {size} KiB over a number of zones", caption, alt, drawing)


def recorded_figure(replays: Mapping[tuple[str, int], Mapping[int, I64]]) -> list[Figure]:
    """Bytes over time and medians of the recorded bursts, ours beside the real drive's."""
    return [_replayed(kind, size, ours) for (kind, size), ours in replays.items()]


def _replayed(kind: str, size: int, ours: Mapping[int, I64]) -> Figure:
    drawing, axes = new_axes()
    real = {count: run.latency_ns for count, run in real_drive_recordings.bursts(kind, size).items()}
    for number, (label, runs) in enumerate((("ours", ours), ("the real drive", real))):
        median = [np.median(real_drive_recordings.mbps(size * KIB, latency)) for latency in runs.values()]
        whole = [size * KIB * len(latency) * 1e3 / latency.sum() for latency in runs.values()]
        axes.plot(list(runs), median, MARKERS[number] + "-", color=f"C{number}", label=f"{label}, median")
        axes.plot(
            list(runs), whole, MARKERS[number] + ":", color=f"C{number}", markerfacecolor="none",
            label=f"{label}, bytes over time",
        )  # fmt: skip
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_ylabel("throughput (MB/s)")
    axes.set_xlabel("zones")
    axes.legend()
    what = f"{kind.removeprefix('seq_')} zones, {size} KiB"
    caption = "The same writes, in the same order, on our drive and on the real one; logarithmic scale."
    return Figure(
        f"recorded-{kind}-{size}", f"The recorded bursts: {what}", caption,
        f"Throughput of ours and of the real drive against zones, {what}.", drawing,
    )  # fmt: skip


Rates = tuple[tuple[F64, F64], Sequence[tuple[float, int]]]
"""Throughput (MB/s) at times (s), and the number of non-sequential zones at times (s)."""


def course_figure(courses: Mapping[int, Rates]) -> list[Figure]:
    """Figure 2: throughput over time, and the number of non-sequential zones."""
    figures = []
    for what, unit in (("throughput", "throughput (MB/s)"), ("zones", "non-sequential zones")):
        drawing, axes = new_axes()
        for number, (count, ((at_s, rate), watched)) in enumerate(courses.items()):
            if what == "throughput":
                axes.plot(at_s / 60, rate, color=f"C{number}", linewidth=0.9, label=f"{count} zones")
            else:
                at, seen = zip(*watched, strict=True)
                axes.plot(np.array(at) / 60, seen, color=f"C{number}", label=f"{count} zones")
        if what == "throughput":
            axes.set_yscale("log")
            plain_numbers(axes.yaxis)
        axes.set_ylabel(unit)
        axes.set_xlabel("time (min)")
        axes.legend()
        figures.append(
            Figure(
                f"sustained-{what}",
                f"Sustained non-sequential writes of 256 KiB: {what}",
                "A stretch near the bottom is blocking cleaning, one zone for about every write."
                if what == "throughput"
                else "Zones with non-sequential data in the persistent cache.",
                f"{unit} over two hours, writes to 128 and to 256 zones.",
                drawing,
            )
        )
    return figures


def writes_figure(runs: Mapping[str, tuple[I64, I64]], name: str) -> list[Figure]:
    """Latency of recorded writes, ours laid over the real drive's."""
    figures = []
    for label, (ours_ns, real_ns) in runs.items():
        drawing, axes = new_axes()
        for number, (who, latency) in enumerate((("the real drive", real_ns), ("ours", ours_ns))):
            done = np.cumsum(latency) / 60e9
            at, _ = thinned(len(done))
            axes.plot(done[at], at, color=f"C{1 - number}", linestyle=("--", "-")[number], label=who)
        axes.set_xlabel("time (min)")
        axes.set_ylabel("writes done")
        axes.legend()
        caption = "Writes done over time: the line is level where the drive blocks."
        figures.append(
            Figure(
                f"{name}-{label.replace(' ', '-')}",
                f"The recorded writes to {label}",
                caption,
                f"Writes done over time to {label}, ours and the real drive's.",
                drawing,
            )
        )
    return figures


def cleaning_figure(
    times: Mapping[tuple[str, str], Sequence[float]], ratios: Sequence[float]
) -> list[Figure]:
    """Figure 3: mean cleaning time against the update ratio."""
    drawing, axes = new_axes()
    for number, ((state, place), row) in enumerate(times.items()):
        axes.plot(
            np.array(ratios) * 100, row, MARKERS[number % 4] + ("-" if state == "empty" else "--"),
            color=f"C{number % 4}", label=f"{state}, {place}",
            markerfacecolor="none" if state == "full" else None,
        )  # fmt: skip
    axes.set_xlabel("update ratio (%)")
    axes.set_ylabel("mean time to clean a zone (s)")
    axes.set_ylim(bottom=0)
    axes.legend()
    caption = (
        "In an empty zone what lies before the last update has to be filled; in a full one what lies after"
        " the first has to be written again."
    )
    return [
        Figure(
            "cleaning-time",
            "Time to clean a zone",
            caption,
            "Lines of the mean cleaning time against the update ratio, by offset and initial state.",
            drawing,
        )
    ]


def ionum_figure(more: Sequence[float], larger: Sequence[float], growth: Sequence[int]) -> list[Figure]:
    """Figure 4: more I/Os beside larger ones."""
    drawing, axes = new_axes()
    at = np.arange(len(growth))
    for number, (label, row) in enumerate((("larger I/Os", larger), ("more I/Os", more))):
        axes.bar(at + (number - 0.5) * 0.36, row, width=0.34, color=f"C{number}", label=label)
    axes.set_xticks(at, [f"{factor} x" for factor in growth])
    axes.set_xlabel("data of 800 writes of 32 KiB")
    axes.set_ylabel("mean time to clean a zone (s)")
    axes.legend()
    caption = "Each pair holds the same data, written as larger I/Os and as more of them."
    alt = "Bars: " + "; ".join(
        f"{factor} times: {one:.1f} and {two:.1f} s"
        for factor, one, two in zip(growth, larger, more, strict=True)
    )
    return [Figure("ionum", "I/O count against I/O size", caption, alt, drawing)]


def buffer_figure(shares: Mapping[int, tuple[float, float]]) -> list[Figure]:
    """Figure 6: time of writes and of migration with a buffer, by I/O size (KiB), over that of direct
    writes."""
    drawing, axes = new_axes()
    at = np.arange(len(shares))
    write, migration = (np.array(part) * 100 for part in zip(*shares.values(), strict=True))
    axes.bar(at, write, width=0.6, color="C0", label="writes to the buffer")
    axes.bar(at, migration, width=0.6, bottom=write, color="C1", hatch="//", label="migration")
    axes.axhline(100, color="C5", linestyle="--", linewidth=1, label="direct writes")
    axes.set_xticks(at, [f"{size}" for size in shares])
    axes.set_xlabel("I/O size (KiB)")
    axes.set_ylabel("time (% of direct writes)")
    axes.set_ylim(0, 1.35 * max(100.0, float((write + migration).max())))
    axes.legend()
    caption = (
        "200 sequential streams in turn: what logging them and moving them home afterwards takes of the time"
        " of direct writes."
    )
    alt = "Stacked bars: " + "; ".join(
        f"{size} KiB: {one:.1f} % and {two:.1f} %"
        for size, one, two in zip(shares, write, migration, strict=True)
    )
    return [Figure("h-buffer", "Many streams through a buffer of the host", caption, alt, drawing)]


def count_figure(at_s: F64, count: I64, ours: Sequence[tuple[float, int]]) -> list[Figure]:
    """The number of non-sequential zones of an idle drive."""
    drawing, axes = new_axes()
    axes.plot(at_s, count, color="C1", linestyle="--", label="the real drive")
    at, seen = zip(*ours, strict=True)
    axes.plot(at, seen, color="C0", label="ours")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("non-sequential zones")
    axes.set_ylim(bottom=0)
    axes.legend()
    caption = "Zones that still have data in the persistent cache while nothing is asked of the drive."
    return [Figure("idle-count", "Idle cleaning", caption, "Two falling lines.", drawing)]
