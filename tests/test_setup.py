"""What a run of the tests asks of the machine before it begins."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import LONG_FILES_S, ROOM_BYTES, check_room


def test_a_full_disk_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the folder, what it has, what is needed and what would do; enough room says nothing."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=ROOM_BYTES))
    check_room(tmp_path / "not made yet")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=ROOM_BYTES - 1))
    with pytest.raises(
        pytest.UsageError, match=r"has 1\.1 GB free, and the tests need 1\.1 GB: .*TMPDIR"
    ) as told:
        check_room(tmp_path)
    assert str(told.value).startswith(str(tmp_path))
    assert "\n" not in str(told.value)


def test_the_files_that_begin_first_are_there() -> None:
    here = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert LONG_FILES_S.keys() <= here
