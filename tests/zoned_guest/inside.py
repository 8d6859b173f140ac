"""What runs in the guest: `python -m zoned_guest.inside STEPS RESULTS`.

A step is an object with its `name` and one of: `tool`, words of a program to run; `skylight`, words of the
command line, run in this process (an import takes seconds in an emulated processor); `probe`, words of a
probe, without the idle time in it (devices in memory do nothing meanwhile); `waiting`, words of one that has
it; `zonefs`, a device that gets a
zonefs; `batch`, a device and rows of operation, offset and size for the engine of real devices.
"""

import contextlib
import io
import json
import struct
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from skylight.cli.app import run
from skylight.engines.device import DeviceEngine
from skylight.errors import SkylightError
from skylight.evidence import IoBatch

SUPER_BYTES = 4096
ZONEFS_MAGIC = 0x5A4F4653


def tool(words: list[str]) -> int:
    """Runs a program."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def zonefs(device: str) -> int:
    """Writes the super block of a zonefs (`struct zonefs_super` of fs/zonefs/zonefs.h) to the first zone."""
    block = bytearray(SUPER_BYTES)
    # Magic, checksum, label, UUID, features, user, group, permissions.
    struct.pack_into("<II32s16sQIII", block, 0, ZONEFS_MAGIC, 0, b"guest", b"\x11" * 16, 0, 0, 0, 0o640)
    # The kernel's crc32() of it all, which does not invert at the end.
    struct.pack_into("<I", block, 4, zlib.crc32(block) ^ 0xFFFFFFFF)
    with open(device, "r+b", buffering=0) as disk:
        disk.write(block)
    return 0


def batch(given: dict[str, Any]) -> int:
    """Runs a batch by the engine of real devices and says its results, or on standard error why not."""
    op, offset, size = zip(*given["rows"], strict=True)
    rows = IoBatch(np.array(op, np.uint8), np.array(offset, np.uint64), np.array(size, np.uint32))
    engine = DeviceEngine.open(given["device"], destroy_data=True)
    try:
        print(json.dumps(engine.run(rows).result.tolist()))
    except SkylightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        engine.close()
    return 0


def waiting(words: list[str]) -> int:
    """Runs a probe; its findings as JSON. No report, which would take half of the time and needs no guest."""
    report = SimpleNamespace(write_file=lambda path, text: path, write_report=lambda results, folder: folder)
    with (
        mock.patch.dict(sys.modules, {"skylight.report.html": report}),
        tempfile.TemporaryDirectory() as folder,
    ):
        return run(["probe", *words, "--destroy-data", "--json", "--out", f"{folder}/out"])


def probe(words: list[str]) -> int:
    """The same without idle time."""
    with mock.patch.object(DeviceEngine, "pause"):
        return waiting(words)


STEPS: dict[str, Callable[[Any], int]] = {
    "tool": tool, "skylight": run, "probe": probe, "waiting": waiting, "zonefs": zonefs, "batch": batch
}  # fmt: skip


def done(step: dict[str, Any]) -> dict[str, object]:
    """Runs one step and keeps what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = next(STEPS[kind](given) for kind, given in step.items() if kind in STEPS)
        except Exception:  # noqa: BLE001  # whatever happened is for the host to judge
            traceback.print_exc()
            code = -1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main() -> None:
    """All steps, in order; what each said is kept as it ends, for a guest that does not get to its end."""
    results = Path(sys.argv[2])
    said: dict[str, object] = {}
    for step in json.loads(Path(sys.argv[1]).read_text()):
        said[step["name"]] = done(step)
        whole = results.with_suffix(".new")
        whole.write_text(json.dumps(said))
        whole.replace(results)


if __name__ == "__main__":
    main()
