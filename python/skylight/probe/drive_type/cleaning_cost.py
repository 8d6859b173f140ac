"""What it costs a drive to bring a block home: the one thing that tells shingling from a log in front of an
ordinary disk.

Both append small writes and move them home when they are left alone. An ordinary disk writes a block home by
itself; a shingled disk reads and writes the whole band around it. So blocks are written far apart, hardly two
in a band; whether they moved shows in the angle at which they are read (`skylight.infer.blocks_moved`),
beside blocks that nobody wrote, which have the same pause and must stay.

* *Rungs*: a few blocks, then pauses, each longer, until some of them have moved: from there on it is known
  between which pauses the drive begins. A drive that never moved any by the last says nothing.
* *Trial*: so many blocks that a shingled disk has no time to bring them all home, and an ordinary one has.
  The time that it had, at least and at most, over what it moved is the cost of a block. That nothing of a
  rung moved is no sign that the drive was idle, for it may have had older blocks to bring home first: so the
  trial first rests for as long as that rung took; where some of its blocks move in it, this time counts too.

* *Beside*: a layer that brings blocks home one by one and takes its time (it verifies them, notes each in a
  map, rests so as not to be in the way) is as slow as a band. But a band takes all along that is cached in
  it. So behind each block that is looked at another one is written, after all of them; where blocks go home
  with their bands both do, where they go one by one neither knows of the other (Fisher's exact test). In
  order of address both go either way: where those that went lie together there, it shows nothing.

* *Home*: a layer that empties its own log moves blocks as cheaply, to a disk that may log them again. So
  blocks that moved by themselves are read beside their neighbours behind, which nobody wrote: at home both
  lie at one angle, give or take the blocks between, as they do in places that nobody wrote.

Invariant: a cost is a range, and says "by itself" or "with its band" only if all of it does; "by itself"
needs blocks that are seen at home and not known to go together, "with its band" blocks that went together.

Source: Skylight (FAST '15) sections 2 and 4.5 (cleaning rewrites bands); the limits are derived below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U64, IoBatch, IoLog, Op
from skylight.infer.blocks_moved import Moved, moved_between
from skylight.infer.tail_probability import few_runs, hypergeometric_tail
from skylight.probe.drive_type.plan import Plan
from skylight.probe.durable_writes import with_flushes
from skylight.units import format_duration

RUNGS_S = (4.0, 16.0, 64.0, 128.0)  # drives begin to clean after 0.2 s to two minutes without commands
SAMPLE, CONTROLS = 64, 32  # of a rung, which is to see whether some of them move
TRIAL_SAMPLE, TRIAL_CONTROLS = 96, 48  # more, as the error of a share of few bounds the cost of a band
RUNG_PLACES = 128  # twice the sample: where all of it has moved, which ones go together is not seen
WRITES_A_FLUSH = 16
"""Writes before each FLUSH where a volatile cache answers them; elsewhere all, in case one is on.
Chosen: behind a full persistent cache each may wait for a band to be cleaned, half a minute; one FLUSH behind
all of them would take an hour, and no bound ends a command that is under way."""
UNIT_BLOCKS = 8  # blocks of a place: one for each reading, so that none is read twice
MOVING = 0.1  # share of the sample from which on blocks are said to move
MOST_PLACES = 4_800  # of a trial: a minute of writes or little more
TRIAL_PART = 0.8  # of what a block alone may cost, for each place of a trial: less by what a share may be off
SEEK_NS = 14_000_000.0  # across half of a disk, at most
# The smallest bands in use are of some megabytes: read, set aside, written, each with a seek and a wait.
BAND_NS = 62_000_000.0
SURE_ERRORS = 2.0  # standard errors that a share may be off
MOST_AWAY = 0.3  # share of moved blocks, beside those that did not move, that may seem not to lie at home
LOOKS_ERRORS = 3.0  # the same of the largest of several looks: one for each rung
BESIDE_UNITS = 2
"""From a place to the other block in its band: bands are so long that hardly a pair lies across a border."""
TOGETHER = 1e-3  # chance, at most, of blocks that go home as often with the other one
SWEPT = 0.01  # chance, below which those that went home lie together in the addresses
MOST_WRITES = 2 * RUNG_PLACES + MOST_PLACES
MOST_READS = (len(RUNGS_S) + 3) * (SAMPLE + CONTROLS) + 5 * (TRIAL_SAMPLE + TRIAL_CONTROLS)


@dataclass(frozen=True, slots=True)
class Settled:
    """What moved in each pause (s), and in the trial: for how long of its pauses the drive moved blocks, at
    least and at most (s); what had moved after the first of them, where some had; how many places were
    written; how many blocks then lay elsewhere than beside their neighbours; the chance that blocks go home
    together as often with others beside them where each goes by itself, None where that was not asked; and a
    revolution, ns."""

    rungs: tuple[tuple[float, Moved], ...] = ()
    early: tuple[float, Moved] | None = None
    trial: Moved | None = None
    worked_s: tuple[float, float] = (0.0, 0.0)
    places: int = 0
    names: tuple[str, ...] = ()
    away: Moved | None = None
    together: float | None = None
    period_ns: float = 0.0

    @property
    def moves(self) -> bool:
        """Whether blocks moved while the drive was left alone."""
        return bool(self.rungs) and _some(self.rungs[-1][1])

    @property
    def cost_ns(self) -> tuple[float, float] | None:
        """What a block costs, at least and at most, ns; None without a trial, or where it contradicts itself,
        as where reads are delayed that seem to be of blocks that moved."""
        if self.trial is None:
            return None
        most = min(self.trial.share + SURE_ERRORS * self.trial.error, 1.0)
        longest = [(self.worked_s[1], self.trial)] + ([self.early] if self.early else [])
        # In the rung it began sooner than at the end, by what it moved there. And a drive that may have moved
        # all of the trial may have been done long before its end.
        counted = max(most * self.places - _least(self.rungs[-1][1]) * RUNG_PLACES, 1.0)
        low = 1e9 * self.worked_s[0] / counted if most < 1.0 else 0.0
        high = min(1e9 * worked_s / max(_least(moved) * self.places, 1.0) for worked_s, moved in longest)
        return (low, high) if low <= high else None

    @property
    def in_pairs(self) -> bool:
        """Whether blocks go home with those beside them, as far as it is known."""
        return self.together is None or self.seen_in_pairs

    @property
    def seen_in_pairs(self) -> bool:
        """Whether blocks were seen to go home with those beside them."""
        return self.together is not None and self.together <= TOGETHER

    @property
    def cheap(self) -> bool:
        """True where blocks moved by themselves, wherever they went."""
        return self.cost_ns is not None and self.cost_ns[1] <= _alone_ns(self.period_ns)

    @property
    def alone(self) -> bool:
        """True where blocks went home by themselves."""
        if not self.cheap or self.trial is None or self.away is None or self.seen_in_pairs:
            return False
        return self.away.share <= 1.0 - self.trial.share + MOST_AWAY

    @property
    def with_band(self) -> bool:
        """True where a block took its band along."""
        return self.costly and self.in_pairs

    @property
    def costly(self) -> bool:
        """True where a block costs as much as a band, be it with it or by itself."""
        return self.cost_ns is not None and self.cost_ns[0] >= BAND_NS

    @property
    def words(self) -> str:
        """What was seen, for a sentence."""
        if not self.rungs:
            return "where blocks lie could not be followed"
        pause = format_duration(1e9 * self.rungs[-1][0])
        if not self.moves:
            return f"no block moved in {pause} without commands"
        if self.cost_ns is None:
            return f"blocks moved in {pause} without commands"
        low, high = self.cost_ns
        each = f"at up to {format_duration(high)} each"
        if low > 0:
            each = f"at {format_duration(low)} to {format_duration(high)} each"
        if self.cheap and not self.alone:
            seen = "are not seen" if self.away is None else "do not lie"
            but = f"{seen} beside their neighbours"
            if self.seen_in_pairs:
                but = "go together with others that were written beside them"
            return f"left alone it moves blocks {each}, but they {but}"
        if self.costly and not self.with_band:
            return (
                f"left alone it moves blocks {each}, but not seen together with others that were written"
                " beside them, as for a band"
            )
        return f"left idle it moves blocks back to their native locations {each}"


def _alone_ns(period_ns: float) -> float:
    """What a block alone may cost: a seek and a revolution to fetch it from the log, the same to write it
    home. A fast disk moves its smallest bands in hardly more than a slow one takes for a block."""
    return 2 * (SEEK_NS + period_ns)


def _least(moved: Moved) -> float:
    """The share that moved, at least."""
    return max(moved.share - SURE_ERRORS * moved.error, 0.0)


def _some(moved: Moved) -> bool:
    """Whether blocks moved, and not by what the share may be off."""
    return moved.share >= max(MOVING, LOOKS_ERRORS * moved.error)


def settle(plan: Plan, period_ns: float) -> Settled:
    """Writes places all over the target and watches whether they move; see the module's page."""
    steps, before_count = plan.steps, len(plan.steps.names)
    units = _places(plan)
    if units < 4 * (TRIAL_SAMPLE + TRIAL_CONTROLS):
        return Settled()
    first = _Trial.begin(plan, "settle", RUNG_PLACES, SAMPLE, CONTROLS)
    second = first.beside(plan)
    together: float | None = None
    rungs: list[tuple[float, Moved]] = []
    for number, seconds in enumerate(RUNGS_S, 1):
        steps.pause("settle-pause", seconds)
        moved = first.look(plan, number, period_ns)
        if moved is None:
            break
        rungs.append((seconds, moved))
        if _some(moved):
            together = None if second is None else _together(moved, second, plan, number, period_ns)
            break
    so_far = Settled(tuple(rungs), names=steps.names[before_count:])
    if not so_far.moves:
        return so_far
    found = _tried(plan, replace(so_far, together=together, period_ns=period_ns))
    return replace(found, names=steps.names[before_count:])


def _tried(plan: Plan, seen: Settled) -> Settled:
    """The trial behind the rungs of `seen`."""
    latest_s = seen.rungs[-1][0]
    earliest_s = seen.rungs[-2][0] if len(seen.rungs) > 1 else 0.0
    trial_s = latest_s + max(latest_s / 2, RUNGS_S[0])
    place_ns = TRIAL_PART * _alone_ns(seen.period_ns)
    wanted = max(TRIAL_SAMPLE, 1e9 * (earliest_s + trial_s) / place_ns)
    count = int(min(MOST_PLACES, _places(plan) // 4, wanted))
    trial = _Trial.begin(plan, "settle-trial", count, TRIAL_SAMPLE, TRIAL_CONTROLS)
    early, most_s = None, trial_s
    if earliest_s:
        plan.steps.pause("settle-trial-rest", earliest_s)
        rested = trial.look(plan, 1, seen.period_ns)
        idle = rested is not None and not _some(rested)
        most_s += -earliest_s if idle else earliest_s
        early = None if idle or rested is None else (earliest_s, rested)
    plan.steps.pause("settle-trial-pause", trial_s)
    moved = trial.look(plan, 2, seen.period_ns)
    worked_s = trial_s - latest_s, most_s
    found = replace(seen, early=early, trial=moved, worked_s=worked_s, places=trial.places)
    if not found.cheap:
        return found
    return replace(found, away=trial.away(plan, seen.period_ns))


def _together(moved: Moved, second: _Trial, plan: Plan, number: int, period_ns: float) -> float:
    """The chance that as many places moved together with the block beside them, if neither knew of the other,
    one where they went in order of address or that was not seen."""
    others = second.look(plan, number, period_ns)
    if others is None or len(others.away) != len(moved.away):
        return 1.0
    one, other = np.array(moved.away), np.array(others.away)
    by_address = np.argsort(second.before.offset[~second.control], kind="stable")
    if any(few_runs(went[by_address]) < SWEPT for went in (one, other)):
        return 1.0
    return hypergeometric_tail(int((one & other).sum()), len(one), int(one.sum()), int(other.sum()))


def _places(plan: Plan) -> int:
    """How many places there are to choose from: of a target with zones one in each, since a zone goes home as
    a whole."""
    unit = UNIT_BLOCKS * plan.io_bytes
    return plan.reach // unit if plan.zones is None or plan.quick else plan.zones.usable


def _chosen(plan: Plan, rng: np.random.Generator, count: int, controls: int) -> U64:
    """Places of a trial, by number, and then its controls; of a target with zones these lie where data is."""
    unit = UNIT_BLOCKS * plan.io_bytes
    zones = plan.zones
    if zones is None or plan.quick:
        last = plan.reach // unit - BESIDE_UNITS
        return rng.choice(last, size=count + controls, replace=False).astype(np.uint64)
    each = zones.zone_bytes // unit
    zone = rng.choice(zones.usable, size=count, replace=False)
    # Not at a write pointer, at the start of a zone: that would be written in place.
    written = zone * each + rng.integers(1, zones.capacity_bytes // unit, count)
    free = np.setdiff1d(np.arange(plan.reach // unit), written)
    return np.concatenate([written, rng.choice(free, size=controls, replace=False)]).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Places that were written, and a sample of them read with places that were not."""

    name: str
    places: int
    unit: int
    order: U64
    written: U64
    before: IoLog

    @staticmethod
    def begin(plan: Plan, name: str, count: int, sample: int, controls: int) -> _Trial:
        """Writes the places, then reads the last block of each of the sample and of the controls."""
        unit = UNIT_BLOCKS * plan.io_bytes
        rng = plan.steps.rng(name)
        chosen = _chosen(plan, rng, count, controls)
        written = _Trial.write(plan, name, chosen[:count], unit)
        looked_at = rng.choice(chosen[:count], size=min(sample, count), replace=False)
        order = rng.permutation(np.concatenate([looked_at, chosen[count:]]))
        return _Trial.looked(plan, name, order, written, unit)

    def beside(self, plan: Plan) -> _Trial | None:
        """Writes another block in the band of each place, in an order of its own, and reads it; none of a
        target with zones, where a zone goes home as a whole."""
        if plan.zones is not None:
            return None
        name, step = f"{self.name}-second", np.uint64(BESIDE_UNITS)
        written = _Trial.write(plan, name, plan.steps.rng(name).permutation(self.written) + step, self.unit)
        return _Trial.looked(plan, name, self.order + step, written, self.unit)

    @staticmethod
    def looked(plan: Plan, name: str, order: U64, written: U64, unit: int) -> _Trial:
        """Places that were written, read for the first time, with controls."""
        return _Trial(name, len(written), unit, order, written, _Trial.read(plan, f"{name}-before", order, 0))

    @staticmethod
    def write(plan: Plan, name: str, units: U64, unit: int) -> U64:
        """Writes places; those that were written."""
        writes = IoBatch.writes(units * np.uint64(unit), unit)
        io = with_flushes(writes, WRITES_A_FLUSH if plan.cached else len(units))
        log = plan.steps.run(f"{name}-writes", io, params={"unit_bytes": unit})
        return np.asarray(log.only(Op.WRITE).offset // np.uint64(unit), np.uint64)

    @property
    def control(self) -> NDArray[np.bool_]:
        """Which of the reads are of places that were not written."""
        return np.asarray(~np.isin(self.before.offset // np.uint64(self.unit), self.written))

    def away(self, plan: Plan, period_ns: float) -> Moved | None:
        """What of the sample lies elsewhere than beside the neighbours behind it, which were not written."""
        beside = self.read(plan, f"{self.name}-beside", self.order, -1)
        here = self.read(plan, f"{self.name}-home", self.order, 3)
        control = ~np.isin(here.offset // np.uint64(self.unit), self.written)
        return moved_between(beside, here, control, period_ns)

    @staticmethod
    def read(plan: Plan, name: str, order: U64, number: int) -> IoLog:
        """One block of each place, at each reading the one before in address: look-ahead holds none. Before
        the first comes the block behind the place."""
        block = np.uint64((UNIT_BLOCKS - 1 - number) * plan.io_bytes)
        at = order * np.uint64(UNIT_BLOCKS * plan.io_bytes) + block
        io = IoBatch.reads(np.minimum(at, np.uint64(plan.reach - plan.io_bytes)), plan.io_bytes)
        return plan.steps.run(name, io, params={"unit_bytes": UNIT_BLOCKS * plan.io_bytes})

    def look(self, plan: Plan, number: int, period_ns: float) -> Moved | None:
        """Reads the sample again; what moved since the first reading."""
        after = self.read(plan, f"{self.name}-after", self.order, number)
        return moved_between(self.before, after, self.control, period_ns)
