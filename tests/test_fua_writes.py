"""Writes with FUA behind a volatile cache that ignores FLUSH: whether they are obeyed, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from one_test import suite_on_drawn
from skylight import _native
from skylight.engines.sim_under_conditions import DRAWN, conditions_text, engine_over
from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe.drive_type import landing_by_fua
from skylight.probe.durable_writes import volatile, with_room
from skylight.probe.fua_writes import ForcedWrites, obeyed
from skylight.probe.known_state import State
from skylight.probe.session import Session
from skylight.probe.suite import SuiteOptions, run_suite
from skylight.recording import Recording

BLOCK, TURN_NS, CACHED_NS = 4096, 8_000_000, 1_000_000


class Target:
    """Writes end in a volatile cache, and FLUSH does nothing; one with FUA takes so much longer."""

    size, block_bytes, can_write = 1 << 34, BLOCK, True
    target = cast(Any, None)

    def __init__(self, medium: str, forced_ns: int, mib_ns: int = 0) -> None:
        """With its persistent cache on that medium, which takes so long for each MiB."""
        self.forced_ns, self.mib_ns, self.sent = forced_ns, mib_ns, np.empty(0, np.uint8)
        self.known = Known([
            Finding("rotation_ns", TURN_NS, "ns", None, 1.0, ""),
            Finding("cache_medium", medium, None, None, 1.0, ""),
        ])  # fmt: skip

    @staticmethod
    def rng(name: str) -> np.random.Generator:
        """Of the name's length."""
        return np.random.default_rng(len(name))

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Each command in its time, with a hundredth of jitter."""
        del name, depth, until
        self.sent = io.op
        forced_ns = self.forced_ns + io.size.astype(np.float64) / (1 << 20) * self.mib_ns
        took = CACHED_NS + forced_ns * (io.op == int(Op.WRITE_FUA))
        took = np.round(took * np.random.default_rng(1).uniform(1.0, 1.01, len(io))).astype(np.uint64)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)


@pytest.mark.parametrize(
    ("medium", "forced_ns", "mib_ns", "told"),
    [
        ("disk", 30_000_000, 0, True),
        ("disk", 0, 0, False),
        ("disk", 2 * CACHED_NS, 0, False),  # the kernel sent two FLUSHes, which did nothing
        ("disk", 2 * CACHED_NS + TURN_NS // 10, 0, False),
        ("disk", 100_000, 500_000, False),  # a disk waits for an angle, not for its data alone
        ("flash", 3 * CACHED_NS, 0, True),
        ("flash", 2 * CACHED_NS, 0, False),
        ("flash", 100_000, 500_000, True),  # less than a FLUSH takes, and data that has to be written
        ("flash", 100_000, 0, False),  # a slower command, whatever its data
        ("flash", 0, 0, False),
        ("flash", CACHED_NS, 500_000, False),  # as long as a FLUSH behind it, which the kernel may have sent
        ("flash", CACHED_NS, 1_500_000, True),  # and data that takes longer than two FLUSHes
    ],
)
def test_fua_is_obeyed_where_writes_wait_that_did_not(
    medium: str, forced_ns: int, mib_ns: int, told: bool
) -> None:
    assert obeyed(cast(Any, Target(medium, forced_ns, mib_ns))) is told


class FlushTarget(Target):
    """The same, where a FLUSH empties the cache but comes after it has written a block: a write with FUA is a
    write and a FLUSH that the kernel sends, which waits for what the medium still has to do."""

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Each command in its time, with a hundredth of jitter."""
        del depth, until
        forced_ns = self.forced_ns + io.size.astype(np.float64) / (1 << 20) * self.mib_ns
        took = CACHED_NS + np.maximum(forced_ns, CACHED_NS) * (io.op == int(Op.WRITE_FUA))
        took = np.round(took * np.random.default_rng(len(name)).uniform(1.0, 1.01, len(io))).astype(np.uint64)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)


@pytest.mark.parametrize(
    ("kind", "forced_ns", "seen"),
    [
        (Target, CACHED_NS // 2, True),  # a command of its own
        (Target, 11 * CACHED_NS // 10, True),
        (FlushTarget, 11 * CACHED_NS // 10, True),  # the FLUSH waits
        (FlushTarget, CACHED_NS // 2, False),  # the FLUSH takes longer than the medium, and hides it
    ],
)
def test_flushes_that_come_late_are_replaced_by_fua(kind: type[Target], forced_ns: int, seen: bool) -> None:
    """Where it is known that FLUSH empties the cache, FUA has to hide nothing."""
    target = kind("flash", forced_ns, 500_000)
    assert obeyed(cast(Any, target), late_flushes=True) is seen
    assert obeyed(cast(Any, target)) is (forced_ns < CACHED_NS and seen)


class BusyTarget(Target):
    """The same by a coarse clock, where a sixth of the writes with FUA wait for other clients of the disk."""

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Each command in its time, to the tick."""
        log, rng = super().run(name, io, depth=depth, until=until), np.random.default_rng(len(io))
        late_ns = 40_000_000 * ((rng.random(len(io)) < 1 / 6) & (io.op == int(Op.WRITE_FUA)))
        gaps_ns = rng.uniform(0.0, CACHED_NS, len(io))
        done = np.cumsum(log.latency_ns + late_ns + gaps_ns)
        begun = done - log.latency_ns - late_ns
        ticks = [(times // CACHED_NS * CACHED_NS).astype(np.uint64) for times in (begun, done)]
        return IoLog.of(io, *ticks)


@pytest.mark.parametrize(("forced_ns", "mib_ns", "told"), [(300_000, 500_000, True), (CACHED_NS, 0, False)])
def test_more_pairs_show_it_by_a_coarse_clock(forced_ns: int, mib_ns: int, told: bool) -> None:
    """As of 100849 drawn: a few say so more often than not, no mean does."""
    target = BusyTarget("flash", forced_ns, mib_ns)
    assert not obeyed(cast(Any, target))
    assert obeyed(cast(Any, target), patient=True) is told


def test_no_one_sees_that_writes_are_forced() -> None:
    target = Target("disk", 30_000_000)
    io = IoBatch.flushed_writes(np.arange(8) * BLOCK, BLOCK)
    log = ForcedWrites(cast(Any, target)).run("writes", io)
    assert target.sent.tolist() == [int(Op.WRITE_FUA), int(Op.FLUSH)] * 8
    assert log.batch.op.tolist() == io.op.tolist()
    assert int(log.only(Op.WRITE).latency_ns.min()) >= CACHED_NS + target.forced_ns


class Jobs:
    """An engine that runs jobs of a program, which knows no FUA."""

    size, can_write, repeatable = 1 << 30, True, False

    def describe(self) -> TargetFacts:
        """A device."""
        return TargetFacts("device", "/dev/x", self.size, BLOCK)

    def name_jobs(self, name: str) -> None:
        """Named."""

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """None of them has FUA."""
        assert not np.any(io.op == int(Op.WRITE_FUA))
        del depth, until
        now = np.zeros(len(io), np.uint64)
        return IoLog.of(io, now, now + np.uint64(1))


def test_an_engine_without_fua_is_not_asked_for_it(tmp_path: Path) -> None:
    recording = Recording.create(tmp_path / "r", Jobs().describe(), {"writes": True}, 1)
    with recording.part("journal") as writer:
        session = Session(cast(Any, Jobs()), writer, test="journal", seed=1)
        assert len(session.run("forced", IoBatch.make(Op.WRITE_FUA, [0, BLOCK], BLOCK))) == 0
        assert len(session.run("plain", IoBatch.writes([0, BLOCK], BLOCK))) == 2


def test_the_sizes_of_a_journal_are_found_although_flush_is_ignored(tmp_path: Path) -> None:
    result = suite_on_drawn(97019, tmp_path / "r", only=("cache_size",))
    found = {finding.name: finding.value for finding in result.findings}
    assert found["cache_fill_bytes"] == pytest.approx(624_476_160, rel=0.03)


@pytest.mark.parametrize("said", ["ignores-flush", "off"])
def test_flash_shows_by_fua_where_flush_and_stalls_do_not(said: str, tmp_path: Path) -> None:
    """99406 keeps its data in flash behind a volatile cache that ignores FLUSH, with a stall of seconds in
    thousands of writes; the control is the same drive without that cache, which needs no FUA."""
    seed = 99406
    given, text = conditions_text(DRAWN, seed) or "", _native.random_profile(seed, None)
    given = given.replace('volatile_cache = "ignores-flush"', f'volatile_cache = "{said}"')
    drive = _native.SimDrive(text, "drive.toml", seed, given)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    found = {finding.name: finding.value for finding in result.findings}
    assert found == {"drive_type": "smr", "cache_medium": "flash"}
    names = {step.name for evidence in result.evidence for step in evidence.steps}
    assert (landing_by_fua.NAME in names) is (said == "ignores-flush")


class Crowded(Target):
    """Its persistent cache is full: each write behind the first few waits a minute, until it is emptied."""

    def __init__(self, wait_s: int) -> None:
        """Full."""
        super().__init__("flash", 0)
        self.wait_ns, self.resets = wait_s * 10**9, list[str]()

    def reset(self, name: str) -> State:
        """Empties it."""
        self.resets.append(name)
        self.wait_ns = 0
        return State.CLEAN

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Until it stops."""
        took = np.where((io.op == int(Op.WRITE)) & (np.arange(len(io)) > 8), self.wait_ns, 0) + CACHED_NS
        done = np.cumsum(took).astype(np.uint64)
        log = IoLog.of(io, done - took.astype(np.uint64), done)
        slow = np.flatnonzero(log.latency_ns >= (until.latency_ns if until else 1 << 60))
        return log.rows(slice(int(slow[1]) + 1)) if len(slow) > 1 else log


@pytest.mark.parametrize("wait_s", [0, 5, 60])
def test_a_full_cache_is_emptied_before_it_is_seen_what_a_volatile_one_does(wait_s: int) -> None:
    """101197 drawn: 512 rounds behind a full cache took the eight hours of the test of band size."""
    target = Crowded(wait_s)
    io = IoBatch.flushed_writes(np.arange(64, dtype=np.uint64) * np.uint64(1 << 20), BLOCK)
    log = with_room(cast(Any, target), "rounds", io)
    assert len(log) == len(io)
    assert target.resets == (["rounds-emptied"] if wait_s == 60 else [])
    assert int(log.latency_ns.max()) < 10**9 or wait_s == 5


@pytest.mark.parametrize(("slow", "said"), [((), "off"), ((0,), "off"), ((0, 1), "off"), ((0, 1, 2), "on")])
def test_one_flush_that_other_clients_delay_is_no_volatile_cache(slow: tuple[int, ...], said: str) -> None:
    """102010 drawn: a FLUSH behind a burst met another client, and was taken for one that wrote it out."""

    class Delayed(Target):
        bursts = 0

        @staticmethod
        def quiet() -> bool:
            return True

        def run(self, name: str, io: IoBatch, **options: Any) -> IoLog:
            log = super().run(name, io, **options)
            if name != "burst":
                return log
            late = np.where((io.op == int(Op.FLUSH)) & (self.bursts in slow), 80_000_000, 0).astype(np.uint64)
            self.bursts += 1
            return IoLog.of(io, log.submit_ns, log.complete_ns + late)

    assert volatile(cast(Any, Delayed("flash", 0)), reported=False) == said
