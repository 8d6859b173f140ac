"""Accuracy of `skylight geometry extract` on random disks, to which nothing was tuned.

Takes conventional random drives (`skylight drives random`) with several heads and 5 to 40 recording zones, in
the order of their seeds, until there are `--disks` of them; all layouts occur. Extracts each through a
recording, as the command does, and compares the result with the profile. Prints a line for each disk and the
totals with the project's targets: track sizes exact, edges within 1 % of a zone, skew within 2 %, the layout
right on 48 of 50, and under 20,000 reads for the zone table of a 4 TB disk (`st4000nc001`). Exit code 1 when
one misses.

    python bench/geometry.py                         50 disks from seed 1000 on
    python bench/geometry.py --first 2000 --disks 20 --jobs 1
    python bench/geometry.py --seeds 1003,1008
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from seed_arguments import seeds_of
from skylight import _native
from skylight.engines.sim import SimEngine, read_profile
from skylight.evidence import TargetFacts
from skylight.geometry.result import Geometry
from skylight.geometry.run import measure
from skylight.geometry.scoring import NAMES, Score, Truth, score, truth_of

LEAST_ZONES, MOST_ZONES = 5, 40
LARGE, MOST_READS = "st4000nc001", 20_000
LAYOUTS_RIGHT = 48 / 50


@dataclass(frozen=True)
class Scored:
    """One disk: its truth, the result, and the cost."""

    disk: str
    truth: Truth | None
    found: Geometry | None
    score: Score | None
    cpu_seconds: float
    device_seconds: float
    error: str = ""


def text_of(disk: str) -> str:
    """The profile of a seed or of a name."""
    return _native.random_profile(int(disk), "conventional") if disk.isdigit() else read_profile(disk)[0]


def truth_at(disk: str) -> Truth:
    """The truth of a disk."""
    return truth_of(json.loads(_native.profile_check(text_of(disk), "disk.toml")))


def chosen(first: int, count: int) -> list[str]:
    """Seeds from `first` on whose disks have several heads and 5 to 40 recording zones."""
    seeds: list[str] = []
    seed = first
    while len(seeds) < count:
        truth = truth_at(str(seed))
        if truth.surfaces > 1 and LEAST_ZONES <= truth.recording_zones <= MOST_ZONES:
            seeds.append(str(seed))
        seed += 1
    return seeds


def scored(disk: str) -> Scored:
    """Extracts one disk, without access to its profile."""
    text = text_of(disk)
    drive = _native.SimDrive(text, "disk.toml", int(disk) if disk.isdigit() else 1)
    facts = TargetFacts("sim", "sim:disk.toml", drive.size_bytes, drive.block_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        with tempfile.TemporaryDirectory(prefix="skylight-geometry-") as folder:
            found = measure(SimEngine(drive, facts), Path(folder) / "recording")
    except Exception:  # noqa: BLE001 - a crash is the worst score, and must not hide the others
        return Scored(disk, None, None, None, 0.0, 0.0, traceback.format_exc())
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    truth = truth_of(json.loads(_native.profile_check(text, "disk.toml")))
    return Scored(disk, truth, found, score(found, truth), cpu, drive.now_ns / 1e9)


def line_of(one: Scored) -> str:
    """One disk in a line."""
    if one.truth is None or one.found is None or one.score is None:
        return f"{one.disk}: failed\n{one.error}"
    found, truth, graded = one.found, one.truth, one.score
    off = "none" if graded.skew_off is None else f"{100 * graded.skew_off:+.2f} %"
    return (
        f"{one.disk:>12} {truth.layout:18} {truth.surfaces:2} heads {len(truth.zones):4} zones"
        f" {graded.exact_edges:4} exact, skew {off:>8}, reads {found.zone_reads:6,}"
        f" + {found.reads - found.zone_reads:6,}, {one.device_seconds:5.0f} s of device,"
        f" CPU {one.cpu_seconds:4.1f} s"
        + (
            f"  WRONG: {', '.join(graded.wrong)} (found {found.layout}, {found.surfaces})"
            if graded.wrong
            else ""
        )
    )


def show(results: list[Scored], large: Scored) -> bool:
    """Prints the totals; returns whether all targets are met."""
    done = [one for one in results if one.score is not None]
    print()
    right = {name: sum(bool(getattr(one.score, name)) for one in done) for name in NAMES}
    for name, count in right.items():
        print(f"{name:10} right on {count} of {len(results)}")
    reads = sorted(one.found.reads for one in done if one.found is not None)
    cpu = sorted(one.cpu_seconds for one in done)
    if reads:
        print(f"reads: median {reads[len(reads) // 2]:,}, most {reads[-1]:,}")
        print(f"CPU s: median {cpu[len(cpu) // 2]:.1f}, most {cpu[-1]:.1f}, all {sum(cpu):.0f}")
    print(line_of(large))
    few = large.found is not None and large.score is not None and large.score.all
    few = few and large.found is not None and large.found.zone_reads < MOST_READS
    all_right = all(right[name] == len(results) for name in ("tracks", "edges", "skew"))
    return all_right and right["layout"] >= LAYOUTS_RIGHT * len(results) and bool(few)


def main() -> int:
    """Scores the disks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--first", type=int, default=1000, help="the first seed that is looked at (default 1000)"
    )
    parser.add_argument("--disks", type=int, default=50, help="how many disks (default 50)")
    parser.add_argument("--seeds", type=seeds_of, default=[], help="these seeds instead, as 1003,1010-1012")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    arguments = parser.parse_args()
    seeds = [str(seed) for seed in arguments.seeds] or chosen(arguments.first, arguments.disks)
    results: list[Scored] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for one in pool.map(scored, seeds):
            results.append(one)
            print(line_of(one), flush=True)
    return 0 if show(results, scored(LARGE)) else 1


if __name__ == "__main__":
    sys.exit(main())
