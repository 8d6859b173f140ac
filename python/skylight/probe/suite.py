"""The tests in their order, and the two ways to run them: on a live target, or on a recording.

Both ways end in the same place: `run_suite` measures into a recording and then reads that recording back, so
a finding from a live target and one from its recording are the same finding by construction.

Source: DESIGN, ideas 1 to 3.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skylight.engines import Engine
from skylight.errors import UsageError
from skylight.evidence import Evidence, JsonScalar, TargetFacts
from skylight.findings import Finding
from skylight.probe import Figure, Test
from skylight.probe.drive_type import DriveType
from skylight.probe.session import Progress, Session
from skylight.recording import Recording

TESTS: tuple[Test, ...] = (DriveType(),)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What a person may choose about a run.

    `seed` picks the offsets, `only` the tests by name (empty: all), `quick` fewer I/Os, `resume` goes on with
    an interrupted recording."""

    seed: int = 1
    only: tuple[str, ...] = ()
    quick: bool = False
    resume: bool = False

    def to_json(self, writes: bool) -> dict[str, JsonScalar]:
        """The options that change what is measured, and whether the target may be written to, as the
        recording keeps them."""
        return {"only": ",".join(self.only), "quick": self.quick, "writes": writes}


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a report shows: the target, the evidence of each test, all findings, and how it was measured."""

    target: TargetFacts
    evidence: list[Evidence]
    findings: list[Finding]
    seed: int
    options: dict[str, JsonScalar] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def chosen(only: Sequence[str]) -> tuple[Test, ...]:
    """The tests of those names in the suite's order; all of them when `only` is empty."""
    names = [test.name for test in TESTS]
    for name in only:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"no test is called {name!r}{meant} (tests: {', '.join(names)})")
    return tuple(test for test in TESTS if not only or test.name in only)


def run_suite(
    engine: Engine, out: Path, options: SuiteOptions, progress: Progress | None = None
) -> SuiteResult:
    """Measures the chosen tests on a live target into the recording `out`, then infers from that
    recording."""
    tests = chosen(options.only)
    facts = engine.describe()
    kept_options = options.to_json(engine.can_write)
    if options.resume:
        recording = Recording.open(out)
        recording.check_same_run(facts, kept_options, options.seed)
    else:
        recording = Recording.create(out, facts, kept_options, options.seed)
    for test in tests:
        before = recording.evidence(test.name)
        if before is not None and before.complete:
            continue
        with recording.part(test.name) as writer:
            session = Session(
                engine,
                writer,
                test=test.name,
                seed=options.seed,
                before=before,
                quick=options.quick,
                total_ios=test.estimate(facts, writes=engine.can_write).ios,
                progress=progress,
            )
            test.measure(session)
            writer.complete()
    return infer_suite(out)


def infer_suite(path: Path) -> SuiteResult:
    """Findings from the recording in directory `path`; touches no target."""
    recording = Recording.open(path)
    evidence: list[Evidence] = []
    findings: list[Finding] = []
    for test in TESTS:
        kept = recording.evidence(test.name)
        if kept is not None:
            evidence.append(kept)
            findings.extend(_inferred(test, kept, path))
    recording.check_known([test.name for test in TESTS])
    if not evidence:
        raise UsageError(f"{path}: the recording holds no evidence of any test; probe the target again")
    notes = [note for kept in evidence for note in kept.notes]
    return SuiteResult(recording.target, evidence, findings, recording.seed, recording.options, notes)


def _inferred(test: Test, evidence: Evidence, path: Path) -> list[Finding]:
    """A test's findings; evidence that it cannot use is refused with the recording's name."""
    try:
        return test.infer(evidence)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def draw_suite(result: SuiteResult) -> list[Figure]:
    """The figures of every test in the result, in the suite's order."""
    by_name = {kept.test: kept for kept in result.evidence}
    return [
        figure
        for test in TESTS
        if test.name in by_name
        for figure in test.draw(by_name[test.name], result.findings)
    ]
