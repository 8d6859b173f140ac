"""Does what was written in one go lie in the persistent cache on disk, or at its native place? One read of
all of it tells.

A look at one block (`skylight.infer.cached_or_native`) needs native blocks on both sides of it. Of a longer
write the block behind the first was written too: a look at the first begins and ends in the cache then, and
where the way there and back takes less than a revolution it comes as soon as one at home does. So all of the
write is read, with a native block on either side. The *approach* is a native block behind it, so that what a
drive reads ahead is not what is asked for next, and just so far behind that the look begins `WAIT` of a
revolution later, if the drive's tracks are as long as thought: neither at once, when a slow host would miss
it and lose a revolution, nor a whole one later. At home the look then takes that and the time in which what
it reads passes; from the cache the heads come back to the last block at the angle at which it passes, one
revolution later at least. Half a revolution more divides them.

Where a switch of track takes a good part of a revolution, an end of a track puts a look off by as much: then
the same look before anything was written there is its control, and a whole revolution more is the cache.

Invariant: what passes in more than `MOST_TURNS` is not looked at so, for ends of tracks put it off too far.
Source: Skylight (FAST '15) section 4.4 (fragmented reads) and 4.3 (a missed rotation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skylight.evidence import F64, I64, U64, Bools, IoBatch, IoLog
from skylight.infer.cached_or_native import look_ns

WAIT = 0.7
"""Of a revolution. Chosen: a host whose commands take 2 ms each way is 0.5 late on a quick disk, and an end
of a track puts the wait off by 0.2."""
MOST_TURNS = 2.5
PLAIN_SWITCH = 0.25
"""Of a revolution that a switch of track takes at most for looks to need no control. Chosen: half of that is
how far an end of a track puts one off, a quarter of what divides them."""
DIVIDES = 0.5


@dataclass(frozen=True, slots=True)
class Platter:
    """A revolution (ns), the bytes of tracks at the first, the middle and the last address of a target of
    `size` bytes, and what a switch of track takes, revolutions."""

    rotation_ns: float
    track_bytes: tuple[float, float, float]
    switch: float
    size: int

    def turns(self, at: U64, length: int) -> F64:
        """Revolutions in which so many bytes pass at each of some places, ends of tracks evenly shared."""
        places = at.astype(np.float64) / self.size
        tracks = np.interp(places, (0.0, 0.5, 1.0), self.track_bytes)
        return np.asarray(length * (1 + self.switch) / tracks)


@dataclass(frozen=True, slots=True)
class WholeLooks:
    """Looks at writes: the commands, the time that divides those at home from those in the cache, and a
    revolution, ns; and whether ends of tracks put them so far off that they need a control."""

    io: IoBatch
    limit_ns: F64
    rotation_ns: float
    needs_control: bool

    def home(self, log: IoLog, home_ns: I64 | None = None) -> Bools:
        """Which of the writes are at their native place, by the log of the commands; `home_ns` is what the
        same looks took before anything was written there.

        A write in the cache takes a whole revolution more than that, wherever tracks end. A time that no look
        at home takes was another client's."""
        took_ns: I64 = look_ns(log)
        limit_ns = self.limit_ns[: len(took_ns)]
        if home_ns is not None and len(home_ns) == len(took_ns):
            half_ns = DIVIDES * self.rotation_ns
            limit_ns = np.where(home_ns < limit_ns + half_ns, home_ns + half_ns, limit_ns)
        return np.asarray(took_ns < limit_ns, np.bool_)


def whole_looks(starts: ArrayLike, size: int, block: int, platter: Platter) -> WholeLooks | None:
    """Looks at writes of `size` bytes that begin at `starts`, the first block of the target excepted; None
    where the writes are too long.

    >>> platter = Platter(10e6, (1e6, 1e6, 1e6), 0.0, 1 << 40)
    >>> looks = whole_looks([1 << 30], 496 << 10, 4096, platter)
    >>> [(offset - (1 << 30)) >> 10 for offset in looks.io.offset.tolist()], looks.io.size.tolist()
    ([1260, -4], [4096, 516096])
    >>> round(float(looks.limit_ns[0]) / 1e6, 1)
    17.2
    """
    at = np.ascontiguousarray(starts, np.uint64)
    passes = platter.turns(at, size + 2 * block)
    if len(at) and float(passes.max()) > MOST_TURNS:
        return None
    # From the look's first block to the end of the approach: WAIT less than whole revolutions.
    least = platter.turns(at, size + 3 * block)
    behind = (1 - WAIT - least) % 1.0 / platter.turns(at, 1)
    approach = at + np.uint64(size + block) + (behind / block).astype(np.uint64) * np.uint64(block)
    offset = np.stack([np.minimum(approach, np.uint64(platter.size - block)), at - np.uint64(block)], axis=1)
    sizes = np.tile(np.array([block, size + 2 * block], np.uint32), len(at))
    io = IoBatch.reads(offset.ravel(), block)
    limit_ns = (WAIT + passes + DIVIDES) * platter.rotation_ns
    needs_control = platter.switch > PLAIN_SWITCH
    return WholeLooks(IoBatch(io.op, io.offset, sizes), limit_ns, platter.rotation_ns, needs_control)
