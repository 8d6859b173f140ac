"""fio's own latency logs as evidence: `fio-log:FILE[,FILE..]` or `fio-log:DIR`. No target is touched.

Each line of a log is one I/O: time (ms), latency, direction, block size, then, by version and options,
offset, priority and issue time. fio 2.x logs latency in microseconds, 3.x in nanoseconds, and no header
states which; `unit_of` determines the unit from the columns and the time column, and refuses ambiguous logs.
docs/fio-logs.md has the rule and every refusal.

The time column has whole milliseconds, too coarse for angles. For a log with one I/O at a time the clock is
rebuilt: each completion is the one before plus the host's gap plus the latency. The gap is the excess of the
time column over the latencies, per read; a pause of 2 ms or more is inserted where the log shows it. Of a
client whose gaps vary the clock follows the time column, as finely as that allows, and the params say how
much they vary: whoever needs angles decides whether that is too much.

Invariants: a file is used whole or refused in one line with its line number; the same files yield the same
evidence; the step's params record what a log lacks (offsets, a clock for deep queues).

Source: fio(1), LOG FILE FORMATS; real logs of fio 3.33, and the fio 2.x logs of an ST8000AS0022.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from skylight.errors import UsageError, reason_of
from skylight.evidence import IoLog, JsonScalar, Op, TargetFacts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_BYTES = 1 << 30
MS_NS = 1_000_000
BUSY_MOST = 1.02
"""Largest sum of consecutive latencies over the elapsed time; above 1 only by rounding."""
OVERLAP_MS = 1.5
MOST_OVERLAPS = 0.001
PAUSE_NS = 2 * MS_NS
LEAST_SPAN_MS = 20
TELLING_SPREAD_MS = 1.0
SURELY_BUSY, BARELY_BUSY = 0.5, 0.05
GAP_WINDOWS = 9
FEWEST_COMPARED, MOST_COMPARED = 32, 100_000
FOLLOWS = 0.7
ROUNDED_MS = 1 / 12**0.5
"""Standard deviation of a time that is cut to whole milliseconds."""
APART_ROWS, APART_PART = 512, 4
"""Rows over which the wander of the gaps is looked for, a quarter of a shorter log: it grows with their
number, rounding does not."""
MOST_FOLLOWED = 64

JOB = (
    "fio --name=r --filename=/dev/sdX --readonly --direct=1 --ioengine=sync --bs=4k --rw=read --size=128m"
    " --write_lat_log=r --log_offset=1"
)
"""The job whose log tells most without a write."""

_NAME = re.compile(r"(?P<stem>.+?)_(?P<kind>lat|clat|slat|bw|iops|hist)(?:\.(?P<job>\d+))?\.log(?:\.gz)?")
_FIELD = re.compile(rb"\s*(?:0[xX][0-9a-fA-F]{1,15}|[0-9]{1,18})\s*")
_OPS = {0: Op.READ, 1: Op.WRITE, 2: Op.TRIM}
_WORDS = {0: "read", 1: "write", 2: "trim"}


@dataclass(frozen=True, slots=True)
class Columns:
    """A log's columns as integers. `offset` and `issue_ns` are None if the log has none; `modern` is True if
    a priority column indicates fio 3.19 or later."""

    time_ms: I64
    value: I64
    direction: I64
    size: I64
    offset: I64 | None
    issue_ns: I64 | None
    modern: bool


@dataclass(frozen=True, slots=True)
class FioLog:
    """One log as a step: its name, its rows, and the parameters that inference needs."""

    name: str
    path: Path
    rows: IoLog
    params: dict[str, JsonScalar]


@dataclass(frozen=True, slots=True)
class DriveLogs:
    """The logs of one drive, and the facts that represent the target in a recording."""

    facts: TargetFacts
    logs: tuple[FioLog, ...]


def read_logs(name: str) -> DriveLogs:
    """The logs in `FILE[,FILE..]` or a directory; refuses files that cannot be evidence."""
    paths = log_files(name)
    logs = [read_log(path, step) for path, step in zip(paths, step_names(paths), strict=True)]
    end = max(int((log.rows.offset + log.rows.size).max()) for log in logs)
    declared: dict[str, JsonScalar] = {
        "files": ", ".join(log.path.name for log in logs),
        "capacity_known": False,
        "latency_unit": ", ".join(dict.fromkeys(str(log.params["unit"]) for log in logs)),
    }
    facts = TargetFacts("fio-log", f"fio-log:{name}", end, int(logs[0].rows.size.min()), declared)
    return DriveLogs(facts, tuple(logs))


def log_files(name: str) -> list[Path]:
    """The files of a target, in the order given; for a directory, its latency logs by name."""
    whole = Path(name)
    if whole.is_dir():
        return _of_directory(whole)
    paths = [whole] if whole.exists() else [Path(part) for part in name.split(",") if part]
    if not paths:
        raise UsageError(f"fio-log:{name} names no file: write fio-log:FILE[,FILE..] or fio-log:DIR")
    seen: set[Path] = set()
    for path in paths:
        _check_kind(path)
        if path.resolve() in seen:
            raise UsageError(f"{path}: is named twice; name each log once")
        seen.add(path.resolve())
    return paths


def short_name(name: str) -> str:
    """A short name for a target: the folder's, or the first file's stem."""
    if Path(name).is_dir():
        return Path(name).absolute().name
    return step_names([Path(name.split(",")[0])])[0]


def _check_kind(path: Path) -> None:
    """Refuses a file whose name indicates that it contains no I/O latencies."""
    named = _NAME.fullmatch(path.name)
    kind = named["kind"] if named else "lat"
    if kind in ("bw", "iops", "hist"):
        raise UsageError(f"{path}: is a {kind} log, which contains no latency; give the _lat or _clat log")
    if kind == "slat":
        raise UsageError(
            f"{path}: is a submission log (slat), without the drive's time; give the _lat or _clat log"
        )


def _of_directory(folder: Path) -> list[Path]:
    """The latency logs of a directory: for each job `lat`, or `clat` if there is no `lat`."""
    best: dict[tuple[str, str], Path] = {}
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}; check its permissions") from error
    for path in entries:
        named = _NAME.fullmatch(path.name)
        if named is None or named["kind"] not in ("lat", "clat"):
            continue
        job = (named["stem"], named["job"] or "")
        if job not in best or named["kind"] == "lat":
            best[job] = path
    if not best:
        raise UsageError(
            f"{folder}: contains no fio latency log (NAME_lat.1.log); make one with --write_lat_log"
        )
    return list(best.values())


def step_names(paths: Sequence[Path]) -> list[str]:
    """A step name for each file: its stem, with the job number if two would be equal."""
    names: list[str] = []
    for path in paths:
        named = _NAME.fullmatch(path.name)
        stem = named["stem"] if named else re.sub(r"(\.log)?(\.gz)?$", "", path.name)
        name = stem if stem not in names else f"{stem}.{named['job']}" if named and named["job"] else stem
        number = 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names


def read_log(path: Path, name: str) -> FioLog:
    """One log as a step."""
    columns = read_columns(path)
    unit_ns, reason = unit_of(columns, path)
    latency_ns = columns.value * unit_ns
    depth = depth_of(columns.time_ms, latency_ns)
    gap_ns = spread_ns = 0.0
    if columns.issue_ns is not None:
        submit_ns = columns.issue_ns - columns.issue_ns.min()
        complete_ns, clock = submit_ns + latency_ns, "issue times"
    elif depth == 1:
        submit_ns, gap_ns, spread_ns = rebuilt(columns.time_ms, latency_ns)
        complete_ns, clock = submit_ns + latency_ns, "running sum"
    else:
        complete_ns = (columns.time_ms - columns.time_ms[0]) * MS_NS
        submit_ns, clock = complete_ns - latency_ns, "time column"
        complete_ns, submit_ns = complete_ns - submit_ns.min(), submit_ns - submit_ns.min()
    order = np.argsort(submit_ns, kind="stable")
    count = len(order)
    offset = np.zeros(count, np.int64) if columns.offset is None else columns.offset
    rows = IoLog(
        np.full(count, int(_OPS[int(columns.direction[0])]), np.uint8),
        offset[order].astype(np.uint64),
        columns.size[order].astype(np.uint32),
        submit_ns[order].astype(np.uint64),
        complete_ns[order].astype(np.uint64),
    )
    params: dict[str, JsonScalar] = {
        "depth": depth,
        "offsets": columns.offset is not None,
        "clock": clock,
        "host_gap_ns": round(gap_ns, 1),
        "host_gap_spread_ns": round(spread_ns, 1),
        "unit": {1: "ns", 1000: "us"}[unit_ns],
        "unit_reason": reason,
        "file": path.name,
    }
    return FioLog(name, path, rows, params)


def depth_of(time_ms: I64, latency_ns: I64) -> int:
    """Approximate number of outstanding I/Os; 1 only if no I/O started before the one before it completed."""
    span_ms = int(time_ms[-1] - time_ms[0])
    busy = float(latency_ns[1:].sum()) / MS_NS / max(span_ms, 1)
    overlaps = latency_ns[1:] / MS_NS - np.diff(time_ms) > OVERLAP_MS
    alone = busy * span_ms <= BUSY_MOST * span_ms + OVERLAP_MS
    if alone and np.count_nonzero(overlaps) <= MOST_OVERLAPS * len(overlaps):
        return 1
    return max(2, round(busy))


def rebuilt(time_ms: I64, latency_ns: I64) -> tuple[I64, float, float]:
    """Submission times (ns from 0) of consecutive I/Os, the host's usual gap, and by how much its gaps vary
    from one to the next (ns).

    The gap is the median, over parts of the log, of the slope of the time column minus the latencies. fio
    occasionally enlarges its arrays, which takes time that is part of no latency."""
    beyond_ns = (np.diff(time_ms) * MS_NS - latency_ns[1:]).astype(np.float64)
    paused = beyond_ns > PAUSE_NS
    lag = np.cumsum(np.where(paused, 0.0, beyond_ns))
    parts = [part for part in np.array_split(lag, GAP_WINDOWS) if len(part) >= GAP_WINDOWS] or [lag]
    slopes = [_slope(part) for part in parts if len(part) > 1]
    gap_ns = max(float(np.median(slopes)) if slopes else 0.0, 0.0)
    waits = np.where(paused, beyond_ns, gap_ns)
    left = lag - gap_ns * np.arange(1, len(lag) + 1)
    spread_ns = _wander(left)
    if spread_ns > 0:
        waits += np.diff(_followed(left, spread_ns), prepend=0.0)
    done = np.cumsum(latency_ns[:-1] + waits)
    submit_ns = np.maximum.accumulate(np.concatenate([[0.0], done]))
    return submit_ns.round().astype(np.int64), gap_ns, spread_ns


def _wander(left_ns: F64) -> float:
    """By how much gaps vary from one to the next, ns: what the clock is off over some rows, beyond the
    millisecond that rounding both ends can make; 0 within that."""
    rows = min(APART_ROWS, len(left_ns) // APART_PART)
    if rows == 0:
        return 0.0
    low, high = np.quantile(left_ns[rows:] - left_ns[:-rows], [0.16, 0.84])
    beyond = (float(high - low) / 2) ** 2 - MS_NS**2
    return float((max(beyond, 0.0) / rows) ** 0.5)


def _followed(left_ns: F64, spread_ns: float) -> F64:
    """What the gaps add up to beyond the usual one: the mean over as many rows as wander by no more than
    the rounding."""
    rows = int(np.clip((ROUNDED_MS * MS_NS / spread_ns) ** 2, 1, MOST_FOLLOWED))
    padded = np.pad(left_ns, (rows, rows), mode="edge")
    mean = np.convolve(padded, np.full(2 * rows + 1, 1 / (2 * rows + 1)), "valid")
    return np.asarray(mean - mean[0])


def _slope(values: F64) -> float:
    """The slope of a least-squares line, per row."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    return float((x * values).sum() / (x * x).sum())


def unit_of(columns: Columns, path: Path) -> tuple[int, str]:
    """Nanoseconds per unit of the latency column (1 or 1000), and the reason, which recordings keep."""
    value_ms = columns.value / 1000
    span_ms = float(columns.time_ms[-1] - columns.time_ms[0])
    busy = float(value_ms[1:].sum()) / max(span_ms, 1e-9)
    follows = _follows(np.diff(columns.time_ms), value_ms[1:])
    if columns.modern:
        if follows is not None and follows > FOLLOWS:
            raise _ambiguous(path, "its columns indicate nanoseconds, its times microseconds")
        return 1, "a priority column is of fio 3.19 and later"
    if span_ms < LEAST_SPAN_MS:
        raise _ambiguous(path, f"it spans {span_ms:.0f} ms")
    if busy <= BUSY_MOST and (follows > FOLLOWS if follows is not None else busy >= SURELY_BUSY):
        return 1000, f"as microseconds the latencies fill {100 * busy:.0f} % of the time that passed"
    if busy >= BARELY_BUSY * 1000:
        return 1, (
            f"as microseconds the latencies would take {busy:.0f} times the time that passed, as"
            f" nanoseconds {100 * busy / 1000:.0f} %"
        )
    raise _ambiguous(path, f"as microseconds its latencies fill {100 * busy:.3g} % of the elapsed time")


def _ambiguous(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path}: cannot determine whether latencies are microseconds or nanoseconds: {why}; log with fio"
        " 3.19 or later, one read at a time, without thinktime"
    )


def _follows(passed_ms: I64, value_ms: F64) -> float | None:
    """Slope of the time between rows over the latency as microseconds: 1 if that is the unit, about 0 if it
    is not; None if latencies vary too little at a resolution of milliseconds."""
    every = max(1, len(value_ms) // MOST_COMPARED)
    value_ms, passed_ms = value_ms[::every], passed_ms[::every]
    if len(value_ms) < FEWEST_COMPARED:
        return None
    usual = (value_ms <= np.quantile(value_ms, 0.99)) & (passed_ms <= np.quantile(passed_ms, 0.99))
    x, y = value_ms[usual], passed_ms[usual].astype(np.float64)
    if len(x) < FEWEST_COMPARED or x.std() < TELLING_SPREAD_MS:
        return None
    return float(np.cov(x, y)[0, 1] / x.var(ddof=1))


# Reading.


def read_columns(path: Path) -> Columns:
    """The columns of a log file, each value checked."""
    data = _content(path)
    fields = data[: data.index(b"\n")].count(b",") + 1
    if not 4 <= fields <= 7:
        raise UsageError(
            f"{path}, line 1: has {fields} columns, a latency log of fio has 4 to 7; give a log that"
            " --write_lat_log made"
        )
    try:
        table = _parsed(data, fields)
    except (pa.ArrowException, ValueError) as error:
        raise _bad_line(path, data, fields) from error
    columns = [table.column(number).to_numpy() for number in range(fields)]
    return _checked(path, data, columns)


def _content(path: Path) -> bytes:
    """The whole file, decompressed."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
            data = source.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such log; name a file that fio's --write_lat_log made") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        lines = _whole_lines(path)
        raise UsageError(f"{path}: its gzip data ends or breaks after line {lines}; copy it again") from error
    except OSError as error:
        reason = reason_of(error)
        raise UsageError(f"{path}: cannot be read: {reason}; check its name and permissions") from error
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{path}: is larger than {MOST_BYTES >> 30} GiB unpacked; give its first part (head -n 10000000)"
        )
    if not data:
        raise UsageError(f"{path}: is empty; fio writes its logs when a job ends, so let the job end")
    if not data.endswith(b"\n"):
        number = data.count(b"\n") + 1
        raise UsageError(f"{path}, line {number}: is cut off; copy the log again or remove that line")
    if data.count(b"\n", 0, 4096) < 2 and data.count(b"\n") < 2:
        raise UsageError(f"{path}, line 1: is the only line; a log needs at least two I/Os")
    return data


def _whole_lines(path: Path) -> int:
    """Number of lines of a damaged gzip file that can still be decompressed."""
    lines = 0
    unpacker = zlib.decompressobj(wbits=31)
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 16):
                lines += unpacker.decompress(piece).count(b"\n")
    except zlib.error:
        pass
    return lines


def _parsed(data: bytes, fields: int) -> pa.Table:
    names = [str(number) for number in range(fields)]
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=1 << 24),
        parse_options=pyarrow.csv.ParseOptions(ignore_empty_lines=False, quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.int64()), null_values=[], strings_can_be_null=False
        ),
    )


def _bad_line(path: Path, data: bytes, fields: int) -> UsageError:
    """The error for the first line that is not a line of such a log."""
    for number, line in enumerate(data.split(b"\n"), 1):
        parts = line.rstrip(b"\r").split(b",")
        if number > 1 and not line and number == data.count(b"\n") + 1:
            break
        if len(parts) != fields:
            return UsageError(
                f"{path}, line {number}: has {len(parts) if line.strip() else 'no'} columns, line 1 has"
                f" {fields}; remove the line or copy the log again"
            )
        for column, part in enumerate(parts, 1):
            if not _FIELD.fullmatch(part):
                shown = part.strip()[:24].decode("utf-8", "backslashreplace")
                return UsageError(
                    f"{path}, line {number}: column {column} is {shown!r}, not a whole number; remove the"
                    " line or copy the log again"
                )
    return UsageError(f"{path}: is not a latency log of fio; give a log that --write_lat_log made")


def _first(bad: NDArray[np.bool_]) -> int:
    """The number of the first line that is True, from 1; 0 if none is."""
    return int(np.argmax(bad)) + 1 if bad.any() else 0


def _checked(path: Path, data: bytes, columns: list[I64]) -> Columns:
    """The columns with their meaning; refuses values that no log of single I/Os contains."""
    for column in columns:
        if int(column.min()) < 0:
            raise _bad_line(path, data, len(columns))
    time_ms, value, direction, size = columns[:4]
    line = _first(direction > 2)
    if line:
        raise UsageError(
            f"{path}, line {line}: direction {direction[line - 1]} is not 0 (read), 1 (write) or 2 (trim);"
            " give a log that --write_lat_log made"
        )
    line = _first((size == 0) | (size >= 1 << 32))
    if line:
        raise UsageError(
            f"{path}, line {line}: block size {size[line - 1]} is not that of one I/O; log every I/O, without"
            " --log_avg_msec"
        )
    line = _first(direction != direction[0])
    if line:
        one, other = _WORDS[int(direction[0])], _WORDS[int(direction[line - 1])]
        raise UsageError(
            f"{path}, line {line}: a {other} among {one}s; log {one}s and {other}s in jobs of their own"
        )
    line = _first(np.diff(time_ms, prepend=time_ms[0]) < 0)
    if line:
        raise UsageError(
            f"{path}, line {line}: its time is before that of line {line - 1}; give each job's log as fio"
            " wrote it"
        )
    if int(value.max()) > 1 << 45 or int(time_ms.max() - time_ms[0]) > 1 << 40:
        line = _first(value > 1 << 45) or len(value)
        raise UsageError(f"{path}, line {line}: contains a time that no I/O takes; copy the log again")
    return _named(path, data, columns)


def _named(path: Path, data: bytes, columns: list[I64]) -> Columns:
    """Identifies offset, priority and issue time among the columns after the fourth."""
    first = data[: data.index(b"\n")].split(b",")
    rest = columns[4:]
    priority = [
        b"x" in part.lower() or int(column.max()) <= 1 for part, column in zip(first[4:], rest, strict=True)
    ]
    offset: I64 | None = None
    issue: I64 | None = None
    if (len(rest) == 1 and not priority[0]) or (len(rest) == 2 and priority[1]):
        offset = rest[0]
    elif len(rest) == 2 and priority[0]:
        issue = rest[1]
    elif len(rest) == 3 and priority[1]:
        offset, issue = rest[0], rest[2]
    elif len(rest) > 1:
        raise UsageError(
            f"{path}, line 1: no priority among columns 5 to {len(columns)}; give an unmodified log of fio"
        )
    if offset is not None and int(offset.max()) >= 1 << 62:
        line = _first(offset >= 1 << 62)
        raise UsageError(f"{path}, line {line}: contains an offset that no drive has; copy the log again")
    modern = len(rest) > 1 or (len(rest) == 1 and priority[0])
    time_ms, value, direction, size = columns[:4]
    return Columns(time_ms, value, direction, size, offset, _usable_issue(issue, time_ms, value), modern)


def _usable_issue(issue_ns: I64 | None, time_ms: I64, latency_ns: I64) -> I64 | None:
    """Issue times that agree with the time column; None for a column of zeros or of another clock."""
    if issue_ns is None:
        return None
    done_ms = (issue_ns + latency_ns - issue_ns[0]) / MS_NS
    drift = done_ms - (time_ms - time_ms[0])
    return issue_ns if float(np.ptp(drift)) <= 2 * OVERLAP_MS else None
