"""`--range`: nothing is read or written outside of it, however the I/O is done, and nothing is said of what
lies outside."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from device_targets import MIB, loop
from skylight.byte_range import AskedRange, ByteRange
from skylight.cli.app import run
from skylight.engines.device import DeviceEngine, DeviceFailed
from skylight.engines.fio import FioEngine
from skylight.engines.preserve import JOURNAL, PreservingEngine
from skylight.engines.ranged import RangedEngine, RangedJobs, confined
from skylight.engines.sim import SimEngine
from skylight.errors import UsageError
from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import UNKNOWN, Finding
from skylight.probe.suite import PROPERTIES, SuiteOptions, SuiteResult, _relative, run_suite
from skylight.recording import Recording
from skylight.report.declared import _is_comparable, claims_of
from skylight.report.words import verdict

SIZE = 160 * MIB
PART = ByteRange(32 * MIB, 112 * MIB, SIZE)
ASKED = AskedRange(PART.start, PART.end)
GUARD = b"\xa5\x5a\xc3\x3c" * 1024


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with a guard pattern all over."""
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        for _ in range(SIZE // MIB):
            file.write(GUARD * (MIB // len(GUARD)))
    return path


def outside_is_whole(path: Path) -> bool:
    """Whether the guard pattern is whole before and behind the range."""
    with path.open("rb") as file:
        before = file.read(PART.start)
        file.seek(PART.end)
        return before + file.read() == GUARD * ((SIZE - PART.size) // len(GUARD))


def written_in(path: Path) -> int:
    """Blocks of the range that no longer hold the pattern."""
    with path.open("rb") as file:
        file.seek(PART.start)
        return sum(file.read(len(GUARD)) != GUARD for _ in range(PART.size // len(GUARD)))


def of_all_kinds() -> IoBatch:
    """Writes, reads and flushes all over the range, its first and last block included."""
    blocks = np.random.default_rng(7).permutation(PART.size // 4096)[:400].astype(np.uint64)
    blocks[:2] = 0, PART.size // 4096 - 1
    io = IoBatch.writes(blocks * 4096, 4096)
    io.op[2::3] = int(Op.READ)
    io.op[100], io.offset[100], io.size[100] = int(Op.FLUSH), 0, 0
    return io


@pytest.mark.parametrize(
    ("by", "kind", "depth"), [("own", "file", 1), ("own", "loop", 16), ("fio", "loop", 8)]
)
def test_nothing_outside_is_written(
    by: str, kind: str, depth: int, target: Path, tmp_path: Path, need_tool: Callable[[str], str]
) -> None:
    def check(path: str) -> None:
        if by == "fio":
            need_tool("fio")
            whole: DeviceEngine = FioEngine.over(path, tmp_path / "jobs", destroy_data=True)
        else:
            whole = DeviceEngine.open(path, destroy_data=True)
        with closing(confined(whole, ASKED)) as engine:
            io = of_all_kinds()
            log = engine.run(io, depth=depth)
            assert np.array_equal(log.offset, io.offset) and np.array_equal(log.op, io.op)
            for leaves in (PART.size - 2048, PART.size, SIZE, 2**64 - 4096, 2**64 - PART.start):
                with pytest.raises(UsageError, match="leaves --range; nothing was sent"):
                    engine.run(IoBatch.writes([0, leaves], 4096), depth=depth)
            with pytest.raises(UsageError, match="reads, writes and flushes alone"):
                engine.run(IoBatch.make(Op.RESET_ZONE, [0], 0))

    if kind == "loop":
        with loop(target) as device:
            check(device.path)
    else:
        check(str(target))
    assert outside_is_whole(target)
    assert written_in(target) > 200


def test_the_guard_notices_a_write_outside(target: Path) -> None:
    with closing(DeviceEngine.open(str(target), destroy_data=True)) as engine:
        engine.run(IoBatch.writes([PART.end], 4096))
    assert not outside_is_whole(target), "the control: without --range the last test would fail"


def test_what_is_kept_is_put_back_where_it_was(target: Path, tmp_path: Path) -> None:
    with closing(confined(PreservingEngine.keeping(str(target), tmp_path / JOURNAL), ASKED)) as engine:
        engine.run(IoBatch.writes(np.arange(64, dtype=np.uint64) * MIB, 4096))
        assert written_in(target) == 64
    assert outside_is_whole(target) and written_in(target) == 0


def suite_in(
    asked: AskedRange, out: Path, only: tuple[str, ...], drive: str
) -> tuple[tuple[int, int], SuiteResult]:
    """The suite in a range of an emulated drive: the first and the last byte that were asked for, and what
    was found."""
    whole = SimEngine.open(drive)
    sends, reached = whole.run, [2**64, 0]

    def run_watched(io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        placed = io.size > 0
        if placed.any():
            reached[0] = min(reached[0], int(io.offset[placed].min()))
            reached[1] = max(reached[1], int((io.offset + io.size)[placed].max()))
        return sends(io, depth=depth, until=until)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "run", run_watched)
        result = run_suite(confined(whole, asked), out, SuiteOptions(only=only))
    return (reached[0], reached[1]), result


def test_a_test_stays_in_the_range_and_finds_what_it_shows(tmp_path: Path) -> None:
    asked = AskedRange.parsed("1TiB-1100GiB")
    (first, last), result = suite_in(asked, tmp_path / "kept", ("drive_type", "rotation"), "st4000nc001")
    assert (1 << 40) <= first < last <= 1100 << 30
    found = {finding.name: finding for finding in result.findings}
    assert found["drive_type"].value == "cmr" and found["rotation_ns"].known
    assert not found["seek_ns"].known and not found["track_bytes"].known
    seen = verdict(found, result.target.declared)
    assert seen.headline == "From 1 TiB to 1.07 TiB: this is a conventional (CMR) disk."
    assert dict(seen.points)["What lies outside"].startswith("Only 1 TiB to 1.07 TiB was read or written")
    assert any("is known of the rest" in note for note in result.notes)
    capacity = next(claim for claim in claims_of(result).rows if claim.title == "Capacity")
    assert "4 TB" in capacity.declared, "what is declared is the whole drive"


@pytest.mark.long  # shows for all tests what the last one shows for two; 7 s
def test_the_whole_suite_stays_in_the_range(tmp_path: Path) -> None:
    (first, last), result = suite_in(AskedRange.parsed("1TB-1.2TB"), tmp_path / "kept", (), "st5000as0011")
    assert 10**12 <= first < last <= 1_200_000_000_000
    known = {finding.name for finding in result.findings if finding.known}
    assert {"drive_type", "cleaning_type", "cache_fill_bytes"} <= known
    assert all(PROPERTIES[name].scope.is_shown_by_range for name in known)


def test_what_stays_known_in_a_range_agrees_with_the_drive(tmp_path: Path) -> None:
    only = ("rotation", "write_rates")
    _, part = suite_in(AskedRange.parsed("1TiB-1025GiB"), tmp_path / "part", only, "st4000nc001")
    whole = run_suite(SimEngine.open("st4000nc001"), tmp_path / "whole", SuiteOptions(only=only))
    of_whole = {finding.name: finding for finding in whole.findings}
    known = [finding for finding in part.findings if finding.known]
    assert {"rotation_ns", "sequential_write_rate"} <= {finding.name for finding in known}
    for finding in known:
        if "This is within 1 TiB to 1 TiB (--range)" in finding.why:
            continue
        value = of_whole[finding.name].value
        if finding.interval is None:
            assert finding.value == value, finding.name
        else:
            assert isinstance(value, int | float)
            assert finding.interval[0] <= value <= finding.interval[1], finding.name


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("cleaning_type", "lazy", "As seen."),
        ("band_bytes", 1 << 20, "As seen. This is within 1 TiB to 2 TiB (--range)."),
        ("cache_bytes", UNKNOWN, "Only 1 TiB to 2 TiB was looked at"),
        ("track_bytes", UNKNOWN, "Only 1 TiB to 2 TiB was looked at"),
    ],
)
def test_what_a_range_shows_is_what_its_scope_says(name: str, value: str | int, why: str) -> None:
    found = Finding(name, "lazy" if name == "cleaning_type" else 1 << 20, None, None, 0.9, "As seen.")
    seen = _relative(found, ByteRange(1 << 40, 2 << 40, 4 << 40))
    assert seen.value == value and seen.why.startswith(why)
    assert (seen == found) == (name == "cleaning_type")


def test_places_in_a_range_are_not_compared_with_those_of_the_drive() -> None:
    places = Finding(
        "band_bytes", {"range_start": 34 * MIB, "range_end": 33 * MIB}, "bytes", None, 0.9, "seen."
    )
    assert not _is_comparable(places) and not _is_comparable(Finding("x", UNKNOWN, None, None, 0.0, ""))
    assert _is_comparable(Finding("band_bytes", {"od": MIB, "id": MIB}, "bytes", None, 0.9, "seen."))


def test_another_range_is_not_resumed(tmp_path: Path) -> None:
    facts = TargetFacts("device", "/dev/x", PART.size, 512, {"serial": "1", **PART.declared()})
    kept = Recording.create(tmp_path / "kept", facts, {}, 1)
    kept.check_same_run(facts, {}, 1)
    moved = ByteRange(PART.start + MIB, PART.end + MIB, SIZE)
    for declared in (moved.declared(), {}):
        other = TargetFacts("device", "/dev/x", PART.size, 512, {"serial": "1", **declared})
        with pytest.raises(UsageError, match="was begun with the --range 32 MiB to 112 MiB"):
            kept.check_same_run(other, {}, 1)


def test_a_failure_has_its_rows_in_the_range(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DeviceEngine.open(str(target))
    log = whole.run(IoBatch.reads([PART.start + 4096], 4096))

    def fails(*_: object, **__: object) -> IoLog:
        raise DeviceFailed("gone", log)

    with closing(confined(whole, ASKED)) as engine:
        monkeypatch.setattr(whole, "run", fails)
        with pytest.raises(DeviceFailed) as failed:
            engine.run(IoBatch.reads([4096], 4096))
    assert failed.value.log.offset.tolist() == [4096]


def test_holes_are_not_looked_for_behind_the_range(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = os.preadv

    def remembered(descriptor: int, into: list[bytearray], at: int) -> int:
        read.append(at)
        return real(descriptor, into, at)

    monkeypatch.setattr(os, "preadv", remembered)
    with closing(confined(DeviceEngine.open(str(target)), ASKED)) as engine:
        assert engine.holes(np.arange(0, PART.size, MIB, dtype=np.uint64)) == 0.0
        assert engine.holes(np.array([PART.size - 4096], np.uint64)) is None
    assert read and min(read) >= PART.start and max(read) + 4096 <= PART.end


def test_what_concerns_the_whole_drive_is_not_offered(target: Path) -> None:
    from skylight.engines import Erases, RunsJobs, Trims, ZonedEngine

    with closing(confined(DeviceEngine.open(str(target)), ASKED)) as engine:
        assert engine.erase() is False
        assert not isinstance(engine, Trims | Erases | ZonedEngine | RunsJobs)
    assert issubclass(RangedJobs, RangedEngine)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("range") / "x.img"
    with path.open("wb") as file:
        file.truncate(SIZE)
    yield path


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--range", "64MiB"], "is no range; write START-END"),
        (["--range", "1XiB-2XiB"], "is no range; write START-END"),
        (["--range", "2MiB-1MiB"], "ends before it begins"),
        (["--range", "64MiB-1GiB"], "x.img ends at 168 MB (167,772,160 bytes)"),
        (["--range", "1TB-"], "--range 1TB-: "),
        (["--range", "90.5MiB-154.5MiB"], "holds 63 MiB, and a probe needs 64 MiB at least"),
        (["--range", "64MiB-", "--reset", "trim"], "--reset trim is of the whole drive"),
        (["--range", "64MiB-", "--reset", "sanitize"], "--reset sanitize is of the whole drive"),
        (["--range", "64MiB-", "--head-trace", "x"], "goes without --scratch and --head-trace"),
    ],
)
def test_what_is_no_range_of_the_target_is_one_line(
    arguments: list[str], why: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["probe", str(small), *arguments, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
    assert not out.exists()


def test_ends_are_rounded_inwards() -> None:
    part = AskedRange.parsed("50MB-160.5 MB").of("x", SIZE)
    assert (part.start, part.end) == (48 * MIB, 153 * MIB)
    assert part.start >= 50 * 10**6 and part.end <= 160_500_000


def test_a_target_with_zones_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["probe", "sim:st8000as0022", "--range", "1TB-2TB", "--out", str(tmp_path / "out")]
    assert run(arguments) == 2
    assert "has zones, and --range is for drives without" in capsys.readouterr().err
