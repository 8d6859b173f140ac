"""Several disks as one, with what an expert would say."""

from __future__ import annotations

from devices.arrays import Concatenated, Striped
from devices.base import GIB, Disk
from devices.expert import (
    ALL_OF_SMR,
    CACHE_SIZES,
    CMR,
    NO_CACHE,
    NOT_SHINGLED,
    SMALL_SMR,
    SMR,
    SURFACE,
    Foreign,
    word,
)
from devices.family.parts import disks_of, times
from devices.redundant import Mirrored, Parity


def arrays() -> list[Foreign]:
    """Stripes and concatenations."""
    return [
        Foreign(
            "raid0-cmr",
            "rotating disks, not shingled; several, since large reads are faster than one track allows",
            lambda seed: Striped("raid0-cmr", disks_of(seed, CMR, CMR)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "concat-cmr",
            "rotating disks, not shingled; throughput starts anew in the middle of the addresses",
            lambda seed: Concatenated("concat-cmr", disks_of(seed, CMR, "conventional-3")),
            NOT_SHINGLED | NO_CACHE,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "raid0-smr",
            "shingled disks; bands and caches are those of its disks, which together are twice as large",
            lambda seed: Striped("raid0-smr", disks_of(seed, SMALL_SMR, SMALL_SMR)),
            {"cache_location": (word("many"),)} | times(2, SMALL_SMR, CACHE_SIZES),
            (
                SMALL_SMR,
                (
                    "cache_location",
                    "drive_type",
                    "cache_medium",
                    "cleaning_type",
                    "mapping",
                    "rotation_ns",
                    "cleaning_start_ns",
                ),
            ),
        ),
        Foreign(
            "concat-smr",
            "shingled disks, one behind the other",
            lambda seed: Concatenated("concat-smr", disks_of(seed, SMR, SMR)),
            {"cache_location": (word("many"),)},
            (SMR, ALL_OF_SMR),
            border_in_middle=True,
        ),
        Foreign(
            "host-aware",
            "conventional up to 16 GiB, shingled behind, where it cleans as such a disk does",
            lambda seed: Concatenated(
                "host-aware", [Disk(SMR, seed, conventional=True), Disk(SMR, seed)], 16 * GIB
            ),
            {"cache_location": (word("many"), word("od"))},
            (SMR, (*ALL_OF_SMR, "cleaning_band_ns", "cleaning_order")),
        ),
    ]


def redundant() -> list[Foreign]:
    """Mirrors and parity."""
    words = ("drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping", "cleaning_start_ns")
    return [
        Foreign(
            "raid1-cmr",
            "a conventional disk, or several that hold the same",
            lambda seed: Mirrored("raid1-cmr", disks_of(seed, CMR, CMR)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
        Foreign(
            "raid1-smr",
            "a shingled disk, or several that hold the same: each takes every write",
            lambda seed: Mirrored("raid1-smr", disks_of(seed, SMALL_SMR, SMALL_SMR)),
            {},
            (
                SMALL_SMR,
                (
                    *ALL_OF_SMR,
                    *CACHE_SIZES,
                    "cache_map_entries",
                    "band_bytes",
                    "cleaning_band_ns",
                    "cleaning_order",
                ),
            ),
        ),
        Foreign(
            "raid5-cmr",
            "rotating disks, not shingled; a small write reads first and takes a revolution more",
            lambda seed: Parity(
                "raid5-cmr", disks_of(seed, "conventional-14", "conventional-14", "conventional-14")
            ),
            NOT_SHINGLED | NO_CACHE,
            ("conventional-14", ("rotation_ns",)),
        ),
        Foreign(
            "raid5-smr",
            "shingled disks; a small write goes to two of three, so caches hold one and a half of one's",
            lambda seed: Parity("raid5-smr", disks_of(seed, SMALL_SMR, SMALL_SMR, SMALL_SMR)),
            {"cache_location": (word("many"),)} | times(1.5, SMALL_SMR, CACHE_SIZES),
            (SMALL_SMR, (*words, "rotation_ns")),
        ),
        Foreign(
            "raid0-mixed",
            "stripes over a conventional and a shingled disk: shingled in part",
            lambda seed: Striped("raid0-mixed", disks_of(seed, CMR, SMALL_SMR)),
            {"cache_location": (word("many"),)} | times(2, SMALL_SMR, CACHE_SIZES),
            (SMALL_SMR, (*words, "rotation_ns")),
        ),
    ]
