"""How long half-written bands take, where the idle time before cleaning is not known exactly.

Each pause is an idle time and some work; where the idle time is longer than thought, all pauses hold as much
less work. Of many short pauses that is a large part, of one long pause it is a small one, and both clean
bands of the same kind. So what the two say of a band shows how far off the idle time is. It is the same at
all places; what a band takes differs from place to place.

An idle time from a first band that went home has such an error: that band is not the mean of all, and the
unit of work in which it went home may have begun within the pause or behind it.

Invariant: an idle time that is known is not changed, whatever the counts say.
Source: Bayes's rule, with a normal prior for the idle time and normal errors of the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64
from skylight.probe.cleaning.half_written_band import Span

EDGE_ERROR = 0.3
"""Of a band: how far the one in progress at the edge of a span is not known. It ended within a pause, of
about as much work as a band: uniform, so 0.29."""
REACH, PER_DEVIATION = 4, 20
"""Standard deviations of the idle time up to which its errors are tried, and errors to each. Chosen: a
normal error is beyond four in one of 16,000, and a twentieth is much finer than what counts determine."""


@dataclass(frozen=True, slots=True)
class HalfTime:
    """What a half-written band takes on average over the places, s, and how far an unknown idle time may put
    that off, as a standard deviation, s."""

    band_s: float
    apart_s: float


def fit(places: list[list[Span]], idle_apart_s: float) -> HalfTime:
    """The time for a band, for an idle time known to `idle_apart_s`; each place has one span or two."""
    tried = np.arange(-REACH * PER_DEVIATION, REACH * PER_DEVIATION + 1) / PER_DEVIATION
    errors_s = tried * idle_apart_s
    squares, band_s = tried**2, np.zeros_like(tried)
    for spans in places:
        here_s, misfit = _place(spans, errors_s)
        squares, band_s = squares + misfit, band_s + here_s / len(places)
    weights = np.exp(-(squares - squares.min()) / 2)
    weights /= weights.sum()
    possible = weights > 0
    mean_s = float(weights[possible] @ band_s[possible])
    apart_s = float(np.sqrt(weights[possible] @ (band_s[possible] - mean_s) ** 2))
    return HalfTime(mean_s, apart_s)


def _place(spans: list[Span], errors_s: F64) -> tuple[F64, F64]:
    """For each error of the idle time the time for a band at a place, s, and by how many squared deviations
    the counts miss it; infinite where no work would be left.

    The end of one span is the beginning of the next, so that their counts err against each other; not so of
    one that begins with a band, of which only the end is unknown."""
    work_s = np.array([span.work_s - span.pauses * errors_s for span in spans]).T
    bands = np.array([span.bands for span in spans])
    count, anew = len(spans), np.array([span.anew for span in spans])
    edges = 2 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)
    edges[anew[:, None] | anew[None, :]] = 0.0
    edges[anew, anew] = 1.0
    inverse = np.linalg.inv(EDGE_ERROR**2 * edges)
    possible = np.all(work_s > 0, axis=1)
    work_s = np.where(possible[:, None], work_s, 1.0)
    rate = (work_s @ inverse @ bands) / np.einsum("ij,jk,ik->i", work_s, inverse, work_s)
    missed = work_s * rate[:, None] - bands
    misfit = np.einsum("ij,jk,ik->i", missed, inverse, missed)
    return np.where(possible, 1 / rate, np.inf), np.where(possible, misfit, np.inf)
