"""Volumes and mappers over a disk, with what an expert would say."""

from __future__ import annotations

from devices.accepted_findings import (
    ALL_OF_SMR,
    CMR,
    NETWORK_BYTES,
    NO_CACHE,
    NOT_ROTATING,
    NOT_SHINGLED,
    SMALL_SMR,
    SMR,
    SURFACE,
    Foreign,
    Row,
    near,
    truth_of,
    word,
)
from devices.ailments import BadRegion
from devices.base import GIB, MIB, SECOND, Disk
from devices.catalogue.shared_findings import PLAIN, SHINGLED, cache_of, everywhere
from devices.host_block_layers import CleanedLog, Compressed, Zeroing
from devices.mappers import DirtyRegions, Integrity, RecordVolume, Segments, Snapshot, ZoneMapper
from devices.stacked import Swapped
from devices.volumes import Clusters, Deduplicated, LogStructured, Network, Thin, UnwrittenFile


def volumes() -> list[Foreign]:
    """Volumes that place data themselves, and what is no disk."""
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
            NOT_ROTATING | NO_CACHE,
        ),
        Foreign(
            "bad-region",
            "a conventional disk of which a part of the addresses is read only after many tries",
            lambda seed: BadRegion("bad-region", Disk(CMR, seed), seed),
            NOT_SHINGLED | NO_CACHE,
            (CMR, SURFACE),
        ),
    ]


def _middle_first() -> Row:
    """Track sizes of a disk whose middle address comes first and last."""
    row = truth_of(CMR)["track_bytes"]
    ends = {name: dict.fromkeys(("od", "id"), row[name]["md"]) for name in ("value", "interval")}
    return {**ends, "measurable": True}


def mapped() -> list[Foreign]:
    """What a kernel puts before a disk, and does not move data about."""
    static = {"mapping": (word("static"),)}
    return [
        Foreign(
            "integrity",
            "a conventional disk; writes collect in memory and in a journal of 64 MiB at its start",
            lambda seed: Integrity("integrity", Disk(CMR, seed)),
            NOT_SHINGLED
            | static
            | cache_of(Integrity.journal_bytes // 2)
            | {
                "cache_medium": (word("disk"), word("none")),
                "cache_location": (word("od"), word("none")),
                "cleaning_type": (word("aggressive"),),
                "cleaning_start_ns": (near(Integrity.commit_ns, 0.2),),
            },
            (CMR, SURFACE),
            used_bytes=Integrity("", Disk(CMR, 1)).used_bytes,
        ),
        Foreign(
            "snapshot",
            "a conventional disk; the first write of 64 KiB costs a copy",
            lambda seed: Snapshot("snapshot", Disk("conventional-4", seed)),
            PLAIN,
            ("conventional-4", SURFACE),
            part_of_disk=True,
        ),
        Foreign(
            "bitmap",
            "a conventional disk; the first write of 64 MiB waits for a write at the start of the disk",
            lambda seed: DirtyRegions("bitmap", Disk(CMR, seed), 64 * MIB, 1 << 20, False, 5 * SECOND),
            PLAIN,
            (CMR, SURFACE),
        ),
        Foreign(
            "segments",
            "a conventional disk; places near in address are not always near in fact",
            lambda seed: Segments("segments", Disk(CMR, seed), 24 * GIB, seed),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "integrity-smr",
            "a shingled disk; writes collect in memory and in a journal",
            lambda seed: Integrity("integrity-smr", Disk(SMALL_SMR, seed)),
            {"cache_medium": (word("disk"), word("none"))},
            (SMALL_SMR, (*SHINGLED, "track_bytes", "cache_location", "band_bytes")),
            used_bytes=Integrity("", Disk(SMALL_SMR, 1)).used_bytes,
        ),
        Foreign(
            "fragmented-file",
            "a conventional disk; places near in address are seldom near in fact",
            lambda seed: Segments("fragmented-file", Disk(CMR, seed), 64 * MIB, seed),
            PLAIN,
            (CMR, ("rotation_ns",)),
        ),
        Foreign(
            "swapped-halves",
            "a conventional disk whose second half comes first: tracks are largest amid the addresses",
            lambda seed: Swapped("swapped-halves", Disk(CMR, seed), seed),
            PLAIN | {"track_bytes": (_middle_first(),)},
            (CMR, ("rotation_ns", "seek_ns")),
        ),
    ]


def remapped() -> list[Foreign]:
    """What moves data about when it is written."""
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
                "band_bytes": (everywhere(ZoneMapper.zone),),
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
        Foreign(
            "thin-zeroing",
            "a thin volume on a conventional disk; a new chunk costs 16 MiB of zeros",
            lambda seed: Zeroing("thin-zeroing", Disk(CMR, seed)),
            NOT_SHINGLED | NO_CACHE | {"mapping": (word("dynamic"),)},
            (CMR, ("rotation_ns",)),
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
