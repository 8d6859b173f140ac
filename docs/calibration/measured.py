"""What the recordings say of spindle, tracks and seeks: the logs of a real ST8000AS0022, and the seek curves
of four conventional drives with the law that fits each.

Invariants: times are in ms, distances in shares of the full stroke, unless a name says otherwise; resampling
is seeded.
Sources: the README of each recording.
"""

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skylight.infer.ordered_reads import fit_turns, track_marks
from skylight.infer.ordered_reads import floors as floors_us

ROOT = Path(__file__).resolve().parent.parent.parent
Floats = NDArray[np.float64]

HOST_GAP_US = 7.3
"""Host time between two reads of the log (its README)."""
SETTLED = {"low": 256, "high": 8192}
"""First read that counts: before it the drive starts, or (high) does background work."""
HOME_STEP_US = {"low": 40.0, "high": 87.0}
"""About what 8 KiB take at each place: only to tell whole turns apart."""
OLD_DRIVES = ("atlas10k", "cheetah9LP", "cheetah4LP", "barracuda")
LAW_FROM = 0.005
"""Share of the stroke from which a measured curve must follow constant + root + linear."""

WINDOW = 512
"""Reads of which one floor is made."""
JOIN = 0.001
"""Share of the stroke from which the points of the profiles follow the law."""


@dataclass(frozen=True)
class Track:
    """What the completion times of one log say of the spindle and the home track, us."""

    turn_us: float
    turn_error_us: float
    step_us: float
    """Time of the 8 KiB from one home block to the next."""
    blocks: int
    """Home blocks (8 KiB) on a track."""
    skew_us: float


@dataclass(frozen=True)
class Floor:
    """Latency without rotational delay, ms."""

    mean: float
    error: float
    """Standard error of the mean, from resampling windows of 512 reads."""
    lowest: float
    highest: float
    """Lowest and highest of the windows of 1,024 reads."""


@dataclass(frozen=True)
class Law:
    """constant + root * sqrt(x) + linear * x, ms, for a share x of the stroke."""

    constant: float
    root: float
    linear: float

    def at(self, share: Floats | float) -> Floats:
        """Seek time over a share of the stroke, ms."""
        x = np.asarray(share, dtype=np.float64)
        return self.constant + self.root * np.sqrt(x) + self.linear * x

    def share_for(self, time: float) -> float:
        """The share of the stroke that takes `time`; 0 when even the shortest takes longer."""
        rest = max(time - self.constant, 0.0)
        root = (-self.root + np.sqrt(self.root**2 + 4 * self.linear * rest)) / (2 * self.linear)
        return float(root**2)


def data_path() -> Path:
    """The folder of the recordings."""
    return Path(os.environ.get("SKYLIGHT_DATA") or ROOT.parent / "shared/data").resolve()


def latencies_us(data: Path, name: str) -> Floats:
    """Latencies of the log `low` or `high` in order, us."""
    with gzip.open(data / f"st8000as0022-fragmented-reads/read-{name}_lat.1.log.gz", "rt") as log:
        return np.array([float(line.split(",")[1]) for line in log])


def track_of(latency_us: Floats, name: str) -> Track:
    """Rotation, track length and skew from the completion times of the even (home) reads.

    Two of them lie whole turns plus the time of 8 KiB apart, plus the skew where a track begins.
    """
    done = np.cumsum(latency_us + HOST_GAP_US)[::2]
    apart = np.diff(done[SETTLED[name] // 2 :])
    fit = fit_turns(apart, 10_040, HOME_STEP_US[name], 60)
    blocks, skew_us = track_marks(fit.left, 300, 600)
    return Track(fit.turn, fit.turn_error, fit.step, blocks, skew_us)


def floors(latency_us: Floats, turn_us: float, window: int) -> Floats:
    """The floor of each window of reads, ms."""
    return floors_us(latency_us, turn_us, window) / 1000


def floor_of(latency_us: Floats, name: str, turn_us: float) -> Floor:
    """The floor of a log: its mean, and how far it moves as the cache is read through."""
    settled = latency_us[SETTLED[name] :]
    windows = floors(settled, turn_us, WINDOW)
    drawn = np.random.default_rng(1).choice(windows, (2000, len(windows)))
    smooth = np.sort(floors(settled, turn_us, 2 * WINDOW))
    return Floor(float(windows.mean()), float(drawn.mean(axis=1).std()), float(smooth[0]), float(smooth[-1]))


def write_times_us(data: Path) -> dict[int, float]:
    """Median time of a 4 KiB write that the write cache takes, by open zones: no head moves for it."""
    path = data / "st8000as0022-open-zones/writes_seq_contiguous_4k.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = [(int(row["zones"]), float(row["latency_us"])) for row in csv.DictReader(file)]
    return {zones: float(np.median([t for z, t in rows if z == zones])) for zones in (20, 60, 100, 120)}


def old_curve(data: Path, drive: str) -> tuple[Floats, Floats, float]:
    """Shares of the stroke and seek times (ms) of a conventional drive, and its longest seek in cylinders."""
    with open(data / f"cmr-drives-disksim/{drive}.seek.csv", newline="") as file:
        rows = np.array([[float(row["cylinders"]), float(row["seek_ms"])] for row in csv.DictReader(file)])
    longest = float(rows[:, 0].max())
    return rows[:, 0] / longest, rows[:, 1], longest


def fit(share: Floats, time: Floats) -> tuple[Law, float]:
    """The law by least squares, and the rms of what it leaves, ms."""
    table = np.stack([np.ones_like(share), np.sqrt(share), share], axis=1)
    found, *_ = np.linalg.lstsq(table, time, rcond=None)
    rms = float(np.sqrt(np.mean((table @ found - time) ** 2)))
    return Law(*(float(value) for value in found)), rms


def law_root_share(share: Floats, time: Floats, weight: Floats) -> float:
    """The root's share of the moving part when errors count by `weight`: how firm that number is."""
    table = np.stack([np.ones_like(share), np.sqrt(share), share], axis=1)
    found, *_ = np.linalg.lstsq(table * weight[:, None], time * weight, rcond=None)
    return float(found[1] / (found[1] + found[2]))


@dataclass(frozen=True)
class OldDrive:
    """A conventional drive's measured curve against the law, ms."""

    law: Law
    rms: float
    rms_all: float
    """rms when the law must also follow the shortest seeks."""
    one_cylinder: float
    full: float
    short: float
    """Measured over law at a thousandth of the stroke."""

    @property
    def root_share(self) -> float:
        """How much of the moving part of a full stroke is the root term."""
        return self.law.root / (self.law.root + self.law.linear)


def old_drive(data: Path, drive: str) -> OldDrive:
    """Fits one conventional drive."""
    share, time, _ = old_curve(data, drive)
    far = share >= LAW_FROM
    law, rms = fit(share[far], time[far])
    _, rms_all = fit(share, time)
    short = float(np.interp(JOIN, share, time) / law.at(JOIN))
    return OldDrive(law, rms, rms_all, float(time[0]), float(time[-1]), short)
