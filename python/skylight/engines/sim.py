"""The engine for an emulated drive: a profile, a seed, virtual time.

The same profile, seed and commands yield the same log to the nanosecond. `settings` restores on exit
everything that it changed, so a drive object can be probed again.

Source: docs/architecture.md, "Five ideas that carry everything", 2 and 4.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any, Protocol

import numpy as np

from skylight.errors import TargetError, UsageError, one_line
from skylight.evidence import U8, U32, U64, IoBatch, IoLog, JsonScalar, Op, SettingsReport, Stop, TargetFacts
from skylight.zoned.zones import ZoneLayout, Zones

PROFILE_SUFFIX = ".toml"
LARGEST_PROFILE_BYTES = 1 << 20
TRIM_BYTES = 1 << 30
"""Bytes of one command of a TRIM of the whole drive: a size has 32 bits."""


class Drive(Protocol):
    """The interface of a drive; `skylight._native.SimDrive` is one, tests have doubles."""

    @property
    def size_bytes(self) -> int:
        """Capacity in bytes."""
        ...

    @property
    def block_bytes(self) -> int:
        """Bytes of a logical block."""
        ...

    def run(
        self, op: U8, offset: U64, size: U32, depth: int, stop: tuple[int, int, int, int | None] | None = None
    ) -> tuple[U64, U64]:
        """Runs the I/O; submission and completion time (ns) of each command up to a stop (latency_ns, count,
        within)."""
        ...

    def results(self) -> tuple[U64, U64]:
        """Rows of the last run that failed or were appends, and the result of each."""
        ...

    def zone_layout(self) -> dict[str, Any] | None:
        """What is fixed about its zones; None without zones."""
        ...

    def report_zones(self) -> dict[str, Any]:
        """The state of its zones, as columns."""
        ...

    def non_sequential_zones(self) -> int:
        """How many of its zones have non-sequential data."""
        ...

    def pause(self, duration_ns: int) -> None:
        """Advances virtual time."""
        ...

    @property
    def write_cache(self) -> bool:
        """Whether the volatile write cache is on."""
        ...

    def set_write_cache(self, on: bool) -> bool:
        """Switches the volatile write cache; returns its state."""
        ...

    @property
    def look_ahead(self) -> bool:
        """Whether the drive reads ahead into its buffer."""
        ...

    def set_look_ahead(self, on: bool) -> bool:
        """Switches look-ahead; returns its state."""
        ...

    def erase(self) -> None:
        """Resets the drive to its initial state."""
        ...

    def counters(self) -> dict[str, int]:
        """Host and media bytes, accesses and time by purpose, cache use."""
        ...


def profile_names() -> list[str]:
    """Names of the shipped profiles, sorted."""
    files = resources.files("skylight").joinpath("profiles").iterdir()
    return sorted(
        file.name.removesuffix(PROFILE_SUFFIX) for file in files if file.name.endswith(PROFILE_SUFFIX)
    )


def suggestion(name: str, *, hint_prefix: bool = False) -> str:
    """'; did you mean ...?' for a name close to a profile's, else empty."""
    close = difflib.get_close_matches(name, profile_names(), n=1, cutoff=0.5)
    prefix = "sim:" if hint_prefix else ""
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def read_profile(name: str) -> tuple[str, str]:
    """The TOML text of a profile and its origin for messages. `name` is a profile's name or a path to a .toml
    file, with or without ``sim:`` before it, as targets have it."""
    name = name.removeprefix("sim:")
    if name.endswith(PROFILE_SUFFIX) or "/" in name:
        return _read_file(name), one_line(name)
    if name not in profile_names():
        raise UsageError(
            f"no drive is called {name!r}{suggestion(name)} (drives: {', '.join(profile_names())})"
        )
    file = resources.files("skylight").joinpath("profiles", name + PROFILE_SUFFIX)
    return file.read_text(encoding="utf-8"), f"{name}{PROFILE_SUFFIX}"


def _read_file(name: str) -> str:
    """The text of a profile file; refuses all but a regular file of plausible size."""
    refusal = f"{name}: cannot read the profile: "
    try:
        # A pipe would hang the open.
        with open(name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{refusal}not a regular file; name a {PROFILE_SUFFIX} file")
            text = file.read(LARGEST_PROFILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file has such a name"
        raise UsageError(f"{refusal}{reason}") from error
    if len(text) > LARGEST_PROFILE_BYTES:
        raise UsageError(f"{refusal}longer than {LARGEST_PROFILE_BYTES >> 20} MiB; a profile has a few lines")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{refusal}not UTF-8 text") from error


class SimEngine:
    """An emulated drive as an engine."""

    def __init__(self, drive: Drive, facts: TargetFacts) -> None:
        """Wraps a drive; use `open` to build one from a profile."""
        self._drive = drive
        self._facts = facts
        self.size = facts.size_bytes
        self.can_write = True
        self.repeatable = True
        self.after: Callable[[], None] | None = None
        """Called after each batch and each pause, if set."""

    @classmethod
    def open(cls, name: str, *, seed: int = 1, conditions: str | None = None) -> SimEngine:
        """Builds the drive of a profile (a name or a .toml file); `seed` is the seed of its jitter.

        `conditions` is what a host meets besides it: `ideal`, `drawn` or a file; None for what the profile
        says."""
        from skylight import _native
        from skylight.engines.sim_under_conditions import conditions_text, engine_over

        text, origin = read_profile(name)
        try:
            drive = _native.SimDrive(text, origin, seed, conditions_text(conditions, seed))
        except _native.ProfileError as error:
            raise UsageError(str(error)) from error
        declared: dict[str, JsonScalar] = {
            "profile_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "jitter_seed": seed,
        }
        facts = TargetFacts("sim", f"sim:{name}", drive.size_bytes, drive.block_bytes, declared)
        return engine_over(drive, facts)

    @property
    def drive(self) -> Drive:
        """The drive itself, for counters and head traces."""
        return self._drive

    def describe(self) -> TargetFacts:
        """The properties that the emulated drive declares."""
        return self._facts

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch in virtual time, up to the command that reaches the stop."""
        stop = None if until is None else (until.latency_ns, until.count, until.within, until.alone_ns)
        try:
            submit_ns, complete_ns = self._drive.run(io.op, io.offset, io.size, depth, stop)
        except ValueError as error:
            raise TargetError(f"{self._facts.name}: {error}") from error
        self._done()
        done = io.part(0, len(submit_ns))
        log = IoLog.of(
            done, submit_ns.astype(np.uint64, copy=False), complete_ns.astype(np.uint64, copy=False)
        )
        rows, results = self._drive.results()
        log.result[rows] = results
        return log

    def zone_layout(self) -> ZoneLayout | None:
        """What is fixed about the drive's zones; None for a drive without zones."""
        layout = self._drive.zone_layout()
        return None if layout is None else ZoneLayout(**layout)

    def report_zones(self) -> Zones:
        """The state of all zones."""
        with self._zoned():
            return Zones.of(self._drive.report_zones())

    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data."""
        with self._zoned():
            return self._drive.non_sequential_zones()

    @contextmanager
    def _zoned(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise TargetError(f"{self._facts.name}: {error}; name a drive that has zones") from error

    def pause(self, seconds: float) -> None:
        """Advances virtual time."""
        self._drive.pause(round(seconds * 1e9))
        self._done()

    def _done(self) -> None:
        if self.after is not None:
            self.after()

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """Switches the volatile write cache and look-ahead, reports the settings in force, and restores them
        on exit."""
        before = (self._drive.write_cache, self._drive.look_ahead)
        try:
            yield SettingsReport(
                write_cache=self._drive.set_write_cache(write_cache),
                look_ahead=self._drive.set_look_ahead(look_ahead),
            )
        finally:
            self._drive.set_write_cache(before[0])
            self._drive.set_look_ahead(before[1])

    def counters(self) -> dict[str, int]:
        """The drive's counters: host and media bytes, accesses and time by purpose, cache use."""
        return self._drive.counters()

    def erase(self) -> bool:
        """Resets the drive to its initial state."""
        self._drive.erase()
        return True

    def trim(self) -> bool:
        """TRIM of the whole drive, in one command after the other; False if the drive does not do it."""
        offset = np.arange(0, self.size, TRIM_BYTES, dtype=np.uint64)
        size = np.minimum(np.uint64(self.size) - offset, np.uint64(TRIM_BYTES)).astype(np.uint32)
        log = self.run(IoBatch(np.full(len(offset), int(Op.TRIM), np.uint8), offset, size))
        return not log.failed.any()

    def close(self) -> None:
        """Does nothing."""
