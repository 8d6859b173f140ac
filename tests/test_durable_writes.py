"""Volatile caches that stay on: which of a write and two FLUSHes behind it waits."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import IoLog, Op
from skylight.probe.durable_writes import ROUNDS, Rounds, Volatile, _on_disk, rounds

TURN_NS, WAY_NS = 5e6, 1.5e6


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
