"""When seeks start and end: fits of an arm's movement to positions in frames.

The first and last frames of a slow start look like rest, so the ends follow from the whole way: an arm
accelerates, coasts if the way is long, and brakes. All seeks of a film are those of one arm. A fit that is
left in doubt is made again with what this arm takes for ways of about that length, and with a lag: an
encoder that leaves small changes out shows a movement only when it has grown, and then behind by as much.

Invariants: times are in frames, with fractions; ways are shares of the stroke.

Source: times that are a + b sqrt(way) for ways of about one length: Ruemmler and Wilkes, An introduction to
disk drive modeling, IEEE Computer 27(3), 1994.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, least_squares

F64 = NDArray[np.float64]

# A frame that is off by more of the stroke than this counts less in a fit.
FAR_OFF = 0.003
# How far off a seek's ends are: the time in which it makes the way that its fit leaves unexplained (root
# mean square), times the first figure, at least the second, frames. Of 296 seeks in 37 films (34 of seeds
# 950 to 999, and 749, 873 and 906, in which 11 were missed) 98.6 % are within that, of the 54 with more than
# 0.4 frames 94 %.
ENDS_OFF, LEAST_OFF = 5.0, 0.2
# Farther off than this an end is said to be in doubt, frames.
NEAR_FRAMES = 1.0
# Bounds of what a fit may find: frames of a seek, and the share of its time that it accelerates.
LEAST_FRAMES, LEAST_ACCELERATING, MOST_ACCELERATING = 1.0, 0.05, 0.5
# A seek lasts at least this share of its rough length, which is that of an arm that never coasts; one that
# only coasts takes 0.59 of it. Frames before and after a seek do not draw its ends, so a fit that once makes
# it shorter does not come back.
LEAST_ROUGH = 0.5
# A fit that ends within this share of its least length has not found one.
AT_LIMIT = 0.01
# Seeks beside one in doubt from which its time is known, at least.
LEAST_OTHERS = 3
# A time is odd that is this many medians of the film's times away from what the others say. Chosen: four
# standard deviations of times that scatter evenly.
ODD = 6.0
# Ways within about this difference of their roots take times that lie on one line. Chosen: a seek over a
# tenth of the stroke (root 0.32) learns from those over up to four tenths (0.63).
ALIKE_ROOTS = 0.3
# How well a time is known from the others', as a share, and how large a lag is, as a share of the stroke
# (half a pixel where that has 50). Both chosen: half or twice as much leaves 9 to 11 of 216 seeks more than a
# frame off in place of 9, and without others' times it is 14.
TIME_SCATTER, LAG = 0.01, 0.01
# How many rounds fits learn times from each other. Chosen: with more, what all have in
# common drifts, as nothing holds it. Of 384 seeks in the 48 films with fewest pixels of those of seeds 900 to
# 1299 with more than 2,500 frames/s, 7 are more than a frame off with none, 2 with one round, 1 with two,
# none with three, 1 with four, 3 with six; the mean error is 0.21 to 0.22 frames with any, 0.25 with none.
ROUNDS = 3


@dataclass(frozen=True)
class Way:
    """The frames around a seek, the share of its way that is done in each, its length, and roughly when."""

    frames: F64
    done: F64
    length: float
    start: float
    end: float
    whole: bool = True
    """Whether the clip shows the rest before and after it."""
    seen: bool = True
    """Whether enough frames show it on its way for a fit of its own; if not, it is known to a frame."""

    @property
    def rough(self) -> float:
        """How long it takes, roughly."""
        return max(self.end - self.start, LEAST_FRAMES)


@dataclass(frozen=True)
class Ends:
    """Start and end of a seek, frames, what both are within in 95 of 100, and whether a fit found them."""

    start: float
    end: float
    doubt: float
    found: bool = True

    @property
    def time(self) -> float:
        """How long it takes."""
        return self.end - self.start

    @property
    def in_doubt(self) -> bool:
        """Whether others are asked."""
        return self.doubt > NEAR_FRAMES or not self.found


def way_done(time: F64, accelerating: float) -> F64:
    """The share of the way after a share of the time, for an arm that accelerates, coasts and brakes."""
    early, late = np.minimum(time, accelerating), np.maximum(time - (1 - accelerating), 0)
    coast = np.clip(time - accelerating, 0, None)
    return np.asarray(((early**2 - late**2) / (2 * accelerating) + coast) / (1 - accelerating), np.float64)


def fitted(ways: Sequence[Way]) -> list[Ends]:
    """Starts and ends of the seeks of one film."""
    if not ways:
        return []
    shapes = _shapes(ways)
    ends = [
        _fit(way, shape)[0] if way.seen else Ends(way.start, way.end, NEAR_FRAMES, found=False)
        for way, shape in zip(ways, shapes, strict=True)
    ]
    others = [way.whole and way.seen for way in ways]
    if sum(others) <= LEAST_OTHERS:
        return ends
    lengths = np.array([way.length for way in ways])
    off = np.where(others, [one.doubt for one in ends], np.inf)
    _doubt_odd(ends, others, lengths, off)
    doubtful = [number for number, way in enumerate(ways) if way.whole and ends[number].in_doubt]
    off = np.where(others, [one.doubt for one in ends], np.inf)
    for _ in range(ROUNDS if doubtful else 0):
        times = np.array([one.time for one in ends])
        for number in doubtful:
            takes = _time_of(number, lengths, times, off)
            ends[number] = _fit_held(ways[number], shapes[number], takes, ends[number].doubt)
    return ends


def _doubt_odd(ends: list[Ends], others: list[bool], lengths: F64, off: F64) -> None:
    """Doubts the ends of seeks whose time is not what all others of the film say: by more than a frame, and
    by far more than is usual for this arm."""
    times = np.array([one.time for one in ends])
    known = [number for number, one in enumerate(ends) if others[number]]
    odd = np.array([abs(times[number] - _time_of(number, lengths, times, off)) for number in known])
    for number, by in zip(known, odd, strict=True):
        if by > max(NEAR_FRAMES, ODD * np.median(odd)) and not ends[number].in_doubt:
            ends[number] = replace(ends[number], doubt=float(by))


def _shapes(ways: Sequence[Way]) -> list[float]:
    """The share of its time for which each accelerates.

    An arm accelerates up to its top speed: the longer the way, the longer it coasts. A short way alone shows
    its shape badly, and a wrong shape misplaces the ends.
    """
    seen = sorted((way for way in ways if way.seen), key=lambda way: way.length)
    if not seen:
        return [MOST_ACCELERATING] * len(ways)
    lengths = np.array([way.length for way in seen])
    alone = np.array([_fit(way, None)[1] for way in seen])
    weights = np.array([len(way.frames) for way in seen]) * lengths**2
    shared = isotonic_regression(alone, weights=weights, increasing=False).x
    return [float(np.interp(way.length, lengths, shared)) for way in ways]


def _fit(way: Way, shape: float | None) -> tuple[Ends, float]:
    """The ends of least error, in that shape or in the best; and the shape.

    One frame that is far off, as at a key frame of the film, counts little.
    """

    def wrong(guess: F64) -> F64:
        start, time = guess[:2]
        accelerating = guess[2] if shape is None else shape
        return way_done(np.clip((way.frames - start) / time, 0, 1), accelerating) - way.done

    guess = [way.start, way.rough, 0.4]
    low, high = [-np.inf, LEAST_ROUGH * way.rough, LEAST_ACCELERATING], [np.inf, np.inf, MOST_ACCELERATING]
    free = 3 if shape is None else 2
    fit = least_squares(
        wrong,
        guess[:free],
        bounds=(low[:free], high[:free]),
        loss="soft_l1",
        f_scale=FAR_OFF / way.length,
    )
    start, time = float(fit.x[0]), float(fit.x[1])
    doubt = max(ENDS_OFF * float(np.sqrt(np.mean(fit.fun**2))) * time, LEAST_OFF)
    found = time > (1 + AT_LIMIT) * LEAST_ROUGH * way.rough
    if not found:  # it lies between the frames around it
        doubt = max(doubt, NEAR_FRAMES)
    return Ends(start, start + time, doubt, found), float(fit.x[2]) if shape is None else shape


def _time_of(number: int, lengths: F64, times: F64, off: F64) -> float:
    """What a seek should take after all others: a line over the root of the way through those of about its
    length, in which the doubtful count less; times do not fall with the way."""
    roots = np.sqrt(lengths)
    others = np.arange(len(lengths)) != number
    weights = np.where(others, np.exp(-0.5 * ((roots - roots[number]) / ALIKE_ROOTS) ** 2) / off**2, 0.0)
    far = np.ones(len(lengths))
    expected = times
    for _ in range(5):
        now = weights / far
        total = now.sum()
        root, time = (now @ roots) / total, (now @ times) / total
        spread = now @ (roots - root) ** 2
        slope = max((now @ ((roots - root) * (times - time))) / spread, 0.0) if spread > 0 else 0.0
        slope = min(slope, time / root)
        expected = time + slope * (roots - root)
        far = np.maximum(1, np.abs(times - expected) / off)
    return float(expected[number])


def _fit_held(way: Way, shape: float, takes: float, doubt: float) -> Ends:
    """The ends of a movement that is seen late, where the arm takes about so long.

    What is seen lies behind the arm, and rests until the arm is ahead by the lag: what the film shows is a
    middle part of a longer way.
    """
    scale = FAR_OFF / way.length
    lag = LAG / way.length
    scatter = max(TIME_SCATTER * takes, 0.1)

    def wrong(guess: F64) -> F64:
        start, time, before, after = guess
        done = way_done(np.clip((way.frames - start) / time, 0, 1), shape)
        seen = np.clip((1 + before + after) * done - before, 0, 1) - way.done
        odd = np.array([before / lag, after / lag, (time - takes) / scatter])
        return np.concatenate([seen, scale * odd])

    low, high = [-np.inf, LEAST_ROUGH * way.rough, 0, 0], [np.inf, np.inf, 0.4, 0.4]
    guess = [way.start, way.rough, 0.01, 0.01]
    fit = least_squares(wrong, guess, bounds=(low, high), loss="soft_l1", f_scale=scale)
    start, time = float(fit.x[0]), float(fit.x[1])
    return Ends(start, start + time, doubt)
