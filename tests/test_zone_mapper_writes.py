"""Step `writes-all-over` of drive type: a mapper of zones shows, and what else makes writes wait does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devices.accepted_findings import CMR
from devices.ailments import OneDisk
from devices.arrays import Concatenated
from devices.base import MIB, SECOND, WRITE, Device, Disk
from devices.mappers import ZoneMapper
from skylight.findings import Finding
from skylight.probe.drive_type import zone_mapper_writes
from skylight.probe.suite import SuiteOptions, run_suite


class Waiting(OneDisk):
    """A conventional disk beside a client that syncs for eight seconds."""

    first = 512 + 192 + 2 * 256 + 256 + 100
    """The write from which on others wait: some way into the step."""
    lasts_ns = 8 * SECOND
    started_ns = seen = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes wait for 1.5 s."""
        end_ns = self.disk.command(op, offset, size, at_ns)
        if op != WRITE:
            return end_ns
        self.seen += 1
        if self.seen == self.first:
            self.started_ns = at_ns
        waits = self.seen >= self.first and at_ns < self.started_ns + self.lasts_ns
        return self.late(end_ns, 1500) if waits else end_ns


class Zeroing(OneDisk):
    """A conventional disk of which chunks are zeroed when they are first written."""

    chunk = 512 * MIB
    in_use = 0.0

    def __init__(self, name: str, disk: Disk, seed: int) -> None:
        """A random share of the chunks is in use."""
        super().__init__(name, disk, seed)
        whole = disk.size // self.chunk + 1
        self.there = set(np.flatnonzero(self.rng.random(whole) < self.in_use).tolist())

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Zeroes first."""
        if op == WRITE and offset // self.chunk not in self.there:
            self.there.add(offset // self.chunk)
            at_ns = self.late(self.disk.command(op, offset, size, at_ns), 2500)
        return self.disk.command(op, offset, size, at_ns)


class HalfZeroed(Zeroing):
    """Half of its chunks were written before."""

    in_use = 0.5


class ManyZones(ZoneMapper):
    """A mapper with more zones for writes in place than 512: 3.6 % of its disk."""

    buffers = 530


def drive_type(device: Device, out: Path) -> tuple[Finding, set[str]]:
    """The finding, and the names of its steps."""
    result = run_suite(device, out / "r", SuiteOptions(only=("drive_type",)))
    names = {step.name for kept in result.evidence for step in kept.steps}
    return next(each for each in result.findings if each.name == "drive_type"), names


@pytest.mark.parametrize("make", [ZoneMapper, ManyZones])
def test_a_mapper_of_zones_is_shingled(make: type[ZoneMapper], tmp_path: Path) -> None:
    finding, _ = drive_type(make("zone-mapper", Disk(CMR, 1)), tmp_path)
    assert finding.value == "smr" and zone_mapper_writes.CONTROL in finding.rows


@pytest.mark.parametrize("make", [Waiting, Zeroing, HalfZeroed])
def test_other_waits_are_not(make: type[OneDisk], tmp_path: Path) -> None:
    finding, steps = drive_type(make("waits", Disk(CMR, 1), 1), tmp_path)
    assert zone_mapper_writes.CONTROL in steps, "the writes must wait in the step"
    assert finding.value != "smr" and zone_mapper_writes.CONTROL not in finding.rows


def test_too_few_places_say_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zone_mapper_writes, "MOST_WRITES", 512)  # fewer than the share of this disk
    finding, steps = drive_type(Concatenated("plain", [Disk(CMR, 1)]), tmp_path)
    assert (
        finding.value == "cmr"
        and zone_mapper_writes.NAME in steps
        and zone_mapper_writes.NAME not in finding.rows
    )


def test_places_grow_with_the_target_and_none_says_no_beyond_the_most() -> None:
    assert (
        zone_mapper_writes.writes_for(8_000 * 10**9) * zone_mapper_writes.ZONE_BYTES
        >= zone_mapper_writes.SHARE * 8_000 * 10**9
    )
    assert zone_mapper_writes.covers(8_000 * 10**9) and not zone_mapper_writes.covers(20_000 * 10**9)
    assert zone_mapper_writes.writes_for(20_000 * 10**9) == zone_mapper_writes.MOST_WRITES
