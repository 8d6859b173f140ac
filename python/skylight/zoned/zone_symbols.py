"""How zones look: a name, a character and a colour for each condition, and what stands for a group of zones.

Characters differ for people who see no colours; the colours are those of the report's figures (after Okabe
and Ito, "Color Universal Design", 2008). A drive has more zones than a picture has places, so one place may
stand for neighbours: it shows the most notable of them, never a mean of conditions.

Source: ZBC-2 (INCITS 550), zone conditions and zone types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, U8, U64, Bools
from skylight.zoned.zones import NO_POINTER, ZoneCondition, ZoneKind, Zones


@dataclass(frozen=True, slots=True)
class Look:
    """One kind of place: its name, its character, its colour on a terminal (of rich) and in a picture."""

    name: str
    symbol: str
    style: str
    colour: str


LOOKS: tuple[Look, ...] = (
    Look("empty", ".", "dim", "#dfe4e8"),
    Look("conventional", "=", "white", "#aab3ba"),
    Look("full", "#", "blue", "#0072b2"),
    Look("closed", "c", "yellow", "#8a6d00"),
    Look("implicitly open", "o", "green", "#009e73"),
    Look("explicitly open", "O", "bright_red", "#d55e00"),
    Look("non-sequential", "~", "bright_magenta", "#a0508a"),
    Look("read-only", "r", "cyan", "#4a5560"),
    Look("offline", "X", "red", "#1c2126"),
    Look("of a reserved condition", "?", "red", "#1c2126"),
)
"""All looks, the less notable first: of a group of zones the last one is shown."""

NON_SEQUENTIAL = 6
_RESERVED = len(LOOKS) - 1
_OF_CONDITION: dict[int, int] = {
    ZoneCondition.NOT_WRITE_POINTER: 1,
    ZoneCondition.EMPTY: 0,
    ZoneCondition.IMPLICIT_OPEN: 4,
    ZoneCondition.EXPLICIT_OPEN: 5,
    ZoneCondition.CLOSED: 3,
    ZoneCondition.READ_ONLY: 7,
    ZoneCondition.FULL: 2,
    ZoneCondition.OFFLINE: 8,
}
"""The number of the look of each condition."""
_BY_CONDITION = np.array([_OF_CONDITION.get(condition, _RESERVED) for condition in range(256)], np.uint8)

OPEN = (ZoneCondition.IMPLICIT_OPEN, ZoneCondition.EXPLICIT_OPEN)
ACTIVE = (*OPEN, ZoneCondition.CLOSED)
FILTERS: dict[str, tuple[ZoneCondition, ...]] = {
    "conventional": (ZoneCondition.NOT_WRITE_POINTER,),
    "empty": (ZoneCondition.EMPTY,),
    "open": OPEN,
    "implicitly-open": OPEN[:1],
    "explicitly-open": OPEN[1:],
    "closed": (ZoneCondition.CLOSED,),
    "full": (ZoneCondition.FULL,),
    "read-only": (ZoneCondition.READ_ONLY,),
    "offline": (ZoneCondition.OFFLINE,),
}
"""Conditions by the name of a filter; two more filters, of `MARKS`, ask for a flag."""
MARKS = ("non-sequential", "reset-recommended")
_TYPES: dict[int, str] = {
    ZoneKind.CONVENTIONAL: "conventional",
    ZoneKind.SEQUENTIAL_WRITE_REQUIRED: "sequential write required",
    ZoneKind.SEQUENTIAL_WRITE_PREFERRED: "sequential write preferred",
}


def condition_name(condition: int) -> str:
    """A condition in words."""
    if condition == ZoneCondition.NOT_WRITE_POINTER:
        return "no write pointer"
    look = _BY_CONDITION[condition]
    return f"reserved ({condition:X}h)" if look == _RESERVED else LOOKS[look].name


def type_name(kind: int) -> str:
    """A type of zone in words."""
    return _TYPES.get(kind, f"reserved ({kind:X}h)")


def plain_looks(zones: Zones) -> U8:
    """The look of each zone's condition, by its number in `LOOKS`."""
    return _BY_CONDITION[zones.condition]


def looks_of(zones: Zones) -> U8:
    """The look of each zone: of its condition, or non-sequential, which says more of an open, closed or full
    zone."""
    look = plain_looks(zones)
    marked = zones.non_sequential & (look < NON_SEQUENTIAL)
    return np.where(marked, np.uint8(NON_SEQUENTIAL), look)


def written_bytes(zones: Zones) -> U64:
    """Bytes below the write pointer of each zone: none where there is no pointer, at most the capacity."""
    has_pointer = zones.write_pointer_bytes != NO_POINTER
    below = np.where(has_pointer, zones.write_pointer_bytes - zones.start_bytes, 0)
    return np.minimum(below, zones.capacity_bytes)


def fill_of(zones: Zones) -> F64:
    """The share of each zone's capacity that is written."""
    return written_bytes(zones) / np.maximum(zones.capacity_bytes.astype(np.float64), 1.0)


def chosen(zones: Zones, names: tuple[str, ...]) -> Bools:
    """Which zones any of these filters names; all of them without a filter."""
    if not names:
        return np.ones(len(zones), np.bool_)
    conditions = [condition for name in names for condition in FILTERS.get(name, ())]
    found: Bools = np.isin(zones.condition, conditions)
    if "non-sequential" in names:
        found = found | zones.non_sequential
    if "reset-recommended" in names:
        found = found | zones.reset_recommended
    return found


def runs(zones: Zones) -> Iterator[tuple[int, int]]:
    """Neighbours that differ in nothing but their place, as (first row, last row + 1)."""
    if not len(zones):
        return
    written, start, size = written_bytes(zones), zones.start_bytes, zones.size_bytes
    columns = (zones.kind, zones.condition, zones.non_sequential, zones.reset_recommended, written, size,
               zones.capacity_bytes)  # fmt: skip
    differs = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    borders = np.flatnonzero(differs | (start[1:] != start[:-1] + size[:-1])) + 1
    yield from zip([0, *borders.tolist()], [*borders.tolist(), len(zones)], strict=True)
