"""What test `journal` does to the target, and the statistics by which it decides what to do next.

Every run of writes begins, where the target can, with a secure erase: the journal then begins anew at the
same place, so the n-th write of one run lies where the n-th of another does, and runs of different sizes
compare write by write, skews of tracks and all. Where it cannot, whole runs are compared.

Writes go round a few slots of the address space: older entries are dead as soon as their blocks are
overwritten, so the journal does not fill. Their offsets are odd multiples of 4 KiB, never the start of a
band, so that none is taken for the begin of a stream and sent past the journal.

Invariant: what is done next depends on logs and on earlier findings only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import EMPTY_LOG, U64, IoBatch, IoLog, JsonScalar, Op, Stop
from skylight.infer.host_clock import tick_ns
from skylight.infer.stalls import slow_ones
from skylight.probe.fua_writes import ForcedWrites
from skylight.probe.journal.entries import (
    FEWEST_DEPTH,
    Bound,
    clock_parts,
    largest_full,
    largest_group,
    next_queue_size,
)
from skylight.probe.journal.entry_model import measure_more
from skylight.probe.journal.entry_space import FEWEST_BLOCKS, Footprints, Run
from skylight.probe.journal.map_merges import (
    AGAIN,
    LONG_QUANTA,
    MERGES_WANTED,
    MORE,
    Many,
    control_writes,
    more_writes,
    period_of,
)
from skylight.probe.journal.out_of_band_time import (
    COARSE_CYCLES,
    COARSE_EACH,
    COARSE_TURNS,
    CYCLES,
    FAST_CYCLES,
    FAST_TURN_NS,
    FIRST_ROUNDS,
    FLUSHES,
    batches,
    too_open,
)
from skylight.probe.journal.splits import Splits, find_split
from skylight.probe.journal.unerased_entries import CYCLES as CYCLES_LATER
from skylight.probe.journal.unerased_entries import (
    MOST_QUANTA,
    MOST_ROUNDS,
    PLACES,
    LongEntries,
    cycles,
    far_places,
    long_entries,
    read_back,
    written_long,
)
from skylight.probe.journal.unerased_entries import ROUNDS as LATER_ROUNDS
from skylight.probe.journal.unerased_verdict import is_open, judge_later, known_tracks
from skylight.probe.journal.write_through import Volatile
from skylight.probe.procedure import Steps, bisected

BLOCK = 4096
SLOTS = 6
WRITES = {"disk": 24, "flash": 96}
REPEATS = {"disk": 3, "flash": 4}
REFERENCE_REPEATS = 6
MORE_ROUNDS, MOST_REFERENCE = 5, 96
"""Rounds of runs of a size in doubt, and how many runs of one block there are: more are no surer than those
of that size, and every look at all of them takes longer."""
LARGEST_QUANTUM_BYTES = 16 << 20
WAYS = (True, False, True)
"""Whether times alone tell, in turns: by angles more sizes become known, some of which were misjudged."""
SEARCHES = 4
"""How often the edge of a quantum is looked for. Chosen: each size is judged again with all that is known by
then, and one in dozens is misjudged at first."""
DEPTH = 31
QUEUE_RUNS, UNPARTED_RUNS = 16, 4
"""Runs with writes of different sizes; and how many of these may have entries that the clock does not part,
each of writes twice as long. Chosen: sixteen times as long ones fill any entry that eight of a quantum do."""
LARGEST_QUEUED_BYTES = 32 << 20
FIRST_LONE, MOST_LONE = 1600, 6400
APART = 31
LADDER_QUANTA, LADDER_STEPS = 3.3, 30
CLEANING = (14, 32)
"""So many stalls among so many writes: no merges, the cache is full. Other clients that delay a tenth of all
writes make as many in one of a million such rows."""
STALLED, STALLED_TURNS, SLOW_TURN_NS = 2.0, 1.5, 14_000_000
PLATEAU_QUARTERS = (3, 5, 6, 8, 10)  # sizes around the first step, quarters of a quantum
NEAR_SIXTEENTHS = (17, 18)  # the same just behind it, where an entry may end before the next quarter


@dataclass(slots=True)
class Runs:
    """What was measured: lone writes by size, and some that begin further on; waiting writes of some sizes,
    and of growing ones; lone writes as long as entries; many lone writes, and some of two quanta; the first
    entry, written and read again and again; FLUSHes; blocks that were written together; what the volatile
    cache does, and what a command takes that finds nothing to do (ns)."""

    footprints: Footprints = field(default_factory=lambda: Footprints(None, None))
    shifted: list[Run] = field(default_factory=list)
    queues: list[tuple[int, IoLog]] = field(default_factory=list)
    ladder: list[tuple[int, IoLog]] = field(default_factory=list)
    many: list[Many] = field(default_factory=list)
    long: IoLog | None = None
    first: dict[str, list[IoLog]] = field(default_factory=lambda: {"write": [], "read": []})
    later: list[IoLog] = field(default_factory=list)
    long_entries: LongEntries = field(default_factory=LongEntries)
    entry_bytes: int = 0
    flushes: IoLog = EMPTY_LOG
    together: IoLog = EMPTY_LOG
    splits: Splits | None = None
    volatile: Volatile = "none"
    way_ns: float = 0.0

    @property
    def depth(self) -> int:
        """How many small writes the drive takes together: less than were sent where the link holds them
        back; one where a volatile cache answers, which does not show how it hands them on."""
        return largest_group(self.together, self.entry_ns) if self.volatile == "none" else 1

    @property
    def entry_ns(self) -> float:
        """What an entry takes at least, roughly, ns: a lone write, without the cleaning that it may wait
        for on a disk."""
        footprints = self.footprints
        turn_ns = None if footprints.flash else footprints.rotation_ns
        return self.lone_ns if turn_ns is None else min(self.lone_ns, turn_ns)

    @property
    def lone_ns(self) -> float:
        """Latency of a lone write of one block, ns."""
        return float(np.median(self.footprints.runs[self.footprints.block][0].latency_ns))


@dataclass(slots=True)
class Bench:
    """Runs of writes on one target, each from the same state where the target can be erased."""

    steps: Steps
    medium: str | None
    rotation_ns: float | None
    seen: Runs
    erases: int = 0

    def __post_init__(self) -> None:
        """Nothing is known of any size yet."""
        self.seen.footprints = Footprints(self.medium, self.rotation_ns)

    @property
    def footprints(self) -> Footprints:
        """Lone writes by size."""
        return self.seen.footprints

    @property
    def block(self) -> int:
        """Smallest write, bytes."""
        return max(BLOCK, self.steps.block_bytes)

    @property
    def flash(self) -> bool:
        """Whether the persistent cache is flash, as far as is known or seen."""
        return self.footprints.flash

    @property
    def pattern(self) -> str:
        """Which numbers of writes and repeats are used."""
        return "disk" if self.medium == "disk" else "flash"

    def fresh(self) -> bool:
        """Makes the target as new, if it can."""
        self.erases += 1
        return self.steps.erase(f"erase-{self.erases}")

    def offsets(self, count: int, size: int, slots: int = SLOTS, *, further: int = 0) -> U64:
        """`count` offsets for writes of `size` bytes that go round the slots; so many bytes further on."""
        stride = -(-(size + further + 2 * self.block) // (1 << 20)) << 20
        slots = max(1, min(slots, self.steps.size // stride))
        order = self.steps.rng("slots").permutation(slots)
        return (order[np.arange(count) % slots] * stride + self.block + further).astype(np.uint64)

    def lone(self, size: int) -> None:
        """One more round of runs of lone writes of that size."""
        self._rounds("lone", size, self.footprints.runs.setdefault(size, []))

    def _rounds(self, name: str, size: int, runs: list[Run], further: int = 0) -> None:
        """One more round of runs."""
        repeats = REFERENCE_REPEATS if size == self.block else REPEATS[self.pattern]
        for _ in range(repeats):
            erased = self.fresh()
            params: dict[str, JsonScalar] = {"size_bytes": size, "erased": erased}
            io = IoBatch.writes(self.offsets(WRITES[self.pattern], size, further=further), size)
            log = self.steps.run(f"{name}-{size}-{len(runs) + 1}", io, params=params)
            runs.append(Run.of(size, erased, log))

    def shift(self, size: int) -> None:
        """Runs of lone writes of that size that begin half of it further on, until it is plain whether they
        take more space: where they do, a border in the addresses lies under them."""
        further = size // (4 * self.block) * 2 * self.block  # an odd number of blocks behind a border, as all
        for _ in range(MORE_ROUNDS):
            self._rounds("shifted", size, self.seen.shifted, further)
            if not self.footprints.beside(size, self.seen.shifted).doubtful(size):
                break
            self.lone(self.block)

    def takes_more(self, size: int) -> bool:
        """Whether lone writes of that size take more quanta than those of one block, measured until it is
        plain."""
        self.lone(size)
        for _ in range(MORE_ROUNDS):
            if not self.footprints.doubtful(size):
                break
            self.lone(size)
            if len(self.footprints.runs[self.block]) < MOST_REFERENCE:
                self.lone(self.block)
        return self.footprints.more_quanta(size)

    def scattered(self, count: int) -> U64:
        """Different places all over the target, in random order; none at a whole mebibyte, where a zone may
        begin: a write there is in order, and no entry of the journal."""
        stride = max(2 * self.block, self.steps.size // (count + 1) // self.block * self.block)
        places = min(count, self.steps.size // stride - 1)
        order = self.steps.rng("scattered").permutation(places)
        where = order * stride + self.block
        return np.asarray(where + self.block * (where % (1 << 20) == 0), np.uint64)

    def many(self, name: str, offsets: U64, until: Stop, *, erased: bool) -> IoLog:
        """Lone writes of one block until the stop."""
        params: dict[str, JsonScalar] = {"limit_ns": until.latency_ns, "erased": erased}
        log = self.steps.run(name, IoBatch.writes(offsets, self.block), until=until, params=params)
        self.seen.many.append(Many(name, log, until, erased))
        return log

    def queue(self, name: str, size: int) -> IoLog:
        """Many writes, all different places, as many waiting as the drive takes."""
        erased = self.fresh()
        io = IoBatch.writes(self.offsets(2 * DEPTH, size, 2 * DEPTH), size)
        params: dict[str, JsonScalar] = {"size_bytes": size, "erased": erased}
        return self.steps.run(name, io, depth=self.seen.depth, params=params)


def measure(bench: Bench) -> None:
    """The whole test: quantum, entries, map merges, places."""
    edge = find_quantum(bench)
    if edge is None:
        return
    if at_a_stripe(edge, bench.block):
        bench.shift(edge)
    apart(bench)
    if bench.seen.depth >= FEWEST_DEPTH and find_bound(bench, edge):
        climb(bench, edge)
    else:
        split(bench, edge)
    find_out_of_band(bench, edge)
    find_merges(bench, edge)  # last: it may fill the cache
    if isinstance(bench.steps, ForcedWrites) and any(
        each.until.reached(each.log) for each in bench.seen.many
    ):
        bench.steps.reset("left-reset")  # else plain writes of later tests wait in volatile memory


def find_quantum(bench: Bench) -> int | None:
    """Doubles the size of lone writes until they take more space, then halves the distance to the largest
    that does not; the largest size of one quantum, or None where the first step is none."""
    bench.lone(bench.block)
    for by_time in WAYS:
        bench.footprints.by_time = by_time
        edge = _edge(bench)
        if edge is not None or not bench.footprints.moves_on:
            return edge
    return None


def _edge(bench: Bench) -> int | None:
    """The same by one way of telling what takes more."""
    for _ in range(SEARCHES):
        high = _first_longer(bench)
        if not high:
            return None
        low = max(size for size in bench.footprints.runs if size < high)
        low, high = bisected(low, high, lambda size: not bench.takes_more(size), bench.block)
        if low < FEWEST_BLOCKS * bench.block:
            return None
        quarters = (low * quarters // 4 // bench.block * bench.block for quarters in PLATEAU_QUARTERS)
        for size in (low, high, *quarters):
            bench.lone(size)
        if bench.footprints.first_longer == high and not bench.footprints.sharp(low, high):
            for sixteenths in NEAR_SIXTEENTHS:
                bench.lone(low * sixteenths // 16 // bench.block * bench.block + bench.block)
        if bench.footprints.first_longer == high:  # else a size was misjudged before all these were known
            sharp = bench.footprints.sharp(low, high)
            return low if sharp and not bench.footprints.too_short(low, high, bench.steps.known) else None
    return None


def _first_longer(bench: Bench) -> int:
    """The smallest size of those measured that takes more space than one block, or if there is none the first
    of sizes that are doubled; 0 where none does."""
    if (known := bench.footprints.first_longer) is not None:
        return known
    size = 2 * max(bench.footprints.runs)
    while size <= min(LARGEST_QUANTUM_BYTES, bench.steps.size // 16):
        if bench.takes_more(size):
            return size
        size *= 2
    return 0


def find_bound(bench: Bench, quantum: int) -> bool:
    """Writes of several sizes at the queue's depth, until the bound on an entry is narrow. False where the
    clock does not part entries: then what completes together may be several."""
    bound = Bound()
    size: int | None = max(bench.block, quantum // 8 // bench.block * bench.block)
    number = 0
    seen = bench.seen
    while size is not None and number < QUEUE_RUNS:
        number += 1
        log = bench.queue(f"queue-{number}", size)
        seen.queues.append((size, log))
        if not clock_parts(log):
            if bound.least or number > UNPARTED_RUNS:
                return False
            size *= 2  # fuller entries take longer
            continue
        full = largest_full(log, seen.entry_ns, seen.way_ns)
        bound = bound.with_group(size, largest_group(log, seen.entry_ns), full)
        seen.entry_bytes = bound.least
        size = next_queue_size(bound, size, bench.block, seen.depth)
        if size is not None and size > min(LARGEST_QUEUED_BYTES, bench.steps.size // (4 * DEPTH)):
            break
    return True


def split(bench: Bench, quantum: int) -> None:
    """Lone writes of growing size until one does not fit into an entry. A host that splits requests would end
    them too, and look alike, so they are no longer than it lets through as one."""
    target = bench.steps.target
    one_piece = bench.steps.size if target.kind == "sim" else target.declared.get("max_request_bytes")
    if not isinstance(one_piece, int):
        return

    def measure(size: int, writes: int) -> Run:
        erased = bench.fresh()
        params: dict[str, JsonScalar] = {"size_bytes": size, "erased": erased}
        io = IoBatch.writes(bench.offsets(writes, size), size)
        log = bench.steps.run(f"long-{size}", io, params=params)
        return Run.of(size, erased, log, bench.steps.names[-1])

    medium = "flash" if bench.flash else "disk"
    step_ns = bench.footprints.shift_ns(quantum + bench.block)
    track = bench.steps.known.part("track_bytes", "od") or 0.0
    splits = Splits(bench.block, quantum, medium, bench.rotation_ns, step_ns, track=track)
    bench.seen.splits = splits
    find_split(splits, measure, REPEATS["disk"], min(one_piece, bench.steps.size // 16))
    bench.seen.entry_bytes = splits.whole
    if not splits.is_plain:
        measure_more(splits, measure, REPEATS["disk"])


def climb(bench: Bench, quantum: int) -> None:
    """Waiting writes of growing size, over a few quanta (Figure 7)."""
    most = int(LADDER_QUANTA * quantum / bench.seen.depth)
    step = max(bench.block, -(-most // LADDER_STEPS // bench.block) * bench.block)
    for size in range(bench.block, most + 1, step):
        bench.seen.ladder.append((size, bench.queue(f"ladder-{size}", size)))


def find_merges(bench: Bench, quantum: int) -> None:
    """Many lone writes at different places, twice: a map merge comes at the same ones. They end where
    cleaning sets in. Where merges are few, more of the same; and writes that take two quanta each: a merge
    comes after as many as before, and where the log goes on elsewhere on the disk after half as many."""
    bench.steps.reset("many-reset")
    limit_ns = int(STALLED * bench.seen.lone_ns + STALLED_TURNS * (bench.rotation_ns or SLOW_TURN_NS))
    stop = Stop(latency_ns=limit_ns, count=CLEANING[0], within=CLEANING[1])
    offsets = bench.scattered(MOST_LONE)
    disk_turn_ns = None if bench.flash else bench.rotation_ns
    first = bench.many("many-1", offsets[:FIRST_LONE], stop, erased=bench.fresh())
    found = period_of(first.latency_ns, slow_ones(first.latency_ns, disk_turn_ns))
    total = MOST_LONE if found is None else min(MOST_LONE, max(FIRST_LONE, MERGES_WANTED * found.every))
    stopped = stop.reached(first)
    if total > FIRST_LONE and not stopped:
        bench.many("many-2", offsets[FIRST_LONE:total], stop, erased=False)
    bench.many(AGAIN, offsets[:total], stop, erased=bench.fresh())
    if more := more_writes(bench.seen.many, disk_turn_ns):
        bench.many(MORE, bench.scattered(total + more)[total:], stop, erased=False)
    if (count := control_writes(bench.seen.many, disk_turn_ns)) and bench.fresh():
        size = LONG_QUANTA * quantum
        io = IoBatch.writes(bench.offsets(count, size), size)
        bench.seen.long = bench.steps.run("many-long", io, until=stop)


def find_out_of_band(bench: Bench, quantum: int) -> None:
    """The first entry, written and read in many phases of arrival; on flash the overhead alone."""
    steps = bench.steps
    if bench.flash:
        bench.seen.flushes = steps.run("flushes", IoBatch.make(Op.FLUSH, np.zeros(FLUSHES), 0))
        return
    if bench.rotation_ns is None:
        return
    far, write, read = batches(steps.size, bench.block)
    cycles = FAST_CYCLES if bench.rotation_ns < FAST_TURN_NS else CYCLES
    lone = bench.footprints.runs.get(bench.block, [])
    tick = tick_ns(lone[0].latency_ns) / bench.rotation_ns if lone else 0.0
    if tick > COARSE_TURNS:
        cycles = max(cycles, min(COARSE_CYCLES, round(COARSE_EACH * tick)))
    phases, number = steps.rng("phases"), 0
    for more in range(FIRST_ROUNDS):  # those of a round lie between those of the rounds before
        for phase in (phases.permutation(cycles) + more / FIRST_ROUNDS) / cycles:
            number += 1
            if not steps.erase(f"first-erase-{number}"):
                find_by_later_entries(bench, quantum)
                return
            # Zones filled between the far read and the write would leave the head elsewhere.
            if not steps.written(np.array([far.offset[0], write.offset[0]], np.uint64), bench.block):
                return
            for name, io in (("write", write), ("read", read)):
                steps.run(f"first-far-{name}-{number}", far)
                steps.pause(f"first-pause-{name}-{number}", float(phase * bench.rotation_ns / 1e9))
                bench.seen.first[name].append(steps.run(f"first-{name}-{number}", io))
        if not too_open(bench.seen.first["write"], bench.seen.first["read"], bench.rotation_ns):
            return


def find_by_later_entries(bench: Bench, quantum: int) -> None:
    """Entries wherever the log has come to, written and read back; then long ones, read block by block."""
    steps, block, seen = bench.steps, bench.block, bench.seen
    if steps.zones("later-zones") is not None:
        return  # far reads all over would have to fill zones first
    far = far_places(steps.size, block, steps.rng("later"))
    track = known_tracks(steps.known)
    length = quantum * min(max(seen.entry_bytes // quantum, 1), MOST_QUANTA)
    begin = bench.offsets(long_entries(length, max(track.values(), default=0.0)), length)
    io = written_long(begin, length, flushed=seen.volatile == "flushed")
    written = steps.run("long-entry", io)
    read = steps.run("long-entry-read", read_back(far[:PLACES], begin, length, block))
    seen.long_entries = LongEntries(written, read)
    for number in range(MOST_ROUNDS):
        part = far[PLACES:][2 * CYCLES_LATER * number : 2 * CYCLES_LATER * (number + 1)]
        io = cycles(part, block, flushed=seen.volatile == "flushed")
        seen.later.append(steps.run(f"later-{number + 1}", io))
        if number + 1 >= LATER_ROUNDS and bench.rotation_ns is not None:
            found = judge_later(seen.later, seen.long_entries, quantum, bench.rotation_ns, track)
            if not is_open(found):
                return


def apart(bench: Bench) -> None:
    """Writes one at a time and all waiting, each read back at once in the order written (Figure 6)."""
    for name, depth in (("alone", 1), ("together", DEPTH)):
        bench.fresh()
        offsets = bench.offsets(APART, bench.block, APART)
        written = bench.steps.run(f"{name}-written", IoBatch.writes(offsets, bench.block), depth=depth)
        if depth > 1:
            bench.seen.together = written
        bench.steps.run(f"{name}-read", IoBatch.reads(offsets, bench.block))


def at_a_stripe(low: int, block: int) -> bool:
    """Whether the longest write of one quantum ends where stripes of an array end: all lone writes begin a
    block behind a border of 1 MiB (`Bench.offsets`). Stripes are powers of two or three times those.

    >>> at_a_stripe(60 << 10, 4096), at_a_stripe(832 << 10, 4096), at_a_stripe((3 << 20) - 4096, 4096)
    (True, False, True)
    """
    end = low + block
    odd = end // (end & -end)  # what is left without the factors of two
    return odd in (1, 3)
