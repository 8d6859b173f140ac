"""Time that the host took and not the drive: the machine slept, or the probing thread waited for a processor.

What for: a session on a real drive reads both before and after each step and keeps the difference with it, so
that a reader of the recording can tell these from delays of the drive.

Invariants: reading costs microseconds and never fails; what this kernel does not show is 0. Interrupts, and
waits of other programs that complete the I/O, are not seen here.

Sources: clock_gettime(2): CLOCK_BOOTTIME goes on while the machine is suspended, CLOCK_MONOTONIC does not;
the kernel's Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat", for the second number there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["HostTime"]

TOGETHER_NS = 1_000_000
"""Readings of the clocks that are further apart are repeated: the thread lost its processor between them, and
that is no suspend. Chosen: above the microseconds that they take, below the pauses of a scheduler."""
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True, slots=True)
class HostTime:
    """Since the machine and the calling thread began: time suspended, and time ready to run without a
    processor, ns."""

    suspended_ns: int
    waited_ns: int

    @classmethod
    def now(cls) -> Self:
        """As it is now, for the calling thread."""
        while True:
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            if after - before <= TOGETHER_NS:
                break
        try:
            waited = int(_SCHEDSTAT.read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            waited = 0
        return cls(boot - before, waited)

    def since(self, before: Self) -> dict[str, int]:
        """What has been added since: the numbers that a recording keeps of a step."""
        return {
            "suspended_ns": max(self.suspended_ns - before.suspended_ns, 0),
            "waited_ns": max(self.waited_ns - before.waited_ns, 0),
        }
