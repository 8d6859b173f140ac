"""Time that the host took and not the drive: the machine slept, or the probing thread waited for a processor;
and whether its time of day was set.

What for: a session on a real drive reads all three before and after each step and keeps the difference with
it, so that a reader of the recording can tell these from delays of the drive, and does not believe times of
day. A suspend between two steps switches the drive off as one within a step does: it counts with the later.

Invariants: reading costs microseconds and never fails; what this kernel does not show is 0. Interrupts, and
waits of other programs that complete the I/O, are not seen here.

Sources: clock_gettime(2): CLOCK_BOOTTIME goes on while the machine is suspended, CLOCK_MONOTONIC does not,
and both go on as before when CLOCK_REALTIME is set; adjtimex(2): that is slewed by at most 500 ppm otherwise;
the kernel's Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat", for the second number there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["HostTime", "HostWatch"]

TOGETHER_NS = 1_000_000
"""Readings of the clocks that are further apart are repeated: the thread lost its processor between them, and
that is no suspend. Chosen: above the microseconds that they take, below the pauses of a scheduler."""
LEAST_SET_NS, MOST_SLEW = 1_000_000_000, 0.001
"""The time of day was set if it moved against the clock of the machine by more than that and that share of
the time between. Chosen: NTP sets it for no less than 0.128 s and slews it by half of the share."""
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True, slots=True)
class HostTime:
    """Since the machine and the calling thread began: time suspended, and time ready to run without a
    processor, ns; the time itself, suspended or not, and the time of day at which it began, ns."""

    suspended_ns: int
    waited_ns: int
    boot_ns: int = 0
    day_ns: int = 0

    @classmethod
    def now(cls) -> Self:
        """As it is now, for the calling thread."""
        while True:
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            day = time.clock_gettime_ns(time.CLOCK_REALTIME)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            if after - before <= TOGETHER_NS:
                break
        try:
            waited = int(_SCHEDSTAT.read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            waited = 0
        return cls(boot - before, waited, boot, day - boot)

    def since(self, before: Self) -> dict[str, int]:
        """What has been added since: the numbers that a recording keeps of a step. Those of a time of day
        that was set are there only if it was."""
        added = {
            "suspended_ns": max(self.suspended_ns - before.suspended_ns, 0),
            "waited_ns": max(self.waited_ns - before.waited_ns, 0),
        }
        set_ns = self.day_ns - before.day_ns
        if abs(set_ns) > LEAST_SET_NS + MOST_SLEW * (self.boot_ns - before.boot_ns):
            added["set_forward_ns" if set_ns > 0 else "set_back_ns"] = abs(set_ns)
        return added


class HostWatch:
    """What the host takes of each step of a test, and of the time between."""

    def __init__(self) -> None:
        """The test begins now."""
        self._ended = self._began = HostTime.now()

    def begin(self) -> None:
        """A step begins now."""
        self._began = HostTime.now()

    def end(self, *, waits: bool) -> dict[str, int]:
        """The numbers of the step that ends now: what its thread waited for, if that `waits` for the I/O
        itself; all else since the step before."""
        now = HostTime.now()
        since_the_last, within = now.since(self._ended), now.since(self._began)
        self._ended = now
        taken = since_the_last | {"waited_ns": within["waited_ns"]}
        return taken if waits else {name: ns for name, ns in taken.items() if name != "waited_ns"}
