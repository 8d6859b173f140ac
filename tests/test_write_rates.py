"""Write rates: what they count, and what an emulated drive shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight.engines.sim import SimEngine
from skylight.evidence import IoBatch, IoLog
from skylight.findings import Known
from skylight.probe.suite import SuiteOptions, SuiteResult, infer_suite, run_suite
from skylight.probe.write_rates import last_part, rate


def probed(name: str, out: Path) -> SuiteResult:
    return run_suite(SimEngine.open(name), out, SuiteOptions(only=("write_rates",)))


def test_a_rate_counts_overlapping_writes_once() -> None:
    batch = IoBatch.writes(np.arange(4) * 4096, 4096)
    log = IoLog.of(
        batch, np.array([0, 0, 5, 5], np.uint64) * 10**8, np.array([5, 5, 10, 10], np.uint64) * 10**8
    )
    assert rate(log) == pytest.approx(4.0)


def test_with_the_cache_on_only_the_end_counts() -> None:
    batch = IoBatch.writes(np.arange(8) * 4096, 4096)
    submit = np.arange(8, dtype=np.uint64)
    log = IoLog.of(batch, submit, submit + np.uint64(1))
    assert list(last_part(log).submit_ns) == [6, 7]


def test_a_drive_that_packs_writes_gains_from_a_queue(tmp_path: Path) -> None:
    result = probed("st5000as0011", tmp_path / "r")
    known = Known(result.findings)
    lone, deep = (known.part("random_write_rate", way) for way in ("one_at_a_time", "31_waiting"))
    assert lone is not None and deep is not None
    assert deep / lone > 10
    assert infer_suite(tmp_path / "r").findings == result.findings
