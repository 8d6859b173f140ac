"""Rows S1a to S1h: test 1 and its consequences, the latency of random writes.

Source: Skylight (FAST '15), sections 4.3 and 4.3.1, Figures 4 to 7.
"""

from __future__ import annotations

import numpy as np

from skylight.probe import Figure
from skylight.probe.figure_parts import new_axes
from skylight.reproduce.drawing import head_path, latencies, log_axis, thinned
from skylight.reproduce.emulated_drives import (
    BLOCK,
    DRIVES,
    GIB,
    KIB,
    MIB,
    Bench,
    Lab,
    Milliseconds,
    full_stroke_tracks,
    latency_ms,
    spread,
    took_ms,
)
from skylight.reproduce.rows import Measured, Ours

WRITES = 4_000
SHOWN = 500
MERGE_EVERY = 240  # the paper's "240th write"
GAPS_US = (50, 100, 150, 300)  # real hosts pause 50 to 150 us between synchronous writes
PHASES, PHASE_S = 40, 253e-6  # forty start times over a rotation
QUANTUM_MS = 4.5  # 0.45 revolutions, the rise at an edge of Figure 7
STEP_MS = 2.0


def _test_1(lab: Lab, drive: str, region: int) -> Milliseconds:
    """Blocks of a region at the first address, in random order, one at a time."""
    order = lab.rng(f"test 1/{region}").permutation(region // BLOCK)[:WRITES]
    return latency_ms(Bench(drive).writes(order.astype(np.uint64) * np.uint64(BLOCK)))


def _figure_4(drive: str, sets: dict[str, Milliseconds], how: str) -> Figure:
    return latencies(
        f"writes-{drive}",
        f"Latency of random writes, {DRIVES[drive]} (Figure 4)",
        {label: values[:SHOWN] for label, values in sets.items()},
        "write, in the order issued",
        f"Each point is one of the first {SHOWN} writes of 4 KiB, one at a time. {how}",
    )


def _in_one_band(lab: Lab, drive: str) -> Measured:
    """Writes one band: with `a mod n` mapping, a gigabyte maps to 26 cache bands at unrelated angles."""
    band, wide = _test_1(lab, drive, 16 * MIB), _test_1(lab, drive, GIB)
    figures: dict[str, Ours] = {
        "in one band, median ms": float(np.median(band)),
        "in one band, interquartile range over median": spread(band),
        "verdict": lab.known(drive).word("drive_type"),
    }
    how = "Within one band each write misses the log's next block and waits a revolution: a flat line."
    draw = {"within 16 MiB": band, "within 1 GiB": wide}
    return Measured(figures, lambda: [_figure_4(drive, draw, how)])


def s1a(lab: Lab) -> Measured:
    """A set-associative disk cache."""
    return _in_one_band(lab, "em-1")


def s1c(lab: Lab) -> Measured:
    """A fully-associative drive."""
    return _in_one_band(lab, "em-3")


def s1b(lab: Lab) -> Measured:
    """A flash cache."""
    ms = _test_1(lab, "em-2", GIB)
    how = "All lie far below a revolution: nothing waits for the platters."
    return Measured(
        {"median ms": float(np.median(ms))}, lambda: [_figure_4("em-2", {"within 1 GiB": ms}, how)]
    )


def s1d(lab: Lab) -> Measured:
    """A conventional drive."""
    ms = _test_1(lab, "cmr", GIB)
    figures: dict[str, Ours] = {
        "interquartile range over median": spread(ms),
        "verdict": lab.known("cmr").word("drive_type"),
    }
    how = "Points spread over a revolution and more: each block is written in place."
    return Measured(figures, lambda: [_figure_4("cmr", {"within 1 GiB": ms}, how)])


def _lone_writes(lab: Lab, gap_us: float) -> Milliseconds:
    """Writes of a host that pauses between them; fewer than bring a map merge."""
    bench = Bench("st5000")
    ms = []
    for offset in lab.offsets(f"S1e/{gap_us}", MERGE_EVERY - 1, GIB):
        ms.append(latency_ms(bench.writes([offset])))
        bench.pause(gap_us / 1e6)
    return np.concatenate(ms)


def _share(ms: Milliseconds) -> float:
    """Share within the band of row S1e."""
    return float(np.mean((ms >= 23.8) & (ms <= 26.0)))


def s1e(lab: Lab) -> Measured:
    """The journal: 2.5 revolutions per write, and a map merge every 240th."""

    def first(phase: int) -> float:
        bench = Bench("st5000")
        bench.pause(phase * PHASE_S)
        return float(latency_ms(bench.writes([GIB]))[0])

    firsts = [first(phase) for phase in range(PHASES)]
    bench = Bench("st5000")
    bench.start_trace()
    ms = latency_ms(bench.writes(lab.offsets("S1e", 10 * MERGE_EVERY, GIB)))
    trace = bench.take_trace()
    merging = np.arange(1, len(ms) + 1) % MERGE_EVERY == 0
    merges, others = ms[merging], ms[~merging][1:]
    paused = np.concatenate([_lone_writes(lab, gap_us)[1:] for gap_us in GAPS_US])
    at_md = trace.of("map_merge")
    stay = float(np.median(trace.end_ns[at_md] - trace.arrived_ns[at_md])) / 1e6
    figures: dict[str, Ours] = {
        "first write at best, ms": min(firsts),
        "first write at worst, ms": max(firsts),
        "every 240th write, least ms": float(merges.min()),
        "every 240th write, most ms": float(merges.max()),
        "the others, median ms": float(np.median(others)),
        "the others, share within 23.8 to 26 ms": _share(others),
        "after pauses of 50 to 300 us, share within 23.8 to 26 ms": _share(paused),
    }

    def draw() -> list[Figure]:
        how = "A flat line at 2.5 revolutions; every 240th write waits for a merge of the cache map."
        path = (
            "The head comes from its parking position at the ID, stays at the OD, where the cache is, and"
            " moves to the MD at every 240th write."
        )
        tracks = full_stroke_tracks("st5000")
        title = "Head position during random writes, st5000as0011 (Figure 5)"
        return [
            _figure_4("st5000", {"within 1 GiB": ms}, how),
            head_path("head-writes", title, [("2,400 writes", trace)], tracks, path, unit="s"),
        ]

    return Measured(figures, draw, (f"time at the MD: paper 285 ms, ours {stay:.0f} ms, no band",))


def s1f(lab: Lab) -> Measured:
    """A deep queue packs writes into few entries. The head is at the OD at the start."""
    offsets = lab.offsets("S1f", 257, GIB)

    def run(depth: int) -> tuple[float, Milliseconds]:
        bench = Bench("st5000")
        bench.writes(offsets[:1])
        log = bench.writes(offsets[1:], depth=depth)
        return took_ms(log), np.sort(log.complete_ns - log.submit_ns.min()) / 1e6

    runs = {depth: run(depth) for depth in (1, 31)}
    figures: dict[str, Ours] = {f"256 writes at depth {depth}, ms": took for depth, (took, _) in runs.items()}

    def draw() -> list[Figure]:
        drawing, axes = new_axes()
        for number, (depth, (_, done)) in enumerate(runs.items()):
            axes.plot(done, np.arange(1, 257), color=f"C{number}", label=f"queue depth {depth}",
                      linestyle=("-", "--")[number], drawstyle="steps-post")  # fmt: skip
        log_axis(axes, "x", "time (ms")
        axes.set_ylabel("writes completed")
        axes.legend()
        caption = (
            "At depth 1 each write is a journal entry of its own and takes 2.5 revolutions. At depth 31, one"
            " entry holds 31 writes, which complete together: the steps."
        )
        title = "256 random writes, one at a time and 31 at a time"
        return [Figure("depth", title, caption, "Completed writes over time.", drawing)]

    return Measured(figures, draw)


def s1g(lab: Lab) -> Measured:
    """Reads in written order show how blocks were packed."""
    offsets = lab.offsets("S1g", 200, GIB)

    def read_back(depth: int) -> Milliseconds:
        bench = Bench("st5000")
        bench.writes(offsets, depth=depth)
        return latency_ms(bench.reads(offsets))

    ms = {depth: read_back(depth) for depth in (1, 31)}
    figures: dict[str, Ours] = {
        f"read back after depth {depth}, median ms": float(np.median(part)) for depth, part in ms.items()
    }
    caption = (
        "Reads in written order. Blocks in journal entries of their own lie half a revolution apart, half a"
        " track beyond whole tracks; adjacent blocks of one entry are each missed and wait a revolution."
    )

    def draw() -> list[Figure]:
        sets = {f"after depth {depth}": part for depth, part in ms.items()}
        title = "Reading back what was just written (Figure 6)"
        return [latencies("read-back", title, sets, "read, in written order", caption)]

    return Measured(figures, draw)


def _burst_ms(lab: Lab, size: int) -> Milliseconds:
    """Latencies of seven bursts of 31 writes of a size; each burst starts when the one before has ended."""
    bench = Bench("st5000")
    offsets = lab.offsets(f"S1h/{size}", 1 + 31 * 7, 100 * GIB, 256 * KIB)
    bench.writes(offsets[:1])
    bursts = [bench.writes(burst, size, 31) for burst in offsets[1:].reshape(7, 31)]
    return np.concatenate([latency_ms(burst) for burst in bursts])


def s1h(lab: Lab) -> Measured:
    """Figure 7: latency rises where a burst of 31 writes needs another quantum."""
    sizes = np.arange(4, 112, 2)
    bursts = [_burst_ms(lab, int(size) * KIB) for size in sizes]
    medians = np.array([np.median(burst) for burst in bursts])
    edges = sizes[1:][np.diff(medians) > STEP_MS]
    flat = medians - QUANTUM_MS * np.searchsorted(edges, sizes, side="right")
    below, above = flat[sizes <= 26], flat[sizes > 26]
    mixed = _burst_ms(lab, 256 * KIB)
    names = ("first edge, KiB", "second edge, KiB", "third edge, KiB")
    figures: dict[str, Ours] = {name: float(edge) for name, edge in zip(names, edges[:3], strict=False)}
    figures |= {
        "4 to 26 KiB, least ms": float(below.min()),
        "4 to 26 KiB, most ms": float(below.max()),
        "28 to 110 KiB less 4.5 ms an edge, least ms": float(above.min()),
        "28 to 110 KiB less 4.5 ms an edge, most ms": float(above.max()),
        "spread at 256 KiB, ms": float(mixed.max() - mixed.min()),
    }

    def draw() -> list[Figure]:
        drawing, axes = new_axes()
        values = np.concatenate(bursts)
        at, said = thinned(len(values))
        axes.plot(np.repeat(sizes, 217)[at], values[at], "s", color="C1", markersize=2.0, label="a write")
        axes.plot(sizes, medians, "o-", color="C0", label="median", markersize=3)
        for edge in edges:
            axes.axvline(float(edge), color="C5", linestyle="--", linewidth=1)
        axes.set_xlabel("write size (KiB)")
        axes.set_ylabel("latency (ms)")
        axes.set_ylim(0, 1.15 * float(values.max()))
        axes.legend()
        caption = (
            "Bursts of 31 writes, each after the one before has ended. Latency is flat until 31 writes need"
            f" another quantum of the journal, at the dashed edges: {', '.join(map(str, edges))} KiB.{said}"
        )
        title = "Latency at depth 31 over write size, st5000as0011 (Figure 7)"
        return [Figure("sizes", title, caption, f"Steps at {', '.join(map(str, edges))} KiB.", drawing)]

    return Measured(figures, draw, (f"all edges up to 110 KiB: {', '.join(map(str, edges))}",))
