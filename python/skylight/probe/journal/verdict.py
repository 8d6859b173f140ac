"""What the runs of test `journal` say: quantum, entry, packing, map merges.

Every finding needs a positive sign: a quantum is a step between two neighbouring sizes with nothing before
it, a bound on entries is groups that complete together, a merge is a stall that comes at the same writes
again after an erase. Time that grows smoothly with size is no journal, and then there are no findings.

Source: Skylight (FAST '15) sections 4.3 and 4.3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import I64, IoLog
from skylight.findings import Finding, Known
from skylight.infer.host_clock import host_of
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.probe.journal import entry_model
from skylight.probe.journal.entries import Bound, clock_parts, groups, largest_full, largest_group
from skylight.probe.journal.entry_space import FEWEST_BLOCKS, Footprints, Run
from skylight.probe.journal.findings import (
    ENTRY_MAX,
    MERGE,
    MERGE_EVERY,
    OUT_OF_BAND,
    PACKING,
    QUANTUM,
)
from skylight.probe.journal.map_merges import (
    CLOSE,
    RESAMPLES,
    Merges,
    caught_level_ns,
    merge_cost,
    merges_of,
    others_between,
)
from skylight.probe.journal.measure import DEPTH, Runs, at_a_stripe
from skylight.probe.journal.out_of_band_time import QuantumTime, judge_disk, judge_flash
from skylight.probe.journal.quantum_steps import quantum_turns
from skylight.probe.journal.splits import Splits
from skylight.probe.journal.unerased_verdict import judge_later, known_tracks
from skylight.units import format_duration, format_percent, format_size

SAME = 0.13  # of their mean that merges may differ by, one standard deviation: else no number stands for all
PROMPT_PAUSE_NS, PROMPT_WAY_NS = 30_000, 1_000_000
"""A host and a link that lose no revolution of a log which leaves a short gap for the next write: chosen,
what fio needs on an idle host, and more than a disk behind SATA needs for a command without work."""
MODEL = "fit of all sizes"
"""The way in which an entry is found that the times of all sizes fit best; what fits leave separates right
ones from others no better than the count of these."""
EVEN = 0.5  # an answer that is likelier wrong is none
ONE_QUANTUM = 1.5  # times a quantum: a smaller entry holds one
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
    measured = {size: of for size, of in runs.footprints.runs.items() if of}  # a bound may cut the last one
    seen = Seen(replace(runs.footprints, runs=measured), runs.queues)
    for size, log in runs.ladder:
        later = log.latency_ns[DEPTH:]  # the first find the head anywhere
        if len(later):
            seen.ladder.append((size, later))
    if not seen.footprints.runs:
        return seen
    seen.quantum, seen.smooth = _quantum(seen.footprints)
    for size, log in seen.queues:
        if not clock_parts(log):
            continue
        full = largest_full(log, runs.entry_ns, runs.way_ns)
        seen.bound = seen.bound.with_group(size, largest_group(log, runs.entry_ns), full)
    seen.packed = runs.depth if len(runs.together) and runs.volatile == "none" else None
    turn_ns = None if seen.footprints.flash else seen.footprints.rotation_ns
    seen.merges = merges_of(runs.many, turn_ns, runs.long)
    if seen.merges is not None:
        pause_ns = host_of(runs.many[0].log).gap_ns
        if runs.way_ns > PROMPT_WAY_NS or pause_ns > PROMPT_PAUSE_NS:
            seen.merges.delay_ns = runs.way_ns + pause_ns
    return seen


def _quantum(footprints: Footprints) -> tuple[Quantum | None, bool]:
    """The first step, and whether there is plainly none: space grows smoothly with size."""
    block, sizes = footprints.block, sorted(footprints.runs)
    high = footprints.first_longer
    if high is None or len(footprints.runs[block]) < 2:
        return None, False
    low = max(size for size in sizes if size < high)
    if high - low > block:
        return None, False
    if not footprints.sharp(low, high):
        return None, low < FEWEST_BLOCKS * block or footprints.smooth(low, high)
    confidence = _confidence(footprints, low, high)
    return Quantum(
        low, high, footprints.shift_ns(high) - footprints.shift_ns(low), footprints.noise_ns, confidence
    ), False


def _confidence(footprints: Footprints, low: int, high: int) -> float:
    """How often repeats drawn anew still show the step where it is."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    hits = 0
    for _ in range(RESAMPLES):
        drawn = replace(footprints, medium="flash" if footprints.flash else "disk", runs={})
        for size in (footprints.block, low, high):
            runs = footprints.runs[size]
            drawn.runs[size] = [runs[index] for index in rng.integers(0, len(runs), size=len(runs))]
        hits += drawn.more_quanta(high) and not drawn.more_quanta(low)
    return share(hits, RESAMPLES)


def judge(seen: Seen, runs: Runs, known: Known) -> list[Finding]:
    """All findings."""
    if runs.volatile == "hidden":
        why = "Writes end in a volatile cache that a FLUSH does not empty, so the journal is not seen."
        return [QUANTUM.unknown(why, ("rounds",)), ENTRY_MAX.unknown(why, ("rounds",))]
    if runs.volatile == "late":
        why = (
            "Writes end in a volatile cache that has written a block before a FLUSH comes, which hides more."
        )
        return [each.unknown(why, ("rounds", "rounds-large")) for each in (QUANTUM, ENTRY_MAX)]
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
    if (unlike := _unlike_a_quantum(seen.quantum, seen.footprints, known)) is not None:
        rows = tuple(f"lone-{size}-1" for size in (seen.quantum.low, seen.quantum.high))
        unknown = [each.unknown(unlike, rows) for each in (QUANTUM, ENTRY_MAX, OUT_OF_BAND)]
        return [*unknown, *_merge_findings(seen)]
    if seen.quantum.step_ns < 0:
        why = (
            f"lone writes of more than {format_size(seen.quantum.low)} end at another angle, as with a"
            " quantum more, but take less, a contradiction"
        )
        rows = tuple(f"lone-{size}-1" for size in (seen.quantum.low, seen.quantum.high))
        return [each.unknown(why, rows) for each in (QUANTUM, ENTRY_MAX, OUT_OF_BAND)]
    entry = _entry_finding(seen, runs.splits)
    findings = [_quantum_finding(seen, seen.quantum), entry]
    if seen.packed is not None:
        findings.append(_packing(seen, seen.packed))
    # In flash the step to another quantum holds the out-of-band data of its entry where each has its own.
    share = isinstance(entry.value, int) and entry.value > ONE_QUANTUM * seen.quantum.low
    out_of_band = _out_of_band(seen, seen.quantum, runs, known, share_entries=share)
    return [*findings, *out_of_band, *_merge_findings(seen)]


def _may_be_a_stripe(low: int, footprints: Footprints, shifted: Sequence[Run]) -> bool:
    """Whether writes of more than `low` bytes may take longer for they reach the next stripe: not if as long
    ones that begin elsewhere, across that border, take no longer than a block."""
    if not at_a_stripe(low, footprints.block):
        return False
    pair = footprints.beside(low, shifted)
    return not shifted or pair.more_quanta(low) or pair.doubtful(low)


def _unlike_a_quantum(quantum: Quantum, footprints: Footprints, known: Known) -> str | None:
    """Why a step is no quantum more, if it takes far longer than passes the head in that, or far less; else
    None, also where tracks are not known, or the cache has none."""
    bounds = footprints.step_bounds(quantum.low, known)
    if bounds is None or bounds.least_ns <= quantum.step_ns <= bounds.most_ns:
        return None
    more, takes = format_size(quantum.low), format_duration(round(abs(quantum.step_ns)))
    if quantum.step_ns > bounds.most_ns:
        return (
            f"lone writes of more than {more} take {takes} longer, and as much passes the head in"
            f" {bounds.turns:.2g} revolutions at most: that is another entry, as of a write cut in two"
        )
    return (
        f"lone writes of more than {more} take {takes} {'less' if quantum.step_ns < 0 else 'longer'}, and as"
        f" much takes {format_duration(round(bounds.least_ns))} at least to pass the head: that is no quantum"
    )


def _out_of_band(
    seen: Seen, quantum: Quantum, runs: Runs, known: Known, *, share_entries: bool
) -> list[Finding]:
    """The findings; `share_entries` where it was seen that an entry holds several quanta."""
    rotation_ns = seen.footprints.rotation_ns
    if rotation_ns is None:
        return [OUT_OF_BAND.unknown("the rotation is not known")]
    if runs.later:
        tracks = known_tracks(known)
        return judge_later(runs.later, runs.long_entries, quantum.low, rotation_ns, tracks)
    if not seen.footprints.flash:
        turns = quantum_turns(quantum.low, known)
        by_tracks = None if turns is None else (turns[0] * rotation_ns, turns[1] * rotation_ns)
        time = QuantumTime(quantum.step_ns, by_tracks)
        return [judge_disk(runs.first["write"], runs.first["read"], rotation_ns, time)]
    lone_ns = seen.footprints.fastest_ns(seen.footprints.block)
    own_ns = 0.0 if share_entries else quantum.step_ns
    return [judge_flash(runs.flushes, lone_ns - quantum.step_ns, quantum.noise_ns, rotation_ns, own_ns)]


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
    found = None if splits.is_plain else entry_model.fit(splits)
    if found is not None and found.is_found:
        gap = format_duration(int(found.gap_ns))
        why = (
            f"lone writes of {len(splits.runs)} sizes take as long as if every {format_size(found.best)}"
            f" began another entry, with {gap} before it; one entry for all fits worse by"
            f" {found.gain:.0f} standard deviations"
        )
        return ENTRY_MAX.found(found.best, found.sure, why, rows, found.interval, way=MODEL)
    if found is not None and found.is_late:
        why = (
            f"lone writes lose a revolution about every {format_size(found.late_bytes)}, as where the drive"
            " receives all of a write before it begins; that hides where an entry ends"
        )
        return ENTRY_MAX.unknown(why, rows)
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
    if confidence < EVEN:
        why = (
            f"lone writes of {format_size(splits.split)} take longer than those of"
            f" {format_size(splits.whole)}, but of repeats drawn anew {format_percent(confidence)} show it"
        )
        return ENTRY_MAX.unknown(why, rows)
    why = (
        f"lone writes of up to {format_size(splits.whole)} take as long as any of as many quanta, and from"
        f" {format_size(splits.split)} on as with another entry, into which a quantum more goes"
    )
    value = (splits.whole + splits.split) // 2
    return ENTRY_MAX.found(value, confidence, why, rows, (splits.whole, splits.split), way="splits")


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
    confidence = bound.fits / bound.runs
    return ENTRY_MAX.found(value, confidence, why, rows, (bound.least, bound.below), way="queue")


def _packing(seen: Seen, packed: int) -> Finding:
    together = f"up to {packed} completed together: the drive packs what waits into one entry of its journal"
    alone = "each completed alone: the drive gives each an entry of its own, as far as this shows"
    why = f"with {DEPTH} writes of 4 KiB waiting, {together if packed > 1 else alone}"
    agreed = share(1, 1) if packed > 1 else 0.5
    return PACKING.found(packed, agreed, why, ("together-written",))


MANY_ROWS = ("many-1", "many-2", "many-again", "many-more")


def _merge_findings(seen: Seen) -> list[Finding]:
    merges = seen.merges
    if merges is None:
        return []
    rows = MANY_ROWS
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
    turn_ns = 0.0 if seen.footprints.flash else seen.footprints.rotation_ns or 0.0
    if not merges.are_merges(cost_ns, turn_ns):
        why = (
            f"every {found.every:,}th lone write stalls, {found.hits} times in all and for"
            f" {format_duration(int(cost_ns))}, as where the log goes on elsewhere on the disk"
        )
        return [
            MERGE_EVERY.unknown(why, rows),
            MERGE.unknown(why, rows),
        ]
    why = (
        f"every {found.every:,}th lone write stalls: {found.hits:,} of {found.hits + found.missed:,} in"
        f" {merges.writes:,} writes, for about {format_duration(int(cost_ns))}, at the same writes after an"
        " erase"
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
    if seen.footprints.flash and others_between(merges, found, seen.footprints.rotation_ns or math.inf):
        return [every, _amid_others(cost_ns, error_ns, confidence, count, shortest_ns)]
    caught = turn_ns <= CLOSE * cost_ns or (not merges.delay_ns and caught_level_ns(merges, turn_ns)[1])
    if not caught:
        return [every, _either_way(cost_ns, error_ns, turn_ns, confidence, count, merges.delay_ns)]
    # Behind the merge the write waits for its place to come round, which is no part of the merge; and what a
    # command takes longer grows with the command, so that of the merges the shortest is nearest to the drive.
    least_ns = min(cost_ns - 2 * error_ns, shortest_ns) - (seen.footprints.rotation_ns or 0.0)
    why = (
        f"{count} lone writes with a map merge took {format_duration(int(cost_ns))} longer on average than"
        " those beside them"
    )
    interval = (least_ns, cost_ns + 2 * error_ns)
    return [every, MERGE.found(round(cost_ns), confidence, why, rows, interval)]


def _either_way(
    cost_ns: float, error_ns: float, turn_ns: float, confidence: float, count: int, delay_ns: float
) -> Finding:
    """The cost of a merge where the writes beside it lost a revolution or did not: the middle of both, if
    each is as near to it as a merge has to be known.

    What comes late takes as much less, or loses a revolution. A merge begins at any angle, so that merges
    lose one in as many cases as make up for that, by chance; the writes beside them all do or none does.
    """
    lost = (
        "that this host or its link may have made to lose a revolution, as some of those with a merge do"
        if delay_ns
        else "of which a few complete a revolution sooner; whether the others lose it to delays is not known"
    )
    why = f"{count} merges took {format_duration(int(cost_ns))} more on average than writes {lost}"
    part = min(delay_ns / turn_ns, 1.0)
    off_ns = 2 * math.hypot(error_ns, turn_ns * math.sqrt(part * (1 - part) / count))
    least_ns = cost_ns - delay_ns
    interval = (max(least_ns - off_ns, 0.0), least_ns + turn_ns + off_ns)
    return _middle_of(interval, confidence, why, "either way")


def _amid_others(
    cost_ns: float, error_ns: float, confidence: float, count: int, shortest_ns: float
) -> Finding:
    """The cost of a merge where other clients have the arm in between: what the shortest took, which found it
    near the map, or the mean, in which it came from anywhere; the middle, if both are near enough to it."""
    interval = (shortest_ns, cost_ns + 2 * error_ns)
    why = (
        f"{count} merges took {format_duration(int(shortest_ns))} more at least and"
        f" {format_duration(int(cost_ns))} on average, with other clients' commands between them, from which"
        " the arm has to come back"
    )
    return _middle_of(interval, confidence, why, "")


def _middle_of(interval: tuple[float, float], confidence: float, why: str, way: str) -> Finding:
    """The middle of what a merge may cost, if each end is as near to it as a merge has to be known."""
    middle = sum(interval) / 2
    if middle - interval[0] > CLOSE * interval[0]:
        return MERGE.unknown(why, MANY_ROWS, interval)
    why = f"{why}; the middle of both is near enough to either"
    return MERGE.found(round(middle), confidence, why, MANY_ROWS, interval, way=way)


__all__ = ["Merges", "Quantum", "Seen", "groups", "judge", "observe"]
