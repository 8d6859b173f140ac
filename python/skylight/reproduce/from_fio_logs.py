"""Row R1: the geometry of a real drive, from fio's latency logs alone.

The logs are of an ST8000AS0022 (`st8000as0022-fragmented-reads`): Skylight's test 2 as another group ran it,
near the first and the last address. No emulated drive takes part in this row.

Source: Skylight (FAST '15), section 4.4, Test 2; the README beside the logs.
"""

from __future__ import annotations

import os
from pathlib import Path

from skylight.engines.fio_log import read_logs
from skylight.errors import KeepError, SkylightError
from skylight.findings import Known
from skylight.probe.fragmented_reads import FragmentedReads
from skylight.probe.fragmented_reads.fio_log_recording import keep_logs
from skylight.probe.suite import infer_suite
from skylight.reproduce.emulated_drives import KIB, Lab
from skylight.reproduce.rows import Measured, NotAtHand, Ours, noted

LOGS = "st8000as0022-fragmented-reads"
SOURCES = {
    LOGS: "github.com/fenggangwu/fio-scripts",
    "st8000as0022-open-zones": "github.com/fgwu/libzbc",
    "st8000as0022-sustained-nonseq": "github.com/fgwu/libzbc",
}
"""The recordings that rows compare with, by the name of their folder, and who published them."""
DEFAULT_DATA = Path(__file__).parents[4] / "shared/data"  # beside the repository


def data_folder() -> Path:
    """The folder of the recordings of real drives: SKYLIGHT_DATA, or beside the repository."""
    return Path(os.environ.get("SKYLIGHT_DATA") or DEFAULT_DATA).resolve()


def recording_folder(name: str) -> Path:
    """The folder of a recording; raises NotAtHand where there is none."""
    folder = data_folder() / name
    if not folder.is_dir():
        raise NotAtHand(
            f"no recording at {folder}; SKYLIGHT_DATA names the folder of the recordings, and this one is"
            f" from {SOURCES[name]}"
        )
    return folder


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


@noted
def r1(lab: Lab) -> Measured:
    """Rotation, tracks, skew, seeks to the cache and the steps between cached blocks, from logs alone."""
    logs = recording_folder(LOGS)
    kept = lab.folder / LOGS
    try:
        keep_logs(read_logs(str(logs)), kept)
        result = infer_suite(kept)
    except KeepError:
        raise
    except SkylightError as error:
        return Measured({}, notes=(f"the logs cannot be used: {error}",))
    known = Known(result.findings)
    figures: dict[str, Ours] = {
        "rotation, ms": _scaled(known.number("rotation_ns"), 1e6),
        "cache, verdict": known.word("cache_location"),
        "a lesser step of cached blocks, revolutions": known.part("cache_step_turns", "od"),
        "a greater step of cached blocks, revolutions": known.part("cache_step_turns", "od 2"),
    }
    for name, key in (("low", "od"), ("high", "id")):
        figures |= {
            f"track, {name} addresses, KiB": _scaled(known.part("track_bytes", key), KIB),
            f"skew, {name} addresses, ms": _scaled(known.part("track_skew_ns", key), 1e6),
            f"seek to the cache, {name} addresses, ms": _scaled(known.part("seek_floor_ns", key), 1e6),
        }
    evidence = result.evidence[0]
    return Measured(figures, lambda: FragmentedReads().draw(evidence, result.findings))
