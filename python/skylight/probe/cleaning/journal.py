"""A lazy drive with a journal: how long it cleans a band, seen in writes that wait when the cache is full.

Such a drive cleans only what it must, oldest first, before a write has room. So what is to be cleaned is
written first: once single blocks in bands at nine places, each a place of the journal of its own; once every
other 64 KiB of some bands at three places. Then blocks elsewhere fill the cache, in writes of a few quanta,
until several in a row wait, which neither slow outliers nor merges of the map bring about. Then single blocks
each wait for one band with one block; and writes of a quantum now and then for one that is half written. How
much longer they take than others is what that band took.

Invariant: a stall counts only if looks find what it cleaned at home.
Source: Skylight (FAST '15), section 4.6 (cleaning when the cache is full); Algorithm 1 (oldest first).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U64, Bools, IoLog, Op, Stop
from skylight.probe.cleaning import band_time, half_written_band
from skylight.probe.cleaning.band_time import CLUSTERS, longest_band
from skylight.probe.cleaning.half_written_band import Stretch
from skylight.probe.cleaning.trials import GIB, KIB, MIB, MORE_LOOKS, Ground, look_again, writes_ns
from skylight.probe.known_state import State

EACH, TOLD_EACH = 12, 4
FILL_QUANTA, LARGEST_FILL_WRITE = 4, 8 * MIB
MOST_FILLED, PIECE, FIRST_PIECE = 1300 * GIB, 1 << 14, 32
ROW, MORE_NS = 4, 100_000_000  # so many stalls in a row, longer by so much, are neither outliers nor merges
FEWEST_STALLS, FEW_OF_NS = 0.8, 30_000_000
STALL_PART = 0.6
STRETCH_BANDS = 4
ATTEMPTS = ((0.93, 1.0), (0.5, 0.6), (0.0, 0.6), (0.0, 0.35))  # parts of the filling, of the stretches
STRETCH_COST = 1.15
LOOKED_FIRST, LOOKED_AHEAD, LARGEST_STOPS, LONGEST_WATCH_NS = 16, 256, 150, 5_400_000_000_000
WHOLE_BAND, FRONT_PART = 0.8, 0.85
ONE, HALF = "lazy-one", "lazy-half"


@dataclass(slots=True)
class Filler:
    """Addresses that fill the cache, one after the other, away from all places that are looked at."""

    size: int
    step: int
    used: int = 0

    def next(self, count: int) -> U64:
        """The next addresses, a little off whole MiB."""
        share = self.size // CLUSTERS
        room = max(1, share // 4 // self.step)
        cluster, into = np.divmod(self.used + np.arange(count, dtype=np.int64), room)
        self.used += count
        start = (cluster % CLUSTERS * share + share * 11 // 16) // MIB * MIB
        return np.asarray(start + 36 * KIB + into % room * self.step, np.uint64)


def marks(size: int) -> U64:
    """Single blocks at the nine places, one of each in turn."""
    pitch = min(band_time.LARGEST_BAND, size // (4 * CLUSTERS) // EACH // MIB * MIB)
    blocks = band_time.places(size, EACH, pitch)
    in_turn = np.arange(len(blocks)).reshape(CLUSTERS, EACH).T.ravel()
    return np.asarray(blocks[in_turn], np.uint64)


@dataclass(frozen=True, slots=True)
class One:
    """What single blocks in a full cache showed: time for a band with one block (ns), from how many bands."""

    band_ns: float
    bands: int


@dataclass(slots=True)
class Seen:
    """What was seen: the time for a band with one block; the usual time of a write (ns); and at each place,
    of the writes that waited while half-written bands were cleaned, how many cells went home and how much
    longer than usual it took (ns)."""

    one: One | None = None
    plain_ns: float = 0.0
    stalls: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def half_ns(self) -> dict[int, list[float]]:
        """The times for whole half-written bands at each place, ns: not those of the first and the last
        stall, nor of a part of a band."""
        halves = {}
        for place, stalls in self.stalls.items():
            band = float(np.median([cells for cells, _ in stalls[1:-1]])) if len(stalls) > 2 else 0.0
            halves[place] = [
                ns for cells, ns in stalls[1:-1] if abs(cells - band) <= max(1.0, (1 - WHOLE_BAND) * band)
            ]
        return halves

    @property
    def half_mean_ns(self) -> float:
        """Mean over the places of the median at each, ns."""
        return float(np.mean([np.median(stalls) for stalls in self.half_ns.values()]))

    @property
    def whole(self) -> bool:
        """Whether there is a time for each place."""
        half_ns = self.half_ns
        return (
            self.one is not None and len(half_ns) == len(half_written_band.PLACES) and all(half_ns.values())
        )


def measure(ground: Ground, quantum: int, seen: Seen) -> None:
    """Fills the cache behind single blocks, then behind half-written bands."""
    steps = ground.steps
    if steps.reset(f"{ONE}-erase") is State.UNKNOWN:
        return  # what earlier tests wrote is older
    # Copies would give back as many places with a band, and not each write would wait.
    lone, at = ground.lone, marks(steps.size)
    marks_log = steps.run(f"{ONE}-marks", lone.marks(at))
    large = max(ground.block, min(LARGEST_FILL_WRITE, FILL_QUANTA * quantum) // ground.block * ground.block)
    filler = Filler(steps.size, large)
    if not _fill(ground, filler):
        return
    filled = filler.used
    stalls = steps.run(f"{ONE}-stalls", ground.writes(filler.next(TOLD_EACH * CLUSTERS)))
    home = lone.home(steps.run(f"{ONE}-look", lone.looks(at)))

    def again() -> Bools:
        return lone.home(steps.run(f"{ONE}-look-again", lone.looks(at)))

    home = look_again(home, MORE_LOOKS if ground.noisy else 0, again, flash=ground.flash)
    seen.one = _one(marks_log, stalls, home)
    if seen.one is not None:
        one_s = seen.one.band_ns / 1e9
        _halves(lone, one_s, quantum // ground.block * ground.block, (large, filled), seen)


def _fill(ground: Ground, filler: Filler) -> bool:
    """Fills the cache; False where it does not fill."""
    steps, count = ground.steps, MOST_FILLED // filler.step
    first = steps.run(f"{ONE}-fill-0", ground.writes(filler.next(FIRST_PIECE), filler.step))
    stop = _row(ground, int(np.median(writes_ns(first))) + MORE_NS)
    for number in range(1, count // PIECE + 2):
        where = filler.next(PIECE)
        log = steps.run(f"{ONE}-fill-{number}", ground.writes(where, filler.step), until=stop)
        done = len(log.only(Op.WRITE))
        if stop.reached(log):
            filler.used -= PIECE - done
            return True
    return False


def _row(ground: Ground, latency_ns: int) -> Stop:
    """Several stalls in a row; where a FLUSH follows each write, that is what stalls."""
    return Stop(latency_ns, ROW, 2 * ROW if ground.flushed else ROW)


def _one(marks_log: IoLog, stalls: IoLog, home: NDArray[np.bool_]) -> One | None:
    """The time for a band from single writes that each waited for one, if blocks that were written first, and
    only these, are home."""
    more_ns = writes_ns(stalls) - float(np.median(writes_ns(marks_log)))
    waited = more_ns > FEW_OF_NS
    cleaned = int(np.count_nonzero(home))
    first = int(np.count_nonzero(home[:cleaned]))
    if np.count_nonzero(waited) < FEWEST_STALLS * len(waited) or first < FEWEST_STALLS * cleaned:
        return None
    if cleaned < np.count_nonzero(waited) or cleaned > len(home) - 2:
        return None
    places = [more_ns[place::CLUSTERS] for place in range(CLUSTERS)]
    return One(float(np.mean([np.median(place[place > FEW_OF_NS]) for place in places])), len(waited))


def _stretches(ground: Ground, one_s: float, part: float) -> dict[int, Stretch]:
    size, speed = ground.steps.size, float(np.mean(ground.bytes_a_second))
    wanted = min(STRETCH_BANDS * longest_band(ground, one_s, speed), size // 32)
    length = max(int(part * wanted) // MIB, 1) * MIB
    cell = (
        max(-(-length // half_written_band.MOST_CELLS // half_written_band.LEAST_CELL), 1)
        * half_written_band.LEAST_CELL
    )
    start = {
        place: place * (size // half_written_band.SIXTHS) // (64 * MIB) * (64 * MIB)
        for place in half_written_band.PLACES
    }
    return {place: Stretch(at, length // cell * cell, cell) for place, at in start.items()}


def _halves(ground: Ground, one_s: float, quantum: int, filled: tuple[int, int], seen: Seen) -> None:
    """Half-written bands first, then much of the filling that the cache took, then writes of a quantum until
    each of the bands was cleaned; with less of both where some were cleaned before that, for the map of the
    cache may be full before its places are."""
    steps, (large, count) = ground.steps, filled
    for number, (early_part, stretch_part) in enumerate(ATTEMPTS, 1):
        name, stretches = f"{HALF}-{number}", _stretches(ground, one_s, stretch_part)
        steps.reset(f"{name}-erase")
        for place, stretch in stretches.items():
            half_written_band.write(ground, f"{name}-{place}", stretch.writes(ground.block))
        data = sum(stretch.length for stretch in stretches.values()) // 2
        early = max(0, int(early_part * (count - STRETCH_COST * data / large)))
        filler = Filler(steps.size, large)
        if early:
            row = _row(ground, int(STALL_PART * one_s * 1e9) + MORE_NS)
            writes = ground.writes(filler.next(early), large)
            if row.reached(steps.run(f"{name}-early", writes, until=row)):
                continue
        filler = Filler(steps.size, quantum, filler.used * large // quantum + 1)
        late = steps.run(f"{name}-late", ground.writes(filler.next(FIRST_PIECE), quantum))
        first = stretches[half_written_band.PLACES[0]].blocks[:LOOKED_FIRST]
        if front(ground.home(steps.run(f"{name}-check", ground.looks(first)))):
            continue
        seen.plain_ns = float(np.median(writes_ns(late)))
        stop = Stop(int(seen.plain_ns + STALL_PART * one_s * 1e9))
        left = int((1 - early_part) * count * large / quantum + 2 * STRETCH_COST * data / quantum) + PIECE
        _watch(ground, name, stretches, filler, stop, left, seen)
        return


def _watch(
    ground: Ground,
    attempt: str,
    stretches: dict[int, Stretch],
    filler: Filler,
    stop: Stop,
    left: int,
    seen: Seen,
) -> None:
    steps = ground.steps
    ahead = [(place, block) for place, stretch in stretches.items() for block in stretch.blocks]
    spent_ns = 0
    for number in range(1, LARGEST_STOPS + 1):
        if left <= 0 or not ahead:
            return
        name = f"{attempt}-stall-{number}"
        log = steps.run(name, ground.writes(filler.next(min(left, PIECE)), filler.step), until=stop)
        left -= len(log.only(Op.WRITE))
        spent_ns += log.span_ns
        if spent_ns > LONGEST_WATCH_NS:
            return
        if not stop.reached(log):
            continue
        place = ahead[0][0]
        here = np.array([block for at, block in ahead[:LOOKED_AHEAD] if at == place], np.uint64)
        looked = steps.run(f"{name}-look", ground.looks(here), params={"place": place})
        cells = front(ground.home(looked))
        if cells:
            seen.stalls.setdefault(place, []).append((cells, float(writes_ns(log)[-1]) - seen.plain_ns))
        ahead = ahead[cells:]
        while len(ahead) > 1 and ahead[1][0] != ahead[0][0]:
            ahead = ahead[1:]  # one cell left of a place is too few to be seen to go home


def front(home: NDArray[np.bool_]) -> int:
    """How many of the cells from the first on are home, but for a few misread ones; no single cell counts."""
    share = np.cumsum(home) / np.arange(1, len(home) + 1)
    last = np.flatnonzero(home & (share >= FRONT_PART))
    return int(last[-1]) + 1 if len(last) > 1 else 0
