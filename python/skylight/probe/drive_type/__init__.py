"""Test 1, drive type: conventional, shingled with a disk or a flash cache, or not a rotating disk.

Reads show whether a platter rotates: completions of random 4 KiB reads all over the target, four near each
other at each of 64 places, either follow a rotation or do not (`skylight.infer.phase`). Writes tell what the
drive does with them: random 4 KiB writes, one at a time, volatile write cache off, in the first 1 GiB. A
conventional disk seeks and waits for an angle, so latency varies over a revolution and completions follow the
address; a shingled disk appends them to its persistent cache, so latency is fixed and follows no address, and
below a millisecond when that cache is flash.

Writes with a random read before each tell a log on the platter from flash, whatever either takes (`mixed`).

The test adapts. A drive with many cache bands (`a mod n` of a set-associative layer) varies over 1 GiB
although each band is a log, so varying writes are repeated within 16 MiB and 4 MiB before "conventional" is
said. Where the write cache is not known to be off, a FLUSH follows each write and the pair is timed. Writes
that complete at once on a rotating disk are doubted, whatever the drive says of its write cache: a FLUSH must
then find nothing to do, and more data than a volatile cache holds must be written as fast.

That writes go to a log does not make a disk shingled: what it costs to bring a block home does (`settling`).
That they are written in place at the start does not make it conventional: other parts are asked too. What the
target is follows from all of it by the models of `hypotheses`.

Invariant: the procedure decides what to do next with the same functions that the verdict judges with, so
evidence holds what the verdict needs. Confidence is the product of bootstrap shares (how often resampled
evidence passes the same limits) and of one minus the chances named in the reason; an unknown has none.

Source: Skylight (FAST '15) section 4.3, Test 1 and Figure 4; docs/figures.md, rows S1a to S1e.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skylight.errors import UsageError
from skylight.evidence import I64, U64, Evidence, IoBatch, IoLog, Op, Params, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.phase import Coherence
from skylight.probe import Cost, Figure, fua_writes
from skylight.probe.drive_type import (
    cleaning_cost,
    full_cache_medium,
    landing_by_fua,
    landing_by_readback,
    quick_readback,
    zone_mapper_writes,
)
from skylight.probe.drive_type.clues_of_later_tests import bands_seen, medium_by_place
from skylight.probe.drive_type.figures import draw
from skylight.probe.drive_type.findings import CACHE_MEDIUM, DRIVE_TYPE, FINDINGS
from skylight.probe.drive_type.landing import land, reads_fast, rotation
from skylight.probe.drive_type.landing_by_fua import landed
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.plan import (
    CROWDED,
    DECISIVE,
    FLUSHED_BURST,
    FLUSHES,
    IO_BYTES,
    LEAST_HELD,
    MIXED_PIECE,
    NARROW_BYTES,
    PLACES,
    ROUND_IOS,
    STALLING,
    SUSTAINED_REGION_BYTES,
    SUSTAINED_WRITES,
    VISITS,
    WIDE_BYTES,
    WIDE_WRITES,
    Plan,
)
from skylight.probe.drive_type.step_logs import mixed_of, read_signs, writes_of
from skylight.probe.drive_type.verdict import Verdict, in_log, judge
from skylight.probe.drive_type.write_latencies import (
    FEWEST_SHARE,
    LARGE_BYTES,
    Sustained,
    Writes,
    cleaned_early,
    in_place,
    outlasts_everything,
    slow_flush,
    took_too_long,
)
from skylight.probe.drive_type.writes_after_random_reads import MORE_PAIRS, PAIRS, STALL_NS, Mixed
from skylight.probe.fua_writes import ForcedWrites
from skylight.probe.known_state import State
from skylight.probe.procedure import CutShort, ProcedureTest, Replay, Steps

SUSTAINED_PIECE, LATER_PIECE, LATER = 256, 2_048, 2_048  # writes in a piece, and in one after the first 2,048
SLOW_FLUSH_NS = 1_000_000_000
"""From here on a FLUSH waited for more than a disk does, be it for a few retries."""
MOST_PIECES = 96  # most are shorter where bands are cleaned all the time
MORE_PLACES = 96
"""Chosen: with those before four times as many, which take a few seconds of a minute."""
# A quick answer's shares of its device time: the rest is for sustained writes, which need half a minute.
WIDE_SHARE, MIXED_SHARE, FLUSH_SHARE = 0.2, 0.3, 0.1
LEAST_TARGET_BYTES = 4 << 20
MOST_READ_S, LIKELY_READ_S = 120.0, 5.0
MOST_S, LIKELY_S, UNSHINGLED_S = 1_800.0, 35.0, 25.0
TIMES = 2  # all may be written once more, when a cache that was full has been emptied
NARROW = ("writes-narrow", "writes-narrowest")
MORE_BY_TICKS = 4  # times as many narrow writes where the ticks of a clock hide how they vary
FLUSHED_NARROW = ("writes-narrow-flushed", "writes-narrowest-flushed")


class DriveType(ProcedureTest[Observed]):
    """Test 1 of the suite; see the module's page."""

    name = "drive_type"
    title = "Drive type"
    findings = FINDINGS
    summary = (
        "Random 4 KiB reads over the whole target, or for a quick answer over its first 4 GiB, show whether a"
        " platter rotates; random 4 KiB writes in its first 1 GiB, one at a time with the volatile write"
        " cache off, show whether they are written in place or to a persistent cache."
    )
    rests_on_type = False
    answers_quickly = True
    resets_when_quick = False
    runs_in_a_file = True
    judges_part = True
    begin = Observed

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: the longest branch, fast writes that are doubted, then flushed, on a drive whose
        sustained writes stall."""
        reads = 2 * PLACES * VISITS + landing_by_readback.MOST_READS + full_cache_medium.MOST_READS
        reads = TIMES * reads + cleaning_cost.MOST_READS
        reads += zone_mapper_writes.READS
        places = zone_mapper_writes.writes_for(facts.size_bytes)
        narrow = (len(NARROW_BYTES) + MORE_BY_TICKS) * PLACES * VISITS
        sustained, settled = TIMES * SUSTAINED_WRITES, cleaning_cost.MOST_WRITES
        single = TIMES * (
            WIDE_WRITES
            + FLUSHES * FLUSHED_BURST
            + narrow
            + 2 * (PAIRS + MORE_PAIRS)
            + PLACES * VISITS
            + 2 * PLACES
        )
        single += places + zone_mapper_writes.NEW + zone_mapper_writes.AGAIN
        sustained += TIMES * landing_by_readback.MOST_AROUND
        block = max(IO_BYTES, facts.block_bytes)
        written = (single + settled * cleaning_cost.UNIT_BLOCKS) * block
        written += min(sustained * LARGE_BYTES, facts.size_bytes)
        written += (PAIRS + MORE_PAIRS + 2 * fua_writes.PAIRS) * block + fua_writes.MOST_BYTES
        flushes = TIMES * (2 * FLUSHES + narrow + PLACES * VISITS) + 2 + places
        ios = reads + single + sustained + settled + flushes + TIMES * 3 * (PAIRS + MORE_PAIRS)
        ios += 2 * (PAIRS + MORE_PAIRS) + fua_writes.MOST_IOS
        return Cost(ios, MOST_S, written, LIKELY_S, UNSHINGLED_S)

    def cost_of_reads(self, facts: TargetFacts) -> Cost:
        """Reads of random places alone."""
        del facts
        return Cost(PLACES * VISITS, MOST_READ_S, 0, LIKELY_READ_S, LIKELY_READ_S)

    def procedure(self, steps: Steps, seen: Observed) -> None:
        """Reads, then writes if they are allowed, then narrower writes as long as those vary."""
        zones = steps.zones("zones") if steps.can_write else None
        seen.zoned = zones is not None and zones.usable > 0
        plan = Plan(steps, zones if seen.zoned else None)
        if plan.reach < LEAST_TARGET_BYTES:
            raise UsageError(
                f"{steps.target.name}: {steps.size} bytes are too small to probe; at least"
                f" {LEAST_TARGET_BYTES >> 20} MiB are needed"
            )
        seen.quick, seen.writes_allowed = plan.quick, steps.can_write
        if not plan.fill():
            return
        reads_ios = plan.places * VISITS
        steps.expect(reads_ios + (plan.wide_writes + 2 * PAIRS + reads_ios if steps.can_write else 0))
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            where = plan.rounds("reads", plan.reach)
            holes = steps.holes(where)
            seen.holes = holes or 0.0
            params = {} if holes is None else {"holes": holes}
            self._reads(plan, seen, where, params)
            if steps.can_write and not steps.spent():
                flushed = report.write_cache is not False
                self._writes(plan, seen, flushed=flushed)
                if not plan.quick:
                    self._empty(plan, seen, flushed=flushed)
                    self._force(plan, seen)
                self._explain(plan, seen, flushed=flushed)

    def _writes(self, plan: Plan, seen: Observed, *, flushed: bool) -> None:
        steps, region = plan.steps, plan.region(WIDE_BYTES)
        where = plan.scattered("writes-wide", region, plan.wide_writes)
        if flushed:
            steps.expect(plan.places * VISITS * 2 + 2 * len(where))
        io = plan.writes(where, flushed=flushed)
        params = plan.params(region, flushed=flushed)
        try:
            log = plan.until_crowded("writes-wide", io, params, WIDE_SHARE)
        except CutShort as cut:
            self._cut_in_wide(plan, seen, cut, region, flushed=flushed)
            raise
        wide = writes_of("writes-wide", log, region, flushed=flushed)
        if len(wide.latency_ns):
            seen.wide = wide
        if not plan.quick and CROWDED.reached(log) and took_too_long(wide.latency_ns, cached=0):
            self._crowd(plan, seen, wide.latency_ns, log)
            return
        if steps.spent() or seen.wide is None:
            return
        if not seen.reads.rotates and reads_fast(seen.reads_ns):
            # A drive may answer reads of blocks never written without the platter; these it has to fetch.
            back = plan.read_back("reads-back", log)
            seen.back_ns, seen.back = read_signs(plan, self._read(plan, "reads-back", back, region))
            if not seen.back.rotates:
                seen.flush_ns = self._flush(plan, region)
                return
        turning = next((reads for reads in (seen.reads, seen.back) if reads.rotates), None)
        if turning is not None:
            share = 1.0 if cleaned_early(wide, None) else MIXED_SHARE
            seen.mixed = self._mix(plan, turning, flushed=flushed, share=share)
        mixed = seen.mixed
        if mixed is not None and not plan.quick and took_too_long(mixed.all_ns):
            self._crowd(plan, seen, mixed.all_ns, log)
            return
        if steps.spent() or (mixed is not None and mixed.logged and (wide.fixed(turning) or plan.quick)):
            return
        if not (wide.quick(turning) or (mixed is not None and mixed.level)):
            if not wide.fixed(turning):
                self._narrow(plan, seen.narrow, turning, NARROW, flushed=flushed)
                if plan.quick and not flushed:
                    self._look_behind_host(plan, seen, turning)
            return
        if plan.quick and (flushed or cleaned_early(wide, mixed)):
            return
        seen.flush_ns = self._flush(plan, region)
        if slow_flush(seen.flush_ns):
            if turning is not None and not flushed:
                seen.mixed = self._mix(plan, turning, flushed=True, share=MIXED_SHARE)
            if seen.mixed is None or not seen.mixed.level:
                self._narrow(plan, seen.flushed_narrow, turning, FLUSHED_NARROW, flushed=True)
                if not plan.quick and turning is not None:
                    self._doubt_flushed(plan, seen, turning, log)
        elif plan.held:
            seen.few = True  # what would doubt them fills the cache once more
        elif plan.quick:
            if (mixed is None or not mixed.outlasts) and turning is not None:
                self._outlast(plan, seen, wide, turning)
        else:
            self._doubt(plan, seen, wide)

    @staticmethod
    def _cut_in_wide(plan: Plan, seen: Observed, cut: CutShort, region: int, *, flushed: bool) -> None:
        """Of writes that the bound cut short what one shows that outlasts any disk: a cache that is full."""
        if cut.log is None or plan.quick:
            return
        wide = writes_of("writes-wide", cut.log, region, flushed=flushed)
        if outlasts_everything(wide.latency_ns, cached=0):
            seen.wide, seen.crowded_ns = wide, wide.latency_ns

    @staticmethod
    def _crowd(plan: Plan, seen: Observed, crowded_ns: I64, wide: IoLog) -> None:
        """Of a cache that is full only looks at what was written tell where it is."""
        seen.crowded_ns, turning = crowded_ns, rotation(seen)
        if turning is not None:
            seen.looked = full_cache_medium.look(plan, wide, turning.period_ns)

    @classmethod
    def _doubt_flushed(cls, plan: Plan, seen: Observed, turning: Coherence, wide: IoLog) -> None:
        """Writes with a FLUSH each that neither follow the address nor are alike may wait for bands to be
        cleaned: behind a volatile cache the FLUSH waits, where writes alone look quick."""
        if any(writes.fixed(turning) or in_place(writes, turning) for writes in seen.flushed_narrow):
            return
        for writes in seen.flushed_narrow:
            if full_cache_medium.waits_for_bands(writes.latency_ns):
                cls._crowd(plan, seen, writes.latency_ns, wide)
                return

    def _empty(self, plan: Plan, seen: Observed, *, flushed: bool) -> None:
        """Empties a cache so full that writes do not show where it is, and writes once more. Not where zones
        would have to be filled again."""
        turning = rotation(seen)
        if turning is None or seen.zoned or not len(seen.crowded_ns):
            return
        if land(seen, plan.steps.target.kind).where != "either":
            return
        if plan.steps.reset("emptied", rotation_ns=turning.period_ns) is not State.UNKNOWN:
            held = self._held(seen.wide) if not flushed else 0
            seen.write_anew()
            self._writes(replace(plan, held=held), seen, flushed=flushed)

    @staticmethod
    def _held(wide: Writes | None) -> int:
        """How many writes a cache took that was full before all were done; 0 where it took all, or so few
        that a part of them shows nothing."""
        if wide is None or not np.any(wide.latency_ns >= STALL_NS):
            return 0
        held = int(np.argmax(wide.latency_ns >= STALL_NS))
        return held if held >= LEAST_HELD else 0

    def _force(self, plan: Plan, seen: Observed) -> None:
        """Writes with FUA where what plain ones show is a volatile cache alone. Where they filled the
        persistent cache once more, that is emptied first: each would wait for bands to be cleaned."""
        turning = rotation(seen)
        if turning is None or not landing_by_fua.is_open(seen, plan.steps.target.kind):
            return
        if len(seen.crowded_ns) and (
            plan.steps.reset("emptied", rotation_ns=turning.period_ns) is State.UNKNOWN
        ):
            return
        forced = landing_by_fua.forced(plan, turning.period_ns)
        if forced is not None:
            seen.forced = self._mix(forced, turning, flushed=False, name=landing_by_fua.NAME)

    def _doubt(self, plan: Plan, seen: Observed, wide: Writes) -> None:
        """More writes than a volatile cache holds, and blocks written before and after them, read back."""
        turning = rotation(seen)
        if turning is None or plan.reach < landing_by_readback.LEAST_TARGET_BYTES:
            self._sustain(plan, seen, wide)
            return
        early = landing_by_readback.write_early(plan)
        if took_too_long(early.latency_ns):
            seen.crowded_ns = early.latency_ns
            return
        self._sustain(plan, seen, wide)
        late = landing_by_readback.write_late(plan)
        usual_ns = float(np.median(seen.reads_ns if seen.reads.rotates else seen.back_ns))
        waited_ns, stays = landing_by_readback.rest(plan, usual_ns)
        if took_too_long(waited_ns):
            seen.crowded_ns = waited_ns
            return
        seen.read_back = landing_by_readback.read_all(plan, (early, late), usual_ns, turning, kept=stays)

    def _outlast(self, plan: Plan, seen: Observed, wide: Writes, turning: Coherence) -> None:
        """Whether fast writes outlast a volatile cache, as far as a quick answer has time: more than it
        holds. On a slow host such a cache keeps up with them, and on a busy one they are not fast: there
        bytes decide, not how fast they go; what they are written for then is to see bands cleaned. Nor do
        they decide where the host leaves no time for as many."""
        if wide.slow_enough:
            seen.kept = quick_readback.look(plan, turning, by_reads=True)
            if seen.kept is not None and seen.kept.denies and self._flushed(plan, seen, turning):
                return
        self._sustain(plan, seen, wide)
        more = seen.sustained
        if seen.kept is not None or not more.tells or more.cleaned(wide):
            return
        if more.slow(wide) or not more.enough(wide):
            seen.kept = quick_readback.look(plan, turning, by_reads=False)

    @staticmethod
    def _look_behind_host(plan: Plan, seen: Observed, turning: Coherence | None) -> None:
        """Whether writes are kept in flash, where the time that they take shows nothing: they follow no
        address, go on from nothing and are not alike, which a busy host alone explains."""
        if turning is None or len(seen.narrow) < len(NARROW):
            return
        if not any(writes.fixed(turning) or in_place(writes, turning) for writes in seen.narrow):
            seen.kept = quick_readback.look(plan, turning, by_reads=True, rests=quick_readback.LATE_RESTS)

    def _flushed(self, plan: Plan, seen: Observed, turning: Coherence) -> bool:
        """Whether writes with a FLUSH each show where they land, behind a volatile cache that is on: on a
        slow host FLUSH alone may find nothing to do, for the drive has written out by then."""
        mixed = self._mix(plan, turning, flushed=True, share=MIXED_SHARE)
        if mixed.logged:
            seen.mixed = mixed
            return True
        self._narrow(plan, seen.flushed_narrow, turning, FLUSHED_NARROW, flushed=True)
        return bool(seen.flushed_narrow) and in_place(seen.flushed_narrow[-1], turning)

    def _explain(self, plan: Plan, seen: Observed, *, flushed: bool) -> None:
        """What still separates models once it is known where writes land at the start; of a quick answer
        whether they are in place elsewhere too."""
        where, turning = landed(seen, plan.steps.target.kind), rotation(seen)
        if turning is None:
            return
        if where.where == "home" and seen.read_back is None and len(begins := plan.elsewhere()):
            self._look_elsewhere(plan, seen, begins, turning, flushed=flushed or bool(seen.flushed_narrow))
        if plan.quick:
            return
        is_open = land(seen, plan.steps.target.kind).where in landing_by_fua.OPEN
        by_fua = seen.forced is not None and is_open
        logged = where.logged or any(in_log(writes, turning) for writes in seen.elsewhere)
        logged = logged or any(mixed.logged for mixed in seen.mixed_elsewhere.values())
        # Behind a cache that FLUSH does not empty, what leaves that looks as if it moved.
        in_flash = seen.read_back is not None and seen.read_back.where == "flash"
        kept = in_flash or (logged and (by_fua or seen.read_back is None))
        if kept and not seen.stalled:
            sent = replace(plan, cached=flushed)
            sent = replace(sent, steps=ForcedWrites(plan.steps)) if by_fua else sent
            seen.settled = cleaning_cost.settle(sent, turning.period_ns)

    def _look_elsewhere(
        self, plan: Plan, seen: Observed, begins: U64, turning: Coherence, *, flushed: bool
    ) -> None:
        """Whether writes are in place in other parts too; host-aware drives have a conventional start."""
        log = self._write(plan, "writes-elsewhere", begins, plan.whole, flushed=flushed)
        rows = ROUND_IOS * (2 if flushed else 1)
        seen.elsewhere = tuple(
            writes_of(
                "writes-elsewhere", log.rows(slice(first, first + rows)), NARROW_BYTES[-1],
                flushed=flushed, place_bytes=plan.place_bytes, turning=turning if plan.quick else None,
            )
            for first in range(0, len(log), rows)
        )  # fmt: skip
        if not plan.quick:
            for number, writes in enumerate(seen.elsewhere):
                if not in_place(writes, turning) and not in_log(writes, turning):
                    name = f"writes-elsewhere-{number + 1}-after-reads"
                    begin = plan.part_begins()[number]
                    mixed = self._mix(plan, turning, flushed=flushed, name=name, begin=begin)
                    seen.mixed_elsewhere[number] = mixed
        if all(in_place(writes, turning) for writes in seen.elsewhere):
            seen.all_over = zone_mapper_writes.look(plan, flushed=flushed)

    @staticmethod
    def _flush(plan: Plan, region: int) -> I64:
        """How long FLUSH takes after a few writes."""
        log = plan.steps.run("flush", plan.bursts(region), params=plan.params(region), share=FLUSH_SHARE)
        return log.only(Op.FLUSH).latency_ns

    @classmethod
    def _reads(cls, plan: Plan, seen: Observed, where: U64, params: Params) -> None:
        """Whether a platter rotates under reads; a quick answer reads more where a busy host may hide it."""
        log = cls._read(plan, "reads", where, plan.reach, params)
        seen.reads_ns, seen.reads = read_signs(plan, log)
        if plan.quick and not seen.reads.rotates and not reads_fast(seen.reads_ns):
            more = plan.rounds("reads-more", plan.reach, MORE_PLACES)
            log = IoLog.joined([log, cls._read(plan, "reads-more", more, plan.reach)])
            seen.reads_ns, signs = read_signs(plan, log)
            seen.reads = replace(signs, p_value=min(1.0, 2 * signs.p_value))  # the second look

    @staticmethod
    def _read(plan: Plan, name: str, where: U64, region: int, params: Params | None = None) -> IoLog:
        """Reads of rounds of places."""
        io = IoBatch.reads(where, plan.io_bytes)
        return plan.steps.run(name, io, params={**plan.params(region), **(params or {})})

    @staticmethod
    def _write(plan: Plan, name: str, where: U64, region: int, *, flushed: bool) -> IoLog:
        io, params = plan.writes(where, flushed=flushed), plan.params(region, flushed=flushed)
        return plan.steps.run(name, io, params=params, share=WIDE_SHARE)

    @classmethod
    def _mix(
        cls,
        plan: Plan,
        turning: Coherence,
        *,
        flushed: bool,
        share: float = 1.0,
        name: str = "",
        begin: int = 0,
    ) -> Mixed:
        """Writes, from that place on, with a random read before each; they end where they wait for bands to
        be cleaned, if that takes too long."""
        params = plan.params(plan.region(NARROW_BYTES[-1]), flushed=flushed)
        name = name or ("writes-after-reads-flushed" if flushed else "writes-after-reads")
        io = plan.pairs("writes-after-reads", plan.at_most(PAIRS), flushed=flushed, begin=begin)
        log = plan.until_crowded(name, io, params, share)
        mixed = mixed_of(name, log, turning, flushed=flushed)
        if len(log) < len(io) and not plan.quick:
            return cls._mix_on(plan, mixed, log, io, flushed=flushed, share=share)
        if mixed.doubtful and not plan.quick and not plan.held:
            io = plan.pairs("writes-after-more-reads", MORE_PAIRS, flushed=flushed, begin=begin)
            more = plan.until_crowded(f"{name}-more", io, params, share)
            return mixed_of(name, IoLog.joined([log, more]), turning, flushed=flushed)
        return mixed

    @staticmethod
    def _mix_on(plan: Plan, mixed: Mixed, log: IoLog, io: IoBatch, *, flushed: bool, share: float) -> Mixed:
        """The rest of these in growing pieces, for the next may wait for bands to be cleaned as well."""
        params = plan.params(plan.region(NARROW_BYTES[-1]), flushed=flushed)
        few = MIXED_PIECE
        while len(log) < len(io) and not took_too_long(mixed.all_ns):
            piece = io.part(len(log), len(log) + few)
            more = plan.steps.run(f"{mixed.name}-on", piece, params=params, share=share)
            log = IoLog.joined([log, more])
            mixed = mixed_of(mixed.name, log, mixed.turning, flushed=flushed)
            if len(more) < len(piece):
                break
            few *= 2
        return mixed

    def _narrow(
        self,
        plan: Plan,
        seen: list[Writes],
        turning: Coherence | None,
        names: Sequence[str],
        *,
        flushed: bool,
    ) -> None:
        """Writes within ever narrower regions, until they are fixed; by a coarse clock more of the last."""

        def goes_on(name: str, limit: int, places: int) -> bool:
            if plan.steps.spent():
                return False
            region = plan.region(limit)
            log = self._write(plan, name, plan.rounds(name, region, places), region, flushed=flushed)
            writes = writes_of(
                name,
                log,
                region,
                flushed=flushed,
                place_bytes=plan.place_bytes,
                turning=turning if plan.quick else None,
            )
            seen.extend([writes] if len(writes.latency_ns) else [])
            return len(writes.latency_ns) > 0 and not writes.fixed(turning)

        steps = zip(names, NARROW_BYTES, strict=True)
        if not all(goes_on(name, limit, plan.places) for name, limit in steps):
            return
        if turning is not None and not plan.quick and seen[-1].ticks_hide(turning):
            goes_on(f"{names[-1]}-more", NARROW_BYTES[-1], MORE_BY_TICKS * plan.places)

    def _sustain(self, plan: Plan, seen: Observed, wide: Writes) -> None:
        """More random writes than a volatile cache holds, piece by piece, until they are plainly slow."""
        region = plan.region(SUSTAINED_REGION_BYTES)
        where = plan.scattered("writes-sustained", region, SUSTAINED_WRITES, LARGE_BYTES)
        plan.steps.expect(
            plan.places * VISITS + plan.wide_writes + FLUSHES * (FLUSHED_BURST + 1) + len(where)
        )
        logs: list[IoLog] = []
        while len(logs) < MOST_PIECES:
            piece = where[: self._next_piece(plan, SUSTAINED_WRITES - len(where), seen.sustained)]
            if len(piece) == 0:
                return
            io, until = IoBatch.writes(piece, LARGE_BYTES), DECISIVE if plan.quick else STALLING
            name, params = Sustained.name(len(logs) + 1), plan.params(region)
            try:
                logs.append(plan.steps.run(name, io, until=until, params=params))
            except CutShort as cut:
                if cut.log is not None:
                    seen.sustained = Sustained.of([*logs, cut.log])
                raise
            where = where[len(logs[-1]) :]
            if self._flush_waited(seen, wide):
                plan.steps.run("sustained-flush", IoBatch.make(Op.FLUSH, [0], 0))
            more = seen.sustained = Sustained.of(logs)
            goes_on = more.only_stalled(wide) and not plan.quick
            if more.enough(wide) or (more.tells and more.slow(wide) and not goes_on):
                return
            if seen.kept is None and not more.stalled_lately and more.comes_too_late(plan.steps.left_ns()):
                return

    @staticmethod
    def _flush_waited(seen: Observed, wide: Writes) -> bool:
        """Whether a write and its FLUSH, or a FLUSH, waited for a band to be cleaned. Then one may wait for
        each of the thousands of writes that a cache answered at once: longer than a test may take, were there
        only one at the end."""
        return int(np.concatenate([wide.latency_ns, seen.flush_ns]).max(initial=0)) >= SLOW_FLUSH_NS

    @staticmethod
    def _next_piece(plan: Plan, done: int, so_far: Sustained) -> int:
        """Writes of the next piece: more once a usual volatile cache is full. A quick answer has no time for
        more, and after a stall goes on for no more than it takes to detect whether bands are cleaned."""
        if not plan.quick:
            return SUSTAINED_PIECE if done < LATER else LATER_PIECE
        if plan.steps.spent():
            return 0
        return FEWEST_SHARE if so_far.stalled_lately else SUSTAINED_PIECE

    def verdict(self, seen: Observed, steps: Replay) -> list[Finding]:
        """`drive_type` and `cache_medium`."""
        seen.why_cut = steps.why_cut
        return self._findings(judge(seen, steps.target.kind))

    def again(self, evidence: Evidence, known: Known) -> list[Finding]:
        """The same once other tests have looked for bands: the clue that test 1 lacks most often, for it
        leaves a drive alone for minutes, and not for as long as earlier work may take. A medium that was not
        seen follows from the cache's place. Nothing of what is not taken for a shingled drive, and nothing
        else that was unknown: that keeps its reason."""
        if known.word(DRIVE_TYPE.name) != "smr":
            return []
        verdict = judge(self.seen(evidence, list(known)), evidence.target.kind, bands_seen(known))
        medium = known.get(CACHE_MEDIUM.name)
        if medium is None or medium.known:
            return self._findings(verdict)
        by_place = medium_by_place(known)
        return [self._findings(verdict)[0], *([] if by_place is None else [by_place])]

    @staticmethod
    def _findings(verdict: Verdict) -> list[Finding]:
        return [
            found.found(value, confidence, verdict.why, verdict.rows, way=verdict.way)
            for found, value, confidence in (
                (DRIVE_TYPE, verdict.drive_type, verdict.confidence),
                (CACHE_MEDIUM, verdict.cache_medium, verdict.medium_confidence),
            )
        ]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Latency of writes and reads, as in the paper's Figure 4."""
        return draw(self.seen(evidence, findings))
