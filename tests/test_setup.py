"""What a run of the tests asks of the machine, what begins first, and the guest that its tests share."""

import json
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from burn_in.processes import BurnInError
from conftest import LONG_FILES_S, ROOM_BYTES, check_room
from zoned_guest import inside, shared
from zoned_guest.boot import LONG_SECONDS, RESULTS, SHARE, Said, Step
from zoned_guest.shared import Guest, booted_once


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


DISKS = Guest(
    "disks",
    lambda _: [{"name": "look"}],
    (),
    hardware=lambda folder, _: nullcontext(["-device", folder.name]),
)
ZONES = Guest("zones", lambda is_long: [{"name": "look"}, {"name": "reset"}] if is_long else [], ())


def test_a_guest_is_booted_once_for_all_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps with hardware last, and each module gets what its own said."""
    boots = []

    def boot(
        folder: Path, packages: Path, steps: Sequence[Step], hardware: Sequence[str], seconds: float
    ) -> None:
        assert seconds == LONG_SECONDS
        boots.append(([step["name"] for step in steps], hardware))
        (folder / SHARE).mkdir()
        said = {step["name"]: {"code": 0, "out": step["name"], "err": ""} for step in steps}
        (folder / SHARE / RESULTS).write_text(json.dumps(said))

    monkeypatch.setattr(shared, "boot", boot)
    for _ in range(2):
        said = booted_once([DISKS, ZONES], tmp_path / "guests", is_long=True)
        assert said["disks"] == {"look": Said(0, "disks/look", "")}
        assert said["zones"]["look"] == Said(0, "zones/look", "") and len(said["zones"]) == 2
    assert boots == [(["zones/look", "zones/reset", "disks/look"], ["-device", "run"])]


def test_a_guest_that_failed_is_not_booted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(*_: object) -> None:
        raise BurnInError("the guest did not end")

    monkeypatch.setattr(shared, "boot", boot)
    for why in ("did not end", "failed for another process"):
        with pytest.raises(BurnInError, match=why):
            booted_once([ZONES], tmp_path / "guests", is_long=False)


def test_what_a_step_said_is_kept_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest that does not get to its end has said something."""
    steps, results = tmp_path / "steps.json", tmp_path / RESULTS
    steps.write_text(
        json.dumps(
            [{"name": "first", "tool": ["echo", "one"]}, {"name": "then", "tool": ["cat", str(results)]}]
        )
    )
    monkeypatch.setattr("sys.argv", ["inside", str(steps), str(results)])
    inside.main()
    said = json.loads(results.read_text())
    assert json.loads(said["then"]["out"]) == {"first": {"code": 0, "out": "one\n", "err": ""}}
