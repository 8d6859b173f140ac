"""The note beside an image with the endpoints of its server.

``skylight status IMAGE`` and ``skylight control IMAGE`` find the server through it. Other users may be able
to write to its folder.

Invariants:
- Writing the note changes no other file: it is created under an unpredictable name and then renamed, which
  replaces a symbolic link and does not follow it.
- Only its owner may read it, and a server removes only its own note.
- A note is trusted only if it is a regular file that belongs to the reader, to root, or to the owner of the
  image: other users must not determine where programs connect.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from skylight.cli.console import line

NOTE_SUFFIX = ".serve.json"


def note_of(image: Path) -> Path:
    """The path of an image's note: beside it or, for a device, in the folder of the restore notes."""
    if not image.is_block_device():
        return image.with_name(image.name + NOTE_SUFFIX)
    from skylight.engines.device import state_dir

    return state_dir() / (image.name + NOTE_SUFFIX)


def _write(note: Path, text: str) -> None:
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


def _read(note: Path, trusted: set[int]) -> dict[str, Any]:
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


def read_note(image: Path) -> list[str]:
    """The endpoints of an image's server, at least one.

    Raises OSError, ValueError or LookupError if there is no note, or none that is trusted."""
    endpoints = _read(note_of(image), {os.geteuid(), 0, image.stat().st_uid})["endpoints"]
    if not isinstance(endpoints, list) or not endpoints:
        raise ValueError("its note names no endpoint")
    return [str(endpoint) for endpoint in endpoints]


@contextmanager
def noted(image: Path, endpoints: list[str]) -> Iterator[None]:
    """Keeps the note beside the image while it is served; without the note, status needs the socket."""
    note = note_of(image)
    try:
        _write(note, json.dumps({"pid": os.getpid(), "endpoints": endpoints}) + "\n")
    except OSError as error:
        why = error.strerror
        line(f"{note}: cannot be written ({why}): name the socket to skylight status, not the image")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            if _read(note, {os.geteuid()}).get("pid") == os.getpid():
                note.unlink()
