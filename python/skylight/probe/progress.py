"""How far a test is, and how long it may go on: what a session reports to those who watch.

Invariant: nothing here decides what is asked of a target. The time left is that of the plan's likely time
until a test knows how many I/Os it takes; past the likely time it is what is left of the bound, and says so.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Meter", "Progress", "ProgressReport"]


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How far a test is: I/Os done and expected, device time spent and expected to remain (ns), or at most
    to remain; `place` says which test of how many it is."""

    test: str
    step: str
    done_ios: int
    total_ios: int
    device_ns: int
    device_left_ns: int
    place: str = ""
    at_most: bool = False

    @property
    def share(self) -> float:
        """The share of the device time that is over, 0 to 1."""
        whole = self.device_ns + self.device_left_ns
        return self.device_ns / whole if whole else 1.0


Progress = Callable[[ProgressReport], None]


class Meter:
    """Counts what a test has done.

    >>> seen = []
    >>> meter = Meter(seen.append, "any", total_ios=100, likely_ns=1_000)
    >>> for _ in range(3):
    ...     meter.advance("reads", 10, 400, most_left_ns=50_000)
    >>> [(report.device_left_ns, report.at_most) for report in seen]
    [(600, False), (200, False), (50000, True)]
    """

    def __init__(
        self, show: Progress | None = None, test: str = "", place: str = "", *, total_ios: int = 0,
        likely_ns: int = 0,
    ) -> None:  # fmt: skip
        """`total_ios` is what the plan allows, `likely_ns` what it expects, 0 where it expects nothing."""
        self._show, self._test, self._place = show, test, place
        self._done_ios, self._total_ios, self._device_ns = 0, total_ios, 0
        self._likely_ns = likely_ns

    def expect(self, total_ios: int) -> None:
        """How many I/Os the whole test takes; now that it is known the likely time counts no more."""
        self._total_ios, self._likely_ns = max(total_ios, self._done_ios), 0

    def advance(self, step: str, ios: int, span_ns: int, *, most_left_ns: int | None = None) -> None:
        """Counts a piece of a step, ns of device time, and reports; `most_left_ns` is left of the bound."""
        self._done_ios += ios
        self._device_ns += span_ns
        self._total_ios = max(self._total_ios, self._done_ios)
        if self._show is None:
            return
        left, at_most = self._left_ns()
        if most_left_ns is not None:
            left = most_left_ns if at_most else min(left, most_left_ns)
        self._show(
            ProgressReport(
                self._test, step, self._done_ios, self._total_ios, self._device_ns, left, self._place,
                at_most and most_left_ns is not None,
            )
        )  # fmt: skip

    def _left_ns(self) -> tuple[int, bool]:
        """Device time that is likely left; whether it took longer than was likely already."""
        by_ios = self._device_ns * (self._total_ios - self._done_ios) // max(self._done_ios, 1)
        if not self._likely_ns:
            return by_ios, False
        return min(by_ios, max(self._likely_ns - self._device_ns, 0)), self._device_ns >= self._likely_ns
