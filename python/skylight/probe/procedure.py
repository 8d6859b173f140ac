"""A procedure: a test whose next step depends on what the last ones showed, written once.

`measure` runs it on a `Session`, where its steps are done and kept; `infer` runs the same code again over the
evidence, where each step is answered by its log. So both take the same turns, and the result of the procedure
is what the evidence shows. A procedure may depend on logs, on settings in force, on the target's size and on
what is known only.

`ProcedureTest` is a test of the suite that is written so: its procedure, and the verdict on what that saw.

Invariant: a replay asks for the steps of the evidence in their order and in no other; evidence that ends
early, also at the bound of the test, or goes on differently, raises `CutShort`.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from skylight.evidence import (
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
from skylight.findings import Finding, Known, Property
from skylight.infer.priors import medium_taken
from skylight.probe import Cost, first_addresses, quiet_drive
from skylight.probe.known_state import Resets, State, state_after
from skylight.probe.session import Session, StepNames
from skylight.probe.zoned import COUNTED, FILLED, PART, ZonesSeen, counted, is_filled

if TYPE_CHECKING:
    from skylight.probe import Axis, Figure

Seen = TypeVar("Seen")
"""What a procedure has seen so far."""


class CutShort(Exception):
    """The evidence ends before the procedure does; `log` is what a step did that its bound ended."""

    def __init__(self, name: str, log: IoLog | None = None) -> None:
        """Before or in the step of that name."""
        super().__init__(name)
        self.log = log


class Steps(Protocol):
    """What a procedure does its steps through. A name that is used again gets a number."""

    target: TargetFacts
    size: int
    block_bytes: int
    known: Known
    can_write: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The steps so far."""
        ...

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
        """Does the batch; its log. Of a budget of device time the step may take that share, and may end early
        or hold nothing."""
        ...

    def left_ns(self) -> float:
        """Device time that is left of the budget; infinite without one."""
        ...

    def spent(self) -> bool:
        """Whether the budget of device time is used up; False without one."""
        return self.left_ns() <= 0

    def expect(self, total_ios: int) -> None:
        """Updates how many I/Os the whole procedure takes, for the progress line."""
        ...

    def holes(self, offsets: U64) -> float | None:
        """The share of these offsets at which nothing is stored; None if it is unknown. The step that reads
        them is the next, and keeps it as its parameter `holes`."""
        ...

    def zones(self, name: str) -> ZonesSeen | None:
        """The zones as the target reports them now; None, and no step, where it has none."""
        ...

    def non_sequential(self, name: str = COUNTED) -> int | None:
        """How many zones have non-sequential data now, at less cost than `zones`. None where the
        target has no zones, and of a recording in which they were not counted."""
        ...

    def written(self, offset: U64, size: int) -> bool:
        """Makes sure that reads of these offsets, `size` bytes each, reach the medium, where a target has
        zones that hold what was written to them alone. False where they will not."""
        ...

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone."""
        ...

    def erase(self, name: str) -> bool:
        """Secure erase; False where the target has none, or may not be erased (`--reset`)."""
        ...

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """Brings the target to a known state by the best means that it has (`skylight.probe.known_state`);
        the state that was reached. Not `slow`, an erase or a TRIM alone. `rotation_ns` is one revolution,
        where the test has found it itself."""
        ...

    def quiet(self, least_s: float = 0.0) -> bool:
        """Waits until reads no longer wait for what the target still has to do, and for so long before they
        are asked (`skylight.probe.quiet_drive`); whether they do not."""
        ...

    def rng(self, name: str) -> np.random.Generator:
        """Randomness for what a batch holds; a replay needs none."""
        ...

    def settings(
        self, name: str, *, write_cache: bool, look_ahead: bool
    ) -> AbstractContextManager[SettingsReport]:
        """Settings in force inside the `with`; the report says which the target really has."""
        ...


class Replay(StepNames):
    """The steps of evidence, in their order. `cut` names the step before which the evidence ended, if it
    did."""

    def __init__(self, evidence: Evidence, known: Known) -> None:
        """At the first step."""
        super().__init__()
        self._steps: Sequence[Step] = evidence.steps
        self._at = 0
        self._left_ns: float | None = None
        self._resets = Resets()
        self.target = evidence.target
        if self._steps and (self._steps[0].name, self._steps[0].kind) == (PART, "zones"):
            part = ZonesSeen.kept(PART, self._steps[0].params)
            self.target = replace(self.target, size_bytes=part.usable * part.zone_bytes)
            self._at = 1
        self.size = self.target.size_bytes
        self.block_bytes = evidence.target.block_bytes
        self.known = known
        self.can_write = known.writes
        self._zoned = False
        self._complete = evidence.complete
        self.cut = ""
        self.why_cut = ""
        """Why the evidence ends before the procedure does, as a sentence."""

    @property
    def _ahead(self) -> Step | None:
        """The next step of the evidence; None at its end."""
        return self._steps[self._at] if self._at < len(self._steps) else None

    def _end(self, name: str, log: IoLog | None = None) -> NoReturn:
        """Ends the replay before the step of that name: there the evidence ends, or goes on differently."""
        step = self._ahead
        self.cut, self.why_cut = name, f"The test was cut short before {name}; go on with --resume."
        if step is not None and step.kind == "bound":
            self.why_cut = f"The test reached its bound of {step.params.get('why')} before {name}."
        elif step is not None or self._complete:
            self.why_cut = (
                f"The test was recorded by another version (its steps differ from {name} on); probe again."
            )
        raise CutShort(name, log)

    def _next(self, name: str, kind: StepKind) -> Step:
        """The next step, which must be of this name and kind."""
        step = self._ahead
        if step is None or (step.name, step.kind) != (name, kind):
            self._end(name)
        self._at += 1
        return step

    def _next_named(self, name: str, kind: StepKind) -> Step:
        """As `_next`, for a step that `names` lists."""
        named = self._named(name)
        try:
            return self._next(named, kind)
        except CutShort:
            self._names.pop()
            raise

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
        """The log of the step; what the budget had left for it is its parameter `left_ns`."""
        del depth, params, share
        while self._ahead is not None and is_filled(self._ahead.name):
            self._next_named(FILLED, "run")
        step = self._next_named(name, "run")
        log, limit_ns = step.rows, step.number("left_ns", math.inf)
        over = limit_ns is not None and log.span_ns >= limit_ns
        after = self._ahead
        bound = after is not None and after.kind == "bound" and after.params.get("step") == step.name
        if bound or len(log) > len(io) or (until is None and not over and len(log) != len(io)):
            self._end(name, log if bound and len(log) <= len(io) else None)
        if limit_ns is not None:
            self._left_ns = (limit_ns if self._left_ns is None else self._left_ns) - log.span_ns
        return log

    def left_ns(self) -> float:
        """What the steps so far left of what the first of them could take."""
        return math.inf if self._left_ns is None else self._left_ns

    def spent(self) -> bool:
        """Whether they used it up."""
        return self.left_ns() <= 0

    def expect(self, total_ios: int) -> None:
        """A replay shows no progress."""

    def holes(self, offsets: U64) -> float | None:
        """As the next step kept it."""
        del offsets
        return None if self._ahead is None else self._ahead.number("holes", 1.0)

    def written(self, offset: U64, size: int) -> bool:
        """Whether they were, as the step kept it; no step means that nothing had to be."""
        del offset, size
        step = self._ahead
        if step is None or not is_filled(step.name):
            return True
        step = self._next_named(FILLED, "run")
        after = self._ahead
        if after is not None and is_filled(after.name) and after.params.get("step") == step.name:
            step = self._next_named(FILLED, "run")
        return step.params.get("written") is True

    def zones(self, name: str) -> ZonesSeen | None:
        """As the step kept them."""
        step = self._ahead
        if not self._zoned and (step is None or step.kind != "zones"):
            return None
        self._zoned = True
        return ZonesSeen.kept(name, self._next_named(name, "zones").params)

    def non_sequential(self, name: str = COUNTED) -> int | None:
        """As the step kept it, if there is one."""
        step = self._ahead
        if step is None or step.kind != "zones":
            return None
        return counted(name, self._next_named(name, "zones").params)

    def pause(self, name: str, seconds: float) -> None:
        """Was done."""
        del seconds
        self._next_named(name, "pause")

    def erase(self, name: str) -> bool:
        """Whether the target was erased."""
        return self._next_named(name, "erase").params.get("erased") is True

    def reset(self, name: str, *, slow: bool = True, rotation_ns: float | None = None) -> State:
        """The state that was reached, by the means that are kept."""
        del slow
        params = self._next_named(name, "erase").params
        if (state := state_after(params)) is not None:
            return state
        left = params.get("left")
        means = tuple(left.split()) if isinstance(left, str) else ()
        return self._resets.reach(self, name, means, rotation_ns)

    def quiet(self, least_s: float = 0.0) -> bool:
        """Whether it became so."""
        return quiet_drive.wait(self, least_s)

    def rng(self, name: str) -> np.random.Generator:
        """What it draws is not looked at: the logs hold what was asked."""
        del name
        return np.random.default_rng(0)

    @contextmanager
    def settings(self, name: str, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """The report that was kept."""
        del write_cache, look_ahead
        params = self._next(name, "settings").params
        cache, ahead = (
            value if isinstance(value := params.get(key), bool) else None
            for key in ("write_cache", "look_ahead")
        )
        yield SettingsReport(cache, ahead)


LARGEST_FLASH_BYTES = 64 << 30
"""The largest persistent cache in flash. Chosen: twice the 32 GB of the hybrid disks with the most of it."""

MEDIUM_TAKEN = medium_taken()
"""How sure it is that a persistent cache of unknown medium is on the platters, by the priors of test 1."""


def no_surer_than_medium(findings: list[Finding], known: Known) -> list[Finding]:
    """Findings that rest on looks at blocks, which mean the opposite where the cache is flash: no surer than
    that it is not, where the medium was not seen."""
    medium = known.get("cache_medium")
    if medium is None or medium.known or known.word("drive_type") != "smr":
        return findings
    return [replace(each, confidence=min(each.confidence, MEDIUM_TAKEN)) for each in findings]


def bisected(low: int, high: int, holds: Callable[[int], bool], unit: int = 1) -> tuple[int, int]:
    """Narrows the range from `low`, where something holds, to `high`, where it does not, to one unit.

    >>> bisected(0, 100, lambda at: at <= 37, 4)
    (36, 40)
    """
    while high - low > unit:
        middle = (low + high) // 2 // unit * unit
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def is_shingled(steps: Steps) -> bool:
    """Whether the target is a shingled drive that may be written to."""
    return steps.known.word("drive_type") == "smr" and steps.can_write


def is_not_shingled(known: Known) -> bool:
    """Whether the target is known to be no shingled drive, so that it has nothing that only these have."""
    return known.word("drive_type") in ("cmr", "not-rotating")


class ProcedureTest(ABC, Generic[Seen]):
    """A test of the suite that is a procedure and the verdict on what it saw; see `skylight.probe.LiveTest`
    for the attributes. Each says whether it `rests_on_type`: no default is safe."""

    name: str
    title: str
    summary: str
    needs: tuple[str, ...] = ()
    findings: tuple[Property, ...]
    axis: Axis = "number"
    begin: Callable[[], Seen]
    """Makes what is seen before the first step."""
    rests_on_type: bool
    answers_quickly: bool = False
    resets_when_quick: bool = True
    runs_in_a_file: bool = False
    writes_in_order: bool = False
    sees_all_zones: bool = False
    judges_part: bool = False
    """Whether the verdict can judge evidence that ends before the procedure does."""

    @abstractmethod
    def cost(self, facts: TargetFacts) -> Cost:
        """An upper estimate of what the procedure costs with leave to write."""

    def cost_of_reads(self, facts: TargetFacts) -> Cost:
        """The same without: nothing, unless the test says otherwise."""
        del facts
        return Cost()

    @staticmethod
    def bytes_of_cache(facts: TargetFacts, fills: int = 2) -> int:
        """The most that is written to fill a cache of an eighth of the drive so often: one on platters is a
        tenth at most, one in flash may be half of a small drive, and a fill that is checked, or one for the
        ends of another grid, is a second one."""
        flash = min(LARGEST_FLASH_BYTES, facts.size_bytes // 2)
        return min(fills * ((8 << 30) + max(facts.size_bytes // 8, flash)), 1 << 40)

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """An upper estimate of what the procedure costs, with or without leave to write."""
        return self.cost(facts) if writes else self.cost_of_reads(facts)

    @abstractmethod
    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Does the steps and puts what they show into `seen`; no step where the test does not apply."""

    @abstractmethod
    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The findings from what was seen and what is known. A property that the target cannot have is left
        out."""

    @abstractmethod
    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Figures; `seen` gives what the procedure saw."""

    def unfinished(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The findings from evidence that ends before the procedure does: unknown, unless the verdict can
        judge a part."""
        if self.judges_part:
            return self.verdict(seen, steps)
        return [each.unknown(steps.why_cut, steps.names) for each in self.findings]

    def measure(self, session: Session) -> None:
        """Runs the procedure on a live target."""
        self.procedure(session, self.begin())

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """Runs the procedure over the evidence, then the verdict. What rests on the type is unknown where it
        was not seen at the first addresses, to which these tests write."""
        seen, steps = self._replayed(evidence, known)
        evidence.shown = seen
        found = self.unfinished(seen, steps) if steps.cut else self.verdict(seen, steps)
        return first_addresses.left_unknown(found, known) if self.rests_on_type else found

    def again(self, evidence: Evidence, known: Known) -> list[Finding]:
        """None: most tests are judged once."""
        del evidence, known
        return []

    def seen(self, evidence: Evidence, findings: Sequence[Finding]) -> Seen:
        """What the findings were inferred from, for figures."""
        if evidence.shown is None:
            evidence.shown, _ = self._replayed(evidence, Known(findings))
        shown: Seen = evidence.shown
        return shown

    def _replayed(self, evidence: Evidence, known: Known) -> tuple[Seen, Replay]:
        seen, steps = self.begin(), Replay(evidence, known)
        with suppress(CutShort):  # `steps.cut` says where
            self.procedure(steps, seen)
        return seen, steps
