"""Where writes land, from what was observed: at their place on a platter, in a log on a platter, where no
head has to go, or nowhere that rotates; with confidence and a reason.

Every branch ends in a positive sign or in "unknown". Written in place needs writes whose completions follow
their address around the revolution; a log or flash needs writes that are fixed on a disk whose reads follow
a rotation; no platter needs reads too fast for any rotating disk and free of a rotation. The absence of one
sign is never taken for another. What the target is that writes so is the question of `verdict`.

Source: Skylight (FAST '15) section 4.3; `skylight.infer` for the statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from skylight.evidence import I64
from skylight.infer.log_phase_step import Advance
from skylight.infer.phase import FASTEST_RPM, Coherence
from skylight.infer.priors import CHOSEN
from skylight.infer.robust import (
    Spread,
    centre,
    confidence_that,
    folded_spread,
    uneven_spread,
    within_tick,
)
from skylight.infer.tail_probability import binomial_tail
from skylight.probe.drive_type import full_cache_medium
from skylight.probe.drive_type.full_cache_medium import Looked
from skylight.probe.drive_type.landing_by_readback import ReadBack
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.quick_readback import STEPS
from skylight.probe.drive_type.write_latencies import (
    FAST_NS,
    FAST_READ_NS,
    LARGE_BYTES,
    Writes,
    in_place,
    is_fixed,
    slow_flush,
    waiting,
)
from skylight.probe.drive_type.writes_after_random_reads import STALL_NS, Mixed
from skylight.units import format_duration, format_rotation, format_size

# One revolution at more than 17,000 rpm: fixed writes above it may be missed revolutions.
SLOW_FIXED_NS = 3_500_000
LEAST_CONFIDENCE = 0.5  # a verdict that half of the resamples do not share is none
UNEVEN = 0.25  # Kuiper distance above which latencies do not fill the revolution
AT_FLOOR_TURNS, LEAST_HIDDEN, MOST_HIDDEN = (0.03, 0.08), 0.15, 0.6
"""How near, in revolutions, a write with a FLUSH is to the quickest of them if it waited for the link alone,
for a host that keeps its pace and one that does not; and the part of all that may be. Chosen: where link and
host take 0.6 of a revolution, enough is left."""
BY_CHANCE = 1e-12
"""That completions follow the address as they do, at most, where that alone is to show it. Chosen: far below
what all steps of a test together make of chance."""
LARGE_VOLATILE_BYTES = 512 << 20  # a cache that takes as much is rather flash or memory than a disk's own

MANY_HOLES = 0.25  # share of places that hold nothing above which fast reads say nothing

Where = Literal["home", "log", "flash", "either", "unseen", "unknown"]
"""At their place; in a log on a platter; where no head has to go; one of these two; nowhere that rotates."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Where writes land, how sure that is, and why; `rows` are the steps it rests on."""

    where: Where
    confidence: float
    why: str
    rows: tuple[str, ...]
    cached: bool = False
    """Whether a cache stands before it that may be flash as well as volatile memory."""

    @property
    def logged(self) -> bool:
        """Whether they land elsewhere than at their place."""
        return self.where in ("log", "flash", "either")


def reads_fast(first_visits_ns: I64) -> bool:
    """True for reads faster than any rotating disk's."""
    return len(first_visits_ns) > 0 and centre(first_visits_ns) < FAST_READ_NS


def _median_below(limit_ns: float) -> Callable[[I64], bool]:
    return lambda latency_ns: centre(latency_ns) < limit_ns


def _unknown(why: str, *rows: str) -> Landing:
    return Landing("unknown", 0.0, why, rows)


def _cut(seen: Observed, before: str, *rows: str) -> Landing:
    if seen.quick:
        return _unknown(f"The time of a quick answer was over before {before}; probe without --quick.", *rows)
    return _unknown(seen.why_cut or f"The test was cut short before {before}; go on with --resume.", *rows)


def _ms(value_ns: float) -> str:
    return format_duration(value_ns)


def land(seen: Observed, kind: str) -> Landing:
    """Where writes to a target of this kind were seen to land."""
    found = _land(seen, kind)
    if found.where != "unknown" and found.confidence < LEAST_CONFIDENCE:
        close = f" That is too close to the limits (confidence {found.confidence:.2f})"
        return _unknown(f"{found.why}{close}; probe again, on an idle drive.", *found.rows)
    return found


def _land(seen: Observed, kind: str) -> Landing:
    if len(seen.reads_ns) == 0:
        return _unknown("The evidence holds no whole step of reads; go on with --resume or probe again.")
    turning = rotation(seen)
    if turning is None:
        return _without_rotation(seen, kind)
    if seen.wide is None:
        return _no_writes(seen, turning)
    found = _by_writes(seen, seen.wide, turning)
    if seen.emptied and found.where == "home":
        return _unknown(
            "Writes waited as for bands to be cleaned, and once the drive was emptied they are written in"
            " place: a contradiction, as where others use the drive; probe again, on an idle drive.",
            *found.rows,
        )
    return found


def rotation(seen: Observed) -> Coherence | None:
    """The rotation that reads, or else narrow writes, follow."""
    for signs in (seen.reads, seen.back, *(writes.tied for writes in reversed(seen.ladder))):
        if signs.rotates:
            return signs
    return None


def _turn(turning: Coherence) -> str:
    return f"a rotation of {format_rotation(turning.period_ns)}"


def _no_writes(seen: Observed, turning: Coherence) -> Landing:
    start = f"Reads follow {_turn(turning)}: a rotating disk. Whether it is shingled shows in writes only: "
    if seen.writes_allowed:
        why = seen.why_cut or "The test was cut short before them; go on with --resume."
        return _unknown(f"{start}that was not seen. {why}", "reads")
    return _unknown(start + "probe a drive whose data may be lost with --destroy-data.", "reads")


def _chance_of_speed(latency_ns: I64) -> float:
    """Upper bound of the chance that a rotating disk serves so many reads so fast.

    The wait for the angle alone is even over a revolution, so at most x / revolution of its reads take less
    than x; binomial tail at four limits, times four."""
    rotation_ns = 60e9 / FASTEST_RPM
    limits_ns = (500_000, 1_000_000, 2_000_000, FAST_READ_NS)
    tails = (
        binomial_tail(int(np.count_nonzero(latency_ns < limit)), len(latency_ns), limit / rotation_ns)
        for limit in limits_ns
    )
    return min(1.0, 4 * min(tails))


def _without_rotation(seen: Observed, kind: str) -> Landing:
    """No completions follow a rotation: not a rotating disk if it is also too fast for one."""
    if not reads_fast(seen.reads_ns):
        return _unknown(
            f"Reads take {_ms(centre(seen.reads_ns))} on average, as slow as a rotating disk's, but follow no"
            " rotation: a slow network or virtual disk, several or a busy disk; probe the bare, idle drive.",
            "reads",
        )
    median_ns = float(np.median(seen.reads_ns))
    if seen.wide is not None:
        spread = seen.wide.spread
        back_ns = centre(seen.back_ns) if len(seen.back_ns) else 0.0
        link_ns = median_ns * (2 if seen.wide.flushed else 1)  # what commands take at the least, or nearly so
        missed_turns = kind != "file" and spread.fixed and spread.median_ns - link_ns >= SLOW_FIXED_NS
        if missed_turns or back_ns >= FAST_READ_NS:
            return _unknown(
                f"Reads of blocks not written before take {_ms(median_ns)}, too fast for a rotating disk,"
                f" but {seen.wide.what} take {_ms(spread.median_ns)} and reading them back {_ms(back_ns)},"
                " which may be one that need not fetch such blocks; write the drive full once and probe"
                " again.",
                "reads", "writes-wide", "reads-back",
            )  # fmt: skip
    if seen.wide is None and seen.holes > MANY_HOLES:
        return _unknown(
            f"Reads take {_ms(median_ns)}, but {100 * seen.holes:.0f} % of the places looked at hold nothing"
            " but zeros: holes of a sparse file or blocks never written, which a file system or a drive may"
            " answer without the medium; probe one that is written in full, or let the test write to it"
            " (--destroy-data).",
            "reads",
        )
    chance = _chance_of_speed(seen.reads_ns)
    quick = confidence_that(seen.reads_ns, _median_below(FAST_READ_NS))
    untied = seen.reads.confidence if seen.reads.period_ns else 1.0  # a round too short to tell says nothing
    confidence = (1.0 - chance * untied) * quick
    why = (
        f"Random 4 KiB reads all over the target take {_ms(median_ns)} (median of {len(seen.reads_ns)}"
        " places) and follow no rotation; a rotating disk waits half a revolution,"
        f" {_ms(30e9 / FASTEST_RPM)} or more, and seeks."
    )
    if seen.wide is None:
        why += " Nothing was written, so this rests on reads of whatever the target holds."
    return Landing("unseen", confidence, why, ("reads",))


def _by_writes(seen: Observed, wide: Writes, turning: Coherence) -> Landing:
    """The disk rotates: what it does with writes decides."""
    mixed = seen.mixed
    if len(seen.crowded_ns):
        return _crowded(seen.crowded_ns, wide, turning, seen.looked)
    if mixed is not None and mixed.logged:
        return _logged(mixed)
    if wide.quick(turning) or (mixed is not None and mixed.level):
        slow = slow_flush(seen.flush_ns)
        if slow and mixed is not None and mixed.flushed and mixed.level:
            return _flushed_flash(mixed)
        if not slow and seen.few and mixed is not None and mixed.level:
            return _said_off(wide, mixed, turning.confidence * (1 - turning.p_value))
        if not slow and seen.read_back is not None:
            return _read_back(seen, wide, turning, seen.read_back)
        if wide.flushed and not slow:
            if seen.sustained.cleaned(wide):
                return _crowded(seen.sustained.latency_ns, wide, turning, None)
            return _unknown(
                f"{_ms(wide.spread.median_ns)} for a 4 KiB write and its FLUSH on a disk that follows"
                f" {_turn(turning)}: flash, or a volatile write cache that ignores FLUSH and is not known to"
                " be off; switch the write cache off (hdparm -W 0) and probe again.",
                *("reads", wide.name),
            )
        if seen.cleaned_early:
            return _not_waiting(seen, wide, turning)
        if not slow:
            return _kept(seen, wide, turning) or _doubted(seen, wide, turning)
    elif wide.fixed(turning):
        return _shingled(wide, turning)
    elif (found := _kept(seen, wide, turning)) is not None:
        return found
    for writes in seen.ladder:
        if writes.quick(turning):
            return _neither(writes, turning, "faster than over a wider region, as from a volatile cache")
        if writes.fixed(turning) and not _hidden_by_ticks(writes, turning):
            return _shingled(writes, turning)
    if len(seen.ladder) < 2:
        return _cut(seen, "writes were repeated in a narrow region", wide.name)
    return _conventional(seen.ladder[-1], turning)


def _alike(steps: Advance) -> str:
    """Words for how alike the steps of a log are."""
    times = f" taken {steps.times} times over" if steps.times > 1 else ""
    return f"mean phase vector {steps.length:.2f} of 1 over {steps.count} steps{times}"


def _logged(mixed: Mixed) -> Landing:
    """Writes that go on from one another around the revolution, whatever came between: a log on the
    platter."""
    confidence = mixed.logged_confidence
    why = (
        "Random 4 KiB writes with a random read before each complete like parts of a revolution after one"
        f" another ({_alike(mixed.steps)}) on a disk whose reads follow {_turn(mixed.turning)}: they are"
        " appended to a log on the platter, not written in place."
    )
    return Landing("log", confidence, why, ("reads", mixed.name))


def _crowded(latency_ns: I64, wide: Writes, turning: Coherence, looked: Looked | None) -> Landing:
    """Writes of which many wait longer than for any place on a disk: a cache that is full."""
    late = int(np.count_nonzero(latency_ns >= STALL_NS))
    why = (
        f"On a disk that follows {_turn(turning)} {late} of {len(latency_ns)} random writes, or reads between"
        f" them, waited {_ms(STALL_NS)} or longer, and all {_ms(float(latency_ns.mean()))} on average, as for"
        " bands to be cleaned: they go to a persistent cache that is full."
    )
    confidence = turning.confidence * (1 - turning.p_value)
    if looked is None or not looked.on_platter:
        return Landing("either", confidence, why, ("reads", wide.name))
    why += (
        f" It is on the platter: reading {looked.away} of {looked.written} written blocks between their"
        " neighbours takes three revolutions or more, as from elsewhere on the disk, and of blocks not"
        f" written {looked.controls_away} of {looked.controls}."
    )
    confidence *= 1 - looked.p_value
    return Landing("log", confidence, why, ("reads", wide.name, full_cache_medium.NAME))


def _flushed_flash(mixed: Mixed) -> Landing:
    """Writes that FLUSH brings to a medium, which wait neither for the arm nor for an angle."""
    median = _ms(float(np.median(mixed.latency_ns)))
    why = (
        f"Random 4 KiB writes with a FLUSH each take {median} after a random read on a disk whose reads"
        f" follow {_turn(mixed.turning)}, and FLUSH has work to do: they go to a flash cache, since they wait"
        " neither for the arm after a read nor for an angle."
    )
    confidence = mixed.turning.confidence * (1 - mixed.turning.p_value) * mixed.level_confidence
    return Landing("flash", confidence, why, ("reads", mixed.name, "flush"))


def _said_off(wide: Writes, mixed: Mixed, confidence: float) -> Landing:
    """Writes that wait for nothing but bands being cleaned, on a drive that says that no volatile cache is
    on: flash, unless that is a lie and FLUSH is one too."""
    why = (
        f"Random {wide.what} take {_ms(wide.spread.median_ns)}, as long after a random read as ever, with the"
        " volatile write cache off by the drive's word and a FLUSH that finds nothing to do, and they stall"
        " as for bands to be cleaned: they go to a flash cache."
    )
    return Landing(
        "flash", confidence * mixed.level_confidence * (1 - CHOSEN["off, lying"]), why, ("reads", mixed.name)
    )


def _kept(seen: Observed, wide: Writes, turning: Coherence) -> Landing | None:
    """Fast writes that are kept in flash, or are seen in place with a FLUSH each; None where neither was."""
    if (kept := seen.kept) is None or not kept.whole:
        return None
    if kept.denies and len(seen.flushed_narrow) > 1:
        home = _conventional(seen.flushed_narrow[-1], turning)
        return home if home.where == "home" else None
    if not kept.says:
        return None
    writes = f"On a disk that follows {_turn(turning)} random {wide.what} take {_ms(wide.spread.median_ns)}"
    rows = ("reads", wide.name, *(["flush"] if len(seen.flush_ns) else []), *STEPS)
    confidence = (
        turning.confidence
        * (1 - turning.p_value)
        * kept.confidence
        * (1 - CHOSEN["off, lying"] * CHOSEN["lying, stays dirty"])
    )
    return Landing("flash", confidence, kept.why(writes, flushed=len(seen.flush_ns) > 0), rows)


def _read_back(seen: Observed, wide: Writes, turning: Coherence, back: ReadBack) -> Landing:
    """Fast writes whose medium only reading them back shows."""
    rows = ("reads", wide.name, "flush", *seen.sustained.rows, "read-back")
    between = seen.sustained.total_bytes
    start = (
        f"On a disk that follows {_turn(turning)} random {wide.what} take {_ms(wide.spread.median_ns)} and a"
        f" FLUSH finds nothing to do; blocks written before and after {format_size(between)} of others"
    )
    confidence = turning.confidence * (1 - turning.p_value)
    contradicts = back.where == "home" and (seen.stalled or seen.sustained.waits_as_for_bands)
    late_alone = back.where == "flash" and not back.all_unseen
    kept = seen.stalled or (seen.settled is not None and seen.settled.with_band)
    if (back.where == "unknown" or late_alone) and seen.stalled:
        mixed = seen.mixed
        if not wide.flushed and mixed is not None and mixed.level:
            return _said_off(wide, mixed, confidence)
        if not late_alone:
            return _crowded(seen.sustained.latency_ns, wide, turning, None)
    if back.where == "home" and not contradicts:
        confidence *= back.tied.confidence * (1 - back.tied.p_value)
        why = f"{start} are read at one angle where they are neighbours: written in place, behind a cache."
        return Landing("home", confidence, why, rows, seen.sustained.held_bytes >= LARGE_VOLATILE_BYTES)
    if back.where == "log":
        why = (
            f"{start} are read from a platter, but neighbours at no common angle: they are written to a log."
        )
        return Landing("log", confidence * (1 - CHOSEN["not home, mistaken"]), why, rows)
    # Memory that has not yet written out answers so too, but no band is cleaned for what it takes.
    if back.where == "unknown" or contradicts or (late_alone and not kept):
        return _unknown(
            f"{start} are read neither alike nor at angles that say whether they lie at their places: flash,"
            " or a volatile write cache that is on and ignores FLUSH; connect the drive without a bridge in"
            " between, switch its write cache off (hdparm -W 0), leave it idle for an hour and probe again.",
            *rows,
        )
    found = _doubted(seen, wide, turning)
    return replace(found, confidence=found.confidence * (CHOSEN["late alone, flash"] if late_alone else 1.0))


def _doubted(seen: Observed, wide: Writes, turning: Coherence) -> Landing:
    """Fast writes after which a FLUSH had nothing to do: did more than a volatile cache holds stay fast?"""
    more = seen.sustained
    written = format_size(more.total_bytes)
    start = (
        f"On a disk that follows {_turn(turning)} random {wide.what} take {_ms(wide.spread.median_ns)} and a"
        " FLUSH finds nothing to do"
    )
    rows = ("reads", wide.name, "flush", *more.rows)
    if len(seen.flush_ns) == 0 or (len(more.tail_ns) == 0 and not seen.outlasts):
        if seen.kept is not None and not seen.kept.whole:
            return _unknown(f"{start}, but {seen.kept.cut_words}; probe without --quick.", *rows, *STEPS)
        return _cut(seen, "fast writes were doubted", wide.name)
    if len(more.tail_ns) and more.slow(wide):
        return _unknown(
            f"{start}, but after {written} of random writes of {format_size(LARGE_BYTES)} the last take"
            f" {_ms(float(np.median(more.tail_ns)))} (median): a volatile write cache that is on, whatever"
            " the drive says, and ignores FLUSH, or a flash cache that is full; connect the drive without a"
            " bridge in between, switch its write cache off (hdparm -W 0), leave it idle for an hour and"
            " probe again.",
            *rows,
        )
    if seen.kept is not None and seen.kept.denies and not more.cleaned(wide):
        return _unknown(
            f"{start}, but behind {format_size(seen.kept.between_bytes)} of others what was written is read"
            " from a platter: a volatile write cache that is on, whatever the drive says, ignores FLUSH, and"
            " is written out as fast as this host fills it; connect the drive without a bridge in between,"
            " switch its write cache off (hdparm -W 0) and probe again.",
            *(*rows, *STEPS),
        )
    if not more.enough(wide) and not seen.outlasts:
        mend = "go on with --resume if the test was cut short, or probe the whole disk"
        if seen.quick:
            mend = "probe without --quick, which had no time for more"
        return _unknown(
            f"{start}, but only {written} more were written, which a volatile cache may hold; {mend}.", *rows
        )
    return _not_waiting(seen, wide, turning)


def _stalls(latency_ns: I64) -> str:
    """Words for the writes that waited while the drive cleaned."""
    stalls = int(np.count_nonzero(latency_ns >= STALL_NS))
    if not stalls:
        return ""
    return f" ({stalls:,} of {len(latency_ns):,} waited {_ms(STALL_NS)} or longer, as for cleaning)"


def _kept_up(seen: Observed, wide: Writes) -> tuple[float, str]:
    """How sure it is that a volatile cache would not have kept up, and words for why."""
    more, mixed = seen.sustained, seen.mixed
    if mixed is not None and len(more.tail_ns) == 0:
        return (
            1.0,
            f", longer than a quarter of the reads ({_ms(mixed.quarter_ns)}), as no volatile cache does",
        )
    slow = waiting(more.limit_ns(wide))
    words = (
        f", and each of {len(more.latency_ns):,} more of {format_size(LARGE_BYTES)},"
        f" {format_size(more.total_bytes)} in all, {_ms(float(np.median(more.tail_ns)))}"
        f"{_stalls(more.latency_ns)}"
    )
    return confidence_that(more.tail_ns, lambda drawn: not slow(drawn)), words


def _not_waiting(seen: Observed, wide: Writes, turning: Coherence) -> Landing:
    """Writes that stay quick without a volatile cache: flash under 1 ms, else flash or an eager log."""
    rows: tuple[str, ...] = ("reads", wide.name)
    confidence = turning.confidence * (1 - turning.p_value)
    why = (
        f"Reads follow {_turn(turning)}, so a platter rotates, but random {wide.what} take"
        f" {_ms(wide.spread.median_ns)}"
    )
    if seen.cleaned_early:
        why += f"{_stalls(wide.latency_ns)}: "
    else:
        rows += ("flush", *seen.sustained.rows)
        kept, words = _kept_up(seen, wide)
        confidence *= kept
        why += f", a FLUSH after them {_ms(float(np.median(seen.flush_ns)))}{words}: "
    mixed = seen.mixed
    if mixed is not None and mixed.level:
        confidence *= mixed.level_confidence
        why += "they go to a flash cache, since they wait neither for the arm after a read nor for an angle."
        return Landing("flash", confidence, why, (*rows, mixed.name))
    if wide.spread.median_ns < FAST_NS:
        confidence *= confidence_that(wide.latency_ns, _median_below(FAST_NS))
        return Landing("flash", confidence, why + "they go to a flash cache.", rows)
    confidence *= confidence_that(wide.latency_ns, lambda drawn: Spread.of(drawn, wide.tick_ns).fixed)
    why += "they are not written in place, but less than a revolution fits flash as well as a log on disk."
    return Landing("either", confidence, why, rows)


def _shingled(writes: Writes, turning: Coherence) -> Landing:
    """Fixed latency on a rotating disk: appended to a log. Where that lies, only writes after reads tell."""
    spread = writes.spread
    turns = spread.median_ns / turning.period_ns
    confidence = turning.confidence * (1 - turning.p_value)
    confidence *= confidence_that(writes.latency_ns, lambda drawn: is_fixed(drawn, turning, writes.tick_ns))
    arc = folded_spread(writes.latency_ns, turning.period_ns)
    how = (
        f"interquartile range {100 * spread.relative:.1f} % of it"
        if spread.fixed
        else f"give or take whole revolutions: half of them within {100 * arc:.1f} % of a revolution"
    )
    why = (
        f"Random {writes.what} take a fixed {_ms(spread.median_ns)}, {turns:.2f} revolutions ({how}), on a"
        f" disk whose reads follow {_turn(turning)}: they are appended to a log, not written in place."
    )
    return Landing("either", confidence, why, ("reads", writes.name))


def _neither(writes: Writes, turning: Coherence, what: str) -> Landing:
    spread = writes.spread
    return _unknown(
        f"Random {writes.what} on a disk that follows {_turn(turning)} take {_ms(spread.median_ns)}"
        f" (quartiles {_ms(spread.q1_ns)} to {_ms(spread.q3_ns)}), {what}; leave the drive idle for an hour"
        " and probe again.",
        "reads", writes.name,
    )  # fmt: skip


def unevenness(writes: Writes, period_ns: float) -> float:
    """How far latencies are from an even spread over a revolution. Over a slow link a write with a FLUSH
    lasts as long as both commands at least; the medium had done those with a shorter wait by then, and the
    others are spread over what is left of the revolution."""
    latency_ns = within_tick(writes.latency_ns, writes.tick_ns)
    least = uneven_spread(latency_ns, period_ns)
    for turns in AT_FLOOR_TURNS if writes.flushed else ():
        hidden = latency_ns < latency_ns.min() + max(turns * period_ns, 2 * writes.tick_ns)
        share = float(np.mean(hidden))
        if LEAST_HIDDEN < share < MOST_HIDDEN:
            seen_ns = latency_ns[~hidden]
            least = min(least, uneven_spread(seen_ns - seen_ns.min(), (1 - share) * period_ns))
    return least


def _hidden_by_ticks(writes: Writes, turning: Coherence) -> bool:
    """Whether writes are in place, though the ticks of the clock hide that they vary: their completions
    follow the address as those of a log never do."""
    return writes.ticks_hide(turning) and writes.tied.p_value <= BY_CHANCE and in_place(writes, turning)


def _conventional(writes: Writes, turning: Coherence) -> Landing:
    """Varying in the narrowest region: conventional if written in place, which shows in the phase."""
    spread, tied = writes.spread, writes.tied
    if _hidden_by_ticks(writes, turning):
        why = (
            f"Completions of random {writes.what} follow their address around {_turn(tied)}, beyond what the"
            f" ticks of {_ms(writes.tick_ns)} of this clock hide: they are written in place."
        )
        confidence = turning.confidence * tied.confidence * (1 - tied.p_value)
        return Landing("home", confidence, why, ("reads", writes.name))
    if not spread.varying:
        return _neither(writes, turning, "neither fixed nor varying")
    if not in_place(writes, turning):
        return _neither(
            writes, turning, "varying, but completions do not follow the address as writes in place do"
        )
    if unevenness(writes, tied.period_ns) > UNEVEN:
        what = "varying, but not evenly over a revolution as waits for an angle are"
        return _neither(writes, turning, what)
    confidence = turning.confidence * tied.confidence * (1 - tied.p_value)
    confidence *= confidence_that(writes.latency_ns, lambda drawn: Spread.of(drawn, writes.tick_ns).varying)
    why = (
        f"Random {writes.what} vary evenly over a revolution (quartiles {_ms(spread.q1_ns)} to"
        f" {_ms(spread.q3_ns)}) and their completions follow their address around {_turn(tied)}: they are"
        " written in place."
    )
    return Landing("home", confidence, why, ("reads", writes.name))
