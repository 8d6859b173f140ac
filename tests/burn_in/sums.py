"""Sums of files: what a tree held, to be compared with what it holds later.

Source of the lines' format: sha256sum of coreutils, which the guest's busybox reads too.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from burn_in.processes import BurnInError

PIECE_BYTES = 1 << 20


def sum_of(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def files_of(tree: Path) -> Iterable[Path]:
    """Every plain file below a folder, in one order."""
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path


def sums_of(tree: Path) -> dict[str, str]:
    """The sum of every plain file below a folder, by its path in it."""
    return {str(path.relative_to(tree)): sum_of(path) for path in files_of(tree)}


def compare(tree: Path, sums: dict[str, str], what: str) -> None:
    """`BurnInError` when a file of `sums` is gone or holds something else."""
    for name, expected in sums.items():
        path = tree / name
        if not path.is_file():
            raise BurnInError(f"{what}: {name} is gone")
        if sum_of(path) != expected:
            raise BurnInError(f"{what}: {name} holds something else than what was made durable")


def lines(sums: dict[str, str]) -> str:
    """As sha256sum writes them."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())
