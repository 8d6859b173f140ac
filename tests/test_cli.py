"""The command line: what people type, what they get, and how it ends when something is wrong.

Every error is one line on standard error that names the thing and the mend, with a documented exit code;
standard output carries results only; an interrupted run goes on with `--resume` to the same findings.
"""

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

from conftest import lacking
from skylight.cli import EXIT_CODES, _run, cli
from skylight.engines.sim import SimEngine, profile_names, read_profile
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog

CMR, SMR = "st4000nc001", "emulated-smr-1"
START = "from skylight.cli import main; main()"
VERBS = ((), ("probe",), ("drives",), ("drives", "list"), ("drives", "show"), ("drives", "check"))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def one_line(self, code: int, *words: str) -> None:
        """Asserts the exit code, and one line on standard error that holds all the words."""
        assert self.code == code, self.err
        assert code in EXIT_CODES
        assert re.fullmatch(r"skylight: [^\n]+\n", self.err), self.err
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
    assert not re.search(
        r"--(quick|range|engine|repeat)\b|\b(serve|replay|twin|truth|random)\b", shown.output
    )


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
    ended = call("probe", f"sim:{CMR}", "--out", "taken")
    ended.one_line(2, "taken", "--out DIR", "--resume")
    assert files(here) == {"taken/mine.txt": b"keep me"}
    call("probe", f"sim:{CMR}", "--out", "taken/mine.txt").one_line(2, "taken/mine.txt", "--out DIR")


def test_an_out_directory_below_a_file_cannot_keep_results(call: Call, here: Path) -> None:
    (here / "file").write_text("")
    call("probe", f"sim:{CMR}", "--out", "file/out").one_line(4, "file/out", "--out")


# --- what goes wrong on the way


def test_a_target_that_fails_ends_with_3_and_can_go_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run, left = SimEngine.run, iter(range(4))

    def failing(engine: SimEngine, io: IoBatch, *, depth: int = 1) -> IoLog:
        if next(left, None) is None:
            raise TargetError("sdx: input/output error at byte 4096; check the cable, then --resume")
        return run(engine, io, depth=depth)

    whole = call("probe", f"sim:{SMR}", "--json", "--out", "whole")
    monkeypatch.setattr(SimEngine, "run", failing)
    call("probe", f"sim:{SMR}", "--json", "--out", "cut").one_line(3, "sdx", "byte 4096")
    monkeypatch.setattr(SimEngine, "run", run)
    resumed = call("probe", f"sim:{SMR}", "--json", "--out", "cut", "--resume")
    assert (resumed.code, resumed.out) == (0, whole.out)


SIGNAL_IN_FIFTH_BATCH = """
import itertools, os, signal
from skylight.engines.sim import SimEngine
run, number = SimEngine.run, itertools.count(1)
def signalled(engine, io, *, depth=1):
    if next(number) == 5:
        os.kill(os.getpid(), signal.{name})
    return run(engine, io, depth=depth)
SimEngine.run = signalled
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on_and_does(call: Call, here: Path, name: str) -> None:
    whole = call("probe", f"sim:{SMR}", "--json", "--out", "whole", "--seed", "7")
    assert whole.code == 0
    arguments = ["probe", f"sim:{SMR}", "--json", "--out", "cut here", "--seed", "7"]
    cut = finished(process(*arguments, before=SIGNAL_IN_FIFTH_BATCH.format(name=name), cwd=here))
    cut.one_line(130, "interrupted", f"skylight probe sim:{SMR} --json --out 'cut here' --seed 7 --resume")
    assert cut.out == ""
    assert set(files(here / "cut here")) == {"recording/drive_type.0.arrows", "recording/recording.json"}
    call("probe", f"sim:{SMR}", "--json", "--out", "cut here").one_line(2, "--resume")
    call("probe", f"sim:{SMR}", "--out", "cut here", "--resume").one_line(2, "cut here")
    resumed = call(*arguments, "--resume")
    assert (resumed.code, resumed.out) == (0, whole.out)
    again = call("probe", "recording:cut here/recording", "--json", "--out", "again")
    assert (again.code, again.out) == (0, whole.out)


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
    call("probe", f"sim:{SMR}", "--out", small_disk(8) / "out").one_line(4, "disk-8", "space")


def test_a_disk_too_full_for_the_report_keeps_the_evidence(
    call: Call, small_disk: Callable[[int], Path]
) -> None:
    out = small_disk(128) / "out"
    call("probe", f"sim:{SMR}", "--out", out).one_line(4, "report.html", "space")
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
    def broken(engine: SimEngine, io: IoBatch, *, depth: int = 1) -> IoLog:
        raise KeyError("of all things\nthis")

    monkeypatch.setattr(SimEngine, "run", broken)
    call("probe", f"sim:{CMR}", "--out", "a").one_line(
        70, "internal error at test_cli.py", "SKYLIGHT_DEBUG=1"
    )

    class PanicException(BaseException):
        """What a panic of the native module looks like."""

    def panicking(engine: SimEngine, io: IoBatch, *, depth: int = 1) -> IoLog:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(SimEngine, "run", panicking)
    call("probe", f"sim:{CMR}", "--out", "c").one_line(70, "PanicException: index out of bounds")
    monkeypatch.setattr(SimEngine, "run", broken)
    monkeypatch.setenv("SKYLIGHT_DEBUG", "1")
    assert "Traceback (most recent call last)" in call("probe", f"sim:{CMR}", "--out", "b").err


# --- what a probe gives


def test_a_probe_says_the_plan_first_then_the_verdict(call: Call, here: Path) -> None:
    ended = call("probe", f"sim:{SMR}")
    assert (ended.code, ended.err) == (0, "")
    order = ["plan: ", "written", "risk: none", "This is a shingled (SMR) disk", "drive_type", "Report: "]
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
    ended = call("probe", f"sim:{name}", "--json", "--out", "out")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == 1
    assert document["target"]["name"] == f"sim:{name}"
    assert set(document["findings"]) == {"drive_type", "cache_medium"}
    for finding in document["findings"].values():
        assert set(finding) == {"value", "unit", "interval", "confidence", "why"}
        assert 0 <= finding["confidence"] <= 1
        assert finding["why"]
    assert (here / "out/findings.json").read_text() == ended.out


def test_the_same_seed_gives_the_same_bytes(call: Call, here: Path) -> None:
    for out in ("a/out", "b/out"):
        assert call("probe", f"sim:{SMR}", "--out", out, "--seed", "3").code == 0
    assert files(here / "a") == files(here / "b")


def test_several_targets_give_one_comparing_report(call: Call, here: Path) -> None:
    ended = call("probe", f"sim:{SMR}", f"sim:{CMR}", f"sim:{CMR}", "--json", "--out", "both")
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
    live = call("probe", f"sim:{SMR}", "--json", "--out", "out")
    page = (here / "out/report.html").read_bytes()
    elsewhere = call("probe", "recording:out/recording", "--json", "--out", "elsewhere")
    assert elsewhere.out == live.out
    beside = call("probe", "recording:out/recording", "--json", "--out", "out")
    assert (beside.code, beside.out) == (0, live.out)
    assert (here / "out/report.html").read_bytes() == page


def test_a_recording_without_its_header_is_refused_and_stays(call: Call, here: Path) -> None:
    assert call("probe", f"sim:{CMR}", "--out", "out").code == 0
    (here / "out/recording/recording.json").unlink()
    before = files(here)
    for more in ([], ["--resume"]):
        call("probe", f"sim:{CMR}", "--out", "out", *more).one_line(2, "out")
        assert files(here) == before
    call("probe", f"sim:{CMR}", "--out", "out", "--resume").one_line(2, "no recording.json", "another --out")


def test_a_second_run_beside_a_recording_leaves_the_first(call: Call, here: Path) -> None:
    call("probe", f"sim:{SMR}", "--out", "both")
    command = ["probe", "recording:both/recording", f"sim:{CMR}", "--out", "both"]
    assert call(*command).code == 0
    before = files(here)
    assert f"both/{CMR}/recording/drive_type.0.arrows" in before
    call(*command).one_line(2, f"both/{CMR}/recording", "holds a recording already", "--resume")
    assert files(here) == before
    assert call(*command, "--resume").code == 0


def test_what_was_there_before_a_refused_run_stays(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(engine: SimEngine, io: IoBatch, *, depth: int = 1) -> IoLog:
        raise UsageError("sdx: is not to be had")

    run = SimEngine.run
    monkeypatch.setattr(SimEngine, "run", refused)
    (here / "empty").mkdir()
    call("probe", f"sim:{CMR}", "--out", "empty").one_line(2, "sdx")
    monkeypatch.setattr(SimEngine, "run", run)
    assert call("probe", f"sim:{CMR}", "--out", "empty", "--resume").code == 0, "the settings step was whole"


def test_a_finished_run_resumes_to_itself(call: Call, here: Path) -> None:
    first = call("probe", f"sim:{CMR}", "--json", "--out", "out")
    before = files(here)
    again = call("probe", f"sim:{CMR}", "--json", "--out", "out", "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert files(here) == before


def test_a_file_whose_name_is_no_text(call: Call, here: Path) -> None:
    name = os.fsdecode(b"bad\xff.img")
    with (here / name).open("wb") as file:
        file.truncate(64 << 20)
    ended = call("probe", name, "--json", "--out", os.fsdecode(b"out\xff"))
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["target"]["name"] == "bad\\udcff.img"
    again = call("probe", os.fsdecode(b"recording:out\xff/recording"), "--json", "--out", "again")
    assert (again.code, again.out) == (0, ended.out)


def test_a_run_resumes_on_its_own_file_and_leave_only(call: Call, here: Path) -> None:
    for name in ("one.img", "two.img"):
        with (here / name).open("wb") as file:
            file.truncate(64 << 20)
    assert call("probe", "one.img", "--out", "out").code == 0
    assert call("probe", "./one.img", "--out", "out", "--resume").code == 0
    call("probe", "two.img", "--out", "out", "--resume").one_line(2, "records one.img, not two.img")
    call("probe", "one.img", "--destroy-data", "--out", "out", "--resume").one_line(
        2, "begun without --destroy-data"
    )


def test_a_file_is_read_only_without_leave(call: Call, here: Path, seed: int) -> None:
    content = bytes((seed + 7 * i) % 251 for i in range(4096)) * 16384
    (here / "disk.img").write_bytes(content)
    ended = call("probe", "disk.img")
    assert ended.code == 0
    assert "reads only" in ended.out
    assert "nothing is written" in ended.out
    assert (here / "disk.img").read_bytes() == content
    assert "Nothing was written to it." in (here / "skylight-report/disk.img/report.html").read_text()
    with_leave = call("probe", "disk.img", "--destroy-data", "--out", "written")
    assert with_leave.code == 0
    assert re.search(r"risk: DATA IS LOST: up to [\d.]+ MiB of disk\.img are overwritten", with_leave.out)


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
