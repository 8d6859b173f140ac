"""Out-of-band data of a journal on disk, from entries wherever the log has come to.

Both the write of a block and its read back end at the angle of that block: the time from the submission to
that moment holds the command overhead, the arm's way, a wait and, for the write, the out-of-band data with
the settling of the head. Commands come in all phases, so the shortest of each kind has no wait in it
(`skylight.infer.latency_without_wait`), and the difference of the two is the out-of-band data.

It has switches of track in it: as many as there are ends of tracks in it. Long entries, read back block by
block, show how long tracks are where the log is, and what a switch takes
(`skylight.infer.tracks_under_entries`). So what is written becomes a part of a track, and its time follows in
the mean of entries, which begin anywhere on a track: that of its bytes, and a switch for each track that
these fill.

Invariant: a value is given only if `SURE_ENOUGH` of the weight lies within a twentieth of a revolution of it;
the confidence is that weight.
Source: Skylight (FAST '15) section 4.3.1; docs/tests/journal.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skylight.evidence import F64, IoLog
from skylight.findings import Finding, Known
from skylight.infer.host_clock import tick_ns
from skylight.infer.latency_without_wait import STEP, Weighed, differences, in_tracks
from skylight.infer.robust import BOOTSTRAP_SEED
from skylight.infer.tracks_under_entries import Tracks, tracks
from skylight.probe.journal.findings import OUT_OF_BAND, OUT_OF_BAND_BYTES
from skylight.probe.journal.out_of_band_time import LEAST_TURNS, RIGHT_TURNS, SETTLE_NS, SURE_ENOUGH
from skylight.probe.journal.unerased_entries import CYCLES, LongEntries, columns
from skylight.units import format_duration, format_size

DRAWS = 8000
INTERVAL = (0.025, 0.5, 0.975)
NONE_CHANCE = 0.001
"""That there is no such data although some is claimed, at most. Chosen: of twenty drives on which none or
little is seen an interval of 95 % would claim some of one."""
LONGER, SHORTER = 1.25, 0.75  # tracks beyond those of the host's addresses, on either end: chosen
SAME = 0.01  # of a track: what those under the long entries and the others differ by
BYTES_RIGHT = 0.1  # of it: as of the sizes that rest on it (`cache_raw_bytes`)
WAY = "entries anywhere"
ROWS = ("later-1", "long-entry-read")


def judge_later(
    logs: Sequence[IoLog], long: LongEntries, quantum: int, rotation_ns: float, track: Mapping[str, float]
) -> list[Finding]:
    """The findings from cycles of lone writes, and the blocks of long entries; `track` has the bytes on a
    track at the outer, middle and inner diameter, where they are known."""
    if len(track) < 3:
        return _unknown("how long tracks are is not known")
    wrote, written, asked, read = columns(logs)
    if len(wrote) < CYCLES:
        return _unknown("too few entries were written")
    shortest, longest = SHORTER * min(track.values()), LONGER * max(track.values())
    here = tracks(long.angles(rotation_ns), shortest, longest)
    if here is None:
        return _unknown("blocks of long entries do not show the tracks that these lie on")
    to_block = _to_block(wrote, written, read, _rest(quantum, here), rotation_ns)
    tick = tick_ns(wrote, written, asked, read) / rotation_ns
    to_read = (read - asked) / rotation_ns
    apart = differences(to_block, to_read, tick, here.switch, SETTLE_NS / 2 / rotation_ns)
    parts, rng = _parts(apart, here, rotation_ns)
    times = parts * np.where(parts > 0, 1 + here.switch, 1.0)
    return [_finding(times, len(wrote), here, rotation_ns), _bytes(parts, here, rng)]


def known_tracks(known: Known) -> dict[str, float]:
    """The bytes on a track at the outer, middle and inner diameter, as far as they are known."""
    return {at: size for at in ("od", "md", "id") if (size := known.part("track_bytes", at))}


def is_open(found: Sequence[Finding]) -> bool:
    """Whether more cycles may show what `judge_later` found no value for: its bounds are too wide."""
    return any(not each.known and each.interval is not None for each in found)


def _unknown(why: str) -> list[Finding]:
    return [each.unknown(why, ROWS) for each in (OUT_OF_BAND, OUT_OF_BAND_BYTES)]


def _rest(quantum: int, here: Tracks) -> float:
    """From the end of a block to that of the quantum that it begins, revolutions: the mean of all places."""
    return quantum / here.bytes * (1 + here.switch)


def _to_block(wrote: F64, written: F64, read: F64, rest: float, rotation_ns: float) -> F64:
    """From the submission of each write to the end of its block, revolutions: the angle by when the block
    passed as it was read, whole revolutions by when the write was done."""
    behind = np.mod((written - read) / rotation_ns - rest + 0.5, 1.0) + rest - 0.5
    return (written - wrote) / rotation_ns - behind


def _parts(apart: Weighed, here: Tracks, rotation_ns: float) -> tuple[F64, np.random.Generator]:
    """Draws of how many tracks the out-of-band data takes where the log is, less than none as well; and the
    generator for further draws."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    taken = rng.choice(apart.at, DRAWS, p=apart.weight / apart.weight.sum())
    taken = taken + rng.uniform(-STEP / 2, STEP / 2, DRAWS) - rng.uniform(0, SETTLE_NS / rotation_ns, DRAWS)
    return np.where(taken > 0, in_tracks(taken, here.switch), taken), rng


def _bytes(parts: F64, here: Tracks, rng: np.random.Generator) -> Finding:
    """How much it is, which is the same wherever the log is. The long entries and the others lie on tracks
    that are the same to `SAME`, two standard deviations."""
    parts = parts * rng.normal(1.0, SAME / 2, DRAWS)
    low, value, high = (float(each) * here.bytes for each in np.quantile(parts, INTERVAL))
    within = (max(low, 0.0), max(high, 0.0))
    if np.quantile(parts, NONE_CHANCE) <= 0:
        return OUT_OF_BAND_BYTES.unknown("there may be none", ROWS, within)
    sure = float(np.mean(np.abs(parts * here.bytes - value) <= BYTES_RIGHT * value))
    long = format_size(round(here.bytes))
    why = f"as many bytes as pass the head in {value / here.bytes:.2f} tracks of {long}"
    return OUT_OF_BAND_BYTES.found(round(value), sure, why, ROWS, within, way=WAY)


def _finding(times: F64, cycles: int, here: Tracks, rotation_ns: float) -> Finding:
    low, value, high = (float(each) for each in np.quantile(times, INTERVAL))
    within = (max(low, 0.0) * rotation_ns, max(high, 0.0) * rotation_ns)
    if value < -LEAST_TURNS:
        return OUT_OF_BAND.unknown("an entry is shorter than the quantum in it, a contradiction", ROWS)
    words = format_duration(int(max(value, 0.0) * rotation_ns))
    if np.quantile(times, NONE_CHANCE) <= 0:
        most = format_duration(int(within[1])) if within[1] >= 1 else "a time too short to be seen"
        return OUT_OF_BAND.unknown(f"no more than {most} is written before an entry", ROWS, within)
    sure = float(np.mean(np.abs(times - value) <= RIGHT_TURNS))
    if sure < SURE_ENOUGH:
        half = format_duration(int((high - low) / 2 * rotation_ns))
        why = f"{words} to within {half}, more than a twentieth of a revolution"
        return OUT_OF_BAND.unknown(why, ROWS, within)
    settle = format_duration(int(SETTLE_NS))
    why = (
        f"the shortest of {cycles} writes takes longer than the shortest read of what it wrote, as if {words}"
        f" passed in the mean of entries where the log is, on tracks of {format_size(round(here.bytes))} with"
        f" {here.switch:.2f} of a revolution at each switch; up to {settle} of it may be settling"
    )
    return OUT_OF_BAND.found(round(value * rotation_ns), sure, why, ROWS, within, way=WAY)
