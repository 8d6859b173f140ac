"""What dm-zoned sent to its zones, read from lines as the kernel (Linux 6.1) wrote them."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dm_zoned
from dm_zoned_trace import Layout, TraceError, replayed, sent
from hbuffer import Work
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import Op
from zoned_guest.boot import RESULTS
from zoned_guest.dm_zoned import BLOCK, RESERVED, metadata, super_block

ZONE = 256 << 20
ZONES, DISK = 253 << 20, 253 << 20 | 1
LAYOUT = Layout(ZONE, moved=22, by=723)
"""Two zones of metadata and 20 others without write pointers; the drive's sequential ones begin at 745."""

HEAD = "    kworker/u2:3-25      [000] .....   121.88"
TRACE = (
    "python-103     [000] .....    58.392368: tracing_mark_write: skylight work",
    "block_bio_queue: 253,1 WS 1127128 + 8 [python]",
    "block_bio_queue: 253,0 WS 11534336 + 8 [kworker/u2:3]",
    "block_bio_complete: 253,0 WS 11534336 + 8 [0]",
    "block_bio_queue: 253,0 RM 176 + 8 [kworker/u2:3]",
    "block_bio_complete: 253,0 RM 176 + 8 [0]",
    "block_bio_complete: 253,1 WS 1127128 + 8 [0]",
    "block_bio_queue: 253,0 R 8665088 + 1024 [kworker/0:1]",
    "block_bio_queue: 253,1 RS 529376 + 8 [python]",
    "block_bio_complete: 253,1 RS 529376 + 8 [0]",
    "tracing_mark_write: skylight after",
    "block_bio_queue: 253,0 W 11534344 + 1024 [kworker/0:1]",
    "block_bio_queue: 253,0 FWS 0 + 0 [kworker/0:1]",
    "block_bio_queue: 253,0 NS 11534336 + 0 [kworker/0:1]",
    "tracing_mark_write: skylight end",
)


def lines(*events: str) -> list[str]:
    """Events as a line each."""
    return [f"{HEAD}{number:04}: {event}\n" for number, event in enumerate(events)]


def test_a_trace_has_what_the_zones_were_sent_and_what_the_host_waited_for() -> None:
    trace = sent(lines(*TRACE), ZONES, DISK, LAYOUT)
    first = 745 * ZONE
    rows = list(zip(trace.op.tolist(), trace.offset.tolist(), trace.size.tolist(), strict=True))
    assert rows == [
        (Op.WRITE, first, 4096),
        (Op.READ, 176 * 512, 4096),
        (Op.READ, 8665088 * 512, 512 << 10),
        (Op.WRITE, first + 4096, 512 << 10),
        (Op.FLUSH, 0, 0),
        (Op.RESET_ZONE, first, ZONE),
    ]
    assert (trace.queued.tolist(), trace.done.tolist(), trace.after) == ([0, 3], [2, 3], 3)


def test_the_commands_take_the_time_of_the_drive() -> None:
    text, origin = read_profile("wsh722020al")
    drive = _native.SimDrive(text, origin, 1)
    trace = sent(lines(*TRACE), ZONES, DISK, LAYOUT)
    took = replayed(drive, trace)
    same = _native.SimDrive(text, origin, 1)
    _, complete = same.run(trace.op, trace.offset, trace.size, 1)
    assert took.took_ns.tolist() == [complete[1], 0], "the second found what it read without the drive"
    assert took.work_ns == complete[2]
    assert took.work_ns + took.after_ns >= complete[-1]
    assert took.written_bytes == 4096 + (512 << 10)


def test_a_write_behind_the_write_pointer_is_refused() -> None:
    text, origin = read_profile("wsh722020al")
    ahead = [event.replace("WS 11534336", "WS 11534400") for event in TRACE]
    with pytest.raises(TraceError, match="refuses command 0"):
        replayed(_native.SimDrive(text, origin, 1), sent(lines(*ahead), ZONES, DISK, LAYOUT))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (TRACE[:-1], "ends in phase 'after'"),
        ((*TRACE[:6], *TRACE[7:]), "2 commands, 1 done"),
        ((*TRACE[:4], "CPU:0 [LOST 17 EVENTS]", *TRACE[4:]), "too small"),
        ((*TRACE[:4], "block_bio_queue: 253,0 DS 8 + 8 [x]", *TRACE[4:]), "sends no DS"),
    ],
)
def test_a_trace_that_is_not_whole_is_refused(events: tuple[str, ...], why: str) -> None:
    with pytest.raises(TraceError, match=why):
        sent(lines(*events), ZONES, DISK, LAYOUT)


def test_the_letters_of_a_flush_and_of_fua() -> None:
    events = [
        event.replace("RM 176", "FWFSM 176") if "queue: 253,0 RM" in event else event for event in TRACE
    ]
    assert sent(lines(*events), ZONES, DISK, LAYOUT).op[1:3].tolist() == [Op.FLUSH, Op.WRITE_FUA]


def test_a_folder_for_traces_that_is_relative_is_found_in_the_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest has the files of the host, and a working directory of its own."""

    def boot(folder: Path, _packages: Path, steps: Sequence[Mapping[str, Any]], _hardware: object) -> None:
        job = Path(steps[0]["tool"][-1])
        assert job.is_absolute() and Path(json.loads(job.read_text())["rows"]).is_absolute()
        (folder / "share").mkdir()
        said = {steps[0]["name"]: {"code": 0, "out": "", "err": ""}}
        (folder / "share" / RESULTS).write_text(json.dumps(said))

    monkeypatch.setattr(dm_zoned, "boot", boot)
    monkeypatch.chdir(tmp_path)
    case = dm_zoned.CASES["20 streams"]
    one = np.ones(1, np.int64)
    work = Work(
        one.astype(np.uint8), one.astype(np.uint64), one.astype(np.uint32), one.astype(np.uint64), one
    )
    events = dm_zoned.recorded("20 streams", case, work, ZONE, Path("traces"))
    assert events == tmp_path / "traces/20-streams/share/events"


def test_metadata_of_dm_zoned_maps_full_chunks() -> None:
    zones, full = 40, {3: 22, 5: 23}
    fields, body = metadata(ZONE, zones, 1, full)
    blocks, reserved, chunks, map_blocks, bitmap_blocks = struct.unpack("<IIIII", fields)
    assert (reserved, chunks, map_blocks, bitmap_blocks) == (RESERVED, zones - 2 - RESERVED, 1, 2 * zones)
    assert len(body) == (blocks - 1) * BLOCK
    entries = np.frombuffer(body[:BLOCK], "<u4").reshape(-1, 2)
    mapped = {chunk: int(entry[0]) for chunk, entry in enumerate(entries) if entry[0] != 0xFFFFFFFF}
    assert mapped == full
    assert (entries[:, 1] == 0xFFFFFFFF).all()
    bits = np.frombuffer(body[BLOCK:], np.uint8).reshape(zones, -1)
    assert [zone for zone in range(zones) if bits[zone].any()] == [22, 23]
    assert (bits[22:24] == 0xFF).all()
    block = super_block(fields, 65_536)
    assert (len(block), block[:4], block[16:24]) == (BLOCK, b"DBZD", (65_536).to_bytes(8, "little"))
    # crc32_le() of the kernel from the generation on, over the block without its checksum.
    without = block[:44] + bytes(4) + block[48:]
    assert zlib.crc32(without, 1 ^ 0xFFFFFFFF) ^ 0xFFFFFFFF == int.from_bytes(block[44:48], "little")
