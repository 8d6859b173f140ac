"""The parts of a foreign device: simulated disks that share a clock, and the engine that serves commands
one by one.

A host with several commands outstanding submits as many, waits for all of them, and submits the next: so
commands of a batch come in groups, in order. That is what a simple driver of an array does, and keeps each
device exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts

BLOCK = 4096
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
MIB, GIB = 1 << 20, 1 << 30
HOST_GAP_NS = 7 * US
"""Time from a completion to the next submission: that of a thread that polls."""
READ, WRITE, FLUSH = int(Op.READ), int(Op.WRITE), int(Op.FLUSH)


class Disk:
    """A simulated disk on the clock of the device that it is part of."""

    def __init__(
        self, profile: str, seed: int, *, conventional: bool = False, layer: str | None = None
    ) -> None:
        """Builds the drive of a shipped profile, or of `KIND-N`: the random drive of that kind and seed.

        `conventional` takes its translation layer away: the same platters and arm, written in place. `layer`
        is the text of another layer in its place."""
        kind, _, number = profile.rpartition("-")
        self.toml = (
            _native.random_profile(int(number), kind) if kind in RANDOM_KINDS else read_profile(profile)[0]
        )
        layer = 'kind = "conventional"\n' if conventional else layer
        if layer is not None:
            self.toml = self.toml.partition("\n[layer]")[0] + f"\n[layer]\n{layer}"
        self._drive = _native.SimDrive(self.toml, profile, seed, "[conditions]\n")
        self.size = self._drive.size_bytes
        self._op = np.zeros(1, np.uint8)
        self._offset = np.zeros(1, np.uint64)
        self._bytes = np.zeros(1, np.uint32)
        self._drive.set_write_cache(False)
        self._drive.set_look_ahead(False)

    @property
    def now_ns(self) -> int:
        """The time at which it is free for the next command."""
        return self._drive.now_ns

    def idle_until(self, at_ns: int) -> None:
        """Leaves it alone until then."""
        if (left := at_ns - self._drive.now_ns) > 0:
            self._drive.pause(left)

    def command(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """One command that arrives at that time, behind those that it has; its completion."""
        self.idle_until(at_ns)
        self._op[0], self._offset[0], self._bytes[0] = op, offset, size
        _, complete = self._drive.run(self._op, self._offset, self._bytes, 1)
        return int(complete[0])

    def write_all(self, extents: list[tuple[int, int]], at_ns: int) -> int:
        """Writes extents (offset, size) as its queue orders them; the end."""
        if not extents:
            return at_ns
        self.idle_until(at_ns)
        offset, size = (np.array(column) for column in zip(*extents, strict=True))
        op = np.full(len(extents), WRITE, np.uint8)
        _, complete = self._drive.run(op, offset.astype(np.uint64), size.astype(np.uint32), 31)
        return int(complete.max())

    def erase(self) -> None:
        """Discards all data."""
        self._drive.erase()


RANDOM_KINDS = ("conventional", "journaled", "set-associative", "fully-associative")


class Watch:
    """Whether the completions so far end a run."""

    def __init__(self, until: Stop | None) -> None:
        """Watches for that stop."""
        self._until = until
        self._slow: deque[bool] = deque(maxlen=1 if until is None else until.within)

    def reached(self, latency_ns: int) -> bool:
        """Counts a completion; whether it ends the run."""
        if self._until is None:
            return False
        self._slow.append(latency_ns >= self._until.latency_ns)
        return sum(self._slow) >= self._until.count


@dataclass(slots=True)
class Host:
    """A busy host, which stops between commands and notices completions late.

    One command in `gap_every` waits for its turn for a while, and one in `late_every` is noticed late; how
    long is exponential, with those means."""

    rng: np.random.Generator
    gap_every: int = 60
    gap_ms: float = 25.0
    late_every: int = 120
    late_ms: float = 6.0

    def gap_ns(self) -> int:
        """How long it does something else now."""
        return self._sometimes(self.gap_every, self.gap_ms)

    def late_ns(self) -> int:
        """How much later it notices a completion."""
        return self._sometimes(self.late_every, self.late_ms)

    def _sometimes(self, every: int, mean_ms: float) -> int:
        return round(self.rng.exponential(mean_ms) * MS) if self.rng.random() * every < 1 else 0


class Device(ABC):
    """A foreign device as an engine."""

    host: Host | None = None
    """Who uses it, where that is no ideal host."""

    can_write = True
    repeatable = True

    def __init__(self, name: str, size: int, *, reports_write_cache: bool | None = False) -> None:
        """`size` in bytes; `reports_write_cache` is what it says of a volatile cache, whatever is asked."""
        self.name = name
        self.size = size // BLOCK * BLOCK
        self.now_ns = 0
        self._reports_write_cache = reports_write_cache

    @abstractmethod
    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Does one command that is submitted at that time; its completion."""

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Does what it does when nobody uses it."""
        del from_ns, to_ns

    def describe(self) -> TargetFacts:
        """A name and a size: such devices declare little, and what they declare is of no disk."""
        return TargetFacts("sim", f"sim:{self.name}", self.size, 512)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch in groups of `depth`."""
        submit, complete = np.zeros(len(io), np.uint64), np.zeros(len(io), np.uint64)
        # None of them has FUA; what a kernel does about that, a FLUSH behind the write, is not modelled.
        op = np.where(io.op == int(Op.WRITE_FUA), WRITE, io.op)
        ops, offsets, sizes = op.tolist(), io.offset.tolist(), io.size.tolist()
        watch, done = Watch(until), 0
        while done < len(io):
            at_ns, last_ns, stop = self.now_ns, self.now_ns, False
            group = range(done, min(done + depth, len(io)))
            for row in group:
                end_ns = max(self.serve(ops[row], offsets[row], sizes[row], at_ns), at_ns)
                end_ns += self.host.late_ns() if self.host is not None else 0
                submit[row], complete[row] = at_ns, end_ns
                last_ns = max(last_ns, end_ns)
                stop = watch.reached(end_ns - at_ns) or stop
            self.now_ns = last_ns + HOST_GAP_NS + (self.host.gap_ns() if self.host is not None else 0)
            done = group.stop
            if stop:
                break
        return IoLog.of(io.part(0, done), submit[:done], complete[:done])

    def pause(self, seconds: float) -> None:
        """Leaves the device alone."""
        before, self.now_ns = self.now_ns, self.now_ns + round(seconds * SECOND)
        self.rest(before, self.now_ns)

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """Nothing can be set."""
        del write_cache, look_ahead
        yield SettingsReport(self._reports_write_cache, None, "nothing can be set here")

    def erase(self) -> bool:
        """It cannot be erased."""
        return False

    def close(self) -> None:
        """Releases nothing; time stands still."""
        self.rest(self.now_ns, self.now_ns)


def blocks_of(offset: int, size: int) -> range:
    """The numbers of the blocks of an extent."""
    return range(offset // BLOCK, -(-(offset + size) // BLOCK))


def merged(blocks: list[int]) -> list[tuple[int, int]]:
    """Sorted block numbers as extents (offset, size).

    >>> merged([1, 2, 5])
    [(4096, 8192), (20480, 4096)]
    """
    extents: list[tuple[int, int]] = []
    for block in blocks:
        offset = block * BLOCK
        if extents and sum(extents[-1]) == offset:
            extents[-1] = (extents[-1][0], extents[-1][1] + BLOCK)
        else:
            extents.append((offset, BLOCK))
    return extents
