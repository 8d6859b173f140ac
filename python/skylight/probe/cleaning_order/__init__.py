"""Cleaning order: does a drive that cleans in idle time take its bands in the order they were written in?

Marks in bands far apart are written one after the other, and the drive is left alone until about half of them
are clean (`measure`). First in, first out means that these are the first that were written, whichever way the
marks went through the address space and however many blocks they have; anything else is *other*. The paper's
Test 5 is run as well, which shows whether blocks written later go home with their band.

A drive that cleans only when it has to shows no order. A set-associative one cleans a cache band at a time,
so no two marks share one; one with fewer cache bands than marks gets as many marks as it has bands, written
in another order each time, until the times that tell are enough.

Confidence: for *fifo* one minus the chance that as many of the first would be among the cleaned in a random
order (hypergeometric; with few marks, that as many pauses would be in line); for *other* one minus the chance
that so many marks were misread (binomial).

Source: Skylight (FAST '15), section 4.5.1, Test 5, Algorithm 1 and Figure 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.tail_probability import binomial_tail, hypergeometric_tail
from skylight.probe import Cost, Figure
from skylight.probe.cleaning import trials
from skylight.probe.cleaning_order import measure as parades
from skylight.probe.cleaning_order.figures import draw
from skylight.probe.cleaning_order.findings import FINDINGS, ORDER
from skylight.probe.cleaning_order.measure import Parade, Seen
from skylight.probe.procedure import ProcedureTest, Replay, Steps

IOS, MOST_S, LIKELY_S, WRITTEN = 2_500, 14_400.0, 120.0, 1 << 30
MISREAD = 0.015  # of marks, by slow outliers; where a track ends a mark tells nothing from the start
LARGEST_CHANCE = 1e-3
STRAYS = 1  # marks of a parade that may be out of line


class CleaningOrder(ProcedureTest[Seen]):
    """The cleaning-order test of the suite; see the module's page."""

    name = "cleaning_order"
    title = "Cleaning order"
    findings = FINDINGS
    needs: tuple[str, ...] = ("cleaning",)
    summary = (
        "Writes blocks into bands far apart, leaves the drive alone until about half of them are cleaned, and"
        " looks whether these are the ones that were written first."
    )
    rests_on_type = True
    runs_in_a_file = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: a drive that waits two minutes before it cleans."""
        if facts.size_bytes < trials.LEAST_TARGET_BYTES:
            return Cost()
        return Cost(IOS, MOST_S, WRITTEN, LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """A parade up, one down, and Test 5."""
        known = steps.known
        idle_ns, band_ns = _idle_ns(known), known.part("cleaning_band_ns", "one_block")
        if not _applies(known) or idle_ns is None or not steps.can_write:
            return
        if steps.size < trials.LEAST_TARGET_BYTES:
            return
        idle_s, zones = idle_ns / 1e9, steps.zones("zones")
        with steps.settings(trials.SETTINGS, write_cache=False, look_ahead=False) as report:
            ground = trials.begin(steps, report)
            if ground.flash:
                ground = trials.with_limit(ground, trials.NEW, parades.marks(steps.size, parades.UP, None))
            seen.ground = ground
            band_s = band_ns / 1e9 if band_ns is not None else max(0.3, idle_s / 8)
            if zones is not None:  # half of it is read and written, and that again on its way
                band_s = 2 * zones.zone_bytes / float(np.median(ground.bytes_a_second))
            bands = _cache_bands(known)
            if bands is not None and bands.count < parades.MARKS:
                if bands.count > 1:
                    parades.few_marks(ground, idle_s, band_s, bands, seen)
                return
            for direction in (parades.UP, parades.DOWN):
                parades.parade(ground, direction, idle_s, band_s, bands, seen)
            seen.test5 = parades.test5(ground, idle_s, band_s)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The one finding; absent where there is no cleaning."""
        kind, cleaning = steps.known.word("drive_type"), steps.known.word("cleaning_type")
        if kind is not None and kind != "smr":
            return []
        if cleaning == "lazy":
            return [ORDER.unknown("a drive that cleans only when a write finds no room shows no order")]
        if seen.ground is None:
            why = (
                "no probe blocks were written: when the drive cleans is not known, or writes are not allowed"
            )
            return [ORDER.unknown(why)]
        found = _judge_few(seen.few) if seen.few else _judge(seen.parades)
        if found.value == "other" and not seen.ground.settles:
            why = "a volatile cache that ignores FLUSH writes out in an order of its own"
            return [ORDER.unknown(f"{found.why}, but {why}", found.rows)]
        return [found]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Which marks were cleaned, and Test 5 in the manner of the paper's Figure 13."""
        return draw(self.seen(evidence, findings))


def _applies(known: Known) -> bool:
    aggressive = known.word("drive_type") == "smr" and known.word("cleaning_type") == "aggressive"
    return aggressive and (_cache_bands(known) is not None or known.get("cache_bands") is None)


def _idle_ns(known: Known) -> float | None:
    """When cleaning begins, or at least by when a first band is clean: the parades find their own pauses."""
    start = known.get("cleaning_start_ns")
    if start is None or start.known or start.interval is None:
        return known.number("cleaning_start_ns")
    return start.interval[1]


def _cache_bands(known: Known) -> parades.CacheBands | None:
    """Cache bands of a set-associative drive; None of another."""
    count, band = known.part("cache_bands", "count"), known.part("cache_bands", "band_bytes")
    return None if count is None or band is None else parades.CacheBands(int(count), int(band))


def strays(seen: Parade) -> int:
    """Cleaned marks beyond as many of the first as were cleaned."""
    count = int(np.count_nonzero(seen.order))
    return int(np.count_nonzero(seen.order[count:]))


def in_two_queues(told: Sequence[Parade]) -> bool:
    """Whether some address parts all parades into two queues, each cleaned from its first mark on and each
    in part only: two disks, one behind the other, clean at the same time, each in an order of its own. One
    queue in another order leaves a part that is clean or untouched as a whole, or marks out of line."""
    return any(all(_parts_at(seen, split) for seen in told) for split in range(2, parades.MARKS - 1))


def _parts_at(seen: Parade, split: int) -> bool:
    place = np.arange(len(seen.cleaned))
    if seen.name.startswith(parades.DOWN):
        place = place[::-1]
    parts = [seen.cleaned[seen.told & side] for side in (place < split, place >= split)]
    if not all(0 < int(np.count_nonzero(part)) < len(part) for part in parts):
        return False
    return sum(int(np.count_nonzero(part[np.count_nonzero(part) :])) for part in parts) <= STRAYS


def in_line_by_chance(chances: Sequence[float], seen: int) -> float:
    """The chance that at least `seen` trials come out, each of its own chance."""
    out = np.ones(1)
    for chance in chances:
        out = np.convolve(out, [1 - chance, chance])
    return float(min(out[seen:].sum(), 1.0))


def _judge_few(told: list[Parade]) -> Finding:
    """From many parades of few marks."""
    counts = [int(np.count_nonzero(seen.order)) for seen in told]
    out = [strays(seen) for seen in told]
    in_line = out.count(0)
    rows = tuple(seen.name for seen in told)
    why = (
        f"of {len(told)} pauses in which some of {len(told[0].order)} probe blocks, one a cache band, were"
        f" cleaned, {in_line} cleaned the first that were written"
    )
    drawn = [1 / comb(len(seen.order), count) for seen, count in zip(told, counts, strict=True)]
    chance = in_line_by_chance(drawn, in_line)
    marks = sum(len(seen.order) for seen in told)
    misread = binomial_tail(sum(out), marks, MISREAD)
    if chance <= LARGEST_CHANCE and misread > LARGEST_CHANCE:
        return ORDER.found("fifo", 1.0 - chance, why, rows)
    if misread <= LARGEST_CHANCE:
        return ORDER.found("other", 1.0 - misread, why, rows)
    return ORDER.unknown(f"{why}: too few to determine an order")


def _judge(told: list[Parade]) -> Finding:
    if len(told) < 2:
        return ORDER.unknown(
            "no pause was found after which some probe blocks were cleaned and some were not"
        )
    out = [strays(seen) for seen in told]
    counts = [int(np.count_nonzero(seen.order)) for seen in told]
    rows = tuple(seen.name for seen in told)
    words = " and ".join(
        f"{count - stray} of the first {count}" for count, stray in zip(counts, out, strict=True)
    )
    cleaned = f"{counts[0]} and {counts[1]} of {parades.MARKS} probe blocks"
    why = f"after two pauses in which {cleaned} were cleaned, these are {words}"
    chance = 1.0
    for seen, count, stray in zip(told, counts, out, strict=True):
        chance *= hypergeometric_tail(count - stray, len(seen.order), count, count)
    if max(out) <= STRAYS and chance <= LARGEST_CHANCE:
        return ORDER.found("fifo", 1.0 - chance, why, rows)
    marks = sum(len(seen.order) for seen in told)
    misread = binomial_tail(sum(out), marks, MISREAD)
    if misread <= LARGEST_CHANCE and in_two_queues(told):
        return ORDER.unknown(f"{why}; below and above an address each was cleaned in its own order", rows)
    if misread <= LARGEST_CHANCE:
        return ORDER.found("other", 1.0 - misread, why, rows)
    return ORDER.unknown(f"{why}: too many for misread marks, too few for another order")
