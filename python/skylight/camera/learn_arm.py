"""Learning: background, pivot and appearance of the arm, each better with the others.

A background is known where frames without the head are known, those where the arm's angle is, and that where
the pivot is. From a first background with much of the arm in it, as of a dark arm with little contrast, a
pivot on the wrong side of the window may do better than the true one, and all that follows is wrong. What is
learnt from there explains less of what moves, so where it explains too little rivals from all around are
tried.

Invariant: a rival takes the first pivot's place only if it explains more, is near, and the arm turns by most
of a stroke about it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.camera import angle_to_position as scales
from skylight.camera import arm as arms
from skylight.camera import background as backgrounds
from skylight.camera.background import Background, UnusableClipError
from skylight.camera.frame_selection import F32, Survey

F64 = NDArray[np.float64]

# Learning rounds: from the second on the background is from frames in which the head is known to be
# elsewhere.
ROUNDS = 3
# What lies beyond this share of the outermost radius is followed: near the pivot an arm is wide and covers
# some pixels in every frame, so their background is never seen.
OUTER_FROM = 0.5
# Where one arm explains less than this share of what moves, in the median frame, a clip is refused. Measured
# before rivals were tried: in films with seeds 500 to 527, up to 240 px wide and 600 frames/s, it explained
# 0.91 to 0.98 where positions were right to 2 % of the stroke (22 of 28), in the paper's clips 0.829 and
# 0.865; where they were wrong by more than 5 %, 0.80 to 0.82 in 3 films, and 0.25 to 0.80 in 48 with a disc
# moving too, of which 46 were refused. So were 12 of 59 films with a disc that were right.
LEAST_EXPLAINED = 0.78
# Where one arm explains less than this, rivals of its pivot are tried: of 87 films with seeds 300 to 399 it
# explains 0.75 to 0.92 in ten of dark arms, before, and 0.94 or more in the others. Trying takes one to four
# seconds, however long the film is.
PLAINLY_EXPLAINED = 0.95
# From this on a rival leaves no doubt. In 33 of 45 films with seeds 500 to 544, as above and with a disc that
# moves too, the first pivot explains less than LEAST_EXPLAINED and there is a graph all the same: rivals
# explain at most 0.87 there, and positions are wrong by more than 2 % of the stroke only where they explain
# 0.62 or less. In film 1391, a dark arm alone, the first pivot is on the wrong side and explains 0.67, and a
# rival 0.945.
RIVAL_EXPLAINED = 0.9
# A frame whose explained share is below this says little.
SURE_EXPLAINED = 0.55
# Rivals that are learnt from, of those that do best after one round; and how often the best is learnt from
# again while it gets better.
MOST_RIVALS, MOST_AGAIN = 3, 2
# A rival's arm turns by this much, rad: six tenths of the 29 degrees of a whole stroke. About a wrong pivot a
# thing that hardly turns may explain more than the arm does (98 % in film 525 of up to 240 px, by 4 degrees).
LEAST_RIVAL_SWING_RAD = 0.6 * float(np.radians(29.0))
# A head covers at least this many pixels of the working size; specks of noise cover a few.
LEAST_HEAD_PIXELS = 20.0


@dataclass(frozen=True)
class Learnt:
    """What a frame is matched with."""

    background: Background
    polar: arms.Polar
    appearance: arms.Appearance
    usual_pixels: float
    explained: float
    """The share of what moves that the arm explains, in the median frame."""
    swing_rad: float
    """By which the arm turns."""


def learn(found: Survey, background: Background) -> Learnt:
    """Background, pivot and appearance of the arm, from a first background; refuses a clip in which a single
    arm explains too little."""
    learnt = _from(found, background, None)
    explained = learnt.explained
    if explained < PLAINLY_EXPLAINED:
        learnt = _best_rival(found, background, learnt)
        # The best of many explains more by chance alone: it makes up for a first that explains too little
        # only where it leaves no doubt.
        explained = learnt.explained if learnt.explained >= RIVAL_EXPLAINED else explained
    if explained < LEAST_EXPLAINED:
        raise UnusableClipError(
            f"a single arm explains {100 * explained:.0f} % of what moves: more than one thing moves,"
            " or the camera does; name the head's place with --region"
        )
    return learnt


def _best_rival(found: Survey, background: Background, best: Learnt) -> Learnt:
    """The best of what is learnt from pivots all around."""
    x, y = (axis.astype(np.float32) for axis in background.axes())
    screened = [(_screened(found, background, place), place) for place in arms.places_around(x, y)]
    tried = [place for _, place in sorted(screened, reverse=True)[:MOST_RIVALS]]
    for _ in range(1 + MOST_AGAIN):
        before = best
        for pivot in tried:
            with contextlib.suppress(UnusableClipError):
                rival = _from(found, background, pivot)
                near = arms.is_near(x, y, rival.polar.pivot) and rival.swing_rad >= LEAST_RIVAL_SWING_RAD
                if near and rival.explained > best.explained:
                    best = rival
        if best is before or best.explained >= PLAINLY_EXPLAINED:
            break
        # The first background's faults matter less from a pivot that is nearer.
        tried = [best.polar.pivot]
    return best


def _screened(found: Survey, background: Background, pivot: arms.Point) -> float:
    """How much one arm about a pivot explains after a coarse round, the background being learnt anew."""
    x, y = (axis.astype(np.float32) for axis in background.axes())
    bin_px = arms.COARSE[0]
    masks = background.masks(found.diverse)
    appearance, shift, _ = arms.learn(arms.Polar(x, y, pivot, bin_px), masks, 1)
    unlike = replace(found, spread=found.spread[:0])
    angles = appearance.frame_rad(shift), appearance.pixel_rad()
    background = _outer(backgrounds.refined(background, unlike, *angles), pivot)
    x, y = (axis.astype(np.float32) for axis in background.axes())
    _, _, explained = arms.learn(arms.Polar(x, y, pivot, bin_px), background.masks(found.diverse), 1)
    return float(explained.mean())


def _outer(background: Background, pivot: arms.Point) -> Background:
    """The background over the outer part of what the arm covers."""
    x, y = background.axes()
    radius = np.hypot(x - pivot[0], y - pivot[1])
    return background.within(radius >= OUTER_FROM * radius.max())


def _from(found: Survey, background: Background, pivot: arms.Point | None) -> Learnt:
    """What is learnt from a first background, and from a first pivot or from one looked for anywhere."""
    samples = np.concatenate([found.spread, found.diverse])
    anywhere = pivot is None
    for round_ in range(ROUNDS):
        x, y = (axis.astype(np.float32) for axis in background.axes())
        masks = background.masks(found.diverse)
        _check_moving(masks)
        last = round_ == ROUNDS - 1
        if round_ or pivot is None:
            # Before the last round from anywhere: on the first background a pivot on the other side may do
            # as well.
            near = None if anywhere and not last else pivot
            pivot = arms.find_pivot(x, y, masks, near, fine=last)
        polar = arms.Polar(x, y, pivot, arms.BIN_PX)
        appearance, _, _ = arms.learn(polar, masks)
        if last:
            break
        seen = background.masks(samples)
        shift, _, _ = appearance.match(polar.sums(seen), seen)
        if round_:
            angles = appearance.frame_rad(shift), appearance.pixel_rad()
            background = backgrounds.refined(background, found, *angles)
        else:
            background = _outer(_grown(background, found, appearance, shift), pivot)
    masks = background.masks(samples)
    shift, explained, pixels = appearance.match(polar.sums(masks), masks)
    usual = float(np.median(pixels))
    if usual < LEAST_HEAD_PIXELS:
        raise UnusableClipError("nothing moves in it but noise: no head in view")
    shown = pixels >= arms.LEAST_PIXELS
    # As a graph counts it: from frames in order of time, without odd ones, of which the diverse have most.
    spread = slice(len(found.spread))
    sure = shown[spread] & (explained[spread] >= SURE_EXPLAINED)
    low, high = scales.extremes(appearance.frame_rad(shift[spread]), sure) if sure.any() else (0.0, 0.0)
    learnt_explained = float(np.median(explained[shown]))
    return Learnt(background, polar, appearance, usual, learnt_explained, high - low)


def _grown(background: Background, found: Survey, appearance: arms.Appearance, shift: F64) -> Background:
    """The background over all that the arm covers. Where the arm is often, its first background is a mixture,
    from which the arm does not depart; between the angles seen a pixel is known from when the arm is away."""
    rows, columns = np.indices(background.support.shape, np.float64).reshape(2, -1)
    within, angle, ring = appearance.polar.around(columns, rows)
    within |= background.support.reshape(-1)
    wide = backgrounds.over(background, within.reshape(background.support.shape))
    pixels = wide.pixels
    angles = appearance.frame_rad(shift), appearance.pixel_rad(angle[pixels], ring[pixels])
    return backgrounds.covered(backgrounds.refined(wide, found, *angles), found, background.support)


def _check_moving(masks: F32) -> None:
    if masks.sum(axis=1).max() < arms.LEAST_PIXELS:
        raise UnusableClipError("nothing moves in it but noise: no head in view")
