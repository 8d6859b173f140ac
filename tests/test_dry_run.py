"""What a dry run prints of each test holds: no recorded command of a probe lies outside of it."""

import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from skylight.byte_range import AskedRange, ByteRange
from skylight.cli.plan import print_ranges
from skylight.engines.ranged import confined
from skylight.engines.sim import SimEngine
from skylight.evidence import Evidence, Op
from skylight.probe.known_state import in_resets
from skylight.probe.suite import ALL_TESTS, SuiteOptions, chosen, run_suite
from skylight.probe.zoned import PART, is_filled, model_of

DRIVES = (
    "emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st4000nc001", "st5000as0011", "st8000as0011",
    "st8000as0022",
)  # fmt: skip
WRITES = [int(op) for op in Op if "WRITE" in op.name or op.name == "APPEND"]
GIB = 1 << 30
PART_OF = AskedRange(100 * GIB, 140 * GIB)
Span = tuple[int, int] | None
"""First and last byte; None for none."""


def printed(out: str) -> dict[str, tuple[Span, Span]]:
    """The ranges of each row: read, written."""

    def span(words: str) -> Span:
        found = re.search(r"([\d,]+) to ([\d,]+)", words)
        return (int(found[1].replace(",", "")), int(found[2].replace(",", ""))) if found else None

    titles = {test.title: test.name for test in ALL_TESTS} | {"Reset": "reset"}
    rows = {}
    for line in out.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if len(cells) == 3 and cells[0] in titles:
            rows[titles[cells[0]]] = (span(cells[1]), span(cells[2]))
    return rows


def outside(evidence: Evidence, start: int, rows: dict[str, tuple[Span, Span]]) -> list[str]:
    """The steps with a command that no row allows; `start` is where the addresses of the recording count
    from."""
    resets = {step.name for reset in in_resets(evidence.steps) for step in reset}
    begin = start
    part = next((step for step in evidence.steps if step.name == PART), None)
    if part is not None:  # of a zoned drive: addresses count from its first zone with a write pointer
        begin += int(part.params["first"] or 0) * int(part.params["zone_bytes"] or 0)
    wrong = []
    for step in (*evidence.steps, *evidence.cut):
        rows_of = rows.get("reset" if step.name in resets else evidence.test, (None, None))
        for is_write, span in enumerate(rows_of):
            which = np.isin(step.rows.op, WRITES) if is_write else step.rows.op == int(Op.READ)
            if not which.any():
                continue
            low = int(step.rows.offset[which].min()) + begin
            high = int((step.rows.offset[which] + step.rows.size[which]).max()) + begin - 1
            allowed = rows.get("reset", (None, None))[1] if is_filled(step.name) else span
            if allowed is None or low < allowed[0] or high > allowed[1]:
                wrong.append(f"{step.name}: {low:,} to {high:,}, not within {allowed}")
    return wrong


def check(
    drive: str, options: SuiteOptions, part: AskedRange | None, folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with closing(SimEngine.open(drive)) as whole:
        engine = whole if part is None else confined(whole, part)
        facts = engine.describe()
        tests = chosen(options.only, quick=options.quick, model=model_of(engine))
        capsys.readouterr()
        print_ranges(facts, engine.can_write, tests, options)
        rows = printed(capsys.readouterr().out)
        declared = ByteRange.declared_by(facts.declared)
        start = 0 if declared is None else declared.start
        for spans in rows.values():
            for span in spans:
                assert span is None or (start <= span[0] and span[1] < start + facts.size_bytes)
        result = run_suite(engine, folder / "run", options)
    assert result.evidence and sum(len(step.rows) for step in result.evidence[0].steps) > 100
    for kept in result.evidence:
        wrong = outside(kept, start, rows)
        assert not wrong, f"{drive}, {kept.test}: {wrong}"


@pytest.mark.parametrize(
    ("drive", "part"),
    # A drive with zones takes no --range.
    [*((drive, None) for drive in DRIVES), *((drive, PART_OF) for drive in DRIVES[:-1])],
)
def test_a_quick_probe_keeps_to_what_a_dry_run_prints(
    drive: str, part: AskedRange | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(drive, SuiteOptions(quick=True), part, tmp_path, capsys)


@pytest.mark.long
@pytest.mark.parametrize("drive", DRIVES)
def test_a_probe_keeps_to_what_a_dry_run_prints(
    drive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(drive, SuiteOptions(), None, tmp_path, capsys)


def test_a_command_outside_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a test that writes nothing, by its row, no write is in the evidence of one that does."""
    with closing(SimEngine.open("emulated-smr-1")) as engine:
        print_ranges(engine.describe(), True, chosen(("rotation",)), SuiteOptions())
        rows = printed(capsys.readouterr().out)
        assert rows["rotation"][1] is None and rows["drive_type"][1] is not None
        (kept,) = run_suite(engine, tmp_path / "run", SuiteOptions(quick=True)).evidence
    assert outside(kept, 0, rows) == []
    assert outside(kept, 0, {**rows, "drive_type": rows["rotation"]})
    assert outside(kept, 8 << 40, rows)
