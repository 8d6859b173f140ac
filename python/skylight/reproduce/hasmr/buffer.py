"""Row H4: 200 sequential streams, directly and through a buffer of the host.

The host writes to 200 empty zones in turn, one write at a time, the volatile cache on. With the paper's
policy it logs what it writes once it has seen more streams than the drive has open zones, and moves
everything home when it is done: the time of both counts.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 5 and Figure 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import Op
from skylight.reproduce.hasmr.drawing import buffer_figure
from skylight.reproduce.hasmr.drive import DRIVE, GIB, KIB, Bench
from skylight.reproduce.rows import Measured

STREAMS, BUFFER_ZONES = 200, 100
SIZES_KIB = (4, 8, 16, 32, 64, 128, 256)
TOTAL_BYTES = GIB
"""Written in all. Chosen: the paper does not say; less favours direct writes, which have nothing to move."""
MEMORY_BYTES = GIB
"""Of the host, for moving data home. Chosen: all of it at once."""


@dataclass(frozen=True, slots=True)
class Job:
    """How long a job took, s: its writes, and moving data home afterwards."""

    write_s: float
    migration_s: float

    @property
    def total_s(self) -> float:
        """Both."""
        return self.write_s + self.migration_s


def job(policy: str, size_kib: int) -> Job:
    """The streams' writes with a policy, on a new drive."""
    drive = _native.BufferedDrive(*read_profile(DRIVE), policy, BUFFER_ZONES, MEMORY_BYTES)
    size = size_kib * KIB
    rounds = TOTAL_BYTES // (STREAMS * size)
    zone, at = np.tile(np.arange(STREAMS), rounds), np.repeat(np.arange(rounds), STREAMS) * size
    offset = (zone * drive.zone_bytes + at).astype(np.uint64)
    count = len(offset)
    took = drive.run(
        np.full(count, int(Op.WRITE), np.uint8), offset, np.full(count, size, np.uint32),
        np.zeros(count, np.uint64),
    )  # fmt: skip
    return Job(float(took.sum()) / 1e9, drive.finish() / 1e9)


def check_name(size_kib: int) -> str:
    """The name of the check of an I/O size."""
    return f"{size_kib} KiB: time with the buffer over that of direct writes"


def h4(_bench: Bench) -> Measured:
    """Figure 6: whether the buffer makes the job shorter at every I/O size, cleaning included."""
    jobs: Mapping[int, tuple[Job, Job]] = {
        size: (job("direct", size), job("open-zones", size)) for size in SIZES_KIB
    }
    figures = {
        check_name(size): buffered.total_s / direct.total_s for size, (direct, buffered) in jobs.items()
    }
    notes = tuple(
        f"{size} KiB: directly {direct.total_s:,.0f} s; with the buffer {buffered.write_s:,.1f} s of writes"
        f" and {buffered.migration_s:,.1f} s of migration"
        for size, (direct, buffered) in jobs.items()
    )
    shares = {
        size: (buffered.write_s / direct.total_s, buffered.migration_s / direct.total_s)
        for size, (direct, buffered) in jobs.items()
    }
    return Measured(figures, lambda: buffer_figure(shares), notes)
