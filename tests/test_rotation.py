"""Test 2 on emulated drives, and its parts on made-up platters: the right answer or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from one_test import few
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import EMPTY_LOG, F64, Evidence, IoBatch, IoLog, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer import adjacent_tracks, minimum_access_time, one_spindle, track_phases
from skylight.infer.host_clock import host_of
from skylight.infer.phase import NONE
from skylight.probe.known_state import Means
from skylight.probe.rotation import Rotation, seeks, track_fit
from skylight.probe.rotation.analysis import Analysis
from skylight.probe.rotation.plan_steps import BEHIND, TOWARDS
from skylight.probe.rotation.verdict import _seeks
from skylight.probe.scoring import score
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

PROFILES = ("emulated-smr-1", "st5000as0011", "st8000as0011", "st4000nc001")
# Cylinders whose switch of heads is faster or slower than the arm, there and back, one surface, short turns.
SEEDS = (1001, 1003, 1006, 1015, 1043, 1106)
FINDINGS = ("rotation_ns", "track_bytes", "seek_ns")
TURN_NS = 10_000_000


def measured(
    drive: str,
    out: Path,
    kind: str = "cmr",
    *,
    layer: str | None = None,
    conditions: str = "",
    written: IoBatch | None = None,
    reset: Means = "auto",
) -> tuple[Evidence, Known, dict[str, Any]]:
    """The evidence of the test on an emulated drive, under conditions, to which something may be written
    before."""
    text = _native.random_profile(int(drive), layer) if drive.isdigit() else read_profile(drive)[0]
    sim = _native.SimDrive(text, "drive.toml", 1, f"[conditions]\n{conditions}\n")
    facts = TargetFacts("sim", "sim:drive", sim.size_bytes, sim.block_bytes)
    engine = engine_over(sim, facts)
    if written is not None:
        engine.run(written)
    truth = true_findings(text, "drive.toml")
    known = Known([Finding("drive_type", kind, None, None, 1.0, "")])
    recording = Recording.create(out / "recording", facts, {"writes": written is not None}, 1)
    with recording.part("rotation") as writer:
        Rotation().measure(Session(engine, writer, test="rotation", seed=1, known=known, reset=reset))
        writer.complete()
    evidence = recording.evidence("rotation")
    assert evidence is not None
    return evidence, known, truth


@pytest.mark.parametrize("drive", few(["st8000as0011", *map(str, SEEDS)], of=[*PROFILES, *map(str, SEEDS)]))
def test_every_finding_is_right(drive: str, tmp_path: Path) -> None:
    evidence, known, truth = measured(drive, tmp_path)
    findings = Rotation().infer(evidence, known)
    marks = score(findings, {name: truth[name] for name in FINDINGS})
    assert {mark.name: mark.outcome for mark in marks} == dict.fromkeys(FINDINGS, "right")
    assert all(0.3 < finding.confidence <= 1 for finding in findings)
    assert [finding.name for finding in findings] == list(FINDINGS)
    assert sum(len(step.rows) for step in evidence.steps) < Rotation().estimate(evidence.target).ios
    figures = Rotation().draw(evidence, findings)
    assert [figure.name for figure in figures] == ["rotation-angles", "rotation-caught", "rotation-seeks"]


HOSTS = {
    "a coarse clock": 'clock = "1 ms"',
    "a slow host": 'host_gap = "450 us"\nhost_gap_jitter = 0.4\ntransport = "1.5 ms"',
    "a busy disk": "busy_share = 0.1",
}


@pytest.mark.parametrize("conditions", HOSTS.values(), ids=HOSTS.keys())
def test_the_arm_is_timed_whatever_the_host(conditions: str, tmp_path: Path) -> None:
    evidence, known, truth = measured("1002", tmp_path, conditions=conditions)
    marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
    assert {mark.name: mark.outcome for mark in marks} == dict.fromkeys(FINDINGS, "right")


def test_where_others_wrote_tracks_are_looked_for_behind(tmp_path: Path) -> None:
    """Every other 64 KiB at the start lies in the cache of a drive that cannot be erased."""
    pieces = np.random.default_rng(3).permutation(np.arange(0, 96 << 20, 128 << 10))
    written = IoBatch.writes(pieces.astype(np.uint64), 64 << 10)
    evidence, known, truth = measured(
        "1001", tmp_path, "smr", layer="set-associative", conditions='erase = "none"', written=written
    )
    assert any(step.name == BEHIND for step in evidence.steps)
    marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
    assert {mark.name: mark.outcome for mark in marks}["track_bytes"] == "right"


def test_nothing_is_measured_or_said_of_what_does_not_rotate(tmp_path: Path) -> None:
    evidence, known, _ = measured("1007", tmp_path, "not-rotating")
    assert evidence.steps == [] and Rotation().infer(evidence, known) == []


def test_a_device_without_a_platter_is_unknown_if_its_type_is_not_known(tmp_path: Path) -> None:
    evidence, _, _ = measured("1007", tmp_path)
    findings = Rotation().infer(evidence, Known())
    assert [finding.value for finding in findings] == [UNKNOWN] * 3
    assert all(finding.confidence == 0 and finding.why for finding in findings)


def test_evidence_that_was_cut_short_gives_no_guess(tmp_path: Path) -> None:
    evidence, known, truth = measured("st5000as0011", tmp_path)
    whole = list(evidence.steps)
    for count in range(len(whole)):
        evidence.steps = whole[:count]
        marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
        assert all(mark.outcome != "wrong" for mark in marks), count


def angles(rng: np.random.Generator, x: np.ndarray, track: float, skew: float, noise: float) -> np.ndarray:
    """Phases of blocks on tracks of one size, each later by the skew, read with one-sided noise (turns)."""
    return np.mod(x / track + skew * np.floor(x / track) + np.abs(rng.normal(0, noise, len(x))), 1.0)


class TestTurning:
    @pytest.mark.parametrize("track", [150_000.0, 1_000_000.0, 3_000_000.0])
    @pytest.mark.parametrize("skew", [0.06, 0.35])
    def test_finds_tracks_whatever_the_skew(
        self, rng: np.random.Generator, track: float, skew: float
    ) -> None:
        x = rng.uniform(0, 12 * track, 900)
        phase = angles(rng, x, track, skew, 0.02)
        phase[rng.choice(900, 9)] = rng.uniform(size=9)
        found = track_phases.fit_tracks(x, phase, 64 << 10, 8 << 20)
        assert found is not None and found.track_bytes == pytest.approx(track, rel=0.01)
        assert abs(found.track_bytes / track - 1) < 6 * found.slope_error / found.slope

    @pytest.mark.parametrize("seed", range(8))
    def test_blocks_that_come_late_cut_no_track_in_two(self, seed: int) -> None:
        rng, track = np.random.default_rng(seed), 1_000_000.0
        x = rng.uniform(0, 7 * track, 480)
        late = np.where(rng.random(480) < 0.1, rng.uniform(0.0, 0.5, 480), 0.0)
        phase = np.mod(angles(rng, x, track, 0.2, 0.002) + late, 1.0)
        found = track_phases.fit_tracks(x, phase, 0.5 * track, 2.5 * track)
        assert found is not None
        whole = found.count > 20  # a late block at either end stands alone
        assert np.count_nonzero(whole) == 7 and len(whole) <= 9
        assert found.turns()[whole].min() > 0.85

    @pytest.mark.parametrize("seed", [46, 263, 311, 715, 1004, 1094, 1434])
    def test_a_slope_a_little_off_cuts_no_track_in_two(self, seed: int) -> None:
        """Cuts within tracks and a slope that is off by a hundredth make room for each other: of 1,500 such
        places 151 had a track in two, and 74 once the slope follows each join."""
        rng, track = np.random.default_rng(seed), 300_000.0
        x = rng.uniform(0, 7 * track, 380)
        found = track_phases.fit_tracks(x, angles(rng, x, track, 0.33, 0.028), 64 << 10, 8 << 20)
        assert found is not None
        whole = found.count > 20
        assert np.count_nonzero(whole) == 7 and found.turns()[whole].min() > 0.85

    @pytest.mark.parametrize("seed", [0, 3, 6, 7])
    def test_the_tick_of_a_clock_does_not_bend_tracks(self, seed: int) -> None:
        rng, track, tick = np.random.default_rng(seed), 1_000_000.0, 0.28
        x = rng.uniform(0, 10 * track, 1200)
        done = np.floor((rng.integers(0, 99_999, 1200) + angles(rng, x, track, 0.2, 0.01)) / tick) * tick
        found = track_phases.fit_tracks(x, np.mod(done, 1.0), 0.5 * track, 2.5 * track, tick)
        assert found is not None
        assert abs(found.track_bytes / track - 1) < 3 * found.slope_error / found.slope

    def test_no_tracks_where_phases_know_nothing_of_addresses(self, rng: np.random.Generator) -> None:
        for _ in range(20):
            x, phase = rng.uniform(0, 8 << 20, 600), rng.uniform(size=600)
            assert track_phases.fit_tracks(x, phase, 64 << 10, 8 << 20) is None

    def test_a_period_is_refined_over_thousands_of_turns(self, rng: np.random.Generator) -> None:
        x = rng.integers(0, 2048, 1000) * 4096.0
        turn = np.cumsum(rng.uniform(1, 3, 1000).astype(int)) + angles(rng, x, 1e6, 0.1, 0.01)
        where = np.asarray(x, np.float64)
        period = track_phases.refined(TURN_NS * 1.002, (turn * TURN_NS).astype(np.uint64), where, 16384)
        assert period == pytest.approx(TURN_NS, rel=2e-5)


@pytest.mark.parametrize("part", [0.05, 0.47, 0.53, 0.95])
def test_tracks_are_numbered_whatever_part_of_one_comes_first(rng: np.random.Generator, part: float) -> None:
    """Pieces begin and end with the reads that happen to lie there; one track is cut in two."""
    begin = np.concatenate([[0.0], part + np.arange(12)])
    end = np.append(begin[1:], begin[-1] + 1) - rng.uniform(0, 0.06, 13)
    begin = np.insert(begin + rng.uniform(0, 0.04, 13) * (begin > 0), 5, begin[4] + 0.7)
    end = np.insert(end, 4, begin[4] + 0.65)
    empty = np.zeros(14)
    tracks = track_phases.Tracks(1e-6, 1e-9, 1e6 * begin, 1e6 * end, empty, empty.astype(np.intp), 0.01)
    assert seeks.track_numbers(tracks).tolist() == [0, 1, 2, 3, 4, 4, *range(5, 13)]


@pytest.mark.parametrize(
    ("behind_bytes", "home"), [(990_000.0, True), (1_004_000.0, True), (1_030_000.0, False)]
)
def test_larger_tracks_behind_the_start_show_that_it_was_moved(
    rng: np.random.Generator, behind_bytes: float, home: bool
) -> None:
    x = np.concatenate([begin + rng.uniform(0, 5.5e6, 400) for begin in (1e9, 3e9)]) // 4096 * 4096
    turns = 3 * np.arange(len(x)) + angles(rng, x, behind_bytes, 0.2, 0.01)
    done = (turns * TURN_NS).astype(np.uint64) + np.uint64(TURN_NS)
    log = IoLog.of(IoBatch.reads(x.astype(np.uint64), 4096), done - np.uint64(TURN_NS), done)
    found = Analysis(lambda _: log, 4096, 1 << 40)
    empty = np.zeros(1)
    near, middle = (
        track_phases.Tracks(1 / size, 1e-3 / size, empty, empty, empty, empty.astype(np.intp), 0.01)
        for size in (1e6, 8e5)
    )
    vars(found).update(near=near, middle=middle, turn=track_fit.Turn(TURN_NS, NONE, 1e-6, 1e-6))
    assert found.start_at_home == home


def tracks_of(size: float, turns: list[float]) -> track_phases.Tracks:
    """Tracks of a size, in pieces of these parts of a revolution, 30 reads each; of one without length: 1."""
    end, parts = size * np.cumsum(turns), np.array(turns)
    reads = np.maximum(30 * parts, 1).astype(np.intp)
    return track_phases.Tracks(
        1 / size, 1e-4 / size, end - size * parts, end, np.zeros(len(turns)), reads, 0.01
    )


@pytest.mark.parametrize(
    ("larger", "at_home", "home"), [(2, False, True), (3, False, False), (3, True, True)]
)
def test_larger_tracks_all_over_the_drive_show_that_the_start_was_moved(
    larger: int, at_home: bool, home: bool
) -> None:
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, at_home=at_home)
    near, middle = tracks_of(1e6, [1.0] * 9), tracks_of(8e5, [1.0] * 9)
    elsewhere = [tracks_of(1.15e6, [1.0] * 3) for _ in range(larger)]
    vars(found).update(near=near, middle=middle, places=[near, *elsewhere, middle])
    assert found.start_at_home == home


WHOLE, CUT = [0.4, *[1.0] * 9, 0.3], [0.4, 0.5, 0.4, 1.0, 1.0, 0.6, 0.3, 1.0, 1.0, 0.3]
LATE = [0.4, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.3]
"""Whole tracks, and three reads that the host made late: each begins a piece of its own."""


@pytest.mark.parametrize(
    ("middle", "last", "at_home", "logged"),
    [
        (WHOLE, WHOLE, 0, False),
        (WHOLE, CUT, 0, True),
        (CUT, CUT, 0, False),
        (WHOLE, CUT, 1, False),
        (WHOLE, LATE, 0, False),
        (LATE, CUT, 0, True),
    ],
)
def test_tracks_that_are_cut_up_at_the_end_alone_lie_in_a_log(
    middle: list[float], last: list[float], at_home: float, logged: bool
) -> None:
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, at_home=at_home)
    vars(found).update(
        near=tracks_of(1e6, WHOLE), middle=tracks_of(8e5, middle), last=tracks_of(6e5, last), places=[],
        rough=tracks_of(1e6, WHOLE), turn=track_fit.Turn(TURN_NS, NONE, 1e-6, 1e-6),
    )  # fmt: skip
    assert found.ends_in_log == logged
    assert found.end_at_home == 1.0  # as far in as the end of a drive


def sized(sizes: F64) -> list[track_phases.Tracks]:
    """Places one behind the other whose tracks have these sizes."""
    return [
        replace(tracks_of(float(size), WHOLE), begin=np.array([number * 1e9]))
        for number, size in enumerate(sizes)
    ]


def test_pieces_that_are_no_tracks_are_those_of_no_one_disk() -> None:
    """Stripes of 1 MiB over three disks: a track begins or a stripe ends after six tenths of a track."""
    stripes = [0.6, 0.4, 0.02, 0.46, 0.97, 0.49, 0.5, 0.6, 0.5, 0.9, 0.14, 0.36, 0.5, 0.73, 0.5]
    for middle, cut in ((WHOLE, False), (stripes, True)):
        found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
        vars(found).update(
            near=tracks_of(1e6, WHOLE), middle=tracks_of(8e5, middle), last=tracks_of(6e5, WHOLE)
        )
        assert found.is_cut_up == cut


def test_sizes_that_rise_and_fall_at_random_are_those_of_no_one_disk(rng: np.random.Generator) -> None:
    falling = np.linspace(2e6, 1e6, 24)
    halves = np.concatenate([falling[12:], falling[:12]])  # one partition before another
    for sizes, shuffled in (
        (falling, False), (falling[::-1], False), (halves, False), (np.full(24, 1e6), False),
        (rng.permutation(falling), True),
    ):  # fmt: skip
        found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
        vars(found)["places"] = sized(sizes)
        assert found.is_shuffled == shuffled


def reads_of(where: F64, turns: F64) -> IoLog:
    """Reads of 4 KiB, one after the other, that complete after so many revolutions."""
    offset = where.astype(np.uint64)
    done = (turns * TURN_NS).astype(np.uint64)
    sent = np.concatenate([done[:1], done[:-1]])
    return IoLog(np.zeros(len(offset), np.uint8), offset, np.full(len(offset), 4096, np.uint32), sent, done)


@pytest.mark.parametrize(
    ("late", "two_speeds", "other"),
    [(0.0, False, False), (0.2, False, False), (0.0, True, True), (0.1, True, True)],
)
def test_a_rotation_that_parts_of_the_addresses_do_not_follow_is_that_of_one_disk(
    rng: np.random.Generator, late: float, two_speeds: bool, other: bool
) -> None:
    """Stripes of 256 KiB over two disks; `late` reads come at any angle, and they do on a single disk too."""
    where = np.asarray(rng.permutation(1024) * 8192.0, np.float64)
    turns = 3.0 * np.arange(1024) + where / 1e6
    odd = (where // (256 << 10)) % 2 == 1
    turns = np.where(odd, 1.64 * turns, turns) if two_speeds else turns
    turns = (
        np.sort(turns + np.where(rng.random(1024) < late, rng.random(1024), 0.0)) if not two_speeds else turns
    )
    assert one_spindle.is_by_parts(reads_of(where, turns), TURN_NS) == other


def test_blocks_that_lie_together_in_a_cache_are_of_no_other_disk(rng: np.random.Generator) -> None:
    """As of emulated-smr-2, which keeps in flash what was written where reads begin."""
    where = np.asarray(rng.permutation(1024) * 8192.0, np.float64)
    cached = where < 512 << 10
    turns, now = np.empty(1024), 0.0
    for row, address in enumerate(where):
        now = now + 0.05 if cached[row] else np.ceil(now - address / 1e6 + 0.02) + address / 1e6
        turns[row] = now
    assert not one_spindle.is_by_parts(reads_of(where, turns), TURN_NS)


def test_reads_of_another_disk_follow_another_rotation(rng: np.random.Generator) -> None:
    where = np.asarray(rng.permutation(400) * 8192.0, np.float64)
    turns = 3.0 * np.arange(400) + where / 1e6
    first = reads_of(where, turns)
    for speed, otherwise in ((1.0, False), (0.81, True), (0.01, False)):  # the last is read from no disk
        assert one_spindle.turns_otherwise(reads_of(where, speed * turns), first, TURN_NS) == otherwise


@pytest.mark.parametrize(("ends", "sure"), [(0.0, False), (0.7, False), (1.0, True)])
def test_an_end_further_in_has_no_doubt(ends: float, sure: bool) -> None:
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
    whole = tracks_of(6e5, WHOLE)
    vars(found).update(_ends_at_home=ends, last=whole, middle=whole, _before=whole)
    assert found.end_is_found == (ends > 0.0)
    assert found.end_is_sure == sure


@pytest.mark.parametrize(("middle", "at_home", "moved"), [
    (728.0, 0.0, False), (685.0, 0.0, True), (800.0, 0.0, True), (685.0, 1.0, False),
])  # fmt: skip
def test_a_middle_out_of_line_was_moved(middle: float, at_home: float, moved: bool) -> None:
    """As of drive 97061 drawn: sizes fall through the middle, and those there alone are a twentieth off."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1000, at_home=at_home)
    beside = {360.0: 792.0, 430.0: 773.0, 570.0: 696.0, 640.0: 651.0, 990.0: 413.0}
    places = [SimpleNamespace(begin=[at], track_bytes=size) for at, size in beside.items()]
    there = SimpleNamespace(track_bytes=middle)
    vars(found).update(places=places, sizes_at={"md": there}, sizes=lambda: {"md": there}, may_be_moved=False)
    assert (found.middle_home is None) == moved


def test_a_middle_among_sizes_that_follow_no_line_is_not_judged() -> None:
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1000)
    beside = {360.0: 792.0, 430.0: 673.0, 570.0: 796.0, 640.0: 651.0}
    places = [SimpleNamespace(begin=[at], track_bytes=size) for at, size in beside.items()]
    there = SimpleNamespace(track_bytes=850.0)
    vars(found).update(places=places, sizes_at={"md": there}, sizes=lambda: {"md": there}, may_be_moved=False)
    assert found.middle_home is not None and found.middle_home.track_bytes == 850.0


@pytest.mark.parametrize(
    ("end", "step", "in_line"),
    [(555.0, 0.0, True), (468.0, 0.0, False), (640.0, 0.0, False), (500.0, 60.0, True), (540.0, 0.0, False)],
)
def test_tracks_of_the_end_are_in_line_with_those_from_the_middle_on(
    end: float, step: float, in_line: bool
) -> None:
    """As of drive 99223 drawn, whose cache is at the inner diameter; a drive of few recording zones has steps
    in the line itself."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1000)
    part = np.array(TOWARDS)
    size = np.sqrt(744.0**2 - 491e3 * (part - 0.5)) + step * np.where(np.arange(len(part)) % 4 < 2, 1.0, -1.0)
    near, middle, last = (tracks_of(each, WHOLE) for each in (874.0, 746.0, end))
    vars(found).update(near=near, middle=middle, last=last, _before=last, towards_end=(part, size))
    assert found.ends_in_line == in_line
    assert found.end_is_found == in_line


@pytest.mark.parametrize(("middle", "at_home"), [(1001.0, 1.0), (999.0, 1.0), (950.0, 0.0)])
def test_tracks_of_one_size_do_not_shrink_by_an_error(middle: float, at_home: float) -> None:
    """As of emulated-smr-3, served: the middle seemed 0.06 % smaller than the start."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
    near, within, last = (tracks_of(size, WHOLE) for size in (1000.0, middle, 0.98 * middle))
    vars(found).update(near=near, middle=within, last=last, _before=last, _starts_at_home=True)
    assert found.end_at_home == at_home


@pytest.mark.parametrize("at_home", [0.7, 1.0])
def test_a_stroke_is_no_surer_than_that_blocks_lie_at_their_place(at_home: float) -> None:
    """Of a drive that hardly is conventional, as far as is known, tracks may be those of moved blocks."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, at_home=at_home)
    same, full = (minimum_access_time.Reach(ns - 1e3, ns + 1e3, 100, 0) for ns in (1e6, 16e6))
    near = SimpleNamespace(pairs=(), ns=1e6, open_ns=1e3, walk="serpentine", switch_ns=None)
    curve = seeks.Curve(1e6, 14e6, 0.0, np.zeros(1), 1e3, (9.08e6, 9.09e6))
    vars(found).update(_starts_at_home=False, stripe=None, same=same, full=full, curve=curve)
    vars(found).update(neighbours=near, again=None)
    assert found.start_at_home
    assert _seeks(found).confidence == pytest.approx(at_home, rel=1e-3)


@pytest.mark.parametrize(("reset", "outcome"), [("none", "unknown"), ("auto", "right")])
def test_no_stroke_while_the_last_addresses_lie_in_a_cache(
    reset: Means, outcome: str, tmp_path: Path
) -> None:
    """What was written last lies at the outer diameter, so the arm does not go to the inner one, until the
    cache is emptied."""
    conditions = 'erase = "trim"\nprior_use = "whole-drive"'
    evidence, known, truth = measured("97027", tmp_path, "smr", conditions=conditions, reset=reset)
    # Cleaning moves what lies at the start too.
    assert any(step.name == "home-od" for step in evidence.steps) == (reset == "auto")
    marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
    assert {mark.name: mark.outcome for mark in marks} == {
        "rotation_ns": "right", "track_bytes": outcome, "seek_ns": outcome,
    }  # fmt: skip


@pytest.mark.long
def test_the_end_is_looked_for_before_what_lies_in_a_cache(tmp_path: Path) -> None:
    """What was written last of a whole drive is as much as its cache takes: 7 GB of 2.8 TB."""
    conditions = 'erase = "trim"\nprior_use = "whole-drive"'
    evidence, known, truth = measured("98107", tmp_path, "smr", conditions=conditions)
    marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
    assert {mark.name: mark.outcome for mark in marks} == dict.fromkeys(FINDINGS, "right")
    names = [step.name for step in evidence.steps if step.name.startswith("id")]
    assert names[:4] == ["id", "id-before", "id-before-2", "id-before-3"]


@pytest.mark.parametrize(
    ("last", "before", "is_found"), [(6e5, 6.1e5, True), (7.9e5, 6e5, False), (6e5, 5e5, False)]
)
def test_tracks_before_the_end_are_those_of_the_end(last: float, before: float, is_found: bool) -> None:
    """They hold less than in the middle, and as much again further in; a 64th of the drive before the end
    they hold hardly more."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, end=("id-before-2", "id-before-3"))
    vars(found).update(near=tracks_of(1e6, WHOLE), middle=tracks_of(8e5, WHOLE), last=tracks_of(last, WHOLE))
    vars(found).update(_before=tracks_of(before, WHOLE))
    assert found.end_is_found == is_found
    if is_found:
        assert 0.008 < found.end_moved(1 / 64) < 0.012 and found.end_moved(1 / 8) > 0.1


def pieces_of(edges: np.ndarray) -> track_phases.Tracks:
    """Tracks of a megabyte in pieces from edge to edge (in tracks)."""
    empty = np.zeros(len(edges) - 1)
    begin, end = 1e6 * edges[:-1] + 4096, 1e6 * edges[1:] - 4096
    return track_phases.Tracks(1e-6, 1e-9, begin, end, empty, empty.astype(np.intp), 0.01)


def test_tracks_behind_the_end_of_a_band_are_not_taken_for_neighbours() -> None:
    """A band ends 0.6 into the sixth track; a stray read does but cut one."""
    ended = pieces_of(np.concatenate([np.arange(6.0), 5.6 + np.arange(15)]))
    run = seeks.longest_run(ended)
    assert set(run) <= set(range(6, 20)) and len(run) >= 13
    cut = pieces_of(np.insert(np.arange(20.0), 6, 5.6))
    assert seeks.whole_tracks(cut) == [piece for piece in range(20) if piece not in (5, 6)]
    stray = pieces_of(np.concatenate([np.arange(9.0), [9.09], np.arange(10.0, 20.0)]))
    assert len(seeks.whole_tracks(stray)) >= 18


class TestReach:
    def test_is_where_blocks_begin_to_be_caught(self, rng: np.random.Generator) -> None:
        submit, block = rng.uniform(size=400), rng.uniform(size=400)
        ahead = np.mod(block - submit, 1.0) * TURN_NS
        latency = np.where(ahead >= 1_234_000, ahead, ahead + TURN_NS) + rng.uniform(0, 400_000, 400)
        latency[:4] += 60_000_000
        found = minimum_access_time.reach_of(
            minimum_access_time.ideal_ns(latency, submit, block, TURN_NS), TURN_NS
        )
        assert found is not None and found.low_ns <= 1_234_000 <= found.high_ns and found.half_ns < 60_000

    def test_is_none_where_latencies_fill_no_turn(self, rng: np.random.Generator) -> None:
        assert minimum_access_time.reach_of(rng.uniform(0, 5 * TURN_NS, 300), TURN_NS) is None


def clocked_reads(
    rng: np.random.Generator, block: np.ndarray, reach_ns: float, *, missed: float, tick_ns: int
) -> IoLog:
    """Reads one at a time of blocks at some angles, each completed at the first pass from `reach_ns` after
    its submission on, or, of a share of them, a revolution later; by a clock with a tick."""
    submit, complete, now = [], [], 0.0
    for angle in block:
        submit.append(now)
        turns = np.ceil((now + reach_ns) / TURN_NS - angle) + (rng.random() < missed)
        now = (turns + angle) * TURN_NS
        complete.append(now)
        now += rng.uniform(150_000, 450_000)
    times = [
        np.array(each, np.uint64) // np.uint64(tick_ns) * np.uint64(tick_ns) for each in (submit, complete)
    ]
    reads = IoBatch.reads(np.arange(len(block)) * 4096, 4096)
    return IoLog(reads.op, reads.offset, reads.size, *times)


class TestNuisances:
    """What other clients and a coarse clock do to the soonest that a block is caught."""

    @pytest.mark.parametrize("tick_ns", [1_000, 1_000_000])
    @pytest.mark.parametrize("missed", [0.0, 0.12])
    def test_the_reach_stays_where_it_is(self, rng: np.random.Generator, tick_ns: int, missed: float) -> None:
        for reach_ns in (1_234_000.0, 3_456_000.0):
            ahead = rng.permutation((np.arange(384) + rng.random(384)) / 384) * 2e6 + reach_ns - 800_000
            block = np.mod(np.cumsum(ahead / TURN_NS), 1.0)
            log = clocked_reads(rng, block, reach_ns, missed=missed, tick_ns=tick_ns)
            turn = track_fit.Turn(TURN_NS, NONE, 0.0, 0.0, host_of(log))
            ideal = track_fit.ideals(log, block, np.zeros(len(log), int), turn)
            found = track_fit.reaches(ideal, np.zeros(len(log), int), 1, TURN_NS)[0]
            assert found is not None and found.half_ns < 60_000
            assert abs(found.ns - reach_ns) < max(3 * found.half_ns, 40_000)

    def test_the_gap_of_a_host_is_that_of_a_fine_clock(self, rng: np.random.Generator) -> None:
        block = rng.random(2000)
        for tick_ns in (1_000, 1_000_000):
            host = host_of(clocked_reads(rng, block, 500_000, missed=0.0, tick_ns=tick_ns))
            assert host.tick_ns == tick_ns and host.coarse == (tick_ns > 1_000)
            assert host.gap_ns == pytest.approx(300_000, abs=50_000)


def cylinder_times(
    rng: np.random.Generator, heads: int, *, back: bool, arm_ns: float, switch_ns: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times between neighbours in address, and from two tracks to all others, on cylinders of some heads."""
    bases = [(track, track + 1) for track in range(43)]
    pairs = np.array(
        bases + [(base, other) for base in (0, 22) for other in range(44) if abs(other - base) > 1]
    )
    cylinder, head = np.divmod(pairs + 3, heads)
    head = np.where((cylinder % 2 == 1) & back, heads - 1 - head, head)
    arm = np.where(cylinder[:, 0] != cylinder[:, 1], arm_ns, 0.0)
    switch = np.where(head[:, 0] != head[:, 1], switch_ns, 0.0)
    return pairs[:, 0], pairs[:, 1], np.maximum(arm, switch) + rng.normal(0, 10_000, len(pairs))


class TestNeighbours:
    @pytest.mark.parametrize("heads", [2, 3, 7, 20])
    @pytest.mark.parametrize("back", [False, True])
    @pytest.mark.parametrize(("arm_ns", "switch_ns"), [(1_200_000, 500_000), (600_000, 1_300_000)])
    def test_the_arm_is_told_from_the_switch(
        self, rng: np.random.Generator, heads: int, back: bool, arm_ns: float, switch_ns: float
    ) -> None:
        one, other, times = cylinder_times(rng, heads, back=back, arm_ns=arm_ns, switch_ns=switch_ns)
        found = adjacent_tracks.next_track(one, other, times)
        assert found is not None and found.ns == pytest.approx(arm_ns, rel=0.05)
        assert found.heads == heads

    def test_one_surface_and_a_rising_curve(self, rng: np.random.Generator) -> None:
        one, other, _ = cylinder_times(rng, 2, back=False, arm_ns=1, switch_ns=1)
        times = 340_000 + 330_000 * (np.minimum(np.abs(one - other), 5) - 1.0)
        found = adjacent_tracks.next_track(one, other, times + rng.normal(0, 8_000, len(times)))
        assert found is not None and found.ns == pytest.approx(340_000, rel=0.05) and found.heads is None

    @pytest.mark.parametrize("power", [0.5, 1.0])
    def test_a_slow_rise_over_many_tracks_is_no_cylinder(
        self, rng: np.random.Generator, power: float
    ) -> None:
        one, other, _ = cylinder_times(rng, 2, back=False, arm_ns=1, switch_ns=1)
        rise = (np.abs(one - other) - 1.0) / 42
        for most_ns in (100_000, 240_000, 400_000):
            times = 1_770_000 + most_ns * rise**power + rng.normal(0, 15_000, len(one))
            found = adjacent_tracks.next_track(one, other, times)
            assert found is not None and found.ns == pytest.approx(1_770_000, rel=0.03)
            assert found.heads is None

    def test_times_without_a_pattern_say_nothing(self, rng: np.random.Generator) -> None:
        one, other, _ = cylinder_times(rng, 2, back=False, arm_ns=1, switch_ns=1)
        for _ in range(10):
            assert adjacent_tracks.next_track(one, other, rng.uniform(3e5, 2e6, len(one))) is None


def test_an_interval_of_95_percent_holds_the_turn_as_often(rng: np.random.Generator) -> None:
    """Reads in random order over eight tracks, late by noise that no two logs share."""
    held = 0
    for _ in range(200):
        turn = TURN_NS * rng.uniform(0.5, 1.5)
        x = (rng.integers(0, 4096, 600) * 4096).astype(np.float64)
        passes = np.cumsum(rng.integers(1, 3, 600)) + x / (2 << 20)
        done = (passes * turn + rng.gamma(2.0, 0.01, 600) * turn).astype(np.uint64)
        rough = track_phases.refined(turn * (1 + rng.uniform(-1e-4, 1e-4)), done, x, 16 << 10)
        period, error = track_phases.settled(rough, done, x, 16 << 10)
        held += abs(period / turn - 1) <= 1.96 * error
    assert 0.88 <= held / 200 <= 0.99, f"{held} of 200"
