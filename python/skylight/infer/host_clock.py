"""What a host adds to the times of commands: the tick of its clock, its gap between commands, and time in
which it was suspended or ran other programs.

A clock as coarse as a millisecond says of no single command when it was submitted. Over many commands it
does: they come at any time within a tick, so that the mean of differences is that of a fine clock.

Invariant: pure functions of columns of times, ns.

Source: the error of a quantity that is rounded to a step and spread evenly over it is uniform, Widrow and
Kollar, "Quantization Noise" (2008), chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import Evidence, IoLog, Step
from skylight.infer.robust import common_part
from skylight.units import format_percent, format_seconds

TICK_DEVIATION = 12**-0.5
"""Standard deviation of a time that is rounded to a tick, in ticks."""
DIFFERENCE_DEVIATION = 0.41
"""The same of the difference of two such times, in ticks: 1 / sqrt(6)."""
COARSE_NS = 100_000.0
"""A tick from which on a clock does not say when a command was submitted: chosen, half of what jitter delays
commands by."""
COARSEST_NS = 1e7  # a jiffy of a kernel that ticks a hundred times a second
LONGEST_GAP_NS = 2e6  # a host that takes so much longer than usual was not woken in time


@dataclass(frozen=True, slots=True)
class Host:
    """The mean gap from a completion to the next submission, and the tick of the clock, ns."""

    gap_ns: float
    tick_ns: float

    @property
    def coarse(self) -> bool:
        """Whether the clock is too coarse to say when a command was submitted."""
        return self.tick_ns >= COARSE_NS


LEAST_SUSPENDED_NS = 10_000_000
"""Chosen: between what two readings of clocks can differ by, microseconds, and a suspend, seconds."""
MUCH_WAITED = 0.05
"""The share of a step's time on the drive from which waiting for a processor is said: chosen, since the tests
tell places of a revolution apart by a twentieth of it."""

FINE_HOST = Host(0.0, 1.0)
"""No gap, and a clock of a nanosecond."""


def tick_ns(*columns: NDArray[np.generic], fine_ns: int = 1) -> float:
    """The tick of the clock that some times were read from, ns: the largest that all are multiples of, unless
    no clock is so coarse. Of a clock that is no coarser than `fine_ns` only that is known: of millions of
    times not all are looked at then."""
    tick = common_part(*columns, enough=fine_ns)
    return float(tick) if 0 < tick <= COARSEST_NS else 1.0


def readings_needed(tick_ns: float, turn_ns: float, error: float) -> float:
    """How many readings of a delay leave that share of a revolution open by the tick alone, in their mean."""
    return float((DIFFERENCE_DEVIATION * tick_ns / turn_ns / error) ** 2)


def host_of(log: IoLog) -> Host:
    """The host of a log of commands one at a time."""
    tick = tick_ns(log.submit_ns, log.complete_ns)
    if len(log) < 2:
        return Host(0.0, tick)
    gaps_ns = log.submit_ns[1:].astype(np.int64) - log.complete_ns[:-1].astype(np.int64)
    kept = gaps_ns[gaps_ns <= np.median(gaps_ns) + max(LONGEST_GAP_NS, tick)]
    return Host(float(kept.mean()), tick)


def host_notes(evidence: Evidence) -> list[str]:
    """What a reader has to know of the host while a test ran: that it slept, had its clock set, or kept the
    probe waiting."""
    notes = []
    asleep = [step for step in evidence.done if step.host.get("suspended_ns", 0) >= LEAST_SUSPENDED_NS]
    if asleep:
        whole_s = sum(step.host["suspended_ns"] for step in asleep) / 1e9
        notes.append(
            f"{evidence.test}: this machine was suspended for {format_seconds(whole_s)} in or right before"
            f" {_named(asleep)}: drives are switched off then, so what follows may be wrong; probe again"
        )
    for name, words in (("set_forward_ns", "forward"), ("set_back_ns", "back")):
        if moved := [step for step in evidence.done if name in step.host]:
            whole_s = sum(step.host[name] for step in moved) / 1e9
            notes.append(
                f"{evidence.test}: the clock of this machine was set {words} by {format_seconds(whole_s)}"
                f" in or right before {_named(moved)}: findings stand, since their times come from a clock"
                " that this does not move, but times of day in the recording are not of one clock"
            )
    late = [step for step in evidence.steps if _waited(step) >= MUCH_WAITED]
    if late:
        most = max(late, key=_waited)
        notes.append(
            f"{evidence.test}: other programs kept the probe waiting for a processor for"
            f" {format_percent(min(_waited(most), 1.0))} of the time of {most.name!r}, and for much of"
            f" {len(late)} of {len(evidence.steps)} steps in all: delays of the host, not of the drive"
        )
    return notes


def _waited(step: Step) -> float:
    """The share of a step's time on the drive in which its thread waited for a processor."""
    spent_ns = step.device_ns
    return step.host.get("waited_ns", 0) / spent_ns if step.kind == "run" and spent_ns > 0 else 0.0


def _named(steps: list[Step]) -> str:
    first = repr(steps[0].name)
    return first if len(steps) == 1 else f"{first} and {len(steps) - 1} more steps"
