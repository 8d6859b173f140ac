"""What pieces of the addresses say beside the size of tracks: how many are whole tracks, whether two places
agree, and whether those all over a drive are in a line or an order.

Invariant: pure functions of fitted tracks.

Source: docs/tests/rotation.md, "How it decides".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import NormalDist

import numpy as np

from skylight.evidence import F64, IoLog
from skylight.infer.robust import NORMAL_MEDIAN, median_slope, never_falling, ranks
from skylight.infer.track_phases import Tracks
from skylight.probe.rotation.findings import TRACK_RIGHT

PART_TURNS, MOST_PARTS = 0.75, 1
"""A piece shorter than that is a part of a track, and so many of those within the few tracks in the middle of
the drive come from an end of a band: two more at the end of the drive come from a log."""
WHOLE_TURNS, LEAST_WHOLE = 0.85, 0.5
"""A piece of so many revolutions is a whole track: its first and its last block are hardly ever read. Chosen:
of nine recordings of single disks (four random drives, ideal and drawn, and a profile) at least two thirds of
what is read lie in such pieces; of stripes of 1 MiB over three disks a fifth."""

MOST_GROWTH, GROWTH_ERRORS = 0.01, 3.0
"""How much larger, and by how many errors, tracks close by may be: behind the start larger ones are there
only where it was moved, or where surfaces differ. Chosen: half of what is right, and for two places a chance
of one in 370."""
SAFETY = 2.0
"""Times a standard error that a finding allows for (`rotation.verdict`), which a bound needs no more."""
LEAST_BESIDE, MOST_BESIDE, FEWEST_BESIDE = 0.05, 0.15, 4
"""How far from the middle, as parts of all addresses, tracks beside it are looked at, and how many pairs of
these there are, one on either side: two places on each."""
LARGEST_STEP = 0.1
"""From one recording zone to the next, or one surface to another, relative. Chosen: tracks at the outer
diameter hold twice as much as at the inner, in a dozen zones or more; densities of surfaces differ by a few
per cent."""
SURFACES_DIFFER, FEWEST_LARGER = 0.1, 3
"""How much larger tracks anywhere may be than those at the start, which is at the outer diameter, and at how
many places they have to be. Surfaces whose densities differ do so by a few per cent."""
MOST_UNORDERED, FEWEST_UNORDERED = 0.03, 2
"""How far places may be off the order of sizes, and how many have to be farther for data to have been moved
about. Chosen: sizes are known to 1 % at most places, and one place may lie amid two zones."""
FEWEST_ALL = 16  # places all over the drive, of about forty
MOST_OUT = 0.25
"""The part of places that may lie in a cache. Chosen: of random drive 100180, whose cache holds what other
tests wrote, it was a sixth, of 100586, which moves blocks anywhere within its halves, over a third."""
FEWEST_ORDERED = 12
BY_CHANCE, LEAST_RANGE = 0.01, 0.05
"""The chance from which on track sizes may be in no order (rank version of von Neumann's ratio), and the
range of sizes below which there is none to be seen. A file in random pieces passes for ordered once in
100."""
LINE_SURE = 0.99  # chosen: how sure the interval of the line's slope is
LEAST_BREAK, BREAK_ERRORS = 0.05, 3.0
"""By how much, and by how many standard deviations of squares of sizes about their line, tracks of the end
may be off it. Chosen: a recording zone is off by half its step at most, less than two deviations of steps."""
LEAST_BEHIND, FEWEST_BEHIND = 0.04, 8
"""From which part of the addresses on places say how large tracks are at the start, and how many do. Chosen:
what others wrote at the start is a few per cent of a drive."""
FURTHER_IN = 0.3
"""Of what they may be off it, as far as they are smaller. Chosen: on 64 drives at home they were 0.23 at
most, on three where they lay in a cache further in 0.30, 0.56 and 0.81; where surfaces differ that line is
known to a tenth only."""


def as_large(one: Tracks, other: Tracks) -> bool:
    """Whether tracks of two places are as large, as far as is known."""
    error = hypot(one.slope_error / one.slope, other.slope_error / other.slope)
    return abs(one.slope / other.slope - 1.0) <= max(MOST_GROWTH, GROWTH_ERRORS * error)


def are_larger(places: list[Tracks], start: Tracks, fewest: int = FEWEST_LARGER) -> bool:
    """Whether tracks at several places all over the drive are larger than at its start, plainly."""
    larger = [place for place in places if start.slope / place.slope - 1.0 > SURFACES_DIFFER]
    return len(larger) >= fewest


def start_between(start: Tracks, behind: list[Tracks]) -> Tracks:
    """Tracks of the size at the first address, where those at the start are larger than at all places behind.

    Either a zone ends between, or what was written at the start was moved to where tracks are larger, as to a
    surface of another density. The mean of both sizes is off by half of what they differ by at most."""
    if not behind or any(as_large(start, each) for each in behind):
        return start
    falls = min(1.0 - each.track_bytes / start.track_bytes for each in behind)
    return start if falls <= 0.0 else _smaller(start, falls / 2, falls / 2 / SAFETY)


def led_on(middle: Tracks, end: Tracks, part: float, off: float = 0.0) -> Tracks:
    """Tracks of the size at the last address from those measured a `part` of all before it: squares of sizes
    fall evenly from the middle on. By how much they do is not known to more than a half, as zones end, and
    the last address may lie in another zone or on another surface: sizes are `off` their line (relative)."""
    fall = max((middle.track_bytes / end.track_bytes) ** 2 - 1.0, 0.0) * part / (0.5 - part)
    falls = 1.0 - sqrt(max(1.0 - fall, 0.0))
    return _smaller(end, falls, hypot(falls / 2, off))


def off_their_line(part: F64, size: F64, errors: list[float]) -> float:
    """How far sizes of places are off the line of their squares (relative), beside the `errors` that they are
    known with: the steps of zones, and what surfaces differ by."""
    slope, _, _ = median_slope(size**2, part, LINE_SURE)
    square = size**2 - slope * part
    off = size / np.sqrt(np.maximum(float(np.median(square)) + slope * part, 1.0)) - 1.0
    scatter = float(np.median(np.abs(off))) / NORMAL_MEDIAN
    return sqrt(max(scatter**2 - float(np.median(errors)) ** 2, 0.0)) if errors else scatter


def _smaller(tracks: Tracks, falls: float, error: float) -> Tracks:
    """Tracks smaller by a part of their size, give or take another."""
    slope = tracks.slope / (1.0 - falls)
    return replace(tracks, slope=slope, slope_error=slope * hypot(tracks.slope_error / tracks.slope, error))


@dataclass(frozen=True, slots=True)
class Line:
    """The line through squares of track sizes of places: the square at the last address, what it may be more
    and less there, and the scatter of places about it."""

    at_end: float
    more: float
    less: float
    scatter: float


def line_of(part: F64, size: F64) -> Line:
    """That line (parts of all addresses, and bytes of a track there)."""
    slope, least, most = median_slope(size**2, part, LINE_SURE)
    level = float(np.median(size**2 - slope * part))
    scatter = float(np.median(np.abs(size**2 - level - slope * part))) / NORMAL_MEDIAN
    behind = 1.0 - float(np.median(part))
    return Line(level + slope, behind * (most - slope), behind * (slope - least), scatter)


def off_line(part: F64, size: F64, end_bytes: float) -> float:
    """How far squares of tracks of the end are above the line through those of places, in parts of the most
    that they may be: what places are off it, and how far it may be off itself behind the last of them, which
    where surfaces differ is as much."""
    line = line_of(part, size)
    above = end_bytes**2 - line.at_end
    line_off = line.more if above > 0 else line.less
    return above / (max(BREAK_ERRORS * line.scatter, 2 * LEAST_BREAK * line.at_end) + line_off)


def starts_below(places: list[Tracks], whole_bytes: int, start: Tracks) -> bool:
    """Whether tracks at the start are smaller than those of places up to the middle lead to, by more than
    from one recording zone to the next and by more than that line may be off: what lies there was moved
    further in. Squares of sizes fall evenly with the address."""
    found = [(float(place.begin[0]) / whole_bytes, place.track_bytes) for place in places]
    line = np.array([place for place in found if LEAST_BEHIND <= place[0] <= 0.5]).reshape(-1, 2)
    if len(line) < FEWEST_BEHIND:
        return False
    before, size = 1.0 - line[:, 0], line[:, 1]  # as if the start were the end
    smaller = start.track_bytes < (1 - LARGEST_STEP) * sqrt(max(line_of(before, size).at_end, 0.0))
    return smaller and off_line(before, size, start.track_bytes) < -1.0


def starts_below_all(part: F64, size: F64, start: Tracks) -> bool:
    """Whether tracks at the start are smaller than those of places all over the drive lead to (parts of all
    addresses, and bytes of a track there), by more than half a zone and more than that line may be off.

    Where data may be moved anywhere within a part of the drive, all places of that part may have been, and a
    line of these alone shows nothing. The line of all places holds as long as most of them are at home: one
    through the middles of zones is off by half a zone at the start, and what zones and surfaces are off it
    beside that is its scatter."""
    known = part >= LEAST_BEHIND
    if np.count_nonzero(known) < FEWEST_ALL:
        return False
    before, size = 1.0 - part[known], size[known]  # as if the start were the end
    smaller = start.track_bytes < (1 - LARGEST_STEP / 2) * sqrt(max(line_of(before, size).at_end, 0.0))
    return smaller and off_line(before, size, start.track_bytes) < -1.0


def differs(place: Tracks, other: Tracks) -> bool:
    """Whether tracks of two places differ by more than is right, and plainly."""
    return not as_large(place, other) and abs(place.slope / other.slope - 1.0) > TRACK_RIGHT.part


def is_among(middle: Tracks, around: list[Tracks], fewest: int) -> bool:
    """Whether tracks at an address are as large as some of the places around it at least, the half of them
    before it and the others behind, or as all on one side where a zone ends beside: sizes fall. Tracks that
    were moved to where they are off by less than is right are of the right size all the same."""
    alike = [not differs(place, middle) for place in around]
    half = len(around) // 2
    ends = half > 0 and all(alike[:half]) and all(place.slope > middle.slope for place in around[half:])
    begins = half > 0 and all(alike[half:]) and all(place.slope < middle.slope for place in around[:half])
    return sum(alike) >= fewest or (len(around) > fewest and (ends or begins))


def agreed(around: list[Tracks], fewest: int) -> Tracks | None:
    """Those tracks that some of the places around an address at least are as large as; None where so few
    agree."""
    alike = {at: sum(as_large(each, other) for other in around) for at, each in enumerate(around)}
    most = max(alike, key=lambda at: alike[at], default=None)
    return None if most is None or alike[most] < fewest else around[most]


def stroke_between(
    part: F64, size: F64, start: Tracks, ends: tuple[Tracks, Tracks]
) -> tuple[float, float] | None:
    """The part of the stroke between two places, and its error: sizes of tracks go with the radius, and the
    last address is where sizes of places lead to. None where these are in no line."""
    line = line_of(part, size)
    if not line.at_end > 0 or line.scatter > 2 * LEAST_BREAK * float(np.median(size**2)):
        return None
    last = sqrt(line.at_end)
    inner, outer = sorted(ends, key=lambda tracks: tracks.track_bytes)
    whole = max(start.track_bytes, outer.track_bytes) - last
    if not whole > 0:
        return None
    errors = [tracks.slope_error / tracks.slope * tracks.track_bytes for tracks in (inner, outer)]
    error = hypot(*errors, line.scatter / (2 * last)) / whole
    return (outer.track_bytes - inner.track_bytes) / whole, error


def led_to(part: F64, size: F64) -> tuple[float, float]:
    """Bytes of a track at the last address, as places (parts of all addresses, and bytes of a track there)
    lead there, and their standard error: by how much a place is off the line, and what the slope leaves open.

    >>> part = np.linspace(0.5, 0.94, 12)
    >>> size, error = led_to(part, 1e6 * np.sqrt(1.0 - 0.64 * part))
    >>> round(size), round(error)
    (600000, 0)
    """
    line = line_of(part, size)
    open_slope = (line.more + line.less) / (2.0 * NormalDist().inv_cdf((1.0 + LINE_SURE) / 2.0))
    last = sqrt(max(line.at_end, 1.0))
    return last, hypot(line.scatter, open_slope) / (2.0 * last)


def is_in_line(off: float) -> bool:
    """Whether tracks of the end are as large as those from the middle on lead to, by `off_line`.

    >>> is_in_line(0.9), is_in_line(-0.2), is_in_line(-0.6)
    (True, True, False)
    """
    return -FURTHER_IN <= off <= 1.0


def is_between(middle_bytes: float, places: list[tuple[float, float]], *, unseen: bool = True) -> bool:
    """Whether tracks in the middle are between those beside it (parts of all addresses from the middle on,
    and bytes of a track there), as far as these are in line; `unseen` where they are too few."""
    beside: tuple[list[tuple[float, float]], ...] = ([], [])
    for part, size in places:
        if LEAST_BESIDE <= abs(part) <= MOST_BESIDE:
            beside[part > 0].append((part, size))
    between = np.array([
        size + (other - size) * part / (part - there)
        for part, size in beside[0] for there, other in beside[1]
    ])  # fmt: skip
    if len(between) < FEWEST_BESIDE:
        return unseen
    open_bytes = max(float(np.ptp(between)) / 2, middle_bytes * MOST_GROWTH)
    return abs(middle_bytes - float(np.median(between))) <= GROWTH_ERRORS * open_bytes


def is_out_of_order(places: list[Tracks]) -> bool:
    """Whether tracks at many places are off the nearest order in which sizes only fall, by more than zones
    and surfaces of different density make them."""
    return int(np.count_nonzero(_off_order(places) > LARGEST_STEP)) > MOST_OUT * len(places)


def some_were_moved(places: list[Tracks]) -> bool:
    """Whether tracks at some places are off that order by more than the errors of sizes: then others, whose
    sizes are looked at, may have been moved by as little as a zone, which no line shows. By a coarse clock
    sizes of single places are known to one or two per cent."""
    error = [place.slope_error / place.slope for place in _by_address(places)]
    most = np.maximum(MOST_UNORDERED, GROWTH_ERRORS * np.array(error, np.float64))
    return int(np.count_nonzero(_off_order(places) > most)) >= FEWEST_UNORDERED


def _by_address(places: list[Tracks]) -> list[Tracks]:
    return sorted(places, key=lambda tracks: float(tracks.begin[0]))


def _off_order(places: list[Tracks]) -> F64:
    """How far tracks of each place are off the nearest order in which sizes only fall, as a part of those."""
    size = np.array([tracks.track_bytes for tracks in _by_address(places)], np.float64)
    if len(size) == 0:
        return size
    return np.abs(size / never_falling(size[::-1], np.ones(len(size)))[::-1] - 1.0)


def are_shuffled(places: list[Tracks]) -> bool:
    """Whether track sizes of places rise and fall with the address as on no disk."""
    size = np.array([tracks.track_bytes for tracks in _by_address(places)])
    if len(size) < FEWEST_ORDERED or float(np.ptp(size)) < LEAST_RANGE * float(size.max()):
        return False
    return _chance_of_no_order(size) > BY_CHANCE


def _chance_of_no_order(values: F64) -> float:
    """The chance that values in random order differ as little from their neighbours.

    Bartels, "The rank version of von Neumann's ratio test for randomness", JASA 1982: normal about 2 beyond
    ten values."""
    count = len(values)
    rank = ranks(values)
    ratio = float((np.diff(rank) ** 2).sum() / ((rank - rank.mean()) ** 2).sum())
    variance = 4 * (count - 2) * (5 * count**2 - 2 * count - 9) / (5 * count * (count + 1) * (count - 1) ** 2)
    return NormalDist().cdf((ratio - 2) / variance**0.5)


def is_mostly_whole(tracks: Tracks) -> bool:
    """Whether most of all pieces, but the first and the last, is whole tracks; also where there are no
    others."""
    turns = tracks.turns()[1:-1]
    whole = float(turns[turns >= WHOLE_TURNS].sum() / turns.sum()) if turns.sum() > 0 else 1.0
    return whole >= LEAST_WHOLE


def has_whole(tracks: Tracks) -> bool:
    """Whether a whole track is among the pieces: of pieces of a log alone, what is fitted is a guess."""
    return bool((tracks.turns() >= WHOLE_TURNS).any())


def parts(tracks: Tracks) -> int:
    """Pieces, but the first and the last, that are no whole track. One read alone is no piece: the host, or
    another command, made it late."""
    is_part = (tracks.turns() < PART_TURNS) & (tracks.count > 1)
    return int(np.count_nonzero(is_part[1:-1]))


def first_pieces(tracks: Tracks, count: int) -> Tracks:
    """The first pieces alone."""
    return replace(
        tracks, begin=tracks.begin[:count], end=tracks.end[:count], level=tracks.level[:count],
        count=tracks.count[:count],
    )  # fmt: skip


def rows_of(log: IoLog, first: int, last: int) -> IoLog:
    """Some rows of a log."""
    return log.rows(slice(first, last))
