"""The tests of zones on a double with known traits: what they find, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fake_zoned import MIB, MS, FakeZoned, ZonedTraits
from one_test import known_of, run, truth_of
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.errors import UsageError
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe.non_sequential import NonSequential
from skylight.probe.open_zones.measure import most_zones
from skylight.probe.session import Session
from skylight.probe.suite import (
    TESTS,
    ZONED_TESTS,
    SuiteOptions,
    SuiteResult,
    chosen,
    draw_suite,
    infer_suite,
    run_suite,
)
from skylight.probe.zone_cleaning import ZoneCleaning
from skylight.probe.zoned import COUNTED, NON_SEQUENTIAL, zones_of
from skylight.recording import Recording
from skylight.zoned.zones import ZoneModel


def probed(traits: ZonedTraits, test: str, out: Path) -> SuiteResult:
    """Runs one test of zones; what a replay of its recording finds is the same."""
    result = run_suite(FakeZoned(traits), out, SuiteOptions(only=(test,)))
    assert infer_suite(out).findings == result.findings
    for figure in draw_suite(result):
        assert figure.alt and figure.caption
    return result


@pytest.mark.parametrize("limit", [8, 37, 100, 255])
def test_the_edge_of_open_zones_is_found_exactly(limit: int, tmp_path: Path) -> None:
    known = Known(probed(ZonedTraits(open_zones=limit), "open_zones", tmp_path / "r").findings)
    edge = known.number("open_zones_edge")
    assert edge is not None
    assert limit * 0.98 <= edge <= limit * 1.02 + 1
    slower = known.part("open_zone_penalty", "sequential_4_kib")
    assert slower is not None and slower > 100
    assert known.part("open_zone_penalty", "non_sequential_4_kib") == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("limit", [135, 250])
def test_what_more_zones_cost_anyway_is_not_taken_for_the_edge(limit: int, tmp_path: Path) -> None:
    traits = ZonedTraits(open_zones=limit, any_closes=True, drift_ns=500)
    edge = Known(probed(traits, "open_zones", tmp_path / "r").findings).number("open_zones_edge")
    assert edge is not None
    assert limit * 0.98 <= edge <= limit * 1.045


def test_without_a_cost_the_edge_is_unknown(tmp_path: Path) -> None:
    result = probed(ZonedTraits(penalty_ns=0), "open_zones", tmp_path / "r")
    known = Known(result.findings)
    edge = known.get("open_zones_edge")
    assert edge is not None and not edge.known
    assert known.word("zone_model") == "host-aware"
    assert known.number("zone_bytes") == 64 * MIB


def test_a_host_managed_drive_is_opened_until_it_refuses(tmp_path: Path) -> None:
    traits = ZonedTraits(model="host-managed", max_open=24, capacity_bytes=48 * MIB, penalty_ns=0)
    known = Known(probed(traits, "open_zones", tmp_path / "r").findings)
    assert known.number("open_zones_edge") == 24
    assert known.number("zone_capacity_bytes") == 48 * MIB
    assert known.word("zone_model") == "host-managed"


@pytest.mark.parametrize("model", ["host-managed", "host-aware"])
def test_zones_that_failed_are_left_alone(model: ZoneModel, tmp_path: Path) -> None:
    """The zones behind them are as good, and there are more of them than before."""
    traits = ZonedTraits(model=model, max_open=24, open_zones=24, failed=(20, 150))
    known = Known(probed(traits, "open_zones", tmp_path / "r").findings)
    assert known.number("open_zones_edge") == 24
    seen = zones_of(FakeZoned(traits))
    assert seen is not None and (seen.first, seen.usable) == (151, 512 - 151)


def test_a_declared_limit_that_is_not_kept_is_no_edge(tmp_path: Path) -> None:
    drive = FakeZoned(ZonedTraits(model="host-managed", max_open=24, keeps_limit=False, penalty_ns=0))
    result = run_suite(drive, tmp_path / "r", SuiteOptions(only=("open_zones",)))
    edge = Known(result.findings).get("open_zones_edge")
    assert edge is not None and not edge.known


@pytest.mark.parametrize("cache", [300, 3_000, 9_000])
def test_the_cache_of_non_sequential_writes_is_found(cache: int, tmp_path: Path) -> None:
    traits = ZonedTraits(cache_writes=cache, clean_ns=2_000 * MS)
    known = Known(probed(traits, "non_sequential", tmp_path / "r").findings)
    size = known.number("non_sequential_cache_bytes")
    assert size == pytest.approx((cache - 1) * 512 * 1024, rel=0.01)
    if cache < 3_000:  # too few stalls to be regular
        return
    assert known.part("non_sequential_stall", "every") == 240
    assert known.part("non_sequential_stall", "ns") == pytest.approx(915 * MS, rel=0.02)
    spell = known.number("blocking_spell_ns")
    assert spell is not None and spell > 16 * 2_000 * MS


def test_the_zones_with_non_sequential_data_are_counted_and_drawn(tmp_path: Path) -> None:
    """As in the paper's Figure 2. A recording without the counts, made before there were any, is read too."""
    result = probed(ZonedTraits(cache_writes=3_000), "non_sequential", tmp_path / "r")
    (evidence,) = result.evidence
    counted = [step for step in evidence.steps if step.name.startswith(COUNTED)]
    zones = [int(step.params[NON_SEQUENTIAL] or 0) for step in counted]
    assert len(zones) > 4 and max(zones) == 32, "writes go to 32 zones"
    assert min(zones[zones.index(32) :]) < 32, "zones are cleaned while writes wait"
    test = NonSequential()
    names = [figure.name for figure in test.draw(evidence, result.findings)]
    assert names == ["non-sequential", "non-sequential-zones"]
    older = replace(evidence, steps=[step for step in evidence.steps if step not in counted])
    assert [found.value for found in test.infer(older, Known())] == [
        found.value for found in test.infer(evidence, Known())
    ]
    assert [figure.name for figure in test.draw(older, result.findings)] == names[:1]


def test_a_cache_without_an_end_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skylight.probe.non_sequential.measure.MOST_BYTES", 8 << 30)
    result = probed(ZonedTraits(cache_writes=1 << 40), "non_sequential", tmp_path / "r")
    cache = Known(result.findings).get("non_sequential_cache_bytes")
    assert cache is not None and not cache.known


def test_cleaning_follows_offset_and_count(tmp_path: Path) -> None:
    traits = ZonedTraits(zones=64, cache_writes=1 << 40)
    known = Known(probed(traits, "zone_cleaning", tmp_path / "r").findings)
    times = {
        (state, place): known.part("zone_cleaning_ns", f"{state}_{place}") or 0.0
        for state in ("empty", "full")
        for place in ("beginning", "middle", "end")
    }
    assert times["empty", "beginning"] < times["empty", "middle"] < times["empty", "end"]
    assert times["full", "beginning"] > times["full", "middle"] > times["full", "end"]
    ios, moved_mib = round(0.1 * 64 * 4), 64
    assert times["empty", "end"] == pytest.approx(400 * MS + ios * 5 * MS + moved_mib * 10 * MS, rel=0.05)
    assert known.number("zone_cleaning_io_ns") == pytest.approx(5 * MS, rel=0.1)
    assert known.word("cleaning_unit") == "zone"
    begun = known.get("first_zone_clean_ns")
    assert begun is not None and begun.interval is not None
    assert begun.interval[0] <= 20e9 + 1e9 <= begun.interval[1] + 1e9


@pytest.mark.parametrize("cache", [1 << 40, 1_000])
def test_zones_elsewhere_are_tried_where_the_test_of_bands_could_not_say(cache: int, tmp_path: Path) -> None:
    """With the small cache the trials before leave zones that are not clean, which the drive counts too."""
    known = Known([Finding("band_bytes", UNKNOWN, "bytes", None, 0.0, "so")], writes=True)
    engine, test = FakeZoned(ZonedTraits(zones=160, cache_writes=cache)), ZoneCleaning()
    recording = Recording.create(tmp_path / "r", engine.describe(), {}, 1)
    with recording.part(test.name) as writer:
        test.measure(Session(engine, writer, test=test.name, seed=1, known=known))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    bands = Known(test.infer(evidence, known)).get("band_bytes")
    assert bands is not None and bands.value == dict.fromkeys(("od", "md", "id"), 64 * MIB)


def test_a_drive_that_does_not_clean_by_itself_is_unknown(tmp_path: Path) -> None:
    result = probed(ZonedTraits(zones=64, idle_s=1e9), "zone_cleaning", tmp_path / "r")
    assert result.findings and not any(finding.known for finding in result.findings)


def test_a_host_managed_drive_is_asked_what_is_written_in_order_alone() -> None:
    assert [test.name for test in chosen([], model="host-managed")] == ["rotation", "open_zones"]
    assert chosen([], model="host-aware") == (*TESTS, *ZONED_TESTS)
    assert chosen([]) == TESTS
    for refused in ("write_rates", "non_sequential", "zone_cleaning"):
        assert chosen([refused], model="host-managed") == ()
    with pytest.raises(UsageError, match="did you mean open_zones"):
        chosen(["open_zone"])


@pytest.mark.parametrize(("max_open", "max_active", "most"), [
    (4, 8, 7), (8, 8, 8), (None, 8, 8), (4, None, 32),
])  # fmt: skip
def test_one_zone_less_than_may_be_active_is_written_where_fewer_may_be_open(
    max_open: int | None, max_active: int | None, most: int
) -> None:
    zones = zones_of(FakeZoned(ZonedTraits(model="host-managed", zones=36, conventional=4)))
    assert zones is not None
    assert most_zones(replace(zones, max_open=max_open, max_active=max_active)) == most


def test_non_sequential_tests_leave_a_host_managed_drive_alone(tmp_path: Path) -> None:
    """They are not asked of one; where they are all the same, they send nothing."""
    engine = FakeZoned(ZonedTraits(model="host-managed", max_open=24))
    for test in (NonSequential(), ZoneCleaning()):
        recording = Recording.create(tmp_path / test.name, engine.describe(), {}, 1)
        with recording.part(test.name) as writer:
            test.measure(Session(engine, writer, test=test.name, seed=1))
            writer.complete()
        evidence = recording.evidence(test.name)
        assert evidence is not None and test.infer(evidence, Known()) == []
        assert not any(len(step.rows) for step in evidence.steps)


def test_a_drive_without_zones_keeps_no_step_of_them(tmp_path: Path) -> None:
    engine = SimEngine.open("st4000nc001")
    result = run_suite(engine, tmp_path / "r", SuiteOptions(only=("open_zones",)))
    assert result.findings == []
    evidence = Recording.open(tmp_path / "r").evidence("open_zones")
    assert evidence is not None and evidence.steps == []


def test_reads_before_the_looks_at_a_volatile_cache_reach_the_medium(tmp_path: Path) -> None:
    """Else the head stays, and a log takes a block in far less than a revolution, as a volatile cache would:
    a host-aware drive (seed 98806) whose cache was off was said to have one that FLUSH does not empty."""
    toml = _native.random_profile(98806, "host-aware")
    truth = truth_of(toml)
    findings, _ = run(NonSequential(), toml, known_of(truth), tmp_path / "r")
    found = {finding.name: finding for finding in findings}["non_sequential_cache_bytes"]
    assert found.value == truth["non_sequential_cache_bytes"]["value"]
