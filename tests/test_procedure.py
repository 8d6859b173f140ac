"""A test that is a procedure and a verdict: what it sees on a target is what it sees over the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import one_test
from skylight.engines.sim import read_profile
from skylight.evidence import Evidence, IoBatch, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known, Property, Scope
from skylight.probe import Cost, Figure
from skylight.probe.procedure import (
    MEDIUM_TAKEN,
    ProcedureTest,
    Replay,
    Steps,
    no_surer_than_medium,
)
from skylight.probe.suite import TESTS

SLOWEST = Property("slowest_ns", "Slowest read", "ns", scope=Scope.LOCAL)


@dataclass(slots=True)
class Seen:
    latencies_ns: list[int] = field(default_factory=list)
    cache_on: bool | None = None


class Twice(ProcedureTest[Seen]):
    """Reads a block, pauses and reads again, from farther away if the first read was slow."""

    name = "twice"
    title = "Two reads"
    summary = "Reads twice."
    findings: tuple[Property, ...] = (SLOWEST,)
    rests_on_type = False
    begin = Seen
    slow_ns = 1

    def cost(self, facts: TargetFacts) -> Cost:
        return Cost(2, 1.0, 0)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            seen.cache_on = report.write_cache
            at = steps.rng("at").integers(1, 1000) * 4096
            seen.latencies_ns.append(int(steps.run("read", IoBatch.reads([at], 4096)).latency_ns[0]))
            steps.pause("pause", 0.5)
            far = seen.latencies_ns[0] >= self.slow_ns
            log = steps.run("read" if far else "near", IoBatch.reads([at + far * (1 << 30)], 4096))
            seen.latencies_ns.append(int(log.latency_ns[0]))

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        return [SLOWEST.found(max(seen.latencies_ns), 1.0, "as read", steps.names)]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        return []


@pytest.fixture
def measured(tmp_path: Path) -> tuple[list[Finding], Evidence]:
    return one_test.run(Twice(), read_profile("emulated-smr-1")[0], Known(), tmp_path / "r")


def test_the_verdict_sees_what_the_procedure_saw(measured: tuple[list[Finding], Evidence]) -> None:
    findings, evidence = measured
    logs = [evidence.log(name).latency_ns for name in ("read", "read-2")]
    assert findings[0].value == int(np.concatenate(logs).max())
    assert findings[0].rows == ("read", "pause", "read-2"), (
        "a name used again has a number; settings have none"
    )
    shown = Twice().seen(evidence, findings)
    assert (shown.latencies_ns, shown.cache_on) == ([int(log[0]) for log in logs], False)


@pytest.mark.parametrize(("kept", "before"), [(0, "settings"), (1, "read"), (2, "pause"), (3, "read-2")])
def test_evidence_that_ends_early_is_unknown(
    measured: tuple[list[Finding], Evidence], kept: int, before: str
) -> None:
    _, evidence = measured
    cut = Evidence("twice", evidence.target, evidence.steps[:kept])
    (found,) = Twice().infer(cut, Known())
    assert not found.known and found.unit == "ns" and f"cut short before {before};" in found.why
    assert len(Twice().seen(cut, []).latencies_ns) == max(kept - 1, 0) - (kept == 3)


def test_evidence_of_another_course_is_not_used(
    measured: tuple[list[Finding], Evidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Twice, "slow_ns", 1 << 60)
    (found,) = Twice().infer(measured[1], Known())
    assert not found.known
    assert found.why == (
        "The test was recorded by another version (its steps differ from near on); probe again."
    )


def test_whole_evidence_with_too_few_steps_was_not_cut_short(
    measured: tuple[list[Finding], Evidence],
) -> None:
    _, evidence = measured
    (found,) = Twice().infer(replace(evidence, steps=evidence.steps[:2], complete=True), Known())
    assert "(its steps differ from pause on); probe again." in found.why


def test_every_test_of_the_suite_is_written_so() -> None:
    assert [test.name for test in TESTS if not isinstance(test, ProcedureTest)] == []


@pytest.mark.parametrize(("medium", "sure"), [("disk", 0.99), (UNKNOWN, MEDIUM_TAKEN), (None, 0.99)])
def test_what_rests_on_looks_is_no_surer_than_the_medium(medium: str | None, sure: float) -> None:
    known = [Finding("drive_type", "smr", None, None, 0.99, "")]
    if medium is not None:
        known.append(Finding("cache_medium", medium, None, None, 0.9 if medium == "disk" else 0.0, ""))
    found = [Finding("cleaning_type", "lazy", None, None, 0.99, "")]
    assert no_surer_than_medium(found, Known(known))[0].confidence == sure
