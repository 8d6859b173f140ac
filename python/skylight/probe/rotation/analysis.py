"""What the logs of test 2 say, step by step: used by `measure` to plan the next step, by `infer` to judge.

Invariant: each value is computed from logs alone, and None (or nothing in it) where they do not determine it.
A value is asked for only once the steps that it rests on have been run: it is computed once.

Source: docs/tests/rotation.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from skylight.evidence import F64, IoLog
from skylight.infer.minimum_access_time import Reach
from skylight.infer.one_spindle import is_by_parts, turns_otherwise
from skylight.infer.phase import NONE, Coherence
from skylight.infer.priors import BY_TYPE, CHOSEN
from skylight.infer.track_phases import Tracks
from skylight.probe.rotation import seeks, track_fit
from skylight.probe.rotation.plan_steps import (
    ALONE,
    AROUND,
    AROUND_PLACES,
    BEHIND,
    COARSE_TIMES,
    END,
    PLACE_READS,
    ROUND_IOS,
    STAR_READS,
    STARS,
    TOWARDS_END,
    TOWARDS_READS,
    VISITS,
)
from skylight.probe.rotation.seeks import Curve
from skylight.probe.rotation.step_times import StepTimes
from skylight.probe.rotation.track_consistency import (
    LARGEST_STEP,
    MOST_PARTS,
    agreed,
    are_larger,
    are_shuffled,
    as_large,
    differs,
    first_pieces,
    has_whole,
    is_among,
    is_between,
    is_in_line,
    is_mostly_whole,
    is_out_of_order,
    led_on,
    off_line,
    off_their_line,
    parts,
    rows_of,
    some_were_moved,
    start_between,
    starts_below,
    starts_below_all,
)
from skylight.probe.rotation.track_fit import LEAST_TRACK_BYTES, MOST_TRACK_BYTES, Turn

FEWEST_PLACES = 8
HUB_PIECES = 3
MOST_DIFFERENCE = 0.03
"""How far track sizes 1 GiB apart may differ: by the error of both, and hardly ever by a zone."""
LEAST_SHRINKING = 1.08
"""How much more a track in the middle of the addresses holds than the last, where sizes fall from the first
to the middle one: 1.2 where the outermost holds only half as much again as the innermost."""
MOST_MOVED = 0.01
"""How much larger tracks may be where the end is measured than at the last address, as sizes fall from the
middle on: half of what is right."""
FEWEST_TOWARDS = 8
END_IN_LINE = "end in line"
"""The way of an end that was held against that line only: a cache less than a recording zone further in is
not seen (619 GB of random drive 99291, where tracks are 5.4 % smaller)."""
FEWEST_ALIKE = 3  # places around the middle: one may be beyond the end of a zone or a surface
BESIDE = (0.8, 1.25)  # what sizes are looked for close by, as multiples of those there
AGAIN = (0.9, 1.1)  # what the size of these may be, as multiples of what it was: it was off by a few per cent
BEHIND_PLACES = 2  # places behind the start at which larger tracks are looked for
FEWEST_PIECES, SHORT_TURNS = 8, 0.25
"""Pieces of which half are no quarter of a track are no tracks."""


class Analysis(StepTimes):
    """See the module's page. `log` gives the log of a step by its name."""

    def __init__(
        self,
        log: Callable[[str], IoLog],
        io_bytes: int,
        size_bytes: int,
        *,
        at_home: float = 0.0,
        in_flash: float = 0.0,
        start_moved: bool = False,
        end: tuple[str, str] = END,
        end_bytes: int = 0,
    ) -> None:
        """Takes what gives the log of a step, empty for one not run; how sure it is, whatever tracks say,
        that all blocks lie at their place: on a drive as new, or without a persistent cache; how sure, that
        what is cached is in flash; whether the start was moved, and is measured further on; the steps that
        show tracks at the end of these bytes, and before; and how far before the last address that end is."""
        self._log = log
        self._io_bytes = io_bytes
        self._size = size_bytes
        self._at_home, self._in_flash = at_home, in_flash
        self.start_moved = start_moved
        self._end, self.end_bytes = end, end_bytes
        self.behind: tuple[str, Analysis] | None = None  # what shows the arm's step, if not the start

    @cached_property
    def seen(self) -> Coherence:
        """Whether completions follow a rotation, and roughly which."""
        log = self._log("turn")
        return track_fit.rough_turn(log, VISITS * self._io_bytes, ROUND_IOS) if len(log) else NONE

    @cached_property
    def turn(self) -> Turn | None:
        """The rotation."""
        first = self._log(self._first)
        return track_fit.exact_turn(self.seen, first) if self.seen.rotates and len(first) else None

    @property
    def times(self) -> int:
        """How many times as many reads fine steps have."""
        return COARSE_TIMES if self.turn is not None and self.turn.host.coarse else 1

    @cached_property
    def turns_otherwise(self) -> tuple[str, ...]:
        """The steps that have reads which wait as on a disk but do not follow the rotation."""
        if self.turn is None:
            return ()
        first, period_ns = self._log(self._first), self.turn.period_ns
        if is_by_parts(first, period_ns):
            return (self._first,)
        others = ("md", self._end[0])
        return tuple(name for name in others if turns_otherwise(self._log(name), first, period_ns))

    @property
    def _first(self) -> str:
        """The step that shows the revolution."""
        return BEHIND if len(self._log(BEHIND)) else "first"

    @property
    def in_pieces(self) -> bool:
        """Whether blocks at the start lie in pieces too short for tracks: many were written elsewhere."""
        rough = self.rough
        return rough is None or (
            len(rough.begin) >= FEWEST_PIECES and float(np.median(rough.turns())) < SHORT_TURNS
        )

    @cached_property
    def rough(self) -> Tracks | None:
        """Tracks at the start, before anything is known of their size."""
        return self._tracks(self._first, LEAST_TRACK_BYTES, MOST_TRACK_BYTES)

    @cached_property
    def near(self) -> Tracks | None:
        """Some dozens of tracks at the start."""
        return None if self.rough is None else self._around("od", 0.8, 1.25)

    @cached_property
    def middle(self) -> Tracks | None:
        """Tracks around the middle address."""
        return self._around("md", 0.25, 1.3)

    @cached_property
    def last(self) -> Tracks | None:
        """Tracks up to the last address, or not far before."""
        return self._around(self._end[0], 0.25, 1.3)

    @cached_property
    def sizes_at(self) -> dict[str, Tracks | None]:
        """Tracks of the size of that under the first, the middle and the last address, for where sizes change
        within the few that were looked at: a zone or a surface ends."""
        last = self._log(self._end[0])
        middle_at = float(self._size // 2)
        last_at = float(last.offset.max()) if len(last) else 0.0
        return {
            "od": self.near,
            "md": self._one_size("md", self.middle, middle_at),
            "id": self._one_size(self._end[0], self.last, last_at),
        }

    def sizes(self) -> dict[str, Tracks | None]:
        """The same, of those that were cut off as they were read again alone; at the address itself."""
        found = {
            name: (tracks and self._again(name + ALONE, tracks.track_bytes)) or tracks
            for name, tracks in self.sizes_at.items()
        }
        start, middle, end = found["od"], found["md"], found["id"]
        if start is not None and not self._at_home:
            found["od"] = start_between(start, self._behind_start)
        if end is not None and middle is not None and self.end_bytes:
            found["id"] = led_on(middle, end, self.end_bytes / (self._size + self.end_bytes), self._off_end)
        return found

    @property
    def _off_end(self) -> float:
        """How far tracks at the last address may be off what lies before them, for zones and surfaces."""
        part, size = self.from_middle
        errors = [place.slope_error / place.slope for place in self.places]
        return off_their_line(part, size, errors) if len(size) else 0.0

    def _again(self, name: str, track_bytes: float) -> Tracks | None:
        return self._tracks(name, AGAIN[0] * track_bytes, AGAIN[1] * track_bytes)

    def _one_size(self, name: str, tracks: Tracks | None, at: float) -> Tracks | None:
        if tracks is None or self.turn is None:
            return None
        return track_fit.tracks_under(self._log(name), self.turn, tracks, at)

    @property
    def start_at_home(self) -> bool:
        """Whether blocks at the start lie there: nothing says otherwise, or they have to."""
        return self._starts_at_home or self._at_home > 0.0

    @property
    def end_at_home(self) -> float:
        """How likely blocks up to the last address, and at the start if it does not look so, lie there."""
        return max(self._ends_at_home if self._starts_at_home else 0.0, self._at_home)

    @cached_property
    def _starts_at_home(self) -> bool:
        """Whether blocks at the start lie there, as far as larger tracks behind or elsewhere would show."""
        near = self.near
        if near is None or self.middle is None:
            return True
        if self.middle.slope < near.slope:  # as where addresses begin further in, but not by a zone in a GiB
            return not are_larger(self._behind_start, near, 1)
        moved = are_larger(self.places, near) or starts_below(self.places, self._size, near)
        return not moved and all(
            near.slope <= behind.slope or as_large(near, behind) for behind in self._behind_start
        )

    @cached_property
    def start_in_line(self) -> bool:
        """Whether tracks at the start are as large as all places lead to, and as whole tracks before it: what
        is behind other tests' writes may lie on another surface than the first address."""
        near = self.near
        if near is None or self._at_home:
            return True
        before = [place for place in self.places[1:] if place.begin[0] < near.begin[0]]
        if any(has_whole(place) and differs(place, near) for place in before):
            return False
        part, size = self._all_places
        return not starts_below_all(part, size, near)

    @property
    def _all_places(self) -> tuple[F64, F64]:
        """Places all over the drive, but for the start, as parts of all addresses, and bytes of a track."""
        part, size = self.towards_end
        places = np.array([(each.begin[0] / self._size, each.track_bytes) for each in self.places[1:]])
        places = places.reshape(-1, 2)
        return np.append(part, places[:, 0]), np.append(size, places[:, 1])

    @cached_property
    def _behind_start(self) -> list[Tracks]:
        """Tracks at the places behind the start, where they could be fitted."""
        log, near = self._log("od-behind"), self.near
        if near is None or not len(log):
            return []
        groups = np.array_split(np.arange(len(log)), BEHIND_PLACES)
        sizes = 0.8 * near.track_bytes, 1.5 * near.track_bytes
        found = [self._fitted(log.rows(rows), *sizes) for rows in groups]
        return [behind for behind in found if behind is not None]

    @cached_property
    def _ends_at_home(self) -> float:
        """How likely blocks up to the last address lie there.

        What was written last may lie in a cache. Then tracks there hold more than those just before the end,
        or hardly less than in the middle of the drive. Where they hold less than just before, a zone ends
        between, or they were moved further in."""
        end, before = self.last, self._before
        if end is None or self.near is None or self.middle is None:
            return 0.0
        # On tracks of one size all over the drive the errors of both would toss for it.
        falls = self.middle.slope > (1 + MOST_DIFFERENCE) * self.near.slope
        if falls and end.slope < LEAST_SHRINKING * self.middle.slope:
            return 0.0
        if not self.ends_in_line:
            return 0.0
        if before is None or abs(end.slope / before.slope - 1.0) <= MOST_DIFFERENCE:
            by_flash = self._in_flash and (self._is_cut_up_at_end or not is_in_line(self._off_line))
            return self._in_flash if by_flash else 1.0
        return 0.0 if end.slope < before.slope else CHOSEN["zone ends"]

    @cached_property
    def is_moved_about(self) -> bool:
        """Whether blocks lie far from their place, and so may those at which sizes are looked at: tracks just
        before the end are larger than recording zones make them, or many places are out of the falling order
        of sizes."""
        last, before = self.last, self._before
        if self._at_home or last is None:
            return False
        out = before is not None and before.track_bytes > (1 + LARGEST_STEP) * last.track_bytes
        return out or is_out_of_order(self.places)

    @property
    def end_way(self) -> str:
        """In which way the end was seen to lie at home."""
        if self.end_at_home == self._at_home:
            return "" if self._at_home == 1.0 else BY_TYPE
        if self.end_at_home < 1.0:
            return "zone ends"
        return END_IN_LINE if self._by_line else ""

    @property
    def _by_line(self) -> bool:  # whether the end was held against a line of places
        return len(self.towards_end[1]) > 0

    @cached_property
    def ends_in_line(self) -> bool:
        """Whether tracks of the end are as large as those from the middle on lead to: a cache at the inner
        diameter, which holds what was written last of a whole drive, is further in than all data.

        At one density along the track its size goes with the radius, and what lies further in with the square
        of that: squares of sizes fall evenly with the address."""
        return is_in_line(self._off_line) or (self._in_flash > 0.0 and self._off_line <= 1.0)

    @property
    def lies_further_out(self) -> bool:
        """Whether tracks of the end are larger than those from the middle on lead to: what was written last
        lies in a cache, and that cache is no further in than the end."""
        return self._off_line > 1.0

    @cached_property
    def _off_line(self) -> float:
        """How far squares of tracks of the end are above that line, in parts of the most that they may be; 0
        where there is no line."""
        part, size = self.towards_end
        if self.last is None or not len(size):
            return 0.0
        return off_line(part, size, self.last.track_bytes)

    @cached_property
    def towards_end(self) -> tuple[F64, F64]:
        """Places from the middle on, as parts of all addresses, and the bytes of a track there; none where
        they are too few for a line."""
        log, middle, end = self._log(TOWARDS_END), self.middle, self.last
        found = list[tuple[float, float]]()
        for number in range(len(log) // TOWARDS_READS):
            rows = rows_of(log, number * TOWARDS_READS, (number + 1) * TOWARDS_READS)
            part = float(rows.offset.min()) / self._size
            if middle is None or end is None:
                break
            guess = float(np.interp(part, [0.5, 1.0], [middle.track_bytes, end.track_bytes]))
            place = self._fitted(rows, 0.75 * guess, 1.3 * guess)
            if place is not None:
                found.append((part, place.track_bytes))
        line = np.array(found if len(found) >= FEWEST_TOWARDS else []).reshape(-1, 2)
        return line[:, 0], line[:, 1]

    @property
    def from_middle(self) -> tuple[F64, F64]:
        """The same, with the places all over the drive that are as far on."""
        part, size = self.towards_end
        places = [(float(each.begin[0]) / self._size, each.track_bytes) for each in self.places]
        on = np.array([place for place in places if len(size) and place[0] >= 0.5]).reshape(-1, 2)
        return np.append(part, on[:, 0]), np.append(size, on[:, 1])

    @cached_property
    def middle_home(self) -> Tracks | None:
        """Tracks of the size at the middle address: those there, unless they may have been moved alone; then
        those around, in other bands, where these agree and are in line; None where neither is known."""
        there = self.sizes()["md"]
        if there is None or (self.middle_in_line and not (self.may_be_moved and self._around_middle)):
            return there
        if is_among(there, self._around_middle, FEWEST_ALIKE):
            return there
        around = agreed(self._around_middle, FEWEST_ALIKE)
        if around is None or not is_between(around.track_bytes, self._beside_middle, unseen=False):
            return None
        return around

    @cached_property
    def middle_in_line(self) -> bool:
        """Whether nothing on both sides of the middle says that tracks under that address are out of line."""
        there = self.sizes_at["md"]
        if self._at_home or there is None:
            return True
        return is_between(there.track_bytes, self._beside_middle)

    @property
    def _beside_middle(self) -> list[tuple[float, float]]:
        return [(float(place.begin[0]) / self._size - 0.5, place.track_bytes) for place in self.places]

    @cached_property
    def may_be_moved(self) -> bool:
        """Whether places all over the drive show that data was moved about, by little or much."""
        return not self._at_home and some_were_moved(self.places)

    @cached_property
    def _around_middle(self) -> list[Tracks]:
        """Tracks around the middle, bands away: where surfaces differ, what lies farther from it is out of
        line by itself."""
        log, middle = self._log(AROUND), self.middle
        if middle is None or not len(log):
            return []
        groups = np.array_split(np.arange(len(log)), AROUND_PLACES)
        low, high = (part * middle.track_bytes for part in BESIDE)
        around = [self._fitted(log.rows(rows), low, high) for rows in groups]
        return [place for place in around if place is not None]

    @property
    def end_is_found(self) -> bool:
        """Whether tracks at the end were seen, and are those of the end, as far as these alone show."""
        in_place = self._at_home > 0.0 or (self._ends_at_home > 0.0 and not self.ends_in_log)
        return self.last is not None and in_place

    @property
    def end_is_sure(self) -> bool:
        """Whether tracks at the end are those of the end without a doubt: of places further in that were
        looked for one after the other, chance has the more tries."""
        beside = self._ends_at_home == 1.0 and not self._by_line
        return self.end_is_found and (self._at_home > 0.0 or beside)

    @property
    def end_is_likely(self) -> bool:
        """Whether tracks at the end are in line with those from the middle on, and as large as those before:
        more than that is not asked where what was written last was seen to lie further out."""
        end, before = self.last, self._before
        seen = end is not None and before is not None and as_large(end, before)
        return seen and self._by_line and self.end_is_found

    @property
    def end_rows(self) -> tuple[str, str]:
        """The steps that show tracks at the end, and before."""
        return self._end

    @cached_property
    def is_cut_up(self) -> bool:
        """Whether what was read at the start, in the middle or at the end lies for the most part in pieces
        shorter than tracks: as stripes over several disks do, and extents of a volume."""
        shown = (self.near, self.middle, self.last)
        return not all(is_mostly_whole(tracks) for tracks in shown if tracks is not None)

    @property
    def is_cut_up_at_start(self) -> bool:
        """The same of the start alone: of a shingled drive other places may lie in its cache."""
        return self.near is not None and not is_mostly_whole(self.near)

    @cached_property
    def is_shuffled(self) -> bool:
        """Whether track sizes rise and fall as on no disk: places near in address are not near in fact."""
        return are_shuffled(self.places)

    @property
    def ends_in_log(self) -> bool:
        """Whether tracks up to the last address, or just before, are cut up more than in the middle, as what
        a log holds is: whose tracks they are is not known, though they may be as far in as the end."""
        return self._is_cut_up_at_end and not self._at_home and not self._in_flash

    @cached_property
    def _is_cut_up_at_end(self) -> bool:
        ends = [parts(tracks) for tracks in (self.last, self._before) if tracks is not None]
        return self.middle is not None and bool(ends) and parts(self.middle) <= MOST_PARTS < max(ends) - 1

    @cached_property
    def _before(self) -> Tracks | None:
        """Tracks 1 GiB before the last address, or as far before the end again as that is measured."""
        return self._around(self._end[1], 0.25, 1.3)

    def end_moved(self, part: float) -> float:
        """How much larger tracks are where the end is measured than at the last address, a `part` of all
        behind, if sizes fall evenly from the middle."""
        if self.last is None or self.middle is None:
            return 1.0
        falls = self.middle.track_bytes / self.last.track_bytes - 1.0
        return max(falls, 0.0) * part / (0.5 - part) if part < 0.5 else 1.0

    @cached_property
    def stripe(self) -> int | None:
        """The size of the stripes that addresses go to several disks in, if they do."""
        log = self._log(self._first)
        if self.rough is None or self.turn is None or len(log) == 0:
            return None
        return track_fit.stripe_under(log, self.turn, self.rough)

    def _around(self, name: str, low: float, high: float) -> Tracks | None:
        """Tracks of a step whose size is between two multiples of that at the start."""
        track = 0.0 if self.rough is None else self.rough.track_bytes
        return self._tracks(name, low * track, high * track)

    def _tracks(self, name: str, low: float, high: float) -> Tracks | None:
        return self._fitted(self._log(name), low, high)

    def _fitted(self, log: IoLog, low: float, high: float) -> Tracks | None:
        turn = self.turn
        return track_fit.place_of(log, turn, low, high) if turn is not None and len(log) and low > 0 else None

    @cached_property
    def places(self) -> list[Tracks]:
        """The start, and the places all over the drive whose tracks could be fitted."""
        if self.near is None or self.middle is None or self.last is None:
            return []
        found, log = [first_pieces(self.near, HUB_PIECES)], self._log("places")
        sizes = [self.near.track_bytes, self.middle.track_bytes, self.last.track_bytes]
        for number in range(len(log) // PLACE_READS):
            rows = rows_of(log, number * PLACE_READS, (number + 1) * PLACE_READS)
            guess = float(np.interp(float(rows.offset.min()) / self._size, [0.0, 0.5, 1.0], sizes))
            place = self._fitted(rows, 0.75 * guess, 1.3 * guess)
            if place is not None:
                found.append(place)
        return found

    def star(self, name: str, hub: int) -> F64:
        """Arm times between one place and all, ns; nan where not known."""
        times = np.full(len(self.places), np.nan)
        log = self._log(name)
        if len(log) == 0 or self.turn is None or self.same is None:
            return times
        times[hub] = 0.0
        others = [number for number in range(len(self.places)) if number != hub]
        found = seeks.star_reaches(
            log, self.places[hub], [self.places[number] for number in others], self.turn, STAR_READS
        )
        for number, reach in zip(others, found, strict=False):
            if reach is not None:
                times[number] = reach.ns - self.same.ns
        return times

    @cached_property
    def stars(self) -> list[tuple[int, F64]]:
        """The hubs of the steps between places and the arm times from each: the start, the place farthest
        from it, the place farthest from that, until one comes back."""
        found: list[tuple[int, F64]] = []
        for name in STARS:
            hub = self.next_hub(found)
            if len(self._log(name)) == 0 or hub is None:
                break
            found.append((hub, self.star(name, hub)))
        return found

    def next_hub(self, done: list[tuple[int, F64]]) -> int | None:
        """The place to hop from next: the farthest from the last one, unless a place that was one is as far,
        give or take what a time may be off. None where it was."""
        if not done:
            return 0
        hub, times = done[-1]
        if self.turn is None or not np.isfinite(np.delete(times, hub)).any():
            return None
        far = int(np.nanargmax(times))
        before = [times[other] for other, _ in done if np.isfinite(times[other])]
        return None if max(before) >= times[far] - self.noise_ns else far

    @property
    def noise_ns(self) -> float:
        """What one arm time between places may be off."""
        return 0.0 if self.turn is None else self.turn.period_ns / STAR_READS

    @property
    def ends(self) -> tuple[int, int] | None:
        """The two places farthest from each other; all were hopped to from both."""
        if len(self.stars) < 2:
            return None
        hub, times = self.stars[-1]
        other = max(
            (other for other, _ in self.stars[:-1]), key=lambda other: float(np.nan_to_num(times[other]))
        )
        return other, hub

    @cached_property
    def full(self) -> Reach | None:
        """The reach between the two ends."""
        log, ends = self._log("full"), self.ends
        if len(log) == 0 or ends is None or self.turn is None:
            return None
        one, other = (self.places[end] for end in ends)
        return seeks.star_reaches(log, one, [other], self.turn, len(log))[0]

    @cached_property
    def curve(self) -> Curve | None:
        """The seek curve over the stroke."""
        if self.ends is None or self.full is None or self.same is None or self.turn is None:
            return None
        by_hub = dict(self.stars)
        one, other = (by_hub[end] for end in self.ends)
        return seeks.fit_curve(one, other, self.full.ns - self.same.ns, self.noise_ns)
