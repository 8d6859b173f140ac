"""A byte that changes in an image with checksums: an error for its sector and never data.

A server is killed, a byte of its image is changed, and it is served again.
"""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from conftest import lacking
from nbd_client import NbdClient, NbdError
from serving import SKYLIGHT, Served, need_native, run, small_profile
from skylight.cli.console import ByteProgress

BLOCK = 4096
BLOCKS = 64
WRONG = 17
_EIO = 5


def content(block: int) -> bytes:
    """What a block holds: each of its sectors a pattern that is nowhere else."""
    return b"".join(f"block {block} sector {sector} ".encode().ljust(512, b"#") for sector in range(8))


def flip(image: Path) -> None:
    """Changes one byte of the sector that holds the fourth one of the wrong block."""
    pattern = f"block {WRONG} sector 3 ".encode()
    data = image.read_bytes()
    at = data.index(pattern)
    assert data.find(pattern, at + 1) < 0, "it lies at one place"
    with image.open("r+b") as file:
        file.seek(at + 100)
        file.write(b"!")


def skylight(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command; its exit code is looked at by who asks."""
    return subprocess.run(
        [*SKYLIGHT, *map(str, words)], capture_output=True, text=True, timeout=600, check=False
    )


def killed(folder: Path, layer: str, timing: str, *options: str) -> Served:
    """A server that was killed behind a flush."""
    profile = small_profile(folder, layer)
    with Served(folder, profile, "--timing", timing, *options) as served:
        client = served.client()
        for block in range(BLOCKS):
            client.write(block * BLOCK, content(block))
        client.flush()
        served.process.kill()
    return served


@pytest.mark.parametrize("layer", ["conventional", "set-associative"])
@pytest.mark.parametrize("timing", ["none", "model"])
def test_a_changed_byte_is_an_error_for_its_sector(tmp_path: Path, layer: str, timing: str) -> None:
    need_native()
    # In model time they are on without being asked for.
    options = ["--checksums", "on"] if timing == "none" else []
    image = killed(tmp_path, layer, timing, *options).image
    flip(image)
    log = tmp_path / "log"
    with Served(tmp_path, "-", "--timing", timing, "--log", str(log)) as served:
        client = served.client()
        for block in range(BLOCKS):
            if block != WRONG:
                assert client.read(block * BLOCK, BLOCK) == content(block)
        with pytest.raises(NbdError) as refused:
            client.read(WRONG * BLOCK, BLOCK)
        assert refused.value.errno == _EIO
        assert client.read(WRONG * BLOCK, 3 * 512) == content(WRONG)[: 3 * 512], "the rest of it is right"
        structured = NbdClient(served.socket, structured=True)
        with pytest.raises(NbdError) as placed:
            structured.read_structured((WRONG - 1) * BLOCK, 3 * BLOCK)
        assert placed.value.offset == WRONG * BLOCK + 3 * 512
        structured.close()
        drive = served.status()["drive"]
        sector = WRONG * 8 + 3
        assert f"checksum mismatch: sectors {sector} to {sector}," in drive["last_error"]
        assert drive["image"]["checksums"]["mismatches"] >= 2
        code, _ = served.stop()
        assert code == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    assert any(
        f"read error: {image}: checksum mismatch: sectors {sector} to {sector}," in line for line in lines
    )
    assert any(line.split()[1:6] == ["read", str(WRONG * BLOCK), str(BLOCK), "-", "EIO"] for line in lines)
    check(image, sector)
    mended(tmp_path, image)


def check(image: Path, sector: int) -> None:
    """What `image check` says of it, before and after."""
    assert skylight("image", "check", image).returncode == 0, "what the image is made of is whole"
    checked = skylight("image", "check", image, "--data")
    assert checked.returncode == 1
    assert f"{image}: checksum mismatch: sectors {sector} to {sector}; rewrite them" in checked.stdout
    as_json = skylight("image", "check", image, "--data", "--json")
    found = json.loads(as_json.stdout)
    assert as_json.returncode == 1 and not found["good"] and not found["problems"]
    assert found["data"]["wrong"] == [[sector, 1]] and found["data"]["wrong_sectors"] == 1
    assert found["data"]["data_bytes"] >= BLOCKS * BLOCK and found["info"]["checksums"]


def mended(folder: Path, image: Path) -> None:
    """Written anew, it is right again."""
    with Served(folder, "-", "--timing", "none") as served:
        client = served.client()
        client.write(WRONG * BLOCK, content(WRONG))
        assert client.read(WRONG * BLOCK, BLOCK) == content(WRONG)
        served.stop()
    assert "0 sectors wrong" in run([*SKYLIGHT, "image", "check", str(image), "--data"])


def test_a_newer_write_in_the_volatile_cache_is_read_over_a_wrong_sector(tmp_path: Path) -> None:
    need_native()
    profile = small_profile(tmp_path, "conventional", write_cache="8 MiB")
    with Served(tmp_path, profile, "--timing", "model") as served:
        client = served.client()
        client.write(WRONG * BLOCK, content(WRONG))
        client.flush()
        flip(served.image)
        with pytest.raises(NbdError):
            client.read(WRONG * BLOCK, BLOCK)
        # One is still on its way to the media as it is read back, whatever the order of the two.
        for block in (WRONG + 1, WRONG):
            client.write(block * BLOCK, content(block))
        assert client.read(WRONG * BLOCK, BLOCK) == content(WRONG)
        assert served.stop()[0] == 0


def test_checksums_are_fixed_when_an_image_is_made(tmp_path: Path) -> None:
    need_native()
    with Served(tmp_path, small_profile(tmp_path, "conventional")) as served:
        served.stop()
    socket = f"unix:{tmp_path / 's'}"
    refused = skylight("serve", "-", "--image", served.image, "--nbd", socket, "--checksums", "on")
    assert refused.returncode == 2 and "was created without checksums" in refused.stderr
    scrubbed = skylight("image", "check", served.image, "--data")
    assert scrubbed.returncode == 2 and "cannot be checked" in scrubbed.stderr
    assert len(scrubbed.stderr.splitlines()) == 1


def test_a_block_device_gets_none(tmp_path: Path) -> None:
    need_native()
    device = tmp_path / "device"
    try:
        # A name of a device that is not there: it is refused before it is opened.
        os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(7, 251))
    except PermissionError:
        lacking("only root makes device nodes")
    refused = skylight(
        "serve", "emulated-smr-1", "--on", device, "--nbd", f"unix:{tmp_path / 's'}", "--checksums", "on"
    )
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert str(device) in refused.stderr and "dm-integrity" in refused.stderr


def test_progress_is_told_by_tenths_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ByteProgress("comparing", now=lambda: now)
    with progress:
        for percent in range(101):
            now = percent / 10
            progress.advance(percent, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("progress: comparing, 20") and "8 s left" in lines[0]
    assert len(lines) == 5, lines
