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

from skylight.evidence import I64, IoBatch, IoLog, Stop
from skylight.infer.zone_writes import PACES, Spell, slow_spells, usual_pace_ns
from skylight.probe.journal.write_through import Volatile
from skylight.probe.procedure import Steps
from skylight.probe.zoned import RESET_ALL, ZonesSeen

WRITE_BYTES = 512 << 10
ZONES = 32
"""Written to at a time: the recorded drive takes as many writes before it blocks with 32 as with 128."""
PACE_WRITES, PIECE_WRITES, SHORT_WRITES = 1_024, 8_192, 64
MOST_BYTES = 256 << 30
"""Written without a slow spell: five times the largest persistent cache known, and then it is given up."""
MOST_SPELL_WRITES = 4_096
"""Writes from the start of a slow spell on: six times the longest recorded, half of them to show its end."""
SLOW, AMONG = 16, 64
"""A piece ends where that many of so many writes are slow; merges of a map delay two of 240."""
AFTER_WRITES = 128
"""Writes after a spell, at least, that show that it is over."""


@dataclass(slots=True)
class Seen:
    """What was seen: the zones, the size of the writes, what the volatile cache does that should be off, and
    the log of all writes."""

    zones: ZonesSeen | None = None
    size_bytes: int = WRITE_BYTES
    volatile: Volatile = "none"
    log: IoLog = field(default_factory=lambda: IoLog.joined([]))

    @property
    def latency_ns(self) -> I64:
        """The latency of each write, ns."""
        return self.log.latency_ns

    @property
    def spell(self) -> Spell | None:
        """The first slow spell. It goes on over fast writes that are fewer than its own: a zone was cleaned,
        and the next is waited for."""
        latency, whole = self.latency_ns, None
        for spell in slow_spells(latency):
            if whole is None:
                whole = spell
            elif spell.first - whole.end < whole.writes:
                whole = Spell(whole.first, spell.end, int(latency[whole.first : spell.end].sum()))
        return whole

    @property
    def recovered(self) -> bool:
        """Whether the spell is over: as many fast writes came behind it as belong to it."""
        spell = self.spell
        return spell is not None and len(self.log) - spell.end >= max(AFTER_WRITES, spell.writes)


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
        return piece

    more("pace", PACE_WRITES)
    slow = Stop(round(PACES * usual_pace_ns(seen.latency_ns)), SLOW, AMONG)
    while len(seen.log) * size < MOST_BYTES and seen.spell is None:
        piece = more("fast", PIECE_WRITES, slow)
        if slow.reached(piece) or not len(piece):
            break
    while slow.reached(seen.log) and not _done(seen) and len(more("blocked", SHORT_WRITES)):
        pass
    steps.run("reset-after", RESET_ALL)


def _done(seen: Seen) -> bool:
    """Whether the spell is over, or has gone on for long."""
    spell = seen.spell
    return spell is not None and (seen.recovered or len(seen.log) - spell.first >= MOST_SPELL_WRITES)
