"""What the test of zone cleaning finds."""

from __future__ import annotations

from skylight.findings import Property, Scope
from skylight.probe.band_size.findings import BAND_SIZE
from skylight.probe.cleaning.findings import START, TYPE

ZONE = Property("zone_cleaning_ns", "Time to clean a zone", "ns", scope=Scope.ANYWHERE)
EACH_IO = Property(
    "zone_cleaning_io_ns", "Time that each write adds to cleaning its zone", "ns", scope=Scope.ANYWHERE
)
UNIT = Property(
    "cleaning_unit", "Unit of cleaning",
    words={"zone": "a whole zone"}, scope=Scope.ANYWHERE,
)  # fmt: skip
FIRST_CLEAN = Property(
    "first_zone_clean_ns", "Idle time until a first zone is clean", "ns", scope=Scope.ANYWHERE
)
OWN: tuple[Property, ...] = (ZONE, EACH_IO, UNIT, FIRST_CLEAN)
"""What no other test finds."""

FINDINGS: tuple[Property, ...] = (*OWN, TYPE, START, BAND_SIZE)
"""The rest belongs to earlier tests, and is found here only where they could not determine it."""
