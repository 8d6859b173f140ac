"""The report: complete in itself, safe with hostile names, true to the evidence, reproducible to the byte."""

import base64
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from skylight.errors import KeepError
from skylight.evidence import Evidence, IoBatch, IoLog, Op, Step, TargetFacts
from skylight.findings import UNKNOWN, Finding, Value
from skylight.probe import Figure
from skylight.probe.suite import SuiteResult
from skylight.report.html import render_report, write_file
from skylight.report.json import document_text, probe_document
from skylight.report.report_contents import finding_rows, target_view
from skylight.report.svg_figures import render_drawn
from skylight.report.words import confidence_words, verdict

RUN = {
    "depth": 1,
    "region_bytes": 1 << 30,
    "place_bytes": 16384,
    "round_ios": 64,
    "flushed": False,
    "writes_allowed": True,
}
VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;'$\\frac{{%"
ROOT = Path(__file__).parent.parent
CSS = ROOT / "python/skylight/report/templates/report.css"
UPLOT = ROOT / "python/skylight/report/vendored/uPlot.iife.min.js"
DOCS = ROOT / "docs/report.md"


def log(op: Op, latency_ms: list[float], size: int = 4096) -> IoLog:
    """I/Os one after the other with these latencies, at places that spread over 1 MiB."""
    latency_ns = (np.array(latency_ms) * 1e6).astype(np.uint64)
    offsets = np.arange(len(latency_ns), dtype=np.uint64) * 4096 % (1 << 20)
    complete_ns = np.cumsum(latency_ns, dtype=np.uint64)
    return IoLog.of(IoBatch.make(op, offsets, size), complete_ns - latency_ns, complete_ns)


def found(
    drive_type: str, medium: str, confidence: float = 0.97, why: str = "writes say so"
) -> list[Finding]:
    """The findings of test 1."""
    return [
        Finding("drive_type", drive_type, None, None, confidence, why),
        Finding("cache_medium", medium, None, None, confidence, "and so do reads"),
    ]


def result(
    findings: list[Finding] | None = None, *, name: str = "sim:a-drive", kind: str = "sim", note: str = ""
) -> SuiteResult:
    """A small result of test 1, made by hand."""
    facts = TargetFacts(kind, name, 4_000_000_000_000, 512, {"model": name, "rotational": True})
    reads = log(Op.READ, [3.0 + 0.05 * i for i in range(256)])
    writes = log(Op.WRITE, [10.0 + 0.01 * (i % 7) for i in range(512)])
    steps = [
        Step("settings", "settings", {"write_cache": False, "look_ahead": None, "note": note}),
        Step("reads", "run", RUN, reads),
        Step("writes-wide", "run", {**RUN, "write_cache": False}, writes),
        Step("rest", "pause", {"seconds": 2.5}),
    ]
    evidence = Evidence("drive_type", facts, steps, complete=True)
    return SuiteResult(facts, [evidence], findings or found("smr", "disk"), 1, {}, [note] if note else [])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A directory with files such as a recording has."""
    folder = tmp_path / "out/recording"
    folder.mkdir(parents=True)
    (folder / "recording.json").write_text("{}")
    (folder / "drive_type.0.arrows").write_bytes(bytes(1000))
    return folder


def page(recording: Path, *results: SuiteResult) -> str:
    """The page of these results."""
    return render_report([(one, recording) for one in results or (result(),)], recording.parent)


class Reader(HTMLParser):
    """Elements, attributes and text of a page; checks that every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((tag, name, value or "") for name, value in attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All text, blanks folded."""
        return " ".join(" ".join(self.words).split())


# --- complete in itself


def scripts_of(text: str) -> tuple[list[str], list[str]]:
    """The scripts of a page that run, and the blocks of data."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    data = [body for attributes, body in found if attributes == ' type="application/json"']
    run = [body for attributes, body in found if not attributes]
    assert len(data) + len(run) == len(found) == text.count("<script"), "another kind of script"
    return run, data


def test_nothing_is_loaded_from_anywhere(recording: Path) -> None:
    text = page(recording, result(), result(found("cmr", "none")))
    # the library names its home in its first line, a comment
    assert not re.search(r"https?:|//[a-z]|@import|@font-face", text.replace(UPLOT.read_text(), ""))
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|Worker|importScripts|eval)\b", text)
    assert not re.search(r"\bimport\s*\(|sendBeacon|new Image|\.src\b|innerHTML|document\.write", text)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    read = Reader(text)
    assert not {"link", "iframe", "object", "embed", "img", "image", "base", "form"} & set(read.tags)
    links = [value for _, name, value in read.attributes if name in ("href", "src", "xlink:href", "action")]
    assert "recording/drive_type.0.arrows" in links
    assert all(link.startswith(("#", "recording/")) for link in links)
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]


def test_the_page_itself_forbids_the_network_and_every_other_script(recording: Path) -> None:
    text = page(recording)
    policies = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert len(policies) == 1
    assert text.index("Content-Security-Policy") < text.index("<style")
    rules = dict(rule.strip().split(" ", 1) for rule in unescape(policies[0]).split(";"))
    run, _ = scripts_of(text)
    hashes = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in run]
    assert rules.pop("script-src").split() == [f"'sha256-{digest}'" for digest in hashes]
    assert rules.pop("style-src") == "'unsafe-inline'"
    assert rules == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert len(run) == 2 and run[0] == UPLOT.read_text()


def test_a_page_without_a_request_has_no_script_at_all(recording: Path) -> None:
    one = result()
    one.evidence.clear()
    text = page(recording, one)
    assert scripts_of(text) == ([], [])
    assert "script-src &#39;none&#39;" in text


def test_the_library_is_the_one_that_docs_report_names() -> None:
    pinned = dict(re.findall(r"`(uPlot[\w.]+)`, SHA-256\s+`([0-9a-f]{64})`", DOCS.read_text()))
    folder = UPLOT.parent
    assert set(pinned) == {"uPlot.iife.min.js", "uPlot.min.css"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in pinned} == pinned
    assert "MIT" in (folder / "uPlot.LICENSE").read_text()


def test_the_licence_of_the_library_stands_in_the_page(recording: Path) -> None:
    assert (UPLOT.parent / "uPlot.LICENSE").read_text() in page(recording)


def test_every_reference_inside_the_page_leads_somewhere_and_ids_are_unique(recording: Path) -> None:
    read = Reader(page(recording, result(), result(found("cmr", "none"))))
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {value[1:] for _, name, value in read.attributes if name == "href" and value.startswith("#")}
    clips = {value[5:-1] for _, name, value in read.attributes if name == "clip-path"}
    assert named | clips <= set(ids)
    assert named
    assert clips


def test_the_same_input_gives_the_same_bytes(recording: Path) -> None:
    assert page(recording) == page(recording)


def test_the_same_input_gives_the_same_bytes_in_another_process(recording: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]); import test_report as t\n"
        "sys.stdout.write(t.page(Path(sys.argv[1])))"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(recording), str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == page(recording)


def test_names_from_outside_are_text_and_nothing_else(recording: Path) -> None:
    hostile = result(found("smr", "disk", why=HOSTILE), name=HOSTILE, note=HOSTILE)
    for text in (page(recording, hostile), page(recording, hostile, hostile)):
        read = Reader(text)
        run, _ = scripts_of(text)
        assert len(run) == 2 and "alert(1)" not in "".join(run) and "img" not in read.tags
        assert not [name for _, name, _ in read.attributes if name.startswith("on")]
        assert " ".join(HOSTILE.split()) in read.text


def test_names_of_steps_are_data_and_nothing_else(recording: Path) -> None:
    hostile = result()
    step = hostile.evidence[0].steps[1]
    hostile.evidence[0].steps[1] = replace(step, name=HOSTILE)
    run, data = scripts_of(page(recording, hostile))
    assert len(run) == 2 and len(data) == 1
    assert "<" not in data[0] and json.loads(data[0])["groups"][0] == HOSTILE


def test_a_link_to_the_recording_is_never_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "out/javascript:alert(1)"
    folder.mkdir(parents=True)
    (folder / "recording.json").write_text("{}")
    read = Reader(page(folder))
    links = [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")]
    assert [link for link in links if not link.startswith("#")] == [
        "javascript%3Aalert%281%29/recording.json"
    ]


def test_the_contents_lead_to_every_section(recording: Path) -> None:
    text = page(recording)
    ids = set(re.findall(r'<section id="([^"]+)"', text))
    links = re.findall(r'<li><a href="#([^"]+)"', text)
    assert len(ids) >= 4 and set(links) == ids and len(links) == len(ids)


def test_many_steps_share_lines_and_lose_nothing(tmp_path: Path) -> None:
    one = result()
    writes = log(Op.WRITE, [10.0] * 8)
    steps = [Step(f"marks-{number:03}", "run", RUN, writes) for number in range(100)]
    evidence = replace(one.evidence[0], steps=[*one.evidence[0].steps, *steps])
    (tmp_path / "recording.json").write_text("{}")
    view = target_view(replace(one, evidence=[evidence]), tmp_path, tmp_path, 1)
    assert [row.name for row in view.tests[0].steps] == ["settings", "reads", "writes-wide", "rest", "marks"]
    marks = view.tests[0].steps[-1]
    assert (marks.requests, marks.written) == ("800", "3.12 MiB")
    assert marks.what.startswith("100 steps; the first: 8 writes of 4 KiB")
    assert [row.cells[0] for row in view.tests[0].latencies if row.name == "marks"] == ["800"]


def test_the_longest_wait_and_slow_starts_are_facts(tmp_path: Path) -> None:
    one = result()
    (tmp_path / "recording.json").write_text("{}")
    waking = Step("after-rest", "run", RUN, log(Op.READ, [4_200.0, 8.0, 9.0]))
    cleaning = Step("cleaning", "run", RUN, log(Op.WRITE, [2_000.0, 2_100.0]))
    for steps, facts in (
        ([waking, cleaning], {"Longest wait": "4.20 s, a read (Drive type)",
                              "Slow starts": "1 run began with one request of up to 4.20 s"}),
        ([cleaning], {"Longest wait": "2.10 s, a write (Drive type)"}),
        ([replace(cleaning, params={**RUN, "depth": 31})],
         {"Longest wait": "2.10 s, a write, one of 31 at once (Drive type)"}),
    ):  # fmt: skip
        evidence = replace(one.evidence[0], steps=steps)
        view = target_view(replace(one, evidence=[evidence]), tmp_path, tmp_path, 1)
        shown = dict(view.facts)
        assert {name: shown.get(name) for name in facts} == facts
        assert ("Slow starts" in shown) is ("Slow starts" in facts)


@pytest.mark.parametrize(
    ("count", "unit", "shown"),
    [
        (1, "writes", "1 write"),
        (2, "writes", "2 writes"),
        (1, "entries", "1 entry"),
        (1, "revolutions", "1 revolution"),
    ],
)
def test_one_is_written_without_a_plural(count: int, unit: str, shown: str) -> None:
    assert finding_rows([Finding("queue_packing", count, unit, None, 0.9, "")])[0].value == shown


def test_a_duration_has_the_digits_that_its_interval_bears_out() -> None:
    def shown(half_ns: float) -> str:
        value = 10_037_400
        near = (value - half_ns, value + half_ns)
        return finding_rows([Finding("rotation_ns", value, "ns", near, 0.99, "")])[0].value

    assert [shown(half_ns) for half_ns in (6, 900, 9_000, 200_000)] == [
        "10.037 ms", "10.037 ms", "10.04 ms", "10.0 ms"
    ]  # fmt: skip


# --- looks


def test_figures_follow_light_and_dark(recording: Path) -> None:
    pictures = re.findall(r"<svg .*?</svg>", page(recording), re.DOTALL)
    assert len(pictures) >= 9  # the pictogram, two figures for two widths, the key of a plot
    for picture in pictures:
        assert not re.search(r"#[0-9a-fA-F]{6}\b|rgb\(", picture)
        assert "font-family" not in picture
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", "".join(pictures))) <= set(_properties()[0])


def _properties() -> list[dict[str, str]]:
    """The colours of light and of dark mode."""
    css = CSS.read_text()
    assert "prefers-color-scheme: dark" in css
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    return [dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def _contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (Web Content Accessibility Guidelines 2.2, 1.4.3)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_and_marks_stand_out(mode: int) -> None:
    colours = _properties()[mode]
    for ground in ("--paper", "--card"):
        for ink in ("--ink", "--muted", "--cmr", "--smr", "--still", "--dim", "--fig-ink", "--fig-muted"):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        for mark in (f"--s{number}" for number in range(1, 7)):
            assert _contrast(colours[mark], colours[ground]) >= 3, (mark, ground)


def test_each_figure_is_there_for_a_wide_and_a_narrow_page_with_a_caption(recording: Path) -> None:
    text = page(recording)
    count = text.count("<figure>")
    assert text.count('<figure class="plot" hidden>') == 1, "shown by the script alone"
    assert (
        count
        == text.count("How to read it.") - 1
        == text.count('class="wide"')
        == text.count('class="narrow"')
        == 2
    )
    assert len(re.findall(r'<svg viewBox="[^"]+" role="img" aria-label="[^"]{10,}"', text)) == 2 * count


# --- true to the evidence


@pytest.mark.parametrize(
    ("drive_type", "medium", "kind", "headline"),
    [
        ("cmr", "none", "cmr", "This is a conventional (CMR) disk."),
        ("smr", "disk", "smr-disk", "This is a shingled (SMR) disk with its cache on the disk."),
        ("smr", "flash", "smr-flash", "This is a shingled (SMR) disk with a flash cache."),
        ("smr", UNKNOWN, "smr", "This is a shingled (SMR) disk."),
        ("not-rotating", "none", "not-rotating", "This is not a rotating disk."),
        (UNKNOWN, UNKNOWN, "unknown", "What kind of drive this is could not be determined."),
    ],
)
def test_the_verdict_comes_first_and_in_words(
    recording: Path, drive_type: str, medium: str, kind: str, headline: str
) -> None:
    seen = verdict({finding.name: finding for finding in found(drive_type, medium)})
    assert (seen.kind, seen.headline) == (kind, headline)
    assert seen.points
    text = page(recording, result(found(drive_type, medium)))
    assert re.search(rf'<h1 class="headline">{re.escape(headline)}</h1>', text)
    assert text.index(headline) < text.index("What was found") < text.index("<figure>")


def test_an_unknown_has_its_reason_and_no_confidence(recording: Path) -> None:
    unknown = found(
        UNKNOWN, UNKNOWN, confidence=0.4, why="writes were not allowed; probe with --destroy-data"
    )
    text = Reader(page(recording, result(unknown))).text
    assert "Writes were not allowed; probe with --destroy-data." in text
    assert "No verdict" in text
    assert "40 %" not in text


def test_a_drive_type_that_was_not_measured_is_not_guessed(recording: Path) -> None:
    text = Reader(
        page(recording, result([Finding("rotation_ns", 10_170_000, "ns", None, 0.9, "turns")]))
    ).text
    assert "The drive type was not measured." in text


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(1.0, "very sure"), (0.96, "sure"), (0.85, "fairly sure"), (0.6, "leaning this way"), (0.2, "not sure")],
)
def test_confidence_is_said_honestly(confidence: float, words: str) -> None:
    assert confidence_words(confidence) == words


@pytest.mark.parametrize(
    ("value", "unit", "interval", "shown", "between"),
    [
        (10_170_000, "ns", (10_160_000, 10_180_000), "10.17 ms", "± 10.0 µs"),
        (240, "writes", (240, 240), "240 writes", "240 writes"),
        (41943040, "bytes", (39_845_888, 44_040_192), "40 MiB", "38 to 42 MiB"),
        (240, "writes", None, "240 writes", "–"),
        ({"od": 1 << 20, "id": 1 << 19}, "B", None, "OD 1 MiB, ID 512 KiB", "–"),
        ({"count": 8, "mirrored": True}, None, None, "8, mirrored", "–"),
        (
            {"random_per_s": 59.4, "sequential_bytes_per_s": 311_000},
            None,
            None,
            "random 59 a second, sequential 0.31 MB/s",
            "–",
        ),
        ("fifo", None, None, "fifo", "–"),
    ],
)
def test_values_of_later_tests_read_well(
    value: Value, unit: str | None, interval: tuple[float, float] | None, shown: str, between: str
) -> None:
    (row,) = finding_rows([Finding("a_property", value, unit, interval, 0.9, "measured")])
    assert (row.title, row.value, row.interval) == ("A property", shown, between)


def test_a_reason_is_said_once() -> None:
    one, other = finding_rows([replace(finding, why="same") for finding in found("cmr", "none")])
    assert (one.why, other.why) == ("same", "see Drive type")


def test_the_numbers_are_those_of_the_evidence(recording: Path) -> None:
    view = target_view(result(), recording, recording.parent, 1)
    (test,) = view.tests
    assert {row.name: row.cells for row in test.latencies} == {
        "reads": ("256", "3.00 ms", "6.19 ms", "9.38 ms", "12.6 ms", "15.6 ms", "15.8 ms"),
        "writes-wide": ("512", "10.0 ms", "10.0 ms", "10.0 ms", "10.1 ms", "10.1 ms", "10.1 ms"),
    }
    steps = {row.name: row for row in test.steps}
    assert steps["settings"].what == "write cache off, look-ahead not known"
    assert steps["reads"].what == "256 reads of 4 KiB between 0 B and 1 MiB, one at a time"
    assert (steps["writes-wide"].requests, steps["writes-wide"].written) == ("512", "2 MiB")
    assert (steps["rest"].what, steps["rest"].time) == ("left alone", "2.50 s")
    assert dict(view.facts)["Written"] == "2 MiB"
    assert dict(view.facts)["Device time, virtual"] == "10.0 s"
    assert view.deeds == "Reads, and writes of 2 MiB in all."
    assert [file.name for file in view.files] == ["drive_type.0.arrows", "recording.json"]


def test_what_a_cut_step_wrote_is_counted(recording: Path) -> None:
    one = result(kind="device")
    writes = one.evidence[0].steps.pop(2)
    reads_only = target_view(one, recording, recording.parent, 1)
    assert reads_only.deeds == "Only reads. Nothing was written to it."
    one.options["writes"] = True
    one.evidence[0].cut.append(writes)
    view = target_view(one, recording, recording.parent, 1)
    assert view.deeds.startswith("Reads, and writes of at least 2 MiB: a step was cut short")
    assert dict(view.facts)["Written"] == "at least 2 MiB"
    assert view.tests[0].steps[-1].what.startswith("cut short, not used: 512 writes")
    one.evidence[0].cut[:] = [Step("writes-wide", "run", RUN)]
    assert "at least 0 B" in target_view(one, recording, recording.parent, 1).deeds, "one may have arrived"


def test_what_was_overwritten_on_a_real_drive_is_said(recording: Path) -> None:
    text = Reader(page(recording, result(name="/dev/sdx", kind="device"))).text
    assert "The data in those places was overwritten." in text


@pytest.mark.parametrize(
    ("kinds", "headline"),
    [
        (("smr", "smr"), "Two drives, all of them shingled."),
        (("cmr", UNKNOWN, "cmr"), "Three drives, none of them found to be shingled."),
        (("cmr", "smr"), "Two drives, one of them shingled."),
    ],
)
def test_several_drives_are_compared(recording: Path, kinds: tuple[str, ...], headline: str) -> None:
    results = [result(found(kind, "none"), name=f"sim:drive-{n}") for n, kind in enumerate(kinds)]
    text = page(recording, *results)
    assert f"<h1>{headline}</h1>" in text
    assert text.count("<article ") == len(kinds)
    table = text[: text.index("<article ")]
    assert all(f"sim:drive-{n}" in table for n in range(len(kinds)))


# --- kept whole or not at all


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_file(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeepError, match=r"report\.html: cannot be written: No space left on device; .*--out"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_holds_every_part_of_every_finding() -> None:
    one = result()
    document = probe_document([one])
    assert list(document) == ["schema", "skylight", "target", "findings", "plan", "notes"]
    text = document_text(document)
    assert text.endswith("}\n")
    assert "NaN" not in text
    both = probe_document([one, one])
    assert list(both) == ["schema", "skylight", "targets"]


def test_logarithmic_axes_have_plain_numbers() -> None:
    def drawn() -> list[Figure]:
        from matplotlib.figure import Figure as Drawing

        drawing = Drawing()
        axes = drawing.add_subplot()
        axes.plot([0.001, 1.0, 20_000.0], [2.0, 3.0, 40.0])
        axes.set_xscale("log")
        axes.set_yscale("log")
        return [Figure("f", "A title", "A caption.", "alt", drawing)]

    (figure,) = render_drawn(drawn, "salt")
    for picture in (figure.wide, figure.narrow):
        assert "mathdefault" not in picture
        assert ">0.001<" in picture and ">10,000<" in picture and ">5<" in picture


def test_what_is_shortened_is_places_and_never_words() -> None:
    def drawn() -> list[Figure]:
        from matplotlib.figure import Figure as Drawing

        drawing = Drawing()
        axes = drawing.add_subplot()
        axes.plot([0.0, 1234.5678], [1.0, 2.0], "o")
        axes.annotate("0.123456 ms", (0.0, 1.0))
        axes.set_xlabel("a name that is far too long to stand in one line of a narrow figure (ms)")
        return [Figure("f", "A title", "A caption.", "from 0.123456 on", drawing)]

    (figure,) = render_drawn(drawn, "salt")
    for picture in (figure.wide, figure.narrow):
        assert ">0.123456 ms<" in picture and 'aria-label="from 0.123456 on"' in picture
        assert ">1,000<" in picture, "thousands apart"
        assert not re.search(r' (?:x|y|d|transform)="[^"]*\d\.\d{3}', picture)
    assert "one line of a narrow figure (ms)<" in figure.wide
    assert "to stand in one line of a narrow figure" not in figure.narrow, "two lines"


def test_a_test_that_had_nothing_to_do_has_no_section(recording: Path) -> None:
    one = result()
    one.evidence.append(Evidence("cleaning_order", one.target, [], complete=True))
    text = page(recording, one)
    assert text.count("<section>") == page(recording).count("<section>")


def test_requests_in_one_place_are_at_one_address(tmp_path: Path) -> None:
    one = result()
    (tmp_path / "recording.json").write_text("{}")
    far = log(Op.READ, [10.0] * 4)
    far = replace(far, offset=np.full(4, 146 << 30, np.uint64))
    evidence = replace(one.evidence[0], steps=[Step("tracks", "run", RUN, far)])
    view = target_view(replace(one, evidence=[evidence]), tmp_path, tmp_path, 1)
    assert view.tests[0].steps[0].what == "4 reads of 4 KiB at 146 GiB, one at a time"
