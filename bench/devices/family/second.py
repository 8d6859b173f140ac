"""A second batch, written after the first devices were looked at, and run once before anything was mended
for them."""

from __future__ import annotations

from devices.ailments import Delayed, Limited
from devices.arrays import Striped
from devices.base import GIB, MIB, Disk
from devices.caches import TIER_CACHE, WriteBack
from devices.expert import (
    ALL_OF_SMR,
    CACHE_SIZES,
    CMR,
    NO_CACHE,
    NOT_ROTATING,
    SMALL_SMR,
    SOLID_BYTES,
    Foreign,
    word,
)
from devices.family.parts import PLAIN, cache_of, disks_of, slowed
from devices.flash import EraseBlocks, Tape
from devices.mappers import Integrity, Segments
from devices.redundant import Mirrored


def second_batch() -> list[Foreign]:
    """Written after the first were looked at, and run once before anything was mended for them."""
    shingled = ("drive_type", "cleaning_type", "mapping", "rotation_ns")
    cached = {"cache_medium": (word("disk"), word("flash")), "cache_location": (word("none"), word("many"))}
    solid = NOT_ROTATING | NO_CACHE
    return [
        Foreign(
            "flash-before-smr",
            "a shingled disk behind a flash cache of 1 GiB",
            lambda seed: WriteBack("flash-before-smr", Disk(SMALL_SMR, seed), TIER_CACHE),
            cached | cache_of(GIB),
            (SMALL_SMR, (*shingled, "track_bytes", "seek_ns", "cache_location")),
        ),
        Foreign(
            "integrity-smr",
            "a shingled disk; writes collect in memory and in a journal",
            lambda seed: Integrity("integrity-smr", Disk(SMALL_SMR, seed)),
            {"cache_medium": (word("disk"), word("none"))},
            (SMALL_SMR, (*shingled, "track_bytes", "cache_location", "band_bytes")),
            used_bytes=Integrity("", Disk(SMALL_SMR, 1)).used_bytes,
        ),
        Foreign(
            "raid1-mixed",
            "a conventional and a shingled disk that hold the same",
            lambda seed: Mirrored("raid1-mixed", disks_of(seed, CMR, SMALL_SMR)),
            {},
            (SMALL_SMR, (*ALL_OF_SMR, *CACHE_SIZES, "band_bytes", "cleaning_band_ns", "cleaning_order")),
        ),
        Foreign(
            "raid0-wide",
            "stripes of 1 MiB over three conventional disks",
            lambda seed: Striped("raid0-wide", disks_of(seed, CMR, CMR, CMR), MIB),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "fragmented-file",
            "a conventional disk; places near in address are seldom near in fact",
            lambda seed: Segments("fragmented-file", Disk(CMR, seed), 64 * MIB, seed),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
        slowed("limited", "a conventional disk of which 80 commands a second are allowed", Limited),
        slowed("delayed", "a conventional disk behind a delay", Delayed),
        Foreign(
            "memory-card",
            "a memory card: a write anywhere but behind the last rewrites 4 MiB",
            lambda seed: EraseBlocks("memory-card", SOLID_BYTES // 8, seed),
            solid,
        ),
        Foreign(
            "tape",
            "nothing that rotates; what is not next takes seconds",
            lambda seed: Tape("tape", SOLID_BYTES, seed),
            solid,
        ),
    ]
