"""What one entry of the journal takes: writes that wait together and complete together.

All waiting writes that fit go into one entry and complete with it, so the largest group of completions of
writes of one size bounds an entry from below. From above it does only where one more was waiting in the
drive when the entry began: a queue may hold less than was asked for, and a host that hesitates hands its
writes over one by one. So an entry was *full* if a write that was left for a later one had been submitted
before the entry before it was done.

Invariant: pure functions of logs; a bound only ever narrows.
Source: Skylight (FAST '15) section 4.3.1, "less than 31 writes completing in each burst".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import IoLog
from skylight.infer.host_clock import tick_ns
from skylight.infer.stalls import are_parted, entries

APART = 0.1  # of what an entry takes at least: completions nearer than this are one entry's
NARROW = 0.015
FEWEST_DEPTH = 3
"""With fewer writes waiting none is left over that was there before: an entry of one takes all there is."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An entry holds at least `least` bytes and less than `below`; `fits` counts the runs that agree."""

    least: int = 0
    below: int | None = None
    runs: int = 0
    fits: int = 0

    def with_group(self, size: int, writes: int, full: int | None) -> Bound:
        """What groups of writes of `size` bytes add: the largest is of `writes`, the largest that was full of
        `full`, None if none was."""
        least = writes * size
        below = None if full is None else (full + 1) * size
        bound = replace(self, runs=self.runs + 1)
        if (
            (self.below is not None and least >= self.below)
            or (below is not None and below <= max(self.least, least))
        ):  # fmt: skip
            return bound  # contradicts what was seen before, or itself
        if writes > 1 or self.least == 0:
            bound = replace(bound, least=max(self.least, least))
        if below is not None:
            bound = replace(bound, below=below if self.below is None else min(self.below, below))
        return replace(bound, fits=self.fits + 1)


def groups(log: IoLog, entry_ns: float) -> list[int]:
    """How many writes completed together, group by group."""
    if not len(log):
        return []
    done = np.sort(log.complete_ns.astype(np.int64))
    begins = np.flatnonzero(np.diff(done) > APART * entry_ns) + 1
    return [int(count) for count in np.diff(np.concatenate([[0], begins, [len(done)]]))]


def clock_parts(log: IoLog) -> bool:
    """Whether a clock is fine enough to part the entries of a log: else several look like one."""
    return are_parted(entries(log.complete_ns)[0], tick_ns(log.submit_ns, log.complete_ns))


def largest_group(log: IoLog, entry_ns: float) -> int:
    """The largest number of writes that completed together."""
    return max(groups(log, entry_ns), default=0)


def largest_full(log: IoLog, entry_ns: float, way_ns: float) -> int | None:
    """The largest number of writes that completed together while one more was waiting in the drive; None if
    none did.

    A write was waiting if it was submitted before the group before completed, by more than the `way_ns` that
    a command needs to the drive and its answer back."""
    counts = groups(log, entry_ns)
    if len(counts) < 3:
        return None
    order = np.argsort(log.complete_ns, kind="stable")
    submit, done = log.submit_ns[order].astype(np.int64), log.complete_ns[order].astype(np.int64)
    ends = np.cumsum(counts)
    full = [
        counts[number]
        for number in range(1, len(counts) - 1)
        if submit[ends[number] :].min() < done[ends[number - 1] - 1] - way_ns
    ]
    return max(full, default=None)


def next_queue_size(bound: Bound, size: int, block: int, depth: int) -> int | None:
    """Which size of writes tells most about the bound next; None when it is narrow enough."""
    if bound.below is None:
        return 2 * size
    width = bound.below - bound.least
    if width <= max(NARROW * bound.least, block - 1):
        return None
    middle = (bound.least + bound.below) / 2
    best: tuple[float, int] | None = None
    # If so many do not fit, less than half of the queue goes into an entry, and the rest was there before.
    for writes in range(max(2, depth // 4), (depth + 1) // 2 + 1):
        asked = int(middle / writes // block * block)
        edge = asked * writes
        off = abs(edge - middle)
        if asked >= block and bound.least < edge < bound.below and (best is None or off < best[0]):
            best = (off, asked)
    return None if best is None else best[1]
