"""Volumes that place data themselves, and what is no disk at all: a log-structured volume, thin provisioning,
deduplication, a file with unwritten extents, a disk over the network."""

from __future__ import annotations

import numpy as np

from devices.base import BLOCK, FLUSH, GIB, MIB, READ, SECOND, US, WRITE, Device, Disk, blocks_of
from skylight.evidence import U64

FOUND_NOTHING_NS = 20 * US
"""Answer to a read of what was never written: a look-up in memory."""


class LogStructured(Device):
    """A volume that appends every write to a log over the whole disk and finds blocks by a map in memory.
    The disk is so much larger than what is written that nothing is collected."""

    def __init__(self, name: str, disk: Disk) -> None:
        """An empty volume of half the disk, so that the log has space."""
        super().__init__(name, disk.size // 2)
        self.disk = disk
        self.places: dict[int, int] = {}
        self.head = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes go to the head of the log, reads to where the first block of theirs is."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        blocks = blocks_of(offset, size)
        if op == READ:
            place = self.places.get(blocks[0])
            if place is None:
                return at_ns + FOUND_NOTHING_NS
            return self.disk.command(READ, min(place, self.disk.size - size), size, at_ns)
        length = len(blocks) * BLOCK
        if self.head + length > self.disk.size:
            self.head = 0
        for number, block in enumerate(blocks):
            self.places[block] = self.head + number * BLOCK
        self.head += length
        return self.disk.command(WRITE, self.head - length, length, at_ns)


class Thin(Device):
    """A thin-provisioned volume: a chunk gets its place in the pool when it is first written, which costs a
    write of metadata; what has no place is answered without the disk."""

    chunk = MIB
    metadata_bytes = GIB

    def __init__(self, name: str, disk: Disk) -> None:
        """A volume of the disk's size with nothing in it."""
        super().__init__(name, disk.size - self.metadata_bytes - GIB)
        self.disk = disk
        self.chunks: dict[int, int] = {}

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Each chunk of a command is done after the other."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        end = offset + size
        while offset < end:
            chunk, within = divmod(offset, self.chunk)
            length = min(self.chunk - within, end - offset)
            place = self.chunks.get(chunk)
            if place is None and op == WRITE:
                place = self.chunks[chunk] = len(self.chunks)
                at_ns = self.disk.command(WRITE, place % 65_536 * BLOCK, BLOCK, at_ns)
            if place is None:
                at_ns += FOUND_NOTHING_NS
            else:
                pool = self.metadata_bytes + place * self.chunk + within
                at_ns = self.disk.command(op, pool, length, at_ns)
            offset += length
        return at_ns


class Clusters(Thin):
    """An image file that grows (qcow2): clusters of 64 KiB are appended when they are first written, with a
    block of a table."""

    chunk = 64 << 10


class Deduplicated(Device):
    """A volume that stores equal blocks once. All that a test writes is alike, so a write is an entry in a
    log of references, of which 64 reach the disk together, and reads are answered from memory."""

    together = 64

    def __init__(self, name: str, disk: Disk) -> None:
        """A volume of the disk's size with nothing in it."""
        super().__init__(name, disk.size)
        self.disk = disk
        self.references = 0
        self.rng = np.random.default_rng(1)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Hashing takes longer than anything else."""
        took_ns = round(120 * US * float(np.exp(self.rng.normal(0, 0.15)))) + size // 2
        if op == READ:
            return at_ns + took_ns // 3
        self.references += 1
        if op == FLUSH or self.references % self.together == 0:
            place = self.references * BLOCK % self.disk.size
            return self.disk.command(WRITE, place, BLOCK, at_ns) + took_ns
        return at_ns + took_ns


class UnwrittenFile(Device):
    """A file that was allocated and not written, on a disk of its own: blocks never written are zeros that
    the file system makes up, the others are on the disk. The file system says which parts are holes."""

    def __init__(self, name: str, disk: Disk) -> None:
        """A file of the disk's size."""
        super().__init__(name, disk.size)
        self.disk = disk
        self.written: set[int] = set()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Reads of unwritten blocks do not reach the disk."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        blocks = blocks_of(offset, size)
        if op == WRITE:
            self.written.update(blocks)
        elif self.written.isdisjoint(blocks):
            return at_ns + 6 * US
        return self.disk.command(op, offset, size, at_ns)

    def holes(self, offsets: U64) -> float | None:
        """The share of offsets at which nothing is stored."""
        if not len(offsets):
            return None
        return sum(int(offset) // BLOCK not in self.written for offset in offsets) / len(offsets)


class Network(Device):
    """A disk over the network, spread over many servers: a round trip, a queue somewhere, now and then a
    pause."""

    def __init__(self, name: str, size: int, seed: int) -> None:
        """Has no disk of its own."""
        super().__init__(name, size, reports_write_cache=None)
        self.rng = np.random.default_rng(seed)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Latency does not depend on the place."""
        del offset
        mean_us = 450 if op == READ else 900
        took_ns = round(mean_us * US * float(np.exp(self.rng.normal(0, 0.35)))) + size * SECOND // 250_000_000
        if self.rng.random() < 0.002:
            took_ns += round(float(self.rng.uniform(5, 80)) * 1e6)
        return at_ns + took_ns
