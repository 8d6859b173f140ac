"""The emulated host-aware drive: its zones, commands on them, and replays of recorded writes.

Invariants: every drive is new, all its zones empty; one command is outstanding, as in the paper and in the
recordings; the volatile cache is on and there is no flush unless a row says otherwise, since the recorded
runs without a flush were made so. Every random choice has a name and a fixed seed.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.1.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from skylight.engines.sim import SimEngine
from skylight.errors import UsageError
from skylight.evidence import I64, IoBatch, Op, Stop
from skylight.reproduce.hasmr.real_drive_recordings import Writes
from skylight.reproduce.rows import Measured, NotMeasured, noted
from skylight.zoned.zones import ZoneLayout

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DRIVE = "st8000as0022"
"""The paper's drive, which is also that of the recordings."""
SEED = 1
BATCH_WRITES = 4_096
SLOW = Stop(latency_ns=1_000_000_000, count=12, within=64)
"""What ends a piece of a course, so that the non-sequential zones are counted again: a write that waits for
cleaning takes 2 to 5 s, so twelve take a minute at most."""


@dataclass(frozen=True, slots=True)
class Course:
    """Lone writes in their order, the latency of each (ns); and now and then the seconds that they had taken
    and the number of non-sequential zones."""

    latency_ns: I64
    watched: list[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Bench:
    """What the rows share: the folder for recordings of the suite, and a way to new drives."""

    folder: Path

    def drive(self) -> ZonedDrive:
        """A new drive."""
        return ZonedDrive()


def rng(name: str) -> np.random.Generator:
    """A separate generator for each name."""
    return np.random.Generator(np.random.PCG64([SEED, zlib.crc32(name.encode())]))


class ZonedDrive:
    """A host-aware drive in virtual time."""

    def __init__(self) -> None:
        """A new drive, its volatile cache on."""
        try:
            self.engine = SimEngine.open(DRIVE)
        except UsageError as error:
            raise NotMeasured(f"unknown: {error}") from error
        layout = self.engine.zone_layout()
        if layout is None:
            raise NotMeasured(f"unknown: the profile {DRIVE} has no zones")
        self.layout: ZoneLayout = layout
        self.engine.drive.set_look_ahead(False)
        self.engine.drive.set_write_cache(True)

    @cached_property
    def first_zone(self) -> int:
        """The first zone that has a write pointer."""
        return self.layout.conventional_zones

    def all_zones(self) -> I64:
        """All zones that have a write pointer, but the last, which may be smaller."""
        return np.arange(self.first_zone, self.layout.zones - 1, dtype=np.int64)

    def first_zones(self, count: int) -> I64:
        """The first zones that have a write pointer, as the recorded sustained runs took them."""
        return np.arange(count, dtype=np.int64) + self.first_zone

    def middle_zones(self, count: int) -> I64:
        """Neighbouring zones around the middle of the drive, as the recorded bursts took them."""
        return np.arange(count, dtype=np.int64) + (self.layout.zones - count) // 2

    def writes(
        self,
        zone: I64,
        offset_bytes: I64,
        size_bytes: ArrayLike,
        *,
        flushed: bool = False,
        until: Stop | None = None,
    ) -> I64:
        """The latency of lone writes (ns), with the FLUSH after each if `flushed`; until a stop."""
        where = (zone * self.layout.zone_bytes + offset_bytes).astype(np.uint64)
        size = np.broadcast_to(np.asarray(size_bytes, np.uint32), where.shape)
        op = np.full(where.shape, int(Op.WRITE), np.uint8)
        if not flushed:
            return self.engine.run(IoBatch(op, where, size.copy()), until=until).latency_ns
        batch = IoBatch.flushed_writes(where, 0)
        batch.size[0::2] = size
        log = self.engine.run(batch, until=until)
        done = log.complete_ns[1::2].astype(np.int64)
        return done - log.submit_ns[0::2][: len(done)].astype(np.int64)

    def spaced_writes(
        self, zone: I64, offset_bytes: I64, size_bytes: I64, gap_seconds: float, *, flushed: bool = False
    ) -> I64:
        """The latency of lone writes (ns), between which the host does something else for a time."""
        latency = np.empty(len(zone), np.int64)
        for index in range(len(zone)):
            one = slice(index, index + 1)
            latency[one] = self.writes(zone[one], offset_bytes[one], size_bytes[one], flushed=flushed)
            self.pause(gap_seconds)
        return latency

    def replay(self, recorded: Writes, *, flushed: bool = False, gap_seconds: float = 0.0) -> I64:
        """The recorded writes again: the same zones, offsets, sizes and order, and between two as much
        time as the host took; their latency (ns)."""
        if recorded.zone is None or recorded.offset_bytes is None or recorded.size_bytes is None:
            raise NotMeasured("unknown: the recording does not say where it wrote")
        block = self.engine.describe().block_bytes
        offset_bytes = recorded.offset_bytes // block * block
        if gap_seconds > 0:
            size = recorded.size_bytes
            return self.spaced_writes(recorded.zone, offset_bytes, size, gap_seconds, flushed=flushed)
        return self.writes(recorded.zone, offset_bytes, recorded.size_bytes, flushed=flushed)

    def course(
        self, plan: Callable[[int], tuple[I64, I64]], size_bytes: int, seconds: float, most_writes: int
    ) -> Course:
        """Writes without a flush until they took that long or were so many; `plan` gives zones and offsets of
        a number of them."""
        pieces: list[I64] = []
        watched: list[tuple[float, int]] = []
        took_ns, count = 0, 0
        zone, offset_bytes = plan(0)
        while took_ns < seconds * 1e9 and count < most_writes:
            if not len(zone):
                zone, offset_bytes = plan(min(BATCH_WRITES, most_writes - count))
            latency_ns = self.writes(zone, offset_bytes, size_bytes, until=SLOW)
            done = len(latency_ns)
            zone, offset_bytes = zone[done:], offset_bytes[done:]
            pieces.append(latency_ns)
            took_ns += int(latency_ns.sum())
            count += done
            watched.append((took_ns / 1e9, self.non_sequential()))
        return Course(np.concatenate(pieces), watched)

    def fill(self, zones: I64) -> None:
        """Writes zones from their write pointer to their end, in order."""
        step = MIB
        for zone in zones.tolist():
            offset = np.arange(0, self.layout.zone_bytes, step, dtype=np.int64)
            self.writes(np.full(len(offset), zone, np.int64), offset, step)
        self.flush()

    def flush(self) -> None:
        """Waits until all written data is on the medium."""
        self.engine.run(IoBatch.make(Op.FLUSH, [0], 0))

    def pause(self, seconds: float) -> None:
        """Leaves the drive idle."""
        self.engine.pause(seconds)

    def non_sequential(self) -> int:
        """How many zones have non-sequential data in the persistent cache."""
        return self.engine.non_sequential_zones()


def known(measure: Callable[[Bench], Measured]) -> Callable[[Bench], Measured]:
    """Makes a missing prerequisite, recordings included, a note instead of a failure."""
    return noted(measure, (NotMeasured, UsageError))
