"""A scratch file: part of a drive with data on it, that a probe may write to.

`ScratchFile` is a context manager: it makes a file in a folder of a mounted file system, writes all of it, so
that no read is answered without the drive and no write has to allocate, and removes it on exit, also on
Ctrl-C. Where the file lies is asked of the file system (FIEMAP). It is used only if it is one run of the
drive, or a few, and if a block that is written again stays where it was: a file system that copies on write
would be measured in place of the drive.

Invariants: nothing but the file is written; whatever is refused is refused before the probe, with the file
removed.

Source: Linux, Documentation/filesystems/fiemap.rst; ioctl_fs(2), `FS_IOC_FIEMAP`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from skylight.engines.direct_io import opened_direct
from skylight.errors import UsageError, reason_of
from skylight.evidence import JsonScalar

PREFIX = "skylight-scratch-"
SCRATCH_BYTES = 8 << 30
"""More than a volatile cache holds, and the regions of the drive type test eight times over."""
LEAST_BYTES = 2 << 30
FREE_PART = 0.5
"""Of the free space, at most."""
MOST_RUNS = 8
"""Pieces that a file may lie in: each border adds a seek that belongs to no drive."""
WRITE_BYTES = 1 << 20
BLOCK = 4096

FIEMAP = 0xC020660B
"""`_IOWR('f', 11, struct fiemap)`."""
_HEAD, _EXTENT = struct.Struct("=QQLLLL"), struct.Struct("=QQQQQLLLL")
_SYNC, _LAST = 1, 1
_EXTENTS = 512
_USELESS = {
    0x0002: "says nothing of where it lies",
    0x0004: "has not allocated it yet",
    0x0008: "compresses or encrypts it",
    0x0080: "encrypts it",
    0x0100: "does not align it",
    0x0200: "keeps it among its own data",
    0x0400: "packs it with other files",
    0x0800: "keeps it as unwritten",
    0x2000: "shares it with another file",
}
"""Flags of an extent that does not lie on a drive as it was written."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a file that lies in one piece, bytes: where in the file, where on the device, how long."""

    logical: int
    physical: int
    length: int


def runs_of(descriptor: int, name: str) -> list[Run]:
    """The runs of a file, neighbours joined; refuses a file whose extents are no plain data."""
    runs: list[Run] = []
    at = 0
    while True:
        request = bytearray(_HEAD.size + _EXTENTS * _EXTENT.size)
        _HEAD.pack_into(request, 0, at, (1 << 64) - 1 - at, _SYNC, 0, _EXTENTS, 0)
        try:
            fcntl.ioctl(descriptor, FIEMAP, request)
        except OSError as error:
            raise UsageError(
                f"{name}: its file system does not say where a file lies ({reason_of(error)});"
                " choose a folder of a file system on the drive, such as ext4 or XFS"
            ) from error
        count = _HEAD.unpack_from(request)[3]
        for number in range(count):
            extent = _EXTENT.unpack_from(request, _HEAD.size + number * _EXTENT.size)
            logical, physical, length, flags = extent[0], extent[1], extent[2], extent[5]
            for flag, why in _USELESS.items():
                if flags & flag:
                    raise UsageError(f"{name}: its file system {why}; choose a folder of another one")
            at = logical + length
            last = runs[-1] if runs else None
            if last and (logical, physical) == (last.logical + last.length, last.physical + last.length):
                runs[-1] = Run(last.logical, last.physical, last.length + length)
            else:
                runs.append(Run(logical, physical, length))
            if flags & _LAST:
                return runs
        if count == 0:
            return runs


class ScratchFile:
    """A file of `size_bytes` in a folder, there while the `with` lasts."""

    def __init__(self, folder: Path, size_bytes: int | None = None) -> None:
        """Nothing is made yet. Without a size, as large as a probe needs and half the free space allows."""
        self.folder = folder
        self._asked_bytes = size_bytes
        self.path = folder
        self.runs: list[Run] = []

    def size(self) -> int:
        """How large it is, bytes; refuses a folder without space."""
        if self._asked_bytes is not None:
            return self._asked_bytes
        try:
            space = os.statvfs(self.folder)
        except OSError as error:
            raise self._refused(error) from error
        size = min(SCRATCH_BYTES, int(space.f_bavail * space.f_frsize * FREE_PART))
        if size < LEAST_BYTES:
            raise UsageError(
                f"{self.folder}: has too little space for a scratch file of {LEAST_BYTES >> 30} GiB, half of"
                " what is free at most; free some or choose another folder"
            )
        return size // WRITE_BYTES * WRITE_BYTES

    def __enter__(self) -> Self:
        """Makes the file and looks where it lies."""
        size = self.size()
        try:
            descriptor, path = tempfile.mkstemp(prefix=PREFIX, dir=self.folder)
        except OSError as error:
            raise self._refused(error) from error
        self.path = Path(path)
        try:
            try:
                os.posix_fallocate(descriptor, 0, size)
                self._write(size)
            except OSError as error:
                raise self._refused(error) from error
            self.runs = runs_of(descriptor, str(self.folder))
            self._check(descriptor, size)
        except BaseException:
            self._remove()
            raise
        finally:
            os.close(descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Removes the file."""
        self._remove()

    def declared(self) -> dict[str, JsonScalar]:
        """What is known of the file, beside what the disk below it declares."""
        first, last = self.runs[0], self.runs[-1]
        return {
            "scratch": True,
            "scratch_pieces": len(self.runs),
            "scratch_first_byte": first.physical,
            "scratch_last_byte": last.physical + last.length - 1,
        }

    def _write(self, size: int) -> None:
        """Writes all of it, past the page cache, with what no drive or file system can pack."""
        with opened_direct(self.path, os.O_WRONLY, WRITE_BYTES) as (descriptor, buffer):
            for at in range(0, size, WRITE_BYTES):
                buffer[:] = os.urandom(WRITE_BYTES)
                os.pwrite(descriptor, buffer, at)
            os.fsync(descriptor)

    def _check(self, descriptor: int, size: int) -> None:
        """Refuses a file that is scattered, or moves when it is written again."""
        if sum(run.length for run in self.runs) < size:
            raise UsageError(f"{self.folder}: its file system left holes in a file that was written whole")
        if len(self.runs) > MOST_RUNS:
            raise UsageError(
                f"{self.folder}: its free space is scattered: a file lies in {len(self.runs)} pieces, at most"
                f" {MOST_RUNS} can be probed; choose a file system with more space in one piece"
            )
        with opened_direct(self.path, os.O_WRONLY, BLOCK) as (again, buffer):
            buffer[:] = os.urandom(BLOCK)
            os.pwrite(again, buffer, size // 2 // BLOCK * BLOCK)
            os.fsync(again)
        if runs_of(descriptor, str(self.folder)) != self.runs:
            raise UsageError(
                f"{self.folder}: its file system writes a block elsewhere when it is written again (copy on"
                " write), so a probe would not see the drive; choose a folder of ext4 or XFS"
            )

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _refused(self, error: OSError) -> UsageError:
        if error.errno == errno.ENOSPC:
            return UsageError(f"{self.folder}: no space for the scratch file; choose another folder")
        reason = reason_of(error)
        return UsageError(
            f"{self.folder}: no scratch file can be made there: {reason}; choose another folder"
        )
