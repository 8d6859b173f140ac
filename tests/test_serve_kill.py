"""A server killed with SIGKILL under a verifying load, in every timing mode: what was promised is there, and
nothing else is.

Each sector names the block it belongs to and its version. After a kill a sector may hold the last version
that was promised durable, or any that was sent later, and no other; the image then serves on. Half of the
writes go to a few blocks that others are on their way to: the writes of a connection take effect in the order
in which they were sent.
SKYLIGHT_KILLS says how often each drive is killed (`make test-all`: 42, some 1,000 in all).
"""

import os
import signal
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from native_disk import NeedTool, empty_device
from nbd_client import FLUSH, FUA, READ, WRITE, NbdClient
from serving import LAYERS, Served, need_native, rounds, small_profile

BLOCK = 4096
BLOCKS = 4000
# Blocks that are written again and again, and those of one write of them, at most.
HOT, RUN = 12, 4
DEPTH = 16
# Of the device under a drive in native time: the small drive and its log and checkpoints.
DEVICE_BYTES = 512 << 20
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
        # By number: the version of each block of a write, and whether it is FUA.
        self.writes: dict[int, tuple[dict[int, int], bool]] = {}
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
        """A write, or a flush."""
        if self.rng.random() < 0.04:
            before = dict(self.promises.answered)
            self.flushes[self.client.send(FLUSH)] = before
            return
        if self.rng.random() < 0.5:
            first, count = int(self.rng.integers(0, HOT)), int(self.rng.integers(1, RUN + 1))
        else:
            first, count = int(self.rng.integers(HOT, BLOCKS)) * 13, 1
        sent = self.promises.sent
        versions = {block: sent.get(block, 0) + 1 for block in range(first, first + count)}
        sent.update(versions)
        through = bool(self.rng.random() < 0.05)
        data = b"".join(content(block, version) for block, version in versions.items())
        number = self.client.send(WRITE, first * BLOCK, data=data, flags=FUA if through else 0)
        self.writes[number] = (versions, through)

    def take(self) -> None:
        """An answer, and what it promises."""
        number, error, _ = self.client.answer()
        assert error == 0, f"error {error}"
        promises = self.promises
        if number in self.flushes:
            return _raise(promises.durable, self.flushes.pop(number))
        versions, through = self.writes.pop(number)
        _raise(promises.answered, versions)
        if through or not promises.cached:
            _raise(promises.durable, versions)


def kill_under_load(served: Served, promises: Promises, rng: np.random.Generator) -> None:
    """Kills the server at a random moment of a load, whose promises are kept."""
    load = Load(served.client(), promises, rng)
    thread = threading.Thread(target=load.run)
    thread.start()
    time.sleep(float(rng.uniform(0.05, 0.6)))
    os.kill(served.process.pid, signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive()


def _raise(promised: dict[int, int], versions: dict[int, int]) -> None:
    """Answers need not come in the order in which commands took effect."""
    for block, version in versions.items():
        promised[block] = max(version, promised.get(block, 0))


@contextmanager
def place_of(timing: str, folder: Path, need_tool: NeedTool) -> Iterator[tuple[str | None, list[str]]]:
    """Where a drive keeps its data: the image, or none and the options that say where."""
    if timing != "native":
        yield "disk.img", ["--timing", timing]
        return
    with empty_device(folder, "disk", DEVICE_BYTES, need_tool) as device:
        yield None, ["--timing", "native", "--on", str(device)]


@pytest.mark.parametrize("write_cache", ["on", "off"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("timing", ["none", "model", "native"])
def test_killed_under_load(
    timing: str, layer: str, write_cache: str, tmp_path: Path, rng: np.random.Generator, need_tool: NeedTool
) -> None:
    need_native()
    promises = Promises(cached=write_cache == "on")
    drive = small_profile(tmp_path, layer, "1 MiB")
    with place_of(timing, tmp_path, need_tool) as (image, where):
        options = [*where, "--write-cache", write_cache]
        for killed in range(rounds("SKYLIGHT_KILLS", 2)):
            destroys = ["--destroy-data"] if timing == "native" and not killed else []
            with Served(tmp_path, drive, *options, *destroys, image=image) as served:
                promises.check(served.client())
                kill_under_load(served, promises, rng)
        # In model time a lone write takes a turn of the platters.
        assert len(promises.sent) > 10, "hardly anything was asked before the kills"
        with Served(tmp_path, "-", *options, image=image) as served:
            client = served.client()
            promises.check(client)
            assert client.call(READ, 0, 512) is not None
            code, said = served.stop()
            assert code == 0, said
