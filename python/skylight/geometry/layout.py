"""How a disk walks its tracks: arm times from the begin of a zone to tracks near and far, fitted by ways.

Three scales are looked at from the first track of a zone: its next tracks (cylinders show there), tracks at
distances that grow evenly in the logarithm (groups of a hybrid serpentine do), and tracks all over the zone
(strokes over the whole of it). Hops between the begins of zones give the curve of the arm over long ways.
How long tracks follow each other with one and the same skew, found by doubling and halving, tells the length
of a stroke to the track, where head switches have a skew of their own.

Invariant: reads only; None where the reads do not tell.

Source: `skylight.geometry.walk`; docs/geometry.md, "The layout".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.geometry import walk
from skylight.geometry.arm import Arm, Track
from skylight.geometry.clock import F64, GOLDEN, I64, Platter, circular_median
from skylight.geometry.holds import Skews, jumps
from skylight.geometry.turns import Turn, first_turn
from skylight.geometry.walk import Fit, Rows
from skylight.geometry.zones import ZoneRun
from skylight.infer.turning import centred

NEAR_TRACKS, LOG_TRACKS, WIDE_TRACKS, FAR_ZONES = 44, 44, 44, 24
LONGEST_LOG = 20_000
SAME_TRACKS = 12
FEWEST_TRACKS = 60
BEND_READS, BEND_SIGMAS = 8, 4.5
LEAST_SURE = 3.0
PLAINLY = 10.0  # how much better the best layout must fit than another one, log of the likelihood
MORE_TRACKS, MORE_ROUNDS = 48, 3
TURNS = 8
TAILS = 1.2  # times have heavier tails than a normal error
APART_ERRORS = 4.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The best way and its fit, times behind it, how much worse (log of the likelihood) the best other layout
    fits and cylinders walked the other way do, the zone that was looked at, what a command takes (ns),
    how many tracks were seen to have one skew or to be reached by steps alone, and how much worse the layout
    fits with another number of heads."""

    fit: Fit
    rows: Rows
    sure: float
    other_walk: float
    zone: ZoneRun
    command_ns: float
    straight: int | None
    other_heads: float = np.inf

    @property
    def seen(self) -> bool:
        """Whether head switches were seen where the way has them: by their time or by a skew of their own."""
        turns = self.straight is not None and walk.allowed(self.fit.way, self.straight)
        return turns or self.fit.switch_ns is not None

    @property
    def told(self) -> bool:
        """Whether the way is so much likelier than another layout that it may be told. Where head switches
        come often and none was seen the seek curve alone speaks, which may be any that rises: that has to be
        plain."""
        often = walk.family(self.fit.way.layout) in (walk.CYLINDER, walk.SINGLE, walk.HYBRID)
        return self.sure >= (PLAINLY if often and not self.seen else LEAST_SURE)

    @property
    def heads_told(self) -> bool:
        """Whether other heads fit so much worse that these may be told."""
        return self.told and self.other_heads >= LEAST_SURE


def spread(count: int) -> F64:
    """Places from 0 to 1, even and yet at no fixed distance: the same whenever a procedure runs again."""
    return np.asarray((np.arange(count) + np.mod(0.5 + np.arange(count) * GOLDEN, 1.0)) / count, np.float64)


def tracks_of(zone: ZoneRun) -> int:
    """Whole tracks of a zone."""
    return (zone.end - zone.begin) // zone.grid.track


def track_of(zone: ZoneRun, number: int) -> Track:
    """A track of a zone by its number."""
    return Track(zone.begin + number * zone.grid.track, zone.grid.track)


def whole_zones(zones: list[ZoneRun]) -> list[ZoneRun]:
    """Zones whose begin and end were seen to the sector."""
    ends = [zone.doubt for zone in zones[1:]]
    return [zone for zone, doubt in zip(zones, ends, strict=False) if zone.doubt == 0 and doubt == 0]


def find_layout(platter: Platter, zones: list[ZoneRun], straight: int | None) -> Layout | None:
    """The layout from arm times; `straight` is how many tracks follow each other with one skew."""
    whole = [zone for zone in whole_zones(zones) if tracks_of(zone) >= FEWEST_TRACKS]
    candidates = whole or [zone for zone in zones if tracks_of(zone) >= FEWEST_TRACKS]
    if not candidates:
        return None
    zone = max(candidates, key=tracks_of)
    arm = Arm(platter)
    command_ns = arm.measure_same([track_of(zone, number) for number in range(SAME_TRACKS)])
    rows = _measured(arm, zones, zone)
    heads = walk.shared_heads([tracks_of(each) for each in whole])
    noise_ns = max(arm.noise_ns, walk.LEAST_NOISE_NS)
    for number in range(MORE_ROUNDS + 1):
        fits = walk.best(rows, tracks_of(zone), heads, noise_ns, straight)
        if TAILS * fits[0].scatter_ns > 1.1 * noise_ns:
            noise_ns = TAILS * fits[0].scatter_ns
            fits = walk.best(rows, tracks_of(zone), heads, noise_ns, straight)
        ahead = [_ahead(fits, same) for same in (False, True)]
        if ahead[0] >= PLAINLY or number == MORE_ROUNDS:
            break
        rows = _joined(rows, _more(arm, zone, number))
    switch_ns = _switch(arm, zone, fits[0])
    if straight is None and _may_turn(fits[0], heads, switch_ns):
        turn = _first_turn(platter, zone, rows, command_ns, noise_ns)
        if turn is not None:
            rows, straight = _joined(rows, _turn_rows(arm, zone, turn.tracks)), turn.tracks
            heads = [turn.heads] if turn.heads is not None and turn.heads in heads else heads
            fits = walk.best(rows, tracks_of(zone), heads, noise_ns, straight)
            ahead = [_ahead(fits, same) for same in (False, True)]
            switch_ns = _switch(arm, zone, fits[0])
    best = replace(fits[0], switch_ns=switch_ns)
    return Layout(best, rows, ahead[0], ahead[1], zone, command_ns, straight, heads_ahead(fits))


def _may_turn(best: Fit, heads: list[int], switch_ns: float | None) -> bool:
    """Whether it may be a hybrid serpentine whose turns were not met, since no hop told a head switch from a
    step; or one whose groups, or heads of several, are only what fits best."""
    if best.way.layout == walk.HYBRID:
        return switch_ns is None or len(heads) > 1
    return (
        switch_ns is None and walk.family(best.way.layout) in (walk.CYLINDER, walk.SINGLE) and max(heads) > 1
    )


def _first_turn(
    platter: Platter, zone: ZoneRun, rows: Rows, command_ns: float, noise_ns: float
) -> Turn | None:
    """The first turn of the groups of a zone; None without one."""
    steps = rows.time_ns[np.abs(rows.other - rows.one) == 1]
    if len(steps) == 0:
        return None
    most = min(walk.MOST_GROUP, tracks_of(zone) // 4) + 1
    turn = first_turn(platter, zone, command_ns, float(np.median(steps)), noise_ns, most)
    return None if turn is None or turn.tracks < 3 else turn


def _turn_rows(arm: Arm, zone: ZoneRun, group: int) -> Rows:
    """The times of the hops between groups."""
    numbers = group * np.arange(1, min(TURNS, (tracks_of(zone) - 2) // group) + 1)
    return _rows(arm, "turn", zone, np.stack([numbers - 1, numbers], axis=1))


def _ahead(fits: list[Fit], same: bool) -> float:
    """How much better the best way fits than the best of another layout, or (`same`) than the same cylinders
    walked the other way; log of the likelihood."""
    best = fits[0]
    family = walk.family(best.way.layout)
    others = [
        fit.cost for fit in fits[1:]
        if (walk.family(fit.way.layout) == family) is same and (not same or fit.way.heads == best.way.heads)
    ]  # fmt: skip
    return min(others, default=np.inf) - best.cost


def heads_ahead(fits: list[Fit]) -> float:
    """How much better the best way fits than its layout with other heads; log of the likelihood."""
    way = fits[0].way
    others = [
        fit.cost
        for fit in fits[1:]
        if fit.way.heads != way.heads and walk.family(fit.way.layout) == walk.family(way.layout)
    ]
    return min(others, default=np.inf) - fits[0].cost


def _switch(arm: Arm, zone: ZoneRun, best: Fit) -> float | None:
    """A head switch alone, where the walk has one without a seek; None where that takes what a step to the
    next track takes, since then it may be one."""
    way = best.way
    if way.layout in (walk.HORIZONTAL, walk.SINGLE):
        return None
    if walk.family(way.layout) == walk.CYLINDER:
        numbers = [turn for turn in range(1, 4 * TURNS) if turn % way.heads][:TURNS]
        steps = [(number, number + way.heads) for number in numbers]
    else:
        most = tracks_of(zone) // way.group
        numbers = [way.group * turn for turn in range(1, most) if turn % way.heads][:TURNS]
        steps = [(number - 4, number - 3) for number in numbers]
    turns = [(number - 1, number) for number in numbers]
    found = arm.times("switch", [(track_of(zone, one), track_of(zone, other)) for one, other in turns])
    plain = arm.times("step", [(track_of(zone, one), track_of(zone, other)) for one, other in steps])
    if np.isfinite(found).sum() < 3 or np.isfinite(plain).sum() < 3:
        return None
    error = np.hypot(np.nanstd(found), np.nanstd(plain)) / np.sqrt(len(turns))
    apart = abs(float(np.nanmedian(found) - np.nanmedian(plain)))
    return float(np.nanmedian(found)) if apart > APART_ERRORS * error else None


def _joined(one: Rows, other: Rows) -> Rows:
    return Rows(*(np.concatenate([getattr(one, each), getattr(other, each)]) for each in Rows.__slots__))


def _more(arm: Arm, zone: ZoneRun, number: int) -> Rows:
    """More times at the scale of groups, from the begin and from a track a little on."""
    most = min(tracks_of(zone) - 2, LONGEST_LOG)
    base = 0 if number == 0 else most // (3 + number)
    away = NEAR_TRACKS * (most / 3 / NEAR_TRACKS) ** np.sort(np.mod(spread(MORE_TRACKS) + 0.3 * number, 1.0))
    pairs = np.array([(base, base + int(each)) for each in away], np.int64)
    return _rows(arm, "more", zone, pairs)


def _rows(arm: Arm, name: str, zone: ZoneRun, pairs: I64) -> Rows:
    """Times between tracks of a zone by number."""
    time_ns = arm.times(
        name, [(track_of(zone, int(one)), track_of(zone, int(other))) for one, other in pairs]
    )
    seen = np.isfinite(time_ns)
    return Rows(pairs[seen, 0], pairs[seen, 1], time_ns[seen], np.empty(0), np.empty(0))


def _measured(arm: Arm, zones: list[ZoneRun], zone: ZoneRun) -> Rows:
    tracks = tracks_of(zone)
    most = min(tracks - 2, LONGEST_LOG)
    near = min(NEAR_TRACKS, tracks - 2)
    away = {
        "near": np.arange(2, near),
        "group": np.unique(np.geomspace(near, most, LOG_TRACKS).astype(np.int64)),
        "wide": (spread(WIDE_TRACKS) * (tracks - 2)).astype(np.int64),
    }
    pairs = {name: np.stack([np.zeros(len(to), np.int64), to], axis=1) for name, to in away.items()}
    pairs["next"] = np.stack([np.arange(near - 1), np.arange(1, near)], axis=1)
    rows = _far(arm, zones)
    for name, of_step in pairs.items():
        rows = _joined(rows, _rows(arm, name, zone, of_step))
    return rows


def _far(arm: Arm, zones: list[ZoneRun]) -> Rows:
    """Times between the begin of the first zone and those of others."""
    before = np.concatenate([[0], np.cumsum([tracks_of(each) for each in zones[:-1]])])
    far = list(range(1, len(zones), max(1, len(zones) // FAR_ZONES)))
    far_ns = arm.times("far", [(track_of(zones[0], 0), track_of(zones[number], 0)) for number in far])
    seen = np.isfinite(far_ns)
    none = np.empty(0, np.int64)
    return Rows(none, none, np.empty(0), before[far][seen].astype(np.float64), far_ns[seen])


def straight_tracks(platter: Platter, zone: ZoneRun, skews: Skews) -> int | None:
    """How many tracks from the begin of a zone follow each other with one skew, where that is not all."""
    tracks = min(tracks_of(zone), (platter.sectors - zone.begin) // zone.grid.track) - 2
    if tracks < 8:
        return None
    few = jumps(
        platter, "straight", [zone.begin + zone.grid.track * (n + 1) for n in range(6)], zone.grid.track
    )
    skew, known = float(centred(np.array(np.median(few)))), 4
    if np.count_nonzero(np.abs(centred(few - skew)) > 4 * platter.clock.sigma) > 1:
        return None  # the begin itself is not straight: cylinders of a few heads
    low, high = 0, 0
    while high == 0:
        at = min(2 * known, tracks)
        turned = _turned(platter, zone, at)
        off = float(centred(np.array(turned - at * skew)))
        if abs(off) > 6 * platter.clock.sigma:
            low, high = known, at
        elif at == tracks:
            return None
        else:
            skew, known = skew + off / at, at
    while high - low > 1:
        middle = (low + high) // 2
        off = float(centred(np.array(_turned(platter, zone, middle) - middle * skew)))
        if abs(off) > 4 * platter.clock.sigma:
            high = middle
        else:
            low = middle
    return high if _confirmed(platter, zone, high) else None


def _turned(platter: Platter, zone: ZoneRun, number: int) -> float:
    """By how much a track begins later than the first one, turns."""
    one, other = zone.begin, zone.begin + number * zone.grid.track
    reads = platter.read("turned", [one + 9, *(x for n in range(4) for x in (one + n, other + n))])
    return circular_median(reads.phase[1::2] - reads.phase[0::2])


def _confirmed(platter: Platter, zone: ZoneRun, number: int) -> bool:
    """Whether the track of that number begins with another skew than those beside it do."""
    track = zone.grid.track
    first = zone.begin + number * track
    bent: list[float] = []
    plain: list[float] = []
    for _ in range(BEND_READS):
        here, before, after = jumps(platter, "bend", [first, first - track, first + track], track)
        bent.append(float(here))
        plain += [float(before), float(after)]
    off = circular_median(np.array(bent)) - circular_median(np.array(plain))
    return abs(float(centred(np.array(off)))) > BEND_SIGMAS * platter.clock.sigma
