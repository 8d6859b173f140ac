"""The journal of what a run overwrites on a drive whose data is kept: read and durable before the first
overwrite, and put back at the end.

A file: a line of JSON that names the drive and the journal, then pieces. A piece is a head (magic, number,
extents, bytes, and the checksum of the line, of these and of the table), a table of extents (offset and
length, bytes), the data of the extents, and its checksum. Extents are whole physical blocks, and never
overlap.

Invariants: a piece is on disk, durably, before anything that it holds is overwritten, and pieces follow one
another, so that what is not whole is the end of the file and belongs to no overwrite; anything else is damage
and is said. Only what a run wrote is put back: each of its sectors begins with a magic and its own address
(`crates/host/src/arena.rs`), and a sector that holds neither these nor the old data was written by somebody
else since, and is left alone. A block that cannot be read any more is written anew whole: a write that the
power cut short leaves one. A run holds the lock of its journal (`flock`) as long as it lives.

Source: docs/preserve.md; flock(2).
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from skylight.engines.direct_io import opened_direct
from skylight.errors import KeepError, TargetError, UsageError, reason_of
from skylight.evidence import U8, U64
from skylight.units import format_size

FORMAT = 1
HEAD = struct.Struct("<8sIIQI")
"""Magic, number of the piece, extents, bytes of data, checksum of the journal's line, the others and the
table."""
SUM = struct.Struct("<I")
MAGIC = b"SKYKEEP1"
PIECE_BYTES = 64 << 20
"""Data of a piece at most. Chosen: it is in memory twice while it is read."""
READ_BYTES = 1 << 20
"""Bytes of one read or write of the drive, from and to an aligned buffer."""
SECTOR_BYTES, STAMP = 512, b"SKYLIGHT"
"""What a run writes: in each sector the stamp, then its offset, 8 bytes little-endian."""

PHYSICAL_BYTES = 4096
"""The largest physical block in use. What is kept are whole ones, because a write that the power cuts short
can take the rest of its block with it."""
GIVE_UP = 64
"""Blocks in succession that cannot be written, after which a drive counts as gone. Chosen: no write that was
cut short leaves so many."""
_OF_THE_MEDIUM = (errno.EIO, errno.ENODATA, errno.EILSEQ, errno.EREMOTEIO)
"""Errors of single blocks; the kernel reports an unreadable one as ENODATA or EIO."""

Extent = tuple[int, int]
"""Offset and length, bytes."""


@dataclass(frozen=True, slots=True)
class Header:
    """Whose data a journal holds: the path of the target; the key of its drive, which is `lasting` where it
    names that drive also after the next boot; its size, and its start on its disk, bytes."""

    target: str
    key: str
    lasting: bool
    size_bytes: int
    start_bytes: int


@dataclass(frozen=True, slots=True)
class PutBack:
    """What was put back: bytes that a run had overwritten, bytes that somebody else wrote since, and bytes
    that could not be read any more, and were written anew."""

    bytes_put: int
    bytes_of_others: int
    bytes_healed: int = 0

    @property
    def words(self) -> str:
        """For a person."""
        others = ""
        if self.bytes_healed:
            others = f"; {format_size(self.bytes_healed)} could not be read any more, and were written anew"
        if self.bytes_of_others:
            size = format_size(self.bytes_of_others)
            others += f"; {size} were written by others since, and are left as they are"
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


def _read(descriptor: int, aligned: mmap.mmap, offset: int, length: int) -> bytes:
    got = os.preadv(descriptor, [memoryview(aligned)[:length]], offset)
    if got != length:
        raise OSError(errno.EIO, "only a part could be read")
    return aligned[:length]


class Journal:
    """A journal that is being written."""

    def __init__(self, path: Path, header: Header) -> None:
        """Begins it, for the target of that header; durable, and locked, when this returns."""
        self.path, self._target, self._header = path, header.target, header
        self._kept, self._number = Kept(), 0
        # The identity keeps the checksums of a journal apart from those of one whose copy the drive holds.
        line = {"skylight preserved": FORMAT, "identity": os.urandom(8).hex(), **asdict(header)}
        text = json.dumps(line).encode() + b"\n"
        self._seed = zlib.crc32(text)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("xb")
            lock(self._file, path)
            self._file.write(text)
            self._sync()
            sync_folder(path.parent)
        except OSError as error:
            raise self._unkept(error) from error

    def keep(self, offsets: U64, lengths: U64) -> None:
        """Reads what is about to be overwritten and not kept yet; durable when this returns."""
        piece, size = list[Extent](), 0
        for start, length in self._kept.new(*self._whole_blocks(offsets, lengths)):
            for at in range(start, start + length, READ_BYTES):
                piece.append((at, min(READ_BYTES, start + length - at)))
                size += piece[-1][1]
                if size >= PIECE_BYTES:
                    self._write(piece)
                    piece, size = [], 0
        if piece:
            self._write(piece)

    def _whole_blocks(self, offsets: U64, lengths: U64) -> tuple[U64, U64]:
        """Offsets and lengths of the physical blocks that these extents touch."""
        block, begin = np.uint64(PHYSICAL_BYTES), np.uint64(self._header.start_bytes)
        first = np.maximum((offsets + begin) // block * block, begin) - begin
        ends = (offsets + lengths + begin + block - np.uint64(1)) // block * block - begin
        return first, np.minimum(ends, np.uint64(self._header.size_bytes)) - first

    def _write(self, extents: list[Extent]) -> None:
        try:
            with opened_direct(self._target, os.O_RDONLY, READ_BYTES) as (descriptor, aligned):
                data = b"".join(_read(descriptor, aligned, *extent) for extent in extents)
        except OSError as error:
            why = reason_of(error)
            raise TargetError(
                f"{self._target}: what is to be kept cannot be read: {why}; check its health (smartctl -a)"
            ) from error
        table = np.array(extents, "<u8").tobytes()
        start = HEAD.pack(MAGIC, self._number, len(extents), len(data), 0)[: -SUM.size]
        self._number += 1
        try:
            for part in (
                start,
                SUM.pack(zlib.crc32(start + table, self._seed)),
                table,
                data,
                SUM.pack(zlib.crc32(data)),
            ):
                self._file.write(part)
            self._sync()
        except OSError as error:
            raise self._unkept(error) from error

    def _sync(self) -> None:
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def _unkept(self, error: OSError) -> KeepError:
        why = reason_of(error)
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


def lock(file: BinaryIO, path: Path) -> None:
    """Takes the lock of a journal; refused where the run that writes it lives. Where the file system has no
    locks, that of the drive has to do (`drive_lock.py`)."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"{path}: a run or its guard is at work with it; wait for its end") from error
    except OSError:
        pass


def header_of(path: Path, note: str = "the note that names it") -> Header:
    """Whose data a journal holds; `note` is named where it cannot be told."""
    try:
        with path.open("rb") as file:
            line = json.loads(file.readline(1 << 16))
            if line["skylight preserved"] == FORMAT:
                size_bytes, start_bytes = int(line["size_bytes"]), int(line["start_bytes"])
                return Header(
                    str(line["target"]), str(line["key"]), bool(line["lasting"]), size_bytes, start_bytes
                )
    except OSError as error:
        why = reason_of(error)
        raise KeepError(
            f"{path}: the journal of kept data cannot be read: {why}; make it readable"
        ) from error
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(
        f"{path}: is no journal of kept data that this version reads; use the version that wrote it, or give"
        f" up that data: delete it and {note}"
    )


def _head(file: BinaryIO, at: int, seed: int) -> tuple[list[Extent], int] | None:
    """Extents and bytes of the piece whose head is at that place; None where there is none."""
    file.seek(at)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        return None
    _, _, extents, size, check = HEAD.unpack(head)
    table = file.read(extents * 16) if extents * 16 <= os.fstat(file.fileno()).st_size else b""
    if zlib.crc32(head[: -SUM.size] + table, seed) != check:
        return None
    return [(int(at), int(length)) for at, length in np.frombuffer(table, "<u8").reshape(-1, 2)], size


def _pieces(file: BinaryIO) -> Iterator[tuple[list[Extent], bytes | None]]:
    """Extents and data of each piece; data is None where it is not whole. Without extents nothing is known of
    what follows."""
    seed = zlib.crc32(file.readline(1 << 16))
    at = file.tell()
    while (head := _head(file, at, seed)) is not None:
        rows, size = head
        data, ending = file.read(size), file.read(SUM.size)
        at = file.tell()
        whole = len(ending) == SUM.size and SUM.unpack(ending)[0] == zlib.crc32(data)
        yield rows, data if whole else None
    if _more(file, at, seed):
        yield [], None


def _more(file: BinaryIO, at: int, seed: int) -> bool:
    """Whether a piece of this journal begins somewhere behind a place."""
    behind = b""
    file.seek(at)
    while chunk := file.read(1 << 20):
        text, found, after = behind + chunk, -1, file.tell()
        while (found := text.find(MAGIC, found + 1)) >= 0:
            if _head(file, after - len(text) + found, seed) is not None:
                return True
        file.seek(after)
        behind = text[1 - len(MAGIC) :]
    return False


def put_back(path: Path, target: str, note: Path, *, writes: bool = True) -> PutBack:
    """Puts back what a journal holds, as far as a run overwrote it, and flushes the drive; without `writes`
    it only counts. Raises `TargetError` where that fails, with the note's path; the journal stays in every
    case."""
    damaged = False
    try:
        flags = os.O_RDWR if writes else os.O_RDONLY
        with opened_direct(target, flags, READ_BYTES) as (descriptor, aligned), path.open("rb") as file:
            drive = _Drive(descriptor, aligned, writes=writes)
            for extents, data in _pieces(file):
                if data is None:  # the torn end, unless what it names was overwritten
                    damaged |= not extents or any(drive.has_ours(*extent) for extent in extents)
                    continue
                for (offset, _), old in zip(extents, _cut(extents, data), strict=True):
                    drive.put_back(offset, old)
            os.fsync(descriptor)
    except OSError as error:
        why = reason_of(error)
        raise TargetError(
            f"{target}: the data that was overwritten cannot be put back: {why}; it is kept in {path}: run"
            " skylight restore when the drive is back"
        ) from error
    if drive.failed:
        raise TargetError(
            f"{target}: {format_size(drive.failed)} of the old data cannot be written (the first at byte"
            f" {drive.first_failed}), the rest is back; all of it is kept in {path}: run skylight restore"
            f" again, or give up that part: delete {path} and {note}"
        )
    if damaged and writes:
        raise TargetError(
            f"{path}: a part of the journal is damaged, so a part of {target} could not be put back; the rest"
            f" is; restore that part from a backup, and delete {path} and {note}"
        )
    return PutBack(drive.put, drive.others, drive.healed)


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


class _Drive:
    """An open drive on which data is put back, and how much of it, bytes."""

    def __init__(self, descriptor: int, aligned: mmap.mmap, *, writes: bool) -> None:
        """The drive of a descriptor for direct I/O; without `writes` nothing is written to it."""
        self._descriptor, self._aligned, self._writes = descriptor, aligned, writes
        self.put, self.others, self.healed, self.failed = 0, 0, 0, 0
        self.first_failed, self._in_succession = 0, 0

    def has_ours(self, offset: int, length: int) -> bool:
        """Whether a run wrote in an extent, or may have: where it cannot be read."""
        try:
            now = _read(self._descriptor, self._aligned, offset, length)
        except OSError as error:
            if error.errno not in _OF_THE_MEDIUM:
                raise
            return True
        return bool(_ours(_sectors(now), offset).any())

    def put_back(self, offset: int, old: bytes) -> None:
        """Puts back the sectors from an offset on that a run wrote, and the blocks that cannot be read."""
        try:
            now, was = _sectors(_read(self._descriptor, self._aligned, offset, len(old))), _sectors(old)
        except OSError as error:
            if self._in_steps(offset, old, error):
                return
            if not self._writes or self._written(offset, old):
                self.healed += len(old)
            return
        ours, differs = _ours(now, offset), (now != was).any(axis=1)
        new = np.where(ours[:, None], was, now).tobytes()
        if self._writes and (ours & differs).any() and not self._written(offset, new, old):
            return
        self.put += int(np.count_nonzero(ours & differs)) * SECTOR_BYTES
        self.others += int(np.count_nonzero(~ours & differs)) * SECTOR_BYTES

    def _in_steps(self, offset: int, old: bytes, error: OSError) -> bool:
        """Goes down to physical blocks, where a longer piece failed; False for one of these. Raises the error
        where it is that of the whole drive."""
        if error.errno not in _OF_THE_MEDIUM or self._in_succession >= GIVE_UP:
            raise error
        for at in range(0, len(old), PHYSICAL_BYTES) if len(old) > PHYSICAL_BYTES else ():
            self.put_back(offset + at, old[at : at + PHYSICAL_BYTES])
        return len(old) > PHYSICAL_BYTES

    def _written(self, offset: int, new: bytes, old: bytes | None = None) -> bool:
        """Writes to the drive; False where that failed, and is counted. `old` is what a longer piece that
        fails is to hold, block by block."""
        try:
            self._aligned[: len(new)] = new
            if os.pwritev(self._descriptor, [memoryview(self._aligned)[: len(new)]], offset) != len(new):
                raise OSError(errno.EIO, "only a part could be written")
        except OSError as error:
            if self._in_steps(offset, new if old is None else old, error):
                return False
            self.first_failed = self.first_failed if self.failed else offset
            self.failed += len(new)
            self._in_succession += 1
            return False
        self._in_succession = 0
        return True
