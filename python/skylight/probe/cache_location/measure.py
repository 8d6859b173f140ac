"""What test `cache_location` does to the target; see the package's page.

Writes of the profile are 192 KiB, one at a time, so that the starts of cached writes lie at many angles both
in a journal of quanta and in a plain log; few of them, so that the smallest cache takes them. Every read of
cached data is of another block, for a drive's buffer may hold what was read before. A FLUSH
ends the writes, whatever the target reports of its volatile cache, and a short pause lets one that ignores it
write out what it holds. Where one of the writes waits for cleaning, those before it are home, so all are made
again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Op
from skylight.probe.cache_location.verdict import REGION_SHARES, REGIONS, Seen
from skylight.probe.cleaning.trials import joined
from skylight.probe.procedure import Steps

BLOCK = 4096
FRAGMENTS = 128  # rewritten blocks of a region, every other one
WRITES = 8  # of the profile, in each region
WRITE_BYTES = 192 << 10
SPAN_BYTES = 4 << 20
PLACES = 16
CYCLES = 40
LEAST_BYTES = 1 << 30
WAITED_TURNS, TRIES = 16, 3
"""Revolutions after which a write is taken to have waited for cleaning, and how often a region is written.
Chosen: a write takes a few revolutions at most, to clean a band takes the reading and writing of its tracks;
what waited for something else is only written once more than it had to be."""
WRITTEN_OUT_S = 0.1
"""Idle time in which a volatile cache writes some MiB to the media. Chosen: a few dozen writes take less, and
no drive is known that begins to clean so soon."""


@dataclass(frozen=True, slots=True)
class Cached:
    """The addresses whose writes go to the cache, bytes: all, or of a target with zones those with a write
    pointer."""

    base: int
    size: int

    def start_of(self, region: str) -> int:
        """Where a region begins: near the first, the middle or the last of these addresses."""
        share = REGION_SHARES[region]
        return self.base // SPAN_BYTES * SPAN_BYTES + int(self.size * share) // SPAN_BYTES * SPAN_BYTES

    @staticmethod
    def of(steps: Steps) -> Cached:
        """Those of the target. Where zones have no write pointer, in front of others, writes go home."""
        zones = steps.zones("zones")
        if zones is None or not zones.usable:
            return Cached(0, steps.size)
        # Not within the first span: there the base is rounded down to before the zones.
        return Cached(
            zones.first * zones.zone_bytes + SPAN_BYTES, zones.usable * zones.zone_bytes - SPAN_BYTES
        )


def measure(steps: Steps, seen: Seen) -> None:
    """Fragmented reads, then cache to cache, then the profile."""
    cached_at = Cached.of(steps)
    if steps.size < LEAST_BYTES or cached_at.size < LEAST_BYTES:
        return
    for region in REGIONS:
        seen.fragmented[region] = _fragments(steps, region, cached_at.start_of(region)).latency_ns
    steps.reset("erase-profile", slow=False)
    shares = [(number + 0.5) / PLACES for number in range(PLACES)]
    homes = np.array([_home(steps, share) for share in shares], np.uint64)
    if not steps.written(homes, SPAN_BYTES):
        return
    cached = {region: _cache(steps, region, cached_at.start_of(region)) for region in REGIONS}
    for one, other in (("low", "low"), ("low", "high"), ("low", "mid")):
        name = f"cached-{one}-{other}"
        log = _in_turn(steps, name, cached[one], cached[other], None)
        seen.cached[f"{one}-{other}"] = log.latency_ns[1:]
        seen.rows.append(name)
    pool = np.concatenate(list(cached.values()))
    for number, (share, home) in enumerate(zip(shares, homes.tolist(), strict=True), 1):
        name = f"profile-{number}"
        log = _in_turn(steps, name, pool, _native(steps, name, home), share)
        seen.profile[share] = log.latency_ns[1:]
        seen.rows.append(name)


def _fragments(steps: Steps, region: str, start: int) -> IoLog:
    """Test 2 of the paper at one region."""
    block = max(BLOCK, steps.block_bytes)
    steps.reset(f"erase-{region}", slow=False)
    offsets = start + np.arange(2 * FRAGMENTS, dtype=np.uint64) * np.uint64(block)
    _write(steps, f"fragment-{region}", offsets[::2], block)
    return steps.run(f"fragmented-{region}", IoBatch.reads(offsets, block))


def _write(steps: Steps, name: str, offsets: U64, size: int) -> IoLog:
    """Writes to the persistent cache, through a volatile one."""
    flush = IoBatch.make(Op.FLUSH, [0], 0)
    log = steps.run(name, joined(IoBatch.writes(offsets, size), flush))
    steps.pause(f"{name}-out", WRITTEN_OUT_S)
    return log


def _has_cleaned(steps: Steps, log: IoLog) -> bool:
    """Whether a write, or the FLUSH behind all, waited as long as cleaning takes."""
    turn_ns = steps.known.number("rotation_ns")
    return turn_ns is not None and int(log.latency_ns.max()) > WAITED_TURNS * turn_ns


def _cache(steps: Steps, region: str, start: int) -> U64:
    """Writes a few large pieces of a region, which go to the cache; blocks of them, in random order."""
    block = max(BLOCK, steps.block_bytes)
    span = SPAN_BYTES // WRITES
    starts = start + np.arange(WRITES, dtype=np.uint64) * np.uint64(span) + np.uint64(block)
    for _ in range(TRIES):
        if not _has_cleaned(steps, _write(steps, f"cache-{region}", starts, WRITE_BYTES)):
            break
    inside = np.arange(WRITE_BYTES // block, dtype=np.uint64) * np.uint64(block)
    blocks = (starts[:, None] + inside[None, :]).ravel()
    return np.asarray(steps.rng(f"cache-{region}").permutation(blocks), np.uint64)


def _home(steps: Steps, share: float) -> int:
    """Where blocks at their native places begin, near a share of the address space."""
    start = int(steps.size * share) // SPAN_BYTES * SPAN_BYTES + 2 * SPAN_BYTES
    return min(start, steps.size - SPAN_BYTES)


def _native(steps: Steps, name: str, start: int) -> U64:
    """Blocks at their native places from there on, in random order."""
    block = max(BLOCK, steps.block_bytes)
    chosen = steps.rng(name).choice(SPAN_BYTES // block, size=CYCLES, replace=False)
    return (start + chosen * block).astype(np.uint64)


def _in_turn(steps: Steps, name: str, one: U64, other: U64, share: float | None) -> IoLog:
    """Reads a block of one set, then one of the other, and so on."""
    block = max(BLOCK, steps.block_bytes)
    rng = steps.rng(f"{name}-order")
    offsets = np.empty(2 * CYCLES, np.uint64)
    offsets[::2] = rng.choice(one, size=CYCLES, replace=False)
    offsets[1::2] = rng.choice(other, size=CYCLES, replace=False)
    params = {} if share is None else {"share": share}
    return steps.run(name, IoBatch.reads(offsets, block), params=params)
