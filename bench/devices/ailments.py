"""Disks with an ailment, or with a habit that looks like one: a region or a surface that is read only after
many tries, sectors that lie elsewhere, vibration, verified writes, pauses, somebody else's commands."""

from __future__ import annotations

import numpy as np

from devices.base import BLOCK, FLUSH, MIB, MS, READ, SECOND, WRITE, Device, Disk


class OneDisk(Device):
    """A disk whose commands take longer for a reason."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """The disk beneath is healthy."""
        super().__init__(name, disk.size)
        self.disk = disk
        self.rng = np.random.default_rng(seed)

    def late(self, end_ns: int, by_ms: float) -> int:
        """The disk is busy for so much longer; the end."""
        end_ns += round(by_ms * MS)
        self.disk.idle_until(end_ns)
        return end_ns


class BadRegion(OneDisk):
    """A disk of which a region answers late: the drive tries again for up to seconds before it succeeds."""

    part = (0.45, 0.47)
    """Of the addresses."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Reads of the region take many revolutions more."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        end_ns = self.disk.command(op, offset, size, at_ns)
        low, high = self.part
        if op == READ and low * self.size <= offset < high * self.size and self.rng.random() < 0.7:
            end_ns = self.late(end_ns, float(self.rng.uniform(100, 3000)))
        return end_ns


class WeakHead(OneDisk):
    """One surface in eight is read with difficulty: every other read of it needs one to four revolutions
    more."""

    rotation_ms = 10.17
    surface_bytes = MIB

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Tries again."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op == READ and offset // self.surface_bytes % 8 == 3 and self.rng.random() < 0.5:
            end_ns = self.late(end_ns, self.rotation_ms * int(self.rng.integers(1, 5)))
        return end_ns


class Vibration(OneDisk):
    """A disk beside a fan: in two seconds of nine, half of its commands miss their track and wait for a
    revolution or three."""

    rotation_ms = 10.17

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Later while the fan turns fast."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op != FLUSH and at_ns % (9 * SECOND) < 2 * SECOND and self.rng.random() < 0.5:
            end_ns = self.late(end_ns, self.rotation_ms * int(self.rng.integers(1, 4)))
        return end_ns


class Reallocated(OneDisk):
    """A disk of which one stretch of 64 KiB in 200 lies in spare tracks at the inner diameter."""

    stretch = 64 << 10

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command that meets such a stretch goes there as well."""
        if op == FLUSH or size > MIB:
            return self.disk.command(op, offset, size, at_ns)
        end = offset + size
        while offset < end:
            number, within = divmod(offset, self.stretch)
            length = min(self.stretch - within, end - offset)
            place = offset
            if number * 0x9E3779B97F4A7C15 % (1 << 64) < (1 << 64) // 200:
                place = self.disk.size - (1 + number % 4096) * self.stretch + within
            at_ns = self.disk.command(op, place, length, at_ns)
            offset += length
        return at_ns


class VerifiedWrites(OneDisk):
    """A disk that reads back what it has written before it answers."""

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A write takes a revolution more."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        return self.disk.command(READ, offset, size, end_ns) if op == WRITE else end_ns


class Pauses(OneDisk):
    """A disk that unloads its heads or calibrates itself for 0.4 s in every eight."""

    every_ns, for_ns = 8 * SECOND, 400 * MS

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Waits until the pause is over."""
        into_ns = at_ns % self.every_ns
        if into_ns < self.for_ns:
            at_ns += self.for_ns - into_ns
        return self.disk.command(op, offset, size, at_ns)


class Tenant(Device):
    """The first half of a disk whose second half has another user: every fifteen seconds, for three, a
    random command of his comes before each of ours."""

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """Half of the disk."""
        super().__init__(name, disk.size // 2)
        self.disk = disk
        self.rng = np.random.default_rng(seed)

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """His, then ours."""
        if at_ns % (15 * SECOND) < 3 * SECOND:
            place = self.size + int(self.rng.integers(self.size // BLOCK - 16)) * BLOCK
            at_ns = self.disk.command(READ if self.rng.random() < 0.6 else WRITE, place, 16 * BLOCK, at_ns)
        return self.disk.command(op, offset, size, at_ns)


class Limited(OneDisk):
    """A disk of which a host allows 80 commands a second, and 60 MB/s."""

    per_s, bytes_per_s = 80, 60_000_000
    next_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The next command begins when its time has come."""
        at_ns = max(at_ns, self.next_ns)
        self.next_ns = at_ns + max(SECOND // self.per_s, size * SECOND // self.bytes_per_s)
        return self.disk.command(op, offset, size, at_ns)


class Delayed(OneDisk):
    """A disk behind a delay of 50 ms, and up to a timer's tick of 4 ms (dm-delay)."""

    delay_ns, tick_ns = 50 * MS, 4 * MS

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Later by the delay and a part of a tick."""
        at_ns += self.delay_ns + int(self.rng.integers(self.tick_ns))
        return self.disk.command(op, offset, size, at_ns)
