"""What later tests saw: the clues that test 1 lacks.

Test 1 leaves a drive alone once, for minutes, and what earlier writers left goes home first. The test of
cleaning brings the drive to a known state, waits for as long as it takes, and counts bands: how long a block
by itself takes to go home is then known to a few per cent.

A cache that is full when test 1 begins may take all its time, and its medium stays unknown. A cache whose one
place the arm has to go to lies on the platters.

Source: docs/tests/drive-type.md, "What it may be".
"""

from __future__ import annotations

from skylight.findings import Finding, Known
from skylight.infer.priors import follows
from skylight.probe.cache_location.findings import LOCATION
from skylight.probe.cleaning.findings import BAND, BAND_RIGHT
from skylight.probe.drive_type import hypotheses
from skylight.probe.drive_type.cleaning_cost import BAND_NS
from skylight.probe.drive_type.findings import CACHE_MEDIUM, DRIVE_TYPE
from skylight.probe.drive_type.hypotheses import Clue
from skylight.units import format_duration

ONE_PLACE = ("od", "md", "id")


def bands_seen(known: Known) -> Clue | None:
    """That a block took its band along, also if its time is off by all that counts as right; None where the
    test did not see that."""
    found, one_ns = known.get(BAND.name), known.part(BAND.name, "one_block")
    if found is None or one_ns is None or one_ns * (1 - BAND_RIGHT.part) < BAND_NS:
        return None
    words = f"What only shingling explains: a block alone takes {format_duration(one_ns)} to go home."
    return hypotheses.bands(words, found.rows)


def medium_by_place(known: Known) -> Finding | None:
    """The medium of a cache to whose one place the arm was seen to go; None where it was not. Caches in many
    places say nothing: blocks that went home are read like that too."""
    place = known.get(LOCATION.name)
    if place is None or place.value not in ONE_PLACE:
        return None
    why = f"What is in the cache is read from one place on the platters: {place.why}"
    way = follows(DRIVE_TYPE.name, LOCATION.name)
    return CACHE_MEDIUM.found("disk", place.confidence, why, place.rows, way=way)
