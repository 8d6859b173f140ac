"""Past the cliff: writes that do not stop, until the persistent cache is full, and on.

Random blocks are written one at a time, which fill a cache with the fewest bytes, until their pace falls for
good; what they then keep, and how long each waits, is what a workload that does not rest gets. Writes in
order follow, with the cache full: a rebuild, or a copy of a whole drive.

A cache whose parts fill on their own is full for a workload over the whole drive only when all parts are; so
one part is filled, by writes to the data that it serves (`Region`), and stands for all: they are alike.

Invariant: the pace past the cliff is that of whole periods, from the end of the first piece that was slow to
the end of the last, so neither an end of the run that is fast nor one that is slow counts too much.

Source: Skylight (FAST '15) sections 4.6 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Stop
from skylight.findings import Known
from skylight.probe.procedure import Steps

BLOCK_BYTES = 4096
STREAM_BYTES, STREAM_DEPTH = 1 << 20, 31
LEAST_STREAM_BYTES, STREAM_BANDS = 512 << 20, 6
"""Written in order with the cache full: so much, and so many bands at least, of which the last two thirds
count. The first bands may fill what little space is left."""
COUNTED_FROM = 1 / 3

PIECE_S = 30.0
"""Device time of a piece before the cliff: long beside a merge of a cache's map, of 0.3 s, short beside what
fills a cache."""
FIRST_WRITES, MOST_WRITES = 256, 1 << 17
FELL = 1.5
"""The cliff: a write takes so many times as long on average as in the first piece, with a cache that has
space. Less is no cliff to speak of."""
SLOW_PART, SLOW_NS = 10.0, 100_000_000
SLOW_COUNT, SLOW_WITHIN = 16, 64
"""A piece ends at so many slow writes, of so many: past the cliff it would take hours. Slow is ten times the
median of the first piece, and a tenth of a second."""
FILL_S = 3_600.0
"""After which the cliff is given up."""
SUSTAINED_S, LEAST_SLOW = 900.0, 3
"""Past the cliff for so long, and for so many slow pieces at least."""
MOST_SUSTAINED_S = 3_600.0
ZONE_BYTES = 2 << 30
"""What is written to of a drive whose cache has logs for each zone, as far as a zone is not known."""


@dataclass(frozen=True, slots=True)
class Region:
    """The data that one part of the cache serves: `count` stretches of `length` bytes, one every `every`."""

    length: int
    every: int
    count: int

    def random(self, rng: np.random.Generator, count: int, block: int) -> U64:
        """So many blocks anywhere in it, bytes."""
        stretch = rng.integers(0, self.count, count)
        within = rng.integers(0, self.length // block, count)
        return (stretch * self.every + within * block).astype(np.uint64)

    def in_order(self, count: int, size: int) -> U64:
        """So many pieces of that size in the order of their addresses, bytes; fewer at its end."""
        each = self.length // size
        index = np.arange(min(count, each * self.count), dtype=np.int64)
        return (index // each * self.every + index % each * size).astype(np.uint64)

    @staticmethod
    def of(known: Known, size_bytes: int) -> Region:
        """What one part of the cache serves, as far as it was found: every n-th band, or a zone; all of the
        drive if the cache is one."""
        count, band = known.part("cache_bands", "count"), known.part("cache_bands", "band_bytes")
        if count and band:
            every = int(count) * int(band)
            return Region(int(band), every, max(1, (size_bytes - int(band)) // every + 1))
        if known.word("cache_location") == "many":
            return Region(min(ZONE_BYTES, size_bytes), size_bytes, 1)
        return Region(size_bytes, size_bytes, 1)


@dataclass(slots=True)
class Cliff:
    """Pieces of random writes in their order, the region that they went to, and the writes in order behind
    them; None where these were not made."""

    region: Region | None = None
    pieces: list[IoLog] = field(default_factory=list)
    stream: IoLog | None = None

    @property
    def slow(self) -> list[int]:
        """The pieces past the cliff."""
        if not self.pieces:
            return []
        fast_ns = FELL * _mean_ns(self.pieces[0])
        return [number for number, log in enumerate(self.pieces) if number and _mean_ns(log) >= fast_ns]

    @property
    def writes_before(self) -> int:
        """Random writes until the pace fell."""
        slow = self.slow
        return sum(len(log) for log in self.pieces[: slow[0]]) if slow else 0

    def past(self) -> IoLog:
        """The writes of whole periods past the cliff; none where it was not seen often enough."""
        slow = self.slow
        if len(slow) < LEAST_SLOW:
            return IoLog.joined([])
        return IoLog.joined(self.pieces[slow[0] + 1 : slow[-1] + 1])

    def device_s(self) -> tuple[float, float]:
        """Device time up to the cliff, and since."""
        first = self.slow[0] if self.slow else len(self.pieces)
        spans = [log.span_ns / 1e9 for log in self.pieces]
        return sum(spans[:first]), sum(spans[first:])

    def enough(self) -> bool:
        """Whether there is no reason to go on: the cliff was seen for long, or is not to be had."""
        before_s, since_s = self.device_s()
        if not self.slow:
            return before_s >= FILL_S
        whole = since_s >= SUSTAINED_S and len(self.slow) >= LEAST_SLOW
        return whole or since_s >= MOST_SUSTAINED_S


def _mean_ns(log: IoLog) -> float:
    return log.span_ns / max(len(log), 1)


def measure(steps: Steps, seen: Cliff) -> None:
    """Writes to a shingled drive until it has been past its cliff for long, then in order."""
    region = seen.region = Region.of(steps.known, steps.size)
    block = max(BLOCK_BYTES, steps.block_bytes)
    rng = steps.rng("cliff")
    count, until = FIRST_WRITES, None
    while not seen.enough():
        io = IoBatch.writes(region.random(rng, count, block), block)
        log = steps.run("cliff", io, until=until)
        if len(log) == 0:
            return
        seen.pieces.append(log)
        if until is None and log.span_ns < PIECE_S * 1e9 / 2:
            seen.pieces.pop()  # too short to be the pace that others are held against
        elif until is None:
            slow_ns = max(round(SLOW_PART * float(np.median(log.latency_ns))), SLOW_NS)
            until = Stop(slow_ns, SLOW_COUNT, SLOW_WITHIN)
        pace_ns = max(_mean_ns(log), 1.0)
        count = int(np.clip(PIECE_S * 1e9 / pace_ns, SLOW_WITHIN, min(4 * count, MOST_WRITES)))
    if len(seen.slow) >= LEAST_SLOW:
        band = steps.known.part("band_bytes", "md") or 0
        pieces = int(max(LEAST_STREAM_BYTES, STREAM_BANDS * band)) // STREAM_BYTES
        io = IoBatch.writes(region.in_order(pieces, STREAM_BYTES), STREAM_BYTES)
        seen.stream = steps.run("cliff-stream", io, depth=STREAM_DEPTH)


def counted_stream(log: IoLog) -> IoLog:
    """The part of the writes in order that counts: its end."""
    return log.rows(slice(int(len(log) * COUNTED_FROM), None))
