"""What test 9 finds."""

from __future__ import annotations

from skylight.findings import Property, Right, Scope

GRANULARITY_BYTES = 1 << 20
"""The paper's a = 1 MiB (section 4.7): bands are told to one step of it."""

BAND_SIZE = Property("band_bytes", "Band size", "bytes", Right(units=GRANULARITY_BYTES), scope=Scope.LOCAL)
FINDINGS: tuple[Property, ...] = (BAND_SIZE,)
