"""Where an emulated drive's head is at any time: from its head trace to a movement.

A trace has accesses: when the head began to move, when it arrived, when the last sector had passed. Between
these the movement is that of an arm under a constant force: it accelerates, coasts if the way is long, and
brakes. During a transfer it follows the tracks.

Invariants: times are seconds from the first access; positions are shares of the tracks, 0 (OD) to 1 (ID).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skylight.engines.head_trace import FORMAT, KEY
from skylight.engines.sim import read_profile
from skylight.errors import UsageError

F64 = NDArray[np.float64]

# Up to this share of the stroke an arm accelerates for half of a seek; beyond, its speed is limited and it
# coasts.
COASTS_BEYOND = 0.3
# A way shorter than this is a step to a neighbouring track, which no film shows.
LEAST_WAY = 1e-6
# A drive that parks its heads does so when it has nothing left to do: after a map update, "a short period"
# later (Skylight, section 4.5), and else when it has been idle for a while. Chosen: the first to be seen in
# a film.
PARKS_AFTER_MAP_S, PARKS_AFTER_S = 0.1, 2.0
PARK_SEEK_S = 0.016
# A region that is too narrow to be seen is drawn this wide, as a share of the stroke.
LEAST_REGION = 0.02
CACHE_PURPOSES = ("cache", "out_of_band", "clean_stage")
MAP_PURPOSES = ("map_merge", "map_update")


@dataclass(frozen=True)
class Motion:
    """Movements in order of time, each from one position to another; between them the head rests."""

    start_s: F64
    end_s: F64
    source: F64
    target: F64
    seek: NDArray[np.bool_]
    """Whether it is a seek, not a transfer along tracks."""

    def at(self, time_s: F64) -> F64:
        """The position at times."""
        if len(self.start_s) == 0:
            return np.zeros(len(time_s))
        last = np.searchsorted(self.start_s, time_s, "right") - 1
        now = np.maximum(last, 0)
        length = np.maximum(self.end_s[now] - self.start_s[now], 1e-12)
        share = np.clip((time_s - self.start_s[now]) / length, 0, 1)
        way = self.target[now] - self.source[now]
        done = np.where(self.seek[now], _done(share, np.abs(way)), share)
        return np.asarray(self.source[now] + way * np.where(last < 0, 0.0, done), np.float64)

    def seeks(self, least: float) -> list[tuple[float, float, float, float]]:
        """Seeks over at least that share of the stroke: start and end (s), and where from and to."""
        taken = self.seek & (np.abs(self.target - self.source) >= least)
        columns = np.stack([self.start_s, self.end_s, self.source, self.target], axis=1)[taken]
        return [(float(start), float(end), float(of), float(to)) for start, end, of, to in columns]


def _done(share: F64, way: F64) -> F64:
    """The share of a way that is done after a share of its time."""
    speeding = 0.5 * np.sqrt(np.minimum(1, COASTS_BEYOND / np.maximum(way, LEAST_WAY)))
    top = 1 / (1 - speeding)
    early = 0.5 * top / speeding * np.minimum(share, speeding) ** 2
    coast = top * np.clip(share - speeding, 0, 1 - 2 * speeding)
    late = np.clip(share - (1 - speeding), 0, speeding)
    return np.asarray(early + coast + top * late - 0.5 * top / speeding * late**2, np.float64)


@dataclass(frozen=True)
class Drive:
    """What the picture of a drive needs: its name, and its regions as shares of the stroke."""

    name: str
    cache: tuple[float, float] | None
    map: tuple[float, float] | None
    bands: bool
    """Whether it has bands at all."""


@dataclass(frozen=True)
class Traced:
    """A head trace: the movement, the drive, and the purpose of the access at each time."""

    motion: Motion
    drive: Drive
    since_s: F64
    purpose: NDArray[np.str_]

    def purpose_at(self, time_s: float) -> str:
        """The purpose of the last access that had begun."""
        row = int(np.searchsorted(self.since_s, time_s, "right")) - 1
        return str(self.purpose[row]) if row >= 0 else "idle"


def find_trace(source: Path) -> Path:
    """The head trace that a path names: the file, or the only one in a run's folder."""
    if not source.is_dir():
        return source
    found = [path for path in sorted(source.rglob("*.arrows")) if _head(path) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{source}: contains {len(found)} head traces; name one of them")
    raise UsageError(
        f"{source}: contains no head trace; run the probe again with --head-trace FILE and give that file"
    )


def _head(path: Path) -> dict[str, Any] | None:
    """The JSON at the head of a head trace; None for any other file."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(path) as stream:
            head = json.loads((stream.schema.metadata or {}).get(KEY, b"{}"))
    except (OSError, ValueError, pa.ArrowException):
        return None
    return head if head.get("format") == FORMAT else None


def read_trace(source: Path) -> Traced:
    """Reads the head trace of a run."""
    import pyarrow as pa

    path = find_trace(source)
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; name a head trace (skylight probe sim:NAME --head-trace FILE)"
        )
    head = _head(path)
    if head is None:
        raise UsageError(f"{path}: is no head trace; skylight probe sim:NAME --head-trace FILE writes one")
    batches = []
    try:
        with pa.ipc.open_stream(path) as stream:
            batches = [batch for batch in stream if batch.num_rows]
    except (OSError, pa.ArrowException) as error:
        if not batches:
            raise UsageError(f"{path}: cannot be read: {error}; trace the run again") from error
    if not batches:
        raise UsageError(f"{path}: contains no accesses; trace a run that uses the platters")
    table = pa.Table.from_batches(batches).unify_dictionaries()
    return _traced(table, _profile(str(head["target"])))


def _profile(target: str) -> dict[str, Any]:
    """The profile of a trace's drive."""
    from skylight import _native

    whole: dict[str, Any] = json.loads(_native.profile_check(*read_profile(target)))
    return whole


def _tracks(geometry: dict[str, Any]) -> int:
    """Tracks of one surface."""
    if geometry.get("taper") is not None:
        return int(geometry["taper"]["tracks"])
    return sum(int(zone["tracks"]) for zone in geometry["zone"])


def _traced(table: Any, profile: dict[str, Any]) -> Traced:
    columns = {
        name: table[name].to_numpy().astype(np.float64) for name in table.column_names if name != "purpose"
    }
    purpose = np.array(table["purpose"].to_pylist(), np.str_)
    last_track = max(_tracks(profile["geometry"]) - 1, 1)
    first_ns = columns["start_ns"][0]
    times = {
        name: (columns[name] - first_ns) / 1e9 for name in ("start_ns", "arrived_ns", "transfer_ns", "end_ns")
    }
    track, end_track = columns["track"] / last_track, columns["end_track"] / last_track
    parks = bool(profile["interface"]["park_when_idle"])
    pieces = [_accesses(times, track, end_track, 1.0 if parks else float(track[0]))]
    if parks:
        pieces.append(_parks(times["start_ns"], times["end_ns"], end_track, purpose))
    merged = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    order = np.argsort(merged[0], kind="stable")
    start_s, end_s, source, target, seek = (column[order] for column in merged)
    # After a park the next seek starts from there.
    source[1:] = np.where(seek[1:] > 0, target[:-1], source[1:])
    moves = np.abs(target - source) > LEAST_WAY
    motion = Motion(start_s[moves], end_s[moves], source[moves], target[moves], seek[moves] > 0)
    return Traced(motion, _drive(profile, purpose, track, end_track), times["start_ns"], purpose)


def _accesses(times: dict[str, F64], track: F64, end_track: F64, first: float) -> list[F64]:
    """Each access as a seek and a transfer."""
    before = np.concatenate([[first], end_track[:-1]])
    ones, zeros = np.ones(len(track)), np.zeros(len(track))
    seeks = (times["start_ns"], times["arrived_ns"], before, track, ones)
    transfers = (times["transfer_ns"], times["end_ns"], track, end_track, zeros)
    return [np.stack(pair, axis=1).reshape(-1) for pair in zip(seeks, transfers, strict=True)]


def _parks(start_s: F64, end_s: F64, end_track: F64, purpose: NDArray[np.str_]) -> list[F64]:
    """The head parks at the ID in long pauses."""
    after = np.where(purpose == "map_update", PARKS_AFTER_MAP_S, PARKS_AFTER_S)
    until = np.concatenate([start_s[1:], [np.inf]])
    rows = np.flatnonzero(until - end_s > after + PARK_SEEK_S)
    begin = end_s[rows] + after[rows]
    way = np.maximum(np.abs(1.0 - end_track[rows]), 0.05)
    return [
        begin,
        begin + PARK_SEEK_S * np.sqrt(way),
        end_track[rows],
        np.ones(len(rows)),
        np.ones(len(rows)),
    ]


def _drive(profile: dict[str, Any], purpose: NDArray[np.str_], track: F64, end_track: F64) -> Drive:
    """The regions: where the trace shows the cache and the map, else where the profile says."""
    layer = profile["layer"]
    middles = {"od": 0.0, "md": 0.5, "id": 1.0}

    def region(purposes: tuple[str, ...], where: str | None) -> tuple[float, float] | None:
        rows = np.isin(purpose, purposes)
        seen = np.concatenate([track[rows], end_track[rows]])
        if len(seen):
            low, high = float(np.quantile(seen, 0.01)), float(np.quantile(seen, 0.99))
        elif where in middles:
            low = high = middles[where]
        else:
            return None
        short = max(0.0, LEAST_REGION - (high - low)) / 2
        low = min(max(0.0, low - short), 1 - LEAST_REGION)
        return low, max(high + short, low + LEAST_REGION)

    on_disk = layer.get("cache_medium") == "disk"
    return Drive(
        str(profile["name"]),
        region(CACHE_PURPOSES, layer.get("cache_location") if on_disk else None),
        region(MAP_PURPOSES, layer.get("map_location")),
        layer["kind"] != "conventional",
    )
