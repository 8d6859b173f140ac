"""What is done to the drive to see in which order it cleans; see the package's page.

A *parade* is marks in bands far apart, written one after the other, those of the second half with more blocks
each, so that a drive that prefers bands with much to gain takes these first. One parade goes up the address
space, one down, so that an order by address shows as well; a drive that cleans zone by zone, in the order in
which it began to write to them, cleans both as they were written. It is left alone until about half is clean.

Invariant: what is done next depends on logs and findings only.
Source: Skylight (FAST '15), section 4.5.1, Test 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U64, IoLog, JsonScalar
from skylight.infer import cached_or_native
from skylight.probe.cleaning.trials import (
    GIB,
    INSIDE,
    KIB,
    MIB,
    MORE_LOOKS,
    Ground,
    clear,
    joined,
    look_again,
)

MARKS, MORE_BLOCKS, BLOCK_STEP = 20, 5, 16 * KIB
LEAST_CLEANED = 5
TRIES = 8
FIRST_PART = 0.45
LONGER, SHORTER = 1.9, 0.6
UP, DOWN = "up", "down"
FEW, FEW_TRIES, FEW_CHANCE = "few", 40, 1e-5
LINEAR_BYTES, LINEAR_BLOCKS, SCATTERED_BLOCKS = 256 * MIB, 64, 32
LINEAR_BANDS = 10
TEST5 = "test5-"
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Parade:
    """A parade after its pause: its step's name, and of each mark in the order written, whether it could be
    told and whether it was cleaned."""

    name: str
    told: Bools
    cleaned: Bools
    few: bool = False

    @property
    def order(self) -> Bools:
        """Of the marks that tell, in the order written, whether each was cleaned."""
        return self.cleaned[self.told]

    @property
    def tells(self) -> bool:
        """Whether enough were cleaned and enough were not."""
        count = int(np.count_nonzero(self.order))
        if self.few:
            return bool(self.told.all()) and 0 < count < len(self.order)
        return LEAST_CLEANED <= count <= len(self.order) - LEAST_CLEANED


@dataclass(frozen=True, slots=True)
class CacheBands:
    """Cache bands of a set-associative drive: how many, and bytes of a band."""

    count: int
    band_bytes: int


@dataclass(frozen=True, slots=True)
class Test5:
    """Test 5 after its pause: which blocks were cleaned, in the order written, and the look at each (ns)."""

    linear: int
    scattered: int
    pause_s: float
    look_ns: I64
    cleaned: Bools


@dataclass(slots=True)
class Seen:
    """What the procedure saw: the ground it stood on (None if no mark was written), the last parade of each
    direction, the parades of few marks that tell, and Test 5."""

    ground: Ground | None = None
    last: dict[str, Parade] = field(default_factory=dict)
    few: list[Parade] = field(default_factory=list)
    test5: Test5 | None = None

    @property
    def parades(self) -> list[Parade]:
        """The parades of a direction that tell."""
        return [found for found in self.last.values() if found.tells]


def marks(size: int, direction: str, bands: CacheBands | None) -> U64:
    """The first block of each mark, in the order of writing; no two in one cache band."""
    pitch = size // (MARKS + 1) // MIB * MIB
    first = np.arange(1, MARKS + 1, dtype=np.int64) * pitch + (0 if direction == UP else GIB)
    if bands is not None:
        numbers: list[int] = []
        for band in first // bands.band_bytes:
            taken = {number % bands.count for number in numbers}
            numbers.append(
                next(n for n in range(int(band), int(band) + MARKS) if n % bands.count not in taken)
            )
        first = np.array(numbers, np.int64) * bands.band_bytes
    return np.asarray((first if direction == UP else first[::-1]) + INSIDE, np.uint64)


def _blocks(ground: Ground, first: U64) -> U64:
    """All blocks of the marks, in the order of writing: more of each in the second half, behind their
    copies."""
    parts = []
    for number, block in enumerate(first):
        copies = ground.copies_of(first[number : number + 1])
        count = MORE_BLOCKS - 1 if number >= len(first) // 2 else 0
        more = np.uint64(BLOCK_STEP) * np.arange(1, count + 1, dtype=np.uint64)
        parts.append(np.concatenate([copies, block + (copies[-1] - copies[0]) + more]))
    return np.concatenate(parts)


def parade(
    ground: Ground, direction: str, idle_s: float, band_s: float, bands: CacheBands | None, seen: Seen
) -> None:
    """A parade, again with another pause until it tells."""
    first = marks(ground.steps.size, direction, bands)
    work_s = FIRST_PART * MARKS * band_s
    for number in range(1, TRIES + 1):
        name = f"{direction}-{number}"
        _clear(ground, name, idle_s, work_s)
        before = joined(ground.writes(_blocks(ground, first)), ground.looks(first))
        log = ground.steps.run(f"{name}-write", before, params={"marks": MARKS})
        ground.steps.pause(f"{name}-pause", idle_s + work_s)
        params: dict[str, JsonScalar] = {"pause_s": idle_s + work_s, "direction": direction}
        after = ground.steps.run(f"{name}-look", ground.looks(first), params=params)
        found = _parade(f"{name}-look", log, _home(ground, name, first, after), ground)
        seen.last[direction] = found
        if found.tells:
            return
        few = np.count_nonzero(found.order) < LEAST_CLEANED
        work_s *= LONGER if few else SHORTER


def few_marks(ground: Ground, idle_s: float, band_s: float, bands: CacheBands, seen: Seen) -> None:
    """Parades of as many marks as there are cache bands, fewer than `MARKS`, each time in another order.

    Half of one is told from a pause that is halved between one in which none was cleaned and one in which
    all were. Ends when the parades that tell could not all be in line by chance."""
    steps = ground.steps
    first = few_first(steps.size, bands)
    rng = steps.rng(FEW)
    low_s, pause_s, high_s = 0.0, idle_s + (len(first) // 2 - 0.5) * band_s, 0.0
    chance = 1.0
    for number in range(1, FEW_TRIES + 1):
        name = f"{FEW}-{number}"
        _clear(ground, name, idle_s, len(first) * band_s)
        order = rng.permutation(len(first))
        before = joined(ground.writes(_blocks(ground, first[order])), ground.looks(first[order]))
        log = steps.run(f"{name}-write", before, params={"marks": len(first)})
        steps.pause(f"{name}-pause", pause_s)
        params: dict[str, JsonScalar] = {"pause_s": pause_s, "direction": FEW, "marks": len(first)}
        after = steps.run(f"{name}-look", ground.looks(first[order]), params=params)
        found = _parade(f"{name}-look", log, _home(ground, name, first[order], after), ground, few=True)
        if found.tells:
            seen.few.append(found)
            chance /= comb(len(first), int(np.count_nonzero(found.order)))
            if chance <= FEW_CHANCE:
                return
        elif found.told.all():
            if found.order.any():
                high_s = pause_s
            else:
                low_s = pause_s
            pause_s = (
                (low_s + high_s) / 2 if high_s > low_s > 0 else pause_s + band_s * (0.5 - 1.5 * (high_s > 0))
            )


def few_first(size: int, bands: CacheBands) -> U64:
    """The first block of a mark in each cache band."""
    first = marks(size, UP, None).astype(np.int64)[:: max(1, MARKS // bands.count)][: bands.count]
    numbers = first // bands.band_bytes
    numbers += (np.arange(len(first)) - numbers) % bands.count
    return np.asarray(numbers * bands.band_bytes + INSIDE, np.uint64)


def _clear(ground: Ground, name: str, idle_s: float, work_s: float) -> None:
    """Begins with clean bands."""
    clear(ground, name, 2 * idle_s + 4 * work_s)


def _home(ground: Ground, name: str, first: U64, after: IoLog) -> Bools:
    """Which marks are home, from a look at them and more where others may have delayed some: one misread
    mark is out of line."""

    def again() -> Bools:
        return ground.home(ground.steps.run(f"{name}-look-again", ground.looks(first)))

    return look_again(ground.home(after), MORE_LOOKS, again, flash=ground.flash)


def _parade(name: str, before: IoLog, home: Bools, ground: Ground, *, few: bool = False) -> Parade:
    looks = 2 * len(home) * ground.copies
    return Parade(name, ~ground.home(_last(before, looks)), home, few)


def _last(log: IoLog, count: int) -> IoLog:
    return log.rows(slice(-count, None))


def test5(ground: Ground, idle_s: float, band_s: float) -> Test5:
    """The paper's Test 5: blocks of a small region, blocks all over, more blocks of the region; a pause. Each
    mark is a single block."""
    steps, ground = ground.steps, replace(ground, noisy=False)
    _clear(ground, TEST5, idle_s, MARKS * band_s)
    rng = steps.rng(TEST5)
    slots = rng.permutation(LINEAR_BYTES // (64 * KIB))[: 2 * LINEAR_BLOCKS].astype(np.uint64)
    region = steps.size // 2 // GIB * GIB
    linear = slots * np.uint64(64 * KIB) + np.uint64(region + 32 * KIB)
    places = rng.choice((steps.size - 2 * GIB) // GIB, size=SCATTERED_BLOCKS, replace=False)
    scattered = places.astype(np.uint64) * np.uint64(GIB) + np.uint64(GIB // 2 + INSIDE)
    blocks = np.concatenate([linear[:LINEAR_BLOCKS], scattered, linear[LINEAR_BLOCKS:]])
    steps.run(f"{TEST5}write", ground.writes(blocks))
    pause_s = idle_s + (LINEAR_BANDS + SCATTERED_BLOCKS / 2) * band_s
    steps.pause(f"{TEST5}pause", pause_s)
    params = {"linear": LINEAR_BLOCKS, "scattered": SCATTERED_BLOCKS, "pause_s": pause_s}
    looked = steps.run(f"{TEST5}look", ground.looks(blocks), params=params)
    return Test5(
        LINEAR_BLOCKS, SCATTERED_BLOCKS, pause_s, cached_or_native.look_ns(looked), ground.home(looked)
    )
