"""How the journal of a cache on disk runs on: from lone writes on an erased drive, entry after entry.

All entries of lone writes are as long, so the end of entry `i` lies `i * length` behind that of the first, in
tracks. Each track begins a skew later than the one before, which is what the arm needs to get there; so the
phase of the end turns by

    i * length + skew * (starts of tracks that were crossed),

in revolutions. Two things are in the phases that way: the mean advance, which is `length * (1 + skew)` but
for whole revolutions, and a saw of the height of the skew, whose teeth are the crossings. Together they give
the length, the skew, and where on its track the first entry ends (`fitted`).

A block that is read back ends where the block ends, and its write ended where the quantum ends. The angle
between, less the crossings that are known by now, is the length of a quantum in tracks: so the track at the
cache is known from the cache itself (`quantum_tracks`). The track of an address of the host near it can be
some per cent another, where surfaces follow each other.

With all that, the time of the first out-of-band data allows certain lengths of it only
(`out_of_band_tracks`).

Invariant: pure functions of completions; every combination that fits about as well as the best is kept.
Source: Skylight (FAST '15), section 4.3.1: entries follow each other on the medium, quantum by quantum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64
from skylight.infer.track_phases import phasors

C128 = NDArray[np.complex128]

FREQUENCIES = 512
MEAN_TO = 0.012  # revolutions an entry: how near the mean advance has to be to what length and skew make
LENGTH_STEP, PLACES, SKEW_STEP = 0.4, 12, 0.02
CANDIDATES, APART = 4, 3
LIKELY = 25.0  # of a fit's misfit, a write: how much worse than the best still counts
LONGEST_GAP = 0.45  # of a track, between entries
PLACE_TO = 0.03  # of a track: how well the place of the first entry is known
LENGTH_TO = 0.02
TRACK_STEP = 0.004
TRACK_RANGE = (0.8, 1.25)  # how far the track at the cache may be another than at an address near it
ALIKE, UNLIKELY = 0.05, 1.5  # surfaces differ so much; what agreement a track is worth that differs more
MOST_GAP = 128 << 10  # bytes between entries: more than passes while a drive turns to its next command
FEWEST_WRITES = 40
EARLY, MEANS = 10, 97  # per cent; mean advances tried


@dataclass(frozen=True, slots=True)
class Advance:
    """One way the log may run: `agreement` of the phases with it (0 to 1), `length` of an entry and `end` of
    the first, in tracks, and `skew` in revolutions."""

    agreement: float
    length: float
    end: float
    skew: float


def _phases(done_ns: F64, rotation_ns: float) -> C128:
    return phasors((done_ns - done_ns[0]) / rotation_ns)


def _agreement(phases: C128, lengths: F64, ends: F64, skews: F64) -> F64:
    """Agreement by length, end and skew, with the mean advance that suits best."""
    count = np.arange(min(len(phases), FREQUENCIES))
    back = phasors(-np.outer(np.arange(FREQUENCIES), count) / FREQUENCIES)
    apart = skews[1] - skews[0] if len(skews) > 1 else 0.0
    found = np.zeros((len(lengths), len(ends), len(skews)))
    for number, length in enumerate(lengths):
        saw = np.mod(ends[:, None] + length * count, 1.0)
        straight = phases[: len(count)] * phasors(skews[0] * saw)
        on = phasors(apart * saw)  # from each skew to the next
        for column, mean in enumerate(length * (1 + skews)):
            low, high = (mean - MEAN_TO) * FREQUENCIES, (mean + MEAN_TO) * FREQUENCIES
            near = np.arange(int(np.floor(low)), int(np.ceil(high)) + 1) % FREQUENCIES
            found[number, :, column] = np.abs(straight @ back[near].T).max(axis=1) / len(phases)
            straight *= on
    return found


def fitted(
    done_ns: F64, rotation_ns: float, lengths: tuple[float, float], skews: tuple[float, float]
) -> list[Advance]:
    """All ways of running on that fit about as well as the best, between these lengths and skews."""
    count = len(done_ns)
    if count < FEWEST_WRITES or lengths[1] <= lengths[0]:
        return []
    phases = _phases(done_ns, rotation_ns)
    length = np.arange(lengths[0], lengths[1], LENGTH_STEP / count)
    end = (np.arange(PLACES) + 0.5) / PLACES
    skew = np.arange(skews[0], skews[1] + SKEW_STEP, SKEW_STEP)
    rough = _agreement(phases, length, end, skew)
    best: list[int] = []
    for index in np.argsort(-rough.max(axis=(1, 2))):
        if all(abs(int(index) - other) > APART for other in best):
            best.append(int(index))
        if len(best) == CANDIDATES:
            break
    found: list[Advance] = []
    for index in best:
        at, of = np.unravel_index(int(np.argmax(rough[index])), rough[index].shape)
        near = length[index] + np.linspace(-1.0, 1.0, 11) * LENGTH_STEP / count
        ends = np.mod(end[at] + np.linspace(-1.5, 1.5, 13) / PLACES, 1.0)
        around = skew[of] + np.linspace(-1.0, 1.0, 5) * SKEW_STEP
        fine = _agreement(phases, near, ends, around)
        found += [
            Advance(float(fine[a, b, c]), float(near[a]), float(ends[b]), float(around[c]))
            for a, b, c in np.argwhere(fine > fine.max() - 0.05)
        ]
    most = max(each.agreement for each in found)
    return [each for each in found if each.agreement >= most - LIKELY * (1 - most) / count]


def _early(residual: F64) -> F64:
    """Phase of the earliest of the angles (revolutions) along the last axis: nothing is done before its place
    has passed, and how much later depends on how long it took."""
    middle = np.angle(phasors(residual).mean(axis=-1)) / (2 * np.pi)
    late = np.mod(residual - middle[..., None] + 0.5, 1.0) - 0.5
    return np.asarray(middle + np.percentile(late, EARLY, axis=-1))


def quantum_tracks(
    done_ns: F64, read_ns: F64, rotation_ns: float, advance: Advance, about: float
) -> tuple[float, float]:
    """Length in tracks from the end of a block to the end of its quantum, near `about`: from the ends of
    writes, and of reads of what the first of them wrote. And how well reads agree with it (0 to 1), less
    what a track is unlikely that differs much from those near by."""
    lengths = np.arange(TRACK_RANGE[0] * about, TRACK_RANGE[1] * about, TRACK_STEP)
    count = np.arange(len(done_ns))
    end = np.mod(advance.end + advance.length * count, 1.0)
    straight = (done_ns - done_ns[0]) / rotation_ns + advance.skew * end
    means = advance.length * (1 + advance.skew) + np.linspace(-MEAN_TO, MEAN_TO, MEANS)
    turned = phasors(straight - means[:, None] * count)
    mean = means[int(np.argmax(np.abs(turned.mean(axis=1))))]
    written = _early(straight - mean * count)
    first = slice(0, len(read_ns))
    read = (read_ns - done_ns[0]) / rotation_ns + advance.skew * end[first] - mean * count[first]
    if len(lengths) == 0:
        return about, -1.0
    crossed = np.ceil(lengths[:, None] - end[first]).clip(0)  # starts of tracks between the two ends
    back = read + lengths[:, None] + advance.skew * crossed
    agreement = np.abs(phasors(back).mean(axis=1))
    scores = agreement * np.cos(2 * np.pi * (_early(back) - written))
    scores -= UNLIKELY * np.maximum(np.abs(np.log(lengths / about)) - ALIKE, 0.0)
    best = int(np.argmax(scores))
    return (float(lengths[best]), float(scores[best])) if scores[best] > -1.0 else (about, -1.0)


def out_of_band_tracks(
    times: tuple[float, float], quantum: float, advance: Advance
) -> tuple[float, float] | None:
    """The least and the most that the out-of-band data of an entry can be, in tracks, if it takes so many
    revolutions before the first entry; None if nothing fits."""
    tried = np.arange(0.0, times[1] + TRACK_STEP, TRACK_STEP)
    fits = np.zeros(len(tried), bool)
    for off in (-PLACE_TO, 0.0, PLACE_TO):
        start = np.mod(advance.end + off - quantum - tried, 1.0)
        takes = tried + np.floor(start + tried) * advance.skew
        fits |= (takes >= times[0]) & (takes <= times[1])
    fits &= tried <= advance.length - quantum + LENGTH_TO
    return (float(tried[fits].min()), float(tried[fits].max())) if fits.any() else None


def without_gap(
    times: tuple[float, float], here: float, advance: Advance, quantum: int
) -> tuple[float, float] | None:
    """The least and the most that the out-of-band data of an entry can be, in tracks, if it takes so many
    revolutions: what an entry is long, less its quantum and a gap of up to `MOST_GAP`. None if nothing
    fits."""
    longest = advance.length - here
    by_time = by_time_alone(times, (advance.skew, advance.skew))
    least, most = max(longest - MOST_GAP * here / quantum, by_time[0], 0.0), min(longest, by_time[1])
    return (least, most) if least <= most + LENGTH_TO else None


def by_time_alone(times: tuple[float, float], skews: tuple[float, float]) -> tuple[float, float]:
    """The same without knowing where the tracks begin: data of `n` tracks and a part crosses `n` starts or
    one more."""
    most = max(times[1] - skews[0] * np.floor(times[1] / (1 + skews[0])), 0.0)
    least = max((times[0] - skews[1]) / (1 + skews[1]), 0.0)
    found = [
        length
        for time in np.linspace(*times, 9)
        for skew in np.linspace(*skews, 5)
        for crossed in range(int(times[1]) + 2)
        if max(crossed - 1, 0) <= (length := time - crossed * skew) <= crossed + 1
    ]
    return (min(found), max(found)) if found else (float(least), float(most))
