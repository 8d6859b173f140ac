"""What the burn-in takes from Debian's packages: a kernel to boot, its source, a static busybox.

They are downloaded and unpacked into a folder of ours; nothing of the host is changed, its /boot least.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from burn_in.guest import PC, Kernel, initramfs
from burn_in.processes import BurnInError, run

TRIES = 3
CLOUD_KERNEL = "linux-image-cloud-amd64"
SOURCE = "linux-source"
# What the smallest configuration lacks to boot from a virtio disk with ext4 on QEMU's smallest machine, which
# has neither PCI nor ACPI, and to run a shell script that says so on its serial line.
ENABLED = (
    "64BIT",
    "BLOCK",
    "BLK_DEV",
    "VIRTIO_MENU",
    "VIRTIO_MMIO",
    "VIRTIO_MMIO_CMDLINE_DEVICES",
    "VIRTIO_BLK",
    "EXT4_FS",
    "TTY",
    "SERIAL_8250",
    "SERIAL_8250_CONSOLE",
    "PRINTK",
    "BINFMT_ELF",
    "BINFMT_SCRIPT",
    "PROC_FS",
    "DEVTMPFS",
    "DEVTMPFS_MOUNT",
    "MULTIUSER",
    "FUTEX",
    "FILE_LOCKING",
    "POSIX_TIMERS",
    "PROCESSOR_SELECT",
    "KERNEL_GZIP",
)
# What those bring with them, or what is there unless it is said otherwise, and such a guest has no use for:
# half of all that would be compiled.
DISABLED = (
    "CPU_MITIGATIONS",
    "CPU_SUP_INTEL",
    "CPU_SUP_HYGON",
    "CPU_SUP_CENTAUR",
    "CPU_SUP_ZHAOXIN",
    "CRYPTO_HW",
    "DEVPORT",
    "HID",
    "INPUT",
    "KERNEL_XZ",
    "LEGACY_PTYS",
    "MQ_IOSCHED_DEADLINE",
    "MQ_IOSCHED_KYBER",
    "PM",
    "PROC_PAGE_MONITOR",
    "SERIO",
    "SUSPEND",
    "SWAP",
    "SYSTEM_TRUSTED_KEYRING",
    "THERMAL",
    "UNIX98_PTYS",
    "VT",
    "WERROR",
    "X86_5LEVEL",
    "X86_VSYSCALL_EMULATION",
)
# Of Debian 12's 6.1 with these options; only for saying how far it is.
OBJECTS_ABOUT = 680
OBJECT = re.compile(r"\s+(CC|AS|HOSTCC)\s")


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
    image = next((tree / "boot").glob("vmlinuz-*"))
    return Kernel(
        image, image.name.removeprefix("vmlinuz-"), PC, initramfs(busybox(folder), tree / "lib", folder)
    )


def source_archive(folder: Path) -> Path:
    """The archive of Debian's kernel source."""
    return next((unpacked(needed_by(SOURCE, r"linux-source-\S+"), folder) / "usr/src").glob("*.tar.xz"))


def configure_kernel(tree: Path) -> None:
    """The smallest configuration that boots from the served drive, in the source tree at `tree`."""
    run("make", "-s", "tinyconfig", cwd=tree)
    changes = [word for name in ENABLED for word in ("--enable", name)]
    changes += [word for name in DISABLED for word in ("--disable", name)]
    run(tree / "scripts/config", *changes, cwd=tree)
    run("make", "-s", "olddefconfig", cwd=tree)
    options = (tree / ".config").read_text().splitlines()
    missing = [name for name in ENABLED if f"CONFIG_{name}=y" not in options]
    if missing:
        raise BurnInError(f"this kernel's source has no option {', '.join(missing)}")


def compile_kernel(tree: Path, part: Callable[[int, int], None]) -> tuple[Path, str]:
    """Compiles a kernel in the source tree at `tree`; its image and its release.

    `part` is told how many objects there are, of about how many.
    """
    configure_kernel(tree)
    objects = 0

    def count(line: str) -> None:
        nonlocal objects
        objects += OBJECT.match(line) is not None
        part(objects, OBJECTS_ABOUT)

    run("make", f"-j{len(os.sched_getaffinity(0))}", "bzImage", cwd=tree, each_line=count)
    return tree / "arch/x86/boot/bzImage", run("make", "-s", "kernelrelease", cwd=tree).strip()
