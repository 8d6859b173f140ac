"""Several disks as one, with what an expert would say."""

from __future__ import annotations

from devices.accepted_findings import (
    ALL_OF_SMR,
    CACHE_SIZES,
    CMR,
    NO_CACHE,
    NOT_ROTATING,
    NOT_SHINGLED,
    SMALL_SMR,
    SMR,
    SOLID_BYTES,
    SURFACE,
    Foreign,
    word,
)
from devices.arrays import Concatenated, Striped
from devices.base import GIB, MIB, Device, Disk
from devices.caches import BATTERY, WriteBack
from devices.catalogue.caches import CACHED
from devices.catalogue.shared_findings import PLAIN, cache_of, disks_of, times
from devices.distributed import AsDisk, Bucket, Degraded, Journaled, Objects, Rebuilding
from devices.redundant import Mirrored, Parity
from devices.stacked import MirroredStripes


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
        Foreign(
            "raid0-wide",
            "stripes of 1 MiB over three conventional disks",
            lambda seed: Striped("raid0-wide", disks_of(seed, CMR, CMR, CMR), MIB),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "raid0-two-speeds",
            "stripes over disks of two speeds; no one rotation is that of the device",
            lambda seed: Striped(
                "raid0-two-speeds", disks_of(seed, "conventional-3", "conventional-6"), 256 << 10
            ),
            PLAIN,
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
        Foreign(
            "raid1-mixed",
            "a conventional and a shingled disk that hold the same",
            lambda seed: Mirrored("raid1-mixed", disks_of(seed, CMR, SMALL_SMR)),
            {},
            (SMALL_SMR, (*ALL_OF_SMR, *CACHE_SIZES, "band_bytes", "cleaning_band_ns", "cleaning_order")),
        ),
        Foreign(
            "raid10",
            "rotating disks, not shingled; stripes over mirrors",
            lambda seed: MirroredStripes("raid10", disks_of(seed, CMR, CMR, CMR, CMR)),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
    ]


def _battery_parity(seed: int) -> Device:
    array = Parity("battery-parity", disks_of(seed, CMR, CMR, CMR))
    return WriteBack("battery-parity", AsDisk(array), BATTERY)


def many_disks() -> list[Foreign]:
    """Clusters, and parity or mirrors that are not as they were."""
    several = (CMR, ("rotation_ns",))
    return [
        Foreign(
            "objects",
            "objects of 4 MiB on the disks of a cluster; a small write is logged first",
            lambda seed: Objects("objects", disks_of(seed, *[CMR] * 6), seed),
            NOT_SHINGLED | {"mapping": (word("dynamic"),), "cache_medium": (word("disk"), word("none"))},
            several,
        ),
        Foreign(
            "bucket",
            "nothing that rotates can be seen; objects of 8 MiB are far away or here",
            lambda seed: Bucket("bucket", SOLID_BYTES, seed),
            NOT_ROTATING | NO_CACHE | {"cache_medium": (word("none"), word("flash"))},
        ),
        Foreign(
            "parity-journal",
            "four conventional disks with parity and a journal of flash, through which all is written",
            lambda seed: Journaled("parity-journal", disks_of(seed, CMR, CMR, CMR, CMR)),
            PLAIN,
            several,
        ),
        Foreign(
            "parity-degraded",
            "conventional disks with parity, of which one is gone",
            lambda seed: Degraded("parity-degraded", disks_of(seed, CMR, CMR, CMR)),
            PLAIN,
            several,
        ),
        Foreign(
            "battery-parity",
            "conventional disks with parity behind 4 GiB of memory that FLUSH does not empty",
            _battery_parity,
            CACHED | NO_CACHE | cache_of(BATTERY.size),
            several,
        ),
        Foreign(
            "rebuilding",
            "a mirror of conventional disks that is being rebuilt",
            lambda seed: Rebuilding("rebuilding", disks_of(seed, CMR, CMR)),
            PLAIN,
            (CMR, SURFACE),
        ),
    ]
