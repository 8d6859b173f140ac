"""Identity and settings of SATA and SCSI disks in a guest: changed, read back, restored, also after a kill.

QEMU emulates a SATA disk behind AHCI, which has a write cache and no look-ahead that it declares, and a
SCSI disk, whose caching page cannot be changed but for the write cache; the kernel's scsi_debug has both.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from device_guest import BAD_BYTES, FEW, TIMEOUT_S
from zoned_guest.boot import Said, Step
from zoned_guest.shared import Guest

DISK_BYTES = 128 << 20
NAMES = ("ata", "qemu", "debug")


@contextmanager
def disks(folder: Path, is_long: bool) -> Iterator[Sequence[str]]:
    """QEMU's words for a SATA and a SCSI disk."""
    del is_long
    words = ["-device", "virtio-scsi-pci,id=scsi"]
    for name, device in (
        ("ata", "ide-hd,bus=ide.0,model=SKYLIGHT SATA,ver=7,serial=SKY-1,rotation_rate=5900"),
        ("scsi", "scsi-hd,bus=scsi.0,vendor=SKYLIGHT,product=SCSI DISK,serial=SKY-2,rotation_rate=7200"),
    ):
        path = folder / f"{name}.img"
        with path.open("wb") as file:
            file.truncate(DISK_BYTES)
        words += ["-drive", f"file={path},format=raw,if=none,id={name}", "-device", f"{device},drive={name}"]
    yield words


def steps(is_long: bool) -> list[Step]:
    del is_long
    modules = ("ahci", "sd_mod", "virtio_scsi")
    return [
        {"name": "modules", "tool": ["modprobe", "--all", *modules]},
        {"name": "scsi_debug", "tool": ["modprobe", "scsi_debug", f"dev_size_mb={DISK_BYTES >> 20}"]},
        {"name": "disks", "tool": [sys.executable, "-m", "device_guest", str(len(NAMES))]},
        {"name": "devices", "skylight": ["devices"]},
    ]


GUEST = Guest("devices", steps, tools=("fio",), hardware=disks)


@pytest.fixture(scope="module")
def said(need_tool: Callable[[str], str], guests: dict[str, dict[str, Said]]) -> dict[str, Said]:
    for name in GUEST.tools:
        need_tool(name)
    return guests[GUEST.name]


@pytest.fixture(scope="module")
def told(said: dict[str, Said]) -> dict[str, dict[str, Any]]:
    """What was seen of each disk, by its name in `NAMES`."""
    for name in ("modules", "scsi_debug", "disks"):
        assert said[name].code == 0, said[name]
    found = {}
    for one in json.loads(said["disks"].out):
        serial = one["disk"]["serial"]
        found[{"SKY-1": "ata", "SKY-2": "qemu"}.get(serial, "debug")] = one
    assert sorted(found) == sorted(NAMES)
    return found


def test_the_disks_are_identified(told: dict[str, dict[str, Any]], said: dict[str, Said]) -> None:
    ata, scsi, debug = (told[name]["disk"] for name in NAMES)
    keys = ("model", "serial", "bus", "rotation_rpm", "size_bytes", "probe")
    assert [ata[key] for key in keys] == ["SKYLIGHT SATA", "SKY-1", "ata", 5900, DISK_BYTES, "writes"]
    assert [scsi[key] for key in keys] == ["SCSI DISK", "SKY-2", "virtio", 7200, DISK_BYTES, "writes"]
    assert (debug["model"], debug["bus"], debug["probe"]) == ("scsi_debug", "scsi", "writes")
    out = " ".join(said["devices"].out.split())
    assert "declares 5,900 rpm" in out and "declares 7,200 rpm" in out


@pytest.mark.parametrize("end", ["ended", "killed"])
@pytest.mark.parametrize("name", NAMES)
def test_settings_are_changed_and_restored(told: dict[str, dict[str, Any]], name: str, end: str) -> None:
    seen = told[name][end]
    before, during, after = (seen[moment] for moment in ("before", "while", "after"))
    assert before["kernel"] == "write back" and before["drive"]["write_cache"] is True
    assert during["kernel"] == "write through" and during["drive"]["write_cache"] is False
    assert seen["report"]["write_cache"] is False
    assert before["order"] != "none" and during["order"] == "none"
    assert seen["report"]["scheduler"] is False
    assert before["depth"] == 1 and during["depth"] == seen["report"]["queue_depth"] == 31
    assert before["notes"] == [] and len(during["notes"]) == (1 if end == "ended" else len(NAMES))
    assert after == before, "everything is as it was, and no note is left"


@pytest.mark.parametrize("name", NAMES)
def test_fio_does_the_i_o(told: dict[str, dict[str, Any]], name: str) -> None:
    fio = told[name]["fio"]
    assert fio == {"writes": [1, 2, 1, 2, 1, 2], "reads": [0, 8 << 20, 4096], "timed": True}


@pytest.mark.parametrize("engine", ["own", "fio"])
def test_the_first_medium_error_ends_a_run_with_its_place(
    told: dict[str, dict[str, Any]], engine: str
) -> None:
    ended = told["debug"]["medium error"][engine]
    place = f"{BAD_BYTES:,}" if engine == "fio" else str(BAD_BYTES)
    assert place in ended["line"] and f"(LBA {BAD_BYTES // 512})" in ended["line"]
    assert "\n" not in ended["line"]
    assert ended["read"] == [0], "what was read before it is evidence"


def test_temperature_and_error_counters_are_read(told: dict[str, dict[str, Any]]) -> None:
    """QEMU's hw/ide/core.c has its disk at 31 °C, Linux's scsi_debug itself at 38 °C of at most 65."""
    ata, qemu, debug = (told[name]["health"] for name in NAMES)
    assert (ata["temperature_c"], ata["limit_c"]) == (31.0, None)
    assert ata["counters"]["reallocated_sectors"] == 0
    assert (debug["temperature_c"], debug["limit_c"]) == (38.0, 65.0)
    assert qemu == {"temperature_c": None, "limit_c": None, "counters": {}}, "it has no log pages"


def test_what_a_disk_cannot_erase_is_refused(told: dict[str, dict[str, Any]]) -> None:
    """QEMU's SATA disk has neither feature set; scsi_debug declares none of the commands."""
    for name in ("ata", "debug"):
        for erase in ("sanitize", "secure-erase", "format"):
            said = told[name]["erases"][erase]
            assert "offer" not in said and "cannot be erased: " in said["line"], (name, said)
    assert "SCSI disks" in told["ata"]["erases"]["format"]["line"]
    assert "ATA disks" in told["qemu"]["erases"]["secure-erase"]["line"]


def test_trim_is_done_where_a_disk_has_it(told: dict[str, dict[str, Any]]) -> None:
    """scsi_debug has none unless it is asked for, and a reset then goes on to the next means."""
    assert {name: told[name]["erases"]["trim"] for name in NAMES} == {
        "ata": True,
        "qemu": True,
        "debug": False,
    }


def test_a_format_that_leaves_the_data_is_noticed(told: dict[str, dict[str, Any]]) -> None:
    """QEMU's SCSI disk completes FORMAT UNIT and does nothing."""
    assert told["qemu"]["erases"]["format"] == {"offer": "FORMAT UNIT", "gone": False}


def test_a_command_that_is_not_answered_once_is_a_slow_one(told: dict[str, dict[str, Any]]) -> None:
    one = told["debug"]["ignored"]["one"]
    slow = [seconds for seconds in one["latency_s"] if seconds >= TIMEOUT_S]
    assert one["read"] == FEW and 1 <= len(slow) <= 2, one


@pytest.mark.parametrize("engine", ["own", "fio"])
def test_a_disk_that_answers_no_more_ends_a_probe(told: dict[str, dict[str, Any]], engine: str) -> None:
    """The kernel waits, aborts and tries again before a command fails, and uses a disk no more that cannot be
    recovered; once it does again, the guard puts the settings back."""
    ended = told["debug"]["ignored"][engine]
    line = ended["words"].strip().splitlines()[-1]
    found = re.search(r"failed( after (\S+) s)?: .*; it was in (\S+) of drive_type;", line)
    assert ended["code"] == 3 and line.startswith("skylight: /dev/sd") and found is not None, ended["words"]
    assert found[3] == ended["last step"], line
    if engine == "own":
        assert float(found[2]) >= TIMEOUT_S, line
    assert "; also: " in line and ended["state"] == "offline", "the settings cannot be put back yet"
    assert ended["rows"] > 0 and not ended["complete"], "what was done before is evidence"
    assert ended["after"] == ended["before"], "everything is as it was, and no note is left"


def test_a_disk_that_is_unplugged_ends_a_run_in_one_line(told: dict[str, dict[str, Any]]) -> None:
    ended = told["debug"]["unplugged"]
    assert ended["read"] > 0 and "failed: " in ended["line"] and "\n" not in ended["line"], ended


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_look_ahead_is_switched_where_the_drive_can(told: dict[str, dict[str, Any]], end: str) -> None:
    seen = told["debug"][end]
    assert [seen[moment]["drive"]["look_ahead"] for moment in ("before", "while", "after")] == [
        True, False, True,
    ]  # fmt: skip
    assert (seen["report"]["look_ahead"], seen["report"]["note"]) == (False, "")


def test_look_ahead_that_cannot_be_switched_is_said(told: dict[str, dict[str, Any]]) -> None:
    ata, scsi = told["ata"]["ended"], told["qemu"]["ended"]
    assert ata["before"]["drive"]["look_ahead"] is None
    assert ata["report"]["look_ahead"] is None
    assert ata["report"]["note"] == (
        "read look-ahead: the drive cannot be asked for it: it does not declare one"
    )
    assert scsi["report"]["look_ahead"] is True
    assert scsi["report"]["note"].startswith("read look-ahead: the drive refused to switch it: ")
