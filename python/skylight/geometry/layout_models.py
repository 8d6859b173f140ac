"""Layout models: how the tracks of a recording zone are ordered, and the arm times that each order predicts.

A model maps the number of a track in address order (from the first track of its zone) to a radius and a
surface. The arm time between two tracks is the longer of a seek over the difference of radii, a constant with
a root and a linear part, and, if the surfaces differ, a head switch. Every model is fitted to all times; the
one that explains them best is the layout of the disk.

The models: *cylinder* (all surfaces at one radius, always from the first to the last, or in alternating
direction), *surface serpentine* (the whole zone on one surface, back on the next), *hybrid serpentine* (a
group of tracks on one surface, back on the next, and after the last surface the next group) and *horizontal
zones* (the whole zone on one surface, then from its first radius on the next).

Invariant: pure functions; times and costs are those of the rows given.

Source: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS '11); Gim and
Won (ACM TOS 6(2), 2010), section 3; the seek curve after Ruemmler and Wilkes (1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from skylight.evidence import F64, I64

CYLINDER, CYLINDER_SERPENTINE = "cylinder", "cylinder-serpentine"
SURFACE, HYBRID, HORIZONTAL = "surface-serpentine", "hybrid-serpentine", "horizontal-zones"
SINGLE = "single-surface"
MOST_HEADS = 20
LEAST_GROUP, MOST_GROUP = 32, 4096  # a smaller group hardly differs from a cylinder
CAP = 9.0
LEAST_NOISE_NS = 15_000.0
FIT_ROUNDS = 3
GROUP_PENALTY = 12.0  # many group sizes are tried, and the best of many fits well by chance
FEWEST_ZONES = 4
SKEW_PENALTY = 12.0
RISES = (2.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0)  # tracks


@dataclass(frozen=True, slots=True)
class LayoutModel:
    """A track order: its layout, number of heads, and tracks of a group on one surface (0 for layouts
    without)."""

    layout: str
    heads: int
    group: int = 0

    def positions(self, number: I64) -> tuple[I64, I64]:
        """Radius (tracks from the first of the zone) and surface of tracks of a zone by number."""
        if self.layout in (CYLINDER, SINGLE):
            return number // self.heads, number % self.heads
        if self.layout == CYLINDER_SERPENTINE:
            cylinder, head = number // self.heads, number % self.heads
            return cylinder, np.where(cylinder % 2 == 1, self.heads - 1 - head, head)
        whole, inside = np.divmod(number, self.group * self.heads)
        visit, within = np.divmod(inside, self.group)
        if self.layout == HORIZONTAL:
            return whole * self.group + within, visit
        radius = whole * self.group + np.where(visit % 2 == 1, self.group - 1 - within, within)
        return radius, np.where(whole % 2 == 1, self.heads - 1 - visit, visit)


@dataclass(frozen=True, slots=True)
class ArmTimes:
    """Arm times (ns) between tracks of one zone by number, and between the first tracks of zones that are a
    given number of tracks apart in address order."""

    one: I64
    other: I64
    time_ns: F64
    far_tracks: F64
    far_ns: F64


@dataclass(frozen=True, slots=True)
class ModelFit:
    """A model, the seeks it implies (tracks, ns), the time of a head switch if longer than some seeks, and
    the cost; `noise_ns` is the assumed scatter of times, `scatter_ns` the observed one."""

    model: LayoutModel
    apart: F64
    sought_ns: F64
    switch_ns: float | None
    cost: float
    noise_ns: float
    scatter_ns: float


def family(layout: str) -> str:
    """The family of a layout: both directions of cylinders are one."""
    return CYLINDER if layout == CYLINDER_SERPENTINE else layout


def shared_heads(tracks: list[int]) -> list[int]:
    """Numbers of heads that give every zone equally many tracks on every surface.

    The track counts of zones vary by chance, so their common divisor is the number of heads and rarely more.
    """
    shared = 0
    for count in tracks:
        shared = gcd(shared, count)
    if len(tracks) >= FEWEST_ZONES and 1 <= shared <= MOST_HEADS:
        return [shared]
    heads = [number for number in range(1, MOST_HEADS + 1) if shared % number == 0]
    return heads if shared else list(range(1, MOST_HEADS + 1))


def fit(model: LayoutModel, rows: ArmTimes, noise_ns: float) -> ModelFit:
    """The model with the seek curve that explains the rows best."""
    from scipy.optimize import nnls  # slow to import, so only when needed

    radius_one, head_one = model.positions(rows.one)
    radius_other, head_other = model.positions(rows.other)
    apart = np.concatenate([np.abs(radius_one - radius_other), rows.far_tracks / model.heads])
    switched = np.concatenate([head_one != head_other, np.zeros(len(rows.far_ns), bool)])
    time = np.concatenate([rows.time_ns, rows.far_ns])
    # Positive combinations of these are concave increasing curves, which may flatten.
    basis = np.stack(
        [np.ones_like(apart), np.sqrt(apart), apart, *(1 - np.exp(-apart / rise) for rise in RISES)], axis=1
    )
    moved = apart > 0
    # A hop to another surface at the same radius is a head switch alone.
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
    return ModelFit(model, apart[seeks], time[seeks], seen, cost, noise_ns, scatter_ns)


def simple_models(tracks: int, heads: list[int]) -> list[LayoutModel]:
    """All models of a zone except the hybrid ones."""
    found = [LayoutModel(SINGLE, 1)] if 1 in heads else []
    for number in heads:
        if number > 1:
            found += [LayoutModel(CYLINDER, number), LayoutModel(CYLINDER_SERPENTINE, number)]
            found += [
                LayoutModel(SURFACE, number, tracks // number),
                LayoutModel(HORIZONTAL, number, tracks // number),
            ]
    return found


def hybrid_models(tracks: int, heads: list[int], uniform_tracks: int | None) -> list[LayoutModel]:
    """Hybrid models with the group sizes that fit the zone."""
    most = min(MOST_GROUP, tracks // 4)
    sizes: I64 = np.unique(np.geomspace(LEAST_GROUP, max(most, LEAST_GROUP), 400).astype(np.int64))
    seen = [] if uniform_tracks is None else [uniform_tracks]
    return [
        LayoutModel(HYBRID, number, size)
        for number in heads
        if number > 1
        for size in sorted({*sizes.tolist(), *seen, *(whole // number for whole in seen)})
        if 2 < size <= most
    ]


def is_consistent(model: LayoutModel, uniform_tracks: int | None) -> bool:
    """Whether a model explains the observed number of successive tracks with one skew: those of a surface if
    head switches have a skew of their own; those of a group on all surfaces if only the step to the next
    group has."""
    if uniform_tracks is None:
        return True
    if model.layout == SINGLE:
        return False
    if model.layout in (CYLINDER, CYLINDER_SERPENTINE):
        return uniform_tracks == model.heads
    return uniform_tracks == model.group or (
        model.layout == HYBRID and uniform_tracks == model.group * model.heads
    )


def best_fits(
    rows: ArmTimes, tracks: int, heads: list[int], noise_ns: float, uniform_tracks: int | None = None
) -> list[ModelFit]:
    """Fits of all models, best first; of the hybrid models the best for each number of heads."""
    fits = [fit(model, rows, noise_ns) for model in simple_models(tracks, heads)]
    by_heads: dict[int, ModelFit] = {}
    for model in hybrid_models(tracks, heads, uniform_tracks):
        found = _penalized(fit(model, rows, noise_ns), uniform_tracks)
        if model.heads not in by_heads or found.cost < by_heads[model.heads].cost:
            by_heads[model.heads] = found
    found_groups = [
        found
        if uniform_tracks is not None and is_consistent(found.model, uniform_tracks)
        else _penalized(_refine_group(found, rows), uniform_tracks)
        for found in by_heads.values()
    ]
    grouped = [replace(found, cost=found.cost + GROUP_PENALTY) for found in found_groups]
    return sorted(
        [*(_penalized(each, uniform_tracks) for each in fits), *grouped], key=lambda each: each.cost
    )


def _penalized(found: ModelFit, uniform_tracks: int | None) -> ModelFit:
    """The fit, at a higher cost if its model contradicts the observed tracks with one skew."""
    return (
        found
        if is_consistent(found.model, uniform_tracks)
        else replace(found, cost=found.cost + SKEW_PENALTY)
    )


def _refine_group(found: ModelFit, rows: ArmTimes) -> ModelFit:
    """The best group size near that of a fit; its cost is without penalties."""
    group = found.model.group
    span = max(2, int(0.02 * group))
    sizes = range(max(3, group - span), group + span + 1)
    fits = [fit(replace(found.model, group=size), rows, found.noise_ns) for size in sizes]
    return min(fits, key=lambda each: each.cost)
