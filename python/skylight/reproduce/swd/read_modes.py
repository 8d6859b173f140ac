"""Row W2: the three read modes, through a real block device.

A random disk of `oracle` is served and attached to the kernel, written at random, and read back in each mode:
every block that was written or destroyed, and its neighbours. The expected data of each sector follows from
the oracle alone: the address and the write that its data comes from.

* data-centric: the data on the medium, of the sector itself or of the one that overwrote it;
* performance-centric: the sector's own data, or a fill pattern;
* development-centric: an error for a block with an overwritten sector. The kernel reads whole blocks, so this
  check has block granularity; the tests of the server check single sectors.

Invariant: the expectation shares no code with the layer or the server.

Source: UCSC-SSRC-12-05, section 3.2.3.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from skylight import _native
from skylight.evidence import I64
from skylight.reproduce.rows import Measured, NotMeasured
from skylight.reproduce.swd import oracle
from skylight.reproduce.swd.attached_drive import disk
from skylight.reproduce.swd.layer_benchmark import Tool

SECTOR, BLOCK = 512, 4096
IN_BLOCK = BLOCK // SECTOR
PIECE = 128
"""Sectors in a write, at most."""
SEED = 2
NAMES = {
    "data": "data-centric, blocks that differ",
    "performance": "performance-centric, blocks that differ",
    "development": "development-centric, blocks that differ",
    "development-performance": "development- and performance-centric, blocks that differ",
}
"""Read modes and their checks."""


def content(write: int, sector: int) -> bytes:
    """The data that a write puts on a sector; write 0 means unwritten."""
    if write == 0:
        return bytes(SECTOR)
    return np.tile(np.array([write, sector], np.int64), SECTOR // 16).tobytes()


def expected(mode: str, block: int, source: I64, by: I64) -> bytes | None:
    """The expected data of a block in a mode; None for an error."""
    sectors = range(block * IN_BLOCK, (block + 1) * IN_BLOCK)
    overwritten = [int(source[sector]) != sector for sector in sectors]
    if any(overwritten) and mode.startswith("development"):
        return None
    lost = bytes(SECTOR)
    return b"".join(
        lost if is_overwritten and mode == "performance" else content(int(by[sector]), int(source[sector]))
        for sector, is_overwritten in zip(sectors, overwritten, strict=True)
    )


def _read(device: int, block: int, memory: mmap.mmap) -> bytes | None:
    """A block, bypassing the page cache; None if it cannot be read."""
    try:
        os.preadv(device, [memory], block * BLOCK)
    except OSError as error:
        if error.errno == errno.EIO:
            return None
        raise
    return memory[:BLOCK]


def _blocks(overwritten: I64, writes: list[tuple[int, int]], whole: int) -> I64:
    """Of `whole` blocks, those written or destroyed, and their neighbours."""
    written = [np.arange(start, start + count) // IN_BLOCK for start, count in writes]
    touched = np.unique(np.concatenate([overwritten, *written]))
    near = np.unique(np.concatenate([touched - 1, touched, touched + 1]))
    return near[(near >= 0) & (near < whole)]


def _writes(random: oracle.RandomDisk) -> list[tuple[int, int]]:
    """Random writes in whole blocks, short enough that the kernel submits each as one request: parts of a
    longer one may reach the drive in any order, and the overwritten sectors depend on the order."""
    pieces = []
    for start, count in oracle.random_writes(random, SEED):
        begin, end = start // IN_BLOCK * IN_BLOCK, -(-(start + count) // IN_BLOCK) * IN_BLOCK
        pieces += [(at, min(PIECE, end - at)) for at in range(begin, end, PIECE)]
    return pieces


def _differences(device_path: Path, control: Path, random: oracle.RandomDisk) -> tuple[dict[str, int], int]:
    """Number of blocks that differ in each mode, and number of blocks with overwritten sectors."""
    writes = _writes(random)
    device = os.open(device_path, os.O_RDWR | os.O_DIRECT)
    try:
        for number, (start, count) in enumerate(writes, 1):
            with mmap.mmap(-1, count * SECTOR) as memory:
                memory[:] = b"".join(content(number, sector) for sector in range(start, start + count))
                os.pwritev(device, [memory], start * SECTOR)
        source, by = oracle.surface_after(random, writes)
        whole = len(source) // IN_BLOCK
        overwritten = np.unique(np.flatnonzero(source != np.arange(len(source))) // IN_BLOCK)
        blocks = _blocks(overwritten, writes, whole)
        wrong = dict.fromkeys(NAMES, 0)
        with mmap.mmap(-1, BLOCK) as memory:
            for mode in NAMES:
                _native.serve_control(control, "read-mode", mode)
                for block in blocks.tolist():
                    wrong[mode] += _read(device, block, memory) != expected(mode, block, source, by)
    finally:
        os.close(device)
    return wrong, int(np.count_nonzero(overwritten < whole))


def w2(tool: Tool) -> Measured:
    """Every mode on a random disk."""
    random = oracle.random_disk(SEED)
    path = tool.keep_profile("modes.toml", random.text)
    try:
        with (
            tempfile.TemporaryDirectory(dir=tool.folder) as name,
            disk(str(path), Path(name)) as device,
        ):
            wrong, overwritten = _differences(device, Path(name) / "below.control", random)
    except OSError as error:
        raise NotMeasured(f"unknown: the block device failed: {error}") from error
    figures = {NAMES[mode]: float(count) for mode, count in wrong.items()}
    return Measured(
        figures, notes=(f"{overwritten:,} blocks with overwritten sectors read in each mode, k = {random.k}",)
    )
