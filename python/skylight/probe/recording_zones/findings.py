"""What test 11 finds."""

from __future__ import annotations

from skylight.findings import Property, Right, Scope

THROUGHPUT = Property("throughput_bytes_per_s", "Sequential read throughput", "bytes/s", scope=Scope.LOCAL)
PLATEAUS = Property(
    "plateaus", "Throughput plateaus", "bytes", Right(part=0.1, equal=("count",)), scope=Scope.WHOLE
)
RECORDING_ZONES = Property("recording_zones", "Recording zones", scope=Scope.WHOLE)
FINDINGS: tuple[Property, ...] = (THROUGHPUT, PLATEAUS, RECORDING_ZONES)
