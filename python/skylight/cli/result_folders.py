"""The targets of a command line, their names, and the folders of their results.

Invariant: a folder that holds results is never written to, but by a run that resumes it or reads it again. A
report without recordings of its own is written again only from recordings of the same targets.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skylight.engines import Target, parse_target
from skylight.engines.fio_log import short_name
from skylight.errors import UsageError
from skylight.recording import RECORDING_DIR, Recording, recording_dir
from skylight.report import FINDINGS_NAME, REPORT_NAME

__all__ = ["Job", "check_out", "jobs_of"]

DEFAULT_OUT = Path("skylight-report")


@dataclass(frozen=True)
class Job:
    """One target of the command line, its name, and the folder of its results."""

    target: Target
    name: str
    folder: Path

    @property
    def recording(self) -> Path:
        """Directory of the evidence: written by this run, or read again."""
        if self.target.kind == "recording":
            return recording_dir(Path(self.target.name))
        return self.folder / RECORDING_DIR


def _short_name(target: Target) -> str:
    """A directory name for a target: the drive's name, the profile's or file's stem, the device's last path
    component."""
    path = Path(target.name)
    if target.kind == "fio-log":
        name = short_name(target.name)
    elif target.kind == "recording":
        path = path.absolute()
        name = path.parent.name if path.name == RECORDING_DIR else path.name
    else:
        name = path.stem if target.kind == "sim" and path.suffix == ".toml" else path.name
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip(".-") or "target"


def jobs_of(specs: Sequence[str], out: Path | None, resume: bool) -> tuple[list[Job], Path]:
    """The jobs and the directory of the report; without `out` a new one or, with `resume`, the newest."""
    targets = [parse_target(spec) for spec in specs]
    names: list[str] = []
    for target in targets:
        name = _short_name(target)
        same = sum(
            other == name or re.fullmatch(re.escape(name) + r"-\d+", other) is not None for other in names
        )
        names.append(f"{name}-{same + 1}" if same else name)
    if len(targets) == 1:
        page = _default_out(names[0], targets, resume) if out is None else out
        return [Job(targets[0], names[0], page)], page
    joined = "-and-".join(names) if len(names) < 4 else f"{names[0]}-and-{len(names) - 1}-more"
    page = _default_out(joined, targets, resume) if out is None else out
    return [Job(target, name, page / name) for target, name in zip(targets, names, strict=True)], page


def _default_out(name: str, targets: Sequence[Target], resume: bool) -> Path:
    """The first of NAME, NAME-2, NAME-3 .. that is free; to resume, the last one before it."""
    pages = (DEFAULT_OUT / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    last = page = next(pages)
    while _taken(page):
        if any(lies_in(target, page) for target in targets):
            return page  # the report of this recording is rewritten
        last, page = page, next(pages)
    return last if resume else page


def _taken(page: Path) -> bool:
    """Whether something occupies the place of a report."""
    try:
        return page.exists() and (not page.is_dir() or any(page.iterdir()))
    except OSError as error:
        raise UsageError(
            f"{page}: cannot be looked into: {error.strerror}; choose another --out DIR"
        ) from error


def lies_in(target: Target, page: Path) -> bool:
    """Whether a target is the recording of the report in that folder, or one of those that it compares."""
    if target.kind != "recording":
        return False
    folder = recording_dir(Path(target.name)).resolve().parent
    return page.resolve() in (folder, folder.parent)


def check_out(page: Path, jobs: Sequence[Job], resume: bool) -> None:
    """Refuses a directory that is not empty, unless this run continues the one in it."""
    live = [job for job in jobs if job.target.kind not in ("recording", "fio-log")]
    if resume and all(job.target.kind == "recording" for job in jobs):
        raise UsageError("--resume: a recording is read again whole; omit --resume")
    if resume and live and not any(Recording.is_begun(job.recording) for job in live):
        where = " and ".join(str(job.folder) for job in live)
        raise UsageError(f"{where}: holds no run to resume; name its folder with --out, or omit --resume")
    if not _taken(page) or (resume and page.is_dir()):
        return
    if not page.is_dir():
        raise UsageError(f"{page}: is not a folder; choose another with --out DIR")
    if any(lies_in(job.target, page) for job in jobs):
        _check_live(jobs)
        return  # the report of this recording is rewritten
    if _shows_the_same(page, jobs):
        return
    mend = "choose another with --out DIR"
    if any(job.target.kind != "recording" and Recording.is_begun(job.recording) for job in jobs):
        mend += ", or resume the run in it with --resume"
    raise UsageError(f"{page}: already there and not empty; {mend}")


def _shows_the_same(page: Path, jobs: Sequence[Job]) -> bool:
    """Whether the folder holds a report alone, and that of the targets of these recordings, in order."""
    if any(job.target.kind != "recording" for job in jobs):
        return False
    try:
        if {path.name for path in page.iterdir()} != {FINDINGS_NAME, REPORT_NAME}:
            return False
        found = json.loads((page / FINDINGS_NAME).read_text(encoding="utf-8"))
        shown = [each["target"] for each in found.get("targets", [found])]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return False  # another program wrote it
    return shown == [Recording.open(job.recording).target.to_json() for job in jobs]


def _check_live(jobs: Sequence[Job]) -> None:
    """Refuses live targets whose folder already contains a recording."""
    for job in jobs:
        if job.target.kind != "recording" and Recording.is_begun(job.recording):
            raise UsageError(
                f"{job.recording}: already contains a recording; use --resume or choose another --out"
            )
