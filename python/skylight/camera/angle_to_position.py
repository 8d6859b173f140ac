"""From the angle of the arm to the position of the head: 0 at the outer diameter, 1 at the inner one.

Tracks are evenly spaced along a radius of the platter, and the head swings on an arc about its pivot, so
the distance from the spindle follows from the angle by the law of cosines. The proportions are those of a
3.5-inch drive; they differ little between drives, and an error of a tenth in them moves a position by less
than 0.5 % of the stroke.

Which end is the inner one: platters turn counter-clockwise as seen from above, and a head trails its arm,
so the air comes from the pivot. Seen from the pivot the spindle is then to the left, and the arm turns
counter-clockwise towards it. A film through a mirror shows the opposite.

Invariant: positions rise with the counter-clockwise angle, or, mirrored, fall with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

# A 3.5-inch drive, mm: distance of pivot and spindle, length of the arm to the gap, outermost and innermost
# track. Chosen: platters of 95 mm, written from 46 to 20 mm, and an arm that clears the spindle's clamp.
PIVOT_MM, ARM_MM, OUTER_MM, INNER_MM = 57.0, 52.0, 46.0, 20.0
# Frames within this share of the stroke of an extreme are at it.
EXTREME_SHARE = 0.015
# Known positions closer together than this say nothing about the scale.
LEAST_KNOWN = 0.05


@dataclass(frozen=True)
class Arm:
    """Proportions of a drive, mm."""

    pivot_mm: float = PIVOT_MM
    arm_mm: float = ARM_MM
    outer_mm: float = OUTER_MM
    inner_mm: float = INNER_MM

    def angle(self, position: F64 | float) -> F64:
        """The angle at the pivot between the spindle and the head, rad, turned so that it rises with the
        position."""
        radius = self.outer_mm + (self.inner_mm - self.outer_mm) * np.asarray(position, np.float64)
        cosine = (self.pivot_mm**2 + self.arm_mm**2 - radius**2) / (2 * self.pivot_mm * self.arm_mm)
        return np.asarray(-np.arccos(np.clip(cosine, -1, 1)), np.float64)

    def position(self, angle: F64 | float) -> F64:
        """The position at an angle: the opposite of `angle`."""
        squared = self.pivot_mm**2 + self.arm_mm**2 - 2 * self.pivot_mm * self.arm_mm * np.cos(angle)
        radius = np.sqrt(np.maximum(squared, 0))
        return np.asarray((radius - self.outer_mm) / (self.inner_mm - self.outer_mm), np.float64)


# An arm that turned further inward would carry its head past the line from the pivot to the spindle, into
# the clamp.
LARGEST_SWING_RAD = -float(Arm().angle(0.0))


@dataclass(frozen=True)
class Scale:
    """A scale and where it comes from: `how` in words; `pixels` is the stroke in the film, px."""

    position: F64
    how: str


def extremes(angle: F64, sure: NDArray[np.bool_]) -> tuple[float, float]:
    """The least and the greatest angle, each the mean of the frames at it; single odd frames do not count."""
    seen = angle[sure]
    if len(seen) >= 5:
        seen = np.median(np.lib.stride_tricks.sliding_window_view(seen, 3), axis=1)
    low, high = float(seen.min()), float(seen.max())
    near = EXTREME_SHARE * (high - low)
    return float(seen[seen <= low + near].mean()), float(seen[seen >= high - near].mean())


def by_extremes(angle: F64, sure: NDArray[np.bool_]) -> Scale:
    """The scale on which the outermost place seen is 0 and the innermost 1."""
    low, high = extremes(angle, sure)
    arm = Arm()
    start = float(arm.angle(0.0))
    raw = arm.position(start + (angle - low))
    return Scale(raw / float(arm.position(start + (high - low))), "the extremes seen are 0 and 1")


def by_known(angle: F64, known: Sequence[tuple[int, float]]) -> Scale:
    """The scale through known positions: pairs of a frame and its position; with two, the line through
    them, with more, the best one."""
    arm = Arm()
    at = np.array([float(np.median(angle[max(0, frame - 1) : frame + 2])) for frame, _ in known])
    wanted = np.array([position for _, position in known])
    apart = np.ptp(wanted)
    if len(known) < 2 or apart < LEAST_KNOWN:
        raise ValueError(f"two known positions at least {LEAST_KNOWN:g} apart fix the scale")
    if np.ptp(at) <= 0:
        raise ValueError("the head is in one place in all frames with a known position")
    # The arc's own zero first, then what is left is a line.
    rate = np.polyfit(wanted, at, 1)
    zero = float(np.polyval(rate, 0.0))
    raw = arm.position(float(arm.angle(0.0)) + (angle - zero))
    at_raw = arm.position(float(arm.angle(0.0)) + (at - zero))
    line = np.polyfit(at_raw, wanted, 1)
    return Scale(np.asarray(np.polyval(line, raw)), f"through {len(known)} known positions")
