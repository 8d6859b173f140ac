"""The bands of every row: each check, the paper's value, and the range that our value must lie in.

Invariants: every band stands here and nowhere else. Where the paper states an order ("low > mid"), the check
is the difference, which must be positive (`MORE`); where it states a verdict, the check is the suite's word,
beside the figure that decides it.

Source: Skylight (FAST '15), sections 4.3 to 4.9 and 6, Tables 1 to 3; docs/reproduce.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from skylight.reproduce.rows import Band

MORE = 0.001
"""The smallest positive difference that counts: a microsecond, where the figure is in ms."""
ANY = math.inf
"""No bound."""

Entry = tuple[str, str, float | str, float | str]


def _near(name: str, paper: str, value: float, part: float) -> Entry:
    """Within a fraction of the paper's value."""
    return name, paper, round(value * (1 - part), 9), round(value * (1 + part), 9)


def _word(name: str, word: str) -> Entry:
    """A verdict."""
    return name, word, word, word


def _exact(name: str, value: float) -> Entry:
    """Equal, in whole units."""
    return name, f"{value:g}", float(value), float(value)


def _latency() -> Iterator[tuple[str, Sequence[Entry]]]:
    """Test 1 and section 4.3.1."""
    one_rotation: list[Entry] = [
        ("in one band, median ms", "10", 9.7, 10.6),
        ("in one band, interquartile range over median", "fixed", 0.0, 0.05),
        _word("verdict", "smr"),
    ]
    yield "S1a", one_rotation
    yield "S1b", [("median ms", "under 1", 0.0, 1.0)]
    yield "S1c", one_rotation
    yield "S1d", [("interquartile range over median", "varying", 0.25, ANY), _word("verdict", "cmr")]
    yield (
        "S1e",
        [
            ("first write at best, ms", "41", 38.0, 55.0),
            ("first write at worst, ms", "52", 38.0, 55.0),
            ("every 240th write, least ms", "325", 310.0, 340.0),
            ("every 240th write, most ms", "325", 310.0, 340.0),
            ("the others, median ms", "25", 23.8, 26.0),
            ("the others, share within 23.8 to 26 ms", "all", 0.99, 1.0),
            ("after pauses of 50 to 300 us, share within 23.8 to 26 ms", "all", 0.99, 1.0),
        ],
    )
    yield (
        "S1f",
        [
            _near("256 writes at depth 1, ms", "6,539", 6539.0, 0.1),
            _near("256 writes at depth 31, ms", "216", 216.0, 0.1),
        ],
    )
    yield (
        "S1g",
        [
            ("read back after depth 1, median ms", "5", 4.2, 5.6),
            ("read back after depth 31, median ms", "10", 9.6, 10.7),
        ],
    )
    yield (
        "S1h",
        [
            _exact("first edge, KiB", 28),
            _exact("second edge, KiB", 56),
            _exact("third edge, KiB", 84),
            ("4 to 26 KiB, least ms", "25", 23.8, 26.0),
            ("4 to 26 KiB, most ms", "25", 23.8, 26.0),
            ("28 to 110 KiB less 4.5 ms an edge, least ms", "25", 23.8, 26.0),
            ("28 to 110 KiB less 4.5 ms an edge, most ms", "25", 23.8, 26.0),
            ("spread at 256 KiB, ms", "varying", 20.0, ANY),
        ],
    )


def _reads() -> Iterator[tuple[str, Sequence[Entry]]]:
    """Tests 2 and 3."""
    yield (
        "S2a",
        [
            ("em-1, mean ms, low less mid", "low > mid", MORE, ANY),
            ("em-1, mean ms, mid less high", "mid > high", MORE, ANY),
            ("em-2, reads of flash, median ms", "negligible", 0.0, 1.0),
            ("em-2, reads of the disk, median ms", "one rotation", 9.7, 10.6),
            ("em-3, most over least of the three means", "equal", 1.0, 1.1),
            ("st5000, mean ms, high less mid", "high > mid", MORE, ANY),
            ("st5000, mean ms, mid less low", "mid > low", MORE, ANY),
            _word("em-1, verdict", "id"),
            _word("em-2, verdict", "flash"),
            _word("em-3, verdict", "many"),
            _word("st5000, verdict", "od"),
        ],
    )
    lazy = {"em-1": "lazy", "em-2": "lazy", "em-3": "aggressive", "st5000": "aggressive"}
    share = {"lazy": (0.0, 0.6), "aggressive": (0.95, 1.0)}
    yield (
        "S3a",
        [
            entry
            for drive, word in lazy.items()
            for entry in (
                (f"{drive}, share of reads within 5 % of the median", word, *share[word]),
                _word(f"{drive}, verdict", word),
            )
        ],
    )
    yield (
        "S15",
        [
            ("cut-in points", "any", 60.0, ANY),
            ("any read but the first, most ms from test 2", "unchanged", 0.0, 0.001),
            ("after the end, share within 5 % of the median", "fixed", 0.95, 1.0),
        ],
    )


def _cleaning() -> Iterator[tuple[str, Sequence[Entry]]]:
    """Figures 11 to 13."""
    yield (
        "S3b",
        [
            ("start after the last write, s", "1.242", 1.1, 1.4),
            _near("band read, ms", "180", 180.0, 0.2),
            _near("at the OD, ms", "1,210", 1210.0, 0.2),
            _near("band written, ms", "227", 227.0, 0.2),
            ("then the map, share of the full stroke from the OD", "centre", 0.4, 0.6),
            ("in all, s", "1.6", 1.4, 1.8),
            _near("then parked: seek from there to the OD, ms", "16", 16.0, 0.2),
        ],
    )
    yield (
        "S4a",
        [
            ("blocks cleaned in 10 minutes", "800", 700.0, 1_100.0),
            ("blocks cleaned in 30 minutes", "3,000", 2_600.0, 3_200.0),
            ("a band with one dirty block, s", "0.6", 0.55, 0.65),
        ],
    )
    yield (
        "S5a",
        [
            ("after 1 minute, blocks of step 1 in the cache", "none", 0.0, 0.0),
            ("after 1 minute, blocks of step 2 in the cache", "some", 1.0, 127.0),
            ("after 1 minute, blocks of step 3 in the cache", "none", 0.0, 0.0),
            ("of step 2, cleaned before one written earlier", "none", 0.0, 0.0),
            ("after 2 minutes, blocks in the cache", "none", 0.0, 0.0),
            _word("verdict", "fifo"),
        ],
    )


def _limits() -> Iterator[tuple[str, Sequence[Entry]]]:
    """Tests 6 to 8 and section 6."""
    yield (
        "S6a",
        [
            _near("writes of 4 KiB at depth 1", "22,800", 22_800.0, 0.02),
            ("media bytes of them, GiB", "100", 90.0, 112.0),
        ],
    )
    yield (
        "S7a",
        [
            _near("writes of 4 KiB at depth 31", "182,270", 182_270.0, 0.01),
            _near("writes of 64 KiB at depth 31", "182,231", 182_231.0, 0.01),
            _near("verdict, map entries", "200,000", 200_000.0, 0.1),
        ],
    )
    yield (
        "S8a",
        [
            _near("writes of 128 KiB at depth 31", "137,496", 137_496.0, 0.02),
            _near("writes of 256 KiB at depth 31", "67,830", 67_830.0, 0.02),
            _near("verdict, GiB", "20", 20.0, 0.1),
        ],
    )
    yield (
        "S8b",
        [
            ("em-1, share of 37.2 GiB", "0.95", 0.92, 0.98),
            ("em-2, share of 9.98 GiB", "0.95", 0.92, 0.98),
            ("em-3, share of 37.2 GiB", "0.95", 0.92, 0.98),
        ],
    )
    yield (
        "S13",
        [
            ("depth 31 over st4000nc001 at depth 1", "15", 10.0, 20.0),
            ("volatile cache on over st4000nc001 at depth 1", "15", 10.0, 20.0),
            _word("burst that the report states", "stated"),
            _word("idle time that the report states", "stated"),
        ],
    )
    yield (
        "S14",
        [
            *((f"cache off, {kib} KiB, st4000nc001 over ours", "3 or more", 3.0, ANY) for kib in (4, 16, 64)),
            *(
                _near(f"cache on, {size}, ours over st4000nc001", "full speed", 1.0, 0.1)
                for size in ("64 KiB", "256 KiB", "1 MiB")
            ),
        ],
    )
    yield (
        "S16",
        [
            _near(f"writes of {kib} KiB over those at depth 31", "similar", 1.0, 0.05)
            for kib in (4, 64, 128, 256)
        ],
    )


def _probe_findings() -> Iterator[tuple[str, Sequence[Entry]]]:
    """Tests 9 to 11 and Table 3."""
    sizes = {
        "em-1": (40, 40, 40),
        "em-2": (25, 25, 25),
        "em-3": (20, 20, 20),
        "st5000": (36, 30, 17),
    }
    yield (
        "S9a",
        [
            _exact(f"{drive}, MiB at the {place}", size)
            for drive, row in sizes.items()
            for place, size in zip(("OD", "MD", "ID"), row, strict=True)
        ],
    )
    mapping = {"em-1": "static", "em-2": "static", "em-3": "dynamic", "st5000": "static", "st8000": "static"}
    yield "S10a", [_word(f"{drive}, verdict", word) for drive, word in mapping.items()]
    yield (
        "S11a",
        [
            ("MB/s, OD less MD", "falls", MORE, ANY),
            ("MB/s, MD less ID", "falls", MORE, ANY),
            _exact("plateaus", 8),
            _word("mirrored about an axis", "yes"),
            ("first plateau, GiB", "18-20", 18.0, 20.0),
            _near("last plateau, GiB", "4", 4.0, 0.1),
        ],
    )
    yield (
        "S12",
        [
            *_table_3("st5000", 20, 200_000, (17, 36), (4, 20)),
            *_table_3("st8000", 25, 250_000, (15, 40), (5, 40)),
        ],
    )


def _recorded() -> Iterator[tuple[str, Sequence[Entry]]]:
    """A real drive's geometry from its logs, within 1 %; values from the README beside the logs."""
    values = {
        "rotation, ms": 10.038,
        "track, low addresses, KiB": 2_008.0,
        "track, high addresses, KiB": 928.0,
        "skew, low addresses, ms": 0.445,
        "skew, high addresses, ms": 0.473,
        "seek to the cache, low addresses, ms": 2.6,
        "seek to the cache, high addresses, ms": 15.5,
        "a lesser step of cached blocks, revolutions": 0.41,
        "a greater step of cached blocks, revolutions": 0.452,
    }
    checks = [_near(name, f"{value:,g}", value, 0.01) for name, value in values.items()]
    yield "R1", [*checks, _word("cache, verdict", "od")]


def _table_3(
    drive: str, gib: int, entries: int, bands: tuple[int, int], zones: tuple[int, int]
) -> list[Entry]:
    """Table 3's column of a drive. A band with one block to move takes the lower cleaning time of the table,
    and a band with half of it to move no more than the higher."""
    return [
        _word(f"{drive}, drive type", "smr"),
        _word(f"{drive}, persistent cache", "disk"),
        _word(f"{drive}, its place", "od"),
        _near(f"{drive}, cache size, GiB", f"{gib}", gib, 0.1),
        _near(f"{drive}, cache map entries", f"{entries:,}", entries, 0.1),
        _exact(f"{drive}, largest band, MiB", bands[1]),
        _exact(f"{drive}, smallest band, MiB", bands[0]),
        _word(f"{drive}, mapping", "static"),
        _word(f"{drive}, cleaning", "aggressive"),
        _word(f"{drive}, cleaning order", "fifo"),
        _near(f"{drive}, cleaning a band with one block, s", "0.6", 0.6, 0.15),
        (f"{drive}, cleaning a band half rewritten, s", "0.6-1.6", 0.6, 1.6),
        _near(f"{drive}, largest plateau, GiB", f"{zones[1]}", zones[1], 0.1),
        _near(f"{drive}, smallest plateau, GiB", f"{zones[0]}", zones[0], 0.1),
    ]  # fmt: skip


BANDS: tuple[Band, ...] = tuple(
    Band(row, *entry)
    for group in (_latency, _reads, _cleaning, _limits, _probe_findings, _recorded)
    for row, entries in group()
    for entry in entries
)
"""See the module page."""
