"""What the test of write rates finds."""

from __future__ import annotations

from skylight.findings import Property, Scope

RANDOM_RATE = Property("random_write_rate", "Random 4 KiB writes", "writes/s", scope=Scope.WHOLE)
SEQUENTIAL_RATE = Property("sequential_write_rate", "Sequential writes", "bytes/s", scope=Scope.LOCAL)
FULL_RATES = Property("full_cache_rates", "Writes with the cache full", scope=Scope.WHOLE)
STALL = Property("stall_ns", "Waits of writes with the cache full", "ns", scope=Scope.WHOLE)
DRAIN = Property("drain_ns", "Idle time that empties a full cache", "ns", scope=Scope.WHOLE)
FILL_DRIVE = Property("fill_drive_ns", "Time to write the whole drive in order", "ns", scope=Scope.WHOLE)
FINDINGS: tuple[Property, ...] = (RANDOM_RATE, SEQUENTIAL_RATE, FULL_RATES, STALL, DRAIN, FILL_DRIVE)
