"""How long a drive cleans a band of which one block was written: Test 4 of the paper, made adaptive.

Single blocks are written into bands at nine places at even distances in the address space, several at each,
so far apart that no two share a band. The drive is then left alone for longer than its idle time, and looks
(`skylight.infer.cached_or_native`) say how many went home. The time that it cleaned is the pause less its
idle time, and the time that the read after the pause had to wait; on average half a band more was begun than
was finished.

A first round with a few bands gives an idea; the last one has so many that the time is right and the count is
large. Each round begins with clean bands: by an erase, or a pause in which all are cleaned. Blocks that look
cached already then are not written: a look across the end of a track takes longer by the skew, on a fast disk
by more than half a revolution, whatever becomes of the block.

Source: Skylight (FAST '15), section 4.5.1, Test 4 and Figure 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skylight.evidence import U64, Bools, IoBatch
from skylight.probe.cleaning.trials import (
    INSIDE,
    MIB,
    MORE_LOOKS,
    Ground,
    clear,
    joined,
    look_again,
    without_first,
)

CLUSTERS = 9
LARGEST_EACH = 40
LARGEST_BAND = 257 * MIB
SPARE = 1.3
LEAST_WORK_S, MOST_WORK_S = 1.0, 1200.0
WORK_IDLE_PART = 0.5  # cleaning that long, an idle time wrong by 2 % makes the rate wrong by 4 %
FEWEST, EACH = 5, 4
MARGIN, ENOUGH_PART = 0.92, 0.75  # of the marks of a round
LESS, INSIDE_BY = 0.87, 1.04
HIDDEN_PART, HIDDEN_AT_REST = 0.02, 0.1
AT_REST_PART = 0.02
"""Of a band's time, as long as a read behind a pause waits where no band is being cleaned. Chosen."""
ROUNDS = 10
ORDER = (
    4,
    0,
    1,
    2,
    3,
    8,
    7,
    6,
    5,
)  # first and last are neither fast nor slow: what is left was written there
BEGUN = 0.65  # of a band was done of the one in progress, on average, when its unit had ended
FEW_LEFT, MOST_LOOKS = 0.25, 4
"""Of the marks, how many that do not look home at most are looked at again, each by itself, and how often.
Chosen: where a fifth of looks waits for other clients, three looks hide one mark in 120 and seven one in
78,000; of marks that are cached seven say so in a second."""
MOST_UNCLEAR = 0.25
"""Of the marks, at most that part may look cached before they are written: more are cached."""
ROUND = "bands-"


@dataclass(frozen=True, slots=True)
class Round:
    """One round: which marks went home, in the order written, and for how long the drive cleaned."""

    name: str
    home: np.ndarray[tuple[int], np.dtype[np.bool_]]
    pause_s: float
    waited_s: float
    idle_s: float
    before: int = 0
    """Bands that were finished when the idle time ended: 1 if that includes a first band."""

    @property
    def count(self) -> int:
        """Bands cleaned."""
        return int(np.count_nonzero(self.home))

    @property
    def whole(self) -> bool:
        """Whether nothing was left to clean but what slow looks may hide: then the time says nothing. More of
        them may be slow where the read behind the pause met no cleaning, as it does while there is some."""
        left = len(self.home) - self.count
        at_rest = self.count > 0 and self.waited_s < AT_REST_PART * self.work_s / self.count
        hidden = HIDDEN_AT_REST if at_rest else HIDDEN_PART
        return left <= max(1.0, hidden * len(self.home))

    @property
    def tells(self) -> bool:
        """Whether bands of nearly all places were cleaned, and some were left."""
        return ENOUGH_PART * len(self.home) <= self.count and not self.whole

    @property
    def work_s(self) -> float:
        """How long the drive cleaned, s."""
        return self.pause_s + self.waited_s - self.idle_s

    @property
    def band_s(self) -> float:
        """Time for a band, s."""
        return self.work_s / (max(self.count - self.before, 0) + BEGUN)


def places(size: int, each: int, pitch: int) -> U64:
    """The blocks in the order of writing: `each` at every cluster, `pitch` bytes apart."""
    centres = (2 * np.arange(CLUSTERS, dtype=np.int64) + 1) * (size // (2 * CLUSTERS)) // MIB * MIB
    blocks = centres[:, None] + np.arange(each, dtype=np.int64) * pitch + INSIDE
    return blocks[list(ORDER)].ravel().astype(np.uint64)


def longest_band(ground: Ground, band_s: float, bytes_a_second: float) -> int:
    """Bytes that no band has more of, if cleaning one takes so long: it is read and written."""
    at_most = SPARE * band_s * bytes_a_second / 2
    return int(min(LARGEST_BAND, math.ceil(at_most / MIB) * MIB + MIB))


def run_rounds(ground: Ground, idle_s: float, rounds: list[Round], before: int) -> Round | None:
    """Rounds until one tells, and that one; see the module's page. All of them are put into `rounds`; of the
    idle time see `Round.before`."""
    size, work_s, each, pitch = (
        ground.steps.size,
        max(LEAST_WORK_S, WORK_IDLE_PART * idle_s),
        2,
        LARGEST_BAND,
    )
    for number in range(1, ROUNDS + 1):
        each = max(1, min(each, LARGEST_EACH, size // (2 * CLUSTERS) // pitch))
        marks = _clear_marks(ground, number, places(size, each, pitch))
        seen = _round(ground, number, marks, (idle_s, work_s), before)
        rounds.append(seen)
        if seen.whole:
            pitch = min(pitch, longest_band(ground, seen.work_s / seen.count, max(ground.bytes_a_second)))
            if each < min(4 * each, size // (2 * CLUSTERS) // pitch, LARGEST_EACH):
                each *= 4
            else:
                work_s /= 2
        elif seen.count >= FEWEST:
            return settle(ground, seen, idle_s, WORK_IDLE_PART * idle_s, rounds, first=ROUNDS + 1)
        elif work_s >= MOST_WORK_S:
            return None
        else:
            work_s = min(MOST_WORK_S, 3 * work_s)
    return None


def settle(
    ground: Ground, idea: Round, idle_s: float, least_s: float, rounds: list[Round], *, first: int
) -> Round | None:
    """With an idea of the rate: rounds of the same bands, which take at least `least_s`, until most of them
    but not all are cleaned in one. They are counted from `first`."""
    band_s, size = idea.band_s, ground.steps.size
    pitch = longest_band(ground, band_s, max(ground.bytes_a_second))
    most = min(LARGEST_EACH, max(1, size // (2 * CLUSTERS) // pitch))
    marks = places(size, min(most, max(EACH, math.ceil(least_s / band_s / CLUSTERS))), pitch)
    marks = _clear_marks(ground, first, marks)
    low_s, high_s = 0.0, math.inf
    for number in range(first, first + ROUNDS):
        work_s = MARGIN * len(marks) * band_s
        if not INSIDE_BY * low_s < work_s < high_s / INSIDE_BY:
            work_s = math.sqrt(low_s * high_s) if low_s > 0 and math.isfinite(high_s) else work_s
            work_s = max(work_s, 2 * low_s) if math.isinf(high_s) else min(work_s, LESS * high_s)
        seen = _round(ground, number, marks, (idle_s, work_s), idea.before)
        rounds.append(seen)
        if seen.tells:
            return seen
        if seen.whole:
            high_s, band_s = min(high_s, work_s), LESS * band_s
        else:
            low_s, band_s = max(low_s, work_s), seen.band_s
    return None


def _clear_marks(ground: Ground, number: int, marks: U64) -> U64:
    """The marks of which a look can say that they are home, as it says of all before they are written; see
    the module's page. All of them where too many look cached: some bands are not clean then."""
    if ground.flash:
        return marks
    lone, name = ground.lone, f"{ROUND}{number}-before"
    home = _home(ground, name, marks, lone.home(ground.steps.run(name, lone.looks(marks))))
    return marks[home] if np.count_nonzero(~home) <= MOST_UNCLEAR * len(marks) else marks


def _home(ground: Ground, name: str, marks: U64, home: Bools) -> Bools:
    """Which marks are home, of which some looked so, by more looks at all of them and still more at the few
    that look cached: what is home stays home."""
    lone, steps = ground.lone, ground.steps

    def look(at: U64) -> Bools:
        return lone.home(steps.run(f"{name}-again", lone.looks(at)))

    # Other clients delay a fifth of the looks, also where the baseline met none of them.
    times = MORE_LOOKS if ground.noisy else int(not ground.flash)
    home = look_again(home, times, lambda: look(marks), flash=ground.flash)
    for _ in range(0 if ground.flash else MOST_LOOKS):
        left = np.flatnonzero(~home)
        if 0 < len(left) <= FEW_LEFT * len(marks):
            home[left] = look(marks[left])
    return home


def _round(ground: Ground, number: int, marks: U64, times_s: tuple[float, float], before: int) -> Round:
    (idle_s, work_s), steps, lone, name = times_s, ground.steps, ground.lone, f"{ROUND}{number}"
    anchor = int(marks[len(marks) // 2]) + 64 * MIB
    anchors = [IoBatch.reads([anchor - back], ground.block) for back in (0, 16 << 10)]
    steps.run(f"{name}-write", joined(lone.marks(marks), anchors[0]))
    pause_s = idle_s + work_s
    steps.pause(f"{name}-pause", pause_s)
    params = {"pause_s": pause_s, "idle_s": idle_s}
    log = steps.run(f"{name}-look", joined(anchors[1], lone.looks(marks)), params=params)
    waited_s = max(0.0, float(log.latency_ns[0]) - ground.rotation_ns / 2) / 1e9
    home = _home(ground, f"{name}-look", marks, lone.home(without_first(log)))
    seen = Round(name, home, pause_s, waited_s, idle_s, before)
    _clear(ground, number, seen)
    return seen


def _clear(ground: Ground, number: int, seen: Round) -> None:
    """Leaves no dirty band behind: by an erase, or by twice the pause that it should take."""
    if not seen.whole:
        left = len(seen.home) - seen.count
        clear(ground, f"{ROUND}{number}", 2 * seen.idle_s + 2 * (left + 1) * seen.band_s)


def best(rounds: list[Round]) -> Round | None:
    """The round that tells most: the last that tells, for which the idle time was known best."""
    return next((seen for seen in reversed(rounds) if seen.tells), None)
