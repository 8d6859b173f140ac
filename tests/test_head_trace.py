"""The head trace of an emulated drive as a file: what it holds, that it changes nothing, what is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skylight.cli.app import run
from skylight.engines.head_trace import HeadTraceFile
from skylight.engines.sim import SimEngine
from skylight.evidence import IoBatch

PROBE = ("probe", "sim:st5000as0011", "--only", "journal", "--json")


def read(path: Path) -> tuple[pa.Table, dict[str, Any], dict[str, Any]]:
    """The rows, and what the file says at its head and at its end: as docs/recordings.md has it."""
    with pa.ipc.open_stream(path) as stream:
        head = json.loads(stream.schema.metadata[b"skylight"])
        batches = list(stream.iter_batches_with_custom_metadata())
    last = json.loads(dict(batches[-1].custom_metadata)[b"skylight"])
    return pa.Table.from_batches([batch for batch, _ in batches]), head, last


def recorded(folder: Path) -> dict[str, bytes]:
    """What the probe kept, all but the head of the recording, which names the run."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.arrows")}


def test_a_probe_is_the_same_with_a_head_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "head.arrows"
    assert run([*PROBE, "--out", str(tmp_path / "plain")]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert run([*PROBE, "--out", str(tmp_path / "traced"), "--head-trace", str(trace)]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == plain["findings"]
    assert recorded(tmp_path / "traced").keys() == recorded(tmp_path / "plain").keys()

    rows, head, last = read(trace)
    assert head["format"] == "skylight-head-trace"
    assert head["target"] == "sim:st5000as0011"
    assert last["rows"] == rows.num_rows > 1000
    assert last["lost"] == 0
    start, arrived, transfer, end = (
        rows[name].to_numpy() for name in ("start_ns", "arrived_ns", "transfer_ns", "end_ns")
    )
    assert np.all((start <= arrived) & (arrived <= transfer) & (transfer <= end))
    assert np.all(start[1:] >= end[:-1])
    # Each access of the ledger is a row, and the time of each is in both.
    for purpose in set(rows["purpose"].to_pylist()):
        mine = np.array(rows["purpose"].to_pylist()) == purpose
        kinds = [f"{purpose}_platter_{way}" for way in ("read", "written")]
        assert sum(last["ledger"][f"{kind}_accesses"] for kind in kinds) == mine.sum()
        assert sum(last["ledger"][f"{kind}_ns"] for kind in kinds) == int((end - start)[mine].sum())


def test_commands_and_accesses_are_on_one_clock(tmp_path: Path) -> None:
    """Reads of a conventional drive, one at a time: each is one access, within its command."""
    engine = SimEngine.open("st4000nc001")
    offset = np.arange(50, dtype=np.uint64) * np.uint64(1 << 30)
    with (
        HeadTraceFile(tmp_path / "head.arrows", engine),
        engine.settings(write_cache=False, look_ahead=False),
    ):
        log = engine.run(IoBatch.reads(offset, 4096))
    rows, _, _ = read(tmp_path / "head.arrows")
    assert rows.num_rows == len(log)
    assert np.all(rows["start_ns"].to_numpy() >= log.submit_ns)
    assert np.all(rows["end_ns"].to_numpy() <= log.complete_ns)
    assert len(set(rows["track"].to_pylist())) == len(log)


def test_what_there_is_no_room_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skylight.engines.head_trace.ROWS", 20)
    engine = SimEngine.open("st4000nc001")
    with HeadTraceFile(tmp_path / "head.arrows", engine) as trace:
        for first in (0, 30):
            offset = (np.arange(30, dtype=np.uint64) + np.uint64(first)) * np.uint64(1 << 30)
            engine.run(IoBatch.reads(offset, 4096))
    rows, _, last = read(tmp_path / "head.arrows")
    assert (rows.num_rows, last["lost"]) == (40, 20)
    assert trace.summary() == f"{tmp_path / 'head.arrows'} (40 accesses; 20 more did not fit)"


def test_the_engine_goes_on_without_it(tmp_path: Path) -> None:
    """What the end of `settings` writes is in the file; what comes after the file is not."""
    engine = SimEngine.open("st5000as0011")
    writes = IoBatch.writes(np.arange(8, dtype=np.uint64) * np.uint64(1 << 30), 4096)
    with HeadTraceFile(tmp_path / "head.arrows", engine) as trace:
        with engine.settings(write_cache=True, look_ahead=False):
            engine.run(writes)
        engine.erase()
    rows = trace.rows
    engine.run(writes)
    table, _, last = read(tmp_path / "head.arrows")
    assert table.num_rows == last["rows"] == rows == trace.rows
    accesses = [count for name, count in last["ledger"].items() if re.search("_platter_.*_accesses$", name)]
    assert rows == sum(accesses) > 0


@pytest.mark.parametrize(
    ("targets", "code", "words"),
    [
        (["sim:st4000nc001", "sim:emulated-smr-1"], 2, "give a single sim:NAME"),
        (["disk.img"], 2, "only an emulated drive"),
        (["sim:st4000nc001", "--resume"], 2, "omit --resume"),
        (["sim:st4000nc001", "--head-trace", "taken"], 2, "taken: already exists"),
        (["sim:st4000nc001", "--head-trace", "none/head.arrows"], 4, "No such file or directory"),
    ],
    ids=["two", "file", "resume", "taken", "nowhere"],
)
def test_refused_in_one_line(
    targets: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "disk.img").write_bytes(bytes(1 << 20))
    before = sorted(tmp_path.rglob("*"))
    assert run(["probe", "--quick", "--out", "out", "--head-trace", "head.arrows", *targets]) == code
    told = capsys.readouterr()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "taken").read_text() == "mine"


def test_ctrl_c_leaves_a_trace_that_can_be_read(tmp_path: Path) -> None:
    """And names a command that goes on, for which a trace would have no beginning."""
    code = (
        "from skylight.engines.sim import SimEngine\n"
        "run, runs = SimEngine.run, []\n"
        "def third(self, io, **how):\n"
        "    if len(runs) == 3: raise KeyboardInterrupt\n"
        "    runs.append(1)\n"
        "    return run(self, io, **how)\n"
        "SimEngine.run = third\n"
        "from skylight.cli import main; main()"
    )
    for number, given in enumerate((["--head-trace", "head.arrows"], ["--head-trace=head.arrows"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-c", code, *PROBE, "--out", "out", *given]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert ended.returncode == 130, ended.stderr
        rows, _, last = read(folder / "head.arrows")
        assert last["rows"] == rows.num_rows > 0
        again = ended.stderr.splitlines()[-1].split("resume with: skylight ")[1]
        assert again == "probe sim:st5000as0011 --only journal --json --out out --resume"
    subprocess.run(
        [sys.executable, "-m", "skylight", *again.split()], cwd=folder, check=True, capture_output=True
    )
