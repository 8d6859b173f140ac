"""Writes with FUA (force unit access), on a target whose volatile cache stays on and ignores FLUSH.

A write with FUA is done when its data is on the medium. Bridges and drives that drop FLUSH need not drop FUA:
it is part of the write, which has to be answered anyway. Nothing is assumed: plain writes and writes with FUA
take turns, each behind a read anywhere, so that the head's place and angle are random (`obeyed`). Those with
FUA have to take longer than a plain write and two FLUSHes with nothing to do, in more pairs than chance
allows: where a device declares no FUA the kernel sends a FLUSH behind the write, and may send another.

`ForcedWrites` stands in for the steps of a target that obeys: all its writes have FUA, so that they wait as
they would with the volatile cache off, at depth too.

Invariant: the logs that `ForcedWrites` returns hold the commands that were asked for.
Source: SBC-4, 4.15 (FUA); ACS-4 (WRITE DMA FUA EXT, WRITE FPDMA QUEUED); Linux
Documentation/block/writeback_cache_control.rst (REQ_FUA, emulated by a flush).
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Op, Stop
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.flushed import (
    LEAST_BLOCK,
    MOST_CHANCE,
    TELLING_TURNS,
    WROTE_OUT_TURNS,
    Run,
    StandIn,
    elsewhere,
)
from skylight.probe.procedure import Steps

FORCED = "rounds-forced"
PAIRS = 32
FLASH_TURNS = WROTE_OUT_TURNS
"""Of a revolution that writes with FUA take longer where the persistent cache is flash."""


def pairs(at: U64, read_at: U64, block: int) -> IoBatch:
    """A read elsewhere, a write and two FLUSHes; a read elsewhere and a write with FUA; again and again.
    There are two places for each."""
    ops = [Op.READ, Op.WRITE, Op.FLUSH, Op.FLUSH, Op.READ, Op.WRITE_FUA]
    zero = np.zeros(len(at) // 2, np.uint64)
    offset = np.stack([read_at[::2], at[::2], zero, zero, read_at[1::2], at[1::2]], axis=1)
    size = [0 if op == Op.FLUSH else block for op in ops]
    count = len(offset)
    return IoBatch(
        np.tile(np.array(ops, np.uint8), count), offset.ravel(), np.tile(np.array(size, np.uint32), count)
    )


def obeyed(steps: Steps) -> bool:
    """Whether writes with FUA wait for the medium where plain ones and a FLUSH behind them do not."""
    rotation_ns = steps.known.number("rotation_ns")
    if rotation_ns is None:
        return False
    block = max(LEAST_BLOCK, steps.block_bytes)
    pitch = steps.size // (2 * PAIRS + 2) // block * block
    where = np.arange(1, 2 * PAIRS + 1, dtype=np.uint64) * np.uint64(pitch)
    log = steps.run(FORCED, pairs(where, elsewhere(steps, FORCED, 2 * PAIRS, block), block))
    took_ns = log.latency_ns[: len(log) // 6 * 6].reshape(-1, 6)
    if len(took_ns) < PAIRS:
        return False
    apart_ns = took_ns[:, 5] - took_ns[:, 1:4].sum(axis=1)
    on_flash = steps.known.word("cache_medium") != "disk"
    if float(np.median(apart_ns)) < (FLASH_TURNS if on_flash else TELLING_TURNS) * rotation_ns:
        return False
    longer, differ = int(np.count_nonzero(apart_ns > 0)), int(np.count_nonzero(apart_ns))
    return bool(binomial_tail(longer, differ, 0.5) <= MOST_CHANCE)


class ForcedWrites(StandIn):
    """All writes with FUA; see the module's page."""

    @property
    def plain(self) -> Steps:
        """The steps of the target itself, whose writes end in the volatile cache."""
        return self._steps

    def _is_own(self, io: IoBatch) -> bool:
        return bool(np.any(io.op == int(Op.WRITE)))

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        writes = io.op == int(Op.WRITE)
        forced = IoBatch(np.where(writes, np.uint8(Op.WRITE_FUA), io.op), io.offset, io.size)
        log = run(name, forced, depth=depth, until=until)
        return IoLog(io.op[: len(log)], log.offset, log.size, log.submit_ns, log.complete_ns, log.result)
