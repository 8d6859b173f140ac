"""Flash, and disks that are far away or ailing, with what an expert would say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devices.ailments import Pauses, Reallocated, Tenant, VerifiedWrites, Vibration, WeakHead
from devices.base import Device, Disk
from devices.expert import CMR, NO_CACHE, NOT_SHINGLED, SOLID_BYTES, SURFACE, Foreign, Row, near, word
from devices.flash import BurstCredits, GarbageCollected, SlcCache
from devices.remote import Iscsi, NetworkMirror, UsbEnclosure


def flash() -> list[Foreign]:
    """What never rotates and yet has cliffs."""
    solid: dict[str, Sequence[Row]] = {
        "drive_type": (word("not-rotating"),),
        "cache_location": (word("none"),),
        "mapping": (word("dynamic"),),
    }
    flash: dict[str, Sequence[Row]] = {"cache_medium": (word("none"), word("flash"))}
    return [
        Foreign(
            "slc-cache",
            "a solid-state disk with a faster cache of 6 GiB",
            lambda seed: SlcCache("slc-cache", SOLID_BYTES, seed),
            solid
            | flash
            | {
                "cleaning_type": (word("aggressive"),),
                "cleaning_start_ns": (near(SlcCache.idle_ns, 0.2),),
                "cache_bytes": (near(SlcCache.cache_bytes, 0.1),),
                "cache_fill_bytes": (near(SlcCache.cache_bytes, 0.03),),
                "cache_raw_bytes": (near(SlcCache.cache_bytes, 0.1),),
            },
        ),
        Foreign(
            "garbage-collected",
            "a solid-state disk that stalls now and then",
            lambda seed: GarbageCollected("garbage-collected", SOLID_BYTES, seed),
            solid | flash,
        ),
        Foreign(
            "burst-credits",
            "no rotating disk can be seen; a limit of 100 commands a second once credits are used up",
            lambda seed: BurstCredits("burst-credits", SOLID_BYTES, seed),
            {"drive_type": (word("not-rotating"),), **NO_CACHE},
        ),
    ]


def far_or_ailing() -> list[Foreign]:
    """Disks behind something slow, or with an ailment."""
    makers: list[tuple[str, str, Callable[[int], Device]]] = [
        (
            "iscsi",
            "a conventional disk on a network; a server keeps what was read and reads ahead",
            lambda seed: Iscsi("iscsi", Disk(CMR, seed), seed),
        ),
        (
            "network-mirror",
            "a conventional disk; a write waits for a network, and now and then for a log",
            lambda seed: NetworkMirror("network-mirror", Disk(CMR, seed), Disk(CMR, seed + 1), seed),
        ),
        (
            "usb-enclosure",
            "a conventional disk behind a slow bridge that gets hot and is reset",
            lambda seed: UsbEnclosure("usb-enclosure", Disk(CMR, seed), seed),
        ),
        (
            "weak-head",
            "a conventional disk of which one surface is read only after tries",
            lambda seed: WeakHead("weak-head", Disk(CMR, seed), seed),
        ),
        (
            "vibration",
            "a conventional disk that misses tracks two seconds in nine",
            lambda seed: Vibration("vibration", Disk(CMR, seed), seed),
        ),
        (
            "reallocated",
            "a conventional disk with many sectors that lie elsewhere",
            lambda seed: Reallocated("reallocated", Disk(CMR, seed), seed),
        ),
        (
            "verified-writes",
            "a conventional disk whose writes take a revolution more",
            lambda seed: VerifiedWrites("verified-writes", Disk(CMR, seed), seed),
        ),
        (
            "pauses",
            "a conventional disk that rests 0.4 s in every eight",
            lambda seed: Pauses("pauses", Disk(CMR, seed), seed),
        ),
    ]
    accepts = NOT_SHINGLED | NO_CACHE | {"mapping": (word("static"),)}
    tenant = Foreign(
        "tenant",
        "half of a conventional disk, whose arm somebody else moves at times",
        lambda seed: Tenant("tenant", Disk(CMR, seed), seed),
        accepts,
        (CMR, SURFACE),
        part_of_disk=True,
    )
    return [tenant, *(Foreign(name, says, make, accepts, (CMR, SURFACE)) for name, says, make in makers)]
