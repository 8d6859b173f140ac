"""A fourth batch: what real machines have besides, each different from the others in what it does and not in
numbers only. Written, with the expert's words, before any of it was probed (docs/foreign-devices.md)."""

from __future__ import annotations

from devices.arrays import Concatenated
from devices.base import MIB, Device, Disk
from devices.caches import BATTERY, SSD_CACHE, TIER_CACHE, WriteBack
from devices.distributed import AsDisk, Bucket, Degraded, Journaled, Objects, Rebuilding
from devices.expert import (
    CMR,
    NO_CACHE,
    NOT_ROTATING,
    NOT_SHINGLED,
    SMALL_SMR,
    SOLID_BYTES,
    SURFACE,
    Foreign,
    Row,
    word,
)
from devices.family.cached import CACHED, ON_FLASH
from devices.family.parts import FLASH, PLAIN, cache_of, disks_of, log_of, slowed
from devices.firmware import (
    BridgeMemory,
    CarefulMediaCache,
    DualActuator,
    FlashAtFlush,
    IdleModes,
    Interlaced,
    MediaScan,
    NewestFirst,
    OffTrack,
    PoliteMediaCache,
    ReadsFirst,
    Reassigning,
    Sweeping,
    VerifiedAtFirst,
)
from devices.kernels import (
    CachedTables,
    CleanedLog,
    Compressed,
    Encrypted,
    Sliced,
    SlowWriteBack,
    TwoPaths,
    Watermarks,
    Zeroing,
)
from devices.redundant import Parity
from devices.solid import Faded, Folding, HostMemory
from skylight.truth import true_findings


def fourth_batch() -> list[Foreign]:
    """All of them."""
    return [*_firmware(), *_logs(), *_shingled(), *_kernels(), *_many_disks(), *_solid()]


ONE_BAND = """kind = "set-associative"
band = "40 MiB"
cache = "40 MiB"
cache_medium = "disk"
cache_location = "od"
"""
PATIENT = """kind = "set-associative"
band = "24 MiB"
cache = "2.4 GiB"
cache_medium = "disk"
cache_location = "od"
cleaning = "aggressive"
idle = "60 s"
"""


def _firmware() -> list[Foreign]:
    flushed = NOT_SHINGLED | {
        "mapping": (word("static"),),
        "cache_medium": (word("none"), word("flash")),
        "cache_location": (word("none"),),
        "cleaning_type": (word("aggressive"),),
    }
    return [
        Foreign(
            "flash-at-flush",
            "a conventional disk with 64 MiB of memory that FLUSH saves to flash",
            lambda seed: FlashAtFlush("flash-at-flush", Disk(CMR, seed), seed),
            flushed | cache_of(64 * MIB),
            (CMR, SURFACE),
        ),
        Foreign(
            "bridge-memory",
            "a conventional disk behind a bridge with 8 MB of memory that ignores FLUSH",
            lambda seed: BridgeMemory("bridge-memory", Disk(CMR, seed), seed),
            flushed | cache_of(BridgeMemory.memory_bytes),
            (CMR, SURFACE),
        ),
        slowed("reads-first", "a conventional disk; writes wait while reads come", ReadsFirst),
        slowed("media-scan", "a conventional disk that reads itself when nothing came for 1 s", MediaScan),
        slowed("idle-modes", "a conventional disk that falls asleep in three depths", IdleModes),
        slowed(
            "verified-at-first", "a conventional disk that verifies what it writes first", VerifiedAtFirst
        ),
        slowed("off-track", "a conventional disk with tracks that take a revolution more", OffTrack),
        slowed("reassigning", "a conventional disk that reassigns blocks when they are written", Reassigning),
        slowed(
            "interlaced",
            "a disk of interlaced tracks: half of the writes rewrite two neighbours, all are in place",
            Interlaced,
        ),
        Foreign(
            "dual-actuator",
            "a conventional disk with an arm for each half of the addresses",
            lambda seed: DualActuator("dual-actuator", [Disk(CMR, seed), Disk(CMR, seed)]),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
    ]


def _logs() -> list[Foreign]:
    return [
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


def _true(layer: str) -> dict[str, list[Row]]:
    """All that is true of a disk with that layer, whose commands come one by one."""
    toml = Disk(SMALL_SMR, 1, layer=layer).toml
    truth = true_findings(toml, SMALL_SMR, "[conditions]\nqueue_depth = 1\n")
    return {name: [row] for name, row in truth.items()}


def _shingled() -> list[Foreign]:
    return [
        Foreign(
            "smr-one-band",
            "a shingled disk with a cache of one band of 40 MiB",
            lambda seed: Concatenated("smr-one-band", [Disk(SMALL_SMR, seed, layer=ONE_BAND)]),
            _true(ONE_BAND),
        ),
        Foreign(
            "smr-patient",
            "a shingled disk that cleans after a minute without commands",
            lambda seed: Concatenated("smr-patient", [Disk(SMALL_SMR, seed, layer=PATIENT)]),
            _true(PATIENT),
        ),
    ]


def _kernels() -> list[Foreign]:
    return [
        slowed("encrypted", "a conventional disk behind a slow processor", Encrypted),
        slowed("cached-tables", "a conventional disk; a table is read first, elsewhere", CachedTables),
        slowed("sliced", "a conventional disk, at times 12 commands in 100 ms", Sliced),
        slowed("two-paths", "a conventional disk behind two paths, one of them longer", TwoPaths),
        Foreign(
            "thin-zeroing",
            "a thin volume on a conventional disk; a new chunk costs 16 MiB of zeros",
            lambda seed: Zeroing("thin-zeroing", Disk(CMR, seed)),
            NOT_SHINGLED | NO_CACHE | {"mapping": (word("dynamic"),)},
            (CMR, ("rotation_ns",)),
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
        Foreign(
            "compressed",
            "a volume that packs fourteen blocks in one; what the disk is cannot be known",
            lambda seed: Compressed("compressed", Disk(CMR, seed), seed),
            NOT_SHINGLED | {"mapping": (word("dynamic"),), "cache_medium": (word("disk"), word("none"))},
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "cleaned-log",
            "a log that copies segments, on a conventional disk; what the disk is cannot be known",
            lambda seed: CleanedLog("cleaned-log", Disk(CMR, seed), seed),
            NOT_SHINGLED | {"mapping": (word("dynamic"),), "cache_medium": (word("disk"), word("none"))},
            (CMR, ("rotation_ns",)),
        ),
    ]


def _battery_parity(seed: int) -> Device:
    array = Parity("battery-parity", disks_of(seed, CMR, CMR, CMR))
    return WriteBack("battery-parity", AsDisk(array), BATTERY)


def _many_disks() -> list[Foreign]:
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


def _solid() -> list[Foreign]:
    return [
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
    ]
