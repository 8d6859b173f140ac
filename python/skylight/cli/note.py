"""The note beside an image that says where it is served.

What for: ``skylight status IMAGE`` and ``skylight control IMAGE`` find the server by it. It may lie in a
folder in which others may write, too.

Invariants:
- Writing it changes no other file: it is made under a name that nobody can foretell, and then takes its
  place by a rename, which replaces a symbolic link and does not follow it.
- Only its owner may read it, and a server removes no note but its own.
- A note is believed only if it is a regular file of the reader, of root, or of the owner of the image: who
  else can put a file there may not say where programs connect.
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
    """Where it is noted that an image is served: beside it; for a device where restore notes are, too."""
    if not image.is_block_device():
        return image.with_name(image.name + NOTE_SUFFIX)
    from skylight.engines.device import state_dir

    return state_dir() / (image.name + NOTE_SUFFIX)


def _write(note: Path, text: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    # Made with O_EXCL and O_NOFOLLOW, and mode 0600.
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
    """What a note says; `trusted` are the users whose note it may be."""
    descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{note} is no file")
        if found.st_uid not in trusted:
            raise ValueError(f"{note} belongs to user {found.st_uid}, who neither owns the image nor is you")
        said = json.loads(file.read())
    if not isinstance(said, dict):
        raise ValueError(f"{note} holds no note")
    return said


def read_note(image: Path) -> list[str]:
    """Where an image is served: the places of its server, at least one.

    Raises OSError, ValueError or LookupError when there is no note, or none that may be believed.
    """
    endpoints = _read(note_of(image), {os.geteuid(), 0, image.stat().st_uid})["endpoints"]
    if not isinstance(endpoints, list) or not endpoints:
        raise ValueError("its note names no place")
    return [str(place) for place in endpoints]


@contextmanager
def noted(image: Path, endpoints: list[str]) -> Iterator[None]:
    """The note beside the image, while it is served; without it status needs the socket."""
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
