"""Engines: run I/O and record when each command was submitted and completed. One Protocol, numpy columns in
and out.

`sim` runs an emulated drive in virtual time, `sim_under_conditions` the same as a host meets it, `device` a
block device or file through the kernel, `fio` the same by jobs of fio. `open_target` opens an engine from its
name on the command line:

| target | meaning |
|---|---|
| `sim:NAME` | an emulated drive from a profile shipped with Skylight |
| `sim:FILE.toml` | an emulated drive from your own profile |
| `/dev/...` or a path | a block device or a plain file |
| `recording:DIR` | evidence kept earlier; not an engine, see `skylight.probe.suite.infer_suite` |
| `fio-log:FILE[,FILE..]`, `fio-log:DIR` | fio's latency logs; not an engine, see `fio_log` |

Source: docs/architecture.md, "Five ideas that carry everything", 3.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from skylight.engines.erase import Erase, Erased, Follow, Offer
from skylight.errors import UsageError
from skylight.evidence import U64, IoBatch, IoLog, SettingsReport, Stop, TargetFacts
from skylight.zoned.zones import ZoneLayout, Zones

RECORDING = "recording:"
FIO_LOG = "fio-log:"
SIM = "sim:"


class Engine(Protocol):
    """A live target.

    `can_write` is False when the target was opened without permission to destroy its data. `repeatable` is
    True when the same commands from the start always yield the same log: a resumed run then re-executes the
    steps it already has, to bring the target into the state that they left. `settings` restores on exit
    everything that it changed, also after an error or Ctrl-C. An engine raises `TargetError` when the target
    fails, `KeyboardInterrupt` on Ctrl-C."""

    size: int
    can_write: bool
    repeatable: bool

    def describe(self) -> TargetFacts:
        """The identity of the target and the properties that it declares."""
        ...

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch in order with up to `depth` commands outstanding; returns when all are complete.

        With `until` it may end early; the log then holds the completed rows, the first of the batch."""
        ...

    def pause(self, seconds: float) -> None:
        """Leaves the target idle for that long."""
        ...

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        """Requests the volatile write cache and read look-ahead on or off; reports the settings in force."""
        ...

    def erase(self) -> bool:
        """Secure erase; False if the target has none."""
        ...

    def close(self) -> None:
        """Releases the target. Further calls are errors."""
        ...


@runtime_checkable
class TellsHoles(Protocol):
    """An engine that may know which parts of its target are unwritten."""

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets (bytes) at which nothing is stored; None if it is unknown."""
        ...


@runtime_checkable
class Trims(Protocol):
    """An engine that may be able to unmap its target."""

    def trim(self) -> bool:
        """TRIM of the whole target; False if it has none or its data may not be destroyed."""
        ...


@runtime_checkable
class Erases(Protocol):
    """An engine whose target may be erased by a command that a person asks for."""

    def erase_offer(self, erase: Erase) -> Offer:
        """What an erase would be. Raises `UsageError` where the target cannot be erased so."""
        ...

    def erase_by(self, erase: Erase, follow: Follow) -> Erased:
        """Erases the whole target; `follow` is called as it goes on."""
        ...


def eraser_of(engine: Engine) -> Erases:
    """The engine as one that erases. Raises `UsageError` where it is none."""
    if isinstance(engine, Erases):
        return engine
    raise UsageError(
        f"{engine.describe().name}: is no real drive, and takes no erase command; choose another --reset"
    )


@runtime_checkable
class RunsJobs(Protocol):
    """An engine that runs each batch as a job of a program, with a name. To start it takes time, so a batch
    is cut into few pieces."""

    def name_jobs(self, name: str) -> None:
        """What the next batches are for."""
        ...


@runtime_checkable
class ZonedEngine(Protocol):
    """An engine that knows whether its target has zones.

    Zone actions and appends run as rows of a batch (`Op.OPEN_ZONE` to `Op.APPEND`); what became of them is in
    the column `result` of the log."""

    def zone_layout(self) -> ZoneLayout | None:
        """What is fixed about the target's zones; None for a target without zones."""
        ...

    def report_zones(self) -> Zones:
        """The state of all zones. Raises `TargetError` when the target has none or does not report them."""
        ...

    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data, which costs less than a report of all. Raises as that."""
        ...


TargetKind = Literal["sim", "device", "recording", "fio-log"]

_PREFIXES: tuple[tuple[str, TargetKind, str], ...] = (
    (SIM, "sim", "NAME"),
    (RECORDING, "recording", "DIR"),
    (FIO_LOG, "fio-log", "FILE[,FILE..]"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target: its kind, the text as given, and the name or path in it."""

    kind: TargetKind
    spec: str
    name: str


def parse_target(spec: str) -> Target:
    """Splits a target into kind and name; opens nothing."""
    for prefix, kind, wanted in _PREFIXES:
        if spec.startswith(prefix):
            name = spec.removeprefix(prefix)
            if not name:
                raise UsageError(f"{spec!r} names nothing: write {prefix}{wanted}")
            return Target(kind, spec, name)
    if not spec:
        raise UsageError("the target is empty: give sim:NAME, a device or file, or recording:DIR")
    return Target("device", spec, spec)


def _is_there(path: str) -> bool:
    """False if nothing exists there; the engine refuses a path without permission."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def open_target(
    spec: str,
    *,
    seed: int = 1,
    destroy_data: bool = False,
    conditions: str | None = None,
    fio_jobs: Path | None = None,
) -> Engine:
    """The engine for a live target. `destroy_data` permits writes; an emulated drive needs no permission, and
    alone may have `conditions`. With `fio_jobs` fio does the I/O of a device or file, and its job files are
    kept in that folder."""
    target = parse_target(spec)
    if target.kind in ("recording", "fio-log"):
        what = "a recording" if target.kind == "recording" else "a log"
        raise UsageError(f"{spec} is {what}, not a live target")
    if target.kind == "sim":
        from skylight.engines.sim import SimEngine

        if fio_jobs is not None:
            raise UsageError(f"--engine fio: {spec} is emulated; it is for devices and files")
        return SimEngine.open(target.name, seed=seed, conditions=conditions)
    if not _is_there(target.name):
        from skylight.engines.sim import suggestion

        raise UsageError(f"{spec}: no such device or file{suggestion(spec, hint_prefix=True)}")
    if fio_jobs is not None:
        from skylight.engines.fio import FioEngine

        return FioEngine.over(target.name, fio_jobs, destroy_data=destroy_data)
    from skylight.engines.device import DeviceEngine

    return DeviceEngine.open(target.name, destroy_data=destroy_data)
