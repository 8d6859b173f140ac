"""The files of a served drive: modes, the note, and what is left of an image that was being made."""

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import lacking
from serving import PATIENCE_S, SKYLIGHT, Served, need_native, rounds, run, small_profile
from skylight.cli.endpoint_note import control_of, find_note, note_of, noted, read_note


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    need_native()
    before = os.umask(0)
    try:
        with Served(tmp_path, small_profile(tmp_path, "conventional")) as served:
            assert mode(served.image) == 0o600
            assert mode(note_of(served.image)) == 0o600
            assert mode(control_of(served.image)) == 0o600
            assert not [said for said in served.said if "has mode" in said]
            served.stop()
            assert not note_of(served.image).exists()
            assert not control_of(served.image).exists()
            served.image.chmod(0o644)
    finally:
        os.umask(before)
    with Served(tmp_path, "-") as served:
        assert mode(served.image) == 0o644, "somebody chose that"
        assert [said for said in served.said if "has mode 0644" in said and "chmod 600" in said]


def test_a_note_follows_no_link_and_removes_only_its_own(tmp_path: Path) -> None:
    image, target = tmp_path / "disk.img", tmp_path / "somebodys"
    image.touch()
    target.write_text("precious", encoding="utf-8")
    note = note_of(image)
    note.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        read_note(image)
    with noted(image, ["unix:/a"], Path("/c")):
        assert target.read_text(encoding="utf-8") == "precious"
        assert not note.is_symlink()
        assert (read_note(image).endpoints, read_note(image).control) == (("unix:/a",), Path("/c"))
        note.unlink()
        said = {"pid": 1, "endpoints": ["unix:/b"], "control": "/d"}
        note.write_text(json.dumps(said), encoding="utf-8")
    assert read_note(image).control == Path("/d"), "another server's"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk.img", note.name, "somebodys"]


def test_a_note_is_found_by_the_socket_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    image = tmp_path / "disk.img"
    image.touch()
    (tmp_path / "broken.serve.json").write_text("{", encoding="utf-8")
    with noted(image, ["tcp:localhost:1", "unix:s"], Path("c")):
        found = find_note(Path("s"))
        assert found is not None and found.control == tmp_path / "c"
        assert find_note(Path("another")) is None
        if os.geteuid() == 0:
            os.chown(note_of(image), 4321, -1)
            assert find_note(Path("s")) is None, "a stranger's note"


def test_a_note_of_a_stranger_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "disk.img"
    image.touch()
    with noted(image, ["unix:/a"], Path("/c")):
        if os.geteuid() == 0:
            os.chown(note_of(image), 4321, -1)
            with pytest.raises(ValueError, match="belongs to user 4321"):
                read_note(image)
            os.chown(image, 4321, -1)
            assert read_note(image).endpoints == ("unix:/a",), "whose the image is"
        monkeypatch.setattr(os, "fstat", lambda _: os.stat(tmp_path))
        with pytest.raises(ValueError, match="is not a regular file"):
            read_note(image)


def test_killed_while_it_makes_an_image(tmp_path: Path, rng: np.random.Generator) -> None:
    """At any moment: the next server makes it anew, or serves it if it was whole."""
    need_native()
    drive, image = small_profile(tmp_path, "set-associative"), tmp_path / "disk.img"
    serve = [*SKYLIGHT, "serve", str(drive), "--image", str(image), "--nbd", f"unix:{tmp_path / 'k'}"]
    for _ in range(rounds("SKYLIGHT_KILLS", 6)):
        image.unlink(missing_ok=True)
        process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while not image.exists() and time.monotonic() < until:
            time.sleep(0.0002)
        # It takes a few milliseconds, more where a sync does.
        time.sleep(float(rng.uniform(0, 0.015)))
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        (tmp_path / "k").unlink(missing_ok=True)
        with Served(tmp_path, drive) as served:
            client = served.client()
            client.write(0, b"\x07" * 4096)
            assert client.read(0, 4096) == b"\x07" * 4096
            assert served.stop()[0] == 0
        assert "good" in run([*SKYLIGHT, "image", "check", str(image)])
    image.write_bytes(bytes(1 << 20))
    refused = subprocess.run(serve, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert refused.returncode == 2
    assert "is not a skylight image" in refused.stderr
    assert image.read_bytes() == bytes(1 << 20)


@pytest.mark.parametrize("does", ["info", "check", "compact", "repair"])
def test_a_fifo_is_no_image_and_nothing_waits_for_its_other_end(tmp_path: Path, does: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    command = [*SKYLIGHT, "image", does, str(tmp_path / "fifo")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2 and "fifo: is not a skylight image" in done.stderr, done


def test_a_file_system_that_takes_no_writes_is_a_result_that_cannot_be_stored(tmp_path: Path) -> None:
    mount = [
        "unshare",
        "--mount",
        "--",
        "sh",
        "-c",
        f'mount -t tmpfs -o ro none {tmp_path} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        lacking("no file system can be mounted here")
    serve = ["serve", "st4000nc001", "--image", str(tmp_path / "x.img"), "--nbd", "tcp:127.0.0.1:0"]
    done = subprocess.run(
        [*mount, *SKYLIGHT, *serve], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 4, done
    assert done.stderr.splitlines() == [
        f"skylight: {tmp_path}/x.img: cannot create it: Read-only file system"
    ]
