"""Writes to zones: the edge of open zones, steps of a throughput, slow spells; made up, and recorded."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.evidence import I64
from skylight.infer.stalls import periodic
from skylight.infer.zone_throughput import Spell, edge, falls, slow_spells
from skylight.reproduce.hasmr import real_drive_recordings
from skylight.reproduce.hasmr.bursts import median_mbps
from skylight.reproduce.hasmr.sustained import blocking

MS = 1_000_000
recorded = pytest.mark.usefixtures("recordings_there")


def flushed(writes: int, spells: tuple[tuple[int, int], ...] = (), wait_ms: int = 2_200) -> I64:
    """Writes of 15 ms, every 240th of 900 ms, those of the spells (first, count) waiting for a zone."""
    latency = np.full(writes, 15 * MS, np.int64)
    latency[239::240] = 900 * MS
    for first, count in spells:
        latency[first : first + count] = wait_ms * MS
    return latency


def test_merges_are_no_spell() -> None:
    assert slow_spells(flushed(40_000)) == []


def test_spells_are_found_to_the_write() -> None:
    found = slow_spells(flushed(20_000, ((8_000, 300), (15_000, 50))))
    assert [(spell.first, spell.writes) for spell in found] == [(8_000, 300), (15_000, 50)]
    assert found[1].took_ns == 50 * 2_200 * MS


def test_a_spell_goes_on_through_fast_writes_between() -> None:
    latency = flushed(20_000)
    latency[8_000:8_300:2] = 2_200 * MS
    assert slow_spells(latency) == [Spell(8_000, 8_299, int(latency[8_000:8_299].sum()))]


def test_one_command_that_hangs_is_no_spell() -> None:
    latency = flushed(20_000)
    latency[5_000] = 9_000 * MS
    assert slow_spells(latency) == []


@pytest.mark.parametrize("latency", [np.empty(0, np.int64), np.full(3, 15 * MS, np.int64)])
def test_few_writes_have_no_spell(latency: I64) -> None:
    assert slow_spells(latency) == []


def test_the_first_multiple_is_the_edge() -> None:
    found = edge([4, 8, 16, 32], [1.0, 1.1, 5.0, 50.0])
    assert found is not None
    assert (found.last, found.beyond) == (8, 16)
    assert edge([4, 8, 16], [1.0, 3.9, 15.0]) is None


def test_steps_have_a_level_between_them() -> None:
    assert falls([100.0, 70.0, 50.0, 30.0]) == [(0, 3)]
    assert falls([100.0, 98.0, 97.0]) == []
    assert falls([100.0, 50.0, 49.0, 25.0]) == [(0, 1), (2, 3)]


@recorded
def test_the_recorded_edge_lies_between_120_and_140_zones() -> None:
    runs = real_drive_recordings.bursts("seq_contiguous", 4)
    found = edge(list(runs), [float(run.latency_ns.mean()) for run in runs.values()])
    assert found is not None
    assert (found.last, found.beyond) == (120, 140)


@recorded
@pytest.mark.parametrize("kind", ["seq_contiguous", "seq_scattered"])
def test_the_recorded_large_writes_fall_in_two_steps(kind: str) -> None:
    runs = real_drive_recordings.bursts(kind, 512)
    assert len(falls([median_mbps(run.latency_ns, 512) for run in runs.values()])) == 2


@recorded
@pytest.mark.parametrize(
    ("zones", "first", "writes", "seconds"), [(32, 34_934, 296, 523), (128, 34_933, 613, 1_269)]
)
def test_the_recorded_spells(zones: int, first: int, writes: int, seconds: int) -> None:
    """As the README beside the recordings has them."""
    found = blocking(real_drive_recordings.sustained(f"zones{zones:03}_512k_flush").latency_ns)
    assert found is not None
    assert found.spell.first == pytest.approx(first, abs=3)
    assert found.spell.writes == pytest.approx(writes, rel=0.06)  # 34 fast ones lie before a last slow one
    assert found.spell.took_ns == pytest.approx(seconds * 1e9, rel=0.02)
    assert found.usual_ns == pytest.approx(14.48 * MS, rel=0.02)
    assert found.after_ns == pytest.approx(14.9 * MS, rel=0.02)
    assert found.stall_every == 240
    assert found.stall_ns == pytest.approx(900 * MS, rel=0.05)


@recorded
@pytest.mark.parametrize(
    ("name", "stall_ms"), [("zones008_4k_flush_untimed", 455), ("zones008_512k_flush_untimed", 423)]
)
def test_the_recorded_stalls_come_every_240th_write(name: str, stall_ms: int) -> None:
    run = real_drive_recordings.sustained(name)
    found = periodic(run.latency_ns[:34_000])
    assert found is not None
    assert found.period == 240
    assert found.stall_ns == pytest.approx(stall_ms * MS, rel=0.02)


@recorded
def test_the_whole_drive_blocks_after_its_fast_writes() -> None:
    found = blocking(real_drive_recordings.sustained("wholedrive_run1_512k").latency_ns)
    assert found is not None
    assert found.spell.first == pytest.approx(56_074, abs=30)
    assert found.spell.took_ns / found.spell.writes == pytest.approx(5.24e9, rel=0.02)
