"""Volatile caches that stay on: which of a write and two FLUSHes behind it waits."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, Op
from skylight.probe import durable_writes
from skylight.probe.durable_writes import (
    ROUNDS,
    FlushedBatch,
    Rounds,
    Volatile,
    _on_disk,
    rounds,
    with_flushes,
)

TURN_NS, WAY_NS = 5e6, 1.5e6
COLUMNS = ("op", "offset", "size")


def log_of(write_ns: float, first_ns: float, rng: np.random.Generator, jitter_ns: float = 5e4) -> IoLog:
    """Rounds in which writes, and the first FLUSH behind each, take about so long; the second finds nothing
    to do."""
    at = np.arange(ROUNDS, dtype=np.uint64) * np.uint64(1 << 20)
    io = rounds(at, at + np.uint64(4096), 4096)
    took = np.tile([8e6, write_ns, first_ns, WAY_NS], ROUNDS) + rng.uniform(0, jitter_ns, len(io))
    done = np.cumsum(took + 1e5).astype(np.uint64)
    return IoLog.of(io, done - took.astype(np.uint64), done)


@pytest.mark.parametrize(
    ("write_ns", "first_ns", "said"),
    [
        (WAY_NS, WAY_NS + 0.6 * TURN_NS, "on"),
        (WAY_NS, WAY_NS + 0.1 * TURN_NS, "on"),  # the log had nearly come round at every write
        (WAY_NS, WAY_NS, "ignores-flush"),
        (WAY_NS + 0.6 * TURN_NS, WAY_NS, "off"),
    ],
)
def test_what_waits_tells_a_volatile_cache(
    rng: np.random.Generator, write_ns: float, first_ns: float, said: Volatile
) -> None:
    assert _on_disk(Rounds.of(log_of(write_ns, first_ns, rng)), TURN_NS) == said


@pytest.mark.parametrize(("wait_turns", "said"), [(0.6, "off"), (0.0, "ignores-flush")])
def test_a_first_flush_that_is_slow_to_begin_wrote_nothing_out(
    rng: np.random.Generator, wait_turns: float, said: Volatile
) -> None:
    log = log_of(WAY_NS + wait_turns * TURN_NS, WAY_NS + 5e3, rng, jitter_ns=1e3)
    assert _on_disk(Rounds.of(log), TURN_NS) == said


def test_a_round_is_a_read_a_write_and_two_flushes(rng: np.random.Generator) -> None:
    log = log_of(WAY_NS, WAY_NS, rng)
    assert log.op[:4].tolist() == [Op.READ, Op.WRITE, Op.FLUSH, Op.FLUSH]
    cut = Rounds.of(log.rows(slice(0, 4 * 7 + 3)))
    assert len(cut.write_ns) == len(cut.first_ns) == len(cut.second_ns) == 7
    assert Rounds.of(log.rows(slice(0, 3))).wrote_out(TURN_NS) is False


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_any_part_of_a_batch_with_flushes_is_that_of_the_whole(count: int, group: int) -> None:
    writes = IoBatch.writes(np.arange(count) * 4096, 4096)
    whole, laid_out = with_flushes(writes, group), FlushedBatch(writes, group)
    assert len(laid_out) == len(whole)
    for first in range(len(whole) + 2):
        for last in range(first, len(whole) + 3):
            of_whole, part = whole.part(first, last), laid_out.part(first, last)
            assert all(np.array_equal(getattr(part, each), getattr(of_whole, each)) for each in COLUMNS)
    assert all(np.array_equal(getattr(laid_out, each), getattr(whole, each)) for each in COLUMNS)


def test_of_a_batch_with_flushes_only_what_is_done_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random drive 102467: a fill of 2,600,000 writes, that was cut short two hundred times."""
    laid_out = list[int]()

    def counted(io: IoBatch, group: int) -> IoBatch:
        laid_out.append(len(io))
        return with_flushes(io, group)

    monkeypatch.setattr(durable_writes, "with_flushes", counted)
    writes = IoBatch.writes(np.arange(1_000_000) * 4096, 4096)
    assert len(FlushedBatch(writes, 64).part(0, 4096)) == 4096
    assert sum(laid_out) < 5_000


def test_a_batch_with_flushes_that_is_done_in_short_pieces_is_laid_out_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random drive 102715: of 65,536 commands that each piece asked for a bound let through a few hundred."""
    laid_out = list[int]()

    def counted(io: IoBatch, group: int) -> IoBatch:
        laid_out.append(len(io))
        return with_flushes(io, group)

    monkeypatch.setattr(durable_writes, "with_flushes", counted)
    io = FlushedBatch(IoBatch.writes(np.arange(100_000) * 4096, 4096), 64)
    for done in range(0, len(io), 300):
        assert len(io.part(done, done + 10_000)) == min(10_000, len(io) - done)
    assert sum(laid_out) < 3 * 100_000
