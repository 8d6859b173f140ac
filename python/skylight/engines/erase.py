"""Erases of a whole drive by a command of its own, which a person asks for by name: what a drive offers, the
command, its progress, and a look at whether the data is gone.

Invariants: an erase is never chosen for a person. Before it blocks are written at three places, and it counts
only if none of them is there afterwards: a drive may complete a command and do nothing. A drive that erases
itself goes on when the run ends; SECURITY ERASE UNIT cannot be interrupted, so Ctrl-C waits for it. A block
that the drive fails to read after it completed the erase is gone: SBC-4 lets a drive do so until it is
written (WABEREQ and WACEREQ in the Block Device Characteristics VPD page).

Source: the Rust module `host/erase.rs`; docs/reset.md.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from skylight import _native
from skylight.engines.direct_io import opened_direct
from skylight.errors import TargetError, reason_of
from skylight.evidence import IoBatch
from skylight.units import format_percent, format_seconds

Erase = Literal["sanitize", "secure-erase", "format"]
"""What a person may ask for; the names are those of `--reset`."""

ERASES: tuple[Erase, ...] = ("sanitize", "secure-erase", "format")

Follow = Callable[[float | None, float], None]
"""Takes the share that is done, None where it is not known, and the seconds so far."""

LONG_S = 3_600.0
"""An erase that takes longer is done once a test. Chosen: an hour is about what a test takes."""
POLL_S = 5.0
"""Between two looks at the progress. Chosen: seconds of minutes to hours."""
FIRST_POLL_S = 0.2
"""The first of these, each twice as long as the one before. Chosen: a change of a key takes less."""
DISK_BYTES_PER_S = 150e6
"""What a disk writes in a second, on the whole of it. Chosen for a plan, because disks write 100 to 270 MB/s;
nothing is measured or decided by it."""
UNREADABLE = (errno.EIO, errno.ENODATA)
"""How Linux words a drive's MEDIUM ERROR and its other failures of a read (`block/blk-core.c`)."""


class ErasableHost(Protocol):
    """The part of `skylight._native.HostDevice` that erases."""

    def erase_offer(self, erase: Erase) -> Mapping[str, str | int | bool | None]:
        """What an erase would be."""
        ...

    def erase(self, erase: Erase, note: str) -> Mapping[str, str | int | bool | None]:
        """Erases the drive, or begins it."""
        ...

    def erase_progress(self, erase: Erase) -> tuple[bool, float | None]:
        """Whether it is complete, and the share that is done."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What an erase would be: the command in the words of its standard, the seconds that the drive declares,
    or that writing all of it may take, and whether only the key of the data is changed."""

    command: str
    seconds: float | None
    key_change: bool

    @classmethod
    def of(cls, told: Mapping[str, str | int | bool | None], size_bytes: int) -> Offer:
        """From what the native module says, of a drive of that size."""
        declared, seconds = told["seconds"], None
        if declared is not None:
            seconds = float(declared)
        elif told["writes_all"]:
            seconds = size_bytes / DISK_BYTES_PER_S
        return cls(str(told["command"]), seconds, bool(told["key_change"]))

    @property
    def words(self) -> str:
        """For a plan.

        >>> Offer("FORMAT UNIT", 36_000.0, False).words
        'FORMAT UNIT of the whole drive, about 10 h each'
        """
        how_long = "" if self.seconds is None else f", about {format_seconds(self.seconds)} each"
        return f"{self.command} of the whole drive{how_long}"


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erase was, how long it took, and whether what was written before it is gone."""

    command: str
    seconds: float
    key_change: bool
    is_gone: bool
    unreadable: int
    """Blocks, of those looked at, that the drive fails to read."""


class Marks:
    """Blocks at the beginning, in the middle and at the end of a drive, which an erase has to change."""

    def __init__(self, path: str, size_bytes: int, block_bytes: int) -> None:
        """Chooses the places."""
        self._path = path
        self._block = max(block_bytes, mmap.PAGESIZE)
        last = size_bytes // self._block - 1
        self._offsets = [at * self._block for at in (0, last // 2, last)]
        self._there: list[bytes | None] = []
        self.unreadable = 0

    def writes(self) -> IoBatch:
        """The writes of them."""
        return IoBatch.flushed_writes(self._offsets, self._block)

    def look(self) -> None:
        """Remembers what they hold."""
        self._there = self._read(())

    def are_gone(self) -> bool:
        """Whether none of them holds what it did."""
        found = self._read(UNREADABLE)
        self.unreadable = found.count(None)
        return all(now != was for now, was in zip(found, self._there, strict=True))

    def _read(self, allowed: Collection[int]) -> list[bytes | None]:
        """What they hold; None where the read fails with an error that is allowed."""

        def one(offset: int) -> bytes | None:
            try:
                return aligned[: os.preadv(descriptor, [aligned], offset)]
            except OSError as error:
                if error.errno in allowed:
                    return None
                raise

        try:
            with opened_direct(self._path, os.O_RDONLY, self._block) as (descriptor, aligned):
                return [one(offset) for offset in self._offsets]
        except OSError as error:
            why = reason_of(error)
            raise TargetError(
                f"{self._path}: cannot be read after an erase: {why}; check its health (smartctl -a)"
            ) from error


def followed(host: ErasableHost, erase: Erase, note: Path, declared_s: float | None, follow: Follow) -> None:
    """Erases, and returns when the drive has completed it. Raises `HostError` and `KeyboardInterrupt`."""
    began = time.monotonic()

    def share() -> float | None:
        return min((time.monotonic() - began) / declared_s, 1.0) if declared_s else None

    if erase == "secure-erase":
        _waited(lambda: host.erase(erase, str(note)), lambda: follow(share(), time.monotonic() - began))
        return
    host.erase(erase, str(note))
    pause_s = FIRST_POLL_S
    try:
        while not (progress := host.erase_progress(erase))[0]:
            follow(progress[1], time.monotonic() - began)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_S)
    except KeyboardInterrupt as stop:
        stop.add_note(
            "the drive goes on erasing itself, and takes no reads or writes until it has ended;"
            " leave it switched on, and go on then"
        )
        raise


def _waited(work: Callable[[], object], follow: Callable[[], None]) -> None:
    """Does what nothing may interrupt in a thread of its own; Ctrl-C comes when it has ended."""
    stopped: KeyboardInterrupt | None = None
    with ThreadPoolExecutor(1, "erase") as pool:
        doing = pool.submit(work)
        while not doing.done():
            try:
                wait([doing], POLL_S)
                follow()
            except KeyboardInterrupt as stop:
                stopped = stop
        doing.result()
    if stopped is not None:
        raise stopped


def still_erasing(path: str, notes: Path, root: str | None) -> str | None:
    """Why a drive cannot be opened, if an erase of it goes on. Removes the password of an erase that was cut
    short. Raises `HostError`."""
    left = _native.host_unfinished(path, str(notes), root)
    if left is None or left[0] != "running":
        return None
    share = "" if left[1] is None else f" ({format_percent(left[1])} done)"
    return f"{path}: is being erased{share}; wait until that has ended"
