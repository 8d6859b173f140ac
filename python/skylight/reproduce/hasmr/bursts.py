"""Rows H1a, H1b and R2: bursts of writes, one to each of a number of zones in turn.

A burst is as many rounds as fit in 1,000 writes. Throughput is that of each write by its own latency, of
which the paper's box plots and the recordings give the median; bytes over time is what a host gets.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.2 and Figure 1; the README
of `st8000as0022-open-zones`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skylight.errors import SkylightError
from skylight.evidence import I64
from skylight.findings import Known
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES
from skylight.infer.zone_throughput import falls
from skylight.probe.suite import SuiteOptions, run_suite
from skylight.reproduce.hasmr import real_drive_recordings
from skylight.reproduce.hasmr.drawing import box_figure, recorded_figure
from skylight.reproduce.hasmr.drive import KIB, Bench, ZonedDrive, rng
from skylight.reproduce.hasmr.real_drive_recordings import Writes
from skylight.reproduce.rows import Measured, Ours

BURST_WRITES = 1_000
COUNTS = tuple(range(20, 201, 20))
SIZES_KIB = (4, 512)
KINDS = ("sequential", "non-sequential")
LAST_INSIDE, FIRST_PAST = 120, 140
"""Numbers of zones on either side of the edge, of the paper's and of the recordings."""

RUNS = (("seq_contiguous", 4), ("seq_contiguous", 512), ("seq_scattered", 512))
"""The recorded runs that say where they wrote."""

HOST_GAP_SECONDS = {4: 0.15e-3, 512: 1.44e-3}
"""What the host did between two writes, by the I/O size (KiB). The recorded latencies leave it out, but the
drive goes on turning: the 4 KiB writes that its bookkeeping holds up come at a fixed time only with this
much between them, and over neighbouring zones two waits in a row of 17.2 ms together last two revolutions
of 20.08 ms (`docs/zoned.md`)."""

Sweep = Mapping[tuple[str, int], Mapping[int, I64]]
"""Latencies (ns) by kind and I/O size (KiB), and by the number of zones."""


def burst(drive: ZonedDrive, kind: str, size_kib: int, count: int) -> I64:
    """One burst over `count` zones; the latency of its writes, ns."""
    size = size_kib * KIB
    rounds = BURST_WRITES // count
    zone = np.tile(drive.middle_zones(count), rounds)
    if kind == "sequential":
        offset = np.repeat(np.arange(rounds, dtype=np.int64) * size, count)
    else:  # anywhere but at the write pointer, which is at the zone's start
        places = drive.layout.zone_bytes // size
        offset = rng(f"burst/{size_kib}/{count}").integers(1, places, len(zone)) * size
    return drive.spaced_writes(zone, offset, np.full(len(zone), size), HOST_GAP_SECONDS[size_kib])


def _sweep(bench: Bench) -> Sweep:
    return {
        (kind, size): {count: burst(bench.drive(), kind, size, count) for count in COUNTS}
        for kind in KINDS
        for size in SIZES_KIB
    }


def median_mbps(latency_ns: I64, size_kib: int) -> float:
    """The median throughput of writes, MB/s."""
    return float(np.median(real_drive_recordings.mbps(size_kib * KIB, latency_ns)))


def mbps_by_time(latency_ns: I64, size_kib: int) -> float:
    """Bytes over the time that they took, MB/s."""
    return size_kib * KIB * len(latency_ns) * 1e3 / float(latency_ns.sum())


def _change(runs: Mapping[int, I64], size_kib: int) -> float:
    """How much the median falls across the edge, as a share; negative where it rises."""
    return 1 - median_mbps(runs[FIRST_PAST], size_kib) / median_mbps(runs[LAST_INSIDE], size_kib)


def _edge(bench: Bench) -> tuple[float | None, str]:
    """The number of zones at full speed as the suite finds it, and its reason."""
    drive = bench.drive()
    try:
        result = run_suite(drive.engine, bench.folder / "open_zones", SuiteOptions(only=("open_zones",)))
    except SkylightError as error:
        return None, f"the probe failed: {error}"
    known = Known(result.findings)
    found = known.get("open_zones_edge")
    return known.number("open_zones_edge"), "" if found is None else found.why


def h1a(bench: Bench) -> Measured:
    """Figure 1: the edge of open zones, and what it costs."""
    sweep = _sweep(bench)
    found, why = _edge(bench)
    figures: dict[str, Ours] = {"zones at full speed, found by the probe": found}
    for size in SIZES_KIB:
        figures[f"sequential, {size} KiB: fall of the median from 120 to 140 zones"] = _change(
            sweep["sequential", size], size
        )
        figures[f"non-sequential, {size} KiB: change of the median from 120 to 140 zones"] = abs(
            _change(sweep["non-sequential", size], size)
        )
    return Measured(figures, lambda: box_figure(sweep), (why,) if why else ())


def h1b(bench: Bench) -> Measured:
    """Figure 1: whether some setting is faster non-sequentially."""
    sweep = _sweep(bench)
    faster = [
        f"{size} KiB to {count} zones"
        for size in SIZES_KIB
        for count in COUNTS
        if mbps_by_time(sweep["non-sequential", size][count], size)
        > mbps_by_time(sweep["sequential", size][count], size)
    ]
    note = f"non-sequential writes are faster, by bytes over time, with {', '.join(faster)}"
    seen = "seen" if faster else "not seen"
    return Measured({"sequential is not always faster": seen}, notes=(note,) if faster else ())


@dataclass(frozen=True, slots=True)
class Compared:
    """A statistic of a run, ours and recorded (MB/s), and the interval (95 %) of the recorded one."""

    ours: float
    real: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Ours over the recorded."""
        return self.ours / self.real

    @property
    def place(self) -> float:
        """Where ours lies in the interval: -1 and 1 are its ends."""
        return (2 * self.ours - self.low - self.high) / max(self.high - self.low, 1e-9)


def _interval(rounds: I64, size_kib: int, statistic: str) -> tuple[float, float]:
    """The bootstrap interval of a statistic; whole rounds are drawn, since writes of a round depend on each
    other."""
    draw = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    of = median_mbps if statistic == "median" else mbps_by_time
    values = [
        of(rounds[draw.integers(0, len(rounds), len(rounds))].ravel(), size_kib) for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def compared(ours: I64, real: Writes, count: int, size_kib: int, statistic: str) -> Compared:
    """One statistic of one run against the recording."""
    of = median_mbps if statistic == "median" else mbps_by_time
    rounds = real.latency_ns[: len(real) // count * count].reshape(-1, count)
    low, high = _interval(rounds, size_kib, statistic)
    return Compared(of(ours, size_kib), of(real.latency_ns, size_kib), low, high)


def _farthest(values: Sequence[float], centre: float) -> float:
    return max(values, key=lambda value: abs(value - centre))


def r2(bench: Bench) -> Measured:
    """The recorded bursts again, and how near our throughput comes."""
    figures: dict[str, Ours] = {}
    notes: list[str] = []
    replays: dict[tuple[str, int], dict[int, I64]] = {}
    for kind, size in RUNS:
        runs = real_drive_recordings.bursts(kind, size)
        gap = HOST_GAP_SECONDS[size]
        ours = {count: bench.drive().replay(run, gap_seconds=gap) for count, run in runs.items()}
        replays[kind, size] = ours
        name = f"{kind.removeprefix('seq_')}, {size} KiB"
        for statistic in ("median", "bytes over time"):
            each = {count: compared(ours[count], run, count, size, statistic) for count, run in runs.items()}
            inside = [one.ratio for count, one in each.items() if count <= LAST_INSIDE]
            past = [one.place for count, one in each.items() if count > LAST_INSIDE]
            figures[f"{name}, {statistic}: ours over the recorded to 120 zones, farthest"] = _farthest(
                inside, 1.0
            )
            figures[f"{name}, {statistic}: place in the recorded interval past it, farthest"] = _farthest(
                past, 0.0
            )
            said = ", ".join(
                f"{count}: {one.ours:.3g} ({one.real:.3g}, {one.low:.3g} to {one.high:.3g})"
                for count, one in each.items()
            )
            notes.append(f"{name}, {statistic}, MB/s of ours (recorded, its interval) by zones: {said}")
        if size == max(SIZES_KIB):
            steps = falls([median_mbps(latency, size) for latency in ours.values()])
            figures[f"{name}: steps in which the median falls"] = float(len(steps))
    return Measured(figures, lambda: recorded_figure(replays), tuple(notes))
