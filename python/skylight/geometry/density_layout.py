"""The layout of disks whose surfaces differ in density, from their zone table and arm times.

Where track sizes recur with the number of heads (`skylight.geometry.density_pattern`), all passes of a zone
should begin at one radius. Arm times from the first pass to others verify it: the arm hardly moves to passes
of the same zone, but does move to those of later zones.

Invariant: reads only; None if the sizes show no pattern or arm times contradict it.

Source: as `skylight.geometry.density_pattern`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64
from skylight.geometry.arm_time import Arm
from skylight.geometry.clock import Platter
from skylight.geometry.density_pattern import densities, expanded, pattern
from skylight.geometry.layout import SAME_TRACKS, spread, track_of, tracks_of
from skylight.geometry.layout_models import SINGLE, LayoutModel
from skylight.geometry.recording_zones import ZoneRun
from skylight.geometry.result import Skew
from skylight.geometry.skew import find_skews, skew_at

FAR_PASSES = 40
LEAST_ORDERED = 0.9  # share of pairs in which the time to a pass of the own zone is the shorter one


@dataclass(frozen=True, slots=True)
class DensityLayout:
    """Heads, track size of each surface relative to its zone's mean, command overhead, and arm times (ns)
    over distances (tracks)."""

    heads: int
    density: tuple[float, ...]
    command_ns: float
    apart: F64
    time_ns: F64


def _numbers(zones: list[ZoneRun]) -> list[int]:
    """The number of the first pass of each run."""
    usual, _ = expanded([(tracks_of(zone), zone.grid.track) for zone in zones[:-1]])
    numbers = [0]
    for zone in zones[:-1]:
        numbers.append(numbers[-1] + max(1, round(tracks_of(zone) / usual)))
    return numbers


def find_density_layout(platter: Platter, zones: list[ZoneRun]) -> DensityLayout | None:
    """The layout with surfaces of different density, if the zone table shows it and arm times agree."""
    runs = [(tracks_of(zone), zone.grid.track) for zone in zones]
    if len(runs) < 2:
        return None
    usual = expanded(runs[:-1])[0]  # the last run may end anywhere
    found = pattern([*runs[:-1], (usual * max(1, round(runs[-1][0] / usual)), runs[-1][1])])
    if found is None:
        return None
    numbers = np.array(_numbers(zones))
    near = np.flatnonzero((numbers > 0) & (numbers < 3 * found.heads))
    far = np.unique((spread(FAR_PASSES) * (len(zones) - 2)).astype(int)) + 1
    chosen = np.unique(np.concatenate([near, far]))
    arm = Arm(platter)
    command_ns = arm.measure_same([track_of(zones[0], number) for number in range(SAME_TRACKS)])
    base = track_of(zones[0], 0)
    time_ns = arm.times("strokes", [(base, track_of(zones[int(each)], 0)) for each in chosen])
    zone_of = numbers[chosen] // found.heads
    seen = np.isfinite(time_ns)
    own, others = time_ns[seen & (zone_of == 0)], time_ns[seen & (zone_of >= 1)]
    if len(own) == 0 or len(others) == 0 or np.mean(own[:, None] < others) < LEAST_ORDERED:
        return None
    seen &= zone_of > 0
    apart = (zone_of * found.tracks)[seen].astype(np.float64)
    density = tuple(round(float(part), 4) for part in densities(found.sizes, found.heads)[0])
    return DensityLayout(found.heads, density, command_ns, apart, time_ns[seen])


def density_skews(
    platter: Platter, zones: list[ZoneRun], found: DensityLayout
) -> tuple[Skew | None, Skew | None]:
    """Skew to the next track, and to the next surface, where one pass of a zone ends and another begins."""
    longest = max(zones[:-1], key=tracks_of)
    track, _ = find_skews(platter, zones, longest, LayoutModel(SINGLE, 1))
    numbers = _numbers(zones)
    switches = [
        (zone.begin, before.grid.track)
        for before, zone, number in zip(zones, zones[1:], numbers[1:], strict=False)
        if number % found.heads and zone.doubt == 0
    ]
    return track, skew_at(platter, switches)
