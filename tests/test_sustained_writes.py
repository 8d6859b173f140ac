"""Past the cliff: what writes that do not stop show, on pieces made for it, on an emulated drive against its
own long run, in logs of a real drive, and in the report."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from fio_logs import write_log
from skylight.engines.fio_log import read_logs
from skylight.engines.sim import SimEngine
from skylight.evidence import Evidence, IoBatch, IoLog, Step
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.probe.suite import SuiteOptions, infer_suite, run_suite
from skylight.probe.write_rates.fio_write_logs import LoggedWrites
from skylight.probe.write_rates.sustained_verdict import judge
from skylight.probe.write_rates.sustained_writes import Cliff, Region
from skylight.report.what_to_expect import lasting, limits
from skylight.report.words import verdict

MS = 1_000_000
SMR = Known([Finding("drive_type", "smr", None, None, 1.0, "made")])
REAL = "st8000as0022-sustained-nonseq"


def piece(latency_ns: list[int] | np.ndarray) -> IoLog:
    """Writes one after the other."""
    latency = np.asarray(latency_ns, np.uint64)
    done = np.cumsum(latency, dtype=np.uint64)
    return IoLog.of(IoBatch.writes(np.zeros(len(latency)), 4096), done - latency, done)


FAST, SLOW = piece([10 * MS] * 1_000), piece([300 * MS] * 100)
STALLED = piece([10 * MS] * 500 + [30_000 * MS])


def found(*pieces: IoLog) -> dict[str, Finding]:
    """The findings of pieces one after the other, on a drive of 1 TB."""
    later, now_ns = [], 0
    for log in pieces:
        shift = np.uint64(now_ns)
        later.append(IoLog.of(log.batch, log.submit_ns + shift, log.complete_ns + shift))
        now_ns += log.span_ns
    return {each.name: each for each in judge(Cliff(Region(1 << 40, 1 << 40, 1), later), SMR, 1 << 40)}


def rate(findings: dict[str, Finding]) -> float:
    value = Known(findings.values()).part("full_cache_rates", "random_per_s")
    assert value is not None
    return value


def test_what_stays_slow_counts_from_the_second_slow_piece() -> None:
    findings = found(FAST, FAST, STALLED, *[SLOW] * 6)
    assert rate(findings) == pytest.approx(1e9 / (300 * MS), rel=0.01)
    assert Known(findings.values()).part("stall_ns", "longest") == 300 * MS


def test_stalls_now_and_then_count_by_whole_periods() -> None:
    findings = found(FAST, FAST, *[STALLED, FAST, FAST] * 4)
    writes, seconds = 500 + 1 + 2_000, 5.0 + 30.0 + 20.0
    assert rate(findings) == pytest.approx(writes / seconds, rel=0.01)
    assert Known(findings.values()).part("stall_ns", "longest") == 30_000 * MS


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([FAST] * 5, "were not enough to fill"),
        ([FAST, FAST, STALLED, FAST, FAST], "not for long enough"),
        ([FAST, FAST, SLOW, SLOW], "not for long enough"),
        ([], "No random writes"),
    ],
)
def test_a_cliff_that_was_not_seen_for_long_is_unknown(pieces: list[IoLog], why: str) -> None:
    findings = found(*pieces)
    for name in ("full_cache_rates", "stall_ns", "drain_ns"):
        assert not findings[name].known and why in findings[name].why


def test_a_drive_without_a_cache_has_no_cliff() -> None:
    known = Known([Finding("drive_type", "cmr", None, None, 1.0, "made")])
    assert [each.name for each in judge(Cliff(), known, 1 << 40)] == ["fill_drive_ns"]


def test_a_region_stays_within_the_bands_of_one_cache_band() -> None:
    bands: Value = {"count": 10, "band_bytes": 1 << 20}
    region = Region.of(Known([Finding("cache_bands", bands, None, None, 1.0, "made")]), (95 << 20) + 5)
    rng = np.random.default_rng(1)
    for where in (region.random(rng, 5_000, 4096), region.in_order(5_000, 64 << 10)):
        band = where // np.uint64(1 << 20)
        assert set(band.tolist()) == {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}
        assert int(where.max()) < 95 << 20


def sustained_truth(name: str, before: int, counted: int) -> float:
    """Random writes a second of an emulated drive past so many, over a long run of its own."""
    engine = SimEngine.open(name, seed=9)
    rng = np.random.default_rng(9)

    def write(count: int) -> IoLog:
        where = rng.integers(0, engine.size // 4096, count).astype(np.uint64) * np.uint64(4096)
        return engine.run(IoBatch.writes(where, 4096))

    with engine.settings(write_cache=False, look_ahead=False):
        write(before)
        return counted * 1e9 / write(counted).span_ns


def test_an_emulated_drive_keeps_what_was_found(tmp_path: Path) -> None:
    result = run_suite(SimEngine.open("st5000as0011"), tmp_path / "r", SuiteOptions(only=("write_rates",)))
    findings = {each.name: each for each in result.findings}
    assert rate(findings) == pytest.approx(sustained_truth("st5000as0011", 25_000, 2_000), rel=0.25)
    assert infer_suite(tmp_path / "r").findings == result.findings


def of_log(path: Path) -> dict[str, Finding]:
    drive = read_logs(str(path))
    steps = [Step(log.name, "run", log.params, log.rows) for log in drive.logs]
    evidence = Evidence(LoggedWrites.name, drive.facts, steps, complete=True)
    return {each.name: each for each in LoggedWrites().infer(evidence, Known())}


def real_log(folder: Path, data: Path, rows: int | None = None) -> Path:
    """The random 512 KiB writes with FLUSH to 128 zones of a real drive, as fio would have logged them."""
    with gzip.open(data / REAL / "zones128_512k_flush.csv.gz", "rt") as file:
        table = list(csv.DictReader(file))[:rows]
    latency_us = np.array([int(row["latency_us"]) for row in table])
    sizes, places = ([int(row[key]) * 512 for row in table] for key in ("sectors", "lba_offset"))
    lines = zip(np.cumsum(latency_us) // 1000, latency_us, sizes, places, strict=True)
    text = "".join(f"{at}, {us}, 1, {size}, {place}\n" for at, us, size, place in lines)
    return write_log(folder, "c_lat.1.log", text)


def test_the_cliff_of_a_real_drive_is_where_its_writes_begin_to_wait(tmp_path: Path, data_dir: Path) -> None:
    findings = of_log(real_log(tmp_path, data_dir))
    assert (
        "after 34,877 of them the cache, or the part of it that they go to, is full"
        in findings["full_cache_rates"].why
    )  # by hand: 34,933
    longest = Known(findings.values()).part("stall_ns", "longest")
    assert longest is not None and 2.2e9 < longest < 4e9


def test_the_log_of_a_real_drive_before_its_cliff_gives_no_rate(tmp_path: Path, data_dir: Path) -> None:
    findings = of_log(real_log(tmp_path, data_dir, 30_000))
    assert not any(each.known for each in findings.values())
    assert "does not fall" in findings["full_cache_rates"].why


CLIFF: dict[str, Value] = {
    "drive_type": "smr",
    "random_write_rate": {"one_at_a_time": 38.8, "31_waiting": 1243.0},
    "full_cache_rates": {"random_per_s": 3.8, "sequential_bytes_per_s": 91_000_000},
    "stall_ns": {"p50": 260_000_000, "p99": 900_000_000, "longest": 21_000_000_000},
    "fill_drive_ns": 43_200_000_000_000,
    "cleaning_band_ns": {"one_block": 640_000_000},
}


def test_the_report_says_what_is_left_past_the_cliff() -> None:
    findings = {name: Finding(name, value, None, None, 1.0, "made") for name, value in CLIFF.items()}
    known = Known(findings.values())
    said = dict(limits(known))
    assert "3.8 a second instead of 39" in said["Past the cliff"] and "91 MB/s" in said["Past the cliff"]
    assert "21.0 s" in said["Stalls"] and "640 ms" not in said["Stalls"]
    assert "12 h" in said["To fill or rebuild"]
    assert lasting(known) == "39 a second, then 3.8 with its cache full; one waits up to 21.0 s"
    felt = verdict(findings).points[0][1]
    assert "from 39 to 3.8 a second" in felt and "21.0 s" in felt
    cmr = Known([
        Finding("drive_type", "cmr", None, None, 1.0, "made"),
        Finding("random_write_rate", {"one_at_a_time": 190.0}, None, None, 1.0, "made"),
    ])  # fmt: skip
    assert lasting(cmr) == "190 a second: it has no cache to fill"


@pytest.mark.parametrize("kind", ["cmr", UNKNOWN, None])
def test_a_raw_shingled_disk_is_not_called_good_for_raid(kind: str | None) -> None:
    findings = {} if kind is None else {"drive_type": Finding("drive_type", kind, None, None, 0.5, "made")}
    seen = verdict(findings, raw=True)
    good = dict(seen.points)
    assert "RAID" not in good["Good for"] and "RAID" in good["What to avoid"]
    # What its profile says is known, whatever was measured.
    assert (seen.drive_type, seen.confidence) == ("smr", 1.0)
