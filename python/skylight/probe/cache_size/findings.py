"""What the tests of the cache's size find."""

from __future__ import annotations

from skylight.findings import Property, Right

SIZE_RIGHT, FILL_RIGHT = Right(part=0.1), Right(part=0.03)

CACHE = Property("cache_bytes", "Cache size", "bytes", SIZE_RIGHT)
FILL = Property("cache_fill_bytes", "Cache size as used", "bytes", FILL_RIGHT)
RAW = Property("cache_raw_bytes", "Media written to fill it", "bytes", SIZE_RIGHT)
MAP = Property("cache_map_entries", "Cache map entries", "entries", SIZE_RIGHT)
FINDINGS: tuple[Property, ...] = (CACHE, FILL, RAW, MAP)
