"""Disks behind caches, with what an expert would say."""

from __future__ import annotations

from devices.accepted_findings import CMR, NO_CACHE, NOT_SHINGLED, SMALL_SMR, SURFACE, Foreign, word
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
from devices.catalogue.shared_findings import PLAIN, SHINGLED, cache_of, log_of
from devices.firmware import CarefulMediaCache, NewestFirst, PoliteMediaCache, Sweeping
from devices.host_block_layers import SlowWriteBack, Watermarks
from devices.stacked import SmallMediaCache, WriteAround
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
        Foreign(
            "flash-before-smr",
            "a shingled disk behind a flash cache of 1 GiB",
            lambda seed: WriteBack("flash-before-smr", Disk(SMALL_SMR, seed), TIER_CACHE),
            {"cache_medium": (word("disk"), word("flash")), "cache_location": (word("none"), word("many"))}
            | cache_of(GIB),
            (SMALL_SMR, (*SHINGLED, "track_bytes", "seek_ns", "cache_location")),
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
        Foreign(
            "write-around",
            "a conventional disk; flash keeps what was read and not written since",
            lambda seed: WriteAround("write-around", Disk(CMR, seed), SSD_CACHE),
            PLAIN | {"cache_medium": (word("none"), word("flash"))},
            (CMR, SURFACE),
        ),
        Foreign(
            "watermarks",
            "a conventional disk behind 1 GiB of flash for writes, written back from half full on",
            lambda seed: Watermarks("watermarks", Disk(CMR, seed), TIER_CACHE),
            ON_FLASH | cache_of(TIER_CACHE.size) | {"cleaning_type": (word("aggressive"), word("lazy"))},
            (CMR, SURFACE),
        ),
        Foreign(
            "slow-write-back",
            "a conventional disk behind 8 GiB of flash, written back four blocks a second",
            lambda seed: SlowWriteBack("slow-write-back", Disk(CMR, seed), SSD_CACHE),
            ON_FLASH | cache_of(SSD_CACHE.size),
            (CMR, SURFACE),
        ),
    ]


def media_caches() -> list[Foreign]:
    """Conventional disks with a log of their own, brought home in several ways."""
    return [
        Foreign(
            "small-media-cache",
            "a conventional disk with a log of 100 MiB at its outer diameter; a block goes home alone",
            lambda seed: SmallMediaCache("small-media-cache", Disk(CMR, seed)),
            NOT_SHINGLED | log_of(SmallMediaCache.log_bytes, "od", SmallMediaCache.idle_ns),
            (CMR, SURFACE),
        ),
        Foreign(
            "careful-media-cache",
            "a conventional disk with a log of 2 GiB; a write goes home alone, is verified and noted",
            lambda seed: CarefulMediaCache("careful-media-cache", Disk(CMR, seed)),
            NOT_SHINGLED | log_of(CarefulMediaCache.log_bytes, "od", CarefulMediaCache.idle_ns),
            (CMR, SURFACE),
        ),
        Foreign(
            "newest-first",
            "the same with the newest write first, five in two seconds",
            lambda seed: NewestFirst("newest-first", Disk(CMR, seed)),
            NOT_SHINGLED
            | log_of(NewestFirst.log_bytes, "od", NewestFirst.idle_ns)
            | {"cleaning_order": (word("lifo"),)},
            (CMR, SURFACE),
        ),
        Foreign(
            "sweeping",
            "the same in order of address, from the middle on",
            lambda seed: Sweeping("sweeping", Disk(CMR, seed)),
            NOT_SHINGLED
            | log_of(Sweeping.log_bytes, "od", Sweeping.idle_ns)
            | {"cleaning_order": (word("other"),)},
            (CMR, SURFACE),
        ),
        Foreign(
            "polite-media-cache",
            "a conventional disk with a log of 2 GiB; a block goes home alone, four a second",
            lambda seed: PoliteMediaCache("polite-media-cache", Disk(CMR, seed)),
            NOT_SHINGLED | log_of(PoliteMediaCache.log_bytes, "od", PoliteMediaCache.idle_ns),
            (CMR, SURFACE),
        ),
    ]
