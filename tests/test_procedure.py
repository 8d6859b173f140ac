"""A test that is a procedure and a verdict: what it sees on a target is what it sees over the recording."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import one_test
from skylight.engines.sim import SimEngine, read_profile
from skylight.evidence import Evidence
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe import suite
from skylight.probe.procedure import MEDIUM_TAKEN, ProcedureTest, no_surer_than_medium
from skylight.probe.suite import TESTS, ZONED_TESTS

PAGE = Path(__file__).parent.parent / "docs/tests/adding-a-test.md"


def shown_test() -> type[ProcedureTest[Any]]:
    """The test that the page on adding one shows, run as it stands there."""
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    module = ModuleType("adding_a_test")
    sys.modules[module.__name__] = module  # where a data class looks for the types of its fields
    exec(compile(block, str(PAGE), "exec"), vars(module))
    test: type[ProcedureTest[Any]] = vars(module)["Twice"]
    return test


Twice = shown_test()


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
    assert [test.name for test in (*TESTS, *ZONED_TESTS) if not isinstance(test, ProcedureTest)] == []


def test_a_line_adds_a_test_to_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "TESTS", (*TESTS, Twice()))
    monkeypatch.setattr(suite, "ALL_TESTS", (*TESTS, Twice(), *ZONED_TESTS))
    engine = SimEngine.open("emulated-smr-1")
    result = suite.run_suite(engine, tmp_path / "r", suite.SuiteOptions(only=("twice",)))
    assert [(each.name, each.known) for each in result.findings] == [("slowest_ns", True)]
    assert suite.infer_suite(tmp_path / "r").findings == result.findings
    assert suite.accounts(result)[0].test == "twice" and suite.draw_suite(result) == []


def test_the_page_names_all_that_a_test_declares() -> None:
    declared = {*ProcedureTest.__annotations__} - {"begin"}
    table = PAGE.read_text(encoding="utf-8").split("## What it declares of itself")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", table, re.MULTILINE)) == declared


@pytest.mark.parametrize(("medium", "sure"), [("disk", 0.99), (UNKNOWN, MEDIUM_TAKEN), (None, 0.99)])
def test_what_rests_on_looks_is_no_surer_than_the_medium(medium: str | None, sure: float) -> None:
    known = [Finding("drive_type", "smr", None, None, 0.99, "")]
    if medium is not None:
        known.append(Finding("cache_medium", medium, None, None, 0.9 if medium == "disk" else 0.0, ""))
    found = [Finding("cleaning_type", "lazy", None, None, 0.99, "")]
    assert no_surer_than_medium(found, Known(known))[0].confidence == sure
