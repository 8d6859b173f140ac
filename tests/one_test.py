"""Runs one test of the suite on an emulated drive, as if the tests before it had found the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skylight import _native, probe
from skylight.engines.sim import SimEngine
from skylight.engines.sim_under_conditions import DRAWN, conditions_text, engine_over
from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe.session import Session
from skylight.probe.suite import SuiteOptions, SuiteResult, run_suite
from skylight.probe.zoned import zones_of
from skylight.recording import Recording
from skylight.truth import true_findings

GIVEN = (
    "drive_type", "cleaning_type", "rotation_ns", "cleaning_start_ns", "cleaning_band_ns",
    "cache_fill_bytes", "journal_quantum_bytes", "journal_entry_max_bytes", "out_of_band_ns",
    "cache_location", "cache_medium", "track_bytes", "band_bytes",
)  # fmt: skip


def few(drives: Iterable[object], *, of: Sequence[object]) -> list[Any]:
    """Parameters of a test: these drives, or as many, by default, and all with `--long`.

    What a test finds of the drives of `test_suite` by default is shown there."""
    by_default = list(drives)
    assert all(drive in of for drive in by_default), by_default
    return [
        pytest.param(
            *(drive if isinstance(drive, tuple) else (drive,)),
            marks=() if drive in by_default else pytest.mark.long,
        )
        for drive in of
    ]


def truth_of(toml: str) -> dict[str, dict[str, object]]:
    """What is true of a drive, by name."""
    found: dict[str, dict[str, object]] = true_findings(toml, "x")
    return found


def known_of(truth: dict[str, dict[str, object]], *, without: tuple[str, ...] = ()) -> Known:
    """As if the tests before had found the truth."""
    return Known(
        Finding(name, row["value"], None, None, 1.0, "")  # type: ignore[arg-type]  # JSON has the right types
        for name, row in truth.items()
        if row["measurable"] and name in GIVEN and name not in without
    )


def run(
    test: probe.Test, toml: str, known: Known, path: Path, *, in_zones: bool = False
) -> tuple[list[Finding], Evidence]:
    """Measures on a drive into a recording, reads it back, infers; with `in_zones`, on its zones with a write
    pointer, which stand for the whole of a host-aware drive."""
    drive = _native.SimDrive(toml, "drive", 1)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    recording = Recording.create(path, facts, {"writes": True}, 1)
    engine = SimEngine(drive, facts)
    part = zones_of(engine) if in_zones else None
    with recording.part(test.name) as writer:
        test.measure(Session(engine, writer, test=test.name, seed=1, known=known, part=part))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    return test.infer(evidence, known), evidence


def run_drawn(
    test: probe.Test, seed: int, kind: str | None, known: Known, path: Path, draw: int = 1
) -> tuple[list[Finding], Evidence]:
    """The same on a random drive, under the conditions that its seed draws; `draw` is the test's seed."""
    drive = _native.SimDrive(_native.random_profile(seed, kind), "drive", 1, conditions_text(DRAWN, seed))
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    recording = Recording.create(path, facts, {"writes": True}, 1)
    with recording.part(test.name) as writer:
        test.measure(Session(engine_over(drive, facts), writer, test=test.name, seed=draw, known=known))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    return test.infer(evidence, known), evidence


def suite_on_drawn(
    seed: int, path: Path, *, only: tuple[str, ...] = (), kind: str | None = None
) -> SuiteResult:
    """The suite, or some of its tests with what they build on, on a random drive under the conditions that
    its seed draws."""
    drive = _native.SimDrive(_native.random_profile(seed, kind), "drive", seed, conditions_text(DRAWN, seed))
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    return run_suite(engine_over(drive, facts), path, SuiteOptions(only=only))


def drawn_truth(seed: int, kind: str | None = None) -> dict[str, dict[str, object]]:
    """What is true of a random drive under the conditions that its seed draws, by name."""
    found: dict[str, dict[str, object]] = true_findings(
        _native.random_profile(seed, kind), "x", conditions_text(DRAWN, seed)
    )
    return found
