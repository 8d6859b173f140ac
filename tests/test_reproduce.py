"""`skylight reproduce`: rows, bands and probe_findings, their JSON and page, and how the command ends.

The whole run is part of `make test-all`; here are the rows that take less than a second.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from skylight.cli.app import cli, run
from skylight.errors import KeepError, SkylightError, TargetError, UsageError
from skylight.findings import UNKNOWN, Finding
from skylight.reproduce import emulated_drives, fast15, probe_findings, rows_page, tolerances
from skylight.reproduce.page import JSON_NAME, PAGE_NAME
from skylight.reproduce.rows import Band, Measured, NotMeasured, RowSpec, judge, noted

FAST = "S1b,S1e,S1f,S1g,S3b,S6a"
FIGURES = Path(__file__).parent.parent / "docs/figures.md"


def call(*arguments: str) -> SimpleNamespace:
    """A command line, how it ended and what it said."""
    result = CliRunner().invoke(cli, ["reproduce", *arguments])
    return SimpleNamespace(code=result.exit_code, out=result.stdout, err=result.stderr)


def only(name: str, ours: float | str | None, lo: float | str, hi: float | str) -> bool:
    """Whether a check passes."""
    return Band("S0", name, "", lo, hi).contains(ours)


def test_a_check_passes_inside_its_band_ends_included() -> None:
    assert only("x", 1.0, 1.0, 2.0)
    assert only("x", 2.0, 1.0, 2.0)
    assert not only("x", 0.999, 1.0, 2.0)
    assert not only("x", 2.001, 1.0, 2.0)
    assert only("x", 1e9, 1.0, math.inf)
    assert only("x", "smr", "smr", "smr")
    assert not only("x", "cmr", "smr", "smr")


@pytest.mark.parametrize("ours", [None, math.nan, UNKNOWN])
def test_what_was_not_found_is_a_miss(ours: float | str | None) -> None:
    assert not only("x", ours, -math.inf, math.inf)
    assert not only("x", ours, "smr", "smr")


def test_every_row_has_bands_and_every_band_a_row() -> None:
    ids = [spec.id for spec in fast15.ROWS]
    assert len(ids) == len(set(ids))
    assert set(ids) == {band.row for band in tolerances.BANDS}
    names = [(band.row, band.name) for band in tolerances.BANDS]
    assert len(names) == len(set(names))
    for band in tolerances.BANDS:
        assert isinstance(band.lo, str) or isinstance(band.hi, str) or band.lo <= band.hi


def test_a_figure_without_a_band_is_refused() -> None:
    spec = RowSpec("S0", "", "", lambda _: Measured({}))
    with pytest.raises(ValueError, match="S0: no band for"):
        judge(spec, Measured({"y": 1.0}), [Band("S0", "x", "", 0.0, 1.0)])
    row = judge(spec, Measured({}), [Band("S0", "x", "", 0.0, 1.0)])
    assert not row.passed
    assert row.to_json() == {
        "id": "S0",
        "pass": False,
        "checks": [{"name": "x", "paper": "", "ours": None, "lo": 0.0, "hi": 1.0, "pass": False}],
    }


def test_rows_are_chosen_in_the_tables_order() -> None:
    assert [spec.id for spec in fast15.chosen(("S3b", "S1a"))] == ["S1a", "S3b"]
    assert fast15.chosen(()) == fast15.ROWS
    with pytest.raises(UsageError, match="did you mean S1a"):
        fast15.chosen(("s1a",))


def test_a_row_that_reads_all_tests_wins_over_rows_that_name_some() -> None:
    asked = fast15.suites_of(fast15.chosen(("S3a", "S9a")))
    assert asked["em-1"] == ("cleaning", "band_size")
    assert fast15.suites_of(fast15.chosen(("S12", "S13")))["st5000"] == ()
    assert "st4000nc001" not in asked


def test_missing_and_unknown_findings_are_misses_not_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Finding("mapping", "static", None, None, 1.0, "as measured"),
        Finding("band_bytes", UNKNOWN, "bytes", None, 0.0, "not seen"),
    ]
    monkeypatch.setattr(emulated_drives.Lab, "findings", lambda self, drive: [] if drive == "em-3" else found)
    here = emulated_drives.Lab(tmp_path)
    mapping = judge(*_of("S10a", probe_findings.s10a(here)))
    assert [check.passed for check in mapping.checks] == [True, True, False, True, True]
    sizes = judge(*_of("S9a", probe_findings.s9a(here)))
    assert {check.ours for check in sizes.checks} == {None}
    assert not sizes.passed
    table = judge(*_of("S12", probe_findings.s12(here)))
    assert {check.ours for check in table.checks} == {None, "static"}


def _of(name: str, measured: Measured) -> tuple[RowSpec, Measured, tuple[Band, ...]]:
    (spec,) = fast15.chosen((name,))
    return spec, measured, tolerances.BANDS


def test_band_sizes_count_in_whole_mib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, int | float | bool | str] = {"od": 40 << 20, "md": (40 << 20) + 5000, "id": 41 << 20}
    found = Finding("band_bytes", sizes, "bytes", None, 1.0, "as measured")
    monkeypatch.setattr(emulated_drives.Lab, "findings", lambda self, drive: [found])
    row = judge(*_of("S9a", probe_findings.s9a(emulated_drives.Lab(tmp_path))))
    assert [check.passed for check in row.checks[:3]] == [True, True, False]


def test_offsets_differ_and_come_again(tmp_path: Path) -> None:
    here = emulated_drives.Lab(tmp_path)
    offsets = here.offsets("x", 4096, 64 << 20)
    assert len(np.unique(offsets)) == 4096
    assert np.all(offsets % 4096 == 0)
    assert offsets.max() < 64 << 20
    assert np.array_equal(offsets, emulated_drives.Lab(tmp_path).offsets("x", 4096, 64 << 20))
    assert sorted(here.offsets("all", 16, 16 * 4096)) == list(range(0, 16 * 4096, 4096))


def test_a_band_begins_at_or_below_each_byte_of_it() -> None:
    assert emulated_drives.band_start(0) == 0
    assert emulated_drives.band_start((36 << 20) + 1) == 36 << 20
    middle = emulated_drives.band_start(2_500_000_000_000)
    assert 0 <= 2_500_000_000_000 - middle < 30 << 20
    assert emulated_drives.band_start(middle) == middle


def test_quick_rows_pass_and_their_json_has_a_row_with_its_checks_each(tmp_path: Path) -> None:
    ended = call("fast15", "--only", FAST, "--json")
    assert ended.code == 0, ended.out
    assert ended.err == ""
    document = json.loads(ended.out)
    assert set(document) == {"rows"}
    assert [row["id"] for row in document["rows"]] == FAST.split(",")
    for row in document["rows"]:
        assert set(row) == {"id", "pass", "checks"}
        assert row["pass"] is True
        for check in row["checks"]:
            assert set(check) == {"name", "paper", "ours", "lo", "hi", "pass"}
            assert check["pass"] is True
    assert call("fast15", "--only", FAST, "--json").out == ended.out, "the same figures again"
    assert_page_shows(document)


def assert_page_shows(document: dict[str, object]) -> None:
    page = rows_page.shown(FIGURES.read_text())
    differ = {key: (page.get(key), ours) for key, ours in rows_page.measured([document]).items()}
    assert {key: pair for key, pair in differ.items() if pair[0] != pair[1]} == {}, rows_page.__doc__


def test_the_page_of_figures_has_every_row_check_and_band() -> None:
    page = FIGURES.read_text()
    assert rows_page.renewed(page, {}) == page, rows_page.__doc__
    own = {
        key: ours for key, ours in rows_page.shown(page).items() if key[0] in {row.id for row in fast15.ROWS}
    }
    assert rows_page.NOT_MEASURED not in own.values()
    (first, *_) = tolerances.BANDS
    other = page.replace(f"| {first.name} | {first.paper} | {first.text} |", f"| {first.name} | 7 | 7 |", 1)
    assert other != page
    assert rows_page.renewed(other, {}) == page, "what drifted is written again"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(UsageError, match="no markers for fast15"):
        rows_page.renewed("# Figures\n", {})


def test_the_table_has_a_line_for_each_check_and_the_result() -> None:
    ended = call("fast15", "--only", "S1b,S6a")
    assert ended.code == 0
    assert re.search(r"S6a +writes of 4 KiB at depth 1 +22,800 +22,\d{3} +22,344 to 23,256 +pass", ended.out)
    assert "2 of 2 rows of the paper reproduced, 3 of 3 checks." in ended.out
    assert ended.err.splitlines() == [
        "progress: S1b (1 of 2): Lone writes to flash take less than a millisecond",
        "progress: S6a (2 of 2): Lone writes fill the slots of the journal",
    ]


def test_a_planted_bad_band_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = [replace(band, lo=0.0, hi=1e-3) if band.row == "S1b" else band for band in tolerances.BANDS]
    monkeypatch.setattr(fast15, "BANDS", tuple(planted))
    ended = call("fast15", "--only", "S1b,S1f", "--json")
    assert ended.code == 1
    rows = {row["id"]: row for row in json.loads(ended.out)["rows"]}
    assert rows["S1b"]["pass"] is False
    assert rows["S1b"]["checks"][0]["pass"] is False
    assert rows["S1f"]["pass"] is True
    shown = call("fast15", "--only", "S1b")
    assert shown.code == 1
    assert "MISS" in shown.out
    assert "0 of 1 row of the paper reproduced" in shown.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fast15", "--only", "S1z"], ["no row is called 'S1z'", "S1a"]),
        (["fast15", "--only", "s3b"], ["'s3b'", "did you mean S3b?"]),
        (["fast15", "--only", " , "], ["--only names no row"]),
        (["fast16"], ["'fast16'", "fast15"]),
        ([], ["fast15", "reproduce --help"]),
    ],
)
def test_wrong_use_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    assert run(["reproduce", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    for word in words:
        assert word in said.err


def test_a_folder_that_holds_other_things_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    assert run(["reproduce", "fast15", "--only", "S1b", "--out", str(tmp_path)]) == 2
    assert "already there and not empty" in capsys.readouterr().err
    assert run(["reproduce", "fast15", "--only", "S1b", "--out", str(tmp_path / "mine.txt")]) != 0
    assert capsys.readouterr().err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_the_page_is_complete_in_itself_and_the_same_again(tmp_path: Path) -> None:
    pages = []
    for _ in range(2):
        ended = call("fast15", "--only", "S1f,S3b", "--out", str(tmp_path / "out"))
        assert ended.code == 0, ended.out
        assert f"Page: {tmp_path / 'out' / PAGE_NAME}" in ended.out
        pages.append((tmp_path / "out" / PAGE_NAME).read_text())
    assert pages[0] == pages[1]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [PAGE_NAME, JSON_NAME]
    document = json.loads((tmp_path / "out" / JSON_NAME).read_text())
    assert [row["id"] for row in document["rows"]] == ["S1f", "S3b"]
    page = pages[0]
    assert not re.search(r"https?:|<script|<link|<img|mathdefault", page)
    assert page.count("<svg") == 4, "two figures, for a wide and for a narrow page"
    for words in ("S1f", "S3b", "Head position during one cleaning", "2 of 2 rows of the paper reproduced"):
        assert words in page


@pytest.mark.parametrize(("ends", "code"), [(TargetError("it broke"), None), (KeepError("disk full"), 4)])
def test_a_probe_that_ends_is_a_miss_unless_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, ends: SkylightError, code: int | None
) -> None:
    def run_suite(*_: object, **__: object) -> None:
        raise ends

    monkeypatch.setattr(emulated_drives, "run_suite", run_suite)
    if code is not None:
        assert run(["reproduce", "fast15", "--only", "S1d", "--json"]) == code
        return
    ended = call("fast15", "--only", "S1d")
    assert ended.code == 1
    assert "st4000nc001: the probe failed: it broke" in ended.out
    assert re.search(r"S1d +verdict +cmr +not found +cmr +MISS", ended.out)


def test_without_recordings_row_r1_is_skipped_and_says_where_they_are_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLIGHT_DATA", str(tmp_path))
    ended = call("fast15", "--only", "R1,S1b")
    assert ended.code == 0
    assert "SKYLIGHT_DATA names the folder of the recordings" in ended.out
    assert "github.com/fenggangwu/fio-scripts" in ended.out and "MISS" not in ended.out
    assert "1 of 1 row of the paper reproduced, 1 of 1 check. 1 row skipped." in ended.out
    assert (tmp_path / "st8000as0022-fragmented-reads").exists() is False
    row = json.loads(call("fast15", "--only", "R1", "--json").out)["rows"][0]
    assert row["pass"] is None and "SKYLIGHT_DATA" in row["skipped"]
    assert "Nothing of the paper was measured: 1 row skipped." in call("fast15", "--only", "R1").out


def test_what_a_tool_says_on_several_lines_is_one_note() -> None:
    def failing(lab: object) -> Measured:
        raise NotMeasured("unknown: no loop device: losetup:\n\tcannot find one\n")

    assert noted(failing)(None).notes == ("unknown: no loop device: losetup: cannot find one",)


def test_the_geometry_of_a_real_drive_comes_from_its_logs(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLIGHT_DATA", str(data_dir))
    ended = call("fast15", "--only", "R1", "--json")
    assert ended.code == 0, ended.out
    assert json.loads(ended.out)["rows"][0]["pass"] is True


@pytest.mark.long
def test_every_row_of_the_paper_is_reproduced(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLIGHT_DATA", str(data_dir))
    ended = call("fast15", "--out", str(tmp_path / "out"))
    missed = [line for line in ended.out.splitlines() if "MISS" in line]
    assert ended.code == 0, "\n".join(missed)
    assert_page_shows(json.loads((tmp_path / "out" / JSON_NAME).read_text()))
