"""Boots the guest with steps to do; what each of them said is in its folder.

Source: QEMU's documentation of `-virtfs`; the kernel's Documentation/filesystems/9p.rst and overlayfs.rst.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burn_in.guest import words_of
from burn_in.packages import busybox, needed_by, unpacked
from burn_in.processes import BurnInError, Process, run

KERNEL = "linux-image-amd64"
# The root's transport, its file system, and what lies over it.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
SECONDS, LONG_SECONDS = 1800.0, 5400.0
"""How long all steps may take: some 150 s of one processor, and of long ones the probes of served drives
alone 16 min on an idle machine. Chosen: such a machine may have three other things to do."""
DONE = "skylight-guest: done"
SHARE, STEPS, RESULTS, RUN = "share", "steps.json", "results.json", "run.sh"

INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
for module in {modules}; do $b insmod /modules/$module.ko || exec $b poweroff -f; done
share="-o trans=virtio,version=9p2000.L,msize=524288"
$b mount -t 9p $share,ro,cache=loose hostroot /lower || exec $b poweroff -f
$b mount -t tmpfs over /over
$b mkdir /over/up /over/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/over/up,workdir=/over/work root /new || exec $b poweroff -f
$b mkdir -p /new/lib/modules /new/skylight-guest
$b mount -t 9p $share,ro,cache=loose modules /new/lib/modules
$b mount -t 9p $share results /new/skylight-guest
$b mount --move /dev /new/dev
$b mount -t proc proc /new/proc
$b mount -t sysfs sys /new/sys
exec $b switch_root /new /bin/sh /skylight-guest/{run}
"""

SCRIPT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C SKYLIGHT_STATE=/tmp/skylight
export PYTHONPATH={python_path} PYTHONDONTWRITEBYTECODE=1
{python} -m zoned_guest.inside /skylight-guest/{steps} /skylight-guest/{results} && echo "{done}"
sync
echo b > /proc/sysrq-trigger
"""


@dataclass(frozen=True)
class Said:
    """What a step said on standard output and error, and its exit code."""

    code: int
    out: str
    err: str


Step = Mapping[str, object]
"""A step of `zoned_guest.inside`: its name and what it does."""


def said_in(folder: Path) -> dict[str, Said]:
    """What each step of the guest that ran in the folder said, by name."""
    return {name: Said(**said) for name, said in json.loads((folder / SHARE / RESULTS).read_text()).items()}


def boot(
    folder: Path, packages: Path, steps: Sequence[Step], hardware: Sequence[str], seconds: float = SECONDS
) -> None:
    """Runs the steps in a new guest, with more words for QEMU. `BurnInError` unless all were run in time."""
    tree = unpacked(needed_by(KERNEL, r"linux-image-\S+"), packages)
    image = next((tree / "boot").glob("vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    run("depmod", "--basedir", tree, release)
    share = folder / SHARE
    share.mkdir()
    (share / STEPS).write_text(json.dumps(list(steps)))
    paths = [path for path in sys.path if path]
    (share / RUN).write_text(
        SCRIPT.format(
            python=sys.executable, python_path=os.pathsep.join(paths), steps=STEPS, results=RESULTS, done=DONE
        )
    )
    serial = folder / "serial"
    shares = {
        "hostroot": (Path("/"), True),
        "modules": (tree / "lib/modules", True),
        "results": (share, False),
    }
    words = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35", "-m", "2048",
        "-smp", "1", "-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio",
        "-kernel", str(image), "-initrd", str(initramfs(packages, tree / "lib/modules" / release, folder)),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable rdinit=/init",
        *hardware,
    ]  # fmt: skip
    for tag, (path, is_read_only) in shares.items():
        mode = ",readonly=on" if is_read_only else ""
        words += [
            "-virtfs",
            f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{mode}",
        ]
    with serial.open("wb") as out, Process(words, out) as qemu:
        try:
            qemu.popen.wait(seconds)
        except subprocess.TimeoutExpired as error:
            done = said_in(folder) if (share / RESULTS).exists() else {}
            at = next((step["name"] for step in steps if step["name"] not in done), "its shutdown")
            begun = f"step {len(done) + 1} of {len(steps)}, {at}"
            raise BurnInError(f"the guest did not end within {seconds:.0f} s ({begun}): {serial}") from error
    if DONE not in words_of(serial):
        raise BurnInError(f"the guest did not say '{DONE}': its words are in {serial}")


def initramfs(packages: Path, modules: Path, folder: Path) -> Path:
    """A file system in memory that finds the host's root and goes on to it."""
    tree = folder / "initramfs"
    for name in ("bin", "dev", "lower", "modules", "new", "over"):
        (tree / name).mkdir(parents=True)
    program = tree / "bin/busybox"
    program.write_bytes(busybox(packages).read_bytes())
    program.chmod(0o755)
    order = load_order((modules / "modules.dep").read_text())
    for path in order:
        (tree / "modules" / Path(path).name).write_bytes((modules / path).read_bytes())
    names = " ".join(Path(path).name.removesuffix(".ko") for path in order)
    (tree / "init").write_text(INIT.format(modules=names, run=RUN))
    (tree / "init").chmod(0o755)
    archive = folder / "initramfs.cpio"
    inside = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with archive.open("wb") as out:
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"], cwd=tree, input=inside.encode(), stdout=out, check=True
        )
    return archive


def load_order(dependencies: str) -> list[str]:
    """The files of `MODULES` and of all that they need, each after what it needs (depmod's modules.dep lists
    the last needed first)."""
    needs = {
        Path(name).name.split(".")[0]: [name, *others.split()]
        for name, _, others in (line.partition(":") for line in dependencies.splitlines())
    }
    order: dict[str, None] = {}
    for module in MODULES:
        if module not in needs:
            raise BurnInError(f"the kernel's package has no module {module}")
        order |= dict.fromkeys(reversed(needs[module]))
    return list(order)
