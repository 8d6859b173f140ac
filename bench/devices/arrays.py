"""Several disks as one: stripes (RAID-0), one after the other (a concatenation), and a host-aware drive,
whose first part is conventional."""

from __future__ import annotations

from devices.base import FLUSH, Device, Disk


class Striped(Device):
    """RAID-0: stripes of `stripe` bytes go to the disks in turn."""

    def __init__(self, name: str, disks: list[Disk], stripe: int = 64 << 10) -> None:
        """Takes disks of one size."""
        super().__init__(name, min(disk.size for disk in disks) // stripe * stripe * len(disks))
        self.disks, self.stripe = disks, stripe

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Each disk gets its part as one command, since its stripes lie one behind the other."""
        if op == FLUSH:
            return max(disk.command(op, 0, 0, at_ns) for disk in self.disks)
        parts = self.parts(offset, size, self.stripe, len(self.disks))
        return max(
            self.disks[disk].command(op, first, length, at_ns) for disk, (first, length) in parts.items()
        )

    @staticmethod
    def parts(offset: int, size: int, stripe_bytes: int, disks: int) -> dict[int, tuple[int, int]]:
        """What each disk has of an extent, by number: offset and size.

        >>> Striped.parts(3, 6, 4, 2)
        {0: (3, 2), 1: (0, 4)}
        """
        parts: dict[int, tuple[int, int]] = {}
        end = offset + size
        while offset < end:
            stripe, within = divmod(offset, stripe_bytes)
            row, disk = divmod(stripe, disks)
            length = min(stripe_bytes - within, end - offset)
            first, so_far = parts.get(disk, (row * stripe_bytes + within, 0))
            parts[disk] = (first, so_far + length)
            offset += length
        return parts


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
