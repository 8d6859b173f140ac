"""`bench/foreign`: what the suite says of devices that are none of its models.

Probes each device of `bench/devices` and compares the findings with what an expert would say: right,
unknown or wrong. Prints every wrong finding with its reason, the outcomes by device and by finding, the
calibration table and every confident falsehood (wrong at a confidence of 0.9 or more). Exit code 1 if there
is one, 2 for wrong use.

    bench/foreign                              all of them
    bench/foreign ssd-cache raid0-cmr          some of them
    bench/foreign --list                       names, and what an expert would say
    bench/foreign --only drive_type --json
    bench/foreign --busy                       with a host that stops between commands and notices late
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

import tally
from devices.accepted_findings import Foreign, outcome
from devices.base import Host
from devices.catalogue import CATALOGUE
from skylight.errors import SkylightError
from skylight.findings import Finding
from skylight.probe.scoring import SCORED, Outcome
from skylight.probe.suite import SuiteOptions, run_suite

NAMES = {device.name: device for device in CATALOGUE}
JUDGED = frozenset(found.name for found in SCORED)


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings of one device with their outcomes, or why the probe failed."""

    device: str
    findings: list[tuple[Finding, Outcome]]
    error: str | None = None

    def counted(self) -> list[tally.Counted]:
        """The findings as they count."""
        return [
            tally.Counted(self.device, self.device, finding.name, said, finding.known, finding.confidence)
            for finding, said in self.findings
        ]


def judged(name: str, *, seed: int, options: SuiteOptions, busy: bool = False) -> Judged:
    """Probes one device. A suite that stops with a message has said nothing wrong; one that crashes has."""
    device: Foreign = NAMES[name]
    try:
        with tempfile.TemporaryDirectory(prefix="skylight-foreign-") as folder:
            made = device.make(seed)
            if busy:
                made.host = Host(np.random.default_rng(seed))
            result = run_suite(made, Path(folder) / "recording", options)
    except SkylightError as error:
        return Judged(name, [], str(error))
    except Exception:  # noqa: BLE001 - a crash is the worst mark, and must not hide the others
        return Judged(name, [], traceback.format_exc())
    answers = device.right_answers()
    scored = [finding for finding in result.findings if finding.name in JUDGED]
    return Judged(name, [(finding, cast(Outcome, outcome(finding, answers))) for finding in scored])


def show(results: Sequence[Judged]) -> bool:
    """Prints the tables; returns whether no probe failed and no falsehood is confident."""
    for result in results:
        if result.error is not None:
            print(f"{result.device}: failed: {result.error}")
        for finding, said in result.findings:
            if said == "wrong":
                print(
                    f"{result.device} {finding.name} wrong: found {finding.value}, confidence"
                    f" {finding.confidence:.4f}; {finding.why}"
                )
    counted = [each for result in results for each in result.counted()]
    devices = ((level, each) for (_, level), each in tally.by_factor(counted).items())
    _, falsehoods = tally.show(counted, ("device, worst first", devices), " (none)")
    whole = tally.of(counted)
    print(
        f"\n{len(results)} devices: right {whole.share('right'):.1%}, wrong {whole.share('wrong'):.1%},"
        f" unknown {whole.share('unknown'):.1%}"
    )
    return not falsehoods and not any(result.error for result in results)


def as_json(results: Sequence[Judged]) -> str:
    """The results as JSON."""
    counted = [each for result in results for each in result.counted()]
    devices = {
        result.device: {
            "error": result.error,
            "findings": {
                finding.name: {**finding.to_json(), "outcome": said} for finding, said in result.findings
            },
        }
        for result in results
    }
    return json.dumps({"schema": 1, "devices": devices, **tally.document(counted)}, indent=2)


def main() -> int:
    """Judges the devices that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("devices", nargs="*", metavar="DEVICE", help="names (default: all of them)")
    parser.add_argument("--list", action="store_true", help="print names, and what an expert would say")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the devices and the offsets")
    parser.add_argument("--only", default="", help="only these tests, comma separated, and what they need")
    parser.add_argument("--quick", action="store_true", help="the quick probe")
    parser.add_argument("--busy", action="store_true", help="a host that pauses and notices late")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    arguments = parser.parse_args()
    if arguments.list:
        for device in CATALOGUE:
            print(f"{device.name:22}{device.says}")
        return 0
    if strange := [name for name in arguments.devices if name not in NAMES]:
        parser.error(f"no foreign device is called {strange[0]!r} (devices: {', '.join(NAMES)})")
    only = tuple(name for name in arguments.only.split(",") if name)
    options = SuiteOptions(seed=arguments.seed, only=only, quick=arguments.quick)
    work = partial(judged, seed=arguments.seed, options=options, busy=arguments.busy)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(work, arguments.devices or NAMES))
    if arguments.json:
        print(as_json(results))
        falsehoods = tally.confident_falsehoods(each for result in results for each in result.counted())
        return 1 if falsehoods or any(result.error for result in results) else 0
    return 0 if show(results) else 1


if __name__ == "__main__":
    sys.exit(main())
