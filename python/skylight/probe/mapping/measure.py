"""Does a band come back to where it was? Bands are cleaned, and where they pass under the head is compared.

At each of a dozen places three blocks are read in a row: a *reference* in another band, which is never
cleaned; the *partner*, never written but in the band; and the *block* itself, which is written. How much
later the block comes than its partner shows whether it was cleaned
(`skylight.probe.band_size.cleaned_or_cached`); how much later the partner comes than the reference, modulo a
revolution, shows whether the band moved, for all that lies between is the distance on the platters.

Cleaning is made to run as each kind of drive needs: left alone; one cache band, or one zone, or the journal
filled; on a lazy drive that declares zones so that it cleans those of the blocks first
(`forced_zone_cleaning`).

Invariant: a band counts only if it was seen to be cleaned.
Source: Skylight (FAST '15), section 4.8, Test 10, Figure 17; "the size chosen for these algorithmic
parameters need not match track size and block size".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, IoBatch, IoLog
from skylight.infer import host_clock
from skylight.probe.band_size import cache_parts
from skylight.probe.band_size.cache_parts import OVER_BYTES, OVER_SLOTS, CachePart, Kind, logged, spread
from skylight.probe.band_size.forced_zone_cleaning import ZoneFiller, is_asked, middle_of_zone
from skylight.probe.band_size.journaled import Filler, Region, left_alone, outlasts_test, single_blocks
from skylight.probe.cleaning.findings import START
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import ZonesSeen

BLOCK = 4096
MIB = 1 << 20
PLACES, UNIT = 12, 1 << 30
ZONE_PLACES = PART_PLACES = 8
"""Of a lazy drive whose cache has parts: a full part takes half an hour to clean where it holds blocks of a
thousand data bands, so fewer than else."""
PARTNER, REFERENCE = 16 << 10, 600 * MIB
"""How far from the block its partner lies, and the reference. Chosen, the first: of bands that move to tracks
of 256 KiB one in sixteen has a track's edge between both then, and seems not to be cleaned."""
READINGS = 7  # as many as bring jitter of 3 % of a latency below what tells angles apart
GAP = 768 << 10  # between what fills a zone
LEAST_NOISE = 0.01  # of a revolution
SAME = 4.0  # times the noise
MOST_NOISE = 0.04
MOST_ROUNDS = 4
"""How many times as many readings are made at most where two of them agree no better than that. Chosen: four
times as many halve the noise, and a look then takes half a minute behind a coarse clock."""
ENOUGH = 0.7
MISREAD = 0.05  # of the bands that stayed: an outlier in most readings, a track's edge
LEAST_ODDS = math.log(100)
MOST_DOZENS = 3
"""How many dozens of bands are looked at one after the other, of a drive that cleans when it is left alone,
while those before fit neither mapping. Chosen: of twelve bands of one that moves them each comes to its old
angle one time in six behind a coarse clock, and four of them do one time in ten."""
FEWEST = 4
"""Bands that were seen to be cleaned, for a verdict."""
STEADY = 3
"""Looks that show the same blocks cleaned, enough for a verdict, behind which no more are waited for: a block
that came to lie with a track's edge between it and its partner never shows it, and on short tracks that is
every third. Chosen: what is written between looks doubles, so that what was there before has gone."""
COARSE_NS = 50_000  # a clock's tick that is a good part of a hundredth of a revolution
LEAST_TIMES, MOST_TIMES = 3, 16  # how many times the readings are made by such a clock
COARSE_ERROR = LEAST_NOISE
"""Of a revolution: what the middle of all readings may be off by the tick alone. Chosen: a quarter of what is
too noisy to tell, for the noise of a few blocks comes out up to twice as large."""
OUTER = 7  # one in so many readings is left out at either end
FIRST_WAIT_S, WAIT_GROWTH, MOST_WAITS_S = 10.0, 1.7, 3_600.0
UNKNOWN_START_S, ZONE_S, STARTS = 400.0, 150.0, 2
"""How long a drive that reports its zones is left alone until all are clean: the waits grow, since a report
may be work to it, behind which it waits for its idle time anew. Chosen, the most: a dozen zones of 2 GiB that
are read and written twice at 30 MB/s. A wait that is longer than `STARTS` times what the drive takes to
begin, and `ZONE_S`, which such a zone takes, and behind which no more are clean, is the last: a zone may keep
its mark for other reasons. Where the start is not known, `UNKNOWN_START_S` is enough: the recorded
drive begins after five minutes."""
FEWEST_DECOYS = 4
"""Pieces before the cache of a drive with declared zones is filled: they show what a write takes."""
MORE_WRITES, MORE_TIMES, ZONE_TIMES = 64, 8, 10
"""Writes that fill a cache of unknown contents further, a quarter of what it holds, and how often. How much
older data a zone holds is not known, and all of it is cleaned first: there each time twice as many, 32 GiB in
all. Chosen: as much as 128 free bands of 256 MiB hold; where each band takes long the bound of the test ends
it before."""
PUSH_S = 60.0
"""Device time of writes between looks. Chosen: several times that of a look."""
USED_UP = 8
"""Single blocks before each that is to be cleaned next. Chosen: a write of those that
fill it takes a few entries of a map, each of which takes a block once it was given back."""


@dataclass(frozen=True, slots=True)
class Seen:
    """For each place: how far the band and its block are from where they were, in revolutions (from -1/2 to
    1/2); `noise` is how well two readings of the fresh drive agree; `neighbours` says that the bands lie side
    by side."""

    band: F64
    block: F64
    noise: float
    neighbours: bool = False

    @property
    def cleaned(self) -> NDArray[np.bool_]:
        """Which blocks lie beside their partner again."""
        return np.asarray(np.abs(self.block) <= self.limit)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which bands lie elsewhere."""
        return np.asarray(np.abs(self.band) > self.limit)

    @property
    def limit(self) -> float:
        """What counts as the same angle, in revolutions."""
        return SAME * self.noise

    @property
    def odds(self) -> float:
        """The logarithm of how much likelier the bands that moved and that stayed are if they are rewritten
        in place than if they are moved."""
        moved = int((self.moved & self.cleaned).sum())
        stayed, by_chance = int(self.cleaned.sum()) - moved, min(2 * self.limit, 0.5)
        static = stayed * math.log(1 - MISREAD) + moved * math.log(MISREAD)
        # Neighbours move by like distances: that all of them come to their old angle is one chance, not many.
        chances = min(stayed, 1) if self.neighbours else stayed
        return static - chances * math.log(by_chance) - moved * math.log(1 - by_chance)

    @property
    def is_decided(self) -> bool:
        """Whether this is enough for a verdict."""
        enough = int(self.cleaned.sum()) >= FEWEST
        return self.noise <= MOST_NOISE and enough and abs(self.odds) >= LEAST_ODDS

    def with_more(self, other: Seen) -> Seen:
        """This and other places, which are known no better than the worse of both."""
        band, block = (np.concatenate(both) for both in ((self.band, other.band), (self.block, other.block)))
        return replace(self, band=band, block=block, noise=max(self.noise, other.noise))


def fold(turns: F64) -> F64:
    """Revolutions without the whole ones: from -1/2 to 1/2."""
    return np.asarray(turns - np.round(turns))


@dataclass(frozen=True, slots=True)
class Places:
    """The blocks, and how far the reference lies behind each (bytes)."""

    blocks: I64
    behind: int

    def batch(self) -> IoBatch:
        """Reference, partner and block of each place, several times over."""
        three = np.stack([self.blocks + self.behind, self.blocks + PARTNER, self.blocks], axis=1).ravel()
        return IoBatch.reads(np.tile(three, READINGS), BLOCK)

    def delays(self, log: IoLog) -> tuple[F64, F64]:
        """How much later the partner came than the reference, and the block than the partner (ns): a row for
        each reading."""
        done = log.complete_ns.astype(np.int64).reshape(-1, len(self.blocks), 3)
        return (
            np.asarray(done[:, :, 1] - done[:, :, 0], np.float64),
            np.asarray(done[:, :, 2] - done[:, :, 1], np.float64),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """Both delays, modulo a revolution: the middle of the readings."""

    band: F64
    block: F64

    @staticmethod
    def of(places: Places, log: IoLog, rotation_ns: float) -> Reading:
        """Circular: the readings are turned to near the first, then the median is taken; by a coarse clock,
        whose ticks are spread over all, the mean without the outermost."""
        coarse = is_coarse(log)
        return Reading(*(_middle(delay / rotation_ns, coarse=coarse) for delay in places.delays(log)))


def _middle(turns: F64, *, coarse: bool) -> F64:
    near = turns[0] + fold(turns - turns[0])
    if not coarse:
        return np.asarray(np.median(near, axis=0))
    near = np.median(near, axis=0) + fold(near - np.median(near, axis=0))
    outer = len(near) // OUTER
    return np.asarray(np.sort(near, axis=0)[outer : len(near) - outer].mean(axis=0))


def is_coarse(log: IoLog) -> bool:
    """Whether the clock's tick blurs the angles."""
    return host_clock.tick_ns(log.complete_ns) >= COARSE_NS


def times(tick_ns: float, rotation_ns: float) -> int:
    """How many times the readings have to be made by a clock of this tick: the shorter a revolution, the more
    of it a tick is.

    >>> times(1_000, 8.3e6), times(1_000_000, 11.1e6), times(1_000_000, 8.3e6), times(1_000_000, 4.35e6)
    (1, 3, 4, 13)
    """
    if tick_ns < COARSE_NS:
        return 1
    enough = host_clock.readings_needed(tick_ns, rotation_ns, COARSE_ERROR)
    return int(np.clip(np.ceil(enough / READINGS), LEAST_TIMES, MOST_TIMES))


def noise_of(fresh: Reading, again: Reading) -> float:
    """How well two readings agree, in revolutions."""
    apart = np.concatenate([np.abs(fold(again.band - fresh.band)), np.abs(fold(again.block - fresh.block))])
    return max(1.5 * float(np.median(apart)), LEAST_NOISE)


def seen(fresh: Reading, again: Reading, after: Reading) -> Seen:
    """What changed."""
    noise = noise_of(fresh, again)
    middle_band = fresh.band + fold(again.band - fresh.band) / 2
    middle_block = fresh.block + fold(again.block - fresh.block) / 2
    return Seen(fold(after.band - middle_band), fold(after.block - middle_block), noise)


def _band(steps: Steps) -> int | None:
    band = steps.known.part("band_bytes", "od")
    return None if band is None else int(band)


def _places(steps: Steps, kind: Kind, dozen: int = 0) -> Places | None:
    """Where to look, by the way in which cleaning will be made to run; a `dozen` more of places, if the first
    are not enough."""
    band = _band(steps)
    if kind != "journal":
        if band is None:
            return None
        if kind == "zones":  # the first bands of the first zone, between what will fill it
            middles = (np.arange(ZONE_PLACES, dtype=np.int64) * band + band // 2) // MIB * MIB
            return Places(middles + GAP, 40 * band // MIB * MIB)
        numbers = np.unique(spread(steps.size, PART_PLACES, UNIT, phase=0.2).astype(np.int64) // band)
        return Places(numbers * band + band // 2 // MIB * MIB + GAP, 3 * band // MIB * MIB)
    behind = max(REFERENCE, 2 * (band or 0) // MIB * MIB)
    blocks = spread(steps.size, PLACES, UNIT, phase=0.2, begin=dozen * PLACES).astype(np.int64)
    return Places(blocks[blocks + behind + MIB <= steps.size], behind)


def before_and_after(steps: Steps, rotation_ns: float) -> Seen | None:
    """What changed by cleaning; None if cleaning could not be made to run."""
    zones = steps.zones("declared")
    if zones is not None and is_asked(zones, steps):
        return declared_before_and_after(steps, rotation_ns, zones)
    if steps.known.word("cleaning_type") != "lazy":
        return _idle_before_and_after(steps, rotation_ns)
    state = steps.reset("kind-erase", slow=False)
    kind, cache_part = cache_parts.kind_of(steps, state)
    places = None if kind is None else _places(steps, kind)
    if places is None or len(places.blocks) == 0:
        return None
    state = steps.reset("erase", slow=kind == "journal" and outlasts_test(steps.known))
    looks = Looks(steps, places, rotation_ns)
    steps.run("write", IoBatch.writes(places.blocks, BLOCK))
    if not _filled(steps, kind, cache_part, places, looks, older=state < State.CLEAN):
        return None
    return None if looks.now is None else replace(looks.now, neighbours=kind == "zones")


def _idle_before_and_after(steps: Steps, rotation_ns: float) -> Seen | None:
    """The same of a drive that cleans when it is left alone: a dozen bands, and others where these fit
    neither mapping."""
    found: Seen | None = None
    for dozen in range(MOST_DOZENS):
        places = _places(steps, "journal", dozen)
        if places is None or len(places.blocks) == 0:
            break
        prefix = "more-" if dozen else ""  # a figure shows the first
        steps.reset(f"{prefix}erase")
        looks = Looks(steps, places, rotation_ns, prefix)
        steps.run(f"{prefix}write", IoBatch.writes(places.blocks, BLOCK))
        _wait_for_zones(steps)
        left_alone(steps, f"{prefix}clean", len(places.blocks), looks.cleaned)
        if looks.now is not None:
            found = looks.now if found is None else found.with_more(looks.now)
        if found is None or found.is_decided or found.noise > MOST_NOISE:
            break
    return found


def declared_before_and_after(steps: Steps, rotation_ns: float, zones: ZonesSeen) -> Seen | None:
    """The same of a lazy drive that declares zones: a block in the middle of each of a dozen, with the
    reference in the next."""
    chosen = np.arange(PLACES, dtype=np.int64) * (zones.usable - 1) // PLACES
    places = Places(middle_of_zone(chosen, zones.zone_bytes), zones.zone_bytes)
    state = steps.reset("erase", slow=False)
    for block in places.blocks:
        if not steps.written(np.array([block, block + places.behind], np.uint64), MIB):
            return None
    looks = Looks(steps, places, rotation_ns)
    filler = ZoneFiller(steps, "clean", zones, np.concatenate([chosen, chosen + 1]))
    filler.first(places.blocks)
    filler.decoys(FEWEST_DECOYS)
    filler.fill(looks.share, ENOUGH, emptied=state is State.NEW)
    return looks.now


class Looks:
    """Two readings of the fresh drive, and looks at what has changed since."""

    def __init__(self, steps: Steps, places: Places, rotation_ns: float, prefix: str = "") -> None:
        """Makes the two readings, in steps whose names begin so."""
        self._steps, self._places, self._rotation_ns, self._prefix = steps, places, rotation_ns, prefix
        self._rounds = 1
        fresh, again = self._read("fresh"), self._read("fresh-again")
        self._fresh, self._again = self._angles(fresh), self._angles(again)
        while noise_of(self._fresh, self._again) > MOST_NOISE and self._rounds < MOST_ROUNDS:
            fresh = IoLog.joined([fresh, self._read("fresh")])
            again = IoLog.joined([again, self._read("fresh-again")])
            self._fresh, self._again = self._angles(fresh), self._angles(again)
            self._rounds *= 2
        self.now: Seen | None = None
        self._cleaned: list[NDArray[np.bool_]] = []

    def _read(self, name: str) -> IoLog:
        """Reads as often as the clock asks for, in as many rounds as two readings needed to agree."""
        steps, batch, name = self._steps, self._places.batch(), f"{self._prefix}{name}"
        log = steps.run(name, batch)
        more = self._rounds * times(host_clock.tick_ns(log.complete_ns), self._rotation_ns) - 1
        return IoLog.joined([log, *(steps.run(name, batch) for _ in range(more))])

    def _angles(self, log: IoLog) -> Reading:
        return Reading.of(self._places, log, self._rotation_ns)

    def share(self) -> float:
        """Looks at the blocks: the share that was cleaned."""
        self.now = seen(self._fresh, self._again, self._angles(self._read("after")))
        self._cleaned.append(self.now.cleaned)
        return float(np.mean(self.now.cleaned))

    def cleaned_now(self) -> NDArray[np.bool_]:
        """Looks at the blocks: which were cleaned."""
        self.share()
        return self._cleaned[-1]

    def cleaned(self) -> bool:
        """Looks whether most were."""
        return self.share() >= ENOUGH

    def steady(self) -> bool:
        """Whether enough were, and the last looks saw no others: the rest does not show it."""
        last = self._cleaned[-STEADY:]
        if len(last) < STEADY or int(np.count_nonzero(last[-1])) < FEWEST:
            return False
        return all(np.array_equal(last[-1], each) for each in last)


def _wait_for_zones(steps: Steps) -> None:
    """Leaves a target that reports its zones alone until it says that all are clean, or no more become so;
    each look at the blocks would make it wait for its idle time anew."""
    left, wait_s, spent_s = steps.non_sequential("clean-zones"), FIRST_WAIT_S, 0.0
    start_ns = steps.known.number(START.name)
    enough_s = UNKNOWN_START_S if start_ns is None else ZONE_S + STARTS * start_ns / 1e9
    while left and spent_s < MOST_WAITS_S:
        wait_s, before = min(wait_s, MOST_WAITS_S - spent_s), left
        steps.pause("clean-wait", wait_s)
        left = steps.non_sequential("clean-zones")
        if wait_s >= enough_s and left is not None and left >= before:
            return
        spent_s += wait_s
        wait_s *= WAIT_GROWTH


def _filled(
    steps: Steps,
    kind: Kind | None,
    cache_part: CachePart | None,
    places: Places,
    looks: Looks,
    *,
    older: bool,
) -> bool:
    """Fills the cache of a lazy drive until it cleans the bands of the places, as far as it does: what it
    held before goes first; `older` says that this may be much. False if it does not clean."""
    if kind == "journal":
        filler = Filler(
            steps, "clean", [Region("", int(b), np.array([b, b + places.behind])) for b in places.blocks]
        )
        filler.decoys()
        if older:
            _pushed(steps, filler, places, looks)
            return True
        if not filler.fill():
            return False

        def more(count: int) -> None:
            if not filler.more(count):  # other clients made those slow at which it stopped
                filler.fill()
    elif kind == "zones":
        zone = logged(steps, 0, steps.size, "clean")
        if zone is None:
            return False

        def more(count: int) -> None:
            if int(zone.offset(np.array([zone.written + count]))[0]) + zone.size <= steps.size:
                zone.put(count)
    elif cache_part is None:
        return False
    else:
        for block in places.blocks:
            base = int(block) // MIB * MIB + MIB
            index = np.arange(cache_part.period + 1, dtype=np.int64)
            steps.run("clean", IoBatch.writes(base + index % OVER_SLOTS * OVER_BYTES, OVER_BYTES))
        looks.share()
        return True
    count = MORE_WRITES
    for _ in range(ZONE_TIMES if kind == "zones" else MORE_TIMES):
        if looks.cleaned() or looks.steady():
            return True
        more(count)
        count *= 2 if kind == "zones" else 1
    return True


def _pushed(steps: Steps, filler: Filler, places: Places, looks: Looks) -> None:
    """The same of a journal that may hold older data: that goes first, unless the drive cleans the newest
    first. Whether it does is tried with one block, and once more in the end, for its map may be full only
    then."""
    for _ in range(2):
        _as_newest(steps, places, 1)
        looks.share()
        if looks.now is not None and looks.now.cleaned[0]:
            _as_newest(steps, places, len(places.blocks))
            if np.count_nonzero(looks.cleaned_now()) >= FEWEST:
                return  # else that block lies beside its partner by chance
        filler.push(lambda: looks.cleaned() or looks.steady(), PUSH_S)
        if looks.cleaned() or looks.steady():
            return


def _as_newest(steps: Steps, places: Places, count: int) -> None:
    """Has a drive clean the bands of the first places that cleans the newest first once its map is full,
    however old the rest of it is: each block is written behind as many others as use up what the last one
    gave back, and the next write waits for its band."""
    taken = np.concatenate([places.blocks, places.blocks + places.behind])
    others = single_blocks(steps, (count + 1) * USED_UP, taken).reshape(-1, USED_UP)
    in_turn = np.column_stack([others[:-1], places.blocks[: len(others) - 1]]).ravel()
    steps.run("newest", IoBatch.writes(np.concatenate([in_turn, others[-1]]), BLOCK))
