"""Keeps logs of fio as a recording: they are inferred from, reported and read again like any evidence.

Invariant: each log becomes one step, whole; the same logs give the same bytes.
Source: docs/recordings.md.
"""

from __future__ import annotations

from pathlib import Path

from skylight.engines.fio_log import DriveLogs
from skylight.evidence import Op
from skylight.probe.fragmented_reads import FragmentedReads
from skylight.probe.write_rates.fio_write_logs import LoggedWrites
from skylight.recording import Recording


def keep_logs(drive: DriveLogs, recording: Path) -> None:
    """Writes the logs of a drive as a recording into the directory `recording`."""
    kept = Recording.create(recording, drive.facts, {"writes": False}, 0)
    for name, writes in ((FragmentedReads.name, False), (LoggedWrites.name, True)):
        logs = [log for log in drive.logs if bool(log.rows.op[0] == int(Op.WRITE)) is writes]
        if not logs:
            continue
        with kept.part(name) as part:
            for log in logs:
                part.begin(log.name, "run", log.params)
                part.rows(log.rows)
                part.end()
            part.complete()
