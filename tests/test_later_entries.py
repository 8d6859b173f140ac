"""Out-of-band data from entries wherever the log is: the edges of waits, the tracks under an entry. Emulated
drives that cannot be erased are in `test_journal`."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import F64, IoBatch, IoLog, Op
from skylight.findings import Known
from skylight.infer.latency_without_wait import differences, in_tracks
from skylight.infer.tracks_under_entries import Tracks, tracks
from skylight.probe.durable_writes import Rounds
from skylight.probe.journal.entry_space import Footprints, Run
from skylight.probe.journal.findings import MERGE
from skylight.probe.journal.measure import Runs
from skylight.probe.journal.out_of_band_time import judge_flash
from skylight.probe.journal.unerased_entries import (
    CYCLES,
    LongEntries,
    columns,
    cycles,
    far_places,
)
from skylight.probe.journal.unerased_verdict import _finding, judge_later
from skylight.probe.journal.verdict import Quantum, Seen, _either_way, judge, observe

TICKS = (0.0002, 0.2)
"""Of a revolution: clocks of a microsecond and of a millisecond, on a disk of 12,000 rpm."""
SEED = 20261128
ZERO = np.zeros(1, np.uint64)


def waits(rng: np.random.Generator, shortest: F64, tick: float) -> F64:
    """Times of commands in random phases, with delays, other clients and a clock that ticks."""
    took = shortest + rng.uniform(0, 1, len(shortest)) + np.abs(rng.normal(0, 0.03, len(shortest)))
    others = rng.uniform(0, 1, len(shortest)) < 0.08
    took = took + np.where(others, rng.uniform(0, 3, len(shortest)), 0.0)
    begin = rng.uniform(0, 1000, len(shortest))
    return np.asarray(np.floor((begin + took) / tick) * tick - np.floor(begin / tick) * tick)


@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("length", [0.4, 1.9, 2.16])
def test_the_shortest_of_waits_differ_by_the_data_between_them(tick: float, length: float) -> None:
    """Also where most of the writes have a switch more in them than the shortest, and by a coarse clock."""
    rng = np.random.default_rng(SEED)
    switch, count = 0.3, 1000
    print("seed", SEED)
    crossed = np.floor(rng.uniform(0, 1, count) + length)
    longer = waits(rng, 1.3 + length + switch * crossed, tick)
    shorter = waits(rng, np.full(count, 1.3), tick)
    apart = differences(longer, shorter, tick, switch, 0.0)
    mean = float((apart.at * apart.weight).sum())
    assert apart.weight.sum() == pytest.approx(1)
    assert abs(mean - (length + switch * np.floor(length))) < (0.015 if tick < 0.01 else 0.04)
    low, high = np.interp([0.005, 0.995], np.cumsum(apart.weight), apart.at)
    assert low - 0.01 < length + switch * np.floor(length) < high + 0.01
    assert in_tracks(np.array([mean]), switch)[0] == pytest.approx(length, abs=0.04)


@pytest.mark.parametrize("scatter", [0.01, 0.08])
def test_blocks_of_one_entry_show_the_tracks_under_it(scatter: float) -> None:
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    length, switch = 812_345.0, 0.27
    place = np.linspace(3.6e6, 0, 192)
    angle = place / length + switch * np.floor(place / length + 0.4) + rng.normal(0, scatter, 192)
    found = tracks([(place, angle)], 500_000, 1_500_000)
    assert found is not None and abs(found.bytes - length) < 3 * found.error_bytes
    assert abs(found.switch - switch) < 0.05 and found.error_bytes < 0.4 * scatter * length
    # What passes in a time with switches is known better than either.
    assert found.bytes / (1 + found.switch) == pytest.approx(length / (1 + switch), rel=0.01)
    assert tracks([(place, rng.uniform(0, 1, 192))], 500_000, 1_500_000) is None
    assert tracks([(place[:20], angle[:20])], 500_000, 1_500_000) is None


@pytest.mark.parametrize("part", [0.4, 0.9])
def test_entries_shorter_than_a_track_show_it_together(part: float) -> None:
    """Each begins anywhere, and some have no switch in them."""
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    length, switch, count = 812_345.0, 0.27, 10
    entries = []
    for _ in range(count):
        place = np.linspace(part * length, 0, 192 // count)
        ends = np.floor(place / length + rng.uniform(0, 1))
        entries.append(
            (place, place / length + switch * ends + rng.uniform() + rng.normal(0, 0.02, len(place)))
        )
    found = tracks(entries, 500_000, 1_500_000)
    assert found is not None and abs(found.bytes - length) < 3 * found.error_bytes
    assert found.error_bytes < 0.05 * length and abs(found.switch - switch) < 0.05
    without = [(place, place / length) for place, _ in entries]
    assert tracks(without, 500_000, 1_500_000) is None, "no end of a track, no switch"


def test_no_far_place_is_read_twice_and_each_lies_before_the_last() -> None:
    far = far_places(1 << 40, 4096, np.random.default_rng(SEED)).astype(np.int64)
    assert np.all(np.diff(far) < 0) and far.min() > 0
    small = far_places(4 << 30, 4096, np.random.default_rng(SEED)).astype(np.int64)
    assert np.all(np.diff(small) < 0) and small.min() > (4 << 30) // 8


def test_a_flushed_write_is_done_when_its_flush_is() -> None:
    io = cycles(np.arange(8, 0, -1, dtype=np.uint64) * 4096, 4096, flushed=True)
    submit = np.arange(len(io), dtype=np.uint64) * np.uint64(1000)
    wrote, written, asked, read = columns([IoLog.of(io, submit, submit + np.uint64(900))])
    assert io.op[:5].tolist() == [Op.READ, Op.WRITE, Op.FLUSH, Op.READ, Op.READ]
    assert (wrote[0], written[0], asked[0], read[0]) == (1000, 2900, 4000, 4900)
    assert len(wrote) == 4


def test_without_tracks_or_cycles_nothing_is_said() -> None:
    io = cycles(np.arange(8, 0, -1, dtype=np.uint64) * 4096, 4096, flushed=False)
    log = IoLog.of(io, np.arange(len(io), dtype=np.uint64), np.arange(len(io), dtype=np.uint64))
    for track in ({}, {"od": 2e6, "md": 1.5e6, "id": 1e6}):
        assert not any(each.known for each in judge_later([log], LongEntries(log, log), 1 << 20, 8e6, track))
    assert len(log) < CYCLES


@pytest.mark.parametrize(("spread", "known"), [(0.022, False), (0.015, True)])
def test_that_there_is_data_is_surer_than_how_much(spread: float, known: bool) -> None:
    """Of drive 102553 drawn, which writes none, an interval of 95 % began just above that."""
    times = np.random.default_rng(SEED).normal(0.06, spread, 8000)
    found = _finding(times, CYCLES, Tracks(1e6, 1e3, 0.3), 4e6)
    assert np.quantile(times, 0.025) > 0
    assert found.known is known and (known or "no more than" in found.why)


@pytest.mark.parametrize("writes_out", [True, False])
def test_by_a_coarse_clock_the_mean_of_many_flushes_tells_what_the_first_wrote(writes_out: bool) -> None:
    """Most differences of 0.3 ms are no tick of a millisecond, and an outlier is a hundred of them."""
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    begin = np.cumsum(rng.uniform(5e6, 6e6, 512))
    took = rng.uniform(1.2e6, 1.6e6, (3, 512)) + 8e7 * (rng.uniform(0, 1, (3, 512)) < 0.01)
    took[1] += 3e5 * writes_out
    ticks = [((begin + each) // 1e6 * 1e6 - begin // 1e6 * 1e6).astype(np.int64) for each in took]
    seen = Rounds(*ticks)
    assert seen.coarse and seen.wrote_out_on_average(5e6) == writes_out
    assert not Rounds(*(each[:20] for each in ticks)).wrote_out_on_average(5e6)
    assert not Rounds(*(each.astype(np.int64) for each in took)).coarse


def test_a_revolution_that_may_be_lost_leaves_a_long_merge_known() -> None:
    """Either is within a tenth of the middle; of a short merge it is not."""
    known = _either_way(60e6, 0.2e6, 8e6, 0.9, 20, 1e6)
    assert known.known and known.name == MERGE.name and known.value == 63_000_000
    assert not _either_way(30e6, 0.2e6, 8e6, 0.9, 20, 1e6).known
    assert not _either_way(60e6, 2e6, 8e6, 0.9, 20, 0.0).known
    short = _either_way(5e6, 2e6, 8e6, 0.9, 4, 4e6)
    assert not short.known and short.interval is not None and short.interval[0] == 0.0


@pytest.mark.parametrize(("own_ns", "known"), [(0.0, True), (20e6, False)])
def test_a_quantum_in_flash_that_may_be_an_entry_of_its_own_hides_the_data(
    own_ns: float, known: bool
) -> None:
    """99583, journaled: each quantum began an entry, and 18.8 ms of out-of-band data were said to be 0.13."""
    flushes = IoBatch.make(Op.FLUSH, np.zeros(48), 0)
    begin = np.arange(48, dtype=np.uint64) * np.uint64(10**7)
    log = IoLog.of(flushes, begin, begin + np.uint64(10**6))
    found = judge_flash(log, 1.2e6, 1e4, 8e6, own_ns)
    assert found.known is known and found.interval is not None
    assert (found.interval[1] > own_ns) is True


def test_a_lone_write_no_longer_than_a_flush_leaves_the_data_unknown() -> None:
    """102726 drawn, by a clock of a millisecond: test 3 ended with a division by none."""
    begin = np.arange(48, dtype=np.uint64) * np.uint64(10**7)
    log = IoLog.of(IoBatch.make(Op.FLUSH, np.zeros(48), 0), begin, begin + np.uint64(10**6))
    assert not judge_flash(log, 0.9e6, 0.0, 8e6).known


def test_a_size_that_a_bound_left_without_runs_is_passed_over() -> None:
    runs = Runs()
    runs.footprints.runs[4096] = [Run.of(4096, True, IoLog.of(IoBatch.writes([0], 4096), ZERO, ZERO + 1))]
    runs.footprints.runs[8192] = []
    assert set(observe(runs).footprints.runs) == {4096}


def test_a_quantum_takes_no_less_than_none() -> None:
    """99617, journaled: 1.97 MiB ended elsewhere than 1.96 MiB, and sooner, where a quantum has 1.6 MiB."""
    less = Quantum(2_060_288, 2_064_384, -684e3, 51e3, 0.95)
    one = Run.of(4096, True, IoLog.of(IoBatch.writes([0], 4096), ZERO, ZERO + 1))
    found = judge(Seen(Footprints("disk", 7.2e6, {4096: [one]}), quantum=less), Runs(), Known())
    assert found and not any(each.known for each in found)
