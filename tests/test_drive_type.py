"""Test 1 on fake drives of every kind: the right verdict or none, whatever stands in the way."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

from fake_drives import GIB, MIB, FakeDrive, Traits, random_traits, spoilt
from one_test import suite_on_drawn
from skylight.errors import UsageError
from skylight.evidence import IoBatch, IoLog, Op
from skylight.findings import UNKNOWN, Finding
from skylight.infer.phase import NONE, Coherence
from skylight.probe.drive_type import DriveType
from skylight.probe.drive_type.landing import UNEVEN, land, unevenness
from skylight.probe.drive_type.landing_by_readback import FEWEST_PLACES, ReadBack
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.step_logs import writes_of
from skylight.probe.drive_type.write_latencies import (
    LARGE_BYTES,
    Sustained,
    Writes,
    outlasts_everything,
    took_too_long,
)
from skylight.probe.progress import ProgressReport
from skylight.probe.suite import SuiteOptions, SuiteResult, draw_suite, infer_suite, run_suite

CMR = Traits(kind="cmr", jitter=0.01, jitter_absolute=0.1, outlier_rate=0.003)
SET = replace(CMR, kind="set-associative")
JOURNAL = replace(CMR, kind="journal")
FLASH = replace(CMR, kind="flash")
SSD = replace(CMR, kind="no-platter")


ONLY = ("drive_type",)


def probe(drive: FakeDrive, out: Path, options: SuiteOptions | None = None) -> SuiteResult:
    return run_suite(drive, Path(tempfile.mkdtemp(dir=out)) / "r", options or SuiteOptions(only=ONLY))


def found(result: SuiteResult) -> dict[str, Finding]:
    return {finding.name: finding for finding in result.findings}


def verdict(traits: Traits, out: Path, seed: int = 1) -> tuple[object, object]:
    options = SuiteOptions(seed=seed, only=ONLY)
    findings = found(probe(FakeDrive(traits, seed=seed), out, options))
    return findings["drive_type"].value, findings["cache_medium"].value


class TestVerdicts:
    @pytest.mark.parametrize(
        ("traits", "expected"),
        [
            (CMR, ("cmr", "none")),
            (SET, ("smr", "disk")),
            (replace(SET, cache_bands=1), ("smr", "disk")),
            (JOURNAL, ("smr", "disk")),
            (replace(JOURNAL, journal_turns=0.44, journal_waits=True), ("smr", "disk")),
            (FLASH, ("smr", "flash")),
            (SSD, ("not-rotating", "none")),
            (replace(SSD, read=1.5, spread=0.5, write_factor=3.0), ("not-rotating", "none")),
            (replace(CMR, turn=4.0, jitter=0.03, jitter_absolute=0.2, seek_full=25.0), ("cmr", "none")),
            (replace(SET, turn=4.0, jitter=0.03, jitter_absolute=0.2, band_bytes=4 * MIB), ("smr", "disk")),
            (replace(CMR, size_bytes=64 * MIB), ("cmr", "none")),
            (replace(SET, size_bytes=64 * MIB), ("smr", "disk")),
            (replace(SSD, size_bytes=4 * MIB), ("not-rotating", "none")),
        ],
    )  # fmt: skip
    def test_the_plain_cases(self, traits: Traits, expected: tuple[str, str], tmp_path: Path) -> None:
        assert verdict(traits, tmp_path) == expected

    def test_a_drive_with_many_cache_bands_needs_the_narrow_region(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(SET), tmp_path)
        evidence = result.evidence[0]
        steps = [step.name for step in evidence.steps]
        assert steps[:5] == ["settings", "reads", "writes-wide", "writes-after-reads", "writes-narrow"]
        assert all(step.startswith("settle-") for step in steps[5:])
        wide, narrow = (evidence.log(name).latency_ns for name in ("writes-wide", "writes-narrow"))
        quartiles = np.percentile(wide, [25, 50, 75])
        assert quartiles[2] - quartiles[0] > 0.25 * quartiles[1]
        quartiles = np.percentile(narrow, [25, 50, 75])
        assert quartiles[2] - quartiles[0] < 0.05 * quartiles[1]
        assert 9.7e6 < quartiles[1] < 10.6e6
        assert evidence.log("writes-narrow").offset.max() < 16 * MIB
        assert evidence.log("writes-wide").offset.max() < GIB

    def test_conventional_is_said_only_after_the_narrowest_region(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(CMR), tmp_path)
        steps = [step.name for step in result.evidence[0].steps]
        assert steps[steps.index("writes-narrowest") + 1] == "writes-elsewhere"
        unclear = [step for step in steps if step.startswith("writes-elsewhere-")]
        assert steps[-1 - len(unclear)] == "writes-elsewhere", (
            "parts that look like neither are looked at again"
        )
        assert "follow their address" in found(result)["drive_type"].why


class TestAfterReads:
    """Writes with a random read before each."""

    def test_a_journal_of_uneven_entries_is_a_log_on_the_platter(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(replace(JOURNAL, journal_turns=0.4, journal_waits=True)), tmp_path)
        assert [found(result)[name].value for name in ("drive_type", "cache_medium")] == ["smr", "disk"]
        assert "log on the platter" in found(result)["drive_type"].why

    def test_slow_flash_is_not_a_disk_though_its_writes_take_a_turn(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(replace(FLASH, flash_write=11.0)), tmp_path)
        assert [found(result)[name].value for name in ("drive_type", "cache_medium")] == ["smr", "flash"]
        assert "neither for the arm after a read nor for an angle" in found(result)["drive_type"].why

    def test_reads_that_need_no_platter_say_nothing(self, tmp_path: Path) -> None:
        slow = replace(FLASH, flash_write=11.0, lazy_unwritten=True)
        assert verdict(slow, tmp_path)[1] in ("flash", UNKNOWN)


class TestDoubt:
    """What looks like something else must not be called so."""

    def test_a_conventional_drive_with_a_stuck_write_cache_is_not_flash(self, tmp_path: Path) -> None:
        stuck = replace(CMR, cache_writes=65_536, cache_switch=False)
        for report in (True, None, False):
            assert verdict(replace(stuck, cache_report=report), tmp_path) == ("cmr", "none")
            kind, medium = verdict(
                replace(stuck, cache_report=report, cache_writes=1024, obeys_flush=False), tmp_path
            )
            assert (kind, medium) in {(UNKNOWN, UNKNOWN), ("cmr", UNKNOWN), ("cmr", "none")}

    @pytest.mark.parametrize(("writes", "value"), [(65_536, "cmr"), (1 << 21, UNKNOWN)])
    def test_a_stuck_cache_that_ignores_flush_is_waited_for_or_makes_it_unknown_with_a_mend(
        self, writes: int, value: str, tmp_path: Path
    ) -> None:
        drive = FakeDrive(
            replace(CMR, cache_writes=writes, cache_switch=False, cache_report=True, obeys_flush=False)
        )
        finding = found(probe(drive, tmp_path))["drive_type"]
        assert finding.value == value
        assert finding.known or (finding.confidence == 0.0 and "hdparm -W 0" in finding.why)

    @pytest.mark.parametrize("kind", ["cmr", "set-associative"])
    @pytest.mark.parametrize(
        "blocks",
        [256, 2048, 16_384, 65_536, *(pytest.param(n, marks=pytest.mark.long) for n in (131_072, 262_144))],
    )
    def test_a_bridge_that_swallows_flush_and_says_write_through_is_not_flash(
        self, kind: str, blocks: int, tmp_path: Path
    ) -> None:
        lying = replace(
            CMR, kind=kind, cache_writes=blocks, cache_switch=False, cache_report=False, obeys_flush=False
        )
        for seed in (1, 2, 3):
            drive = FakeDrive(lying, seed=seed)
            finding = found(probe(drive, tmp_path, SuiteOptions(seed=seed, only=ONLY)))["drive_type"]
            truth = "cmr" if kind == "cmr" else "smr"
            assert finding.value in (truth, UNKNOWN) and "flash cache." not in finding.why
            if finding.value == UNKNOWN and blocks >= 2048:
                assert "ignores FLUSH" in finding.why

    def test_fast_writes_are_doubted_until_they_are_plainly_slow(self, tmp_path: Path) -> None:
        lying = replace(CMR, cache_switch=False, cache_report=False, obeys_flush=False)
        for blocks, pieces in ((2048, 1), (16_384, 5), (65_536, 10), (131_072, 12), (262_144, 16)):
            steps = probe(FakeDrive(replace(lying, cache_writes=blocks)), tmp_path).evidence[0].steps
            assert sum(step.name.startswith("writes-sustained") for step in steps) <= pieces

    def test_a_flash_cache_whose_bands_are_cleaned_is_flash(self, tmp_path: Path) -> None:
        for band in (4 * MIB, 40 * MIB):
            kind, medium = verdict(replace(FLASH, flash_band_bytes=band), tmp_path)
            assert kind in ("smr", UNKNOWN) and medium in ("flash", UNKNOWN)
        finding = found(probe(FakeDrive(replace(FLASH, flash_band_bytes=4 * MIB)), tmp_path))["drive_type"]
        assert finding.value == "smr" and "as for bands to be cleaned" in finding.why

    def test_a_flash_drive_too_small_to_fill_a_volatile_cache_is_unknown(self, tmp_path: Path) -> None:
        finding = found(probe(FakeDrive(replace(FLASH, size_bytes=64 * MIB)), tmp_path))["drive_type"]
        assert finding.value == UNKNOWN and "only 64 MiB more were written" in finding.why

    def test_a_shingled_drive_with_a_stuck_write_cache_is_still_seen(self, tmp_path: Path) -> None:
        stuck = replace(SET, cache_writes=65_536, cache_switch=False, cache_report=True)
        assert verdict(stuck, tmp_path) == ("smr", "disk")

    def test_slow_storage_without_a_rotation_is_unknown(self, tmp_path: Path) -> None:
        for spread in (0.01, 0.3, 0.8):
            assert verdict(replace(SSD, read=10.0, spread=spread), tmp_path) == (UNKNOWN, UNKNOWN)

    def test_look_ahead_that_stays_on_does_not_make_a_disk_an_ssd(self, tmp_path: Path) -> None:
        for traits in (CMR, SET, JOURNAL):
            for size in (16 * 1024, MIB):
                kind, _ = verdict(replace(traits, read_ahead_bytes=size), tmp_path)
                assert kind in {UNKNOWN, "cmr" if traits is CMR else "smr"}

    def test_blocks_never_written_do_not_make_a_disk_an_ssd(self, tmp_path: Path) -> None:
        for traits in (SET, JOURNAL):
            kind, _ = verdict(replace(traits, lazy_unwritten=True), tmp_path)
            assert kind in {UNKNOWN, "smr"}


class TestReadBack:
    """Blocks of places, written at different times, by how far they share the angle of their place."""

    def where(self, share: float, p_value: float) -> str:
        latency_ns = np.linspace(5e6, 15e6, 2 * FEWEST_PLACES).astype(np.int64)
        tied = Coherence(10e6, share, 1.0, p_value, 1.0)
        reads = Coherence(10e6, 0.9, 1.0, 1e-90, 1.0)
        return ReadBack(latency_ns, tied, 10e6, reads, FEWEST_PLACES).where

    def test_as_far_as_neighbours_at_home(self) -> None:
        assert self.where(0.85, 1e-25) == "home"

    def test_hardly_though_no_chance_is_a_part_of_a_cache_that_took_little(self) -> None:
        assert self.where(0.35, 1e-5) == "log"
        assert self.where(0.0, 0.5) == "log"

    def test_half_as_far_may_be_some_at_home(self) -> None:
        assert self.where(0.55, 1e-9) == "unknown"


@pytest.mark.parametrize(("each_ns", "held_mib"), [(200_000, 867), (1_500_000, 0), (2_200_000, 0)])
def test_what_a_disk_has_time_to_write_out_need_be_in_no_cache(each_ns: int, held_mib: int) -> None:
    """16,000 writes of 64 KiB: a host that takes as long for each as a disk does shows no large cache."""
    at = np.arange(16_000, dtype=np.uint64)
    done_ns = (at + np.uint64(1)) * np.uint64(each_ns)
    io = IoBatch.writes(at * np.uint64(LARGE_BYTES), LARGE_BYTES)
    log = IoLog(io.op, io.offset, io.size, at * np.uint64(each_ns), done_ns)
    assert Sustained.of([log]).held_bytes // MIB == pytest.approx(held_mib, abs=1)


@pytest.mark.parametrize(("tick_ns", "slow"), [(1_000_000, False), (0, True)])
def test_two_ticks_of_the_clock_are_no_wait_for_a_platter(tick_ns: int, slow: bool) -> None:
    """Writes of 1.4 ms take one or two ticks of a millisecond, as on drive 99245 drawn; by a fine clock two
    milliseconds are twice what others take."""
    latency_ns = np.where(np.arange(1_024) % 5 < 3, 1_000_000, 2_000_000)
    small = Writes("writes-wide", 1 << 30, False, latency_ns, NONE, tick_ns)
    large = Sustained(latency_ns, latency_ns, len(latency_ns) * LARGE_BYTES, 4)
    assert large.slow(small) == slow


@pytest.mark.parametrize(
    ("before", "stall_s", "cleans"), [(300, 1_600, True), (300, 100, False), (16_000, 700, False)]
)
def test_one_write_that_outlasts_a_disk_that_writes_out_everything_waits_for_bands(
    before: int, stall_s: int, cleans: bool
) -> None:
    """A path that fails over takes less, and so does a volatile cache that is written out."""
    latency_ns = np.append(np.full(before, 2_000_000), [stall_s * 1_000_000_000, 2_000_000])
    assert outlasts_everything(latency_ns) == cleans
    assert not outlasts_everything(latency_ns[:0])


def drawn(seed: int, path: Path) -> SuiteResult:
    """The result of the test alone on a random drive, under the conditions that its seed draws."""
    return suite_on_drawn(seed, path / "r", only=("drive_type",))


@pytest.mark.parametrize(("seed", "kind"), [(99995, "cmr"), (100163, "cmr"), (100009, "not-rotating")])
def test_a_slow_link_hides_no_type(seed: int, kind: str, tmp_path: Path) -> None:
    """Of 99995 and 100163 three of ten writes are done before their FLUSH comes, and take as long as the link
    does, of the latter give or take a pause of the host; a clock of 1 ms gave the blocks that 100009 reads
    back 3 ms, the least that a disk takes."""
    assert found(drawn(seed, tmp_path))["drive_type"].value == kind


def test_blocks_at_home_after_writes_slower_than_a_disk_are_no_sign_of_it(tmp_path: Path) -> None:
    """Behind a cache that ignores FLUSH bands of 4 MiB were cleaned for each of the last writes, in 55 ms;
    the blocks that were read back then lay at home, and it was a conventional disk at 0.99."""
    assert found(drawn(102852, tmp_path))["drive_type"].value == "smr"


@pytest.mark.parametrize("seed", [102026, 102506])
def test_ticks_hide_no_writes_in_place(seed: int, tmp_path: Path) -> None:
    """By a clock whose ticks are a quarter of the turn writes in place seemed fixed, or hardly to vary; more
    of them follow their address beyond any chance."""
    result = drawn(seed, tmp_path)
    assert found(result)["drive_type"].value == "cmr"
    assert "writes-narrowest-flushed-more" in [step.name for step in result.evidence[0].steps]


def test_small_bands_of_a_fast_disk_are_not_blocks_by_themselves(tmp_path: Path) -> None:
    """Bands of 4 MiB on a disk of 12,300 rpm go home in 54 ms, and older ones went first in the 64 s in which
    none of the sample moved: at 41 ms at most it was a conventional disk at 0.93."""
    result = drawn(102476, tmp_path)
    assert found(result)["drive_type"].value == "smr" and found(result)["drive_type"].confidence < 0.9


def flushed_writes(latency_ns: np.ndarray) -> Writes:
    """Writes with a FLUSH each, on a disk."""
    return Writes("writes", 4 << 20, True, latency_ns.astype(np.int64), Coherence(5e6, 0.9, 0.1, 0.0, 1.0))


def test_waits_that_a_link_hides_are_left_out(rng: np.random.Generator) -> None:
    wait_ns = rng.uniform(0, 5e6, 256)
    for link_ns in (0.0, 1.5e6, 2.2e6):
        assert unevenness(flushed_writes(np.maximum(wait_ns, link_ns) + 1e6), 5e6) < UNEVEN
    half = np.where(wait_ns < 2.5e6, wait_ns / 2, wait_ns)  # two levels, as of a log
    assert unevenness(flushed_writes(np.maximum(half, 1e5) + 1e6), 5e6) > 0.2
    assert unevenness(flushed_writes(np.where(wait_ns < 1.5e6, 1e6, 3e6 + wait_ns / 10)), 5e6) > UNEVEN


@pytest.mark.parametrize(("seed", "medium"), [(99594, "flash"), (77016, UNKNOWN), (99612, UNKNOWN)])
def test_what_the_bound_cut_short_counts(seed: int, medium: str, tmp_path: Path) -> None:
    """One write of a set-associative cache that cleans all bands of a cache band took longer than the bound,
    and was all that showed what the drive is."""
    result = drawn(seed, tmp_path)
    assert any(step.kind == "bound" for step in result.evidence[0].steps)
    assert found(result)["drive_type"].value == "smr" and found(result)["cache_medium"].value == medium
    assert infer_suite(tmp_path / "r").findings == result.findings


def test_writes_go_on_where_a_flush_waits_for_a_band(tmp_path: Path) -> None:
    """A full cache in flash behind a volatile one: a FLUSH waited for 10 s, and one behind all 18,432 of the
    sustained writes might have waited for each. The bound ended the test after 4,000 of them."""
    result = drawn(101211, tmp_path)
    names = [step.name for step in result.evidence[0].steps]
    assert "sustained-flush" in names and "bound" not in names
    assert found(result)["cache_medium"].value == "flash"


def read_back(early_ns: int, late_ns: int, *, others_read: bool) -> ReadBack:
    """32 places of which the block written last is read so, and the one before it so."""
    late = np.tile([late_ns, early_ns], 32)
    turning = Coherence(1e7, 0.9, 0.1, 0.0, 1.0)
    alone = late[::2] if others_read else np.empty(0, np.int64)
    return ReadBack(late, Coherence(0.0, 0.0, 0.0, 1.0, 0.0), 12e6, turning, 0, alone)


def test_what_is_kept_of_the_last_writes_is_in_flash_only_behind_other_reads() -> None:
    assert read_back(12_000_000, 200_000, others_read=True).where == "flash"
    assert not read_back(12_000_000, 200_000, others_read=True).all_unseen
    assert read_back(12_000_000, 200_000, others_read=False).where == "unknown"
    assert read_back(200_000, 200_000, others_read=False).all_unseen


class TestWithoutLeaveToWrite:
    @pytest.mark.parametrize(("traits", "expected"), [(CMR, UNKNOWN), (SET, UNKNOWN), (SSD, "not-rotating")])
    def test_nothing_is_written(self, traits: Traits, expected: str, tmp_path: Path) -> None:
        drive = FakeDrive(traits, can_write=False)
        result = probe(drive, tmp_path)
        assert drive.writes_done == 0
        assert all(set(step.rows.op.tolist()) <= {int(Op.READ)} for step in result.evidence[0].steps)
        finding = found(result)["drive_type"]
        assert finding.value == expected
        if expected == UNKNOWN:
            assert "--destroy-data" in finding.why and "10.17 ms" in finding.why


# So many that a share of them says something.
MANY = 24
DRIVES = pytest.mark.parametrize("drives", [8, pytest.param(MANY, marks=pytest.mark.long)])


class TestConfusion:
    """A small share of the campaign: random drives, none called what it is not."""

    @DRIVES
    def test_random_drives(self, drives: int, tmp_path: Path, seed: int) -> None:
        matrix: Counter[tuple[str, object]] = Counter()
        for number in range(drives):
            rng = np.random.default_rng([seed, number])
            traits, truth, medium = random_traits(rng)
            kind, cache = verdict(traits, tmp_path, number)
            matrix[truth, kind] += 1
            assert kind in (truth, UNKNOWN), (seed, number, traits)
            assert cache in (medium, UNKNOWN), (seed, number, traits)
        rotating = sum(n for (truth, _), n in matrix.items() if truth != "not-rotating")
        # Of a few drives one more may be unknown than the share allows.
        floor = 0.9 * rotating - (drives < MANY)
        assert matrix["cmr", "cmr"] + matrix["smr", "smr"] >= floor, matrix

    @DRIVES
    def test_random_drives_with_something_in_the_way(self, drives: int, tmp_path: Path, seed: int) -> None:
        for number in range(drives):
            rng = np.random.default_rng([seed, 1000 + number])
            traits, truth, medium = random_traits(rng)
            traits = spoilt(traits, rng)
            if traits.kind == "no-platter" or (traits.kind == "flash" and traits.lazy_unwritten):
                continue  # nothing of a platter shows
            kind, cache = verdict(traits, tmp_path, number)
            assert kind in (truth, UNKNOWN), (seed, number, traits)
            assert cache in (medium, UNKNOWN), (seed, number, traits)


class TestCourse:
    def test_settings_are_put_back(self, tmp_path: Path) -> None:
        drive = FakeDrive(CMR)
        probe(drive, tmp_path)
        assert drive.calls == ["settings", "restored"]
        assert drive.cache_on

    def test_no_block_is_read_twice_and_all_are_whole(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(FLASH), tmp_path)
        reads = result.evidence[0].log("reads").offset
        assert len(np.unique(reads)) == len(reads) == 256
        for step in result.evidence[0].steps:
            assert np.all(step.rows.offset % 4096 == 0)
            assert np.all(step.rows.offset + step.rows.size <= result.target.size_bytes)

    def test_progress_counts_up_to_the_whole(self, tmp_path: Path) -> None:
        seen: list[ProgressReport] = []
        run_suite(FakeDrive(SET), tmp_path / "r", SuiteOptions(only=ONLY), seen.append)
        done = [report.done_ios for report in seen]
        assert done == sorted(done) and seen[-1].done_ios == seen[-1].total_ios
        assert all(report.device_left_ns >= 0 for report in seen)
        assert max(np.diff(done)) <= 512

    def test_the_estimate_is_an_upper_bound(self, tmp_path: Path) -> None:
        for traits in (CMR, SET, JOURNAL, FLASH, SSD):
            drive = FakeDrive(traits)
            cost = DriveType().estimate(drive.describe())
            result = probe(drive, tmp_path)
            logs = [step.rows for step in result.evidence[0].steps]
            assert sum(len(log) for log in logs) <= cost.ios
            assert sum(int(log.only(Op.WRITE).size.sum()) for log in logs) <= cost.bytes_written
            assert drive.now / 1e3 <= cost.device_seconds

    def test_too_small_a_target_is_one_line(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="too small"):
            probe(FakeDrive(replace(SSD, size_bytes=4 * MIB - 4096)), tmp_path)

    def test_an_unknown_test_is_one_line(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="drive_type"):
            probe(FakeDrive(SSD), tmp_path, SuiteOptions(only=("drivetype",)))


class TestFigures:
    @pytest.mark.parametrize("traits", [CMR, SET, JOURNAL, FLASH, SSD])
    def test_axes_have_units_and_captions_say_how_to_read(self, traits: Traits, tmp_path: Path) -> None:
        figures = draw_suite(probe(FakeDrive(traits), tmp_path))
        assert [figure.name for figure in figures] == ["drive-type-writes", "drive-type-reads"]
        for figure in figures:
            assert isinstance(figure.figure, Drawing)
            axes = figure.figure.axes[0]
            assert "ms" in axes.get_xlabel() + axes.get_ylabel()
            assert len(figure.caption) > 80 and figure.alt
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                figure.figure.canvas.draw()

    def test_reads_alone_are_drawn_too(self, tmp_path: Path) -> None:
        result = probe(FakeDrive(CMR, can_write=False), tmp_path)
        assert [figure.name for figure in draw_suite(result)] == ["drive-type-reads"]


@pytest.mark.parametrize("why", ["The test was recorded by another version; probe again.", ""])
def test_evidence_of_another_version_is_not_called_cut_short(why: str) -> None:
    follows = Coherence(8e6, 1.0, 0.9, 1e-9, 0.999)
    seen = Observed(reads_ns=np.full(64, 9_000_000), reads=follows, why_cut=why)
    assert (why or "cut short before them; go on with --resume") in land(seen, "device").why
    assert not why or "--resume" not in land(seen, "device").why


@pytest.mark.parametrize(("waited_s", "counts"), [(148.1, True), (0.002, False)])
def test_a_write_that_waits_and_ends_a_step_before_its_flush_counts(waited_s: float, counts: bool) -> None:
    """As on drive 104038 drawn: the second of two waits for bands was left out, and with it the first."""
    ops = np.array([Op.WRITE, Op.FLUSH, Op.WRITE, Op.FLUSH, Op.WRITE], np.uint8)
    took_ns = np.array([154.8e9, 1e6, 1e6, 1e6, waited_s * 1e9]).astype(np.uint64)
    done_ns = np.cumsum(took_ns)
    where, size = np.arange(5, dtype=np.uint64) * 4096, np.full(5, 4096, np.uint32)
    log = IoLog(ops, where, size, done_ns - took_ns, done_ns, np.zeros(5, np.int64))
    writes = writes_of("writes-wide", log, GIB, flushed=True)
    assert len(writes.latency_ns) == (3 if counts else 2)
    assert took_too_long(writes.latency_ns, cached=0) == counts
