"""A budget of device time: what a quick answer may take, shared by the steps of its tests.

Invariant: it depends on logs alone, so that a replay spends it alike.

Source: docs/tests/drive-type.md, on quick answers.
"""

from __future__ import annotations

from skylight.evidence import IoLog


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

    def spend(self, step: IoLog) -> None:
        """Subtracts the time of a whole step."""
        self.left_ns -= step.span_ns
        self.saw(step)

    def saw(self, piece: IoLog) -> None:
        """Notes the slowest command so far."""
        self._slowest_ns = max(self._slowest_ns, int(piece.latency_ns.max(initial=1)))

    def limit_ns(self, share: float) -> int:
        """Device time that one step may take, at most that share of the whole budget."""
        return max(min(self.left_ns, round(share * self.total_ns)), 0)

    def piece(self, ios: int, left_ns: int) -> int:
        """How many of `ios` commands may be sent before the rest of the budget is checked again, in case each
        is as slow as the slowest so far."""
        return max(1, min(ios, left_ns // self._slowest_ns))
