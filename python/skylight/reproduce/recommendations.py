"""Rows S13 and S14: the paper's recommendations, compared with the conventional drive of the same mechanics.

Source: Skylight (FAST '15), section 6.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.report.what_to_expect import limits
from skylight.reproduce.emulated_drives import BLOCK, GIB, KIB, Bench, Lab, took_ms
from skylight.reproduce.rows import Measured, Ours

DEEP = 31
LEAST_STREAM = 64 * KIB


def _bars(name: str, title: str, rates: Mapping[str, float], unit: str, caption: str) -> Figure:
    drawing, axes = new_axes()
    at = np.arange(len(rates))
    for place, (label, rate) in enumerate(rates.items()):
        axes.barh(place, rate, height=0.6, color=f"C{0 if 'st4000' in label else 1}")
        axes.annotate(f"{rate:,.0f}", (rate, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(at, list(rates))
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.set_xlim(0, 1.2 * max(rates.values()))
    axes.set_xlabel(unit)
    axes.grid(False, axis="y")
    alt = "; ".join(f"{label}: {rate:,.0f} {unit}" for label, rate in rates.items())
    return Figure(name, title, caption, alt, drawing)


def s13(lab: Lab) -> Measured:
    """Random writes with a deep queue or the volatile cache, until the persistent cache is full."""
    conventional = Bench("cmr")
    log = conventional.writes(lab.offsets("S13", 4_000, conventional.size))
    rates = {"st4000nc001,\none at a time": 4_000 / (took_ms(log) / 1e3)}
    variants = {
        "depth 31 over st4000nc001 at depth 1": ("st5000as0011,\ndepth 31", DEEP, False),
        "volatile cache on over st4000nc001 at depth 1": ("st5000as0011,\nvolatile cache", 1, True),
    }
    figures: dict[str, Ours] = {}
    base = rates["st4000nc001,\none at a time"]
    for check, (label, depth, write_cache) in variants.items():
        filling = lab.filling("st5000", BLOCK, depth, write_cache=write_cache)
        if filling is not None and filling.seconds > 0:
            rates[label] = filling.count / filling.seconds
            figures[check] = rates[label] / base
    stated = dict(limits(lab.known("st5000")))
    figures["burst that the report states"] = "stated" if stated.get("Before the cliff") else None
    figures["idle time that the report states"] = "stated" if stated.get("To recover") else None
    caption = "Random 4 KiB writes per second, until the persistent cache is full."
    title = "Random writes compared with a conventional drive (section 6)"
    notes = tuple(f"from the report: {words}" for words in stated.values())
    return Measured(figures, lambda: [_bars("random-rates", title, rates, "writes/s", caption)], notes)


def _stream(drive: str, size: int, depth: int, *, write_cache: bool = False) -> float:
    """MB/s of sequential writes from the first address, until all data is on the media."""
    bench = Bench(drive, write_cache=write_cache)
    total = GIB // 8 if size < LEAST_STREAM else 4 * GIB
    begin = bench.now_ns
    bench.writes(np.arange(total // size) * size, size, depth)
    bench.flush()
    return total / ((bench.now_ns - begin) / 1e3)


def s14(lab: Lab) -> Measured:
    """ "Sequential throughput (with the volatile cache disabled) is much lower (by 3x or more, depending on
    write size) than for conventional drives". The conventional drive is measured at the depth at which it
    streams, because one write at a time it misses a revolution per write, and 2.5 revolutions are never 3
    times that."""
    del lab
    sizes = (4, 16, 64, 256, 1024)
    conventional = {kib: _stream("cmr", kib * KIB, DEEP) for kib in sizes}
    off = {kib: _stream("st5000", kib * KIB, DEEP) for kib in sizes}
    on = {kib: _stream("st5000", kib * KIB, 1, write_cache=True) for kib in (64, 256, 1024)}
    names = {64: "64 KiB", 256: "256 KiB", 1024: "1 MiB"}
    figures: dict[str, Ours] = {
        f"cache off, {kib} KiB, st4000nc001 over ours": conventional[kib] / off[kib] for kib in (4, 16, 64)
    }
    for kib, rate in on.items():
        figures[f"cache on, {names[kib]}, ours over st4000nc001"] = rate / conventional[kib]
    lone = _stream("cmr", BLOCK, 1) / _stream("st5000", BLOCK, 1)
    notes = [f"cache off, 4 KiB one at a time, st4000nc001 over ours: {lone:.2f}, no band"]
    notes += [
        f"cache off, {kib} KiB, st4000nc001 over ours: {conventional[kib] / off[kib]:.2f}, no band"
        for kib in (256, 1024)
    ]

    def draw() -> list[Figure]:
        drawing, axes = new_axes()
        series = (
            ("st4000nc001, depth 31", conventional, "o-"),
            ("ours, cache off, depth 31", off, "s--"),
            ("ours, cache on, one at a time", on, "^:"),
        )
        for number, (label, rates, style) in enumerate(series):
            axes.plot(list(rates), list(rates.values()), style, color=f"C{number}", label=label, markersize=5)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [f"{kib} KiB" if kib < 1024 else "1 MiB" for kib in sizes])
        axes.set_xlabel("write size")
        axes.set_ylabel("MB/s")
        axes.set_ylim(0, 1.2 * max(conventional.values()))
        axes.legend()
        caption = (
            "Sequential writes from the first address. Without the volatile cache every write passes"
            " through the journal; with it the drive gathers whole bands and writes them in place."
        )
        title = "Sequential writes, st5000as0011 and st4000nc001 (section 6)"
        return [Figure("streams", title, caption, "Throughput over write size.", drawing)]

    return Measured(figures, draw, tuple(notes))
