"""The arm's step to the next track, or a head switch: which it is where tracks lie in bands of a few each.

A run of few tracks does not show how a disk walks its tracks, and how far one band lies from another is not
known. But a pair of tracks is one of three: on one surface, where the arm alone moves; in one cylinder, where
only the head is switched; or neither, where both happen at once and the longer counts. So from few cylinders
apart on there are two levels of time at most, the arm's and the switch's, and which is which shows by the
pairs from band to band: hardly any of them lie in one cylinder, but of those on one surface there are as many
as heads let expect.

Invariant: pure; None where the times do not tell, never a guess.

Sources: as of `skylight.infer.adjacent_tracks`, whose ways of walking these are.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64
from skylight.infer.adjacent_tracks import (
    ALIKE,
    CAP,
    FAR_APART,
    FEWEST_PAIRS,
    LEAST_NOISE,
    MOST_HEADS,
    MOST_OFF,
    Ints,
    Mask,
    NextTrack,
    chosen_pairs,
)
from skylight.infer.robust import NORMAL_MEDIAN

BANDS = "bands of few tracks"
FEWEST_FAR = 40
"""Pairs from band to band. Chosen: of tracks on 20 heads a twentieth of the pairs are of one surface, so that
none of 40 is has a chance of one in eight, and of ten heads one in 70."""
FEWEST_SOONER = 3
"""Pairs from band to band that take the shorter time. Chosen: each of the two tracks that all others are
measured from may have one other in its cylinder on a stroke that comes back, so two say nothing."""
LEAST_GAP = 0.09  # between the two times, relative: where they are nearer, it hardly matters which is which
FEWEST_STEPS = 2  # among tracks in a row, on one surface
FEWEST_ALIKE = 3  # pairs from band to band that begin where the longer time of tracks in a row lies
MOST_STEPS = 0.35
"""The part of the tracks in a row that have the shorter time. Chosen: on cylinders of three heads or more,
there and back, a third lie on one surface, and of those in one direction two thirds in one cylinder."""


def next_in_bands(one: Ints, other: Ints, time_ns: F64, is_next: Mask) -> NextTrack | None:
    """From arm times (ns) between pairs of which some follow each other in a band (`is_next`) and the others
    lie in bands whose distance is not known."""
    if np.count_nonzero(is_next) < FEWEST_PAIRS // 2 or np.count_nonzero(~is_next) < FEWEST_FAR:
        return None
    pairs = _Pairs(one, other, time_ns, is_next)
    return pairs.alike() or pairs.arm_sooner() or pairs.arm_later()


class _Pairs:
    """The pairs with their times, and the two levels of time among them."""

    def __init__(self, one: Ints, other: Ints, time_ns: F64, is_next: Mask) -> None:
        self._one, self._other, self._time_ns, self._is_next = one, other, time_ns, is_next
        in_row = np.sort(time_ns[is_next])
        # Where tracks in a row have two levels, the widest gap between their times parts them.
        gap = int(np.argmax(np.diff(in_row)))
        self._low_ns, self._high_ns = float(np.median(in_row)), float(np.median(in_row))
        if in_row[gap] > 0 and in_row[gap + 1] > (1 + LEAST_GAP) * in_row[gap]:
            self._low_ns, self._high_ns = (
                float(np.median(in_row[: gap + 1])),
                float(np.median(in_row[gap + 1 :])),
            )
        self._noise = self._scatter()

    def _scatter(self) -> float:
        """Of tracks in a row about their own level, relative."""
        in_row = self._time_ns[self._is_next]
        level = np.where(self._is_high(in_row), self._high_ns, self._low_ns)
        return max(LEAST_NOISE, float(np.median(np.abs(in_row / level - 1))) / NORMAL_MEDIAN)

    def _is_high(self, time_ns: F64) -> Mask:
        return np.asarray(time_ns > np.sqrt(self._low_ns * self._high_ns), bool)

    def _found(self, ns: float, open_ns: float, at: Mask, switch_ns: float | None) -> NextTrack | None:
        pairs = chosen_pairs(self._one, self._other, at)
        return NextTrack(ns, open_ns, pairs, switch_ns, None, BANDS) if pairs else None

    def alike(self) -> NextTrack | None:
        """Where tracks that follow each other and those that do not are as far apart in time, arm and switch
        of heads are as long, whichever of them it was: else some of the many pairs would show the shorter
        alone, or most of them the longer."""
        next_ns = float(np.median(self._time_ns[self._is_next]))
        spread = float(np.median(np.abs(self._time_ns[self._is_next] - next_ns))) / NORMAL_MEDIAN
        noise_ns = max(LEAST_NOISE * next_ns, spread)
        reach_ns = np.sqrt(CAP) * noise_ns
        later = self._time_ns > (1 + FAR_APART) * next_ns + reach_ns
        open_ns = max(0.0, float(np.median(self._time_ns[~self._is_next])) - next_ns)
        sooner = self._time_ns < next_ns - reach_ns
        if next_ns <= 0 or sooner.any() or np.count_nonzero(later) > MOST_OFF * len(later):
            return None
        if noise_ns > 2 * LEAST_NOISE * next_ns or open_ns > FAR_APART * next_ns:
            return None
        at = self._is_next & (np.abs(self._time_ns - next_ns) < reach_ns)
        return self._found(next_ns, open_ns / 2, at, None)

    def arm_sooner(self) -> NextTrack | None:
        """The arm's time as the shorter: the pairs of one surface have it, of whatever bands they are, and
        those of one cylinder the longer, as have nearly all others.

        Were the shorter the switch's, it would be seen among tracks in a row, most of which would share a
        cylinder, or on long strokes hardly anywhere."""
        in_row, high_ns = self._is_next, self._high_ns
        sooner = self._time_ns < high_ns / (1 + FAR_APART) * (1 - self._noise)
        if self._noise > 2 * LEAST_NOISE or np.count_nonzero(sooner & ~in_row) < FEWEST_SOONER:
            return None
        # How far the arm goes from band to band is not known: its shortest way is that of tracks in a row.
        step = sooner & in_row
        if not FEWEST_STEPS <= np.count_nonzero(step) <= MOST_STEPS * np.count_nonzero(in_row):
            return None
        if (self._time_ns[sooner] < self._low_ns * (1 - np.sqrt(CAP) * self._noise)).any():
            return None
        return self._found(float(np.median(self._time_ns[step])), 0.0, step, high_ns)

    def arm_later(self) -> NextTrack | None:
        """The arm's time as the longer: tracks in a row that share a cylinder have the shorter, and pairs
        from band to band begin where the longer one lies, for none of those shares a cylinder, unless the
        bands are so near that one may.

        Were the shorter the arm's, some of those would lie on one surface and near, with times between."""
        in_row = self._is_next
        far_ns = self._time_ns[~in_row & (np.abs(self._one - self._other) > MOST_HEADS)]
        high = in_row & self._is_high(self._time_ns)
        if np.count_nonzero(high) < FEWEST_STEPS or len(far_ns) < FEWEST_ALIKE:
            return None
        high_ns = self._high_ns
        if self._noise > 2 * LEAST_NOISE or high_ns <= (1 + LEAST_GAP) * self._low_ns:
            return None
        if np.count_nonzero(in_row & ~high) < MOST_STEPS * np.count_nonzero(in_row):
            return None
        off = np.sqrt(CAP) * self._noise
        if (far_ns < high_ns * (1 - off)).any():
            return None
        begin_ns = float(np.sort(far_ns)[FEWEST_ALIKE - 1])
        if begin_ns > high_ns * (1 + ALIKE):
            return None
        return self._found(high_ns, 0.0, high, self._low_ns)
