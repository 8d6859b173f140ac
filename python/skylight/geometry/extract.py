"""Extraction: from a target to its geometry, written once as a procedure.

On a live target its reads are done and kept in a recording; over a recording the same code runs again and
each step is answered by its log. So a geometry from a drive and one from its recording are the same, and a
run that was cut goes on where it was.

Invariant: nothing is ever written to the target. What a step does not tell is left out, with a note that
says why, and the steps that need it are not run.

Source: docs/architecture.md, idea 3; DIG (Gim and Won, ACM TOS 6(2), 2010) for the order: rotation, tracks,
zones, skews.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from skylight.geometry import walk
from skylight.geometry.access import access_times
from skylight.geometry.clock import F64, Platter
from skylight.geometry.holds import Skews, seen_skews
from skylight.geometry.layout import LEAST_SURE, Layout, find_layout, straight_tracks, tracks_of
from skylight.geometry.skew import find_skews
from skylight.geometry.start import find_clock
from skylight.geometry.stroked import find_strokes, stroke_skews
from skylight.geometry.strokes import rises
from skylight.geometry.survey import Grid, survey
from skylight.geometry.table import Geometry, SeekCurve, Zone
from skylight.geometry.zones import ZoneRun, ZoneSearch
from skylight.infer.turning import Tracks, centred
from skylight.probe.procedure import Steps
from skylight.units import format_size

FIRST_PLACES = (3, 9, 17, 30, 61)
SKEW_TRACKS = 40
ANY_SKEW = np.arange(0.03, 0.97, 0.02)
FINE_SLOPE = 0.015
READS_A_ZONE, OTHER_READS = 260, 9_000


def extract(
    steps: Steps, target: str, access_from: int = 0, expect: Callable[[int], None] | None = None
) -> Geometry:
    """The geometry behind a target's steps; tracks are accessed one by one from number `access_from` on, and
    `expect` is told how many reads it will be, as that gets clear."""
    platter = Platter(steps)
    tell = expect if expect is not None else _nothing
    geometry = Geometry(target, steps.size, steps.block_bytes)
    rough = find_clock(platter)
    if rough is None:
        note = "Completions of reads follow no rotation, or no tracks: there is no geometry to be found."
        return replace(geometry, reads=platter.count, notes=(note,))
    clock = platter.clock
    geometry = replace(geometry, rotation_ns=clock.period_ns, rotation_error=clock.period_error)
    first = _first_grid(platter, rough)
    skews = None if first is None else seen_skews(platter, first, SKEW_TRACKS)
    if first is None or skews is None:
        size = format_size(round(rough.track_bytes))
        note = f"Ends of tracks of about {size} could not be told at the first address."
        return replace(geometry, reads=platter.count, notes=(note,))
    zones, notes = _zones(platter, first, skews, tell)
    clock = platter.clock
    geometry = replace(
        geometry, rotation_ns=clock.period_ns, rotation_error=clock.period_error,
        zones=tuple(map(_zone, zones)), zone_reads=platter.count, notes=notes,
    )  # fmt: skip
    geometry = _walked(platter, geometry, zones, skews)
    wide, close = access_times(platter, zones, access_from)
    geometry = replace(geometry, access=wide, access_close=close)
    return replace(geometry, reads=platter.count)


def _nothing(reads: int) -> None:
    """Takes what nobody asks for."""


def _first_grid(platter: Platter, rough: Tracks) -> Grid | None:
    """The exact tracks near the first address."""
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
    """Levels' steps to within what they are worth: a few values around each that is frequent."""
    grid = np.arange(0.0, 1.0, 0.02)
    near = (np.abs(centred(jumps[:, None] - grid[None, :])) < 0.03).sum(axis=0)
    often = grid[(near >= max(2, 0.2 * len(jumps))) & (grid > 0.02) & (grid < 0.98)]
    return often if len(often) else ANY_SKEW


def _zones(
    platter: Platter, first: Grid, skews: Skews, tell: Callable[[int], None]
) -> tuple[list[ZoneRun], tuple[str, ...]]:
    """The zone table, and what it does not tell; foretells the reads from what zones so far took."""
    begun = platter.count

    def settled(part: float) -> None:
        spent = platter.count - begun
        tell(int(begun + spent / max(part, 0.02) + OTHER_READS))

    tell(begun + 24 * READS_A_ZONE + OTHER_READS)
    search = ZoneSearch(platter, skews, settled)
    zones = search.run(first)
    untold = f"The last {search.untold} sectors hold other tracks, too few for their size to be told."
    return zones, (untold,) if search.untold else ()


def _zone(run: ZoneRun) -> Zone:
    return Zone(run.begin, run.end, run.grid.track, run.grid.at(run.begin), run.doubt)


def _walked(platter: Platter, geometry: Geometry, zones: list[ZoneRun], skews: Skews) -> Geometry:
    """Layout, skews and the arm."""
    found_strokes = find_strokes(platter, zones)
    if found_strokes is not None:
        track, head = stroke_skews(platter, zones, found_strokes)
        return replace(
            geometry,
            layout=walk.HORIZONTAL,
            surfaces=found_strokes.heads,
            track_skew=track,
            head_skew=head,
            command_ns=found_strokes.command_ns,
            surface_density=found_strokes.density,
            seek=seek_curve(found_strokes.apart, found_strokes.time_ns),
        )
    if rises([zone.grid.track for zone in zones]):
        longest = max(zones, key=tracks_of)
        track, _ = find_skews(platter, zones, longest, walk.Way(walk.SINGLE, 1))
        note = "Sizes of tracks come again as on surfaces of different density, but tell no number of heads."
        return replace(geometry, track_skew=track, notes=(*geometry.notes, note))
    straight = straight_tracks(platter, zones[0], skews)
    found = find_layout(platter, zones, straight)
    if found is None:
        note = "No zone has enough tracks for the arm to tell how they are walked."
        return replace(geometry, notes=(*geometry.notes, note))
    return _of_layout(platter, geometry, zones, found, straight is None and len(skews.seen) == 1)


def _of_layout(
    platter: Platter, geometry: Geometry, zones: list[ZoneRun], found: Layout, alike: bool
) -> Geometry:
    """What a layout says; `alike` is whether all steps were seen to have one skew."""
    way = found.fit.way
    notes = list(geometry.notes)
    layout = walk.family(way.layout) if found.told else None
    if layout is None:
        notes.append(
            f"Arm times do not tell the layout: {way.layout} fits best, another {found.sure:.1f} less (log)."
        )
    elif not found.heads_told:
        notes.append(f"Arm times do not tell the heads: {way.heads} fit best, others nearly as well.")
    if layout == walk.HYBRID and not found.seen:
        notes.append(f"Groups of {way.group} tracks are what fits best; no turn was seen to the track.")
    if layout is None and alike:
        track, _ = find_skews(platter, zones, found.zone, walk.Way(walk.SINGLE, 1))
        head = track  # every step has it, whatever kind of step it is
    else:
        track, head = find_skews(platter, zones, found.zone, way)
    return replace(
        geometry,
        layout=layout,
        serpentine=_serpentine(found) if layout is not None else None,
        surfaces=way.heads if found.heads_told else None,
        group_tracks=way.group if layout == walk.HYBRID else None,
        track_skew=track,
        head_skew=head,
        head_switch_ns=found.fit.switch_ns,
        command_ns=found.command_ns,
        seek=seek_curve(found.fit.apart, found.fit.sought_ns),
        notes=tuple(notes),
    )


def _serpentine(found: Layout) -> bool | None:
    """Whether cylinders are walked there and back, where the arm tells; None for other layouts."""
    if walk.family(found.fit.way.layout) != walk.CYLINDER:
        return None
    if abs(found.other_walk) < LEAST_SURE:
        return None
    return found.fit.way.layout == walk.CYLINDER_SERPENTINE


def seek_curve(apart: F64, time_ns: F64) -> SeekCurve | None:
    """Constant, root and linear part of seek times (ns) over distances (tracks), none of them negative."""
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
