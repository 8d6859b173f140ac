"""The guest: a kernel in QEMU with its root on the served drive, which checks what it finds there.

QEMU runs without hardware help: slowly, but anywhere. The guest talks on its serial line; the words that its
`init` says at the end are the result.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from burn_in.disk import ENVIRONMENT, BurnInError, run

SECONDS = 300.0
SUMS_GOOD = "skylight-guest: every sum is right"
DONE = "skylight-guest: done"
# From virtio's queues to its disk, in the order in which they need each other.
PCI_MODULES = ("virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci")
MODULES = ("virtio_ring", "virtio", *PCI_MODULES, "virtio_blk")

INIT_OF_THE_ROOT = f"""#!/bin/sh
mount -t proc proc /proc
cd /burn-in
if sha256sum -s -c guest.sums; then echo "{SUMS_GOOD}"; fi
uname -r > booted
sync
mount -o remount,ro /
echo "{DONE}"
poweroff -f
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
    """A kernel to boot, with the file system in memory that it needs to find its disk, if it needs one."""

    image: Path
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


def boot(kernel: Kernel, socket: Path, log: Path) -> None:
    """Boots a kernel with its root on the served drive; `BurnInError` unless `init` finds all in order."""
    words = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35", "-m", "1024",
        "-smp", "1", "-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio",
        "-kernel", str(kernel.image),
        "-append", "console=ttyS0 root=/dev/vda rw init=/sbin/init panic=-1 mitigations=off tsc=reliable",
        "-drive", f"file=nbd:unix:{socket},format=raw,if=none,id=d,cache=none,discard=unmap",
        "-device", "virtio-blk-pci,drive=d",
    ]  # fmt: skip
    if kernel.initramfs is not None:
        words += ["-initrd", str(kernel.initramfs)]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=ENVIRONMENT,
        )
        said = done.stdout + done.stderr
    except subprocess.TimeoutExpired as slow:
        said = slow.stdout or b""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode(errors="replace"))
    log.write_text(text)
    for words_of_success in (SUMS_GOOD, DONE):
        if words_of_success not in text:
            raise BurnInError(f"the guest did not say '{words_of_success}': its words are in {log}")


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
