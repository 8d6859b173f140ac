"""The note beside an image with the endpoints and the control socket of its server.

``skylight status`` and ``skylight control`` find the control socket through it, from the image or from the
data socket. Other users may be able to write to its folder.

Invariants:
- Writing the note changes no other file: it is created under an unpredictable name and then renamed, which
  replaces a symbolic link and does not follow it.
- Only its owner may read it, and a server removes only its own note.
- A note is trusted only if it is a regular file that belongs to the reader, to root, or to the owner of the
  image: other users must not determine where programs connect. The server that answers must belong to one of
  these users, too.
"""

from __future__ import annotations

import json
import os
import socket as sockets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skylight.cli.console import line

NOTE_SUFFIX = ".serve.json"
CONTROL_SUFFIX = ".serve.sock"
PATIENCE_S = 5
"""How long a connection to a control socket may take, s; chosen, because a server accepts at once unless it
was stopped or hangs. As long as the native module waits for an answer."""
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class Note:
    """Where an image is served, its control socket, and the users whose note is believed."""

    endpoints: tuple[str, ...]
    control: Path
    trusted: tuple[int, ...]


def beside(image: Path, suffix: str) -> Path:
    """A name beside an image; for a device where restore notes are."""
    if not image.is_block_device():
        return image.with_name(image.name + suffix)
    from skylight.engines.device import state_dir

    return state_dir() / (image.name + suffix)


def control_of(image: Path) -> Path:
    """Where the control socket of an image is unless somebody chose another place."""
    return beside(image, CONTROL_SUFFIX)


def note_of(image: Path) -> Path:
    """Where it is noted that an image is served."""
    return beside(image, NOTE_SUFFIX)


def write_private(note: Path, text: str) -> None:
    """Writes a note that only its owner may read; see the invariants."""
    note.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp uses O_EXCL, O_NOFOLLOW and mode 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{note.name}.", dir=note.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, note)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def read_private(note: Path, trusted: set[int]) -> dict[str, Any]:
    """The content of a note; `trusted` are the user IDs that may own it."""
    descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{note} is not a regular file")
        if found.st_uid not in trusted:
            raise ValueError(f"{note} belongs to user {found.st_uid}, who neither owns the image nor is you")
        content = json.loads(file.read())
    if not isinstance(content, dict):
        raise ValueError(f"{note} does not contain a note")
    return content


def _trusted(image: Path) -> set[int]:
    """The users whose note about an image is believed."""
    return {os.geteuid(), 0, image.stat().st_uid}


def _parsed(note: Path, trusted: set[int]) -> Note:
    said = read_private(note, trusted)
    endpoints, control = said["endpoints"], said["control"]
    if not isinstance(endpoints, list) or not all(isinstance(place, str) for place in endpoints):
        raise ValueError("its note names no places")
    if not isinstance(control, str):
        raise ValueError("it is served without a control socket")
    return Note(tuple(endpoints), Path(control), tuple(sorted(trusted)))


def read_note(image: Path) -> Note:
    """Where an image is served.

    Raises OSError, ValueError or LookupError when there is no note, or none that may be believed.
    """
    return _parsed(note_of(image), _trusted(image))


def is_served(image: Path) -> bool:
    """Whether a server of an image answers; the note of one that was killed says nothing about now.

    Raises ValueError or LookupError when the note may not be believed, PermissionError when it may not be
    read or its server not be asked, and BlockingIOError when its server accepts nobody for `PATIENCE_S`.
    """
    end = time.monotonic() + PATIENCE_S
    try:
        control = os.fspath(read_note(image).control)
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as asked:
            # A connect that waits (SO_SNDTIMEO) was seen to return at once, unconnected, after device I/O in
            # the same process; with settimeout a full queue is an error at once (connect(2), EAGAIN).
            asked.setblocking(False)
            while True:
                try:
                    asked.connect(control)
                    return True
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise
                    time.sleep(_LOOK_AGAIN_S)
    except (FileNotFoundError, ConnectionRefusedError):
        return False


def find_note(socket: Path) -> Note | None:
    """The note that names a Unix socket of the data, in the socket's folder or where notes of devices are."""
    from skylight.engines.device import state_dir

    wanted = os.path.realpath(socket)
    for folder in (socket.absolute().parent, state_dir()):
        for path in sorted(folder.glob(f"*{NOTE_SUFFIX}")):
            image = path.with_name(path.name.removesuffix(NOTE_SUFFIX))
            # A note of somebody else, of a server that was killed, or of something else is not the one.
            with suppress(OSError, ValueError, LookupError):
                note = _parsed(path, _trusted(image) if image.exists() else {os.geteuid(), 0})
                places = (place.partition(":") for place in note.endpoints)
                if any(kind == "unix" and os.path.realpath(where) == wanted for kind, _, where in places):
                    return note
    return None


def _whole(endpoint: str) -> str:
    """An endpoint as programs of every folder know it."""
    kind, _, where = endpoint.partition(":")
    return f"unix:{os.path.abspath(where)}" if kind == "unix" else endpoint


@contextmanager
def noted(image: Path, endpoints: list[str], control: Path | None) -> Iterator[None]:
    """The note beside the image, while it is served; without it status needs the control socket."""
    note = note_of(image)
    try:
        said = {
            "pid": os.getpid(),
            "endpoints": [_whole(endpoint) for endpoint in endpoints],
            "control": None if control is None else os.path.abspath(control),
        }
        write_private(note, json.dumps(said) + "\n")
    except OSError as error:
        why = error.strerror
        line(f"{note}: cannot be written ({why}): name the control socket to skylight status, not the image")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            if read_private(note, {os.geteuid()}).get("pid") == os.getpid():
                note.unlink()
