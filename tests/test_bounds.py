"""A plan keeps its word: device time and bytes written stay within what was printed, whatever the drive does,
and a test that reaches its bound ends with what it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from one_test import suite_on_drawn
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import Evidence, IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import Known
from skylight.probe import Cost
from skylight.probe.procedure import CutShort, Replay
from skylight.probe.session import Session
from skylight.probe.spending_bound import Bound, BoundReached
from skylight.probe.suite import SuiteOptions, SuiteResult, accounts, infer_suite, run_suite
from skylight.probe.write_rates import WriteRates
from skylight.recording import Recording
from test_quick import Slow

S = 1_000_000_000
WRITES = IoBatch.writes(np.arange(2_000) * 4096, 4096)


@contextmanager
def session(bound: Bound, out: Path, latency_ns: int = S) -> Iterator[tuple[Session, Slow]]:
    engine = Slow(latency_ns, stops=True)
    recording = Recording.create(out, engine.describe(), {"writes": True}, 1)
    with recording.part("drive_type") as writer:
        yield Session(engine, writer, test="drive_type", seed=1, bound=bound), engine


def kept(out: Path) -> Evidence:
    evidence = Recording.open(out).evidence("drive_type")
    assert evidence is not None
    return evidence


def test_what_was_slow_alone_is_as_slow_in_a_queue() -> None:
    """Commands in a queue cannot be called back, and a drive that cleans for each takes as long for each."""
    bound = Bound(14_000 * S, 1 << 40)
    assert bound.fits(WRITES, 31) > 1_000
    one = IoBatch.writes([0], 4096)
    bound.spend(IoLog.of(one, np.zeros(1, np.uint64), np.array([600 * S], np.uint64)), 1)
    assert 1 <= bound.fits(WRITES, 31) * 600 * S <= bound.left_ns
    queue = Bound(14_000 * S, 1 << 40)  # so long because each waited for those before it
    waited = (np.arange(1, 32) * 20 * S).astype(np.uint64)
    queue.spend(IoLog.of(WRITES.part(0, 31), np.zeros(31, np.uint64), waited), 31)
    assert queue.fits(WRITES, 31) > 200 > queue.fits(WRITES, 1)


def after(latency_s: int, size: int = 4096) -> Bound:
    """A bound of 14,000 s of which one command has taken that long, and nothing else."""
    bound = Bound(14_000 * S, 1 << 40)
    log = IoLog.of(IoBatch.writes([0], size), np.zeros(1, np.uint64), np.array([latency_s * S], np.uint64))
    bound.spend(log, 1)
    return bound


def test_more_data_takes_longer_where_a_drive_cleans_before_each_part_of_a_write() -> None:
    """Seen of a full log: 404 s for a write of 256 KiB, 1,680 s for one of 1 MiB."""
    large = IoBatch.writes(np.arange(31) << 20, 1 << 20)
    assert after(400, 1 << 18).fits(large, 31) * 4 * 400 <= 13_600
    assert after(400, 1 << 20).fits(large, 31) > after(400, 1 << 18).fits(large, 31)


def test_time_is_kept_back_for_a_command_that_takes_longer_than_those_before_it() -> None:
    bound = after(1_000)
    bound.spend_ns(11_750 * S)
    assert bound.left_ns == 1_250 * S and bound.fits(WRITES) == 0, "a third longer than the slowest: 1,300 s"
    assert bound.why == "3 h 53 min of device time"
    assert after(1_000).fits(WRITES) >= 1


def log_of(io: IoBatch, latency_s: list[float]) -> IoLog:
    """Commands one after another that took so long each."""
    done_ns = np.cumsum(np.array(latency_s) * S).astype(np.uint64)
    return IoLog.of(io, np.concatenate([[np.uint64(0)], done_ns[:-1]]), done_ns)


class TestFlush:
    """A volatile cache answers writes at once; the FLUSH behind them then has a band cleaned for each."""

    MANY = IoBatch.flushed_writes(np.arange(2_000) * 4096, 4096)

    @staticmethod
    def after(writes: int, flush_s: float) -> Bound:
        bound = Bound(1_800 * S, 1 << 40)
        io = WRITES.part(0, writes)
        flush = IoBatch.make(Op.FLUSH, [0], 0)
        bound.spend(log_of(io, [0.001] * writes))
        bound.spend(log_of(flush, [flush_s]))
        return bound

    def test_no_more_is_written_than_a_flush_has_time_for(self) -> None:
        bound = self.after(65, 238.0)
        pace_s = 238 / 65
        for _ in range(100):
            if not (count := bound.fits(WRITES)):
                break
            bound.spend(log_of(WRITES.part(0, count), [0.001] * count))
            assert bound.left_ns > 0
        written = (bound.device_ns - 238 * S - bound.left_ns) / 0.001 / S - 65
        assert 100 < written < 1_562 / pace_s, "the FLUSH behind them ends in time"
        assert bound.fits(IoBatch.reads([0], 4096)) == 1, "no read waits for a FLUSH"
        assert bound.why == "30 min of device time"

    def test_a_flush_that_follows_each_write_waits_for_that_alone(self) -> None:
        assert self.after(65, 238.0).fits(self.MANY) == 64, "all of a piece"
        assert self.after(65, 0.3).fits(WRITES) == Bound(1_799 * S, 1 << 40).fits(WRITES)

    def test_a_flush_behind_a_long_group_waits_for_each_as_long_as_the_slowest_did(self) -> None:
        """Of random host-aware drive 120423 one FLUSH behind 150 blocks waited ten hours of a bound of eight:
        each block had a zone cleaned, and a write that did had taken four minutes by itself."""
        bound = Bound(28_800 * S, 1 << 40)
        bound.spend(log_of(WRITES.part(0, 1), [240.0]))
        op = np.append(np.full(150, int(Op.WRITE), np.uint8), np.uint8(Op.FLUSH))
        size = np.append(WRITES.size[:150], np.uint32(0))
        groups = IoBatch(np.tile(op, 2), WRITES.offset[:302], np.tile(size, 2))
        assert bound.fits(groups) < 100
        assert bound.fits(IoBatch.flushed_writes(WRITES.offset, 4096)) > 0, "one at a time fits"

    def test_what_one_write_waited_for_is_not_what_each_waits_for(self) -> None:
        """A merge of the map, or one band."""
        assert self.after(1, 9.0).fits(WRITES) > 100

    def test_a_flush_waits_for_no_more_than_a_volatile_cache_holds(self) -> None:
        """A host-aware drive was given up after an hour of eight: one FLUSH had waited for a zone to be
        cleaned, and none was needed behind the ten thousand writes of a mebibyte that came later."""
        large = IoBatch.writes(np.arange(2_000) << 20, 1 << 20)
        bound = self.after(65, 65.0)
        for _ in range(5):
            assert bound.fits(large) == 64, "all of a piece"
            bound.spend(log_of(large, [0.001] * len(large)))
        bound = self.after(65, 65.0)
        bound.spend(log_of(WRITES.part(0, 2_000), [0.001] * 2_000))
        assert bound.fits(WRITES) == 0, "a volatile cache holds two thousand blocks"

    @pytest.mark.parametrize(("seed", "kind"), [(99023, "journaled"), (99618, None)])
    def test_the_type_of_a_drive_that_cleans_a_band_for_each_write_that_it_had_cached(
        self, seed: int, kind: str | None, tmp_path: Path
    ) -> None:
        """Before, one FLUSH behind 2,000 writes took 5,324 s of a bound of 1,800 s, and one behind 128 of
        those that are to settle took 3,170 s."""
        result = suite_on_drawn(seed, tmp_path / "r", only=("drive_type",), kind=kind)
        assert [account.test for account in accounts(result) if not account.within] == []
        assert result.evidence[0].steps[-1].kind == "bound"


class TestSession:
    def test_a_stop_after_several_slow_commands_does_not_let_minutes_pass_for_each(
        self, tmp_path: Path
    ) -> None:
        """A cache that is full, behind a volatile cache: each read waited for 209 to 352 s, and 8 of 64 such
        are what the test of the drive type stops at."""
        with session(Bound(1_800 * S, 1 << 40), tmp_path / "r", 260 * S) as (one, engine):
            with pytest.raises(BoundReached):
                one.run("writes", WRITES, until=Stop(S, count=8, within=64))
                one.run("writes", WRITES)
            assert 1_000 * S < engine.now_ns <= 1_800 * S

    @pytest.mark.parametrize("latency_s", [0.1, 1.0, 9.0])
    def test_device_time_ends_a_run_in_time(self, latency_s: float, tmp_path: Path) -> None:
        with session(Bound(400 * S, 1 << 40), tmp_path / "r", round(latency_s * S)) as (one, engine):
            with pytest.raises(BoundReached):
                for _ in range(300):
                    one.run("writes", WRITES)
            assert engine.now_ns <= 400 * S
        steps = kept(tmp_path / "r").steps
        assert [steps[-1].kind, steps[-1].params["why"]] == ["bound", "6 min 40 s of device time"]

    @pytest.mark.parametrize("op", [Op.WRITE, Op.WRITE_FUA])
    def test_bytes_written_are_held_to_the_byte(self, op: Op, tmp_path: Path) -> None:
        with session(Bound(10**6 * S, 10 * 4096 + 1), tmp_path / "r") as (one, engine):
            one.run("reads", IoBatch.reads(np.arange(5) * 4096, 4096))
            with pytest.raises(BoundReached):
                one.run("writes", IoBatch.make(op, WRITES.offset, 4096))
            assert engine.sent == 5 + 10
        assert kept(tmp_path / "r").steps[-1].params["why"] == "40 KiB written"

    def test_a_stop_that_comes_first_is_no_bound(self, tmp_path: Path) -> None:
        with session(Bound(10**6 * S, 10 * 4096), tmp_path / "r") as (one, _):
            assert len(one.run("writes", WRITES, until=Stop(S // 2))) == 1

    def test_a_stop_counts_across_the_command_that_the_bound_was_looked_at_for(self, tmp_path: Path) -> None:
        with session(Bound(10**6 * S, 1 << 40), tmp_path / "r", 20 * S) as (one, engine):
            assert len(one.run("writes", WRITES, until=Stop(S, count=3, within=8))) == 3
            assert engine.sent == 3

    def test_pauses_are_device_time(self, tmp_path: Path) -> None:
        with session(Bound(1_000 * S, 1 << 40), tmp_path / "r") as (one, engine):
            one.pause("rest", 600.0)
            with pytest.raises(BoundReached):
                one.pause("rest", 600.0)
            assert engine.now_ns == 600 * S
        assert [step.kind for step in kept(tmp_path / "r").steps] == ["pause", "bound"]

    def test_a_replay_ends_at_the_same_step_and_says_why(self, tmp_path: Path) -> None:
        with session(Bound(10**6 * S, 10 * 4096), tmp_path / "r") as (one, _):
            one.run("some", IoBatch.writes([0, 4096], 4096))
            with pytest.raises(BoundReached):
                one.run("more", WRITES)
        replay = Replay(kept(tmp_path / "r"), Known())
        assert len(replay.run("some", IoBatch.writes([0, 4096], 4096))) == 2
        with pytest.raises(CutShort):
            replay.run("more", WRITES)
        assert replay.why_cut == "The test reached its bound of 40 KiB written before more."


def of_rates(out: Path, *, quick: bool = False, resume: bool = False) -> SuiteResult:
    options = SuiteOptions(only=("write_rates",), quick=quick, resume=resume)
    return run_suite(SimEngine.open("st5000as0011"), out, options)


class TestSuite:
    @pytest.mark.parametrize(
        "bound", [Cost(1, 90.0, 1 << 40), Cost(1, 1e6, 64 << 20), Cost(1, 600.0, 1 << 40)]
    )
    def test_a_test_at_its_bound_ends_with_what_it_has(
        self, bound: Cost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WriteRates, "estimate", lambda *_, **__: bound)
        result = of_rates(tmp_path / "r")
        account = accounts(result)[-1]
        assert account.test == "write_rates" and account.within
        found = {finding.name: finding for finding in result.findings}
        rates = found["random_write_rate"].value
        assert isinstance(rates, dict) and "one_at_a_time" in rates
        assert all("reached its bound of" in each.why for each in result.findings if not each.known)
        assert infer_suite(tmp_path / "r").findings == result.findings
        again = of_rates(tmp_path / "r", resume=True)
        assert again.findings == result.findings

    def test_a_run_that_was_cut_goes_on_to_the_same_bound(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WriteRates, "estimate", lambda *_, **__: Cost(1, 400.0, 1 << 40))
        whole = of_rates(tmp_path / "whole")
        engine = SimEngine.open("st5000as0011")
        run, calls = engine.run, iter(range(60))

        def cut(io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> object:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return run(io, depth=depth, until=until)

        engine.run = cut  # type: ignore[method-assign, assignment]  # a key is pressed
        with pytest.raises(KeyboardInterrupt):
            run_suite(engine, tmp_path / "cut", SuiteOptions(only=("write_rates",)))
        assert of_rates(tmp_path / "cut", resume=True).findings == whole.findings


@pytest.mark.parametrize("seed", [76003, 76011])
def test_a_whole_probe_of_a_random_drive_takes_no_more_than_was_printed(seed: int, tmp_path: Path) -> None:
    drive = _native.SimDrive(_native.random_profile(seed, None), "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    result = run_suite(SimEngine(drive, facts), tmp_path / "r", SuiteOptions())
    told = accounts(result)
    assert len(told) == len(result.evidence)
    assert [account.test for account in told if not account.within] == [], f"seed {seed}"
    short = [replace(account, planned=Cost(1, 1e-9, 0)) for account in told if account.device_seconds]
    assert not any(account.within for account in short)


def test_lone_commands_go_in_pieces_after_one_that_took_hours() -> None:
    """However slow those of a piece are, as far as it lets them, and one as slow as the slowest behind them:
    all of it is within the bound."""
    bound = Bound(28_800 * S, 1 << 40)
    one = IoBatch.writes([0], 4096)
    bound.spend(IoLog.of(one, np.zeros(1, np.uint64), np.array([5_944 * S], np.uint64)), 1)
    for _ in range(200):
        if not (count := bound.fits(WRITES)):
            break
        assert count >= 64
        alone_ns = bound.stop(1, None).latency_ns
        left_ns = bound.left_ns - count * alone_ns - 5_944 * S
        assert left_ns >= 0
        bound.spend_ns(count * alone_ns)
    assert bound.left_ns <= 1.4 * 5_944 * S, "pieces use what is not kept back"
