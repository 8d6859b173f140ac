"""Geometry from latency logs of other tools: rotation, tracks and skew in the regions that were read.

Such logs cover only a few regions, so zones and layout cannot be determined.
`skylight.probe.fragmented_reads` does the inference; this module keeps the geometry.

Invariant: pure; a property that the logs do not carry is left out, with a note.

Source: docs/tests/fragmented-reads.md.
"""

from __future__ import annotations

import numpy as np

from skylight.engines.fio_log import DriveLogs
from skylight.evidence import Evidence, Step
from skylight.geometry.result import Geometry, LocalTracks
from skylight.probe.fragmented_reads.analysis import places_of


def of_logs(logs: DriveLogs) -> Geometry:
    """The geometry from the logs of one drive."""
    steps = [Step(log.name, "run", log.params, log.rows) for log in logs.logs]
    return of_evidence(Evidence("fragmented_reads", logs.facts, steps, complete=True))


def of_evidence(evidence: Evidence) -> Geometry:
    """The same from logs kept as a recording."""
    facts = evidence.target
    rotations_ns: list[float] = []
    errors: list[float] = []
    places: list[LocalTracks] = []
    notes: list[str] = []
    for place in places_of(evidence):
        home = place.home
        if home is None or place.trouble:
            notes.append(place.trouble)
            continue
        rotations_ns.append(home.fit.turn)
        errors.append(home.fit.turn_error / home.fit.turn)
        if place.track_bytes is None:
            notes.append(f"{place.name}: tracks cannot be determined; two classes of its reads lie in order.")
            continue
        places.append(LocalTracks(place.first_byte, place.end_byte, place.track_bytes, home.marks.skew))
    notes.append(
        "Logs of reads in address order show tracks only where they read; zones and layout need `extract`."
    )
    return Geometry(
        facts.name,
        facts.size_bytes,
        facts.block_bytes,
        rotation_ns=float(np.mean(rotations_ns)) if rotations_ns else None,
        rotation_error=max(errors) if errors else None,
        places=tuple(places),
        notes=tuple(notes),
    )
