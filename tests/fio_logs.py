"""Logs as fio writes them, made of latencies: by version, columns and unit. For tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skylight._native import SimDrive

BLOCK = 4096
GAP_NS = 7_000


def log_text(
    latency_ns: ArrayLike,
    offset: Sequence[int] | NDArray[np.int64] | None = None,
    *,
    unit_ns: int = 1,
    tail: str = ", 0",
    gap_ns: int = GAP_NS,
    direction: int = 0,
) -> str:
    """A log of I/Os one after the other; `tail` is what follows the offset (priority, issue time)."""
    latency = np.asarray(latency_ns, dtype=np.int64)
    time_ms = np.cumsum(latency + gap_ns) // 1_000_000
    places = [""] * len(latency) if offset is None else [f", {place}" for place in offset]
    rows = zip(time_ms, latency // unit_ns, places, strict=True)
    return "".join(f"{at}, {value}, {direction}, {BLOCK}{place}{tail}\n" for at, value, place in rows)


def in_order(count: int, start: int = 0) -> NDArray[np.int64]:
    """Offsets of `count` blocks in address order."""
    return np.arange(count, dtype=np.int64) * BLOCK + start


def simulated_reads(
    toml: str, start: int, count: int, *, fragmented: bool = True, seed: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Skylight's Test 2 on an emulated drive: offsets and latencies (ns) of the reads, in order."""
    drive = SimDrive(toml, "fio", seed)
    drive.set_write_cache(False)
    drive.set_look_ahead(False)
    offset = in_order(count, start)

    def run(op: int, where: NDArray[np.int64]) -> NDArray[np.int64]:
        places = np.ascontiguousarray(where, dtype=np.uint64)
        ops, sizes = np.full(len(where), op, np.uint8), np.full(len(where), BLOCK, np.uint32)
        submit, complete = drive.run(ops, places, sizes, 1)
        return (complete - submit).astype(np.int64)

    if fragmented:
        run(1, offset[1::2])
    return offset, run(0, offset)


def write_log(folder: Path, name: str, text: str) -> Path:
    """A log file in a folder."""
    path = folder / name
    path.write_text(text)
    return path
