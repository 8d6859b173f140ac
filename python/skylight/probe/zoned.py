"""What the tests of zones share: the zones that a target reports, as a step keeps them, and writes to them.

A zoned target declares its zones, so a test need not find them; what it does not declare is what writes to
them cost. `Steps.zones` asks for the report; the step keeps what tests decide by (`ZonesSeen`), so a replay
takes the same turns. Zones are reset in the batch that writes to them anew.

The ordinary tests take a target for a run of bytes that may be written anywhere and read everywhere. Of a
host-aware one that is true of the zones with a write pointer alone (`UsablePart`), and only what was written
lies on the medium: a place that is to be read there is written first (`Filling`).

Invariants: a target without zones has no step of it; nothing about it is kept. What is filled is full, so
that it takes no resource of an open zone.

Source: ZBC-2 (INCITS 550), clauses 4.4 (zone model, conditions) and 5.5 (REPORT ZONES).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace

import numpy as np

from skylight.engines import Engine, TellsHoles, Trims, ZonedEngine, eraser_of
from skylight.engines.erase import Erase, Erased, Follow, Offer
from skylight.errors import UsageError
from skylight.evidence import (
    I64,
    U64,
    Bools,
    IoBatch,
    IoLog,
    JsonScalar,
    Op,
    SettingsReport,
    Stop,
    TargetFacts,
)
from skylight.zoned.zones import NO_POINTER, ZoneCondition, ZoneKind, ZoneLayout, Zones

HOST_AWARE, HOST_MANAGED = "host-aware", "host-managed"

PART = "part"
"""The step that keeps which zones a test was given for the whole target: addresses of its steps count from
the first of them."""

COUNTED = "zones-counted"
"""The step that keeps how many zones have non-sequential data, between writes."""

NON_SEQUENTIAL = "non_sequential"
"""The parameter of a step that keeps how many zones have non-sequential data."""

FILLED = "zones-filled"
"""The step that fills zones, so that reads of them reach the medium."""

FILL_BYTES = 1 << 20
"""Bytes of one write that fills a zone."""

MOST_FILLED_BYTES = 64 << 30
"""Written by one step to fill zones. Chosen: ten minutes at 100 MB/s, and 32 zones of the largest size."""

MOST_FILLED_BY_TEST_BYTES = 512 << 30
"""Written by all such steps of one test. Chosen: an hour and a half at 100 MB/s, and eight of the largest."""

MOST_FILLING_S = 28_800.0
"""Device time of all such steps of one test. Chosen: at 20 MB/s the bytes are written in it; writes of a
mebibyte take some turns each with the write cache off."""

RESET_ALL = IoBatch.make(Op.RESET_ZONE, [0], 0)
"""A reset of all zones: a size of 0 means all."""

_FAILED = (int(ZoneCondition.READ_ONLY), int(ZoneCondition.OFFLINE))
"""Conditions of a zone that takes no write: its head or its medium failed."""


@dataclass(frozen=True, slots=True)
class ZonesSeen:
    """A report of zones, as far as tests need it.

    `first` and `usable`: the longest run of neighbouring zones with a write pointer and of one size that can
    be written; `capacity_bytes` is the least capacity among them. Limits are None where the target declares
    none. `explicit_open` counts zones in that condition, `non_sequential` those with non-sequential data."""

    model: str
    zone_bytes: int
    capacity_bytes: int
    zones: int
    conventional: int
    first: int
    usable: int
    max_open: int | None
    max_active: int | None
    recommended_non_sequential: int | None
    explicit_open: int
    non_sequential: int

    @staticmethod
    def of(layout: ZoneLayout, zones: Zones) -> ZonesSeen:
        """What a target declares of its zones and what it reports of them."""
        is_usable = (zones.kind != ZoneKind.CONVENTIONAL) & (zones.size_bytes == layout.zone_bytes)
        is_usable &= ~np.isin(zones.condition, _FAILED)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], is_usable, [False]]).astype(np.int8)))
        runs = edges.reshape(-1, 2)
        first, end = runs[int(np.argmax(runs[:, 1] - runs[:, 0]))].tolist() if len(runs) else (0, 0)
        capacity = zones.capacity_bytes[first:end]
        return ZonesSeen(
            layout.model,
            layout.zone_bytes,
            int(capacity.min()) if len(capacity) else 0,
            len(zones.kind),
            int(np.count_nonzero(zones.kind == ZoneKind.CONVENTIONAL)),
            first,
            end - first,
            layout.max_open,
            layout.max_active,
            layout.recommended_non_sequential,
            int(np.count_nonzero(zones.condition == ZoneCondition.EXPLICIT_OPEN)),
            int(np.count_nonzero(zones.non_sequential)),
        )

    def params(self) -> dict[str, JsonScalar]:
        """The parameters of the step that keeps it."""
        return asdict(self)

    @staticmethod
    def kept(name: str, params: Mapping[str, JsonScalar]) -> ZonesSeen:
        """As a step kept it; refuses a recording that does not hold it."""
        names = [each.name for each in fields(ZonesSeen)]
        limits = ("max_open", "max_active", "recommended_non_sequential")
        for each in names:
            value = params.get(each)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not (
                whole or (each == "model" and isinstance(value, str)) or (each in limits and value is None)
            ):
                raise UsageError(f"step {name!r} has {each} {value!r}; probe the target again")
        return ZonesSeen(**{each: params[each] for each in names})  # type: ignore[arg-type]  # checked above

    def start_bytes(self, zone: I64) -> I64:
        """Where the usable zones of these numbers, from 0, begin."""
        return (zone + self.first) * self.zone_bytes

    def reset(self, zone: I64) -> IoBatch:
        """A reset of each of these usable zones."""
        return self.action(Op.RESET_ZONE, zone)

    def action(self, op: Op, zone: I64) -> IoBatch:
        """A zone action on each of these usable zones."""
        return IoBatch.make(op, self.start_bytes(zone).astype(np.uint64), self.zone_bytes)


def counted(name: str, params: Mapping[str, JsonScalar]) -> int:
    """How many zones have non-sequential data, as a step kept it: a count, or a whole report."""
    value = params.get(NON_SEQUENTIAL)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"step {name!r} has {NON_SEQUENTIAL} {value!r}; probe the target again")
    return value


@dataclass(frozen=True, slots=True)
class Packed:
    """Addresses without what lies between the capacity of a zone and its end, where a zone has no sectors:
    `first_bytes` before the first zone with a write pointer, then what the zones hold, one behind the other,
    as they lie on the platters.

    >>> packed = Packed(100, 50, 30, 160)
    >>> packed.there(np.array([99, 100, 129, 130, 159], np.uint64))
    array([ 99, 100, 129, 150, 179], dtype=uint64)
    >>> packed.back(np.array([99, 100, 129, 150, 179], np.uint64))
    array([ 99, 100, 129, 130, 159], dtype=uint64)
    """

    first_bytes: int
    zone_bytes: int
    capacity_bytes: int
    size_bytes: int

    @staticmethod
    def of(seen: ZonesSeen | None, size_bytes: int, block_bytes: int) -> Packed:
        """Those of a target of this size: all of it, where its zones hold as much as their size. So too where
        a block would lie in two zones, or others follow those that are usable: these stay where they are."""
        whole = Packed(size_bytes, 1, 1, size_bytes)
        if seen is None or not 0 < seen.capacity_bytes < seen.zone_bytes:
            return whole
        if seen.capacity_bytes % block_bytes or seen.first + seen.usable < seen.zones - 1:
            return whole
        first = seen.first * seen.zone_bytes
        size = first + seen.usable * seen.capacity_bytes
        return Packed(first, seen.zone_bytes, seen.capacity_bytes, size)

    def there(self, packed: U64) -> U64:
        """The addresses on the target of packed ones."""
        return self._moved(packed, self.capacity_bytes, self.zone_bytes)

    def back(self, offset: U64) -> U64:
        """The packed addresses of those on the target that zones have."""
        return self._moved(offset, self.zone_bytes, self.capacity_bytes)

    def _moved(self, at: U64, one: int, other: int) -> U64:
        """Addresses in zones `other` bytes apart of those in zones `one` byte apart."""
        inside = np.maximum(at, np.uint64(self.first_bytes)) - np.uint64(self.first_bytes)
        moved = inside // np.uint64(one) * np.uint64(other) + inside % np.uint64(one)
        return np.where(at < self.first_bytes, at, moved + np.uint64(self.first_bytes))


def layout_of(engine: Engine) -> ZoneLayout | None:
    """What a target declares of its zones; None where it has none."""
    return engine.zone_layout() if isinstance(engine, ZonedEngine) else None


def model_of(engine: Engine) -> str | None:
    """The zone model of a target; None where it has no zones."""
    layout = layout_of(engine)
    return None if layout is None else layout.model


def zones_of(engine: Engine) -> ZonesSeen | None:
    """The zones of a target as it reports them; None where it has none."""
    layout = layout_of(engine)
    if layout is None or not isinstance(engine, ZonedEngine):
        return None
    return ZonesSeen.of(layout, engine.report_zones())


def non_sequential_of(engine: Engine) -> int | None:
    """How many zones of a target have non-sequential data; None where it has no zones."""
    if not isinstance(engine, ZonedEngine) or engine.zone_layout() is None:
        return None
    return engine.non_sequential_zones()


def is_filled(step: str) -> bool:
    """Whether the step of that name fills zones.

    >>> is_filled("zones-filled-2"), is_filled("zones")
    (True, False)
    """
    return re.fullmatch(rf"{FILLED}(-\d+)?", step) is not None


class UsablePart:
    """The usable zones of a target as a target of their own: addresses count from the first of them."""

    def __init__(self, engine: Engine, seen: ZonesSeen) -> None:
        """The part of `engine` that `seen` says."""
        self._engine = engine
        self._seen = seen
        self._base = np.uint64(seen.first * seen.zone_bytes)
        self.size = seen.usable * seen.zone_bytes
        self.can_write = engine.can_write
        self.repeatable = engine.repeatable

    def describe(self) -> TargetFacts:
        """The target's identity, and the size of the part."""
        return replace(self._engine.describe(), size_bytes=self.size)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch behind the base; the log has the addresses that were asked for."""
        placed = io.size > 0  # a FLUSH and a command for all zones have no place
        there = IoBatch(io.op, np.where(placed, io.offset + self._base, io.offset), io.size)
        log = self._engine.run(there, depth=depth, until=until)
        return replace(log, offset=io.offset[: len(log)])

    def pause(self, seconds: float) -> None:
        """Leaves the target idle."""
        self._engine.pause(seconds)

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        """The target's settings."""
        return self._engine.settings(write_cache=write_cache, look_ahead=look_ahead)

    def erase(self) -> bool:
        """Erases the whole target."""
        return self._engine.erase()

    def erase_offer(self, erase: Erase) -> Offer:
        """What an erase of the whole target would be."""
        return eraser_of(self._engine).erase_offer(erase)

    def erase_by(self, erase: Erase, follow: Follow) -> Erased:
        """Erases the whole target."""
        return eraser_of(self._engine).erase_by(erase, follow)

    def trim(self) -> bool:
        """TRIM of the whole target."""
        return isinstance(self._engine, Trims) and self._engine.trim()

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets at which nothing is stored."""
        return self._engine.holes(offsets + self._base) if isinstance(self._engine, TellsHoles) else None

    def zone_layout(self) -> ZoneLayout | None:
        """What the target declares of its zones, of the part alone."""
        layout = layout_of(self._engine)
        return None if layout is None else replace(layout, zones=self._seen.usable, conventional_zones=0)

    def report_zones(self) -> Zones:
        """The state of the zones of the part."""
        rows = (
            self._zoned().report_zones().rows(slice(self._seen.first, self._seen.first + self._seen.usable))
        )
        pointer = np.where(
            rows.write_pointer_bytes == NO_POINTER, NO_POINTER, rows.write_pointer_bytes - self._base
        )
        return replace(rows, start_bytes=rows.start_bytes - self._base, write_pointer_bytes=pointer)

    def non_sequential_zones(self) -> int:
        """How many zones of the part have non-sequential data; no zone without a write pointer has any."""
        if self._seen.usable + self._seen.conventional < self._seen.zones:
            return int(np.count_nonzero(self.report_zones().non_sequential))
        return self._zoned().non_sequential_zones()

    def _zoned(self) -> ZonedEngine:
        if not isinstance(self._engine, ZonedEngine):
            raise UsageError("a target without zones has no part of them")
        return self._engine

    def close(self) -> None:
        """Releases the target."""
        self._engine.close()


@dataclass(slots=True)
class Filling:
    """The zones that a test has filled so far, and how much it wrote to them."""

    full: set[int] = field(default_factory=set)
    begun: bool = False
    """Whether the test has said itself what it reads."""
    filled_bytes: int = 0
    """Written by the whole test: a reset does not begin anew."""
    refused: bool = False
    """Whether a command of a filling failed: the target is not asked for more before the next reset."""
    met: set[int] = field(default_factory=set)
    """Zones that a step has touched already: what they hold is what the test wanted."""

    def emptied(self) -> None:
        """All zones were reset."""
        self.full.clear()
        self.met.clear()
        self.refused = False

    def done(self, zones: Zones, log: IoLog, *, whole: bool) -> None:
        """Counts what a filling wrote. Where `whole` says that all of it was done, its zones are full from
        now on; not so those filled ahead, which lose it with the first filling for reads."""
        writes = log.rows(log.op == int(Op.WRITE))
        self.filled_bytes += int(writes.size.sum(dtype=np.int64))
        self.refused |= not whole
        if whole and self.begun:
            touched = np.searchsorted(zones.start_bytes, writes.offset, side="right") - 1
            self.full |= set(np.unique(touched).tolist())

    def batch(self, zones: Zones, offset: U64, size: int, *, rest: bool) -> IoBatch | None:
        """What is left to be written so that there is data at these offsets, `size` bytes each; nothing where
        all is there. None where that cannot be: behind the capacity of a zone, beyond what a step or a test
        may fill, or where the target refused it. The first begins with a reset of all zones: what lies in a
        cache for them is gone. With `rest` a filling was interrupted: its zones are reset and begun anew."""
        end = offset + np.uint64(size) - np.uint64(1)
        first, last = (np.searchsorted(zones.start_bytes, each, side="right") - 1 for each in (offset, end))
        number = np.unique(np.concatenate([first, last]))
        pointed = zones.kind[number] != int(ZoneKind.CONVENTIONAL)
        beyond = end - zones.start_bytes[last] >= zones.capacity_bytes[last]
        wanted = [each for each in number[pointed].tolist() if each not in self.full]
        more = int(zones.capacity_bytes[wanted].sum())
        too_much = more > min(MOST_FILLED_BYTES, MOST_FILLED_BY_TEST_BYTES - self.filled_bytes)
        if bool(beyond.any()) or (wanted and (too_much or self.refused)) or not _all_work(zones, wanted):
            return None
        if not wanted:
            return IoBatch.writes([], FILL_BYTES)
        begin = [] if self.begun else [RESET_ALL]
        if self.begun and rest:
            begin = [IoBatch.make(Op.RESET_ZONE, zones.start_bytes[wanted], int(zones.size_bytes[wanted[0]]))]
        writes = _writes(zones, np.array(wanted), zones.start_bytes[wanted])
        return joined(*begin, *writes, IoBatch.make(Op.FLUSH, [0], 0))

    def new(self, zone_bytes: int, io: IoBatch) -> set[int]:
        """The zones that a step is the first to touch; none where it would take too much to fill them. A zone
        that is reset is not filled: what is written to it is to be at its write pointer."""
        reset = (io.op == int(Op.RESET_ZONE)) & (io.size > 0)
        self.met |= set(np.unique(io.offset[reset] // np.uint64(zone_bytes)).tolist())
        touched = (io.op <= int(Op.WRITE)) & (io.size > 0)
        first = io.offset[touched] // np.uint64(zone_bytes)
        last = (io.offset[touched] + io.size[touched] - np.uint64(1)) // np.uint64(zone_bytes)
        new = set(np.unique(np.concatenate([first, last])).tolist()) - self.met
        return new if len(new) * zone_bytes <= MOST_FILLED_BYTES else set()

    def ahead(self, zones: Zones, new: set[int], *, rest: bool) -> IoBatch | None:
        """Writes that fill the empty ones among the zones that a step is the first to touch (`new`): then all
        its writes to them go to the cache, and its reads of them reach the medium, as on a drive without
        zones. Zones that hold data, or for which a cache holds some, are left as they are, but with `rest`
        those with a part: there a filling was interrupted. None where there is nothing to fill, or the target
        refused it: then writes at a write pointer go to the zone, and nothing is read behind one."""
        number = np.array(sorted(new), np.int64)
        wanted = zones.condition[number] == int(ZoneCondition.EMPTY)
        if rest:
            wanted |= np.isin(zones.condition[number], _IN_PART)
        wanted &= ~zones.non_sequential[number]
        number = number[wanted]
        if self.refused or not (rest or len(number)):  # an interrupted one was not flushed
            return None
        writes = _writes(zones, number, zones.write_pointer_bytes[number])
        return joined(*writes, IoBatch.make(Op.FLUSH, [0], 0))


_IN_PART = (int(ZoneCondition.IMPLICIT_OPEN), int(ZoneCondition.EXPLICIT_OPEN), int(ZoneCondition.CLOSED))
"""Conditions of a zone that holds data and has room for more."""


def _all_work(zones: Zones, wanted: list[int]) -> bool:
    """Whether all these zones can be written to."""
    return not bool(np.isin(zones.condition[wanted], _FAILED).any())


def _writes(zones: Zones, number: I64, begin: U64) -> list[IoBatch]:
    """Writes of each of these zones from a byte of it to its capacity, in order."""
    end = zones.start_bytes[number] + zones.capacity_bytes[number]
    return [_run(*each) for each in zip(begin.tolist(), end.tolist(), strict=True)]


def _run(begin: int, end: int) -> IoBatch:
    """Writes from one byte to another, in order."""
    offset = np.arange(begin, end, FILL_BYTES, dtype=np.uint64)
    size = np.minimum(np.uint64(end) - offset, np.uint64(FILL_BYTES)).astype(np.uint32)
    return IoBatch(np.full(len(offset), int(Op.WRITE), np.uint8), offset, size)


def holds_data(zones: Zones, offset: U64, size: int) -> bool:
    """Whether all these offsets, `size` bytes each, lie below write pointers or in zones without one."""
    number = np.searchsorted(zones.start_bytes, offset, side="right") - 1
    pointed: Bools = zones.kind[number] != int(ZoneKind.CONVENTIONAL)
    below = offset + np.uint64(size) <= zones.write_pointer_bytes[number]
    return bool(np.all(below | ~pointed))


def joined(*batches: IoBatch) -> IoBatch:
    """Batches one after the other, as one."""
    return IoBatch(
        np.concatenate([batch.op for batch in batches]),
        np.concatenate([batch.offset for batch in batches]),
        np.concatenate([batch.size for batch in batches]),
    )
