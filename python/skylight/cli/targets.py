"""What is looked at before anything is measured: targets that are one drive, a folder that cannot be made.

What for: a drive named by two of its names would be measured twice in one run, and the writes of the first
measurement would be what the second one finds; a folder that cannot hold results is told before the plan.

Invariants: no target is opened, and one that cannot be looked at is left to its engine to refuse; a folder
that was made to see whether it can be is gone again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from skylight.engines import Target
from skylight.errors import KeepError, UsageError

__all__ = ["check_distinct", "check_holds"]


def _identity(target: Target) -> tuple[str, int, int] | None:
    """What the kernel knows a device or file by; None for what nothing can spoil, or cannot be looked at."""
    if target.kind != "device":
        return None
    try:
        found = os.stat(target.name)
    except (OSError, ValueError):  # a name with a zero byte is a ValueError
        return None
    if stat.S_ISBLK(found.st_mode):
        return "drive", found.st_rdev, 0
    return "file", found.st_dev, found.st_ino


def check_distinct(targets: Sequence[Target]) -> None:
    """Refuses targets of which two are one drive or file, whatever names they go by."""
    seen: dict[tuple[str, int, int], Target] = {}
    for target in targets:
        identity = _identity(target)
        if identity is None:
            continue
        first = seen.setdefault(identity, target)
        if first is not target:
            kind = identity[0]
            twice = "named twice" if first.spec == target.spec else f"the same {kind} as {first.spec}"
            raise UsageError(f"{target.spec}: is {twice}; name each {kind} once")


def check_holds(folder: Path) -> None:
    """Refuses a folder for results that cannot be made, or in which nothing can be."""
    made: list[Path] = []
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir()
            made.append(path)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise KeepError(f"{folder}: no permission to write there; choose another with --out DIR")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise KeepError(f"{folder}: cannot be made: {reason}; choose another with --out DIR") from error
    finally:
        for path in reversed(made):
            with suppress(OSError):  # somebody has put something in it
                path.rmdir()
