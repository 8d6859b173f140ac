"""Evidence: the commands sent to a target and their times, as numpy columns.

A test plans an `IoBatch`; an engine runs it and returns an `IoLog`, the same rows with the time each was
submitted and completed. `Step`s (a run of I/O, a pause, a settings report) in order form the `Evidence` of
one test. Inference and figures see only evidence, never a drive, so a recording is as good as a live target.

Invariants: columns of a batch or log have one length and the types below; offsets and sizes are bytes; times
are nanoseconds of one monotonic clock (virtual for emulated drives); a log holds the rows in submission order
and no row completes before it was submitted.

Source: docs/architecture.md, "Five ideas that carry everything", 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skylight.errors import UsageError, one_line

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

JsonScalar = str | int | float | bool | None
"""A value that evidence may carry beside its columns."""

Params = Mapping[str, JsonScalar]
StepKind = Literal["run", "pause", "settings", "erase", "bound", "zones"]


class Op(IntEnum):
    """Operation of one I/O; the value is the code in the `op` column. Of what is done to a zone, offset and
    size are the zone's, or the size is 0 for all zones."""

    READ = 0
    WRITE = 1
    FLUSH = 2
    TRIM = 3
    WRITE_FUA = 4
    OPEN_ZONE = 5
    CLOSE_ZONE = 6
    FINISH_ZONE = 7
    RESET_ZONE = 8
    APPEND = 9


WRITES = (int(Op.WRITE), int(Op.WRITE_FUA))
"""What a probe writes with."""


def are_writes(op: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which rows of an `op` column write.

    >>> are_writes(np.array([Op.READ, Op.WRITE, Op.FLUSH, Op.WRITE_FUA])).tolist()
    [False, True, False, True]
    """
    plain, forced = WRITES
    # Not isin, which takes ten times as long: a bound is looked at between any two commands of a run.
    return np.asarray((op == plain) | (op == forced))


FAILURES: dict[int, str] = {
    1: "unsupported",
    2: "overwritten",
    3: "medium error",
    4: "no space",
    5: "not permitted",
    6: "no memory",
    7: "unaligned write command",
    8: "write boundary violation",
    9: "attempt to read invalid data",
    10: "read boundary violation",
    11: "insufficient zone resources",
    12: "zone is read only",
    13: "zone is offline",
    14: "invalid field in CDB",
    15: "internal target failure",
    16: "aborted command",
    17: "logical block address out of range",
}
"""Why an I/O failed, by its number in the column `result`: those of zones as SPC-5 names them."""

_SECTOR = np.uint64(512)
_ALL_DONE: U64 = np.empty(0, np.uint64)


def _differ(*columns: NDArray[np.generic]) -> ValueError:
    return ValueError(f"columns differ in length: {[column.shape for column in columns]}")


@dataclass(frozen=True, slots=True)
class IoBatch:
    """I/O to run in this order: operation, offset in bytes, size in bytes."""

    op: U8
    offset: U64
    size: U32

    def __post_init__(self) -> None:
        """Checks that the columns have one length."""
        shape = self.op.shape  # compared one by one: batches are made by the hundred thousand
        if len(shape) != 1 or self.offset.shape != shape or self.size.shape != shape:
            raise _differ(self.op, self.offset, self.size)

    def __len__(self) -> int:
        """Number of I/Os."""
        return int(self.op.shape[0])

    def part(self, first: int, last: int) -> IoBatch:
        """Rows `first` to `last` (exclusive)."""
        return IoBatch(self.op[first:last], self.offset[first:last], self.size[first:last])

    @staticmethod
    def make(op: Op, offsets: ArrayLike, size: int) -> IoBatch:
        """One operation at each offset (bytes), each of `size` bytes."""
        offset = np.ascontiguousarray(offsets, dtype=np.uint64)
        return IoBatch(
            np.full(offset.shape, int(op), dtype=np.uint8),
            offset,
            np.full(offset.shape, size, dtype=np.uint32),
        )

    @staticmethod
    def reads(offsets: ArrayLike, size: int) -> IoBatch:
        """Reads of `size` bytes at each offset (bytes)."""
        return IoBatch.make(Op.READ, offsets, size)

    @staticmethod
    def writes(offsets: ArrayLike, size: int) -> IoBatch:
        """Writes of `size` bytes at each offset (bytes)."""
        return IoBatch.make(Op.WRITE, offsets, size)

    @staticmethod
    def flushed_writes(offsets: ArrayLike, size: int) -> IoBatch:
        """Writes of `size` bytes at each offset, each followed by a FLUSH (offset 0, size 0)."""
        where = np.ascontiguousarray(offsets, dtype=np.uint64)
        op = np.tile(np.array([int(Op.WRITE), int(Op.FLUSH)], dtype=np.uint8), len(where))
        offset = np.zeros(2 * len(where), dtype=np.uint64)
        sizes = np.zeros(2 * len(where), dtype=np.uint32)
        offset[0::2] = where
        sizes[0::2] = size
        return IoBatch(op, offset, sizes)


@dataclass(frozen=True, slots=True)
class IoLog:
    """Completed I/O: the batch's columns, the submission and completion time of each row (ns), and the result
    of each: 0 where it is done, a number of `FAILURES` where it failed, and for an append the byte at which
    its data begins. Without results, all are done."""

    op: U8
    offset: U64
    size: U32
    submit_ns: U64
    complete_ns: U64
    result: U64 = field(default_factory=lambda: _ALL_DONE)

    def __post_init__(self) -> None:
        """Fills in missing results, and checks that the columns have one length."""
        shape = self.op.shape
        if self.result is _ALL_DONE:
            object.__setattr__(self, "result", np.zeros(shape, np.uint64))
        same = self.offset.shape == shape and self.size.shape == shape and self.result.shape == shape
        if len(shape) != 1 or not same or not self.submit_ns.shape == self.complete_ns.shape == shape:
            raise _differ(*(getattr(self, name) for name in LOG_COLUMNS))

    def __len__(self) -> int:
        """Number of I/Os."""
        return int(self.op.shape[0])

    @property
    def latency_ns(self) -> I64:
        """Completion minus submission of each row, ns."""
        return self.complete_ns.astype(np.int64) - self.submit_ns.astype(np.int64)

    @property
    def failed(self) -> Bools:
        """Which rows failed: data begins at whole sectors, and failures have other numbers."""
        return np.asarray(self.result % _SECTOR != 0, dtype=np.bool_)

    @property
    def span_ns(self) -> int:
        """From the first submission to the last completion, ns; 0 without rows."""
        return int(self.complete_ns.max()) - int(self.submit_ns[0]) if len(self) else 0

    @property
    def batch(self) -> IoBatch:
        """The commands, without the times."""
        return IoBatch(self.op, self.offset, self.size)

    def rows(self, chosen: slice | NDArray[np.generic]) -> IoLog:
        """These rows: a slice, a mask or indices."""
        return IoLog(*(getattr(self, name)[chosen] for name in LOG_COLUMNS))

    def only(self, op: Op) -> IoLog:
        """The rows of one operation."""
        return self.rows(self.op == int(op))

    def equals(self, other: IoLog) -> bool:
        """True if all columns of both are equal."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in LOG_COLUMNS)

    @staticmethod
    def of(batch: IoBatch, submit_ns: U64, complete_ns: U64) -> IoLog:
        """The log of `batch` with the times an engine measured."""
        return IoLog(batch.op, batch.offset, batch.size, submit_ns, complete_ns)

    @staticmethod
    def joined(logs: list[IoLog]) -> IoLog:
        """Concatenates logs, in order."""
        if len(logs) < 2:
            return logs[0] if logs else EMPTY_LOG
        return IoLog(*(np.concatenate([getattr(log, name) for log in logs]) for name in LOG_COLUMNS))


LOG_COLUMNS: dict[str, type[np.unsignedinteger[Any]]] = {
    "op": np.uint8,
    "offset": np.uint64,
    "size": np.uint32,
    "submit_ns": np.uint64,
    "complete_ns": np.uint64,
    "result": np.uint64,
}
"""Names and types of a log's columns, in order."""

EMPTY_LOG = IoLog(
    np.empty(0, np.uint8),
    np.empty(0, np.uint64),
    np.empty(0, np.uint32),
    np.empty(0, np.uint64),
    np.empty(0, np.uint64),
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a run of I/O early: nothing more is submitted once `count` of the last `within` completions (at
    most 64) took `latency_ns` or longer, or one took `alone_ns`."""

    latency_ns: int
    count: int = 1
    within: int = 1
    alone_ns: int | None = None

    def __post_init__(self) -> None:
        """Checks that the numbers are valid."""
        if self.latency_ns < 0 or not 1 <= self.count <= self.within <= 64:
            raise ValueError(f"not a stop: {self}")

    def after(self, log: IoLog) -> Stop:
        """A stop that is reached no later by the commands that follow a log: those of its last that were slow
        count. The two together show whether this one is."""
        if not np.any(log.latency_ns >= self.latency_ns):
            return self
        last = np.sort(log.complete_ns)[-self.within :]
        slow = log.latency_ns[log.complete_ns >= last[0]] >= self.latency_ns
        return replace(self, count=max(self.count - int(np.count_nonzero(slow)), 1))

    def reached(self, log: IoLog) -> bool:
        """Whether the I/Os of a log reach the stop, in completion order."""
        is_slow = log.latency_ns >= self.latency_ns
        if self.alone_ns is not None and np.any(log.latency_ns >= self.alone_ns):
            return True
        if np.count_nonzero(is_slow) < self.count:
            return False
        slow = np.concatenate([[0], np.cumsum(is_slow[np.argsort(log.complete_ns, kind="stable")])])
        among = slow[1:] - slow[np.maximum(np.arange(1, len(slow)) - self.within, 0)]
        return bool(np.any(among >= self.count))


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The identity of a target and the properties that it declares; never measurements.

    `kind` is "sim", "device", "file" or "fio-log"; `name` is the target as given (`sim:emulated-smr-1`,
    `/dev/sdb`); `declared` holds the declared properties: model, serial, rotational, write_cache, profile
    digest ..."""

    kind: str
    name: str
    size_bytes: int
    block_bytes: int
    declared: Params = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Makes the name printable text: a path may contain bytes that are not UTF-8."""
        object.__setattr__(self, "name", one_line(self.name))

    def to_json(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "kind": self.kind,
            "name": self.name,
            "size_bytes": self.size_bytes,
            "block_bytes": self.block_bytes,
            "declared": dict(self.declared),
        }


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """Settings in force during a test: True is on, False is off as the target reports it, None is unknown.
    `scheduler` is whether the kernel reorders and merges commands; None where nothing can, or where it is not
    known because the target lies on other devices. `queue_depth` is how many commands the kernel has in the
    drive at once; None where it does not say."""

    write_cache: bool | None
    look_ahead: bool | None
    note: str = ""
    scheduler: bool | None = None
    queue_depth: int | None = None

    def params(self) -> dict[str, JsonScalar]:
        """The parameters of the step that records them."""
        order: dict[str, JsonScalar] = {} if self.scheduler is None else {"scheduler": self.scheduler}
        if self.queue_depth is not None:
            order["queue_depth"] = self.queue_depth
        return {"write_cache": self.write_cache, "look_ahead": self.look_ahead, "note": self.note, **order}


@dataclass(frozen=True, slots=True)
class Step:
    """One action on the target: a run of I/O (with its log), a pause, a settings report, an erase, a report
    of zones; or the bound that ended the test. `host` is what the host added to its time, ns, where that is
    known: `waited_ns` while it ran; since the step before ended `suspended_ns`, and by how much its time of
    day was set, `set_forward_ns` or `set_back_ns`."""

    name: str
    kind: StepKind
    params: Params = field(default_factory=dict)
    log: IoLog | None = None
    host: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> IoLog:
        """The log; empty for a step without I/O."""
        return EMPTY_LOG if self.log is None else self.log

    @property
    def depth(self) -> int:
        """How many commands were to wait at once; 1 where nothing is said."""
        depth = self.params.get("depth")
        return depth if isinstance(depth, int) and depth > 0 else 1

    @property
    def device_ns(self) -> int:
        """Time that it took on the target, ns."""
        if self.kind in ("pause", "erase"):
            seconds = self.params.get("seconds")
            return round(float(seconds) * 1e9) if isinstance(seconds, int | float) else 0
        return self.rows.span_ns

    @property
    def read_bytes(self) -> int:
        """Bytes that it read."""
        return int(self.rows.size[self.rows.op == int(Op.READ)].sum(dtype=np.uint64))

    @property
    def written_bytes(self) -> int:
        """Bytes that it wrote."""
        return int(self.rows.size[are_writes(self.rows.op)].sum(dtype=np.uint64))

    def number(self, name: str, most: float) -> float | None:
        """A parameter from 0 to `most`; None if it is absent. Refuses the recording otherwise."""
        value = self.params.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise UsageError(
                f"step {self.name!r} has {name} {value!r}, not a number from 0 to {most}; probe the target"
                " again"
            )
        return float(value)


@dataclass(slots=True)
class Evidence:
    """All actions of one test on one target. `complete` is False for an interrupted test; `cut` holds the
    interrupted steps, which were done to the target but are never used as evidence."""

    test: str
    target: TargetFacts
    steps: list[Step] = field(default_factory=list)
    complete: bool = False
    notes: list[str] = field(default_factory=list)
    cut: list[Step] = field(default_factory=list)
    shown: Any = field(default=None, init=False, repr=False, compare=False)
    """What the test saw in it when it was inferred from last; figures show that."""

    @property
    def done(self) -> tuple[Step, ...]:
        """All that was done to the target: also the steps that were interrupted."""
        return (*self.steps, *self.cut)

    def step(self, name: str) -> Step | None:
        """The step of that name, or None."""
        return next((step for step in self.steps if step.name == name), None)

    def log(self, name: str) -> IoLog:
        """The log of the step of that name; empty if there is none."""
        step = self.step(name)
        return EMPTY_LOG if step is None else step.rows
