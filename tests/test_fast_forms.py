"""What is computed in a quick form gives what its plain definition does."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import F64, I64, IoBatch, IoLog, Op
from skylight.infer import tracks_under_entries
from skylight.infer.track_phases import phasors
from skylight.probe.band_size import random_order
from skylight.probe.band_size.random_order import MIB, STATE_COST, SURE, _Before
from skylight.probe.durable_writes import with_flushes
from skylight.probe.spending_bound import Bound

SEED = 20261130


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


@pytest.mark.parametrize("flush_s", [0.0, 0.5, 5.0, 50.0])
def test_a_bound_that_looks_at_no_single_command_lets_as_many_through(
    flush_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_through() -> list[int]:
        rng, counts = np.random.default_rng(SEED), list[int]()
        for depth in (1, 1, 4, 31):
            bound = Bound(20_000 * 10**9, 1 << 33)
            for _ in range(20):
                io = IoBatch.writes(rng.integers(0, 1000, 200) * 4096, 4096)
                op = np.where(rng.random(200) < 0.05, int(Op.FLUSH), io.op).astype(np.uint8)
                io = IoBatch(op, io.offset, np.where(op == int(Op.FLUSH), 0, io.size).astype(np.uint32))
                counts.append(bound.fits(io, depth))
                done = io.part(0, counts[-1])
                took = np.where(done.op == int(Op.FLUSH), flush_s * 1e9 + 10**6, 10**6).astype(np.uint64)
                ends = np.cumsum(took)
                bound.spend(IoLog.of(done, ends - took, ends), depth)
        return counts

    quick = let_through()
    monkeypatch.setattr(Bound, "_surely_flushable", lambda *_, **__: False)
    assert let_through() == quick
