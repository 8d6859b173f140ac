"""Rows H4 and H5: 200 sequential streams, directly and through a buffer of the host; and its recovery.

H4: the host writes to 200 empty zones in turn, one write at a time, the volatile cache on. With the paper's
policy it logs what it writes once it has seen more streams than the drive has open zones, and moves
everything home when it is done: the time of both counts.

H5: a host writes to random places, all to the log, until that has gone round, with a flush now and then. The
power goes at random commands to the drive, and last as far from a checkpoint as the log gets. After each cut
the buffer is recovered from what the drive has, every extent that was ever written is looked up, and the
reads that the recovery made are timed.

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
from skylight.reproduce.hasmr.drive import DRIVE, GIB, KIB, SEED, Bench
from skylight.reproduce.rows import Measured

STREAMS, BUFFER_ZONES = 200, 100
SIZES_KIB = (4, 8, 16, 32, 64, 128, 256)
TOTAL_BYTES = GIB
"""Written in all. Chosen: the paper does not say; less favours direct writes, which have nothing to move."""
MEMORY_BYTES = GIB
"""Of the host, for moving data home. Chosen: all of it at once."""
RECOVERED_SIZES_KIB = (64, 512)
"""Chosen: writes of which the map has many entries, and those of the paper's recorded runs. With 4 KiB the
model has millions of entries in memory (`crates/drive/tests/hbuffer_recovery.rs`)."""
CUTS = 6
"""Before the last one. Chosen: a small sample; the tests of the buffer make tens of thousands."""


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


def wrong_name(size_kib: int) -> str:
    """The name of the check of what recoveries find."""
    return f"{size_kib} KiB: extents that have neither their last durable write nor a later one"


def time_name(size_kib: int) -> str:
    """The name of the check of the longest recovery."""
    return f"{size_kib} KiB: the drive's time of the longest recovery, s for a GiB of log"


def h5(_bench: Bench) -> Measured:
    """Whether recoveries are exact, and how long they take the drive."""
    figures: dict[str, float | str] = {}
    notes: list[str] = []
    for size in RECOVERED_SIZES_KIB:
        text, origin = read_profile(DRIVE)
        made = _native.buffer_cuts(text, origin, BUFFER_ZONES, size * KIB, CUTS, SEED)
        log_gib = made["log_bytes"] / GIB
        seconds = made["longest_ns"] / 1e9
        figures |= {wrong_name(size): float(made["wrong"]), time_name(size): seconds / log_gib}
        notes.append(
            f"{size} KiB, seed {SEED}: {made['recoveries']} recoveries, after which {made['looked_up']:,}"
            f" extents were looked up, {made['cleaned_zones']} zones cleaned meanwhile; the longest took"
            f" {seconds:.2f} s for {made['scanned_bytes'] >> 20} MiB of log with {made['entries']:,} entries"
        )
    return Measured(figures, notes=tuple(notes))
