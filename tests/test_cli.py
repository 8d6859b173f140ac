"""The command line: what people type, what they get, and how it ends when something is wrong.

Every error is one line on standard error that names the thing and the mend, with a documented exit code;
standard output carries results only.
"""

import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from command_line import CMR, PROBE, Call, files
from skylight.cli.app import EXIT_CODES, cli
from skylight.cli.console import ProgressLines, progress_bar
from skylight.engines.sim import profile_names, read_profile
from skylight.probe.progress import Meter, ProgressReport
from skylight.probe.suite import TESTS

VERBS = ((), ("probe",), ("drives",), ("drives", "list"), ("drives", "show"), ("drives", "check"))


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


def test_past_the_likely_time_what_is_left_is_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(clock)
    meter = Meter(lines.advance, "one", total_ios=1000, likely_ns=60_000_000_000)
    for _ in range(3):
        meter.advance("writes", 10, 30_000_000_000, most_left_ns=3_600_000_000_000)
        clock.now += 60
        lines.alive()
    said = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    likely, over = "30 s of device time left", "at most 1 h of device time left"
    assert said == [likely, likely, over, over]


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
