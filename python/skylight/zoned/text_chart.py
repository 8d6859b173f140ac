"""The zones of a drive as characters: a place for a zone or for a group of neighbours, rows of equal length.

Invariants: every place is a character of `LOOKS`, and the legend names each that occurs, with the number of
its zones; without colours nothing is lost. Rows begin with the number of their first zone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.units import format_count
from skylight.zoned.zone_symbols import LOOKS, looks_of
from skylight.zoned.zones import Zones

MOST_ROWS = 24
"""A chart fits a terminal of the usual 24 lines, with some scrolling for what is around it."""
GROUPS = (1, 2, 4, 5)
"""Zones of a place, times a power of ten: numbers that people divide by."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Rows, each with the number of its first zone and its looks, and what a place stands for."""

    rows: tuple[tuple[int, tuple[int, ...]], ...]
    group: int
    counts: tuple[int, ...]
    """Zones of each look, in the order of `LOOKS`."""

    @property
    def legend(self) -> list[tuple[int, str]]:
        """The looks that occur and their words."""
        return [
            (look, f"{LOOKS[look].name} ({format_count(count)})")
            for look, count in enumerate(self.counts)
            if count
        ]

    @property
    def words(self) -> str:
        """What a character stands for."""
        if self.group == 1:
            return "One character is one zone."
        return f"One character is {format_count(self.group)} zones, and shows the most notable of them."


def group_of(zones: int, places: int) -> int:
    """Zones that a place stands for, so that all of them fit.

    >>> [group_of(n, 1920) for n in (1, 1920, 1921, 29_809, 120_000)]
    [1, 1, 2, 20, 100]
    """
    power = 1
    while True:
        for digit in GROUPS:
            if zones <= digit * power * places:
                return digit * power
        power *= 10


def chart_of(zones: Zones, columns: int) -> Chart:
    """The chart of a drive in rows of at most so many characters."""
    look = looks_of(zones)
    group = group_of(len(zones), columns * MOST_ROWS)
    shown = np.maximum.reduceat(look, np.arange(0, len(look), group)).tolist() if len(look) else []
    rows = tuple(
        (first * group, tuple(shown[first : first + columns])) for first in range(0, len(shown), columns)
    )
    return Chart(rows, group, tuple(np.bincount(look, minlength=len(LOOKS)).tolist()))
