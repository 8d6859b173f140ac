"""What the burn-in takes from Debian's packages: a kernel to boot, its source, a static busybox.

They are downloaded and unpacked into a folder of ours; nothing of the host is changed, its /boot least.
"""

import re
import time
from pathlib import Path

from burn_in.disk import BurnInError, run
from burn_in.guest import Kernel, initramfs

TRIES = 3
CLOUD_KERNEL = "linux-image-cloud-amd64"
SOURCE = "linux-source"
# What the smallest configuration lacks to boot from a virtio disk with ext4, and to say so.
OPTIONS = (
    "64BIT",
    "PCI",
    "BLOCK",
    "BLK_DEV",
    "VIRTIO_MENU",
    "VIRTIO_PCI",
    "VIRTIO_BLK",
    "EXT4_FS",
    "TTY",
    "SERIAL_8250",
    "SERIAL_8250_CONSOLE",
    "PRINTK",
    "BINFMT_ELF",
    "BINFMT_SCRIPT",
    "PROC_FS",
    "SYSFS",
    "DEVTMPFS",
    "DEVTMPFS_MOUNT",
    "ACPI",
    "MULTIUSER",
    "FUTEX",
    "EPOLL",
    "FILE_LOCKING",
    "SHMEM",
    "HIGH_RES_TIMERS",
    "POSIX_TIMERS",
)


def unpacked(package: str, folder: Path) -> Path:
    """A package's files, below `folder`."""
    tree = folder / package
    if (tree / ".whole").exists():
        return tree
    debs = folder / f"{package}.debs"
    debs.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            run("apt-get", "download", package, cwd=debs)
            break
        except BurnInError:
            if attempt == TRIES - 1:
                raise
            time.sleep(5)
            run("apt-get", "update", accept=range(256))
    tree.mkdir(exist_ok=True)
    for deb in debs.glob("*.deb"):
        run("dpkg-deb", "--extract", deb, tree)
    (tree / ".whole").touch()
    return tree


def needed_by(package: str, pattern: str) -> str:
    """The package that a package of packages stands for."""
    found = re.search(rf"Depends: ({pattern})", run("apt-cache", "depends", package))
    if found is None:
        raise BurnInError(f"{package} names no package like {pattern}: run apt-get update, then try again")
    return found[1]


def busybox(folder: Path) -> Path:
    """A busybox that needs no library."""
    return unpacked("busybox-static", folder) / "bin/busybox"


def debian_kernel(folder: Path) -> Kernel:
    """Debian's kernel for virtual machines, with the modules of its disk in memory."""
    tree = unpacked(needed_by(CLOUD_KERNEL, r"linux-image-\S+"), folder)
    return Kernel(next((tree / "boot").glob("vmlinuz-*")), initramfs(busybox(folder), tree / "lib", folder))


def source_archive(folder: Path) -> Path:
    """The archive of Debian's kernel source."""
    return next((unpacked(needed_by(SOURCE, r"linux-source-\S+"), folder) / "usr/src").glob("*.tar.xz"))


def compile_kernel(tree: Path) -> Kernel:
    """Compiles the smallest kernel that boots from a virtio disk, in the source tree at `tree`."""
    run("make", "-s", "tinyconfig", cwd=tree)
    run(
        tree / "scripts/config",
        *(word for option in OPTIONS for word in ("--enable", option)),
        "--disable", "WERROR", "--disable", "SYSTEM_TRUSTED_KEYRING",
        cwd=tree,
    )  # fmt: skip
    run("make", "-s", "olddefconfig", cwd=tree)
    run("make", "-s", "-j2", "bzImage", cwd=tree)
    return Kernel(tree / "arch/x86/boot/bzImage")
