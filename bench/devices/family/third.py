"""A third batch: what a sceptical engineer would build. Written, with the expert's words, before any of it
was probed, and run once on frozen code (docs/foreign-devices.md)."""

from __future__ import annotations

from devices.arrays import Striped
from devices.base import Disk
from devices.caches import SSD_CACHE, MediaCache
from devices.expert import (
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
    Row,
    near,
    truth_of,
    word,
)
from devices.family.parts import FLASH, PLAIN, disks_of, log_of, slowed
from devices.stacked import (
    CoarseThin,
    FileServer,
    HardToRead,
    HiccupFlash,
    MirroredStripes,
    Misaligned,
    NeverDone,
    ShortDelay,
    SleepyMemory,
    SmallMediaCache,
    SplittingBridge,
    Swapped,
    WriteAround,
)
from devices.tiers import WriteThrough

OF_WORDS = ("drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping")
"""What holds of a shingled disk whatever is before it that moves no data."""
OF_BANDS = ("band_bytes", "cleaning_band_ns", "cleaning_order")


def third_batch() -> list[Foreign]:
    """All of them."""
    return [*_over_shingled(), *_over_conventional(), *_without_a_disk()]


def _over_shingled() -> list[Foreign]:
    return [
        Foreign(
            "smr-write-through",
            "a shingled disk; flash keeps what was read and written, and writes wait for the disk",
            lambda seed: WriteThrough("smr-write-through", Disk(SMALL_SMR, seed), SSD_CACHE),
            {"cache_medium": (word("flash"),)},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, *OF_BANDS)),
        ),
        Foreign(
            "smr-delayed",
            "a shingled disk behind a delay of 20 ms",
            lambda seed: ShortDelay("smr-delayed", Disk(SMALL_SMR, seed), seed),
            {},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, *OF_BANDS)),
        ),
        Foreign(
            "smr-split",
            "a shingled disk behind a bridge that splits commands in 64 KiB",
            lambda seed: SplittingBridge("smr-split", Disk(SMR, seed), seed),
            {},
            (SMR, (*ALL_OF_SMR, *CACHE_SIZES, *OF_BANDS, "cache_map_entries")),
        ),
        Foreign(
            "smr-never-done",
            "a shingled disk that is busy by itself all the time; when it begins to clean is not known",
            lambda seed: NeverDone("smr-never-done", Disk(SMALL_SMR, seed), seed),
            {"cleaning_type": (word("aggressive"), word("lazy"))},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, "band_bytes", "cleaning_order")),
        ),
        Foreign(
            "smr-thin",
            "a thin volume on a shingled disk",
            lambda seed: CoarseThin("smr-thin", Disk(SMALL_SMR, seed)),
            {"mapping": (word("dynamic"),)},
            (SMALL_SMR, (*OF_WORDS, "rotation_ns", *CACHE_SIZES)),
        ),
        Foreign(
            "smr-behind-log",
            "a shingled disk; small writes go to a log of 2 GiB at its start first",
            lambda seed: MediaCache("smr-behind-log", Disk(SMALL_SMR, seed)),
            {
                "cleaning_type": (word("aggressive"), word("lazy")),
                "cleaning_start_ns": (near(MediaCache.idle_ns, 0.2),),
                "cache_location": (word("od"), word("many")),
            },
            (SMALL_SMR, (*OF_WORDS, *SURFACE)),
        ),
    ]


def _middle_first() -> Row:
    """Track sizes of a disk whose middle address comes first and last."""
    row = truth_of(CMR)["track_bytes"]
    ends = {name: dict.fromkeys(("od", "id"), row[name]["md"]) for name in ("value", "interval")}
    return {**ends, "measurable": True}


def _over_conventional() -> list[Foreign]:
    like_cmr = (CMR, SURFACE)
    return [
        Foreign(
            "write-around",
            "a conventional disk; flash keeps what was read and not written since",
            lambda seed: WriteAround("write-around", Disk(CMR, seed), SSD_CACHE),
            PLAIN | {"cache_medium": (word("none"), word("flash"))},
            like_cmr,
        ),
        slowed("hard-to-read", "a conventional disk of which every fifth read is tried again", HardToRead),
        slowed(
            "file-server",
            "a conventional disk behind a network with jitter and a server's memory",
            FileServer,
        ),
        slowed(
            "misaligned", "a conventional disk; a write reads first and takes a revolution more", Misaligned
        ),
        Foreign(
            "small-media-cache",
            "a conventional disk with a log of 100 MiB at its outer diameter; a block goes home alone",
            lambda seed: SmallMediaCache("small-media-cache", Disk(CMR, seed)),
            NOT_SHINGLED | log_of(SmallMediaCache.log_bytes, "od", SmallMediaCache.idle_ns),
            like_cmr,
        ),
        Foreign(
            "swapped-halves",
            "a conventional disk whose second half comes first: tracks are largest amid the addresses",
            lambda seed: Swapped("swapped-halves", Disk(CMR, seed), seed),
            PLAIN | {"track_bytes": (_middle_first(),)},
            (CMR, ("rotation_ns", "seek_ns")),
        ),
        Foreign(
            "raid10",
            "rotating disks, not shingled; stripes over mirrors",
            lambda seed: MirroredStripes("raid10", disks_of(seed, CMR, CMR, CMR, CMR)),
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


def _without_a_disk() -> list[Foreign]:
    return [
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
