"""Evidence, findings and errors: the shapes that everything passes around."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skylight.errors import KeepError, SkylightError, TargetError, UsageError
from skylight.evidence import (
    EMPTY_LOG,
    LOG_COLUMNS,
    Evidence,
    IoBatch,
    IoLog,
    Op,
    SettingsReport,
    Step,
    Stop,
    TargetFacts,
)
from skylight.findings import UNKNOWN, Finding, findings_json


def a_log(count: int, start_ns: int = 0) -> IoLog:
    submit = np.arange(start_ns, start_ns + count * 1000, 1000, dtype=np.uint64)
    return IoLog.of(IoBatch.reads(np.arange(count) * 4096, 4096), submit, submit + np.uint64(300))


def test_batches_have_the_documented_types() -> None:
    batch = IoBatch.writes([0, 4096, 1 << 44], 4096)
    assert len(batch) == 3
    assert [str(c.dtype) for c in (batch.op, batch.offset, batch.size)] == ["uint8", "uint64", "uint32"]
    assert set(batch.op.tolist()) == {Op.WRITE}
    assert batch.offset[2] == 1 << 44
    assert batch.part(1, 2).offset.tolist() == [4096]


def test_a_flush_follows_each_write() -> None:
    batch = IoBatch.flushed_writes([8192, 4096], 4096)
    assert batch.op.tolist() == [Op.WRITE, Op.FLUSH, Op.WRITE, Op.FLUSH]
    assert batch.offset.tolist() == [8192, 0, 4096, 0]
    assert batch.size.tolist() == [4096, 0, 4096, 0]


def test_columns_of_different_length_are_refused() -> None:
    column = np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="differ in length"):
        IoBatch(column, np.zeros(3, np.uint64), np.zeros(2, np.uint32))


def test_latency_is_signed_nanoseconds() -> None:
    log = a_log(4)
    assert log.latency_ns.tolist() == [300] * 4
    assert log.latency_ns.dtype == np.int64


def test_logs_join_in_order_and_compare_by_value() -> None:
    whole = a_log(5)
    first = IoLog(*(getattr(whole, name)[:2] for name in LOG_COLUMNS))
    rest = IoLog(*(getattr(whole, name)[2:] for name in LOG_COLUMNS))
    assert IoLog.joined([first, rest]).equals(whole)
    assert not IoLog.joined([rest, first]).equals(whole)
    assert IoLog.joined([]).equals(EMPTY_LOG)
    assert len(whole.only(Op.WRITE)) == 0


def test_evidence_finds_its_steps() -> None:
    facts = TargetFacts("sim", "sim:x", 1 << 30, 512)
    evidence = Evidence("drive_type", facts, [Step("reads", "run", {}, a_log(2)), Step("rest", "pause")])
    assert len(evidence.log("reads")) == 2
    assert len(evidence.log("rest")) == 0
    assert evidence.step("absent") is None
    assert SettingsReport(False, None).params() == {"write_cache": False, "look_ahead": None, "note": ""}


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 2), (TargetError, 3), (KeepError, 4), (SkylightError, 1)]
)
def test_errors_are_one_line_with_an_exit_code(kind: type[SkylightError], code: int) -> None:
    error = kind("two\nlines  and\ttabs")
    assert str(error) == "two lines and tabs"
    assert str(kind("\x1b[31m \udcff")) == "\\x1b[31m \\udcff"
    assert error.exit_code == code


def test_json_of_findings_has_the_shape_that_the_report_documents() -> None:
    facts = TargetFacts("sim", "sim:x", 1 << 30, 512, {"model": "x"})
    found = [
        Finding("drive_type", "smr", None, None, 0.99512345, "because", ("reads",)),
        Finding("rotation_ns", 10_170_000, "ns", (10_160_000, 10_180_000), 0.9, "measured"),
        Finding("cache_medium", UNKNOWN, None, None, 0.0, "not seen"),
    ]
    value = json.loads(json.dumps(findings_json(facts, found), allow_nan=False))
    assert value["schema"] == 1
    assert value["findings"]["drive_type"] == {
        "value": "smr", "unit": None, "interval": None, "confidence": 0.9951, "why": "because",
    }  # fmt: skip
    assert value["findings"]["rotation_ns"]["interval"] == [10_160_000, 10_180_000]
    assert not found[2].known


class TestStop:
    def test_counts_among_the_last_in_the_order_of_completion(self) -> None:
        complete = np.array([10, 40, 20, 30], np.uint64)
        log = IoLog(
            np.zeros(4, np.uint8), np.zeros(4, np.uint64), np.full(4, 512, np.uint32),
            np.zeros(4, np.uint64), complete,
        )  # fmt: skip
        assert Stop(30, 2, 2).reached(log)
        assert not Stop(30, 3, 3).reached(log)
        assert Stop(30, 2, 2).after(log) == Stop(30, 1, 2) and Stop(99, 2, 2).after(log) == Stop(99, 2, 2)
        assert Stop(99, 2, 2, alone_ns=40).reached(log) and not Stop(99, 2, 2, alone_ns=41).reached(log)
        assert Stop(40).reached(log) and not Stop(41).reached(log)
        assert not Stop(0).reached(IoLog.joined([]))

    @pytest.mark.parametrize("numbers", [(1, 0, 1), (1, 2, 1), (1, 1, 65), (-1, 1, 1)])
    def test_a_condition_that_makes_no_sense_is_refused(self, numbers: tuple[int, int, int]) -> None:
        with pytest.raises(ValueError, match="not a stop"):
            Stop(*numbers)
