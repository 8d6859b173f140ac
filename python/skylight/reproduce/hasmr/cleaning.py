"""Rows H3a, H3b and R5: how long the drive takes to clean a zone.

Zones are updated, then the drive is left alone and its non-sequential zones are counted: the mean time to
clean one is the time from the first that is clean to the last, over the zones cleaned in it. The paper
updates 100 zones; fewer are updated here so that the most updates of a row fit in the persistent cache, since
cleaning that begins while the host still writes is not seen in the count.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.4, Figures 3 and 4; the
README of `st8000as0022-sustained-nonseq`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from skylight.evidence import I64
from skylight.reproduce.hasmr import real_drive_recordings
from skylight.reproduce.hasmr.drawing import cleaning_figure, count_figure, ionum_figure
from skylight.reproduce.hasmr.drive import KIB, Bench, ZonedDrive, rng
from skylight.reproduce.rows import Measured, NotMeasured, Ours

ZONES = 8
UPDATE_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.4)
PLACES = ("beginning", "middle", "end", "random")
STATES = ("empty", "full")
UPDATE_BYTES = 256 * KIB

BASE_IOS, BASE_BYTES, GROWTH = 800, 32 * KIB, (1, 2, 3, 4)
"""Figure 4's start, n = 800 and s = 32 KiB: 9.8 % of a zone of 256 MiB, where the paper prints 20 %."""

WATCH_S, PATIENCE_S = 0.25, 7_200.0
"""From one count of the non-sequential zones to the next, and how long a drive may take to clean them all."""

IDLE = "nonseq_count_idle_cleaning"
SAMPLE_S = 1.13
IDLE_ZONES = 2_823
"""Zones of the recorded idle cleaning, each with one piece of 512 KiB."""


def updates(drive: ZonedDrive, zone: int, ios: int, size: int, place: str) -> I64:
    """Offsets of updates in a zone, in random order; none at its start, where the write pointer of an empty
    zone is."""
    last = drive.layout.zone_bytes // size
    first = {"beginning": 1, "middle": (last - ios) // 2, "end": last - ios, "random": 1}[place]
    if place == "random":
        chosen = rng(f"updates/{zone}/{ios}").choice(last - 1, ios, replace=False) + 1
    else:
        chosen = rng(f"updates/{zone}/{ios}").permutation(ios) + max(first, 1)
    return chosen.astype(np.int64) * size


def watch(drive: ZonedDrive, seconds: float = PATIENCE_S) -> list[tuple[float, int]]:
    """Leaves the drive alone and counts its non-sequential zones until there are none: time (s) and count."""
    seen = [(0.0, drive.non_sequential())]
    while seen[-1][1] and seen[-1][0] < seconds:
        drive.pause(WATCH_S)
        seen.append((seen[-1][0] + WATCH_S, drive.non_sequential()))
    return seen


def zone_s(seen: Sequence[tuple[float, int]]) -> float:
    """The mean time to clean a zone (s), from the first that is clean to the last."""
    first = next((row for row in seen if row[1] < seen[0][1]), None)
    last = next((row for row in seen if row[1] == 0), None)
    if first is None or last is None:
        raise NotMeasured(f"unknown: {seen[-1][1]} zones are not clean after {seen[-1][0]:,.0f} s")
    if first[1] == 0:
        raise NotMeasured("unknown: all zones were cleaned at once")
    return (last[0] - first[0]) / first[1]


def cleaned(bench: Bench, state: str, ios: int, size: int, place: str) -> float:
    """The mean time to clean a zone (s) that was updated so."""
    drive = bench.drive()
    zones = drive.middle_zones(ZONES)
    if state == "full":
        drive.fill(zones)
    for zone in zones.tolist():
        offset = updates(drive, zone, ios, size, place)
        drive.writes(np.full(len(offset), zone, np.int64), offset, size)
    drive.flush()
    return zone_s(watch(drive))


Times = Mapping[tuple[str, str], Sequence[float]]
"""Mean times (s) by state and place, in the order of the update ratios."""


def _rising(values: Sequence[float]) -> int:
    """How many values are not above the one before."""
    return sum(after <= before for before, after in pairwise(values))


def h3a(bench: Bench) -> Measured:
    """Figure 3: update ratio, offset and initial state."""
    size = UPDATE_BYTES
    places = bench.drive().layout.zone_bytes // size
    times: Times = {
        (state, place): [cleaned(bench, state, round(ratio * places), size, place) for ratio in UPDATE_RATIOS]
        for state in STATES
        for place in PLACES
    }
    figures: dict[str, Ours] = {
        "steps of the update ratio that do not take longer": float(sum(map(_rising, times.values()))),
        "empty zones, pairs of offsets where the later is not longer": float(
            _out_of_order(times, "empty", ("beginning", "middle", "end"))
        ),
        "full zones, pairs of offsets where the earlier is not longer": float(
            _out_of_order(times, "full", ("end", "middle", "beginning"))
        ),
    }
    every = [one for row in times.values() for one in row]
    note = f"a zone takes {min(every):.1f} to {max(every):.1f} s; the paper prints 1 to more than 30 s"
    each = (
        f"{state}, {place}, s by update ratio: "
        + ", ".join(f"{ratio:.0%}: {one:.2f}" for ratio, one in zip(UPDATE_RATIOS, row, strict=True))
        for (state, place), row in times.items()
    )
    return Measured(figures, lambda: cleaning_figure(times, UPDATE_RATIOS), (note, *each))


def _out_of_order(times: Times, state: str, places: Sequence[str]) -> int:
    """How many neighbours of these places, which should take longer and longer, do not, at any ratio."""
    return sum(
        _rising([times[state, place][number] for place in places]) for number in range(len(UPDATE_RATIOS))
    )


def h3b(bench: Bench) -> Measured:
    """Figure 4: more I/Os against larger ones, with the same data."""
    more = [cleaned(bench, "empty", BASE_IOS * factor, BASE_BYTES, "random") for factor in GROWTH]
    larger = [cleaned(bench, "empty", BASE_IOS, BASE_BYTES * factor, "random") for factor in GROWTH]
    figures: dict[str, Ours] = {
        "least time of more I/Os over that of larger ones": min(
            one / other for one, other in zip(more[1:], larger[1:], strict=True)
        ),
        "steps that do not take longer": float(_rising(more) + _rising(larger)),
    }
    return Measured(figures, lambda: ionum_figure(more, larger, GROWTH))


def r5(bench: Bench) -> Measured:
    """The recorded count of non-sequential zones while the drive is idle, and ours."""
    sample, count = real_drive_recordings.counts(IDLE)
    fell = -np.diff(count)[1:-1] / np.diff(sample)[1:-1]
    drive = bench.drive()
    draw = rng("idle")
    zones = draw.choice(drive.all_zones(), IDLE_ZONES, replace=False)
    places = drive.layout.zone_bytes // (512 * KIB)
    drive.writes(zones, draw.integers(1, places, IDLE_ZONES) * 512 * KIB, 512 * KIB)
    drive.flush()
    ours = watch(drive, float(sample[-1]) * SAMPLE_S)
    zone_ms = SAMPLE_S * 1e3 * (sample[-1] - sample[1]) / count[1]
    pace = (
        f"the count falls by 9 or 10 in {np.mean((fell >= 9) & (fell <= 10)):.0%} of the samples,"
        f" {zone_ms:.0f} ms a zone from the first to the last"
    )
    meaning = (
        "that is eleven revolutions, in which 256 MiB can be neither read nor written, nor half of it filled"
        " with synthesized data: enough to move one piece of 512 KiB and to write the metadata of a zone once"
        " or twice (30 to 67 ms each past the edge of open zones), so these zones were not cleaned by"
        " read-modify-write of what lies before or after the piece; why not is open, and nothing is fitted to"
        " it"
    )
    notes = (pace, meaning, f"ours: {_idle_pace(ours)}")
    return Measured(
        {"zones a sample, recorded": float(np.median(fell))},
        lambda: count_figure(sample.astype(np.float64) * SAMPLE_S, count, ours),
        notes,
    )


def _idle_pace(seen: Sequence[tuple[float, int]]) -> str:
    """How fast our drive cleaned while it was watched, in words."""
    begun = next((row for row in seen if row[1] < seen[0][1]), None)
    if begun is None:
        return f"no zone is cleaned in {seen[-1][0]:,.0f} s"
    done = begun[1] - seen[-1][1]
    if done == 0:
        return "all zones are cleaned at once"
    return (
        f"cleaning begins after {begun[0]:,.0f} s and takes {(seen[-1][0] - begun[0]) / done * 1e3:,.0f} ms a"
        " zone"
    )
