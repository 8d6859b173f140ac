"""Bands of a drive that cleans one band at a time, oldest or newest write first: a journaled cache.

Nine bands, three near each of the first, the middle and the last address, are made the first that cleaning
turns to: a block in each is written before everything else, and one after everything else; and most is
written to them, for a drive that cleans the fullest band first. Between them lie decoys, in bands far away,
which are cleaned next, and a grid of blocks around each of the nine. Then cleaning is made to run: the drive
is left alone, or, if it is lazy, filled until writes stall. The blocks of the grid that were cleaned are of
the nine bands; if others were as well, the order cannot be steered (`random_order`).

Twice: with a grid of 8 MiB over more than a band to both sides, and with one of 1 MiB about the edges found.
Where readings of the wide grid were so wrong that an edge lies outside the narrow one, and too few bands are
left at that place, those are looked at once more, with a grid of 1 MiB where the narrow one says.

Invariants: what is written between two readings stays below what the smallest caches hold (some 2,500
blocks); regions of the grid lie far enough apart that a band lies between any two of the nine.
Source: Skylight (FAST '15), section 4.7, Test 9, and section 4.5.1, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64, IoBatch, Stop
from skylight.findings import Known
from skylight.infer.stalls import SLOW
from skylight.probe.band_size import cleaned_or_cached
from skylight.probe.band_size.cache_parts import DEPTH, spread
from skylight.probe.band_size.cleaned_or_cached import BLOCK, Fresh
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

MIB = 1 << 20
APART, REACH, COARSE = 600 * MIB, 296 * MIB, 8 * MIB
LARGEST_BAND = 256 * MIB
MARGIN, OVERLAP = 10 * MIB, 2 * MIB
WIDER, MOST_AGAIN_POINTS, MOST_RESTS = 4 * COARSE, 600, 3
COARSE_COPIES, FINE_COPIES = 2, 3
FEWEST_DECOYS, MOST_DECOYS, DECOY_UNIT = 60, 400, 64 * MIB
MUCH_AFTER, MUCH = 128 << 10, 768 << 10  # behind copies and partner, within the megabyte
SPARE_DECOYS = 64
DECOY_BYTES, MOST_DECOYS_SHARE = 256 << 10, 0.25
LEAST_BYTES = 8 << 30

FIRST_PAUSE_S, LONGEST_PAUSES_S, GROWTH = 1.0, 700.0, 1.7
START_SLACK, SLACK_GROWTH = 1.1, 1.1  # the start of cleaning is known to 20 %
USUAL_BAND_NS = 0.5e9
LEAST_WEIGHT = 3.0  # of a band's own block, all copies together
MOST_CLEANED = 0.75  # share of the nine bands that is waited for: a reading may be an outlier
LEAST_CLEANED = 0.3  # three of the nine: no reading of two is an outlier so often

FILL_SHARE, LEAST_FILL, MOST_FILL = 256, 64 << 10, 8 << 20
FILL_DECOYS, MOST_FILL_WRITES = 16, 2_000_000
STOPPED = 3
PUSH_WRITES, MOST_PUSHES = FILL_DECOYS // 2, 64
"""Writes at a time, so few that the large decoys behind the bands are not all cleaned too, and how often: a
quarter more than the cache holds."""
FULL_BANDS = 2.0
"""Bands that each large decoy waits for at least where the cache was full before. Chosen: what waits for none
takes less than one, and a place that holds a single block costs a band."""
LONG_WAIT_NS, SLOWEST_BYTES_A_SECOND = 1_000_000_000, 4e6
"""The same where it is not known how long a band takes: as long as no write takes for its place and its data.
Chosen: a third of what the slowest disks write at their inner diameter."""
LONGEST_PUSH_S = 7_200.0
"""Chosen: a quarter of what a test may take, for a band is looked for twice or more."""
MOST_PUSHED = 512  # writes between two looks whether older data has gone
LONGEST_FILL_S = 21_600.0
"""Device time in which that has to go. Chosen: three quarters of what a test may take."""
MISREAD = 0.06  # share of cached blocks that may look native


@dataclass(frozen=True, slots=True)
class Band:
    """A band that was cleaned: where it begins and ends (bytes), and by how much the likelier at its"
    " edges."""

    place: str
    low: int
    high: int
    margin: float

    @property
    def size(self) -> int:
        """Bytes."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Region:
    """A grid of points around the block `first`."""

    place: str
    first: int
    points: I64


def firsts(size: int) -> list[tuple[str, int]]:
    """The nine blocks: at each place the one itself and two near it; the last address' own band may be cut
    off, so it is three before."""
    end, middle = size // MIB * MIB, size // 2 // MIB * MIB
    return [
        *(("od", place * APART) for place in range(3)),
        *(("md", middle + side * APART) for side in (-1, 0, 1)),
        *(("id", end - APART // 2 - place * APART) for place in (2, 1, 0)),
    ]


def coarse_regions(size: int) -> list[Region]:
    """Wide grids."""
    steps = np.arange(-REACH, REACH + 1, COARSE)
    regions = []
    for place, first in firsts(size):
        points = first + steps
        regions.append(Region(place, first, points[(points >= 0) & (points + MIB <= size)]))
    return regions


def fine_region(region: Region, low: int, high: int, size: int) -> Region:
    """A narrow grid about the edges that a wide one found: the first and last point that were cleaned."""
    below = np.arange(low - MARGIN, low + OVERLAP + 1, MIB)
    above = np.arange(high - OVERLAP, high + MARGIN + 1, MIB)
    points = np.unique(np.concatenate([below, [region.first], above]))
    return Region(region.place, region.first, points[(points >= 0) & (points + MIB <= size)])


def again_region(region: Region, weight: F64, size: int) -> Region:
    """A narrow grid where an edge has to lie by what a narrow grid said that misses it."""
    low, high = cleaned_or_cached.stretch(weight, _index(region))
    first, last = region.points[low], region.points[high - 1]
    below = region.points[low - 1] if low > 0 else first - WIDER
    above = region.points[high] if high < len(weight) else last + WIDER
    points: list[I64] = [
        np.arange(min(below, first - OVERLAP), first + OVERLAP + 1, MIB),
        np.array([region.first], np.int64),
        np.arange(last - OVERLAP, max(above, last + OVERLAP) + 1, MIB),
    ]
    every = np.unique(np.concatenate(points))
    return Region(region.place, region.first, every[(every >= 0) & (every + MIB <= size)])


class Round:
    """One time through: what was cleaned, for each region."""

    def __init__(self, steps: Steps, name: str, regions: list[Region], copies: int) -> None:
        """`name` begins the names of its steps."""
        self._steps = steps
        self._name = name
        self._regions = regions
        self._copies = copies
        self._blocks = [cleaned_or_cached.copies(region.points, copies) for region in regions]
        self._grid = np.concatenate(self._blocks)
        self._firsts = np.array([region.first for region in regions], np.int64)
        rotation_ns = steps.known.number("rotation_ns")
        self._turn_ns = rotation_ns

    def _read(self, what: str, only: I64 | None = None) -> list[F64]:
        chosen = self._grid if only is None else self._grid[only]
        return cleaned_or_cached.read_enough(self._steps, f"{self._name}-{what}", chosen)

    def _middle(self, readings: list[F64]) -> F64:
        return cleaned_or_cached.middle_of(readings, self._turn_ns)

    def _fresh(self) -> tuple[Fresh, Fresh] | None:
        """Where blocks lie natively, as enough readings say, and as one does for the nine. Blocks that two
        readings leave open, because the host came between, are read once more. None where they move: the
        drive still cleans."""
        readings = self._read("fresh"), self._read("fresh-again")
        one, again = (self._middle(each) for each in readings)
        open_at = cleaned_or_cached.unsettled(one, again, self._turn_ns)
        if len(open_at):
            third = self._middle(self._read("fresh-open", open_at))
            if cleaned_or_cached.have_moved(one[open_at], again[open_at], third, self._turn_ns):
                return None
            one[open_at], again[open_at] = cleaned_or_cached.nearest_two(
                one[open_at], again[open_at], third, self._turn_ns
            )
        fresh = replace(Fresh.of(one, again, self._turn_ns), astray=len(open_at) / (2 * len(one)))
        own = np.flatnonzero(np.isin(self._grid, self._firsts))
        noise_ns = Fresh.of(readings[0][0], readings[1][0], self._turn_ns).noise_ns
        return fresh, replace(fresh, delay_ns=fresh.delay_ns[own], noise_ns=noise_ns)

    def run(self) -> list[F64] | None:
        """The weight of each point of each region; None if cleaning could not be made to run."""
        steps, name = self._steps, self._name
        lazy = steps.known.word("cleaning_type") == "lazy"
        state = steps.reset(f"{name}-erase", slow=not lazy or outlasts_test(steps.known))
        if state is State.UNKNOWN and not lazy:
            return None
        if (settled := self._fresh()) is None:
            return None
        fresh, before = settled
        steps.run(f"{name}-first", IoBatch.writes(self._firsts, BLOCK))
        if not lazy:  # for a drive that prefers bands with much in the cache
            steps.run(f"{name}-much", IoBatch.writes(self._firsts + MUCH_AFTER, MUCH))
        filler = Filler(steps, name, self._regions) if lazy else None
        count = self._decoys()
        size = BLOCK if lazy else self._decoy_bytes(count)
        decoys = spread(steps.size, 2 * count + SPARE_DECOYS, DECOY_UNIT, phase=0.3)
        near = np.abs(decoys.astype(np.int64)[:, None] - self._firsts).min(axis=1) < APART
        decoys = decoys[~near][: 2 * count]
        if filler is not None:
            filler.decoys()
        steps.run(f"{name}-decoys", IoBatch.writes(decoys[:count], size), depth=DEPTH)
        rest = steps.rng(name).permutation(self._grid[~np.isin(self._grid, self._firsts)])
        steps.run(f"{name}-grid", IoBatch.writes(rest, BLOCK), depth=DEPTH)
        steps.run(f"{name}-decoys", IoBatch.writes(decoys[count:], size), depth=DEPTH)
        if filler is not None:
            if not (self._is_full if state is State.NEW else self._pushed_out)(filler, before):
                return None
        else:
            steps.run(f"{name}-last", IoBatch.writes(self._firsts + 2 * BLOCK, BLOCK))
            if not self._left_alone(before):
                return None
        weights = fresh.weights(self._middle(self._read("after")))
        ends = np.cumsum([len(blocks) for blocks in self._blocks])[:-1]
        return [part.reshape(-1, self._copies).sum(axis=1) for part in np.split(weights, ends)]

    def _decoys(self) -> int:
        """As many as may be cleaned while the start of cleaning is not known better."""
        starts_ns, band_ns = times_ns(self._steps)
        uncertain = 0.0 if starts_ns is None else 0.4 * starts_ns / band_ns
        return int(np.clip(2 * len(self._firsts) + uncertain, FEWEST_DECOYS, MOST_DECOYS))

    def _decoy_bytes(self, count: int) -> int:
        """More than the grid writes to a band, less than what the nine have, if the cache has the cache
        part."""
        fill = self._steps.known.number("cache_fill_bytes")
        return DECOY_BYTES if fill is None or 2 * count * DECOY_BYTES <= MOST_DECOYS_SHARE * fill else BLOCK

    def _left_alone(self, before: Fresh) -> bool:
        """Pauses until the bands were cleaned."""
        return left_alone(self._steps, self._name, len(self._firsts), lambda: self._cleaned(before))

    def _is_full(self, filler: Filler, before: Fresh) -> bool:
        """Fills a cache that was empty until some of the bands were cleaned, or writes go on to wait: other
        clients make a row of them slow now and then."""
        for _ in range(MOST_PUSHES):
            if not filler.fill():
                return False
            if self._share_cleaned(before) >= LEAST_CLEANED or filler.more(PUSH_WRITES):
                return True
        return False

    def _pushed_out(self, filler: Filler, before: Fresh) -> bool:
        """Fills a cache that held something before, which goes first, until the bands were cleaned. Where the
        next writes do not wait, other clients made those slow at which it stopped, and it goes on."""
        is_full = filler.fill()
        for _ in range(MOST_PUSHES):
            if not is_full or self._cleaned(before):
                return is_full
            is_full = filler.more(PUSH_WRITES) or filler.fill()
        return False

    def _cleaned(self, before: Fresh) -> bool:
        """Whether most of the bands were cleaned."""
        return self._share_cleaned(before) >= MOST_CLEANED

    def _share_cleaned(self, before: Fresh) -> float:
        """The share of the bands that were cleaned."""
        # Each twice, because what a reading varies by grows with the seek before it.
        twice = cleaned_or_cached.read(self._steps, f"{self._name}-check", np.repeat(self._firsts, 2))
        return float(np.mean(before.weights(twice[1::2]) > 0))


def times_ns(steps: Steps) -> tuple[float | None, float]:
    """When cleaning starts, if that is known, and what a band takes."""
    known = steps.known
    return known.number("cleaning_start_ns"), known.part("cleaning_band_ns", "one_block") or USUAL_BAND_NS


def outlasts_test(known: Known) -> bool:
    """Whether a lazy drive whose cache earlier tests filled with blocks all over may have to clean for longer
    than a test has before it turns to what the test writes: each place of the cache may hold a block of
    another band. Then the cache is emptied first, whatever that takes."""
    fill, quantum = known.number("cache_fill_bytes"), known.number("journal_quantum_bytes")
    band_ns = known.part("cleaning_band_ns", "one_block")
    if fill is None or quantum is None or band_ns is None:
        return False
    return fill / quantum * band_ns / 1e9 > LONGEST_PUSH_S


def left_alone(steps: Steps, name: str, bands: int, cleaned: Callable[[], bool]) -> bool:
    """Pauses until so many bands were cleaned: as long as the drive is known to need, then longer. Where the
    time for a band is not known it grows too: a band of which the cleaning is interrupted begins anew."""
    starts_ns, band_ns = times_ns(steps)
    slack, is_known = START_SLACK, steps.known.part("cleaning_band_ns", "one_block") is not None
    pause = FIRST_PAUSE_S if starts_ns is None else (slack * starts_ns + 1.3 * bands * band_ns) / 1e9
    spent = 0.0
    while spent < LONGEST_PAUSES_S:
        steps.pause(f"{name}-pause", pause)
        spent += pause
        if cleaned():
            return True
        slack *= SLACK_GROWTH
        band_ns *= 1.0 if is_known else GROWTH
        pause = pause * GROWTH if starts_ns is None else (slack * starts_ns + bands * band_ns) / 1e9
    return False


class Filler:
    """Fills the cache of a lazy drive until it stalls.

    What it stalls for is the oldest: the nine bands, then large decoys, which give back as much space as
    a few writes that wait need."""

    def __init__(self, steps: Steps, name: str, regions: list[Region]) -> None:
        self._steps = steps
        self._name = name
        fill = steps.known.number("cache_fill_bytes")
        wanted = (fill or steps.size / 100) / FILL_SHARE
        self._size = int(np.clip(2.0 ** np.floor(np.log2(max(wanted, 1.0))), LEAST_FILL, MOST_FILL))
        count = min(int(3 * (fill or steps.size / 10) / self._size), MOST_FILL_WRITES)
        count = min(count, steps.size // self._size * 3 // 4)
        where = spread(steps.size, count + FILL_DECOYS, self._size, phase=0.7).astype(np.int64)
        taken = np.zeros(len(where), bool)
        for region in regions:
            low, high = region.points.min() - self._size, region.points.max() + MIB
            taken |= (where >= low) & (where < high)
        self._where = where[~taken]
        self._usual_ns = self._slow_ns = 0.0
        self._is_full = False
        self._next = FILL_DECOYS

    def decoys(self) -> None:
        """The large decoys."""
        log = self._steps.run(
            f"{self._name}-large-decoys", IoBatch.writes(self._where[:FILL_DECOYS], self._size)
        )
        self._usual_ns = float(np.median(log.latency_ns))
        self._slow_ns = SLOW * self._usual_ns
        band_ns = self._steps.known.part("cleaning_band_ns", "one_block")
        waits_ns = LONG_WAIT_NS + self._size * 1e9 / SLOWEST_BYTES_A_SECOND
        self._is_full = self._usual_ns >= (
            waits_ns if band_ns is None else min(waits_ns, FULL_BANDS * band_ns)
        )

    def fill(self) -> bool:
        """Whether it stalled; it does already where the large decoys waited for older data to be cleaned."""
        if self._is_full:
            return True
        until = Stop(int(self._slow_ns), STOPPED, STOPPED)
        io = IoBatch.writes(self._where[self._next :], self._size)
        log = self._steps.run(f"{self._name}-fill", io, until=until)
        self._next += len(log)
        return until.reached(log)

    def more(self, count: int) -> bool:
        """Writes so much more, whether it stalls or not; whether most of it did, or nothing is left."""
        where = self._where[self._next : self._next + count]
        log = self._steps.run(f"{self._name}-fill", IoBatch.writes(where, self._size))
        self._next += len(where)
        return self._is_full or not len(log) or float(np.median(log.latency_ns)) > self._slow_ns

    def push(self, cleaned: Callable[[], bool], each_s: float) -> None:
        """Fills a cache that may hold older data, which goes first, until what was written first is
        `cleaned`. The cache may be full from the first write on and take as long for each, so no stall is
        waited for: it looks behind every `each_s` of writes, and where one takes longer."""
        usual_ns, spent_s = self._usual_ns, 0.0
        while not cleaned() and spent_s < LONGEST_FILL_S:
            count = int(np.clip(each_s * 1e9 / max(usual_ns, 1.0), PUSH_WRITES, MOST_PUSHED))
            io = IoBatch.writes(self._where[self._next : self._next + count], self._size)
            log = self._steps.run(f"{self._name}-fill", io, until=Stop(int(SLOW * usual_ns), 1))
            if not len(log):
                return
            usual_ns = float(np.median(log.latency_ns))
            self._next, spent_s = self._next + len(log), spent_s + log.span_ns / 1e9


def single_blocks(steps: Steps, count: int, taken: I64) -> I64:
    """Places for single blocks, each in a band of its own, away from those that are taken."""
    where = spread(steps.size, 2 * (count + len(taken)), DECOY_UNIT, phase=0.55).astype(np.int64)
    near = np.abs(where[:, None] - taken).min(axis=1) < APART
    return np.asarray(where[~near][:count] + MUCH_AFTER, np.int64)


def find(steps: Steps) -> tuple[list[Band], bool]:
    """The bands that were found, at most nine, and whether the drive cleans others than it should, so in an
    order that cannot be steered; the target need not be as new."""
    if steps.size < LEAST_BYTES:
        return [], False
    lazy = steps.known.word("cleaning_type") == "lazy"
    regions = coarse_regions(steps.size)
    weights = Round(steps, "coarse", regions, COARSE_COPIES).run()
    if weights is None:
        return [], not lazy
    if not lazy and _scattered(regions, weights):
        return [], True
    found = _narrowly(steps, "", regions, weights)
    for more in range(1, MOST_RESTS + 1) if lazy else ():
        missed = [region for region in regions if region.first not in found]
        if not found or not _short(found, regions):
            break
        # It stalled for so few bands that some were left: these alone, it stalls for them.
        weights = Round(steps, f"coarse-rest-{more}", missed, COARSE_COPIES).run()
        rest = _narrowly(steps, f"-rest-{more}", missed, weights) if weights is not None else {}
        if not rest:
            break
        found |= rest
    return [found[region.first] for region in regions if region.first in found], False


def _narrowly(steps: Steps, name: str, regions: list[Region], weights: list[F64]) -> dict[int, Band]:
    """The bands around the blocks of regions, by these blocks, from what a wide grid said of them."""
    fine = []
    for region, weight in zip(regions, weights, strict=True):
        low, high = cleaned_or_cached.stretch(weight, _index(region))
        fine.append(fine_region(region, int(region.points[low]), int(region.points[high - 1]), steps.size))
    narrow = Round(steps, f"fine{name}", fine, FINE_COPIES).run()
    if narrow is None:
        return {}
    found = bands_of(fine, narrow, steps.size)
    lost = [
        again_region(region, weight, steps.size)
        for region, weight in zip(fine, narrow, strict=True)
        if region.place in _short(found, fine) and region.first not in found and weight[_index(region)] > 0
    ]
    again = _fewest(lost)
    weights_again = Round(steps, f"again{name}", again, FINE_COPIES).run() if again else None
    return found | (bands_of(again, weights_again, steps.size) if weights_again is not None else {})


def bands_of(regions: list[Region], weights: list[F64], size: int) -> dict[int, Band]:
    """The bands that narrow grids show, by their blocks."""
    bands = [
        (region.first, _band(region, weight, size)) for region, weight in zip(regions, weights, strict=True)
    ]
    return {first: band for first, band in bands if band is not None}


def _short(found: dict[int, Band], regions: list[Region]) -> set[str]:
    """The places at which too few bands were found: two that agree are needed, and all in the middle, where
    bands of two sizes may meet."""
    missing = [region.place for region in regions if region.first not in found]
    return {place for place in missing if place == "md" or missing.count(place) > 1}


def _fewest(regions: list[Region]) -> list[Region]:
    """The first of these that together have few enough points."""
    points = np.cumsum([len(region.points) for region in regions])
    return regions[: int(np.searchsorted(points, MOST_AGAIN_POINTS, side="right"))]


def _scattered(regions: list[Region], weights: list[F64]) -> bool:
    """Whether blocks were cleaned that are not of the nine bands, in most regions more than misread."""
    scattered = []
    for region, weight in zip(regions, weights, strict=True):
        low, high = cleaned_or_cached.stretch(weight, _index(region))
        outside = np.concatenate([weight[:low], weight[high:]])
        beyond = high == len(weight) or (low == 0 and region.points[0] > 0)
        beyond = beyond or (high - low - 1) * COARSE > LARGEST_BAND  # no band is as large: several are clean
        scattered.append(beyond or float(np.mean(outside >= LEAST_WEIGHT)) > MISREAD)
    return bool(np.mean(scattered) > 0.5)


def _index(region: Region) -> int:
    return int(np.flatnonzero(region.points == region.first)[0])


def _band(region: Region, weight: F64, size: int) -> Band | None:
    """The band in a fine region; None if its first block was not cleaned or an edge is outside the grid."""
    sure = _index(region)
    if weight[sure] < LEAST_WEIGHT:
        return None
    low, high = cleaned_or_cached.stretch(weight, sure)
    first, end = int(region.points[low]), int(region.points[high - 1]) + MIB
    at_start, at_end = first == 0, end + MIB > size
    if (low == 0 and not at_start) or (high == len(weight) and not at_end):
        return None
    outside = [region.points[low] - region.points[low - 1]] if low > 0 else []
    outside += [region.points[high] - region.points[high - 1]] if high < len(weight) else []
    if max(outside, default=MIB) > MIB:
        return None  # the edge lies between the parts of the grid: the wide one had missed it
    margins = [weight[low], weight[high - 1]]
    if low > 0:
        margins.append(-weight[low - 1])
    if high < len(weight):
        margins.append(-weight[high])
    return Band(region.place, first, end, float(min(margins)))
