"""What never rotates and yet has cliffs: flash with a faster cache, flash that collects garbage, a rented
volume whose credits run out."""

from __future__ import annotations

import numpy as np

from devices.base import FLUSH, GIB, MIB, MS, READ, SECOND, US, Device


class Flash(Device):
    """A solid-state disk: latency does not depend on the place, but a little on chance."""

    read_us, write_us, jitter = 60.0, 28.0, 0.08
    bytes_per_s = 1_800_000_000

    def __init__(self, name: str, size: int, seed: int) -> None:
        """`seed` of its jitter."""
        super().__init__(name, size)
        self.rng = np.random.default_rng(seed)
        self.free_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A base time with jitter, the transfer, and what writes cost besides."""
        if op == FLUSH:
            return at_ns + 180 * US
        base = self.read_us if op == READ else self.write_us
        took_ns = (
            round(base * US * float(np.exp(self.rng.normal(0, self.jitter))))
            + size * SECOND // self.bytes_per_s
        )
        if op != READ:
            took_ns += self.write_cost(offset, size, at_ns)
        return at_ns + took_ns

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """What a write costs besides, ns."""
        raise NotImplementedError


class SlcCache(Flash):
    """Cells of four bits behind a cache of cells used with one: fast until it is full, then each write waits
    for the slow cells, and every 16 MiB for the folding of a block. Idle, the cache is folded."""

    cache_bytes = 6 * GIB
    slow_bytes_per_s = 90_000_000
    idle_ns = SECOND // 2
    drain_bytes_per_s = 300_000_000

    def __init__(self, name: str, size: int, seed: int) -> None:
        """An empty cache."""
        super().__init__(name, size, seed)
        self.used = 0
        self.folded = 0

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Nothing while the cache has space."""
        del offset, at_ns
        if self.used + size <= self.cache_bytes:
            self.used += size
            return 0
        cost_ns = size * SECOND // self.slow_bytes_per_s
        self.folded += size
        if self.folded >= 16 * MIB:
            self.folded = 0
            cost_ns += round(float(self.rng.uniform(60, 220)) * MS)
        return cost_ns

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Folds the cache after half a second."""
        left_ns = to_ns - from_ns - self.idle_ns
        if left_ns > 0:
            self.used = max(0, self.used - left_ns * self.drain_bytes_per_s // SECOND)


class GarbageCollected(Flash):
    """A cheap disk of flash that is full: random writes make it collect garbage, a stall now and then; every
    256 MiB it writes its map."""

    write_us, jitter = 70.0, 0.2
    bytes_per_s = 420_000_000

    def __init__(self, name: str, size: int, seed: int) -> None:
        """Full of data."""
        super().__init__(name, size, seed)
        self.random_bytes = 0
        self.all_bytes = 0
        self.last = 0

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Garbage of random writes, and the map."""
        del at_ns
        cost_ns = 0
        if offset != self.last:
            self.random_bytes += size
        self.last = offset + size
        self.all_bytes += size
        if self.random_bytes >= 4 * MIB:
            self.random_bytes = 0
            cost_ns += round(float(self.rng.uniform(20, 60)) * MS)
        if self.all_bytes >= 256 * MIB:
            self.all_bytes = 0
            cost_ns += round(float(self.rng.uniform(400, 900)) * MS)
        return cost_ns


class BurstCredits(Device):
    """A rented volume: 3,000 commands a second while credits last, 100 without, and 125 MB/s."""

    credits = 150_000
    base_per_s, burst_per_s = 100, 3000
    bytes_per_s = 125_000_000

    def __init__(self, name: str, size: int, seed: int) -> None:
        """All credits are there."""
        super().__init__(name, size, reports_write_cache=None)
        self.rng = np.random.default_rng(seed)
        self.left = float(self.credits)
        self.counted_ns = 0
        self.next_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command counts once for each 256 KiB; the next may begin when its time has come."""
        del offset
        counts = max(1, size // (256 << 10))
        start_ns = max(at_ns, self.next_ns)
        self.left = min(self.credits, self.left + (start_ns - self.counted_ns) * self.base_per_s / SECOND)
        self.counted_ns = start_ns
        rate = self.burst_per_s if self.left > counts else self.base_per_s
        self.left = max(0.0, self.left - counts)
        self.next_ns = start_ns + max(counts * SECOND // rate, size * SECOND // self.bytes_per_s)
        mean_us = 600 if op == READ else 1100
        took_ns = round(mean_us * US * float(np.exp(self.rng.normal(0, 0.2))))
        return start_ns + took_ns + size * SECOND // self.bytes_per_s


class EraseBlocks(Flash):
    """A memory card: a write that does not go on where the last one ended rewrites its 4 MiB."""

    read_us, write_us, jitter = 400.0, 900.0, 0.1
    bytes_per_s = 40_000_000
    last = 0

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """The erase block, unless the write goes on."""
        del at_ns
        goes_on, self.last = offset == self.last, offset + size
        return 0 if goes_on else round(float(self.rng.normal(180, 12)) * MS)


class Tape(Flash):
    """A tape behind a library that looks like a disk: it winds for two to forty seconds to what is not
    next."""

    bytes_per_s = 300_000_000
    last = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Winds, then streams."""
        if op == FLUSH:
            return at_ns + 100 * MS
        away, self.last = abs(offset - self.last), offset + size
        wound_ns = round((2.0 + 38.0 * away / self.size) * SECOND) if away else 0
        return at_ns + wound_ns + MS + size * SECOND // self.bytes_per_s
