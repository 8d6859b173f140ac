"""A server whose standard streams are closed, full, or read by nobody any more: it serves, and it ends.

Bounds on time are generous: what they are about would last for ever.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nbd_client import NbdClient, NbdError
from serving import SKYLIGHT, need_native, small_profile, wait_for
from test_serve_shingled import SECTOR, TRACK, small

END_S = 10.0
BLOCK = 4096

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture(scope="module")
def native() -> None:
    need_native()


def serve_command(folder: Path, drive: Path, *options: str) -> list[str]:
    return [
        *SKYLIGHT,
        "serve",
        str(drive),
        "--image",
        str(folder / "i"),
        "--nbd",
        f"unix:{folder / 's'}",
        *options,
    ]


def ends(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM ends it in time, as it should."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(timeout=2 * END_S)
    finally:
        process.kill()
    assert code == 0
    assert time.monotonic() - began < END_S


def test_signal_before_the_first_word(tmp_path: Path) -> None:
    """A client may be served, and a signal come, before the command has said anything."""
    early = (
        "import os, signal, sys\n"
        "from skylight.cli import main, serve\n"
        "started = serve._started\n"
        "def interrupted(options):\n"
        "    server = started(options)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return server\n"
        "serve._started = interrupted\n"
        "main(sys.argv[1:])\n"
    )
    options = serve_command(tmp_path, small_profile(tmp_path, "conventional"))[len(SKYLIGHT) :]
    run = subprocess.run([sys.executable, "-c", early, *options], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "stopped; everything is durable" in run.stdout


def first_client(path: Path) -> NbdClient:
    """A client of a server that has just begun: the socket is there a moment before anybody listens."""
    found: list[NbdClient] = []

    def connects() -> bool:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            found.append(NbdClient(path, timeout_s=20))
        return bool(found)

    wait_for(connects, "it listens")
    return found[0]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams(closed: tuple[int, ...], tmp_path: Path) -> None:
    drive = small_profile(tmp_path, "conventional")
    command = serve_command(tmp_path, drive, "--verbose")

    def close_them() -> None:
        for number in closed:
            os.close(number)

    process = subprocess.Popen(command, preexec_fn=close_them)
    try:
        client = first_client(tmp_path / "s")
        client.write(0, b"\x07" * BLOCK)
        client.flush()
        assert client.read(0, BLOCK) == b"\x07" * BLOCK
        client.close()
    finally:
        ends(process)
    # Nothing of what it said lies in the image.
    assert b"skylight: client" not in (tmp_path / "i").read_bytes()[:BLOCK]
    found = subprocess.run(
        [*SKYLIGHT, "image", "check", str(tmp_path / "i")], capture_output=True, check=False
    )
    assert found.returncode == 0, found


def full_pipe() -> tuple[int, int]:
    """A pipe into which nothing more goes."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    try:
        while True:
            os.write(theirs, bytes(1 << 16))
    except BlockingIOError:
        pass
    os.set_blocking(theirs, True)
    return ours, theirs


@pytest.mark.parametrize("gone", [False, True], ids=["unread", "gone"])
@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="+".join)
def test_nobody_reads(streams: tuple[str, ...], gone: bool, tmp_path: Path) -> None:
    """Refused reads of a raw shingled disk each have a line, and clients that come and go."""
    ours, theirs = full_pipe()
    if gone:
        os.close(ours)
    out, err = (theirs if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr"))
    command = serve_command(tmp_path, small(tmp_path, k=4), "--read-mode", "development", "--verbose")
    process = subprocess.Popen(command, stdout=out, stderr=err)
    try:
        client = first_client(tmp_path / "s")
        # A write destroys the tracks behind its own.
        for track in (8, 7, 6):
            client.write(track * TRACK * SECTOR, bytes([track]) * (TRACK * SECTOR))
        refused = 0
        for sector in range(6 * TRACK, 9 * TRACK, 2):
            try:
                client.read(sector * SECTOR, SECTOR)
            except NbdError:
                refused += 1
        assert refused > TRACK // 2, "nothing was refused, so nothing was said"
        client.write(20 * TRACK * SECTOR, b"\x06" * BLOCK)
        assert client.read(20 * TRACK * SECTOR, BLOCK) == b"\x06" * BLOCK, "it goes on"
        client.close()
    finally:
        ends(process)
        os.close(theirs)
        if not gone:
            os.close(ours)


def test_an_error_is_said_without_a_reader(tmp_path: Path) -> None:
    ours, theirs = full_pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", "from skylight.cli import main; main(['serve'])"], stderr=theirs
    )
    try:
        assert process.wait(timeout=30) == 2
    finally:
        process.kill()
        os.close(ours)
        os.close(theirs)
