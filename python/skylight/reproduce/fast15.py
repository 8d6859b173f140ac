"""The rows of Skylight (FAST '15), in order, and the run over them.

Invariants: every result of the paper that a drive in virtual time can show is a row, and so is R1, the
geometry of a real drive, which belongs to test 2; the shingling direction (S11b) needs a camera. The suite
runs once per drive, with all tests if any chosen row needs all.

Source: Skylight (FAST '15); docs/reproduce.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from skylight.errors import UsageError
from skylight.reproduce import (
    cache_capacity,
    cleaning,
    fragmented_region,
    from_fio_logs,
    latency,
    probe_findings,
    recommendations,
)
from skylight.reproduce.emulated_drives import Lab
from skylight.reproduce.rows import Band, OnRow, Row, RowSpec, judge_each
from skylight.reproduce.tolerances import BANDS

ALL: tuple[str, ...] = ()


def _each(drives: str, *tests: str) -> Mapping[str, tuple[str, ...]]:
    """The same tests on several drives."""
    return dict.fromkeys(drives.split(), tests)


_SMR = "em-1 em-2 em-3 st5000"

ROWS: tuple[RowSpec, ...] = (
    RowSpec("S1a", "Lone writes to a set-associative disk cache take a revolution", "4.3, Figure 4",
            latency.s1a, _each("em-1", "drive_type")),
    RowSpec("S1b", "Lone writes to flash take less than a millisecond", "4.3, Figure 4", latency.s1b),
    RowSpec("S1c", "Lone writes to a fully-associative drive take a revolution", "4.3, Figure 4", latency.s1c,
            _each("em-3", "drive_type")),
    RowSpec("S1d", "Lone writes to a conventional drive vary", "4.3, Figure 4", latency.s1d,
            _each("cmr", "drive_type")),
    RowSpec("S1e", "Lone writes to a journal take 2.5 revolutions, and every 240th merges the map",
            "4.3, Figures 4, 5", latency.s1e),
    RowSpec("S1f", "A deep queue packs writes into few entries", "4.3.1", latency.s1f),
    RowSpec("S1g", "Reads in written order show how blocks were packed", "4.3.1, Figure 6", latency.s1g),
    RowSpec("S1h", "Latency steps up where a burst needs another quantum", "4.3.1, Figure 7", latency.s1h),
    RowSpec("S2a", "Fragmented reads show where the cache lies", "4.4, Figures 8, 9", fragmented_region.s2a,
            _each(_SMR, "cache_location")),
    RowSpec("S3a", "Reads after a pause show whether the drive cleaned in it", "4.5, Figure 10",
            fragmented_region.s3a, _each(_SMR, "cleaning")),
    RowSpec("S3b", "One cleaning in the head trace", "4.5, Figure 11", cleaning.s3b),
    RowSpec("S4a", "Bands are cleaned in the order of their writes", "4.5.1, Figure 12", cleaning.s4a),
    RowSpec("S5a", "Cleaning takes the oldest write and all of its band", "4.5.1, Figure 13", cleaning.s5a,
            _each("st5000", "cleaning_order")),
    RowSpec("S6a", "Lone writes fill the slots of the journal", "4.6, Table 2", cache_capacity.s6a),
    RowSpec("S7a", "Small writes in a deep queue fill the map", "4.6, Table 2", cache_capacity.s7a,
            _each("st5000", "cache_size")),
    RowSpec("S8a", "Large writes in a deep queue fill the cache", "4.6, Table 2", cache_capacity.s8a,
            _each("st5000", "cache_size")),
    RowSpec("S8b", "Emulated drives use most of their cache before they clean", "4.6", cache_capacity.s8b),
    RowSpec("S9a", "Band sizes along the drive", "4.7, Figures 15, 16", probe_findings.s9a,
            _each(_SMR, "band_size")),
    RowSpec("S10a", "Whether a cleaned band is back in its place", "4.8, Figure 17", probe_findings.s10a,
            _each(f"{_SMR} st8000", "mapping")),
    RowSpec("S11a", "Throughput falls in eight plateaus, mirrored", "4.9, Figure 18", probe_findings.s11a,
            _each("st5000", "zones")),
    RowSpec("S12", "Table 3 by one probe of each real drive", "5, Table 3", probe_findings.s12,
            _each("st5000 st8000")),
    RowSpec("S13", "Random writes are many times faster than on a conventional drive", "6",
            recommendations.s13, _each("st5000", "cache_size", "cleaning")),
    RowSpec("S14", "Sequential writes need the volatile cache", "6", recommendations.s14),
    RowSpec("S15", "Reads that interrupt cleaning are as fast as before it", "4.5", fragmented_region.s15),
    RowSpec("S16", "A volatile cache packs writes as a deep queue does", "6, footnote 2", cache_capacity.s16),
    RowSpec("R1", "The geometry of a real drive from fio's logs alone", "4.4", from_fio_logs.r1),
)  # fmt: skip
"""The rows, in the paper's order."""


def chosen(only: Sequence[str], rows: Sequence[RowSpec] = ROWS) -> tuple[RowSpec, ...]:
    """The rows with these ids, in the table's order; all rows if none is named."""
    known = {spec.id: spec for spec in rows}
    for name in only:
        if name not in known:
            close = difflib.get_close_matches(name.upper(), [one.upper() for one in known], n=1, cutoff=0.5)
            like = next((one for one in known if close and one.upper() == close[0]), None)
            meant = f"; did you mean {like}?" if like else ""
            raise UsageError(f"no row is called {name!r}{meant} (rows: {', '.join(known)})")
    return tuple(spec for spec in rows if not only or spec.id in only)


def suites_of(specs: Sequence[RowSpec]) -> dict[str, tuple[str, ...]]:
    """The suite's tests that rows read, by drive; an empty tuple means all of them."""
    asked: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        for drive, tests in spec.suites.items():
            before = asked.get(drive)
            whole = tests == ALL or before == ALL
            asked[drive] = ALL if whole else tuple(dict.fromkeys((*(before or ()), *tests)))
    return asked


def run(
    specs: Sequence[RowSpec], folder: Path, on_row: OnRow, bands: Sequence[Band] | None = None
) -> tuple[list[Row], list[str]]:
    """Measures rows; `folder` receives the suite's recordings. Returns the rows and other problems."""
    lab = Lab(folder, suites=suites_of(specs))
    return judge_each(specs, lab, on_row, BANDS if bands is None else bands), lab.notes
