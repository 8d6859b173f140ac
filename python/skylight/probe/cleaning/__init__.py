"""Cleaning: does the drive clean its persistent cache when it is left alone, since when, how long for a band.

`trials` leaves the drive alone for longer and longer and finds the idle time after which it cleans, or that
it does not within minutes. Of a drive that does, `band_time` lets many bands with one written block be
cleaned and counts them, and `half_written_band` watches bands of which every other 64 KiB was written. Of a
lazy drive with a journal, `journal` fills the cache behind such bands and times the writes that then wait;
`zone_log_stalls` does so in single zones of a drive that has free bands everywhere. Of a drive that may be
set-associative, for it shows no journal, `set_associative` fills one cache band over and over and times the
writes that wait.

*Lazy* needs two signs where they can be had: no trial up to several minutes found anything cleaned, and, of
a set-associative drive, writes that wait for a full cache band.

Source: Skylight (FAST '15), section 4.5, Tests 3 and 4, Figures 10 to 12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe import Axis, Cost, Figure
from skylight.probe.cleaning import (
    band_time,
    half_written_band,
    journal,
    set_associative,
    short_pauses,
    trials,
    zone_log_stalls,
)
from skylight.probe.cleaning.figures import draw
from skylight.probe.cleaning.findings import FINDINGS
from skylight.probe.cleaning.verdict import Seen, first_band, idle_apart, idle_time, judge
from skylight.probe.procedure import (
    LARGEST_FLASH_BYTES,
    ProcedureTest,
    Replay,
    Steps,
    is_shingled,
    no_surer_than_medium,
)

IOS, MOST_S, LIKELY_S, WRITTEN = 120_000, 28_800.0, 900.0, 10 << 30
LAZY_SHARE = 5  # a lazy drive's cache, a tenth of it at most, is filled twice
REFINE_PART = 0.06
SURE_START = 0.9
"""How sure the idle time has to be for no more to be done: that of a bracket that late reads show."""
REST_IDLES = 10.0
"""Idle times after which the one band of the trials should be clean, where it cannot be erased."""


def _may_have_free_bands(known: Known, ground: trials.Ground) -> bool:
    """Whether zones of the drive may have free bands as logs. Where it is not known where the cache is,
    writes that wait for a band of a zone show it; a cache in flash is none of these."""
    location = known.word("cache_location")
    return location == "many" or (location is None and not ground.flash)


class CleaningTest(ProcedureTest[Seen]):
    """The cleaning test of the suite; see the module's page."""

    name = "cleaning"
    title = "Cleaning"
    findings = FINDINGS
    axis: Axis = "time"
    needs: tuple[str, ...] = ("drive_type", "journal", "cache_location")
    summary = (
        "Writes a few blocks, leaves the drive alone for longer and longer, and looks whether they were moved"
        " from the persistent cache to their place, since when, and how long a band takes."
    )
    rests_on_type = True
    runs_in_a_file = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: a drive that waits two minutes before it cleans, or a lazy one of which the cache is
        filled twice, a fifth of the drive in all, or a cache in flash, which may be half of a small drive."""
        if facts.size_bytes < trials.LEAST_TARGET_BYTES:
            return Cost()
        flash = 2 * min(LARGEST_FLASH_BYTES, facts.size_bytes // 2)
        filled = min(2 * journal.MOST_FILLED, max(facts.size_bytes // LAZY_SHARE, flash))
        return Cost(IOS, MOST_S, WRITTEN + filled, LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """Trials; then cache bands, or bands cleaned in idle time, or bands that writes wait for."""
        if not is_shingled(steps) or steps.size < trials.LEAST_TARGET_BYTES:
            return
        with steps.settings(trials.SETTINGS, write_cache=False, look_ahead=False) as report:
            search = trials.Search(trials.begin(steps, report), seen.trials, seen.controls)
            seen.ground = search.ground
            search.run()
            ground = seen.ground = search.ground
            # What a zone costs depends on what is in it: `zone_cleaning` asks that.
            if not seen.controls.looks_tell or steps.zones("zones") is not None:
                return
            quantum = steps.known.number("journal_quantum_bytes")
            # Entries of a journal that are shorter than a write make merges come at a number of bytes too.
            if quantum is None and set_associative.measure(ground, seen.cache_bands):
                self._short(search, seen)
                return
            idle_s = idle_time(seen.trials)
            if idle_s is not None:
                self._bands(search, idle_s, seen)
            elif quantum is not None and quantum >= ground.block:
                journal.measure(ground, int(quantum), seen.waits)
            elif _may_have_free_bands(steps.known, ground):
                zone_log_stalls.measure(ground, seen.zones)

    def _bands(self, search: trials.Search, idle_s: float, seen: Seen) -> None:
        """Where late anchors do not count, the idle time includes the cleaning of a first band."""
        ground, first = search.ground, 0 if seen.controls.late_counts else 1
        trials.clear(ground, "bands", REST_IDLES * idle_s)
        idea = band_time.run_rounds(ground, idle_s, seen.rounds, first)
        if idea is None:
            self._short(search, seen)
            return
        trials.clear(ground, "refine", REST_IDLES * idle_s)
        search.narrow(lambda _: REFINE_PART * idea.band_s, trials.MORE_GUARD_TURNS)
        refined_s = idle_time(seen.trials)
        if refined_s is None:
            return
        trials.clear(ground, "again", REST_IDLES * idle_s)
        one = band_time.settle(ground, idea, refined_s, 0.0, seen.rounds, first=2 * band_time.ROUNDS + 1)
        self._short(search, seen)
        if one is None:
            return
        start_s = max(refined_s - first * one.band_s, 0.0)
        if seen.short is not None and (between_s := seen.short.start_s) is not None:
            start_s = sum(between_s) / 2
        if ground.settles:
            apart_s = idle_apart(seen, one.band_s)
            half_written_band.measure(ground, start_s, apart_s, one.band_s, seen.halves)

    @staticmethod
    def _short(search: trials.Search, seen: Seen) -> None:
        """Pauses too short for a band, where only clean bands show when cleaning begins."""
        if seen.controls.late_counts or (first_s := idle_time(seen.trials)) is None:
            return
        found = first_band(seen)
        if found is not None and found.confidence >= SURE_START:
            return
        start_s, band_s = (0.0, math.inf) if found is None else (found.start_s, found.band_s)
        trials.clear(search.ground, "pieces", REST_IDLES * first_s)
        seen.short = short_pauses.measure(search, start_s, trials.bracket(seen.trials), band_s)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """When and how it cleans, and how long a band takes; nothing of a drive that has no cache."""
        found = judge(seen, steps.known, steps.size, steps.names)
        return no_surer_than_medium(found, steps.known)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """When it begins, and what was cleaned, in the manner of the paper's Figures 11 and 12."""
        return draw(self.seen(evidence, findings), evidence)
