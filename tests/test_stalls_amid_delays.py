"""Periods of stalls that other delays hide."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import F64
from skylight.infer.stalls import RarePeriod, slow_beyond, slow_ones
from skylight.infer.stalls_amid_delays import period_amid_delays
from skylight.probe.journal.map_merges import period_of

TURN_NS = 8_000_000
NONE = np.empty(0)


def found(latency_ns: F64, again_ns: F64 = NONE) -> RarePeriod | None:
    one, other = latency_ns.astype(np.int64), again_ns.astype(np.int64)
    return period_amid_delays(one, other, slow_beyond(one, TURN_NS), TURN_NS)


def lone_writes(rng: np.random.Generator, count: int, busy: float, longest_ns: float) -> F64:
    """Of writes of four revolutions, a share that others delay."""
    latency_ns = TURN_NS * rng.uniform(3.8, 4.2, count)
    latency_ns[rng.uniform(size=count) < busy] += rng.uniform(TURN_NS, longest_ns)
    return latency_ns


@pytest.mark.parametrize("repeated", [False, True])
def test_stalls_shorter_than_delays_in_the_bulk_have_their_period(
    rng: np.random.Generator, repeated: bool
) -> None:
    """100529, 100614 and 100644 drawn: merges of one revolution on disks that others use for a tenth of the
    time. Of a few, which caught their revolution, there is no stall."""
    runs = [lone_writes(rng, 8_000, 0.12, 12 * TURN_NS) for _ in range(2)]
    for run in runs:
        run[100::235] += 1.2 * TURN_NS
        run[[570, 1040, 5270]] = 4 * TURN_NS
    first = runs[0].astype(np.int64)
    assert period_of(first, slow_ones(first, TURN_NS)) is None, "without the lower limits"
    period = found(runs[0], runs[1] if repeated else NONE)
    assert period is not None and (period.every, period.offset, period.missed) == (235, 100, 3)
    assert period.hits == len(period.places(8_000)) - 3


def test_a_few_stalls_longer_than_any_delay_have_their_period(rng: np.random.Generator) -> None:
    """100545 drawn: four merges of 150 ms in 2,910 writes, among delays of up to 109."""
    latency_ns = TURN_NS * rng.uniform(3.8, 4.2, 2_910)
    latency_ns[rng.choice(2_910, 30, replace=False)] += np.linspace(1.0, 12.0, 30) * TURN_NS
    latency_ns[175::891] = np.array([18.8, 20.6, 18.9, 20.4]) * TURN_NS
    first = latency_ns.astype(np.int64)
    assert period_of(first, slow_ones(first, TURN_NS)) is None
    period = found(latency_ns)
    assert period is not None and (period.every, period.offset, period.hits) == (891, 175, 4)


def test_writes_all_of_which_waited_for_cleaning_have_no_period() -> None:
    """None is left of 102294's drawn: the probe ended with a traceback."""
    none = np.empty(0, np.int64)
    assert period_amid_delays(none, none, 1e6, 8e6) is None


@pytest.mark.parametrize("busy", [0.0, 0.1])
@pytest.mark.parametrize("tracks", [0.618034, 1.414214, 2.5246, 2.9045])
def test_delays_and_a_log_that_goes_on_along_its_tracks_have_no_period(
    rng: np.random.Generator, tracks: float, busy: float
) -> None:
    """Entries of so many tracks that reach the next one at a constant part of it stall nearly evenly, at many
    distances: of the third every 61st, of the fourth every 157th, if other places are not looked at."""
    for part in (0.01, 0.05, 0.09, 0.18):
        latency_ns = lone_writes(rng, 4_500, busy, 12 * TURN_NS)
        latency_ns += TURN_NS * (np.mod(np.arange(4_500) * tracks, 1.0) < part)
        assert found(latency_ns) is None
