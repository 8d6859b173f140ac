"""What test 1 finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Scope

DRIVE_TYPE = Property(
    "drive_type",
    "Drive type",
    right=EXACTLY,
    words={
        "cmr": "conventional (CMR)",
        "smr": "shingled (SMR)",
        "not-rotating": "not a rotating disk",
    },
    scope=Scope.ANYWHERE,
)
CACHE_MEDIUM = Property(
    "cache_medium",
    "Persistent cache",
    right=EXACTLY,
    words={"disk": "on the disk", "flash": "in flash", "none": "none"},
    scope=Scope.ANYWHERE,
)
FINDINGS: tuple[Property, ...] = (DRIVE_TYPE, CACHE_MEDIUM)
