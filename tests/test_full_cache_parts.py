"""Which data bands share a cache band, where another host left most cache bands full: every write stalls."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, Op, Stop, are_writes
from skylight.infer.stalls import Stalls
from skylight.probe.band_size.cache_parts import CachePart
from skylight.probe.cleaning.set_associative import CacheBand, _scan
from skylight.probe.cleaning.trials import INSIDE, Ground

MS, MIB, BLOCK = 1_000_000, 1 << 20, 4096
"""ns; bytes."""
BAND, USABLE = 2 * MIB, MIB
PARTS = 3000
STALL_NS = 100 * MS


class FullParts:
    """Each of `PARTS` cache bands serves every so manieth data band of 2 MiB and takes 1 MiB; each but every
    fifth is full of what was written before, and some hold so much that one write does not empty them. A part
    of all writes waits for another client, and a FLUSH ends none."""

    block_bytes, size = BLOCK, 20_000 * BAND

    def __init__(self, late: float) -> None:
        """As another host left it."""
        rng = np.random.default_rng(20261130)
        self.used = np.where(np.arange(PARTS) % 5 > 0, USABLE, 0)
        self.older = rng.integers(1, 3, PARTS)
        self.used[0] = 0
        self.late, self.rng, self.steps, self.written = late, rng, 0, 0

    def run(self, name: str, io: IoBatch, *, until: Stop | None = None, **_: object) -> IoLog:
        """One at a time."""
        del name
        took = []
        for op, offset, size in zip(io.op, io.offset, io.size, strict=True):
            part, stalls = int(offset) // BAND % PARTS, False
            if op == int(Op.WRITE):
                stalls = self.used[part] + size > USABLE
                self.older[part] -= stalls
                if not stalls:
                    self.used[part] += size
                elif self.older[part] <= 0:
                    self.used[part] = size
            delayed = self.rng.random() < self.late
            took.append(STALL_NS if stalls or delayed else MS)
            if until is not None and took[-1] >= until.latency_ns:
                break
        self.steps += 1
        done = io.part(0, len(took))
        self.written += int(np.count_nonzero(are_writes(done.op)))
        ends = np.cumsum(took).astype(np.uint64)
        return IoLog.of(done, ends - np.array(took, np.uint64), ends)


@pytest.mark.parametrize("late", [0.0, 0.02])
def test_the_band_that_shares_a_cache_band_is_found_where_most_writes_stall(late: float) -> None:
    """101832 and 101355 have 41,888 and 64,461 cache bands, nearly all of them full. A step for each came to
    the bound of 8 h, in minutes of CPU, without an answer."""
    drive = FullParts(late)
    drive.older[0] = 0
    ground = Ground(cast(Any, drive), flash=False, flushed=False, rotation_ns=1e7)
    found = _scan(ground, CacheBand(USABLE, STALL_NS, pitch=BAND), Stop(int(0.6 * STALL_NS)))
    assert found == PARTS
    assert drive.steps < 300


@pytest.mark.parametrize("late", [0.0, 0.02])
def test_the_address_of_a_cache_part_is_found_where_most_writes_stall(late: float) -> None:
    drive = FullParts(late)
    drive.older[0] = 0
    found = Stalls(USABLE // BLOCK, USABLE // BLOCK, 3, STALL_NS, MS)
    part = CachePart(
        cast(Any, drive), "part", BLOCK, lambda index: INSIDE + index % 4 * BLOCK, found, 0, USABLE // BLOCK
    )
    assert part.first_held(np.arange(1, 20_000, dtype=np.uint64) * np.uint64(BAND)) == PARTS - 1
    assert drive.steps < 400


@pytest.mark.parametrize("flushed", [False, True])
def test_no_band_is_found_where_none_shares_it(flushed: bool) -> None:
    drive = FullParts(0.0)
    drive.older[0], drive.size = 0, (PARTS - 1) * BAND
    ground = Ground(cast(Any, drive), flash=False, flushed=flushed, rotation_ns=1e7)
    assert _scan(ground, CacheBand(USABLE, STALL_NS, pitch=BAND), Stop(int(0.6 * STALL_NS))) is None
    assert drive.written < 2 * drive.size // BAND + 100 * USABLE // BLOCK
