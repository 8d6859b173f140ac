"""The engine for an emulated drive under conditions: what a host meets besides the drive.

The drive in Rust does what happens in its event loop (gaps, link, queue, rest, other clients). This engine
stands in for the interface of the target: what is refused, and what a switch reports.

Invariants: under ideal conditions the engine is that of the drive alone, and a recording is the same byte for
byte; the same drive, conditions and seed give the same log.

Source: docs/conditions.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from skylight.engines.sim import Drive, SimEngine
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts

IDEAL, DRAWN = "ideal", "drawn"
_LARGEST_FILE_BYTES = 1 << 20
_UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
LOOK_AHEAD_NOTE = "read look-ahead cannot be set here"


def _ns(duration: str) -> int:
    """A duration of the native module, ns.

    >>> _ns("0.5 ms")
    500000
    """
    number, unit = duration.split()
    return round(float(number) * _UNITS_NS[unit])


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a host meets besides a drive. The schema, with the meaning of each, is that of the native module
    (docs/profile-reference.md, `[conditions]`); this is the part that Python looks at."""

    erase: Literal["none", "trim", "sanitize"]
    look_ahead: Literal["obeys", "stays-on"]
    volatile_cache: Literal["obeys", "off", "on", "said-off", "ignores-flush"]
    queue_depth: int
    prior_use: Literal["new", "half-full", "full", "whole-drive"]
    host_gap_ns: int
    clock_ns: int
    transport_ns: int
    spin_down: bool
    head_unload: bool
    background_scan: bool
    busy: bool
    digest: str
    """Of all conditions."""

    @staticmethod
    def of(text: str) -> Conditions:
        """From the JSON of the native module."""
        whole: dict[str, Any] = json.loads(text)
        return Conditions(
            erase=whole["erase"],
            look_ahead=whole["look_ahead"],
            volatile_cache=whole["volatile_cache"],
            queue_depth=whole["queue_depth"],
            prior_use=whole["prior_use"],
            host_gap_ns=_ns(whole["host_gap"]),
            clock_ns=_ns(whole["clock"]),
            transport_ns=_ns(whole["transport"]),
            spin_down="spin_down" in whole,
            head_unload="head_unload" in whole,
            background_scan="background_scan" in whole,
            busy=whole["busy_share"] > 0,
            digest=hashlib.sha256(text.encode()).hexdigest(),
        )


def conditions_text(spec: str | None, seed: int) -> str | None:
    """The text of `ideal`, `drawn` (from the seed) or a file; None for the conditions of the profile."""
    from skylight import _native

    if spec is None:
        return None
    if spec == IDEAL:
        return "[conditions]\n"
    if spec == DRAWN:
        return _native.random_conditions(seed)
    try:
        with open(spec, encoding="utf-8") as file:
            text = file.read(_LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"{spec}: cannot read the conditions: {reason}; give {IDEAL}, {DRAWN} or a file"
        ) from error
    if len(text) > _LARGEST_FILE_BYTES:
        raise UsageError(f"{spec}: too long for conditions; a file has a few lines")
    try:
        _native.conditions_check(text, Path(spec).name)
    except _native.ProfileError as error:
        raise UsageError(str(error)) from error
    return text


class DriveInConditions(Drive, Protocol):
    """A drive that says under which conditions it is used; `skylight._native.SimDrive` is one."""

    @property
    def conditions(self) -> str:
        """The conditions as JSON."""
        ...


def engine_over(drive: DriveInConditions, facts: TargetFacts) -> SimEngine:
    """The engine for a drive: of the drive alone under ideal conditions."""
    from skylight import _native

    if drive.conditions == _native.conditions_check("[conditions]\n", IDEAL):
        return SimEngine(drive, facts)
    return ConditionedEngine(drive, facts, Conditions.of(drive.conditions))


class ConditionedEngine(SimEngine):
    """An emulated drive under conditions as an engine."""

    def __init__(self, drive: Drive, facts: TargetFacts, conditions: Conditions) -> None:
        """Wraps a drive that was built under these conditions."""
        declared = {**facts.declared, "conditions_sha256": conditions.digest}
        super().__init__(drive, replace(facts, declared=declared))
        self.conditions = conditions

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """As without conditions; a target without TRIM fails it."""
        if self.conditions.erase == "none" and bool((io.op == int(Op.TRIM)).any()):
            raise TargetError(f"{self.describe().name}: TRIM is not supported by this target")
        return super().run(io, depth=depth, until=until)

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """Asks for the settings; reports what the target says is in force."""
        with super().settings(write_cache=write_cache, look_ahead=look_ahead) as real:
            said_off = self.conditions.volatile_cache == "said-off"
            fixed = self.conditions.look_ahead == "stays-on"
            yield SettingsReport(
                write_cache=False if said_off else real.write_cache,
                look_ahead=None if fixed else real.look_ahead,
                note=LOOK_AHEAD_NOTE if fixed else "",
            )

    def erase(self) -> bool:
        """Resets the drive to its initial state where the target can."""
        return super().erase() if self.conditions.erase == "sanitize" else False

    def trim(self) -> bool:
        """TRIM of the whole drive where the target has it."""
        return super().trim() if self.conditions.erase != "none" else False
