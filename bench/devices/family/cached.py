"""Disks behind caches, with what an expert would say."""

from __future__ import annotations

from devices.base import GIB, Disk
from devices.caches import (
    BATTERY,
    GUEST_CACHE,
    HYBRID,
    PAGE_CACHE,
    SSD_CACHE,
    TIER_CACHE,
    MediaCache,
    ScatteredMediaCache,
    WriteBack,
)
from devices.expert import CMR, NO_CACHE, NOT_SHINGLED, SURFACE, Foreign, word
from devices.family.parts import cache_of, log_of
from devices.tiers import SteadyWriteBack, Tiers, WriteThrough

CACHED = NOT_SHINGLED | {"mapping": (word("static"),), "cleaning_type": (word("aggressive"),)}
ON_FLASH = CACHED | {"cache_medium": (word("flash"),), "cache_location": (word("none"),)}


def caches() -> list[Foreign]:
    """Disks behind a fast cache or with a log of their own."""
    return [
        Foreign(
            "ssd-cache",
            "a rotating disk behind a flash cache of 8 GiB that is written back when idle",
            lambda seed: WriteBack("ssd-cache", Disk(CMR, seed), SSD_CACHE),
            ON_FLASH | cache_of(8 * GIB),
            (CMR, SURFACE),
        ),
        Foreign(
            "sshd",
            "a rotating disk with flash of 1 GiB; not known to be shingled",
            lambda seed: WriteBack("sshd", Disk("conventional-8", seed), HYBRID),
            ON_FLASH | cache_of(GIB),
            ("conventional-8", SURFACE),
        ),
        Foreign(
            "battery-controller",
            "a rotating disk behind 4 GiB of memory that FLUSH does not empty",
            lambda seed: WriteBack("battery-controller", Disk(CMR, seed), BATTERY),
            CACHED | NO_CACHE | cache_of(4 * GIB),
            (CMR, SURFACE),
        ),
        Foreign(
            "page-cache-loop",
            "a rotating disk behind a volatile cache of 2 GiB that FLUSH empties",
            lambda seed: WriteBack("page-cache-loop", Disk(CMR, seed), PAGE_CACHE),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
        Foreign(
            "media-cache-cmr",
            "a rotating disk with a cache at its outer diameter; a block goes home alone: not shingled",
            lambda seed: MediaCache("media-cache-cmr", Disk(CMR, seed)),
            NOT_SHINGLED | log_of(MediaCache.log_bytes, "od", MediaCache.idle_ns),
            (CMR, SURFACE),
        ),
    ]


def tiered() -> list[Foreign]:
    """Flash beside a disk, used otherwise; logs in many places."""
    return [
        Foreign(
            "write-through",
            "a conventional disk; flash keeps what was read",
            lambda seed: WriteThrough("write-through", Disk(CMR, seed), SSD_CACHE),
            NOT_SHINGLED | NO_CACHE | {"cache_medium": (word("none"), word("flash"))},
            (CMR, SURFACE),
        ),
        Foreign(
            "steady-write-back",
            "a conventional disk behind a flash cache of 8 GiB that is written back all the time",
            lambda seed: SteadyWriteBack("steady-write-back", Disk(CMR, seed), SSD_CACHE),
            ON_FLASH | cache_of(8 * GIB),
            (CMR, SURFACE),
        ),
        Foreign(
            "guest-cache",
            "a conventional disk behind 1 GiB of a host's memory; FLUSH does nothing",
            lambda seed: SteadyWriteBack("guest-cache", Disk("conventional-5", seed), GUEST_CACHE),
            CACHED | NO_CACHE | cache_of(GIB),
            ("conventional-5", SURFACE),
        ),
        Foreign(
            "tiers",
            "a rotating disk and flash; what is read often is in flash, and so are new writes",
            lambda seed: Tiers("tiers", Disk(CMR, seed), TIER_CACHE),
            ON_FLASH | cache_of(GIB),
            (CMR, SURFACE),
        ),
        Foreign(
            "scattered-media-cache",
            "a conventional disk with caches in sixteen places; a block goes home alone",
            lambda seed: ScatteredMediaCache("scattered-media-cache", Disk("conventional-3", seed)),
            NOT_SHINGLED | log_of(2 * GIB, "many", ScatteredMediaCache.idle_ns),
            ("conventional-3", SURFACE),
        ),
    ]
