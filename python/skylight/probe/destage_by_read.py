"""Writes that are on the medium when they are done, on a target whose volatile cache ignores FLUSH.

A read that begins a block before a write and ends a block behind it cannot be answered from the cache alone:
the drive has to go to the medium, and one that does not put cached and stored data together brings the write
out first. Whether a drive does so is measured and never assumed (`empties`): behind such a read the block is
read alone. It comes from the platter, most of a revolution later, if it has left the cache, and as quickly as
the cache takes a write if it has not. A drive that keeps what it wrote out for reads looks like the latter,
and is left alone.

`ReadAround` stands for the steps of such a target: a FLUSH becomes a read around each write since the last
one. It lasts until the last of them is answered, so writes that wait for cleaning still show in it, but what
an entry of a journal takes does not: the reads add their own way over the platters.

Invariants: the logs that `ReadAround` returns hold the commands that were asked for, FLUSHes among them, in
their order; a write is read around once, before anything that was asked for behind its FLUSH.
Source: ACS-4, 7.10 (FLUSH CACHE EXT): the command that such targets complete without doing it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U32, U64, IoBatch, IoLog, Op, Stop
from skylight.probe.durable_writes import LEAST_BLOCK, ROUNDS, TELLING_TURNS, Run, StandIn, elsewhere
from skylight.probe.procedure import Steps

AROUND = "rounds-around"
LEFT_CACHE = 0.5
"""Share of the blocks read alone that have to come from the platter. A block that lies in a log may pass
right behind the read around it, and one in five does so within `TELLING_TURNS` of a revolution: fewer than
half of `ROUNDS` are left once in 30,000 times. Of a cache that keeps all, half look so once in 7,000 times
if other clients delay a fifth."""


def around(io: IoBatch, block: int, size: int) -> IoBatch:
    """A read of each write and of a block on either side of it, within a target of `size` bytes.

    >>> around(IoBatch.writes([0, 8192], 4096), 4096, 1 << 20).size
    array([ 8192, 12288], dtype=uint32)
    """
    low = io.offset - np.minimum(io.offset, np.uint64(block))
    high = np.minimum(io.offset + io.size.astype(np.uint64) + np.uint64(block), np.uint64(size))
    return IoBatch(np.full(len(io), int(Op.READ), np.uint8), low, (high - low).astype(np.uint32))


def _interleaved(*batches: IoBatch) -> IoBatch:
    """The first command of each batch, then the second of each, and so on."""
    parts = [np.stack([getattr(batch, name) for batch in batches], axis=1).ravel()
             for name in ("op", "offset", "size")]  # fmt: skip
    return IoBatch(*parts)


def empties(steps: Steps) -> bool:
    """Whether a read around a write brings it from a volatile cache to the platters, by a few writes."""
    rotation_ns = steps.known.number("rotation_ns")
    if rotation_ns is None or steps.known.word("cache_medium") != "disk":
        return False
    block = max(LEAST_BLOCK, steps.block_bytes)
    pitch = steps.size // (ROUNDS + 2) // block * block
    where = np.arange(1, ROUNDS + 1, dtype=np.uint64) * np.uint64(pitch)
    writes = IoBatch.writes(where, block)
    far = IoBatch.reads(elsewhere(steps, AROUND, ROUNDS, block), block)
    io = _interleaved(far, writes, around(writes, block, steps.size), IoBatch.reads(where, block))
    took_ns = steps.run(AROUND, io).latency_ns
    _, cached_ns, _, alone_ns = took_ns[: len(took_ns) // 4 * 4].reshape(-1, 4).T
    if not len(alone_ns):
        return False
    from_platter = alone_ns > float(np.median(cached_ns)) + TELLING_TURNS * rotation_ns
    return bool(np.mean(from_platter) >= LEFT_CACHE)


class ReadAround(StandIn):
    """Reads around each write where a FLUSH is asked for; see the module's page."""

    def __init__(self, steps: Steps) -> None:
        """Over the steps of a target that `empties` was asked about."""
        super().__init__(steps)
        self._block = max(LEAST_BLOCK, steps.block_bytes)
        self._cached = IoBatch.writes([], self._block)
        """Writes since the last FLUSH."""

    def _is_own(self, io: IoBatch) -> bool:
        return bool(np.any((io.op == int(Op.WRITE)) | (io.op == int(Op.FLUSH))))

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        """The batch with a read for each write in the place of the FLUSH behind it; the log of what was asked
        for. A FLUSH with nothing to write out stays one."""
        flushes, writes = np.flatnonzero(io.op == int(Op.FLUSH)), np.flatnonzero(io.op == int(Op.WRITE))
        earlier = len(self._cached)
        every = _joined(self._cached, io.offset[writes], io.size[writes])
        behind = np.concatenate([np.zeros(earlier, np.intp), np.searchsorted(flushes, writes)])
        read = np.flatnonzero(behind < len(flushes))
        reads = around(IoBatch(every.op[read], every.offset[read], every.size[read]), self._block, self.size)
        kept = np.setdiff1d(np.arange(len(io)), flushes[behind[read]])
        asked_for = np.concatenate([kept, flushes[behind[read]]])  # the row of `io` that each command is for
        order = np.argsort(asked_for, kind="stable")
        whole = IoBatch(*(
            np.concatenate([getattr(io, column)[kept], getattr(reads, column)])[order]
            for column in ("op", "offset", "size")
        ))  # fmt: skip
        log = run(name, whole, depth=depth, until=until)
        done = order[: len(log)]
        left = np.ones(len(every.op), np.bool_)
        left[earlier:] = np.isin(writes, kept[done[done < len(kept)]])
        left[read[done[done >= len(kept)] - len(kept)]] = False
        self._cached = _joined(IoBatch.writes([], self._block), every.offset[left], every.size[left])
        return _as_asked(io, log, asked_for[done])


def _joined(first: IoBatch, offset: U64, size: U32) -> IoBatch:
    """A batch of writes, and more of them."""
    offset, size = np.concatenate([first.offset, offset]), np.concatenate([first.size, size])
    return IoBatch(np.full(len(offset), int(Op.WRITE), np.uint8), offset, size)


def _as_asked(io: IoBatch, log: IoLog, asked_for: NDArray[np.intp]) -> IoLog:
    """The log with one row for each row of `io` that has any: from the first submission to the last
    completion of what was done for it."""
    rows, first = np.unique(asked_for, return_index=True)
    if not len(rows):
        return log
    latest = np.maximum.reduceat(log.complete_ns, first)
    result = np.maximum.reduceat(log.result, first)
    return IoLog(io.op[rows], io.offset[rows], io.size[rows], log.submit_ns[first], latest, result)
