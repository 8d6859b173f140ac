"""Block devices that a killed server left behind, and their removal by the next one of the same image.

What for: SIGKILL gives ``skylight serve --attach`` no time to take its device down. The kernel keeps it, with
nothing behind it: a service that systemd starts again would leave one more at each restart.

Invariants:
- A note beside the image names each device for as long as it is attached; one that is in use is left alone,
  named in a warning, and stays noted.
- A device is taken down only if it is still the noted one: of this boot, with the same backing file (a name
  that is drawn) or the same process. A note that does not belong to this user is not believed.

Sources: proc_sys_kernel(5) for boot_id; the kernel's Documentation/ABI/testing/sysfs-block-loop for
``loop/backing_file``, and drivers/block/nbd.c for ``pid``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from skylight.cli.endpoint_note import beside, read_private, write_private

__all__ = ["Left", "backing_of", "noted", "take_down_left"]

_SUFFIX = ".attached.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SYSFS = Path("/sys/block")


@dataclass(frozen=True)
class Left:
    """An attached device: what the kernel says is behind it; the folder in which nbdfuse shows it, if it
    does; what the kernel assumed of its volatile cache before, for what a server declares outlives it."""

    device: str
    backing: str
    folder: str = ""
    cache: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the device still is the one that was noted."""
        return bool(self.backing) and backing_of(self.device) == self.backing

    @property
    def is_mounted(self) -> bool:
        """Whether nbdfuse's mount is still there, of a killed one too."""
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
        return bool(self.folder) and any(line.split()[1] == self.folder for line in mounts)


def backing_of(device: str) -> str:
    """What the kernel says is behind a device: of a loop device its file, of one of NBD the process that
    connected it; empty where there is nothing."""
    for name in ("loop/backing_file", "pid"):
        with suppress(OSError):
            return (_SYSFS / Path(device).name / name).read_text(encoding="utf-8").strip()
    return ""


def _boot() -> str:
    return _BOOT.read_text(encoding="ascii").strip()


def _known(image: Path) -> list[Left]:
    """The devices of the note that belong to this boot; none without a note that may be believed."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        said = read_private(beside(image, _SUFFIX), {os.geteuid()})
        if said["boot"] == _boot():
            return [Left(**each) for each in said["devices"]]
    return []


def _keep(image: Path, devices: list[Left]) -> None:
    note = beside(image, _SUFFIX)
    if devices:
        said = {"boot": _boot(), "devices": [asdict(each) for each in devices]}
        write_private(note, json.dumps(said) + "\n")
    else:
        note.unlink(missing_ok=True)


@contextmanager
def noted(image: Path, device: Left) -> Iterator[None]:
    """Notes a device until it has been taken down, which ends the block. Without a note a device that is left
    is not found; nothing else depends on it."""
    with suppress(OSError):
        _keep(image, [*_known(image), device])
    try:
        yield
    finally:
        with suppress(OSError):
            _keep(image, [each for each in _known(image) if each != device])


def take_down_left(image: Path, take_down: Callable[[Left], bool], warn: Callable[[str], None]) -> None:
    """Has all that an earlier server of an image left taken down; `take_down` returns False where a device
    is in use. Call it when the image is this server's."""
    known = _known(image)
    remaining = []
    for left in known:
        if not (left.is_there or left.is_mounted):
            continue
        if take_down(left):
            warn(f"{left.device}: an earlier server was killed and left it behind; it has been taken down")
        else:
            remaining.append(left)
            warn(
                f"{left.device}: an earlier server was killed and left it behind, and it is still in use:"
                " unmount it; the next server takes it down"
            )
    if known:
        with suppress(OSError):
            _keep(image, remaining)
