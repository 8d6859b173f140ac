"""An image on a file system that fills up: writes fail, reads go on, nothing acknowledged is lost.

When there is space the server goes on by itself.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from conftest import lacking
from native_disk import NeedTool
from nbd_client import FLUSH, NbdClient, NbdError
from serving import SKYLIGHT, Served, need_native, run, small_profile
from test_serve_native import flash_profile

MIB = 1 << 20
SIZE = 256 * MIB
PIECE = 128 << 10
ENOSPC = 28
# Two of the pauses after which a refused write is tried again, and as much again for a busy machine.
GOES_ON_WITHIN_S = 10.0
# More than the volatile cache holds of what was refused, each time.
BALLAST = [4 * MIB, 2 * MIB]


@contextmanager
def small_file_system(folder: Path, need_tool: NeedTool, kind: str) -> Iterator[Path]:
    """A file system of a few MiB, mounted."""
    mount, umount = need_tool("mount"), need_tool("umount")
    small = folder / "small"
    small.mkdir()
    if kind == "tmpfs":
        command = [mount, "-t", "tmpfs", "-o", "size=11m", "none", str(small)]
    else:
        file = folder / "file-system"
        with file.open("wb") as opened:
            opened.truncate(14 * MIB)
        run([need_tool("mkfs.ext4"), "-q", "-m", "0", "-O", "^has_journal", str(file)])
        command = [mount, "-o", "loop", str(file), str(small)]
    if subprocess.run(command, check=False).returncode != 0:
        lacking(f"no {kind} can be mounted here")
    try:
        yield small
    finally:
        run([umount, str(small)])


def test_a_start_without_space_leaves_no_image_behind(tmp_path: Path, need_tool: NeedTool) -> None:
    with small_file_system(tmp_path, need_tool, "tmpfs") as small:
        (small / "fill").write_bytes(bytes(11 * MIB - 64 * 1024))
        image = small / "d.img"
        command = [*SKYLIGHT, "serve", str(small_profile(tmp_path, "journaled")), "--image", str(image)]
        done = subprocess.run([*command, "--run", "true"], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "No space left" in done.stderr, done.stderr
        assert [path.name for path in small.iterdir()] == ["fill"]
        image.write_bytes(b"")  # of somebody who made it before: that is not ours
        subprocess.run([*command, "--run", "true"], capture_output=True, check=False)
        assert image.exists()
        (small / "fill").unlink()
        assert subprocess.run([*command, "--run", "true"], capture_output=True, check=False).returncode == 0


def test_a_flash_without_space_elsewhere_leaves_no_image_behind(tmp_path: Path, need_tool: NeedTool) -> None:
    with small_file_system(tmp_path, need_tool, "tmpfs") as small:
        with (small / "fill").open("wb", buffering=0) as fill, suppress(OSError):
            while True:
                fill.write(bytes(64 * 1024))
        image, flash = tmp_path / "d.img", small / "flash.img"
        where = ["--image", str(image), "--cache-on", str(flash), "--run", "true"]
        command = [*SKYLIGHT, "serve", str(flash_profile(tmp_path)), *where]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "No space left" in done.stderr, done.stderr
        assert not image.exists()
        assert [path.name for path in small.iterdir()] == ["fill"]
        (small / "fill").unlink()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0


class Blocks:
    """What each piece of the drive may hold: more than one thing only after a write that failed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.may_be: dict[int, list[bytes]] = {}

    def write(self, client: NbdClient, piece: int) -> None:
        """Writes something new to a piece."""
        data = self._rng.bytes(PIECE)
        before = self.may_be.get(piece, [bytes(PIECE)])
        self.may_be[piece] = [*before, data]
        client.write(piece * PIECE, data)
        self.may_be[piece] = [data]

    def fill(self, client: NbdClient) -> None:
        """Writes here and there until there is no space, and then goes on for a while."""
        refused = 0
        for piece in self._rng.permutation(SIZE // PIECE)[: 16 * MIB // PIECE]:
            try:
                self.write(client, int(piece))
            except NbdError as error:
                assert error.errno == ENOSPC
                refused += 1
                if refused == 20:
                    return
        raise AssertionError("the file system did not fill up")

    def check(self, client: NbdClient) -> None:
        """Every sector reads as one of the writes of it has it, and stays so."""
        for piece, may_be in self.may_be.items():
            found = client.read(piece * PIECE, PIECE)
            for at in range(0, PIECE, 512):
                sector = found[at : at + 512]
                assert sector in [data[at : at + 512] for data in may_be], f"piece {piece}, byte {at}"
            self.may_be[piece] = [found]


def goes_on(client: NbdClient, blocks: Blocks, pieces: list[int]) -> None:
    """Writes and a flush succeed again, within some seconds."""
    until = time.monotonic() + GOES_ON_WITHIN_S
    while True:
        try:
            for piece in pieces:
                blocks.write(client, piece)
            client.call(FLUSH)
        except NbdError as error:
            assert error.errno == ENOSPC
            assert time.monotonic() < until, "there is space, and writes still fail"
            time.sleep(0.1)
        else:
            return


# Every value of every factor stays in the default run, and the pair of them that meets in the code: the
# model's time and a volatile cache. The other combinations are long.
_DEFAULT = {
    ("conventional", "off", "none", "ext4"),
    ("conventional", "on", "none", "tmpfs"),
    ("set-associative", "off", "none", "tmpfs"),
    ("set-associative", "on", "none", "ext4"),
    ("set-associative", "on", "model", "tmpfs"),
}
_ALL = [
    (layer, write_cache, timing, kind)
    for layer in ("conventional", "set-associative")
    for write_cache in ("on", "off")
    for timing, kind in (("none", "tmpfs"), ("none", "ext4"), ("model", "tmpfs"))
]


@pytest.mark.parametrize(
    ("layer", "write_cache", "timing", "kind"),
    [pytest.param(*case, marks=() if case in _DEFAULT else pytest.mark.long) for case in _ALL],
)
def test_a_full_file_system(
    layer: str,
    timing: str,
    write_cache: str,
    kind: str,
    tmp_path: Path,
    need_tool: NeedTool,
    need_root: None,
    rng: np.random.Generator,
) -> None:
    del need_root
    need_native()
    drive = small_profile(tmp_path, layer, "1 MiB")
    options = ["--timing", timing, "--write-cache", write_cache]
    blocks = Blocks(rng)
    with small_file_system(tmp_path, need_tool, kind) as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(BALLAST[0]))
        with Served(small, drive, *options) as served:
            client = served.client()
            for piece in range(4):
                blocks.write(client, piece)
            client.call(FLUSH)
            blocks.fill(client)
            blocks.check(client)
            assert "No space left" in served.status()["drive"]["last_error"]
            if timing == "none":
                # What it needs is allocated ahead. In model time the volatile cache has no place to go to.
                client.call(FLUSH)
            time.sleep(0.5)
            blocks.check(client)
            ballast.unlink()
            goes_on(client, blocks, [3, 70, 1500])
            blocks.check(client)
            # Again, and this time it ends and starts while it is full.
            ballast.write_bytes(bytes(BALLAST[1]))
            blocks.fill(client)
            blocks.check(client)
            code, said = served.stop()
            if timing == "model" and write_cache == "on":
                assert code in (0, 3), said
                assert code == 0 or "are lost with the volatile write cache: " in said.splitlines()[-1]
            else:
                assert code == 0, said
        if code == 3:
            # What was lost was not flushed.
            blocks.may_be = {piece: blocks.may_be[piece] for piece in range(3)}
        with Served(small, "-", *options) as served:
            client = served.client()
            blocks.check(client)
            with pytest.raises(NbdError) as failed:
                for piece in range(1600, 1800):
                    blocks.write(client, piece)
            assert failed.value.errno == ENOSPC
            ballast.unlink(missing_ok=True)
            goes_on(client, blocks, [1, 2, 1400])
            blocks.check(client)
            code, said = served.stop()
            assert code == 0, said
        assert "good" in run([*SKYLIGHT, "image", "check", str(small / "disk.img")])
