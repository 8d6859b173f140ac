"""More that never rotates: flash whose map is in the host's memory, flash with data that has faded, flash
that folds behind the host's back."""

from __future__ import annotations

from collections import OrderedDict

from devices.base import FLUSH, GIB, MIB, MS, READ, SECOND, US, blocks_of
from devices.flash import Flash


class HostMemory(Flash):
    """Flash without memory of its own: of its map 64 pieces of 1 GiB are in the host's (HMB)."""

    read_us, write_us, jitter = 75.0, 35.0, 0.1
    covered, kept = GIB, 64

    def __init__(self, name: str, size: int, seed: int) -> None:
        """No piece is there."""
        super().__init__(name, size, seed)
        self.pieces: OrderedDict[int, None] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The map first."""
        if op != FLUSH:
            piece = offset // self.covered
            if piece not in self.pieces:
                at_ns += 140 * US
            self.pieces[piece] = None
            self.pieces.move_to_end(piece)
            if len(self.pieces) > self.kept:
                self.pieces.popitem(last=False)
        return super().serve(op, offset, size, at_ns)

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Nothing besides."""
        del offset, size, at_ns
        return 0


class Faded(HostMemory):
    """Flash with data of years ago, read after 3 to 12 ms of tries; what was written since is read at
    once."""

    def __init__(self, name: str, size: int, seed: int) -> None:
        """All is old."""
        super().__init__(name, size, seed)
        self.fresh: set[int] = set()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Tries."""
        blocks = blocks_of(offset, size)
        if op == READ and not self.fresh.issuperset(blocks):
            at_ns += 3 * MS + int(self.rng.integers(9 * MS))
        elif op not in (READ, FLUSH):
            self.fresh.update(blocks)
        return super().serve(op, offset, size, at_ns)


class Folding(Flash):
    """Cells of four bits with a small faster part: from 32 MiB on it folds 16 MiB at a time while the host
    goes on, for which a command waits, reads too; idle it folds what is left."""

    read_us, write_us = 95.0, 22.0
    fast_bytes = 32 * MIB

    def __init__(self, name: str, size: int, seed: int) -> None:
        """The fast part is empty."""
        super().__init__(name, size, seed)
        self.used = 0
        self.busy_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Waits for the fold that is under way, one time in three."""
        if self.busy_ns > at_ns and self.rng.random() < 1 / 3:
            at_ns += min(self.busy_ns - at_ns, int(self.rng.integers(25 * MS)))
        return super().serve(op, offset, size, at_ns)

    def write_cost(self, offset: int, size: int, at_ns: int) -> int:
        """Begins a fold when the fast part is full."""
        del offset
        self.used += size
        if self.used < self.fast_bytes:
            return 0
        self.used -= 16 * MIB
        left_ns, self.busy_ns = max(self.busy_ns - at_ns, 0), max(self.busy_ns, at_ns) + 180 * MS
        return left_ns

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Folds what is left."""
        if to_ns - from_ns > SECOND:
            self.used = 0
