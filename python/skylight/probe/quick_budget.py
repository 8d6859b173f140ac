"""A budget of device time: what a quick answer may take, shared by the steps of its tests.

Invariant: it depends on logs alone, so that a replay spends it alike.

Source: docs/tests/drive-type.md, on quick answers.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import I64, IoLog

HARDLY_ANY = 0.99
"""Share of the commands so far that took less. Chosen: of a hundred one ends a job, which lasts as long."""


class Budget:
    """Device time that the steps of a run may take together, ns.

    >>> budget = Budget(50)
    >>> budget.limit_ns(0.4), budget.piece(8, 20)
    (20, 8)
    """

    def __init__(self, total_ns: int) -> None:
        """Begins with all of it left."""
        self.total_ns = total_ns
        self.left_ns = total_ns
        self._slowest_ns = 1
        self._seen_ns: list[I64] = []

    def spend(self, step: IoLog) -> None:
        """Subtracts the time of a whole step."""
        self.left_ns -= step.span_ns
        self.saw(step)

    def saw(self, piece: IoLog) -> None:
        """Notes the slowest command so far."""
        self._slowest_ns = max(self._slowest_ns, int(piece.latency_ns.max(initial=1)))
        self._seen_ns.append(piece.latency_ns)

    def limit_ns(self, share: float) -> int:
        """Device time that one step may take, at most that share of the whole budget."""
        return max(min(self.left_ns, round(share * self.total_ns)), 0)

    def piece(self, ios: int, left_ns: int, *, jobs: bool = False) -> int:
        """How many of `ios` commands may be sent before the rest of the budget is checked again, in case each
        is as slow as the slowest so far. Where a piece is a job, whose start takes longer than many commands:
        as slow as hardly any; a slower one ends the job, as it does any piece."""
        slow_ns = self._slowest_ns
        if jobs and self._seen_ns:
            slow_ns = max(1, round(float(np.quantile(np.concatenate(self._seen_ns), HARDLY_ANY))))
        return max(1, min(ios, left_ns // slow_ns))
