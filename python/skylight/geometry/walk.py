"""Ways of walking the tracks of a recording zone, and what each says of arm times.

A way turns the number of a track in the order of addresses (from the begin of its zone) into a radius and
a surface. Arm times between tracks are then the longer of a seek over the difference of radii, a constant
with a root and a linear part, and of a head switch where the surfaces differ. Each way is fitted to all
times, and the one that explains them best is how the disk is laid out.

The ways: *cylinder* (all surfaces of a track, from the first to the last or there and back), *surface
serpentine* (the whole zone on one surface, back on the next), *hybrid serpentine* (a group of tracks on
one surface, back on the next, after the last surface the next group) and *horizontal zones* (the whole
zone on one surface, then from its begin on the next).

Invariant: pure functions; times and costs are of the rows given.

Source: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS '11); Gim and
Won (ACM TOS 6(2), 2010), section 3; the seek curve after Ruemmler and Wilkes (1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from skylight.geometry.clock import F64, I64

CYLINDER, CYLINDER_SERPENTINE = "cylinder", "cylinder-serpentine"
SURFACE, HYBRID, HORIZONTAL = "surface-serpentine", "hybrid-serpentine", "horizontal-zones"
SINGLE = "single-surface"
MOST_HEADS = 20
LEAST_GROUP, MOST_GROUP = 32, 4096  # a smaller group is hardly told from a cylinder
CAP = 9.0
LEAST_NOISE_NS = 15_000.0
FIT_ROUNDS = 3
GROUP_PENALTY = 12.0  # many groups are tried, and the best of many is good by chance
FEWEST_ZONES = 4
STRAIGHT_PENALTY = 12.0
RISES = (2.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0)  # tracks


@dataclass(frozen=True, slots=True)
class Way:
    """A way of walking: its layout, heads, and tracks of a group on one surface (0 where there are none)."""

    layout: str
    heads: int
    group: int = 0

    def places(self, number: I64) -> tuple[I64, I64]:
        """Radius (tracks from the begin of the zone) and surface of the tracks of a zone."""
        if self.layout in (CYLINDER, SINGLE):
            return number // self.heads, number % self.heads
        if self.layout == CYLINDER_SERPENTINE:
            cylinder, head = number // self.heads, number % self.heads
            return cylinder, np.where(cylinder % 2 == 1, self.heads - 1 - head, head)
        whole, inside = np.divmod(number, self.group * self.heads)
        turn, within = np.divmod(inside, self.group)
        if self.layout == HORIZONTAL:
            return whole * self.group + within, turn
        radius = whole * self.group + np.where(turn % 2 == 1, self.group - 1 - within, within)
        return radius, np.where(whole % 2 == 1, self.heads - 1 - turn, turn)


@dataclass(frozen=True, slots=True)
class Rows:
    """Arm times (ns) between tracks of one zone by number, and between the begins of zones that are some
    number of tracks, in the order of addresses, apart."""

    one: I64
    other: I64
    time_ns: F64
    far_tracks: F64
    far_ns: F64


@dataclass(frozen=True, slots=True)
class Fit:
    """A way, the seeks it sees (tracks, ns), the time of a head switch where it is longer than some seeks,
    and the cost; `noise_ns` is what times were taken to scatter by, `scatter_ns` what they do."""

    way: Way
    apart: F64
    sought_ns: F64
    switch_ns: float | None
    cost: float
    noise_ns: float
    scatter_ns: float


def family(layout: str) -> str:
    """The layout's family: cylinders are one, there and back or not."""
    return CYLINDER if layout == CYLINDER_SERPENTINE else layout


def shared_heads(tracks: list[int]) -> list[int]:
    """Numbers of heads with which every zone has as many tracks on every surface.

    Zones differ in tracks by chance, so what divides all of them is the heads, and seldom more."""
    shared = 0
    for count in tracks:
        shared = gcd(shared, count)
    if len(tracks) >= FEWEST_ZONES and 1 <= shared <= MOST_HEADS:
        return [shared]
    heads = [number for number in range(1, MOST_HEADS + 1) if shared % number == 0]
    return heads if shared else list(range(1, MOST_HEADS + 1))


def fit(way: Way, rows: Rows, noise_ns: float) -> Fit:
    """The way with the curve that explains the rows best."""
    from scipy.optimize import nnls  # takes a while to load: only once there is something to fit

    radius_one, head_one = way.places(rows.one)
    radius_other, head_other = way.places(rows.other)
    apart = np.concatenate([np.abs(radius_one - radius_other), rows.far_tracks / way.heads])
    switched = np.concatenate([head_one != head_other, np.zeros(len(rows.far_ns), bool)])
    time = np.concatenate([rows.time_ns, rows.far_ns])
    # Curves that rise ever more slowly, and flat parts: any sum of these with positive weights.
    basis = np.stack(
        [np.ones_like(apart), np.sqrt(apart), apart, *(1 - np.exp(-apart / rise) for rise in RISES)], axis=1
    )
    moved = apart > 0
    # A switch to another surface at one radius is nothing else.
    alone = switched & ~moved
    switch = float(np.median(time[alone])) if alone.any() else 0.0
    if switched.any() and not alone.any():
        switch = float(np.quantile(time[switched], 0.2))
    curve = np.zeros(basis.shape[1])
    for _ in range(FIT_ROUNDS):
        sought = basis @ curve
        used = moved & (~switched | (time > switch + 2 * noise_ns))
        if np.any(curve):
            used &= np.abs(time - sought) < np.maximum(
                3 * noise_ns, 2 * np.median(np.abs(time - sought)[used])
            )
        if used.sum() < 4:
            break
        scale = 1.0 / (noise_ns + 0.01 * time[used])
        curve, _ = nnls(basis[used] * scale[:, None], time[used] * scale)
        sought = np.where(moved, basis @ curve, 0.0)
        only = switched & (sought < switch + 2 * noise_ns)
        switch = float(np.median(time[only])) if only.any() else 0.0
    sought = np.where(moved, basis @ curve, 0.0)
    expected = np.where(switched, np.maximum(sought, switch), sought)
    off = (time - expected) / (noise_ns + 0.01 * time)
    cost = float(np.minimum(off**2, CAP).sum()) / 2
    seen = switch if switch > 0 and np.any(switched & (sought < switch)) else None
    scatter_ns = 1.4826 * float(np.median(np.abs(time - expected)))
    seeks = moved & (~switched | (sought > switch))
    return Fit(way, apart[seeks], time[seeks], seen, cost, noise_ns, scatter_ns)


def ways(tracks: int, heads: list[int]) -> list[Way]:
    """All ways of a zone of some tracks but the hybrid ones."""
    found = [Way(SINGLE, 1)] if 1 in heads else []
    for number in heads:
        if number > 1:
            found += [Way(CYLINDER, number), Way(CYLINDER_SERPENTINE, number)]
            found += [Way(SURFACE, number, tracks // number), Way(HORIZONTAL, number, tracks // number)]
    return found


def hybrids(tracks: int, heads: list[int], straight: int | None) -> list[Way]:
    """Hybrid ways with groups of all sizes that a zone holds some of."""
    most = min(MOST_GROUP, tracks // 4)
    sizes: NDArray[np.int64] = np.unique(
        np.geomspace(LEAST_GROUP, max(most, LEAST_GROUP), 400).astype(np.int64)
    )
    seen = [] if straight is None else [straight]
    return [
        Way(HYBRID, number, size)
        for number in heads
        if number > 1
        for size in sorted({*sizes.tolist(), *seen, *(whole // number for whole in seen)})
        if 2 < size <= most
    ]


def allowed(way: Way, straight: int | None) -> bool:
    """Whether a way may have so many tracks of one skew at its begin: a surface's, where heads have a skew of
    their own; a group's on all surfaces, where only the step to the next group has."""
    if straight is None:
        return True
    if way.layout == SINGLE:
        return False
    if way.layout in (CYLINDER, CYLINDER_SERPENTINE):
        return straight == way.heads
    return straight == way.group or (way.layout == HYBRID and straight == way.group * way.heads)


def best(
    rows: Rows, tracks: int, heads: list[int], noise_ns: float, straight: int | None = None
) -> list[Fit]:
    """Fits of all ways, the best first; of the hybrid ways the best for each number of heads."""
    fits = [fit(way, rows, noise_ns) for way in ways(tracks, heads)]
    by_heads: dict[int, Fit] = {}
    for way in hybrids(tracks, heads, straight):
        found = _priced(fit(way, rows, noise_ns), straight)
        if way.heads not in by_heads or found.cost < by_heads[way.heads].cost:
            by_heads[way.heads] = found
    found_groups = [
        found
        if straight is not None and allowed(found.way, straight)
        else _priced(_finer(found, rows), straight)
        for found in by_heads.values()
    ]
    grouped = [replace(found, cost=found.cost + GROUP_PENALTY) for found in found_groups]
    return sorted([*(_priced(each, straight) for each in fits), *grouped], key=lambda each: each.cost)


def _priced(found: Fit, straight: int | None) -> Fit:
    """A fit whose way contradicts the tracks that were seen to have one skew costs more."""
    return found if allowed(found.way, straight) else replace(found, cost=found.cost + STRAIGHT_PENALTY)


def _finer(found: Fit, rows: Rows) -> Fit:
    """The group near one that fits best, without what it was priced."""
    group = found.way.group
    reach = max(2, int(0.02 * group))
    sizes = range(max(3, group - reach), group + reach + 1)
    fits = [fit(replace(found.way, group=size), rows, found.noise_ns) for size in sizes]
    return min(fits, key=lambda each: each.cost)
