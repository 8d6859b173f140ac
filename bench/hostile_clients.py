"""The effect of hostile clients on a well-behaved one: a served drive for each kind of them and each timing.

A well-behaved client reads and writes 4 KiB at a time, first alone, then beside hostile clients of one kind.
The results are the ratio of the median latency beside them to that alone, the slowest command, the peak
memory of the server, and the time from SIGTERM to its end with exit code 0 and all requests answered. In
model time a command takes the model's time, and other commands delay it as on a disk; there, the median is
compared with the model's for the same commands (``--log``), and a command's latency is counted from the
model's completion.

Invalid results: another load on the machine. All sockets are Unix sockets in a temporary folder.

``bench/hostile_clients.py [--clients N] [--seconds S] [--kinds K|K] [--timings T,T] [--json]``; exit code 1
when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import sub
from pathlib import Path

MOST_RATIO = 3.0
MOST_COMMAND_S = 2.0
MOST_MEMORY_MIB = 256
MOST_END_S = 10.0

# A server accepts 256 clients, and drops none with a request outstanding.
MOST_BUSY = 250
# An answer that takes longer never comes.
TIMEOUT_S = 120.0
MIB = 1 << 20
BLOCK = 4096
READ, WRITE, FLUSH, BLOCK_STATUS, WRITE_ZEROES = 0, 1, 3, 7, 6
NO_HOLE = 2
_REQUEST, _REPLY = struct.Struct(">LHHQQL"), struct.Struct(">LLQ")
_OPTION_MAGIC = 0x49484156454F5054
# First byte of the well-behaved client's range; no other client uses it, so the log identifies its commands.
OWN_FROM = 1 << 40
DRIVE = {"none": "st4000nc001", "model": "st5000as0011"}


def request(kind: int, offset: int, size: int, cookie: int = 1, flags: int = 0) -> bytes:
    """The header of a request."""
    return _REQUEST.pack(0x25609513, flags, kind, cookie, offset, size)


def greet(path: Path, whole: bool = True) -> socket.socket:
    """A connection, in its transmission phase or in the middle of its handshake."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(TIMEOUT_S)
    client.connect(str(path))
    take(client, 18)
    client.sendall(struct.pack(">L", 3))
    if whole:
        client.sendall(struct.pack(">QLL", _OPTION_MAGIC, 1, 0))
        take(client, 10)
    return client


def take(client: socket.socket, count: int) -> bytes:
    """Receives an exact number of bytes."""
    parts = []
    while count:
        part = client.recv(min(count, MIB))
        if not part:
            raise ConnectionResetError("the server went")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Good:
    """The well-behaved client."""

    def __init__(self, path: Path) -> None:
        """Connects."""
        self.client = greet(path)
        self.number = 0

    def latencies(self, seconds: float, least: int = 30) -> list[float]:
        """Reads and writes one by one for a time; returns the latency of each, s."""
        took: list[float] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(took) < least:
            self.number += 1
            offset = OWN_FROM + self.number * 7919 % 16384 * BLOCK
            began = time.perf_counter()
            if self.number % 2:
                self.client.sendall(request(READ, offset, BLOCK))
            else:
                self.client.sendall(request(WRITE, offset, BLOCK) + bytes(BLOCK))
            _, error, _ = _REPLY.unpack(take(self.client, _REPLY.size))
            if error:
                raise OSError(error, "the well-behaved client got an error")
            if self.number % 2:
                take(self.client, BLOCK)
            took.append(time.perf_counter() - began)
        return took


@dataclass
class Hostile:
    """Hostile clients of one kind: their connections, and threads that run until the end."""

    path: Path
    clients: int
    over: threading.Event
    held: list[socket.socket]

    def background(self, work: Callable[[], None]) -> None:
        """Repeats an action until the end."""

        def run() -> None:
            while not self.over.is_set():
                with suppress(OSError):
                    work()

        threading.Thread(target=run, daemon=True).start()


def push(client: socket.socket, data: bytes) -> None:
    """Sends as much as the socket accepts."""
    client.setblocking(False)
    with suppress(OSError):
        client.sendall(data)


def zeroes(hostile: Hostile, flags: int) -> None:
    """Each requests 4 GiB of zeroes and disconnects, repeatedly."""

    def work() -> None:
        for _ in range(hostile.clients):
            with greet(hostile.path) as client:
                client.sendall(request(WRITE_ZEROES, 0, (1 << 32) - BLOCK, flags=flags))
        hostile.over.wait(1.0)

    work()
    hostile.background(work)


def zeroes_with_holes(hostile: Hostile) -> None:
    """Zeroes of 4 GiB, as holes."""
    zeroes(hostile, 0)


def zeroes_without_holes(hostile: Hostile) -> None:
    """Zeroes of 4 GiB, written."""
    zeroes(hostile, NO_HOLE)


def zeroes_that_stay(hostile: Hostile) -> None:
    """Zeroes of 4 GiB, written, for clients that wait for them: as many as leave slots for others."""
    for _ in range(min(hostile.clients, MOST_BUSY)):
        hostile.held.append(greet(hostile.path))
        hostile.held[-1].sendall(request(WRITE_ZEROES, 0, (1 << 32) - BLOCK, flags=NO_HOLE))


def idle(hostile: Hostile) -> None:
    """Handshake complete, no request."""
    hostile.held += [greet(hostile.path) for _ in range(hostile.clients)]


def half_open(hostile: Hostile) -> None:
    """In the middle of their handshakes."""
    hostile.held += [greet(hostile.path, whole=False) for _ in range(hostile.clients)]


def deaf(hostile: Hostile, size: int) -> None:
    """Request many reads, and never receive the replies."""
    for number in range(min(hostile.clients, 50)):
        client = greet(hostile.path)
        push(client, b"".join(request(READ, (number * 512 + at) * MIB, size) for at in range(4096)))
        hostile.held.append(client)


def deaf_to_small_reads(hostile: Hostile) -> None:
    """Many reads of 4 KiB, replies never received."""
    deaf(hostile, BLOCK)


def deaf_to_large_reads(hostile: Hostile) -> None:
    """Many reads of 1 MiB, replies never received."""
    deaf(hostile, MIB)


def pipelines(hostile: Hostile) -> None:
    """Thousands of requests at once, then a disconnect, repeatedly."""

    def work() -> None:
        for number in range(min(hostile.clients, 16)):
            with greet(hostile.path) as client:
                push(client, b"".join(request(READ, (number + at) % 4096 * MIB, BLOCK) for at in range(4000)))
        hostile.over.wait(0.5)

    work()
    hostile.background(work)


def dribbles(hostile: Hostile) -> None:
    """Long writes whose bytes arrive one by one."""
    for _ in range(hostile.clients):
        client = greet(hostile.path)
        push(client, request(WRITE, 0, 32 * MIB) + bytes(64 << 10))
        hostile.held.append(client)

    def work() -> None:
        for client in hostile.held:
            push(client, b"\0")
        hostile.over.wait(0.2)

    hostile.background(work)


KINDS: dict[str, Callable[[Hostile], None]] = {
    "zeroes as holes, and gone": zeroes_with_holes,
    "zeroes written, and gone": zeroes_without_holes,
    "zeroes written": zeroes_that_stay,
    "idle": idle,
    "half a handshake": half_open,
    "deaf, 4 KiB reads": deaf_to_small_reads,
    "deaf, 1 MiB reads": deaf_to_large_reads,
    "thousands, and gone": pipelines,
    "writes that dribble": dribbles,
}


@dataclass(frozen=True)
class Row:
    """One kind of hostile clients beside a well-behaved one."""

    kind: str
    timing: str
    reference_ms: float
    beside_ms: float
    worst_s: float
    memory_mib: int
    status_s: float
    end_s: float
    code: int
    answered: bool

    @property
    def ratio(self) -> float:
        """Ratio of the median to that alone, or to that of the model."""
        return self.beside_ms / max(self.reference_ms, 1e-6)

    def missed(self) -> list[str]:
        """The bounds that the row misses."""
        bounds = {
            "median": self.ratio <= MOST_RATIO,
            "slowest command": self.worst_s <= MOST_COMMAND_S,
            "memory": self.memory_mib <= MOST_MEMORY_MIB,
            "status": self.status_s <= MOST_COMMAND_S,
            "SIGTERM": self.end_s <= MOST_END_S,
            "exit code": self.code == 0,
            "requests unanswered at SIGTERM": self.answered,
        }
        return [name for name, holds in bounds.items() if not holds]


class Server:
    """``skylight serve`` in a process of its own."""

    def __init__(self, folder: Path, timing: str) -> None:
        """Starts it; it listens when this returns."""
        self.path, self.log, self.control = folder / "s", folder / "log", folder / "image.serve.sock"
        command = [sys.executable, "-c", "from skylight.cli import main; main()", "serve", DRIVE[timing]]
        command += ["--image", str(folder / "image"), "--nbd", f"unix:{self.path}", "--timing", timing]
        command += ["--write-cache", "on"]
        if timing == "model":
            command += ["--log", str(self.log)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(600):
            # The socket exists a moment before it listens.
            with suppress(OSError):
                greet(self.path).close()
                return
            time.sleep(0.05)
        raise SystemExit("the server does not begin to listen")

    def memory_mib(self) -> int:
        """Peak memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10

    def status_s(self) -> float:
        """Latency of a status query, s."""
        from skylight import _native

        began = time.monotonic()
        _native.serve_status(self.control)
        return time.monotonic() - began

    def end(self) -> tuple[float, int]:
        """Sends SIGTERM; returns the time to the end, s, and the exit code."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return time.monotonic() - began, code


def last_answers(client: socket.socket, count: int) -> bool:
    """Whether all requests sent before SIGTERM are answered."""
    client.settimeout(MOST_END_S)
    try:
        for _ in range(count):
            _, error, cookie = _REPLY.unpack(take(client, _REPLY.size))
            if not error and cookie >= 1000:
                take(client, BLOCK)
    except (OSError, struct.error):
        return False
    return True


def ask_at_the_end(good: Good) -> int:
    """Sends requests that are in flight at SIGTERM; returns their number."""
    words = [request(READ, at * 1000 * BLOCK, BLOCK, 1000 + at) for at in range(24)]
    good.client.sendall(b"".join(words))
    return len(words)


def measure(kind: str, timing: str, clients: int, seconds: float) -> Row:
    """One row."""
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name), timing)
        hostile = Hostile(server.path, clients, threading.Event(), [])
        try:
            good = Good(server.path)
            good.latencies(seconds / 4)
            alone = good.latencies(seconds)
            KINDS[kind](hostile)
            beside = Good(server.path)
            took = beside.latencies(seconds)
            status_s = server.status_s()
            memory = server.memory_mib()
            asked = ask_at_the_end(beside)
            time.sleep(0.05)
            answers: list[bool] = []
            reader = threading.Thread(target=lambda: answers.append(last_answers(beside.client, asked)))
            reader.start()
            hostile.over.set()
            end_s, code = server.end()
            reader.join()
            model = model_times(server.log, len(took)) if timing == "model" else None
            worst = max(took) if model is None else max(map(sub, took, model))
            reference_ms, beside_ms = (statistics.median(each) * 1e3 for each in (model or alone, took))
            return Row(
                kind, timing, reference_ms, beside_ms, worst, memory, status_s, end_s, code, answers == [True]
            )
        finally:
            hostile.over.set()
            for client in hostile.held:
                client.close()
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait()


def model_times(log: Path, count: int) -> list[float]:
    """The model's latencies of the last commands of the well-behaved client, s.

    They come one by one, so they are in the log in the order in which it asked.
    """
    model = []
    for line in log.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[5] == "ok" and int(fields[2]) >= OWN_FROM:
            model.append(float(fields[7]) / 1e6)
    if len(model) < count:
        raise SystemExit(f"{log}: lacks commands of the well-behaved client")
    return model[-count:]


def show(row: Row) -> None:
    """Prints a row."""
    missed = row.missed()
    print(
        f"{row.timing:6} {row.kind:26} median {row.reference_ms:8.3f} -> {row.beside_ms:8.3f} ms"
        f" (x{row.ratio:5.2f})"
        f"  worst {row.worst_s:6.3f} s  memory {row.memory_mib:4} MiB  status {row.status_s:5.2f} s"
        f"  SIGTERM {row.end_s:5.2f} s{'' if not missed else '  MISSED: ' + ', '.join(missed)}",
        flush=True,
    )


def main() -> int:
    """Runs the kinds and timings that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=256, help="number of hostile clients")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--kinds", help=f"separated by |, by their first words; of {'; '.join(KINDS)}")
    parser.add_argument("--timings", default="none,model")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    wanted = options.kinds.split("|") if options.kinds else [""]
    kinds = [kind for kind in KINDS if any(kind.startswith(start) for start in wanted)]
    rows = []
    for timing in options.timings.split(","):
        for kind in kinds:
            rows.append(measure(kind, timing, options.clients, options.seconds))
            show(rows[-1])
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return 1 if any(row.missed() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
