"""Aligning a film with I/O evidence: which command caused each seek.

Film and evidence have clocks of their own, which do not start together. A command that moves the arm moves it
first and transfers then: its seek begins when the drive begins its service, and ends before it completes. So
the starts of seeks are cross-correlated with the moments at which a service begins, that is when the command
was submitted or the one before it completed, whichever is later. The lag at which most seeks begin with a
command and end within it is the film's.

Invariants: a lag that another does nearly as well as is none, so a periodic movement in a longer recording of
the same period is not aligned; a seek that no command contains has no I/O, as those of cleaning do.

Source: the two observations of Skylight (FAST '15), section 3: the film and the latencies of one run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import IoLog

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# A seek's ends are right to one frame each; the second frame is for the rounding of the lag.
TOLERANCE_FRAMES = 2.0
# Between the beginning of a service and that of its seek: the overheads of host and command.
OVERHEAD_S = 0.5e-3
# Lags that are looked at closely: the highest of the cross-correlation. Chosen: the best and its neighbours
# take three, and the runner-up is among the others.
CANDIDATES = 64
# Bins of the cross-correlation at most, which take 1 GB: 9 hours at 480 frames/s.
MOST_BINS = 1 << 23
# One lag is right if at least this share of the seeks fits: all but the drive's own, and of dense commands
# half may fit by chance. And if this many more fit than at any other lag, since every further one is a
# coincidence within two frames; also by as many standard deviations of what fits by chance, since the best
# two of 100,000 lags that fit by chance are a fifth of one apart, and so far one time in 1,000.
LEAST_SHARE, LEAST_MORE, LEAST_SIGMAS = 0.67, 3, 1.5
LEAST_SEEKS = 4


@dataclass(frozen=True)
class Alignment:
    """Where a film lies on the clock of a recording, and the command that each seek belongs to."""

    frame_0_s: float | None
    """Time of the first frame on the recording's clock, s; None if it cannot be determined."""
    why: str
    rows: tuple[int | None, ...]
    """For each seek the row of its command in the log."""


@dataclass(frozen=True)
class _Service:
    """When the drive serves each command of a log, s; sorted by completion."""

    row: I64
    begin_s: F64
    end_s: F64


def _service(log: IoLog) -> _Service:
    row = np.argsort(log.complete_ns, kind="stable").astype(np.int64)
    end_s = log.complete_ns[row].astype(np.float64) / 1e9
    before_s = np.concatenate([[-np.inf], end_s[:-1]])
    return _Service(row, np.maximum(log.submit_ns[row].astype(np.float64) / 1e9, before_s), end_s)


def align(start_s: F64, end_s: F64, frame_s: float, log: IoLog) -> Alignment:
    """Aligns seeks (s since the first frame) with commands; `frame_s` is the time between two frames."""
    unaligned = (None,) * len(start_s)
    if len(start_s) < LEAST_SEEKS:
        return Alignment(
            None, f"{len(start_s)} seeks are too few to align with I/O: {LEAST_SEEKS} or more", unaligned
        )
    service, slack_s = _service(log), TOLERANCE_FRAMES * frame_s
    lags_s = _candidates(start_s, end_s, slack_s, service)
    if lags_s is None:
        return Alignment(None, "the recording is too long for the film's rate: cut it into parts", unaligned)
    ranked = sorted(
        (_refined(float(lag_s), start_s, end_s, slack_s, service) for lag_s in lags_s), reverse=True
    )
    best, lag_s = ranked[0] if ranked else (0, 0.0)
    second = max((count for count, other_s in ranked if abs(other_s - lag_s) > 2 * slack_s), default=0)
    seen = f"{best} of {len(start_s)} seeks begin with a command and end within it"
    if best < LEAST_SHARE * len(start_s):
        return Alignment(None, f"the film shows no part of the recording: at most {seen}", unaligned)
    chance = second / len(start_s)
    if best - second < max(LEAST_MORE, LEAST_SIGMAS * (len(start_s) * chance * (1 - chance)) ** 0.5):
        return Alignment(None, f"the lag is ambiguous: {seen}, and {second} do at another lag", unaligned)
    rows = _rows(start_s + lag_s, end_s + lag_s, slack_s, service)
    return Alignment(lag_s, f"{seen}; at the next best lag, {second}", rows)


def _candidates(start_s: F64, end_s: F64, slack_s: float, service: _Service) -> F64 | None:
    """Lags at which many seeks begin with a command that is long enough for a seek, s."""
    least_s = float((end_s - start_s).min()) - slack_s
    begin_s = service.begin_s[service.end_s - service.begin_s >= least_s]
    if len(begin_s) == 0:
        return np.empty(0)
    origin_s = float(begin_s[0])
    commands = ((begin_s - origin_s) / slack_s).astype(np.int64)
    seeks = ((start_s - start_s[0]) / slack_s).astype(np.int64)
    size = int(commands[-1] + seeks[-1]) + 2
    if size > MOST_BINS:
        return None
    from scipy import fft

    length = fft.next_fast_len(size, real=True)
    # A bin holds a beginning or the bin after it does; that it holds many is no better.
    begins, moves, span = (np.zeros(length) for _ in range(3))
    begins[np.concatenate([commands, np.maximum(commands - 1, 0)])] = 1.0
    moves[seeks] = 1.0
    span[: seeks[-1] + 1] = moves.sum() / (seeks[-1] + 1)
    filled, *spectra = (fft.rfft(each) for each in (begins, moves, span))
    alike, by_chance = (fft.irfft(filled * np.conj(each), length) for each in spectra)
    # Where commands are dense, many begin with a seek by chance.
    unlike_chance = (alike - by_chance) / np.sqrt(np.maximum(by_chance, 1.0))
    best = np.argsort(-unlike_chance, kind="stable")[:CANDIDATES]
    shift = np.where(best >= length - seeks[-1] - 1, best - length, best)
    return np.asarray(origin_s + (shift + 0.5) * slack_s - start_s[0], np.float64)


def _fitting(start_s: F64, end_s: F64, slack_s: float, service: _Service) -> tuple[NDArray[np.bool_], F64]:
    """Whether each seek begins with a command and ends within it; how much later than the command."""
    nearest = np.searchsorted(service.begin_s, start_s + slack_s, "right") - 1
    at = np.maximum(nearest, 0)
    late_s = start_s - service.begin_s[at]
    fits = (nearest >= 0) & (late_s <= OVERHEAD_S + slack_s) & (end_s <= service.end_s[at] + slack_s)
    return fits, late_s


def _refined(lag_s: float, start_s: F64, end_s: F64, slack_s: float, service: _Service) -> tuple[int, float]:
    """The seeks that fit at a lag, and the lag at which they fit best: a coarse pass and a fine one."""
    for wide in (2.0, 1.0):
        fits, late_s = _fitting(start_s + lag_s, end_s + lag_s, wide * slack_s, service)
        if fits.any():
            lag_s -= float(np.median(late_s[fits]))
    fits, _ = _fitting(start_s + lag_s, end_s + lag_s, slack_s, service)
    return int(fits.sum()), lag_s


def _rows(start_s: F64, end_s: F64, slack_s: float, service: _Service) -> tuple[int | None, ...]:
    """The command during which each seek happened, also one that moves the arm several times."""
    at = np.searchsorted(service.end_s, (start_s + end_s) / 2)
    inside = np.minimum(at, len(service.end_s) - 1)
    within = (at < len(service.end_s)) & (service.begin_s[inside] <= start_s + slack_s)
    within &= end_s <= service.end_s[inside] + slack_s
    return tuple(int(service.row[row]) if one else None for row, one in zip(inside, within, strict=True))
