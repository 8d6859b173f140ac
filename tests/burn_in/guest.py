"""The guest: a kernel in QEMU with its root on the served drive, by QEMU's own NBD client.

QEMU runs without hardware help: slowly, but anywhere. The guest talks on its serial line; the words that
its `init` says are the result.

Invariants: a guest that says nothing, or not all of it, fails the step; QEMU has ended when a function here
returns, however it returns.
"""

import random
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burn_in.disk import Server
from burn_in.processes import LOG, BurnInError, Process, run, wait_for

SECONDS = 600.0
SUMS_GOOD = "skylight-guest: every sum is right"
DONE = "skylight-guest: done"
# With the end of its line: the last one may be half said.
DURABLE = re.compile(r"^skylight-guest: durable ([0-9a-f]{64})  (\S+)\r?\n", re.MULTILINE)
TO_WRITE = "skylight.write"
# From virtio's queues to its disk, in the order in which they need each other.
PCI_MODULES = ("virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci")
MODULES = ("virtio_ring", "virtio", *PCI_MODULES, "virtio_blk")
# Debian's kernel wants a PC; ours has neither PCI nor ACPI, and a machine without them.
PC = ("-machine", "q35", "-device", "virtio-blk-pci,drive=d")
SMALLEST = ("-machine", "microvm,acpi=off,rtc=on", "-device", "virtio-blk-device,drive=d")

INIT_OF_THE_ROOT = f"""#!/bin/sh
mount -t proc proc /proc
cd /burn-in
if grep -q {TO_WRITE} /proc/cmdline; then
    number=0
    while true; do
        name=guest-$number
        dd if=/dev/urandom of=$name bs=4096 count=$((1 + number % 40)) conv=fsync 2>/dev/null || break
        echo "skylight-guest: durable $(sha256sum $name)"
        number=$((number + 1))
    done
    reboot -f
fi
if sha256sum -s -c guest.sums; then echo "{SUMS_GOOD}"; fi
uname -r > booted
sync
mount -o remount,ro /
echo "{DONE}"
reboot -f
"""

INIT_OF_THE_MEMORY = """#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
for module in {modules}; do busybox insmod /modules/$module.ko; done
tries=0
until busybox test -b /dev/vda || busybox test $tries -gt 300; do
    busybox sleep 0.1
    tries=$((tries + 1))
done
busybox mount -t ext4 -o rw /dev/vda /root || exec busybox poweroff -f
exec busybox switch_root /root /sbin/init
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot: its file and release, the machine it needs, and what finds its disk, if it cannot."""

    image: Path
    release: str
    machine: tuple[str, ...]
    initramfs: Path | None = None


def initramfs(busybox: Path, modules: Path, folder: Path) -> Path:
    """A file system in memory that loads the modules of a virtio disk and goes on to its root."""
    tree = folder / "initramfs"
    for name in ("bin", "dev", "root", "modules"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "bin/busybox").write_bytes(busybox.read_bytes())
    (tree / "bin/busybox").chmod(0o755)
    for name in MODULES:
        found = [path for path in modules.rglob(f"{name}.ko*") if path.name.split(".")[0] == name]
        if not found:
            raise BurnInError(f"the kernel's package has no module {name}")
        (tree / f"modules/{name}.ko").write_bytes(found[0].read_bytes())
    (tree / "init").write_text(INIT_OF_THE_MEMORY.format(modules=" ".join(MODULES)))
    (tree / "init").chmod(0o755)
    archive = folder / "initramfs.cpio"
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with archive.open("wb") as out:
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=out, check=True
        )
    return archive


@contextmanager
def started(kernel: Kernel, socket: Path, serial: Path, more: str = "") -> Iterator[Process]:
    """QEMU with a kernel and its root on the served drive; what the guest says goes into `serial`."""
    # A reset without the help of firmware: the smallest machine has none to speak of.
    ending = "panic=-1 reboot=t"
    append = f"console=ttyS0 root=/dev/vda rw init=/sbin/init {ending} mitigations=off tsc=reliable {more}"
    words = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1024", "-smp", "1",
        "-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio",
        "-kernel", str(kernel.image), "-append", append,
        "-drive", f"file=nbd:unix:{socket},format=raw,if=none,id=d,cache=none,discard=unmap",
        *kernel.machine,
    ]  # fmt: skip
    if kernel.initramfs is not None:
        words += ["-initrd", str(kernel.initramfs)]
    LOG.debug("$ %s &", " ".join(words))
    with serial.open("wb") as out, Process(words, out) as qemu:
        yield qemu


def words_of(serial: Path) -> str:
    """What the guest has said so far, without the escapes of terminals."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", serial.read_text(errors="replace"))


def boot(kernel: Kernel, socket: Path, serial: Path) -> None:
    """Boots a kernel; `BurnInError` unless `init` finds all in order."""
    with started(kernel, socket, serial) as qemu:
        try:
            qemu.popen.wait(SECONDS)
        except subprocess.TimeoutExpired:
            LOG.debug("the guest did not end within %.0f s", SECONDS)
    said = words_of(serial)
    for words_of_success in (SUMS_GOOD, DONE):
        if words_of_success not in said:
            raise BurnInError(f"the guest did not say '{words_of_success}': its words are in {serial}")


def killed_under(kernel: Kernel, server: Server, serial: Path, seconds: float) -> dict[str, str]:
    """Kills the server so many seconds after a guest began to write; sums of what was durable by then.

    The guest writes with fsync, which fails once the drive is gone: what it says later is true too.
    """
    with started(kernel, server.socket, serial, TO_WRITE) as qemu:

        def writes() -> bool:
            if qemu.ended() is not None:
                raise BurnInError(f"the guest ended before it wrote: its words are in {serial}")
            return DURABLE.search(words_of(serial)) is not None

        wait_for("the guest writes", writes, SECONDS)
        time.sleep(seconds)
        if qemu.ended() is not None:
            raise BurnInError(f"the guest ended while it wrote: its words are in {serial}")
        server.kill()
    return {name: digest for digest, name in DURABLE.findall(words_of(serial))}


def seconds_to_kill(seed: int) -> float:
    """When a server is killed: at no particular moment."""
    return random.Random(seed).uniform(2.0, 6.0)


def install(busybox: Path, root: Path) -> None:
    """A small system on the file system at `root`."""
    for name in ("bin", "sbin", "dev", "proc", "burn-in"):
        (root / name).mkdir(exist_ok=True)
    (root / "bin/busybox").write_bytes(busybox.read_bytes())
    (root / "bin/busybox").chmod(0o755)
    for applet in run(busybox, "--list").split():
        link = root / "bin" / applet
        if not link.exists():
            link.symlink_to("busybox")
    (root / "sbin/init").write_text(INIT_OF_THE_ROOT)
    (root / "sbin/init").chmod(0o755)
