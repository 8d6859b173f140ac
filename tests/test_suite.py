"""The suite as a whole: what it may see, what it says of drives nobody tuned to, and how it is scored."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from skylight import _native
from skylight.engines.sim import SimEngine, read_profile
from skylight.errors import UsageError
from skylight.evidence import Evidence, IoBatch, IoLog, SettingsReport, Stop, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.probe.fragmented_reads import FragmentedReads
from skylight.probe.scoring import Mark, score
from skylight.probe.suite import (
    TESTS,
    SuiteOptions,
    SuiteResult,
    _inferred,
    chosen,
    infer_suite,
    no_surer_than_type,
    resets,
    run_suite,
)
from skylight.truth import true_findings

SOURCES = Path(__file__).parent.parent / "python/skylight"


class OnlyADevice:
    """An engine that has nothing but what a real device has: no counters, no head trace, no profile."""

    __slots__ = ("_erase", "_facts", "_pause", "_run", "_settings", "can_write", "repeatable", "size")

    def __init__(self, text: str, seed: int) -> None:
        drive = _native.SimDrive(text, "drive.toml", seed)
        facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
        engine = SimEngine(drive, facts)
        self._run, self._pause = engine.run, engine.pause
        self._settings, self._erase, self._facts = engine.settings, engine.erase, facts
        self.size, self.can_write, self.repeatable = facts.size_bytes, True, True

    def describe(self) -> TargetFacts:
        return self._facts

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        return self._run(io, depth=depth, until=until)

    def pause(self, seconds: float) -> None:
        self._pause(seconds)

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        return self._settings(write_cache=write_cache, look_ahead=look_ahead)

    def erase(self) -> bool:
        return self._erase()

    def close(self) -> None:
        pass


def probed(text: str, out: Path, seed: int = 1) -> SuiteResult:
    return run_suite(OnlyADevice(text, seed), out / "recording", SuiteOptions())


def marks(text: str, result: SuiteResult) -> list[Mark]:
    truth = true_findings(text, "drive.toml")
    return score(result.findings, truth)


@pytest.mark.parametrize("name", ["emulated-smr-1", "emulated-smr-3", "st4000nc001", "st5000as0011"])
def test_everything_is_right_of_the_papers_drives(name: str, tmp_path: Path) -> None:
    text, _ = read_profile(name)
    result = probed(text, tmp_path)
    assert {mark.name: mark.outcome for mark in marks(text, result) if mark.outcome != "right"} == {}
    assert infer_suite(tmp_path / "recording").findings == result.findings


@pytest.mark.parametrize(
    "seeds", [(1000, 1001, 1003), pytest.param((1002, 1004, 1007), marks=pytest.mark.long)], ids=str
)
def test_random_drives_are_found_out(seeds: tuple[int, ...], tmp_path: Path) -> None:
    """A small share of `bench/score.py`: seeds on which the suite was tuned, so only a floor."""
    outcomes: list[str] = []
    for seed in seeds:
        text = _native.random_profile(seed, None)
        found = marks(text, probed(text, tmp_path / str(seed), seed))
        assert next(mark for mark in found if mark.name == "drive_type").outcome == "right", seed
        outcomes += [mark.outcome for mark in found]
    assert outcomes.count("right") >= 0.9 * len(outcomes)


@pytest.mark.parametrize("folder", ["probe", "infer"])
def test_what_measures_and_infers_never_sees_the_model(folder: str) -> None:
    """No test or statistic reaches past the engine: not the native module (but for the loops of
    `skylight.segmentation`), a profile, counters or a trace."""
    past = ("import _native", r"skylight\._native", r"\b_native\.", r"engines\.sim", r"\.counters\(")
    banned = re.compile("|".join([*past, "start_trace", "take_trace", "read_profile", r"\.drive\b"]))
    for path in sorted((SOURCES / folder).rglob("*.py")):
        seen = banned.findall(path.read_text(encoding="utf-8"))
        assert seen == [], path.name


class Undeclared(FragmentedReads):
    """Reports a property that its findings lack."""

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        return [finding(4096)]


def test_what_a_test_does_not_declare_is_no_finding_of_it(tmp_path: Path) -> None:
    evidence = Evidence("fragmented_reads", TargetFacts("file", "x", 1 << 30, 512), [])
    with pytest.raises(AssertionError, match=r"fragmented_reads reports .*'band_bytes'"):
        _inferred(Undeclared(), evidence, Known(), tmp_path)


class TestChosen:
    def test_brings_what_a_test_builds_on(self) -> None:
        names = [test.name for test in chosen(["cleaning_order"])]
        assert names[0] == "drive_type" and names[-1] == "cleaning_order" and "cleaning" in names
        assert names == [test.name for test in TESTS if test.name in names], "in the order of the suite"

    def test_every_need_comes_before(self) -> None:
        seen: set[str] = set()
        for test in TESTS:
            assert set(test.needs) <= seen, test.name
            seen.add(test.name)

    @pytest.mark.parametrize(
        ("model", "answer"),
        [(None, "drive_type"), ("host-aware", "drive_type"), ("host-managed", "open_zones")],
    )
    def test_quick_is_the_drive_type_or_whether_zones_behave_as_declared(
        self, model: str | None, answer: str
    ) -> None:
        tests = chosen([], quick=True, model=model)
        assert [test.name for test in tests] == [answer]
        assert resets(tests, quick=True) == (answer == "open_zones") and resets(tests, quick=False)

    def test_a_host_managed_target_is_asked_what_writes_in_order(self) -> None:
        assert [test.name for test in chosen([], model="host-managed")] == ["rotation", "open_zones"]

    def test_a_name_that_is_none_is_refused_with_a_near_one(self) -> None:
        with pytest.raises(UsageError, match="did you mean mapping"):
            chosen(["maping"])


def finding(value: Value) -> Finding:
    return Finding("band_bytes", value, "bytes", None, 1.0, "given")


TRUTH = {
    "band_bytes": {
        "value": {"od": 4, "id": 2}, "interval": {"od": [3, 5], "id": [2, 2]}, "measurable": True,
    },
    "mapping": {"value": "static", "interval": None, "measurable": False},
}  # fmt: skip


class TestScore:
    @pytest.mark.parametrize(
        ("value", "outcome"),
        [
            ({"od": 5, "id": 2}, "right"),
            ({"od": 6, "id": 2}, "wrong"),
            ({"od": 5}, "unknown"),
            ({"od": 6}, "wrong"),
            (4, "wrong"),
            (UNKNOWN, "unknown"),
        ],
    )
    def test_a_table_is_right_when_all_of_it_is(self, value: Value, outcome: str) -> None:
        marked = {mark.name: mark.outcome for mark in score([finding(value)], TRUTH)}
        assert marked == {"band_bytes": outcome, "mapping": "right"}

    def test_a_value_for_what_the_drive_has_not_is_wrong(self) -> None:
        assert [mark.outcome for mark in score([finding(4)], {})] == ["wrong"]
        assert score([finding(UNKNOWN)], {}) == []


@pytest.mark.parametrize(("kind", "most"), [("smr", 0.83), (UNKNOWN, 0.7), (None, 0.99)])
def test_no_finding_is_surer_than_what_the_drive_was_taken_for(kind: str | None, most: float) -> None:
    sure = 0.0 if kind == UNKNOWN else 0.83
    known = Known([] if kind is None else [Finding("drive_type", kind, None, None, sure, "")])
    found = [Finding("mapping", "static", None, None, sure, "") for sure in (0.99, 0.2)]
    assert [each.confidence for each in no_surer_than_type(found, known)] == [most, 0.2]
    turn = Finding("rotation_ns", 8_300_000, "ns", None, 0.99, "")
    assert no_surer_than_type([turn], known) == [turn]


def test_what_is_measured_of_any_drive_does_not_rest_on_its_type() -> None:
    free = [test.name for test in TESTS if not test.rests_on_type]
    assert free == ["drive_type", "rotation", "zones", "write_rates"]
