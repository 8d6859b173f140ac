"""What matters most of a drive, in at most five lines of a terminal.

What for: the end of `skylight probe`. The report has sentences, this has what they turn on: for a shingled
disk how much it takes before writes wait and what is left of its pace then, for others how fast it is.

Invariants:
- Every number is a finding's that is known and as likely right as wrong at least; a line without one is left
  out, and the next takes its place. The table of all findings (`--why`) and the report have the others.
- The numbers are those of the report's sentences (`skylight.report.what_to_expect`), never rounded otherwise.

Source: Skylight (FAST '15) section 6, for what matters of a shingled disk.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from skylight.findings import Known
from skylight.probe.suite import IN_THE_RANGE
from skylight.probe.zoned import HOST_MANAGED
from skylight.report.values import finding_row
from skylight.report.what_to_expect import Words, doubted, likely, rare_wait_ns, separate_places
from skylight.report.words import value_words
from skylight.units import (
    format_count,
    format_duration,
    format_rate,
    format_seconds,
    format_size,
)

__all__ = ["MOST_LINES", "brief"]

MOST_LINES = 5
"""Lines under the verdict: chosen, because these, the verdict and the report are taken in at a glance."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line: its title, and what makes words of findings, if known."""

    title: str
    words: Words


def brief(known: Known) -> tuple[tuple[str, str], ...]:
    """Pairs of a title and a few words, the most important first."""
    lines = _ZONED
    if known.word("zone_model") is None:
        lines = _SHINGLED if known.word("drive_type") == "smr" else _ANY_DISK
    sure = likely(known)
    said = ((line.title, *doubted(sure, line.words)) for line in lines)
    shown = ((title, f"{words} ({doubt})" if doubt else words) for title, words, doubt in said if words)
    return tuple(itertools.islice(shown, MOST_LINES))


def _joined(parts: list[str], between: str = ", ") -> str:
    return between.join(part for part in parts if part)


def _takes(known: Known) -> str:
    fill, entries = known.number("cache_fill_bytes"), known.number("cache_map_entries")
    parts = ["" if fill is None else f"{format_size(round(fill))} of random writes"]
    return _joined([*parts, "" if entries is None else separate_places(entries)], " or ")


def _then(known: Known) -> str:
    before = known.part("random_write_rate", "one_at_a_time")
    after = known.part("full_cache_rates", "random_per_s")
    stream = known.part("full_cache_rates", "sequential_bytes_per_s")
    if after is None:
        return ""
    instead = f" instead of {format_rate(before)}" if before else ""
    parts = [f"{format_rate(after)} random writes a second{instead}"]
    return _joined([*parts, f"{format_rate(stream / 1e6)} MB/s in order" if stream else ""])


def _stalls(known: Known) -> str:
    most, longest = rare_wait_ns(known), known.part("stall_ns", "longest")
    every, cost = known.number("map_merge_every"), known.number("map_merge_ns")
    parts = []
    if longest is not None:
        parts.append(f"up to {format_duration(longest)}")
    if most is not None:
        parts.append(f"1 % of writes {format_duration(most)}")
    if every is not None and cost is not None:
        parts.append(f"every {format_count(int(every))}th {format_duration(cost)}")
    return _joined(parts)


def _recovers(known: Known) -> str:
    if known.word("cleaning_type") == "lazy":
        return "not when left alone: it cleans in the middle of the next burst"
    start, drain = known.number("cleaning_start_ns"), known.number("drain_ns")
    parts = ["" if start is None else f"after {format_duration(start)} without a request"]
    return _joined([*parts, "" if drain is None else f"in {format_seconds(drain / 1e9)} from a full cache"])


def _fill(known: Known) -> str:
    fill = known.number("fill_drive_ns")
    return "" if fill is None else f"{format_seconds(fill / 1e9)} to write the whole drive in order"


def _zones(known: Known) -> str:
    model, size, edge = known.word("zone_model"), known.number("zone_bytes"), known.number("open_zones_edge")
    if model is None:
        return ""
    parts = [model, "" if size is None else f"zones of {format_size(round(size))}"]
    if edge is not None:
        most = format_count(round(edge))
        managed = model == HOST_MANAGED
        parts.append(f"at most {most} of them open" if managed else f"{most} of them written at full speed")
    return _joined(parts)


def _out_of_order(known: Known) -> str:
    takes, spell = known.number("non_sequential_cache_bytes"), known.number("blocking_spell_ns")
    parts = ["" if takes is None else f"{format_size(round(takes))} before the drive blocks"]
    return _joined([*parts, "" if spell is None else f"for {format_duration(spell)}"])


def _cache(known: Known) -> str:
    size = known.number("cache_bytes")
    words = ((name, known.word(name)) for name in ("cache_medium", "cache_location"))
    place = [value_words(name, word) or word for name, word in words if word]
    return _joined(["" if size is None else format_size(round(size)), *place])


def _rotation(known: Known) -> str:
    found, rotation_ns = known.get("rotation_ns"), known.number("rotation_ns")
    if found is None or rotation_ns is None:
        return ""
    return f"{finding_row(found).value}, {60e9 / rotation_ns:,.0f} rpm"


_ENDS = (
    ("od", "id", "the first addresses", "the last"),
    (IN_THE_RANGE["od"], IN_THE_RANGE["id"], "the start of the range", "its end"),
)
"""What the two ends of a drive are called, and those of a range of one (`--range`)."""


def _reads(known: Known) -> str:
    for start, end, at, to in _ENDS:
        first, last = (known.part("throughput_bytes_per_s", place) for place in (start, end))
        if first is not None and last is not None:
            return f"{format_rate(first / 1e6)} MB/s in order at {at}, {format_rate(last / 1e6)} MB/s at {to}"
    return ""


def _writes(known: Known) -> str:
    lone, deep, cached = (
        known.part("random_write_rate", way) for way in ("one_at_a_time", "31_waiting", "write_cache_on")
    )
    parts = ["" if lone is None else f"{format_rate(lone)} random a second"]
    parts.append("" if deep is None else f"{format_rate(deep)} with 31 waiting")
    return _joined([*parts, "" if cached is None else f"{format_rate(cached)} with write cache on"])


def _seeks(known: Known) -> str:
    near, far = known.part("seek_ns", "track"), known.part("seek_ns", "full")
    if near is None or far is None:
        return ""
    return f"{format_duration(near)} to the next track, {format_duration(far)} over all of them"


_TAKES = _Line("Takes", _takes)
_THEN = _Line("Then", _then)
_STALLS = _Line("Stalls", _stalls)
_RECOVERS = _Line("Recovers", _recovers)
_FILL = _Line("To fill it", _fill)
_OPEN_ZONES = _Line("Zones", _zones)
_LOOSE = _Line("Out of order", _out_of_order)
_HELD = _Line("Cache", _cache)
_TURN = _Line("Rotation", _rotation)
_READ = _Line("Reads", _reads)
_WRITTEN = _Line("Writes", _writes)
_ARM = _Line("Seeks", _seeks)

_SHINGLED: tuple[_Line, ...] = (_TAKES, _THEN, _STALLS, _RECOVERS, _FILL, _HELD, _TURN, _READ, _WRITTEN)
_ZONED: tuple[_Line, ...] = (_OPEN_ZONES, _LOOSE, _THEN, _STALLS, _FILL, _TURN, _READ)
_ANY_DISK: tuple[_Line, ...] = (_TURN, _READ, _WRITTEN, _ARM, _FILL)
