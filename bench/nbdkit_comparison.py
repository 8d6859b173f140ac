"""A served drive beside nbdkit's file plugin: the servers and clients that benchmarks of throughput share.

Source: nbdkit(1) and nbdkit-file-plugin(1) for the peer; fio's nbd engine is the client of both.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SKYLIGHT = [sys.executable, "-c", "from skylight.cli import main; main()"]
# A server that ends makes its image durable first.
END_S = 600.0


def check_tools() -> None:
    """Ends the program in one line if fio or nbdkit is missing."""
    missing = [tool for tool in ("fio", "nbdkit") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not installed: run scripts/install-test-tools.sh")


def fio(socket: Path, rw: str, block: str, depth: int, size_bytes: int) -> list[str]:
    """The command of a fio job over the first bytes of an export; callers add when it ends."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", f"--rw={rw}"]
    return [*command, f"--bs={block}", f"--iodepth={depth}", f"--size={size_bytes}"]


def serve(drive: str, image: Path, socket: Path) -> list[str]:
    """The command that serves a drive as the plugin serves its file: no timing, durable on a flush."""
    command = [*SKYLIGHT, "serve", drive, "--image", str(image), "--nbd", f"unix:{socket}"]
    return [*command, "--timing", "none", "--write-cache", "on", "--quiet"]


def nbdkit(plain: Path, socket: Path, size_bytes: int) -> list[str]:
    """The command of the peer, over a new sparse file."""
    with plain.open("wb") as file:
        file.truncate(size_bytes)
    return ["nbdkit", "--foreground", "--exit-with-parent", f"--unix={socket}", "file", str(plain)]


def delayed(socket: Path, size_bytes: int, delay_ms: int) -> list[str]:
    """The command of a peer that answers every read and write after the same time, from memory."""
    command = ["nbdkit", "--foreground", "--exit-with-parent", f"--unix={socket}", "--filter=delay", "memory"]
    return [*command, str(size_bytes), f"rdelay={delay_ms}ms", f"wdelay={delay_ms}ms"]


@contextmanager
def server(command: list[str], socket: Path) -> Iterator[int]:
    """Runs a server until the block ends; yields its process once it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if socket.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            sys.exit(f"no server at {socket}")
        if process.poll() is not None:
            sys.exit(f"no server at {socket}: {process.communicate()}")
        yield process.pid
    finally:
        process.terminate()
        process.communicate(timeout=END_S)
        socket.unlink(missing_ok=True)
