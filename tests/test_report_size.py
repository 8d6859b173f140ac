"""A page of one drive stays below 2 MB: it is mailed, and opened on a telephone."""

import json
from pathlib import Path

import numpy as np
import pytest

from skylight.engines.sim import SimEngine
from skylight.evidence import Evidence, IoBatch, IoLog, Step, TargetFacts
from skylight.probe.suite import TESTS, ZONED_TESTS, SuiteOptions, run_suite
from skylight.report.html import write_report
from skylight.report.plots import MOST_MARKS, plot_of

MOST_BYTES = 2_000_000


def test_the_plots_of_all_tests_take_at_most_half_of_a_page(rng: np.random.Generator) -> None:
    rows = 3 * MOST_MARKS
    batch = IoBatch.reads(rng.integers(0, 1 << 43, rows), 4096)
    complete_ns = np.cumsum(rng.integers(1 << 20, 1 << 30, rows, dtype=np.uint64), dtype=np.uint64)
    submit_ns = np.concatenate([np.zeros(1, np.uint64), complete_ns[:-1]])
    steps = [Step(f"step-{n}", "run", {}, IoLog.of(batch, submit_ns, complete_ns)) for n in range(20)]
    plot = plot_of(Evidence("journal", TargetFacts("sim", "sim:x", 1 << 44, 512), steps))
    assert plot is not None
    each = len(json.dumps(plot.data))
    assert each > 20 * MOST_MARKS, "all its marks are there"
    assert each * len((*TESTS, *ZONED_TESTS)) < MOST_BYTES / 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["st8000as0022", "st5000as0011", "emulated-smr-1"])
def test_the_page_of_a_whole_probe_is_below_2_mb(name: str, tmp_path: Path) -> None:
    """The host-aware drive is asked all fourteen tests."""
    result = run_suite(SimEngine.open(name), tmp_path / "recording", SuiteOptions())
    page = write_report([(result, tmp_path / "recording")], tmp_path)
    assert 500_000 < page.stat().st_size < MOST_BYTES
