"""Extraction: from a target to its geometry, written once as a procedure.

On a live target the procedure issues its reads and keeps them in a recording; over a recording the same code
runs again, and the log answers each step. A drive and its recording therefore yield the same geometry, and an
interrupted run resumes where it stopped.

Invariant: nothing is ever written to the target. A property that a step cannot determine is left out, a note
gives the reason, and the steps that need the property are skipped.

Source: docs/architecture.md, "Five ideas that carry everything", 3; DIG (Gim and Won, ACM TOS 6(2), 2010) for
the order: rotation, tracks, zones, skews.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skylight.evidence import F64
from skylight.geometry import layout_models
from skylight.geometry.access_times import access_times
from skylight.geometry.clock import Platter
from skylight.geometry.density_layout import density_skews, find_density_layout
from skylight.geometry.density_pattern import rises
from skylight.geometry.initial_clock import find_clock
from skylight.geometry.layout import LEAST_MARGIN, Layout, find_layout, tracks_of, uniform_skew_tracks
from skylight.geometry.recording_zones import ZoneRun, ZoneSearch
from skylight.geometry.result import Geometry, SeekCurve, Zone
from skylight.geometry.skew import find_skews
from skylight.geometry.track_size import Grid, survey
from skylight.geometry.verify import Skews, observed_skews
from skylight.infer.track_phases import Tracks, centred
from skylight.probe.procedure import Steps
from skylight.units import format_size

FIRST_PLACES = (3, 9, 17, 30, 61)
SKEW_TRACKS = 40
ANY_SKEW = np.arange(0.03, 0.97, 0.02)
FINE_SLOPE = 0.015
READS_A_ZONE, OTHER_READS = 260, 9_000


def extract(steps: Steps, access_from: int = 0) -> Geometry:
    """Measures a target's geometry. Figure 12's successive tracks start at number `access_from`."""
    platter = Platter(steps)
    geometry = Geometry(steps.target.name, steps.size, steps.block_bytes)
    rough = find_clock(platter)
    if rough is None:
        note = "Read completions show no rotation or no tracks, so no geometry can be determined."
        return replace(geometry, reads=platter.count, notes=(note,))
    clock = platter.clock
    geometry = replace(geometry, rotation_ns=clock.period_ns, rotation_error=clock.period_error)
    first = _first_grid(platter, rough)
    skews = None if first is None else observed_skews(platter, first, SKEW_TRACKS)
    if first is None or skews is None:
        size = format_size(round(rough.track_bytes))
        note = f"Track boundaries (tracks of about {size}) could not be located at the first address."
        return replace(geometry, reads=platter.count, notes=(note,))
    zones, notes = _zones(steps, platter, first, skews)
    clock = platter.clock
    geometry = replace(
        geometry, rotation_ns=clock.period_ns, rotation_error=clock.period_error,
        zones=tuple(map(_zone, zones)), zone_reads=platter.count, notes=notes,
    )  # fmt: skip
    geometry = _with_layout(platter, geometry, zones, skews)
    wide, close = access_times(platter, zones, access_from)
    geometry = replace(geometry, access=wide, access_close=close)
    return replace(geometry, reads=platter.count)


def _first_grid(platter: Platter, rough: Tracks) -> Grid | None:
    """The exact track grid near the first address."""
    track = rough.track_bytes / platter.unit
    jumps = np.mod(np.diff(rough.level), 1.0)
    skews = ANY_SKEW if len(jumps) < 3 else _rough_skews(jumps)
    for tried in (skews, ANY_SKEW):
        for place in FIRST_PLACES:
            grid = survey(
                platter, int(place * track), track * (1 - FINE_SLOPE), track * (1 + FINE_SLOPE), tried
            )
            if grid is not None:
                return grid
    return None


def _rough_skews(jumps: F64) -> F64:
    """Candidate skews: the values near frequent differences between the levels of neighbouring tracks."""
    grid = np.arange(0.0, 1.0, 0.02)
    near = (np.abs(centred(jumps[:, None] - grid[None, :])) < 0.03).sum(axis=0)
    often = grid[(near >= max(2, 0.2 * len(jumps))) & (grid > 0.02) & (grid < 0.98)]
    return often if len(often) else ANY_SKEW


def _zones(
    steps: Steps, platter: Platter, first: Grid, skews: Skews
) -> tuple[list[ZoneRun], tuple[str, ...]]:
    """The zone table, and notes on what is missing; estimates the total of reads from the zones found."""
    begun = platter.count

    def settled(part: float) -> None:
        spent = platter.count - begun
        steps.expect(int(begun + spent / max(part, 0.02) + OTHER_READS))

    steps.expect(begun + 24 * READS_A_ZONE + OTHER_READS)
    search = ZoneSearch(platter, skews, settled)
    zones = search.run(first)
    last = search.undetermined_sectors
    note = f"The last {last} sectors hold other tracks, too few to determine their size."
    return zones, (note,) if last else ()


def _zone(run: ZoneRun) -> Zone:
    return Zone(run.begin, run.end, run.grid.track, run.grid.at(run.begin), run.doubt)


def _with_layout(platter: Platter, geometry: Geometry, zones: list[ZoneRun], skews: Skews) -> Geometry:
    """The geometry with layout, skews and seek curve."""
    density = find_density_layout(platter, zones)
    if density is not None:
        track, head = density_skews(platter, zones, density)
        return replace(
            geometry,
            layout=layout_models.HORIZONTAL,
            surfaces=density.heads,
            track_skew=track,
            head_skew=head,
            command_ns=density.command_ns,
            surface_density=density.density,
            seek=seek_curve(density.apart, density.time_ns),
        )
    if rises([zone.grid.track for zone in zones]):
        longest = max(zones, key=tracks_of)
        track, _ = find_skews(platter, zones, longest, layout_models.LayoutModel(layout_models.SINGLE, 1))
        note = "Track sizes recur as on surfaces of different density, but the number of heads is unclear."
        return replace(geometry, track_skew=track, notes=(*geometry.notes, note))
    uniform_tracks = uniform_skew_tracks(platter, zones[0], skews)
    found = find_layout(platter, zones, uniform_tracks)
    if found is None:
        note = "No zone has enough tracks to determine the layout from arm times."
        return replace(geometry, notes=(*geometry.notes, note))
    return _of_layout(platter, geometry, zones, found, uniform_tracks is None and len(skews.seen) == 1)


def _of_layout(
    platter: Platter, geometry: Geometry, zones: list[ZoneRun], found: Layout, alike: bool
) -> Geometry:
    """Adds what a layout determines; `alike` is whether all steps were observed to have one skew."""
    model = found.fit.model
    notes = list(geometry.notes)
    layout = layout_models.family(model.layout) if found.determined else None
    if layout is None:
        notes.append(
            f"Arm times do not determine the layout: {model.layout} fits best, the log-likelihood of another"
            f" is {found.margin:.1f} lower."
        )
    elif not found.heads_determined:
        notes.append(f"Arm times do not determine the heads: {model.heads} fit best, others nearly as well.")
    if layout == layout_models.HYBRID and not found.switch_observed:
        notes.append(f"Groups of {model.group} tracks fit best, but no reversal was located to the track.")
    if layout is None and alike:
        track, _ = find_skews(platter, zones, found.zone, layout_models.LayoutModel(layout_models.SINGLE, 1))
        head = track  # all steps have the same skew
    else:
        track, head = find_skews(platter, zones, found.zone, model)
    return replace(
        geometry,
        layout=layout,
        serpentine=_serpentine(found) if layout is not None else None,
        surfaces=model.heads if found.heads_determined else None,
        group_tracks=model.group if layout == layout_models.HYBRID else None,
        track_skew=track,
        head_skew=head,
        head_switch_ns=found.fit.switch_ns,
        command_ns=found.command_ns,
        seek=seek_curve(found.fit.apart, found.fit.sought_ns),
        notes=tuple(notes),
    )


def _serpentine(found: Layout) -> bool | None:
    """Whether the surfaces of successive cylinders are used in alternating order; None if arm times do not
    determine it, and for other layouts."""
    if layout_models.family(found.fit.model.layout) != layout_models.CYLINDER:
        return None
    if abs(found.direction_margin) < LEAST_MARGIN:
        return None
    return found.fit.model.layout == layout_models.CYLINDER_SERPENTINE


def seek_curve(apart: F64, time_ns: F64) -> SeekCurve | None:
    """Non-negative constant, root and linear part of seek times (ns) over distances (tracks)."""
    from scipy.optimize import nnls

    if len(apart) < 4:
        return None
    basis = np.stack([np.ones_like(apart), np.sqrt(apart), apart], axis=1)
    weight = 1 / np.maximum(time_ns, 1.0)
    for _ in range(3):
        curve, _ = nnls(basis * weight[:, None], time_ns * weight)
        off = np.abs(basis @ curve - time_ns) / np.maximum(time_ns, 1.0)
        weight = np.where(off < 4 * np.median(off) + 1e-3, 1 / np.maximum(time_ns, 1.0), 0.0)
    order = np.argsort(apart, kind="stable")
    points = tuple((float(apart[row]), float(time_ns[row])) for row in order)
    return SeekCurve(float(curve[0]), float(curve[1]), float(curve[2]), points)
