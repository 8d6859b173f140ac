"""The short burn-in: a file system, many small files, a guest and kills, on a served drive.

`make burn-in` is the long form, with a kernel compiled on the drive. What the guest boots comes from Debian's
packages, into build/burn-in.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from burn_in.disk import BurnInError
from burn_in.steps import Plan, burn_in

ROOT = Path(__file__).parent.parent
TOOLS = ("qemu-system-x86_64", "nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "cpio", "dpkg-deb")


@pytest.fixture
def tools(need_tool: Callable[[str], str], need_root: None) -> None:
    for name in TOOLS:
        need_tool(name)


@pytest.mark.parametrize("drive", ["emulated-smr-1"])
def test_a_drive_that_is_killed_keeps_what_was_made_durable(
    drive: str, tools: None, tmp_path: Path, seed: int
) -> None:
    skylight = str(Path(sys.executable).with_name("skylight"))
    command = [skylight, "serve", drive, "--image", "{image}", "--nbd", "unix:{socket}", "--timing", "none"]
    burn_in(Plan(command, tmp_path, ROOT / "build/burn-in", short=True, kills=2, seed=seed))


def test_a_drive_that_forgets_is_caught(tools: None, tmp_path: Path, seed: int) -> None:
    # A server whose data dies with it: after the kill nothing of the file system is left.
    command = ["nbdkit", "--foreground", "--unix", "{socket}", "memory", "8G"]
    with pytest.raises(BurnInError, match="after a clean stop"):
        burn_in(Plan(command, tmp_path, ROOT / "build/burn-in", short=True, kills=1, seed=seed))
