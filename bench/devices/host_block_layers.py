"""More of what a kernel or a hypervisor puts before a disk: encryption by a processor, an image file whose
tables do not fit in memory, chunks that are zeroed when they are first written, limits in slices of time, two
paths, a cache with watermarks, one that is written back a block a second, compression, and a log whose
segments are cleaned."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from devices.ailments import OneDisk
from devices.base import BLOCK, FLUSH, GIB, MIB, MS, READ, SECOND, US, WRITE, Disk, blocks_of
from devices.caches import DESTAGED_TOGETHER, WriteBack
from devices.volumes import FOUND_NOTHING_NS, Thin


class Encrypted(OneDisk):
    """A disk behind encryption by one slow processor: commands pass it one by one, at 90 MB/s, before a write
    and after a read (dm-crypt)."""

    bytes_per_s = 90_000_000
    free_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The processor, then the disk; of reads the other way round."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        took_ns = 80 * US + int(self.rng.integers(60 * US)) + size * SECOND // self.bytes_per_s
        if op == WRITE:
            self.free_ns = max(at_ns, self.free_ns) + took_ns
            return self.disk.command(WRITE, offset, size, self.free_ns)
        self.free_ns = max(self.disk.command(READ, offset, size, at_ns), self.free_ns) + took_ns
        return self.free_ns


class CachedTables(OneDisk):
    """An image file with its clusters in order, whose tables lie before each 32 MiB: memory keeps eight of
    them, and others are read first (qcow2)."""

    covered, kept = 32 * MIB, 8

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """No table is in memory."""
        super().__init__(name, disk, seed)
        self.size = disk.size // (self.covered + BLOCK) * self.covered
        self.tables: OrderedDict[int, None] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The table, then the data."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        table = offset // self.covered
        place = offset + (table + 1) * BLOCK
        if table not in self.tables:
            at_ns = self.disk.command(READ, table * (self.covered + BLOCK), BLOCK, at_ns)
        self.tables[table] = None
        self.tables.move_to_end(table)
        if len(self.tables) > self.kept:
            self.tables.popitem(last=False)
        return self.disk.command(op, min(place, self.disk.size - size), size, at_ns)


class Zeroing(Thin):
    """A thin volume that writes zeros over a chunk of 16 MiB before it is first used (lvmthin)."""

    chunk = 16 * MIB

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Zeros first, of the chunks that are new."""
        if op == WRITE:
            for chunk in range(offset // self.chunk, (offset + size - 1) // self.chunk + 1):
                if chunk not in self.chunks:
                    place = self.chunks[chunk] = len(self.chunks)
                    start = self.metadata_bytes + place * self.chunk
                    at_ns = self.disk.command(WRITE, start, self.chunk, at_ns)
                    at_ns = self.disk.command(WRITE, place % 65_536 * BLOCK, BLOCK, at_ns)
        return super().serve(op, offset, size, at_ns)


class Sliced(OneDisk):
    """A disk of which a host allows 12 commands in each slice of 100 ms, after a burst of 3,000; the others
    wait for a slice to begin (io.max)."""

    slice_ns, in_slice, burst = 100 * MS, 12, 3000
    used, slice_number = 0, 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Counts once for each 512 KiB."""
        self.slice_number = max(self.slice_number, at_ns // self.slice_ns)
        if self.burst > 0:
            self.burst -= 1
        else:
            counts = max(1, size // (512 << 10))
            if self.used >= self.in_slice:
                self.slice_number, self.used = self.slice_number + 1, 0
                at_ns = max(at_ns, self.slice_number * self.slice_ns)
            self.used += counts
        end_ns = self.disk.command(op, offset, size, at_ns)
        if end_ns // self.slice_ns > self.slice_number:
            self.slice_number, self.used = end_ns // self.slice_ns, 0
        return end_ns


class TwoPaths(OneDisk):
    """A disk with two paths that take turns, one of them 3 ms longer; each 4,000 commands one of them fails,
    and a command waits 30 s (multipath)."""

    number = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """This path or that."""
        self.number += 1
        way_ns = 1_500 * US if self.number % 2 else 100 * US
        if self.number % 4000 == 2000:
            at_ns += 30 * SECOND
        return self.disk.command(op, offset, size, at_ns + way_ns) + way_ns


class Watermarks(WriteBack):
    """A cache for writes alone, written back from half full down to 45 %, beside commands (dm-writecache);
    a FLUSH commits."""

    high, low = 0.5, 0.45
    busy = False

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes back behind it."""
        if op == FLUSH:
            return at_ns + 400 * US
        self.work(at_ns)
        return super().serve(op, offset, size, at_ns)

    def work(self, to_ns: int) -> None:
        """From one mark to the other."""
        most = self.traits.size // BLOCK
        while self.disk.now_ns < to_ns:
            self.busy = len(self.dirty) > (self.low if self.busy else self.high) * most
            if not self.busy:
                return
            self.write_back(DESTAGED_TOGETHER, self.disk.now_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Only what is above the mark."""
        del from_ns
        self.work(to_ns)


class SlowWriteBack(WriteBack):
    """A cache that is written back a block at a time, four a second, to stay out of the way (bcache at its
    least rate)."""

    each_ns = 250 * MS

    def rest(self, from_ns: int, to_ns: int) -> None:
        """One after the other."""
        at_ns = from_ns + self.traits.idle_ns
        while self.dirty and at_ns < to_ns:
            self.write_back(1, max(at_ns, self.disk.now_ns))
            at_ns += self.each_ns


class Compressed(OneDisk):
    """A volume that compresses: fourteen blocks of what tests write fit in one, which is appended; a map of
    which memory keeps a part finds them; zeros and what was never written need no disk (VDO)."""

    packed, mapped, kept = 14, 812, 256
    map_bytes = 8 * GIB

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Nothing is written."""
        super().__init__(name, disk, seed)
        self.places: dict[int, int] = {}
        self.pages: OrderedDict[int, None] = OrderedDict()
        self.waiting: list[int] = []
        self.head = 0

    def page(self, block: int, at_ns: int) -> int:
        """The page of the map that has the block; when it is in memory."""
        page = block // self.mapped
        if page in self.pages:
            self.pages.move_to_end(page)
            return at_ns
        self.pages[page] = None
        if len(self.pages) > self.kept:
            old, _ = self.pages.popitem(last=False)
            at_ns = self.disk.command(WRITE, old % (self.map_bytes // BLOCK) * BLOCK, BLOCK, at_ns)
        return self.disk.command(READ, page % (self.map_bytes // BLOCK) * BLOCK, BLOCK, at_ns)

    def pack(self, at_ns: int) -> int:
        """Appends what waits; the end."""
        self.head = (self.head + BLOCK) % (self.disk.size - self.map_bytes - MIB)
        for block in self.waiting:
            self.places[block] = self.map_bytes + self.head
        self.waiting.clear()
        return self.disk.command(WRITE, self.map_bytes + self.head, BLOCK, at_ns)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Packs fourteen together; a FLUSH packs what there is."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, self.pack(at_ns) if self.waiting else at_ns)
        blocks = blocks_of(offset, size)
        at_ns += 50 * US + size // 3
        if op == WRITE:
            for block in blocks:
                at_ns = self.page(block, at_ns) if block == blocks[0] or not block % self.mapped else at_ns
                self.waiting.append(block)
                if len(self.waiting) >= self.packed:
                    at_ns = self.pack(at_ns)
            return at_ns
        for place in sorted({self.places[block] for block in blocks if block in self.places}):
            at_ns = self.disk.command(READ, place, BLOCK, at_ns)
        return at_ns if any(block in self.places for block in blocks) else at_ns + FOUND_NOTHING_NS


class CleanedLog(OneDisk):
    """A log over the first 20 GiB of a disk, which a volume of that size less a tenth fills: segments of 2
    MiB are copied when it runs short, and when nothing came for three seconds (a log-structured file
    system)."""

    segment = 2 * MIB
    log_bytes = 20 * GIB
    idle_ns = 3 * SECOND
    worth = 0.9
    """Of a segment: where more is alive, copying it in idle time would gain next to nothing, for ever."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Every block was written once, in order."""
        super().__init__(name, disk, seed)
        self.each = self.segment // BLOCK
        count = self.log_bytes // self.segment
        used = count * 9 // 10
        self.size = used * self.segment
        self.moved: dict[int, int] = {}
        """Where blocks lie that do not lie at home."""
        self.alive = np.repeat([self.each, 0], [used, count - used])
        self.tenants: dict[int, list[int]] = {}
        self.free = list(range(used, count))
        self.head = self.free.pop(0) * self.each
        self.left = self.each

    def place(self, block: int) -> int:
        """Where a block lies."""
        return self.moved.get(block, block)

    def append(self, blocks: list[int], at_ns: int) -> int:
        """Writes blocks at the head; the end."""
        while blocks:
            if not self.left:
                self.head, self.left = self.free.pop(0) * self.each, self.each
                self.tenants[self.head // self.each] = []
            part, blocks = blocks[: self.left], blocks[self.left :]
            for number, block in enumerate(part):
                self.alive[self.place(block) // self.each] -= 1
                self.moved[block] = self.head + number
            self.alive[self.head // self.each] += len(part)
            self.tenants.setdefault(self.head // self.each, []).extend(part)
            at_ns = self.disk.command(WRITE, self.head * BLOCK, len(part) * BLOCK, at_ns)
            self.head, self.left = self.head + len(part), self.left - len(part)
        return at_ns

    def victim(self) -> int:
        """The segment with least alive, but for the one that is written."""
        alive = np.where(self.alive > 0, self.alive, 2 * self.each)
        alive[self.head // self.each] = 2 * self.each
        return int(np.argmin(alive))

    def clean(self, victim: int, at_ns: int) -> int:
        """Copies what is alive of a segment; the end."""
        home = range(victim * self.each, (victim + 1) * self.each)
        blocks = [
            block
            for block in (*home, *self.tenants.pop(victim, []))
            if block * BLOCK < self.size and self.place(block) // self.each == victim
        ]
        at_ns = self.disk.command(READ, victim * self.segment, self.segment, at_ns)
        at_ns = self.append(list(dict.fromkeys(blocks)), at_ns)
        self.free.append(victim)
        return at_ns

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Cleans when fewer than four segments are free."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        blocks = blocks_of(offset, size)
        if op == READ:
            for start, length in merged_in_order([self.place(block) for block in blocks]):
                at_ns = self.disk.command(READ, start, length, at_ns)
            return at_ns
        while len(self.free) < 4 + len(blocks) // self.each:
            at_ns = self.clean(self.victim(), at_ns)
        return self.append(list(blocks), at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Keeps a twentieth free, as long as that is worth while."""
        at_ns = from_ns + self.idle_ns
        while len(self.free) < len(self.alive) // 20 and at_ns < to_ns:
            victim = self.victim()
            if self.alive[victim] > self.worth * self.each:
                break
            at_ns = self.clean(victim, max(at_ns, self.disk.now_ns))


def merged_in_order(blocks: list[int]) -> list[tuple[int, int]]:
    """Block numbers as extents in the order in which they are asked for.

    >>> merged_in_order([5, 6, 1])
    [(20480, 8192), (4096, 4096)]
    """
    extents: list[tuple[int, int]] = []
    for block in blocks:
        if extents and sum(extents[-1]) == block * BLOCK:
            extents[-1] = (extents[-1][0], extents[-1][1] + BLOCK)
        else:
            extents.append((block * BLOCK, BLOCK))
    return extents
