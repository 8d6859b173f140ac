"""Writes that are on the medium when they are done, whether a volatile cache is on or not.

Where one is on, or may be, a FLUSH follows each lone write, and each group of as many writes as else would
wait together; a write is done when the FLUSH behind it is. So an entry of the journal that a volatile cache
writes out is seen as one that waiting writes make.

A volatile cache that is reported as off shows in writes that are done long before the platters can have come
round (`QUICK_TURNS`), and on flash in a FLUSH that takes much longer than writes do (`flush_needed`).

Invariant: the log that is returned holds writes alone, in their order.
Source: Skylight (FAST '15), section 4.3, footnote 2 (results with the volatile cache on are those of a queue
depth of 31).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.probe.band_size.cache_parts import DEPTH, spread
from skylight.probe.procedure import Steps

QUICK_TURNS = 0.2
"""A lone write that takes a smaller part of a revolution was not on a platter; the mean wait is half of
one."""
BURST_WRITES, BURST_BYTES = 64, 256 << 10
SLOW_FLUSH, SLOW_FLUSH_NS = 8.0, 5_000_000
"""A FLUSH that takes so many times as long as a write, and at least so long, wrote data out."""
MOST_WITHIN = 64


def with_flushes(io: IoBatch, group: int) -> IoBatch:
    """A FLUSH behind each group of so many writes, and behind the last.

    >>> with_flushes(IoBatch.writes([0, 4096, 8192], 4096), 2).op
    array([1, 1, 2, 1, 2], dtype=uint8)
    """
    at = np.append(np.arange(group, len(io), group), len(io))
    return IoBatch(
        np.insert(io.op, at, int(Op.FLUSH)), np.insert(io.offset, at, 0), np.insert(io.size, at, 0)
    )


def settled(log: IoLog) -> IoLog:
    """The writes of a log, each done when the FLUSH behind it was; those behind the last are as they were."""
    flushes = np.flatnonzero(log.op == int(Op.FLUSH))
    if not len(flushes):
        return log
    writes = np.flatnonzero(log.op == int(Op.WRITE))
    behind = np.searchsorted(flushes, writes)
    done_ns = log.complete_ns[writes].copy()
    told = behind < len(flushes)
    done_ns[told] = np.maximum(done_ns[told], log.complete_ns[flushes[behind[told]]])
    whole = log.rows(writes)
    return IoLog(whole.op, whole.offset, whole.size, whole.submit_ns, done_ns)


@dataclass(frozen=True, slots=True)
class Writer:
    """Runs writes; with a FLUSH behind them if `flushed`."""

    steps: Steps
    flushed: bool

    def lone(self, name: str, io: IoBatch, until: Stop | None = None) -> IoLog:
        """One at a time."""
        if not self.flushed:
            return self.steps.run(name, io, until=until)
        if until is not None:
            until = Stop(until.latency_ns, until.count, min(2 * until.within, MOST_WITHIN))
        return settled(self.steps.run(name, with_flushes(io, 1), until=until))

    def deep(self, name: str, io: IoBatch, until: Stop | None = None) -> IoLog:
        """As many at a time as the queue takes."""
        if not self.flushed:
            return self.steps.run(name, io, depth=DEPTH, until=until)
        if until is not None:  # of a group the FLUSH alone waits
            until = Stop(until.latency_ns, -(-until.count // DEPTH) - 1 or 1, MOST_WITHIN)
        return settled(self.steps.run(name, with_flushes(io, DEPTH), until=until))


def flush_needed(steps: Steps, reported: bool | None) -> bool:
    """Whether a volatile cache is on, or may be, as far as is reported and, of flash, as a FLUSH shows."""
    if reported is not False or steps.known.word("cache_medium") != "flash":
        return reported is not False
    where = spread(steps.size, BURST_WRITES, BURST_BYTES, phase=0.41)
    log = steps.run("burst", with_flushes(IoBatch.writes(where, BURST_BYTES), BURST_WRITES))
    if len(log) <= BURST_WRITES:
        return False
    return int(log.latency_ns[-1]) > max(SLOW_FLUSH * float(np.median(log.latency_ns[:-1])), SLOW_FLUSH_NS)
