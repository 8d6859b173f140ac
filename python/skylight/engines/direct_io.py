"""Files and devices opened past the page cache, with a buffer that direct I/O takes.

Invariant: descriptor and buffer are given back however the use of them ends.
Source: open(2), O_DIRECT.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["opened_direct"]


@contextmanager
def opened_direct(path: str | Path, flags: int, buffer_bytes: int) -> Iterator[tuple[int, mmap.mmap]]:
    """A descriptor of what is opened with the flags and O_DIRECT, and a buffer on whole pages. Raises
    OSError."""
    descriptor = os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, buffer_bytes) as aligned:
            yield descriptor, aligned
    finally:
        os.close(descriptor)
