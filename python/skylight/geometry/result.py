"""The result of an extraction: zones, skews, layout, seek curve; and its file.

The file is JSON (`docs/geometry.md` lists its keys); `extract` writes it, `fit` reads it.

Invariants: a value that the reads do not determine is None, never a guess; sectors are of `sector_bytes`;
times are nanoseconds, distances tracks of one surface.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from skylight.errors import UsageError

FORMAT = "skylight-geometry"
SCHEMA = 1
LARGEST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Zone:
    """Tracks of one size, in address order: first sector, sector past the last, sectors per track, a sector
    that begins a track, and uncertainty of the first sector (sectors)."""

    first_sector: int
    end_sector: int
    sectors_per_track: int
    track_sector: int
    doubt_sectors: int = 0

    @property
    def tracks(self) -> int:
        """Whole tracks."""
        return (self.end_sector - self.first_sector) // self.sectors_per_track


@dataclass(frozen=True, slots=True)
class Skew:
    """A skew and its standard error, ns."""

    ns: float
    error_ns: float


@dataclass(frozen=True, slots=True)
class SeekCurve:
    """Seek times: `constant + root * sqrt(d) + linear * d` (ns) over `d` tracks, and the points behind it."""

    constant_ns: float
    root_ns: float
    linear_ns: float
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LocalTracks:
    """Tracks of one region, where zones are unknown: the byte range that was read, bytes per track, skew."""

    first_byte: int
    end_byte: int
    track_bytes: float
    skew_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Geometry:
    """See the module's heading. `access` and `access_close` are access times (ns) from the first track to
    others by number; `places` are the tracks found in logs of other tools.

    More than 15 fields: one per figure of the result, whose JSON is flat."""

    target: str
    size_bytes: int
    sector_bytes: int
    rotation_ns: float | None = None
    rotation_error: float | None = None
    zones: tuple[Zone, ...] = ()
    layout: str | None = None
    serpentine: bool | None = None
    surfaces: int | None = None
    group_tracks: int | None = None
    track_skew: Skew | None = None
    head_skew: Skew | None = None
    head_switch_ns: float | None = None
    command_ns: float | None = None
    seek: SeekCurve | None = None
    surface_density: tuple[float, ...] = ()
    access: tuple[tuple[int, float], ...] = ()
    access_close: tuple[tuple[int, float], ...] = ()
    places: tuple[LocalTracks, ...] = ()
    reads: int = 0
    zone_reads: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found of any track."""
        return not self.zones and not self.places

    def to_json(self) -> dict[str, object]:
        """The JSON document of the file."""
        return {"format": FORMAT, "schema": SCHEMA, **asdict(self)}


def text_of(geometry: Geometry) -> str:
    """The text of the file."""
    return json.dumps(geometry.to_json(), indent=1) + "\n"


def read_geometry(path: Path) -> Geometry:
    """The geometry in a file; refuses any other file with one line."""
    try:
        if not path.is_file():
            raise UsageError(
                f"{path}: is not a file; give the geometry.json that `skylight geometry extract` wrote"
            )
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(
                f"{path}: longer than {LARGEST_BYTES >> 20} MiB, so not a geometry; give another file"
            )
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}; check its name and permissions"
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{path}: is not JSON; give the file that `skylight geometry extract` wrote"
        ) from error
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise UsageError(f"{path}: is not a geometry; give the file that `skylight geometry extract` wrote")
    if document.pop("schema", None) != SCHEMA:
        raise UsageError(f"{path}: its schema is not {SCHEMA}; use the version that wrote it")
    try:
        return _of_json(document)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{path}: a part of the geometry is missing or wrong ({error}); extract it again"
        ) from error


def _of_json(document: Mapping[str, Any]) -> Geometry:
    values = dict(document)
    values["zones"] = tuple(
        Zone(**{key: int(part) for key, part in zone.items()}) for zone in values["zones"]
    )
    for name in ("track_skew", "head_skew"):
        values[name] = None if values.get(name) is None else Skew(**values[name])
    if values.get("seek") is not None:
        seek = dict(values["seek"])
        seek["points"] = tuple((float(tracks), float(ns)) for tracks, ns in seek["points"])
        values["seek"] = SeekCurve(**seek)
    for name in ("access", "access_close"):
        values[name] = tuple((int(track), float(ns)) for track, ns in values.get(name, ()))
    values["places"] = tuple(LocalTracks(**place) for place in values.get("places", ()))
    values["notes"] = tuple(str(note) for note in values.get("notes", ()))
    values["surface_density"] = tuple(float(part) for part in values.get("surface_density", ()))
    found = Geometry(**values)
    for before, after in zip(found.zones, found.zones[1:], strict=False):
        if before.end_sector != after.first_sector:
            raise ValueError(f"zones do not follow each other at sector {before.end_sector}")
    if any(zone.sectors_per_track < 1 or zone.end_sector <= zone.first_sector for zone in found.zones):
        raise ValueError("a zone without tracks")
    return found
