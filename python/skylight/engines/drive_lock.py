"""A lock for each drive whose settings are changed: its restore note belongs to one run at a time, also where
the drive has several names.

Invariants: a lock is the kernel's (`flock`), so that it ends with its process however that ends; its file is
removed only by who holds it, and who gets the lock of a removed file tries again.

Source: flock(2).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from skylight.errors import KeepError, UsageError, reason_of


class DriveLock:
    """The lock of one drive, held until it is released."""

    def __init__(self, drive: str, file: Path) -> None:
        """Takes the lock of `drive`, named in messages, at `file`; refuses where another run has it."""
        self._file = file
        self._descriptor = -1
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            while not self._taken(drive):
                pass
        except OSError as error:
            reason = reason_of(error)
            raise KeepError(
                f"{file}: cannot keep the restore note: its lock: {reason}; make its directory"
                " writable, or set SKYLIGHT_STATE to another one"
            ) from error

    def _taken(self, drive: str) -> bool:
        """Takes the lock; False if its file was removed meanwhile."""
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.fstat(descriptor)
            with suppress(FileNotFoundError):
                if os.path.samestat(ours, os.stat(self._file)):
                    self._descriptor, descriptor = descriptor, -1
                    return True
        except BlockingIOError as error:
            raise UsageError(
                f"{drive}: another run changes the settings of this drive (it has {self._file}); wait for"
                " its end"
            ) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return False

    def release(self) -> None:
        """Gives the lock up. Does nothing the second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._file.unlink(missing_ok=True)
            os.close(descriptor)
