"""What a drive declares that hints at shingling, read from the kernel: nothing is sent to the drive.

`trim`: it takes TRIM (or UNMAP), which a rotating disk has a use for only if it maps its blocks.
`max_request_bytes`: the longest request that the kernel sends in one piece; longer ones it splits. Absent
where a device stands on others, which may split further.
`zoned_drive`: what it declares of zones itself (`host-aware`, `drive-managed`); the kernel's own `zoned`
leaves out disks that manage them.

Invariant: a property that the kernel does not show is absent, never false.

Source: Linux, Documentation/ABI/stable/sysfs-block (`discard_max_bytes`, `max_sectors_kb`, `max_segments`);
SBC-4, 6.6.2, Block Device Characteristics VPD page (B1h), field ZONED: byte 8, bits 5 and 4.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from skylight.evidence import JsonScalar

SYSFS = Path("/sys")
ZONED_BYTE, ZONED_SHIFT, ZONED_MASK = 8, 4, 0b11
ZONED = {1: "host-aware", 2: "drive-managed"}
# Pages of a buffer need not be neighbours in memory, so each may take a segment of its own.
SEGMENT_BYTES = 4096


def zones_of(declared: Mapping[str, Any]) -> str | None:
    """What is declared of zones: by the drive where it says so, else by the kernel, who also says `none`."""
    zoned = declared.get("zoned_drive") or declared.get("zoned")
    return zoned if isinstance(zoned, str) else None


def hints_of(path: str, sysfs: Path = SYSFS) -> dict[str, JsonScalar]:
    """The properties of the disk at that path: a block device, or the device below a file."""
    try:
        status = os.stat(path)
    except OSError:
        return {}
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    link = sysfs / f"dev/block/{os.major(number)}:{os.minor(number)}"
    try:
        device = link.resolve(strict=True)
    except OSError:
        return {}
    disk = device.parent if (device / "partition").exists() else device
    found: dict[str, JsonScalar] = {}
    with suppress(OSError, ValueError):
        found["trim"] = int((disk / "queue/discard_max_bytes").read_text()) > 0
    if not any((disk / "slaves").glob("*")) and not (disk / "loop").exists():
        with suppress(OSError, ValueError):
            most = int((disk / "queue/max_sectors_kb").read_text()) << 10
            segments = int((disk / "queue/max_segments").read_text())
            found["max_request_bytes"] = min(most, segments * SEGMENT_BYTES)
    try:
        page = (disk / "device/vpd_pgb1").read_bytes()
    except OSError:
        return found
    zoned = ZONED.get(page[ZONED_BYTE] >> ZONED_SHIFT & ZONED_MASK) if len(page) > ZONED_BYTE else None
    if zoned is not None:
        found["zoned_drive"] = zoned
    return found
