"""What latency logs of other tools tell of a geometry: rotation, tracks and skew at the places that were
read.

Logs were made for another purpose: no zone can be looked for in them, and no layout.
`skylight.probe.fragmented` does the inference; this module keeps what is geometry.

Invariant: pure; what the logs do not carry is left out, with a note.

Source: docs/tests/fragmented-reads.md.
"""

from __future__ import annotations

import numpy as np

from skylight.engines.fio_log import DriveLogs
from skylight.evidence import Evidence, Step
from skylight.geometry.table import Geometry, Place
from skylight.probe.fragmented.analysis import places_of


def of_logs(logs: DriveLogs) -> Geometry:
    """The geometry that logs of one drive show."""
    steps = [Step(log.name, "run", log.params, log.rows) for log in logs.logs]
    return of_evidence(Evidence("fragmented_reads", logs.facts, steps, complete=True))


def of_evidence(evidence: Evidence) -> Geometry:
    """The same of logs that were kept as a recording."""
    facts = evidence.target
    turns: list[float] = []
    errors: list[float] = []
    places: list[Place] = []
    notes: list[str] = []
    for place in places_of(evidence):
        home = place.home
        if home is None or place.trouble:
            notes.append(place.trouble)
            continue
        turns.append(home.fit.turn)
        errors.append(home.fit.turn_error / home.fit.turn)
        if place.track_bytes is None:
            notes.append(f"{place.name} does not tell its tracks: two classes of its reads lie in order.")
            continue
        places.append(Place(place.first_byte, place.end_byte, place.track_bytes, home.marks.skew))
    notes.append(
        "Logs of reads in address order tell tracks where they read; zones and layout need `extract`."
    )
    return Geometry(
        facts.name,
        facts.size_bytes,
        facts.block_bytes,
        rotation_ns=float(np.mean(turns)) if turns else None,
        rotation_error=max(errors) if errors else None,
        places=tuple(places),
        notes=tuple(notes),
    )
