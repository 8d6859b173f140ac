"""Sizes and durations print as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skylight.units import (
    format_capacity,
    format_counted,
    format_duration,
    format_percent,
    format_seconds,
    format_size,
)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (40 << 20, "40 MiB"),
        (39_943_195_852, "37.2 GiB"),
        ((1 << 30) - 1, "1 GiB"),
        (1 << 50, "1 PiB"),
        (5000 << 50, "5000 PiB"),
    ],
)
def test_sizes_are_written_short(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def test_capacities_are_written_as_on_the_label() -> None:
    assert format_capacity(3_900_000_000_000) == "3.9 TB"
    assert format_capacity(8_001_563_222_016) == "8 TB"
    assert format_capacity(999_999_999_999) == "1 TB"


@given(st.integers(1, 999), st.sampled_from(range(6)))
def test_a_whole_number_of_units_is_written_so(number: int, power: int) -> None:
    assert format_size(number << 10 * power) == f"{number} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (999.7, "1.00 µs"),
        (91_000, "91.0 µs"),
        (10_170_000, "10.2 ms"),
        (325_000_000, "325 ms"),
        (1_300_000_000, "1.30 s"),
        (59_990_000_000, "1 min"),
        (200_000_000_000, "3 min 20 s"),
    ],
)
def test_durations_have_three_digits(duration_ns: float, text: str) -> None:
    assert format_duration(duration_ns) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "under a second"),
        (12.2, "12 s"),
        (60, "1 min"),
        (3599.6, "1 h"),
        (18_600, "5 h 10 min"),
        (16_890_653, "4,692 h"),
    ],
)
def test_device_time_is_said_in_words(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_rounding_never_makes_a_doubt_vanish(share: float) -> None:
    assert format_percent(share) not in ("100 %", "100.0 %", "0 %")


def test_certainty_is_said_only_of_certainty() -> None:
    assert format_percent(1.0) == "100 %"
    assert format_percent(0.0) == "0 %"
    assert format_percent(0.9999) == "99.9 %"
    assert format_percent(0.87) == "87 %"


def test_one_of_a_thing_is_singular() -> None:
    said = [format_counted(count, "read") for count in (0, 1, 22_800)]
    assert said == ["0 reads", "1 read", "22,800 reads"]
