"""Real block devices for tests: loop devices over files, always detached again, and what the kernel counts.

Invariants: a loop device that cannot be had fails the test with losetup's own reason; every helper that sets
something up is a context manager that takes it down, also when the test fails.
Source: Linux Documentation/block/stat.rst for the fields of `stat`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

MIB = 1 << 20
SIZE = 96 * MIB
TOOL_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def tool(*words: str, given: str = "") -> str:
    """Runs a system tool, with `given` as its input, and returns what it prints; fails the test with its own
    words."""
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, env=environment())
    if done.returncode != 0:
        pytest.fail(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}", pytrace=False)
    return done.stdout.strip()


def unmount(point: Path) -> None:
    """Unmounts; a loop device over a file in there lets go a moment after its last holder has ended."""
    until = time.monotonic() + 20
    words = ["umount", str(point)]
    while time.monotonic() < until:
        if subprocess.run(words, capture_output=True, check=False, env=environment()).returncode == 0:
            return
        time.sleep(0.1)
    tool(*words)


def environment() -> dict[str, str]:
    """The environment of a child that imports what this process imports."""
    return {**os.environ, "PATH": TOOL_PATH, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def sparse(path: Path, size: int = SIZE) -> Path:
    """A sparse file of that many bytes."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


@dataclass(frozen=True)
class Loop:
    """An attached loop device."""

    path: str
    backing: Path

    @property
    def name(self) -> str:
        """Its name in sysfs."""
        return self.path.removeprefix("/dev/")

    @property
    def held(self) -> str:
        """What the kernel says it stands on; empty when it stands on nothing."""
        with suppress(OSError):
            return Path(f"/sys/block/{self.name}/loop/backing_file").read_text(encoding="utf-8").strip()
        return ""

    def _stat(self, field: int) -> int:
        return int(Path(f"/sys/block/{self.name}/stat").read_text(encoding="ascii").split()[field])

    @property
    def reads(self) -> int:
        """Reads that the kernel completed, and those that it merged into others."""
        return self._stat(0) + self._stat(1)

    @property
    def changes(self) -> tuple[int, int, int, int]:
        """Writes, sectors written, discards and flushes that the kernel completed."""
        return self._stat(4), self._stat(6), self._stat(11), self._stat(15)


@contextmanager
def loop(backing: Path, *options: str) -> Iterator[Loop]:
    """A loop device over a file or device; `options` go to losetup."""
    path = tool("losetup", "--find", "--show", *options, str(backing))
    made = Loop(path, backing)
    held = made.held
    try:
        yield made
    finally:
        tool("losetup", "--detach", path)
        _await_release(made, held)


def _await_release(made: Loop, held: str) -> None:
    """Waits until the backing file is let go: while another process has the device open, if only to look at
    its signatures, a detach that succeeded still lasts until that process closes it."""
    until = time.monotonic() + 20
    while made.held == held and time.monotonic() < until:
        time.sleep(0.02)


@contextmanager
def mounted(device: str, point: Path) -> Iterator[Path]:
    """A new ext4 file system on a device, mounted, that writes nothing of its own accord.

    By default the kernel goes on to initialise inode tables for some time after the mount, and a test
    that counts what the device has written would count that.
    """
    tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    point.mkdir()
    tool("mount", "-o", "noatime,noinit_itable", device, str(point))
    tool("sync", "--file-system", str(point))
    try:
        yield point
    finally:
        unmount(point)


@contextmanager
def frozen(point: Path) -> Iterator[None]:
    """A mounted file system on which every write hangs."""
    tool("fsfreeze", "--freeze", str(point))
    try:
        yield
    finally:
        tool("fsfreeze", "--unfreeze", str(point))


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes to it; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
    finally:
        process.wait()


def said(process: subprocess.Popen[str]) -> str:
    """The next line that a child prints; fails the test when it ends instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the child ended without a word; its error is above"
    return line.strip()


def tell(process: subprocess.Popen[str]) -> None:
    """Lets a child that waits for a line go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
