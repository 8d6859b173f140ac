"""Test 11, zones: how fast the drive reads along its addresses, and plateaus of surfaces that differ.

Two things are measured. *Throughput*: bursts of sequential 1 MiB reads with look-ahead on at even distances,
where the paper reads the whole drive. *Track sizes*: a few hundred single-block reads at a place give the
size of its tracks to about 0.1 % (`skylight.infer.track_phases`), which the speed of a burst, with its
crossings of tracks and bands, does not. The first change of size is looked for from both ends by doubling
and halving (`serpentine_pass_search.py`), then stroke after stroke until one pattern explains them all: the
surfaces of a drive whose walk stays on one surface for thousands of tracks, in one order and back
(`track_sizes.py`). The same sizes and bursts tell recording zones apart (`zone_table.py`).

Invariants: reads only, but for the zones of a zoned target, which are filled before they are read. Drives
whose tracks only become shorter have no plateaus, and no finding of them.

Source: Skylight (FAST '15) section 4.9, Test 11, Figures 17 and 18; docs/figures.md, row S11a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import Evidence, IoBatch, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.priors import CHOSEN
from skylight.probe import Axis, Cost, Figure
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.recording_zones import figures, zone_table
from skylight.probe.recording_zones.findings import FINDINGS, PLATEAUS, THROUGHPUT
from skylight.probe.recording_zones.serpentine_pass_search import Walk, walk
from skylight.probe.recording_zones.speed import BURST_READS, BURSTS, READ_BYTES, Profile, profile_of
from skylight.probe.recording_zones.track_sizes import READS, SPREAD_TRACKS, Size, pattern, size_of
from skylight.units import format_size

IO_BYTES = 4096
MOST_PLACES = 250
SPARE_PLACES = 2
LEAST_BYTES = 1 << 30
MOST_S, LIKELY_S = 3_600.0, 150.0
PROFILE = "profile"
FINEST = 0.001
"""The least spread that is named: the times of no host are worth more digits."""


def step_name(number: int) -> str:
    """The name of the step at the place that was asked for as number `number`."""
    return f"tracks-{number:03d}"


@dataclass(slots=True)
class Seen:
    """What was seen: the throughput along the drive, and what the search for changes of the track size came
    upon. None where the one or the other was not measured."""

    profile: Profile | None = None
    walk: Walk | None = None


class Zones(ProcedureTest[Seen]):
    """Test 11 of the suite; see the module's page."""

    name = "zones"
    title = "Zones and plateaus"
    findings = FINDINGS
    axis: Axis = "address"
    needs: tuple[str, ...] = ("drive_type", "rotation")
    summary = (
        "Bursts of sequential reads along the drive show its throughput; the size of tracks at many places"
        " shows whether surfaces differ and how long the drive stays on one."
    )
    rests_on_type = False
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: every burst, and as many places as the search may ask for."""
        del facts
        ios = BURSTS * BURST_READS + MOST_PLACES * READS
        return Cost(ios, MOST_S, 0, LIKELY_S, LIKELY_S)

    cost_of_reads = cost

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """The profile, then the search."""
        if steps.known.word("drive_type") == "not-rotating" or steps.size < LEAST_BYTES:
            return
        if steps.can_write:
            shingled = steps.known.word("drive_type") == "smr"
            steps.reset("erase", slow=shingled and steps.known.word("cleaning_type") != "lazy")
        with steps.settings("settings-profile", write_cache=False, look_ahead=True):
            bursts = _bursts(steps.size)
            if steps.written(bursts.offset, READ_BYTES):
                seen.profile = profile_of(steps.run(PROFILE, bursts, params={"bursts": BURSTS}))
        guess = _Guess.of(steps.known, steps.size)
        if guess is None:
            return
        with steps.settings("settings-tracks", write_cache=False, look_ahead=False):
            _Places(guess, steps).search(seen)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """Throughput at three places, plateaus where there are any, and recording zones."""
        known = steps.known
        if known.word("drive_type") == "not-rotating":
            return []
        turns = known.number("rotation_ns") is not None
        return [
            _throughput(seen.profile, turns=turns),
            *_plateaus(seen.walk),
            *_recording_zones(seen, float(steps.size), known),
        ]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Throughput along the drive, and the strokes of the first zones."""
        seen = self.seen(evidence, findings)
        turns = Known(findings).number("rotation_ns") is not None
        profile = seen.profile if turns else None
        zones = None
        if seen.walk is not None and seen.walk.pattern is None:
            zones = zone_table.zones_of(seen.walk.every, profile, float(evidence.target.size_bytes))
        return figures.draw(profile, seen.walk, zones)


@dataclass(frozen=True, slots=True)
class _Guess:
    """What the rotation test found: period and track sizes, from which those anywhere are guessed."""

    period_ns: float
    sizes: tuple[float, ...]
    size_bytes: float

    @staticmethod
    def of(known: Known, size_bytes: float) -> _Guess | None:
        period_ns = known.number("rotation_ns")
        sizes = [known.part("track_bytes", key) for key in ("od", "md", "id")]
        given = tuple(size for size in sizes if size is not None)
        return _Guess(period_ns, given, size_bytes) if period_ns and len(given) == 3 else None

    def track(self, at: float) -> float:
        """Bytes of a track around an address, roughly."""
        return float(np.interp(at / self.size_bytes, [0.0, 0.5, 1.0], self.sizes))

    def reads(self, at: float) -> IoBatch:
        """The reads of a place."""
        track = self.track(at)
        most = self.size_bytes - (SPREAD_TRACKS + 0.5) * track
        begin = min(max(at - SPREAD_TRACKS * track / 2, 0.0), most)
        blocks = (begin + pattern(track)) // IO_BYTES
        return IoBatch.reads(blocks.astype(np.uint64) * np.uint64(IO_BYTES), IO_BYTES)


class _Places:
    """Places whose track sizes are asked for, one after the other."""

    def __init__(self, guess: _Guess, steps: Steps) -> None:
        """None is asked for yet."""
        self._guess = guess
        self._steps = steps
        self._count = 0

    def ask(self, at: float) -> Size | None:
        """The track size around an address (bytes); None where it cannot be told, or after too many."""
        number, reads = self._count, self._guess.reads(at)
        if not self._steps.written(reads.offset, IO_BYTES):
            return None
        log = self._steps.run(step_name(number), reads, params={"place": number})
        self._count += 1
        if self._count > MOST_PLACES:
            return None
        return size_of(log, self._guess.period_ns, self._guess.track(at))

    def search(self, seen: Seen) -> None:
        """Plateaus, and without them the changes of recording zones."""
        size_bytes = self._guess.size_bytes
        found = seen.walk = Walk()
        walk(self.ask, size_bytes, found)
        if found.pattern is None:
            left = MOST_PLACES - self._count - SPARE_PLACES
            found.every += zone_table.settle(self.ask, found.every, seen.profile, size_bytes, left)


def _bursts(size_bytes: int) -> IoBatch:
    """Sequential reads in bursts at even distances, the last one at the very end."""
    length = BURST_READS * READ_BYTES
    begins = np.linspace(0, (size_bytes - length) // READ_BYTES, BURSTS).astype(np.uint64)
    at = begins[:, None] + np.arange(BURST_READS, dtype=np.uint64)
    return IoBatch.reads(at.ravel() * np.uint64(READ_BYTES), READ_BYTES)


def _throughput(profile: Profile | None, *, turns: bool) -> Finding:
    if not turns:
        why = (
            "No rotation was found, so what was read may come from a cache, or from places that hold nothing."
        )
        return THROUGHPUT.unknown(why)
    if profile is None:
        return THROUGHPUT.unknown("No burst of sequential reads was measured.")
    value: dict[str, int | float | bool | str] = {key: round(speed) for key, speed in profile.ends.items()}
    why = (
        f"Sequential 1 MiB reads with look-ahead on, in {len(profile.speed)} bursts of {BURST_READS}: "
        + ", ".join(f"{speed / 1e6:.0f} MB/s at the {key.upper()}" for key, speed in profile.ends.items())
        + f"; commands of a burst agree to {100 * max(profile.spread, FINEST):.1g} %."
    )
    return THROUGHPUT.found(value, max(0.0, 1.0 - profile.spread), why, (PROFILE,))


def _recording_zones(seen: Seen, size_bytes: float, known: Known) -> list[Finding]:
    """How many recording zones there are; nothing where no track was measured."""
    found = seen.walk
    if found is None:
        return []
    keeps = known.word("drive_type") != "cmr"
    return [zone_table.finding(found.every, found.pattern, seen.profile, size_bytes, keeps=keeps)]


def _plateaus(found: Walk | None) -> list[Finding]:
    """Plateaus; unknown where surfaces differ without a pattern, none where tracks only become shorter."""
    rows = ("tracks-000",)
    if found is None:
        why = "Without the revolution and track sizes there is nothing to compare."
        return [PLATEAUS.unknown(why)]
    pattern_found = found.pattern
    if pattern_found is None or found.first_bytes is None or found.last_bytes is None:
        if not found.uneven and pattern_found is None:
            return []
        why = "Tracks become longer with rising addresses, so surfaces differ, but no pattern explains it."
        if pattern_found is not None:
            count = pattern_found.count
            why = f"Strokes of {count} surfaces repeat mirrored, but where the last begins is not plain."
        return [PLATEAUS.unknown(why, rows)]
    first, last = round(found.first_bytes), round(found.last_bytes)
    density = ", ".join(f"{part:.3f}" for part in pattern_found.density)
    why = (
        f"Track sizes of {len(found.strokes)} serpentine passes repeat mirrored for {pattern_found.count}"
        f" surfaces of relative density {density}, to {100 * pattern_found.off:.2f} %; the first pass ends at"
        f" {format_size(first)}, the last begins {format_size(last)} before the end."
    )
    agreeing = len(found.strokes) - pattern_found.count
    value: dict[str, int | float | bool | str] = {
        "count": pattern_found.count, "mirrored": True, "first_bytes": first, "last_bytes": last
    }  # fmt: skip
    return [PLATEAUS.found(value, 1.0 - CHOSEN["surface agrees"] ** agreeing, why, rows)]
