"""What one entry of the journal takes: writes that wait together and complete together.

All waiting writes that fit go into one entry and complete with it, so the largest group of completions of
writes of one size bounds an entry from both sides: it holds that many of them and not one more, unless no
more were waiting.

Invariant: pure functions of logs; a bound only ever narrows.
Source: Skylight (FAST '15) section 4.3.1, "less than 31 writes completing in each burst".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import IoLog

APART = 0.1  # of the latency of a lone write: completions nearer than this are one entry's
NARROW = 0.015
FEWEST_IN_TURN = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """An entry holds at least `least` bytes and less than `below`; `fits` counts the runs that agree."""

    least: int = 0
    below: int | None = None
    runs: int = 0
    fits: int = 0

    def with_group(self, size: int, writes: int, depth: int) -> Bound:
        """What a largest group of `writes` writes of `size` bytes adds, with `depth` waiting."""
        least = writes * size
        below = (writes + 1) * size if writes < depth else None
        bound = replace(self, runs=self.runs + 1)
        if (self.below is not None and least >= self.below) or (below is not None and below <= self.least):
            return bound  # contradicts what was seen before
        if writes > 1 or self.least == 0:
            bound = replace(bound, least=max(self.least, least))
        if below is not None:
            bound = replace(bound, below=below if self.below is None else min(self.below, below))
        return replace(bound, fits=self.fits + 1)


def groups(log: IoLog, lone_ns: float) -> list[int]:
    """How many writes completed together, group by group."""
    if not len(log):
        return []
    done = np.sort(log.complete_ns.astype(np.int64))
    begins = np.flatnonzero(np.diff(done) > APART * lone_ns) + 1
    return [int(count) for count in np.diff(np.concatenate([[0], begins, [len(done)]]))]


def largest_group(log: IoLog, lone_ns: float) -> int:
    """The largest number of writes that completed together."""
    return max(groups(log, lone_ns), default=0)


def next_queue_size(bound: Bound, size: int, block: int, depth: int) -> int | None:
    """Which size of writes tells most about the bound next; None when it is narrow enough."""
    if bound.below is None:
        return 2 * size
    width = bound.below - bound.least
    if width <= max(NARROW * bound.least, block - 1):
        return None
    middle = (bound.least + bound.below) / 2
    best: tuple[float, int] | None = None
    for writes in range(min(FEWEST_IN_TURN, depth - 1), depth):
        asked = int(middle / writes // block * block)
        if asked < block:
            continue
        # the edges that this size has nearest to the middle
        for edge in (asked * writes, asked * (writes + 1)):
            off = abs(edge - middle)
            if bound.least < edge < bound.below and edge < asked * depth and (best is None or off < best[0]):
                best = (off, asked)
    return None if best is None else best[1]
