"""The list of Rust test programs: none is left out unseen."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import list_test_binaries
import pytest


def artifact(crate: str, name: str, *, test: bool = True, executable: bool = True) -> str:
    """A message of cargo about a target."""
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "manifest_path": f"/house/{crate}/Cargo.toml",
            "target": {"name": name, "src_path": f"/house/{crate}/{name}.rs"},
            "profile": {"opt_level": "0", "test": test},
            "executable": f"/target/{name}-0123" if executable else None,
        }
    )


def package(crate: str, *names: str) -> dict[str, Any]:
    """The metadata of a crate whose targets have tests, and of its build script."""
    targets = [{"name": name, "src_path": f"/house/{crate}/{name}.rs", "test": True} for name in names]
    script = {"name": "build-script-build", "src_path": f"/house/{crate}/build.rs", "test": False}
    return {"name": crate, "manifest_path": f"/house/{crate}/Cargo.toml", "targets": [*targets, script]}


MESSAGES = [
    "   Compiling disk v0.1.0",
    artifact("disk", "disk", test=False, executable=False),
    artifact("disk", "disk"),
    artifact("disk", "atlas"),
    json.dumps({"reason": "build-finished", "success": True}),
]


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([package("disk", "disk", "atlas")], 0),
        ([package("disk", "disk", "atlas"), package("py", "native")], 0),
        ([package("disk", "disk", "atlas", "seeks")], 1),
        ([package("disk", "disk")], 1),
        ([package("disk", "disk", "atlas"), package("drive", "drive")], 1),
    ],
)
def test_targets_without_a_program_and_programs_without_a_target_are_errors(
    packages: list[dict[str, Any]],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = subprocess.CompletedProcess([], 0, json.dumps({"packages": packages}))
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: answer)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(MESSAGES)))
    assert list_test_binaries.main(["py"]) == code
    out, err = capsys.readouterr()
    assert out.splitlines() == ["/house/disk\t/target/disk-0123", "/house/disk\t/target/atlas-0123"]
    assert len(err.splitlines()) == code


@pytest.mark.parametrize("last", [[], [json.dumps({"reason": "build-finished", "success": False})]])
def test_nothing_is_compared_after_a_build_that_failed(
    last: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = subprocess.CompletedProcess([], 0, json.dumps({"packages": [package("disk", "disk", "seeks")]}))
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: answer)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*MESSAGES[:-1], *last])))
    assert list_test_binaries.main([]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 1
    assert "seeks" not in err
