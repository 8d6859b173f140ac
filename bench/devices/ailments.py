"""Disks with an ailment: a region that is read only after many tries."""

from __future__ import annotations

import numpy as np

from devices.base import FLUSH, MS, READ, Device, Disk


class BadRegion(Device):
    """A disk of which a region answers late: the drive tries again for up to seconds before it succeeds."""

    part = (0.45, 0.47)
    """Of the addresses."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """The disk beneath is healthy."""
        super().__init__(name, disk.size)
        self.disk = disk
        self.rng = np.random.default_rng(seed)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Reads of the region take many revolutions more."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        end_ns = self.disk.command(op, offset, size, at_ns)
        low, high = self.part
        if op == READ and low * self.size <= offset < high * self.size and self.rng.random() < 0.7:
            end_ns += round(float(self.rng.uniform(100, 3000)) * MS)
            self.disk.idle_until(end_ns)
        return end_ns
