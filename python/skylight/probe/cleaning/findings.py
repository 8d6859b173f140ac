"""What the cleaning test finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Right

START_RIGHT, BAND_RIGHT = Right(part=0.2), Right(part=0.15)

TYPE = Property("cleaning_type", "Cleaning type", right=EXACTLY)
START = Property("cleaning_start_ns", "Cleaning begins after", "ns", START_RIGHT)
BAND = Property("cleaning_band_ns", "Time to clean a band", "ns", BAND_RIGHT)
CACHE_BANDS = Property("cache_bands", "Cache bands")
FINDINGS: tuple[Property, ...] = (TYPE, START, BAND, CACHE_BANDS)
