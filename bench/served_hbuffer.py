"""Row H4 on a served drive: streams written directly and with the paper's policy, migration included.

A client writes to 200 zones of a served st8000as0022 in turn, one write at a time, as row H4 of
``skylight reproduce hasmr`` does in virtual time, and waits until the host buffer has moved everything home.
The drive is in model time, so seconds are those of the model while the server keeps up: its lateness is
printed.

What invalidates results: a machine too busy for the server to keep up.

``bench/served_hbuffer.py [--size-kib N] [--rounds N] [--json]``; exit code 1 unless the time with the
buffer is the shorter one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from nbd_client import NbdClient
from serving import Served

DRIVE = "st8000as0022"
STREAMS = 200
"""Of row H4: more than the drive can have zones open."""
ZONE_BYTES = 256 << 20
FIRST_ZONE = 62
"""The first home zone with a write pointer: two of the drive's 64 conventional zones have the checkpoints."""
POLL_S = 0.02


@dataclass(frozen=True)
class Took:
    """How long a job took, s: its writes, and moving data home; the 99th percentile of lateness, us."""

    write_s: float
    migration_s: float
    late_us: int

    @property
    def total_s(self) -> float:
        """Both."""
        return self.write_s + self.migration_s


def job(policy: str, size: int, rounds: int) -> Took:
    """The streams' writes with a policy, on a new drive."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Served(Path(folder), DRIVE, "--timing", "model", "--hbuffer", policy) as served,
    ):
        client: NbdClient = served.client()
        data = bytes(size)
        began = time.monotonic()
        for at in range(0, rounds * size, size):
            for stream in range(STREAMS):
                client.write((FIRST_ZONE + stream) * ZONE_BYTES + at, data)
        written = time.monotonic()
        client.flush()
        while (drive := served.status()["drive"])["hbuffer"]["fill"]["dirty_zones"]:
            time.sleep(POLL_S)
        return Took(written - began, time.monotonic() - written, drive["lateness"]["p99_us"])


def main() -> int:
    """Prints both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size-kib", type=int, default=64, help="of a write")
    parser.add_argument("--rounds", type=int, default=10, help="writes of each stream")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    options = parser.parse_args()
    took = {
        policy: job(policy, options.size_kib << 10, options.rounds) for policy in ("direct", "open-zones")
    }
    ratio = took["open-zones"].total_s / took["direct"].total_s
    if options.json:
        print(json.dumps({"jobs": {name: asdict(one) for name, one in took.items()}, "ratio": ratio}))
    else:
        for name, one in took.items():
            print(
                f"{name}: {one.write_s:.1f} s of writes, {one.migration_s:.1f} s of migration, "
                f"99 % of answers late by {one.late_us} us at most"
            )
        print(f"with the buffer over directly: {ratio:.2f}")
    return 0 if ratio < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
