"""What `test_device_guest` runs in its guest: `python -m device_guest`.

For each disk it switches the settings as a test does, by a process that ends, and by one that is killed,
and says at each moment what the kernel and the drive report. Then fio does I/O on it, and scsi_debug has a
sector that cannot be read; each disk is asked for its erases, scsi_debug ignores commands until the kernel
gives up on them, and is unplugged while it is read. Every judgement is the test's. The drive's own
answer comes by commands of this file, not of the code under test: IDENTIFY DEVICE by ATA PASS-THROUGH (16)
and MODE SENSE (6) of the Caching mode page.
"""

import contextlib
import ctypes
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from skylight.evidence import IoBatch

SG_IO = 0x2285
SECONDS = 400.0
OPTS = Path("/sys/bus/pseudo/drivers/scsi_debug/opts")
MEDIUM_ERROR = 2
"""Bit of `opts`: sectors from 1234h on cannot be read (Linux drivers/scsi/scsi_debug.c)."""
BAD_BYTES = 0x1234 * 512 // 4096 * 4096
IGNORED = 128
"""Bit of `opts`: reads and writes that `every_nth` counts are never answered (the same file)."""
EVERY_NTH = OPTS.with_name("every_nth")
"""N: each N-th command; -N: all from the N-th on."""
TIMEOUT_S = 1
"""How long the kernel waits for a command of a disk, instead of 30 s; it has no less."""
ONCE_IN, FROM = 20, 400
"""Commands: where one is ignored, of `FEW` reads; and where all are, of the 768 and more of a probe."""
FEW = 30

CHILD = """
import json, sys
from skylight.engines.device import DeviceEngine
contexts = []
for path in sys.argv[1:]:
    context = DeviceEngine.open(path, destroy_data=True).settings(write_cache=False, look_ahead=False)
    print(json.dumps(context.__enter__().params()), flush=True)
    contexts.append(context)
sys.stdin.readline()
"""
"""A run with several disks, to be killed: an import takes seconds in an emulated processor."""


class Header(ctypes.Structure):
    """`struct sg_io_hdr` of include/scsi/sg.h."""

    _fields_ = (
        ("interface_id", ctypes.c_int), ("direction", ctypes.c_int), ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte), ("iovec_count", ctypes.c_ushort), ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p), ("cmdp", ctypes.c_void_p), ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint), ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p), ("status", ctypes.c_ubyte), ("masked", ctypes.c_ubyte),
        ("msg", ctypes.c_ubyte), ("sb_len_wr", ctypes.c_ubyte), ("host", ctypes.c_ushort),
        ("driver", ctypes.c_ushort), ("resid", ctypes.c_int), ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    )  # fmt: skip


def received(device: str, command: bytes, length: int) -> bytes | None:
    """What a command of a disk returns; None where it fails."""
    data = ctypes.create_string_buffer(length)
    given = ctypes.create_string_buffer(command, len(command))
    sense = ctypes.create_string_buffer(252)
    header = Header(
        ord("S"), -3, len(command), 252, 0, length, ctypes.addressof(data), ctypes.addressof(given),
        ctypes.addressof(sense), 20_000,
    )  # fmt: skip
    descriptor = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SG_IO, header)
    finally:
        os.close(descriptor)
    return None if header.status or header.host else data.raw


def of_drive(device: str) -> dict[str, bool | None]:
    """Write cache and look-ahead as the drive itself has them; None is not there."""
    identity = received(device, bytes([0x85, 8, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0]), 512)
    if identity is not None:
        has, on = (int.from_bytes(identity[2 * word : 2 * word + 2], "little") for word in (82, 85))
        return {
            name: bool(on & bit) if has & bit else None
            for name, bit in (("write_cache", 1 << 5), ("look_ahead", 1 << 6))
        }
    page = received(device, bytes([0x1A, 8, 8, 0, 64, 0]), 64)
    assert page is not None, device
    page = page[4 + page[3] :]
    return {"write_cache": bool(page[2] & 4), "look_ahead": not page[12] & 0x20}


def moment(device: str) -> dict[str, Any]:
    """What kernel, drive and notes say now."""
    disk = Path("/sys/block") / Path(device).name
    (cache,) = (disk / "device/scsi_disk").glob("*/cache_type")
    notes = sorted(path.name for path in Path(os.environ["SKYLIGHT_STATE"]).glob("*.restore"))
    order = (disk / "queue/scheduler").read_text().split("[")[1].split("]")[0]
    return {
        "kernel": cache.read_text().strip(), "drive": of_drive(device), "order": order, "notes": notes,
        "depth": int((disk / "device/queue_depth").read_text()),
    }  # fmt: skip


def ended(device: str) -> dict[str, Any]:
    """The settings before, while and after an engine has them switched."""
    from skylight.engines.device import DeviceEngine

    before = moment(device)
    with (
        closing(DeviceEngine.open(device, destroy_data=True)) as engine,
        engine.settings(write_cache=False, look_ahead=False) as report,
    ):
        told = {"before": before, "report": report.params(), "while": moment(device)}
    return {**told, "after": moment(device)}


def no_note_is_left() -> None:
    """Waits until what was changed is put back, by whom it may be."""
    until = time.monotonic() + SECONDS
    while any(Path(os.environ["SKYLIGHT_STATE"]).glob("*.restore")) and time.monotonic() < until:
        time.sleep(0.2)


def killed(devices: list[str]) -> list[dict[str, Any]]:
    """The same of each disk, where the process is killed."""
    told: list[dict[str, Any]] = [{"before": moment(device)} for device in devices]
    words = [sys.executable, "-c", CHILD, *devices]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for one in told:
            one["report"] = json.loads(process.stdout.readline())
        for one, device in zip(told, devices, strict=True):
            one["while"] = moment(device)
        process.send_signal(signal.SIGKILL)
    no_note_is_left()
    return [{**one, "after": moment(device)} for one, device in zip(told, devices, strict=True)]


def by_fio(device: str) -> dict[str, Any]:
    """What fio has done where it does the I/O: flushed writes, then reads together."""
    from skylight.engines.fio import FioEngine

    with closing(FioEngine.over(device, Path("/tmp/jobs"), destroy_data=True)) as engine:
        where = [0, 8 << 20, 4096]
        writes = engine.run(IoBatch.flushed_writes(where, 4096))
        reads = engine.run(IoBatch.reads(where, 4096), depth=4)
    return {
        "writes": writes.op.tolist(), "reads": reads.offset.tolist(),
        "timed": bool((reads.latency_ns > 0).all()),
    }  # fmt: skip


def medium_error(device: str) -> dict[str, Any]:
    """How runs of both engines end at a sector that scsi_debug cannot read: the error, the reads before."""
    from skylight.engines.device import DeviceEngine, DeviceFailed
    from skylight.engines.fio import FioEngine

    told = {}
    OPTS.write_text(str(MEDIUM_ERROR))
    try:
        for name in ("own", "fio"):
            opened = DeviceEngine.open(device) if name == "own" else FioEngine.over(device, Path("/tmp/jobs"))
            with closing(opened) as engine:
                try:
                    engine.run(IoBatch.reads([0, BAD_BYTES, 4096], 4096))
                except DeviceFailed as error:
                    told[name] = {"line": str(error), "read": error.log.offset.tolist()}
    finally:
        OPTS.write_text("0")
    return told


def erases(device: str) -> dict[str, Any]:
    """What a disk offers and refuses of each erase, and what came of one that it takes."""
    from skylight.engines.device import DeviceEngine
    from skylight.engines.erase import ERASES
    from skylight.errors import SkylightError

    told: dict[str, Any] = {}
    with closing(DeviceEngine.open(device, destroy_data=True)) as engine:
        for erase in ERASES:
            try:
                told[erase] = {"offer": engine.erase_offer(erase).command}
                done = engine.erase_by(erase, lambda *_: None)
                told[erase] |= {"gone": done.is_gone}
            except SkylightError as error:
                told[erase] = {**told.get(erase, {}), "line": str(error)}
        told["trim"] = engine.trim()
    return told


def one_ignored(device: str) -> dict[str, Any]:
    """What a few reads are like where the disk ignores one, which the kernel gives up and sends again."""
    from skylight.engines.device import DeviceEngine

    OPTS.write_text(str(IGNORED))
    EVERY_NTH.write_text(str(ONCE_IN))
    try:
        with closing(DeviceEngine.open(device)) as engine:
            log = engine.run(IoBatch.reads(range(0, FEW * 4096, 4096), 4096))
    finally:
        EVERY_NTH.write_text("0")
        OPTS.write_text("0")
    return {"read": len(log), "latency_s": (log.latency_ns / 1e9).tolist()}


def all_ignored(device: str, engine: str) -> dict[str, Any]:
    """How a probe ends whose disk ignores all reads and writes from some time on: its exit code, its last
    words, its evidence, and what it changed of the disk, once the kernel is told to use that again."""
    from skylight.cli.app import run
    from skylight.recording import Recording, recording_dir

    out = Path(f"/tmp/ignored-{engine}")
    before = moment(device)
    OPTS.write_text(str(IGNORED))
    EVERY_NTH.write_text(str(-FROM))
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words), contextlib.redirect_stdout(io.StringIO()):
            code = run(
                ["probe", device, "--destroy-data", "--quick", "--reset", "none", "--engine", engine,
                 "--out", str(out)]
            )  # fmt: skip
    finally:
        EVERY_NTH.write_text("0")
        OPTS.write_text("0")
    state = Path("/sys/block") / Path(device).name / "device/state"
    left = state.read_text().strip()
    state.write_text("running\n")
    no_note_is_left()
    evidence = Recording.open(recording_dir(out)).evidence("drive_type")
    assert evidence is not None
    kept = [*evidence.steps, *evidence.cut]
    return {
        "code": code, "words": words.getvalue(), "complete": evidence.complete, "last step": kept[-1].name,
        "rows": sum(len(step.rows) for step in kept), "state": left,
        "before": before, "after": moment(device),
    }  # fmt: skip


def ignored(device: str) -> dict[str, Any]:
    """Commands that are never answered: one, and all, by both engines."""
    (Path("/sys/block") / Path(device).name / "device/timeout").write_text(str(TIMEOUT_S))
    return {"one": one_ignored(device), **{name: all_ignored(device, name) for name in ("own", "fio")}}


def unplugged(device: str) -> dict[str, Any]:
    """How a run ends when its disk is deleted below it, and whether a guard or note is left for good."""
    from skylight.engines.device import DeviceEngine, DeviceFailed

    where = np.arange(1 << 20, dtype=np.uint64) % np.uint64(1000) * np.uint64(4096)
    disk = Path("/sys/block") / Path(device).name

    def reads() -> int:
        return int((disk / "stat").read_text().split()[0])

    begin = reads()

    def delete() -> None:
        # Not after a time: a busy machine may not have read anything by then.
        while reads() < begin + 100:
            time.sleep(0.05)
        (disk / "device/delete").write_text("1")

    engine = DeviceEngine.open(device, destroy_data=True)
    threading.Thread(target=delete, daemon=True).start()
    try:
        engine.run(IoBatch.reads(where, 4096), depth=4)
    except DeviceFailed as error:
        told = {"line": str(error), "read": len(error.log)}
    else:
        told = {"line": "", "read": len(where)}
    engine.close()
    return told


def main() -> None:
    """Waits for the disks, and goes through all of them."""
    from skylight.cli.devices import survey
    from skylight.engines.health import health_of

    until = time.monotonic() + SECONDS
    while len(found := [disk for disk in survey() if "/sd" in disk["path"]]) < int(sys.argv[1]):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    for disk in found:  # as a careful owner may have it
        (Path("/sys/block") / Path(disk["path"]).name / "device/queue_depth").write_text("1")
    first = [ended(disk["path"]) for disk in found]
    second = killed([disk["path"] for disk in found])
    third = [by_fio(disk["path"]) for disk in found]
    told = [
        {"disk": disk, "ended": one, "killed": other, "fio": fio}
        for disk, one, other, fio in zip(found, first, second, third, strict=True)
    ]
    for one in told:
        one["health"] = asdict(health_of(one["disk"]["path"]))
        one["erases"] = erases(one["disk"]["path"])
        if one["disk"]["model"] == "scsi_debug":
            one["medium error"] = medium_error(one["disk"]["path"])
            one["ignored"] = ignored(one["disk"]["path"])
            one["unplugged"] = unplugged(one["disk"]["path"])
    print(json.dumps(told))


if __name__ == "__main__":
    main()
