"""Writes that are on the medium when they are done, whether a volatile cache is on or not.

`volatile` finds out whether one is on, by which of a write and the FLUSH behind it waits for the medium,
whatever the target reports. A drive that appends to a log may have written before the FLUSH comes, at every
write if each comes as late in a revolution as the one before: so a random read precedes each write, and a
second FLUSH, which has nothing to do, is the control of the first. A `StandIn` stands for the steps of such a
target. `FlushedSteps` is one: a FLUSH follows each lone write, and each group of as many writes as else would
wait together; a write is done when the FLUSH behind it is. So an entry of the journal that a volatile cache
writes out is seen as one that waiting writes make.

A cache that ignores FLUSH is emptied otherwise, if it can be (`skylight.probe.destage_by_read`).

Invariant: the log that `FlushedSteps` return holds the commands that were asked for alone, in their order.
Source: Skylight (FAST '15), section 4.3, footnote 2 (results with the volatile cache on are those of a queue
depth of 31).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U8, U32, U64, IoBatch, IoLog, JsonScalar, Op, SettingsReport, Stop
from skylight.infer.host_clock import COARSE_NS, tick_ns
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import COUNTED, ZonesSeen

Volatile = Literal["off", "on", "ignores-flush"]
Column = TypeVar("Column", bound=np.generic)

IN_ROUNDS, BURST = "rounds", "burst"
ROUNDS, LEAST_BLOCK = 32, 4096
MOST_CHANCE = 1e-3
"""That two FLUSHes that do the same differ so often in one direction."""
MOST_CHANCE_ERRORS = 3.1  # standard errors above none that a mean is by that chance
TELLING_TURNS = 0.2
"""A FLUSH that takes so much of a revolution longer than the write before it waited for the platters, and a
write that takes so much longer than the FLUSH behind it did: the mean wait is half a revolution or more."""
WROTE_OUT_TURNS = 0.02
"""Of a revolution that a FLUSH which wrote something out takes longer in the median. Chosen: 80 to 240 us.
The platters take half a revolution or more behind a random read, and flash programs a page in 200 us or more;
a host or a link that is slow to begin takes microseconds."""
BURST_WRITES, BURST_BYTES = 64, 64 << 10
"""The smallest volatile caches hold 8 MiB, twice as much."""
IN_LARGE_ROUNDS, LARGE_EACH, LARGE_BYTES = "rounds-large", 4, 6 << 20
"""Three quarters of the smallest volatile cache are written at once, to each fourth of the places of the
burst. Chosen: flash of 1.7 GB/s needs 3.7 ms for that, while a FLUSH follows within 2.5 ms."""
MOST_LARGE_BYTES = BURST_WRITES // LARGE_EACH * LARGE_BYTES
SLOW_FLUSH, SLOW_FLUSH_NS = 8.0, 5_000_000
"""A FLUSH that takes so many times as long as a write, and at least so long, wrote data out: several writes
wait for it, and none is done in less."""
SLOW_BURSTS = 3
"""Bursts of which each FLUSH has to be so slow. Chosen: other clients delay one in ten, and three in a row
once in a thousand times."""
LEAST_CACHE_BYTES = 8 << 20
"""The smallest volatile caches; a group of writes that is larger may fill one."""
PIECE_GROUPS, PIECES = 16, 16
"""Groups, or that part of those before, behind which it is seen whether groups are slow. Chosen: a fill goes
on for a sixteenth of it at most once the drive cleans."""
MOST_WITHIN = 64
"""Completions over which a stop looks at most (`skylight.evidence.Stop`)."""
FULL = Stop(10_000_000_000, count=2, within=MOST_WITHIN)
"""Commands that wait so long wait for bands to be cleaned for many writes, not for one: a volatile cache
holds writes for which the persistent one behind it has no room. Chosen: longer than the largest band takes,
and twice, for a spindle that had stopped takes as long once."""


class Run(Protocol):
    """`Steps.run` of a target, its parameters and share given."""

    def __call__(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Does the batch; its log."""
        ...


def with_flushes(io: IoBatch, group: int) -> IoBatch:
    """A FLUSH behind each group of so many writes, and behind the last.

    >>> with_flushes(IoBatch.writes([0, 4096, 8192], 4096), 2).op
    array([1, 1, 2, 1, 2], dtype=uint8)
    """
    return IoBatch(
        _interleaved(io.op, group, int(Op.FLUSH)),
        _interleaved(io.offset, group, 0),
        _interleaved(io.size, group, 0),
    )


def _interleaved(column: NDArray[Column], group: int, flush: int) -> NDArray[Column]:
    """A column with what a FLUSH has behind each group, and behind the last.

    Not by insert, which takes four times as long."""
    whole, last = divmod(len(column), group)
    out = np.full(_with_flushes(len(column), group), flush, column.dtype)
    groups, rest = out[: whole * (group + 1)], out[whole * (group + 1) :]
    groups.reshape(whole, group + 1)[:, :group] = column[: whole * group].reshape(whole, group)
    rest[:last] = column[whole * group :]
    return out


class FlushedBatch(IoBatch):
    """A batch with a FLUSH behind each group of writes, and behind the last, laid out as far as it is taken.
    A fill asks for all writes that are left, up to a stop, hundreds of times, and what does a batch takes it
    in parts: mostly a few of millions of commands.

    >>> io = IoBatch.writes(np.arange(5) * 4096, 4096)
    >>> FlushedBatch(io, 2).part(1, 99).op.tolist(), with_flushes(io, 2).op.tolist()
    ([1, 2, 1, 1, 2, 1, 2], [1, 1, 2, 1, 1, 2, 1, 2])
    """

    __slots__ = ("_begin", "_group", "_laid_out", "_writes")
    _writes: IoBatch
    _group: int
    _begin: int
    _laid_out: IoBatch

    def __init__(self, writes: IoBatch, group: int) -> None:
        """Of these writes, `group` before each FLUSH."""
        object.__setattr__(self, "_writes", writes)  # a batch is frozen
        object.__setattr__(self, "_group", group)
        object.__setattr__(self, "_begin", 0)
        object.__setattr__(self, "_laid_out", writes.part(0, 0))

    def _lay_out(self, begin: int, end: int) -> None:
        """Lays out these groups."""
        writes = self._writes.part(begin * self._group, end * self._group)
        object.__setattr__(self, "_begin", begin * (self._group + 1))
        object.__setattr__(self, "_laid_out", with_flushes(writes, self._group))

    def __len__(self) -> int:
        """Number of I/Os."""
        return _with_flushes(len(self._writes), self._group)

    def part(self, first: int, last: int) -> IoBatch:
        """Rows `first` to `last` (exclusive)."""
        last = min(last, len(self))
        first, each = min(first, last), self._group + 1
        laid_out = self._begin + len(self._laid_out)
        if not self._begin <= first <= last <= laid_out:
            # Twice as many as are asked for where fewer were done before, as where a bound lets through a few
            # at a time: else they would be laid out again for each piece.
            again = last - first if self._begin < first < laid_out else 0
            self._lay_out(first // each, -(-(last + again) // each))
        return self._laid_out.part(first - self._begin, last - self._begin)

    @property
    def op(self) -> U8:
        """Operations."""
        return self.part(0, len(self)).op

    @property
    def offset(self) -> U64:
        """Offsets, bytes."""
        return self.part(0, len(self)).offset

    @property
    def size(self) -> U32:
        """Sizes, bytes."""
        return self.part(0, len(self)).size


def _with_flushes(writes: int, group: int) -> int:
    """Commands of a number of writes with a FLUSH behind each group."""
    return writes + max(-(-writes // group), 1)


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


def rounds(at: U64, read_at: U64, block: int) -> IoBatch:
    """A read elsewhere, a write and two FLUSHes, again and again."""
    ops = np.array([int(Op.READ), int(Op.WRITE), int(Op.FLUSH), int(Op.FLUSH)], np.uint8)
    offset = np.zeros((len(at), len(ops)), np.uint64)
    offset[:, 0], offset[:, 1] = read_at, at
    size = np.tile(np.array([block, block, 0, 0], np.uint32), len(at))
    return IoBatch(np.tile(ops, len(at)), offset.ravel(), size)


def elsewhere(steps: Steps, name: str, count: int, block: int) -> U64:
    """Blocks drawn from the whole target, for reads that make the head's place and angle random."""
    return (steps.rng(name).integers(0, steps.size // block, count) * block).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Latencies of the write and of both FLUSHes of each of some rounds, ns."""

    write_ns: I64
    first_ns: I64
    second_ns: I64

    @staticmethod
    def of(log: IoLog) -> Rounds:
        """Those of a log of `rounds`, without the part of one at its end."""
        latency_ns = log.latency_ns[: len(log) // 4 * 4].reshape(-1, 4)
        return Rounds(latency_ns[:, 1], latency_ns[:, 2], latency_ns[:, 3])

    def wrote_out(self, rotation_ns: float) -> bool:
        """Whether the first FLUSH takes longer than the one behind it, in more rounds than chance allows and
        by a telling part of a revolution."""
        return mostly_longer(self.first_ns - self.second_ns, WROTE_OUT_TURNS * rotation_ns)

    @property
    def coarse(self) -> bool:
        """Whether the clock ticks so slowly that most differences are no tick or a whole one."""
        return tick_ns(self.write_ns, self.first_ns, self.second_ns) >= COARSE_NS

    def wrote_out_on_average(self, rotation_ns: float) -> bool:
        """The same by a coarse clock, of which the mean of many differences is that of a fine one."""
        return longer_on_average(self.first_ns - self.second_ns, WROTE_OUT_TURNS * rotation_ns)


def mostly_longer(apart_ns: I64, least_ns: float) -> bool:
    """Whether differences are above zero more often than chance allows, and so large in the median."""
    if not len(apart_ns) or float(np.median(apart_ns)) < least_ns:
        return False
    longer, differ = int(np.count_nonzero(apart_ns > 0)), int(np.count_nonzero(apart_ns))
    return bool(binomial_tail(longer, differ, 0.5) <= MOST_CHANCE)


def longer_on_average(apart_ns: I64, least_ns: float) -> bool:
    """Whether the mean of differences is so large, and above zero by more than chance allows."""
    apart = np.sort(apart_ns).astype(np.float64)
    if len(apart) < ROUNDS:
        return False
    apart = apart[len(apart) // 20 : -(len(apart) // 20)]  # some met an outlier or another client
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5
    return mean >= least_ns and mean > MOST_CHANCE_ERRORS * error


def with_room(steps: Steps, name: str, io: IoBatch) -> IoLog:
    """Does a few commands that look for a volatile cache. Where these wait as in front of a full persistent
    cache, that is emptied and all are done anew: what they wait for would say nothing, and take hours."""
    log = steps.run(name, io, until=FULL)
    if len(log) == len(io) or not FULL.reached(log):
        return log
    steps.reset(f"{name}-emptied")
    return steps.run(name, io)


def volatile(steps: Steps, *, reported: bool | None) -> Volatile:
    """Whether a volatile cache is on, and whether it obeys a FLUSH. On flash a FLUSH that is ignored shows
    only where the cache is reported as on; one that is obeyed shows behind writes too large for the flash to
    have taken them yet."""
    steps.quiet()  # a FLUSH would wait for what was written before
    rotation_ns = steps.known.number("rotation_ns")
    where = _burst_places(steps)
    if rotation_ns is not None and steps.known.word("cache_medium") == "disk":
        block = max(LEAST_BLOCK, steps.block_bytes)
        io = rounds(where[:ROUNDS], elsewhere(steps, IN_ROUNDS, ROUNDS, block), block)
        return _on_disk(Rounds.of(with_room(steps, IN_ROUNDS, io)), rotation_ns)
    burst = with_flushes(IoBatch.writes(where, BURST_BYTES), BURST_WRITES)
    for _ in range(SLOW_BURSTS):
        log = with_room(steps, BURST, burst)
        if len(log) <= BURST_WRITES:
            return "off"
        usual_ns = float(np.median(log.latency_ns[:-1]))
        if int(log.latency_ns[-1]) <= max(SLOW_FLUSH * usual_ns, SLOW_FLUSH_NS):
            break
    else:
        return "on"
    if rotation_ns is not None and large_rounds(steps).wrote_out(rotation_ns):
        return "on"
    return "ignores-flush" if reported else "off"


def _burst_places(steps: Steps) -> U64:
    return np.arange(1, BURST_WRITES + 1, dtype=np.uint64) * np.uint64(_pitch(steps))


def large_rounds(steps: Steps) -> Rounds:
    """Rounds of a write so large that flash has not taken it when the FLUSH comes: a burst it may write out
    as it comes."""
    where = _burst_places(steps)[::LARGE_EACH]
    io = rounds(where, elsewhere(steps, IN_LARGE_ROUNDS, len(where), LEAST_BLOCK), LEAST_BLOCK)
    size = np.where(io.op == int(Op.WRITE), np.uint32(LARGE_BYTES), io.size)
    return Rounds.of(with_room(steps, IN_LARGE_ROUNDS, IoBatch(io.op, io.offset, size)))


def _pitch(steps: Steps) -> int:
    return steps.size // (BURST_WRITES + 2) >> 20 << 20


def _on_disk(seen: Rounds, rotation_ns: float) -> Volatile:
    """From lone writes with two FLUSHes behind each: which of the three waits for the platters, if any."""
    if not len(seen.write_ns):
        return "off"
    more_ns = np.sort(seen.first_ns - seen.write_ns)
    tenth = len(more_ns) // 10  # some met an outlier or another client
    turns = float(np.mean(more_ns[tenth : len(more_ns) - tenth])) / rotation_ns
    if turns < -TELLING_TURNS:
        return "off"
    return "on" if turns > TELLING_TURNS or seen.wrote_out(rotation_ns) else "ignores-flush"


def most_written() -> int:
    """Bytes that finding out whether a volatile cache is on writes at most: where the medium of the cache is
    not known, bursts and large writes.

    >>> most_written() >> 20
    108
    """
    return SLOW_BURSTS * BURST_WRITES * BURST_BYTES + MOST_LARGE_BYTES


class StandIn(ABC):
    """Stands in for the steps of a target whose volatile cache stays on (`skylight.probe.procedure.Steps`):
    writes are done in a way of its own, everything else is the target's."""

    def __init__(self, steps: Steps) -> None:
        """Over the steps of a target."""
        self._steps = steps
        self.target, self.size, self.block_bytes = steps.target, steps.size, steps.block_bytes
        self.known, self.can_write = steps.known, steps.can_write

    @abstractmethod
    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        """Does a batch of its own through `run`, that of the target; the log of what was asked for."""

    @property
    def names(self) -> tuple[str, ...]:
        """The steps so far."""
        return self._steps.names

    def run(
        self,
        name: str,
        io: IoBatch,
        *,
        depth: int = 1,
        until: Stop | None = None,
        params: Mapping[str, JsonScalar] | None = None,
        share: float = 1.0,
    ) -> IoLog:
        """Does the batch."""
        run = partial(self._steps.run, params=params, share=share)
        if not self._is_own(io):
            return run(name, io, depth=depth, until=until)
        return self._write(run, name, io, depth, until)

    def _is_own(self, io: IoBatch) -> bool:
        """Whether the batch is done in a way of its own: one of writes alone."""
        return len(io) > 0 and bool((io.op == int(Op.WRITE)).all())

    def left_ns(self) -> float:
        """Device time that is left of the budget."""
        return self._steps.left_ns()

    def spent(self) -> bool:
        """Whether the budget of device time is used up."""
        return self._steps.spent()

    def expect(self, total_ios: int) -> None:
        """Updates how many I/Os the whole procedure takes."""
        self._steps.expect(total_ios)

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets at which nothing is stored."""
        return self._steps.holes(offsets)

    def zones(self, name: str) -> ZonesSeen | None:
        """The zones as the target reports them."""
        return self._steps.zones(name)

    def non_sequential(self, name: str = COUNTED) -> int | None:
        """How many zones have non-sequential data."""
        return self._steps.non_sequential(name)

    def written(self, offset: U64, size: int) -> bool:
        """Whether reads of these offsets reach the medium."""
        return self._steps.written(offset, size)

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone."""
        self._steps.pause(name, seconds)

    def erase(self, name: str) -> bool:
        """Secure erase."""
        return self._steps.erase(name)

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """A known state."""
        return self._steps.reset(name, slow=slow, rotation_ns=rotation_ns)

    def quiet(self, least_s: float = 0.0) -> bool:
        """Waits until the target is quiet."""
        return self._steps.quiet(least_s)

    def rng(self, name: str) -> np.random.Generator:
        """Randomness for what a batch holds."""
        return self._steps.rng(name)

    def settings(
        self, name: str, *, write_cache: bool, look_ahead: bool
    ) -> AbstractContextManager[SettingsReport]:
        """Settings in force."""
        return self._steps.settings(name, write_cache=write_cache, look_ahead=look_ahead)


class FlushedSteps(StandIn):
    """Writes one at a time where they would wait together, with a FLUSH behind each group of as many as would
    wait."""

    def _write(self, run: Run, name: str, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        if until is None:
            return settled(run(name, with_flushes(io, depth)))
        # Of a group the FLUSH alone waits; one more group than that may be cut by the window.
        count = max(until.count // depth, 1)
        stop = Stop(
            until.latency_ns, count, min(until.within * 2 if depth == 1 else MOST_WITHIN, MOST_WITHIN)
        )
        if depth * int(io.size.max()) <= LEAST_CACHE_BYTES:
            return settled(run(name, FlushedBatch(io, depth), until=stop))
        return self._large_groups(partial(run, name, until=stop), io, depth, until.latency_ns)

    @staticmethod
    def _large_groups(run: Callable[[IoBatch], IoLog], io: IoBatch, depth: int, slow_ns: int) -> IoLog:
        """Groups that a volatile cache may be too small for: then writes wait as well as the FLUSH, each for
        a part of what the group does. So pieces are done, until two groups in a row of one were slow."""
        logs: list[IoLog] = []
        done = 0
        while done < len(io):
            piece = max(PIECE_GROUPS, done // depth // PIECES) * depth
            asked = with_flushes(io.part(done, done + piece), depth)
            log = run(asked)
            logs.append(settled(log))
            done += len(logs[-1])
            slow = logs[-1].latency_ns[::depth] >= slow_ns
            if len(log) < len(asked) or np.any(slow[1:] & slow[:-1]):
                break
        return IoLog.joined(logs)
