"""From what was counted to sizes of the cache.

A cache in use up to its watermark shows the watermark only: what lies above is not to be seen. Drives begin
to clean somewhere between 80 % of what they have and all of it (the paper's two at 94 and 91 %), so the size
is what was in use, divided by 0.9092: that is the least divisor whose answer is within 10 % for a watermark
of 1 as well, counts of writes being off by a few, and so from 0.8183 on. The interval holds 95 % of what may
be there. Where
the parts of a cache are seen whole (cache bands are as large as data bands) or can be only so many (a zone
has whole free bands and keeps one at least), the size is nearer.

Confidence: of cache parts, how often such answers were right (`skylight.infer.priors`); of a journal, how
clear the start of cleaning was; and for a size behind a watermark the part of what may be there that lies
within 10 %.

Source: Skylight (FAST '15), section 4.6: "assuming that the drive uses a low watermark to trigger cleaning".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skylight.findings import Finding, Known
from skylight.infer.host_clock import tick_ns
from skylight.probe.band_size.cache_parts import OVER_BYTES
from skylight.probe.cache_size import entry_lengths, log_advance
from skylight.probe.cache_size.count_cache_parts import CacheParts
from skylight.probe.cache_size.fill_check import BLOCK, Fill
from skylight.probe.cache_size.findings import CACHE, FILL, FILL_RIGHT, MAP, RAW, SIZE_RIGHT
from skylight.probe.cache_size.journal import LARGEST_WRITE, LONG_ENTRIES, Entries, Journal
from skylight.probe.cache_size.which_limit import LOWEST_WATERMARK, SAME
from skylight.probe.journal.findings import OUT_OF_BAND_RIGHT
from skylight.units import format_count, format_size

USUAL_WATERMARK = 0.9092
LIKELY_WATERMARKS = (0.805, 0.995)  # 95 % of the even choice between the lowest and all
RIGHT_WITHIN = SIZE_RIGHT.part
COUNTED_WITHIN = 0.02  # how well places are counted that were in use
ALL_USED = 0.95
"""How sure it is that a drive whose writes wait for whole zones has no place for them. Chosen: a wait shows
no reserve that is kept for something else."""
MOVED_ENTRIES = 2
"""What a log keeps for live data that moves: an entry that is written, and one that has moved in part."""
TIME_TO = OUT_OF_BAND_RIGHT.part  # of a revolution: how well that time is known, where no interval says
LEAST_SKEW, MOST_SKEW = 0.03, 0.45  # of a revolution, where the step to the next track is not known
SKEW_SLACK_NS = 500_000.0  # what skew is more than the step to a track: settling, and some slack
MOST_TICK = TIME_TO  # of a revolution: a coarser clock blurs ends of entries as far as the time of one
MOST_MEAN_TICK = 0.2
"""The same for the mean of many entries: ends that are rounded so agree as 0.94 of what they would."""
READS_AGREE = 0.05  # how much worse reads may agree with a way than with the best
AGREES = 0.75  # phases of the ends of entries with a way of running on
WIDEST, LEAST_APART = (
    0.09,
    0.03,
)  # of what lone writes put on the medium: more is no answer, less is not known
AGREE_ERRORS = 4.0  # standard errors, of two dozen writes, within which two paces of a quantum are one
FLASH_COMMAND_NS = (500_000.0, 40_000.0)  # from the least and the most of two waits: each 20 to 500 µs

CACHE_BANDS = "cache bands"
Interval = tuple[float, float]


def nothing(why: str, rows: Sequence[str], *, with_map: bool = False) -> list[Finding]:
    """No verdict on any size."""
    return [each.unknown(why, rows) for each in (CACHE, FILL, RAW, *((MAP,) if with_map else ()))]


def behind(used: float) -> tuple[float, Interval, float]:
    """What is behind a watermark that `used` was below: the most likely, the interval of 95 %, the chance
    that the first is right.

    >>> value, (low, high), sure = behind(90.0)
    >>> round(value), round(low), round(high), round(sure, 2)
    (99, 90, 112, 0.89)
    """
    low, high = used, used / LOWEST_WATERMARK
    value = used / USUAL_WATERMARK
    lowest_right, highest_right = value / (1 + RIGHT_WITHIN), value / (1 - RIGHT_WITHIN)
    inside = max(0.0, min(high, highest_right) - max(low, lowest_right)) / max(high - low, 1e-9)
    likely = (used / LIKELY_WATERMARKS[1], used / LIKELY_WATERMARKS[0])
    return value, likely, min(inside, 1.0)


def all_used(used: float, moved: float) -> tuple[float, Interval, float]:
    """The same of a drive that lets writes use all but what it moves live data to: at most so much.

    >>> value, (low, high), sure = all_used(1000.0, 30.0)
    >>> round(value), round(low), round(high), sure
    (1015, 980, 1051, 0.95)
    """
    high = min(used + moved, used / LOWEST_WATERMARK)
    value = min((used + high) / 2, used / USUAL_WATERMARK)
    right = 1.0 if high <= value / (1 - RIGHT_WITHIN) else (value / (1 - RIGHT_WITHIN) - used) / (high - used)
    return value, ((1 - COUNTED_WITHIN) * used, (1 + COUNTED_WITHIN) * high), ALL_USED * right


def _in_cache(
    used: float, fill: Fill, quantum: int, known: Known
) -> tuple[tuple[float, Interval, float], str]:
    """What the cache holds of which so much was used, and what it was taken for."""
    seen = fill.zone_waits
    if not seen.all_used:
        return behind(used), (
            f"taken as {100 * USUAL_WATERMARK:.0f} % of what there is, for drives start between 80 and 100 %"
        )
    entry = known.number("journal_entry_max_bytes") or LARGEST_WRITE
    moved = MOVED_ENTRIES * math.ceil(entry / quantum) * quantum
    return all_used(used, moved), (
        f"{format_count(seen.zones)} zones were clean after {format_count(seen.waits)} waits, so each was"
        " for a place, and no more than those of two entries are left, to move data to"
    )


def _filled_to_the_block(cache_parts: CacheParts, known: Known) -> tuple[int, float] | None:
    """Bytes that fill a cache band, to a block, and how sure they are, if the test of cleaning found them:
    for the same number of cache bands, and within a write of what fills one here."""
    found = known.get("cache_bands")
    count, fill = known.part("cache_bands", "count"), known.part("cache_bands", "fill_bytes")
    if found is None or fill is None or count != cache_parts.count:
        return None
    return (round(fill), found.confidence) if abs(fill - cache_parts.part_bytes) <= OVER_BYTES else None


def of_cache_bands(cache_parts: CacheParts, rows: Sequence[str], known: Known) -> list[Finding]:
    """Sizes of a cache whose bands were counted."""
    count, part, sure = cache_parts.count, cache_parts.part_bytes, 1.0
    whole = cache_parts.whole_bytes or part
    # The last write of a cache part may not have fitted.
    fill = count * part + (0 if part == whole else count * OVER_BYTES // 2)
    filled = (count * part, count * (part + OVER_BYTES))
    if (exact := _filled_to_the_block(cache_parts, known)) is not None:
        part, sure = exact
        fill, filled = count * part, (count * (part - BLOCK), count * (part + BLOCK))
    start = (
        f"Every {format_count(count)}th data band of {format_size(whole)} shares a cache band"
        f" (seen {cache_parts.checks} times), and one stalls after {format_size(part)}"
    )
    evenly = f"{start}: filled evenly, all take {format_size(fill)}."
    appended = f"{start}: blocks are appended without loss, so lone writes put {format_size(fill)} there."
    cache = (count * (whole - OVER_BYTES), count * (whole + OVER_BYTES))
    return [
        CACHE.found(
            count * whole, 1.0, f"{start}: {format_count(count)} cache bands.", rows, cache, way=CACHE_BANDS
        ),
        FILL.found(fill, sure, evenly, rows, filled, way=CACHE_BANDS),
        RAW.found(fill, sure, appended, rows, filled, way=CACHE_BANDS),
    ]


def free_bands(usable: int) -> tuple[float, Interval, float]:
    """Free bands of a zone of which so many take writes; one at least is kept to merge into.

    >>> free_bands(20)[0]
    22.8
    """
    low, high = usable + 1, usable / LOWEST_WATERMARK
    high = max(high, low)
    # Every number of the interval is within 10 % of this one, where there is such a number; else as many as
    # can be, from the low end, for a zone keeps few free bands back.
    value, most = ((1 - RIGHT_WITHIN) * high + (1 + RIGHT_WITHIN) * low) / 2, (1 + RIGHT_WITHIN) * low
    if value > most + 1e-9:
        value = math.floor(10 * most - 0.5) / 10  # a little less, for an answer in bytes is rounded
    inside = (min(high, value / (1 - RIGHT_WITHIN)) - max(low, value / (1 + RIGHT_WITHIN))) / max(
        high - low, 1e-9
    )
    return round(value, 1), (low, high), min(max(inside, 0.0), 1.0) if high > low else 1.0


def of_zones(cache_parts: CacheParts, rows: Sequence[str]) -> list[Finding]:
    """Sizes of a cache that is spread over zones."""
    fill = cache_parts.count * cache_parts.part_bytes
    usable = max(round(cache_parts.part_bytes / cache_parts.band), 1)
    bands, (low, high), sure = free_bands(usable)
    unit = cache_parts.count * cache_parts.band
    band, way = format_size(cache_parts.band), "older zones" if cache_parts.older else "zones"
    start = (
        f"A zone takes {format_size(cache_parts.part_bytes)}, {usable} bands of {band}, before it"
        f" {'cleans what was written first' if cache_parts.older else 'stalls'}, and the drive has"
        f" {cache_parts.count} zones"
    )
    return [
        CACHE.found(
            round(bands * unit),
            sure,
            f"{start}; it keeps one free band at least, and a fifth of them at most.",
            rows,
            (low * unit, high * unit),
            way=way,
        ),
        FILL.found(
            round(fill),
            1.0,
            f"{start}: {format_size(fill)} in all.",
            rows,
            (fill * 0.99, fill * 1.01),
            way=way,
        ),
        RAW.found(
            round(fill),
            1.0,
            f"{start}; blocks are appended without loss.",
            rows,
            (fill * 0.99, fill * 1.01),
            way=way,
        ),
    ]


def _out_of_band_ns(known: Known) -> Interval | None:
    """What the time of the out-of-band data may be; a finding without a value may still bound it."""
    finding = known.get("out_of_band_ns")
    if finding is None:
        return None
    if finding.interval is not None:
        return finding.interval
    time_ns, rotation_ns = known.number("out_of_band_ns"), known.number("rotation_ns")
    if time_ns is None or rotation_ns is None:
        return None
    return max(time_ns - TIME_TO * rotation_ns, 0.0), time_ns + TIME_TO * rotation_ns


def bytes_on_flash(journal: Journal, known: Known, time_ns: Interval) -> Interval | None:
    """Bytes of an entry on flash: each of its two commands waits before the first byte, and how long is not
    seen apart from the transfer. What a quantum takes, writes that wait together say, and the second quantum
    of a lone one, if an entry holds as many; where they do not agree within the error of the lone ones, which
    are few, as over a slow link, either may be right. What is longer than a lone write, of which it is a
    part, waited for something else, as in a cache so small that these writes filled it."""
    quantum, quanta_ns = journal.quantum, []
    if quantum is None:
        return None
    if journal.rate is not None:
        quanta_ns.append(journal.rate.quantum_ns)
    if (known.number("journal_entry_max_bytes") or 0.0) >= 2 * quantum:
        apart_ns = [abs(each - journal.quantum_ns) for each in quanta_ns]
        if not apart_ns or apart_ns[0] > AGREE_ERRORS * journal.quantum_error_ns:
            quanta_ns.append(journal.quantum_ns)
    if not quanta_ns or min(quanta_ns) <= 0 or max(quanta_ns) > journal.lone_ns:
        return None
    least, most = (max(each - wait, 0.0) for each, wait in zip(time_ns, FLASH_COMMAND_NS, strict=True))
    return quantum * (1 + least / max(quanta_ns)), quantum * (1 + most / min(quanta_ns))


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of how long the out-of-band data of an entry takes (revolutions): its time, or with
    `quantum` that of the whole entry."""

    turns: Interval
    whole: bool = False

    def out_of_band(self, quantum: Interval, skews: Interval) -> Interval:
        """Its time, where a quantum takes that many revolutions on average: an entry may cross one start of a
        track more or less than others."""
        if not self.whole:
            return self.turns
        low, high = self.turns[0] - quantum[1] - skews[1], self.turns[1] - quantum[0] + skews[1]
        return max(low, 0.0), max(high, 0.0)


def _by_advance(
    entries: Entries,
    quantum: int,
    one: float,
    rotation_ns: float,
    times: Interval,
    skews: Interval,
    plain: Interval,
) -> list[float]:
    """Bytes of an entry in all ways in which the log may run on; `one` is about a quantum, `plain` about
    its out-of-band data, in tracks."""
    low, high = log_advance.TRACK_RANGE
    lengths = (low * one + plain[0], high * one + plain[1] + log_advance.LONGEST_GAP)
    block = BLOCK / quantum
    ways = []
    for way in log_advance.fitted(entries.done_ns, rotation_ns, lengths, skews):
        if way.agreement < AGREES:
            continue
        behind, agreement = log_advance.quantum_tracks(
            entries.done_ns, entries.read_ns, rotation_ns, way, one * (1 - block)
        )
        here = behind / (1 - block)
        band = log_advance.without_gap(times, here, way, quantum)
        if band is not None and band[1] - band[0] > WIDEST * (2 * here + band[0] + band[1]):
            # A gap that may be as large leaves it open: where the first entry ends says more, if less surely.
            placed = log_advance.out_of_band_tracks(times, here, way) or band
            both = (max(band[0], placed[0]), min(band[1], placed[1]))
            band = both if both[0] <= both[1] else None
        if band is not None:
            ways.append((agreement, [quantum * (1 + each / here) for each in band]))
    best = max((agreement for agreement, _ in ways), default=0.0)
    return [each for agreement, band in ways if agreement >= best - READS_AGREE for each in band]


def _by_lengths(
    entries: Entries, quantum: int, one: float, rotation_ns: float, taken: Taken, skews: Interval
) -> list[float]:
    """Bytes of an entry that lone writes of one quantum and of several allow; `one` is about a quantum in
    tracks."""
    ends = {1: entries.done_ns[:LONG_ENTRIES], **entries.longer}
    gap = log_advance.MOST_GAP / quantum
    return [
        quantum * each
        for part in entry_lengths.wrapped(skews)
        for found in entry_lengths.advances(ends, rotation_ns, entry_lengths.likely_turns(one, part))
        for bounds in entry_lengths.entries_of(
            entry_lengths.fits(found, one, taken.turns, skews, gap, of_entry=taken.whole)
        )
        for each in bounds
    ]


@dataclass(frozen=True, slots=True)
class AtCache:
    """What is known of the tracks at the cache: a revolution (ns), a quantum in tracks, and between what
    parts of a revolution the skew may be, where the step to the next track is known."""

    rotation_ns: float
    quantum: int
    one: float
    skews: Interval | None


def _at_cache(journal: Journal, known: Known) -> AtCache | None:
    rotation_ns, place = known.number("rotation_ns"), known.word("cache_location")
    track = known.part("track_bytes", place) if place in ("od", "md", "id") else None
    step_ns, quantum = known.part("seek_ns", "track"), journal.quantum
    if rotation_ns is None or track is None or quantum is None:
        return None
    skews = (step_ns / rotation_ns, (step_ns + SKEW_SLACK_NS) / rotation_ns) if step_ns else None
    return AtCache(rotation_ns, quantum, quantum / track, skews)


def _on_disk(journal: Journal, known: Known, time_ns: Interval, *, whole: bool) -> Interval | None:
    """Bytes of an entry on disk, from the time of its out-of-band data, or of the whole of it, and where
    tracks begin."""
    here, entries = _at_cache(journal, known), journal.entries
    if here is None:
        return None
    rotation_ns, quantum, one = here.rotation_ns, here.quantum, here.one
    skews = here.skews or (LEAST_SKEW, MOST_SKEW)
    taken = Taken((time_ns[0] / rotation_ns, time_ns[1] / rotation_ns), whole)
    tick = tick_ns(entries.done_ns, entries.read_ns) if entries is not None else 0.0
    long = []
    if entries is not None and here.skews and tick <= MOST_MEAN_TICK * rotation_ns:
        long = _by_lengths(entries, quantum, one, rotation_ns, taken, skews)
    known_by_lengths = bool(long) and _is_narrow(long)
    if known_by_lengths and not whole:
        return min(long), max(long)
    times = taken.out_of_band(entry_lengths.likely_turns(one, skews), skews)
    plain = log_advance.by_time_alone(times, skews)
    found = []
    # With any skew at all, phases fit too many ways of running on.
    if entries is not None and here.skews and tick <= MOST_TICK * rotation_ns:
        found = _by_advance(entries, quantum, one, rotation_ns, times, skews, plain)
    if known_by_lengths:
        # The time of a whole entry may have the way of a FLUSH in it, which no log that runs on so explains.
        apart = bool(found) and (max(found) < min(long) or max(long) < min(found))
        return None if apart else (min(long), max(long))
    if found and _is_narrow(found):
        return min(found), max(found)
    # Phases that do not agree leave the time, and the track of an address near the cache.
    return quantum * (1 + plain[0] / one), quantum * (1 + plain[1] / one)


def _is_narrow(found: Sequence[float]) -> bool:
    """Whether lengths of an entry lie so near each other that one of them is an answer."""
    return max(found) - min(found) <= WIDEST * (max(found) + min(found))


def _raw(journal: Journal, known: Known, rows: Sequence[str]) -> Finding:
    writes, quantum = journal.lone_writes, journal.quantum
    if not writes or quantum is None:
        return RAW.unknown("Cleaning did not start within the writes that were made.", rows)
    if journal.open_part > FILL_RIGHT.part:
        return RAW.unknown("How many slots lone writes take is not known well enough.", rows)
    if journal.map_entries is None and writes > (1 + SAME) * journal.in_map:
        return RAW.unknown(
            f"Lone writes would need an entry of the map for each of {format_count(writes)} slots, and no"
            f" more than {format_count(journal.in_map)} were seen in use.",
            rows,
        )
    time_ns = _out_of_band_ns(known)
    on_flash = known.word("cache_medium") == "flash"
    entry = None
    whole = time_ns is None
    if whole and journal.entries is not None:
        time_ns = journal.entries.whole_ns
    data = known.get("out_of_band_bytes")
    if data is not None and data.interval is not None:
        entry = quantum + data.interval[0], quantum + data.interval[1]
    elif time_ns is not None:
        entry = (
            bytes_on_flash(journal, known, time_ns)
            if on_flash
            else _on_disk(journal, known, time_ns, whole=whole)
        )
    if entry is None:
        return RAW.unknown(
            f"Lone writes take {format_count(writes)} slots of {format_size(quantum)}, but what"
            " out-of-band data lies before each is not known.",
            rows,
        )
    # Where its time may be none, there may be none, and what was taken for it is a gap behind each entry.
    none = time_ns is not None and not whole and time_ns[0] <= 0
    least = min(entry[0], quantum) if none else entry[0]
    low, high = (writes * each for each in (least, entry[1]))
    middle, apart = (low + high) / 2, (high - low) / 2
    if apart > WIDEST * middle:
        bounds = " or ".join(format_size(round(each - quantum)) for each in (least, entry[1]))
        return RAW.unknown(f"Out-of-band data may be {bounds}.", rows)
    why = (
        f"Lone 4 KiB writes take a slot of {format_size(quantum)} each, with"
        f" {format_size(round(middle / writes - quantum))} of out-of-band data, and cleaning starts after"
        f" {format_count(writes)} of them."
    )
    spread = max(apart, LEAST_APART * middle)
    confidence = _clear(journal.fills) * min(1.0, RIGHT_WITHIN * middle / spread)
    return RAW.found(round(middle), confidence, why, rows, (middle - spread, middle + spread))


def _clear(fills: Sequence[Fill]) -> float:
    """How clear the start of cleaning was: the least of the fills that ended."""
    ended = [fill.clear for fill in fills if fill.ended]
    return 1 - math.exp(-min(ended)) if ended else 0.0


def of_journal(journal: Journal, known: Known, rows: Sequence[str]) -> list[Finding]:
    """Sizes of a journal and of its map."""
    quantum, clear = journal.quantum, _clear(journal.fills)
    if quantum is None:
        return nothing(
            "Lone writes of growing size show no quantum, so what a place holds is not known.",
            rows,
            with_map=True,
        )
    fills = [fill for fill in journal.fills if fill.quanta]
    told = "; ".join(f"{format_count(fill.writes)} of {format_size(fill.size)}" for fill in fills)
    if journal.places is None:
        met = (
            "the map was full before the slots"
            if journal.map_entries
            else "the slots or the map were full: which of them is not known, nor how much an entry holds"
            if journal.alone is not None
            else "no start of cleaning was seen that older data cannot explain"
        )
        why = f"With writes of whole quanta ({told}) {met}."
        sizes = [CACHE.unknown(why, rows), FILL.unknown(why, rows)]
    elif journal.open_part > FILL_RIGHT.part:
        most = round(journal.places * (1 + journal.open_part))
        why = (
            f"Writes of whole quanta ({told}) that a FLUSH ends together use {format_count(journal.places)}"
            f" to {format_count(most)} slots until cleaning starts: the cache is too small for that."
        )
        used = (journal.places * quantum, most * quantum)
        sizes = [CACHE.unknown(why, rows), FILL.unknown(why, rows, used)]
    else:
        fill = journal.places * quantum
        (value, interval, sure), taken = _in_cache(fill, fills[-1], quantum, known)
        start = (
            f"Writes that waste nothing ({told}) use {format_count(journal.places)} slots of"
            f" {format_size(quantum)} until cleaning starts"
        )
        sizes = [
            CACHE.found(round(value), clear * sure, f"{start}; {taken}.", rows, interval),
            FILL.found(
                round(fill),
                clear,
                f"{start}.",
                rows,
                ((1 - COUNTED_WITHIN) * fill, (1 + COUNTED_WITHIN) * fill),
            ),
        ]
    return [*sizes, _raw(journal, known, rows), _map(journal, rows, clear)]


def _map(journal: Journal, rows: Sequence[str], clear: float) -> Finding:
    entries = journal.map_entries
    deep = [fill for fill in journal.fills if not fill.quanta]
    if not deep and entries is None:
        seen = (
            f"with {format_count(journal.in_map)} entries in use no limit of the map was met; if there is"
            " one, it is higher"
            if journal.places is not None
            else "which of both limits ended a fill was not seen"
        )
        return MAP.unknown(f"No two writes share an entry, and {seen}.", rows)
    if entries is None:
        count = format_count(sum(fill.writes for fill in deep))
        ended = bool(deep) and deep[-1].ended
        why = (
            f"{count} writes of 4 KiB that wait together may have used up the slots first, so a limit of"
            " the map, if any, may be higher."
            if ended and journal.places is not None
            else f"After {count} writes of 4 KiB that wait together either the slots or the map were full."
            if ended
            else f"After {count} writes of 4 KiB some waited, but no start of cleaning was seen that older"
            " data cannot explain."
            if deep[-1].slow
            else f"{count} writes of 4 KiB met no limit."
        )
        return MAP.unknown(why, rows)
    value, interval, sure = behind(entries)
    by_blocks = bool(deep) and (deep[-1].ended or deep[-1].newest)
    which = "of 4 KiB that wait together" if by_blocks else "of one slot or of more"
    why = (
        f"Cleaning starts after {format_count(entries)} writes {which}, with slots left;"
        f" taken as {100 * USUAL_WATERMARK:.0f} % of the map."
    )
    return MAP.found(round(value), clear * sure, why, rows, interval)
