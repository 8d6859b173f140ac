"""Are writes in place only where they went of late? One write in each of many places shows it.

A mapper of zones (dm-zoned) over a raw shingled disk writes in place as long as it has conventional zones to
write to. Once these are used up, a write to another zone waits until a whole zone was rewritten. Disks that
are written in place wait as long for other reasons, so stalls alone are no sign:

* *Control.* New places, neighbours of the blocks written last, and reads of places never touched follow each
  other in random order. Where a mapper rewrites, the new places alone wait. Another client, a path that
  fails over or a throttle knows nothing of that order, so its chance is exact (hypergeometric).
* *Onset.* A mapper first uses up its zones: the first writes are fast, the later ones wait. Where stalls
  begin with the first new place, as those of volumes that zero or copy a chunk when it is first written, the
  order of fast and slow writes says nothing; that too is a hypergeometric chance.

Invariant: that nothing waits needs all writes, and as many as make `SHARE` of the zones of the target; what
waits weighs as much as the larger of both chances is small, also where the control was cut short.

Source: Linux Documentation/admin-guide/device-mapper/dm-zoned.rst ("Algorithm").
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from skylight.evidence import Bools, IoBatch, IoLog, Op, Stop
from skylight.infer.tail_probability import hypergeometric_tail
from skylight.probe.drive_type.plan import Plan

NAME, CONTROL = "writes-all-over", "writes-all-over-control"
ZONE_BYTES = 256 << 20
"""A zone of nearly all raw shingled disks."""
SHARE = 0.04
"""Zones that a mapper may keep for writes in place: chosen, some times the 1 to 2 % of such disks that are
conventional zones."""
FEWEST_WRITES, MOST_WRITES = 512, 2_048
"""Some eight seconds of a disk, and half a minute: `SHARE` of 12.5 TiB."""
REWRITING = Stop(1_000_000_000, count=4, within=16)
"""Writes that wait as for regions to be read and written again: retries and outliers of disks are rarer."""
NEW, AGAIN, READS = 8, 8, 8  # I/Os of the control; an even chance for new places and for each of the others
LAST_PLACES = 4  # whose neighbours are written: of late enough that any mapper still has them in place


@dataclass(frozen=True, slots=True)
class AllOver:
    """Whether writes to new places waited as for regions to be rewritten, and the chance that those which
    waited are the ones that had to, if that was for another reason."""

    waited: bool
    by_chance: float = 1.0


def writes_for(reach: int) -> int:
    """How many places of so many bytes are written.

    >>> writes_for(1 << 40), writes_for(8 << 40), writes_for(20 << 40)
    (512, 1311, 2048)
    """
    return max(FEWEST_WRITES, min(ceil(SHARE * reach / ZONE_BYTES), MOST_WRITES))


def covers(reach: int) -> bool:
    """Whether that is enough to say that there is no mapper."""
    return SHARE * reach / ZONE_BYTES <= MOST_WRITES


def look(plan: Plan, *, flushed: bool) -> AllOver | None:
    """Whether writes to new places wait for regions to be rewritten; None where too few were written."""
    count = writes_for(plan.whole)
    where = plan.scattered(NAME, plan.whole, count + NEW + READS)
    new, untouched = where[:count], where[count:]
    params = plan.params(plan.whole, flushed=flushed)
    io = (IoBatch.flushed_writes if flushed else IoBatch.writes)(new, plan.io_bytes)
    log = plan.steps.run(NAME, io, until=REWRITING, params=params)
    if not REWRITING.reached(log):
        whole = len(log) == len(io) and len(untouched) == NEW + READS
        return AllOver(waited=False) if whole and covers(plan.whole) else None
    last = log.only(Op.WRITE).offset[-LAST_PLACES:]
    later = np.arange(1, AGAIN // LAST_PLACES + 1, dtype=np.uint64) * np.uint64(plan.io_bytes)
    again = np.minimum((last + later[:, None]).ravel(), np.uint64(plan.whole - plan.io_bytes))
    offsets = np.concatenate([untouched[:NEW], again, untouched[NEW:]])
    order = plan.steps.rng(CONTROL).permutation(len(offsets))
    op = np.where(np.arange(len(offsets)) < NEW + len(again), np.uint8(Op.WRITE), np.uint8(Op.READ))
    control = IoBatch(op[order], offsets[order], np.full(len(order), plan.io_bytes, np.uint32))
    answer = plan.steps.run(CONTROL, control, params=params)
    is_new = (answer.op == Op.WRITE) & ~np.isin(answer.offset, again)  # by the log: a replay draws others
    return AllOver(waited=True, by_chance=by_chance(waited(log, flushed=flushed), waited(answer), is_new))


def waited(log: IoLog, *, flushed: bool = False) -> Bools:
    """Which commands, each with its FLUSH, waited as for a region to be rewritten."""
    slow = log.latency_ns >= REWRITING.latency_ns
    waits: Bools = np.bincount(np.arange(len(log)) // (2 if flushed else 1), slow) > 0
    return waits


def by_chance(slow: Bools, control_slow: Bools, is_new: Bools) -> float:
    """The chance that new places alone wait, or that the first of them do not: the larger one.

    >>> is_new = np.arange(24) % 3 == 0
    >>> by_chance(np.arange(12) >= 7, is_new, is_new) < 1e-4
    True
    >>> by_chance(np.arange(5) >= 0, is_new, is_new), by_chance(np.arange(12) >= 7, is_new | True, is_new)
    (1.0, 1.0)
    """
    stalls, new = int(control_slow.sum()), int(is_new.sum())
    by_order = hypergeometric_tail(int((control_slow & is_new).sum()), len(is_new), stalls, new)
    places = np.concatenate([slow, control_slow[is_new]])
    onset = int(np.argmax(places))
    all_slow = int(places.sum())
    by_onset = hypergeometric_tail(all_slow, len(places), all_slow, len(places) - onset)
    return max(by_order, by_onset)
