"""`make score`: how often the suite is right about drives that nobody tuned to.

Probes random drives (`skylight drives random`), one seed each, and holds the findings against the truth of
each drive. Prints a table by property, every wrong answer with its seed, and the totals against what the
project asks of itself (issue: at least 98 % of all property findings right, at most 0.5 % wrong, drive type
wrong on none). Exit code 1 when a total misses.

    python bench/score.py --seeds 1000-1099
    python bench/score.py --seeds 1000-1019 --only rotation --kind journaled
    python bench/score.py --profiles                 the drives that come with Skylight
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skylight import _native
from skylight.engines.sim import SimEngine, profile_names, read_profile
from skylight.evidence import TargetFacts
from skylight.findings import Finding
from skylight.probe.scoring import Mark, score
from skylight.probe.suite import SuiteOptions, run_suite

RIGHT, WRONG = 0.98, 0.005


@dataclass(frozen=True)
class Scored:
    """One drive: its marks, the reasons given, and what the probe cost."""

    drive: str
    kind: str
    marks: list[Mark]
    why: dict[str, str]
    cpu_seconds: float
    error: str | None = None


def probe_text(text: str, seed: int, options: SuiteOptions) -> tuple[list[Finding], float]:
    """The findings about the drive of a profile, and user and system CPU seconds it took.

    The engine is told nothing of where the profile came from."""
    drive = _native.SimDrive(text, "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with tempfile.TemporaryDirectory(prefix="skylight-score-") as folder:
        result = run_suite(SimEngine(drive, facts), Path(folder) / "recording", options)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return result.findings, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def scored(drive: str, *, kind: str | None, options: SuiteOptions) -> Scored:
    """Probes one drive, a seed or a profile's name, and marks what was found of what was looked for."""
    seeded = drive.isdigit()
    text = _native.random_profile(int(drive), kind) if seeded else read_profile(drive)[0]
    layer = text.partition('kind = "')[2].partition('"')[0]
    try:
        findings, cpu = probe_text(text, int(drive) if seeded else 1, options)
    except Exception:  # noqa: BLE001 - a crash is the worst mark, and must not hide the others
        return Scored(drive, layer, [], {}, 0.0, traceback.format_exc())
    truth = json.loads(_native.profile_truth(text, "drive.toml"))["findings"]
    names = {finding.name for finding in findings}
    part = bool(options.only) or options.quick
    marks = [mark for mark in score(findings, truth) if not part or mark.name in names]
    return Scored(drive, layer, marks, {finding.name: finding.why for finding in findings}, cpu)


def seeds_of(text: str) -> list[str]:
    """Seeds from "7", "7,9" or "1000-1099"."""
    seeds: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += [str(seed) for seed in range(int(first), int(last or first) + 1)]
    return seeds


def tell(result: Scored) -> None:
    """Prints what was not right about one drive."""
    if result.error is not None:
        print(f"{result.drive} ({result.kind}): failed\n{result.error}", flush=True)
    for mark in result.marks:
        if mark.outcome != "right":
            why = result.why.get(mark.name, "no finding")
            print(
                f"{result.drive} ({result.kind}) {mark.name} {mark.outcome}: found {mark.found},"
                f" true {mark.true}, confidence {mark.confidence:.2f}; {why}",
                flush=True,
            )


def show(results: Sequence[Scored]) -> bool:
    """Prints the table and the totals; whether all totals are met."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for result in results:
        for mark in result.marks:
            counts[mark.name][mark.outcome] += 1
            counts["all"][mark.outcome] += 1
    print(f"\n{'property':26}{'right':>7}{'wrong':>7}{'unknown':>9}{'right %':>9}")
    for name, outcomes in counts.items():
        total = sum(outcomes.values())
        print(
            f"{name:26}{outcomes['right']:7}{outcomes['wrong']:7}{outcomes['unknown']:9}"
            f"{100 * outcomes['right'] / total:9.1f}"
        )
    cpu = sorted(result.cpu_seconds for result in results)
    print(f"\n{len(results)} drives; CPU s: median {cpu[len(cpu) // 2]:.1f}, most {cpu[-1]:.1f}")
    total = max(sum(counts["all"].values()), 1)
    right, wrong = counts["all"]["right"] / total, counts["all"]["wrong"] / total
    types = counts["drive_type"]["wrong"]
    print(
        f"right {right:.2%} (asked {RIGHT:.1%}), wrong {wrong:.2%} (at most {WRONG:.1%}), type wrong {types}"
    )
    return right >= RIGHT and wrong <= WRONG and types == 0 and not any(r.error for r in results)


def gathered(results: Iterable[Scored]) -> list[Scored]:
    """All results, each told as soon as it is there."""
    told = []
    for result in results:
        tell(result)
        told.append(result)
    return told


def main() -> int:
    """Scores the drives that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="", help='seeds of random drives: "7", "7,9", "1000-1099"')
    parser.add_argument("--profiles", action="store_true", help="the drives that come with Skylight")
    parser.add_argument("--kind", help="only random drives of this kind")
    parser.add_argument("--only", default="", help="only these tests, comma separated, and what they need")
    parser.add_argument("--quick", action="store_true", help="the quick answer")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    arguments = parser.parse_args()
    only = tuple(name for name in arguments.only.split(",") if name)
    drives = seeds_of(arguments.seeds) if arguments.seeds else []
    drives += profile_names() if arguments.profiles else []
    if not drives:
        parser.error("name drives with --seeds or --profiles")
    work = partial(scored, kind=arguments.kind, options=SuiteOptions(only=only, quick=arguments.quick))
    if arguments.jobs == 1:
        results = gathered(map(work, drives))
    else:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            results = gathered(pool.map(work, drives))
    return 0 if show(results) else 1


if __name__ == "__main__":
    sys.exit(main())
