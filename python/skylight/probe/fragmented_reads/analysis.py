"""What each log of reads says by itself, and which place of the drive it was made at.

A log that cannot be used keeps the reason. Places get the suite's names where logs of one drive tell them:
`od` for the first hundredth of the addresses seen, `id` for the last hundredth of the capacity, `md` for its
middle. The capacity is in no log: it is taken as the whole number of 250 GB, by IDEMA's rule, that holds all
addresses seen, and only believed if tracks at the end are so much shorter than at the start that the end is
not the middle: if tracks shrink evenly, those at the middle address hold at least 1 / sqrt(2) of the first,
whatever the last hold.

Invariant: a value is None where the log does not carry it.
Source: docs/tests/fragmented-reads.md; IDEMA LBA1-03 for capacities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt

import numpy as np

from skylight.evidence import F64, Evidence, Op, Step
from skylight.infer import ordered_reads
from skylight.infer.ordered_reads import Marks, TurnFit
from skylight.units import format_duration

STRIDES = (1, 2, 3, 4)
MOST_GAPS = 0.01
CLOSE = 0.125
"""Revolutions from block to block that are taken for blocks in order."""
CAPACITY_STEP_GB = 250
FIRST_PART, LAST_PART = 0.01, 0.99
MIDDLE = (0.4, 0.6)
SINGLE_FIRST_BYTES = 1 << 30
PAST_MIDDLE = sqrt(2.0)
LONGEST_GAP_NS = 1e12
FEWEST_FLOOR_READS = 4 * ordered_reads.WINDOW
STRETCH_READS, STRETCH_VARIES = 8_192, 0.1
"""The way to the cache differs from one stretch of addresses to the next by more than the windows within one
differ, so a log of one stretch says nothing of others, however well its windows agree. Measured: on a real
ST8000AS0022 it stays within 3 % for 7,168 reads and then is 17 % shorter for the next 25,600."""


@dataclass(frozen=True, slots=True)
class Home:
    """A class of reads whose blocks lie in order: every `stride`-th from read `first`. `alone` is True where
    no other class of that stride does so too."""

    stride: int
    first: int
    fit: TurnFit
    marks: Marks
    alone: bool


class Place:
    """One log; `trouble` says why it tells nothing, and is empty where it does."""

    def __init__(self, step: Step) -> None:
        """Takes a step that a log was kept as; everything is computed when it is asked for."""
        rows = step.rows
        self.name = step.name
        self.count = len(rows)
        self.step = step
        self.latency_ns: F64 = rows.latency_ns.astype(np.float64)
        self.done_ns: F64 = rows.complete_ns.astype(np.float64)
        self.first_byte = int(rows.offset.min()) if len(rows) else 0
        self.end_byte = int((rows.offset + rows.size).max()) if len(rows) else 0

    @cached_property
    def pitch_bytes(self) -> int:
        """Bytes from one read's address to the next; 0 where reads are not in address order at one pitch."""
        pitch = np.diff(self.step.rows.offset.astype(np.int64))
        usual = int(np.median(pitch)) if len(pitch) else 0
        even = usual > 0 and np.count_nonzero(pitch != usual) <= MOST_GAPS * len(pitch)
        return usual if even and np.ptp(self.step.rows.size) == 0 else 0

    @cached_property
    def trouble(self) -> str:
        """Why the log tells nothing of the platters, as a sentence."""
        if np.any(self.step.rows.op != int(Op.READ)):
            return f"{self.name} is a log of writes, and only reads are looked at."
        if self.count < 2 * ordered_reads.FEWEST:
            return (
                f"{self.name} holds {self.count} reads, and at least {2 * ordered_reads.FEWEST} are needed."
            )
        if self.step.params.get("offsets") is not True:
            return f"{self.name} holds no offsets: fio writes them with --log_offset=1."
        if self.step.params.get("depth") != 1:
            return f"Reads of {self.name} overlap: completion times are only known of one read at a time."
        if self.pitch_bytes == 0:
            return f"Reads of {self.name} are not in address order at one distance."
        spread_ns = self.step.number("host_gap_spread_ns", LONGEST_GAP_NS) or 0.0
        if self.home is None and spread_ns > 0:
            return (
                f"The pauses between the reads of {self.name} vary by {format_duration(spread_ns)} from one"
                " to the next, so at which angle a block passed is not known."
            )
        if self.home is None:
            return f"Completions of {self.name} follow no rotation that its reads show."
        return ""

    @cached_property
    def home(self) -> Home | None:
        """The reads that follow the platter in address order, with the least stride that shows them.

        The tracks must confirm the revolution: their number of reads times the step. Blocks packed into a
        cache in the same order step on from read to read too; where two classes do, the revolution is known,
        but not which of the two is at home."""
        for stride in STRIDES:
            for first in range(stride):
                fit = ordered_reads.turn_of(np.diff(self.done_ns[first::stride]))
                marks = (
                    None if fit is None or not ordered_reads.advances(fit) else ordered_reads.marks_of(fit)
                )
                if fit is not None and marks is not None:
                    others = (other for other in range(stride) if other != first)
                    alone = not any(self._steps_on(other, stride, fit.turn) for other in others)
                    return Home(stride, first, fit, marks, alone)
        return None

    def _steps_on(self, first: int, stride: int, turn: float) -> bool:
        """Whether the blocks of a class follow each other closely around the platter."""
        apart = np.diff(self.done_ns[first::stride])
        step = ordered_reads.usual_step(apart, turn)
        return bool(ordered_reads.coherence(apart, turn)[0] >= ordered_reads.COHERENT and abs(step) < CLOSE)

    @cached_property
    def elsewhere(self) -> bool:
        """Whether every second block lies where its neighbours do not."""
        if self.home is None or self.home.stride != 2:
            return False
        together = ordered_reads.coherence(np.diff(self.done_ns), self.home.fit.turn)
        return bool(together[0] < ordered_reads.COHERENT)

    @property
    def stretch_error(self) -> float:
        """Error of a way that was seen on so few stretches of addresses, as a share of it."""
        return STRETCH_VARIES / sqrt(max(self.count / STRETCH_READS, 1.0))

    @property
    def enough(self) -> bool:
        """Whether the log holds enough reads to say by how much the way varies over it."""
        return self.count >= FEWEST_FLOOR_READS

    @cached_property
    def floors_ns(self) -> F64:
        """The way there or back in each window of reads; none where waits are not even over a revolution."""
        if self.home is None or not self.elsewhere or not self.enough:
            return np.empty(0)
        turn = self.home.fit.turn
        if ordered_reads.uneven(self.latency_ns, turn) > ordered_reads.EVEN:
            return np.empty(0)
        return ordered_reads.floors(self.latency_ns, turn, ordered_reads.WINDOW)

    @cached_property
    def floor_ns(self) -> float | None:
        """The way there or back: the median window."""
        return float(np.median(self.floors_ns)) if len(self.floors_ns) else None

    @cached_property
    def cache_steps(self) -> list[tuple[float, float]]:
        """Angles (revolutions) from one block that lies elsewhere to the next, with their shares; none unless
        tracks show which blocks are at home."""
        if self.home is None or not self.home.alone or not self.elsewhere:
            return []
        apart = np.diff(self.done_ns[1 - self.home.first :: 2])
        return ordered_reads.angle_modes(apart, self.home.fit.turn)

    @property
    def track_bytes(self) -> float | None:
        """Bytes of a track."""
        home = self.home
        if home is None or not home.alone:
            return None
        return home.marks.reads * home.stride * self.pitch_bytes


def places_of(evidence: Evidence) -> list[Place]:
    """The logs in the order of their addresses."""
    places = [Place(step) for step in evidence.steps if step.kind == "run"]
    return sorted(places, key=lambda place: (place.first_byte, place.name))


def capacity_bytes(end_byte: int) -> int:
    """The least usual capacity that holds an address: a whole number of 250 GB by IDEMA's rule."""
    count = max(1, ceil(end_byte / (CAPACITY_STEP_GB * 10**9)))
    while (found := _idema(count * CAPACITY_STEP_GB)) < end_byte:
        count += 1
    if count > 1 and _idema((count - 1) * CAPACITY_STEP_GB) >= end_byte:
        return _idema((count - 1) * CAPACITY_STEP_GB)
    return found


def _idema(gigabytes: int) -> int:
    return (97_696_368 + 1_953_504 * (gigabytes - 50)) * 512


def place_names(places: Sequence[Place]) -> dict[str, str]:
    """The suite's name of each place (by step name) where it is known, else the step's own."""
    names = {place.name: place.name for place in places}
    if not places:
        return names
    end = max(place.end_byte for place in places)
    most = SINGLE_FIRST_BYTES if len(places) == 1 else FIRST_PART * end
    first = places[0]
    if first.end_byte > most:
        return names
    names[first.name] = "od"
    last = places[-1]
    if last is first or first.track_bytes is None or last.track_bytes is None:
        return names
    capacity = capacity_bytes(end)
    if last.end_byte > LAST_PART * capacity and first.track_bytes > PAST_MIDDLE * last.track_bytes:
        names[last.name] = "id"
        middle = [p for p in places[1:-1] if MIDDLE[0] * capacity < p.first_byte < MIDDLE[1] * capacity]
        if len(middle) == 1:
            names[middle[0].name] = "md"
    return names
