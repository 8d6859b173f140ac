"""Blocks that leave a volatile cache together: each group is held back by a long read.

A volatile cache hands writes on as soon as the medium is free. So where a host sends one block after another,
what leaves together is what came while the last entry was written: a few blocks, and a fill with them may use
up the slots of a journal long before its map is full. While the heads are busy with a long read nothing
leaves; then the whole group does, in as few entries as the drive makes of it.

Where one command waits at a time no block comes while a read is served. Then fewer FLUSHes help: behind each
the first block leaves alone, and with it goes an entry.

Whether blocks are done while the read still goes on is seen, and how many slots they take is measured behind
the fill like that of any other (`skylight.probe.cache_size.which_limit.left_places`).

Source: Skylight (FAST '15), section 4.6, Test 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import IoBatch, IoLog, Stop
from skylight.probe.band_size.cache_parts import DEPTH
from skylight.probe.cache_size.fill_check import BLOCK
from skylight.probe.cache_size.map_fill import HELD_DEPTH, held
from skylight.probe.durable_writes import FlushedBatch, FlushedSteps, Run, settled
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

AREA_BYTES, WRITE_BYTES, LEAST_READ_BYTES = 16 << 20, 1 << 20, 1 << 20
"""What is read, how it is written, and the shortest read. Chosen: 16 MiB of a disk last a tenth of a second,
in which a link that takes 2 ms for a command takes a group, and of flash as long as some blocks."""
AREA_PART = 1 / 16
"""Of a cache, what is read may take at most: less is left to the blocks then."""
QUEUES = 4
"""Queues of blocks of a long group. Chosen: the entry of the first block is a small part of theirs; but once
cleaning has begun each block may wait for a band, and the FLUSH for all of them."""
LOOKS, FEWEST_HELD = 8, 4
"""Groups that show whether a read holds them back, and of how many blocks at least. Chosen: as many share an
entry as come while one is written, on drives whose links are slow."""
HELD_SHARE = 0.9
"""Of a group's blocks, those that have to be done while the read goes on. Chosen: the last ones may come with
its end, and one in ten may be another client's delay."""
SLOW_ROWS = 4
"""Of a group that waits the FLUSH is slow, and the read behind it: four slow rows are two groups."""
LONGER = 1.25
"""Times what a group takes to come, how long a read lasts. Chosen: reads and links vary by less."""


@dataclass(frozen=True, slots=True)
class Coming:
    """Of groups of blocks behind a read: how long the read took, how long the blocks took to be done, from
    the first to the last (ns), which share of them was done before the read was, and how many at least."""

    read_ns: float
    blocks_ns: float
    share: float
    fewest: int

    @staticmethod
    def of(log: IoLog, group: int) -> Coming:
        """Medians over the groups of a log, each a read, `group` blocks and a FLUSH."""
        groups = len(log) // (group + 2)
        rows = log.rows(slice(groups * (group + 2)))
        done = rows.complete_ns.astype(np.int64).reshape(groups, group + 2)
        sent = rows.submit_ns.astype(np.int64).reshape(groups, group + 2)
        blocks = done[:, 1:-1]
        during = np.count_nonzero(blocks < done[:, :1], axis=1)
        return Coming(
            float(np.median(done[:, 0] - sent[:, 0])),
            float(np.median(blocks.max(axis=1) - blocks.min(axis=1))),
            float(np.median(during)) / group,
            int(np.min(during)),
        )


class HeldSteps(FlushedSteps):
    """As `FlushedSteps`, but blocks that would wait together come while a read is served, `group` at once."""

    def __init__(self, steps: Steps, read_bytes: int = AREA_BYTES, group: int = DEPTH) -> None:
        """Over steps whose volatile cache stays on; `read_bytes` is the size of a read."""
        super().__init__(steps)
        self._read_bytes, self._group = read_bytes, group
        self._rng = steps.rng("held")

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        whole = len(io) // self._group * self._group
        if depth < DEPTH or not whole or np.any(io.size != BLOCK):
            return super()._write(run, name, io, depth, until)
        stop = None if until is None else replace(until, count=SLOW_ROWS)
        log = settled(run(name, self._held(io.part(0, whole)), depth=HELD_DEPTH, until=stop))
        if whole == len(io) or len(log) < whole:
            return log
        # What is left over comes without a read.
        rest = io.part(whole, len(io))
        return IoLog.joined([log, super()._write(run, f"{name}-rest", rest, depth, until)])

    def _held(self, io: IoBatch) -> IoBatch:
        groups = len(io) // self._group
        places = (AREA_BYTES - self._read_bytes) // BLOCK + 1
        read_at = (self._rng.integers(0, places, groups) * BLOCK).astype(np.uint64)
        return held(read_at, self._read_bytes, io.offset, self._group)

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """A known state, with data in order at the first addresses, which are read."""
        state = super().reset(name, slow=slow, rotation_ns=rotation_ns)
        where = np.arange(AREA_BYTES // WRITE_BYTES, dtype=np.uint64) * np.uint64(WRITE_BYTES)
        self._steps.run(f"{name}-to-read", IoBatch.flushed_writes(where, WRITE_BYTES))
        return state

    def coming(self, blocks: IoBatch) -> Coming:
        """What some groups of blocks show."""
        whole = len(blocks) // self._group * self._group
        log = self._steps.run("held-look", self._held(blocks.part(0, whole)), depth=HELD_DEPTH)
        return Coming.of(log, self._group)


class LongGroups(FlushedSteps):
    """As `FlushedSteps`, but with a FLUSH behind several queues of blocks that would wait together."""

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        if depth < DEPTH or np.any(io.size != BLOCK):
            return super()._write(run, name, io, depth, until)
        stop = None if until is None else replace(until, count=1)
        return settled(run(name, FlushedBatch(io, QUEUES * DEPTH), until=stop))


def held_steps(steps: Steps, blocks: IoBatch, cache_bytes: int) -> HeldSteps | None:
    """Steps that hold groups of blocks back, on a drive with a cache of that size; None where reads do not,
    as where one command waits at a time. `blocks` are `LOOKS` queues of them, twice."""
    half = len(blocks) // 2
    whole = HeldSteps(steps)
    if cache_bytes * AREA_PART < AREA_BYTES or whole.reset("held-look-erase") is State.UNKNOWN:
        return None
    seen = whole.coming(blocks.part(0, half))
    group = DEPTH if seen.share >= HELD_SHARE else seen.fewest
    part = min(LONGER * seen.blocks_ns / max(seen.read_ns, 1.0), 1.0)
    read_bytes = max(int(part * AREA_BYTES) // BLOCK * BLOCK, LEAST_READ_BYTES)
    for size in (read_bytes, AREA_BYTES) if group >= FEWEST_HELD else ():
        held_back = HeldSteps(steps, size, group)
        if held_back.coming(blocks.part(half, len(blocks))).share >= HELD_SHARE:
            return held_back
    return None
