"""How long an entry of a journal on disk is, from lone writes of one quantum and of several.

All entries of one size are as long, so the phase at which they end turns by

    A = (out-of-band data + quanta + gap) * (1 + skew)        (tracks, and revolutions a track)

from one to the next, but for whole revolutions, and for a saw of the height of the skew that a mean over many
entries takes away. The same with more quanta: what is added each time is the length of those alone, so that
one quantum's share of the revolution is known, `Q = quantum * (1 + skew)`, without a track, a skew or a time
that something takes. Entries of a quantum are then `(A + n) / Q` quanta long, and the whole number `n` of
revolutions is the one for which the out-of-band data lies where its time says.

A saw makes a second line beside the mean advance, for skews near half a revolution one as strong. So `A` and
`Q` are looked for together, as the two for which entries of all sizes turn in step: lines that do not belong
together do not, and those that do give the same length.

Invariant: pure functions of completions; every length that fits about as well as the best is kept.
Source: Skylight (FAST '15), section 4.3.1: entries follow each other on the medium, quantum by quantum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64
from skylight.infer.track_phases import phasors

Interval = tuple[float, float]

FEWEST_ENTRIES = 24
FREQUENCIES = 4096  # tried within a revolution
STRONG = 0.35  # of its strongest line, that an advance of lone blocks must have to be looked at
PLAIN = 0.45  # agreement of all phases with an advance and a quantum, on average
ALSO = 0.9  # of the best agreement: others so good are kept
PEAK = 2.0  # of one over the entries: how wide the peak of one advance is
SKEWS = 9  # tried
LENGTH_TO = 0.02  # of a quantum: how well a length is known
TRACK_TO = 0.1  # how far the track at the cache may be another than at an address near it


@dataclass(frozen=True, slots=True)
class Advances:
    """By what parts of a revolution entries of one quantum end later than the one before (0 to 1), and how
    many revolutions a quantum more makes; `agreement` is that of the phases (0 to 1)."""

    one: float
    quantum: float
    agreement: float


def _spectrum(done_ns: F64, rotation_ns: float) -> F64:
    """How well phases agree with each advance, on `FREQUENCIES` parts of a revolution."""
    phases = phasors((done_ns - done_ns[0]) / rotation_ns)
    return np.asarray(np.abs(np.fft.fft(phases, FREQUENCIES)) / len(done_ns), np.float64)


def advances(ends: Mapping[int, F64], rotation_ns: float, likely: Interval) -> list[Advances]:
    """From the ends of entries of so many quanta each (of 1 among them) with a quantum of `likely`
    revolutions: all that explain them about as well as the best, which comes first. Empty where nothing does.

    >>> entries = np.arange(60)
    >>> ends = {quanta: entries * (1.8 + 0.45 * quanta) * 1e7 for quanta in (1, 2, 4)}
    >>> best = advances(ends, 1e7, (0.3, 0.6))[0]
    >>> round(best.one, 2), round(best.quantum, 2)
    (0.25, 0.45)
    """
    if len(ends) < 2 or min(map(len, ends.values())) < FEWEST_ENTRIES or likely[1] <= likely[0]:
        return []
    lines = {quanta: _spectrum(done_ns, rotation_ns) for quanta, done_ns in ends.items()}
    one = np.flatnonzero(lines[1] >= STRONG * lines[1].max())
    quantum = np.arange(round(likely[0] * FREQUENCIES), round(likely[1] * FREQUENCIES) + 1)
    total = np.zeros((len(one), len(quantum)))
    for quanta, line in lines.items():
        total += line[(one[:, None] + (quanta - 1) * quantum[None, :]) % FREQUENCIES]
    total /= len(lines)
    wide = PEAK * FREQUENCIES / min(map(len, ends.values()))
    found: list[Advances] = []
    best = float(total.max())
    while best >= PLAIN and total.max() >= ALSO * best:
        at, of = np.unravel_index(int(np.argmax(total)), total.shape)
        found.append(
            Advances(float(one[at]) / FREQUENCIES, float(quantum[of]) / FREQUENCIES, float(total[at, of]))
        )
        off = np.abs(np.mod(one - one[at] + FREQUENCIES // 2, FREQUENCIES) - FREQUENCIES // 2)
        total[np.ix_(off <= wide, np.abs(quantum - quantum[of]) <= wide)] = 0.0
    return found


def wrapped(skews: Interval) -> list[Interval]:
    """Skews less whole revolutions, which phases do not distinguish: the ranges from minus a half to a half.

    >>> [tuple(map(float, part)) for part in wrapped((0.25, 0.625))]
    [(0.25, 0.5), (-0.5, -0.375)]
    """
    wholes = range(round(skews[0]), round(skews[1]) + 1)
    return [(max(skews[0] - whole, -0.5), min(skews[1] - whole, 0.5)) for whole in wholes]


def likely_turns(one: float, skews: Interval) -> Interval:
    """Between what revolutions a quantum of about `one` track may be."""
    return one * (1 + skews[0]) * (1 - TRACK_TO), one * (1 + skews[1]) * (1 + TRACK_TO)


@dataclass(frozen=True, slots=True)
class Fit:
    """One way in which the time of an entry, its whole revolutions and a skew go together: out-of-band data
    of `least` to `most` quanta, a quantum being so many `tracks`."""

    turns: int
    crossed: int
    skew: float
    tracks: float
    least: float
    most: float


def fits(
    found: Advances, one: float, times: Interval, skews: Interval, most_gap: float, *, of_entry: bool = False
) -> list[Fit]:
    """All ways, by whole revolutions and by starts of tracks, that the time of the
    out-of-band data allows (`times`, in revolutions). `one` is a quantum in tracks, about; an entry has
    up to `most_gap` quanta of nothing behind it. With `of_entry` times are of out-of-band data and quantum.

    Data of so many tracks crosses as many starts or one more, each a skew later."""
    ways = []
    for skew in np.linspace(*skews, SKEWS):
        whole = round(float(skew)) if abs(skew - round(float(skew))) <= 0.5 else 0
        tracks = found.quantum / (1 + float(skew) - whole)  # of a quantum
        if abs(tracks / one - 1) > TRACK_TO:
            continue
        for crossed in range(int(times[1]) + 2):
            least, most = (time - crossed * float(skew) for time in times)
            least, most = max(least, crossed - 1.0), min(most, crossed + 1.0)
            if of_entry:
                least, most = least - tracks, most - tracks
            least, most = max(least, 0.0) / tracks, most / tracks
            for n in range(int((2 + most + most_gap) * found.quantum) + 2):
                rest = (found.one + n) / found.quantum - 1
                low, high = max(least, rest - most_gap), min(most, rest)
                if low <= high + LENGTH_TO:
                    ways.append(Fit(n, crossed, float(skew), tracks, low, max(low, high)))
    return ways


def entries_of(ways: list[Fit]) -> list[tuple[float, float]]:
    """Out-of-band data and quantum of an entry, in quanta: the least and the most for each number of whole
    revolutions, and of starts of tracks."""
    long: dict[tuple[int, int], list[float]] = {}
    for way in ways:
        long.setdefault((way.turns, way.crossed), []).extend((1 + way.least, 1 + way.most))
    return [(min(each), max(each)) for each in long.values()]
