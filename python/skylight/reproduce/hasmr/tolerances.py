"""The bands of every row: each check, what the paper prints or the recording shows, and the range of ours.

Invariant: every band stands here and nowhere else. Bands beside a recording are of its own figures; those
past the edge of open zones are the recording's own bootstrap interval, as the place of ours in it.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), Figures 1 to 4 and 6; the READMEs of
`st8000as0022-open-zones` and `st8000as0022-sustained-nonseq`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from skylight.reproduce.hasmr.buffer import (
    RECOVERED_SIZES_KIB,
    SIZES_KIB,
    check_name,
    time_name,
    wrong_name,
)
from skylight.reproduce.hasmr.bursts import RUNS
from skylight.reproduce.rows import Band

MORE = 1.001
"""The smallest ratio that counts as longer."""
LESS = 0.999
"""The largest that counts as shorter."""
MOST_RECOVERY_S_PER_GIB = 2.0
"""Of the drive's time. Chosen: to read the whole log would take over 5 s a GiB at the drive's OD."""


def _near(row: str, name: str, value: float, part: float) -> Band:
    """Within a fraction of the recorded value."""
    return Band(row, name, f"{value:,g}", round(value * (1 - part), 9), round(value * (1 + part), 9))


def _paper() -> Iterator[Band]:
    """Figures 1 to 4 and 6."""
    yield Band("H1a", "zones at full speed, found by the probe", "120 to 140", 128.0, 128.0)
    across = "of the median from 120 to 140 zones"
    yield Band("H1a", f"sequential, 4 KiB: fall {across}", "0.57", 0.45, 0.7)
    # The paper prints no figure for 512 KiB; the recording of neighbouring zones has 0.44.
    yield _near("H1a", f"sequential, 512 KiB: fall {across}", 0.44, 0.15)
    for size in (4, 512):
        yield Band("H1a", f"non-sequential, {size} KiB: change {across}", "none", 0.0, 0.1)
    yield Band("H1b", "sequential is not always faster", "seen", "seen", "seen")
    for count, minutes, low, high in ((128, "over 25", 20.0, 35.0), (256, "over 37", 33.0, 50.0)):
        yield Band("H2", f"{count} zones, first low spell, minutes", minutes, low, high)
        yield Band("H2", f"{count} zones, fast mode over low mode", "1,000", 100.0, math.inf)
        yield Band("H2", f"{count} zones, share of the time in neither mode", "bimodal", 0.0, 0.1)
    yield Band("H3a", "steps of the update ratio that do not take longer", "none", 0.0, 0.0)
    yield Band("H3a", "empty zones, pairs of offsets where the later is not longer", "none", 0.0, 0.0)
    yield Band("H3a", "full zones, pairs of offsets where the earlier is not longer", "none", 0.0, 0.0)
    yield Band("H3b", "least time of more I/Os over that of larger ones", "more", MORE, math.inf)
    yield Band("H3b", "steps that do not take longer", "none", 0.0, 0.0)
    for size in SIZES_KIB:
        yield Band("H4", check_name(size), "less than 1", 0.0, LESS)
    for size in RECOVERED_SIZES_KIB:
        # The paper has no recovery: the first must hold, the second is what we ask for.
        yield Band("H5", wrong_name(size), "no figure", 0.0, 0.0)
        yield Band("H5", time_name(size), "no figure", 0.0, MOST_RECOVERY_S_PER_GIB)


def _recorded() -> Iterator[Band]:
    """The recordings."""
    for kind, size in RUNS:
        name = f"{kind.removeprefix('seq_')}, {size} KiB"
        for statistic in ("median", "bytes over time"):
            before, past = "ours over the recorded to 120 zones", "place in the recorded interval past it"
            yield Band("R2", f"{name}, {statistic}: {before}, farthest", "1", 0.85, 1.15)
            yield Band("R2", f"{name}, {statistic}: {past}, farthest", "0", -1.0, 1.0)
        if size == 512:
            yield Band("R2", f"{name}: steps in which the median falls", "2", 2.0, 2.0)
    for count, writes, seconds in ((32, 296, 523), (128, 613, 1_269)):
        yield _near("R3", f"{count} zones, a write and its flush, ms", 14.48, 0.03)
        yield Band("R3", f"{count} zones, writes from stall to stall", "240", 240.0, 240.0)
        yield _near("R3", f"{count} zones, a stall, s", 0.9, 0.1)
        yield _near("R3", f"{count} zones, writes before the first that waits for cleaning", 34_933, 0.01)
        yield _near("R3", f"{count} zones, slow spell, writes", writes, 0.2)
        yield _near("R3", f"{count} zones, slow spell, s", seconds, 0.2)
        yield _near("R3", f"{count} zones, after it, ms", 14.9, 0.2)
    yield _near("R4", "fast writes", 56_074, 0.07)
    yield _near("R4", "then, median s a write", 5.24, 0.15)
    yield _near("R4", "then, MB/s", 0.1, 0.15)
    yield Band("R5", "zones a sample, recorded", "10", 10.0, 10.0)


BANDS: tuple[Band, ...] = (*_paper(), *_recorded())
"""See the module page."""
