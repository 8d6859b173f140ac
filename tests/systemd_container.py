"""A real systemd as the first process of a container, which has our unit and its journal and little else.

Its namespaces are its own (processes, mounts, cgroups), so it starts no service of the host, and what it
mounts ends with it: /run, /var/log and /usr/local/bin are empty file systems in memory, /etc/skylight and
/var/lib/skylight folders of the test.

Invariants: the container is killed when the block ends, and its cgroups are removed; only processes that it
started are.

Sources: systemd(1), `SYSTEMD_UNIT_PATH` and `container`; "The Container Interface" of systemd; unshare(1).
"""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT, lacking
from serving import PATIENCE_S, SKYLIGHT, wait_for

UNIT = ROOT / "packaging/wheel/data/share/skylight/skylight@.service"
SYSTEMD = Path("/lib/systemd/systemd")
JOURNAL = ("systemd-journald.service", "systemd-journald.socket")
# Targets that a service with default dependencies is ordered by; the host's would start the host's services.
TARGETS = ("sysinit", "basic", "multi-user", "shutdown")
BARE_TARGET = "[Unit]\nDefaultDependencies=no\n"

START = """set -e
mount --make-rprivate /
mount -t proc proc /proc
for each in /run /var/log /usr/local/bin; do mount -t tmpfs tmpfs $each; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cp {folder}/skylight /usr/local/bin/
mkdir -p /var/lib/skylight /etc/skylight
mount --bind {folder}/state /var/lib/skylight
mount --bind {folder}/conf /etc/skylight
export SYSTEMD_UNIT_PATH={folder}/units container=skylight-test
exec {systemd} --system --unit=default.target
"""


@dataclass(frozen=True)
class Container:
    """The container: its first process, and the folders of configurations and images."""

    pid: int
    conf: Path
    state: Path

    def run(self, *words: str, code: int | None = 0) -> str:
        """What a program in the container printed; its exit code must be that, unless that is None."""
        command = ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-i", "-u", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert code is None or done.returncode == code, f"{words}: {done}"
        return done.stdout + done.stderr

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def inside(self, path: str) -> Path:
        """A path of the container as the host reaches it."""
        return Path(f"/proc/{self.pid}/root{path}")


def _cgroup_root() -> Path:
    """Where the host has the second version of cgroups."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    lacking("no cgroup2 file system is mounted, which systemd needs")


@contextmanager
def container(folder: Path, need_tool: Callable[[str], str]) -> Iterator[Container]:
    """A container for as long as the block lasts; `folder` is for its files."""
    for tool in ("systemctl", "journalctl", "unshare", "nsenter"):
        need_tool(tool)
    if not SYSTEMD.exists():
        lacking("systemd is not installed: apt install systemd")
    if os.geteuid() != 0:
        lacking("only root makes containers")
    for name in ("units", "state", "conf"):
        (folder / name).mkdir()
    units = folder / "units"
    for unit in (UNIT, *(SYSTEMD.parent / "system" / each for each in JOURNAL)):
        (units / unit.name).write_bytes(unit.read_bytes())
    for target in TARGETS:
        (units / f"{target}.target").write_text(BARE_TARGET, encoding="ascii")
    journal = f"{BARE_TARGET}Requires=basic.target {JOURNAL[0]}\n"
    (units / "default.target").write_text(journal, encoding="ascii")
    program = folder / "skylight"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(SKYLIGHT)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    start = folder / "start.sh"
    start.write_text(START.format(folder=folder, systemd=SYSTEMD), encoding="utf-8")
    with _cgroup(folder.name) as cgroup, _started(cgroup, start) as pid:
        yield Container(pid, folder / "conf", folder / "state")


@contextmanager
def _cgroup(name: str) -> Iterator[Path]:
    cgroup = _cgroup_root() / f"skylight-{name}-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        lacking(f"no cgroup can be made here: {error}")
    try:
        yield cgroup
    finally:
        until = time.monotonic() + PATIENCE_S
        while cgroup.exists() and time.monotonic() < until:
            for inner, _, _ in os.walk(cgroup, topdown=False):
                with suppress(OSError):  # its processes are still ending
                    os.rmdir(inner)
            time.sleep(0.05)


@contextmanager
def _started(cgroup: Path, start: Path) -> Iterator[int]:
    """The first process of the container, as the host numbers it."""
    join = f"echo $$ > {cgroup}/cgroup.procs && exec unshare"
    words = f"{join} --cgroup --pid --fork --kill-child --mount --ipc --uts bash {start}"
    with (start.parent / "container.log").open("wb") as log:
        parent = subprocess.Popen(["bash", "-c", words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: parent.poll() is not None or bool(_first_child(parent.pid)), "a container starts")
        first = _first_child(parent.pid)
        if first is None:
            lacking(f"no container can be made here: {Path(log.name).read_text(encoding='utf-8').strip()}")
        wait_for(lambda: _is_running(first), "systemd is up")
        yield first
    finally:
        parent.kill()  # its child, the first process, is killed with it, and so is the container
        parent.wait(PATIENCE_S)


def _first_child(number: int) -> int | None:
    with suppress(OSError):
        found = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        return int(found[0]) if found else None
    return None


def _is_running(first: int) -> bool:
    command = ["nsenter", "-t", str(first), "-m", "-p", "-C", "systemctl", "is-system-running"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout.strip() == "running"
