"""Past the cliff: writes that do not stop, until the persistent cache is full, and on.

Random blocks are written one at a time, which fill a cache with the fewest bytes, until their pace falls for
good; what they then keep, and how long each waits, is what a workload that does not rest gets. Writes in
order follow, with the persistent cache full and the volatile one on, as it is where nobody switched it off: a
rebuild, or a copy of a whole drive.

A cache whose parts fill on their own is full for a workload over the whole drive only when all parts are; so
one part is filled, by writes to the data that it serves (`Region`), and stands for all: they are alike.

Invariant: where slow pieces and fast ones take turns, the pace past the cliff is that of whole periods, from
the beginning of the first slow spell to that of the last; where it stays slow, that of all but the first slow
piece.

Source: Skylight (FAST '15) sections 4.6 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Stop
from skylight.findings import Known
from skylight.probe.procedure import Steps
from skylight.probe.zoned import ZonesSeen

BLOCK_BYTES = 4096
STREAM_BYTES, STREAM_DEPTH = 1 << 20, 31
STREAM_WRITES, STREAM_S, MOST_STREAM_WRITES = 1_024, 60.0, 4_096
"""Written in order: pieces of so many, for so long, of which the last two thirds count. The first of them may
fill what little space is left."""
FEW_WRITES, FEW_BYTES = 8, 512 << 20
"""Of a shingled drive the first of them, until they are more than any volatile cache holds, in pieces of so
many. One that cleans for each write that leaves its volatile cache takes minutes for each of those that wait,
and what waits in a queue cannot be called back. So the rate of a drive that writes less in the time of the
stream rests on `FEW_WRITES` waiting writes, not on `STREAM_DEPTH`."""
COUNTED_FROM = 1 / 3

PIECE_S = 30.0
"""Device time of a piece before the cliff: long beside a merge of a cache's map, of 0.3 s, short beside what
fills a cache."""
FIRST_WRITES, FIRST_S = 4_096, 10.0
"""The first piece, with a cache that has space: as many writes as take so long, or so many. Long beside a
merge of a map, and less than any cache takes."""
LEAST_WRITES, MOST_WRITES = 64, 1 << 14
MOST_RANDOM_WRITES = 1 << 21
"""Of all pieces: 8 GiB."""
FELL = 1.5
"""The cliff: a write takes so many times as long on average as in the first piece, with a cache that has
space. Less is no cliff to speak of."""
SLOW_PART, SLOW_NS = 10.0, 100_000_000
SLOW_COUNT, SLOW_WITHIN = 16, 64
"""A piece ends at so many slow writes, of so many: past the cliff it would take hours. Slow is ten times the
median of the first piece, and a tenth of a second."""
FILL_S = 3_600.0
"""After which the cliff is given up."""
SUSTAINED_S, LEAST_SLOW, LEAST_PERIODS = 900.0, 4, 2
"""Past the cliff for so long, and for so many slow pieces in a row or so many whole periods at least."""
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
    them, None where these were not made; whether these had the volatile write cache, and went to zones that
    were reset; how many writes were tried as a first piece."""

    region: Region | None = None
    pieces: list[IoLog] = field(default_factory=list)
    stream: IoLog | None = None
    stream_cached: bool = False
    in_zones: bool = False
    tried: int = 0
    _spans: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False, compare=False)

    def _measured(self) -> list[tuple[int, int]]:
        """Device time, ns, and writes of each piece. Each is looked at after every one that follows, so its
        log is walked once; pieces are only ever added."""
        self._spans += [(log.span_ns, len(log)) for log in self.pieces[len(self._spans) :]]
        return self._spans

    @property
    def slow(self) -> list[int]:
        """The pieces past the cliff.

        Not `stalls.change_point`, which holds entries against the usual of the same run and places one change
        for good: here the first piece is what others are held against, and slow spells and fast ones may take
        turns, of which every slow one counts."""
        means_ns = [span_ns / max(count, 1) for span_ns, count in self._measured()]
        return [number for number, mean_ns in enumerate(means_ns) if number and mean_ns >= FELL * means_ns[0]]

    @property
    def writes_before(self) -> int:
        """Random writes until the pace fell."""
        slow = self.slow
        return sum(len(log) for log in self.pieces[: slow[0]]) if slow else 0

    @property
    def spells(self) -> list[int]:
        """The pieces that begin a slow spell."""
        slow = self.slow
        return [number for at, number in enumerate(slow) if at == 0 or slow[at - 1] != number - 1]

    def past(self) -> IoLog:
        """The writes of whole periods past the cliff; none where it was not seen often enough."""
        return IoLog.joined(self._past())

    def _past(self) -> list[IoLog]:
        slow, spells = self.slow, self.spells
        if len(spells) > 1:
            return self.pieces[spells[0] : spells[-1]]
        stays = len(slow) >= LEAST_SLOW and slow[-1] == len(self.pieces) - 1
        return self.pieces[slow[1] :] if stays else []

    def device_s(self) -> tuple[float, float]:
        """Device time up to the cliff, and since."""
        first = next(iter(self.slow), len(self.pieces))
        spans_s = [span_ns / 1e9 for span_ns, _ in self._measured()]
        return sum(spans_s[:first]), sum(spans_s[first:])

    def enough(self) -> bool:
        """Whether there is no reason to go on: the cliff was seen for long, or is not to be had."""
        before_s, since_s = self.device_s()
        if sum(count for _, count in self._measured()) >= MOST_RANDOM_WRITES:
            return True
        if not self.slow:
            return before_s >= FILL_S
        seen = bool(self._past()) and (len(self.spells) == 1 or len(self.spells) > LEAST_PERIODS)
        return since_s >= MOST_SUSTAINED_S or (since_s >= SUSTAINED_S and seen)


def _mean_ns(log: IoLog) -> float:
    return log.span_ns / max(len(log), 1)


def measure(steps: Steps, seen: Cliff) -> None:
    """Random writes to a shingled drive until it has been past its cliff for long."""
    region = seen.region = Region.of(steps.known, steps.size)
    block = max(BLOCK_BYTES, steps.block_bytes)
    rng = steps.rng("cliff")
    while not seen.enough():
        count, until = _next(seen)
        log = steps.run("cliff", IoBatch.writes(region.random(rng, count, block), block), until=until)
        if len(log) == 0:
            return
        if seen.pieces or len(log) >= FIRST_WRITES or log.span_ns >= FIRST_S * 1e9:
            seen.pieces.append(log)  # the first is not too short to be what others are held against


def _next(seen: Cliff) -> tuple[int, Stop | None]:
    """How many writes the next piece holds, and what ends it early."""
    if not seen.pieces:
        seen.tried = min(4 * seen.tried, FIRST_WRITES) if seen.tried else LEAST_WRITES
        return seen.tried, None
    slow_ns = max(round(SLOW_PART * float(np.median(seen.pieces[0].latency_ns))), SLOW_NS)
    count = int(np.clip(PIECE_S * 1e9 / max(_mean_ns(seen.pieces[-1]), 1.0), LEAST_WRITES, MOST_WRITES))
    return count, Stop(slow_ns, SLOW_COUNT, SLOW_WITHIN)


def empty_zones(steps: Steps, zones: ZonesSeen | None, io: IoBatch) -> None:
    """Resets the zones that writes in order go to, of a target that has some: so they are at write pointers,
    as a host that knows zones writes. In a full zone they would go to the persistent cache."""
    if zones is not None:
        each = np.unique(io.offset // np.uint64(zones.zone_bytes)).astype(np.int64)
        steps.run("zones-emptied", zones.reset(each))


def stream(steps: Steps, seen: Cliff, zones: ZonesSeen | None = None) -> None:
    """Writes in order, to the data that one part of the cache serves."""
    if seen.region is None:
        seen.region = Region.of(steps.known, steps.size)
    io = IoBatch.writes(seen.region.in_order(MOST_STREAM_WRITES, STREAM_BYTES), STREAM_BYTES)
    empty_zones(steps, zones, io)
    seen.in_zones = zones is not None
    done = IoLog.joined([])
    may_clean = steps.known.word("drive_type") == "smr"
    while len(done) < len(io) and done.span_ns < STREAM_S * 1e9:
        few = may_clean and len(done) * STREAM_BYTES < FEW_BYTES
        part = io.part(len(done), len(done) + (FEW_WRITES if few else STREAM_WRITES))
        seen.stream = done = IoLog.joined([done, steps.run("stream", part, depth=STREAM_DEPTH)])


def counted_stream(log: IoLog) -> IoLog:
    """The part of the writes in order that counts: its end."""
    return log.rows(slice(int(len(log) * COUNTED_FROM), None))
