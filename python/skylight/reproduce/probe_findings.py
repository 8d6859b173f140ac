"""Rows S9a to S12: findings of one probe of each drive, compared with the paper's.

A missing finding is a miss.

Source: Skylight (FAST '15), sections 4.7 to 4.9, Tables 1 and 3, Figures 15 to 18.
"""

from __future__ import annotations

from skylight.findings import Known
from skylight.probe import Figure
from skylight.probe.suite import TESTS
from skylight.reproduce.emulated_drives import DRIVES, GIB, MIB, Lab
from skylight.reproduce.rows import Draw, Measured, Ours


def drawn_by(lab: Lab, drives: tuple[str, ...], *tests: str) -> Draw:
    """The figures that tests of the suite draw of drives."""

    def draw() -> list[Figure]:
        figures: list[Figure] = []
        for drive in drives:
            for test in (test for test in TESTS if test.name in tests):
                evidence = lab.evidence(drive, test.name)
                for one in test.draw(evidence, lab.findings(drive)) if evidence is not None else ():
                    name, title = f"{drive}-{one.name}", f"{one.title}, {DRIVES[drive]}"
                    figures.append(Figure(name, title, one.caption, one.alt, one.figure))
        return figures

    return draw


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _whole_mib(value: float | None) -> float | None:
    """Counted in the test's granularity, a = 1 MiB."""
    return None if value is None else float(round(value / MIB))


def s9a(lab: Lab) -> Measured:
    """Test 9: band sizes at the first, middle and last address."""
    figures: dict[str, Ours] = {
        f"{drive}, MiB at the {place.upper()}": _whole_mib(lab.known(drive).part("band_bytes", place))
        for drive in ("em-1", "em-2", "em-3", "st5000")
        for place in ("od", "md", "id")
    }
    return Measured(figures, drawn_by(lab, ("em-1", "em-3", "st5000"), "band_size"))


def s10a(lab: Lab) -> Measured:
    """Test 10: whether a cleaned band is back in its former place."""
    drives = ("em-1", "em-2", "em-3", "st5000", "st8000")
    figures: dict[str, Ours] = {f"{drive}, verdict": lab.known(drive).word("mapping") for drive in drives}
    return Measured(figures, drawn_by(lab, ("em-3", "st5000"), "mapping"))


def _mirrored(known: Known) -> Ours:
    found = known.get("plateaus")
    value = found.value if found is not None else None
    if not isinstance(value, dict) or "mirrored" not in value:
        return None
    return "yes" if value["mirrored"] is True else "no"


def s11a(lab: Lab) -> Measured:
    """Test 11: throughput and plateaus."""
    known = lab.known("st5000")
    od, md, inner = (
        _scaled(known.part("throughput_bytes_per_s", place), 1e6) for place in ("od", "md", "id")
    )
    figures: dict[str, Ours] = {
        "MB/s, OD less MD": None if od is None or md is None else od - md,
        "MB/s, MD less ID": None if md is None or inner is None else md - inner,
        "plateaus": known.part("plateaus", "count"),
        "mirrored about an axis": _mirrored(known),
        "first plateau, GiB": _scaled(known.part("plateaus", "first_bytes"), GIB),
        "last plateau, GiB": _scaled(known.part("plateaus", "last_bytes"), GIB),
    }
    return Measured(figures, drawn_by(lab, ("st5000",), "zones"))


def _table_3(drive: str, known: Known) -> dict[str, Ours]:
    """Table 3's column of a drive, without the shingling direction, which needs a camera."""
    one, half = (known.part("cleaning_band_ns", amount) for amount in ("one_block", "half"))
    first, last = (known.part("plateaus", end) for end in ("first_bytes", "last_bytes"))
    figures: dict[str, Ours] = {
        "drive type": known.word("drive_type"),
        "persistent cache": known.word("cache_medium"),
        "its place": known.word("cache_location"),
        "cache size, GiB": _scaled(known.number("cache_bytes"), GIB),
        "cache map entries": known.number("cache_map_entries"),
        "largest band, MiB": _whole_mib(known.part("band_bytes", "od")),
        "smallest band, MiB": _whole_mib(known.part("band_bytes", "id")),
        "mapping": known.word("mapping"),
        "cleaning": known.word("cleaning_type"),
        "cleaning order": known.word("cleaning_order"),
        "cleaning a band with one block, s": _scaled(one, 1e9),
        "cleaning a band half rewritten, s": _scaled(half, 1e9),
        "largest plateau, GiB": _scaled(first, GIB),
        "smallest plateau, GiB": _scaled(last, GIB),
    }
    return {f"{drive}, {name}": ours for name, ours in figures.items()}


def s12(lab: Lab) -> Measured:
    """Table 3, by one probe of each drive with no options."""
    figures = _table_3("st5000", lab.known("st5000")) | _table_3("st8000", lab.known("st8000"))
    return Measured(figures)
