"""Several disks as one: stripes (RAID-0), one after the other (a concatenation), and a host-aware drive,
whose first part is conventional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from devices.base import FLUSH, Device, Disk


class Part(Protocol):
    """What an array is made of: a disk, or several that act as one."""

    size: int

    def command(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """One command that arrives at that time; its completion."""


class Striped(Device):
    """RAID-0: stripes of `stripe` bytes go to the disks in turn."""

    def __init__(self, name: str, disks: Sequence[Part], stripe: int = 64 << 10) -> None:
        """Takes disks of one size."""
        super().__init__(name, min(disk.size for disk in disks) // stripe * stripe * len(disks))
        self.disks, self.stripe = disks, stripe

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Each disk gets its part as one command, since its stripes lie one behind the other."""
        if op == FLUSH:
            return max(disk.command(op, 0, 0, at_ns) for disk in self.disks)
        parts: dict[int, tuple[int, int]] = {}
        end = offset + size
        while offset < end:
            stripe, within = divmod(offset, self.stripe)
            row, disk = divmod(stripe, len(self.disks))
            length = min(self.stripe - within, end - offset)
            first, so_far = parts.get(disk, (row * self.stripe + within, 0))
            parts[disk] = (first, so_far + length)
            offset += length
        return max(
            self.disks[disk].command(op, first, length, at_ns) for disk, (first, length) in parts.items()
        )


class Concatenated(Device):
    """Disks one after the other. Of a first part, `first_bytes` may be used."""

    def __init__(self, name: str, disks: list[Disk], first_bytes: int | None = None) -> None:
        """Takes the disks in order."""
        sizes = [disk.size for disk in disks]
        if first_bytes is not None:
            sizes[0] = first_bytes
        super().__init__(name, sum(sizes))
        self.disks = disks
        self.starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command over a border is done in parts at the same time."""
        if op == FLUSH:
            return max(disk.command(op, 0, 0, at_ns) for disk in self.disks)
        ends = []
        for number, disk in enumerate(self.disks):
            first, last = max(offset, self.starts[number]), min(offset + size, self.starts[number + 1])
            if first < last:
                ends.append(disk.command(op, first - self.starts[number], last - first, at_ns))
        return max(ends)
