"""``skylight serve --attach``: a served drive as a block device of this machine.

What for: one step in place of those that docs/serve.md lists. Where the kernel offers its NBD client
(/dev/nbd*) and nbd-client is installed, that is used: it passes on FUA and trim. Elsewhere nbdfuse shows
the drive as a file and a loop device makes that a disk.

Invariants:
- What is missing is said before anything is set up, the image included (`check`), in one line with what
  installs it.
- The device is taken down when the block ends, however it ends, and last in, first out. A device that is
  still in use is waited for, since taking its drive away loses what its file system has not written yet.
- What a server of this image left when it was killed is taken down first (`left_attached`).
- A drive without a volatile write cache is declared to the kernel as such, for as long as it is attached.

Sources: nbdfuse(1), nbd-client(8), losetup(8); the kernel's Documentation/ABI/stable/sysfs-block for
``queue/write_cache``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import IO, TYPE_CHECKING

from skylight.cli.console import Speaker
from skylight.cli.left_attached import Left, backing_of, noted, take_down_left
from skylight.errors import TargetError, UsageError

if TYPE_CHECKING:
    from skylight._native import DriveServer

__all__ = ["Attached", "attached", "check"]

BLOCK_BYTES = 4096
"""Logical block size of the device: the preferred size of the export."""
PATIENCE_S = 10.0
"""How long a program may take to connect or to end; they take milliseconds."""
_LOOK_UP_S = 0.1
_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""Tools of block devices lie where the path of a service need not lead."""
_PACKAGES = {"nbdfuse": "libnbd-bin", "losetup": "mount", "umount": "mount"}
"""Tools, and the package of Debian that has each."""
_NODES = {"/dev/fuse": "fuse", "/dev/loop-control": "loop"}
"""Device nodes, and the kernel module that makes each."""


def _tool(name: str) -> str | None:
    return shutil.which(name, path=_SEARCHED)


def _run(*command: str) -> str:
    """Runs a program; what it printed. Raises TargetError with its last line of errors."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"--attach: {command[0]} did not run: {error}") from error
    if done.returncode:
        why = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise TargetError(f"--attach: {' '.join(command)} failed: {why}")
    return done.stdout.strip()


def _free_nbd(sysfs: Path = Path("/sys/block")) -> Path | None:
    """A device of the kernel's NBD client that nobody uses."""
    for entry in sorted(sysfs.glob("nbd*"), key=lambda path: (len(path.name), path.name)):
        node = Path("/dev", entry.name)
        # The kernel shows the process that a device is connected by.
        if node.is_block_device() and not (entry / "pid").exists():
            return node
    return None


def _kernel() -> tuple[str, Path] | None:
    """nbd-client and a device for it, where there are both."""
    node, client = _free_nbd(), _tool("nbd-client")
    return None if node is None or client is None else (client, node)


def _missing() -> list[str]:
    """What nbdfuse with a loop device lacks here, each with what adds it."""
    lacking = [
        f"{tool} (apt install {package})" for tool, package in _PACKAGES.items() if _tool(tool) is None
    ]
    return lacking + [
        f"{node} (modprobe {module})" for node, module in _NODES.items() if not Path(node).exists()
    ]


@dataclass
class Attached:
    """An attached drive: its block device, and the process that it depends on, if there is one."""

    device: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raises TargetError if the device has lost its drive."""
        if self.process is not None and self.process.poll() is not None:
            raise TargetError(
                f"{self.device}: nbdfuse has ended, so the device fails; start the server again"
            )


def check(*, tls: bool) -> None:
    """Raises UsageError where a drive cannot be attached: it needs root, the tools, and no TLS."""
    if os.geteuid() != 0:
        raise UsageError(
            "--attach: only root may attach block devices; run it as root, or use --run or --nbd"
        )
    if tls:
        raise UsageError(
            "--attach: connects on this machine, without TLS; leave out --tls-cert and --tls-key"
        )
    if _kernel() is None and (missing := _missing()):
        raise UsageError(f"--attach: this machine lacks {', '.join(missing)}")


@contextmanager
def attached(server: DriveServer, image: Path, say: Speaker) -> Iterator[Attached]:
    """The drive of a server, which has its image to itself, as a block device, until the block ends; after
    `check`.

    Raises TargetError and OSError where setting it up fails."""
    take_down_left(image, _taken_down, say.warning)
    kernel = _kernel()
    with (
        _by_fuse(server, image, say) if kernel is None else _by_kernel(server, image, *kernel, say) as device
    ):
        yield device


def _taken_down(left: Left) -> bool:
    """Takes down what a killed server left; False where the device is in use."""
    if left.is_there:
        if _in_use(left.device) or _is_open(left.device):
            return False
        is_loop = Path(left.device).name.startswith("loop")
        tool = "losetup" if is_loop else "nbd-client"
        with suppress(TargetError):
            _run(_tool(tool) or tool, "-d", left.device)
        if left.cache:
            with suppress(OSError):
                _cache_setting(left.device).write_text(left.cache, encoding="ascii")
    if left.is_mounted:
        with suppress(TargetError):
            _run(_tool("umount") or "umount", "--lazy", left.folder)
        with suppress(OSError):
            os.rmdir(left.folder)
    return not left.is_there


@contextmanager
def _by_kernel(server: DriveServer, image: Path, client: str, node: Path, say: Speaker) -> Iterator[Attached]:
    """The drive through the kernel's NBD client."""
    kind, _, where = server.endpoints[0].partition(":")
    host, _, port = where.rpartition(":")
    place = ["-unix", os.path.abspath(where)] if kind == "unix" else [host.strip("[]"), port]
    device = str(node)
    _run(client, *place, device, "-b", str(BLOCK_BYTES))
    with noted(image, Left(device, backing_of(device), cache=_assumed_cache(device))):
        try:
            with _declared_cache(device, server.write_cache):
                try:
                    yield Attached(device)
                finally:
                    # It is disconnected at once, also while programs have it open.
                    _wait_while(lambda: _in_use(device) or _is_open(device), device, say)
        finally:
            _run(client, "-d", device)


@contextmanager
def _by_fuse(server: DriveServer, image: Path, say: Speaker) -> Iterator[Attached]:
    """The drive through nbdfuse and a loop device."""
    losetup = _tool("losetup") or "losetup"
    with ExitStack() as stack:
        process, file = stack.enter_context(_shown(server.uris[0]))
        made = _run(losetup, "-f", "--show", "--direct-io=on", "-b", str(BLOCK_BYTES), str(file))
        stack.enter_context(
            noted(image, Left(made, backing_of(made), str(file.parent), _assumed_cache(made)))
        )
        try:
            with _declared_cache(made, server.write_cache):
                try:
                    yield Attached(made, process)
                finally:
                    _wait_while(lambda: _in_use(made), made, say)
        finally:
            # The kernel detaches it once the last program that has it open closes it.
            _run(losetup, "-d", made)
            backing = Path("/sys/block", Path(made).name, "loop/backing_file")
            _wait_while(backing.exists, made, say)


@contextmanager
def _shown(uri: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The drive as a file, and the nbdfuse that shows it."""
    folder = Path(tempfile.mkdtemp(prefix="skylight-"))
    file = folder / "disk.img"
    try:
        # It writes a line for each command that fails: a pipe that nobody reads would fill and hold it up.
        with tempfile.TemporaryFile() as errors:
            # In a session of its own: Ctrl-C at the terminal must not end it before the device is detached.
            process = subprocess.Popen(
                [_tool("nbdfuse") or "nbdfuse", str(file), uri],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            try:
                _wait_for_file(process, file, errors)
                yield process, file
            finally:
                # What is mounted lazily goes with its last user.
                with suppress(TargetError):
                    _run(_tool("umount") or "umount", "--lazy", str(folder))
                _end(process)
    finally:
        with suppress(OSError):
            folder.rmdir()


def _wait_for_file(process: subprocess.Popen[bytes], file: Path, errors: IO[bytes]) -> None:
    """Waits until nbdfuse, whose errors go to a file, shows its own."""
    until = time.monotonic() + PATIENCE_S
    while not file.exists():
        if process.poll() is not None:
            errors.seek(0)
            why = errors.read().decode(errors="replace").strip() or "no reason given"
            raise TargetError(f"--attach: nbdfuse ended: {why.splitlines()[-1]}")
        if time.monotonic() > until:
            raise TargetError(f"--attach: nbdfuse did not connect within {PATIENCE_S:.0f} s")
        time.sleep(_LOOK_UP_S / 10)


def _cache_setting(device: str) -> Path:
    return Path("/sys/block", Path(device).name, "queue/write_cache")


def _assumed_cache(device: str) -> str:
    """What the kernel assumes of a device's volatile cache; empty where it does not say."""
    with suppress(OSError):
        return _cache_setting(device).read_text(encoding="ascii").strip()
    return ""


@contextmanager
def _declared_cache(device: str, write_cache: bool) -> Iterator[None]:
    """A device whose drive takes flushes claims a volatile cache: one over a drive without claims none. The
    setting outlives the connection, so it is put back."""
    setting = _cache_setting(device)
    if write_cache:
        yield
        return
    try:
        before = setting.read_text(encoding="ascii")
        setting.write_text("write through", encoding="ascii")
    except OSError as error:
        raise TargetError(f"--attach: {setting} cannot be set: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            setting.write_text(before.strip(), encoding="ascii")


def _in_use(device: str) -> bool:
    """Whether a file system, or a program that wants it alone, has the device open."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _is_open(path: str) -> bool:
    """Whether any process has it open."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(entry) == path:
                return True
    return False


def _wait_while(holds: Callable[[], bool], device: str, say: Speaker) -> None:
    """Waits while a device is in use. Ctrl-C ends the wait; its users then get I/O errors."""
    told = False
    with suppress(KeyboardInterrupt):
        while holds():
            if not told:
                told = True
                say.warning(f"{device}: is still in use; unmount or close it, then the server ends")
            time.sleep(_LOOK_UP_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that should be ending by itself."""
    for signal in (None, SIGTERM, SIGKILL):
        if signal is not None:
            process.send_signal(signal)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
            return
