"""What the test of zone cleaning finds."""

from __future__ import annotations

from skylight.findings import Property

ZONE = Property("zone_cleaning_ns", "Time to clean a zone", "ns")
EACH_IO = Property("zone_cleaning_io_ns", "Time that each write adds to cleaning its zone", "ns")
UNIT = Property(
    "cleaning_unit", "Unit of cleaning",
    words={"zone": "a whole zone"},
)  # fmt: skip
FIRST_CLEAN = Property("first_zone_clean_ns", "Idle time until a first zone is clean", "ns")
FINDINGS: tuple[Property, ...] = (ZONE, EACH_IO, UNIT, FIRST_CLEAN)
