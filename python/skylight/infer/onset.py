"""When did filling end? The write from which on a drive cleans before it takes more.

A drive that is full cleans for every entry that it writes, so from there on entries follow each other more
slowly, and stay so; an outlier or a merge of a map delays one. Latency would show it late where many writes
wait at once. Writes that are answered together are one entry.

The onset is where the sum of what entries take beyond twice the usual, or a missed turn, each bounded, is
largest from there to the end: a cumulative sum, as in Page, "Continuous inspection schemes", Biometrika 1954.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AT_ONCE_NS = 5_000
SLOW = 2.0  # times the usual
MISSED_TURNS = 1.5
MOST = 3.0  # times what counts as slow: no single entry may decide
LEAST_SUM = 1.5
FEWEST = 4
AGREES = 4.0
USUAL_PERCENT = 85


@dataclass(frozen=True, slots=True)
class Onset:
    """`writes` done before cleaning, in `entries`; `usual_ns` from one entry to the next before, `slow_ns`
    after; `sum` is how clear the change is (entries of the usual length)."""

    writes: int
    entries: int
    usual_ns: float
    slow_ns: float
    sum: float
    writes_an_entry: float


def entries(complete_ns: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Completion of each entry (ns) and the writes done by then, from completions in any order.

    >>> entries(np.array([10, 10, 10, 9_000_000, 9_000_001]))
    (array([     10, 9000001]), array([3, 5]))
    """
    done = np.sort(complete_ns.astype(np.int64))
    last = np.flatnonzero(np.append(np.diff(done) > AT_ONCE_NS, True)) if len(done) else np.empty(0, np.int64)
    return done[last], np.asarray(last + 1, np.int64)


def usual(complete_ns: NDArray[np.generic]) -> float | None:
    """From one entry to the next, ns; None for fewer than four."""
    done, _ = entries(complete_ns)
    return float(np.median(np.diff(done))) if len(done) >= FEWEST else None


def onset(
    submit_ns: NDArray[np.generic],
    complete_ns: NDArray[np.generic],
    usual_ns: float | None = None,
    turn_ns: float = 0.0,
) -> Onset | None:
    """Where cleaning began in a run of writes; None if it did not.

    `usual_ns` is about what an entry takes on a drive that does not clean, where that is known; one that
    misses a turn of `turn_ns` does not clean either."""
    done, count = entries(complete_ns)
    if len(done) < FEWEST:
        return None
    took = np.diff(done, prepend=np.int64(submit_ns[0])).astype(np.float64)
    # Entries may take one of two times, as they catch the next place or miss it: the usual is the longer one.
    base = float(np.percentile(took[: max(len(took) // 2, 1)], USUAL_PERCENT))
    if usual_ns is not None and base > AGREES * usual_ns:
        base = usual_ns  # most of this is cleaning already
    limit = max(SLOW * base, base + MISSED_TURNS * turn_ns, 1.0)
    over = np.minimum(took / limit, MOST) - 1.0
    suffix = np.cumsum(over[::-1])[::-1]
    first = int(np.argmax(suffix))
    if suffix[first] < LEAST_SUM:
        return None
    before = int(count[first - 1]) if first else 0
    slow = float(np.median(took[first:]))
    return Onset(before, first, base, slow, float(suffix[first]), before / max(first, 1))
