"""Writes with FUA (force unit access), on a target whose volatile cache stays on and ignores FLUSH.

A write with FUA is done when its data is on the medium. Bridges and drives that drop FLUSH need not drop FUA:
it is part of the write, which has to be answered anyway. Nothing is assumed: plain writes and writes with FUA
take turns, each behind a read anywhere, so that the head's place and angle are random (`obeyed`). Those with
FUA have to take longer than a plain write and two FLUSHes with nothing to do, in more pairs than chance
allows: where a device declares no FUA the kernel sends a FLUSH behind the write, and may send another.

Flash takes less for a block than a slow link does for one FLUSH. There two signs stand in for that. A write
with FUA that is done before a write and one FLUSH are has none behind it, so it is a command of its own. And
large writes with FUA take longer than large plain ones, by what flash needs for their data. Where the first
sign is not to be had, large writes have to take longer than plain ones and two FLUSHes, as blocks do.

Where FLUSH empties the cache, but comes after the flash has taken a block, a write with FUA shows what that
takes, be it a command of its own or a write and a FLUSH that the kernel sends without a pause: unless it
takes just as long as both do with nothing to do, behind which a quicker flash would hide.

`ForcedWrites` stands in for the steps of a target that obeys: all its writes have FUA, so that they wait as
they would with the volatile cache off, at depth too.

Invariant: the logs that `ForcedWrites` returns hold the commands that were asked for.
Source: SBC-4, 4.15 (FUA); ACS-4 (WRITE DMA FUA EXT, WRITE FPDMA QUEUED); Linux
Documentation/block/writeback_cache_control.rst (REQ_FUA, emulated by a flush).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import I64, U64, IoBatch, IoLog, Op, Stop, are_writes
from skylight.infer.host_clock import COARSE_NS, tick_ns
from skylight.probe.durable_writes import (
    LEAST_BLOCK,
    TELLING_TURNS,
    WROTE_OUT_TURNS,
    Run,
    StandIn,
    elsewhere,
    longer_on_average,
    mostly_longer,
    with_room,
)
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

FORCED, FORCED_LARGE, FORCED_AGAIN = "rounds-forced", "rounds-forced-large", "rounds-forced-again"
PAIRS, LARGE_PAIRS, MORE_PAIRS = 32, 24, 512
"""More where a few do not tell from one another what a coarse clock or other clients of the disk blur."""
LARGE_BYTES = 2 << 20
"""A quarter of the smallest volatile cache: a plain one finds room. Flash of 3.5 GB/s takes 0.6 ms for it."""
MOST_IOS = 6 * (PAIRS + LARGE_PAIRS)
MOST_IOS_AGAIN = 6 * MORE_PAIRS
MOST_BYTES = 2 * LARGE_PAIRS * LARGE_BYTES
"""What it takes at most to find out; of bytes written, but for the blocks of small pairs."""
FLASH_TURNS, FASTEST_TURN_NS = WROTE_OUT_TURNS, 4_000_000
"""Of a revolution that writes with FUA take longer where the persistent cache is flash; that of the fastest
disks, where it is not known: it only says what is plainly longer."""

WRITE_OUT_S = 30.0
"""In which a volatile cache has written out what it took. Chosen: the largest hold a thousand writes of 256
KiB, each of which takes a revolution or two."""


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


@dataclass(frozen=True, slots=True)
class Pairs:
    """Latencies of the plain write, of both FLUSHes behind it, and of the write with FUA of each pair, ns."""

    plain_ns: I64
    first_ns: I64
    second_ns: I64
    forced_ns: I64

    @staticmethod
    def of(log: IoLog) -> Pairs:
        """Those of a log of `pairs`, without the part of one at its end."""
        took_ns = log.latency_ns[: len(log) // 6 * 6].reshape(-1, 6)
        return Pairs(took_ns[:, 1], took_ns[:, 2], took_ns[:, 3], took_ns[:, 5])

    def outlasts_flushes(self, least_ns: float) -> bool:
        """Whether FUA takes so much longer than a plain write and two FLUSHes."""
        return plainly_longer(self.forced_ns - (self.plain_ns + self.first_ns + self.second_ns), least_ns)

    @property
    def _spared_ns(self) -> I64:
        """What FUA takes less than a plain write and one FLUSH."""
        return self.plain_ns + self.first_ns - self.forced_ns

    def is_one_command(self) -> bool:
        """Whether FUA takes less than a plain write and one FLUSH. By a coarse clock most pairs may say so
        where a few that met other clients of the disk put the mean off."""
        return plainly_longer(self._spared_ns, 0.0) or mostly_longer(self._spared_ns, 0.0)

    def may_be_one_command(self) -> bool:
        """Whether it does so more often than not: then more pairs may show it."""
        spared_ns = self._spared_ns
        return int(np.count_nonzero(spared_ns > 0)) > int(np.count_nonzero(spared_ns < 0))

    def outlasts_one_flush(self, least_ns: float) -> bool:
        """Whether FUA takes so much longer than a plain write and one FLUSH with nothing to do."""
        return plainly_longer(self.forced_ns - (self.plain_ns + self.second_ns), least_ns)

    def waits(self, least_ns: float) -> bool:
        """Whether FUA takes so much longer than a plain write."""
        return plainly_longer(self.forced_ns - self.plain_ns, least_ns)


def plainly_longer(apart_ns: I64, least_ns: float) -> bool:
    """Whether differences are above zero in more pairs than chance allows, and so large in the median."""
    if len(apart_ns) >= MORE_PAIRS and tick_ns(apart_ns) >= COARSE_NS:  # most differ by no tick or by one
        return longer_on_average(apart_ns, least_ns)
    return mostly_longer(apart_ns, least_ns)


def obeyed(
    steps: Steps, rotation_ns: float | None = None, *, late_flushes: bool = False, patient: bool = False
) -> bool:
    """Whether writes with FUA wait for the medium where plain ones and a FLUSH behind them do not;
    `rotation_ns` where no finding says it yet. `late_flushes` where it was seen that a FLUSH empties the
    cache, which has written a block before it comes. More pairs, `patient`, where a few do not say whether a
    write with FUA is one command."""
    rotation_ns = steps.known.number("rotation_ns") if rotation_ns is None else rotation_ns
    if rotation_ns is None:
        if steps.known.word("cache_medium") != "flash":
            return False
        rotation_ns = FASTEST_TURN_NS
    block = max(LEAST_BLOCK, steps.block_bytes)
    small = _paired(steps, FORCED, PAIRS, block)
    if len(small.forced_ns) < PAIRS:
        return False
    on_flash = steps.known.word("cache_medium") != "disk"
    least_ns = (FLASH_TURNS if on_flash else TELLING_TURNS) * rotation_ns
    if small.outlasts_flushes(least_ns):
        return True
    if not on_flash:
        return False
    one = small.is_one_command()
    if not one and (late_flushes or (patient and small.may_be_one_command())):
        again = _paired(steps, FORCED_AGAIN, MORE_PAIRS, block)
        one = again.is_one_command() or (late_flushes and again.outlasts_one_flush(0.0))
    if not one and late_flushes:
        return False
    large = _paired(steps, FORCED_LARGE, LARGE_PAIRS, LARGE_BYTES)
    return large.waits(least_ns) if one else large.outlasts_flushes(least_ns)


def _paired(steps: Steps, name: str, count: int, size: int) -> Pairs:
    """A number of pairs of writes of a size, at even distances over the target."""
    block = max(LEAST_BLOCK, steps.block_bytes)
    pitch = steps.size // (2 * count + 2) // block * block
    where = np.arange(1, 2 * count + 1, dtype=np.uint64) * np.uint64(pitch)
    io = pairs(where, elsewhere(steps, name, 2 * count, block), block)
    if size > block:
        wrote = are_writes(io.op)
        io = IoBatch(io.op, io.offset, np.where(wrote, np.uint32(min(size, pitch)), io.size))
    return Pairs.of(with_room(steps, name, io))


class ForcedWrites(StandIn):
    """All writes with FUA; see the module's page."""

    @property
    def plain(self) -> Steps:
        """The steps of the target itself, whose writes end in the volatile cache."""
        return self._steps

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """As without FUA. Rewriting leaves a volatile cache full that no FLUSH empties: it has time to write
        that out, or it would take places of the persistent cache while others are counted."""
        state = self._steps.reset(name, slow=slow, rotation_ns=rotation_ns)
        if state is State.REWRITTEN:
            self._steps.pause(f"{name}-written-out", WRITE_OUT_S)
        return state

    def _is_own(self, io: IoBatch) -> bool:
        return bool(np.any(io.op == int(Op.WRITE)))

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        writes = io.op == int(Op.WRITE)
        forced = IoBatch(np.where(writes, np.uint8(Op.WRITE_FUA), io.op), io.offset, io.size)
        log = run(name, forced, depth=depth, until=until)
        return IoLog(io.op[: len(log)], log.offset, log.size, log.submit_ns, log.complete_ns, log.result)
