"""The commands of test 1: where its reads and writes go, drawn from the seed of the run.

Source: Skylight (FAST '15) section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, JsonScalar, Op, Stop
from skylight.probe.drive_type.write_latencies import LONGEST_RETRY_NS, TELLING_NS
from skylight.probe.drive_type.writes_after_random_reads import STALL_NS
from skylight.probe.procedure import CutShort, Steps
from skylight.probe.zoned import ZonesSeen

IO_BYTES = 4096
PLACES = 64
VISITS = 4
PLACES_PER_ROUND = 16
ROUND_IOS = PLACES_PER_ROUND * VISITS
WIDE_BYTES = 1 << 30
QUICK_BYTES = 4 << 30  # a quick answer stays within these, at the start, unless they are written in place
DATA_BYTES = 8 << 30  # of a drive with zones: as much as reading back needs, filled in a minute or two
WIDE_WRITES = 512
NARROW_BYTES = (16 << 20, 4 << 20)
PARTS = (0.2, 0.45, 0.7, 0.95)  # of the addresses: a drive may write in place at the start alone
SUSTAINED_WRITES = 18_432  # of 64 KiB: 1,152 MiB
SUSTAINED_REGION_BYTES = 2 << 30  # so wide that a volatile cache cannot write them out in one pass of the arm
FLUSHES, FLUSHED_BURST = 8, 16
# Eight of 64 writes this slow are bands being cleaned, not outliers: a piece ends there, for each takes long.
STALLING = Stop(STALL_NS, count=8, within=64)
# Nor does any disk take as long as this for one command: a cache that is cleaned whole for each entry that
# leaves volatile memory stalls one command in dozens, for minutes.
CROWDED = replace(STALLING, alone_ns=LONGEST_RETRY_NS)
# Commands behind such a one among which another shows that it was no mishap. Chosen: as entries that leave
# volatile memory hold 16 small writes or more, each with a FLUSH.
SINCE_CROWDED = 128
# Commands after a stall between looks at whether they take too long: a few stalls more, not minutes of them;
# whole pairs, with a FLUSH or without.
MIXED_PIECE = 18
# Writes alone, with reads between them, and with FLUSHes: together they leave a part of a small cache empty.
STEPS_OF_FEW, LEAST_HELD = 4, 128
DECISIVE = Stop(TELLING_NS)  # a quick answer has no time to wait for eight


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets of each step, from the seed of the run alone. A quick answer takes half of the samples."""

    steps: Steps
    zones: ZonesSeen | None = None
    """The zones with a write pointer that stand for the target; None where it has none, or no leave to write
    to them."""
    cached: bool = False
    """Whether a volatile cache may answer writes: it is not said to be off."""
    held: int = 0
    """How many small writes filled the cache, where so few did that each step has to do with a part of them;
    0 where it holds enough for all, or nothing is known of it."""

    @property
    def quick(self) -> bool:
        """Whether a quick answer is asked for."""
        return self.steps.known.quick

    @property
    def places(self) -> int:
        """How many locations are read."""
        return PLACES // 2 if self.quick else PLACES

    @property
    def wide_writes(self) -> int:
        """How many writes spread over the wide region."""
        return self.at_most(WIDE_WRITES // 2 if self.quick else WIDE_WRITES)

    def at_most(self, count: int) -> int:
        """So many writes of a step, or its part of those that fit the cache."""
        return min(count, self.held // STEPS_OF_FEW) if self.held else count

    @property
    def reach(self) -> int:
        """Bytes of the target that are sampled, in whole places: those that hold data."""
        if self.zones is not None and not self.quick:
            # Whole zones, since they are filled as a whole.
            zone = self.zones.zone_bytes
            return self.region(-(-DATA_BYTES // zone) * zone)
        return self.region(QUICK_BYTES if self.quick else self.steps.size)

    @property
    def whole(self) -> int:
        """Bytes of the target that other parts of the addresses are looked at in: those that are sampled, and
        of a quick answer all."""
        return self.region(self.steps.size) if self.quick else self.reach

    def fill(self) -> bool:
        """Fills the zones that are sampled; False where that cannot be. A quick answer has no time for it."""
        if self.zones is None or self.quick:
            return True
        begin = np.arange(0, self.reach, self.zones.zone_bytes, dtype=np.uint64)
        return self.steps.written(begin, self.io_bytes)

    @property
    def io_bytes(self) -> int:
        """Size of a small read or write."""
        return max(IO_BYTES, self.steps.block_bytes)

    @property
    def place_bytes(self) -> int:
        """Size of a location: the blocks read there."""
        return VISITS * self.io_bytes

    def region(self, limit_bytes: int) -> int:
        """Bytes of a region of at most `limit_bytes` at the start, in whole places."""
        return min(limit_bytes, self.steps.size) // self.place_bytes * self.place_bytes

    def scattered(self, name: str, region: int, count: int, size: int = 0) -> U64:
        """At most `count` different blocks of `size` bytes (0: the usual) of a region in random order."""
        size = size or self.io_bytes
        chosen = self.steps.rng(name).choice(region // size, size=min(count, region // size), replace=False)
        return chosen.astype(np.uint64) * np.uint64(size)

    def rounds(self, name: str, region: int, most: int = 0) -> U64:
        """Every block of some places of a region, `most` of them (0: as many as are read), round by round,
        each round's places interleaved at random.

        The blocks of a place come from its end to its start, so that look-ahead which cannot be switched off
        finds less to do."""
        rng = self.steps.rng(name)
        most = most or self.places
        places = min(most, region // self.place_bytes // PLACES_PER_ROUND * PLACES_PER_ROUND)
        chosen = rng.choice(region // self.place_bytes, size=places, replace=False)
        offsets = []
        for group in chosen.reshape(-1, PLACES_PER_ROUND):
            order = rng.permutation(np.repeat(group, VISITS))
            visit = np.array([np.count_nonzero(order[:row] == place) for row, place in enumerate(order)])
            offsets.append(order * VISITS + (VISITS - 1 - visit))
        return np.concatenate(offsets).astype(np.uint64) * np.uint64(self.io_bytes)

    def writes(self, where: U64, *, flushed: bool) -> IoBatch:
        """Small writes to these places, with `flushed` each with a FLUSH behind it."""
        return (IoBatch.flushed_writes if flushed else IoBatch.writes)(where, self.io_bytes)

    def elsewhere(self) -> U64:
        """A round in a narrow region of each of some other parts of the addresses; none of zones that were
        not filled, or once the time of a quick answer is over."""
        if self.quick and (self.zones is not None or self.steps.spent()):
            return np.empty(0, np.uint64)
        begins = self.part_begins()
        most = len(PARTS) * PLACES_PER_ROUND
        rounds = self.rounds("writes-elsewhere", self.region(NARROW_BYTES[-1]), most).reshape(-1, ROUND_IOS)
        where = [
            each + np.uint64(begin * self.place_bytes) for begin, each in zip(begins, rounds, strict=False)
        ]
        return np.concatenate(where)

    def bursts(self, region: int) -> IoBatch:
        """A few bursts of scattered writes, each ended by a FLUSH, and by another that finds nothing to do;
        several, because one may be an outlier. In a quick answer with a read between the two: fio, which
        times a FLUSH by what is beside it, needs another run for two in a row."""
        burst = max(self.at_most(FLUSHES * FLUSHED_BURST) // FLUSHES, 1)
        where = self.scattered("flush", region, FLUSHES * burst).reshape(FLUSHES, -1)
        ends = (Op.FLUSH, Op.READ, Op.FLUSH) if self.quick else (Op.FLUSH, Op.FLUSH)
        behind = np.zeros((FLUSHES, len(ends)), np.uint64)
        if self.quick:
            behind[:, 1] = self.scattered("flush-reads", self.reach, FLUSHES)
        op = np.hstack([np.full(where.shape, int(Op.WRITE)), np.tile(ends, (FLUSHES, 1))]).astype(np.uint8)
        size = np.where(op == Op.FLUSH, 0, self.io_bytes).astype(np.uint32)
        return IoBatch(op.ravel(), np.hstack([where, behind]).ravel(), size.ravel())

    def part_begins(self) -> list[int]:
        """Where the other parts of the addresses begin that are looked at, as places."""
        return [int(part * (self.whole - NARROW_BYTES[-1])) // self.place_bytes for part in PARTS]

    def pairs(self, name: str, count: int, *, flushed: bool, begin: int = 0) -> IoBatch:
        """A read anywhere, then a write in the narrowest region, which begins at that place (and its FLUSH),
        and so on."""
        region = self.region(NARROW_BYTES[-1])
        rng = self.steps.rng(name)
        reads = rng.integers(0, self.reach // self.io_bytes, count)
        writes = rng.integers(0, region // self.io_bytes, count) + begin * self.place_bytes // self.io_bytes
        ops = (Op.READ, Op.WRITE, Op.FLUSH) if flushed else (Op.READ, Op.WRITE)
        where = np.stack([reads, writes, np.zeros_like(reads)][: len(ops)], axis=1) * self.io_bytes
        size = [0 if op == Op.FLUSH else self.io_bytes for op in ops]
        return IoBatch(
            np.tile(np.array(ops, np.uint8), count),
            where.ravel().astype(np.uint64),
            np.tile(np.array(size, np.uint32), count),
        )

    def until_crowded(
        self, name: str, io: IoBatch, params: Mapping[str, JsonScalar], share: float = 1.0
    ) -> IoLog:
        """Sends the batch, which ends where commands wait for bands to be cleaned; behind one that waited
        longer than for anything else it goes on to another, if there is one soon."""
        until = None if self.quick else CROWDED
        log = self.steps.run(name, io, until=until, params=params, share=share)
        if until is None or len(log) == len(io) or STALLING.reached(log):
            return log
        few, another = io.part(len(log), len(log) + SINCE_CROWDED), Stop(LONGEST_RETRY_NS)
        try:
            since = self.steps.run(f"{name}-since", few, until=another, params=params, share=share)
        except CutShort as cut:
            cut.log = log if cut.log is None else IoLog.joined([log, cut.log])
            raise
        return IoLog.joined([log, since])

    def params(self, region: int, *, flushed: bool = False) -> dict[str, JsonScalar]:
        """How a step was planned, for readers of the recording."""
        return {
            "region_bytes": region,
            "place_bytes": self.place_bytes,
            "round_ios": ROUND_IOS,
            "flushed": flushed,
            "writes_allowed": self.steps.can_write,
        }

    def read_back(self, name: str, log: IoLog) -> U64:
        """One block of each place that was written, read four times over in rounds as by `rounds`."""
        written = np.sort(log.only(Op.WRITE).offset)
        places = np.unique(written // np.uint64(self.place_bytes))[: self.places]
        count = len(places) // PLACES_PER_ROUND * PLACES_PER_ROUND
        order = self.steps.rng(name).permutation(places)[:count].reshape(-1, PLACES_PER_ROUND)
        chosen = [
            self.steps.rng(f"{name}-{number}").permutation(np.repeat(group, VISITS))
            for number, group in enumerate(order)
        ]
        first = np.concatenate([np.empty(0, np.uint64), *chosen]) * np.uint64(self.place_bytes)
        offsets: U64 = written[np.searchsorted(written, first)]
        return offsets
