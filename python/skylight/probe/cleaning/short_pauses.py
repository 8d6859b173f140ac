"""When a drive begins to clean, where reads behind a pause do not tell: by many pauses too short for a band.

A drive that spins down, unloads its heads, scans its media or serves other clients is late behind any pause,
so only bands that are clean show that it cleaned, which is a whole band later. But what is done of a band is
kept when a command interrupts it: after so many pauses it is clean if each of them is longer than the idle
time by its part of the band. So from the shortest pause that suffices, and the longest that does not, the
idle time is known to that part, whatever a band takes. Where a step of the work runs to its end, the read
behind the pause waits for it: what the reads waited for was not done within the pauses.

That work is kept is seen and not assumed: a drive that begins a band anew needs a single pause as long as the
idle time and the band. Where pauses nearly as long as that suffice, there is a control: as many such pauses,
but a write to the band before each makes the drive begin it anew. Where one of these cleans it, or no shorter
pauses suffice, nothing is said.

What tests before left in the cache may be cleaned first. So the drive rests until one pause that is long
enough cleans the band of a new mark again.

Invariant: what is done next depends on logs only.
Source: Skylight (FAST '15), section 4.5, Test 3, made of several pauses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from skylight.evidence import U64, Bools, IoBatch
from skylight.infer.robust import share
from skylight.probe.cleaning.trials import (
    CLOSE_ENOUGH,
    MORE_LOOKS,
    SHORTEST_S,
    Search,
    joined,
    look_again,
    most_home,
    without_first,
)

PIECES, CONTROL = "pieces-", "pieces-control-"
PART = 0.1
"""Of the idle time that a pause's part of a band is to be, at most: half of what is right for it."""
FEWEST_PAUSES, MOST_PAUSES = 4, 40
SHORTER = 0.85
"""Of a single pause that cleans a band: longer ones show that work is kept only beside a control."""
BEGIN, WIDER = 0.6, 0.5
"""Of the idle time as far as it is known, where the first pause that should not suffice is looked for; and
how much shorter the next is if it does."""
MOST_TRIALS = 14
MOST_S = 4 * 3600.0
"""Of all pauses of all trials if each were as long as a single one that suffices, half of what the test may
take: that limits how many there are. Chosen, for nearly all are much shorter."""
REST = 3.0
"""A rest between trials, in single pauses that clean a band."""
ENOUGH = 1.1
"""Single pauses that should clean the band of a new mark. Chosen: more than the bracket of it is open."""
MOST_RESTS, LONGER_REST, MOST_REST_S = 12, 2.0, 3600.0
"""Rests until one does, each twice as long as the one before, and how long all may be. Chosen: some
thousand cache bands with one block are cleaned in half an hour."""
MOST_WAITED = 1.5
"""Times a band, from which on reads waited for something else as well. Chosen: the first band that is found
clean differs from the mean by a quarter."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """One trial: how long each pause was, s, whether the band was clean behind the last, and how long the
    reads behind the pauses took in all, s."""

    pause_s: float
    clean: bool
    waited_s: float = 0.0


@dataclass(slots=True)
class ShortPauses:
    """Trials of `count` pauses each; how long one pause has to be that cleans a band alone, and what a band
    takes (s; infinite where that is not known); whether the control, if made, showed that work is kept."""

    count: int
    single_s: float
    band_s: float
    seen: list[Pieces]
    kept: bool | None = None

    @property
    def bracket_s(self) -> tuple[float, float]:
        """The longest pauses that did not suffice, and the shortest that did; nan where there are none."""
        high_s = min((each.pause_s for each in self.seen if each.clean), default=math.nan)
        low_s = max((each.pause_s for each in self.seen if not each.clean), default=math.nan)
        return low_s, high_s

    @property
    def start_s(self) -> tuple[float, float] | None:
        """When the drive begins to clean, at the earliest and at the latest, s; None where that was not
        seen."""
        low_s, high_s = self.bracket_s
        if not low_s < high_s <= (math.inf if self.kept else SHORTER * self.single_s):
            return None
        return max(low_s - self._within_s(low_s, high_s) / self.count, 0.0), high_s

    def _within_s(self, low_s: float, high_s: float) -> float:
        """What may have been done of a band within pauses of `low_s` that did not suffice, s.

        A read behind a pause lets the unit of work in progress end. So it is behind the single pause, which
        was thus no longer than what it did of the band, and behind each of many: these did no less. What
        reads behind pauses that suffice waited for, and those behind the others did not, was done behind
        them: units that take longer than such pauses cannot end within shorter ones."""
        band_s = min(self.band_s, self.single_s)
        enough_s = min(each.waited_s for each in self.seen if each.clean and each.pause_s == high_s)
        less_s = max(each.waited_s for each in self.seen if not each.clean and each.pause_s == low_s)
        behind_s = enough_s - less_s
        return max(band_s - behind_s, 0.0) if 0.0 < behind_s <= MOST_WAITED * band_s else band_s

    @property
    def agree(self) -> float:
        """How many of the trials agree, by Laplace's rule."""
        high_s = self.bracket_s[1]
        return share(sum(each.clean == (each.pause_s >= high_s) for each in self.seen), len(self.seen))


def measure(search: Search, start_s: float, single_s: tuple[float, float], band_s: float) -> ShortPauses:
    """Trials of pauses around what the idle time may be, of which `start_s` is a guess; `single_s` is the
    longest single pause that did not clean a band, and the shortest that did."""
    single = math.sqrt(single_s[0] * single_s[1])
    count = min(MOST_PAUSES, round(MOST_S / (MOST_TRIALS * single)))
    if math.isfinite(band_s):
        count = min(count, math.ceil(band_s / (PART * max(start_s, SHORTEST_S))))
    seen = ShortPauses(max(count, FEWEST_PAUSES), single, band_s, [])
    if not _at_rest(search, seen, ENOUGH * single_s[1]):
        return seen
    low_s = max(BEGIN * start_s, SHORTEST_S / 2)
    while _cleans(search, seen, low_s):
        if low_s <= SHORTEST_S / 4 or len(seen.seen) >= MOST_TRIALS:
            return seen
        low_s *= WIDER
    if math.isnan(seen.bracket_s[1]):
        longer = (pause_s for pause_s in (SHORTER * single, single_s[0]) if pause_s > low_s)
        if not any(_cleans(search, seen, pause_s) for pause_s in longer):
            return seen
    low_s, high_s = seen.bracket_s
    while high_s > CLOSE_ENOUGH * low_s and len(seen.seen) < MOST_TRIALS:
        _cleans(search, seen, math.sqrt(low_s * high_s))
        low_s, high_s = seen.bracket_s
    for pause_s in (low_s, high_s):  # once more, since one look may be mistaken
        _cleans(search, seen, pause_s)
    if seen.bracket_s[1] > SHORTER * single:
        seen.kept = _is_kept(search, seen, seen.bracket_s[1])
    return seen


def _at_rest(search: Search, seen: ShortPauses, pause_s: float) -> bool:
    """Rests until one pause that is long enough for it cleans the band of a new mark."""
    steps, rest_s, left_s = search.ground.steps, REST * seen.single_s, MOST_REST_S
    for number in range(1, MOST_RESTS + 1):
        name = f"{PIECES}ready-{number}"
        steps.pause(f"{name}-rest", rest_s)
        mark, anchors = _marked(search, name)
        steps.pause(f"{name}-pause", pause_s)
        if _looked(search, name, mark, anchors[1])[0]:
            return True
        left_s -= rest_s
        rest_s *= LONGER_REST
        if rest_s > left_s:
            break
    return False


def _cleans(search: Search, seen: ShortPauses, pause_s: float) -> bool:
    """One trial: whether so many pauses, with a read behind each, clean the band of a mark."""
    steps, name, waited_ns = search.ground.steps, f"{PIECES}{len(seen.seen) + 1}", 0
    steps.pause(f"{name}-rest", REST * seen.single_s)
    mark, anchors = _marked(search, name)
    for number in range(1, seen.count):
        steps.pause(f"{name}-pause", pause_s)
        waited_ns += int(steps.run(f"{name}-read", anchors[number % 2]).latency_ns[0])
    steps.pause(f"{name}-pause", pause_s)
    params = {"pause_s": pause_s, "pauses": seen.count}
    clean, last_ns = _looked(search, name, mark, anchors[seen.count % 2], params)
    seen.seen.append(Pieces(pause_s, clean, (waited_ns + last_ns) / 1e9))
    return clean


def _is_kept(search: Search, seen: ShortPauses, pause_s: float) -> bool:
    """The control: whether of as many pauses, with a write to the band before each, none cleans it."""
    steps = search.ground.steps
    steps.pause(f"{CONTROL}rest", REST * seen.single_s)
    for number in range(1, seen.count + 1):
        name = f"{CONTROL}{number}"
        mark, anchors = _marked(search, name)
        steps.pause(f"{name}-pause", pause_s)
        if _looked(search, name, mark, anchors[1])[0]:
            return False
    return True


def _marked(search: Search, name: str) -> tuple[U64, list[IoBatch]]:
    """Writes the next mark and reads elsewhere; the mark, and two reads there."""
    mark, anchors = search.next_mark(), search.anchors(search.marked)
    search.ground.steps.run(f"{name}-mark", joined(search.ground.marks(mark), anchors[0]))
    return mark, anchors


def _looked(
    search: Search, name: str, mark: U64, anchor: IoBatch, params: dict[str, float] | None = None
) -> tuple[bool, int]:
    """Reads elsewhere and looks at a mark: whether it is home, and how long that read took, ns. Looks are
    repeated, for other clients may delay those at two of three blocks."""
    ground = search.ground
    log = ground.steps.run(f"{name}-look", joined(anchor, ground.looks(mark)), params=params)

    def look() -> Bools:
        return ground.home(ground.steps.run(f"{name}-look-again", ground.looks(mark)))

    home = look_again(ground.home(without_first(log)), MORE_LOOKS, look, flash=ground.flash)
    return most_home(home), int(log.latency_ns[0])
