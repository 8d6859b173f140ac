"""Scratch files: written whole, told where they lie, refused where a probe would not see the drive, and gone
afterwards, however the probe ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from skylight.cli import probe as verb
from skylight.cli.app import cli
from skylight.engines import scratch
from skylight.engines.declared import hints_of
from skylight.engines.device import DeviceEngine
from skylight.engines.scratch import BLOCK, Run, ScratchFile, runs_of
from skylight.errors import UsageError
from skylight.evidence import JsonScalar, TargetFacts
from skylight.findings import UNKNOWN, Finding
from skylight.probe.suite import PROPERTIES, TESTS, _in_a_file
from skylight.report.declared_hints import hints
from skylight.report.words import verdict

SIZE = 4 << 20


def whole(descriptor: int, name: str) -> list[Run]:
    """In place of the file system: one run."""
    del name
    return [Run(0, 1 << 30, os.fstat(descriptor).st_size)]


@pytest.fixture
def one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "runs_of", whole)


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.usefixtures("one_run")
class TestFile:
    def test_it_is_written_whole_and_removed(self, tmp_path: Path) -> None:
        with ScratchFile(tmp_path, SIZE) as file:
            data = file.path.read_bytes()
            assert len(data) == SIZE and file.path.stat().st_blocks * 512 >= SIZE
            blocks = {data[at : at + BLOCK] for at in range(0, SIZE, BLOCK)}
            assert len(blocks) == SIZE // BLOCK, "no two blocks are alike, so nothing can be packed"
            assert file.declared()["scratch_first_byte"] == 1 << 30
        assert left_in(tmp_path) == []

    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_it_is_removed_however_the_probe_ends(self, error: type[BaseException], tmp_path: Path) -> None:
        with pytest.raises(error), ScratchFile(tmp_path, SIZE):
            raise error
        assert left_in(tmp_path) == []

    def test_it_is_removed_when_its_writing_is_interrupted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def pressed(self: ScratchFile, size: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ScratchFile, "_write", pressed)
        with pytest.raises(KeyboardInterrupt), ScratchFile(tmp_path, SIZE):
            pass
        assert left_in(tmp_path) == []


def scattered(descriptor: int, name: str) -> list[Run]:
    del name
    size = os.fstat(descriptor).st_size // 16
    return [Run(at * size, at * 2 * size, size) for at in range(16)]


def with_holes(descriptor: int, name: str) -> list[Run]:
    return [Run(0, 0, whole(descriptor, name)[0].length - BLOCK)]


def moving() -> Callable[[int, str], list[Run]]:
    """A file system that copies on write."""
    places: Iterator[int] = iter(range(100))
    return lambda descriptor, name: [Run(0, next(places) << 30, whole(descriptor, name)[0].length)]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        (scattered, "is scattered: a file lies in 16 pieces"),
        (with_holes, "left holes"),
        (moving(), "copy on"),
    ],
)
def test_a_file_that_does_not_show_the_drive_is_refused_and_removed(
    runs: Callable[[int, str], list[Run]], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "runs_of", runs)
    with pytest.raises(UsageError, match=why), ScratchFile(tmp_path, SIZE):
        pass
    assert left_in(tmp_path) == []


def fiemap(extents: list[tuple[int, int, int, int]]) -> Callable[[int, int, bytearray], None]:
    """What the kernel answers for a file of these extents: logical, physical, length, flags."""

    def answer(descriptor: int, number: int, request: bytearray) -> None:
        assert number == scratch.FIEMAP
        start = scratch._HEAD.unpack_from(request)[0]
        rest = [each for each in extents if each[0] >= start][:2]
        scratch._HEAD.pack_into(request, 0, start, 1 << 63, 1, len(rest), 512, 0)
        for at, (logical, physical, length, flags) in enumerate(rest):
            scratch._EXTENT.pack_into(
                request, scratch._HEAD.size + at * scratch._EXTENT.size,
                logical, physical, length, 0, 0, flags, 0, 0, 0,
            )  # fmt: skip

    return answer


def test_extents_that_follow_each_other_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = fiemap([(0, 100, 10, 0), (10, 110, 10, 0), (20, 300, 10, 0), (30, 310, 10, 1)])
    monkeypatch.setattr("fcntl.ioctl", answer)
    assert runs_of(0, "x") == [Run(0, 100, 20), Run(20, 300, 20)]


@pytest.mark.parametrize(("flag", "why"), [(0x0800, "unwritten"), (0x2000, "shares"), (0x0008, "compresses")])
def test_extents_that_are_no_plain_data_are_refused(
    flag: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.ioctl", fiemap([(0, 100, 10, 0), (10, 200, 10, flag | 1)]))
    with pytest.raises(UsageError, match=why):
        runs_of(0, "x")


def test_the_numbers_are_those_of_the_kernel() -> None:
    """`struct fiemap` has 32 bytes and `struct fiemap_extent` 56 (linux/fiemap.h)."""
    assert (scratch._HEAD.size, scratch._EXTENT.size) == (32, 56)
    number = 3 << 30 | scratch._HEAD.size << 16 | ord("f") << 8 | 11
    assert number == scratch.FIEMAP


@pytest.mark.usefixtures("one_run")
class TestProbe:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scratch, "SCRATCH_BYTES", 64 << 20)
        monkeypatch.setattr(scratch, "LEAST_BYTES", 64 << 20)

    @staticmethod
    def probe(tmp_path: Path) -> Result:
        disk = tmp_path / "disk"
        disk.mkdir()
        only = ["--only", "drive_type", "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(cli, ["probe", "--scratch", str(disk), *only])
        assert left_in(disk) == []
        return done

    def test_the_plan_says_where_the_file_lies_and_what_stays_unknown(self, tmp_path: Path) -> None:
        done = self.probe(tmp_path)
        assert done.exit_code == 0, done.output
        for words in (
            "writing a scratch file of 64 MiB; it is removed afterwards",
            "it lies in one piece at 1.07 GB to 1.14 GB",
            "not looked for: Cache location, Persistent cache size, Band size",
            "risk: none to your files",
        ):
            assert words in done.output, done.output

    def test_ctrl_c_removes_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def pressed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(DeviceEngine, "run", pressed)
        assert self.probe(tmp_path).exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["sim:st4000nc001"], "makes its own target"),
        (["--resume"], "goes without --resume"),
        (["--only", "band_size"], "band_size needs a whole drive"),
    ],
)
def test_what_does_not_go_with_it_is_refused(arguments: list[str], why: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["probe", "--scratch", str(tmp_path), *arguments])
    assert isinstance(done.exception, UsageError | SystemExit)
    assert why in str(done.exception) + done.output
    assert left_in(tmp_path) == []


def test_without_a_target_it_is_wrong_use() -> None:
    done = CliRunner().invoke(cli, ["probe"])
    assert "TARGET.." in str(done.exception) + done.output


def test_what_holds_of_places_is_unknown_in_a_file() -> None:
    facts = TargetFacts("file", "x", 8 << 30, 512, {"scratch": True})
    known = {
        name: _in_a_file(Finding(name, 1, None, None, 0.9, "measured"), facts).known for name in PROPERTIES
    }
    assert [name for name in known if not known[name]] == ["track_bytes", "seek_ns", "cache_location"]
    assert set(verb._not_in_a_file()).isdisjoint(test.title for test in TESTS if test.runs_in_a_file)


class TestHints:
    def test_of_the_kernel(self, tmp_path: Path) -> None:
        number = os.stat(tmp_path).st_dev
        disk = tmp_path / "disk"
        (disk / "queue").mkdir(parents=True)
        (disk / "device").mkdir()
        (disk / "queue/discard_max_bytes").write_text("4096\n")
        (disk / "device/vpd_pgb1").write_bytes(bytes([0, 0xB1, 0, 60, 0, 1, 0, 0, 0x20, *bytes(55)]))
        (tmp_path / "dev/block").mkdir(parents=True)
        (tmp_path / f"dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(disk)
        assert hints_of(str(tmp_path), tmp_path) == {"trim": True, "zoned_drive": "drive-managed"}
        (disk / "queue/max_sectors_kb").write_text("1280\n")
        for segments, most in ((168, 168 * 4096), (4096, 1280 << 10)):
            (disk / "queue/max_segments").write_text(f"{segments}\n")
            assert hints_of(str(tmp_path), tmp_path)["max_request_bytes"] == most
        (disk / "slaves").mkdir()
        (disk / "slaves/sda").write_text("")
        assert "max_request_bytes" not in hints_of(str(tmp_path), tmp_path), "what is below may split further"
        assert hints_of(str(tmp_path), tmp_path / "none") == {}

    def test_what_was_found_comes_first_then_what_is_declared(self) -> None:
        found = {
            "drive_type": Finding("drive_type", UNKNOWN, None, None, 0.0, "only reads"),
            "rotation_ns": Finding("rotation_ns", 10_038_000, "ns", None, 1.0, "turns"),
        }
        declared: dict[str, JsonScalar] = {
            "model": "ST8000AS0002-1NA",
            "rotational": True,
            "trim": True,
            "zoned": "none",
        }
        seen = verdict(found, declared)
        assert seen.headline == "A rotating disk, 5,977 rpm; whether it is shingled is not known."
        said = dict(seen.points)["Declared, not measured"]
        assert "is sold as a shingled disk" in said and "takes TRIM" in said
        assert hints({"model": "WD99ABCD-68N"}) == (
            "Its model, WD99ABCD-68N, is in no list of shingled or conventional disks that is known here.",
        )
