"""A disk that is reached over something: an iSCSI server with a cache of its own, a mirror on another
machine, a USB enclosure that gets hot."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from devices.base import BLOCK, FLUSH, GIB, MIB, MS, READ, SECOND, US, WRITE, Device, Disk, blocks_of
from devices.mappers import DirtyRegions


class Iscsi(Device):
    """A disk of a server that keeps what it read and reads ahead of streams, and writes through."""

    kept_blocks = GIB // BLOCK
    ahead = MIB

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Nothing is kept yet."""
        super().__init__(name, disk.size, reports_write_cache=None)
        self.disk = disk
        self.rng = np.random.default_rng(seed)
        self.kept: OrderedDict[int, None] = OrderedDict()
        self.expected = -1

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Half a round trip, the server, and half a round trip."""
        trip_ns = round(200 * US * float(np.exp(self.rng.normal(0, 0.4)))) + size * SECOND // 900_000_000
        if self.rng.random() < 0.001:
            trip_ns += round(float(self.rng.uniform(3, 40)) * MS)
        return self.server(op, offset, size, at_ns + trip_ns // 2) + trip_ns // 2

    def server(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """What the server does."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        blocks = blocks_of(offset, size)
        if op == WRITE:
            self.keep(blocks)
            return self.disk.command(WRITE, offset, size, at_ns)
        stream, self.expected = offset == self.expected, offset + size
        if all(block in self.kept for block in blocks):
            return at_ns + 20 * US
        end_ns = self.disk.command(READ, offset, size, at_ns)
        self.keep(blocks)
        if stream and offset + size + self.ahead <= self.size:
            self.disk.command(READ, offset + size, self.ahead, end_ns)
            self.keep(blocks_of(offset + size, self.ahead))
        return end_ns

    def keep(self, blocks: range) -> None:
        """Remembers blocks, and forgets those that it remembers for longest."""
        self.kept.update(dict.fromkeys(blocks))
        while len(self.kept) > self.kept_blocks:
            self.kept.popitem(last=False)


class NetworkMirror(DirtyRegions):
    """A disk and its copy on another machine (DRBD): a write waits for both, and for the activity log when
    it is the first of 4 MiB."""

    def __init__(self, name: str, disk: Disk, copy: Disk, seed: int) -> None:
        """The log holds 1,237 regions, at the end of the disk."""
        super().__init__(name, disk, 4 * MIB, 1237, at_end=True, clears_ns=3600 * SECOND)
        self.copy = copy
        self.rng = np.random.default_rng(seed)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Reads are local."""
        end_ns = super().serve(op, offset, size, at_ns)
        if op == READ:
            return end_ns
        trip_ns = round(350 * US * float(np.exp(self.rng.normal(0, 0.3)))) + size * SECOND // 110_000_000
        return max(end_ns, self.copy.command(op, offset, size, at_ns + trip_ns // 2) + trip_ns // 2)


class UsbEnclosure(Device):
    """A disk in an enclosure: 0.4 ms a command, 140 MB/s; hot after 24 GiB at a stretch, and then slower by
    6 ms a command; now and then a reset of the bus."""

    hot_bytes = 24 * GIB
    cooled_per_s = 20 * MIB

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Cool."""
        super().__init__(name, disk.size, reports_write_cache=None)
        self.disk = disk
        self.rng = np.random.default_rng(seed)
        self.heat = 0
        self.heat_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The bridge, the disk, the bridge."""
        self.heat = max(0, self.heat - (at_ns - self.heat_ns) * self.cooled_per_s // SECOND) + size
        self.heat_ns = at_ns
        bridge_ns = 400 * US + round(float(self.rng.normal(0, 15)) * US)
        if self.rng.random() < 1 / 15_000:
            bridge_ns += round(float(self.rng.uniform(3, 6)) * SECOND)
        if self.heat > self.hot_bytes:
            bridge_ns += 6 * MS
        end_ns = self.disk.command(op, offset, size, at_ns + bridge_ns // 2)
        return max(end_ns, at_ns + size * SECOND // 140_000_000) + bridge_ns // 2
