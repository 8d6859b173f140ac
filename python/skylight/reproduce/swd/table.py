"""The rows of the shingled write disk emulator's report, their bands, and the run over them.

Invariants: a row that cannot be measured has no figures, which is a miss, and a note with the reason. W6 is
that of `skylight.reproduce.geometry`.

Source: UCSC-SSRC-12-05; docs/raw-shingled.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from skylight.reproduce import geometry
from skylight.reproduce.rows import Band, OnRow, Row, RowSpec, judge_each, noted
from skylight.reproduce.swd import oracle, read_modes, shingling_cost
from skylight.reproduce.swd.layer_benchmark import Tool

ROWS: tuple[RowSpec, ...] = (
    RowSpec("W1", "A write destroys the sectors at its angles on the next tracks", "3.2.2, Figures 2, 4, 5",
            noted(oracle.w1)),
    RowSpec("W2", "Three read modes, through a block device of the kernel", "3.2.3", noted(read_modes.w2)),
    RowSpec("W3", "Shingling compared with the conventional layer, 4 KiB, k = 3", "5, Figure 7",
            noted(shingling_cost.w3)),
    RowSpec("W4", "Each additional track under the head", "5, Figure 8", noted(shingling_cost.w4)),
    RowSpec("W5", "Banded writes", "5, Figures 9, 10", noted(shingling_cost.w5)),
    RowSpec("W6", "The geometry of the paper's kind of disk from timing", "6, Figures 11, 12",
            lambda tool: geometry.w6(tool.folder)),
    RowSpec("W7", "Capacity of bands with guard tracks", "2", noted(oracle.w7)),
)  # fmt: skip
"""The rows, in order."""

_LESS = "less than noise"

BANDS: tuple[Band, ...] = (
    Band("W1", "sectors that differ from the oracle", "none", 0.0, 0.0),
    Band("W1", "disks compared", "", float(oracle.DISKS), float(oracle.DISKS)),
    *(Band("W2", name, "as the mode defines", 0.0, 0.0) for name in read_modes.NAMES.values()),
    Band("W3", "sequential writes, time of the conventional layer", "slight", 0.0, 1.0 + shingling_cost.PART),
    Band("W3", "sequential reads, time of the conventional layer", "slight", 0.0, 1.0 + shingling_cost.PART),
    *(Band("W3", check.format(operation), _LESS, 0.0, 1.0)
      for operation in ("write", "read")
      for check in (shingling_cost.RANDOM_CHECK, shingling_cost.WORK_CHECK)),
    Band("W4", "writes, percent a track", "about 2", -0.5, 0.5),
    Band("W4", "reads, percent a track", "flat", -0.1, 0.1),
    Band("W5", "16 bands, 4 KiB to 1 MiB, worst time of the conventional layer", "no overhead", 0.0,
         1.0 + shingling_cost.PART),
    Band("W5", "32 KiB, 1 to 128 bands, worst time of the conventional layer", "no overhead", 0.0,
         1.0 + shingling_cost.PART),
    *geometry.BANDS,
    *(
        Band("W7", f"bands of {b} tracks, k = {k}", "b/(b+k-1)", f"{Fraction(b, b + k - 1)}",
             f"{Fraction(b, b + k - 1)}")
        for b, k in oracle.BANDS
    ),
)  # fmt: skip
"""The checks, the paper's values, and the ranges of ours."""


def run(
    specs: Sequence[RowSpec], folder: Path, on_row: OnRow, bands: Sequence[Band] | None = None
) -> tuple[list[Row], list[str]]:
    """Measures rows; `folder` receives the backing file. Returns the rows and an empty list of problems."""
    return judge_each(specs, Tool(folder), on_row, BANDS if bands is None else bands), []
