"""What is computed in a quick form gives what its plain definition does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from skylight.evidence import F64, I64, IoBatch, IoLog, Op, Stop, are_writes
from skylight.infer import phase, tracks_under_entries
from skylight.infer.phase import NONE, Coherence
from skylight.infer.remembered import MOST_KEPT, remembered
from skylight.infer.robust import common_part, median_slope, ranks
from skylight.infer.track_phases import Tracks, phasors
from skylight.probe import spending_bound
from skylight.probe.band_size import random_order
from skylight.probe.band_size.random_order import MIB, STATE_COST, SURE, _Before
from skylight.probe.cache_size.fill_procedure import PartTimes
from skylight.probe.durable_writes import FlushedBatch, with_flushes
from skylight.probe.spending_bound import Bound

SEED = 20261130
BATCH_COLUMNS = ("op", "offset", "size")


@pytest.mark.parametrize("count", [0, 1, 2, 31, 62, 63])
@pytest.mark.parametrize("group", [1, 2, 31, 64])
def test_a_flush_lies_behind_each_group_and_the_last(count: int, group: int) -> None:
    io = IoBatch.writes(np.arange(count) * 4096, 4096)
    at = np.append(np.arange(group, count, group), count)
    flushed = with_flushes(io, group)
    assert np.array_equal(flushed.op, np.insert(io.op, at, int(Op.FLUSH)))
    assert np.array_equal(flushed.offset, np.insert(io.offset, at, 0))
    assert np.array_equal(flushed.size, np.insert(io.size, at, 0))


def _score(looks: list[tuple[I64, F64]], size: int, start: int) -> tuple[float, bool]:
    """Of pieces of a size that begin so far behind the first point, MiB: one piece after the other."""
    base, score, is_seen = int(looks[0][0][0]), 0.0, False
    for points, weights in looks:
        piece = ((points - base) // MIB - start) // size
        sums = {int(one): float(weights[piece == one].sum()) for one in np.unique(piece)}
        score += sum(max(each, 0.0) for each in sums.values()) - STATE_COST * len(sums)
        is_seen |= any(
            one + 1 in sums
            and sums[one] * sums[one + 1] < 0
            and min(abs(sums[one]), abs(sums[one + 1])) >= SURE
            for one in sums
        )
    return score, is_seen


@pytest.mark.parametrize("size", [2, 7, 30, 100])
def test_pieces_from_all_mebibytes_on_score_as_one_after_the_other(size: int) -> None:
    rng = np.random.default_rng(SEED)
    coarse = np.arange(40) * random_order.COARSE + (5 << 30)
    fine = np.unique(np.concatenate([coarse, coarse[3] + np.arange(60) * MIB]))
    looks = [(points, rng.normal(0, 3, len(points))) for points in (coarse, fine)]
    before = _Before.of(looks, 100)
    scores = before.scores(size)
    assert len(scores) == size
    for start in range(size):
        score, is_seen = _score(looks, size, start)
        assert scores[start] == pytest.approx(score)
        assert before.is_seen(size, start) is is_seen


def test_blocks_of_a_track_agree_as_blocks_one_by_one() -> None:
    rng = np.random.default_rng(SEED)
    place, turns = (rng.integers(0, 1000, 30) * 4096).astype(np.float64), rng.random(30)
    length, switches = np.linspace(4e5, 2e6, 7).astype(np.float64), np.array([0.04, 0.3, 0.64])
    found = tracks_under_entries._agreements(phasors(turns), place, length, switches)
    for which, switch in enumerate(switches):
        for row, each in enumerate(length):
            for end in range(tracks_under_entries.ENDS):
                ends = np.floor(place / each + end / tracks_under_entries.ENDS)
                agreed = np.abs(np.mean(phasors(turns - place / each - switch * ends)))
                assert found[which, row, end] == pytest.approx(agreed, abs=1e-9)


class _Whole(Bound):
    """Looks at all commands, each by itself."""

    def fits(self, io: IoBatch, depth: int = 1, until: Stop | None = None) -> int:
        growth = self._growth(io)
        if not self.fits_pause(0) or self._left_ns <= self._kept_back_ns(growth):
            return 0
        slow = round(self._left_ns // (growth * self._worst_ns(depth, until)))
        io = io.part(0, max(1 if depth > 1 else 64, slow))
        written = np.cumsum(np.where(are_writes(io.op), io.size, 0), dtype=np.int64)
        waits = self._held(io) * 1.3 * self._flush_ns > self.left_ns
        if np.count_nonzero(io.op == int(Op.FLUSH)) > 1:
            group = self._unflushed_at(io.op, np.ones(len(io), np.int64), 0)
            waits |= (group > 32) & (group * 1.3 * self._seen_ns(1) > self.left_ns)
        late = np.flatnonzero(waits & ((io.op == int(Op.WRITE)) | (io.op == int(Op.FLUSH))))
        within = int(np.count_nonzero(written <= self._left_bytes))
        return min(within, int(late[0])) if len(late) else within

    def _saw_flushes(self, log: IoLog) -> None:
        for op, size, took_ns in zip(log.op, log.size, log.latency_ns, strict=True):
            if op == int(Op.WRITE):
                self._unflushed, self._unflushed_bytes = (
                    self._unflushed + 1,
                    self._unflushed_bytes + int(size),
                )
            if op == int(Op.FLUSH):
                self._flush_ns = max(self._flush_ns, int(took_ns) / max(self._unflushed, 32))
                self._unflushed, self._unflushed_bytes = 0, 0


def _mixed(rng: np.random.Generator, count: int, flushes: float) -> IoBatch:
    """Writes and reads of one size, with FLUSHes among them."""
    op = np.where(rng.random(count) < 0.1, int(Op.READ), int(Op.WRITE))
    op = np.where(rng.random(count) < flushes, int(Op.FLUSH), op).astype(np.uint8)
    size = np.where(op == int(Op.FLUSH), 0, 1 << int(rng.integers(12, 21))).astype(np.uint32)
    return IoBatch(op, np.zeros(count, np.uint64), size)


@pytest.mark.parametrize("flush_s", [0.0, 0.5, 5.0, 50.0, 500.0])
@pytest.mark.parametrize("write_s", [0.001, 1.0, 30.0, 200.0])
def test_a_bound_that_looks_no_farther_than_it_must_lets_as_many_through(
    flush_s: float, write_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending_bound, "LOOK", 3)
    rng = np.random.default_rng(SEED)
    for depth, flushes, until in itertools.product((1, 31), (0.0, 0.01, 0.1), (None, Stop(10**9, 3, 31))):
        bounds = [kind(20_000 * 10**9, 1 << 32) for kind in (Bound, _Whole)]
        for _ in range(20):
            io = _mixed(rng, int(rng.integers(1, 1_000)), flushes)
            count, whole = (bound.fits(io, depth, until) for bound in bounds)
            assert count == whole
            done = io.part(0, int(rng.integers(0, count + 1)))
            took = np.where(done.op == int(Op.FLUSH), flush_s, 0.001)
            took[: 1 if write_s > 1 else None] = write_s
            ends = np.cumsum(took * 1e9).astype(np.uint64)
            for bound in bounds:
                bound.spend(IoLog.of(done, ends - (took * 1e9).astype(np.uint64), ends), depth)


def test_a_long_fill_in_short_pieces_looks_at_each_command_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host-aware drive under ideal conditions spent half an hour on it: groups behind each of which a FLUSH
    may wait for a zone a block are sent in pieces of a few dozen commands."""
    looked = 0

    def part(self: IoBatch, first: int, last: int) -> IoBatch:
        nonlocal looked
        looked += max(0, min(last, len(self)) - first)
        return whole(self, first, last)

    whole = IoBatch.part
    counts = dict[int, int]()
    for total in (20_000, 40_000):
        bound, looked = Bound(20_000 * 10**9, 1 << 40), 0
        one = IoBatch.writes([0], 4096)
        bound.spend(IoLog.of(one, np.zeros(1, np.uint64), np.array([300 * 10**9], np.uint64)))
        io, pieces = with_flushes(IoBatch.writes(np.zeros(total), 4096), 300), 0
        until = Stop(10**9, 1, 1)
        monkeypatch.setattr(IoBatch, "part", part)
        while len(io):
            count = bound.fits(io, 31, until)
            assert count
            io, pieces = whole(io, count, len(io)), pieces + 1
        monkeypatch.setattr(IoBatch, "part", whole)
        counts[total] = looked
        assert pieces > total / 100, "in short pieces"
    assert counts[20_000] < 20 * 20_000
    assert counts[40_000] == pytest.approx(2 * counts[20_000], rel=0.1)


def test_larger_commands_that_are_not_sent_yet_shorten_no_piece() -> None:
    """Each command that is sent may take longer for being larger than the slowest so far, not for what
    follows it in a batch."""
    bound = Bound(20_000 * 10**9, 1 << 40)
    slow = IoBatch.writes([0], 4096)
    bound.spend(IoLog.of(slow, np.zeros(1, np.uint64), np.array([20 * 10**9], np.uint64)))
    small, large = IoBatch.writes(np.zeros(1_000), 4096), IoBatch.writes(np.zeros(1_000), 1 << 20)
    both = IoBatch(*(np.concatenate([getattr(io, name) for io in (small, large)]) for name in BATCH_COLUMNS))
    assert 100 < bound.fits(both, 31) <= bound.fits(small, 31)
    assert bound.fits(large, 31) < 10


def test_a_common_part_is_that_of_all_values() -> None:
    rng = np.random.default_rng(SEED)
    for count, times in itertools.product((0, 1, 63, 64, 65, 300), (1, 6, 1_000)):
        values = times * rng.integers(1, 1 << 40, count)
        values[: count // 2] *= 4  # what the first have in common is more
        values[: count // 4] = 0
        parts = np.split(values, [count // 3])
        whole = int(np.gcd.reduce(values, initial=0))
        assert common_part(*parts) == whole
        part = common_part(*parts, enough=5_000)
        assert part == whole if whole > 5_000 or not count else whole <= part <= 5_000 and part % whole == 0


def test_a_median_slope_and_ranks_are_those_of_scipy() -> None:
    rng = np.random.default_rng(SEED)
    for count in (2, 3, 5, 12, 30):
        for digits in (1, 8):  # with equal values, and without
            x, y = (np.round(np.append(rng.random(count - 1), edge), digits) for edge in (2.0, 0.5))
            slope, _, least, most = stats.theilslopes(y, x, 0.95)
            assert median_slope(y, x, 0.95) == pytest.approx((slope, least, most), rel=1e-12)
            assert np.array_equal(ranks(y), stats.rankdata(y))


def test_phase_vectors_a_step_on_are_those_of_each_frequency() -> None:
    rng = np.random.default_rng(SEED)
    time_s = np.sort(rng.random(200)) * 5.0
    groups = phase._Groups(np.arange(0, 200, 4), np.full(50, 4.0), np.repeat(np.arange(5), 10), 5)
    for hz in (np.array([120.0]), np.arange(60.0, 70.0, 0.1), np.linspace(99.0, 101.0, 41)):
        plain = np.exp(2j * np.pi * np.outer(hz, time_s)).reshape(len(hz), 50, 4).sum(axis=2)
        assert phase._sums(time_s, groups, hz) == pytest.approx(plain, abs=1e-9)
    weight, sums = rng.integers(0, 3, (7, 50)).astype(np.float64), plain[0]
    between, total = groups.parts(sums, weight)
    for row, (one, other) in enumerate(zip(between, total, strict=True)):
        rounds = [slice(first, first + 10) for first in range(0, 50, 10)]
        counts = [float((weight[row, each] * 4).sum()) for each in rounds]
        means = [complex((weight[row, each] * sums[each]).sum()) / max(count, 1.0)
                 for each, count in zip(rounds, counts, strict=True)]  # fmt: skip
        apart = np.abs(sums - 4 * np.repeat(means, 10)) ** 2 / 4
        assert one == pytest.approx(float((weight[row] * apart).sum()))
        less = sum(abs(mean) ** 2 * count for mean, count in zip(means, counts, strict=True))
        assert other == pytest.approx(float((weight[row] * 4).sum()) - less)


@pytest.mark.parametrize("within", [1, 5, 64])
def test_a_stop_counts_the_slow_among_the_last_that_were_done(within: int) -> None:
    rng = np.random.default_rng(SEED)
    for rows in (1, 4, 5, 6, 64, 200):
        submit = np.sort(rng.integers(0, 100, rows)).astype(np.uint64)
        done = submit + rng.integers(0, 9, rows).astype(np.uint64)
        log = IoLog.of(IoBatch.reads(np.zeros(rows), 512), submit, done)
        last = np.isin(log.complete_ns, np.sort(log.complete_ns)[-within:])
        slow = int(np.count_nonzero(log.latency_ns[last] >= 7))
        assert Stop(7, within, within).after(log).count == max(within - slow, 1)


@pytest.mark.parametrize("group", [1, 3])
def test_a_batch_with_flushes_gives_any_part_in_any_order(group: int) -> None:
    rng = np.random.default_rng(SEED)
    for count in (0, 1, 2, 50):
        io = IoBatch.writes(np.arange(count) * 4096, 4096)
        lazy, whole = FlushedBatch(io, group), with_flushes(io, group)
        for first, last in [(0, 0), (0, 1), *np.sort(rng.integers(0, 90, (40, 2)), axis=1).tolist()]:
            part, plain = lazy.part(first, last), whole.part(first, last)
            for name in BATCH_COLUMNS:
                assert np.array_equal(getattr(part, name), getattr(plain, name))


def test_what_was_answered_is_asked_again_only_of_other_columns() -> None:
    asked = list[float]()

    @remembered
    def fitted(x: F64, low: float, turn: Coherence) -> Tracks | None:
        asked.append(low)
        return Tracks(low, 0.0, x, x, x, np.arange(len(x)), 0.0) if turn.share else None

    x = np.linspace(0.0, 1.0, 9)
    first = fitted(x, 1.0, NONE)
    assert first is None and fitted(x.copy(), 1.0, NONE) is None and asked == [1.0]
    seen = replace(NONE, share=1.0)
    found = fitted(x.copy(), low=1.0, turn=seen)
    assert found is not None and found is fitted(x, low=1.0, turn=replace(seen)) and len(asked) == 2
    assert not found.level.flags.writeable, "an answer that two share is changed by neither"
    for other in (x[:-1], np.append(x, 0.0), x + 1e-12, x.reshape(3, 3)):
        fitted(other, 1.0, seen)
    assert len(asked) == 6
    for low in range(2 * MOST_KEPT):
        fitted(x, 2.0 + low, NONE)
    assert len(asked) == 6 + 2 * MOST_KEPT
    fitted(x, 1.0 + 2 * MOST_KEPT, NONE)
    assert len(asked) == 6 + 2 * MOST_KEPT, "the last are kept"


def test_times_of_the_parts_of_a_fill_are_those_of_all_logs() -> None:
    rng, times, logs = np.random.default_rng(SEED), PartTimes(300), list[IoLog]()
    for rows in (40, 0, 100, 160):
        submit = np.sort(rng.integers(0, 100, rows)).astype(np.uint64) + np.uint64(1_000 * len(logs))
        logs.append(IoLog.of(IoBatch.writes(np.zeros(rows), 512), submit, submit + rng.permutation(submit)))
        if len(logs) != 2:
            submit_ns, done_ns = times.of(logs)
            assert np.array_equal(submit_ns, np.concatenate([log.submit_ns for log in logs]))
            assert np.array_equal(done_ns, np.concatenate([np.sort(log.complete_ns) for log in logs]))
