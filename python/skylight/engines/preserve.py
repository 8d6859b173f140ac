"""The engine for a drive whose data is kept: what a batch overwrites is in a journal before, and is put back
when the engine closes.

What survives what: an error, Ctrl-C, SIGTERM and the end of the run are for the engine itself. SIGKILL leaves
the guard (`guard.py`), which opens the drive as soon as it is free. Where the guard is killed too, or the
power fails, the next run that may write to the drive does it before anything else, and `skylight restore` at
any time. A note in the folder of restore notes names the journal.

Invariants: nothing is written before its journal and its note are durable; TRIM, zone commands and erases are
not sent; the journal is removed only after the drive was flushed, and after it its note.

Source: docs/preserve.md.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np

from skylight import _native
from skylight.engines.device import PRESERVE_NOTE, DeviceEngine, notes, state_dir
from skylight.engines.erase import Erase, Offer
from skylight.engines.guard import Guard
from skylight.engines.journal import Journal, PutBack, header_of, put_back, sync_folder
from skylight.errors import KeepError, UsageError
from skylight.evidence import IoBatch, IoLog, Op

JOURNAL = "preserved.journal"
"""The journal's name, in the folder of the results."""
MOST_BYTES = 4 << 30
"""What a test may write, if it is to be kept. Chosen: read in minutes, and space that a home has."""
_WRITES = (int(Op.WRITE), int(Op.WRITE_FUA))
_HARMLESS = (int(Op.READ), int(Op.FLUSH))


def key_of(path: str, key: str | None) -> str:
    """The name of a target's notes: that of its drive; of a file, one of its path."""
    if key is not None:
        return key
    return f"file-{hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]}"


class PreservingEngine(DeviceEngine):
    """A block device or plain file whose data is kept."""

    _journal: Journal | None = None
    _journal_path: Path

    @classmethod
    def keeping(cls, path: str, journal: Path, root: str | None = None) -> Self:
        """Opens a device or file; what is overwritten goes to a journal at that path."""
        engine = cls.open(path, destroy_data=True, root=root, declared={"preserved": True}, preserve=True)
        engine._journal_path = journal.absolute()
        if engine.zone_layout() is not None:
            engine.close()
            raise UsageError(f"{path}: has zones, whose write pointers cannot be put back; omit --preserve")
        return engine

    def _run(self, io: IoBatch, depth: int) -> IoLog:
        writes = np.isin(io.op, _WRITES)
        if not np.isin(io.op, (*_WRITES, *_HARMLESS)).all():
            raise UsageError(
                f"{self._path}: what TRIM and zone commands do cannot be put back; omit --preserve"
            )
        if writes.any():
            self._begun().keep(io.offset[writes], io.size[writes].astype(np.uint64))
        return super()._run(io, depth)

    def _begun(self) -> Journal:
        """The journal; its note is on disk before it is used."""
        if self._journal is None:
            key = key_of(self._path, self._host.key)
            note = state_dir() / f"{key}{PRESERVE_NOTE}"
            self._journal = Journal(self._journal_path, self._path, key)
            _write_note(note, self._journal_path)
            if self._guard is None:
                with suppress(OSError):  # then the next run does it
                    self._guard = Guard(self._path, note.with_suffix(".restore"), self._root)
        return self._journal

    def trim(self) -> bool:
        """False: what TRIM discards cannot be put back."""
        return False

    def erase_offer(self, erase: Erase) -> Offer:
        """Refused: what is erased cannot be put back."""
        raise UsageError(f"{self._path}: --reset {erase} and --preserve contradict each other; omit one")

    def close(self) -> None:
        """Puts the data back, then the settings, and releases the device."""
        journal, self._journal = self._journal, None
        try:
            if journal is not None:
                journal.close()
                self.restored = _finish(journal.path, self._path, key_of(self._path, self._host.key))
        finally:
            super().close()

    restored: PutBack | None = None
    """What was put back, once it is closed."""


def _write_note(note: Path, journal: Path) -> None:
    """Names the journal of a drive, durably."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            file.write(f"{journal}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(note)
        sync_folder(note.parent)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise KeepError(
            f"{note}: cannot be written: {why}; make its folder writable, or set SKYLIGHT_STATE to another"
        ) from error


def _finish(journal: Path, path: str, key: str) -> PutBack:
    """Puts back, and removes journal and note."""
    done = put_back(journal, path)
    journal.unlink(missing_ok=True)
    with suppress(OSError):
        sync_folder(journal.parent)
    (state_dir() / f"{key}{PRESERVE_NOTE}").unlink(missing_ok=True)
    return done


def restore(journal: Path, target: str | None = None, root: str | None = None) -> PutBack:
    """Puts back what a run that was cut short overwrote; `target` is the drive's path if that is another one
    now. The drive is opened as for writing, and refused where it is in use or another one."""
    header = header_of(journal)
    path = target or header["target"]
    engine = DeviceEngine.open(path, destroy_data=True, root=root, preserve=True, restores=False)
    try:
        if key_of(path, engine._host.key) != header["key"]:
            raise UsageError(f"{path}: is not the drive of {journal}; name its path with --on")
        return _finish(journal, path, header["key"])
    finally:
        engine.close()


def restore_left(path: str, root: str | None) -> None:
    """Puts back what a run of this target left, if a note says so; refused where its journal is gone."""
    if not notes(PRESERVE_NOTE):
        return
    try:
        host = _native.HostDevice(path, False, root)
    except _native.HostError:
        return  # to open it for the run says why
    key = key_of(path, host.key)
    host.close()
    note = state_dir() / f"{key}{PRESERVE_NOTE}"
    try:
        journal = Path(note.read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise KeepError(f"{note}: cannot be read; make it readable") from error
    if not journal.exists():
        raise UsageError(
            f"{path}: a run was cut short that kept its data in {journal}, which is gone; find it, or delete"
            f" {note} to go on without that data"
        )
    restore(journal, path, root)
