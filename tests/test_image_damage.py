"""An image that a medium has damaged: what `serve`, `image check` and `image repair` say of it and do."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from serving import PATIENCE_S, SKYLIGHT, Served, need_native, run, small_profile

MIB = 1 << 20
BLOCKS = 40
# Where the superblock says that the tag log begins, and where its copy lies.
LOG_FIELD, COPY = 40, MIB


@pytest.fixture
def killed(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, dict[int, bytes]]:
    """An image whose server was killed after writes that were durable, and what it holds."""
    need_native()
    blocks = {number: rng.bytes(4096) for number in range(BLOCKS)}
    with Served(tmp_path, small_profile(tmp_path, "set-associative"), "--write-cache", "off") as served:
        client = served.client()
        for number, data in blocks.items():
            client.write(number * 4096, data)
    return tmp_path / "disk.img", blocks


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, whatever its exit code."""
    return subprocess.run(
        [*SKYLIGHT, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def zero_log(image: Path, first: int, blocks: int) -> None:
    """Zeros over blocks of the tag log."""
    with image.open("r+b") as file:
        file.seek(LOG_FIELD)
        start = int.from_bytes(file.read(8), "little")
        file.seek(start + first * 512)
        file.write(bytes(blocks * 512))


def test_a_log_that_lost_its_end_is_not_served(killed: tuple[Path, dict[int, bytes]]) -> None:
    image, blocks = killed
    zero_log(image, 30, 10)
    before = image.read_bytes()
    checked = ask("image", "check", str(image))
    assert checked.returncode == 1
    assert "10 tags of its log that were durable are not there: of numbers 31 to 40" in checked.stdout
    serve = ["serve", "-", "--image", str(image), "--nbd", "unix:s"]
    for command in (serve, ["image", "repair", str(image)]):
        refused = ask(*command)
        assert refused.returncode == 2, refused
        assert len(refused.stderr.splitlines()) == 1, refused.stderr
        assert "10 tags of its log" in refused.stderr
        assert "image repair --accept-loss" in refused.stderr
    assert image.read_bytes() == before, "the evidence stays"

    accepted = json.loads(run([*SKYLIGHT, "image", "repair", str(image), "--accept-loss", "--json"]))
    kept = image.with_name("disk.img.damaged-1")
    assert accepted["kept"] == str(kept)
    assert kept.read_bytes() == before[: kept.stat().st_size]
    assert "10 tags" in accepted["lost"][0]
    assert "good" in run([*SKYLIGHT, "image", "check", str(image)])
    with Served(image.parent, "-") as served:
        client = served.client()
        assert all(client.read(number * 4096, 4096) == blocks[number] for number in range(30))


def test_a_damaged_copy_of_the_superblock_is_told_and_mended(killed: tuple[Path, dict[int, bytes]]) -> None:
    image, blocks = killed
    good = image.read_bytes()[:512]
    for place, told in ((0, "at 0"), (COPY, "at 1 MiB")):
        with image.open("r+b") as file:
            file.seek(place)
            file.write(bytes(512))
        checked = ask("image", "check", str(image))
        assert checked.returncode == 1
        assert f"one of its two superblocks, {told}, was damaged" in checked.stdout
        with Served(image.parent, "-") as served:
            assert any(told in line and "written again" in line for line in served.said), served.said
            assert served.client().read(0, 4096) == blocks[0]
        with image.open("rb") as file:
            file.seek(place)
            assert file.read(512) == good
    assert "good" in run([*SKYLIGHT, "image", "check", str(image)])
