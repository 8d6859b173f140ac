"""What the test of the cache's location finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Scope

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
    scope=Scope.PLACES,
)
FINDINGS: tuple[Property, ...] = (LOCATION,)
