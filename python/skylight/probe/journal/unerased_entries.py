"""The commands that show the out-of-band data where the target cannot be erased: later entries of the log.

Entries as long as they come are written, one or more, to have ends of tracks under them, and blocks of them
are read back, each behind a read far away. Then there are rounds of cycles: each cycle is a read far away, a
write of one block, another read far away, and a read of that block. The far reads go backwards through a part
of the target, at random distances, so that each command comes in another phase of the revolution, the arm's
way stays the same, and nothing that was read ahead is asked for; nor is it in the long entries, which are
read backwards as well.

Invariant: no far place is read twice, so that no cache answers it.
Source: `skylight.probe.journal.unerased_verdict` says what the times show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import EMPTY_LOG, F64, U64, IoBatch, IoLog, Op

CYCLES, ROUNDS, MOST_ROUNDS = 250, 4, 16
"""Cycles of a round, and rounds: chosen. The shortest write is known to a hundredth of a revolution after
these, or with a clock of a millisecond to a fortieth. Where that leaves the time open, as under other clients
or on a busy host, there are more rounds, which take minutes: what is open falls with their number."""
PLACES, MOST_QUANTA = 192, 6
"""Blocks of the long entries that are read, and the quanta of one at most: a few tracks."""
MOST_ENTRIES, WANTED_TRACKS = 12, 3.0
"""Long entries at most, and how many tracks they fill together, if that suffices. Chosen: where a host sends
a mebibyte at a time an entry is half a track, and half of them have an end of a track under them."""
MOST_IOS = MOST_ROUNDS * CYCLES * 5 + 2 * PLACES + 2 * MOST_ENTRIES
NEAREST, FARTHEST = 1 << 20, 3 << 20
"""From one far read to the next, bytes: more than is read ahead of one, and tracks of any length between."""
FAR_FROM, FAR_PART = 0.4, 0.15
"""Where the far reads begin, and how much of the target they go through at most."""


def far_places(size: int, block: int, rng: np.random.Generator) -> U64:
    """Blocks to read far away, backwards: one for each block of the long entries, then two for each cycle."""
    count = PLACES + 2 * CYCLES * MOST_ROUNDS
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


def long_entries(length: int, longest_track: float) -> int:
    """How many entries of this length show the tracks under them."""
    return int(np.clip(np.ceil(WANTED_TRACKS * longest_track / length), 1, MOST_ENTRIES))


def written_long(begin: U64, length: int, *, flushed: bool) -> IoBatch:
    """The long entries, each with a FLUSH behind it where a volatile cache holds it otherwise."""
    return IoBatch.flushed_writes(begin, length) if flushed else IoBatch.writes(begin, length)


def read_back(far: U64, begin: U64, length: int, block: int) -> IoBatch:
    """Blocks of the long entries, the last of each first, each behind a far read."""
    count = min(len(far) // len(begin), length // block)
    inside = np.linspace(length - block, 0, count).astype(np.int64) // block * block
    places = (begin.astype(np.int64)[:, None] + inside).ravel()
    return IoBatch.reads(np.stack([far[: len(places)].astype(np.int64), places], axis=1).ravel(), block)


@dataclass(frozen=True, slots=True)
class LongEntries:
    """The writes of long entries, and reads of their blocks, each behind a far read."""

    written: IoLog = EMPTY_LOG
    read: IoLog = EMPTY_LOG

    def angles(self, rotation_ns: float) -> list[tuple[F64, F64]]:
        """Of each entry that was read: the places of its blocks, bytes, and the angles of these,
        revolutions."""
        place = self.read.offset[1::2].astype(np.int64)
        turns = self.read.complete_ns[1::2].astype(np.float64) / rotation_ns
        writes = self.written.only(Op.WRITE)
        behind = place - writes.offset.astype(np.int64)[:, None]
        inside = (behind >= 0) & (behind < writes.size.astype(np.int64)[:, None])
        parts = zip(behind, inside, strict=True)
        return [(part[mine].astype(np.float64), turns[mine]) for part, mine in parts if mine.any()]


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
