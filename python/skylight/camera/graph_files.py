"""A head-position graph as columns and as JSON: what tracking and reading found, for other programs.

The columns are those of `COLUMNS`, as an Arrow IPC stream and as CSV; docs/camera.md has the format. Times
of the drive are null where the rate of capture is unknown.

Invariant: the same result gives the same bytes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from skylight.camera.align import Alignment
from skylight.camera.frame_rate import Rate
from skylight.camera.seek_commands import Commands
from skylight.camera.seek_detection import Cycle, Reading
from skylight.camera.track_head import Track
from skylight.errors import KeepError, reason_of

FORMAT = "skylight-head-position"
SCHEMA = 1
KEY = b"skylight"
COLUMNS = ("frame", "play_s", "time_s", "position", "confidence")
HEAD = (
    "format", "schema", "clip", "capture_hz", "capture_why", "scale", "known_positions", "swing_degrees",
    "explained", "notes",
)  # fmt: skip
"""What the metadata of the columns repeat of the summary."""
ARROW_NAME, CSV_NAME, JSON_NAME = "head.arrows", "head.csv", "head.json"


def frame_times_s(found: Track, rate: Rate) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Times of the drive, s from the first frame; None while the rate is unknown."""
    if rate.capture_hz is None:
        return None
    play_s = found.clip.times_s[: found.frames]
    return np.asarray(play_s * found.clip.playback_hz / rate.capture_hz, np.float64)


def lasts_ms(found: Track, rate: Rate, start: float, end: float) -> float | None:
    """How long it is from one frame to another, with fractions, on the drive's clock; None while the rate is
    unknown."""
    if rate.capture_hz is None:
        return None
    times_s = frame_times_s(found, rate)
    if times_s is None or not found.clip.variable:
        return 1e3 * (end - start) / rate.capture_hz
    first_s, last_s = np.interp([start, end], np.arange(found.frames), times_s)
    return 1e3 * float(last_s - first_s)


def cycle_ms(found: Track, rate: Rate, cycle: Cycle) -> float | None:
    """How long a cycle is on the drive's clock; None while the rate is unknown."""
    if rate.capture_hz is None:
        return None
    return round(1e3 * cycle.frames * found.clip.interval_frames / rate.capture_hz, 4)


def summary(
    found: Track, rate: Rate, reading: Reading, io: tuple[Commands, Alignment] | None = None
) -> dict[str, Any]:
    """All that was found but the columns, as JSON has it; with `io`, the command of each seek."""
    clip = found.clip

    def ms(start: float, end: float) -> float | None:
        lasts = lasts_ms(found, rate, start, end)
        return None if lasts is None else round(lasts, 4)

    cycle = reading.cycle
    facts: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "clip": {
            "file": clip.path.name, "width": clip.width, "height": clip.height, "frames": found.frames,
            "playback_hz": round(clip.playback_hz, 4), "variable_rate": clip.variable,
        },
        "capture_hz": rate.capture_hz,
        "capture_why": rate.why,
        "scale": found.scale,
        "known_positions": found.known_positions,
        "swing_degrees": round(math.degrees(found.swing_rad), 2),
        "explained": round(found.explained, 4),
        "stroke_px": round(found.move_px, 2),
        "confidence": round(float(np.median(found.confidence)), 4),
        "noise": round(reading.noise, 5),
        "places": [round(place, 4) for place in reading.places],
        "dwells": [
            {"start_frame": round(one.start, 2), "end_frame": round(one.end, 2),
             "ms": ms(one.start, one.end),
             "position": round(one.position, 4), "place": one.place, "drift": round(one.drift, 4),
             "stroke": one.stroke}
            for one in reading.dwells
        ],
        "seeks": [
            {"start_frame": round(one.start, 2), "end_frame": round(one.end, 2),
             "ms": ms(one.start, one.end),
             "from": round(one.source, 4), "to": round(one.target, 4), "whole": one.whole,
             "within_frames": round(one.doubt, 2)}
            for one in reading.seeks
        ],
        "cycle": None if cycle is None else {
            "count": cycle.count, "frames": round(cycle.frames, 3), "ms": cycle_ms(found, rate, cycle),
            "scatter_frames": round(cycle.scatter, 3), "places": list(cycle.places),
        },
        "stroke_pattern": reading.pattern,
        "strokes": [
            {"start_frame": round(one.start, 2), "end_frame": round(one.end, 2),
             "from": round(one.source, 4), "to": round(one.target, 4)}
            for one in reading.strokes
        ],
        "cleaning": [
            {"phase": one.name, "start_frame": round(one.start, 2), "ms": ms(one.start, one.end),
             "position": round(one.position, 4)}
            for one in reading.cleaning
        ],
        "notes": [*found.notes, *reading.notes],
    }  # fmt: skip
    if io is not None:
        commands, aligned = io
        facts["io"] = {"frame_0_s": aligned.frame_0_s, "why": aligned.why}
        for seek, row in zip(facts["seeks"], aligned.rows, strict=True):
            seek["io"] = commands.described(row)
    return facts


def keep(
    folder: Path, found: Track, rate: Rate, reading: Reading, io: tuple[Commands, Alignment] | None = None
) -> list[Path]:
    """Writes the columns and the summary into a folder; returns the paths."""
    import pyarrow as pa

    times_s = frame_times_s(found, rate)
    columns: list[Any] = [
        pa.array(np.arange(found.frames), pa.uint32()),
        pa.array(found.clip.times_s[: found.frames], pa.float64()),
        pa.nulls(found.frames, pa.float64()) if times_s is None else pa.array(times_s, pa.float64()),
        pa.array(found.position, pa.float32()),
        pa.array(found.confidence, pa.float32()),
    ]
    facts = summary(found, rate, reading, io)
    head = {name: facts[name] for name in HEAD}
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    table = table.replace_schema_metadata({KEY: json.dumps(head, sort_keys=True).encode()})
    paths = [folder / name for name in (ARROW_NAME, CSV_NAME, JSON_NAME)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(paths[0]), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        paths[1].write_text(_csv(found, times_s), encoding="utf-8")
        paths[2].write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    except (OSError, pa.ArrowException) as error:
        reason = reason_of(error)
        raise KeepError(
            f"{folder}: the head positions cannot be written: {reason}; choose another -o DIR"
        ) from error
    return paths


def _csv(found: Track, times_s: np.ndarray[tuple[int], np.dtype[np.float64]] | None) -> str:
    lines = [",".join(COLUMNS)]
    for frame in range(found.frames):
        time = math.nan if times_s is None else times_s[frame]
        lines.append(
            f"{frame},{found.clip.times_s[frame]:.6f},{'' if math.isnan(time) else f'{time:.7f}'},"
            f"{found.position[frame]:.5f},{found.confidence[frame]:.3f}"
        )
    return "\n".join(lines) + "\n"
