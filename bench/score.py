"""`make score`, `bench/blind`: accuracy of the suite on drives to which nothing was tuned.

Probes random drives (`skylight drives random`), one seed each, or the drives of profiles, and compares the
findings with the truth of each drive. Prints every wrong or unknown finding with its drive, then right, wrong
and unknown by property, a confusion matrix for each property that is a word, the number of intervals that
contain the truth, and the totals with the project's targets (at least 98 % of all property findings right, at
most 0.5 % wrong, drive type wrong on none, 92 to 98 % of 95 % intervals containing the truth). Exit code 1
when a total misses, 2 for wrong use.

With `--conditions`, each drive under conditions (docs/conditions.md), which `drawn` draws from its seed; what
counts then is what is measurable under them: at least 95 % right, at most 0.5 % wrong, drive type wrong on
none. Prints the outcomes by condition as well, worst first, the calibration table and every confident
falsehood.

With `--quick`, the quick probe: drive type right on 99 %, wrong on none, and no command sent after a minute
of device time. Under drawn conditions a minute need not suffice, so no share right is asked of it there: at
most 0.5 % wrong, drive type wrong on none, and the minute.

    bench/blind --seed 7000 --n 300                  random drives of 300 seeds from 7000 on
    bench/blind --seed 7000 --n 60 --conditions drawn
    bench/blind --seed 7000 --n 60 --conditions drawn --quick
    bench/blind --profiles DIR                       every profile (*.toml) of a folder
    bench/blind --profiles                           the shipped drives
    bench/blind --seeds 1000-1019,1077 --only rotation --kind journaled
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import tally
from seed_arguments import seeds_of
from skylight import _native
from skylight.engines.sim import PROFILE_SUFFIX, profile_names, read_profile
from skylight.engines.sim_under_conditions import DRAWN, IDEAL, Conditions, conditions_text, engine_over
from skylight.errors import SkylightError
from skylight.evidence import TargetFacts
from skylight.findings import Finding
from skylight.probe.scoring import SCORED, Mark, holds, score
from skylight.probe.suite import Account, SuiteOptions, accounts, left_out, run_suite
from skylight.probe.zoned import model_of
from skylight.truth import true_findings

RIGHT, WRONG = 0.98, 0.005
RIGHT_IN_CONDITIONS = 0.95
QUICK_RIGHT, QUICK_S = 0.99, 60.0
HOLD = (0.92, 0.98)
FEWEST_INTERVALS = 100  # below this a share from 92 to 98 % says nothing
CONFUSED = tuple(found.name for found in SCORED if found.unit is None)  # words


@dataclass(frozen=True)
class Probed:
    """What a probe found, CPU seconds it took, device seconds at its end, when its last command was sent,
    what each test took of what it was to cost, and what is found by tests that such a drive cannot be
    asked."""

    findings: list[Finding]
    cpu_seconds: float
    device_seconds: float
    last_sent_seconds: float
    accounts: list[Account] = field(default_factory=list)
    not_asked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Scored:
    """One drive: its marks, the reasons given, which intervals contain the truth, what the probe cost, under
    which conditions, and the findings that these put out of reach."""

    drive: str
    kind: str
    marks: list[Mark]
    why: dict[str, str]
    held: dict[str, bool]
    probed: Probed
    error: str | None = None
    conditions: Conditions | None = None
    out_of_reach: frozenset[str] = frozenset()

    def counted(self) -> list[tally.Counted]:
        """The marks that count under conditions."""
        return [
            tally.Counted(
                self.drive, self.kind, mark.name, mark.outcome, mark.found is not None, mark.confidence,
                self.conditions,
            )
            for mark in self.marks
            if mark.outcome == "wrong" or mark.name not in self.out_of_reach
        ]  # fmt: skip


def probe_text(text: str, seed: int, options: SuiteOptions, conditions: str) -> Probed:
    """Probes the drive of a profile under conditions. The engine does not know the origin of the profile."""
    drive = _native.SimDrive(text, "drive.toml", seed, conditions)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    engine = engine_over(drive, facts)
    began_ns = drive.now_ns  # what the drive was used for before is no part of the probe
    with tempfile.TemporaryDirectory(prefix="skylight-score-") as folder:
        result = run_suite(engine, Path(folder) / "recording", options)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    logs = [step.rows for evidence in result.evidence for step in evidence.steps if len(step.rows)]
    last_sent_ns = max((int(log.submit_ns.max()) for log in logs), default=began_ns)
    not_asked = frozenset(found.name for test in left_out(model_of(engine)) for found in test.findings)
    took_s, sent_s = (drive.now_ns - began_ns) / 1e9, (last_sent_ns - began_ns) / 1e9
    return Probed(result.findings, spent, took_s, sent_s, accounts(result), not_asked)


def scored(drive: str, *, kind: str | None, options: SuiteOptions, conditions: str | None) -> Scored:
    """Probes one drive, a seed or a profile's name or file, and marks what was found of what was looked
    for."""
    seeded = drive.isdigit()
    layer = "?"
    try:
        given = conditions_text(conditions or IDEAL, int(drive) if seeded else 1) or ""
        text = _native.random_profile(int(drive), kind) if seeded else read_profile(drive)[0]
        layer = text.partition('kind = "')[2].partition('"')[0]
        probed = probe_text(text, int(drive) if seeded else 1, options, given)
    except (SkylightError, _native.ProfileError) as error:
        return Scored(drive, layer, [], {}, {}, Probed([], 0.0, 0.0, 0.0), str(error))
    except Exception:  # noqa: BLE001 - a crash is the worst mark, and must not hide the others
        return Scored(drive, layer, [], {}, {}, Probed([], 0.0, 0.0, 0.0), traceback.format_exc())
    truth = true_findings(text, "drive.toml", given)
    truth = {name: row for name, row in truth.items() if name not in probed.not_asked}
    names = {finding.name for finding in probed.findings}
    part = bool(options.only) or options.quick
    marks = [mark for mark in score(probed.findings, truth) if not part or mark.name in names]
    why = {finding.name: finding.why for finding in probed.findings}
    held = holds(probed.findings, truth)
    if conditions is None:
        return Scored(drive, layer, marks, why, held, probed)
    met = Conditions.of(_native.conditions_check(given, "conditions"))
    hidden = frozenset(name for name, row in truth.items() if not row["measurable"])
    return Scored(drive, layer, marks, why, held, probed, conditions=met, out_of_reach=hidden)


def tell(result: Scored) -> None:
    """Prints the wrong and unknown findings of one drive."""
    if result.error is not None:
        print(f"{result.drive} ({result.kind}): failed: {result.error}", flush=True)
    for mark in result.marks:
        if mark.outcome != "right":
            why = result.why.get(mark.name, "no finding")
            print(
                f"{result.drive} ({result.kind}) {mark.name} {mark.outcome}: found {mark.found},"
                f" true {mark.true}, confidence {mark.confidence:.2f}; {why}",
                flush=True,
            )


def counted(results: Sequence[Scored]) -> dict[str, dict[str, int]]:
    """Outcomes by property, "all" among them."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"right": 0, "wrong": 0, "unknown": 0})
    for result in results:
        for mark in result.marks:
            counts[mark.name][mark.outcome] += 1
            counts["all"][mark.outcome] += 1
    return dict(counts)


def confusion(results: Sequence[Scored]) -> dict[str, dict[str, dict[str, int]]]:
    """For each property that is a word: how often a true word (a row) was found as a word (a column)."""
    tables: dict[str, dict[str, dict[str, int]]] = {}
    for result in results:
        for mark in result.marks:
            if mark.name in CONFUSED:
                true = "not there" if mark.true is None else str(mark.true)
                found = "unknown" if mark.found is None else str(mark.found)
                row = tables.setdefault(mark.name, {}).setdefault(true, {})
                row[found] = row.get(found, 0) + 1
    return tables


def calibration(results: Sequence[Scored]) -> dict[str, tuple[int, int]]:
    """For each property with intervals: how many contain the truth, and their number; "all" among them."""
    counts: dict[str, tuple[int, int]] = {}
    for result in results:
        for name, held in result.held.items():
            for each in (name, "all"):
                hits, total = counts.get(each, (0, 0))
                counts[each] = (hits + bool(held), total + 1)
    return counts


def show_tables(results: Sequence[Scored]) -> None:
    """Prints outcomes by property, the confusion matrices and the calibration."""
    print(f"\n{'property':26}{'right':>7}{'wrong':>7}{'unknown':>9}{'right %':>9}")
    for name, outcomes in counted(results).items():
        share = 100 * outcomes["right"] / sum(outcomes.values())
        numbers = f"{outcomes['right']:7}{outcomes['wrong']:7}{outcomes['unknown']:9}"
        print(f"{name:26}{numbers}{share:9.1f}")
    for name, table in confusion(results).items():
        found = sorted(
            {word for row in table.values() for word in row}, key=lambda word: (word == "unknown", word)
        )
        print(f"\n{name + ', true: found':26}" + "".join(f"{word:>14}" for word in found))
        for true, row in sorted(table.items()):
            print(f"{true:26}" + "".join(f"{row.get(word, 0):14}" for word in found))
    counts = calibration(results)
    if counts:
        print(f"\n{'intervals':26}{'hold':>7}{'of':>7}{'hold %':>9}")
    for name, (hits, total) in counts.items():
        print(f"{name:26}{hits:7}{total:7}{100 * hits / total:9.1f}")


def show(results: Sequence[Scored], *, quick: bool) -> bool:
    """Prints the tables and the totals; returns whether all targets are met."""
    show_tables(results)
    cpu = sorted(result.probed.cpu_seconds for result in results)
    print(f"\n{len(results)} drives; CPU s: median {cpu[len(cpu) // 2]:.1f}, most {cpu[-1]:.1f}")
    counts = counted(results)
    good = not any(result.error for result in results)
    types = counts.get("drive_type", {"right": 0, "wrong": 0, "unknown": 0})
    if quick:
        share = types["right"] / max(sum(types.values()), 1)
        print(f"type right {share:.2%} (asked {QUICK_RIGHT:.0%}), wrong {types['wrong']} (none)")
        in_time = show_time(results)
        return good and share >= QUICK_RIGHT and types["wrong"] == 0 and in_time
    whole = counts.get("all", types)
    total = max(sum(whole.values()), 1)
    right, wrong = whole["right"] / total, whole["wrong"] / total
    print(
        f"right {right:.2%} (asked {RIGHT:.1%}), wrong {wrong:.2%} (at most {WRONG:.1%}), type wrong"
        f" {types['wrong']} (none)"
    )
    return good and right >= RIGHT and wrong <= WRONG and types["wrong"] == 0 and show_intervals(results)


def show_in_conditions(results: Sequence[Scored], *, ideal: bool, quick: bool) -> bool:
    """Prints the outcomes by condition and finding, the calibration and the totals of what counts under
    conditions; returns whether all targets are met."""
    counted = [each for result in results for each in result.counted()]
    factors = ((f"{factor}: {level}", each) for (factor, level), each in tally.by_factor(counted).items())
    table, _ = tally.show(counted, ("condition, worst first", factors))
    whole, types = tally.of(counted), tally.of(each for each in counted if each.name == "drive_type")
    asked = RIGHT if ideal else RIGHT_IN_CONDITIONS
    if quick:
        asked = QUICK_RIGHT if ideal else 0.0
    right = (types if quick else whole).share("right")
    words = f"asked {asked:.1%}" if asked else "no share asked"
    print(
        f"\n{len(results)} drives, of what is measurable: right {whole.share('right'):.2%}"
        f"{'' if quick else f' ({words})'}, wrong {whole.share('wrong'):.2%} (at most {WRONG:.1%}),"
        f" unknown {whole.share('unknown'):.2%}; type"
        f"{f' right {right:.2%} ({words}),' if quick else ''} wrong {types.wrong} (none)"
    )
    good = right >= asked and whole.share("wrong") <= WRONG and types.wrong == 0
    in_time = show_time(results) if quick else True
    show_intervals(results)
    failed = sum(result.error is not None for result in results)
    if failed:
        print(f"{failed} probes failed")
    return good and in_time and not failed and all(each.calibrated for each in table)


def show_time(results: Sequence[Scored]) -> bool:
    """Prints the durations of quick probes and names those over a minute; returns whether there are none."""
    seconds = sorted(result.probed.device_seconds for result in results)
    print(
        f"device s: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f} (at most {QUICK_S:.0f})"
    )
    for result in results:
        if result.probed.device_seconds > QUICK_S:
            sent = result.probed.last_sent_seconds
            print(f"{result.drive}: {result.probed.device_seconds:.1f} s, last command sent at {sent:.1f} s")
    return all(result.probed.last_sent_seconds <= QUICK_S for result in results)


def show_bounds(results: Sequence[Scored]) -> bool:
    """Prints how many tests took no more than was printed before them, and names the others; returns whether
    there are none."""
    told = [(result, account) for result in results for account in result.probed.accounts]
    for result, account in told:
        if not account.within:
            print(
                f"{result.drive} {account.test}: {account.device_seconds:,.0f} s of"
                f" {account.planned.device_seconds:,.0f}, {account.bytes_written:,} B of"
                f" {account.planned.bytes_written:,}"
            )
    within = sum(account.within for _, account in told)
    print(f"device time and bytes within the printed bound: {within} of {len(told)}")
    return within == len(told)


def show_intervals(results: Sequence[Scored]) -> bool:
    """Prints the share of intervals that contain the truth; returns whether it meets the target."""
    hits, total = calibration(results).get("all", (0, 0))
    if total < FEWEST_INTERVALS:
        print(f"{total} intervals are too few to be judged ({FEWEST_INTERVALS})")
        return True
    print(f"intervals that hold the truth {hits / total:.1%} (asked {HOLD[0]:.0%} to {HOLD[1]:.0%})")
    return HOLD[0] <= hits / total <= HOLD[1]


def as_json(results: Sequence[Scored], *, quick: bool) -> str:
    """The results as JSON."""
    document = {
        "schema": 1,
        "quick": quick,
        "drives": [
            {
                "drive": result.drive,
                "kind": result.kind,
                "error": result.error,
                "device_seconds": result.probed.device_seconds,
                "cpu_seconds": result.probed.cpu_seconds,
                "conditions": None if result.conditions is None else asdict(result.conditions),
                "out_of_reach": sorted(result.out_of_reach),
                "plan": {account.test: account.to_json() for account in result.probed.accounts},
                "marks": [asdict(mark) | {"why": result.why.get(mark.name)} for mark in result.marks],
            }
            for result in results
        ],
        "properties": counted(results),
        "confusion": confusion(results),
        "intervals": {name: {"hold": hits, "of": of} for name, (hits, of) in calibration(results).items()},
        "measurable": tally.document([each for result in results for each in result.counted()]),
    }
    return json.dumps(document, indent=2)


def gathered(results: Iterable[Scored], quiet: bool) -> list[Scored]:
    """All results, each printed as soon as it is available."""
    told = []
    for result in results:
        if not quiet:
            tell(result)
        told.append(result)
    return told


def profiles_in(folder: str) -> list[str]:
    """The profiles of a folder by path; the shipped ones if no folder is given."""
    if not folder:
        return profile_names()
    paths = sorted(Path(folder).glob(f"*{PROFILE_SUFFIX}"))
    return [str(path.absolute()) for path in paths]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, metavar="S", help="random drives: the first seed")
    parser.add_argument("--n", type=int, default=1, metavar="N", help="and how many (default 1)")
    parser.add_argument(
        "--seeds", type=seeds_of, default=[], help='seeds of random drives: "7", "7,9", "1000-1099"'
    )
    parser.add_argument(
        "--profiles", nargs="?", const="", metavar="DIR",
        help="the profiles in a folder; without one, the shipped drives",
    )  # fmt: skip
    parser.add_argument("--kind", help="only random drives of this kind")
    parser.add_argument(
        "--conditions", metavar=f"{IDEAL}|{DRAWN}|FILE", help="what hosts meet besides the drives"
    )
    parser.add_argument("--only", default="", help="only these tests, comma separated, and what they need")
    parser.add_argument("--quick", action="store_true", help="the quick probe")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    arguments = parser.parse_args()
    arguments.drives = [str(seed) for seed in arguments.seeds]
    if arguments.seed is not None:
        arguments.drives += [str(seed) for seed in range(arguments.seed, arguments.seed + arguments.n)]
    if arguments.profiles is not None:
        arguments.drives += profiles_in(arguments.profiles)
        if not arguments.drives:
            parser.error(f"{arguments.profiles}: holds no profile (*{PROFILE_SUFFIX})")
    if not arguments.drives:
        parser.error("name drives with --seed and --n, --seeds or --profiles")
    return arguments


def main() -> int:
    """Scores the drives that the command line names."""
    arguments = parsed()
    only = tuple(name for name in arguments.only.split(",") if name)
    options = SuiteOptions(only=only, quick=arguments.quick)
    work = partial(scored, kind=arguments.kind, options=options, conditions=arguments.conditions)
    if arguments.jobs == 1:
        results = gathered(map(work, arguments.drives), arguments.json)
    else:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            results = gathered(pool.map(work, arguments.drives), arguments.json)
    if arguments.json:
        print(as_json(results, quick=arguments.quick))
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            return 0 if shown(results, arguments) else 1
    return 0 if shown(results, arguments) else 1


def shown(results: Sequence[Scored], arguments: argparse.Namespace) -> bool:
    """Prints all tables; returns whether the targets are met: under conditions, of what is measurable."""
    if arguments.conditions is None:
        good = show(results, quick=arguments.quick)
    else:
        show_tables(results)
        good = show_in_conditions(results, ideal=arguments.conditions == IDEAL, quick=arguments.quick)
    return show_bounds(results) and good


if __name__ == "__main__":
    sys.exit(main())
