"""What an expert would say of a foreign device, and whether a finding agrees.

An expert has read no data sheet and may run any test. What cannot be told by tests is unknown; what can be
told in part is said in a broader way. So for each finding there are answers that count as right, beside
*unknown*, which always is acceptable; every other answer is wrong. A finding that is not listed has no
right answer but unknown.

Numbers of the disk beneath (its rotation, its tracks) are right where they hold for the device as a host
sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devices.base import Device, Disk
from skylight.findings import Finding
from skylight.probe.scoring import score
from skylight.truth import true_findings

CMR, SMR, SMALL_SMR = "st4000nc001", "st5000as0011", "emulated-smr-1"
NETWORK_BYTES = 2_000_000_000_000
SOLID_BYTES = 1_000_204_886_016

Row = Mapping[str, Any]


def word(value: str) -> Row:
    """A word that is right."""
    return {"value": value, "interval": None, "measurable": True}


def near(value: int, part: float) -> Row:
    """A number that is right within a part of it."""
    return {"value": value, "interval": [value * (1 - part), value * (1 + part)], "measurable": True}


def truth_of(profile: str, used_bytes: int | None = None) -> dict[str, Any]:
    """What is true of a disk alone, by finding; or of one that ends after so many of its bytes."""
    toml = Disk(profile, 1).toml
    if used_bytes is not None:
        toml = re.sub(r"(?m)^capacity = .*$", f'capacity = "{used_bytes} B"', toml, count=1)
    # A disk in a device gets its commands one by one (`devices.base`).
    one_by_one = "[conditions]\nqueue_depth = 1\n"
    return true_findings(toml, profile, one_by_one)


OF_A_START = ("od", "track")
"""What holds of the first part of a disk as of the whole."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A device of the catalogue.

    `accepts` are the right answers by finding; `like` names the profile of a disk and the findings in which
    the device is as that disk alone; `says` is what an expert would say."""

    name: str
    says: str
    make: Callable[[int], Device]
    accepts: Mapping[str, Sequence[Row]]
    like: tuple[str, tuple[str, ...]] | None = None
    border_in_middle: bool = False
    """Two disks meet in the middle of the addresses, so what is said of the middle is not judged."""
    part_of_disk: bool = False
    """The first part of a disk: of places, what is said of its start is judged, and of the arm a step to the
    next track."""
    used_bytes: int | None = None
    """The device ends so far into its disk; what is said of the last addresses is judged there."""

    def right_answers(self) -> dict[str, list[Row]]:
        """All right answers by finding."""
        answers = {name: list(rows) for name, rows in self.accepts.items()}
        if self.like is not None:
            profile, names = self.like
            truth = truth_of(profile, self.used_bytes)
            for name in names:
                if name in truth:
                    row = truth[name]
                    if self.part_of_disk and isinstance(row["value"], dict):
                        row["value"] = {key: row["value"][key] for key in OF_A_START if key in row["value"]}
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
NOT_ROTATING = {"drive_type": (word("not-rotating"),)}
NO_CACHE = {"cache_medium": (word("none"),), "cache_location": (word("none"),)}
"""No persistent cache that a write could be found in."""
CACHE_SIZES = ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes")
SURFACE = ("rotation_ns", "track_bytes", "seek_ns", "plateaus")
"""What reads show of a disk that lies beneath address by address."""
ALL_OF_SMR = (
    "drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping", *SURFACE,
    "journal_quantum_bytes", "journal_entry_max_bytes", "out_of_band_ns", "map_merge_every", "map_merge_ns",
    "cleaning_start_ns",
)  # fmt: skip
"""What remains of a shingled disk in an array of such disks, where numbers of one disk show."""
