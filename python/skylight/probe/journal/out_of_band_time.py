"""Time of the out-of-band data that an entry of the journal begins with.

On a disk: in each cycle the target is erased, a far block is read to bring the head to one place, and after a
pause, each time another part of a revolution, one block is written; the far block is read again, and after a
pause the written block. All writes are then of the first entry of the journal, and all completions of a kind
agree in phase. Where the target cannot be erased there is no such entry; then later ones show it
(`unerased_verdict`).

Latency against the phase of arrival is a saw: it falls with the wait, down to the shortest in which the
beginning is just caught, and then a revolution is lost. The shortest write holds the command overhead, the
arm's way, the out-of-band data and the quantum; the shortest read the same overhead and way, and a block. The
angle from the end of the block to the end of the quantum is known from the phases, so their difference gives
the out-of-band data, at its true length in revolutions. How many revolutions a quantum takes follows from the
tracks (`QuantumTime`).

A clock as coarse as a twentieth of a revolution says of no single write how short it was. Of many it does: in
evenly spread phases of arrival times fill one revolution from the shortest on, smeared by a tick
(`skylight.infer.latency_without_wait`), and the angle at which they end is known from all of them.

A write waits for the head to settle a little longer than a read does, and nothing a host sees tells that from
out-of-band data: `SETTLE_NS` bounds it, half of it is taken off, and the interval holds it.

On flash there are no angles: what lone writes take beyond the overhead (that of a FLUSH with nothing to do)
and the transfer of a quantum is the out-of-band data, with a latency of the medium, and another latency for
the quantum. That other one is not seen apart: `FLASH_NS` bounds it, and half of it is taken off.

Invariant: a value is given only if its interval is no wider than a twentieth of a revolution to each side;
or, where the weight of each time is known, if `SURE_ENOUGH` of it lies so near the value.
Source: Skylight (FAST '15) section 4.3, first writes of 41 to 52 ms, and 4.3.1, Figure 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, IoBatch, IoLog, Op
from skylight.findings import Finding
from skylight.infer.latency_without_wait import differences
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.probe.journal.entry_space import typical, without_outliers
from skylight.probe.journal.findings import OUT_OF_BAND, OUT_OF_BAND_RIGHT
from skylight.units import format_duration

CYCLES, FAST_CYCLES, FAST_TURN_NS = 48, 112, 6_500_000.0
"""Phases of arrival: what lies between two of them adds to the interval, which a twentieth of a short
revolution is little for."""
COARSE_CYCLES, COARSE_TURNS, COARSE_EACH = 640, 0.02, 4_000
"""The same where the tick of the clock is more of a revolution than that: so many for each revolution of the
tick, and at most. Edges that are smeared over a tick are known the better the more phases fall into it.
Chosen: a fortieth of a revolution is known then, which leaves as much for the settling of the head."""
FIRST_ROUNDS = 4
"""How often as many phases again are tried at most, where the time is not known well enough. Chosen: what is
open halves with four times as many."""
SUBMITTED_TICK = 0.5**0.5
"""Of a tick, the half width of a triangle that deviates as much as the rounding of a submission alone; the
end is known from all commands together."""
FLUSHES = 48
SETTLE_NS = (
    300_000.0  # more than the head of a drive settles longer for a write (docs/calibration.md: 0.1 ms)
)
NOISE_ERRORS = 2.0  # standard errors that times by a coarse clock, or of a busy host, may be off
FLASH_NS = 500_000.0  # more than a flash write waits for its first page
RIGHT_TURNS = OUT_OF_BAND_RIGHT.part  # how near a value must be known to be given
SURE_ENOUGH = 0.9
"""Weight of times near the value from which on it is given. Chosen: a time that is right nine times in ten is
worth saying, and its confidence says so."""
LEAST_TURNS = 0.2  # no time is less than none, but for what the edges of the saws leave open
STEADY = 0.7  # how far completions of one place must agree in phase
FASTEST_PART = 0.06
RESAMPLES = 60
LEAST_CONFIDENCE = 0.8
FIT_STEPS, MOST_STEPS = 61, 1000
ROOM_TURNS = 0.1
"""By which a quantum may miss the time that whole tracks give it, in revolutions: a surface may be a little
denser or sparser than those whose tracks were measured."""
MOST_SKEW_TURNS = 0.5  # chosen: what a switch of track may take of a short revolution
KNOWN_TO = 1.2e-3  # of a revolution: how well the rotation is known (the table of findings: 0.1 %)

Columns = tuple[F64, F64]
"""Submissions and completions, ns."""


def batches(size: int, block: int) -> tuple[IoBatch, IoBatch, IoBatch]:
    """Read of a far block, write of a block, and its read."""
    far = int(0.3 * size) // block * block
    return (
        IoBatch.reads([far], block),
        IoBatch.writes([block], block),
        IoBatch.reads([block], block),
    )


@dataclass(frozen=True, slots=True)
class Saw:
    """Latencies of one command at one place, against the phase in which it came."""

    shortest_ns: float
    phase_ns: float
    agreement: float
    gap_ns: float


def refined_turn(places: Sequence[F64], rotation_ns: float) -> float:
    """The revolution with which completions of each place agree best, near the one known, ns.

    The cycles differ in length, so over their whole span no other revolution near it makes them agree."""

    def agreement(tried: F64) -> F64:
        total = np.zeros(len(tried))
        for done_ns in places:
            turns = (done_ns - done_ns[0])[None, :] / tried[:, None]
            total += np.abs(np.exp(2j * np.pi * turns).sum(axis=1))
        return total

    best, width = rotation_ns, KNOWN_TO * rotation_ns
    span = max(float(np.ptp(done_ns)) for done_ns in places)
    steps = int(np.clip(8 * 2 * KNOWN_TO * span / rotation_ns, FIT_STEPS, MOST_STEPS))
    for count in (steps, FIT_STEPS, FIT_STEPS):
        tried = best + np.linspace(-width, width, count)
        best = float(tried[int(np.argmax(agreement(tried)))])
        width *= 3 / count
    return best


def saw(submit_ns: F64, done_ns: F64, rotation_ns: float) -> Saw:
    """The saw of commands at one place."""
    turns = np.exp(2j * np.pi * done_ns / rotation_ns)
    agreement = float(np.abs(turns.mean()))
    middle = float(np.angle(turns.mean())) / (2 * np.pi) * rotation_ns
    late = np.mod(done_ns - middle + rotation_ns / 2, rotation_ns) - rotation_ns / 2
    early = np.sort(late)[: max(2, int(len(late) * FASTEST_PART))].mean()  # nothing beats the mechanics
    phase_ns = middle + float(early)
    # Without what came late: the wait and whole revolutions, exactly; a late completion never makes it less.
    exact = done_ns - submit_ns - (late - float(early))
    least = float(exact.min())
    most = float(exact[exact < least + rotation_ns].max())
    open_ns = least + rotation_ns - most
    return Saw(least - open_ns / 2, phase_ns, agreement, open_ns)


def _columns(logs: Sequence[IoLog], begin_ns: int) -> tuple[F64, F64]:
    """Submissions and completions of one kind of command, from a moment on, ns."""
    submit = np.array([int(log.submit_ns[-1]) - begin_ns for log in logs if len(log)], np.float64)
    done = np.array([int(log.complete_ns[-1]) - begin_ns for log in logs if len(log)], np.float64)
    return submit, done


def _both(writes: Sequence[IoLog], reads: Sequence[IoLog]) -> tuple[Columns, Columns]:
    """Those of the writes and of the reads, from the first write on."""
    begin_ns = int(writes[0].submit_ns[0]) if writes and len(writes[0]) else 0
    return _columns(writes, begin_ns), _columns(reads, begin_ns)


def with_switches(tracks_ns: tuple[float, float], rotation_ns: float) -> tuple[float, float]:
    """The least and the most that a quantum may take, with the switches of track in it, revolutions."""
    least, most = (ns / rotation_ns for ns in tracks_ns)
    return least - ROOM_TURNS, most + ROOM_TURNS + MOST_SKEW_TURNS * np.ceil(most)


@dataclass(frozen=True, slots=True)
class QuantumTime:
    """What a quantum takes: `step_ns` as lone writes showed it, which holds more where a second quantum
    begins an entry of its own; `tracks_ns` on the longest and on the shortest tracks of the drive, None where
    these are unknown."""

    step_ns: float
    tracks_ns: tuple[float, float] | None = None

    def whole(self, behind_ns: float, rotation_ns: float) -> float | None:
        """What it takes, whole revolutions with it, if `behind_ns` of a revolution is the rest; None if
        nothing tells how many."""
        if self.tracks_ns is None:
            return behind_ns + rotation_ns * round((self.step_ns - behind_ns) / rotation_ns)
        least, most = (turns * rotation_ns for turns in with_switches(self.tracks_ns, rotation_ns))
        fits = [
            behind_ns + turns * rotation_ns
            for turns in range(-1, 2 + int(most / rotation_ns))
            if least <= behind_ns + turns * rotation_ns <= most
        ]
        if len(fits) > 1 and not least <= self.step_ns <= most:
            return None
        return min(fits, key=lambda ns: abs(ns - self.step_ns), default=None)


def disk_time(
    write: Columns, read: Columns, rotation_ns: float, quantum: QuantumTime
) -> tuple[float, float, float] | None:
    """Out-of-band time with the settling in it and what its edges leave open, ns; how steady phases are. None
    where the time of a quantum contradicts the tracks, or leaves its whole revolutions open."""
    wrote, found = saw(*write, rotation_ns), saw(*read, rotation_ns)
    behind = quantum.whole(float(np.mod(wrote.phase_ns - found.phase_ns, rotation_ns)), rotation_ns)
    if behind is None:
        return None
    time = wrote.shortest_ns - found.shortest_ns - max(behind, 0.0)
    return time, (wrote.gap_ns + found.gap_ns) / 2, min(wrote.agreement, found.agreement)


def judge_disk(
    writes: Sequence[IoLog], reads: Sequence[IoLog], rotation_ns: float, quantum: QuantumTime
) -> Finding:
    """The finding for a cache on disk, from the first entry and its reads."""
    rows = ("first-write-1", "first-read-1")
    write, read = _both(writes, reads)
    if len(write[0]) < CYCLES // 2 or len(read[0]) < CYCLES // 2:
        return OUT_OF_BAND.unknown(
            "the target cannot be erased, so its first entry cannot be written again and again", rows
        )
    rotation_ns = refined_turn([write[1], read[1]], rotation_ns)
    found = disk_time(write, read, rotation_ns, quantum)
    if found is None:
        return OUT_OF_BAND.unknown("the time of a quantum and the size of the tracks contradict", rows)
    time, open_ns, steady = found
    if steady < STEADY:
        return OUT_OF_BAND.unknown(
            f"writes of the first entry end at no one angle (agreement {steady:.2f})", rows
        )
    coarse = _coarse(write, read, rotation_ns, quantum)
    half = _half_ns(write, read, open_ns, coarse)
    if coarse is not None:
        time, confidence, open_ns = coarse.time_ns, coarse.sure, coarse.half_ns
    else:
        confidence = _confidence(write, read, rotation_ns, quantum, time)
    value = time - SETTLE_NS / 2
    within = (max(value - half, 0.0), max(value + half, 0.0))
    if time < -LEAST_TURNS * rotation_ns:
        return OUT_OF_BAND.unknown("an entry is shorter than the quantum in it, a contradiction", rows)
    if confidence < LEAST_CONFIDENCE:
        return OUT_OF_BAND.unknown(f"cycles drawn anew agree in {100 * confidence:.0f} % of cases only", rows)
    # That there is any at all takes more: each of the two shortest is off by half of what is open.
    if value < half + open_ns / 2:
        most = format_duration(time) if time >= 1 else "a time too short to be seen"
        why = f"no more than {most} is written before an entry"
        return OUT_OF_BAND.unknown(why, rows, within)
    if _is_open(half, coarse, rotation_ns):
        words = f"{format_duration(int(value))} to within {format_duration(int(half))}"
        return OUT_OF_BAND.unknown(f"{words}, more than a twentieth of a revolution", rows, within)
    why = (
        f"the shortest write of a first entry takes {format_duration(int(time))} longer than the shortest"
        f" read of what it wrote and the rest of its quantum, in {len(write[0])} phases of arrival; up to"
        f" {format_duration(int(SETTLE_NS))} of it may be settling"
    )
    return OUT_OF_BAND.found(round(value), confidence, why, rows, (value - half, value + half))


def too_open(writes: Sequence[IoLog], reads: Sequence[IoLog], rotation_ns: float) -> bool:
    """Whether the time of the first entry is open by more than may be, whatever a quantum takes: more phases
    of arrival leave less of it open."""
    write, read = _both(writes, reads)
    if not len(write[0]) or not len(read[0]):
        return False
    rotation_ns, any_time = refined_turn([write[1], read[1]], rotation_ns), QuantumTime(0.0)
    found = disk_time(write, read, rotation_ns, any_time)
    open_ns = found[1] if found is not None else 0.0
    coarse = _coarse(write, read, rotation_ns, any_time)
    return _is_open(_half_ns(write, read, open_ns, coarse), coarse, rotation_ns)


def _is_open(half_ns: float, coarse: Coarse | None, rotation_ns: float) -> bool:
    """Whether the time is not known well enough to be given."""
    return coarse.sure < SURE_ENOUGH if coarse is not None else half_ns > RIGHT_TURNS * rotation_ns


@dataclass(frozen=True, slots=True)
class Coarse:
    """The time by a coarse clock, with the settling in it: the most likely, half of the interval of 95 %
    (ns), and the weight of what lies within a twentieth of a revolution, whatever the settling is."""

    time_ns: float
    half_ns: float
    sure: float


def _half_ns(write: Columns, read: Columns, open_ns: float, coarse: Coarse | None) -> float:
    """Half of the interval of the time, with what the head may settle."""
    return SETTLE_NS / 2 + (coarse.half_ns if coarse else open_ns / 2 + _tick_ns(write, read))


def _coarse(write: Columns, read: Columns, rotation_ns: float, quantum: QuantumTime) -> Coarse | None:
    """The time by many phases of arrival; None where the clock is fine, or there are too few."""
    tick = _tick_ns(write, read) / rotation_ns
    if tick < COARSE_TURNS or min(len(write[0]), len(read[0])) <= FAST_CYCLES:
        return None
    ends = [_end_ns(done, rotation_ns) for _, done in (write, read)]
    behind = quantum.whole(float(np.mod(ends[0] - ends[1], rotation_ns)), rotation_ns)
    if behind is None:
        return None
    wrote, found = (
        ((done - submit) - _late_ns(done, end_ns, rotation_ns)) / rotation_ns
        for (submit, done), end_ns in zip((write, read), ends, strict=True)
    )
    apart = differences(wrote, found, SUBMITTED_TICK * tick, 0.0, 0.0)
    drawn = np.cumsum(apart.weight)
    low, value, high = (float(np.interp(each, drawn, apart.at)) for each in (0.025, 0.5, 0.975))
    settle = SETTLE_NS / 2 / rotation_ns
    above, below = (np.minimum(RIGHT_TURNS + side * (apart.at - value), settle) for side in (-1, 1))
    sure = float(apart.weight @ np.clip((above + below) / (2 * settle), 0.0, 1.0))
    return Coarse(value * rotation_ns - max(behind, 0.0), (high - low) / 2 * rotation_ns, sure)


def _end_ns(done_ns: F64, rotation_ns: float) -> float:
    """The angle at which commands end, in the mean, ns of a revolution."""
    return float(np.angle(np.exp(2j * np.pi * done_ns / rotation_ns).mean())) / (2 * np.pi) * rotation_ns


def _late_ns(done_ns: F64, end_ns: float, rotation_ns: float) -> F64:
    """By how much each ended later than in the mean, half a revolution at most."""
    return np.asarray(np.mod(done_ns - end_ns + rotation_ns / 2, rotation_ns) - rotation_ns / 2)


def _tick_ns(write: Columns, read: Columns) -> float:
    """The tick of the clock, ns, by which the shortest of many may seem shorter than it is."""
    return float(np.gcd.reduce(np.concatenate([*write, *read]).astype(np.int64)))


def _confidence(
    write: Columns, read: Columns, rotation_ns: float, quantum: QuantumTime, time: float
) -> float:
    """How often cycles drawn anew give the same time to a twentieth of a revolution."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    hits = 0
    for _ in range(RESAMPLES):
        picks = [np.sort(rng.choice(len(part[0]), size=len(part[0]))) for part in (write, read)]
        drawn = [(part[0][pick], part[1][pick]) for part, pick in zip((write, read), picks, strict=True)]
        again = disk_time(drawn[0], drawn[1], rotation_ns, quantum)
        hits += again is not None and abs(again[0] - time) <= RIGHT_TURNS * rotation_ns
    return share(hits, RESAMPLES)


def judge_flash(
    timed: IoLog, rest_ns: float, noise_ns: float, rotation_ns: float, own_ns: float = 0.0
) -> Finding:
    """The finding for a cache on flash; `rest_ns` is what a lone write takes beyond the transfer of a
    quantum, give or take `noise_ns`; `own_ns` is what a second quantum takes if it may begin an entry of its
    own, and so hold out-of-band data too."""
    flushes = timed.only(Op.FLUSH)
    if not len(flushes):
        return OUT_OF_BAND.unknown("no FLUSH was timed", ())
    took = flushes.latency_ns.astype(np.float64)
    overhead = float(typical(took, flash=True))
    usual = took[without_outliers(took)]
    noise_ns = NOISE_ERRORS * float(np.hypot(noise_ns, np.std(usual) / np.sqrt(len(usual))))
    most = max(rest_ns - overhead + noise_ns, 0.0)
    least = max(rest_ns - overhead - noise_ns - FLASH_NS, 0.0)
    value, half = (most + least) / 2, (most - least) / 2
    if not least and own_ns:
        why = "a second quantum takes as long as the first, so each may be an entry with out-of-band data"
        return OUT_OF_BAND.unknown(why, ("flushes",), (least, most + own_ns))
    words = f"a lone write takes {format_duration(int(most))} beyond overhead and the transfer of a quantum"
    if not most:
        why = "a lone write takes no longer than a FLUSH and the transfer of a quantum by this clock"
        return OUT_OF_BAND.unknown(why, ("flushes",))
    right = min(RIGHT_TURNS * rotation_ns / half, 1.0)
    if right < SURE_ENOUGH:
        why = f"{words}, and how much of it is the medium's own latency is not seen"
        return OUT_OF_BAND.unknown(why, ("flushes",), (least, most))
    sure = float(np.mean(flushes.latency_ns < overhead + most + RIGHT_TURNS * rotation_ns))
    return OUT_OF_BAND.found(round(value), sure * right, words, ("flushes",), (least, most), way="flash")
