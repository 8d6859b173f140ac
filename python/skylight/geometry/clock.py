"""The platter as a clock: reads of single sectors and the angles at which they completed.

A sector passes under the head at one angle of the turn, so the completion of a read, folded over the turn, is
that angle plus what the command took longer than the mechanics. Two things are done about the latter. Reads
are put in an order in which each sector comes round shortly after the one before it was read, because jitter
grows with the time on the media; and the part that does grow with it (`stretch`) is taken off. A host that is
busy is late now and then by far more than that: there reads are repeated until two agree.

Invariants: only reads are issued; phases are in turns, 0 to 1, and only differences of phases of one place,
read within seconds, mean anything: a spindle drifts. The first read of a step brings the arm and tells
nothing.

Source: Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS
'95); Talagala, Arpaci-Dusseau and Patterson, "Microbenchmark-based extraction of local and global disk
characteristics" (UCB/CSD-99-1063).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import IoBatch, IoLog
from skylight.infer.turning import centred, phase_of
from skylight.probe.procedure import Steps

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


GOLDEN = 0.6180339887498949  # multiples of it, less whole turns, lie evenly whatever their number
MARK_READS = 12
MOST_MOVED = 0.3  # turns: beyond it a turn may have been miscounted
LEAST_ERROR = 1e-8
MOST_WILD = 0.03  # of reads; a drive by itself is far off once in 200
MOST_REPEATS = 4
AGREEING = 4.0  # times the scatter


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of the turn and of time that commands take: the period (ns), how soon a sector nearby can
    be read after another (turns), what completions scatter by (turns), the part of its time on the media
    that a read is late by on the average, and the share of reads that are late by far more than that."""

    period_ns: float
    period_error: float
    reach: float
    sigma: float
    stretch: float
    wild: float = 0.0

    @property
    def busy_host(self) -> bool:
        """Whether reads are late so often that it cannot be the drive."""
        return self.wild >= MOST_WILD


@dataclass(frozen=True, slots=True)
class Reads:
    """Sectors that were read and the phases (turns) at which they completed."""

    x: I64
    phase: F64

    def __len__(self) -> int:
        """How many."""
        return len(self.x)

    def near(self, low: float, high: float) -> Reads:
        """Those of sectors in a range, its end not included."""
        rows = (self.x >= low) & (self.x < high)
        return Reads(self.x[rows], self.phase[rows])

    @staticmethod
    def joined(parts: Sequence[Reads]) -> Reads:
        """Several as one."""
        return Reads(
            np.concatenate([part.x for part in parts]), np.concatenate([part.phase for part in parts])
        )


class Platter:
    """Reads through a procedure's steps, by sector number; counts them."""

    def __init__(self, steps: Steps) -> None:
        """Takes the steps; the clock is set once it is known."""
        self.steps = steps
        self.unit = steps.block_bytes
        self.sectors = steps.size // steps.block_bytes
        self.count = 0
        self.clock = Clock(1.0, 1.0, 0.0, 1.0, 0.0)
        self._marks: list[tuple[float, float, float]] = []  # time, period, level

    def log(self, name: str, x: Sequence[int] | I64) -> IoLog:
        """The log of reads of single sectors, in this order."""
        at = np.clip(np.asarray(x, np.int64), 0, self.sectors - 1).astype(np.uint64)
        self.count += len(at)
        return self.steps.run(name, IoBatch.reads(at * np.uint64(self.unit), self.unit))

    def read(self, name: str, x: Sequence[int] | I64) -> Reads:
        """Reads sectors in this order; the first of them is not among what is given back.

        On a host that is often late, each is read until two agree, a few times at most."""
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
        """Phases of a log's rows but the first."""
        late = self.clock.stretch * log.latency_ns[1:] / self.clock.period_ns
        phase = phase_of(log.complete_ns[1:], 0, self.clock.period_ns) - late
        return Reads((log.offset[1:] // np.uint64(self.unit)).astype(np.int64), np.mod(phase, 1.0))

    def sharpen(self, first: int, track: int) -> None:
        """Reads some sectors of a track again, and corrects the period by how far their phases have moved
        since they were read last: time makes the period more exact."""
        number = MARK_READS * len(self._marks)
        x = first + (np.arange(MARK_READS + 1) * track // (MARK_READS + 1) + number % max(track // 16, 1))
        log = self.log("clock", x[::-1])
        reads = self.reads_of(log)
        level = circular_median(reads.phase - (reads.x - first) / track)
        at_ns = float(np.mean(log.complete_ns[1:].astype(np.float64)))
        self._marks.append((at_ns, self.clock.period_ns, level))
        if len(self._marks) < 2:
            return
        before_ns, period_ns, before = self._marks[-2]
        turns = (at_ns - before_ns) / period_ns
        moved = float(centred(np.array(level - before)))
        if self.clock.period_error * turns > MOST_MOVED or abs(moved) > MOST_MOVED:
            return
        better = 1 / (1 / period_ns - moved / (at_ns - before_ns))
        error = max(2 * self.clock.sigma / np.sqrt(MARK_READS) / turns, LEAST_ERROR)
        if error < self.clock.period_error:
            self.clock = replace(self.clock, period_ns=better, period_error=error)
            phase = (
                phase_of(log.complete_ns[1:], 0, better) - self.clock.stretch * log.latency_ns[1:] / better
            )
            self._marks[-1] = (at_ns, better, circular_median(phase - (reads.x - first) / track))

    def ordered(self, x: I64, angle: F64) -> I64:
        """Sectors in an order in which each comes round as soon as it can be caught after the one before;
        `angle` is where they are thought to lie, turns."""
        left = list(range(len(x)))
        order = [left.pop(0)]
        while left:
            wait = np.mod(angle[left] - angle[order[-1]] - self.clock.reach, 1.0)
            order.append(left.pop(int(np.argmin(wait))))
        return np.asarray(x[order], np.int64)


def _agreeing(phases: F64, within: float) -> I64:
    """How many phases of the same sector (first axis) agree with each of them, itself with them; 0 where one
    was not read."""
    near = np.abs(centred(phases[:, None, :] - phases[None, :, :])) < within
    return np.asarray(near.sum(axis=1), np.int64)


def _likeliest(phases: F64, within: float) -> F64:
    """The middle of the phases (first axis) with which most agree, sector by sector; turns, 0 to 1."""
    best = phases[np.argmax(_agreeing(phases, within), axis=0), np.arange(phases.shape[1])]
    off = centred(phases - best)
    middle = best + np.nanmean(np.where(np.abs(off) < within, off, np.nan), axis=0)
    return np.asarray(np.mod(middle, 1.0), np.float64)


def circular_median(values: F64) -> float:
    """The middle of phases that lie close together, turns."""
    middle = float(np.angle(np.exp(2j * np.pi * values).sum()) / (2 * np.pi))
    return middle + float(np.median(centred(values - middle)))


def misfit(left: F64, sigma: float, cap: float) -> F64:
    """What phases less a model (turns, last axis the reads) cost at the best common level: squares in units
    of the scatter, none counting more than `cap`, halved."""
    level = np.angle(np.exp(2j * np.pi * left).mean(axis=-1)) / (2 * np.pi)
    off = centred(left - level[..., None])
    off = off - np.median(off, axis=-1)[..., None]
    return np.asarray(np.minimum((off / sigma) ** 2, cap).sum(axis=-1) / 2, np.float64)
