"""What films of the head add to the findings: declared here for the tables of all that can be found, judged
by `skylight.camera.verdict`, which reads films.

A film measures nothing, so there is no procedure. `cache_location` is the property of the test of that name:
film and timing answer one question. None of the others is scored: the truth of a profile does not hold it.

Source: Skylight (FAST '15), sections 4.5 and 4.9, Figures 11 and 19; docs/camera.md, "Findings".
"""

from __future__ import annotations

from skylight.findings import Property, Scope
from skylight.probe.cache_location.findings import LOCATION

MAP_LOCATION = Property(
    "map_location",
    "Map location",
    words={place: LOCATION.words[place] for place in ("id", "md", "od")},
    scope=Scope.ANYWHERE,
)
SHINGLING = Property(
    "shingling_direction", "Shingling direction", values=("inward", "outward"), scope=Scope.ANYWHERE
)
"""A table: the way of strokes on the side of the OD and on that of the ID, `inward` or `outward`."""

SERPENTINE = Property("serpentine_region", "Serpentine region", "of the stroke", scope=Scope.ANYWHERE)
"""A table: the outermost (`from`) and the innermost position (`to`) at which strokes alternate on film."""

PHASES = Property("cleaning_phases", "Phases of a cleaning", "ns", scope=Scope.ANYWHERE)
ARM = Property("arm_ns", "Arm movement", "ns", scope=Scope.ANYWHERE)
"""A table: from start to end of the movement over a tenth, a third and all of the way from the OD to the ID,
without the time to settle."""

FINDINGS = (LOCATION, MAP_LOCATION, SHINGLING, SERPENTINE, PHASES, ARM)
"""What a film can show."""
