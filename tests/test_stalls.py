"""Statistics of stalls: at which even distance they come, if at one."""

import numpy as np
import pytest

from skylight.infer.stalls import periodic, rare_period


class TestRuns:
    """Stalls of a row that follow each other at once."""

    @pytest.mark.parametrize("run", [1, 2, 3])
    def test_those_between_the_stalls_are_no_part_of_a_run(self, run: int) -> None:
        """Other clients delay a tenth of the writes, for half as long as a stall."""
        rng = np.random.default_rng(run)
        latency_ns = np.where(rng.random(2300) < 0.1, 45_000_000, 800_000)
        for number in range(run):
            latency_ns[17 + number :: 23] = 90_000_000
        found = periodic(latency_ns)
        assert found is not None and (found.period, found.run) == (23, run)


class TestPeriod:
    """Stalls that come again, and those that only look so."""

    def test_scattered_stalls_have_none(self) -> None:
        rng = np.random.default_rng(7)
        hits = sum(rare_period(rng.random(6400) < 0.005) is not None for _ in range(40))
        assert hits == 0

    def test_one_missing_stall_is_no_period(self) -> None:
        slow = np.zeros(2000, bool)
        slow[99::100] = True
        assert rare_period(slow) is not None
        slow[799] = False
        assert rare_period(slow) is None

    def test_a_write_that_does_not_count_makes_all_later_stalls_one_later(self) -> None:
        """On a host-aware drive one that continues its zone is no entry of the log. What is left of other
        stalls lines up at six times the period."""
        slow = np.zeros(6400, bool)
        slow[386:3800:387] = slow[386 + 9 * 387 + 1 :: 387] = True
        slow[[185, 627, 6193]] = True
        found = rare_period(slow)
        assert found is not None and (found.every, found.offset, found.hits) == (387, 386, 16)
        assert slow[found.places(6400)].all()

    def test_the_first_period_may_be_the_longer_one(self) -> None:
        """As of a host-aware drive, seed 98802: stalls from 76, and from 154 on every 77 writes."""
        slow = np.zeros(6400, bool)
        slow[154::77] = slow[76] = True
        slow[[143, 419, 673]] = True
        found = rare_period(slow)
        assert found is not None and (found.every, found.offset, found.slips) == (77, 76, (154,))
        assert slow[found.places(6400)].all()
        slow[76] = False
        assert rare_period(slow) is None

    def test_a_row_that_slips_at_every_other_stall_is_none(self) -> None:
        slow = np.zeros(6400, bool)
        slow[np.cumsum([100, 101] * 31)] = True
        found = rare_period(slow)
        assert found is None or found.every == 201

    def test_two_stalls_are_too_few(self) -> None:
        slow = np.zeros(1000, bool)
        slow[[299, 599]] = True
        assert rare_period(slow) is None

    @pytest.mark.parametrize("seed", [5, 6, 15])
    def test_even_stalls_of_which_some_always_come_are_no_longer_period(self, seed: int) -> None:
        """104155 drawn: a log full of older data had a band cleaned at every 13th write, or nearly so, and of
        these stalls the 79th was never left out: 1,027 was said to be the period of the merges, 0.98."""
        slow = np.zeros(12_800, bool)
        shown = np.random.default_rng(seed).random(79) < 0.85
        shown[:4] = True
        slow[5::13] = np.resize(shown, len(slow[5::13]))
        assert rare_period(slow) is None

    @pytest.mark.parametrize("part", [2, 7, 13])
    def test_stalls_of_which_a_part_is_seen_are_no_longer_period(self, part: int) -> None:
        """Every 164th is slow, but only half of these show, and every so many of them always: the period of
        what always shows is not the drive's."""
        slow = np.zeros(6400, bool)
        slow[163::164] = np.random.default_rng(part).random(39) < 0.5
        slow[163 + 164 :: part * 164] = True
        assert rare_period(slow) is None
