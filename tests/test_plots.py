"""The zoomable plots: which requests they show, that no outlier is lost, and that a browser draws them."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skylight.evidence import Evidence, IoBatch, IoLog, Op, Step, TargetFacts
from skylight.findings import Finding
from skylight.probe.suite import SuiteResult
from skylight.report.html import render_report
from skylight.report.plots import MOST_MARKS, SLOWEST_PART, plot_of, shares, thinned

TARGET = TargetFacts("sim", "sim:a-drive", 20_000_000_000_000, 512)


def step(name: str, latency_ns: NDArray[np.int64], op: Op = Op.WRITE, first: int = 0) -> Step:
    """Requests one after the other, all over the drive."""
    offsets = (
        np.arange(len(latency_ns), dtype=np.uint64) * np.uint64(4096 * 7919) % np.uint64(TARGET.size_bytes)
    )
    complete = np.cumsum(latency_ns.astype(np.uint64), dtype=np.uint64) + np.uint64(first)
    log = IoLog.of(IoBatch.make(op, offsets, 4096), complete - latency_ns.astype(np.uint64), complete)
    return Step(name, "run", {"depth": 1}, log)


def evidence(*steps: Step, test: str = "journal") -> Evidence:
    return Evidence(test, TARGET, list(steps), complete=True)


def column(given: object) -> NDArray[np.float64]:
    """A column of the page as numbers."""
    assert isinstance(given, dict)
    packed = np.frombuffer(base64.b64decode(given["data"]), dtype="<u4")
    return np.asarray(packed * float(given["unit"]), dtype=np.float64)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=80), st.integers(2, 9000))
def test_steps_share_the_marks(lengths: list[int], most: int) -> None:
    given_ = shares(lengths, most)
    assert all(0 < share <= length for share, length in zip(given_, lengths, strict=True))
    assert sum(given_) <= max(most, 2 * len(lengths))
    if sum(lengths) <= most:
        assert given_ == lengths
    cut = [share for share, length in zip(given_, lengths, strict=True) if share < length]
    assert not cut or max(cut) - min(cut) <= 1, "long steps alike"


@given(st.integers(1, 2000), st.integers(2, 300), st.integers(0, 2**32 - 1))
def test_what_is_left_out_lies_between_what_is_shown(rows: int, most: int, seed: int) -> None:
    latency = np.random.default_rng(seed).integers(1, 50, rows) * 1_000_000
    kept = thinned(latency, most)
    assert len(kept) <= max(most, 2) and np.all(np.diff(kept) > 0)
    if rows <= most:
        assert len(kept) == rows
        return
    shown = np.zeros(rows, bool)
    shown[kept] = True
    runs = max(1, (most - most // SLOWEST_PART) // 2)
    run_of = np.arange(rows) * runs // rows
    for number in range(runs):
        run = np.flatnonzero(run_of == number)
        assert latency[run].min() == latency[run][shown[run]].min()
        assert latency[run].max() == latency[run][shown[run]].max()
    slowest = np.sort(latency)[rows - most // SLOWEST_PART :]
    assert np.array_equal(np.sort(latency[kept])[len(kept) - len(slowest) :], slowest)


def test_no_outlier_is_lost_among_two_hundred_thousand(rng: np.random.Generator) -> None:
    latency = rng.integers(9_000_000, 11_000_000, 200_000)
    odd = rng.choice(200_000, 300, replace=False)
    latency[odd] = rng.integers(200_000_000, 900_000_000, 300)
    plot = plot_of(evidence(step("many", latency), step("few", latency[:64], Op.READ)))
    assert plot is not None
    number, shown = column(plot.data["number"]), column(plot.data["latency_ns"])
    assert len(shown) <= MOST_MARKS
    assert set(odd + 1) <= set(number.astype(int))
    assert plot.data["runs"] == [[0, len(shown) - 64], [1, 64]], "a short step is whole"
    assert " of 200,064 are shown" in plot.caption and "no outlier is missing" in plot.caption


def test_the_columns_are_those_of_the_log(rng: np.random.Generator) -> None:
    latency = rng.integers(100_000, 7_000_000_000, 500)
    one, other = step("a", latency), step("b", latency[:10], Op.READ, first=9_000_000_000_000)
    plot = plot_of(evidence(one, Step("rest", "pause", {"seconds": 5}), other))
    assert plot is not None
    log = IoLog.joined([one.rows, other.rows])
    assert "number" not in plot.data, "all are there"
    for name, values in (
        ("latency_ns", log.latency_ns),
        ("time_ns", log.submit_ns - log.submit_ns[0]),
        ("address", log.offset),
    ):
        exact = values.astype(np.float64)
        assert np.abs(column(plot.data[name]) - exact).max() <= exact.max() * 2.4e-9, name
    assert base64.b64decode(str(plot.data["ops"])) == log.op.tobytes()
    assert plot.data["groups"] == ["a", "b"]


def test_many_steps_are_chosen_by_their_series() -> None:
    latency = np.full(3, 1_000_000)
    steps = [step(f"tracks-{n:03d}", latency) for n in range(200)] + [step("profile", latency)]
    plot = plot_of(evidence(*steps, test="zones"), "address")
    assert plot is not None
    assert plot.data["groups"] == ["tracks", "profile"] and plot.data["axis"] == "address"


def test_a_test_without_requests_has_no_plot() -> None:
    assert plot_of(evidence(Step("rest", "pause", {"seconds": 5}))) is None


def page_of(folder: Path) -> Path:
    """A page with plots of all operations, one of them thinned out, beside its recording."""
    recording = folder / "recording"
    recording.mkdir()
    (recording / "recording.json").write_text("{}")
    latency = np.full(20_000, 10_000_000)
    latency[777] = 800_000_000
    kept = [
        evidence(step("w", latency), step("r", latency[:100], Op.READ), step("f", latency[:9], Op.FLUSH)),
        evidence(step("</script><s>", latency[:50], Op.TRIM), test="zones"),
    ]
    findings = [Finding("drive_type", "cmr", None, None, 0.9, "as given")]
    page = folder / "report.html"
    page.write_text(render_report([(SuiteResult(TARGET, kept, findings, 1), recording)], folder))
    return page


def test_a_browser_draws_the_plots_under_the_policy(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    browser = need_tool("chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    home = ["--user-data-dir=" + str(tmp_path / "profile"), "--virtual-time-budget=4000"]
    done = subprocess.run(
        [browser, *flags, *home, "--window-size=420,20000", page_of(tmp_path).as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert said == [], "errors, or what the policy refused"
    plots = re.findall(r'<figure class="plot">.*?</figure>', done.stdout, re.DOTALL)
    assert len(plots) == 2 and "hidden" not in plots[0].split(">")[0]
    assert all("<canvas" in plot for plot in plots)
    assert '<option value="1">r</option>' in plots[0] and "<s>" not in plots[1]
    keys = re.findall(r'<span data-op="(\d)"( hidden="")?>', plots[0])
    assert keys == [("0", ""), ("1", ""), ("2", ""), ("3", ' hidden=""')]
