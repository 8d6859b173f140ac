"""Figure of test 10: at what angle bands lie before and after they were cleaned.

The colours, sizes and fonts are the report's defaults in force while this is drawn.

Source: Skylight (FAST '15) Figure 17, whose latency pattern is here one angle for each band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import F64, Evidence
from skylight.findings import Finding
from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.probe.mapping.measure import READINGS, Places, Reading

if TYPE_CHECKING:
    pass


def _angles(evidence: Evidence, name: str, rotation_ns: float) -> F64 | None:
    log = evidence.log(name)
    if len(log) == 0 or len(log) % (3 * READINGS):
        return None
    places = Places(log.offset[2::3].astype(np.int64)[: len(log) // 3 // READINGS], 0)
    return np.asarray(360 * (Reading.of(places, log, rotation_ns).band % 1.0))


def draw(evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
    """The figure that the evidence allows."""
    turn = next(
        (f.value for f in findings if f.name == "rotation_ns" and isinstance(f.value, int | float)), None
    )
    last = [step.name for step in evidence.steps if step.name.startswith("after")]
    if turn is None or not last:
        return []
    before, after = _angles(evidence, "fresh", float(turn)), _angles(evidence, last[-1], float(turn))
    if before is None or after is None or len(before) != len(after):
        return []
    drawing, axes = new_axes()
    at = np.arange(1, len(before) + 1)
    axes.plot(at, before, "o", color="gray", markersize=7, fillstyle="none", label="on the fresh drive")
    axes.plot(at, after, "s", color="C0", markersize=3.5, label="after cleaning")
    axes.set_ylim(0, 420)
    axes.set_yticks([0, 90, 180, 270, 360])
    axes.set_xlabel("band")
    axes.set_ylabel("angle behind the reference (degrees)")
    axes.legend(loc="upper left", ncols=2, handletextpad=0.2)
    word = next((str(finding.value) for finding in findings if finding.name == "mapping"), "unknown")
    caption = (
        "For each band, how far behind a block of another band, which is never cleaned, one of its blocks"
        " passes under the head. A square in its circle: the band lies where it did (static mapping). A"
        " square elsewhere: cleaning moved it (dynamic). 0 and 360 degrees are the same. The verdict is"
        f" {word}."
    )
    alt = f"Angles of {len(at)} bands before and after cleaning; verdict {word}."
    return [Figure("mapping-angles", "Where bands lie before and after cleaning", caption, alt, drawing)]
