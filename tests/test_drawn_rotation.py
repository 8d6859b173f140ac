"""Test 2 on random drives behind test 1, under the conditions that their seeds draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_test import suite_on_drawn
from skylight.findings import UNKNOWN
from skylight.probe.suite import accounts, infer_suite


def test_rotation_shows_behind_a_cache_that_still_makes_the_drive_clean(tmp_path: Path) -> None:
    """Behind the writes of test 1 this drive cleans for 21 minutes more; reads then follow no rotation."""
    result = suite_on_drawn(101407, tmp_path / "r", only=("rotation",))
    found = {finding.name: finding for finding in result.findings}
    turn_ns, seeks_ns = found["rotation_ns"].value, found["seek_ns"].value
    assert isinstance(turn_ns, int) and turn_ns == pytest.approx(60e9 / 8_080, rel=0.001)
    assert isinstance(seeks_ns, dict) and float(seeks_ns["track"]) == pytest.approx(1_300_000, rel=0.1)
    told = accounts(result)
    assert {"drive_type", "rotation", "rotation, waiting"} <= {account.test for account in told}
    assert all(account.within for account in told if account.test != "drive_type")
    assert sum(account.device_seconds for account in told if "waiting" in account.test) > 600
    assert infer_suite(tmp_path / "r").findings == result.findings


def test_seeks_are_measured_behind_a_start_that_was_moved(tmp_path: Path) -> None:
    """What others wrote at the first addresses of this drive lies in another zone; so may other places."""
    result = suite_on_drawn(100225, tmp_path / "r", only=("rotation",))
    found = {finding.name: finding for finding in result.findings}
    assert found["track_bytes"].value == UNKNOWN and "start was moved" in found["track_bytes"].why
    seeks_ns = found["seek_ns"].value
    assert isinstance(seeks_ns, dict)
    true_ns = {"track": 1_040_000, "third": 6_895_877, "full": 15_624_257}
    assert {name: float(ns) for name, ns in seeks_ns.items()} == pytest.approx(true_ns, rel=0.1)


def test_sizes_are_those_behind_a_start_that_lies_in_pieces(tmp_path: Path) -> None:
    """Of this drive a fifth of a track or less goes on at the start: what test 1 wrote there is cached."""
    result = suite_on_drawn(100262, tmp_path / "r", only=("rotation",))
    found = {finding.name: finding.value for finding in result.findings}
    sizes, seeks_ns = found["track_bytes"], found["seek_ns"]
    assert isinstance(sizes, dict) and isinstance(seeks_ns, dict)
    true_bytes = {"od": 315_392, "md": 248_320, "id": 134_656}
    assert {name: float(size) for name, size in sizes.items()} == pytest.approx(true_bytes, rel=0.02)
    true_ns = {"track": 1_120_000, "third": 9_266_662, "full": 18_981_549}
    assert {name: float(ns) for name, ns in seeks_ns.items()} == pytest.approx(true_ns, rel=0.1)


@pytest.mark.parametrize(
    ("seed", "true_ns"),
    [
        (104371, (1_530_000, 11_000_051, 24_476_002)),  # tracks are larger behind the start
        (100626, (1_389_999, 4_334_228, 9_042_343)),  # the last addresses lie in a cache
    ],
)
def test_the_arm_goes_from_end_to_end_between_other_places(
    seed: int, true_ns: tuple[int, int, int], tmp_path: Path
) -> None:
    result = suite_on_drawn(seed, tmp_path / "r", only=("rotation",))
    seeks_ns = {finding.name: finding.value for finding in result.findings}["seek_ns"]
    assert isinstance(seeks_ns, dict)
    assert [float(seeks_ns[name]) for name in ("track", "third", "full")] == pytest.approx(true_ns, rel=0.1)


def test_no_stroke_is_seen_between_places_that_were_moved_themselves(tmp_path: Path) -> None:
    """Of this drive the farthest places reach nine tenths of the stroke: blocks lie all over their zone."""
    result = suite_on_drawn(100613, tmp_path / "r", only=("rotation",))
    found = {finding.name: finding for finding in result.findings}
    assert found["seek_ns"].value == UNKNOWN and "how far the arm goes" in found["seek_ns"].why


def test_a_clock_that_ticks_with_the_platters_makes_no_second_disk(tmp_path: Path) -> None:
    """A revolution is 7.0012 ticks of this host's clock: neighbours to both sides of a tick, a seventh of a
    revolution apart, lay together in the addresses and were taken for blocks of another disk."""
    result = suite_on_drawn(101175, tmp_path / "r", only=("rotation",))
    found = {finding.name: finding.value for finding in result.findings}
    turn_ns = found["rotation_ns"]
    assert isinstance(turn_ns, int) and turn_ns == pytest.approx(60e9 / 8_570, rel=0.001)


@pytest.mark.parametrize(
    ("seed", "name", "truth"),
    [
        (102531, "track_bytes", {"od": 905_216, "md": 729_600, "id": 503_808}),  # the middle alone is cached
        (102005, "seek_ns", {"track": 1_499_999, "third": 6_860_439, "full": 14_456_616}),  # no rise
        (104044, "track_bytes", {"od": 520_192, "md": 401_408, "id": 208_896}),  # five ticks a revolution
        (104166, "track_bytes", {"od": 991_232, "md": 819_200, "id": 610_304}),  # pieces as long as a stripe
        (
            103850,
            "seek_ns",
            {"track": 1_610_000, "third": 4_991_384, "full": 9_606_602},
        ),  # the middle is cached
        (103933, "seek_ns", {"track": 736_000, "third": 4_776_392, "full": 9_913_548}),  # a mean of two ways
        (103810, "seek_ns", {"track": 979_999, "third": 12_494_297, "full": 23_198_066}),  # in turns, wider
        (104328, "seek_ns", {"track": 551_999, "third": 10_680_516, "full": 20_090_801}),  # asked further on
    ],
)
def test_what_is_close_is_held_against_another_place(
    seed: int, name: str, truth: dict[str, int], tmp_path: Path
) -> None:
    result = suite_on_drawn(seed, tmp_path / "r", only=("rotation",))
    value = {finding.name: finding.value for finding in result.findings}[name]
    assert isinstance(value, dict)
    right = 0.02 if name == "track_bytes" else 0.1
    assert {part: float(each) for part, each in value.items()} == pytest.approx(truth, rel=right)
    assert all(account.within for account in accounts(result))
    assert infer_suite(tmp_path / "r").findings == result.findings
