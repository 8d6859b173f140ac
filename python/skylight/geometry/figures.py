"""Figures 11 and 12 of the paper, from an extracted and fitted geometry.

Figure 11: track size against track number, as measured, as fitted by the polynomial, and as zones. Figure
12: access times from the first track to all others, and to 100 successive tracks.

Invariant: drawn from the geometry alone; colours and sizes are the report's.

Source: Pitchumani, UCSC-SSRC-12-05 (2012), Figures 11 and 12.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skylight.errors import KeepError
from skylight.geometry.fit import Fitted, saw_tooth
from skylight.geometry.result import Geometry
from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.units import format_count

if TYPE_CHECKING:
    pass

SIZE_INCHES = (9.0, 4.2)
DPI = 120


def draw(geometry: Geometry, fitted: Fitted) -> list[Figure]:
    """All figures for which the geometry has data."""
    figures = [zones_figure(geometry, fitted)]
    if geometry.access:
        figures.append(_access(geometry, "access", geometry.access))
    if geometry.access_close:
        figures.append(_access(geometry, "access-close", geometry.access_close))
    return figures


def zones_figure(geometry: Geometry, fitted: Fitted) -> Figure:
    """Figure 11."""
    drawing, axes = new_axes()
    tracks = np.concatenate([[0], np.cumsum([zone.tracks for zone in geometry.zones])])
    sizes = [zone.sectors_per_track for zone in geometry.zones]
    axes.stairs(sizes, tracks, color="C0", linewidth=2.2, baseline=None, label="measured")
    curve = np.array(fitted.curve)
    axes.plot(
        curve[:, 0],
        curve[:, 1],
        color="C1",
        linestyle="--",
        label=f"polynomial of degree {fitted.options.degree}",
    )
    edges = np.concatenate([[0], np.cumsum([zone.tracks for zone in fitted.zones])])
    axes.stairs(
        [zone.sectors_per_track for zone in fitted.zones], edges, color="C2", linewidth=1.0, baseline=None,
        label=f"{len(fitted.zones)} zones",
    )  # fmt: skip
    axes.set_xlabel("track, in address order")
    axes.set_ylabel("sectors per track")
    axes.set_xlim(0, float(tracks[-1]))
    low, high = min(sizes), max(sizes)
    axes.set_ylim(low - 0.1 * (high - low) - 1, high + 0.15 * (high - low) + 1)
    axes.legend(loc="upper right")
    left_out = f" {format_count(fitted.outliers)} tracks are excluded as outliers." if fitted.outliers else ""
    return Figure(
        "geometry-zones",
        "Zone determination",
        "The thick steps are the zones as measured; the dashed line is the polynomial over all tracks; the"
        f" thin steps are zones with equal numbers of tracks, each at the polynomial's mean.{left_out}",
        f"Sectors per track fall from {max(sizes)} to {min(sizes)} in {len(sizes)} measured zones.",
        drawing,
    )


def _access(geometry: Geometry, name: str, times: tuple[tuple[int, float], ...]) -> Figure:
    """One panel of Figure 12."""
    drawing, axes = new_axes()
    at = np.array(times, np.float64)
    line = "-" if name == "access-close" else ""
    axes.plot(at[:, 0], at[:, 1] / 1e6, marker="o", markersize=2.5, linestyle=line, linewidth=0.8, color="C0")
    axes.set_xlabel("track, in address order")
    axes.set_ylabel("access time (ms)")
    axes.set_ylim(0, 1.15 * float(at[:, 1].max()) / 1e6)
    period = saw_tooth(geometry)
    skew_words = ""
    if name == "access-close" and period is not None:
        skew = f"2 pi / {period:.2f}".replace(" ", "\N{NO-BREAK SPACE}")
        skew_words = f" The saw-tooth has a period of {period:.2f} tracks: a skew of {skew}."
    where = f"tracks {int(at[0, 0]):,} to {int(at[-1, 0]):,}"
    return Figure(
        f"geometry-{name}",
        "Track skew" if name == "access-close" else "Access times over the whole disk",
        "Each point is one access, from the first sector of the first track to the first sector of another;"
        f" {where}.{skew_words}",
        f"Access times of {len(at)} tracks, {at[:, 1].min() / 1e6:.1f} to {at[:, 1].max() / 1e6:.1f} ms.",
        drawing,
    )


def save(figures: list[Figure], folder: Path) -> list[Path]:
    """Writes figures as PNG files into a folder, and returns their paths."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    paths = []
    for figure in figures:
        figure.figure.set_size_inches(*SIZE_INCHES)
        figure.figure.set_layout_engine("constrained")
        for axes in figure.figure.axes:
            axes.grid(visible=True, color="#e6e3dc", linewidth=0.7)
            axes.set_axisbelow(True)
            axes.set_title(figure.title, loc="left", fontsize=11)
        FigureCanvasAgg(figure.figure)
        path = folder / f"{figure.name}.png"
        try:
            figure.figure.savefig(path, dpi=DPI, metadata={"Software": None})
        except OSError as error:
            raise KeepError(
                f"{path}: cannot be written: {error.strerror}; choose another --out DIR"
            ) from error
        paths.append(path)
    return paths
