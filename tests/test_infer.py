"""The statistics: what counts as fixed, and when completions follow a rotation."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skylight.evidence import F64
from skylight.infer import phase
from skylight.infer.phase import coherence
from skylight.infer.robust import (
    FIXED_SPREAD,
    Spread,
    confidence_that,
    folded_spread,
    middle,
    uneven_spread,
)
from skylight.infer.tail_probability import binomial_tail, hypergeometric_tail, ratio_tail

MS = 1_000_000
ROUND = 64


def places_of(rng: np.random.Generator, rounds: int = 4) -> np.ndarray:
    """Labels as the tests lay them out: 16 places a round, four visits each, in random order."""
    return np.concatenate(
        [rng.permutation(np.repeat(np.arange(r * 16, r * 16 + 16), 4)) for r in range(rounds)]
    )


def platter(
    rng: np.random.Generator, place: np.ndarray, turn_ms: float, jitter_ms: float = 0.0
) -> np.ndarray:
    """Completion times of a disk: overhead and a random seek, then the wait for the place's angle."""
    angle = rng.uniform(size=place.max() + 1)
    now, complete = 0.0, []
    for p in place:
        now += 0.1 + rng.uniform(1, 12)
        now += (angle[p] - now / turn_ms) % 1.0 * turn_ms
        complete.append(now + abs(rng.normal(0, jitter_ms)) if jitter_ms else now)
    return (np.array(complete) * MS).astype(np.uint64)


class TestRobust:
    @pytest.mark.parametrize("turn_ms", [4.0, 10.17, 14.3])
    def test_a_missed_turn_with_the_worst_jitter_is_fixed(
        self, rng: np.random.Generator, turn_ms: float
    ) -> None:
        late = rng.normal(0, 0.03 * turn_ms, 513) + rng.uniform(0, 0.2, 513)
        latency = (turn_ms + np.diff(late)) * MS
        latency[rng.choice(512, 3)] += 150 * MS
        assert Spread.of(latency).fixed

    @pytest.mark.parametrize("turn_ms", [4.0, 10.17, 14.3])
    def test_a_wait_for_a_random_angle_varies(self, rng: np.random.Generator, turn_ms: float) -> None:
        latency = (rng.uniform(0, turn_ms, 256) + rng.uniform(0.5, 2.0, 256) + 0.5) * MS
        assert Spread.of(latency).varying
        assert not Spread.of(latency).fixed
        assert folded_spread(latency, turn_ms * MS) > 0.35
        assert uneven_spread(latency, turn_ms * MS) < 0.2

    def test_outliers_do_not_move_a_verdict(self) -> None:
        latency = np.full(500, 25 * MS)
        latency[::50] = 325 * MS
        spread = Spread.of(latency)
        assert spread.fixed and spread.median_ns == 25 * MS

    def test_folding_sees_through_missed_turns(self, rng: np.random.Generator) -> None:
        latency = ((rng.integers(1, 4, 300) + 0.45 + rng.normal(0, 0.01, 300)) * 10 * MS).astype(np.int64)
        assert not Spread.of(latency).fixed
        assert folded_spread(latency, 10 * MS) < FIXED_SPREAD
        assert uneven_spread(latency, 10 * MS) > 0.8

    def test_folding_wraps_around(self) -> None:
        latency = np.array([9.9, 10.1, 19.95, 0.05]) * MS
        assert folded_spread(latency, 10 * MS) < 0.03

    def test_confidence_falls_near_the_limit(self, rng: np.random.Generator) -> None:
        clear = (10 + rng.uniform(-0.1, 0.1, 400)) * MS
        close = (10 + rng.uniform(-1.2, 1.2, 400)) * MS
        fixed = [confidence_that(v.astype(np.int64), lambda d: Spread.of(d).fixed) for v in (clear, close)]
        assert fixed[0] > 0.99 > 0.95 > fixed[1] > 0.05
        assert confidence_that(clear.astype(np.int64), lambda d: False) < 0.01


class TestPhase:
    @pytest.mark.parametrize("turn_ms", [60e3 / 15_000, 60e3 / 7_200, 10.17, 60e3 / 4_200])
    @pytest.mark.parametrize("jitter", [0.0, 0.03])
    def test_finds_the_rotation(self, rng: np.random.Generator, turn_ms: float, jitter: float) -> None:
        place = places_of(rng)
        found = coherence(platter(rng, place, turn_ms, jitter * turn_ms), place, ROUND)
        assert found.rotates
        assert found.period_ns == pytest.approx(turn_ms * MS, rel=2e-3)
        assert found.share > 0.8
        assert found.confidence > 0.99

    def test_no_rotation_where_the_address_does_not_matter(self, rng: np.random.Generator) -> None:
        """Whatever it does in time, an address-blind target must not pass: 40 targets of each kind."""
        for _ in range(40):
            for latency in blind_latencies(rng):
                complete = np.cumsum(latency * MS).astype(np.uint64)
                found = coherence(complete, places_of(rng), ROUND)
                assert not found.rotates
                assert found.share < phase.LEAST_SHARE

    def test_p_values_of_blind_targets_are_honest(self, rng: np.random.Generator) -> None:
        p = []
        for _ in range(100):
            complete = np.cumsum(rng.exponential(6, 256) * MS).astype(np.uint64)
            p.append(coherence(complete, places_of(rng), ROUND).p_value)
        assert np.count_nonzero(np.array(p) < 0.05) <= 12  # 5 expected if exact; Bonferroni makes it fewer
        assert min(p) > 1e-4

    def test_a_log_that_is_late_by_turns_is_not_tied_to_addresses(self, rng: np.random.Generator) -> None:
        turns = np.cumsum(1.001 + rng.integers(0, 2, 256))
        found = coherence((turns * 10.17 * MS).astype(np.uint64), places_of(rng), ROUND)
        assert not found.rotates

    def test_too_quick_to_tell(self, rng: np.random.Generator) -> None:
        complete = np.cumsum(rng.exponential(0.05, 256) * MS).astype(np.uint64)
        assert coherence(complete, places_of(rng), ROUND) == phase.NONE

    def test_a_stall_costs_a_round_and_nothing_else(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = places_of(rng)
        complete = platter(rng, place, 10.17, 0.1)
        whole = coherence(complete[ROUND:], place[ROUND:], ROUND)
        tried: list[int] = []
        best = phase._best

        def counted(time_s: F64, groups: phase._Groups, hz: F64) -> float:
            tried.append(len(hz))
            return best(time_s, groups, hz)

        monkeypatch.setattr(phase, "_best", counted)
        for stall_s in (3, 600, 10**9):
            late = complete + (np.arange(256) >= 20) * np.uint64(stall_s * 10**9)
            found = coherence(late, place, ROUND)
            assert (found.period_ns, found.share) == pytest.approx((whole.period_ns, whole.share), rel=1e-9)
        assert whole.rotates
        assert max(tried) < 25_000

    def test_a_stall_in_every_round_tells_nothing(self, rng: np.random.Generator) -> None:
        place = places_of(rng)
        late = platter(rng, place, 10.17) + np.arange(256, dtype=np.uint64) // 50 * np.uint64(60 * 10**9)
        assert coherence(late, place, ROUND) == phase.NONE

    def test_evidence_beyond_all_measure_tells_nothing(self) -> None:
        rows = np.arange(1 << 17)
        assert coherence((rows * 10 * MS).astype(np.uint64), rows // 2, 4) == phase.NONE

    @pytest.mark.parametrize("rows", [0, 1, 63])
    def test_too_few_rows(self, rows: int) -> None:
        zeros = np.zeros(rows, np.uint64)
        assert coherence(zeros, zeros, ROUND) == phase.NONE

    def test_places_never_visited_twice_tell_nothing(self) -> None:
        rows = np.arange(256)
        assert coherence((rows * 10 * MS).astype(np.uint64), rows, ROUND) == phase.NONE

    def test_same_evidence_same_answer(self, rng: np.random.Generator) -> None:
        place = places_of(rng)
        complete = platter(rng, place, 10.17, 0.2)
        assert coherence(complete, place, ROUND) == coherence(complete.copy(), place.copy(), ROUND)


@given(st.lists(st.integers(0, 10**11), min_size=128, max_size=128), st.integers(0, 2**32))
def test_any_times_give_a_sound_answer(gaps: list[int], seed: int) -> None:
    place = places_of(np.random.default_rng(seed), rounds=2)
    found = coherence(np.cumsum(np.array(gaps, np.uint64) // 1000), place, ROUND)
    assert 0 <= found.p_value <= 1 and 0 <= found.confidence <= 1 and found.scatter <= 1.0000001


def blind_latencies(rng: np.random.Generator) -> list[np.ndarray]:
    """Latencies (ms) of targets that know no address: noise, one value, drift, a rate limit, few outliers."""
    count = 256
    few = np.full(count, 10.0)
    few[rng.choice(count, 3, replace=False)] += rng.uniform(5, 200, 3)
    return [
        rng.lognormal(np.log(5), 0.5, count),
        10 + rng.normal(0, 0.05, count),
        8 + np.cumsum(rng.normal(0, 0.05, count)).clip(-6, 20),
        few,
    ]


def test_the_turn_is_found_and_never_a_part_of_it(rng: np.random.Generator) -> None:
    """What comes round once a turn comes round twice in two: half a turn explains the phases as well."""
    for _ in range(40):
        period_ns = rng.uniform(4e6, 15e6)
        place = np.concatenate([rng.permutation(np.repeat(np.arange(16) + 16 * n, 4)) for n in range(16)])
        angle = rng.random(256)
        turns = np.cumsum(rng.integers(1, 4, len(place))) + angle[place]
        found = coherence((turns * period_ns + 1e9).astype(np.uint64), place, 64)
        assert found.rotates
        assert found.period_ns == pytest.approx(period_ns, rel=0.003)


class TestChance:
    """Against sums of exact fractions."""

    @given(st.integers(1, 60), st.integers(-1, 61), st.integers(0, 40))
    def test_a_binomial_tail(self, of: int, least: int, fortieths: int) -> None:
        chance = Fraction(fortieths, 40)
        hits = range(max(least, 0), of + 1)
        exact = sum((comb(of, hit) * chance**hit * (1 - chance) ** (of - hit) for hit in hits), Fraction(0))
        assert binomial_tail(least, of, fortieths / 40) == pytest.approx(float(exact), rel=1e-10)

    def test_a_tail_far_out_is_no_zero(self) -> None:
        exact = float(Fraction(1, 1000) ** 90 * comb(100, 90))
        assert binomial_tail(90, 100, 0.001) == pytest.approx(exact, rel=0.02)

    @given(st.integers(1, 30), st.data())
    def test_a_hypergeometric_tail(self, of: int, data: st.DataObject) -> None:
        marked, drawn = data.draw(st.integers(0, of)), data.draw(st.integers(0, of))
        least = data.draw(st.integers(0, of + 1))
        hits = [comb(marked, hit) * comb(of - marked, drawn - hit) for hit in range(drawn + 1)]
        exact = Fraction(sum(hits[least:]), sum(hits))
        assert hypergeometric_tail(least, of, marked, drawn) == pytest.approx(float(exact), rel=1e-12)

    @pytest.mark.parametrize(
        ("ratio", "one", "other", "tail"),  # tables of the F distribution, upper 5 % and 1 % points
        [(4.28387, 3, 3, 0.05), (19.0, 1, 1, 0.05), (2.97824, 5, 5, 0.05), (6.92661, 1, 6, 0.01)],
    )
    def test_a_ratio_of_variances_is_as_in_the_tables(
        self, ratio: float, one: int, other: int, tail: float
    ) -> None:
        assert ratio_tail(ratio, one, other) == pytest.approx(tail, rel=1e-4)


@given(st.lists(st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=40))
def test_the_middle_is_the_median(values: list[int]) -> None:
    assert middle(np.array(values)) == float(np.median(values))
