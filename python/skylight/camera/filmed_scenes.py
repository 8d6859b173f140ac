"""Movements that are worth filming: an emulated drive cleans a band, or is read from end to end.

Each is done on a new drive while its head is traced; `render` films the trace.

Source: Skylight (FAST '15), sections 4.5 and 4.9, Figures 11 and 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skylight import _native
from skylight.camera.arm_motion import read_trace
from skylight.engines.head_trace import HeadTraceFile
from skylight.engines.sim import SimEngine
from skylight.errors import UsageError
from skylight.evidence import IoBatch

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Every other block of a part of a band is rewritten, so that the drive cleans it when it is idle.
BLOCKS, BLOCK = 512, 4 * KIB
# Every multiple of this begins a band on each of the emulated drives.
ALIGNED = 200 * MIB
IDLE_S = 10.0
# What is filmed of a cleaning: the rest before it, and until the head is parked after it.
BEFORE_S, AFTER_S, CLEANING_HZ = 1.0, 0.8, 480.0
# Long reads at the outer, the middle and the inner diameter, as shares of the drive, and a rest after each; a
# stroke of a surface takes two minutes.
PASSES = ((0.0, 50 * GIB), (0.48, 50 * GIB), (0.95, 20 * GIB))
READ, REST_S, PASSES_HZ = 8 * MIB, 30.0, 0.5


@dataclass(frozen=True)
class Scene:
    """A head trace, and which part of it to film: s from the first access, and frames/s."""

    kept: str
    """The trace in words."""
    start_s: float
    seconds: float
    rate_hz: float


def play(drive: str, scene: str, trace: Path, at: float) -> Scene:
    """Lets a new emulated drive do what is filmed; a cleaning is that of a band at `at`, a share of the
    drive."""
    engine = SimEngine.open(drive)
    if isinstance(engine.drive, _native.SimDrive):  # what the arm does is to follow from the commands alone
        engine.drive.set_look_ahead(False)
        engine.drive.set_write_cache(False)
    with HeadTraceFile(trace, engine) as kept:
        if scene == "cleaning":
            first = int(at * engine.size) // ALIGNED * ALIGNED
            engine.run(IoBatch.writes(first + np.arange(BLOCKS) * 2 * BLOCK, BLOCK))
            engine.pause(IDLE_S)
        else:
            for share, length in PASSES:
                count = min(length, int((1 - share) * engine.size)) // READ
                first = int(share * engine.size) // READ * READ
                engine.run(IoBatch.reads(first + np.arange(count) * READ, READ))
                engine.pause(REST_S)
    done = read_trace(trace)
    if scene == "passes":
        return Scene(kept.summary(), 0.0, round(float(done.since_s[-1]), 1), PASSES_HZ)
    begins = done.since_s[done.purpose == "clean_read"]
    if len(begins) == 0:
        trace.unlink()
        raise UsageError(
            f"{drive} does not clean within {IDLE_S:g} s of being idle; take one that does, as st5000as0011"
        )
    start_s = max(0.0, float(begins[0]) - BEFORE_S)
    return Scene(
        kept.summary(), round(start_s, 2), round(float(done.since_s[-1]) + AFTER_S - start_s, 1), CLEANING_HZ
    )
