"""What the firmware of a disk does besides: it writes out a cache behind the host's back, saves memory to
flash at a FLUSH, scans, sleeps in several depths, verifies, tries again on tracks of its own, reassigns what
it could not read, and rewrites neighbours; and two arms that share a spindle."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from devices.ailments import OneDisk
from devices.arrays import Concatenated
from devices.base import BLOCK, FLUSH, GIB, MIB, MS, READ, SECOND, US, WRITE, Disk, blocks_of, merged
from devices.caches import MediaCache

HASH = 0x9E3779B97F4A7C15


def chosen(number: int, one_in: int) -> bool:
    """Whether a place is one of those picked at random, for good: one in `one_in`."""
    return number * HASH % (1 << 64) < (1 << 64) // one_in


class Destaging(OneDisk):
    """A disk with memory that takes writes at once and writes them out in the background, the oldest first, a
    few together in order of address. A command for the disk waits for what is being written out."""

    memory_bytes = 64 * MIB
    together = 16
    answer_ns = 60 * US
    bytes_per_s = 400_000_000

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Nothing in memory."""
        super().__init__(name, disk, seed)
        self.dirty: OrderedDict[int, None] = OrderedDict()
        self.from_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Memory takes what fits."""
        self.work(at_ns, op)
        if op == FLUSH:
            return self.flushed(at_ns)
        blocks = blocks_of(offset, size)
        taken_ns = at_ns + self.answer_ns + size * SECOND // self.bytes_per_s
        if op == READ:
            if all(block in self.dirty for block in blocks):
                return taken_ns
            return max(self.disk.command(READ, offset, size, at_ns), taken_ns)
        if size > self.memory_bytes // 8:
            for block in blocks:
                self.dirty.pop(block, None)
            return self.disk.command(WRITE, offset, size, at_ns)
        if not self.dirty:
            self.from_ns = at_ns
        while (len(self.dirty) + len(blocks)) * BLOCK > self.memory_bytes:
            at_ns = max(at_ns, self.write_out(max(self.disk.now_ns, self.from_ns)))
        self.dirty.update(dict.fromkeys(blocks))
        return max(at_ns + self.answer_ns, taken_ns)

    def write_out(self, at_ns: int) -> int:
        """The oldest few; the end."""
        oldest = [block for block, _ in zip(self.dirty, range(self.together), strict=False)]
        for block in oldest:
            del self.dirty[block]
        return self.disk.write_all(merged(sorted(oldest)), at_ns)

    def may_work(self, op: int, at_ns: int) -> bool:
        """Whether it writes out now."""
        del op, at_ns
        return True

    def work(self, to_ns: int, op: int) -> None:
        """Writes out what there was time for."""
        while self.dirty and max(self.disk.now_ns, self.from_ns) < to_ns and self.may_work(op, to_ns):
            self.write_out(max(self.disk.now_ns, self.from_ns))

    def flushed(self, at_ns: int) -> int:
        """All of it."""
        while self.dirty:
            at_ns = self.write_out(max(at_ns, self.disk.now_ns))
        return self.disk.command(FLUSH, 0, 0, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Goes on."""
        del from_ns
        self.work(to_ns, FLUSH)


class FlashAtFlush(Destaging):
    """A disk whose FLUSH saves memory to flash in a millisecond and leaves the rest for later."""

    def flushed(self, at_ns: int) -> int:
        """As long as flash takes."""
        return at_ns + 700 * US + len(self.dirty) * BLOCK // 2


class BridgeMemory(Destaging):
    """A bridge with 8 MB that takes writes, writes them out in their order, and answers FLUSH at once."""

    memory_bytes = 8_000_000 // BLOCK * BLOCK
    together = 16
    answer_ns = 250 * US
    bytes_per_s = 140_000_000

    def write_out(self, at_ns: int) -> int:
        """The oldest, with what follows it in order and address; the end."""
        blocks = [next(iter(self.dirty))]
        for block in list(islice(self.dirty, 1, self.together)):
            if block != blocks[-1] + 1:
                break
            blocks.append(block)
        for block in blocks:
            del self.dirty[block]
        return self.disk.command(WRITE, blocks[0] * BLOCK, len(blocks) * BLOCK, at_ns)

    def flushed(self, at_ns: int) -> int:
        """It does nothing."""
        return at_ns + self.answer_ns


class ReadsFirst(Destaging):
    """A disk behind an elevator that prefers reads: writes wait until none came for 50 ms, or three quarters
    of 32 MiB wait."""

    memory_bytes = 32 * MIB
    together = 64
    last_read_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Remembers when it read."""
        end_ns = super().serve(op, offset, size, at_ns)
        if op == READ:
            self.last_read_ns = end_ns
        return end_ns

    def may_work(self, op: int, at_ns: int) -> bool:
        """While no reads come."""
        return at_ns - self.last_read_ns > 50 * MS or len(self.dirty) * BLOCK > self.memory_bytes * 3 // 4


class MediaScan(OneDisk):
    """A disk that reads itself from one end to the other whenever nothing came for a second: the next command
    waits for what is being read, and for the arm from there."""

    idle_ns, step = SECOND, MIB
    scanned = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """As a disk does."""
        return self.disk.command(op, offset, size, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """The arm is where the scan is; only its last step is made."""
        last_ns = to_ns - 3 * MS
        if max(from_ns, self.disk.now_ns) + self.idle_ns < last_ns:
            self.scanned += (last_ns - from_ns) // (8 * MS) * self.step
            place = self.scanned % (self.size - self.step) // BLOCK * BLOCK
            self.disk.command(READ, place, self.step, last_ns)


class IdleModes(OneDisk):
    """A helium disk that saves power: electronics asleep after 2 s without commands (30 ms to wake), heads
    unloaded after 8 s (0.9 s), slower platters after a minute (4 s, and another angle)."""

    modes = ((60 * SECOND, 4 * SECOND), (8 * SECOND, 900 * MS), (2 * SECOND, 30 * MS))
    idle_from_ns = 0
    shift_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Wakes first."""
        for after_ns, wake_ns in self.modes:
            if at_ns - self.idle_from_ns >= after_ns:
                at_ns += wake_ns + int(self.rng.integers(wake_ns // 10))
                if wake_ns >= SECOND:
                    self.shift_ns += int(self.rng.integers(10 * MS))
                break
        end_ns = self.disk.command(op, offset, size, at_ns + self.shift_ns) - self.shift_ns
        self.idle_from_ns = end_ns
        return end_ns


class VerifiedAtFirst(OneDisk):
    """A disk that reads back the first 4 GiB that are written to it after a start (write-read-verify)."""

    verified = 4 * GIB

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A revolution more, for as long as it verifies."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op != WRITE or self.verified <= 0:
            return end_ns
        self.verified -= size
        return self.disk.command(READ, offset, size, end_ns)


class OffTrack(OneDisk):
    """A disk with a bent disc: one MiB in twelve lies on tracks that reads and writes settle on a revolution
    late, and a few on ones that take three."""

    rotation_ms = 10.17

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """As often at each place as ever."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op == FLUSH or not chosen(offset // MIB, 12):
            return end_ns
        return self.late(end_ns, self.rotation_ms * (3 if chosen(offset // MIB, 60) else 1))


class Reassigning(OneDisk):
    """A disk of which one block in 300 is read after seconds of tries and is reassigned when it is next
    written, which takes half a second: to spare tracks at the inner diameter."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Nothing is reassigned yet."""
        super().__init__(name, disk, seed)
        self.size -= GIB
        self.spare: dict[int, int] = {}

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Block by block, only where one is bad."""
        if op == FLUSH or size > MIB:
            return self.disk.command(op, offset, size, at_ns)
        bad = [block for block in blocks_of(offset, size) if chosen(block, 300)]
        end_ns = self.disk.command(op, offset, size, at_ns)
        for block in bad:
            place = self.spare.get(block)
            if place is None and op == WRITE:
                self.spare[block] = place = self.size + len(self.spare) * BLOCK
                end_ns = self.late(end_ns, 500)
            if place is None:
                end_ns = self.late(end_ns, float(self.rng.uniform(800, 2500)))
            else:
                end_ns = self.disk.command(op, place, BLOCK, end_ns)
        return end_ns


class Interlaced(OneDisk):
    """A disk of interlaced tracks: every other track lies below the edges of its two neighbours, which are
    read before it is written and written again after it."""

    track = MIB

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A write to a track on top costs nothing more."""
        if op != WRITE or offset // self.track % 2 or offset < self.track:
            return self.disk.command(op, offset, size, at_ns)
        sides = [offset - self.track, min(offset + self.track, self.size - size)]
        for place in sides:
            at_ns = self.disk.command(READ, place, size, at_ns)
        for place in (offset, *sides):
            at_ns = self.disk.command(WRITE, place, size, at_ns)
        return at_ns


class DualActuator(Concatenated):
    """Two arms on one spindle, each with half of the addresses: one disk to a host."""

    def __init__(self, name: str, disks: list[Disk]) -> None:
        """Two halves of one disk: the first half of each."""
        half = disks[0].size // 2 // MIB * MIB
        super().__init__(name, disks, half)
        self.size = 2 * half


class CarefulMediaCache(MediaCache):
    """A conventional disk with a log whose firmware brings each write home by itself, ten a second: it
    fetches it, writes it home, reads it back, and notes that in a map at the start of the log."""

    idle_ns = 400 * MS
    each_ns = 100 * MS
    newest = False

    def next_write(self) -> tuple[int, list[int]]:
        """Where the write lies that goes home next, and its blocks."""
        step = -1 if self.newest else 1
        blocks = [next(reversed(self.places) if self.newest else iter(self.places))]
        while self.places.get(blocks[-1] + step) == self.places[blocks[-1]] + step * BLOCK:
            blocks.append(blocks[-1] + step)
        return min(self.places[block] for block in blocks), sorted(blocks)

    def move_home(self, most: int, at_ns: int) -> int:
        """One write alone where the disk is idle; the end."""
        if most > self.moved_together:
            return super().move_home(most, at_ns)
        began_ns, (logged, blocks) = at_ns, self.next_write()
        for block in blocks:
            del self.places[block]
        home, size = blocks[0] * BLOCK + self.log_bytes, len(blocks) * BLOCK
        for op, place, length in (
            (READ, logged, size), (WRITE, home, size), (READ, home, size), (WRITE, 0, BLOCK),
        ):  # fmt: skip
            at_ns = self.disk.command(op, place, length, at_ns)
        return max(at_ns, began_ns + self.each_ns)


class NewestFirst(CarefulMediaCache):
    """The same with the newest write first, five in two seconds."""

    each_ns = 400 * MS
    newest = True


class Sweeping(CarefulMediaCache):
    """The same with a log of 128 MiB in order of address, five in two seconds: from the middle, where its arm
    rests, to the end, and then from the start again."""

    log_bytes = 128 * MIB
    each_ns = 400 * MS
    from_block = 0

    def __init__(self, name: str, disk: Disk) -> None:
        """An empty log."""
        super().__init__(name, disk)
        self.ahead: list[int] = []

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Sorts what there is."""
        self.from_block = self.from_block or self.size // 2 // BLOCK
        self.ahead = sorted(self.places, key=lambda block: (block < self.from_block, block), reverse=True)
        super().rest(from_ns, to_ns)

    def next_write(self) -> tuple[int, list[int]]:
        """The next write behind where it was."""
        while (block := self.ahead.pop()) not in self.places:
            pass
        write = [block]
        while self.places.get(write[-1] + 1) == self.places[write[-1]] + BLOCK:
            write.append(write[-1] + 1)
        self.from_block = write[-1] + 1
        return self.places[block], write


class PoliteMediaCache(MediaCache):
    """A conventional disk with a log whose firmware, when idle, moves a block home and rests for a quarter of
    a second, so that it never is in the way."""

    idle_ns = 2 * SECOND
    moved_together = 1
    rest_ns = 250 * MS

    def rest(self, from_ns: int, to_ns: int) -> None:
        """One after the other, with rests."""
        at_ns = from_ns + self.idle_ns
        while self.places and at_ns < to_ns:
            at_ns = self.move_home(1, max(at_ns, self.disk.now_ns)) + self.rest_ns
        if not self.places:
            self.head = 0
