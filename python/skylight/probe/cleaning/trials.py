"""Trials of idle time: does a drive clean when it is left alone, and since when?

A trial writes a mark (three blocks of one band), reads an anchor elsewhere, leaves the drive alone for a
while, reads the anchor again and then looks whether the mark's blocks are at their native place
(`skylight.infer.cached_or_native`). The drive had begun to clean if most are, or if the anchor was *late*:
the unit of cleaning in progress has to end first. Left alone for less than its idle time it still has its
heads at the anchor, and answers within a revolution. A mark that alone of all was clean has to be so again,
and so have marks that were after some pauses and not after others as long: in flash delayed looks at cached
blocks pass for looks at blocks at home, and on a disk a write of a mark may have found the cache full.

Each trial marks another place of the same band, for which all marks of earlier trials go with it. Only a late
anchor can mislead (a slow outlier), so it has to be seen again before it counts. A unit that is about to end
makes no anchor late, so a search guards its lower end with trials a few revolutions below it.

That the drive *cleans* is a claim of a cause, so each sign has a control (`Search.check`). A mark that is
looked at right after it was written must look cached, or looks cannot tell; and a pause of which anchors
alone were late is repeated with a clean cache: a drive that spins down, unloads its heads or scans its media
is late then too. Where that control fails, or cannot be made, late anchors do not count, and the time found
is that after which a first band was cleaned.

Where looks at blocks at home are late now and then (`Ground.noisy`, a drive that others use), a mark has
several copies, of which few are enough to show what no delay brings about. Where it counts how much of a
band was written, a mark stays a single block, and is looked at several times instead (`look_again`).

Invariant: what is done next depends on logs only.
Source: Skylight (FAST '15), section 4.5, Test 3 and Figure 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import I64, U64, Bools, IoBatch, IoLog, Op, SettingsReport
from skylight.infer import cached_or_native
from skylight.probe import fua_writes
from skylight.probe.destage_by_read import ReadAround, empties
from skylight.probe.durable_writes import volatile
from skylight.probe.fua_writes import ForcedWrites
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

KIB: int = 1 << 10
MIB: int = 1 << 20
GIB: int = 1 << 30
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
NOISY_TURNS, FEWEST_NOISY = 1.5, 2
"""Looks at the baseline that take so much longer than a revolution, and how many of them are no outlier."""
MORE_BASELINES, FEWEST_NOISY_OF_ALL = 2, 3
"""Where there are fewer, as many blocks again are looked at so often, and how many of all are no outlier.
Chosen: where a tenth of accesses waits for other clients, 24 looks show none one time in twelve, and 72 fewer
than three one time in fifty; where one in a hundred is an outlier, these are three one time in thirty."""
COPIES, TELLING_COPIES, COPY_STEP_BLOCKS = 7, 3, 3
"""Copies of a mark on a drive that others use, blocks from one to the next, and how many decide. With a fifth
of the looks delayed, fewer than three of seven are undelayed once in 200; with one in 30 misread at the end
of a track, three are in one of a thousand."""
MORE_LOOKS = 2
"""How often single blocks are looked at again on a drive that others use: with a fifth of the looks delayed,
all three are in one of 120."""
NEW, NEW_MARKS = "new", 9
"""Marks that are looked at right after they are written, in flash, and how many. Chosen: of nine looks, four
of which may be delayed."""
CONTROL, CONTROL_PAUSE_S, CONTROLS = "control-", 0.03, 3
"""Controls: their steps, the pause of the one without idle time, in which a volatile cache is written out,
and how often each is made."""
AGAIN, MOST_AGAIN = 6, 5
"""Trials of a pause a bracket's width beyond one that may have shown cleaning by chance, and how many of them
have to show it: beyond the shortest of which anchors were late, once controls were in time or showed from
what latency on one counts, and beyond the longest after which marks seemed clean, where one alone of
all was, or not all were from the shortest such pause on. A drive that cleans then shows it each time, but for
an end of a unit. Of one a fifth of whose accesses wait for other clients, five of six are late once in 600
times."""
BEYOND_CONTROL = 1.5
"""An anchor is late where it takes so many times the latest of the controls. Chosen: an arm that was parked
comes from elsewhere, within a seek and a revolution; a drive that spins up takes about as long each time."""


def joined(*batches: IoBatch) -> IoBatch:
    """Batches one after the other."""
    parts = [[getattr(batch, name) for batch in batches] for name in ("op", "offset", "size")]
    return IoBatch(*(np.concatenate(part) for part in parts))


def copies_of(marks: U64, block: int, copies: int) -> U64:
    """The blocks of marks of so many copies, one mark after the other."""
    step = np.arange(copies, dtype=np.uint64) * np.uint64(COPY_STEP_BLOCKS * block)
    return np.asarray((marks[:, None] + step).ravel(), np.uint64)


@dataclass(frozen=True, slots=True)
class Ground:
    """What all parts share: the steps, whether the cache is flash, whether writes need a FLUSH, one
    revolution (ns), how fast blocks pass under the heads at some places, whether looks go backwards because
    look-ahead may be on, whether looks are delayed now and then, and whether writes are on the medium after a
    FLUSH."""

    steps: Steps
    flash: bool
    flushed: bool
    rotation_ns: float
    bytes_a_second: tuple[float, ...] = ()
    backwards: bool = False
    noisy: bool = False
    settles: bool = True
    limit_ns: float | None = None

    @property
    def copies(self) -> int:
        """Blocks of a mark."""
        return COPIES if self.noisy else 1

    @property
    def lone(self) -> Ground:
        """The same where marks are single blocks, for what is to be gathered counts."""
        return replace(self, noisy=False)

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

    def copies_of(self, marks: U64) -> U64:
        """The blocks of marks, one mark after the other."""
        return copies_of(marks, self.block, self.copies)

    def marks(self, marks: U64) -> IoBatch:
        """Writes of marks."""
        return self.writes(self.copies_of(marks))

    def looks(self, marks: U64) -> IoBatch:
        """Looks at marks."""
        blocks = self.copies_of(marks)
        return cached_or_native.looks(blocks, self.block, flash=self.flash, backwards=self.backwards)

    def home(self, log: IoLog) -> Bools:
        """Which of the marks looked at are at their native place. A delayed look at a block at home looks
        cached where the cache is on disk, and one at a cached block looks at home where it is flash."""
        looked_ns = cached_or_native.look_ns(log)
        home = cached_or_native.at_home(looked_ns, self.rotation_ns, flash=self.flash, limit_ns=self.limit_ns)
        if self.copies == 1:
            return home
        of_each = home.reshape(-1, self.copies)
        if self.flash:
            return np.asarray(np.count_nonzero(~of_each, axis=1) < TELLING_COPIES, np.bool_)
        return np.asarray(np.count_nonzero(of_each, axis=1) >= TELLING_COPIES, np.bool_)


def _baseline(ground: Ground, name: str) -> I64:
    """Looks at blocks never written, ns."""
    steps = ground.steps
    at = steps.rng(name).integers(16, steps.size // MIB - 16, size=BASELINE_PLACES)
    blocks = np.sort(at).astype(np.uint64) * np.uint64(MIB) + np.uint64(260 * KIB)
    return cached_or_native.look_ns(steps.run(name, ground.looks(blocks), params={"flash": ground.flash}))


def begin(steps: Steps, report: SettingsReport) -> Ground:
    """A known state; then measures a revolution and the speed of the platters on blocks never written."""
    cache, flash = volatile(steps, reported=report.write_cache), steps.known.word("cache_medium") == "flash"
    settles = cache != "ignores-flush"
    forced = not settles and fua_writes.obeyed(steps, patient=True)
    if forced:
        steps, settles = ForcedWrites(steps), True
    elif not settles and empties(steps):
        steps, settles = ReadAround(steps), True
    steps.reset(ERASE)
    flushed = not forced and (cache != "off" or report.write_cache is not False)
    ahead = report.look_ahead is not False
    ground = Ground(steps, flash, flushed, 1.0, backwards=ahead, settles=settles)
    looked_ns = _baseline(ground, BASELINE)
    known_ns = steps.known.number("rotation_ns")
    rotation_ns = cached_or_native.turn_of(looked_ns)
    if known_ns is not None and rotation_ns > NOISY_TURNS * known_ns:
        rotation_ns = known_ns  # most of the blocks were cached, or the drive was not at rest
    late = int(np.count_nonzero(looked_ns > NOISY_TURNS * rotation_ns))
    noisy = late >= FEWEST_NOISY
    if not noisy:
        more_ns = [_baseline(ground, f"{BASELINE}-again") for _ in range(MORE_BASELINES)]
        late += int(np.count_nonzero(np.concatenate(more_ns) > NOISY_TURNS * rotation_ns))
        noisy = late >= FEWEST_NOISY_OF_ALL
    places = (2 * np.arange(SPEED_PLACES) + 1) * (steps.size // (2 * SPEED_PLACES)) // MIB * MIB
    pairs = np.stack([places, places + SPEED_BYTES], axis=1).ravel()
    second_ns = steps.run(SPEED, IoBatch.reads(pairs, SPEED_BYTES)).latency_ns[1::2]
    passing_ns = np.maximum(
        second_ns - rotation_ns, second_ns / 4
    )  # the second of a pair first misses its revolution
    speeds = tuple(SPEED_BYTES * 1e9 / passing_ns)
    return replace(ground, rotation_ns=rotation_ns, bytes_a_second=speeds, noisy=noisy)


def with_limit(ground: Ground, name: str, marks: U64) -> Ground:
    """The same with what divides looks, by some at new blocks: over a slow link one from flash takes more
    than half a revolution of a fast disk."""
    ground.steps.run(f"{name}-mark", ground.writes(marks))
    looked_ns = cached_or_native.look_ns(ground.steps.run(f"{name}-look", ground.lone.looks(marks)))
    limit_ns = cached_or_native.limit_of(ground.rotation_ns, flash=True, cached_ns=looked_ns)
    return replace(ground, limit_ns=limit_ns)


def clear(ground: Ground, name: str, rest_s: float) -> None:
    """Leaves no dirty band behind: by an erase, or by idle time in which all should be cleaned, which a TRIM
    may precede: dead blocks keep the age of the part of a cache that they are in, until it is found empty."""
    if ground.steps.reset(f"{name}-erase", slow=False) is not State.NEW:
        ground.steps.pause(f"{name}-rest", rest_s)


def look_again(home: Bools, times: int, look: Callable[[], Bools], *, flash: bool) -> Bools:
    """What is home if it is looked at `times` times more. What is home stays home: a slow look hides that
    where the cache is on the disk, and feigns it where it is flash."""
    for _ in range(times):
        if home.any() if flash else not home.all():
            home = home & look() if flash else home | look()
    return home


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


def most_home(home: Bools) -> bool:
    """Whether most are home: one may meet a slow outlier, or the edge of a track, where the next block comes
    at once."""
    return 2 * int(np.count_nonzero(home)) > len(home)


def without_first(log: IoLog) -> IoLog:
    """A log without its first row: an anchor, before looks."""
    return log.rows(slice(1, None))


@dataclass(slots=True)
class Controls:
    """What the controls showed: whether looks find a new mark in the cache (None if it was not asked), and
    whether late anchors count."""

    looks_tell: bool | None = None
    late_counts: bool = True
    late_ns: float = 0.0
    """From what latency on anchors are late beyond what the control shows, ns."""


def most_stay_late(seen: list[Trial], limit_ns: float) -> bool:
    """Whether most of the anchors that alone show cleaning are late beyond `limit_ns` too. Where units of
    cleaning take less than that, few are, and an anchor in time says nothing."""
    late = [trial.anchor_ns > limit_ns for trial in seen if trial.late and not trial.cleaned]
    return 2 * sum(late) > len(late)


@dataclass(slots=True)
class Search:
    """The search for the idle time; see the module's page."""

    ground: Ground
    seen: list[Trial]
    controls: Controls = field(default_factory=Controls)
    marked: int = 0

    def __post_init__(self) -> None:
        """On a drive that others use every anchor may be late, and while a volatile cache writes out as
        well."""
        self.controls.late_counts = self.ground.settles and not self.ground.noisy

    @property
    def _base(self) -> int:
        return self.ground.steps.size * 3 // 8 // PLACE_BYTES * PLACE_BYTES + INSIDE

    def next_mark(self) -> U64:
        """The next mark: another place of the same band."""
        self.marked += 1
        blocks = np.arange(1 if self.ground.noisy else MARK_BLOCKS, dtype=np.uint64) * np.uint64(BLOCK_STEP)
        step = 2 * MARK_STEP if self.ground.noisy else MARK_STEP
        return np.asarray(blocks + np.uint64(self._base + self.marked * step), np.uint64)

    def anchors(self, number: int) -> list[IoBatch]:
        """Two reads elsewhere."""
        anchor = self._base + GIB - number * ANCHOR_STEP
        return [IoBatch.reads([anchor - back], self.ground.block) for back in (0, ANCHOR_STEP // 2)]

    def trial(self, pause_s: float) -> Trial:
        """One trial."""
        steps, number = self.ground.steps, len(self.seen) + 1
        mark, anchors, name = self.next_mark(), self.anchors(number), f"{TRIAL}{number}"
        steps.run(f"{name}-mark", joined(self.ground.marks(mark), anchors[0]))
        steps.pause(f"{name}-pause", pause_s)
        look = joined(anchors[1], self.ground.looks(mark))
        log = steps.run(f"{name}-look", look, params={"pause_s": pause_s})
        anchor_ns, cleaned = int(log.latency_ns[0]), most_home(self.ground.home(without_first(log)))
        late = self.controls.late_counts and anchor_ns > max(self.ground.late_ns, self.controls.late_ns)
        self.seen.append(Trial(number, pause_s, anchor_ns, cleaned, late))
        return self.seen[-1]

    def begun(self, pause_s: float) -> bool:
        """Whether cleaning begins within such a pause; a late anchor alone has to be seen twice of three."""
        first = self.trial(pause_s)
        if first.cleaned or not first.late:
            return first.cleaned
        second = self.trial(pause_s)
        return second.begun or self.trial(pause_s).begun

    def run(self) -> None:
        """Longer and longer pauses, then ever closer ones; with the controls."""
        if self.ground.flash:
            new = np.concatenate([self.next_mark() for _ in range(NEW_MARKS)])
            self.ground = with_limit(self.ground, NEW, new)
        self._find()
        self.controls.looks_tell = not any(trial.cleaned for trial in self.seen) or self._looks_tell()
        if self.controls.looks_tell and self.controls.late_counts and not self._late_is_cleaning():
            limit_ns = self.controls.late_ns
            self.controls.late_counts = most_stay_late(self.seen, limit_ns)
            self.seen[:] = [
                replace(trial, late=self.controls.late_counts and trial.anchor_ns > limit_ns)
                for trial in self.seen
            ]
            high_s = bracket(self.seen)[1]
            shown = math.isinf(high_s) or any(trial.cleaned for trial in self.seen)
            if not shown and not self._begins_again(CLOSE_ENOUGH * high_s):
                self.controls.late_counts = False
                self.seen[:] = [replace(trial, late=False) for trial in self.seen]
            if math.isinf(bracket(self.seen)[1]):
                self._find(after_s=max(trial.pause_s for trial in self.seen))
            else:
                self._closer()

    def _looks_tell(self) -> bool:
        steps, home = self.ground.steps, 0
        for _ in range(CONTROLS):
            mark = self.next_mark()
            steps.run(f"{CONTROL}mark", self.ground.marks(mark))
            steps.pause(f"{CONTROL}no-pause", CONTROL_PAUSE_S)
            home += most_home(self.ground.home(steps.run(f"{CONTROL}look", self.ground.looks(mark))))
        return 2 * home < CONTROLS

    def _late_is_cleaning(self) -> bool:
        """Whether a pause of which anchors alone were late leaves them in time if the cache is clean, and
        makes them late again if it is not, or if there is no such pause. Else `late_ns` is set, to infinity
        where no clean cache is to be had, or where they were late by accident."""
        high_s = bracket(self.seen)[1]
        alone = [trial for trial in self.seen if trial.late and not trial.cleaned]
        if math.isinf(high_s) or not alone:
            return True
        steps, anchors_ns = self.ground.steps, list[int]()
        # Reads leave a clean cache clean, so it is made so once: a rewriting takes minutes.
        state = steps.reset(f"{CONTROL}erase")
        if state is State.UNKNOWN:
            self.controls.late_ns = math.inf
            return False
        if state is State.REWRITTEN:  # but for the band of what was written last
            steps.pause(f"{CONTROL}rest", LONGEST_S)
        # At the very edge a drive whose start jitters may not have begun: as much more as the edge is open.
        again_s, longest_s = CLOSE_ENOUGH * high_s, max(trial.pause_s for trial in alone)
        for number, pause_s in enumerate([high_s, again_s, longest_s] * CONTROLS, 1):
            anchors = self.anchors(LARGEST_TRIALS + number)
            steps.run(f"{CONTROL}anchor", anchors[0])
            steps.pause(f"{CONTROL}pause", pause_s)
            anchors_ns.append(int(steps.run(f"{CONTROL}late", anchors[1]).latency_ns[0]))
        if max(anchors_ns) > self.ground.late_ns:
            self.controls.late_ns = BEYOND_CONTROL * max(anchors_ns)
            return False
        again = self._begins_again(again_s)
        self.controls.late_ns = 0.0 if again else math.inf
        return again

    def _begins_again(self, pause_s: float) -> bool:
        """Whether the drive seems to have begun each time, or nearly, after such a pause."""
        return sum(self.trial(pause_s).begun for _ in range(AGAIN)) >= MOST_AGAIN

    def _find(self, after_s: float = 0.0) -> None:
        pause_s = max(SHORTEST_S, STEP * after_s)
        while pause_s <= LONGEST_S:
            if self.begun(pause_s):
                self._closer()
                if not self._only_strays():
                    return
                pause_s = max(trial.pause_s for trial in self.seen)
            pause_s *= STEP

    def _only_strays(self) -> bool:
        """Whether marks were cleaned after some pauses and not after others as long, or one alone of all was,
        and most are not after such a pause again. Then these count no more. In flash, delayed looks at cached
        blocks passed for looks at blocks at home. On a disk, one of the writes of a mark found the cache full
        and waited for its cleaning, which brought home what was written of the mark before it."""
        cleaned, high_s = [trial for trial in self.seen if trial.cleaned], bracket(self.seen)[1]
        beyond = [trial.begun for trial in self.seen if trial.pause_s >= high_s]
        # A late read beside it is no second sign in flash: looks there are delayed by what delays reads.
        signs = len(cleaned) if self.ground.flash else sum(beyond)
        if not cleaned or (all(beyond) and signs > 1):
            return False
        if self._begins_again(CLOSE_ENOUGH * max(trial.pause_s for trial in cleaned)):
            return False
        self.seen[:] = [replace(trial, cleaned=False) for trial in self.seen]
        return math.isinf(bracket(self.seen)[1])

    def _closer(self) -> None:
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
