"""The camera and a run of an emulated drive: the command of each seek, and what a film of the drive shows."""

import json
import re
import shlex
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from camera_clips import film
from skylight.camera.align import align
from skylight.camera.arm_motion import Traced, read_trace
from skylight.camera.frame_rate import Rate
from skylight.camera.head_positions import Graph, graph_of
from skylight.camera.seek_commands import Commands
from skylight.camera.seek_detection import Reading, read
from skylight.camera.verdict import judge
from skylight.cli.app import run
from skylight.engines.head_trace import HeadTraceFile
from skylight.errors import UsageError
from skylight.evidence import EMPTY_LOG, IoLog, Op
from skylight.findings import UNKNOWN, Finding
from skylight.reproduce.emulated_drives import GIB, MIB, Bench, band_start
from skylight.reproduce.fragmented_region import MIDDLE, fragment

F64 = NDArray[np.float64]
STEP = 8 * MIB
# A time lapse: a stroke of a surface at full speed takes two minutes.
LAPSE_HZ = 0.5
# A seek from the OD to the middle, s: half of the "about 16 ms" from end to end (section 4.3), and a bit.
SEEK_S = 0.010


# --- Alignment.


@dataclass(frozen=True)
class Served:
    """Commands one at a time, and their seeks: start and end (s on the log's clock), row of the command."""

    log: IoLog
    start_s: F64
    end_s: F64


def served(rng: np.random.Generator, count: int, period_s: float | None = None) -> Served:
    """Commands of random length, or of one length; each moves the arm first."""
    seeks_s = rng.uniform(0.004, 0.016, count) if period_s is None else np.full(count, 0.008)
    takes_s = seeks_s + rng.uniform(0.0005, 0.012, count) if period_s is None else np.full(count, period_s)
    pauses_s = rng.exponential(0.002, count) if period_s is None else np.zeros(count)
    submit_s = 3600 + np.cumsum(pauses_s) + np.concatenate([[0], np.cumsum(takes_s)[:-1]])
    ns = np.round(1e9 * np.stack([submit_s, submit_s + takes_s])).astype(np.uint64)
    log = IoLog(
        np.full(count, Op.READ, np.uint8),
        rng.integers(0, 1 << 40, count, np.uint64),
        np.full(count, 4096, np.uint32),
        *ns,
    )
    return Served(log, submit_s + 0.0002, submit_s + 0.0002 + seeks_s)


def test_a_film_is_found_in_a_longer_recording(rng: np.random.Generator) -> None:
    run, frame_s = served(rng, 4000), 1 / 480
    shown = np.arange(2500, 2540)
    noise_s = rng.normal(0, 0.3 * frame_s, (2, len(shown)))
    start_s, end_s = np.stack([run.start_s, run.end_s])[:, shown] - 3610.0 + noise_s
    found = align(start_s, end_s, frame_s, run.log)
    assert found.frame_0_s == pytest.approx(3610, abs=frame_s), found.why
    assert sum(row == at for row, at in zip(found.rows, shown, strict=True)) >= 36
    # A seek that no command contains has none: one of the drive's own, in a pause.
    pause = int(np.argmax(np.diff(run.log.submit_ns[2500:2540].astype(np.float64))))
    own_s = np.array([end_s[pause] + 0.03, end_s[pause] + 0.04])
    later = np.where(np.arange(40) > pause, 0.1, 0.0)
    submit, complete = (
        column + (np.where(np.arange(4000) > 2500 + pause, 100_000_000, 0)).astype(np.uint64)
        for column in (run.log.submit_ns, run.log.complete_ns)
    )
    paused = IoLog(run.log.op, run.log.offset, run.log.size, submit, complete)
    with_own = align(
        np.sort(np.append(start_s + later, own_s[0])),
        np.sort(np.append(end_s + later, own_s[1])),
        frame_s,
        paused,
    )
    assert with_own.frame_0_s == pytest.approx(3610, abs=frame_s), with_own.why
    assert with_own.rows[pause + 1] is None


def test_what_is_ambiguous_or_foreign_is_not_aligned(rng: np.random.Generator) -> None:
    periodic = served(rng, 200, 0.05)
    found = align(periodic.start_s[20:40] - 3600, periodic.end_s[20:40] - 3600, 1 / 480, periodic.log)
    assert found.frame_0_s is None
    assert "ambiguous" in found.why
    run, other = served(rng, 1000), served(rng, 1000)
    found = align(other.start_s[:40] - 3600, other.end_s[:40] - 3600, 1 / 480, run.log)
    assert found.frame_0_s is None, found.why
    assert set(found.rows) == {None}
    assert align(run.start_s[:2], run.end_s[:2], 1 / 480, run.log).frame_0_s is None


def test_a_film_of_slow_commands_is_found_beside_dense_ones(rng: np.random.Generator) -> None:
    # Of so many commands a second, many begin with a seek wherever the film is laid.
    slow, dense = served(rng, 400), served(rng, 20_000, 0.004)
    later = slow.log.complete_ns.max() - np.uint64(3600 * 10**9)
    log = IoLog.joined([slow.log, replace(dense.log, submit_ns=dense.log.submit_ns + later,
                                          complete_ns=dense.log.complete_ns + later)])  # fmt: skip
    start_s, end_s = slow.start_s[100:140] - 3600, slow.start_s[100:140] - 3600 + 0.0035
    found = align(start_s, end_s, 1 / 1000, log)
    assert found.frame_0_s == pytest.approx(3600, abs=1e-3), found.why
    assert found.rows == tuple(range(100, 140))


def test_each_filmed_seek_carries_its_read(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench("st5000")
    with HeadTraceFile(tmp_path / "head.arrows", bench.engine):
        log = bench.reads(np.sort(rng.integers(0, bench.size // MIB, 200) * MIB)[rng.permutation(200)])
    trace = read_trace(tmp_path / "head.arrows")
    clip, _, seen = film(trace, tmp_path / "film.mp4", 1.7, 400, 480.0)
    start_s, end_s = (np.array([getattr(one, end) for one in seen.seeks]) / 480 for end in ("start", "end"))
    aligned = align(start_s, end_s, 1 / 480, log)
    first_s = int(log.submit_ns[0]) / 1e9
    assert aligned.frame_0_s == pytest.approx(first_s + clip.start_s, abs=2 / 480), aligned.why
    # One read at a time: the read of a seek is the one that was in flight.
    middle_s = first_s + clip.start_s + (start_s + end_s) / 2
    flying = np.searchsorted(log.complete_ns.astype(np.float64) / 1e9, middle_s)
    assert sum(row == at for row, at in zip(aligned.rows, flying, strict=True)) >= 0.9 * len(flying)
    assert not any(row is not None and row != at for row, at in zip(aligned.rows, flying, strict=True))
    # From the command line, with the run as fio logs it: completion to a millisecond, and no test.
    (tmp_path / "run_lat.1.log").write_text(
        "".join(
            f"{done // 1_000_000}, {done - sent}, 0, {size}, {offset}, 0\n"
            for done, sent, size, offset in zip(
                *(getattr(log, name).tolist() for name in ("complete_ns", "submit_ns", "size", "offset")),
                strict=True,
            )
        )
    )
    io = ["--rate", "480", "--io", f"fio-log:{tmp_path / 'run_lat.1.log'}"]
    assert run(["camera", "track", str(tmp_path / "film.mp4"), *io, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["io"]["frame_0_s"] == pytest.approx(first_s + clip.start_s, abs=3 / 480)
    commands = [one["io"] for one in facts["seeks"] if one["io"] is not None]
    assert len(commands) >= 0.9 * len(facts["seeks"])
    for one in commands:
        assert one["test"] is None
        assert (one["op"], one["offset"], one["size"]) == ("read", int(log.offset[one["row"]]), 4096)


def test_a_command_is_named_by_test_step_and_row() -> None:
    logs = [served(np.random.default_rng(seed), count).log for seed, count in ((1, 3), (2, 2), (3, 4))]
    parts = [("journal", "fill", logs[0]), ("journal", "pause", EMPTY_LOG), ("journal", "after", logs[1])]
    commands = Commands.joined([*parts, ("zones", "fill", logs[2])])
    seen = [commands.described(row) for row in range(9)]
    named = [(one["test"], one["step"], one["row"]) for one in seen if one is not None]
    assert named[2:6] == [
        ("journal", "fill", 2),
        ("journal", "after", 0),
        ("journal", "after", 1),
        ("zones", "fill", 0),
    ]
    assert [one["offset"] for one in seen if one is not None] == np.concatenate(
        [log.offset for log in logs]
    ).tolist()
    assert commands.described(None) is None


def test_io_that_is_no_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["camera", "track", str(tmp_path / "film.mp4"), "--io", "sim:st5000as0011"]) == 2
    assert "recording:DIR or fio-log:FILE" in capsys.readouterr().err


# --- What a film of the drive shows.


def test_the_phases_of_a_cleaning_on_film(tmp_path: Path) -> None:
    # Figure 11 of the paper: 512 blocks of a band at 2.5 TB are rewritten, then the drive is idle.
    bench = Bench("st5000")
    with HeadTraceFile(tmp_path / "head.arrows", bench.engine):
        fragment(bench, band_start(MIDDLE))
        bench.pause(5.0)
    trace = read_trace(tmp_path / "head.arrows")
    rate_hz, purpose = 240.0, trace.purpose
    begin_s = [
        float(trace.since_s[purpose == one][0]) for one in ("clean_read", "clean_stage", "clean_write")
    ]
    _, _, seen = film(trace, tmp_path / "film.mp4", begin_s[0] - 1.0, round(3.2 * rate_hz), rate_hz)
    # The band lies where the map does, so that its writing and the map are one stay; see `_cleaning`.
    assert [one.name for one in seen.cleaning] == ["idle", "band read", "cache", "band write, map", "park"]
    start_s = [one.start / rate_hz for one in seen.cleaning]
    assert start_s[1] == pytest.approx(1.0 + SEEK_S, abs=3 / rate_hz)
    took_s = {one.name: (one.end - one.start) / rate_hz for one in seen.cleaning}
    # "About 180 ms", "1,210 ms at the OD", within 20 % as row S3b has it.
    assert took_s["band read"] == pytest.approx(0.180, rel=0.2)
    assert took_s["cache"] == pytest.approx(1.210, rel=0.2)
    # From the one arrival to the other, against the trace.
    assert start_s[3] - start_s[1] == pytest.approx(begin_s[2] - begin_s[0], abs=2 / rate_hz)


@dataclass(frozen=True)
class Lapse:
    """Long sequential reads at the OD, at the MD and near the ID, as Figure 19 of the paper has them;
    `reads_s` are their beginnings and ends, s."""

    trace: Traced
    reads_s: list[tuple[float, float]]

    def inward(self, seen: Reading) -> list[list[bool]]:
        """Whether each stroke of a time lapse leads inward, by read."""
        return [
            [one.inward for one in seen.strokes if start_s <= (one.start + one.end) / 2 / LAPSE_HZ < end_s]
            for start_s, end_s in self.reads_s
        ]

    @property
    def frames(self) -> int:
        """Number of frames of a time lapse."""
        return int((self.reads_s[-1][1] - self.reads_s[0][0]) * LAPSE_HZ)


@pytest.fixture(scope="module")
def lapse(tmp_path_factory: pytest.TempPathFactory) -> Lapse:
    path, bench = tmp_path_factory.mktemp("lapse") / "head.arrows", Bench("st5000")
    reads_s = []
    with HeadTraceFile(path, bench.engine):
        for share, length in ((0.0, 50 * GIB), (0.48, 50 * GIB), (0.95, 20 * GIB)):
            first, from_s = int(share * bench.size) // STEP * STEP, bench.now_ns / 1e9
            bench.reads(first + np.arange(length // STEP) * STEP, STEP)
            reads_s.append((from_s, bench.now_ns / 1e9))
            bench.pause(30.0)
    return Lapse(read_trace(path), reads_s)


def check_figure_19(inward: list[list[bool]]) -> None:
    # "Both at the OD and at the ID, shingling direction is towards the middle diameter" (section 4.9).
    assert inward[0] == [True] * 3
    assert len(inward[2]) >= 2
    assert not any(inward[2])
    # "A conventional serpentine layout with wide serpents is used at the MD."
    assert len(inward[1]) >= 3
    assert all(one != two for one, two in pairwise(inward[1]))


def test_the_direction_of_shingling_and_the_serpentine(lapse: Lapse, rng: np.random.Generator) -> None:
    position = lapse.trace.motion.at(np.arange(lapse.frames) / LAPSE_HZ)
    position += rng.normal(0, 0.001, lapse.frames)
    check_figure_19(lapse.inward(read(position, np.ones(lapse.frames), LAPSE_HZ)))


def check_findings_of_strokes(findings: list[Finding], *, whole: bool) -> None:
    """Row S11b: the direction of shingling, the serpentine region."""
    found = {one.name: one for one in findings}
    shingling, serpentine = found["shingling_direction"], found["serpentine_region"]
    if whole:
        assert shingling.value == {"od": "inward", "id": "outward"}, shingling.why
        assert isinstance(serpentine.value, dict), serpentine.why
        # The second of the three reads is at the MD, where the profile has six zones of serpentines.
        assert 0.3 < float(serpentine.value["from"]) < float(serpentine.value["to"]) < 0.6
        return
    assert isinstance(shingling.value, dict) or not shingling.known
    if isinstance(shingling.value, dict):
        assert shingling.value.items() <= {"od": "inward", "id": "outward"}.items()


def test_findings_of_strokes_need_strokes(rng: np.random.Generator, tmp_path: Path) -> None:
    """A conventional disk has no such strokes; random reads within a narrow region go to and fro too."""
    bench = Bench("cmr")
    with HeadTraceFile(tmp_path / "head.arrows", bench.engine):
        bench.reads([0])
        bench.reads([bench.size - 4096])
        for share in (0.0, 0.48, 0.95):
            first = int(share * bench.size) // STEP * STEP
            bench.reads(first + np.arange(20 * GIB // STEP) * STEP, STEP)
        pass_s = bench.now_ns / 1e9
        bench.reads(rng.integers(0, bench.size // (25 * MIB), 10_000) * MIB)
        end_s = bench.now_ns / 1e9
    trace = read_trace(tmp_path / "head.arrows")
    for start_s, stop_s, rate_hz in (
        (0.0, pass_s, LAPSE_HZ),
        (pass_s, pass_s + 8, 480.0),
        (pass_s, end_s, 5.0),
    ):
        times_s = start_s + np.arange(int((stop_s - start_s) * rate_hz)) / rate_hz
        position = trace.motion.at(times_s) + rng.normal(0, 0.003, len(times_s))
        graph = Graph("head", position, np.ones(len(times_s)), times_s - start_s, rate_hz, "given", 2, 29.0)
        for one in judge(graph)[2:4]:
            assert one.value == UNKNOWN, f"{rate_hz} {one}"


def test_an_arm_that_goes_to_and_fro_fast_makes_no_strokes() -> None:
    # Too slow for a seek over so short a way, and a thousand times as fast as a sequential pass.
    frames = np.arange(2000)
    position = 0.4 + 0.03 * np.abs(1 - (frames / 20) % 2)
    position += np.random.default_rng(1).normal(0, 0.0005, len(frames))
    ones = np.ones(len(frames))
    assert len(read(position, ones, LAPSE_HZ).strokes) > 50
    for fast in (read(position, ones, 1000.0), read(position, ones)):
        assert (fast.strokes, fast.pattern) == ((), None)
        assert not any(dwell.stroke for dwell in fast.dwells)
    graph = Graph("head", position, np.ones(len(frames)), frames / 1000, 1000.0, "given", 2, 29.0)
    assert [one.value for one in judge(graph)[2:4]] == [UNKNOWN, UNKNOWN]
    lapse_s = frames / LAPSE_HZ
    slow = judge(replace(graph, time_s=lapse_s, capture_hz=LAPSE_HZ))[3]
    assert slow.known, slow.why


@pytest.mark.parametrize("size", [(224, 160), (448, 320)])
def test_a_time_lapse_in_which_the_head_rests_at_three_places(
    lapse: Lapse, size: tuple[int, int], tmp_path: Path
) -> None:
    # The first frame's exposure sees the head parked and at the OD: its mask is the fullest.
    clip, found, seen = film(lapse.trace, tmp_path / "film.mp4", 0.0, lapse.frames, LAPSE_HZ, size)
    truth = clip.truth()
    error = found.position - (truth - truth.min()) / np.ptp(truth)
    assert np.quantile(np.abs(error), 0.95) < 0.02
    inward = lapse.inward(seen)
    if size[0] >= 448:
        check_figure_19(inward)
    else:
        # A stroke is 2 px long in it: some are not seen, and none is seen the wrong way.
        assert all(inward[0])
        assert not any(inward[2])
    check_findings_of_strokes(judge(graph_of(found, Rate(LAPSE_HZ, "given"))), whole=size[0] >= 448)


def test_an_arm_that_turns_too_far_is_refused(
    lapse: Lapse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skylight.camera.angle_to_position.LARGEST_SWING_RAD", 0.2)
    with pytest.raises(UsageError, match=r"degrees, and the arm of a drive by less than 11: .*--region"):
        film(lapse.trace, tmp_path / "film.mp4", 300.0, 120, LAPSE_HZ)


# --- From the command line.


def filmed_and_tracked(
    scene: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> dict[str, dict[str, object]]:
    """The findings of a film made with the commands that `camera trace` prints."""
    trace, found = folder / "head.arrows", folder / "found"
    assert run(["camera", "trace", "sim:st5000as0011", scene, "-o", str(trace)]) == 0
    printed = capsys.readouterr().out
    told = dict(re.findall(r"(Film|Track) it: skylight (.*)", printed))
    film_it, track_it = (shlex.split(told[what]) for what in ("Film", "Track"))
    assert run([*film_it, *more]) == 0
    assert run([*track_it[:-1], str(found), "--no-video"]) == 0
    capsys.readouterr()
    assert run(["camera", "findings", str(found), "--json"]) == 0
    findings: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)["findings"]
    return findings


def test_a_cleaning_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = filmed_and_tracked("cleaning", tmp_path, capsys, "--size", "224x160")
    assert findings["cache_location"]["value"] == "od"
    assert findings["map_location"]["value"] == "md"
    phases = findings["cleaning_phases"]["value"]
    assert isinstance(phases, dict)
    assert phases["band_read"] == pytest.approx(180e6, rel=0.2)
    assert phases["cache"] == pytest.approx(1210e6, rel=0.2)


@pytest.mark.long
def test_passes_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = filmed_and_tracked("passes", tmp_path, capsys)
    assert findings["shingling_direction"]["value"] == {"od": "inward", "id": "outward"}
    region = findings["serpentine_region"]["value"]
    assert isinstance(region, dict)
    assert 0.3 < region["from"] < region["to"] < 0.6


def test_a_drive_that_does_not_clean_when_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "head.arrows"
    assert run(["camera", "trace", "emulated-smr-1", "cleaning", "-o", str(trace)]) == 2
    assert "does not clean within 10 s" in capsys.readouterr().err
    assert not trace.exists()
    trace.write_text("mine")
    assert run(["camera", "trace", "st5000as0011", "cleaning", "-o", str(trace)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert trace.read_text() == "mine"
