"""Passes NBD on between a client and a server, and holds back each command for a time that it draws evenly.

So a host is imitated that takes this long between the completion of a command and the next: to the drive the
commands arrive later, and to the client they take longer. Replies are passed on at once.

When a client goes, how long its commands were held back in fact is written to ``OWN.N.said``.

Source: the NBD protocol, doc/proto.md of its repository: "Newstyle negotiation", "Request message".

``nbd_delay_proxy.py LEAST-MOST SOCKET OWN``: microseconds, the server's socket, and that of the proxy.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from statistics import quantiles

SEED = 1
SAID = ".said"
OPTION, REQUEST = b"IHAVEOPT", struct.pack(">I", 0x25609513)
OPTION_HEADER = struct.Struct(">8sII")
REQUEST_HEADER = struct.Struct(">4sHHQQI")
WRITE = 1
CLIENT_FLAGS_BYTES = 4
PIECE_BYTES = 1 << 20


def passed_on(come: socket.socket, go: socket.socket) -> None:
    """Passes everything on until the one end closes."""
    while piece := come.recv(PIECE_BYTES):
        go.sendall(piece)


class Ended(Exception):
    """The client has gone."""


def exactly(come: socket.socket, count: int) -> bytes:
    """The next `count` bytes. Raises `Ended`."""
    got = bytearray()
    while len(got) < count:
        piece = come.recv(count - len(got))
        if not piece:
            raise Ended
        got += piece
    return bytes(got)


def commands(come: socket.socket, go: socket.socket, least_us: float, most_us: float) -> list[float]:
    """Passes what a client says on until it goes; how long each command was held back, us."""
    draw = random.Random(SEED)
    held: list[float] = []
    go.sendall(exactly(come, CLIENT_FLAGS_BYTES))
    try:
        while True:
            begin = exactly(come, len(REQUEST))
            came = time.monotonic()
            if begin == REQUEST:
                words = begin + exactly(come, REQUEST_HEADER.size - len(begin))
                _, _, op, _, _, length = REQUEST_HEADER.unpack(words)
                words += exactly(come, length) if op == WRITE else b""
                due = came + draw.uniform(least_us, most_us) / 1e6
                time.sleep(max(due - time.monotonic(), 0))
                go.sendall(words)
                held.append((time.monotonic() - came) * 1e6)
            else:
                words = begin + exactly(come, OPTION_HEADER.size - len(begin))
                magic, _, length = OPTION_HEADER.unpack(words)
                assert magic == OPTION, words
                go.sendall(words + exactly(come, length))
    except Ended:
        return held


def relayed(client: socket.socket, at: str, least_us: float, most_us: float) -> list[float]:
    """One client from its first word to its last; how long each command was held back, us."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(at)
    # The two directions do not wait for each other in one interpreter.
    replies = os.fork()
    if replies == 0:
        passed_on(server, client)
        os._exit(0)
    held = commands(client, server, least_us, most_us)
    server.shutdown(socket.SHUT_RDWR)
    os.waitpid(replies, 0)
    return held


def said(held: list[float]) -> str:
    """How long commands were held back."""
    if len(held) < 2:
        return f"{len(held)} commands"
    cuts = quantiles(held, n=100)
    return (
        f"{len(held)} commands held back for {min(held):.0f} us at least, {cuts[49]:.0f} in the median,"
        f" {cuts[98]:.0f} in 99 %, {max(held):.0f} at most"
    )


def main() -> None:
    """Serves clients, each in a process of its own, until SIGTERM; all are gone by then."""
    least_us, most_us = (float(word) for word in sys.argv[1].split("-"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[3])
    listener.listen()
    signal.signal(signal.SIGTERM, lambda *_: listener.close())
    signal.siginterrupt(signal.SIGTERM, True)
    clients: list[int] = []
    while listener.fileno() >= 0:
        try:
            client, _ = listener.accept()
        except OSError:
            break
        number = len(clients)
        clients.append(os.fork())
        if clients[-1] == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            text = said(relayed(client, sys.argv[2], least_us, most_us))
            Path(f"{sys.argv[3]}.{number}{SAID}").write_text(text, encoding="utf-8")
            os._exit(0)
        client.close()
    for process in clients:
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
