"""Fast writes on slow and busy hosts: quick answers that rest on what is kept, not on how fast it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from fake_drives import MIB, FakeDrive, Traits
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.engines.sim_under_conditions import DRAWN, conditions_text, engine_over
from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import UNKNOWN, Finding
from skylight.infer.phase import Coherence
from skylight.probe.drive_type.landing_by_readback import REST_S
from skylight.probe.drive_type.quick_readback import BACK, BLOCKS, CONTROLS, FILLS, RESTS, Kept
from skylight.probe.drive_type.step_logs import writes_of
from skylight.probe.drive_type.write_latencies import KEEPS_UP_NS
from skylight.probe.suite import QUICK_SECONDS, SuiteOptions, SuiteResult, infer_suite, run_suite

TURN_NS = 10_170_000
TURNING = Coherence(TURN_NS, 0.9, 1.0, 1e-90, 1.0)
FLASH = Traits(kind="flash", jitter=0.01, jitter_absolute=0.1)
LYING = Traits(cache_writes=16_384, cache_switch=False, cache_report=False, obeys_flush=False)
QUICK = SuiteOptions(quick=True)
BUSY_SHARE = 0.35
BETWEEN_HALTS = 64
TOGETHER = 64
"""Cached writes among which a disk chooses the one that is under its head first."""


@dataclass
class Hosted(FakeDrive):
    """A fake drive whose commands spend time on the way, in which it writes out of its volatile cache; some
    of them wait for a busy host."""

    way: float = 0.0  # ms
    busy: float = 0.0  # ms more on average, of those that wait for the host
    busy_share: float = BUSY_SHARE
    spare: float = 0.0  # ms that the platter had to write out; negative, that it still needs
    passed: int = 0  # bytes of all commands
    copies: dict[int, int] = field(default_factory=dict)
    """Blocks of which the volatile cache keeps a copy, until as much as it holds has passed since then."""

    def command(self, op: int, offset: int, size: int) -> None:
        since = self.copies.get(offset) if op == Op.READ else None
        self.passed += size
        if since is None or self.passed - since > 4096 * self.traits.cache_writes:
            super().command(op, offset, size)

    def noise(self, took: float) -> float:
        way = self.way
        if self.busy and self.rng.random() < self.busy_share:
            way += float(self.rng.exponential(self.busy))
        self.spare += way
        while self.dirty and self.spare > 0:
            now = self.now
            self.write_out()
            self.spare, self.now = self.spare - (self.now - now), now  # meanwhile, not before the command
        return super().noise(took) + way

    def write_out(self) -> None:
        """The nearest of the oldest writes leaves the volatile cache."""
        t = self.traits
        oldest = [self.dirty[number] for number in range(min(TOGETHER, len(self.dirty)))]
        waits = []
        for offset, _ in oldest:
            track, within = divmod(offset, t.track_bytes)
            seek = (
                t.seek_track + (t.seek_full - t.seek_track) * abs(offset / self.size - self.position) ** 0.5
            )
            angle = within / t.track_bytes + track * t.skew
            waits.append(seek + (angle - (self.now + seek) / t.turn) % 1.0 * t.turn)
        nearest = int(np.argmin(waits))
        self.dirty.rotate(-nearest)
        self.copies.update(dict.fromkeys(range(oldest[nearest][0], sum(oldest[nearest]), 4096), self.passed))
        super().write_out()
        self.dirty.rotate(nearest)


@dataclass
class Halting(Hosted):
    """The same by a host that halts now and then between two commands, as where each run of fio takes long to
    start."""

    halt: float = 0.0  # ms

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        logs = []
        for first in range(0, len(io), BETWEEN_HALTS):
            self.noise_between()
            logs.append(super().run(io.part(first, min(first + BETWEEN_HALTS, len(io))), depth=depth))
        return IoLog.joined(logs)

    def noise_between(self) -> None:
        """The halt, in which a volatile cache is written out as behind commands."""
        self.now += self.halt
        self.spare += self.halt


def probed(drive: FakeDrive, out: Path) -> tuple[Finding, SuiteResult]:
    result = run_suite(drive, out / "r", QUICK)
    return next(each for each in result.findings if each.name == "drive_type"), result


def steps(result: SuiteResult) -> list[str]:
    return [step.name for step in result.evidence[0].steps]


@pytest.mark.parametrize(("way", "busy"), [(1.7, 0.0), (0.3, 6.0), (1.7, 3.0)])
def test_flash_is_told_on_a_slow_and_on_a_busy_host(way: float, busy: float, tmp_path: Path) -> None:
    finding, result = probed(Hosted(FLASH, way=way, busy=busy), tmp_path)
    assert finding.value == "smr" and BACK in steps(result), finding.why
    assert infer_suite(tmp_path / "r").findings == result.findings


CMR_DISK = Traits(kind="cmr")


def test_flash_is_told_where_the_host_hides_it_from_every_other_look(tmp_path: Path) -> None:
    """Nearly every command waits for the host, so writes are neither alike nor in place."""
    finding, result = probed(Hosted(FLASH, way=0.9, busy=2.0, busy_share=0.95), tmp_path)
    assert finding.value == "smr" and "flush" not in steps(result), finding.why
    assert "shows nothing on this host" in finding.why
    assert infer_suite(tmp_path / "r").findings == result.findings


@pytest.mark.parametrize("traits", [CMR_DISK, LYING], ids=["in place", "lying cache"])
def test_what_is_no_flash_is_not_called_so_on_such_a_host(traits: Traits, tmp_path: Path) -> None:
    for seed in range(6):
        drive = Hosted(traits, way=0.9, busy=2.0, busy_share=0.95, seed=seed)
        finding, _ = probed(drive, tmp_path / str(seed))
        assert finding.value in ("cmr", UNKNOWN), finding.why


def test_flash_is_found_where_halts_of_the_host_leave_no_time_to_fill_a_volatile_cache(
    tmp_path: Path,
) -> None:
    finding, result = probed(Halting(FLASH, way=0.3, halt=250.0), tmp_path)
    assert finding.value == "smr" and "they are in a flash cache" in finding.why, finding.why
    assert infer_suite(tmp_path / "r").findings == result.findings


def test_a_volatile_cache_that_lies_is_not_flash_where_the_host_halts(tmp_path: Path) -> None:
    for seed in range(3):
        finding, _ = probed(Halting(LYING, way=0.3, halt=250.0, seed=seed), tmp_path / str(seed))
        assert finding.value in ("cmr", UNKNOWN), finding.why


def test_a_fast_host_needs_none_of_it(tmp_path: Path) -> None:
    finding, result = probed(Hosted(FLASH, way=0.05), tmp_path)
    assert finding.value == "smr" and "kept" not in "".join(steps(result))


@pytest.mark.parametrize("way", [0.3, 1.7, 3.0])
def test_a_volatile_cache_that_keeps_up_with_the_host_and_lies_is_not_flash(
    way: float, tmp_path: Path
) -> None:
    """It says that it is off, and ignores FLUSH; at 3 ms a command it is never full."""
    finding, result = probed(Hosted(LYING, way=way), tmp_path)
    assert finding.value == UNKNOWN, finding.why
    back = next(step.rows for step in result.evidence[0].steps if step.name == BACK)
    assert float(np.median(back.latency_ns)) > 5e6, "they were read from the platter"
    assert "ignores FLUSH" in finding.why


def quick_of(profile: str, conditions: Path, out: Path) -> tuple[dict[str, object], SuiteResult]:
    """What a quick answer finds of a profile's drive under conditions in a file."""
    text, given = read_profile(profile)[0], conditions_text(str(conditions), 1) or ""
    drive = _native.SimDrive(text, "drive.toml", 1, given)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), out, QUICK)
    return {finding.name: finding.value for finding in result.findings}, result


@pytest.mark.parametrize(
    ("host", "late_s"),
    [
        ('transport = "1.7 ms"\nhost_gap = "50 us"\n', 0.0),
        ('transport = "0.2 ms"\nhost_gap = "3 ms"\n', 4.2e-3),
    ],
    ids=["each command is slow", "each command is late"],
)
def test_an_emulated_flash_cache_is_found_in_time(host: str, late_s: float, tmp_path: Path) -> None:
    """Each command of a host may be late, also between two steps, where no step counts it as its own."""
    conditions = tmp_path / "slow.toml"
    conditions.write_text(f"[conditions]\n{host}host_gap_jitter = 0.4\n")
    found, result = quick_of("emulated-smr-2", conditions, tmp_path / "r")
    assert (found["drive_type"], found["cache_medium"]) == ("smr", "flash")
    done = [step.rows for step in result.evidence[0].steps if len(step.rows)]
    between_s = RESTS * REST_S + len(done) * late_s
    assert max(int(rows.submit_ns.max()) for rows in done) / 1e9 <= QUICK_SECONDS + between_s


@pytest.mark.parametrize("gap_ms", [0.25, 0.5, 1.5, 3.0])
def test_a_log_behind_a_cache_that_lies_is_not_flash_where_the_host_waits(
    gap_ms: float, tmp_path: Path
) -> None:
    """The cache is written out between the commands, so it takes more than it holds. It was called flash.
    At 0.25 ms it is empty before two FLUSHes of eight."""
    conditions = tmp_path / "late.toml"
    conditions.write_text(
        '[conditions]\nvolatile_cache = "said-off"\nvolatile_cache_size = "64 MiB"\ntransport = "0.2 ms"\n'
        f'host_gap = "{gap_ms} ms"\nhost_gap_jitter = 0.4\n'
    )
    found, result = quick_of("emulated-smr-3", conditions, tmp_path / "r")
    assert (found["drive_type"], found["cache_medium"]) == ("smr", "disk")
    assert infer_suite(tmp_path / "r").findings == result.findings


def test_a_log_behind_a_volatile_cache_is_told_though_flush_finds_nothing(tmp_path: Path) -> None:
    """Drawn drive 529 has a cache that is on and said to be off; the link takes a millisecond, in which the
    drive writes out. It was called a flash cache."""
    drive = _native.SimDrive(
        _native.random_profile(529, None), "drive.toml", 529, conditions_text(DRAWN, 529) or ""
    )
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), tmp_path / "r", QUICK)
    found = {finding.name: finding.value for finding in result.findings}
    assert (found["drive_type"], found["cache_medium"]) == ("smr", "disk")
    assert infer_suite(tmp_path / "r").findings == result.findings


def kept(written_ms: float, control_ms: float, host_ms: float, rng: np.random.Generator) -> Kept:
    """Reads that wait for up to twice so long, and for the host on average so long."""
    written, control = (
        (rng.uniform(0, 2 * ms, count) + rng.exponential(host_ms, count) + 1) * 1e6
        for ms, count in ((written_ms, BLOCKS), (control_ms, CONTROLS))
    )
    return Kept(written.astype(np.int64), control.astype(np.int64), FILLS * MIB, TURNING)


class TestKept:
    def test_reads_alike_among_others_that_wait_are_of_flash(self, rng: np.random.Generator) -> None:
        assert kept(0.05, 9.0, 0.1, rng).says
        assert kept(0.05, 9.0, 1.5, rng).says
        assert kept(0.05, 9.0, 0.1, rng).confidence > 0.99

    def test_reads_that_wait_as_others_do_are_of_the_platter(self, rng: np.random.Generator) -> None:
        for _ in range(200):
            seen = kept(9.0, 9.0, 1.0, rng)
            assert seen.denies and not seen.says

    def test_where_no_other_waits_nothing_is_said(self, rng: np.random.Generator) -> None:
        assert not kept(0.05, 0.05, 0.1, rng).says

    def test_a_host_that_takes_longer_than_a_platter_hides_it(self, rng: np.random.Generator) -> None:
        assert not kept(0.05, 9.0, 20.0, rng).says

    def test_part_of_it_says_nothing(self, rng: np.random.Generator) -> None:
        whole = kept(0.05, 9.0, 0.1, rng)
        part = replace(whole, control_ns=whole.control_ns[:40])
        assert not part.says and not part.denies

    def test_what_is_missing_is_said_by_bytes_and_time(self, rng: np.random.Generator) -> None:
        """A host is called slow by what passed, not where a stall had spent the time before."""
        part = replace(kept(0.05, 9.0, 0.1, rng), between_bytes=128 * MIB, between_ns=16_000_000_000)
        assert "only 128 MiB did (8 MiB a second by this host)" in part.cut_words
        none = replace(part, between_bytes=0, between_ns=0).cut_words
        assert none.startswith("no time was left for the 640 MiB") and "by this host" not in none


def in_turns(rng: np.random.Generator, *, at_flush: bool, blur_ms: float) -> IoLog:
    """Writes, each with a FLUSH, of which one waits for the angle of its place and the other takes a random
    time: 32 places of four blocks, in rounds of 16."""
    places = rng.choice(256, 32, replace=False)
    order = np.concatenate([rng.permutation(np.repeat(group, 4)) for group in places.reshape(2, 16)])
    io = IoBatch.flushed_writes(order.astype(np.uint64) * np.uint64(16_384), 4096)
    angle, now = rng.uniform(0, 1, 256), 0.0
    submit, complete = np.zeros(len(io)), np.zeros(len(io))
    for row, op in enumerate(io.op.tolist()):
        submit[row] = now
        if (op == int(Op.FLUSH)) == at_flush:
            now += 1.0 + (angle[order[row // 2]] - (now + 1.0) / 10.17) % 1.0 * 10.17
        else:
            now += 0.2 + float(rng.exponential(blur_ms))
        complete[row] = now
    return IoLog.of(io, (submit * 1e6).astype(np.uint64), (complete * 1e6).astype(np.uint64))


class TestFlushedWrites:
    """Which of a write and its FLUSH waits for the platter."""

    @pytest.mark.parametrize("at_flush", [True, False])
    def test_either_shows_that_they_are_in_place(self, at_flush: bool, rng: np.random.Generator) -> None:
        log = in_turns(rng, at_flush=at_flush, blur_ms=5.0)
        writes = writes_of("writes-narrow", log, 4 << 20, flushed=True, place_bytes=16_384, turning=TURNING)
        assert writes.tied.rotates and writes.tied.period_ns == pytest.approx(TURN_NS, rel=0.01)

    def test_what_follows_no_place_hardly_ever_seems_to(self, rng: np.random.Generator) -> None:
        chances = []
        for _ in range(50):
            log = in_turns(rng, at_flush=False, blur_ms=5.0)
            log = replace(log, offset=rng.permutation(log.offset[::2]).repeat(2))
            found = writes_of(
                "writes-narrow", log, 4 << 20, flushed=True, place_bytes=16_384, turning=TURNING
            )
            chances.append(found.tied.p_value)
        assert min(chances) > 1e-4
        assert np.count_nonzero(np.array(chances) < 0.05) <= 8  # 2.5 expected if exact


def test_the_slow_host_begins_where_a_cache_may_keep_up() -> None:
    assert KEEPS_UP_NS == 750_000
