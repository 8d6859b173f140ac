"""The zones of a drive: what is fixed about them, and their state as numpy columns.

An emulated drive and a device report the same. Numbers of types and conditions are those of ZBC-2.

Invariants: the columns of `Zones` have one length and the types below; zones are in the order of their start
and leave no gap; places and sizes are bytes.

Sources: ZBC-2 (INCITS 550), REPORT ZONES and the Zoned Block Device Characteristics page; ZAC-2 has the same
fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U8, U64, Bools

ZoneModel = Literal["host-managed", "host-aware"]

NO_POINTER = np.uint64(2**64 - 1)
"""The write pointer of a zone that has none: conventional, read-only or offline."""


class ZoneKind(IntEnum):
    """The type of a zone; the value is that of the zone descriptor."""

    CONVENTIONAL = 1
    SEQUENTIAL_WRITE_REQUIRED = 2
    SEQUENTIAL_WRITE_PREFERRED = 3


class ZoneCondition(IntEnum):
    """The condition of a zone; the value is that of the zone descriptor."""

    NOT_WRITE_POINTER = 0x0
    EMPTY = 0x1
    IMPLICIT_OPEN = 0x2
    EXPLICIT_OPEN = 0x3
    CLOSED = 0x4
    READ_ONLY = 0xD
    FULL = 0xE
    OFFLINE = 0xF


@dataclass(frozen=True, slots=True)
class ZoneLayout:
    """What is fixed about the zones of a drive. Limits are None where there is none.

    `max_open` is a limit of a host-managed drive, and what a host-aware one recommends; `max_active` limits
    open and closed zones together; `recommended_non_sequential` is how many zones a host-aware drive
    recommends to write out of order at most."""

    model: ZoneModel
    zone_bytes: int
    zones: int
    conventional_zones: int
    max_open: int | None
    max_active: int | None
    recommended_non_sequential: int | None


@dataclass(frozen=True, slots=True)
class Zones:
    """The state of zones, a row each.

    `write_pointer_bytes` is a place on the drive: the end of the zone for a full one, `NO_POINTER` for a zone
    without a pointer. `capacity_bytes` is how much data a zone holds, at most its size."""

    start_bytes: U64
    size_bytes: U64
    capacity_bytes: U64
    write_pointer_bytes: U64
    kind: U8
    condition: U8
    reset_recommended: Bools
    non_sequential: Bools

    def __post_init__(self) -> None:
        """Checks that the columns have one length."""
        shapes = {field.name: getattr(self, field.name).shape for field in fields(self)}
        if len(set(shapes.values())) != 1 or self.start_bytes.ndim != 1:
            raise ValueError(f"columns of zones differ in length: {shapes}")

    def __len__(self) -> int:
        """Number of zones."""
        return int(self.start_bytes.shape[0])

    def rows(self, chosen: slice | NDArray[np.generic]) -> Zones:
        """These zones: a slice, a mask or indices."""
        return Zones(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def only(self, condition: ZoneCondition) -> Zones:
        """The zones in a condition."""
        return self.rows(self.condition == int(condition))

    @staticmethod
    def of(columns: Mapping[str, Any]) -> Zones:
        """From columns by name."""
        return Zones(**{field.name: columns[field.name] for field in fields(Zones)})
