"""A quick answer takes a minute of device time at most, whatever the drive does, and is not wrong for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from devices.catalogue import CATALOGUE
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import IoBatch, IoLog, SettingsReport, Stop, TargetFacts
from skylight.findings import UNKNOWN, Known
from skylight.probe.drive_type import DriveType
from skylight.probe.procedure import Replay
from skylight.probe.quick_budget import Budget
from skylight.probe.session import Session
from skylight.probe.suite import QUICK_SECONDS, SuiteOptions, SuiteResult, infer_suite, run_suite
from skylight.recording import Recording

MINUTE_S = 60.0
QUICK = SuiteOptions(quick=True)
LIMIT_NS = round(QUICK_SECONDS * 1e9)


def opened(seed: int) -> tuple[SimEngine, _native.SimDrive]:
    drive = _native.SimDrive(_native.random_profile(seed, None), "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    return SimEngine(drive, facts), drive


def last_sent_s(result: SuiteResult) -> float:
    return max(int(step.rows.submit_ns.max()) for step in result.evidence[0].steps if len(step.rows)) / 1e9


class Slow:
    """An engine whose every command takes as long as it is told, and that tells how many were sent."""

    def __init__(self, latency_ns: int, *, stops: bool) -> None:
        self.latency_ns, self.stops, self.now_ns, self.sent = latency_ns, stops, 0, 0
        self.size, self.can_write, self.repeatable = 1 << 34, True, True

    def describe(self) -> TargetFacts:
        return TargetFacts("sim", "sim:slow", self.size, 4096)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        done = 0
        submit = np.empty(len(io), np.uint64)
        for row in range(len(io)):
            submit[row] = self.now_ns
            self.now_ns += self.latency_ns
            done = row + 1
            log = IoLog.of(io.part(0, done), submit[:done], submit[:done] + np.uint64(self.latency_ns))
            if self.stops and until is not None and until.reached(log):
                break
        self.sent += done
        latency = np.full(done, self.latency_ns, np.uint64)
        return IoLog.of(io.part(0, done), submit[:done], submit[:done] + latency)

    def pause(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def settings(self, *, write_cache: bool, look_ahead: bool) -> AbstractContextManager[SettingsReport]:
        drive = _native.SimDrive(_native.random_profile(1, "ssd"), "drive.toml", 1)
        facts = TargetFacts("sim", "sim:x", drive.size_bytes, drive.block_bytes)
        return SimEngine(drive, facts).settings(write_cache=write_cache, look_ahead=look_ahead)

    def erase(self) -> bool:
        return False

    def close(self) -> None:
        pass


class TestMinute:
    @pytest.mark.parametrize(
        ("seed", "medium"),
        [
            (6000570, UNKNOWN),  # a flash cache that stalls for 5.3 s from the first writes on
            (6000200, "flash"),  # slow writes, and stalls of 0.9 s
            (181, "flash"),  # stalls of 0.4 s, then of 15 s
            (352, "flash"),  # a stall of 37 s
            (187, "flash"),  # two of 35 s
            (252, "flash"),  # many of 0.6 s
        ],
    )
    def test_drives_that_took_longer_are_found_out_in_it(
        self, seed: int, medium: str, tmp_path: Path
    ) -> None:
        engine, drive = opened(seed)
        result = run_suite(engine, tmp_path / "r", QUICK)
        found = {finding.name: finding.value for finding in result.findings}
        assert (found["drive_type"], found["cache_medium"]) == ("smr", medium)
        assert drive.now_ns / 1e9 <= MINUTE_S
        assert last_sent_s(result) <= QUICK_SECONDS
        assert infer_suite(tmp_path / "r").findings == result.findings

    @pytest.mark.parametrize("stops", [True, False])
    @pytest.mark.parametrize("latency_s", [0.9, 7.0, 70.0])
    def test_a_target_that_is_slow_throughout_is_given_up_in_time(
        self, latency_s: float, stops: bool, tmp_path: Path
    ) -> None:
        engine = Slow(round(latency_s * 1e9), stops=stops)
        result = run_suite(engine, tmp_path / "r", QUICK)
        assert {finding.value for finding in result.findings} == {UNKNOWN}
        if stops:
            assert engine.now_ns < LIMIT_NS + engine.latency_ns, "one command may be late, no more"
        assert last_sent_s(result) <= QUICK_SECONDS or not stops

    def test_a_run_that_was_cut_goes_on_to_the_same_evidence(self, tmp_path: Path) -> None:
        whole = run_suite(opened(6000570)[0], tmp_path / "whole", QUICK)
        engine, _ = opened(6000570)
        run, calls = engine.run, iter(range(12))

        def cut(io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return run(io, depth=depth, until=until)

        engine.run = cut  # type: ignore[method-assign]  # a key is pressed
        with pytest.raises(KeyboardInterrupt):
            run_suite(engine, tmp_path / "cut", QUICK)
        again = run_suite(opened(6000570)[0], tmp_path / "cut", SuiteOptions(quick=True, resume=True))
        assert again.findings == whole.findings
        steps = zip(again.evidence[0].steps, whole.evidence[0].steps, strict=True)
        assert all(one.rows.equals(other.rows) for one, other in steps)


READS = IoBatch.reads(np.arange(100) * 4096, 4096)


@contextmanager
def session(budget: Budget | None, out: Path) -> Iterator[Session]:
    engine = Slow(1_000_000_000, stops=True)
    recording = Recording.create(out, engine.describe(), {"writes": True}, 1)
    with recording.part("drive_type") as writer:
        yield Session(engine, writer, test="drive_type", seed=1, budget=budget)


class TestBudget:
    def test_steps_share_it_and_the_rest_is_kept(self, tmp_path: Path) -> None:
        with session(Budget(10_000_000_000), tmp_path / "r") as one:
            assert len(one.run("one", READS, share=0.4)) == 4
            assert not one.spent()
            assert len(one.run("two", READS)) == 6
            assert one.spent()
            assert len(one.run("three", READS)) == 0
        kept = Recording.open(tmp_path / "r").evidence("drive_type")
        assert kept is not None
        assert [step.params["left_ns"] for step in kept.steps] == [4_000_000_000, 6_000_000_000, 0]

    @pytest.mark.parametrize("seed", [6000570, 6000200, 9])
    def test_a_replay_takes_the_same_decisions(self, seed: int, tmp_path: Path) -> None:
        engine, known = opened(seed)[0], Known(quick=True)
        recording = Recording.create(tmp_path / "r", engine.describe(), {"writes": True}, 1)
        with recording.part("drive_type") as writer:
            live = Session(
                engine, writer, test="drive_type", seed=1, known=known, budget=Budget(LIMIT_NS // 4)
            )
            DriveType().measure(live)
        kept = recording.evidence("drive_type")
        assert kept is not None
        replay = Replay(kept, known)
        DriveType().procedure(replay, DriveType().begin())
        assert (replay.cut, replay.names) == ("", live.names)
        assert replay.spent() == live.spent()

    def test_without_one_nothing_is_cut(self, tmp_path: Path) -> None:
        with session(None, tmp_path / "r") as one:
            assert len(one.run("one", READS, share=0.1)) == 100

    def test_a_stop_is_found_across_pieces(self, tmp_path: Path) -> None:
        with session(Budget(200_000_000_000), tmp_path / "r") as one:
            assert len(one.run("one", READS, until=Stop(500_000_000, count=7, within=9))) == 7

    def test_a_job_is_as_long_as_nearly_all_commands_allow(self) -> None:
        """One slow command in hundreds, as of a busy host, does not make jobs of a few commands."""
        one = Budget(10_000_000_000)
        latency_ns = np.full(400, 10_000_000, np.uint64)
        latency_ns[7] = 500_000_000
        submit_ns = np.arange(400, dtype=np.uint64) * np.uint64(1_000_000_000)
        one.saw(IoLog.of(IoBatch.reads(np.arange(400) * 4096, 4096), submit_ns, submit_ns + latency_ns))
        assert one.piece(512, 10_000_000_000) == 20
        assert one.piece(512, 10_000_000_000, jobs=True) == 512
        assert one.piece(512, 1_000_000_000, jobs=True) == 100


@pytest.mark.parametrize("name", ["host-aware", "zone-mapper"])
def test_a_disk_in_place_at_its_start_alone_is_not_called_conventional(name: str, tmp_path: Path) -> None:
    """It was, at 0.92: a quick answer looked at the first 4 GiB alone."""
    device = next(each for each in CATALOGUE if each.name == name).make(1)
    result = run_suite(device, tmp_path / "r", QUICK)
    kind = next(finding for finding in result.findings if finding.name == "drive_type")
    assert kind.value in ("smr", UNKNOWN), kind.why
    assert infer_suite(tmp_path / "r").findings == result.findings
