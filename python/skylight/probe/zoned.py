"""What the tests of zones share: the zones that a target reports, as a step keeps them, and writes to them.

A zoned target declares its zones, so a test need not find them; what it does not declare is what writes to
them cost. `Steps.zones` asks for the report; the step keeps what tests decide by (`ZonesSeen`), so a replay
takes the same turns. Zones are reset in the batch that writes to them anew.

Invariant: a target without zones has no step of it; nothing about it is kept.

Source: ZBC-2 (INCITS 550), clauses 4.4 (zone model, conditions) and 5.5 (REPORT ZONES).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from skylight.engines import Engine, ZonedEngine
from skylight.errors import UsageError
from skylight.evidence import I64, IoBatch, JsonScalar, Op
from skylight.zoned.zones import ZoneCondition, ZoneKind, ZoneLayout, Zones

HOST_AWARE, HOST_MANAGED = "host-aware", "host-managed"


@dataclass(frozen=True, slots=True)
class ZonesSeen:
    """A report of zones, as far as tests need it.

    `first` and `usable`: the longest run of neighbouring zones with a write pointer and of one size;
    `capacity_bytes` is the least capacity among them. Limits are None where the target declares none.
    `explicit_open` counts zones in that condition, `non_sequential` those with non-sequential data."""

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
        names = [field.name for field in fields(ZonesSeen)]
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


def joined(*batches: IoBatch) -> IoBatch:
    """Batches one after the other, as one."""
    return IoBatch(
        np.concatenate([batch.op for batch in batches]),
        np.concatenate([batch.offset for batch in batches]),
        np.concatenate([batch.size for batch in batches]),
    )
