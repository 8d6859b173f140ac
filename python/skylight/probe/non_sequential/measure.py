"""Sustained non-sequential writes to a few zones: until the drive blocks, and until it recovers.

Writes go to places of the zones in random order, one at a time with the volatile cache off, or a FLUSH behind
each, so that each is on its way to the persistent cache alone. No place is written twice, and when all of
some zones are used up others follow: what is overwritten in a log is free without any cleaning. A first piece
gives the pace; from there on pieces end where many of a few writes are far off it, and from then on they are
short, until a slow spell is over or has gone on for long.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.3 and Figure 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import I64, Bools, IoBatch, IoLog, Op, Stop
from skylight.infer.zone_throughput import PACES, Spell, more_often, slow_spells, usual_pace_ns
from skylight.probe.durable_writes import LEAST_BLOCK, ROUNDS
from skylight.probe.journal.write_through import APART_BYTES, Places, Volatile
from skylight.probe.procedure import Steps
from skylight.probe.zoned import FILL_BYTES, RESET_ALL, ZonesSeen, joined

WRITE_BYTES = 512 << 10
ZONES = 32
"""Written to at a time: the recorded drive takes as many writes before it blocks with 32 as with 128."""
FILLED_BYTES = 256 << 20
"""Of a zone that is written in order before the volatile cache is looked at. Chosen: as much as the largest
volatile caches of disks hold."""
PACE_WRITES, PIECE_WRITES, SHORT_WRITES, SHORT_PARTS = 1_024, 8_192, 64, 8
MOST_BYTES = 256 << 30
"""Written without a slow spell: five times the largest persistent cache known, and then it is given up."""
MOST_SPELL_WRITES = 4_096
"""Slow writes of a spell after which it is given up, six times the most recorded; or all its writes, if they
are so many more than those within which it may go on (`AGAIN_WITHIN`)."""
SLOW, AMONG = 16, 64
"""A piece ends where that many of so many writes are slow; merges of a map delay two of 240."""
AFTER_WRITES = 128
"""Writes after a spell, at least, that show that it is over."""
AGAIN_WITHIN = 1 / 8
"""Of the writes before a spell: if it slows down again within so many, it has not recovered. A drive whose
cleaning of one zone frees space for many writes blocks one of these many."""
WAIT_NS = 2_000_000_000
"""A write that takes so long waits for cleaning, hangs, or is tried again and again, which desktop drives do
for 7 s and longer: no seek or merge of a map takes it."""
LEAST_BEFORE = 128
"""Writes before a spell. Chosen: as many as show that one is over (`AFTER_WRITES`); the pace is that of all
writes, and what those of a spell take is `PACES` times as much. The recorded drive takes
34,933 and more."""
LEAST_SLOW = 4
"""Slow writes of a spell. Chosen: a command hangs once, not four times in few writes after none in many."""


@dataclass(slots=True)
class Seen:
    """What was seen: the zones, the size of the writes, what the volatile cache does that should be off, the
    log of all writes, and after how many of them how many zones had non-sequential data."""

    zones: ZonesSeen | None = None
    size_bytes: int = WRITE_BYTES
    volatile: Volatile = "none"
    log: IoLog = field(default_factory=lambda: IoLog.joined([]))
    counts: list[tuple[int, int]] = field(default_factory=list)
    _judged: tuple[IoLog, Spell | None, I64] | None = field(default=None, init=False, repr=False)

    @property
    def latency_ns(self) -> I64:
        """The latency of each write, ns."""
        return self.log.latency_ns

    @property
    def spell(self) -> Spell | None:
        """The first slow spell that blocks writes again and again. It goes on over fast writes that are
        fewer than its own, or a small part of those before it: a zone was cleaned, and the next is waited
        for. Else the last that may still become one; None where there is none."""
        return self._judgement[0]

    @property
    def slow_ns(self) -> I64:
        """The latencies of the slow writes of the spell, ns."""
        return self._judgement[1]

    @property
    def _judgement(self) -> tuple[Spell | None, I64]:
        """The spell and its slow writes, found once for each log: that takes a walk over all of it."""
        if self._judged is None or self._judged[0] is not self.log:
            self._judged = (self.log, *self._judge())
        return self._judged[1:]

    def _judge(self) -> tuple[Spell | None, I64]:
        whole, slow, (spells, is_slow) = None, 0, self._slow
        for spell in spells:
            more = int(np.count_nonzero(is_slow[spell.first : spell.end]))
            if whole is not None and spell.first - whole.end < max(whole.writes, AGAIN_WITHIN * whole.first):
                took_ns = int(self.latency_ns[whole.first : spell.end].sum())
                whole, slow = Spell(whole.first, spell.end, took_ns), slow + more
            elif slow < LEAST_SLOW:
                whole, slow = spell, more
        if whole is not None and slow < LEAST_SLOW and self._is_over(whole):
            whole = None
        whole = None if whole is None else self._without_lone(whole, is_slow)
        whole = self._since_more_often(whole, is_slow)
        if whole is None:
            return None, self.latency_ns[:0]
        inside = slice(whole.first, whole.end)
        return whole, self.latency_ns[inside][is_slow[inside]]

    def _without_lone(self, whole: Spell, is_slow: Bools) -> Spell:
        """A spell without the single slow writes at its head that lie `PACES` times as far from the next as
        slow writes in it usually do: commands that hung shortly before it. As many as make a spell are no
        such commands, but waits for single zones."""
        at = whole.first + np.flatnonzero(is_slow[whole.first : whole.end])
        gaps, lone = np.diff(at), 0
        while len(at) - lone > LEAST_SLOW and gaps[lone] > PACES * np.median(gaps):
            lone += 1
        first = int(at[lone]) if 0 < lone < LEAST_SLOW else whole.first
        return Spell(first, whole.end, int(self.latency_ns[first : whole.end].sum()))

    def _since_more_often(self, whole: Spell | None, is_slow: Bools) -> Spell | None:
        """The spell, or one that began before it: from where slow writes come more often on, as a zone that
        is waited for has room for many. Its slow writes are marked."""
        latency = self.latency_ns
        upto = len(latency) if whole is None else whole.first  # many waits at once would outweigh rare ones
        waits = latency > PACES * float(np.median(latency)) if len(latency) else is_slow
        first = more_often(waits[:upto])
        if first is None or np.count_nonzero(waits[first:upto]) < LEAST_SLOW:
            return whole
        end = max(int(np.flatnonzero(waits)[-1]) + 1, 0 if whole is None else whole.end)
        is_slow[first:end] |= waits[first:end]
        return Spell(first, end, int(latency[first:end].sum()))

    @property
    def _slow(self) -> tuple[list[Spell], Bools]:
        """The slow spells, and the single writes beside them that wait, in their order; and which writes are
        slow."""
        latency = self.latency_ns
        spells, is_slow = slow_spells(latency), latency >= WAIT_NS
        alone = is_slow.copy()
        limit_ns = PACES * usual_pace_ns(latency)
        for spell in spells:
            inside = slice(spell.first, spell.end)
            alone[inside] = False
            is_slow[inside] |= latency[inside] > limit_ns
        spells += [Spell(one, one + 1, int(latency[one])) for one in np.flatnonzero(alone).tolist()]
        return sorted(spells, key=lambda spell: spell.first), is_slow

    def _is_over(self, spell: Spell) -> bool:
        """Whether writes are fast again: so many came behind the spell that it would not go on."""
        return len(self.log) - spell.end >= max(AFTER_WRITES, spell.writes, AGAIN_WITHIN * spell.first)

    @property
    def recovered(self) -> bool:
        """Whether the first spell is over."""
        return self.spell is not None and self._is_over(self.spell)


def places(steps: Steps, zones: ZonesSeen) -> Places:
    """Where the looks at a volatile cache write and read: blocks of the second zone, out of order, and places
    of the first, a part of which is written in order before, and flushed. What no zone holds is read without
    the medium, and what lies in none is written in place."""
    block = max(LEAST_BLOCK, steps.block_bytes)
    first, second = zones.start_bytes(np.arange(2, dtype=np.int64)).astype(np.uint64)
    filled = min(zones.capacity_bytes, FILLED_BYTES) // FILL_BYTES * FILL_BYTES
    io = IoBatch.writes(first + np.arange(0, filled, FILL_BYTES, dtype=np.uint64), FILL_BYTES)
    steps.run("filled", joined(io, IoBatch.make(Op.FLUSH, [0], 0)))
    # The half that was written first: what came last may still be in a cache.
    read = steps.rng("rounds").integers(0, filled // 2 // block, ROUNDS).astype(np.uint64) * np.uint64(block)
    apart = min(APART_BYTES, zones.capacity_bytes // (ROUNDS + 1) // block * block)
    written = second + np.uint64(block) + np.arange(ROUNDS, dtype=np.uint64) * np.uint64(apart)
    return Places(written, first + read)


def _plan(steps: Steps, zones: ZonesSeen, size: int, done: int, count: int) -> IoBatch:
    """The next writes after so many: every place but the write pointer of an empty zone once, some zones
    after the other; fewer at the end of the last zone."""
    each = zones.capacity_bytes // size - 1
    number = np.arange(done, min(done + count, zones.usable * each), dtype=np.int64)
    where = np.empty(len(number), np.int64)
    for group in np.unique(number // (ZONES * each)).tolist():
        first = group * ZONES
        order = steps.rng(f"places-{group}").permutation(min(ZONES, zones.usable - first) * each)
        mine = number // (ZONES * each) == group
        zone, place = np.divmod(order[number[mine] - first * each], each)
        where[mine] = zones.start_bytes(first + zone) + (place + 1) * size
    return IoBatch.writes(where.astype(np.uint64), size)


def sustain(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Writes until the drive has blocked and recovered, or is given up."""
    steps.run("reset", RESET_ALL)
    size = seen.size_bytes

    def more(name: str, count: int, until: Stop | None = None) -> IoLog:
        piece = steps.run(name, _plan(steps, zones, size, len(seen.log), count), until=until)
        seen.log = IoLog.joined([seen.log, piece])
        counted = steps.non_sequential()
        if counted is not None:
            seen.counts.append((len(seen.log), counted))
        return piece

    more("pace", PACE_WRITES)
    slow = Stop(round(PACES * usual_pace_ns(seen.latency_ns)), SLOW, AMONG)
    short = 0
    while len(seen.log) * size < MOST_BYTES and not _done(seen):
        begun = slow.reached(seen.log) or seen.spell is not None
        # Each piece has all writes judged anew: they grow with what was written in short ones so far.
        piece = max(SHORT_WRITES, short // SHORT_PARTS)
        written = len(more("blocked", piece) if begun else more("fast", PIECE_WRITES, slow))
        short = short + written if begun else 0
        if not written:
            break
    steps.run("reset-after", RESET_ALL)


def _done(seen: Seen) -> bool:
    """Whether the spell is over, or has gone on for long."""
    spell = seen.spell
    if spell is None or len(seen.slow_ns) < LEAST_SLOW:
        return False
    most = MOST_SPELL_WRITES + AGAIN_WITHIN * spell.first
    return seen.recovered or len(seen.slow_ns) >= MOST_SPELL_WRITES or spell.writes >= most
