"""A server killed with SIGKILL under a verifying load: what was promised is there, and nothing else is.

Each sector names the block it belongs to and its version. After a kill a sector may hold the last version
that was promised durable, or any that was sent later, and no other; the image then serves on.
SKYLIGHT_KILLS says how often each drive is killed (`make test-all`: 50, 200 in all).
"""

import os
import signal
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from nbd_client import FLUSH, FUA, READ, WRITE, NbdClient
from serving import Served, need_native, rounds, run, small_profile

BLOCK = 4096
BLOCKS = 4000
DEPTH = 16
_SECTOR = struct.Struct("<QQQ")


def content(block: int, version: int) -> bytes:
    """What a block holds: each sector says which it is."""
    return b"".join(
        _SECTOR.pack(block, sector, version).ljust(512, bytes([version % 251]))
        for sector in range(BLOCK // 512)
    )


def versions(block: int, data: bytes) -> set[int]:
    """The versions of the sectors of a block; fails when one is torn or another's."""
    found = set()
    for sector in range(BLOCK // 512):
        row = data[sector * 512 : sector * 512 + 512]
        if not any(row):
            found.add(0)
            continue
        number, index, version = _SECTOR.unpack_from(row)
        assert (number, index) == (block, sector), f"block {block} sector {sector} holds {number}, {index}"
        assert row == content(block, version)[sector * 512 : sector * 512 + 512], f"block {block} is torn"
        found.add(version)
    return found


@dataclass
class Promises:
    """What was sent and what was promised, by block."""

    cached: bool
    sent: dict[int, int] = field(default_factory=dict)
    answered: dict[int, int] = field(default_factory=dict)
    durable: dict[int, int] = field(default_factory=dict)

    def check(self, client: NbdClient) -> None:
        """Reads everything that was ever sent."""
        for block, sent in self.sent.items():
            found = versions(block, client.read(block * BLOCK, BLOCK))
            least = self.durable.get(block, 0)
            assert all(least <= version <= sent for version in found), (
                f"block {block}: found {sorted(found)}, promised {least}, sent {sent}"
            )
            # What is read once is what is there from now on.
            self.answered[block] = min(found)


class Load:
    """Writes with several outstanding, until the server is gone."""

    def __init__(self, client: NbdClient, promises: Promises, rng: np.random.Generator) -> None:
        self.client, self.promises, self.rng = client, promises, rng
        self.writes: dict[int, tuple[int, int, bool]] = {}
        self.flushes: dict[int, dict[int, int]] = {}

    def run(self) -> None:
        """Ends when the connection does."""
        try:
            while True:
                while len(self.writes) + len(self.flushes) < DEPTH:
                    self.ask()
                self.take()
        except OSError:
            return

    def ask(self) -> None:
        """A write of a block that no outstanding one touches, or a flush."""
        if self.rng.random() < 0.04:
            before = dict(self.promises.answered)
            self.flushes[self.client.send(FLUSH)] = before
            return
        busy = {block for block, _, _ in self.writes.values()}
        block = int(self.rng.integers(0, BLOCKS)) * 13
        if block in busy:
            return
        version = self.promises.sent.get(block, 0) + 1
        self.promises.sent[block] = version
        through = bool(self.rng.random() < 0.05)
        flags = FUA if through else 0
        number = self.client.send(WRITE, block * BLOCK, data=content(block, version), flags=flags)
        self.writes[number] = (block, version, through)

    def take(self) -> None:
        """An answer, and what it promises."""
        number, error, _ = self.client.answer()
        assert error == 0, f"error {error}"
        promises = self.promises
        if number in self.flushes:
            for block, version in self.flushes.pop(number).items():
                promises.durable[block] = max(version, promises.durable.get(block, 0))
            return
        block, version, through = self.writes.pop(number)
        promises.answered[block] = version
        if through or not promises.cached:
            promises.durable[block] = version


@pytest.mark.parametrize("write_cache", ["on", "off"])
@pytest.mark.parametrize("layer", ["conventional", "set-associative"])
def test_killed_under_load(layer: str, write_cache: str, tmp_path: Path, rng: np.random.Generator) -> None:
    need_native()
    promises = Promises(cached=write_cache == "on")
    drive: str | Path = small_profile(tmp_path, layer)
    options = ["--write-cache", write_cache]
    for _ in range(rounds("SKYLIGHT_KILLS", 2)):
        with Served(tmp_path, drive, *options) as served:
            promises.check(served.client())
            load = Load(served.client(), promises, rng)
            thread = threading.Thread(target=load.run)
            thread.start()
            time.sleep(float(rng.uniform(0.05, 0.6)))
            os.kill(served.process.pid, signal.SIGKILL)
            thread.join(60)
            assert not thread.is_alive()
        assert len(promises.sent) > 10, "hardly anything was asked before the kill"
    with Served(tmp_path, "-", *options) as served:
        client = served.client()
        promises.check(client)
        assert client.call(READ, 0, 512) is not None
        code, said = served.stop()
        assert code == 0, said
    run(["test", "-s", str(tmp_path / "disk.img")])
