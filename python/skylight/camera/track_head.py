"""Tracking: a clip becomes the head's position in every frame.

The file's packets give the times; a survey of all frames the background, pivot and appearance of the arm;
then all frames, which the survey kept, are matched. Frames are looked at in grey and at a size at
which the head's movement has a hundred or two of pixels: a larger one costs time and adds nothing.

Invariants: nothing of the result depends on frames' order but the times; a clip without one moving arm ends
with one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skylight.camera import angle_to_position as scales
from skylight.camera import background as backgrounds
from skylight.camera import frame_rate as rates
from skylight.camera.background import Background, UnusableClipError
from skylight.camera.frame_selection import survey
from skylight.camera.learn_arm import SURE_EXPLAINED, Learnt, learn
from skylight.camera.subpixel_angle import Fine
from skylight.camera.video import Clip, KeptFrames, U8Frames, frames, probe
from skylight.errors import UsageError

F64 = NDArray[np.float64]
Region = tuple[int, int, int, int]
Advance = Callable[[int, int], None]

# Longest side of the frames that are looked at, px.
WORKING_PX = 240
# A head that moves over less than this share of the working size, in a clip that has more pixels, is looked
# at closer.
CLOSER_SHARE = 0.45
# What is looked at around the region in which something moves, as a share of the region: for the lamp and
# the shake.
MARGIN = 0.35
# Where one arm explains less than this share of what moves, in the median frame, a note says that the graph
# may be wrong.
SURELY_EXPLAINED = 0.83
# A frame with fewer of the head's pixels than this share of the usual hides the head.
VISIBLE_SHARE = 0.25
# The head moves by this much at least, px of the film: below it positions are mostly noise.
LEAST_MOVE_PX = 4.0
CUT = "the clip is cut: it declares to be longer than it is"


@dataclass(frozen=True)
class Options:
    """What may be given about a clip; nothing has to be."""

    region: Region | None = None
    """Where the head moves: x, y, width, height, px."""
    known: tuple[tuple[int, float], ...] = ()
    """Frames with known positions."""
    mirrored: bool = False
    """Filmed through a mirror, or from below."""
    rate_hz: float | None = None
    io_period_s: float | None = None
    rpm: float | None = None


@dataclass(frozen=True)
class Track:
    """The head in every frame of a clip."""

    clip: Clip
    position: F64
    confidence: F64
    direction: F64
    """Of the arm from its pivot, rad, counter-clockwise from the right."""
    lamp: F64
    pivot: tuple[float, float]
    """px of the film."""
    radius: tuple[float, float]
    """Distances from the pivot between which the arm is seen, px of the film."""
    move_px: float
    """How far the head moves in the film, px."""
    swing_rad: float
    """By which the arm turns between the extremes."""
    scale: str
    known_positions: int = 0
    """How many positions that were given fix the scale."""
    explained: float = 1.0
    """The share of what moves that the arm explains."""
    notes: tuple[str, ...] = ()

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.position)


@dataclass(frozen=True)
class _View:
    """The part of the pictures that is looked at, and the size at which."""

    size: tuple[int, int]
    region: Region | None
    zoom: float
    """Pixels of the view for one of the film."""

    def region_here(self, region: Region | None) -> Region | None:
        """A region of the film, in pixels of the view."""
        if region is None:
            return None
        left, top = (0, 0) if self.region is None else self.region[:2]
        x, y, width, height = region
        corners = (x - left, y - top, x - left + width, y - top + height)
        x0, y0, x1, y1 = (round(max(0.0, value * self.zoom)) for value in corners)
        return x0, y0, max(1, x1 - x0), max(1, y1 - y0)


def track(path: Path, options: Options | None = None, advance: Advance | None = None) -> Track:
    """Follows the head through a clip; `advance` is told frames done and in all."""
    options = Options() if options is None else options
    clip = probe(path)
    _check(clip, options)
    total = 2 * clip.frames

    def surveyed(done: int) -> None:
        if advance is not None:
            advance(done, total)

    try:
        with KeptFrames() as kept:
            view = _whole(clip)
            found = survey(_counted(kept.keep(_decoded(clip, view)), surveyed, 0), clip.frames)
            background = backgrounds.first(found, view.region_here(options.region))
            closer = _closer(clip, view, background)
            if closer is not None:
                view = closer
                found = survey(_counted(kept.keep(_decoded(clip, view)), surveyed, 0), clip.frames)
                background = backgrounds.first(found, view.region_here(options.region))
            learnt = learn(found, background)
            again = kept.again() if kept.whole else _decoded(clip, view)
            fine = Fine(learnt, found)
            return _follow(clip, view, options, learnt, fine, _counted(again, surveyed, clip.frames))
    except UnusableClipError as error:
        cut = f"; {CUT}" if clip.cut else ""
        raise UsageError(f"{path}: {error}{cut}") from error


def _check(clip: Clip, options: Options) -> None:
    if options.region is not None:
        x, y, width, height = options.region
        if min(x, y) < 0 or min(width, height) < 4 or x + width > clip.width or y + height > clip.height:
            raise UsageError(
                f"--region {x},{y},{width},{height}: not within the picture of {clip.path}, {clip.width} x"
                f" {clip.height} px"
            )
    for frame, _ in options.known:
        if not 0 <= frame < clip.frames:
            raise UsageError(
                f"--known: {clip.path} has no frame {frame}: it has frames 0 to {clip.frames - 1}"
            )


def _whole(clip: Clip) -> _View:
    zoom = min(1.0, WORKING_PX / max(clip.width, clip.height))
    return _View((round(clip.width * zoom), round(clip.height * zoom)), None, zoom)


def _closer(clip: Clip, view: _View, background: Background) -> _View | None:
    """A view of the part in which the head moves, if the film shows it finer than this view does."""
    rows, columns = np.nonzero(background.support)
    x0, x1 = columns.min() / view.zoom, (columns.max() + 1) / view.zoom
    y0, y1 = rows.min() / view.zoom, (rows.max() + 1) / view.zoom
    extent = max(x1 - x0, y1 - y0)
    if view.zoom == 1.0 or extent * view.zoom > CLOSER_SHARE * WORKING_PX:
        return None
    margin = MARGIN * extent
    left, top = max(0, int(x0 - margin)), max(0, int(y0 - margin))
    right, bottom = min(clip.width, int(x1 + margin) + 1), min(clip.height, int(y1 + margin) + 1)
    width, height = right - left, bottom - top
    zoom = min(1.0, WORKING_PX / max(width, height))
    return _View((round(width * zoom), round(height * zoom)), (left, top, width, height), zoom)


def _decoded(clip: Clip, view: _View) -> Iterator[U8Frames]:
    return frames(clip, view.size, view.region)


def _counted(chunks: Iterator[U8Frames], advance: Callable[[int], None], before: int) -> Iterator[U8Frames]:
    done = before
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        advance(done)


def _follow(
    clip: Clip, view: _View, options: Options, learnt: Learnt, fine: Fine, chunks: Iterator[U8Frames]
) -> Track:
    """Matches every frame."""
    shifts, shares, sizes, lamps = [], [], [], []
    for chunk in chunks:
        masks = learnt.background.masks(chunk)
        shift, explained, pixels = learnt.appearance.match(learnt.polar.sums(masks), masks)
        shifts.append(fine.shifts(chunk, shift))
        shares.append(explained)
        sizes.append(pixels)
        lamps.append(learnt.background.lamp(chunk))
    direction = learnt.appearance.direction_rad(np.concatenate(shifts))
    seen = np.clip(np.concatenate(sizes) / (VISIBLE_SHARE * learnt.usual_pixels), 0, 1)
    confidence = np.concatenate(shares) * seen
    sure = confidence >= SURE_EXPLAINED
    notes = list(_clip_notes(clip, len(direction), sure))
    if learnt.explained < SURELY_EXPLAINED:
        notes.append(
            f"a single arm explains {100 * learnt.explained:.0f} % of what moves: the graph may be wrong;"
            " compare it with the annotated video"
        )
    radius = np.hypot(
        *(axis - at for axis, at in zip(learnt.background.axes(), learnt.polar.pivot, strict=True))
    )
    angle = -direction if options.mirrored else direction
    low, high = scales.extremes(angle, sure) if sure.sum() >= 2 else (0.0, 0.0)
    move_px = (high - low) * float(np.median(radius)) / view.zoom
    if move_px < LEAST_MOVE_PX:
        raise UnusableClipError(
            f"what moves in it moves by {move_px:.1f} px: too little to be a head's position"
        )
    if high - low > scales.LARGEST_SWING_RAD:
        raise UnusableClipError(
            f"what moves in it turns by {np.degrees(high - low):.0f} degrees, and the arm of a drive by less"
            f" than {np.degrees(scales.LARGEST_SWING_RAD):.0f}: its pivot or its background cannot be found;"
            " film the head in more places, or name its place with --region"
        )
    if options.known:
        try:
            scale = scales.by_known(angle, options.known)
        except ValueError as error:
            raise UsageError(f"--known: {error}") from error
    else:
        scale = scales.by_extremes(angle, sure)
    left, top = (0, 0) if view.region is None else view.region[:2]
    x, y = learnt.polar.pivot
    return Track(
        clip, scale.position, confidence, direction, np.concatenate(lamps).astype(np.float64),
        (x / view.zoom + left, y / view.zoom + top),
        (float(np.quantile(radius, 0.02)) / view.zoom, float(radius.max()) / view.zoom),
        move_px, high - low, scale.how, len(options.known), learnt.explained, tuple(notes),
    )  # fmt: skip


def _clip_notes(clip: Clip, decoded: int, sure: NDArray[np.bool_]) -> list[str]:
    notes = []
    if clip.cut:
        notes.append(CUT)
    if decoded < clip.frames:
        notes.append(f"the clip is damaged or cut: {decoded} of its {clip.frames} frames can be decoded")
    if clip.variable:
        notes.append("frames come at varying intervals: times are those of the file, scaled")
    if (doubtful := int((~sure).sum())) > 0:
        notes.append(f"{doubtful} of {decoded} frames show the head too poorly: their confidence is low")
    return notes


def capture_rate(found: Track, options: Options, cycle_frames: float | None) -> rates.Rate:
    """The rate at which the clip was shot; a cycle is given in frames of the clip."""
    clip = found.clip
    if cycle_frames is not None:
        cycle_frames *= clip.interval_frames
    if options.rate_hz is not None:
        return rates.Rate(options.rate_hz, "as given with --rate")
    if options.io_period_s is not None:
        return rates.by_period(cycle_frames, options.io_period_s)
    if clip.capture_hz is not None:
        return rates.Rate(clip.capture_hz, "as the camera wrote it into the file")
    lamp = rates.by_lamp(_evenly(found.lamp, clip), clip.playback_hz)
    if lamp.capture_hz is None and options.rpm is not None:
        return rates.by_rotation(cycle_frames, options.rpm)
    return lamp


def _evenly(lamp: F64, clip: Clip) -> F64:
    """The lamps' brightness at even intervals, where frames are missing too."""
    if not clip.variable:
        return lamp
    times_s = clip.times_s[: len(lamp)]
    count = round(float(times_s[-1]) * clip.playback_hz) + 1
    return np.interp(np.arange(count) / clip.playback_hz, times_s, lamp)
