"""What films of emulated drives show of them, beside what timing shows: `skylight camera findings`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from camera_clips import film
from one_test import truth_of
from skylight.camera.align import Alignment
from skylight.camera.arm_motion import Traced, read_trace
from skylight.camera.frame_rate import Rate
from skylight.camera.graph_files import keep
from skylight.camera.head_positions import Graph, graph_of
from skylight.camera.merge_findings import beside_timing, joined
from skylight.camera.verdict import ENDS_TAKEN, RISING_TAKEN, Io, judge
from skylight.cli.app import run
from skylight.engines.head_trace import HeadTraceFile
from skylight.engines.sim import read_profile
from skylight.evidence import IoLog, Op
from skylight.findings import UNKNOWN, Finding
from skylight.probe import film_findings as declared
from skylight.probe.cache_location.findings import LOCATION
from skylight.probe.cleaning.findings import TYPE
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.rotation.findings import SEEK, SEEK_RIGHT
from skylight.reproduce.emulated_drives import DRIVES, MIB, Bench, band_start
from skylight.reproduce.fragmented_region import fragment

# Phases of a cleaning are right within a fifth, as row S3b has it.
PHASE_RIGHT = 0.2
F64 = NDArray[np.float64]
# A seek over all of the stroke, s.
SEEK_S = 0.016


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {one.name: one for one in findings}


def findings_json(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    """Of `skylight camera findings`."""
    capsys.readouterr()
    assert run(["camera", "findings", *arguments, "--json"]) == 0
    found: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)["findings"]
    return found


# --- A drive that cleans, and one that does not.


def test_findings_of_a_film_of_a_cleaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As Figure 11 of the paper, of a band that does not lie where the map does.
    bench, rate_hz = Bench("st5000"), 240.0
    with HeadTraceFile(tmp_path / "head.arrows", bench.engine):
        fragment(bench, band_start(int(0.75 * bench.size)))
        bench.pause(5.0)
    trace = read_trace(tmp_path / "head.arrows")
    first_s = {name: float(trace.since_s[trace.purpose == name][0]) for name in set(trace.purpose)}
    path = tmp_path / "film.mp4"
    film(trace, path, first_s["clean_read"] - 1.0, round(3.2 * rate_hz), rate_hz)
    out = tmp_path / "found"
    assert run(["camera", "track", str(path), "--rate", "240", "-o", str(out), "--no-video"]) == 0
    found = findings_json(str(out), capsys=capsys)
    assert found["cache_location"]["value"] == "od", found["cache_location"]
    assert found["map_location"]["value"] == "md", found["map_location"]
    phases = found["cleaning_phases"]["value"]
    assert isinstance(phases, dict), found["cleaning_phases"]
    # The cache is at the OD: where the arm is there, the band is not.
    times_s = np.arange(first_s["clean_read"] + SEEK_S, first_s["map_update"], 1e-3)
    at_cache = np.flatnonzero(trace.motion.at(times_s) < 0.02)
    true_s = {
        "band_read": at_cache[0] * 1e-3,
        "cache": len(at_cache) * 1e-3,
        "band_write": (len(times_s) - at_cache[-1]) * 1e-3,
    }
    assert {name: took / 1e9 for name, took in phases.items()} == pytest.approx(true_s, rel=PHASE_RIGHT)
    for name in ("shingling_direction", "serpentine_region", "arm_ns"):
        assert found[name]["value"] == UNKNOWN, found[name]


def mixed(
    drive: str, rng: np.random.Generator, folder: Path, *, to_one_end: bool = False
) -> tuple[Bench, Traced, IoLog]:
    """Random writes and random reads in turn, and their head trace; or nine of ten writes to a hundredth."""
    bench, logs = Bench(drive), []
    with HeadTraceFile(folder / "head.arrows", bench.engine):
        for number in range(120):
            at = rng.integers(0, bench.size // MIB, 1) * MIB
            if to_one_end and number % 2 == 0:
                at = at // MIB // 100 * MIB if number % 20 else np.array([bench.size - MIB])
            logs.append(bench.reads(at) if number % 2 else bench.writes(at))
    return bench, read_trace(folder / "head.arrows"), IoLog.joined(logs)


def graph_at(position: F64, times_s: F64) -> Graph:
    """A graph without error."""
    rate_hz = 1 / float(times_s[1])
    return Graph("clip", position, np.ones(len(position)), times_s, rate_hz, "given", 2, 29.0)


def arm_truth_ns(drive: str) -> dict[str, float]:
    value = truth_of(read_profile(DRIVES[drive])[0])["seek_ns"]["value"]
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(("drive", "cache"), [("st5000", "od"), ("cmr", None)])
def test_findings_of_a_film_of_reads_and_writes(
    drive: str, cache: str | None, rng: np.random.Generator, tmp_path: Path
) -> None:
    bench, trace, log = mixed(drive, rng, tmp_path)
    rate_hz = 1000.0
    _, seen, _ = film(trace, tmp_path / "film.mp4", 0.1, 900, rate_hz)
    graph = graph_of(seen, Rate(rate_hz, "given"))
    found = by_name(judge(graph, Io(log, bench.size)))
    assert found["cache_location"].value == (cache or UNKNOWN), found["cache_location"].why
    for name in ("map_location", "cleaning_phases", "shingling_direction", "serpentine_region"):
        assert found[name].value == UNKNOWN, found[name]
    arm = found["arm_ns"].value
    assert isinstance(arm, dict), found["arm_ns"].why
    true_ns = arm_truth_ns(drive)
    assert "third" in arm
    for part in {"third", "full"} & arm.keys():
        assert float(arm[part]) == pytest.approx(true_ns[part], rel=SEEK_RIGHT.part)
    # Without the I/O nobody knows what the arm moves for.
    assert by_name(judge(graph))["cache_location"].value == UNKNOWN


def test_writes_to_one_end_of_a_conventional_disk_show_no_cache(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    bench, trace, log = mixed("cmr", rng, tmp_path, to_one_end=True)
    times_s = np.arange(900) / 1000
    graph = graph_at(trace.motion.at(0.1 + times_s), times_s)
    found = by_name(judge(graph, Io(log, bench.size)))["cache_location"]
    assert found.value == UNKNOWN
    assert "too near each other" in found.why


def test_a_conventional_disk_that_rests_cleans_nothing(tmp_path: Path) -> None:
    bench, rate_hz = Bench("cmr"), 240.0
    with HeadTraceFile(tmp_path / "head.arrows", bench.engine):
        bench.reads([0, bench.size - MIB, 0, bench.size // 2])
        fragment(bench, bench.size // 2 // MIB * MIB)
        bench.pause(1.0)
        bench.reads([0, bench.size // 2, 0, bench.size // 2, bench.size - MIB])
    trace = read_trace(tmp_path / "head.arrows")
    length_s = float(trace.since_s[-1]) + 0.2
    _, seen, _ = film(trace, tmp_path / "film.mp4", length_s - 3.0, round(3.0 * rate_hz), rate_hz)
    found = by_name(judge(graph_of(seen, Rate(rate_hz, "given"))))
    assert {one.value for one in found.values()} == {UNKNOWN}
    # Beside timing that shows what it is, what it cannot have is left out.
    cmr = DRIVE_TYPE.found("cmr", 0.97, "as measured")
    beside = by_name(beside_timing([cmr], found.values()))
    assert beside["drive_type"] == cmr
    assert not {"map_location", "cleaning_phases", "shingling_direction"} & beside.keys()


def passes(from_s: float, offsets: NDArray[np.int64]) -> IoLog:
    """Reads of a MiB, one a second."""
    submit_ns = np.round(1e9 * (from_s + np.arange(len(offsets)))).astype(np.uint64)
    count = len(offsets)
    return IoLog(
        np.full(count, Op.READ, np.uint8), (offsets * MIB).astype(np.uint64), np.full(count, MIB, np.uint32),
        submit_ns, submit_ns + np.uint64(900_000_000),
    )  # fmt: skip


def test_only_a_filmed_pass_shows_that_addresses_rise(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Strokes to and fro over 4,000 s, from 6,000 s of the recording on where they are aligned with it.
    frames = np.arange(2000)
    position = 0.4 + 0.03 * np.abs(1 - (frames / 20) % 2) + rng.normal(0, 0.0005, len(frames))
    graph = graph_at(position, np.asarray(frames * 2.0, np.float64))
    rising, falling = np.arange(4000), np.arange(4000)[::-1]
    scattered = rng.permutation(4000) * 2
    one_falls = np.concatenate([scattered, [9001, 9000]])
    (alone,) = (one for one in judge(graph) if one.name == "serpentine_region")
    assert alone.known, alone.why

    def ratio(frame_0_s: float | None, *logs: IoLog) -> float:
        """How much surer than without I/O."""
        aligned = Alignment(frame_0_s, "given", (None,) * len(graph.reading().seeks))
        monkeypatch.setattr(Graph, "aligned", lambda *_: aligned)
        found = by_name(judge(graph, Io(IoLog.joined(list(logs)), 1 << 40)))["serpentine_region"]
        return found.confidence / alone.confidence

    assert ratio(6000, passes(6000, rising)) == pytest.approx(1 / RISING_TAKEN, rel=1e-3)
    assert ratio(None, passes(6000, rising)) == 1
    assert ratio(6000, passes(1000, rising)) == 1
    assert ratio(6000, passes(6000, one_falls)) == 1
    assert ratio(6000, passes(6000, np.concatenate([[0, 1], scattered]))) == 1
    assert ratio(6000, passes(1000, falling), passes(6000, rising)) == pytest.approx(
        1 / RISING_TAKEN, rel=1e-3
    )
    assert ratio(6000, passes(6000, falling)) == 0
    # Perhaps that is what was filmed.
    assert ratio(None, passes(1000, falling), passes(6000, rising)) == 0


def test_a_part_of_the_stroke_shows_no_places(tmp_path: Path) -> None:
    # The two places of such a film would be 0 and 1.
    position = np.concatenate([np.zeros(300), np.ones(60), np.zeros(300), np.ones(60), np.full(100, 0.5)])
    position += np.random.default_rng(1).normal(0, 0.003, len(position))
    at_s = np.arange(len(position)) / 240
    part = Graph("clip", position, np.ones(len(position)), at_s, 240.0, "given", 0, 15.0)
    found = by_name(judge(part))
    assert found["cleaning_phases"].known
    assert found["cache_location"].value == UNKNOWN
    assert "15 degrees" in found["cache_location"].why
    given = by_name(judge(replace(part, known_positions=2)))["cache_location"]
    assert given.value == "od"
    by_extremes = by_name(judge(replace(part, swing_degrees=29.0)))["cache_location"]
    assert by_extremes.confidence == pytest.approx(ENDS_TAKEN * given.confidence)
    doubtful = judge(replace(part, known_positions=2, explained=0.82))
    assert {one.value for one in doubtful} == {UNKNOWN}
    assert "82 %" in doubtful[0].why
    no_rate = replace(part, time_s=None, capture_hz=None, capture_why="the rate of capture is unknown")
    assert {one.value for one in judge(no_rate)} == {UNKNOWN}


# --- Film and timing.


def test_what_contradicts_is_unknown_with_both_reasons() -> None:
    od, identity = (LOCATION.found(place, 0.8, f"seen at {place}") for place in ("od", "id"))
    (both,) = joined([od, identity, od])
    assert both.value == UNKNOWN
    assert "seen at od" in both.why
    assert "seen at id" in both.why
    (agreed,) = joined([LOCATION.unknown("no sign"), replace(od, confidence=0.6), od])
    assert (agreed.value, agreed.confidence) == ("od", 0.8)
    cleaning = declared.PHASES.found({"cache": 1_000_000_000}, 0.5, "on film")
    for timing in (DRIVE_TYPE.found("cmr", 0.9, "as measured"), TYPE.found("lazy", 0.9, "as measured")):
        found = by_name(beside_timing([timing], [cleaning]))
        for name in (timing.name, cleaning.name):
            assert found[name].value == UNKNOWN
            assert "on film" in found[name].why
            assert "as measured" in found[name].why
    aggressive = TYPE.found("aggressive", 0.9, "as measured")
    assert by_name(beside_timing([aggressive], [cleaning]))["cleaning_phases"] == cleaning


def test_arm_times_that_contradict_timing() -> None:
    seek = SEEK.found({"track": 340_000, "third": 7_900_000, "full": 15_200_000}, 0.7, "as measured")
    near = declared.ARM.found({"third": 7_300_000}, 0.7, "on film")
    far = declared.ARM.found({"third": 3_900_000}, 0.7, "on film")
    assert all(one.known for one in beside_timing([seek], [near]))
    assert not any(one.known for one in beside_timing([seek], [far]))


def test_findings_beside_those_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, recording = tmp_path / "head.arrows", tmp_path / "run"
    probe = ["probe", "sim:st5000as0011", "--only", "rotation", "--json", "--out", str(recording)]
    assert run([*probe, "--head-trace", str(trace)]) == 0
    path = tmp_path / "film.mp4"
    film(read_trace(trace), path, 22.0, 700, 1000.0)
    for rate_hz in ("1000", "2000"):
        out = tmp_path / rate_hz
        assert run(["camera", "track", str(path), "--rate", rate_hz, "-o", str(out), "--no-video"]) == 0
    page = tmp_path / "page"
    found = findings_json(
        str(tmp_path / "1000"), "--recording", str(recording), "-o", str(page), capsys=capsys
    )
    assert found["seek_ns"]["value"] != UNKNOWN
    assert found["arm_ns"]["value"] != UNKNOWN
    text = (page / "report.html").read_text()
    assert "Arm movement" in text
    assert "Seek time" in text
    # Taken for twice as fast, the film contradicts timing.
    wrong = findings_json(str(tmp_path / "2000"), "--recording", str(recording), capsys=capsys)
    assert wrong["seek_ns"]["value"] == wrong["arm_ns"]["value"] == UNKNOWN
    assert "contradict" in str(wrong["arm_ns"]["why"])


def test_a_graph_that_may_be_wrong_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, trace, _ = mixed("cmr", np.random.default_rng(1), tmp_path)
    _, seen, reading = film(trace, tmp_path / "film.mp4", 0.1, 300, 1000.0)
    doubted = replace(seen, explained=0.82, notes=("the graph may be wrong",))
    keep(tmp_path / "found", doubted, Rate(1000.0, "given"), reading)
    capsys.readouterr()
    assert run(["camera", "findings", str(tmp_path / "found")]) == 0
    assert "note: film film.mp4: the graph may be wrong" in capsys.readouterr().out
    assert run(["camera", "findings", str(tmp_path / "found"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["notes"] == ["film film.mp4: the graph may be wrong"]
    assert {one["value"] for one in shown["findings"].values()} == {UNKNOWN}


def test_graphs_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.arrows").write_text("no columns")
    for path, says in ((tmp_path, "no such file"), (tmp_path / "text.arrows", "cannot be read")):
        assert run(["camera", "findings", str(path)]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    assert run(["camera", "findings", str(tmp_path), "-o", str(tmp_path / "page")]) == 2
    assert "--recording" in capsys.readouterr().err
