"""Where blocks lie that were written through a cache which hides how they were written.

Where writes are answered at once and FLUSH finds nothing to do, their latency says nothing of the medium:
flash takes them so, and so does a volatile cache that ignores FLUSH. But blocks can be read. Two blocks of
each of some places are written at different times, with more data between them than a volatile cache holds;
then all are read:

* *home*: the two blocks of a place pass under the head at one angle (`skylight.infer.phase`), as blocks side
  by side do; in a log they lie as far apart as they were written;
* *log*: they wait for a platter but share no angle, although blocks at their places do on the same drive;
* *flash*: they are read without waiting for a platter.

Invariant: each block is read once, in descending order within a place, so no read buffer answers.

Source: as `skylight.infer.phase`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skylight.evidence import I64, U64, IoBatch, IoLog, Op
from skylight.infer import phase
from skylight.infer.phase import Coherence
from skylight.probe.drive_type.plan import PLACES, PLACES_PER_ROUND, SUSTAINED_REGION_BYTES, Plan

UNIT_BLOCKS = 4  # of a place; the first is written early, the third late
REST_S = 5.0  # a volatile cache that is left alone writes out what it holds
WAITING = 0.5  # of the time of reads all over the target: faster ones wait for no platter
LEAST_TARGET_BYTES = 4 * SUSTAINED_REGION_BYTES  # in which few places are written again in between
MOST_READS = 2 * PLACES
FEWEST_READS = 2 * PLACES_PER_ROUND
NOT_SHARED = 0.1  # share of the phases that places explain: less is none, where reads at home have 0.8


@dataclass(frozen=True, slots=True)
class ReadBack:
    """How blocks written apart in time are read: latency (ns), how they follow their place, and how long
    reads of the target's other blocks take (median, ns)."""

    latency_ns: I64
    tied: Coherence
    usual_ns: float

    @property
    def where(self) -> Literal["home", "log", "flash", "unknown"]:
        """Where they lie."""
        if len(self.latency_ns) < FEWEST_READS:
            return "unknown"
        if float(np.median(self.latency_ns)) < WAITING * self.usual_ns:
            return "flash"
        if self.tied.rotates:
            return "home"
        return "log" if self.tied.period_ns and self.tied.share < NOT_SHARED else "unknown"


def places(plan: Plan) -> U64:
    """Some places all over the target, in random order."""
    rng = plan.steps.rng("read-back-places")
    count = min(PLACES, plan.reach // (UNIT_BLOCKS * plan.io_bytes) // PLACES_PER_ROUND * PLACES_PER_ROUND)
    chosen = rng.choice(plan.reach // (UNIT_BLOCKS * plan.io_bytes), size=count, replace=False)
    return chosen.astype(np.uint64) * np.uint64(UNIT_BLOCKS * plan.io_bytes)


def write_one(plan: Plan, name: str, block: int, region: int) -> IoLog:
    """Writes one block of each place."""
    where = places(plan) + np.uint64(block * plan.io_bytes)
    return plan.steps.run(name, IoBatch.writes(where, plan.io_bytes), params=plan.params(region))


def read_all(plan: Plan, name: str, usual_ns: float) -> ReadBack:
    """Reads both blocks of each place, in rounds of places in random order, the later block first."""
    rng, unit = plan.steps.rng(name), UNIT_BLOCKS * plan.io_bytes
    offsets = []
    for group in places(plan).reshape(-1, PLACES_PER_ROUND):
        order = rng.permutation(np.repeat(np.arange(PLACES_PER_ROUND), 2))
        visit = np.array([np.count_nonzero(order[:row] == place) for row, place in enumerate(order)])
        offsets.append(group[order] + ((1 - visit) * 2 * plan.io_bytes).astype(np.uint64))
    io = IoBatch.reads(np.concatenate([np.empty(0, np.uint64), *offsets]), plan.io_bytes)
    log = plan.steps.run(name, io, params=plan.params(plan.reach)).only(Op.READ)
    tied = phase.coherence(log.complete_ns, log.offset // np.uint64(unit), 2 * PLACES_PER_ROUND)
    return ReadBack(log.latency_ns, tied, usual_ns)
