"""The findings of the cleaning test, from what its parts saw.

*Aggressive* is said when trials of some pause or longer found the drive cleaning, beyond one late read, and
*lazy* when the longest pause, several minutes, found nothing; anything else is unknown. The confidence is the
share of trials that agree (Laplace's rule). That of a time is the chance that its error, estimated from the
bracket, the counts and the scatter of repeats as a normal deviation, is below what is asked of it.

Source: Skylight (FAST '15), section 4.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skylight.findings import Finding, Known
from skylight.infer.robust import share
from skylight.probe.band_size.cache_parts import ZONES_WAY
from skylight.probe.cleaning import (
    band_time,
    half_written_band,
    idle_time_correction,
    journal,
    set_associative,
    trials,
    zone_log_stalls,
)
from skylight.probe.cleaning.findings import BAND, BAND_RIGHT, CACHE_BANDS, START, START_RIGHT, TYPE
from skylight.probe.cleaning.short_pauses import PIECES, ShortPauses
from skylight.probe.cleaning.trials import Controls, Trial
from skylight.units import format_duration, format_size

START_WITHIN, BAND_WITHIN = START_RIGHT.part, BAND_RIGHT.part
LAZY_FROM_S = 240.0
LEAST_CONFIDENCE = 0.5
STRAY = 0.005**2  # two slow outliers in the one place that names the cache bands
COUNT_ERROR = 0.3  # of a band: how far the one in progress is not known
FIRST_BAND_ERROR = 0.25
"""How far the first band may differ from the mean of those all over the drive, as a standard deviation:
tracks at the OD pass up to 2.5 times as fast as at the ID, and it lies in between."""
OTHERS_ERROR = 0.05
"""How far other clients delay cleaning, as a standard deviation. Measured on 22 random drives that others
use: the errors of one block were 0.026 in all, of half-written bands (12 drives) 0.038."""
SHORT_ERROR = 0.1
"""The same where many short pauses tell the idle time: the unit of work in progress at the end of each counts
too. Measured on four random drives: 0.05 to 0.14."""
MODEL_ERROR = 0.03  # bands between the places differ from those at them
MOST_HALF = 2.5
"""Times a band with one block, from which on what is half written is no band: on random drives it takes 1.0
to 1.3 times as long, and four times at the least where each of its pieces goes home by itself. Chosen."""
HALF_MODEL_ERROR = 0.04
"""The same for half-written bands, a few of which are counted at a place. Measured on 23 random drives that
no other client used: 0.043 in all, and 0.031 on the 14 of them whose idle time was known."""


def idle_time(seen: list[Trial]) -> float | None:
    """Idle time before cleaning, s; None where no bracket holds it."""
    low_s, high_s = trials.bracket(seen)
    return math.sqrt(low_s * high_s) if low_s > 0 and math.isfinite(high_s) else None


def chance_within(part: float, deviation: float) -> float:
    """The chance that a normal error of this deviation stays within a part."""
    return math.erf(part / (max(deviation, 1e-9) * math.sqrt(2)))


@dataclass(slots=True)
class Seen:
    """What the procedure saw: the ground it stood on (None before its first step), the trials of idle time,
    and how long bands take, in the ways of each kind of drive."""

    ground: trials.Ground | None = None
    trials: list[Trial] = field(default_factory=list)
    controls: Controls = field(default_factory=Controls)
    short: ShortPauses | None = None
    cache_bands: set_associative.Seen = field(default_factory=set_associative.Seen)
    rounds: list[band_time.Round] = field(default_factory=list)
    halves: dict[int, half_written_band.Progress] = field(default_factory=dict)
    waits: journal.Seen = field(default_factory=journal.Seen)
    zones: dict[int, zone_log_stalls.Place] = field(default_factory=dict)


def judge(seen: Seen, known: Known, size: int, rows: Sequence[str]) -> list[Finding]:
    """All findings; none of a drive without a persistent cache. `rows` are the steps that were done."""
    kind = known.word("drive_type")
    if kind is not None and kind != "smr":
        return []
    if not seen.trials:
        why = "no trial was made: the drive type is not known" if kind is None else _no_trial(size)
        return [TYPE.unknown(why)]
    bands = seen.cache_bands
    if seen.controls.looks_tell is False:
        why = "blocks look clean right after they were written: looks do not show where they lie"
        return [TYPE.unknown(why, _rows(seen.trials))]
    kind_of = _cleaning_type(seen.trials, bands)
    found = [kind_of]
    if kind_of.value != "lazy":
        found.append(_start(seen))
    found.append(_band(seen, rows))
    if bands.measured and bands.band is not None:
        found.append(_cache_bands(bands, bands.band))
    elif bands.stalls:
        why = "writes in one place fill a cache band, of how many is not known"
        found.append(CACHE_BANDS.unknown(why))
    return found


def _no_trial(size: int) -> str:
    if size < trials.LEAST_TARGET_BYTES:
        return f"no trial was made: a target below {trials.LEAST_TARGET_BYTES >> 30} GiB is too small for it"
    return "no trial was made: it writes, and writes were not allowed"


def _rows(seen: list[Trial]) -> tuple[str, ...]:
    return tuple(f"{trials.TRIAL}{trial.number}-look" for trial in seen)


def _cleaning_type(seen: list[Trial], bands: set_associative.Seen) -> Finding:
    high_s = trials.bracket(seen)[1]
    longest_s = max(trial.pause_s for trial in seen)
    if math.isfinite(high_s):
        agree = sum(t.begun == (t.pause_s >= high_s) for t in seen)
        count = sum(t.begun for t in seen if t.pause_s >= high_s)
        why = (
            f"in {count} of {len(seen)} trials the drive was cleaning or had cleaned after being left alone,"
            f" the first time after {format_duration(high_s * 1e9)}"
        )
        return TYPE.found("aggressive", share(agree, len(seen)), why, _rows(seen))
    if longest_s < LAZY_FROM_S:
        longest = format_duration(longest_s * 1e9)
        return TYPE.unknown(f"nothing was cleaned within {longest}, too short a pause for a verdict")
    agree = sum(not t.begun for t in seen)
    why = f"nothing was cleaned in pauses of up to {format_duration(longest_s * 1e9)}"
    if bands.stalls and bands.large is not None:
        stall = format_duration(bands.large.stall_ns)
        why += f", and writes that found their cache band full waited {stall} for its cleaning"
    return TYPE.found("lazy", share(agree, len(seen)), why, _rows(seen))


def _start(seen: Seen) -> Finding:
    low_s, high_s = trials.bracket(seen.trials)
    idle_s = idle_time(seen.trials)
    if idle_s is None:
        return START.unknown("no pause was seen in which cleaning had begun, or none in which it had not")
    why = (
        f"cleaning had not begun after {format_duration(low_s * 1e9)} of idle time, and had after"
        f" {format_duration(high_s * 1e9)}"
    )
    if not seen.controls.late_counts:
        return _start_before(seen, idle_s)
    ends = [t for t in seen.trials if low_s * (1 - START_WITHIN) <= t.pause_s <= high_s * (1 + START_WITHIN)]
    agree = sum(t.begun == (t.pause_s >= high_s) for t in ends)
    confidence = share(agree, len(ends))
    return START.found(round(idle_s * 1e9), confidence, why, _rows(ends), (low_s * 1e9, high_s * 1e9))


@dataclass(frozen=True, slots=True)
class FirstBand:
    """When cleaning begins as a first clean band shows it: after how long it was clean, how long the read
    behind that pause waited for it, what a band takes, and how far all this may be off, s."""

    first_s: float
    waited_s: float
    band_s: float
    apart_s: float

    @property
    def start_s(self) -> float:
        """Idle time before cleaning, s."""
        return self.first_s + self.waited_s - self.band_s

    @property
    def confidence(self) -> float:
        """The chance that it is as right as it is asked."""
        return chance_within(START_WITHIN, self.apart_s / self.start_s) if self.start_s > 0 else 0.0


def first_band(seen: Seen) -> FirstBand | None:
    """From the time after which a first band was clean and what a band takes; None where these are not known.
    The read behind the pause waits for a unit of cleaning to end, which may be the one that makes the band
    clean, and takes no longer than a band does."""
    first_s, one, bands = idle_time(seen.trials), band_time.best(seen.rounds), seen.cache_bands
    if first_s is None or (one is None and not bands.measured):
        return None
    low_s, high_s = trials.bracket(seen.trials)
    band_s = bands.more_ns / 1e9 if one is None else one.band_s
    waited_s, unsure_s = (min(each, band_s) for each in _waited(seen.trials, first_s - band_s, high_s))
    apart_s = math.hypot((high_s - low_s) / math.sqrt(12), FIRST_BAND_ERROR * band_s, unsure_s)
    return FirstBand(first_s, waited_s, band_s, apart_s)


def _start_before(seen: Seen, first_s: float) -> Finding:
    """When cleaning begins, where only clean bands show that it did."""
    first = f"a first band was clean after {format_duration(first_s * 1e9)}"
    begun = (0.0, trials.bracket(seen.trials)[1] * 1e9)
    found = first_band(seen)
    if (by_pauses := _start_by_pauses(seen)) is not None:
        return by_pauses
    if found is None:
        return START.unknown(f"{first}, but how long it was cleaned is not known", interval=begun)
    start_s = found.start_s
    waited_ns = found.waited_s * 1e9
    waited = f" and the {format_duration(waited_ns)} that a read waited for it" if waited_ns > 0 else ""
    why = f"{first}{waited}, and a band takes {format_duration(found.band_s * 1e9)}"
    if found.confidence < LEAST_CONFIDENCE:
        return START.unknown(f"{why}: what is left is too little to be known", _rows(seen.trials), begun)
    interval = (max(start_s - 2 * found.apart_s, 0.0) * 1e9, (start_s + 2 * found.apart_s) * 1e9)
    return START.found(
        round(start_s * 1e9), found.confidence, why, _rows(seen.trials), interval, way="first band"
    )


def _start_by_pauses(seen: Seen) -> Finding | None:
    """When cleaning begins, by pauses of which many clean a band; None where they do not tell. A drive is
    left alone for as much longer than a pause as commands are on their way, less than any read takes."""
    short = seen.short
    if short is None or short.start_s is None:
        return None
    low_s, high_s = short.start_s
    start_s, apart_s = (low_s + high_s) / 2, (high_s - low_s) / math.sqrt(12)
    confidence = chance_within(START_WITHIN, apart_s / start_s) * short.agree
    if confidence < LEAST_CONFIDENCE:
        return None
    less, enough = (format_duration(each * 1e9) for each in short.bracket_s)
    why = (
        f"{short.count} pauses of {enough} clean a band and as many of {less} do not, where one pause alone"
        f" has to be {format_duration(short.single_s * 1e9)} long"
    )
    if short.kept:
        why += "; of as many, each behind a write that makes the drive begin it anew, none does"
    rows = tuple(f"{PIECES}{number}-look" for number in range(1, len(short.seen) + 1))
    interval = (low_s * 1e9, high_s * 1e9 + min(trial.anchor_ns for trial in seen.trials))
    return START.found(round(start_s * 1e9), confidence, why, rows, interval, way="short pauses")


def _waited(seen: Sequence[Trial], least_s: float, high_s: float) -> tuple[float, float]:
    """How long the read behind the shortest pause with a clean band waited for cleaning, s, and how far that
    may be off: by as much as reads waited behind pauses too short for cleaning to have begun."""
    took_s = [trial.anchor_ns / 1e9 for trial in seen if trial.pause_s == high_s and trial.cleaned]
    before_s = [trial.anchor_ns / 1e9 for trial in seen if trial.pause_s <= max(least_s, trials.SHORTEST_S)]
    if not took_s or not before_s:
        return 0.0, high_s
    usual_s = float(np.median(before_s))
    return max(float(np.median(took_s)) - usual_s, 0.0), max(before_s) - usual_s


def _band(seen: Seen, rows: Sequence[str]) -> Finding:
    if seen.cache_bands.stalls:
        return _cache_band(seen.cache_bands)
    if idle_time(seen.trials) is None:
        zones = [seen.zones[place] for place in half_written_band.PLACES if place in seen.zones]
        if len(zones) == len(half_written_band.PLACES):
            return _zones(zones, rows)
        return _waits(seen.waits, rows)
    one, places = band_time.best(seen.rounds), seen.halves
    if one is None:
        return BAND.unknown("no pause was found in which some bands were cleaned and some were not")
    timed = [spans for progress in places.values() if (spans := progress.spans())]
    single = f"{one.count} bands with one written block took {format_duration(one.band_s * 1e9)} each"
    if len(timed) < len(half_written_band.PLACES):
        missing = len(half_written_band.PLACES) - len(timed)
        return BAND.unknown(f"{single}, but at {missing} of 3 places no half-written bands were counted")
    low_s, high_s = trials.bracket(seen.trials)
    idle_error = (high_s - low_s) / math.sqrt(12)
    half = idle_time_correction.fit(timed, idle_apart(seen, one.band_s))
    half_s, counted = half.band_s, sum(half_written_band.bands_of(spans) for spans in timed)
    apart_one = math.hypot(COUNT_ERROR / one.count, idle_error / one.work_s, MODEL_ERROR)
    apart_half = math.hypot(COUNT_ERROR / counted * math.sqrt(3), half.apart_s / half_s, HALF_MODEL_ERROR)
    if seen.ground is not None and seen.ground.noisy:
        apart_one, apart_half = (math.hypot(apart, OTHERS_ERROR) for apart in (apart_one, apart_half))
    confidence = chance_within(BAND_WITHIN, apart_one) * chance_within(BAND_WITHIN, apart_half)
    why = f"{single}, {counted} bands with every other 64 KiB written {format_duration(half_s * 1e9)} each"
    if confidence < LEAST_CONFIDENCE:
        return BAND.unknown(f"{why}, but the idle time is not known well enough to separate these from it")
    if one.band_s > half_s * (1 + BAND_WITHIN):
        return BAND.unknown(f"{why}: a contradiction, for what is written in half of a band is gathered too")
    if half_s > MOST_HALF * one.band_s:
        return BAND.unknown(f"{why}: a contradiction, for a band is rewritten once whatever is written in it")
    value = {"one_block": round(one.band_s * 1e9), "half": round(half_s * 1e9)}
    half_rows = [name for name in rows if name.startswith(half_written_band.HALF)]
    return BAND.found(dict(value), confidence, why, (f"{one.name}-look", *half_rows))


def idle_apart(seen: Seen, band_s: float) -> float:
    """How far the idle time may be off, as a standard deviation, s."""
    low_s, high_s = trials.bracket(seen.trials)
    return math.hypot((high_s - low_s) / math.sqrt(12), _first_error(seen, band_s))


def _first_error(seen: Seen, band_s: float) -> float:
    """How far the idle time that was taken from the first clean band may be off, as a standard deviation, s;
    each pause has that error."""
    if seen.controls.late_counts:
        return 0.0
    if seen.short is None or seen.short.start_s is None:
        return FIRST_BAND_ERROR * band_s
    less_s, enough_s = seen.short.start_s
    return math.hypot((enough_s - less_s) / math.sqrt(12), SHORT_ERROR * band_s)


def _waits(waits: journal.Seen, rows: Sequence[str]) -> Finding:
    """Bands that a lazy drive with a journal cleaned while a write waited."""
    if waits.one is None or not waits.whole:
        return BAND.unknown("the drive was not seen to clean bands of known content")
    one_ns, half_ns = waits.one.band_ns, waits.half_mean_ns
    counted = sum(len(stalls) for stalls in waits.half_ns.values())
    apart = max(float(np.std(stalls) / np.mean(stalls)) for stalls in waits.half_ns.values())
    part = chance_within(
        BAND_WITHIN, math.hypot(apart / math.sqrt(len(half_written_band.PLACES)), MODEL_ERROR)
    )
    counts = waits.one.bands + counted
    confidence = part * chance_within(BAND_WITHIN, MODEL_ERROR) * share(counts, counts)
    why = (
        f"with the cache full, {waits.one.bands} single blocks waited {format_duration(one_ns)} each for a"
        f" band with one written block, and {counted} writes {format_duration(half_ns)} for one with every"
        " other 64 KiB written"
    )
    if confidence < LEAST_CONFIDENCE:
        return BAND.unknown(f"{why}, too unevenly")
    value: dict[str, int | float | bool | str] = {"one_block": round(one_ns), "half": round(half_ns)}
    told = [name for name in rows if name.startswith((journal.ONE, journal.HALF))]
    return BAND.found(value, confidence, why, told, way="waits")


def _zones(places: list[zone_log_stalls.Place], rows: Sequence[str]) -> Finding:
    """Bands that a lazy drive with free bands everywhere cleaned while a write waited."""
    one_ns = float(np.mean([seen.one_ns for seen in places]))
    half_ns = float(np.mean([seen.usual_half_ns for seen in places]))
    ratios = [seen.usual_half_ns / seen.one_ns for seen in places]
    apart = math.hypot(float(np.std(ratios) / np.mean(ratios)), MODEL_ERROR)
    confidence = chance_within(BAND_WITHIN, apart)
    why = (
        f"in three zones without a free band writes waited {format_duration(one_ns)} for each band with one"
        f" written block, and {format_duration(half_ns)} for each of"
        f" {sum(len(seen.half_ns) for seen in places)} with every other 64 KiB written"
    )
    if confidence < LEAST_CONFIDENCE:
        return BAND.unknown(f"{why}, too unevenly")
    value: dict[str, int | float | bool | str] = {"one_block": round(one_ns), "half": round(half_ns)}
    of_zones = [name for name in rows if name.startswith(zone_log_stalls.ZONE)]
    return BAND.found(value, confidence, why, of_zones, way=ZONES_WAY)


def _cache_band(bands: set_associative.Seen) -> Finding:
    if not bands.measured:
        return BAND.unknown("no other data bands that share a cache band were found")
    more_ns = round(bands.more_ns)
    confidence = chance_within(BAND_WITHIN, math.hypot(bands.scatter, MODEL_ERROR))
    one = format_duration(float(np.median(bands.one_ns)))
    if bands.bands > 1:
        several = format_duration(float(np.median(bands.several_ns)))
        why = (
            f"a write to a full cache band waits {one} when it holds blocks of one data band and {several}"
            f" when of {bands.bands}; data bands {bands.sharing} apart share one"
        )
    else:
        why = f"a write to a full cache band waits {one}, and no other data band shares it"
    rows = tuple(f"{name}-{n}" for name in (set_associative.ONE, set_associative.SEVERAL) for n in (1, 2, 3))
    value: dict[str, int | float | bool | str] = {"one_block": more_ns, "half": more_ns}
    return BAND.found(value, confidence, why, rows, way="cache bands")


def _cache_bands(bands: set_associative.Seen, band: set_associative.CacheBand) -> Finding:
    """What only a set-associative drive has: how many cache bands, bytes of a band, host bytes that
    fill a cache band."""
    why = (
        f"writes in one place stalled every {format_size(band.usable_bytes)}, and a block written"
        f" {bands.sharing} bands further stalled on the same cache band, twice"
    )
    value: dict[str, int | float | bool | str] = {
        "count": bands.sharing,
        "band_bytes": band.pitch,
        "fill_bytes": band.usable_bytes,
    }
    rows = (set_associative.OVER_LARGE, set_associative.OVER_SMALL, f"{set_associative.SEVERAL}-1")
    return CACHE_BANDS.found(value, 1.0 - STRAY, why, rows)
