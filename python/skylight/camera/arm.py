"""The angle of the arm: an arm is a rigid thing that turns about a pivot.

Seen in polar coordinates about the pivot, the arm only shifts along the angle. So the pivot is where frames
with the head in different places become shifted copies of each other; the copies laid over each other are
the arm's appearance, and a frame's angle is the shift at which the appearance explains the frame best.
Parts that the window hides do not count for or against a shift.

Invariants: angles rise counter-clockwise as seen in the picture; a match is the least-squares fit of a scaled
appearance to the visible pixels, and its quality the share of the frame's energy that it explains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skylight.camera.frame_selection import F32

if TYPE_CHECKING:
    from scipy.sparse import csr_array

F64 = NDArray[np.float64]
Point = tuple[float, float]

# Rings about the pivot: enough that an arm that moves towards the pivot is no shift, few enough to be quick.
RINGS = 20
# Angular bins are this many pixels wide at the outermost ring.
BIN_PX = 0.75
# While the pivot is looked for: coarser, and on at most so many frames and about so many pixels.
# The last time, from near, more of each.
COARSE, FINE = (1.5, 12, 2500), (1.0, 24, 6000)
# Where the pivot may be: this many directions, at these distances from the middle of the support, as shares
# of its size.
DIRECTIONS, DISTANCES = 12, (0.6, 0.9, 1.5, 3.0)
# Where rivals of a doubtful pivot are: a window shows the arm, whose other end is not far. From far away any
# small shift of the picture is a turn, so what explains most there need not be the arm.
NEAR_DISTANCES = DISTANCES[:2]
# Beyond this distance an arc is a straight line to a tenth of a pixel, and no arm is so long.
FARTHEST = 8.0
# The best places of the grid that are climbed from, and the last step in direction, rad: 1 % of the stroke
# at most.
STARTS, SMALLEST_STEP = 2, 0.02
# A pivot is at least this far from all that moves, as a share of its size: the motor's side of an arm is in
# no window.
LEAST_PIVOT = 0.06
# Rounds of laying the frames over each other.
ROUNDS = 3
# A mask with less in all than this many pixels shows no head.
LEAST_PIXELS = 6.0


class Polar:
    """Pixels sorted into rings and angles about a pivot."""

    def __init__(self, x: F32, y: F32, pivot: Point, bin_px: float) -> None:
        """`x`, `y` are the pixels' coordinates; `bin_px` the width of a bin at the outermost ring."""
        from scipy import fft
        from scipy.sparse import csr_array

        right, up = x - pivot[0], pivot[1] - y
        radius = np.hypot(right, up)
        middle = np.arctan2(up.mean(), right.mean())
        turned = np.arctan2(up, right) - middle
        angle = (turned + np.pi) % (2 * np.pi) - np.pi
        outermost = float(radius.max())
        self.pivot, self.bin_rad = pivot, bin_px / outermost
        self.first_rad = float(angle.min() + middle)
        self.angle = angle + middle
        self.bins = int((angle.max() - angle.min()) / self.bin_rad) + 2
        self._edges = np.linspace(radius.min(), radius.max(), RINGS + 1)
        self._middle = middle
        self.ring = ring = np.searchsorted(self._edges[1:-1], radius)
        place = (angle - angle.min()) / self.bin_rad
        low = place.astype(np.int64)
        share = place - low
        rows = np.arange(len(x))
        cells = ring * self.bins + low
        self._sums: csr_array[Any] = csr_array(
            (
                np.concatenate([1 - share, share]).astype(np.float32),
                (np.concatenate([cells, cells + 1]), np.concatenate([rows, rows])),
            ),
            shape=(RINGS * self.bins, len(x)),
        )
        self.visible = self.sums(np.ones((1, len(x)), np.float32))[0]
        self.size = fft.next_fast_len(2 * self.bins, real=True)

    def around(self, x: F64, y: F64) -> tuple[NDArray[np.bool_], F64, NDArray[np.int64]]:
        """Of any pixels, which lie within the rings and angles of these; their angles and rings."""
        right, up = x - self.pivot[0], self.pivot[1] - y
        radius = np.hypot(right, up)
        angle = (np.arctan2(up, right) - self._middle + np.pi) % (2 * np.pi) - np.pi + self._middle
        within = (radius >= self._edges[0]) & (radius <= self._edges[-1])
        within &= (angle >= self.angle.min()) & (angle <= self.angle.max())
        return within, angle, np.searchsorted(self._edges[1:-1], radius)

    def sums(self, masks: F32) -> F32:
        """Each frame's mask summed over the pixels of a bin: (frames, rings, bins)."""
        return np.asarray((self._sums @ masks.T).T, np.float32).reshape(-1, RINGS, self.bins)


class Appearance:
    """What the arm looks like: a mask over rings and shifts, centred on the arm's angle."""

    def __init__(self, polar: Polar, mask: F32) -> None:
        """`mask` is (rings, 2 * bins - 1), its middle the arm's angle."""
        self.polar, self.mask = polar, mask
        mass = np.maximum(mask.sum(axis=1, dtype=np.float64), 1e-6)
        self.centre = (mask * np.arange(mask.shape[1])).sum(axis=1) / mass
        """The middle of the arm in each ring, in elements of the mask."""
        from scipy import fft

        size = polar.size
        self._mask_spectrum = np.conj(fft.rfft(mask, size))
        visible = fft.rfft(polar.visible, size)
        energy = fft.irfft((visible * np.conj(fft.rfft(mask**2, size))).sum(axis=0), size)
        # At shift `s`, bin `b` of a frame lies over element `b - s + bins - 1` of the mask.
        self._shifts = (np.arange(polar.bins) - (polar.bins - 1)) % size
        energy = energy[self._shifts]
        self._energy = np.maximum(energy, 0.15 * float(energy.max()) + 1e-6)

    def pixel_rad(self, angle: F64 | None = None, ring: NDArray[np.int64] | None = None) -> F64:
        """Angles of the pixels, or of any at these angles in these rings, against the arm's middle in their
        ring, on the scale of `frame_rad`."""
        polar = self.polar
        angle, ring = polar.angle if angle is None else angle, polar.ring if ring is None else ring
        off = (self.centre - (polar.bins - 1)) * polar.bin_rad
        return np.asarray(angle - polar.first_rad - off[ring], np.float64)

    def frame_rad(self, shift: F64) -> F64:
        """The arm's angle at shifts."""
        return shift * self.polar.bin_rad

    def direction_rad(self, shift: F64) -> F64:
        """Direction of the arm's outer half from the pivot at shifts."""
        polar, mass = self.polar, self.mask.sum(axis=1, dtype=np.float64)
        mass[: RINGS // 2] = 0
        off = float((mass * (self.centre - (polar.bins - 1))).sum() / max(float(mass.sum()), 1e-6))
        return np.asarray(polar.first_rad + (shift + off) * polar.bin_rad, np.float64)

    def match(self, sums: F32, masks: F32) -> tuple[F64, F64, F64]:
        """Shift (bins) of each frame, the share explained, and the pixels of the head."""
        from scipy import fft  # keeps single precision, and so takes half the time of numpy's

        size = self.polar.size
        spectra = fft.rfft(sums, size)
        spectra *= self._mask_spectrum
        alike = fft.irfft(spectra.sum(axis=1), size)[:, self._shifts]
        gain = np.maximum(alike, 0) ** 2 / self._energy
        best = gain.argmax(axis=1)
        rows = np.arange(len(gain))
        inner = np.clip(best, 1, gain.shape[1] - 2)
        before, at, after = gain[rows, inner - 1], gain[rows, inner], gain[rows, inner + 1]
        bend = before - 2 * at + after
        step = np.where(bend < 0, 0.5 * (before - after) / np.where(bend < 0, bend, -1), 0)
        shift = np.where(inner == best, inner + np.clip(step, -0.5, 0.5), best)
        # Of the pixels, not of the bins: what a bin averages is less the larger the bins are, and their
        # size depends on the pivot.
        energy = np.einsum("ij,ij->i", masks, masks)
        explained = gain[rows, best] / np.maximum(energy, 1e-6)
        return shift, np.clip(explained, 0, 1), masks.sum(axis=1, dtype=np.float64)


def _laid_over(polar: Polar, sums: F32, shifts: NDArray[np.int64], weights: F64) -> F32:
    """The mean of frames laid over each other at their shifts, over the pixels that each shows."""
    bins = polar.bins
    total = np.zeros((RINGS, 2 * bins - 1))
    count = np.full((RINGS, 2 * bins - 1), 1e-3)
    for frame, shift, weight in zip(sums, shifts, weights, strict=True):
        at = slice(bins - 1 - shift, 2 * bins - 1 - shift)
        total[:, at] += weight * frame
        count[:, at] += weight * polar.visible
    return np.asarray(total / count, np.float32)


def learn(polar: Polar, masks: F32, rounds: int = ROUNDS) -> tuple[Appearance, F64, F64]:
    """The appearance of the arm from frames with the head in different places; their shifts and shares
    explained."""
    sums = polar.sums(masks)
    pixels = masks.sum(axis=1, dtype=np.float64)
    # Not the fullest: that is one whose exposure saw the head in two places, if there is one.
    usual = int(np.argsort(pixels)[len(pixels) // 2])
    profile = sums[usual].sum(axis=0)
    centre = round(float((profile * np.arange(polar.bins)).sum() / max(float(profile.sum()), 1e-6)))
    one = np.ones(1)
    appearance = Appearance(polar, _laid_over(polar, sums[usual : usual + 1], np.array([centre]), one))
    shift, explained, _ = appearance.match(sums, masks)
    for _ in range(rounds):
        weights = np.where(pixels >= LEAST_PIXELS, explained**2, 0)
        if not weights.any():
            break
        mask = _laid_over(polar, sums, np.round(shift).astype(np.int64), weights)
        appearance = Appearance(polar, mask)
        shift, explained, _ = appearance.match(sums, masks)
    return appearance, shift, explained


def places_around(x: F32, y: F32) -> list[Point]:
    """Points all around what moves, about as far from it as a pivot is."""
    middle, extent = _extent(x, y)
    return [
        _point(middle, extent, turn * 2 * np.pi / DIRECTIONS, far)
        for far in NEAR_DISTANCES
        for turn in range(DIRECTIONS)
    ]


def is_near(x: F32, y: F32, pivot: Point) -> bool:
    """Whether a point lies as near to what moves as `places_around` does."""
    middle, extent = _extent(x, y)
    return float(np.hypot(pivot[0] - middle[0], pivot[1] - middle[1])) <= NEAR_DISTANCES[-1] * extent


def _extent(x: F32, y: F32) -> tuple[Point, float]:
    """The middle of what moves, and its size."""
    middle = (float(x.min() + x.max()) / 2, float(y.min() + y.max()) / 2)
    return middle, float(np.hypot(np.ptp(x), np.ptp(y)))


def _point(middle: Point, extent: float, turn: float, far: float) -> Point:
    """The point in a direction, at a distance in sizes."""
    away = far * extent
    return middle[0] + away * float(np.cos(turn)), middle[1] + away * float(np.sin(turn))


def find_pivot(x: F32, y: F32, masks: F32, near: Point | None = None, *, fine: bool = False) -> Point:
    """The point about which the frames are shifted copies of each other; looked for around `near` if that
    is given."""
    bin_px, most_frames, most_pixels = FINE if fine else COARSE
    step = max(1, len(x) // most_pixels)
    x, y, masks = x[::step], y[::step], masks[_farthest(masks, most_frames)][:, ::step]
    middle, extent = _extent(x, y)

    def quality(turn: float, far: float) -> float:
        if far > FARTHEST:
            return 0.0
        pivot = _point(middle, extent, turn, far)
        if np.hypot(x - pivot[0], y - pivot[1]).min() < LEAST_PIVOT * extent:
            return 0.0  # amid what moves, or all but
        _, _, explained = learn(Polar(x, y, pivot, bin_px), masks, 1)
        return float(explained.mean())

    if near is None:
        tried = [(turn, far) for far in DISTANCES for turn in np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS]
    else:
        right, down = (near[0] - middle[0]) / extent, (near[1] - middle[1]) / extent
        tried = [(float(np.arctan2(down, right)), float(np.hypot(right, down)))]
    ranked = sorted(((quality(*place), place) for place in tried), reverse=True)
    best = max(_climbed(quality, one) for one in ranked[:STARTS])
    return _point(middle, extent, *best[1])


def _climbed(quality: Callable[[float, float], float], best: tuple[float, Point]) -> tuple[float, Point]:
    """The best place around one, by steps in direction and in distance that get smaller."""
    turn_step, far_step = np.pi / DIRECTIONS, 0.25
    while turn_step > SMALLEST_STEP:
        turn, far = best[1]
        around = [
            (turn + dt * turn_step, far * (1 + df * far_step))
            for dt, df in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))
        ]
        better = max((quality(*place), place) for place in around)
        if better[0] > best[0]:
            best = better
        else:
            turn_step, far_step = turn_step / 2, far_step / 2
    return best


def _farthest(masks: F32, count: int) -> NDArray[np.int64]:
    """Up to `count` frames that are unlike each other, the fullest first."""
    small = masks[:, ::4]
    chosen = [int(np.argmax(masks.sum(axis=1)))]
    nearest = ((small - small[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(count, len(masks)):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, ((small - small[chosen[-1]]) ** 2).sum(axis=1))
    return np.array(chosen)
