"""The arm of the profiles against what it was calibrated to: docs/calibration.md states these numbers.

Bands are those of docs/figures.md (rows S1a, S1b, S1d, R1) or the uncertainty that the page gives. The
derivation is the page's script, so what the page says is what is tested.
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


sys.path.insert(0, str(ROOT / "docs/calibration"))
arm = importlib.import_module("calibrate_arm")
PROFILES = tuple(arm.LAW_FROM_TRACKS)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_hold_the_derived_points(name: str) -> None:
    text, _ = arm.profile(name)
    assert arm.points_text(arm.profile_points(name)) in text, (
        "run docs/calibration/calibrate_arm.py --profiles"
    )


def test_every_calibrated_profile_is_derived() -> None:
    told = {
        path.stem for path in arm.PROFILES.glob("*.toml") if "docs/calibration.md" in path.read_text("utf-8")
    }
    assert told <= set(PROFILES)


def test_the_law_is_what_the_fit_gives(data_dir: Path) -> None:
    fit = arm.fitted_arm(data_dir).law
    assert pytest.approx(fit.constant, abs=0.006) == arm.CONSTANT_MS
    assert pytest.approx(float(fit.at(1.0)), abs=0.006) == arm.FULL_STROKE_MS


@pytest.mark.parametrize("name", ["low", "high"])
def test_the_fit_holds_for_the_windows_it_did_not_see(data_dir: Path, name: str) -> None:
    held = arm.window_seeks(data_dir, name, arm.HELD_BACK)
    ours = arm.fitted_arm(data_dir).seeks(name, len(held))
    noise = held.std() / np.sqrt(len(held))  # of the mean of the windows, were they all one floor
    assert ours.mean() == pytest.approx(held.mean(), abs=2 * noise)
    assert np.sqrt(np.mean((ours - held) ** 2)) < 0.1


@pytest.mark.parametrize("name", PROFILES)
def test_a_step_fits_in_its_skew(name: str) -> None:
    _, tables = arm.profile(name)
    mechanics, geometry = tables["mechanics"], tables["geometry"]
    settle = arm.milliseconds(mechanics["write_settle"])
    step = arm.milliseconds(mechanics["seek"]["points"][0][1])
    assert step + settle <= arm.milliseconds(geometry["track_skew"])
    assert arm.milliseconds(mechanics["head_switch"]) + settle <= arm.milliseconds(geometry["head_skew"])


def test_platters_hold_the_drive_with_little_left() -> None:
    held = arm.profile_platters("st4000nc001").capacity
    assert 1.0 <= held / 4_000_787_030_016 < 1.005


@pytest.mark.parametrize("write", [False, True])
def test_sequential_loses_no_turn_at_track_edges(write: bool) -> None:
    got, bound = arm.sequential_mb_s("st4000nc001", write=write)
    assert 0.99 < got / bound <= 1.0
    assert 175 <= got <= 180


def test_full_stroke_is_about_16_ms() -> None:
    assert 15.4 <= arm.full_stroke_ms("st4000nc001") <= 16.4
    assert 15.4 <= arm.full_stroke_ms("st4000nc001", write=True) <= 16.4


def test_s1a_writes_to_one_cache_band_miss_a_turn() -> None:
    median, spread = arm.quartiles(arm.random_writes_ms("emulated-smr-1", 16 << 20))
    assert 9.7 <= median <= 10.6
    assert spread < 0.05


def test_s1b_writes_to_flash_take_less_than_a_millisecond() -> None:
    median, _ = arm.quartiles(arm.random_writes_ms("emulated-smr-2", 1 << 30))
    assert median < 1


def test_s1d_writes_to_a_conventional_drive_vary() -> None:
    _, spread = arm.quartiles(arm.random_writes_ms("st4000nc001", 1 << 30))
    assert spread > 0.25


@pytest.mark.parametrize(("name", "kib", "skew_us"), [("low", 2008, 445), ("high", 928, 473)])
def test_r1_geometry_from_the_log_alone(data_dir: Path, name: str, kib: int, skew_us: float) -> None:
    track = arm.track_of(arm.latencies_us(data_dir, name), name)
    assert track.turn_us == pytest.approx(10_038, rel=1e-3)
    assert track.blocks * 8 == kib
    assert track.skew_us == pytest.approx(skew_us, rel=0.01)


@pytest.mark.parametrize(("name", "floor_ms"), [("low", 2.6), ("high", 15.5)])
def test_floors_of_the_log(data_dir: Path, name: str, floor_ms: float) -> None:
    _, floor = arm.measured_floor(data_dir, name)
    assert floor.mean == pytest.approx(floor_ms, abs=0.1)
    assert floor.error < 0.05


@pytest.mark.parametrize(("name", "floor_ms"), [("low", 2.6), ("high", 15.5)])
def test_scaled_to_the_8_tb_drive_the_reads_agree(data_dir: Path, name: str, floor_ms: float) -> None:
    real = arm.latencies_us(data_dir, name)[arm.SETTLED[name] :]
    ours = arm.replay(name, arm.fitted_arm(data_dir).span)
    wanted = np.quantile(real, arm.R1_QUANTILES)
    assert np.quantile(ours, arm.R1_QUANTILES) == pytest.approx(wanted, rel=0.05)
    assert ours.mean() == pytest.approx(real.mean(), rel=0.02)
    floor = arm.floor_of(ours, name, 10_038.4).mean
    assert floor == pytest.approx(floor_ms, abs=0.1)
    assert floor == pytest.approx(arm.measured_floor(data_dir, name)[1].mean, abs=0.1)


@pytest.mark.parametrize("drive", ["atlas10k", "cheetah9LP", "cheetah4LP", "barracuda"])
def test_the_form_of_the_law_fits_measured_drives(data_dir: Path, drive: str) -> None:
    old = arm.old_drive(data_dir, drive)
    assert old.rms / old.full < 0.035
    assert old.one_cylinder < 0.7 * old.law.constant


def test_overhead_is_no_more_than_a_write_that_moves_no_head(data_dir: Path) -> None:
    overhead = arm.milliseconds(arm.profile("st4000nc001")[1]["interface"]["command_overhead"])
    times = arm.write_times_us(data_dir).values()
    assert min(times) / 1000 - 0.01 <= overhead <= max(times) / 1000


def test_the_page_states_what_the_script_finds(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arm.print_recordings(data_dir)
    arm.print_arm(data_dir)
    arm.print_simulator(data_dir)
    page = (ROOT / "docs/calibration.md").read_text(encoding="utf-8")
    missing = [line for line in capsys.readouterr().out.splitlines() if line not in page]
    assert not missing, (
        "run docs/calibration/calibrate_arm.py and put into docs/calibration.md:\n" + "\n".join(missing)
    )
