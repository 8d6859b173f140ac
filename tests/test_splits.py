"""Where an entry ends, from single writes to a log that could not be erased. Others are in `test_journal`."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.probe.journal.entry_space import Run
from skylight.probe.journal.splits import Splits

BLOCK, QUANTUM, TURN_NS = 4096, 300 << 10, 8e6
RUNS, STEP_TURNS = 15, 0.92
"""Runs of a size, and revolutions that a quantum takes: the end of a write hardly shows these."""

DRIVES, MOST = 24, 0.75


def written(rng: np.random.Generator, turns: dict[int, float]) -> Splits:
    """Writes of some sizes that take so many revolutions, of an entry that seems to end behind 7.2 quanta."""
    splits = Splits(BLOCK, QUANTUM, "disk", TURN_NS, STEP_TURNS * TURN_NS)
    splits.split = 7 * QUANTUM + QUANTUM // 4 // BLOCK * BLOCK
    splits.whole = splits.split - 8 * BLOCK
    one, same, more = splits.controls
    known = {splits.reference: 3.0, splits.whole: 3.0, one: 5.0, same: 5.0, more: 5.0 + STEP_TURNS}
    for size, each in (known | turns).items():
        for _ in range(RUNS):
            took = each + rng.normal(0, 0.15, 7)
            done_ns, latency_ns = np.cumsum(took) * TURN_NS, (took + rng.normal(0, 0.35, 7)) * TURN_NS
            run = Run(size, False, latency_ns.astype(np.int64), done_ns.astype(np.int64))
            splits.runs.setdefault(size, []).append(run)
    return splits


@pytest.mark.parametrize(
    ("same", "more", "confirmed"), [(5.0, 5.92, True), (5.0, 5.0, False), (5.92, 6.84, False)]
)
def test_times_show_a_quantum_that_hardly_shows_in_angles(same: float, more: float, confirmed: bool) -> None:
    """100563 and 100614 drawn, whose quanta take 0.9 and 0.95 of a revolution: an entry was seen to end,
    and the control did not see the quantum more behind it."""
    found = []
    for seed in range(DRIVES):
        controls = written(np.random.default_rng(seed), {}).controls
        splits = written(np.random.default_rng(seed), dict(zip(controls[1:], (same, more), strict=True)))
        found.append(splits.confirmed())
    assert (sum(found) > MOST * DRIVES) if confirmed else (sum(found) < (1 - MOST) * DRIVES)


@pytest.mark.parametrize(("more", "contradicted"), [(0.0, False), (0.2, False), (STEP_TURNS, True)])
def test_a_shorter_size_that_takes_a_quantum_more_is_a_contradiction_without_an_erase_too(
    more: float, contradicted: bool
) -> None:
    """99501 drawn: an entry of 3.7 MiB was taken for one of 4.7, though of sizes below that the longest of as
    many quanta took a quantum more. Where tracks differ a little, sizes do."""
    found = []
    for seed in range(DRIVES):
        first = 6 * QUANTUM + BLOCK
        splits = written(np.random.default_rng(seed), {first: 2.5, 7 * QUANTUM: 2.5 + more})
        found.append(splits.contradicted())
    assert (sum(found) > MOST * DRIVES) if contradicted else (sum(found) < (1 - MOST) * DRIVES)
