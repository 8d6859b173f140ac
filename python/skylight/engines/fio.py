"""The engine that lets fio do the I/O: every batch becomes a job file and a list of I/Os, fio runs it, and
its log becomes the evidence. The jobs stay in a folder beside the evidence, so that anyone repeats a test
with fio alone (docs/fio-engine.md).

Everything but reads, writes and flushes is `DeviceEngine`'s: checks, identity, settings, TRIM.

fio logs the latency of a read or write in nanoseconds, but when it completed in whole milliseconds since its
start, and of a flush nothing. So, of a batch

- of reads and writes at depth 1, the clock is rebuilt as that of foreign logs is (`fio_log.rebuilt`);
- with flushes at depth 1, the clock is the earliest that agrees with the log, which is behind by less than a
  millisecond. A flush takes from the end of the row before it to the begin of the row behind it;
- at a greater depth, an I/O completes at the begin of the millisecond of the log, and was submitted its
  latency before;
- fio refuses a list of one flush alone, so that is sent as `DeviceEngine` sends it.

Invariants: fio opens what is open here, through /proc, whatever the path has come to name; a batch with
something that fio's lists of I/Os cannot hold is refused before any of it is sent; fio is killed with this
process; a log that is not that of its job is an error, never evidence; the rows of a log are the first of the
batch; no time of one run of fio is before that of another that ended before it.

Sources: fio(1), TRACE FILE FORMAT (version 2), LOG FILE FORMATS, replay_redirect; prctl(2),
PR_SET_PDEATHSIG; proc(5), /proc/pid/fd.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skylight.engines.device import DeviceEngine, DeviceFailed, DeviceInterrupted
from skylight.engines.fio_log import rebuilt
from skylight.errors import KeepError, TargetError, UsageError, one_line, reason_of
from skylight.evidence import EMPTY_LOG, I64, Bools, IoBatch, IoLog, Op, Stop

MS_NS, US_NS = 1_000_000, 1_000
JOB_IOS = 1 << 16
"""I/Os of one run of fio. Chosen: 2 MB of list, read by fio at its start; a greater batch is cut."""
STOP_IOS = 64
"""Times the depth: I/Os of one run of fio where several slow commands or a slow flush end a batch, which fio
does not notice. Chosen: a start of fio takes 0.3 s, a command of a disk 10 ms."""
END_S = 20.0
"""How long fio may take to end after an interrupt. Chosen: a drive recovers from an error in seconds."""
OLDEST = (3, 19)
"""The first version of fio whose logs have the priority column, and so surely nanoseconds."""
DRIVE = "SKYLIGHT_DRIVE"
"""The variable of the environment with the drive of a job; without it fio refuses the job."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run."""
PDEATHSIG = 1
"""PR_SET_PDEATHSIG (linux/prctl.h)."""

_ACTIONS = {int(Op.READ): "read", int(Op.WRITE): "write", int(Op.FLUSH): "datasync"}
_DIRECTIONS = {int(Op.READ): 0, int(Op.WRITE): 1}
_ERROR = re.compile(
    r"io_u error on file .*: (?P<what>[^:]+): (?P<op>\w+) offset=(?P<at>\d+), buflen=(?P<size>\d+)"
)
_DOING = {"read": "reading", "write": "writing"}
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of fio: its log (time ms, latency ns, direction, size, offset), how long it took (ms), the
    number of the error that ended it, 0 if none did, and its own words of it."""

    log: I64
    runtime_ms: int
    error: int
    words: str


def version() -> str:
    """The version of fio that is installed, such as `fio-3.33`; refuses one whose logs say too little."""
    path = shutil.which("fio")
    if path is None:
        raise UsageError("--engine fio: fio is not installed; install it, or omit --engine fio")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    found = re.match(r"fio-(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise UsageError(
            f"--engine fio: {one_line(said) or path} is not fio 3.19 or later, whose logs are needed; install"
            " that, or omit --engine fio"
        )
    return said


class FioEngine(DeviceEngine):
    """A block device or plain file whose I/O fio does."""

    _jobs = Path()
    _name = "batch"
    _last_ns = 0
    _held = -1
    _kept: int | None = None

    @classmethod
    def over(cls, path: str, jobs: Path, *, destroy_data: bool = False) -> FioEngine:
        """Opens a device or file as `DeviceEngine.open`; `jobs` is the folder for the job files, made when
        the first is written."""
        engine = cls.open(path, destroy_data=destroy_data, declared={"engine": version()})
        try:
            if engine.zone_layout() is not None:
                raise UsageError(f"{path}: has zones, whose commands fio's job files lack; omit --engine fio")
            engine._held = _descriptor_of(path)
        except BaseException:
            engine.close()
            raise
        engine._jobs = jobs
        return engine

    def close(self) -> None:
        """As `DeviceEngine.close`; no job finds the drive any more."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)
        super().close()

    def name_jobs(self, name: str) -> None:
        """What the next batches are for, as part of the names of their files."""
        self._name = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """Runs the batch; raises `DeviceFailed` or `DeviceInterrupted` with the log so far.

        With `until` of a single read or write fio ends at it; otherwise the run of fio that contains the last
        slow command is completed."""
        self._check(io)
        by_fio = until is None or (until.count == 1 and not _is_flush(io).any())
        logs, recent = list[IoLog](), EMPTY_LOG
        for first, last in jobs_of(io, depth, JOB_IOS if by_fio else STOP_IOS * depth):
            try:
                part = io.part(first, last)
                logs.append(super().run(part) if _is_flush(part).all() else self._job(part, depth, until))
            except (DeviceFailed, DeviceInterrupted) as error:
                error.log = IoLog.joined([*logs, error.log])
                raise
            if len(logs[-1]) < last - first:
                break
            if until is not None:
                recent = IoLog.joined([recent.rows(slice(-until.within, None)), logs[-1]])
                if until.reached(recent):
                    break
        return IoLog.joined(logs)

    def _check(self, io: IoBatch) -> None:
        """Refuses what fio is not to do, or cannot."""
        if not np.isin(io.op, list(_ACTIONS)).all():
            raise UsageError(
                f"{self._path}: fio's lists of I/Os have no {Op(int(np.max(io.op))).name}; omit --engine fio"
            )
        if not self.can_write and bool(np.any(io.op == int(Op.WRITE))):
            raise UsageError(f"{self._path}: is open for reading alone; give --destroy-data to write")
        if len(io) and int((io.offset + io.size).max()) > self.size:
            raise UsageError(f"{self._path}: an I/O ends behind its end; nothing was sent")

    def _job(self, io: IoBatch, depth: int, until: Stop | None) -> IoLog:
        """Runs one job; its log."""
        stem = self._write_job(io, depth, until)
        began_ns = time.monotonic_ns()
        interrupted: KeyboardInterrupt | None = None
        fio: subprocess.Popen[str] | None = None
        came = list[int]()
        handlers = _handlers()
        try:
            # No mask: another thread would take the signal, and its handler run here, fio unknown.
            for number in handlers:
                signal.signal(number, lambda number, _: came.append(number))
            fio = self._started(stem)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for held in came:
                signal.raise_signal(held)
            said, _ = fio.communicate()
        except KeyboardInterrupt as error:
            interrupted, said = error, "" if fio is None else _ended(fio)
        finally:
            if fio is not None and fio.poll() is None:  # another signal handler raised: fio ends first
                _ended(fio)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        try:
            ran = self._ran(stem, said)
            log = self._timed(io, depth, ran, began_ns)
        except TargetError:
            if interrupted is None:
                raise
            log = EMPTY_LOG  # it was killed before it wrote any
        if interrupted is not None:
            raise DeviceInterrupted(f"{self._path}: interrupted", log) from interrupted
        if (ran.error or len(log) < len(io)) and not _stopped(ran, until):
            raise DeviceFailed(self._failure(io, log, ran, stem), log)
        return log

    def _started(self, stem: str) -> subprocess.Popen[str]:
        """Starts fio with a job on the drive that is open."""
        command = ["fio", "--eta=never", "--output-format=json", f"--output={stem}.json", f"{stem}.fio"]
        if not self.can_write:
            command.insert(1, "--readonly")
        parent = os.getpid()

        def dies_with_us() -> None:
            """In the child: the kernel kills fio when the thread that started it is gone."""
            _LIBC.prctl(PDEATHSIG, int(signal.SIGKILL))
            if os.getppid() != parent:  # it was gone before
                os._exit(1)

        try:
            return subprocess.Popen(
                command, cwd=self._jobs, env={**os.environ, DRIVE: f"/proc/{parent}/fd/{self._held}"},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", start_new_session=True, preexec_fn=dies_with_us,
            )  # fmt: skip
        except OSError as error:
            reason = reason_of(error)
            raise TargetError(f"{self._path}: fio cannot be started: {reason}; omit --engine fio") from error

    def _write_job(self, io: IoBatch, depth: int, until: Stop | None) -> str:
        """Writes the list of I/Os and its job file; their common name."""
        rows = [
            f"drive {_ACTIONS[op]} {offset} {size}\n"
            for op, offset, size in zip(io.op.tolist(), io.offset.tolist(), io.size.tolist(), strict=True)
        ]
        try:
            self._jobs.mkdir(parents=True, exist_ok=True)
            if self._kept is None:  # of the run that is resumed
                found = (re.match(r"\d{5,}(?=-)", kept.name) for kept in self._jobs.glob("*.fio"))
                self._kept = max((int(number[0]) for number in found if number), default=0)
            self._kept += 1
            stem = f"{self._kept:05d}-{self._name}"
            with (self._jobs / f"{stem}.iolog").open("w", encoding="utf-8") as file:
                file.write("fio version 2 iolog\ndrive add\ndrive open\n")
                file.writelines(rows)
            stop_ns = None if until is None or until.count > 1 else until.latency_ns
            text = job_text(stem, depth, len(io), stop_ns, self._drive_words())
            (self._jobs / f"{stem}.fio").write_text(text, encoding="utf-8")
        except OSError as error:
            reason = reason_of(error)
            raise KeepError(f"{self._jobs}: a job cannot be kept: {reason}; choose another --out") from error
        return stem

    def _drive_words(self) -> str:
        """The drive, for a person who looks for it."""
        known = self._facts.declared
        names = [str(known[name]) for name in ("model", "serial") if name in known] or [self._facts.kind]
        return one_line(f"{' '.join(names)}, {self.size} bytes")

    def _ran(self, stem: str, said: str) -> Ran:
        """What fio left behind: read, and then removed, for the evidence has it."""
        report, log = self._jobs / f"{stem}.json", self._jobs / f"{stem}_lat.1.log"
        try:
            text = report.read_text(encoding="utf-8")
            job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
            rows = np.empty((0, 5), np.int64)
            if log.exists() and log.stat().st_size:
                rows = np.loadtxt(log, np.int64, delimiter=",", usecols=range(5), ndmin=2)
            ran = Ran(rows, int(job["job_runtime"]), int(job["error"]), one_line(said.strip()))
        except (OSError, ValueError, LookupError) as error:
            why = one_line(said.strip().splitlines()[0]) if said.strip() else "it left no report"
            raise TargetError(
                f"{self._path}: fio failed: {why}; the job is {self._jobs / stem}.fio"
            ) from error
        for path in (report, log):
            path.unlink(missing_ok=True)
        return ran

    def _timed(self, io: IoBatch, depth: int, ran: Ran, began_ns: int) -> IoLog:
        """The rows that completed, with their times."""
        times = (one_by_one if depth == 1 else overlapping)(io, ran)
        if times is None:
            raise TargetError(
                f"{self._path}: fio's log is not that of its job; run with the io_uring engine: omit --engine"
                " fio"
            )
        submit_ns, complete_ns = times
        base_ns = max(began_ns, self._last_ns)
        done = io.part(0, len(submit_ns))
        log = IoLog.of(
            done, (submit_ns + base_ns).astype(np.uint64), (complete_ns + base_ns).astype(np.uint64)
        )
        if len(log):
            self._last_ns = int(log.complete_ns.max())
        return log

    def _failure(self, io: IoBatch, log: IoLog, ran: Ran, stem: str) -> str:
        """The line of a run that ended with an error, with its place."""
        found = _ERROR.search(ran.words)
        if found is not None:
            op, at, size, what = found["op"], int(found["at"]), int(found["size"]), found["what"]
        else:
            row = min(len(log), len(io) - 1)
            op, at, size = _ACTIONS[int(io.op[row])], int(io.offset[row]), int(io.size[row])
            what = os.strerror(ran.error) if ran.error else "fio ended before it was done"
        lba = f" (LBA {at // self._facts.block_bytes})" if self._facts.kind == "device" else ""
        doing = f"{_DOING[op]} {size:,} bytes at {at:,}{lba}" if op in _DOING else "flushing it"
        return (
            f"{self._path}: {doing} failed: {what}; look at the kernel's log (dmesg); the job is {stem}.fio"
        )


def _is_flush(io: IoBatch) -> Bools:
    return np.asarray(io.op == int(Op.FLUSH), np.bool_)


def _stopped(ran: Ran, until: Stop | None) -> bool:
    """Whether fio ended because a command was as slow as a stop of one command says."""
    if until is None or until.count > 1 or ran.error != errno.ETIMEDOUT:
        return False
    return bool(ran.log[:, 1].max(initial=0) >= until.latency_ns // US_NS * US_NS)


def _handlers() -> dict[signal.Signals, Callable[[int, FrameType | None], Any]]:
    """The handlers of Python that may end a run; they run in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: found for number in ENDING if callable(found := signal.getsignal(number))}


def _descriptor_of(path: str) -> int:
    """A copy of the descriptor of this process that is open on what the path names; refused where none is,
    for then it is not what was opened."""
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing is closed
            if os.path.samestat(os.fstat(int(entry)), os.stat(path)):
                return os.dup(int(entry))
    raise TargetError(f"{path}: is no longer the drive that was opened; look at `skylight devices`")


def _ended(fio: subprocess.Popen[str]) -> str:
    """Interrupts fio, which then writes its logs; kills it if it does not end. What it said."""
    fio.send_signal(signal.SIGINT)
    try:
        said, _ = fio.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        fio.kill()
        said, _ = fio.communicate()
    return said


def job_text(stem: str, depth: int, ios: int, max_latency_ns: int | None, drive: str) -> str:
    """The job file of a list of so many I/Os that was made for a drive, described in words. At a depth above
    1 it has their number: without it, or where the list closes the file, fio 3.33 neither counts nor logs
    those that are in flight when the list ends.

    >>> print(job_text("00001-reads", 4, 100, None, "Model Serial, 4096 bytes").splitlines()[1])
    # Repeat it in this folder: SKYLIGHT_DRIVE=/dev/sdX fio 00001-reads.fio
    """
    whole = "" if depth == 1 else f"number_ios={ios}\n"
    stop = "" if max_latency_ns is None else f"max_latency={max(max_latency_ns // US_NS, 1)}us\n"
    return (
        f"# Made for {drive}.\n"
        f"# Repeat it in this folder: {DRIVE}=/dev/sdX fio {stem}.fio\n"
        f"# A list with writes destroys data: check the drive with skylight devices.\n"
        f"[global]\nthread=1\nclocksource=clock_gettime\ndirect=1\ninvalidate=0\nallow_file_create=0\n"
        f"ioengine={'psync' if depth == 1 else 'io_uring'}\niodepth={depth}\n"
        f"read_iolog={stem}.iolog\nreplay_redirect=${{{DRIVE}}}\nreplay_no_stall=1\n{whole}"
        f"write_lat_log={stem}\nlog_offset=1\ndisable_slat=1\ndisable_clat=1\n{stop}"
        f"[{stem}]\n"
    )


def jobs_of(io: IoBatch, depth: int, most: int) -> list[tuple[int, int]]:
    """First and last (exclusive) rows of the runs of fio that make a batch: no two flushes follow each other
    in one, because only what is between two other rows has a time of its own; at a depth above 1 a flush is
    alone, so that it follows what was sent before it.

    >>> jobs_of(IoBatch.flushed_writes([0, 4096], 4096), 1, 3)
    [(0, 3), (3, 4)]
    >>> jobs_of(IoBatch.flushed_writes([0, 4096], 4096), 4, 9)
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    """
    flush = _is_flush(io)
    cut = flush[1:] & flush[:-1] if depth == 1 else flush[1:] | flush[:-1]
    edges = np.concatenate([[0], np.flatnonzero(cut) + 1, [len(io)]]).tolist()
    return [
        (first, min(first + most, last))
        for begin, last in pairwise(edges)
        for first in range(begin, last, most)
    ]


def _is_of(io: IoBatch, rows: NDArray[np.intp], log: I64) -> bool:
    """Whether each line of a log is that of its row."""
    direction = np.array([_DIRECTIONS.get(int(op), -1) for op in io.op[rows]], np.int64)
    columns = np.stack([direction, io.size[rows].astype(np.int64), io.offset[rows].astype(np.int64)], axis=1)
    return bool(np.array_equal(columns, log[:, 2:5]))


def one_by_one(io: IoBatch, ran: Ran) -> tuple[I64, I64] | None:
    """Submit and completion times of rows that fio did one at a time, ns from its start; None where the log
    is of other I/Os. Where fio ended early, the last row is the last read or write that it logged."""
    log = ran.log
    rows = np.flatnonzero(~_is_flush(io))[: len(log)]
    if len(rows) < len(log) or not _is_of(io, rows, log):
        return None
    whole = ran.error == 0 and len(log) == np.count_nonzero(~_is_flush(io))
    count = len(io) if whole else int(rows[-1]) + 1 if len(rows) else 0
    time_ms, latency_ns = log[:, 0], log[:, 1]
    if len(rows) == count:  # without a flush
        if not count:
            return latency_ns, latency_ns
        submit_ns = rebuilt(time_ms, latency_ns)[0]
        submit_ns = submit_ns + max(int(time_ms[0]) * MS_NS - int(latency_ns[0]), 0)
        return submit_ns, submit_ns + latency_ns
    busy_ns = np.cumsum(latency_ns)
    done_ns = busy_ns + np.maximum.accumulate(time_ms * MS_NS - busy_ns).clip(0)
    begin_ns, end_ns = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begin_ns[rows], end_ns[rows] = done_ns - latency_ns, done_ns
    for flush in np.flatnonzero(_is_flush(io.part(0, count))):
        begin_ns[flush] = end_ns[flush - 1] if flush else 0
        behind = begin_ns[flush + 1] if flush + 1 < count else ran.runtime_ms * MS_NS
        end_ns[flush] = max(int(behind), int(begin_ns[flush]))
    return begin_ns, end_ns


def overlapping(io: IoBatch, ran: Ran) -> tuple[I64, I64] | None:
    """Submit and completion times of rows that fio had in flight together, ns from its start; None where the
    log is of other I/Os. Equal I/Os are taken to have begun in their order; of a run that ended early the
    rows before the first that is missing count."""
    log = ran.log[np.argsort(ran.log[:, 0] * MS_NS - ran.log[:, 1], kind="stable")]
    direction = np.array([_DIRECTIONS[int(op)] for op in io.op], np.int64)
    asked = np.stack([direction, io.size.astype(np.int64), io.offset.astype(np.int64)], axis=1)
    keys = np.unique(np.concatenate([asked, log[:, 2:5]]), axis=0, return_inverse=True)[1].reshape(-1)
    of_row, of_line = _numbered(keys[: len(io)]), _numbered(keys[len(io) :])
    line_of = dict(zip(of_line, range(len(log)), strict=True))
    lines = [line_of.get(key, -1) for key in of_row]
    if set(of_line) - set(of_row):
        return None
    count = lines.index(-1) if -1 in lines else len(lines)
    mine = log[lines[:count]]
    submit_ns = np.maximum.accumulate((mine[:, 0] * MS_NS - mine[:, 1]).clip(0)) if count else mine[:, 0]
    return submit_ns, submit_ns + mine[:, 1]


def _numbered(keys: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Each key with how many of it came before.

    >>> _numbered(np.array([5, 7, 5]))
    [(5, 0), (7, 0), (5, 1)]
    """
    seen: dict[int, int] = {}
    found = []
    for key in keys.tolist():
        found.append((key, seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
    return found


__all__ = ["FioEngine", "job_text", "jobs_of", "version"]
