"""Block devices for tests of a drive that lies on one: loop devices over files, and over a served drive.

Invariants: a device that a test leaves behind is detached; nothing outside the test's folder is written to.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import lacking
from serving import run, wait_for

NeedTool = Callable[[str], str]


@contextmanager
def loop_device(file: Path, need_tool: NeedTool, *options: str) -> Iterator[Path]:
    """A file as a block device."""
    losetup = need_tool("losetup")
    try:
        device = run([losetup, "-f", "--show", *options, str(file)]).strip()
    except AssertionError as error:
        lacking(f"no loop device can be had here: {error}")
    try:
        yield Path(device)
    finally:
        subprocess.run([losetup, "-d", device], check=False, capture_output=True)
        wait_for(lambda: device not in run([losetup, "-a"]), f"{device} goes")


@contextmanager
def empty_device(folder: Path, name: str, size: int, need_tool: NeedTool) -> Iterator[Path]:
    """A new block device of zeros; `size` is in bytes."""
    file = folder / f"{name}.raw"
    with file.open("wb") as opened:
        opened.truncate(size)
    with loop_device(file, need_tool) as device:
        yield device


def checksum(path: Path) -> str:
    """Of all that lies in a file, or in the file of a loop device; holes are skipped."""
    if path.is_block_device():
        with path.open("rb") as device:
            os.fsync(device.fileno())
        path = Path(Path(f"/sys/block/{path.name}/loop/backing_file").read_text(encoding="utf-8").strip())
    found = hashlib.sha256()
    with path.open("rb") as opened:
        size, at = os.fstat(opened.fileno()).st_size, 0
        while at < size:
            try:
                at = os.lseek(opened.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            end = os.lseek(opened.fileno(), at, os.SEEK_HOLE)
            data = os.pread(opened.fileno(), end - at, at)
            # Zeros that were written are as good as a hole.
            found.update(b"" if not any(data) else at.to_bytes(8, "little") + data)
            at = end
    return found.hexdigest()
