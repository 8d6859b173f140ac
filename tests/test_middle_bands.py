"""The band at the middle address, where stretches of bands of one size may meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skylight.probe.band_size.journaled import MIB, Band
from skylight.probe.band_size.verdict import at_place


def test_a_band_that_is_cut_off_is_not_taken_for_the_size() -> None:
    """The last band of a stretch is short: the band before it has the stretch's size."""
    size, middle = 200 << 30, 100 << 30
    before = Band("md", middle - 640 * MIB, middle - 600 * MIB, 5.0)
    own = Band("md", middle - 3 * MIB, middle + 8 * MIB, 5.0)
    behind = Band("md", middle + 600 * MIB, middle + 630 * MIB, 5.0)
    found = at_place("md", [before, own, behind], size)
    assert found is not None and found.size == 40 * MIB
    first_of_next = Band("md", middle, middle + 30 * MIB, 5.0)
    found = at_place("md", [before, first_of_next, behind], size)
    assert found is not None and found.size == 30 * MIB


@pytest.mark.parametrize(("margin", "known"), [(1.5, True), (2.5, False)])
def test_a_middle_band_read_a_step_off_goes_by_those_on_both_sides(margin: float, known: bool) -> None:
    """As of random drive 100603: six, seven and six, of which the middle one has a weak edge."""
    size, middle = 1 << 40, (1 << 39)
    own = Band("md", middle - 6 * MIB, middle + MIB, margin)
    before = Band("md", middle - 606 * MIB, middle - 600 * MIB, 5.8)
    behind = Band("md", middle + 595 * MIB, middle + 601 * MIB, 6.0)
    found = at_place("md", [before, own, behind], size)
    assert found is not None and (found.size == 6 * MIB) == known
    other = replace(behind, high=behind.high + 2 * MIB)
    assert at_place("md", [before, replace(own, margin=1.5), other], size) is None


def test_a_middle_band_larger_than_both_beside_it_is_none_of_these_sizes() -> None:
    """As of random drive 100846, where bands of 15 MiB end and those of 14 begin: parts of both went home."""
    size, middle = 1 << 40, (1 << 39)
    before, own, behind = (
        Band("md", middle + at * MIB, middle + (at + length) * MIB, 6.0)
        for at, length in ((-606, 15), (-9, 16), (595, 14))
    )
    assert at_place("md", [before, own, behind], size) is None
    found = at_place("md", [replace(before, high=before.high + 2 * MIB), own, behind], size)
    assert found is not None and found.size == 16 * MIB


def test_nothing_behind_the_middle_leaves_its_band_open() -> None:
    """Without a band behind, the one of the middle may be the first of the next stretch or cut off."""
    size, middle = 200 << 30, 100 << 30
    before = Band("md", middle - 640 * MIB, middle - 600 * MIB, 5.0)
    own = Band("md", middle - 3 * MIB, middle + 27 * MIB, 5.0)
    assert at_place("md", [before, own], size) is None


def test_a_middle_band_of_the_size_of_another_counts_whatever_its_edges() -> None:
    """Of drive 102687 drawn the border lies before the middle: 20 MiB, and twice 17, one hardly sure."""
    size, middle = 1 << 40, (1 << 39)
    before, own, behind = (
        Band("md", middle + at * MIB, middle + (at + length) * MIB, margin)
        for at, length, margin in ((-606, 20, 4.0), (-9, 17, 0.1), (595, 17, 2.6))
    )
    found = at_place("md", [before, own, behind], size)
    assert found is not None and found.size == 17 * MIB
    assert at_place("md", [before, own, replace(behind, high=behind.high - MIB)], size) is None


@pytest.mark.parametrize(
    ("margin", "behind_mib", "known"), [(6.2, 66, True), (1.5, 66, False), (6.2, 80, False)]
)
def test_the_last_band_of_a_stretch_is_as_large_as_the_one_before(
    margin: float, behind_mib: int, known: bool
) -> None:
    """Of drive 102681 drawn: 81 MiB, then 82 of which an edge was misread, then 66 of the next stretch."""
    size, middle = 1 << 40, (1 << 39)
    before, own, behind = (
        Band("md", middle + at * MIB, middle + (at + length) * MIB, sure)
        for at, length, sure in ((-606, 81, margin), (-9, 82, 1.5), (595, behind_mib, 4.9))
    )
    found = at_place("md", [before, own, behind], size)
    assert (found is not None and found.size == 81 * MIB) is known
