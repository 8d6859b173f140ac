"""What all tests share: recordings of real drives, system tools, a guest, one seed for everything random.

Invariants: a test that lacks its data or its tool says which and is skipped; with CI set in the environment
it fails instead. Every random choice of a test comes from the seed, which the header of the run and every
failure of a test that used it print; the same seed gives the same choices on any number of workers. The
files that take longest begin first, or the run would end with one of them and an idle processor.
"""

import os
import random
import shutil
import signal
import tempfile
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NoReturn

import hypothesis
import numpy as np
import pytest

from command_line import Call, Ended
from skylight.cli.app import run as run_command
from zoned_guest.boot import Said
from zoned_guest.shared import TOOLS, booted_once

ROOT = Path(__file__).parent.parent
DEFAULT_DATA = ROOT.parent / "shared/data"
# Two workers held half of it in images of drives at once; a run on a full disk fails in many misleading ways.
ROOM_BYTES = 1 << 30
# Files that take longest, s on a quiet machine with two processors, the first of the guest with its boot. A
# run that ended with one of them would leave processors without work meanwhile.
LONG_FILES_S = {
    "test_device_guest.py": 130,
    "test_burn_in.py": 90,
    "test_geometry.py": 65,
    "test_serve.py": 60,
    "test_serve_hostile.py": 52,
    "test_suite.py": 50,
    "test_drive_type.py": 50,
    "test_serve_native.py": 45,
    "test_image_full.py": 40,
    "test_systemd.py": 35,
}

# A loaded machine is no reason to fail, so no deadline; the long profile is for `make test-all`.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--seed N`, or `--seed random` to draw one; `--long`."""
    parser.addoption(
        "--seed", default="1", help="seed of the randomised tests: a number, or 'random' (default: 1)"
    )
    parser.addoption(
        "--long", action="store_true", help="run the tests marked `long` too, as `make test-all` does"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Settles the seed before the workers of xdist start, so that they all get the same one; and SIGINT."""
    config.addinivalue_line("markers", "long: more cases of what a shorter test shows; left to `--long`")
    given = str(config.option.seed)
    if given == "random":
        config.option.seed = str(random.SystemRandom().randrange(1 << 32))
    elif not given.isascii() or not given.isdigit():
        raise pytest.UsageError(f"--seed {given}: give a whole number from 0, or 'random'")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # What a shell runs in the background ignores SIGINT, and so would every program that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        check_room(Path(config.option.basetemp or tempfile.gettempdir()))


def check_room(folder: Path) -> None:
    """Refuses to begin where the tests' files do not fit."""
    free_bytes = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    if free_bytes < ROOM_BYTES:
        raise pytest.UsageError(
            f"{folder} has {free_bytes / 1e9:.1f} GB free, and the tests need {ROOM_BYTES / 1e9:.1f} GB:"
            " free some, or set TMPDIR to a folder with more"
        )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The seed, the place of the recordings, and what is left out."""
    return [
        f"long tests: {'too' if config.option.long else 'left to make test-all (--long)'}",
        f"seed: {config.option.seed} (repeat with --seed {config.option.seed})",
        f"recordings: {_data_path()}",
    ]


@pytest.hookimpl(optionalhook=True)  # of xdist, which a run in one process does without
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: servers, guests and model time leave a third of them waiting."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files first, gives the hypothesis tests the seed too, and leaves out the long tests
    unless they are asked for."""
    items.sort(key=lambda item: -LONG_FILES_S.get(item.path.name, 0))
    left_out = [] if config.option.long else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        if isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.obj):
            hypothesis.seed(int(config.option.seed))(item.function)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps notes of devices out of the user's folder and apart: a killed server leaves one, and the next
    test gets a loop device of the same name. Output is as wide as where nobody said otherwise."""
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path.with_name(f"{tmp_path.name}-state")))
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the seed to the report of a failed test that used it."""
    report = yield
    if report.failed and "seed" in getattr(item, "fixturenames", ()):
        seed = item.config.option.seed
        report.sections.append(("seed", f"repeat with: pytest '{item.nodeid}' --seed {seed}"))
    return report


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run."""
    return int(request.config.option.seed)


@pytest.fixture
def rng(request: pytest.FixtureRequest, seed: int) -> np.random.Generator:
    """A generator of this test's own: it depends on the seed and the test's name, not on what ran before."""
    name: str = request.node.nodeid
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def lacking(what: str) -> NoReturn:
    """Ends a test that cannot run here: skipped with the reason, or failed when CI must not skip."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} (with CI set this is a failure, not a skip)", pytrace=False)
    pytest.skip(what)


def _data_path() -> Path:
    return Path(os.environ.get("SKYLIGHT_DATA") or DEFAULT_DATA).resolve()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The recordings of real drives; SKYLIGHT_DATA names them, ../shared/data by default."""
    path = _data_path()
    if not path.is_dir():
        lacking(f"no recordings at {path}: set SKYLIGHT_DATA to the folder that holds them")
    return path


@pytest.fixture
def recordings_there(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recordings of real drives, where `skylight.reproduce` looks for them."""
    monkeypatch.setenv("SKYLIGHT_DATA", str(data_dir))


def tool_path(name: str) -> str | None:
    """The path of a system tool; None where it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@pytest.fixture(scope="session")
def need_tool() -> Callable[[str], str]:
    """`need_tool("fio")` is the path of a system tool."""

    def find(name: str) -> str:
        path = tool_path(name)
        if path is None:
            lacking(f"{name} is not installed: scripts/install-test-tools.sh installs it with root rights")
        return path

    return find


@pytest.fixture(scope="session")
def guests(
    request: pytest.FixtureRequest,
    need_tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, Said]]:
    """What each step of every module's `GUEST` said, by the names of guest and step: one boot in a run, with
    the guests whose own tools are there."""
    modules = {item.module for item in request.session.items if isinstance(item, pytest.Function)}
    wanted = [module.GUEST for module in modules if hasattr(module, "GUEST")]
    wanted = [guest for guest in wanted if all(map(tool_path, guest.tools))]
    for name in TOOLS:
        need_tool(name)
    base = tmp_path_factory.getbasetemp()
    # Each worker of xdist has a folder in that of the run.
    shared = base.parent if hasattr(request.config, "workerinput") else base
    return booted_once(wanted, shared / "guests", is_long=request.config.option.long)


@pytest.fixture(scope="session")
def need_root() -> None:
    """For tests that set up loop devices and mounts."""
    if os.geteuid() != 0:
        lacking("needs root to set up block devices")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(here: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process, as `main` does."""

    def called(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        code = run_command([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return called
