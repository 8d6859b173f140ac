"""Disks behind something slow, far away, or ailing, with what an expert would say."""

from __future__ import annotations

from devices.accepted_findings import CMR, Foreign
from devices.ailments import (
    Delayed,
    Limited,
    Pauses,
    Reallocated,
    Tenant,
    VerifiedWrites,
    Vibration,
    WeakHead,
)
from devices.base import Disk
from devices.catalogue.shared_findings import slowed
from devices.host_block_layers import CachedTables, Encrypted, Sliced, TwoPaths
from devices.remote import Iscsi, NetworkMirror, UsbEnclosure
from devices.stacked import FileServer, HardToRead, Misaligned


def _network_mirror(name: str, disk: Disk, seed: int) -> NetworkMirror:
    return NetworkMirror(name, disk, Disk(CMR, seed + 1), seed)


def far_or_ailing() -> list[Foreign]:
    """Disks behind something slow, or with an ailment."""
    return [
        slowed(
            "tenant", "half of a conventional disk, whose arm somebody else moves at times", Tenant,
            part_of_disk=True,
        ),
        slowed(
            "iscsi", "a conventional disk on a network; a server keeps what was read and reads ahead", Iscsi
        ),
        slowed(
            "network-mirror",
            "a conventional disk; a write waits for a network, and now and then for a log",
            _network_mirror,
        ),
        slowed(
            "usb-enclosure",
            "a conventional disk behind a slow bridge that gets hot and is reset",
            UsbEnclosure,
        ),
        slowed("weak-head", "a conventional disk of which one surface is read only after tries", WeakHead),
        slowed("vibration", "a conventional disk that misses tracks two seconds in nine", Vibration),
        slowed("reallocated", "a conventional disk with many sectors that lie elsewhere", Reallocated),
        slowed("verified-writes", "a conventional disk whose writes take a revolution more", VerifiedWrites),
        slowed("pauses", "a conventional disk that rests 0.4 s in every eight", Pauses),
        slowed("limited", "a conventional disk of which 80 commands a second are allowed", Limited),
        slowed("delayed", "a conventional disk behind a delay", Delayed),
        slowed("hard-to-read", "a conventional disk of which every fifth read is tried again", HardToRead),
        slowed(
            "file-server",
            "a conventional disk behind a network with jitter and a server's memory",
            FileServer,
        ),
        slowed(
            "misaligned", "a conventional disk; a write reads first and takes a revolution more", Misaligned
        ),
        slowed("encrypted", "a conventional disk behind a slow processor", Encrypted),
        slowed("cached-tables", "a conventional disk; a table is read first, elsewhere", CachedTables),
        slowed("sliced", "a conventional disk, at times 12 commands in 100 ms", Sliced),
        slowed("two-paths", "a conventional disk behind two paths, one of them longer", TwoPaths),
    ]  # fmt: skip
