"""Whether `skylight probe` finds the same on a served drive as on the drive in virtual time.

Each drive is served with --timing model, made a block device by nbdfuse and a loop device, and probed with
--quick --destroy-data; the same drive is probed in virtual time as well. Drive type and cache medium must be
the same.

With --whole every test but `write_rates` (whose writes past the cliff take hours) is run, both ways, on the
same drives with a small persistent cache, and each finding is marked against the truth of the profile: the
marks must be the same. A loop device erases nothing, and switches neither look-ahead nor a volatile cache,
so the drive in virtual time meets the same conditions (docs/conditions.md), and so does its truth. Half an
hour a drive, nearly all of it waiting, so drives may be probed side by side by several runs.

With --host-gap the host waits before each command, evenly drawn from a range: a proxy between nbdfuse and the
server (nbd_delay_proxy.py) holds it back. The answers must be the same as those in virtual time without.

A loop device does not report a volatile cache. A drive whose profile has it off is served with it off, and
queue/write_cache of the loop device is set accordingly; for the others FLUSH must suffice.

Invalid results: another load on the machine, but for --priority, which gives the server, nbdfuse, the probe
and workers of loop devices processors first (niceness -20). A virtual machine that uses all of its
processors may be held back as a whole, which no priority helps. Needs root, for the loop device.

``bench/served_probe.py [--drives A,B] [--engine fio] [--whole [--only TESTS]] [--host-gap 50-300]
[--priority] [--keep FOLDER]``; exit code 1 when a verdict differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skylight.engines.sim import read_profile
from skylight.findings import Finding
from skylight.probe.scoring import Mark, score
from skylight.probe.suite import TESTS
from skylight.reproduce.rows import NotMeasured
from skylight.reproduce.swd.attached_drive import SKYLIGHT, disk
from skylight.truth import true_findings

DRIVES = ("st4000nc001", "st5000as0011", "st8000as0011", "emulated-smr-1", "emulated-smr-2", "emulated-smr-3")
FINDINGS = ("drive_type", "cache_medium")
OUTCOMES = ("right", "wrong", "unknown")
# What makes a persistent cache small enough to be filled in minutes, but not so small that a journal holds
# fewer than three merges of its map, which come every 240 lone writes, wherever the first one comes.
SMALL = {
    "emulated-smr-1": {"cache": '"380 MiB"'},
    "emulated-smr-2": {"cache": '"100 MiB"'},
    "emulated-smr-3": {"capacity": '"80 GB"'},
    "st5000as0011": {"places": "850", "map_entries": "7080"},
    "st8000as0011": {"places": "850", "map_entries": "7080"},
}
LEFT_OUT = "write_rates"
# What a loop device over nbdfuse is, beside what the profile says of caches. Chosen: times near those of
# reads of one block of a served drive on two cores.
ATTACHED = {"erase": "trim", "queue_depth": 31, "host_gap": "5 us", "transport": "150 us"}
# What no host finds through nbdfuse, and why.
CUT = "FUSE takes 1 MiB at a time, and an entry is longer"
HIDDEN = {drive: {"journal_entry_max_bytes": CUT} for drive in ("st5000as0011", "st8000as0011")}
# No real-time priority: with one, six drives side by side have starved a machine's own workers for an hour.
FIRST_NICENESS, USUAL_NICENESS = -20, 0
# sched(7), "The autogroup feature": where it is on, niceness counts within a session alone.
AUTOGROUP = Path("/proc/self/autogroup")
WORKER, LOOP = "kworker/", "loop"  # the kernel's workers while they work for a loop device
PROXY = Path(__file__).parent / "nbd_delay_proxy.py"
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


@contextmanager
def before_all_others(wanted: bool) -> Iterator[None]:
    """What is started meanwhile has processors before all others, if wanted, and so have the kernel's
    workers, which do what loop devices are asked."""
    if not wanted:
        yield
        return
    over, raised = threading.Event(), set[int]()
    watch = threading.Thread(target=raise_workers, args=(over, raised))
    be_nice(FIRST_NICENESS)
    watch.start()
    try:
        yield
    finally:
        be_nice(USUAL_NICENESS)
        over.set()
        watch.join()
        for pid in raised:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, pid, USUAL_NICENESS)


def be_nice(niceness: int) -> None:
    """Sets the niceness of this process, of what it starts from now on, and of its session."""
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    if AUTOGROUP.exists():
        AUTOGROUP.write_text(str(niceness), "ascii")


def raise_workers(over: threading.Event, raised: set[int]) -> None:
    """Puts workers of the kernel, of which new ones come and go, before all others until it is over."""
    while not over.wait(1.0):
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                name, pid = (folder / "comm").read_text("ascii"), int(folder.name)
                is_ours = name.startswith(WORKER) and LOOP in name
                if is_ours and os.getpriority(os.PRIO_PROCESS, pid) == USUAL_NICENESS:
                    os.setpriority(os.PRIO_PROCESS, pid, FIRST_NICENESS)
                    raised.add(pid)


@dataclass(frozen=True)
class Host:
    """How served drives are probed: by which engine, behind which gaps ("50-300", us), before all others."""

    engine: str
    gap: str | None
    has_priority: bool


def probed(target: str, folder: Path, *more: str) -> dict[str, Any]:
    """The findings of a probe, as its JSON has them."""
    command = [*SKYLIGHT, "probe", target, "--json", "--out", str(folder), *more]
    command += [] if target.startswith("sim:") else ["--destroy-data"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{target} cannot be probed: {done.stderr.strip()}")
    findings: dict[str, Any] = json.loads(done.stdout)["findings"]
    return findings


def interface_of(profile: Path) -> dict[str, bool]:
    """What a profile says of its drive's caches."""
    interface: dict[str, bool] = tomllib.loads(profile.read_text("utf-8")).get("interface", {})
    return interface


def attached(profile: Path) -> str:
    """The conditions of a loop device over the served drive, as a file has them."""
    interface = interface_of(profile)
    conditions = {
        **ATTACHED,
        "volatile_cache": "on" if interface.get("write_cache_on") else "off",
        "look_ahead": "stays-on" if interface.get("look_ahead") else "obeys",
    }
    return json.dumps({"conditions": conditions})


def served(profile: Path, folder: Path, host: Host, *more: str) -> dict[str, Any]:
    """The same for the drive behind NBD, a file and a loop device."""
    volatile = interface_of(profile).get("write_cache_on", False)
    options = ("--timing", "model", "--write-cache", "on" if volatile else "off")
    between = (sys.executable, str(PROXY), host.gap) if host.gap else ()
    with (
        before_all_others(host.has_priority),
        disk(str(profile), folder, *options, between=between) as device,
        told(device, volatile=volatile),
    ):
        found = probed(str(device), folder / "found", *more, "--engine", host.engine)
    for line in sorted(folder.glob("*.said")):
        print(f"        {line.read_text('utf-8')}", flush=True)
    return found


def small(text: str, changed: dict[str, str]) -> str:
    """A profile with other values of some keys, each of which it has once."""
    for key, value in changed.items():
        text, number = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
        assert number == 1, f"{key} is there {number} times"
    return text


def quick(profile: Path, folder: Path, host: Host) -> tuple[bool, str]:
    """Whether quick probes both ways find the same, and what."""
    through = served(profile, folder, host, "--quick")
    virtual = probed(f"sim:{profile}", folder / "virtual", "--quick")
    found = [[str(findings[name]["value"]) for name in FINDINGS] for findings in (through, virtual)]
    return found[0] == found[1], f"served {found[0]}  virtual {found[1]}"


def marked(findings: dict[str, Any], truth: dict[str, Any]) -> dict[str, Mark]:
    """The marks of the findings that were looked for, by name."""
    made = [
        Finding(name, row["value"], row["unit"], None, row["confidence"], row["why"])
        for name, row in findings.items()
    ]
    return {mark.name: mark for mark in score(made, truth) if mark.name in findings}


def outcome(marks: dict[str, Mark], name: str) -> str:
    """What came of a finding; what was not looked for is as unknown as what was not found, also where that
    is right."""
    return marks[name].outcome if name in marks and marks[name].found is not None else "unknown"


def whole(profile: Path, folder: Path, host: Host, only: str) -> tuple[bool, str]:
    """Whether probes with these tests have the same marks both ways, and how many of each kind; a line
    more for each finding that has not."""
    tests, conditions = ("--only", only), folder / "attached.json"
    conditions.write_text(attached(profile), encoding="utf-8")
    virtual = probed(f"sim:{profile}", folder / "virtual", *tests, "--conditions", str(conditions))
    through = served(profile, folder, host, *tests)
    truth = true_findings(profile.read_text("utf-8"), profile.name, conditions.read_text("utf-8"))
    here, there = marked(virtual, truth), marked(through, truth)
    hidden = HIDDEN.get(profile.stem, {})
    for marks in (here, there):
        for name in hidden:
            marks.pop(name, None)
    differing = [name for name in here | there if outcome(here, name) != outcome(there, name)]
    lines = [
        f"{way} "
        + ", ".join(f"{sum(mark.outcome == kind for mark in marks.values())} {kind}" for kind in OUTCOMES)
        for way, marks in (("served", there), ("virtual", here))
    ]
    said = "  ".join(lines)
    for name, why in hidden.items():
        said += f"\n        {name}: not compared; {why}"
    for name in differing:
        at = [marks[name].found if name in marks else "not looked for" for marks in (there, here)]
        said += (
            f"\n        {name}: served {at[0]}, virtual {at[1]}, true {(truth.get(name) or {}).get('value')}"
        )
    return not differing, said


def main() -> int:
    """Probes the drives that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drives", default=",".join(DRIVES), help="names, separated by commas")
    parser.add_argument("--engine", choices=("own", "fio"), default="own", help="what does the I/O")
    parser.add_argument("--host-gap", metavar="US-US", help="time that the host waits before each command")
    parser.add_argument("--priority", action="store_true", help="processors before all others; needs root")
    parser.add_argument("--whole", action="store_true", help=f"every test but {LEFT_OUT}, with small caches")
    every = ",".join(test.name for test in TESTS if test.name != LEFT_OUT)
    parser.add_argument("--only", default=every, help="tests of --whole, separated by commas")
    parser.add_argument("--keep", type=Path, help="folder for the results of the probes")
    given = parser.parse_args()
    host = Host(given.engine, given.host_gap, given.priority)
    # A signal to end takes down what is served and attached, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    differ = 0
    for drive in given.drives.split(","):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            folder, began = Path(name), time.monotonic()
            profile = folder / f"{drive}.toml"
            text = read_profile(drive)[0]
            profile.write_text(small(text, SMALL.get(drive, {})) if given.whole else text, encoding="utf-8")
            try:
                if given.whole:
                    same, said = whole(profile, folder, host, given.only)
                else:
                    same, said = quick(profile, folder, host)
            except NotMeasured as why:
                sys.exit(str(why))
            for way in ("found", "virtual") if given.keep else ():
                shutil.copytree(folder / way, given.keep / f"{drive}-{given.engine}-{way}")
        differ += not same
        took = time.monotonic() - began
        print(f"{'same' if same else 'DIFFERS':7} {drive:16} {said}  {took:.0f} s", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
