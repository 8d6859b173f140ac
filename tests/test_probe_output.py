"""What a probe prints at its end: the verdict, what matters most, reasons, CSV, and its exit codes."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from command_line import PROBE, Call
from skylight.cli import console, printed_findings
from skylight.cli.printed_findings import Unexpected, check_expected, csv_text, print_result
from skylight.errors import UNDETERMINED, Undetermined
from skylight.evidence import TargetFacts
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.probe.suite import SuiteResult, chosen
from skylight.probe.zoned import HOST_AWARE, HOST_MANAGED
from skylight.report.brief import MOST_LINES, brief

WHY = "Random 4 KiB writes take one revolution each, wherever they go, and so they are appended to a log."


def of(*findings: Finding, name: str = "sim:a", model: str | None = None) -> SuiteResult:
    facts = TargetFacts("sim", name, 5_000_000_000_000, 512, {"model": model} if model else {})
    return SuiteResult(facts, [], list(findings), 1)


def found(name: str, value: Value, confidence: float = 0.97, unit: str | None = None) -> Finding:
    return Finding(name, value, unit, None, confidence, f"{WHY} ({name})")


SHINGLED = (
    found("drive_type", "smr", 0.996),
    found("cache_medium", "disk"),
    found("rotation_ns", 10_037_000, unit="ns"),
    found("cache_fill_bytes", 20 << 30, unit="bytes"),
    found("cache_map_entries", 200_440, unit="entries"),
    found("random_write_rate", {"one_at_a_time": 39.2}, unit="writes/s"),
    found("full_cache_rates", {"random_per_s": 1.56, "sequential_bytes_per_s": 193e6}),
    found("map_merge_every", 240),
    found("map_merge_ns", 301_000_000, unit="ns"),
    found("stall_ns", {"p99": 687_000_000, "longest": 948_000_000}, unit="ns"),
    found("cleaning_type", "aggressive"),
    found("cleaning_start_ns", 1_240_000_000, unit="ns"),
    found("drain_ns", 11_940_000_000_000, unit="ns"),
    found("fill_drive_ns", 37_680_000_000_000, unit="ns"),
    found("band_bytes", UNKNOWN, 0.0),
)


def shown_at(width: int, patch: pytest.MonkeyPatch, *, why: bool, of_what: SuiteResult | None = None) -> None:
    for module in (console, printed_findings):
        patch.setattr(module, "output_width", lambda: width)
    print_result(of(*SHINGLED) if of_what is None else of_what, why=why)


def test_the_five_lines_of_a_shingled_disk_are_its_cliff_and_what_follows() -> None:
    lines = dict(brief(Known(SHINGLED)))
    assert list(lines) == ["Takes", "Then", "Stalls", "Recovers", "To fill it"]
    assert lines["Takes"] == "20 GiB of random writes or about 200,000 separate places"
    assert lines["Then"] == "1.6 random writes a second instead of 39, 193 MB/s in order"
    assert lines["Stalls"] == "up to 948 ms, every 240th 301 ms"
    assert lines["Recovers"] == "after 1.24 s without a request, in 3 h 19 min from a full cache"


def test_a_line_says_how_sure_its_least_sure_finding_is() -> None:
    doubted = found("drain_ns", 11_940_000_000_000, 0.6, unit="ns")
    lines = dict(brief(Known([*SHINGLED, doubted])))
    assert lines["Recovers"].endswith("from a full cache (60 % sure)")
    assert [title for title, words in lines.items() if "sure" in words] == ["Recovers"]


@pytest.mark.parametrize(("confidence", "shown"), [(0.2, False), (0.5, True)])
def test_a_number_that_is_likelier_wrong_than_right_is_in_no_line(confidence: float, shown: bool) -> None:
    hours = found("fill_drive_ns", 3_610 * 3_600 * 10**9, confidence, unit="ns")
    assert ("To fill it" in dict(brief(Known([*SHINGLED, hours])))) is shown


def test_a_line_of_which_nothing_is_known_makes_room_for_the_next() -> None:
    known = [each for each in SHINGLED if each.name not in ("cache_fill_bytes", "cache_map_entries")]
    assert [title for title, _ in brief(Known(known))] == [
        "Then",
        "Stalls",
        "Recovers",
        "To fill it",
        "Cache",
    ]
    assert brief(Known([found("drive_type", UNKNOWN, 0.0)])) == ()


def test_a_conventional_disk_has_its_paces() -> None:
    fast: Value = {"od": 197e6, "md": 161e6, "id": 92e6}
    known = Known([found("drive_type", "cmr"), SHINGLED[2], found("throughput_bytes_per_s", fast)])
    assert brief(known) == (
        ("Rotation", "10.0 ms, 5,978 rpm"),
        ("Reads", "197 MB/s in order at the first addresses, 92 MB/s at the last"),
    )


@pytest.mark.parametrize("why", [False, True], ids=["verdict", "why"])
@pytest.mark.parametrize("width", [60, 80, 109, 110, 140, 200])
def test_all_fits_the_terminal_and_the_verdict_is_last(
    width: int, why: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown_at(width, monkeypatch, why=why)
    shown = capsys.readouterr().out
    lines = shown.strip("\n").splitlines()
    assert max(map(len, lines)) <= width
    verdict = next(n for n, text in enumerate(lines) if text.startswith("This is a shingled (SMR) disk"))
    after = " ".join(" ".join(lines[verdict:]).split())
    assert "99.6 % sure." in after and "10 h 28 min to write the whole drive in order" in after
    if width >= 80:
        assert len(lines) - verdict == 1 + MOST_LINES, "the verdict and five lines, none of them folded"
    reasons = " ".join(" ".join(lines[:verdict]).split())
    assert ("Rotation time" in reasons) is why
    assert (shown.count("(rotation_ns)") == 1) is why
    if why and width < printed_findings.TABLE_FROM:
        assert f"Rotation time: 10.0 ms (97 %) {WHY} (rotation_ns)." in reasons


def test_a_kind_that_is_not_known_says_why_and_what_is_declared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = of(found("drive_type", UNKNOWN, 0.0), SHINGLED[2], model="ST5000AS0011-1")
    shown_at(80, monkeypatch, why=False, of_what=one)
    shown = capsys.readouterr().out
    assert "A rotating disk, 5,978 rpm; whether it is shingled is not known." in shown
    assert "(drive_type)" in shown, "why it is not known"
    assert "declared: Its model, ST5000AS0011-1, is sold as a shingled disk (declared;" in shown
    assert "% sure" not in shown


def test_csv_has_a_line_for_each_value_and_each_part() -> None:
    low = Finding("rotation_ns", 10, "ns", (9.5, 10.5), 0.99, 'a "why", with a comma')
    rates = found("full_cache_rates", {"random_per_s": 1.5, "sequential_bytes_per_s": 2e8})
    plateaus = found("plateaus", {"count": 8, "first_bytes": 5}, unit="bytes")
    rows = list(csv.DictReader(io.StringIO(csv_text([of(low, rates, plateaus), of(low, name="sim:b")]))))
    assert [(row["target"], row["finding"], row["part"], row["value"], row["unit"]) for row in rows] == [
        ("sim:a", "rotation_ns", "", "10", "ns"),
        ("sim:a", "full_cache_rates", "random_per_s", "1.5", "writes/s"),
        ("sim:a", "full_cache_rates", "sequential_bytes_per_s", "200000000.0", "bytes/s"),
        ("sim:a", "plateaus", "count", "8", ""),
        ("sim:a", "plateaus", "first_bytes", "5", "bytes"),
        ("sim:b", "rotation_ns", "", "10", "ns"),
    ]
    assert (rows[0]["low"], rows[0]["high"], rows[0]["confidence"]) == ("9.5", "10.5", "0.99")
    assert rows[0]["why"] == 'a "why", with a comma'


def test_what_is_expected_of_every_target() -> None:
    smr, cmr, unknown = (
        of(found("drive_type", kind), name=f"sim:{kind}") for kind in ("smr", "cmr", UNKNOWN)
    )
    check_expected([smr, smr], "smr")
    with pytest.raises(Unexpected, match="expected smr: sim:cmr is cmr") as other:
        check_expected([smr, unknown, cmr], "smr")
    assert other.value.exit_code == 1
    with pytest.raises(Undetermined, match="sim:unknown could not be determined") as doubt:
        check_expected([smr, unknown], "smr")
    assert doubt.value.exit_code == UNDETERMINED == 5
    with pytest.raises(Undetermined):
        check_expected([of()], "cmr")


def test_what_is_expected_is_wanted_for_sure_and_zones_are_shingled_tracks() -> None:
    doubtful = of(found("drive_type", "cmr", 0.6))
    with pytest.raises(Undetermined, match="surely enough"):
        check_expected([doubtful], "cmr")
    host_aware = of(found("drive_type", "cmr"), found("zone_model", "host-aware"))
    with pytest.raises(Unexpected, match="is smr"):
        check_expected([host_aware], "cmr")
    check_expected([of(found("zone_model", "host-managed"))], "smr")


def test_a_host_managed_drive_is_shingled_by_what_it_declares(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown_at(80, monkeypatch, why=False, of_what=of(found("zone_model", "host-managed", 1.0)))
    assert "This is a host-managed shingled (SMR) disk. 100 % sure." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        ("cmr", "a host-aware shingled (SMR) disk", "smr"),
        (UNKNOWN, "a host-aware shingled (SMR) disk", "smr"),
        ("smr", "a host-aware shingled (SMR) disk", "smr"),
        ("not-rotating", "not a rotating disk", "not-rotating"),
    ],
)
def test_the_headline_and_what_scripts_get_are_one(
    kind: str,
    words: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drive = of(found("drive_type", kind, 0.97), found("zone_model", "host-aware", 1.0))
    shown_at(80, monkeypatch, why=False, of_what=drive)
    assert f"This is {words}." in capsys.readouterr().out
    check_expected([drive], expected)


def test_a_script_asks_whether_a_disk_is_conventional(call: Call) -> None:
    good = call(*PROBE, "sim:st4000nc001", "--csv", "--expect", "cmr", "--out", "good")
    assert good.code == 0
    assert next(csv.DictReader(io.StringIO(good.out)))["value"] == "cmr"
    bad = call("probe", "recording:good", "--json", "--expect", "smr", "--out", "bad")
    bad.one_line(1, "expected smr: sim:st4000nc001 is cmr")
    assert json.loads(bad.out)["findings"]["drive_type"]["value"] == "cmr"
    call("probe", "recording:good", "--expect", "ssd").one_line(2, "--expect", "not-rotating")
    elsewhere = call("probe", "recording:good", "--out", "else where")
    again = call(*shown_command(elsewhere.out))
    assert "Drive type" in again.out and again.code == 0
    assert again.out.splitlines()[-1] == elsewhere.out.splitlines()[-1]
    assert not Path("skylight-report").exists(), "it writes no second report"
    other = call("probe", "recording:good", "recording:good", "--out", "else where")
    other.one_line(2, "else where: already there and not empty")
    Path("else where/notes.txt").touch()
    call("probe", "recording:good", "--out", "else where").one_line(2, "already there and not empty")


def shown_command(out: str) -> list[str]:
    """The arguments of the command that prints the reasons."""
    (line,) = re.findall(r"^Reasons: skylight (.*)$", out, re.MULTILINE)
    return shlex.split(line)


def test_several_targets_end_with_a_line_for_each(call: Call) -> None:
    ended = call(*PROBE, "sim:st4000nc001", "sim:emulated-smr-1", "--out", "both")
    tail = ended.out.splitlines()[-5:]
    assert tail[0].startswith("sim:st4000nc001     conventional (CMR), ")
    assert tail[1].startswith("sim:emulated-smr-1  shingled (SMR) with its cache on the disk, ")
    kept = "recording:both/st4000nc001 recording:both/emulated-smr-1"
    assert tail[3] == f"Reasons: skylight probe {kept} --why --out both"
    again = call(*shown_command(f"{tail[3]}\n"))
    assert again.code == 0 and again.out.splitlines()[-1] == tail[4] == "Report: both/report.html"
    assert not Path("skylight-report").exists(), "it writes no second report"


def test_standard_output_has_one_form(call: Call) -> None:
    call("probe", "sim:st4000nc001", "--json", "--csv").one_line(2, "--json and --csv")


def test_what_is_quick_depends_on_the_zone_model() -> None:
    asked = {
        model: [test.name for test in chosen((), quick=True, model=model)]
        for model in (None, HOST_AWARE, HOST_MANAGED)
    }
    assert asked == {None: ["drive_type"], "host-aware": ["drive_type"], "host-managed": ["open_zones"]}


@pytest.mark.long
def test_a_host_managed_drive_has_a_quick_answer(call: Call) -> None:
    ended = call("probe", "sim:wsh722020al", "--quick", "--expect", "smr", "--out", "hm")
    assert ended.code == 0, ended.err
    assert "This is a host-managed shingled (SMR) disk." in ended.out


@pytest.mark.parametrize("width", range(60, 76))
def test_no_line_ends_between_a_number_and_its_unit(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_at(width, monkeypatch, why=True)
    console.table(
        ("Size", "Where"), [("20 GiB", "from 37.2 GiB to 41.5 GiB, and 9.5 ms apart ") for _ in "ab"]
    )
    shown = capsys.readouterr().out
    assert not re.search(r"\d\n *([KMGT]iB|ms|s|h|%)(?!\w)", shown)
    assert max(map(len, shown.splitlines())) <= width


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console.output_width() == 100
    monkeypatch.setenv("COLUMNS", "72")
    assert console.output_width() == 72


def test_notes_are_in_the_json(call: Call, here: Path) -> None:
    assert call(*PROBE, "sim:st4000nc001", "--out", "out").code == 0
    part = next((here / "out" / "recording").glob("drive_type*.arrows"))
    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    found = json.loads(call("probe", "recording:out", "--json", "--out", "again").out)
    assert any("not whole" in note or "cut" in note for note in found["notes"])


@pytest.mark.parametrize("width", [60, 64, 72, 80, 120])
def test_columns_give_way_but_no_word_is_broken_while_there_is_room(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "output_width", lambda: width)
    header = ("Plan", "Requests at most", "Likely if shingled", "if not", "At most", "Written at most")
    row = ("Rotation, tracks and seeks", "3,000,000", "2 min 10 s", "nothing", "8 h 40 min", "reads only")
    console.table(header, [row], right=(1, 2, 3, 4, 5))
    shown = capsys.readouterr().out
    assert {word for cell in (*header, *row) for word in cell.split()} <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= width
