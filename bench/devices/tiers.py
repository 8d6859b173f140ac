"""Flash beside a disk, used in other ways than as a cache that is emptied when idle: written through,
written back at a steady rate with streams passed by, and tiers that swap."""

from __future__ import annotations

from collections import OrderedDict

from devices.base import BLOCK, FLUSH, MIB, READ, SECOND, WRITE, Disk, blocks_of
from devices.caches import DESTAGED_TOGETHER, CacheTraits, WriteBack


class WriteThrough(WriteBack):
    """Writes go to the disk and are kept for reads."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Nothing is ever dirty."""
        if op == READ:
            return super().serve(op, offset, size, at_ns)
        if op == WRITE and size <= self.traits.bypass_bytes:
            self.keep(blocks_of(offset, size))
        return self.disk.command(op, offset, size, at_ns)


class SteadyWriteBack(WriteBack):
    """A write-back cache that writes back all the time once a tenth of it is dirty, and passes streams by:
    from the fifth megabyte that continues another on, a command goes to the disk (bcache)."""

    stream_bytes = 4 * MIB
    blocks_per_s = 64

    def __init__(self, name: str, disk: Disk, traits: CacheTraits) -> None:
        """An empty cache."""
        super().__init__(name, disk, traits)
        self.streams: OrderedDict[int, int] = OrderedDict()
        self.worked_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Streams go to the disk, the rest to the cache."""
        self.work(at_ns)
        if op == FLUSH:
            return at_ns + self.traits.write_ns
        length = self.streams.pop(offset, 0) + size
        self.streams[offset + size] = length
        if len(self.streams) > 128:
            self.streams.popitem(last=False)
        if length <= self.stream_bytes:
            return super().serve(op, offset, size, at_ns)
        blocks = blocks_of(offset, size)
        if op == WRITE:
            for block in blocks:
                self.dirty.pop(block, None)
                self.clean.pop(block, None)
        elif all(block in self.dirty or block in self.clean for block in blocks):
            return super().serve(op, offset, size, at_ns)
        return self.disk.command(op, offset, size, at_ns)

    def work(self, to_ns: int) -> None:
        """Writes back at its rate while more than a tenth is dirty."""
        due = (to_ns - self.worked_ns) * self.blocks_per_s // SECOND
        if due < 1:
            return
        spare = len(self.dirty) - self.traits.size // BLOCK // 10
        while due > 0 and spare > 0 and self.disk.now_ns < to_ns:
            together = min(DESTAGED_TOGETHER, due, spare)
            self.write_back(together, max(self.worked_ns, self.disk.now_ns))
            due, spare = due - together, spare - together
        self.worked_ns = to_ns

    def rest(self, from_ns: int, to_ns: int) -> None:
        """After half a minute alone it writes back all that it can."""
        alone_ns = from_ns + 30 * SECOND
        self.work(min(alone_ns, to_ns))
        while self.dirty and max(alone_ns, self.disk.now_ns) < to_ns:
            self.write_back(DESTAGED_TOGETHER, max(alone_ns, self.disk.now_ns))
        self.worked_ns = max(self.worked_ns, to_ns)


class Tiers(WriteBack):
    """A tier of flash before a tier of disk, in slabs of 1 MiB: writes collect in a cache of the flash; a
    slab that is read three times moves up when nobody comes, and the one that is longest there moves down."""

    slabs_up = 4096

    def __init__(self, name: str, disk: Disk, traits: CacheTraits) -> None:
        """Everything is on the disk."""
        super().__init__(name, disk, traits)
        self.reads: dict[int, int] = {}
        self.up: dict[int, None] = {}

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A slab that is up is read and written there."""
        slab = offset // MIB
        if op != FLUSH and slab in self.up and size <= MIB:
            traits = self.traits
            base_ns = traits.read_ns if op == READ else traits.write_ns
            return at_ns + base_ns + size * SECOND // traits.bytes_per_s
        if op == READ:
            self.reads[slab] = self.reads.get(slab, 0) + 1
        return super().serve(op, offset, size, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Empties the cache, then swaps slabs."""
        super().rest(from_ns, to_ns)
        at_ns = max(from_ns + 5 * SECOND, self.disk.now_ns)
        hot = [slab for slab, count in self.reads.items() if count >= 3]
        for slab in hot:
            if at_ns >= to_ns:
                return
            at_ns = self.disk.command(READ, slab * MIB, min(MIB, self.size - slab * MIB), at_ns)
            del self.reads[slab]
            self.up[slab] = None
            if len(self.up) > self.slabs_up:
                cold = next(iter(self.up))
                del self.up[cold]
                at_ns = self.disk.command(WRITE, cold * MIB, min(MIB, self.size - cold * MIB), at_ns)
