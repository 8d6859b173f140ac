"""What a report says to expect of a drive: its own numbers, and nothing where nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.report.what_to_expect import limits


def known(**values: Value) -> Known:
    """Findings of these names and values, all sure."""
    return Known(Finding(name, value, None, None, 1.0, "as given") for name, value in values.items())


SMR: dict[str, Value] = {
    "drive_type": "smr",
    "cache_fill_bytes": 20_185_251_840,
    "cache_raw_bytes": 109_149_880_320,
    "cache_map_entries": 200_123,
    "cleaning_type": "aggressive",
    "cleaning_start_ns": 1_242_000_000,
    "cleaning_band_ns": {"one_block": 600_000_000, "half": 1_500_000_000},
    "map_merge_every": 240,
    "map_merge_ns": 300_000_000,
    "random_write_rate": {"one_at_a_time": 38.8, "31_waiting": 1242.6, "write_cache_on": 40.0},
    "sequential_write_rate": {"write_cache_off": 10_000_000.0, "write_cache_on": 91_000_000.0},
}


def test_every_limit_is_said_with_the_numbers_of_this_drive() -> None:
    said = dict(limits(known(**SMR)))
    assert "18.8 GiB" in said["Before the cliff"] and "200,000 separate places" in said["Before the cliff"]
    assert "they make it write 102 GiB" in said["Before the cliff"]
    assert "1.24 s without a request" in said["To recover"] and "at most 6,000 bands" in said["To recover"]
    assert "Every 240th write waits 300 ms" in said["Stalls"] and "1.5" in said["Stalls"]
    settings = said["Queue and write cache"]
    assert "32 times as fast" in settings and "are hardly faster (40 a second)" in settings
    assert "needs the cache: 91 instead of 10 MB/s" in settings


def test_what_is_not_sure_says_so() -> None:
    """As in the terminal: a rate of 58 % must not read as one of 99 %, and one of 38 % not at all."""
    doubted = Finding("fill_drive_ns", 16_890_653_332_349_260, "ns", None, 0.58, "as given")
    said = dict(limits(Known([*known(**SMR), doubted])))
    assert "takes 4,692 h with its cache full" in said["To fill or rebuild"]
    assert [title for title, words in said.items() if words.endswith(" Only 58 % sure.")] == [
        "To fill or rebuild"
    ]
    wrong = Finding("fill_drive_ns", 16_890_653_332_349_260, "ns", None, 0.38, "as given")
    assert "To fill or rebuild" not in dict(limits(Known([*known(**SMR), wrong])))


FULL: Value = {"random_per_s": 3.2, "sequential_bytes_per_s": 30_000_000.0}
WAITS: Value = {"p50": 1_000_000, "p99": 9_000_000, "longest": 4_000_000_000}


@pytest.mark.parametrize(
    ("name", "title", "more"),
    [
        ("random_write_rate", "Past the cliff", {"full_cache_rates": FULL}),
        ("full_cache_rates", "To fill or rebuild", {"fill_drive_ns": 10**14, "full_cache_rates": FULL}),
        ("cleaning_band_ns", "Stalls", {}),
        ("stall_ns", "Stalls", {"stall_ns": WAITS}),
    ],
)
def test_a_sentence_is_as_sure_as_the_least_sure_finding_that_it_shows(
    name: str, title: str, more: dict[str, Value]
) -> None:
    all_sure = known(**SMR, **more)
    less = [replace(each, confidence=0.6) if each.name == name else each for each in all_sure]
    assert "% sure" not in dict(limits(all_sure))[title]
    assert dict(limits(Known(less)))[title].endswith(" Only 60 % sure.")


def test_what_a_sentence_does_not_show_makes_it_no_less_sure() -> None:
    lines = known(**SMR, stall_ns=WAITS, fill_drive_ns=10**14)
    band = [replace(each, confidence=0.6) if each.name == "cleaning_band_ns" else each for each in lines]
    assert "sure" not in dict(limits(Known(band)))["Stalls"], "how long writes waited was measured"
    pace = [replace(each, confidence=0.6) if each.name == "random_write_rate" else each for each in lines]
    assert "sure" not in dict(limits(Known(pace)))["To fill or rebuild"]


def test_nothing_is_said_of_what_was_not_found() -> None:
    assert limits(known(drive_type="cmr", cache_fill_bytes=1)) == ()
    assert limits(known(drive_type="smr")) == ()
    assert limits(known(drive_type="smr", cleaning_type=UNKNOWN, cache_fill_bytes=UNKNOWN)) == ()


def test_a_lazy_drive_is_said_not_to_recover() -> None:
    said = dict(limits(known(drive_type="smr", cleaning_type="lazy")))
    assert "does not clean when left alone" in said["To recover"] and len(said) == 1
