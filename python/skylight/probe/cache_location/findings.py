"""What the test of the cache's location finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property

LOCATION = Property(
    "cache_location",
    "Cache location",
    right=EXACTLY,
    words={
        "none": "none on the platters",
        "many": "in many places",
        "id": "at the inner diameter",
        "md": "at the middle diameter",
        "od": "at the outer diameter",
    },
)
FINDINGS: tuple[Property, ...] = (LOCATION,)
