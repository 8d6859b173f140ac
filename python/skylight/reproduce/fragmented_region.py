"""Rows S2a, S3a and S15: tests 2 and 3, reading a region in which every other block was overwritten.

Source: Skylight (FAST '15), sections 4.4 and 4.5, Figures 8 to 10.
"""

from __future__ import annotations

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.reproduce.drawing import head_path, latencies
from skylight.reproduce.emulated_drives import (
    BLOCK,
    DRIVES,
    GIB,
    MIB,
    Bench,
    Lab,
    Milliseconds,
    Trace,
    band_start,
    full_stroke_tracks,
    latency_ms,
    steadiness,
)
from skylight.reproduce.rows import Measured, Ours

MIDDLE = 2_500_000_000_000  # "an offset of 2.5 TB"
ALIGNED = 200 * MIB  # every multiple begins a band on each emulated drive
PLACES = ("low", "mid", "high")
SHOWN = 256
LOG_FROM = 30.0
ZONE, REGIONS = 40 * GIB, 16
CUT_S = 0.02
PAUSES_S = (3.0, 4.0, 5.0)


def fragment(bench: Bench, offset: int) -> None:
    """Writes a block and skips one, 512 times."""
    bench.writes(offset + np.arange(512) * 2 * BLOCK)


def _read(bench: Bench, offset: int) -> Milliseconds:
    return latency_ms(bench.reads(offset + np.arange(1024) * BLOCK))


def _fragmented(bench: Bench, offset: int, pause_s: float = 0.0) -> Milliseconds:
    """Fragments a region, pauses, and reads its 1,024 blocks; their latencies."""
    fragment(bench, offset)
    if pause_s:
        bench.pause(pause_s)
    return _read(bench, offset)


def _test_2(drive: str, *, write_cache: bool = False) -> dict[str, Milliseconds]:
    """Test 2 at low, middle and high addresses, each on a new drive."""
    end = Bench(drive).size // ALIGNED
    places = (0, end // 2 * ALIGNED, (end - 1) * ALIGNED)
    benches = {
        name: (Bench(drive, write_cache=write_cache), at) for name, at in zip(PLACES, places, strict=True)
    }
    return {name: _fragmented(bench, at) for name, (bench, at) in benches.items()}


def _test_2_many(drive: str) -> dict[str, Milliseconds]:
    """Test 2 for a drive with many caches: 16 regions 2.5 GiB apart at each of the three addresses, because
    the distance from one region to the nearest cache is random."""
    last = Bench(drive).size // ZONE - 1
    regions = {
        name: [(zone * ZONE + part * ZONE // REGIONS) // (20 * MIB) * (20 * MIB) for part in range(REGIONS)]
        for name, zone in zip(PLACES, (0, last // 2, last), strict=True)
    }
    return {
        name: np.concatenate([_fragmented(Bench(drive), at) for at in offsets])
        for name, offsets in regions.items()
    }


def _head_paths() -> list[tuple[str, Trace]]:
    """Head positions during the first reads at low, middle and high addresses (Figure 9)."""
    paths = []
    end = Bench("st5000").size // ALIGNED
    for name, offset in zip(PLACES, (0, end // 2 * ALIGNED, (end - 1) * ALIGNED), strict=True):
        bench = Bench("st5000", write_cache=True)
        fragment(bench, offset)
        bench.flush()
        bench.reads(offset + np.arange(2) * BLOCK)  # moves the head there
        bench.start_trace()
        bench.reads(offset + np.arange(2, 22) * BLOCK)
        paths.append((name, bench.take_trace()))
    return paths


FAR = (
    "Every other block was written just before and lies in the cache: the farther the cache from the data,"
    " the longer the seek between two reads."
)
FLASH = (
    "Every other block was written just before and lies in flash: it is read at once. Each of the others"
    " waits a revolution, because the head has just passed it."
)


def _figure_8(drive: str, sets: dict[str, Milliseconds], how: str = FAR) -> Figure:
    means = ", ".join(f"{np.mean(values):.1f} ms at {name}" for name, values in sets.items())
    shown = {f"{name} addresses": values[:SHOWN] for name, values in sets.items()}
    every = np.concatenate(list(shown.values()))
    return latencies(
        f"fragmented-{drive}",
        f"Fragmented reads at {', '.join(sets)} addresses, {drive} (Figure 8)",
        shown,
        "read, in the order of addresses",
        f"The first {SHOWN} reads. {how} Mean of all: {means} addresses.",
        log=bool(every.max() > LOG_FROM * every.min()),
    )


def s2a(lab: Lab) -> Measured:
    """Fragmented reads show where the cache lies. The Seagate drive has its volatile cache on: "Test
    performed with volatile cache enabled" (footnote 1)."""
    first, third = _test_2("em-1"), _test_2_many("em-3")
    seagate = _test_2("st5000", write_cache=True)
    flash = _fragmented(Bench("em-2"), 2_000 * GIB)
    mean = {
        drive: {name: float(np.mean(values)) for name, values in sets.items()}
        for drive, sets in (("em-1", first), ("em-3", third), ("st5000", seagate))
    }
    one, three, five = mean["em-1"], mean["em-3"].values(), mean["st5000"]
    figures: dict[str, Ours] = {
        "em-1, mean ms, low less mid": one["low"] - one["mid"],
        "em-1, mean ms, mid less high": one["mid"] - one["high"],
        "em-2, reads of flash, median ms": float(np.median(flash[0::2])),
        "em-2, reads of the disk, median ms": float(np.median(flash[1::2])),
        "em-3, most over least of the three means": max(three) / min(three),
        "st5000, mean ms, high less mid": five["high"] - five["mid"],
        "st5000, mean ms, mid less low": five["mid"] - five["low"],
        "em-2, verdict": lab.known("em-2").word("cache_medium"),
    }
    for drive in ("em-1", "em-3", "st5000"):
        figures[f"{drive}, verdict"] = lab.known(drive).word("cache_location")

    def draw() -> list[Figure]:
        path_caption = (
            "The head during twenty reads of neighbouring blocks: from the data to the cache and back. At low"
            " addresses the two are too close to distinguish."
        )
        title = "Head position during fragmented reads, st5000as0011 (Figure 9)"
        paths, tracks = _head_paths(), full_stroke_tracks("st5000")
        return [
            _figure_8("emulated-smr-1", first),
            _figure_8("emulated-smr-2", {"mid": flash}, FLASH),
            _figure_8("emulated-smr-3", third),
            _figure_8("st5000as0011", seagate),
            head_path("head-fragmented", title, paths, tracks, path_caption, parked_at=0.0),
        ]

    return Measured(figures, draw)


def s3a(lab: Lab) -> Measured:
    """Reads after a pause show whether the drive cleaned during it: within one band at 2.5 TB."""
    emulated = MIDDLE // ALIGNED * ALIGNED
    places = {"em-1": emulated, "em-2": emulated, "em-3": emulated, "st5000": band_start(MIDDLE)}
    reads = {
        drive: [_fragmented(Bench(drive), at, pause) for pause in PAUSES_S] for drive, at in places.items()
    }
    figures: dict[str, Ours] = {}
    for drive, three in reads.items():
        kind = lab.known(drive).word("cleaning_type")
        shares = [steadiness(ms) for ms in three]
        # The share farthest from the paper's verdict on the drive.
        worst = max(shares) if drive in ("em-1", "em-2") else min(shares)
        figures[f"{drive}, share of reads within 5 % of the median"] = worst
        figures[f"{drive}, verdict"] = kind

    def draw() -> list[Figure]:
        caption = (
            f"Test 3 with a pause of three seconds; the first {SHOWN} reads. A flat line means that the"
            " region was cleaned, and reads stream. Two levels mean that every other block is still cached."
        )
        of = "read, in the order of addresses"
        return [
            latencies(
                f"paused-{drive}",
                f"Fragmented reads after a pause, {DRIVES[drive]} (Figure 10)",
                {drive: three[0][:SHOWN]},
                of,
                caption,
                top=25.0,
            )
            for drive, three in reads.items()
        ]

    return Measured(figures, draw)


def _last_step_s(offset: int) -> tuple[float, float]:
    """When the last step of cleaning a region begins and when it ends, s after the last write."""
    bench = Bench("st5000")
    fragment(bench, offset)
    since = bench.now_ns
    bench.start_trace()
    bench.pause(10.0)
    trace = bench.take_trace()
    last = trace.of("map_update")[-1]
    return (int(trace.start_ns[last]) - since) / 1e9, (int(trace.end_ns[last]) - since) / 1e9


def s15(lab: Lab) -> Measured:
    """Reads that interrupt cleaning take as long as if it had not begun, from the last write until just
    before the map update. A step of cleaning in progress ends first, so the first read may wait."""
    del lab
    offset = band_start(MIDDLE)
    unpaused = _fragmented(Bench("st5000"), offset)
    commits, ends = _last_step_s(offset)
    cuts = np.arange(0.0, commits, CUT_S)
    reads = [_fragmented(Bench("st5000"), offset, float(cut)) for cut in cuts]
    off = np.array([np.abs(ms[1:] - unpaused[1:]).max() for ms in reads])
    first = np.array([ms[0] for ms in reads])
    after = _fragmented(Bench("st5000"), offset, ends + 0.001)
    figures: dict[str, Ours] = {
        "cut-in points": float(len(cuts)),
        "any read but the first, most ms from test 2": float(off.max()),
        "after the end, share within 5 % of the median": steadiness(after),
    }

    def draw() -> list[Figure]:
        drawing, axes = new_axes()
        axes.plot(cuts, first, "o", color="C0", label="first read", markersize=3)
        axes.plot(cuts, off, "s", color="C1", label="others, largest difference from test 2", markersize=3)
        axes.set_xlabel("reads begin after the last write (s)")
        axes.set_ylabel("time (ms)")
        axes.legend()
        caption = (
            "Each pair of points is a run of 1,024 reads that starts at that time. Once cleaning has begun,"
            " the first read waits for its current step; all others take as long as without a pause, to the"
            " microsecond, because only the last step changes where data is read from."
        )
        title = "Reading before cleaning has finished, st5000as0011"
        return [Figure("cut-in", title, caption, f"Largest difference {off.max():.4f} ms.", drawing)]

    return Measured(figures, draw)
