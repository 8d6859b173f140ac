"""A session: one test on one live target, every step kept as it comes, and gone on with after a cut.

A test calls `run`, `pause` and `settings` with a name a step; what it does next may depend on the logs only.
That makes resuming simple: the test runs again from its start, and a step that the recording already holds
whole is answered from it. An emulated drive re-executes those steps silently, to bring it into the state they
left, and must give the same log; a device does not, its state is its own.

Invariants: a step's rows reach the file in pieces of about half a second of device time at depth 1, so that
Ctrl-C leaves a readable recording; at a greater depth a batch is one long piece, because cutting it would
drain the queue; pieces on an emulated drive only grow, and those of an engine that runs jobs take up to about
half a minute, because each start of one leaves the drive idle.

A run may have a budget of device time, which all its steps share: no command is sent once it is spent, so a
step may end early or hold nothing. What is left depends on the logs alone, so a resumed run is cut at the
same commands, and a replay takes the same decisions.

A test has a bound of device time, pauses included, and of bytes written: that of the plan. Each reset has its
own, so has each wait until the drive is quiet, and all filling of zones. They are held here and nowhere else:
what does not fit is not sent, the evidence ends with a step of the kind `bound` that says why, and
`BoundReached` ends the procedure. A replay ends at the same step, because the evidence does.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from skylight.engines import Engine, RunsJobs, TellsHoles, Trims, ZonedEngine
from skylight.engines.host_interruptions import HostWatch
from skylight.errors import KeepError, SkylightError, TargetError, UsageError
from skylight.evidence import (
    EMPTY_LOG,
    U64,
    Evidence,
    IoBatch,
    IoLog,
    JsonScalar,
    Op,
    SettingsReport,
    Step,
    StepKind,
    Stop,
)
from skylight.findings import Known
from skylight.probe import quiet_drive
from skylight.probe.known_state import (
    EMPTIED,
    MOST_BYTES,
    MOST_S,
    NEW_BY,
    ORDER,
    QUICK,
    ChosenErase,
    Means,
    Resets,
    State,
    first_means,
    state_after,
)
from skylight.probe.progress import Meter
from skylight.probe.quick_budget import Budget
from skylight.probe.spending_bound import Bound, BoundReached
from skylight.probe.zoned import (
    COUNTED,
    FILLED,
    MOST_FILLED_BY_TEST_BYTES,
    MOST_FILLING_S,
    NON_SEQUENTIAL,
    PART,
    RESET_ALL,
    Filling,
    UsablePart,
    ZonesSeen,
    counted,
    holds_data,
    is_filled,
    non_sequential_of,
    zones_of,
)
from skylight.recording import PartWriter, SpentPart
from skylight.units import format_seconds
from skylight.zoned.zones import Zones

FIRST_PIECE_IOS = 64
LARGEST_PIECE_IOS = 1 << 16
JOB_PIECE_IOS = 512
"""First piece of an engine that runs jobs. Chosen: some seconds of a disk, of which its start is a tenth."""
PIECE_NS = 500_000_000
JOB_PIECE_NS = 30_000_000_000
"""A piece of such an engine that took longer is halved: a cut loses little; a start is a hundredth."""

BOUND = "bound"
"""The name of the step that ends the evidence of a test at its bound."""


class StepNames:
    """The names of the steps so far. A name that is used again gets a number."""

    def __init__(self) -> None:
        """No step yet."""
        self._used = Counter[str]()
        self._names: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The steps so far; settings have no name here."""
        return tuple(self._names)

    def _named(self, name: str) -> str:
        self._names.append(self._next_name(name))
        self._used[name] += 1
        return self._names[-1]

    def _next_name(self, name: str) -> str:
        number = self._used[name] + 1
        return name if number == 1 else f"{name}-{number}"


@dataclass(frozen=True, slots=True)
class _Order:
    """One step to execute: its name, its commands, when it ends early, and where its rows go."""

    name: str
    io: IoBatch
    depth: int
    until: Stop | None
    writer: PartWriter | SpentPart | None
    limit_ns: int | None


class Session(StepNames):
    """The steps of a test on a live target (`skylight.probe.procedure.Steps`). More than 15 fields: what it
    was made with, and how far all is that a test may spend: device time, bytes of fillings, resets."""

    def __init__(
        self,
        engine: Engine,
        writer: PartWriter | SpentPart,
        *,
        test: str,
        seed: int,
        before: Evidence | None = None,
        known: Known | None = None,
        bound: Bound | None = None,
        budget: Budget | None = None,
        meter: Meter | None = None,
        reset: Means = "auto",
        part: ZonesSeen | None = None,
    ) -> None:
        """`before` is what an interrupted recording holds, `bound` that of the plan, none without one;
        `reset` is how the target may be brought to a known state; `part` the zones that stand for the whole
        target, None for all of it."""
        super().__init__()
        self._filling = Filling()
        self._filling_bound = Bound(round(MOST_FILLING_S * 1e9), MOST_FILLED_BY_TEST_BYTES)
        self._cut_fillings: frozenset[str] = frozenset()
        self._means = first_means(reset)
        self._chosen = ChosenErase()
        self._resets = Resets()
        self._part = part
        self._engine = engine = engine if part is None else UsablePart(engine, part)
        self._jobs = engine if isinstance(engine, RunsJobs) else None
        self._host = None if engine.repeatable else HostWatch()
        self._writer = writer
        self._before = [] if before is None else list(before.steps)
        self._done_steps = 0
        self._meter = Meter() if meter is None else meter
        self._bound = bound
        self._budget = budget
        self._at_bound = False
        self._test = test
        self._seed = seed
        self.target = engine.describe()
        self.known = Known() if known is None else known
        self.size = self.target.size_bytes
        self.block_bytes = self.target.block_bytes
        self.can_write = engine.can_write
        if before is not None and not engine.repeatable:
            self._spend_cut(before, bound)
        if part is not None and self._recorded(PART, "zones") is None:
            writer.begin(PART, "zones", part.params())
            writer.end()

    def _spend_cut(self, before: Evidence, bound: Bound | None) -> None:
        """What was interrupted was done to the target, though nobody uses it."""
        self._cut_fillings = frozenset(cut.name for cut in before.cut if is_filled(cut.name))
        for cut in before.cut:
            if cut.name in self._cut_fillings:
                self._filling_bound.spend(cut.rows, cut.depth)
                self._filling.filled_bytes += cut.written_bytes
            elif bound is not None:
                bound.spend(cut.rows, cut.depth)

    def rng(self, name: str) -> np.random.Generator:
        """A generator of its own for each name, from the seed alone: what a step draws never depends on
        another's."""
        stream = zlib.crc32(f"{self._test}/{name}".encode())
        return np.random.Generator(np.random.PCG64([self._seed, stream]))

    def expect(self, total_ios: int) -> None:
        """Updates how many I/Os the whole test takes."""
        self._meter.expect(total_ios)

    def left_ns(self) -> float:
        """Device time that is left of the budget; infinite without one."""
        return math.inf if self._budget is None else self._budget.left_ns

    def spent(self) -> bool:
        """Whether the budget of device time is used up; False without one."""
        return self.left_ns() <= 0

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets at which nothing is stored, so that reads need not reach the medium;
        None if it is unknown. The step that reads them keeps it as its parameter `holes`."""
        return self._engine.holes(offsets) if isinstance(self._engine, TellsHoles) else None

    def run(
        self,
        name: str,
        io: IoBatch,
        *,
        depth: int = 1,
        until: Stop | None = None,
        params: Mapping[str, JsonScalar] | None = None,
        share: float = 1.0,
    ) -> IoLog:
        """Does the batch as one step and returns its log, which is shorter when `until` or the budget ended
        it. Of a budget the step may take that share; what it may take is kept as the parameter `left_ns`."""
        if name != FILLED:
            self._fill_ahead(io)
        if self._jobs is not None and np.any(io.op == int(Op.WRITE_FUA)):
            io = io.part(0, 0)  # the program that runs jobs has none: nothing is seen of them
        name = self._named(name)
        limit_ns = None if self._budget is None else self._budget.limit_ns(share)
        kept = self._recorded(name, "run")
        if kept is not None:
            self._check_plan(kept, io)
            if not self._engine.repeatable:
                self._advance(name, kept.rows)
                if self._budget is not None:
                    self._budget.spend(kept.rows)
                if self._bound is not None:
                    self._bound.spend(kept.rows, kept.depth)
                    self._at_bound = self._ends_at(name)
            elif not self._execute(_Order(name, io, depth, until, None, limit_ns)).equals(kept.rows):
                raise self._other_drive(name)
            log = kept.rows
        else:
            left: dict[str, JsonScalar] = {} if limit_ns is None else {"left_ns": limit_ns}
            self._writer.begin(name, "run", {"depth": depth, **(params or {}), **left})
            self._begin_host()
            log = self._execute(_Order(name, io, depth, until, self._writer, limit_ns))
            self._writer.end(self._end_host())
        if self._at_bound:
            self._end_at_bound(name)
        return log

    def _begin_host(self) -> None:
        """From now on what the host takes counts for a step."""
        if self._host is not None:
            self._host.begin()

    def _end_host(self) -> dict[str, int] | None:
        """What the host has taken of it, without waits of this process's thread where jobs do the I/O; None
        for virtual time, to which no host adds."""
        return None if self._host is None else self._host.end(waits=self._jobs is None)

    def _end_at_bound(self, name: str) -> NoReturn:
        """Ends the test in the step of that name, or before it."""
        if self._recorded(BOUND, "bound") is None and self._bound is not None:
            self._writer.begin(BOUND, "bound", {"step": name, "why": self._bound.why})
            self._writer.end()
        raise BoundReached(name)

    def _reset_zones(self) -> dict[str, JsonScalar]:
        """Resets all zones, if the target has some with a write pointer; whether it did, and the seconds that
        it took: what a volatile cache holds may be written first. Nothing without zones."""
        zones = zones_of(self._engine)
        if zones is None:
            return {}
        if not zones.usable or not self.can_write:
            return {"zones_reset": False}
        log = self._engine.run(RESET_ALL)
        return {"zones_reset": not log.failed.any(), "seconds": log.span_ns / 1e9}

    def erase(self, name: str) -> bool:
        """Secure erase, as one step: the target is as new. False where it has none, or may not be erased: it
        is as it was."""
        return self._emptied(name, NEW_BY).get("erased") is True

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """Brings the target to a known state (`skylight.probe.known_state`); an erase or a TRIM is one step,
        the slow means are steps of their own."""
        done = self._emptied(name, (*ORDER, *QUICK) if slow else QUICK)
        if (state := state_after(done)) is not None:
            return state
        with self._bounded(Bound(round(MOST_S[self.target.kind == "sim"] * 1e9), MOST_BYTES)):
            return self._resets.reach(self, name, tuple(str(done.get("left", "")).split()), rotation_ns)

    def quiet(self, least_s: float = 0.0) -> bool:
        """Waits until the target is quiet, within a bound of its own (`skylight.probe.quiet_drive`)."""
        with self._bounded(Bound(round(quiet_drive.MOST_S * 1e9), 0)):
            return quiet_drive.wait(self, least_s)

    @contextmanager
    def _bounded(self, own: Bound) -> Iterator[None]:
        """The plan gives each reset and each wait for a quiet drive a bound of its own, and the filling of
        zones one: what they take says nothing about the test. A session without a bound has none of them."""
        bound = self._bound
        if bound is not None:
            self._bound = own
        try:
            yield
        finally:
            self._bound = bound

    def _emptied(self, name: str, means: tuple[Means, ...]) -> Mapping[str, JsonScalar]:
        """Erases or trims the whole target, if it can and these are among the means; the parameters of the
        step, with the means that are left if neither was done."""
        name = self._named(name)
        kept = self._recorded(name, "erase")
        if kept is not None and not self._engine.repeatable:
            if any(kept.params.get(each) for each in EMPTIED):
                self._filling.emptied()
            return kept.params
        allowed = [one for one in means if one in self._means]
        done: dict[str, JsonScalar] = {"erased": "erase" in allowed and self._engine.erase()}
        done |= self._chosen.done(self._engine, allowed, lambda said: self._report(f"{name}, {said}"))
        if not done["erased"] and "zones" in allowed:
            done |= self._reset_zones()
        if not done["erased"] and not done.get("zones_reset") and "trim" in allowed:
            done["trimmed"] = isinstance(self._engine, Trims) and self._engine.trim()
        quick = any(done.get(each) for each in EMPTIED)
        if not quick and (left := set(allowed) - set(QUICK)):
            done["left"] = " ".join(sorted(left))
        if quick:
            self._filling.emptied()
        if kept is None:
            self._writer.begin(name, "erase", done)
            self._writer.end()
        return done

    def written(self, offset: U64, size: int) -> bool:
        """Makes sure that there is data at these offsets, `size` bytes each: fills the zones that they lie
        in, as one step with a bound of its own. False where there is none, and none can be written."""
        if not isinstance(self._engine, ZonedEngine) or self._engine.zone_layout() is None:
            return True
        zones = self._engine.report_zones()
        if not self.can_write:
            if not (there := holds_data(zones, offset, size)):
                self._not_filled()
            return there
        if self._replays():  # what was done then decides: the report shows what came of it
            kept = self._kept_filling()
            if kept is None:
                return True
            io = kept.rows.batch if kept.params.get("written") is True else None
        else:
            io = self._filling.batch(zones, offset, size, rest=self._was_cut())
            if io is not None and not len(io):
                return True
        if io is None:
            self._not_filled()
            return False
        self._filling.begun = True
        return self._fill(zones, io)

    def _fill_ahead(self, io: IoBatch) -> None:
        """Fills the zones that a batch is the first to touch, where zones stand for the target and the test
        does not say itself what it reads. A quick answer has no time for it."""
        engine, filling = self._engine, self._filling
        if self._part is None or filling.begun or not self.can_write or self._budget is not None:
            return
        if not isinstance(engine, ZonedEngine):
            return
        new, kept, replays = filling.new(self._part.zone_bytes, io), self._kept_filling(), self._replays()
        filling.met |= new
        if not (kept if replays else new):
            return
        zones = engine.report_zones()
        more = kept.rows.batch if kept is not None else filling.ahead(zones, new, rest=self._was_cut())
        if more is not None:
            self._fill(zones, more)

    def _fill(self, zones: Zones, io: IoBatch) -> bool:
        """Fills zones as one step; whether all of it was done. A step of its own says where it was not."""
        with self._bounded(self._filling_bound):
            log = self.run(FILLED, io, params={"written": True})
        name, after = self.names[-1], self._kept_filling()
        whole = len(log) == len(io) and not log.failed.any()
        whole &= after is None or after.params.get("step") != name
        self._filling.done(zones, log, whole=whole)
        if not whole:
            self._not_filled({"step": name})
        return whole

    def _was_cut(self) -> bool:
        """Whether the next filling was begun before, and interrupted."""
        return self._next_name(FILLED) in self._cut_fillings

    def _replays(self) -> bool:
        """Whether the next step is answered from the interrupted recording alone."""
        return self._done_steps < len(self._before) and not self._engine.repeatable

    def _kept_filling(self) -> Step | None:
        """The next step, if it is a filling and is answered from the interrupted recording alone."""
        step = self._before[self._done_steps] if self._replays() else None
        return step if step is not None and is_filled(step.name) else None

    def _not_filled(self, params: Mapping[str, JsonScalar] | None = None) -> None:
        """Keeps that zones were not filled; `params` names the step that should have."""
        name = self._named(FILLED)
        if self._recorded(name, "run") is None:
            self._writer.begin(name, "run", {"written": False, **(params or {})})
            self._writer.end()

    def zones(self, name: str) -> ZonesSeen | None:
        """The zones as the target reports them now, as one step; None, and no step, where it has none."""
        seen = zones_of(self._engine)
        if seen is None:
            return None
        name = self._named(name)
        kept = self._recorded(name, "zones")
        if kept is not None:
            return ZonesSeen.kept(name, kept.params)
        self._writer.begin(name, "zones", seen.params())
        self._writer.end()
        return seen

    def non_sequential(self, name: str = COUNTED) -> int | None:
        """How many zones have non-sequential data now, as one step; None where the target has no zones."""
        count = non_sequential_of(self._engine)
        if count is None:
            return None
        name = self._named(name)
        if (kept := self._recorded(name, "zones")) is not None:
            return counted(name, kept.params)
        self._writer.begin(name, "zones", {NON_SEQUENTIAL: count})
        self._writer.end()
        return count

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone for that long, as one step."""
        name = self._named(name)
        kept = self._recorded(name, "pause")
        if self._bound is not None:
            pause_ns = round(seconds * 1e9)
            if kept is None and not self._bound.fits_pause(pause_ns):
                self._end_at_bound(name)
            self._bound.spend_ns(pause_ns)
        if kept is None:
            self._writer.begin(name, "pause", {"seconds": seconds})
            self._report(f"{name}, idle for {format_seconds(seconds)}")
            self._begin_host()
            self._engine.pause(seconds)
            self._writer.end(self._end_host())
        elif self._engine.repeatable:
            self._engine.pause(seconds)
        self._report(name, span_ns=round(seconds * 1e9))

    @contextmanager
    def settings(self, name: str, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """Settings in force inside the `with`; put back on its exit. What is in force is kept as a step."""
        with self._engine.settings(write_cache=write_cache, look_ahead=look_ahead) as report:
            kept = self._recorded(name, "settings")
            if kept is None:
                self._writer.begin(name, "settings", report.params())
                self._writer.end()
            elif dict(kept.params) != report.params():
                raise UsageError(
                    f"{self._writer.path.parent}: the target's settings ({name}) differ from when the"
                    " recording was begun; set them as they were or choose another --out"
                )
            yield report

    def _recorded(self, name: str, kind: StepKind) -> Step | None:
        """The next step of the interrupted recording if it holds one; it must be the one asked for, or the
        one that says why that was not done."""
        if self._done_steps >= len(self._before):
            return None
        if self._ends_at(name):
            raise BoundReached(name)
        step = self._before[self._done_steps]
        self._done_steps += 1
        if (step.name, step.kind) != (name, kind):
            raise self._other_drive(name)
        return step

    def _ends_at(self, name: str) -> bool:
        """Whether the interrupted recording goes on with the bound that ended the step of that name."""
        step = self._before[self._done_steps] if self._done_steps < len(self._before) else None
        return step is not None and step.kind == "bound" and step.params.get("step") == name

    def _check_plan(self, kept: Step, io: IoBatch) -> None:
        was, io = kept.rows.batch, io.part(0, len(kept.rows))  # the step may have been stopped early
        same = all(np.array_equal(getattr(was, part), getattr(io, part)) for part in ("op", "offset", "size"))
        if not same:
            raise self._other_drive(kept.name)

    def _other_drive(self, name: str) -> UsageError:
        return UsageError(
            f"{self._writer.path.parent}: step {name!r} differs from what is recorded: another drive, seed"
            " or version wrote it; choose another --out"
        )

    def _execute(self, order: _Order) -> IoLog:
        """Runs the batch in pieces; each is kept (with a writer) and reported as it is done."""
        if order.limit_ns is not None and self._budget is not None:
            return self._execute_within(order, self._budget, order.limit_ns)
        logs, until = list[IoLog](), order.until
        piece_ns = PIECE_NS if self._jobs is None else JOB_PIECE_NS
        first, piece = 0, self._first_piece() if order.depth == 1 else LARGEST_PIECE_IOS
        recent = EMPTY_LOG
        while asked := self._allowed(order, order.io.part(first, first + piece)):
            stop = until if until is None else until.after(recent)
            log = self._piece(order, asked, self._bound.stop(order.depth, stop) if self._bound else stop)
            first += len(log)
            logs.append(log)
            if until is not None:
                recent = IoLog.joined([recent.rows(slice(-until.within, None)), log])
                if until.reached(recent):
                    break
                if order.depth > 1 and stop is not None and stop.reached(log):
                    recent = EMPTY_LOG  # the queue has drained, so the first of the next piece wait for none
            if order.depth == 1:
                longer = self._engine.repeatable or log.span_ns < piece_ns  # virtual time costs no wait
                piece = min(2 * piece, LARGEST_PIECE_IOS) if longer else max(piece // 2, 1)
        return IoLog.joined(logs)

    def _execute_within(self, order: _Order, budget: Budget, limit_ns: int) -> IoLog:
        """As `_execute`, while device time is left: a piece also ends at a command so slow that a piece of
        such commands would spend the rest. So only the last command of all can be late."""
        done, left_ns = EMPTY_LOG, limit_ns
        while left_ns > 0 and len(done) < len(order.io):
            size = min(order.depth * self._first_piece(), len(order.io) - len(done))
            size = budget.piece(size, left_ns, jobs=self._jobs is not None)
            slow_ns = left_ns // size
            if order.until is not None:
                slow_ns = min(slow_ns, order.until.latency_ns)  # each that counts ends a piece
            asked = self._allowed(order, order.io.part(len(done), len(done) + size))
            if not asked:
                break
            log = self._piece(order, asked, Stop(slow_ns))
            budget.saw(log)
            done = IoLog.joined([done, log])
            left_ns = limit_ns - done.span_ns
            if order.until is not None and order.until.reached(done):
                break
        budget.spend(done)
        return done

    def _first_piece(self) -> int:
        return FIRST_PIECE_IOS if self._jobs is None else JOB_PIECE_IOS

    def _allowed(self, order: _Order, io: IoBatch) -> IoBatch:
        """The first of these commands, as far as the bound lets them be sent. None of them at the bound."""
        if self._bound is None or len(io) == 0:
            return io
        count = self._bound.fits(io, order.depth, order.until)
        self._at_bound = count == 0
        return io.part(0, count)

    def _piece(self, order: _Order, io: IoBatch, until: Stop | None) -> IoLog:
        """Runs, keeps and reports one piece. Of a piece that fails or is interrupted, the recording keeps
        what was done."""
        if self._jobs is not None:
            self._jobs.name_jobs(f"{self._test}-{order.name}")
        try:
            log = self._engine.run(io, depth=order.depth, until=until)
        except (SkylightError, KeyboardInterrupt) as error:
            log = getattr(error, "log", EMPTY_LOG)
            if order.writer is not None and len(log):
                with suppress(KeepError):  # the first error is the one to report
                    order.writer.rows(log)
            if isinstance(error, TargetError):
                error.args = (f"{error}; it was in {order.name} of {self._test}",)
            raise
        if order.writer is not None:
            order.writer.rows(log)
        if self._bound is not None:
            self._bound.spend(log, order.depth)
        self._advance(order.name, log)
        return log

    def _advance(self, name: str, log: IoLog) -> None:
        """Counts a piece and reports progress."""
        self._report(name, len(log), log.span_ns)

    def _report(self, name: str, ios: int = 0, span_ns: int = 0) -> None:
        left_ns = None if self._bound is None else self._bound.left_ns
        self._meter.advance(name, ios, span_ns, most_left_ns=left_ns)
