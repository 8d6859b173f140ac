"""Reading a head-position graph: dwells and seeks, places, cycles, strokes, the phases of a cleaning.

A seek is fast (15 ms from end to end), everything else is slow: a sequential read crosses the platter in an
hour. So a movement is a seek where its speed is that of an arm under acceleration. Where it starts and ends
follows from a fit (`seek_fit`).

Invariants: times are in frames, with fractions, of the frame grid of the clip; seeks and dwells alternate
and do not overlap; positions are 0 (OD) to 1 (ID).

Source: Skylight (FAST '15), sections 4.3 to 4.9, and its Figures 5, 9, 11, 16 and 19.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from skylight.camera.seek_fit import NEAR_FRAMES, Way, fitted

F64 = NDArray[np.float64]

# A shorter way is no seek: seeks over 5 % of the stroke must be found, and positions are known to 1 %.
LEAST_SEEK = 0.04
# The slowest speed that is a seek's, strokes/s: a twentieth of the stroke in 25 ms; a sequential read makes
# 0.001.
LEAST_SPEED_HZ = 2.0
# Without a rate of capture: the share of the fastest movement seen. A seek over a twentieth of the stroke
# has, at the same acceleration, the root of that, 0.22, of the top speed of one over all of it.
SPEED_SHARE = 0.1
# Bounds of the least speed, strokes a frame: below the first a tracker's noise would do, and more than the
# second in one frame is a seek at any rate of capture.
SPEED_BOUNDS = (0.002, 0.02)
SIGMAS = 5.0
MAD_TO_SIGMA = 1.4826
# Frames below this confidence are bridged.
LEAST_CONFIDENCE = 0.4
# A bridge over more frames than this is a gap: nothing is claimed about it.
LONGEST_BRIDGE = 5
# Frames are averaged in time until the fastest movement makes this way within the average, and while noise
# can pass for more than this share of its speed, since a seek that comes and goes in the noise would be many;
# never over more than a short seek's way.
SMOOTHED_WAY, CLEAR_SHARE, MOST_SMOOTHED_WAY = 0.03, 0.25, 0.1
# A part of the way that noise can pass for, and the least way between frames that shows a speed.
UNSEEN_WAY, LEAST_SEEN_WAY = 0.06, 0.1
# A movement that slows down to this share of its speed before and after is two seeks, with a rest between,
# where frames are not averaged: an arm on its way only accelerates, coasts and brakes. Two seeks of four
# frames, the second right after the first, slow down to a quarter, two of three to 0.4.
STOP_SHARE = 0.4
# An arm brakes and accelerates for a good part of its time, so it is as slow on average over this part of a
# movement before and behind a stop.
STOP_PART = 16
# Seeks over more frames are fitted without these parts: a film's compression holds small movements back.
LONG_FRAMES = 40
# A fit starts from the frames a quarter of the way in and before the end; the time of that quarter.
QUARTER, QUARTER_TIME = 0.25, 0.125**0.5
# Dwells closer together than this are in one place: the width of a region that a cache or a map has, and
# tracking's error.
PLACE_SHARE = 0.04
# A dwell that drifts by this much in one direction is a stroke.
LEAST_STROKE = 0.008
# A stroke is slow and steady. The fastest pass: 20,000 tracks, fewer than any drive of this century has, at
# one a revolution of 4 ms take 80 s. A head that jumps about within a narrow region draws no line. Without a
# rate of capture nothing is known to be as slow: what lamps do to a resting head's place looks like it.
MOST_STROKE_HZ = 1 / 80
LEAST_STROKE_FRAMES, LEAST_STEADY = 16, 0.8
# Between strokes in one direction the head jumps back, between two frames or during one: within so many.
JUMP_FRAMES = 2
LEAST_CYCLES = 3
# A head at least this far in is parked: the map is in the middle.
PARKED_FROM = 0.95
# Cleaning follows a rest and takes many revolutions in each place, s. Chosen: a host's random commands leave
# the arm at a place for one or two revolutions of at most 14 ms, and pause for less.
LEAST_REST_S, LEAST_PHASE_S = 0.2, 0.05


@dataclass(frozen=True)
class Seek:
    """A movement from one place to another; `start` and `end` are in frames."""

    start: float
    end: float
    source: float
    target: float
    whole: bool = True
    """Whether the clip shows the rest before and after it."""
    doubt: float = 1.0
    """Frames that both ends are within, in 95 of 100 seeks; what lies between two frames is within one."""

    @property
    def way(self) -> float:
        """How far, positive towards the ID."""
        return self.target - self.source


@dataclass(frozen=True)
class Dwell:
    """A stay: frames, mean position, and the drift from its first to its last frame."""

    start: float
    end: float
    position: float
    drift: float
    place: int = 0
    """Number of the place, from the OD."""
    stroke: str | None = None
    """`inward` or `outward` if the head drifts as slowly as in a sequential pass."""


@dataclass(frozen=True)
class Stroke:
    """A slow way in one direction; frames and positions of its ends."""

    start: float
    end: float
    source: float
    target: float

    @property
    def inward(self) -> bool:
        """Whether it leads towards the ID."""
        return self.target > self.source


@dataclass(frozen=True)
class Cycle:
    """A repeated pair of seeks: how often, its period in frames, and the scatter of single periods."""

    count: int
    frames: float
    scatter: float
    places: tuple[int, int]


@dataclass(frozen=True)
class Phase:
    """A phase of a cleaning, frames."""

    name: str
    start: float
    end: float
    position: float


@dataclass(frozen=True)
class Reading:
    """What a graph shows."""

    seeks: tuple[Seek, ...]
    dwells: tuple[Dwell, ...]
    places: tuple[float, ...]
    cycle: Cycle | None
    strokes: tuple[Stroke, ...]
    pattern: str | None
    """`serpentine` or `one-way` for successive strokes; None without."""
    cleaning: tuple[Phase, ...]
    noise: float
    """Standard deviation of a position at rest."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said beside it."""
        doubtful = [seek.doubt for seek in self.seeks if seek.whole and seek.doubt > NEAR_FRAMES]
        if not doubtful:
            return ()
        note = (
            f"{len(doubtful)} of {len(self.seeks)} seeks look unlike an arm's: their starts and ends may be"
            f" {max(doubtful):.1f} frames off, as where frames are missing or encoding holds movements back"
        )
        return (note,)


def read(position: F64, confidence: F64, capture_hz: float | None = None) -> Reading:
    """Reads a graph; with a rate of capture a seek is known by its speed, without by comparison."""
    steady, gaps = _bridged(position, confidence)
    noise = _noise(steady)
    seeks = [seek for seek in _seeks(steady, noise, capture_hz) if not gaps[_inside(seek, len(gaps))].any()]
    dwells = _dwells(steady, gaps, seeks, capture_hz)
    places, dwells = _places(dwells)
    strokes = _strokes(steady, gaps, dwells, noise, capture_hz)
    return Reading(
        tuple(seeks),
        tuple(dwells),
        places,
        _cycle(seeks, places),
        strokes,
        _pattern(strokes),
        _cleaning(dwells, places, capture_hz),
        noise,
    )


def _inside(seek: Seek, count: int) -> slice:
    return slice(max(0, int(seek.start)), min(count, int(seek.end) + 2))


def _bridged(position: F64, confidence: F64) -> tuple[F64, NDArray[np.bool_]]:
    """Positions with doubtful frames interpolated, and where the doubtful ones are too many to bridge."""
    sure = confidence >= LEAST_CONFIDENCE
    if sure.sum() < 2:
        return position.copy(), np.ones(len(position), np.bool_)
    at = np.arange(len(position))
    steady = np.interp(at, at[sure], position[sure])
    gaps = np.zeros(len(position), np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate([[1], sure.astype(np.int8), [1]])))
    for first, last in edges.reshape(-1, 2):
        gaps[first:last] = last - first > LONGEST_BRIDGE
    return steady, gaps


def _noise(position: F64) -> float:
    """Standard deviation of a position at rest, from differences of neighbours: most frames are at rest."""
    steps = np.diff(position, 2)
    if len(steps) == 0:
        return 0.0
    return max(MAD_TO_SIGMA * float(np.median(np.abs(steps))) / 6**0.5, 1e-4)


def _speed(position: F64, noise: float) -> tuple[F64, int, float]:
    """Speed in each frame, strokes a frame, over `2 * width` frames; the width; its standard deviation."""
    width = 1
    while True:
        kernel = np.ones(width) / width
        padded = np.concatenate([np.full(2 * width, position[0]), position, np.full(2 * width, position[-1])])
        smooth = np.convolve(padded, kernel, "same")
        speed = (np.roll(smooth, -width) - np.roll(smooth, width))[2 * width : -2 * width] / (2 * width)
        doubt = noise / (width**1.5 * np.sqrt(2))
        fastest = float(np.abs(speed).max())
        way = fastest * 2 * width
        clear = way >= SMOOTHED_WAY and SIGMAS * doubt <= CLEAR_SHARE * fastest
        if clear or way >= MOST_SMOOTHED_WAY or width >= 64 or 8 * width > len(position):
            return speed, width, doubt
        width *= 2


def _seeks(position: F64, noise: float, capture_hz: float | None) -> list[Seek]:
    """All seeks, in order."""
    if len(position) < 4:
        return []
    speed, width, doubt = _speed(position, noise)
    if capture_hz is not None:
        least = LEAST_SPEED_HZ / capture_hz
    else:
        least = max(SPEED_SHARE * float(np.abs(speed).max()), SPEED_BOUNDS[0])
    least = max(min(least, SPEED_BOUNDS[1]), SIGMAS * doubt)
    moving = _runs(speed, least, 2 * width)
    if width == 1:
        moving = [part for run in moving for part in _parted(speed, run, SIGMAS * doubt)]
    found, runs = _of_runs(position, moving, width, noise)
    # What was slower than noise was taken for rest: the levels are those before the start and after the end.
    slower = [
        (max(0, int(seek.start)), min(len(position), int(np.ceil(seek.end)))) if _is_long(seek) else run
        for seek, run in zip(found, runs, strict=True)
    ]
    return _ordered(_of_runs(position, slower, width, noise)[0])


def _is_long(seek: Seek) -> bool:
    return seek.end - seek.start > LONG_FRAMES


def _of_runs(
    position: F64, runs: list[tuple[int, int]], width: int, noise: float
) -> tuple[list[Seek], list[tuple[int, int]]]:
    """The seeks among movements, in order, and their movements: from the first frame to before the last."""
    rough, taken = [], []
    for number, (first, last) in enumerate(runs):
        # A level is that of the rest between this run and its neighbours, near the run.
        before = runs[number - 1][1] if number else 0
        after = runs[number + 1][0] if number + 1 < len(runs) else len(position)
        source = _level(position, before, first, width, last_part=True)
        target = _level(position, last, after, width, last_part=False)
        if abs(target - source) >= LEAST_SEEK:
            whole = first > 0 and last < len(position) - width
            seek = Seek(0, 0, source, target, whole)
            # Not the frames of the movements before and after it.
            shown = max(first - 2 * width, before), min(last + 2 * width, after + 1, len(position))
            rough.append((seek, _rough(position, shown, seek, noise)))
            taken.append((first, last))
    ends = iter(fitted([way for _, way in rough if isinstance(way, Way)]))
    found = []
    for seek, way in rough:
        if isinstance(way, Way):
            one = next(ends)
            found.append(replace(seek, start=one.start, end=one.end, doubt=one.doubt))
        else:
            found.append(way)
    return found, taken


def _runs(speed: F64, least: float, join: int) -> list[tuple[int, int]]:
    """Runs of frames that move in one direction, at least as fast; those a few frames apart are one."""
    moving = np.where(np.abs(speed) >= least, np.sign(speed), 0).astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], moving, [0]])))
    runs: list[tuple[int, int]] = []
    for first, last in pairwise(edges):
        way = moving[first]
        if way == 0:
            continue
        if runs and moving[runs[-1][0]] == way and first - runs[-1][1] < join:
            runs[-1] = (runs[-1][0], int(last))
        else:
            runs.append((int(first), int(last)))
    return runs


def _parted(speed: F64, run: tuple[int, int], clear: float) -> list[tuple[int, int]]:
    """The movements of a run in one direction, which stops between them; differences of speed are clear from
    that on."""
    first, last = run
    shown = np.abs(speed[first:last])
    # An encoder that shows a frame twice stops the arm for that one only.
    size = uniform_filter1d(shown, 2 * max(len(shown) // STOP_PART, 1) - 1, mode="nearest")
    beside = np.minimum(np.maximum.accumulate(size), np.maximum.accumulate(size[::-1])[::-1])
    done = np.cumsum(size)
    ways = np.minimum(done - size, done[-1] - done)
    stops = (size <= STOP_SHARE * beside) & (beside - size >= clear) & (ways >= LEAST_SEEK)
    if not stops.any():
        return [run]
    stop = first + int(np.argmin(np.where(stops, size / beside, np.inf)))
    return [part for one in ((first, stop), (stop + 1, last)) for part in _parted(speed, one, clear)]


def _level(position: F64, first: int, last: int, width: int, *, last_part: bool) -> float:
    """The median over the part next to a seek of the frames between two movements; where these are fewer than
    speed is averaged over, the position half-way, where the head is likeliest to be at rest."""
    low, high = first + width, last - width
    if high - low < 1:
        return float(position[np.clip((first + last - 1) // 2, 0, len(position) - 1)])
    part = (
        position[max(low, high - 8 * width) : high]
        if last_part
        else position[low : min(high, low + 8 * width)]
    )
    return float(np.median(part))


def _rough(position: F64, shown: tuple[int, int], seek: Seek, noise: float) -> Way | Seek:
    """What a seek is fitted to; or the seek, if it is too fast to be seen on its way."""
    low, high = shown
    done = (position[low:high] - seek.source) / (seek.target - seek.source)
    frames = np.arange(low, high, dtype=np.float64)
    half = int(np.argmax(done > 0.5))
    clear = (done > UNSEEN_WAY) & (done < 1 - UNSEEN_WAY)
    least = min(SIGMAS * noise / abs(seek.way), UNSEEN_WAY)
    seen = (done > least) & (done < 1 - least)
    if seen.sum() < 2 or np.ptp(done[seen]) < LEAST_SEEN_WAY:
        # It lies between the frames around it.
        middle = float(frames[np.argmax(seen)] if seen.any() else frames[half] - 0.5)
        start, end = middle - 0.5, middle + 0.5
        if seen.sum() == 1:  # the one frame says when it was, if others say how long it takes
            return Way(frames, done, abs(seek.way), start, end, seek.whole, seen=False)
        return replace(seek, start=start, end=end)
    first = frames[0] + _crossed(done, QUARTER, half)
    last = frames[-1] - _crossed(1 - done[::-1], QUARTER, len(done) - 1 - half)
    # An arm under one acceleration and as much brake does a quarter of its way in 0.35 of its time.
    margin = (last - first) * QUARTER_TIME / (1 - 2 * QUARTER_TIME)
    if last - first + 2 * margin > LONG_FRAMES:
        frames, done = frames[clear], done[clear]
    return Way(frames, done, abs(seek.way), float(first - margin), float(last + margin), seek.whole)


def _crossed(done: F64, share: float, before: int) -> float:
    """When a share of the way was passed last before a frame, in frames."""
    early = np.flatnonzero(done[: before + 1] < share)
    if len(early) == 0:
        return 0.0
    at = int(early[-1])
    if at + 1 == len(done) or done[at + 1] < share:  # it is not passed in these frames
        return float(at)
    return float(at + (share - done[at]) / (done[at + 1] - done[at]))


def _ordered(seeks: list[Seek]) -> list[Seek]:
    """Seeks that do not overlap: where fits do, they meet in the middle."""
    for number in range(1, len(seeks)):
        one, two = seeks[number - 1], seeks[number]
        if one.end > two.start:
            meet = (one.end + two.start) / 2
            seeks[number - 1] = replace(one, end=max(meet, one.start))
            seeks[number] = replace(two, start=min(meet, two.end))
    return seeks


def _dwells(
    position: F64, gaps: NDArray[np.bool_], seeks: list[Seek], capture_hz: float | None
) -> list[Dwell]:
    """What lies between seeks."""
    edges = [0.0, *(edge for seek in seeks for edge in (seek.start, seek.end)), float(len(position) - 1)]
    dwells = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        first, last = int(np.ceil(start)), int(np.floor(end))
        rest = position[first : last + 1][~gaps[first : last + 1]]
        if len(rest) == 0:
            continue
        drift = 0.0
        if len(rest) >= 8:
            drift = float(np.polyfit(np.arange(len(rest)), rest, 1)[0]) * (len(rest) - 1)
        stroke = None
        if abs(drift) >= LEAST_STROKE and _is_slow(drift, end - start, capture_hz):
            stroke = "inward" if drift > 0 else "outward"
        dwells.append(Dwell(start, end, float(np.median(rest)), drift, stroke=stroke))
    return dwells


def _places(dwells: list[Dwell]) -> tuple[tuple[float, ...], list[Dwell]]:
    """Positions at which the head dwells, from the OD, and the dwells with their place."""
    if not dwells:
        return (), []
    order = sorted(range(len(dwells)), key=lambda number: dwells[number].position)
    groups: list[list[int]] = []
    for number in order:
        if groups and dwells[number].position - dwells[groups[-1][0]].position <= PLACE_SHARE:
            groups[-1].append(number)
        else:
            groups.append([number])
    placed = list(dwells)
    places = []
    for place, group in enumerate(groups):
        lengths = np.array([dwells[number].end - dwells[number].start + 1 for number in group])
        at = np.array([dwells[number].position for number in group])
        places.append(float((lengths * at).sum() / lengths.sum()))
        for number in group:
            placed[number] = replace(dwells[number], place=place)
    return tuple(places), placed


def _place_of(position: float, places: tuple[float, ...]) -> int:
    return int(np.argmin(np.abs(np.array(places) - position)))


def _cycle(seeks: list[Seek], places: tuple[float, ...]) -> Cycle | None:
    """The pair of places that the head goes to and fro between most often."""
    starts: dict[tuple[int, int], list[float]] = {}
    for seek in (seek for seek in seeks if seek.whole):
        pair = (_place_of(seek.source, places), _place_of(seek.target, places))
        starts.setdefault(pair, []).append((seek.start + seek.end) / 2)
    if not starts:
        return None
    there = max(starts, key=lambda pair: (len(starts[pair]), -pair[0]))
    back = starts.get((there[1], there[0]), [])
    times = np.array(starts[there])
    count = min(len(times), len(back))
    if count < LEAST_CYCLES:
        return None
    periods = np.diff(times)
    middle = float(np.median(periods))
    # A pause in the pattern is no period.
    regular = periods[np.abs(periods - middle) < 0.5 * middle]
    if len(regular) == 0:
        return None
    return Cycle(count, float(regular.mean()), float(regular.std()), (min(there), max(there)))


def _is_slow(way: float, frames: float, capture_hz: float | None) -> bool:
    """Whether a movement is as slow as that of a sequential pass."""
    return capture_hz is not None and abs(way) <= MOST_STROKE_HZ * frames / capture_hz


def _strokes(
    position: F64, gaps: NDArray[np.bool_], dwells: list[Dwell], noise: float, capture_hz: float | None
) -> tuple[Stroke, ...]:
    """The slow ways between seeks, without the jumps back between them."""
    found = []
    for dwell in dwells:
        first, last = int(np.ceil(dwell.start)), int(np.floor(dwell.end))
        if last - first < 8 or gaps[first : last + 1].any():
            continue
        turns = _turns(position[first : last + 1], max(LEAST_STROKE, SIGMAS * noise))
        for one, two in pairwise(first + turn for turn in turns):
            source, target = float(position[one]), float(position[two])
            way = position[one : two + 1]
            jump = float(np.abs(way[JUMP_FRAMES:] - way[:-JUMP_FRAMES]).max(initial=0.0))
            if abs(target - source) - jump < LEAST_STROKE or two - one + 1 < LEAST_STROKE_FRAMES:
                continue
            steady = abs(float(np.corrcoef(np.arange(len(way)), way)[0, 1]))
            if steady >= LEAST_STEADY and _is_slow(target - source, two - one, capture_hz):
                found.append(Stroke(one, two, source, target))
    return tuple(found)


def _turns(position: F64, least: float) -> list[int]:
    """The first and last frame, and those at which the head turns round and goes back by `least`."""
    turns, lowest, highest, way = [0], 0, 0, 0
    for frame, at in enumerate(position):
        lowest = frame if at < position[lowest] else lowest
        highest = frame if at > position[highest] else highest
        if way >= 0 and position[highest] - at >= least:
            # The first extreme is a turn only if the head came there by a way of its own.
            if way > 0 or position[highest] - position[0] >= least:
                turns.append(highest)
            way, lowest = -1, frame
        elif way <= 0 and at - position[lowest] >= least:
            if way < 0 or position[0] - position[lowest] >= least:
                turns.append(lowest)
            way, highest = 1, frame
    return [*turns, len(position) - 1]


def _pattern(strokes: tuple[Stroke, ...]) -> str | None:
    """How successive strokes follow each other."""
    if len(strokes) < 2:
        return None
    same = sum(one.inward == two.inward for one, two in pairwise(strokes))
    return "one-way" if 2 * same >= len(strokes) - 1 else "serpentine"


def _cleaning(dwells: list[Dwell], places: tuple[float, ...], capture_hz: float | None) -> tuple[Phase, ...]:
    """The first cleaning: after a rest the band is read, staged in the cache, written; then the map, then the
    head parks.

    A band is a place visited twice with the cache between; the map is elsewhere and follows; what follows
    that is the park. With a rate of capture, each takes as long as a drive does; without, any time."""
    rate_hz = 0.0 if capture_hz is None else capture_hz
    for number in range(1, len(dwells) - 3):
        idle, band, cache, again, *rest = dwells[number - 1 : number + 5]
        if band.place != again.place or cache.place == band.place or cache.place not in (0, len(places) - 1):
            continue
        if rest[0].place in (band.place, cache.place):
            continue
        phases = min(one.end - one.start for one in (band, cache, again))
        if idle.end - idle.start < LEAST_REST_S * rate_hz or phases < LEAST_PHASE_S * rate_hz:
            continue
        # Staging gathers blocks from the cache: far longer than the band takes to read.
        if cache.end - cache.start < 2 * (band.end - band.start):
            continue
        # A band that lies where the map is cannot be told from it.
        parks = rest[0].position >= PARKED_FROM
        names = (
            "idle",
            "band read",
            "cache",
            *(("band write, map", "park") if parks else ("band write", "map", "park")),
        )
        stays = (idle, band, cache, again, *rest)
        return tuple(
            Phase(name, one.start, one.end, one.position) for name, one in zip(names, stays, strict=False)
        )
    return ()
