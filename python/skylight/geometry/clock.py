"""The platter as a clock: reads of single sectors and the angles at which they complete.

A sector passes under the head at a fixed angle, so the completion time of a read modulo the rotation is that
angle plus the overhead of the command. Two measures reduce the overhead. Reads are ordered so that each
sector passes soon after the read before it, because jitter grows with the time on the media; and the part
that grows with that time (`lateness_share`) is subtracted. Completions on a busy host are sometimes late by
far more: there, reads are repeated until two agree.

Invariants: only reads are issued. Phases are in revolutions, 0 to 1; the spindle drifts, so only differences
between phases of nearby sectors, read within seconds, are meaningful. The first read of a step only moves the
arm.

Source: Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS
'95); Talagala, Arpaci-Dusseau and Patterson, "Microbenchmark-based extraction of local and global disk
characteristics" (UCB/CSD-99-1063).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64, IoBatch, IoLog
from skylight.infer.track_phases import centred, phase_of
from skylight.probe.procedure import Steps

GOLDEN = 0.6180339887498949  # its multiples modulo 1 are evenly spread for any count
REFERENCE_READS = 12
MOST_MOVED = 0.3  # revolutions: beyond it, whole revolutions may have been miscounted
LEAST_ERROR = 1e-8
MOST_OUTLIER_SHARE = 0.03  # of reads; a drive alone has one outlier in 200
MOST_REPEATS = 4
AGREEING = 4.0  # in units of the scatter


@dataclass(frozen=True, slots=True)
class Clock:
    """The rotation and the timing of commands: period (ns) and its relative error, minimum access time to a
    nearby sector (revolutions), scatter of completions (revolutions), mean lateness of a read as a share of
    its time on the media, and share of reads that are outliers."""

    period_ns: float
    period_error: float
    min_access: float
    sigma: float
    lateness_share: float
    outlier_share: float = 0.0

    @property
    def busy_host(self) -> bool:
        """Whether reads are late so often that the host must be the cause."""
        return self.outlier_share >= MOST_OUTLIER_SHARE


@dataclass(frozen=True, slots=True)
class Reads:
    """Sectors that were read and the phases (revolutions) at which they completed."""

    x: I64
    phase: F64

    def __len__(self) -> int:
        """Number of reads."""
        return len(self.x)

    def near(self, low: float, high: float) -> Reads:
        """The reads of sectors from `low` up to but not including `high`."""
        rows = (self.x >= low) & (self.x < high)
        return Reads(self.x[rows], self.phase[rows])

    @staticmethod
    def joined(parts: Sequence[Reads]) -> Reads:
        """Concatenates reads."""
        return Reads(
            np.concatenate([part.x for part in parts]), np.concatenate([part.phase for part in parts])
        )


class Platter:
    """Reads sectors by number through a procedure's steps, and counts the reads."""

    def __init__(self, steps: Steps) -> None:
        """Keeps the steps; `initial_clock` sets the clock."""
        self.steps = steps
        self.unit = steps.block_bytes
        self.sectors = steps.size // steps.block_bytes
        self.count = 0
        self.clock = Clock(1.0, 1.0, 0.0, 1.0, 0.0)
        self._references: list[tuple[float, float, float]] = []  # time, period, level

    def log(self, name: str, x: Sequence[int] | I64) -> IoLog:
        """The log of reads of single sectors, in this order."""
        at = np.clip(np.asarray(x, np.int64), 0, self.sectors - 1).astype(np.uint64)
        self.count += len(at)
        return self.steps.run(name, IoBatch.reads(at * np.uint64(self.unit), self.unit))

    def read(self, name: str, x: Sequence[int] | I64) -> Reads:
        """Reads sectors in this order; the result leaves out the first.

        On a busy host each is read until two phases agree, at most `MOST_REPEATS` more times."""
        reads = self.reads_of(self.log(name, x))
        if not self.clock.busy_host:
            return reads
        sectors = np.asarray(x, np.int64)
        within = AGREEING * self.clock.sigma
        phases, rows = reads.phase[None, :], np.arange(len(reads))
        for _ in range(MOST_REPEATS):
            again = self.reads_of(self.log(f"{name}_again", np.concatenate([sectors[:1], sectors[1 + rows]])))
            more = np.full((1, len(reads)), np.nan)
            more[0, rows] = again.phase
            phases = np.concatenate([phases, more])
            rows = np.flatnonzero(_agreeing(phases, within).max(axis=0) < 2)
            if len(rows) == 0:
                break
        return Reads(reads.x, _likeliest(phases, within))

    def reads_of(self, log: IoLog) -> Reads:
        """Phases of a log's rows, without the first."""
        late = self.clock.lateness_share * log.latency_ns[1:] / self.clock.period_ns
        phase = phase_of(log.complete_ns[1:], 0, self.clock.period_ns) - late
        return Reads((log.offset[1:] // np.uint64(self.unit)).astype(np.int64), np.mod(phase, 1.0))

    def sharpen(self, first: int, track: int) -> None:
        """Reads a track again and corrects the period by the drift of its phase since the last call: the
        longer the interval, the more exact the period."""
        number = REFERENCE_READS * len(self._references)
        x = first + (
            np.arange(REFERENCE_READS + 1) * track // (REFERENCE_READS + 1) + number % max(track // 16, 1)
        )
        log = self.log("clock", x[::-1])
        reads = self.reads_of(log)
        level = circular_median(reads.phase - (reads.x - first) / track)
        at_ns = float(np.mean(log.complete_ns[1:].astype(np.float64)))
        self._references.append((at_ns, self.clock.period_ns, level))
        if len(self._references) < 2:
            return
        before_ns, period_ns, before = self._references[-2]
        revolutions = (at_ns - before_ns) / period_ns
        moved = float(centred(np.array(level - before)))
        if self.clock.period_error * revolutions > MOST_MOVED or abs(moved) > MOST_MOVED:
            return
        better = 1 / (1 / period_ns - moved / (at_ns - before_ns))
        error = max(2 * self.clock.sigma / np.sqrt(REFERENCE_READS) / revolutions, LEAST_ERROR)
        if error < self.clock.period_error:
            self.clock = replace(self.clock, period_ns=better, period_error=error)
            phase = (
                phase_of(log.complete_ns[1:], 0, better)
                - self.clock.lateness_share * log.latency_ns[1:] / better
            )
            self._references[-1] = (at_ns, better, circular_median(phase - (reads.x - first) / track))

    def ordered(self, x: I64, angle: F64) -> I64:
        """Sectors in an order in which each passes as soon as it can be caught after the one before;
        `angle` is their presumed angle, revolutions."""
        left = list(range(len(x)))
        order = [left.pop(0)]
        while left:
            wait = np.mod(angle[left] - angle[order[-1]] - self.clock.min_access, 1.0)
            order.append(left.pop(int(np.argmin(wait))))
        return np.asarray(x[order], np.int64)


def _agreeing(phases: F64, within: float) -> I64:
    """For each phase, the number of phases of its sector (first axis), itself included, that agree with it; 0
    if it was not read."""
    near = np.abs(centred(phases[:, None, :] - phases[None, :, :])) < within
    return np.asarray(near.sum(axis=1), np.int64)


def _likeliest(phases: F64, within: float) -> F64:
    """The mean of the largest group of agreeing phases (first axis) of each sector; revolutions, 0 to 1."""
    best = phases[np.argmax(_agreeing(phases, within), axis=0), np.arange(phases.shape[1])]
    off = centred(phases - best)
    middle = best + np.nanmean(np.where(np.abs(off) < within, off, np.nan), axis=0)
    return np.asarray(np.mod(middle, 1.0), np.float64)


def circular_median(values: F64) -> float:
    """The median of phases that lie close together, revolutions."""
    middle = float(np.angle(np.exp(2j * np.pi * values).sum()) / (2 * np.pi))
    return middle + float(np.median(centred(values - middle)))


def misfit(left: F64, sigma: float, cap: float) -> F64:
    """Cost of residual phases (revolutions; the last axis is the reads) at the best common offset: half the
    sum of squares in units of the scatter, each capped at `cap`."""
    level = np.angle(np.exp(2j * np.pi * left).mean(axis=-1)) / (2 * np.pi)
    off = centred(left - level[..., None])
    off = off - np.median(off, axis=-1)[..., None]
    return np.asarray(np.minimum((off / sigma) ** 2, cap).sum(axis=-1) / 2, np.float64)
