"""Temperature and error counters of a disk: what Linux shows of its sensor, SMART of an ATA disk, log pages
of a SCSI disk.

Nothing is changed on the disk. A disk that shows neither is not watched: its `Health` is empty.

Sources: Linux Documentation/hwmon/drivetemp.rst (`temp1_input`, `temp1_max`, m°C) and
Documentation/ABI/testing/sysfs-class-hwmon; ATA8-ACS, clause 7.52 (SMART READ DATA); SAT-4, ATA PASS-THROUGH
(16); SPC-4, clauses 6.6 (LOG SENSE) and 7.3 (log pages: Write and Read Error Counters, Temperature). Of the
table of attributes ATA fixes no layout: the one read is SFF-8035i's, which vendors keep, and the numbers of
the attributes are those of smartmontools' drivedb.h.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skylight import _native

_SMART_BYTES = 512
_SMART_READ_DATA = bytes.fromhex("85 08 0e 00 d0 00 01 00 00 00 4f 00 c2 00 b0 00")
"""ATA PASS-THROUGH (16): PIO data-in of one block, SMART READ DATA."""
_ATTRIBUTES, _ATTRIBUTE_BYTES, _TABLE = 30, 12, 2
_LOG_BYTES = 252
_TEMPERATURE_PAGE = 0x0D
_CURRENT, _REFERENCE = 0, 1
"""Parameters of the temperature page: the temperature, and the one up to which the disk may always work."""
_ERROR_PAGES = {2: "uncorrected_write_errors", 3: "uncorrected_read_errors"}
_TOTAL_UNCORRECTED = 6
"""A parameter of the error counter pages."""
_COUNTERS = {
    5: "reallocated_sectors",
    197: "pending_sectors",
    198: "uncorrectable_sectors",
    199: "crc_errors",
}
COUNTERS = (*_COUNTERS.values(), *_ERROR_PAGES.values())
"""The counters by name."""
_LOW_16_BITS = (5,)
"""Counters of 16 bits; above them vendors keep something else (smartmontools' default for it, raw16)."""
_TEMPERATURES = (194, 190)
_POSSIBLE_C = range(1, 120)
"""What the low byte of a temperature may be, °C; else the vendor means something else by it."""
_LEAST_LIMIT_C, _MOST_LIMIT_C = 30.0, 120.0
"""What a limit may be, °C, else none is stated. Chosen: disks are warmer than the one at rest, and none is
made for the other."""


@dataclass(frozen=True, slots=True)
class Health:
    """Temperature and the drive's own limit, °C, None where it states none; error counters by name."""

    temperature_c: float | None = None
    limit_c: float | None = None
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether there is anything to watch."""
        return self.temperature_c is not None or bool(self.counters)


def _received(path: str, words: bytes, length: int) -> bytes | None:
    """What a command of a disk returns, at most so many bytes; None where it fails or nobody passes it on."""
    try:
        return _native.host_ask(path, words, length)
    except OSError:
        return None


def read_smart(path: str) -> bytes | None:
    """SMART data of an ATA disk, `_SMART_BYTES`; None where it has none or nobody passes the command on."""
    data = _received(path, _SMART_READ_DATA, _SMART_BYTES)
    return data if data is not None and len(data) == _SMART_BYTES else None


def read_log_page(path: str, page: int) -> bytes | None:
    """A log page of a SCSI disk, its cumulative values; None where it has none."""
    command = bytes([0x4D, 0, 0x40 | page, 0, 0, 0, 0, 0, _LOG_BYTES, 0])
    data = _received(path, command, _LOG_BYTES)
    return data if data is not None and len(data) >= 4 and data[0] & 0x3F == page and not data[1] else None


def log_parameters(page: bytes) -> dict[int, bytes]:
    """Values of a log page by the code of the parameter, as far as they are whole."""
    found: dict[int, bytes] = {}
    at = 4
    end = min(len(page), 4 + int.from_bytes(page[2:4], "big"))
    while at + 4 <= end and at + 4 + page[at + 3] <= end:
        found[int.from_bytes(page[at : at + 2], "big")] = page[at + 4 : at + 4 + page[at + 3]]
        at += 4 + page[at + 3]
    return found


def of_log_pages(read: Callable[[int], bytes | None]) -> Health:
    """What the log pages of a SCSI disk say, each read by its number."""
    warm = log_parameters(read(_TEMPERATURE_PAGE) or b"")
    counters: dict[str, int] = {}

    def degrees(code: int, least: float, most: float) -> float | None:
        value = float(warm[code][1]) if len(warm.get(code, b"")) > 1 else 0.0
        return value if least <= value <= most else None

    for page, name in _ERROR_PAGES.items():
        value = log_parameters(read(page) or b"").get(_TOTAL_UNCORRECTED)
        if value:
            counters[name] = int.from_bytes(value, "big")
    current = degrees(_CURRENT, _POSSIBLE_C.start, _POSSIBLE_C.stop - 1)
    return Health(current, degrees(_REFERENCE, _LEAST_LIMIT_C, _MOST_LIMIT_C), counters)


def of_smart(data: bytes) -> Health:
    """What SMART data says; nothing where its checksum is wrong, as that of a disk without SMART is."""
    if len(data) != _SMART_BYTES or sum(data) & 0xFF or not any(data):
        return Health()
    raw = {
        data[at]: int.from_bytes(data[at + 5 : at + 11], "little")
        for at in range(_TABLE, _TABLE + _ATTRIBUTES * _ATTRIBUTE_BYTES, _ATTRIBUTE_BYTES)
    }
    warm = (raw[number] & 0xFF for number in _TEMPERATURES if number in raw)
    for number in raw.keys() & _LOW_16_BITS:
        raw[number] &= 0xFFFF
    counters = {name: raw[number] for number, name in _COUNTERS.items() if number in raw}
    return Health(next((float(c) for c in warm if c in _POSSIBLE_C), None), None, counters)


def _disk(path: str, root: Path) -> Path | None:
    """The folder in sysfs of the disk that a path is, or is a partition of; None of a file."""
    try:
        number = os.stat(path).st_rdev
        node = (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return None
    return node.parent if (node / "partition").exists() else node


def _of_sensor(disk: Path) -> Health:
    """What the disk's own sensor in hwmon shows (drivetemp, nvme)."""

    def degrees(sensor: Path, name: str) -> float | None:
        with suppress(OSError, ValueError):
            return int((sensor / name).read_text(encoding="ascii")) / 1000
        return None

    for folder in ("device/hwmon", "device/device/hwmon", "device"):
        for sensor in sorted((disk / folder).glob("hwmon*")):
            found = degrees(sensor, "temp1_input")
            if found is not None:
                limits = (degrees(sensor, name) for name in ("temp1_max", "temp1_crit"))
                stated = (c for c in limits if c is not None and _LEAST_LIMIT_C <= c <= _MOST_LIMIT_C)
                return Health(found, next(stated, None))
    return Health()


def _is_ata(disk: Path) -> bool:
    """Whether the kernel's own ATA driver has the disk: others may stop working when they are asked."""
    if not any(re.fullmatch(r"ata[0-9]+", part) for part in disk.parts):
        return False  # behind a SAS or USB adapter, whose disks may say ATA too
    with suppress(OSError):
        return (disk / "device/vendor").read_text(encoding="ascii").strip() == "ATA"
    return False


def _is_scsi(disk: Path) -> bool:
    """Whether it is a SCSI disk that is no ATA disk behind an adapter, nor one behind USB."""
    if any(re.fullmatch(r"usb[0-9]+", part) for part in disk.parts):
        return False  # adapters may stop working when they are asked
    with suppress(OSError):
        is_disk = (disk / "device/type").read_text(encoding="ascii").strip() in ("0", "20")
        return is_disk and (disk / "device/vendor").read_text(encoding="ascii").strip() != "ATA"
    return False


def health_of(
    path: str,
    root: Path = Path("/"),
    smart: Callable[[str], bytes | None] = read_smart,
    log_page: Callable[[str, int], bytes | None] = read_log_page,
) -> Health:
    """Temperature and error counters of the disk at a path, or below a partition."""
    disk = _disk(path, root)
    if disk is None:
        return Health()
    sensor, own = _of_sensor(disk), Health()
    if _is_ata(disk):
        own = of_smart(smart(path) or b"")
    elif _is_scsi(disk):
        own = of_log_pages(lambda page: log_page(path, page))
    warm = own.temperature_c if sensor.temperature_c is None else sensor.temperature_c
    limit = own.limit_c if sensor.limit_c is None else sensor.limit_c
    return Health(warm, limit, own.counters)
