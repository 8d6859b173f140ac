"""`skylight geometry` as people use it: what is printed and kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skylight.cli.app import run
from skylight.errors import UNDETERMINED

SMALL = """
schema = 1
name = "small"
capacity = "6 GB"
[mechanics]
rpm = 7200
head_switch = "0.6 ms"
[mechanics.seek.fitted]
constant = "0.8 ms"
root = "0.03 ms"
linear = "0.0001 ms"
[geometry]
surfaces = 2
layout = "surface-serpentine"
track_skew = "1.2 ms"
head_skew = "0.9 ms"
[geometry.taper]
zones = 5
tracks = 4000
outer_sectors_per_track = 2000
inner_sectors_per_track = 1200
[interface]
queue_depth = 31
schedule = "fifo"
command_overhead = "0.1 ms"
[layer]
kind = "conventional"
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an extraction of a small disk."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.toml").write_text(SMALL)
    assert run(["geometry", "extract", f"sim:{folder / 'small.toml'}", "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_extract_keeps_geometry_and_recording(found: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = json.loads((found / "geometry.json").read_text())
    assert len(kept["zones"]) == 5 and kept["layout"] == "surface-serpentine" and kept["surfaces"] == 2
    capsys.readouterr()
    assert run(["geometry", "extract", f"recording:{found}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == kept


def test_extract_says_what_it_found(found: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["geometry", "extract", f"recording:{found}"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "surface-serpentine, 5 recording zones" in shown and "7,200.0 rpm" in shown
    assert "2,000" in shown and "exact" in shown


def test_a_finished_run_is_not_overwritten_and_resumes_as_it_is(
    found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"sim:{found.parent / 'small.toml'}"
    assert run(["geometry", "extract", target, "--out", str(found)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(["geometry", "extract", target, "--out", str(found), "--resume"]) == 0


def test_fit_writes_a_profile_that_check_accepts(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(found / "geometry.json")
    assert run(["geometry", "fit", file, "-n", "4", "-d", "3", "--out", str(tmp_path), "--name", "four"]) == 0
    shown = capsys.readouterr().out
    assert "2 pi / 6.94" in shown and (tmp_path / "geometry-zones.png").stat().st_size > 5000
    assert run(["drives", "check", str(tmp_path / "four.toml")]) == 0


def test_a_fit_that_leaves_out_most_of_the_disk_says_so(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zones = json.loads((found / "geometry.json").read_text())["zones"]
    middle = sorted(zone["sectors_per_track"] for zone in zones)[len(zones) // 2]
    command = ["geometry", "fit", str(found / "geometry.json"), "-n", "4", "-d", "0", "--no-graphs"]
    command += ["--out", str(tmp_path), "--name", "part"]
    assert run([*command, "--min-outlier", str(middle + 1)]) == 1
    said = capsys.readouterr().err
    assert "part.toml: holds " in said and "of its tracks were excluded as outliers; widen" in said
    assert (tmp_path / "part.toml").exists(), "what was asked for is written"


def test_a_target_without_tracks_is_undetermined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zeros = tmp_path / "zeros.img"
    zeros.write_bytes(bytes(64 << 20))
    folder = tmp_path / "out"
    assert run(["geometry", "extract", str(zeros), "--out", str(folder)]) == UNDETERMINED
    said = capsys.readouterr()
    assert "no tracks were found by its reads" in said.err and "Layout" in said.out
    assert (folder / "geometry.json").exists(), "what was seen is kept"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nowhere.json"], "nowhere.json"),
        (["fit", "{found}/geometry.json", "--min-outlier", "5", "--max-outlier", "6"], "--max-outlier"),
        (["fit", "{found}/geometry.json", "--zones", "90000"], "--zones"),
        (["extract", "recording:{found}", "--resume"], "--resume"),
        (["extract", "recording:nowhere"], "nowhere"),
        (["extract", "sim:no-such-drive", "--out", "{found}/x"], "no-such-drive"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    arguments: list[str], words: str, found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["geometry", *(part.replace("{found}", str(found)) for part in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
