"""Do addresses go to several disks in turn? The angles of blocks show it.

Within a stripe the angle rises as on the disk that holds it; over many stripes it rises more slowly, by the
number of disks, since each disk has one stripe of several. So what is left of the angles when tracks have
been fitted is a sawtooth over the address modulo the stripe, with the slope that the tracks lack. On one disk
nothing follows the address modulo a power of two. Where phases are so exact that the fit cuts them at every
other stripe, its pieces are far shorter than the tracks that they are said to be.

Invariant: a stripe is found only with a slope of at least half of what two disks have, and far beyond the
scatter; or where half of many pieces are no quarter of a track, and as long as stripes are.

Source: the layout of RAID-0 after Patterson, Gibson and Katz, "A case for redundant arrays of inexpensive
disks" (SIGMOD '88); linear regression on the sawtooth.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64
from skylight.infer.track_phases import OUTLIER_TURNS, Tracks, centred

STRIPES = tuple(part << power for power in range(12, 20) for part in (2, 3))  # 8 KiB to 1.5 MiB
LEAST_SLOPE = 0.5  # of the slope that stripes of two disks leave
FEWEST_PIECES = 8
SHORT_TURNS = 0.25  # whole tracks reach over a revolution; parts of some may end at bands or reach less
NEAR_STRIPE = 0.06  # of a stripe; noise cuts a fit into pieces too, of any length
MOST_STRIPES = 2.0
LEAST_ERRORS = 6.0  # standard errors: with 16 sizes tried, one in a hundred million by chance


def stripe_of(where: F64, phase: F64, tracks: Tracks) -> int | None:
    """The size of the stripes, roughly, under blocks at these addresses that completed at these phases
    (revolutions); None where there are none."""
    if len(tracks.begin) >= FEWEST_PIECES and float(np.median(tracks.turns())) < SHORT_TURNS:
        piece = float(np.median(np.diff(tracks.begin)))
        nearest = min(STRIPES, key=lambda stripe: abs(piece / stripe - 1))
        if abs(piece / nearest - 1) <= NEAR_STRIPE and _is_in_pieces_of(nearest, tracks):
            return nearest
    off = centred(phase - tracks.phase(where))
    kept = np.isfinite(off) & (np.abs(off) < OUTLIER_TURNS)
    where, off = where[kept], off[kept]
    best, found = LEAST_ERRORS, None
    for stripe in STRIPES:
        tooth = np.mod(where, stripe) / stripe
        tooth = tooth - tooth.mean() if len(tooth) else tooth
        weight = float((tooth**2).sum())
        if weight <= 0:
            continue
        rise = float((tooth * off).sum()) / weight
        error = float(np.std(off - rise * tooth)) / float(np.sqrt(weight))
        if rise >= LEAST_SLOPE * tracks.slope * stripe and rise > best * error:
            best, found = rise / max(error, 1e-12), stripe
    return found


def _is_in_pieces_of(stripe: int, tracks: Tracks) -> bool:
    """Whether most of all bytes lie in pieces no longer than a stripe, or two of which the second goes on at
    the angle of the first. What lies between whole tracks in pieces of any length was moved by the drive, and
    their median is as long as some stripe by chance."""
    length = tracks.end - tracks.begin
    return bool(length[length <= MOST_STRIPES * stripe].sum() > length.sum() / 2)
