"""The cost of a probe: CPU seconds of all of it, and from its recording to its findings, by test, and the
targets.

Probes each drive once with the full suite and its report, as a process of its own (`skylight probe`), then
reads the recording and infers, as `skylight probe recording:DIR` does, and takes the minimum of a few rounds,
because other load only adds time. The seconds are user and system CPU of one process. The import of the suite
is listed separately: it is part of a probe, and paid once for any number of recordings.

    python bench/probe_cpu.py
    python bench/probe_cpu.py --drives st8000as0011,1053     random drives by their seeds
    python bench/probe_cpu.py --recordings DIR,..            existing recordings

`--json` prints the rows as JSON; exit code 1 when a drive misses a target.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BEFORE_IMPORT_S = time.process_time()

from skylight import _native  # noqa: E402 # the import is timed
from skylight.probe import suite  # noqa: E402 # the import is timed
from skylight.recording import RECORDING_DIR, Recording  # noqa: E402 # the import is timed

IMPORT_S = time.process_time() - BEFORE_IMPORT_S
ASKED_S = 2.0
PROBE_ASKED_S = 15.0
ROUNDS = 3
DRIVES = ("st5000as0011", "emulated-smr-1")


def probed(drive: str, folder: Path) -> float:
    """Probes a drive, a profile's name or a seed, into a folder; CPU seconds of the process."""
    target = drive
    if drive.isdigit():
        profile = folder.with_suffix(".toml")
        profile.write_text(_native.random_profile(int(drive), None))
        target = str(profile)
    seed = drive if drive.isdigit() else "1"
    command = [
        sys.executable,
        "-m",
        "skylight",
        "probe",
        f"sim:{target}",
        "--seed",
        seed,
        "--out",
        str(folder),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
        probes = {drive: probed(drive, Path(folder) / drive) for drive in drives}
        recordings = {drive: Path(folder) / drive / RECORDING_DIR for drive in drives}
        for name, path in {**{str(path): path for path in kept}, **recordings}.items():
            rounds = [inferred(path) for _ in range(ROUNDS)]
            rows[name] = min(rounds, key=total)
    if arguments.json:
        shown = {name: {"total": total(spent), **spent} for name, spent in rows.items()}
        asked = {"asked_s": ASKED_S, "probe_asked_s": PROBE_ASKED_S, "import_s": IMPORT_S}
        print(json.dumps({**asked, "drives": shown, "probes": probes}, indent=2))
    else:
        for name, spent_s in probes.items():
            print(f"probe with report, {name:16} {spent_s:5.2f} s of CPU (target {PROBE_ASKED_S})")
        for name, spent in rows.items():
            most = sorted(spent.items(), key=lambda part: -part[1])
            parts = ", ".join(f"{part} {each:.2f}" for part, each in most if each >= 0.005)
            print(f"inference, {name:24} {total(spent):5.2f} s of CPU (target {ASKED_S}): {parts}")
        print(f"importing the suite {' ' * 15} {IMPORT_S:5.2f} s of CPU")
    in_time = all(spent_s < PROBE_ASKED_S for spent_s in probes.values())
    return 0 if in_time and all(total(spent) < ASKED_S for spent in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
