"""What a test may take: device time and bytes written, of which a session sends no more than is left.

Invariant: commands are let through before they are sent, in case each is as slow as commands may be.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64, I64, U8, IoBatch, IoLog, Op, Stop, are_writes
from skylight.units import format_seconds, format_size

SLOWEST_NS = 10_000_000_000
"""The mean time of a command that a piece is cut for, if none was slower yet. Slower than a write that waits
for the largest band known, 256 MiB, to be read and written at 75 MB/s."""

LATE_NS = 600_000_000_000
"""Of a bound, kept back for the commands that are under way when the rest is spent, or as much as the slowest
so far took: a set-associative cache cleans all data bands of a cache band for one write, in minutes."""

SLOW_SHARE = 1 / 8
"""Of what is left of a bound. A piece that ends at a command drains the queue, so one that stalls for
minutes, as a set-associative cache does, must not end it."""

LONE_PIECE, LONE_SHARE = 64, 1 / 2
"""So many lone commands go together however slow one was, in a piece that ends at the first that takes its
part of that share of what is left, without what is kept back. Chosen: commands in a queue would wait for
each other when it ends, lone ones do not; and after one write that waited for hours each would be a piece of
its own."""

SLOW_MARGIN = 2
"""How many times as long as the slowest so far the next commands of a slow drive may take. Chosen: a longer
write of a drive that cleans for each has waited 1.3 times as long."""

NEXT_MARGIN = 1.3
"""The same of one command more, for which that time is kept back."""

FLUSHED_TOGETHER = 32
"""A FLUSH counts as one behind so many writes at least. Chosen: a queue of them; what a lone one waits for, a
merge of a map or one band, comes once and not for each write."""

MOST_HELD_BYTES = 1 << 30
"""What a volatile cache holds at most: a FLUSH waits for no more of the writes before it, however long none
has been sent. Chosen: twice the most memory that disks of today have; a controller with more has a battery,
and its FLUSH waits for none of them."""

LOOK, LOOK_FARTHER = 256, 4
"""How many commands are looked at first, and how many times as many next while all of those fit. Chosen: a
piece of a few dozen commands looks at some hundred, and a long one at a third more than it has."""

MOST_LATE = 0.25
"""Of a bound, at most this share is kept back, but for what the slowest command so far took."""


class BoundReached(Exception):
    """The test may ask no more of its target: device time or bytes written have reached their bound."""


def _has_groups(ops: U8) -> bool:
    """Whether more than one FLUSH is among these operations; no more of them are looked at than show it."""
    ahead, flushes = LOOK, 0
    while flushes < 2 and ahead < LOOK_FARTHER * len(ops):
        flushes = int(np.count_nonzero(ops[:ahead] == int(Op.FLUSH)))
        ahead *= LOOK_FARTHER
    return flushes > 1


def _between_flushes(ops: U8) -> tuple[int, int]:
    """How many commands come before the first FLUSH, and at most before any or behind the last."""
    ends = np.flatnonzero(ops == int(Op.FLUSH))
    if not len(ends):
        return len(ops), len(ops)
    first, last = int(ends[0]), len(ops) - 1 - int(ends[-1])
    return first, max(first, last, int(np.diff(ends).max(initial=1)) - 1)


class Bound:
    """Device time (ns, pauses included) and bytes written that a test may take.

    >>> bound = Bound(1_000 * 10**9, 10_000)
    >>> bound.fits(IoBatch.reads([0] * 300, 4096)), bound.fits(IoBatch.writes([0] * 300, 4096))
    (100, 2)
    >>> bound.fits_pause(1_000 * 10**9), bound.fits_pause(700 * 10**9)
    (False, True)
    """

    def __init__(self, device_ns: int, bytes_written: int) -> None:
        """Begins with all of it left."""
        self.device_ns = device_ns
        self.bytes_written = bytes_written
        self._left_ns = device_ns
        self._left_bytes = bytes_written
        self._late_ns = min(LATE_NS, round(MOST_LATE * device_ns))
        self._slowest_ns: dict[int, int] = {}
        """The slowest command, ns, by the number of commands that waited together."""
        self._seen_at: dict[int, int] = {}
        """What `_seen_ns` gives of them at a depth: it is asked a few times for each piece."""
        self._slow_bytes = 0
        """The largest command that took longer than any is thought to."""
        self._unflushed, self._unflushed_bytes, self._flush_ns = 0, 0, 0.0
        """Writes that no FLUSH followed yet, their bytes, and the most that one write took of a FLUSH, ns."""
        self.why = ""
        """What did not suffice for the last command or pause that was asked for, in words."""

    def fits(self, io: IoBatch, depth: int = 1, until: Stop | None = None) -> int:
        """How many of the first commands may be sent before the bound is looked at again, in case each is as
        slow as commands may be without reaching the stop; 0 when nothing is left."""
        if not self.fits_pause(0):
            return 0
        sure, ahead = 0, LOOK
        while True:
            # Not all at once: a fill of a million commands in short pieces would look at most for each.
            count = max(sure, self._fits_of(io, ahead, depth, until))
            if count < ahead:
                return count
            sure, ahead = ahead, LOOK_FARTHER * ahead

    def _fits_of(self, io: IoBatch, ahead: int, depth: int, until: Stop | None) -> int:
        """As `fits`, of the first `ahead` commands: what lies behind them is not sent in the same piece
        unless all of these fit."""
        near = io.part(0, ahead)
        growth = self._growth(near)
        if self._left_ns <= self._kept_back_ns(growth):
            self.why = f"{format_seconds(self.device_ns / 1e9)} of device time"
            return 0
        slow = round(self._left_ns // (growth * self._worst_ns(depth, until)))
        most = max(1 if depth > 1 else LONE_PIECE, slow)
        near = near.part(0, most)
        count = len(near)
        if int(near.size.sum(dtype=np.int64)) > self._left_bytes:  # else all that they write fits
            written = np.cumsum(np.where(are_writes(near.op), near.size, 0), dtype=np.int64)
            count = int(np.searchsorted(written, self._left_bytes, side="right"))
        if count == 0:
            self.why = f"{format_size(self.bytes_written)} written"
            return 0
        count = min(count, self._flushable(near, io.op[:most]))
        if count == 0:
            self.why = f"{format_seconds(self.device_ns / 1e9)} of device time"
        return count

    def _flushable(self, io: IoBatch, ops: U8) -> int:
        """How many of the first commands leave a volatile cache no more than a FLUSH has time for: it answers
        writes at once, and one FLUSH then waits for all of them, and for what each of them has cleaned. Of
        groups of more than a queue each may wait as long as the slowest write did by itself: such groups are
        sent until one finds the cache full. `ops` are the operations of these commands and of those behind
        them, which show whether groups are sent."""
        count = len(io)
        if self._surely_flushable(self._unflushed + count, count):
            return count
        groups, (first, longest) = _has_groups(ops), _between_flushes(io.op)
        if self._surely_flushable(max(self._unflushed + first, longest), longest if groups else 0):
            return count
        waits = self._held(io) * NEXT_MARGIN * self._flush_ns > self.left_ns
        if groups:
            group = self._unflushed_at(io.op, np.ones(count, np.int64), 0)
            waits |= (group > FLUSHED_TOGETHER) & (group * NEXT_MARGIN * self._seen_ns(1) > self.left_ns)
        late = np.flatnonzero(waits & ((io.op == int(Op.WRITE)) | (io.op == int(Op.FLUSH))))
        return int(late[0]) if len(late) else count

    def _surely_flushable(self, held: int, group: int) -> bool:
        """Whether a FLUSH has time for this number of writes, and a group for each of its own: where no more
        come before any FLUSH, none of them need be looked at one by one."""
        group_ns = group * NEXT_MARGIN * self._seen_ns(1) if group > FLUSHED_TOGETHER else 0.0
        return max(held * NEXT_MARGIN * self._flush_ns, group_ns) <= self.left_ns

    def _unflushed_at(self, op: U8, each: I64, before: int) -> I64:
        """The sum of `each` over the writes that no FLUSH has followed, at each of these commands, itself
        among them; `before` is that of earlier commands."""
        written = np.cumsum(np.where(op == int(Op.WRITE), each, 0), dtype=np.int64) + before
        ended = np.where(op == int(Op.FLUSH), written, 0)
        flushed = np.maximum.accumulate(np.concatenate([[0], ended]))[:-1]
        return np.asarray(written - flushed, np.int64)

    def _behind(self, op: U8) -> I64:
        """How many writes no FLUSH has followed, at each of these commands, itself among them."""
        return self._unflushed_at(op, np.ones(len(op), np.int64), self._unflushed)

    def _held(self, io: IoBatch) -> F64:
        """How many writes of their mean size a FLUSH would wait for, at each of these commands."""
        held_bytes = self._unflushed_at(io.op, io.size.astype(np.int64), self._unflushed_bytes)
        part = np.minimum(1.0, MOST_HELD_BYTES / np.maximum(held_bytes, 1))
        return self._behind(io.op).astype(np.float64) * part

    def _saw_flushes(self, log: IoLog) -> None:
        """Notes what writes took of the FLUSH behind them, and how many no FLUSH followed."""
        writes = log.op == int(Op.WRITE)
        flushes = np.flatnonzero(log.op == int(Op.FLUSH))
        if len(flushes):
            written = np.cumsum(writes, dtype=np.int64)[flushes]
            behind = np.diff(written, prepend=-self._unflushed)
            each_ns = log.latency_ns[flushes] / np.maximum(behind, FLUSHED_TOGETHER)
            self._flush_ns = max(self._flush_ns, float(each_ns.max()))
            self._unflushed, self._unflushed_bytes = 0, 0
            writes[: flushes[-1]] = False
        self._unflushed += int(np.count_nonzero(writes))
        self._unflushed_bytes += int(log.size[writes].sum(dtype=np.int64))

    def _seen_ns(self, depth: int) -> int:
        """What the slowest command took for itself. Of what it took in a queue it spent a share on others,
        but one alone may take all of it; and one that was slow alone is as slow in a queue."""
        if depth not in self._seen_at:
            each = (slow // min(alike, depth) for alike, slow in self._slowest_ns.items())
            self._seen_at[depth] = max(each, default=0)
        return self._seen_at[depth]

    def _worst_ns(self, depth: int, until: Stop | None) -> int:
        """The slowest pace that commands can keep without reaching the stop, ns a command."""
        seen_ns = self._seen_ns(depth)
        worst_ns = SLOW_MARGIN * seen_ns if seen_ns > SLOWEST_NS else SLOWEST_NS
        if until is None:
            return worst_ns
        slow = (until.count - 1) / until.within
        return max(1, round(slow * worst_ns + (1 - slow) * min(until.latency_ns / depth, worst_ns)))

    def _growth(self, io: IoBatch) -> float:
        """How many times as long as the slow ones so far the next commands may take for being larger: a drive
        that cleans before each part of a write takes four times as long for four times the data. No read
        waits for that."""
        if not self._slow_bytes:
            return 1.0
        largest = float(io.size.max(initial=0, where=io.op != int(Op.READ)))
        return max(1.0, largest / self._slow_bytes)

    def _kept_back_ns(self, growth: float) -> float:
        """Device time that is kept for one command more."""
        likely_ns = max(NEXT_MARGIN, growth) * self._seen_ns(1)
        return max(self._late_ns, min(likely_ns, MOST_LATE * self.device_ns))

    def fits_pause(self, pause_ns: int) -> bool:
        """Whether the target may be left alone for that long, and asked for more afterwards."""
        fits = pause_ns < self._left_ns - self._late_ns
        if not fits:
            self.why = f"{format_seconds(self.device_ns / 1e9)} of device time"
        return fits

    def spend(self, log: IoLog, depth: int = 1) -> None:
        """Subtracts what was done at that depth."""
        if (log.op != int(Op.READ)).any():
            self._left_bytes -= int(log.size[are_writes(log.op)].sum(dtype=np.int64))
            self._saw_flushes(log)
        self.spend_ns(log.span_ns)
        latency_ns = log.latency_ns
        slowest_ns, together = int(latency_ns.max(initial=0)), max(1, min(depth, len(log)))
        if slowest_ns > self._slowest_ns.get(together, 0):
            self._slowest_ns[together] = slowest_ns
            self._seen_at.clear()
        if slowest_ns > together * SLOWEST_NS:
            slow = log.size[latency_ns > together * SLOWEST_NS]
            self._slow_bytes = max(self._slow_bytes, int(slow.max(initial=0)))
        self._late_ns = max(self._late_ns, slowest_ns)

    def stop(self, depth: int, until: Stop | None) -> Stop:
        """What ends a piece: a stop of its own, or a command so slow that the bound is looked at again,
        whatever was expected of the rest: slower than `fits` allowed for, or a share of what is left."""
        allowed_ns = depth * self._worst_ns(depth, None)
        alone_ns = max(min(round(SLOW_SHARE * self.left_ns), allowed_ns), 1)
        if depth == 1 and LONE_PIECE * allowed_ns > self.left_ns:
            free_ns = self.left_ns - self._kept_back_ns(1.0)  # one more as slow may follow all of them
            alone_ns = max(min(alone_ns, round(LONE_SHARE * free_ns / LONE_PIECE)), 1)
        asked = until or Stop(alone_ns)
        return Stop(asked.latency_ns, asked.count, asked.within, alone_ns)

    @property
    def left_ns(self) -> int:
        """Device time that is left, ns."""
        return max(self._left_ns, 0)

    def spend_ns(self, device_ns: int) -> None:
        """Subtracts device time."""
        self._left_ns -= device_ns
