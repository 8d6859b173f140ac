"""Tallies of a score: right, wrong and unknown by whatever divides the findings, and how often findings of a
confidence are right.

Counted is what is measurable: an unknown value of what is out of reach counts for nothing, a wrong one
counts.

Source: docs/conditions.md, "The score".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from skylight.engines.sim_under_conditions import Conditions
from skylight.probe.scoring import Outcome

CONFIDENT = 0.9
"""A wrong finding of this confidence or more is a confident falsehood."""
BIN_EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Of the calibration table: narrow where most findings are."""
FEWEST_IN_BIN = 50
"""Findings below which a bin is not judged: its share is off by several points by chance."""
CALIBRATED_POINTS = 3.0
"""How far the share of right findings of a bin may be off their mean confidence, in points of 100."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One finding that counts: of which drive, what became of it, and the confidence it was given with."""

    drive: str
    kind: str
    name: str
    outcome: Outcome
    known: bool
    confidence: float
    conditions: Conditions | None = None


@dataclass(slots=True)
class Tally:
    """How many findings were right, wrong and unknown."""

    right: int = 0
    wrong: int = 0
    unknown: int = 0

    def add(self, outcome: Outcome) -> None:
        """Counts one more."""
        setattr(self, outcome, getattr(self, outcome) + 1)

    @property
    def total(self) -> int:
        """All of them."""
        return self.right + self.wrong + self.unknown

    def share(self, outcome: Outcome) -> float:
        """The share of an outcome; 0 of nothing."""
        count: int = getattr(self, outcome)
        return count / self.total if self.total else 0.0

    def to_json(self) -> dict[str, int]:
        """The JSON form."""
        return {"right": self.right, "wrong": self.wrong, "unknown": self.unknown}


def _steps(ns: int, *edges_us: int) -> str:
    """A duration as one of a few ranges."""
    low = 0
    for high in edges_us:
        if ns < 1e3 * high:
            return f"{low} to {high} us"
        low = high
    return f"from {low} us"


def _has(has: bool) -> str:
    return "yes" if has else "no"


FACTORS: dict[str, Callable[[Conditions], str]] = {
    "erase": lambda c: c.erase,
    "look-ahead": lambda c: c.look_ahead,
    "queue depth": lambda c: str(c.queue_depth),
    "volatile cache": lambda c: c.volatile_cache,
    "prior use": lambda c: c.prior_use,
    "host gap": lambda c: _steps(c.host_gap_ns, 100, 250),
    "clock": lambda c: _steps(c.clock_ns, 1, 1000),
    "transport": lambda c: _steps(c.transport_ns, 500, 1000),
    "spin-down": lambda c: _has(c.spin_down),
    "head unload": lambda c: _has(c.head_unload),
    "background scan": lambda c: _has(c.background_scan),
    "busy": lambda c: _has(c.busy),
}
"""The conditions by which a score is divided, and the level of each."""


def by_factor(counted: Iterable[Counted]) -> dict[tuple[str, str], Tally]:
    """Tallies by condition and level, and by kind of drive; those with the fewest right first."""
    tallies: dict[tuple[str, str], Tally] = {}
    for each in counted:
        levels = {"drive": each.kind}
        if each.conditions is not None:
            levels |= {name: level(each.conditions) for name, level in FACTORS.items()}
        for key in levels.items():
            tallies.setdefault(key, Tally()).add(each.outcome)
    return dict(sorted(tallies.items(), key=lambda item: item[1].share("right")))


def by_finding(counted: Iterable[Counted]) -> dict[str, Tally]:
    """Tallies by finding; those with the fewest right first."""
    tallies: dict[str, Tally] = {}
    for each in counted:
        tallies.setdefault(each.name, Tally()).add(each.outcome)
    return dict(sorted(tallies.items(), key=lambda item: item[1].share("right")))


@dataclass(frozen=True, slots=True)
class Bin:
    """Findings of a range of confidences."""

    low: float
    high: float
    findings: int
    right: int
    mean_confidence: float

    @property
    def off_points(self) -> float:
        """How much surer the findings are than they are right, in points of 100."""
        return 100 * (self.mean_confidence - self.right / self.findings)

    @property
    def judged(self) -> bool:
        """Whether there are enough findings."""
        return self.findings >= FEWEST_IN_BIN

    @property
    def calibrated(self) -> bool:
        """Whether the confidence is the frequency of being right, as far as that can be told."""
        return not self.judged or abs(self.off_points) <= CALIBRATED_POINTS


def bins(counted: Iterable[Counted]) -> list[Bin]:
    """The calibration table: known findings by confidence; empty bins are left out.

    >>> sure = [Counted("1", "ssd", "drive_type", "right", True, 0.97) for _ in range(99)]
    >>> sure.append(Counted("1", "ssd", "drive_type", "wrong", True, 0.97))
    >>> [(each.low, each.findings, each.right, round(each.off_points)) for each in bins(sure)]
    [(0.95, 100, 99, -2)]
    """
    known = [each for each in counted if each.known]
    found = []
    for low, high in pairwise(BIN_EDGES):
        last = high == BIN_EDGES[-1]
        inside = [
            each for each in known if low <= each.confidence < high or (last and each.confidence >= high)
        ]
        if inside:
            right = sum(each.outcome == "right" for each in inside)
            mean = sum(each.confidence for each in inside) / len(inside)
            found.append(Bin(low, high, len(inside), right, mean))
    return found


def confident_falsehoods(counted: Iterable[Counted]) -> list[Counted]:
    """Wrong findings of high confidence, the surest first."""
    wrong = (each for each in counted if each.outcome == "wrong" and each.confidence >= CONFIDENT)
    return sorted(wrong, key=lambda each: -each.confidence)


def show_bins(table: Iterable[Bin]) -> None:
    """Prints the calibration table."""
    print(f"\n{'confidence':>16}{'findings':>10}{'right %':>9}{'mean %':>8}{'off':>7}")
    for each in table:
        mark = "" if each.calibrated else "  not calibrated"
        share, mean = 100 * each.right / each.findings, 100 * each.mean_confidence
        few = "" if each.judged else f"  fewer than {FEWEST_IN_BIN}: not judged"
        print(
            f"{each.low:8g} to {each.high:<5g}{each.findings:9}{share:9.1f}{mean:8.1f}{each.off_points:+7.1f}"
            f"{mark}{few}"
        )


def show_tallies(title: str, tallies: Iterable[tuple[str, Tally]]) -> None:
    """Prints tallies, one a line."""
    print(f"\n{title:34}{'right':>7}{'wrong':>7}{'unknown':>9}{'right %':>9}{'wrong %':>9}")
    for name, tally in tallies:
        numbers = f"{tally.right:7}{tally.wrong:7}{tally.unknown:9}"
        print(f"{name:34}{numbers}{100 * tally.share('right'):9.1f}{100 * tally.share('wrong'):9.1f}")


def of(counted: Iterable[Counted]) -> Tally:
    """All of them."""
    whole = Tally()
    for each in counted:
        whole.add(each.outcome)
    return whole


def show(
    counted: list[Counted], divided: tuple[str, Iterable[tuple[str, Tally]]], falsehoods_asked: str = ""
) -> tuple[list[Bin], int]:
    """Prints what every score ends with: tallies by what divides it (a title and its rows) and by finding,
    the calibration table, confident falsehoods; returns that table and the number of falsehoods."""
    show_tallies(*divided)
    show_tallies("finding, worst first", by_finding(counted).items())
    table = bins(counted)
    show_bins(table)
    falsehoods = confident_falsehoods(counted)
    print(f"\nconfident falsehoods ({CONFIDENT} or more): {len(falsehoods)}{falsehoods_asked}")
    for each in falsehoods:
        kind = "" if each.kind == each.drive else f" ({each.kind})"
        print(f"  {each.drive}{kind} {each.name} at {each.confidence:.4f}")
    return table, len(falsehoods)


def document(counted: list[Counted]) -> dict[str, object]:
    """The tallies as JSON."""
    factors: dict[str, dict[str, dict[str, int]]] = {}
    for (factor, level), tally in by_factor(counted).items():
        factors.setdefault(factor, {})[level] = tally.to_json()
    return {
        "factors": factors,
        "findings": {name: tally.to_json() for name, tally in by_finding(counted).items()},
        "calibration": [
            {
                "low": each.low,
                "high": each.high,
                "findings": each.findings,
                "right": each.right,
                "mean_confidence": each.mean_confidence,
            }
            for each in bins(counted)
        ],
        "confident_falsehoods": [
            {"drive": each.drive, "finding": each.name, "confidence": each.confidence}
            for each in confident_falsehoods(counted)
        ],
    }
