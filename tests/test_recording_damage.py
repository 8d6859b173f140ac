"""Damaged recordings: what was changed is refused with one line, or has no effect."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recordings import (
    PART,
    header,
    probe,
    refused,
    rewritten,
    same,
)
from skylight.errors import UsageError
from skylight.evidence import TargetFacts
from skylight.probe.suite import infer_suite
from skylight.recording import HEADER, Recording


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole recording; tests that spoil one copy it."""
    out = tmp_path_factory.mktemp("kept") / "recording"
    probe(out)
    return out


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "recording"))


class TestDamage:
    """Arrow streams have no check sums: what is damaged reads as cut off, or as other numbers."""

    @pytest.mark.parametrize("size", [1, 20, 500])
    def test_garbage_is_refused_or_changes_nothing(
        self, copy: Path, size: int, rng: np.random.Generator
    ) -> None:
        whole = Recording.open(copy).evidence("drive_type")
        data = (copy / PART).read_bytes()
        assert whole is not None
        refusals = 0
        for at in rng.integers(0, len(data) - size, 40).tolist():
            garbage = rng.integers(0, 256, size, np.uint8).tobytes()
            (copy / PART).write_bytes(data[:at] + garbage + data[at + size :])
            try:
                read = Recording.open(copy).evidence("drive_type")
            except UsageError:
                refusals += 1
                continue
            assert read is not None
            assert same(read, whole) and read.complete, f"garbage at {at} was believed"
        assert refusals >= (38 if size == 500 else 20)

    def test_garbage_in_a_recording_that_was_interrupted_is_no_cut(self, copy: Path) -> None:
        data = (copy / PART).read_bytes()
        cut = data[: 2 * len(data) // 3]
        (copy / PART).write_bytes(cut)
        assert "cut off" in infer_suite(copy).notes[0], "the control"
        (copy / PART).write_bytes(cut + bytes(4096))
        assert "cut off" in infer_suite(copy).notes[0], "zeros are what a power cut leaves"
        (copy / PART).write_bytes(cut[:9000] + b"\xa5" * 500 + cut[9500:])
        assert "is damaged after" in refused(copy)

    @pytest.mark.parametrize("more", [b"\xa5" * 500, bytes(500) + b"\xa5"])
    def test_bytes_after_the_end(self, copy: Path, more: bytes) -> None:
        with (copy / PART).open("ab") as file:
            file.write(more)
        assert "is damaged after 4 whole steps" in refused(copy)

    @pytest.mark.parametrize("key", ["params", "rows", "event"])
    def test_a_marker_that_was_changed(self, copy: Path, key: str) -> None:
        with pa.ipc.open_stream((copy / PART).read_bytes()) as stream:
            checked = [dict(marker) for _, marker in stream.iter_batches_with_custom_metadata()]
        rewritten(copy / PART, lambda _, markers: markers.__setitem__(slice(None), checked))
        assert infer_suite(copy).findings, "the control: written again as it was"
        at, value = next(
            (at, value)
            for at, marker in enumerate(checked)
            if key in (value := json.loads(marker[b"skylight"]))
        )
        value[key] = {"event": "complete"}.get(key, {"left": 1})
        checked[at] = {b"skylight": json.dumps(value).encode()}
        rewritten(copy / PART, lambda _, markers: markers.__setitem__(slice(None), checked))
        assert "a marker of step 0 differs from its check sum" in refused(copy)

    @pytest.mark.parametrize("seed", [-1, True, 1 << 64])
    def test_a_seed_that_no_run_has(self, copy: Path, seed: int) -> None:
        header(copy, lambda head: head.update(seed=seed))
        assert f"no run has 'seed' {seed}" in refused(copy)

    def test_a_kind_of_target_that_there_is_not(self, copy: Path) -> None:
        header(copy, lambda head: head.update(target=head["target"] | {"kind": "floppy"}))
        assert "'target.kind' 'floppy' is none of sim, device, file, fio-log" in refused(copy)

    @pytest.mark.parametrize(
        "change",
        [
            {"seed": 4},
            {"tool": "0.0.1"},
            {"options": {"quick": False}},
            {"run": "0123456789abcdef"},
            {"more": 1},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_a_header_that_was_changed(self, copy: Path, change: dict[str, Any]) -> None:
        header(copy, lambda head: None)
        assert Recording.open(copy).seed == 3, "the control: written again as it was"
        header(copy, lambda head: head.update(change))
        assert "differs from its check sum 'run'" in refused(copy)

    @pytest.mark.parametrize(
        "facts_", [None, TargetFacts("file", "Größe \\udcff.img", 1 << 40, 4096, {"a": 1.5e-7})]
    )
    def test_every_flipped_bit_of_a_header_is_refused_or_without_effect(
        self, kept: Path, tmp_path: Path, facts_: TargetFacts | None
    ) -> None:
        if facts_ is None:
            data = (kept / HEADER).read_bytes()
        else:
            Recording.create(tmp_path, facts_, {"only": "", "share": 0.1, "none": None}, 1 << 63)
            data = (tmp_path / HEADER).read_bytes()
        (tmp_path / HEADER).write_bytes(data)
        whole = Recording.open(tmp_path)
        refusals = 0
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            (tmp_path / HEADER).write_bytes(flipped)
            try:
                assert Recording.open(tmp_path) == whole, f"a header with bit {bit} flipped was believed"
            except UsageError as error:
                assert "\n" not in str(error) and HEADER in str(error)
                refusals += 1
        # The exponent of a number may be E or e.
        assert 8 * len(data) - refusals <= (0 if facts_ is None else 1)
