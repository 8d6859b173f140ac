"""Writes that wait: which of them stall, do stalls come at an even distance, and from where on do they not
end?

Outliers come at random; a map of the cache is merged at a count of writes; a part of the cache that is full
stalls whenever so many bytes more were written to it; and a drive whose whole cache is full cleans for every
entry that it writes. So a stall is not known by how long it lasts but by the company it keeps:

| function | answers |
|---|---|
| `slow_ones` | which lone writes took longer than the bulk of them allows |
| `periodic` | the row of stalls, at one distance and none missing, with which writes end |
| `refills` | how many writes go in between one run of stalls and the next, whatever the runs last |
| `each_refill` | the same row of stalls, where it names every second or third run of them only |
| `rare_period` | the row of rare stalls that could hardly line up by themselves |
| `slow_from` | from which position on most take longer than a limit, to the end |
| `are_parted` | does the clock part entries, or may several look like one |
| `change_point` | from which write on a drive cleans before it takes more |
| `change_of_pace` | from where on writes are slower on the whole, though a large cache takes many at once |
| `before_stalls` | how many writes were done before the stalls that ended a run |

Invariant: pure functions of latencies and completions, which name positions of these only.

Sources: Skylight (FAST '15), section 4.3 (the 240th write of Figures 4 and 5) and 4.6 (cleaning shows as a
drop of the rate to near zero); Page, "Continuous inspection schemes", Biometrika 1954 (the cumulative sum).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, Stop
from skylight.infer.host_clock import tick_ns

Bools = NDArray[np.bool_]

SLOW = 2.2
"""Times the median: a lone write waits for a revolution at most beside what it takes; a band is many
revolutions."""
FEWEST_HITS = 5
LAST_STARTS = 48
ALIKE = 0.4
"""A stall is at least so much of the median one: it is the same work each time."""
MOST_DELAYS = 0.99
"""The quantile of what is no stall that other clients' delays mostly stay below. Chosen: outliers may be
longer than any stall, and what one in a hundred makes of a question is asked again."""
GAP = 0.9
"""Of the shortest stall, what delays take at most for a limit between the two. Chosen: the stall of a shorter
write is shorter by less than half of the rest."""

BULK = 95  # per cent of writes that no merge delays, whatever the period
LEAST_STALL_NS = 100_000
SPREADS = 3.0
TURN_PART = 0.6  # on a disk a merge costs a whole revolution at least, a step to another track less

RAISED = 1.5
"""Times the limit of stalls, which parts delays little above it from the shortest stalls. Chosen: the limit
is two fifths of a median stall, and the shortest take two thirds of it and more."""
FEWEST_REFILLS, REFILL_SLACK = 8, 3
"""Distances between runs of stalls that have to be multiples of one, and how many numbers of writes count as
one log, which may end amid a write; two more for each log more."""
FEWEST_RARE, SHORTEST_RARE = 3, 4
MOST_CHANCE = 1e-3
MOST_SLIPS = 0.25  # of the stalls of a period: more of them and it is another's
SEEN_PART = 0.3

AT_ONCE_NS = 5_000
SLOW_ENTRY = 2.0  # times the usual
MISSED_TURNS = 1.5
MOST_TIMES = 3.0  # what counts as slow, which one entry may count: no single one may decide
LEAST_SUM = 1.5
FEWEST_ENTRIES = 4
PACES = 100
"""Parts of a run whose paces are compared. Chosen: a change is placed to a hundredth, and a map's merge is
no part."""
AGREES = 4.0
USUAL_PERCENT = 85


def slow_beyond(latency_ns: I64, rotation_ns: float | None) -> float:
    """What the bulk of writes and its spread allow, ns; `rotation_ns` where the cache is on disk."""
    if not len(latency_ns):
        return 0.0
    low, bulk = np.percentile(latency_ns, [50, BULK])
    least = LEAST_STALL_NS if rotation_ns is None else TURN_PART * rotation_ns
    return float(bulk + (max(least, SPREADS * (bulk - low)) if rotation_ns is None else least))


def slow_ones(latency_ns: I64, rotation_ns: float | None) -> Bools:
    """Which writes took longer than `slow_beyond`."""
    return np.asarray(latency_ns > slow_beyond(latency_ns, rotation_ns), np.bool_)


def before_stalls(latency_ns: I64, until: Stop) -> int:
    """How many writes were done before the first of the stalls by which `until` ended them; all, if it did
    not."""
    slow = np.flatnonzero(latency_ns[-until.within :] >= until.latency_ns)
    if len(slow) < until.count:
        return len(latency_ns)
    return int(len(latency_ns) - min(until.within, len(latency_ns)) + slow[0])


@dataclass(frozen=True, slots=True)
class Stalls:
    """A row of stalls: index of the first, writes from one to the next, how many, and their median latency;
    `usual_ns` is the median of the rest; `run` is how many stalls follow each other at once. None takes less
    than `least_ns`, where that is known."""

    first: int
    period: int
    count: int
    stall_ns: float
    usual_ns: float
    run: int = 1
    least_ns: float = 0.0

    @property
    def limit_ns(self) -> int:
        """What tells a stall from the usual."""
        return int(max(ALIKE * self.stall_ns, SLOW * self.usual_ns, self.least_ns))

    def clear_of_delays(self, latency_ns: I64) -> Stalls:
        """The same with a limit half-way between what nearly all of these latencies but the stalls take, and
        the shortest stalls: other clients delay many writes, some for nearly as long as a band takes to
        clean. Where a gap does not part the two, nothing changes.

        Only of stalls that are the same work each time, or more where a write elsewhere adds a band.

        >>> latency = np.full(1000, 10)
        >>> latency[19::20] = 200
        >>> latency[4::50] = 110
        >>> found = periodic(latency)
        >>> found.limit_ns, found.clear_of_delays(latency).limit_ns
        (80, 155)
        """
        row = np.arange(self.first, len(latency_ns), self.period)
        rest = np.delete(latency_ns[self.first :], row - self.first)
        if self.run > 1 or not len(rest):
            return self
        longest, shortest = np.quantile(rest, MOST_DELAYS), np.quantile(latency_ns[row], 1 - BULK / 100)
        apart = longest <= GAP * shortest
        return replace(self, least_ns=float(longest + shortest) / 2) if apart else self


def periodic(
    latency_ns: I64,
    fewest: int = FEWEST_HITS,
    shortest: int = 2,
    *,
    whole: bool = False,
    least_ns: float = 0.0,
) -> Stalls | None:
    """The row of stalls that the latencies end with, or None; if it is to be `whole`, none may be missing
    from the first distance on. What takes less than `least_ns` does not stall.

    Other clients delay many writes, some of which would line up by themselves: then the limit of what is slow
    is raised until only the work of a stall takes as long. A row counts if chance hardly makes one as long.

    >>> latency = np.full(100, 10)
    >>> latency[[20, 33, 46, 59, 72, 85, 98, 60]] = 90
    >>> found = periodic(latency)
    >>> (found.first, found.period, found.count)
    (20, 13, 7)
    >>> periodic(np.full(100, 10)) is None, periodic(np.zeros(100, np.int64)) is None
    (True, True)
    """
    if len(latency_ns) < 2 * fewest:
        return None
    limit_ns = _least_limit_ns(latency_ns, least_ns)
    while len(slow := np.flatnonzero(latency_ns >= limit_ns)) >= fewest:
        if 2 * len(slow) <= len(latency_ns):
            found = _row(latency_ns, slow, fewest, shortest, whole=whole)
            if found is not None and _by_accident(slow, found.count, len(latency_ns), whole) <= MOST_CHANCE:
                return found
        limit_ns *= 2
    return None


def _least_limit_ns(latency_ns: I64, least_ns: float) -> float:
    """From where on a latency may be slow, ns. Never nothing, though by a coarse clock most may take no time:
    it is doubled until few are left."""
    usual_ns = float(np.median(latency_ns)) if len(latency_ns) else 0.0
    return max(SLOW * usual_ns, least_ns, 1.0)


def _by_accident(slow: I64, hits: int, count: int, whole: bool) -> float:
    """How often that many of the slow ones line up at any distance, if they came at random; slow ones that
    follow each other at once are one. The distance of a whole row says where it begins."""
    begins = int(np.count_nonzero(np.diff(slow, prepend=-2) > 1))
    rate = max(begins - hits + 1, 1) / count
    starts = min(begins, LAST_STARTS)
    return starts * rate ** (hits - 1) if whole else starts * (starts - 1) / 2 * rate ** (hits - 2)


def _row(latency_ns: I64, slow: I64, fewest: int, shortest: int, *, whole: bool) -> Stalls | None:
    """The row among the slow ones with the most delay in it, if there is one; see `periodic`."""
    count, usual = len(latency_ns), float(np.median(latency_ns))
    is_slow = np.zeros(count, bool)
    is_slow[slow] = True
    over = np.where(is_slow, latency_ns - usual, 0.0)
    best: tuple[float, int, int] | None = None
    for number, start in enumerate(tried := slow[-LAST_STARTS:]):
        for period in np.unique(tried[number + 1 :] - start):
            row = np.arange((start % period or period) if whole else start % period, count, period)
            missing = np.flatnonzero(~is_slow[row])
            if whole and len(missing):
                continue
            row = row[missing[-1] + 1 :] if len(missing) else row
            if period < shortest or len(row) < fewest:
                continue
            unlike = np.flatnonzero(latency_ns[row] < ALIKE * np.median(latency_ns[row]))
            if whole and len(unlike):
                continue
            row = row[unlike[-1] + 1 :] if len(unlike) else row
            if len(row) < fewest:
                continue
            best = max(best or (0.0, 0, 0), (float(over[row].sum()), -int(period), int(row[0])))
    return None if best is None else _settled(latency_ns, best[2], -best[1])


def runs_of(slow: Bools) -> tuple[I64, I64]:
    """Where slow ones begin to follow each other at once, and how many do each time.

    >>> [each.tolist() for each in runs_of(np.array([1, 0, 1, 1, 0, 0, 1, 1, 1], bool))]
    [[0, 2, 6], [1, 2, 3]]
    """
    edges = np.flatnonzero(np.diff(slow, prepend=False, append=False))
    return edges[::2], edges[1::2] - edges[::2]


def _length_of_run(slow: Bools) -> I64:
    """How many slow ones follow each other at once where each of these stands; 0 for one that is not slow.

    >>> _length_of_run(np.array([1, 0, 1, 1, 0, 0, 1, 1, 1], bool)).tolist()
    [1, 0, 2, 2, 0, 0, 3, 3, 3]
    """
    _, counts = runs_of(slow)
    lengths = np.zeros(len(slow), np.int64)
    lengths[slow] = np.repeat(counts, counts)
    return lengths


def _settled(latency_ns: I64, first: int, period: int) -> Stalls:
    row = np.arange(first, len(latency_ns), period)
    stall = float(np.median(latency_ns[row]))
    rest = np.ones(len(latency_ns), bool)
    rest[row] = False
    usual = float(np.median(latency_ns[rest]))
    slow = latency_ns >= max(ALIKE * stall, SLOW * usual)
    run = int(np.median(_length_of_run(slow)[row]))
    before = first
    while before > 0 and first - before < run - 1 and slow[before - 1]:
        before -= 1
    return Stalls(before, period, len(row), stall, usual, run)


def refills(latency_ns: I64, *, least_ns: float = 0.0) -> Stalls | None:
    """The runs of stalls that the latencies end with, where what each gives back takes as many writes as what
    any other does, or a multiple, if two came free at once; None without enough of them.

    Of a cache part that holds older data runs are as long as there are bands to clean, so their distances
    differ. What lies between them does not: it is what was given back. As in `periodic` the limit of what is
    slow is raised until only stalls are; what takes less than `least_ns` is no stall.

    >>> runs = [[90] * (1 + number % 3) + [10] * 31 for number in range(10)]
    >>> refills(np.concatenate(runs)).period
    32
    >>> refills(np.full(330, 10)) is None, refills(np.zeros(330, np.int64)) is None
    (True, True)
    """
    limit_ns = _least_limit_ns(latency_ns, least_ns)
    while len(slow := np.flatnonzero(latency_ns >= limit_ns)) > FEWEST_REFILLS:
        ends = np.flatnonzero(np.diff(slow) > 1)  # the last stall of each run but of the last
        between = slow[ends + 1] - slow[ends]
        size = _unit(between)
        if size is not None:
            logs = np.round(between / size)
            uneven = np.flatnonzero(np.abs(between - size * logs) > logs)
            first = int(uneven[-1]) + 1 if len(uneven) else 0
            count = len(between) - first
            # So many numbers of writes count as a multiple, of as many as there are; the first says of what.
            chance = float(np.prod(np.minimum((2 * logs[first + 1 :] + 1) / size, 1.0)))
            if count >= FEWEST_REFILLS and chance <= MOST_CHANCE:
                stall_ns, usual_ns = float(np.median(latency_ns[slow])), float(np.median(latency_ns))
                return Stalls(int(slow[ends[first]]), size, count, stall_ns, usual_ns)
        limit_ns *= 2
    return None


def each_refill(latency_ns: I64, found: Stalls) -> Stalls:
    """The same stalls, by what goes in from any run of them to the next, if that is a part of their period.
    Runs of one and of two stalls that take turns come at one distance only as pairs.

    >>> latency = np.tile(np.array([10] * 33 + [90] + [10] * 33 + [90, 90]), 9)
    >>> each = each_refill(latency, periodic(latency))
    >>> periodic(latency).period, each.period - each.run + 1
    (69, 34)

    Delays of other clients that are about as long as two fifths of a stall are none.

    >>> latency[[577, 590, 610]] = 40
    >>> each_refill(latency, periodic(latency)).period
    35
    """
    for limit_ns in (found.limit_ns, RAISED * found.limit_ns):
        first, count = runs_of(latency_ns[found.first :] >= limit_ns)
        each = _unit(first[1:] - (first + count - 1)[:-1])
        if each is None:
            continue  # delays of other clients part what goes in
        logs = found.period // each
        # A run adds what it has beyond one stall.
        if logs < 2 or found.period - logs * each > logs * (int(np.max(count)) - 1):
            return found
        run, least_ns = int(np.median(count)), max(found.least_ns, limit_ns)
        return replace(found, period=each + run - 1, count=len(first), run=run, least_ns=least_ns)
    return found


def _unit(between: I64) -> int | None:
    """The distance that at least half of the last ones have, to one; None if there is none, or if it is so
    short that anything is a multiple of it."""
    last = between[-FEWEST_REFILLS:]
    if len(last) < FEWEST_REFILLS:
        return None
    size = int(np.median(last[last <= REFILL_SLACK / 2 * np.min(last)]))
    return size if size > REFILL_SLACK and np.mean(np.abs(last - size) <= 1) >= 0.5 else None


@dataclass(frozen=True, slots=True)
class RarePeriod:
    """Stalls at `offset`, `offset + every`, ... of the commands, but all those at or behind one of `slips` a
    command later, and but for `missed` that took no longer than others; `chance` bounds that it is an
    accident."""

    every: int
    offset: int
    hits: int
    unexplained: int
    chance: float
    slips: tuple[int, ...] = ()
    missed: int = 0

    def places(self, count: int) -> I64:
        """The commands of `count` that the period names."""
        named = self.slipped(np.arange(self.offset, count, self.every, dtype=np.int64))
        return named[named < count]

    def slipped(self, named: I64) -> I64:
        """Commands, later by as many as slips come before."""
        for slip in self.slips:
            named = named + (named >= slip - 1)
        return named


def _slips(slow: Bools, first: int, every: int) -> list[int] | None:
    """Where stalls of a period come a command later than before, if there are enough and all are slow.

    A command that leaves nothing to do, as a write that continues a zone and needs no entry in a log, does
    not count in the period: from then on all come one later."""
    if every < SHORTEST_RARE or first + (FEWEST_RARE - 1) * every >= len(slow):
        return None
    slips: list[int] = []
    at, hits = first, 1
    while at + every < len(slow):
        at += every
        if not slow[at]:
            at += 1
            if at == len(slow) or not slow[at]:
                return None
            slips.append(at)
        hits += 1
    return slips if len(slips) <= MOST_SLIPS * hits else None


def rare_period(slow: Bools, known_slow: Bools | None = None) -> RarePeriod | None:
    """The period of the slow commands, or None where none is sure.

    A period is accepted only where every place that it predicts, from the first period on, holds a stall, at
    least three times (now and then a command later than before: `RarePeriod.slips`), and so often that
    scattered stalls would hardly line up by themselves: the chance is bounded by the number of periods and
    offsets that could have been seen times the probability that as many predicted places are all slow, with
    the rate of slow commands that the period does not explain (and one
    more, so that no stall at all is not taken for certainty).

    `known_slow` counts the commands that are slow in any one of several repeats, of which `slow` holds those
    slow in all: it only sets the rate of accidents.

    >>> slow = np.zeros(1000, bool)
    >>> slow[[239, 479, 500, 719, 959]] = True
    >>> found = rare_period(slow)
    >>> (found.every, found.offset, found.hits, found.unexplained)
    (240, 239, 4, 1)
    """
    at = np.flatnonzero(slow)
    best: RarePeriod | None = None
    for first_number, first in enumerate(at[: len(at) - FEWEST_RARE + 1]):
        for second in at[first_number + 1 :]:
            every, begin = int(second - first), int(first)
            if begin >= every:  # unless it is the second of the period, and came a command later
                begin -= every + 1
            slips = _slips(slow, begin, every) if 0 <= begin < every and slow[begin] else None
            if slips is None:
                continue
            found = _judged(slow, known_slow, every, begin, tuple(slips))
            if best is None or (found.hits, -len(found.slips)) > (best.hits, -len(best.slips)):
                best = found
    if best is None or best.chance > MOST_CHANCE or _half_seen(slow, best):
        return None
    return best


def _half_seen(slow: Bools, found: RarePeriod) -> bool:
    """Whether a part of the period names places of which most, but not all, are slow: then the true period is
    shorter and some of its stalls were too short to see, or came for another reason: a log full of older data
    has a band cleaned each time that a few entries have used up what the last one gave back, and of these
    stalls every seventy-ninth, say, was never left out."""
    for part in range(2, found.every // SHORTEST_RARE + 1):
        if found.every % part:
            continue
        every = found.every // part
        named = np.arange(found.offset % every, len(slow), every, dtype=np.int64)
        between = found.slipped(named[(named - found.offset) % found.every != 0])
        if len(between) and np.mean(slow[between[between < len(slow)]]) >= SEEN_PART:
            return True
    return False


def _judged(
    slow: Bools, known_slow: Bools | None, every: int, offset: int, slips: tuple[int, ...]
) -> RarePeriod:
    count = len(slow)
    hits = len(RarePeriod(every, offset, 0, 0, 1.0, slips).places(count))
    unexplained = int(np.count_nonzero(slow)) - hits
    rate = (unexplained + 1) / count
    if known_slow is not None:
        alone = (int(np.count_nonzero(known_slow)) - hits + 1) / count
        rate = min(rate, max(alone, 0.0) ** 2 + 1.0 / count)
    # offsets and periods of which as many places fit in the run: about (count / hits)^2 / 2
    tried = (count / hits) ** 2 / 2 * sum(comb(hits, each) for each in range(len(slips) + 1))
    return RarePeriod(every, offset, hits, unexplained, min(1.0, tried * rate**hits), slips)


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """`writes` done before cleaning, in `entries`; `usual_ns` from one entry to the next before, `slow_ns`
    after; `sum` is how clear the change is (entries of the usual length). `writes_an_entry` is 1 where the
    clock hides how many share one."""

    writes: int
    entries: int
    usual_ns: float
    slow_ns: float
    sum: float
    writes_an_entry: float


def entries(complete_ns: NDArray[np.generic]) -> tuple[I64, I64]:
    """Completion of each entry (ns) and the writes done by then, from completions in any order.

    >>> entries(np.array([10, 10, 10, 9_000_000, 9_000_001]))
    (array([     10, 9000001]), array([3, 5]))
    """
    done = complete_ns.astype(np.int64)
    if np.any(done[1:] < done[:-1]):  # a fill asks again and again, of ever more writes, mostly in order
        done.sort()
    last = np.flatnonzero(np.append(np.diff(done) > AT_ONCE_NS, True)) if len(done) else np.empty(0, np.int64)
    return done[last], np.asarray(last + 1, np.int64)


def are_parted(done_ns: I64, tick_ns: float) -> bool:
    """Whether a clock with that tick parts entries that were done one after another: most lie two ticks apart
    or more. Else several may have been done within one tick, and look like one.

    >>> done_ns = np.arange(1, 40) * 2_400_000
    >>> are_parted(done_ns // 10**6 * 10**6, 1e6), are_parted(done_ns // 10**7 * 10**7, 1e7)
    (True, False)
    """
    coarse = tick_ns > AT_ONCE_NS and len(done_ns) > 1
    return not coarse or float(np.median(np.diff(done_ns))) >= 2 * tick_ns


def usual(complete_ns: NDArray[np.generic], percent: float = 50) -> float | None:
    """From one entry to the next, ns, at a percentile of all; None for fewer than four."""
    done, _ = entries(complete_ns)
    return float(np.percentile(np.diff(done), percent)) if len(done) >= FEWEST_ENTRIES else None


def beyond(took_ns: NDArray[np.generic], limit_ns: float) -> F64:
    """What each takes beyond a limit, in parts of it; negative below, and at most `MOST_TIMES` less one."""
    return np.minimum(took_ns.astype(np.float64) / limit_ns, MOST_TIMES) - 1.0


def slow_from(took_ns: NDArray[np.generic], limit_ns: float) -> tuple[int, float]:
    """From which position on most take longer than `limit_ns` to the end, and how clear that is: the start of
    the largest sum to the end of what each takes `beyond` it.

    >>> slow_from(np.array([10, 80, 10, 10, 10, 10, 60, 70, 10, 80]), 30)[0]
    6
    >>> slow_from(np.zeros(0), 30)
    (0, 0.0)
    """
    if not len(took_ns):
        return 0, 0.0
    to_the_end = np.cumsum(beyond(took_ns, limit_ns)[::-1])[::-1]
    first = int(np.argmax(to_the_end))
    return first, float(to_the_end[first])


def change_point(
    submit_ns: NDArray[np.generic],
    complete_ns: NDArray[np.generic],
    usual_ns: float | None = None,
    rotation_ns: float = 0.0,
) -> ChangePoint | None:
    """Where cleaning began in a run of writes; None if it did not.

    A drive that is full cleans for every entry that it writes, so from there on entries follow each other
    more slowly, and stay so; an outlier or a merge of a map delays one. Latency would show it late where many
    writes wait at once. Writes that are answered together are one entry. The change point is where the sum of
    what entries take beyond twice the usual, or a missed revolution, each bounded, is largest from there to
    the end.

    `usual_ns` is about what an entry takes on a drive that does not clean, where that is known; one that
    misses a revolution of `rotation_ns` does not clean either."""
    done, count = entries(complete_ns)
    if len(done) < FEWEST_ENTRIES:
        return None
    took = np.diff(done, prepend=np.int64(submit_ns[0])).astype(np.float64)
    # Entries may take one of two times, as they catch the next place or miss it: the usual is the longer one.
    base = float(np.percentile(took[: max(len(took) // 2, 1)], USUAL_PERCENT))
    if usual_ns is not None and base > AGREES * usual_ns:
        base = usual_ns  # most of this is cleaning already
    limit = max(SLOW_ENTRY * base, base + MISSED_TURNS * rotation_ns, 1.0)
    first, clear = slow_from(took, limit)
    if clear < LEAST_SUM:
        return None
    before = int(count[first - 1]) if first else 0
    slow = float(np.median(took[first:]))
    parted = are_parted(done[:first], tick_ns(submit_ns, complete_ns, fine_ns=AT_ONCE_NS))
    an_entry = before / max(first, 1) if parted else 1.0
    return ChangePoint(before, first, base, slow, clear, an_entry)


def change_of_pace(submit_ns: NDArray[np.generic], complete_ns: NDArray[np.generic]) -> ChangePoint | None:
    """Where writes became slower on the whole and stayed so; None if they did not.

    A large volatile cache takes many writes at once after each wait for cleaning, so single ones show nothing
    (`change_point`): as many writes as a hundredth of the run take together shows it. The change is between
    the two means that fit best.

    >>> done = np.cumsum(np.where(np.arange(5_000) < 4_000, 10, np.where(np.arange(5_000) % 20, 1, 800)))
    >>> change_of_pace(np.zeros(1, np.int64), done).writes
    4000
    """
    done = np.sort(complete_ns.astype(np.int64))
    ends = np.unique(np.linspace(0, len(done), PACES + 1).astype(np.int64))[1:]
    if len(ends) < PACES:
        return None
    took = np.diff(done[ends - 1], prepend=np.int64(submit_ns[0])) / np.diff(ends, prepend=0)
    sums, before = np.cumsum(took)[:-1], np.arange(1, len(took))
    usual, slow = sums / before, (took.sum() - sums) / (len(took) - before)
    first = int(np.argmax(before * (len(took) - before) * (slow - usual) ** 2 * (slow > usual)))
    usual_ns, slow_ns, writes = float(usual[first]), float(slow[first]), int(ends[first])
    if slow_ns < SLOW_ENTRY * usual_ns:
        return None
    clear = (min(slow_ns / (SLOW_ENTRY * usual_ns), MOST_TIMES) - 1.0) * (len(took) - first - 1)
    last, _ = entries(done[:writes])
    each = len(last)
    an_entry = writes / each if are_parted(last, tick_ns(submit_ns, complete_ns, fine_ns=AT_ONCE_NS)) else 1.0
    return ChangePoint(writes, each, usual_ns * writes / each, slow_ns, clear, an_entry)
