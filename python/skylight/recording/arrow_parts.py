"""The part files of a recording: one Arrow IPC stream of a test's steps each, written and read.

Invariants:
- Each batch is flushed to the file as it is written, or, where rows go together, as its step ends; a cut
  loses at most the step that was running.
- Reading trusts nothing: what is not a part of this version, whole up to its tail, is refused in one line.
- A cut is told from damage: nothing follows a cut. Arrow has no check sums, so rows and markers have ours.

Source: Apache Arrow columnar format, "IPC Streaming Format"; docs/recordings.md.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa

from skylight.errors import KeepError, UsageError, reason_of
from skylight.evidence import FAILURES, LOG_COLUMNS, IoLog, JsonScalar, Op, Step, StepKind, TargetFacts

SCHEMA = 1
HEADER = "recording.json"
EVIDENCE_FORMAT = "skylight-evidence"
KEY = b"skylight"
STEP_KINDS: tuple[StepKind, ...] = ("run", "pause", "settings", "erase", "bound", "zones")
LATEST_NS = 1 << 62  # 146 years: no monotonic clock shows more
LONGEST_PAUSE_S = 1e9

CHECK = "check"
"""The key of a marker's check sum, which recordings of before it lack."""
_MESSAGE = b"\xff\xff\xff\xff"
"""Each message of a stream begins with these bytes."""
_END = _MESSAGE + bytes(4)
"""A stream that its writer closed ends with these bytes."""

FEW_ROWS, SOME_ROWS = 32, 512
"""Rows of a batch that is not compressed, and of one that is by LZ4; one of more is by zstd. Chosen: 32 are
about what a disk does in half a second of random I/O. To compress seven columns by zstd and unpack them costs
130 us, many times all else that a short batch does, and a tenth of a test with thousands of steps; without
that one row takes a fifth less of the file, and 32 rows take 0.8 KiB more. LZ4 costs 20 us, and takes 0.5 KiB
more of a hundred rows."""

OPTIONAL = "result"
"""The column that a recording lacks that was made before targets with zones: every I/O was done."""

_PACKED = np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in LOG_COLUMNS.items()])
_PACKED_DONE = np.dtype([(name, _PACKED[name]) for name in LOG_COLUMNS if name != OPTIONAL])
_COLUMNS: dict[str, type[np.unsignedinteger[Any]]] = {"step": np.uint32, **LOG_COLUMNS}
_EARLIER = {"step": pa.uint16()}
"""The type of a column in recordings of earlier versions, whose tests had no more than 65,536 steps."""
_ARROW_SCHEMA = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in _COLUMNS.items()]
)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> str:
    """JSON in its one form, for digests."""
    return _CANONICAL.encode(value)  # not dumps, which makes an encoder each time


def not_kept(error: OSError | pa.ArrowException, path: Path) -> KeepError:
    """The one line for evidence that cannot be written."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return KeepError(
            f"{path}: no space left for the evidence; free some or choose another --out, then --resume"
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return KeepError(f"{path}: no permission to write the evidence; choose another --out")
    return KeepError(f"{path}: the evidence cannot be written: {reason_of(error)}; choose another --out")


def log_crc32(log: IoLog, start: int = 0) -> int:
    """CRC-32 of the log's rows, row by row packed little-endian in column order, continuing from `start`;
    without the results where all are done."""
    packed = np.empty(len(log), dtype=_PACKED if log.result.any() else _PACKED_DONE)
    for name in packed.dtype.fields or ():
        packed[name] = getattr(log, name)
    return zlib.crc32(packed.view(np.uint8).data, start)


def marker_crc32(marker: Mapping[str, Any], before: int) -> int:
    """CRC-32 of a marker in its one form without `CHECK`, continuing from `before`, that of the marker before
    it in the part (0 for the first)."""
    bare = {name: value for name, value in marker.items() if name != CHECK}
    return zlib.crc32(canonical(bare).encode(), before)


def _is_cut(rest: bytes) -> bool:
    """Whether a file that cannot be read from `rest` on was cut off there, and not damaged: nothing that a
    writer wrote later follows. Zeros are what some file systems leave where a power cut lost a tail."""
    if not rest.strip(b"\0"):
        return True
    if rest.endswith(_END):
        return False
    buffer = pa.py_buffer(rest)
    at = rest.find(_MESSAGE, 1)
    while at >= 0:
        try:
            pa.ipc.read_message(buffer.slice(at))
        except (EOFError, OSError, pa.ArrowException):
            at = rest.find(_MESSAGE, at + 1)
        else:
            return False
    return True


class _Messages:
    """The messages of batches in one way of compressing, for a stream whose schema stands in its file."""

    def __init__(self, schema: pa.Schema, compression: str | None) -> None:
        """Of batches of this schema."""
        self._sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._stream = pa.ipc.new_stream(self._sink, schema, options=options)
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))  # the schema comes with it

    def message(self, batch: pa.RecordBatch, metadata: Mapping[bytes, bytes]) -> bytes:
        """The message of a batch."""
        self._sink.seek(0)
        self._sink.truncate()
        self._stream.write_batch(batch, custom_metadata=metadata)
        return self._sink.getvalue()


class PartWriter:
    """Appends the steps of one test to one part file. Use as a context manager."""

    def __init__(
        self, path: Path, run: str, test: str, part: int, first_step: int, *, together: int = 1
    ) -> None:
        """Creates the part file; `first_step` is the number of steps that earlier parts hold. The rows of a
        step are kept back until there are as many as go `together`, or the step ends."""
        self.path = path
        self._together = together
        self._kept_back: list[IoLog] = []
        self._rows_kept_back = 0
        self._next_step = first_step
        self._rows = 0
        self._crc32 = 0
        self._check = 0
        self._broken = False
        meta = {"format": EVIDENCE_FORMAT, "schema": SCHEMA, "run": run, "test": test, "part": part}
        schema = _ARROW_SCHEMA.with_metadata({KEY: canonical(meta).encode()})
        try:
            self._file: IO[bytes] = path.open("xb")
            self._stream = pa.ipc.new_stream(
                self._file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
            )
        except (OSError, pa.ArrowException) as error:
            raise not_kept(error, path) from error
        self._schema = schema
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._short = (_Messages(schema, None), _Messages(schema, "lz4"))
        self._begun = False

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the stream; a failure to do so does not hide the error that led here."""
        try:
            self.close()
        except KeepError:
            if error is None:
                raise

    def _write(self, marker: Mapping[str, Any], log: IoLog | None = None, *, flush: bool = True) -> None:
        batch = self._no_rows
        if log is not None:
            columns = (np.full(len(log), self._next_step, np.uint32), *(getattr(log, n) for n in LOG_COLUMNS))
            batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=self._schema)
        bare = canonical(marker)
        self._check = zlib.crc32(bare.encode(), self._check)
        # In its one form with `CHECK`, which comes before all other keys.
        metadata = {KEY: f'{{"{CHECK}":{self._check},{bare[1:]}'.encode()}
        try:
            if self._begun and batch.num_rows <= SOME_ROWS:
                messages = self._short[batch.num_rows > FEW_ROWS]
                self._file.write(messages.message(batch, metadata))
            else:  # the first brings the schema
                self._stream.write_batch(batch, custom_metadata=metadata)
                self._begun = True
            if flush:
                self._file.flush()
        except (OSError, pa.ArrowException) as error:
            self._broken = True
            raise not_kept(error, self.path) from error

    def begin(self, name: str, kind: StepKind, params: Mapping[str, JsonScalar]) -> None:
        """Opens a step."""
        self._rows = self._crc32 = 0
        marker = {
            "event": "begin",
            "step": self._next_step,
            "name": name,
            "kind": kind,
            "params": dict(params),
        }
        self._write(marker, flush=self._together == 1)

    def rows(self, log: IoLog) -> None:
        """Adds I/Os to the open step."""
        self._kept_back.append(log)
        self._rows_kept_back += len(log)
        if self._together == 1 or self._rows_kept_back >= self._together:
            self._write_rows()

    def _write_rows(self) -> None:
        """Writes the rows that were kept back."""
        if not self._kept_back:
            return
        log = IoLog.joined(self._kept_back)
        self._kept_back, self._rows_kept_back = [], 0
        self._write({"event": "rows", "step": self._next_step}, log, flush=self._together == 1)
        self._rows += len(log)
        self._crc32 = log_crc32(log, self._crc32)

    def end(self, host: Mapping[str, int] | None = None) -> None:
        """Closes the step: from here on it counts as done. `host` is what the host added to its time."""
        self._write_rows()
        end = {"event": "end", "step": self._next_step, "rows": self._rows, "crc32": self._crc32}
        self._write(end if host is None else {**end, "host": dict(host)})
        self._next_step += 1

    def complete(self) -> None:
        """Marks the test as complete."""
        self._write({"event": "complete", "step": self._next_step})

    def close(self) -> None:
        """Ends the stream and syncs the file."""
        if self._file.closed:
            return
        try:
            if not self._broken:
                self._write_rows()
                self._stream.close()
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
        except (OSError, pa.ArrowException) as error:
            raise not_kept(error, self.path) from error


class SpentPart:
    """In place of a writer for a test that is complete: nothing can be added to it."""

    def __init__(self, path: Path) -> None:
        """`path` is the recording's directory."""
        self.path = path / HEADER

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing to end."""

    def begin(self, name: str, kind: StepKind, params: Mapping[str, JsonScalar]) -> None:
        """Refuses: a step more means that another drive, seed or version wrote what is there."""
        del kind, params
        raise UsageError(
            f"{self.path.parent}: holds no step {name!r}: another drive, seed or version wrote it; choose"
            " another --out"
        )

    def rows(self, log: IoLog) -> None:
        """Never called: no step is open."""
        del log

    def end(self, host: Mapping[str, int] | None = None) -> None:
        """Never called: no step is open."""
        del host

    def complete(self) -> None:
        """The test is complete already."""


@dataclass(slots=True)
class PartReader:
    """Reads one part file, checking every marker and row against what a writer can have written.

    More than 15 fields: what identifies the part, what was read, and the state between two batches."""

    path: Path
    target: TargetFacts
    run: str
    test: str
    part: int
    next_step: int
    steps: list[Step] = field(default_factory=list)
    complete: bool = False
    note: str | None = None
    cut: Step | None = None
    _columns: tuple[int, ...] = ()  # of the stream: step, then those of a log
    _open: dict[str, Any] | None = None
    _logs: list[IoLog] = field(default_factory=list)
    _crc32: int = 0
    _check: int | None = None  # of the last marker
    _has_checks: bool = False

    def refuse(self, what: str, mend: str = "probe the target again") -> UsageError:
        """The one line for a file that cannot be used."""
        return UsageError(f"{self.path}: {what}; {mend}")

    def read(self) -> None:
        """Reads all whole steps; a truncated tail leaves a note."""
        try:
            source = pa.OSFile(os.fsencode(self.path), "rb")
        except OSError as error:
            raise self.refuse(f"cannot be read: {reason_of(error)}", "check its permissions") from error
        with source:
            if source.size() == 0:
                self.note = f"{self.path.name} is empty; nothing of it is used"
                return
            try:
                # Batches are small: to hand each column to a thread costs more than to unpack it.
                stream = pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(use_threads=False))
            except (OSError, pa.ArrowException) as error:
                raise self.refuse(
                    "is not an Arrow IPC stream", "give a directory that Skylight wrote"
                ) from error
            self._check_schema(stream.schema)
            self._take_all(stream, source)
        self._check_logs(self.steps)
        if self._open is None:
            return
        if self.note is None:
            self.note = f"{self.path.name} stops inside step {self._open['name']!r}, which is not used"
        log = IoLog.joined(self._logs)
        self.cut = Step(self._open["name"], self._open["kind"], self._open["params"], log)
        self._check_logs([self.cut])

    def _take_all(self, stream: pa.RecordBatchStreamReader, source: pa.NativeFile) -> None:
        """All batches of the stream over `source`; what is behind them is a cut, or refused."""
        whole = source.tell()
        try:
            for batch, marker in stream.iter_batches_with_custom_metadata():
                self._take(batch, marker)
                whole = source.tell()
            whole = source.tell()  # behind the end of the stream, if it has one
        except (OSError, pa.ArrowException):
            pass
        else:
            if whole == source.size():
                return
        source.seek(whole - len(_END))
        closed = source.read(len(_END)) == _END
        if closed or not _is_cut(source.read()):
            raise self.refuse(
                f"is damaged after {len(self.steps)} whole steps: what follows is not evidence, and was not"
                " cut off",
                "put a copy back, or probe the target again",
            )
        self.note = f"{self.path.name} is cut off after {len(self.steps)} whole steps; the rest is not used"

    def _check_schema(self, schema: pa.Schema) -> None:
        meta = json_object((schema.metadata or {}).get(KEY))
        if meta is None or meta.get("format") != EVIDENCE_FORMAT:
            raise self.refuse(
                "is an Arrow stream but not evidence of Skylight", "give a directory that Skylight wrote"
            )
        if meta.get("schema") != SCHEMA:
            raise self.refuse(
                f"has schema {meta.get('schema')!r}, this Skylight reads {SCHEMA}",
                "use the version that wrote it",
            )
        if meta.get("run") != self.run:
            raise self.refuse(f"belongs to another recording than {HEADER}", "do not mix files of recordings")
        if (meta.get("test"), meta.get("part")) != (self.test, self.part):
            raise self.refuse(
                f"was written as {meta.get('test')}.{meta.get('part')}.arrows", "give it back its name"
            )
        for name, kind in _COLUMNS.items():
            index = schema.get_field_index(name)
            if index < 0 and name == OPTIONAL:
                continue
            if index < 0:
                raise self.refuse(f"lacks the column {name!r}")
            if schema.field(index).type not in (pa.from_numpy_dtype(kind), _EARLIER.get(name)):
                raise self.refuse(
                    f"column {name!r} has type {schema.field(index).type}, not {np.dtype(kind)}"
                )
        indices = map(schema.get_field_index, _COLUMNS)
        self._columns = tuple(index for index in indices if index >= 0)

    def _take(self, batch: pa.RecordBatch, metadata: Any) -> None:
        """One batch: what its marker says, checked against what came before."""
        raw = metadata[KEY] if metadata is not None and KEY in metadata else None
        marker = json_object(raw)
        event = None if marker is None else marker.get("event")
        if raw is None or marker is None or event not in ("begin", "rows", "end", "complete"):
            raise self.refuse("holds a batch that no step explains")
        self._check_marker(marker, raw)
        if (
            self.complete
            or marker.get("step") != self.next_step
            or (event in ("rows", "end")) != (self._open is not None)
        ):
            raise self.refuse("its steps are not in order", "do not mix or rename files of recordings")
        if event == "begin":
            self._check_begin(marker)
            self._open, self._logs, self._crc32 = marker, [], 0
        elif event == "rows":
            self._logs.append(self._rows(batch))
            self._crc32 = log_crc32(self._logs[-1], self._crc32)
        elif event == "end":
            self._end(marker)
        else:
            self.complete = True

    def _check_marker(self, marker: dict[str, Any], raw: bytes) -> None:
        """Check sums are in all markers of a part or in none. A marker as it is written begins with its own,
        and needs not be put into that form for it."""
        if self._check is None:
            self._check, self._has_checks = 0, CHECK in marker
        head, _, rest = raw.partition(b",")
        check = marker.get(CHECK)
        as_written = self._has_checks and head == f'{{"{CHECK}":{check}'.encode()
        if as_written and zlib.crc32(b"{" + rest, self._check) == check:
            self._check = check
            return
        self._check = marker_crc32(marker, self._check)
        if marker.get(CHECK) != (self._check if self._has_checks else None):
            raise self.refuse(f"is damaged: a marker of step {self.next_step} differs from its check sum")

    def _check_begin(self, marker: dict[str, Any]) -> None:
        name, kind, params = marker.get("name"), marker.get("kind"), marker.get("params")
        if not isinstance(name, str) or kind not in STEP_KINDS or not isinstance(params, dict):
            raise self.refuse(f"step {marker.get('step')} has no name, kind or params")
        for key, value in params.items():
            scalar = value is None or isinstance(value, str | int | float)
            if not scalar or (isinstance(value, float) and not math.isfinite(value)):
                raise self.refuse(f"step {name!r} has no usable {key!r}: {value!r}")
        seconds = params.get("seconds")
        if kind == "pause" and not (isinstance(seconds, int | float) and 0 <= seconds <= LONGEST_PAUSE_S):
            raise self.refuse(f"step {name!r} has no usable 'seconds': {seconds!r}")

    def _rows(self, batch: pa.RecordBatch) -> IoLog:
        columns = batch.columns
        if any(columns[index].null_count for index in self._columns):
            raise self.refuse("holds rows with missing values")
        step, *log = (columns[index].to_numpy() for index in self._columns)
        if not (step == self.next_step).all():
            raise self.refuse("holds rows of another step than its marker says")
        return IoLog(*log)

    def _end(self, marker: dict[str, Any]) -> None:
        opened = self._open
        assert opened is not None
        log = IoLog.joined(self._logs)
        if marker.get("rows") != len(log) or marker.get("crc32", self._crc32) != self._crc32:
            raise self.refuse(f"step {opened['name']!r} is damaged: its rows differ from its check sum")
        kept = log if opened["kind"] == "run" else None
        host = marker.get("host", {})
        if not isinstance(host, dict) or not all(_is_time(value) for value in host.values()):
            raise self.refuse(f"step {opened['name']!r} has no usable 'host': {host!r}")
        self.steps.append(Step(opened["name"], opened["kind"], opened["params"], kept, host))
        self.next_step += 1
        self._open = None

    def _check_logs(self, steps: Sequence[Step]) -> None:
        """What no engine can have written is refused: rows of all steps at once, of which there are many."""
        steps = [step for step in steps if len(step.rows)]
        if not steps:
            return
        log = IoLog.joined([step.rows for step in steps])
        begins = np.cumsum([0, *(len(step.rows) for step in steps[:-1])])
        early = np.zeros(len(log), bool)
        early[1:] = log.submit_ns[1:] < log.submit_ns[:-1]
        early[begins] = False
        size = np.uint64(self.target.size_bytes)
        placed = ~log.failed & (log.result > 0)
        wrong = {
            "an unknown operation": log.op > max(Op),
            "a result that no I/O has": (log.failed & (log.result > max(FAILURES)))
            | (placed & ((log.op != int(Op.APPEND)) | (log.result + log.size > size))),
            "a time that no clock shows": log.complete_ns > LATEST_NS,
            "an I/O that completes before it was submitted": log.complete_ns < log.submit_ns,
            "I/Os that are not in the order they were submitted": early,
            f"an I/O past the end of {self.target.name} ({size} bytes)": (log.offset > size)
            | (log.offset + log.size > size),
        }
        for what, rows in wrong.items():
            if rows.any():
                step = steps[int(np.searchsorted(begins, np.argmax(rows), side="right")) - 1]
                raise self.refuse(f"step {step.name!r} holds {what}")


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LATEST_NS


def json_object(raw: bytes | None) -> dict[str, Any] | None:
    """A JSON object from bytes, or None for anything else."""
    try:
        value = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
