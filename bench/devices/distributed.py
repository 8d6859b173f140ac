"""Many disks or servers as one device: objects spread over a cluster, objects in a bucket with a cache
before it, parity with a journal or a battery, parity without one disk, a mirror that is being rebuilt."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from devices.base import BLOCK, FLUSH, MIB, MS, READ, SECOND, US, WRITE, Device, Disk
from devices.firmware import HASH
from devices.flash import Flash
from devices.redundant import Mirrored, Parity


class Objects(Device):
    """A volume of objects of 4 MiB on the disks of a cluster: a small write goes to a log of its disk first
    and home when sixty-four wait; where an object lies is kept in memory for as many as fit (Ceph)."""

    object_bytes = 4 * MIB
    log_bytes = 512 * MIB
    known = 3000
    small = 64 << 10

    def __init__(self, name: str, disks: list[Disk], seed: int) -> None:
        """Nothing is written; what was never written is answered by the map."""
        super().__init__(name, disks[0].size // 4, reports_write_cache=None)
        self.disks = disks
        self.rng = np.random.default_rng(seed)
        self.objects: dict[int, tuple[int, int]] = {}
        self.seen: OrderedDict[int, None] = OrderedDict()
        self.used = [0] * len(disks)
        self.heads = [0] * len(disks)
        self.deferred: list[list[tuple[int, int]]] = [[] for _ in disks]
        for number, disk in enumerate(disks):
            disk.idle_until(number * 3_779_123)

    def trip_ns(self) -> int:
        """Half a round trip, with the work of the server."""
        return round(250 * US * float(np.exp(self.rng.normal(0, 0.35))))

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Each object of a command is done at the same time."""
        at_ns += self.trip_ns()
        if op == FLUSH:
            return at_ns + self.trip_ns()
        ends, end = [at_ns], offset + size
        while offset < end:
            number, within = divmod(offset, self.object_bytes)
            length = min(self.object_bytes - within, end - offset)
            ends.append(self.object(op, number, within, length, at_ns))
            offset += length
        return max(ends) + self.trip_ns()

    def object(self, op: int, number: int, within: int, length: int, at_ns: int) -> int:
        """A part of an object."""
        if number not in self.objects:
            if op == READ:
                return at_ns + 100 * US
            picked = (number * HASH % (1 << 64) >> 32) % len(self.disks)
            self.objects[number] = picked, self.used[picked]
            self.used[picked] += 1
        which, slot = self.objects[number]
        disk, place = self.disks[which], 2 * self.log_bytes + slot * self.object_bytes + within
        if number not in self.seen:
            page = self.log_bytes + number * HASH % (1 << 64) % (self.log_bytes // BLOCK) * BLOCK
            at_ns = disk.command(READ, page, BLOCK, at_ns)
        self.seen[number] = None
        self.seen.move_to_end(number)
        if len(self.seen) > self.known:
            self.seen.popitem(last=False)
        if op == READ or length > self.small:
            return disk.command(op, place, length, at_ns)
        self.heads[which] = (self.heads[which] + length + BLOCK) % (self.log_bytes - MIB)
        logged_ns = disk.command(WRITE, self.heads[which] // BLOCK * BLOCK, length + BLOCK, at_ns)
        self.deferred[which].append((place, length))
        if len(self.deferred[which]) >= 64:
            disk.write_all(sorted(dict(self.deferred[which]).items()), logged_ns)
            self.deferred[which].clear()
        return logged_ns


class Bucket(Flash):
    """Objects of 8 MiB in a bucket far away, with 4 GiB of them on flash here; a write to others fetches the
    object first."""

    object_bytes, kept = 8 * MIB, 512

    def __init__(self, name: str, size: int, seed: int) -> None:
        """Nothing is here."""
        super().__init__(name, size, seed)
        self.here: OrderedDict[int, None] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """From flash, or from far away."""
        if op != FLUSH:
            for number in range(offset // self.object_bytes, (offset + size - 1) // self.object_bytes + 1):
                if number not in self.here:
                    at_ns += round(45 * MS * float(np.exp(self.rng.normal(0, 0.5))))
                self.here[number] = None
                self.here.move_to_end(number)
                if len(self.here) > self.kept:
                    self.here.popitem(last=False)
        return super().serve(op, offset, size, at_ns)

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Nothing besides."""
        del offset, size, at_ns
        return 0


class Journaled(Parity):
    """Parity with a journal of flash: a write is there first, and on the disks when it is answered (md)."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The journal, then the disks."""
        if op == WRITE:
            at_ns += 90 * US + size * SECOND // 450_000_000
        return super().serve(op, offset, size, at_ns)


class Degraded(Parity):
    """Parity without its last disk: what lay there is worked out from all others."""

    def partly(self, op: int, row: int, within: int, length: int, at_ns: int) -> int:
        """The whole row is read where the disk that is gone would have been."""
        gone = len(self.disks) - 1
        parity = gone - row % len(self.disks)
        first, last = within // self.chunk, (within + length - 1) // self.chunk
        touched = {(parity + 1 + number) % len(self.disks) for number in range(first, last + 1)}
        there = [disk for disk in self.disks if disk is not self.disks[gone]]
        if op == READ and gone not in touched:
            return super().partly(op, row, within, length, at_ns)
        start, span = row * self.chunk + within % self.chunk, min(length, self.chunk - within % self.chunk)
        known_ns = max(disk.command(READ, start, span, at_ns) for disk in there)
        if op == READ:
            return known_ns
        written = [self.disks[number] for number in {*touched, parity} if number != gone]
        return max(disk.command(WRITE, start, span, known_ns) for disk in written)

    def whole(self, op: int, row: int, rows: int, at_ns: int) -> int:
        """Of all that are there."""
        return max(disk.command(op, row * self.chunk, rows * self.chunk, at_ns) for disk in self.disks[:-1])


class AsDisk:
    """An array as what is before it sees a disk."""

    def __init__(self, array: Parity) -> None:
        """All of it."""
        self.array, self.size = array, array.size

    @property
    def now_ns(self) -> int:
        """When the last of its disks is free."""
        return max(disk.now_ns for disk in self.array.disks)

    def command(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """One command; its completion."""
        return self.array.serve(op, offset, size, at_ns)

    def write_all(self, extents: list[tuple[int, int]], at_ns: int) -> int:
        """One after the other; the end."""
        for offset, size in extents:
            at_ns = self.array.serve(WRITE, offset, size, at_ns)
        return at_ns


class Rebuilding(Mirrored):
    """A mirror of which one disk is copied to the other: 1 MiB before each fourth command, and without rest
    when nothing came for a while."""

    count, copied = 0, 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Copies, then does what is asked."""
        self.count += 1
        if self.count % 4 == 0 and self.copied + MIB <= self.size:
            self.copied += MIB
            read_ns = self.disks[0].command(READ, self.copied - MIB, MIB, at_ns)
            self.disks[1].command(WRITE, self.copied - MIB, MIB, read_ns)
        if op == READ:
            return self.disks[0].command(READ, offset, size, at_ns)
        return super().serve(op, offset, size, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Goes on; only the last step is made."""
        if to_ns - from_ns > SECOND:
            self.copied = min(self.copied + (to_ns - from_ns) // (9 * MS) * MIB, self.size // MIB * MIB)
            if self.copied + MIB <= self.size:
                for disk in self.disks:
                    disk.command(READ, self.copied, MIB, to_ns - 4 * MS)
