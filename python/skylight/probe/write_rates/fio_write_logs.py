"""Logs of writes: what fio's latency logs of sustained writes say of a drive's cliff.

The same judgement as that of the live test, on what somebody else wrote: the log is cut into pieces of time,
and where the pace falls for good, what is left of it and how long writes waited are found. Whether the writes
began with an empty cache, how large they were meant to be and what else the drive did is in no log, so the
reason says what was written.

Invariant: a log that ends before the pace has been low for long gives no rate.
Source: docs/fio-logs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.evidence import Evidence, IoLog, Op, Step
from skylight.findings import Finding, Known, Property
from skylight.probe import Axis, Figure, LogTest
from skylight.probe.write_rates import sustained_verdict
from skylight.probe.write_rates.findings import FULL_RATES, STALL
from skylight.probe.write_rates.sustained_writes import PIECE_S, Cliff
from skylight.units import format_count, format_seconds, format_size

FEWEST, LEAST_PIECES = 512, 6
IN_ORDER = 0.9
"""Share of writes that go on where the one before ended, of a log of writes in order."""


class LoggedWrites(LogTest):
    """See the module's page."""

    name = "logged_writes"
    title = "Writes in logs"
    findings: tuple[Property, ...] = (FULL_RATES, STALL)
    axis: Axis = "time"
    summary = "Latency logs of writes that go on for long: the pace that is left when the cache is full."

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """What the logs tell: of several, the one with the most writes past its cliff."""
        del known
        steps = [step for step in evidence.steps if len(step.rows)]
        if not steps:
            return []
        judged = [(_trouble(step), pieces_of(step.rows), step) for step in steps]
        whole = [(seen, step) for trouble, seen, step in judged if not trouble and len(seen.past())]
        if not whole:
            why = " ".join(trouble or _never(seen, step) for trouble, seen, step in judged)
            return [found.unknown(why) for found in self.findings]
        seen, step = max(whole, key=lambda each: len(each[0].past()))
        written = f" Of {step.name}: writes of {_sizes(step.rows)}, as somebody else made them."
        return [
            Finding(f.name, f.value, f.unit, f.interval, f.confidence, f.why + written, (step.name,))
            for f in sustained_verdict.of_past(seen, seen.past())
        ]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """None: the plot of the requests shows it."""
        del evidence, findings
        return []


def pieces_of(log: IoLog) -> Cliff:
    """A log in pieces of about the same time as those of the live test, or a tenth of it if it is short."""
    piece_ns = min(PIECE_S * 1e9, log.span_ns / (2 * LEAST_PIECES))
    number = (log.submit_ns - log.submit_ns[0]) // max(round(piece_ns), 1)
    begins = np.flatnonzero(np.diff(number.astype(np.int64), prepend=-1))
    ends = [*begins[1:], len(log)]
    return Cliff(None, [log.rows(slice(first, last)) for first, last in zip(begins, ends, strict=True)])


def _trouble(step: Step) -> str:
    """Why a log of writes says nothing of a cliff, as a sentence."""
    rows = step.rows
    if np.any(rows.op != int(Op.WRITE)):
        return f"{step.name} is not a log of writes alone."
    if len(rows) < FEWEST:
        return f"{step.name} holds {format_count(len(rows))} writes, and at least {FEWEST} are needed."
    if step.params.get("offsets") is True:
        begins, ends = rows.offset[1:], rows.offset[:-1] + rows.size[:-1]
        if np.mean(begins == ends) >= IN_ORDER:
            return f"The writes of {step.name} are in order, which shingled drives need no cache for."
    return ""


def _never(seen: Cliff, step: Step) -> str:
    rows = step.rows
    said = f"{format_count(len(rows))} writes of {_sizes(rows)} in {format_seconds(rows.span_ns / 1e9)}"
    if seen.slow:
        return f"{step.name} ends too soon after its pace fell: {said}."
    return f"The pace of {step.name} does not fall: {said} are kept up, or too few to fill a cache."


def _sizes(rows: IoLog) -> str:
    least, most = int(rows.size.min()), int(rows.size.max())
    return format_size(most) if least == most else f"{format_size(least)} to {format_size(most)}"
