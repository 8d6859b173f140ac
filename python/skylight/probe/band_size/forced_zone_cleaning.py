"""Fills the cache of a lazy host-aware drive so that it cleans zones of our choice, one after the other.

Such a drive cleans what was written first, when a write does not fit, and may move old data out of the way
where that is cheaper. So behind each block that is to be cleaned lies a *piece*: as much as a later write
brings, so that one zone cleaned lets one write in. Then pieces go to empty zones, not where these begin, for
in order they would bypass the cache; and whenever a write was slow, or at intervals, the caller looks whether
what it waits for has happened. So it need not be known what a stall is, nor what the cache holds.

Invariants: pieces lie in free zones, which the caller's blocks do not; pieces are alike, so each takes what
one that was cleaned gave back.
Source: Wu et al., Evaluating Host-Aware SMR Drives (HotStorage '16), section 2; docs/zoned.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skylight.evidence import I64, IoBatch, Op, Stop
from skylight.infer.stalls import SLOW
from skylight.probe.band_size.cache_parts import spread
from skylight.probe.band_size.cleaned_or_cached import BLOCK
from skylight.probe.band_size.journaled import MIB, MUCH_AFTER
from skylight.probe.procedure import Steps
from skylight.probe.zoned import HOST_AWARE, ZonesSeen

FEWEST_ZONES = 36
"""Usable zones below which a drive is not asked this way. Chosen: nine with their neighbours, and as many as
a third of these for what fills the cache."""
MOST_PIECE, LEAST_PIECE, PIECE_SHARE, UNKNOWN_PIECE = 8 << 20, 64 << 10, 256, 2 << 20
"""Bytes of a piece: this share of the cache, if its size is known. Chosen: fifty pieces and a grid of blocks
together then take a third of it."""
LOOK_EVERY, LOOK_SHARE = 16, 32
"""From look to look: pieces, or this share of those written if that is more."""
BULK = 0.8
"""Of the cache, if its size is known: so much is written before a look is due that no slow write asks for."""
LATE_LOOKS, LATE_PIECES = 3, 4
"""How many looks more, with how many pieces before each, what is not clean is given once most is."""
MOST_LOOKS = 4_000
"""A drive that stalls for a map after every hundred writes is looked at some thousand times."""


def is_asked(zones: ZonesSeen, steps: Steps) -> bool:
    """Whether zones can be had cleaned this way: the drive may clean only when its cache is full, and all of
    a zone holds data."""
    whole = zones.capacity_bytes == zones.zone_bytes and zones.zone_bytes % MIB == 0
    enough = zones.usable >= FEWEST_ZONES and steps.size == zones.usable * zones.zone_bytes
    lazy = steps.known.word("cleaning_type") != "aggressive"
    return zones.model == HOST_AWARE and whole and enough and lazy


def middle_of_zone(zone: I64, zone_bytes: int) -> I64:
    """The mebibyte in the middle of zones, where there is room for a block and a piece."""
    return np.asarray(zone * zone_bytes + zone_bytes // MIB // 2 * MIB, np.int64)


def _free_zones(count: int, taken: I64) -> I64:
    """Of `count` zones those that are not taken, evenly and in an order that follows nothing."""
    free = np.setdiff1d(np.arange(count, dtype=np.int64), taken)
    return np.asarray(free[spread(len(free), len(free), 1).astype(np.int64)], np.int64)


class ZoneFiller:
    """Pieces, and where the next one goes."""

    def __init__(self, steps: Steps, name: str, zones: ZonesSeen, taken: I64) -> None:
        """Steps are called `name` and more; of the zones those that are `taken` get no pieces."""
        self._steps, self._name, self._zone_bytes = steps, name, zones.zone_bytes
        fill = steps.known.number("cache_fill_bytes")
        wanted = UNKNOWN_PIECE if fill is None else fill / PIECE_SHARE
        # From the middle of a zone on there is room for twice a piece.
        size = 2.0 ** np.floor(np.log2(min(wanted, zones.zone_bytes / 4)))
        self.piece = int(np.clip(size, LEAST_PIECE, MOST_PIECE))
        self._free = _free_zones(zones.usable, taken)
        self._next = 0
        self._until: Stop | None = None

    def first(self, blocks: I64) -> None:
        """Writes the blocks that are to be cleaned first, each followed by a piece."""
        offsets = np.stack([blocks, blocks + MUCH_AFTER], axis=1).ravel()
        sizes = np.tile(np.array([BLOCK, self.piece], np.uint32), len(blocks))
        writes = np.full(len(offsets), int(Op.WRITE), np.uint8)
        self._steps.run(f"{self._name}-first", IoBatch(writes, offsets.astype(np.uint64), sizes))

    def decoys(self, count: int) -> None:
        """Writes pieces that are cleaned after these; the cache is not to be full before."""
        log = self._steps.run(f"{self._name}-decoys", IoBatch.writes(self._pieces(count), self.piece))
        self._until = Stop(round(SLOW * float(np.median(log.latency_ns))))

    def fill(self, cleaned: Callable[[], float], most: float, *, emptied: bool) -> bool:
        """Writes pieces until all is clean, or some looks after most of it is; `cleaned` looks, and says what
        share is. False if the share never was `most`. `emptied` says that the cache held nothing before."""
        late, bulk = 0, self._bulk() if emptied else 0
        for _ in range(MOST_LOOKS):
            due = max(bulk - self._next, LOOK_EVERY, self._next // LOOK_SHARE)
            pieces = self._pieces(LATE_PIECES if late else due)
            if not len(pieces):
                break
            log = self._steps.run(f"{self._name}-fill", IoBatch.writes(pieces, self.piece), until=self._until)
            self._next -= len(pieces) - len(log)
            share = cleaned()
            late += share >= most
            if share == 1.0 or late > LATE_LOOKS:
                break
        return late > 0

    def _pieces(self, count: int) -> I64:
        """Where the next pieces go: one to each free zone, behind where it begins; then behind these."""
        free = len(self._free)
        index = np.arange(self._next, self._next + count, dtype=np.int64)
        index = index[index // free < self._zone_bytes // self.piece - 1]
        self._next += len(index)
        return self._free[index % free] * self._zone_bytes + (1 + index // free) * self.piece

    def _bulk(self) -> int:
        """Pieces that go into an empty cache before it can be full."""
        known = self._steps.known
        fill, quantum = known.number("cache_fill_bytes"), known.number("journal_quantum_bytes")
        if fill is None:
            return 0
        slots = -(-self.piece // quantum) * quantum if quantum else self.piece
        return int(BULK * fill / slots)
