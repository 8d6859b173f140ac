"""What the test of open zones finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Right, Scope

EDGE_RIGHT = Right(part=0.05)

MODEL = Property(
    "zone_model", "Zone model", right=EXACTLY,
    words={"host-managed": "host-managed", "host-aware": "host-aware"}, scope=Scope.ANYWHERE,
)  # fmt: skip
ZONE_BYTES = Property("zone_bytes", "Zone size", "bytes", EXACTLY, scope=Scope.ANYWHERE)
CAPACITY_BYTES = Property("zone_capacity_bytes", "Zone capacity", "bytes", EXACTLY, scope=Scope.ANYWHERE)
EDGE = Property("open_zones_edge", "Open zones at full speed", "zones", EDGE_RIGHT, scope=Scope.ANYWHERE)
PENALTY = Property("open_zone_penalty", "Slowdown past the open zones", "times", scope=Scope.ANYWHERE)
FINDINGS: tuple[Property, ...] = (MODEL, ZONE_BYTES, CAPACITY_BYTES, EDGE, PENALTY)
