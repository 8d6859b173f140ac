"""What the test of write rates finds."""

from __future__ import annotations

from skylight.findings import Property

RANDOM_RATE = Property("random_write_rate", "Random 4 KiB writes", "writes/s")
SEQUENTIAL_RATE = Property("sequential_write_rate", "Sequential writes", "bytes/s")
FINDINGS: tuple[Property, ...] = (RANDOM_RATE, SEQUENTIAL_RATE)
