"""Waiting until a drive is quiet: until lone reads no longer wait for what it still has to do.

A volatile cache takes writes at once, and a persistent cache without room then has bands cleaned for each of
them: after the last write of a test, reads and FLUSHes may wait for minutes each, for an hour. That says
nothing of where a block lies or how the platters turn, and would use up the device time of a test that
looks for this. So such a test begins with a few lone reads anywhere, and as long as several of them wait, the
drive is left alone for a while.

Not waited for: one slow read of a few, as of a drive that had stopped its spindle, and waits of less than
bands take, as of a drive that cleans in idle time, between whose steps reads come. A drive that still writes
single blocks between them is not seen; a test that finds no rotation asks to be left alone for longer.

Invariants: reads only, and the time has a bound of its own; a replay takes the same turns, because they
follow from the logs.

Source: Skylight (FAST '15), section 4.5 (reads between the steps of cleaning); docs/architecture.md, idea 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skylight.evidence import IoBatch, Step, Stop

if TYPE_CHECKING:
    from skylight.probe.procedure import Steps

QUIET, PAUSE = "quiet", "quiet-pause"
"""The names of the reads and of the pauses between them."""
READS, BLOCK_BYTES = 32, 4096
SLOW_NS, SLOW_READS = 2_000_000_000, 2
"""As many reads that take as long say that the drive is busy. Chosen: a band of 30 MiB is read and written in
a second, and a step of cleaning is a third of that; a busy queue of another host takes less."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 600.0
MOST_WAIT_S = 7_200.0
"""Device time after which no pause follows. Chosen: more than an hour was seen on emulated drives; a person
has planned for the hours of a whole suite."""
MOST_S = 4 * MOST_WAIT_S
"""Device time that it can take with the reads under way when the last pause ends."""


def waiting(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps of each wait of a test, in their order: reads, and as long as they were slow a pause and
    reads again."""
    found, last = list[list[Step]](), ""
    for step in steps:
        name = re.sub(r"-\d+$", "", step.name)
        if name not in (QUIET, PAUSE):
            last = ""
            continue
        if last and PAUSE in (last, name):
            found[-1].append(step)
        else:
            found.append([step])
        last = name
    return found


def wait(steps: Steps, least_s: float = 0.0) -> bool:
    """Waits until the target is quiet, `least_s` before it is asked; whether it is. No step for a quick
    answer, which has no time for it. Not for zones: reads of what was never written may fail there."""
    if steps.known.quick:
        return True
    block = max(BLOCK_BYTES, steps.block_bytes)
    waited_s, pause_s = least_s, FIRST_PAUSE_S
    if least_s > 0.0:
        steps.pause(PAUSE, least_s)
    while True:
        at = steps.rng(f"{QUIET}-{waited_s}").integers(0, max(steps.size // block, 1), READS) * block
        log = steps.run(QUIET, IoBatch.reads(at, block), until=Stop(SLOW_NS, SLOW_READS, READS))
        if int(np.count_nonzero(log.latency_ns >= SLOW_NS)) < SLOW_READS:
            return True
        waited_s += log.span_ns / 1e9
        if waited_s >= MOST_WAIT_S:
            return False
        steps.pause(PAUSE, pause_s)
        waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
