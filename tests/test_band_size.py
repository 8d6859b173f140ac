"""Test 9 against emulated drives: bands are found to the MiB at all three places, or unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from one_test import known_of, run, truth_of
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import Evidence
from skylight.findings import UNKNOWN
from skylight.infer import stalls
from skylight.probe.band_size import BandSize
from skylight.probe.band_size.journaled import MIB, Band
from skylight.probe.band_size.readout import Fresh, stretch
from skylight.probe.band_size.verdict import at_place


@pytest.mark.parametrize(
    "name", ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st5000as0011", "st8000as0011"]
)
def test_bands_of_the_papers_drives(name: str, tmp_path: Path) -> None:
    """FACTS S9a: exact, at the first, middle and last address."""
    toml = read_profile(name)[0]
    truth = truth_of(toml)
    findings, evidence = run(BandSize(), toml, known_of(truth, without=("band_bytes",)), tmp_path / "r")
    assert findings[0].value == truth["band_bytes"]["value"]
    assert BandSize().draw(evidence, findings)


@pytest.mark.parametrize("kind", ["set-associative", "fully-associative", "journaled"])
def test_bands_of_drives_nobody_tuned_to(kind: str, tmp_path: Path) -> None:
    """Never off by more than the granularity, and unknown seldom."""
    unknown = 0
    for seed in range(1900, 1908):
        toml = _native.random_profile(seed, kind)
        truth = truth_of(toml)
        known = known_of(truth, without=("band_bytes",))
        (finding,), _ = run(BandSize(), toml, known, tmp_path / str(seed))
        if finding.value == UNKNOWN:
            # Cleaning in greedy or random order does not begin with the oldest or newest write: a known gap.
            unknown += not any(f'cleaning_order = "{order}"' in toml for order in ("greedy", "random"))
            continue
        assert isinstance(finding.value, dict)
        true = truth["band_bytes"]["value"]
        assert isinstance(true, dict)
        for place, size in true.items():
            assert abs(float(finding.value[place]) - float(size)) <= MIB, (kind, seed, place)
    assert unknown <= 1


def test_a_conventional_drive_has_no_bands(tmp_path: Path) -> None:
    """A property that a drive cannot have is absent, and nothing is done to it."""
    toml = read_profile("st4000nc001")[0]
    findings, evidence = run(BandSize(), toml, known_of(truth_of(toml)), tmp_path / "r")
    assert findings == [] and evidence.steps == []


def test_evidence_that_ends_early_says_nothing(tmp_path: Path) -> None:
    """A cut recording is unknown, wherever it was cut, and says how to go on."""
    toml = read_profile("st5000as0011")[0]
    known = known_of(truth_of(toml), without=("band_bytes",))
    _, evidence = run(BandSize(), toml, known, tmp_path / "r")
    for steps in range(1, len(evidence.steps), 4):
        cut = Evidence(evidence.test, evidence.target, evidence.steps[:steps])
        (finding,) = BandSize().infer(cut, known)
        assert finding.value == UNKNOWN and "--resume" in finding.why


def test_a_row_of_stalls_is_told_from_outliers_and_multiples() -> None:
    """The period is that of all stalls, however many slow writes lie between."""
    rng = np.random.default_rng(3)
    latency = 10_000_000 + rng.integers(0, 300_000, 4000)
    latency[rng.choice(4000, 30, replace=False)] += rng.integers(10_000_000, 200_000_000, 30)
    assert stalls.periodic(latency) is None
    latency[137::61] += 400_000_000
    found = stalls.periodic(latency)
    assert found is not None and (found.first, found.period) == (137, 61)


def test_a_stretch_survives_one_outlier_and_ends_at_the_edges() -> None:
    """One block that reads late inside the band does not cut it."""
    weights = np.array([-4.0, -4, 3, 3, -4, 3, 3, 3, -4, -4, 1, -4])
    assert stretch(weights, 5) == (2, 8)
    fresh = Fresh.of(np.full(4, 5e6), np.full(4, 5.1e6), 10e6)
    weighed = fresh.weights(np.array([5.05e6, 5.1e6, 9e6, 205e6]))
    assert np.all(weighed[:2] > 2) and np.all(weighed[2:] < -3)


def test_a_band_that_is_cut_off_is_not_taken_for_the_size() -> None:
    """The last band of a stretch is short: the band before it has the stretch's size."""
    size, middle = 200 << 30, 100 << 30
    before = Band("md", middle - 640 * MIB, middle - 600 * MIB, 5.0)
    own = Band("md", middle - 3 * MIB, middle + 8 * MIB, 5.0)
    behind = Band("md", middle + 600 * MIB, middle + 630 * MIB, 5.0)
    found = at_place("md", [before, own, behind], size)
    assert found is not None and found.size == 40 * MIB
    first_of_next = Band("md", middle, middle + 30 * MIB, 5.0)
    found = at_place("md", [before, first_of_next, behind], size)
    assert found is not None and found.size == 30 * MIB
