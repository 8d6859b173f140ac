"""Which neighbouring tracks lie on one surface: the arm's step to the next track, told from a head switch.

Arm times between tracks that are neighbours in address have up to two levels. Over one or a few tracks of one
surface the arm takes its shortest time; to another surface the head switch runs beside it, and the longer
counts; within a cylinder there is only the switch. Which pairs are which depends on how the disk walks its
tracks, and the known ways are few: cylinders of 2 to 20 heads, walked in one direction or serpentine, or
long strokes on one surface. Each way, with each place where it may begin, sorts the pairs into two levels,
and the one whose levels fit the times best is taken, if no other that says something else about the arm fits
nearly as well.

Invariant: pure; None where the times do not tell, never a guess.

Sources: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS '11); head
switch beside a seek as in Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.infer.robust import NORMAL_MEDIAN, middle

Ints = I64
Mask = NDArray[np.bool_]

MOST_HEADS = 20
STROKES = "strokes, each on one surface"
FEWEST_PAIRS = 12
LEAST_NOISE = 0.03  # of the times: the arm takes a little longer over two or three cylinders than over one
CAP = 16.0  # a pair counts no more than four standard deviations
PLAINLY = 20.0  # twice the log of how much likelier a way must be than one that says something else
ALIKE = 0.06  # arm times so close say the same
FAR_APART = 0.13  # times of likely ways farther apart leave the arm's open
OPEN = "cylinders or strokes"
BANDS = "bands of few tracks"
FEWEST_FAR = 40
"""Pairs from band to band. Chosen: of tracks on 20 heads a twentieth of the pairs are of one surface, so that
none of 40 is has a chance of one in eight, and of ten heads one in 70."""
MOST_OFF = 0.1  # the part of pairs that may be off the way that fits best by more than the cap


@dataclass(frozen=True, slots=True)
class NextTrack:
    """Arm time to the next track of a surface and how far likely ways of walking lie from it (ns), the pairs
    to measure it on, the time of a head switch where there is one, heads where the walk is by cylinders, and
    in words how tracks are walked."""

    ns: float
    open_ns: float
    pairs: tuple[tuple[int, int], ...]
    switch_ns: float | None
    heads: int | None
    walk: str


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of walking: which pairs have the arm's level, which the switch's, and which step over one
    cylinder or track at most."""

    walk: str
    heads: int | None
    arm: Mask
    switch: Mask
    best: Mask
    constants: int


def next_track(one: Ints, other: Ints, time_ns: F64) -> NextTrack | None:
    """From arm times between pairs of tracks, numbered in the order of their addresses."""
    if len(time_ns) < FEWEST_PAIRS:
        return None
    fits = _Fits(list(_ways(one, other)), time_ns)
    risings = _risings(one, other, time_ns)
    least_ns = noise_ns = LEAST_NOISE * float(np.median(time_ns))
    for _ in range(2):
        way, cost, arm_ns, switch_ns = min(fits.at(noise_ns), key=lambda fit: fit[1])
        off = np.abs(time_ns - _expected(way, arm_ns, switch_ns))
        # Noise is what the likeliest of all leaves over: a way that does not fit must not hide in its own.
        for other_way in risings:
            if other_way.cost(noise_ns) < cost:
                cost, off = other_way.cost(noise_ns), np.abs(other_way.off)
        noise_ns = max(least_ns, float(np.median(off)) / NORMAL_MEDIAN)
    found = fits.at(noise_ns)
    way, cost, arm_ns, switch_ns = min(found, key=lambda fit: fit[1])
    costs = [(fit[1], fit[2]) for fit in found]
    costs += [(rising.cost(noise_ns), rising.first_ns) for rising in risings]
    least = min(each for each, _ in costs)
    likely = [ns for each, ns in costs if each < least + PLAINLY]
    if max(likely) / min(likely) > 1 + ALIKE:
        return _compromise(min(likely), max(likely))
    rising = min(risings, key=lambda rising: rising.cost(noise_ns), default=None)
    if rising is not None and rising.cost(noise_ns) < cost:
        return rising.found(noise_ns)
    off = np.abs(time_ns - _expected(way, arm_ns, switch_ns)) > np.sqrt(CAP) * noise_ns
    chosen = way.best & ~off
    if np.count_nonzero(off) > MOST_OFF * len(off) or not chosen.any():
        return None
    pairs = tuple((int(a), int(b)) for a, b in zip(one[chosen], other[chosen], strict=True))
    switch = switch_ns if way.switch.any() or np.any(~way.arm) else None
    return NextTrack(arm_ns, 0.0, pairs, switch, way.heads, way.walk)


def next_in_bands(one: Ints, other: Ints, time_ns: F64, is_next: Mask) -> NextTrack | None:
    """From arm times between pairs of which some follow each other in a band (`is_next`) and the others lie
    in bands whose distance is not known.

    Then no way of walking can be told from another. Where tracks that follow each other and those that do not
    are as far apart in time, arm and switch of heads are as long, whichever of them it was: else some of the
    many pairs would show the shorter alone, or most of them the longer."""
    if np.count_nonzero(is_next) < FEWEST_PAIRS // 2 or np.count_nonzero(~is_next) < FEWEST_FAR:
        return None
    next_ns = float(np.median(time_ns[is_next]))
    spread = float(np.median(np.abs(time_ns[is_next] - next_ns))) / NORMAL_MEDIAN
    noise_ns = max(LEAST_NOISE * next_ns, spread)
    sooner = time_ns < next_ns - np.sqrt(CAP) * noise_ns
    later = time_ns > (1 + FAR_APART) * next_ns + np.sqrt(CAP) * noise_ns
    open_ns = max(0.0, float(np.median(time_ns[~is_next])) - next_ns)
    if next_ns <= 0 or sooner.any() or np.count_nonzero(later) > MOST_OFF * len(later):
        return None
    if noise_ns > 2 * LEAST_NOISE * next_ns or open_ns > FAR_APART * next_ns:
        return None
    chosen = is_next & (np.abs(time_ns - next_ns) < np.sqrt(CAP) * noise_ns)
    pairs = tuple((int(a), int(b)) for a, b in zip(one[chosen], other[chosen], strict=True))
    return NextTrack(next_ns, open_ns / 2, pairs, None, None, BANDS)


def _compromise(least_ns: float, most_ns: float) -> NextTrack | None:
    """The middle of what the likely ways say, where they are not far apart; how they walk stays open."""
    if most_ns / least_ns > 1 + FAR_APART:
        return None
    middle = float(np.sqrt(least_ns * most_ns))
    return NextTrack(middle, (most_ns - least_ns) / 2, (), None, None, OPEN)


@dataclass(frozen=True, slots=True)
class _Rising:
    """Strokes on one surface by an arm whose time rises with the distance, in tracks."""

    one: Ints
    other: Ints
    off: F64
    first_ns: float
    constants: int

    def cost(self, noise_ns: float) -> float:
        capped = np.minimum((self.off / noise_ns) ** 2, CAP)
        return float(capped.sum()) + self.constants * float(np.log(len(self.off)))

    def found(self, noise_ns: float) -> NextTrack | None:
        off = np.abs(self.off) > np.sqrt(CAP) * noise_ns
        chosen = (np.abs(self.one - self.other) == 1) & ~off
        if np.count_nonzero(off) > 2 * MOST_OFF * len(off) or not chosen.any():
            return None
        pairs = tuple((int(a), int(b)) for a, b in zip(self.one[chosen], self.other[chosen], strict=True))
        return NextTrack(self.first_ns, 0.0, pairs, None, None, STROKES)


def _risings(one: Ints, other: Ints, time_ns: F64) -> list[_Rising]:
    """Rising curves through the median of the pairs at each distance, if some are one apart: straight, as a
    square root, as both (Ruemmler and Wilkes), and any, which has a constant for each of its levels."""
    apart = np.abs(one - other)
    distance, which = np.unique(apart, return_inverse=True)
    if distance[0] != 1:
        return []
    middle = np.array([np.median(time_ns[which == number]) for number in range(len(distance))])
    weight = np.bincount(which).astype(np.float64)
    found = []
    straight, root = distance - 1.0, np.sqrt(distance) - 1.0
    for more in ([straight], [root], [straight, root]):
        columns = np.stack([np.ones(len(distance)), *more], axis=1)
        if len(distance) <= columns.shape[1]:
            continue
        heavy = np.sqrt(weight)
        parts = np.linalg.lstsq(columns * heavy[:, None], middle * heavy, rcond=None)[0]
        if (parts > 0).all():
            curve = columns @ parts
            found.append(_Rising(one, other, time_ns - curve[which], float(parts[0]), len(parts) + 2))
    curve = _monotone(middle, weight)
    found.append(_Rising(one, other, time_ns - curve[which], float(curve[0]), len(np.unique(curve)) + 2))
    return found


def _monotone(value: F64, weight: F64) -> F64:
    """The rising values nearest to some, by pooling neighbours that fall."""
    pools: list[list[float]] = []
    for each, heavy in zip(value, weight, strict=True):
        pools.append([float(each), float(heavy), 1.0])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            last, before = pools.pop(), pools.pop()
            total = last[1] + before[1]
            mean = (last[0] * last[1] + before[0] * before[1]) / total
            pools.append([mean, total, last[2] + before[2]])
    return np.concatenate([np.full(int(size), mean) for mean, _, size in pools])


def _expected(way: _Way, arm_ns: float, switch_ns: float) -> F64:
    both = max(arm_ns, switch_ns)
    return np.where(way.arm, arm_ns, np.where(way.switch, switch_ns, both))


class _Fits:
    """Ways with the levels that fit each: the arm the shorter of the two, or the longer, or no such."""

    def __init__(self, ways: list[_Way], time_ns: F64) -> None:
        self._ways = ways
        self._levels = np.full((len(ways), 2, 2), np.inf)  # ns: the arm's and the switch's
        self._off_ns = np.zeros((len(ways), 2, len(time_ns)))
        self._constants = np.array([way.constants for way in ways]) * np.log(len(time_ns))
        for number, way in enumerate(ways):
            for place, (levels, off_ns) in enumerate(_levels(way, time_ns)):
                self._levels[number, place] = levels
                self._off_ns[number, place] = off_ns

    def at(self, noise_ns: float) -> list[tuple[_Way, float, float, float]]:
        """Each way with the cost of its best fit under such a noise, the arm's and the switch's time."""
        costs = np.minimum((self._off_ns / noise_ns) ** 2, CAP).sum(axis=2) + self._constants[:, None]
        costs[np.isinf(self._levels[:, :, 0])] = np.inf
        each, best = np.arange(len(costs)), costs.argmin(axis=1)
        arm_ns, switch_ns = self._levels[each, best].T.tolist()
        return list(zip(self._ways, costs[each, best].tolist(), arm_ns, switch_ns, strict=True))


def _levels(way: _Way, time_ns: F64) -> list[tuple[tuple[float, float], F64]]:
    """The times of arm and switch that a way allows, each with how far every pair is off them, ns."""
    found = []
    for low in (way.arm, way.switch):
        if not low.any():
            continue
        low_ns = middle(time_ns[low])
        high_ns = low_ns if low.all() else middle(time_ns[~low])
        if high_ns >= low_ns:
            levels = (low_ns, high_ns) if low is way.arm else (high_ns, low_ns)
            found.append((levels, time_ns - np.where(low, low_ns, high_ns)))
    return sorted(found, key=lambda fit: fit[0])


def _ways(one: Ints, other: Ints) -> Iterator[_Way]:
    apart = np.abs(one - other)
    none = np.zeros(len(one), bool)
    yield _Way(STROKES, None, ~none, none, apart == apart.min(), 1)
    for heads in range(2, MOST_HEADS + 1):
        for begin in range(2 * heads):
            for turns in (False, True):
                if turns or begin < heads:
                    yield _cylinders(one + begin, other + begin, heads, turns)
    for end in range(int(min(one.min(), other.min())), int(max(one.max(), other.max()))):
        across = (one <= end) != (other <= end)
        mirror = across & (one + other == 2 * end + 1)
        yield _Way(STROKES, None, ~across, mirror, ~across & (apart == apart.min()), 3)


def _cylinders(one: Ints, other: Ints, heads: int, turns: bool) -> _Way:
    """Cylinders of so many heads, the first track being the first of one; serpentine."""
    cylinder = [track // heads for track in (one, other)]
    head = [track % heads for track in (one, other)]
    if turns:
        head = [np.where(c % 2 == 1, heads - 1 - h, h) for c, h in zip(cylinder, head, strict=True)]
    within, surface = cylinder[0] == cylinder[1], head[0] == head[1]
    beside = np.abs(cylinder[0] - cylinder[1]) == 1
    arm = surface & ~within
    walk = f"cylinders of {heads} heads" + (", there and back" if turns else "")
    return _Way(walk, heads, arm, within, beside & arm if (beside & arm).any() else arm, 4)
