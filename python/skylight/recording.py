"""Recordings: evidence kept on disk as it comes, readable anywhere, resumable after a cut.

A recording is a directory: `recording.json` (what was probed, with what options and seed) and one Arrow IPC
stream file a test and part, `TEST.PART.arrows`. A session appends to one part; resuming opens the next.
`docs/recordings.md` describes the format for readers that are not Skylight.

Invariants:
- Each batch is flushed to the file as it comes; a cut loses at most the step that was running.
- The same run of an emulated drive gives the same bytes: no clock, path or host of the machine is kept.
- `recording.json` appears whole or not at all (written aside, synced, renamed).
- Reading trusts nothing: what is not a recording of this version, whole up to its tail, is refused in one
  line.

Source: docs/architecture.md, idea 3; Apache Arrow columnar format, "IPC Streaming Format".
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa

from skylight import __version__
from skylight.errors import KeepError, UsageError
from skylight.evidence import LOG_COLUMNS, Evidence, IoLog, JsonScalar, Op, Step, StepKind, TargetFacts

SCHEMA = 1
HEADER = "recording.json"
RECORDING_DIR = "recording"
RECORDING_FORMAT = "skylight-recording"
EVIDENCE_FORMAT = "skylight-evidence"
KEY = b"skylight"
STEP_KINDS: tuple[StepKind, ...] = ("run", "pause", "settings", "erase")
LATEST_NS = 1 << 62  # 146 years: no monotonic clock shows more
LONGEST_PAUSE_S = 1e9

_PART = re.compile(r"([a-z][a-z0-9_]*)\.([0-9]+)\.arrows")
_PACKED = np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in LOG_COLUMNS.items()])
_COLUMNS: dict[str, type[np.unsignedinteger[Any]]] = {"step": np.uint16, **LOG_COLUMNS}
_ARROW_SCHEMA = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in _COLUMNS.items()]
)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _kept(error: OSError | pa.ArrowException, path: Path) -> KeepError:
    """The one line for evidence that cannot be written."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return KeepError(
            f"{path}: no space left for the evidence; free some or choose another --out, then --resume"
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return KeepError(f"{path}: no permission to write the evidence; choose another --out")
    reason = os.strerror(number) if number else str(error)
    return KeepError(f"{path}: the evidence cannot be written: {reason}; choose another --out")


def log_crc32(log: IoLog, start: int = 0) -> int:
    """CRC-32 of the log's rows, row by row packed little-endian in column order, continuing from `start`."""
    packed = np.empty(len(log), dtype=_PACKED)
    for name in LOG_COLUMNS:
        packed[name] = getattr(log, name)
    return zlib.crc32(packed.view(np.uint8).data, start)


class PartWriter:
    """Appends the steps of one test to one part file. Use as a context manager."""

    def __init__(self, path: Path, run: str, test: str, part: int, first_step: int) -> None:
        """Creates the part file; `first_step` is the number of steps that earlier parts hold."""
        self.path = path
        self._next_step = first_step
        self._rows = 0
        self._crc32 = 0
        self._broken = False
        meta = {"format": EVIDENCE_FORMAT, "schema": SCHEMA, "run": run, "test": test, "part": part}
        schema = _ARROW_SCHEMA.with_metadata({KEY: _canonical(meta).encode()})
        try:
            self._file: IO[bytes] = path.open("xb")
            self._stream = pa.ipc.new_stream(
                self._file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
            )
        except (OSError, pa.ArrowException) as error:
            raise _kept(error, path) from error
        self._schema = schema

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

    def _write(self, marker: Mapping[str, Any], log: IoLog | None = None) -> None:
        count = 0 if log is None else len(log)
        arrays = [pa.array(np.full(count, self._next_step, np.uint16))]
        for name, kind in LOG_COLUMNS.items():
            arrays.append(pa.array(np.empty(0, kind) if log is None else getattr(log, name)))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        try:
            self._stream.write_batch(batch, custom_metadata={KEY: _canonical(marker).encode()})
            self._file.flush()
        except (OSError, pa.ArrowException) as error:
            self._broken = True
            raise _kept(error, self.path) from error

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
        self._write(marker)

    def rows(self, log: IoLog) -> None:
        """Adds I/Os to the open step."""
        self._write({"event": "rows", "step": self._next_step}, log)
        self._rows += len(log)
        self._crc32 = log_crc32(log, self._crc32)

    def end(self) -> None:
        """Closes the step: from here on it counts as done."""
        self._write({"event": "end", "step": self._next_step, "rows": self._rows, "crc32": self._crc32})
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
                self._stream.close()
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
        except (OSError, pa.ArrowException) as error:
            raise _kept(error, self.path) from error


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

    def end(self) -> None:
        """Never called: no step is open."""

    def complete(self) -> None:
        """The test is complete already."""


@dataclass(slots=True)
class _PartReader:
    """Reads one part file, checking every marker and row against what a writer can have written."""

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

    def refuse(self, what: str, mend: str = "probe the target again") -> UsageError:
        return UsageError(f"{self.path}: {what}; {mend}")

    def read(self) -> None:
        """Reads all whole steps; a truncated tail leaves a note."""
        try:
            source = pa.OSFile(os.fsencode(self.path), "rb")
        except OSError as error:
            raise self.refuse(
                f"cannot be read: {os.strerror(error.errno or 0)}", "check its permissions"
            ) from error
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
            try:
                for batch, marker in stream.iter_batches_with_custom_metadata():
                    self._take(batch, marker)
            except (OSError, pa.ArrowException):
                self.note = (
                    f"{self.path.name} is cut off after {len(self.steps)} whole steps; the rest is not used"
                )
        self._check_logs(self.steps)
        if self._open is None:
            return
        if self.note is None:
            self.note = f"{self.path.name} stops inside step {self._open['name']!r}, which is not used"
        log = IoLog.joined(self._logs)
        self.cut = Step(self._open["name"], self._open["kind"], self._open["params"], log)
        self._check_logs([self.cut])

    def _check_schema(self, schema: pa.Schema) -> None:
        meta = _json_object((schema.metadata or {}).get(KEY))
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
            if index < 0:
                raise self.refuse(f"lacks the column {name!r}")
            if schema.field(index).type != pa.from_numpy_dtype(kind):
                raise self.refuse(
                    f"column {name!r} has type {schema.field(index).type}, not {np.dtype(kind)}"
                )
        self._columns = tuple(map(schema.get_field_index, _COLUMNS))

    def _take(self, batch: pa.RecordBatch, metadata: Any) -> None:
        """One batch: what its marker says, checked against what came before."""
        marker = _json_object(metadata[KEY] if metadata is not None and KEY in metadata else None)
        event = None if marker is None else marker.get("event")
        if marker is None or event not in ("begin", "rows", "end", "complete"):
            raise self.refuse("holds a batch that no step explains")
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
        self.steps.append(Step(opened["name"], opened["kind"], opened["params"], kept))
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
        wrong = {
            "an unknown operation": log.op > max(Op),
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


def _json_object(raw: bytes | None) -> dict[str, Any] | None:
    """A JSON object from bytes, or None for anything else."""
    try:
        value = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording directory: what was probed and how, and a way to its evidence."""

    path: Path
    target: TargetFacts
    options: dict[str, JsonScalar]
    seed: int
    run: str

    @staticmethod
    def create(path: Path, target: TargetFacts, options: Mapping[str, JsonScalar], seed: int) -> Recording:
        """Starts a recording in the directory `path`."""
        if _own_files(path):
            raise UsageError(
                f"{path}: holds a recording already; go on with --resume or choose another --out"
            )
        header: dict[str, Any] = {
            "format": RECORDING_FORMAT,
            "schema": SCHEMA,
            "tool": __version__,
            "target": target.to_json(),
            "options": dict(options),
            "seed": seed,
        }
        if target.kind not in ("sim", "fio-log"):  # a log does not say when it was made
            header["recorded"] = datetime.now(UTC).isoformat(timespec="seconds")
        header["run"] = hashlib.sha256(_canonical(header).encode()).hexdigest()[:16]
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / HEADER, json.dumps(header, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise _kept(error, path) from error
        return Recording(path, target, dict(options), seed, header["run"])

    @staticmethod
    def open(path: Path) -> Recording:
        """Opens the recording in directory `path` for reading or resuming."""
        header = _read_header(path)
        target = header["target"]
        facts = TargetFacts(
            target["kind"], target["name"], target["size_bytes"], target["block_bytes"], target["declared"]
        )
        return Recording(path, facts, header["options"], header["seed"], header["run"])

    def check_same_run(self, target: TargetFacts, options: Mapping[str, JsonScalar], seed: int) -> None:
        """Refuses to resume with other options, another seed or another target."""
        for name, value in {**options, "seed": seed}.items():
            kept = self.seed if name == "seed" else self.options.get(name)
            if kept == value:
                continue
            if name == "writes":
                how = "with" if kept else "without"
                raise UsageError(
                    f"{self.path}: was begun {how} --destroy-data; resume {how} it, or leave out --resume and"
                    " choose another --out"
                )
            if name == "suite":
                raise UsageError(
                    f"{self.path}: was begun with another version of the tests; finish it with that one, or"
                    " leave out --resume and choose another --out"
                )
            if name in ("only", "quick"):
                begun = {"": "without --only", False: "without --quick", True: "with --quick"}
                how = begun.get(kept if isinstance(kept, str | bool) else "", f"with --only {kept}")
                raise UsageError(f"{self.path}: was begun {how}; resume it likewise, or choose another --out")
            raise UsageError(
                f"{self.path}: was begun with {name} {kept!r}, not {value!r}; resume with the same"
            )
        if _identity(target) != _identity(self.target):
            raise UsageError(
                f"{self.path}: records {self.target.name}, not {target.name} as it is now; choose another"
                " --out"
            )

    @staticmethod
    def is_begun(path: Path) -> bool:
        """Whether the directory `path` holds a recording that can be gone on with; False for one without any
        of its files. Parts without a header are refused."""
        own = _own_files(path)
        if own and not (path / HEADER).exists():
            raise UsageError(
                f"{path}: holds evidence but no {HEADER}, so it cannot be gone on with; put that back or"
                " choose another --out"
            )
        return bool(own)

    @staticmethod
    def forget_unused(path: Path) -> None:
        """Removes the recording in the directory `path` if none of its steps is whole, and nothing else."""
        try:
            recording = Recording.open(path)
            tests = {test for _, test, _ in recording._files()}
            kept = [recording.evidence(test) for test in tests]
        except UsageError:
            return
        if any(evidence is not None and evidence.steps for evidence in kept):
            return
        with suppress(OSError):
            for file in _own_files(path):
                file.unlink()
            path.rmdir()

    def is_complete(self, test: str) -> bool:
        """Whether a test was run to its end."""
        evidence = self.evidence(test)
        return evidence is not None and evidence.complete

    def parts(self, test: str) -> list[Path]:
        """The part files of a test, in order."""
        return [path for _, name, path in self._files() if name == test]

    def _files(self) -> list[tuple[int, str, Path]]:
        found = []
        for path in self.path.glob("*.arrows"):
            match = _PART.fullmatch(path.name)
            if match is None:
                raise UsageError(
                    f"{path}: is not named like a part of a recording (TEST.PART.arrows); move it away"
                )
            found.append((int(match[2]), match[1], path))
        return sorted(found)

    def check_known(self, tests: list[str]) -> None:
        """Refuses part files of tests that this version does not know."""
        for _, name, path in self._files():
            if name not in tests:
                raise UsageError(f"{path}: no test is called {name!r} here; use the version that wrote it")

    def part(self, test: str) -> PartWriter:
        """A writer for the next part of a test."""
        before = self.evidence(test)
        number = len(self.parts(test))
        first_step = 0 if before is None else len(before.steps)
        return PartWriter(self.path / f"{test}.{number}.arrows", self.run, test, number, first_step)

    def evidence(self, test: str) -> Evidence | None:
        """The whole steps of a test over all its parts; None if it was never begun."""
        numbered = [(number, path) for number, name, path in self._files() if name == test]
        if not numbered:
            return None
        evidence = Evidence(test, self.target)
        for expected, (number, path) in enumerate(numbered):
            if number != expected:
                raise UsageError(
                    f"{self.path / f'{test}.{expected}.arrows'}: this part is missing; put it back"
                )
            reader = _PartReader(path, self.target, self.run, test, number, len(evidence.steps))
            reader.read()
            evidence.steps.extend(reader.steps)
            evidence.complete = reader.complete
            if reader.cut is not None:
                evidence.cut.append(reader.cut)
            if reader.note:
                evidence.notes.append(reader.note)
        names = [step.name for step in evidence.steps]
        if len(set(names)) != len(names):
            raise UsageError(f"{self.path}: test {test} holds a step twice; do not mix files of recordings")
        return evidence


def recording_dir(path: Path) -> Path:
    """The directory of a recording: `path`, or its folder of that name if `path` is what --out named."""
    inside = path / RECORDING_DIR
    return inside if not os.path.exists(path / HEADER) and os.path.exists(inside / HEADER) else path


def _own_files(path: Path) -> list[Path]:
    """Header and parts in the directory `path`; none when it is not there."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return [path / name for name in names if name == HEADER or _PART.fullmatch(name)]


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be read: {os.strerror(error.errno or 0)}; check its permissions")


def _identity(target: TargetFacts) -> dict[str, object]:
    """What must stay the same for a recording to go on: an emulated drive wholly, a device by model and
    serial (without a serial by its name too), a file by its path and number."""
    if target.kind == "sim":
        return target.to_json()
    if target.kind == "file":
        names: tuple[str, ...] = ("file", "inode")
    elif target.declared.get("serial") is not None:
        names = ("model", "serial")
    else:
        names = ("model", "kernel_name")
    declared = {name: target.declared.get(name) for name in names}
    return {
        "kind": target.kind, "size_bytes": target.size_bytes, "block_bytes": target.block_bytes, **declared
    }  # fmt: skip


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or not at all."""
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _read_header(path: Path) -> dict[str, Any]:
    """`recording.json`, checked key by key."""
    file = path / HEADER
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise UsageError(f"{path}: is not a folder; give the directory that --out named")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such recording; give the directory that --out named") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        header = _json_object(file.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"{path}: is not a recording: it holds no {HEADER}") from error
    except OSError as error:
        raise _unreadable(file, error) from error
    if header is None or header.get("format") != RECORDING_FORMAT:
        raise UsageError(f"{file}: is not the header of a recording; give a directory that Skylight wrote")
    if header.get("schema") != SCHEMA:
        raise UsageError(
            f"{file}: has schema {header.get('schema')!r}, this Skylight reads {SCHEMA}; use the version"
            " that wrote it"
        )
    target = header.get("target")
    shape = {"kind": str, "name": str, "size_bytes": int, "block_bytes": int, "declared": dict}
    for name, kind in {"target": dict, "options": dict, "seed": int, "run": str}.items():
        if not isinstance(header.get(name), kind):
            raise UsageError(f"{file}: lacks {name!r} or it has the wrong type; probe the target again")
    assert isinstance(target, dict)
    for name, kind in shape.items():
        if not isinstance(target.get(name), kind):
            raise UsageError(
                f"{file}: lacks 'target.{name}' or it has the wrong type; probe the target again"
            )
    return header
