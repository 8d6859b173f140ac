"""Recordings of a quick run on a drive that is made up, and what spoils them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fake_drives import FakeDrive, Traits
from skylight.errors import UsageError
from skylight.evidence import Evidence
from skylight.probe.suite import SuiteOptions, SuiteResult, infer_suite, run_suite
from skylight.recording import HEADER

PART = "drive_type.0.arrows"
KIND = Traits(kind="set-associative", outlier_rate=0.005, jitter=0.01)
QUICK = SuiteOptions(seed=3, quick=True)
RESUME = SuiteOptions(seed=3, quick=True, resume=True)


def probe(out: Path, options: SuiteOptions = QUICK, drive: FakeDrive | None = None) -> SuiteResult:
    return run_suite(drive or FakeDrive(KIND), out, options)


def same(one: Evidence, other: Evidence) -> bool:
    return [(s.name, s.kind, dict(s.params)) for s in one.steps] == [
        (s.name, s.kind, dict(s.params)) for s in other.steps
    ] and all(a.rows.equals(b.rows) for a, b in zip(one.steps, other.steps, strict=True))


def refused(path: Path) -> str:
    """The one line with which reading `path` is refused."""
    with pytest.raises(UsageError) as caught:
        infer_suite(path)
    text = str(caught.value)
    assert "\n" not in text and str(path) in text and text.count(";") + text.count(":") >= 1
    return text


def header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((path / HEADER).read_text())
    change(value)
    (path / HEADER).write_text(json.dumps(value))


def rewritten(
    path: Path, change: Callable[[list[pa.RecordBatch], list[Any]], None], **columns: pa.Array
) -> None:
    """Reads a part with plain pyarrow, lets `change` spoil batches and markers, writes it back."""
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        schema = stream.schema
        pairs = list(stream.iter_batches_with_custom_metadata())
    batches, markers = [b for b, _ in pairs], [m for _, m in pairs]
    without(markers, "check")  # as a recording of before markers had one
    change(batches, markers)
    schema = batches[0].schema.with_metadata(schema.metadata) if batches else schema
    with path.open("wb") as file, pa.ipc.new_stream(file, schema) as out:
        for batch, marker in zip(batches, markers, strict=True):
            out.write_batch(batch.cast(schema), custom_metadata=marker)


def replaced(batch: pa.RecordBatch, name: str, column: object) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(
        index, batch.schema.field(index), pa.array(column, batch.schema.field(index).type)
    )


def first_rows(batches: list[pa.RecordBatch]) -> int:
    return next(i for i, batch in enumerate(batches) if batch.num_rows)


def without(markers: list[Any], key: str) -> None:
    for i, marker in enumerate(markers):
        value = json.loads(dict(marker)[b"skylight"])
        value.pop(key, None)
        markers[i] = {b"skylight": json.dumps(value).encode()}


def without_check_sums(markers: list[Any]) -> None:
    """What a writer that keeps no check sum of rows leaves out; it is optional."""
    without(markers, "crc32")
