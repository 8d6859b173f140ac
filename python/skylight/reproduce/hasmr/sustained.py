"""Rows H2, R3 and R4: non-sequential writes until the drive blocks, and beyond.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.3 and Figure 2; the README
of `st8000as0022-sustained-nonseq`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64
from skylight.infer.stalls import periodic
from skylight.infer.zone_throughput import Spell, slow_spells
from skylight.reproduce.hasmr import real_drive_recordings
from skylight.reproduce.hasmr.drawing import course_figure, writes_figure
from skylight.reproduce.hasmr.drive import KIB, Bench, ZonedDrive, rng
from skylight.reproduce.rows import Measured, Ours

PAPER_ZONES, PAPER_BYTES, PAPER_S = (128, 256), 256 * KIB, 7_200.0
MOST_WRITES = 2_000_000
"""Far more than two hours take at any pace of a disk."""
BIN_S = 10.0

FLUSHED_ZONES = (32, 128)
WHOLE_BYTES = 512 * KIB

AFTER_WRITES = 1_000
"""Writes after a spell that say to what the drive recovers."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """What a run of non-sequential writes shows: the first slow spell; the usual latency before it, and after
    it (None where the run ends with it); the stalls before it."""

    spell: Spell
    usual_ns: float
    after_ns: float | None
    stall_every: float | None
    stall_ns: float | None


def blocking(latency_ns: I64) -> Blocking | None:
    """The first slow spell and what is around it; None where the drive never blocks."""
    spells = slow_spells(latency_ns)
    if not spells:
        return None
    spell = spells[0]
    before = latency_ns[: spell.first]
    usual_ns = float(np.median(before))
    every, stall_ns = _stalls(before)
    after = latency_ns[spell.end : spell.end + AFTER_WRITES]
    return Blocking(spell, usual_ns, float(np.median(after)) if len(after) else None, every, stall_ns)


def _stalls(latency_ns: I64) -> tuple[float | None, float | None]:
    """Writes from one regular stall to the next, and how long all writes of one stall take together, ns."""
    found = periodic(latency_ns)
    if found is None:
        return None, None
    slow = latency_ns >= found.limit_ns
    slow[: found.first] = False
    return float(found.period), float(latency_ns[slow].sum()) / found.count


def _random_in(zones: I64, size: int, drive: ZonedDrive, name: str) -> Callable[[int], tuple[I64, I64]]:
    """Random places in zones, none at a zone's start, where its write pointer is."""
    draw = rng(name)
    places = drive.layout.zone_bytes // size

    def plan(count: int) -> tuple[I64, I64]:
        return zones[draw.integers(0, len(zones), count)], draw.integers(1, places, count) * size

    return plan


def throughput(latency_ns: I64, size_bytes: int) -> tuple[F64, F64]:
    """The end of each bin of ten seconds (s), and the throughput in it, MB/s."""
    end_s = np.cumsum(latency_ns) / 1e9
    edges = np.arange(BIN_S, end_s[-1], BIN_S)
    # A write that takes long is spread over the bins that it takes.
    done = np.interp(edges, np.concatenate([[0.0], end_s]), np.arange(len(end_s) + 1))
    return edges, np.diff(done, prepend=0.0) * size_bytes / BIN_S / 1e6


def _between(rate: F64) -> float:
    """The share of the time in which the throughput is in the middle third, on a logarithmic scale, between
    the two modes."""
    low, fast = np.percentile(rate, [5, 95])
    if fast <= low:
        return 1.0
    place = np.log(np.clip(rate, low, fast) / low) / np.log(fast / low)
    return float(np.mean((place > 1 / 3) & (place < 2 / 3)))


def h2(bench: Bench) -> Measured:
    """Figure 2: two hours of non-sequential writes to 128 and to 256 zones.

    The paper does not say to which; the recorded runs of its authors took the first ones.
    """
    figures: dict[str, Ours] = {}
    courses = {}
    for count in PAPER_ZONES:
        drive = bench.drive()
        plan = _random_in(drive.first_zones(count), PAPER_BYTES, drive, f"sustained/{count}")
        course = courses[count] = drive.course(plan, PAPER_BYTES, PAPER_S, MOST_WRITES)
        found = blocking(course.latency_ns)
        _, rate = throughput(course.latency_ns, PAPER_BYTES)
        figures[f"{count} zones, first low spell, minutes"] = (
            None if found is None else found.spell.took_ns / 60e9
        )
        figures[f"{count} zones, fast mode over low mode"] = (
            None if found is None else _spell_ratio(found, course.latency_ns)
        )
        figures[f"{count} zones, share of the time in neither mode"] = _between(rate)
    return Measured(figures, lambda: course_figure({count: (throughput(course.latency_ns, PAPER_BYTES),
                    course.watched) for count, course in courses.items()}))  # fmt: skip


def _spell_ratio(found: Blocking, latency_ns: I64) -> float:
    """How many times as long a write takes in the spell as before it, in the mean."""
    return found.spell.took_ns / found.spell.writes / float(latency_ns[: found.spell.first].mean())


def _said(name: str, found: Blocking | None) -> str:
    """What was found, in words."""
    if found is None:
        return f"{name}: no slow spell"
    spell = found.spell
    after = "" if found.after_ns is None else f", then {found.after_ns / 1e6:.2f} ms"
    return (
        f"{name}: {spell.first:,} fast writes of {found.usual_ns / 1e6:.2f} ms, a spell of {spell.writes:,}"
        f" writes in {spell.took_ns / 1e9:,.0f} s{after}"
    )


def r3(bench: Bench) -> Measured:
    """The recorded writes with a flush again."""
    figures: dict[str, Ours] = {}
    notes: list[str] = []
    drawn: dict[str, tuple[I64, I64]] = {}
    for count in FLUSHED_ZONES:
        real = real_drive_recordings.sustained(f"zones{count:03}_512k_flush")
        ours_ns = bench.drive().replay(real, flushed=True)
        found, true = blocking(ours_ns), blocking(real.latency_ns)
        notes += [_said(f"{count} zones, recorded", true), _said(f"{count} zones, ours", found)]
        drawn[f"{count} zones"] = (ours_ns, real.latency_ns)
        if found is None:
            continue
        figures |= {
            f"{count} zones, a write and its flush, ms": found.usual_ns / 1e6,
            f"{count} zones, writes from stall to stall": found.stall_every,
            f"{count} zones, a stall, s": None if found.stall_ns is None else found.stall_ns / 1e9,
            f"{count} zones, writes before the first that waits for cleaning": float(found.spell.first),
            f"{count} zones, slow spell, writes": float(found.spell.writes),
            f"{count} zones, slow spell, s": found.spell.took_ns / 1e9,
            f"{count} zones, after it, ms": None if found.after_ns is None else found.after_ns / 1e6,
        }
    return Measured(figures, lambda: writes_figure(drawn, "flushed"), tuple(notes))


def r4(bench: Bench) -> Measured:
    """Random writes over the whole drive without a flush."""
    drive = bench.drive()
    real_ns = real_drive_recordings.sustained("wholedrive_run1_512k").latency_ns
    plan = _random_in(drive.all_zones(), WHOLE_BYTES, drive, "whole drive")
    ours_ns = drive.writes(*plan(len(real_ns)), WHOLE_BYTES)
    found, true = blocking(ours_ns), blocking(real_ns)
    notes = [_said("recorded", true), _said("ours", found)]
    if found is None:
        return Measured({}, notes=tuple(notes))
    spell = found.spell
    figures: dict[str, Ours] = {
        "fast writes": float(spell.first),
        "then, median s a write": float(np.median(ours_ns[spell.first : spell.end])) / 1e9,
        "then, MB/s": spell.writes * WHOLE_BYTES * 1e3 / spell.took_ns,
    }
    drawn = {"the whole drive": (ours_ns, real_ns)}
    return Measured(figures, lambda: writes_figure(drawn, "whole-drive"), tuple(notes))
