"""Writes of test 1 and what they show by themselves: do they vary, wait for a platter, stall for cleaning?

Used while measuring, to decide what to do next, and for the verdict.

Invariant: everything here depends on latencies alone.

Source: Skylight (FAST '15) section 4.3 (fixed latencies) and 4.6 (stalls of cleaning).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import I64, IoLog
from skylight.infer.host_clock import TICK_DEVIATION
from skylight.infer.phase import SAME_PERIOD, Coherence
from skylight.infer.robust import FIXED_SPREAD, Spread, folded_spread, tick_of
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.drive_type.writes_after_random_reads import STALL_NS, Mixed
from skylight.units import format_size

FAST_NS = 1_000_000  # "sub-millisecond" writes, section 4.3
LARGE_BYTES = 64 << 10  # size of a sustained write
FAST_LARGE_NS = 1_500_000  # the same for these, which spend up to half a millisecond on the way to the drive
MOST_VOLATILE_BYTES = 1 << 30  # what a volatile write cache may hold, and write out while it is filled
LEAST_VOLATILE_BYTES, LONG_NS = 128 << 20, 30_000_000_000  # more than most hold, for longer than they take
QUICKEST_OUT_NS = 1_500_000
"""A disk writes a random 64 KiB out of its cache in no less, also where it chooses among thousands: a step of
the arm and settling take a millisecond, and as much data a third of one to pass."""
KEEPS_UP_NS = QUICKEST_OUT_NS // 2
"""From one small write to the next: by the end of 1.1 GiB of large ones a volatile cache may have written out
half of them, and hold the rest."""
SLOWEST_WRITE_NS = 25_000_000  # a disk's random write within 2 GiB, with room to spare
FEWEST_SHARE = 64  # writes of which a share means anything
FEWEST_SINCE_STALL = 8
SMALL_BEFORE = 1_024  # writes of test 1 before the large ones, all small: a volatile cache may hold them all
TELLING_NS = FEWEST_SHARE * SLOWEST_WRITE_NS  # a stall that makes so many slower than a disk's
LONGEST_RETRY_NS = 30_000_000_000  # no disk tries longer for one sector: hosts give up at 30 s
LONGEST_OUTAGE_NS = 4 * LONGEST_RETRY_NS  # chosen: of a path that fails over, or of a host that hangs
SLOW_SHARE = 0.2
LATELY = 32  # the last of sustained writes: of as many a mean is not one outlier's
FEWEST_LAST = 1_024  # sustained writes that are looked at together: longer than bands being cleaned in a row
MARGIN = 1.25  # chosen: a host may do later writes so much more slowly than the first
LEAST_FLUSH_WORK_NS = 250_000  # less than 16 writes to a log or to flash take
MOST_FLUSH_CHANCE = 0.04  # of noise: that of pairs that differ five of five, or seven of eight, are longer
# No rotating disk serves half of its random reads within this: a seek and half a revolution.
FAST_READ_NS = 3_000_000
TURN_SHARE = 0.9  # a fixed latency of at least this many revolutions waits for a platter
# Of a revolution: waits for an angle have an interquartile range of a half. What is 12 % of a log's latency
# is less, up to three revolutions.
WAITING_SPREAD = 0.4
# Of a revolution: waits for an angle deviate by 1 / sqrt(12). Half of that, where a tick is so much of a
# revolution that it hides how far they spread.
WAITING_DEVIATION = 0.145
COARSE = 0.1  # of a revolution; ticks of a millisecond are a quarter of the turn of the fastest disks
LATE_SHARE = 0.75  # share of latencies of at least a revolution before whole revolutions are taken off


@dataclass(frozen=True, slots=True)
class Writes:
    """One step of writes: latency of each (ns; with its FLUSH if `flushed`), how completions follow the
    address, the tick of the clock (ns), and the time from one submission to the next (median, ns)."""

    name: str
    region_bytes: int
    flushed: bool
    latency_ns: I64
    tied: Coherence
    tick_ns: int = 0
    pace_ns: float = 0.0

    @property
    def spread(self) -> Spread:
        """Summary of the latencies."""
        return Spread.of(self.latency_ns, self.tick_ns)

    def fixed(self, turning: Coherence | None) -> bool:
        """True for one latency, give or take jitter and whole revolutions of a disk that rotates."""
        return is_fixed(self.latency_ns, turning, self.tick_ns)

    @property
    def slow_enough(self) -> bool:
        """True if a volatile cache may be written out meanwhile: they take long, or the host waits between
        them."""
        return max(self.spread.median_ns, self.pace_ns) >= KEEPS_UP_NS

    def ticks_hide(self, turning: Coherence) -> bool:
        """Whether ticks are so much of a revolution that hundreds of writes hardly show how they vary."""
        return self.tick_ns > COARSE * turning.period_ns

    def quick(self, turning: Coherence | None) -> bool:
        """True if the writes did not wait for a platter: flash, a volatile cache, an eager log."""
        if self.spread.median_ns < FAST_NS or turning is None:
            return self.spread.median_ns < FAST_NS
        return self.spread.fixed and self.spread.median_ns < TURN_SHARE * turning.period_ns

    @property
    def what(self) -> str:
        """What was done, for a sentence."""
        flush = " each with a FLUSH" if self.flushed else ""
        return f"4 KiB writes{flush} within {format_size(self.region_bytes)}"


@dataclass(frozen=True, slots=True)
class Sustained:
    """Random large writes that followed fast ones: latency of all and of the last ones (ns), bytes.

    The last ones are the last piece, or at least `FEWEST_LAST`: a piece ends early when bands are cleaned."""

    latency_ns: I64
    tail_ns: I64
    total_bytes: int
    pieces: int
    span_ns: int = 0
    """From the first submission to the last completion of each piece, together."""

    @staticmethod
    def of(pieces: Sequence[IoLog]) -> Sustained:
        """The summary of the pieces that were written, in order."""
        if not pieces:
            nothing = np.empty(0, np.int64)
            return Sustained(nothing, nothing, 0, 0)
        latency_ns = np.concatenate([piece.latency_ns for piece in pieces])
        total = sum(int(piece.size.sum(dtype=np.uint64)) for piece in pieces)
        last = max(len(pieces[-1].latency_ns), FEWEST_LAST)
        span_ns = sum(piece.span_ns for piece in pieces)
        return Sustained(latency_ns, latency_ns[-last:], total, len(pieces), span_ns)

    @staticmethod
    def name(number: int) -> str:
        """The step of a piece, counted from 1."""
        return f"writes-sustained-{number}"

    @property
    def held_bytes(self) -> int:
        """What was in a cache at the end at least, if a disk behind it wrote out meanwhile."""
        return max(self.total_bytes - LARGE_BYTES * (self.span_ns // QUICKEST_OUT_NS), 0)

    @property
    def rows(self) -> tuple[str, ...]:
        """The steps of all pieces."""
        return tuple(self.name(number) for number in range(1, self.pieces + 1))

    @property
    def tells(self) -> bool:
        """True if there are enough of them for a share to mean anything."""
        return len(self.latency_ns) >= FEWEST_SHARE

    @staticmethod
    def limit_ns(writes: Writes) -> float:
        """What still counts as fast, given the small writes before. By a clock with ticks a latency seems up
        to one longer than it is: of writes that take little more than one, many seem to take two."""
        return max(FAST_LARGE_NS, 2.0 * writes.spread.median_ns) + writes.tick_ns

    def slow(self, writes: Writes) -> bool:
        """True if the last of these waited as for a platter. Waits as long as cleaning a band do not count:
        a full volatile cache waits for one block at a time."""
        return waiting(self.limit_ns(writes))(self.tail_ns)

    def enough(self, writes: Writes) -> bool:
        """True if a volatile cache would have been full before the last of these, or written out meanwhile,
        or if bands were cleaned."""
        before_bytes = self.total_bytes - LARGE_BYTES * len(self.tail_ns)
        long = self.total_bytes >= LEAST_VOLATILE_BYTES and int(self.latency_ns.sum()) >= LONG_NS
        return before_bytes >= MOST_VOLATILE_BYTES or long or self.cleaned(writes)

    def comes_too_late(self, left_ns: float) -> bool:
        """True if at the pace so far time is over before a volatile cache would have been full, or written
        out meanwhile. What the host does between two writes counts as much as they do."""
        if not self.tells:
            return False
        missing_bytes = MOST_VOLATILE_BYTES + LARGE_BYTES * FEWEST_LAST - self.total_bytes
        missing_ns = LONG_NS - float(self.latency_ns.sum())
        shares = missing_bytes / self.total_bytes, missing_ns / float(self.latency_ns.sum())
        return MARGIN * min(shares) * self.span_ns > left_ns

    def cleaned(self, writes: Writes) -> bool:
        """True if bands were cleaned meanwhile: between writes that were fast, or so that all of them took
        longer than any disk takes."""
        stalls = cleaned_between(self.latency_ns, self.limit_ns(writes)) or took_too_long(self.latency_ns)
        return stalls or outlasts_everything(self.latency_ns)

    def only_stalled(self, writes: Writes) -> bool:
        """True if of the last of these hardly any waited, but as long as bands take to be cleaned. So they do
        where a cache of either kind is full: a volatile one for as long as the many small ones that came
        before are written out, flash on and on. A few more tell."""
        return not _waited(self.tail_ns, self.limit_ns(writes))

    @property
    def waits_as_for_bands(self) -> bool:
        """True if the last ones took far longer than a disk takes to write out one each, as where small bands
        of a fast disk are cleaned: not for long enough to show that, but blocks that lie at home then may
        have gone there."""
        lately_ns = self.latency_ns[-LATELY:]
        return len(lately_ns) == LATELY and float(lately_ns.mean()) >= 2 * SLOWEST_WRITE_NS

    @property
    def stalled_lately(self) -> bool:
        """True if one of the last writes waited so long that few more show whether bands are cleaned."""
        return bool(np.any(self.latency_ns[-FEWEST_SHARE:] >= TELLING_NS))


def in_place(writes: Writes, turning: Coherence) -> bool:
    """True for writes whose completions follow their address around the same rotation as reads."""
    tied = writes.tied
    return tied.rotates and abs(tied.period_ns / turning.period_ns - 1) <= SAME_PERIOD


def slow_flush(flush_ns: I64) -> bool:
    """True if FLUSHes after fast writes had work to do, unlike the ones right after them: they were in a
    volatile cache. One that finds the cache written out by then, since the host waits, shows nothing."""
    pairs = len(flush_ns) // 2
    work_ns = flush_ns[: 2 * pairs : 2] - flush_ns[1 : 2 * pairs : 2]
    least_ns = LEAST_FLUSH_WORK_NS + tick_of(flush_ns.astype(np.uint64))
    longer = int(np.count_nonzero(work_ns > least_ns))
    differ = longer + int(np.count_nonzero(work_ns < -least_ns))
    return binomial_tail(longer, differ, 0.5) <= MOST_FLUSH_CHANCE


def is_fixed(latency_ns: I64, turning: Coherence | None, tick_ns: int = 0) -> bool:
    """True for one latency, give or take jitter and, given a rotation, whole revolutions.

    Behind a long delay waits for an angle are a small part of a latency, and yet all of a revolution."""
    spread = Spread.of(latency_ns, tick_ns)
    if turning is None:
        return spread.fixed
    if spread.fixed:
        if spread.iqr_ns >= max(WAITING_SPREAD * turning.period_ns, tick_ns):
            return False
        waiting_ns = WAITING_DEVIATION * turning.period_ns
        return spread.relative <= FIXED_SPREAD or _deviation_ns(latency_ns, turning, tick_ns) < waiting_ns
    late_ns = latency_ns[latency_ns >= TURN_SHARE * turning.period_ns]
    if len(late_ns) < LATE_SHARE * len(latency_ns):
        return False
    return folded_spread(late_ns, turning.period_ns) <= FIXED_SPREAD


def _deviation_ns(latency_ns: I64, turning: Coherence, tick_ns: int) -> float:
    """The standard deviation of latencies without what ticks add to both moments, and without those that are
    far off for other reasons."""
    far_ns = 1.5 * turning.period_ns
    near_ns = latency_ns[np.abs(latency_ns - np.median(latency_ns)) < far_ns]
    return float(np.sqrt(max(near_ns.var() - 2 * (TICK_DEVIATION * tick_ns) ** 2, 0.0)))


def waiting(limit_ns: float) -> Callable[[I64], bool]:
    """Whether latencies waited as for a platter: longer than that, but not as long as cleaning a band."""

    def holds(latency_ns: I64) -> bool:
        return float(np.median(latency_ns)) >= limit_ns or _waited(latency_ns, limit_ns)

    return holds


def _waited(latency_ns: I64, limit_ns: float) -> bool:
    waits = np.count_nonzero((latency_ns >= limit_ns) & (latency_ns < STALL_NS))
    return bool(waits > SLOW_SHARE * len(latency_ns))


def took_too_long(latency_ns: I64, cached: int = SMALL_BEFORE) -> bool:
    """True if writes took twice as long as they take any disk, even without the slowest, which may be a
    retry, and although a volatile cache may have to write out as many small ones as came before."""
    if len(latency_ns) == 0:
        return False
    most_ns = 2 * SLOWEST_WRITE_NS * (len(latency_ns) + cached)
    return int(latency_ns.sum()) - int(latency_ns.max()) > most_ns


def outlasts_everything(latency_ns: I64, cached: int = SMALL_BEFORE) -> bool:
    """True if one write took twice as long as a disk takes to write out all that was written before it, and
    far longer than hosts wait for a sector or a path: a set-associative cache cleans the bands of a whole
    cache band for one write, and that may be all that the bound of the test has time for."""
    if len(latency_ns) == 0:
        return False
    longest = int(np.argmax(latency_ns))
    most_ns = 2 * SLOWEST_WRITE_NS * (longest + 1 + cached)
    return bool(latency_ns[longest] > max(most_ns, LONGEST_OUTAGE_NS))


def cleaned_between(latency_ns: I64, limit_ns: float) -> bool:
    """True if bands were cleaned between writes of which `limit_ns` is still fast, which no conventional disk
    has to: since some stall half of the writes were fast, but all together took longer than any disk takes
    for as many (and for `FEWEST_SHARE`, if they are fewer), even without the slowest of them, which may be a
    retry unless it is longer than any."""
    slowest_write_ns = SLOWEST_WRITE_NS + (float(np.median(latency_ns)) if len(latency_ns) else 0.0)
    for first in np.flatnonzero(latency_ns >= STALL_NS):
        since_ns = latency_ns[first:]
        if len(since_ns) < FEWEST_SINCE_STALL:
            break
        slowest_ns = int(since_ns.max())
        retry_ns = slowest_ns if slowest_ns < LONGEST_RETRY_NS else 0
        too_long = int(since_ns.sum()) - retry_ns > slowest_write_ns * max(len(since_ns), FEWEST_SHARE)
        if too_long and float(np.median(since_ns)) < max(FAST_READ_NS, limit_ns):
            return True
    return False


def cleaned_early(wide: Writes | None, mixed: Mixed | None) -> bool:
    """True if bands were cleaned between 4 KiB writes already, those after reads among them."""
    if wide is None or wide.flushed:
        return False
    parts = [wide.latency_ns] if mixed is None else [wide.latency_ns, mixed.latency_ns]
    return cleaned_between(np.concatenate(parts), Sustained.limit_ns(wide))
