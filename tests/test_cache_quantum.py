"""The quantum by which a cache is filled, from lone writes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog
from skylight.findings import Finding, Known, Value
from skylight.probe.cache_size.fill_check import Places
from skylight.probe.cache_size.journal import Quanta
from skylight.probe.procedure import Steps


class WritesBySize:
    """A target whose lone writes take what a function of their number and their size says, ms."""

    def __init__(self, known: Known, took_ms: Callable[[int, int], float]) -> None:
        self.known, self._took_ms, self._runs = known, took_ms, 0

    def run(self, _name: str, io: IoBatch) -> IoLog:
        self._runs += 1
        took_ns = 1e6 * self._took_ms(self._runs, int(io.size[0])) * np.linspace(0.98, 1.02, len(io))
        done = np.cumsum(took_ns + 1e5)
        return IoLog.of(io, (done - took_ns).astype(np.uint64), done.astype(np.uint64))


def quantum_of(values: dict[str, Value], took_ms: Callable[[int, int], float]) -> int | None:
    known = Known([Finding(name, value, None, None, 1.0, "") for name, value in values.items()])
    return Quanta(cast(Steps, WritesBySize(known, took_ms)), Places(10**12)).quantum()


@pytest.mark.parametrize(("busy_runs", "found"), [(0, 800 << 10), (4, 788 << 10)])
def test_a_drive_that_becomes_quicker_shows_no_other_quantum(busy_runs: int, found: int) -> None:
    """Random drive 100482 wrote out what a FLUSH had left in its volatile cache while the first sizes were
    measured: behind that all looked short, and three sizes were wrong. The control is a known quantum that is
    off."""
    edge = 800 << 10 if not busy_runs else 788 << 10

    def took_ms(run: int, size: int) -> float:
        return (30 if run <= busy_runs else 0) + 25 + 5 * ((size - 1) // edge)

    assert quantum_of({"journal_quantum_bytes": 788 << 10}, took_ms) == found


@pytest.mark.parametrize(("entry_ms", "found"), [(1.5, 460 << 10), (9.0, None)])
def test_ends_of_entries_at_even_distances_are_no_quanta(entry_ms: float, found: int | None) -> None:
    """Random drive 100496, whose entries of 460 KiB take two revolutions more each, with a quantum of 396."""
    values: dict[str, Value] = {
        "rotation_ns": 4_350_000, "track_bytes": {"od": 2 << 20, "id": 1 << 20}, "cache_medium": "disk",
    }  # fmt: skip
    assert quantum_of(values, lambda _, size: 13 + entry_ms * ((size - 1) // (460 << 10))) == found
