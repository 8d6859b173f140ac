"""Row W6: geometry from timing, on the paper's kind of disk.

Extracts a profile's disk with reads alone and compares tracks, zones, skew and layout with the profile; then
fits zones with the paper's defaults (Table 1) and draws Figures 11 and 12.

Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05, 2012), sections 6.1, 6.2.
"""

from __future__ import annotations

import json
from pathlib import Path

from skylight.engines.sim import SimEngine, read_profile
from skylight.errors import SkylightError
from skylight.geometry.figures import draw
from skylight.geometry.fit import CLOSE_FROM, FitOptions, fit, saw_tooth, skew_tracks
from skylight.geometry.run import measure
from skylight.geometry.scoring import EDGE_PART, SKEW_PART, score, truth_of
from skylight.reproduce.rows import Band, Measured, Ours

PROFILE = "swd-160gb"
MOST_READS = 20_000

BANDS: tuple[Band, ...] = (
    Band("W6", "track sizes", "recovered", "exact", "exact"),
    Band("W6", "zone edges", "recovered", f"within {EDGE_PART:.0%}", f"within {EDGE_PART:.0%}"),
    Band("W6", "skew from track to track, off by %", "2 pi / n", -100 * SKEW_PART, 100 * SKEW_PART),
    Band(
        "W6",
        "skew from the saw-tooth of access times, off by %",
        "Figure 12",
        -100 * SKEW_PART,
        100 * SKEW_PART,
    ),
    Band("W6", "layout", "one platter", "right", "right"),
    Band("W6", "reads for the zone table", "all of each track's end (DIG)", 0, MOST_READS),
    Band("W6", "fitted zones", "18", 18, 18),
)
"""The bands of W6, for the table of `reproduce swd`."""


def w6(folder: Path) -> Measured:
    """Measures the row; `folder` receives the recording."""
    from skylight import _native

    text, origin = read_profile(PROFILE)
    truth = truth_of(json.loads(_native.profile_check(text, origin)))
    engine = SimEngine.open(PROFILE)
    try:
        found = measure(engine, folder / f"geometry-{PROFILE}", access_from=CLOSE_FROM)
    except SkylightError as error:
        return Measured({}, notes=(f"the geometry could not be extracted: {error}",))
    finally:
        engine.close()
    graded = score(found, truth)
    fitted = fit(found, FitOptions())
    tooth, skew = saw_tooth(found), skew_tracks(found)
    true_tracks = truth.rotation_ns / truth.sequential_skew_ns
    figures: dict[str, Ours] = {
        "track sizes": "exact" if graded.tracks else "wrong",
        "zone edges": f"within {EDGE_PART:.0%}" if graded.edges else "wrong",
        "skew from track to track, off by %": None if skew is None else 100 * (true_tracks / skew - 1),
        "skew from the saw-tooth of access times, off by %": None
        if tooth is None
        else 100 * (true_tracks / tooth - 1),
        "layout": "right" if graded.layout else "wrong",
        "reads for the zone table": found.zone_reads,
        "fitted zones": len(fitted.zones),
    }
    note = f"{len(found.zones)} zones, {graded.exact_edges} edges to the sector, {found.reads:,} reads in all"
    return Measured(figures, lambda: draw(found, fitted), (note, *found.notes))
