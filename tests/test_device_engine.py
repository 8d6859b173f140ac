"""The device engine on a real loop device: it does what it was asked, and without leave it never writes."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from device_targets import MIB, SIZE, Loop, loop, sparse
from skylight.engines.device import LOOKED_AT, DeviceEngine
from skylight.errors import UsageError
from skylight.evidence import IoBatch, Op

pytestmark = pytest.mark.usefixtures("need_root")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Loop]:
    content = np.arange(SIZE // 8, dtype=np.uint64)
    (tmp_path / "disk.img").write_bytes(content.tobytes())
    with loop(tmp_path / "disk.img", "--direct-io=off") as made:
        yield made


@pytest.fixture
def reader(device: Loop) -> Iterator[DeviceEngine]:
    engine = DeviceEngine.open(device.path)
    yield engine
    engine.close()


@pytest.fixture
def writer(device: Loop) -> Iterator[DeviceEngine]:
    engine = DeviceEngine.open(device.path, destroy_data=True)
    yield engine
    engine.close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_flags(path: str) -> list[int]:
    """The open flags of every descriptor of this process on `path`."""
    flags = []
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink() and os.readlink(link) == path:
            info = Path(f"/proc/self/fdinfo/{link.name}").read_text(encoding="ascii")
            flags.append(int(info.split("flags:")[1].split()[0], 8))
    return flags


def one(op: Op, offset: int, size: int) -> IoBatch:
    return IoBatch.make(op, [offset], size)


@pytest.mark.parametrize("depth", [1, 4, 32, 1024])
def test_every_read_is_done_and_timed(device: Loop, reader: DeviceEngine, depth: int) -> None:
    offsets = np.random.default_rng(7).permutation(SIZE // 4096)[:2000].astype(np.uint64) * 4096
    before = device.reads
    log = reader.run(IoBatch.reads(offsets, 4096), depth=depth)
    assert device.reads - before == 2000
    assert np.array_equal(log.offset, offsets)
    assert (log.latency_ns > 0).all()
    assert (np.diff(log.submit_ns.astype(np.int64)) >= 0).all()
    for row in range(len(log)):
        waiting = int((log.complete_ns[:row] > log.submit_ns[row]).sum())
        assert waiting < depth


def test_an_empty_batch_is_an_empty_log(reader: DeviceEngine) -> None:
    assert len(reader.run(IoBatch.reads([], 4096))) == 0


def test_columns_need_not_be_contiguous(reader: DeviceEngine) -> None:
    batch = IoBatch.reads(np.arange(64) * 4096, 4096)
    every_other = IoBatch(batch.op[::2], batch.offset[::2], batch.size[::2])
    assert np.array_equal(reader.run(every_other).offset, np.arange(0, 64, 2) * 4096)


def test_without_leave_nothing_is_ever_written(device: Loop) -> None:
    content, changes = digest(device.backing), device.changes
    engine = DeviceEngine.open(device.path)
    assert not engine.can_write
    flags = open_flags(device.path)
    assert flags and all(flag & os.O_ACCMODE == os.O_RDONLY for flag in flags)
    assert all(flag & os.O_DIRECT for flag in flags)
    engine.run(IoBatch.reads(np.arange(500) * 4096, 4096), depth=8)
    for op in (Op.WRITE, Op.FLUSH, Op.TRIM):
        batch = IoBatch(
            np.array([Op.READ, op], np.uint8), np.zeros(2, np.uint64), np.full(2, 4096, np.uint32)
        )
        with pytest.raises(UsageError, match=r"--destroy-data|TRIM"):
            engine.run(batch)
    with engine.settings(write_cache=False, look_ahead=False):
        engine.run(one(Op.READ, 0, 4096))
    assert engine.erase() is False
    assert engine.counters() == {"reads": 501, "writes": 0, "write_bytes": 0, "flushes": 0}
    engine.close()
    os.sync()
    assert device.changes == changes
    assert digest(device.backing) == content


def test_the_counter_of_that_test_does_count(device: Loop, writer: DeviceEngine) -> None:
    before = device.changes
    writer.run(IoBatch.writes([0, 8192, 4096], 4096))
    written = device.changes
    assert (written[0] - before[0], written[1] - before[1]) == (3, 24)
    writer.run(one(Op.FLUSH, 0, 0))
    assert device.changes[3] > written[3]


@pytest.mark.parametrize("size", [512 << 10, 864 << 10, 1280 << 10])
def test_a_large_write_reaches_the_device_as_one(device: Loop, writer: DeviceEngine, size: int) -> None:
    """The kernel cuts a command for a loop device at 128 pieces of memory, 512 KiB of small pages."""
    queue = Path("/sys/block") / Path(device.path).name / "queue"
    assert int((queue / "max_sectors_kb").read_text()) << 10 >= size
    before = device.changes[0]
    writer.run(IoBatch.writes([0, 8 * MIB, 4 * MIB], size))
    assert device.changes[0] - before == 3


def test_with_leave_what_is_written_is_there(device: Loop, writer: DeviceEngine) -> None:
    assert writer.can_write
    offsets = [5 * MIB, 0, SIZE - 8192, 4096 * 77]
    log = writer.run(IoBatch.flushed_writes(offsets, 8192), depth=3)
    assert len(log) == 8 and (log.latency_ns > 0).all()
    content = device.backing.read_bytes()
    written = {offset + at for offset in offsets for at in range(0, 8192, 512)}
    for at in range(0, SIZE, 512):
        sector = content[at : at + 512]
        if at in written:
            assert sector[:8] == b"SKYLIGHT"
            assert int.from_bytes(sector[8:16], "little") == at
            assert all(np.frombuffer(sector[16:], np.uint64) != 0)
        else:
            assert np.array_equal(np.frombuffer(sector, np.uint64), np.arange(at // 8, at // 8 + 64))
    assert writer.counters()["writes"] == 4
    assert writer.counters()["flushes"] == 4


@pytest.mark.parametrize(
    ("batch", "depth", "words"),
    [
        (one(Op.READ, 100, 4096), 1, "must be whole blocks of 512 bytes"),
        (one(Op.WRITE, 512, 513), 1, "must be whole blocks of 512 bytes"),
        (one(Op.READ, SIZE - 512, 1024), 1, f"end beyond the target's {SIZE} bytes"),
        (one(Op.WRITE, SIZE, 512), 1, "end beyond"),
        (one(Op.READ, 2**64 - 512, 512), 1, "end beyond"),
        (one(Op.READ, 0, 0), 1, "size 0 is out of range"),
        (one(Op.READ, 0, 64 * MIB), 1, "is out of range"),
        (one(Op.TRIM, 0, 512), 1, "TRIM is not supported on real devices"),
        (one(Op.READ, 0, 512), 0, "queue depth 0 is out of range"),
        (one(Op.READ, 0, 512), 1025, "queue depth 1025 is out of range"),
        (
            IoBatch(np.array([99], np.uint8), np.zeros(1, np.uint64), np.zeros(1, np.uint32)),
            1,
            "operation 99",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_bad_batch_is_refused_before_its_first_io(
    device: Loop, writer: DeviceEngine, batch: IoBatch, depth: int, words: str
) -> None:
    good = IoBatch.reads([0, 4096], 4096)
    whole = IoBatch(
        *(np.concatenate([getattr(good, c), getattr(batch, c)]) for c in ("op", "offset", "size"))
    )
    before = (device.reads, device.changes)
    with pytest.raises(UsageError) as caught:
        writer.run(whole, depth=depth)
    assert words in str(caught.value)
    assert str(caught.value).startswith(device.path)
    assert "\n" not in str(caught.value)
    assert (device.reads, device.changes) == before


def test_a_loop_device_says_what_it_is(device: Loop, reader: DeviceEngine) -> None:
    facts = reader.describe()
    assert (facts.kind, facts.name) == ("device", device.path)
    assert (facts.size_bytes, facts.block_bytes, reader.size) == (SIZE, 512, SIZE)
    assert facts.declared["kernel_name"] == device.name
    assert facts.declared["below"] == str(device.backing)
    assert isinstance(facts.declared["rotational"], bool)
    assert reader.repeatable is False


def test_blocks_of_4096_bytes_are_respected(tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "4kn.img"), "--sector-size", "4096") as device:
        engine = DeviceEngine.open(device.path)
        assert engine.describe().block_bytes == 4096
        assert len(engine.run(one(Op.READ, 4096, 4096))) == 1
        with pytest.raises(UsageError, match="whole blocks of 4096"):
            engine.run(one(Op.READ, 512, 4096))
        engine.close()


def test_a_plain_file_is_a_target_too(tmp_path: Path) -> None:
    path = sparse(tmp_path / "plain.img", SIZE + 100)
    engine = DeviceEngine.open(str(path), destroy_data=True)
    facts = engine.describe()
    assert (facts.kind, facts.size_bytes) == ("file", SIZE - SIZE % facts.block_bytes)
    engine.run(IoBatch.writes([MIB], 4096))
    assert path.read_bytes()[MIB : MIB + 8] == b"SKYLIGHT"
    assert path.stat().st_size == SIZE + 100
    engine.close()


def test_a_closed_device_says_so(device: Loop) -> None:
    engine = DeviceEngine.open(device.path)
    engine.close()
    engine.close()
    assert open_flags(device.path) == []
    with pytest.raises(UsageError, match="was closed"):
        engine.run(one(Op.READ, 0, 512))


# --- what is stored there


PLACES = np.arange(0, SIZE - MIB // 4, MIB // 4, dtype=np.uint64)


def test_data_is_told_from_nothing_in_few_reads(device: Loop, reader: DeviceEngine) -> None:
    before = device.reads
    assert reader.holes(PLACES) == 0.0
    assert LOOKED_AT <= device.reads - before <= 2 * LOOKED_AT


@pytest.mark.parametrize("kind", ["device", "file", "written file"])
def test_zeros_are_nothing(tmp_path: Path, kind: str) -> None:
    path = sparse(tmp_path / "empty.img")
    if kind == "written file":
        path.write_bytes(bytes(SIZE))
    with loop(path) as made:
        engine = DeviceEngine.open(made.path if kind == "device" else str(path))
        assert engine.holes(PLACES) == 1.0
        assert engine.holes(PLACES[:1]) == 1.0
        assert engine.holes(PLACES[:0]) is None
        engine.close()


def test_one_byte_is_something(tmp_path: Path) -> None:
    content = bytearray(SIZE)
    content[4095::4096] = b"x" * (SIZE // 4096)
    path = tmp_path / "thin.img"
    path.write_bytes(content)
    engine = DeviceEngine.open(str(path))
    assert engine.holes(PLACES) == 0.0
    assert engine.holes(np.array([SIZE - 4096], np.uint64)) == 0.0, "the last block has none behind it"
    engine.close()
