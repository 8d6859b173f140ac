"""A procedure: a test whose next step depends on what the last ones showed, written once.

`measure` runs it on a `Session`, where its steps are done and kept; `infer` runs the same code again over the
evidence, where each step is answered by its log. So both take the same turns, and the result of the procedure
is what the evidence shows. A procedure may depend on logs, on the target's size and on what is known only.

Invariant: a replay asks for the steps of the evidence in their order and in no other; evidence that ends
early, or goes on differently, raises `CutShort`.

Source: DESIGN, idea 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from skylight.evidence import Evidence, IoBatch, IoLog, JsonScalar, StepKind, Stop
from skylight.findings import Known
from skylight.probe.session import Session


class CutShort(Exception):
    """The evidence ends before the procedure does."""


class Steps(Protocol):
    """What a procedure does its steps through. A name that is used again gets a number."""

    size: int
    block_bytes: int
    known: Known

    @property
    def names(self) -> tuple[str, ...]:
        """The steps so far."""
        ...

    def run(
        self,
        name: str,
        io: IoBatch,
        *,
        depth: int = 1,
        until: Stop | None = None,
        params: Mapping[str, JsonScalar] | None = None,
    ) -> IoLog:
        """Does the batch; its log."""
        ...

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone."""
        ...

    def erase(self, name: str) -> bool:
        """Secure erase; False where the target has none."""
        ...

    def rng(self, name: str) -> np.random.Generator:
        """Randomness for what a batch holds; a replay needs none."""
        ...


class _Names:
    def __init__(self) -> None:
        self._used = Counter[str]()
        self._names: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def _named(self, name: str) -> str:
        self._used[name] += 1
        number = self._used[name]
        self._names.append(name if number == 1 else f"{name}-{number}")
        return self._names[-1]


class Live(_Names):
    """Steps on a live target."""

    def __init__(self, session: Session) -> None:
        """Takes the session of the test."""
        super().__init__()
        self._session = session
        self.size = session.size
        self.block_bytes = session.facts.block_bytes
        self.known = session.known

    def run(
        self,
        name: str,
        io: IoBatch,
        *,
        depth: int = 1,
        until: Stop | None = None,
        params: Mapping[str, JsonScalar] | None = None,
    ) -> IoLog:
        """Does the batch; its log."""
        return self._session.run(self._named(name), io, depth=depth, until=until, params=params)

    def pause(self, name: str, seconds: float) -> None:
        """Leaves the target alone."""
        self._session.pause(self._named(name), seconds)

    def erase(self, name: str) -> bool:
        """Secure erase; False where the target has none."""
        return self._session.erase(self._named(name))

    def rng(self, name: str) -> np.random.Generator:
        """A generator of its own for each name."""
        return self._session.rng(name)


def on_shingled(session: Session, procedure: Callable[[Steps], object]) -> None:
    """Runs a procedure on a shingled drive that may be written to, its volatile cache and look-ahead off.

    Does nothing to any other drive.
    """
    if session.known.word("drive_type") != "smr" or not session.can_write:
        return
    with session.settings("settings", write_cache=False, look_ahead=False):
        procedure(Live(session))


class Replay(_Names):
    """The steps of evidence, in their order."""

    def __init__(self, evidence: Evidence, known: Known) -> None:
        """Takes all steps but those that tell of settings."""
        super().__init__()
        self._steps = [step for step in evidence.steps if step.kind != "settings"]
        self.size = evidence.target.size_bytes
        self.block_bytes = evidence.target.block_bytes
        self.known = known

    def _next(self, name: str, kind: StepKind) -> int:
        number = len(self._names)
        named = self._named(name)
        if number >= len(self._steps) or (self._steps[number].name, self._steps[number].kind) != (
            named,
            kind,
        ):
            self._names.pop()
            raise CutShort(named)
        return number

    def run(
        self,
        name: str,
        io: IoBatch,
        *,
        depth: int = 1,
        until: Stop | None = None,
        params: Mapping[str, JsonScalar] | None = None,
    ) -> IoLog:
        """The log of the step."""
        del depth, params
        log = self._steps[self._next(name, "run")].rows
        if len(log) > len(io) or (until is None and len(log) != len(io)):
            raise CutShort(name)
        return log

    def pause(self, name: str, seconds: float) -> None:
        """Was done."""
        del seconds
        self._next(name, "pause")

    def erase(self, name: str) -> bool:
        """Whether the target was erased."""
        return self._steps[self._next(name, "erase")].params.get("erased") is True

    def rng(self, name: str) -> np.random.Generator:
        """What it draws is not looked at: the logs hold what was asked."""
        del name
        return np.random.default_rng(0)
