"""A range of a target as a target of its own: addresses count from its start, and nothing is read or written
outside.

It stands before any other engine, so the range holds however the I/O is done; what is kept is put back as
ever, and job files of fio have the addresses of the drive.

Invariants: a batch that leaves the range is refused before any of it is sent; TRIM, erases and zone commands,
which concern all of a drive, are not offered.

Source: docs/devices.md, "A range of a disk".
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from skylight.byte_range import AskedRange, ByteRange
from skylight.engines import Engine, RunsJobs, TellsHoles, ZonedEngine
from skylight.engines.device import BESIDE_BYTES, DeviceFailed, DeviceInterrupted
from skylight.errors import UsageError
from skylight.evidence import U64, IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts

_HAVE_A_PLACE = (int(Op.READ), int(Op.WRITE), int(Op.WRITE_FUA))
_HAVE_NONE = int(Op.FLUSH)


class RangedEngine:
    """A part of another engine's target."""

    def __init__(self, engine: Engine, part: ByteRange) -> None:
        """The `part` of the target of `engine`; `confined` makes one."""
        self._engine = engine
        self._part = part
        self.size = part.size
        self.can_write = engine.can_write
        self.repeatable = engine.repeatable

    def describe(self) -> TargetFacts:
        """The target's identity, the size of the range, and where it is."""
        facts = self._engine.describe()
        return replace(facts, size_bytes=self.size, declared={**facts.declared, **self._part.declared()})

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch in the range; the log has the addresses that were asked for."""
        there = self._placed(io)
        try:
            return self._as_asked(self._engine.run(there, depth=depth, until=until))
        except (DeviceFailed, DeviceInterrupted) as error:
            error.log = self._as_asked(error.log)
            raise

    def _placed(self, io: IoBatch) -> IoBatch:
        """The batch at its addresses of the drive; refuses one that leaves the range."""
        placed = np.isin(io.op, _HAVE_A_PLACE)
        if not (placed | (io.op == _HAVE_NONE)).all():
            raise UsageError(f"{self.describe().name}: takes reads, writes and flushes alone; omit --range")
        size = np.uint64(self.size)
        if bool(np.any(placed & ((io.offset > size) | (io.size > size - np.minimum(io.offset, size))))):
            raise UsageError(f"{self.describe().name}: an I/O leaves --range; nothing was sent")
        return IoBatch(io.op, np.where(placed, io.offset + np.uint64(self._part.start), io.offset), io.size)

    def _as_asked(self, log: IoLog) -> IoLog:
        """A log with addresses that count from the start of the range."""
        placed = np.isin(log.op, _HAVE_A_PLACE)
        return replace(log, offset=np.where(placed, log.offset - np.uint64(self._part.start), log.offset))

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets at which nothing is stored. Near the end it is not known, since the
        engine may look slightly beyond an offset."""
        if not isinstance(self._engine, TellsHoles):
            return None
        within = offsets[offsets + np.uint64(2 * BESIDE_BYTES) <= np.uint64(self.size)]
        return self._engine.holes(within + np.uint64(self._part.start)) if len(within) else None

    def pause(self, seconds: float) -> None:
        """Leaves the target idle."""
        self._engine.pause(seconds)

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        """The target's settings, which are those of the whole drive."""
        return self._engine.settings(write_cache=write_cache, look_ahead=look_ahead)

    def erase(self) -> bool:
        """False: an erase is of the whole drive."""
        return False

    def close(self) -> None:
        """Releases the target."""
        self._engine.close()


class RangedJobs(RangedEngine):
    """A part of the target of an engine that runs jobs."""

    def name_jobs(self, name: str) -> None:
        """What the next batches are for."""
        assert isinstance(self._engine, RunsJobs)  # `confined` has seen to it
        self._engine.name_jobs(name)


def confined(engine: Engine, wanted: AskedRange) -> RangedEngine:
    """An engine for a range of the target of another. Raises `UsageError` where the range does not fit, or
    the target has zones."""
    facts = engine.describe()
    if isinstance(engine, ZonedEngine) and engine.zone_layout() is not None:
        raise UsageError(f"{facts.name}: has zones, and --range is for drives without; omit it")
    part = wanted.of(facts.name, engine.size)
    return (RangedJobs if isinstance(engine, RunsJobs) else RangedEngine)(engine, part)
