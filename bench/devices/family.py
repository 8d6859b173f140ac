"""The family: each foreign device with what an expert would say of it.

An expert has read no data sheet and may run any test. What cannot be told by tests is unknown; what can be
told in part is said in a broader way. So for each finding there are answers that count as right, beside
*unknown*, which always is acceptable; every other answer is wrong. A finding that is not listed has no
right answer but unknown.

Numbers of the disk beneath (its rotation, its tracks) are right where they hold for the device as a host
sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devices.ailments import BadRegion
from devices.arrays import Concatenated, Striped
from devices.base import GIB, Device, Disk
from devices.caches import BATTERY, HYBRID, PAGE_CACHE, SSD_CACHE, MediaCache, WriteBack
from devices.volumes import Deduplicated, LogStructured, Network, Thin, UnwrittenFile
from skylight import _native
from skylight.findings import Finding
from skylight.probe.scoring import score

CMR, SMR, SMALL_SMR = "st4000nc001", "st5000as0011", "emulated-smr-1"
NETWORK_BYTES = 2_000_000_000_000

Row = Mapping[str, Any]
ONE_BY_ONE = "[conditions]\nqueue_depth = 1\n"
"""A disk in a device gets its commands one by one (`devices.base`)."""


def word(value: str) -> Row:
    """A word that is right."""
    return {"value": value, "interval": None, "measurable": True}


def near(value: int, part: float) -> Row:
    """A number that is right within a part of it."""
    return {"value": value, "interval": [value * (1 - part), value * (1 + part)], "measurable": True}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A device of the family.

    `accepts` are the right answers by finding; `like` names the profile of a disk and the findings in which
    the device is as that disk alone; `says` is what an expert would say."""

    name: str
    says: str
    make: Callable[[int], Device]
    accepts: Mapping[str, Sequence[Row]]
    like: tuple[str, tuple[str, ...]] | None = None
    border_in_middle: bool = False
    """Two disks meet in the middle of the addresses, so what is said of the middle is not judged."""

    def right_answers(self) -> dict[str, list[Row]]:
        """All right answers by finding."""
        answers = {name: list(rows) for name, rows in self.accepts.items()}
        if self.like is not None:
            profile, names = self.like
            truth = json.loads(_native.profile_truth(Disk(profile, 1).toml, profile, ONE_BY_ONE))["findings"]
            for name in names:
                if name in truth:
                    row = truth[name]
                    if self.border_in_middle and isinstance(row["value"], dict):
                        row["value"].pop("md", None)
                    answers.setdefault(name, []).append(row)
        return answers


def outcome(finding: Finding, answers: Mapping[str, Sequence[Row]]) -> str:
    """Right, wrong or unknown.

    >>> found = Finding("drive_type", "smr", None, None, 0.99, "measured")
    >>> outcome(found, {"drive_type": [word("cmr")]}), outcome(found, {"drive_type": [word("smr")]})
    ('wrong', 'right')
    """
    if not finding.known:
        return "unknown"
    rows = answers.get(finding.name, ())
    right = any(mark.outcome == "right" for row in rows for mark in score([finding], {finding.name: row}))
    return "right" if right else "wrong"


NOT_SHINGLED = {"drive_type": (word("cmr"),)}
NO_CACHE = {"cache_medium": (word("none"),), "cache_location": (word("none"),)}
"""No persistent cache that a write could be found in."""
CACHE_SIZES = ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes")
SURFACE = ("rotation_ns", "track_bytes", "seek_ns")
"""What reads show of a disk that lies beneath address by address."""
ALL_OF_SMR = (
    "drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping", *SURFACE,
    "journal_quantum_bytes", "journal_entry_max_bytes", "out_of_band_ns", "map_merge_every", "map_merge_ns",
    "cleaning_start_ns", "plateaus",
)  # fmt: skip
"""What remains of a shingled disk in an array of such disks, where numbers of one disk show."""


def _disks(*profiles: str) -> Callable[[int], list[Disk]]:
    return lambda seed: [Disk(profile, seed + number) for number, profile in enumerate(profiles)]


def _twice(profile: str, names: Sequence[str]) -> dict[str, Sequence[Row]]:
    """What two disks of a profile have together."""
    truth = json.loads(_native.profile_truth(Disk(profile, 1).toml, profile, ONE_BY_ONE))["findings"]
    return {name: (near(2 * truth[name]["value"], 0.02),) for name in names if name in truth}


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
            {"cache_location": (word("many"),)} | _twice(SMALL_SMR, CACHE_SIZES),
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


FAMILY: tuple[Foreign, ...] = (*_arrays(), *_caches(), *_volumes())
"""All foreign devices."""
