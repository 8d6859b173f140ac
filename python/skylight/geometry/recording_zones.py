"""Recording zones: where the track size changes, by prediction and bisection, never by scanning.

A *stretch* is a run of sectors on which one track grid is valid. Between two stretches whose grids differ
lies at least one edge. If zones have whole tracks, the edge ends a track of one grid and begins one of the
other, which few sectors do; such a sector near the middle is verified on both sides. If only one side
verifies, the search continues in the other half; if neither does, another zone lies between and is surveyed.

Invariants: two neighbouring zones of a table have different track sizes; every grid was surveyed; an edge
without doubt was verified on both sides, any other carries its uncertainty.

Source: DIG (Gim and Won, ACM TOS 6(2), 2010) for zones by halving; the common boundaries of two grids follow
from the Chinese remainder theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from skylight.geometry.clock import Platter
from skylight.geometry.density_pattern import STEPS, expanded, pass_tracks, pattern, rises
from skylight.geometry.layout_models import MOST_HEADS
from skylight.geometry.track_size import CONFIRM_TRACKS, Grid, survey
from skylight.geometry.verify import Skews, last_track_start, track_begins, verify_grid

NODES = 9
MARGIN, WIDE_MARGIN = 0.02, 0.1
FEW = 64  # candidates for an edge that are few enough to verify one by one
CLOSE_TRACKS = 3
TRIES = (0, 5, -7, 16, 31)
MOST_STEPS = 80
SPARE_TRACKS = 6
LAST_PLACES = (8, 40, 200)  # tracks before the last sector: a last zone may be too short for a survey
LEAST_TRACKS = 5  # tracks that a survey needs


@dataclass(frozen=True, slots=True)
class Stretch:
    """Sectors `low` to `high` on which a grid is valid."""

    low: int
    high: int
    grid: Grid


@dataclass(frozen=True, slots=True)
class Edge:
    """Where one zone ends and the next begins, to within `doubt` sectors."""

    sector: int
    doubt: int


@dataclass(frozen=True, slots=True)
class ZoneRun:
    """A zone: first sector, sector past the last, grid, and uncertainty of the first sector (sectors)."""

    begin: int
    end: int
    grid: Grid
    doubt: int


def meeting(left: Grid, right: Grid, low: int, high: int) -> tuple[int, int, int]:
    """The sectors between `low` and `high` that begin a track of both grids: first, step, count."""
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
    """The presumed end of a stretch, given what follows it."""
    if isinstance(outcome, ZoneRun):
        return outcome.begin
    return right.high if outcome is None else outcome.sector


class ZoneSearch:
    """The search for all zones of a target."""

    def __init__(
        self, platter: Platter, skews: Skews, report_progress: Callable[[float], None] | None = None
    ) -> None:
        """Reads through `platter`; `report_progress` receives the share of the sectors that is settled."""
        self._platter = platter
        self._skews = skews
        self._report_progress = report_progress
        self.stretches: list[Stretch] = []
        self.edges: list[Edge] = []
        self._tried: set[int] = set()
        self._verified: set[int] = set()
        self.undetermined_sectors = 0  # sectors at the end with too few tracks to determine their size

    def surveyed(self, place: int, low: float, high: float) -> Stretch | None:
        """The stretch around a sector, or around one nearby."""
        for number, shift in enumerate(TRIES):
            margin = MARGIN if number < 2 else WIDE_MARGIN
            at = place + int(shift * low)
            grid = survey(self._platter, at, low * (1 - margin), high * (1 + margin), self._skews.seen)
            if grid is not None:
                return Stretch(grid.first, grid.first + grid.track, grid)
        return None

    def run(self, first: Grid) -> list[ZoneRun]:
        """All zones, from a grid at the first address."""
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
        self._revisit_hidden()
        self._find_last_zone()
        platter.sharpen(first.first, first.track)
        return self._zones()

    def _join(self, right: Stretch) -> None:
        """Settles everything between the last stretch and a later one."""
        ahead = [right]
        while ahead:
            left, right = self.stretches[-1], ahead[-1]
            outcome = self._predicted(left, right) or self._between(self.stretches[-1], right)
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
            if self._report_progress is not None:
                self._report_progress(right.high / self._platter.sectors)

    def _settle(self, left: Stretch, right: Stretch, edge: Edge) -> None:
        """Records an edge between the last stretch and the next one."""
        self.stretches[-1] = replace(left, high=edge.sector)
        self.stretches.append(replace(right, low=edge.sector))
        self.edges.append(edge)

    def _runs(self) -> list[tuple[int, int]]:
        """Tracks and track size of each zone so far, except the last."""
        return [((each.high - each.low) // each.grid.track, each.grid.track) for each in self.stretches[:-1]]

    def _predicted(self, left: Stretch, right: Stretch) -> ZoneRun | Stretch | None:
        """The zone after the last one, if its edge lies where the zones so far predict it and it is near no
        known edge: a run if its size was predicted too, else a surveyed stretch. Successive passes of one
        size are one zone, so it is verified pass by pass."""
        runs = self._runs()
        if not runs or (left.grid.agrees(right.grid) and not self._sizes_recur()):
            return None
        usual = pass_tracks(runs)
        pass_sectors = usual * left.grid.track
        while True:
            passes = (left.high - 1 - left.low) // pass_sectors + 1
            at = left.low + passes * pass_sectors
            if at in self._tried or at >= right.low - SPARE_TRACKS * right.grid.track:
                return None
            self._tried.add(at)
            if not verify_grid(self._platter, left.grid, at, -1, self._skews):
                return None
            found = pattern([*runs, (passes * usual, left.grid.track)])
            size = None if found is None else found.following()
            goes_on = size == left.grid.track and verify_grid(self._platter, left.grid, at, 1, self._skews)
            after = None if size is None or goes_on else self._of_size(size, left, at, STEPS[:3])
            if after is not None:
                return after
            if not (goes_on or verify_grid(self._platter, left.grid, at, 1, self._skews)):
                break
            left = self.stretches[-1] = replace(left, high=at + 1)
        edge = last_track_start(self._platter, left.grid, at, self._skews)
        if edge is None:
            return None
        after = None if size is None else self._of_size(size, left, edge, STEPS[3 if edge == at else 0 :])
        return after or self._adjacent(edge, left, right)

    def _of_size(self, size: int, left: Stretch, at: int, steps: Sequence[int]) -> ZoneRun | None:
        """The zone that begins at an edge with a track size, or with one that differs by one of `steps`; None
        if none verifies."""
        for step in steps:
            grid = Grid(size + step, at)
            if grid.track != left.grid.track and verify_grid(self._platter, grid, at, 1, self._skews):
                return ZoneRun(at, at + grid.track, grid, 0)
        return None

    def _sizes_recur(self) -> bool:
        """Whether track sizes recur, as they do where surfaces differ in density."""
        return rises([each.grid.track for each in self.stretches])

    def _adjacent(self, at: int, left: Stretch, right: Stretch) -> Stretch | None:
        """A stretch right after a predicted edge."""
        low, high = sorted((left.grid.track, right.grid.track))
        found = self.surveyed(at + 2 * SPARE_TRACKS * left.grid.track, low, high)
        return None if found is None or found.grid.agrees(left.grid) else found

    def _between(self, left: Stretch, right: Stretch) -> Stretch | Edge | None:
        """The edge between two stretches, None if they are one, or a stretch of a zone between them."""
        low, high = left.high - 1, right.low + 1  # the edge may be the last known sector of a stretch
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
            before = verify_grid(self._platter, left.grid, at, -1, self._skews)
            if before and not 0 < count <= FEW:
                low = at
                continue
            after = verify_grid(self._platter, right.grid, at, 1, self._skews)
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
        """A stretch of another grid inside one that was presumed to extend to `end`, if there is one. Where
        surfaces differ in density, a grid recurs beyond zones of other sizes, so every pass is verified."""
        if not self._sizes_recur():
            return None
        near = sorted(self.stretches, key=lambda each: abs(each.low - stretch.low))[: MOST_HEADS + 1]
        sizes = [each.grid.track for each in near]
        pass_sectors = expanded(self._runs())[0] * stretch.grid.track
        first = stretch.low + pass_sectors + pass_sectors // 2
        for at in range(first, end - SPARE_TRACKS * stretch.grid.track, max(pass_sectors, 1)):
            if at in self._verified or verify_grid(self._platter, stretch.grid, at, 1, self._skews):
                self._verified.add(at)
                continue
            found = self.surveyed(at, min(sizes), max(sizes))
            if found is not None and not found.grid.agrees(stretch.grid):
                return found
        return None

    def _revisit_hidden(self) -> None:
        """Finds zones that were taken for parts of their neighbours before sizes were known to recur."""
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

    def _find_last_zone(self) -> None:
        """Finds a last zone too short for the surveys: its edge by bisection of the tracks up to the end, and
        its tracks by a survey over as many as there are."""
        platter, last = self._platter, self.stretches[-1]
        track = last.grid.track
        if verify_grid(platter, last.grid, platter.sectors, -1, self._skews):
            return
        first = last.grid.at(last.high)
        low, high = 0, (platter.sectors - 4 - first) // track + 1
        while high - low > 1:
            middle = (low + high) // 2
            if track_begins(platter, last.grid, first + middle * track, self._skews):
                low = middle
            else:
                high = middle
        edge = first + low * track
        tracks_left = (platter.sectors - edge) // track
        sizes = [each.grid.track for each in self.stretches[-MOST_HEADS:]]
        least, most = min(sizes) * (1 - WIDE_MARGIN), max(sizes) * (1 + MARGIN)
        for place in (1, 2) if tracks_left >= LEAST_TRACKS else ():
            confirm = min(CONFIRM_TRACKS, tracks_left - LEAST_TRACKS + 1)
            grid = survey(platter, edge + place * track, least, most, self._skews.seen, confirm)
            if grid is not None and grid.track != track:
                doubt = 0 if (grid.first - edge) % grid.track == 0 else track
                self._settle(last, Stretch(edge, platter.sectors, grid), Edge(edge, doubt))
                return
        self.undetermined_sectors = platter.sectors - edge

    def _zones(self) -> list[ZoneRun]:
        begins = [0, *(edge.sector for edge in self.edges)]
        ends = [*begins[1:], self._platter.sectors]
        doubts = [0, *(edge.doubt for edge in self.edges)]
        return [
            ZoneRun(begin, end, stretch.grid, doubt)
            for begin, end, stretch, doubt in zip(begins, ends, self.stretches, doubts, strict=True)
        ]
