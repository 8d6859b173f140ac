"""What logs of fragmented reads show: some of what the live suite finds, and some that only they show."""

from __future__ import annotations

from skylight.findings import Property, Scope
from skylight.probe.cache_location.findings import LOCATION
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.rotation.findings import ROTATION, TRACK

SKEW = Property("track_skew_ns", "Track skew", "ns", scope=Scope.ANYWHERE)
FLOOR = Property("seek_floor_ns", "Shortest way to the cache and back", "ns", scope=Scope.ANYWHERE)
CACHE_STEP = Property("cache_step_turns", "Step of the cache", "revolutions", scope=Scope.ANYWHERE)
FINDINGS: tuple[Property, ...] = (DRIVE_TYPE, ROTATION, TRACK, SKEW, LOCATION, FLOOR, CACHE_STEP)
