"""At which rate a clip was shot: a slow-motion clip plays slower than it was taken.

What tells, the surest first: the rate that is given; the period of an I/O pattern that is known; what a
phone writes into the file; the flicker of the lamps, which is twice the mains frequency, 100 or 120 Hz, by
the country that the playback rate belongs to (25 frames/s where the mains have 50 Hz, 29.97 where they have
60); the platter's rotation, of which a cycle of synchronous reads takes a whole number.

Invariant: the answer comes with its reason; without evidence there is no rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

# Rates that cameras have, frames/s.
USUAL_HZ: tuple[int, ...] = (
    *(25, 30, 50, 60, 100, 120, 200, 210, 240, 250, 300, 400, 420, 480, 500, 600, 960),
    *(1000, 1200, 1920, 2000, 2400, 4000, 5000, 7680, 10_000),
)
# The mains keep their frequency to 0.1 %, a clip of 300 frames shows a line to 0.2 %.
LAMP_TOLERANCE = 0.01
# A cycle of reads jitters by a frame, and a rotation is declared to 1.5 %.
ROTATION_TOLERANCE = 0.02
# A line stands out if it holds this many times the median power of the spectrum: in 5,000 bins of noise, 12
# is rare.
LINE_POWER = 40.0
# A lamp that flickers by less than this share is not seen to flicker.
LEAST_FLICKER = 0.001
LEAST_FRAMES = 48
MOST_REVOLUTIONS = 12


@dataclass(frozen=True)
class Rate:
    """Frames/s when the clip was shot, or None, and the reason in a sentence."""

    capture_hz: float | None
    why: str


def lamp_line(lamp: F64) -> float | None:
    """Frequency of the lamps' flicker, cycles a frame."""
    if len(lamp) < LEAST_FRAMES:
        return None
    steady = lamp - lamp.mean()
    size = 1 << int(np.ceil(np.log2(16 * len(lamp))))
    power = np.abs(np.fft.rfft(steady * np.hanning(len(lamp)), size)) ** 2
    first = int(size * 0.02)  # slower than 50 frames a cycle is drift, or the head's own light
    best = first + int(power[first:].argmax())
    amplitude = 4 * np.sqrt(power[best]) / len(lamp)
    if power[best] < LINE_POWER * float(np.median(power[first:])) or amplitude < LEAST_FLICKER:
        return None
    around = np.arange(max(1, best - 1), min(len(power) - 1, best + 2))
    if len(around) == 3:
        low, mid, high = np.sqrt(power[around])
        best = best + 0.5 * (low - high) / (low - 2 * mid + high)
    return best / size


def _usual(rate_hz: float, tolerance: float) -> int | None:
    """The camera rate nearest to a rate, if near enough."""
    nearest = min(USUAL_HZ, key=lambda usual: abs(rate_hz / usual - 1))
    return nearest if abs(rate_hz / nearest - 1) <= tolerance else None


def _mains_hz(playback_hz: float) -> int | None:
    """The mains frequency of the country of a playback rate."""
    for mains, rates in ((60, (23.976, 24, 29.97, 30, 59.94, 60)), (50, (25, 50))):
        if any(abs(playback_hz - rate) < 0.01 * rate for rate in rates):
            return mains
    return None


def by_lamp(lamp: F64, playback_hz: float) -> Rate:
    """The rate by the lamps' flicker."""
    line = lamp_line(lamp)
    if line is None:
        return Rate(None, "the rate of capture is unknown: no flicker of a lamp shows it; give --rate")
    mains = _mains_hz(playback_hz)
    seen = f"the lamps flicker every {1 / line:.3f} frames"
    found = {one: _usual(2 * one / line, LAMP_TOLERANCE) for one in (50, 60)}
    if mains is not None and (rate := found[mains]) is not None:
        return Rate(
            float(rate),
            f"{seen}; at {2 * mains} Hz, twice the mains where clips play at {playback_hz:.2f} frames/s,"
            f" that is {2 * mains / line:.1f} frames/s: {rate}",
        )
    rates = [f"{2 * one / line:.0f} ({2 * one} Hz)" for one in (50, 60)]
    return Rate(None, f"{seen}, which no usual camera rate explains ({' or '.join(rates)}); give --rate")


def by_period(cycle_frames: float | None, period_s: float) -> Rate:
    """The rate by the known period of the head's movement."""
    if cycle_frames is None:
        return Rate(
            None, "the rate of capture is unknown: the movement has no period to compare with --io-period"
        )
    rate = cycle_frames / period_s
    return Rate(
        rate, f"a cycle of {cycle_frames:.2f} frames takes {period_s * 1e3:.2f} ms: {rate:.1f} frames/s"
    )


def by_rotation(cycle_frames: float | None, rpm: float) -> Rate:
    """The rate by the rotation: a cycle takes whole revolutions, and cameras have usual rates."""
    if cycle_frames is None:
        return Rate(None, "the rate of capture is unknown: the movement has no period to compare with --rpm")
    fits = []
    for count in range(1, MOST_REVOLUTIONS + 1):
        rate = cycle_frames * rpm / (60 * count)
        usual = _usual(rate, ROTATION_TOLERANCE)
        if usual is not None:
            fits.append((abs(rate / usual - 1), usual, count))
    if not fits:
        return Rate(
            None, f"no usual camera rate makes {cycle_frames:.2f} frames whole revolutions; give --rate"
        )
    _, usual, count = min(fits)
    others = sorted({other for _, other, _ in fits} - {usual})
    doubt = f"; {' or '.join(map(str, others))} would fit too" if others else ""
    return Rate(
        float(usual),
        f"a cycle of {cycle_frames:.2f} frames is {count} revolutions at {usual} frames/s{doubt}",
    )
