"""The command as people type it: in this process or one of its own, and how it ended."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from skylight.cli.app import EXIT_CODES

CMR, SMR = "st4000nc001", "emulated-smr-1"
START = "from skylight.cli import main; main()"
PROBE = ("probe", "--only", "drive_type")  # the whole suite is tested elsewhere


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def one_line(self, code: int, *words: str) -> None:
        """Asserts the exit code, and one line on standard error, after progress, that holds all the words."""
        assert self.code == code, self.err
        assert code in EXIT_CODES
        assert re.fullmatch(r"(progress: [^\n]+\n)*skylight: [^\n]+\n", self.err), self.err
        for word in words:
            assert word in self.err


Call = Callable[..., Ended]


def process(
    *arguments: str, cwd: Path, before: str = "", stdout: int | IO[str] = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """The command in a process of its own; `before` is Python that runs first."""
    command = [sys.executable, "-c", f"{before}\n{START}", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True)


def finished(running: "subprocess.Popen[str]") -> Ended:
    """Waits for the end of a process."""
    out, err = running.communicate(timeout=120)
    return Ended(running.returncode, out or "", err or "")


def found(text: str) -> tuple[dict[str, object], list[str]]:
    """The JSON of a probe without its notes, and these: they say how the findings came about."""
    document = json.loads(text)
    return document, document.pop("notes")


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
