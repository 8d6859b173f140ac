"""On which medium a cache lies that is full before it is probed: seen on a platter, or not said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from one_test import suite_on_drawn
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import Op, TargetFacts
from skylight.findings import Finding
from skylight.infer.phase import NONE, Coherence
from skylight.infer.priors import CHOSEN
from skylight.infer.tail_probability import hypergeometric_tail
from skylight.probe.drive_type import full_cache_medium, landing_by_fua
from skylight.probe.drive_type.full_cache_medium import Looked, _beside
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.verdict import judge
from skylight.probe.drive_type.write_latencies import Writes
from skylight.probe.drive_type.writes_after_random_reads import Mixed
from skylight.probe.suite import SuiteOptions, accounts, run_suite

FULL = '[conditions]\nerase = "none"\nprior_use = "full"\nvolatile_cache = "{}"\n'
TURNING = Coherence(period_ns=8e6, share=0.9, scatter=30.0, p_value=1e-12, confidence=1.0)
WIDE = Writes("writes-wide", 1 << 30, True, np.array([60 * 10**9] * 9), NONE)
MS = 10**6
VOLATILE = pytest.mark.parametrize("volatile", ["ignores-flush", "off"])


def probed(seed: int, volatile: str, out: Path) -> tuple[dict[str, Finding], bool]:
    """The findings of test 1 on a drive whose cache is full, and whether blocks were looked at."""
    text = _native.random_profile(seed, "journaled")
    drive = _native.SimDrive(text, "drive.toml", seed, FULL.format(volatile))
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), out / "r", SuiteOptions(only=("drive_type",)))
    names = {step.name for evidence in result.evidence for step in evidence.steps}
    return {finding.name: finding for finding in result.findings}, full_cache_medium.NAME in names


@VOLATILE
def test_a_full_cache_on_a_platter_is_seen_there(volatile: str, tmp_path: Path) -> None:
    findings, looked = probed(95013, volatile, tmp_path)
    assert looked and findings["cache_medium"].value == "disk" and findings["drive_type"].value == "smr"


@VOLATILE
@pytest.mark.parametrize("seed", [35110, 35126])
def test_a_full_cache_of_flash_is_not_taken_for_one_on_a_platter(
    seed: int, volatile: str, tmp_path: Path
) -> None:
    findings, looked = probed(seed, volatile, tmp_path)
    assert looked
    assert findings["cache_medium"].value != "disk" and findings["drive_type"].value == "smr"


FEW_ENTRIES = """
schema = 1
name = "few-entries"
capacity = "4 TB"

[mechanics]
rpm = 13300
head_switch = "1.5 ms"
write_settle = "260 us"
seek = { fitted = { constant = "974 us", root = "4 us", linear = "7 ns" } }

[geometry]
surfaces = 12
layout = "horizontal-zones"
track_skew = "1.35 ms"
head_skew = "1.87 ms"
taper = { zones = 20, tracks = 654000, outer_sectors_per_track = 1216, inner_sectors_per_track = 784 }

[interface]
queue_depth = 32
command_overhead = "200 us"
host_gap = "430 ns"
write_cache = "222 MiB"
read_buffer = "52 MiB"

[flash]
read = "47 us"
write = "85 us"
bandwidth = "390 MB"

[layer]
kind = "journaled"
cache_medium = "flash"
quantum = "212 KiB"
entry_max = "3348 KiB"
places = 1140
place_watermark = 0.9
map_entries = 14000
cleaning = "aggressive"
idle = "820 ms"
cleaning_order = "fifo"
bands = [{ band = "5 MiB" }]
"""


def test_a_flash_cache_that_the_first_thousand_writes_fill_is_seen(tmp_path: Path) -> None:
    """Then nearly each write waits for a band. That no disk takes as long for as many shows after some
    hundreds; it stopped after 74, and the drive was unknown."""
    drive = _native.SimDrive(FEW_ENTRIES, "drive.toml", 1)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(SimEngine(drive, facts), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    findings = {finding.name: finding.value for finding in result.findings}
    assert findings["drive_type"] == "smr" and findings["cache_medium"] == "flash"
    assert all(account.within for account in accounts(result))


def test_a_flash_cache_that_the_first_writes_fill_is_seen_once_it_is_emptied(tmp_path: Path) -> None:
    """816134: 228 writes fill it. Emptied it was filled once more, and neither its medium nor what rests on
    that was known, 14 findings. A quarter as many each of writes alone, with reads between and with FLUSHes
    fit."""
    drive = _native.SimDrive(_native.random_profile(816_134, None), "drive.toml", 816_134)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(SimEngine(drive, facts), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    findings = {finding.name: finding.value for finding in result.findings}
    assert findings["drive_type"] == "smr" and findings["cache_medium"] == "flash"
    writes = {step.name: step.rows.only(Op.WRITE) for step in result.evidence[0].steps}
    assert len(writes["writes-wide"]) > 128 and 0 < len(writes["writes-wide-2"]) <= 64


SELDOM_FULL = """
schema = 1
name = "seldom-full"
capacity = "10.5 TB"

[mechanics]
rpm = 8350
head_switch = "840 us"
write_settle = "27 us"
seek = { fitted = { constant = "1.73 ms", root = "10.3 us", linear = "13.3 ns" } }

[geometry]
surfaces = 18
layout = "surface-serpentine"
track_skew = "1.9 ms"
head_skew = "1.9 ms"
taper = { zones = 52, tracks = 592500, outer_sectors_per_track = 2584, inner_sectors_per_track = 1280 }

[interface]
queue_depth = 32
command_overhead = "56 us"
host_gap = "18 us"
write_cache = "142 MiB"
write_cache_on = false
read_buffer = "8 MiB"
look_ahead = false

[flash]
read = "190 us"
write = "48 us"
bandwidth = "1400 MB"

[layer]
kind = "set-associative"
band = "15 MiB"
cache_medium = "flash"
cache = "1070 MiB"
watermark = 0.92
cleaning = "aggressive"
idle = "11 s"
"""


def test_flash_whose_bands_give_back_many_blocks_at_once_shows_by_what_a_block_costs(tmp_path: Path) -> None:
    """44 of 14,336 writes wait, and all of them take no longer than those of memory in front of an ordinary
    disk; some of what was written is home. Left alone, a block takes its band along: no memory does that."""
    drive = _native.SimDrive(SELDOM_FULL, "drive.toml", 1)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(SimEngine(drive, facts), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    findings = {finding.name: finding for finding in result.findings}
    assert findings["drive_type"].value == "smr" and findings["cache_medium"].value == "flash"
    # Of what was written last alone; bands make it shingled wherever its writes land.
    assert findings["cache_medium"].confidence <= CHOSEN["late alone, flash"]
    assert findings["drive_type"].confidence > findings["cache_medium"].confidence
    assert "takes its band along" in findings["drive_type"].why
    assert all(account.within for account in accounts(result))


@pytest.mark.parametrize(
    ("seed", "medium", "name"),
    [
        (99112, "disk", "writes-wide-since"),  # a FLUSH in 14 waits for a minute
        (
            97501,
            "disk",
            "writes-wide-since",
        ),  # reads wait too, and the second wait ends a step before its FLUSH
        (100591, "flash", "writes-early-since"),  # a write in 426 waits for two minutes
    ],
)
def test_two_waits_of_minutes_are_enough_where_each_entry_from_volatile_memory_waits(
    seed: int, medium: str, name: str, tmp_path: Path
) -> None:
    """Such a drive took the half hour that the test may take, and then nothing was known of it."""
    result = suite_on_drawn(seed, tmp_path / "r", only=("drive_type",))
    findings = {finding.name: finding.value for finding in result.findings}
    assert findings["drive_type"] == "smr" and findings["cache_medium"] == medium
    assert name in {step.name for step in result.evidence[0].steps}
    assert all(account.within for account in accounts(result))


def test_a_full_cache_behind_a_volatile_one_shows_by_what_reads_and_writes_wait_for(tmp_path: Path) -> None:
    """Most of its writes are quick, and reads between them wait for seconds: of such a drive nothing was
    known, though all of them together take longer than any disk's."""
    result = suite_on_drawn(99451, tmp_path / "r", only=("drive_type",))
    findings = {finding.name: finding.value for finding in result.findings}
    assert findings["drive_type"] == "smr" and findings["cache_medium"] == "disk"
    names = [step.name for step in result.evidence[0].steps]
    assert "writes-after-reads-on" in names and names[-1] == "written-looked-at"


def test_writes_with_a_flush_wait_for_bands_only_if_many_take_longer_than_any_disk() -> None:
    quick, band, retry = 15 * 10**6, 160 * 10**6, 40 * 10**9
    assert full_cache_medium.waits_for_bands(np.array([quick, band, band] * 85))
    assert not full_cache_medium.waits_for_bands(np.array([quick] * 256))
    assert not full_cache_medium.waits_for_bands(np.array([quick] * 255 + [retry]))
    assert not full_cache_medium.waits_for_bands(np.array(([quick] * 15 + [band]) * 16)), (
        "all together are not slow"
    )
    assert not full_cache_medium.waits_for_bands(np.array([6 * quick] * 256)), "none is as long as a band"


def test_what_a_full_cache_showed_stands_where_the_bound_ends_what_came_after_it_was_emptied() -> None:
    reads_ns = np.array([14 * 10**6] * 64)
    crowded = Observed(reads_ns=reads_ns, reads=TURNING, wide=WIDE, crowded_ns=WIDE.latency_ns)
    crowded.write_anew()
    assert judge(crowded, "sim").drive_type != "smr"
    crowded.why_cut = "The test reached its bound of 30 min of device time before writes-sustained-11."
    assert judge(crowded, "sim").drive_type == "smr"


@pytest.mark.parametrize("flushes", [0, 8])
def test_writes_with_fua_show_the_medium_of_a_cache_that_plain_ones_filled(flushes: int) -> None:
    """101197 drawn: a volatile cache that ignores FLUSH took more blocks than 1,893 slots behind it, and no
    write to an emptied drive showed more than that reads waited for minutes."""
    rng, count = np.random.default_rng(1), 192
    seen = Observed(reads_ns=np.array([14 * MS] * 64), reads=TURNING, wide=WIDE, emptied=True)
    seen.crowded_ns, seen.flush_ns = np.array([200_000 * MS, 282_000 * MS]), np.full(flushes, MS)
    assert landing_by_fua.is_open(seen, "sim") is (flushes > 0)
    assert judge(seen, "sim").cache_medium != "flash"
    reads_ns = np.round(rng.uniform(4, 16, count) * MS).astype(np.int64)
    writes_ns = np.round(rng.uniform(1.5, 1.6, count) * MS).astype(np.int64)
    done_ns = np.cumsum(reads_ns + writes_ns).astype(np.uint64)
    seen.forced = Mixed(landing_by_fua.NAME, reads_ns, writes_ns, done_ns, TURNING)
    verdict = judge(seen, "sim")
    assert (verdict.drive_type, verdict.cache_medium) == ("smr", "flash")


@pytest.mark.parametrize(
    ("away", "controls_away", "told"), [(24, 0, True), (16, 2, True), (11, 0, False), (14, 16, False)]
)
def test_what_was_written_has_to_differ_from_the_control(away: int, controls_away: int, told: bool) -> None:
    looked = Looked(24, away, 32, controls_away)
    assert looked.on_platter == told
    assert looked.p_value == hypergeometric_tail(away, 56, away + controls_away, 24)


def test_controls_have_no_neighbours_that_were_written() -> None:
    written = np.array([100, 165, 400], np.uint64) * np.uint64(4096)
    beside = _beside(written, np.uint64(4096), 1 << 30) // np.uint64(4096)
    assert beside.tolist() == [229, 336, 464]
