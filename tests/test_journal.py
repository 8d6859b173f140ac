"""Test `journal` on emulated drives: what it finds, what it must not claim, and its statistics alone."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from one_test import few, known_of
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import EMPTY_LOG, U64, IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer.stalls import before_stalls, slow_ones
from skylight.probe import fua_writes
from skylight.probe.journal import Journal
from skylight.probe.journal.entries import Bound, largest_full, largest_group, next_queue_size
from skylight.probe.journal.entry_space import Footprints, Run
from skylight.probe.journal.map_merges import Many
from skylight.probe.journal.measure import Bench, Runs, find_out_of_band
from skylight.probe.journal.out_of_band_time import (
    FLASH_NS,
    QuantumTime,
    judge_disk,
    judge_flash,
    refined_turn,
    saw,
)
from skylight.probe.journal.quantum_steps import StepBounds
from skylight.probe.journal.splits import Splits, find_split
from skylight.probe.journal.verdict import (
    Quantum,
    Seen,
    _split_finding,
    judge,
    observe,
)
from skylight.probe.procedure import Steps
from skylight.probe.scoring import score
from skylight.probe.session import Session
from skylight.probe.suite import SuiteOptions, SuiteResult, draw_suite, infer_suite, run_suite
from skylight.recording import Recording
from skylight.truth import true_findings

NAMES = (
    "journal_quantum_bytes",
    "journal_entry_max_bytes",
    "out_of_band_ns",
    "map_merge_every",
    "map_merge_ns",
)
ONLY = SuiteOptions(only=("journal",))


def probe(name: str, out: Path) -> SuiteResult:
    return run_suite(SimEngine.open(name), Path(tempfile.mkdtemp(dir=out)) / "r", ONLY)


def found(result: SuiteResult) -> dict[str, Finding]:
    return {finding.name: finding for finding in result.findings}


@pytest.fixture(scope="module")
def st5000(tmp_path_factory: pytest.TempPathFactory) -> SuiteResult:
    return probe("st5000as0011", tmp_path_factory.mktemp("st5000"))


class TestTheSeagateDrive:
    """Rows S1e to S1h, found and not set."""

    def test_everything_is_right(self, st5000: SuiteResult) -> None:
        finding = found(st5000)
        assert finding["journal_quantum_bytes"].value == 864 << 10
        bound = finding["journal_entry_max_bytes"].interval
        assert bound is not None and bound[0] <= 3900 << 10 < bound[1]
        assert finding["map_merge_every"].value == 240
        text = Path(__file__).parents[1] / "python/skylight/profiles/st5000as0011.toml"
        truth = true_findings(text.read_text(), "t")
        marks = {mark.name: mark.outcome for mark in score(st5000.findings, truth)}
        assert {name: marks[name] for name in NAMES} == dict.fromkeys(NAMES, "right")

    def test_all_that_waits_goes_into_one_entry(self, st5000: SuiteResult) -> None:
        assert found(st5000)["queue_packing"].value == 31

    def test_the_ladder_steps_where_the_paper_saw_it(self, st5000: SuiteResult) -> None:
        journal = next(evidence for evidence in st5000.evidence if evidence.test == "journal")

        def middle(size_kib: int) -> float:
            log = journal.log(f"ladder-{size_kib << 10}")
            return float(np.median(log.latency_ns[31:])) / 1e6

        for below, above in ((24, 28), (52, 56), (80, 84)):
            assert 3.5 < middle(above) - middle(below) < 6.5
        assert abs(middle(24) - middle(4)) < 1.0

    def test_blocks_read_back_lie_apart_or_side_by_side(self, st5000: SuiteResult) -> None:
        journal = next(evidence for evidence in st5000.evidence if evidence.test == "journal")
        alone = float(np.median(journal.log("alone-read").latency_ns[1:])) / 1e6
        together = float(np.median(journal.log("together-read").latency_ns[1:])) / 1e6
        assert 4.2 < alone < 5.6
        assert 9.6 < together < 10.7

    def test_a_recording_gives_the_same_findings(self, st5000: SuiteResult, tmp_path: Path) -> None:
        out = tmp_path / "r"
        live = run_suite(SimEngine.open("st5000as0011"), out, ONLY)
        assert infer_suite(out).findings == live.findings == st5000.findings

    def test_figures_are_drawn(self, st5000: SuiteResult) -> None:
        names = [figure.name for figure in draw_suite(st5000) if figure.name.startswith("journal-")]
        assert names == ["journal-sizes", "journal-queue", "journal-merges", "journal-read-back"]


@pytest.mark.parametrize(
    "name",
    few(["emulated-smr-2"], of=["emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st4000nc001"]),
)
def test_a_drive_without_a_journal_gets_no_number(name: str, tmp_path: Path) -> None:
    finding = found(probe(name, tmp_path))
    assert all(finding[each].value == UNKNOWN for each in NAMES if each in finding)


@pytest.mark.parametrize("seed", few([1003, 1008, 1035], of=[1003, 1008, 1012, 1027, 1035]))
def test_random_journaled_drives(seed: int, tmp_path: Path) -> None:
    text = _native.random_profile(seed, "journaled")
    drive = _native.SimDrive(text, "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    result = run_suite(SimEngine(drive, facts), tmp_path / "r", ONLY)
    truth = true_findings(text, "drive.toml")
    marks = {mark.name: mark.outcome for mark in score(result.findings, truth) if mark.name in NAMES}
    assert "wrong" not in marks.values()
    assert marks["journal_quantum_bytes"] == marks["journal_entry_max_bytes"] == "right"


@pytest.mark.parametrize("seed", [1225, 1226])
def test_a_log_without_quanta_is_no_journal(seed: int, tmp_path: Path) -> None:
    """Each block more ends a little later: sizes differ by degrees, and no step is a quantum."""
    drive = _native.SimDrive(_native.random_profile(seed, "set-associative"), "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    finding = found(run_suite(SimEngine(drive, facts), tmp_path / "r", ONLY))
    assert all(finding[each].value == UNKNOWN for each in NAMES if each in finding)


def test_no_evidence_no_findings() -> None:
    from skylight.evidence import Evidence

    empty = Evidence("journal", TargetFacts("sim", "sim:x", 1 << 40, 512))
    assert Journal().infer(empty, Known()) == []
    assert Journal().draw(empty, []) == []


class OrderOfSteps:
    """Steps that keep the order in which they are asked for."""

    size, block_bytes = 1 << 40, 4096

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rng(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(1))

    def erase(self, name: str) -> bool:
        self.asked.append("erase")
        return True

    def written(self, offset: U64, size: int) -> bool:
        self.asked.append("written")
        return True

    def pause(self, name: str, seconds: float) -> None:
        self.asked.append("pause")

    def run(self, name: str, io: IoBatch) -> IoLog:
        self.asked.append(name.rsplit("-", 1)[0])
        return EMPTY_LOG


def test_zones_are_filled_before_the_head_is_brought_to_the_far_block() -> None:
    """Filled by the write itself they leave the head elsewhere: of a random drive with 83 MiB zones 1.0 ms of
    out-of-band data were claimed that it has not."""
    steps = OrderOfSteps()
    find_out_of_band(Bench(cast(Steps, steps), "disk", 1e7, Runs()), 1 << 20)
    assert steps.asked[:5] == ["erase", "written", "first-far-write", "pause", "first-write"]


class TestEntries:
    """Groups and bounds."""

    def test_groups_bound_an_entry_from_both_sides(self) -> None:
        bound = Bound().with_group(4096, 31, None)
        assert bound.below is None
        bound = bound.with_group(65536, 12, 12)
        assert (bound.least, bound.below) == (12 * 65536, 13 * 65536)
        size = next_queue_size(bound, 65536, 4096, 31)
        assert size is not None and size % 4096 == 0

    def test_a_run_that_contradicts_is_counted_and_not_believed(self) -> None:
        bound = Bound().with_group(65536, 12, 12).with_group(65536, 20, 20)
        assert (bound.least, bound.runs, bound.fits) == (12 * 65536, 2, 1)

    def test_the_largest_group(self) -> None:
        done = np.array([10, 10, 10, 50, 50, 90], np.uint64) * np.uint64(1_000_000)
        batch = IoBatch.writes(np.arange(6) * 4096, 4096)
        assert largest_group(IoLog.of(batch, np.zeros(6, np.uint64), done), 25e6) == 3

    def test_an_entry_is_full_only_if_a_write_waited_that_was_there_before(self) -> None:
        """A queue of two: each entry takes what there is, and the next write comes when the last is done."""
        ms = np.uint64(1_000_000)
        done = np.array([20, 20, 40, 40, 60, 60, 80, 80], np.uint64) * ms
        batch = IoBatch.writes(np.arange(8) * 4096, 4096)
        handed_over = np.maximum(done, 20 * ms) - 20 * ms
        assert largest_full(IoLog.of(batch, handed_over, done), 10e6, 1e6) is None
        waited = np.zeros(8, np.uint64)
        assert largest_full(IoLog.of(batch, waited, done), 10e6, 1e6) == 2


CONDITIONS = {
    "no erase": 'erase = "none"',
    "one at a time": "queue_depth = 1",
    "four waiting": 'queue_depth = 4\nhost_gap = "200 us"\nhost_gap_jitter = 0.5',
    "a hidden cache": 'volatile_cache = "said-off"',
    "a slow host": 'erase = "none"\nhost_gap = "300 us"\nhost_gap_jitter = 0.3\ntransport = "1 ms"',
    "a coarse clock": 'clock = "1 ms"',
    "a busy disk": 'erase = "none"\nbusy_share = 0.1',
}


def probed(seed: int, conditions: str, path: Path) -> tuple[dict[str, Finding], dict[str, str]]:
    """Findings and outcomes of the test alone on a journaled drive under conditions."""
    text = _native.random_profile(seed, "journaled")
    given = f"[conditions]\n{conditions}\n"
    drive = _native.SimDrive(text, "drive.toml", seed, given)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    truth = true_findings(text, "drive.toml", given)
    known = known_of(truth, without=NAMES)
    recording = Recording.create(path, facts, {"writes": True}, 1)
    with recording.part("journal") as writer:
        Journal().measure(Session(engine_over(drive, facts), writer, test="journal", seed=1, known=known))
        writer.complete()
    evidence = recording.evidence("journal")
    assert evidence is not None
    findings = Journal().infer(evidence, known)
    outcomes = {mark.name: str(mark.outcome) for mark in score(findings, truth) if mark.name in NAMES}
    return {finding.name: finding for finding in findings}, outcomes


@pytest.mark.parametrize(("gap_ns", "late"), [(0.0, False), (4e5, True)])
def test_a_coarse_clock_does_not_hide_the_gaps_of_a_host(
    rng: np.random.Generator, gap_ns: float, late: bool
) -> None:
    """Most gaps seem none by a clock of a millisecond; their mean does not."""
    took = rng.uniform(20e6, 21e6, 200)
    done = np.cumsum(took + gap_ns)
    ticks = [(at // 1e6 * 1e6).astype(np.uint64) for at in (done - took, done)]
    log = IoLog.of(IoBatch.writes(np.arange(200) * 4096, 4096), ticks[0], ticks[1])
    runs = Runs(
        Footprints("disk", 8e6),
        many=[Many(name, log, Stop(10**9), True) for name in ("many-1", "many-again")],
    )
    runs.footprints.runs[4096] = [Run.of(4096, True, log)]
    merges = observe(runs).merges
    assert merges is not None and bool(merges.delay_ns) == late


@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS.keys())
def test_the_quantum_is_found_under_conditions(conditions: str, tmp_path: Path) -> None:
    _, outcomes = probed(1003, conditions, tmp_path / "r")
    assert outcomes["journal_quantum_bytes"] == "right"
    assert "wrong" not in outcomes.values()


NOT_ERASED = (
    'erase = "none"\nprior_use = "half-full"\nlook_ahead = "stays-on"\ntransport = "500 us"\nqueue_depth = 4'
)


@pytest.mark.parametrize(
    ("seed", "conditions"),
    [
        (99416, 'clock = "1 ms"\nbusy_share = 0.1'),
        (99448, 'volatile_cache = "said-off"\nhost_gap = "200 us"'),
    ],
)
def test_a_drive_that_cannot_be_erased_shows_its_out_of_band_data(
    seed: int, conditions: str, tmp_path: Path
) -> None:
    """Its bytes, wherever the log is, and the time that they take there."""
    found, outcomes = probed(seed, f"{NOT_ERASED}\n{conditions}", tmp_path / "r")
    data = found["out_of_band_bytes"]
    size = re.search(r'out_of_band = "(\d+) KiB"', _native.random_profile(seed, "journaled"))
    assert size is not None and isinstance(data.value, int) and data.interval is not None
    assert abs(data.value - int(size[1]) * 1024) < 0.04 * data.value
    assert data.interval[0] < int(size[1]) * 1024 < data.interval[1]
    assert outcomes["out_of_band_ns"] == "right"


@pytest.mark.parametrize("conditions", ["one at a time", "a hidden cache"])
@pytest.mark.parametrize("seed", [1003, 92023])
def test_single_writes_show_an_entry_where_none_wait_together(
    seed: int, conditions: str, tmp_path: Path
) -> None:
    _, outcomes = probed(seed, CONDITIONS[conditions], tmp_path / "r")
    assert outcomes["journal_entry_max_bytes"] == "right"


BLOCK, QUANTUM = 4096, 300 << 10


def splits_of(entry: int, *, slower: float = 0.0) -> Splits:
    """What is found of a log on flash whose entries hold so many bytes, and take longer by so many ns for
    each byte beyond."""
    rng = np.random.default_rng(7)

    def measure(size: int, writes: int) -> Run:
        parts = [entry] * (size // entry) + [size % entry] * (size % entry > 0) if not slower else [size]
        took = sum(2e6 + 1e6 * -(-part // QUANTUM) for part in parts) + slower * max(size - entry, 0)
        latency_ns = (took + rng.uniform(0, 1e5, writes)).astype(np.int64)
        return Run(size, False, latency_ns, np.cumsum(latency_ns + 100_000))

    splits = Splits(BLOCK, QUANTUM, "flash", 8e6, 1e6)
    find_split(splits, measure, 3, 1 << 30)
    return splits


class TestSplits:
    """A write that is longer than an entry."""

    def test_shorter_tracks_further_on_are_no_end_of_an_entry(self) -> None:
        rng, entry, runs = np.random.default_rng(7), 700 * BLOCK, 0

        def measure(size: int, writes: int) -> Run:
            nonlocal runs
            runs += 1
            parts = [entry] * (size // entry) + [size % entry] * (size % entry > 0)
            quanta = sum(-(-part // QUANTUM) for part in parts)
            longer = 1.0 if runs < 38 else 1.15  # of the tracks: this amid the search within a quantum
            turns = (0.3 * len(parts) + 0.21 * longer * quanta) % 1.0 + 1.0
            done_ns = 8e6 * np.cumsum(turns + rng.normal(0, 0.004, writes))
            latency_ns = np.diff(done_ns, prepend=0.0) - 5e5
            return Run(size, False, latency_ns.astype(np.int64), done_ns.astype(np.int64), str(runs))

        splits = Splits(BLOCK, QUANTUM, "disk", 8e6, 0.21 * 8e6)
        find_split(splits, measure, 3, 1 << 30)
        assert splits.split is not None and splits.whole <= entry < splits.split
        assert splits.confirmed() and runs > 38
        used = [run.step for size in sorted(splits.runs) for run in splits.runs[size]]
        assert len(used) < runs and list(_split_finding(splits).rows) == used, "runs not used are not cited"

    @pytest.mark.parametrize("blocks", [80, 255, 700, 1100])
    def test_an_entry_ends_amid_a_quantum(self, blocks: int) -> None:
        splits = splits_of(blocks * BLOCK)
        assert splits.split is not None and splits.whole <= blocks * BLOCK < splits.split
        assert splits.split - splits.whole <= 0.03 * splits.whole + BLOCK
        assert splits.confirmed() and splits.confidence() > 0.9

    def test_an_end_that_few_repeats_show_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As of random drive 100088: a value at 9 % is likelier wrong than right."""
        splits = splits_of(700 * BLOCK)
        assert _split_finding(splits).known
        monkeypatch.setattr(Splits, "confidence", lambda _: 0.4)
        assert not _split_finding(splits).known

    @pytest.mark.parametrize(("scatter", "longer"), [(0.004, True), (0.3, False)])
    def test_time_tells_of_a_few_writes_that_end_at_much_the_same_angles(
        self, scatter: float, longer: bool
    ) -> None:
        """A tenth of a revolution more each leaves six writes at angles that are mostly alike; where single
        times scatter by more than a quantum takes, the angles decide as ever."""
        rng = np.random.default_rng(7)
        splits = Splits(BLOCK, QUANTUM, "disk", 8e6, 0.1 * 8e6)
        one, two = splits.first_of(4), 4 * QUANTUM

        def run(turns: float) -> Run:
            places = np.arange(1, 7) * turns * 8e6
            latency_ns = np.diff(places, prepend=0.0) + rng.normal(0, scatter * 8e6, 6)
            return Run(one, True, latency_ns.astype(np.int64), places.astype(np.int64))

        splits.runs = {one: [run(4.4) for _ in range(3)], two: [run(4.5) for _ in range(3)]}
        pair = splits.pair(one, two)
        assert pair.aligned and not pair.more(two)
        assert splits.longer(one, two) == longer

    def test_one_that_ends_with_a_quantum_leaves_no_sign(self) -> None:
        assert splits_of(6 * QUANTUM).split is None

    def test_a_log_that_never_splits_a_write(self) -> None:
        assert splits_of(1 << 40).split is None

    def test_a_revolution_more_that_too_few_writes_show_is_measured_again(self) -> None:
        """Another entry made these writes end at the same angles, a revolution later (host-aware, seed
        9603; revolutions). Taken for one entry, longer sizes were said to be where an entry ends."""
        splits = Splits(BLOCK, 1_626_112, "disk", 5_128_217.0, 4.37e6)
        one, two = splits.first_of(7), 7 * splits.quantum
        turns = {
            one: [
                [6.91, 7.68, 7.18, 7.18, 7.22, 7.6],
                [7.25, 7.08, 7.32, 7.37, 7.14, 7.35],
                [7.04, 7.3, 7.41, 7.25, 7.3, 7.42],
            ],
            two: [
                [8.25, 8.16, 8.15, 8.05, 8.34, 8.32],
                [8.09, 8.62, 8.04, 7.93, 8.27, 8.46],
                [7.99, 8.44, 8.13, 8.03, 8.33, 8.35],
            ],
        }
        for size, runs in turns.items():
            took = [(np.array(each) * 5_128_217).astype(np.int64) for each in runs]
            splits.runs[size] = [Run(size, True, each, np.cumsum(each)) for each in took]
        assert splits.pair(one, two).aligned and not splits.longer(one, two)
        assert splits.doubtful(one, two)
        splits.runs = {size: 5 * runs for size, runs in splits.runs.items()}
        assert splits.longer(one, two) and not splits.doubtful(one, two)

    def test_a_revolution_lost_before_the_second_quantum_hides_no_entry(self) -> None:
        """The step to it took two and a half times as long as a quantum passes the head (host-aware, seed
        120362), and another entry seemed to be none: an entry was said to end a quantum further on."""
        entry, turn_ns = 7 * QUANTUM // 2, 8e6

        def measure(size: int, writes: int) -> Run:
            parts = [entry] * (size // entry) + [size % entry] * (size % entry > 0)
            quanta = sum(-(-part // QUANTUM) for part in parts)
            turns = 1.0 + 0.25 * quanta + 0.02 * len(parts) + 0.4 * (quanta > 1)
            latency_ns = (turns * turn_ns + np.arange(writes) % 3 * 1e4).astype(np.int64)
            return Run(size, True, latency_ns, np.cumsum(latency_ns))

        splits = Splits(BLOCK, QUANTUM, "disk", turn_ns, 0.65 * turn_ns, track=QUANTUM / 0.24)
        find_split(splits, measure, 3, 1 << 30)
        assert splits.split is not None and splits.whole <= entry < splits.split
        assert splits.confirmed() and splits.confidence() > 0.9

    def test_sizes_of_one_entry_that_take_unlike_times_are_a_contradiction(self) -> None:
        splits = splits_of(700 * BLOCK)
        assert not splits.contradicted() and _split_finding(splits).known
        first, longer = splits.first_of(7), 7 * QUANTUM
        took = {first: 20_000_000, longer: 28_000_000}
        for size in took:
            latency_ns = np.full(6, took[size], np.int64)
            splits.runs[size] = [Run(size, True, latency_ns, np.cumsum(latency_ns))] * 3
        assert splits.contradicted() and not _split_finding(splits).known

    def test_without_a_rotation_half_a_quantum_is_the_limit(self) -> None:
        rng = np.random.default_rng(3)

        def splits(longer_ns: float) -> Splits:
            def runs(size: int, more_ns: float) -> list[Run]:
                latency_ns = (9e6 + more_ns + rng.uniform(0, 1e5, 12)).astype(np.int64)
                return [Run(size, True, latency_ns, np.cumsum(latency_ns))]

            made = Splits(BLOCK, QUANTUM, "disk", None, 1e6)
            made.whole = 2 * QUANTUM
            first = made.first_of(2)
            made.runs = {first: runs(first, 0.0), made.whole: runs(made.whole, longer_ns)}
            return made

        assert not splits(3e5).contradicted(), "jitter is no contradiction"
        assert splits(7e5).contradicted()

    def test_what_goes_on_longer_and_longer_is_no_second_entry(self) -> None:
        splits = splits_of(255 * BLOCK, slower=20.0)
        assert splits.split is None or not splits.confirmed()


def test_a_cache_that_ignores_flush_hides_the_journal_but_for_fua(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding, _ = probed(1003, 'volatile_cache = "ignores-flush"', tmp_path / "forced")
    assert finding["journal_quantum_bytes"].known
    monkeypatch.setattr(fua_writes, "obeyed", lambda *_, **__: False)
    finding, outcomes = probed(1003, 'volatile_cache = "ignores-flush"', tmp_path / "r")
    assert not any(each.known for each in finding.values())
    assert "FLUSH does not empty" in finding["journal_quantum_bytes"].why
    assert set(outcomes.values()) == {"right"}


def test_cleaning_is_cut_off() -> None:
    latency_ns = np.full(100, 1_000_000, np.int64)
    latency_ns[94::2] = 500_000_000
    latency_ns[95] = 500_000_000
    assert before_stalls(latency_ns, Stop(100_000_000, 4, 8)) == 94
    assert before_stalls(latency_ns[:90], Stop(100_000_000, 4, 8)) == 90
    assert slow_ones(latency_ns, None)[94]


def test_a_saw_is_read_to_its_shortest() -> None:
    turn, shortest, end = 10e6, 23.4e6, 1.7e6
    rng = np.random.default_rng(3)
    submit = np.cumsum(rng.uniform(60e6, 90e6, 60))
    done = np.ceil((submit + shortest - end) / turn) * turn + end
    assert abs(refined_turn([done], turn * 1.0008) - turn) < turn * 2e-5
    late = done + np.abs(rng.normal(0, 0.2e6, 60))
    read = saw(submit, late, turn)
    assert abs(read.shortest_ns - shortest) < 0.04 * turn
    assert read.agreement > 0.9


def timed(shortest_ns: float, end_ns: float, turn_ns: float, tick_ns: int, count: int) -> list[IoLog]:
    """Commands that come in all phases, take that long at least and end at one angle; a clock of a tick."""
    rng = np.random.default_rng(5)
    submit = np.cumsum(rng.uniform(60e6, 90e6, count)) + rng.permutation(count) / count * turn_ns
    done = np.ceil((submit + shortest_ns - end_ns) / turn_ns) * turn_ns + end_ns
    done += np.abs(rng.normal(0, 0.1e6, count))
    read = IoBatch.reads([4096], 4096)
    columns = np.stack([submit, done], axis=1) // tick_ns * tick_ns
    return [IoLog.of(read, each[:1].astype(np.uint64), each[1:].astype(np.uint64)) for each in columns]


@pytest.mark.parametrize("out_of_band_ns", [2.1e6, 5.45e6, 17.3e6])
@pytest.mark.parametrize(
    ("tick_ns", "count", "known"), [(1_000, 48, True), (10**6, 48, False), (10**6, 400, True)]
)
def test_out_of_band_data_by_a_coarse_clock_takes_more_cycles(
    out_of_band_ns: float, tick_ns: int, count: int, known: bool
) -> None:
    """99506: with 48 cycles a clock of a millisecond leaves more than a twentieth of a revolution open."""
    turn_ns, quantum_ns, overhead_ns = 11.8e6, 2.95e6, 1.3e6
    writes = timed(overhead_ns + out_of_band_ns + quantum_ns, 4.1e6 + quantum_ns, turn_ns, tick_ns, count)
    reads = timed(overhead_ns, 4.1e6, turn_ns, tick_ns, count)
    tracks_ns = (0.9 * quantum_ns, 1.1 * quantum_ns)
    finding = judge_disk(writes, reads, turn_ns, QuantumTime(quantum_ns, tracks_ns))
    assert finding.known == known
    if known:
        assert isinstance(finding.value, int) and abs(finding.value - out_of_band_ns) < 0.05 * turn_ns
        low, high = cast(tuple[float, float], finding.interval)
        assert low <= out_of_band_ns <= high


@pytest.mark.parametrize("tick_ns", [1_000, 1_000_000])
def test_the_overhead_of_flash_by_a_coarse_clock_is_no_whole_tick(tick_ns: int) -> None:
    """The quickest FLUSHes seem to take nothing; what they take is their mean."""
    rng = np.random.default_rng(17)
    out_of_band_ns, overhead_ns = 2_000_000, 700_000
    submit = np.cumsum(rng.integers(5_000_000, 9_000_000, 96))
    done = submit + overhead_ns + rng.integers(0, 20_000, 96)
    flushes = IoBatch(np.full(96, int(Op.FLUSH), np.uint8), np.zeros(96, np.uint64), np.zeros(96, np.uint32))
    times = ((each // tick_ns * tick_ns).astype(np.uint64) for each in (submit, done))
    found = judge_flash(
        IoLog.of(flushes, *times), overhead_ns + FLASH_NS / 2 + out_of_band_ns, 20_000.0, 12e6
    )
    assert isinstance(found.value, int) and abs(found.value - out_of_band_ns) < 200_000
    assert found.interval is not None and found.interval[0] < out_of_band_ns < found.interval[1]


def lone_writes(size: int, until: int, crosses: int) -> Run:
    """Lone writes to flash: `until` bytes take one quantum, more take two; `crosses`: a piece more."""
    pieces = 1 + crosses + (size > until)
    latency_ns = 2_000_000 + 1_000_000 * pieces + np.arange(96) % 7 * 1_000
    return Run(size, False, latency_ns, np.cumsum(latency_ns + 100_000))


@pytest.mark.parametrize("is_array", [False, True])
def test_a_stripe_ends_at_an_address_and_a_quantum_at_a_size(is_array: bool) -> None:
    """Writes that end at a border of 64 KiB, and others as long that begin half as far before it."""
    low, block = 60 << 10, 4096
    footprints = Footprints("flash", 10e6)
    for size in (block, low, low + block):
        footprints.runs[size] = [lone_writes(size, low, 0) for _ in range(4)]
    runs = Runs(footprints, shifted=[lone_writes(low, low, int(is_array)) for _ in range(4)])
    seen = Seen(footprints, quantum=Quantum(low, low + block, 1e6, 1e4, 1.0))
    found = {each.name: each for each in judge(seen, runs, Known())}
    assert found["journal_quantum_bytes"].known != is_array


def test_a_quantum_that_ends_at_a_stripe_of_any_size_is_unknown() -> None:
    footprints = Footprints("disk", 10e6)
    footprints.runs = {4096: []}
    for end in (64 << 10, 2 << 20, 3 << 20):
        seen = Seen(footprints, quantum=Quantum(end - 4096, end, 1e6, 1e4, 1.0))
        found = {each.name: each for each in judge(seen, Runs(footprints), Known())}
        assert set(found) == {"journal_quantum_bytes", "journal_entry_max_bytes", "out_of_band_ns"}
        assert not any(each.known for each in found.values())


def test_a_step_takes_about_as_long_as_its_data_passes_the_head() -> None:
    """64 KiB pass in 0.03 to 0.1 of a revolution: two and a half more are those of a write cut in two, and a
    hundredth is no quantum."""
    footprints = Footprints("disk", 10e6)
    footprints.runs = {4096: [Run(4096, False, np.full(24, 12_000_000), np.arange(24) * 13_000_000)]}
    tracks = Finding("track_bytes", {"od": 2_000_000, "id": 700_000}, None, None, 1.0, "")
    turns = Finding("rotation_ns", 10_000_000, "ns", None, 1.0, "")
    for step_turns, known in ((-0.1, False), (0.01, False), (0.1, True), (1.1, True), (2.5, False)):
        seen = Seen(footprints, quantum=Quantum(64 << 10, 68 << 10, step_turns * 10e6, 1e4, 1.0))
        found = {each.name: each for each in judge(seen, Runs(footprints), Known([tracks, turns]))}
        assert found["journal_quantum_bytes"].known == known, step_turns


def test_a_step_of_less_than_a_tick_is_no_quantum() -> None:
    """99597 drawn: by a clock of 1 ms one size took 0.7 ms longer than the next smaller one."""
    tracks = Finding("track_bytes", {"od": 2_000_000, "id": 700_000}, None, None, 1.0, "")
    bounds = StepBounds.of(64 << 10, Known([tracks]), 10e6)
    assert bounds is not None and bounds.least_ns == pytest.approx(0.5 * 65_536 / 2_000_000 * 10e6)
    coarse = StepBounds.of(64 << 10, Known([tracks]), 10e6, 1e6)
    assert coarse is not None and coarse.least_ns == 1e6
    assert StepBounds.of(64 << 10, Known([]), 10e6) is None, "of unknown tracks nothing is said"
