"""dm-zoned beside the H-Buffer, on the zones of the same emulated host-managed drive.

dm-zoned runs in a guest, on zones in memory, and the kernel says what it sends to them. These commands go
to the emulated drive, one at a time (`dm_zoned_trace`), so its time is that of the same platters as the
H-Buffer's. Both have as many zones to buffer writes: dm-zoned conventional ones, the H-Buffer its log.
Zones that a workload writes at random were full before, in sequential zones; the time of a run is that of
the host's commands and of all cleaning behind them. As a control the same commands go to conventional zones
without dm-zoned, where its zones have space for all: what these zones cost by themselves.

What invalidates results: how dm-zoned's own copying comes between the host's commands is the guest's, whose
zones take no time. That changes which command waits, and little of the sums. All else has a fixed seed or
is the model's.

``bench/dm_zoned.py [--workload NAME ..] [--traces FOLDER] [--json]``; traces that a folder has are not
recorded again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np

from burn_in.processes import BurnInError
from dm_zoned_trace import Layout, Replayed, Sent, TraceError, replayed, sent
from hbuffer import (
    FILL_BYTES,
    MEMORY_BYTES,
    Host,
    Result,
    Work,
    measured,
    mixed,
    random_writes,
    streams,
)
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.errors import SkylightError
from skylight.evidence import Op
from zoned_guest.boot import RESULTS, boot, said_in
from zoned_guest.shared import PACKAGES

DRIVE = "wsh722020al"
SEED = 1
"""Of the drive, as the buffered ones have it."""
POLICIES = ("direct", "buffer", "open-zones", "adaptive")
META_ZONES = 2
"""A set each: enough for hundreds of zones."""
MORE_ZONES = 48
"""Sequential zones beside those that a workload writes: dm-zoned's reserve, and as many as it cleans to."""


@dataclass(frozen=True)
class Case:
    """A workload, and how many zones there are to buffer its writes."""

    work: Callable[[Host], Work]
    buffer_zones: int


CASES: Final[dict[str, Case]] = {
    "20 streams": Case(streams(20), 100),
    "200 streams": Case(streams(200), 100),
    "200 streams, 300 to buffer": Case(streams(200), 300),
    "4 KiB, 8 zones": Case(random_writes(8, 100_000), 100),
    "mixed 70/30, 8 zones": Case(mixed(8), 100),
}
"""By name; 100 zones to buffer, of the paper's case study, unless the name says otherwise. Those in which a
host waits are left out: the guest's commands come one after the other. So are larger ones: with 64 full zones
the guest had not ended after half an hour."""


def recorded(name: str, case: Case, work: Work, zone_bytes: int, folder: Path) -> Path:
    """The events of a case, from a guest unless the folder has them."""
    # The guest has the host's files, and a working directory of its own.
    run = folder.resolve() / "".join(letter if letter.isalnum() else "-" for letter in name)
    events = run / "share" / "events"
    if (run / "share" / RESULTS).exists():
        return events
    # Of a guest that did not come to its end.
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    is_write = work.op == int(Op.WRITE)
    rows = zip(work.offset.tolist(), work.size.tolist(), is_write.tolist(), strict=True)
    (run / "rows").write_bytes(b"".join(struct.pack("<QIB", *row) for row in rows))
    zones = int(work.offset.max()) // zone_bytes + 1
    job = {
        "zone_bytes": zone_bytes, "meta": META_ZONES, "cache": case.buffer_zones,
        "sequential": zones + MORE_ZONES, "full_chunks": work.full_zones.tolist(),
        "rows": str(run / "rows"), "events": "/skylight-guest/events",
    }  # fmt: skip
    (run / "job.json").write_text(json.dumps(job))
    step = {"name": name, "tool": [sys.executable, "-m", "zoned_guest.dm_zoned", str(run / "job.json")]}
    boot(run, PACKAGES, [step], ())
    said = said_in(run)[name]
    if said.code:
        (run / "share" / RESULTS).unlink()
        raise BurnInError(f"{name}: {said.err}")
    return events


def summed_up(name: str, host: str, work: Work, took: Replayed) -> Result:
    """A row of the table."""
    is_write = work.op == int(Op.WRITE)
    waits = took.took_ns[is_write] / 1e6
    p50, p99, p999 = np.percentile(waits, (50, 99, 99.9))
    return Result(
        DRIVE, name, host,
        write_s=took.work_ns / 1e9, migration_s=took.after_ns / 1e9, idle_migration_s=0.0,
        amplification=took.written_bytes / int(work.size[is_write].sum(dtype=np.int64)),
        p50_ms=float(p50), p99_ms=float(p99), p999_ms=float(p999), longest_ms=float(waits.max()),
        direct=0.0, drive_cache=0.0, buffer=0.0,
    )  # fmt: skip


def of_dm_zoned(name: str, case: Case, work: Work, events: Path) -> Result:
    """What the recorded commands take on the drive."""
    drive, zone_bytes, first = new_drive()
    moved = META_ZONES + case.buffer_zones
    places = Layout(zone_bytes, moved, first - moved)
    devices = json.loads(events.with_suffix(".devices").read_text())
    with events.open() as lines:
        trace = sent(lines, devices["zones"], devices["disk"], places)
    if len(trace.queued) != len(work.op):
        raise TraceError(
            f"{name}: {len(trace.queued)} commands are in the trace, and {len(work.op)} were sent"
        )
    full = (first + np.arange(len(work.full_zones), dtype=np.uint64)) * np.uint64(zone_bytes)
    step = np.arange(0, zone_bytes, FILL_BYTES, dtype=np.uint64)
    at = (full[:, None] + step).astype(np.uint64).ravel()
    if len(at):
        op, size = np.full(len(at), int(Op.WRITE), np.uint8), np.full(len(at), FILL_BYTES, np.uint32)
        drive.run(op, at, size, 1)
    return summed_up(name, "dm-zoned", work, replayed(drive, trace))


def in_conventional(name: str, work: Work) -> Result:
    """A control: the workload in conventional zones, behind those of the metadata, without host software."""
    drive, zone_bytes, _ = new_drive()
    count = len(work.op)
    offset = work.offset + np.uint64(META_ZONES * zone_bytes)
    trace = Sent(work.op, offset, work.size, np.arange(count), np.arange(1, count + 1), count)
    return summed_up(name, "conventional zones", work, replayed(drive, trace))


def new_drive() -> tuple[_native.SimDrive, int, int]:
    """A drive, the bytes of its zones, and the number of its first sequential one."""
    text, origin = read_profile(DRIVE)
    drive = _native.SimDrive(text, origin, SEED)
    layout = drive.zone_layout()
    if layout is None:
        raise TraceError(f"{DRIVE} has no zones")
    return drive, layout["zone_bytes"], layout["conventional_zones"]


HEADS = ("workload", "host", "total, s", "write", "migration", "WA", "p50, ms", "p99", "p99.9", "longest")


def markdown(results: Sequence[Result]) -> str:
    """The table."""
    rows = [HEADS, tuple("---" for _ in HEADS)]
    for result in results:
        waits = (result.p50_ms, result.p99_ms, result.p999_ms, result.longest_ms)
        rows.append((
            result.workload, result.policy,
            *(f"{number:,.1f}" for number in (result.total_s, result.write_s, result.migration_s)),
            f"{result.amplification:.3g}", *(f"{w:,.3g}" if w < 1000 else f"{w:,.0f}" for w in waits),
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    """Makes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", action="append", choices=list(CASES))
    parser.add_argument("--traces", type=Path, help="where the traces are kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    text, origin = read_profile(DRIVE)
    host = Host(_native.BufferedDrive(text, origin, "direct", 100, MEMORY_BYTES))
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.workload or CASES:
            case = CASES[name]
            work = case.work(host)
            events = recorded(name, case, work, host.zone_bytes, options.traces or Path(scratch))
            rows = [of_dm_zoned(name, case, work, events)]
            if int(work.offset.max()) // host.zone_bytes < case.buffer_zones:
                rows.append(in_conventional(name, work))
            rows += (measured(DRIVE, name, work, policy, case.buffer_zones) for policy in POLICIES)
            print(markdown(rows), file=sys.stderr, flush=True)
            results += rows
    numbers = [asdict(result) | {"total_s": result.total_s} for result in results]
    print(json.dumps(numbers, indent=1) if options.json else markdown(results))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (SkylightError, TraceError, BurnInError) as error:
        print(f"bench/dm_zoned.py: {error}", file=sys.stderr)
        sys.exit(3)
