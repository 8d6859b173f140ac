"""The search for strokes: where the first and the last end, and the sizes of tracks in those between.

The search asks for the track size at one address after another; each answer decides the next question.

Invariant: deterministic given the answers.
Source: Skylight (FAST '15) section 4.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from skylight.probe.recording_zones.track_sizes import (
    FEWEST_STROKES,
    MOST_HEADS,
    SECTOR_BYTES,
    Pattern,
    Size,
    mean_of,
    mirrored,
    rises,
)

Ask = Callable[[float], Size | None]

EVEN = 16
GROWTH = 1.8  # less than two strokes, so that the one behind the first is met
FIRST_STEP_BYTES = 16 << 20
LAST_STEP = 1 / 64
"""Of the second stroke, that the last is looked at in first. Chosen: few last strokes are cut so short, and
each place there is asked for several times."""
FINE = 0.015
BEGINS = (0.0, 3e5, 6e5)  # bytes from the end, where the first track is looked at
AGAIN = 0.996  # of a distance: close by, in other tracks
EXACT = 3.0  # standard errors that must lie within half of a known difference
INSIDE = (0.15, 0.35, 0.55, 0.75, 0.9)
LARGEST_PART = 0.5
MOST_STROKES = 3 * MOST_HEADS
CUT = 0.95  # a first stroke shorter than so much of a whole one was cut: the drive keeps what is missing
MERGED = (1, 2, 3)  # strokes of surfaces so alike that the second seems so many times as long
SLACK = 0.1
ROUNDED = 2.0  # sectors by which tracks of two surfaces may differ and hold as many, when in doubt
REST_TO = 0.07  # how well what is left of two strokes must be known
MOST_REPEATS = 10
MOST_ASTRAY = 2
"""Of these, where no size can be fitted: a host that is late once in a hundred reads spoils single places."""
MOST_TURNS = 4  # strokes as long as the first that the search may jump to
ASIDE = 0.4  # of a stroke
MOST_CHECKED = 8
"""Strokes: places of them are known to `FINE` each, which adds up to an eighth of one."""


@dataclass(slots=True)
class Walk:
    """What the search found: every size, the first and the last stroke's bytes, the sizes of strokes."""

    every: list[Size] = field(default_factory=list)
    first_bytes: float | None = None
    last_bytes: float | None = None
    strokes: list[Size] = field(default_factory=list)
    pattern: Pattern | None = None
    unit: float = 0.0
    """Bytes of the second stroke, a whole one."""

    @property
    def uneven(self) -> bool:
        """Whether tracks become longer with rising addresses in several places: surfaces differ."""
        return rises(self.every) >= 3


def walk(ask: Ask, size_bytes: float, found: Walk | None = None) -> Walk:
    """Looks for plateaus on a drive of that size, and puts into `found` what it comes upon as it does."""
    found = Walk() if found is None else found

    def asked(at: float) -> Size | None:
        size = ask(at)
        if size is not None:
            found.every.append(size)
        return size

    for number in range(EVEN):
        asked(size_bytes * (number + 0.5) / EVEN)
    _search(asked, size_bytes, found)
    if found.pattern is not None:
        apart = found.pattern.apart
        step = max(FIRST_STEP_BYTES, LAST_STEP * found.unit)
        last = stroke(_careful(asked, apart), size_bytes, backward=True, apart=apart, step=step)
        found.last_bytes = None if last is None else _without_one_alike(last, found, size_bytes)
    return found


def _without_one_alike(last: float, found: Walk, size_bytes: float) -> float | None:
    """The last stroke, of which `last` bytes were seen. Where surfaces differ by so little that tracks of two
    may hold as many sectors, one longer than a whole stroke is two of them, the first of them a whole one.
    None where the rest is not known well enough."""
    behind = [size.track_bytes for size in found.every if size.at > size_bytes - last]
    if found.pattern is None or not behind:
        return None
    track = float(np.median(behind))
    whole = found.unit * track / found.strokes[1].track_bytes
    if found.pattern.apart > ROUNDED * SECTOR_BYTES / track or last <= (1 + SLACK) * whole:
        return last
    rest = last - whole
    return rest if FINE / 2 * (last + whole) <= REST_TO * rest and rest <= (1 - SLACK) * whole else None


def _search(ask: Ask, size_bytes: float, found: Walk) -> None:
    """The first stroke, how long a whole one is, and the strokes behind it."""
    found.first_bytes = stroke(ask, size_bytes, backward=False)
    if found.first_bytes is None:
        return
    begun = found.first_bytes
    second = _second(ask, size_bytes, begun)
    if second is None:
        return
    here, near, tracks = second
    for parts in MERGED:
        unit = tracks / parts * here
        hidden = max(0, math.ceil(begun / unit - SLACK) - 1)  # strokes merged with the first
        if not hidden:
            unit = tracks / parts * near
        strokes, pattern = _strokes(ask, size_bytes, begun - hidden * unit, unit)
        if not found.strokes or pattern is not None:
            found.strokes = strokes
        if len(strokes) == FEWEST_STROKES and rises(strokes, 0.0) == 0:
            return
        if pattern is None or not _even(ask, strokes[: max(pattern.count, _checked(pattern))], unit):
            continue
        if not pattern.in_groups(parts):
            found.pattern, found.first_bytes, found.unit = pattern, begun - hidden * unit, unit
        return


def _second(ask: Ask, size_bytes: float, first: float) -> tuple[float, float, float] | None:
    """Bytes of a track of the first stroke and of the one behind it, and tracks of that one: the first may be
    cut short by what the drive keeps before it."""
    here, near = ask(0.5 * first), ask(1.1 * first)
    if here is None or near is None:
        return None
    like = first * near.track_bytes / here.track_bytes
    sizes = [ask(first + part * like) for part in (0.5, 1 - FINE, 1 + FINE)]
    if all(size is not None and size.same(near) for size in sizes[:2]):
        behind = sizes[2]
        if behind is not None and not behind.same(near):
            return here.track_bytes, near.track_bytes, like / near.track_bytes
    unit = stroke(ask, size_bytes, backward=False, start=first, step=first / 4)
    return None if unit is None else (here.track_bytes, near.track_bytes, unit / near.track_bytes)


def _checked(pattern: Pattern) -> int:
    """How many strokes are looked at, whether they hold one size: those of two zones of few surfaces. Those
    alike look like one with strokes twice as long, which nothing shows in the first zone; in the next, where
    the walk turns back, one of them lies in two zones. Farther strokes are not known well enough in place."""
    return min(2 * pattern.count, MOST_CHECKED)


def _even(ask: Ask, strokes: list[Size], unit: float) -> bool:
    """Whether each stroke holds one track size only: else it is several, and the pattern an accident."""
    for middle in strokes[1:]:
        length = unit * middle.track_bytes / strokes[1].track_bytes
        for part in (-0.27, 0.27):
            sizes = (
                ask(middle.at + near * part * length) for near in (1.0, 0.95)
            )  # a fit may go astray once
            if not any(size is not None and size.same(middle) for size in sizes):
                return False
    return True


def _careful(ask: Ask, apart: float) -> Callable[[float], Size | None]:
    """Asks close by until a size is known well enough to tell sizes `apart` (relative) from each other, or to
    tell it from the first size that was asked for."""
    first: list[Size] = []

    def asked(at: float) -> Size | None:
        sizes: list[Size] = []
        astray, track = 0, 0.0
        while len(sizes) + astray < MOST_REPEATS and astray <= MOST_ASTRAY:
            number = len(sizes) + astray
            size = ask(at + 0.31 * (number + 1) // 2 * (-1) ** number * track)
            if size is None:
                astray += 1
                continue
            track = track or size.track_bytes
            sizes.append(size)
            mean = mean_of(sizes)
            if apart / 2 >= EXACT * mean.error or (first and _differs(mean, first[0], apart)):
                first.append(mean)
                return mean
        return None

    return asked


def _differs(size: Size, other: Size, apart: float) -> bool:
    """Whether two sizes plainly differ by more than half of what strokes are `apart` (relative)."""
    off = abs(size.track_bytes / other.track_bytes - 1.0) - apart / 2
    return off >= EXACT * math.hypot(size.error, other.error)


def stroke(
    ask: Ask,
    size_bytes: float,
    *,
    backward: bool,
    apart: float | None = None,
    start: float = 0.0,
    step: float = FIRST_STEP_BYTES,
) -> float | None:
    """Bytes from one end of the drive, or from `start`, to where the track size first changes.

    `apart` is how far the sizes of strokes beside each other are known to differ at least (relative): half of
    it tells them apart, and answers have to be that exact."""

    def at(distance: float) -> Size | None:
        return ask(size_bytes - distance if backward else start + distance)

    begins = [at(step / 4 + near if start else near) for near in BEGINS]
    given = sorted((size for size in begins if size is not None), key=lambda size: size.track_bytes)
    if len(given) < len(BEGINS):
        return None
    alike = [given[len(given) // 2]]  # one fit may go astray
    accepted = [0.0]

    def inside_with(size: Size) -> bool:
        begin = mean_of(alike)
        same = (
            size.same(begin) if apart is None else abs(size.track_bytes / begin.track_bytes - 1) < apart / 2
        )
        if same and apart is None:
            alike.append(size)
        return same

    def within(distance: float) -> bool | None:
        """Whether the track there is as long as at the begin; that it is not has to be seen twice."""
        for near in (distance, AGAIN * distance):
            size = at(near)
            if size is None or inside_with(size):
                accepted.append(distance)
                return None if size is None else True
        return False

    outside = step
    while (here := within(outside)) is not False:
        outside *= GROWTH
        if here is None or outside > LARGEST_PART * size_bytes:
            return None
    for _ in range(MOST_TURNS):
        inside = max(distance for distance in accepted if distance < outside)
        edge = _edge(within, inside, outside)
        if edge is None:
            return None
        checks = [(edge * part, within(edge * part)) for part in INSIDE]
        if any(here is None for _, here in checks):
            return None
        beyond = [distance for distance, here in checks if not here]
        if not beyond:
            return edge
        if apart is not None:
            return None  # a size that is known so well does not go astray
        outside = min(beyond)  # tracks of a stroke further on are as long as those of the first
    return None


def _edge(within: Callable[[float], bool | None], inside: float, outside: float) -> float | None:
    """Where tracks cease to be as long as at the begin, between these; None where a size cannot be told."""
    while outside - inside > FINE * outside:
        middle = (inside + outside) / 2
        here = within(middle)
        if here is None:
            return None
        inside, outside = (middle, outside) if here else (inside, middle)
    return (inside + outside) / 2


def _strokes(ask: Ask, size_bytes: float, first: float, unit: float) -> tuple[list[Size], Pattern | None]:
    """Sizes in the middle of one stroke after another, behind a first one of `first` bytes, until a pattern
    explains them. `unit` is the bytes of the second."""
    strokes: list[Size] = []
    begin, length = 0.0, first
    while len(strokes) < MOST_STROKES and begin + length < size_bytes:
        size = ask(begin + length / 2) or ask(begin + ASIDE * length)  # a fit may go astray once
        if size is None:
            return strokes, None
        strokes.append(size)
        begin += length * (size.track_bytes / strokes[1].track_bytes if len(strokes) > 2 else 1.0)
        length = unit
        if len(strokes) >= FEWEST_STROKES:
            cut = first < CUT * unit * strokes[0].track_bytes / strokes[1].track_bytes
            pattern = mirrored(strokes, cut=cut, last=len(strokes) > FEWEST_STROKES)
            if pattern is not None:
                return strokes, pattern
            if len(strokes) == FEWEST_STROKES and rises(strokes, 0.0) == 0:
                return strokes, None
    return strokes, None
