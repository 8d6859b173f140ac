"""The overhead of `--timing native`: 4 KiB reads of native blocks through a served drive, and of the same
blocks of the disk below, in alternation.

The disk below is a loop device over a served st4000nc001: once in model time, in which a read takes as long
as on the disk, and once without delays, which hide nothing of the overhead. The drive on it is
emulated-smr-1, whose blocks are native until they are written. fio reads both with one seed, and so in one
order, and with another seed in each alternation.

Invalid results: another load on the machine, since a read through the server wakes two more threads
(``nice -n -15`` removes most of that), and few reads: those of the disk in model time differ by seeks and
rotation, a hundred times more than by the overhead. The difference of every alternation is therefore printed.
Needs root, for the loop device.

``bench/passthrough_overhead.py [--seconds S] [--turns N] [--json]``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from skylight.reproduce.swd.attached_drive import SKYLIGHT, disk, process

BELOW, ABOVE = "st4000nc001", "emulated-smr-1"
# From the start of the drive: far from a cache at the ID, and long enough that no block is read twice.
READ_BYTES = 3 * 10**12
DEPTHS = (1, 4, 32)
# Offset of the superblock field with the first byte of the platters (docs/formats.md).
PLATTERS_AT = 88


@dataclass(frozen=True)
class Row:
    """Latencies, us: medians over the alternations; the difference of the medians in each, and the ratio."""

    below: str
    depth: int
    direct_p50_us: float
    through_p50_us: float
    direct_p99_us: float
    through_p99_us: float
    added_us: list[float]
    ratio: float


def latencies(place: list[str], seed: int, depth: int, seconds: float) -> tuple[float, float]:
    """Median and p99 of random reads, us."""
    command = ["fio", "--name=x", "--rw=randread", "--bs=4k", f"--iodepth={depth}", f"--randseed={seed}"]
    command += ["--norandommap", f"--size={READ_BYTES}", "--time_based", f"--runtime={seconds}", *place]
    command += ["--output-format=json", "--percentile_list=50:99"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]["clat_ns"]["percentile"]
    return found["50.000000"] / 1e3, found["99.000000"] / 1e3


def compare(folder: Path, timing: str, seconds: float, turns: int) -> list[Row]:
    """Reads the same blocks directly and through the server, over a disk with this timing."""
    socket, rows = folder / "above.sock", []
    with disk(BELOW, folder, "--timing", timing) as device:
        serve = [*SKYLIGHT, "serve", ABOVE, "--on", str(device), "--destroy-data", "--timing", "native"]
        with process([*serve, "--nbd", f"unix:{socket}", "--write-cache", "on", "--quiet"], socket):
            with device.open("rb") as opened:
                platters = int.from_bytes(opened.read(512)[PLATTERS_AT : PLATTERS_AT + 8], "little")
            direct = ["--ioengine=libaio", "--direct=1", f"--filename={device}", f"--offset={platters}"]
            through = ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}"]
            for depth in DEPTHS:
                pairs = []
                for turn in range(turns):
                    order = [direct, through] if turn % 2 == 0 else [through, direct]
                    found = [latencies(path, 2 * turn + 1, depth, seconds) for path in order]
                    pairs.append(found if turn % 2 == 0 else found[::-1])
                rows.append(_row(timing, depth, pairs))
                show(rows[-1])
    return rows


def _row(timing: str, depth: int, pairs: list[list[tuple[float, float]]]) -> Row:
    def median(way: int, which: int) -> float:
        return statistics.median(pair[way][which] for pair in pairs)

    added = [through[0] - direct[0] for direct, through in pairs]
    ratio = statistics.median(through[0] / direct[0] for direct, through in pairs)
    half, most = (median(0, 0), median(1, 0)), (median(0, 1), median(1, 1))
    return Row(f"{BELOW}, {timing}", depth, *half, *most, added, ratio)


def show(row: Row) -> None:
    """Prints a row."""
    added = " ".join(f"{value:+.0f}" for value in row.added_us)
    print(
        f"{row.below:20} depth {row.depth}"
        f"  p50 {row.direct_p50_us:7.0f} us, through {row.through_p50_us:7.0f} us"
        f"  p99 {row.direct_p99_us:7.0f}, {row.through_p99_us:7.0f}"
        f"  added {statistics.median(row.added_us):+.0f} us ({added})  ratio {row.ratio:.3f}",
        flush=True,
    )


def main() -> int:
    """Compares both, as the command line asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run of fio")
    parser.add_argument("--turns", type=int, default=4, help="number of alternations")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    missing = [tool for tool in ("fio", "nbdfuse", "losetup") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not installed: run scripts/install-test-tools.sh")
    if os.geteuid() != 0:
        sys.exit("loop devices are made by root: run this as root")
    rows: list[Row] = []
    for timing in ("model", "none"):
        with tempfile.TemporaryDirectory() as folder:
            rows += compare(Path(folder), timing, options.seconds, options.turns)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
