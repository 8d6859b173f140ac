"""Engines: what runs I/O and says when each was submitted and completed. One Protocol, numpy columns in and
out.

`sim` runs an emulated drive in virtual time, `device` a block device or file through the kernel.
`open_target` turns what a person writes into an engine:

| target | what it is |
|---|---|
| `sim:NAME` | an emulated drive from a profile that comes with Skylight |
| `sim:FILE.toml` | an emulated drive from a profile of one's own |
| `/dev/...` or a path | a block device or a plain file |
| `recording:DIR` | evidence kept earlier; not an engine, see `skylight.probe.suite.infer_suite` |
| `fio-log:FILE[,FILE..]`, `fio-log:DIR` | fio's latency logs; not an engine, see `fio_log` in here |

Source: docs/architecture.md, idea 3 and "The shapes".
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from skylight.errors import UsageError
from skylight.evidence import U64, IoBatch, IoLog, SettingsReport, Stop, TargetFacts

RECORDING = "recording:"
FIO_LOG = "fio-log:"
SIM = "sim:"


class Engine(Protocol):
    """A live target.

    `can_write` is False when the target was opened without leave to destroy its data. `repeatable` is True
    when the same commands from the start always give the same log: a resumed run then re-executes the steps
    it already has, to bring the target into the state that they left. `settings` puts back on exit, also on
    an error or Ctrl-C, whatever it changed. An engine raises `TargetError` when the target fails,
    `KeyboardInterrupt` on Ctrl-C."""

    size: int
    can_write: bool
    repeatable: bool

    def describe(self) -> TargetFacts:
        """What the target is and declares of itself."""
        ...

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Does the batch in order with up to `depth` commands outstanding; returns when all are complete.

        With `until` it may end early; the log then holds the rows that were done, the first of the batch."""
        ...

    def pause(self, seconds: float) -> None:
        """Leaves the target alone for that long."""
        ...

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        """Asks for the volatile write cache and read look-ahead to be on or off; says what is in force."""
        ...

    def erase(self) -> bool:
        """Secure erase; False where the target has none."""
        ...

    def close(self) -> None:
        """Lets the target go. Further calls are errors."""
        ...


@runtime_checkable
class TellsHoles(Protocol):
    """An engine that may know which places of its target hold nothing."""

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets (bytes) at which nothing is stored; None where that cannot be told."""
        ...


TargetKind = Literal["sim", "device", "recording", "fio-log"]

_PREFIXES: tuple[tuple[str, TargetKind, str], ...] = (
    (SIM, "sim", "NAME"),
    (RECORDING, "recording", "DIR"),
    (FIO_LOG, "fio-log", "FILE[,FILE..]"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target: its kind, what the person wrote, and the name or path in it."""

    kind: TargetKind
    spec: str
    name: str


def parse_target(spec: str) -> Target:
    """Splits what a person wrote into kind and name; opens nothing."""
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
    """False if nothing is there; what may not be looked at is left to the engine to refuse."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def open_target(spec: str, *, seed: int = 1, destroy_data: bool = False) -> Engine:
    """The engine for a live target. `destroy_data` gives leave to write; an emulated drive needs no leave."""
    target = parse_target(spec)
    if target.kind in ("recording", "fio-log"):
        what = "a recording" if target.kind == "recording" else "a log"
        raise UsageError(f"{spec} is {what}, not a live target")
    if target.kind == "sim":
        from skylight.engines.sim import SimEngine

        return SimEngine.open(target.name, seed=seed)
    if not _is_there(target.name):
        from skylight.engines.sim import suggestion

        raise UsageError(f"{spec}: no such device or file{suggestion(spec, hint_prefix=True)}")
    from skylight.engines.device import DeviceEngine

    return DeviceEngine.open(target.name, destroy_data=destroy_data)
