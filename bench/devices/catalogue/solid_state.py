"""What never rotates: solid-state disks, a memory card, a tape, a rented volume, with what an expert would
say."""

from __future__ import annotations

from devices.accepted_findings import NO_CACHE, NOT_ROTATING, SOLID_BYTES, Foreign, near, word
from devices.catalogue.shared_findings import FLASH, cache_of
from devices.flash import BurstCredits, EraseBlocks, GarbageCollected, SlcCache, Tape
from devices.ssd_firmware import Faded, Folding, HostMemory
from devices.stacked import HiccupFlash, SleepyMemory


def solid_state() -> list[Foreign]:
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
        Foreign(
            "host-memory",
            "flash whose map is in part in the host's memory",
            lambda seed: HostMemory("host-memory", SOLID_BYTES, seed),
            FLASH,
        ),
        Foreign(
            "faded",
            "flash of which old data is read after tries",
            lambda seed: Faded("faded", SOLID_BYTES, seed),
            FLASH,
        ),
        Foreign(
            "folding",
            "flash that folds its fast part behind the host's back",
            lambda seed: Folding("folding", SOLID_BYTES, seed),
            FLASH,
        ),
        Foreign(
            "memory-card",
            "a memory card: a write anywhere but behind the last rewrites 4 MiB",
            lambda seed: EraseBlocks("memory-card", SOLID_BYTES // 8, seed),
            NOT_ROTATING | NO_CACHE,
        ),
        Foreign(
            "tape",
            "nothing that rotates; what is not next takes seconds",
            lambda seed: Tape("tape", SOLID_BYTES, seed),
            NOT_ROTATING | NO_CACHE,
        ),
        Foreign(
            "sleepy-memory",
            "no rotating disk can be seen",
            lambda seed: SleepyMemory("sleepy-memory", SOLID_BYTES, seed),
            NOT_ROTATING | NO_CACHE,
        ),
        Foreign(
            "hiccup-flash",
            "a solid-state disk of which one command in twelve waits",
            lambda seed: HiccupFlash("hiccup-flash", SOLID_BYTES, seed),
            FLASH,
        ),
    ]
