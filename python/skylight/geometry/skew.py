"""Skews to a few parts in a thousand, once the layout is known.

The phase at which a track begins is a sum of skews, one for each step of its kind. The first tracks of a zone
are read until the skews of both kinds are determined; over many tracks of one kind the error of a single step
shrinks accordingly. Head switches that occur once per serpentine pass are read at as many passes as needed.

Invariant: reads only; a skew carries its standard error, and is None if its error stays large.

Source: skew as the angle between the begins of neighbouring tracks (Pitchumani, UCSC-SSRC-12-05, section 6.2;
Gim and Won, ACM TOS 6(2), 2010).
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import F64, I64
from skylight.geometry.clock import GOLDEN, Platter, circular_median
from skylight.geometry.layout import track_of, tracks_of
from skylight.geometry.layout_models import CYLINDER, CYLINDER_SERPENTINE, HYBRID, SINGLE, LayoutModel
from skylight.geometry.recording_zones import ZoneRun
from skylight.geometry.result import Skew
from skylight.geometry.verify import phase_jumps
from skylight.infer.track_phases import centred

STEPS = (4, 12, 40, 96)
ENOUGH = 0.004
LARGEST = 0.02  # relative error above which a skew is None
MOST_ROUNDS = 24
SWITCHES_PER_ROUND, MOST_SWITCHES = 24, 320


def find_skews(
    platter: Platter, zones: list[ZoneRun], zone: ZoneRun, model: LayoutModel
) -> tuple[Skew | None, Skew | None]:
    """Skew to the next track of a surface, and to another surface."""
    kinds = _kinds(model, min(tracks_of(zone) - 1, STEPS[-1]))
    steps, errors = _by_sums(platter, zone, kinds)
    period_ns = platter.clock.period_ns
    found = [
        Skew(float(np.mod(step, 1.0)) * period_ns, error * period_ns)
        if error < LARGEST * np.mod(step, 1.0)
        else None
        for step, error in zip(steps, errors, strict=True)
    ]
    track, head = [*found, None][:2]
    if model.layout in (CYLINDER, CYLINDER_SERPENTINE):
        return track, head
    if model.layout == SINGLE:
        return track, None
    return track, skew_at(platter, _switches(zones, zone, model))


def _kinds(model: LayoutModel, tracks: int) -> I64:
    """The kind of each step from the first track of a zone: 0 to the next track, 1 to another surface."""
    number = np.arange(tracks)
    if model.layout in (CYLINDER, CYLINDER_SERPENTINE):
        return np.where((number + 1) % model.heads == 0, 0, 1)
    return np.zeros(min(tracks, max(model.group - 1, 2)) if model.group else tracks, np.int64)


def _by_sums(platter: Platter, zone: ZoneRun, kinds: I64) -> tuple[F64, F64]:
    """The skew of each kind and its error, revolutions, from the phases at which tracks begin."""
    count = np.stack(
        [np.concatenate([[0], np.cumsum(kinds == kind)]) for kind in range(int(kinds.max()) + 1)], axis=1
    )
    rows: list[int] = []
    phases: list[float] = []
    step = _first_steps(platter, zone, kinds)
    error = np.full(len(step), np.inf)
    for number in range(MOST_ROUNDS):
        last = min(STEPS[min(number, len(STEPS) - 1)], len(kinds))
        order = np.arange(last + 1)
        track = zone.grid.track
        x = zone.begin + order * track + 1 + number % max(track - 2, 1)
        reads = platter.read("skew", np.concatenate([x[:1] + 2, x]))
        rows += order.tolist()
        phases += centred(reads.phase - (reads.x - zone.begin - order * track) / track).tolist()
        step, error = _solved(count[rows], np.array(phases), step, platter.clock.sigma)
        if number + 1 >= len(STEPS) and np.all(error < ENOUGH * np.abs(step)):
            break
    return step, error


def _first_steps(platter: Platter, zone: ZoneRun, kinds: I64) -> F64:
    """A rough skew of each kind."""
    firsts = [zone.begin + zone.grid.track * (number + 1) for number in range(min(len(kinds), 40))]
    found = phase_jumps(platter, "steps", firsts, zone.grid.track)
    return np.array([
        float(centred(np.array(circular_median(found[kinds[: len(found)] == kind]))))
        if np.any(kinds[: len(found)] == kind) else float(circular_median(found))
        for kind in range(int(kinds.max()) + 1)
    ])  # fmt: skip


def _solved(count: I64, phase: F64, step: F64, sigma: float) -> tuple[F64, F64]:
    """Least squares of skews near initial values, without outlying reads; and their standard errors."""
    level = circular_median(phase - count @ step)
    left = centred(phase - count @ step - level)
    for _ in range(3):
        used = np.abs(left) < max(4 * sigma, 3 * float(np.median(np.abs(left))))
        table = np.concatenate([count[used], np.ones((int(used.sum()), 1))], axis=1)
        change, *_ = np.linalg.lstsq(table, left[used], rcond=None)
        step, level = step + change[:-1], level + float(change[-1])
        left = centred(phase - count @ step - level)
    spread = max(float(np.std(left[used])), 1e-5)
    inverse = np.linalg.pinv(table.T @ table)
    return step, spread * np.sqrt(np.diag(inverse)[:-1])


def skew_at(platter: Platter, places: list[tuple[int, int]]) -> Skew | None:
    """The skew of a step that occurs at the given first sectors (each with the size of the track before),
    from as many of them as needed."""
    if len(places) == 0:
        return None
    order = np.argsort(np.mod(np.arange(MOST_SWITCHES) * GOLDEN, 1.0)) * len(places) // MOST_SWITCHES
    seen: list[float] = []
    for number in range(MOST_SWITCHES // SWITCHES_PER_ROUND):
        some = order[number * SWITCHES_PER_ROUND : (number + 1) * SWITCHES_PER_ROUND]
        for place, track in (places[int(at)] for at in some):
            seen.append(float(phase_jumps(platter, "heads", [place, place - track], track)[0]))
        middle = circular_median(np.array(seen))
        off = centred(np.array(seen) - middle)
        fine = np.abs(off) < 5 * platter.clock.sigma
        step = middle + float(off[fine].mean())
        error = float(off[fine].std()) / np.sqrt(max(int(fine.sum()), 1))
        if number and error < ENOUGH * abs(step):
            break
    if fine.mean() < 0.6 or error > LARGEST * abs(step):
        return None
    return Skew(float(np.mod(step, 1.0)) * platter.clock.period_ns, error * platter.clock.period_ns)


def _switches(zones: list[ZoneRun], zone: ZoneRun, model: LayoutModel) -> list[tuple[int, int]]:
    """First sectors after a head switch within a zone, and the sizes of their tracks."""
    if model.layout == HYBRID:
        most = min(tracks_of(zone) // (model.group * model.heads), 12)
        numbers = [model.group * number for number in range(1, most * model.heads) if number % model.heads]
        return [(track_of(zone, number).first, zone.grid.track) for number in numbers]
    found = []
    for each in zones[:-1]:
        pass_tracks = tracks_of(each) // model.heads
        if tracks_of(each) % model.heads == 0 and each.doubt == 0:
            found += [
                (track_of(each, pass_tracks * number).first, each.grid.track)
                for number in range(1, model.heads)
            ]
    return found
