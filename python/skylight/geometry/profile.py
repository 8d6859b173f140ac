"""A profile from a geometry: an emulated drive with the same tracks, skews and seek curve.

Values that were not measured are chosen, and a comment in the profile marks them: a conventional layer, and a
seek curve where arm times could not be determined.

Invariant: the profile passes `skylight drives check`.

Source: docs/profile-reference.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from skylight.errors import UsageError
from skylight.geometry.density_pattern import expanded
from skylight.geometry.fit import FittedZone
from skylight.geometry.layout_models import CYLINDER, CYLINDER_SERPENTINE, HORIZONTAL, HYBRID, SINGLE
from skylight.geometry.result import Geometry

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
BINS_A_LOG = 2.0  # points of the seek curve per factor e of distance
CHOSEN_SEEK_NS = (800_000.0, 12_000.0, 20.0)


def profile_text(geometry: Geometry, zones: Sequence[FittedZone], name: str) -> str:
    """The TOML of a profile with the given zones, their tracks counted in address order."""
    if geometry.rotation_ns is None or (geometry.track_skew is None and geometry.head_skew is None):
        raise UsageError(
            f"{geometry.target}: rotation or skew is unknown, so no profile can be made; extract again"
        )
    surfaces = geometry.surfaces or 1
    layout = _layout(geometry, surfaces)
    lines = [
        "schema = 1",
        f'name = "{safe_name(name)}"',
        f'summary = "geometry from the timing of {geometry.reads} reads"',
    ]
    body, sectors = _zones(geometry, zones, surfaces)
    capacity = min(geometry.size_bytes, sectors * SECTOR_BYTES) // BLOCK_BYTES * BLOCK_BYTES
    lines += [
        f"capacity = {capacity}",
        "",
        "[mechanics]",
        f'rotation = "{geometry.rotation_ns / 1e6:.6f} ms"',
    ]
    lines += _arm(geometry)
    track = geometry.track_skew or geometry.head_skew
    head = geometry.head_skew or geometry.track_skew
    assert track is not None and head is not None
    lines += ["", "[geometry]", f"surfaces = {surfaces}", f'layout = "{layout}"']
    if layout == HYBRID and geometry.group_tracks:
        lines.append(f"group_tracks = {geometry.group_tracks}")
    if layout == HORIZONTAL and geometry.surface_density:
        lines.append(f"surface_density = [{', '.join(f'{part:g}' for part in geometry.surface_density)}]")
    lines += [_time("track_skew", track.ns), _time("head_skew", head.ns), "zone = [", *body, "]"]
    lines += ["", "[interface]", "queue_depth = 31", 'schedule = "shortest-positioning-first"']
    lines += [_time("command_overhead", _overhead_ns(geometry, zones))]
    lines += [
        "",
        "# Chosen: reads do not show how writes are translated.",
        "[layer]",
        'kind = "conventional"',
    ]
    return "\n".join(lines) + "\n"


def measured_zones(geometry: Geometry) -> tuple[FittedZone, ...]:
    """The zones as measured; if surfaces differ in density, with the mean track size of each zone."""
    runs = [(zone.tracks, zone.sectors_per_track) for zone in geometry.zones]
    heads = geometry.surfaces or 1
    if not geometry.surface_density or len(runs) < 2:
        return tuple(FittedZone(tracks, sectors) for tracks, sectors in runs)
    usual, sizes = expanded(runs)
    groups = [sizes[first : first + heads] for first in range(0, len(sizes), heads)]
    return tuple(FittedZone(usual * len(group), round(sum(group) / len(group))) for group in groups)


def safe_name(name: str) -> str:
    """A valid profile name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:64] or "extracted"


def _layout(geometry: Geometry, surfaces: int) -> str:
    if geometry.layout in (None, SINGLE) or surfaces == 1:
        return CYLINDER
    if geometry.layout == CYLINDER:
        return CYLINDER_SERPENTINE if geometry.serpentine else CYLINDER
    return str(geometry.layout)


def _zones(geometry: Geometry, zones: Sequence[FittedZone], surfaces: int) -> tuple[list[str], int]:
    """The zones' rows, with the tracks of one surface, and the total of their sectors."""
    rows, sectors = [], 0
    scale = geometry.sector_bytes // SECTOR_BYTES
    for zone in zones:
        tracks = max(1, -(-zone.tracks // surfaces))
        size = zone.sectors_per_track * scale
        rows.append(f"    {{ tracks = {tracks}, sectors_per_track = {size} }},")
        sectors += tracks * surfaces * size
    return rows, sectors


def seek_points(geometry: Geometry) -> list[tuple[int, float]]:
    """The seek curve as points (tracks, ns): medians of times over similar distances, non-decreasing."""
    if geometry.seek is None:
        return []
    seek = geometry.seek
    at = np.array(seek.points, np.float64).reshape(-1, 2)
    at = at[at[:, 0] >= 1]
    bins = np.round(np.log(at[:, 0]) * BINS_A_LOG)
    points = [
        (round(float(np.median(at[bins == each, 0]))), float(np.median(at[bins == each, 1])))
        for each in np.unique(bins)
    ]
    if not points or points[0][0] > 1:
        points.insert(0, (1, seek.constant_ns + seek.root_ns + seek.linear_ns))
    times = np.maximum.accumulate([ns for _, ns in points])
    rising: dict[int, float] = {}
    for (tracks, _), ns in zip(points, times, strict=True):
        rising[tracks] = float(ns)
    return sorted(rising.items())


def _arm(geometry: Geometry) -> list[str]:
    switch_ns = geometry.head_switch_ns
    constant, root, linear = CHOSEN_SEEK_NS
    comments = ["# Chosen: arm times could not be determined."]
    if geometry.seek is not None:
        constant, root, linear = geometry.seek.constant_ns, geometry.seek.root_ns, geometry.seek.linear_ns
        comments = []
    if switch_ns is None:
        comments.append(
            "# Chosen: the head switch equals a step to the next track; no difference was measured."
        )
        switch_ns = constant + root + linear
    lines = [*comments, _time("head_switch", switch_ns), "", "[mechanics.seek]"]
    points = seek_points(geometry)
    if not points:
        curve = f'constant = "{constant:.3f} ns", root = "{root:.3f} ns", linear = "{linear:.3f} ns"'
        return [*lines, f"fitted = {{ {curve} }}"]
    rows = [f'    [{tracks}, "{ns / 1e3:.3f} us"],' for tracks, ns in points]
    return [*lines, "points = [", *rows, "]"]


def _overhead_ns(geometry: Geometry, zones: Sequence[FittedZone]) -> float:
    """Overhead of a command, without the transfer of its sector."""
    if geometry.command_ns is None or geometry.rotation_ns is None:
        return 100_000.0
    sectors = zones[0].sectors_per_track
    return max(geometry.command_ns - geometry.rotation_ns / sectors, 0.0)


def _time(key: str, ns: float) -> str:
    return f'{key} = "{ns:.3f} ns"' if ns < 1000 else f'{key} = "{ns / 1e3:.3f} us"'
