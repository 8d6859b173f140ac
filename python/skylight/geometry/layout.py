"""The layout of a disk: arm times within a zone, fitted by every layout model.

Arm times are measured from the first track of a zone at three scales: to its next tracks (where cylinders
show), to tracks at distances that grow evenly in the logarithm (where the groups of a hybrid serpentine
show), and to tracks over the whole zone (where surfaces used one after the other show). Hops between the
first tracks of zones extend the seek curve to long distances. Where head switches have a skew of their own,
the number of successive tracks with one skew, found by doubling and halving, is the exact length of a
serpentine pass.

Invariant: reads only; None if the reads do not determine the layout.

Source: `skylight.geometry.layout_models`; docs/geometry.md, "The layout".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import F64, I64
from skylight.geometry import layout_models
from skylight.geometry.arm_time import Arm, Track
from skylight.geometry.clock import GOLDEN, Platter, circular_median
from skylight.geometry.layout_models import ArmTimes, ModelFit
from skylight.geometry.recording_zones import ZoneRun
from skylight.geometry.serpentine_reversals import Reversal, first_reversal
from skylight.geometry.verify import Skews, phase_jumps
from skylight.infer.track_phases import centred
from skylight.probe.procedure import bisected

NEAR_TRACKS, LOG_TRACKS, WIDE_TRACKS, FAR_ZONES = 44, 44, 44, 24
LONGEST_LOG = 20_000
SAME_TRACKS = 12
FEWEST_TRACKS = 60
BEND_READS, BEND_SIGMAS = 8, 4.5
LEAST_MARGIN = 3.0
CLEAR_MARGIN = 10.0  # log-likelihood by which the best layout must fit better than another one
MORE_TRACKS, MORE_ROUNDS = 48, 3
SWITCHES = 8
TAILS = 1.2  # times have heavier tails than a normal error
APART_ERRORS = 4.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The best model and its fit, the arm times behind it, the log-likelihood margin over the best other
    layout (`margin`) and over the other direction of cylinders (`direction_margin`), the zone that was
    measured, the command overhead (ns), the number of tracks with one skew, or until the first reversal
    (`uniform_tracks`), and the margin over other numbers of heads."""

    fit: ModelFit
    rows: ArmTimes
    margin: float
    direction_margin: float
    zone: ZoneRun
    command_ns: float
    uniform_tracks: int | None
    heads_margin: float = np.inf

    @property
    def switch_observed(self) -> bool:
        """Whether the head switches of the model were observed, by their time or by a skew of their own."""
        by_skew = self.uniform_tracks is not None and layout_models.is_consistent(
            self.fit.model, self.uniform_tracks
        )
        return by_skew or self.fit.switch_ns is not None

    @property
    def determined(self) -> bool:
        """Whether the margin over another layout suffices. A model with frequent head switches of which none
        was observed rests on the seek curve alone, which may be any increasing curve, so it needs a clear
        margin."""
        often = layout_models.family(self.fit.model.layout) in (
            layout_models.CYLINDER,
            layout_models.SINGLE,
            layout_models.HYBRID,
        )
        return self.margin >= (CLEAR_MARGIN if often and not self.switch_observed else LEAST_MARGIN)

    @property
    def heads_determined(self) -> bool:
        """Whether the margin over other numbers of heads suffices."""
        return self.determined and self.heads_margin >= LEAST_MARGIN


def spread(count: int) -> F64:
    """Values from 0 to 1, evenly but not equidistantly spread; deterministic, so that a replay repeats them
    exactly."""
    return np.asarray((np.arange(count) + np.mod(0.5 + np.arange(count) * GOLDEN, 1.0)) / count, np.float64)


def tracks_of(zone: ZoneRun) -> int:
    """Number of whole tracks of a zone."""
    return (zone.end - zone.begin) // zone.grid.track


def track_of(zone: ZoneRun, number: int) -> Track:
    """A track of a zone by its number."""
    return Track(zone.begin + number * zone.grid.track, zone.grid.track)


def whole_zones(zones: list[ZoneRun]) -> list[ZoneRun]:
    """Zones whose first and last sector are known exactly."""
    ends = [zone.doubt for zone in zones[1:]]
    return [zone for zone, doubt in zip(zones, ends, strict=False) if zone.doubt == 0 and doubt == 0]


def find_layout(platter: Platter, zones: list[ZoneRun], uniform_tracks: int | None) -> Layout | None:
    """The layout from arm times; `uniform_tracks` is the number of successive tracks with one skew."""
    whole = [zone for zone in whole_zones(zones) if tracks_of(zone) >= FEWEST_TRACKS]
    candidates = whole or [zone for zone in zones if tracks_of(zone) >= FEWEST_TRACKS]
    if not candidates:
        return None
    zone = max(candidates, key=tracks_of)
    arm = Arm(platter)
    command_ns = arm.measure_same([track_of(zone, number) for number in range(SAME_TRACKS)])
    rows = _measured(arm, zones, zone)
    heads = layout_models.shared_heads([tracks_of(each) for each in whole])
    noise_ns = max(arm.noise_ns, layout_models.LEAST_NOISE_NS)
    for number in range(MORE_ROUNDS + 1):
        fits = layout_models.best_fits(rows, tracks_of(zone), heads, noise_ns, uniform_tracks)
        if TAILS * fits[0].scatter_ns > 1.1 * noise_ns:
            noise_ns = TAILS * fits[0].scatter_ns
            fits = layout_models.best_fits(rows, tracks_of(zone), heads, noise_ns, uniform_tracks)
        ahead = [_ahead(fits, same) for same in (False, True)]
        if ahead[0] >= CLEAR_MARGIN or number == MORE_ROUNDS:
            break
        rows = _joined(rows, _more(arm, zone, number))
    switch_ns = _switch(arm, zone, fits[0])
    if uniform_tracks is None and _may_hide_reversals(fits[0], heads, switch_ns):
        reversal = _first_reversal(platter, zone, rows, command_ns, noise_ns)
        if reversal is not None:
            rows, uniform_tracks = _joined(rows, _reversal_rows(arm, zone, reversal.tracks)), reversal.tracks
            heads = [reversal.heads] if reversal.heads is not None and reversal.heads in heads else heads
            fits = layout_models.best_fits(rows, tracks_of(zone), heads, noise_ns, uniform_tracks)
            ahead = [_ahead(fits, same) for same in (False, True)]
            switch_ns = _switch(arm, zone, fits[0])
    best = replace(fits[0], switch_ns=switch_ns)
    return Layout(best, rows, ahead[0], ahead[1], zone, command_ns, uniform_tracks, heads_margin_of(fits))


def _may_hide_reversals(best: ModelFit, heads: list[int], switch_ns: float | None) -> bool:
    """Whether the disk may be a hybrid serpentine whose reversals no hop has met, because no hop
    distinguished a head switch from a step; or one whose group size, or number of heads, is only the best of
    several fits."""
    if best.model.layout == layout_models.HYBRID:
        return switch_ns is None or len(heads) > 1
    return (
        switch_ns is None
        and layout_models.family(best.model.layout) in (layout_models.CYLINDER, layout_models.SINGLE)
        and max(heads) > 1
    )


def _first_reversal(
    platter: Platter, zone: ZoneRun, rows: ArmTimes, command_ns: float, noise_ns: float
) -> Reversal | None:
    """The first reversal of the groups of a zone; None if there is none."""
    steps = rows.time_ns[np.abs(rows.other - rows.one) == 1]
    if len(steps) == 0:
        return None
    most = min(layout_models.MOST_GROUP, tracks_of(zone) // 4) + 1
    reversal = first_reversal(platter, zone, command_ns, float(np.median(steps)), noise_ns, most)
    return None if reversal is None or reversal.tracks < 3 else reversal


def _reversal_rows(arm: Arm, zone: ZoneRun, group: int) -> ArmTimes:
    """Arm times of the hops between groups."""
    numbers = group * np.arange(1, min(SWITCHES, (tracks_of(zone) - 2) // group) + 1)
    return _rows(arm, "turn", zone, np.stack([numbers - 1, numbers], axis=1))


def _ahead(fits: list[ModelFit], same: bool) -> float:
    """Log-likelihood margin of the best model over the best of another layout or, with `same`, over the same
    cylinders in the other direction."""
    best = fits[0]
    family = layout_models.family(best.model.layout)
    others = [
        fit.cost for fit in fits[1:]
        if (layout_models.family(fit.model.layout) == family) is same
        and (not same or fit.model.heads == best.model.heads)
    ]  # fmt: skip
    return min(others, default=np.inf) - best.cost


def heads_margin_of(fits: list[ModelFit]) -> float:
    """Log-likelihood margin of the best model over the same layout with other numbers of heads."""
    model = fits[0].model
    others = [
        fit.cost
        for fit in fits[1:]
        if fit.model.heads != model.heads
        and layout_models.family(fit.model.layout) == layout_models.family(model.layout)
    ]
    return min(others, default=np.inf) - fits[0].cost


def _switch(arm: Arm, zone: ZoneRun, best: ModelFit) -> float | None:
    """The time of a head switch alone, if the layout has one without a seek; None if it equals that of a step
    to the next track, since then it may be one."""
    model = best.model
    if model.layout in (layout_models.HORIZONTAL, layout_models.SINGLE):
        return None
    if layout_models.family(model.layout) == layout_models.CYLINDER:
        numbers = [number for number in range(1, 4 * SWITCHES) if number % model.heads][:SWITCHES]
        steps = [(number, number + model.heads) for number in numbers]
    else:
        most = tracks_of(zone) // model.group
        numbers = [model.group * number for number in range(1, most) if number % model.heads][:SWITCHES]
        steps = [(number - 4, number - 3) for number in numbers]
    switches = [(number - 1, number) for number in numbers]
    found = arm.times("switch", [(track_of(zone, one), track_of(zone, other)) for one, other in switches])
    plain = arm.times("step", [(track_of(zone, one), track_of(zone, other)) for one, other in steps])
    if np.isfinite(found).sum() < 3 or np.isfinite(plain).sum() < 3:
        return None
    error = np.hypot(np.nanstd(found), np.nanstd(plain)) / np.sqrt(len(switches))
    apart = abs(float(np.nanmedian(found) - np.nanmedian(plain)))
    return float(np.nanmedian(found)) if apart > APART_ERRORS * error else None


def _joined(one: ArmTimes, other: ArmTimes) -> ArmTimes:
    return ArmTimes(
        *(np.concatenate([getattr(one, each), getattr(other, each)]) for each in ArmTimes.__slots__)
    )


def _more(arm: Arm, zone: ZoneRun, number: int) -> ArmTimes:
    """More times at the scale of groups, from the first track and from one further on."""
    most = min(tracks_of(zone) - 2, LONGEST_LOG)
    base = 0 if number == 0 else most // (3 + number)
    away = NEAR_TRACKS * (most / 3 / NEAR_TRACKS) ** np.sort(np.mod(spread(MORE_TRACKS) + 0.3 * number, 1.0))
    pairs = np.array([(base, base + int(each)) for each in away], np.int64)
    return _rows(arm, "more", zone, pairs)


def _rows(arm: Arm, name: str, zone: ZoneRun, pairs: I64) -> ArmTimes:
    """Times between pairs of track numbers of a zone."""
    time_ns = arm.times(
        name, [(track_of(zone, int(one)), track_of(zone, int(other))) for one, other in pairs]
    )
    seen = np.isfinite(time_ns)
    return ArmTimes(pairs[seen, 0], pairs[seen, 1], time_ns[seen], np.empty(0), np.empty(0))


def _measured(arm: Arm, zones: list[ZoneRun], zone: ZoneRun) -> ArmTimes:
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


def _far(arm: Arm, zones: list[ZoneRun]) -> ArmTimes:
    """Times between the first track of the first zone and those of other zones."""
    before = np.concatenate([[0], np.cumsum([tracks_of(each) for each in zones[:-1]])])
    far = list(range(1, len(zones), max(1, len(zones) // FAR_ZONES)))
    far_ns = arm.times("far", [(track_of(zones[0], 0), track_of(zones[number], 0)) for number in far])
    seen = np.isfinite(far_ns)
    none = np.empty(0, np.int64)
    return ArmTimes(none, none, np.empty(0), before[far][seen].astype(np.float64), far_ns[seen])


def uniform_skew_tracks(platter: Platter, zone: ZoneRun, skews: Skews) -> int | None:
    """Number of tracks from the first of a zone that follow each other with one skew; None if it is all of
    them."""
    tracks = min(tracks_of(zone), (platter.sectors - zone.begin) // zone.grid.track) - 2
    if tracks < 8:
        return None
    few = phase_jumps(
        platter, "straight", [zone.begin + zone.grid.track * (n + 1) for n in range(6)], zone.grid.track
    )
    skew, known = float(centred(np.array(np.median(few)))), 4
    if np.count_nonzero(np.abs(centred(few - skew)) > 4 * platter.clock.sigma) > 1:
        return None  # even the first tracks differ in skew: cylinders of a few heads
    low, high = 0, 0
    while high == 0:
        at = min(2 * known, tracks)
        turned = _phase_offset(platter, zone, at)
        off = float(centred(np.array(turned - at * skew)))
        if abs(off) > 6 * platter.clock.sigma:
            low, high = known, at
        elif at == tracks:
            return None
        else:
            skew, known = skew + off / at, at

    def follows(tracks: int) -> bool:
        off = float(centred(np.array(_phase_offset(platter, zone, tracks) - tracks * skew)))
        return abs(off) <= 4 * platter.clock.sigma

    _, high = bisected(low, high, follows)
    return high if _confirmed(platter, zone, high) else None


def _phase_offset(platter: Platter, zone: ZoneRun, number: int) -> float:
    """By how much a track begins later than the first one, revolutions."""
    one, other = zone.begin, zone.begin + number * zone.grid.track
    reads = platter.read("turned", [one + 9, *(x for n in range(4) for x in (one + n, other + n))])
    return circular_median(reads.phase[1::2] - reads.phase[0::2])


def _confirmed(platter: Platter, zone: ZoneRun, number: int) -> bool:
    """Whether the track of that number begins with another skew than its neighbours."""
    track = zone.grid.track
    first = zone.begin + number * track
    bent: list[float] = []
    plain: list[float] = []
    for _ in range(BEND_READS):
        here, before, after = phase_jumps(platter, "bend", [first, first - track, first + track], track)
        bent.append(float(here))
        plain += [float(before), float(after)]
    off = circular_median(np.array(bent)) - circular_median(np.array(plain))
    return abs(float(centred(np.array(off)))) > BEND_SIGMAS * platter.clock.sigma
