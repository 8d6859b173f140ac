"""What the tests of the cache's size find."""

from __future__ import annotations

from skylight.findings import Property, Right, Scope

SIZE_RIGHT, FILL_RIGHT = Right(part=0.1), Right(part=0.03)

CACHE = Property("cache_bytes", "Cache size", "bytes", SIZE_RIGHT, scope=Scope.WHOLE)
FILL = Property("cache_fill_bytes", "Cache size as used", "bytes", FILL_RIGHT, scope=Scope.LOCAL)
RAW = Property("cache_raw_bytes", "Media written to fill it", "bytes", SIZE_RIGHT, scope=Scope.WHOLE)
MAP = Property("cache_map_entries", "Cache map entries", "entries", SIZE_RIGHT, scope=Scope.WHOLE)
FINDINGS: tuple[Property, ...] = (CACHE, FILL, RAW, MAP)
