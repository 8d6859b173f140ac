"""A served drive as a block device of this system: a server, nbdfuse that shows it as a file, a loop device.

Invariants: everything that was set up is taken down, also on failure. The programs' output goes to a file,
because an unread pipe would block them.

Source: nbdfuse(1), losetup(8), which work on kernels without an NBD driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from skylight.reproduce.rows import NotMeasured

SKYLIGHT = (sys.executable, "-c", "from skylight.cli import main; main()")
PATIENCE_S = 120.0


def _tool(name: str) -> str:
    """The path of a tool of the system."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise NotMeasured(f"unknown: attaching a drive needs {name}; install libnbd-bin and util-linux")
    return path


@contextmanager
def process(command: list[str], shows: Path) -> Iterator[subprocess.Popen[str]]:
    """A program, from the time it has created a file until SIGTERM ends it. Raises NotMeasured."""
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, text=True)
        try:
            until = time.monotonic() + PATIENCE_S
            while not shows.exists():
                if running.poll() is not None or time.monotonic() > until:
                    said.seek(0)
                    last = (said.read().strip().splitlines() or ["no message"])[-1]
                    raise NotMeasured(f"unknown: {Path(command[0]).name} did not start: {last}")
                time.sleep(0.05)
            yield running
        finally:
            running.terminate()
            running.wait(PATIENCE_S)


@contextmanager
def disk(drive: str, folder: Path, *options: str, between: Sequence[str] = ()) -> Iterator[Path]:
    """A loop device over a served drive; `options` are those of `skylight serve`. The server's control
    socket is `below.control` in the folder. `between` is a program that passes on what nbdfuse and the server
    say, and takes the server's socket and its own. Needs root. Raises NotMeasured."""
    losetup, nbdfuse = _tool("losetup"), _tool("nbdfuse")
    if os.geteuid() != 0:
        raise NotMeasured("unknown: attaching a drive to the kernel needs root; run as root")
    socket, mount = folder / "below.sock", folder / "fuse"
    mount.mkdir()
    serve = [*SKYLIGHT, "serve", drive, "--image", str(folder / "below.img"), "--nbd", f"unix:{socket}"]
    serve += ["--control", str(folder / "below.control")]
    file = mount / "disk.img"
    with ExitStack() as stack:
        stack.enter_context(process([*serve, *options, "--quiet"], socket))
        if between:
            relay = folder / "between.sock"
            stack.enter_context(process([*between, str(socket), str(relay)], relay))
            socket = relay
        stack.enter_context(process([nbdfuse, str(file), f"nbd+unix:///?socket={socket}"], file))
        attach = [losetup, "-f", "--show", "--direct-io=on", "-b", "4096", str(file)]
        attached = subprocess.run(attach, check=False, capture_output=True, text=True)
        if attached.returncode != 0:
            raise NotMeasured(f"unknown: no loop device: {attached.stderr.strip()}")
        device = attached.stdout.strip()
        try:
            yield Path(device)
        finally:
            subprocess.run([losetup, "-d", device], check=False)
