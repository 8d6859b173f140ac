"""What the test of zone cleaning finds."""

from __future__ import annotations

from skylight.findings import Property

ZONE = Property("zone_cleaning_ns", "Time to clean a zone", "ns")
EACH_IO = Property("zone_cleaning_io_ns", "Time that each write adds to cleaning its zone", "ns")
UNIT = Property(
    "cleaning_unit", "Unit of cleaning",
    words={"zone": "a whole zone"},
)  # fmt: skip
START = Property("zone_cleaning_start_ns", "Cleaning of zones begins after", "ns")
FINDINGS: tuple[Property, ...] = (ZONE, EACH_IO, UNIT, START)
