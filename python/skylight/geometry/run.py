"""Runs an extraction on a live target, resumes one, or repeats one over its recording.

Invariant: a live run infers from the recording that it reads back, so both yield the same geometry.

Source: docs/architecture.md, "Five ideas that carry everything", 3; docs/recordings.md.
"""

from __future__ import annotations

from pathlib import Path

from skylight.engines import Engine
from skylight.errors import KeepError, UsageError
from skylight.evidence import Evidence, JsonScalar, TargetFacts
from skylight.findings import Known
from skylight.geometry.extract import OTHER_READS, READS_A_ZONE, extract
from skylight.geometry.result import Geometry
from skylight.probe import Cost
from skylight.probe.procedure import CutShort, Replay, Steps
from skylight.probe.progress import Meter, Progress
from skylight.probe.session import Session
from skylight.probe.suite import digest_of
from skylight.recording import Recording, recording_dir

TEST = "geometry"
READ_S = 0.008
USUAL_ZONES = 24


def estimate(facts: TargetFacts) -> Cost:
    """Cost of an extraction on a disk with a typical number of zones."""
    del facts
    reads = USUAL_ZONES * READS_A_ZONE + OTHER_READS
    return Cost(reads, reads * READ_S, 0)


def options(access_from: int) -> dict[str, JsonScalar]:
    """The options that a recording keeps."""
    return {
        "verb": "geometry extract",
        "access_from": access_from,
        "suite": digest_of("infer", "probe", "geometry"),
    }


def measure(
    engine: Engine, out: Path, *, seed: int = 1, access_from: int = 0, resume: bool = False,
    progress: Progress | None = None,
) -> Geometry:  # fmt: skip
    """Measures a live target into the recording `out`, and infers the geometry from it."""
    facts = engine.describe()
    wanted = options(access_from)
    if resume:
        recording = Recording.open(out)
        recording.check_same_run(facts, wanted, seed)
    else:
        recording = Recording.create(out, facts, wanted, seed)
    before = recording.evidence(TEST)
    if before is None or not before.complete:
        with recording.part(TEST) as writer:
            session = Session(
                engine, writer, test=TEST, seed=recording.seed, before=before,
                meter=Meter(progress, TEST, total_ios=estimate(facts).ios),
            )  # fmt: skip
            _extract(session, access_from)
            writer.complete()
    kept = recording.evidence(TEST)
    if kept is None:
        raise KeepError(f"{out}: the evidence of the extraction vanished; choose another --out")
    return of_evidence(kept, access_from)


def _extract(steps: Steps, access_from: int) -> Geometry:
    """The extraction with the caches off, live or over its recording."""
    with steps.settings("settings", write_cache=False, look_ahead=False):
        return extract(steps, access_from)


def of_evidence(evidence: Evidence, access_from: int) -> Geometry:
    """The geometry from evidence."""
    try:
        return _extract(Replay(evidence, Known()), access_from)
    except CutShort as stop:
        if evidence.complete:
            raise UsageError(
                f"{evidence.target.name}: another version made this recording, its steps differ from {stop}"
                " on; read it with that version, or extract again"
            ) from stop
        raise UsageError(
            f"{evidence.target.name}: the recording ends at step {stop}; continue it with --resume"
        ) from stop


def of_recording(path: Path) -> Geometry:
    """The geometry from the recording in a directory; no target is touched."""
    where = recording_dir(path)
    recording = Recording.open(where)
    evidence = recording.evidence(TEST)
    if evidence is None:
        raise UsageError(
            f"{where}: contains no extraction; give a recording made by `skylight geometry extract`"
        )
    start = recording.options.get("access_from")
    return of_evidence(evidence, start if isinstance(start, int) else 0)
