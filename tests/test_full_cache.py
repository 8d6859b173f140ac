"""On which medium a cache lies that is full before it is probed: seen on a platter, or not said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight import _native
from skylight.engines.conditions import engine_over
from skylight.evidence import TargetFacts
from skylight.findings import Finding
from skylight.infer.tail_probability import hypergeometric_tail
from skylight.probe.drive_type import full_cache
from skylight.probe.drive_type.full_cache import Looked, _beside
from skylight.probe.suite import SuiteOptions, run_suite

FULL = '[conditions]\nerase = "none"\nprior_use = "full"\nvolatile_cache = "{}"\n'
VOLATILE = pytest.mark.parametrize("volatile", ["ignores-flush", "off"])


def probed(seed: int, volatile: str, out: Path) -> tuple[dict[str, Finding], bool]:
    """The findings of test 1 on a drive whose cache is full, and whether blocks were looked at."""
    text = _native.random_profile(seed, "journaled")
    drive = _native.SimDrive(text, "drive.toml", seed, FULL.format(volatile))
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    result = run_suite(engine_over(drive, facts), out / "r", SuiteOptions(only=("drive_type",)))
    names = {step.name for evidence in result.evidence for step in evidence.steps}
    return {finding.name: finding for finding in result.findings}, full_cache.NAME in names


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
