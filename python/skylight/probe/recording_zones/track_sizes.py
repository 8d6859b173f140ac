"""Track sizes from a few hundred reads at a place, and plateaus from the sizes of strokes.

Surfaces of one drive differ a little in density. Where the walk stays on one surface for thousands of tracks
(a stroke), then goes on to the next, the size of tracks, and with it the speed of a sequential read, steps up
and down: a plateau for each surface, then the same in the opposite order, each a little lower. Nothing else
makes tracks longer with rising addresses: recording zones only make them shorter.

Invariants: pure functions; a pattern counts only where every stroke of two zones, and at least twelve, agree
with it.

Source: Skylight (FAST '15) section 4.9, Figures 17 and 18.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, IoLog
from skylight.infer.host_clock import tick_ns
from skylight.infer.track_phases import fit_tracks, phase_of

READS = 264
SPREAD_TRACKS = 5.5
PASSES = 12
LEAST_ERROR = 5e-4
SIGMAS = 4.5
MOST_HEADS = 20
FEWEST_STROKES = 12
SECTOR_BYTES = 4096
MOST_SCATTER = 1.5  # standard errors, of all strokes


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a track around an address, and the relative error."""

    at: float
    track_bytes: float
    error: float

    def same(self, other: Size, part: float = 0.0) -> bool:
        """Whether two sizes are the same as far as they are known, or differ by at most a part."""
        limit = max(part, SIGMAS * float(np.hypot(self.error, other.error)))
        return abs(self.track_bytes / other.track_bytes - 1) <= limit


def pattern(track: float) -> F64:
    """Offsets of the reads of a place: a quarter of a revolution from one to the next, and passes that
    interleave, so that each wait is short."""
    steps = READS // PASSES
    ahead = np.arange(steps) * 0.25
    return np.concatenate([ahead + 0.25 * number / PASSES for number in range(PASSES)]) * track


def size_of(log: IoLog, period_ns: float, guess: float) -> Size | None:
    """The track size under the reads of a place, within 25 % of a guess."""
    if len(log) == 0:
        return None
    angle = phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
    x = log.offset.astype(np.float64)
    tracks = fit_tracks(x, angle, 0.75 * guess, 1.3 * guess, tick_ns(log.complete_ns) / period_ns)
    if tracks is None:
        return None
    error = max(LEAST_ERROR, 1.2 * tracks.slope_error / tracks.slope)
    return Size(float(x.mean()), tracks.track_bytes, error)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Surfaces whose strokes repeat mirrored: their densities, how much less the next zone holds, and how far
    strokes are off the pattern (relative)."""

    count: int
    density: F64
    fall: float
    off: float

    @property
    def apart(self) -> float:
        """How far strokes that follow each other differ at least (relative): surfaces in one zone, or one
        surface in two zones."""
        return float(min(np.abs(np.diff(np.log(self.density))).min(), self.fall))

    def in_groups(self, parts: int) -> bool:
        """Whether surfaces follow each other in groups of so many alike: then each group is but one."""
        if parts == 1 or self.count % parts:
            return False
        groups = np.log(self.density).reshape(-1, parts)
        return bool(np.all(np.ptp(groups, axis=1) <= 2 * self.off))


def mirrored(strokes: list[Size], *, cut: bool = False, last: bool = False) -> Pattern | None:
    """The least number of surfaces whose strokes, mirrored, explain the sizes of two zones; where these are
    few strokes, of more zones. Where the first stroke is `cut`, the first zone may lack some before it, which
    the drive keeps. With `last`, only patterns that need the last stroke: those before were tried without."""
    for count in range(2, MOST_HEADS + 1):
        for missing in range(count if cut else 1):
            # As many surfaces as a cut zone has strokes always explain two zones: a third has to agree.
            used = max(FEWEST_STROKES, (3 if cut else 2) * count)
            if len(strokes) < used or (last and len(strokes) > used):
                break
            if (found := _explained(strokes[:used], count, missing)) is not None:
                return found
    return None


def _explained(strokes: list[Size], count: int, missing: int) -> Pattern | None:
    """The pattern of that many surfaces, the first zone of which lacks some, if it explains all strokes."""
    size = np.log([stroke.track_bytes for stroke in strokes])
    whole = np.array([SECTOR_BYTES / stroke.track_bytes for stroke in strokes]) / np.sqrt(12)
    error = np.hypot([stroke.error for stroke in strokes], whole)  # a track holds whole sectors
    zone, place = np.divmod(np.arange(missing, missing + len(size)), count)
    surface = np.where(zone % 2 == 1, count - 1 - place, place)
    density, level = _two_way(size, error, surface, zone, count)
    off = size - density[surface] - level[zone]
    clear = np.abs(np.diff(density)).max() > SIGMAS * float(np.median(error))
    falls = np.all(np.diff(level) <= 3 * error.max())
    if not (clear and falls and np.all(np.abs(off) <= SIGMAS * error)):
        return None
    if float(np.sqrt(np.mean((off / error) ** 2))) > MOST_SCATTER:
        return None
    fall = float(np.abs(np.diff(level)).min())
    return Pattern(count, np.exp(density), fall, float(np.abs(off).max()))


def _two_way(
    size: F64, error: F64, surface: NDArray[np.intp], zone: NDArray[np.intp], count: int
) -> tuple[F64, F64]:
    """Surface densities and zone levels (logarithms) that fit best, densities with a mean of 0."""
    zones = int(zone.max()) + 1
    rows = np.zeros((len(size) + 1, count + zones))
    rows[np.arange(len(size)), surface] = 1.0 / error
    rows[np.arange(len(size)), count + zone] = 1.0 / error
    rows[-1, :count] = 1e6
    found, *_ = np.linalg.lstsq(rows, np.append(size / error, 0.0), rcond=None)
    return found[:count], found[count:]


def mean_of(sizes: list[Size]) -> Size:
    """Several answers about one place as one."""
    error = float(np.sqrt(sum(size.error**2 for size in sizes))) / len(sizes)
    mean = float(np.mean([size.track_bytes for size in sizes]))
    return Size(sizes[0].at, mean, max(error, LEAST_ERROR / 2))


def rises(sizes: list[Size], part: float = 0.02) -> int:
    """How many sizes are longer than one before them, beyond doubt and by more than a part."""
    ordered = sorted(sizes, key=lambda size: size.at)
    least, count = ordered[0] if ordered else None, 0
    for size in ordered[1:]:
        if least is not None and size.track_bytes > least.track_bytes and not size.same(least, part):
            count += 1
        if least is None or size.track_bytes < least.track_bytes:
            least = size
    return count
