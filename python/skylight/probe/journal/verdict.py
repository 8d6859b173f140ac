"""What the runs of test `journal` say: quantum, entry, packing, map merges.

Every finding needs a positive sign: a quantum is a step between two neighbouring sizes with nothing before
it, a bound on entries is groups that complete together, a merge is a stall that comes at the same writes
again after an erase. Time that grows smoothly with size is no journal, and then there are no findings.

Source: Skylight (FAST '15) sections 4.3 and 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import F64, I64, Bools, IoLog
from skylight.findings import Finding, Known
from skylight.infer.host_clock import host_of
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.infer.stalls import RarePeriod, before_stalls, rare_period, slow_ones
from skylight.probe.journal import entry_model
from skylight.probe.journal.entries import Bound, groups, largest_full, largest_group
from skylight.probe.journal.entry_space import FEWEST_BLOCKS, Footprints, Run
from skylight.probe.journal.findings import (
    ENTRY_MAX,
    MERGE,
    MERGE_EVERY,
    MERGE_RIGHT,
    OUT_OF_BAND,
    PACKING,
    QUANTUM,
)
from skylight.probe.journal.measure import DEPTH, Many, Runs, at_a_stripe
from skylight.probe.journal.out_of_band import QuantumTime, judge_disk, judge_flash
from skylight.probe.journal.splits import Splits
from skylight.units import format_duration, format_size

RESAMPLES = 100
CLOSE = MERGE_RIGHT.part  # how near a mean must be known to be named
BESIDE = 40  # writes on each side of a stall that it is compared with
CAUGHT = 4  # per cent: if so many catch their revolution, the drive without jitter does
# Writes that are a revolution sooner than most: how near to a whole one, and how many show that some are.
EARLY_TURNS, FEWEST_EARLY, SURE = 0.2, 8, 5.0
MORE_TURNS = 1.5  # a merge that took so many revolutions more than the middle one met a slow outlier too
SAME = 0.13  # of their mean that merges may differ by, one standard deviation: else no number stands for all
# A stall so short may be the arm's way to where the log goes on, say on the next surface: that it comes after
# a whole number of entries so many times is chance, and less of one the more there are.
ARM_TURNS, ARM_HITS = 3.0, 5
LOST_TURNS, LOST_HITS = 1.5, 20
"""A stall of about one revolution is what any step of the log costs that just misses it, for instance to the
next surface, while a merge writes elsewhere and returns. Passes whose length is no whole number of entries
stall at even distances too, as long as the fraction has not added up to an entry: over `n` stalls with a
chance of 1/(n - 1), hence 5 % with 20 of them."""
PROMPT_PAUSE_NS, PROMPT_WAY_NS = 30_000, 1_000_000
"""A host and a link that lose no revolution of a log which leaves a short gap for the next write: chosen,
what fio needs on an idle host, and more than a disk behind SATA needs for a command without work."""
LONGER, LOST = 1.5, 1.0
"""How much longer than it takes to pass the head the step to another quantum may be: out-of-band data, ways
to other tracks, and a revolution lost. Of five random drives whose quantum was right it was 0.25 of a
revolution at most; of a bridge that cuts writes in two it is 2.4 revolutions for 0.07."""
# A shorter merge is mostly a wait for the revolution, and another at other times.
LEAST_TURNS = {"disk": 2.0, "flash": 4.0}


@dataclass(slots=True)
class Quantum:
    """The step in the latency of lone writes: the last size before it, the first behind it, its height."""

    low: int
    high: int
    step_ns: float
    noise_ns: float
    confidence: float


@dataclass(slots=True)
class Merges:
    """Lone writes in order, once or twice; the stalls that come again."""

    latency_ns: I64
    again_ns: I64
    period: RarePeriod | None
    writes: int
    slow: int
    late: bool = False
    """Whether commands came so late that each may have lost a revolution."""


@dataclass(slots=True)
class Seen:
    """All that the evidence holds."""

    footprints: Footprints
    queues: list[tuple[int, IoLog]] = field(default_factory=list)
    ladder: list[tuple[int, I64]] = field(default_factory=list)
    quantum: Quantum | None = None
    smooth: bool = False
    bound: Bound = field(default_factory=Bound)
    packed: int | None = None
    merges: Merges | None = None


def observe(runs: Runs) -> Seen:
    """Quantum, bound, packing and stalls that the runs show."""
    seen = Seen(runs.footprints, runs.queues)
    for size, log in runs.ladder:
        later = log.latency_ns[DEPTH:]  # the first find the head anywhere
        if len(later):
            seen.ladder.append((size, later))
    if not seen.footprints.runs:
        return seen
    seen.quantum, seen.smooth = _quantum(seen.footprints)
    for size, log in seen.queues:
        full = largest_full(log, runs.entry_ns, runs.way_ns)
        seen.bound = seen.bound.with_group(size, largest_group(log, runs.entry_ns), full)
    seen.packed = runs.depth if len(runs.together) and runs.volatile == "none" else None
    seen.merges = _merges(runs.many, None if seen.footprints.flash else seen.footprints.rotation_ns)
    if seen.merges is not None:
        pause_ns = host_of(runs.many[0].log).gap_ns
        seen.merges.late = runs.way_ns > PROMPT_WAY_NS or pause_ns > PROMPT_PAUSE_NS
    return seen


def _quantum(footprints: Footprints) -> tuple[Quantum | None, bool]:
    """The first step, and whether there is plainly none: space grows smoothly with size."""
    block, sizes = footprints.block, sorted(footprints.runs)
    more = [size for size in sizes[1:] if footprints.more(size)]
    if not more or len(footprints.runs[block]) < 2:
        return None, False
    high = more[0]
    low = max(size for size in sizes if size < high)
    if high - low > block:
        return None, False
    if not footprints.sharp(low, high):
        return None, low < FEWEST_BLOCKS * block or footprints.smooth(low, high)
    if any(footprints.more(size) for size in sizes[1:] if size <= low):
        return None, False
    confidence = _confidence(footprints, low, high)
    return Quantum(
        low, high, footprints.shift_ns(high) - footprints.shift_ns(low), footprints.noise_ns, confidence
    ), False


def _confidence(footprints: Footprints, low: int, high: int) -> float:
    """How often repeats drawn anew still show the step where it is."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    hits = 0
    for _ in range(RESAMPLES):
        drawn = Footprints("flash" if footprints.flash else "disk", footprints.rotation_ns)
        for size in (footprints.block, low, high):
            runs = footprints.runs[size]
            drawn.runs[size] = [runs[index] for index in rng.integers(0, len(runs), size=len(runs))]
        hits += drawn.more(high) and not drawn.more(low)
    return share(hits, RESAMPLES)


def _merges(many: Sequence[Many], rotation_ns: float | None) -> Merges | None:
    if not many or not len(many[0].log):
        return None
    runs: list[list[I64]] = [[], []]
    for run in many:
        latency_ns = run.log.latency_ns
        runs[run.name == "many-again"].append(latency_ns[: before_stalls(latency_ns, run.until)])
    first, again = (np.concatenate(run) if run else np.empty(0, np.int64) for run in runs)
    if not len(again) or not many[-1].erased:  # it went on where the first left off
        whole = np.concatenate([first, again])
        slow = slow_ones(whole, rotation_ns)
        return Merges(whole, np.empty(0, np.int64), rare_period(slow), len(whole), int(slow.sum()))
    count = min(len(first), len(again))
    first, again = first[:count], again[:count]
    one, other = slow_ones(first, rotation_ns), slow_ones(again, rotation_ns)
    both = one & other
    return Merges(first, again, rare_period(both, one), count, int(both.sum()))


def judge(seen: Seen, runs: Runs, known: Known) -> list[Finding]:
    """All findings."""
    if runs.volatile == "hidden":
        why = "Writes end in a volatile cache that a FLUSH does not empty, so the journal is not seen."
        return [QUANTUM.unknown(why, ("rounds",)), ENTRY_MAX.unknown(why, ("rounds",))]
    if seen.quantum is not None and _may_be_a_stripe(seen.quantum.low, seen.footprints, runs.shifted):
        why = (
            f"lone writes of more than {format_size(seen.quantum.low)} take longer, as with a quantum of a"
            " journal; but there they also reach the next stripe, if this is an array"
        )
        rows = tuple(f"lone-{size}-1" for size in (seen.quantum.low, seen.quantum.high))
        unknown = [each.unknown(why, rows) for each in (QUANTUM, ENTRY_MAX, OUT_OF_BAND)]
        return [*unknown, *_merge_findings(seen)]
    if seen.quantum is None:
        if seen.smooth or not seen.footprints.runs:
            return []
        why = (
            f"lone writes up to {format_size(max(seen.footprints.runs))} show no step that stands out of"
            " their scatter; a quieter drive or more repeats may"
        )
        return [
            QUANTUM.unknown(why),
            ENTRY_MAX.unknown(why),
        ]
    if (turns := _too_long(seen.quantum, seen.footprints, known)) is not None:
        why = (
            f"lone writes of more than {format_size(seen.quantum.low)} take"
            f" {format_duration(int(seen.quantum.step_ns))} longer, and as much passes the head in"
            f" {turns:.2g} revolutions at most: that is another entry, as of a write that was cut in two"
        )
        rows = tuple(f"lone-{size}-1" for size in (seen.quantum.low, seen.quantum.high))
        unknown = [each.unknown(why, rows) for each in (QUANTUM, ENTRY_MAX, OUT_OF_BAND)]
        return [*unknown, *_merge_findings(seen)]
    findings = [_quantum_finding(seen, seen.quantum), _entry_finding(seen, runs.splits)]
    if seen.packed is not None:
        findings.append(_packing(seen, seen.packed))
    return [*findings, _out_of_band(seen, seen.quantum, runs, known), *_merge_findings(seen)]


def _may_be_a_stripe(low: int, footprints: Footprints, shifted: Sequence[Run]) -> bool:
    """Whether writes of more than `low` bytes may take longer for they reach the next stripe: not if as long
    ones that begin elsewhere, across that border, take no longer than a block."""
    if not at_a_stripe(low, footprints.block):
        return False
    pair = footprints.beside(low, shifted)
    return not shifted or pair.more(low) or pair.doubtful(low)


def _too_long(quantum: Quantum, footprints: Footprints, known: Known) -> float | None:
    """The most revolutions in which a quantum passes the head, if the step takes far longer; else None, also
    where tracks are not known, or the cache has none."""
    turns = None if footprints.flash else _quantum_turns(quantum.low, known)
    if turns is None or footprints.rotation_ns is None:
        return None
    return turns[1] if quantum.step_ns > (LONGER * turns[1] + LOST) * footprints.rotation_ns else None


def _out_of_band(seen: Seen, quantum: Quantum, runs: Runs, known: Known) -> Finding:
    rotation_ns = seen.footprints.rotation_ns
    if rotation_ns is None:
        return OUT_OF_BAND.unknown("the rotation is not known")
    if not seen.footprints.flash:
        turns = _quantum_turns(quantum.low, known)
        by_tracks = None if turns is None else (turns[0] * rotation_ns, turns[1] * rotation_ns)
        time = QuantumTime(quantum.step_ns, by_tracks)
        return judge_disk(runs.first["write"], runs.first["read"], rotation_ns, time)
    lone_ns = seen.footprints.fastest_ns(seen.footprints.block)
    return judge_flash(runs.flushes, lone_ns - quantum.step_ns, quantum.noise_ns, rotation_ns)


def _quantum_finding(seen: Seen, quantum: Quantum) -> Finding:
    why = (
        f"lone writes of up to {format_size(quantum.low)} take as long as 4 KiB (to"
        f" {format_duration(int(quantum.noise_ns))}), and from {format_size(quantum.high)} on"
        f" {format_duration(int(quantum.step_ns))} longer"
    )
    rows = tuple(f"lone-{size}-1" for size in (seen.footprints.block, quantum.low, quantum.high))
    return QUANTUM.found(quantum.low, quantum.confidence, why, rows, (quantum.low, quantum.high))


def _split_finding(splits: Splits) -> Finding:
    rows = tuple(run.step for size in sorted(splits.runs) for run in splits.runs[size])
    if not splits.is_plain and (found := entry_model.fit(splits)) is not None and found.is_found:
        gap = format_duration(int(found.gap_ns))
        why = (
            f"lone writes of {len(splits.runs)} sizes take as long as if every {format_size(found.best)}"
            f" began another entry, with {gap} before it; one entry for all fits worse by"
            f" {found.gain:.0f} standard deviations"
        )
        return ENTRY_MAX.found(found.best, found.sure, why, rows, found.interval)
    if splits.split is None:
        most = format_size(max(splits.whole, splits.quantum))
        why = f"lone writes of up to {most} show no end of an entry, and longer ones were not tried"
        return ENTRY_MAX.unknown(why, rows)
    if not splits.confirmed():
        why = (
            f"lone writes of {format_size(splits.split)} take longer than those of"
            f" {format_size(splits.whole)}, but what follows does not look like a second entry"
        )
        return ENTRY_MAX.unknown(why, rows)
    if splits.contradicted():
        why = (
            f"lone writes of {format_size(splits.split)} take longer than those of"
            f" {format_size(splits.whole)}, but so do some of the shorter ones, of as many quanta as others"
        )
        return ENTRY_MAX.unknown(why, rows)
    confidence = splits.confidence()
    why = (
        f"lone writes of up to {format_size(splits.whole)} take as long as any of as many quanta, and from"
        f" {format_size(splits.split)} on as with another entry, into which a quantum more goes"
    )
    value = (splits.whole + splits.split) // 2
    return ENTRY_MAX.found(value, confidence, why, rows, (splits.whole, splits.split))


_NO_ENTRY = (
    "hardly any writes wait together in the drive, so none fills an entry, and how long a write the host"
    " sends in one piece is not known"
)


def _entry_finding(seen: Seen, splits: Splits | None) -> Finding:
    if splits is not None:
        return _split_finding(splits)
    if not seen.queues:
        return ENTRY_MAX.unknown(_NO_ENTRY)
    bound = seen.bound
    rows = tuple(f"queue-{number + 1}" for number in range(len(seen.queues)))
    if bound.below is None or not bound.least or bound.below > (1 + 2 * CLOSE) * bound.least + 4096:
        most = format_size(bound.least) if bound.least else "nothing"
        return ENTRY_MAX.unknown(f"entries took {most} and no bound on them was met", rows)
    value = (bound.least + bound.below) // 2 if bound.below - bound.least > 4096 else bound.least
    why = (
        f"of the writes that waited as many completed together as make {format_size(bound.least)} and never"
        f" {format_size(bound.below)}, in {bound.fits} of {bound.runs} runs with writes of different sizes"
    )
    confidence = share(bound.fits, bound.runs)
    return ENTRY_MAX.found(value, confidence, why, rows, (bound.least, bound.below))


def _quantum_turns(quantum: int, known: Known) -> tuple[float, float] | None:
    """What a quantum takes on the shortest and on the longest tracks, revolutions; None if these are
    unknown."""
    tracks = [size for place in ("od", "md", "id") if (size := known.part("track_bytes", place))]
    return (quantum / max(tracks), quantum / min(tracks)) if len(tracks) > 1 else None


def _packing(seen: Seen, packed: int) -> Finding:
    why = (
        f"with {DEPTH} writes of 4 KiB waiting, up to {packed} completed together: the drive packs what waits"
        " into one entry of its journal"
    )
    agreed = share(1, 1) if packed > 1 else 0.5
    return PACKING.found(packed, agreed, why, ("together-written",))


def _least_hits(cost_ns: float, footprints: Footprints) -> int:
    """How many stalls of this length make a period of merges, and not of the arm's way along the log."""
    if footprints.flash or not footprints.rotation_ns:
        return 0
    turns = cost_ns / footprints.rotation_ns
    return LOST_HITS if turns < LOST_TURNS else ARM_HITS if turns < ARM_TURNS else 0


def _merge_findings(seen: Seen) -> list[Finding]:
    merges = seen.merges
    if merges is None:
        return []
    rows = ("many-1", "many-2", "many-again")
    if merges.period is None:
        slow = merges.slow
        if slow < 3:
            return []  # nothing stalls: no merges within reach
        why = f"{slow:,} of {merges.writes:,} lone writes stall, and at no period that comes again"
        return [
            MERGE_EVERY.unknown(why, rows),
            MERGE.unknown(why, rows),
        ]
    found = merges.period
    cost_ns, error_ns, spread_ns, confidence, count, shortest_ns = merge_cost(
        merges, found, seen.footprints.rotation_ns, flash=seen.footprints.flash
    )
    if found.hits < _least_hits(cost_ns, seen.footprints):
        why = (
            f"every {found.every:,}th lone write stalls, but {found.hits} times only and for"
            f" {format_duration(int(cost_ns))}, as where the log goes on elsewhere on the disk"
        )
        return [
            MERGE_EVERY.unknown(why, rows),
            MERGE.unknown(why, rows),
        ]
    why = (
        f"every {found.every:,}th lone write stalls: {found.hits:,} of {found.hits:,} in {merges.writes:,}"
        f" writes, for about {format_duration(int(cost_ns))}, at the same writes after an erase"
    )
    every = MERGE_EVERY.found(found.every, 1.0 - found.chance, why, rows, (found.every, found.every))
    least_turns = LEAST_TURNS["flash" if seen.footprints.flash else "disk"]
    short = cost_ns < least_turns * (seen.footprints.rotation_ns or 0.0)
    if 2 * error_ns > CLOSE * cost_ns or spread_ns > SAME * cost_ns or short:
        why = (
            f"{count} merges took {format_duration(int(cost_ns))} more on average, but differ by"
            f" {format_duration(int(spread_ns))} (one standard deviation)"
        )
        return [every, MERGE.unknown(why, rows)]
    turn_ns = 0.0 if seen.footprints.flash else seen.footprints.rotation_ns or 0.0
    if merges.late and turn_ns > CLOSE * cost_ns:
        why = (
            f"{count} merges took {format_duration(int(cost_ns))} more on average than writes that this host"
            " or its link may have made to lose a revolution, which one with a merge does not"
        )
        return [every, MERGE.unknown(why, rows, (cost_ns - 2 * error_ns, cost_ns + turn_ns))]
    if turn_ns > CLOSE * cost_ns and not caught_level_ns(merges, turn_ns)[1]:
        why = (
            f"{count} merges took {format_duration(int(cost_ns))} more on average than writes of which a few"
            " complete a revolution sooner, and whether the others lose it to delays is not known"
        )
        return [every, MERGE.unknown(why, rows, (cost_ns - 2 * error_ns, cost_ns + turn_ns))]
    # Behind the merge the write waits for its place to come round, which is no part of the merge; and what a
    # command takes longer grows with the command, so that of the merges the shortest is nearest to the drive.
    least_ns = min(cost_ns - 2 * error_ns, shortest_ns) - (seen.footprints.rotation_ns or 0.0)
    why = (
        f"{count} lone writes with a map merge took {format_duration(int(cost_ns))} longer on average than"
        " those beside them"
    )
    interval = (least_ns, cost_ns + 2 * error_ns)
    return [every, MERGE.found(round(cost_ns), confidence, why, rows, interval)]


def caught_level_ns(merges: Merges, rotation_ns: float) -> tuple[float, bool]:
    """What lone writes take that caught their revolution, where jitter makes others miss it, ns; and whether
    it is known. A few that complete a whole revolution sooner than the others caught it by chance, as their
    jitter was small, if other writes do after an erase. If the same do, it is their place on the disk."""
    latency_ns = merges.latency_ns.astype(np.float64)
    middle = float(np.median(latency_ns))
    if float(np.percentile(latency_ns, CAUGHT)) < middle - rotation_ns / 2:
        return float(np.percentile(latency_ns, CAUGHT)), True
    early = _a_turn_sooner(latency_ns, middle, rotation_ns)
    if early is None:
        return middle, True
    again = _a_turn_sooner(merges.again_ns.astype(np.float64), middle, rotation_ns)
    if again is None:
        return middle, False
    both = int(np.count_nonzero(early & again))
    by_chance = early.sum() * again.sum() / len(early)
    by_place = both > max(by_chance + SURE * np.sqrt(by_chance), both / 2, early.sum() / 2)
    return (middle if by_place else middle - rotation_ns), True


def _a_turn_sooner(latency_ns: F64, middle_ns: float, rotation_ns: float) -> Bools | None:
    """Which writes completed a revolution before the middle; None where there are no more of them than of
    writes that are as early by any other part of a revolution, as behind a slow outlier."""
    turns = (middle_ns - latency_ns) / rotation_ns
    early = np.abs(turns - 1) < EARLY_TURNS
    others = int(np.count_nonzero((turns > EARLY_TURNS) & (turns < 2 - EARLY_TURNS) & ~early))
    count, expected = int(early.sum()), others * EARLY_TURNS / (1 - 2 * EARLY_TURNS)
    return early if count >= FEWEST_EARLY and count > expected + SURE * np.sqrt(expected) else None


def _undelayed(latency_ns: F64, level_ns: float, rotation_ns: float | None) -> float:
    """The middle of latencies, without the whole revolutions by which they are above the level, ns."""
    if rotation_ns is None:
        return float(np.median(latency_ns))
    turns = np.round((latency_ns - level_ns) / rotation_ns)
    return float(np.median(latency_ns - turns * rotation_ns))


def stalls_of(merges: Merges, found: RarePeriod, rotation_ns: float | None) -> F64:
    """How much longer each write with a merge took than the middle of those beside it, ns."""
    level_ns = 0.0 if rotation_ns is None else caught_level_ns(merges, rotation_ns)[0]
    extra = []
    for latency_ns in (merges.latency_ns, merges.again_ns):
        for place in found.places(len(latency_ns)):
            beside = np.delete(latency_ns, place)[max(1, place - BESIDE) : place + BESIDE]
            plain_ns = _undelayed(beside.astype(np.float64), level_ns, rotation_ns)
            extra.append(float(latency_ns[place]) - plain_ns)
    return np.array(extra)


def merge_cost(
    merges: Merges, found: RarePeriod, rotation_ns: float | None, *, flash: bool
) -> tuple[float, float, float, float, int, float]:
    """Mean extra time of a merge, its standard error and the spread of merges, ns; how sure it is to a tenth;
    how many merges; the shortest of them, ns.

    A merge may meet a slow outlier too: those far above the middle one are left out."""
    extra = stalls_of(merges, found, None if flash else rotation_ns)
    middle = float(np.median(extra))
    kept = extra[extra <= middle + MORE_TURNS * (rotation_ns or 0.0) + CLOSE * middle]
    if not len(kept):
        return middle, middle, middle, 0.0, 0, middle
    mean = float(kept.mean())
    spread = float(kept.std(ddof=1)) if len(kept) > 1 else middle
    repeats = 2 if len(merges.again_ns) else 1  # the same merges again are no others
    error = spread / np.sqrt(len(kept) / repeats)
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    means = kept[rng.integers(0, len(kept), size=(RESAMPLES, len(kept)))].mean(axis=1)
    sure = share(int(np.count_nonzero(np.abs(means - mean) <= CLOSE * mean)), RESAMPLES)
    return mean, error, spread, sure, len(kept), float(kept.min())


__all__ = ["Merges", "Quantum", "Seen", "groups", "judge", "observe"]
