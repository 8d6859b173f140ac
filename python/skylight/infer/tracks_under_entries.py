"""The tracks under entries of a log: how many bytes are on each, and what a switch between them takes.

Blocks of an entry that is written in one go are read back at known distances from its beginning. The angle at
which a block passes grows by a revolution a track, and by a switch at each end of one. All blocks of all
entries together say how long the tracks are; where they end each entry says for itself.

Invariant: a pure function of angles. Blocks at angles of their own, outliers, weigh no more than others.
Source: as for `skylight.infer.track_phases`; the mean phase vector is the likelihood of a von Mises
distribution (Mardia and Jupp, "Directional Statistics", 2000, section 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64
from skylight.infer.track_phases import centred, phasors

LENGTHS, ENDS = 160, 24
SWITCH_STEPS = tuple(np.arange(0.04, 0.68, 0.04).round(2))
REFINED, FINE_ENDS = 3, 96
OUTLIER = 0.25  # of a revolution: an angle that is off by more met something
LEAST_AGREEMENT = 0.75
"""Chosen: angles off by a ninth of a revolution agree so far, and more hide the switches."""
FEWEST = 48


@dataclass(frozen=True, slots=True)
class Tracks:
    """Bytes on a track, give or take a standard error, and a switch in revolutions."""

    bytes: float
    error_bytes: float
    switch: float


def _agreements(kept: NDArray[np.complex128], place: F64, length: F64, switches: F64) -> F64:
    """How far the angles agree: for each switch, each length, and each end of the first track (a part of
    one).

    Blocks of one track turn together whatever a switch takes. So their sum is found once for each track, as a
    difference of running sums over the blocks in order, and only the sums are turned for each switch."""
    order = np.argsort(place, kind="stable")
    tracks_in = place[order] / length[:, None]
    running = np.zeros((len(length), len(place) + 1), np.complex128)
    np.cumsum(kept[order] * phasors(-tracks_in), axis=1, out=running[:, 1:])
    begun = np.arange(ENDS) / ENDS
    count = np.arange(int(np.floor(tracks_in.max() + begun[-1])) + 2)
    # How many blocks lie before each track, for each end of the first; none before that, all before the last.
    before = np.array([np.searchsorted(each, count - begun[:, None]) for each in tracks_in])
    lengths = np.arange(len(length))[:, None, None]
    sums = np.diff(running[lengths, before], axis=2)
    turned = phasors(-switches[:, None] * count[:-1])
    return np.asarray(np.abs(np.moveaxis(sums @ turned.T, 2, 0)) / len(place))


def tracks(entries: Sequence[tuple[F64, F64]], shortest: float, longest: float) -> Tracks | None:
    """The tracks under entries: of each the places of blocks in it, bytes, and the angles at which they pass.
    None where tracks are longer or shorter, the angles do not agree on any, or no entry has a switch."""
    total = sum(len(place) for place, _ in entries)
    if total < FEWEST:
        return None
    length, switches = np.linspace(shortest, longest, LENGTHS), np.array(SWITCH_STEPS)
    fits = np.zeros((len(switches), LENGTHS))
    for place, turns in entries:
        agreements = _agreements(phasors(turns), place, length, switches)
        fits += agreements.max(axis=2) * len(place) / total
    at = np.unravel_index(int(np.argmax(fits)), fits.shape)
    found = Tracks(float(length[at[1]]), longest - shortest, float(switches[at[0]]))
    agreement = 0.0
    for _ in range(REFINED):
        agreement, found = _straight(entries, found)
    within = shortest <= found.bytes <= longest and found.switch > 0
    return found if within and agreement >= LEAST_AGREEMENT else None


def _straight(entries: Sequence[tuple[F64, F64]], about: Tracks) -> tuple[float, Tracks]:
    """How far the angles agree with the tracks that fit them best, near the ones given, each entry beginning
    at an angle of its own and with a part of a track of its own."""
    offs, rows = [], []
    for number, (place, turns) in enumerate(entries):
        passed = place / about.bytes
        ends = np.floor(passed[None, :] + (np.arange(FINE_ENDS) / FINE_ENDS)[:, None])
        off = turns - passed - about.switch * ends
        middle = phasors(off).mean(axis=1)
        best = int(np.argmax(np.abs(middle)))
        offs.append(centred(off[best] - float(np.angle(middle[best])) / (2 * np.pi)))
        own = np.zeros((len(place), len(entries)))
        own[:, number] = 1.0
        rows.append(np.column_stack([own, passed, ends[best]]))
    off, every = np.concatenate(offs), np.concatenate(rows)
    near = np.abs(off) < OUTLIER
    columns = every[near]
    more, _, rank, _ = np.linalg.lstsq(columns, off[near], rcond=None)
    if rank < columns.shape[1] or 1 + more[-2] <= 0:
        return 0.0, about
    left = off - every @ more
    scatter = np.square(left[near]).sum() / max(len(columns) - columns.shape[1], 1)
    error = float(np.sqrt(scatter * np.linalg.inv(columns.T @ columns)[-2, -2]))
    length = about.bytes / (1 + float(more[-2]))
    found = Tracks(length, length * error, about.switch + float(more[-1]))
    return float(np.abs(np.mean(phasors(left)))), found
