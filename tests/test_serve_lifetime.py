"""``skylight serve`` in one step: a command, a block device, systemd, and a start that fails."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, lacking
from loop_mount import need_fuse
from nbd_client import NbdClient
from serving import PATIENCE_S, SKYLIGHT, Served, need_native, run, small_profile, wait_for
from skylight.cli import attach
from skylight.cli.status_words import Rates, cache_words, lateness_words

NeedTool = Callable[[str], str]


@pytest.fixture(autouse=True)
def native() -> None:
    need_native()


def serve(folder: Path, *options: str, image: str = "d.img") -> subprocess.CompletedProcess[str]:
    profile = small_profile(folder, "journaled")
    command = [*SKYLIGHT, "serve", str(profile), "--image", str(folder / image), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def is_running(number: int) -> bool:
    try:
        # The state stands behind the name in brackets (proc_pid_stat(5)).
        state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_command_gets_the_drive_and_gives_the_exit_code(tmp_path: Path, need_tool: NeedTool) -> None:
    need_tool("nbdinfo")
    pidfile = tmp_path / "pid"
    done = serve(
        tmp_path, "--pidfile", str(pidfile),
        "--run", f'nbdinfo --size "$uri"; test -S "$unixsocket" && cat {pidfile} && echo "$NBD_URI"; exit 7',
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    size, number, uri = done.stdout.split()
    assert (size, int(number) > 1, uri.startswith("nbd+unix:///")) == (str(256 << 20), True, True)
    assert not pidfile.exists()
    ended = serve(tmp_path, "--run", "kill -KILL $$")
    assert ended.returncode == 128 + signal.SIGKILL


def test_standard_output_is_the_commands_own(tmp_path: Path) -> None:
    assert serve(tmp_path, "--run", "true").returncode == 0
    (tmp_path / "d.img").chmod(0o644)
    done = serve(tmp_path, "--run", "echo mine")
    assert done.stdout == "mine\n"
    assert "has mode 0644" in done.stderr


def test_a_signal_ends_the_command_and_what_it_started(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    profile = small_profile(tmp_path, "journaled")
    command = f"sleep 600 & echo $! > {begun}.new; mv {begun}.new {begun}; sleep 600; true"
    with subprocess.Popen(
        [*SKYLIGHT, "serve", str(profile), "--image", str(tmp_path / "d.img"), "--run", command]
    ) as process:
        wait_for(begun.exists, "the command runs")
        process.terminate()
        assert process.wait(PATIENCE_S) == 130
    assert not is_running(int(begun.read_text(encoding="ascii")))
    assert run([*SKYLIGHT, "image", "check", str(tmp_path / "d.img")])


def test_systemd_is_told_when_clients_can_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with Served(tmp_path, small_profile(tmp_path, "journaled")) as served:
            assert channel.recv(200).startswith(b"READY=1\n")
            NbdClient(served.socket).close()
            assert served.stop()[0] == 0
        assert channel.recv(200) == b"STOPPING=1"


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, need_tool: NeedTool) -> None:
    text = (ROOT / "packaging/wheel/data/share/skylight/skylight@.service").read_text(encoding="utf-8")
    # systemd wants to see the program.
    unit = tmp_path / "skylight@.service"
    unit.write_text(text.replace("/usr/local/bin/skylight", "/bin/true"), encoding="utf-8")
    found = subprocess.run(
        [need_tool("systemd-analyze"), "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    said = [line for line in found.stderr.splitlines() if "skylight@" in line]
    assert found.returncode == 0 and not said, found.stderr
    options = re.findall(r" (--[a-z-]+)", text.partition("ExecStart=")[2].splitlines()[0])
    offered = run([*SKYLIGHT, "serve", "--help"])
    assert options and all(f"{option} " in offered for option in options)


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--nbd", "unix:/nonexistent/s"], 4, "cannot listen"),
        (["--log", "/nonexistent/log", "--run", "true"], 4, "choose another --log"),
        (["--look-ahead", "on", "--run", "true"], 2, "--timing model"),
        (["--pidfile", "/nonexistent/pid", "--run", "true"], 4, "choose another --pidfile"),
        (["--read-mode", "data", "--run", "true"], 2, "need a raw shingled drive"),
        ([], 2, "give --nbd"),
        # That this has no root, or TLS, is said before the certificate is looked for.
        (["--attach", "--tls-cert", "/nonexistent/c", "--tls-key", "/nonexistent/k"], 2, "--attach: "),
    ],
)
def test_a_start_that_fails_leaves_no_image_behind(
    options: list[str], code: int, why: str, tmp_path: Path
) -> None:
    # A file of another's, with the name that a part of the image would have.
    (tmp_path / "d.img.1").write_text("kept", encoding="ascii")
    done = serve(tmp_path, *options)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1) and why in done.stderr, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.img.1", "journaled.toml"]
    # One that was there before stays.
    assert serve(tmp_path, "--run", "true").returncode == 0
    serve(tmp_path, *options)
    assert (tmp_path / "d.img").exists()
    assert (tmp_path / "d.img.1").read_text(encoding="ascii") == "kept"


def test_look_ahead_is_switched(tmp_path: Path) -> None:
    """A read that continues another comes from the buffer, if the drive reads ahead."""
    profile = small_profile(tmp_path, "conventional")
    text = profile.read_text(encoding="utf-8").replace("[interface]", '[interface]\nread_buffer = "16 MiB"')
    profile.write_text(text.replace("[interface]", "[interface]\nlook_ahead = false", 1), encoding="utf-8")
    times = {}
    for setting in ("on", "off"):
        log = tmp_path / f"{setting}.log"
        with Served(
            tmp_path, profile, "--timing", "model", "--look-ahead", setting, "--log", str(log),
            image=f"{setting}.img",
        ) as served:  # fmt: skip
            client = served.client()
            for block in range(40):
                client.read(block * 4096, 4096)
            served.stop()
        last = [line.split()[-1] for line in log.read_text(encoding="utf-8").splitlines() if " read " in line]
        times[setting] = sorted(int(re.sub(r"\D", "", each)) for each in last)[len(last) // 2]
    assert times["on"] < times["off"] / 2, times


def test_what_attaching_lacks_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(attach, "_SEARCHED", str(tmp_path))
    monkeypatch.setattr(attach, "_NODES", {"/dev/nonexistent": "fuse"})
    assert attach._missing() == [
        "nbdfuse (apt install libnbd-bin)",
        "losetup (apt install mount)",
        "umount (apt install mount)",
        "/dev/nonexistent (modprobe fuse)",
    ]


def test_the_kernels_client_is_given_a_device_that_nobody_uses(tmp_path: Path) -> None:
    for name, used in (("nbd0", True), ("nbd1", False)):
        (tmp_path / name).mkdir()
        if used:
            (tmp_path / name / "pid").write_text("1", encoding="ascii")
    # Without the module the node of the free one is missing, and it cannot be used.
    expected = Path("/dev/nbd1") if Path("/dev/nbd1").is_block_device() else None
    assert attach._free_nbd(tmp_path) == expected


def attachable(need_tool: NeedTool) -> None:
    """A machine on which a drive becomes a block device through FUSE."""
    need_tool("nbdfuse")
    need_fuse()
    if os.geteuid() != 0:
        lacking("only root has loop devices")
    free = subprocess.run([need_tool("losetup"), "-f"], capture_output=True, text=True, check=False)
    if not Path(free.stdout.strip()).is_block_device():
        lacking(f"no loop device can be had here: {free.stdout}{free.stderr}")


@pytest.mark.parametrize("is_used", [False, True])
def test_what_a_killed_server_left_is_taken_down_by_the_next(
    is_used: bool, tmp_path: Path, need_tool: NeedTool
) -> None:
    """As systemd starts it again: unless the device is still in use, which is said, and then later."""
    attachable(need_tool)
    # Short: the path of a socket lies below it.
    folder = Path(tempfile.mkdtemp(prefix="attach-"))
    command = [*SKYLIGHT, "serve", str(small_profile(tmp_path, "journaled")), "--attach"]
    command += ["--image", str(tmp_path / "d.img")]

    def begun() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    assumed = {path: path.read_text() for path in Path("/sys/block").glob("loop*/queue/write_cache")}
    first, left = begun()
    assert left, first.communicate()[1]
    cache = Path("/sys/block", Path(left).name, "queue/write_cache")
    assert cache.read_text() == "write through\n"
    user = os.open(left, os.O_RDONLY | os.O_EXCL) if is_used else None
    first.kill()
    first.communicate()
    second, device = begun()
    try:
        assert device, second.communicate()[1]
        if user is not None:
            assert str(folder) in run([need_tool("losetup"), left])
            os.close(user)
    finally:
        second.terminate()
        said = second.communicate(timeout=PATIENCE_S)[1]
    assert f"{left}: an earlier server was killed" in said
    assert ("unmount it" in said) == is_used and ("has been taken down" in said) != is_used
    third, device = begun()
    assert device, third.communicate()[1]
    third.terminate()
    assert ("has been taken down" in third.communicate(timeout=PATIENCE_S)[1]) == is_used
    assert str(folder) not in run([need_tool("losetup"), "-a"])
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
    # nbdfuse leaves the folder of its socket to the server, which had no time; nothing else is left.
    assert [path for path in folder.iterdir() if not (path / "nbd.sock").exists()] == []
    assert not list(tmp_path.glob("*.attached.json"))
    assert cache.read_text() == assumed.get(cache, "write back\n")
    shutil.rmtree(folder)


def test_a_drive_becomes_a_block_device_and_goes(tmp_path: Path, need_tool: NeedTool) -> None:
    attachable(need_tool)
    # Short: the path of a socket lies below it.
    folder = Path(tempfile.mkdtemp(prefix="attach-"))
    profile = small_profile(tmp_path, "journaled")
    command = [*SKYLIGHT, "serve", str(profile), "--image", str(tmp_path / "d.img"), "--attach"]
    with subprocess.Popen(
        [*command, "--write-cache", "off"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        device = process.stdout.readline().strip()
        assert device, process.communicate()[1]
        try:
            cache = Path("/sys/block", Path(device).name, "queue/write_cache")
            assert cache.read_text(encoding="ascii").strip() == "write through"
            words = os.urandom(1 << 20)
            with open(device, "r+b", buffering=0) as disk:
                assert disk.write(words) == len(words)
                os.fsync(disk)
                process.terminate()
                # Its user is waited for.
                assert "still in use" in process.stderr.readline()
            out, words_of_it = process.communicate(timeout=PATIENCE_S)
            assert out == "" and "durable" in words_of_it
            assert process.returncode == 0
        finally:
            process.kill()
    # By what lies behind it: its number may be another's by now.
    assert str(folder) not in run([need_tool("losetup"), "-a"])
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
    folder.rmdir()  # it is empty
    assert str(folder) not in run([need_tool("ps"), "-eo", "args"])
    copied = serve(tmp_path, "--run", f'nbdcopy "$uri" {tmp_path}/copy')
    assert copied.returncode == 0 or shutil.which("nbdcopy") is None
    assert (tmp_path / "copy").read_bytes()[: 1 << 20] == words


def test_the_words_of_a_status() -> None:
    image = {"cache_live_bytes": 3 << 20, "cache_fill": 0.25, "cache_map_entries": 700, "cleaning": True}
    assert cache_words({**image, "cache_map_limit": 1000}) == [
        "3 MiB in the cache", "25 % full", "700 map entries of 1,000", "cleaning",
    ]  # fmt: skip
    assert cache_words({"cache_live_bytes": 0}) == ["0 B in the cache"]
    rates = Rates()
    at = {"requests": {"commands": {"read": 5, "write": 0}, "bytes": {"read": 4096, "write": 0}}}
    later = {"requests": {"commands": {"read": 205, "write": 0}, "bytes": {"read": 4_004_096, "write": 0}}}
    assert rates.words(at, 10.0) == []
    assert rates.words(later, 12.0) == ["100 reads/s with 2 MB/s"]
    assert rates.words(later, 13.0) == []
    # The classes end at powers of two: the slowest answer of all is not slower than their end.
    late = lateness_words({"p50_us": 8, "p99_us": 1024, "worst_us": 900})
    assert late == "answers late by up to 8.00 µs (half of them), 900 µs (99 %), 900 µs (all)"


@pytest.mark.parametrize("cleans", [False, True])
def test_the_status_says_how_full_the_cache_is(cleans: bool, tmp_path: Path) -> None:
    """100 slots of 32 KiB: 20 lone blocks take 20 of them, until the drive cleans."""
    profile = small_profile(tmp_path, "journaled")
    if not cleans:
        text = profile.read_text(encoding="utf-8")
        lazy = text.replace('cleaning = "aggressive"\nidle = "0.1 s"', 'cleaning = "lazy"')
        assert lazy != text
        profile.write_text(lazy, encoding="utf-8")
    with Served(tmp_path, profile, "--timing", "model") as served:
        client = served.client()
        for block in range(20):
            client.write(block * (8 << 20), bytes(4096))
        if cleans:
            wait_for(lambda: served.status()["drive"]["image"]["cache_fill"] == 0, "idle cleaning empties it")
            return
        image = served.status()["drive"]["image"]
        found = (image["cache_fill"], image["cache_map_entries"], image["cache_map_limit"], image["cleaning"])
        assert found == (0.2, 20, 400, False)
        assert "20 % full, 20 map entries of 400" in run([*SKYLIGHT, "status", served.known_as])
