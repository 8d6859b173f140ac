"""Bursts of writes, one to each of a number of zones in turn, and the search for the number that costs more.

The edge is searched with small sequential writes: they say least about the medium. The number of zones is
doubled until a write costs a multiple of what it costs with half as many, then halved in. From there on a
round counts as past the edge if it takes longer by half of what each zone beyond the edge costs at least: the
excess of the round that cost a multiple, over all zones that may lie beyond; and by more than seeks over more
zones explain, a share of that excess that grows with the zones (`SLOPE`). Each burst is held against one
of as many writes to fewer zones, so that a volatile cache that fills is not taken for the edge. The first
round opens the zones and does not count. Where a volatile cache stays off, each write waits for the medium,
and the edge costs less of a multiple; there bursts are compared by the zones that both write to.

On a host-managed drive the declared limit is tried: zones are opened until the drive refuses.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.2 and Figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from skylight.evidence import F64, I64, Bools, IoBatch, IoLog, Op
from skylight.infer.zone_writes import PAST_EDGE
from skylight.probe.flushed import TELLING_TURNS
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import HOST_AWARE, HOST_MANAGED, ZonesSeen, joined

KIB = 1 << 10
Kind = Literal["sequential", "non_sequential"]
SMALL_BYTES, LARGE_BYTES = 4 * KIB, 512 * KIB
BURST_WRITES = 1_000
"""Writes of a burst, as the paper's; more where fewer than `LEAST_ROUNDS` rounds would fit."""
LEAST_ROUNDS = 3
REST_S = 5.0
"""Idle time before a burst, in which the drive finishes what the one before left behind: chosen, a hundred
times what the metadata of a zone take."""
PAST_EDGE_WAITING = 1.25
"""The multiple where no volatile cache takes the writes. Such a write costs a seek and a part of a revolution
with few zones too, and zones that follow each other are as far apart whatever their number. With twice as
many zones as the edge half of all writes wait for the metadata of another zone at least, an access of its
own: half as long as a write's, that is a quarter more."""
FEWEST_ZONES, MOST_ZONES = 4, 16_384
"""Where the doubling begins and ends: four times the largest limit that drives are known to declare."""
HALF = 0.5
"""Of what a zone beyond the edge costs, what is taken for one: the middle between none and one."""
SLOPE = 0.1
"""Of the line from the last number that cost no multiple to the first that did: what lies below it is no step
beyond the edge, for more zones cost a little more each anyway. Chosen: where the excess begins at the edge
and grows evenly, the edge so found is high by at most 2.5 %, half of what is right."""
FINE = 0.02
"""The search ends where the last number inside and the first outside are this near, or neighbours."""
USUAL_ZONES = 128
"""Takes the place of the edge in the final bursts where there is none: what most drives declare."""
SHARES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Numbers of zones of the final bursts, in edges."""


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst that was done: to `zones` zones, `rounds` times."""

    kind: Kind
    size_bytes: int
    zones: int
    rounds: int
    log: IoLog

    @property
    def latency_ns(self) -> I64:
        """The latency of each write, ns."""
        return self.log.latency_ns

    @property
    def mean_ns(self) -> float:
        """The mean latency of a write after the first round, ns."""
        return float(self.latency_ns[self.zones :].mean())

    @property
    def cost_ns(self) -> float:
        """What a write in a round costs, ns; see `cost_of`."""
        return self.cost_of(slice(None))

    def cost_of(self, zones: slice) -> float:
        """The mean latency of writes to some of the zones in a round, ns: the median over the rounds but the
        first, so that one command that hangs does not matter."""
        whole = self._rounds[:, zones]
        return float(np.median(whole[1:].mean(axis=1))) if len(whole) > 1 else float("nan")

    def repeated_ns(self, zones: slice) -> I64:
        """The latencies of writes to some of the zones in the rounds but the first, ns."""
        return self._rounds[1:, zones].ravel()

    def usual_ns(self, zones: slice) -> float:
        """What writes to some of the zones take, ns: the mean of the middle half after the first round, so
        that what other clients do in between does not matter."""
        each = np.sort(self.repeated_ns(zones))
        return float(each[len(each) // 4 : len(each) - len(each) // 4].mean()) if len(each) else float("nan")

    @property
    def _rounds(self) -> I64:
        """The latencies of whole rounds, a row a round."""
        return self.latency_ns[: len(self.log) // self.zones * self.zones].reshape(-1, self.zones)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A burst, and one of as many writes to fewer zones that it is held against. `least_ns` is the excess of
    a round that counts as past the edge; 0 where that is not known yet, and a multiple of the cost counts,
    less of one where writes are `waiting` for the medium."""

    tried: Burst
    against: Burst
    least_ns: float
    waiting: bool

    @property
    def both(self) -> slice:
        """The zones by which the bursts are compared. Where writes wait, those that both write to: others may
        lie at other angles. The first is left out: it follows another one."""
        return slice(1, self.against.zones) if self.waiting else slice(None)

    @property
    def costs_ns(self) -> tuple[float, float]:
        """What a write to these zones costs in either burst, ns."""
        return self.tried.cost_of(self.both), self.against.cost_of(self.both)

    @property
    def excess_ns(self) -> float:
        """How much longer a round takes than at the other burst's cost of a write."""
        tried_ns, against_ns = self.costs_ns
        return self.tried.zones * (tried_ns - against_ns)

    @property
    def is_past(self) -> bool:
        """Whether the burst is past the edge."""
        tried_ns, against_ns = self.costs_ns
        past = bool(self.judged(np.float64(tried_ns), np.float64(against_ns)))
        return past and (self.least_ns > 0 or not self.waiting or self._middle_costs_more())

    def _middle_costs_more(self) -> bool:
        """The control: whether the middle of the writes costs more too. If not, few of them do, which other
        clients may have delayed."""
        return self.tried.usual_ns(self.both) >= PAST_EDGE_WAITING * self.against.usual_ns(self.both)

    def judged(self, tried_ns: F64 | np.float64, against_ns: F64 | np.float64) -> Bools | np.bool_:
        """Whether it were past with these costs of a write."""
        if self.least_ns > 0:
            return self.tried.zones * (tried_ns - against_ns) >= self.least_ns
        return tried_ns >= (PAST_EDGE_WAITING if self.waiting else PAST_EDGE) * against_ns


@dataclass(slots=True)
class Seen:
    """What was seen: the zones; whether writes wait for the medium, also to few zones; the comparisons of the
    search, its last number of zones inside and the first outside, None where no number costs more; what each
    zone beyond the edge costs at least, ns a round, 0 where that is not known; final bursts; how many zones a
    host-managed drive let be opened, and whether it then refused; and the state that the test began in."""

    zones: ZonesSeen | None = None
    waiting: bool = False
    search: list[Comparison] = field(default_factory=list)
    inside: int = 0
    outside: int | None = None
    zone_ns: float = 0.0
    final: list[Burst] = field(default_factory=list)
    opened: int | None = None
    refused: bool = False
    state: State = State.UNKNOWN


def burst(steps: Steps, zones: ZonesSeen, kind: Kind, size: int, count: int, writes: int) -> Burst:
    """Resets the first `count` zones, lets the drive come to rest, and writes to them in turn; resets them
    again, so that none is left open."""
    size = max(size, steps.block_bytes)
    places = zones.capacity_bytes // size
    rounds = min(max(writes // count, LEAST_ROUNDS), places)
    name = f"{kind}-{size // KIB}k-{count}"
    each = np.arange(count, dtype=np.int64)
    if kind == "sequential":
        offset = np.repeat(np.arange(rounds, dtype=np.int64), count) * size
    else:  # never at the write pointer, which is at the start of an empty zone
        offset = steps.rng(f"{name}-{writes}").integers(1, places, rounds * count) * size
    where = (zones.start_bytes(np.tile(each, rounds)) + offset).astype(np.uint64)
    steps.run("reset", joined(zones.reset(each), IoBatch.make(Op.FLUSH, [0], 0)))
    steps.pause("rest", REST_S)
    log = steps.run(name, IoBatch.writes(where, size))
    steps.run("reset-after", zones.reset(each))
    return Burst(kind, size, count, rounds, log)


def compare(
    steps: Steps, seen: Seen, zones: ZonesSeen, count: int, fewer: int, least_ns: float = 0.0
) -> Comparison:
    """Bursts of as many small sequential writes to `count` zones and to fewer; see `Comparison.least_ns`."""
    tried = burst(steps, zones, "sequential", SMALL_BYTES, count, BURST_WRITES)
    against = burst(steps, zones, "sequential", SMALL_BYTES, fewer, tried.rounds * count)
    if not seen.search:
        seen.waiting = _waits(steps, against)
    seen.search.append(Comparison(tried, against, least_ns, seen.waiting))
    return seen.search[-1]


def _waits(steps: Steps, few: Burst) -> bool:
    """Whether writes to a few zones wait for the medium: no volatile cache takes them."""
    rotation_ns = steps.known.number("rotation_ns")
    return rotation_ns is not None and float(np.median(few.latency_ns)) >= TELLING_TURNS * rotation_ns


def most_zones(zones: ZonesSeen) -> int:
    """How many zones may be written to: of a host-managed drive no more than may be active, since it refuses
    a write to one more; one less where fewer may be open, since a drive may open a closed zone only while one
    more could be active (null_blk does so)."""
    most, active = min(zones.usable, MOST_ZONES), zones.max_active
    if zones.model != HOST_MANAGED or active is None:
        return most
    return min(most, active - (zones.max_open is not None and zones.max_open < active))


def search(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Finds the edge by doubling, then by halving in."""
    most, excess_ns = most_zones(zones), 0.0
    seen.inside = FEWEST_ZONES
    while seen.outside is None and seen.inside < most:
        count, below = min(2 * seen.inside, most), seen.inside
        if seen.waiting and below > FEWEST_ZONES:
            # A few zones past the edge cost no multiple here: it may lie below the last number too.
            below //= 2
        found = compare(steps, seen, zones, count, below)
        if found.is_past and seen.waiting:
            found = compare(steps, seen, zones, count, below)  # a burst may be slow once
        if found.is_past:
            seen.inside, seen.outside = below, count
            excess_ns = found.excess_ns
        else:
            seen.inside = count
    base, seen.zone_ns = seen.inside, excess_ns / max((seen.outside or 0) - seen.inside, 1)
    while seen.outside is not None and seen.outside - seen.inside > max(1, round(FINE * seen.inside)):
        count = (seen.inside + seen.outside) // 2
        least_ns = max(HALF, SLOPE * (count - base)) * seen.zone_ns
        if compare(steps, seen, zones, count, base, least_ns).is_past:
            seen.outside = count
        else:
            seen.inside = count


def final_bursts(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """The bursts of the figure: both kinds and sizes, around the edge."""
    centre = seen.inside if seen.outside is not None else min(seen.inside, USUAL_ZONES)
    most = most_zones(zones)
    counts = sorted({min(max(round(share * centre), 1), most) for share in SHARES})
    kinds: tuple[Kind, ...] = ("sequential", "non_sequential")
    for kind in kinds if zones.model == HOST_AWARE else kinds[:1]:
        for size in (SMALL_BYTES, LARGE_BYTES):
            for count in counts:
                seen.final.append(burst(steps, zones, kind, size, count, BURST_WRITES))


def try_limit(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Opens zones of a host-managed drive, one more than it declares at most."""
    limits = [limit for limit in (zones.max_open, zones.max_active) if limit is not None]
    if zones.model != HOST_MANAGED or not limits:
        return
    count = min(min(limits) + 1, zones.usable)
    each = np.arange(count, dtype=np.int64)
    steps.run("reset-before-open", zones.reset(each))
    steps.run("open", zones.action(Op.OPEN_ZONE, each))
    report = steps.zones("opened")
    seen.opened = 0 if report is None else report.explicit_open
    seen.refused = seen.opened < count
    steps.run("reset-after-open", zones.reset(each))
