"""A lazy drive with free bands in every zone: how long it cleans a band, seen in writes that wait.

Writes to a zone share its free bands, each a log. When none is left, a write waits for the band of the oldest
block to be cleaned, and if that gave no log back, for its own band too; so the last of several such writes
waits for the one band that makes a log empty. At three places the first log is given single blocks of a few
bands, and then one block over and over, which is dead as soon as the next comes. Every other 64 KiB of some
bands follows, and then more data until writes wait, for the bands with one block first, then for those that
are half written. Only writes that others follow without a wait are used.

Where a zone held something before, that is cleaned first: such stalls bring none of all this home, and do not
count. Where a volatile cache stays on, a FLUSH follows each write.

Nothing says where a zone ends, and a zone that ends amid all this does not tell. Then it is done again a
little further on, closer together if the first time showed how much a band is: what is written between two
waits that gave a log back.

Invariant: a stall counts only if looks find what it cleaned at home; a zone that ends amid all this is not
used.
Source: Skylight (FAST '15), section 3.1; docs/figures.md, "Drives" (a free band is a log for a zone's dirty
bands).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from skylight.evidence import I64, IoBatch, IoLog, Stop
from skylight.probe.cleaning import band_time, half_written_band
from skylight.probe.cleaning.half_written_band import Bools, Stretch
from skylight.probe.cleaning.journal import front
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

MARKS = 6
OVER, OVER_WRITES = 256 * KIB, 1060  # 265 MiB: more than a log
STRETCH, CELL = 2 * GIB, 2 * MIB
SMALL_BAND, SMALL_CELL = 16 * MIB, MIB
SHIFTS = (0.0, 1 / 24, 1 / 60, 1 / 12, 1 / 17)  # of the drive, from a place: attempts at it
BAND_SLACK, STRETCH_BANDS = 1.1, 9
FILL, MOST_FILLED = 960 * KIB, 60 * GIB  # each in a MiB of its own, off its start
FIRST_PIECE, ROW, ROW_NS = 32, 3, 30_000_000
ROW_CHANCE = 0.001  # of a row among all writes, if as many are delayed as were before
MORE_PART, LEAST_MORE_NS, MOST_MORE_NS = 0.3, 15e6, 50e6  # of what those in a row waited, beyond others
ONE_OF = 0.1
"""Of what those in a row waited, what one band takes at least, chosen: they wait for two, or for a few more
of older data. Other clients and outliers delay writes by more than `MOST_MORE_NS`, but hardly by seconds."""
LATER_STALLS, LARGEST_STOPS = 9, 120
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
    band: int | None = None
    for place in half_written_band.PLACES:
        for attempt in range(len(SHIFTS)):
            name = f"{ZONE}{place}-{attempt + 1}"
            ground.steps.reset(f"{name}-erase", slow=False)  # what is older is cleaned first, and not counted
            layout = Layout.at(ground.steps.size, place, attempt, band if attempt else None)
            seen = _place(ground, name, place, layout)
            found = seen.place()
            if found is not None and found.sound:
                places[place] = found
                break
            band = band or seen.band
        else:
            return  # the time for a band is the mean of all three


def _place(ground: Ground, name: str, place: int, layout: Layout) -> Watched:
    """One attempt: writes until some wait in a row, then watched ones until enough was seen."""
    steps, seen, waits, more_ns = ground.steps, Watched(), False, 0
    over = np.full(OVER_WRITES, layout.over, np.uint64)
    steps.run(f"{name}-marks", joined(ground.marks(layout.marks), IoBatch.writes(over, OVER)))
    for part, writes in enumerate(layout.parts(steps.size, ground.block, ground.copies), 1):
        if len(writes) <= FIRST_PIECE:
            break
        first = steps.run(f"{name}-{part}-first", writes.part(0, FIRST_PIECE))
        plain_ns, done = int(np.median(first.latency_ns)), FIRST_PIECE
        if not waits:
            done, waited = _filled(ground, f"{name}-{part}-fill", writes, plain_ns, {"place": place})
            waits = done < len(writes)
            more_ns = told_from(waited)
        step = f"{name}-stall-{part}"
        left, stop = writes.part(done, len(writes)), Stop(plain_ns + more_ns)
        if waits and _watch(ground, step, layout, left, stop, plain_ns, seen):
            break
    return seen


def _filled(
    ground: Ground, name: str, writes: IoBatch, plain_ns: int, params: dict[str, int]
) -> tuple[int, float]:
    """Writes, behind the first piece, up to a row that waits, and by how much longer than others these took
    (ns). Other clients that delay a tenth of all writes make rows too: these go by."""
    done, limit_ns, seen = FIRST_PIECE, plain_ns + ROW_NS, list[IoLog]()
    while done < len(writes):
        until = Stop(limit_ns, ROW, ROW)
        log = ground.steps.run(name, writes.part(done, len(writes)), until=until, params=params)
        done += len(log)
        seen.append(log)
        if not until.reached(log):
            break
        latency_ns = IoLog.joined(seen).latency_ns
        waited_ns, delay_ns = float(np.median(latency_ns[-ROW:])), delays_of(latency_ns[:-ROW])
        if waited_ns > delay_ns:
            return done, waited_ns - plain_ns
        limit_ns = max(limit_ns, round(delay_ns))
    return len(writes), 0.0


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


def _watch(
    ground: Ground, name: str, layout: Layout, writes: IoBatch, stop: Stop, plain_ns: int, seen: Watched
) -> bool:
    """Lets writes wait one after the other, and looks after each what was cleaned; whether that is enough."""
    steps, done = ground.steps, 0
    for number in range(1, LARGEST_STOPS + 1):
        ahead = layout.stretch.blocks[seen.gone :]
        if seen.later >= LATER_STALLS or len(ahead) == 0:
            return True
        step = f"{name}-{number}"
        log = steps.run(step, writes.part(done, len(writes)), until=stop, params={"plain_ns": plain_ns})
        done += len(log)
        if not stop.reached(log):
            seen.end(log)
            return False
        here = ahead[ahead < log.offset[-1]][:LOOKED_AHEAD]  # what is not written yet lies at home
        looked = steps.run(f"{step}-look", ground.looks(np.concatenate([layout.marks, here])))
        home = ground.home(looked)
        home[:MARKS] = _marks_home(ground, f"{step}-look", home[:MARKS], layout)
        seen.add(log, home, plain_ns)
    return True


@dataclass(frozen=True, slots=True)
class Stall:
    """A write that waited: how long (ns), marks that are home after it, cells that went home, bytes written
    in all up to it, and whether anything was seen to be cleaned: one cell is too few to say so. What only
    ends the writes of a part did not wait."""

    more_ns: float
    home: int
    cells: int
    written: int
    cleaned: bool
    waited: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """What a place showed: time for a band with one block, times for half-written bands (ns)."""

    one_ns: float
    half_ns: tuple[float, ...]

    @property
    def sound(self) -> bool:
        """Whether a half-written band took about as long as one with a block, or longer."""
        low, high = SOUND
        return low <= float(np.median(self.half_ns)) / self.one_ns <= high


@dataclass(slots=True)
class Watched:
    """The writes of an attempt that waited while something was cleaned, one after the other."""

    stalls: list[Stall] = field(default_factory=list)
    written: int = 0
    home: int = -1

    def add(self, log: IoLog, home: Bools, plain_ns: int) -> None:
        """Writes up to one that waited, and which of the marks and the next cells are home after it."""
        self.written += int(log.size.sum(dtype=np.uint64))
        marks, cells = int(np.count_nonzero(home[:MARKS])), front(home[MARKS:])
        if len(log):
            more_ns, cleaned = float(log.latency_ns[-1]) - plain_ns, bool(cells) or marks > self.home
            self.stalls.append(Stall(more_ns, marks, cells, self.written, cleaned))
        self.home = max(self.home, marks)

    def end(self, log: IoLog) -> None:
        """Writes of which none waited, up to the end of a part."""
        self.written += int(log.size.sum(dtype=np.uint64))
        if len(log):
            self.stalls.append(Stall(0.0, 0, 0, self.written, cleaned=False, waited=False))

    @property
    def _runs(self) -> list[int]:
        """Bytes written between two stalls, where a log was given back."""
        runs = [after.written - stall.written for stall, after in pairwise(self.stalls) if after.waited]
        return [run for run in runs if run >= LEAST_RUN]

    @property
    def band(self) -> int | None:
        """Bytes of a log, which is a band; None if none was seen to be given back."""
        return round(float(np.median(self._runs))) if self._runs else None

    @property
    def gone(self) -> int:
        """Cells that went home."""
        return sum(stall.cells for stall in self.stalls)

    @property
    def later(self) -> int:
        """Stalls for which cells went home."""
        return sum(stall.cells > 0 for stall in self.stalls)

    def place(self) -> Place | None:
        """The times for a band, from the stalls after which writes went on without one for long."""
        one_ns, half_ns = 0.0, list[float]()
        for stall, after in pairwise(self.stalls):
            if after.written - stall.written < LEAST_RUN or not stall.cleaned:
                continue
            if stall.home == MARKS and not stall.cells and not one_ns:
                one_ns = stall.more_ns
            elif one_ns and stall.cells:
                half_ns.append(stall.more_ns)
        return Place(one_ns, tuple(half_ns)) if one_ns and half_ns else None
