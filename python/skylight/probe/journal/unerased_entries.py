"""The commands that show the out-of-band data where the target cannot be erased: later entries of the log.

Each cycle is a read far away, a write of one block, another read far away, and a read of that block. Then one
entry as long as they come is written, and blocks of it are read back, each behind a read far away. The far
reads go backwards through a part of the target, at random distances, so that each command comes in another
phase of the revolution, the arm's way stays the same, and nothing that was read ahead is asked for; nor is it
in the long entry, which is read backwards as well.

Invariant: no far place is read twice, so that no cache answers it.
Source: `skylight.probe.journal.unerased_verdict` says what the times show.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.evidence import F64, U64, IoBatch, IoLog, Op

CYCLES, ROUNDS = 250, 4
"""Cycles of a round, and rounds: chosen. The shortest write is then known to a hundredth of a revolution,
or with a clock of a millisecond to a fortieth."""
PLACES, MOST_QUANTA = 192, 6
"""Blocks of the long entry that are read, and its quanta at most: a few tracks."""
MOST_IOS = ROUNDS * CYCLES * 5 + 2 * PLACES + 2
NEAREST, FARTHEST = 1 << 20, 3 << 20
"""From one far read to the next, bytes: more than is read ahead of one, and tracks of any length between."""
FAR_FROM, FAR_PART = 0.4, 0.15
"""Where the far reads begin, and how much of the target they go through at most."""


def far_places(size: int, block: int, rng: np.random.Generator) -> U64:
    """Blocks to read far away, backwards: two for each cycle, then one for each block of the long entry."""
    count = 2 * CYCLES * ROUNDS + PLACES
    span = min(1.0, FAR_PART * size / (count * FARTHEST))
    steps = rng.integers(int(NEAREST * span), int(FARTHEST * span) + 1, count)
    places = int(FAR_FROM * size) - np.cumsum(steps)
    return (places // block * block).astype(np.uint64)


def cycles(far: U64, block: int, *, flushed: bool) -> IoBatch:
    """A round: with each pair of far places a cycle, the write with a FLUSH behind it where a volatile cache
    holds it otherwise."""
    ops = (
        [Op.READ, Op.WRITE, Op.FLUSH, Op.READ, Op.READ] if flushed else [Op.READ, Op.WRITE, Op.READ, Op.READ]
    )
    count = len(far) // 2
    offset = np.full((count, len(ops)), block, np.uint64)
    offset[:, 0], offset[:, -2] = far[0::2], far[1::2]
    size = np.full((count, len(ops)), block, np.uint32)
    if flushed:
        offset[:, 2], size[:, 2] = 0, 0
    return IoBatch(np.tile(np.array(ops, np.uint8), count), offset.ravel(), size.ravel())


def read_back(far: U64, begin: int, length: int, block: int) -> IoBatch:
    """Blocks of the long entry from `begin` on, its last first, each behind a far read."""
    count = min(len(far), length // block)
    places = begin + np.linspace(length - block, 0, count).astype(np.int64) // block * block
    return IoBatch.reads(np.stack([far[:count].astype(np.int64), places], axis=1).ravel(), block)


def columns(logs: Sequence[IoLog]) -> tuple[F64, F64, F64, F64]:
    """Of each cycle: when the block was written and done (with its FLUSH), and when its read was submitted
    and done, ns from the first on."""
    parts = [np.zeros((4, 0))]
    for log in logs:
        width = 5 if len(log) > 2 and log.op[2] == int(Op.FLUSH) else 4
        whole = len(log) // width * width
        submit, done = (
            column[:whole].astype(np.int64).reshape(-1, width) - int(logs[0].submit_ns[0])
            for column in (log.submit_ns, log.complete_ns)
        )
        parts.append(np.stack([submit[:, 1], done[:, -3], submit[:, -1], done[:, -1]]).astype(np.float64))
    wrote, written, asked, read = np.concatenate(parts, axis=1)
    return wrote, written, asked, read
