"""Recordings: kept as they come, the same bytes for the same run, resumable, and never trusted when read."""

from __future__ import annotations

import errno
import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fake_drives import FakeDrive, Traits
from recordings import (
    KIND,
    PART,
    RESUME,
    first_rows,
    header,
    probe,
    refused,
    replaced,
    rewritten,
    same,
    without_check_sums,
)
from skylight.engines.device import DeviceFailed
from skylight.errors import KeepError, UsageError
from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.probe.suite import SuiteOptions, infer_suite
from skylight.recording import HEADER, Recording
from skylight.recording.arrow_parts import PartReader, PartWriter


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole recording; tests that spoil one copy it."""
    out = tmp_path_factory.mktemp("kept") / "recording"
    probe(out)
    return out


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "recording"))


def test_a_recording_gives_the_finding_of_the_live_run(tmp_path: Path) -> None:
    live = probe(tmp_path / "r")
    read = infer_suite(tmp_path / "r")
    assert read.findings == live.findings
    assert live.findings[0].value == "smr"
    assert same(read.evidence[0], live.evidence[0])


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    probe(tmp_path / "a")
    probe(tmp_path / "b")
    for name in (HEADER, PART):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [PART, HEADER]


def test_another_seed_gives_other_offsets(tmp_path: Path) -> None:
    one = probe(tmp_path / "a")
    other = probe(tmp_path / "b", SuiteOptions(seed=4, quick=True))
    assert not np.array_equal(one.evidence[0].log("reads").offset, other.evidence[0].log("reads").offset)


def test_plain_pyarrow_reads_it(kept: Path) -> None:
    with pa.ipc.open_stream(str(kept / PART)) as stream:
        table = stream.read_all()
    assert table.schema.names == ["step", "op", "offset", "size", "submit_ns", "complete_ns", "result"]
    evidence = Recording.open(kept).evidence("drive_type")
    assert evidence is not None
    assert table.num_rows == sum(len(step.rows) for step in evidence.steps)


def test_a_test_may_have_more_steps_than_16_bits_count(tmp_path: Path) -> None:
    """As cleaning of zones has where it is asked for its zones every quarter of a second for hours."""
    path = tmp_path / PART
    with PartWriter(path, "run", "drive_type", 0, first_step=70_000) as writer:
        writer.begin("reads", "run", {})
        writer.rows(
            IoLog.of(IoBatch.reads([0, 4096], 4096), np.array([1, 2], np.uint64), np.array([2, 3], np.uint64))
        )
        writer.end()
    with pa.ipc.open_stream(str(path)) as stream:
        assert stream.read_all()["step"].to_pylist() == [70_000, 70_000]


def test_a_recording_whose_steps_are_counted_in_16_bits_is_read(kept: Path, copy: Path) -> None:
    """Earlier versions wrote them so."""

    def narrow(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
        del markers
        for at, batch in enumerate(batches):
            batches[at] = batch.set_column(
                0, pa.field("step", pa.uint16(), False), batch["step"].cast(pa.uint16())
            )

    rewritten(copy / PART, narrow)
    whole, old = (Recording.open(path).evidence("drive_type") for path in (kept, copy))
    assert whole is not None and old is not None
    assert all(a.rows.equals(b.rows) for a, b in zip(whole.steps, old.steps, strict=True))


def test_results_come_back_and_old_recordings_have_none(kept: Path, copy: Path) -> None:
    def lacking(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
        for at, batch in enumerate(batches):
            batches[at] = batch.drop_columns(["result"])

    def failed(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
        at = first_rows(batches)
        batches[at] = replaced(batches[at], "result", np.full(len(batches[at]), 7, np.uint64))
        without_check_sums(markers)

    whole = Recording.open(kept).evidence("drive_type")
    rewritten(copy / PART, lacking)
    old = Recording.open(copy).evidence("drive_type")
    assert whole is not None
    assert old is not None
    assert all(a.rows.equals(b.rows) for a, b in zip(whole.steps, old.steps, strict=True))
    (copy / PART).write_bytes((kept / PART).read_bytes())
    rewritten(copy / PART, failed)
    with_failures = Recording.open(copy).evidence("drive_type")
    assert with_failures is not None
    assert sum(int(step.rows.failed.sum()) for step in with_failures.steps) > 0


def test_any_cut_leaves_whole_steps_and_nothing_else(
    kept: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    whole = Recording.open(kept).evidence("drive_type")
    assert whole is not None
    data = (kept / PART).read_bytes()
    (tmp_path / HEADER).write_bytes((kept / HEADER).read_bytes())
    counts = set()
    for length in sorted({0, 1, *rng.integers(0, len(data), 60).tolist(), len(data) - 9}):
        (tmp_path / PART).write_bytes(data[:length])
        try:
            cut = Recording.open(tmp_path).evidence("drive_type")
        except UsageError:
            assert length < 1024  # not even the stream's schema is there
            continue
        assert cut is not None
        assert not cut.complete or length > len(data) - 16
        assert [s.name for s in cut.steps] == [s.name for s in whole.steps][: len(cut.steps)]
        assert all(a.rows.equals(b.rows) for a, b in zip(cut.steps, whole.steps, strict=False))
        counts.add(len(cut.steps))
    assert len(counts) >= 4


def test_a_cut_recording_never_says_more_than_it_holds(copy: Path) -> None:
    data = (copy / PART).read_bytes()
    (copy / PART).write_bytes(data[: len(data) // 3])
    result = infer_suite(copy)
    assert result.findings[0].value == "unknown"
    assert "--resume" in result.findings[0].why
    assert result.notes and "cut off" in result.notes[0]


def test_interrupted_runs_resume_to_the_same_evidence(kept: Path, tmp_path: Path) -> None:
    whole = Recording.open(kept).evidence("drive_type")
    assert whole is not None
    for stop_at in (2, 4, 6):
        drive = Interrupting(KIND, stop_at=stop_at)
        out = tmp_path / str(stop_at)
        with pytest.raises(KeyboardInterrupt):
            probe(out, drive=drive)
        assert drive.calls[-1] == "restored"
        assert drive.cache_on
        resumed = probe(out, RESUME)
        assert same(resumed.evidence[0], whole)
        assert resumed.evidence[0].complete
        assert len(Recording.open(out).parts("drive_type")) == 2


def test_a_device_is_not_asked_again_for_what_is_recorded(tmp_path: Path) -> None:
    drive = Interrupting(KIND, stop_at=4)
    drive.repeatable = False
    with pytest.raises(KeyboardInterrupt):
        probe(tmp_path / "r", drive=drive)
    done = Recording.open(tmp_path / "r").evidence("drive_type")
    assert done is not None and done.step("reads") is not None
    drive.stop_at = 10**9
    drive.reads_seen = 0
    result = probe(tmp_path / "r", RESUME, drive=drive)
    assert drive.reads_seen == 0
    assert result.findings[0].value == "smr"


def test_what_a_cut_step_has_done_is_kept_apart(tmp_path: Path) -> None:
    class Failing(FakeDrive):
        def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
            if io.op[0] == Op.READ:
                return super().run(io, depth=depth)
            raise DeviceFailed("the drive: gone", super().run(io.part(0, 7), depth=depth))

    with pytest.raises(DeviceFailed):
        probe(tmp_path / "r", drive=Failing(KIND))
    evidence = infer_suite(tmp_path / "r").evidence[0]
    assert "writes-wide" not in [step.name for step in evidence.steps]
    (cut,) = evidence.cut
    assert (cut.name, len(cut.rows), set(cut.rows.op)) == ("writes-wide", 7, {Op.WRITE})


class Interrupting(FakeDrive):
    """A drive whose user presses Ctrl-C in the n-th batch."""

    def __init__(self, traits: Traits, *, stop_at: int, can_write: bool = True) -> None:
        super().__init__(traits, can_write=can_write)
        self.stop_at = stop_at
        self.batches = 0
        self.reads_seen = 0

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        self.batches += 1
        self.reads_seen += len(io) if np.all(io.op == Op.READ) else 0
        if self.batches == self.stop_at:
            raise KeyboardInterrupt
        return super().run(io, depth=depth)


def test_resuming_with_something_else_is_refused(copy: Path) -> None:
    with pytest.raises(UsageError, match="seed 3, not 4"):
        probe(copy, SuiteOptions(seed=4, quick=True, resume=True))
    with pytest.raises(UsageError, match="quick"):
        probe(copy, SuiteOptions(seed=3, resume=True))
    with pytest.raises(UsageError, match="records"):
        probe(copy, RESUME, FakeDrive(Traits(kind="cmr")))


def test_resuming_with_another_leave_is_refused(tmp_path: Path) -> None:
    for begun, words in ((True, "begun with --destroy-data"), (False, "begun without --destroy-data")):
        out = tmp_path / str(begun)
        with pytest.raises(KeyboardInterrupt):
            probe(out, drive=Interrupting(KIND, stop_at=2, can_write=begun))
        with pytest.raises(UsageError, match=words):
            probe(out, RESUME, FakeDrive(KIND, can_write=not begun))


def test_the_option_that_differs_is_named_before_the_target(copy: Path) -> None:
    with pytest.raises(UsageError, match="seed 3, not 4"):
        probe(copy, SuiteOptions(seed=4, quick=True, resume=True), FakeDrive(Traits(kind="cmr")))


def facts(kind: str, **declared: str | int) -> TargetFacts:
    return TargetFacts(kind, "a target", 1 << 30, 512, declared)


@pytest.mark.parametrize(
    ("begun", "other"),
    [
        (facts("file", file="/a/one.img", inode=7), facts("file", file="/a/two.img", inode=7)),
        (facts("file", file="/a/one.img", inode=7), facts("file", file="/a/one.img", inode=8)),
        (facts("device", model="M", serial="S"), facts("device", model="M", serial="T")),
        (facts("device", model="M", kernel_name="sdb"), facts("device", model="M", kernel_name="sdc")),
        (facts("device", model="M", serial="S"), facts("file", model="M", serial="S")),
    ],
)
def test_another_target_of_the_same_size_is_another_target(
    tmp_path: Path, begun: TargetFacts, other: TargetFacts
) -> None:
    recording = Recording.create(tmp_path / "r", begun, {}, 1)
    recording.check_same_run(begun, {}, 1)
    with pytest.raises(UsageError, match="records a target, not a target as it is now"):
        recording.check_same_run(other, {}, 1)


def test_a_name_that_is_no_text_is_kept_escaped(tmp_path: Path) -> None:
    name = b"/disks/bad\xff\n.img".decode("utf-8", "surrogateescape")
    Recording.create(tmp_path / "r", TargetFacts("file", name, 1 << 30, 512), {}, 1)
    assert Recording.open(tmp_path / "r").target.name == "/disks/bad\\udcff\\n.img"


def test_only_an_unused_recording_is_forgotten(kept: Path, copy: Path, tmp_path: Path) -> None:
    Recording.forget_unused(copy)
    assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in kept.iterdir())
    unused = tmp_path / "unused"
    Recording.create(unused, TargetFacts("sim", "sim:x", 1 << 30, 512), {}, 1).part("drive_type").close()
    (unused / "mine.txt").write_text("keep me")
    (unused / "fio").mkdir()
    (unused / "fio/00001-drive_type.fio").touch()
    Recording.forget_unused(unused)
    assert [path.name for path in unused.iterdir()] == ["mine.txt"]
    Recording.forget_unused(tmp_path / "absent")


def test_a_drive_that_behaves_otherwise_is_noticed_on_resume(copy: Path) -> None:
    data = (copy / PART).read_bytes()
    (copy / PART).write_bytes(data[: 2 * len(data) // 3])
    with pytest.raises(UsageError, match="another drive, seed or version"):
        probe(copy, RESUME, FakeDrive(KIND, seed=99))


def test_a_recording_is_not_overwritten_unasked(copy: Path) -> None:
    before = (copy / PART).read_bytes()
    with pytest.raises(UsageError, match="--resume"):
        probe(copy)
    assert (copy / PART).read_bytes() == before


class TestRefusals:
    def test_no_directory(self, tmp_path: Path) -> None:
        assert "no such recording" in refused(tmp_path / "absent")

    def test_empty_directory(self, tmp_path: Path) -> None:
        assert HEADER in refused(tmp_path)

    def test_header_alone(self, copy: Path) -> None:
        (copy / PART).unlink()
        assert "no evidence" in refused(copy)

    def test_empty_part(self, copy: Path) -> None:
        (copy / PART).write_bytes(b"")
        result = infer_suite(copy)
        assert result.findings[0].value == "unknown"
        assert "empty" in result.notes[0]

    @pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"format": "other"}', "\x00\xff"])
    def test_header_that_is_none(self, copy: Path, text: str) -> None:
        (copy / HEADER).write_bytes(text.encode("latin-1"))
        refused(copy)

    def test_wrong_schema_version(self, copy: Path) -> None:
        header(copy, lambda value: value.update(schema=2))
        assert "schema 2" in refused(copy)

    @pytest.mark.parametrize("name", ["size_bytes", "block_bytes"])
    @pytest.mark.parametrize("value", [-5, 0, True, 10**23])
    def test_a_header_with_bytes_that_no_drive_has(self, copy: Path, name: str, value: int) -> None:
        header = json.loads((copy / HEADER).read_text())
        header["target"][name] = value
        (copy / HEADER).write_text(json.dumps(header))
        with pytest.raises(UsageError, match=f"no drive has 'target.{name}' {value}; probe"):
            Recording.open(copy)

    def test_a_folder_in_place_of_a_part_is_named_with_a_reason(self, copy: Path) -> None:
        (copy / PART).unlink()
        (copy / PART).mkdir()
        with pytest.raises(UsageError, match=r"cannot be read: .+; check its permissions") as refused:
            Recording.open(copy).evidence("drive_type")
        assert "Success" not in str(refused.value)

    @pytest.mark.parametrize("name", ["target", "options", "seed", "run"])
    def test_header_without_a_key(self, copy: Path, name: str) -> None:
        header(copy, lambda value: value.pop(name))
        assert name in refused(copy)

    def test_foreign_file(self, copy: Path) -> None:
        (copy / PART).write_bytes(b"PAR1 this is something else" * 100)
        assert "not an Arrow IPC stream" in refused(copy)

    def test_foreign_arrow_stream(self, copy: Path) -> None:
        table = pa.table({"a": [1, 2]})
        with (copy / PART).open("wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)
        assert "not evidence of Skylight" in refused(copy)

    def test_unknown_test(self, copy: Path) -> None:
        shutil.copy(copy / PART, copy / "other_test.0.arrows")
        assert "other_test" in refused(copy)

    def test_file_of_another_recording(self, copy: Path, tmp_path: Path) -> None:
        probe(tmp_path / "other", SuiteOptions(seed=8, quick=True))
        shutil.copy(tmp_path / "other" / PART, copy / PART)
        assert "another recording" in refused(copy)

    def test_renamed_part(self, copy: Path) -> None:
        shutil.copy(copy / PART, copy / "drive_type.1.arrows")
        assert "was written as drive_type.0" in refused(copy)

    def test_missing_part(self, copy: Path) -> None:
        (copy / PART).rename(copy / "drive_type.1.arrows")
        assert "missing" in refused(copy)

    @pytest.mark.parametrize("name", ["step", "op", "offset", "size", "submit_ns", "complete_ns"])
    def test_missing_column(self, copy: Path, name: str) -> None:
        def drop(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            batches[:] = [batch.drop_columns([name]) for batch in batches]

        rewritten(copy / PART, drop)
        assert repr(name) in refused(copy)

    def test_column_of_another_type(self, copy: Path) -> None:
        def widen(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            index = batches[0].schema.get_field_index("size")
            for i, batch in enumerate(batches):
                batches[i] = batch.set_column(index, "size", batch.column("size").cast(pa.float64()))

        rewritten(copy / PART, widen)
        assert "double" in refused(copy)

    def test_columns_in_another_order_are_read(self, copy: Path) -> None:
        before = infer_suite(copy).findings

        def turn(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            batches[:] = [batch.select(batch.schema.names[::-1]) for batch in batches]

        rewritten(copy / PART, turn)
        assert infer_suite(copy).findings == before

    def test_reordered_rows(self, copy: Path) -> None:
        def turn(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            at = first_rows(batches)
            batches[at] = batches[at].take(pa.array(range(batches[at].num_rows - 1, -1, -1)))

        rewritten(copy / PART, turn)
        assert "damaged" in refused(copy)

    def test_reordered_batches(self, copy: Path) -> None:
        def turn(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            batches.reverse()
            markers.reverse()

        rewritten(copy / PART, turn)
        assert "not in order" in refused(copy)

    def test_changed_value(self, copy: Path) -> None:
        def slower(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            at = first_rows(batches)
            times = batches[at].column("complete_ns").to_numpy().copy()
            times[3] += 1
            batches[at] = replaced(batches[at], "complete_ns", times)

        rewritten(copy / PART, slower)
        assert "damaged" in refused(copy)

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("op", 10, "unknown operation"),
            ("result", 200, "a result that no I/O has"),
            ("result", 4096, "a result that no I/O has"),
            ("complete_ns", 0, "before it was submitted"),
            ("complete_ns", (1 << 64) - 1, "a time that no clock shows"),
            ("offset", 1 << 62, "past the end"),
            ("offset", (1 << 64) - 1, "past the end"),
            ("submit_ns", 0, "in the order"),
        ],
    )
    def test_impossible_rows_without_a_check_sum(self, copy: Path, name: str, value: int, words: str) -> None:
        def spoil(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            at = first_rows(batches)
            column = batches[at].column(name).to_numpy().copy()
            column[-1] = value
            batches[at] = replaced(batches[at], name, column)
            without_check_sums(markers)

        rewritten(copy / PART, spoil)
        assert words in refused(copy)

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("left_ns", "abc", "left_ns 'abc', not a number from 0"),
            ("left_ns", -1, "left_ns -1"),
            ("left_ns", True, "left_ns True"),
            ("holes", 1.5, "holes 1.5, not a number from 0 to 1"),
            ("depth", [1], "no usable 'depth'"),
            ("depth", float("inf"), "no usable 'depth'"),
        ],
    )
    def test_a_parameter_that_no_test_can_use(self, copy: Path, name: str, value: object, words: str) -> None:
        def spoil(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            for i, marker in enumerate(markers):
                event = json.loads(dict(marker)[b"skylight"])
                if "depth" in event.get("params", {}):
                    event["params"][name] = value
                    markers[i] = {b"skylight": json.dumps(event).encode()}

        rewritten(copy / PART, spoil)
        assert words in refused(copy)

    @pytest.mark.parametrize("seconds", [float("nan"), 1e300, -1, "long", None])
    def test_a_pause_that_nobody_made(self, tmp_path: Path, seconds: float) -> None:
        recording = Recording.create(tmp_path, TargetFacts("sim", "sim:x", 1 << 30, 512), {}, 1)
        with recording.part("drive_type") as writer:
            writer.begin("rest", "pause", {"seconds": seconds})
            writer.end()
        assert "'seconds'" in refused(tmp_path)

    def test_a_header_that_is_nested_without_end(self, copy: Path) -> None:
        (copy / HEADER).write_text("[" * 100_000)
        assert "not the header of a recording" in refused(copy)

    def test_a_batch_without_a_marker(self, copy: Path) -> None:
        def strip(batches: list[pa.RecordBatch], markers: list[Any]) -> None:
            markers[first_rows(batches)] = None

        rewritten(copy / PART, strip)
        assert "no step explains" in refused(copy)


class TestKeeping:
    def test_a_full_disk_is_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recording = Recording.create(tmp_path, TargetFacts("sim", "sim:x", 1 << 30, 512), {}, 1)
        writer = recording.part("drive_type")

        def full() -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(KeepError, match="no space left") as caught, writer:
            monkeypatch.setattr(writer, "_file", FailingFile(writer._file, full))
            writer.begin("reads", "run", {})
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 4

    def test_a_kernel_that_takes_no_more_is_one_line_and_resumable(self, tmp_path: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
        drive = FakeDrive(KIND)
        try:
            with pytest.raises(KeepError, match="cannot be written"):
                probe(tmp_path / "r", drive=drive)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert drive.calls[-1] == "restored"
        assert probe(tmp_path / "r", RESUME).findings[0].value == "smr"

    def test_a_place_that_cannot_be_written_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(KeepError, match="evidence cannot be written"):
            probe(tmp_path / "file" / "r")

    def test_the_header_is_whole_or_absent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def cut(self: Path, target: Path) -> Path:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "replace", cut)
        with pytest.raises(KeepError, match="no space left"):
            Recording.create(tmp_path, TargetFacts("sim", "sim:x", 1 << 30, 512), {}, 1)
        assert list(tmp_path.iterdir()) == []


class FailingFile:
    """A file whose flush fails."""

    def __init__(self, file: object, fail: Callable[[], None]) -> None:
        self._file = file
        self.flush = fail

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_a_run_is_gone_on_with_by_the_suite_that_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        probe(tmp_path / "r", drive=Interrupting(KIND, stop_at=4))
    monkeypatch.setattr("skylight.probe.suite.suite_digest", lambda: "another")
    with pytest.raises(UsageError, match="another version of the tests"):
        probe(tmp_path / "r", RESUME)


def test_evidence_that_is_not_whole_says_so(copy: Path) -> None:
    data = (copy / PART).read_bytes()
    (copy / PART).write_bytes(data[: len(data) // 2])
    finding = infer_suite(copy).findings[0]
    assert finding.known or "--resume" in finding.why


@pytest.mark.parametrize("together", [1, 4096])
def test_few_rows_are_not_compressed_and_those_of_an_emulated_step_go_together(
    tmp_path: Path, together: int
) -> None:
    """Pieces of one and of hundreds of rows: to compress each took half the time of long probes."""
    path, counts = tmp_path / PART, (1, 300, 2, 40)
    begins = np.cumsum([0, *counts])
    logs = [
        IoLog.of(IoBatch.reads(np.arange(count) * 4096, 4096), times, times + np.uint64(1))
        for count, begin in zip(counts, begins, strict=False)
        for times in [np.arange(begin, begin + count, dtype=np.uint64)]
    ]
    with PartWriter(path, "run", "drive_type", 0, 0, together=together) as writer:
        for number in (1, 2):
            writer.begin(f"reads-{number}", "run", {})
            for log in logs:
                writer.rows(log)
            writer.end()
        writer.complete()
    with pa.ipc.open_stream(str(path)) as stream:
        rows = [batch.num_rows for batch in stream if batch.num_rows]
    assert rows == ([*counts, *counts] if together == 1 else [343, 343])
    reader = PartReader(path, TargetFacts("sim", "sim:x", 1 << 30, 512), "run", "drive_type", 0, 0)
    reader.read()
    assert reader.complete and reader.note is None
    assert all(step.rows.equals(IoLog.joined(logs)) for step in reader.steps)
