"""Zones of real kernels: null_blk and scsi_debug in a guest, looked at by us and by util-linux's blkzone.

The guest has a host-managed null_blk with zones of less capacity than size, a host-managed scsi_debug, and a
host-aware one, which we reach by SCSI commands, and blkzone by the ioctls that the guest's kernel still has:
two ways to one truth.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from skylight.evidence import FAILURES, Op
from skylight.probe.non_sequential import NonSequential
from skylight.probe.zone_cleaning import ZoneCleaning
from zoned_guest.boot import Said, Step
from zoned_guest.shared import Guest

MIB = 1 << 20
SECTOR = 512
NULL, SCSI = "/dev/nullb0", "/dev/sda"
MAX_OPEN = 4
CONVENTIONAL = {NULL: 4, SCSI: 2}
ZONE_BYTES = 4 * MIB
CAPACITY_BYTES = {NULL: 3 * MIB, SCSI: ZONE_BYTES}
FIRST = 8
"""A sequential zone, and the first of those that each device's steps work on."""


def skylight(name: str, *words: str) -> Step:
    return {"name": name, "skylight": ["zones", *words]}


def probe(name: str, device: str, only: str) -> Step:
    return {"name": name, "probe": [device, "--only", only]}


def tool(name: str, *words: str) -> Step:
    return {"name": name, "tool": list(words)}


def batch(name: str, device: str, *rows: tuple[Op, int, int]) -> Step:
    return {"name": name, "batch": {"device": device, "rows": rows}}


def looked_at(name: str, device: str) -> list[Step]:
    """A report of ours and one of blkzone's."""
    return [
        skylight(f"{name} ours", device, "report", "--json"),
        tool(f"{name} theirs", "blkzone", "report", device),
    ]


def life_of_zones(kind: str, device: str) -> list[Step]:
    """All that can be done to zones, and how they are found after each of it."""
    at = [(FIRST + zone) * ZONE_BYTES for zone in range(6)]
    written = (at[0], at[0] + 65_536, at[1], at[2])
    leave = "--destroy-data"
    return [
        *looked_at(f"{kind} new", device),
        skylight(f"{kind} open", device, "open", "--zone", str(FIRST)),
        batch(f"{kind} write", device, *((Op.WRITE, offset, 65_536) for offset in written)),
        *looked_at(f"{kind} written", device),
        skylight(f"{kind} close", device, "close", "--from", str(FIRST), "--to", str(FIRST + 1)),
        skylight(f"{kind} refused finish", device, "finish", "--zone", str(FIRST)),
        skylight(f"{kind} finish", device, "finish", "--zone", str(FIRST), leave),
        *looked_at(f"{kind} finished", device),
        skylight(f"{kind} reset", device, "reset", "--zone", str(FIRST), leave),
        *looked_at(f"{kind} reset one", device),
        batch(
            f"{kind} append", device, (Op.APPEND, at[4], 16_384), (Op.APPEND, at[4], 16_384),
            (Op.APPEND, 0, 4096), (Op.OPEN_ZONE, at[5], ZONE_BYTES), (Op.APPEND, at[4], 4096),
            (Op.CLOSE_ZONE, at[5], ZONE_BYTES),
        ),
        *looked_at(f"{kind} appended", device),
        batch(f"{kind} misplaced", device, (Op.WRITE, at[0] + 8192, 4096)),
        *looked_at(f"{kind} misplaced", device),
        skylight(f"{kind} too many", device, "open", "--from", "20", "--to", "29"),
        *looked_at(f"{kind} as many as fit", device),
        skylight(f"{kind} close all", device, "close", "--all"),
        skylight(f"{kind} reset all", device, "reset", "--all", leave),
        *looked_at(f"{kind} all reset", device),
    ]  # fmt: skip


def probed(kind: str) -> list[Step]:
    """All tests of zones on a SCSI disk, and how they leave it."""
    return [
        probe(f"{kind} probed", SCSI, "open_zones,non_sequential,zone_cleaning"),
        *looked_at(f"{kind} after the probe", SCSI),
    ]


def steps(is_long: bool) -> list[Step]:
    null_blk = (
        "modprobe", "null_blk", "nr_devices=1", "gb=1", "zoned=1", "zone_size=4", "zone_capacity=3",
        "zone_nr_conv=4", f"zone_max_open={MAX_OPEN}", "zone_max_active=8", "memory_backed=1",
    )  # fmt: skip
    scsi_debug = (
        "modprobe", "scsi_debug", "dev_size_mb=256", "zone_size_mb=4", "zone_nr_conv=2",
        f"zone_max_open={MAX_OPEN}",
    )  # fmt: skip
    # The kernel looks for disks on its own time.
    settled = ("sh", "-c", f"timeout 60 sh -c 'until blkzone report -c 1 {SCSI}; do sleep 0.1; done'")
    return [
        tool("null_blk", *null_blk),
        *life_of_zones("null", NULL),
        probe("null probed", NULL, "open_zones"),
        {"name": "zonefs", "zonefs": NULL},
        tool("mount", "mount", "-t", "zonefs", NULL, "/mnt"),
        skylight("mounted report", NULL, "report", "--json"),
        skylight("mounted reset", NULL, "reset", "--zone", str(FIRST), "--destroy-data"),
        skylight("mounted open", NULL, "open", "--zone", str(FIRST)),
        tool("mounted theirs", "blkzone", "report", NULL),
        tool("umount", "umount", "/mnt"),
        skylight("signed reset", NULL, "reset", "--all", "--destroy-data"),
        tool("scsi_debug", *scsi_debug, "zbc=managed"),
        tool("sd_mod", "modprobe", "sd_mod"),
        tool("settled", *settled),
        *life_of_zones("managed", SCSI),
        *(probed("managed") if is_long else []),
        tool("rmmod", "rmmod", "scsi_debug"),
        tool("scsi_debug aware", *scsi_debug, "zbc=aware"),
        tool("settled aware", *settled),
        *life_of_zones("aware", SCSI),
        batch("aware refused row", SCSI, (Op.RESET_ZONE, 0, ZONE_BYTES), (Op.READ, 0, 4096)),
        *(probed("aware") if is_long else []),
        tool("rmmod aware", "rmmod", "scsi_debug"),
    ]


GUEST = Guest("zones", steps, tools=("blkzone",))


@pytest.fixture(scope="module")
def said(
    need_root: None, need_tool: Callable[[str], str], guests: dict[str, dict[str, Said]]
) -> dict[str, Said]:
    """What each step in the guest said."""
    for name in GUEST.tools:
        need_tool(name)
    return guests[GUEST.name]


ZONE = re.compile(
    r"start: 0x(?P<start>\w+), len 0x(?P<len>\w+), cap 0x(?P<cap>\w+), wptr 0x(?P<wptr>\w+)"
    r" reset:(?P<reset>\d) non-seq:(?P<non_seq>\d), zcond: *(?P<cond>\d+)\(.*?\) \[type: (?P<type>\d)\("
)
HAS_POINTER = (1, 2, 3, 4)


def theirs(text: str) -> list[tuple[int, ...]]:
    """Zones of a report of blkzone, in bytes; the write pointer only where it means something."""
    zones: list[tuple[int, ...]] = []
    for line in text.splitlines():
        found = ZONE.search(line)
        assert found is not None, line
        start, size, capacity, pointer = (
            SECTOR * int(found[name], 16) for name in ("start", "len", "cap", "wptr")
        )
        condition, kind = int(found["cond"]), int(found["type"])
        below = pointer if condition in HAS_POINTER else -1
        marks = (int(found["reset"]), int(found["non_seq"]))
        zones.append((start, size, capacity, below, *marks, condition, kind))
    return zones


def ours(text: str) -> list[tuple[int, ...]]:
    """Zones of a report of ours, in the same form."""
    return [
        (
            zone["start_bytes"],
            zone["size_bytes"],
            zone["capacity_bytes"],
            zone["write_pointer_bytes"] - zone["start_bytes"]
            if zone["condition_code"] in HAS_POINTER
            else -1,
            int(zone["reset_recommended"]),
            int(zone["non_sequential"]),
            zone["condition_code"],
            zone["type_code"],
        )
        for zone in json.loads(text)["zones"]
    ]


def zones_of(said: dict[str, Said], name: str) -> dict[int, dict[str, Any]]:
    """Zones of our report of that name, by number."""
    return {zone["zone"]: zone for zone in json.loads(said[f"{name} ours"].out)["zones"]}


def test_the_devices_are_there(said: dict[str, Said]) -> None:
    for name in ("null_blk", "scsi_debug", "scsi_debug aware", "mount"):
        assert said[name].code == 0, said[name]


MOMENTS = [
    f"{kind} {moment}"
    for kind in ("null", "managed", "aware")
    for moment in (
        "new",
        "written",
        "finished",
        "reset one",
        "appended",
        "misplaced",
        "as many as fit",
        "all reset",
    )
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_our_report_is_blkzone_s(said: dict[str, Said], moment: str) -> None:
    assert said[f"{moment} ours"].code == 0, said[f"{moment} ours"]
    found = ours(said[f"{moment} ours"].out)
    assert found and found == theirs(said[f"{moment} theirs"].out)


@pytest.mark.parametrize(("kind", "device"), [("null", NULL), ("managed", SCSI)])
def test_the_layout_is_what_the_device_was_made_with(said: dict[str, Said], kind: str, device: str) -> None:
    report = json.loads(said[f"{kind} new ours"].out)
    assert report["layout"]["model"] == "host-managed"
    assert report["layout"]["zone_bytes"] == ZONE_BYTES
    assert report["layout"]["zones"] == len(report["zones"])
    assert report["layout"]["conventional_zones"] == CONVENTIONAL[device]
    assert report["layout"]["max_open"] == MAX_OPEN
    assert report["zones"][FIRST]["capacity_bytes"] == CAPACITY_BYTES[device]


@pytest.mark.parametrize("kind", ["null", "managed", "aware"])
def test_actions_change_what_is_reported(said: dict[str, Said], kind: str) -> None:
    for action in ("open", "write", "close", "finish", "reset", "close all", "reset all"):
        assert said[f"{kind} {action}"].code == 0, (action, said[f"{kind} {action}"])
    written = zones_of(said, f"{kind} written")
    assert [written[FIRST + n]["condition"] for n in range(4)] == [
        "explicitly open", "implicitly open", "implicitly open", "empty",
    ]  # fmt: skip
    below = [written[FIRST + n]["write_pointer_bytes"] - (FIRST + n) * ZONE_BYTES for n in range(4)]
    assert below == [131_072, 65_536, 65_536, 0]
    finished = zones_of(said, f"{kind} finished")
    assert [finished[FIRST + n]["condition"] for n in range(3)] == ["full", "closed", "implicitly open"]
    assert zones_of(said, f"{kind} reset one")[FIRST]["condition"] == "empty"
    assert {zone["condition"] for zone in zones_of(said, f"{kind} all reset").values()} == {
        "no write pointer", "empty",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "device"), [("null", NULL), ("managed", SCSI)])
def test_more_open_zones_than_there_can_be(said: dict[str, Said], kind: str, device: str) -> None:
    refused = said[f"{kind} too many"]
    assert refused.code == 3
    assert refused.err == (
        f"skylight: {device}: open of zone 24 failed: insufficient zone resources; close, finish or reset"
        " another zone first; 4 zones before it are done\n"
    )
    opened = [
        zone for zone in zones_of(said, f"{kind} as many as fit").values() if zone["condition_code"] == 3
    ]
    assert len(opened) == MAX_OPEN


@pytest.mark.parametrize("kind", ["null", "managed", "aware"])
def test_an_append_is_a_write_at_the_write_pointer(said: dict[str, Said], kind: str) -> None:
    assert said[f"{kind} append"].code == 0, said[f"{kind} append"]
    zone = (FIRST + 4) * ZONE_BYTES
    refused = 14
    assert json.loads(said[f"{kind} append"].out) == [zone, zone + 16_384, refused, 0, zone + 32_768, 0]
    assert FAILURES[refused] == "invalid field in CDB", "a conventional zone has no write pointer"
    assert zones_of(said, f"{kind} appended")[FIRST + 4]["write_pointer_bytes"] == zone + 36_864


@pytest.mark.parametrize(
    ("kind", "device", "why"),
    [
        ("null", NULL, "Input/output error"),
        ("managed", SCSI, "Remote I/O error"),
    ],
)
def test_a_write_beside_the_write_pointer_fails_in_one_line(
    said: dict[str, Said], kind: str, device: str, why: str
) -> None:
    failed = said[f"{kind} misplaced"]
    at = FIRST * ZONE_BYTES + 8192
    assert failed.code == 3
    assert failed.err == (
        f"{device}: write of 4096 bytes at offset {at} (LBA {at // 512}) failed: {why}; check that it began"
        " at the write pointer of its zone (skylight zones), or its health (smartctl -a), then resume\n"
    )


@pytest.mark.parametrize(("kind", "device"), [("null", NULL), ("managed", SCSI)])
def test_nothing_is_finished_without_leave(said: dict[str, Said], kind: str, device: str) -> None:
    refused = said[f"{kind} refused finish"]
    assert refused.code == 2
    assert refused.err.startswith(f"skylight: {device}: to finish zones of a device, give --destroy-data")


def test_a_device_in_use_by_a_file_system_is_left_alone(said: dict[str, Said]) -> None:
    for name in ("mounted reset", "mounted open"):
        assert said[name].code == 2
        assert said[name].err.startswith(f"skylight: {NULL}: nullb0 is mounted at /mnt; run umount /mnt"), (
            name
        )
    assert ours(said["mounted report"].out) == theirs(said["mounted theirs"].out), "a report is no use"
    assert said["umount"].code == 0, said["umount"]
    assert said["signed reset"].code == 2
    assert "holds a file system (zonefs)" in said["signed reset"].err


def test_a_host_aware_disk_is_reached_by_scsi_commands(said: dict[str, Said]) -> None:
    layout = json.loads(said["aware new ours"].out)["layout"]
    assert (layout["model"], layout["zone_bytes"], layout["zones"]) == ("host-aware", ZONE_BYTES, 64)
    assert json.loads(said["aware refused row"].out) == [14, 0], "of a conventional zone: the drive says why"
    assert said["aware misplaced"].code == 0, "written anywhere, at a price"
    assert zones_of(said, "aware misplaced")[FIRST]["non_sequential"]
    assert not zones_of(said, "aware reset one")[FIRST]["non_sequential"]


def found(said: dict[str, Said], name: str) -> dict[str, Any]:
    """The findings of a probe."""
    assert said[name].code == 0, said[name]
    return dict(json.loads(said[name].out)["findings"])


def test_a_probe_finds_the_limit_of_a_host_managed_device(said: dict[str, Said]) -> None:
    findings = found(said, "null probed")
    assert findings["zone_model"]["value"] == "host-managed"
    assert findings["zone_bytes"]["value"] == ZONE_BYTES
    assert findings["zone_capacity_bytes"]["value"] == CAPACITY_BYTES[NULL]
    assert findings["open_zones_edge"]["value"] == MAX_OPEN
    assert "refused the next" in findings["open_zones_edge"]["why"]


@pytest.mark.long
def test_a_probe_of_a_host_managed_disk_writes_in_order_and_leaves_no_zone_open(
    said: dict[str, Said],
) -> None:
    findings = found(said, "managed probed")
    assert findings["zone_model"]["value"] == "host-managed"
    assert findings["zone_bytes"]["value"] == ZONE_BYTES
    assert findings["zone_capacity_bytes"]["value"] == CAPACITY_BYTES[SCSI]
    assert findings["open_zones_edge"]["value"] == MAX_OPEN
    assert "refused the next" in findings["open_zones_edge"]["why"]
    only_host_aware = {each.name for test in (NonSequential(), ZoneCleaning()) for each in test.findings}
    assert not only_host_aware & findings.keys(), "writes out of order, which the disk refuses"
    name = "managed after the probe"
    assert ours(said[f"{name} ours"].out) == theirs(said[f"{name} theirs"].out)
    assert {zone["condition"] for zone in zones_of(said, name).values()} == {"no write pointer", "empty"}


@pytest.mark.long
def test_a_probe_of_a_host_aware_disk_reports_resets_and_writes_by_scsi_commands(
    said: dict[str, Said],
) -> None:
    findings = found(said, "aware probed")
    assert findings["zone_model"]["value"] == "host-aware"
    assert findings["zone_bytes"]["value"] == findings["zone_capacity_bytes"]["value"] == ZONE_BYTES
    # A disk in memory writes out of order as fast as in order.
    for name in ("open_zones_edge", "non_sequential_cache_bytes"):
        assert findings[name]["value"] == "unknown", findings[name]
    name = "aware after the probe"
    assert ours(said[f"{name} ours"].out) == theirs(said[f"{name} theirs"].out)
    assert {zone["condition"] for zone in zones_of(said, name).values()} == {"no write pointer", "empty"}
    assert not any(zone["non_sequential"] for zone in zones_of(said, name).values())
