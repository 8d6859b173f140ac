"""`skylight reproduce hasmr`: rows and bands, readers of recordings, and what a missing prerequisite does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight.evidence import I64
from skylight.reproduce.hasmr import bursts, cleaning, real_drive_recordings, sustained, table, tolerances
from skylight.reproduce.hasmr.drive import KIB, Bench, ZonedDrive
from skylight.reproduce.hasmr.real_drive_recordings import Writes
from skylight.reproduce.rows import NotMeasured, judge

MS = 1_000_000
recorded = pytest.mark.usefixtures("recordings_there")


def test_every_row_has_bands_and_every_band_a_row() -> None:
    ids = [spec.id for spec in table.ROWS]
    assert len(ids) == len(set(ids))
    assert set(ids) == {band.row for band in tolerances.BANDS}
    names = [(band.row, band.name) for band in tolerances.BANDS]
    assert len(names) == len(set(names))


def test_without_recordings_a_row_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLIGHT_DATA", str(tmp_path / "nowhere"))
    real_drive_recordings.bursts.cache_clear()
    row = next(spec for spec in table.ROWS if spec.id == "R2")
    judged = judge(row, row.measure(Bench(tmp_path)), tolerances.BANDS)
    assert not judged.passed and not judged.missed
    assert "SKYLIGHT_DATA" in judged.measured.notes[0]


@recorded
def test_the_recorded_bursts_are_as_their_readme_has_them() -> None:
    runs = real_drive_recordings.bursts("seq_contiguous", 4)
    assert list(runs) == [20, 60, 100, 120, 140, 180]
    assert bursts.median_mbps(runs[120].latency_ns, 4) == pytest.approx(27.1, abs=0.1)
    assert bursts.mbps_by_time(runs[140].latency_ns, 4) == pytest.approx(0.69, abs=0.01)
    first = runs[20]
    assert first.zone is not None and first.offset_bytes is not None and first.size_bytes is not None
    assert (first.zone[0], first.offset_bytes[20], first.size_bytes[0]) == (14_894, 4_096, 4_096)


@recorded
def test_a_shortened_write_keeps_its_size() -> None:
    run = real_drive_recordings.sustained("zones128_512k_flush")
    assert run.size_bytes is not None
    assert len(run) == 65_535
    assert 0 < np.count_nonzero(run.size_bytes < 512 << 10) < 200


@recorded
def test_a_recording_agrees_with_itself() -> None:
    run = real_drive_recordings.bursts("seq_contiguous", 512)[140]
    for statistic in ("median", "bytes over time"):
        same = bursts.compared(run.latency_ns, run, 140, 512, statistic)
        assert same.ratio == 1.0
        assert -1 <= same.place <= 1
    assert not -1 <= bursts.compared(run.latency_ns * 2, run, 140, 512, "bytes over time").place <= 1


@recorded
@pytest.mark.parametrize("name", ["H1a", "H1b"])
def test_a_row_runs_on_the_shipped_profile(name: str, tmp_path: Path) -> None:
    """What the probe finds changes H1a, the profile both."""
    row = next(spec for spec in table.ROWS if spec.id == name)
    assert judge(row, row.measure(Bench(tmp_path)), tolerances.BANDS).passed


@recorded
@pytest.mark.long
def test_every_row_is_reproduced(tmp_path: Path) -> None:
    rows, _ = table.run(table.ROWS, tmp_path, lambda spec, done, count: None)
    assert [row.spec.id for row in rows if not row.passed] == []
    assert [figure.name for row in rows for figure in row.measured.draw()]


def test_place_in_an_interval() -> None:
    assert bursts.Compared(3.0, 2.0, 1.0, 3.0).place == 1.0
    assert bursts.Compared(2.0, 2.0, 1.0, 3.0).place == 0.0
    assert bursts.Compared(0.0, 2.0, 1.0, 3.0).place == -2.0


def test_throughput_spreads_a_long_write_over_its_bins() -> None:
    latency: I64 = np.array([5_000 * MS, 25_000 * MS, 10_000 * MS], np.int64)
    at_s, rate = sustained.throughput(latency, 10**7)
    assert at_s.tolist() == [10.0, 20.0, 30.0]
    assert rate == pytest.approx([1.2, 0.4, 0.4])


def test_the_time_of_a_zone_leaves_out_the_idle_time() -> None:
    seen = [(0.0, 4), (300.0, 4), (301.0, 3), (303.0, 2), (305.0, 1), (307.0, 0)]
    assert cleaning.zone_s(seen) == pytest.approx(2.0)
    with pytest.raises(NotMeasured, match="2 zones are not clean"):
        cleaning.zone_s(seen[:4])
    with pytest.raises(NotMeasured, match="at once"):
        cleaning.zone_s([(0.0, 4), (1.0, 0)])


def test_blocking_needs_a_spell() -> None:
    assert sustained.blocking(np.full(5_000, 15 * MS, np.int64)) is None


def test_the_non_sequential_zones_are_counted_all_through_a_slow_spell() -> None:
    drive = ZonedDrive()
    draw = np.random.Generator(np.random.PCG64(1))
    size = 256 * KIB

    def plan(count: int) -> tuple[I64, I64]:
        return drive.first_zones(128)[draw.integers(0, 128, count)], draw.integers(1, 1024, count) * size

    course = drive.course(plan, size, 40 * 60.0, 1_000_000)
    at_s = np.array([seconds for seconds, _ in course.watched])
    zones = np.array([seen for _, seen in course.watched])
    assert np.diff(at_s, prepend=0.0).max() < 65
    assert at_s[-1] == pytest.approx(40 * 60, abs=65)
    found = sustained.blocking(course.latency_ns)
    assert found is not None
    first_s = course.latency_ns[: found.spell.first].sum() / 1e9
    spell = zones[(at_s > first_s) & (at_s < first_s + found.spell.took_ns / 1e9)]
    assert len(spell) > 20, "the spell is half an hour"
    assert spell.min() < 120 < 128 == zones.max(), "zones are cleaned faster than writes come to them"


def test_a_replay_needs_places() -> None:
    assert Writes(np.zeros(3, np.int64)).zone is None


def test_the_buffer_makes_a_job_of_many_streams_shorter(tmp_path: Path) -> None:
    row = next(spec for spec in table.ROWS if spec.id == "H4")
    judged = judge(row, row.measure(Bench(tmp_path)), tolerances.BANDS)
    assert judged.passed, judged.measured.notes
    assert [figure.name for figure in judged.measured.draw()] == ["h-buffer"]


def test_a_buffer_is_found_again_after_cuts(tmp_path: Path) -> None:
    row = next(spec for spec in table.ROWS if spec.id == "H5")
    judged = judge(row, row.measure(Bench(tmp_path)), tolerances.BANDS)
    assert judged.passed, judged.measured.notes
