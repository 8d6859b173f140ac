"""What test 2 asks of a drive: which blocks are read in which order.

Invariant: what is read depends on logs, on what is known and on the seed only. All reads are of one
block, and a block is hardly ever read twice in a row: a drive's read buffer would answer.

Source: docs/tests/rotation.md has the steps and their reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import EMPTY_LOG, F64, IoBatch, IoLog
from skylight.findings import Known
from skylight.infer.adjacent_tracks import OPEN
from skylight.infer.track_phases import Tracks
from skylight.probe.drive_type.plan import SUSTAINED_REGION_BYTES
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.rotation import seeks
from skylight.probe.rotation.analysis import FEWEST_PLACES, MOST_MOVED, Analysis
from skylight.probe.rotation.plan_steps import (
    ALONE,
    APART_READS,
    AROUND,
    BEHIND,
    END,
    FINE,
    FULL_READS,
    IN_TURNS,
    NEXT_READS,
    ONCE_MORE,
    OTHERS,
    PLACE_READS,
    PLACES_PER_ROUND,
    ROUNDS,
    SAME_AGAIN,
    SAME_PIECES,
    SAME_READS,
    STAR_READS,
    STARS,
    TOWARDS,
    TOWARDS_END,
    TOWARDS_READS,
    TURN_PAIRS,
    TURN_READS,
    VISITS,
)
from skylight.probe.rotation.track_consistency import is_mostly_whole
from skylight.probe.zoned import Packed

IO_BYTES = 4096
TURN_BYTES = 256 << 20
FIRST_BYTES, FIRST_READS = 8 << 20, 1024
NEAR_TRACKS, READS_A_TRACK = 44, 48
SIZE_TRACKS, SIZE_READS = 5.5, 400
PLACE_TRACKS = 2.3
WIDE_NS = 2_900_000.0  # more than any arm needs to the next track, and what commands take longer
EARLIER_NS, NARROW_NS = 100_000.0, 500_000.0
AGAIN_NS = 400_000.0
"""How much sooner blocks are hopped to where all were caught. Chosen: the first pass has a read in 50 us, and
where a quarter is missed for other clients three in a row that are late by chance move it by 0.2 ms."""
MOST_AGAIN = 0.5  # of the pairs of a step: where more have no edge in the fine window, few will in another
AVOIDED_BYTES = 20 << 20  # what test 1 writes most of lies before this
ALL_AVOIDED_BYTES = SUSTAINED_REGION_BYTES + AVOIDED_BYTES
"""All that test 1 writes, but for single places, lies before this."""
AVOIDED_PARTS = 32  # of a drive at least, so that what lies there is hardly further in
BEFORE_END_BYTES = 1 << 30  # more than the bands that the last of a whole drive's data may lie in
BEFORE_END_PARTS = 64  # of a drive at least, so that it is hardly further out
FURTHER_BYTES = tuple(gib << 30 for gib in (2, 4, 8, 16, 32, 64))
"""How far before the last address tracks are looked at where those up to it lie in a cache: what was written
last of a drive that was written whole, as much as the cache takes."""
BEHIND_BYTES = (1 << 30, 3 << 30)
"""How far behind the start tracks are looked at as well: so many as `analysis.BEHIND_PLACES`, behind what
test 1 wrote, and of a drive of which they are a 64th at most hardly further in."""
STEP_BEHIND_BYTES = (2 << 30, 5 << 30)
"""How far behind the start the arm's step is looked for where tracks at the start do not show it. Chosen: at
two more places, where a stroke or a band ends elsewhere."""
AROUND_BYTES = tuple(mib << 20 for mib in (-1536, -512, 512, 1536))
"""How far from the middle address tracks are looked at as well: so many as `analysis.AROUND_PLACES`, in other
bands than the middle itself, and of a drive of which they are a 64th at most hardly further in."""
LEAST_BYTES = 1 << 30
WRITING_S = (600.0, 1_800.0)
"""Pauses before a rotation is looked for once more. Chosen: 256 MiB of single blocks are 65,000 writes of
10 ms, 11 min; of those that wait for bands to be cleaned a few hundred are written in the second."""
MOST_IOS = 155_000  # by a coarse clock, with every step that only some drives need

Pairs = list[tuple[int, int]]


@dataclass(slots=True)
class Seen:
    """The reads by the names of their steps, and what they say; None before the first. Whether some places
    could not be read, of a target with zones, and where those that can be are."""

    logs: dict[str, IoLog] = field(default_factory=dict)
    analysis: Analysis | None = None
    start_moved: bool = False
    """Whether the start is measured further on, because what lies at the first addresses was moved."""
    at_home: float = 0.0
    """How sure it is that all blocks lie at their place, for nothing was cached or moved."""
    in_flash: float = 0.0
    """How sure it is that what is cached lies in flash."""
    unreadable: bool = False
    packed: Packed = field(default_factory=lambda: Packed(0, 1, 1, 0))


@dataclass(slots=True)
class Plan:
    """Reads, kept by the name of their step; `base` is where the start is measured. All addresses here, and
    those of the logs that are kept, are packed."""

    steps: Steps
    base: int
    seen: Seen
    is_zoned: bool = False
    prefix: str = ""
    """Before the names of steps that are done once more."""
    end_bytes: int = 0
    """How far before the last address that can be read the end is measured: behind that blocks lie in a
    cache."""
    end: tuple[str, str] = END

    @property
    def size(self) -> int:
        """Bytes that can be read, up to where the end is measured."""
        return self.seen.packed.size_bytes - self.end_bytes

    @property
    def middle(self) -> float:
        """The middle address of the target."""
        return float(self.seen.packed.back(np.array([self.steps.size // 2], np.uint64))[0])

    @property
    def logs(self) -> dict[str, IoLog]:
        """The logs so far."""
        return self.seen.logs

    @property
    def io_bytes(self) -> int:
        """Bytes of a read."""
        return max(IO_BYTES, self.steps.block_bytes)

    def analysis(self) -> Analysis:
        """What the logs say. Each value is computed once, so it is asked for once its logs are there."""
        return Analysis(
            lambda name: self.logs.get(name, EMPTY_LOG), self.io_bytes, self.size,
            at_home=self.seen.at_home, in_flash=self.seen.in_flash, start_moved=self.seen.start_moved,
            end=self.end, end_bytes=self.end_bytes,
        )  # fmt: skip

    def read(self, name: str, at: F64) -> None:
        """One step of reads of the blocks that hold some addresses; none where these cannot be read."""
        most = self.size // self.io_bytes - 1
        block = np.clip(at // self.io_bytes, 0, most).astype(np.uint64)
        packed = self.seen.packed
        io = IoBatch.reads(packed.there(block * np.uint64(self.io_bytes)), self.io_bytes)
        if not self.steps.written(io.offset, self.io_bytes):
            self.seen.unreadable = True
            return
        log = self.steps.run(self.prefix + name, io, params={"io_bytes": self.io_bytes})
        self.logs[name] = replace(log, offset=packed.back(log.offset))

    def turning(self, name: str) -> None:
        """Rounds of four neighbouring blocks at each of some places, interleaved at random."""
        rng = self.steps.rng(name)
        region = min(TURN_BYTES, self.size - self.base) // (VISITS * self.io_bytes)
        chosen = rng.choice(region, size=ROUNDS * PLACES_PER_ROUND, replace=False)
        blocks = []
        for group in chosen.reshape(ROUNDS, -1):
            order = rng.permutation(np.repeat(group, VISITS))
            visit = np.array([np.count_nonzero(order[:row] == place) for row, place in enumerate(order)])
            blocks.append(order * VISITS + (VISITS - 1 - visit))
        self.read(name, self.base + np.concatenate(blocks).astype(np.float64) * self.io_bytes)

    def scattered(self, name: str, begins: list[float], length: float, count: int) -> None:
        """Different blocks of each of some runs of addresses, in random order within a run."""
        rng, rows = self.steps.rng(name), []
        for begin in begins:
            first = min(max(begin, 0.0), self.size - length)
            chosen = rng.choice(max(int(length) // self.io_bytes, count), size=count, replace=False)
            rows.append(first + length * chosen / max(int(length) // self.io_bytes, count))
        self.read(name, np.concatenate(rows))

    def hops(self, name: str, tracks: Tracks, pairs: Pairs, reads: int, soonest: F64, window: float) -> None:
        """Back and forth between the two pieces of each pair, `reads` a pair, so that each block comes round
        `soonest` (of the pair) to `window` more after the block before, in revolutions."""
        rng, at, angle = self.steps.rng(name), [], 0.0
        for (one, other), least in zip(pairs, soonest, strict=True):
            delays = least + window * rng.permutation((np.arange(reads) + rng.random()) / reads)
            for row, delay in enumerate(delays):
                where, angle = _ahead(tracks, one if row % 2 == 0 else other, angle + delay, self.io_bytes)
                at.append(where)
        self.read(name, np.array(at))

    def star(self, name: str, hub: Tracks, others: list[Tracks], reads: int) -> None:
        """Back and forth between a place and each of the others, at random angles."""
        rng = self.steps.rng(name)
        rows = [
            np.stack([_anywhere(place, rng, reads // 2) for place in (other, hub)], axis=1).ravel()
            for other in others
        ]
        self.read(name, np.concatenate(rows))


def _ahead(tracks: Tracks, piece: int, angle: float, io_bytes: int) -> tuple[float, float]:
    """The first block of a piece at or behind an angle, and its own angle."""
    begin, end = float(tracks.begin[piece]), float(tracks.end[piece])
    level = float(tracks.level[piece])
    ahead = (angle - level - tracks.slope * begin) % 1.0
    at = begin + np.ceil(ahead / tracks.slope / io_bytes) * io_bytes
    if at > end:
        at = begin
    return at, level + tracks.slope * at


def _anywhere(place: Tracks, rng: np.random.Generator, count: int) -> F64:
    """Random addresses in the pieces of a place, each piece as likely as it is long; all alike where blocks
    show no length, as where their reads do not reach the disk."""
    length = place.end - place.begin
    if not length.sum() > 0:
        length = np.ones(len(length))
    piece = rng.choice(len(length), size=count, p=length / length.sum())
    return np.asarray(place.begin[piece] + rng.random(count) * length[piece], np.float64)


def measure(steps: Steps, seen: Seen) -> None:
    """Does the steps, each planned from the ones before; ends early where there is nothing to go on with."""
    if steps.known.word("drive_type") == "not-rotating" or steps.size < LEAST_BYTES:
        return
    zones = steps.zones("zones")
    if zones is None:
        steps.quiet()
    block = max(IO_BYTES, steps.block_bytes)
    seen.packed = Packed.of(zones, steps.size, block)
    # What is read in zones is written in place before.
    erased = steps.can_write and steps.erase("erase")
    clean = erased or not steps.can_write or zones is not None
    seen.at_home = 1.0 if erased else _in_place(steps.known)
    medium = steps.known.get("cache_medium")
    seen.in_flash = medium.confidence if medium is not None and medium.value == "flash" else 0.0
    plan = Plan(steps, 0 if clean else AVOIDED_BYTES, seen, is_zoned=zones is not None)
    with steps.settings("settings", write_cache=False, look_ahead=False):
        found = _turning(plan)
        if not found.seen.rotates:
            return
        plan.scattered("first", [plan.base], FIRST_BYTES, FIRST_READS)
        if not clean and steps.size >= AVOIDED_PARTS * ALL_AVOIDED_BYTES and plan.analysis().in_pieces:
            plan.base = ALL_AVOIDED_BYTES
            plan.scattered(BEHIND, [plan.base], FIRST_BYTES, FIRST_READS)
        _measure_tracks(plan, found)


def _turning(plan: Plan) -> Analysis:
    """Looks for a rotation, again after longer and longer pauses: what a volatile cache holds may be written
    a block at a time between the reads, for minutes, and then each finds the platters anywhere."""
    for pause_s in (0.0, *WRITING_S):
        if pause_s:
            plan.steps.quiet(pause_s)
        plan.turning("turn")
        found = plan.seen.analysis = plan.analysis()
        if found.seen.rotates or plan.is_zoned or plan.steps.known.quick or not plan.steps.can_write:
            break
    return found


def _in_place(known: Known) -> float:
    """How sure it is that the drive writes everything at its place; 0 where it is not said to."""
    found = [known.get(name) for name in ("drive_type", "cache_medium")]
    if (known.word("drive_type"), known.word("cache_medium")) != ("cmr", "none"):
        return 0.0
    return min(each.confidence for each in found if each is not None)


def _measure_start(plan: Plan, found: Analysis, track: float) -> None:
    """Track sizes at the start and behind it."""
    plan.scattered("od", [plan.base], NEAR_TRACKS * track, NEAR_TRACKS * READS_A_TRACK)
    if plan.size >= BEFORE_END_PARTS * BEHIND_BYTES[-1]:
        behind = [float(plan.base + further) for further in BEHIND_BYTES]
        plan.scattered("od-behind", behind, SIZE_TRACKS * track, SIZE_READS * found.times)


def _starts_whole(found: Analysis) -> bool:
    """Whether blocks at the start lie there, and not for the most part in pieces shorter than tracks."""
    return found.start_at_home and (found.near is None or is_mostly_whole(found.near))


def _start_behind(plan: Plan, found: Analysis) -> Analysis:
    """Measures the start further on, where tracks behind it are larger, or blocks there lie in pieces: what
    was written at the first addresses lies elsewhere. What was known where it is no different there."""
    base, logs = plan.base, dict(plan.logs)
    for further in BEHIND_BYTES:
        plan.base = base + further
        if plan.size < AVOIDED_PARTS * plan.base:
            break
        plan.scattered(BEHIND, [plan.base], FIRST_BYTES, FIRST_READS)
        if (rough := plan.analysis().rough) is None:
            continue
        _measure_start(plan, found, rough.track_bytes)
        if _starts_whole(here := plan.analysis()):
            plan.seen.start_moved = here.start_moved = not found.start_at_home
            return here
    plan.base = base
    plan.logs.clear()
    plan.logs.update(logs)
    return found


def _measure_tracks(plan: Plan, found: Analysis) -> None:
    """Track sizes at three places, then the arm."""
    size, rough = plan.size, found.rough
    if rough is None:
        return
    _measure_start(plan, found, rough.track_bytes)
    reads = SIZE_READS * found.times
    length = SIZE_TRACKS * rough.track_bytes
    plan.scattered("md", [plan.middle - length / 2], length, reads)
    if not (plan.is_zoned or _starts_whole(now := plan.analysis())):
        found = plan.seen.analysis = _start_behind(plan, now)
        rough = found.rough or rough
        length = SIZE_TRACKS * rough.track_bytes
    plan.scattered("id", [size - length], length, reads)
    if size >= BEFORE_END_PARTS * BEFORE_END_BYTES:
        plan.scattered("id-before", [size - length - BEFORE_END_BYTES], length, reads)
    if found.near is None or found.middle is None:
        return
    if not (plan.seen.at_home or plan.is_zoned) and size >= BEFORE_END_PARTS * BEFORE_END_BYTES:
        towards = [(size - length) * part for part in TOWARDS]
        plan.scattered(TOWARDS_END, towards, PLACE_TRACKS * rough.track_bytes, TOWARDS_READS)
    if not found.end_is_found:
        found = plan.seen.analysis = _end_before(plan, found, length, reads)
    if not found.end_is_found:
        found = plan.seen.analysis = _end_at_home(plan, found, length, reads)
    if found.last is None or found.near is None:
        return
    for name, whole in (("md", found.middle), ("id", found.last)):
        if (tracks := found.sizes_at[name]) is not None and tracks is not whole:
            alone = float(tracks.end[-1] - tracks.begin[0])
            plan.scattered(name + ALONE, [float(tracks.begin[0])], alone, reads)
    if _measure_steps(plan, found, found.near):
        _measure_far(plan, found)
        unseen = found.neighbours is None or found.is_open
        if unseen and found.curve is not None and not plan.is_zoned:
            _measure_steps_behind(plan, found, found.near)


def _end_at_home(plan: Plan, found: Analysis, length: float, reads: int) -> Analysis:
    """Empties the cache that the last addresses seem to lie in, and looks there and in the middle once more;
    what was known where there is none, or where it cannot be emptied."""
    steps, turn = plan.steps, found.turn
    if steps.known.word("drive_type") != "smr" or not steps.can_write or turn is None or plan.is_zoned:
        return found
    state = steps.reset("home", rotation_ns=turn.period_ns)
    if state is State.UNKNOWN:
        return found
    if state is State.NEW:
        plan.seen.at_home = 1.0
    plan.prefix = "home-"
    # Cleaning moves what lies at the start too: tracks there begin elsewhere than before.
    plan.scattered("od", [plan.base], NEAR_TRACKS * length / SIZE_TRACKS, NEAR_TRACKS * READS_A_TRACK)
    plan.scattered("md", [plan.middle - length / 2], length, reads)
    plan.scattered("id", [plan.size - length], length, reads)
    if plan.size >= BEFORE_END_PARTS * BEFORE_END_BYTES:
        plan.scattered("id-before", [plan.size - length - BEFORE_END_BYTES], length, reads)
    plan.prefix = ""
    return plan.analysis()


def _end_before(plan: Plan, found: Analysis, length: float, reads: int) -> Analysis:
    """Looks further before the last address for tracks that are those of the end, twice; what was known where
    there are none so near that they hold as much.

    Where what was written last lies in a cache further out, single places may lie there too, as in a cache
    of which each part is for some bands alone: any two that agree and are in line are at home. A cache
    further in looks like the end, so there two in a row have to be."""
    size, places = plan.size, [(END[1], BEFORE_END_BYTES)]
    for number, before in enumerate(FURTHER_BYTES):
        if size < BEFORE_END_PARTS * before:
            break
        name = f"id-before-{number + 2}"
        plan.scattered(name, [size - length - before], length, reads)
        for nearer, nearer_bytes in places:
            plan.end_bytes, plan.end = nearer_bytes, (nearer, name)
            further = plan.analysis()
            in_a_row = nearer == places[-1][0] and number > 0 and further.end_is_sure
            is_end = in_a_row or (found.lies_further_out and further.end_is_likely)
            if is_end and further.end_moved(nearer_bytes / size) <= MOST_MOVED:
                return further
        places.append((name, before))
        plan.end_bytes, plan.end = 0, END
    return found


def _measure_steps(plan: Plan, found: Analysis, near: Tracks) -> bool:
    """The reach within a track, to the next, and over a few; False where there are too few tracks."""
    whole, turn = seeks.whole_tracks(near), found.turn
    if len(whole) < seeks.FEWEST_TRACKS or turn is None:
        return False
    # A read is submitted a gap after the block before passed, and gaps differ by less than they are long.
    gap = turn.host.gap_ns / turn.period_ns
    earlier, narrow = EARLIER_NS / turn.period_ns + gap / 2, NARROW_NS / turn.period_ns + gap
    pairs = [(piece, piece) for piece in (whole * SAME_PIECES)[:SAME_PIECES]]
    each = SAME_READS // SAME_PIECES
    plan.hops("same-wide", near, pairs, each, np.zeros(len(pairs)), 1.0)
    if found.same_wide is None:
        return False
    soonest = gap + found.same_wide.ns / turn.period_ns - earlier
    plan.hops("same", near, pairs, each, np.full(len(pairs), soonest), narrow)
    if found.same_narrow is None:
        lower = max(0.0, soonest - AGAIN_NS / turn.period_ns)
        plan.hops(SAME_AGAIN, near, pairs, each, np.full(len(pairs), lower), narrow + soonest - lower)
    if found.same is None:
        return False
    same, wide = gap + found.same.ns / turn.period_ns, WIDE_NS / turn.period_ns
    for name, hops, reads in (("next", seeks.next_pairs(near), NEXT_READS),
                              ("apart", seeks.apart_pairs(near), APART_READS)):  # fmt: skip
        plan.hops(name, near, hops, reads, np.full(len(hops), same), wide)
        rough = found.rough_times(name, hops, reads) / turn.period_ns
        if not np.isfinite(rough).all():
            return True
        plan.hops(name + FINE, near, hops, reads * found.times, same + rough - earlier, narrow)
        left = found.not_seen(name, hops, reads)
        if 0 < len(left) <= MOST_AGAIN * len(hops):
            again, wider = [hops[number] for number in left], AGAIN_NS / turn.period_ns
            soonest_of = np.maximum(same + rough[left] - earlier - wider, 0.0)
            plan.hops(name + ONCE_MORE, near, again, reads * found.times, soonest_of, narrow + 2 * wider)
    if found.neighbours is not None and found.neighbours.pairs:
        others = (list(found.neighbours.pairs) * TURN_PAIRS)[:TURN_PAIRS]
        in_turns = [pair for same_pair in zip(pairs, others, strict=True) for pair in same_pair]
        edges = np.array([same, same + found.neighbours.ns / turn.period_ns])
        reads, soonest_of = TURN_READS * found.times, np.tile(edges - earlier, TURN_PAIRS)
        plan.hops(IN_TURNS, near, in_turns, reads, soonest_of, narrow)
        if found.turns_miss_edges:
            wider = AGAIN_NS / turn.period_ns
            soonest_of = np.maximum(soonest_of - wider, 0.0)
            plan.hops(IN_TURNS + ONCE_MORE, near, in_turns, reads, soonest_of, narrow + 2 * wider)
    return True


def _measure_steps_behind(plan: Plan, found: Analysis, near: Tracks) -> None:
    """The same further on, until tracks there show the arm's step: where a stroke ends amid those that are
    looked at, it may look like cylinders, and of high cylinders a few dozens of tracks show hardly a step.
    Where they say how tracks are walked as well, that is worth more than a step alone, also than one at the
    start that is a mean of ways which differ."""
    for behind in STEP_BEHIND_BYTES:
        if plan.size < BEFORE_END_PARTS * behind:
            return
        seen = replace(plan.seen, logs=dict(plan.logs))
        there = replace(plan, base=plan.base + behind, seen=seen, prefix=f"{behind >> 30}-gib-on-")
        there.scattered("od", [there.base], NEAR_TRACKS * near.track_bytes, NEAR_TRACKS * READS_A_TRACK)
        here = there.analysis()
        if here.near is None or not _measure_steps(there, here, here.near) or here.neighbours is None:
            continue
        if here.neighbours.walk != OPEN:
            found.behind = (there.prefix, here)
            return
        if found.neighbours is None or here.neighbours.open_ns < found.neighbours.open_ns:
            found.behind = found.behind or (there.prefix, here)


def _measure_far(plan: Plan, found: Analysis) -> None:
    """Looks at places all over the drive, then hops between the ends and all others."""
    if found.near is None:
        return
    length = PLACE_TRACKS * found.near.track_bytes
    begins = [(plan.size - length) * part for part in OTHERS]
    plan.scattered("places", begins, length, PLACE_READS)
    if len(found.places) < FEWEST_PLACES:
        return
    asked = not found.middle_in_line or (found.may_be_moved and not plan.is_zoned)
    if asked and plan.size >= BEFORE_END_PARTS * AROUND_BYTES[-1]:
        track = found.near.track_bytes
        around = [plan.middle + bytes_on - SIZE_TRACKS * track / 2 for bytes_on in AROUND_BYTES]
        plan.scattered(AROUND, around, SIZE_TRACKS * track, SIZE_READS * found.times)
    done: list[tuple[int, F64]] = []
    for name in STARS:
        hub = found.next_hub(done)
        if hub is None:
            break
        others = [place for number, place in enumerate(found.places) if number != hub]
        plan.star(name, found.places[hub], others, STAR_READS)
        done.append((hub, found.star(name, hub)))
    if found.ends is not None:
        one, other = (found.places[end] for end in found.ends)
        plan.star("full", one, [other], FULL_READS)
