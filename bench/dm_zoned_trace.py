"""What dm-zoned sent to its zones, from the kernel's block events, and how long that takes on an emulated
drive.

The events are those of `tests/zoned_guest/dm_zoned.py`: lines of ftrace, of a bio that was queued or is
done (Linux include/trace/events/block.h). A command of the host, of which there is one at a time, waits for
what is sent to the zones between its two events, dm-zoned's own copying included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skylight import _native
from skylight.evidence import I64, U8, U32, U64, Op

SECTOR = 512
MAJOR_BITS = 20
"""A device's number in the events' filter is its major number above these bits and its minor one in them."""
EVENT = re.compile(r": block_bio_(queue|complete): (\d+),(\d+) ([A-Z]+) (\d+) \+ (\d+) ")
MARK = re.compile(r": tracing_mark_write: skylight (\w+)")
LOST = "LOST"


class TraceError(Exception):
    """A trace that is not whole, or has what dm-zoned does not send."""


@dataclass(frozen=True)
class Layout:
    """Where the zones of the guest are on the drive: those before `moved` at the same place, the others
    `by` zones behind it."""

    zone_bytes: int
    moved: int
    by: int

    def place(self, at: int) -> int:
        """The byte of the drive that a byte of the guest's zones is."""
        return at + (self.by * self.zone_bytes if at >= self.moved * self.zone_bytes else 0)


@dataclass(frozen=True)
class Sent:
    """Commands to the zones, in order; how many of them were sent before each command of the host was queued
    and before it was done; and how many before the last of these was."""

    op: U8
    offset: U64
    size: U32
    queued: I64
    done: I64
    after: int


def commands(kind: str, at: int, size: int, layout: Layout) -> list[tuple[Op, int, int]]:
    """The commands of a bio to the zones; `kind` is its letters (Linux kernel/trace/blktrace.c)."""
    place = layout.place(at)
    operation = kind.removeprefix("F")
    flush = [] if operation == kind else [(Op.FLUSH, 0, 0)]
    match operation[:1], size > 0:
        case "N", False if not flush:
            return [(Op.RESET_ZONE, place, layout.zone_bytes)]
        case "W" | "F" | "", False if flush:
            return flush
        case "R", True:
            return [(Op.READ, place, size)]
        case "W", True:
            is_fua = operation.startswith("WF")
            return [*flush, (Op.WRITE_FUA if is_fua else Op.WRITE, place, size)]
    raise TraceError(f"dm-zoned sends no {kind} of {size} bytes")


def sent(lines: Iterable[str], zones: int, disk: int, layout: Layout) -> Sent:
    """Reads a trace: `zones` and `disk` are the numbers of the devices below and above dm-zoned. `TraceError`
    where it has lost events, or ends before its end."""
    rows: list[tuple[Op, int, int]] = []
    queued: list[int] = []
    done: list[int] = []
    phase, after = "", 0
    for line in lines:
        if found := MARK.search(line):
            phase = found[1]
            if phase == "after":
                after = len(rows)
        elif (found := EVENT.search(line)) and phase:
            what, major, minor, kind, sector, sectors = found.groups()
            device = int(major) << MAJOR_BITS | int(minor)
            if device == zones and what == "queue":
                rows += commands(kind, int(sector) * SECTOR, int(sectors) * SECTOR, layout)
            elif device == disk and phase == "work":
                (queued if what == "queue" else done).append(len(rows))
        elif LOST in line:
            raise TraceError(f"the kernel's buffer was too small: {line.strip()}")
    if phase != "end" or len(queued) != len(done):
        raise TraceError(f"the trace ends in phase {phase!r}, {len(queued)} commands, {len(done)} done")
    op, offset, size = zip(*rows, strict=True) if rows else ((), (), ())
    return Sent(
        np.array(op, np.uint8), np.array(offset, np.uint64), np.array(size, np.uint32),
        np.array(queued, np.int64), np.array(done, np.int64), after,
    )  # fmt: skip


@dataclass(frozen=True)
class Replayed:
    """What the commands cost on a drive: of each command of the host its time, ns; the time from the first to
    the last of them, and of the cleaning behind them, ns; and the bytes that went to the platters."""

    took_ns: U64
    work_ns: int
    after_ns: int
    written_bytes: int


def replayed(drive: _native.SimDrive, work: Sent) -> Replayed:
    """Sends the commands to a drive, one at a time, its volatile cache on. `TraceError` if it refuses one."""
    before, start = drive.counters()["media_written_bytes"], drive.now_ns
    _, complete = drive.run(work.op, work.offset, work.size, 1)
    rows, why = drive.results()
    if len(rows):
        row = int(rows[0])
        raise TraceError(
            f"the drive refuses command {row}, {Op(work.op[row])} at {work.offset[row]}: {why[0]}"
        )
    _, last = drive.run(np.array([Op.FLUSH], np.uint8), np.zeros(1, np.uint64), np.zeros(1, np.uint32), 1)
    at = np.concatenate([np.array([start], np.uint64), complete])
    return Replayed(
        at[work.done] - at[work.queued], int(at[work.after]) - start, int(last[0]) - int(at[work.after]),
        drive.counters()["media_written_bytes"] - before,
    )  # fmt: skip
