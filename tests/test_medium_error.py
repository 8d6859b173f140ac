"""The first medium error ends a probe: one line with its place, test and step, and the evidence is kept.

The target is a served drive behind nbdfuse and a loop device, part of which fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from device_targets import MIB
from loop_mount import as_device
from serving import Served, small_profile
from skylight.cli.app import run as run_cli
from skylight.evidence import Op
from skylight.recording import Recording, recording_dir


@pytest.mark.parametrize("engine", ["own", "fio"])
@pytest.mark.parametrize("way", ["read", "write"])
def test_the_first_medium_error_ends_a_probe(
    tmp_path: Path, need_tool: Callable[[str], str], need_root: None, way: str, engine: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    del need_root
    if engine == "fio":
        need_tool("fio")
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    profile = small_profile(tmp_path, "conventional")
    out = tmp_path / "out"
    with (
        Served(
            tmp_path,
            profile,
            "--timing",
            "none",
            "--fail",
            f"op={way},range={96 * MIB}-{256 * MIB},error=EIO",
        ) as served,
        as_device(served.uri, tmp_path, need_tool) as device,
    ):
        writes = ["--destroy-data"] if way == "write" else []
        code = run_cli(
            [
                "probe",
                device,
                "--quick",
                "--engine",
                engine,
                "--out",
                str(out),
                "--reset",
                "none",
                *writes,
            ]
        )
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 3 and line.startswith(f"skylight: {device}: "), line
    place = re.search(r"(?:at offset|bytes at) ([\d,]+) \(LBA (\d+)\) failed: ", line)
    assert place is not None, line
    at = int(place[1].replace(",", ""))
    assert 95 * MIB < at < 256 * MIB and int(place[2]) == at // 4096
    step = re.search(r"; it was in (\S+) of drive_type$", line)
    assert step is not None, line
    evidence = Recording.open(recording_dir(out)).evidence("drive_type")
    assert evidence is not None and not evidence.complete
    kept = [*evidence.steps, *evidence.cut]
    assert kept[-1].name == step[1], "what was done before the error is kept, up to its step"
    for each in kept:
        assert (each.rows.offset[each.rows.op == Op[way.upper()]] < 96 * MIB).all()
