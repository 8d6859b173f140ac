"""A set-associative drive: how long it cleans a cache band, and what one data band more adds to that.

Writes over and over in one place are appended to one cache band, until it is full and the next write waits
for its cleaning. On such a drive the stalls come at a fixed number of *bytes* (a cache band); on a drive that
merges its map now and then they come at a fixed number of *writes*. Two sizes of writes tell them apart.

How long a band is may differ from what fills a cache band (a watermark): while the first cache band is full,
a block of data band 0 stalls and one of data band 1 does not, and the border between them is halved in.

Which data bands share a cache band: data band 0 fills its own, and then a single block goes to each of the
data bands that follow. Data band n, the first that shares it, finds it full and stalls. Then cache bands are
filled with blocks of one data band, and of several spread over the drive, and the difference of the stalls is
what the others add.

A zone of a fully-associative drive that holds older data stalls as evenly, once a log. There a block of
another data band waits, and so does the next, while the first cache band stays full: it is none. And an empty
zone begins each log in another free band: where no data band is found to share the first, stalls that the arm
may take there are no cleaning.

A filling that stalls before its last write shows how full the cache band was before; it does not count, and
the next is as much longer.

Invariant: a stall that names n is seen twice, so that no slow outlier does.
Source: Skylight (FAST '15), section 3.1 (data band a to cache band a mod n) and 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U64, IoBatch, Op, Stop
from skylight.infer.stalls import Stalls, periodic
from skylight.probe.band_size import cache_parts
from skylight.probe.band_size.cache_parts import (
    ASKED_AGAIN,
    FEW_NONE,
    LAST,
    NONE_OF,
    ONE_BY_ONE,
)
from skylight.probe.cleaning.trials import INSIDE, KIB, Ground, joined, writes_ns
from skylight.probe.procedure import bisected

LARGE, SMALL = 256 * KIB, 128 * KIB
LARGE_WRITES = 3300  # fill the largest bands, 256 MiB, three times
TEETH, MORE_TEETH = 4, 16
"""Stalls of small writes that are waited for, and if they stand in no row, once more: bands of 4 MiB are
cleaned in the time of a few revolutions, which other delays take as well."""
SCAN_PIECE, SCAN_TOGETHER, LARGEST_SCAN = 4096, 256, 400_000
"""Data bands of a step of the scan, of one where most writes wait (why, `cache_parts.ASKED_TOGETHER` says),
and of the whole."""
STALL_PART = 0.6
MOST_BANDS = 9
REPEATS, MORE_REPEATS = 3, 3
"""How often the stall of a full cache band is timed, and how many fillings more there may be that did not end
with it, for it was not known how full the cache band was before."""
MOST_PIECES = 64
"""Writes that are waited for until a cache band is empty, which may hold blocks of hundreds of data bands."""
REMAINDER, EXACT_TRIES = 512, 2
"""Blocks that are written to a cache band full of large writes, and how often that is done where no border of
a data band is found with what it took: one slow outlier among them names too little."""
FEWEST_STALLS, SHORTEST_PERIOD = 3, 4  # the largest bands are filled three times; none in so few writes
OVER_LARGE, OVER_SMALL, EXACT = "over-large", "over-small", "over-exact"
BORDER, SCAN, ONE, SEVERAL = "border-", "scan-", "stall-one", "stall-several"
BEHIND = "behind-"


@dataclass(frozen=True, slots=True)
class CacheBand:
    """A cache band: bytes that fill it, how long the stall of a write to a full one is (ns), and at least,
    where other clients' delays come near that; bytes from data band to data band."""

    usable_bytes: int
    stall_ns: float
    pitch: int = 0
    least_ns: float = 0.0

    @property
    def stop(self) -> Stop:
        """What ends a run that is to end with a stall."""
        return Stop(int(max(STALL_PART * self.stall_ns, self.least_ns)))


def same_period(large: Stalls | None, small: Stalls | None) -> bool:
    """Whether stalls come at a number of bytes and not at a number of writes."""
    ratio = LARGE // SMALL
    return large is not None and small is not None and abs(small.period - ratio * large.period) <= ratio


@dataclass(slots=True)
class Seen:
    """What was seen: whether stalls come at a number of bytes, the cache band, data bands sharing it, the
    stalls of full cache bands with blocks of one and of `bands` data bands, and usual writes before each
    (ns)."""

    large: Stalls | None = None
    stalls: bool = False
    band: CacheBand | None = None
    sharing: int = 0
    bands: int = 0
    one_ns: list[float] = field(default_factory=list)
    several_ns: list[float] = field(default_factory=list)
    usual_ns: list[float] = field(default_factory=list)

    @property
    def plain_ns(self) -> float:
        """A write that finds room, ns."""
        return float(np.median(self.usual_ns)) if self.usual_ns else 0.0

    @property
    def more_ns(self) -> float:
        """What one data band more adds to cleaning a cache band, ns; all of it where there is no other."""
        one = float(np.median(self.one_ns))
        if self.bands < 2:
            return one - self.plain_ns
        return (float(np.median(self.several_ns)) - one) / (self.bands - 1)

    @property
    def measured(self) -> bool:
        """Whether the stalls that are needed were measured: the data bands share it."""
        needed = [self.one_ns] if self.bands < 2 else [self.one_ns, self.several_ns]
        return self.band is not None and all(len(stalls_ns) >= REPEATS for stalls_ns in needed)

    @property
    def scatter(self) -> float:
        """Standard error of `more_ns` as a part of it, from the repeats."""
        apart = [float(np.std(stalls)) for stalls in (self.one_ns, self.several_ns) if stalls]
        return float(np.hypot.reduce(apart)) / max(1, self.bands - 1) / max(self.more_ns, 1.0)


def _over(ground: Ground, name: str, size: int, count: int) -> Stalls | None:
    log = ground.steps.run(name, ground.writes(np.full(count, INSIDE, np.uint64), size))
    found = periodic(writes_ns(log), FEWEST_STALLS, SHORTEST_PERIOD, whole=True)
    return None if found is None else found.clear_of_delays(writes_ns(log))


def measure(ground: Ground, seen: Seen) -> bool:
    """Everything of the module's page, as far as the drive goes along; whether it is set-associative."""
    steps = ground.steps
    new = steps.erase("over-erase")
    large = seen.large = _over(ground, OVER_LARGE, LARGE, LARGE_WRITES)
    if large is None:
        return False
    for teeth in (TEETH, MORE_TEETH):
        count = min(LARGE_WRITES, teeth * large.period) * (LARGE // SMALL)
        small = _over(ground, OVER_SMALL, SMALL, count)
        seen.stalls = same_period(large, small)
        if small is not None:
            break
    if not seen.stalls:
        return False
    whole = large.period * LARGE
    stop = CacheBand(whole, large.stall_ns, least_ns=large.least_ns).stop
    for number in range(EXACT_TRIES):
        blocks = _blocks_beyond(ground, large, stop)
        if blocks >= REMAINDER:  # what fills it is not known; nor is the stall one, where the arm may take it
            seen.stalls = not _is_arm(ground, large)
            return seen.stalls
        band = CacheBand(whole + (blocks - 1) * ground.block, large.stall_ns, least_ns=large.least_ns)
        pitch = _border(ground, band, stop)
        sharing = None if pitch is None else _scan(ground, band := replace(band, pitch=pitch), stop)
        if sharing is not None:
            _stalls(ground, band, sharing, seen)
            return True
        # Asked last, for it leaves blocks of other data bands in the cache band.
        if number == 0:
            seen.stalls = not _is_arm(ground, large) and (new or not _stays_full(ground, band, stop))
        if pitch is not None or not seen.stalls:
            break
    return seen.stalls


def _blocks_beyond(ground: Ground, large: Stalls, stop: Stop) -> int:
    """Blocks that a cache band takes beyond whole large writes, and the one that finds it full."""
    used = _emptied(ground, EXACT, large.period, np.array([INSIDE], np.uint64), stop)
    ground.steps.run(f"{EXACT}-fill", ground.writes(_over_and_over(large.period - used // LARGE), LARGE))
    rest = ground.steps.run(EXACT, ground.writes(_over_and_over(REMAINDER)), until=stop)
    return len(rest.only(Op.WRITE))


def _is_arm(ground: Ground, stalls: Stalls) -> bool:
    """Whether stalls are no longer than a way of the arm and a missed revolution: a zone that begins its next
    log in another free band makes them as evenly as a cache band does that is cleaned. Where the arm's time
    is not known, a revolution counts as it: to read and write even one track takes two."""
    turn_ns = ground.steps.known.number("rotation_ns")
    if turn_ns is None or ground.flash:
        return False
    way_ns = ground.steps.known.part("seek_ns", "full") or turn_ns
    return stalls.stall_ns - stalls.usual_ns < way_ns + turn_ns


def _stays_full(ground: Ground, band: CacheBand, stop: Stop) -> bool:
    """Whether writes to other bands stall and leave it full: it is a zone with older data
    (`skylight.probe.band_size.cache_parts.stays_full`)."""
    zero, stayed = np.array([INSIDE], np.uint64), 0
    for number, away in enumerate(cache_parts.BEHIND, 1):
        used = _emptied(ground, f"{BEHIND}{number}", band.usable_bytes // LARGE, zero, stop)
        at = np.full(2, int(away * band.usable_bytes) // ground.block * ground.block, np.uint64)
        if at[0] + np.uint64(ground.block) > ground.steps.size:
            break
        writes = joined(_refill(ground, band, used, zero), ground.writes(at))
        waits = writes_ns(ground.steps.run(f"{BEHIND}{number}", writes, params={"at": int(at[0])}))
        stayed += bool(min(waits[-2:]) >= stop.latency_ns)
    return stayed >= cache_parts.FEWEST_FULL


def _border(ground: Ground, band: CacheBand, stop: Stop) -> int | None:
    """Where data band 1 begins, bytes; None if that is not from what fills a cache band to nearly twice that.

    One block is in cache band 0 before, and after."""
    steps, block = ground.steps, ground.block
    zero, used = np.array([INSIDE], np.uint64), block
    low, high, number, full = band.usable_bytes // block - 1, 19 * band.usable_bytes // 10 // block, 0, False

    def stalls(at: int) -> bool:
        nonlocal number, full
        number += 1
        fill = IoBatch.writes([], block) if full else _refill(ground, band, used, zero)
        where = ground.writes(np.array([at * block], np.uint64))
        waits = writes_ns(steps.run(f"{BORDER}{number}", joined(fill, where), params={"at": at * block}))
        full = bool(waits[-1] < stop.latency_ns)
        return not full

    if not stalls(low) or stalls(high):
        return None
    low, high = bisected(low, high, stalls)
    agreed = not stalls(high) and stalls(low)  # again: no slow outlier stays unseen
    return high * block if agreed else None


def _emptied(ground: Ground, name: str, every: int, at: U64, stop: Stop) -> int:
    """Has the cache band empty, or nearly so: bytes in it. Without an erase, writes go on until one finds it
    full, and further until one finds room: where it held blocks of very many data bands, a drive may clean
    some of them for each write, and write that home too. Then it holds the last that waited, and that one."""
    steps = ground.steps
    if steps.erase(f"{name}-erase"):
        return 0
    steps.run(f"{name}-empty", ground.writes(np.resize(at, every + 2), LARGE), until=stop)
    for _ in range(MOST_PIECES):
        if writes_ns(steps.run(f"{name}-empty-next", ground.writes(at[:1], LARGE)))[-1] < stop.latency_ns:
            break
    return 2 * LARGE


def _over_and_over(count: int) -> U64:
    return np.full(count, INSIDE, np.uint64)


def _refill(ground: Ground, band: CacheBand, used: int, at: U64) -> IoBatch:
    """Writes that fill a cache band to its last block: large ones round the places `at`, then blocks."""
    large, rest = divmod(band.usable_bytes - used, LARGE)
    where = np.resize(at, large + rest // ground.block)
    return joined(ground.writes(where[:large], LARGE), ground.writes(where[large:]))


def _scan(ground: Ground, band: CacheBand, stop: Stop) -> int | None:
    """The first data band that shares the cache band of data band 0; its number, or None."""
    zero, bands = np.array([INSIDE], np.uint64), min(ground.steps.size // band.pitch, LARGEST_SCAN)
    ground.steps.run(f"{SCAN}fill", _refill(ground, band, ground.block, zero))
    found, first = _in_order(ground, band, range(1, bands), stop, gives_up=True)
    while found is None and first < bands:
        here = range(first, min(first + SCAN_TOGETHER, bands))
        found, is_clear = _together(ground, band, here, stop)
        if not is_clear:
            found, _ = _in_order(ground, band, here, stop)
        first = here.stop
    return found


def _in_order(
    ground: Ground, band: CacheBand, numbers: range, stop: Stop, *, gives_up: bool = False
) -> tuple[int | None, int]:
    """The first of these data bands that shares a full cache band 0, or None; and the first that was not
    asked. Each that waits ends a step. It gives up where most do."""
    steps, pitch = ground.steps, band.pitch
    used, first, number = ground.block, numbers.start, 0
    zero = np.array([INSIDE], np.uint64)
    while first < numbers.stop:
        if gives_up and number >= FEW_NONE and first <= NONE_OF * number:
            break
        number += 1
        here = np.arange(first, min(first + SCAN_PIECE, numbers.stop), dtype=np.uint64)
        offsets = here * np.uint64(pitch) + np.uint64(INSIDE)
        log = steps.run(f"{SCAN}{number}", ground.writes(offsets), until=stop, params={"first": first})
        waits = writes_ns(log)
        if len(waits) == 0 or waits[-1] < stop.latency_ns:
            first += len(here)
            continue
        first += len(waits)
        found = first - 1
        at = np.array([found * pitch + INSIDE], np.uint64)
        check = joined(_refill(ground, band, used, zero), ground.writes(at))
        log = steps.run(f"{SCAN}{number}-again", check, params={"band": found})
        waits = writes_ns(log)
        if waits[-1] >= stop.latency_ns and waits[0] < stop.latency_ns:
            return found, first
        steps.run(f"{SCAN}{number}-full", ground.writes(zero))  # it was full, and is one block short now
    return None, first


def _together(ground: Ground, band: CacheBand, numbers: range, stop: Stop) -> tuple[int | None, bool]:
    """The same where most writes wait, because most cache bands are full of what another host wrote: a write
    to each of some data bands, none of which ends them; and whether that is clear. If cache band 0 is still
    full behind them, none of them shares it. If it has room, one of them does, and only those that waited are
    asked again: other cache bands have room now."""
    here = np.arange(numbers.start, numbers.stop, dtype=np.uint64)
    writes = ground.writes(here * np.uint64(band.pitch) + np.uint64(INSIDE))
    name = f"{SCAN}{numbers.start}"
    for _ in range(ASKED_AGAIN):
        waits = writes_ns(ground.steps.run(f"{name}-together", writes, params={"first": numbers.start}))
        if _was_full(ground, band, f"{name}-own", stop):
            return None, True
        found = _among(ground, band, name, here[: len(waits)][waits >= stop.latency_ns], stop)
        if found is not None:
            return found, True
        _fill_up(ground, band, name, stop)
    return None, False


def _was_full(ground: Ground, band: CacheBand, name: str, stop: Stop) -> bool:
    """Whether cache band 0 was full, and is again: a write to it waits, and the last of those that then fill
    it do not. A delay beside a cache band that had room shows in these: they are too many."""
    zero = np.array([INSIDE], np.uint64)
    writes = joined(ground.writes(zero), _refill(ground, band, ground.block, zero))
    waits = writes_ns(ground.steps.run(name, writes)) >= stop.latency_ns
    return bool(waits[0]) and not np.any(waits[-LAST:])


def _among(ground: Ground, band: CacheBand, name: str, suspects: U64, stop: Stop) -> int | None:
    """Which of some data bands shares cache band 0, seen twice; None if none is seen to. Those up to one that
    waits do not, nor does that one if cache band 0 is still full behind it. Cache bands that hold blocks of
    many data bands wait more than once: where there are many they are asked together until they are few or no
    fewer."""
    unclear, before = 0, len(suspects) + 1
    while ONE_BY_ONE < len(suspects) < before:
        _fill_up(ground, band, name, stop)
        at, before = suspects * np.uint64(band.pitch) + np.uint64(INSIDE), len(suspects)
        waits = writes_ns(ground.steps.run(f"{name}-many", ground.writes(at)))
        suspects = suspects[: len(waits)][waits >= stop.latency_ns]
    while len(suspects) and unclear < ASKED_AGAIN:
        _fill_up(ground, band, name, stop)
        at = suspects * np.uint64(band.pitch) + np.uint64(INSIDE)
        waits = writes_ns(ground.steps.run(f"{name}-among", ground.writes(at), until=stop))
        if not len(waits) or waits[-1] < stop.latency_ns:
            unclear += 1
            continue
        last, zero = len(waits) - 1, np.array([INSIDE], np.uint64)
        found = int(suspects[last])
        check = joined(_refill(ground, band, ground.block, zero), ground.writes(at[last : last + 1]))
        waits = writes_ns(ground.steps.run(f"{name}-again", check, params={"band": found}))
        was_full = bool(waits[0] >= stop.latency_ns)
        if not was_full and waits[-1] >= stop.latency_ns:
            return found
        unclear += not was_full
        suspects = suspects[last + was_full :]
    return None


def _fill_up(ground: Ground, band: CacheBand, name: str, stop: Stop) -> None:
    """Fills cache band 0 from any state: until a write finds it full, and up to its last block then. That it
    was full shows in the write behind that: it waits, and only then."""
    zero = np.array([INSIDE], np.uint64)
    over = ground.writes(_over_and_over(band.usable_bytes // LARGE + 2), LARGE)
    for _ in range(ASKED_AGAIN):
        ground.steps.run(f"{name}-until", over, until=stop)
        filling = joined(_refill(ground, band, LARGE, zero), ground.writes(zero))
        if writes_ns(ground.steps.run(f"{name}-full", filling))[-1] >= stop.latency_ns:
            break
    ground.steps.run(f"{name}-full", _refill(ground, band, ground.block, zero))


def _stalls(ground: Ground, band: CacheBand, sharing: int, seen: Seen) -> None:
    """Fills a cache band with blocks of one data band, then of several, and one block more, some times."""
    several = sharers(ground.steps.size, band.pitch, sharing)
    for name, chosen, stalls_ns in ((ONE, several[:1], seen.one_ns), (SEVERAL, several, seen.several_ns)):
        if len(chosen) == 0 or (name == SEVERAL and len(several) < 2):
            return
        seen.band, seen.sharing, seen.bands = band, sharing, len(several)
        at = np.array(chosen, np.uint64) * np.uint64(band.pitch) + np.uint64(INSIDE)
        _timed(ground, band, name, at, stalls_ns, seen)


def _timed(ground: Ground, band: CacheBand, name: str, at: U64, stalls_ns: list[float], seen: Seen) -> None:
    """The stalls of a cache band that is filled at these places. A write that waited before the last found it
    full too early: what was written from then on is in it now. So it is where other clients delayed the
    write that seemed to find it full at first."""
    params = {"sharing": seen.sharing, "usable": band.usable_bytes, "bands": seen.bands, "pitch": band.pitch}
    used: int | None = None
    for repeat in range(1, REPEATS + MORE_REPEATS + 1):
        if used is None:
            used = _emptied(ground, name, band.usable_bytes // LARGE, at, band.stop)
        writes = joined(_refill(ground, band, used, at), ground.writes(at[:1]))
        log = ground.steps.run(f"{name}-{repeat}", writes, params=params)
        waits = writes_ns(log)
        used = used_of(waits, log.only(Op.WRITE).size, band.stop.latency_ns)
        if waits[-1] >= band.stop.latency_ns:
            stalls_ns.append(float(waits[-1]))
            seen.usual_ns.append(float(np.median(waits[:-1])))
        if len(stalls_ns) == REPEATS:
            return


def used_of(waits_ns: I64, sizes: NDArray[np.uint32], stall_ns: float) -> int | None:
    """Bytes in a cache band behind writes the last of which that waited found it full; None if none did.

    >>> used_of(np.array([1, 9, 1, 9, 1]), np.full(5, 4096, np.uint32), 5)
    8192
    """
    stalls = np.flatnonzero(waits_ns >= stall_ns)
    return int(sizes[stalls[-1] :].sum(dtype=np.uint64)) if len(stalls) else None


def sharers(size: int, band: int, sharing: int) -> list[int]:
    """Up to nine of the data bands of a cache band in the middle, at even distances."""
    every = list(range(sharing // 2, size // band, sharing))
    step = max(1, -(-len(every) // MOST_BANDS))
    return every[step // 2 :: step]
