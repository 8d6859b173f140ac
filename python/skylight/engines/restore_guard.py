"""A guard beside a run that changes the settings of a drive, sets a password for its erase, or keeps its data
to put it back: it does that when the run could not.

What survives what: an error, Ctrl-C, SIGTERM and the end of the interpreter are for the engine itself; where
it could not restore everything, it leaves the guard running. SIGKILL leaves it too, and it sees the pipe from
the run close. Where the guard is killed as well (a container that is stopped, a machine that is switched
off) the restore note is left, which the next run with permission to write applies. Switching a drive off
undoes a change of look-ahead; a change of the write cache the drive may have saved.

Invariants: the guard is a session of its own, so that no signal from the run's terminal reaches it; it does
nothing as long as the run lives, and nothing without a note; it opens the drive exclusively, as any run that
writes does, so it never changes the settings of one. It runs as a script, and imports Skylight only when it
is needed: beside a measurement it takes no processor.

Source: Linux `drivers/scsi/sd.c`, `cache_type_store`, which saves the page where the drive can (SP).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 60.0
"""How long the guard tries. Chosen: a killed run is gone within seconds, also from a drive that recovers from
an error; after that somebody else has the drive, whose start applies the note."""
EVERY_S = 0.2
NOTES = (".restore", ".erase", ".preserve")
"""Endings of the notes of a drive (`device.py`, `preserve.py`)."""


class Guard:
    """A guard's process, until it is dismissed."""

    def __init__(self, device: str, note: Path, root: str | None) -> None:
        """Starts the guard of a device with that restore note; `root` as in `DeviceEngine.open`."""
        paths = os.pathsep.join(path for path in sys.path if path)
        self._note = note
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, os.path.abspath(device), str(note.absolute()), root or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": paths, "SKYLIGHT_STATE": str(note.parent.absolute())},
        )

    def has_work(self) -> bool:
        """Whether something is left to put back."""
        return has_work(self._note)

    def dismiss(self) -> None:
        """Ends the guard; what it is to guard has been put back."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.kill()
        self._process.stdin.close()
        self._process.wait()

    def hold(self) -> None:
        """Makes the guard wait for the end of this process, also after `release`: the kernel closes what the
        process has open only after the I/O that it left in flight."""
        assert self._process.stdin is not None
        os.dup(self._process.stdin.fileno())

    def release(self) -> None:
        """Leaves the guard to itself, as a kill would: it tries to put back what is left, and ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        # Its end is collected without waiting for it.
        threading.Thread(target=self._process.wait, daemon=True).start()


def has_work(note: Path) -> bool:
    """Whether a note of the drive is there: of settings, of a password or of kept data."""
    return any(note.with_suffix(ending).exists() for ending in NOTES)


def put_back(device: str, note: Path, root: str | None) -> None:
    """Applies the note as the next run would, as soon as the device is free; gives up after `PATIENCE_S`."""
    from skylight.engines.device import DeviceEngine
    from skylight.errors import SkylightError

    until = time.monotonic() + PATIENCE_S
    while has_work(note) and time.monotonic() < until:
        with suppress(SkylightError):
            # It writes nothing but kept data, so what the drive holds is no reason to refuse.
            DeviceEngine.open(device, destroy_data=True, root=root, preserve=True).close()
        time.sleep(EVERY_S)


if __name__ == "__main__":
    sys.stdin.buffer.read()  # until the run has ended
    put_back(sys.argv[1], Path(sys.argv[2]), sys.argv[3] or None)
