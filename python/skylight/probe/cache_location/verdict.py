"""From latencies of reads in turn to a diameter.

A read takes the way of the arm, a wait spread over a revolution, and the overhead. The trimmed mean over
reads in random order is therefore the way of the arm plus something that is the same everywhere, and only
differences between places are used. Spearman's rank correlation compares the profile with the distances that
a cache at the OD, MD or ID would have: it needs no seek curve, only that farther takes longer.

Confidence is the share of bootstrap resamples of the reads that give the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, confidence_that, share
from skylight.probe.cache_location.findings import LOCATION
from skylight.units import format_duration

WHERE = {"od": 0.0, "md": 0.5, "id": 1.0}
FOLLOWS = 0.8  # rank correlation of a profile with the distances of the true place
LEAD = 0.15  # and this much more than with those of the next
FLAT = 0.25  # of the arm's longest way: a profile that rises less names no place
# Parts of the arm's longest way. One cache takes at most a tenth of the tracks, and a seek over so many at
# most a third of the longest way; caches of both halves of a drive are half of the tracks apart, over half.
NEAR, FAR = 0.33, 0.42
HALF_WAY = 0.7  # of the longest way, for half of the tracks: where seeks grow with the root of the distance
QUICK_NS = 1_000_000  # a read that no platter serves
TRIM = (10, 90)
REGIONS = ("low", "mid", "high")  # of the address space


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


def ranks(values: F64) -> F64:
    """Ranks from 0, equal values sharing their mean rank."""
    ordered = np.sort(values)
    return np.asarray((ordered.searchsorted(values) + ordered.searchsorted(values, "right") - 1) / 2)


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
class _Signs:
    """Ways of the arm, ns: along the profile, between cached data of far and near addresses; the longest."""

    shares: F64
    ways_ns: F64
    apart_ns: float
    near_ns: float
    range_ns: float
    ratio: float

    def place(self) -> str:
        """The verdict, or unknown."""
        spread = float(np.ptp(self.ways_ns))
        apart = (self.apart_ns - self.near_ns) / self.range_ns
        if apart >= FAR:
            return "many"
        if apart > NEAR or spread < FLAT * self.range_ns:
            return UNKNOWN
        scores = {
            name: correlation(
                np.abs(radius(self.shares, self.ratio) - radius(np.array(at), self.ratio)), self.ways_ns
            )
            for name, at in WHERE.items()
        }
        best, next_best = sorted(scores, key=lambda name: scores[name], reverse=True)[:2]
        if scores[best] < FOLLOWS or scores[best] - scores[next_best] < LEAD:
            return UNKNOWN
        return best


@dataclass(frozen=True, slots=True)
class _Typical:
    """Typical latencies, ns: along the profile, and of cached data of far and of near addresses in turn."""

    ways_ns: F64
    apart_ns: float
    near_ns: float


def _reads(seen: Seen) -> list[I64]:
    """The reads that signs rest on: the profile in the order of addresses, then far and near cached data."""
    return [
        *(seen.profile[at] for at in sorted(seen.profile)),
        seen.cached["low-high"],
        seen.cached["low-low"],
    ]


def _typicals(seen: Seen) -> _Typical:
    """What is typical of the evidence."""
    *ways, apart, near = map(typical, _reads(seen))
    return _Typical(np.array(ways), apart, near)


def _resampled(seen: Seen, rounds: int) -> list[_Typical]:
    """What is typical of resamples of the reads."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    reads = _reads(seen)
    drawn: list[list[I64]] = [[] for _ in reads]
    for _ in range(rounds):
        for mine, latency_ns in zip(drawn, reads, strict=True):
            mine.append(latency_ns[rng.integers(0, len(latency_ns), len(latency_ns))])
    means = np.empty((rounds, len(reads)))
    for column, mine in enumerate(drawn):
        means[:, column] = _typical_of_each(np.array(mine, np.float64))
    return [_Typical(row[:-2], float(row[-2]), float(row[-1])) for row in means]


def _signs(seen: Seen, known: Known, found: _Typical) -> _Signs:
    """The signs of what is typical of the reads, or of a resample of them."""
    shares = np.array(sorted(seen.profile))
    seek_track, seek_full = known.part("seek_ns", "track"), known.part("seek_ns", "full")
    # From a cache at the MD no address is farther than half of the tracks, so what was seen may be that.
    measured = (max(float(found.ways_ns.max()), found.apart_ns) - found.near_ns) / HALF_WAY
    arm = seek_full - seek_track if seek_track is not None and seek_full is not None else measured
    outer, inner = known.part("track_bytes", "od"), known.part("track_bytes", "id")
    ratio = outer / inner if outer is not None and inner is not None and inner > 0 else 1.0
    return _Signs(shares, found.ways_ns, found.apart_ns, found.near_ns, max(arm, 1.0), max(ratio, 1.0))


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
    signs = _signs(seen, known, _typicals(seen))
    place = signs.place()
    if place == UNKNOWN:
        return LOCATION.unknown(f"the profile follows no one place: {_words(seen, signs)}", seen.rows)
    rounds = RESAMPLES // 4
    hits = sum(_signs(seen, known, found).place() == place for found in _resampled(seen, rounds))
    return LOCATION.found(place, share(hits, rounds), _reason(place, seen, signs), seen.rows)


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
