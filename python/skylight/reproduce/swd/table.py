"""The rows of the shingled write disk emulator's report, their bands, and the run over them.

Invariants: bands are written here alone (docs/figures.md shows them). A row that cannot be measured has no
figures, which is a miss, and the reason beside it. W6 is `skylight.reproduce.geometry`'s.

Source: UCSC-SSRC-12-05.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from skylight.reproduce import geometry
from skylight.reproduce.fast15 import Told
from skylight.reproduce.rows import Band, Measured, Row, RowSpec, judge
from skylight.reproduce.swd import cost, modes, oracle
from skylight.reproduce.swd.tool import NotMeasured, Tool


def _known(measure: Callable[[Tool], Measured]) -> Callable[[Tool], Measured]:
    """A measurement that says what is missing instead of failing."""

    def measured(tool: Tool) -> Measured:
        try:
            return measure(tool)
        except NotMeasured as reason:
            return Measured({}, notes=(str(reason),))

    return measured


ROWS: tuple[RowSpec, ...] = (
    RowSpec("W1", "A write destroys what lies at its angles on the next tracks", "3.2.2, Figures 2, 4, 5",
            _known(oracle.w1)),
    RowSpec("W2", "Three read modes, through a block device of the kernel", "3.2.3", _known(modes.w2)),
    RowSpec("W3", "Shingling beside the conventional layer, 4 KiB, k = 3", "5, Figure 7", _known(cost.w3)),
    RowSpec("W4", "Each track more under the head", "5, Figure 8", _known(cost.w4)),
    RowSpec("W5", "Banded writes", "5, Figures 9, 10", _known(cost.w5)),
    RowSpec("W6", "The geometry of the paper's kind of disk from timing", "6, Figures 11, 12",
            lambda tool: geometry.w6(tool.folder)),
    RowSpec("W7", "What bands with guards hold", "2", _known(oracle.w7)),
)  # fmt: skip
"""See the module page."""

_LESS = "less than noise"

BANDS: tuple[Band, ...] = (
    Band("W1", "sectors that differ from the oracle", "none", 0.0, 0.0),
    Band("W1", "disks compared", "", float(oracle.DISKS), float(oracle.DISKS)),
    *(Band("W2", name, "as the mode says", 0.0, 0.0) for name in modes.NAMES.values()),
    Band("W3", "sequential writes, time of the conventional layer", "slight", 0.0, 1.0 + cost.PART),
    Band("W3", "sequential reads, time of the conventional layer", "slight", 0.0, 1.0 + cost.PART),
    *(Band("W3", check.format(way), _LESS, 0.0, 1.0)
      for way in ("write", "read") for check in (cost.RANDOM_CHECK, cost.WORK_CHECK)),
    Band("W4", "writes, percent a track", "about 2", -0.5, 0.5),
    Band("W4", "reads, percent a track", "flat", -0.1, 0.1),
    Band("W5", "16 bands, 4 KiB to 1 MiB, worst time of the conventional layer", "no overhead", 0.0,
         1.0 + cost.PART),
    Band("W5", "32 KiB, 1 to 128 bands, worst time of the conventional layer", "no overhead", 0.0,
         1.0 + cost.PART),
    *geometry.BANDS,
    *(
        Band("W7", f"bands of {b} tracks, k = {k}", "b/(b+k-1)", f"{Fraction(b, b + k - 1)}",
             f"{Fraction(b, b + k - 1)}")
        for b, k in oracle.BANDS
    ),
)  # fmt: skip
"""What is checked, what the paper says, and what ours must be."""


def run(
    specs: Sequence[RowSpec], folder: Path, told: Told, bands: Sequence[Band] | None = None
) -> tuple[list[Row], list[str]]:
    """Measures rows; `folder` takes the backing. The rows; nothing goes wrong beside them."""
    tool = Tool(folder)
    rows: list[Row] = []
    for done, spec in enumerate(specs):
        told(spec, done, len(specs))
        rows.append(judge(spec, spec.measure(tool), BANDS if bands is None else bands))
    return rows, []
