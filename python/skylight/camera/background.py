"""The picture without the head: what each pixel shows, how it follows the lamps, how much it is noise.

A pixel's grey level is `level + slope * lamp`, where `lamp` is the relative brightness of a frame, measured
on pixels that the head never covers. A pixel shows the head where it departs from that by more than its
noise.

Invariants: pixels outside of `support` never showed the head and are not looked at; a film in which nothing
moves, or in which everything does, is refused with one line."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.camera.frame_selection import F32, Survey

Bools = NDArray[np.bool_]
F64 = NDArray[np.float64]

# A normal distribution's standard deviation over its median absolute deviation.
MAD_TO_SIGMA = 1.4826
# Rounding to whole grey levels alone makes 0.3 levels of noise, and a codec's quantisation a few times that.
LEAST_NOISE = 1.0
# A pixel that departs by this many standard deviations in some frame is one that the head covers: of 30,000
# pixels and 50 frames, noise makes two departures of 5.
COVERED_SIGMAS = 6.0
# The head begins to count at so many standard deviations, and counts fully at the second figure.
FAINT_SIGMAS, PLAIN_SIGMAS = 3.0, 9.0
# Where the head's contrast is known a pixel counts fully from this quantile of it on. At the median positions
# of bright arms are as good, and those of dark arms, which have faint parts, have twice the noise.
FULL_FROM = 0.25
# Beyond this many standard deviations a departure is clear, and more of it is no news: a bright part of the
# head on a dark ground does not count for more than the rest.
CLEAR_SIGMAS = 12.0
# A frame shows the head in a new place if it differs from all others by this share of the most that two
# frames do. A head that has moved by a third of its width does; a lamp's flicker does not.
NEW_PLACE_SHARE = 0.3
# A covered pixel has at least this many covered pixels in the 5 x 5 around it; what has fewer is a speck.
SPECK_PIXELS = 8
# Parts of the support smaller than this share of the largest are glints, not the head.
GLINT_SHARE = 0.04
# A head and its arm in a window move over less of a picture than this; a picture that moves more of itself
# shakes.
LARGEST_SUPPORT = 0.7
# The arm is far from a pixel in frames in which it is this share of the farthest away; pixels are taken in
# so many sectors.
AWAY_SHARE, SECTORS = 0.7, 32
# Pixels that the lamp is measured on.
LAMP_PIXELS = 4000
# Fewer do not show the lamps.
LEAST_LAMP_PIXELS = 64
# The picture may move this much (px, root mean square over the frames) before it counts as shaking. The
# scale of a head position is 30 to 200 px.
LARGEST_SHAKE_PX = 0.6
# Blocks that the picture's own movement is measured on, along each side.
SHAKE_BLOCKS = 6


class UnusableClipError(Exception):
    """The clip shows no single moving head; the text says what it shows instead."""


@dataclass(frozen=True)
class Background:
    """A clip's background over the pixels of `support`, and where to measure the lamp."""

    support: Bools
    level: F32
    slope: F32
    noise: F32
    plain: F32
    """The departure at which a pixel counts fully, in its standard deviations."""
    lamp_at: NDArray[np.int64]
    lamp_level: F32
    region: tuple[int, int, int, int] | None = None
    """Where the support may lie: x, y, width, height."""

    @property
    def pixels(self) -> NDArray[np.int64]:
        """Flat indices of the support's pixels."""
        return np.flatnonzero(self.support)

    def axes(self) -> tuple[F64, F64]:
        """x and y of the support's pixels."""
        rows, columns = np.nonzero(self.support)
        return columns.astype(np.float64), rows.astype(np.float64)

    def within(self, kept: Bools) -> Background:
        """The same over some of the support's pixels."""
        support = np.zeros_like(self.support)
        support.reshape(-1)[self.pixels[kept]] = True
        level, slope, noise, plain = (
            column[kept] for column in (self.level, self.slope, self.noise, self.plain)
        )
        return replace(self, support=support, level=level, slope=slope, noise=noise, plain=plain)

    def lamp(self, frames: NDArray[np.generic]) -> F32:
        """The relative brightness of each frame, less 1."""
        seen = frames.reshape(len(frames), -1)[:, self.lamp_at].sum(axis=1, dtype=np.float32)
        return np.asarray(seen / self.lamp_level.sum() - 1, np.float32)

    def departures(self, frames: NDArray[np.generic]) -> F32:
        """Departure of each pixel of the support from the background, in its standard deviations."""
        values = frames.reshape(len(frames), -1)[:, self.pixels].astype(np.float32)
        values -= self.level
        values -= self.lamp(frames)[:, None] * self.slope
        values /= self.noise
        return values

    def masks(self, frames: NDArray[np.generic]) -> F32:
        """How surely each pixel of the support shows the head, 0 to 1."""
        departures = np.abs(self.departures(frames))
        departures -= FAINT_SIGMAS
        departures /= self.plain - FAINT_SIGMAS
        return np.clip(departures, 0, 1, out=departures)


def first(survey: Survey, region: tuple[int, int, int, int] | None) -> Background:
    """A background from frames alone: each pixel's median over frames that are unlike each other."""
    _, height, width = survey.diverse.shape
    diverse = survey.diverse.reshape(len(survey.diverse), -1)
    spread = survey.spread.reshape(len(survey.spread), -1)
    level = np.asarray(np.median(diverse, axis=0), np.float32)
    bright = level > np.median(level)
    gains = [
        np.median(frames[:, bright] / np.maximum(level[bright], 1), axis=1) for frames in (diverse, spread)
    ]
    diverse = np.asarray(diverse - level * gains[0][:, None], np.float32)
    spread = np.asarray(spread - level * gains[1][:, None], np.float32)
    noise = np.maximum(MAD_TO_SIGMA * np.median(np.abs(spread), axis=0), LEAST_NOISE)
    # Where the head is half of the time the spread is the head's; nowhere is a camera's noise so far from
    # its usual.
    noise = np.minimum(noise, 3 * np.median(noise))
    # The second largest, so that one spoilt frame is no movement.
    second = (
        np.partition(np.abs(diverse), -2, axis=0)[-2] if len(diverse) > 2 else np.abs(diverse).max(axis=0)
    )
    covered = (second > COVERED_SIGMAS * noise).reshape(height, width)
    support = _support(covered, region)
    _check_steady(diverse.reshape(-1, height, width), level.reshape(height, width), support)
    inside = support.reshape(-1)
    level[inside] += _evenly(np.concatenate([diverse, spread])[:, inside], noise[inside])
    outside = np.flatnonzero(~inside & (level > 8) & (level < 247))
    if len(outside) < LEAST_LAMP_PIXELS:
        raise UnusableClipError("everything in it moves: no still surroundings of a head")
    lamp_at = outside[:: max(1, len(outside) // LAMP_PIXELS)]
    return Background(
        support,
        np.asarray(level[inside], np.float32),
        np.asarray(level[inside], np.float32),
        np.asarray(noise[inside], np.float32),
        np.full(int(inside.sum()), PLAIN_SIGMAS, np.float32),
        lamp_at,
        np.asarray(level[lamp_at], np.float32),
        region,
    )


def _evenly(residues: F32, noise: F32) -> F32:
    """What the support shows, from its median on, with every place of the head counted about once: the
    median over frames that each differ from those chosen before by a share of the most that two frames
    differ."""
    seen = np.clip(residues / noise, -CLEAR_SIGMAS, CLEAR_SIGMAS)
    chosen = [0]
    nearest = np.abs(seen - seen[0]).mean(axis=1)
    largest = 0.0
    while (apart := float(nearest.max())) > NEW_PLACE_SHARE * (largest := max(largest, apart)) and apart > 0:
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.abs(seen - seen[chosen[-1]]).mean(axis=1))
    return np.asarray(np.median(residues[chosen], axis=0), np.float32)


def _support(covered: Bools, region: tuple[int, int, int, int] | None) -> Bools:
    """Where the head moves: covered pixels in company, their largest parts, and a margin."""
    support = _with_margin(_large_parts(covered & _inside(covered, region)))
    if not support.any():
        raise UnusableClipError("nothing moves in it: no head in view, or a still image")
    if region is None and support.mean() > LARGEST_SUPPORT:
        raise UnusableClipError("all of the picture moves: the camera shakes, or no head is in view")
    return support


def _large_parts(covered: Bools) -> Bools:
    """Covered pixels in company, of their largest parts."""
    from scipy import ndimage

    company = ndimage.uniform_filter(covered.astype(np.float32), 5, mode="constant") * 25
    parts, count = ndimage.label(covered & (company >= SPECK_PIXELS), np.ones((3, 3), int))
    if count == 0:
        return np.zeros_like(covered)
    sizes = np.bincount(parts.reshape(-1))[1:]
    return np.isin(parts, np.flatnonzero(sizes >= GLINT_SHARE * sizes.max()) + 1)


def _with_margin(covered: Bools) -> Bools:
    """With what lies two pixels around."""
    from scipy import ndimage

    return np.asarray(ndimage.binary_dilation(covered, iterations=2), np.bool_)


def _inside(picture: Bools, region: tuple[int, int, int, int] | None) -> Bools:
    """The pixels of a picture that lie in a region."""
    if region is None:
        return np.ones_like(picture)
    x, y, width, height = region
    inside = np.zeros_like(picture)
    inside[y : y + height, x : x + width] = True
    return inside


def _check_steady(residues: F32, level: F32, support: Bools) -> None:
    """Refuses a film whose whole picture moves: the movement of blocks, by least squares on their
    gradients."""
    down, right = (np.asarray(axis, np.float32) for axis in np.gradient(level))
    height, width = level.shape
    moves = []
    for top in np.linspace(0, height, SHAKE_BLOCKS + 1).astype(int)[:-1]:
        for left in np.linspace(0, width, SHAKE_BLOCKS + 1).astype(int)[:-1]:
            block = np.s_[top : top + height // SHAKE_BLOCKS, left : left + width // SHAKE_BLOCKS]
            slopes = np.stack([right[block].reshape(-1), down[block].reshape(-1)])
            normal = np.asarray(slopes @ slopes.T, np.float64)
            if support[block].mean() > 0.2 or float(np.min(np.linalg.eigvalsh(normal))) < slopes.shape[1]:
                continue  # the head covers it, or it has no edges in some direction
            seen = residues[(slice(None), *block)].reshape(len(residues), -1)
            moves.append(np.linalg.solve(normal, slopes @ seen.T).T)
    if len(moves) < 4:
        return  # too little texture for a shake to show
    shake_px = float(np.sqrt((np.median(moves, axis=0) ** 2).sum(axis=1).mean()))
    if shake_px > LARGEST_SHAKE_PX:
        raise UnusableClipError(f"the whole picture moves by {shake_px:.1f} px: the camera shakes")


def over(background: Background, support: Bools) -> Background:
    """A background of which only `refined` knows the levels: over a support that is not yet learnt, in the
    region."""
    support = support & _inside(support, background.region)
    count = int(support.sum())
    still = ~support.reshape(-1)[background.lamp_at]
    if still.sum() < LEAST_LAMP_PIXELS:
        still[:] = True
    return replace(
        background,
        support=support,
        level=np.zeros(count, np.float32),
        slope=np.zeros(count, np.float32),
        noise=np.ones(count, np.float32),
        plain=np.full(count, PLAIN_SIGMAS, np.float32),
        lamp_at=background.lamp_at[still],
        lamp_level=background.lamp_level[still],
    )


def covered(background: Background, survey: Survey, before: Bools) -> Background:
    """The background over the support that it had before and what else the head covers in two frames.

    What never shows the head's full contrast, as a dark hub under a dark arm, would count as its edge in
    every frame."""
    second = np.zeros((2, len(background.level)), np.float32)  # the two largest departures
    for frames in (survey.diverse, survey.spread):
        if len(frames):
            departures = np.abs(background.departures(frames))
            second = np.partition(np.concatenate([second, departures]), -2, axis=0)[-2:]
    seen = np.zeros_like(background.support)
    seen.reshape(-1)[background.pixels] = second[0] >= background.plain
    support = before | _with_margin(seen & _large_parts(seen | before))
    return background.within(support.reshape(-1)[background.pixels])


def refined(background: Background, survey: Survey, frame_rad: F64, pixel_rad: F64) -> Background:
    """The background from the frames in which the arm is farthest from a pixel: `frame_rad` is the arm's
    angle in the spread and then the diverse frames, `pixel_rad` the angle of each pixel of the support.

    Near the pivot a wide arm covers a pixel most of the time, so no majority of frames shows the
    background; those with the arm far away do, if any does."""
    frames = np.concatenate([survey.spread, survey.diverse])
    values = frames.reshape(len(frames), -1)[:, background.pixels]
    values -= background.lamp(frames)[:, None] * background.slope
    level, noise = background.level.copy(), background.noise.copy()
    edges = np.linspace(pixel_rad.min(), pixel_rad.max() + 1e-9, SECTORS + 1)
    sector = np.searchsorted(edges, pixel_rad, "right") - 1
    for number in range(SECTORS):
        pixels = np.flatnonzero(sector == number)
        if len(pixels) == 0:
            continue
        apart = np.abs(frame_rad - (edges[number] + edges[number + 1]) / 2)
        away = values[apart >= AWAY_SHARE * apart.max()][:, pixels]
        level[pixels] = np.median(away, axis=0)
        noise[pixels] = MAD_TO_SIGMA * np.median(np.abs(away - level[pixels]), axis=0)
    # A pixel that is never clear of the arm varies with it, and so counts for little.
    noise = np.maximum(noise, max(LEAST_NOISE, 0.5 * float(np.median(noise))))
    known = replace(background, level=level, slope=level.copy(), noise=noise)
    return replace(known, plain=_plain(known, survey.diverse))


def _plain(background: Background, frames: F32) -> F32:
    """Where a pixel counts fully: at the contrast that most of the head has. A pixel at the head's edge then
    counts by the share of it that the head covers, which is what shows movements of less than a pixel."""
    departures = np.abs(background.departures(frames))
    clear = departures > PLAIN_SIGMAS
    if not clear.any():
        return np.full_like(background.noise, PLAIN_SIGMAS)
    contrast = float(np.quantile((departures * background.noise)[clear], FULL_FROM))
    return np.asarray(np.maximum(PLAIN_SIGMAS, contrast / background.noise), np.float32)
