"""What ``skylight serve`` does with a drive besides listening, from its start to its end.

What for: ``--attach``, ``--run``, ``--pidfile`` and the readiness that systemd waits for.

Invariants:
- The note of the process ID and the message of readiness come when clients can connect, not before.
- A start that fails here leaves no image behind, if the server made it, and nothing attached.
- The command of ``--run`` and all that it started end before the server does, and its exit code is that of
  ``skylight serve``; one that a signal ended counts 128 and the signal's number, as in a shell.

Sources: nbdkit-captive(1) for ``--run`` and its variables; sd_notify(3) for the messages to systemd.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import (
    SIG_IGN,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGTERM,
    SIGTSTP,
    SIGTTOU,
    Signals,
    getsignal,
    signal,
)
from typing import TYPE_CHECKING

from skylight.cli.attach import Attached, attached, check
from skylight.cli.console import Speaker
from skylight.errors import KeepError, SkylightError, TargetError, UsageError

if TYPE_CHECKING:
    from skylight._native import DriveServer

__all__ = ["Use", "Used", "notify", "signals_wait"]

_ENDING_S = 10.0
"""How long the command of --run may take to end when the server is stopped."""
_LOOK_UP_S = 0.02
_NOTIFY = "NOTIFY_SOCKET"


@contextmanager
def signals_wait() -> Iterator[Callable[[], None]]:
    """Holds back the signals that end a server until what it gives is called, or to the block's end: clients
    may be served before there is a server in Python to stop, and then a signal would be an error.

    Handlers wait, not the signals: a mask is one thread's, and any thread may take a signal.
    """
    ending = (SIGINT, SIGTERM, SIGHUP)
    deferred = {number: handler for number in ending if callable(handler := getsignal(number))}
    came: list[int] = []
    for number in deferred:
        signal(number, lambda number, _frame: came.append(number))

    def come() -> None:
        for number, handler in deferred.items():
            signal(number, handler)
        if came:
            number = Signals(came[0])
            came.clear()
            deferred[number](number, None)

    try:
        yield come
    finally:
        come()


@dataclass(frozen=True)
class Use:
    """What the options ask for."""

    attach: bool
    command: str | None
    pidfile: Path | None

    @property
    def has_own_client(self) -> bool:
        """Whether the drive has a client without anybody knowing its socket."""
        return self.attach or self.command is not None

    @contextmanager
    def places(self, given: Sequence[str], *, tls: bool) -> Iterator[list[str]]:
        """Where to listen: as given, or on a socket in a private folder that goes with the server. Raises
        UsageError where there is nothing to listen for, or the drive cannot be attached. systemd learns of
        an error that ends the block."""
        with _failure_notified():
            if self.attach:
                check(tls=tls)
            if given:
                yield list(given)
            elif self.has_own_client:
                with tempfile.TemporaryDirectory(prefix="skylight-") as folder:
                    yield [f"unix:{folder}/nbd.sock"]
            else:
                raise UsageError("give --nbd unix:PATH or tcp:HOST:PORT, or --attach, or --run CMD")

    @contextmanager
    def begun(self, server: DriveServer, image: Path, say: Speaker) -> Iterator[Used]:
        """All of it, from when the drive is served until the block ends."""
        ready = False
        try:
            with ExitStack() as stack:
                device = stack.enter_context(attached(server, image, say)) if self.attach else None
                if self.pidfile is not None:
                    stack.enter_context(_pidfile(self.pidfile))
                process = None
                if self.command is not None:
                    process = stack.enter_context(_running(self.command, server, device))
                notify(f"READY=1\nSTATUS=serving {server.name} at {server.endpoints[0]}")
                stack.callback(notify, "STOPPING=1")
                ready = True
                yield Used(device, process)
        except Exception:
            if not ready:
                # The error to report is that of the start.
                with suppress(Exception):
                    server.abandon()
            raise


@dataclass(frozen=True)
class Used:
    """A drive in use."""

    attached: Attached | None
    process: subprocess.Popen[bytes] | None

    def ended(self) -> int | None:
        """The exit code of the command of --run once it has ended. Raises TargetError when the device that
        was attached has lost its drive."""
        if self.attached is not None:
            self.attached.check()
        code = None if self.process is None else self.process.poll()
        return code if code is None or code >= 0 else 128 - code


def notify(message: str) -> None:
    """Sends a message to systemd, if this process is its service; one that cannot be sent is not missed."""
    name = os.environ.get(_NOTIFY, "")
    if not name.startswith(("/", "@")):
        return
    address = "\0" + name[1:] if name.startswith("@") else name
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), address)


@contextmanager
def _failure_notified() -> Iterator[None]:
    """An error that ends the block is the status that systemd shows of the service: its last lines may be
    those of systemd alone, once it has given up."""
    try:
        yield
    except SkylightError as error:
        notify(f"STATUS={' '.join(str(error).split())}")
        raise


@contextmanager
def _pidfile(path: Path) -> Iterator[None]:
    """The process ID in a file, which appears whole and is removed at the end."""
    words = f"{os.getpid()}\n"
    try:
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(words, encoding="ascii")
        new.replace(path)
    except OSError as error:
        raise KeepError(f"{path}: cannot be written: {error.strerror}; choose another --pidfile") from error
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            if path.read_text(encoding="ascii") == words:
                path.unlink()


def _environment(server: DriveServer, device: Attached | None) -> dict[str, str]:
    """What the command of --run finds: the variables of nbdkit, and the block device."""
    uri = server.uris[0]
    kind, _, where = server.endpoints[0].partition(":")
    found = {"uri": uri, "NBD_URI": uri, "nbd": shlex.quote(uri)}
    if kind == "unix":
        found["unixsocket"] = os.path.abspath(where)
    if device is not None:
        found["device"] = device.device
    # It is not the service that systemd waits for.
    return {name: value for name, value in os.environ.items() if name != _NOTIFY} | found


@contextmanager
def _running(command: str, server: DriveServer, device: Attached | None) -> Iterator[subprocess.Popen[bytes]]:
    """The command of --run in a process group of its own, which is ended with the block. A terminal is the
    command's meanwhile: Ctrl-C ends it, and Ctrl-Z is without effect, since nobody would wake it."""
    terminal = _has_terminal()
    with _ignored(SIGTSTP) if terminal else nullcontext():
        try:
            environment = _environment(server, device)
            process = subprocess.Popen(["/bin/sh", "-c", command], env=environment, process_group=0)
        except OSError as error:
            raise TargetError(f"--run: cannot be started: {error.strerror}") from error
    try:
        if terminal:
            _give_terminal(process.pid)
            # It stops if it reads before the terminal is its own.
            with suppress(OSError):
                os.killpg(process.pid, SIGCONT)
        yield process
    finally:
        try:
            _end_group(process)
        finally:
            if terminal:
                _give_terminal(os.getpgrp())


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its group, by SIGKILL what does not end when asked to."""
    for number in (SIGTERM, SIGKILL):
        until = time.monotonic() + _ENDING_S
        # There is no such group once all have ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
            while time.monotonic() < until:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(_LOOK_UP_S)
            continue
        return


def _has_terminal() -> bool:
    """Whether standard input is a terminal, and this process in its foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _give_terminal(group: int) -> None:
    """Makes a process group the one in the foreground, also from the background."""
    with _ignored(SIGTTOU), suppress(OSError):
        os.tcsetpgrp(0, group)


@contextmanager
def _ignored(number: Signals) -> Iterator[None]:
    """Ignores a signal, as what is started meanwhile does for good."""
    before = signal(number, SIG_IGN)
    try:
        yield
    finally:
        signal(number, before)
