"""A served drive and its ways to the host: the server's process, nbdfuse and a loop device, a mount.

Invariants: each is a context manager that takes down what it set up, also after the server was killed; a
tool that fails raises `BurnInError` with the tool's own words; `leftovers` takes down what a run left
behind that was itself killed.
"""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from burn_in.processes import LOG, BurnInError, Process, attempt, run, wait_for

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 300.0
SECONDS_OF_FUSE = 60.0
TRIES_TO_UNMOUNT = 20


class Server:
    """An NBD server on a Unix socket, started from a command with `{image}` and `{socket}` in it."""

    def __init__(self, command: Sequence[str], image: Path, socket: Path, log: Path) -> None:
        """Starts it and waits until it listens."""
        self.socket = socket
        self._log = log
        socket.unlink(missing_ok=True)
        words = [word.format(image=image, socket=socket) for word in command]
        LOG.debug("$ %s &", " ".join(words))
        with log.open("ab") as out:
            self._process = Process(words, out)
        try:
            wait_for(f"{' '.join(words)} listens", self._listens, SECONDS_TO_START)
        except BaseException:
            self.kill()
            raise

    def _listens(self) -> bool:
        self._still_runs()
        return self.socket.exists()

    def _still_runs(self) -> None:
        code = self._process.ended()
        if code is not None:
            said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BurnInError(f"the server ended with {code}: {' '.join(said)}")

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """A server that a failure left behind is killed."""
        self.kill()

    def kill(self) -> None:
        """SIGKILL: what a power cut is to a program."""
        self._process.kill()

    def stop(self) -> None:
        """SIGTERM; it has to end by itself, with exit code 0."""
        self._still_runs()
        self._process.popen.send_signal(signal.SIGTERM)
        try:
            code = self._process.popen.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BurnInError(f"the server did not end within {SECONDS_TO_STOP:.0f} s of SIGTERM") from None
        if code != 0:
            raise BurnInError(f"the server ended with {code} after SIGTERM, not with 0")


@contextmanager
def attached(socket: Path, point: Path, log: Path) -> Iterator[str]:
    """The served drive as a loop device over nbdfuse; yields the device."""
    point.mkdir(parents=True, exist_ok=True)
    words = ["nbdfuse", str(point / "disk"), "--unix", str(socket)]
    device = ""
    LOG.debug("$ %s &", " ".join(words))
    with log.open("ab") as out, Process(words, out) as fuse:
        try:
            shown = point / "disk"
            wait_for(
                "nbdfuse shows the drive", lambda: fuse.ended() is not None or shown.exists(), SECONDS_OF_FUSE
            )
            if fuse.ended() is not None:
                raise BurnInError(f"nbdfuse ended with {fuse.ended()}: its words are in {log}")
            device = run(
                "losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", shown
            ).strip()
            yield device
        finally:
            if device:
                attempt("losetup", "--detach", device)
            let_go(fuse, point)


def let_go(fuse: Process, point: Path) -> None:
    """Unmounts what nbdfuse shows and waits for its end; lazily where something still holds it."""
    if not attempt("umount", point):
        attempt("umount", "--lazy", point)
    try:
        fuse.popen.wait(SECONDS_OF_FUSE)
    except subprocess.TimeoutExpired:
        LOG.debug("nbdfuse did not end: killed")


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
    for _ in range(TRIES_TO_UNMOUNT):
        if attempt("umount", point):
            return
        time.sleep(0.2)
    attempt("umount", "--lazy", point)


def leftovers(folder: Path) -> None:
    """Takes down mounts and loop devices below a folder that a run which was killed left behind."""
    mounts = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    loops = {
        f"/dev/{file.parent.parent.name}"
        for file in Path("/sys/block").glob("loop*/loop/backing_file")
        if Path(file.read_text().strip()).is_relative_to(folder)
    }
    # Loop devices between the mounts on them and the nbdfuse below them: the last mount goes first.
    for point in reversed([point for point in mounts if point.is_relative_to(folder)]):
        LOG.info("left behind, taken down: %s", point)
        attempt("umount", "--lazy", point)
    for device in sorted(loops):
        LOG.info("left behind, taken down: %s", device)
        attempt("losetup", "--detach", device)
