"""Rows S6a to S8b and S16: how much a drive accepts before it has to clean.

Source: Skylight (FAST '15), section 4.6, Table 2 and footnote 2.
"""

from __future__ import annotations

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import MARKERS, new_axes
from skylight.reproduce.drawing import latencies
from skylight.reproduce.emulated_drives import BLOCK, GIB, KIB, Filling, Lab
from skylight.reproduce.rows import Measured, Ours

TABLE_2 = {(4, 1): 22_800, (4, 31): 182_270, (64, 31): 182_231, (128, 31): 137_496, (256, 31): 67_830}
"""Number of writes by size (KiB) and depth until cleaning starts, as printed."""
SIZES = (4, 64, 128, 256)


def _count(filling: Filling | None) -> float | None:
    return None if filling is None else float(filling.count)


def s6a(lab: Lab) -> Measured:
    """Test 6: lone writes fill the slots of the journal."""
    filling = lab.filling("st5000", BLOCK, 1)
    if filling is None:
        return Measured({}, notes=("no write waited for cleaning",))
    figures: dict[str, Ours] = {
        "writes of 4 KiB at depth 1": float(filling.count),
        "media bytes of them, GiB": filling.media_bytes / GIB,
    }

    def draw() -> list[Figure]:
        caption = (
            "The last writes before cleaning starts, and the one that waits for it. Every 240th merges the"
            f" cache map. {filling.count:,} writes came before the last."
        )
        sets = {"a write": filling.last_ms}
        title = "The last random writes before the cache is full, st5000as0011"
        of = f"write, the last {len(filling.last_ms)}"
        return [latencies("cliff", title, sets, of, caption, log=True)]

    return Measured(figures, draw)


def s7a(lab: Lab) -> Measured:
    """Test 7: small writes in a deep queue fill the map."""
    figures: dict[str, Ours] = {
        f"writes of {kib} KiB at depth 31": _count(lab.filling("st5000", kib * KIB, 31)) for kib in (4, 64)
    }
    return Measured(figures | {"verdict, map entries": lab.known("st5000").number("cache_map_entries")})


def _table_2(lab: Lab) -> Figure:
    drawing, axes = new_axes()
    ours = {key: _count(lab.filling("st5000", key[0] * KIB, key[1])) for key in TABLE_2}
    keys = list(TABLE_2)
    at = np.arange(len(keys))
    axes.plot(at, [TABLE_2[key] for key in keys], MARKERS[1], color="C1", markersize=8, label="paper",
              markerfacecolor="none")  # fmt: skip
    axes.plot(at, [ours[key] or np.nan for key in keys], MARKERS[0], color="C0", markersize=4, label="ours")
    axes.set_xticks(at, [f"{kib} KiB\ndepth {depth}" for kib, depth in keys])
    axes.set_xlim(-0.5, len(keys) - 0.5)
    axes.set_ylim(0, 210_000)
    axes.set_yticks(range(0, 200_001, 50_000), [f"{count:,}" for count in range(0, 200_001, 50_000)])
    axes.set_ylabel("writes until cleaning starts")
    axes.legend()
    caption = (
        "Lone writes fill the slots of the journal, small writes in a deep queue its map, large ones the"
        " cache. A dot inside its square agrees with the paper."
    )
    alt = "; ".join(f"{kib} KiB at depth {depth}: {ours[kib, depth]}" for kib, depth in keys)
    return Figure("table-2", "Writes until cleaning starts, st5000as0011 (Table 2)", caption, alt, drawing)


def s8a(lab: Lab) -> Measured:
    """Test 8: large writes in a deep queue fill the cache."""
    size = lab.known("st5000").number("cache_bytes")
    figures: dict[str, Ours] = {
        f"writes of {kib} KiB at depth 31": _count(lab.filling("st5000", kib * KIB, 31)) for kib in (128, 256)
    }
    figures["verdict, GiB"] = None if size is None else size / GIB
    return Measured(figures, lambda: [_table_2(lab)])


def s8b(lab: Lab) -> Measured:
    """ "Running test 6 on emulated drives produces all three answers" (section 4.6)."""
    figures: dict[str, Ours] = {}
    notes = []
    for drive, gib in (("em-1", 37.2), ("em-2", 9.98), ("em-3", 37.2)):
        filling = lab.filling(drive, BLOCK, 1)
        figures[f"{drive}, share of {gib} GiB"] = (
            None if filling is None else filling.count * BLOCK / GIB / gib
        )
        if filling is not None:
            notes.append(f"{drive}: {filling.count:,} writes")
    return Measured(figures, notes=tuple(notes))


def s16(lab: Lab) -> Measured:
    """Footnote 2: "results with the volatile cache enabled [...] are similar to those for a queue depth of
    31"."""
    counts = {
        kib: (
            _count(lab.filling("st5000", kib * KIB, 1, write_cache=True)),
            _count(lab.filling("st5000", kib * KIB, 31)),
        )
        for kib in SIZES
    }
    figures: dict[str, Ours] = {
        f"writes of {kib} KiB over those at depth 31": None if lone is None or deep is None else lone / deep
        for kib, (lone, deep) in counts.items()
    }
    notes = tuple(
        f"{kib} KiB, volatile cache on, depth 1: {lone:,.0f} writes"
        for kib, (lone, _) in counts.items()
        if lone
    )
    return Measured(figures, notes=notes)
