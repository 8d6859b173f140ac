"""What counts as right for several kinds of devices, and entries of one form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devices.accepted_findings import (
    CMR,
    NO_CACHE,
    NOT_ROTATING,
    NOT_SHINGLED,
    SURFACE,
    Foreign,
    Row,
    near,
    truth_of,
    word,
)
from devices.base import MIB, Device, Disk

PLAIN = NOT_SHINGLED | NO_CACHE | {"mapping": (word("static"),)}
"""What holds of a conventional disk whatever is before it that keeps no data and moves none."""

SHINGLED = ("drive_type", "cleaning_type", "mapping", "rotation_ns")
"""What holds of a shingled disk whatever is before it."""

FLASH = NOT_ROTATING | {
    "mapping": (word("dynamic"),),
    "cache_location": (word("none"),),
    "cache_medium": (word("none"), word("flash")),
}
"""What may be said of a solid-state disk."""


def slowed(
    name: str, says: str, kind: Callable[[str, Disk, int], Device], *, part_of_disk: bool = False
) -> Foreign:
    """A conventional disk behind something that takes time and is not seen otherwise."""
    return Foreign(
        name,
        says,
        lambda seed: kind(name, Disk(CMR, seed), seed),
        PLAIN,
        (CMR, SURFACE),
        part_of_disk=part_of_disk,
    )


def disks_of(seed: int, *profiles: str) -> list[Disk]:
    """Disks of these profiles, each with a seed of its own."""
    return [Disk(profile, seed + number) for number, profile in enumerate(profiles)]


def cache_of(size: int) -> dict[str, Sequence[Row]]:
    """A cache of that size, all of which is used."""
    return {"cache_bytes": (near(size, 0.1),), "cache_fill_bytes": (near(size, 0.03),)}


def log_of(size: int, location: str, idle_ns: int) -> dict[str, Sequence[Row]]:
    """A log on the disk itself that is moved home, the oldest first, after that time without commands."""
    return cache_of(size) | {
        "cache_medium": (word("disk"),),
        "cache_location": (word(location),),
        "cleaning_type": (word("aggressive"),),
        "cleaning_order": (word("fifo"),),
        "cleaning_start_ns": (near(idle_ns, 0.2),),
        "cache_raw_bytes": (near(size, 0.1),),
        "mapping": (word("static"),),
    }


def times(factor: float, profile: str, names: Sequence[str]) -> dict[str, Sequence[Row]]:
    """What an array holds of what one disk of a profile holds."""
    truth = truth_of(profile)
    return {name: (near(round(factor * truth[name]["value"]), 0.02),) for name in names if name in truth}


def everywhere(size: int) -> Row:
    """That size at the first, middle and last address, within a MiB."""
    part = dict.fromkeys(("od", "md", "id"), size)
    interval = {place: [size - MIB, size + MIB] for place in part}
    return {"value": part, "interval": interval, "measurable": True}
