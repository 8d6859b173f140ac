"""The arm's angle to a small fraction of a pixel: each frame against the picture it should be.

A match of masks weighs a pixel by whether it shows the head, and so leans to where the ground is unlike the
arm: a reflection or a hub draws it by a quarter of a pixel. Here a pixel is what ground and arm make it: the
ground's light times the share that the arm lets through, and the arm's own light. Both belong to a place on
the arm, and are learnt from what all frames show there over different grounds; so the picture at every angle
is known, and a frame's angle is the least-squares fit between two such pictures next to each other.

Invariants: an angle moves by `MOST_BINS` at most from where the masks put it; nothing grows with the length
of the clip."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skylight.camera.arm import RINGS
from skylight.camera.background import Background
from skylight.camera.frame_selection import F32, Survey
from skylight.camera.learn_arm import Learnt

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# In each ring of the masks: edges of the arm that are no radii are steps within a ring.
FINER_RINGS = 2
# Rounds of learning what the arm looks like and where it is in the samples: in five films of 40 to 75 px of
# movement the third moves no angle by more than a tenth of a bin.
ROUNDS = 4
# How sure the masks are of the share that a place of the arm lets through: as sure as ground that varies by
# this, squared grey levels. Chosen: ground that varies by more than ten levels says more than the masks do.
PRIOR = 100.0
# The masks are right to half a pixel or so. What would move an angle farther does not show the arm.
MOST_BINS = 2.0
# Steps from one pair of pictures to the next.
MOST_STEPS = 3


class Fine:
    """The picture at every angle."""

    def __init__(self, learnt: Learnt, found: Survey) -> None:
        """From the frames that the survey kept."""
        polar = learnt.polar
        self._background: Background = learnt.background
        self._bins = polar.bins
        self._width = 2 * polar.bins + 1
        # A pixel's place on the arm is its own angle less the arm's, in bins, from 0 on; and its ring.
        radius = np.hypot(*(axis - at for axis, at in zip(self._background.axes(), polar.pivot, strict=True)))
        rings = np.linspace(radius.min(), radius.max(), FINER_RINGS * RINGS + 1)[1:-1]
        self._ring = np.searchsorted(rings, radius)
        self._angle = (polar.angle - polar.first_rad) / polar.bin_rad + polar.bins
        prior = np.ones((RINGS, self._width))
        prior[:, 1:-1] = 1 - np.clip(learnt.appearance.mask, 0, 1)
        finer = np.repeat(prior, FINER_RINGS, axis=0).reshape(-1)
        frames = np.concatenate([found.spread, found.diverse])
        masks = self._background.masks(frames)
        shift, _, pixels = learnt.appearance.match(polar.sums(masks), masks)
        shown = pixels >= learnt.usual_pixels / 4
        values, shift = self._values(frames[shown]), shift[shown]
        for _ in range(ROUNDS):
            self._pictures = self._learnt(values, shift, finer)
            shift = self._fitted(values, shift)

    def shifts(self, frames: NDArray[np.generic], shift: F64) -> F64:
        """Shifts (bins) of frames, from those of the masks."""
        return self._fitted(self._values(frames), shift)

    def _values(self, frames: NDArray[np.generic]) -> F32:
        """The support's pixels in grey levels, as if the lamps were steady."""
        values = frames.reshape(len(frames), -1)[:, self._background.pixels].astype(np.float32)
        values /= 1 + self._background.lamp(frames)[:, None]
        return values

    def _places(self, shift: float) -> Iterator[tuple[I64, F64]]:
        """The two places on the arm next to each pixel, and the share of each."""
        at = self._angle - shift
        low = np.clip(np.floor(at).astype(np.int64), 0, self._width - 2)
        share = np.clip(at - low, 0, 1)
        places = self._ring * self._width + low
        yield places, 1 - share
        yield places + 1, share

    def _learnt(self, values: F32, shift: F64, prior: F64) -> F32:
        """The picture at every whole shift: in each place a line of what is seen over what the ground is."""
        ground = self._background.level.astype(np.float64)
        size = FINER_RINGS * RINGS * self._width
        count, grounds, lights, squares, products = (np.zeros(size) for _ in range(5))
        for seen, at in zip(values, shift, strict=True):
            for place, share in self._places(at):
                count += np.bincount(place, share, size)
                grounds += np.bincount(place, share * ground, size)
                lights += np.bincount(place, share * seen, size)
                squares += np.bincount(place, share * ground**2, size)
                products += np.bincount(place, share * ground * seen, size)
        seen_at = count >= 0.5
        count = np.maximum(count, 0.5)
        along = products - grounds * lights / count + PRIOR * prior
        through = np.clip(along / (squares - grounds**2 / count + PRIOR), 0, 1)
        own = (lights - through * grounds) / count
        # A place that no pixel ever shows is taken to be clear of the arm.
        through, own = np.where(seen_at, through, 1), np.where(seen_at, own, 0)
        pictures = np.zeros((self._bins + 1, len(ground)), np.float32)
        for number, picture in enumerate(pictures):
            for place, share in self._places(float(number)):
                picture += share * (through[place] * ground + own[place])
        return pictures

    def _fitted(self, values: F32, shift: F64) -> F64:
        """The shift of each frame: how far it lies from one picture to the next."""
        weight = 1 / self._background.noise**2
        last = len(self._pictures) - 2
        found = shift.copy()
        for number, seen in enumerate(values):
            low = int(np.clip(np.floor(shift[number]), 0, last))
            for _ in range(MOST_STEPS):
                step = self._pictures[low + 1] - self._pictures[low]
                weighted = weight * step
                length = float(weighted @ step)
                if length <= 0:
                    break
                share = float(weighted @ (seen - self._pictures[low])) / length
                found[number] = low + min(max(share, 0.0), 1.0)
                beside = min(max(low + (share > 1) - (share < 0), 0), last)
                if beside == low:
                    break
                low = beside
        return np.where(np.abs(found - shift) <= MOST_BINS, found, shift)
