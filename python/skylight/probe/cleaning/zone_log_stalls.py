"""A lazy drive with free bands in every zone: how long it cleans a band, seen in writes that wait.

Writes to a zone share its free bands, each a log. When none is left, a write waits for the band of the oldest
block to be cleaned, and if that gave no log back, for its own band too; so the last of several such writes
waits for the one band that makes a log empty. At three places the first log is given single blocks of a few
bands, and then one block over and over, which is dead as soon as the next comes. Every other 64 KiB of some
bands follows, and then more data until writes wait, for the bands with one block first, then for those that
are half written. Only writes that others follow without a wait are used: these found room in a log that was
given back. The smallest log takes what a few of them write, so what waits sooner than that, but not at once,
was delayed by something else: other clients delay writes by as much as a band of a few MiB takes.

Where a zone held something before, that is cleaned first: such stalls bring none of all this home, and do not
count. Each block of a log may lie in another band, so there may be as many as the zone has bands: until the
first single block is home, looks are few. Older data in the half-written bands has some of these cleaned
before others: cells go home in any order. Where a volatile cache stays on, a FLUSH follows each write.

What a write takes that finds room is known beforehand, by those of the block that is written over and over:
in a zone that held much before, the first writes of the others may all wait.

A mark that goes home alone had older data in its band, which is cleaned as a whole: the log of the others has
not come yet. Looks are few again until it does.

Nothing says where a zone ends, and a zone that ends amid all this does not tell. Then it is done again a
little further on, closer together if the first time showed how much a band is: what is written between two
waits that gave a log back. So it is at once where that shows while older data is cleaned, for looks at few
bands are quick, and at the other places. What a place showed says how long a wait is at the others. It is
done again too where writes wait for a band one by one: these lie in another zone than the marks, behind its
end. If none waits in a whole attempt, the free bands take more than all of it, or there are none, and no more
are made.

Invariant: a stall counts only if looks find what it cleaned at home; a zone that ends amid all this is not
used.
Source: Skylight (FAST '15), section 3.1; docs/figures.md, "Drives" (a free band is a log for a zone's dirty
bands).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from skylight.evidence import EMPTY_LOG, I64, U64, IoBatch, IoLog, Stop
from skylight.probe.cleaning import band_time, half_written_band
from skylight.probe.cleaning.half_written_band import Bools, Stretch
from skylight.probe.cleaning.trials import (
    GIB,
    INSIDE,
    KIB,
    MIB,
    MORE_LOOKS,
    Ground,
    joined,
    look_again,
)
from skylight.probe.destage_by_read import ReadAround
from skylight.probe.journal.write_through import WriteThrough

MARKS, FEW_HOME, MOST_MARKED = 6, 1, 4
OVER, OVER_WRITES = 256 * KIB, 1060  # 265 MiB: more than a log
STRETCH, CELL = 2 * GIB, 2 * MIB
SMALL_BAND, SMALL_CELL = 16 * MIB, MIB
SHIFTS = (0.0, 1 / 24, 1 / 60, 1 / 12, 1 / 17)  # of the drive, from a place: attempts at it
BAND_SLACK, STRETCH_BANDS = 1.1, 9
FILL, MOST_FILLED = 960 * KIB, 60 * GIB  # each in a MiB of its own, off its start
FEWEST_WRITES, ROW, ROW_NS = 32, 3, 30_000_000
PLAIN_OF = 9  # writes that found room, of which the median is known well enough
ROW_CHANCE = 0.001  # of a row among all writes, if as many are delayed as were before
MORE_PART, LEAST_MORE_NS, MOST_MORE_NS = 0.3, 15e6, 50e6  # of what those in a row waited, beyond others
ONE_PART, BAND_PART, LONGEST_DELAY_NS = 0.3, 0.6, 1e9
"""Of what a band took at one place, what writes wait for one at another, at least: tracks pass up to 2.5
times as fast there; and from where on a wait is one for a band and no delay, or where no band was seen."""
ONE_OF = 0.1
"""Of what those in a row waited, what one band takes at least, chosen: they wait for two, or for a few more
of older data. Other clients and outliers delay writes by more than `MOST_MORE_NS`, but hardly by seconds."""
LATER_STALLS, BEFORE_STALLS, LARGEST_STOPS = 9, 27, 120
OLDER_EACH, OLDER_AHEAD = 3, 16
"""While no single block is home, after how many waits it is looked whether one is: each brings home one at
most, and there are twice as many; and at how many cells."""
MOST_OLDER_NS = 10_800_000_000_000
"""How long older data may be cleaned in all attempts, a third of what the test may take. Chosen: a zone of a
thousand bands, each of which takes two waits of 5 s."""
AT_ONCE_OF = 40
"""Waits, most of which come at once while older data is cleaned; else the single blocks lie elsewhere."""
NEAR = 3
"""Cells beside one at home that are looked at again. Chosen: delays hide three in a row once in 125."""
FEWEST_ALONE = 3
"""Writes of a fill that wait for a band and in no row, from how many on these are no outliers. Chosen."""
FEWEST_RUNS = 3
"""Logs that are given back, from how many on these show what a band is. Chosen: other clients part one of
them now and then."""
NEXT_MARK = 4
"""Waits behind a mark that goes home, after which it was not one of a log. Chosen: each mark of a log is one
wait, and other clients' delays are taken for waits now and then."""
LONG_QUANTILE = 0.9
"""Waits half as long as this quantile of all are long ones. Chosen: where nine of ten are delays by other
clients, hardly a log is seen."""
LEAST_RUN = 3 * MIB  # written between a stall and the next where a log was given back
LOOKED_AHEAD = 400
SOUND = (0.95, 1.5)  # half a band more to read, of a whole one that is read and written
ZONE = "lazy-zone-"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the single blocks, the stretch and what fills the zone lie: first byte, bytes from one block to
    the next, of which no band has more, bytes of the stretch and of a cell of it."""

    start: int
    pitch: int
    length: int
    cell: int = CELL

    @staticmethod
    def at(size: int, place: int, attempt: int, band: int | None) -> Layout:
        """Of an attempt at a place, for bands of any size or of this one."""
        shifted = place * (size // half_written_band.SIXTHS) + int(SHIFTS[attempt] * size)
        if band is None:
            return Layout(shifted // (64 * MIB) * (64 * MIB), band_time.LARGEST_BAND, STRETCH)
        pitch = -(-int(BAND_SLACK * band) // MIB) * MIB
        cell = CELL if pitch > SMALL_BAND else SMALL_CELL
        return Layout(shifted // MIB * MIB, pitch, STRETCH_BANDS * pitch // cell * cell, cell)

    @property
    def is_wide(self) -> bool:
        """Whether it is for bands of any size."""
        return self.length == STRETCH

    @property
    def marks(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """The single blocks."""
        return (np.arange(MARKS) * self.pitch + self.start + INSIDE).astype(np.uint64)

    @property
    def over(self) -> int:
        """The block that is written over and over: behind the marks."""
        return self.start + MARKS * self.pitch + INSIDE

    @property
    def stretch(self) -> Stretch:
        """The half-written bands."""
        return Stretch(self.start + (MARKS + 2) * self.pitch, self.length, self.cell)

    def parts(self, size: int, block: int, copies: int = 1) -> tuple[IoBatch, IoBatch]:
        """The writes behind the marks, up to the drive's end: the stretch, in blocks, and more data."""
        behind = self.stretch.start + self.stretch.length + 64 * KIB
        count = max(0, min(MOST_FILLED, size // 8, size - behind)) // MIB
        where = behind + np.arange(count, dtype=np.uint64) * np.uint64(MIB)
        return self.stretch.writes(block, copies), IoBatch.writes(where, FILL)


def measure(ground: Ground, places: dict[int, Place]) -> None:
    """Puts into `places` what each of the three showed, up to one that showed nothing; where a volatile cache
    stays on, each write takes until the FLUSH behind it is answered, and a drive that ignores FLUSH is left
    alone."""
    if ground.flushed and (not ground.settles or isinstance(ground.steps, ReadAround)):
        return
    if ground.flushed:
        ground = replace(ground, steps=WriteThrough(ground.steps, empties=True), flushed=False)
    band, one_ns, older_ns = None, 0.0, 0
    for place in half_written_band.PLACES:
        for attempt in range(len(SHIFTS)):
            name = f"{ZONE}{place}-{attempt + 1}"
            ground.steps.reset(f"{name}-erase", slow=False)  # what is older is cleaned first, and not counted
            layout = Layout.at(ground.steps.size, place, attempt, band)
            seen = _place(ground, name, place, layout, one_ns, older_ns)
            older_ns = seen.older_ns
            found = seen.place()
            if found is not None and found.sound:
                places[place], band, one_ns = found, seen.band, found.one_ns
                break
            if not (seen.waits or seen.elsewhere_waits) or older_ns > MOST_OLDER_NS:
                return
            band = band or seen.band
        else:
            return  # the time for a band is the mean of all three


def _place(ground: Ground, name: str, place: int, layout: Layout, one_ns: float, older_ns: int) -> Watched:
    """One attempt: writes until some wait in a row, then watched ones until enough was seen. Of a band that
    takes `one_ns` elsewhere, if that is known; older data was cleaned for `older_ns` before."""
    steps, more_ns, params = ground.steps, 0, {"place": place}
    seen = Watched(older_ns=older_ns, gone=np.zeros(len(layout.stretch.blocks), np.bool_))
    over_ns, before_ns = _marked(ground, name, layout, seen), np.zeros(0, np.int64)
    for part, writes in enumerate(layout.parts(steps.size, ground.block, ground.copies), 1):
        if len(writes) <= FEWEST_WRITES:
            break
        passing_ns = (float(np.median(writes.size)) - OVER) * 1e9 / float(np.mean(ground.bytes_a_second))
        plain_ns, done = round(max(over_ns + passing_ns, 0.0)), 0
        if not seen.waits:
            fill = f"{name}-{part}-fill"
            log, seen.waits = _filled(ground, fill, writes, plain_ns, one_ns, params, before_ns)
            before_ns = log.latency_ns - plain_ns
            is_long = before_ns > (BAND_PART * one_ns or LONGEST_DELAY_NS)
            seen.elsewhere_waits = not seen.waits and int(np.count_nonzero(is_long)) >= FEWEST_ALONE
            plain_ns, done = usual(log, plain_ns, plain_ns + ROW_NS), len(log)
            waited_ns = float(np.median(log.latency_ns[-ROW:])) - plain_ns
            more_ns = max(told_from(waited_ns), round(ONE_PART * one_ns))
        step = f"{name}-stall-{part}"
        left, stop = writes.part(done, len(writes)), Stop(plain_ns + more_ns)
        if seen.waits and _watch(ground, step, layout, left, stop, plain_ns, seen):
            break
    return seen


def _marked(ground: Ground, name: str, layout: Layout, seen: Watched) -> float:
    """Writes the marks, and the block that is written over and over, and how long that takes where it finds
    room, ns. In a zone without a free band it waits for older data to be cleaned, and then for the marks:
    these are written again where more than a few of them are home."""
    over = np.full(OVER_WRITES, layout.over, np.uint64)
    writes = joined(ground.marks(layout.marks), IoBatch.writes(over, OVER))
    for number in range(1, MOST_MARKED + 1):
        log = ground.steps.run(f"{name}-marks", writes)
        home = ground.home(ground.steps.run(f"{name}-marks-look", ground.looks(layout.marks)))
        if np.count_nonzero(home) <= FEW_HOME or seen.older_ns > MOST_OLDER_NS or number == MOST_MARKED:
            break
        seen.older_ns += log.span_ns
    return float(np.median(log.latency_ns[log.size == OVER]))


def usual(log: IoLog, plain_ns: int, limit_ns: int) -> int:
    """What a write takes that finds room, ns: the median of those of these that took less than a limit, or
    what is known if they are few."""
    found_room = log.latency_ns[log.latency_ns < limit_ns]
    return int(np.median(found_room)) if len(found_room) >= PLAIN_OF else plain_ns


def _filled(
    ground: Ground,
    name: str,
    writes: IoBatch,
    plain_ns: int,
    one_ns: float,
    params: dict[str, int],
    before_ns: I64,
) -> tuple[IoLog, bool]:
    """Writes up to a row that waits, and whether there was one. Other clients that delay a tenth of all
    writes make rows too: these go by. Writes that wait one by one for a band are no such delays. By how much
    thousands of writes `before_ns` were delayed shows what is usual better than the first of these do."""
    done, limit_ns, seen = 0, plain_ns + max(ROW_NS, round(ONE_PART * one_ns)), list[IoLog]()
    longest_ns = plain_ns + (BAND_PART * one_ns or LONGEST_DELAY_NS)
    while done < len(writes):
        until = Stop(limit_ns, ROW, ROW)
        seen.append(ground.steps.run(name, writes.part(done, len(writes)), until=until, params=params))
        done += len(seen[-1])
        if not until.reached(seen[-1]):
            break
        latency_ns = IoLog.joined(seen).latency_ns
        others_ns = np.concatenate([before_ns + plain_ns, latency_ns[:-ROW]])
        delay_ns = delays_of(others_ns[others_ns < longest_ns])
        if float(np.median(latency_ns[-ROW:])) > delay_ns:
            return IoLog.joined(seen), True
        limit_ns = max(limit_ns, round(delay_ns))
    return IoLog.joined(seen), False


def delays_of(latency_ns: I64) -> float:
    """A latency beyond which so few of these writes are that a row of them hardly comes by chance, ns.

    >>> quiet, busy = np.full(1_000, 10), np.where(np.arange(1_000) % 10, 10, 90)
    >>> delays_of(quiet), delays_of(busy)
    (10.0, 90.0)
    """
    if not len(latency_ns):
        return 0.0
    return float(np.quantile(latency_ns, 1 - (ROW_CHANCE / len(latency_ns)) ** (1 / ROW)))


def told_from(waited_ns: float) -> int:
    """By how much longer than others writes take that wait for a band, where those in a row waited so long.

    >>> told_from(20e6), told_from(100e6), told_from(1e9), told_from(10e9)
    (15000000, 30000000, 100000000, 1000000000)
    """
    return int(np.clip(MORE_PART * waited_ns, LEAST_MORE_NS, max(MOST_MORE_NS, ONE_OF * waited_ns)))


def _marks_home(ground: Ground, name: str, marks: Bools, layout: Layout) -> Bools:
    """Which of the marks are home, looked at again if others may have delayed some looks."""

    def again() -> Bools:
        return ground.home(ground.steps.run(f"{name}-again", ground.looks(layout.marks)))

    return look_again(marks, 0 if ground.flash else MORE_LOOKS, again, flash=ground.flash)


def _near_home(ground: Ground, name: str, home: Bools, blocks: U64, *, in_one: bool = False) -> Bools:
    """Which of the cells are home, those beside one looked at again as marks are, each time in a step of its
    own or all `in_one`: a band goes home as a whole, and what delayed looks hid of it would pass for the next
    that is cleaned."""
    for _ in range(0 if ground.flash else 1 if in_one else MORE_LOOKS):
        close = np.convolve(home, np.ones(2 * NEAR + 1), "same") if len(home) > 2 * NEAR else home
        near = np.flatnonzero((close > 0) & ~home)
        if len(near):
            looks = ground.looks(np.tile(blocks[near], MORE_LOOKS if in_one else 1))
            home[near] = ground.home(ground.steps.run(name, looks)).reshape(-1, len(near)).any(axis=0)
    return home


def _watch(
    ground: Ground, name: str, layout: Layout, writes: IoBatch, stop: Stop, plain_ns: int, seen: Watched
) -> bool:
    """Lets writes wait one after the other, and looks after each what was cleaned; whether that is enough."""
    done, number, rest = 0, 0, EMPTY_LOG
    while seen.stops < LARGEST_STOPS and seen.older_ns <= MOST_OLDER_NS:
        number, older = number + 1, seen.older
        if seen.enough or (layout.is_wide and seen.older and seen.is_band_seen):
            return True
        step, left = f"{name}-{number}", writes.part(done, len(writes))
        several = older and seen.at_once and not len(rest) and len(left) > OLDER_EACH
        logs = _waits(ground, step, left, stop, plain_ns, OLDER_EACH if several else 1)
        done, plain_ns = done + sum(map(len, logs)), usual(logs[0], plain_ns, stop.latency_ns)
        logs[0], rest = IoLog.joined([rest, logs[0]]), EMPTY_LOG
        if not stop.reached(logs[-1]):
            if not several or done == len(writes) or sum(map(len, logs)) < OLDER_EACH:
                seen.end(logs[-1])
                return False
            rest = logs.pop()  # waits no longer come at once
        for passed in logs[:-1]:
            seen.pass_by(passed, plain_ns)
        if seen.elsewhere:
            return True
        if logs and older and not several and number % OLDER_EACH != 1:
            seen.pass_by(logs[-1], plain_ns)
        elif logs:
            looked_ns, home, here = _looked(ground, step, layout, logs[-1], seen)
            seen.add(logs[-1], home, plain_ns, looked_ns)
            seen.gone[here[together(home[MARKS:])]] = True
    return True


def _waits(ground: Ground, step: str, writes: IoBatch, stop: Stop, plain_ns: int, each: int) -> list[IoLog]:
    """Writes up to the next that waits. Or as many as are asked for, parted behind those that wait; the last
    part may have none: of thousands that wait at once, steps of their own would take minutes of CPU."""
    params = {"plain_ns": plain_ns}
    if each == 1:
        return [ground.steps.run(step, writes, until=stop, params=params)]
    log = ground.steps.run(step, writes.part(0, each), params=params)
    ends = [0, *(np.flatnonzero(log.latency_ns >= stop.latency_ns) + 1).tolist(), len(log)]
    return [log.rows(slice(*part)) for part in pairwise(ends) if part[0] < part[1]] or [log]


def _looked(ground: Ground, step: str, layout: Layout, log: IoLog, seen: Watched) -> tuple[int, Bools, I64]:
    """Looks behind a write that waited: how long they took, ns, which of the marks and the next cells are
    home, and which cells these are. While older data is cleaned no mark is expected to be: a single look at
    each says so; else each is looked at as often as may be needed in one step."""
    older, looked_ns = seen.older, 0
    if older:
        quick = ground.lone.looks(layout.marks)
        log_of_marks = ground.steps.run(f"{step}-look-marks", quick)
        looked_ns, marks_home = log_of_marks.span_ns, ground.lone.home(log_of_marks)
        if np.count_nonzero(marks_home) <= max(seen.home, 0):
            return looked_ns, marks_home, np.zeros(0, np.int64)
    # What is not written yet lies at home.
    here = np.flatnonzero(~seen.gone & (layout.stretch.blocks < log.offset[-1]))
    here = here[: OLDER_AHEAD if older else LOOKED_AHEAD]
    again = MORE_LOOKS if older and not ground.flash else 0
    blocks = np.concatenate([layout.marks, layout.stretch.blocks[here], *[layout.marks] * again])
    looked = ground.steps.run(f"{step}-look", ground.looks(blocks))
    all_home = ground.home(looked)
    home = all_home[: MARKS + len(here)]
    if again:
        home[:MARKS] |= all_home[len(home) :].reshape(again, MARKS).any(axis=0)
    if not older:
        home[:MARKS] = _marks_home(ground, f"{step}-look", home[:MARKS], layout)
    beside = layout.stretch.blocks[here]
    home[MARKS:] = _near_home(ground, f"{step}-near", home[MARKS:], beside, in_one=older)
    return looked_ns + looked.span_ns, home, here


def together(home: Bools) -> Bools:
    """Cells at home next to another: a band has several, and one alone may be misread.

    >>> together(np.array([True, False, True, True, False])).tolist()
    [False, False, True, True, False]
    """
    beside = np.zeros_like(home)
    beside[1:] |= home[:-1]
    beside[:-1] |= home[1:]
    return np.asarray(home & beside, np.bool_)


@dataclass(frozen=True, slots=True)
class Stall:
    """A write that waited: how long (ns), marks that are home after it, cells that went home, bytes written
    in all up to it, whether anything was seen to be cleaned: one cell is too few to say so, and whether it
    was the first write. What only ends the writes of a part did not wait."""

    more_ns: float
    home: int
    cells: int
    written: int
    cleaned: bool
    at_once: bool = False
    waited: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """What a place showed: time for a band with one block, times for half-written bands (ns)."""

    one_ns: float
    half_ns: tuple[float, ...]

    @property
    def usual_half_ns(self) -> float:
        """The median, ns, or the lower of two: other clients of the disk only lengthen a wait."""
        return float(np.quantile(self.half_ns, 0.5, method="lower"))

    @property
    def sound(self) -> bool:
        """Whether a half-written band took about as long as one with a block, or longer."""
        low, high = SOUND
        return low <= self.usual_half_ns / self.one_ns <= high


@dataclass(slots=True)
class Watched:
    """The writes of an attempt that waited while something was cleaned, one after the other."""

    stalls: list[Stall] = field(default_factory=list)
    written: int = 0
    home: int = -1
    waits: bool = False
    """Whether writes waited in a row."""
    elsewhere_waits: bool = False
    """Whether some waited for a band, but none in a row as behind the marks: these lie in the zone before."""
    rose: int = 0
    """Stalls up to that behind which one more of the marks was home."""
    stops: int = 0
    """Stalls since the marks go home one after the other."""
    older_ns: int = 0
    """How long the writes and looks took while older data was cleaned."""
    gone: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which cells went home."""
    _counted: int = 0
    """Stalls that are counted among those with cells: it is asked behind each of thousands."""
    _later: int = 0
    _before: int = 0

    def add(self, log: IoLog, home: Bools, plain_ns: int, looked_ns: int = 0) -> None:
        """Writes up to one that waited, and which of the marks and the next cells are home after it, which
        took so long to see."""
        self.written += int(log.size.sum(dtype=np.uint64))
        marks = int(np.count_nonzero(home[:MARKS]))
        cells = int(np.count_nonzero(together(home[MARKS:])))
        if len(log):
            # Of marks that were home before all that was watched it is not known what brought them there.
            more = 0 < marks < MARKS if self.home < 0 else marks > self.home
            self._stall(log, marks, cells, plain_ns, cleaned=more or bool(cells))
        if self.older:
            self.older_ns += log.span_ns + looked_ns
        else:
            self.stops += 1
        if marks > max(self.home, 0):
            self.rose = len(self.stalls)
        self.home = max(self.home, marks)

    @property
    def older(self) -> bool:
        """Whether older data is cleaned: no mark is home, or none followed one that is. Those of a log go
        home one after the other; one alone had older data in its band, which is cleaned as a whole."""
        return self.home <= 0 or (self.home < MARKS and len(self.stalls) - self.rose > NEXT_MARK)

    @property
    def elsewhere(self) -> bool:
        """Whether waits no longer come at once, as they do while older data is cleaned, and no mark is home:
        these are in another zone."""
        last = self.stalls[-AT_ONCE_OF:] if self.home <= 0 else []
        return len(last) == AT_ONCE_OF and 2 * sum(stall.at_once for stall in last) < AT_ONCE_OF

    @property
    def at_once(self) -> bool:
        """Whether the last waits came at once."""
        last = self.stalls[-OLDER_EACH:]
        return len(last) == OLDER_EACH and all(stall.at_once for stall in last)

    def pass_by(self, log: IoLog, plain_ns: int) -> None:
        """Writes up to one that waited, behind which no look was made."""
        self.written += int(log.size.sum(dtype=np.uint64))
        self.older_ns += log.span_ns
        self._stall(log, max(self.home, 0), 0, plain_ns, cleaned=False)

    def _stall(self, log: IoLog, marks: int, cells: int, plain_ns: int, *, cleaned: bool) -> None:
        more_ns = float(log.latency_ns[-1]) - plain_ns
        self.stalls.append(Stall(more_ns, marks, cells, self.written, cleaned, len(log) == 1))

    def end(self, log: IoLog) -> None:
        """Writes of which none waited, up to the end of a part."""
        self.written += int(log.size.sum(dtype=np.uint64))
        if len(log):
            self.stalls.append(Stall(0.0, 0, 0, self.written, cleaned=False, waited=False))

    @property
    def _for_room(self) -> list[Stall]:
        """Those that waited for a log, and the end of a part. What they find cleaned that a look behind the
        one before did not show was cleaned then."""
        found: list[Stall] = []
        for stall in self.stalls:
            before = found[-1] if found else None
            at_once = stall.at_once or not stall.waited
            if before is None or at_once or stall.written - before.written >= LEAST_RUN:
                found.append(stall)
            elif stall.cleaned:
                cells, home = before.cells + stall.cells, max(before.home, stall.home)
                found[-1] = replace(before, home=home, cells=cells, cleaned=True)
        return found

    @property
    def _runs(self) -> list[int]:
        """Bytes written between two stalls, where a log was given back. What is plainly shorter than most
        of the long ones is no wait for a band, but other clients' delay, and parts what goes into a log."""
        waits = [stall for stall in self._for_room if stall.waited]
        more_ns = np.array([stall.more_ns for stall in waits])
        if len(more_ns):
            long_ns = more_ns[more_ns >= float(np.quantile(more_ns, LONG_QUANTILE)) / 2]
            least_ns = MORE_PART * float(np.median(long_ns))
            waits = [stall for stall in waits if stall.more_ns >= least_ns]
        runs = [after.written - stall.written for stall, after in pairwise(waits)]
        return [run for run in runs if run >= LEAST_RUN]

    @property
    def band(self) -> int | None:
        """Bytes of a log, which is a band; None if none was seen to be given back."""
        return round(float(np.median(self._runs))) if self._runs else None

    @property
    def is_band_seen(self) -> bool:
        """Whether most of the logs that were given back took what one of them did, to a write."""
        runs = np.array(self._runs)
        alike = np.abs(runs - np.median(runs)) <= FILL if len(runs) else runs
        return len(runs) >= FEWEST_RUNS and 2 * int(np.count_nonzero(alike)) > len(runs)

    @property
    def enough(self) -> bool:
        """Whether no more is to be learned: of the waits for half-written bands behind the single blocks
        there were enough, and before these several times as many, or all cells are home."""
        for stall in self.stalls[self._counted :]:
            self._later += stall.cells > 0 and stall.home == MARKS
            self._before += stall.cells > 0 and stall.home < MARKS
        self._counted = len(self.stalls)
        return self._later >= LATER_STALLS or self._before >= BEFORE_STALLS or bool(self.gone.all())

    def place(self) -> Place | None:
        """The times for a band, from the stalls after which writes went on without one for long."""
        one_ns, half_ns = 0.0, list[float]()
        for stall, after in pairwise(self._for_room):
            if after.written - stall.written < LEAST_RUN or not stall.cleaned:
                continue
            if stall.home == MARKS and not stall.cells and not one_ns:
                one_ns = stall.more_ns
            elif one_ns and stall.cells:
                half_ns.append(stall.more_ns)
        return Place(one_ns, tuple(half_ns)) if one_ns and half_ns else None
