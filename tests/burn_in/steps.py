"""The steps of the burn-in, in their order. Each prints a line with what it did and how long it took.

Short: a tree of small files in place of the kernel's source, and Debian's kernel in place of our own.
"""

import hashlib
import os
import shutil
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from burn_in import guest, packages, sums
from burn_in.disk import BurnInError, Server, attached, mounted, run

GUEST_FILES = 300
FSCK_MENDED = 1


@dataclass
class Plan:
    """What to burn in: a command that serves a drive, and how much of it all."""

    command: Sequence[str]
    folder: Path
    packages: Path
    short: bool = False
    kills: int = 1
    seconds_to_kill: float = 4.0
    seed: int = 1
    sums: dict[str, str] = field(default_factory=dict)

    def serve(self) -> Server:
        """Starts the server on the run's image."""
        return Server(
            self.command, self.folder / "drive.image", self.folder / "nbd.socket", self.folder / "server.log"
        )

    @property
    def view(self) -> Path:
        """Where nbdfuse shows the drive."""
        return self.folder / "fuse"

    @property
    def point(self) -> Path:
        """Where the file system is mounted."""
        return self.folder / "mnt"


@contextmanager
def step(name: str) -> Iterator[None]:
    """Names the step in its failure, and says how long it took."""
    began = time.monotonic()
    print(f"burn-in: {name} ..", flush=True)
    try:
        yield
    except BurnInError as error:
        raise BurnInError(f"{name}: {error}") from error
    print(f"burn-in: {name}: {time.monotonic() - began:.1f} s", flush=True)


def burn_in(plan: Plan) -> None:
    """All of it; `BurnInError` says what failed."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    with step("packages"):
        busybox = packages.busybox(plan.packages)
        kernel = packages.debian_kernel(plan.packages) if plan.short else None
        archive = None if plan.short else packages.source_archive(plan.packages)
    kernel = first_life(plan, busybox, archive) or kernel
    with step("the drive after a clean stop"):
        second_look(plan)
    if kernel is not None:
        with step("a guest boots from the drive"), plan.serve() as server:
            guest.boot(kernel, server.socket, plan.folder / "guest.log")
            server.stop()
    for number in range(plan.kills):
        with step(f"the server killed in the middle of writes ({number + 1} of {plan.kills})"):
            killed(plan, number)


def first_life(plan: Plan, busybox: Path, archive: Path | None) -> guest.Kernel | None:
    """Makes the file system and fills it; the kernel that was compiled on it."""
    kernel = None
    with plan.serve() as server:
        with attached(server.socket, plan.view) as device:
            with step("mkfs.ext4"):
                run("mkfs.ext4", "-q", "-F", device)
            with mounted(device, plan.point) as root:
                with step("a system is installed"):
                    guest.install(busybox, root)
                    if archive is None:
                        copy_library(root / "usr")
                if archive is not None:
                    kernel = compiled(archive, root, plan.folder)
                with step("sums of all files"):
                    keep_sums(plan, root)
        with step("the server stops"):
            server.stop()
    return kernel


def keep_sums(plan: Plan, root: Path) -> None:
    """Sums of all files, for later; of some of them on the drive too, for the guest."""
    plan.sums.update(sums.sums_of(root))
    every = max(1, len(plan.sums) // GUEST_FILES)
    for_guest = {f"/{name}": plan.sums[name] for name in list(plan.sums)[::every]}
    (root / "burn-in/guest.sums").write_text(sums.lines(for_guest))


def compiled(archive: Path, root: Path, folder: Path) -> guest.Kernel:
    """Unpacks the source on the drive and compiles the kernel there; the copy of it that QEMU loads."""
    with step("the kernel's source is unpacked"):
        run("tar", "--extract", "--file", archive, "--directory", root)
        tree = next(root.glob("linux-source-*"))
    with step("a kernel is compiled"):
        image = packages.compile_kernel(tree).image
        shutil.copy(image, folder / "bzImage")
    return guest.Kernel(folder / "bzImage")


def copy_library(target: Path) -> None:
    """Some thousand small files: Python's own library, without what it compiled."""
    library = Path(sysconfig.get_path("stdlib"))
    unwanted = shutil.ignore_patterns("__pycache__", "site-packages", "dist-packages", "test", "config-*")
    shutil.copytree(library, target, symlinks=True, ignore=unwanted, dirs_exist_ok=True)


def second_look(plan: Plan) -> None:
    """After a stop and a start the file system is clean and holds what it held."""
    with plan.serve() as server:
        with attached(server.socket, plan.view) as device:
            run("e2fsck", "-f", "-n", device)
            with mounted(device, plan.point) as root:
                sums.compare(root, plan.sums, "after a clean stop")
        server.stop()


class Writer(threading.Thread):
    """Writes files and makes each durable, until the drive is gone; `durable` holds the sums of those."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Files of one name for each seed."""
        super().__init__(daemon=True)
        self._folder, self._seed = folder, seed
        self.durable: dict[str, str] = {}

    def run(self) -> None:
        """Until a write fails."""
        number = 0
        try:
            while True:
                path = self._folder / f"durable-{self._seed}-{number}"
                data = os.urandom(4096 * (1 + number % 40))
                with path.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                folder = os.open(self._folder, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
                self.durable[path.name] = hashlib.sha256(data).hexdigest()
                number += 1
        except OSError:
            return


def killed(plan: Plan, number: int) -> None:
    """Kills the server under a writer, starts it again, and looks for all that was made durable."""
    with (
        plan.serve() as server,
        attached(server.socket, plan.view) as device,
        mounted(device, plan.point) as root,
    ):
        writer = Writer(root / "burn-in", plan.seed + number)
        writer.start()
        time.sleep(plan.seconds_to_kill)
        server.kill()
        writer.join(60)
    if not writer.durable:
        raise BurnInError(f"nothing was made durable in {plan.seconds_to_kill} s: give it longer")
    with plan.serve() as server:
        with attached(server.socket, plan.view) as device:
            # The first check replays the journal of the file system; the second has to find nothing to do.
            run("e2fsck", "-p", device, accept=(0, FSCK_MENDED))
            run("e2fsck", "-f", "-n", device)
            with mounted(device, plan.point) as root:
                sums.compare(root / "burn-in", writer.durable, "after the kill")
                sums.compare(root, plan.sums, "after the kill")
        server.stop()
    print(f"burn-in: {len(writer.durable)} files were durable before the kill, and are there", flush=True)
