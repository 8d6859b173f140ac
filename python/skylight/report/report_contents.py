"""What the report shows, worked out before any markup is written.

What for: the templates only place words; everything they place is computed here, from a ``SuiteResult`` and
the directory of its recording.

Invariants:
- Numbers are those of the evidence: nothing is estimated, smoothed or left out.
- The same result gives the same model; no clock, no host name, no absolute path.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from skylight.byte_range import ByteRange
from skylight.errors import one_line
from skylight.evidence import U8, Evidence, IoLog, JsonScalar, Op, Step
from skylight.findings import Finding, Known
from skylight.probe import Test
from skylight.probe.suite import ALL_TESTS, SuiteResult
from skylight.recording import HEADER
from skylight.report.declared import Claims, claims_of, is_raw_shingled
from skylight.report.plots import Plot, plot_of, series_of
from skylight.report.svg_figures import RenderedFigure, render_figures
from skylight.report.values import DASH, FindingRow, finding_row, finding_rows
from skylight.report.what_to_expect import lasting, limits
from skylight.report.words import Verdict, confidence_words, finding_title, verdict
from skylight.units import format_capacity, format_count, format_counted, format_duration, format_size

__all__ = [
    "DASH",
    "Comparison",
    "FindingRow",
    "TargetView",
    "compare",
    "finding_row",
    "finding_rows",
    "target_view",
]

_KINDS = {"sim": "emulated drive", "device": "block device", "file": "plain file", "fio-log": "logs of fio"}
_OPS = {
    Op.READ: ("read", "reads"),
    Op.WRITE: ("write", "writes"),
    Op.FLUSH: ("flush", "flushes"),
    Op.TRIM: ("trim", "trims"),
    Op.WRITE_FUA: ("write with FUA", "writes with FUA"),
    Op.OPEN_ZONE: ("zone open", "zone opens"),
    Op.CLOSE_ZONE: ("zone close", "zone closes"),
    Op.FINISH_ZONE: ("zone finish", "zone finishes"),
    Op.RESET_ZONE: ("zone reset", "zone resets"),
    Op.APPEND: ("append", "appends"),
}
WAKE_NS = 1_000_000_000
"""Chosen: a drive that is awake and not cleaning answers within a second; loading heads takes about one, and
spinning up several."""

_PERCENTILES = (0, 25, 50, 75, 99, 100)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A line of "what was done"."""

    name: str
    what: str
    requests: str
    read: str
    written: str
    time: str


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """A line of the latency table: the step, then its cells as text."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TestView:
    """One test: its figures, its zoomable plot, its steps, its latencies."""

    title: str
    summary: str
    figures: tuple[RenderedFigure, ...]
    plot: Plot | None
    steps: tuple[StepRow, ...]
    latencies: tuple[LatencyRow, ...]


@dataclass(frozen=True, slots=True)
class FileLink:
    """A file of the recording: how to reach it from the report, its name, its size."""

    href: str
    name: str
    size: str


@dataclass(frozen=True, slots=True)
class TargetView:
    """All that a page says of one target.

    More than 15 fields: one per place of the template."""

    anchor: str
    name: str
    label: str
    capacity: str
    verdict: Verdict
    limits: tuple[tuple[str, str], ...]
    lasting: str
    sure: str
    findings: tuple[FindingRow, ...]
    claims: Claims
    tests: tuple[TestView, ...]
    deeds: str
    facts: tuple[tuple[str, str], ...]
    declared: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    files: tuple[FileLink, ...]
    again: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the comparing table: the value in words, and its confidence if it has one."""

    text: str
    sure: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A line of the comparing table."""

    title: str
    cells: tuple[Cell, ...]


def _sizes(log: IoLog) -> str:
    """The request sizes of a log: one, or from the least to the largest."""
    least, most = int(log.size.min()), int(log.size.max())
    return format_size(most) if least == most else f"{format_size(least)} to {format_size(most)}"


def _count(number: int, op: Op) -> str:
    """``256 reads``, ``1 write``."""
    return f"{format_count(number)} {_OPS[op][0 if number == 1 else 1]}"


def _operations(column: U8) -> list[Op]:
    """The operations in a column, in the order of their numbers."""
    return [Op(number) for number in np.flatnonzero(np.bincount(column)).tolist()]


def _run_words(step: Step) -> str:
    """A run of I/O in words: what, how large, where, how many at once."""
    log = step.rows
    parts = []
    for op in _operations(log.op):
        rows = log.only(op)
        if op is Op.FLUSH:
            parts.append(_count(len(rows), op))
            continue
        if op is Op.RESET_ZONE and not rows.size.any():
            parts.append("a reset of all zones")
            continue
        parts.append(f"{_count(len(rows), op)} of {_sizes(rows)} {_between(rows)}")
    depth = step.params.get("depth", 1)
    at_once = "one at a time" if depth == 1 else f"{depth} at once"
    return ", ".join(parts) + f", {at_once}" if parts else "nothing"


def _between(rows: IoLog) -> str:
    """The addresses of requests in words; one address where both ends are written alike."""
    first = format_size(int(rows.offset.min()))
    last = format_size(int((rows.offset + rows.size).max()))
    return f"at {first}" if first == last else f"between {first} and {last}"


def _on_off(value: JsonScalar) -> str:
    """A setting in words."""
    return {True: "on", False: "off"}.get(value, "not known") if isinstance(value, bool) else "not known"


def _settings_words(params: Mapping[str, JsonScalar]) -> str:
    """The settings in force, in words."""
    text = f"write cache {_on_off(params.get('write_cache'))}, look-ahead {_on_off(params.get('look_ahead'))}"
    if isinstance(params.get("scheduler"), bool):
        text += (
            ", commands reordered by the kernel" if params["scheduler"] else ", no scheduler of the kernel"
        )
    if isinstance(params.get("queue_depth"), int):
        text += f", {params['queue_depth']} commands in the drive at once"
    note = params.get("note")
    return f"{text}; {note}" if note else text


def _step_row(step: Step) -> StepRow:
    """A step as a line of "what was done"."""
    log = step.rows
    read, written = step.read_bytes, step.written_bytes
    if step.kind == "pause":
        what = "left alone"
    elif step.kind == "settings":
        what = _settings_words(step.params)
    elif step.kind == "zones":
        what = "zones as the drive reports them"
    elif step.kind == "erase":
        trimmed = "TRIM of all of it" if step.params.get("trimmed") else "no secure erase: left as it was"
        what = "secure erase" if step.params.get("erased") else trimmed
    elif step.kind == "bound":
        what = f"bound of {step.params.get('why')} reached in {step.params.get('step')}: the test ends"
    else:
        what = _run_words(step)
    time_ns = step.device_ns
    return StepRow(
        step.name,
        what,
        format_count(len(log)) if len(log) else DASH,
        format_size(read) if read else DASH,
        format_size(written) if written else DASH,
        format_duration(time_ns) if time_ns else DASH,
    )


def _in_series(steps: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Steps by the name of their line: one each, or, of many, those of a series together."""
    series: dict[str, list[Step]] = {}
    for name, step in zip(series_of(steps), steps, strict=True):
        series.setdefault(name, []).append(step)
    return list(series.items())


def _series_row(name: str, steps: Sequence[Step]) -> StepRow:
    """The line of a series: what its first step did, and the sums of all."""
    first = _step_row(steps[0])
    if len(steps) == 1:
        return first
    read, written = sum(step.read_bytes for step in steps), sum(step.written_bytes for step in steps)
    requests, time_ns = sum(len(step.rows) for step in steps), sum(step.device_ns for step in steps)
    return StepRow(
        name,
        f"{format_count(len(steps))} steps; the first: {first.what}",
        format_count(requests) if requests else DASH,
        format_size(read) if read else DASH,
        format_size(written) if written else DASH,
        format_duration(time_ns) if time_ns else DASH,
    )


def _latency_rows(steps: Sequence[Step]) -> tuple[LatencyRow, ...]:
    """Latency percentiles of each step, or series of steps, and operation."""
    rows = []
    for series, together in _in_series(steps):
        ops = np.concatenate([step.rows.op for step in together])
        latency_ns = np.concatenate([step.rows.latency_ns for step in together])
        present = _operations(ops)
        for op in present:
            of_op_ns = latency_ns[ops == op]
            name = series if len(present) == 1 else f"{series}, {_OPS[op][1]}"
            cells = [format_duration(float(p)) for p in np.percentile(of_op_ns, _PERCENTILES)]
            rows.append(LatencyRow(name, (format_count(len(of_op_ns)), *cells)))
    return tuple(rows)


def _test_view(test: Test, evidence: Evidence, findings: Sequence[Finding], salt: str) -> TestView:
    return TestView(
        test.title,
        test.summary,
        tuple(render_figures(test, evidence, findings, salt)),
        plot_of(evidence, test.axis),
        (
            *(_series_row(name, steps) for name, steps in _in_series(evidence.steps)),
            *(replace(row, what=f"cut short, not used: {row.what}") for row in map(_step_row, evidence.cut)),
        ),
        _latency_rows(evidence.steps),
    )


def _totals(evidence: Sequence[Evidence]) -> tuple[int, int, int, int]:
    """Requests, bytes read, bytes written, device time (ns) of all steps, also of those cut short."""
    steps = [step for kept in evidence for step in kept.done]
    return (
        sum(len(step.rows) for step in steps),
        sum(step.read_bytes for step in steps),
        sum(step.written_bytes for step in steps),
        sum(step.device_ns for step in steps),
    )


def _deeds(result: SuiteResult, requests: int, written: int) -> str:
    """The sentence that opens "what was done"."""
    cut = _may_have_written_more(result)
    if not cut and not requests:
        return "Nothing: no request reached the drive."
    if not cut and not written:
        return "Only reads. Nothing was written to it."
    tail = "" if result.target.kind == "sim" else " The data in those places was overwritten."
    if result.target.declared.get("preserved") is True:
        tail = " The data in those places is put back at the end of the run (--preserve)."
    if cut:
        return (
            f"Reads, and writes of at least {format_size(written)}: a step was cut short, and what was under"
            f" way then is not known.{tail}"
        )
    return f"Reads, and writes of {format_size(written)} in all.{tail}"


def _may_have_written_more(result: SuiteResult) -> bool:
    """Whether a step was cut short in a run that was allowed to write."""
    return bool(result.options.get("writes")) and any(kept.cut for kept in result.evidence)


def _facts(result: SuiteResult, totals: tuple[int, int, int, int]) -> tuple[tuple[str, str], ...]:
    """Figures of the run."""
    requests, read, written, time_ns = totals
    clock = "Device time, virtual" if result.target.kind == "sim" else "Device time"
    return (
        ("Requests", format_count(requests)),
        ("Read", format_size(read)),
        ("Written", f"{'at least ' if _may_have_written_more(result) else ''}{format_size(written)}"),
        (clock, format_duration(time_ns)),
        *_longest(result.evidence),
        *_slow_starts(result.evidence),
    )


def _runs(evidence: Sequence[Evidence]) -> list[tuple[str, Step]]:
    """The steps that sent requests, each with the title of its test."""
    titles = {test.name: test.title for test in ALL_TESTS}
    return [(titles[kept.test], step) for kept in evidence for step in kept.steps if len(step.rows)]


def _longest(evidence: Sequence[Evidence]) -> list[tuple[str, str]]:
    """The request that took longest of all, and where."""
    runs = _runs(evidence)
    if not runs:
        return []
    title, step = max(runs, key=lambda run: int(run[1].rows.latency_ns.max()))
    row = int(step.rows.latency_ns.argmax())
    what = _OPS[Op(int(step.rows.op[row]))][0]
    depth = step.params.get("depth", 1)
    if depth != 1:
        what += f", one of {depth} at once"
    return [("Longest wait", f"{format_duration(float(step.rows.latency_ns[row]))}, a {what} ({title})")]


def _slow_starts(evidence: Sequence[Evidence]) -> list[tuple[str, str]]:
    """How many runs began with a request that took as long as a drive takes to wake up."""
    firsts = [float(step.rows.latency_ns[0]) for _, step in _runs(evidence) if _starts_slowly(step)]
    if not firsts:
        return []
    longest = format_duration(max(firsts))
    return [
        ("Slow starts", f"{format_counted(len(firsts), 'run')} began with one request of up to {longest}")
    ]


def _starts_slowly(step: Step) -> bool:
    """Whether the first request of a run took `WAKE_NS` or longer, and none after it did."""
    latency_ns = step.rows.latency_ns
    return len(latency_ns) > 1 and latency_ns[0] >= WAKE_NS and latency_ns[1:].max() < WAKE_NS


def _recorded(recording: Path) -> str | None:
    """When a real target was recorded; an emulated drive has no date."""
    value = json.loads((recording / HEADER).read_text(encoding="utf-8")).get("recorded")
    return value if isinstance(value, str) else None


def _declared(result: SuiteResult, recording: Path) -> tuple[tuple[str, str], ...]:
    """What the target is and says of itself, and the seed that picked the places."""
    target = result.target
    part = ByteRange.declared_by(target.declared)
    whole = target.size_bytes if part is None else part.whole
    pairs = [
        ("Capacity", f"{format_capacity(whole)} ({format_count(whole)} B)"),
        *([] if part is None else [("Range that was probed", f"{part.words} ({format_size(part.size)})")]),
        ("Logical block", format_size(target.block_bytes)),
        ("Seed of the run", str(result.seed)),
    ]
    recorded = _recorded(recording)
    if recorded is not None:
        pairs.append(("Recorded", recorded))
    words = {True: "yes", False: "no", None: "not reported"}
    ends = {} if part is None else part.declared()
    for name, value in sorted((name, value) for name, value in target.declared.items() if name not in ends):
        text = words[value] if value is None or isinstance(value, bool) else str(value)
        if name == "write_cache" and not isinstance(value, str):
            text = _on_off(value)
        if name.endswith("sha256"):
            text = text[:16] + "\N{HORIZONTAL ELLIPSIS}"
        title = name.replace("_", " ").replace("sha256", "SHA-256")
        pairs.append((title[:1].upper() + title[1:], text or "not reported"))
    return tuple(pairs)


def _files(recording: Path, page_dir: Path) -> tuple[FileLink, ...]:
    """The recording's files, as links from the page."""
    base = os.path.relpath(recording, page_dir)
    return tuple(
        FileLink(quote(os.fsencode(f"{base}/{file.name}")), file.name, format_size(file.stat().st_size))
        for file in sorted(recording.iterdir())
        if file.is_file() and not file.name.startswith(".")
    )


def target_view(result: SuiteResult, recording: Path, page_dir: Path, number: int) -> TargetView:
    """The view of one target; ``recording`` is its directory, ``page_dir`` the directory of the page."""
    found = {finding.name: finding for finding in result.findings}
    tests = {test.name: test for test in ALL_TESTS}
    seen = verdict(found, result.target.declared, raw=is_raw_shingled(result.target))
    totals = _totals(result.evidence)
    target, part = result.target, ByteRange.declared_by(result.target.declared)
    capacity = format_capacity(target.size_bytes if part is None else part.whole)
    size = capacity if part is None else f"{part.words} of {capacity}"
    base = os.path.relpath(recording, page_dir)
    return TargetView(
        anchor=f"target-{number}",
        name=target.name,
        label=f"{target.name}, {size}, {_KINDS.get(target.kind, target.kind)}",
        capacity=size,
        verdict=seen,
        limits=limits(Known(result.findings)),
        lasting=lasting(Known(result.findings)),
        sure=confidence_words(seen.confidence),
        findings=finding_rows(result.findings),
        claims=claims_of(result),
        tests=tuple(
            _test_view(tests[kept.test], kept, result.findings, f"{number}/{kept.test}")
            for kept in result.evidence
        ),
        deeds=_deeds(result, totals[0], totals[2]),
        facts=_facts(result, totals),
        declared=_declared(result, recording),
        notes=tuple(dict.fromkeys(result.notes)),
        files=_files(recording, page_dir),
        again=shlex.quote(one_line(f"recording:{base}")),
    )


def compare(views: Sequence[TargetView]) -> tuple[Comparison, ...]:
    """The comparing table: the verdict, which holds the type, what each keeps up, then each other finding
    that any target has, in the order they first appear."""
    names = dict.fromkeys(row.name for view in views for row in view.findings if row.name != "drive_type")
    verdicts = (view.verdict for view in views)
    lines = [Comparison("Verdict", tuple(Cell(each.short, each.confidence) for each in verdicts))]
    if any(view.lasting for view in views):
        cells = [Cell(view.lasting or DASH, None) for view in views]
        lines.append(Comparison("Random writes that do not stop", tuple(cells)))
    for name in names:
        cells = []
        for view in views:
            row = next((row for row in view.findings if row.name == name), None)
            cells.append(
                Cell(DASH, None) if row is None else Cell(row.value, row.confidence if row.known else None)
            )
        lines.append(Comparison(finding_title(name), tuple(cells)))
    lines.append(Comparison("Capacity", tuple(Cell(view.capacity, None) for view in views)))
    for title in ("Requests", "Written"):
        cells = [Cell(dict(view.facts)[title], None) for view in views]
        lines.append(Comparison(title, tuple(cells)))
    return tuple(lines)
