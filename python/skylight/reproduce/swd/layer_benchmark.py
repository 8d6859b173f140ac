"""The example program `shingling_cost`: the layer of a raw shingled disk at work on a file.

It is written in Rust, because the subject of measurement is the layer and not an interpreter, and a separate
program, because instructions are counted per process. It is looked for in cargo's target folder, and built if
cargo is present.

Invariant: without it rows are unknown; nothing is estimated in its place.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skylight.engines.sim import read_profile
from skylight.reproduce.rows import NotMeasured

PROFILE = "swd-160gb"
"""The paper's kind of disk."""

_ROOT = Path(__file__).resolve().parents[4]
_BUILD = (
    "cargo",
    "build",
    "--release",
    "--quiet",
    "--locked",
    "-p",
    "skylight-drive",
    "--example",
    "shingling_cost",
)
_MOST_S = 900


def _target() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target"))


def _find() -> Path | None:
    """The program, built if necessary; None if it neither exists nor can be built."""
    program = _target() / "release" / "examples" / "shingling_cost"
    if shutil.which("cargo") and (_ROOT / "Cargo.toml").is_file():
        built = subprocess.run(_BUILD, cwd=_ROOT, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            return None
    return program if program.is_file() else None


@dataclass
class Tool:
    """The program, and a folder for its files."""

    folder: Path

    @cached_property
    def _program(self) -> Path | None:
        return _find()

    @property
    def program(self) -> Path:
        """Path of the program; raises NotMeasured if there is none."""
        if self._program is None:
            raise NotMeasured(
                "unknown: the example program is not built; run `" + " ".join(_BUILD) + "` in the source tree"
            )
        return self._program

    @cached_property
    def profile_text(self) -> str:
        """The profile of the paper's kind of disk."""
        return read_profile(PROFILE)[0]

    @cached_property
    def profile(self) -> Path:
        """The same as a file."""
        return self.keep_profile("swd.toml", self.profile_text)

    @property
    def backing(self) -> Path:
        """The file that backs the disk."""
        return self.folder / "swd.img"

    def keep_profile(self, name: str, text: str) -> Path:
        """Writes a profile beside the backing file."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, arguments: Sequence[str], feed: str = "", before: Sequence[str] = ()) -> tuple[str, str]:
        """The program's standard output and standard error; `before` is a command that runs it."""
        command = [*before, str(self.program), *arguments]
        try:
            done = subprocess.run(
                command, input=feed, capture_output=True, text=True, check=False, timeout=_MOST_S
            )
        except subprocess.TimeoutExpired as error:
            raise NotMeasured(f"unknown: {command[0]} took more than {_MOST_S} s") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise NotMeasured(f"unknown: {Path(command[0]).name} failed: {last}")
        return done.stdout, done.stderr

    def compare(self, workload: str, k: int, block: int, bands: int, size: tuple[int, int]) -> dict[str, Any]:
        """Median times and mean CPU times (ns) of each round, side by side; `size` is operations per round,
        and rounds."""
        arguments = [workload, str(k), str(block), str(bands), *map(str, size)]
        printed, _ = self.run(["compare", str(self.profile), str(self.backing), *arguments])
        compared: dict[str, Any] = json.loads(printed)
        return compared
