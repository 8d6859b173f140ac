"""A disk behind a fast cache: flash of an SSD or in the disk, memory with a battery, the page cache of a
host; and a conventional disk that keeps new writes in a log on its own platters (a media cache)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from devices.base import (
    BLOCK,
    FLUSH,
    GIB,
    MIB,
    MS,
    READ,
    SECOND,
    US,
    WRITE,
    Device,
    Disk,
    blocks_of,
    merged,
)

DESTAGED_TOGETHER = 256
"""Blocks that leave a cache in one go, sorted by address."""


@dataclass(frozen=True, slots=True)
class CacheTraits:
    """What a cache is made of."""

    size: int
    read_ns: int
    write_ns: int
    bytes_per_s: int
    bypass_bytes: int
    """Larger commands go to the disk."""
    idle_ns: int = SECOND
    """It begins to write back when nothing came for so long."""
    keeps_reads: bool = True
    flushes: bool = False
    """It is volatile: FLUSH writes everything back."""


SSD_CACHE = CacheTraits(8 * GIB, 90 * US, 60 * US, 500_000_000, 1 << 20, idle_ns=2 * SECOND)
HYBRID = CacheTraits(GIB, 150 * US, 350 * US, 120_000_000, 256 << 10, idle_ns=SECOND // 2, keeps_reads=False)
BATTERY = CacheTraits(
    4 * GIB, 30 * US, 40 * US, 2_000_000_000, 16 << 20, idle_ns=5 * SECOND, keeps_reads=False
)
PAGE_CACHE = CacheTraits(2 * GIB, 8 * US, 12 * US, 4_000_000_000, 1 << 30, idle_ns=30 * SECOND, flushes=True)
GUEST_CACHE = CacheTraits(GIB, 15 * US, 20 * US, 3_000_000_000, 1 << 30, keeps_reads=False)
TIER_CACHE = CacheTraits(GIB, 90 * US, 60 * US, 500_000_000, 1 << 20, idle_ns=3 * SECOND, keeps_reads=False)


class Behind(Protocol):
    """What a cache is before: a disk, or an array that acts as one."""

    size: int

    @property
    def now_ns(self) -> int:
        """The time at which it is free for the next command."""
        ...

    def command(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """One command that arrives at that time; its completion."""
        ...

    def write_all(self, extents: list[tuple[int, int]], at_ns: int) -> int:
        """Writes extents (offset, size); the end."""
        ...


class WriteBack(Device):
    """A write-back cache in front of a disk."""

    def __init__(self, name: str, disk: Behind, traits: CacheTraits) -> None:
        """An empty cache."""
        super().__init__(name, disk.size, reports_write_cache=True if traits.flushes else None)
        self.disk, self.traits = disk, traits
        # The oldest leave first, which a dict takes ever longer to find.
        self.dirty: OrderedDict[int, None] = OrderedDict()
        self.clean: OrderedDict[int, None] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes end in the cache, reads are answered by it as far as it can."""
        traits = self.traits
        if op == FLUSH:
            return self.write_back(len(self.dirty), at_ns) if traits.flushes else at_ns + traits.write_ns
        blocks = blocks_of(offset, size)
        transfer_ns = size * SECOND // traits.bytes_per_s
        if op == READ:
            if all(block in self.dirty or block in self.clean for block in blocks):
                return at_ns + traits.read_ns + transfer_ns
            if traits.keeps_reads:
                self.keep(blocks)
            return self.disk.command(READ, offset, size, at_ns) + traits.read_ns
        if size > traits.bypass_bytes:
            for block in blocks:
                self.dirty.pop(block, None)
                self.clean.pop(block, None)
            return self.disk.command(WRITE, offset, size, at_ns)
        most = traits.size // BLOCK
        if len(self.dirty) + len(blocks) > most:
            at_ns = self.write_back(DESTAGED_TOGETHER, at_ns)
        self.dirty.update(dict.fromkeys(blocks))
        return at_ns + traits.write_ns + transfer_ns

    def keep(self, blocks: range) -> None:
        """Keeps what was read in what is left of the cache."""
        self.clean.update(dict.fromkeys(blocks))
        while self.clean and len(self.clean) + len(self.dirty) > self.traits.size // BLOCK:
            self.clean.popitem(last=False)

    def write_back(self, most: int, at_ns: int) -> int:
        """Writes the oldest blocks to the disk; the end."""
        oldest = [block for block, _ in zip(self.dirty, range(most), strict=False)]
        for block in oldest:
            del self.dirty[block]
        if self.traits.keeps_reads:
            self.clean.update(dict.fromkeys(oldest))
        return self.disk.write_all(merged(sorted(oldest)), at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Writes back while nobody comes."""
        at_ns = from_ns + self.traits.idle_ns
        while self.dirty and at_ns < to_ns:
            at_ns = self.write_back(DESTAGED_TOGETHER, max(at_ns, self.disk.now_ns))


class MediaCache(Device):
    """A conventional disk that appends small writes to a log at its outer diameter and moves them home when
    it is idle or the log is full. Nothing is shingled: a block goes home in one write."""

    log_bytes = 2 * GIB
    largest = 512 << 10
    """Larger writes go home at once."""
    idle_ns = 700 * MS
    moved_together = 64
    moved_when_full = 4096

    def __init__(self, name: str, disk: Disk) -> None:
        """An empty log."""
        super().__init__(name, disk.size - self.log_bytes)
        self.disk = disk
        self.places: dict[int, int] = {}
        self.head = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes go to the log, reads to where the data is."""
        home = offset + self.log_bytes
        blocks = blocks_of(offset, size)
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        if op == READ:
            if not any(block in self.places for block in blocks):
                return self.disk.command(READ, home, size, at_ns)
            first = self.places.get(blocks[0])
            return self.disk.command(READ, home if first is None else first, size, at_ns)
        if size > self.largest:
            for block in blocks:
                self.places.pop(block, None)
            return self.disk.command(WRITE, home, size, at_ns)
        length = len(blocks) * BLOCK
        if self.head + length > self.log_bytes:
            while self.places:
                at_ns = self.move_home(self.moved_when_full, at_ns)
            self.head = 0
        for number, block in enumerate(blocks):
            self.places[block] = self.head + number * BLOCK
        self.head += length
        return self.disk.command(WRITE, self.head - length, length, at_ns)

    def move_home(self, most: int, at_ns: int) -> int:
        """Reads the blocks that are longest in the log and writes them home, in order; the end."""
        oldest = [block for block, _ in zip(self.places, range(most), strict=False)]
        logged = merged(sorted(self.places.pop(block) // BLOCK for block in oldest))
        for offset, size in logged:
            at_ns = self.disk.command(READ, offset, size, at_ns)
        homes = [(offset + self.log_bytes, size) for offset, size in merged(sorted(oldest))]
        return self.disk.write_all(homes, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Moves blocks home while nobody comes; then the log is empty."""
        at_ns = from_ns + self.idle_ns
        while self.places and at_ns < to_ns:
            at_ns = self.move_home(self.moved_together, max(at_ns, self.disk.now_ns))
        if not self.places:
            self.head = 0


class ScatteredMediaCache(Device):
    """A conventional disk with a log at each of sixteen places: a small write goes to the log of its
    sixteenth of the addresses, and home when the disk is idle or that log is full."""

    places = 16
    log_bytes = 128 * MIB
    largest = 256 << 10
    idle_ns = 3 * SECOND
    moved_together = 64
    moved_when_full = 2048

    def __init__(self, name: str, disk: Disk) -> None:
        """Empty logs."""
        self.part = (disk.size // self.places - self.log_bytes) // BLOCK * BLOCK
        super().__init__(name, self.part * self.places)
        self.disk = disk
        self.logged: list[dict[int, int]] = [{} for _ in range(self.places)]
        self.heads = [0] * self.places

    def home(self, offset: int) -> int:
        """Where an address lies, behind the log of its part."""
        return offset + (min(offset // self.part, self.places - 1) + 1) * self.log_bytes

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes go to the nearest log, reads to where the data is."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        number = min(offset // self.part, self.places - 1)
        logged, blocks = self.logged[number], blocks_of(offset, size)
        start = number * (self.part + self.log_bytes)
        if op == READ:
            place = logged.get(blocks[0])
            return self.disk.command(READ, self.home(offset) if place is None else place, size, at_ns)
        if size > self.largest:
            for block in blocks:
                logged.pop(block, None)
            return self.disk.command(WRITE, self.home(offset), size, at_ns)
        length = len(blocks) * BLOCK
        if self.heads[number] + length > self.log_bytes:
            while logged:
                at_ns = self.move_home(number, self.moved_when_full, at_ns)
            self.heads[number] = 0
        for index, block in enumerate(blocks):
            logged[block] = start + self.heads[number] + index * BLOCK
        self.heads[number] += length
        return self.disk.command(WRITE, start + self.heads[number] - length, length, at_ns)

    def move_home(self, number: int, most: int, at_ns: int) -> int:
        """Moves the blocks that are longest in a log; the end."""
        logged = self.logged[number]
        oldest = [block for block, _ in zip(logged, range(most), strict=False)]
        for offset, size in merged(sorted(logged.pop(block) // BLOCK for block in oldest)):
            at_ns = self.disk.command(READ, offset, size, at_ns)
        homes = [(self.home(offset), size) for offset, size in merged(sorted(oldest))]
        return self.disk.write_all(homes, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Empties one log after the other while nobody comes."""
        at_ns = from_ns + self.idle_ns
        for number, logged in enumerate(self.logged):
            while logged and at_ns < to_ns:
                at_ns = self.move_home(number, self.moved_together, max(at_ns, self.disk.now_ns))
            if not logged:
                self.heads[number] = 0
