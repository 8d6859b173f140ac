"""Trials of zone cleaning: zones are updated in one way, then left alone while their number falls.

The drive reports which zones have non-sequential data. The mean time to clean one is the time from the first
that is clean to the last, over those cleaned in it, so that the idle time before cleaning does not matter;
the first trial finds that time, and the later ones begin to look shortly before it is over.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.4, Figures 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from skylight.evidence import I64, IoBatch, Op
from skylight.probe import known_state
from skylight.probe.band_size.cache_parts import PLACES as PARTS
from skylight.probe.band_size.findings import BAND_SIZE
from skylight.probe.procedure import Steps
from skylight.probe.zoned import ZonesSeen, joined

State = Literal["empty", "full"]
Place = Literal["beginning", "middle", "end", "random"]
STATES: tuple[State, ...] = ("empty", "full")
PLACES: tuple[Place, ...] = ("beginning", "middle", "end", "random")
RATIOS = (0.02, 0.1, 0.4)
RATIO = 0.1
"""The update ratio that the finding is of."""
UPDATE_BYTES, SMALL_BYTES, FILL_BYTES = 256 << 10, 32 << 10, 1 << 20
GROWTH = 4
EIGHTHS = (5, 1, 7, 3)
"""Where single updates go in full zones, in eighths: in no order of place, so that a drive that gets faster
or slower is not taken for one whose times follow the place."""

TRIAL_BYTES, FEWEST_ZONES, MOST_ZONES = 2 << 30, 4, 64
"""Zones of a trial together, and how many they are: so that the time of all is long against a poll."""
POLL_S = 0.25
LONGEST_WAIT_S = 1_800.0
"""Idle time after which a drive that has not begun is taken not to clean; the recorded one began after five
minutes."""
LONGEST_CLEANING_S = 3_600.0
POLL_SHARE = 1 / 50
"""Of the time waited or cleaned, how long it is from one poll to the next."""
EARLY = 0.9
"""Of the shortest time before cleaning, how long a trial is left alone before the first poll."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was done to each zone, and the mean time to clean one (ns); None where it was not seen. Over how
    many zones that is, the names of the steps, and where among the usable zones these lie (`PARTS`); the idle
    time after which some were clean, s, and how many."""

    state: State
    place: str
    ios: int
    size_bytes: int
    zone_ns: float | None
    left: int
    rows: tuple[str, ...]
    part: str = PARTS[0]
    first_s: float | None = None
    first_count: int = 0


@dataclass(slots=True)
class Seen:
    """What was seen: the zones, idle time after which no zone was clean yet and after which one was (s), and
    the trials; and the state that the test began in."""

    zones: ZonesSeen | None = None
    not_before_s: float = 0.0
    begun_by_s: float | None = None
    trials: list[Trial] = field(default_factory=list)
    state: known_state.State = known_state.State.UNKNOWN

    def singles_ns(self, part: str) -> list[float]:
        """The times of single updates of full zones in that part of the usable ones, by place."""
        times = {
            one.place: one.zone_ns
            for one in self.trials
            if (one.state, one.ios, one.part) == ("full", 1, part) and one.zone_ns is not None
        }
        return [times[str(eighth)] for eighth in sorted(EIGHTHS) if str(eighth) in times]

    def as_a_whole(self, part: str) -> bool:
        """Whether zones in that part are cleaned as a whole: a single update is cleaned the sooner the later
        it lies."""
        times = self.singles_ns(part)
        return len(times) == len(EIGHTHS) and all(after < before for before, after in pairwise(times))

    def time_ns(self, state: State, place: str, ios: int, size: int) -> float | None:
        """The time of the trial of this kind."""
        return next(
            (
                one.zone_ns
                for one in self.trials
                if (one.state, one.place, one.ios, one.size_bytes) == (state, place, ios, size)
            ),
            None,
        )


def zones_of_a_trial(zones: ZonesSeen, part: str = PARTS[0]) -> I64:
    """The usable zones that a trial updates: the first, those in the middle, or the last."""
    count = min(max(min(TRIAL_BYTES // zones.zone_bytes, MOST_ZONES), FEWEST_ZONES), zones.usable)
    first = (zones.usable - count) * PARTS.index(part) // (len(PARTS) - 1)
    return first + np.arange(count, dtype=np.int64)


def update_bytes(zones: ZonesSeen) -> int:
    """The size of an update: that of the paper, less in small zones."""
    return min(UPDATE_BYTES, zones.capacity_bytes // 64)


def updates_of(ratio: float, zones: ZonesSeen, size: int = UPDATE_BYTES) -> int:
    """How many updates make a ratio of a zone; at least one."""
    return max(round(ratio * zones.capacity_bytes / size), 1)


def _offsets(steps: Steps, zones: ZonesSeen, place: str, ios: int, size: int, name: str) -> I64:
    """Places of the updates in a zone, in random order; none at its start, where the write pointer of an
    empty zone is."""
    last = zones.capacity_bytes // size
    draw = steps.rng(name)
    if place == "random":
        return (draw.choice(last - 1, ios, replace=False) + 1).astype(np.int64) * size
    if place in PLACES:
        first = {"beginning": 1, "middle": (last - ios) // 2, "end": last - ios}[place]
    else:
        first = last * int(place) // 8
    return (draw.permutation(ios) + max(first, 1)).astype(np.int64) * size


def try_one(
    steps: Steps,
    seen: Seen,
    zones: ZonesSeen,
    state: State,
    place: str,
    ios: int,
    size: int,
    part: str = PARTS[0],
) -> Trial:
    """Updates zones and watches them being cleaned. The drive counts all its zones, so those of other parts
    are reset too: an earlier trial may have ended with some that were not clean."""
    each = zones_of_a_trial(zones, part)
    size = max(size, steps.block_bytes)
    name = f"{state}-{place}-{ios}x{size >> 10}k"
    parts = {part, *(one.part for one in seen.trials)}
    batches = [zones.reset(np.unique(np.concatenate([zones_of_a_trial(zones, one) for one in parts])))]
    if state == "full":
        offset = np.arange(0, zones.capacity_bytes // FILL_BYTES, dtype=np.int64) * FILL_BYTES
        where = (zones.start_bytes(each)[:, None] + offset).ravel()
        batches.append(IoBatch.writes(where.astype(np.uint64), FILL_BYTES))
    for number, start in enumerate(zones.start_bytes(each).tolist()):
        where = start + _offsets(steps, zones, place, ios, size, f"{name}-{number}")
        batches.append(IoBatch.writes(where.astype(np.uint64), size))
    batches.append(IoBatch.make(Op.FLUSH, [0], 0))
    before = len(steps.names)
    steps.run(name, joined(*batches))
    zone_ns, left, first_s = _watched(steps, seen, len(each))
    rows, count = steps.names[before:], len(each) - left
    trial = Trial(state, place, ios, size, zone_ns, left, rows, part, first_s, count)
    seen.trials.append(trial)
    return trial


def _watched(steps: Steps, seen: Seen, count: int) -> tuple[float | None, int, float | None]:
    """Leaves the drive alone until all zones are clean; the mean time of a zone, ns, over how many, and when
    the others were clean, s of idle time."""
    waited = _begun(steps, seen, count)
    if waited is None:
        return None, 0, None
    first_s, left = waited
    now_s = first_s
    remaining = left
    while remaining and now_s - first_s < LONGEST_CLEANING_S:
        poll_s = max(POLL_S, (now_s - first_s) * POLL_SHARE)
        steps.pause("cleaning", poll_s)
        now_s += poll_s
        remaining = steps.non_sequential("count") or 0
    return None if remaining or not left else (now_s - first_s) / left * 1e9, left, first_s


def _begun(steps: Steps, seen: Seen, count: int) -> tuple[float, int] | None:
    """When the first zones were clean (s of idle time), and how many were left; None where that is not seen:
    nothing is cleaned, or it began before the last write."""
    if steps.non_sequential("count") != count:
        return None
    now_s = 0.0
    if seen.not_before_s:
        now_s = EARLY * seen.not_before_s
        steps.pause("idle", now_s)
    while now_s < LONGEST_WAIT_S:
        poll_s = POLL_S if seen.begun_by_s is not None else max(POLL_S, now_s * POLL_SHARE)
        steps.pause("idle", poll_s)
        left = steps.non_sequential("count") or 0
        now_s += poll_s
        if left < count:
            seen.begun_by_s = seen.begun_by_s or now_s
            return now_s, left
        if seen.begun_by_s is None:
            seen.not_before_s = now_s
    return None


def trials(steps: Steps, seen: Seen, zones: ZonesSeen) -> None:
    """All trials: when cleaning begins; ratios by place and state; single updates; count against size; single
    updates elsewhere, where the test of bands could not say how large these are."""
    size = update_bytes(zones)
    try_one(steps, seen, zones, "empty", "1", 1, size)
    if seen.begun_by_s is None:
        return
    for state in STATES:
        for place in PLACES:
            for ratio in RATIOS:
                try_one(steps, seen, zones, state, place, updates_of(ratio, zones, size), size)
    for eighth in EIGHTHS:
        try_one(steps, seen, zones, "full", str(eighth), 1, size)
    small = max(min(SMALL_BYTES, size // 2), steps.block_bytes)
    base = updates_of(RATIOS[0], zones, small)
    for ios, each in ((base, small), (GROWTH * base, small), (base, GROWTH * small)):
        try_one(steps, seen, zones, "empty", "random", ios, each)
    bands = steps.known.get(BAND_SIZE.name)
    for part in PARTS[1:]:
        if bands is not None and not bands.known and seen.as_a_whole(PARTS[0]):
            for eighth in EIGHTHS:
                try_one(steps, seen, zones, "full", str(eighth), 1, size, part)
