"""The lab: drives of the shipped profiles, commands on them, head traces, and the suite's findings on them.

Invariants: every drive is new and made from a shipped profile, its heads parked, with volatile cache and
look-ahead off unless a row switches them, as in the paper (Skylight, section 4.2). A measurement that two
rows share is made once. Every random choice has a name and a fixed seed, so a run yields the same figures
again.

Source: Skylight (FAST '15), section 3 and Table 1; docs/architecture.md, "Five ideas that carry everything".
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skylight import _native
from skylight.engines.sim import SimEngine, read_profile
from skylight.errors import KeepError, SkylightError
from skylight.evidence import F64, U64, Evidence, IoBatch, IoLog, Op, Stop
from skylight.findings import Finding, Known
from skylight.probe.suite import TESTS, SuiteOptions, run_suite
from skylight.recording import Recording

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
BLOCK = 4 * KIB
"""The block of the paper's tests, bytes."""

DRIVES = {
    "em-1": "emulated-smr-1",
    "em-2": "emulated-smr-2",
    "em-3": "emulated-smr-3",
    "st5000": "st5000as0011",
    "st8000": "st8000as0011",
    "cmr": "st4000nc001",
}
"""Short names of the drives, as used in the checks."""

CLEANING_NS = 500_000_000
"""A write that takes longer waits for cleaning: a map merge takes a third of a second, cleaning a band more
than half a second."""

MOST_BYTES = 80 * GIB
"""Twice the largest cache: a drive that has not cleaned by then is assumed not to clean."""

Column = U64
Milliseconds = F64


@cache
def profile(drive: str) -> dict[str, Any]:
    """A drive's profile as JSON, defaults filled in."""
    whole: dict[str, Any] = json.loads(_native.profile_check(*read_profile(DRIVES[drive])))
    return whole


def full_stroke_tracks(drive: str) -> int:
    """Tracks from the outermost to the innermost."""
    return sum(int(zone["tracks"]) for zone in profile(drive)["geometry"]["zone"])


def band_start(offset: int) -> int:
    """First byte of the st5000 band that contains a byte offset."""
    start = 0
    for run in profile("st5000")["layer"]["bands"]:
        if "until" not in run or run["until"] is None or offset < run["until"]:
            return start + (offset - start) // int(run["band"]) * int(run["band"])
        start = int(run["until"])
    return start


@dataclass(frozen=True, slots=True)
class Trace:
    """Platter accesses in order: start, arrival and end of each (ns), first and last track (counted from the
    OD), and purpose."""

    start_ns: Column
    arrived_ns: Column
    end_ns: Column
    track: Column
    end_track: Column
    purpose: NDArray[np.str_]

    def first(self, rows: int) -> Trace:
        """The first `rows` rows."""
        return Trace(**{part.name: getattr(self, part.name)[:rows] for part in fields(self)})

    def of(self, purpose: str) -> NDArray[np.intp]:
        """The row numbers of one purpose."""
        return np.flatnonzero(self.purpose == purpose)

    def path(self, tracks: int, parked_at: float = 1.0) -> tuple[Milliseconds, Milliseconds]:
        """The path of the head: times (ms) and shares of a full stroke of `tracks`, from where it parks."""
        before = np.concatenate([[parked_at * tracks], self.end_track[:-1]])
        times = np.stack([self.start_ns, self.arrived_ns, self.end_ns], axis=1)
        places = np.stack([before, self.track, self.end_track], axis=1)
        return times.ravel() / 1e6, places.ravel() / tracks


class Bench:
    """A drive on the bench."""

    def __init__(self, name: str, *, write_cache: bool = False) -> None:
        """A new drive by its short name."""
        self.engine = SimEngine.open(DRIVES[name])
        drive = self.engine.drive
        if not isinstance(drive, _native.SimDrive):
            raise TypeError("the engine of a profile is a SimDrive")
        self.drive = drive
        self.size = self.engine.size
        drive.set_look_ahead(False)
        drive.set_write_cache(write_cache)

    @property
    def now_ns(self) -> int:
        """Virtual time, ns."""
        return self.drive.now_ns

    def writes(
        self, offsets: ArrayLike, size: int = BLOCK, depth: int = 1, until: Stop | None = None
    ) -> IoLog:
        """Writes of `size` bytes at offsets (bytes)."""
        return self.engine.run(IoBatch.writes(offsets, size), depth=depth, until=until)

    def reads(self, offsets: ArrayLike, size: int = BLOCK) -> IoLog:
        """Reads of `size` bytes at offsets (bytes), one at a time."""
        return self.engine.run(IoBatch.reads(offsets, size))

    def flush(self) -> None:
        """Waits until all written data is on a medium."""
        self.engine.run(IoBatch.make(Op.FLUSH, [0], 0))

    def pause(self, seconds: float) -> None:
        """Leaves the drive idle."""
        self.engine.pause(seconds)

    def start_trace(self, rows: int = 100_000) -> None:
        """Records head positions from now on."""
        self.drive.start_trace(rows)

    def take_trace(self) -> Trace:
        """The head positions since `start_trace`."""
        kept = self.drive.take_trace()
        if kept["lost"]:
            raise ValueError(f"{kept['lost']} accesses did not fit in the trace")
        purposes = np.array(kept["purposes"])
        columns = {name: kept[name].astype(np.uint64) for name in _TRACED}
        return Trace(**columns, purpose=purposes[kept["purpose"]])


_TRACED = ("start_ns", "arrived_ns", "end_ns", "track", "end_track")


def latency_ms(log: IoLog) -> Milliseconds:
    """Latencies, ms."""
    return log.latency_ns / 1e6


def took_ms(log: IoLog) -> float:
    """From the first submission to the last completion, ms."""
    return log.span_ns / 1e6


def spread(values: Milliseconds) -> float:
    """Interquartile range divided by the median."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float((high - low) / middle)


def steadiness(values: Milliseconds) -> float:
    """Share of the values within 5 % of their median: near 1 where latency is fixed."""
    middle = np.median(values)
    return float(np.mean(np.abs(values - middle) <= 0.05 * middle))


@dataclass(frozen=True, slots=True)
class Filling:
    """Random writes until one waits for cleaning: number and duration (s) of the writes before, bytes written
    to the platters for them, and latencies (ms) of the last of them and of the one that waits."""

    count: int
    seconds: float
    media_bytes: int
    last_ms: Milliseconds


_HOST_PURPOSES = ("cache", "out_of_band", "map_merge")
_LAST = 600
_SEED = 1


class Lab:
    """The measurements that rows share."""

    def __init__(self, folder: Path, *, suites: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """`folder` receives the suite's recordings; `suites` names, for each drive, the tests that the chosen
        rows read (an empty tuple means all)."""
        self.folder = folder
        self._suites = dict(suites or {})
        self._findings: dict[str, list[Finding]] = {}
        self._fillings: dict[tuple[str, int, int, bool], Filling | None] = {}
        self.notes: list[str] = []

    def rng(self, name: str) -> np.random.Generator:
        """A separate generator for each name."""
        return np.random.Generator(np.random.PCG64([_SEED, zlib.crc32(name.encode())]))

    def offsets(self, name: str, count: int, end: int, size: int = BLOCK) -> U64:
        """Different random offsets of blocks of `size` bytes below `end` (bytes)."""
        rng = self.rng(name)
        blocks = rng.integers(0, end // size, 2 * count, dtype=np.uint64)
        different = np.unique(blocks)
        rng.shuffle(different)
        if len(different) < count:
            different = rng.permutation(end // size).astype(np.uint64)
        return different[:count] * np.uint64(size)

    def filling(self, drive: str, size: int, depth: int = 1, *, write_cache: bool = False) -> Filling | None:
        """Random writes of `size` bytes until one waits for cleaning; None if none does."""
        key = (drive, size, depth, write_cache)
        if key not in self._fillings:
            self._fillings[key] = self._filled(*key)
        return self._fillings[key]

    def _filled(self, drive: str, size: int, depth: int, write_cache: bool) -> Filling | None:
        bench = Bench(drive, write_cache=write_cache)
        rng = self.rng(f"filling/{size}/{depth}")
        stop, begin, count, before = Stop(CLEANING_NS), bench.now_ns, 0, np.empty(0)
        while count * size < MOST_BYTES:
            blocks = rng.integers(0, bench.size // size, 31 << 11, dtype=np.uint64)
            log = bench.writes(blocks * np.uint64(size), size, depth, stop)
            slow = np.flatnonzero(log.latency_ns >= CLEANING_NS)
            if not len(slow):
                count += len(log)
                before = latency_ms(log)
                continue
            at = int(slow[0])
            counters = bench.drive.counters()
            media = sum(counters[f"{purpose}_platter_written_bytes"] for purpose in _HOST_PURPOSES)
            # If the batch begins with the write that waits, the one before ended when it was submitted.
            end = int(log.complete_ns[:at].max()) if at else int(log.submit_ns[0])
            last = np.concatenate([before, latency_ms(log)[: at + 1]])[-_LAST:]
            return Filling(count + at, (end - begin) / 1e9, media, last)
        return None

    def findings(self, drive: str) -> list[Finding]:
        """The findings of one probe of a drive, by its short name; empty if the probe failed."""
        if drive not in self._findings:
            self._findings[drive] = self._probed(drive)
        return self._findings[drive]

    def _probed(self, drive: str) -> list[Finding]:
        there = {test.name for test in TESTS}
        asked = self._suites.get(drive, ())
        only = tuple(name for name in asked if name in there)
        if asked and not only:
            self.notes.append(f"{DRIVES[drive]}: the suite has none of the tests {', '.join(asked)}")
            return []
        engine = SimEngine.open(DRIVES[drive])
        try:
            return run_suite(engine, self._recording(drive), SuiteOptions(seed=_SEED, only=only)).findings
        except KeepError:  # results could not be stored, which is not a miss
            raise
        except SkylightError as error:
            self.notes.append(f"{DRIVES[drive]}: the probe failed: {error}")
            return []

    def known(self, drive: str) -> Known:
        """The suite's findings on a drive; empty where there are none."""
        return Known(self.findings(drive))

    def evidence(self, drive: str, test: str) -> Evidence | None:
        """The evidence of a test of the suite, read back each time because a filled cache is too large to
        keep."""
        self.findings(drive)
        folder = self._recording(drive)
        return Recording.open(folder).evidence(test) if Recording.is_begun(folder) else None

    def _recording(self, drive: str) -> Path:
        return self.folder / DRIVES[drive]
