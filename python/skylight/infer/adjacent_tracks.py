"""Which neighbouring tracks lie on one surface: the arm's step to the next track, told from a head switch.

Arm times between tracks that are neighbours in address have up to two levels. Over one or a few tracks of one
surface the arm takes its shortest time; to another surface the head switch runs beside it, and the longer
counts; within a cylinder there is only the switch. Which pairs are which depends on how the disk walks its
tracks, and the known ways are few: cylinders of 2 to 20 heads, walked in one direction or serpentine, or
long strokes on one surface. Each way, with each place where it may begin, sorts the pairs into two levels,
and the one whose levels fit the times best is taken, if no other that says something else about the arm fits
nearly as well. Where strokes on one surface end within the tracks and the next begins far from there, every
pair across that end waits for a longer way; then the pairs on either side say the arm's step alone.

Invariant: pure; None where the times do not tell, never a guess.

Sources: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS '11); head
switch beside a seek as in Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.infer.robust import NORMAL_MEDIAN, middle, never_falling

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
SCATTERED = (1.2, 4.0)
"""Times the least noise: below, what is left over may be the model's fault; above, it is as much as what
distinguishes the ways."""
MOST_ELSEWHERE = 0.2  # of the weight, more than half of `FAR_APART` from the mean
NEAR_MEAN = 1.0
"""Standard deviations of a pair from the mean of all ways within which it is one to measure that on."""
OPEN = "cylinders or strokes"
MOST_OFF = 0.1  # the part of pairs that may be off the way that fits best by more than the cap
FARTHER = 1.15  # times what the slowest pair of one stroke takes: those across its end take longer
FEWEST_ACROSS = 3  # pairs across the end of a stroke
MOST_ENDS = 0.2  # of the tracks in a row: where more lie apart, none of them lie on a stroke
FEWEST_UNDER = 3
"""Pairs of different tracks that agree to take less than the arm is said to at least."""
STEP = 1.5
"""Times the arm's step: tracks in a row that lie so far apart are no neighbours of one surface. Chosen: past
what the arm takes longer over the few tracks that lie between bands."""
SURELY_RISES = 3.5
"""Standard errors. Within a cylinder a head switch takes as long from any head to any other, so pairs that
take longer the farther apart they are lie on one surface."""


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
    found = _by_ways(one, other, time_ns)
    if found is None or _is_undercut(found, one, other, time_ns) or _has_steps(found, one, other, time_ns):
        return None
    return found


def _is_undercut(found: NextTrack, one: Ints, other: Ints, time_ns: F64) -> bool:
    """Whether pairs take plainly less than the arm that is said to take least, and agree on how much.

    Nothing makes the arm quicker: a pair that was misread is alone with its time. Several pairs of different
    tracks that take the same are a level that this way of walking has no name for, as of an arm that steps
    from cylinder to cylinder in less than heads are switched, where most pairs of one surface lie across the
    end of a band."""
    if found.switch_ns is not None and found.switch_ns < found.ns:
        return False
    noise_ns = LEAST_NOISE * found.ns
    low = np.flatnonzero(time_ns < found.ns - sqrt(CAP) * noise_ns)
    for ns in time_ns[low]:
        alike = low[np.abs(time_ns[low] - ns) <= noise_ns]
        if _apart(one[alike], other[alike]) >= FEWEST_UNDER:
            return True
    return False


def _has_steps(found: NextTrack, one: Ints, other: Ints, time_ns: F64) -> bool:
    """Whether tracks in a row, which a way of strokes has on one surface but for the one end of it, are
    several times a whole step farther apart than that: as where cylinders begin anew in a recording zone, so
    that none of them fits all tracks, and what is taken for the arm is a switch of heads."""
    if found.walk != STROKES:
        return False
    longer = (np.abs(one - other) == 1) & (time_ns > STEP * found.ns)
    return _apart(one[longer], other[longer]) >= FEWEST_UNDER


def _apart(one: Ints, other: Ints) -> int:
    """How many of some pairs have no track that was misread in common: as many as tracks that all of them
    together meet, but for those from which many others were measured."""
    tracks, times = np.unique(np.concatenate([one, other]), return_counts=True)
    once = set(tracks[times == 1].tolist())
    return sum(int(a) in once or int(b) in once for a, b in zip(one, other, strict=True))


def _by_ways(one: Ints, other: Ints, time_ns: F64) -> NextTrack | None:
    if (in_one := _in_one_stroke(one, other, time_ns)) is not None:
        one, other, time_ns = _of(in_one, one, other, time_ns)
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
    if in_one is None and any(fit[0].switch.all() and fit[1] < least + PLAINLY for fit in found):
        return None  # all pairs may lie in one cylinder, where the arm is not seen to move
    if (
        max(likely) / min(likely) > 1 + FAR_APART
        and SCATTERED[0] * least_ns < noise_ns < SCATTERED[1] * least_ns
    ):
        mean = _weighted(np.array([each for each in costs if np.isfinite(each[0])]))
        return mean and _with_pairs(mean, one, other, time_ns, noise_ns)
    if max(likely) / min(likely) > 1 + ALIKE:
        between = _compromise(min(likely), max(likely))
        return between and _with_pairs(between, one, other, time_ns, noise_ns)
    if arm_ns > switch_ns and way.heads:
        within = _of(way.switch, one, other, time_ns)
        rises, in_a_row = (_rises(*within, either_way=True, in_a_row=each) for each in (False, True))
        if rises:  # if tracks in a row do not take less, either the rise or the step that shows them is off
            return _on_one_surface(*within) if in_a_row else None
    if arm_ns < switch_ns and not way.heads and np.count_nonzero(way.arm) >= FEWEST_PAIRS:
        return next_track(*_of(way.arm, one, other, time_ns))  # within a stroke, or a band in cylinders
    rising = min(risings, key=lambda rising: rising.cost(noise_ns), default=None)
    if rising is not None and rising.cost(noise_ns) < cost:
        return rising.found(noise_ns)
    off = np.abs(time_ns - _expected(way, arm_ns, switch_ns)) > np.sqrt(CAP) * noise_ns
    chosen = way.best & ~off
    if np.count_nonzero(off) > MOST_OFF * len(off):
        return None
    if not chosen.any():  # no pair is of one surface, but all likely ways say the same of the arm
        return _compromise(min(likely), max(likely))
    pairs = chosen_pairs(one, other, chosen)
    switch = switch_ns if way.switch.any() or np.any(~way.arm) else None
    return NextTrack(arm_ns, 0.0, pairs, switch, way.heads, way.walk)


def chosen_pairs(one: Ints, other: Ints, chosen: Mask) -> tuple[tuple[int, int], ...]:
    """The pairs that a mask chooses.

    >>> chosen_pairs(np.array([0, 1]), np.array([2, 3]), np.array([False, True]))
    ((1, 3),)
    """
    return tuple((int(a), int(b)) for a, b in zip(one[chosen], other[chosen], strict=True))


def _in_one_stroke(one: Ints, other: Ints, time_ns: F64) -> Mask | None:
    """The pairs on one stroke, where others plainly lie across the end of one; None where none do."""
    order = np.sort(time_ns)
    gaps = order[1:] / order[:-1]
    gaps[: FEWEST_PAIRS - 1], gaps[len(gaps) - FEWEST_ACROSS + 1 :] = 1.0, 1.0
    widest = int(np.argmax(gaps)) if len(gaps) else 0
    if len(gaps) < FEWEST_PAIRS + FEWEST_ACROSS or order[widest] <= 0 or gaps[widest] < FARTHER:
        return None
    near, in_row = time_ns <= order[widest], np.abs(one - other) == 1
    if np.count_nonzero(in_row & ~near) > MOST_ENDS * np.count_nonzero(in_row):
        return None
    return near if _rises(one[near], other[near], time_ns[near]) else None


def _of(chosen: Mask, one: Ints, other: Ints, time_ns: F64) -> tuple[Ints, Ints, F64]:
    return one[chosen], other[chosen], time_ns[chosen]


def _on_one_surface(one: Ints, other: Ints, time_ns: F64) -> NextTrack | None:
    """The step where pairs plainly lie on one surface, for they take longer the farther apart they are. Bands
    sort pairs as cylinders as high as a band is long do, but a switch of heads takes as long over any
    tracks."""
    noise_ns = LEAST_NOISE * float(np.median(time_ns))
    rising = min(_risings(one, other, time_ns), key=lambda rising: rising.cost(noise_ns), default=None)
    return None if rising is None else rising.found(noise_ns)


def _rises(one: Ints, other: Ints, time_ns: F64, *, either_way: bool = False, in_a_row: bool = False) -> bool:
    """Whether pairs take longer the farther apart they are. A track size that is a little off moves pairs in
    one direction up and those in the other down, so that it counts for nothing, unless a rise `either_way`
    is asked for; and tracks in a row were measured in another step, whose times may be off by themselves, so
    that they count only if asked for.

    Within cylinders of nine random drives pairs rose either way by 1.5 standard errors at most. Where all lie
    in one direction the two parts are hardly separated, so the farthest quarter has to take as surely longer
    than the nearest."""
    apart = np.abs(one - other) > (0 if in_a_row else 1)
    along, time_ns = (other - one)[apart].astype(np.float64), time_ns[apart]
    columns = np.stack([np.ones(len(along)), np.sqrt(np.abs(along)), along], axis=1)
    if either_way:
        columns = columns[:, :2]
    if len(along) < FEWEST_PAIRS or np.linalg.matrix_rank(columns) < columns.shape[1]:
        return False
    parts = np.linalg.lstsq(columns, time_ns, rcond=None)[0]
    left = time_ns - columns @ parts
    variance = float(left @ left) / (len(along) - columns.shape[1])
    error = sqrt(variance * float(np.linalg.inv(columns.T @ columns)[1, 1]))
    distance = np.abs(along)
    near, far = distance <= np.quantile(distance, 0.25), distance >= np.quantile(distance, 0.75)
    longer = float(time_ns[far].mean() - time_ns[near].mean())
    apart_ns = sqrt(variance * (1 / np.count_nonzero(near) + 1 / np.count_nonzero(far)))
    return bool(parts[1] > SURELY_RISES * error and longer > SURELY_RISES * apart_ns)


def _compromise(least_ns: float, most_ns: float) -> NextTrack | None:
    """The middle of what the likely ways say, where they are not far apart; how they walk stays open."""
    if most_ns / least_ns > 1 + FAR_APART:
        return None
    middle = float(np.sqrt(least_ns * most_ns))
    return NextTrack(middle, (most_ns - least_ns) / 2, (), None, None, OPEN)


def _with_pairs(found: NextTrack, one: Ints, other: Ints, time_ns: F64, noise_ns: float) -> NextTrack:
    """What is found with the pairs whose times are as good as that: of two levels hardly any are, of times
    that scatter about one most."""
    near = np.abs(time_ns - found.ns) < NEAR_MEAN * noise_ns
    return replace(found, pairs=chosen_pairs(one, other, near))


def _weighted(costs: F64) -> NextTrack | None:
    """The mean of what all ways say, rows of cost and arm time, where nearly all of the weight lies near it.

    Of times that scatter as a coarse clock makes them, some way or other always picks the few shortest; its
    likelihood says how little that means, as it may not where the times are off for a reason."""
    weight = np.exp((costs[:, 0].min() - costs[:, 0]) / 2)
    weight /= weight.sum()
    logs = np.log(costs[:, 1])
    mean = float(weight @ logs)
    if weight[np.abs(logs - mean) > np.log(1 + FAR_APART / 2)].sum() > MOST_ELSEWHERE:
        return None
    ns = float(np.exp(mean))
    return NextTrack(ns, ns * sqrt(float(weight @ (logs - mean) ** 2)), (), None, None, OPEN)


@dataclass(frozen=True, slots=True)
class _Rising:
    """Strokes on one surface by an arm whose time rises with the distance, in cylinders (`apart`)."""

    one: Ints
    other: Ints
    apart: Ints
    off: F64
    first_ns: float
    constants: int

    def cost(self, noise_ns: float) -> float:
        capped = np.minimum((self.off / noise_ns) ** 2, CAP)
        return float(capped.sum()) + self.constants * float(np.log(len(self.off)))

    def found(self, noise_ns: float) -> NextTrack | None:
        off = np.abs(self.off) > np.sqrt(CAP) * noise_ns
        chosen = (np.abs(self.one - self.other) == 1) & (self.apart == 1) & ~off
        if np.count_nonzero(off) > 2 * MOST_OFF * len(off) or not chosen.any():
            return None
        return NextTrack(self.first_ns, 0.0, chosen_pairs(self.one, self.other, chosen), None, None, STROKES)


def _risings(one: Ints, other: Ints, time_ns: F64) -> list[_Rising]:
    """Rising curves on a stroke over all tracks, and on two of which the second goes the cylinders of the
    first the other way, on another surface: the arm goes no farther there than to the cylinder."""
    found = _rising_over(np.abs(one - other), one, other, time_ns)
    for end in range(int(min(one.min(), other.min())) + 1, int(max(one.max(), other.max())) - 1):
        cylinder = [np.where(track <= end, track, 2 * end + 1 - track) for track in (one, other)]
        back = _rising_over(np.abs(cylinder[0] - cylinder[1]), one, other, time_ns)
        found += [replace(rising, constants=rising.constants + 1) for rising in back]
    return found


def _rising_over(apart: Ints, one: Ints, other: Ints, time_ns: F64) -> list[_Rising]:
    """Rising curves through the median of the pairs at each distance, if some are one apart: straight, as a
    square root, as both (Ruemmler and Wilkes), and any, which has a constant for each of its levels. Pairs in
    one cylinder wait for a switch of heads, and have a level of their own."""
    distance, which = np.unique(apart, return_inverse=True)
    level = np.array([np.median(time_ns[which == number]) for number in range(len(distance))])
    weight = np.bincount(which).astype(np.float64)
    here = int(distance[0] == 0)
    switch, distance, middle = level[:here], distance[here:], level[here:]
    if not len(distance) or distance[0] != 1:
        return []
    found = []

    def add(curve: F64, constants: int) -> None:
        off = time_ns - np.concatenate([switch, curve])[which]
        found.append(_Rising(one, other, apart, off, float(curve[0]), constants + here + 2))

    straight, root = distance - 1.0, np.sqrt(distance) - 1.0
    for more in ([straight], [root], [straight, root]):
        columns = np.stack([np.ones(len(distance)), *more], axis=1)
        if len(distance) <= columns.shape[1]:
            continue
        heavy = np.sqrt(weight[here:])
        parts = np.linalg.lstsq(columns * heavy[:, None], middle * heavy, rcond=None)[0]
        if (parts > 0).all():
            add(columns @ parts, len(parts))
    curve = never_falling(middle, weight[here:])
    add(curve, len(np.unique(curve)))
    return found


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
