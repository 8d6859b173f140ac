"""The window: platter, regions, arm and head, as pixels.

Two looks. Plain, as a slide draws it: the whole platter, bands in green, the persistent cache in orange,
the map in blue, the arm in black. Filmed, as a camera sees it: a round window in a metal cover, a dark
mirror with a ring's reflection in it, a bright arm with parts of its own, screws.

Invariant: a scene is a function of the head's position alone; what moves with time belongs to `filmed`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.camera.angle_to_position import Arm
from skylight.camera.arm_motion import Drive
from skylight.camera.video import opencv

F32 = NDArray[np.float32]
Colour = tuple[int, int, int]  # blue, green, red

PLATTER_MM, HUB_MM = 47.5, 16.5
# Sub-pixel bits of OpenCV's polygons.
SHIFT = 4
# OpenCV's smoothed polygons lie up to 0.4 px beside where they belong (0.12 px in the mean square): 0.7 % of
# a stroke of 53 px. So a filmed arm is drawn in a picture at least this wide, px, and made smaller by areas.
# The arm of that film is then within 0.2 % of the stroke (0.07 % in the mean square).
LEAST_DRAWN_PX = 800
PAPER: Colour = (250, 250, 250)
GREENS: tuple[Colour, Colour] = ((129, 199, 129), (106, 178, 106))
GREY: Colour = (205, 205, 205)
ORANGE: Colour = (51, 140, 245)
BLUE: Colour = (200, 130, 70)
INK: Colour = (40, 40, 40)
# Regions of the picture of bands: as many as can be told apart.
BANDS_DRAWN = 24


@dataclass(frozen=True)
class View:
    """From where a drive is seen: px of the picture, turn of the drive (rad), px for a mm, and the point of
    the drive (mm, in its own axes) in the middle of the picture."""

    width: int
    height: int
    turn: float = 0.6
    scale: float = 1.0
    middle: tuple[float, float] = (0.0, 0.0)
    tilt: float = 1.0
    """The picture's height is foreshortened by this factor."""

    def points(self, drive_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Pixels of points of the drive, (n, 2)."""
        cosine, sine = np.cos(self.turn), np.sin(self.turn)
        x, y = drive_mm[:, 0] - self.middle[0], drive_mm[:, 1] - self.middle[1]
        right, up = cosine * x - sine * y, sine * x + cosine * y
        return np.stack(
            [self.width / 2 + self.scale * right, self.height / 2 - self.scale * self.tilt * up], axis=1
        )


@dataclass(frozen=True)
class Look:
    """What a filmed scene shows: grey levels, window, arm."""

    ground: float = 35.0
    arm: float = 165.0
    cover: float = 70.0
    window_mm: float = 30.0
    texture: float = 12.0
    seed: int = 1


def head_direction(arm: Arm, position: float) -> float:
    """Direction of the arm from its pivot, rad; the spindle is at the origin, the pivot to the right of
    it."""
    return float(np.pi + arm.angle(position))


def _head_mm(arm: Arm, position: float) -> NDArray[np.float64]:
    turn = head_direction(arm, position)
    return np.array([arm.pivot_mm + arm.arm_mm * np.cos(turn), arm.arm_mm * np.sin(turn)])


def whole_view(width: int, height: int) -> View:
    """The whole platter and the pivot."""
    return View(width, height, turn=0.0, scale=min(width / 118, height / 100), middle=(8.0, 0.0))


def window_view(
    width: int, height: int, arm: Arm, turn: float = 0.9, fill: float = 1.0, tilt: float = 1.0
) -> View:
    """The part that the head traverses, so that its stroke takes about a third of the picture times
    `fill`."""
    ends = np.stack([_head_mm(arm, 0.0), _head_mm(arm, 0.5), _head_mm(arm, 1.0)])
    middle = ends.mean(axis=0) + 0.25 * (np.array([arm.pivot_mm, 0.0]) - ends.mean(axis=0))
    stroke_mm = float(np.hypot(*(ends[2] - ends[0])))
    scale = fill * 0.4 * min(width, height * 1.3) / stroke_mm
    return View(width, height, turn, scale, (float(middle[0]), float(middle[1])), tilt)


# The arm in its own axes, mm: along it from the pivot, and across; and how bright each part is against the
# arm's level.
_PARTS: tuple[tuple[tuple[tuple[float, float], ...], float], ...] = (
    (((0.0, -7.0), (24.0, -4.6), (39.0, -3.4), (39.0, 3.4), (24.0, 4.6), (0.0, 7.0)), 0.75),
    (((8.0, -2.5), (22.0, -1.8), (22.0, 1.8), (8.0, 2.5)), 0.35),
    (((37.0, -3.6), (42.0, -3.0), (42.0, 3.0), (37.0, 3.6)), 1.1),
    (((41.0, -2.6), (51.5, -0.8), (51.5, 0.8), (41.0, 2.6)), 0.9),
    (((50.6, -1.2), (53.4, -1.2), (53.4, 1.2), (50.6, 1.2)), 1.35),
)


def arm_parts(arm: Arm, view: View, position: float) -> list[tuple[NDArray[np.float64], float]]:
    """Polygons of the arm (px) at a position, and their brightness."""
    turn = head_direction(arm, position)
    cosine, sine = np.cos(turn), np.sin(turn)
    stretch = arm.arm_mm / 52.0
    parts = []
    for corners, bright in _PARTS:
        along, across = np.array(corners).T
        along = along * stretch
        mm = np.stack([arm.pivot_mm + cosine * along - sine * across, sine * along + cosine * across], axis=1)
        parts.append((view.points(mm), bright))
    return parts


def _fixed(points: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.asarray(np.round(points * (1 << SHIFT)), np.int32)


def _circle(view: View, radius_mm: float, centre: tuple[float, float] = (0.0, 0.0)) -> NDArray[np.int32]:
    turn = np.linspace(0, 2 * np.pi, 181)[:-1]
    return _fixed(
        view.points(np.stack([centre[0] + radius_mm * np.cos(turn), centre[1] + radius_mm * np.sin(turn)], 1))
    )


def plain_ground(view: View, drive: Drive, arm: Arm) -> NDArray[np.uint8]:
    """The picture of a drive without its arm."""
    cv2 = opencv()
    picture = np.full((view.height, view.width, 3), PAPER, np.uint8)

    def disc(radius_mm: float, colour: Colour) -> None:
        cv2.fillPoly(picture, [_circle(view, radius_mm)], colour, cv2.LINE_AA, SHIFT)

    def radius(position: float) -> float:
        return arm.outer_mm + (arm.inner_mm - arm.outer_mm) * position

    disc(PLATTER_MM, GREY)
    edges = np.linspace(0, 1, BANDS_DRAWN + 1)
    for number, position in enumerate(edges[:-1]):
        disc(radius(float(position)), GREENS[number % 2] if drive.bands else GREY)
    disc(arm.inner_mm, GREY)
    for region, colour in ((drive.cache, ORANGE), (drive.map, BLUE)):
        if region is not None:
            turn = np.linspace(0, 2 * np.pi, 181)
            rim = [(radius(region[0]) * np.cos(t), radius(region[0]) * np.sin(t)) for t in turn]
            rim += [(radius(region[1]) * np.cos(t), radius(region[1]) * np.sin(t)) for t in turn[::-1]]
            cv2.fillPoly(picture, [_fixed(view.points(np.array(rim)))], colour, cv2.LINE_AA, SHIFT)
    disc(HUB_MM, (170, 170, 170))
    disc(3.0, (120, 120, 120))
    return picture


def draw_legend(picture: NDArray[np.uint8], drive: Drive, corner: tuple[int, int], letters: float) -> None:
    """Says which colour is what, from a corner down; `letters` is their size for OpenCV."""
    cv2 = opencv()
    named = [("bands", GREENS[1], drive.bands), ("cache", ORANGE, drive.cache), ("map", BLUE, drive.map)]
    side = round(24 * letters)
    x, y = corner
    for name, colour, is_there in named:
        if not is_there:
            continue
        cv2.rectangle(picture, (x, y), (x + side, y + side), colour, cv2.FILLED)
        spot = (x + round(1.5 * side), y + round(0.85 * side))
        cv2.putText(
            picture, name, spot, cv2.FONT_HERSHEY_SIMPLEX, letters, INK, max(1, round(letters)), cv2.LINE_AA
        )
        y += round(1.6 * side)


def draw_plain_arm(picture: NDArray[np.uint8], arm: Arm, view: View, position: float) -> None:
    """Draws the arm of a slide."""
    cv2 = opencv()
    for corners, bright in arm_parts(arm, view, position):
        shade = int(np.clip(40 + 60 * (1 - bright), 20, 100))
        cv2.fillPoly(picture, [_fixed(corners)], (shade, shade, shade), cv2.LINE_AA, SHIFT)
    cv2.fillPoly(picture, [_circle(view, 8.0, (arm.pivot_mm, 0.0))], (90, 90, 90), cv2.LINE_AA, SHIFT)


def filmed_ground(view: View, look: Look, arm: Arm) -> tuple[F32, F32]:
    """Grey levels without the arm, and the share of each pixel that lies inside of the window."""
    cv2 = opencv()
    rng = np.random.default_rng(look.seed)
    height, width = view.height, view.width
    grain = cv2.GaussianBlur(
        rng.standard_normal((height, width)).astype(np.float32), (0, 0), max(1.0, width / 90)
    )
    grain *= look.texture / max(float(grain.std()), 1e-6)
    slope = (
        np.linspace(-1, 1, width, dtype=np.float32)[None] * 0.3
        + np.linspace(-1, 1, height, dtype=np.float32)[:, None] * 0.2
    )
    picture = np.asarray(look.cover * (1 + slope) + grain, np.float32)
    inside = np.zeros((height, width), np.uint8)
    middle = (view.middle[0], view.middle[1])
    cv2.fillPoly(inside, [_circle(view, look.window_mm, middle)], 255, cv2.LINE_AA, SHIFT)
    window = inside.astype(np.float32) / 255
    mirror = np.full((height, width), look.ground * 0.6, np.float32)
    cv2.fillPoly(mirror, [_circle(view, PLATTER_MM)], look.ground, cv2.LINE_AA, SHIFT)
    # The camera's own lens in the mirror, and a hub that is brighter.
    reflected = (middle[0] - 4.0, middle[1] + 3.0)
    cv2.fillPoly(mirror, [_circle(view, 13.0, reflected)], look.ground * 0.75, cv2.LINE_AA, SHIFT)
    cv2.fillPoly(mirror, [_circle(view, 7.0, reflected)], look.ground * 0.45, cv2.LINE_AA, SHIFT)
    cv2.fillPoly(mirror, [_circle(view, HUB_MM)], look.cover * 1.5, cv2.LINE_AA, SHIFT)
    picture = picture * (1 - window) + (mirror + 0.3 * grain) * window
    rim = np.zeros((height, width), np.float32)
    cv2.polylines(
        rim, [_circle(view, look.window_mm, middle)], True, 1.0, max(1, width // 110), cv2.LINE_AA, SHIFT
    )
    picture += rim * (40 + 60 * rng.random((height, width), np.float32))
    for turn in rng.uniform(0, 2 * np.pi, 5):
        at = (
            middle[0] + 1.15 * look.window_mm * np.cos(turn),
            middle[1] + 1.15 * look.window_mm * np.sin(turn),
        )
        cv2.fillPoly(picture, [_circle(view, 1.6, at)], look.cover * 2.2, cv2.LINE_AA, SHIFT)
    return np.asarray(picture, np.float32), np.asarray(window, np.float32)


def add_filmed_arm(
    layers: F32, arm: Arm, view: View, look: Look, position: float, part: tuple[slice, slice]
) -> None:
    """Adds the arm to `layers`, (2, height, width) over `part` of the picture: its opacity, and its light."""
    cv2 = opencv()
    rows, columns = part
    finer = -(-LEAST_DRAWN_PX // view.width)
    height, width = layers.shape[1:]
    # The middle of a pixel has whole numbers.
    origin = np.array([columns.start, rows.start], np.float64) - 0.5
    opacity = np.zeros((finer * height, finer * width), np.uint8)
    light = np.zeros_like(opacity)
    for corners, bright in arm_parts(arm, view, position):
        polygon = [_fixed(finer * (corners - origin) - 0.5)]
        cv2.fillPoly(opacity, polygon, 255, cv2.LINE_AA, SHIFT)
        cv2.fillPoly(light, polygon, float(np.clip(look.arm * bright, 0, 255)), cv2.LINE_AA, SHIFT)
    for layer, drawn, full in ((layers[0], opacity, 255), (layers[1], light, 1)):
        layer += cv2.resize(drawn.astype(np.float32), (width, height), interpolation=cv2.INTER_AREA) / full
