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
- The header is covered by a check sum, `run`; markers and rows of parts by theirs (`arrow_parts.py`).

Source: docs/architecture.md, idea 3; Apache Arrow columnar format, "IPC Streaming Format".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skylight import __version__
from skylight.byte_range import ByteRange
from skylight.errors import UsageError, reason_of
from skylight.evidence import Evidence, JsonScalar, TargetFacts
from skylight.recording.arrow_parts import (
    HEADER,
    SCHEMA,
    PartReader,
    PartWriter,
    SpentPart,
    canonical,
    json_object,
    not_kept,
)

RECORDING_DIR = "recording"
RECORDING_FORMAT = "skylight-recording"
RUN = "run"
"""The key of the header that every part repeats."""
FIO_JOBS = "fio"
"""The folder of fio's job files in a recording."""
MOST_BYTES = 2**63 - 1
"""The kernel counts the bytes of a device in 64 bits with a sign (`loff_t`)."""
MOST_SEED = 2**64 - 1
"""Generators take seeds of 64 bits."""
TARGET_KINDS = ("sim", "device", "file", "fio-log")
HEALTH = "health.jsonl"
"""Temperature and error counters of the disk, a line each time that it was looked at."""

_PART = re.compile(r"([a-z][a-z0-9_]*)\.([0-9]+)\.arrows")

__all__ = [
    "FIO_JOBS", "HEADER", "HEALTH", "RECORDING_DIR", "PartWriter", "Recording", "SpentPart", "recording_dir",
    "write_whole",
]  # fmt: skip


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
        header[RUN] = _run_of(header)
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / HEADER, json.dumps(header, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise not_kept(error, path) from error
        return Recording(path, target, dict(options), seed, header[RUN])

    @staticmethod
    def open(path: Path) -> Recording:
        """Opens the recording in directory `path` for reading or resuming."""
        header = _read_header(path)
        target = header["target"]
        facts = TargetFacts(
            target["kind"], target["name"], target["size_bytes"], target["block_bytes"], target["declared"]
        )
        return Recording(path, facts, header["options"], header["seed"], header[RUN])

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
        by_fio = self.target.declared.get("engine") is not None
        if by_fio != (target.declared.get("engine") is not None):
            how = "with" if by_fio else "without"
            raise UsageError(
                f"{self.path}: was begun {how} --engine fio; resume it likewise, or choose another --out"
            )
        begun_in = ByteRange.declared_by(self.target.declared)
        if begun_in != ByteRange.declared_by(target.declared):
            how = "without --range" if begun_in is None else f"with the --range {begun_in.words}"
            raise UsageError(f"{self.path}: was begun {how}; resume it likewise, or choose another --out")
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
            shutil.rmtree(path / FIO_JOBS, ignore_errors=True)
            (path / HEALTH).unlink(missing_ok=True)
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

    def part(self, test: str, *, together: int = 1) -> PartWriter:
        """A writer for the next part of a test; as many rows of a step go `together`."""
        before = self.evidence(test)
        number = len(self.parts(test))
        first_step = 0 if before is None else len(before.steps)
        path = self.path / f"{test}.{number}.arrows"
        return PartWriter(path, self.run, test, number, first_step, together=together)

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
            reader = PartReader(path, self.target, self.run, test, number, len(evidence.steps))
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
    return UsageError(f"{path}: cannot be read: {reason_of(error)}; check its permissions")


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
        header = json_object(file.read_bytes())
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
    if isinstance(header["seed"], bool) or not 0 <= header["seed"] <= MOST_SEED:
        raise UsageError(f"{file}: no run has 'seed' {header['seed']}; probe the target again")
    if target["kind"] not in TARGET_KINDS:
        raise UsageError(
            f"{file}: 'target.kind' {target['kind']!r} is none of {', '.join(TARGET_KINDS)}; probe the target"
            " again"
        )
    for name in ("size_bytes", "block_bytes"):
        if isinstance(target[name], bool) or not 0 < target[name] <= MOST_BYTES:
            raise UsageError(f"{file}: no drive has 'target.{name}' {target[name]}; probe the target again")
    if header[RUN] != _run_of(header):
        raise UsageError(
            f"{file}: is damaged or was changed: it differs from its check sum {RUN!r}; put the original"
            " back, or probe the target again"
        )
    return header


def _run_of(header: Mapping[str, Any]) -> str:
    """The name of a run: the first 64 bits of the SHA-256 of its header without it; so it is also the
    header's check sum."""
    bare = {name: value for name, value in header.items() if name != RUN}
    return hashlib.sha256(canonical(bare).encode(errors="surrogatepass")).hexdigest()[:16]
