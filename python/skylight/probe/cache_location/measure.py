"""What test `cache_location` does to the target; see the package's page.

Writes of the profile are 192 KiB, one at a time, so that the starts of cached writes lie at many angles both
in a journal of quanta and in a plain log; few of them, so that the smallest cache takes them. Every read of
cached data is of another block, for a drive's buffer may hold what was read before. A FLUSH
ends the writes, whatever the target reports of its volatile cache, and a short pause lets one that ignores it
write out what it holds.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import U64, IoBatch, IoLog, Op
from skylight.probe.cache_location.verdict import REGIONS, Seen
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
WRITTEN_OUT_S = 0.1
"""Idle time in which a volatile cache writes some MiB to the media. Chosen: a few dozen writes take less, and
no drive is known that begins to clean so soon."""


def start_of(region: str, size: int) -> int:
    """Where a region begins, bytes: near the first, the middle or the last address."""
    share = {"low": 0.002, "mid": 0.5, "high": 0.995}[region]
    return int(size * share) // SPAN_BYTES * SPAN_BYTES


def measure(steps: Steps, seen: Seen) -> None:
    """Fragmented reads, then cache to cache, then the profile."""
    if steps.size < LEAST_BYTES:
        return
    for region in REGIONS:
        seen.fragmented[region] = _fragments(steps, region).latency_ns
    steps.reset("erase-profile", slow=False)
    cached = {region: _cache(steps, region) for region in REGIONS}
    for one, other in (("low", "low"), ("low", "high"), ("low", "mid")):
        name = f"cached-{one}-{other}"
        log = _in_turn(steps, name, cached[one], cached[other], None)
        seen.cached[f"{one}-{other}"] = log.latency_ns[1:]
        seen.rows.append(name)
    pool = np.concatenate(list(cached.values()))
    for number in range(PLACES):
        share = (number + 0.5) / PLACES
        name = f"profile-{number + 1}"
        log = _in_turn(steps, name, pool, _native(steps, name, share), share)
        seen.profile[share] = log.latency_ns[1:]
        seen.rows.append(name)


def _fragments(steps: Steps, region: str) -> IoLog:
    """Test 2 of the paper at one region."""
    block = max(BLOCK, steps.block_bytes)
    steps.reset(f"erase-{region}", slow=False)
    start = start_of(region, steps.size)
    offsets = start + np.arange(2 * FRAGMENTS, dtype=np.uint64) * np.uint64(block)
    _write(steps, f"fragment-{region}", offsets[::2], block)
    return steps.run(f"fragmented-{region}", IoBatch.reads(offsets, block))


def _write(steps: Steps, name: str, offsets: U64, size: int) -> None:
    """Writes to the persistent cache, through a volatile one."""
    flush = IoBatch.make(Op.FLUSH, [0], 0)
    steps.run(name, joined(IoBatch.writes(offsets, size), flush))
    steps.pause(f"{name}-out", WRITTEN_OUT_S)


def _cache(steps: Steps, region: str) -> U64:
    """Writes a few large pieces of a region, which go to the cache; blocks of them, in random order."""
    block = max(BLOCK, steps.block_bytes)
    span = SPAN_BYTES // WRITES
    starts = (
        start_of(region, steps.size) + np.arange(WRITES, dtype=np.uint64) * np.uint64(span) + np.uint64(block)
    )
    _write(steps, f"cache-{region}", starts, WRITE_BYTES)
    inside = np.arange(WRITE_BYTES // block, dtype=np.uint64) * np.uint64(block)
    blocks = (starts[:, None] + inside[None, :]).ravel()
    return np.asarray(steps.rng(f"cache-{region}").permutation(blocks), np.uint64)


def _native(steps: Steps, name: str, share: float) -> U64:
    """Blocks at their native places near a share of the address space, in random order."""
    block = max(BLOCK, steps.block_bytes)
    start = int(steps.size * share) // SPAN_BYTES * SPAN_BYTES + 2 * SPAN_BYTES
    start = min(start, steps.size - SPAN_BYTES)
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
