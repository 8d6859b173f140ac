"""What people put together: a layer over a disk that has a layer of its own, and hosts, bridges and disks
with habits that hide or add costs."""

from __future__ import annotations

from collections import OrderedDict

from devices.ailments import Delayed, OneDisk, Pauses
from devices.arrays import Striped
from devices.base import BLOCK, FLUSH, GIB, MIB, MS, READ, SECOND, US, WRITE, Disk, blocks_of
from devices.caches import MediaCache, WriteBack
from devices.flash import Flash
from devices.redundant import Mirrored
from devices.volumes import Thin


class WriteAround(WriteBack):
    """A cache for reads alone: writes go to the disk, and what they change is forgotten (bcache)."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Nothing is ever dirty."""
        if op == READ:
            return super().serve(op, offset, size, at_ns)
        for block in blocks_of(offset, size):
            self.clean.pop(block, None)
        return self.disk.command(op, offset, size, at_ns)


class ShortDelay(Delayed):
    """A disk behind a delay of 20 ms, and up to a timer's tick of 1 ms (dm-delay)."""

    delay_ns, tick_ns = 20 * MS, MS


class SplittingBridge(OneDisk):
    """A disk behind a USB bridge that makes commands of 64 KiB of larger ones, one after the other, and takes
    2 ms for each that a host sends."""

    part = 64 << 10

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Part after part."""
        at_ns += MS + int(self.rng.integers(200 * US))
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns) + MS
        for start in range(offset, offset + size, self.part):
            at_ns = self.disk.command(op, start, min(self.part, offset + size - start), at_ns)
        return at_ns + MS


class HardToRead(OneDisk):
    """A disk with worn heads: one read in five anywhere takes one to five revolutions more."""

    rotation_ms = 10.17

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Tries again."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op == READ and self.rng.random() < 0.2:
            end_ns = self.late(end_ns, self.rotation_ms * int(self.rng.integers(1, 6)))
        return end_ns


class NeverDone(Pauses):
    """A disk that is busy with itself for 0.7 s every 2.5 s, whether or not it was written to."""

    every_ns, for_ns = 2_500 * MS, 700 * MS


class FileServer(OneDisk):
    """A disk of a small server behind a network of 1 Gbit/s with jitter, whose memory of 512 MiB keeps what
    it read; writes go through."""

    kept_blocks = 512 * MIB // BLOCK

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Nothing is kept yet."""
        super().__init__(name, disk, seed)
        self.kept: OrderedDict[int, None] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Each way takes 0.15 ms and an exponential time more; a packet in 2,000 is sent again."""
        there_ns, back_ns = (150 * US + round(float(self.rng.exponential(0.6)) * MS) for _ in range(2))
        if self.rng.random() < 1 / 2_000:
            back_ns += 200 * MS
        transfer_ns = size * SECOND // 110_000_000
        if op == WRITE:
            there_ns += transfer_ns
        elif op == READ:
            back_ns += transfer_ns
        blocks = blocks_of(offset, size)
        if op == READ and all(block in self.kept for block in blocks):
            return at_ns + there_ns + 50 * US + back_ns
        end_ns = self.disk.command(op, offset, size, at_ns + there_ns)
        self.kept.update(dict.fromkeys(blocks))
        while len(self.kept) > self.kept_blocks:
            self.kept.popitem(last=False)
        return end_ns + back_ns


class CoarseThin(Thin):
    """A thin volume of a volume manager: chunks of 512 KiB."""

    chunk = 512 << 10


class Misaligned(OneDisk):
    """A disk of 4 KiB sectors with a partition that begins amid one: a write reads the sectors at its two
    ends first, and writes them a revolution later."""

    shift = 2048

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """A block is left at the end."""
        super().__init__(name, disk, seed)
        self.size -= 16 * BLOCK

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Whole sectors around what is asked for."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        start = (offset + self.shift) // BLOCK * BLOCK
        end = -(-(offset + self.shift + size) // BLOCK) * BLOCK
        if op == WRITE:
            at_ns = self.disk.command(READ, start, end - start, at_ns)
        return self.disk.command(op, start, end - start, at_ns)


class SleepyMemory(Flash):
    """Memory behind a driver that sleeps as long as a disk would take: 4 ms and up to 8.33 ms more."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The place does not matter."""
        del offset
        if op == FLUSH:
            return at_ns + 30 * US
        return at_ns + 4 * MS + int(self.rng.integers(8_330 * US)) + size // 4


class HiccupFlash(Flash):
    """A cheap solid-state disk of which one command in twelve waits 15 ms."""

    read_us, write_us, jitter = 110.0, 60.0, 0.15
    bytes_per_s = 400_000_000

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Reads hiccup too."""
        end_ns = super().serve(op, offset, size, at_ns)
        return end_ns + (15 * MS + int(self.rng.integers(MS)) if self.rng.random() < 1 / 12 else 0)

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Nothing besides."""
        del offset, size, at_ns
        return 0


class SmallMediaCache(MediaCache):
    """A conventional disk with a log of 100 MiB."""

    log_bytes = 100 * MIB
    idle_ns = 400 * MS
    largest = 128 << 10


class MirroredStripes(Striped):
    """RAID-10: stripes of 512 KiB over two mirrors."""

    def __init__(self, name: str, disks: list[Disk]) -> None:
        """Four disks, of each of which whole GiB are used."""
        super().__init__(name, [Mirrored(name, disks[:2]), Mirrored(name, disks[2:])], 512 << 10)
        self.size = self.size // (2 * GIB) * (2 * GIB)


class Swapped(OneDisk):
    """A volume of two partitions of a disk, the second before the first."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Halves of whole MiB."""
        super().__init__(name, disk, seed)
        self.half = disk.size // 2 // MIB * MIB
        self.size = 2 * self.half

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command over the border is done in parts."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        if offset >= self.half:
            return self.disk.command(op, offset - self.half, size, at_ns)
        first = min(size, self.half - offset)
        at_ns = self.disk.command(op, self.half + offset, first, at_ns)
        return self.disk.command(op, 0, size - first, at_ns) if size > first else at_ns
