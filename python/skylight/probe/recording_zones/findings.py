"""What test 11 finds."""

from __future__ import annotations

from skylight.findings import Property, Right

THROUGHPUT = Property("throughput_bytes_per_s", "Sequential read throughput", "bytes/s")
PLATEAUS = Property("plateaus", "Throughput plateaus", "bytes", Right(part=0.1, equal=("count",)))
RECORDING_ZONES = Property("recording_zones", "Recording zones")
FINDINGS: tuple[Property, ...] = (THROUGHPUT, PLATEAUS, RECORDING_ZONES)
