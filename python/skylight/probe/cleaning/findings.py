"""What the cleaning test finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Right, Scope

START_RIGHT, BAND_RIGHT = Right(part=0.2), Right(part=0.15)

TYPE = Property(
    "cleaning_type", "Cleaning type", right=EXACTLY, values=("lazy", "aggressive"), scope=Scope.ANYWHERE
)
START = Property("cleaning_start_ns", "Cleaning begins after", "ns", START_RIGHT, scope=Scope.ANYWHERE)
BAND = Property("cleaning_band_ns", "Time to clean a band", "ns", BAND_RIGHT, scope=Scope.LOCAL)
CACHE_BANDS = Property("cache_bands", "Cache bands", scope=Scope.WHOLE)
FINDINGS: tuple[Property, ...] = (TYPE, START, BAND, CACHE_BANDS)
