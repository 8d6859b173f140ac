"""Rows S3b, S4a and S5a: how the Seagate drive cleans in idle time.

The head trace shows whether the head read a block from the cache.

Source: Skylight (FAST '15), sections 4.5 and 4.5.1, Figures 11 to 13.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import U64
from skylight.probe import Figure
from skylight.reproduce.drawing import head_path, latencies
from skylight.reproduce.emulated_drives import (
    MIB,
    Bench,
    Lab,
    Milliseconds,
    band_start,
    full_stroke_tracks,
    latency_ms,
)
from skylight.reproduce.fragmented_region import MIDDLE, fragment
from skylight.reproduce.rows import Measured, Ours

BLOCKS = 4_096
STEP = 128
FAR = 1_000_000 * MIB
REGION = 256 * MIB


def s3b(lab: Lab) -> Measured:
    """Figure 11: 512 blocks of a band at 2.5 TB are written, then the drive is idle."""
    del lab
    bench, tracks = Bench("st5000"), full_stroke_tracks("st5000")
    fragment(bench, band_start(MIDDLE))
    since = bench.now_ns
    bench.start_trace()
    bench.pause(5.0)
    # "The first write always consists of a seek from the ID to the OD (about 16 ms)": so does this one.
    bench.writes([0])
    trace = bench.take_trace()
    found = {name: trace.of(f"clean_{name}") for name in ("read", "stage", "write")}
    updates, after = trace.of("map_update"), trace.of("out_of_band")
    if not all(map(len, (*found.values(), updates, after))):
        return Measured({}, notes=("the region was not cleaned within 5 s",))
    band, staged, written = found["read"][0], found["stage"][0], found["write"][0]
    update, following = updates[0], after[0]

    def ms(begin: np.uint64, end: np.uint64) -> float:
        return (int(end) - int(begin)) / 1e6

    figures: dict[str, Ours] = {
        "start after the last write, s": (int(trace.start_ns[band]) - since) / 1e9,
        "band read, ms": ms(trace.arrived_ns[band], trace.end_ns[band]),
        # The next access gathers the first block.
        "at the OD, ms": ms(trace.arrived_ns[band + 1], trace.end_ns[staged]),
        "band written, ms": ms(trace.arrived_ns[written], trace.end_ns[written]),
        "then the map, share of the full stroke from the OD": float(trace.track[update]) / tracks,
        "in all, s": ms(trace.start_ns[band], trace.end_ns[update]) / 1e3,
        # Between the map update and the next write the head only moves to its parking position.
        "then parked: seek from there to the OD, ms": ms(
            trace.start_ns[following], trace.arrived_ns[following]
        ),
    }

    def draw() -> list[Figure]:
        until = trace.first(int(update) + 1)
        caption = (
            "Time since the last write. The head reads the band, gathers its blocks at the OD and stages"
            " the band there, writes it back and updates the map at the MD. It then parks at the ID; the"
            " trace contains accesses only, so that seek is not drawn."
        )
        title = "Head position during one cleaning, st5000as0011 (Figure 11)"
        paths = [("one cleaning", until)]
        return [
            head_path("head-cleaning", title, paths, tracks, caption, unit="s", since_ns=since, parked_at=0.0)
        ]

    return Measured(figures, draw)


def _read_back(bench: Bench, offsets: U64) -> tuple[Milliseconds, NDArray[np.bool_]]:
    """Reads blocks in this order; returns latencies, and whether each came from the cache."""
    bench.start_trace()
    log = bench.reads(offsets)
    trace = bench.take_trace()
    reads = np.flatnonzero(np.isin(trace.purpose, ("host", "cache")))
    which = np.searchsorted(log.complete_ns, trace.end_ns[reads])
    cached = np.zeros(len(log), dtype=np.bool_)
    cached[which[trace.purpose[reads] == "cache"]] = True
    return latency_ms(log), cached


def s4a(lab: Lab) -> Measured:
    """Test 4: bands with one dirty block are cleaned in the order of their writes."""
    bench = Bench("st5000")
    offsets = lab.offsets("S4a", BLOCKS, bench.size)
    bench.writes(offsets)
    seen = {"at once": _read_back(bench, offsets)}
    took: list[np.int64] = []
    for label, minutes in (("after 10 minutes", 10), ("after 30 minutes", 20), ("after 50 minutes", 20)):
        bench.start_trace()
        bench.pause(minutes * 60.0)
        trace = bench.take_trace()
        took.extend(np.diff(trace.end_ns[trace.of("map_update")].astype(np.int64)))
        seen[label] = _read_back(bench, offsets)
    cleaned = {label: float(BLOCKS - np.count_nonzero(cached)) for label, (_, cached) in seen.items()}
    figures: dict[str, Ours] = {
        "blocks cleaned in 10 minutes": cleaned["after 10 minutes"],
        "blocks cleaned in 30 minutes": cleaned["after 30 minutes"],
        "a band with one dirty block, s": float(np.median(took)) / 1e9 if took else None,
    }

    def draw() -> list[Figure]:
        counts = "; ".join(f"{label} {count:,.0f}" for label, count in cleaned.items())
        caption = (
            "4,096 random blocks read in written order. Blocks in the cache are adjacent: a flat line."
            f" Cleaned blocks are scattered: a cloud, which grows from the left. Cleaned: {counts}."
        )
        title = "Reads of random blocks {}, st5000as0011 (Figure 12)"
        of = "block, in written order"
        return [
            latencies(f"cleaned-{number}", title.format(label), {label: ms}, of, caption, top=40.0)
            for number, (label, (ms, _)) in enumerate(seen.items())
        ]

    return Measured(figures, draw, (f"cleaned after 50 minutes: {cleaned['after 50 minutes']:,.0f} blocks",))


def s5a(lab: Lab) -> Measured:
    """Test 5: cleaning takes the oldest write and the whole of its band."""
    bench = Bench("st5000")
    region = FAR + lab.offsets("S5a/region", 2 * STEP, REGION)
    blocks = np.concatenate([region[:STEP], lab.offsets("S5a/far", STEP, bench.size), region[STEP:]])
    bench.writes(blocks)
    seen = []
    for _ in range(2):
        bench.pause(60.0)
        seen.append(_read_back(bench, blocks))
    first, second, third = seen[0][1].reshape(3, STEP)
    waiting = int(np.argmax(second)) if second.any() else STEP
    figures: dict[str, Ours] = {
        "after 1 minute, blocks of step 1 in the cache": float(first.sum()),
        "after 1 minute, blocks of step 2 in the cache": float(second.sum()),
        "after 1 minute, blocks of step 3 in the cache": float(third.sum()),
        "of step 2, cleaned before one written earlier": float(np.count_nonzero(~second[waiting:])),
        "after 2 minutes, blocks in the cache": float(seen[1][1].sum()),
        "verdict": lab.known("st5000").word("cleaning_order"),
    }

    def draw() -> list[Figure]:
        sets = {f"after {n} minute{'s' * (n > 1)}": ms for n, (ms, _) in enumerate(seen, 1)}
        caption = (
            "Blocks 1 to 128 and 257 to 384 lie in one small region, 129 to 256 are scattered. After one"
            " minute the whole region is cleaned, both its first and its last writes, and the oldest of the"
            " scattered blocks; the rest are a flat line."
        )
        title = "Reads of three groups of blocks, st5000as0011 (Figure 13)"
        return [latencies("fifo", title, sets, "block, in written order", caption, top=30.0)]

    return Measured(figures, draw)
