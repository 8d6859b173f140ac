"""A chosen number of zones by a polynomial fit, and skew as 2 pi / n: the input of the emulator's tables.

Modern disks adapt the track size to each surface, so measured sizes show a pattern and noise. A polynomial
over the track number, fitted without the sizes outside two bounds, smooths them; zones with equal numbers of
tracks then get the mean of the polynomial. Degree 13 and 18 zones are the paper's. Its bounds of 1,000 and
2,200 sectors leave out most tracks of a larger disk than its own: without bounds given all tracks count.

Invariant: pure; fitted zones hold whole tracks and together as many tracks as the disk; their sizes are
rounded to whole sectors.

Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05, 2012), section 6.2 and Table 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Chebyshev

from skylight.errors import UsageError
from skylight.evidence import F64, I64
from skylight.geometry.result import Geometry

DEGREE, ZONES, CLOSE_FROM = 13, 18, 79_000
SAMPLES = 4000
EDGE = 0.5


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The options of the paper's Table 1: degree of the polynomial, number of zones, and the sizes (sectors
    per track) outside which tracks are excluded from the fit, None for no bound."""

    degree: int = DEGREE
    zones: int = ZONES
    least_sectors: int | None = None
    most_sectors: int | None = None


@dataclass(frozen=True, slots=True)
class FittedZone:
    """Number of tracks (in address order) and sectors per track."""

    tracks: int
    sectors_per_track: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """The zones, the curve (track numbers and sectors per track), the number of tracks excluded as outliers,
    the root-mean-square distance of the curve from the sizes (sectors), and the number of tracks n over which
    the skews add up to one revolution, so that the skew is 2 pi / n; None if no skew is known."""

    zones: tuple[FittedZone, ...]
    curve: tuple[tuple[float, float], ...]
    outliers: int
    rms_sectors: float
    skew_tracks: float | None
    options: FitOptions


def fit(geometry: Geometry, options: FitOptions) -> Fitted:
    """Fits the zones of a geometry."""
    if not geometry.zones:
        raise UsageError(f"{geometry.target}: its geometry has no zones to fit; extract it from the disk")
    sizes = np.array([zone.sectors_per_track for zone in geometry.zones])
    tracks = np.array([zone.tracks for zone in geometry.zones], np.int64)
    total = int(tracks.sum())
    if not 1 <= options.zones <= total:
        raise UsageError(
            f"--zones {options.zones}: the disk has {total:,} tracks; give a number from 1 to {total}"
        )
    least = int(sizes.min()) if options.least_sectors is None else options.least_sectors
    most = int(sizes.max()) if options.most_sectors is None else options.most_sectors
    used = (sizes >= least) & (sizes <= most)
    if not used.any():
        raise UsageError(
            f"tracks hold {sizes.min():,} to {sizes.max():,} sectors, all outside {least:,} to {most:,};"
            " widen the range with --min-outlier and --max-outlier"
        )
    number, size = _samples(tracks, sizes, used)
    if options.degree >= len(np.unique(number)):
        raise UsageError(
            f"--degree {options.degree}: the disk has {len(np.unique(number))} tracks to fit; give a lower"
            " degree"
        )
    low, high = float(number.min()), float(number.max())
    polynomial = Chebyshev.fit(number, size, options.degree, domain=[low, high])

    def curve(at: F64) -> F64:
        """The polynomial; beyond the fitted tracks, its value at the nearest of them."""
        return np.asarray(polynomial(np.clip(at, low, high)), np.float64)

    zones, middle = [], np.linspace(0, total, 8 * options.zones + 1)
    for zone in range(options.zones):
        begin, end = zone * total // options.zones, (zone + 1) * total // options.zones
        inside = np.linspace(begin + EDGE, end - EDGE, 33)
        sectors = max(1, round(float(np.clip(curve(inside), sizes[used].min(), sizes[used].max()).mean())))
        zones.append(FittedZone(end - begin, sectors))
    return Fitted(
        zones=tuple(zones),
        curve=tuple(zip(middle.tolist(), curve(middle).tolist(), strict=True)),
        outliers=int(tracks[~used].sum()),
        rms_sectors=float(np.sqrt(np.mean((curve(number) - size) ** 2))),
        skew_tracks=skew_tracks(geometry),
        options=options,
    )


def _samples(tracks: I64, sizes: I64, used: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[F64, F64]:
    """Track numbers spread over the zones that are not outliers, and the sizes there."""
    ends = np.cumsum(tracks)
    number = np.linspace(EDGE, float(ends[-1]) - EDGE, SAMPLES)
    zone = np.minimum(np.searchsorted(ends, number, side="right"), len(ends) - 1)
    kept = used[zone]
    return number[kept], sizes[zone][kept].astype(np.float64)


def skew_tracks(geometry: Geometry) -> float | None:
    """The number of tracks n over which the skews add up to one revolution."""
    skew = geometry.head_skew if geometry.layout == "cylinder" else geometry.track_skew
    if skew is None or not geometry.rotation_ns:
        return None
    return geometry.rotation_ns / skew.ns


def saw_tooth(geometry: Geometry) -> float | None:
    """The same from access times alone: the period of their saw-tooth, in tracks; None if they show none.

    Access times modulo the rotation rise by the skew from track to track."""
    close = np.array(geometry.access_close, np.float64).reshape(-1, 2)
    if len(close) < 16 or not geometry.rotation_ns:
        return None
    phase = np.exp(2j * np.pi * close[:, 1] / geometry.rotation_ns)
    tried = np.linspace(0.005, 0.5, 4000)
    score = np.abs((phase[None, :] * np.exp(-2j * np.pi * tried[:, None] * close[None, :, 0])).mean(axis=1))
    best = int(np.argmax(score))
    return None if score[best] < 0.6 else float(1 / tried[best])
