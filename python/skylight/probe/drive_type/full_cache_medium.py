"""On which medium a persistent cache lies that is too full for the writes that else tell it.

Blocks that were written are read between neighbours that were not (`skylight.infer.cached_or_native`). At
home that takes one revolution. From flash or from volatile memory it takes two, for the neighbour behind is
just missed; from a cache on a platter two seeks more, so two or more. So three tell a cache on a platter, and
two nothing. The control is blocks that nobody wrote, among which others' reads, outliers and what the cache
held before show as often.

Invariant: a cache whose blocks do not plainly differ from the control shows nothing.
Source: Skylight (FAST '15) section 4.4 (fragmented reads).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import I64, U64, IoLog, Op, Stop
from skylight.infer import cached_or_native
from skylight.infer.tail_probability import hypergeometric_tail
from skylight.probe.drive_type.plan import STALLING, Plan
from skylight.probe.drive_type.write_latencies import LONGEST_RETRY_NS, took_too_long
from skylight.probe.drive_type.writes_after_random_reads import STALL_NS

NAME = "written-looked-at"
MOST_LOOKS, CONTROLS = 24, 32
MOST_READS = 2 * (MOST_LOOKS + CONTROLS)
AWAY_BLOCKS = 64  # from a written block to its control: beyond its neighbours, hardly on another track
AWAY_TURNS = 2.5
"""Between the two revolutions of a block that no head went for and the three of one that a head did."""
LEAST_SHARE, MOST_CHANCE = 0.5, 1e-4
"""Of the written blocks so many have to seem elsewhere, with such a chance at most that written and control
do not differ: chosen, as the chance that signs of a landing are mistaken."""


@dataclass(frozen=True, slots=True)
class Looked:
    """How many blocks that were written were looked at, and how many of them seemed elsewhere on a platter;
    the same of blocks that were not."""

    written: int
    away: int
    controls: int
    controls_away: int

    @property
    def p_value(self) -> float:
        """The chance that so many of those that seem elsewhere were written, if that did not matter."""
        whole, away = self.written + self.controls, self.away + self.controls_away
        return hypergeometric_tail(self.away, whole, away, self.written)

    @property
    def on_platter(self) -> bool:
        """Whether what was written lies elsewhere on a platter."""
        return self.away >= LEAST_SHARE * self.written > 0 and self.p_value <= MOST_CHANCE


def waits_for_bands(flushed_ns: I64) -> bool:
    """Whether writes with a FLUSH each wait for bands to be cleaned: many, close to each other, as long as
    for no place on a disk, and all together longer than they take any disk. Behind the first, which may be
    the slowest that does not count, nothing is left in a volatile cache."""
    stalls = np.convolve(flushed_ns >= STALL_NS, np.ones(STALLING.within, np.int64))
    return took_too_long(flushed_ns, cached=0) and int(stalls.max()) >= STALLING.count


def look(plan: Plan, writes: IoLog, rotation_ns: float) -> Looked:
    """Looks at the last of these writes, and at blocks beside them that were not written."""
    block = np.uint64(plan.io_bytes)
    every = np.unique(writes.only(Op.WRITE).offset)
    newest = np.unique(writes.only(Op.WRITE).offset[-MOST_LOOKS:])
    controls = _beside(every, block, plan.reach)
    rng = plan.steps.rng(NAME)
    controls = rng.permutation(controls)[:CONTROLS]
    newest = newest[(newest >= 3 * block) & (newest + 3 * block < plan.reach)]
    blocks = rng.permutation(np.concatenate([newest, controls]))
    looks = cached_or_native.looks(blocks, plan.io_bytes, flash=False, backwards=True)
    # Where reads wait for bands to be cleaned as well, looks tell nothing, each of them in minutes.
    log = plan.steps.run(NAME, looks, until=Stop(LONGEST_RETRY_NS), params={"io_bytes": plan.io_bytes})
    looked_ns = cached_or_native.look_ns(log)
    away = looked_ns > AWAY_TURNS * rotation_ns
    written = np.isin(log.offset[1::2] + block, newest)[: len(away)]
    return Looked(
        int(np.count_nonzero(written)),
        int(np.count_nonzero(away & written)),
        int(np.count_nonzero(~written)),
        int(np.count_nonzero(away & ~written)),
    )


def _beside(every: U64, block: np.uint64, reach: int) -> U64:
    """Blocks on either side of the written ones whose neighbours were not written."""
    away = np.uint64(AWAY_BLOCKS) * block
    beside = np.unique(np.concatenate([every[every >= 2 * away] - away, every + away]))
    beside = beside[beside + 3 * block < reach]
    near = [np.isin(beside + np.uint64(step) * block, every) for step in (0, 1, 2)]
    near += [np.isin(beside - np.uint64(step) * block, every) for step in (1, 2)]
    return np.asarray(beside[~np.any(near, axis=0)], np.uint64)
