"""What a probe leaves and says on the command line, and how it ends when something goes wrong on the way.

An interrupted run goes on with `--resume` to the same findings; a recording gives the findings and the page
of its run.
"""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import CMR, PROBE, SMR, Call, files, finished, found, process
from conftest import lacking
from skylight import __version__
from skylight.engines.sim import SimEngine
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Stop

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
    assert resumed.code == 0 and found(resumed.out)[0] == found(whole.out)[0]


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
    assert resumed.code == 0 and found(resumed.out)[0] == found(whole.out)[0]
    (note,) = found(resumed.out)[1]
    assert "which is not used" in note or "the rest is not used" in note
    again = call("probe", "recording:cut here/recording", "--json", "--out", "again")
    assert (again.code, again.out) == (0, resumed.out)


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
    call(*PROBE, f"sim:{CMR}", "--out", "a").one_line(
        70, "internal error at test_cli_probe.py", "SKYLIGHT_DEBUG=1"
    )

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
    call("probe", "recording:out", "--resume").one_line(2, "--resume", "read again")


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


def test_a_dry_run_lists_the_ranges_and_touches_nothing(call: Call, here: Path) -> None:
    disk = here / "disk.img"
    disk.write_bytes(b"x" * (192 << 20))
    stamp = disk.stat().st_mtime_ns
    shown = call("probe", "disk.img", "--dry-run", "--destroy-data", "--range", "64MiB-128MiB")
    assert shown.code == 0, shown.err
    rows = dict(re.findall(r"^  (Drive type|Zones and plateaus|Reset) {2,}(\S.*?)$", shown.out, re.MULTILINE))
    inside = "67,108,864 to 134,217,727"
    ranges = {title: re.split(r" {2,}", row) for title, row in rows.items() if inside in row}
    assert ranges["Drive type"] == [inside, inside]
    assert ranges["Zones and plateaus"] == [inside, "none"]
    assert ranges["Reset"] == [inside, inside]
    reads_only = call("probe", "disk.img", "--dry-run").out
    assert "0 to 201,326,591" in reads_only and "Reset" not in reads_only
    quick = call("probe", "disk.img", "--dry-run", "--destroy-data", "--quick").out
    assert "DATA IS LOST" in quick and "reset" not in quick.lower(), "a quick answer has no time for one"
    assert [path.name for path in here.iterdir()] == ["disk.img"]
    assert disk.stat().st_mtime_ns == stamp and disk.read_bytes() == b"x" * (192 << 20)
    for more in (["--json"], ["--preserve"], ["--resume"], ["--expect", "cmr"]):
        call("probe", "disk.img", "--dry-run", *more).one_line(2, "--dry-run")
    call("probe", "recording:none", "--dry-run").one_line(2, "--dry-run")
