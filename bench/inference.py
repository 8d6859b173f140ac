"""The cost of inference: CPU seconds from a kept recording to its findings, by test, and the target.

Records each drive once with the full suite, then reads the recording and infers, as `skylight probe
recording:DIR` does, and takes the minimum of a few rounds, because other load only adds time. The seconds are
user and system CPU of one process. The import of the suite is listed separately: it is paid once for any
number of drives.

    python bench/inference.py
    python bench/inference.py --drives st8000as0011,1053     random drives by their seeds
    python bench/inference.py --recordings DIR,..            existing recordings

`--json` prints the rows as JSON; exit code 1 when a drive misses the target.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

BEFORE_IMPORT_S = time.process_time()

from skylight import _native  # noqa: E402 # the import is timed
from skylight.engines.sim import SimEngine, read_profile  # noqa: E402 # the import is timed
from skylight.evidence import TargetFacts  # noqa: E402 # the import is timed
from skylight.probe import suite  # noqa: E402 # the import is timed
from skylight.recording import Recording  # noqa: E402 # the import is timed

IMPORT_S = time.process_time() - BEFORE_IMPORT_S
ASKED_S = 2.0
ROUNDS = 3
DRIVES = ("st5000as0011", "emulated-smr-1")


def record(drive: str, folder: Path) -> None:
    """Measures a drive, a profile's name or a seed, with the full suite."""
    seeded = drive.isdigit()
    text = _native.random_profile(int(drive), None) if seeded else read_profile(drive)[0]
    sim = _native.SimDrive(text, "drive.toml", int(drive) if seeded else 1)
    facts = TargetFacts("sim", f"sim:{drive}", sim.size_bytes, sim.block_bytes)
    suite.run_suite(SimEngine(sim, facts), folder, suite.SuiteOptions())


def inferred(path: Path) -> dict[str, float]:
    """CPU seconds of reading a recording and of each test's inference."""
    spent = {"reading": 0.0}
    begin = time.process_time()
    recording = Recording.open(path)
    known = suite.nothing_known(recording)
    for test in suite.ALL_TESTS:
        kept = recording.evidence(test.name)
        read = time.process_time()
        spent["reading"] += read - begin
        if kept is not None:
            known = known.with_more(test.infer(kept, known))
        begin = time.process_time()
        spent[test.name] = begin - read
    return spent


def total(spent: dict[str, float]) -> float:
    """The sum."""
    return sum(spent.values())


def main() -> int:
    """Prints a row per drive; returns 1 if one misses the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--drives", default="", help=f"profiles or seeds, comma separated (default {DRIVES})")
    parser.add_argument("--recordings", default="", help="directories of recordings instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    kept = [Path(name) for name in arguments.recordings.split(",") if name]
    drives = [name for name in arguments.drives.split(",") if name] or ([] if kept else list(DRIVES))
    rows = {}
    with tempfile.TemporaryDirectory(prefix="skylight-bench-") as folder:
        for drive in drives:
            record(drive, Path(folder) / drive)
        for path in [*kept, *(Path(folder) / drive for drive in drives)]:
            rounds = [inferred(path) for _ in range(ROUNDS)]
            rows[str(path) if path in kept else path.name] = min(rounds, key=total)
    if arguments.json:
        shown = {name: {"total": total(spent), **spent} for name, spent in rows.items()}
        print(json.dumps({"asked_s": ASKED_S, "import_s": IMPORT_S, "drives": shown}, indent=2))
    else:
        for name, spent in rows.items():
            most = sorted(spent.items(), key=lambda part: -part[1])
            parts = ", ".join(f"{part} {each:.2f}" for part, each in most if each >= 0.005)
            print(f"inference, {name:24} {total(spent):5.2f} s of CPU (target {ASKED_S}): {parts}")
        print(f"importing the suite {' ' * 15} {IMPORT_S:5.2f} s of CPU")
    return 0 if all(total(spent) < ASKED_S for spent in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
