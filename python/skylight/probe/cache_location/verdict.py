"""From latencies of reads in turn to a diameter.

A read takes the way of the arm, a wait spread over a revolution, and the overhead. The trimmed mean over
reads in random order is therefore the way of the arm plus something that is the same everywhere, and only
differences between places are used. The ways that the arm would have from a cache anywhere, by the seek curve
that the rotation test found, are fitted to the profile, by how far each mean may be off; those from one cache
in each region have to fit plainly worse. Where they do not, and without a seek curve, Spearman's rank
correlation compares the profile with the distances that a cache at the OD, MD or ID would have: it needs only
that farther takes longer.

Confidence is the share of bootstrap resamples of the reads that give the same verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, confidence_that, ranks, share
from skylight.probe.cache_location.findings import LOCATION
from skylight.units import format_duration

WHERE = {"od": 0.0, "md": 0.5, "id": 1.0}
FOLLOWS = 0.8  # rank correlation of a profile with the distances of the true place
LEAD = 0.15  # and this much more than with those of the next
FLAT = 0.25  # of the arm's longest way: a profile that rises less names no place
# Parts of the arm's longest way. One cache takes at most a tenth of the tracks, and a seek over so many at
# most a third of the longest way; caches of both halves of a drive are half of the tracks apart, over half.
NEAR, FAR = 0.33, 0.42
ONE_CACHE = 0.1  # of the tracks: the same cache, where the seek curve says what the arm takes across it
APART_ERRORS = 3.0  # standard errors by which a longer way is no accident: once in a thousand
HOLDS = 0.5  # of the resamples: fewer give no verdict
HALF_WAY = 0.7  # of the longest way, for half of the tracks: where seeks grow with the root of the distance
THIRD_WAY = (3**-0.5 + 1 / 3) / 2  # the same for a third of them, where they grow half so and half evenly
QUICK_NS = 1_000_000  # a read that no platter serves
TRIM = (10, 90)
PLACES = np.linspace(0.0, 1.0, 101)  # shares of the addresses at which a cache may lie, for the fit
BESIDE = 0.2
"""So far from OD, MD or ID is still called so. Chosen: plainly nearer to one than to the next. A cache takes
a tenth of the tracks, what is read of it may lie at its end, and a seek curve that is a little off moves the
place that fits by as much again."""
SURE, LIKELY = 0.9, 0.4  # of the weight of all places; the latter where the ranks say the same
PLAINLY = 9.0  # by so much squared misfit no one place, or one in each region, has to fit worse: three errors
ARM_ERROR = 0.2  # of the fitted length of ways, against the seek curve that the rotation test found
REGION_SHARES = {"low": 0.002, "mid": 0.5, "high": 0.995}  # of the addresses, where each region begins
REGIONS = tuple(REGION_SHARES)


@dataclass(slots=True)
class Seen:
    """Latencies of each step: fragmented reads by region, cache to cache by pair, the profile by share;
    `rows` names the steps of the last two."""

    fragmented: dict[str, I64] = field(default_factory=dict)
    cached: dict[str, I64] = field(default_factory=dict)
    profile: dict[float, I64] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)


def typical(latency_ns: NDArray[np.generic]) -> float:
    """Mean without the fastest and the slowest tenth, ns."""
    return float(_typical_of_each(latency_ns.astype(np.float64)[None])[0])


def _typical_of_each(rows_ns: F64) -> F64:
    """The same of each row of a table."""
    low, high = np.percentile(rows_ns, TRIM, axis=1)[:, :, None]
    kept = (rows_ns >= low) & (rows_ns <= high)
    return np.array([row[some].mean() for row, some in zip(rows_ns, kept, strict=True)])


def correlation(one: F64, other: F64) -> float:
    """Spearman's rank correlation; 0 where one of the two does not vary."""
    first, second = ranks(one), ranks(other)
    first, second = first - first.mean(), second - second.mean()
    size = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / size if size > 0 else 0.0


def radius(share_of_bytes: F64, ratio: float) -> F64:
    """Share of the tracks from the OD to an address, where the outer track holds `ratio` times the inner one
    and tracks shrink evenly in between."""
    if ratio <= 1.0:
        return share_of_bytes
    slope = 1.0 - 1.0 / ratio
    half = (1.0 + 1.0 / ratio) / 2
    return np.asarray((1.0 - np.sqrt(1.0 - 2.0 * slope * half * share_of_bytes)) / slope)


@dataclass(frozen=True, slots=True)
class _Ways:
    """What does not depend on how the reads went: the profile's shares of the addresses, how far each mean
    may be off and the way between far and near cached data, how outer tracks compare with inner ones, the
    arm's longest way if it is known (ns), and in parts of that the way across one cache and those from a
    cache at each of `PLACES`, and from one in each region, to the profile."""

    shares: F64
    errors_ns: F64
    apart_error_ns: float
    ratio: float
    arm_ns: float | None
    across: float
    from_places: F64
    from_regions: F64

    @staticmethod
    def of(seen: Seen, known: Known) -> _Ways:
        """By what the rotation test found of the arm and of tracks."""
        shares = np.array(sorted(seen.profile))
        errors_ns = np.array([_error_ns(seen.profile[at]) for at in sorted(seen.profile)])
        track, third, full = (known.part("seek_ns", each) for each in ("track", "third", "full"))
        arm_ns = max(full - track, 1.0) if track is not None and full is not None else None
        third_way = THIRD_WAY
        if arm_ns is not None and track is not None and third is not None:
            third_way = (third - track) / arm_ns
        root = min(max((third_way - 1 / 3) / (3**-0.5 - 1 / 3), 0.0), 1.0)
        outer, inner = known.part("track_bytes", "od"), known.part("track_bytes", "id")
        ratio = max(outer / inner, 1.0) if outer is not None and inner is not None and inner > 0 else 1.0

        def way(apart: F64) -> F64:
            return np.asarray(root * np.sqrt(apart) + (1 - root) * apart)

        def ways(at: F64) -> F64:
            return way(np.abs(radius(shares, ratio) - radius(at, ratio)[:, None]))

        regions = ways(np.array(list(REGION_SHARES.values()))).mean(axis=0, keepdims=True)
        apart_error_ns = math.hypot(*(_error_ns(seen.cached[pair]) for pair in ("low-high", "low-low")))
        across = float(way(np.array(ONE_CACHE)))
        return _Ways(shares, errors_ns, apart_error_ns, ratio, arm_ns, across, ways(PLACES), regions)

    def distances(self, at: float) -> F64:
        """Shares of the tracks from an address, a share of all, to the profile."""
        return np.asarray(np.abs(radius(self.shares, self.ratio) - radius(np.array(at), self.ratio)))

    def misfits(self, seen_ns: F64, ways_ns: F64) -> F64:
        """Squared misfits of rows of ways, each with the time that all reads take, and as much longer or
        shorter as the seek curve may be off."""
        weight, free = self.errors_ns**-2, ARM_ERROR**-2
        along = weight / weight.sum()
        seen = seen_ns - along @ seen_ns
        rows = ways_ns - (ways_ns @ along)[:, None]
        scale = ((rows * seen) @ weight + free) / (rows**2 @ weight + free)
        off = seen - scale[:, None] * rows
        return np.asarray(off**2 @ weight + (scale - 1) ** 2 * free)


@dataclass(frozen=True, slots=True)
class _Signs:
    """What is typical of reads, ns: along the profile, and of cached data of far and of near addresses in
    turn."""

    ways: _Ways
    ways_ns: F64
    apart_ns: float
    near_ns: float

    @property
    def range_ns(self) -> float:
        """The arm's longest way."""
        if self.ways.arm_ns is not None:
            return self.ways.arm_ns
        # From a cache at the MD no address is farther than half of the tracks, so what was seen may be that.
        farthest_ns = max(float(self.ways_ns.max()), self.apart_ns) - self.near_ns
        return max(farthest_ns / HALF_WAY, 1.0)

    def place(self) -> str:
        """The verdict, or unknown."""
        apart = (self.apart_ns - self.near_ns) / self.range_ns
        fitted, weight = self.by_ways()
        sure = weight >= SURE
        if apart >= FAR or self.beyond_one():
            # Caches in many places are nowhere as far from one end as from the other; nor is one at an end
            # farther across than the drive is from there.
            whole_ns = float(np.ptp(self.ways_ns))
            one_end = sure and fitted in ("od", "id") and self.apart_ns - self.near_ns <= whole_ns
            return UNKNOWN if one_end else "many"
        if float(np.ptp(self.ways_ns)) < FLAT * self.range_ns:
            return UNKNOWN
        if self.ways.arm_ns is not None and sure:
            return fitted
        by_ranks = self.by_ranks() if apart <= NEAR else UNKNOWN
        if self.ways.arm_ns is not None and not (fitted == by_ranks and weight >= LIKELY):
            return UNKNOWN
        return by_ranks

    def beyond_one(self) -> bool:
        """Whether cached data of far addresses lies plainly farther apart than across one cache. Two caches
        on both sides of the middle have the profile of one there."""
        if self.ways.arm_ns is None:
            return False
        least_ns = self.apart_ns - self.near_ns - APART_ERRORS * self.ways.apart_error_ns
        return least_ns > self.ways.across * self.range_ns

    def by_ranks(self) -> str:
        """The place whose distances have the ranks of the ways."""
        scores = {name: correlation(self.ways.distances(at), self.ways_ns) for name, at in WHERE.items()}
        best, next_best = sorted(scores, key=lambda name: scores[name], reverse=True)[:2]
        if scores[best] < FOLLOWS or scores[best] - scores[next_best] < LEAD:
            return UNKNOWN
        return best

    def by_ways(self) -> tuple[str, float]:
        """The place around which most of the weight lies of those whose ways fit, and how much of it; half of
        it where others fit nearly as well."""
        misfit = self.ways.misfits(self.ways_ns, self.range_ns * self.ways.from_places)
        best = float(misfit.min())
        unit = max(1.0, best / (len(self.ways_ns) - 2))  # what is off besides noise, layouts above all
        regions = self.range_ns * self.ways.from_regions
        others = self.ways.misfits(self.ways_ns, np.concatenate([regions, np.zeros_like(regions)]))
        plainly = float(others.min()) - best >= PLAINLY * unit
        weight = np.exp((best - misfit) / (2 * unit))
        weight /= weight.sum() * (1 if plainly else 2)
        around = {name: float(weight[np.abs(PLACES - at) <= BESIDE].sum()) for name, at in WHERE.items()}
        place = max(around, key=lambda name: around[name])
        return place, around[place]


def _reads(seen: Seen) -> list[I64]:
    """The reads that signs rest on: the profile in the order of addresses, then far and near cached data."""
    return [
        *(seen.profile[at] for at in sorted(seen.profile)),
        seen.cached["low-high"],
        seen.cached["low-low"],
    ]


def _signs(seen: Seen, ways: _Ways) -> _Signs:
    """The signs of the evidence."""
    *means, apart, near = map(typical, _reads(seen))
    return _Signs(ways, np.array(means), apart, near)


def _resampled(seen: Seen, ways: _Ways, rounds: int) -> list[_Signs]:
    """The signs of resamples of the reads."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    reads = _reads(seen)
    drawn: list[list[I64]] = [[] for _ in reads]
    for _ in range(rounds):
        for mine, latency_ns in zip(drawn, reads, strict=True):
            mine.append(latency_ns[rng.integers(0, len(latency_ns), len(latency_ns))])
    means = np.empty((rounds, len(reads)))
    for column, mine in enumerate(drawn):
        means[:, column] = _typical_of_each(np.array(mine, np.float64))
    return [_Signs(ways, row[:-2], float(row[-2]), float(row[-1])) for row in means]


def _error_ns(latency_ns: I64) -> float:
    """The standard error of what is typical of latencies, ns (of a trimmed mean, Tukey and McLaughlin)."""
    kept = np.clip(latency_ns, *np.percentile(latency_ns, TRIM)).astype(np.float64)
    share_kept = (TRIM[1] - TRIM[0]) / 100
    return max(float(kept.std()) / (share_kept * math.sqrt(len(kept))), 1.0)


def judge(seen: Seen, known: Known) -> Finding:
    """The finding, from the signs and how well they hold in resamples."""
    if not seen.profile or not {"low-high", "low-low"} <= set(seen.cached):
        return LOCATION.unknown("nothing was written to the target, so no data is in its cache")
    if typical(seen.cached["low-high"]) < QUICK_NS:
        quick = format_duration(int(typical(seen.cached["low-high"])))
        if known.word("cache_medium") == "disk":
            why = f"the cache is on disk, but its blocks are read in {quick}: from volatile memory"
            return LOCATION.unknown(why, seen.rows)
        why = f"cached blocks are read in {quick}: no platter is waited for"
        sure = confidence_that(seen.cached["low-high"], lambda latency_ns: typical(latency_ns) < QUICK_NS)
        return LOCATION.found("none", sure, why, seen.rows, way="quick reads")
    ways = _Ways.of(seen, known)
    here = _signs(seen, ways)
    place = here.place()
    if place == UNKNOWN:
        return LOCATION.unknown(f"the profile follows no one place: {_words(seen, here)}", seen.rows)
    rounds = RESAMPLES // 4
    hits = sum(drawn.place() == place for drawn in _resampled(seen, ways, rounds))
    if hits < HOLDS * rounds:
        return LOCATION.unknown(f"the profile names no place surely: {_words(seen, here)}", seen.rows)
    return LOCATION.found(place, share(hits, rounds), _reason(place, seen, here), seen.rows)


def _words(seen: Seen, signs: _Signs) -> str:
    first, middle, last = (signs.ways_ns[index] for index in (0, len(signs.ways_ns) // 2, -1))
    means = ", ".join(
        f"{region} {format_duration(int(seen.fragmented[region].mean()))}"
        for region in REGIONS
        if region in seen.fragmented
    )
    return (
        f"cached and native blocks in turn take {format_duration(int(first))} at the first addresses,"
        f" {format_duration(int(middle))} in the middle, {format_duration(int(last))} at the last;"
        f" cached ones of far addresses {format_duration(int(signs.apart_ns))}, of near ones"
        f" {format_duration(int(signs.near_ns))}; fragmented reads on average: {means}"
    )


def _reason(place: str, seen: Seen, signs: _Signs) -> str:
    sense = {
        "od": "the way from the cache grows with the address",
        "id": "the way from the cache shrinks with the address",
        "md": "the way from the cache is shortest in the middle",
        "many": "what is cached of far addresses lies far apart",
    }
    return f"{sense[place]}: {_words(seen, signs)}"
