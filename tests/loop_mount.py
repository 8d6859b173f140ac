"""A served drive as a mounted ext4: nbdfuse makes it a file, a loop device a disk.

Invariants: everything that was set up is taken down again, in order, also when a test fails; the file system
is checked after every use.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import lacking
from serving import PATIENCE_S, run, wait_for


def need_fuse() -> None:
    """Ends a test that needs nbdfuse to have somewhere to show a file."""
    if not Path("/dev/fuse").exists():
        lacking("/dev/fuse is missing: load the module fuse")


@contextmanager
def as_file(uri: str, folder: Path, need_tool: Callable[[str], str]) -> Iterator[Path]:
    """The drive as a file."""
    nbdfuse = need_tool("nbdfuse")
    need_fuse()
    mount = folder / "fuse"
    mount.mkdir(exist_ok=True)
    path = mount / "disk.img"
    process = subprocess.Popen([nbdfuse, str(path), uri], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: path.exists() or process.poll() is not None, "nbdfuse shows the file")
        assert process.poll() is None, process.communicate()[0]
        yield path
    finally:
        subprocess.run([need_tool("umount"), str(mount)], check=False, capture_output=True)
        try:
            process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def as_device(uri: str, folder: Path, need_tool: Callable[[str], str]) -> Iterator[str]:
    """The drive as a block device."""
    losetup = need_tool("losetup")
    with as_file(uri, folder, need_tool) as path:
        try:
            made = run([losetup, "-f", "--show", "--direct-io=on", "-b", "4096", str(path)])
        except AssertionError as error:
            lacking(f"no loop device can be had here: {error}")
        device = made.strip()
        try:
            yield device
        finally:
            subprocess.run([losetup, "-d", device], check=False, capture_output=True)
            # It goes when its last user does.
            wait_for(lambda: device not in run([losetup, "-a"]), f"{device} goes")


@contextmanager
def mounted(uri: str, folder: Path, need_tool: Callable[[str], str], make: bool = False) -> Iterator[Path]:
    """The drive as a mounted ext4, made first if asked; checked afterwards."""
    with as_device(uri, folder, need_tool) as device:
        if make:
            run([need_tool("mkfs.ext4"), "-q", "-F", device])
        else:
            run([need_tool("e2fsck"), "-f", "-n", device])
        place = folder / "mounted"
        place.mkdir(exist_ok=True)
        run([need_tool("mount"), device, str(place)])
        try:
            yield place
        finally:
            run([need_tool("umount"), str(place)])
        run([need_tool("e2fsck"), "-f", "-n", device])
