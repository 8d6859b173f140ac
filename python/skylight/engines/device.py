"""The engine for a real block device or a plain file: io_uring, direct I/O, every command timed.

Invariants: without `destroy_data` the kernel itself opens the target read-only, so nothing can be written,
and its settings are left alone; with it, a target in use is refused (see the Rust crate `host`). The volatile
write cache, read look-ahead, the kernel's scheduler and its queue depth are read back after they were set,
and restored on exit of `settings`, at interpreter exit, by a guard (`restore_guard.py`) after a kill or where
restoring failed, and, from a restore note on disk, by the next run of the same boot. A lock (`drive_lock.py`)
keeps the note of a drive to one run. A drive that cannot be restored (it vanished) raises a `TargetError`,
which never replaces an error already being raised. Zone actions and appends in a batch run one at a time,
after what is before them (see the Rust module `host/batch_runner.rs`). Notes live in `$SKYLIGHT_STATE`, else
`$XDG_STATE_HOME/skylight`, else `~/.local/state/skylight`, one file per drive.

Source: docs/devices.md; docs/architecture.md (crates/host).
"""

from __future__ import annotations

import atexit
import errno
import mmap
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import NoReturn, Self

import numpy as np

from skylight import _native
from skylight.engines.declared import hints_of
from skylight.engines.device_protocols import Host, Setting, Switch
from skylight.engines.drive_lock import DriveLock
from skylight.engines.early_stop import is_reached, piece_ios
from skylight.engines.erase import (
    Erase,
    Erased,
    Follow,
    Marks,
    Offer,
    followed,
    still_erasing,
)
from skylight.engines.restore_guard import Guard
from skylight.engines.undo_log import PutBack
from skylight.errors import KeepError, SkylightError, TargetError, UsageError, one_line, reason_of
from skylight.evidence import (
    EMPTY_LOG,
    U64,
    IoBatch,
    IoLog,
    JsonScalar,
    SettingsReport,
    Stop,
    TargetFacts,
)
from skylight.zoned.zones import ZoneKind, ZoneLayout, Zones

STACKED = ("dm-", "md", "loop")
"""Beginnings of the kernel's names of devices on other devices, which have schedulers of their own."""
LOOKED_AT = 32
"""Number of blocks that are checked for zeros."""
BESIDE_BYTES = 1 << 20
TRIM_BYTES = 64 << 30
"""Bytes discarded by one call: a signal is seen between two."""
ERASE_NOTE = ".erase"
"""Ending of the note of a password, beside that of the restore note."""
PRESERVE_NOTE = ".preserve"
"""Ending of the note that names the journal of kept data, beside the same."""
ALL_ZONES = 1 << 32
"""More zones than there are."""
_FACTS = ("kind", "path", "size_bytes", "block_bytes")
_WORDS = {"look-ahead": "read look-ahead"}
_STATES = {"on": True, "off": False}


class DeviceFailed(TargetError):
    """The target failed during a batch; `log` holds the rows that completed."""

    def __init__(self, line: str, log: IoLog = EMPTY_LOG) -> None:
        """Keeps the line and the log so far."""
        super().__init__(line)
        self.log = log


class DeviceInterrupted(KeyboardInterrupt):
    """Ctrl-C during a batch; `log` holds the rows that completed."""

    def __init__(self, line: str, log: IoLog = EMPTY_LOG) -> None:
        """Keeps the line and the log so far."""
        super().__init__(line)
        self.log = log


def state_dir() -> Path:
    """Where restore notes are kept."""
    own = os.environ.get("SKYLIGHT_STATE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "skylight"


def notes(ending: str) -> list[Path]:
    """The notes of that ending, of all drives; none where they cannot be listed, and so not kept either."""
    try:
        return list(state_dir().glob(f"*{ending}"))
    except OSError:
        return []


def log_of(io: IoBatch, times: tuple[U64, U64], results: tuple[U64, U64]) -> IoLog:
    """The log of the rows that completed, in submission order; the others have a completion time of 0.

    `results` are rows that were refused or are appends, and the result of each."""
    submit_ns, complete_ns = (column.astype(np.uint64, copy=False) for column in times)
    log = IoLog.of(io, submit_ns, complete_ns)
    log.result[results[0]] = results[1]
    done = complete_ns != 0
    return log if done.all() else log.rows(done)


def _raise(error: _native.HostError, log: IoLog = EMPTY_LOG) -> NoReturn:
    """Raises the documented exception for a native one; `log` holds what completed before it."""
    line = str(error)
    if error.kind == "refused":
        raise UsageError(line) from error
    if error.kind == "unkept":
        raise KeepError(line) from error
    if error.kind == "failed":
        raise DeviceFailed(line, log) from error
    if error.__cause__ is not None and not isinstance(error.__cause__, KeyboardInterrupt):
        raise error.__cause__  # raised by another signal handler
    raise DeviceInterrupted(line, log) from error


def _opened(path: str, destroy_data: bool, root: str | None, preserve: bool) -> _native.HostDevice:
    """Opens a device or file. To write, the password of an erase that was cut short is removed before; one
    that goes on is the reason why the content cannot be examined."""
    try:
        if destroy_data and notes(ERASE_NOTE):
            still_erasing(path, state_dir(), root)
        return _native.HostDevice(path, destroy_data, root, preserve)
    except _native.HostError as error:
        if destroy_data and "cannot be examined" in str(error):
            with suppress(_native.HostError):
                why = still_erasing(path, state_dir(), root)
                if why is not None:
                    raise UsageError(why) from error
        _raise(error)


def _is_hole(descriptor: int, offset: int) -> bool:
    """Whether a file has a hole at that offset, bytes."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA) != offset
    except OSError as error:
        if error.errno == errno.ENXIO:  # no data up to the end
            return True
        raise


def _beside(offset: int, size: int, block: int) -> int:
    """A whole block slightly beyond `offset`, or halfway there near the end of the target."""
    behind = offset + BESIDE_BYTES
    return (behind if behind + block <= size else offset // 2) // block * block


def _is_zero(descriptor: int, offset: int, block: int) -> bool:
    """Whether a block (bytes) of a target opened with direct I/O contains only zeros."""
    with mmap.mmap(-1, block) as aligned:
        got = os.preadv(descriptor, [aligned], offset)
        return not any(aligned[:got])


class DeviceEngine:
    """A block device or plain file as an engine."""

    left: PutBack | None = None
    """What an earlier run had kept, and was put back when this one began."""

    def __init__(self, host: Host, facts: TargetFacts, *, can_write: bool, root: str | None = None) -> None:
        """Wraps an open target; use `open` to open one."""
        self._host = host
        self._root = root
        self._guard: Guard | None = None
        self._lock: DriveLock | None = None
        self._facts = facts
        self._switches: list[Switch] = []
        self._path = facts.name
        self.size = facts.size_bytes
        self.can_write = can_write
        self.repeatable = False

    @classmethod
    def open(
        cls,
        path: str,
        *,
        destroy_data: bool = False,
        root: str | None = None,
        declared: Mapping[str, JsonScalar] | None = None,
        preserve: bool = False,
        restores: bool = True,
    ) -> Self:
        """Opens a device or file, and restores the settings that a killed run left changed.

        `root` is the parent of `sys` and `proc`, for tests; `declared` is what else is known of it. With
        `preserve` what it holds is no reason to refuse writes, because the caller puts it back; `restores`
        first puts back what an earlier run kept."""
        left: PutBack | None = None
        if destroy_data and restores:
            from skylight.engines.preserve import restore_left

            left = restore_left(path, root)
        host = _opened(path, destroy_data, root, preserve)
        identity = host.identity()
        known: dict[str, JsonScalar] = {
            k: v for k, v in identity.items() if v is not None and k not in _FACTS
        }
        if identity["kind"] == "file":
            known["file"] = one_line(os.path.realpath(path))
        known |= {**hints_of(path), **(declared or {})}
        facts = TargetFacts(str(identity["kind"]), path, host.size_bytes, host.block_bytes, known)
        engine = cls(host, facts, can_write=destroy_data, root=root)
        engine._path, engine.left = path, left
        try:
            engine.put_back()
            engine._check_password()
        except SkylightError:
            engine.close()
            raise
        return engine

    def describe(self) -> TargetFacts:
        """The identity of the target and the properties that it declares."""
        return self._facts

    def counters(self) -> dict[str, int]:
        """Reads, writes, bytes written and flushes submitted so far."""
        return self._host.counters()

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch; raises `DeviceFailed` or `DeviceInterrupted` with the log so far.

        With `until` it runs in pieces, and completes the piece that contains the slow command."""
        if until is None:
            return self._run(io, depth)
        logs: list[IoLog] = []
        first = 0
        while first < len(io):
            last = first + piece_ios(until, depth, logs)
            try:
                logs.append(self._run(io.part(first, last), depth))
            except (DeviceFailed, DeviceInterrupted) as error:
                error.log = IoLog.joined([*logs, error.log])
                raise
            if is_reached(until, logs):
                break
            first = last
        return IoLog.joined(logs)

    def _run(self, io: IoBatch, depth: int) -> IoLog:
        try:
            times = self._host.run(io.op, io.offset, io.size, depth)
        except _native.HostError as error:
            kept = EMPTY_LOG if error.times is None else log_of(io, error.times, self._host.results())
            _raise(error, kept)
        return log_of(io, times, self._host.results())

    def zone_layout(self) -> ZoneLayout | None:
        """What is fixed about the target's zones; None for a file, a partition and a disk without zones."""
        return self._layout

    @cached_property
    def _layout(self) -> ZoneLayout | None:
        """Asked once: it takes a report of all zones, and each count of them asks whether there are any."""
        try:
            layout = self._host.zone_layout()
        except _native.HostError as error:
            _raise(error)
        if layout is None:
            return None
        conventional = int(np.count_nonzero(self.report_zones().kind == ZoneKind.CONVENTIONAL))
        return ZoneLayout(**layout, conventional_zones=conventional)

    def report_zones(self) -> Zones:
        """The state of all zones."""
        try:
            return Zones.of(self._host.report_zones(0, ALL_ZONES))
        except _native.HostError as error:
            _raise(error)

    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data."""
        try:
            return self._host.non_sequential_zones()
        except _native.HostError as error:
            _raise(error)

    def holes(self, offsets: U64) -> float | None:
        """The share of offsets without data: holes of a plain file as its file system reports them, else
        zeros.

        Zeros are looked for in `LOOKED_AT` blocks, each `BESIDE_BYTES` beyond one of `offsets`, so that no
        cache of the drive holds the blocks that are timed afterwards. Holes are not read."""
        if len(offsets) == 0:
            return None
        chosen = np.unique(offsets)[:: max(len(np.unique(offsets)) // LOOKED_AT, 1)]
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            try:
                if self._facts.kind == "file":
                    found = [_is_hole(descriptor, int(offset)) for offset in offsets]
                    if any(found):
                        return sum(found) / len(found)
                block = max(self._facts.block_bytes, mmap.PAGESIZE)
                zeros = [
                    _is_zero(descriptor, _beside(int(offset), self.size, block), block) for offset in chosen
                ]
            finally:
                os.close(descriptor)
        except OSError:  # the timed reads will fail likewise and report it
            return None
        return sum(zeros) / len(zeros)

    def pause(self, seconds: float) -> None:
        """Leaves the target idle for that long, s."""
        time.sleep(seconds)

    @property
    def note_path(self) -> Path | None:
        """Path of this drive's restore note while a setting is changed; None for a file."""
        return None if self._host.key is None else state_dir() / f"{self._host.key}.restore"

    def put_back(self) -> list[str]:
        """Restores the settings that a killed run left changed; returns their values, if there were any.

        Only a run with permission to write does so, because it alone has exclusive use of the drive."""
        note = self.note_path
        if not self.can_write or note is None or not note.exists():
            return []
        self._take_lock()
        try:
            return self._host.put_back(str(note))
        except _native.HostError as error:
            _raise(error)

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        """Asks for the volatile write cache and read look-ahead on or off, for no scheduler of the kernel and
        for a queue as deep as the tests', as far as the target can; restores them on exit, the last first."""
        self._take_lock()
        unguarded = self._start_guard()
        switches: list[Switch] = []
        try:
            told = dict[Setting, Switch]()
            for setting, on in self._wanted(write_cache=write_cache, look_ahead=look_ahead):
                told[setting] = self._switch(setting, on)
                switches.append(told[setting])
            yield self._report(told, unguarded)
        except BaseException as error:
            for second in self._restored(switches):  # the first error is the one reported
                error.add_note(str(second))
            raise
        for failed in self._restored(switches):
            raise failed

    def _wanted(self, *, write_cache: bool, look_ahead: bool) -> Iterator[tuple[Setting, bool]]:
        """The settings to ask for. Few targets have a scheduler: one that has none is not asked."""
        yield "write cache", write_cache
        yield "look-ahead", look_ahead
        if self._facts.declared.get("scheduler") is not None:
            yield "scheduler", False
        if self._host.value("queue depth") is not None:
            yield "queue depth", True

    def _report(self, told: Mapping[Setting, Switch], unguarded: Sequence[str]) -> SettingsReport:
        """What is in force, and what could not be set."""
        whys = (
            f"{_WORDS.get(setting, setting)}: {switch.why}" for setting, switch in told.items() if switch.why
        )
        depth = self._host.value("queue depth") if "queue depth" in told else None
        return SettingsReport(
            _STATES.get(told["write cache"].achieved),
            _STATES.get(told["look-ahead"].achieved),
            "; ".join([*whys, *unguarded]),
            scheduler=self._reorders(told["scheduler"].achieved) if "scheduler" in told else None,
            queue_depth=int(depth) if depth is not None and depth.isdecimal() else None,
        )

    def _reorders(self, scheduler: str) -> bool | None:
        """Whether commands are reordered, by the state of the target's own scheduler. Off says nothing where
        other devices lie below."""
        stacked = str(self._facts.declared.get("kernel_name")).startswith(STACKED)
        return None if stacked and scheduler == "off" else _STATES.get(scheduler)

    def _take_lock(self) -> None:
        """Makes the note of the drive this run's, if it may change settings."""
        note = self.note_path
        if self.can_write and note is not None and self._lock is None:
            self._lock = DriveLock(self._path, note.with_name(f"{note.stem}.lock"))

    def _start_guard(self) -> list[str]:
        """Starts the guard of a drive whose settings may change; why it could not, if so."""
        note = self.note_path
        if self.can_write and note is not None and self._guard is None:
            try:
                self._guard = Guard(self._path, note, self._root)
            except OSError as error:
                reason = reason_of(error)
                return [f"no guard could be started ({reason}): after a kill the next run restores them"]
        return []

    def erase(self) -> bool:
        """False: a real drive is erased only by a command that a person asks for (`erase_by`)."""
        return False

    def erase_offer(self, erase: Erase) -> Offer:
        """What an erase would be. Raises `UsageError` where the target cannot be erased so."""
        try:
            return Offer.of(self._host.erase_offer(erase), self.size)
        except _native.HostError as error:
            _raise(error)

    def erase_by(self, erase: Erase, follow: Follow) -> Erased:
        """Erases the whole drive, and looks whether it is. `follow` is called as it goes on."""
        offer, note = self.erase_offer(erase), self.erase_note
        assert note is not None  # a target without a key has no such command
        self._take_lock()
        self._start_guard()
        marks = Marks(self._path, self.size, self._facts.block_bytes) if self.zone_layout() is None else None
        if marks is not None:
            self._run(marks.writes(), 1)
            marks.look()
        began = time.monotonic()
        try:
            followed(self._host, erase, note, offer.seconds, follow)
        except _native.HostError as error:
            _raise(error)
        seconds = time.monotonic() - began
        is_gone = marks is None or marks.are_gone()
        unreadable = 0 if marks is None else marks.unreadable
        return Erased(offer.command, seconds, offer.key_change, is_gone, unreadable)

    @property
    def erase_note(self) -> Path | None:
        """Path of the note of this drive's password while SECURITY ERASE UNIT runs; None for a file."""
        return None if self.note_path is None else self.note_path.with_suffix(ERASE_NOTE)

    def _check_password(self) -> None:
        """Refuses a drive on which an erase left its password: a run that may write has removed it."""
        note = self.erase_note
        if not self.can_write and note is not None and note.exists():
            raise UsageError(
                f"{self._path}: an erase that was cut short left its password on it ({note}); run again with"
                " --destroy-data to remove it"
            )

    def trim(self) -> bool:
        """TRIM of a whole block device (BLKDISCARD); False where it has none. Never of a file: that would
        leave holes, which no disk serves."""
        if not self.can_write or self._facts.kind != "device":
            return False
        try:
            for start in range(0, self.size, TRIM_BYTES):
                self._host.discard(start, min(TRIM_BYTES, self.size - start))
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL):
                return False
            reason = reason_of(error)
            raise TargetError(f"{self._path}: TRIM failed: {reason}; try --reset idle") from error
        return True

    def close(self) -> None:
        """Restores changed settings and releases the device. Does nothing the second time.

        Where restoring failed, the note is left, and the guard goes on trying."""
        try:
            for failed in self._restored(list(self._switches)):
                raise failed
        finally:
            # The lock goes first: the next run, which waits for the device to be free, finds it free too.
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release()
            self._host.close()
            guard, self._guard = self._guard, None
            if guard is not None and guard.has_work():
                guard.release()
            elif guard is not None:
                guard.dismiss()

    def _switch(self, setting: Setting, on: bool) -> Switch:
        note = self.note_path
        try:
            switch = self._host.switch(setting, on, None if note is None else str(note))
        except _native.HostError as error:
            _raise(error)
        atexit.register(switch.restore)
        self._switches.append(switch)
        return switch

    def _restored(self, switches: Sequence[Switch]) -> list[SkylightError]:
        """Restores all switches, the last first; what went wrong."""
        failed: list[SkylightError] = []
        for switch in reversed(switches):
            if switch in self._switches:
                self._switches.remove(switch)
            atexit.unregister(switch.restore)
            try:
                switch.restore()
            except _native.HostError as error:
                try:
                    _raise(error)
                except SkylightError as failure:
                    failed.append(failure)
        return failed
