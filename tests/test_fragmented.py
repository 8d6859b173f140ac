"""What logs of fragmented reads tell: docs/figures.md, row R1, from the real drive's logs alone, the
emulated drives against their truth, and nothing at all from logs that do not carry it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fio_logs import in_order, log_text, simulated_reads, write_log
from skylight._native import SimDrive, random_profile
from skylight.engines.fio_log import read_logs
from skylight.evidence import Evidence, Step
from skylight.findings import Finding, Known
from skylight.infer import ordered_reads
from skylight.probe.fragmented_reads import FragmentedReads
from skylight.probe.fragmented_reads.analysis import capacity_bytes, place_names, places_of
from skylight.probe.fragmented_reads.verdict import _place_of_cache
from skylight.truth import true_findings

TEST = FragmentedReads()
PROFILES = Path(__file__).parent.parent / "python/skylight/profiles"
REAL = "st8000as0022-fragmented-reads"
COUNT = 2048
TURN_NS = 10_000_000

Found = dict[str, Finding]


def evidence_of(target: str) -> Evidence:
    """The logs of a target as evidence."""
    drive = read_logs(target)
    steps = [Step(log.name, "run", log.params, log.rows) for log in drive.logs]
    return Evidence(TEST.name, drive.facts, steps, complete=True)


def findings(target: Path | str) -> Found:
    """What the logs of a target tell."""
    return {finding.name: finding for finding in TEST.infer(evidence_of(str(target)), Known())}


def part(found: Found, name: str, key: str) -> float:
    """One number of a finding that is a table."""
    number = Known(found.values()).part(name, key)
    assert number is not None, found[name]
    return number


@pytest.fixture(scope="module")
def real(data_dir: Path) -> Found:
    return findings(data_dir / REAL)


@pytest.fixture(scope="module")
def real_low(data_dir: Path) -> Evidence:
    return evidence_of(str(data_dir / REAL / "read-low_lat.1.log.gz"))


def test_r1_rotation(real: Found) -> None:
    found = real["rotation_ns"]
    assert found.value == pytest.approx(10_038_000, rel=1e-4)
    assert found.interval is not None
    assert found.interval[0] < 10_038_000 < found.interval[1]
    assert "5,977 rpm" in found.why
    assert found.confidence > 0.9


def test_r1_tracks_and_skew(real: Found) -> None:
    assert part(real, "track_bytes", "od") == pytest.approx(2008 << 10, rel=0.01)
    assert part(real, "track_bytes", "id") == pytest.approx(928 << 10, rel=0.01)
    assert part(real, "track_skew_ns", "od") == pytest.approx(445_000, rel=0.01)
    assert part(real, "track_skew_ns", "id") == pytest.approx(473_000, rel=0.01)
    assert real["track_bytes"].confidence > 0.9


def test_r1_cache_is_at_the_outer_diameter(real: Found) -> None:
    found = real["cache_location"]
    assert found.value == "od"
    assert found.confidence > 0.95
    assert "near the low addresses" in found.why
    assert set(found.rows) == {"read-low", "read-high"}


def test_r1_floors(real: Found) -> None:
    assert part(real, "seek_floor_ns", "od") == pytest.approx(2_600_000, abs=100_000)
    assert part(real, "seek_floor_ns", "id") == pytest.approx(15_500_000, abs=100_000)


def test_r1_cache_steps(real: Found) -> None:
    steps = sorted(part(real, "cache_step_turns", key) for key in ("od", "od 2"))
    assert steps == pytest.approx([0.410, 0.452], abs=0.003)
    for key in ("id", "id 2"):
        assert 0.40 < part(real, "cache_step_turns", key) < 0.47


def test_reads_do_not_tell_the_drive_type(real: Found) -> None:
    assert not real["drive_type"].known
    assert "neither what was written" in real["drive_type"].why


def test_one_place_tells_its_part(real: Found, data_dir: Path) -> None:
    for name in ("low", "high"):
        found = findings(data_dir / REAL / f"read-{name}_lat.1.log.gz")
        assert found["rotation_ns"].value == pytest.approx(10_038_000, rel=1e-4)
        assert found["seek_floor_ns"].known
        assert not found["cache_location"].known
        assert "one place alone" in found["cache_location"].why
    assert found["track_bytes"].value == {"read-high": 928 << 10}  # no other log says where that is


def test_the_real_latencies_in_another_order_tell_nothing(
    real_low: Evidence, tmp_path: Path, rng: np.random.Generator
) -> None:
    rows = real_low.steps[0].rows
    latency = rng.permutation(rows.latency_ns)
    path = write_log(tmp_path, "a_lat.1.log", log_text(latency, rows.offset.astype(np.int64)))
    assert not any(finding.known for finding in findings(path).values())


@pytest.mark.parametrize("name", ["st5000as0011", "st8000as0011"])
def test_emulated_journaled_drives_come_out_as_they_are(tmp_path: Path, name: str) -> None:
    toml = (PROFILES / f"{name}.toml").read_text()
    truth = true_findings(toml, name)
    size = {"st5000as0011": 5_000_981_078_016, "st8000as0011": 8_001_563_222_016}[name]
    for place, start in (("low", 0), ("high", (size - (64 << 20)) // 4096 * 4096)):
        offset, latency = simulated_reads(toml, start, 16_384)
        write_log(tmp_path, f"{place}_lat.1.log", log_text(latency, offset, gap_ns=0))
    found = findings(tmp_path)
    assert found["rotation_ns"].value == pytest.approx(truth["rotation_ns"]["value"], rel=1e-4)
    for key in ("od", "id"):
        assert part(found, "track_bytes", key) == pytest.approx(truth["track_bytes"]["value"][key], rel=0.01)
    assert found["cache_location"].value == truth["cache_location"]["value"] == "od"


def test_blocks_packed_into_a_cache_leave_the_tracks_unknown(tmp_path: Path) -> None:
    """Of two classes that both step on evenly, nothing says which one is at home."""
    toml = (PROFILES / "emulated-smr-1.toml").read_text()
    offset, latency = simulated_reads(toml, 0, 16_384)
    found = findings(write_log(tmp_path, "a_lat.1.log", log_text(latency, offset, gap_ns=0)))
    assert not found["track_bytes"].known
    assert not found["cache_step_turns"].known
    assert not found["cache_location"].known


def alternating(
    count: int = COUNT, *, turn: int = TURN_NS, floor: int = 3_000_000, gaps: np.ndarray | None = None
) -> np.ndarray:
    """Latencies of reads between home blocks, 250 of 8 KiB a track with a skew of 0.5 ms, and blocks
    elsewhere at random angles: the head is ready `floor` after the last read and waits for its block. `gaps`
    are the host's pauses, ns."""
    rng = np.random.default_rng(3)
    pauses = np.full(count, 7_000) if gaps is None else gaps
    home = np.arange(count // 2) * turn // 250 + np.arange(count // 2) // 250 * 500_000
    angle = np.stack([home, rng.integers(0, turn, count // 2)], axis=1).ravel() % turn
    latency, now = np.empty(count, np.int64), 0
    for read, at in enumerate(angle):
        ready = now + int(pauses[read]) + floor
        latency[read] = floor + (at - ready) % turn
        now += int(pauses[read]) + latency[read]
    return latency


def test_made_reads_come_out_as_made(tmp_path: Path) -> None:
    latency = alternating(8192)
    found = findings(write_log(tmp_path, "a_lat.1.log", log_text(latency, in_order(8192))))
    assert found["rotation_ns"].value == pytest.approx(TURN_NS, rel=1e-5)
    assert part(found, "track_bytes", "od") == 250 * 8192
    assert part(found, "track_skew_ns", "od") == pytest.approx(500_000, rel=0.01)
    assert part(found, "seek_floor_ns", "od") == pytest.approx(3_000_000, rel=0.05)
    assert not found["cache_step_turns"].known  # they lie at random


def irregular(rng: np.random.Generator, most_ns: int, count: int = 8192) -> str:
    """The log of a client whose pauses are anything up to `most_ns`."""
    gaps = rng.integers(0, most_ns, count)
    latency = alternating(count, gaps=gaps)
    time_ms = np.cumsum(latency + gaps) // 1_000_000
    rows = zip(time_ms, latency, in_order(count), strict=True)
    return "".join(f"{at}, {ns}, 0, 4096, {place}, 0\n" for at, ns, place in rows)


@pytest.mark.parametrize("most_us", [10, 60, 200, 800, 1_900])
def test_an_irregular_client_gives_the_right_answer_or_the_reason(
    tmp_path: Path, rng: np.random.Generator, most_us: int
) -> None:
    path = write_log(tmp_path, "a_lat.1.log", irregular(rng, most_us * 1000))
    found = findings(path)
    turn = found["rotation_ns"]
    if most_us <= 10:
        assert turn.known
    if turn.known:
        assert turn.value == pytest.approx(TURN_NS, rel=1e-3)
    elif most_us >= 200:
        assert "vary by" in turn.why and "The job to run instead: fio " in turn.why


def test_part_of_a_log_is_less_sure_of_the_way_to_the_cache(real_low: Evidence, data_dir: Path) -> None:
    whole = evidence_of(str(data_dir / REAL / "read-high_lat.1.log.gz"))
    step = whole.steps[0]
    part = Evidence(
        TEST.name, whole.target, [Step(step.name, "run", step.params, step.rows.rows(slice(2048)))]
    )
    of_whole, of_part = (
        next(each for each in TEST.infer(one, Known()) if each.name == "seek_floor_ns")
        for one in (whole, part)
    )
    assert of_part.confidence < 0.5 < of_whole.confidence, "18.4 ms, where all give 15.5"


def test_slow_reads_now_and_then_do_not_matter(tmp_path: Path, rng: np.random.Generator) -> None:
    latency = alternating(8192)
    slow = rng.choice(8192, 40, replace=False)
    latency[slow] += TURN_NS * rng.integers(1, 20, 40)
    found = findings(write_log(tmp_path, "a_lat.1.log", log_text(latency, in_order(8192))))
    assert found["rotation_ns"].value == pytest.approx(TURN_NS, rel=1e-4)
    assert part(found, "track_bytes", "od") == 250 * 8192


def random_order(rng: np.random.Generator) -> str:
    return log_text(alternating(), rng.permutation(in_order(COUNT)))


def without_offsets(rng: np.random.Generator) -> str:
    return log_text(alternating())


def of_writes(rng: np.random.Generator) -> str:
    return log_text(alternating(), in_order(COUNT), direction=1)


def too_few(rng: np.random.Generator) -> str:
    return log_text(alternating(100), in_order(100))


def overlapping(rng: np.random.Generator) -> str:
    rows = zip(np.cumsum(alternating()) // 8_000_000, alternating(), in_order(COUNT), strict=True)
    return "".join(f"{at}, {ns}, 0, 4096, {place}, 0\n" for at, ns, place in rows)


def noise(rng: np.random.Generator) -> str:
    return log_text(rng.integers(3_000_000, 13_000_000, COUNT), in_order(COUNT))


def flash(rng: np.random.Generator) -> str:
    return log_text(rng.normal(90_000, 3_000, COUNT).astype(np.int64), in_order(COUNT))


def timer_ticks(rng: np.random.Generator) -> str:
    """A rate limit that lets completions through every 10 ms: like turns, but the angle never steps on."""
    ticks = np.cumsum(rng.integers(1, 4, COUNT)) * TURN_NS
    done = ticks + rng.integers(0, 40_000, COUNT)
    return log_text(np.diff(done, prepend=0) - 7_000, in_order(COUNT))


def constant(rng: np.random.Generator) -> str:
    return log_text(np.full(COUNT, 10_033_000), in_order(COUNT))


LOGS: list[tuple[Callable[[np.random.Generator], str], str]] = [
    (random_order, "not in address order"),
    (without_offsets, "no offsets: fio writes them with --log_offset=1"),
    (of_writes, "a log of writes"),
    (too_few, "holds 100 reads, and at least 128"),
    (overlapping, "overlap"),
    (noise, "follow no rotation"),
    (flash, "follow no rotation"),
    (timer_ticks, "follow no rotation"),
    (constant, "follow no rotation"),
]


@pytest.mark.parametrize(("make", "why"), LOGS, ids=[make.__name__ for make, _ in LOGS])
def test_what_a_log_does_not_carry_is_unknown(
    tmp_path: Path, rng: np.random.Generator, make: Callable[[np.random.Generator], str], why: str
) -> None:
    found = findings(write_log(tmp_path, "a_lat.1.log", make(rng)))
    assert not any(finding.known for finding in found.values()), found
    assert all(finding.confidence == 0 for finding in found.values())
    assert why in found["rotation_ns"].why


def test_a_conventional_drive_has_nothing_elsewhere(tmp_path: Path) -> None:
    toml = (PROFILES / "st4000nc001.toml").read_text()
    offset, latency = simulated_reads(toml, 0, 8192)
    found = findings(write_log(tmp_path, "a_lat.1.log", log_text(latency, offset, gap_ns=0)))
    assert not found["cache_location"].known
    assert not found["seek_floor_ns"].known


@pytest.mark.parametrize("seed", [1014, 1039, 1061, 1094, 1102, 1148])
def test_random_drives_that_misled_are_right_or_unknown(tmp_path: Path, seed: int) -> None:
    """A packed cache taken for a track twice as long, jitter that grows with the latency, turns in twos."""
    toml = random_profile(seed)
    truth = true_findings(toml, "random")
    last = (SimDrive(toml, "random", 1).size_bytes - (48 << 20)) // 4096 * 4096
    for place, start in (("low", 0), ("high", last)):
        offset, latency = simulated_reads(toml, start, 12_288, seed=seed)
        write_log(tmp_path, f"{place}_lat.1.log", log_text(latency, offset, gap_ns=0))
    found = findings(tmp_path)
    turn, tracks, where = (found[name] for name in ("rotation_ns", "track_bytes", "cache_location"))
    assert not turn.known or turn.value == pytest.approx(truth["rotation_ns"]["value"], rel=1e-3)
    assert not where.known or where.value == truth["cache_location"]["value"]
    for key, size in tracks.value.items() if isinstance(tracks.value, dict) else ():
        true = truth["track_bytes"]["value"]["id" if key == "high" else "od"]
        assert size == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize(
    ("floor", "place"),
    [
        ({"od": 2.6, "id": 15.5}, "od"),
        ({"od": 15.5, "id": 2.6}, "id"),
        ({"od": 2.6, "far": 15.5}, "od"),
        ({"near": 2.6, "far": 15.5}, "unknown"),
        ({"od": 15.5, "far": 2.6}, "unknown"),
        ({"od": 9.0, "id": 10.0}, "unknown"),
        ({"od": 6.0, "id": 13.0}, "unknown"),
        ({"od": 9.0, "md": 2.5, "id": 10.0}, "md"),
        ({"od": 2.5, "md": 2.6, "id": 2.4}, "many"),
        ({"od": 2.6, "md": 10.0, "id": 15.5}, "od"),
    ],
)
def test_where_the_cache_is_by_the_floors(floor: dict[str, float], place: str) -> None:
    assert _place_of_cache(floor) == place


def test_usual_capacities() -> None:
    assert capacity_bytes(8_001_389_854_720) == 8_001_563_222_016
    assert capacity_bytes(5_000_981_078_016) == 5_000_981_078_016
    assert capacity_bytes(4096) == 250_059_350_016


def test_places_get_names_only_where_the_logs_tell(data_dir: Path) -> None:
    places = places_of(evidence_of(str(data_dir / REAL)))
    assert place_names(places) == {"read-low": "od", "read-high": "id"}
    assert place_names(places[1:]) == {"read-high": "read-high"}
    assert place_names([]) == {}


def test_a_turn_needs_different_numbers_of_turns() -> None:
    assert ordered_reads.turn_of(np.full(1000, 10e6)) is None
    assert ordered_reads.turn_of(np.linspace(0, 90e6, 10)) is None


def test_modes_across_the_zero_of_the_angle() -> None:
    rng = np.random.default_rng(1)
    apart = TURN_NS * (rng.normal(0.0, 0.003, 1000) + rng.integers(1, 4, 1000))
    ((angle, share),) = ordered_reads.angle_modes(apart, TURN_NS)
    assert min(angle, 1 - angle) < 0.001
    assert share > 0.99


def test_nothing_is_found_without_logs(data_dir: Path) -> None:
    evidence = evidence_of(str(data_dir / REAL))
    assert TEST.infer(Evidence(TEST.name, evidence.target), Known()) == []
    assert TEST.draw(Evidence(TEST.name, evidence.target), []) == []


def test_figures_say_how_to_read_them(real_low: Evidence, tmp_path: Path, rng: np.random.Generator) -> None:
    latencies, angles = TEST.draw(real_low, [])
    assert "one revolution evenly above the floor" in latencies.caption
    assert "1.96 MiB, a track" in angles.caption
    only = TEST.draw(evidence_of(str(write_log(tmp_path, "a_lat.1.log", noise(rng)))), [])
    assert [figure.name for figure in only] == ["fragmented-latency-a"]
    assert "floor" not in only[0].caption
