"""Findings from a head-position graph: where cache and map lie, which way strokes lead, the phases of a
cleaning, how long the arm moves.

A film shows where the arm is, not who moves it nor where the platter ends. So a position counts only where
the scale of the film is that of the platter: two known positions were given, or the arm swings by as much as
an arm does from OD to ID. And what a host could cause too is the drive's own work only as far as signs say
so: each cleaning, seek or pair of strokes that agrees is a sign, and one that does not agree gives unknown.

Invariants: no confidence exceeds the share of what moves that the arm explains, nor `_sure` of the signs; a
film in which nothing of a kind is seen gives unknown; nothing here reads findings of timing
(`skylight.camera.merge_findings` does).

Source: Skylight (FAST '15), sections 4.5 and 4.9, Figures 11 and 19; docs/camera.md, "Findings".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skylight.camera.align import Alignment
from skylight.camera.angle_to_position import Arm
from skylight.camera.head_positions import Graph
from skylight.camera.seek_detection import PARKED_FROM, PLACE_SHARE, Phase, Reading, Stroke
from skylight.camera.track_head import SURELY_EXPLAINED
from skylight.evidence import IoLog, Op
from skylight.findings import Finding, Property
from skylight.probe import film_findings
from skylight.probe.cache_location.findings import LOCATION as CACHE_LOCATION

F64 = NDArray[np.float64]
# In the order of `judge`.
PROPERTIES = (
    CACHE_LOCATION, film_findings.MAP_LOCATION, film_findings.SHINGLING, film_findings.SERPENTINE,
    film_findings.PHASES, film_findings.ARM,
)  # fmt: skip
Table = dict[str, int | float | bool | str]

FULL_SWING_DEGREES = float(np.degrees(Arm().angle(1.0) - Arm().angle(0.0)))
# A film shows the whole stroke if the arm swings by this share of what one of a 3.5-inch drive does. The
# least that 22 films of all of the stroke show (docs/camera.md), with no margin: what shows less is refused.
LEAST_SWING_SHARE = 0.85
# A place within this share of the stroke of the OD, the middle or the ID is there. Chosen: a tenth of
# the stroke is left between two of them, as far as a scale by the extremes may be off.
NEAR_SHARE = 0.2
MIDDLES = {"od": 0.0, "md": 0.5, "id": 1.0}
# Writes that the arm seeks to one place for, at least, and the share of the drive that they spread over.
LEAST_WRITES, SPREAD_SHARE = 4, 0.5
# Map merges and cleaning are also done during writes, elsewhere: this share of the seeks leads to the cache.
MOST_OF_WRITES = 0.75
# Two strokes are of one zone if they share this part of the shorter.
SAME_STROKE = 0.5
LEAST_PAIRS = 2
# How sure it is that a filmed sequential pass runs to higher addresses where no I/O says so: a prior. Where
# it is wrong, every direction is reversed.
RISING_TAKEN = 0.8
# Requests from this size on are those of a sequential pass, bytes: smaller ones are read at random as well.
# Chosen: so many that follow each other are no coincidence, and fewer are no pass.
SEQUENTIAL_BYTES, LEAST_SEQUENTIAL = 64 << 10, 16
# The parts of the stroke whose time is given.
WAYS = {"tenth": 0.1, "third": 1 / 3, "full": 1.0}
LEAST_SEEKS = 8
# Seeks of fewer frames are found up to 7 % too short, in graphs with noise of 0.6 % of the stroke.
LEAST_SEEK_FRAMES = 4
# A time is given if twice its standard error is within this share of it: how near a seek time must come.
ARM_WITHIN = 0.1
# How sure it is that the extremes of a film that shows the whole stroke are its ends: a prior. Where it is
# wrong, a time is off by up to half of what `LEAST_SWING_SHARE` leaves.
ENDS_TAKEN = 0.8
# A way is within the ways seen if it is at most this much beyond them.
BEYOND_SHARE = 0.1
# The phases whose time is given: at the map the arm also rests until it parks.
TIMED = ("band read", "cache", "band write")


@dataclass(frozen=True)
class Io:
    """The I/O of the filmed run: its commands, and the size of the drive, bytes."""

    log: IoLog
    drive_bytes: int


@dataclass(frozen=True)
class _Film:
    graph: Graph
    reading: Reading
    io: Io | None
    aligned: Alignment | None

    @property
    def with_io(self) -> bool:
        """Whether the command of each seek is known."""
        return self.aligned is not None and self.aligned.frame_0_s is not None

    def confidence(self, signs: int) -> float:
        """How sure signs make that agree."""
        return float(np.median(self.graph.confidence)) * _sure(signs)

    @property
    def ends(self) -> float:
        """How sure it is that 0 and 1 are the ends of the stroke."""
        return 1.0 if self.graph.known_positions else ENDS_TAKEN

    def no_scale(self) -> str | None:
        """Why positions are not those of the platter; None if they are."""
        swing = self.graph.swing_degrees
        if self.graph.known_positions or swing >= LEAST_SWING_SHARE * FULL_SWING_DEGREES:
            return None
        return (
            f"the arm swings by {swing:.0f} degrees, and from OD to ID by about {FULL_SWING_DEGREES:.0f}: the"
            " film shows a part of the stroke, and does not show which; name frames with --known"
        )


@dataclass(frozen=True)
class _Cleaning:
    phases: dict[str, Phase]
    parked: bool
    signs: int
    said: str


def _sure(signs: int) -> float:
    """How sure a number of signs is that all agree: one as much as a coin, and none is certainty."""
    return signs / (signs + 1)


def judge(graph: Graph, io: Io | None = None) -> list[Finding]:
    """All that a film can show, unknown what it does not; with the I/O of the filmed run, what that adds."""
    if graph.explained < SURELY_EXPLAINED:
        why = f"a single arm explains {100 * graph.explained:.0f} % of what moves: the graph may be wrong"
        return [one.unknown(why) for one in PROPERTIES]
    reading = graph.reading()
    seen = _Film(graph, reading, io, None if io is None else graph.aligned(reading, io.log))
    cleaning = _cleaning(seen)
    shingling, serpentine = _strokes(seen)
    return [
        _cache(seen, cleaning),
        _map(seen, cleaning),
        shingling,
        serpentine,
        _phases(seen, cleaning),
        _arm(seen),
    ]


# --- Cleaning, cache and map.


def _cleaning(seen: _Film) -> _Cleaning | str:
    """The cleaning that the film shows, or why there is none."""
    phases = {one.name: one for one in seen.reading.cleaning}
    if seen.graph.time_s is None:
        return f"{seen.graph.capture_why}: pauses of a host cannot be distinguished from phases of a cleaning"
    if not phases:
        return (
            "the film shows no cleaning: no rest, after which the arm goes to a band, to the cache and back"
        )
    begin, end = phases["band read"].start, max(one.end for one in phases.values())
    signs, said = 1, "after a rest the arm goes to a band, to the cache and back to the band"
    parked = "park" in phases and phases["park"].position >= PARKED_FROM and seen.no_scale() is None
    if parked:
        signs, said = signs + 1, f"{said}, then parks"
    if seen.with_io and seen.aligned is not None:
        # The seek to the band begins before the arm is there.
        rows = zip(seen.reading.seeks, seen.aligned.rows, strict=True)
        caused = sum(row is not None for seek, row in rows if begin <= seek.end + 1 and seek.start < end)
        if caused:
            return f"what looks like a cleaning contains {caused} seeks of the host's commands"
        signs, said = signs + 1, f"{said}; no command of the host causes any of it"
    return _Cleaning(phases, parked, signs, said)


def _phases(seen: _Film, cleaning: _Cleaning | str) -> Finding:
    if isinstance(cleaning, str):
        return film_findings.PHASES.unknown(cleaning)
    took: Table = {
        name.replace(" ", "_"): round(1e9 * float(np.ptp(seen.graph.at_s(np.array([one.start, one.end])))))
        for name, one in cleaning.phases.items()
        if name in TIMED
    }
    return film_findings.PHASES.found(took, seen.confidence(cleaning.signs), cleaning.said)


def _cache(seen: _Film, cleaning: _Cleaning | str) -> Finding:
    written = _written_to(seen)
    if isinstance(cleaning, str):
        if isinstance(written, str):
            return CACHE_LOCATION.unknown(f"{cleaning}; {written}")
        position, signs = written
        return _located(
            seen, CACHE_LOCATION, position, signs, f"{signs} writes to places far apart bring the arm"
        )
    position, signs, said = cleaning.phases["cache"].position, cleaning.signs, cleaning.said
    if not isinstance(written, str):
        if abs(written[0] - position) > PLACE_SHARE:
            why = f"a cleaning shows the cache at {position:.2f}, and writes go to {written[0]:.2f}"
            return CACHE_LOCATION.unknown(why)
        signs, said = signs + written[1], f"{said}, and {written[1]} writes bring the arm there too"
    return _located(seen, CACHE_LOCATION, position, signs, said)


def _map(seen: _Film, cleaning: _Cleaning | str) -> Finding:
    if isinstance(cleaning, str):
        return film_findings.MAP_LOCATION.unknown(cleaning)
    if "map" not in cleaning.phases or not cleaning.parked:
        why = "the film does not show the arm stay at another place between writing the band and parking"
        return film_findings.MAP_LOCATION.unknown(why)
    said = f"{cleaning.said}; between band and parking it stays at another place"
    return _located(seen, film_findings.MAP_LOCATION, cleaning.phases["map"].position, cleaning.signs, said)


def _written_to(seen: _Film) -> tuple[float, int] | str:
    """Where the arm goes for writes all over the drive, and how many seeks show it; or why nothing does."""
    if seen.io is None or seen.aligned is None:
        return "no I/O of the same run is given that shows where writes go"
    if not seen.with_io:
        return seen.aligned.why
    log = seen.io.log
    pairs = [
        (seek.target, int(log.offset[row]))
        for seek, row in zip(seen.reading.seeks, seen.aligned.rows, strict=True)
        if row is not None and log.op[row] in (Op.WRITE, Op.WRITE_FUA)
    ]
    if len(pairs) < LEAST_WRITES:
        return f"{len(pairs)} seeks of the film are for writes: too few to show a cache"
    targets, offsets = (np.array(column) for column in zip(*pairs, strict=True))
    near = np.abs(targets - np.median(targets)) <= PLACE_SHARE
    if near.mean() < MOST_OF_WRITES:
        return f"{len(pairs)} writes bring the arm to places all over the stroke, to no cache at one place"
    # Writes to one part of a conventional disk bring the arm to one place too.
    if near.sum() < LEAST_WRITES or np.ptp(offsets[near]) < SPREAD_SHARE * seen.io.drive_bytes:
        return f"{near.sum()} writes bring the arm to one place: too few, or too near each other"
    return float(np.median(targets[near])), int(near.sum())


def _located(seen: _Film, what: Property, position: float, signs: int, said: str) -> Finding:
    """A place in words; unknown where the film's scale does not reach, or between two places."""
    why = seen.no_scale()
    if why is not None:
        return what.unknown(why)
    place = next((name for name, at in MIDDLES.items() if abs(position - at) <= NEAR_SHARE), None)
    said = f"{said}: it is at {max(0.0, position):.2f} of the stroke"
    if place is None:
        return what.unknown(f"{said}, between two of OD, MD and ID")
    return what.found(place, seen.ends * seen.confidence(signs), said)


# --- Strokes.


def _strokes(seen: _Film) -> tuple[Finding, Finding]:
    """The direction of shingling and the serpentine region, from pairs of successive strokes of one zone."""
    pairs = [(one, two) for one, two in pairwise(seen.reading.strokes) if _shared(one, two) >= SAME_STROKE]
    why = seen.no_scale()
    if seen.graph.time_s is None:
        why = f"{seen.graph.capture_why}: strokes cannot be distinguished from seeks"
    elif not pairs:
        why = (
            "the film shows no two strokes over the same tracks: film a long sequential pass as a time lapse"
        )
    order, said = _order(seen)
    if order < 0:
        why = said
    if why is not None:
        return film_findings.SHINGLING.unknown(why), film_findings.SERPENTINE.unknown(why)
    turning = [pair for pair in pairs if pair[0].inward != pair[1].inward]
    one_way = [pair for pair in pairs if pair[0].inward == pair[1].inward]
    return _shingling(seen, one_way, order, said), _serpentine(seen, turning, one_way, order)


def _ends(*strokes: Stroke) -> tuple[float, float]:
    at = [position for one in strokes for position in (one.source, one.target)]
    return min(at), max(at)


def _shared(one: Stroke, two: Stroke) -> float:
    """The part of the shorter stroke that both go over."""
    (low, high), (other_low, other_high) = _ends(one), _ends(two)
    shorter = min(high - low, other_high - other_low)
    return (min(high, other_high) - max(low, other_low)) / max(shorter, 1e-9)


def _order(seen: _Film) -> tuple[float, str]:
    """How sure it is that passes run to higher addresses (below 0: they do not), and why.

    The filmed part of the I/O shows it. Where that is not known, a pass that runs to lower addresses may be
    the filmed one, and so may one that does not.
    """
    if seen.io is None or seen.aligned is None:
        return RISING_TAKEN, "taking addresses to rise"
    log, frame_0_s = seen.io.log, seen.aligned.frame_0_s
    shown = log.size >= SEQUENTIAL_BYTES
    if frame_0_s is not None and seen.graph.time_s is not None:
        from_s, to_s = frame_0_s + seen.graph.time_s[[0, -1]]
        shown &= (log.complete_ns >= 1e9 * from_s) & (log.submit_ns <= 1e9 * to_s)
    offset, size = log.offset[shown].astype(np.int64), log.size[shown].astype(np.int64)
    rising = int((offset[1:] == offset[:-1] + size[:-1]).sum())
    falling = int((offset[1:] + size[1:] == offset[:-1]).sum())
    if falling >= LEAST_SEQUENTIAL:
        return -1.0, f"passes of the I/O run to lower addresses, in {falling} of {len(offset)} requests"
    share = rising / max(1, len(offset) - 1)
    if not seen.with_io or rising < LEAST_SEQUENTIAL or share <= RISING_TAKEN:
        return RISING_TAKEN, "no sequential pass of the filmed I/O is known; taking addresses to rise"
    return share, f"addresses rise in {rising} of {len(offset) - 1} successive requests"


def _shingling(seen: _Film, pairs: list[tuple[Stroke, Stroke]], order: float, said: str) -> Finding:
    """The way of strokes on the side of the OD and of the ID: where one after the other leads the same way,
    tracks overlap that way."""
    ways: dict[str, list[bool]] = {}
    for pair in pairs:
        ways.setdefault("od" if sum(_ends(*pair)) < 1 else "id", []).append(pair[0].inward)
    ways = {side: inward for side, inward in sorted(ways.items(), reverse=True) if len(inward) >= LEAST_PAIRS}
    if not ways:
        return film_findings.SHINGLING.unknown(
            "the film shows no strokes that jump back and go the same way again"
        )
    seen_ways = ", ".join(
        f"{sum(inward)} of {len(inward)} strokes that follow one of their kind lead inward ({side.upper()})"
        for side, inward in ways.items()
    )
    if any(len(set(inward)) > 1 for inward in ways.values()):
        return film_findings.SHINGLING.unknown(f"{seen_ways}: they contradict each other")
    value: Table = {side: "inward" if inward[0] else "outward" for side, inward in ways.items()}
    confidence = order * seen.confidence(min(len(inward) for inward in ways.values()))
    return film_findings.SHINGLING.found(value, confidence, f"{seen_ways}, {said}")


def _serpentine(
    seen: _Film, turning: list[tuple[Stroke, Stroke]], one_way: list[tuple[Stroke, Stroke]], order: float
) -> Finding:
    """The region in which strokes alternate, and not because a pass runs back over another."""
    if len(turning) < LEAST_PAIRS:
        return film_findings.SERPENTINE.unknown("the film shows no strokes that alternate in direction")
    low, high = _ends(*(stroke for pair in turning for stroke in pair))
    inside = sum(low < sum(_ends(*pair)) / 2 < high for pair in one_way)
    said = f"{len(turning)} strokes between {low:.2f} and {high:.2f} lead against the one before"
    if inside:
        return film_findings.SERPENTINE.unknown(
            f"{said}, and {inside} there lead the same way: they contradict each other"
        )
    value: Table = {"from": round(low, 3), "to": round(high, 3)}
    return film_findings.SERPENTINE.found(value, order * seen.ends * seen.confidence(len(turning)), said)


# --- The arm.


def _arm(seen: _Film) -> Finding:
    """The time of the arm over parts of the stroke, from all whole seeks: a constant, a root and a linear
    part, as `skylight.probe.rotation.seeks` fits to timing."""
    if seen.graph.time_s is None:
        return film_findings.ARM.unknown(seen.graph.capture_why)
    why = seen.no_scale()
    if why is not None:
        return film_findings.ARM.unknown(why)
    whole = [one for one in seen.reading.seeks if one.whole and one.end - one.start >= LEAST_SEEK_FRAMES]
    if len(whole) < LEAST_SEEKS:
        why = f"{len(whole)} whole seeks of the film take {LEAST_SEEK_FRAMES} frames or more"
        return film_findings.ARM.unknown(f"{why}; {LEAST_SEEKS} show a curve")
    way = np.array([abs(seek.way) for seek in whole])
    ends_s = seen.graph.at_s(np.array([(seek.start, seek.end) for seek in whole]))
    times = _times(way, ends_s[:, 1] - ends_s[:, 0])
    said = f"{len(whole)} seeks over {way.min():.2f} to {way.max():.2f} of the stroke"
    if not times:
        return film_findings.ARM.unknown(
            f"{said} scatter too much, or are too alike in length, to show a curve"
        )
    return film_findings.ARM.found(times, seen.ends * seen.confidence(len(whole)), said)


def _times(way: F64, took_s: F64) -> Table:
    """Times over the parts of the stroke that are within the ways seen and determined, ns."""
    columns = _terms(way)
    weights, _, rank, _ = np.linalg.lstsq(columns, took_s, rcond=None)
    if rank < columns.shape[1]:
        return {}
    scatter_s = float(np.sqrt(((columns @ weights - took_s) ** 2).sum() / (len(way) - columns.shape[1])))
    spread = np.linalg.inv(columns.T @ columns)
    times: Table = {}
    for name, part in WAYS.items():
        term = _terms(np.array([part]))[0]
        time_s = float(term @ weights)
        error_s = scatter_s * float(np.sqrt(term @ spread @ term))
        within = way.min() * (1 - BEYOND_SHARE) <= part <= way.max() * (1 + BEYOND_SHARE)
        if within and 2 * error_s <= ARM_WITHIN * time_s:
            times[name] = round(1e9 * time_s)
    return times


def _terms(way: F64) -> F64:
    return np.stack([np.ones(len(way)), np.sqrt(way), way], axis=1)
