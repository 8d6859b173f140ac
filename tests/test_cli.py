"""The command line: what people type, what they get, and how it ends when something is wrong.

Every error is one line on standard error that names the thing and the mend, with a documented exit code;
standard output carries results only; an interrupted run goes on with `--resume` to the same findings.
"""

import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner
from rich.console import Console

from conftest import lacking
from skylight import __version__
from skylight.cli.app import EXIT_CODES, cli
from skylight.cli.app import run as _run
from skylight.cli.console import ProgressLines, progress_bar
from skylight.engines.sim import SimEngine, profile_names, read_profile
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Stop
from skylight.probe.session import ProgressReport
from skylight.probe.suite import TESTS

CMR, SMR = "st4000nc001", "emulated-smr-1"
START = "from skylight.cli import main; main()"
PROBE = ("probe", "--only", "drive_type")  # the whole suite is tested elsewhere
VERBS = ((), ("probe",), ("drives",), ("drives", "list"), ("drives", "show"), ("drives", "check"))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def one_line(self, code: int, *words: str) -> None:
        """Asserts the exit code, and one line on standard error, after progress, that holds all the words."""
        assert self.code == code, self.err
        assert code in EXIT_CODES
        assert re.fullmatch(r"(progress: [^\n]+\n)*skylight: [^\n]+\n", self.err), self.err
        for word in words:
            assert word in self.err


Call = Callable[..., Ended]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(here: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process, as `main` does."""

    def run(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        code = _run([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return run


def process(
    *arguments: str, cwd: Path, before: str = "", stdout: int | IO[str] = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """The command in a process of its own; `before` is Python that runs first."""
    command = [sys.executable, "-c", f"{before}\n{START}", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True)


def finished(running: "subprocess.Popen[str]") -> Ended:
    """Waits for the end of a process."""
    out, err = running.communicate(timeout=120)
    return Ended(running.returncode, out or "", err or "")


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- help and version


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb) or "skylight")
def test_every_verb_has_help_with_an_example(verb: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*verb, "--help"], prog_name="skylight")
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert f"  skylight {' '.join(verb)}".rstrip() in shown.output.split("Examples:")[1]
    assert not re.search(r"--repeat\b|\b(replay|twin)\b", shown.output)


def test_the_help_documents_every_exit_code(call: Call) -> None:
    shown = call("--help").out
    for code, meaning in EXIT_CODES.items():
        assert re.search(rf"^ +{code} +{re.escape(meaning)}$", shown, re.MULTILINE)


def test_version(call: Call) -> None:
    assert re.fullmatch(r"skylight \d+\.\d+\.\d+\S*\n", call("--version").out)


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prob"], ["'prob'", "Did you mean 'probe'", "--help"]),
        (["probe"], ["TARGET", "skylight probe --help"]),
        (["probe", "sim:x", "--sed", "1"], ["--sed", "--seed"]),
        (["probe", "sim:x", "--seed", "-1"], ["--seed"]),
        (["probe", "sim:x", "--seed", "many"], ["--seed", "many"]),
        (["probe", "sim:emulated-smr1"], ["'emulated-smr1'", "did you mean emulated-smr-1?"]),
        (["probe", "sim:"], ["sim:NAME"]),
        (["probe", "sim:missing.toml"], ["missing.toml", "No such file"]),
        (["probe", ""], ["target is empty"]),
        (["probe", "missing.img"], ["missing.img", "no such device or file"]),
        (["probe", "emulated-smr-1"], ["did you mean sim:emulated-smr-1?"]),
        (["probe", "two\nlines\x1b[31m"], ["no such device or file"]),
        (["probe", f"sim:{CMR}", "--only", "drivetype"], ["'drivetype'", "drive_type"]),
        (["probe", "recording:missing"], ["missing", "no such recording"]),
        (["probe", f"sim:{CMR}", "missing.img"], ["missing.img"]),
        (["drives", "show", "emulated-smr-3x"], ["'emulated-smr-3x'", "did you mean"]),
        (["drives", "check", "missing.toml"], ["missing.toml", "No such file"]),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(
    call: Call, here: Path, arguments: list[str], words: list[str]
) -> None:
    ended = call(*arguments)
    ended.one_line(2, *words)
    assert ended.out == ""
    assert "\x1b" not in ended.err
    assert files(here) == {}


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("[mechanics]", "[mechanix]", ["mechanix", "mechanics"]),
        ("schema = 1", "schema = ", ["drive.toml"]),
        ("schema = 1", "schema = 99", ["schema"]),
    ],
)
@pytest.mark.parametrize("verb", [["drives", "check", "drive.toml"], ["probe", "sim:drive.toml"]])
def test_a_bad_profile_is_one_line(
    call: Call, here: Path, verb: list[str], was: str, becomes: str, words: list[str]
) -> None:
    text = read_profile(CMR)[0]
    assert was in text
    (here / "drive.toml").write_text(text.replace(was, becomes))
    call(*verb).one_line(2, "drive.toml", *words)


def test_a_file_that_is_no_text_is_no_profile(call: Call, here: Path) -> None:
    (here / "drive.toml").write_bytes(b"\xff\xfe\x00")
    call("drives", "check", "drive.toml").one_line(2, "drive.toml", "not UTF-8")


@pytest.mark.parametrize("verb", [["drives", "check", ""], ["probe", "sim:"]], ids=["check", "probe"])
def test_only_a_short_regular_file_is_read_as_a_profile(call: Call, here: Path, verb: list[str]) -> None:
    os.mkfifo(here / "pipe.toml")
    (here / "zero.toml").symlink_to("/dev/zero")
    with (here / "long.toml").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe.toml", "zero.toml", "./zero.toml"):
        call(*verb[:-1], verb[-1] + name).one_line(2, name, "not a regular file")
    call(*verb[:-1], verb[-1] + "/dev/zero").one_line(2, "/dev/zero", "not a regular file")
    call(*verb[:-1], verb[-1] + "long.toml").one_line(2, "long.toml", "longer than 1 MiB")


def test_a_profile_whose_name_is_no_text(call: Call, here: Path) -> None:
    name = os.fsdecode(b"\xff.toml")
    (here / name).write_text("schema = 1\n")
    call("drives", "check", name).one_line(2, "\\udcff.toml")
    call("probe", f"sim:{name}").one_line(2, "\\udcff.toml")
    call("probe", f"recording:{name}").one_line(2, "\\udcff.toml")
    call("probe", os.fsdecode(b"\xfe")).one_line(2, "\\udcfe")


def test_only_names_a_test(call: Call) -> None:
    for empty in ("", " , "):
        call("probe", f"sim:{CMR}", "--only", empty).one_line(2, "--only names no test")
    call("probe", f"sim:{CMR}", "--only", "drive_typ").one_line(2, "did you mean drive_type?")


def test_only_and_quick_exclude_each_other(here: Path, call: Call) -> None:
    call(*PROBE, f"sim:{CMR}", "--quick", "--out", "out").one_line(2, "--quick and --only", "give only one")
    assert not (here / "out").exists()


@pytest.mark.parametrize("option", [("--only", "zones"), ("--quick",), ("--destroy-data",)])
@pytest.mark.parametrize("target", ["recording:kept", "fio-log:kept"])
def test_options_that_change_nothing_are_refused(call: Call, target: str, option: tuple[str, ...]) -> None:
    call("probe", target, *option).one_line(2, option[0], target, "already measured", "omit")


def test_help_names_every_test(call: Call) -> None:
    help_text = call("probe", "--help").out
    assert all(re.search(rf"\b{test.name}\b", help_text) for test in TESTS)


@pytest.mark.parametrize("value", ["nan", "inf", "1e300", "-1"])
@pytest.mark.parametrize(
    "words",
    [
        ("serve", "emulated-smr-1", "--image", "x.img", "--nbd", "unix:x.sock", "--delay-read"),
        ("control", "x.img", "--delay-write"),
        ("camera", "render", "x.arrows", "-o", "x.mp4", "--seconds"),
    ],
)
def test_numbers_that_are_none_are_refused(call: Call, words: tuple[str, ...], value: str) -> None:
    call(*words, value).one_line(2, "Invalid value", words[-1])
    assert not Path("x.img").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "fio"}', b"\xff", None])
def test_a_foreign_recording_is_one_line(call: Call, here: Path, content: bytes | None) -> None:
    (here / "kept").mkdir()
    if content is not None:
        (here / "kept/recording.json").write_bytes(content)
    call("probe", "recording:kept").one_line(2, "kept")


def test_too_small_a_file_is_refused_and_leaves_nothing(call: Call, here: Path) -> None:
    (here / "small.img").write_bytes(bytes(8192))
    call("probe", "small.img").one_line(2, "small.img")
    assert set(files(here)) == {"small.img"}


def test_an_out_directory_that_is_taken_is_refused(call: Call, here: Path) -> None:
    (here / "taken").mkdir()
    (here / "taken/mine.txt").write_text("keep me")
    ended = call(*PROBE, f"sim:{CMR}", "--out", "taken")
    ended.one_line(2, "taken: already there and not empty", "--out DIR")
    assert "--resume" not in ended.err, "there is nothing to go on with"
    assert files(here) == {"taken/mine.txt": b"keep me"}
    call(*PROBE, f"sim:{CMR}", "--out", "taken/mine.txt").one_line(2, "taken/mine.txt", "--out DIR")


def test_an_out_directory_below_a_file_cannot_keep_results(call: Call, here: Path) -> None:
    (here / "file").write_text("")
    call(*PROBE, f"sim:{CMR}", "--out", "file/out").one_line(4, "file/out", "--out")


@pytest.mark.parametrize("place", ["file/out", "/proc/out"])
def test_a_folder_that_cannot_be_made_is_told_before_the_plan(call: Call, here: Path, place: str) -> None:
    (here / "file").write_text("")
    ended = call(*PROBE, f"sim:{CMR}", "--out", place)
    ended.one_line(4, place, "cannot be made", "--out DIR")
    assert ended.out == ""
    assert files(here) == {"file": b""}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("disk.img", "disk.img", "disk.img: is named twice"),
        ("disk.img", "./disk.img", "./disk.img: is the same file as disk.img"),
        ("disk.img", "symbolic.img", "symbolic.img: is the same file as disk.img"),
        ("hard.img", "disk.img", "disk.img: is the same file as hard.img"),
        ("disk.img", "sub/../hard.img", "sub/../hard.img: is the same file as disk.img"),
    ],
)
def test_one_file_named_twice_is_refused(call: Call, here: Path, first: str, second: str, words: str) -> None:
    content = bytes(range(256)) * (1 << 18)
    (here / "sub").mkdir()
    (here / "disk.img").write_bytes(content)
    (here / "symbolic.img").symlink_to("disk.img")
    (here / "hard.img").hardlink_to(here / "disk.img")
    ended = call(*PROBE, first, f"sim:{CMR}", second, "--destroy-data")
    ended.one_line(2, words, "name each file once")
    assert ended.out == ""
    assert (here / "disk.img").read_bytes() == content
    assert not (here / "skylight-report").exists()


def test_one_emulated_drive_may_be_named_twice(call: Call, here: Path) -> None:
    assert call(*PROBE, f"sim:{CMR}", f"sim:{CMR}", "--out", "twice").code == 0
    first, second = (files(here / "twice" / name / "recording") for name in (CMR, f"{CMR}-2"))
    assert first == second


# --- progress


@dataclass
class Clock:
    """A time that a test sets, s."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def told(err: str) -> list[str]:
    """The steps and shares that were told."""
    return [", ".join(line.split(", ")[:2]).removeprefix("progress: ") for line in err.splitlines()]


def test_away_from_a_terminal_a_long_run_tells_each_tenth_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(clock)
    for done in range(0, 1001, 10):
        lines.advance(ProgressReport("one", "reads", done, 1000, done, 1000 - done))
        clock.now += 1
    assert told(capsys.readouterr().err) == [f"one: reads, {10 * tenth} %" for tenth in range(11)]
    lines.advance(ProgressReport("two", "writes", 5, 1000, 5, 995))
    lines.advance(ProgressReport("two", "writes", 995, 1000, 995, 5))
    assert told(capsys.readouterr().err) == ["two: writes, under 1 %"], "a quick test is told once"


def test_away_from_a_terminal_silence_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(clock)
    lines.alive()
    clock.now = 100
    lines.alive()
    assert capsys.readouterr().err == "", "nothing is known yet"
    lines.advance(ProgressReport("one", "pause", 50, 1000, 50, 950))
    for second in range(101, 200):
        clock.now = second
        lines.alive()
    assert told(capsys.readouterr().err) == ["one: pause, 5 %"] * 4


@pytest.mark.parametrize("width", [120, 80, 60, 40, 20, 8])
@pytest.mark.parametrize("left_ns", [5e8, 2e10, 8e13])
def test_the_progress_line_fits_the_terminal(width: int, left_ns: float) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=True, color_system=None)
    bar = progress_bar(console)
    task = bar.add_task("", total=None)
    name = "a_test_with_a_name: a-step-with-a-long-name"
    bar.update(task, description=name, completed=3e10, total=3e10 + left_ns)
    console.print(bar.get_renderable())
    (line,) = shown.getvalue().splitlines()
    assert len(line.rstrip()) < width
    if width >= 60:
        assert line.startswith(name[:10])
        assert line.rstrip().endswith("device time left")


# --- what goes wrong on the way


def test_a_target_that_fails_ends_with_3_and_can_go_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run, left = SimEngine.run, iter(range(4))

    def failing(engine: SimEngine, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        if next(left, None) is None:
            raise TargetError("sdx: input/output error at byte 4096; check the cable, then --resume")
        return run(engine, io, depth=depth)

    whole = call(*PROBE, f"sim:{SMR}", "--json", "--out", "whole")
    monkeypatch.setattr(SimEngine, "run", failing)
    call(*PROBE, f"sim:{SMR}", "--json", "--out", "cut").one_line(3, "sdx", "byte 4096")
    monkeypatch.setattr(SimEngine, "run", run)
    resumed = call(*PROBE, f"sim:{SMR}", "--json", "--out", "cut", "--resume")
    assert (resumed.code, resumed.out) == (0, whole.out)


SIGNAL_IN_FIFTH_BATCH = """
import itertools, os, signal
from skylight.engines.sim import SimEngine
run, number = SimEngine.run, itertools.count(1)
def signalled(engine, io, *, depth=1, until=None):
    if next(number) == 5:
        os.kill(os.getpid(), signal.{name})
    return run(engine, io, depth=depth)
SimEngine.run = signalled
"""


@pytest.mark.parametrize("written", [False, True], ids=["sparse", "zeros"])
def test_reads_of_nothing_say_nothing_of_the_disk(call: Call, here: Path, written: bool) -> None:
    with (here / "disk.img").open("wb") as file:
        file.truncate(1 << 26)
        if written:
            file.write(bytes(1 << 26))
    shown = call(*PROBE, "disk.img", "--json")
    finding = json.loads(shown.out)["findings"]["drive_type"]
    assert finding["value"] == "unknown"
    slow = "follow no rotation" in finding["why"]  # a host as slow as a disk has its own reason
    assert slow or "100 % of the places looked at hold nothing but zeros" in finding["why"]
    assert re.search(r"^  Drive type +256 .* reads only$", call(*PROBE, "disk.img").out, re.MULTILINE)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on_and_does(call: Call, here: Path, name: str) -> None:
    whole = call(*PROBE, f"sim:{SMR}", "--json", "--out", "whole", "--seed", "7")
    assert whole.code == 0
    arguments = [*PROBE, f"sim:{SMR}", "--json", "--out", "cut here", "--seed", "7"]
    cut = finished(process(*arguments, before=SIGNAL_IN_FIFTH_BATCH.format(name=name), cwd=here))
    cut.one_line(
        130,
        "interrupted",
        f"skylight probe --only drive_type sim:{SMR} --json --out 'cut here' --seed 7 --resume",
    )
    assert cut.out == ""
    assert set(files(here / "cut here")) == {"recording/drive_type.0.arrows", "recording/recording.json"}
    call(*PROBE, f"sim:{SMR}", "--json", "--out", "cut here").one_line(2, "--resume")
    call(*PROBE, f"sim:{SMR}", "--out", "cut here", "--resume").one_line(2, "cut here")
    resumed = call(*arguments, "--resume")
    assert (resumed.code, resumed.out) == (0, whole.out)
    again = call("probe", "recording:cut here/recording", "--json", "--out", "again")
    assert (again.code, again.out) == (0, whole.out)


SIGNAL_WHILE_IMPORTING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{name})

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", ["click", "numpy", "pyarrow", "skylight.cli.probe"])
def test_an_interrupt_while_it_starts_is_one_line(here: Path, module: str, name: str) -> None:
    before = SIGNAL_WHILE_IMPORTING.format(module=module, name=name)
    finished(process("probe", "--help", before=before, cwd=here)).one_line(130, "interrupted")


def test_starting_imports_nothing_large(here: Path) -> None:
    for imported, large in (
        ("skylight.cli.app", {"numpy", "pyarrow", "rich"}),
        ("skylight.cli.status", {"pyarrow", "skylight.probe"}),
        ("skylight.cli.geometry", {"skylight.probe", "scipy", "matplotlib"}),
        ("skylight.cli.devices", {"skylight.probe"}),
        ("skylight.cli.probe", {"scipy", "matplotlib"}),
    ):
        code = f"import sys, {imported}; print({large} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n", imported


AGAIN_WHILE_ENDING = """
from skylight.engines.sim import SimEngine
drive = SimEngine.settings

import contextlib

@contextlib.contextmanager
def settings(engine, **wanted):
    with drive(engine, **wanted) as report:
        try:
            yield report
        finally:
            for _ in range(3):
                os.kill(os.getpid(), signal.{name})
            open("put-back", "w").close()

SimEngine.settings = settings
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_second_interrupt_does_not_stop_the_putting_back(here: Path, name: str) -> None:
    before = (SIGNAL_IN_FIFTH_BATCH + AGAIN_WHILE_ENDING).format(name=name)
    ended = finished(process(*PROBE, f"sim:{SMR}", "--json", before=before, cwd=here))
    ended.one_line(130, "interrupted", "--resume")
    assert (here / "put-back").exists()


@pytest.fixture
def small_disk(here: Path, need_root: None) -> Iterator[Callable[[int], Path]]:
    """A file system of so many KiB."""
    mounts: list[Path] = []

    def mount(kib: int) -> Path:
        place = here / f"disk-{kib}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "skylight-test", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lacking(f"a small tmpfs cannot be mounted here: {done.stderr.strip()}")
        mounts.append(place)
        return place

    yield mount
    for place in mounts:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_too_full_for_the_evidence(call: Call, small_disk: Callable[[int], Path]) -> None:
    call(*PROBE, f"sim:{SMR}", "--out", small_disk(8) / "out").one_line(4, "disk-8", "space")


def test_a_disk_too_full_for_the_report_keeps_the_evidence(
    call: Call, small_disk: Callable[[int], Path]
) -> None:
    out = small_disk(128) / "out"
    call(*PROBE, f"sim:{SMR}", "--out", out).one_line(4, "report.html", "space")
    assert sorted(files(out)) == [
        "findings.json",
        "recording/drive_type.0.arrows",
        "recording/recording.json",
    ]
    assert call("probe", f"recording:{out}/recording", "--out", "elsewhere").code == 0


def test_a_full_standard_output(here: Path) -> None:
    with open("/dev/full", "w") as full:
        finished(process("drives", "list", cwd=here, stdout=full)).one_line(4, "No space left")


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = finished(process("drives", "list", "--json", cwd=here, stdout=writer))
    os.close(writer)
    assert (ended.code, ended.err) == (141, "")


def test_a_fault_of_skylight_is_one_line_and_a_traceback_on_request(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(engine: SimEngine, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        raise KeyError("of all things\nthis")

    monkeypatch.setattr(SimEngine, "run", broken)
    call(*PROBE, f"sim:{CMR}", "--out", "a").one_line(70, "internal error at test_cli.py", "SKYLIGHT_DEBUG=1")

    class PanicException(BaseException):
        """What a panic of the native module looks like."""

    def panicking(engine: SimEngine, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(SimEngine, "run", panicking)
    call(*PROBE, f"sim:{CMR}", "--out", "c").one_line(70, "PanicException: index out of bounds")
    monkeypatch.setattr(SimEngine, "run", broken)
    monkeypatch.setenv("SKYLIGHT_DEBUG", "1")
    assert "Traceback (most recent call last)" in call(*PROBE, f"sim:{CMR}", "--out", "b").err


# --- what a probe gives


def test_a_probe_says_the_plan_first_then_the_verdict(call: Call, here: Path) -> None:
    ended = call(*PROBE, f"sim:{SMR}")
    assert ended.code == 0
    assert re.fullmatch(r"progress: drive_type: reads, \d+ %, .+ of device time left\n", ended.err)
    order = ["Plan ", "Drive type", "risk: none", "This is a shingled (SMR) disk", "--why", "Report: "]
    places = [ended.out.index(word) for word in order]
    assert places == sorted(places)
    assert set(files(here)) == {
        f"skylight-report/{SMR}/{name}"
        for name in (
            "findings.json",
            "report.html",
            "recording/recording.json",
            "recording/drive_type.0.arrows",
        )
    }


@pytest.mark.parametrize("name", [CMR, SMR])
def test_json_is_all_there_is_on_standard_output(call: Call, here: Path, name: str) -> None:
    ended = call(*PROBE, f"sim:{name}", "--json", "--out", "out")
    assert ended.code == 0
    assert re.fullmatch(r"(progress: drive_type: [^\n]+\n)+", ended.err)
    document = json.loads(ended.out)
    assert document["schema"] == 1
    assert document["skylight"] == __version__
    assert document["target"]["name"] == f"sim:{name}"
    assert set(document["findings"]) == {"drive_type", "cache_medium"}
    for finding in document["findings"].values():
        assert set(finding) == {"value", "unit", "interval", "confidence", "why"}
        assert 0 <= finding["confidence"] <= 1
        assert finding["why"]
    assert (here / "out/findings.json").read_text() == ended.out


def test_the_same_seed_gives_the_same_bytes(call: Call, here: Path) -> None:
    for out in ("a/out", "b/out"):
        assert call(*PROBE, f"sim:{SMR}", "--out", out, "--seed", "3").code == 0
    assert files(here / "a") == files(here / "b")


def test_several_targets_give_one_comparing_report(call: Call, here: Path) -> None:
    ended = call(*PROBE, f"sim:{SMR}", f"sim:{CMR}", f"sim:{CMR}", "--json", "--out", "both")
    assert ended.code == 0
    document = json.loads(ended.out)
    assert [one["target"]["name"] for one in document["targets"]] == [
        f"sim:{SMR}",
        f"sim:{CMR}",
        f"sim:{CMR}",
    ]
    assert [one["findings"]["drive_type"]["value"] for one in document["targets"]] == ["smr", "cmr", "cmr"]
    kept = {name for name in files(here / "both") if name.endswith("recording.json")}
    assert kept == {f"{name}/recording/recording.json" for name in (SMR, CMR, f"{CMR}-2")}
    assert "Three drives, one of them shingled." in (here / "both/report.html").read_text()


def test_a_recording_gives_the_same_findings_and_page(call: Call, here: Path) -> None:
    live = call(*PROBE, f"sim:{SMR}", "--json", "--out", "out")
    page = (here / "out/report.html").read_bytes()
    elsewhere = call("probe", "recording:out/recording", "--json", "--out", "elsewhere")
    assert elsewhere.out == live.out
    beside = call("probe", "recording:out/recording", "--json", "--out", "out")
    assert (beside.code, beside.out) == (0, live.out)
    assert (here / "out/report.html").read_bytes() == page


def test_a_recording_without_its_header_is_refused_and_stays(call: Call, here: Path) -> None:
    assert call(*PROBE, f"sim:{CMR}", "--out", "out").code == 0
    (here / "out/recording/recording.json").unlink()
    before = files(here)
    for more in ([], ["--resume"]):
        call(*PROBE, f"sim:{CMR}", "--out", "out", *more).one_line(2, "out")
        assert files(here) == before
    call(*PROBE, f"sim:{CMR}", "--out", "out", "--resume").one_line(2, "no recording.json", "another --out")


def test_a_second_run_beside_a_recording_leaves_the_first(call: Call, here: Path) -> None:
    call(*PROBE, f"sim:{SMR}", "--out", "both")
    command = [*PROBE, "recording:both/recording", f"sim:{CMR}", "--out", "both"]
    assert call(*command).code == 0
    before = files(here)
    assert f"both/{CMR}/recording/drive_type.0.arrows" in before
    call(*command).one_line(2, f"both/{CMR}/recording", "already contains a recording", "--resume")
    assert files(here) == before
    assert call(*command, "--resume").code == 0


def test_what_was_there_before_a_refused_run_stays(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(engine: SimEngine, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        raise UsageError("sdx: is not to be had")

    run = SimEngine.run
    monkeypatch.setattr(SimEngine, "run", refused)
    (here / "empty").mkdir()
    call(*PROBE, f"sim:{CMR}", "--out", "empty").one_line(2, "sdx")
    monkeypatch.setattr(SimEngine, "run", run)
    assert call(*PROBE, f"sim:{CMR}", "--out", "empty", "--resume").code == 0, "the settings step was whole"


def test_reads_then_writes_as_the_readme_has_it(call: Call, here: Path) -> None:
    with (here / "disk.img").open("wb") as file:
        file.truncate(1 << 26)
    assert call(*PROBE, "disk.img").code == 0
    first = files(here / "skylight-report/disk.img")
    ended = call(*PROBE, "disk.img", "--destroy-data")
    assert ended.code == 0 and "skylight-report/disk.img-2" in ended.out
    assert files(here / "skylight-report/disk.img") == first
    again = call(*PROBE, "disk.img", "--destroy-data", "--resume")
    assert again.code == 0 and "disk.img-2 is already complete" in again.out
    assert "DATA IS LOST" not in again.out
    other = call(*PROBE, "disk.img", "--resume")
    other.one_line(2, "was begun with --destroy-data", "leave out --resume")
    assert other.out == ""


def test_a_recording_is_named_by_its_folder_or_by_out(call: Call, here: Path) -> None:
    assert call(*PROBE, f"sim:{CMR}", "--out", "kept").code == 0
    by_out = call("probe", "recording:kept", "--json")
    assert by_out.code == 0 and (here / "kept/report.html").exists()
    assert by_out.out == call("probe", "recording:kept/recording", "--json").out


def test_what_may_not_be_looked_into(here: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    real = os.stat

    def forbidden(path: str | bytes | int | Path, **more: int | bool | None) -> os.stat_result:
        if "locked" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **more)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(os, "stat", forbidden)
    for target in ("recording:locked", "recording:locked/in"):
        call("probe", target, "--out", "out").one_line(
            2, target.removeprefix("recording:"), "Permission denied"
        )
    call("probe", "locked/disk.img", "--out", "out").one_line(2, "locked/disk.img: no such device or file")


def test_a_finished_run_resumes_to_itself(call: Call, here: Path) -> None:
    first = call(*PROBE, f"sim:{CMR}", "--json", "--out", "out")
    before = files(here)
    again = call(*PROBE, f"sim:{CMR}", "--json", "--out", "out", "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert files(here) == before


def test_a_file_whose_name_is_no_text(call: Call, here: Path) -> None:
    name = os.fsdecode(b"bad\xff.img")
    with (here / name).open("wb") as file:
        file.truncate(64 << 20)
    ended = call(*PROBE, name, "--json", "--out", os.fsdecode(b"out\xff"))
    assert ended.code == 0
    assert json.loads(ended.out)["target"]["name"] == "bad\\udcff.img"
    again = call("probe", os.fsdecode(b"recording:out\xff/recording"), "--json", "--out", "again")
    assert (again.code, again.out) == (0, ended.out)


def test_a_run_resumes_on_its_own_file_and_leave_only(call: Call, here: Path) -> None:
    for name in ("one.img", "two.img"):
        with (here / name).open("wb") as file:
            file.truncate(64 << 20)
    assert call(*PROBE, "one.img", "--out", "out").code == 0
    assert call(*PROBE, "./one.img", "--out", "out", "--resume").code == 0
    call(*PROBE, "two.img", "--out", "out", "--resume").one_line(2, "records one.img, not two.img")
    call(*PROBE, "one.img", "--destroy-data", "--out", "out", "--resume").one_line(
        2, "begun without --destroy-data"
    )


def test_a_file_is_read_only_without_leave(call: Call, here: Path, seed: int) -> None:
    content = bytes((seed + 7 * i) % 251 for i in range(4096)) * 16384
    (here / "disk.img").write_bytes(content)
    ended = call(*PROBE, "disk.img")
    assert ended.code == 0
    assert "reads only" in ended.out
    assert "nothing is written" in ended.out
    assert (here / "disk.img").read_bytes() == content
    assert "Nothing was written to it." in (here / "skylight-report/disk.img/report.html").read_text()
    with_leave = call(*PROBE, "disk.img", "--destroy-data", "--out", "written")
    assert with_leave.code == 0
    assert re.search(r"risk: DATA IS LOST: up to [\d.]+ MiB are written all over disk\.img", with_leave.out)


# --- drives


def test_drives_list_names_every_profile(call: Call) -> None:
    shown = call("drives", "list")
    assert (shown.code, shown.err) == (0, "")
    listed = json.loads(call("drives", "list", "--json").out)
    assert listed["schema"] == 1
    assert [drive["name"] for drive in listed["drives"]] == profile_names()
    for drive in listed["drives"]:
        assert drive["name"] in shown.out
        assert drive["summary"]


def test_what_show_prints_can_be_checked_and_probed(call: Call, here: Path) -> None:
    shown = call("drives", "show", CMR)
    (here / "mine.toml").write_text(shown.out)
    checked = call("drives", "check", "mine.toml")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.startswith("mine.toml: good: ")
    assert "4 TB" in checked.out
    assert json.loads(call("drives", "show", CMR, "--json").out) == json.loads(
        call("drives", "check", "mine.toml", "--json").out
    )
    probed = call("probe", "sim:mine.toml", "--json")
    assert json.loads(probed.out)["findings"]["drive_type"]["value"] == "cmr"


@pytest.mark.parametrize("verb", [["image", "info"], ["status"], ["control", "--fail", "off"]])
def test_a_file_that_is_not_there_is_named_without_an_error_number(call: Call, verb: list[str]) -> None:
    ended = call(*verb, "nosuch.img")
    ended.one_line(2, "nosuch.img: ")
    assert "os error" not in ended.err and re.search("(?i)no such file", ended.err)
