"""The short burn-in: ext4, many small files, a guest and kills, on a served drive; and that it can fail.

`make burn-in` is the long form, with a kernel compiled on the drive. What the guest boots comes from Debian's
packages, into build/burn-in.
"""

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from burn_in import packages
from burn_in.processes import BurnInError, Process, run, wait_for
from burn_in.progress import Progress, Took, expected_steps
from burn_in.steps import Plan, boots, burn_in, filled, guests_share, look_after_a_kill, second_look

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "build/burn-in"
TOOLS = ("qemu-system-x86_64", "nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "cpio", "dpkg-deb")
PLAIN = ["nbdkit", "--foreground", "--unix", "{socket}", "file", "{image}"]


@pytest.fixture(scope="module")
def plain_image(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A drive of another server, filled; its image is plain, so that a test knows what lies where."""
    plan = Plan(PLAIN, tmp_path_factory.mktemp("plain"), PACKAGES, short=True)
    with plan.image.open("wb") as image:
        image.truncate(2 << 30)
    filled(plan, packages.busybox(plan.packages), None)
    return plan


@pytest.fixture
def tools(need_tool: Callable[[str], str], need_root: None) -> None:
    for name in TOOLS:
        need_tool(name)


@pytest.fixture
def plain(tools: None, request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    """A copy of it, to be spoilt."""
    source: Plan = request.getfixturevalue("plain_image")
    plan = Plan(PLAIN, tmp_path, PACKAGES, short=True, sums=source.sums)
    run("cp", "--sparse=always", source.image, plan.image)
    return plan


def a_file(plan: Plan) -> tuple[str, bytes]:
    """A file that the guest looks at too, and its first block."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in guests_share(plan.sums):
        source = library / name.removeprefix("usr/")
        if name.startswith("usr/") and source.stat().st_size >= 4096:
            return name, source.read_bytes()[:4096]
    raise AssertionError("no file of the guest's is long enough")


def flip_a_byte_of_a_file(plan: Plan) -> str:
    name, start = a_file(plan)
    with plan.image.open("r+b") as image:
        place = 0
        while (block := image.read(4096)) != start:
            assert block, f"{name} is not in the image"
            place += 4096
        image.seek(place + 1000)
        image.write(bytes([start[1000] ^ 1]))
    return name


def alive(group: int) -> list[str]:
    """Processes of a group that run or wait: a child that init has not buried yet is none."""
    return run("pgrep", "--pgroup", str(group), "--runstates", "RSD", accept=(0, 1)).split()


@pytest.mark.parametrize(
    ("drive", "options"),
    [
        ("emulated-smr-1", []),
        # A drive with zones, and a host buffer that makes a disk of it.
        pytest.param("st8000as0022", ["--hbuffer", "adaptive"], marks=pytest.mark.long),
    ],
    ids=["drive", "hbuffer"],
)
def test_a_drive_that_is_killed_keeps_what_was_made_durable(
    drive: str, options: list[str], tools: None, tmp_path: Path, seed: int
) -> None:
    skylight = str(Path(sys.executable).with_name("skylight"))
    command = [skylight, "serve", drive, "--image", "{image}", "--nbd", "unix:{socket}", "--timing", "none"]
    command += options
    burn_in(Plan(command, tmp_path, PACKAGES, short=True, kills=2, seed=seed))
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in run("losetup", "--list", "--noheadings", "--output", "BACK-FILE")


def test_a_drive_that_forgets_is_caught(tools: None, tmp_path: Path, seed: int) -> None:
    # A server whose data dies with it: after the kill nothing of the file system is left.
    command = ["nbdkit", "--foreground", "--unix", "{socket}", "memory", "8G"]
    with pytest.raises(BurnInError, match="after a clean stop"):
        burn_in(Plan(command, tmp_path, PACKAGES, short=True, kills=1, seed=seed))


def test_a_drive_that_changed_nothing_passes(plain: Plan) -> None:
    second_look(plain)


def test_one_byte_that_changed_is_caught(plain: Plan) -> None:
    name = flip_a_byte_of_a_file(plain)
    with pytest.raises(BurnInError, match=f"after a clean stop: {name} holds something else"):
        second_look(plain)


def test_one_byte_that_changed_is_caught_by_the_guest(plain: Plan) -> None:
    kernel = packages.debian_kernel(plain.packages)
    flip_a_byte_of_a_file(plain)
    with pytest.raises(BurnInError, match="did not say 'skylight-guest: every sum is right'"):
        boots(plain, kernel)


def test_a_file_system_that_is_not_clean_is_caught(plain: Plan) -> None:
    run("debugfs", "-w", "-R", f"clri /{a_file(plain)[0]}", plain.image)
    with pytest.raises(BurnInError, match="e2fsck -f -n"):
        second_look(plain)


def test_a_durable_file_that_is_gone_is_caught(plain: Plan) -> None:
    with pytest.raises(BurnInError, match="after the kill: durable-1-7 is gone"):
        look_after_a_kill(plain, {"durable-1-7": "0" * 64})


def test_a_kill_with_nothing_durable_proves_nothing(plain: Plan) -> None:
    with pytest.raises(BurnInError, match="nothing was made durable"):
        look_after_a_kill(plain, {})


def test_a_guest_that_does_not_boot_is_caught(plain: Plan) -> None:
    kernel = packages.debian_kernel(plain.packages)
    run("debugfs", "-w", "-R", "unlink /sbin/init", plain.image)
    with pytest.raises(BurnInError, match="the guest did not say"):
        boots(plain, kernel)


def test_what_is_left_follows_what_earlier_drives_took() -> None:
    progress = Progress(["one", "two"], {"fill": 10.0, "look": 1.0})
    assert progress.left_s("fill") == 22.0
    progress.took = [Took("one", "fill", 40.0, 8.0)]
    progress.drive("one")
    assert progress.left_s("look") == 4.0 + 40.0 + 4.0  # this machine is four times slower than expected
    progress.took.append(Took("one", "look", 3.0, 2.0))
    progress.drive("two")
    assert progress.left_s("fill") == 43.0


def test_the_steps_that_are_done_are_recalled(tmp_path: Path) -> None:
    progress = Progress(["one", "two"])
    progress.took = [Took("one", "fill", 40.0, 8.0), Took("two", "fill", 1.0, 1.0)]
    progress.drive("two")
    progress.keep(tmp_path / "steps.json")
    again = Progress(["two"])
    again.drive("two")
    assert again.recall(tmp_path / "steps.json") == {"fill"}
    assert again.took == progress.took[1:]


def test_a_drive_that_is_done_is_not_touched_again(tmp_path: Path) -> None:
    plan = Plan(["no-such-server", "{image}", "{socket}"], tmp_path, PACKAGES, short=True)
    plan.progress.took = [Took("the drive", name, 1.0, 1.0) for name in expected_steps(True, plan.kills)]
    plan.progress.keep(plan.done)
    burn_in(plan, resume=True)
    plan.done.unlink()
    with pytest.raises(BurnInError, match="the server ended with 127"):
        burn_in(plan, resume=True)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BurnInError, match=r"the server ended with 127: .*no-such-server"):
        Plan(["no-such-server", "{image}", "{socket}"], tmp_path, PACKAGES).serve()


def test_a_process_goes_with_its_children() -> None:
    with Process(["sh", "-c", "sleep 1000 & sleep 1000"], None) as process:
        group = process.popen.pid
        wait_for("its children", lambda: len(alive(group)) == 3, 10)
    wait_for("the end of all", lambda: alive(group) == [], 10)
