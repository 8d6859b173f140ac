"""Bands of a drive that cleans one band at a time in an order that cannot be steered: at random.

A grid of blocks over a window at each of the first, the middle and the last address is written, and the drive
is left alone until about half of them went home. What went home is whole bands. So the bands are the cut of a
window into equal pieces, each wholly clean or wholly cached, that says most about the grid with the fewest
pieces (`fit`): smaller pieces pay for the states they may take, larger ones for blocks they have wrong.

First with a grid of 12 MiB; then, up to three times, with one of 1 MiB besides: about the edges found, or,
for small bands, over a part of the window, another each time. A look may be a drawing of its own, and all
count.

The window at the middle may lie over two stretches of different bands, for stretches often end at a round
part of the drive. So the middle window is also cut in two (`fit_middle`), and the part with the middle counts
if both together explain the grid much better than one size does.

Halves of a band explain the grid nearly as well as the band: only their number is against them. So sizes are
tried up to twice the largest that counts, and where the drive declares zones, theirs is tried besides, with
edges where zones have theirs: that counts however large it is, if such an edge is seen.

Invariant: which bands are cleaned does not matter, as long as neighbours differ.
Source: Skylight (FAST '15), section 4.7, Test 9: blocks that go home together are a band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, IoBatch
from skylight.probe.band_size import cleaned_or_cached
from skylight.probe.band_size.cache_parts import DEPTH, PLACES
from skylight.probe.band_size.cleaned_or_cached import BLOCK, Fresh
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

MIB = 1 << 20
COARSE, FINE_SPAN = 12 * MIB, 96 * MIB
WINDOW = 160 * COARSE
COPIES, FINE_COPIES, MOST_EDGES = 2, 2, 5
# MiB: more than the bands of known drives, and of those that are drawn, to both sides.
LEAST_BAND, MOST_BAND = 2, 400
SMALLEST, LARGEST = LEAST_BAND * MIB, MOST_BAND * MIB
"""Sizes between which one counts. One that fits best at an end is no size: the fewer blocks share a piece,
the better pieces fit blocks that went home each for itself."""
MOST_TRIED = 2 * MOST_BAND
SMALL_BAND = 2 * COARSE // MIB  # below, the coarse grid has no two points in a band
# Edges show between a clean band and a cached one: 2 p (1 - p) of them where a part p is clean, most at a
# half, and three quarters of that between these. Wanted is a little less, for nothing makes it less again.
FEWEST_CLEAN, WANTED_CLEAN, MOST_CLEAN = 0.25, 0.45, 0.75
FIRST_BANDS, PAUSES = 3.0, 14
UNKNOWN_START_S, UNKNOWN_BAND_S = 1.0, 0.5
MOST_WRITTEN = 0.02
"""Bands that may be cleaned in the time by which a grid is written later than its first quarter lets expect,
as a part of its blocks. Chosen: in a band that is cleaned there are some ten blocks, half of which may be
cached again."""
STATE_COST = math.log(2)  # each piece may be clean or cached
# From here on a size is likelier than all others together, if none of them is likelier than the next best.
SURE = math.log(MOST_TRIED - LEAST_BAND)
SURE_OF_ZONES = SURE / 2
"""From here on zones that the drive declares are likelier than parts of them: chosen, since a look adds a
half of that for zones of a third of the window, and 27 parts would have to fit as well to be as likely."""
FINE_ROUNDS = 3
BORDERS = 8  # parts of the middle window between which bands may change
Window = tuple[str, I64]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Fit:
    """The cut of the window at a place: bytes of a band, where a band begins, by how much (logarithm of
    likelihoods) it is better than one of another size, and the logarithm itself; and whether the bands are
    the zones that the drive declares."""

    place: str
    size: int
    start: int
    margin: float
    score: float = 0.0
    are_zones: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether the size is likelier than all others together."""
        return self.margin >= (SURE_OF_ZONES if self.are_zones else SURE)


def windows(size: int) -> list[Window]:
    """The coarse grids."""
    end, middle = size // MIB * MIB - MIB, size // 2 // MIB * MIB
    steps = np.arange(0, WINDOW, COARSE)
    return [("od", steps), ("md", middle - WINDOW // 2 + steps), ("id", end - COARSE - steps[::-1])]


def fit(place: str, looks: list[tuple[I64, F64]], zone_bytes: int = 0) -> Fit:
    """The best cut of all looks at a place; their points (bytes) rise, and begin at the same one.
    `zone_bytes` is what zones have that the drive declares, whole mebibytes, or 0."""
    base, zone = int(looks[0][0][0]), zone_bytes // MIB
    span = (int(looks[0][0][-1]) - base) // MIB + 1
    sizes = np.arange(LEAST_BAND, min(MOST_TRIED, span // 2) + 1)
    starts, scores = np.zeros(len(sizes), np.int64), np.zeros(len(sizes))
    before = _Before.of(looks, max(MOST_TRIED, zone))
    for index, size in enumerate(sizes.tolist()):
        score = before.scores(size)
        starts[index] = best = int(np.argmax(score))
        scores[index] = score[best]
    if zone:
        begin = -base // MIB % zone
        if before.is_seen(zone, begin):
            score = before.scores(zone)[begin]
            # The drive's word stands against any one size at any place, but not against parts of its zones.
            others = sizes != zone
            sizes, starts, scores = sizes[others], starts[others], scores[others]
            scores[zone % sizes != 0] -= SURE
            sizes, starts = np.append(sizes, zone), np.append(starts, begin)
            scores = np.append(scores, score)
    best = int(np.argmax(scores))
    size, start = int(sizes[best]) * MIB, base + int(starts[best]) * MIB
    margin = float(scores[best] - np.delete(scores, best).max())
    are_zones = bool(zone) and size == zone_bytes and start % zone_bytes == 0
    return Fit(place, size, start, margin, float(scores[best]), are_zones)


@dataclass(frozen=True, slots=True)
class _Before:
    """The sum of weights and the number of points before each mebibyte of a window, of each look in a row:
    from `margin` MiB before the first point on, and as far behind the last as pieces may reach. What lies in
    a piece is a difference of two, so pieces from all mebibytes on are scored at once."""

    weight: F64
    points: I64
    margin: int
    span: int

    @staticmethod
    def of(looks: list[tuple[I64, F64]], margin: int) -> _Before:
        """Of looks at a place, for pieces of up to `margin` MiB."""
        base = int(looks[0][0][0])
        span = (int(looks[0][0][-1]) - base) // MIB + 1
        at = np.arange(-margin, span + 2 * margin)
        points = np.array([np.searchsorted((each - base) // MIB, at) for each, _ in looks])
        sums = [np.concatenate([[0.0], np.cumsum(weights)]) for _, weights in looks]
        weight = np.array([total[count] for total, count in zip(sums, points, strict=True)])
        return _Before(weight, points, margin, span)

    def _edges(self, column: NDArray[Number], size: int) -> NDArray[Number]:
        """The column at the edges of pieces of a size, which begin at each mebibyte of the first: by look,
        edge and beginning."""
        count, first = self.span // size + 3, self.margin - size
        return column[:, first : first + count * size].reshape(len(column), count, size)

    def scores(self, size: int) -> F64:
        """The logarithm of the likelihood of pieces of a size (MiB), by how far behind the first point the
        second begins."""
        pieces = np.diff(self._edges(self.weight, size), axis=1)
        np.maximum(pieces, 0.0, out=pieces)
        points = self._edges(self.points, size)
        some = np.count_nonzero(points[:, 1:] != points[:, :-1], axis=1)
        # By look and beginning: numpy adds up what lies side by side more exactly.
        by_beginning = np.ascontiguousarray(pieces.transpose(0, 2, 1)).sum(axis=2)
        return np.asarray((by_beginning - STATE_COST * some).sum(axis=0))

    def is_seen(self, size: int, begin: int) -> bool:
        """Whether a clean piece lies beside a cached one in any look, if they begin there."""
        pieces = np.diff(self._edges(self.weight, size)[:, :, begin], axis=1)
        beside = np.minimum(np.abs(pieces[:, 1:]), np.abs(pieces[:, :-1])) >= SURE
        return bool(np.any(beside & (pieces[:, 1:] * pieces[:, :-1] < 0)))


def fit_middle(looks: list[tuple[I64, F64]], middle: int, zone_bytes: int = 0) -> Fit:
    """The best cut about the middle address, where bands may change their size within the window. A few bands
    beside the border fit into both grids by chance, so that two borders may explain the looks as well; then
    it is the middle, since stretches end at round parts of drives."""
    best = fit("md", looks, zone_bytes)
    least = best.score + SURE
    points = looks[0][0]
    for border in (middle, *points[:: len(points) // BORDERS][1:]):
        parts = [
            [(at[keep], weight[keep]) for (at, weight), keep in zip(looks, side, strict=True)]
            for side in ([at < border for at, _ in looks], [at >= border for at, _ in looks])
        ]
        if min(len(part[0][0]) for part in parts) < len(points) // BORDERS:
            continue
        below, above = (fit("md", part, zone_bytes) for part in parts)
        if below.size > above.size and below.score + above.score > least:
            least = below.score + above.score + (SURE if border == middle else 0.0)
            best = above if middle >= border else below
    return best


def finer(window: Window, found: Fit, number: int = 1) -> Window:
    """The coarse grid and a fine one besides, for small bands over another part of the window each time: a
    drive that is as new may draw the same bands as before."""
    place, points = window
    if found.size <= SMALL_BAND * MIB:
        further = (number - 1) * FINE_SPAN
        low = int(points[0]) + further if place == "od" else int(points[-1]) + COARSE - FINE_SPAN - further
        if place == "md":
            aside = further if number % 2 else -further
            low = int(points[len(points) // 2]) - FINE_SPAN // 2 + aside
        return place, np.unique(np.concatenate([points, np.arange(low, low + FINE_SPAN, MIB)]))
    piece = (points - found.start) // found.size
    edges = np.flatnonzero(np.diff(piece)) + 1
    # As far apart as there are: the size follows from the first and the last.
    keep = np.unique(np.linspace(0, max(len(edges) - 1, 0), MOST_EDGES).round().astype(int))[: len(edges)]
    fine = [np.arange(points[edges[k] - 1] - COARSE, points[edges[k]] + COARSE, MIB) for k in keep]
    grid = np.unique(np.concatenate([points, *fine]))
    return place, grid[(grid >= points[0]) & (grid <= points[-1])]


class Looks:
    """Looks at grids, at all places together; or, once the drive had to clean while such a grid was written,
    at one place after the other with one block a point: of a band that is cleaned amid the writes some blocks
    are home and some are not."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._is_small = False

    def look(self, name: str, grids: list[Window], copies: int) -> list[F64] | None:
        """The weight of each point of each grid once about half of them were cleaned; None if that never
        was."""
        if not self._is_small:
            written, weights = look(self._steps, name, grids, copies)
            self._is_small = not written
            if written:
                return weights
        apart = [look(self._steps, f"{name}-{grid[0]}", [grid], 1, whatever=True)[1] for grid in grids]
        found = [weights[0] for weights in apart if weights is not None]
        return found if len(found) == len(grids) else None


def look(
    steps: Steps, name: str, grids: list[Window], copies: int, *, whatever: bool = False
) -> tuple[bool, list[F64] | None]:
    """Whether all grids could be written before the drive had to clean, or `whatever` it had to; and the
    weight of each point of each once about half of them were cleaned, None if that never was."""
    if steps.reset(f"{name}-erase") is State.UNKNOWN:
        return True, None
    blocks = np.concatenate([cleaned_or_cached.copies(points, copies) for _, points in grids])
    rotation_ns = steps.known.number("rotation_ns")

    def read(what: str) -> F64:
        readings = cleaned_or_cached.read_enough(steps, f"{name}-{what}", blocks)
        return cleaned_or_cached.middle_of(readings, rotation_ns)

    fresh = Fresh.of(read("fresh"), read("fresh-again"), rotation_ns)
    band_ns = steps.known.part("cleaning_band_ns", "one_block")
    late_ns = _write(steps, name, blocks)
    if late_ns > MOST_WRITTEN * len(blocks) * (band_ns or np.inf) and not whatever:
        return False, None
    start_ns = steps.known.number("cleaning_start_ns")
    start_s = UNKNOWN_START_S if start_ns is None else start_ns / 1e9
    band_s = UNKNOWN_BAND_S if band_ns is None else band_ns / 1e9
    bands, before = FIRST_BANDS, 0.0
    for _ in range(PAUSES):
        steps.pause(f"{name}-pause", start_s + bands * band_s)
        weights = fresh.weights(read("after"))
        clean = float(np.mean(weights > 0))
        if clean >= FEWEST_CLEAN:
            ends = np.cumsum([len(points) * copies for _, points in grids])[:-1]
            parts = [part.reshape(-1, copies).sum(axis=1) for part in np.split(weights, ends)]
            return True, parts if clean <= MOST_CLEAN else None
        gain = max(clean - before, 0.02)
        bands = float(np.clip(bands * (WANTED_CLEAN - clean) / gain, 1.0, 3 * bands + 3))
        before = clean
    return True, None


def _write(steps: Steps, name: str, blocks: I64) -> float:
    """Writes blocks in random order; how much longer that took, with all that was done before the next read,
    than as if all had taken as long as the first quarter, ns."""
    log = steps.run(f"{name}-grid", IoBatch.writes(steps.rng(name).permutation(blocks), BLOCK), depth=DEPTH)
    behind = steps.run(f"{name}-written", IoBatch.reads(blocks[:1], BLOCK))
    quarter = len(log) // 4
    if not quarter or not len(behind):
        return 0.0
    took_ns = np.array([log.complete_ns[quarter - 1], behind.complete_ns[-1]]) - log.submit_ns[0]
    return float(took_ns[1]) - float(took_ns[0]) * len(log) / quarter


def find(steps: Steps) -> list[Fit]:
    """The bands at the three places; empty if no half could be had."""
    grids, zone_bytes = windows(steps.size), _zone_bytes(steps)
    looking = Looks(steps)
    weights = looking.look("lots", grids, COPIES)
    if weights is None:
        return []
    looks = [[(points, weight)] for (_, points), weight in zip(grids, weights, strict=True)]
    fits = [fit(place, seen, zone_bytes) for (place, _), seen in zip(grids, looks, strict=True)]
    for number in range(1, FINE_ROUNDS + 1):
        fine = [finer(grid, found, number) for grid, found in zip(grids, fits, strict=True)]
        weights = looking.look(f"lots-fine-{number}", fine, FINE_COPIES)
        if weights is None:
            continue
        for seen, (_, points), weight in zip(looks, fine, weights, strict=True):
            seen.append((points, weight))
        fits = [fit(place, seen, zone_bytes) for (place, _), seen in zip(grids, looks, strict=True)]
        if all(found.is_sure for found in fits):
            break
    middle = steps.size // 2 // MIB * MIB
    fits[PLACES.index("md")] = fit_middle(looks[PLACES.index("md")], middle, zone_bytes)
    return fits


def _zone_bytes(steps: Steps) -> int:
    """What the zones have that a target declares, if that is whole mebibytes and can be seen in a window; 0
    else."""
    zones = steps.zones("lots-zones")
    fits = zones is not None and zones.zone_bytes % MIB == 0 and SMALLEST <= zones.zone_bytes < WINDOW
    return zones.zone_bytes if zones is not None and fits else 0
