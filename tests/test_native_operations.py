"""Columns of operations on their way into the native module: a number of no operation runs nothing."""

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import Op

UNKNOWN = max(Op) + 1
COLUMNS = (np.array([Op.WRITE, UNKNOWN, 99], np.uint8), np.zeros(3, np.uint64), np.full(3, 4096, np.uint32))


def test_an_emulated_drive_names_the_first_unknown_operation() -> None:
    drive = _native.SimDrive(*read_profile("st4000nc001"), 1)
    words = f"^command 1: operation {UNKNOWN} is not known; use 0 read, 1 write"
    with pytest.raises(ValueError, match=words):
        drive.run(*COLUMNS, 1)
    assert drive.now_ns == 0 and drive.counters()["writes"] == 0


def test_a_buffered_drive_names_the_first_unknown_operation() -> None:
    drive = _native.BufferedDrive(*read_profile("st8000as0022"), "buffer", 10, 1 << 30)
    before = drive.counters()
    words = f"^command 1 is neither a read nor a write within the {drive.size_bytes} bytes"
    with pytest.raises(ValueError, match=words):
        drive.run(*COLUMNS, np.zeros(3, np.uint64))
    assert drive.counters() == before
