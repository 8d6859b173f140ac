"""Whether `skylight probe` finds the same on a served drive as on the drive in virtual time.

Each drive is served with --timing model, made a block device by nbdfuse and a loop device, and probed with
--quick --destroy-data; the same drive is probed in virtual time as well. Drive type and cache medium must be
the same.

A loop device does not report a volatile cache. A drive whose profile has it off is served with it off, and
queue/write_cache of the loop device is set accordingly; for the others FLUSH must suffice.

Invalid results: another load on the machine. Needs root, for the loop device.

``bench/served_probe.py [--drives A,B] [--engine fio]``; exit code 1 when a verdict differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skylight.engines.sim import read_profile
from skylight.reproduce.rows import NotMeasured
from skylight.reproduce.swd.device import SKYLIGHT, disk

DRIVES = ("st4000nc001", "st5000as0011", "st8000as0011", "emulated-smr-1", "emulated-smr-2", "emulated-smr-3")
FINDINGS = ("drive_type", "cache_medium")
# Folder of the images: a disk that syncs more slowly than the model's drive writes would distort results.
MEMORY = Path("/dev/shm")


@contextmanager
def told(device: Path, *, volatile: bool) -> Iterator[None]:
    """Sets whether the kernel assumes a volatile write cache of a device."""
    cache = Path("/sys/block") / device.name / "queue/write_cache"
    # The setting persists for a device number, so it is set in both cases.
    cache.write_text("write back" if volatile else "write through", encoding="ascii")
    try:
        yield
    finally:
        cache.write_text("write back", encoding="ascii")


def verdict(target: str, folder: Path, *more: str) -> list[str]:
    """The findings of a quick probe."""
    command = [*SKYLIGHT, "probe", target, "--quick", "--json", "--out", str(folder), *more]
    command += [] if target.startswith("sim:") else ["--destroy-data"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{target} cannot be probed: {done.stderr.strip()}")
    findings = json.loads(done.stdout)["findings"]
    return [str(findings[name]["value"]) for name in FINDINGS]


def served(drive: str, folder: Path, engine: str) -> list[str]:
    """The same for the drive behind NBD, a file and a loop device."""
    interface = tomllib.loads(read_profile(drive)[0]).get("interface", {})
    volatile = bool(interface.get("write_cache_on", False))
    options = ("--timing", "model", "--write-cache", "on" if volatile else "off")
    with disk(drive, folder, *options) as device, told(device, volatile=volatile):
        return verdict(str(device), folder / "found", "--engine", engine)


def main() -> int:
    """Probes the drives that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drives", default=",".join(DRIVES), help="names, separated by commas")
    parser.add_argument("--engine", choices=("own", "fio"), default="own", help="what does the I/O")
    given = parser.parse_args()
    differ = 0
    for drive in given.drives.split(","):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            folder, began = Path(name), time.monotonic()
            try:
                through = served(drive, folder, given.engine)
            except NotMeasured as why:
                sys.exit(str(why))
            took = time.monotonic() - began
            virtual = verdict(f"sim:{drive}", folder / "virtual")
        differ += through != virtual
        how = "same" if through == virtual else "DIFFERS"
        print(f"{how:7} {drive:16} served {through}  virtual {virtual}  {took:.0f} s", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
