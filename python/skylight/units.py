"""Quantities as text: sizes, capacities, durations, counts.

The command line, the findings table and the report format bytes and nanoseconds here; no other module formats
a quantity. `parse_size` reads what a person writes.

Invariants:
- Sizes are bytes, durations are nanoseconds; both are integers inside the program.
- Binary prefixes (KiB, MiB) are powers of 1024, decimal ones (kB, MB, TB) powers of 1000, as in IEC 80000-13.

Source: IEC 80000-13, clause 4.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

__all__ = [
    "format_capacity",
    "format_count",
    "format_counted",
    "format_duration",
    "format_percent",
    "format_rate",
    "format_seconds",
    "format_size",
    "join_units",
    "parse_size",
]

_BEFORE_UNIT = re.compile(
    r"(?<=\d) (?=(?:[kKMGTP]i?B|B|ns|µs|ms|s|min|h|rpm|%)(?![A-Za-z]))|(?<=±) (?=\d)|(?<=\b[OMI]D) (?=\d)"
)

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")


def _scaled(value: int, base: int, names: tuple[str, ...]) -> str:
    """``value`` in the largest unit that leaves at least one, with up to three significant digits, or more
    for whole numbers."""
    sign, rest = ("-", -value) if value < 0 else ("", value)
    for power in range(len(names)):
        scaled = Decimal(rest) / Decimal(base**power)
        whole = scaled == scaled.to_integral_value()
        shown = f"{scaled:.{0 if whole else max(0, 3 - len(str(int(scaled))))}f}"
        if Decimal(shown) < base or power == len(names) - 1:
            break
    return f"{sign}{shown.rstrip('0').rstrip('.') if '.' in shown else shown} {names[power]}"


def format_size(size_bytes: int) -> str:
    """Bytes in binary units, as for I/O sizes and bands: ``4 KiB``, ``40 MiB``, ``37.2 GiB``."""
    return _scaled(size_bytes, 1024, _BINARY)


def format_capacity(size_bytes: int) -> str:
    """Bytes in decimal units, as on a drive's label: ``3.9 TB``."""
    return _scaled(size_bytes, 1000, _DECIMAL)


def parse_size(text: str) -> int:
    """Whole bytes of a size as people write it: a number, and a unit of `_BINARY` or `_DECIMAL` in any case;
    without a unit bytes. Raises `ValueError`.

    >>> parse_size("100GiB"), parse_size("1.5 TB"), parse_size("4096")
    (107374182400, 1500000000000, 4096)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    units = {
        name.lower(): base**power
        for base, names in ((1000, _DECIMAL), (1024, _BINARY))
        for power, name in enumerate(names)
    }
    if found is None or (found[2] and found[2].lower() not in units):
        raise ValueError(f"{text!r} is no size")
    return int(Decimal(found[1]) * units[found[2].lower() or "b"])


def format_duration(duration_ns: float, digits: int = 3) -> str:
    """Nanoseconds with three significant digits: ``850 ns``, ``91.0 µs``, ``10.2 ms``, ``1.30 s``, or with
    ``digits``, at least three; a minute or more like `format_seconds`."""

    def scaled(unit_ns: float) -> str:
        return f"{duration_ns / unit_ns:#.{digits}g}".rstrip(".")

    size = abs(duration_ns)
    if size < 999.5:
        return f"{duration_ns:.0f} ns"
    if size < 999_500:
        return f"{scaled(1e3)} µs"
    if size < 999_500_000:
        return f"{scaled(1e6)} ms"
    if size < 59.95e9:
        return f"{scaled(1e9)} s"
    return format_seconds(duration_ns / 1e9)


ROTATION_DIGITS = 4
"""Of a revolution's time: as many as its rate has, a minute."""


def format_rotation(period_ns: float, digits: int = ROTATION_DIGITS) -> str:
    """A revolution and its rate, ``10.04 ms (5,977 rpm)``."""
    return f"{format_duration(period_ns, digits)} ({60e9 / period_ns:,.0f} rpm)"


def format_seconds(duration_s: float) -> str:
    """Seconds of device time in a plan: ``under a second``, ``12 s``, ``3 min 20 s``, ``5 h 10 min``."""
    if duration_s < 1:
        return "under a second"
    whole = round(duration_s)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, seconds = divmod(whole, 60)
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    if hours >= 100:
        return f"{round(whole / 3600):,} h"
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def format_count(count: int) -> str:
    """A count with thousands separators: ``22,800``."""
    return f"{count:,}"


def format_counted(count: int, what: str) -> str:
    """A count of things whose plural ends in s: ``1 read``, ``22,800 reads``."""
    return f"{format_count(count)} {what}{'' if count == 1 else 's'}"


def format_rate(per_second: float) -> str:
    """Events a second: ``1,243``, and of fewer than ten two digits: ``3.8``."""
    return f"{per_second:,.0f}" if per_second >= 9.95 else f"{per_second:.2g}"


def format_percent(share: float) -> str:
    """A share as a percentage. Only 1 is ``100 %`` and only 0 is ``0 %``: rounding never hides a doubt."""
    if share in (0.0, 1.0):
        return f"{share * 100:.0f} %"
    if share > 0.99:
        return f"{min(math.floor(share * 1000) / 10, 99.9):.1f} %"
    if share < 0.01:
        return "under 1 %"
    return f"{share * 100:.0f} %"


def join_units(text: str, joint: str = "\N{NO-BREAK SPACE}") -> str:
    """The text with that between each number and its unit, and a ± or a diameter before it, so that no line
    ends there.

    >>> join_units("OD 5 TB in 10.2 ms (± 3 %)", "_")
    'OD_5_TB in 10.2_ms (±_3_%)'
    """
    return _BEFORE_UNIT.sub(joint, text)
