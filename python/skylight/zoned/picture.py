"""The zones of a drive as a picture: a cell for a zone or a group of neighbours, filled as far as it is
written.

The upper panel is the map: conditions are colours, a cell is filled from below as its zone is, and a dark
corner marks non-sequential zones. The lower panel is the fill along the addresses, where a small difference
shows that no colour would.

Invariants: drawn from a report alone; the same report gives the same picture.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, U8
from skylight.units import format_capacity, format_count, format_size
from skylight.zoned.text_chart import group_of
from skylight.zoned.zone_symbols import LOOKS, NON_SEQUENTIAL, fill_of, plain_looks
from skylight.zoned.zones import ZoneLayout, Zones

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

WIDTH_INCHES = 8.8
MAP_INCHES, FILL_INCHES = 3.1, 1.4
MOST_CELLS = 12_000
"""Cells that a map of this width shows with an edge and a fill: each is 4 pixels wide or more."""
ASPECT = 2.4
"""Width over height of the map."""
MAP_PIXELS = 900
"""Pixels of the map's image across, about: as fine as the figure is shown."""
MOST_LINES = 100
"""Columns of a map with lines between its cells: with more there would be little but lines."""
FILL_BARS = 600
"""Bars of the fill panel at most: narrower ones would be hairs."""
TINT = 0.28
"""How much of its colour the part of a zone has that is not written."""

_INK = (0x1C, 0x21, 0x26)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


_FULL = np.array([_rgb(look.colour) for look in LOOKS], np.float64)
_PALE = 255 - (255 - _FULL) * TINT
_EVEN = (0, 1, 7, 8, 9)
"""Looks of zones without a write pointer, and of empty ones: cells of one colour."""


def _cells(zones: Zones, group: int) -> tuple[U8, F64, NDArray[np.bool_]]:
    """The look, the fill and the mark of each cell."""
    first = np.arange(0, len(zones), group)
    # A marked zone keeps the colour of its condition: its cell has the corner besides.
    plain = plain_looks(zones)
    sizes = np.diff([*first.tolist(), len(zones)])
    return (
        np.maximum.reduceat(plain, first),
        np.add.reduceat(fill_of(zones), first) / sizes,
        np.logical_or.reduceat(zones.non_sequential, first),
    )


def _columns_for(cells: int) -> int:
    """Cells of a row: a round number that gives about the aspect of the map."""
    wanted = max(math.sqrt(cells * ASPECT), 1.0)
    for power in (1, 10, 100, 1000):
        for digit in (1, 2, 4, 5, 8):
            if digit * power >= wanted * 0.8:
                return min(digit * power, cells)
    return cells


def _image(look: U8, fill: F64, marked: NDArray[np.bool_], columns: int) -> U8:
    """The map as pixels, red, green, blue and opacity."""
    rows = -(-len(look) // columns)
    side = max(MAP_PIXELS // columns, 4)
    image = np.zeros((rows * side, columns * side, 4), np.uint8)
    height = np.rint(fill * side).astype(np.int64)
    height = np.where(fill > 0, np.maximum(height, 1), 0)
    corner = max(side // 3, 1)
    for cell in range(len(look)):
        top, left = (cell // columns) * side, (cell % columns) * side
        place = image[top : top + side, left : left + side]
        kind = int(look[cell])
        place[..., :3] = _FULL[kind] if kind in _EVEN else _PALE[kind]
        place[..., 3] = 255
        if height[cell] and kind not in _EVEN:
            place[side - int(height[cell]) :, :, :3] = _FULL[kind]
        if marked[cell]:
            place[:corner, -corner:, :3] = _INK
    return image


def draw(layout: ZoneLayout, zones: Zones, name: str) -> Drawing:
    """The picture of a drive's zones, titled with its name."""
    from matplotlib.figure import Figure as NewDrawing

    drawing = NewDrawing(figsize=(WIDTH_INCHES, MAP_INCHES + FILL_INCHES + 0.9))
    above, below = drawing.subplots(2, 1, height_ratios=(MAP_INCHES, FILL_INCHES))
    group = group_of(len(zones), MOST_CELLS)
    look, fill, marked = _cells(zones, group)
    columns = _columns_for(len(look))
    above.imshow(
        _image(look, fill, marked, columns), interpolation="none", aspect="auto",
        extent=(0, columns, -(-len(look) // columns), 0),
    )  # fmt: skip
    if columns <= MOST_LINES:
        rows = -(-len(look) // columns)
        above.vlines(range(1, columns), 0, rows, color="white", linewidth=0.6)
        above.hlines(range(1, rows), 0, columns, color="white", linewidth=0.6)
    _map_axes(above, layout, columns, group)
    _legend(above, zones)
    _fill_panel(below, zones)
    size = format_size(layout.zone_bytes)
    drawing.suptitle(
        f"{name}: {format_count(len(zones))} zones of {size}, {layout.model}", x=0.01, ha="left", fontsize=11
    )
    return drawing


def _map_axes(axes: Axes, layout: ZoneLayout, columns: int, group: int) -> None:
    """Rows by where they begin, columns by the zone in the row."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def capacity_at(row: float, _: object) -> str:
        return format_capacity(round(row * columns * group * layout.zone_bytes))

    axes.grid(visible=False)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(capacity_at))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda column, _: f"{column * group:,.0f}"))
    axes.set_ylabel("row begins at")
    cell = (
        "a cell is one zone"
        if group == 1
        else f"a cell is {format_count(group)} zones, the most notable shown"
    )
    axes.set_xlabel(f"zone in the row; {cell}; filled as far as written")


def _legend(axes: Axes, zones: Zones) -> None:
    """The looks that occur, with the number of their zones."""
    from matplotlib.patches import Patch

    counts = np.bincount(plain_looks(zones), minlength=len(LOOKS))
    entries = [
        Patch(facecolor=LOOKS[look].colour, label=f"{LOOKS[look].name} ({format_count(int(count))})")
        for look, count in enumerate(counts)
        if count
    ]
    marked = int(np.count_nonzero(zones.non_sequential))
    if marked:
        label = f"dark corner: {LOOKS[NON_SEQUENTIAL].name} ({format_count(marked)})"
        entries.append(Patch(facecolor="#1c2126", label=label))
    axes.legend(handles=entries, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, borderaxespad=0.3,
                handlelength=1.0, columnspacing=1.2)  # fmt: skip


def _fill_panel(axes: Axes, zones: Zones) -> None:
    """How full the zones are along the addresses: a bar for each, or for the mean of a group."""
    end_bytes = float(zones.start_bytes[-1] + zones.size_bytes[-1])
    unit, bytes_each = ("TB", 1e12) if end_bytes >= 1e12 else ("GB", 1e9)
    first = np.arange(0, len(zones), group_of(len(zones), FILL_BARS))
    fill = 100 * np.add.reduceat(fill_of(zones), first) / np.diff([*first.tolist(), len(zones)])
    edges = np.append(zones.start_bytes[first].astype(np.float64), end_bytes) / bytes_each
    axes.stairs(fill, edges, fill=True, color="C0")
    marked = zones.non_sequential
    if np.any(marked):
        at = zones.start_bytes[marked].astype(np.float64) / bytes_each
        axes.plot(at, np.full(len(at), -6.0), "|", color=LOOKS[NON_SEQUENTIAL].colour, markersize=5)
    axes.set_ylim(-12 if np.any(marked) else 0, 105)
    axes.set_yticks([0, 50, 100])
    axes.set_xlim(0, edges[-1])
    axes.set_ylabel("written (%)")
    axes.set_xlabel(f"address ({unit})" + ("; ticks below: non-sequential zones" if np.any(marked) else ""))
