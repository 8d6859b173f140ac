"""Skylight from Python: ``import skylight as sl``.

What for: notebooks and scripts. The command line's verbs as functions, with numpy columns: open a drive and
run I/O on it, probe it, read a recording, serve it. docs/python.md shows each.

Invariants:
- Nothing is done here: engines measure, the suite infers, the report shows, the native module serves.
- What a person would read as one line is raised as `SkylightError`, with that line as its text.
- Data is destroyed only where a call says ``destroy_data=True``; emulated drives need no permission.

Source: docs/architecture.md, "Five ideas that carry everything", 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import finalize

from numpy.typing import ArrayLike

from skylight.engines import Engine, open_target
from skylight.engines.sim import profile_names, read_profile
from skylight.errors import KeepError, SkylightError, TargetError, UsageError, serve_error
from skylight.evidence import LOG_COLUMNS, Evidence, IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts
from skylight.findings import Finding, findings_json
from skylight.probe import Figure
from skylight.probe.progress import Progress
from skylight.probe.suite import (
    SuiteOptions,
    SuiteResult,
    draw_suite,
    infer_suite,
    run_suite,
)
from skylight.recording import RECORDING_DIR, recording_dir

if TYPE_CHECKING:
    import pyarrow

    from skylight._native import DriveServer
    from skylight.report.words import Verdict

__all__ = [
    "Drive",
    "Figure",
    "Finding",
    "IoBatch",
    "IoLog",
    "KeepError",
    "Op",
    "Probed",
    "Served",
    "SkylightError",
    "Stop",
    "TargetError",
    "TargetFacts",
    "UsageError",
    "drives",
    "open",
    "read",
    "serve",
    "table",
]

BLOCK_BYTES = 4096
"""Size of a read or write where none is given: the block of most file systems."""

AnyPath = str | PathLike[str]
Timing = Literal["none", "model"]


def drives() -> list[str]:
    """Names of the emulated drives that come with Skylight, for ``sim:NAME``."""
    return profile_names()


class Drive:
    """A drive to run I/O on, until it is closed; also a context manager."""

    def __init__(self, engine: Engine) -> None:
        """`open` makes one of a name."""
        self.engine = engine

    @property
    def size(self) -> int:
        """Size, bytes."""
        return self.engine.size

    @property
    def facts(self) -> TargetFacts:
        """Its identity, and the properties that it declares."""
        return self.engine.describe()

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs a batch in order, with up to ``depth`` commands outstanding, until all are complete or
        ``until`` is reached. Raises TargetError when the drive fails."""
        return self.engine.run(io, depth=depth, until=until)

    def read(self, offsets: ArrayLike, size: int = BLOCK_BYTES, *, depth: int = 1) -> IoLog:
        """Reads of ``size`` bytes at each offset, bytes."""
        return self.run(IoBatch.reads(offsets, size), depth=depth)

    def write(self, offsets: ArrayLike, size: int = BLOCK_BYTES, *, depth: int = 1) -> IoLog:
        """Writes of ``size`` bytes at each offset, bytes. Raises UsageError on a drive that was opened for
        reading."""
        return self.run(IoBatch.writes(offsets, size), depth=depth)

    def pause(self, seconds: float) -> None:
        """Leaves the drive alone, so that it may clean; an emulated one takes no time of yours."""
        self.engine.pause(seconds)

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        """Volatile write cache and look-ahead on or off for a ``with`` block; gives what is in force then."""
        return self.engine.settings(write_cache=write_cache, look_ahead=look_ahead)

    def probe(
        self,
        out: AnyPath | None = None,
        *,
        quick: bool = False,
        only: Sequence[str] = (),
        seed: int = 1,
        progress: Progress | None = None,
    ) -> Probed:
        """Measures what the drive is, as ``skylight probe`` does. The recording goes into the folder ``out``,
        or is not kept. ``quick`` asks for its kind only, ``only`` for these tests and those that they depend
        on; ``seed`` picks the offsets. ``progress`` is called with reports as the run goes on.

        Raises UsageError, TargetError, KeepError."""
        options = SuiteOptions(seed=seed, only=tuple(only), quick=quick)
        if out is not None:
            kept = Path(out) / RECORDING_DIR
            return Probed(run_suite(self.engine, kept, options, progress), kept)
        with TemporaryDirectory(prefix="skylight-") as folder:
            return Probed(run_suite(self.engine, Path(folder) / RECORDING_DIR, options, progress), None)

    def close(self) -> None:
        """Releases the drive."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(target: str, *, seed: int = 1, destroy_data: bool = False, conditions: str | None = None) -> Drive:
    """Opens ``sim:NAME``, ``sim:FILE.toml``, a block device or a file. ``seed`` is that of an emulated
    drive's jitter, ``conditions`` what a host meets besides it (docs/conditions.md). Raises UsageError."""
    return Drive(open_target(target, seed=seed, destroy_data=destroy_data, conditions=conditions))


class Probed:
    """What a probe found, or what a recording of one yields."""

    def __init__(self, result: SuiteResult, recording: Path | None) -> None:
        """``recording`` is where the evidence is kept; None where it is not."""
        self.result = result
        self.recording = recording

    @property
    def target(self) -> TargetFacts:
        """What was probed."""
        return self.result.target

    @cached_property
    def findings(self) -> Mapping[str, Finding]:
        """All findings by name; each has value, unit, interval, confidence, and why."""
        return MappingProxyType({found.name: found for found in self.result.findings})

    @cached_property
    def evidence(self) -> Mapping[str, Evidence]:
        """The steps of each test, by its name; ``evidence["rotation"].log(STEP)`` is an `IoLog`."""
        return MappingProxyType({kept.test: kept for kept in self.result.evidence})

    @cached_property
    def _verdict(self) -> Verdict:
        from skylight.report.declared import is_raw_shingled
        from skylight.report.words import verdict

        return verdict(self.findings, self.target.declared, raw=is_raw_shingled(self.target))

    @property
    def verdict(self) -> str:
        """The headline of the report: one sentence."""
        return self._verdict.headline

    @property
    def drive_type(self) -> str | None:
        """``cmr``, ``smr`` or ``not-rotating``, as the headline has it; None where it has no verdict."""
        return self._verdict.drive_type

    def figures(self) -> list[Figure]:
        """The figures of every test; ``figure.figure`` is matplotlib's."""
        return draw_suite(self.result)

    def to_json(self) -> dict[str, object]:
        """Target and findings as ``skylight probe --json`` has them."""
        return findings_json(self.target, self.result.findings)

    def report(self, folder: AnyPath) -> Path:
        """Writes ``report.html`` into a folder; its path. Raises KeepError."""
        from skylight.report.html import write_report

        where = Path(folder)
        return write_report([(self.result, self.recording or where)], where)


def read(folder: AnyPath) -> Probed:
    """What a recording yields, without the drive. ``folder`` is what ``out`` or ``--out`` named. Raises
    UsageError."""
    kept = recording_dir(Path(folder))
    return Probed(infer_suite(kept), kept)


def table(log: IoLog) -> pyarrow.Table:
    """A log as an Arrow table, without a copy: its columns and ``latency_ns``. pandas, polars and duckdb take
    it: ``table(log).to_pandas()``, ``polars.from_arrow(table(log))``."""
    import pyarrow

    columns = {name: getattr(log, name) for name in LOG_COLUMNS}
    return pyarrow.table({**columns, "latency_ns": log.latency_ns})


class Served:
    """A drive that is served over NBD, until it is stopped, which the end of the program does too; also a
    context manager."""

    def __init__(self, server: DriveServer, folder: TemporaryDirectory[str]) -> None:
        """`serve` makes one; ``folder`` has its sockets."""
        self._server, self._folder = server, folder
        finalize(self, server.stop)

    @property
    def uri(self) -> str:
        """The address for NBD clients: ``nbd+unix:///?socket=...``."""
        return self._server.uris[0]

    @property
    def size(self) -> int:
        """Size, bytes."""
        return self._server.size_bytes

    def status(self) -> dict[str, Any]:
        """How it does, as ``skylight status --json``. Raises TargetError once it is stopped."""
        words = self._server.status()
        if not words:
            raise TargetError(f"{self._server.name}: is not served any more; serve it again")
        found: dict[str, Any] = json.loads(words)
        return found

    def stop(self) -> None:
        """Completes what was asked, makes everything durable, and ends. Raises TargetError if it cannot."""
        from skylight import _native

        try:
            self._server.stop()
        except _native.ServeError as error:
            raise serve_error(error) from error
        finally:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(
    drive: str,
    image: AnyPath,
    *,
    nbd: str | None = None,
    timing: Timing = "none",
    write_cache: bool | None = None,
    look_ahead: bool | None = None,
    seed: int = 1,
) -> Served:
    """Serves a drive that keeps its data in the file ``image``, as ``skylight serve`` does: a name, a profile
    of your own, or "-" for the drive in the image. ``nbd`` is ``unix:PATH`` or ``tcp:HOST:PORT``; without it
    a private socket. ``timing="model"`` answers when the drive would. Raises UsageError, TargetError."""
    from skylight import _native

    profile, origin = (None, drive) if drive == "-" else read_profile(drive)
    folder = TemporaryDirectory(prefix="skylight-")
    try:
        server = _native.DriveServer(
            {
                "drive": {
                    "profile_toml": profile,
                    "origin": origin,
                    "image": image,
                    "cache_on": None,
                    "overwrite": False,
                    "write_cache": write_cache,
                    "look_ahead": look_ahead,
                    "checksums": None,
                    "read_mode": None,
                    "shingle_width": None,
                    "hbuffer": None,
                    "hbuffer_zones": None,
                },
                "answers": {"timing": timing, "seed": seed, "delays_ns": None, "fail": None, "log": None},
                "doors": {
                    "nbd": [nbd or f"unix:{folder.name}/nbd.sock"],
                    "tls": None,
                    "remote": False,
                    "verbose": False,
                    "control": f"{folder.name}/control.sock",
                    "control_required": True,
                },
            }
        )
    except (_native.ServeError, _native.ProfileError) as error:
        folder.cleanup()
        raise serve_error(error) from error
    return Served(server, folder)
