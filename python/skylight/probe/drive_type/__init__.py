"""Test 1, drive type: conventional, shingled with a disk or a flash cache, or not a rotating disk.

Reads tell whether a platter turns: completions of random 4 KiB reads all over the target, four near each
other at each of 64 places, either follow a rotation or do not (`skylight.infer.phase`). Writes tell what the
drive does with them: random 4 KiB writes, one at a time, volatile write cache off, in the first 1 GiB. A
conventional disk seeks and waits for an angle, so latency varies over a turn and completions follow the
address; a shingled disk appends them to its persistent cache, so latency is fixed and follows no address, and
below a millisecond when that cache is flash.

Writes with a random read before each tell a log on the platter from flash, whatever either takes (`mixed`).

The test adapts. A drive with many cache bands (`a mod n` of a set-associative layer) varies over 1 GiB
although each band is a log, so varying writes are repeated within 16 MiB and 4 MiB before "conventional" is
said. Where the write cache is not known to be off, a FLUSH follows each write and the pair is timed. Writes
that complete at once on a rotating disk are doubted, whatever the drive says of its write cache: a FLUSH must
then find nothing to do, and more data than a volatile cache holds must be written as fast.

Invariant: `measure` decides what to do next with the same functions that `infer` judges with, so evidence
holds what the verdict needs. Confidence is the product of bootstrap shares (how often resampled evidence
passes the same limits) and of one minus the chances named in the reason; an unknown has none.

Source: Skylight (FAST '15) section 4.3, Test 1 and Figure 4; docs/figures.md, rows S1a to S1e.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.errors import UsageError
from skylight.evidence import Evidence, IoBatch, IoLog, Op, Step, Stop, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer import phase
from skylight.infer.phase import Coherence
from skylight.probe import Axis, Cost, Figure
from skylight.probe.drive_type.figures import draw
from skylight.probe.drive_type.findings import CACHE_MEDIUM, DRIVE_TYPE, FINDINGS
from skylight.probe.drive_type.mixed import PAIRS, STALL_NS, Mixed
from skylight.probe.drive_type.verdict import Observed, judge, reads_fast, slow_flush
from skylight.probe.drive_type.writes import (
    FAST_LARGE_NS,
    FEWEST_SHARE,
    LARGE_BYTES,
    TELLING_NS,
    Sustained,
    Writes,
    cleaned_early,
)
from skylight.probe.session import Session

IO_BYTES = 4096
PLACES = 64
VISITS = 4
PLACES_PER_ROUND = 16
WIDE_BYTES = 1 << 30
QUICK_BYTES = 4 << 30  # a quick answer stays within these, at the start
WIDE_WRITES = 512
NARROW_BYTES = (16 << 20, 4 << 20)
SUSTAINED_WRITES = 18_432  # of 64 KiB: 1,152 MiB
SUSTAINED_PIECE, LATER_PIECE, LATER = 256, 2_048, 2_048  # writes in a piece, and in one after so many of them
MOST_PIECES = 96  # most are shorter where bands are cleaned all the time
# A quick answer's shares of its device time: the rest is for sustained writes, which need half a minute.
WIDE_SHARE, MIXED_SHARE, FLUSH_SHARE = 0.2, 0.3, 0.1
SUSTAINED_REGION_BYTES = 2 << 30  # wide enough that a volatile cache cannot write them out in one sweep
# So many slow ones of so many are bands being cleaned, not outliers: a piece ends there, for each takes long.
STALLING = Stop(STALL_NS, count=8, within=64)
TELLING = Stop(TELLING_NS)  # a quick answer has no time to wait for many
FLUSHES, FLUSHED_BURST = 3, 16
LEAST_TARGET_BYTES = 4 << 20
LARGEST_PARAM = 1 << 62
SLOWEST_IO_S = 0.03

SETTINGS, READS, READ_BACK, FLUSH = "settings", "reads", "reads-back", "flush"
SUSTAINED = tuple(Sustained.name(number) for number in range(1, MOST_PIECES + 1))
WIDE, NARROW = "writes-wide", ("writes-narrow", "writes-narrowest")
FLUSHED_NARROW = ("writes-narrow-flushed", "writes-narrowest-flushed")
MIXED, MIXED_FLUSHED = "writes-after-reads", "writes-after-reads-flushed"


@dataclass(frozen=True, slots=True)
class _Plan:
    """Offsets of each step, from the session's seed alone."""

    session: Session
    places: int
    wide_writes: int
    pair_count: int

    @staticmethod
    def of(session: Session) -> _Plan:
        part = 2 if session.quick else 1
        return _Plan(session, PLACES // part, WIDE_WRITES // part, PAIRS)

    @property
    def reach(self) -> int:
        """Bytes of the target that are looked at, in whole places."""
        return self.region(QUICK_BYTES if self.session.quick else self.session.size)

    @property
    def io_bytes(self) -> int:
        return max(IO_BYTES, self.session.facts.block_bytes)

    @property
    def place_bytes(self) -> int:
        return VISITS * self.io_bytes

    def region(self, limit_bytes: int) -> int:
        """Bytes of a region of at most `limit_bytes` at the start, in whole places."""
        return min(limit_bytes, self.session.size) // self.place_bytes * self.place_bytes

    def scattered(self, name: str, region: int, count: int, size: int = 0) -> NDArray[np.uint64]:
        """At most `count` different blocks of `size` bytes (0: the usual) of a region in random order."""
        size = size or self.io_bytes
        chosen = self.session.rng(name).choice(region // size, size=min(count, region // size), replace=False)
        return chosen.astype(np.uint64) * np.uint64(size)

    def rounds(self, name: str, region: int) -> NDArray[np.uint64]:
        """Every block of some places of a region, round by round, each round's places interleaved at random.

        The blocks of a place come from its end to its start, so that look-ahead which cannot be switched off
        finds less to do."""
        rng = self.session.rng(name)
        places = min(self.places, region // self.place_bytes // PLACES_PER_ROUND * PLACES_PER_ROUND)
        chosen = rng.choice(region // self.place_bytes, size=places, replace=False)
        offsets = []
        for group in chosen.reshape(-1, PLACES_PER_ROUND):
            order = rng.permutation(np.repeat(group, VISITS))
            visit = np.array([np.count_nonzero(order[:row] == place) for row, place in enumerate(order)])
            offsets.append(order * VISITS + (VISITS - 1 - visit))
        return np.concatenate(offsets).astype(np.uint64) * np.uint64(self.io_bytes)

    def bursts(self, region: int) -> IoBatch:
        """A few bursts of scattered writes, each ended by a FLUSH; several, because one may be an outlier."""
        where = self.scattered(FLUSH, region, FLUSHES * FLUSHED_BURST).reshape(FLUSHES, -1)
        writes = IoBatch.writes(np.pad(where, ((0, 0), (0, 1))).ravel(), self.io_bytes)
        ends = np.zeros(where.shape, bool)
        last = np.pad(ends, ((0, 0), (0, 1)), constant_values=True).ravel()
        op = np.where(last, np.uint8(Op.FLUSH), writes.op)
        return IoBatch(op, writes.offset, np.where(last, np.uint32(0), writes.size))

    def pairs(self, flushed: bool) -> IoBatch:
        """A read anywhere, then a write in the narrowest region (and its FLUSH), and so on."""
        region = self.region(NARROW_BYTES[-1])
        rng = self.session.rng(MIXED)
        reads = rng.integers(0, self.reach // self.io_bytes, self.pair_count)
        writes = rng.integers(0, region // self.io_bytes, self.pair_count)
        ops = (Op.READ, Op.WRITE, Op.FLUSH) if flushed else (Op.READ, Op.WRITE)
        where = np.stack([reads, writes, np.zeros_like(reads)][: len(ops)], axis=1) * self.io_bytes
        size = [0 if op == Op.FLUSH else self.io_bytes for op in ops]
        return IoBatch(
            np.tile(np.array(ops, np.uint8), self.pair_count),
            where.ravel().astype(np.uint64),
            np.tile(np.array(size, np.uint32), self.pair_count),
        )

    def params(self, region: int, *, flushed: bool = False) -> dict[str, str | int | float | bool | None]:
        """What inference has to know of a step beside its rows."""
        return {
            "region_bytes": region,
            "place_bytes": self.place_bytes,
            "round_ios": PLACES_PER_ROUND * VISITS,
            "flushed": flushed,
            "writes_allowed": self.session.can_write,
        }

    def read(self, name: str, region: int) -> IoLog:
        io = IoBatch.reads(self.rounds(name, region), self.io_bytes)
        holes = self.session.holes(io.offset)
        params = self.params(region) | ({} if holes is None else {"holes": holes})
        return self.session.run(name, io, params=params)

    def write(self, name: str, offsets: NDArray[np.uint64], region: int, *, flushed: bool = False) -> Writes:
        make = IoBatch.flushed_writes if flushed else IoBatch.writes
        params = self.params(region, flushed=flushed)
        log = self.session.run(name, make(offsets, self.io_bytes), params=params, share=WIDE_SHARE)
        return writes_of(Step(name, "run", params, log))


def writes_of(step: Step) -> Writes:
    """Latency and phase of a step of writes; with `flushed`, of each write together with its FLUSH."""
    log, flushed = step.rows, step.flag("flushed")
    writes = log.only(Op.WRITE)
    complete_ns = writes.complete_ns
    if flushed:
        flushes = log.only(Op.FLUSH)
        count = min(len(writes), len(flushes))
        writes, complete_ns = _first(writes, count), flushes.complete_ns[:count]
    latency_ns = complete_ns.astype(np.int64) - writes.submit_ns.astype(np.int64)
    narrow = step.name in NARROW + FLUSHED_NARROW
    tied = _coherence(step, writes.offset, complete_ns) if narrow else phase.NONE
    return Writes(step.name, step.whole("region_bytes", LARGEST_PARAM), flushed, latency_ns, tied)


def mixed_of(step: Step, turning: Coherence) -> Mixed:
    """The writes of a step that had a random read before each; with `flushed`, each with its FLUSH."""
    log = step.rows
    writes = log.only(Op.WRITE)
    done_ns = log.only(Op.FLUSH).complete_ns if step.flag("flushed") else writes.complete_ns
    count = min(len(writes), len(done_ns))
    latency_ns = done_ns[:count].astype(np.int64) - writes.submit_ns[:count].astype(np.int64)
    return Mixed(step.name, log.only(Op.READ).latency_ns, latency_ns, done_ns[:count], turning)


def _first(log: IoLog, count: int) -> IoLog:
    return IoLog(
        log.op[:count], log.offset[:count], log.size[:count], log.submit_ns[:count], log.complete_ns[:count]
    )


def _coherence(step: Step, offset: NDArray[np.uint64], complete_ns: NDArray[np.uint64]) -> Coherence:
    place_bytes, round_ios = step.whole("place_bytes", LARGEST_PARAM), step.whole("round_ios", 1 << 20)
    return phase.coherence(complete_ns, offset // np.uint64(place_bytes), round_ios)


def _first_visits(step: Step) -> NDArray[np.int64]:
    """Latency of the first read at each place: no cache of the drive can hold it, whatever look-ahead
    does."""
    place_bytes, log = step.whole("place_bytes", LARGEST_PARAM), step.rows
    _, first = np.unique(log.offset // np.uint64(place_bytes), return_index=True)
    latency_ns: NDArray[np.int64] = log.latency_ns[np.sort(first)]
    return latency_ns


def observe(evidence: Evidence) -> Observed:
    """What the verdict rests on, from the evidence."""

    def read_step(name: str) -> tuple[NDArray[np.int64], Coherence]:
        step = evidence.step(name)
        if step is None or len(step.rows) == 0:
            return np.empty(0, np.int64), phase.NONE
        return _first_visits(step), _coherence(step, step.rows.offset, step.rows.complete_ns)

    def write_steps(names: Sequence[str]) -> list[Writes]:
        steps = [evidence.step(name) for name in names]
        return [writes_of(step) for step in steps if step is not None and len(step.rows)]

    reads_ns, reads = read_step(READS)
    back_ns, back = read_step(READ_BACK)
    settings, read = evidence.step(SETTINGS), evidence.step(READS)
    mixed = evidence.step(MIXED_FLUSHED) or evidence.step(MIXED)
    known = reads if reads.rotates else back
    pieces = [step for step in (evidence.step(name) for name in SUSTAINED) if step is not None]
    sustained = Sustained.of([step.rows for step in pieces])
    return Observed(
        kind=evidence.target.kind,
        reads_ns=reads_ns,
        reads=reads,
        back_ns=back_ns,
        back=back,
        wide=next(iter(write_steps([WIDE])), None),
        narrow=write_steps(NARROW),
        flushed_narrow=write_steps(FLUSHED_NARROW),
        flush_ns=evidence.log(FLUSH).only(Op.FLUSH).latency_ns,
        sustained=sustained,
        cache_off=settings is not None and settings.params.get("write_cache") is False,
        mixed=mixed_of(mixed, known) if mixed is not None and known.rotates else None,
        writes_allowed=read is None or read.flag("writes_allowed"),
        hurried=read is not None and "left_ns" in read.params,
        holes=0.0 if read is None else read.share("holes"),
    )


class DriveType:
    """Test 1 of the suite; see the module's page."""

    name = "drive_type"
    title = "Drive type"
    findings = FINDINGS
    axis: Axis = "number"
    needs: tuple[str, ...] = ()
    summary = (
        "Random 4 KiB reads over the whole target tell whether a platter turns; random 4 KiB writes in its"
        " first 1 GiB, one at a time with the volatile write cache off, tell whether they are written in"
        " place or to a persistent cache."
    )

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """At most this: the longest branch, fast writes that are doubted, then flushed.

        The time allows for slow commands, but takes sustained writes as the fast ones they follow: a drive
        that does not keep its promise takes longer.
        """
        if not writes:
            return Cost(PLACES * VISITS, PLACES * VISITS * SLOWEST_IO_S, 0)
        reads = 2 * PLACES * VISITS
        narrow = len(NARROW_BYTES) * PLACES * VISITS
        sustained = SUSTAINED_WRITES
        single = WIDE_WRITES + FLUSHES * FLUSHED_BURST + narrow + 2 * PAIRS
        seconds = (
            reads + WIDE_WRITES + 2 * narrow + 5 * PAIRS
        ) * SLOWEST_IO_S + sustained * FAST_LARGE_NS / 1e9
        written = single * max(IO_BYTES, facts.block_bytes) + min(sustained * LARGE_BYTES, facts.size_bytes)
        return Cost(reads + single + sustained + FLUSHES + narrow + 3 * PAIRS, seconds, written)

    def measure(self, session: Session) -> None:
        """Reads, then writes if they are allowed, then narrower writes as long as those vary."""
        plan = _Plan.of(session)
        whole = plan.reach
        if whole < LEAST_TARGET_BYTES:
            raise UsageError(
                f"{session.facts.name}: {session.size} bytes are too small to probe; at least"
                f" {LEAST_TARGET_BYTES >> 20} MiB are needed"
            )
        reads_ios = plan.places * VISITS
        session.expect(reads_ios + (plan.wide_writes + 2 * PAIRS + reads_ios if session.can_write else 0))
        with session.settings(SETTINGS, write_cache=False, look_ahead=False) as report:
            reads = plan.read(READS, whole)
            if session.can_write and not session.spent():
                self._measure_writes(plan, reads, flushed=report.write_cache is not False)

    def _measure_writes(self, plan: _Plan, reads: IoLog, *, flushed: bool) -> None:
        session = plan.session
        region = plan.region(WIDE_BYTES)
        where = plan.scattered(WIDE, region, plan.wide_writes)
        if flushed:
            session.expect(plan.places * VISITS * 2 + 2 * len(where))
        step = Step(READS, "run", plan.params(region), reads)
        turning: Coherence | None = _coherence(step, reads.offset, reads.complete_ns)
        wide = plan.write(WIDE, where, region, flushed=flushed)
        if session.spent():
            return
        if turning is not None and not turning.rotates:
            turning = None
        if turning is None and reads_fast(_first_visits(step)):
            turning = self._read_back(plan, where, region)
            if turning is None:
                return
        share = 1.0 if cleaned_early(wide, None) else MIXED_SHARE
        mixed = None if turning is None else self._mix(plan, turning, flushed=flushed, share=share)
        if session.spent() or (mixed is not None and mixed.logged and (wide.fixed(turning) or session.quick)):
            return
        if wide.quick(turning) or (mixed is not None and mixed.level):
            if session.quick and cleaned_early(wide, mixed):
                return
            if flushed or not self._has_dirt(plan, region):
                if not flushed and not (session.quick and mixed is not None and mixed.outlasts):
                    self._sustain(plan, wide)
                return
            flushed, names = True, FLUSHED_NARROW
            if turning is not None:
                self._mix(plan, turning, flushed=True, share=MIXED_SHARE)
        elif wide.fixed(turning):
            return
        else:
            names = NARROW
        for name, limit in zip(names, NARROW_BYTES, strict=True):
            narrow = plan.region(limit)
            if session.spent() or plan.write(name, plan.rounds(name, narrow), narrow, flushed=flushed).fixed(
                turning
            ):
                return

    def _mix(self, plan: _Plan, turning: Coherence, *, flushed: bool, share: float) -> Mixed:
        """Writes with a random read before each."""
        params = plan.params(plan.region(NARROW_BYTES[-1]), flushed=flushed)
        name = MIXED_FLUSHED if flushed else MIXED
        log = plan.session.run(name, plan.pairs(flushed), params=params, share=share)
        return mixed_of(Step(name, "run", params, log), turning)

    def _read_back(self, plan: _Plan, where: NDArray[np.uint64], region: int) -> Coherence | None:
        """Reads what was just written; the rotation that these reads follow where fresh blocks did not, or
        None.

        A drive may answer reads of blocks never written without going to the platter; these it has to fetch.
        """
        places = np.unique(where // np.uint64(plan.place_bytes))[: plan.places]
        count = len(places) // PLACES_PER_ROUND * PLACES_PER_ROUND
        order = plan.session.rng(READ_BACK).permutation(places)[:count].reshape(-1, PLACES_PER_ROUND)
        written = np.sort(where)
        rows = [
            plan.session.rng(f"{READ_BACK}-{number}").permutation(np.repeat(group, VISITS))
            for number, group in enumerate(order)
        ]
        chosen = np.concatenate(rows)
        offsets = written[np.searchsorted(written, chosen * np.uint64(plan.place_bytes))]
        log = plan.session.run(READ_BACK, IoBatch.reads(offsets, plan.io_bytes), params=plan.params(region))
        turning = _coherence(Step(READ_BACK, "run", plan.params(region), log), log.offset, log.complete_ns)
        return turning if turning.rotates else None

    def _has_dirt(self, plan: _Plan, region: int) -> bool:
        """Doubts fast writes on a rotating disk: True if a FLUSH after them had something to do."""
        log = plan.session.run(FLUSH, plan.bursts(region), params=plan.params(region), share=FLUSH_SHARE)
        return slow_flush(log.only(Op.FLUSH).latency_ns)

    def _sustain(self, plan: _Plan, wide: Writes) -> None:
        """More random writes than a volatile cache holds, piece by piece, until they are plainly slow."""
        session = plan.session
        region = plan.region(SUSTAINED_REGION_BYTES)
        where = plan.scattered("writes-sustained", region, SUSTAINED_WRITES, LARGE_BYTES)
        session.expect(plan.places * VISITS + plan.wide_writes + FLUSHES * (FLUSHED_BURST + 1) + len(where))
        logs: list[IoLog] = []
        for name in SUSTAINED:
            piece = where[: self._next_piece(session, SUSTAINED_WRITES - len(where), Sustained.of(logs))]
            if len(piece) == 0:
                return
            io = IoBatch.writes(piece, LARGE_BYTES)
            until = TELLING if session.quick else STALLING
            logs.append(session.run(name, io, until=until, params=plan.params(region)))
            where = where[len(logs[-1]) :]
            so_far = Sustained.of(logs)
            if so_far.enough(wide) or (so_far.tells and so_far.slow(wide)):
                return

    @staticmethod
    def _next_piece(session: Session, done: int, so_far: Sustained) -> int:
        """Writes of the next piece: more once a usual volatile cache is full. A quick answer has no time for
        more, and after a stall goes on for no more than it takes to tell whether bands are cleaned."""
        if not session.quick:
            return SUSTAINED_PIECE if done < LATER else LATER_PIECE
        if session.spent():
            return 0
        return FEWEST_SHARE if so_far.stalled_lately else SUSTAINED_PIECE

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """`drive_type` and `cache_medium`."""
        del known  # it is the first
        verdict = judge(evidence.once(observe))
        return [
            found.found(value, confidence, verdict.why, verdict.rows)
            for found, value, confidence in (
                (DRIVE_TYPE, verdict.drive_type, verdict.confidence),
                (CACHE_MEDIUM, verdict.cache_medium, verdict.medium_confidence),
            )
        ]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Latency of writes and reads, as in the paper's Figure 4."""
        return draw(evidence.once(observe), findings)
