"""A head-position graph: the columns of a clip, just tracked or kept, and what they show.

Invariant: what `skylight camera track` wrote is read as it was found, or refused with one line.

Source: the format of docs/camera.md, "Results".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skylight.camera.align import Alignment, align
from skylight.camera.frame_rate import Rate
from skylight.camera.graph_files import ARROW_NAME, COLUMNS, FORMAT, HEAD, KEY, SCHEMA, frame_times_s
from skylight.camera.seek_detection import Reading, read
from skylight.camera.track_head import Track
from skylight.errors import UsageError
from skylight.evidence import IoLog

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Graph:
    """The head in every frame of a clip."""

    name: str
    """Of the clip."""
    position: F64
    confidence: F64
    time_s: F64 | None
    """On the drive's clock, from the first frame; None while the rate of capture is unknown."""
    capture_hz: float | None
    capture_why: str
    known_positions: int
    """How many positions that were given fix the scale."""
    swing_degrees: float
    """By which the arm turns between the extremes."""
    notes: tuple[str, ...] = ()
    explained: float = 1.0
    """The share of what moves that the arm explains."""

    def reading(self) -> Reading:
        """What it shows."""
        return read(self.position, self.confidence, self.capture_hz)

    def at_s(self, frames: F64) -> F64:
        """Times of frames with fractions; the clock must be known."""
        if self.time_s is None:
            raise ValueError("the rate of capture is unknown")
        return np.interp(frames, np.arange(len(self.position)), self.time_s)

    def aligned(self, reading: Reading, log: IoLog) -> Alignment:
        """Where the film lies on the clock of its I/O, and the command of each seek."""
        if self.time_s is None:
            why = "the film's clock is unknown without its rate of capture; give --rate HZ"
            return Alignment(None, why, (None,) * len(reading.seeks))
        ends = np.array([(one.start, one.end) for one in reading.seeks], np.float64).reshape(-1, 2)
        start_s, end_s = self.at_s(ends.T)
        return align(start_s, end_s, float(np.median(np.diff(self.time_s))), log)


def graph_of(found: Track, rate: Rate) -> Graph:
    """The graph of a clip that was tracked."""
    return Graph(
        found.clip.path.name, found.position, found.confidence, frame_times_s(found, rate), rate.capture_hz,
        rate.why, found.known_positions, float(np.degrees(found.swing_rad)), found.notes,
        found.explained,
    )  # fmt: skip


def read_graph(source: Path) -> Graph:
    """Reads the columns that `skylight camera track -o` wrote: the file, or the folder that has it."""
    import pyarrow as pa

    path = source / ARROW_NAME if source.is_dir() else source
    if not path.is_file():
        raise UsageError(f"{path}: no such file; make it with skylight camera track CLIP -o DIR")
    try:
        with pa.ipc.open_stream(path) as stream:
            head: dict[str, Any] = json.loads((stream.schema.metadata or {}).get(KEY, b"{}"))
            table = stream.read_all()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read; name the {ARROW_NAME} of camera track") from error
    if head.get("format") != FORMAT or table.column_names != list(COLUMNS):
        raise UsageError(f"{path}: is no head-position graph; name the {ARROW_NAME} of camera track")
    if head.get("schema") != SCHEMA or any(name not in head for name in HEAD):
        raise UsageError(f"{path}: is of another version; track {head['clip']['file']} again")
    position, confidence = (table[name].to_numpy().astype(np.float64) for name in ("position", "confidence"))
    time_s = None if head["capture_hz"] is None else table["time_s"].to_numpy().astype(np.float64)
    return Graph(
        str(head["clip"]["file"]), position, confidence, time_s, head["capture_hz"], str(head["capture_why"]),
        int(head["known_positions"]), float(head["swing_degrees"]), tuple(head["notes"]),
        float(head["explained"]),
    )  # fmt: skip
