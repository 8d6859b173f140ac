"""Recording zones: runs of tracks with one number of sectors, distinguished by the sizes of tracks.

Test 11 measures the size of tracks at some dozens of places to 0.1 %, and the speed of bursts between them.
On a drive whose addresses run once from the outer to the inner diameter both only fall, zone by zone. Places
of one size make a level, levels follow each other, and each change lies between two places that are known.

Invariants:
- Pure functions. A size counts as different only beyond `SIGMAS` standard errors (`sizes.Size.same`), a burst
  only beyond those of all bursts.
- Where changes are in doubt more places are asked for (`settle`), the last address first: the last zone may
  be narrow.
- A count is a lower bound, and said as one, unless every change is known to less than half of the narrowest
  zone that was seen, each zone was seen twice, and steps are far beyond doubt: one that was missed would have
  to be narrower than any that was not.
- Where sizes rise with addresses surfaces differ, or the drive goes from surface to surface: then what
  changes is not only the zone. With a pattern of surfaces (`sizes.mirrored`) a lower bound remains, else
  nothing is said.

Source: Skylight (FAST '15) section 4.9; docs/tests/zones.md, "How it decides".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skylight.findings import Finding
from skylight.probe.recording_zones.findings import RECORDING_ZONES
from skylight.probe.recording_zones.speed import Profile
from skylight.probe.recording_zones.track_sizes import SIGMAS, Pattern, Size

FEWEST_PLACES = 8
BURST_SIGMAS = 2.5
"""Standard errors of a burst that the worst of those that agree is off."""

WORST_BURST = 0.01
"""Bursts that are known worse than this (relative) tell no zones apart."""

STRAYS = 0.1
"""Share of the places that may be left out: fits that went astray, and bursts that met a slow command."""

ROOM = 0.5
"""A change is known well enough if it lies within less than so much of the narrowest zone."""

WIDE = 0.5
"""Of the longest doubt: changes in longer ones are looked for in one round."""

LEAST_TRACKS = 40
"""A place in the middle of fewer tracks may lie over the change itself."""

LEAST_PLACES = 4

LARGEST_STEP = 1.6
"""Of the usual step of track sizes: zones on both sides of one that was missed are two steps apart."""

CLOSE = 0.1
"""Where all changes are known to within so much of the usual zone, more places do not help."""

BESIDE_TRACKS = 9
"""How far from a new size it has to be seen again: no track is read for both."""


@dataclass(frozen=True, slots=True)
class Level:
    """A zone as it was seen: its first and its last place (bytes), and the size of its tracks."""

    first: float
    last: float
    track_bytes: float
    error: float
    places: int


@dataclass(frozen=True, slots=True)
class RecordingZones:
    """The zones that were distinguished, from the first address on."""

    levels: tuple[Level, ...]
    size_bytes: float

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Between which addresses (bytes) each zone gives way to the next that was seen."""
        return tuple((one.last, other.first) for one, other in pairwise(self.levels))

    @property
    def widest_doubt(self) -> float:
        """The longest stretch (bytes) in which a change may lie unseen: between two levels, before the first
        place, behind the last one."""
        ends = (self.levels[0].first, self.size_bytes - self.levels[-1].last)
        return max(*ends, *(end - begin for begin, end in self.edges))

    @property
    def narrowest(self) -> float:
        """Bytes of the narrowest level, from place to place: each zone is at least as wide."""
        ends = [
            (level.first if number else 0.0, level.last if number + 1 < len(self.levels) else self.size_bytes)
            for number, level in enumerate(self.levels)
        ]
        return min(end - begin for begin, end in ends)

    @property
    def count(self) -> int:
        """How many there are at least: one place alone may be a fit that went astray, once."""
        return len(self.levels) - any(level.places == 1 for level in self.levels)

    @property
    def exact(self) -> bool:
        """Whether the count is more than a lower bound."""
        clear = self.count == len(self.levels) > 1 and self.apart >= 2 * SIGMAS
        return clear and self.widest_doubt < ROOM * self.narrowest

    @property
    def even(self) -> bool:
        """Whether no step is much larger than the others: a zone of which a drive keeps nearly all for
        itself, and that was missed for it, would make one."""
        steps = -np.diff([level.track_bytes for level in self.levels])
        return bool(np.all(steps <= LARGEST_STEP * np.median(steps))) if len(steps) else True

    @property
    def usual(self) -> float:
        """Bytes of the middle one of the levels, from place to place."""
        return float(np.median([level.last - level.first for level in self.levels]))

    @property
    def apart(self) -> float:
        """How far the levels that are nearest to each other are apart, in standard errors."""
        return min(_steps(self.levels), default=0.0)


def _without_strays(sizes: Sequence[Size]) -> list[Size] | None:
    """The most sizes of which none is beyond doubt longer than the one before it: without fits that went
    astray. None where these are many. (The longest non-increasing subsequence, in quadratic time.)"""
    track = np.array([size.track_bytes for size in sizes])
    error = np.array([size.error for size in sizes])
    count, before = np.ones(len(sizes), np.intp), np.full(len(sizes), -1)
    for i in range(1, len(sizes)):
        falls = track[i] / track[:i] - 1 <= SIGMAS * np.hypot(error[i], error[:i])
        if falls.any():
            best = int(np.argmax(np.where(falls, count[:i], 0)))
            count[i], before[i] = count[best] + 1, best
    if not len(sizes) or len(sizes) - int(count.max()) > STRAYS * len(sizes):
        return None
    kept, at = [], int(np.argmax(count))
    while at >= 0:
        kept.append(sizes[at])
        at = int(before[at])
    return kept[::-1]


def _levels(sizes: Sequence[Size]) -> list[Level] | None:
    """Places as levels, falling with the addresses; None where a size rises beyond doubt."""
    levels: list[Level] = []
    for size in sizes:
        last = levels[-1] if levels else None
        if last is None or not size.same(Size(last.last, last.track_bytes, last.error)):
            if last is not None and size.track_bytes > last.track_bytes:
                return None
            levels.append(Level(size.at, size.at, size.track_bytes, size.error, 1))
            continue
        weight = 1 / (last.places + 1)
        mean = last.track_bytes + weight * (size.track_bytes - last.track_bytes)
        levels[-1] = Level(last.first, size.at, mean, min(last.error, size.error), last.places + 1)
    return levels


def _steps(levels: Sequence[Level]) -> list[float]:
    """How far each level is from the next, in standard errors."""
    return [
        abs(one.track_bytes / other.track_bytes - 1) / math.hypot(one.error, other.error)
        for one, other in pairwise(levels)
    ]


def _clear(levels: list[Level]) -> list[Level]:
    """Levels without steps that are in doubt: the two beside one are taken for one zone."""
    kept = list(levels)
    while (steps := _steps(kept)) and min(steps) < SIGMAS:
        at = int(np.argmin(steps))
        one, other = kept[at : at + 2]
        more = one if one.places >= other.places else other
        places = one.places + other.places
        kept[at : at + 2] = [Level(one.first, other.last, more.track_bytes, more.error, places)]
    return kept


def _with_bursts(sizes: list[Size], levels: Sequence[Level], profile: Profile | None) -> list[Size]:
    """The places, and those of the bursts: their speeds as sizes, by what bursts within a level have in
    common, and with the error that those have."""
    if profile is None:
        return sizes
    ratios = [
        speed / level.track_bytes
        for at, speed in zip(profile.at, profile.speed, strict=True)
        for level in levels
        if level.places > 1 and level.first <= at <= level.last
    ]
    if len(ratios) < FEWEST_PLACES:
        return sizes
    middle = float(np.median(ratios))
    off = np.sort(np.abs(np.asarray(ratios) / middle - 1))
    agreeing = off[: len(off) - int(STRAYS * len(off))]  # a burst may have met an outlier
    error = max(float(agreeing[-1]), profile.spread) / BURST_SIGMAS
    if error > WORST_BURST:
        return sizes
    bursts = [
        Size(float(at), float(speed) / middle, error)
        for at, speed in zip(profile.at, profile.speed, strict=True)
    ]
    return sorted([*sizes, *bursts], key=lambda size: size.at)


def zones_of(sizes: Sequence[Size], profile: Profile | None, size_bytes: float) -> RecordingZones | None:
    """The recording zones that sizes and bursts distinguish; None where they do not fall."""
    kept = _without_strays(sorted(sizes, key=lambda size: size.at))
    if kept is None or len(kept) < FEWEST_PLACES:
        return None
    levels = _levels(kept)
    if levels is None:
        return None
    together = _without_strays(_with_bursts(kept, levels, profile))
    more = _levels(together) if together is not None else None
    measured = {size.at for size in kept}
    if more is not None:  # one burst alone makes no zone
        more = [level for level in more if level.places > 1 or level.first in measured]
    levels, more = _clear(levels), None if more is None else _clear(more)
    best = more if more is not None and len(more) >= len(levels) else levels
    return RecordingZones(tuple(best), size_bytes)


def settle(
    ask: Callable[[float], Size | None],
    sizes: Sequence[Size],
    profile: Profile | None,
    size_bytes: float,
    most: int,
) -> list[Size]:
    """More sizes, from at most so many places, where changes are in doubt: round by round in the middle of
    the longest doubts, until the count is exact. A size that neither zone beside it has is given only if it
    is seen again beside: a place over a change has none of its own."""
    if most < LEAST_PLACES or zones_of(sizes, profile, size_bytes) is None:
        return []
    more, asked = _at_end(ask, size_bytes), 2
    while more and asked + 2 <= most:
        zones = zones_of([*sizes, *more], profile, size_bytes)
        longest = max((end - begin for begin, end in zones.edges), default=0.0) if zones is not None else 0.0
        if zones is None or zones.exact or longest <= CLOSE * zones.usual:
            break
        limit = max(WIDE * longest, LEAST_TRACKS * zones.levels[0].track_bytes)
        wide = [beside for beside in pairwise(zones.levels) if beside[1].first - beside[0].last > limit]
        before = len(more)
        for beside in wide:
            if asked + 2 > most:
                break
            seen = _between(ask, beside)
            asked += 1 + (len(seen) != 1)
            more += seen
        if len(more) == before:
            break
    return more


def _at_end(ask: Callable[[float], Size | None], size_bytes: float) -> list[Size]:
    """The size at the last address; none where another place nearby does not agree."""
    found = ask(size_bytes)
    again = None if found is None else ask(size_bytes - BESIDE_TRACKS * found.track_bytes)
    return [found, again] if found is not None and again is not None and again.same(found) else []


def _between(ask: Callable[[float], Size | None], beside: tuple[Level, Level]) -> list[Size]:
    """The size in the middle between two levels; none where it is neither's and not seen again beside."""
    found = ask((beside[0].last + beside[1].first) / 2)
    if found is None:
        return []
    if any(found.same(Size(level.first, level.track_bytes, level.error)) for level in beside):
        return [found]
    again = ask(found.at + BESIDE_TRACKS * found.track_bytes)
    return [found, again] if again is not None and again.same(found) else []


def _stepped(sizes: Sequence[Size], ratio: float) -> int:
    """How many zones there are at least where surfaces of one zone may differ by a `ratio`: each place in the
    count has shorter tracks than any surface has in the zone of the one before."""
    count, level = 0, math.inf
    for size in sorted(sizes, key=lambda size: size.at):
        if size.track_bytes * (1 + SIGMAS * size.error) * ratio < level:
            count, level = count + 1, size.track_bytes * (1 - SIGMAS * size.error)
    return count


def finding(
    sizes: Sequence[Size],
    pattern: Pattern | None,
    profile: Profile | None,
    size_bytes: float,
    *,
    keeps: bool = False,
) -> Finding:
    """The finding `recording_zones`: their count, and the first and the last edge, or at least how many. A
    drive that `keeps` some of its tracks for itself may leave little of a zone to addresses."""
    rows = ("tracks-000", "profile")
    if pattern is not None:
        ratio = float(pattern.density.max() / pattern.density.min())
        count = _stepped(sizes, ratio)
        why = (
            f"Surfaces of one zone differ by up to {100 * (ratio - 1):.1f} %; tracks at {len(sizes)} places"
            f" become shorter by more than that {count - 1} times; nearer zones are not distinguished."
        )
        return RECORDING_ZONES.found({"at_least": count}, 1.0 - _by_chance(SIGMAS, count), why, rows)
    found = zones_of(sizes, profile, size_bytes)
    if found is None:
        why = (
            "The size of tracks does not only fall with the addresses, or was measured at too few places:"
            " what changes is not only the zone."
        )
        return RECORDING_ZONES.unknown(why, rows)
    count, doubt = found.count, found.widest_doubt / size_bytes
    sure = 1.0 - _by_chance(found.apart, count)
    places = sum(level.places for level in found.levels)
    seen = f"Track sizes at {places} places fall in {len(found.levels) - 1} steps"
    if found.exact and keeps and not found.even:
        why = (
            f"{seen}, one of them much larger than the others: the drive may keep most of a zone for itself."
        )
        return RECORDING_ZONES.found({"at_least": count}, sure, why, rows)
    if not found.exact:
        why = f"{seen}; between some of them {100 * doubt:.1f} % of the drive was not looked at."
        return RECORDING_ZONES.found({"at_least": count}, sure, why, rows)
    room = found.widest_doubt / found.narrowest
    why = (
        f"{seen}, each known to {100 * doubt:.1f} % of the drive: a zone that was missed would be narrower"
        f" than {100 * room:.0f} % of the narrowest that was seen."
    )
    if keeps:
        why += " A zone that the drive keeps wholly for itself is not among them."
    edges = [round((begin + end) / 2) for begin, end in found.edges]
    value: dict[str, int | float | bool | str] = {
        "count": count, "first_edge_bytes": edges[0], "last_edge_bytes": edges[-1]
    }  # fmt: skip
    return RECORDING_ZONES.found(value, sure * (1.0 - room**2), why, rows)


def _by_chance(apart: float, count: int) -> float:
    """The chance that noise made one of the steps, each of at least so many standard errors."""
    return min(1.0, max(count - 1, 0) * math.erfc(apart / math.sqrt(2.0)))
