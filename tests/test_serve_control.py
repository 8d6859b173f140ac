"""The control socket of a served drive: status, settings, and what may lie in its place.

Hostile clients of it: crates/serve/tests/control.rs.
"""

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbd_client import NbdError
from serving import PATIENCE_S, SKYLIGHT, Served, need_native, run, small_profile

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture(scope="module")
def native() -> None:
    need_native()


def refused(*words: object) -> str:
    """The one line of a command that is wrongly used; exit code 2."""
    done = subprocess.run(
        [*SKYLIGHT, *map(str, words)], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    return done.stderr


def status(where: object) -> dict[str, object]:
    """What ``skylight status`` says."""
    found: dict[str, object] = json.loads(run([*SKYLIGHT, "status", str(where), "--json"]))
    return found


def test_a_server_is_asked_by_image_control_socket_and_data_socket(tmp_path: Path) -> None:
    with Served(tmp_path, small_profile(tmp_path, "conventional"), "--nbd", "tcp:localhost:0") as served:
        assert stat.S_ISSOCK(served.control.lstat().st_mode)
        for where in (
            served.image,
            served.control,
            f"unix:{served.control}",
            served.socket,
            f"unix:{served.socket}",
        ):
            assert status(where)["name"] == "small", where
        assert "where the data goes" in refused("status", "tcp:localhost:10809")
        # The protocol as the page has it.
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(str(served.control))
            client.sendall(
                b'{"request": "status"}\n{"request": "set", "setting": "fail", "value": "rate=2"}\n'
            )
            lines = client.makefile("rb")
            assert json.loads(lines.readline())["status"]["schema"] == 1
            said = {"ok": False, "error": "rate 2: use a number from 0 to 1"}
            assert json.loads(lines.readline()) == said
        served.stop()
    assert not served.control.exists()
    assert "is not served" in refused("status", served.image)


def test_delays_and_faults_are_changed_while_a_drive_is_served(tmp_path: Path) -> None:
    control = [*SKYLIGHT, "control", str(tmp_path / "disk.img")]
    profile = small_profile(tmp_path, "conventional")
    with Served(tmp_path, profile, "--delay-read", "0", "--fail", "rate=0") as served:
        client = served.client()
        client.write(0, b"\x01" * 512)
        said = run([*control, "--fail", "op=write,error=ENOSPC", "--delay-read", "1.5"])
        assert said.splitlines() == ["delay-read 1.5 ms", "commands fail at rate 1 with ENOSPC"]
        with pytest.raises(NbdError) as failed:
            client.write(0, b"\x02" * 512)
        assert failed.value.errno == 28
        assert client.read(0, 512) == b"\x01" * 512
        drive = served.status()["drive"]
        assert drive["delays_ms"] == {"read": 1.5, "write": 0.0}
        assert (drive["faults"]["ops"], drive["faults"]["error"]) == (["write"], "ENOSPC")
        run([*control, "--fail", "off"])
        client.write(0, b"\x02" * 512)
        assert "not an operation" in refused("control", served.image, "--fail", "op=erase")
        assert "say what to change" in refused("control", served.image)
        assert "raw shingled" in refused("control", served.image, "--read-mode", "data")
        served.stop()
    with Served(tmp_path, profile) as served:
        assert "started without faults" in refused("control", served.image, "--fail", "rate=1")
        assert "started without delays" in refused("control", served.image, "--delay-write", "1")


def test_a_server_that_requires_tls_is_asked(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [need_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
    run(made)
    tls = ["--tls-cert", str(cert), "--tls-key", str(key), "--tls-required", "--delay-read", "0"]
    with Served(tmp_path, small_profile(tmp_path, "conventional"), *tls) as served:
        assert status(served.image)["name"] == "small"
        assert status(f"unix:{served.socket}")["name"] == "small"
        run([*SKYLIGHT, "control", str(served.image), "--delay-read", "2"])
        assert served.status()["drive"]["delays_ms"]["read"] == 2.0


def test_what_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    profile = small_profile(tmp_path, "conventional")
    with Served(tmp_path, profile) as served:
        served.stop(signal.SIGKILL)
    assert served.control.exists()
    assert "no skylight server answers" in refused("status", served.image)
    with Served(tmp_path, profile) as served:
        assert status(served.image)["name"] == "small"
        other = [
            "--image",
            tmp_path / "other.img",
            "--nbd",
            f"unix:{tmp_path / 'o'}",
            "--control",
            served.control,
        ]
        assert "another server" in refused("serve", profile, *other)
        assert status(served.image)["name"] == "small"


@pytest.mark.parametrize("given", [False, True])
def test_a_planted_link_is_refused(tmp_path: Path, given: bool) -> None:
    profile, target = small_profile(tmp_path, "conventional"), tmp_path / "somebodys"
    target.write_text("precious", encoding="utf-8")
    control = tmp_path / ("c" if given else "disk.img.serve.sock")
    control.symlink_to(target)
    words = ["--image", tmp_path / "disk.img", "--nbd", f"unix:{tmp_path / 's'}"]
    words += ["--control", control] if given else []
    assert "is not a socket" in refused("serve", profile, *words)
    assert target.read_text(encoding="utf-8") == "precious" and control.is_symlink()
    control.unlink()


def test_where_no_control_socket_can_be_the_drive_is_served_without(tmp_path: Path) -> None:
    profile, image = small_profile(tmp_path, "conventional"), "i" * 120
    with Served(tmp_path, profile, image=image) as served:
        assert [line for line in served.said if "--control PATH" in line]
        assert "without a control socket" in refused("status", served.image)
        assert served.client().size > 0
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with Served(tmp_path, profile, "--control", str(deep / "c"), image=image) as served:
        assert status(served.image)["name"] == "small", "the path of a socket may be long"
    missing = [
        "--control",
        str(tmp_path / "none" / "c"),
        "--image",
        tmp_path / "x",
        "--nbd",
        f"unix:{tmp_path / 'x.s'}",
    ]
    done = subprocess.run(
        [*SKYLIGHT, "serve", str(profile), *map(str, missing)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 4 and done.stderr.count("\n") == 1, done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_strangers_server_is_not_believed(tmp_path: Path) -> None:
    from skylight import _native

    with Served(tmp_path, small_profile(tmp_path, "conventional")) as served:
        assert _native.serve_status(served.control, [0])
        with pytest.raises(_native.ServeError, match="belongs to user 0"):
            _native.serve_status(served.control, [4321])
