"""Writes past the cliff beside nbdkit: how fast they are once the persistent cache is full.

With --timing none, beside nbdkit's file plugin: the same client, the same file system, in turns. Which of the
two goes first alternates, as the second one meets what the first one has left to be written back.

Before the cliff each run has a new image and fewer writes than fill its cache. Past the cliff the cache is
filled before each run by the writes that fill it with the fewest bytes: lone blocks, each of which takes a
slot of a journal; whole bands, in order, where each cache band is as large as a band; random blocks for the
logs of a zone. That it is full is seen by what the drive writes to its media during the run: more than the
host does, since it cleans. The amplification of each row is printed; of whole bands in order on emulated-
smr-3 it is 1, since these need no cleaning.

All writes go to the first GiBs of the drive, so the full cache is that of these bands and not of the whole
drive: 40 MiB of cache for each band of emulated-smr-1, the 20 logs of one zone of emulated-smr-3, all slots
of the journal of st5000as0011.

What invalidates results: another load on the machine (the ratio of every turn is printed), a file that does
not fit in memory, a file system that writes back while a run is measured.

``bench/serve_full_cache.py [--seconds S] [--turns N] [--json]``; exit code 1 when a row is below its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import nbdkit_comparison

GIB = 1 << 30
SIZE_BYTES = 2 * GIB
# fio's rw, block size, depth, and as many writes as the cache of each drive has room for.
LOADS = (("randwrite", "4k", 1, 20_000), ("randwrite", "4k", 32, 60_000), ("write", "1m", 4, 1_000))
# What fills the cache of the drive anew: fio's rw, block size, depth and how many writes.
FILLS = {
    "emulated-smr-1": ("write", "1m", 4, SIZE_BYTES >> 20),
    "emulated-smr-3": ("randwrite", "4k", 32, 110_000),
    "st5000as0011": ("randwrite", "4k", 1, 23_000),
}
# What a row must reach of nbdkit's rate.
BOUNDS = {"before": 1.0, "past": 0.5}


@dataclass(frozen=True)
class Row:
    """One load on one drive: medians of operations a second, ours and the peer's, ratios by turn."""

    drive: str
    cliff: str
    load: str
    ours: float
    peer: float
    ratio: float
    ratios: list[float]
    amplification: float


@contextmanager
def both(drive: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A new image of a drive and a new plain file, each served."""
    ours, theirs, plain, image = (folder / name for name in ("ours", "peer", "plain", f"{drive}.img"))
    nbdkit = nbdkit_comparison.nbdkit(plain, theirs, SIZE_BYTES)
    with (
        nbdkit_comparison.server(nbdkit_comparison.serve(drive, image, ours), ours),
        nbdkit_comparison.server(nbdkit, theirs),
    ):
        yield ours, theirs
    for path in (image, plain):
        path.unlink()


def rate(socket: Path, load: tuple[str, str, int, int], seconds: float | None) -> float:
    """Operations a second, of so many seconds or of as many writes as the load has."""
    kind, block, depth, count = load
    command = [
        *nbdkit_comparison.fio(socket, kind, block, depth, SIZE_BYTES),
        "--randrepeat=0",
        "--output-format=json",
    ]
    if seconds is None:
        command.append(f"--number_ios={count}")
    else:
        command += ["--time_based", f"--runtime={seconds}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["write"]
    return float(job["total_ios"]) / (float(job["runtime"]) / 1000)


def moved(socket: Path) -> tuple[int, int]:
    """Bytes that the host wrote and that the drive wrote to its media."""
    done = subprocess.run(
        [*nbdkit_comparison.SKYLIGHT, "status", f"unix:{socket}", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    image = json.loads(done.stdout)["drive"]["image"]
    return image["host_bytes"], image["media_bytes"]


def measure(socket: Path, load: tuple[str, str, int, int], seconds: float | None) -> tuple[float, float]:
    """Operations a second, and bytes to the media for each of the host."""
    host, media = moved(socket)
    per_second = rate(socket, load, seconds)
    host_after, media_after = moved(socket)
    return per_second, (media_after - media) / max(host_after - host, 1)


def in_turn(
    number: int, ours: Callable[[], tuple[float, float]], theirs: Callable[[], float]
) -> tuple[tuple[float, float], float]:
    """Measures both, ours first in even turns, and the peer first in odd ones."""
    if number % 2:
        peers = theirs()
        return ours(), peers
    return ours(), theirs()


def before_the_cliff(drive: str, load: tuple[str, str, int, int], folder: Path, turns: int) -> Row:
    """A load on new images and files."""
    runs = []
    for turn in range(turns):
        with both(drive, folder) as (ours, theirs):
            new = partial(measure, ours, load, None)
            runs.append(in_turn(turn, new, partial(rate, theirs, load, None)))
    return _row(drive, "before", load, runs)


def measure_full(
    drive: str, socket: Path, load: tuple[str, str, int, int], seconds: float
) -> tuple[float, float]:
    """The same with a full cache, right after it was filled: a drive that is left alone cleans."""
    rate(socket, FILLS[drive], None)
    os.sync()
    return measure(socket, load, seconds)


def past_the_cliff(drive: str, folder: Path, seconds: float, turns: int) -> Iterator[Row]:
    """Every load with a full cache."""
    whole = ("write", "1m", 4, SIZE_BYTES >> 20)
    with both(drive, folder) as (ours, theirs):
        for socket in (ours, theirs):
            rate(socket, whole, None)
        for load in LOADS:
            runs = []
            for turn in range(turns):
                full = partial(measure_full, drive, ours, load, seconds)
                runs.append(in_turn(turn, full, partial(rate, theirs, load, seconds)))
            yield _row(drive, "past", load, runs)


def _row(
    drive: str, cliff: str, load: tuple[str, str, int, int], runs: list[tuple[tuple[float, float], float]]
) -> Row:
    ratios = [us / them for (us, _), them in runs]
    ours, theirs = statistics.median(us for (us, _), _ in runs), statistics.median(them for _, them in runs)
    amplification = statistics.median(amplified for (_, amplified), _ in runs)
    text = f"{load[0]} {load[1]} depth {load[2]}"
    return Row(drive, cliff, text, ours, theirs, statistics.median(ratios), ratios, amplification)


def show(row: Row) -> None:
    """A line for people."""
    turns = " ".join(f"{ratio:.2f}" for ratio in row.ratios)
    print(
        f"{row.drive:14} {row.cliff:6} {row.load:21} {row.ours:9,.0f}/s  nbdkit {row.peer:9,.0f}/s"
        f"  ratio {row.ratio:5.2f} ({turns})  amplification {row.amplification:.1f}",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run of fio past the cliff")
    parser.add_argument("--turns", type=int, default=3, help="of ours and the peer's")
    parser.add_argument("--drives", default=",".join(FILLS), help="drives, separated by commas")
    parser.add_argument("--only", choices=("before", "past"), help="one side of the cliff")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder if not given")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    nbdkit_comparison.check_tools()
    rows: list[Row] = []
    for drive in options.drives.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            if options.only != "past":
                for load in LOADS:
                    rows.append(before_the_cliff(drive, load, Path(folder), options.turns))
                    show(rows[-1])
            if options.only != "before":
                for row in past_the_cliff(drive, Path(folder), options.seconds, options.turns):
                    rows.append(row)
                    show(row)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    slow = [row for row in rows if row.ratio < BOUNDS[row.cliff]]
    for row in slow:
        print(f"slow: {row.drive}, {row.cliff}, {row.load}: {row.ratio:.2f} of nbdkit", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
