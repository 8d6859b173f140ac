"""What a real ST8000AS0022 did: readers of the recordings beside the repository.

Each recording is a gzipped CSV with a header; `write` numbers the writes, which were done one at a time.
`zone` and `lba_offset` (blocks of 512 bytes from the zone's start) are not kept of every run.

Invariant: nothing is resampled or left out; a column that a recording has not is None.

Source: the READMEs of `st8000as0022-open-zones` and `st8000as0022-sustained-nonseq`.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from skylight.errors import UsageError
from skylight.evidence import F64, I64
from skylight.reproduce.from_fio_logs import data_folder, recording_folder

OPEN_ZONES = "st8000as0022-open-zones"
SUSTAINED = "st8000as0022-sustained-nonseq"
SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Writes:
    """Lone writes in their order: the latency of each (ns), and where it is kept zone, offset in the zone and
    size (bytes)."""

    latency_ns: I64
    zone: I64 | None = None
    offset_bytes: I64 | None = None
    size_bytes: I64 | None = None

    def __len__(self) -> int:
        """Number of writes."""
        return len(self.latency_ns)


def _columns(folder: str, name: str) -> Mapping[str, list[str]]:
    """The columns of a recording, as text."""
    path = recording_folder(folder) / name
    try:
        with (
            gzip.open(path, "rt", encoding="ascii")
            if path.suffix == ".gz"
            else path.open("rt", encoding="ascii")
        ) as file:
            head, *rows = list(csv.reader(file))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be read; set SKYLIGHT_DATA to the folder of the recordings"
        ) from error
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


def _whole(column: list[str]) -> I64:
    return np.array(column, np.float64).round().astype(np.int64)


def _writes(columns: Mapping[str, list[str]], size_bytes: int) -> Writes:
    """The writes of a recording whose I/Os are of one size but where `sectors` or `bytes` says otherwise."""
    if "latency_us" in columns:
        latency_ns = (np.array(columns["latency_us"], np.float64) * 1e3).round().astype(np.int64)
    else:  # bytes over megabytes a second are microseconds
        latency_ns = (size_bytes / np.array(columns["mbps"], np.float64) * 1e3).round().astype(np.int64)
    if "lba_offset" not in columns:
        return Writes(latency_ns)
    if "sectors" in columns:
        size = _whole(columns["sectors"]) * SECTOR_BYTES
    elif "bytes" in columns:
        size = _whole(columns["bytes"])
    else:
        size = np.full(len(latency_ns), size_bytes, np.int64)
    return Writes(latency_ns, _whole(columns["zone"]), _whole(columns["lba_offset"]) * SECTOR_BYTES, size)


@cache
def bursts(kind: str, size_kib: int) -> Mapping[int, Writes]:
    """The runs of the open-zone test of one kind and I/O size, by the number of zones."""
    columns = _columns(OPEN_ZONES, f"writes_{kind}_{size_kib}k.csv.gz")
    zones = _whole(columns["zones"])
    runs: dict[int, Writes] = {}
    for count in np.unique(zones).tolist():
        rows = np.flatnonzero(zones == count)
        own = {name: [column[row] for row in rows] for name, column in columns.items()}
        runs[count] = _writes(own, size_kib << 10)
    return runs


@cache
def sustained(name: str) -> Writes:
    """A run of non-sequential writes of 512 KiB, by the stem of its file."""
    return _writes(_columns(SUSTAINED, f"{name}.csv.gz"), 512 << 10)


@cache
def counts(name: str) -> tuple[I64, I64]:
    """The number of non-sequential zones over the samples at which it changed: sample and count."""
    columns = _columns(SUSTAINED, f"{name}.csv")
    return _whole(columns["sample"]), _whole(columns["nonseq_zones"])


def there() -> bool:
    """Whether the recordings are there."""
    return all((data_folder() / folder).is_dir() for folder in (OPEN_ZONES, SUSTAINED))


def mbps(size_bytes: int, latency_ns: I64) -> F64:
    """The throughput of each write by its own latency, MB/s, as the recordings print it."""
    return size_bytes * 1e3 / np.maximum(latency_ns, 1)
