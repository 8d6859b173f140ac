"""How long a drive that cleans in idle time takes for a band of which every other 64 KiB was written.

At three places a stretch of several bands is written so, with commands queued. Then the drive is left alone
again and again, each time for its idle time and half of what a band with one block takes, so that at most
one band is finished, or longer where three in a row finish none; after each pause looks at one block of every
cell of the stretch (`skylight.infer.cached_or_native`) say what went home. What goes home at once is a band,
which gives its length here without any other test. A last, longer pause lets several bands be cleaned, and
the time from the first band that was finished to the last is divided by their number. Where the idle time is
not known well and that pause is short, or there is none, since the stretch has no more bands, it is written
again, and a single pause lets nearly all of its bands be cleaned. Where the stretch
begins or ends amid a band, that part of it is rewritten as a whole, which takes as long as with one block;
what is gathered for that is as much less as the part is. So it counts as that part of the time for a band.

Behind a volatile cache that ignores FLUSH the drive is left to write the stretch out by itself, in pauses too
short for cleaning to begin: a read around each write would bring it out alone, and what lies in many entries
takes longer to gather.

A cell is looked at by its first chunk, between two blocks that were never written. Of a lazy drive one of its
chunks is a lone block instead (`Stretch.writes`), which few others are looked at between. Where a track ends
amid what is looked at, looks say the same whatever becomes of the cell: those that look cached before they
are written, or home right behind that, are taken to go home with the nearest other cell. Bands of a few cells
would seem shorter otherwise, and the more so the shorter tracks are, and as much more of them cleaned.

Invariant: a stretch of which some is home before the first pause did not fit into the cache, and is halved.
What is written again may not fit although it did before, for a log holds less the more of it is dead: bands
that are home before the pause do not count as cleaned in it.
Source: Skylight (FAST '15), section 4.5, Figure 11 (a band half of which was rewritten).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U64, IoBatch, IoLog, Op
from skylight.infer import cached_or_native
from skylight.probe.cleaning.band_time import BEGUN, longest_band
from skylight.probe.cleaning.trials import (
    GIB,
    KIB,
    MIB,
    MORE_LOOKS,
    Ground,
    clear,
    copies_of,
    joined,
    look_again,
    without_first,
)
from skylight.probe.cleaning.unclear_cells import nearest_clear, unclear_of
from skylight.probe.destage_by_read import ReadAround
from skylight.probe.durable_writes import TELLING_TURNS
from skylight.probe.fua_writes import ForcedWrites

CHUNK = 64 * KIB
PLACES = (1, 3, 5)
SIXTHS = 6
MOST_STRETCH, STRETCH_BANDS, MOST_CELLS = 2 * GIB, 8, 512
SHORTEST_STRETCH, LEAST_CELL = 16 * MIB, 512 * KIB
DEPTH = 31
STEP_PART = 0.5
STEPS = 14
STEPPED, FEWEST_STEPPED = 3, 2
"""Bands finished one by one, of which some may be a part of one, and the fewest that show a time."""
IDLE_STEPS, LONGER = 3, 1.5
"""Pauses in a row without a band finished, after which each is to hold more work. Chosen: with half of a band
a pause two in a row finish one, and half as much again never finishes two where three finished none."""
LONG_BANDS, LEFT_BANDS, LEFT_PART = 12.0, 1.5, 0.7
MOST_AGAINST_ONE = 1.4  # times a band with one block, for how many a long pause is meant to clean
ANEW_PART = 0.04
"""Of the work of the last span, from how much error of the idle time on the stretch is written again: a
quarter of what is asked."""
FEWEST_ANEW, ENOUGH_ANEW, ATTEMPTS_ANEW, LESS_ANEW = 3, 3, 3, 0.7
"""Bands that a stretch has then, parts included; how many have to be cleaned, in how many pauses at most; and
how much less work the next is to hold if all were clean. Chosen: three bands are known to a tenth."""
LEFT_ANEW = (1.5, 1.15, 1.85)
"""Bands that should not be finished, at one place and the next: so the one in progress at the end has got as
far as chance has it, and not equally far everywhere."""
EVEN = 0.8
"""How well the ends of bands agree with bands of one length, of 1. Chosen: a few misread cells of ten."""
FEW_HOME, SOME_PART, WHOLE_PART = 0.06, 0.15, 0.9
"""Of the cells of a stretch, or of a band, how many home at once are misread; and of the most that went home
at once, from how many on it is a part of a band, and a whole one but for a misread cell. Chosen."""
LENGTH_TO = 0.35  # of a cell: how well the mean length of a few bands is known
WORTH_ROUNDS = 3
"""How often what parts of bands took is taken from the time for a whole one, and that from these. Chosen: the
third changes it by less than 1 % where a whole one takes twice as long as one with a block."""
FEWEST_CELLS = 3  # that one look hides or feigns
OUT_PAUSE, OUT_PAUSE_S, MOST_OUT_PAUSES = 0.4, 2.0, 256
"""Of the idle time a pause in which a volatile cache is written out, seconds at most, and how many at most:
256 MiB in 100 s are 2.7 MB/s, less than a disk writes in entries. Chosen."""
FLASH_OUT_PAUSES = 32
"""How many where it is written out to flash, from which reads come as soon as from memory. Chosen: 256 MiB in
a minute are 4 MB/s, less than any flash writes."""
LAST_OUT = 4
"""So many of the newest writes are looked at; one that is out passes right then in a fifth of cases."""
HALF = "half-"
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch: first byte, bytes, bytes of a cell."""

    start: int
    length: int
    cell: int

    def writes(self, block: int, copies: int = 1) -> IoBatch:
        """Every other chunk, from the second on; in each cell one is a mark, which may go on behind it."""
        at = np.arange(CHUNK, self.length, 2 * CHUNK, dtype=np.uint64)
        size = np.full(len(at), CHUNK, np.uint32)
        lone = at % np.uint64(self.cell) == CHUNK
        others = IoBatch(
            np.full(int(np.count_nonzero(~lone)), int(Op.WRITE), np.uint8),
            at[~lone] + np.uint64(self.start),
            size[~lone],
        )
        marks = IoBatch.writes(copies_of(self.blocks, block, copies), block)
        both = joined(others, marks)
        order = np.argsort(both.offset, kind="stable")
        return IoBatch(both.op[order], both.offset[order], both.size[order])

    @property
    def chunks(self) -> U64:
        """Every other chunk, from the second on."""
        return np.arange(CHUNK, self.length, 2 * CHUNK, dtype=np.uint64) + np.uint64(self.start)

    @property
    def firsts(self) -> U64:
        """The first of the chunks of each cell."""
        return self.chunks[:: self.cell // (2 * CHUNK)]

    @property
    def blocks(self) -> U64:
        """The lone block of each cell."""
        first = np.arange(0, self.length, self.cell, dtype=np.uint64)
        return first + np.uint64(self.start + CHUNK + CHUNK // 2)

    @staticmethod
    def at(ground: Ground, place: int, band_s: float, shorter: int) -> Stretch:
        """The stretch at a place on a drive that takes `band_s` for a band with one block, halved `shorter`
        times."""
        size, speed = ground.steps.size, float(np.mean(ground.bytes_a_second))
        wanted = STRETCH_BANDS * longest_band(ground, band_s, speed)
        length = max((min(MOST_STRETCH, wanted, size // 16) >> shorter) // MIB, 1) * MIB
        cell = max(-(-length // MOST_CELLS // LEAST_CELL), 1) * LEAST_CELL
        start = place * (size // SIXTHS) // (64 * MIB) * (64 * MIB)
        return Stretch(start, length // cell * cell, cell)


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which bands were cleaned: s, bands, in how many pauses, and whether it begins with a band and
    not where another span ends."""

    work_s: float
    bands: float
    pauses: int
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Cells that went home at once: in which pause, how many, the first and the last of them, whether they
    are all of what lies between, and whether they touch an end of the stretch."""

    pause: int
    cells: int
    first: int
    last: int
    in_a_row: bool
    at_end: bool


def bands_of(spans: list[Span]) -> int:
    """Bands that were finished in these times."""
    return int(sum(each.bands for each in spans))


@dataclass(slots=True)
class Progress:
    """How cleaning went on at a place: after each pause the time that it worked so far (s) and which cells
    looked home; what divides looks there, ns, if it is not that of the drive; the last pause may be a long
    one."""

    cell: int
    flash: bool
    work_s: list[float]
    looked: list[Bools]
    limit_ns: float | None = None
    long: bool = False
    anew: list[Span] = field(default_factory=list)
    unclear: Bools | None = None
    """Cells that looks misread (`unclear_of`)."""
    one_s: float = 0.0
    """What a band with one block takes, s; 0 where that is not known."""

    def add(self, work_s: float, looked: Bools, *, long: bool = False) -> None:
        """One more pause."""
        self.work_s.append(self.work_s[-1] + work_s)
        self.looked.append(looked)
        self.long = long

    @property
    def home(self) -> NDArray[np.bool_]:
        """Which cells are home after each pause. What is home stays home: a slow look hides that once where
        the cache is on the disk, and feigns it once where it is flash."""
        looked = np.array(self.looked)
        if self.flash:
            home = np.logical_and.accumulate(looked[::-1])[::-1]
        else:
            home = np.logical_or.accumulate(looked)
        if self.unclear is not None:
            home = home[:, nearest_clear(self.unclear)]
        return np.asarray(home, np.bool_)

    @property
    def more(self) -> list[int]:
        """Cells that went home in each pause."""
        home = self.home
        return [int(cells) for cells in np.count_nonzero(home[1:] & ~home[:-1], axis=1)]

    @property
    def finished(self) -> list[tuple[int, int]]:
        """The short pauses, counted from 1, in which a band or a part of one was finished, and how many cells
        it has."""
        return [(part.pause, part.cells) for part in self.parts]

    @property
    def parts(self) -> list[Part]:
        """The same, and where they lie. A few in a row at an end of the stretch are a part of a band too. The
        rest of a band that shows a pause later, since some looks were late, is of that band; but two as long
        as each other, side by side, are two bands, as where longer ones end and shorter ones begin."""
        short = self.more[: len(self.more) - self.long]
        most = max(short, default=0)
        found: list[Part] = []
        for number, cells in enumerate(short, 1):
            if cells <= FEWEST_CELLS:
                continue
            part = self._part(number, cells)
            if cells <= SOME_PART * most and not (part.in_a_row and part.at_end):
                continue
            if found and self._is_rest(part, found[-1], most):
                found[-1] = replace(found[-1], cells=found[-1].cells + cells, in_a_row=False)
            else:
                found.append(part)
        return found

    @staticmethod
    def _is_rest(part: Part, before: Part, most: int) -> bool:
        """Whether cells that went home are the rest of the band that went home a pause before."""
        apart = part.in_a_row and before.in_a_row and (part.first > before.last or part.last < before.first)
        alike = min(part.cells, before.cells) + 1 >= WHOLE_PART * max(part.cells, before.cells)
        follows = before.pause == part.pause - 1 and before.cells + part.cells <= most + 1
        return follows and not (apart and alike)

    def _part(self, number: int, cells: int) -> Part:
        home = self.home
        went = np.flatnonzero(home[number] & ~home[number - 1])
        few = max(FEWEST_CELLS, math.ceil(FEW_HOME * cells))
        strays = [(left, right) for left in range(few) for right in range(few - left)]
        first, last = min(
            ((int(went[left]), int(went[-1 - right])) for left, right in strays),
            key=lambda ends: ends[1] - ends[0] - 2 * np.count_nonzero((went >= ends[0]) & (went <= ends[1])),
        )
        at_end = first < FEWEST_CELLS or last >= home.shape[1] - FEWEST_CELLS
        return Part(number, cells, first, last, last - first < cells + few, at_end)

    @property
    def band_bytes(self) -> int:
        """Length of a band, from those that were finished one by one; 0 if none but the first was whole. The
        first may be longer than the others, for bands shrink towards the inner diameter."""
        first, *others = [cells for _, cells in self.finished] or [0]
        last = max(others, default=0)
        whole = [cells for cells in others if cells + 1 >= WHOLE_PART * last]
        if abs(first - last) <= max((1 - WHOLE_PART) * last, 1):
            whole.append(first)
        elif first > last and len(whole) < 2:
            whole = []
        cells = whole or self._amid()
        return round(float(np.mean(cells)) * self.cell) if cells else 0

    def _amid(self) -> list[int]:
        """Cells of each band that was finished amid the stretch, if those are alike and what was finished
        besides are parts at its ends, in whatever order."""
        parts = self.parts
        amid = [part.cells for part in parts if not part.at_end]
        at_ends = [part.cells for part in parts if part.at_end]
        alike = max(amid, default=0) - min(amid, default=0) <= max((1 - WHOLE_PART) * max(amid, default=0), 1)
        fit = max(at_ends, default=0) <= max(amid, default=0) + 1
        return amid if alike and fit and all(part.in_a_row for part in parts) else []

    @property
    def _two_ends(self) -> bool:
        """Whether the stretch was two parts of bands that meet within it."""
        parts = sorted(self.parts, key=lambda part: part.first)
        whole = sum(part.cells for part in parts) >= self.home.shape[1] - FEWEST_CELLS
        return len(parts) == 2 and whole and all(part.in_a_row and part.at_end for part in parts)

    @property
    def bands(self) -> list[tuple[int, int]]:
        """The first cell of each band, or part of one, in the stretch, and the first behind it, as the ends
        of those that were finished say; none where these do not agree."""
        each, cells = self.band_bytes / self.cell, self.home.shape[1]
        parts = [part for part in self.parts if part.in_a_row]
        ends = [end for part in parts for end in (part.first, part.last + 1) if 0 < end < cells]
        ends = [end for end in ends if FEWEST_CELLS <= end <= cells - FEWEST_CELLS]
        if not ends or each < 2 * FEWEST_CELLS:
            return []
        angles = np.exp(2j * np.pi * np.array(ends) / each)
        if abs(np.mean(angles)) < EVEN:
            return []
        begin = float(np.angle(np.mean(angles)) / (2 * np.pi) * each) % each
        inside = np.round(np.arange(begin, cells, each)).astype(int)
        bounds = [0, *(int(at) for at in inside if FEWEST_CELLS < at < cells - FEWEST_CELLS), cells]
        return list(pairwise(bounds))

    def count(self, home: Bools) -> int:
        """Bands, or parts of one, of which most cells are home."""
        return sum(int(2 * np.count_nonzero(home[first:end]) > end - first) for first, end in self.bands)

    def finished_since(self, before: Bools, home: Bools, half_s: float) -> float:
        """Bands of which most cells are home now and some were not before, a part of one as what it takes of
        the time for a whole one."""
        worth = 0.0
        for first, end in self.bands:
            began, ended = before[first:end], home[first:end]
            if not self._is_clean(began) and 2 * np.count_nonzero(ended) > end - first:
                worth += self._worth(int(np.count_nonzero(ended & ~began)), half_s)
        return worth

    def _worth(self, cells: int, half_s: float) -> float:
        """What a part of a band with this number of cells takes of the time for a whole one, `half_s`: it is
        rewritten as a whole, which takes as long as with one block, and what was written is gathered."""
        share = min(cells * self.cell / self.band_bytes, 1.0) if self.band_bytes else 1.0
        rewritten = min(self.one_s / half_s, 1.0) if self.one_s > 0 else 1.0
        return rewritten + (1.0 - rewritten) * share

    @staticmethod
    def _is_clean(home: Bools) -> bool:
        """Whether nothing of a band is left to clean but what looks misread."""
        return bool(np.count_nonzero(~home) <= min(FEWEST_CELLS, SOME_PART * len(home)))

    def whole(self, home: Bools) -> int:
        """Bands, or parts of one, of which nothing is left to clean but what looks misread."""
        return sum(self._is_clean(home[first:end]) for first, end in self.bands)

    def spans(self) -> list[Span]:
        """From the first band that was finished to the last, and from that to the end of a long pause unless
        all were clean before that ended; none if too few bands were finished."""
        finished = self.finished
        if len(finished) < FEWEST_STEPPED or not (self.band_bytes or self._two_ends):
            return []
        first, last = finished[0][0], finished[-1][0]
        begun_s, last_s = ((self.work_s[at - 1] + self.work_s[at]) / 2 for at in (first, last))
        stepped = Span(last_s - begun_s, self._stepped(last_s - begun_s), last - first)
        clean = np.count_nonzero(~self.home[-1]) * self.cell < self.band_bytes / 2
        if not self.long or clean:
            return [stepped, *self.anew]  # when all was clean in a long pause is not known
        # What is left over of whole bands is a part of one, which took as long.
        more = self.more[-1] * self.cell / self.band_bytes
        bands = math.ceil(more - SOME_PART - more * LENGTH_TO * self.cell / self.band_bytes)
        long = Span(self.work_s[-1] - last_s, bands + BEGUN, len(self.work_s) - 1 - last)
        return [stepped, long, *self.anew]

    def _stepped(self, work_s: float) -> float:
        """Bands that were finished one by one behind the first, in so much work, parts as what they took."""
        cells, worth = [cells for _, cells in self.finished[1:]], float(len(self.finished) - 1)
        for _ in range(WORTH_ROUNDS):
            worth = sum(self._worth(each, work_s / worth) for each in cells)
        return worth

    def band_s(self) -> tuple[float, int] | None:
        """Time for a band, s, and the number of bands it is from."""
        spans = self.spans()
        if not spans:
            return None
        return sum(each.work_s for each in spans) / sum(each.bands for each in spans), bands_of(spans)


def measure(ground: Ground, idle_s: float, apart_s: float, one_s: float, seen: dict[int, Progress]) -> None:
    """Writes and watches a stretch at each place, for an idle time known to `apart_s`; puts how cleaning went
    on there into `seen`."""
    for place in PLACES:
        stretch, ground = _place(ground, place, idle_s, one_s, seen)
        spans = [] if stretch is None else seen[place].spans()
        if stretch is not None and spans and apart_s * spans[-1].pauses > ANEW_PART * spans[-1].work_s:
            _anew(ground, place, stretch, seen[place], idle_s, one_s)


def _place(
    ground: Ground, place: int, idle_s: float, one_s: float, seen: dict[int, Progress]
) -> tuple[Stretch | None, Ground]:
    """The stretch that was watched, None if none fitted into the cache; and the ground. Of a flash cache more
    looks at new cells may say that they are home than are misread: where most of these do not when they are
    looked at again, others use the drive."""
    steps = ground.steps
    for shorter in range(5):
        stretch = Stretch.at(ground, place, one_s, shorter)
        if stretch.length < SHORTEST_STRETCH:
            return None, ground
        name = f"{HALF}{place}-{shorter + 1}"
        clear(ground, name, 2 * idle_s + 4 * STRETCH_BANDS * one_s)
        before = _before(ground, name, stretch)
        write(ground, name, IoBatch.writes(stretch.chunks, CHUNK), idle_s)
        params = {"cell": stretch.cell, "place": place}
        log = steps.run(f"{name}-look-0", _looks(ground, stretch), params=params)
        cached_ns = _looked_ns(ground, log)
        limit_ns = cached_or_native.limit_of(ground.rotation_ns, flash=ground.flash, cached_ns=cached_ns)
        again, divided_ns = f"{name}-look-again", limit_ns if ground.flash else None
        home = _home(ground, again, stretch, log, divided_ns)
        if ground.flash and not ground.noisy and _many(home):
            home = _home(replace(ground, noisy=True), again, stretch, log, divided_ns)
            ground = replace(ground, noisy=not _many(home))
        unclear = None if before is None else unclear_of(before, home)
        seen[place] = Progress(
            stretch.cell, ground.flash, [0.0], [home], limit_ns, unclear=unclear, one_s=one_s
        )
        if not _many(home):
            _watch(ground, name, stretch, seen[place], idle_s, one_s)
            return stretch, ground
    return None, ground


def _before(ground: Ground, name: str, stretch: Stretch) -> Bools | None:
    """Which cells look home before they are written; None where the cache is flash, for a look at what lies
    there does not go on from track to track."""
    if ground.flash:
        return None
    log = ground.steps.run(f"{name}-before", _looks(ground, stretch))
    return _home(ground, f"{name}-before-again", stretch, log)


def _many(home: Bools) -> bool:
    """Whether more cells look home than are misread."""
    return int(np.count_nonzero(home)) > FEW_HOME * len(home)


def write(ground: Ground, name: str, writes: IoBatch, idle_s: float = np.inf) -> None:
    """Writes a stretch and leaves none of it in a volatile cache, on a drive that begins to clean after so
    much idle time."""
    steps = ground.steps
    flush = IoBatch.make(Op.FLUSH, [0], 0)
    if isinstance(steps, ForcedWrites):  # of these few wait together where the queue is short
        log = steps.plain.run(f"{name}-write", writes, depth=DEPTH)
        _written_out(ground, name, log, idle_s)
    elif isinstance(steps, ReadAround):
        log = steps.run(f"{name}-write", writes, depth=DEPTH)
        _written_out(ground, name, log, idle_s)
        steps.run(f"{name}-flush", flush, depth=DEPTH)
    else:
        steps.run(f"{name}-write", joined(writes, flush), depth=DEPTH)


def _written_out(ground: Ground, name: str, log: IoLog, idle_s: float) -> None:
    """Waits until what was written last is read from the platters, and no longer from a volatile cache, as it
    is right behind the writes. Each time another block of each chunk is read, the last first, for a drive
    keeps what it read and reads ahead. Where the persistent cache is flash, no read shows it."""
    if ground.flash:
        for _ in range(FLASH_OUT_PAUSES):
            ground.steps.run(f"{name}-last", IoBatch.reads(log.offset[-1:], ground.block))
            ground.steps.pause(f"{name}-out", min(OUT_PAUSE * idle_s, OUT_PAUSE_S))
        return
    last = log.offset[log.size == CHUNK][-LAST_OUT:]
    blocks, limit_ns = CHUNK // ground.block, 0.0
    for number in range(MOST_OUT_PAUSES if len(last) == LAST_OUT else 0):
        at = last + np.uint64((blocks - 1 - number % blocks) * ground.block)
        took_ns = ground.steps.run(f"{name}-last", IoBatch.reads(at, ground.block)).latency_ns
        limit_ns = limit_ns or float(took_ns.min()) + TELLING_TURNS * ground.rotation_ns
        if np.count_nonzero(took_ns > limit_ns) >= LAST_OUT - 1:
            return
        ground.steps.pause(f"{name}-out", min(OUT_PAUSE * idle_s, OUT_PAUSE_S))


def _watch(
    ground: Ground, name: str, stretch: Stretch, progress: Progress, idle_s: float, one_s: float
) -> None:
    work_s = STEP_PART * one_s
    for number in range(1, STEPS + 1):
        _pause(ground, f"{name}-{number}", stretch, progress, idle_s, work_s)
        if len(progress.finished) == STEPPED or np.count_nonzero(~progress.home[-1]) <= FEWEST_CELLS:
            break
        if number - max((at for at, _ in progress.finished), default=0) >= IDLE_STEPS:
            work_s *= LONGER  # the idle time is longer than thought, and these pauses hold less work
    seen = progress.band_s()
    if seen is None or not progress.band_bytes:
        return
    left = np.count_nonzero(~progress.home[-1]) * stretch.cell / progress.band_bytes - LEFT_BANDS
    bands = min(LONG_BANDS, LEFT_PART * left)
    if bands >= 1.0:
        each_s = min(seen[0], MOST_AGAINST_ONE * one_s)
        _pause(ground, f"{name}-long", stretch, progress, idle_s, bands * each_s)


def _anew(
    ground: Ground, place: int, stretch: Stretch, progress: Progress, idle_s: float, one_s: float
) -> None:
    """Writes the stretch again and lets most of its bands be cleaned in one pause; once more if these are
    few."""
    steps, bands, timed = ground.steps, len(progress.bands), progress.band_s()
    if bands < FEWEST_ANEW or timed is None:
        return
    each_s = min(timed[0], MOST_AGAINST_ONE * one_s)
    for number in range(1, ATTEMPTS_ANEW + 1):
        name = f"{HALF}{place}-anew-{number}"
        left = LEFT_ANEW[(PLACES.index(place) + len(progress.anew)) % len(LEFT_ANEW)]
        clear(ground, name, 2 * idle_s + 4 * STRETCH_BANDS * one_s)
        write(ground, name, IoBatch.writes(stretch.chunks, CHUNK), idle_s)
        log, again = steps.run(f"{name}-look-0", _looks(ground, stretch)), f"{name}-look-again"
        began = _home(ground, again, stretch, log, progress.limit_ns)
        once = Progress(
            stretch.cell, ground.flash, [0.0], [began], progress.limit_ns, unclear=progress.unclear
        )
        before = progress.whole(once.home[0])
        if before + left >= bands:
            continue
        _pause(ground, name, stretch, once, idle_s, (bands - before - left) * each_s)
        cleaned = progress.count(once.home[-1]) - before
        if 0 < cleaned < bands - before:
            worth = progress.finished_since(once.home[0], once.home[-1], timed[0])
            progress.anew.append(Span(once.work_s[-1], worth + BEGUN, 1, anew=True))
        else:
            each_s *= LESS_ANEW if cleaned else LONGER
        if bands_of(progress.anew) >= ENOUGH_ANEW:
            return


def _pause(
    ground: Ground, name: str, stretch: Stretch, progress: Progress, idle_s: float, work_s: float
) -> None:
    steps = ground.steps
    anchor = stretch.start + stretch.length + 8 * MIB
    steps.run(f"{name}-anchor", IoBatch.reads([anchor], ground.block))
    pause_s = idle_s + work_s
    steps.pause(f"{name}-pause", pause_s)
    look = joined(IoBatch.reads([anchor - 16 * KIB], ground.block), _looks(ground, stretch))
    log = steps.run(f"{name}-look", look, params={"pause_s": pause_s, "idle_s": idle_s})
    waited_s = max(0.0, float(log.latency_ns[0]) - ground.rotation_ns / 2) / 1e9
    home = _home(ground, f"{name}-look-again", stretch, without_first(log), progress.limit_ns)
    progress.add(pause_s - idle_s + waited_s, home, long=name.endswith("-long"))


def _looks(ground: Ground, stretch: Stretch) -> IoBatch:
    """Looks at a chunk of each cell."""
    return cached_or_native.looks(
        stretch.firsts,
        ground.block,
        flash=ground.flash,
        backwards=ground.backwards,
        count=CHUNK // ground.block,
    )


def _looked_ns(ground: Ground, log: IoLog) -> I64:
    """What looks at cells took, ns. Each takes as much longer than one at a block as a chunk takes to pass,
    wherever it lies."""
    passing_ns = round(CHUNK * 1e9 / float(np.mean(ground.bytes_a_second)))
    return np.asarray(cached_or_native.look_ns(log) - passing_ns, np.int64)


def _home(ground: Ground, again: str, stretch: Stretch, log: IoLog, limit_ns: float | None = None) -> Bools:
    """Which cells are home; on a drive that others use they are looked at again."""

    def home(looked: IoLog) -> Bools:
        return cached_or_native.at_home(
            _looked_ns(ground, looked), ground.rotation_ns, flash=ground.flash, limit_ns=limit_ns
        )

    def look() -> Bools:
        return home(ground.steps.run(again, _looks(ground, stretch)))

    return look_again(home(log), MORE_LOOKS if ground.noisy else 0, look, flash=ground.flash)
