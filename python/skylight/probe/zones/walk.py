"""The search for strokes: where the first and the last end, and the sizes of tracks in those between.

The search asks for the track size at one address after another; each answer decides the next question. The
same walk is done twice, with leave to read while measuring, and over the recording while inferring: it asks
for the same addresses in the same order.

Invariant: deterministic given the answers.
Source: Skylight (FAST '15) section 4.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skylight.probe.zones.sizes import FEWEST_STROKES, MOST_HEADS, Pattern, Size, mean_of, mirrored, rises

Ask = Callable[[float], Size | None]

EVEN = 16
GROWTH = 1.8  # less than two strokes, so that the one behind the first is met
FIRST_STEP_BYTES = 16 << 20
FINE = 0.015
EXACT = 3.0  # standard errors that must lie within half of a known difference
INSIDE = (0.15, 0.35, 0.55, 0.75, 0.9)
LARGEST_PART = 0.5
MOST_STROKES = 2 * MOST_HEADS


@dataclass(slots=True)
class Walk:
    """What the search found: every size, the first and the last stroke's bytes, the sizes of strokes."""

    every: list[Size] = field(default_factory=list)
    first_bytes: float | None = None
    last_bytes: float | None = None
    strokes: list[Size] = field(default_factory=list)
    pattern: Pattern | None = None

    @property
    def uneven(self) -> bool:
        """Whether tracks become longer with rising addresses in several places: surfaces differ."""
        return rises(self.every) >= 3


def walk(ask: Ask, size_bytes: float) -> Walk:
    """Looks for plateaus on a drive of that size."""
    found = Walk()

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
        found.last_bytes = stroke(_thrice(asked), size_bytes, backward=True, apart=apart)
    return found


def _search(ask: Ask, size_bytes: float, found: Walk) -> None:
    """The first stroke, and the strokes behind it."""
    found.first_bytes, found.strokes = stroke(ask, size_bytes, backward=False), []
    if found.first_bytes is not None:
        _strokes(ask, size_bytes, found)


def _thrice(ask: Ask) -> Ask:
    """Asks three times close by, for an answer with a smaller error."""

    def asked(at: float) -> Size | None:
        sizes = [ask(at)]
        if sizes[0] is not None:
            sizes += [ask(at + shift * sizes[0].track_bytes) for shift in (-0.31, 0.31)]
        given = [size for size in sizes if size is not None]
        return mean_of(given) if len(given) == len(sizes) and given else None

    return asked


def stroke(ask: Ask, size_bytes: float, *, backward: bool, apart: float | None = None) -> float | None:
    """Bytes from one end of the drive to where the track size first changes.

    `apart` is how far the sizes of strokes beside each other are known to differ at least (relative): half of
    it tells them apart, and where answers are not that exact there is none."""

    def at(distance: float) -> Size | None:
        return ask(size_bytes - distance if backward else distance)

    begin = at(0.0)
    inside, step = 0.0, float(FIRST_STEP_BYTES)
    if begin is None or (apart is not None and apart / 2 < EXACT * begin.error):
        return None

    def inside_with(size: Size) -> bool:
        if apart is None:
            return size.same(begin)
        return abs(size.track_bytes / begin.track_bytes - 1) < apart / 2

    while True:
        if step > LARGEST_PART * size_bytes:
            return None
        size = at(step)
        if size is None:
            return None
        if not inside_with(size):
            break
        inside, step = step, step * GROWTH
    outside = step
    while outside - inside > FINE * outside:
        middle = (inside + outside) / 2
        size = at(middle)
        if size is None:
            return None
        if inside_with(size):
            inside = middle
        else:
            outside = middle
    checks = [at(outside * part) for part in INSIDE]
    if any(size is None or not inside_with(size) for size in checks):
        return None
    return (inside + outside) / 2


def _strokes(ask: Ask, size_bytes: float, found: Walk) -> None:
    """Sizes in the middle of one stroke after another, as long as the first says how long they are and no
    pattern explains them."""
    first = found.first_bytes or 0.0
    begin = 0.0
    while len(found.strokes) < MOST_STROKES and begin + first < size_bytes:
        size = ask(begin + first / 2)
        if size is None:
            return
        found.strokes.append(size)
        begin += first * size.track_bytes / found.strokes[0].track_bytes
        if len(found.strokes) >= FEWEST_STROKES:
            found.pattern = mirrored(found.strokes)
            if found.pattern is not None:
                return
            if len(found.strokes) == FEWEST_STROKES and rises(found.strokes, 0.0) == 0:
                return
