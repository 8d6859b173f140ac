"""Checks before any measurement: targets that are the same drive, and a results folder that cannot be
created.

A drive given under two names would be measured twice in one run, and the second measurement would find the
writes of the first; an unusable results folder is reported before the plan.

Invariants: no target is opened, and a target that cannot be examined is left for its engine to refuse; a
folder created by the check is removed again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from skylight.engines import Target
from skylight.errors import KeepError, UsageError, reason_of

__all__ = ["check_distinct", "check_results_folder"]


def _identity(target: Target) -> tuple[str, int, int] | None:
    """The kernel's identity of a device or file; None if it has none or cannot be examined."""
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
    """Refuses targets of which two are the same drive or file, under any names."""
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


def check_results_folder(folder: Path) -> None:
    """Refuses a results folder that cannot be created or written to."""
    made: list[Path] = []
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder; choose another with --out DIR")
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir()
            made.append(path)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise KeepError(f"{folder}: no permission to write there; choose another with --out DIR")
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        raise KeepError(f"{folder}: cannot be made: {reason}; choose another with --out DIR") from error
    finally:
        for path in reversed(made):
            with suppress(OSError):  # another process has put a file in it
                path.rmdir()
