"""Head trace of an emulated drive: position and purpose of every platter access, kept as columns.

The file is an Arrow IPC stream with a row for each platter access, followed by the drive's counters. Tracing
does not affect the drive: the suite sees the same engine, and the log is the same to the nanosecond. Only an
emulated drive has a head trace, and inference must not read it.

Invariants: rows are in time order and do not overlap; times are on the clock of the recording; an existing
file is never overwritten; after an interruption the file so far can be read.

Source: docs/architecture.md, "Five ideas that carry everything"; the format is in docs/recordings.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skylight.engines.sim import Drive, SimEngine
from skylight.errors import KeepError, UsageError, reason_of

FORMAT = "skylight-head-trace"
SCHEMA = 1
# The key of the JSON metadata, as in a recording.
KEY = b"skylight"
# Capacity for the accesses of one batch of commands, or of one pause; unused capacity costs nothing.
ROWS = 1 << 22

_COLUMNS = pa.schema(
    [
        ("start_ns", pa.uint64()),
        ("arrived_ns", pa.uint64()),
        ("transfer_ns", pa.uint64()),
        ("end_ns", pa.uint64()),
        ("track", pa.uint32()),
        ("end_track", pa.uint32()),
        ("surface", pa.uint16()),
        ("purpose", pa.dictionary(pa.uint8(), pa.string())),
    ]
)


class TraceableDrive(Drive, Protocol):
    """A drive that can trace its head."""

    def start_trace(self, rows: int) -> None:
        """Traces the next platter accesses, up to `rows`."""

    def take_trace(self) -> dict[str, Any]:
        """Ends the trace: columns by name."""


class HeadTraceFile:
    """Writes a trace. Use it as a context manager around everything to trace."""

    def __init__(self, path: Path, engine: SimEngine) -> None:
        """Creates the file and traces everything that this engine does from now on."""
        self.path = path
        self.rows = 0
        self.lost = 0
        """Number of accesses beyond the capacity."""
        self._engine, self._drive = engine, cast(TraceableDrive, engine.drive)
        facts = engine.describe()
        meta = {"format": FORMAT, "schema": SCHEMA, "target": facts.name, "declared": dict(facts.declared)}
        self._schema = _COLUMNS.with_metadata({KEY: json.dumps(meta, sort_keys=True).encode()})
        try:
            self._file: IO[bytes] = path.open("xb")
        except FileExistsError as error:
            raise UsageError(f"{path}: already exists; choose another name") from error
        except OSError as error:
            raise self._unkept(error) from error
        options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        self._stream = pa.ipc.new_stream(self._file, self._schema, options=options)
        self._drive.start_trace(ROWS)
        engine.after = self._hand_over

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the file with the counters; removes it if an error occurred before any command. The engine
        continues without the trace."""
        self._engine.after = None
        if isinstance(error, UsageError) and self.rows == 0:
            self._file.close()
            self.path.unlink(missing_ok=True)
            return
        try:
            self._end()
        except KeepError:
            if error is None:
                raise

    def summary(self) -> str:
        """The file and its number of rows, as text."""
        lacking = f"; {self.lost:,} more did not fit" if self.lost else ""
        return f"{self.path} ({self.rows:,} accesses{lacking})"

    def _end(self) -> None:
        self._hand_over()
        self._drive.take_trace()
        marker = {"ledger": self._drive.counters(), "rows": self.rows, "lost": self.lost}
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
        self._write(nothing, json.dumps(marker, sort_keys=True).encode())
        try:
            self._stream.close()
            os.fsync(self._file.fileno())
            self._file.close()
        except (OSError, pa.ArrowException) as error:
            raise self._unkept(error) from error

    def _hand_over(self) -> None:
        """Appends the accesses since the last call."""
        kept = self._drive.take_trace()
        self._drive.start_trace(ROWS)
        self.lost += kept["lost"]
        count = len(kept["start_ns"])
        if count == 0:
            return
        self.rows += count
        plain = [pa.array(cast(NDArray[np.generic], kept[name])) for name in _COLUMNS.names[:-1]]
        purpose = pa.DictionaryArray.from_arrays(pa.array(kept["purpose"]), pa.array(kept["purposes"]))
        self._write(pa.RecordBatch.from_arrays([*plain, purpose], schema=self._schema))

    def _write(self, batch: pa.RecordBatch, marker: bytes | None = None) -> None:
        try:
            self._stream.write_batch(batch, custom_metadata=None if marker is None else {KEY: marker})
            self._file.flush()
        except (OSError, pa.ArrowException) as error:
            raise self._unkept(error) from error

    def _unkept(self, error: OSError | pa.ArrowException) -> KeepError:
        reason = reason_of(error)
        return KeepError(
            f"{self.path}: the head trace cannot be written: {reason}; give --head-trace another place"
        )
