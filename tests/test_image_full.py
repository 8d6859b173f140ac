"""An image on a file system that fills up: the client is told, and nothing that was acknowledged is lost."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from conftest import lacking
from native_disk import NeedTool
from nbd_client import FLUSH, NbdError
from serving import SKYLIGHT, Served, need_native, run, small_profile

MIB = 1 << 20
SIZE = 256 * MIB
EIO, ENOSPC = 5, 28


@pytest.mark.parametrize("layer", ["conventional", "set-associative"])
def test_a_full_file_system(
    layer: str, tmp_path: Path, need_tool: NeedTool, need_root: None, rng: np.random.Generator
) -> None:
    del need_root
    need_native()
    small, mount, umount = tmp_path / "small", need_tool("mount"), need_tool("umount")
    small.mkdir()
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=6m", "none", str(small)], check=False)
    if made.returncode != 0:
        lacking("no tmpfs can be mounted here")
    try:
        drive = small_profile(tmp_path, layer)
        durable: dict[int, bytes] = {}
        with Served(small, drive, "--write-cache", "on") as served:
            client = served.client()
            written: dict[int, bytes] = {}
            with pytest.raises(NbdError) as failed:
                for block in rng.permutation(SIZE // 4096)[: 16 * MIB // 4096]:
                    data = rng.bytes(4096)
                    client.write(int(block) * 4096, data)
                    written[int(block)] = data
                    if len(written) % 50 == 0:
                        client.flush()
                        durable |= written
            assert failed.value.errno == ENOSPC
            with pytest.raises(NbdError) as failed:
                client.call(FLUSH)
            assert failed.value.errno in (EIO, ENOSPC), "what may be lost is not said to be durable"
            assert "No space left" in served.status()["drive"]["last_error"]
            client.close()
            code, said = served.stop()
            assert (code, len(said.splitlines())) == (3, 1), said
            assert "No space left" in said
        assert len(durable) >= 300
        run([mount, "-o", "remount,size=64m", str(small)])
        assert "good" in run([*SKYLIGHT, "image", "check", str(small / "disk.img")])
        with Served(small, "-") as served:
            client = served.client()
            assert all(client.read(block * 4096, 4096) == data for block, data in durable.items())
            client.write(0, b"\x01" * 4096)
            client.flush()
            assert served.stop()[0] == 0
    finally:
        run([umount, str(small)])
