"""The programs that the burn-in starts: tools that run to their end, and servers that go on.

Invariants: each is in a session of its own, so that Ctrl-C at the terminal reaches only us and we take down
what there is in its order; what is still alive when it should not be is killed with all its children; what
we start dies with us, even of SIGKILL (`setpriv --pdeathsig`). All that a tool says is in the log.
"""

import logging
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

LOG = logging.getLogger("burn_in")
# Block-device tools live in sbin; their words are read, so in English; what `make burn-in` was told is not
# for the make that compiles a kernel.
OURS = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OURS} | {
    "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
    "LC_ALL": "C",
}
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
LINES_OF_A_FAILURE = 4
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_living: set[int] = set()


class BurnInError(Exception):
    """A step of the burn-in failed: which, and why."""


class Process:
    """A program in a session of its own; a context manager that ends it with all its children."""

    def __init__(self, words: Sequence[str], output: int | IO[bytes] | None, cwd: Path | None = None) -> None:
        """Starts it; `output` gets what it says."""
        self.words = list(words)
        self.popen = subprocess.Popen(
            [*DIES_WITH_US, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        _living.add(self.popen.pid)

    def __enter__(self) -> "Process":
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of it is left."""
        self.kill()
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def ended(self) -> int | None:
        """Its exit code, once it has ended."""
        return self.popen.poll()

    def kill(self) -> None:
        """SIGKILL to it and its children, where there is something to kill."""
        if self.popen.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        _living.discard(self.popen.pid)


def run(
    *words: str | Path,
    accept: Sequence[int] = (0,),
    cwd: Path | None = None,
    each_line: Callable[[str], None] | None = None,
) -> str:
    """Runs a tool and returns what it prints; `accept` lists the exit codes that are no failure."""
    names = [str(word) for word in words]
    LOG.debug("$ %s", " ".join(names))
    said: list[str] = []
    with Process(names, subprocess.PIPE, cwd) as process:
        assert process.popen.stdout is not None  # it was asked for
        for raw in process.popen.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            LOG.debug("%s", line)
            said.append(line)
            if each_line is not None:
                each_line(line)
        code = process.popen.wait()
    if code not in accept:
        last = [line.strip() for line in said if line.strip()][-LINES_OF_A_FAILURE:]
        raise BurnInError(f"{' '.join(names)}: exit {code}: {' / '.join(last)}")
    return "\n".join(said)


def attempt(*words: str | Path) -> bool:
    """Runs a tool that may fail; whether it did not. For taking down: it raises nothing."""
    try:
        run(*words)
    except (BurnInError, OSError) as error:
        LOG.debug("%s", error)
        return False
    return True


def wait_for(what: str, holds: Callable[[], bool], seconds: float) -> None:
    """Waits until something holds; `BurnInError` when it does not within so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise BurnInError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


def cpu_seconds() -> float:
    """CPU time of us and of all that we started, ended or not: its differences are what a step cost."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for pid in _living:
        with suppress(OSError):
            # proc(5): fields 14 and 15, counted after the name, which may hold spaces.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return total
