"""A stop ends a run on a real target behind the same command as in virtual time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight.engines.device import DeviceEngine
from skylight.engines.early_stop import PIECE_IOS
from skylight.evidence import IoBatch, IoLog, Stop

COUNT = 200
FAST, SLOW = 1_000, 1_000_000


def ended(path: Path, slow: set[int], until: Stop, depth: int = 1) -> int:
    """How many commands run on a target of which these are slow."""
    path.write_bytes(bytes(64 << 20))
    engine = DeviceEngine.open(str(path))
    latency = np.array([SLOW if row in slow else FAST for row in range(COUNT)], np.uint64)
    submit = np.cumsum(latency) - latency

    def run(io: IoBatch, depth: int) -> IoLog:
        rows = (io.offset // np.uint64(4096)).astype(np.int64)
        return IoLog.of(io, submit[rows], submit[rows] + latency[rows])

    engine._run = run  # type: ignore[method-assign]  # a target with these times
    try:
        return len(engine.run(IoBatch.reads(np.arange(COUNT) * 4096, 4096), depth=depth, until=until))
    finally:
        engine.close()


@pytest.mark.parametrize("row", [0, 8, 15, 16, 37])
def test_nothing_follows_the_command_that_stalled(tmp_path: Path, row: int) -> None:
    assert ended(tmp_path / "file", {row}, Stop(SLOW)) == row + 1


def test_several_slow_commands_may_lie_in_several_pieces(tmp_path: Path) -> None:
    slow = {5, 20, 40, 60, 61}
    assert ended(tmp_path / "file", slow, Stop(SLOW, 3, 64)) == 41
    assert ended(tmp_path / "file", slow, Stop(SLOW, 2, 2)) == 62
    assert ended(tmp_path / "file", slow, Stop(SLOW, 3, 8)) == COUNT


def test_one_that_is_slow_enough_alone_ends_a_run(tmp_path: Path) -> None:
    assert ended(tmp_path / "file", {37}, Stop(SLOW // 2, 3, 8, alone_ns=SLOW)) <= 37 + 3


def test_a_bound_on_time_cuts_no_run_into_single_commands(tmp_path: Path) -> None:
    assert ended(tmp_path / "file", {37}, Stop(SLOW, alone_ns=SLOW)) == 3 * PIECE_IOS


def test_a_tight_bound_leaves_the_stop_of_a_test_exact(tmp_path: Path) -> None:
    assert ended(tmp_path / "file", {37}, Stop(SLOW, alone_ns=SLOW // 2)) == 38


def test_a_queue_is_not_emptied_at_every_command(tmp_path: Path) -> None:
    assert ended(tmp_path / "file", {5}, Stop(SLOW), depth=4) == 4 * PIECE_IOS
