"""When a drive begins to clean, where reads behind a pause do not tell: by many pauses too short for a band.

A drive that spins down, unloads its heads, scans its media or serves other clients is late behind any pause,
so only bands that are clean show that it cleaned, which is a whole band later. But what is done of a band is
kept when a command interrupts it: after so many pauses it is clean if each of them is longer than the idle
time by its part of the band. So from the shortest pause that suffices, and the longest that does not, the
idle time is known to that part, whatever a band takes.

That work is kept is seen and not assumed: a drive that begins a band anew needs a single pause as long as the
idle time and the band, and where no shorter ones suffice nothing is said.

Invariant: what is done next depends on logs only.
Source: Skylight (FAST '15), section 4.5, Test 3, made of several pauses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from skylight.infer.robust import share
from skylight.probe.cleaning.trials import CLOSE_ENOUGH, SHORTEST_S, Search, joined, most_home, without_first

PIECES = "pieces-"
PART = 0.1
"""Of the idle time that a pause's part of a band is to be, at most: half of what is right for it."""
FEWEST_PAUSES, MOST_PAUSES = 4, 40
SHORTER = 0.85
"""Of a single pause that cleans a band: longer ones do not show that work is kept."""
BEGIN, WIDER = 0.6, 0.5
"""Of the idle time as far as it is known, where the first pause that should not suffice is looked for; and
how much shorter the next is if it does."""
MOST_TRIALS = 14
REST = 3.0
"""A rest between trials, in single pauses that clean a band."""


@dataclass(slots=True)
class ShortPauses:
    """Pauses (s) of which so many were made, and whether they cleaned the band; how long one pause has to be
    that cleans it alone, and what a band takes (s)."""

    count: int
    single_s: float
    band_s: float
    seen: list[tuple[float, bool]]

    @property
    def bracket_s(self) -> tuple[float, float]:
        """The longest pauses that did not suffice, and the shortest that did; nan where there are none."""
        high_s = min((pause_s for pause_s, clean in self.seen if clean), default=math.nan)
        low_s = max((pause_s for pause_s, clean in self.seen if not clean), default=math.nan)
        return low_s, high_s

    @property
    def start_s(self) -> tuple[float, float] | None:
        """When the drive begins to clean, at the earliest and at the latest, s; None where that was not
        seen."""
        low_s, high_s = self.bracket_s
        if not low_s < high_s <= SHORTER * self.single_s:
            return None
        # A read behind a pause lets the unit of work in progress end. So it is behind the single pause, which
        # was thus no longer than what it did of the band, and behind each of many: these did no less.
        return max(low_s - min(self.band_s, self.single_s) / self.count, 0.0), high_s

    @property
    def agree(self) -> float:
        """How many of the trials agree, by Laplace's rule."""
        high_s = self.bracket_s[1]
        return share(sum(clean == (pause_s >= high_s) for pause_s, clean in self.seen), len(self.seen))


def measure(search: Search, start_s: float, single_s: float, band_s: float) -> ShortPauses:
    """Trials of pauses around what the idle time may be; `start_s` is a guess."""
    count = math.ceil(band_s / (PART * max(start_s, SHORTEST_S)))
    count = min(max(count, FEWEST_PAUSES), MOST_PAUSES)
    seen = ShortPauses(count, single_s, band_s, [])
    low_s = max(BEGIN * start_s, SHORTEST_S / 2)
    while _cleans(search, seen, low_s):
        if low_s <= SHORTEST_S / 4 or len(seen.seen) >= MOST_TRIALS:
            return seen
        low_s *= WIDER
    high_s = seen.bracket_s[1]
    if math.isnan(high_s):
        high_s = SHORTER * single_s
        if not _cleans(search, seen, high_s):
            return seen
    while high_s > CLOSE_ENOUGH * low_s and len(seen.seen) < MOST_TRIALS:
        pause_s = math.sqrt(low_s * high_s)
        if _cleans(search, seen, pause_s):
            high_s = pause_s
        else:
            low_s = pause_s
    for pause_s in (low_s, high_s):  # once more, since one look may be mistaken
        _cleans(search, seen, pause_s)
    return seen


def _cleans(search: Search, seen: ShortPauses, pause_s: float) -> bool:
    """One trial: whether so many pauses, with a read behind each, clean the band of a mark."""
    steps, ground, name = search.ground.steps, search.ground, f"{PIECES}{len(seen.seen) + 1}"
    steps.pause(f"{name}-rest", REST * seen.single_s)
    mark, anchors = search.next_mark(), search.anchors(search.marked)
    steps.run(f"{name}-mark", joined(ground.marks(mark), anchors[0]))
    for number in range(1, seen.count):
        steps.pause(f"{name}-pause", pause_s)
        steps.run(f"{name}-read", anchors[number % 2])
    steps.pause(f"{name}-pause", pause_s)
    look = joined(anchors[seen.count % 2], ground.looks(mark))
    log = steps.run(f"{name}-look", look, params={"pause_s": pause_s, "pauses": seen.count})
    clean = most_home(ground.home(without_first(log)))
    seen.seen.append((pause_s, clean))
    return clean
