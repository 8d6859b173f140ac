"""fio's logs: every format gives the same rows, the unit is told or refused, bad files refused in a line."""

import gzip
import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fio_logs import BLOCK, GAP_NS, in_order, log_text, write_log
from skylight.cli.app import cli
from skylight.engines import fio_log, parse_target
from skylight.engines.fio_log import read_log, read_logs
from skylight.errors import UsageError
from skylight.evidence import Op
from skylight.probe.fragmented_reads.fio_log_recording import keep_logs
from skylight.probe.suite import infer_suite

COUNT = 400


@pytest.fixture
def latency_ns(rng: np.random.Generator) -> np.ndarray:
    """Like a disk's: 3 to 13 ms, whole microseconds so that both units say the same."""
    return rng.integers(3_000, 13_000, COUNT) * 1000


FORMATS = {
    "2.x": (1000, True, ""),
    "2.x without offsets": (1000, False, ""),
    "3.0": (1, True, ""),
    "3.0 without offsets": (1, False, ""),
    "3.19": (1, True, ", 0"),
    "3.19 without offsets": (1, False, ", 0"),
    "3.28": (1, True, ", 0x0000"),
    "3.28 without offsets": (1, False, ", 0x4001"),
    "issue times, all 0": (1, True, ", 0x0000, 0"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(
    tmp_path: Path, latency_ns: np.ndarray, name: str, packed: bool
) -> None:
    unit_ns, with_offset, tail = FORMATS[name]
    offset = in_order(COUNT, 1 << 40)
    data = log_text(latency_ns, offset if with_offset else None, unit_ns=unit_ns, tail=tail).encode()
    path = tmp_path / f"a_lat.1.log{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(data) if packed else data)
    log = read_log(path, "a")
    assert log.params["unit"] == {1: "ns", 1000: "us"}[unit_ns]
    assert log.params["offsets"] is with_offset
    assert log.params["depth"] == 1
    np.testing.assert_array_equal(log.rows.latency_ns, latency_ns)
    np.testing.assert_array_equal(log.rows.offset, offset if with_offset else np.zeros(COUNT))
    assert set(log.rows.size) == {BLOCK}
    assert set(log.rows.op) == {int(Op.READ)}


def test_the_clock_is_rebuilt_far_finer_than_milliseconds(tmp_path: Path, latency_ns: np.ndarray) -> None:
    path = write_log(tmp_path, "a_lat.1.log", log_text(latency_ns, in_order(COUNT)))
    log = read_log(path, "a")
    true = np.cumsum(latency_ns + GAP_NS)
    drift = np.diff(log.rows.complete_ns.astype(np.int64)) - np.diff(true)
    assert np.abs(drift).max() < 3_000  # the gap, from a time column in milliseconds
    assert np.ptp(drift) <= 1  # and it is one gap


def test_a_pause_of_the_host_is_put_where_it_was(tmp_path: Path, latency_ns: np.ndarray) -> None:
    lines = log_text(latency_ns, in_order(COUNT)).splitlines()
    later = [re.sub(r"^\d+", lambda at: str(int(at[0]) + 500), line) for line in lines[200:]]
    path = write_log(tmp_path, "a_lat.1.log", "\n".join([*lines[:200], *later]) + "\n")
    rows = read_log(path, "a").rows
    gaps = rows.submit_ns[1:].astype(np.int64) - rows.complete_ns[:-1].astype(np.int64)
    assert int(np.argmax(gaps)) == 199
    assert gaps[199] == pytest.approx(500e6, abs=2e6)
    assert np.delete(gaps, 199).max() < 100_000


def test_issue_times_are_used_where_they_agree(tmp_path: Path, latency_ns: np.ndarray) -> None:
    done = np.cumsum(latency_ns + GAP_NS)
    lines = log_text(latency_ns, in_order(COUNT), tail="").splitlines()
    issued = 987_654_321 + done - latency_ns
    text = "".join(f"{line}, 0x0000, {at}\n" for line, at in zip(lines, issued, strict=True))
    log = read_log(write_log(tmp_path, "a_lat.1.log", text), "a")
    assert log.params["clock"] == "issue times"
    np.testing.assert_array_equal(np.diff(log.rows.complete_ns.astype(np.int64)), np.diff(done))
    off = "".join(f"{line}, 0x0000, {at}\n" for line, at in zip(lines, issued * 3, strict=True))
    assert read_log(write_log(tmp_path, "b_lat.1.log", off), "b").params["clock"] == "running sum"


def test_overlapping_ios_are_told(tmp_path: Path, rng: np.random.Generator) -> None:
    times = np.arange(COUNT) * 2
    latency = rng.integers(15_000_000, 17_000_000, COUNT)
    text = "".join(
        f"{at}, {ns}, 0, 4096, {4096 * n}, 0\n" for n, (at, ns) in enumerate(zip(times, latency, strict=True))
    )
    log = read_log(write_log(tmp_path, "a_lat.1.log", text), "a")
    assert log.params["depth"] == 8
    assert log.params["clock"] == "time column"
    assert np.all(np.diff(log.rows.submit_ns.astype(np.int64)) >= 0)
    np.testing.assert_array_equal(np.sort(log.rows.latency_ns), np.sort(latency))


def test_a_log_of_one_short_moment_has_no_unit(tmp_path: Path) -> None:
    path = write_log(tmp_path, "a_lat.1.log", "0, 400, 0, 4096, 8192\n1, 410, 0, 4096, 12288\n")
    with pytest.raises(UsageError, match=r"cannot determine whether .*: it spans 1 ms; log with fio 3.19"):
        read_log(path, "a")


@pytest.mark.parametrize("unit_ns", [1, 1000])
def test_a_host_that_mostly_waits_has_no_unit(tmp_path: Path, unit_ns: int, rng: np.random.Generator) -> None:
    """100 us a read, one in 2 ms: neither unit fills the time."""
    latency = rng.integers(90_000, 110_000, COUNT)
    text = log_text(latency, in_order(COUNT), unit_ns=unit_ns, tail="", gap_ns=20 * int(latency.mean()))
    with pytest.raises(UsageError, match="whether latencies are microseconds or nanoseconds"):
        read_log(write_log(tmp_path, "a_lat.1.log", text), "a")


def test_columns_and_times_that_contradict_are_refused(tmp_path: Path, latency_ns: np.ndarray) -> None:
    text = log_text(latency_ns, in_order(COUNT), unit_ns=1000, tail=", 0")
    with pytest.raises(UsageError, match="its columns indicate nanoseconds, its times microseconds"):
        read_log(write_log(tmp_path, "a_lat.1.log", text), "a")


GOOD = "5, 5000000, 0, 4096, 0, 0\n10, 5000000, 0, 4096, 4096, 0\n"
BAD = {
    "empty": ("", r"a_lat.1.log: is empty; .*let the job end"),
    "one line": ("5, 5000000, 0, 4096, 0, 0\n", r"line 1: is the only line; a log needs at least two I/Os"),
    "cut off": (GOOD + "15, 50000", r"line 3: is cut off; copy the log again or remove that line"),
    "cut off in a number": (GOOD + "15, 500, 0, 4096, 81", r"line 3: is cut off"),
    "a short line": (GOOD + "15, 5000000\n", r"line 3: has 2 columns, line 1 has 6; remove"),
    "a blank line": (GOOD + "\n" + GOOD, r"line 3: has no columns, line 1 has 6"),
    "a word": (GOOD + "15, fast, 0, 4096, 8192, 0\n", r"line 3: column 2 is 'fast', not a whole number"),
    "no value": (GOOD + "15, , 0, 4096, 8192, 0\n", r"line 3: column 2 is '', not a whole number"),
    "a fraction": (GOOD + "15, 0.5, 0, 4096, 8192, 0\n", r"line 3: column 2 is '0.5', not a whole number"),
    "below zero": (GOOD + "15, -5, 0, 4096, 8192, 0\n", r"line 3: column 2 is '-5', not a whole number"),
    "not finite": (GOOD + "15, nan, 0, 4096, 8192, 0\n", r"line 3: column 2 is 'nan'"),
    "too large": (GOOD + "15, 9" + "9" * 30 + ", 0, 4096, 8192, 0\n", r"line 3: column 2 is '9999"),
    "too few columns": ("5, 5000000, 0\n10, 5000000, 0\n", r"line 1: has 3 columns, .* has 4 to 7"),
    "a header": ("time, latency, direction, size\n" + GOOD, r"line 1: column 1 is 'time'|line 2: has 6"),
    "prose": ("the quick brown fox\njumps over\n", r"line 1: has 1 columns"),
    "mixed": (GOOD + "15, 5000000, 1, 4096, 8192, 0\n", r"line 3: a write among reads; .*jobs of their own"),
    "direction": (GOOD + "15, 5000000, 7, 4096, 8192, 0\n", r"line 3: direction 7 is not 0"),
    "averaged": ("5, 5000000, 0, 0, 0, 0\n9, 4000000, 0, 0, 0, 0\n", r"line 1: block size 0 .*log_avg_msec"),
    "back in time": (GOOD + "7, 5000, 0, 4096, 8192, 0\n", r"line 3: its time is before that of line 2"),
    "an age": (GOOD + "15, 99999999999999999, 0, 4096, 1, 0\n", r"line 3: contains a time that no I/O takes"),
    "far": (GOOD + "15, 5000, 0, 4096, 5555555555555555555, 0\n", r"line 3: (column 5|contains an offset)"),
    "no priority": (
        "5, 5000000, 0, 4096, 40960, 77\n10, 5000000, 0, 4096, 4096, 78\n",
        r"line 1: no priority among columns 5 to 6",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, expected = BAD[name]
    path = write_log(tmp_path, "a_lat.1.log", content)
    with pytest.raises(UsageError, match=expected) as refused:
        read_log(path, "a")
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_a_bad_line_far_down_is_named(tmp_path: Path, latency_ns: np.ndarray) -> None:
    lines = log_text(latency_ns, in_order(COUNT)).splitlines()
    lines[333] = lines[333].replace("4096", "4o96", 1)
    with pytest.raises(UsageError, match=r"line 334: column 4 is '4o96'"):
        read_log(write_log(tmp_path, "a_lat.1.log", "\n".join(lines) + "\n"), "a")


def test_gzip_that_ends_early_is_refused(tmp_path: Path, latency_ns: np.ndarray) -> None:
    packed = gzip.compress(log_text(latency_ns, in_order(COUNT)).encode())
    path = tmp_path / "a_lat.1.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UsageError, match=r"gzip data ends or breaks after line \d+; copy it again"):
        read_log(path, "a")
    path.write_bytes(packed[:400] + b"\0" * 50 + packed[450:])
    with pytest.raises(UsageError, match="gzip data ends or breaks after line"):
        read_log(path, "a")


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio_log, "MOST_BYTES", 1 << 10)
    path = tmp_path / "a_lat.1.log.gz"
    path.write_bytes(gzip.compress(b"1, 2, 0, 4096\n" * 100_000))
    with pytest.raises(UsageError, match=r"is larger than .* unpacked; give its first part"):
        read_log(path, "a")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_log_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "a_lat.1.log"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_log(path, "a")
    assert "\n" not in str(refused.value)


@given(st.lists(st.lists(st.integers(0, 2**63), min_size=4, max_size=7), min_size=2, max_size=6))
def test_any_numbers_are_a_log_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a_lat.1.log"
    path.write_text("".join(", ".join(map(str, row)) + "\n" for row in rows))
    try:
        log = read_log(path, "a")
    except UsageError as refused:
        assert "\n" not in str(refused)
    else:
        assert len(log.rows) == len(rows)
        assert np.all(log.rows.latency_ns >= 0)


def test_names_of_steps(tmp_path: Path, latency_ns: np.ndarray) -> None:
    text = log_text(latency_ns, in_order(COUNT))
    for name in ("low_lat.1.log", "low_clat.1.log", "low_slat.1.log", "low_bw.1.log", "notes.txt"):
        write_log(tmp_path, name, text)
    write_log(tmp_path, "low_lat.2.log", text)
    write_log(tmp_path, "high_clat.1.log", text)
    logs = read_logs(str(tmp_path)).logs
    assert [(log.name, log.path.name) for log in logs] == [
        ("high", "high_clat.1.log"),
        ("low", "low_lat.1.log"),
        ("low.2", "low_lat.2.log"),
    ]


def test_several_files_are_one_drive(tmp_path: Path, latency_ns: np.ndarray) -> None:
    low = write_log(tmp_path, "low_lat.1.log", log_text(latency_ns, in_order(COUNT)))
    high = write_log(tmp_path, "high_lat.1.log", log_text(latency_ns, in_order(COUNT, 10**12)))
    drive = read_logs(f"{low},{high}")
    assert [log.name for log in drive.logs] == ["low", "high"]
    assert drive.facts.size_bytes == 10**12 + COUNT * BLOCK
    with pytest.raises(UsageError, match="is named twice"):
        read_logs(f"{low},{low}")


@pytest.mark.parametrize("kind", ["slat", "bw", "iops", "hist"])
def test_logs_of_other_things_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = write_log(tmp_path, f"a_{kind}.1.log", GOOD)
    with pytest.raises(UsageError, match="give the _lat or _clat log"):
        read_logs(str(path))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such log"):
        read_logs(str(tmp_path / "gone_lat.1.log"))
    with pytest.raises(UsageError, match=r"contains no fio latency log"):
        read_logs(str(tmp_path))
    with pytest.raises(UsageError, match=r"names nothing: write fio-log:FILE"):
        parse_target("fio-log:")
    with pytest.raises(UsageError, match=r"names no file"):
        read_logs(",")


def test_real_fio_writes_what_is_read(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    fio = [need_tool("fio"), "--name=job", f"--filename={tmp_path / 'data'}", "--size=4M", "--bs=4k"]
    fio += ["--rw=read", "--ioengine=psync", "--output=/dev/null"]
    offset, prio = "--log_offset=1", "--log_prio=1"
    for name, more in (("with", [offset]), ("without", []), ("prio", [offset, prio])):
        subprocess.run([*fio, f"--write_lat_log={tmp_path / name}", *more], check=True)
        log = read_logs(str(tmp_path / f"{name}_lat.1.log")).logs[0]
        assert len(log.rows) == 1024
        assert log.params["unit"] == "ns"
        assert log.params["offsets"] is (name != "without")
        expected = np.zeros(1024) if name == "without" else in_order(1024)
        np.testing.assert_array_equal(np.sort(log.rows.offset), expected)
    subprocess.run([*fio, f"--write_lat_log={tmp_path / 'avg'}", "--log_avg_msec=1"], check=True)
    with pytest.raises(UsageError, match=r"line 1: block size 0|is empty|is the only line"):
        read_logs(str(tmp_path / "avg_lat.1.log"))
    with pytest.raises(UsageError, match="submission log"):
        read_logs(str(tmp_path / "with_slat.1.log"))


def test_the_real_logs_are_microseconds(data_dir: Path) -> None:
    drive = read_logs(str(data_dir / "st8000as0022-fragmented-reads"))
    assert [log.name for log in drive.logs] == ["read-high", "read-low"]
    for log in drive.logs:
        assert len(log.rows) == 32_768
        assert log.params["unit"] == "us"
        gap = log.params["host_gap_ns"]
        assert isinstance(gap, float)
        assert gap == pytest.approx(7300, rel=0.02)  # its README


def test_a_long_log_is_read_fast(tmp_path: Path, rng: np.random.Generator) -> None:
    count = 1_000_000
    latency = rng.integers(3_000_000, 13_000_000, 10_000)
    piece = log_text(latency, in_order(10_000)).splitlines()
    text = (
        "\n".join(f"{90_000 * part}{line[line.index(',') :]}" for part in range(100) for line in piece) + "\n"
    )
    path = write_log(tmp_path, "a_lat.1.log", text)
    begun = time.process_time()
    columns = fio_log.read_columns(path)
    spent = time.process_time() - begun
    assert len(columns.value) == count
    assert spent < 3, f"{spent:.1f} s of CPU for a million lines"


def test_probe_reads_logs_like_any_target(tmp_path: Path, data_dir: Path) -> None:
    logs = data_dir / "st8000as0022-fragmented-reads"
    named = f"fio-log:{logs / 'read-low_lat.1.log.gz'},{logs / 'read-high_lat.1.log.gz'}"
    run = CliRunner().invoke(cli, ["probe", named, "--json", "--out", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert found["target"]["kind"] == "fio-log"
    assert found["findings"]["cache_location"]["value"] == "od"
    assert (tmp_path / "out/report.html").stat().st_size > 100_000
    again = infer_suite(tmp_path / "out/recording")
    assert {f.name: f.to_json() for f in again.findings} == found["findings"]


def test_probe_of_logs_goes_on_with_what_it_kept(tmp_path: Path, latency_ns: np.ndarray) -> None:
    path = write_log(tmp_path, "a_lat.1.log", log_text(latency_ns, in_order(COUNT)))
    command = ["probe", f"fio-log:{path}", "--json", "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(cli, command)
    assert CliRunner().invoke(cli, command).exit_code != 0  # the folder is taken
    again = CliRunner().invoke(cli, [*command, "--resume"])
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert again.output == first.output


def test_probe_refuses_before_it_makes_anything(tmp_path: Path) -> None:
    path = write_log(tmp_path, "a_lat.1.log", "")
    out = tmp_path / "out"
    run = CliRunner().invoke(cli, ["probe", f"fio-log:{path}", "--out", str(out)])
    assert run.exit_code != 0
    assert isinstance(run.exception, UsageError)
    assert not out.exists()


def test_the_same_logs_give_the_same_recording(tmp_path: Path, latency_ns: np.ndarray) -> None:
    path = write_log(tmp_path, "a_lat.1.log", log_text(latency_ns, in_order(COUNT)))
    for out in ("one", "two"):
        keep_logs(read_logs(str(path)), tmp_path / out)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
