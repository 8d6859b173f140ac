"""Zone cleaning: how long does a host-aware drive take to clean a zone, and what does that depend on?

Cleaning brings non-sequential data home by a read-modify-write. In an empty zone what lies before the data is
filled; in a full one what lies after it is written again. `measure` updates zones to different ratios, at
different places, with more and with larger writes, and watches their number fall while the drive is idle.

Whether a zone is cleaned as a whole shows in single updates of full zones: cleaning takes the less the later
the update, down to the end of the zone. If a part were cleaned for itself, the time would rise again where
the next part begins.

Confidence: of times, how near two polls come to the time of all zones of a trial; of the unit, one minus the
chance that times in no order fall so (one in 24).

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.4, Figures 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import factorial

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding
from skylight.infer.robust import share
from skylight.probe import Cost, Figure
from skylight.probe.band_size.cache_parts import PLACES as PARTS
from skylight.probe.band_size.findings import BAND_SIZE
from skylight.probe.cleaning.findings import START, START_RIGHT, TYPE
from skylight.probe.cleaning.verdict import LEAST_CONFIDENCE, chance_within
from skylight.probe.known_state import with_state
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.zone_cleaning import measure
from skylight.probe.zone_cleaning.figures import draw
from skylight.probe.zone_cleaning.findings import EACH_IO, FINDINGS, FIRST_CLEAN, OWN, UNIT, ZONE
from skylight.probe.zone_cleaning.measure import EIGHTHS, GROWTH, POLL_S, Seen, zones_of_a_trial
from skylight.probe.zoned import HOST_AWARE, ZonesSeen

MOST_IOS, MOST_S, LIKELY_S, MOST_BYTES = 600_000, 86_400.0, 10_000.0, 400 << 30
LEAST_ZONES, LEAST_CAPACITY = 4, 8 << 20
FIRST_ZONE_ERROR = 0.03
"""How far the first zone of a trial may differ from the mean of its neighbours, as a standard deviation.
Chosen: tracks get shorter by so much from a recording zone to the next, where a drive has some thirty."""
POLLS_DISTURB = (
    "Zones left alone in one go were clean sooner than those that the drive was asked about again and again:"
    " a report disturbs its idle time."
)
SURE_OF_UNIT = 1 - 1 / factorial(len(EIGHTHS))
"""That single updates at one place do not fall in time by chance."""


class ZoneCleaning(ProcedureTest[Seen]):
    """The test of zone cleaning; see the module's page."""

    name = "zone_cleaning"
    title = "Zone cleaning"
    findings = FINDINGS
    summary = (
        "Updates zones to different ratios, at different places and with writes of different sizes, and"
        " watches how long the drive takes to clean them."
    )
    rests_on_type = False
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """The bound; what it takes depends on when the drive begins to clean."""
        return Cost(MOST_IOS, MOST_S, MOST_BYTES, LIKELY_S, LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """On a host-aware target that may be written to."""
        zones = steps.zones("zones") if steps.can_write else None
        if zones is None or zones.model != HOST_AWARE or zones.usable < LEAST_ZONES:
            return
        if zones.capacity_bytes < LEAST_CAPACITY:
            return
        seen.zones = zones
        # The drive counts all its zones, not those of a trial alone.
        seen.state = steps.reset("erase", slow=False)
        with steps.settings("settings", write_cache=True, look_ahead=False):
            measure.trials(steps, seen, zones)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """Times by state and place, what each write adds, the unit, and when a first zone is clean."""
        zones = seen.zones
        if zones is None:
            return []
        if seen.begun_by_s is None:
            why = "No zone was cleaned while the drive was left alone, or all were before it was."
            return with_state([each.unknown(why, steps.names) for each in OWN], seen.state)
        rows = steps.names
        unit = _unit(seen, rows)
        found = [
            _times(seen, zones, rows),
            _each_io(seen, zones, rows),
            unit,
            _first_clean(seen, rows),
            *_type(seen, steps),
            *_start(seen, steps),
            *_bands(seen, zones, steps),
        ]
        return with_state(found, seen.state)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Cleaning time against update ratio, and count against size, as Figures 3 and 4."""
        return draw(self.seen(evidence, findings))


def _sure(zone_ns: float, zones: ZonesSeen) -> float:
    """How near two polls come to the time of all zones of a trial."""
    whole_s = zone_ns * len(zones_of_a_trial(zones)) / 1e9
    return max(1 - 2 * POLL_S / max(whole_s, 1e-9), 0.0)


def _times(seen: Seen, zones: ZonesSeen, rows: Sequence[str]) -> Finding:
    """Mean times at one update ratio."""
    size = measure.update_bytes(zones)
    ios = measure.updates_of(measure.RATIO, zones, size)
    value: dict[str, int | float | bool | str] = {}
    for state in measure.STATES:
        for place in measure.PLACES:
            time_ns = seen.time_ns(state, place, ios, size)
            if time_ns is not None:
                value[f"{state}_{place}"] = round(time_ns)
    if not value:
        return ZONE.unknown("In no trial was cleaning seen from its first zone to its last.", rows)
    updated = f"{100 * measure.RATIO:.0f} % of their data updated"
    why = f"Zones with {updated}, {len(zones_of_a_trial(zones))} at a time."
    return ZONE.found(value, min(_sure(float(one), zones) for one in value.values()), why, rows)


def _each_io(seen: Seen, zones: ZonesSeen, rows: Sequence[str]) -> Finding:
    """What more writes cost over larger ones with the same data."""
    few, many, large = ([one for one in seen.trials if one.state == "empty"][-3:] + [None] * 3)[:3]
    if few is None or many is None or large is None or many.ios != GROWTH * few.ios:
        return EACH_IO.unknown("The trials of more and of larger writes were not done.", rows)
    if many.zone_ns is None or large.zone_ns is None:
        return EACH_IO.unknown("Cleaning was not seen from its first zone to its last.", rows)
    each_ns = (many.zone_ns - large.zone_ns) / (many.ios - large.ios)
    why = (
        f"A zone with {many.ios:,} writes of {many.size_bytes >> 10} KiB takes {many.zone_ns / 1e9:.2f} s,"
        f" one with {large.ios:,} of {large.size_bytes >> 10} KiB {large.zone_ns / 1e9:.2f} s."
    )
    return EACH_IO.found(round(each_ns), _sure(abs(many.zone_ns - large.zone_ns), zones), why, rows)


def _unit(seen: Seen, rows: Sequence[str]) -> Finding:
    """Whether zones are cleaned as a whole."""
    times = seen.singles_ns(PARTS[0])
    if len(times) < len(EIGHTHS):
        return UNIT.unknown("Single updates of full zones were not all seen to be cleaned.", rows)
    why = f"A single update at 1, 3, 5 and 7 eighths of a full zone takes {_seconds(times)} s to clean."
    return (
        UNIT.found("zone", SURE_OF_UNIT, why, rows) if seen.as_a_whole(PARTS[0]) else UNIT.unknown(why, rows)
    )


def _seconds(times_ns: Sequence[float]) -> str:
    return ", ".join(f"{one / 1e9:.2f}" for one in times_ns)


def _first_clean(seen: Seen, rows: Sequence[str]) -> Finding:
    """Idle time before the first zone is clean."""
    if _polls_disturb(seen):
        return FIRST_CLEAN.unknown(POLLS_DISTURB, rows)
    begun_s = seen.begun_by_s or 0.0
    low, high = seen.not_before_s * 1e9, begun_s * 1e9
    why = f"After {seen.not_before_s:.1f} s of idle time no zone was clean, after {begun_s:.1f} s one was."
    near = 1 - min((high - low) / max(high, 1.0), 1.0)
    return FIRST_CLEAN.found(round(high), near, why, rows, (low, high))


def _polls_disturb(seen: Seen) -> bool:
    """Whether zones that were left alone in one go were clean before the drive can have begun by the first
    trial, in which it was asked again and again. The zones of a trial may take less long than its first."""
    first = seen.trials[0]
    zone_s = (first.zone_ns or 0.0) / 1e9
    poll_s = (seen.begun_by_s or 0.0) - seen.not_before_s
    begun_s = seen.not_before_s - max(first.first_count, 1) * zone_s * (1 + 2 * FIRST_ZONE_ERROR) - poll_s
    for one in seen.trials[1:]:
        each_s = (one.zone_ns or 0.0) / 1e9 * (1 - 2 * FIRST_ZONE_ERROR)
        if one.first_s is not None and one.first_s - one.first_count * each_s < begun_s:
            return True
    return False


def _type(seen: Seen, steps: Replay) -> list[Finding]:
    """Whether the drive cleans when it is left alone, where the test of cleaning could not say: in each trial
    all zones had non-sequential data behind the last write. Unknown, where that test saw nothing cleaned."""
    before = steps.known.get(TYPE.name)
    cleaned = [one for one in seen.trials if one.zone_ns is not None]
    if before is None or before.value == "aggressive" or not cleaned:
        return []
    rows = list(dict.fromkeys(row for one in cleaned for row in one.rows))
    many = f"{len(cleaned)} of {len(seen.trials)}"
    why = f"In {many} trials the drive cleaned the zones while it was left alone."
    if before.known:
        return [TYPE.unknown(f"{why} But {before.why}.", (*before.rows, *rows))]
    return [TYPE.found("aggressive", share(len(cleaned), len(seen.trials)), why, rows)]


def _start(seen: Seen, steps: Replay) -> list[Finding]:
    """When cleaning begins, where the test of cleaning could not say: when the first zone of the first trial
    was clean, less the time of a zone, which is that of all of them, since all hold the same."""
    kind, before, trial = steps.known.get(TYPE.name), steps.known.get(START.name), seen.trials[0]
    open_question = not before.known if before is not None else kind is not None and not kind.known
    if not open_question or seen.begun_by_s is None or trial.zone_ns is None or _polls_disturb(seen):
        return []
    first_s, poll_s = (seen.not_before_s + seen.begun_by_s) / 2, seen.begun_by_s - seen.not_before_s
    zone_s = trial.zone_ns / 1e9
    start_s = first_s - zone_s
    # The first zone was clean at any time between two polls, and so was the last; and it may take longer than
    # the mean of the others.
    polls_s = math.hypot(poll_s, poll_s / trial.left, measure.POLL_SHARE * zone_s) / math.sqrt(12)
    apart_s = math.hypot(polls_s, FIRST_ZONE_ERROR * zone_s)
    confidence = chance_within(START_RIGHT.part, apart_s / start_s) if start_s > 0 else 0.0
    if confidence < LEAST_CONFIDENCE:
        return []
    why = f"A first zone was clean after {first_s:.1f} s of idle time, and one like it takes {zone_s:.2f} s."
    interval = (max(start_s - 2 * apart_s, 0.0) * 1e9, (start_s + 2 * apart_s) * 1e9)
    return [START.found(round(start_s * 1e9), confidence, why, trial.rows, interval)]


def _bands(seen: Seen, zones: ZonesSeen, steps: Replay) -> list[Finding]:
    """The size of bands, where blocks that went home together did not say: what is cleaned as a whole, at the
    places of the usable zones where that was seen."""
    before = steps.known.get(BAND_SIZE.name)
    whole = [part for part in PARTS if seen.as_a_whole(part)]
    if before is None or before.known or not whole:
        return []
    said = "; ".join(f"{_seconds(seen.singles_ns(part))} s at the {part.upper()}" for part in whole)
    why = f"A single update at 1, 3, 5 and 7 eighths of a full zone takes so long to clean: {said}."
    rows = [row for one in seen.trials if one.part in whole and one.place.isdigit() for row in one.rows]
    value: dict[str, int | float | bool | str] = dict.fromkeys(whole, zones.zone_bytes)
    return [BAND_SIZE.found(value, SURE_OF_UNIT ** len(whole), why, rows)]
