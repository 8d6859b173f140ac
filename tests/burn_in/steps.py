"""The steps of the burn-in of one drive, in their order.

Short: a tree of small files in place of the kernel's source, and Debian's kernel in place of our own.

Invariants: a step is done when its line says so, and is kept in the run's folder then; a run that is
resumed makes no step twice, except that the drive is filled in one go (`filled`). Sums are compared with
those taken when the files were written, never with later ones.
"""

import hashlib
import json
import os
import shutil
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from burn_in import guest, packages, sums
from burn_in.disk import Server, attached, leftovers, mounted
from burn_in.processes import LOG, BurnInError, run
from burn_in.progress import Progress, expected_steps, kill_name

GUEST_FILES = 300
FSCK_MENDED = 1
SECONDS_OF_WRITER = 120.0


@dataclass
class Plan:
    """What to burn in: a command that serves a drive, and how much of it all."""

    command: Sequence[str]
    folder: Path
    packages: Path
    short: bool = False
    kills: int = 1
    seed: int = 1
    progress: Progress = field(default_factory=Progress)
    sums: dict[str, str] = field(default_factory=dict)

    def serve(self) -> Server:
        """Starts the server on the run's image."""
        return Server(self.command, self.image, self.folder / "nbd.socket", self.folder / "server.log")

    @property
    def image(self) -> Path:
        """The drive's image."""
        return self.folder / "drive.image"

    @property
    def point(self) -> Path:
        """Where the file system is mounted."""
        return self.folder / "mnt"

    @property
    def done(self) -> Path:
        """The steps that are done."""
        return self.folder / "steps.json"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step that is kept once it is done."""
        with self.progress.step(name):
            yield
        self.progress.keep(self.done)

    @contextmanager
    def attached(self, server: Server) -> Iterator[str]:
        """The drive as a block device of the host."""
        with attached(server.socket, self.folder / "fuse", self.folder / "server.log") as device:
            yield device


def burn_in(plan: Plan, resume: bool = False) -> None:
    """All of it, or what an earlier run has not done; `BurnInError` says what failed."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    leftovers(plan.folder)
    done = plan.progress.recall(plan.done) if resume and plan.done.exists() else set()
    if done >= expected_steps(plan.short, plan.kills).keys():
        LOG.info("an earlier run has done all of it")
        return
    if not plan.image.exists():
        done = set()
    with plan.progress.step("packages"):
        busybox = packages.busybox(plan.packages)
        kernel = packages.debian_kernel(plan.packages) if plan.short else None
        archive = None if plan.short else packages.source_archive(plan.packages)
    if "the server stops" in done:
        plan.sums = json.loads((plan.folder / "sums.json").read_text())
        after_an_end(plan)
    else:
        plan.image.unlink(missing_ok=True)
        filled(plan, busybox, archive)
    kernel = kernel or our_kernel(plan)
    steps: dict[str, Callable[[], None]] = {
        "the drive after a clean stop": partial(second_look, plan),
        "a guest boots": partial(boots, plan, kernel),
    }
    if not plan.short:
        steps["the server killed under a guest"] = partial(killed_under_a_guest, plan, kernel)
    for number in range(plan.kills):
        steps[kill_name(number)] = partial(killed, plan, number)
    for name, what in steps.items():
        if name not in done:
            with plan.step(name):
                what()


def after_an_end(plan: Plan) -> None:
    """An earlier run may have ended anywhere: the file system's journal is replayed."""
    with plan.progress.step("the file system after the earlier run"), plan.serve() as server:
        with plan.attached(server) as device:
            run("e2fsck", "-p", device, accept=(0, FSCK_MENDED))
        server.stop()


def filled(plan: Plan, busybox: Path, archive: Path | None) -> None:
    """Makes the file system and fills it."""
    with plan.serve() as server:
        with plan.attached(server) as device:
            with plan.step("mkfs.ext4"):
                run("mkfs.ext4", "-q", "-F", device)
            with mounted(device, plan.point) as root:
                with plan.step("a system is installed"):
                    guest.install(busybox, root)
                    if archive is None:
                        copy_library(root / "usr")
                if archive is not None:
                    compiled(plan, archive, root)
                with plan.step("sums of all files"):
                    keep_sums(plan, root)
        with plan.step("the server stops"):
            server.stop()


def keep_sums(plan: Plan, root: Path) -> None:
    """Sums of all files, for later; of some of them on the drive too, for the guest."""
    plan.sums.update(sums.sums_of(root))
    for_guest = {f"/{name}": plan.sums[name] for name in guests_share(plan.sums)}
    (root / "burn-in/guest.sums").write_text(sums.lines(for_guest))
    (plan.folder / "sums.json").write_text(json.dumps(plan.sums))


def guests_share(names: Iterable[str]) -> list[str]:
    """The files that the guest looks at too: it is slow."""
    every = list(names)
    return every[:: max(1, len(every) // GUEST_FILES)]


def compiled(plan: Plan, archive: Path, root: Path) -> None:
    """Unpacks the source on the drive and compiles the kernel there; QEMU loads a copy of it."""
    with plan.step("the kernel's source is unpacked"):
        run("tar", "--extract", "--file", archive, "--directory", root)
        tree = next(root.glob("linux-source-*"))
    name = "a kernel is compiled"
    with plan.step(name):
        image, release = packages.compile_kernel(
            tree, lambda done, of_about: plan.progress.part(name, done, of_about)
        )
        shutil.copy(image, plan.folder / "bzImage")
        (plan.folder / "release").write_text(release)


def our_kernel(plan: Plan) -> guest.Kernel:
    """The kernel that was compiled on the drive."""
    return guest.Kernel(plan.folder / "bzImage", (plan.folder / "release").read_text(), guest.SMALLEST)


def copy_library(target: Path) -> None:
    """Some thousand small files: Python's own library, without what it compiled."""
    library = Path(sysconfig.get_path("stdlib"))
    unwanted = shutil.ignore_patterns("__pycache__", "site-packages", "dist-packages", "test", "config-*")
    shutil.copytree(library, target, symlinks=True, ignore=unwanted, dirs_exist_ok=True)


def second_look(plan: Plan) -> None:
    """After a stop and a start the file system is clean and holds what it held."""
    with plan.serve() as server:
        with plan.attached(server) as device:
            run("e2fsck", "-f", "-n", device)
            with mounted(device, plan.point) as root:
                sums.compare(root, plan.sums, "after a clean stop")
        server.stop()


def boots(plan: Plan, kernel: guest.Kernel) -> None:
    """A guest boots from the drive, finds its files right, and leaves one behind that names its kernel."""
    with plan.serve() as server:
        guest.boot(kernel, server.socket, plan.folder / "guest.log")
        with plan.attached(server) as device:
            run("e2fsck", "-f", "-n", device)
            with mounted(device, plan.point) as root:
                booted = (root / "burn-in/booted").read_text().strip()
        server.stop()
    if booted != kernel.release:
        raise BurnInError(f"the guest ran {booted}, not {kernel.release}")
    LOG.info("%s booted from the drive", booted)


def killed_under_a_guest(plan: Plan, kernel: guest.Kernel) -> None:
    """Kills the server while a guest writes through QEMU's NBD client."""
    with plan.serve() as server:
        durable = guest.killed_under(
            kernel, server, plan.folder / "guest-killed.log", guest.seconds_to_kill(plan.seed)
        )
    look_after_a_kill(plan, durable)


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
        plan.attached(server) as device,
        mounted(device, plan.point) as root,
    ):
        writer = Writer(root / "burn-in", plan.seed + number)
        writer.start()
        time.sleep(guest.seconds_to_kill(plan.seed + number))
        if not writer.is_alive():
            raise BurnInError("a write failed before the server was killed")
        server.kill()
        writer.join(SECONDS_OF_WRITER)
        if writer.is_alive():
            raise BurnInError(f"a write did not end within {SECONDS_OF_WRITER:.0f} s of the kill")
    look_after_a_kill(plan, writer.durable)


def look_after_a_kill(plan: Plan, durable: dict[str, str]) -> None:
    """Starts the server again: the file system mends itself, and all that was durable is there."""
    if not durable:
        raise BurnInError("nothing was made durable before the kill: this machine is too slow for it")
    with plan.serve() as server:
        with plan.attached(server) as device:
            # The first check replays the journal of the file system; the second has to find nothing to do.
            run("e2fsck", "-p", device, accept=(0, FSCK_MENDED))
            run("e2fsck", "-f", "-n", device)
            with mounted(device, plan.point) as root:
                sums.compare(root / "burn-in", durable, "after the kill")
                sums.compare(root, plan.sums, "after the kill")
        server.stop()
    LOG.info("%d files were durable before the kill, and are there", len(durable))
