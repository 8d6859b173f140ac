"""Model-time fidelity of a served drive: fio's latencies compared with the model's, request by request.

Each drive is served with --timing model and a log of the model's latency of every request. fio measures the
same requests from outside: mixed reads and writes over the whole drive, at depths 1 and 4. The difference is
the overhead of serving: two socket hops, and lateness. One more drive is the st4000nc001 with a
volatile cache of 128 MiB, filled with random 4 KiB writes first: the costs of a read must not grow with what
is cached. The control is nbdkit with its delay filter, which answers every request after 10 ms: what its
client sees above that is the machine's own lateness, and no server can be better for long.

Invalid results: another load on the machine; no second processor for the client; an image on a disk that
syncs more slowly than the model's drive writes (images lie in memory, in /dev/shm, unless --folder is given).

``bench/served_latency.py [--seconds S] [--drives A,B] [--json]``; exit code 1 when a drive's median is above
150 us or its 99th percentile above 1 ms, whatever the control says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import nbdkit_comparison
from skylight.reproduce.swd.attached_drive import SKYLIGHT, process

MEDIAN_US, P99_US = 150.0, 1000.0
# The st4000nc001 with a volatile cache that is full of single blocks: it takes minutes to empty that.
FULL_CACHE = "full-cache"
FULL_CACHE_BYTES = 128 << 20
# Some hundred a second leave it while nobody writes.
FULL_SHARE = 0.95
REAL, PUBLISHED = (
    ("st4000nc001", "st5000as0011", "st8000as0011"),
    ("emulated-smr-1", "emulated-smr-2", "emulated-smr-3"),
)
DRIVES = (*REAL, *PUBLISHED, FULL_CACHE)
CONTROL = "control"
CONTROL_MS = 10
CONTROL_BYTES = 1 << 30
DEPTHS = (1, 4)
# fio does not end a run of less.
LEAST_S = 2.0
MEMORY = Path("/dev/shm")
# fio's names for directions in its logs.
_OPS = ("read", "write", "trim")

# Operation, first byte, bytes.
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Row:
    """One drive at one depth, or at all depths: the client's latency minus the model's, us."""

    drive: str
    depth: str
    requests: int
    least_us: float
    median_us: float
    p99_us: float
    most_us: float
    model_median_us: float


def row_of(drive: str, depth: str, pairs: list[tuple[float, float]]) -> Row:
    """The row of requests: pairs of the client's and the model's latency, us."""
    both = np.array(pairs)
    above = both[:, 0] - both[:, 1]
    least, median, p99, most = (float(np.quantile(above, part)) for part in (0, 0.5, 0.99, 1))
    return Row(drive, depth, len(pairs), least, median, p99, most, float(np.median(both[:, 1])))


def show(row: Row) -> None:
    """Prints a row."""
    print(
        f"{row.drive:16} depth {row.depth:3} {row.requests:7} requests  above the model: least"
        f" {row.least_us:7.1f}  median {row.median_us:7.1f}  p99 {row.p99_us:8.1f}"
        f"  most {row.most_us:9.1f} us"
        f"  (model's median {row.model_median_us / 1000:.2f} ms)",
        flush=True,
    )


def load(socket: Path, depth: int, seconds: float, seed: int, folder: Path) -> list[tuple[Key, float]]:
    """Issues reads and writes; returns each with its latency, us, in completion order."""
    prefix = folder / f"fio-{depth}"
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", "--rw=randrw"]
    command += ["--bssplit=4k/60:16k/20:64k/20", f"--iodepth={depth}", "--norandommap", "--time_based"]
    command += [f"--runtime={seconds}", "--randrepeat=1", f"--randseed={seed}", "--output-format=json"]
    command += [f"--write_lat_log={prefix}", "--log_offset=1"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    rows = []
    for text in Path(f"{prefix}_lat.1.log").read_text(encoding="ascii").splitlines():
        _, latency_ns, direction, length, offset = (int(word) for word in text.split(",")[:5])
        rows.append(((_OPS[direction], offset, length), latency_ns / 1000))
    return rows


def without_drained(pairs: list[tuple[float, float]], depth: int) -> list[tuple[float, float]]:
    """The requests that fio timed one by one. When its time is over it waits for all that are outstanding,
    and says of each that it took until the last of them was done."""
    return pairs[: max(len(pairs) - depth, 0)]


def modelled(lines: list[str]) -> dict[Key, deque[float]]:
    """The model's latencies of requests, us, by request in completion order."""
    found: dict[Key, deque[float]] = defaultdict(deque)
    for text in lines:
        _, op, offset, length, _, result, _, model_us = text.split()
        if result != "ok" or model_us == "-":
            sys.exit(f"the server's log has a request that no model timed: {text}")
        found[op, int(offset), int(length)].append(float(model_us))
    return found


def pairs_of(client: list[tuple[Key, float]], lines: list[str]) -> list[tuple[float, float]]:
    """The client's and the model's latency of every request, us."""
    model = modelled(lines)
    pairs = []
    for key, latency_us in client:
        if not model[key]:
            sys.exit(f"the server's log does not have {key}, which the client was answered")
        pairs.append((latency_us, model[key].popleft()))
    left = sum(len(times) for times in model.values())
    if left:
        sys.exit(f"the server's log has {left} requests that the client did not measure")
    return pairs


def drive_status(image: Path) -> dict[str, Any]:
    """What the server says of the drive."""
    done = subprocess.run(
        [*SKYLIGHT, "status", str(image), "--json"], check=True, capture_output=True, text=True
    )
    drive: dict[str, Any] = json.loads(done.stdout)["drive"]
    return drive


def lateness(image: Path) -> str:
    """The server's own histogram: replies by lateness in powers of two, us."""
    counts = drive_status(image)["lateness"]["log2_us"]
    parts = [f"<{1 << power}: {count}" for power, count in enumerate(counts) if count]
    return "replies by lateness, us: " + "  ".join(parts)


def full_cache_profile(folder: Path) -> Path:
    """A profile with a volatile cache that takes any number of single blocks."""
    text = files("skylight.profiles").joinpath("st4000nc001.toml").read_text(encoding="utf-8")
    section = "[interface]\n"
    if section not in text or "write_cache" in text:
        sys.exit("the profile st4000nc001 is not as this bench expects it")
    changed = text.replace(section, f'{section}write_cache = "128 MiB"\nwrite_cache_on = true\n')
    path = folder / "full-cache.toml"
    path.write_text(changed, encoding="utf-8")
    return path


def fill_cache(socket: Path, image: Path, seed: int, folder: Path) -> None:
    """Random 4 KiB writes as fast as they are answered, until the volatile cache is full."""
    command = ["fio", "--name=fill", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}"]
    command += ["--rw=randwrite", "--bs=4k", "--iodepth=32", "--time_based", "--runtime=20"]
    command += ["--randrepeat=1", f"--randseed={seed}"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    cached, full = drive_status(image)["volatile_writes"], FULL_CACHE_BYTES // 4096
    print(f"{'':16} {cached} of {full} writes of 4 KiB in the volatile cache", flush=True)
    if cached < FULL_SHARE * full:
        sys.exit("the volatile cache is not full, so its row would mean nothing")


def control(folder: Path, seconds: float, seed: int) -> list[Row]:
    """As `measure`, for the peer: a row for each depth, and one for all of them."""
    socket, rows, every = folder / "s", [], []
    with nbdkit_comparison.server(nbdkit_comparison.delayed(socket, CONTROL_BYTES, CONTROL_MS), socket):
        for depth in DEPTHS:
            client = load(socket, depth, seconds / len(DEPTHS), seed + depth, folder)
            pairs = [(latency_us, CONTROL_MS * 1000.0) for _, latency_us in client]
            pairs = without_drained(pairs, depth)
            every += pairs
            rows.append(row_of(CONTROL, str(depth), pairs))
            show(rows[-1])
    rows.append(row_of(CONTROL, "all", every))
    show(rows[-1])
    return rows


def measure(drive: str, folder: Path, seconds: float, seed: int) -> list[Row]:
    """A row for each depth, and one for all of them; `seconds` in all."""
    socket, log, image = folder / "s", folder / "log", folder / f"{drive}.img"
    profile = str(full_cache_profile(folder)) if drive == FULL_CACHE else drive
    command = [*SKYLIGHT, "serve", profile, "--image", str(image), "--nbd", f"unix:{socket}"]
    command += ["--timing", "model", "--quiet", "--log", str(log)]
    rows, every, seen = [], [], 0
    with process(command, socket):
        if drive == FULL_CACHE:
            fill_cache(socket, image, seed, folder)
            # The server logs a line after it has sent the reply.
            time.sleep(0.5)
            seen = len(log.read_text(encoding="ascii").splitlines())
        for depth in DEPTHS:
            client = load(socket, depth, seconds / len(DEPTHS), seed + depth, folder)
            # The server logs a line after it has sent the reply.
            time.sleep(0.5)
            lines = log.read_text(encoding="ascii").splitlines()
            pairs = without_drained(pairs_of(client, lines[seen:]), depth)
            seen = len(lines)
            every += pairs
            rows.append(row_of(drive, str(depth), pairs))
            show(rows[-1])
        rows.append(row_of(drive, "all", every))
        show(rows[-1])
        print(f"{'':16} {lateness(image)}", flush=True)
    return rows


def main() -> int:
    """Runs the drives that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="of load, control included")
    parser.add_argument("--drives", default=",".join(DRIVES), help="names, separated by commas")
    parser.add_argument("--seed", type=int, default=1, help="of the load")
    parser.add_argument("--folder", type=Path, help="folder of the images, instead of memory")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, after the lines")
    options = parser.parse_args()
    nbdkit_comparison.check_tools()
    drives = options.drives.split(",")
    share_s = options.seconds / (2 * len(drives))
    if share_s < LEAST_S * len(DEPTHS):
        sys.exit(f"--seconds {options.seconds:g}: give at least {2 * LEAST_S * len(DEPTHS) * len(drives):g}")
    memory = MEMORY if MEMORY.is_dir() else None
    print(f"seed {options.seed}", flush=True)
    rows: list[Row] = []
    for drive in drives:
        with tempfile.TemporaryDirectory(dir=options.folder or memory) as folder:
            rows += control(Path(folder), share_s, options.seed)
            rows += measure(drive, Path(folder), share_s, options.seed)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    whole = [row for row in rows if row.depth == "all"]
    late = []
    # Each drive follows its control.
    for machine, row in zip(whole[::2], whole[1::2], strict=True):
        if row.median_us > MEDIAN_US or row.p99_us > P99_US:
            late.append(row)
            print(
                f"not the model's time: {row.drive}, median {row.median_us:.0f} us, 99th percentile"
                f" {row.p99_us:.0f} us above it (at most {MEDIAN_US:.0f} and {P99_US:.0f}; the control right"
                f" before it {machine.median_us:.0f} and {machine.p99_us:.0f})",
                file=sys.stderr,
            )
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
