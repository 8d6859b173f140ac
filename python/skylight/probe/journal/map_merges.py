"""Merges of the map: stalls of lone writes that come again at the same writes after an erase, their period,
and what one costs.

Few stalls may be the arm's way to where the log goes on, at even distances by chance. The control are writes
of two quanta each: a merge comes after as many of them as of blocks, a place of the log after half as many.

Source: Skylight (FAST '15), section 4.3 (the 240th write of Figures 4 and 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64, Bools, IoLog, Stop
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.infer.stalls import (
    FEWEST_RARE,
    MOST_CHANCE,
    RarePeriod,
    before_stalls,
    rare_period,
    slow_beyond,
    slow_ones,
)
from skylight.infer.stalls_amid_delays import period_amid_delays
from skylight.probe.journal.findings import MERGE_RIGHT

RESAMPLES = 100
CLOSE = MERGE_RIGHT.part  # how near a mean must be known to be named
BESIDE = 40  # writes on each side of a stall that it is compared with
CAUGHT = 4  # per cent: if this share catches its revolution, the drive without jitter does
MOST_LAG = 64
"""Writes from one early one to another, at most, at which places of the log come again. Chosen: a track holds
fewer places than that, or each lies on several."""
# Writes that are a revolution sooner than most: how near to a whole one, and how many show that some are.
EARLY_TURNS, FEWEST_EARLY, SURE = 0.2, 8, 5.0
ALIKE = 1.5
"""Stalls of one kind, in order of their length: none is so much longer than the one before. Chosen: merges of
one drive differ by a revolution or two of some twenty."""
ARRIVED_TURNS = 0.1
"""What a write takes beyond a revolution that begins amid its place and ends where it began: what a command
takes by itself. Chosen: a millisecond of a common drive."""
FEWEST_PLAIN = 3
"""Writes of a middle; of fewer the level of all counts."""
# A stall so short may be the arm's way to where the log goes on, say on the next surface: that it comes after
# a whole number of entries a few times is chance, and less of one the more there are.
ARM_TURNS, ARM_HITS = 3.0, 5
LOST_TURNS, LOST_HITS = 1.5, 20
"""A stall of about one revolution is what any step of the log costs that just misses it, for instance to the
next surface, while a merge writes elsewhere and returns. Passes whose length is no whole number of entries
stall at even distances too, as long as the fraction has not added up to an entry: over `n` stalls with a
chance of 1/(n - 1), hence 5 % with 20 of them."""
AGAIN, MORE = "many-again", "many-more"
MERGES_WANTED, MOST_MORE_S = 17, 900.0
"""The writes that follow where merges are few beside what a revolution makes of them, how many merges all are
to have, and the most time for them. Chosen: how long a merge waits for its angle hangs on where the log is,
which is nearly the same for three in a row, and a fourth of the bound of the test."""
LONG_QUANTA, FEWEST_LONG = 2, 2
"""Quanta of each write of the control, and how many merges it has at least."""
MOST_LEFT_ALONE = 0.5  # of the merges: where fewer begin with the arm where the last one left it, it shows
MORE_TURNS = 1.5  # a merge that took as many revolutions more than the middle one met a slow outlier too


@dataclass(frozen=True, slots=True)
class Many:
    """Many lone writes, which end where `until` says that cleaning set in; `erased`: on a drive as new."""

    name: str
    log: IoLog
    until: Stop
    erased: bool


@dataclass(slots=True)
class Merges:
    """Lone writes in order, once or twice, the second time perhaps with more behind them; the stalls that
    come again."""

    latency_ns: I64
    again_ns: I64
    period: RarePeriod | None
    writes: int
    slow: int
    delay_ns: float = 0.0
    """How late commands come behind those before them, where each may lose a revolution for it; else 0."""
    long_ns: I64 | None = None
    """What writes of two quanta took, one after another on a drive as new."""

    def are_merges(self, cost_ns: float, rotation_ns: float) -> bool:
        """Whether stalls that cost so much are more than the arm's way along the log: they are many, or the
        control says so. Those that may be a revolution lost pass the control by chance too, as others are
        many by chance, so both have to say it."""
        many = self.period is not None and self.period.hits >= least_hits(cost_ns, rotation_ns)
        if cost_ns < LOST_TURNS * rotation_ns:
            return many and self._told_apart(rotation_ns)
        return many or self._told_apart(rotation_ns)

    def _told_apart(self, rotation_ns: float) -> bool:
        """Whether the stalls come after as many writes of two quanta as of blocks, and not after half as
        many."""
        found = self.period
        if found is None or found.slips or self.long_ns is None:
            return False
        slow = slow_ones(self.long_ns, rotation_ns)
        named = found.places(len(slow))
        # The place that ends the n-th write lies where a write of as many places ends, or one on.
        by_place = (found.offset + found.every * np.arange(LONG_QUANTA * len(named))) // LONG_QUANTA
        near = (by_place[:, None] + np.array([-1, 0, 1])).ravel()
        near = near[(near >= 0) & (near < len(slow)) & ~np.isin(near, named)]
        apart = near[np.min(np.abs(near[:, None] - named[None, :]), axis=1) > 1] if len(named) else near
        return (
            len(named) >= FEWEST_LONG and bool(slow[named].all()) and len(apart) > 0 and not slow[apart].any()
        )


def least_hits(cost_ns: float, rotation_ns: float) -> int:
    """How many stalls of this length make a period of merges, and not of the arm's way along the log; without
    a rotation, on flash, any."""
    if not rotation_ns:
        return 0
    turns = cost_ns / rotation_ns
    return LOST_HITS if turns < LOST_TURNS else ARM_HITS if turns < ARM_TURNS else 0


def control_writes(many: Sequence[Many], rotation_ns: float | None) -> int:
    """How many writes of two quanta show whether the stalls of many lone writes are merges; 0 where these
    show it themselves, or have no period, or where more of them would be needed too."""
    merges = None if rotation_ns is None else merges_of(many, rotation_ns)
    if merges is None or rotation_ns is None or (found := merges.period) is None:
        return 0
    cost_ns = merge_cost(merges, found, rotation_ns, flash=False)[0]
    enough = found.hits >= least_hits(cost_ns, rotation_ns)
    if enough != (cost_ns < LOST_TURNS * rotation_ns):
        return 0
    return found.offset + (FEWEST_LONG - 1) * found.every + 1


def more_writes(many: Sequence[Many], rotation_ns: float | None) -> int:
    """How many lone writes are to follow, so that merges are seen at all angles; 0 where there are enough, or
    a revolution is little beside them."""
    merges = None if rotation_ns is None else merges_of(many, rotation_ns)
    if merges is None or rotation_ns is None or (found := merges.period) is None or not many:
        return 0
    seen = len(found.places(merges.writes))
    cost_ns = merge_cost(merges, found, rotation_ns, flash=False)[0]
    wanted = max(MERGES_WANTED, least_hits(cost_ns, rotation_ns))
    if seen + 1 >= wanted or rotation_ns <= CLOSE * cost_ns or many[-1].until.reached(many[-1].log):
        return 0
    most = int(MOST_MORE_S * 1e9 / max(float(merges.latency_ns.mean()), 1.0))
    return min((wanted - seen) * found.every, most)


def period_of(latency_ns: I64, slow: Bools, known_slow: Bools | None = None) -> RarePeriod | None:
    """The period of the stalls. Where all of them have none, it is that of those which took alike, if only
    one kind has one: a merge costs about the same each time, and a host that was busy made others late.

    >>> latency_ns = np.full(720, 10)
    >>> latency_ns[7::240], latency_ns[[160, 205, 317, 382]] = 315, 45
    >>> (found := period_of(latency_ns, latency_ns > 10)).every, found.unexplained
    (240, 4)
    """
    found = rare_period(slow, known_slow)
    at = np.flatnonzero(slow)
    if found is not None or len(at) <= FEWEST_RARE:
        return None if found is None else _with_merges(found, latency_ns, slow)
    at = at[np.argsort(latency_ns[at])]
    taken_ns = latency_ns[at].astype(np.float64)
    kinds = np.split(at, np.flatnonzero(taken_ns[1:] > ALIKE * taken_ns[:-1]) + 1)
    periods = []
    for kind in kinds:
        alike = np.zeros(len(slow), bool)
        alike[kind] = True
        one = rare_period(alike)
        if one is not None and len(kinds) * one.chance <= MOST_CHANCE:
            unexplained = len(at) - len(kind) + one.unexplained
            periods.append(replace(one, chance=len(kinds) * one.chance, unexplained=unexplained))
    return periods[0] if len(periods) == 1 else None


def _with_merges(found: RarePeriod, latency_ns: I64, slow: Bools) -> RarePeriod:
    """The period, or that of the writes just before, where these took longer: a merge leaves the heads far
    from the log, so that the next write is late too, as is the first of all, which no merge precedes."""
    places = found.places(len(slow))
    before = places[places > 0] - 1
    longer = len(before) >= FEWEST_RARE and bool(slow[before].all()) and not found.slips
    if longer and np.median(latency_ns[before]) > ALIKE * np.median(latency_ns[places]):
        return replace(found, offset=(found.offset - 1) % found.every, hits=len(before))
    return found


def merges_of(many: Sequence[Many], rotation_ns: float | None, long: IoLog | None = None) -> Merges | None:
    """The stalls of many lone writes, and what writes of two quanta took; None where none were made."""
    if not many or not len(many[0].log):
        return None
    runs: list[list[I64]] = [[], [], []]
    for run in many:
        latency_ns = run.log.latency_ns
        number = {AGAIN: 1, MORE: 2}.get(run.name, 0)
        runs[number].append(latency_ns[: before_stalls(latency_ns, run.until)])
    first, again, more = (np.concatenate(run) if run else np.empty(0, np.int64) for run in runs)
    if not len(again) or not next(run for run in many if run.name == AGAIN).erased:
        whole = np.concatenate([first, again, more])  # it went on where the first left off
        slow = slow_ones(whole, rotation_ns)
        none = np.empty(0, np.int64)
        period = period_of(whole, slow) or _amid_delays(whole, none, rotation_ns)
        return Merges(whole, none, period, len(whole), int(slow.sum()))
    count, whole_again = min(len(first), len(again)), len(again)
    first, again = first[:count], again[:count]
    one, other = slow_ones(first, rotation_ns), slow_ones(again, rotation_ns)
    both = one & other
    period = period_of(first, both, one) or _amid_delays(first, again, rotation_ns)
    if count == whole_again:
        again = np.concatenate([again, more])
        count, period = _longer(again, count, period, rotation_ns)
    found = Merges(first, again, period, count, int(both.sum()))
    found.long_ns = None if long is None else long.latency_ns
    return found


def _longer(
    again_ns: I64, count: int, period: RarePeriod | None, rotation_ns: float | None
) -> tuple[int, RarePeriod | None]:
    """How many writes the period is of, and that with the stalls of the writes which followed, if each came
    where it names one: places of the log whose distance is no whole number of entries drift off it."""
    slow = slow_ones(again_ns, rotation_ns)
    if period is None or period.slips or not slow[(named := period.places(len(slow)))[named >= count]].all():
        return count, period
    return len(slow), replace(period, hits=period.hits + int(np.count_nonzero(named >= count)))


def _amid_delays(latency_ns: I64, again_ns: I64, rotation_ns: float | None) -> RarePeriod | None:
    """The period of stalls that other delays hide, or that hide among more of these."""
    first_ns = slow_beyond(latency_ns, rotation_ns)
    return period_amid_delays(latency_ns, again_ns, first_ns, rotation_ns)


def caught_level_ns(merges: Merges, rotation_ns: float) -> tuple[float, bool]:
    """What lone writes take that caught their revolution, where jitter makes others miss it, ns; and whether
    it is known. A few that complete a whole revolution sooner than the others caught it by chance, as their
    jitter was small, if other writes do after an erase. If the same do, it is their place on the disk."""
    latency_ns = merges.latency_ns.astype(np.float64)
    middle = float(np.median(latency_ns))
    repeated_ns = merges.again_ns[: len(latency_ns)].astype(np.float64)
    caught_ns = float(np.percentile(latency_ns, CAUGHT))
    if caught_ns < middle - rotation_ns / 2:
        early, again = (each < middle - rotation_ns / 2 for each in (latency_ns, repeated_ns))
        by_place = _same(early, again) if len(again) == len(early) else _at_even_places(early)
        return (middle if by_place else caught_ns), True
    sooner = _a_turn_sooner(latency_ns, middle, rotation_ns)
    if sooner is None:
        return middle, True
    sooner_again = _a_turn_sooner(repeated_ns, middle, rotation_ns)
    if sooner_again is None:
        return middle, False
    return (middle if _same(sooner, sooner_again) else middle - rotation_ns), True


def _same(early: Bools, again: Bools) -> bool:
    """Whether the same writes are early after an erase, and not as many of them as by chance."""
    both = int(np.count_nonzero(early & again))
    by_chance = early.sum() * again.sum() / len(early)
    return bool(both > max(by_chance + SURE * np.sqrt(by_chance), both / 2, early.sum() / 2))


def _at_even_places(early: Bools) -> bool:
    """Whether most early writes have another one at the same distance, as where entries of one length reach
    the end of a track, and not as many of them as by chance.

    >>> number = np.arange(400)
    >>> _at_even_places(number * 3 % 20 < 3), _at_even_places(np.random.default_rng(1).random(400) < 0.15)
    (True, False)
    """
    count = int(early.sum())
    by_chance = count * count / max(len(early), 1)
    lags = range(2, min(MOST_LAG, len(early) // 2))
    most = max((int(np.count_nonzero(early[lag:] & early[:-lag])) for lag in lags), default=0)
    return bool(most > max(by_chance + SURE * np.sqrt(by_chance), count / 2))


def _a_turn_sooner(latency_ns: F64, middle_ns: float, rotation_ns: float) -> Bools | None:
    """Which writes completed a revolution before the middle; None where there are no more of them than of
    writes that are as early by any other part of a revolution, as behind a slow outlier."""
    turns = (middle_ns - latency_ns) / rotation_ns
    early = np.abs(turns - 1) < EARLY_TURNS
    others = int(np.count_nonzero((turns > EARLY_TURNS) & (turns < 2 - EARLY_TURNS) & ~early))
    count, expected = int(early.sum()), others * EARLY_TURNS / (1 - 2 * EARLY_TURNS)
    return early if count >= FEWEST_EARLY and count > expected + SURE * np.sqrt(expected) else None


def _undelayed(latency_ns: F64, level_ns: float, rotation_ns: float | None) -> float:
    """The middle of latencies, without the whole revolutions by which they are above the level, ns. What is
    above it by less has not lost one, but lies where the log goes on on another surface."""
    if rotation_ns is None:
        return float(np.median(latency_ns))
    beyond = (latency_ns - level_ns) / rotation_ns
    turns = np.floor(beyond + EARLY_TURNS)
    # A drive that begins amid a place takes a revolution from there, wherever that was.
    arrived = np.abs(latency_ns / rotation_ns - 1 - ARRIVED_TURNS / 2) <= ARRIVED_TURNS / 2
    plain = ~arrived | (np.abs(beyond - turns) < EARLY_TURNS)
    if np.count_nonzero(plain) < FEWEST_PLAIN:
        return level_ns
    return float(np.median((latency_ns - turns * rotation_ns)[plain]))


def stalls_of(merges: Merges, found: RarePeriod, rotation_ns: float | None) -> F64:
    """How much longer each write with a merge took than the middle of those beside it, ns."""
    level_ns = 0.0 if rotation_ns is None else caught_level_ns(merges, rotation_ns)[0]
    extra = []
    for latency_ns in (merges.latency_ns, merges.again_ns):
        for place in found.places(len(latency_ns)):
            beside = np.delete(latency_ns, place)[max(1, place - BESIDE) : place + BESIDE]
            plain_ns = _undelayed(beside.astype(np.float64), level_ns, rotation_ns)
            extra.append(float(latency_ns[place]) - plain_ns)
    return np.array(extra)


def merge_cost(
    merges: Merges, found: RarePeriod, rotation_ns: float | None, *, flash: bool
) -> tuple[float, float, float, float, int, float]:
    """Mean extra time of a merge, its standard error and the spread of merges, ns; how sure it is to a tenth;
    how many merges; the shortest of them, ns.

    A merge may meet a slow outlier too: those far above the middle one are left out."""
    extra = stalls_of(merges, found, None if flash else rotation_ns)
    middle = float(np.median(extra))
    kept = extra[extra <= middle + MORE_TURNS * (rotation_ns or 0.0) + CLOSE * middle]
    if not len(kept):
        return middle, middle, middle, 0.0, 0, middle
    mean = float(kept.mean())
    spread = float(kept.std(ddof=1)) if len(kept) > 1 else middle
    # The same merges again are no others.
    different = max(len(found.places(len(run))) for run in (merges.latency_ns, merges.again_ns))
    error = spread / np.sqrt(min(len(kept), max(different, 1)))
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    means = kept[rng.integers(0, len(kept), size=(RESAMPLES, len(kept)))].mean(axis=1)
    sure = share(int(np.count_nonzero(np.abs(means - mean) <= CLOSE * mean)), RESAMPLES)
    return mean, error, spread, sure, len(kept), float(kept.min())


def others_between(merges: Merges, found: RarePeriod, rotation_ns: float) -> bool:
    """Whether another client had the arm between most merges of a cache in flash, where nothing else moves it
    and a delay of a revolution can only be theirs.

    Each merge then begins with a way of the arm that it does not have on a drive left alone."""
    latency_ns = np.delete(merges.latency_ns, found.places(len(merges.latency_ns)))
    delayed = float(np.mean(latency_ns > np.median(latency_ns) + rotation_ns)) if len(latency_ns) else 0.0
    return (1.0 - delayed) ** found.every < MOST_LEFT_ALONE
