"""What several kinds of devices are described with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from devices.base import MIB, Disk
from devices.expert import ONE_BY_ONE, Row, near
from skylight import _native


def disks_of(*profiles: str) -> Callable[[int], list[Disk]]:
    """Makes disks of these profiles, each with a seed of its own."""
    return lambda seed: [Disk(profile, seed + number) for number, profile in enumerate(profiles)]


def times(factor: float, profile: str, names: Sequence[str]) -> dict[str, Sequence[Row]]:
    """What an array holds of what one disk of a profile holds."""
    truth = json.loads(_native.profile_truth(Disk(profile, 1).toml, profile, ONE_BY_ONE))["findings"]
    return {name: (near(round(factor * truth[name]["value"]), 0.02),) for name in names if name in truth}


def everywhere(size: int) -> Row:
    """That size at the first, middle and last address, within a MiB."""
    part = dict.fromkeys(("od", "md", "id"), size)
    interval = {place: [size - MIB, size + MIB] for place in part}
    return {"value": part, "interval": interval, "measurable": True}
