"""Findings from logs of fragmented reads.

Confidence is computed: the chance that an error of twice the standard one stays within the width of the
finding, times the share of reads or tracks that agree; of a place of the cache, the share of resamples of the
windows of reads that give the same verdict. A log that tells nothing takes nothing away from one that does.

Source: docs/tests/fragmented-reads.md; widths as in docs/random-drives.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skylight.engines.fio_log import JOB
from skylight.evidence import F64
from skylight.findings import UNKNOWN, Finding
from skylight.infer.ordered_reads import Marks, within
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, share
from skylight.probe.cache_location.findings import LOCATION
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.fragmented_reads.analysis import (
    FEWEST_FLOOR_READS,
    Home,
    Place,
    place_names,
)
from skylight.probe.fragmented_reads.findings import CACHE_STEP, FLOOR, SKEW
from skylight.probe.rotation.findings import ROTATION, TRACK, TRACK_RIGHT, TURN_RIGHT
from skylight.units import format_capacity, format_count, format_duration, format_size

TURN_WIDTH, TRACK_WIDTH, FLOOR_WIDTH, SKEW_WIDTH = TURN_RIGHT.part, TRACK_RIGHT.part, 0.1, 0.1
NEAR = 0.4
"""A cache within about a seventh of the stroke: docs/tests/fragmented-reads.md has the seek law behind it."""
LOWER, ALIKE = 0.8, 1.25
MOST_MODES = 2

Parts = dict[str, int | float | bool | str]


def judge(places: Sequence[Place]) -> list[Finding]:
    """What the logs tell together."""
    names = place_names(places)
    return [
        _drive_type(places),
        _rotation(places),
        _tracks(places, names),
        _skews(places, names),
        _location(places, names),
        _floors(places, names),
        _cache_steps(places, names),
    ]


def _troubles(places: Sequence[Place], otherwise: str) -> str:
    """Why no log tells something."""
    told = [place.trouble for place in places if place.trouble]
    if len(told) < len(places):
        return otherwise
    more = f" ({len(told) - 1} more logs are inconclusive too)" if len(told) > 1 else ""
    return f"{told[0][:-1]}{more}." if told else "No log was given."


def _drive_type(places: Sequence[Place]) -> Finding:
    where = [place for place in places if not place.trouble and place.elsewhere]
    if where:
        why = (
            f"Every second block of {where[0].name} lies elsewhere, as on a shingled drive after small"
            " writes; but a log shows neither what was written nor whether a drive or a file was read."
        )
    else:
        why = _troubles(places, "Reads alone do not show what a drive does with writes.")
    return DRIVE_TYPE.unknown(why)


def _homes(places: Sequence[Place]) -> list[tuple[Place, Home]]:
    return [(place, place.home) for place in places if not place.trouble and place.home is not None]


def _marked(places: Sequence[Place]) -> list[tuple[Place, Home, Marks]]:
    return [(place, home, home.marks) for place, home in _homes(places) if home.alone]


def turn_and_error(home: Home) -> tuple[float, float]:
    """A log's revolution and its error, ns.

    The number of reads on a track gives the step, a part of a revolution. The revolution that follows then is
    a second estimate, and half of what the two differ by counts as error."""
    fit = home.fit
    apart = (fit.turns * fit.turn + fit.step + fit.left)[fit.near]
    second = float(np.mean(apart)) / (float(np.mean(fit.turns[fit.near])) + 1 / home.marks.reads)
    return fit.turn, float(np.hypot(fit.turn_error, (second - fit.turn) / 2))


def _rotation(places: Sequence[Place]) -> Finding:
    homes = _homes(places)
    if not homes:
        why = _troubles(places, "No log follows a rotation.")
        return ROTATION.unknown(f"{why} The job to run instead: {JOB}")
    found = np.array([turn_and_error(home) for _, home in homes])
    weight = 1 / np.maximum(found[:, 1], 1.0) ** 2
    turn = float(np.average(found[:, 0], weights=weight))
    error = max(float(weight.sum() ** -0.5), float(found[:, 0].std()) / np.sqrt(len(found)))
    if within(error / turn, TURN_WIDTH) < 0.9:
        apart = format_duration(float(np.ptp(found[:, 0])) or error)
        why = f"The logs give revolutions that differ by {apart}."
        return ROTATION.unknown(why)
    agree = float(np.mean([home.fit.near.mean() for _, home in homes]))
    shown = ", ".join(
        f"{ns / 1e6:.4f} ms by {place.name}" for (place, _), ns in zip(homes, found[:, 0], strict=True)
    )
    why = (
        f"Times between reads whose blocks lie in order fall into clusters one revolution apart: {shown}"
        f" ({60e9 / turn:,.0f} rpm); {100 * agree:.0f} % of the reads agree."
    )
    interval = (turn - 3 * error, turn + 3 * error)
    confidence = within(error / turn, TURN_WIDTH) * agree
    return ROTATION.found(round(turn), confidence, why, _rows(p for p, _ in homes), interval)


def _rows(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(place.name for place in places)


def _tracks(places: Sequence[Place], names: dict[str, str]) -> Finding:
    marked = _marked(places)
    if not marked:
        why = _troubles(
            places, "Two classes of reads step on evenly, and nothing shows which blocks are at home."
        )
        return TRACK.unknown(why)
    value: Parts = {}
    confidence, words = 1.0, []
    for place, home, marks in marked:
        size = marks.reads * home.stride * place.pitch_bytes
        value[names[place.name]] = round(size / 512) * 512
        confidence *= within(1 / marks.reads / np.sqrt(marks.count), TRACK_WIDTH) * marks.seen
        words.append(
            f"{format_size(round(size))} at {format_capacity(place.first_byte)} ({marks.reads:.1f} reads of"
            f" {format_size(home.stride * place.pitch_bytes)}, {marks.count} tracks)"
        )
    why = f"The angle of the blocks jumps by a skew where a track begins, every {' and every '.join(words)}."
    return TRACK.found(value, confidence, why, _rows(p for p, _, _ in marked))


def _skews(places: Sequence[Place], names: dict[str, str]) -> Finding:
    marked = _marked(places)
    if not marked:
        why = _troubles(
            places, "Two classes of reads step on evenly, and nothing shows which blocks are at home."
        )
        return SKEW.unknown(why)
    value: Parts = {}
    confidence, words = 1.0, []
    for place, home, marks in marked:
        value[names[place.name]] = round(marks.skew)
        error = home.fit.sigma / np.sqrt(marks.count)
        confidence *= within(error / marks.skew, SKEW_WIDTH) * marks.seen
        words.append(f"{format_duration(marks.skew)} (+- {format_duration(float(error))}) in {place.name}")
    late = " and ".join(words)
    why = f"Beyond whole revolutions and its own time, the first block of a track is late by {late}."
    return SKEW.found(value, confidence, why, _rows(p for p, _, _ in marked))


def _with_floor(places: Sequence[Place]) -> list[Place]:
    return [place for place in places if not place.trouble and place.floor_ns is not None]


def _no_floor(places: Sequence[Place]) -> str:
    few = [place for place in places if not place.trouble and place.elsewhere and not place.enough]
    if few:
        return (
            f"{few[0].name} holds {format_count(few[0].count)} reads, and the way varies over a log: at least"
            f" {format_count(FEWEST_FLOOR_READS)} are needed."
        )
    return _troubles(
        places, "No log alternates between two places with a wait that is even over a revolution."
    )


def _floors(places: Sequence[Place], names: dict[str, str]) -> Finding:
    seen = _with_floor(places)
    if not seen:
        return FLOOR.unknown(_no_floor(places))
    value: Parts = {}
    confidence, words = 1.0, []
    for place in seen:
        floor = float(place.floor_ns or 0.0)
        low, high = np.quantile(place.floors_ns, [0.1, 0.9])
        error = float(np.hypot(_median_error(place.floors_ns), place.stretch_error * floor))
        value[names[place.name]] = round(floor)
        confidence *= within(error / floor, FLOOR_WIDTH) if floor > 0 else 0.0
        words.append(
            f"{format_duration(floor)} at {format_capacity(place.first_byte)}"
            f" ({format_duration(float(low))} to {format_duration(float(high))} over the log)"
        )
    why = (
        "Latencies are even over a revolution above a floor, the arm's way between a block at home and one"
        f" elsewhere with overhead and transfer: {', '.join(words)}."
    )
    return FLOOR.found(value, confidence, why, _rows(seen))


def _median_error(values: F64) -> float:
    """Standard error of the median, from resamples."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    drawn = rng.choice(values, (RESAMPLES, len(values)))
    return float(np.median(drawn, axis=1).std())


def _place_of_cache(floor: dict[str, float]) -> str:
    """Where what lies elsewhere is, from the floor at each place, by name; unknown where they do not say."""
    near, far = min(floor, key=lambda name: floor[name]), max(floor.values())
    if {"od", "md", "id"} <= set(floor):
        if floor["md"] < LOWER * min(floor["od"], floor["id"]):
            return "md"
        if far < ALIKE * floor[near]:
            return "many"
    if len(floor) > 1 and floor[near] < NEAR * far and (near == "od" or (near == "id" and "od" in floor)):
        return near
    return UNKNOWN


def _location(places: Sequence[Place], names: dict[str, str]) -> Finding:
    seen = _with_floor(places)
    floor = {names[place.name]: float(place.floor_ns or 0.0) for place in seen}
    if not seen:
        return LOCATION.unknown(_no_floor(places))
    words = " and ".join(
        f"{format_duration(floor[names[place.name]])} at {format_capacity(place.first_byte)}"
        for place in seen
    )
    if len(seen) < 2:
        why = f"The way to the blocks that lie elsewhere takes {words}; one place alone shows no direction."
        return LOCATION.unknown(why)
    place = _place_of_cache(floor)
    if place == UNKNOWN:
        why = f"The way to the blocks that lie elsewhere takes {words}, which fits no one place."
        return LOCATION.unknown(why)
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))

    def again() -> str:
        drawn = {
            names[p.name]: float(np.median(rng.choice(p.floors_ns, len(p.floors_ns))))
            * float(rng.normal(1.0, p.stretch_error))
            for p in seen
        }
        return _place_of_cache(drawn)

    confidence = share(sum(again() == place for _ in range(RESAMPLES)))
    why = f"Every second block lies elsewhere, and the way there takes {words}: {_sense(place, seen)}."
    return LOCATION.found(place, confidence, why, _rows(seen))


def _sense(place: str, seen: Sequence[Place]) -> str:
    """What the ways say, in words."""
    sense = {
        "od": "the cache lies near the low addresses, the outer diameter",
        "id": "the cache lies near the high addresses, the inner diameter",
        "md": "the cache lies near the middle addresses",
        "many": "there are caches near every place",
    }[place]
    tracks = [p for p in seen if p.track_bytes is not None]
    if place in ("od", "id") and len(tracks) > 1:
        one, other = (format_size(round(p.track_bytes or 0)) for p in (tracks[0], tracks[-1]))
        sense += f" (tracks of {one} at the lowest, {other} at the highest)"
    return sense


def _cache_steps(places: Sequence[Place], names: dict[str, str]) -> Finding:
    seen = [place for place in places if not place.trouble and place.cache_steps]
    if not seen:
        why = _troubles(places, "No log has blocks elsewhere that follow each other at usual angles.")
        return CACHE_STEP.unknown(why)
    value: Parts = {}
    confidence, words = 1.0, []
    for place in seen:
        modes = place.cache_steps[:MOST_MODES]
        for number, (angle, _) in enumerate(modes, 1):
            value[names[place.name] if number == 1 else f"{names[place.name]} {number}"] = round(angle, 4)
        confidence *= min(1.0, sum(part for _, part in modes))
        shown = " and ".join(f"{angle:.3f} ({100 * part:.0f} %)" for angle, part in modes)
        words.append(f"{shown} in {place.name}")
    why = (
        "From one block that lies elsewhere to the next, in the order they were written, the platter rotates"
        f" by {'; '.join(words)} ({format_count(sum(place.count // 2 for place in seen))} blocks)."
    )
    return CACHE_STEP.found(value, confidence, why, _rows(seen))
