"""A lazy drive with free bands in every zone: how long it cleans a band, seen in writes that wait.

Writes to a zone share its free bands, each a log. When none is left, a write waits for the band of the oldest
block to be cleaned, and if that gave no log back, for its own band too; so the last of several such writes
waits for the one band that makes a log empty. At three places the first log is given single blocks of a few
bands, and then one block over and over, which is dead as soon as the next comes. Every other 64 KiB of some
bands follows, and then more data until writes wait, for the bands with one block first, then for those that
are half written. Only writes that others follow without a wait are used.

Invariant: a stall counts only if looks find what it cleaned at home; a zone that ends amid all this is not
used.
Source: Skylight (FAST '15), section 3.1; FACTS, "Drives" (a free band is a log for a zone's dirty bands).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skylight.evidence import Evidence, IoBatch, IoLog, Stop
from skylight.infer import residence
from skylight.probe.cleaning import half, rate
from skylight.probe.cleaning.half import Stretch
from skylight.probe.cleaning.journal import front
from skylight.probe.cleaning.trials import GIB, INSIDE, KIB, MIB, Ground, joined

MARKS = 6
OVER, OVER_WRITES = 256 * KIB, 1060  # 265 MiB: more than a log
STRETCH_AT, STRETCH, CELL = 2 * GIB, 2 * GIB, 2 * MIB
FILL, MOST_FILLED = 960 * KIB, 60 * GIB  # each in a MiB of its own, off its start
FIRST_PIECE, ROW, ROW_NS, MORE_NS = 32, 3, 80_000_000, 50_000_000
LATER_STALLS, LARGEST_STOPS = 9, 120
LEAST_RUN = 3 * MIB  # written between a stall and the next where a log was given back
LOOKED_AHEAD = 400
SOUND = (0.95, 2.0)
ZONE = "lazy-zone-"


def _plan(ground: Ground, place: int) -> tuple[int, Stretch, tuple[IoBatch, IoBatch]]:
    """First byte of a place, its stretch, and the writes behind the marks: the stretch, and more data."""
    start = place * (ground.session.size // half.SIXTHS) // (64 * MIB) * (64 * MIB)
    stretch = Stretch(start + STRETCH_AT, STRETCH, CELL)
    behind = stretch.start + stretch.length + 64 * KIB
    count = min(MOST_FILLED, ground.session.size // 8) // MIB
    where = behind + np.arange(count, dtype=np.uint64) * np.uint64(MIB)
    return start, stretch, (stretch.writes(ground.block), IoBatch.writes(where, FILL))


def marks(start: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The single blocks of a place."""
    return (np.arange(MARKS) * rate.LARGEST_BAND + start + INSIDE).astype(np.uint64)


def measure(ground: Ground) -> None:
    """The three places; a drive that needs a FLUSH behind each write is left alone."""
    if ground.flushed:
        return
    for place in half.PLACES:
        if not ground.session.erase(f"{ZONE}{place}-erase"):
            return
        _place(ground, place)


def _place(ground: Ground, place: int) -> None:
    session, name = ground.session, f"{ZONE}{place}"
    start, stretch, parts = _plan(ground, place)
    over = np.full(OVER_WRITES, start + 64 * MIB + INSIDE, np.uint64)
    session.run(f"{name}-marks", joined(ground.writes(marks(start)), IoBatch.writes(over, OVER)))
    for part, writes in enumerate(parts, 1):
        first = session.run(f"{name}-{part}-first", writes.part(0, FIRST_PIECE))
        plain_ns = int(np.median(first.latency_ns))
        rest = session.run(
            f"{name}-{part}-fill", writes.part(FIRST_PIECE, len(writes)),
            until=Stop(plain_ns + ROW_NS, ROW, ROW), params={"place": place},
        )  # fmt: skip
        done = FIRST_PIECE + len(rest)
        if done < len(writes):
            _watch(ground, name, stretch, writes.part(done, len(writes)), plain_ns)
            return


def _watch(ground: Ground, name: str, stretch: Stretch, writes: IoBatch, plain_ns: int) -> None:
    """Lets writes wait one after the other, and looks after each what was cleaned."""
    session, done, later = ground.session, 0, 0
    start, ahead = stretch.start - STRETCH_AT, stretch.blocks
    stop = Stop(plain_ns + MORE_NS)
    for number in range(1, LARGEST_STOPS + 1):
        params = {"plain_ns": plain_ns}
        step = f"{name}-stall-{number}"
        log = session.run(step, writes.part(done, len(writes)), until=stop, params=params)
        done += len(log)
        if not stop.reached(log):
            return
        here = ahead[ahead < log.offset[-1]][:LOOKED_AHEAD]  # what is not written yet lies at home
        looked = session.run(f"{step}-look", ground.looks(np.concatenate([marks(start), here])))
        gone = front(ground.home(looked)[MARKS:])
        ahead = ahead[gone:]
        later += gone > 0
        if later == LATER_STALLS or len(ahead) == 0:
            return


@dataclass(frozen=True, slots=True)
class Stall:
    """A write that waited: how long (ns), marks that are home after it, cells that went home, bytes written
    in all up to it."""

    more_ns: float
    home: int
    cells: int
    written: int


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


def read(evidence: Evidence, turn_ns: float, *, flash: bool) -> list[Place]:
    """The places that tell, from evidence."""
    found = [_place_of(_stalls(evidence, place, turn_ns, flash=flash)) for place in half.PLACES]
    return [seen for seen in found if seen is not None and seen.sound]


def _stalls(evidence: Evidence, place: int, turn_ns: float, *, flash: bool) -> list[Stall]:
    """The writes of a place that waited while something was cleaned."""
    stalls: list[Stall] = []
    written, before = 0, -1
    for step in evidence.steps:
        if not step.name.startswith(f"{ZONE}{place}-stall-") or step.name.endswith("-look"):
            continue
        looked = _home(evidence.log(f"{step.name}-look"), turn_ns, flash=flash)
        written += int(step.rows.size.sum(dtype=np.uint64))
        home, cells = int(np.count_nonzero(looked[:MARKS])), front(looked[MARKS:])
        if (cells or home > before) and len(step.rows):
            more_ns = float(step.rows.latency_ns[-1]) - step.whole("plain_ns", 1 << 62)
            stalls.append(Stall(more_ns, home, cells, written))
        before = max(before, home)
    return stalls


def _place_of(stalls: list[Stall]) -> Place | None:
    """The times for a band, from the stalls after which writes went on without one for long."""
    one_ns, half_ns = 0.0, list[float]()
    for stall, after in pairwise(stalls):
        if after.written - stall.written < LEAST_RUN:
            continue
        if stall.home == MARKS and not stall.cells and not one_ns:
            one_ns = stall.more_ns
        elif one_ns and stall.cells:
            half_ns.append(stall.more_ns)
    return Place(one_ns, tuple(half_ns)) if one_ns and half_ns else None


def _home(log: IoLog, turn_ns: float, *, flash: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return residence.at_home(residence.look_ns(log), turn_ns, flash=flash)
