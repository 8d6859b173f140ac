"""What benchmarks of served drives share: a program while it is needed, a drive as a block device."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SKYLIGHT = (sys.executable, "-c", "from skylight.cli import main; main()")
PATIENCE_S = 120.0


@contextmanager
def process(command: list[str], shows: Path) -> Iterator[subprocess.Popen[str]]:
    """A program, from when it has made a file to its end by SIGTERM."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + PATIENCE_S
        while not shows.exists():
            if running.poll() is not None or time.monotonic() > until:
                running.kill()
                sys.exit(f"{' '.join(command)}: did not begin: {running.communicate()[0]}")
            time.sleep(0.05)
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE_S)


@contextmanager
def disk(drive: str, folder: Path, *options: str) -> Iterator[Path]:
    """A loop device over a served drive; `options` are those of `skylight serve`. Needs root."""
    socket, mount = folder / "below.sock", folder / "fuse"
    mount.mkdir()
    serve = [*SKYLIGHT, "serve", drive, "--image", str(folder / "below.img"), "--nbd", f"unix:{socket}"]
    file = mount / "disk.img"
    with ExitStack() as stack:
        stack.enter_context(process([*serve, *options, "--quiet"], socket))
        stack.enter_context(process(["nbdfuse", str(file), f"nbd+unix:///?socket={socket}"], file))
        attach = ["losetup", "-f", "--show", "--direct-io=on", "-b", "4096", str(file)]
        device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield Path(device)
        finally:
            subprocess.run(["losetup", "-d", device], check=False)
