"""Where the arm's constants in the drive profiles come from: prints every number of docs/calibration.md.

Reads the latency logs of a real ST8000AS0022 and the seek curves of four conventional drives, fits the seek
curve, and checks the profiles in the simulator. Run it with the project's Python; the recordings are those
that SKYLIGHT_DATA names, ../shared/data by default. `--figure FILE.svg` draws the curve as well, and
`--profiles` writes the points of the curve into the profiles.

Invariants: the same recordings give the same numbers (resampling is seeded); times are in ms, distances in
shares of the full stroke, unless a name says otherwise.
Sources: the README of each recording; Skylight (FAST'15), section 4.3, for the stroke from the ID to the OD.
"""

import argparse
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from measured import (
    JOIN,
    LAW_FROM,
    OLD_DRIVES,
    ROOT,
    SETTLED,
    WINDOW,
    Floats,
    Floor,
    Law,
    Track,
    data_path,
    floor_of,
    floors,
    latencies_us,
    law_root_share,
    old_curve,
    old_drive,
    track_of,
    write_times_us,
)
from numpy.typing import NDArray
from scipy.optimize import least_squares

from skylight._native import SimDrive

PROFILES = ROOT / "python/skylight/profiles"

R1_QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
FITTED, HELD_BACK = slice(0, None, 2), slice(1, None, 2)
"""Which of the windows the fit sees, and which it is checked on."""

# Fitted to the logs by `fitted_arm`, to 0.01 ms: the test fails when the fit gives others.
CONSTANT_MS = 1.64
FULL_STROKE_MS = 15.38
# Chosen values; docs/calibration.md says why.
COMMAND_OVERHEAD_MS = 0.15
ONE_TRACK_MS = 0.34
ROOT_SHARE = 0.52
POINTS = 22


def law_between(constant: float, full: float) -> Law:
    """The law from its constant and the time of a full stroke, ms, with the root share of the old drives."""
    moving = full - constant
    return Law(constant, ROOT_SHARE * moving, (1 - ROOT_SHARE) * moving)


def chosen_law() -> Law:
    """The law of the profiles' arm."""
    return law_between(CONSTANT_MS, FULL_STROKE_MS)


def seek_points(longest: int, law_from: int | None = None) -> list[tuple[int, float]]:
    """The law as a table (tracks, ms) for a stroke of `longest` tracks, after two points for short seeks.

    Even in the fourth root of the distance, which spreads the error of straight lines over the table. Below
    it the next track, and either the law at `law_from` tracks, or half the rise to the law at the geometric
    mean of the two distances.
    """
    shares = np.linspace(JOIN**0.25, 1.0, POINTS) ** 4
    law = chosen_law()
    far = [(max(3, round(float(x) * longest)), float(law.at(x))) for x in shares]
    if law_from is None:
        second = (round(far[0][0] ** 0.5), (ONE_TRACK_MS + far[0][1]) / 2)
    else:
        second = (law_from, float(law.at(law_from / longest)))
    return [(1, ONE_TRACK_MS), second, *far]


def line_error(longest: int) -> float:
    """The most that straight lines between the points differ from the law, ms."""
    points = np.array(seek_points(longest))
    tracks = np.linspace(JOIN, 1.0, 100_000) * longest
    lines = np.interp(tracks, points[:, 0], points[:, 1])
    return float(np.abs(lines - chosen_law().at(tracks / longest)).max())


@dataclass(frozen=True)
class Platters:
    """Tracks, and what they hold by the profile's taper (as the drive builds it)."""

    surfaces: int
    zone_tracks: NDArray[np.int64]
    zone_sectors: NDArray[np.int64]

    @property
    def longest(self) -> int:
        """The longest seek in tracks."""
        return int(self.zone_tracks.sum()) - 1

    @property
    def capacity(self) -> int:
        """Bytes on the platters."""
        return int((self.zone_tracks * self.zone_sectors).sum()) * self.surfaces * 512

    def offset_at(self, share: float) -> int:
        """The byte, of a whole 4 KiB block, that lies about this share of the stroke from the OD."""
        ends = np.cumsum(self.zone_tracks)
        held = np.concatenate([[0], np.cumsum(self.zone_tracks * self.zone_sectors)])
        sectors = np.interp(share * self.longest, np.concatenate([[0], ends]), held)
        return int(sectors * self.surfaces) * 512 // 4096 * 4096


def platters(surfaces: int, zones: int, tracks: int, outer: int, inner: int) -> Platters:
    """Recording zones of equal width whose sectors fall evenly."""
    edges = np.arange(zones + 1) * tracks // zones
    sectors = np.round(np.linspace(outer, inner, zones)).astype(np.int64)
    return Platters(surfaces, np.diff(edges), sectors)


def profile(name: str) -> tuple[str, dict[str, Any]]:
    """A profile as text and as tables."""
    text = (PROFILES / f"{name}.toml").read_text(encoding="utf-8")
    return text, tomllib.loads(text)


def profile_platters(name: str) -> Platters:
    """The platters of a profile."""
    geometry = profile(name)[1]["geometry"]
    names = ("zones", "tracks", "outer_sectors_per_track", "inner_sectors_per_track")
    return platters(geometry["surfaces"], *(geometry["taper"][key] for key in names))


LAW_FROM_TRACKS = {
    "st4000nc001": None,
    "emulated-smr-1": None,
    "emulated-smr-2": None,
    "emulated-smr-3": None,
    "st5000as0011": 5,
    "st8000as0011": 5,
    "st8000as0022": 5,
}
"""The profiles that have this arm, and the tracks from which they follow the law, where that was measured."""


def profile_longest(name: str) -> int:
    """The longest seek of a profile, tracks."""
    geometry = profile(name)[1]["geometry"]
    if "taper" in geometry:
        return int(geometry["taper"]["tracks"]) - 1
    return sum(int(zone["tracks"]) for zone in geometry["zone"]) - 1


def profile_points(name: str) -> list[tuple[int, float]]:
    """The seek points that a profile must hold."""
    return seek_points(profile_longest(name), LAW_FROM_TRACKS[name])


def points_text(points: list[tuple[int, float]]) -> str:
    """Seek points as the profiles write them, four to a line."""
    pairs = [f'[{tracks}, "{time:.3f} ms"]' for tracks, time in points]
    lines = [", ".join(pairs[first : first + 4]) for first in range(0, len(pairs), 4)]
    return "points = [\n" + "".join(f"    {line},\n" for line in lines) + "]\n"


def write_profiles() -> None:
    """Puts the derived points into the profiles, and touches nothing else there."""
    for name in LAW_FROM_TRACKS:
        text, _ = profile(name)
        written, found = re.subn(
            r"(?<=\n)points = \[\n(?:    .*\n)+\]\n", points_text(profile_points(name)), text
        )
        if found != 1:
            raise SystemExit(f"{name}.toml: one table of seek points expected, {found} found")
        (PROFILES / f"{name}.toml").write_text(written, encoding="utf-8")


# The real drive of the logs: tracks of 2,008 and 928 KiB as measured, six platters, 8.0 TB.
SCALED = (12, 24, 443_700, 4016, 1856)


def scaled_profile() -> str:
    """The arm of st4000nc001 on platters like those of the recorded drive, as a conventional drive."""
    _, tables = profile("st4000nc001")
    mechanics = tables["mechanics"]
    surfaces, zones, tracks, outer, inner = SCALED
    factor = (tracks - 1) / profile_platters("st4000nc001").longest
    points = [[max(1, round(d * factor)) if d > 1 else 1, t] for d, t in mechanics["seek"]["points"]]
    return f"""schema = 1
name = "scaled"
summary = "the arm of st4000nc001 on the platters of an 8 TB drive"
sources = ["docs/calibration.md"]
capacity = "8 TB"
[mechanics]
rotation = "10.0384 ms"
head_switch = "{mechanics["head_switch"]}"
write_settle = "{mechanics["write_settle"]}"
[mechanics.seek]
points = {points}
[geometry]
surfaces = {surfaces}
layout = "hybrid-serpentine"
group_tracks = 200
track_skew = "0.445 ms"
head_skew = "{tables["geometry"]["head_skew"]}"
[geometry.taper]
zones = {zones}
tracks = {tracks}
outer_sectors_per_track = {outer}
inner_sectors_per_track = {inner}
[interface]
queue_depth = 1
command_overhead = "{tables["interface"]["command_overhead"]}"
host_gap = "0.0073 ms"
[layer]
kind = "conventional"
"""


def run_ms(drive: SimDrive, offset: NDArray[np.int64], size: int, *, write: bool, depth: int = 1) -> Floats:
    """Runs reads or writes of one size; latencies in order, ms."""
    op = np.full(len(offset), int(write), dtype=np.uint8)
    sizes = np.full(len(offset), size, dtype=np.uint32)
    submit, complete = drive.run(op, offset.astype(np.uint64), sizes, depth)
    return (complete - submit).astype(np.float64) / 1e6


def fragmented_reads_us(home: int, cache: tuple[int, int], reads: int) -> Floats:
    """Latencies of reads that alternate between home blocks in order and blocks of the cache at random."""
    drive = SimDrive(scaled_profile(), "scaled.toml", 1)
    offset = np.empty(reads, dtype=np.int64)
    offset[::2] = home + np.arange(reads // 2) * 8192
    low, high = cache[0] // 4096, max(cache[1] // 4096, cache[0] // 4096 + 4096)
    offset[1::2] = np.random.default_rng(1).integers(low, high, reads // 2) * 4096
    return run_ms(drive, offset, 4096, write=False) * 1000


def replay(name: str, span: float, reads: int = 24_576) -> Floats:
    """The log `low` or `high` in the simulator, us: the cache covers the first `span` of the stroke."""
    disk = platters(*SCALED)
    cache = (0, disk.offset_at(span))
    home = cache[1] if name == "low" else 8_000_000_000_000 - (128 << 20)
    return fragmented_reads_us(home, cache, reads)


def full_stroke_ms(name: str, *, write: bool = False) -> float:
    """Shortest command from the last track to the first, over many phases: no rotational delay left."""
    drive = SimDrive(profile(name)[0], name, 1)
    offset = np.zeros(4096, dtype=np.int64)
    offset[::2] = drive.size_bytes - 4096
    offset[1::2] = np.random.default_rng(1).integers(0, 400, 2048) * 4096
    return float(run_ms(drive, offset, 4096, write=write)[1::2].min())


def sequential_mb_s(name: str, *, write: bool) -> tuple[float, float]:
    """Throughput of the first 2 GiB in 1 MiB commands, and what track and skew alone allow, MB/s."""
    text, tables = profile(name)
    drive = SimDrive(text, name, 1)
    offset = np.arange(2048, dtype=np.int64) << 20
    run_ms(drive, offset[:8], 1 << 20, write=write, depth=8)
    before = drive.now_ns
    run_ms(drive, offset[8:], 1 << 20, write=write, depth=31)
    got = float((len(offset) - 8) << 20) / (drive.now_ns - before) * 1e3
    track_ms = 60_000 / float(tables["mechanics"]["rpm"]) + milliseconds(tables["geometry"]["track_skew"])
    return got, float(profile_platters(name).zone_sectors[0]) * 512 / track_ms / 1e3


def milliseconds(duration: object) -> float:
    """A duration of a profile in ms."""
    number, unit = str(duration).split()
    if unit != "ms":
        raise ValueError(f"{duration}: durations of the calibrated profiles are in ms")
    return float(number)


def random_writes_ms(name: str, region: int, writes: int = 4096) -> Floats:
    """Latencies of synchronous random 4 KiB writes in the first `region` bytes."""
    drive = SimDrive(profile(name)[0], name, 1)
    blocks = np.random.default_rng(1).integers(0, region // 4096, writes)
    return run_ms(drive, blocks * 4096, 4096, write=True)


def quartiles(latency: Floats) -> tuple[float, float]:
    """Median, and interquartile range as a share of it."""
    low, median, high = np.quantile(latency, [0.25, 0.5, 0.75])
    return float(median), float((high - low) / median)


TRANSFER_MS = {"low": 0.020, "high": 0.043}
"""4 KiB on tracks of 2,008 and 928 KiB."""


def seek_of(floor_ms: float, name: str) -> float:
    """The seek in a floor of a log, ms: without command overhead and transfer."""
    return floor_ms - COMMAND_OVERHEAD_MS - TRANSFER_MS[name]


@dataclass(frozen=True)
class Arm:
    """The seek law, and the share of the stroke that the cache of the recorded drive covers at the OD."""

    law: Law
    span: float

    def seeks(self, name: str, windows: int) -> Floats:
        """Seeks, ms and rising, of that many windows of the log `low` or `high`.

        The cache is read through at an even pace. `low` lies at its inner end, `high` at the end of the
        stroke, so the distances are evenly spread from 0 to the span and from the rest of the stroke to 1.
        """
        near = (np.arange(windows) + 0.5) / windows * self.span
        return self.law.at(near if name == "low" else 1 - self.span + near)


def window_seeks(data: Path, name: str, part: slice) -> Floats:
    """The seeks in the floors of these windows of the log `low` or `high`, ms, sorted."""
    latency = latencies_us(data, name)
    found = floors(latency[SETTLED[name] :], track_of(latency, name).turn_us, WINDOW)
    return np.sort(found[part]) - COMMAND_OVERHEAD_MS - TRANSFER_MS[name]


def fitted_arm(data: Path, part: slice = FITTED) -> Arm:
    """Constant, full stroke and span by least squares over these windows.

    From `low` the whole spread of the floors; from `high` only their mean, so that its spread is a check.
    """
    low, high = (window_seeks(data, name, part) for name in ("low", "high"))

    def left(values: Floats) -> Floats:
        arm = Arm(law_between(values[0], values[1]), values[2])
        apart = arm.seeks("high", len(high)).mean() - high.mean()
        return np.append(arm.seeks("low", len(low)) - low, apart * np.sqrt(len(high)))

    bounds = ([0.0, 5.0, 1e-6], [5.0, 50.0, 0.5])
    found = least_squares(left, [2.0, 16.0, 0.01], x_scale=[1.0, 1.0, 0.01], bounds=bounds).x
    return Arm(law_between(float(found[0]), float(found[1])), float(found[2]))


def middle_spread(values: Floats) -> float:
    """From the 10th to the 90th percentile."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float(high - low)


def print_fit(data: Path) -> None:
    """The fit, and how it does on the windows that it did not see."""
    arm, whole = fitted_arm(data), fitted_arm(data, slice(None))
    for title, found in (("every second window", arm), ("all windows", whole)):
        print(
            f"fit to {title}: constant {found.law.constant:.2f} ms, "
            f"full stroke {float(found.law.at(1.0)):.2f} ms, "
            f"cache over {found.span * 100:.2f} % of the stroke"
        )
    for name in ("low", "high"):
        held = window_seeks(data, name, HELD_BACK)
        ours = arm.seeks(name, len(held))
        print(
            f"{name}, windows held back: mean seek {held.mean():.2f} ms, the fit says {ours.mean():.2f}; "
            f"p10 to p90 spread {middle_spread(held):.2f} ms, the fit says {middle_spread(ours):.2f}; "
            f"rms {np.sqrt(np.mean((held - ours) ** 2)):.2f} ms"
        )


def measured_floor(data: Path, name: str) -> tuple[Track, Floor]:
    """Track and floor of the log `low` or `high`."""
    latency = latencies_us(data, name)
    track = track_of(latency, name)
    return track, floor_of(latency, name, track.turn_us)


def print_recordings(data: Path) -> None:
    """What the logs and the old drives say."""
    for name in ("low", "high"):
        track, floor = measured_floor(data, name)
        rpm = 60e6 / track.turn_us
        print(
            f"{name}: turn {track.turn_us / 1000:.4f} +- {track.turn_error_us / 1000:.4f} ms ({rpm:.0f} rpm)"
        )
        print(
            f"{name}: track {track.blocks * 8} KiB, step {track.step_us:.1f} us, skew {track.skew_us:.0f} us"
        )
        print(
            f"{name}: floor {floor.mean:.2f} +- {floor.error:.2f} ms, "
            f"{floor.lowest:.2f} to {floor.highest:.2f} in windows of 1,024 reads"
        )
        print(f"{name}: seek in the floor {seek_of(floor.mean, name):.2f} ms")
    for zones, time in write_times_us(data).items():
        print(f"4 KiB writes taken by the write cache, {zones} open zones: {time:.0f} us")
    for drive in OLD_DRIVES:
        old = old_drive(data, drive)
        law = old.law
        print(
            f"{drive}: constant {law.constant:.2f} + root {law.root:.2f} + linear {law.linear:.2f} ms, "
            f"rms {old.rms:.2f} ms ({old.rms_all:.2f} with the shortest seeks), "
            f"root share {old.root_share:.2f}, constant / full {law.constant / old.full:.2f}, "
            f"one cylinder / constant {old.one_cylinder / law.constant:.2f}, at 0.1 % / law {old.short:.2f}"
        )
    shares = [old_drive(data, drive).root_share for drive in OLD_DRIVES]
    print(f"root share, median: {np.median(shares):.2f}")
    for drive in OLD_DRIVES:
        x, t, _ = old_curve(data, drive)
        absolute, relative = (law_root_share(x, t, weight) for weight in (np.ones_like(t), 1 / t))
        print(
            f"root share of {drive} over the whole curve: {absolute:.2f}, by relative errors {relative:.2f}"
        )


def print_arm(data: Path) -> None:
    """The seek curve, and the distances that the recorded floors then mean."""
    print_fit(data)
    law = chosen_law()
    longest = profile_platters("st4000nc001").longest
    print(f"law: {law.constant:.2f} + {law.root:.2f} sqrt(x) + {law.linear:.2f} x ms")
    print(f"lines between the points differ from it by at most {line_error(longest):.3f} ms")
    for name in ("low", "high"):
        _, floor = measured_floor(data, name)
        shares = [law.share_for(seek_of(f, name)) for f in (floor.mean, floor.lowest, floor.highest)]
        of_stroke = ", ".join(f"{share * 100:.2f} % ({share * SCALED[2]:.0f} tracks)" for share in shares)
        print(f"{name}: mean, lowest, highest floor lie at {of_stroke}")
    for name in ("st4000nc001", "emulated-smr-1", "emulated-smr-2"):
        print(f"{name}: the platters hold {profile_platters(name).capacity / 1e12:.4f} TB")


def print_simulator(data: Path) -> None:
    """The profiles in the simulator."""
    read, write = full_stroke_ms("st4000nc001"), full_stroke_ms("st4000nc001", write=True)
    print(f"st4000nc001: last track to first {read:.2f} ms (read), {write:.2f} ms (write)")
    for write_too in (False, True):
        got, bound = sequential_mb_s("st4000nc001", write=write_too)
        word = "write" if write_too else "read"
        print(f"st4000nc001: sequential {word} {got:.1f} MB/s; track and skew allow {bound:.1f} MB/s")
    for name, region in (("emulated-smr-1", 16 << 20), ("emulated-smr-2", 1 << 30), ("st4000nc001", 1 << 30)):
        median, spread = quartiles(random_writes_ms(name, region))
        print(
            f"{name}: random writes in {region >> 20} MiB: median {median:.2f} ms, IQR {spread * 100:.1f} %"
        )
    span = fitted_arm(data).span
    for name in ("low", "high"):
        real, ours = latencies_us(data, name)[SETTLED[name] :], replay(name, span)
        off = np.quantile(ours, R1_QUANTILES) / np.quantile(real, R1_QUANTILES) - 1
        listed = ", ".join(f"{value * 100:+.1f} %" for value in off)
        mean = (ours.mean() / real.mean() - 1) * 100
        floor = floor_of(ours, name, 10_038.4)
        print(f"replay {name}: p5, p25, p50, p75, p95 {listed}; mean {mean:+.1f} %")
        spread = middle_spread(floors(ours[SETTLED[name] :], 10_038.4, WINDOW))
        print(f"replay {name}: floor {floor.mean:.2f} ms, p10 to p90 of its windows {spread:.2f} ms")


# Colours that people with any colour vision tell apart (Okabe and Ito), and a mark of its own for each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a0457e")
MARKS = ("o", "s", "^", "D")


def draw(data: Path) -> Figure:
    """The seek curve with what it rests on, and the form of the law on the four measured drives."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    ours, old = figure.subplots(1, 2, sharey=True)
    draw_arm(ours, data)
    for drive, colour, mark in zip(OLD_DRIVES, COLOURS, MARKS, strict=True):
        share, time, _ = old_curve(data, drive)
        fine = np.geomspace(LAW_FROM, 1, 100)
        old.plot(share * 100, time, mark, ms=3, color=colour, mfc="none", mew=0.7, label=drive)
        old.plot(fine * 100, old_drive(data, drive).law.at(fine), "-", lw=1.2, color=colour)
    old.legend(loc="upper left", fontsize=8, frameon=False)
    old.set_title("Four measured drives (marks) and the law fitted to each (lines)", fontsize=9)
    ours.set_title("The arm of the profiles and what it rests on", fontsize=9)
    ours.set_ylabel("seek time (ms)")
    for axes in (ours, old):
        axes.set(xscale="log", ylim=(0, 18), xlabel="seek distance (% of the full stroke)")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(color="#e4e4e4", lw=0.6)
        axes.set_axisbelow(True)
    return figure


def draw_arm(axes: Axes, data: Path) -> None:
    """The profiles' two curves, the two floors, the skew and the paper's full stroke."""
    for name, style in (("st5000as0011", "--"), ("st4000nc001", "-")):
        points = np.array(profile_points(name))
        longest = points[-1, 0]
        tracks = np.geomspace(1, longest, 300)
        curve = np.interp(tracks, points[:, 0], points[:, 1])
        kind = "the Seagate profiles" if name == "st5000as0011" else "st4000nc001, emulated-smr-1 to -3"
        axes.plot(tracks / longest * 100, curve, style, lw=1.6, color=COLOURS[0], label=kind)
    span = fitted_arm(data).span
    for name, share, label in (
        ("low", span / 2, "8 TB drive: mean, lowest and highest floor,\nless overhead; distances by the fit"),
        ("high", 1 - span / 2, None),
    ):
        _, floor = measured_floor(data, name)
        seek = seek_of(floor.mean, name)
        reach = [[seek - seek_of(floor.lowest, name)], [seek_of(floor.highest, name) - seek]]
        axes.errorbar(share * 100, seek, yerr=reach, fmt="o", ms=5, capsize=4, color=COLOURS[1], label=label)
    paper = "paper: ID to OD, about 16 ms, overhead included"
    axes.errorbar(100, 16, yerr=0.5, fmt="s", ms=5, mfc="none", capsize=7, color=COLOURS[2], label=paper)
    skew = "track skew of the 8 TB drive: an upper bound"
    axes.plot(100 / longest, 0.445, "v", color=COLOURS[3], label=skew)
    axes.legend(loc="upper left", fontsize=8, frameon=False)


def main() -> None:
    """Prints the numbers; with --figure draws the curve."""
    parser = argparse.ArgumentParser(description="Prints every number of docs/calibration.md.")
    parser.add_argument("--figure", type=Path, help="draw the seek curve into this file")
    parser.add_argument(
        "--profiles", action="store_true", help="write the seek points into the profiles first"
    )
    given = parser.parse_args()
    figure_path: Path | None = given.figure
    if given.profiles:
        write_profiles()
    data = data_path()
    if not data.is_dir():
        parser.error(f"no recordings at {data}: set SKYLIGHT_DATA to the folder that holds them")
    print_recordings(data)
    print_arm(data)
    print_simulator(data)
    if figure_path:
        rcParams.update({"svg.hashsalt": "skylight", "svg.fonttype": "none"})
        draw(data).savefig(figure_path, metadata={"Date": None} if figure_path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
