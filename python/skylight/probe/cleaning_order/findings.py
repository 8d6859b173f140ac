"""What the test of the cleaning order finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Scope

ORDER = Property(
    "cleaning_order",
    "Cleaning order",
    right=EXACTLY,
    words={"other": "not first in, first out", "fifo": "first in, first out"},
    scope=Scope.ANYWHERE,
)
FINDINGS: tuple[Property, ...] = (ORDER,)
