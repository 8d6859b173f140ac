"""Bursts of writes, one to each of a number of zones in turn, and the search for the number that costs more.

The edge is searched with small sequential writes: they say least about the medium. The number of zones is
doubled until a write costs a multiple of what it costs with half as many, then halved in. From there on a
round counts as past the edge if it takes longer by half of what each zone beyond the edge costs at least: the
excess of a round that is outside, over all zones that may lie beyond; and by what more zones cost on
the near side of it, where seeks grow longer (`growth_ns`). The first round opens the zones: it does not
count.

A volatile cache takes the writes to many zones for a while, then writes wait until it has written others out,
the longer the more zones they go to: that is a multiple too. So behind the first multiple the search begins
anew, with a FLUSH behind as many writes as were just taken at full speed (`_flush_every`); writes alone are
timed. What is slow then does not wait for room in the cache. Where a FLUSH does not empty it
(`Burst.was_emptied`), each burst is held against one of as many writes to fewer zones instead.

Where a volatile cache stays off, each write waits for the medium, and the edge costs less of a multiple;
there bursts are compared by the zones that both write to, in the rounds that both have: where a write passes
under the head depends on the zone, and on how far into it it goes.

On a host-managed drive the declared limit is tried: zones are opened until the drive refuses.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.2 and Figure 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from skylight.evidence import F64, I64, Bools, IoBatch, IoLog, Op
from skylight.infer.zone_throughput import PAST_EDGE
from skylight.probe.durable_writes import SLOW_FLUSH, TELLING_TURNS, with_flushes
from skylight.probe.known_state import State
from skylight.probe.open_zones.findings import EDGE_RIGHT
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
NOISE, CLEAR = 2.0, 4.0
"""Standard deviations of a round's excess that it has to exceed, and below how many the burst is made again,
as it may be slow by chance. Chosen: the first zone past the edge costs two writes a round or more, which
among six rounds are three and a half."""
GROUP_WRITES, FEWEST_GROUPS = 40, 5
"""Writes of a group of rounds, of which the median counts. Chosen: so few that outliers, one write in two
hundred, leave four groups of five alone; so many that a miss or two a round over a dozen zones, few of which
are compared, are in every group. With fewer groups than these what varies is judged by single writes."""
FINE = 0.005
"""The search ends where the last number inside and the first outside are this near, or neighbours."""
USUAL_ZONES = 128
"""Takes the place of the edge in the final bursts where there is none: what most drives declare."""
SHARES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Numbers of zones of the final bursts, in edges."""


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst that was done: to `zones` zones, `rounds` times, with a FLUSH behind each `flush_every` writes
    or none at all."""

    kind: Kind
    size_bytes: int
    zones: int
    rounds: int
    log: IoLog
    flush_every: int | None = None

    @property
    def latency_ns(self) -> I64:
        """The latency of each write, ns."""
        return self.log.latency_ns if self.flush_every is None else self.log.only(Op.WRITE).latency_ns

    @property
    def was_emptied(self) -> bool:
        """Whether FLUSHes wrote out what a volatile cache held: they take a multiple of what a write does."""
        flushes = self.log.only(Op.FLUSH).latency_ns
        return len(flushes) > 0 and bool(np.median(flushes) >= SLOW_FLUSH * np.median(self.latency_ns))

    @property
    def mean_ns(self) -> float:
        """The mean latency of a write after the first round, ns."""
        return float(self.latency_ns[self.zones :].mean())

    @property
    def slowest_zone_ns(self) -> float:
        """What a write to the zone that takes longest usually takes after the first round, ns."""
        return float(np.median(self._rounds[1:], axis=0).max())

    @property
    def cost_ns(self) -> float:
        """What a write costs, ns: see `groups_ns`."""
        return float(np.median(self.groups_ns(slice(None))))

    def groups_ns(self, zones: slice, rounds: int | None = None) -> F64:
        """The mean latency of writes to some of the zones in each group of the first `rounds` rounds
        but the very first, ns: of groups the median counts, so one command that hangs does not matter."""
        whole = self._rounds[1:rounds, zones]
        if whole.size == 0:
            return np.full(1, np.nan)
        count = max(len(whole) // -(-GROUP_WRITES // whole.shape[1]), 1)
        return np.array([part.mean() for part in np.array_split(whole, count)])

    def repeated_ns(self, zones: slice, rounds: int | None = None) -> I64:
        """Latencies of writes to some of the zones in the first `rounds` rounds but the very first, ns."""
        return self._rounds[1:rounds, zones].ravel()

    def usual_ns(self, zones: slice, rounds: int | None = None) -> float:
        """What writes to some of the zones take, ns: the mean of the middle half after the first round, so
        that what other clients do in between does not matter."""
        each = np.sort(self.repeated_ns(zones, rounds))
        return float(each[len(each) // 4 : len(each) - len(each) // 4].mean()) if len(each) else float("nan")

    @property
    def _rounds(self) -> I64:
        """The latencies of whole rounds, a row a round."""
        each = self.latency_ns
        return each[: len(each) // self.zones * self.zones].reshape(-1, self.zones)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A burst, and one to fewer zones that it is held against, of as many writes unless FLUSHes keep the
    volatile cache empty. `least_ns` is the excess of a round that counts as past the edge; 0 where that is
    not known yet, and a multiple of the cost counts, less of one where writes are `waiting` for the
    medium."""

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
    def _rounds(self) -> int | None:
        """How many rounds are compared. Where writes wait, those that both bursts have: later ones go further
        into the zones, where the same way between two of them may take a revolution more or less."""
        return min(self.tried.rounds, self.against.rounds) if self.waiting else None

    @property
    def groups_ns(self) -> tuple[F64, F64]:
        """What a write to these zones costs in each group of rounds of either burst, ns."""
        tried, against = (one.groups_ns(self.both, self._rounds) for one in (self.tried, self.against))
        return tried, against

    @property
    def costs_ns(self) -> tuple[float, float]:
        """What a write to these zones costs in either burst, ns."""
        tried, against = self.groups_ns
        return float(np.median(tried)), float(np.median(against))

    @property
    def excess_ns(self) -> float:
        """How much longer a round takes than at the other burst's cost of a write."""
        tried, against = self.groups_ns
        return self.tried.zones * _more(tried, against, paired=self.waiting)

    @property
    def most_excess_ns(self) -> float:
        """The excess that a round has at most, as writes vary."""
        return self.excess_ns + NOISE * self._deviation_ns

    @property
    def is_past(self) -> bool:
        """Whether the burst is past the edge."""
        past = bool(self._judged(*self.costs_ns, self.excess_ns))
        if not past or self.least_ns > 0:
            return past
        return self._middle_costs_more() if self.waiting else self.is_more_than_chance

    @property
    def is_more_than_chance(self) -> bool:
        """Whether a round takes longer than single writes, as they vary, make it by chance. Where a volatile
        cache takes a write at once, one of hundreds that hangs is a multiple in the mean."""
        return self.excess_ns >= NOISE * self._deviation_ns

    @property
    def is_clear(self) -> bool:
        """Whether the excess is more than what comes by chance."""
        return self.excess_ns >= CLEAR * self._deviation_ns

    def resampled(self, draw: np.random.Generator, times: int) -> tuple[Bools, F64]:
        """Whether it were past, and the excess of a round, with groups, or writes where these are few, drawn
        from those that were seen, so often."""
        groups = self.groups_ns
        if len(groups[0]) >= FEWEST_GROUPS and len(groups[1]) >= FEWEST_GROUPS:
            index = [draw.integers(0, len(each), (times, len(each))) for each in groups]
            drawn = [each[index[0 if self.waiting else k]] for k, each in enumerate(groups)]
            costs = [np.median(each, axis=1) for each in drawn]
            more = np.median(drawn[0] - drawn[1], axis=1) if self.waiting else costs[0] - costs[1]
        else:
            writes = [one.repeated_ns(self.both, self._rounds) for one in (self.tried, self.against)]
            costs = [each[draw.integers(0, len(each), (times, len(each)))].mean(axis=1) for each in writes]
            more = costs[0] - costs[1]
        excess = self.tried.zones * more
        return np.asarray(self._judged(costs[0], costs[1], excess)), excess

    @property
    def _deviation_ns(self) -> float:
        """What the excess may be off by chance, one standard deviation, from how single writes vary."""
        writes = [one.repeated_ns(self.both, self._rounds) for one in (self.tried, self.against)]
        return self.tried.zones * math.sqrt(sum(float(each.var()) / len(each) for each in writes))

    def _middle_costs_more(self) -> bool:
        """The control: whether the middle of the writes costs more too. If not, few of them do, which other
        clients may have delayed."""
        tried, against = (one.usual_ns(self.both, self._rounds) for one in (self.tried, self.against))
        return tried >= PAST_EDGE_WAITING * against

    def _judged(
        self, tried_ns: F64 | float, against_ns: F64 | float, excess_ns: F64 | float
    ) -> Bools | np.bool_ | bool:
        """Whether it were past with these costs of a write and this excess."""
        if self.least_ns > 0:
            return excess_ns >= max(self.least_ns, NOISE * self._deviation_ns)
        return tried_ns >= (PAST_EDGE_WAITING if self.waiting else PAST_EDGE) * against_ns


def _more(tried: F64, against: F64, *, paired: bool) -> float:
    """How much more the one costs than the other, group by group where they are of the same rounds."""
    return float(np.median(tried - against) if paired else np.median(tried) - np.median(against))


@dataclass(slots=True)
class Seen:
    """What was seen: the zones; whether writes wait for the medium, also to few zones; the comparisons of the
    search, its last number of zones inside and the first outside, None where no number costs more; what each
    zone beyond the edge costs at least, ns a round, 0 where that is not known; final bursts; how many zones a
    host-managed drive let be opened, and whether it then refused; and the state that the test began in.
    Bursts of the search have a FLUSH behind each `flush_every` writes from where that is known on."""

    zones: ZonesSeen | None = None
    waiting: bool = False
    flush_every: int | None = None
    search: list[Comparison] = field(default_factory=list)
    inside: int = 0
    outside: int | None = None
    zone_ns: float = 0.0
    stays: bool = True
    hidden: int = 0
    final: list[Burst] = field(default_factory=list)
    opened: int | None = None
    refused: bool = False
    state: State = State.UNKNOWN


def burst(
    steps: Steps, zones: ZonesSeen, kind: Kind, size: int, count: int, writes: int, *,
    flush_every: int | None = None,
) -> Burst:  # fmt: skip
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
    io = IoBatch.writes(where, size)
    if flush_every is not None:
        name, io = f"{name}-flushed", with_flushes(io, flush_every)
    log = steps.run(name, io)
    steps.run("reset-after", zones.reset(each))
    return Burst(kind, size, count, rounds, log, flush_every)


def compare(
    steps: Steps, seen: Seen, zones: ZonesSeen, count: int, fewer: int, least_ns: float = 0.0,
    *, fewer_first: bool = False,
) -> Comparison:  # fmt: skip
    """Bursts of small sequential writes to `count` zones and to fewer; see `Comparison.least_ns`."""
    small = partial(burst, steps, zones, "sequential", SMALL_BYTES, flush_every=seen.flush_every)
    as_many = max(BURST_WRITES // count, LEAST_ROUNDS) * count
    bursts = [(count, BURST_WRITES), (fewer, BURST_WRITES if seen.flush_every is not None else as_many)]
    if fewer_first:
        against, tried = (small(*one) for one in reversed(bursts))
    else:
        tried, against = (small(*one) for one in bursts)
    if not seen.search:
        seen.waiting = _waits(steps, against)
    seen.search.append(Comparison(tried, against, least_ns, seen.waiting))
    return seen.search[-1]


def _waits(steps: Steps, few: Burst) -> bool:
    """Whether writes to a few zones wait for the medium: no volatile cache takes them. Those to one zone do
    so for about the same angle in each round, which may be next to none for most zones, but not for all."""
    rotation_ns = steps.known.number("rotation_ns")
    return rotation_ns is not None and few.slowest_zone_ns >= TELLING_TURNS * rotation_ns


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
    seen.inside = FEWEST_ZONES
    _double(steps, seen, zones)
    if not seen.waiting and (seen.outside is not None or _grew(seen)):
        _double_flushed(steps, seen, zones)
    if seen.outside is not None:
        _halve(steps, seen, zones)


def _double(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Doubles the zones inside until as many are past the edge."""
    most, excess_ns = most_zones(zones), 0.0
    while seen.outside is None and seen.inside < most:
        count, below = min(2 * seen.inside, most), seen.inside
        if seen.waiting and below > FEWEST_ZONES:
            # A few zones past the edge cost no multiple here: it may lie below the last number too.
            below //= 2
        found = compare(steps, seen, zones, count, below)
        if found.is_past and (seen.waiting or not found.is_clear):
            found = compare(steps, seen, zones, count, below)  # a burst may be slow once
        if found.is_past and not seen.waiting and _is_in_doubt(seen, below):
            below //= 2
            found = compare(steps, seen, zones, count, below)
        if found.is_past:
            seen.inside, seen.outside = below, count
            excess_ns = found.excess_ns
        else:
            seen.inside = count
    seen.zone_ns = excess_ns / max((seen.outside or 0) - seen.inside, 1)


def _double_flushed(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Doubles anew with FLUSHes, from a number of zones on whose writes the volatile cache takes at full
    speed; leaves what was found as it is where FLUSHes do not empty it."""
    found = seen.inside, seen.outside, seen.zone_ns
    seen.inside = seen.flush_every = _flush_every(seen)
    seen.outside = None
    first = len(seen.search)
    compare(steps, seen, zones, seen.inside, max(seen.inside // 2, 1))  # what more zones cost anyway
    if seen.search[-1].tried.was_emptied:
        _double(steps, seen, zones)
        return
    del seen.search[first:]
    seen.flush_every = None
    seen.inside, seen.outside, seen.zone_ns = found


def _grew(seen: Seen) -> bool:
    """Whether a write costs a multiple with the most zones, though it never did with twice as many: a small
    volatile cache is full sooner the more zones there are, and from there on each write waits, so that the
    edge costs no multiple."""
    return seen.search[-1].tried.cost_ns >= PAST_EDGE * seen.search[0].against.cost_ns


def _flush_every(seen: Seen) -> int:
    """The most zones to which a burst cost no more than to the fewest: the volatile cache takes a round."""
    few_ns = seen.search[0].against.cost_ns
    level = [one.tried for one in seen.search if one.tried.cost_ns < PAST_EDGE_WAITING * few_ns]
    return max((one.zones for one in level if one.zones <= seen.inside), default=FEWEST_ZONES)


def _halve(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """Halves in between the last number of zones inside and the first outside; then the control."""
    base = seen.inside
    more_ns = growth_ns(seen, base)
    while seen.outside is not None and seen.outside - seen.inside > max(1, round(FINE * seen.inside)):
        count = (seen.inside + seen.outside) // 2
        grown_ns = more_ns * count * (count - base)
        least_ns = HALF * seen.zone_ns + grown_ns
        found = compare(steps, seen, zones, count, base, least_ns)
        if found.is_past and not found.is_clear:
            found = compare(steps, seen, zones, count, base, least_ns)
        if found.is_past:
            seen.outside = count
            # Fewer zones lie beyond the edge than were taken for it: each costs more than that.
            seen.zone_ns = max(seen.zone_ns, (found.excess_ns - grown_ns) / (count - seen.inside))
        else:
            seen.inside = count
    _control(steps, seen, zones, base, more_ns)


def _control(steps: Steps, seen: Seen, zones: ZonesSeen, base: int, more_ns: float) -> None:
    """Whether the edge stays where numbers beside it are compared in the other order; and how many zones
    beyond it may hide in what a round takes with the last number inside, if each costs what it does past the
    edge."""
    zone_ns = seen.zone_ns
    for count in beside(seen.inside):
        if not base < count <= most_zones(zones):
            continue
        grown_ns = more_ns * count * (count - base)
        least_ns = HALF * seen.zone_ns + grown_ns
        found = compare(steps, seen, zones, count, base, least_ns, fewer_first=True)
        if count < seen.inside:
            seen.stays &= not (found.is_past and found.is_clear)
        else:
            seen.stays &= found.is_past
            zone_ns = (found.excess_ns - grown_ns) / (count - seen.inside)
    inside = _costs_of(seen, seen.inside)
    if seen.inside > base and inside is not None and zone_ns > 0:
        most_ns = inside[0].most_excess_ns - more_ns * seen.inside * (seen.inside - base)
        seen.hidden = min(math.ceil(max(most_ns, 0.0) / zone_ns), seen.inside - base)
    seen.stays &= not any(_contradicts(one, seen) for one in seen.search)


def _contradicts(one: Comparison, seen: Seen) -> bool:
    """Whether more zones than the first number outside were no multiple, and cost a round less than half of
    what as many beyond the edge cost at least. A write that just meets its place misses it once jitter is
    larger, as behind a write that waits long: a revolution more for some zones, and with another number of
    zones for none."""
    if seen.outside is None or one.tried.zones <= seen.outside or one.against.zones > seen.inside:
        return False
    if one.is_past or one.least_ns or one.tried.flush_every != seen.flush_every:
        return False
    return one.most_excess_ns < HALF * seen.zone_ns * (one.tried.zones - seen.inside)


def beside(edge: int) -> tuple[int, int]:
    """The numbers of zones nearest to an edge that is right of which one is inside and the other past it.

    >>> beside(1_800), beside(6)
    ((1714, 1890), (5, 7))
    """
    inside, past = edge / (1 + EDGE_RIGHT.part), edge * (1 + EDGE_RIGHT.part)
    return min(round(inside), edge - 1), max(round(past), edge + 1)


def _costs_of(seen: Seen, count: int) -> tuple[Comparison, float, float] | None:
    """The last comparison in which `count` zones were tried, and both costs in it."""
    tried = [one for one in seen.search if one.tried.zones == count]
    return (tried[-1], *tried[-1].costs_ns) if tried else None


def _is_in_doubt(seen: Seen, count: int) -> bool:
    """Whether `count` zones cost a good part of a multiple: they may lie a little past the edge already."""
    found = _costs_of(seen, count)
    return found is not None and found[1] >= PAST_EDGE_WAITING * found[2]


def growth_ns(seen: Seen, count: int) -> float:
    """What each zone more adds to the cost of a write up to `count` zones, ns: what is not past the edge."""
    found = _costs_of(seen, count)
    if found is None:
        return 0.0
    one, tried_ns, against_ns = found
    if not one.is_more_than_chance:
        return 0.0  # commands that hung in one of the bursts
    return max(tried_ns - against_ns, 0.0) / (one.tried.zones - one.against.zones)


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
