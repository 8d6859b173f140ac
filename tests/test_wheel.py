"""The wheel that `make wheel` builds works in a bare environment, without Rust and without this tree."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.long
def test_a_wheel_installed_alone_gives_a_verdict(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    # The environment of these tests has been set up; what runs them builds the wheel.
    command = ["make", "--old-file=setup", "wheel", f"BIN={tools}", f"PYO3_PYTHON={sys.executable}"]
    subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = (ROOT / "target/wheels").glob("skylight-*.whl")
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_\w+\.whl$", wheel.name)
    venv.create(tmp_path / "bare", with_pip=True)
    programs = tmp_path / "bare/bin"
    bare = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)}
    install = [str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, env={**os.environ, **bare}, cwd=tmp_path, check=True)
    probe = ["skylight", "probe", "sim:st4000nc001", "--quick", "--json", "--expect", "cmr"]
    done = subprocess.run(
        [str(programs / probe[0]), *probe[1:]],
        env=bare,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"]["drive_type"]["value"] == "cmr"
    assert (tmp_path / "skylight-report/st4000nc001/report.html").exists()
    assert (programs.parent / "share/skylight/skylight@.service").exists()
    _check_man_pages(programs, bare)


def _check_man_pages(programs: Path, bare: dict[str, str]) -> None:
    """pip installed the pages where `man` looks for those of a program on the PATH."""
    pages = programs.parent / "share/man/man1"
    assert {"skylight.1", "skylight-probe.1", "skylight-camera-track.1"} <= {p.name for p in pages.iterdir()}
    assert not (pages / ".gitignore").exists()
    reader = shutil.which("man")
    if reader is not None:
        where = subprocess.run(
            [reader, "-w", "skylight-probe"], env=bare, capture_output=True, text=True, check=True
        )
        assert where.stdout == f"{pages / 'skylight-probe.1'}\n"
    made = subprocess.run(
        [str(programs / "python"), "-m", "skylight.cli.man", "made"],
        env=bare,
        cwd=programs.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.returncode, made.stderr.count("\n")) == (2, 1), made.stderr
    assert "click-man" in made.stderr and str(pages) in made.stderr
