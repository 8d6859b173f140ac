"""A served drive for a test: the command itself in a process of its own, on a Unix socket in a folder.

Invariants: a server that a test leaves running is killed; nothing is waited for longer than `PATIENCE_S`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from conftest import lacking
from nbd_client import NbdClient

PATIENCE_S = 60.0
SKYLIGHT = (sys.executable, "-c", "from skylight.cli import main; main()")
SMALL = """\
schema = 1
name = "small"
capacity = "256 MiB"
[mechanics]
rpm = 7200
head_switch = "0.6 ms"
write_settle = "0.1 ms"
seek = {{ fitted = {{ constant = "0.8 ms", root = "0.02 ms", linear = "0.001 ms" }} }}
[geometry]
surfaces = 3
layout = "hybrid-serpentine"
group_tracks = 17
track_skew = "1 ms"
head_skew = "0.8 ms"
[geometry.taper]
zones = 5
tracks = 2400
outer_sectors_per_track = 150
inner_sectors_per_track = 90
[interface]
queue_depth = 31
command_overhead = "0.1 ms"
host_gap = "0.02 ms"
schedule = "fifo"
write_cache = "{write_cache}"
[layer]
{layer}
"""
LAYERS = {
    "conventional": 'kind = "conventional"',
    "set-associative": 'kind = "set-associative"\nband = "512 KiB"\ncache = "4 MiB"\ncache_medium = "disk"\n'
    'cache_location = "id"',
    "fully-associative": 'kind = "fully-associative"\nband = "512 KiB"\nzone = "64 MiB"\nfree_bands = 4\n'
    'clean_threshold = 1\ncleaning = "aggressive"\nidle = "0.1 s"',
    "journaled": 'kind = "journaled"\ncache_medium = "disk"\ncache_location = "id"\nquantum = "32 KiB"\n'
    'out_of_band = "64 KiB"\nentry_gap = "8 KiB"\nentry_max = "256 KiB"\nplaces = 100\nmap_entries = 400\n'
    'map_merge_every = 20\nmap_merge = "64 KiB"\ncleaning = "aggressive"\nidle = "0.1 s"\n'
    'bands = [{ band = "512 KiB" }]',
}


def need_native() -> None:
    """Ends a test that needs a native module which can serve."""
    from skylight import _native

    if not hasattr(_native, "DriveServer"):
        lacking("the native module was built before it could serve: run make setup")


def small_profile(folder: Path, layer: str, write_cache: str = "0 B") -> Path:
    """A drive of 256 MiB with a layer of `LAYERS`."""
    path = folder / f"{layer}.toml"
    path.write_text(SMALL.format(layer=LAYERS[layer], write_cache=write_cache), encoding="utf-8")
    return path


class Served:
    """``skylight serve`` in a process of its own, from the moment it listens."""

    def __init__(
        self, folder: Path, drive: str | Path, *options: str, image: str | None = "disk.img"
    ) -> None:
        """Starts it; it listens when this returns. Without an image the options say where the data is."""
        self.image = folder / (image or "none")
        self.socket = folder / "s"
        self.control = folder / f"{self.image.name}.serve.sock"
        self.known_as = str(self.image) if image else f"unix:{self.socket}"
        self.uri = f"nbd+unix:///?socket={self.socket}"
        command = [*SKYLIGHT, "serve", str(drive), *(["--image", str(self.image)] if image else [])]
        command += ["--nbd", f"unix:{self.socket}", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._clients: list[NbdClient] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith("  fio"):
                return
        _, error = self.process.communicate(timeout=PATIENCE_S)
        raise AssertionError(f"it did not begin to serve: {error}")

    def client(self) -> NbdClient:
        """A client, which goes when the server does."""
        self._clients.append(NbdClient(self.socket))
        return self._clients[-1]

    def status(self) -> dict[str, Any]:
        """What ``skylight status`` says."""
        found = run([*SKYLIGHT, "status", self.known_as, "--json"])
        whole: dict[str, Any] = json.loads(found)
        return whole

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ends it; its exit code and what it said last."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out + err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


def run(command: Sequence[str], **options: Any) -> str:
    """Runs a program that must succeed; what it printed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False, **options
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    out: str = done.stdout
    return out


def wait_for(holds: Any, what: str) -> None:
    """Waits until something holds."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"in {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def rounds(variable: str, few: int) -> int:
    """How often a long test repeats itself: `few`, or what the environment says."""
    return int(os.environ.get(variable, few))
