"""Lengths of journal entries from lone writes of one quantum and of several, against logs made up by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from skylight.probe.cache_size import entry_lengths

TURN_NS = 1e7
BLOCKS, LONGER = 80, (2, 4)
SEEDS = range(40)
GAP = 0.2  # the most that lies behind an entry, in quanta
TIME_TO = 0.03  # of a turn


def ends_of(rng: np.random.Generator, length: float, skew: float, jitter: float) -> NDArray[np.float64]:
    """When entries of so many tracks were done: each ends where its place ends, some turns after the last."""
    place = rng.uniform(0, 1) + length * np.arange(1, BLOCKS + 1)
    phase = np.mod(place + skew * np.floor(place), 1.0)
    turns = np.cumsum(np.ceil(length * (1 + skew)) + 1 + (rng.random(BLOCKS) < 0.1))
    late = jitter * rng.random(BLOCKS)
    return np.asarray((turns + phase + late) * TURN_NS, np.float64)


def out_of_band_time(start: float, length: float, skew: float) -> float:
    """Turns that data takes which begins there."""
    return length + skew * float(np.floor(start % 1.0 + length))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_found_holds_what_was_written(seed: int) -> None:
    """Whatever the sizes, the skew and the jitter, the true length is among those that are found."""
    rng = np.random.default_rng(seed)
    quantum, band = rng.uniform(0.2, 1.0), rng.uniform(0.0, 3.0)
    skew, gap = rng.uniform(0.05, 0.45), rng.uniform(0.0, GAP)
    jitter = rng.uniform(0.0, 0.04)
    rest = band + gap * quantum
    ends = {n: ends_of(rng, rest + n * quantum, skew, jitter) for n in (1, *LONGER)}
    time = out_of_band_time(rng.uniform(0, 1), band, skew)
    about = quantum * rng.uniform(0.95, 1.05)
    skews = (max(skew - 0.03, 0.01), skew + 0.03)
    likely = entry_lengths.likely_turns(about, skews)
    found = [
        each
        for advances in entry_lengths.advances(ends, TURN_NS, likely)
        for each in entry_lengths.entries_of(
            entry_lengths.fits(advances, about, (time - TIME_TO, time + TIME_TO), skews, GAP)
        )
    ]
    assert any(low - 0.03 <= 1 + band / quantum <= high + 0.03 for low, high in found), (seed, found)
    assert max(high for _, high in found) - min(low for low, _ in found) < 3.5 / quantum


def test_a_length_is_known_to_the_gap_alone() -> None:
    """One advance, one time: what is open is what may lie between entries."""
    rng = np.random.default_rng(1)
    ends = {n: ends_of(rng, 1.4 + n * 0.45, 0.2, 0.0) for n in (1, *LONGER)}
    best = entry_lengths.advances(ends, TURN_NS, entry_lengths.likely_turns(0.45, (0.18, 0.24)))[0]
    assert best.quantum == pytest.approx(0.45 * 1.2, abs=2e-3)
    time = out_of_band_time(0.1, 1.4, 0.2)
    (bounds,) = entry_lengths.entries_of(
        entry_lengths.fits(best, 0.45, (time - 0.1, time + 0.1), (0.18, 0.24), 0.05)
    )
    assert bounds == pytest.approx((1 + 1.4 / 0.45 - 0.05, 1 + 1.4 / 0.45), abs=0.02)


def test_ends_without_an_angle_have_no_length() -> None:
    """Completions at any phase, or too few of them, or of one size alone: nothing."""
    rng = np.random.default_rng(2)
    anywhere = {n: np.cumsum(rng.uniform(1, 3, BLOCKS)) * TURN_NS for n in (1, 2, 4)}
    assert entry_lengths.advances(anywhere, TURN_NS, (0.3, 0.8)) == []
    even = ends_of(rng, 1.9, 0.2, 0.0)
    assert entry_lengths.advances({1: even}, TURN_NS, (0.3, 0.8)) == []
    assert entry_lengths.advances({1: even, 2: even[:5]}, TURN_NS, (0.3, 0.8)) == []


def test_skews_are_known_but_for_whole_turns() -> None:
    """A range over half a turn is two."""
    assert entry_lengths.wrapped((0.1, 0.3)) == [(0.1, 0.3)]
    (less,) = entry_lengths.wrapped((0.6, 0.9))
    assert less == pytest.approx((-0.4, -0.1))
    assert len(entry_lengths.wrapped((0.4, 0.7))) == 2
