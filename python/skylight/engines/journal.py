"""The journal of what a run overwrites on a drive whose data is kept: read and durable before the first
overwrite, and put back at the end.

A file: a line of JSON that names the drive, then pieces. A piece is a head (magic, number, extents, bytes,
and the checksum of these and of the table), a table of extents (offset and length, bytes), the data of the
extents, and its checksum. Extents never overlap.

Invariants: a piece is on disk, durably, before anything that it holds is overwritten, and pieces follow one
another, so that what is not whole is the end of the file and belongs to no overwrite; anything else is damage
and is said. Only what a run wrote is put back: each of its sectors begins with a magic and its own address
(`crates/host/src/arena.rs`), and a sector that holds neither these nor the old data was written by somebody
else since, and is left alone.

Source: docs/preserve.md.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from skylight.errors import KeepError, TargetError, UsageError
from skylight.evidence import U8, U64
from skylight.units import format_size

FORMAT = 1
HEAD = struct.Struct("<8sIIQI")
"""Magic, number of the piece, extents, bytes of data, checksum of the others and the table."""
SUM = struct.Struct("<I")
MAGIC = b"SKYKEEP1"
PIECE_BYTES = 64 << 20
"""Data of a piece at most. Chosen: it is in memory twice while it is read."""
READ_BYTES = 1 << 20
"""Bytes of one read or write of the drive, from and to an aligned buffer."""
SECTOR_BYTES, STAMP = 512, b"SKYLIGHT"
"""What a run writes: in each sector the stamp, then its offset, 8 bytes little-endian."""

Extent = tuple[int, int]
"""Offset and length, bytes."""


@dataclass(frozen=True, slots=True)
class PutBack:
    """What was put back: bytes that a run had overwritten, and bytes that somebody else wrote since."""

    bytes_put: int
    bytes_of_others: int

    @property
    def words(self) -> str:
        """For a person."""
        others = ""
        if self.bytes_of_others:
            size = format_size(self.bytes_of_others)
            others = f"; {size} were written by others since, and are left as they are"
        return f"{format_size(self.bytes_put)} of the old data are back{others}"


class Kept:
    """Extents that are in a journal already."""

    def __init__(self) -> None:
        """None yet."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    def new(self, offsets: U64, lengths: U64) -> list[Extent]:
        """What of these extents is not in it, merged and in order; it counts as kept from now on."""
        fresh: list[Extent] = []
        for start, end in _merged(offsets, lengths):
            at, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            place = start
            for known in range(at, last):
                if place < self._starts[known]:
                    fresh.append((place, self._starts[known] - place))
                place = max(place, self._ends[known])
            if place < end:
                fresh.append((place, end - place))
            joined = (min([start, *self._starts[at:last][:1]]), max([end, *self._ends[at:last][-1:]]))
            self._starts[at:last], self._ends[at:last] = [joined[0]], [joined[1]]
        return fresh


def _merged(offsets: U64, lengths: U64) -> Iterator[tuple[int, int]]:
    """Starts and ends of the union of extents, in order."""
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate(starts + lengths[order])
    first = np.concatenate([[True], starts[1:] > ends[:-1]]) if len(starts) else np.zeros(0, np.bool_)
    last = np.concatenate([first[1:], [True]]) if len(starts) else first
    yield from zip(starts[first].tolist(), ends[last].tolist(), strict=True)


def _direct(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)


def _read(descriptor: int, aligned: mmap.mmap, offset: int, length: int) -> bytes:
    got = os.preadv(descriptor, [memoryview(aligned)[:length]], offset)
    if got != length:
        raise OSError(errno.EIO, "only a part could be read")
    return aligned[:length]


class Journal:
    """A journal that is being written."""

    def __init__(self, path: Path, target: str, key: str) -> None:
        """Begins it, for the drive of that path and key; durable when this returns."""
        self.path, self._target = path, target
        self._kept, self._number = Kept(), 0
        header = {"skylight preserved": FORMAT, "target": os.path.abspath(target), "key": key}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("xb")
            self._file.write(json.dumps(header).encode() + b"\n")
            self._sync()
            sync_folder(path.parent)
        except OSError as error:
            raise self._unkept(error) from error

    def keep(self, offsets: U64, lengths: U64) -> None:
        """Reads what is about to be overwritten and not kept yet; durable when this returns."""
        piece, size = list[Extent](), 0
        for start, length in self._kept.new(offsets, lengths):
            for at in range(start, start + length, READ_BYTES):
                piece.append((at, min(READ_BYTES, start + length - at)))
                size += piece[-1][1]
                if size >= PIECE_BYTES:
                    self._write(piece)
                    piece, size = [], 0
        if piece:
            self._write(piece)

    def _write(self, extents: list[Extent]) -> None:
        try:
            descriptor = _direct(self._target, os.O_RDONLY)
            try:
                with mmap.mmap(-1, READ_BYTES) as aligned:
                    data = b"".join(_read(descriptor, aligned, *extent) for extent in extents)
            finally:
                os.close(descriptor)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise TargetError(
                f"{self._target}: what is to be kept cannot be read: {why}; check its health (smartctl -a)"
            ) from error
        table = np.array(extents, "<u8").tobytes()
        start = HEAD.pack(MAGIC, self._number, len(extents), len(data), 0)[: -SUM.size]
        self._number += 1
        try:
            for part in (start, SUM.pack(zlib.crc32(start + table)), table, data, SUM.pack(zlib.crc32(data))):
                self._file.write(part)
            self._sync()
        except OSError as error:
            raise self._unkept(error) from error

    def _sync(self) -> None:
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def _unkept(self, error: OSError) -> KeepError:
        why = os.strerror(error.errno or 0)
        return KeepError(f"{self.path}: cannot keep what would be overwritten: {why}; choose another --out")

    def close(self) -> None:
        """Closes the file; it stays."""
        self._file.close()


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def header_of(path: Path) -> dict[str, str]:
    """Path and key of the drive of a journal."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline(1 << 16))
            if header["skylight preserved"] == FORMAT:
                return {"target": str(header["target"]), "key": str(header["key"])}
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise KeepError(
            f"{path}: the journal of kept data cannot be read: {why}; make it readable"
        ) from error
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(
        f"{path}: is no journal of kept data that this version reads; use the version that wrote it"
    )


def _pieces(file: BinaryIO, end: int) -> Iterator[tuple[list[Extent], bytes | None]]:
    """Extents and data of each piece; data is None where it is not whole. Without extents nothing is known of
    what follows."""
    while len(head := file.read(HEAD.size)) == HEAD.size:
        magic, _, extents, size, check = HEAD.unpack(head)
        table = file.read(extents * 16) if magic == MAGIC and extents * 16 <= end else b""
        if magic != MAGIC or zlib.crc32(head[: -SUM.size] + table) != check:
            if _more(file):
                yield [], None
            return
        data, ending = file.read(size), file.read(SUM.size)
        rows = [(int(at), int(length)) for at, length in np.frombuffer(table, "<u8").reshape(-1, 2)]
        whole = len(ending) == SUM.size and SUM.unpack(ending)[0] == zlib.crc32(data)
        yield rows, data if whole else None


def _more(file: BinaryIO) -> bool:
    """Whether a piece begins somewhere behind."""
    behind = b""
    while chunk := file.read(1 << 20):
        if MAGIC in behind + chunk:
            return True
        behind = chunk[-len(MAGIC) :]
    return False


def put_back(path: Path, target: str) -> PutBack:
    """Puts back what a journal holds, as far as a run overwrote it, and flushes the drive. Raises
    `TargetError` where that fails; the journal stays in every case."""
    put, others, damaged = 0, 0, False
    try:
        descriptor = _direct(target, os.O_RDWR)
        try:
            with path.open("rb") as file, mmap.mmap(-1, READ_BYTES) as aligned:
                end = os.fstat(file.fileno()).st_size
                file.readline(1 << 16)
                for extents, data in _pieces(file, end):
                    if data is None:  # the torn end, unless what it names was overwritten
                        damaged |= not extents or any(_has_ours(descriptor, aligned, *e) for e in extents)
                        continue
                    for (offset, length), old in zip(extents, _cut(extents, data), strict=True):
                        ours, theirs = _put(descriptor, aligned, offset, length, old)
                        put, others = put + ours, others + theirs
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise TargetError(
            f"{target}: the data that was overwritten cannot be put back: {why}; it is kept in {path}: run"
            " skylight restore when the drive is back"
        ) from error
    if damaged:
        raise TargetError(
            f"{path}: a part of the journal is damaged, so a part of {target} could not be put back; the rest"
            " is; restore that part from a backup"
        )
    return PutBack(put, others)


def _cut(extents: Iterable[Extent], data: bytes) -> Iterator[bytes]:
    at = 0
    for _, length in extents:
        yield data[at : at + length]
        at += length


def _ours(now: U8, offset: int) -> NDArray[np.bool_]:
    """Which of these sectors, from an offset on, a run wrote."""
    address = (offset + SECTOR_BYTES * np.arange(len(now), dtype="<u8")).view(np.uint8).reshape(-1, 8)
    stamped = (now[:, :8] == np.frombuffer(STAMP, np.uint8)).all(axis=1)
    return np.asarray(stamped & (now[:, 8:16] == address).all(axis=1))


def _sectors(data: bytes) -> U8:
    return np.frombuffer(data, np.uint8).reshape(-1, SECTOR_BYTES)


def _has_ours(descriptor: int, aligned: mmap.mmap, offset: int, length: int) -> bool:
    """Whether a run wrote in an extent."""
    return bool(_ours(_sectors(_read(descriptor, aligned, offset, length)), offset).any())


def _put(descriptor: int, aligned: mmap.mmap, offset: int, length: int, old: bytes) -> tuple[int, int]:
    """Puts back the sectors of an extent that a run wrote; their bytes, and those of somebody else's."""
    now, was = _sectors(_read(descriptor, aligned, offset, length)), _sectors(old)
    ours, differs = _ours(now, offset), (now != was).any(axis=1)
    if (ours & differs).any():
        aligned[:length] = np.where(ours[:, None], was, now).tobytes()
        if os.pwritev(descriptor, [memoryview(aligned)[:length]], offset) != length:
            raise OSError(errno.EIO, "only a part could be written")
    put, others = np.count_nonzero(ours & differs), np.count_nonzero(~ours & differs)
    return int(put) * SECTOR_BYTES, int(others) * SECTOR_BYTES
