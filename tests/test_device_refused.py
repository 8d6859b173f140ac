"""Targets that are refused: one line with the device, the reason and the mend; nothing is written."""

import ctypes
import errno
import os
import re
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from device_targets import MIB, Loop, child, loop, mounted, said, sparse, tell, tool, unmount
from skylight.cli.app import run
from skylight.engines.device import DeviceEngine
from skylight.errors import UsageError
from skylight.evidence import IoBatch

pytestmark = pytest.mark.usefixtures("need_root")

NOBODY = 65534


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Loop]:
    with loop(sparse(tmp_path / "disk.img")) as made:
        yield made


def refusal(path: str | Path, *, destroy_data: bool = True) -> str:
    """The line of a refusal; empty when the target is taken."""
    try:
        engine = DeviceEngine.open(str(path), destroy_data=destroy_data)
    except UsageError as error:
        line = str(error)
        assert line.startswith(f"{path}: ") and "\n" not in line and error.exit_code == 2
        return line
    engine.close()
    return ""


def can_be_read(path: str) -> str:
    """Reads one block without leave to write; returns who else is said to use the target."""
    engine = DeviceEngine.open(path)
    assert len(engine.run(IoBatch.reads([0], 4096))) == 1
    engine.close()
    return str(engine.describe().declared.get("also_used", ""))


def test_a_free_device_is_taken(device: Loop) -> None:
    assert refusal(device.path) == ""
    assert can_be_read(device.path) == ""


def test_one_drive_by_two_names(
    device: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As /dev/disk/by-id has them: links, and another node of the same number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "by-id").symlink_to(device.path)
    os.mknod(tmp_path / "node", 0o600 | stat.S_IFBLK, os.stat(device.path).st_rdev)
    before = device.changes
    for other in ("by-id", "node"):
        assert run(["probe", device.path, other, "--destroy-data"]) == 2
        line = f"skylight: {other}: is the same drive as {device.path}; name each drive once\n"
        assert capsys.readouterr() == ("", line)
    assert device.changes == before
    assert not (tmp_path / "skylight-report").exists()


def test_a_mounted_device(device: Loop, tmp_path: Path) -> None:
    with mounted(device.path, tmp_path / "mnt") as point:
        before = device.changes
        assert f"{device.name} is mounted at {point}; run umount" in refusal(device.path)
        assert can_be_read(device.path) == f"{device.name} is mounted at {point}"
        assert device.changes == before
    assert "holds a file system (ext4)" in refusal(device.path), "umount alone frees nobody's data"
    tool("wipefs", "--all", "--quiet", device.path)
    assert refusal(device.path) == ""


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("mkfs.ext4", "-q", "-F"), "a file system (ext4)"),
        (("mkswap",), "somebody's data (swap)"),
    ],
    ids=["ext4", "swap"],
)
@pytest.mark.parametrize("kind", ["device", "file"])
def test_data_that_nobody_uses_at_the_moment(
    tmp_path: Path, words: tuple[str, ...], what: str, kind: str
) -> None:
    path = sparse(tmp_path / "disk.img")
    with loop(path) as device:
        tool(*words, device.path)
        if kind == "device":
            before = device.changes
            line = refusal(device.path)
            assert f"holds {what}; if nothing on it is needed, remove it with wipefs -a" in line
            assert can_be_read(device.path) == ""
            assert device.changes == before
            tool("wipefs", "--all", "--quiet", device.path)
            assert refusal(device.path) == "", "the mend mends it"
            return
    assert f"holds {what}; use an empty file" in refusal(path)
    assert can_be_read(str(path)) == ""


def test_what_a_probe_wrote_does_not_stop_the_next(device: Loop) -> None:
    engine = DeviceEngine.open(device.path, destroy_data=True)
    engine.run(IoBatch.writes([4096 * block for block in range(64)], 4096))
    engine.close()
    assert refusal(device.path) == ""


def test_a_mounted_partition(device: Loop, tmp_path: Path) -> None:
    tool("addpart", device.path, "1", "2048", str(80 * MIB // 512))
    try:
        with mounted(f"{device.path}p1", tmp_path / "mnt"):
            line = refusal(device.path)
            assert f"{device.name}p1 is mounted" in line
            assert "is mounted" in refusal(f"{device.path}p1")
        assert f"holds a partition ({device.name}p1); " in refusal(device.path)
        assert "wipefs" in refusal(device.path)
        assert "holds a file system (ext4)" in refusal(f"{device.path}p1")
        tool("wipefs", "--all", "--quiet", f"{device.path}p1")
        assert refusal(f"{device.path}p1") == "", "a free partition can be a target"
    finally:
        tool("delpart", device.path, "1")


def test_the_erase_note_of_another_drive_does_not_refuse_partitions_whose_data_is_kept(
    device: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path))
    (tmp_path / "OTHER-1.erase").write_text("skylight erase note 1\ndrive = OTHER-1\n")
    tool("addpart", device.path, "1", "2048", str(80 * MIB // 512))
    try:
        DeviceEngine.open(device.path, destroy_data=True, preserve=True, restores=False).close()
        assert f"holds a partition ({device.name}p1); " in refusal(device.path), "the others are refused"
    finally:
        tool("delpart", device.path, "1")


def sfdisk(label: str) -> Callable[[Path], None]:
    """A table with one partition, written by a tool."""

    def write(path: Path) -> None:
        tool("sfdisk", "--quiet", str(path), given=f"label: {label}\nstart=2048, size=20480\n")

    return write


def of_4_kib_blocks(path: Path) -> None:
    """A GPT as a drive of 4 KiB blocks has it, seen with blocks of 512 bytes: what is left is its MBR."""
    sfdisk("gpt")(path)
    with path.open("r+b") as file:
        header = file.read(1024)[512:]
        file.seek(512)
        file.write(bytes(512))
        file.seek(4096)
        file.write(header)
        file.seek(-512, os.SEEK_END)
        file.write(bytes(512))


def at(*pieces: tuple[int, bytes]) -> Callable[[Path], None]:
    """Bytes that are what a tool would have written, from the start or, where negative, from the end."""

    def write(path: Path) -> None:
        with path.open("r+b") as file:
            for offset, content in pieces:
                file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
                file.write(content)

    return write


MD_AT = 64 * MIB - 8192
MD = struct.pack("<III", 0xA92B4EFC, 1, 0).ljust(144, b"\0") + struct.pack("<Q", MD_AT // 512)
LVM = b"LABELONE" + struct.pack("<QII", 1, 0, 32) + b"LVM2 001"
XFS = struct.pack(
    ">4sIQQQ16sQQQQIIIIIHHHH12s8B",
    *(b"XFSB", 4096, 16384, 0, 0, b"\x11" * 16, 0, 128, 129, 130, 1, 4096, 4, 0, 855),
    *(0xB4A4, 512, 512, 8, b"", 12, 9, 9, 3, 12, 0, 0, 25),
)
UBERBLOCK = struct.pack("<QQQQQ", 0x00BAB10C, 5000, 4, 0, 0)
ZFS = tuple(((128 << 10) + 1024 * n, UBERBLOCK) for n in range(8))


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (sfdisk("dos"), "a partition table (dos)"),
        (sfdisk("gpt"), "a partition table (gpt)"),
        (of_4_kib_blocks, "a partition table (PMBR)"),
        (at((0, XFS)), "a file system (xfs)"),
        (at((65_600, b"_BHRfS_M")), "a file system (btrfs)"),
        (at((512, LVM)), "a member of a RAID or volume group (LVM2_member)"),
        (at((MD_AT, MD)), "a member of a RAID or volume group (linux_raid_member)"),
        (at((0, b"LUKS\xba\xbe\0\x01")), "an encrypted volume (crypto_LUKS)"),
        (at(*ZFS), "a file system (zfs_member)"),
    ],
    ids=["dos", "gpt", "gpt-4096", "xfs", "btrfs", "lvm", "md", "luks", "zfs"],
)
def test_data_of_many_kinds(tmp_path: Path, write: Callable[[Path], None], what: str) -> None:
    path = sparse(tmp_path / "disk.img", 64 * MIB)
    write(path)
    with loop(path) as device:
        before = device.changes
        assert f"holds {what}; if nothing on it is needed, remove it with wipefs -a" in refusal(device.path)
        assert can_be_read(device.path) == ""
        assert device.changes == before
        tool("wipefs", "--all", "--quiet", device.path)
        assert refusal(device.path) == "", "the mend mends it"


def test_a_read_only_device(tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "disk.img"), "--read-only") as device:
        assert "is read-only" in refusal(device.path)
        assert can_be_read(device.path) == ""


def test_a_device_that_another_holds_exclusively(device: Loop) -> None:
    holder = os.open(device.path, os.O_RDONLY | os.O_EXCL)
    try:
        assert "in use by another program" in refusal(device.path)
        assert can_be_read(device.path) == ""
    finally:
        os.close(holder)
    assert refusal(device.path) == ""


def test_a_device_that_another_holds_for_a_moment_is_waited_for(device: Loop) -> None:
    """As the guard of the run before does, while it puts the drive's settings back."""
    holder = os.open(device.path, os.O_RDONLY | os.O_EXCL)
    letting_go = threading.Timer(0.3, os.close, [holder])
    letting_go.start()
    try:
        assert refusal(device.path) == ""
    finally:
        letting_go.join()


def test_two_engines_cannot_both_destroy(device: Loop) -> None:
    first = DeviceEngine.open(device.path, destroy_data=True)
    assert "in use by another program" in refusal(device.path)
    first.close()
    assert refusal(device.path) == ""


def test_what_a_loop_device_lies_on(device: Loop) -> None:
    assert f"backing file of {device.path}" in refusal(device.backing)
    with loop(Path(device.path)) as upper:
        assert f"backing file of {upper.path}" in refusal(device.path)
        assert refusal(upper.path) == ""


def test_a_file_system_mounted_through_another_loop_device_over_the_same_file(
    device: Loop, tmp_path: Path
) -> None:
    same = tmp_path / "same.img"
    os.link(device.backing, same)
    with loop(same) as twin:
        assert f"in use through {twin.path}, a loop device over the same file" in refusal(device.path)
        with mounted(twin.path, tmp_path / "mnt") as point:
            (point / "precious").write_text("keep me")
            before = device.changes
            assert f"{twin.name} is mounted at {point}; run umount" in refusal(device.path)
            assert "is mounted" in can_be_read(device.path)
            assert device.changes == before
            assert (point / "precious").read_text() == "keep me"
    tool("wipefs", "--all", "--quiet", device.path)
    assert refusal(device.path) == ""


def test_a_file_system_mounted_from_what_a_loop_device_lies_on(device: Loop, tmp_path: Path) -> None:
    with loop(Path(device.path)) as upper, mounted(device.path, tmp_path / "mnt") as point:
        assert f"{device.name} is mounted at {point}" in refusal(upper.path)


def test_a_partition_of_a_disk_that_is_used_whole(device: Loop, tmp_path: Path) -> None:
    tool("addpart", device.path, "1", "2048", str(80 * MIB // 512))
    try:
        part = f"{device.path}p1"
        assert refusal(part) == ""
        with loop(Path(device.path)) as upper:
            assert f"backing file of {upper.path}" in refusal(part)
            with mounted(upper.path, tmp_path / "mnt"):
                assert refusal(part) != ""
        assert refusal(part) == ""
        tool("addpart", device.path, "2", str(88 * MIB // 512), str(8 * MIB // 512))
        with mounted(f"{device.path}p2", tmp_path / "mnt2"):
            assert refusal(part) == "", "a sibling has other bytes"
        tool("delpart", device.path, "2")
    finally:
        tool("delpart", device.path, "1")


@pytest.mark.parametrize("missing", ["proc/self/mountinfo", "proc/swaps", "sys/block", "sys/dev/block"])
def test_who_uses_it_cannot_be_told(device: Loop, tmp_path: Path, missing: str) -> None:
    root = tmp_path / "root"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").touch()
    (root / "proc/swaps").touch()
    (root / "sys").symlink_to("/sys")

    def opened(*, destroy_data: bool) -> None:
        DeviceEngine.open(device.path, destroy_data=destroy_data, root=str(root)).close()

    opened(destroy_data=True)
    if missing.startswith("proc"):
        (root / missing).unlink()
    else:
        (root / "sys").unlink()
        (root / "sys").mkdir()
        for name in {"sys/block", "sys/dev"} - {
            missing.removesuffix("/block") if "dev" in missing else missing
        }:
            (root / name).symlink_to(f"/{name}")
    opened(destroy_data=False)
    refusal = f"{device.path}: refusing to write.*{missing}.* cannot be read .*; mount "
    with pytest.raises(UsageError, match=refusal):
        opened(destroy_data=True)


OPENER = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); print(fd, flush=True); sys.stdin.readline()"


@pytest.mark.parametrize("which", ["device", "backing"])
def test_another_program_has_it_open(device: Loop, which: str) -> None:
    held = device.path if which == "device" else str(device.backing)
    with child(OPENER, held) as process:
        assert said(process)
        before = device.changes
        line = refusal(device.path)
        assert re.search(rf"in use by \S+ \(process {process.pid}\), which has it open; stop that use", line)
        assert f"(process {process.pid})" in can_be_read(device.path)
        assert device.changes == before
        tell(process)
        process.wait(timeout=30)
    assert refusal(device.path) == ""


def test_another_program_has_a_plain_file_open(tmp_path: Path) -> None:
    path = sparse(tmp_path / "plain.img")
    with child(OPENER, str(path)) as process:
        assert said(process)
        assert f"(process {process.pid}), which has it open" in refusal(path)
        tell(process)
        process.wait(timeout=30)
    assert refusal(path) == ""


def test_too_small(tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "disk.img", 64 * MIB - 512)) as device:
        for leave in (False, True):
            assert "too small to measure; take one of at least 64 MiB" in refusal(
                device.path, destroy_data=leave
            )
    assert refusal(sparse(tmp_path / "just.img", 64 * MIB)) == ""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/no/such/device", "no such device or file"),
        ("/dev", "is a directory"),
        ("/dev/null", "neither a block device nor a regular file"),
    ],
)
def test_what_is_no_target(path: str, words: str) -> None:
    for leave in (False, True):
        assert words in refusal(path, destroy_data=leave)


def in_child(prepare: Callable[[], None], path: Path | str, *, destroy_data: bool) -> str:
    """The refusal that a forked child gets after `prepare`; "taken" if it gets none."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            prepare()
            os.write(writer, refusal(path, destroy_data=destroy_data).encode() or b"taken")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        line = pipe.read().decode()
    os.waitpid(pid, 0)
    return line


def become_nobody() -> None:
    """Gives up all rights."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def forbid_io_uring(error: int) -> None:
    """Makes io_uring_setup fail with `error` for this process (a seccomp filter; see seccomp(2))."""
    load, equal, answer = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),  # the number of the system call
        (equal, 0, 1, 425),  # io_uring_setup, the same on all newer architectures
        (answer, 0, 0, 0x00050000 | error),  # SECCOMP_RET_ERRNO
        (answer, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_seccomp, filter_mode, header) == 0


@pytest.mark.parametrize(("leave", "purpose"), [(False, "reading"), (True, "writing")])
def test_no_permission(device: Loop, leave: bool, purpose: str) -> None:
    line = in_child(become_nobody, device.path, destroy_data=leave)
    assert f"no permission to open it for {purpose}; run as root" in line


def test_no_permission_for_the_folder(tmp_path: Path) -> None:
    path = sparse(tmp_path / "disk.img")
    tmp_path.chmod(0o700)
    assert "no permission" in in_child(become_nobody, path, destroy_data=False)


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_kernel_without_io_uring(device: Loop, error: int) -> None:
    line = in_child(partial(forbid_io_uring, error), device.path, destroy_data=False)
    assert f"io_uring is not available ({os.strerror(error)}" in line
    assert "sysctl kernel.io_uring_disabled=0" in line


def test_a_file_system_that_has_only_its_page_cache(tmp_path: Path) -> None:
    tool("mount", "-t", "ramfs", "ramfs", str(tmp_path))
    try:
        line = refusal(sparse(tmp_path / "disk.img"), destroy_data=False)
        assert "the file system does not support direct I/O (O_DIRECT)" in line
    finally:
        unmount(tmp_path)
