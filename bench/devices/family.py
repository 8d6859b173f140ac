"""The family: each foreign device with what an expert would say of it (`expert`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from devices.ailments import (
    BadRegion,
    Delayed,
    Limited,
    Pauses,
    Reallocated,
    Tenant,
    VerifiedWrites,
    Vibration,
    WeakHead,
)
from devices.arrays import Concatenated, Striped
from devices.base import GIB, MIB, SECOND, Device, Disk
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
from devices.expert import (
    ALL_OF_SMR,
    CACHE_SIZES,
    CMR,
    NETWORK_BYTES,
    NO_CACHE,
    NOT_SHINGLED,
    ONE_BY_ONE,
    SMALL_SMR,
    SMR,
    SOLID_BYTES,
    SURFACE,
    Foreign,
    Row,
    near,
    word,
)
from devices.flash import BurstCredits, EraseBlocks, GarbageCollected, SlcCache, Tape
from devices.mappers import DirtyRegions, Integrity, RecordVolume, Segments, Snapshot, ZoneMapper
from devices.redundant import Mirrored, Parity
from devices.remote import Iscsi, NetworkMirror, UsbEnclosure
from devices.tiers import SteadyWriteBack, Tiers, WriteThrough
from devices.volumes import Clusters, Deduplicated, LogStructured, Network, Thin, UnwrittenFile
from skylight import _native


def _disks(*profiles: str) -> Callable[[int], list[Disk]]:
    return lambda seed: [Disk(profile, seed + number) for number, profile in enumerate(profiles)]


def _times(factor: float, profile: str, names: Sequence[str]) -> dict[str, Sequence[Row]]:
    """What an array holds of what one disk of a profile holds."""
    truth = json.loads(_native.profile_truth(Disk(profile, 1).toml, profile, ONE_BY_ONE))["findings"]
    return {name: (near(round(factor * truth[name]["value"]), 0.02),) for name in names if name in truth}


def _everywhere(size: int) -> Row:
    part = dict.fromkeys(("od", "md", "id"), size)
    interval = {place: [size - MIB, size + MIB] for place in part}
    return {"value": part, "interval": interval, "measurable": True}


def _arrays() -> list[Foreign]:
    return [
        Foreign(
            "raid0-cmr",
            "rotating disks, not shingled; several, since large reads are faster than one track allows",
            lambda seed: Striped("raid0-cmr", _disks(CMR, CMR)(seed)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "concat-cmr",
            "rotating disks, not shingled; throughput starts anew in the middle of the addresses",
            lambda seed: Concatenated("concat-cmr", _disks(CMR, "conventional-3")(seed)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "raid0-smr",
            "shingled disks; bands and caches are those of its disks, which together are twice as large",
            lambda seed: Striped("raid0-smr", _disks(SMALL_SMR, SMALL_SMR)(seed)),
            {"cache_location": (word("many"),)} | _times(2, SMALL_SMR, CACHE_SIZES),
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
            lambda seed: Concatenated("concat-smr", _disks(SMR, SMR)(seed)),
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


def _caches() -> list[Foreign]:
    cached = NOT_SHINGLED | {"mapping": (word("static"),), "cleaning_type": (word("aggressive"),)}
    flash = cached | {"cache_medium": (word("flash"),), "cache_location": (word("none"),)}
    return [
        Foreign(
            "ssd-cache",
            "a rotating disk behind a flash cache of 8 GiB that is written back when idle",
            lambda seed: WriteBack("ssd-cache", Disk(CMR, seed), SSD_CACHE),
            flash | {"cache_bytes": (near(8 * GIB, 0.1),), "cache_fill_bytes": (near(8 * GIB, 0.03),)},
            (CMR, SURFACE),
        ),
        Foreign(
            "sshd",
            "a rotating disk with flash of 1 GiB; not known to be shingled",
            lambda seed: WriteBack("sshd", Disk("conventional-8", seed), HYBRID),
            flash | {"cache_bytes": (near(GIB, 0.1),), "cache_fill_bytes": (near(GIB, 0.03),)},
            ("conventional-8", SURFACE),
        ),
        Foreign(
            "battery-controller",
            "a rotating disk behind 4 GiB of memory that FLUSH does not empty",
            lambda seed: WriteBack("battery-controller", Disk(CMR, seed), BATTERY),
            cached
            | NO_CACHE
            | {"cache_bytes": (near(4 * GIB, 0.1),), "cache_fill_bytes": (near(4 * GIB, 0.03),)},
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
            NOT_SHINGLED
            | {
                "cache_medium": (word("disk"),),
                "cache_location": (word("od"),),
                "cleaning_type": (word("aggressive"),),
                "cleaning_order": (word("fifo"),),
                "mapping": (word("static"),),
                "cleaning_start_ns": (near(MediaCache.idle_ns, 0.2),),
                "cache_bytes": (near(MediaCache.log_bytes, 0.1),),
                "cache_fill_bytes": (near(MediaCache.log_bytes, 0.03),),
                "cache_raw_bytes": (near(MediaCache.log_bytes, 0.1),),
            },
            (CMR, SURFACE),
        ),
    ]


def _volumes() -> list[Foreign]:
    return [
        Foreign(
            "log-structured",
            "writes go to a log on a rotating disk; whether the disk is shingled is unknown",
            lambda seed: LogStructured("log-structured", Disk(CMR, seed)),
            {"mapping": (word("dynamic"),), **NOT_SHINGLED, "cache_medium": (word("disk"), word("none"))},
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "thin",
            "blocks never written are not on a disk; what is written is on a rotating one",
            lambda seed: Thin("thin", Disk(CMR, seed)),
            NOT_SHINGLED | NO_CACHE | {"mapping": (word("dynamic"),)},
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "deduplicated",
            "reads and writes do not show a disk; that there is none is not known",
            lambda seed: Deduplicated("deduplicated", Disk(CMR, seed)),
            NO_CACHE,
        ),
        Foreign(
            "unwritten-cmr-file",
            "blocks never written are not on a disk; what is written is on a conventional one",
            lambda seed: UnwrittenFile("unwritten-cmr-file", Disk(CMR, seed)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
        Foreign(
            "unwritten-smr-file",
            "blocks never written are not on a disk; what is written is on a shingled one",
            lambda seed: UnwrittenFile("unwritten-smr-file", Disk(SMR, seed)),
            {},
            (SMR, (*ALL_OF_SMR, "band_bytes", "cleaning_band_ns", "cleaning_order")),
        ),
        Foreign(
            "network",
            "no rotating disk can be seen",
            lambda seed: Network("network", NETWORK_BYTES, seed),
            {"drive_type": (word("not-rotating"),), **NO_CACHE},
        ),
        Foreign(
            "bad-region",
            "a conventional disk of which a part of the addresses is read only after many tries",
            lambda seed: BadRegion("bad-region", Disk(CMR, seed), seed),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
    ]


def _redundant() -> list[Foreign]:
    words = ("drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping", "cleaning_start_ns")
    return [
        Foreign(
            "raid1-cmr",
            "a conventional disk, or several that hold the same",
            lambda seed: Mirrored("raid1-cmr", _disks(CMR, CMR)(seed)),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
        Foreign(
            "raid1-smr",
            "a shingled disk, or several that hold the same: each takes every write",
            lambda seed: Mirrored("raid1-smr", _disks(SMALL_SMR, SMALL_SMR)(seed)),
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
                "raid5-cmr", _disks("conventional-14", "conventional-14", "conventional-14")(seed)
            ),
            NOT_SHINGLED | NO_CACHE,
            ("conventional-14", ("rotation_ns",)),
        ),
        Foreign(
            "raid5-smr",
            "shingled disks; a small write goes to two of three, so caches hold one and a half of one's",
            lambda seed: Parity("raid5-smr", _disks(SMALL_SMR, SMALL_SMR, SMALL_SMR)(seed)),
            {"cache_location": (word("many"),)} | _times(1.5, SMALL_SMR, CACHE_SIZES),
            (SMALL_SMR, (*words, "rotation_ns")),
        ),
        Foreign(
            "raid0-mixed",
            "stripes over a conventional and a shingled disk: shingled in part",
            lambda seed: Striped("raid0-mixed", _disks(CMR, SMALL_SMR)(seed)),
            {"cache_location": (word("many"),)} | _times(2, SMALL_SMR, CACHE_SIZES),
            (SMALL_SMR, (*words, "rotation_ns")),
        ),
    ]


def _mapped() -> list[Foreign]:
    static = {"mapping": (word("static"),)}
    return [
        Foreign(
            "integrity",
            "a conventional disk; writes collect in memory and in a journal of 64 MiB at its start",
            lambda seed: Integrity("integrity", Disk(CMR, seed)),
            NOT_SHINGLED
            | static
            | {
                "cache_medium": (word("disk"), word("none")),
                "cache_location": (word("od"), word("none")),
                "cleaning_type": (word("aggressive"),),
                "cleaning_start_ns": (near(Integrity.commit_ns, 0.2),),
                "cache_bytes": (near(Integrity.journal_bytes // 2, 0.1),),
                "cache_fill_bytes": (near(Integrity.journal_bytes // 2, 0.03),),
            },
            (CMR, SURFACE),
        ),
        Foreign(
            "snapshot",
            "a conventional disk; the first write of 64 KiB costs a copy",
            lambda seed: Snapshot("snapshot", Disk("conventional-4", seed)),
            NOT_SHINGLED | NO_CACHE | static,
            ("conventional-4", SURFACE),
            part_of_disk=True,
        ),
        Foreign(
            "bitmap",
            "a conventional disk; the first write of 64 MiB waits for a write at the start of the disk",
            lambda seed: DirtyRegions("bitmap", Disk(CMR, seed), 64 * MIB, 1 << 20, False, 5 * SECOND),
            NOT_SHINGLED | NO_CACHE | static,
            (CMR, SURFACE),
        ),
        Foreign(
            "segments",
            "a conventional disk; places near in address are not always near in fact",
            lambda seed: Segments("segments", Disk(CMR, seed), 24 * GIB, seed),
            NOT_SHINGLED | NO_CACHE | static,
            (CMR, ("rotation_ns",)),
        ),
    ]


def _remapped() -> list[Foreign]:
    dynamic = {"mapping": (word("dynamic"),)}
    return [
        Foreign(
            "zone-mapper",
            "shingled: writes collect in a few zones at the start; zones of 256 MiB are rewritten elsewhere",
            lambda seed: ZoneMapper("zone-mapper", Disk(CMR, seed)),
            dynamic
            | {
                "drive_type": (word("smr"),),
                "cache_medium": (word("disk"),),
                "cache_location": (word("od"),),
                "cleaning_type": (word("aggressive"),),
                "cleaning_start_ns": (near(ZoneMapper.idle_ns, 0.2),),
                "band_bytes": (_everywhere(ZoneMapper.zone),),
            },
            (CMR, SURFACE),
        ),
        Foreign(
            "record-volume",
            "a rotating disk beneath memory; records are written to new places every five seconds",
            lambda seed: RecordVolume("record-volume", Disk(CMR, seed)),
            NOT_SHINGLED
            | dynamic
            | {"cache_medium": (word("disk"), word("none")), "cache_location": (word("none"),)},
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "clusters",
            "blocks never written are not on a disk; what is written is on a conventional one",
            lambda seed: Clusters("clusters", Disk(CMR, seed)),
            NOT_SHINGLED | NO_CACHE | dynamic,
            (CMR, ("rotation_ns",)),
        ),
    ]


def _tiered() -> list[Foreign]:
    cached = NOT_SHINGLED | {"mapping": (word("static"),), "cleaning_type": (word("aggressive"),)}
    flash = cached | {"cache_medium": (word("flash"),), "cache_location": (word("none"),)}
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
            flash | {"cache_bytes": (near(8 * GIB, 0.1),), "cache_fill_bytes": (near(8 * GIB, 0.03),)},
            (CMR, SURFACE),
        ),
        Foreign(
            "guest-cache",
            "a conventional disk behind 1 GiB of a host's memory; FLUSH does nothing",
            lambda seed: SteadyWriteBack("guest-cache", Disk("conventional-5", seed), GUEST_CACHE),
            cached | NO_CACHE | {"cache_bytes": (near(GIB, 0.1),), "cache_fill_bytes": (near(GIB, 0.03),)},
            ("conventional-5", SURFACE),
        ),
        Foreign(
            "tiers",
            "a rotating disk and flash; what is read often is in flash, and so are new writes",
            lambda seed: Tiers("tiers", Disk(CMR, seed), TIER_CACHE),
            flash | {"cache_bytes": (near(GIB, 0.1),), "cache_fill_bytes": (near(GIB, 0.03),)},
            (CMR, SURFACE),
        ),
        Foreign(
            "scattered-media-cache",
            "a conventional disk with caches in sixteen places; a block goes home alone",
            lambda seed: ScatteredMediaCache("scattered-media-cache", Disk("conventional-3", seed)),
            cached
            | {
                "cache_medium": (word("disk"),),
                "cache_location": (word("many"),),
                "cleaning_order": (word("fifo"),),
                "cleaning_start_ns": (near(ScatteredMediaCache.idle_ns, 0.2),),
                "cache_bytes": (near(2 * GIB, 0.1),),
                "cache_fill_bytes": (near(2 * GIB, 0.03),),
                "cache_raw_bytes": (near(2 * GIB, 0.1),),
            },
            ("conventional-3", SURFACE),
        ),
    ]


def _flash() -> list[Foreign]:
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


def _far_or_ailing() -> list[Foreign]:
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


def _second_batch() -> list[Foreign]:
    """Written after the first were looked at, and run once before anything was mended for them."""
    shingled = ("drive_type", "cleaning_type", "mapping", "rotation_ns")
    like_cmr = (CMR, SURFACE)
    plain = NOT_SHINGLED | NO_CACHE | {"mapping": (word("static"),)}
    cached = {"cache_medium": (word("disk"), word("flash")), "cache_location": (word("none"), word("many"))}
    solid = {"drive_type": (word("not-rotating"),), **NO_CACHE}
    return [
        Foreign(
            "flash-before-smr",
            "a shingled disk behind a flash cache of 1 GiB",
            lambda seed: WriteBack("flash-before-smr", Disk(SMALL_SMR, seed), TIER_CACHE),
            cached | {"cache_bytes": (near(GIB, 0.1),), "cache_fill_bytes": (near(GIB, 0.03),)},
            (SMALL_SMR, (*shingled, "track_bytes", "seek_ns", "cache_location")),
        ),
        Foreign(
            "integrity-smr",
            "a shingled disk; writes collect in memory and in a journal",
            lambda seed: Integrity("integrity-smr", Disk(SMALL_SMR, seed)),
            {"cache_medium": (word("disk"), word("none"))},
            (SMALL_SMR, (*shingled, "cache_location", "band_bytes")),
        ),
        Foreign(
            "raid1-mixed",
            "a conventional and a shingled disk that hold the same",
            lambda seed: Mirrored("raid1-mixed", _disks(CMR, SMALL_SMR)(seed)),
            {},
            (SMALL_SMR, (*ALL_OF_SMR, *CACHE_SIZES, "band_bytes", "cleaning_band_ns", "cleaning_order")),
        ),
        Foreign(
            "raid0-wide",
            "stripes of 1 MiB over three conventional disks",
            lambda seed: Striped("raid0-wide", _disks(CMR, CMR, CMR)(seed), MIB),
            plain,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "fragmented-file",
            "a conventional disk; places near in address are seldom near in fact",
            lambda seed: Segments("fragmented-file", Disk(CMR, seed), 64 * MIB, seed),
            plain,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "limited",
            "a conventional disk of which 80 commands a second are allowed",
            lambda seed: Limited("limited", Disk(CMR, seed), seed),
            plain,
            like_cmr,
        ),
        Foreign(
            "delayed",
            "a conventional disk behind a delay",
            lambda seed: Delayed("delayed", Disk(CMR, seed), seed),
            plain,
            like_cmr,
        ),
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


FAMILY: tuple[Foreign, ...] = (
    *_arrays(),
    *_caches(),
    *_volumes(),
    *_redundant(),
    *_mapped(),
    *_remapped(),
    *_tiered(),
    *_flash(),
    *_far_or_ailing(),
    *_second_batch(),
)
"""All foreign devices."""
