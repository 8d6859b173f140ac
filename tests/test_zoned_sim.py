"""Zones of an emulated drive: layout, report, actions and appends through batches, and results in the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight.engines import ZonedEngine, open_target
from skylight.engines.sim import SimEngine
from skylight.errors import TargetError
from skylight.evidence import EMPTY_LOG, FAILURES, LOG_COLUMNS, IoBatch, IoLog, Op
from skylight.recording.arrow_parts import log_crc32
from skylight.zoned.zones import NO_POINTER, ZoneCondition, ZoneKind, ZoneLayout

ZONE_BYTES = 16 << 20
PROFILE = """
schema = 1
name = "zones"
capacity = "1 GiB"
[mechanics]
rpm = 7200
head_switch = "0.6 ms"
seek = { points = [[1, "1 ms"], [1000, "10 ms"]] }
[geometry]
surfaces = 2
layout = "cylinder"
track_skew = "1 ms"
head_skew = "1 ms"
zone = [{ tracks = 600, sectors_per_track = 2000 }]
[interface]
queue_depth = 32
command_overhead = "0.1 ms"
[layer]
kind = "zoned"
model = "host-managed"
zone_size = "16 MiB"
zone_capacity = "12 MiB"
conventional_zones = 4
max_open_zones = 8
max_active_zones = 16
"""


@pytest.fixture
def engine(tmp_path: Path) -> SimEngine:
    path = tmp_path / "zones.toml"
    path.write_text(PROFILE, encoding="utf-8")
    return SimEngine.open(str(path))


def test_layout_and_report(engine: SimEngine) -> None:
    assert isinstance(engine, ZonedEngine)
    assert engine.zone_layout() == ZoneLayout("host-managed", ZONE_BYTES, 64, 4, 8, 16, None)
    zones = engine.report_zones()
    assert len(zones) == 64
    assert zones.start_bytes.tolist() == [number * ZONE_BYTES for number in range(64)]
    assert set(zones.size_bytes.tolist()) == {ZONE_BYTES}
    assert zones.capacity_bytes[[3, 4]].tolist() == [ZONE_BYTES, 12 << 20]
    assert zones.kind[[3, 4]].tolist() == [ZoneKind.CONVENTIONAL, ZoneKind.SEQUENTIAL_WRITE_REQUIRED]
    assert zones.condition[[3, 4]].tolist() == [ZoneCondition.NOT_WRITE_POINTER, ZoneCondition.EMPTY]
    assert zones.write_pointer_bytes[3] == NO_POINTER
    assert zones.write_pointer_bytes[4] == 4 * ZONE_BYTES
    assert len(zones.only(ZoneCondition.EMPTY)) == 60
    assert not zones.non_sequential.any()
    assert not zones.reset_recommended.any()


def test_actions_and_their_failures_are_in_the_log(engine: SimEngine) -> None:
    zone = 5 * ZONE_BYTES
    rows = [
        (Op.OPEN_ZONE, zone, ZONE_BYTES),
        (Op.WRITE, zone, 8192),
        (Op.WRITE, zone, 4096),
        (Op.APPEND, zone, 4096),
        (Op.CLOSE_ZONE, zone, ZONE_BYTES),
        (Op.RESET_ZONE, 0, ZONE_BYTES),
        (Op.FINISH_ZONE, 6 * ZONE_BYTES, ZONE_BYTES),
    ]
    op, offset, size = zip(*rows, strict=True)
    batch = IoBatch(np.array(op, np.uint8), np.array(offset, np.uint64), np.array(size, np.uint32))
    log = engine.run(batch)
    assert log.failed.tolist() == [False, False, True, False, False, True, False]
    assert FAILURES[int(log.result[2])] == "unaligned write command"
    assert FAILURES[int(log.result[5])] == "invalid field in CDB"
    assert log.result[3] == zone + 8192, "where the append went"
    assert np.count_nonzero(log.result) == 3
    zones = engine.report_zones()
    assert zones.condition[[5, 6]].tolist() == [ZoneCondition.CLOSED, ZoneCondition.FULL]
    assert zones.write_pointer_bytes[[5, 6]].tolist() == [zone + 12288, 7 * ZONE_BYTES]
    engine.run(IoBatch.make(Op.RESET_ZONE, [0], 0))
    assert len(engine.report_zones().only(ZoneCondition.EMPTY)) == 60, "a size of 0 is for all zones"
    plain = engine.run(IoBatch.reads([0], 4096))
    assert plain.result.tolist() == [0], "of this batch alone"


def test_a_drive_without_zones_says_so() -> None:
    engine = open_target("sim:st4000nc001")
    assert isinstance(engine, ZonedEngine)
    assert engine.zone_layout() is None
    with pytest.raises(
        TargetError, match=r"^sim:st4000nc001: this drive has no zones; name a drive that has zones$"
    ):
        engine.report_zones()


def test_results_stay_with_their_rows() -> None:
    columns = [np.arange(3, dtype=kind) for kind in LOG_COLUMNS.values()]
    log = IoLog(*columns)
    assert log.result.tolist() == [0, 1, 2]
    assert log.rows(np.array([2, 0])).result.tolist() == [2, 0]
    assert IoLog.joined([log, log]).result.tolist() == [0, 1, 2, 0, 1, 2]
    bare = IoLog(*columns[:5])
    assert bare.result.tolist() == [0, 0, 0]
    assert not bare.equals(log)
    assert log_crc32(log) != log_crc32(bare)
    assert len(EMPTY_LOG.result) == 0


@pytest.mark.parametrize("kind", ["host-managed", "host-aware"])
def test_random_drives_have_zones(kind: str, tmp_path: Path) -> None:
    from skylight import _native

    for seed in range(3):
        path = tmp_path / f"{seed}.toml"
        path.write_text(_native.random_profile(seed, kind), encoding="utf-8")
        layout = SimEngine.open(str(path)).zone_layout()
        assert layout is not None
        assert layout.model == kind, f"seed {seed}"
