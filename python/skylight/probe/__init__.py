"""The characterization suite: one package a test, each with measure(), infer(), draw().

`measure` plans I/O and runs it through a `Session`, which keeps every step as it comes; `infer` turns
evidence into findings; `draw` shows evidence and findings. The last two never touch a target. `suite.py`
lists and orders the tests: adding one is a new package here and one line there (docs/tests/adding-a-test.md).

A test is written as a procedure and a verdict (`skylight.probe.procedure.ProcedureTest`), from which
measure() and infer() follow. What it can find it declares in its module `findings`.

Source: docs/architecture.md, ideas 1 to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding, Known, Property

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from skylight.probe.session import Session


Axis = Literal["number", "time", "address"]
"""What a plot of requests runs along: their order, the time of the test, or the addresses."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a test asks of a target.

    At most: I/Os, device time (pauses included), bytes written; to the last two the session holds it. Likely:
    the device time on a shingled disk, and on one that is not. By default nothing."""

    ios: int = 0
    device_seconds: float = 0.0
    bytes_written: int = 0
    likely_seconds: float = 0.0
    unshingled_seconds: float = 0.0


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
    """One test of the suite. `name` is the recording's file stem and the word for `--only`; `needs` names the
    tests whose findings it builds on; `findings` declares all that it can find. `axis` is what the report's
    plot of its requests runs along. `rests_on_type`: it looks for what drives of one type have, so whatever
    it finds, the drive may be of another."""

    name: str
    title: str
    summary: str
    needs: tuple[str, ...]
    findings: tuple[Property, ...]
    axis: Axis
    rests_on_type: bool

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """What `measure` costs on such a target, with or without leave to write."""
        ...

    def measure(self, session: Session) -> None:
        """Runs the test; the session keeps the evidence and knows what earlier tests found.

        Where the test does not apply (`session.known`), it does nothing."""
        ...

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """Findings from evidence and what is known alone; deterministic. Also called with no steps at all,
        where the test did not apply: a property that the target cannot have is left out."""
        ...

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Figures from evidence and all findings alone; deterministic. None where there is no evidence."""
        ...

    def again(self, evidence: Evidence, known: Known) -> list[Finding]:
        """Those of its findings that are judged anew once all tests have run, by what these found."""
        ...


class LiveTest(Test, Protocol):
    """A test that measures a target, and which targets it is for."""

    answers_quickly: bool
    """Whether it is the quick answer (`--quick`) of a target that has no such test before it."""

    resets_when_quick: bool
    """Whether it brings the target to a known state in a quick answer too."""

    runs_in_a_file: bool
    """Whether it is run in a scratch file; the others need addresses all over the drive."""

    writes_in_order: bool
    """Whether a host-managed target can be asked: what it writes, if anything, is in order."""

    sees_all_zones: bool
    """Whether it looks at the whole of a host-aware target. The others look for a persistent cache, which
    such a drive has for its zones with a write pointer: these stand for the whole."""


class LogTest:
    """A test of logs of other tools: it measures nothing."""

    needs: tuple[str, ...] = ()
    rests_on_type = False

    def estimate(self, facts: TargetFacts, *, writes: bool = True) -> Cost:
        """Nothing: logs are read, not a target."""
        del facts, writes
        return Cost()

    def measure(self, session: Session) -> None:
        """Nothing is done to a live target."""
        del session

    def again(self, evidence: Evidence, known: Known) -> list[Finding]:
        """None: it is judged once."""
        del evidence, known
        return []
