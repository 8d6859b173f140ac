"""Conventional disks whose firmware does more than it is asked for, with what an expert would say."""

from __future__ import annotations

from devices.accepted_findings import CMR, NOT_SHINGLED, SURFACE, Foreign, word
from devices.base import MIB, Disk
from devices.catalogue.shared_findings import PLAIN, cache_of, slowed
from devices.firmware import (
    BridgeMemory,
    DualActuator,
    FlashAtFlush,
    IdleModes,
    Interlaced,
    MediaScan,
    OffTrack,
    ReadsFirst,
    Reassigning,
    VerifiedAtFirst,
)


def firmware() -> list[Foreign]:
    """What the firmware of a conventional disk does besides."""
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
