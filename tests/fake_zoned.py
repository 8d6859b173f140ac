"""Test double: a zoned drive in plain Python with the traits that the tests of zones have to tell apart.

Independent of the Rust model on purpose. A write at the write pointer of an open zone costs `write_ns`; of
another zone it opens it, and closes the one that was opened first if there are too many. Any other write goes
to a cache of so many writes; when that is full, writes wait for zones to be cleaned until half of it is
free. Zones are also cleaned one by one while the drive is idle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from skylight.errors import TargetError
from skylight.evidence import IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts
from skylight.zoned.zones import ZoneLayout, ZoneModel, Zones

MIB = 1 << 20
MS = 1_000_000


@dataclass(frozen=True)
class ZonedTraits:
    """What a fake is made of; a cleaning reads and writes `clean_ns_a_mib` for each MiB that it moves.

    More than 15 fields: one per behaviour, and tests set one or two of them."""

    model: ZoneModel = "host-aware"
    zones: int = 512
    zone_bytes: int = 64 * MIB
    capacity_bytes: int = 64 * MIB
    conventional: int = 16
    failed: tuple[int, ...] = ()
    """Zones that are read-only: a write there fails, as on a real device."""
    open_zones: int = 100
    max_open: int | None = None
    keeps_limit: bool = True
    write_ns: int = 150_000
    random_ns: int = 15 * MS
    penalty_ns: int = 45 * MS
    drift_ns: int = 0
    """What a write costs more with each open zone: seeks over more of them."""
    any_closes: bool = False
    """Any zone may be closed for another, not that which was opened first."""
    cache_writes: int = 6_000
    merge_every: int = 240
    merge_ns: int = 900 * MS
    clean_ns: int = 400 * MS
    clean_io_ns: int = 5 * MS
    clean_ns_a_mib: int = 10 * MS
    idle_s: float = 20.0


@dataclass
class Dirty:
    """Updates of a zone: how many, and from where to where (bytes)."""

    ios: int = 0
    first: int = 1 << 62
    end: int = 0


@dataclass
class FakeZoned:
    """One such drive with its own clock, and the engine over it."""

    traits: ZonedTraits
    can_write: bool = True
    repeatable: bool = True
    now_ns: int = 0

    def __post_init__(self) -> None:
        traits = self.traits
        self.size = traits.zones * traits.zone_bytes
        self.pointer = np.zeros(traits.zones, np.int64)
        self.open: OrderedDict[int, bool] = OrderedDict()  # zone to whether it was opened explicitly
        self.dirty: OrderedDict[int, Dirty] = OrderedDict()
        self.cached = self.random_writes = self.idle_ns = 0
        self.blocking = False
        self.random = np.random.default_rng(1)

    def describe(self) -> TargetFacts:
        return TargetFacts("sim", "sim:fake", self.size, 4096)

    def zone_layout(self) -> ZoneLayout:
        traits = self.traits
        return ZoneLayout(
            model=traits.model, zone_bytes=traits.zone_bytes, zones=traits.zones,
            conventional_zones=traits.conventional, max_open=traits.max_open, max_active=None,
            recommended_non_sequential=8 if traits.model == "host-aware" else None,
        )  # fmt: skip

    def report_zones(self) -> Zones:
        traits = self.traits
        start = np.arange(traits.zones, dtype=np.uint64) * np.uint64(traits.zone_bytes)
        kind = np.full(traits.zones, 3 if traits.model == "host-aware" else 2, np.uint8)
        kind[: traits.conventional] = 1
        flag = np.zeros(traits.zones, bool)
        flag[list(self.dirty)] = True
        full = np.full(traits.zones, traits.zone_bytes, np.uint64)
        return Zones(
            start_bytes=start, size_bytes=full,
            capacity_bytes=np.full(traits.zones, traits.capacity_bytes, np.uint64),
            write_pointer_bytes=start + self.pointer.astype(np.uint64), kind=kind,
            condition=np.array([self._condition(zone) for zone in range(traits.zones)], np.uint8),
            reset_recommended=np.zeros(traits.zones, bool), non_sequential=flag,
        )  # fmt: skip

    def non_sequential_zones(self) -> int:
        return len(self.dirty)

    def _condition(self, zone: int) -> int:
        """Read-only, explicitly open, full, implicitly open or closed, or empty."""
        if zone in self.traits.failed:
            return 13
        if self.open.get(zone):
            return 3
        if self.pointer[zone] >= self.traits.capacity_bytes:
            return 14
        if self.pointer[zone]:
            return 2 if zone in self.open else 4
        return 1

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        del depth
        begun, done, failed = [], [], []
        recent: list[bool] = []
        self.idle_ns = 0
        for op, offset, size in zip(io.op.tolist(), io.offset.tolist(), io.size.tolist(), strict=True):
            took = self._one(op, offset, size)
            begun.append(self.now_ns)
            self.now_ns += max(took, 1)
            done.append(self.now_ns)
            failed.append(11 if took < 0 else 0)  # insufficient zone resources
            recent = [*recent[-63:], until is not None and took >= until.latency_ns]
            if until is not None and sum(recent[-until.within :]) >= until.count:
                break
        log = IoLog.of(io.part(0, len(done)), np.array(begun, np.uint64), np.array(done, np.uint64))
        log.result[:] = failed
        return log

    def _one(self, op: int, offset: int, size: int) -> int:
        """How long a command takes, ns; -1 if it is refused."""
        zone = offset // self.traits.zone_bytes
        if op == Op.RESET_ZONE and size == 0:
            self.pointer[:] = 0
            self.open.clear()
            self.dirty.clear()
            self.cached = 0
            return 1_000
        if op == Op.RESET_ZONE:
            self.pointer[zone] = 0
            self.open.pop(zone, None)
            self.cached -= self.dirty.pop(zone, Dirty()).ios
            return 1_000
        if op == Op.OPEN_ZONE:
            most = self.traits.max_open if self.traits.keeps_limit else None
            if most is not None and sum(self.open.values()) >= most:
                return -1
            self.open[zone] = True
            return 1_000
        if op != Op.WRITE:
            return 1_000
        if zone in self.traits.failed:
            raise TargetError(f"write to zone {zone} failed: it is read-only")
        if offset % self.traits.zone_bytes == self.pointer[zone]:
            self.pointer[zone] += size
            return self.traits.write_ns + len(self.open) * self.traits.drift_ns + self._opened(zone)
        return -1 if self.traits.model == "host-managed" else self._random(zone, offset, size)

    def _opened(self, zone: int) -> int:
        """Opens a zone; what that costs, ns."""
        if zone in self.open:
            return 0
        self.open[zone] = False
        if len(self.open) <= self.traits.open_zones:
            return 0
        if self.traits.any_closes:
            del self.open[list(self.open)[int(self.random.integers(len(self.open) - 1))]]
        else:
            self.open.popitem(last=False)
        return self.traits.penalty_ns

    def _random(self, zone: int, offset: int, size: int) -> int:
        """Takes a write into the cache; how long that takes, ns."""
        traits, took = self.traits, self.traits.random_ns
        at = self.dirty.setdefault(zone, Dirty())
        inside = offset % traits.zone_bytes
        at.ios, at.first, at.end = at.ios + 1, min(at.first, inside), max(at.end, inside + size)
        self.cached += 1
        self.random_writes += 1
        took += traits.merge_ns if self.random_writes % traits.merge_every == 0 else 0
        low = traits.cache_writes // 2 if self.blocking else traits.cache_writes
        self.blocking = self.cached >= low
        return took + (self._cleaned() if self.blocking else 0)

    def _cost_ns(self, zone: int) -> int:
        """How long cleaning a zone takes: what lies before the last update is filled, and in a zone that is
        not empty what lies after the first is written again."""
        at = self.dirty[zone]
        end = int(self.pointer[zone])
        moved = end - at.first if end > at.first else at.end - end
        return (
            self.traits.clean_ns
            + at.ios * self.traits.clean_io_ns
            + moved * self.traits.clean_ns_a_mib // MIB
        )

    def _cleaned(self) -> int:
        """Cleans the zone that was updated first; how long that took, ns."""
        zone = next(iter(self.dirty))
        took = self._cost_ns(zone)
        at = self.dirty.pop(zone)
        self.cached -= at.ios
        self.pointer[zone] = max(int(self.pointer[zone]), at.end)
        return took

    def pause(self, seconds: float) -> None:
        left = self.idle_ns + round(seconds * 1e9)
        self.now_ns += round(seconds * 1e9)
        idle = round(self.traits.idle_s * 1e9)
        while self.dirty and left >= idle + self._cost_ns(next(iter(self.dirty))):
            left -= self._cleaned()
        self.idle_ns = left

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        yield SettingsReport(write_cache, look_ahead)

    def erase(self) -> bool:
        self.__post_init__()
        return True

    def close(self) -> None:
        """Does nothing."""
