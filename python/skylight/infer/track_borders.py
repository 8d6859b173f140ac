"""How many bytes a track holds, from where tracks end.

Angles within a track show its size by their slope, and by a clock as coarse as a millisecond each of them is
off by a good part of a revolution. Where a track ends the angle jumps by the skew, and that is seen between
two reads that lie next to each other. Tracks of one size end at even distances: over the run of tracks that
was read a border is known to a read or two, and so the size to that over the number of tracks.

Invariants: borders count only where they follow one another at the distance that angles give, so a border
that is not seen, a band that ends or a track of another size ends a run. A pure function.

Source: linear regression; borders are the cuts of `skylight.infer.track_phases`.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from skylight.evidence import F64

FEWEST_BORDERS = 5
"""Chosen: of the two that a line takes away three are left to show how far borders scatter about it."""
NEAR = 0.08  # of a track, that two borders may be off: beyond it a piece is no track


def track_by_borders(begin: F64, end: F64, track_bytes: float) -> tuple[float, float] | None:
    """Bytes of a track and their standard error, from the addresses at which pieces begin and end that are
    tracks of about `track_bytes`; None where no run of them is long enough.

    Borders of three dozen drives with a clock of 1 ms scattered by 0.001 to 0.02 of a track; they are never
    taken to be better known than to half the distance of the two reads that they lie between."""
    border, between = (end[:-1] + begin[1:]) / 2, begin[1:] - end[:-1]
    is_next = np.abs(np.diff(border) / track_bytes - 1.0) <= NEAR
    runs = np.split(np.arange(len(border)), np.flatnonzero(~is_next) + 1)
    longest = max(runs, key=len)
    if len(longest) < FEWEST_BORDERS:
        return None
    number = np.arange(len(longest), dtype=np.float64)
    number -= number.mean()
    weight = float((number**2).sum())
    at = border[longest] - border[longest].mean()
    size = float((number * at).sum()) / weight
    scatter = sqrt(float(((at - size * number) ** 2).sum()) / (len(longest) - 2))
    return size, max(scatter, float(np.median(between[longest])) / 2) / sqrt(weight)
