"""Our unit under a real systemd: readiness, SIGKILL, stop, and starts that fail."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from loop_mount import need_fuse
from nbd_client import NbdClient
from serving import SKYLIGHT, need_native, run, small_profile, wait_for
from systemd_container import Container, container

NeedTool = Callable[[str], str]


@pytest.fixture(scope="module")
def systemd(tmp_path_factory: pytest.TempPathFactory, need_tool: NeedTool) -> Iterator[Container]:
    need_native()
    with container(tmp_path_factory.mktemp("systemd"), need_tool) as made:
        yield made


def configured(systemd: Container, name: str, options: str = "", drive: str | None = None) -> str:
    """A drive as a service; the unit's name."""
    profile = drive or str(small_profile(systemd.conf, "journaled"))
    text = f"DRIVE={profile}\n" + (f"OPTIONS={options}\n" if options else "")
    (systemd.conf / f"{name}.conf").write_text(text, encoding="utf-8")
    return f"skylight@{name}.service"


def client(systemd: Container, name: str) -> NbdClient:
    return NbdClient(systemd.inside(f"/run/skylight/{name}.sock"))


def killed(systemd: Container, unit: str) -> None:
    """SIGKILL to the server, and the wait until systemd has it running again."""
    restarts = int(systemd.shown(unit, "NRestarts"))
    systemd.run("systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", unit)
    wait_for(lambda: int(systemd.shown(unit, "NRestarts")) > restarts, "systemd starts it again")
    wait_for(lambda: systemd.shown(unit, "ActiveState") == "active", "the server is ready again")


def test_it_is_active_once_clients_can_connect_and_keeps_durable_data(systemd: Container) -> None:
    unit = configured(systemd, "kept", "--timing model")
    systemd.run("systemctl", "start", "--no-block", unit)
    states = set[str]()

    def is_active() -> bool:
        states.add(systemd.shown(unit, "ActiveState"))
        return "active" in states

    wait_for(is_active, "the unit is active")
    words = os.urandom(1 << 20)
    with closing(client(systemd, "kept")) as first:  # at once
        assert "activating" in states, states
        first.write(8 << 20, words)
        first.flush()
        killed(systemd, unit)
    with closing(client(systemd, "kept")) as second:
        assert second.read(8 << 20, len(words)) == words
    assert "serving" in systemd.shown(unit, "StatusText")
    assert "recovered" in systemd.run("journalctl", "-u", unit, "-o", "cat")
    systemd.run("systemctl", "stop", unit)
    assert systemd.shown(unit, "Result") == "success"
    assert not list(systemd.inside("/run/skylight").glob("kept*"))
    assert "good" in run([*SKYLIGHT, "image", "check", str(systemd.state / "kept.img")])


def test_a_start_that_fails_says_why_and_is_not_repeated(systemd: Container) -> None:
    unit = configured(systemd, "wrong", drive="st5000as0012")
    systemd.run("systemctl", "start", unit, code=1)
    assert (systemd.shown(unit, "ActiveState"), systemd.shown(unit, "NRestarts")) == ("failed", "0")
    assert "no drive is called 'st5000as0012'" in systemd.run("systemctl", "status", "-l", unit, code=3)
    assert not list(systemd.state.glob("wrong*"))


def test_a_start_that_fails_for_the_machine_is_repeated_and_then_given_up(systemd: Container) -> None:
    """A folder that is missing may come, as one of another machine does."""
    unit = configured(systemd, "unlogged", "--log /nonexistent/log")
    systemd.run("systemctl", "start", unit, code=1)
    wait_for(lambda: systemd.shown(unit, "ActiveState") == "failed", "systemd gives up")
    assert systemd.shown(unit, "NRestarts") == "5"
    said = systemd.run("systemctl", "status", "-l", unit, code=3)
    assert "choose another --log" in said and "repeated too quickly" in said, said


def test_an_attached_drive_leaves_no_device(systemd: Container, need_tool: NeedTool) -> None:
    need_tool("nbdfuse")
    need_fuse()
    unit = configured(systemd, "disk", "--attach")
    systemd.run("systemctl", "start", unit)

    def devices() -> list[str]:
        said = systemd.run("journalctl", "-u", unit, "-o", "cat").splitlines()
        return [line for line in said if line.startswith("/dev/") and " " not in line]

    def behind(device: str) -> Path:
        return Path("/sys/block", Path(device).name, "loop/backing_file")

    wait_for(lambda: len(devices()) == 1, "the journal has the device")  # it may come after the start is over
    (first,) = devices()
    assert behind(first).exists()
    killed(systemd, unit)
    wait_for(lambda: len(devices()) == 2, "the journal has the second device")
    _, second = devices()
    assert f"{first}: an earlier server was killed" in systemd.run("journalctl", "-u", unit, "-o", "cat")
    assert behind(second).exists() and (first == second or not behind(first).exists())
    systemd.run("systemctl", "stop", unit)
    assert systemd.shown(unit, "Result") == "success"
    assert not behind(second).exists()
    assert "skylight-" not in systemd.run("cat", "/proc/self/mounts")
    assert "good" in run([*SKYLIGHT, "image", "check", str(systemd.state / "disk.img")])
