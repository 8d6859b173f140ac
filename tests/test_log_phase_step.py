"""Test 1's evidence of where writes go: a log is seen however its steps spread, and chance is not a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import TargetFacts
from skylight.infer.log_phase_step import NO_ADVANCE, advance
from skylight.infer.phase import Coherence
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.drive_type.writes_after_random_reads import PAIRS, Mixed
from skylight.probe.suite import SuiteOptions, run_suite

MS = 1_000_000
TURN_MS = 8.0
TURNING = Coherence(TURN_MS * MS, 0.95, 0.99, 1e-30, 0.99)
STALL_MS = 400.0


def reads_of(rng: np.random.Generator, count: int = PAIRS) -> np.ndarray:
    """Latencies of random reads, ms."""
    return rng.uniform(2, 10, count) + rng.uniform(0, TURN_MS, count)


def mixed(reads_ms: np.ndarray, writes_ms: np.ndarray) -> Mixed:
    """The pairs as they follow one another on the clock."""
    done_ns = (np.cumsum(reads_ms + writes_ms) * MS).astype(np.uint64)
    return Mixed(
        "pairs", (reads_ms * MS).astype(np.int64), (writes_ms * MS).astype(np.int64), done_ns, TURNING
    )


def waiting_for(rng: np.random.Generator, angles: np.ndarray, jitter_ms: float = 0.0) -> Mixed:
    """Writes that each wait, after their read and a way of the arm, for an angle of the turn."""
    reads_ms = reads_of(rng, len(angles))
    now, writes_ms = 0.0, []
    for read_ms, angle in zip(reads_ms, angles, strict=True):
        now += read_ms
        seek_ms = rng.uniform(1, 6)
        wait_ms = (angle - (now + seek_ms) / TURN_MS) % 1.0 * TURN_MS
        writes_ms.append(seek_ms + wait_ms + abs(rng.normal(0, jitter_ms)))
        now += writes_ms[-1]
    return mixed(reads_ms, np.array(writes_ms))


def uniform(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 1, PAIRS)


def track_and_a_half(rng: np.random.Generator) -> np.ndarray:
    """Angles of random blocks of a region twice as dense on one half of the turn."""
    return np.mod(rng.uniform(0, 1.5, PAIRS), 1.0)


def one_place(rng: np.random.Generator) -> np.ndarray:
    """Half of them end where a band was cleaned, in no order."""
    return np.where(rng.random(PAIRS) < 0.5, 0.3, rng.uniform(0, 1, PAIRS))


class TestLogs:
    @pytest.mark.parametrize("steps", [(0.45,), (0.2, 0.7), (0.1, 0.35, 0.6, 0.85), (0.1, 0.35, 0.6)])
    def test_entries_that_take_one_of_a_few_parts_of_a_turn(
        self, steps: tuple[float, ...], rng: np.random.Generator
    ) -> None:
        log = waiting_for(rng, np.cumsum(rng.choice(steps, PAIRS)), jitter_ms=0.04 * TURN_MS)
        assert log.logged and not log.level, log.steps
        assert log.logged_confidence > 0.98

    def test_two_parts_half_a_turn_apart_show_in_their_doubles(self, rng: np.random.Generator) -> None:
        log = waiting_for(rng, np.cumsum(np.resize([0.2, 0.7], PAIRS)))
        assert log.steps.times % 2 == 0 and log.steps.length > 0.99

    def test_a_log_that_hardly_moves(self, rng: np.random.Generator) -> None:
        assert waiting_for(rng, 0.3 + 0.001 * np.arange(PAIRS), jitter_ms=0.2).logged

    def test_stalls_do_not_hide_a_log(self, rng: np.random.Generator) -> None:
        log = waiting_for(rng, np.cumsum(rng.choice([0.2, 0.7], PAIRS)), jitter_ms=0.2)
        stalled = rng.random(PAIRS) < 0.2
        latency_ms = log.latency_ns / MS + np.where(stalled, np.ceil(STALL_MS / TURN_MS) * TURN_MS, 0.0)
        assert mixed(log.reads_ns / MS, latency_ms).logged


class TestChance:
    @pytest.mark.parametrize("angles", [uniform, track_and_a_half, one_place])
    def test_the_chance_is_one(
        self, angles: Callable[[np.random.Generator], np.ndarray], rng: np.random.Generator
    ) -> None:
        """Angles in no order: a chance of at most 0.05 comes up in one of twenty, give or take luck."""
        trials = 60
        found = [waiting_for(rng, angles(rng)) for _ in range(trials)]
        low = sum(pairs.steps.p_value <= 0.05 for pairs in found)
        assert binomial_tail(low, trials, 0.05) > 1e-6, low
        assert not any(pairs.logged or pairs.level for pairs in found)

    def test_too_few_say_nothing(self, rng: np.random.Generator) -> None:
        few = waiting_for(rng, np.cumsum(np.full(12, 0.4)))
        assert few.steps == NO_ADVANCE and not few.logged and not few.level
        assert advance(np.empty(0, np.uint64), 1e7) == NO_ADVANCE
        assert advance(np.arange(100, dtype=np.uint64), 0.0) == NO_ADVANCE

    def test_completions_at_one_angle_are_alike_in_any_order(self) -> None:
        assert advance((np.arange(100) * 10 * MS).astype(np.uint64), 1e7).p_value == 1.0


class TestFullCache:
    def test_a_volatile_cache_that_writes_the_nearest_block_out_is_neither_log_nor_slow_flash(
        self, rng: np.random.Generator
    ) -> None:
        """It ignores FLUSH and is full: each write waits until one of many blocks was written in place, the
        one that comes round first. So close are these that the wait is short; the arm's way stays."""
        for blocks in (8, 64, 1024):
            reads_ms = rng.uniform(1.5, 2.0, PAIRS) + rng.uniform(0, TURN_MS, PAIRS)
            waits_ms = rng.exponential(TURN_MS / blocks, PAIRS)
            full = mixed(reads_ms, rng.uniform(1.5, 2.0, PAIRS) + waits_ms)
            assert not full.logged and not full.outlasts


class TestFlash:
    @pytest.mark.parametrize("stalls", [0.0, 0.1, 0.45])
    def test_writes_to_flash_pile_up_whatever_stalls(self, stalls: float, rng: np.random.Generator) -> None:
        latency_ms = 3.0 + rng.uniform(0, 0.2, PAIRS)
        latency_ms += np.where(rng.random(PAIRS) < stalls, rng.uniform(130, 160, PAIRS), 0.0)
        flash = mixed(reads_of(rng), latency_ms)
        assert flash.level and not flash.logged
        assert flash.level_confidence > 0.9

    def test_stalls_that_end_at_one_angle_are_not_a_log(self, rng: np.random.Generator) -> None:
        """The bands of a flash cache are cleaned on the platter: those stalls know an angle."""
        reads_ms = reads_of(rng)
        now, latency_ms = 0.0, []
        for number, read_ms in enumerate(reads_ms):
            now += read_ms
            wait_ms = STALL_MS - now % TURN_MS if number % 3 else 3.0
            latency_ms.append(wait_ms)
            now += wait_ms
        flash = mixed(reads_ms, np.array(latency_ms))
        assert flash.level and not flash.logged

    def test_only_slow_flash_takes_longer_than_a_volatile_cache(self, rng: np.random.Generator) -> None:
        reads_ms = reads_of(rng)
        for write_ms, longer in ((0.3, False), (3.0, False), (12.0, True)):
            pairs = mixed(reads_ms, write_ms + rng.uniform(0, 0.1, PAIRS))
            assert pairs.level and pairs.outlasts is longer
        assert not waiting_for(rng, uniform(rng)).outlasts


class TestRandomDrives:
    """Drives of used seeds that fixed or varying latencies said nothing of."""

    @pytest.mark.parametrize(
        ("seed", "medium", "quick"),
        [
            (9000074, "disk", True),  # entries cross one skew or two, half a turn apart
            (9000099, "disk", True),  # the same, and the entry of one quantum
            (9000187, "disk", True),  # three kinds of steps, and 2.5 % of jitter over four turns
            (9000159, "disk", True),  # a third of the writes stall for a second
            (7000008, "flash", True),  # entries of 21 ms: no time for more than a volatile cache holds
            (8000159, "flash", True),  # of 51 ms
            (9000271, "flash", True),  # of 9 ms, less than a turn
            (7000007, "disk", False),  # a jitter of a tenth of a turn
            (6000456, "flash", False),  # a third of the writes wait for cleaning
        ],
    )
    def test_are_told(self, seed: int, medium: str, quick: bool, tmp_path: Path) -> None:
        drive = _native.SimDrive(_native.random_profile(seed, None), "drive.toml", seed)
        facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
        options = SuiteOptions(quick=True) if quick else SuiteOptions(only=("drive_type",))
        findings = run_suite(SimEngine(drive, facts), tmp_path / "r", options).findings
        found = {finding.name: finding.value for finding in findings}
        assert (found["drive_type"], found["cache_medium"]) == ("smr", medium)
        assert min(finding.confidence for finding in findings) > 0.7  # a log or flash without its cost
