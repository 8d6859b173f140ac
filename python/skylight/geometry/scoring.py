"""What is true of a profile's geometry, and how right an extraction is: for tests, the bench and reproduce.

The truth comes from the profile's text alone, by a walk over its zones that shares nothing with the
emulator's geometry. An extraction is right when every track size is exact and in its place, every edge
within 1 % of its zones, the skew from track to track within 2 %, and the layout the profile's (cylinders
there and back are cylinders, a hybrid serpentine whose groups are whole zones is a surface serpentine).

Source: docs/figures.md, row W6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from skylight.geometry.table import Geometry, Skew
from skylight.geometry.walk import CYLINDER, HORIZONTAL, HYBRID, SINGLE, SURFACE, family

EDGE_PART, SKEW_PART = 0.01, 0.02
NAMES = ("tracks", "edges", "skew", "layout", "surfaces")
BLOCK_SECTORS = 8
SECTOR_BYTES = 512
UNITS_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True)
class Truth:
    """Zones as (first sector, sectors a track), the one past the last, and the rest as a profile has it."""

    zones: tuple[tuple[int, int], ...]
    end_sector: int
    layout: str
    surfaces: int
    recording_zones: int
    rotation_ns: float
    track_skew_ns: float
    head_skew_ns: float

    @property
    def walk_skew_ns(self) -> float:
        """The skew from track to track in the order of addresses, as most tracks have it."""
        return self.head_skew_ns if self.layout == CYLINDER and self.surfaces > 1 else self.track_skew_ns


@dataclass(frozen=True, slots=True)
class Marks:
    """What is right about an extraction; `skew_off` and `rotation_off` are parts of the true value."""

    tracks: bool
    edges: bool
    exact_edges: int
    skew: bool
    layout: bool
    surfaces: bool
    skew_off: float | None
    rotation_off: float | None

    @property
    def all(self) -> bool:
        """Whether all that W6 asks for is right."""
        return self.tracks and self.edges and self.skew and self.layout

    @property
    def wrong(self) -> list[str]:
        """The names of what is not right, of `NAMES`."""
        return [name for name in NAMES if not getattr(self, name)]


def duration_ns(text: str) -> float:
    """A profile's duration, ns."""
    number, unit = text.split()
    return float(number) * UNITS_NS[unit]


def truth_of(profile: Mapping[str, Any]) -> Truth:
    """The truth of a checked profile (`profile_check` gives it as JSON)."""
    given = profile["geometry"]
    mechanics = profile["mechanics"]
    rotation = mechanics.get("rotation")
    rotation_ns = duration_ns(rotation) if rotation else 60e9 / float(mechanics["rpm"])
    zones = _recording_zones(given)
    capacity = profile["capacity"]
    end = int(capacity) // SECTOR_BYTES
    surfaces = int(given["surfaces"])
    layout = SINGLE if surfaces == 1 else family(str(given["layout"]))
    if layout == HYBRID and int(given["group_tracks"]) >= max(tracks for tracks, _ in zones):
        layout = SURFACE  # groups of whole zones: each zone is walked as a surface serpentine walks it
    return Truth(
        zones=_runs(_strokes(given, zones, surfaces), end),
        end_sector=end,
        layout=layout,
        surfaces=surfaces,
        recording_zones=len(zones),
        rotation_ns=rotation_ns,
        track_skew_ns=duration_ns(given["track_skew"]) % rotation_ns,
        head_skew_ns=duration_ns(given["head_skew"]) % rotation_ns,
    )


def _recording_zones(given: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Tracks of one surface and their sectors, zone by zone."""
    taper = given.get("taper")
    if not taper:
        return [(int(zone["tracks"]), int(zone["sectors_per_track"])) for zone in given["zone"]]
    count, tracks = int(taper["zones"]), int(taper["tracks"])
    outer, inner = float(taper["outer_sectors_per_track"]), float(taper["inner_sectors_per_track"])
    return [
        (
            (zone + 1) * tracks // count - zone * tracks // count,
            floor(outer + (inner - outer) * zone / max(count - 1, 1) + 0.5),
        )
        for zone in range(count)
    ]


def _strokes(given: Mapping[str, Any], zones: list[tuple[int, int]], surfaces: int) -> list[tuple[int, int]]:
    """Tracks and their sectors in the order of addresses."""
    density = given.get("surface_density") or []
    if given["layout"] != HORIZONTAL or not density:
        return [(tracks * surfaces, sectors) for tracks, sectors in zones]
    strokes = []
    for number, (tracks, sectors) in enumerate(zones):
        order = range(surfaces) if number % 2 == 0 else range(surfaces - 1, -1, -1)
        for surface in order:
            blocks = max(1, floor(sectors * float(density[surface]) / BLOCK_SECTORS + 0.5))
            strokes.append((tracks, blocks * BLOCK_SECTORS))
    return strokes


def _runs(strokes: list[tuple[int, int]], end: int) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    at = 0
    for tracks, sectors in strokes:
        if at >= end:
            break
        if not runs or runs[-1][1] != sectors:
            runs.append((at, sectors))
        at += tracks * sectors
    return tuple(runs)


def marks(found: Geometry, truth: Truth) -> Marks:
    """How right an extraction is."""
    scale = found.sector_bytes // SECTOR_BYTES
    got = [(zone.first_sector * scale, zone.sectors_per_track * scale) for zone in found.zones]
    tracks = [sectors for _, sectors in got] == [sectors for _, sectors in truth.zones]
    edges = tracks and all(
        abs(begin - true) <= EDGE_PART * _shorter(truth, number)
        for number, ((begin, _), (true, _)) in enumerate(zip(got, truth.zones, strict=True))
    )
    exact = sum(one == other for one, other in zip(got, truth.zones, strict=False)) if tracks else 0
    walked = found.head_skew if truth.layout == CYLINDER and truth.surfaces > 1 else found.track_skew
    off = _off(walked, truth.walk_skew_ns)
    turn = None if found.rotation_ns is None else found.rotation_ns / truth.rotation_ns - 1
    return Marks(
        tracks=tracks,
        edges=edges,
        exact_edges=exact,
        skew=off is not None and abs(off) <= SKEW_PART,
        layout=found.layout is not None and family(found.layout) == truth.layout,
        surfaces=found.surfaces == truth.surfaces,
        skew_off=off,
        rotation_off=turn,
    )


def _off(skew: Skew | None, true_ns: float) -> float | None:
    return None if skew is None else skew.ns / true_ns - 1


def _shorter(truth: Truth, number: int) -> int:
    """Sectors of the shorter of the two zones at an edge."""
    begins = [begin for begin, _ in truth.zones] + [truth.end_sector]
    own = begins[number + 1] - begins[number]
    return own if number == 0 else min(own, begins[number] - begins[number - 1])
