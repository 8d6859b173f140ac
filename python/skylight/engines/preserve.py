"""The engine for a drive whose data is kept: what a batch overwrites is in a journal before, and is put back
when the engine closes.

What survives what: an error, Ctrl-C, SIGTERM and the end of the run are for the engine itself. SIGKILL leaves
the guard (`restore_guard.py`), which opens the drive as soon as it is free. Where the guard is killed too, or
the power fails, the next run that may write to the drive does it before anything else, and `skylight restore`
at any time. A note in the folder of restore notes names the journal.

Invariants: nothing is written before its journal and its note are durable; TRIM, zone commands and erases are
not sent; the journal is removed only after the drive was flushed, and after it its note. A journal is put
back only on the target that its header names, by key, size and start, and while no run holds it; and it stays
where nothing on that target is the run's, where something failed, and where writes are still in flight.

Source: docs/preserve.md.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from skylight import _native
from skylight.engines.device import (
    PRESERVE_NOTE,
    DeviceEngine,
    DeviceFailed,
    notes,
    state_dir,
)
from skylight.engines.device_protocols import Host
from skylight.engines.drive_lock import DriveLock
from skylight.engines.erase import Erase, Offer
from skylight.engines.restore_guard import Guard
from skylight.engines.undo_log import (
    SECTOR_BYTES,
    Header,
    Journal,
    PutBack,
    header_of,
    lock,
    put_back,
    sync_folder,
)
from skylight.errors import KeepError, TargetError, UsageError, reason_of
from skylight.evidence import EMPTY_LOG, WRITES, IoBatch, IoLog, Op, are_writes

JOURNAL = "preserved.journal"
"""The journal's name, in the folder of the results."""
MOST_BYTES = 4 << 30
"""What a test may write, if it is to be kept. Chosen: read in minutes, and space that a home has."""
_HARMLESS = (int(Op.READ), int(Op.FLUSH))


def key_of(path: str, key: str | None) -> str:
    """The name of a target's notes: that of its drive; of a file, one of its path."""
    if key is not None:
        return key
    return f"file-{hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]}"


def note_of(key: str) -> Path:
    """The note of a target's kept data."""
    return state_dir() / f"{key}{PRESERVE_NOTE}"


def _start_bytes(path: str, root: str | None) -> int:
    """Where a partition begins on its disk, bytes; 0 of everything else."""
    try:
        number = os.stat(path).st_rdev
        node = Path(root or "/") / f"sys/dev/block/{os.major(number)}:{os.minor(number)}/start"
        return int(node.read_text(encoding="ascii")) * SECTOR_BYTES
    except (OSError, ValueError):
        return 0


def _header(path: str, host: Host, root: str | None) -> Header:
    """What a journal of an open target names."""
    lasting = host.key is not None and host.identity().get("serial") is not None
    key = key_of(path, host.key)
    return Header(os.path.abspath(path), key, lasting, host.size_bytes, _start_bytes(path, root))


class PreservingEngine(DeviceEngine):
    """A block device or plain file whose data is kept."""

    _journal: Journal | None = None
    _in_flight = False
    """Whether a write was left to the drive that can still overwrite what is put back."""
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
        writes = are_writes(io.op)
        if not np.isin(io.op, (*WRITES, *_HARMLESS)).all():
            raise UsageError(
                f"{self._path}: what TRIM and zone commands do cannot be put back; omit --preserve"
            )
        if writes.any():
            self._begun().keep(io.offset[writes], io.size[writes].astype(np.uint64))
        before = self.counters()["writes"]
        try:
            return super()._run(io, depth)
        except BaseException as error:
            done = are_writes(getattr(error, "log", EMPTY_LOG).op).sum()
            failed = isinstance(error, DeviceFailed)  # one has ended without a row in the log
            self._in_flight |= self.counters()["writes"] - before > done + failed
            raise

    def _begun(self) -> Journal:
        """The journal; its note is on disk before it is used."""
        if self._journal is None:
            header = _header(self._path, self._host, self._root)
            note = note_of(header.key)
            if self._lock is None:
                self._lock = DriveLock(self._path, note.with_suffix(".lock"))
            if note.exists():  # of another partition
                raise UsageError(f"{self._path}: {note} names data of this drive that is not back; run again")
            self._journal = Journal(self._journal_path, header)
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
            if journal is not None and self._in_flight:
                if self._guard is not None:
                    self._guard.hold()
                raise TargetError(
                    f"{self._path}: writes are still in flight, so what was overwritten is not back yet; it"
                    f" is kept in {journal.path}: a guard puts it back when they have ended, or skylight"
                    " restore does"
                )
            if journal is not None:
                self.restored = _finish(journal.path, self._path, header_of(journal.path))
        finally:
            if journal is not None:
                journal.close()
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
        why = reason_of(error)
        raise KeepError(
            f"{note}: cannot be written: {why}; make its folder writable, or set SKYLIGHT_STATE to another"
        ) from error


def _finish(journal: Path, path: str, header: Header) -> PutBack:
    """Puts back, and removes journal and note."""
    note = note_of(header.key)
    done = put_back(journal, path, note)
    if done.bytes_of_others and not done.bytes_put:
        raise UsageError(
            f"{path}: nothing of the run of {journal} is on it, but other data is; if it is another drive,"
            f" name that run's with --on; if it is the same, its data is back: delete {journal} and {note}"
        )
    named = _named(note)
    own = named is not None and os.path.realpath(named) == os.path.realpath(journal)
    journal.unlink(missing_ok=True)
    with suppress(OSError):
        sync_folder(journal.parent)
    if own:
        note.unlink(missing_ok=True)
    return done


def _named(note: Path) -> Path | None:
    """The journal that a note names; None without a note."""
    try:
        return Path(note.read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise KeepError(f"{note}: cannot be read; make it readable") from error


def _check_same(journal: Path, of: Header, found: Header, chosen: bool) -> None:
    """Refuses a target that a journal is not of. A key that is good until the next boot or move says nothing
    after it: then the target is the one that a person chose, if it has the run's sectors."""
    if (of.size_bytes, of.start_bytes) != (found.size_bytes, found.start_bytes):
        raise UsageError(
            f"{found.target}: is not {of.target} whose data {journal} holds ({of.size_bytes} bytes from byte"
            f" {of.start_bytes} of its disk on); put that back first (skylight restore {journal.parent} --on"
            f" its path), or give it up: delete {journal} and {note_of(of.key)}"
        )
    if of.key == found.key:
        return
    if of.lasting or found.lasting:
        raise UsageError(f"{found.target}: is not the drive of {journal}; name its path with --on")
    if not chosen:
        raise UsageError(
            f"{found.target}: has no serial number to show whether it is the drive of {journal}; name its"
            " path with --on"
        )
    seen = put_back(journal, found.target, note_of(of.key), writes=False)
    if seen.bytes_put <= seen.bytes_of_others:
        raise UsageError(
            f"{found.target}: does not hold what the run of {journal} wrote, so it is not the drive of it, or"
            f" that data is back; name its path with --on, or delete {journal}"
        )


def restore(journal: Path, target: str | None = None, root: str | None = None) -> PutBack:
    """Puts back what a run that was cut short overwrote; `target` is the drive's path if that is another one
    now. The drive is opened as for writing, and refused where it is in use or another one."""
    header = header_of(journal)
    path = target or header.target
    with journal.open("rb") as file:
        lock(file, journal)
        if not journal.exists():
            return PutBack(0, 0)  # somebody else did it meanwhile
        engine = DeviceEngine.open(path, destroy_data=True, root=root, preserve=True, restores=False)
        try:
            _check_same(journal, header, _header(path, engine._host, root), target is not None)
            return _finish(journal, path, header)
        finally:
            engine.close()


def _check_earlier(found: Header, *, is_file: bool) -> None:
    """Refuses a drive without a serial number, whose key changes with each boot, where it holds what a run
    of an earlier boot wrote and kept."""
    for note in () if is_file or found.lasting else notes(PRESERVE_NOTE):
        journal = _named(note)
        if journal is None or not journal.exists():
            continue
        of = replace(header_of(journal, str(note)), target=found.target)
        if of == replace(found, key=of.key):
            seen = put_back(journal, found.target, note, writes=False)
            if seen.bytes_put > seen.bytes_of_others:
                raise UsageError(
                    f"{found.target}: holds what a run of an earlier boot wrote; put its data back first:"
                    f" skylight restore {journal.parent} --on {found.target}"
                )


def restore_left(path: str, root: str | None) -> PutBack | None:
    """Puts back what a run of this target left, if a note says so; refused where its journal is gone, or of
    another part of the drive."""
    if not notes(PRESERVE_NOTE):
        return None
    try:
        host = _native.HostDevice(path, False, root)
    except _native.HostError:
        return None  # to open it for the run says why
    header = _header(path, host, root)
    host.close()
    note = note_of(header.key)
    journal = _named(note)
    if journal is None:
        _check_earlier(header, is_file=host.key is None)
        return None
    if not journal.exists():
        raise UsageError(
            f"{path}: a run was cut short that kept its data in {journal}, which is gone; find it, or delete"
            f" {note} to go on without that data"
        )
    header_of(journal, str(note))
    return restore(journal, path, root)
