"""Disks that keep data twice or with parity: mirrors (RAID-1) and parity (RAID-5)."""

from __future__ import annotations

from devices.base import FLUSH, READ, WRITE, Device, Disk


class Mirrored(Device):
    """RAID-1: writes go to all disks and wait for the slowest; a read goes on where it left off, or else to
    the disk whose last command was nearest, as md does."""

    def __init__(self, name: str, disks: list[Disk]) -> None:
        """Takes disks; the smallest sets the size. Their platters stand at angles of their own."""
        super().__init__(name, min(disk.size for disk in disks))
        self.disks = disks
        self.last = [0] * len(disks)
        for number, disk in enumerate(disks):
            disk.idle_until(number * 3_141_593)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """One disk reads, all write."""
        if op != READ:
            if op == WRITE:
                self.last = [offset + size] * len(self.disks)
            return max(disk.command(op, offset, size, at_ns) for disk in self.disks)
        free = [max(disk.now_ns, at_ns) for disk in self.disks]
        chosen = min(range(len(self.disks)), key=lambda n: (free[n] > at_ns, abs(self.last[n] - offset)))
        self.last[chosen] = offset + size
        return self.disks[chosen].command(READ, offset, size, at_ns)

    command = serve
    """A mirror takes the place of a disk in an array."""


class Parity(Device):
    """RAID-5, left symmetric: a write that covers no whole row reads the old data and the old parity
    first."""

    def __init__(self, name: str, disks: list[Disk], chunk: int = 64 << 10) -> None:
        """Takes disks of one size."""
        super().__init__(name, min(disk.size for disk in disks) // chunk * chunk * (len(disks) - 1))
        self.disks, self.chunk = disks, chunk
        self.row_bytes = chunk * (len(disks) - 1)
        for number, disk in enumerate(disks):
            disk.idle_until(number * 2_718_282)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Whole rows in one command a disk, the rest row by row."""
        if op == FLUSH:
            return max(disk.command(op, 0, 0, at_ns) for disk in self.disks)
        end_ns, end = at_ns, offset + size
        while offset < end:
            row, within = divmod(offset, self.row_bytes)
            rows = (end - offset) // self.row_bytes if within == 0 else 0
            if rows:
                end_ns = max(end_ns, self.whole(op, row, rows, at_ns))
                offset += rows * self.row_bytes
                continue
            length = min(self.row_bytes - within, end - offset)
            end_ns = max(end_ns, self.partly(op, row, within, length, at_ns))
            offset += length
        return end_ns

    def whole(self, op: int, row: int, rows: int, at_ns: int) -> int:
        """Rows as they lie on each disk; a read passes over the parity in between."""
        return max(disk.command(op, row * self.chunk, rows * self.chunk, at_ns) for disk in self.disks)

    def partly(self, op: int, row: int, within: int, length: int, at_ns: int) -> int:
        """A part of a row, chunk by chunk at the same time; writes after the reads that they need."""
        parity = len(self.disks) - 1 - row % len(self.disks)
        parts = []
        low, high, end = self.chunk, 0, within + length
        while within < end:
            number, start = divmod(within, self.chunk)
            span = min(self.chunk - start, end - within)
            disk = self.disks[(parity + 1 + number) % len(self.disks)]
            parts.append((disk, row * self.chunk + start, span))
            low, high = min(low, start), max(high, start + span)
            within += span
        if op == READ:
            return max(disk.command(READ, place, span, at_ns) for disk, place, span in parts)
        parts.append((self.disks[parity], row * self.chunk + low, high - low))
        known_ns = max(disk.command(READ, place, span, at_ns) for disk, place, span in parts)
        return max(disk.command(WRITE, place, span, known_ns) for disk, place, span in parts)
