"""The tests in their order, and the two ways to run them: on a live target, or on a recording.

Both ways end in the same place: `run_suite` measures into a recording and then reads that recording back, so
a finding from a live target and one from its recording are the same finding by construction.

Source: docs/architecture.md, ideas 1 to 3.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

from skylight.byte_range import ByteRange
from skylight.engines import Engine
from skylight.engines.preserve import MOST_BYTES as MOST_KEPT_BYTES
from skylight.errors import KeepError, UsageError
from skylight.evidence import Evidence, JsonScalar, Step, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known, Property, Scope
from skylight.infer.host_clock import host_notes
from skylight.infer.priors import most_sure, rests_on
from skylight.probe import Cost, Figure, LiveTest, Test, film_findings
from skylight.probe.band_size import BandSize
from skylight.probe.cache_location import CacheLocation
from skylight.probe.cache_size import CacheSize
from skylight.probe.cleaning import CleaningTest
from skylight.probe.cleaning_order import CleaningOrder
from skylight.probe.drive_type import DriveType
from skylight.probe.drive_type.verdict import LEAST_LIKELY
from skylight.probe.fragmented_reads import FragmentedReads
from skylight.probe.health import HealthWatch
from skylight.probe.journal import Journal
from skylight.probe.known_state import MOST_BYTES as MOST_RESET_BYTES
from skylight.probe.known_state import MOST_S as MOST_RESET_S
from skylight.probe.known_state import Means, in_resets
from skylight.probe.mapping import Mapping as BlockMapping
from skylight.probe.non_sequential import NonSequential
from skylight.probe.open_zones import OpenZones
from skylight.probe.progress import Meter, Progress
from skylight.probe.quick_budget import Budget
from skylight.probe.quiet_drive import MOST_S as MOST_WAITING_S
from skylight.probe.quiet_drive import SLOW_NS, waiting
from skylight.probe.recording_zones import Zones
from skylight.probe.rotation import Rotation
from skylight.probe.session import LARGEST_PIECE_IOS, Session
from skylight.probe.spending_bound import Bound, BoundReached
from skylight.probe.write_rates import WriteRates
from skylight.probe.write_rates.fio_write_logs import LoggedWrites
from skylight.probe.zone_cleaning import ZoneCleaning
from skylight.probe.zoned import (
    HOST_AWARE,
    HOST_MANAGED,
    MOST_FILLED_BY_TEST_BYTES,
    MOST_FILLING_S,
    ZonesSeen,
    is_filled,
    model_of,
    zones_of,
)
from skylight.recording import PartWriter, Recording, SpentPart
from skylight.units import format_size

TESTS: tuple[LiveTest, ...] = (
    DriveType(),
    Rotation(),
    Journal(),
    CacheLocation(),
    CleaningTest(),
    CacheSize(),
    BandSize(),
    BlockMapping(),
    CleaningOrder(),
    Zones(),
    WriteRates(),
)
"""In the order they run: each may use what earlier ones found."""

ZONED_TESTS: tuple[LiveTest, ...] = (OpenZones(), NonSequential(), ZoneCleaning())
"""What a zoned target is asked besides, as far as it takes their writes (`left_out`)."""

LOG_TESTS: tuple[Test, ...] = (FragmentedReads(), LoggedWrites())
"""Tests that read logs of other tools (`skylight.engines.fio_log`) and measure nothing."""

ALL_TESTS: tuple[Test, ...] = (*TESTS, *ZONED_TESTS, *LOG_TESTS)
"""What a recording may hold."""

PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {found.name: found for test in ALL_TESTS for found in test.findings}
    | {found.name: found for found in film_findings.FINDINGS}
)
"""All that can be found, by name, in the order of the tests that find it; then by films."""

FOUND_BY_TYPE = frozenset(found.name for test in ALL_TESTS if test.rests_on_type for found in test.findings)
"""What tests find that look for what drives of one type have."""

IN_THE_RANGE = {"od": "range_start", "md": "range_middle", "id": "range_end"}
"""What places along the drive are called that lie in a range of it."""

QUICK_SECONDS, QUICK_BOUND_SECONDS = 50.0, 60.0
"""Device time of a quick answer, after which no command is sent, and what is promised. The last command may
be a stall of cleaning, of which most take less than the ten seconds between."""

NEVER_NS = 1 << 62
"""Device time that no test takes."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What a person may choose about a run.

    `seed` picks the offsets, `only` the tests by name (empty: all), `quick` fewer I/Os, `resume` goes on with
    an interrupted recording, `reset` how the target may be brought to a known state."""

    seed: int = 1
    only: tuple[str, ...] = ()
    quick: bool = False
    resume: bool = False
    reset: Means = "auto"

    def to_json(self, writes: bool) -> dict[str, JsonScalar]:
        """The options that change what is measured, and whether the target may be written to, as the
        recording keeps them."""
        return {
            "only": ",".join(self.only), "quick": self.quick, "writes": writes, "suite": suite_digest(),
            "reset": self.reset,
        }  # fmt: skip


@cache
def suite_digest() -> str:
    """A digest of the sources that plan and judge: a run is gone on with by the very suite that began it."""
    return digest_of("infer", "probe")


def digest_of(*packages: str) -> str:
    """A digest of the sources of some of our packages."""
    whole = hashlib.sha256()
    root = resources.files("skylight")
    for package in packages:
        for text in _sources(root / package):
            whole.update(text)
    return whole.hexdigest()[:16]


def _sources(folder: Traversable) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()


Found = Callable[[Test, Sequence[Finding]], None]
"""Takes a test that has ended, and what it found."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a report shows: the target, the evidence of each test, all findings, and how it was measured."""

    target: TargetFacts
    evidence: list[Evidence]
    findings: list[Finding]
    seed: int
    options: dict[str, JsonScalar] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def chosen(only: Sequence[str], *, quick: bool = False, model: str | None = None) -> tuple[LiveTest, ...]:
    """The tests of those names and all that they build on, in the suite's order.

    With no names all that a target of this zone model can be asked (None: it has no zones), or those of a
    quick answer."""
    by_name = {test.name: test for test in (*TESTS, *ZONED_TESTS)}
    for name in only:
        if name not in by_name:
            close = difflib.get_close_matches(name, by_name, n=1, cutoff=0.5)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"no test is called {name!r}{meant} (tests: {', '.join(by_name)})")
    whole = not only and not quick
    tests = (*TESTS, *(ZONED_TESTS if model is not None or only else ()))
    asked = [test for test in tests if test not in left_out(model)]
    answers = next(test.name for test in asked if test.answers_quickly)
    wanted, ahead = set[str](), list(only or ((answers,) if quick else ()))
    while ahead:
        name = ahead.pop()
        if name not in wanted:
            wanted.add(name)
            ahead.extend(by_name[name].needs)
    return tuple(test for test in asked if whole or test.name in wanted)


def within_journal(
    tests: Sequence[LiveTest], facts: TargetFacts, *, quick: bool
) -> tuple[tuple[LiveTest, ...], tuple[LiveTest, ...]]:
    """Those of some tests that write no more than a journal of kept data holds, and build on such tests
    alone; and the others."""
    left = set[str]()
    for test in tests:
        cost = cost_of(test, facts, writes=True, quick=quick)
        if cost.bytes_written > MOST_KEPT_BYTES or left.intersection(test.needs):
            left.add(test.name)
    kept = tuple(test for test in tests if test.name not in left)
    if not kept:
        most = format_size(MOST_KEPT_BYTES)
        raise UsageError(
            f"{facts.name}: each test that was asked for writes more than --preserve keeps ({most}); ask for"
            " others with --only"
        )
    return kept, tuple(test for test in tests if test.name in left)


def left_out(model: str | None) -> tuple[LiveTest, ...]:
    """The tests that a target of this zone model cannot be asked: a host-managed one refuses writes that are
    not at a write pointer."""
    every = (*TESTS, *ZONED_TESTS) if model == HOST_MANAGED else ()
    return tuple(test for test in every if not test.writes_in_order)


def part_of(test: LiveTest, engine: Engine) -> ZonesSeen | None:
    """The zones that stand for the whole target in a test; None where it looks at all of it."""
    if test.sees_all_zones or model_of(engine) != HOST_AWARE:
        return None
    seen = zones_of(engine)
    return seen if seen is not None and seen.usable else None


def run_suite(
    engine: Engine,
    out: Path,
    options: SuiteOptions,
    progress: Progress | None = None,
    found: Found | None = None,
) -> SuiteResult:
    """Measures the chosen tests on a live target into the recording `out`, inferring from that recording as
    it goes; `found` is called with each of several tests as it ends, and its findings."""
    facts = engine.describe()
    kept_options = options.to_json(engine.can_write)
    if options.resume:
        recording = Recording.open(out)
        recording.check_same_run(facts, kept_options, options.seed)
    else:
        recording = Recording.create(out, facts, kept_options, options.seed)
    known = nothing_known(recording)
    gathered: list[Evidence] = []
    budget = Budget(round(QUICK_SECONDS * 1e9)) if options.quick else None
    tests = chosen(options.only, quick=options.quick, model=model_of(engine))
    begun = {test.name: recording.evidence(test.name) for test in tests}
    done = all(kept is not None and kept.complete for kept in begun.values())
    watch = HealthWatch(facts, out)
    for number, test in enumerate(tests, 1):
        place = f"{number}/{len(tests)} " if len(tests) > 1 else ""
        before = begun[test.name]
        is_new = before is None or not before.complete
        if before is None or not before.complete or (engine.repeatable and not done):
            watch.look(test.name, "before")
            before = _measured(test, engine, recording, before, known, budget, progress, place, options.reset)
            watch.look(test.name, "after")
        gathered.append(before)
        findings = _inferred(test, before, known, out)
        known = known.with_more(findings)
        if found is not None and is_new and len(tests) > 1:
            found(test, _of_a_part(as_sure_as_right(findings, known), facts))
    return _result(recording, gathered, known)


def _measured(
    test: LiveTest,
    engine: Engine,
    recording: Recording,
    before: Evidence | None,
    known: Known,
    budget: Budget | None,
    progress: Progress | None,
    place: str,
    reset: Means,
) -> Evidence:
    """Runs one test, or goes on with it, and reads back what was kept.

    A test that was complete is run again on a repeatable engine, silently: it leaves the target as it was
    left."""
    facts = engine.describe()
    complete = before is not None and before.complete
    writer: PartWriter | SpentPart
    if complete:
        writer = SpentPart(recording.path)
    else:  # a step that was cut is done again by an emulated drive: what was kept of it is not read
        writer = recording.part(test.name, together=LARGEST_PIECE_IOS if engine.repeatable else 1)
    with writer:
        cost = cost_of(test, facts, writes=engine.can_write, quick=budget is not None)
        session = Session(
            engine,
            writer,
            test=test.name,
            seed=recording.seed,
            before=before,
            known=known,
            bound=_bound(cost, quick=budget is not None),
            budget=budget,
            meter=Meter(progress, test.name, place, total_ios=cost.ios, likely_ns=_likely_ns(cost, known)),
            reset=reset,
            part=part_of(test, engine),
        )
        with suppress(BoundReached):  # the evidence says so, and the next test goes on
            test.measure(session)
        writer.complete()
    kept = before if complete else recording.evidence(test.name)
    if kept is None:
        raise KeepError(f"{recording.path}: the evidence of {test.name} vanished; choose another --out")
    return kept


def cost_of(test: Test, facts: TargetFacts, *, writes: bool, quick: bool) -> Cost:
    """What a test costs, and what it is held to: the plan of a person and the bound of the session."""
    cost = test.estimate(facts, writes=writes)
    if not quick or cost.ios == 0:
        return cost
    likely, unshingled = (min(each, QUICK_SECONDS) for each in (cost.likely_seconds, cost.unshingled_seconds))
    return replace(
        cost, device_seconds=QUICK_BOUND_SECONDS, likely_seconds=likely, unshingled_seconds=unshingled
    )


def _likely_ns(cost: Cost, known: Known) -> int:
    """What a test likely takes of a drive of the kind that was found, ns; of a shingled one until it was."""
    other = known.word("drive_type") in ("cmr", "not-rotating")
    return round((cost.unshingled_seconds if other else cost.likely_seconds) * 1e9)


def resets(tests: Sequence[LiveTest], *, quick: bool) -> bool:
    """Whether some tests may bring the target to a known state, which takes time that a quick answer may not
    have."""
    return not quick or any(test.resets_when_quick for test in tests)


def _bound(cost: Cost, *, quick: bool) -> Bound:
    """What the session holds a test to. The device time of a quick answer is that of its budget."""
    return Bound(NEVER_NS if quick else round(cost.device_seconds * 1e9), cost.bytes_written)


@dataclass(frozen=True, slots=True)
class Account:
    """What a test was to cost, and what it took: device time, pauses included, and bytes written."""

    test: str
    planned: Cost
    device_seconds: float
    bytes_written: int

    @property
    def within(self) -> bool:
        """Whether it took no more than was said."""
        planned = self.planned
        return self.device_seconds <= planned.device_seconds and self.bytes_written <= planned.bytes_written

    def to_json(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "likely_seconds": self.planned.likely_seconds,
            "unshingled_seconds": self.planned.unshingled_seconds,
            "most_seconds": self.planned.device_seconds,
            "most_bytes_written": int(self.planned.bytes_written),
            "device_seconds": self.device_seconds,
            "bytes_written": self.bytes_written,
        }


def accounts(result: SuiteResult) -> list[Account]:
    """The accounts of the tests that ran, each followed by those of its resets and its filling of zones,
    which have bounds of their own; none where another version of the suite made the plan."""
    writes, quick = (result.options.get(name) is True for name in ("writes", "quick"))
    if result.options.get("suite") != suite_digest():
        return []
    by_name = {test.name: test for test in (*TESTS, *ZONED_TESTS)}
    told = []
    for kept in result.evidence:
        if kept.test not in by_name:
            continue
        # What was cut short on an emulated drive was not done to the drive that went on.
        steps = kept.steps if result.target.kind == "sim" else kept.done
        planned = cost_of(by_name[kept.test], result.target, writes=writes, quick=quick)
        resets = in_resets(steps)
        apart = {step.name for reset in resets for step in reset}
        filled = [step for step in steps if is_filled(step.name)]
        waits = waiting(steps)
        apart |= {step.name for step in (*filled, *(step for wait in waits for step in wait))}
        told.append(_account(kept.test, planned, [step for step in steps if step.name not in apart]))
        if filled:
            most = Cost(0, MOST_FILLING_S, MOST_FILLED_BY_TEST_BYTES)
            told.append(_account(f"{kept.test}, zones filled", most, filled))
        long = (wait for wait in waits if sum(step.device_ns for step in wait) >= SLOW_NS)
        told.extend(_account(f"{kept.test}, waiting", Cost(0, MOST_WAITING_S), wait) for wait in long)
        each = Cost(0, MOST_RESET_S[result.target.kind == "sim"], MOST_RESET_BYTES)
        slow = (reset for reset in resets if any(step.device_ns for step in reset))
        told.extend(_account(f"{kept.test}, {reset[0].name}", each, reset) for reset in slow)
    return told


def _account(name: str, planned: Cost, steps: Sequence[Step]) -> Account:
    seconds = sum(step.device_ns for step in steps) / 1e9
    return Account(name, planned, seconds, sum(step.written_bytes for step in steps))


def nothing_known(recording: Recording) -> Known:
    """Where inference begins: what the recording says of how it was made."""
    options = recording.options
    return Known(writes=options.get("writes") is True, quick=options.get("quick") is True)


def infer_suite(path: Path) -> SuiteResult:
    """Findings from the recording in directory `path`; touches no target."""
    recording = Recording.open(path)
    known = nothing_known(recording)
    gathered: list[Evidence] = []
    for test in ALL_TESTS:
        kept = recording.evidence(test.name)
        if kept is not None:
            gathered.append(kept)
            known = known.with_more(_inferred(test, kept, known, path))
    recording.check_known([test.name for test in ALL_TESTS])
    if not gathered:
        raise UsageError(f"{path}: the recording holds no evidence of any test; probe the target again")
    return _result(recording, gathered, known)


def _result(recording: Recording, gathered: list[Evidence], known: Known) -> SuiteResult:
    notes = [note for kept in gathered for note in (*kept.notes, *host_notes(kept))]
    target, part = recording.target, ByteRange.declared_by(recording.target.declared)
    if part is not None:
        notes.append(
            f"No test read or wrote outside {part.words} of {target.name}, and nothing is known of the rest."
            f" Addresses count from {format_size(part.start)} (--range)."
        )
    known = judged_again(gathered, known)
    findings = _of_a_part(as_sure_as_right(list(known), known), target)
    return SuiteResult(target, gathered, findings, recording.seed, recording.options, notes)


def judged_again(gathered: list[Evidence], known: Known) -> Known:
    """What is known, with those findings judged anew that all tests together make surer (`Test.again`)."""
    by_name = {kept.test: kept for kept in gathered}
    return known.with_more(
        each for test in ALL_TESTS if test.name in by_name for each in test.again(by_name[test.name], known)
    )


def _of_a_part(findings: list[Finding], target: TargetFacts) -> list[Finding]:
    """Of a range of a drive, what a part cannot show is unknown to people, and places are those of the range.
    The tests of the range go on from what was found: to them it is the whole."""
    part = ByteRange.declared_by(target.declared)
    return findings if part is None else [_relative(each, part) for each in findings]


def _relative(finding: Finding, part: ByteRange) -> Finding:
    """What a finding says of a range alone."""
    value = finding.value
    if not finding.known:
        return finding
    scope = PROPERTIES[finding.name].scope
    if not scope.is_shown_by_range:
        why = f"Only {part.words} was looked at (--range), which does not show it of the whole drive."
        return replace(finding, value=UNKNOWN, interval=None, confidence=0.0, why=why)
    why = finding.why
    if scope is Scope.LOCAL:
        why = f"{why.removesuffix('.')}. This is within {part.words} (--range)."
    if isinstance(value, dict) and value.keys() & IN_THE_RANGE.keys():
        value = {IN_THE_RANGE.get(key, key): number for key, number in value.items()}
        why = f"{why} OD, MD and ID are the start, middle and end of the range here (--range)."
    return replace(finding, value=value, why=why)


def _inferred(test: Test, evidence: Evidence, known: Known, path: Path) -> list[Finding]:
    """A test's findings; evidence that it cannot use is refused with the recording's name. Of a test that was
    cut short, what is unknown is so for that reason."""
    try:
        findings = test.infer(evidence, known)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    undeclared = {finding.name for finding in findings} - {found.name for found in test.findings}
    assert not undeclared, f"{test.name} reports what its findings do not declare: {sorted(undeclared)}"
    if evidence.target.declared.get("scratch") is True:
        findings = [_in_a_file(finding, evidence.target) for finding in findings]
    if evidence.complete:
        return [_at_bound(finding, evidence) for finding in findings]
    why = f"The evidence of {test.title.lower()} is not whole; go on with --resume, or probe again."
    return [
        finding if finding.known or "--resume" in finding.why else replace(finding, why=why)
        for finding in findings
    ]


def no_surer_than_type(findings: list[Finding], known: Known) -> list[Finding]:
    """Findings of which those that rest on what the drive was taken for are no surer than that, and where it
    is unknown, than what a type is said from on. Where the type was not asked there is no such limit."""
    kind = known.get("drive_type")
    most = 1.0 if kind is None else kind.confidence if kind.known else LEAST_LIKELY
    return [
        replace(each, confidence=min(each.confidence, most)) if each.name in FOUND_BY_TYPE else each
        for each in findings
    ]


def as_sure_as_right(findings: list[Finding], known: Known) -> list[Finding]:
    """Findings no surer than answers of their way were right (`skylight.infer.priors`), nor than what they
    rest on is by that measure."""
    sure = Known((_as_counted(each, known.quick) for each in known), writes=known.writes, quick=known.quick)
    counted = (_as_counted(each, known.quick) for each in findings)
    return no_surer_than_type([_no_surer_than_basis(each, sure) for each in counted], sure)


def _as_counted(finding: Finding, quick: bool) -> Finding:
    most = most_sure(finding.name, finding.way, quick=quick)
    return replace(finding, confidence=min(finding.confidence, most))


def _no_surer_than_basis(finding: Finding, sure: Known) -> Finding:
    basis = (sure.get(name) for name in rests_on(finding.way))
    most = min((each.confidence for each in basis if each is not None), default=1.0)
    return replace(finding, confidence=min(finding.confidence, most))


def _in_a_file(finding: Finding, target: TargetFacts) -> Finding:
    """Of a scratch file, what holds of places of the whole drive is unknown."""
    if PROPERTIES[finding.name].scope is not Scope.PLACES:
        return finding
    why = f"A file of {format_size(target.size_bytes)} lies in one part of the drive; probe the whole drive."
    return replace(finding, value=UNKNOWN, interval=None, confidence=0.0, why=why)


def _at_bound(finding: Finding, evidence: Evidence) -> Finding:
    """What is unknown after a test that reached its bound is so for that reason too."""
    last = evidence.steps[-1] if evidence.steps else None
    if finding.known or last is None or last.kind != "bound":
        return finding
    said = f"The test reached its bound of {last.params.get('why')} in {last.params.get('step')}."
    if "its bound of" in finding.why or "--resume" in finding.why:
        return replace(finding, why=said)
    return replace(finding, why=f"{said} {finding.why}")


def draw_suite(result: SuiteResult) -> list[Figure]:
    """The figures of every test in the result, in the suite's order."""
    by_name = {kept.test: kept for kept in result.evidence}
    return [
        figure
        for test in ALL_TESTS
        if test.name in by_name
        for figure in test.draw(by_name[test.name], result.findings)
    ]
