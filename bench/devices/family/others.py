"""Flash, and disks that are far away or ailing, with what an expert would say."""

from __future__ import annotations

from devices.ailments import Pauses, Reallocated, Tenant, VerifiedWrites, Vibration, WeakHead
from devices.base import Disk
from devices.expert import CMR, NO_CACHE, NOT_ROTATING, SOLID_BYTES, Foreign, near, word
from devices.family.parts import FLASH, cache_of, slowed
from devices.flash import BurstCredits, GarbageCollected, SlcCache
from devices.remote import Iscsi, NetworkMirror, UsbEnclosure


def flash() -> list[Foreign]:
    """What never rotates and yet has cliffs."""
    return [
        Foreign(
            "slc-cache",
            "a solid-state disk with a faster cache of 6 GiB",
            lambda seed: SlcCache("slc-cache", SOLID_BYTES, seed),
            FLASH
            | cache_of(SlcCache.cache_bytes)
            | {
                "cleaning_type": (word("aggressive"),),
                "cleaning_start_ns": (near(SlcCache.idle_ns, 0.2),),
                "cache_raw_bytes": (near(SlcCache.cache_bytes, 0.1),),
            },
        ),
        Foreign(
            "garbage-collected",
            "a solid-state disk that stalls now and then",
            lambda seed: GarbageCollected("garbage-collected", SOLID_BYTES, seed),
            FLASH,
        ),
        Foreign(
            "burst-credits",
            "no rotating disk can be seen; a limit of 100 commands a second once credits are used up",
            lambda seed: BurstCredits("burst-credits", SOLID_BYTES, seed),
            NOT_ROTATING | NO_CACHE,
        ),
    ]


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
    ]  # fmt: skip
