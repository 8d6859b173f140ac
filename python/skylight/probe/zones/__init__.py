"""Test 11, zones: how fast the drive reads along its addresses, and plateaus of surfaces that differ.

Two things are measured. *Throughput*: bursts of sequential 1 MiB reads with look-ahead on at even distances,
where the paper reads the whole drive. *Track sizes*: a few hundred single-block reads at a place give the
size of its tracks to about 0.1 % (`skylight.infer.turning`), which the speed of a burst, with its crossings
of tracks and bands, does not. The first change of size is looked for from both ends by doubling and halving
(`walk.py`), then stroke after stroke until one pattern explains them all: the surfaces of a drive whose walk
stays on one surface for thousands of tracks, in one order and back (`sizes.py`). The same sizes and bursts
tell recording zones apart (`recording.py`).

Invariants: reads only; `infer` does the same search as `measure`, answered from the recording. Drives whose
tracks only become shorter have no plateaus, and no finding of them.

Source: Skylight (FAST '15) section 4.9, Test 11, Figures 17 and 18; FACTS row S11a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import EMPTY_LOG, Evidence, IoBatch, IoLog, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe import Cost, Figure
from skylight.probe.session import Session
from skylight.probe.zones import figures, recording
from skylight.probe.zones.sizes import READS, SPREAD_TRACKS, Size, pattern, size_of
from skylight.probe.zones.speed import BURST_READS, BURSTS, READ_BYTES, Profile, profile_of
from skylight.probe.zones.walk import Walk, walk
from skylight.units import format_size

IO_BYTES = 4096
MOST_PLACES = 250
SPARE_PLACES = 2
LEAST_BYTES = 1 << 30
TURN_S = 0.0145
PROFILE = "profile"


def step_name(number: int) -> str:
    """The name of the step at the place that was asked for as number `number`."""
    return f"tracks-{number:03d}"


class Zones:
    """Test 11 of the suite; see the module's page."""

    name = "zones"
    title = "Zones and plateaus"
    needs: tuple[str, ...] = ("drive_type", "rotation")
    summary = (
        "Bursts of sequential reads along the drive tell its throughput; the size of tracks at many places"
        " tells whether surfaces differ and how long the drive stays on one."
    )

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """At most this: every burst, and as many places as the search may ask for."""
        del facts, writes
        ios = BURSTS * BURST_READS + MOST_PLACES * READS
        return Cost(ios, BURSTS * BURST_READS * 0.02 + MOST_PLACES * READS * TURN_S / 3, 0)

    def measure(self, session: Session) -> None:
        """The profile, then the search."""
        if session.known.word("drive_type") == "not-rotating" or session.size < LEAST_BYTES:
            return
        if session.can_write:
            session.erase("erase")
        with session.settings("settings-profile", write_cache=False, look_ahead=True):
            profile = profile_of(session.run(PROFILE, _bursts(session.size), params={"bursts": BURSTS}))
        guess = _Guess.of(session.known, session.size)
        if guess is None:
            return
        with session.settings("settings-tracks", write_cache=False, look_ahead=False):
            places = _Places(
                guess,
                lambda number, at: session.run(step_name(number), guess.reads(at), params={"place": number}),
            )
            places.search(profile)

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """Throughput at three places, plateaus where there are any, and recording zones."""
        if known.word("drive_type") == "not-rotating":
            return []
        profile = profile_of(evidence.log(PROFILE))
        found = _found(evidence, known)
        turns = known.number("rotation_ns") is not None
        return [
            _throughput(profile, turns=turns),
            *_plateaus(found),
            *_recording_zones(found, evidence, known),
        ]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Throughput along the drive, and the strokes of the first zones."""
        known = Known(findings)
        profile = profile_of(evidence.log(PROFILE)) if known.number("rotation_ns") is not None else None
        found = _found(evidence, known)
        zones = None
        if found is not None and found.pattern is None:
            zones = recording.zones_of(found.every, profile, float(evidence.target.size_bytes))
        return figures.draw(profile, found, zones)


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
    """Places whose track sizes are asked for, one after the other; `log_of` gives the reads of a place by its
    number and its address."""

    def __init__(self, guess: _Guess, log_of: Callable[[int, float], IoLog]) -> None:
        """None is asked for yet."""
        self._guess = guess
        self._log_of = log_of
        self._count = 0

    def ask(self, at: float) -> Size | None:
        """The track size around an address (bytes); None where it cannot be told, or after too many."""
        log = self._log_of(self._count, at)
        self._count += 1
        if self._count > MOST_PLACES:
            return None
        return size_of(log, self._guess.period_ns, self._guess.track(at))

    def search(self, profile: Profile | None) -> Walk:
        """Plateaus, and without them the changes of recording zones."""
        size_bytes = self._guess.size_bytes
        found = walk(self.ask, size_bytes)
        if found.pattern is None:
            left = MOST_PLACES - self._count - SPARE_PLACES
            found.every += recording.settle(self.ask, found.every, profile, size_bytes, left)
        return found


def _found(evidence: Evidence, known: Known) -> Walk | None:
    """What the search found; None where none was made."""
    guess = _Guess.of(known, float(evidence.target.size_bytes))
    return None if guess is None else evidence.once(_searched, guess)


def _searched(evidence: Evidence, guess: _Guess) -> Walk | None:
    """The search again, answered from the evidence; None where none was made."""
    logs = {step.name: step.rows for step in evidence.steps}
    if step_name(0) not in logs:
        return None
    places = _Places(guess, lambda number, at: logs.get(step_name(number), EMPTY_LOG))
    return places.search(profile_of(evidence.log(PROFILE)))


def _bursts(size_bytes: int) -> IoBatch:
    """Sequential reads in bursts at even distances, the last one at the very end."""
    length = BURST_READS * READ_BYTES
    begins = np.linspace(0, (size_bytes - length) // READ_BYTES, BURSTS).astype(np.uint64)
    at = begins[:, None] + np.arange(BURST_READS, dtype=np.uint64)
    return IoBatch.reads(at.ravel() * np.uint64(READ_BYTES), READ_BYTES)


def _throughput(profile: Profile | None, *, turns: bool) -> Finding:
    name, unit = "throughput_bytes_per_s", "bytes/s"
    if not turns:
        why = (
            "No rotation was found, so what was read may come from a cache, or from places that hold nothing."
        )
        return Finding(name, UNKNOWN, unit, None, 0.0, why)
    if profile is None:
        return Finding(name, UNKNOWN, unit, None, 0.0, "No burst of sequential reads was measured.")
    value: dict[str, int | float | bool | str] = {key: round(speed) for key, speed in profile.ends.items()}
    why = (
        f"Sequential 1 MiB reads with look-ahead on, in {len(profile.speed)} bursts of {BURST_READS}: "
        + ", ".join(f"{speed / 1e6:.0f} MB/s at the {key.upper()}" for key, speed in profile.ends.items())
        + f"; commands of a burst agree to {100 * profile.spread:.1f} %."
    )
    return Finding(name, value, unit, None, max(0.0, 1.0 - profile.spread), why, (PROFILE,))


def _recording_zones(found: Walk | None, evidence: Evidence, known: Known) -> list[Finding]:
    """How many recording zones there are; nothing where no track was measured."""
    if found is None:
        return []
    profile = profile_of(evidence.log(PROFILE))
    size_bytes = float(evidence.target.size_bytes)
    keeps = known.word("drive_type") != "cmr"
    return [recording.finding(found.every, found.pattern, profile, size_bytes, keeps=keeps)]


def _plateaus(found: Walk | None) -> list[Finding]:
    """Plateaus; unknown where surfaces differ without a pattern, none where tracks only become shorter."""
    rows = ("tracks-000",)
    if found is None:
        why = "Without the turn and track sizes of test 2 there is nothing to compare."
        return [Finding("plateaus", UNKNOWN, "bytes", None, 0.0, why)]
    pattern_found = found.pattern
    if pattern_found is None or found.first_bytes is None or found.last_bytes is None:
        if not found.uneven and pattern_found is None:
            return []
        why = "Tracks become longer with rising addresses, so surfaces differ, but no pattern explains it."
        if pattern_found is not None:
            count = pattern_found.count
            why = f"Strokes of {count} surfaces repeat mirrored, but where the last begins is not plain."
        return [Finding("plateaus", UNKNOWN, "bytes", None, 0.0, why, rows)]
    first, last = round(found.first_bytes), round(found.last_bytes)
    density = ", ".join(f"{part:.3f}" for part in pattern_found.density)
    why = (
        f"Track sizes of {len(found.strokes)} strokes repeat mirrored for {pattern_found.count} surfaces of"
        f" relative density {density}, to {100 * pattern_found.off:.2f} %; the first stroke ends at"
        f" {format_size(first)}, the last begins {format_size(last)} before the end."
    )
    agreeing = len(found.strokes) - pattern_found.count
    value: dict[str, int | float | bool | str] = {
        "count": pattern_found.count, "mirrored": True, "first_bytes": first, "last_bytes": last
    }  # fmt: skip
    return [Finding("plateaus", value, "bytes", None, 1.0 - 0.3**agreeing, why, rows)]
