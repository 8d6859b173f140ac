"""The characterization suite: one module a test, each with measure(), infer(), draw().

`measure` plans I/O and runs it through a `Session`, which keeps every step as it comes; `infer` turns
evidence into findings; `draw` shows evidence and findings. The last two never touch a target. `suite.py`
lists and orders the tests: adding one is a new module here and one line there.

Source: DESIGN, ideas 1 to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from skylight.probe.session import Session


@dataclass(frozen=True, slots=True)
class Cost:
    """What a test asks of a target at most: I/Os, device time, bytes it overwrites."""

    ios: int
    device_seconds: float
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of the evidence: file-name-like `name`, `title`, `caption` that says how to read it, `alt`
    text."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Drawing


class Test(Protocol):
    """One test of the suite. `name` is the recording's file stem and the word for `--only`."""

    name: str
    title: str
    summary: str

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """An upper estimate of what `measure` costs on such a target, with or without leave to write."""
        ...

    def measure(self, session: Session) -> None:
        """Runs the test; the session keeps the evidence."""
        ...

    def infer(self, evidence: Evidence) -> list[Finding]:
        """Findings from evidence alone; deterministic."""
        ...

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Figures from evidence and findings alone; deterministic."""
        ...
