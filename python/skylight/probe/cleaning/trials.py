"""Trials of idle time: does a drive clean when it is left alone, and since when?

A trial writes a mark (three blocks of one band), reads an anchor elsewhere, leaves the drive alone for a
while, reads the anchor again and then looks whether the mark's blocks are at their native place
(`skylight.infer.cached_or_native`). The drive had begun to clean if most are, or if the anchor was *late*:
the unit of cleaning in progress has to end first. Left alone for less than its idle time it still has its
heads at the anchor, and answers within a revolution.

Each trial marks another place of the same band, for which all marks of earlier trials go with it. Only a late
anchor can mislead (a slow outlier), so it has to be seen again before it counts. A unit that is about to end
makes no anchor late, so a search guards its lower end with trials a few revolutions below it.

Invariant: what is done next depends on logs only.
Source: Skylight (FAST '15), section 4.5, Test 3 and Figure 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skylight.evidence import I64, U64, IoBatch, IoLog, Op
from skylight.infer import cached_or_native
from skylight.probe.procedure import Steps

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BLOCK_BYTES = 4096
LEAST_TARGET_BYTES = 64 * GIB
SHORTEST_S, STEP, LONGEST_S = 0.08, 1.6, 380.0
CLOSE_ENOUGH = 1.04  # a bracket as narrow as this is 4 %, a fifth of what is asked
GUARD_TURNS, MORE_GUARD_TURNS = (1.4, 2.8), (1.4, 2.8, 4.3, 6.1, 8.4, 11.0)
LARGEST_TRIALS = 64
LATE_TURNS, LATE_NS = 1.1, 3_000_000  # beyond one revolution: a step to the next track, overhead and jitter
PLACE_BYTES = 64 * MIB
MARK_BLOCKS, BLOCK_STEP, MARK_STEP, ANCHOR_STEP = 3, 16 * KIB, 48 * KIB, 16 * KIB
INSIDE = 516 * KIB  # off the start of a band of whole MiB, where a write may begin a stream

SETTINGS, ERASE, BASELINE, SPEED = "settings", "erase", "baseline", "speed"
SPEED_PLACES, SPEED_BYTES = 9, 16 * MIB
BASELINE_PLACES = 24
TRIAL = "trial-"


def joined(*batches: IoBatch) -> IoBatch:
    """Batches one after the other."""
    parts = [[getattr(batch, name) for batch in batches] for name in ("op", "offset", "size")]
    return IoBatch(*(np.concatenate(part) for part in parts))


@dataclass(frozen=True, slots=True)
class Ground:
    """What all parts share: the steps, whether the cache is flash, whether writes need a FLUSH, one
    revolution (ns), how fast blocks pass under the heads at some places."""

    steps: Steps
    flash: bool
    flushed: bool
    rotation_ns: float
    bytes_a_second: tuple[float, ...] = ()

    @property
    def block(self) -> int:
        """Bytes of the smallest write."""
        return max(BLOCK_BYTES, self.steps.block_bytes)

    @property
    def late_ns(self) -> float:
        """Latency from which on an anchor is late, ns: it waited for something."""
        return LATE_TURNS * self.rotation_ns + LATE_NS

    def writes(self, offsets: U64, size: int = 0) -> IoBatch:
        """Writes, with a FLUSH behind each where the volatile cache may be on."""
        make = IoBatch.flushed_writes if self.flushed else IoBatch.writes
        return make(offsets, size or self.block)

    def looks(self, blocks: U64) -> IoBatch:
        """Looks at blocks."""
        return cached_or_native.looks(blocks, self.block, flash=self.flash)

    def home(self, log: IoLog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of the blocks looked at are at their native place."""
        return cached_or_native.at_home(cached_or_native.look_ns(log), self.rotation_ns, flash=self.flash)


def begin(steps: Steps, *, flushed: bool) -> Ground:
    """Measures a revolution and the speed of the platters on blocks never written."""
    flash = steps.known.word("cache_medium") == "flash"
    ground = Ground(steps, flash, flushed, 1.0)
    at = steps.rng(BASELINE).integers(16, steps.size // MIB - 16, size=BASELINE_PLACES)
    blocks = np.sort(at).astype(np.uint64) * np.uint64(MIB) + np.uint64(260 * KIB)
    log = steps.run(BASELINE, ground.looks(blocks), params={"flash": flash})
    rotation_ns = cached_or_native.turn_of(cached_or_native.look_ns(log))
    places = (2 * np.arange(SPEED_PLACES) + 1) * (steps.size // (2 * SPEED_PLACES)) // MIB * MIB
    pairs = np.stack([places, places + SPEED_BYTES], axis=1).ravel()
    second_ns = steps.run(SPEED, IoBatch.reads(pairs, SPEED_BYTES)).latency_ns[1::2]
    passing_ns = np.maximum(
        second_ns - rotation_ns, second_ns / 4
    )  # the second of a pair first misses its revolution
    return Ground(steps, flash, flushed, rotation_ns, tuple(SPEED_BYTES * 1e9 / passing_ns))


@dataclass(frozen=True, slots=True)
class Trial:
    """What one trial saw: pause (s), latency of the anchor after it (ns), whether the mark was cleaned."""

    number: int
    pause_s: float
    anchor_ns: int
    cleaned: bool
    late: bool

    @property
    def begun(self) -> bool:
        """Whether the drive seems to have begun to clean."""
        return self.cleaned or self.late


def _trial(number: int, pause_s: float, log: IoLog, ground: Ground) -> Trial:
    anchor_ns = int(log.latency_ns[0])
    home = ground.home(without_first(log))
    # One of them may meet a slow outlier, or the edge of a track, where the next block comes at once.
    cleaned = 2 * int(np.count_nonzero(home)) > len(home)
    return Trial(number, pause_s, anchor_ns, cleaned, anchor_ns > ground.late_ns)


def without_first(log: IoLog) -> IoLog:
    """A log without its first row: an anchor, before looks."""
    return log.rows(slice(1, None))


@dataclass(slots=True)
class Search:
    """The search for the idle time; see the module's page."""

    ground: Ground
    seen: list[Trial]

    def trial(self, pause_s: float) -> Trial:
        """One trial."""
        steps, number = self.ground.steps, len(self.seen) + 1
        base = steps.size * 3 // 8 // PLACE_BYTES * PLACE_BYTES + INSIDE
        mark = base + number * MARK_STEP
        marks = (mark + BLOCK_STEP * np.arange(MARK_BLOCKS)).astype(np.uint64)
        anchor = base + GIB - number * ANCHOR_STEP
        anchors = [IoBatch.reads([anchor - back], self.ground.block) for back in (0, ANCHOR_STEP // 2)]
        name = f"{TRIAL}{number}"
        steps.run(f"{name}-mark", joined(self.ground.writes(marks), anchors[0]))
        steps.pause(f"{name}-pause", pause_s)
        look = joined(anchors[1], self.ground.looks(marks))
        log = steps.run(f"{name}-look", look, params={"pause_s": pause_s})
        seen = _trial(number, pause_s, log, self.ground)
        self.seen.append(seen)
        return seen

    def begun(self, pause_s: float) -> bool:
        """Whether cleaning begins within such a pause; a late anchor alone has to be seen twice of three."""
        first = self.trial(pause_s)
        if first.cleaned or not first.late:
            return first.cleaned
        second = self.trial(pause_s)
        return second.begun or self.trial(pause_s).begun

    def run(self) -> None:
        """Longer and longer pauses, then ever closer ones."""
        pause_s = SHORTEST_S
        while not self.begun(pause_s):
            pause_s *= STEP
            if pause_s > LONGEST_S:
                return
        self.narrow(lambda low_s: low_s * (CLOSE_ENOUGH - 1), GUARD_TURNS)

    def narrow(self, width_s: Callable[[float], float], guard_turns: tuple[float, ...]) -> None:
        """Trials until the bracket is as narrow as `width_s` of its lower end says, s; then guards, so many
        revolutions below it."""
        for turns in (0.0, *guard_turns):
            guard_s = bracket(self.seen)[0] - turns * self.ground.rotation_ns / 1e9
            if turns and (guard_s <= 0 or not self.begun(guard_s)):
                continue
            self._halve(width_s)

    def _halve(self, width_s: Callable[[float], float]) -> None:
        while len(self.seen) < LARGEST_TRIALS:
            low_s, high_s = bracket(self.seen)
            if low_s <= 0 or math.isinf(high_s) or high_s - low_s <= width_s(low_s):
                return
            self.begun(math.sqrt(low_s * high_s))


def bracket(seen: list[Trial]) -> tuple[float, float]:
    """The longest pause in which nothing began and the shortest in which something did, s; 0 and infinity
    where there is none. A late anchor counts if two trials of that pause saw one."""
    began = [t.pause_s for t in seen if t.cleaned or sum(o.begun for o in seen if o.pause_s == t.pause_s) > 1]
    high_s = min(began, default=math.inf)
    low_s = max((t.pause_s for t in seen if t.pause_s < high_s and not t.begun), default=0.0)
    return low_s, high_s


def writes_ns(log: IoLog) -> I64:
    """Latency of each write of a log, with its FLUSH if it has one, ns."""
    writes, flushes = log.only(Op.WRITE), log.only(Op.FLUSH)
    if len(flushes) < len(writes) or len(writes) == 0:
        return writes.latency_ns
    done: I64 = flushes.complete_ns[: len(writes)].astype(np.int64) - writes.submit_ns.astype(np.int64)
    return done
