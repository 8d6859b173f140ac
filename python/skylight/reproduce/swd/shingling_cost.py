"""Rows W3, W4 and W5: the cost of shingling compared with the conventional layer, on one file in one run.

Each round times the conventional layer, the conventional layer again, and the shingled disk, in rotating
order. A figure is the median, over groups of three rounds in which each side came first once, of a ratio
within the group. The difference between the two conventional sides is noise: three standard errors of the
median of their ratio, or its distance from one, whichever is larger; rounds continue until it is one percent,
at most four times over. valgrind counts instructions in user mode, as the difference between a longer and a
shorter run.

Operations are compared by the median of a round, which a busy machine does not shift. The layer batches its
bookkeeping of random writes, which no median shows; for random operations, CPU time is therefore taken for
whole rounds as well, each long enough to contain such a batch, and the additional work is a separate figure,
as a share of the time of an operation. The two are not added, because the work of every operation is in both.

The paper's accesses are those of a hard disk, ours those of a file, tens of microseconds: a cost within the
paper's noise can be visible here, which is the stricter test. A note gives the layer's work as a share of an
access of the paper's kind of disk in model time.

Invariant: noise that hides two percent makes a row of two percent unknown, never a pass; for random
operations the limit is five percent of noise.

Source: UCSC-SSRC-12-05, chapter 5, figures 7 to 10.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skylight.engines.sim import SimEngine
from skylight.evidence import IoBatch, Op
from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.reproduce.drawing import log_axis
from skylight.reproduce.rows import Measured, NotMeasured, Ours
from skylight.reproduce.swd.layer_benchmark import PROFILE, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KIB = 1024
K = 3
SIZE = (60, 120)
"""Operations in a round, and rounds."""
SWEEP = (40, 240)
RANDOM = (2_048, 42)
"""The same for random operations; the layer records lone writes in batches of this size."""
PART = 0.02
"""Allowed additional cost of a sequential or banded workload."""
WIDTHS = (1, 2, 4, 8, 12, 16)
BLOCKS_KIB = (4, 16, 64, 256, 1024)
BANDS = (1, 4, 16, 64, 128)
QUIET, MOST_RUNS = PART / 2, 4
"""A comparison is repeated until its noise is at most `QUIET`, but at most `MOST_RUNS` times."""
SIDES = ("conventional", "again", "shingled")
MOST_NOISE = 0.05
"""Largest noise of random operations that is accepted: with more, any result would pass."""
RANDOM_CHECK = "random {}s, difference by noise"
WORK_CHECK = "random {}s, all the processor's work that is more, by noise"
ACCESSES = 400
"""Random writes on the model of the paper's disk."""
SHORT, LONG = 40_000, 40_000 + 4 * 32_768
"""Operations of the runs; the layer applies sequential writes in batches of 32,768."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Ratio of the shingled disk's time to the conventional layer's, its noise, and the conventional time."""

    ratio: float
    noise: float
    base_ns: float
    direct: bool

    @property
    def more_ns(self) -> float:
        """Additional time of the shingled disk."""
        return (self.ratio - 1) * self.base_ns

    @property
    def text(self) -> str:
        """The cost as text."""
        how = "direct I/O" if self.direct else "through the page cache, the file system has no direct I/O"
        return f"{self.ratio:.4f} of {self.base_ns / 1e3:.1f} us, noise {self.noise:.4f}, {how}"


def _error(ratios: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The standard error of a median, from the median absolute deviation."""
    spread = 1.4826 * float(np.median(np.abs(ratios - np.median(ratios))))
    return 1.2533 * spread / float(np.sqrt(len(ratios)))


def _by_turns(times_ns: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Geometric means over groups of as many rounds as sides, in which each side came first once.

    The first side of a round may be faster or slower than the others; the median of single rounds, two thirds
    of which have another side first, would mistake that for a difference between the sides."""
    whole = len(times_ns) // len(SIDES) * len(SIDES)
    return np.asarray(np.exp(np.log(times_ns[:whole]).reshape(-1, len(SIDES)).mean(axis=1)), np.float64)


def cost(compared: Mapping[str, Any], of: str = "") -> Cost:
    """The cost from a comparison: from the medians of its rounds, or from `processor_` times."""
    base, again, shingled = (_by_turns(np.array(compared[f"{side}_{of}ns"], np.float64)) for side in SIDES)
    # Both conventional sides are equal, so their geometric mean is the base of the comparison.
    both = np.sqrt(base * again)
    same = again / base
    noise = max(3 * _error(same), 3 * _error(shingled / both), abs(float(np.median(same)) - 1))
    return Cost(float(np.median(shingled / both)), noise, float(np.median(base)), bool(compared["direct"]))


def compare(tool: Tool, workload: str, block: int, bands: int, size: tuple[int, int]) -> dict[str, Any]:
    """Compares the disks with k = 3; repeats the operations and rounds of `size` until noise is small."""
    compared = tool.compare(workload, K, block, bands, size)
    for _ in range(MOST_RUNS - 1):
        if cost(compared).noise <= QUIET:
            break
        more = tool.compare(workload, K, block, bands, size)
        for times in (f"{side}_{of}ns" for side in SIDES for of in ("", "processor_")):
            compared[times] += more[times]
    return compared


def _within(one: Cost) -> Ours:
    """The ratio, if the noise does not hide two percent."""
    return one.ratio if one.noise <= PART or one.ratio + one.noise <= 1 + PART else None


def access_ns() -> float:
    """The mean time of a random 4 KiB write, one at a time, on the model of the paper's kind of disk."""
    with contextlib.closing(SimEngine.open(PROFILE)) as engine:
        blocks = engine.describe().size_bytes // (4 * KIB)
        offsets = np.random.default_rng(1).integers(0, blocks, ACCESSES) * (4 * KIB)
        log = engine.run(IoBatch.make(Op.WRITE, offsets, 4 * KIB))
        return float(np.mean(log.latency_ns))


def _random(tool: Tool, workload: str) -> tuple[Cost, Cost]:
    """The cost of random operations: their median time, and the CPU time of all of them."""
    compared = compare(tool, workload, 4 * KIB, 1, RANDOM)
    return cost(compared), cost(compared, "processor_")


def _by_noise(more: float, noise: float) -> Ours:
    """A difference in units of its noise, if the noise is small enough to be meaningful."""
    return abs(more) / noise if noise <= MOST_NOISE else None


def _worked(one: Cost, worked: Cost) -> tuple[float, float]:
    """Additional CPU time per operation, immediate or deferred, as a share of the operation's time; and the
    combined noise of both."""
    noise = float(np.hypot(one.noise, worked.noise * worked.base_ns / one.base_ns))
    return worked.more_ns / one.base_ns, noise


def w3(tool: Tool) -> Measured:
    """Figure 7."""
    figures: dict[str, Ours] = {}
    notes = []
    for workload in ("write-sequential", "read-sequential", "write-random", "read-random"):
        operation, kind = workload.split("-")
        if kind == "sequential":
            one = cost(compare(tool, workload, 4 * KIB, 1, SIZE))
            figures[f"{kind} {operation}s, time of the conventional layer"] = _within(one)
        else:
            one, worked = _random(tool, workload)
            share, noise = _worked(one, worked)
            figures[RANDOM_CHECK.format(operation)] = _by_noise(one.ratio - 1, one.noise)
            figures[WORK_CHECK.format(operation)] = _by_noise(share, noise)
            notes.append(
                f"{kind} {operation}s: {worked.more_ns:+.0f} ns more CPU time per operation, deferred work"
                f" included (noise {worked.noise * worked.base_ns:.0f} ns): {100 * share:+.1f} % of its time,"
                f" {100 * worked.more_ns / access_ns():+.3f} % of an access of {PROFILE} in model time"
            )
        notes.append(f"{kind} {operation}s: {one.text}")
    return Measured(figures, notes=tuple(notes))


def _counted(tool: Tool, workload: str, k: int, operations: int) -> int:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NotMeasured(
            "unknown: counting instructions needs valgrind; install it, for example: apt install valgrind"
        )
    before = [valgrind, "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}"]
    arguments = ["count", str(tool.profile), str(tool.backing), workload, str(k), str(4 * KIB), "1"]
    _, said = tool.run([*arguments, str(operations)], before=before)
    found = re.search(r"I\s+refs:\s+([\d,]+)", said)
    if found is None:
        raise NotMeasured("unknown: valgrind reported no number of instructions")
    return int(found.group(1).replace(",", ""))


def instructions(tool: Tool, workload: str, k: int) -> float:
    """Instructions per operation; k = 0 is the conventional layer."""
    longer, shorter = (_counted(tool, workload, k, count) for count in (LONG, SHORT))
    return (longer - shorter) / (LONG - SHORT)


def _slope(by_width: Mapping[int, float]) -> float:
    """Percent of k = 1 per additional track."""
    widths = np.array(list(by_width), dtype=np.float64)
    counts = np.array(list(by_width.values()))
    return 100 * float(np.polyfit(widths, counts, 1)[0]) / by_width[1]


def w4(tool: Tool) -> Measured:
    """Figure 8."""
    counts = {
        operation: {k: instructions(tool, f"{operation}-sequential", k) for k in WIDTHS}
        for operation in ("write", "read")
    }
    figures: dict[str, Ours] = {
        f"{operation}s, percent a track": _slope(by) for operation, by in counts.items()
    }
    notes = [
        f"{operation}s, instructions in user mode:"
        f" {instructions(tool, f'{operation}-sequential', 0):.0f} conventional, "
        + ", ".join(f"{count:.0f} at k = {k}" for k, count in by.items())
        for operation, by in counts.items()
    ]

    def draw() -> list[Figure]:
        drawing, axes = new_axes()
        for number, (operation, by) in enumerate(counts.items()):
            axes.plot(
                list(by), list(by.values()), f"{MARKERS[number]}-", color=f"C{number}", label=f"{operation}s"
            )
        axes.set_xticks(WIDTHS)
        axes.set_xlabel("tracks under the head, k")
        axes.set_ylabel("instructions per operation")
        axes.set_ylim(0, 1.1 * max(max(by.values()) for by in counts.values()))
        axes.legend()
        alt = "Two nearly level lines: instructions of writes and of reads over 1 to 16 tracks."
        caption = "Sequential operations of 4 KiB, instructions in user mode, the system call not counted."
        return [Figure("w4", "Instructions by head width", caption, alt, drawing)]

    return Measured(figures, draw, tuple(notes))


def _drawn(name: str, title: str, of: str, costs: Mapping[int, Cost]) -> Figure:
    drawing, axes = new_axes()
    at = list(costs)
    ratios = [costs[x].ratio for x in at]
    axes.errorbar(at, ratios, yerr=[costs[x].noise for x in at], fmt=MARKERS[0], color="C0", capsize=3)
    axes.axhline(1.0, color="C1", linewidth=1)
    axes.axhline(1.0 + PART, color="C1", linewidth=1, linestyle="--")
    log_axis(axes, "x", of)
    axes.set_xticks(at, labels=[f"{x:,}" for x in at])
    axes.minorticks_off()
    axes.set_ylabel("time of the conventional layer")
    alt = f"Times between {min(ratios):.3f} and {max(ratios):.3f} of the conventional layer's."
    return Figure(name, title, "Bars show the noise; the dashed line is two percent more.", alt, drawing)


def _worst(costs: Sequence[Cost]) -> Ours:
    """The worst ratio, unless noise hides it."""
    worst = max(costs, key=lambda one: one.ratio)
    return _within(worst)


def w5(tool: Tool) -> Measured:
    """Figures 9 and 10."""
    by_block = {kib: cost(compare(tool, "write-banded", kib * KIB, 16, SWEEP)) for kib in BLOCKS_KIB}
    by_bands = {bands: cost(compare(tool, "write-banded", 32 * KIB, bands, SWEEP)) for bands in BANDS}
    figures: dict[str, Ours] = {
        "16 bands, 4 KiB to 1 MiB, worst time of the conventional layer": _worst(list(by_block.values())),
        "32 KiB, 1 to 128 bands, worst time of the conventional layer": _worst(list(by_bands.values())),
    }
    notes = [f"16 bands, {kib} KiB: {one.text}" for kib, one in by_block.items()]
    notes += [f"{bands} bands, 32 KiB: {one.text}" for bands, one in by_bands.items()]

    def draw() -> list[Figure]:
        return [
            _drawn("w5-blocks", "Banded writes by size, 16 bands", "size (KiB", by_block),
            _drawn("w5-bands", "Banded writes by number of bands, 32 KiB", "bands (number", by_bands),
        ]

    return Measured(figures, draw, tuple(notes))
