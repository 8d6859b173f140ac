"""`bench/blind`: the command as the project's own description writes it, and what it counts."""

from __future__ import annotations

import json
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from seed_arguments import seeds_of
from skylight import _native
from skylight.findings import UNKNOWN, Finding
from skylight.probe.scoring import holds

BLIND = Path(__file__).parent.parent / "bench/blind"


def blind(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BLIND, *arguments], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", [7]), ("7,9", [7, 9]), ("1000-1002,5", [1000, 1001, 1002, 5])]
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "7,", "9-3", "1-2-3", "-4"])
def test_what_is_no_seed_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no seed; write them as"):
        seeds_of(text)


def test_random_drives_are_counted_by_property_and_by_word() -> None:
    done = blind("--seed", "1000", "--n", "3", "--quick", "--jobs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "drive_type, true: found",
        "3 drives",
        "type right 100.00%",
        "device s: median",
        "(at most 60)",
    ):
        assert words in done.stdout


def test_json_holds_the_same(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(_native.random_profile(1000, None))
    (tmp_path / "two.toml").write_text(_native.random_profile(1001, "ssd"))
    done = blind("--profiles", str(tmp_path), "--only", "drive_type", "--jobs", "1", "--json")
    found = json.loads(done.stdout)
    assert [Path(drive["drive"]).name for drive in found["drives"]] == ["one.toml", "two.toml"]
    assert found["properties"]["drive_type"] == {"right": 2, "wrong": 0, "unknown": 0}
    assert found["confusion"]["drive_type"]["not-rotating"] == {"not-rotating": 1}
    assert done.returncode == 0


def test_a_profile_that_is_none_is_one_line_and_a_miss(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("speed = 'fast'\n")
    done = blind("--profiles", str(tmp_path), "--quick", "--jobs", "1")
    told = [line for line in done.stdout.splitlines() if "bad.toml" in line]
    assert done.returncode == 1 and len(told) == 1 and "failed" in told[0]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [(), ("--profiles", "/nowhere")])
def test_without_drives_it_is_wrong_use(arguments: tuple[str, ...]) -> None:
    done = blind(*arguments)
    assert done.returncode == 2 and "error:" in done.stderr.splitlines()[-1]


def test_intervals_are_held_against_the_truth() -> None:
    truth = {
        "rotation_ns": {"value": 100, "interval": [99, 101], "measurable": True},
        "cache_bytes": {"value": 7, "interval": [6, 8], "measurable": False},
        "mapping": {"value": "static", "interval": None, "measurable": True},
    }

    def given(name: str, value: int | str, interval: tuple[float, float] | None) -> Finding:
        return Finding(name, value, None, interval, 0.9, "given")

    assert holds([given("rotation_ns", 90, (80, 100))], truth) == {"rotation_ns": True}
    assert holds([given("rotation_ns", 90, (80, 99))], truth) == {"rotation_ns": False}
    assert holds([given("rotation_ns", UNKNOWN, (80, 100))], truth) == {}, "no answer, no interval"
    assert holds([given("rotation_ns", 90, None)], truth) == {}
    assert holds([given("cache_bytes", 7, (0, 1))], truth) == {}, "out of reach"
    assert holds([given("band_bytes", 7, (0, 1)), given("mapping", "static", (0, 1))], truth) == {}


def test_under_conditions_what_is_measurable_counts_by_condition(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.write_text('[conditions]\nvolatile_cache = "ignores-flush"\nqueue_depth = 1\n')
    (tmp_path / "one.toml").write_text(_native.random_profile(1004, "journaled"))
    wanted = ("--profiles", str(tmp_path), "--only", "drive_type", "--jobs", "1", "--json", "--conditions")
    found = json.loads(blind(*wanted, str(hidden)).stdout)
    (drive,) = found["drives"]
    assert drive["conditions"]["volatile_cache"] == "ignores-flush"
    assert "journal_quantum_bytes" in drive["out_of_reach"]
    levels = {factor: set(levels) for factor, levels in found["measurable"]["factors"].items()}
    assert levels["queue depth"] == {"1"} and levels["drive"] == {"journaled"}
    assert sum(found["measurable"]["factors"]["busy"]["no"].values()) == len(drive["marks"])
    ideal = json.loads(blind(*wanted, "ideal").stdout)["drives"][0]
    assert "journal_quantum_bytes" not in ideal["out_of_reach"]


def test_a_quick_probe_is_scored_under_conditions_too(tmp_path: Path) -> None:
    """What a drive was used for before takes 10 minutes of it, which are no part of the minute."""
    used = tmp_path / "used.toml"
    used.write_text('[conditions]\nprior_use = "full"\n')
    wanted = ("--seed", "502", "--quick", "--jobs", "1", "--conditions")
    done = blind(*wanted, str(used))
    assert (done.returncode, done.stderr) == (0, "")
    assert "prior use: full" in done.stdout and "type right 100.00% (no share asked), wrong 0" in done.stdout
    drive = json.loads(blind(*wanted, str(used), "--json").stdout)["drives"][0]
    planned = drive["plan"]["drive_type"]
    assert drive["conditions"]["prior_use"] == "full"
    assert 0 < planned["device_seconds"] <= drive["device_seconds"] <= planned["most_seconds"]
    assert "(asked 99.0%), wrong 0" in blind(*wanted, "ideal").stdout
