"""The rows of the paper on host-aware drives and of the recordings of its drive, in order, and the run.

Invariant: a row that cannot be measured has no figures, which is a miss, and a note with the reason.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16); docs/reproduce.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skylight.reproduce.hasmr import buffer, bursts, cleaning, sustained
from skylight.reproduce.hasmr.drive import Bench, known
from skylight.reproduce.hasmr.tolerances import BANDS
from skylight.reproduce.rows import Band, OnRow, Row, RowSpec, judge_each

ROWS: tuple[RowSpec, ...] = (
    RowSpec("H1a", "Sequential writes pay past the recommended open zones, non-sequential ones do not",
            "3.2, Figure 1", known(bursts.h1a)),
    RowSpec("H1b", "Sequential writes are not always faster than non-sequential ones", "3.2, Figure 1",
            known(bursts.h1b)),
    RowSpec("H2", "Sustained non-sequential writes have two modes", "3.3, Figure 2", known(sustained.h2)),
    RowSpec("H3a", "Cleaning a zone takes longer the more and the farther data is moved", "3.4, Figure 3",
            known(cleaning.h3a)),
    RowSpec("H3b", "More I/Os cost more than larger ones", "3.4, Figure 4", known(cleaning.h3b)),
    RowSpec("H4", "A buffer of the host makes a job of many streams shorter, migration included",
            "5, Figure 6", known(buffer.h4)),
    RowSpec("H5", "A buffer of 100 zones is found again after 7 cuts, at random commands, soon",
            "", known(buffer.h5)),
    RowSpec("R2", "The recorded bursts over a number of zones", "3.2", known(bursts.r2)),
    RowSpec("R3", "The recorded non-sequential writes with a flush each", "3.3", known(sustained.r3)),
    RowSpec("R4", "The recorded non-sequential writes over the whole drive", "3.3", known(sustained.r4)),
    RowSpec("R5", "The recorded count of non-sequential zones of an idle drive", "3.4", known(cleaning.r5)),
)  # fmt: skip
"""The rows, in order."""


def run(
    specs: Sequence[RowSpec], folder: Path, on_row: OnRow, bands: Sequence[Band] | None = None
) -> tuple[list[Row], list[str]]:
    """Measures rows; `folder` receives the suite's recording. Returns the rows and an empty list of
    problems."""
    return judge_each(specs, Bench(folder), on_row, BANDS if bands is None else bands), []
