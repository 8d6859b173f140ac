"""What the test of cleaning saw: the clue that test 1 lacks where it did not see what a block costs.

Test 1 leaves a drive alone once, for minutes, and what earlier writers left goes home first. The test of
cleaning brings the drive to a known state, waits for as long as it takes, and counts bands: how long a block
by itself takes to go home is then known to a few per cent.

Source: docs/tests/drive-type.md, "What it may be".
"""

from __future__ import annotations

from skylight.findings import Known
from skylight.probe.cleaning.findings import BAND, BAND_RIGHT
from skylight.probe.drive_type import hypotheses
from skylight.probe.drive_type.cleaning_cost import BAND_NS
from skylight.probe.drive_type.hypotheses import Clue
from skylight.units import format_duration


def bands_seen(known: Known) -> Clue | None:
    """That a block took its band along, also if its time is off by all that counts as right; None where the
    test did not see that."""
    found, one_ns = known.get(BAND.name), known.part(BAND.name, "one_block")
    if found is None or one_ns is None or one_ns * (1 - BAND_RIGHT.part) < BAND_NS:
        return None
    words = f"What only shingling explains: a block alone takes {format_duration(one_ns)} to go home."
    return hypotheses.bands(words, found.rows)
