"""A session: one test on one live target, every step kept as it comes, and gone on with after a cut.

A test calls `run`, `pause` and `settings` with a name a step; what it does next may depend on the logs only.
That makes resuming simple: the test runs again from its start, and a step that the recording already holds
whole is answered from it. An emulated drive re-executes those steps silently, to bring it into the state they
left, and must give the same log; a device does not, its state is its own.

Invariants: a step's rows reach the file in pieces of about half a second of device time at depth 1, so that
Ctrl-C leaves a readable recording; at a greater depth a batch is one long piece, because cutting it would
drain the queue; pieces on an emulated drive only grow.

A run may have a budget of device time, which all its steps share: no command is sent once it is spent, so a
step may end early or hold nothing. What is left depends on the logs alone, so that a resumed run is cut at
the same commands.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from skylight.engines import Engine, TellsHoles
from skylight.errors import KeepError, SkylightError, UsageError
from skylight.evidence import (
    EMPTY_LOG,
    U64,
    Evidence,
    IoBatch,
    IoLog,
    JsonScalar,
    SettingsReport,
    Step,
    StepKind,
    Stop,
    TargetFacts,
)
from skylight.findings import Known
from skylight.recording import PartWriter, SpentPart

FIRST_PIECE_IOS = 64
LARGEST_PIECE_IOS = 1 << 16
PIECE_NS = 500_000_000


class Budget:
    """Device time that the steps of a run may take together, ns.

    >>> budget = Budget(50)
    >>> budget.spend(30, slowest_ns=20)
    >>> budget.left_ns, budget.piece(8, budget.left_ns)
    (20, 1)
    """

    def __init__(self, total_ns: int) -> None:
        """Begins with all of it left."""
        self.total_ns = total_ns
        self.left_ns = total_ns
        self._slowest_ns = 1

    def spend(self, spent_ns: int, slowest_ns: int = 1) -> None:
        """Takes off what a piece took; `slowest_ns` is its slowest command."""
        self.left_ns -= spent_ns
        self._slowest_ns = max(self._slowest_ns, slowest_ns)

    def piece(self, ios: int, left_ns: int) -> int:
        """How many of so many commands may be sent before the rest is looked at again, in case all of them
        are as slow as the slowest was."""
        return max(1, min(ios, left_ns // self._slowest_ns))


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How far a test is: I/Os done and expected, device time spent and expected to remain (ns); `place` says
    which test of how many it is."""

    test: str
    step: str
    done_ios: int
    total_ios: int
    device_ns: int
    device_left_ns: int
    place: str = ""


Progress = Callable[[ProgressReport], None]


class Session:
    """What a test measures through. `facts`, `size`, `can_write` describe the target; `known` is what the
    tests before found; `quick` asks for fewer I/Os."""

    def __init__(
        self,
        engine: Engine,
        writer: PartWriter | SpentPart,
        *,
        test: str,
        seed: int,
        before: Evidence | None = None,
        known: Known | None = None,
        total_ios: int = 0,
        most_device_ns: int | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
        place: str = "",
    ) -> None:
        """`before` is what an interrupted recording holds, `most_device_ns` the estimate announced."""
        self._engine = engine
        self._writer = writer
        self._before = [] if before is None else list(before.steps)
        self._done_steps = 0
        self._progress = progress
        self._place = place
        self._most_device_ns = most_device_ns
        self._budget = budget
        self._done_ios = 0
        self._total_ios = total_ios
        self._device_ns = 0
        self.test = test
        self.seed = seed
        self.known = Known() if known is None else known
        self.quick = self.known.quick
        self.facts: TargetFacts = engine.describe()
        self.size = self.facts.size_bytes
        self.can_write = engine.can_write

    def rng(self, name: str) -> np.random.Generator:
        """A generator of its own for each name, from the seed alone: what a step draws never depends on
        another's."""
        stream = zlib.crc32(f"{self.test}/{name}".encode())
        return np.random.Generator(np.random.PCG64([self.seed, stream]))

    def expect(self, total_ios: int) -> None:
        """Says anew how many I/Os the whole test takes, once that is known better."""
        self._total_ios = max(total_ios, self._done_ios)

    def spent(self) -> bool:
        """Whether a budget of device time leaves none."""
        return self._budget is not None and self._budget.left_ns <= 0

    def holes(self, offsets: U64) -> float | None:
        """The share of places that hold nothing, so that reads need not reach the medium; None: not known."""
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
        it. Of a budget the step may take that share; a budget's rest is kept as the parameter `left_ns`."""
        limit_ns = None
        if self._budget is not None:
            limit_ns = max(min(self._budget.left_ns, round(share * self._budget.total_ns)), 0)
        kept = self._recorded(name, "run")
        if kept is not None:
            self._check_plan(kept, io)
            if not self._engine.repeatable:
                self._advance(name, kept.rows)
            elif not self._execute(name, io, depth, until, None, limit_ns).equals(kept.rows):
                raise self._other_drive(name)
            return kept.rows
        left: dict[str, JsonScalar] = {} if limit_ns is None else {"left_ns": limit_ns}
        self._writer.begin(name, "run", {"depth": depth, **(params or {}), **left})
        log = self._execute(name, io, depth, until, self._writer, limit_ns)
        self._writer.end()
        return log

    def erase(self, name: str) -> bool:
        """Secure erase, as one step: the target is as new. False where it has none: it is as it was."""
        kept = self._recorded(name, "erase")
        if kept is not None and not self._engine.repeatable:
            return kept.params.get("erased") is True
        erased = self._engine.erase()
        if kept is None:
            self._writer.begin(name, "erase", {"erased": erased})
            self._writer.end()
        return erased

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone for that long, as one step."""
        kept = self._recorded(name, "pause")
        if kept is None:
            self._writer.begin(name, "pause", {"seconds": seconds})
            self._engine.pause(seconds)
            self._writer.end()
        elif self._engine.repeatable:
            self._engine.pause(seconds)

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
        """The next step of the interrupted recording if it holds one; it must be the one asked for."""
        if self._done_steps >= len(self._before):
            return None
        step = self._before[self._done_steps]
        self._done_steps += 1
        if (step.name, step.kind) != (name, kind):
            raise self._other_drive(name)
        return step

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

    def _execute(
        self,
        name: str,
        io: IoBatch,
        depth: int,
        until: Stop | None,
        writer: PartWriter | SpentPart | None,
        limit_ns: int | None,
    ) -> IoLog:
        """Runs the batch in pieces, each kept (with a writer) and reported as it is done."""
        if limit_ns is not None and self._budget is not None:
            return self._execute_within(name, io, depth, until, writer, self._budget, limit_ns)
        logs: list[IoLog] = []
        patient = self._engine.repeatable  # virtual time waits for nobody
        first, piece = 0, FIRST_PIECE_IOS if depth == 1 else LARGEST_PIECE_IOS
        while first < len(io):
            asked = io.part(first, first + piece)
            log, spent_ns = self._piece(name, asked, depth, until, writer)
            first += len(log)
            logs.append(log)
            if until is not None and (len(log) < len(asked) or until.reached(log)):
                break
            if depth == 1:
                longer = patient or spent_ns < PIECE_NS
                piece = min(2 * piece, LARGEST_PIECE_IOS) if longer else max(piece // 2, 1)
        return IoLog.joined(logs)

    def _execute_within(
        self,
        name: str,
        io: IoBatch,
        depth: int,
        until: Stop | None,
        writer: PartWriter | SpentPart | None,
        budget: Budget,
        left_ns: int,
    ) -> IoLog:
        """As `_execute`, while device time is left: a piece also ends at a command that took so long that as
        many as it holds would spend the rest. So only the last command of all can be late."""
        done = EMPTY_LOG
        while left_ns > 0 and len(done) < len(io):
            size = budget.piece(min(depth * FIRST_PIECE_IOS, len(io) - len(done)), left_ns)
            slow_ns = left_ns // size
            if until is not None:
                slow_ns = min(slow_ns, until.latency_ns)  # each that counts ends a piece, so none is missed
            asked = io.part(len(done), len(done) + size)
            log, spent_ns = self._piece(name, asked, depth, Stop(slow_ns), writer)
            left_ns -= spent_ns
            done = IoLog.joined([done, log])
            if until is not None and until.reached(done):
                break
        return done

    def _piece(
        self, name: str, io: IoBatch, depth: int, until: Stop | None, writer: PartWriter | SpentPart | None
    ) -> tuple[IoLog, int]:
        """Runs, keeps and reports one piece; its log and device time, ns."""
        log = self._done(io, depth, until, writer)
        if writer is not None:
            writer.rows(log)
        return log, self._advance(name, log)

    def _done(
        self, io: IoBatch, depth: int, until: Stop | None, writer: PartWriter | SpentPart | None
    ) -> IoLog:
        """Runs a piece; of one that fails or is interrupted, what was done is kept before that goes on."""
        try:
            return self._engine.run(io, depth=depth, until=until)
        except (SkylightError, KeyboardInterrupt) as error:
            log = getattr(error, "log", EMPTY_LOG)
            if writer is not None and len(log):
                with suppress(KeepError):  # what happened first is what is told
                    writer.rows(log)
            raise

    def _advance(self, name: str, log: IoLog | None) -> int:
        """Counts a piece and reports progress; returns its device time, ns."""
        spent_ns = 0
        if log is not None and len(log):
            spent_ns = int(log.complete_ns.max()) - int(log.submit_ns[0])
            self._done_ios += len(log)
            self._device_ns += spent_ns
            if self._budget is not None:
                self._budget.spend(spent_ns, int(log.latency_ns.max()))
        self._total_ios = max(self._total_ios, self._done_ios)
        if self._progress is not None and self._done_ios:
            left = self._device_ns * (self._total_ios - self._done_ios) // self._done_ios
            if self._most_device_ns is not None:
                left = min(left, max(self._most_device_ns - self._device_ns, 0))
            report = ProgressReport(
                self.test, name, self._done_ios, self._total_ios, self._device_ns, left, self._place
            )
            self._progress(report)
        return spent_ns
