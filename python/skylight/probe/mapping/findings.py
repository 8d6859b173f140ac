"""What test 10 finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Scope

MAPPING = Property("mapping", "Mapping", right=EXACTLY, values=("static", "dynamic"), scope=Scope.ANYWHERE)
FINDINGS: tuple[Property, ...] = (MAPPING,)
