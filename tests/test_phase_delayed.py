"""Rotations that a busy host hides from most commands, and none where none is."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import F64, I64, U64
from skylight.infer import phase
from skylight.infer.phase import coherence, undelayed

ROUND, TURN_MS = 64, 10.17


def places_of(rng: np.random.Generator, rounds: int = 2) -> U64:
    """Rounds of 16 places of four blocks, in random order."""
    places = rng.choice(10_000, 16 * rounds, replace=False).reshape(rounds, 16)
    return np.concatenate([rng.permutation(np.repeat(group, 4)) for group in places]).astype(np.uint64)


def times(latency_ms: F64) -> tuple[U64, I64]:
    return np.cumsum(latency_ms * 1e6).astype(np.uint64), (latency_ms * 1e6).astype(np.int64)


def behind_a_busy_host(
    rng: np.random.Generator, place: U64, share: float, turn_ms: float = TURN_MS
) -> tuple[U64, I64]:
    """Completions and latencies of a platter whose host delays that share of the commands by part of a
    revolution or more, after which the next goes on."""
    angle = rng.uniform(0, 1, 10_000)
    now, took = 0.0, np.empty(len(place))
    for row, at in enumerate(place.tolist()):
        begin = now
        now += rng.uniform(1, 6)
        now += (angle[at] - now / turn_ms) % 1.0 * turn_ms
        now += float(rng.uniform(0.2, 3.2)) * turn_ms if rng.random() < share else 0.1
        took[row] = now - begin
    return times(took)


def is_right(found: phase.Coherence) -> bool:
    return found.rotates and abs(found.period_ns / (TURN_MS * 1e6) - 1) < phase.SAME_PERIOD


def test_the_quicker_half_shows_what_all_do_not(rng: np.random.Generator) -> None:
    alone, both = 0, 0
    for _ in range(20):
        place = places_of(rng)
        complete, latency = behind_a_busy_host(rng, place, 0.5)
        alone += is_right(coherence(complete, place, ROUND))
        both += is_right(undelayed(complete, latency, place, ROUND))
    assert both >= 10  # 13 to 15 with three seeds, and 1 to 3 by all commands alone
    assert alone <= 5


def test_nothing_changes_where_nothing_is_hidden(rng: np.random.Generator) -> None:
    place = places_of(rng)
    complete, latency = behind_a_busy_host(rng, place, 0.0)
    assert undelayed(complete, latency, place, ROUND) == coherence(complete, place, ROUND)


@pytest.mark.parametrize("turn_ms", [TURN_MS, TURN_MS / 2])
def test_no_other_period_passes_for_a_revolution(turn_ms: float, rng: np.random.Generator) -> None:
    """Half of it explains as much where commands are delayed, and twice as much never does."""
    right = 0
    for _ in range(12):
        place = places_of(rng, 4)
        found = coherence(behind_a_busy_host(rng, place, 0.25, turn_ms)[0], place, ROUND)
        right += found.rotates and abs(found.period_ns / (turn_ms * 1e6) - 1) < phase.SAME_PERIOD
    assert right >= 11


@pytest.mark.parametrize("kind", ["network", "bursts", "fixed"])
def test_of_what_knows_no_place_the_chances_are_honest(kind: str, rng: np.random.Generator) -> None:
    chances = []
    for _ in range(40):
        place = places_of(rng)
        latency = {
            "network": rng.exponential(8, len(place)) + 1,
            "bursts": 1 + rng.exponential(12, len(place)) * (np.arange(len(place)) // 9 % 3 == 0),
            "fixed": 6 + rng.uniform(0, 3, len(place)) + 30 * (rng.random(len(place)) < 0.2),
        }[kind]
        found = undelayed(*times(latency), place, ROUND)
        assert not found.rotates
        chances.append(found.p_value)
    assert np.count_nonzero(np.array(chances) < 0.05) <= 7  # 2 expected if exact
    assert min(chances) > 1e-4


@pytest.mark.parametrize("near", [True, False])
def test_near_a_known_period_only_that_is_found(near: bool, rng: np.random.Generator) -> None:
    place = places_of(rng)
    complete, _ = behind_a_busy_host(rng, place, 0.2)
    period_ns = TURN_MS * 1e6 * (1.0 if near else 0.8)
    found = coherence(complete, place, ROUND, near_ns=period_ns)
    assert found.rotates == near
    assert abs(found.period_ns / period_ns - 1) <= phase.SAME_PERIOD
