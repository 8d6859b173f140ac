"""Recording zones: where the size of tracks changes, by prediction and halving, never by scanning.

A *stretch* is a run of sectors on which one grid of tracks holds. Between two stretches whose grids differ
lies at least one edge. If whole tracks meet there, the edge ends a track of one grid and begins one of the
other, which only few sectors do; such a sector near the middle is tried, from both sides. Where it is none,
one side says in which half to go on; where neither holds, another zone lies between, and it is surveyed.

Invariants: two neighbouring zones of a table have different track sizes; every grid was surveyed; an edge
that is `exact` was seen from both sides, any other is known to the tracks it says.

Source: DIG (Gim and Won, ACM TOS 6(2), 2010) for zones by halving; the meeting of two grids is the Chinese
remainder theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from skylight.geometry.clock import Platter
from skylight.geometry.holds import Skews, begins, holds, last_start
from skylight.geometry.strokes import STEPS, expanded, pattern, rises, stroke_tracks
from skylight.geometry.survey import CONFIRM_TRACKS, Grid, survey
from skylight.geometry.walk import MOST_HEADS

NODES = 9
MARGIN, WIDE_MARGIN = 0.02, 0.1
FEW = 64  # candidates for an edge that are worth trying one by one
CLOSE_TRACKS = 3
TRIES = (0, 5, -7, 16, 31)
MOST_STEPS = 80
SPARE_TRACKS = 6
LAST_PLACES = (8, 40, 200)  # tracks before the last sector: a last zone may be too short for a survey
LEAST_ROOM = 5  # tracks that a survey needs


@dataclass(frozen=True, slots=True)
class Stretch:
    """Sectors `low` to `high` on which a grid holds."""

    low: int
    high: int
    grid: Grid


@dataclass(frozen=True, slots=True)
class Edge:
    """Where one zone ends and the next begins; within `doubt` sectors."""

    sector: int
    doubt: int


@dataclass(frozen=True, slots=True)
class ZoneRun:
    """A zone: its first sector and the one past its last, its grid, and the doubt (sectors) of its begin."""

    begin: int
    end: int
    grid: Grid
    doubt: int


def meeting(left: Grid, right: Grid, low: int, high: int) -> tuple[int, int, int]:
    """The sectors between `low` and `high` that begin a track of both grids: first, step, how many."""
    shared = gcd(left.track, right.track)
    step = left.track * right.track // shared
    if (right.first - left.first) % shared:
        return 0, step, 0
    reduced = right.track // shared
    times = (
        (right.first - left.first) // shared * pow(left.track // shared, -1, reduced) if reduced > 1 else 0
    )
    first = left.first + left.track * (times % reduced)
    first += -((first - low - 1) // step) * step if first > low else -(-(low + 1 - first) // step) * step
    return first, step, max(0, (high - 1 - first) // step + 1)


def _end_of(outcome: Edge | ZoneRun | None, right: Stretch) -> int:
    """Up to where a stretch is thought to go on, once it is known what follows it."""
    if isinstance(outcome, ZoneRun):
        return outcome.begin
    return right.high if outcome is None else outcome.sector


class ZoneSearch:
    """The search for all zones of a target."""

    def __init__(self, platter: Platter, skews: Skews, tell: Callable[[float], None] | None = None) -> None:
        """Reads through `platter`; `tell` is given the part of the sectors that is settled."""
        self._platter = platter
        self._skews = skews
        self._tell = tell
        self.stretches: list[Stretch] = []
        self.edges: list[Edge] = []
        self._tried: set[int] = set()
        self._held: set[int] = set()
        self.untold = 0  # sectors at the end whose tracks are too few for their size

    def surveyed(self, place: int, low: float, high: float) -> Stretch | None:
        """The stretch around a place, or around others nearby."""
        for number, shift in enumerate(TRIES):
            margin = MARGIN if number < 2 else WIDE_MARGIN
            at = place + int(shift * low)
            grid = survey(self._platter, at, low * (1 - margin), high * (1 + margin), self._skews.seen)
            if grid is not None:
                return Stretch(grid.first, grid.first + grid.track, grid)
        return None

    def run(self, first: Grid) -> list[ZoneRun]:
        """All zones, from one grid at the first address."""
        platter = self._platter
        platter.sharpen(first.first, first.track)
        start = Stretch(0, first.first + first.track, first)
        places = (platter.sectors - tracks * first.track for tracks in LAST_PLACES)
        found_last = (self.surveyed(at, 0.3 * first.track, 1.02 * first.track) for at in places if at > 0)
        end = next((found for found in found_last if found is not None), None)
        nodes = [start]
        if end is not None:
            inner = [platter.sectors * number // (NODES - 1) for number in range(1, NODES - 1)]
            known = [start, end]
            for place in sorted(inner, key=lambda place: abs(place - platter.sectors // 2)):
                known.sort(key=lambda stretch: stretch.low)
                after = next(s for s in known if s.low > place)
                before = known[known.index(after) - 1]
                low, high = sorted((before.grid.track, after.grid.track))
                found = self.surveyed(place, low, high)
                if found is not None:
                    known.append(found)
            nodes = sorted(known, key=lambda stretch: stretch.low)
        platter.sharpen(first.first, first.track)
        self.stretches, self.edges = [nodes[0]], []
        for node in nodes[1:]:
            self._join(node)
        self._mended()
        self._ended()
        platter.sharpen(first.first, first.track)
        return self._zones()

    def _join(self, right: Stretch) -> None:
        """Settles what lies between the last stretch and one after it."""
        ahead = [right]
        while ahead:
            left, right = self.stretches[-1], ahead[-1]
            outcome = self._foretold(left, right) or self._between(self.stretches[-1], right)
            if isinstance(outcome, Stretch):
                ahead.append(outcome)
                continue
            hidden = self._hidden(left, _end_of(outcome, right))
            if hidden is not None:
                ahead.append(hidden)
                continue
            if isinstance(outcome, ZoneRun):
                self._settle(left, Stretch(outcome.begin, outcome.end, outcome.grid), Edge(outcome.begin, 0))
                continue
            ahead.pop()
            if outcome is None:
                self.stretches[-1] = Stretch(left.low, right.high, left.grid)
            else:
                self._settle(left, right, outcome)
            if self._tell is not None:
                self._tell(right.high / self._platter.sectors)

    def _settle(self, left: Stretch, right: Stretch, edge: Edge) -> None:
        """Takes an edge between the last stretch and the next one."""
        self.stretches[-1] = replace(left, high=edge.sector)
        self.stretches.append(replace(right, low=edge.sector))
        self.edges.append(edge)

    def _runs(self) -> list[tuple[int, int]]:
        """Tracks and their size of each zone so far, the last one not among them."""
        return [((each.high - each.low) // each.grid.track, each.grid.track) for each in self.stretches[:-1]]

    def _foretold(self, left: Stretch, right: Stretch) -> ZoneRun | Stretch | None:
        """The zone after the last one, if its edge lies where the zones so far say and it is near no known
        one; as a run where its size was foretold too, else surveyed. Strokes of one size that follow each
        other are one zone: it is gone through stroke by stroke."""
        runs = self._runs()
        if not runs or (left.grid.agrees(right.grid) and not self._sizes_recur()):
            return None
        usual = stroke_tracks(runs)
        stroke = usual * left.grid.track
        while True:
            strokes = (left.high - 1 - left.low) // stroke + 1
            at = left.low + strokes * stroke
            if at in self._tried or at >= right.low - SPARE_TRACKS * right.grid.track:
                return None
            self._tried.add(at)
            if not holds(self._platter, left.grid, at, -1, self._skews):
                return None
            found = pattern([*runs, (strokes * usual, left.grid.track)])
            size = None if found is None else found.following()
            goes_on = size == left.grid.track and holds(self._platter, left.grid, at, 1, self._skews)
            after = None if size is None or goes_on else self._of_size(size, left, at, STEPS[:3])
            if after is not None:
                return after
            if not (goes_on or holds(self._platter, left.grid, at, 1, self._skews)):
                break
            left = self.stretches[-1] = replace(left, high=at + 1)
        edge = last_start(self._platter, left.grid, at, self._skews)
        if edge is None:
            return None
        after = None if size is None else self._of_size(size, left, edge, STEPS[3 if edge == at else 0 :])
        return after or self._adjacent(edge, left, right)

    def _of_size(self, size: int, left: Stretch, at: int, steps: Sequence[int]) -> ZoneRun | None:
        """The zone that begins at an edge with a size of tracks but for one of some steps, if it does."""
        for step in steps:
            grid = Grid(size + step, at)
            if grid.track != left.grid.track and holds(self._platter, grid, at, 1, self._skews):
                return ZoneRun(at, at + grid.track, grid, 0)
        return None

    def _sizes_recur(self) -> bool:
        """Whether sizes of tracks come again, as they do where surfaces differ in density."""
        return rises([each.grid.track for each in self.stretches])

    def _adjacent(self, at: int, left: Stretch, right: Stretch) -> Stretch | None:
        """A stretch right after an edge that was foretold."""
        low, high = sorted((left.grid.track, right.grid.track))
        found = self.surveyed(at + 2 * SPARE_TRACKS * left.grid.track, low, high)
        return None if found is None or found.grid.agrees(left.grid) else found

    def _between(self, left: Stretch, right: Stretch) -> Stretch | Edge | None:
        """The edge between two stretches, None where there is none, or a stretch of a zone between them."""
        low, high = left.high - 1, right.low + 1  # the edge may lie where a stretch was seen to end or begin
        if left.grid.agrees(right.grid):
            return None
        runs = self._runs()
        hint = left.low + expanded(runs)[0] * left.grid.track if runs else None
        for _ in range(MOST_STEPS):
            shorter = min(left.grid.track, right.grid.track)
            first, step, count = meeting(left.grid, right.grid, low, high)
            if hint is not None and low < hint < high and (hint - first) % step == 0 and count:
                first, count = hint, 1
            hint = None
            if count == 0 and high - low <= CLOSE_TRACKS * shorter:
                break
            at = first + step * (count // 2) if 0 < count <= FEW else (low + high) // 2
            before = holds(self._platter, left.grid, at, -1, self._skews)
            if before and not 0 < count <= FEW:
                low = at
                continue
            after = holds(self._platter, right.grid, at, 1, self._skews)
            if before and after:
                return Edge(at, 0)
            if before:
                low = at
            elif after:
                high = at
            else:
                tracks = sorted((left.grid.track, right.grid.track))
                found = self.surveyed(at, tracks[0], tracks[1])
                if found is None:
                    break
                if found.grid.agrees(left.grid):
                    low = max(low, found.high)
                elif found.grid.agrees(right.grid):
                    high = min(high, found.low)
                else:
                    return found
        return Edge((low + high) // 2, (high - low + 1) // 2)

    def _hidden(self, stretch: Stretch, end: int) -> Stretch | None:
        """A stretch of another grid within one that was thought to go on to `end`, if there is any: where
        surfaces differ in density a grid comes again, beyond zones of other sizes, often enough that each
        stroke is asked for."""
        if not self._sizes_recur():
            return None
        near = sorted(self.stretches, key=lambda each: abs(each.low - stretch.low))[: MOST_HEADS + 1]
        sizes = [each.grid.track for each in near]
        stroke = expanded(self._runs())[0] * stretch.grid.track
        first = stretch.low + stroke + stroke // 2
        for at in range(first, end - SPARE_TRACKS * stretch.grid.track, max(stroke, 1)):
            if at in self._held or holds(self._platter, stretch.grid, at, 1, self._skews):
                self._held.add(at)
                continue
            found = self.surveyed(at, min(sizes), max(sizes))
            if found is not None and not found.grid.agrees(stretch.grid):
                return found
        return None

    def _mended(self) -> None:
        """Zones that were taken for parts of those around them, before it was known that sizes come again."""
        number = 0
        while number < len(self.stretches):
            ends = [*(edge.sector for edge in self.edges), self._platter.sectors]
            stretch = self.stretches[number]
            found = self._hidden(stretch, ends[number])
            number += 1
            if found is None:
                continue
            later = self.stretches[number:]
            del self.stretches[number:], self.edges[number - 1 :]
            self.stretches[-1] = replace(stretch, high=stretch.low + stretch.grid.track)
            self._tried.clear()
            self._join(found)
            for each in later:
                second = each.grid.at(each.low) + each.grid.track
                self._join(replace(each, low=second, high=second + each.grid.track))

    def _ended(self) -> None:
        """A last zone that is so short that no survey met it: its edge by halving the tracks up to the end,
        and its tracks by a survey with as many as there are."""
        platter, last = self._platter, self.stretches[-1]
        track = last.grid.track
        if holds(platter, last.grid, platter.sectors, -1, self._skews):
            return
        first = last.grid.at(last.high)
        low, high = 0, (platter.sectors - 4 - first) // track + 1
        while high - low > 1:
            middle = (low + high) // 2
            if begins(platter, last.grid, first + middle * track, self._skews):
                low = middle
            else:
                high = middle
        edge = first + low * track
        room = (platter.sectors - edge) // track
        sizes = [each.grid.track for each in self.stretches[-MOST_HEADS:]]
        least, most = min(sizes) * (1 - WIDE_MARGIN), max(sizes) * (1 + MARGIN)
        for place in (1, 2) if room >= LEAST_ROOM else ():
            confirm = min(CONFIRM_TRACKS, room - LEAST_ROOM + 1)
            grid = survey(platter, edge + place * track, least, most, self._skews.seen, confirm)
            if grid is not None and grid.track != track:
                doubt = 0 if (grid.first - edge) % grid.track == 0 else track
                self._settle(last, Stretch(edge, platter.sectors, grid), Edge(edge, doubt))
                return
        self.untold = platter.sectors - edge

    def _zones(self) -> list[ZoneRun]:
        begins = [0, *(edge.sector for edge in self.edges)]
        ends = [*begins[1:], self._platter.sectors]
        doubts = [0, *(edge.doubt for edge in self.edges)]
        return [
            ZoneRun(begin, end, stretch.grid, doubt)
            for begin, end, stretch, doubt in zip(begins, ends, self.stretches, doubts, strict=True)
        ]
