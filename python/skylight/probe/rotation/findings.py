"""What test 2 finds."""

from __future__ import annotations

from skylight.findings import Property, Right, Scope

TURN_RIGHT, TRACK_RIGHT, SEEK_RIGHT = Right(part=1e-3), Right(part=0.02), Right(part=0.1)

ROTATION = Property("rotation_ns", "Rotation time", "ns", TURN_RIGHT, scope=Scope.ANYWHERE)
TRACK = Property("track_bytes", "Track size", "bytes", TRACK_RIGHT, scope=Scope.PLACES)
SEEK = Property("seek_ns", "Seek time", "ns", SEEK_RIGHT, scope=Scope.PLACES)
FINDINGS: tuple[Property, ...] = (ROTATION, TRACK, SEEK)

STRIPED = "stripes"
"""The way of unknown tracks where addresses go to several disks in turn."""
