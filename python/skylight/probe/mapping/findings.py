"""What test 10 finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property

MAPPING = Property("mapping", "Mapping", right=EXACTLY)
FINDINGS: tuple[Property, ...] = (MAPPING,)
