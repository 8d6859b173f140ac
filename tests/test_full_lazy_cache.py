"""Lazy drives that cannot be erased: what earlier tests left in the cache is cleaned before anything else."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.findings import Finding, Known
from skylight.probe.band_size.journaled import Filler, outlasts_test
from skylight.probe.cleaning import band_time, journal
from skylight.probe.cleaning.trials import Ground
from skylight.probe.known_state import State

BAND_NS, QUANTUM, FILL = 500_000_000, 128 << 10, 1 << 30


def known(fill: int = FILL) -> Known:
    """What the tests before find of a drive that takes half a second for a band."""
    values: dict[str, Any] = {
        "cache_fill_bytes": fill, "journal_quantum_bytes": QUANTUM,
        "cleaning_band_ns": {"one_block": BAND_NS, "half": BAND_NS},
    }  # fmt: skip
    return Known([Finding(name, value, None, None, 1.0, "") for name, value in values.items()])


class Target:
    """Each write takes so long."""

    size, block_bytes, can_write = 1 << 40, 4096, True

    def __init__(self, write_ns: int) -> None:
        """Nothing was written yet."""
        self.write_ns, self.known = write_ns, known()
        self.names: list[str] = []
        self.writes: dict[str, int] = {}

    def reset(self, name: str, **_: object) -> State:
        """Done."""
        self.names.append(name)
        return State.CLEAN

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """All of it."""
        del depth, until
        self.names.append(name)
        self.writes[name] = int(np.count_nonzero(io.op == int(Op.WRITE)))
        done = np.arange(1, len(io) + 1, dtype=np.uint64) * np.uint64(self.write_ns)
        return IoLog.of(io, done - np.uint64(self.write_ns), done)


@pytest.mark.parametrize("write_ns", [20_000_000, 400_000_000, 2 * BAND_NS, 30 * BAND_NS])
def test_a_cache_that_was_full_before_is_not_filled_until_it_stalls(write_ns: int) -> None:
    target = Target(write_ns)
    filler = Filler(cast(Any, target), "coarse", [])
    filler.decoys()
    full = filler.fill()
    assert full is (write_ns >= 2 * BAND_NS)
    assert ("coarse-fill" in target.names) is not full


def test_pushing_out_takes_a_band_for_each_place() -> None:
    # 8,192 places of half a second each are 68 minutes; a test has eight hours for two rounds and more.
    assert not outlasts_test(known())
    assert outlasts_test(known(2 * FILL))
    assert not outlasts_test(Known([]))


@pytest.mark.parametrize("noisy", [False, True])
def test_single_blocks_of_a_lazy_journal_have_no_copies(noisy: bool) -> None:
    target = Target(20_000_000)
    ground = Ground(cast(Any, target), flash=False, flushed=False, rotation_ns=1e7, noisy=noisy)
    journal.measure(ground, QUANTUM, journal.Seen())
    assert target.writes["lazy-one-marks"] == journal.EACH * band_time.CLUSTERS
