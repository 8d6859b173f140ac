"""A served drive and its ways to the host: the server's process, nbdfuse and a loop device, a mount.

Invariants: each is a context manager that takes down what it set up, also after the server was killed; a tool
that fails raises `BurnInError` with the tool's own words.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 300.0
ENVIRONMENT = os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C"}


class BurnInError(Exception):
    """A step of the burn-in failed: which, and why."""


def run(*words: str | Path, accept: Sequence[int] = (0,), cwd: Path | None = None) -> str:
    """Runs a tool and returns what it prints; `accept` lists the exit codes that are no failure."""
    names = [str(word) for word in words]
    done = subprocess.run(
        names, capture_output=True, text=True, errors="replace", check=False, env=ENVIRONMENT, cwd=cwd
    )
    if done.returncode not in accept:
        said = " / ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:])
        raise BurnInError(f"{' '.join(names)}: exit {done.returncode}: {said}")
    return done.stdout


def wait_for(what: str, holds: Callable[[], bool], seconds: float) -> None:
    """Waits until something holds; `BurnInError` when it does not within so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise BurnInError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


class Server:
    """An NBD server on a Unix socket, started from a command with `{image}` and `{socket}` in it."""

    def __init__(self, command: Sequence[str], image: Path, socket: Path, log: Path) -> None:
        """Starts it and waits until it listens."""
        self.socket = socket
        self._log = log
        with suppress(FileNotFoundError):
            socket.unlink()
        words = [word.format(image=image, socket=socket) for word in command]
        with log.open("ab") as out:
            self._process = subprocess.Popen(words, stdout=out, stderr=out, env=ENVIRONMENT)
        wait_for(f"{' '.join(words)} listens", self._listens, SECONDS_TO_START)

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BurnInError(f"the server ended with {self._process.returncode}: {' '.join(said)}")
        return self.socket.exists()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """A server that a failure left behind is killed."""
        if self._process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: what a power cut is to a program."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM; it has to end by itself, with exit code 0."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BurnInError(f"the server did not end within {SECONDS_TO_STOP:.0f} s of SIGTERM") from None
        if code != 0:
            raise BurnInError(f"the server ended with {code} after SIGTERM, not with 0")


@contextmanager
def attached(socket: Path, point: Path) -> Iterator[str]:
    """The served drive as a loop device over nbdfuse; yields the device."""
    point.mkdir(parents=True, exist_ok=True)
    fuse = subprocess.Popen(
        ["nbdfuse", str(point / "disk"), "--unix", str(socket)], env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )
    device = ""
    try:
        wait_for("nbdfuse shows the drive", lambda: fuse.poll() is not None or (point / "disk").exists(), 60)
        if fuse.poll() is not None:
            raise BurnInError(f"nbdfuse ended with {fuse.returncode}")
        device = run(
            "losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", point / "disk"
        ).strip()
        yield device
    finally:
        if device:
            subprocess.run(["losetup", "--detach", device], env=ENVIRONMENT, check=False)
        let_go(fuse, point)


def let_go(fuse: subprocess.Popen[bytes], point: Path) -> None:
    """Unmounts what nbdfuse shows and waits for its end; lazily where something still holds it."""
    for words in (["fusermount3", "-u"], ["fusermount", "-u"], ["umount", "--lazy"]):
        with suppress(FileNotFoundError):
            if subprocess.run([*words, str(point)], capture_output=True, env=ENVIRONMENT).returncode == 0:
                break
    try:
        fuse.wait(30)
    except subprocess.TimeoutExpired:
        fuse.kill()
        fuse.wait()


@contextmanager
def mounted(device: str, point: Path) -> Iterator[Path]:
    """The file system of a device."""
    point.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "ext4", device, point)
    try:
        yield point
    finally:
        unmount(point)


def unmount(point: Path) -> None:
    """Unmounts, lazily at last: after the server's death nothing can be written any more."""
    for _ in range(20):
        if subprocess.run(["umount", str(point)], capture_output=True, env=ENVIRONMENT).returncode == 0:
            return
        time.sleep(0.2)
    subprocess.run(["umount", "--lazy", str(point)], capture_output=True, env=ENVIRONMENT, check=False)
