"""Whether the fast writes of a quick answer are kept where no head has to go, on a slow or a busy host.

Where commands take as long as a disk needs to write out of its cache, writes that stay fast say nothing: a
volatile cache that ignores FLUSH is written out meanwhile. And on a busy host the writes of a flash cache are
not fast throughout. So bytes decide, not how long commands take: small blocks are written, then more than the
memory of any disk holds passes, in commands of 1 MiB, and then the small blocks are read, in random order
among blocks beside them that nobody wrote. What is read alike and without waiting for an angle, where the
others wait, is neither on a platter nor in volatile memory.

Where nearly every command waits for the host, writes are not even fast: they follow no address, go on from
nothing and are not alike. Then the same is done, with longer rests, for there are more small writes.

What passes is read where little was written before: a slow link often takes reads faster than writes, and
rests between them, none so long that a drive begins to clean, let a volatile cache write out that little.
After many writes it would need minutes for it, so then writes pass, which drive out what is older.

What the host adds it adds to both kinds of reads, in random order; so the chance that so many of the quick
ones were written, if that did not matter, is exact (hypergeometric).

Invariant: nothing else of test 1 is written in this part of the addresses, so no block is written twice.

Source: as `skylight.probe.drive_type.landing_by_readback`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import EMPTY_LOG, I64, IoBatch, IoLog
from skylight.infer.phase import Coherence
from skylight.infer.robust import confidence_that
from skylight.infer.tail_probability import hypergeometric_tail
from skylight.probe.drive_type.landing_by_readback import REST_S, WAITING
from skylight.probe.drive_type.plan import DECISIVE, QUICK_BYTES, SUSTAINED_REGION_BYTES, Plan
from skylight.units import format_duration, format_size

STEPS = EARLY, FILL, BACK = "kept-early", "kept-fill", "kept-back"
BLOCKS, CONTROLS = 64, 64
FILL_BYTES = 1 << 20
"""Of a command that fills. Chosen: ten milliseconds of a disk, beside which the host's part is small."""
FILLS = 640
"""Of 1 MiB: disks with 512 MiB of memory are sold, and none with more."""
RESTS = 20
"""Rests of `landing_by_readback.REST_S` between reads that fill: three seconds, in which a disk writes out
the 640 small blocks that test 1 has written by then, at 5 ms each."""
LATE_RESTS = 26
"""The same behind the narrow writes: 768 small blocks."""
AREA_BYTES = QUICK_BYTES // 4
EARLY_BEGIN = SUSTAINED_REGION_BYTES
FILL_BEGIN = EARLY_BEGIN + AREA_BYTES
ALIKE_TURNS = 0.25
"""Between the quickest tenth of reads and three fifths: half of waits for an angle need half of a revolution.
Chosen: a busy host may delay four in ten."""
MOST_CHANCE = 1e-6
"""As for the other signs of where writes land."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How long reads took of blocks that were written and of blocks beside them that were not (ns), the bytes
    that passed in between and in what time (ns), and the rotation. No reads where time was over before."""

    written_ns: I64
    control_ns: I64
    between_bytes: int
    turning: Coherence
    between_ns: int = 0

    @property
    def whole(self) -> bool:
        """Whether there was time for all of it."""
        return len(self.written_ns) + len(self.control_ns) == BLOCKS + CONTROLS

    @property
    def limit_ns(self) -> float:
        """What reads take that wait for no platter, at most."""
        return WAITING * float(np.median(self.control_ns))

    @property
    def p_value(self) -> float:
        """The chance that so many of the quick reads are of written blocks, if that did not matter."""
        quick = int(np.count_nonzero(self.written_ns < self.limit_ns))
        all_quick = quick + int(np.count_nonzero(self.control_ns < self.limit_ns))
        whole = len(self.written_ns) + len(self.control_ns)
        return hypergeometric_tail(quick, whole, all_quick, len(self.written_ns))

    def _alike(self, latency_ns: I64) -> bool:
        quickest, median, slow = np.percentile(latency_ns, [10, 50, 60]).tolist()
        return bool(median < self.limit_ns and slow - quickest < ALIKE_TURNS * self.turning.period_ns)

    @property
    def says(self) -> bool:
        """Whether the blocks were kept neither on a platter nor in memory."""
        return self.whole and self._alike(self.written_ns) and self.p_value <= MOST_CHANCE

    @property
    def denies(self) -> bool:
        """Whether the blocks waited as others do: they had left for a platter."""
        return self.whole and float(np.median(self.written_ns)) >= self.limit_ns

    @property
    def confidence(self) -> float:
        """How many bootstrap resamples are read so, and the chance."""
        return confidence_that(self.written_ns, self._alike) * (1.0 - self.p_value)

    @property
    def words(self) -> str:
        """What was seen, as a sentence."""
        written, control = (
            format_duration(float(np.median(each))) for each in (self.written_ns, self.control_ns)
        )
        return (
            f"{len(self.written_ns)} blocks were written; after {format_size(self.between_bytes)}, more than"
            f" the memory of a disk holds, they are read in {written} (median), and blocks beside them that"
            f" were not written in {control}"
        )

    def why(self, writes: str, *, flushed: bool) -> str:
        """Why they are in flash, after a sentence on the writes; whether a FLUSH was asked for."""
        shown = " and a FLUSH finds nothing to do" if flushed else ", which shows nothing on this host"
        return f"{writes}{shown}. {self.words}: they are in a flash cache, which waits for no angle."

    @property
    def cut_words(self) -> str:
        """What passed, for a sentence on a host that had no time for all of it."""
        must = f"the {format_size(FILLS * FILL_BYTES)} that must pass before what was written is read back"
        if self.between_bytes == 0:  # spent before; says nothing about the host
            return f"no time was left for {must}"
        rate = self.between_bytes * 1e9 / max(self.between_ns, 1)
        passed = f"{format_size(self.between_bytes)} did ({format_size(round(rate))} a second by this host)"
        return f"of {must} only {passed}"


def look(plan: Plan, turning: Coherence, *, by_reads: bool, rests: int = RESTS) -> Kept | None:
    """Writes, fills by reads with rests between them or by writes, and reads; None where the target is too
    small."""
    if plan.reach < QUICK_BYTES:
        return None
    block, rng = plan.io_bytes, plan.steps.rng(EARLY)
    chosen = rng.choice(AREA_BYTES // block, size=BLOCKS + CONTROLS, replace=False).astype(np.uint64)
    where = np.uint64(EARLY_BEGIN) + chosen * np.uint64(block)
    params = plan.params(plan.reach)
    early = plan.steps.run(EARLY, IoBatch.writes(where[:BLOCKS], block), until=DECISIVE, params=params)
    fills = _fill(plan, rests if by_reads else 0) if len(early) == BLOCKS else []
    between = sum(int(each.size.sum(dtype=np.uint64)) for each in fills)
    back = EMPTY_LOG
    if between == FILLS * FILL_BYTES:
        reads = IoBatch.reads(plan.steps.rng(BACK).permutation(where), block)
        back = plan.steps.run(BACK, reads, params=params)
    blocks = set(early.offset.tolist())
    is_written = np.array([each in blocks for each in back.offset.tolist()], np.bool_)
    took_ns = sum(each.span_ns for each in fills)
    return Kept(back.latency_ns[is_written], back.latency_ns[~is_written], between, turning, took_ns)


def _fill(plan: Plan, rests: int) -> list[IoLog]:
    """What passes, reads with rests or writes with none, until time is over or bands are cleaned."""
    slots = np.arange(FILLS, dtype=np.uint64)
    if not rests:
        slots = plan.steps.rng(FILL).permutation(AREA_BYTES // FILL_BYTES)[:FILLS].astype(np.uint64)
    where = np.uint64(FILL_BEGIN) + slots * np.uint64(FILL_BYTES)
    logs: list[IoLog] = []
    for part in np.array_split(where, max(rests, 1)):
        if rests:
            plan.steps.pause("kept-rest", REST_S)
        io = (IoBatch.reads if rests else IoBatch.writes)(part, FILL_BYTES)
        logs.append(plan.steps.run(FILL, io, until=DECISIVE, params=plan.params(plan.reach)))
        if len(logs[-1]) < len(part):
            break
    return logs
