"""What to expect of the drive at hand, in sentences with its own measured numbers.

What for: the paper ends with recommendations for shingled drives in general (how large a burst may be, how
long a drive must rest, that the volatile write cache should be on). Here each is said of the drive that was
measured, with what was measured, and left out where nothing was.

Invariant: every number is a finding's, or follows from findings by arithmetic that the sentence shows; a
finding that is likelier wrong than right is not said.

Source: Skylight (FAST '15) section 6.
"""

from __future__ import annotations

from collections.abc import Callable

from skylight.findings import Finding, Known, Value
from skylight.units import (
    format_count,
    format_duration,
    format_percent,
    format_rate,
    format_seconds,
    format_size,
)

__all__ = ["Words", "doubted", "felt", "lasting", "likely", "limits", "rare_wait_ns", "separate_places"]

Words = Callable[[Known], str]
"""Makes a sentence of findings; empty where they are not known. It reads those alone that the sentence rests
on, for what it reads is what the sentence is as sure as."""

EVEN = 0.5
"""The least confidence of a number that is said: one that is likelier wrong is nothing to go by."""

SURE_ENOUGH = 0.8
"""What is less sure says so: the report's words for it are "leaning this way" and "not sure"."""

_MUCH_LONGER = 2.0  # than half of all writes: one in a hundred that waits no longer is no stall; chosen
_LITTLE = 1.5  # a gain below this is not worth a setting


def limits(known: Known) -> tuple[tuple[str, str], ...]:
    """Pairs of a title and words, for a shingled drive; none for others."""
    if known.word("drive_type") != "smr":
        return ()
    known = likely(known)
    said = ((title, *doubted(known, words)) for title, words in _LIMITS)
    return tuple(
        (title, f"{words} Only {doubt}." if doubt else words) for title, words, doubt in said if words
    )


def likely(known: Known) -> Known:
    """The findings that are as likely right as wrong at least."""
    return Known(found for found in known if found.confidence >= EVEN)


class _Reading(Known):
    """What is known, and how sure the findings are that were read of it."""

    def __init__(self, known: Known) -> None:
        """Nothing read yet."""
        super().__init__(known, writes=known.writes, quick=known.quick)
        self.sure: list[float] = []

    def get(self, name: str) -> Finding | None:
        """As of all that is known."""
        found = super().get(name)
        if found is not None and found.known:
            self.sure.append(found.confidence)
        return found

    def _value(self, name: str) -> Value | None:
        self.get(name)
        return super()._value(name)


def doubted(known: Known, words: Words) -> tuple[str, str]:
    """A sentence, and how sure the least sure finding is that it read, where that is worth saying: ``38 %
    sure``."""
    reading = _Reading(known)
    said = words(reading)
    least = min(reading.sure, default=1.0)
    return said, f"{format_percent(least)} sure" if least < SURE_ENOUGH else ""


def _burst(known: Known) -> str:
    """How much random writing it takes."""
    fill, entries, raw = (
        known.number(name) for name in ("cache_fill_bytes", "cache_map_entries", "cache_raw_bytes")
    )
    parts = []
    if fill is not None:
        parts.append(f"{format_size(round(fill))} of random writes")
    if entries is not None:
        parts.append(f"{separate_places(entries)}, whatever their size")
    if not parts:
        return ""
    more = ""
    if raw is not None and fill is not None and raw > 2 * fill:
        more = (
            " Written one block at a time, each with a slot and out-of-band data of its own, they make it"
            f" write {format_size(round(raw))}: small writes that wait for each other use the cache up"
            " soonest."
        )
    first = " or ".join(parts) + (", whichever comes first" if len(parts) > 1 else "")
    return f"Its cache takes {first}. Then writes wait for bands to be cleaned.{more}"


def separate_places(entries: float) -> str:
    """How many places the map of the cache has entries for, in words."""
    return f"about {format_count(round(entries / 1000) * 1000)} separate places"


def _recovery(known: Known) -> str:
    """How long it must be left alone."""
    kind = known.word("cleaning_type")
    if kind == "lazy":
        words = "It does not clean when left alone: cleaning comes in the middle of the next burst."
    elif kind == "aggressive":
        start = known.number("cleaning_start_ns")
        words = "It cleans when it is left alone."
        if start is not None:
            words = f"It begins to clean after {format_duration(start)} without a request."
    else:
        return ""
    one, half = known.part("cleaning_band_ns", "one_block"), known.part("cleaning_band_ns", "half")
    drain = known.number("drain_ns")
    if one is not None:
        words += f" A band with one block to move takes {format_duration(one)}"
        words += f", a half rewritten one {format_duration(half)}." if half is not None else "."
        if kind == "aggressive":
            hour = 3600e9 / one
            words += f" In an hour of rest it cleans at most {format_count(int(float(f'{hour:.2g}')))} bands."
    if drain is not None:
        words += (
            f" To empty a cache that random writes filled it needs {format_seconds(drain / 1e9)} of rest."
        )
    return words


def rare_wait_ns(known: Known) -> float | None:
    """What one write in a hundred waits with the cache full; None where that is as long as most do."""
    usual, most = known.part("stall_ns", "p50"), known.part("stall_ns", "p99")
    return most if usual is not None and most is not None and most >= _MUCH_LONGER * usual else None


def _stalls(known: Known) -> str:
    """The longest waits before the cache is full, and after."""
    every, cost = known.number("map_merge_every"), known.number("map_merge_ns")
    words = []
    if every is not None and cost is not None:
        words.append(
            f"Every {format_count(int(every))}th write waits {format_duration(cost)} longer, for the map of"
            " the cache to be merged."
        )
    most, longest = rare_wait_ns(known), known.part("stall_ns", "longest")
    if longest is not None:
        often = "hardly any waits longer than others"
        if most is not None:
            often = f"one in a hundred waits {format_duration(most)} or longer"
        words.append(
            f"With the cache full and random writes one at a time, {often}; the longest waited"
            f" {format_duration(longest)}."
        )
    elif band := known.part("cleaning_band_ns", "half") or known.part("cleaning_band_ns", "one_block"):
        words.append(f"With the cache full, a write can wait {format_duration(band)} and more for one band.")
    return " ".join(words)


def _pace_before(known: Known) -> float | None:
    """Random writes a second, one at a time, with space in the cache."""
    return known.part("random_write_rate", "one_at_a_time")


def _pace_after(known: Known) -> float | None:
    """The same with none."""
    return known.part("full_cache_rates", "random_per_s")


def _past(known: Known) -> str:
    """What is left of its pace."""
    before, after = _pace_before(known), _pace_after(known)
    stream = known.part("full_cache_rates", "sequential_bytes_per_s")
    if after is None:
        return ""
    instead = f" instead of {format_rate(before)}" if before else ""
    words = f"Random writes one at a time: {format_rate(after)} a second{instead}, for as long as they go on."
    return words + (f" In order it writes {format_rate(stream / 1e6)} MB/s then." if stream else "")


def _whole(known: Known) -> str:
    """How long the whole drive takes."""
    fill = known.number("fill_drive_ns")
    if fill is None:
        return ""
    words = (
        f"To write the whole drive in order, as a copy or a rebuild does, takes {format_seconds(fill / 1e9)}"
    )
    random = _pace_after(known)
    more = f", and longer by {1 / random:,.2g} s for every random write that comes between" if random else ""
    return f"{words} with its cache full{more}."


def felt(known: Known) -> str:
    """How a shingled drive feels under random writes that do not stop; empty where that was not measured."""
    before, after = _pace_before(known), _pace_after(known)
    longest = known.part("stall_ns", "longest")
    if before is None or after is None or longest is None:
        return ""
    return (
        "In short bursts, fast. Under small random writes that do not stop it falls from"
        f" {format_rate(before)} to {format_rate(after)} a second once its cache is full, and single writes"
        f" wait up to {format_duration(longest)}."
    )


def lasting(known: Known) -> str:
    """Random writes that do not stop, one at a time, for the comparison; empty where not measured."""
    before, after = _pace_before(known), _pace_after(known)
    longest = known.part("stall_ns", "longest")
    if known.word("drive_type") == "cmr" and before is not None:
        return f"{format_rate(before)} a second: it has no cache to fill"
    if after is None or longest is None:
        return ""
    first = f"{format_rate(before)} a second, then " if before is not None else ""
    return f"{first}{format_rate(after)} with its cache full; one waits up to {format_duration(longest)}"


def _settings(known: Known) -> str:
    """What a queue and the volatile cache are worth."""
    lone, deep, cached = (
        known.part("random_write_rate", way) for way in ("one_at_a_time", "31_waiting", "write_cache_on")
    )
    words = []
    if lone and deep:
        words.append(
            _gain("With 31 requests waiting", deep / lone, f"{deep:,.0f} instead of {lone:,.0f} a second")
        )
    if lone and cached:
        words.append(_gain("With its write cache on", cached / lone, f"{cached:,.0f} a second"))
    off, on = (known.part("sequential_write_rate", way) for way in ("write_cache_off", "write_cache_on"))
    if off and on:
        pace = f"{format_rate(on / 1e6)} instead of {format_rate(off / 1e6)} MB/s"
        verb = "needs the cache: " if on / off > _LITTLE else "gains little from it: "
        words.append(f"Sequential writing {verb}{pace}.")
    return " ".join(words)


def _gain(when: str, ratio: float, rates: str) -> str:
    if ratio > _LITTLE:
        return f"{when}, random writes are {ratio:.2g} times as fast ({rates})."
    return f"{when}, random writes are hardly faster ({rates})."


_LIMITS: tuple[tuple[str, Words], ...] = (
    ("Before the cliff", _burst),
    ("Past the cliff", _past),
    ("To recover", _recovery),
    ("Stalls", _stalls),
    ("To fill or rebuild", _whole),
    ("Queue and write cache", _settings),
)
