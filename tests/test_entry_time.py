"""What a lone entry of a journal takes, and how long it is, on a drive that cannot be erased."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim_under_conditions import DRAWN, IDEAL, conditions_text, engine_over
from skylight.evidence import I64, TargetFacts
from skylight.findings import Finding, Known, Value
from skylight.probe.cache_size import verdict
from skylight.probe.cache_size.entry_lengths import advances, entries_of, fits
from skylight.probe.cache_size.entry_time import CYCLES, MISSED_CYCLES, PAIRS, entry_ns
from skylight.probe.cache_size.journal import Entries, Journal, Rate
from skylight.probe.journal.out_of_band_time import SETTLE_NS
from skylight.probe.suite import SuiteOptions, run_suite
from skylight.truth import true_findings

TURN_NS = 8_000_000
WAITS = np.random.default_rng(1).permutation(CYCLES) / CYCLES * TURN_NS


def sized(seed: int, out: Path, kind: str | None = None, *, draw: int = 1) -> dict[str, Value]:
    """What is found of a random drive, of the kind under ideal conditions, of any under its own, up to the
    sizes of its cache; `draw` is the seed of the places that are read and written."""
    given = conditions_text(IDEAL if kind else DRAWN, seed) or ""
    drive = _native.SimDrive(_native.random_profile(seed, kind), "drive.toml", seed, given)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), out / "r", SuiteOptions(seed=draw, only=("cache_size",)))
    return {finding.name: finding.value for finding in result.findings}


def latencies(least_ns: float, busy: float = 0.0) -> I64:
    """Of commands that wait for all parts of a revolution, some of them for other clients too."""
    late = np.random.default_rng(2).random(CYCLES) < busy
    return np.asarray(least_ns + WAITS + 30e6 * late, np.int64)


@pytest.mark.parametrize("busy", [0.0, 0.1])
@pytest.mark.parametrize("entry", [3e6, 17e6, 43e6])
def test_the_shortest_write_and_the_shortest_read_differ_by_an_entry(entry: float, busy: float) -> None:
    found = entry_ns(latencies(2e6 + entry, busy), latencies(2e6, busy), TURN_NS, 0.0)
    assert found is not None
    assert found[0] <= entry <= found[1]
    assert found[1] - found[0] <= MISSED_CYCLES * (1 / CYCLES + 1 / PAIRS) * TURN_NS + SETTLE_NS + 1


@pytest.mark.parametrize(
    ("by_advance", "whole", "known"),
    [([765e3, 893e3], True, False), ([765e3, 950e3], True, True), ([], True, True), ([765e3], False, True)],
)
def test_lengths_that_rest_on_a_whole_time_are_unknown_where_the_log_runs_on_otherwise(
    by_advance: list[float], whole: bool, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of drive 100416 drawn the way of a FLUSH over a slow link was in the time of a whole entry, which was
    found an eighth too long, and no way in which the log may run on was as long."""
    monkeypatch.setattr(verdict, "_by_lengths", lambda *_: [923e3, 997e3])
    monkeypatch.setattr(verdict, "_by_advance", lambda *_: by_advance)
    values: dict[str, Value] = {
        "track_bytes": {"id": 535e3}, "seek_ns": {"track": 9e5}, "rotation_ns": 12e6,
    }  # fmt: skip
    of = Known(
        [Finding(name, value, None, None, 1.0, "") for name, value in values.items()]
        + [Finding("cache_location", "id", None, None, 1.0, "")]
    )
    done = np.asarray(np.arange(200) * 20e6 + np.arange(200) % 7, np.float64)
    seen = Journal(160_000, 5e6, 2e7, (), None, None, entries=Entries(done, done[:48], {}))
    found = verdict._on_disk(seen, of, (2.1e7, 2.2e7), whole=whole)
    assert found == ((923e3, 997e3) if known else None)


def test_reads_that_wait_for_no_angle_say_nothing() -> None:
    assert entry_ns(latencies(20e6), np.full(CYCLES, 400_000), TURN_NS, 0.0) is None


@pytest.mark.parametrize("out_of_band", [0.0, 0.4, 1.7])
def test_the_time_of_a_whole_entry_tells_its_whole_revolutions(out_of_band: float) -> None:
    skew, one = 0.1, 0.45
    numbers = np.arange(80)
    ends = {
        quanta: (length := numbers * (out_of_band + quanta * one)) * TURN_NS
        + np.floor(0.3 + length) * skew * TURN_NS
        for quanta in (1, 2, 4)
    }
    found = advances(ends, TURN_NS, (0.4, 0.6))[0]
    whole = out_of_band + one
    took = whole + np.floor(whole) * skew
    lengths = entries_of(fits(found, one, (took - 0.04, took + 0.04), (0.08, 0.12), 0.0, of_entry=True))
    assert lengths
    for low, high in lengths:
        assert low - 0.15 <= whole / one <= high + 0.15


@pytest.mark.parametrize("seed", [97115, 97134])
def test_what_lone_writes_put_on_the_medium_is_found_without_an_erase(seed: int, tmp_path: Path) -> None:
    truth = true_findings(_native.random_profile(seed, None), "drive.toml")
    true_bytes = truth["cache_raw_bytes"]["value"]
    assert sized(seed, tmp_path)["cache_raw_bytes"] == pytest.approx(true_bytes, rel=0.1)


def test_zones_are_filled_before_the_head_waits_for_an_angle(tmp_path: Path) -> None:
    """A host-aware drive that begins a write anywhere on its track: what led the head away before each write
    was taken for 2.3 MiB of out-of-band data. Its entries hold more than eight quanta, and sixteen are more
    than a command has."""
    found = sized(120050, tmp_path, "host-aware")
    assert found["cache_raw_bytes"] == pytest.approx(1_432_469_504, rel=0.1)
    assert found["cache_fill_bytes"] == pytest.approx(1_432_469_504, rel=0.03)
    assert found["journal_entry_max_bytes"] == pytest.approx(20_893_696, rel=0.1)


def test_what_fills_a_cache_is_shorter_than_a_zone(tmp_path: Path) -> None:
    """Entries of 25.9 MiB over zones of 16 MiB. Whether the largest entry is found, on which this rests, is
    chance on this drive: with four of the seeds from 1 to 16 it is."""
    found = sized(120025, tmp_path, "host-aware", draw=4)
    assert found["cache_bytes"] == pytest.approx(50_405_048_320, rel=0.1)
    assert found["cache_fill_bytes"] == pytest.approx(50_350_260_224, rel=0.03)


def test_a_quantum_that_takes_longer_in_a_queue_than_alone_leaves_open_what_lies_before_it() -> None:
    """101214 drawn, at four commands over a slow link: 5.9 ms for 388 KiB of flash that take 3.4 ms alone.
    By the first 1.8 ms were 72 KiB before it, of 168 KiB there are."""
    known = Known([Finding("journal_entry_max_bytes", 1_220_608, "B", None, 1.0, "made")])
    alone = Journal(397_312, 3.4e6, 7e6, (), 416, None)
    time_ns = 977_034.0, 1_797_347.0
    both = verdict.bytes_on_flash(replace(alone, rate=Rate(5.9e6, 1e6)), known, time_ns)
    one, other = (
        verdict.bytes_on_flash(replace(alone, quantum_ns=ns), known, time_ns) for ns in (5.9e6, 3.4e6)
    )
    assert one is not None and other is not None and both == (one[0], other[1])
    assert both[0] < 397_312 + (168 << 10) < both[1]


@pytest.mark.parametrize(("quantum_ns", "known"), [(487e3, True), (526e6, False)])
def test_a_quantum_takes_no_longer_than_a_lone_write(quantum_ns: float, known: bool) -> None:
    """102674 and 102707 drawn: the lone writes filled a cache of 150 places, and bands were cleaned for half
    of them. By what a quantum seemed to take there were 18 KiB before it, of 2.5 MiB."""
    entry = Known([Finding("journal_entry_max_bytes", 12_644_352, "B", None, 1.0, "made")])
    journal = Journal(1_392_640, quantum_ns, 47.9e6, (), 123, None, quantum_error_ns=quantum_ns / 3)
    assert (verdict.bytes_on_flash(journal, entry, (718e3, 1_247e3)) is not None) is known


def test_a_quantum_that_lone_writes_hardly_show_takes_what_it_takes_in_a_queue() -> None:
    """816148 ideal: behind 13.9 ms of out-of-band data the second quantum of a few lone writes seemed to take
    676 us, give or take 80; in a queue it takes 961, as it does (945). By both there were 1.6 or 2.4 MiB."""
    known = Known([Finding("journal_entry_max_bytes", 1_196_032, "B", None, 1.0, "made")])
    queued = Journal(122_880, 675_638.0, 15.2e6, (), 112_141, None, Rate(961_231.0, 14.1e6))
    time_ns = 13_438_070.0, 13_949_829.0
    open_, found = (
        verdict.bytes_on_flash(replace(queued, quantum_error_ns=error), known, time_ns)
        for error in (0.0, 80e3)
    )
    assert open_ is not None and found is not None
    assert open_[1] > 1.4 * open_[0] and found[1] < 1.08 * found[0]
    within = verdict.LEAST_APART  # as what is found says of itself
    assert found[0] * (1 - within) < 122_880 + (1_744 << 10) < found[1] * (1 + within)
