"""Throughput of a served drive compared with nbdkit's file plugin: same client, same file system, in
alternation.

Invalid results: another load on the machine (alternation evens it out only if it is steady, and a server with
many threads gets more of a machine short of cores than one with few; the ratio of every alternation is
therefore printed, and the servers' CPU time per operation, which a load changes little), a file that does not
fit in memory, a file system that syncs slowly. A conventional drive with --timing none and its write cache on
does the same as the plugin: data in place, durable on a flush. The layers of shingled drives do more for each
write; their ratio is printed without a target.

``bench/serve.py [--seconds S] [--turns N] [--json]``; exit code 1 when the conventional layer is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import nbdkit_comparison

SIZE_BYTES = 1 << 30
DRIVES = {
    "conventional": "st4000nc001",
    "journaled": "st5000as0011",
    "set-associative": "emulated-smr-1",
    "fully-associative": "emulated-smr-3",
}
# fio's rw, block size, depth.
LOADS = (
    ("randread", "4k", 1),
    ("randwrite", "4k", 1),
    ("randread", "4k", 32),
    ("randwrite", "4k", 32),
    ("read", "1m", 4),
    ("write", "1m", 4),
)


@dataclass(frozen=True)
class Row:
    """One load on one drive: median operations per second, ours and the peer's, and the ratio of each
    alternation."""

    drive: str
    load: str
    ours: float
    peer: float
    ratio: float
    ratios: list[float]
    cpu_us: float
    peer_cpu_us: float


def fill(socket: Path) -> None:
    """Writes the whole range once, so that no run reads holes."""
    command = [*nbdkit_comparison.fio(socket, "write", "1m", 4, SIZE_BYTES), "--end_fsync=1"]
    subprocess.run(command, check=True, capture_output=True)


def rate(socket: Path, load: tuple[str, str, int], seconds: float) -> float:
    """Operations per second."""
    command = [*nbdkit_comparison.fio(socket, *load, SIZE_BYTES), "--time_based", f"--runtime={seconds}"]
    command += ["--randrepeat=0", "--output-format=json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(place: tuple[Path, int], load: tuple[str, str, int], seconds: float) -> tuple[float, float]:
    """Operations per second, and CPU time of the server per operation, us."""
    socket, process = place
    before = cpu_seconds(process)
    per_second = rate(socket, load, seconds)
    return per_second, (cpu_seconds(process) - before) * 1e6 / (per_second * seconds)


def compare(name: str, drive: str, folder: Path, seconds: float, turns: int) -> list[Row]:
    """Every load on a drive and on the peer."""
    ours, theirs = folder / "ours", folder / "peer"
    nbdkit = nbdkit_comparison.nbdkit(folder / "plain", theirs, SIZE_BYTES)
    serve = nbdkit_comparison.serve(drive, folder / f"{name}.img", ours)
    rows = []
    with (
        nbdkit_comparison.server(serve, ours) as our_process,
        nbdkit_comparison.server(nbdkit, theirs) as their_process,
    ):
        fill(ours)
        fill(theirs)
        our_place, peer_place = (ours, our_process), (theirs, their_process)
        for load in LOADS:
            runs = [
                (measure(our_place, load, seconds), measure(peer_place, load, seconds)) for _ in range(turns)
            ]
            ratios = [us[0] / them[0] for us, them in runs]
            medians = (
                statistics.median(us[0] for us, _ in runs),
                statistics.median(them[0] for _, them in runs),
            )
            cpu = statistics.median(us[1] for us, _ in runs), statistics.median(them[1] for _, them in runs)
            text = f"{load[0]} {load[1]} depth {load[2]}"
            rows.append(Row(name, text, *medians, statistics.median(ratios), ratios, *cpu))
            show(rows[-1])
    return rows


def show(row: Row) -> None:
    """Prints a row."""
    turns = " ".join(f"{ratio:.2f}" for ratio in row.ratios)
    print(
        f"{row.drive:18} {row.load:20} {row.ours:10,.0f}/s  nbdkit {row.peer:10,.0f}/s"
        f"  ratio {row.ratio:5.2f} ({turns})  CPU {row.cpu_us:.1f} us, nbdkit {row.peer_cpu_us:.1f} us",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    """Runs the loads that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run of fio")
    parser.add_argument(
        "--turns", type=int, default=3, help="number of alternations between ours and the peer"
    )
    parser.add_argument("--drives", default=",".join(DRIVES), help="layers, separated by commas")
    parser.add_argument("--folder", type=Path, help="folder of the files (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    nbdkit_comparison.check_tools()
    rows: list[Row] = []
    for name in options.drives.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            rows += compare(name, DRIVES[name], Path(folder), options.seconds, options.turns)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    slow = [row for row in rows if row.drive == "conventional" and row.ratio < 1]
    for row in slow:
        print(f"slower than nbdkit: {row.load}, {row.ratio:.2f} of it", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
