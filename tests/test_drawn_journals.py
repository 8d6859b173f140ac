"""Journals under conditions that real machines have, against the truth under these."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_test import known_of
from skylight import _native
from skylight.engines.sim_under_conditions import DRAWN, conditions_text, engine_over
from skylight.evidence import Evidence, TargetFacts
from skylight.probe.journal import Journal
from skylight.probe.journal.unerased_entries import MOST_ROUNDS, ROUNDS
from skylight.probe.scoring import score
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

NAMES = ("journal_quantum_bytes", "journal_entry_max_bytes", "out_of_band_ns")


def measured(seed: int, kind: str | None, path: Path) -> tuple[Evidence, dict[str, str]]:
    """The evidence of the test under drawn conditions, as if those before it had found the truth, and which
    of its findings are right."""
    text, given = _native.random_profile(seed, kind), conditions_text(DRAWN, seed)
    drive = _native.SimDrive(text, "drive.toml", 1, given)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    truth = true_findings(text, "drive.toml", given)
    known = known_of(truth, without=NAMES)
    recording, test = Recording.create(path, facts, {"writes": True}, 1), Journal()
    with recording.part(test.name) as writer:
        test.measure(Session(engine_over(drive, facts), writer, test=test.name, seed=1, known=known))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    found = [each for each in test.infer(evidence, known) if each.name in NAMES]
    marks = score(found, {name: truth[name] for name in NAMES})
    return evidence, {mark.name: mark.outcome for mark in marks}


@pytest.mark.parametrize("seed", [99538, 99584, 99590, 99596, 99597])
def test_a_quantum_of_whole_revolutions_is_found(seed: int, tmp_path: Path) -> None:
    """Of 99597 a track is as long as a quantum, of 99538 a size was misjudged at first, and of the others
    writes of one block take times that differ by a revolution: all were unknown."""
    assert measured(seed, "journaled", tmp_path / "r")[1]["journal_quantum_bytes"] == "right"


@pytest.mark.parametrize(("seed", "later"), [(99713, True), (99743, False), (99758, False)])
def test_the_time_is_measured_until_it_is_known(seed: int, later: bool, tmp_path: Path) -> None:
    """After as many cycles as suffice elsewhere that of 99713 is open by more than a twentieth of a turn;
    of those that can be erased most of the weight lies within that all the same."""
    evidence, outcomes = measured(seed, None, tmp_path / "r")
    rounds = [step.name for step in evidence.steps if step.name.startswith("later-")]
    assert (len(rounds) > ROUNDS) is later and len(rounds) <= MOST_ROUNDS
    assert outcomes["out_of_band_ns"] == "right"
