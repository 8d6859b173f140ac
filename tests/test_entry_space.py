"""The space that lone writes take, from times alone. Emulated drives are in `test_journal`."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from skylight.probe.journal.entry_space import Footprints, Run, alike, typical, without_outliers

BLOCK = 4096


def footprints(counts: dict[int, tuple[int, float]], seed: int) -> Footprints:
    """Runs of lone writes by size: their number, and the part of a revolution that each write takes; none
    began with an erase."""
    rng = np.random.default_rng(seed)

    def run(size: int, turns: float) -> Run:
        done_ns = 8e6 * np.cumsum(2 + turns + rng.normal(0, 0.04, 24))
        latency_ns = np.diff(done_ns, prepend=0.0) - 5e5
        return Run(size, False, latency_ns.astype(np.int64), done_ns.astype(np.int64))

    runs = {size: [run(size, turns) for _ in range(count)] for size, (count, turns) in counts.items()}
    return Footprints("disk", 8e6, runs)


def test_a_few_runs_are_not_held_against_the_scatter_of_many() -> None:
    # The reference of a size in doubt has many times as many runs, and its halves hardly differ.
    few_runs = {2 * BLOCK: (3, 0.3)}
    alike = [footprints({BLOCK: (174, 0.3)} | few_runs, seed) for seed in range(12)]
    assert all(each.stepping for each in alike)
    assert not any(each.more(2 * BLOCK) for each in alike)
    other = footprints({BLOCK: (174, 0.3), 2 * BLOCK: (3, 0.4)}, 1)
    assert other.more(2 * BLOCK), "the control: a tenth of a revolution shows by three runs as well"


def test_runs_are_alike_by_all_pairs_however_many_there_are(rng: np.random.Generator) -> None:
    """Of random drive 102243, with hundreds of runs of one block, to compare each two of them for every size
    that was judged took two minutes."""

    def run(length: int, turns: float) -> Run:
        done_ns = np.cumsum(8e6 * (2 + turns + rng.normal(0, 0.02, length))).astype(np.int64)
        return Run(BLOCK, True, np.diff(done_ns, prepend=0), done_ns)

    def of_pair(one: Run, other: Run) -> float:
        length = min(len(one.done_ns), len(other.done_ns))
        first, second = (each.done_ns[2:length] - each.done_ns[0] for each in (one, other))
        return float(np.abs(np.mean(np.exp(2j * np.pi * (first - second) / 8e6))))

    few = [run(length, turns) for length, turns in ((24, 0.3), (24, 0.3), (20, 0.31), (7, 0.5))]
    pairs = [of_pair(one, other) for one in few for other in few if one is not other]
    assert alike(few, few, 8e6) == pytest.approx(float(np.median(pairs)))
    assert alike(few[:1], few[1:], 8e6) == pytest.approx(
        np.median([of_pair(few[0], each) for each in few[1:]])
    )
    assert alike(few[:1], few[:1], 8e6) == 0.0, "a run is not paired with itself"
    many, began_s = [run(64, 0.3) for _ in range(400)], process_time()
    assert all(alike(many[:count], many[:count], 8e6) > 0.5 for count in range(396, 401))
    assert process_time() - began_s < 5.0, "one after the other, pairs take ten"


@pytest.mark.parametrize("busy", [0.0, 0.08, 0.14])
def test_by_a_coarse_clock_no_share_of_others_moves_what_is_typical(busy: float) -> None:
    """Ticks of a millisecond, of commands that take 2.3, beside others that delay them."""
    seed, count = 20261129, 4_000
    print("seed", seed)
    rng = np.random.default_rng(seed)
    begin_ns, took_ns = rng.uniform(0, 1e9, count), np.full(count, 2_300_000.0)
    took_ns += np.where(rng.uniform(size=count) < busy, rng.uniform(4e6, 3e7, count), 0.0)
    by_clock = (begin_ns + took_ns) // 1e6 * 1e6 - begin_ns // 1e6 * 1e6
    assert float(typical(by_clock, flash=True)) == pytest.approx(2_300_000, abs=30_000)
    assert without_outliers(by_clock).mean() == pytest.approx(1 - busy, abs=0.01)


@pytest.mark.parametrize(("early", "sharp"), [(0.0, True), (0.05, True), (0.42, False), (0.6, False)])
def test_writes_that_come_too_late_ever_more_often_show_no_step(early: float, sharp: bool) -> None:
    """A longer write is longer on its way, and on a slow host loses a revolution more often: a served
    st8000as0011 had a quantum of 88 KiB for that, at 0.89."""
    low, high = 22 * BLOCK, 23 * BLOCK
    for seed in range(6):
        late = footprints({BLOCK: (6, 0.3), low: (6, 0.3), high: (6, 1.3)}, seed)
        lost_ns = 8_000_000 * (np.random.default_rng(seed).uniform(size=(6, 24)) < early)
        late.runs[low] = [
            Run(low, False, run.latency_ns + lost, run.done_ns + np.cumsum(lost))
            for run, lost in zip(late.runs[low], lost_ns, strict=True)
        ]
        assert late.stepping and late.more(high) and late.sharp(low, high) == sharp, seed


@pytest.mark.parametrize(("in_time", "sharp"), [(0.0, True), (0.03, True), (0.12, False), (0.3, None)])
def test_a_revolution_that_some_longer_writes_do_not_lose_is_no_step(
    in_time: float, sharp: bool | None
) -> None:
    """On a busy host a served st8000as0011 had a quantum of 128 KiB, at 0.99: eight in ten of longer writes
    came too late. By the angle none of them has one."""
    low, high = 32 * BLOCK, 33 * BLOCK
    for seed in range(6):
        late = footprints({BLOCK: (6, 0.3), low: (6, 0.3), high: (6, 1.3)}, seed)
        caught_ns = 8_000_000 * (np.random.default_rng(seed).uniform(size=(6, 24)) < in_time)
        late.runs[high] = [
            Run(high, False, run.latency_ns - caught, run.done_ns - np.cumsum(caught))
            for run, caught in zip(late.runs[high], caught_ns, strict=True)
        ]
        assert late.more(high) and not late.more_quanta(high), seed
        assert sharp is None or late.sharp(low, high) == sharp, seed


@pytest.mark.parametrize(("turns", "another"), [(0.3, False), (0.5, False), (0.02, True), (-0.1, True)])
def test_whole_revolutions_are_a_quantum_only_where_one_write_takes_about_as_much(
    turns: float, another: bool
) -> None:
    """A served st5000as0011 moved on by 0.45 of a revolution with each write, and writes of 192 KiB and more
    came too late for their slots: its quantum is 864 KiB."""
    for seed in range(6):
        longer = footprints(
            {BLOCK: (6, turns), 2 * BLOCK: (6, turns + 1), 4 * BLOCK: (6, 2 * turns + 1)}, seed
        )
        assert longer.stepping and longer.more(2 * BLOCK)
        assert longer.more_quanta(2 * BLOCK) == another, seed
        assert longer.more_quanta(4 * BLOCK), "the control: twice the angle is two quanta"


def test_a_quantum_is_found_where_all_long_writes_come_too_late() -> None:
    low, high = 32 * BLOCK, 33 * BLOCK
    for seed in range(6):
        late = footprints({BLOCK: (6, 0.45), 8 * BLOCK: (6, 1.45), low: (6, 1.45), high: (6, 1.9)}, seed)
        assert not any(late.more_quanta(size) for size in (8 * BLOCK, low)), seed
        assert late.more_quanta(high) and late.sharp(low, high), seed


def test_times_that_differ_by_a_revolution_hide_no_step_of_one() -> None:
    """A host that pauses comes in any phase, so that a write of one block waits up to a revolution: four of
    120 journals had no quantum, though each write behind it took a revolution longer."""
    low, high = 32 * BLOCK, 33 * BLOCK
    for seed in range(6):
        seen = footprints({BLOCK: (6, 0.3), low: (6, 0.3), high: (6, 1.3)}, seed)
        rng = np.random.default_rng(seed)
        for size, runs in seen.runs.items():
            waits_ns = rng.uniform(0, 8e6, (len(runs), 24)).astype(np.int64)
            seen.runs[size] = [
                Run(size, False, run.latency_ns + wait_ns, run.done_ns)
                for run, wait_ns in zip(runs, waits_ns, strict=True)
            ]
        assert replace(seen, by_time=True).more_quanta(high) and not seen.more_quanta(high), seed
        assert seen.sharp(low, high), seed


@pytest.mark.parametrize(("turns", "sharp"), [(0.3, True), (1.3, False)])
def test_no_step_lies_behind_a_size_that_takes_longer_already(turns: float, sharp: bool) -> None:
    low, high = 32 * BLOCK, 33 * BLOCK
    for seed in range(6):
        seen = footprints({BLOCK: (6, 0.3), low: (6, turns), high: (6, turns + 0.4)}, seed)
        assert replace(seen, by_time=True).sharp(low, high) == sharp, seed


def test_the_first_size_that_takes_more_is_judged_by_all_that_is_known() -> None:
    seen = footprints({BLOCK: (6, 0.3), 8 * BLOCK: (6, 0.3), 32 * BLOCK: (6, 0.7)}, 1)
    assert seen.first_longer == 32 * BLOCK
    assert footprints({BLOCK: (6, 0.3), 8 * BLOCK: (6, 0.3)}, 1).first_longer is None


@pytest.mark.parametrize(("step_us", "sharp"), [(7, False), (200, True)])
def test_no_flash_takes_a_quantum_in_no_time(step_us: int, sharp: bool) -> None:
    """99737 drawn, which has no journal: from 1 MiB on writes took 7 us longer, as where requests are split;
    a quantum as large would pass at 150 GB/s."""
    low, high = 256 * BLOCK, 257 * BLOCK
    rng = np.random.default_rng(1)
    took_us = {BLOCK: 2_000, low: 2_000, high: 2_000 + step_us, 2 * low: 2_000 + step_us}
    runs = {}
    for size, each_us in took_us.items():
        took_ns = (rng.normal(each_us, 0.1, (6, 24)) * 1e3).astype(np.int64)
        runs[size] = [Run(size, True, each, np.cumsum(each + 10_000)) for each in took_ns]
    assert Footprints("flash", 8e6, runs).sharp(low, high) == sharp


def test_a_size_that_alone_is_late_is_no_edge() -> None:
    """As of random drive 99603, which cleaned while writes of 32 KiB were measured."""
    counts = {BLOCK: (6, 0.3), 8 * BLOCK: (6, 0.7), 10 * BLOCK: (6, 0.3), 14 * BLOCK: (6, 0.3)}
    assert footprints(counts, 1).more_quanta(8 * BLOCK)
    assert footprints(counts, 1).first_longer is None
    assert footprints(counts | {32 * BLOCK: (6, 0.7), 33 * BLOCK: (6, 0.7)}, 1).first_longer == 32 * BLOCK


def test_times_that_grow_by_degrees_have_no_step_by_a_coarse_clock() -> None:
    """As of random drive 100122: ticks of a millisecond move what is typical from one level to the next."""
    for seed in range(6):
        seen = footprints(
            {blocks * BLOCK: (60, 0.3 + 0.002 * blocks) for blocks in (1, 8, 10, 11, 12, 16, 25)}, seed
        )
        runs = {
            size: [Run(size, False, run.latency_ns // 10**6 * 10**6, run.done_ns) for run in each]
            for size, each in seen.runs.items()
        }
        coarse = replace(seen, runs=runs)
        assert coarse.smooth(10 * BLOCK, 11 * BLOCK) and not coarse.sharp(10 * BLOCK, 11 * BLOCK), seed


@pytest.mark.parametrize(
    ("behind", "sharp"),
    [
        ({101: 0.5, 108: 0.5, 120: 2.3, 144: 2.3}, True),
        ({101: 0.7, 108: 1.0, 120: 2.3, 144: 3.4}, False),  # by degrees
        ({98: 0.5, 99: 0.5, 120: 2.3, 144: 2.3}, False),  # too near to show that
        ({100: 0.5, 103: 0.5, 108: 2.3, 112: 0.5, 144: 2.3}, False),  # what follows is not one step
    ],
)
def test_an_entry_that_ends_just_behind_a_quantum_hides_no_step(
    behind: dict[int, float], sharp: bool
) -> None:
    """As of random drive 100496, whose quantum is 396 KiB and whose entries hold 460: it had no journal."""
    low, high = 96 * BLOCK, 97 * BLOCK
    counts = {BLOCK: (6, 0.3), low: (6, 0.3), high: (6, 0.5)}
    counts |= {blocks * BLOCK: (6, turns) for blocks, turns in behind.items()}
    seen = replace(footprints(counts, 1), rotation_ns=None)
    assert seen.sharp(low, high) == sharp
